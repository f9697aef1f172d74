"""Administering a tenant without its content: who is registered in which roles, which tenants, how much.

The directory is a part of the tenant's audit trail: who registered whom is an entry like any other. Names are
sealed in it and shown to who may look at the directory; a look at the trail shows blind indexes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vault.audit.trail import ENTERED, FOUNDED, LEFT, NAMED
from vault.errors import Conflict, InvalidInput, LimitExceeded, NotFound, Tampered
from vault.model import check_name
from vault.policy.access import ROLES

if TYPE_CHECKING:
    from datetime import datetime

    from vault.access.door import Leave
    from vault.audit.trail import AuditTrail, Entry
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log

#: Entries about who is registered that are read; some 0.1 ms for each.
DIRECTORY_ENTRIES_MAX: Final = 10_000
_ADMINISTRATOR: Final = "administrator"
_NO_TENANT: Final = "there is no such tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """Somebody as the directory of a tenant names them; one who was removed has no role."""

    subject: str = field(repr=False)
    roles: frozenset[str]
    teams: frozenset[str] = field(repr=False)
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCounts:
    """How much a tenant holds. ``bytes`` are those of sealed payloads; ``added_at`` is None for one's own."""

    name: str = field(repr=False)
    sessions: int
    events: int
    bytes: int
    added_at: datetime | None


class Admin:
    """What an administrator does: principals and tenants, never content."""

    def __init__(self, log: Log, leave: Leave, trail: AuditTrail) -> None:
        """Made by ``Vault.access``."""
        self._log, self._leave, self._trail = log, leave, trail

    def add_principal(self, subject: str, *, roles: Iterable[str], teams: Iterable[str] = ()) -> Entry:
        """Register somebody in the tenant's directory; a later entry replaces an earlier one.

        Raises:
            NotFound: no leave to manage.
            InvalidInput: a name, a role or a team that is none.
            Conflict: it would leave the directory without an administrator.
        """
        grant = self._leave.tenant("manage")
        given, of = _checked_roles(roles), _checked_teams(teams)
        check_name(subject, "a subject")
        if _ADMINISTRATOR not in given:
            self._keep_an_administrator(grant.tenant, subject)
        said = {"roles": given, NAMED: {"subject": subject, "teams": of}}
        return self._entered(grant.tenant, grant.who, ENTERED, subject, said)

    def remove_principal(self, subject: str) -> Entry:
        """Take somebody out of the directory; they have no role any more.

        Raises:
            NotFound: no leave to manage, or nobody of that name is registered.
            Conflict: it would leave the directory without an administrator.
        """
        grant = self._leave.tenant("manage")
        check_name(subject, "a subject")
        before = self._trail.newest(grant.tenant, "principal", b"", grant.tenant.owner(subject))
        if before is None or before.what != ENTERED:
            raise NotFound("nobody of this name is registered")
        self._keep_an_administrator(grant.tenant, subject)
        said = {NAMED: {"subject": subject}}
        return self._entered(grant.tenant, grant.who, LEFT, subject, said)

    def principals(self) -> list[Registered]:
        """Who is registered now, by name.

        Raises:
            NotFound: no leave to look at the directory.
            LimitExceeded: it has more entries than are read.
        """
        return self._listed(self._leave.tenant("directory").tenant)

    def myself(self) -> Registered | None:
        """What the directory says of who asks; None when there is no directory.

        Whoever is not registered where there is one has the roles ``agent`` and ``owner``, as anybody.
        """
        who = self._leave.principal
        tenant = self._log.keys.tenant(who.tenant, create=False)
        if tenant is None:
            return None
        entry = self._trail.newest(tenant, "principal", b"", tenant.owner(who.subject))
        if entry is not None:
            return _registered(entry)
        anybody = next(self._trail.entries(tenant, types=(ENTERED,), newest_first=True, limit=1), None)
        if anybody is None:
            return None
        roles, teams = frozenset({"agent", "owner"}), frozenset[str]()
        return Registered(subject=who.subject, roles=roles, teams=teams, since=anybody.at)

    def add_tenant(self, name: str, *, administrator: str | None = None) -> Entry:
        """Make another tenant known, and whom its directory begins with.

        Raises:
            NotFound: no leave to manage.
            InvalidInput: a name that is none.
            Conflict: there is a tenant of this name.
        """
        grant = self._leave.tenant("manage")
        check_name(name, "a tenant")
        if administrator is not None:
            check_name(administrator, "a subject")
        if self._log.keys.tenant(name, create=False) is not None:
            raise Conflict("there is a tenant of this name already")
        # Recorded first: a tenant that a crash leaves unmade can be added again, and one unrecorded cannot.
        said = {NAMED: {"tenant": name}}
        entry = self._trail.write(grant.tenant, FOUNDED, grant.who, b"", said)
        made = self._log.keys.tenant(name, create=True)
        if made is not None and administrator is not None:
            first = {"roles": [_ADMINISTRATOR], NAMED: {"subject": administrator, "teams": []}}
            who = made.blind("tenant", self._leave.principal.tenant)  # nobody of that tenant did it
            self._entered(made, who, ENTERED, administrator, first)
        return entry

    def tenants(self) -> list[TenantCounts]:
        """One's own tenant, and those that were added from it, with how much they hold.

        Raises:
            NotFound: no leave to look at the directory.
        """
        grant = self._leave.tenant("directory")
        added = self._added(grant.tenant)
        own = self._leave.principal.tenant
        return [self._counted(own, None), *(self._counted(name, at) for name, at in sorted(added.items()))]

    def tenant(self, name: str | None = None) -> TenantCounts:
        """How much one of these tenants holds; one's own without a name.

        Raises:
            NotFound: no leave to look at the directory, or no such tenant was added from one's own.
        """
        grant, own = self._leave.tenant("directory"), self._leave.principal.tenant
        if name is None or name == own:
            return self._counted(own, None)
        added = self._added(grant.tenant)
        if name not in added:
            raise NotFound(_NO_TENANT)
        return self._counted(name, added[name])

    def _entered(
        self, tenant: TenantKeys, who: bytes, what: str, subject: str, said: dict[str, Any]
    ) -> Entry:
        whom = tenant.owner(subject)
        about = ("principal", whom)
        entry = self._trail.write(tenant, what, who, b"", {"of": whom.hex(), **said}, about=about)
        return self._trail.without_names(entry)

    def _keep_an_administrator(self, tenant: TenantKeys, besides: str) -> None:
        others = [one for one in self._listed(tenant) if one.subject != besides]
        if not any(_ADMINISTRATOR in one.roles for one in others):
            raise Conflict("a directory has an administrator: register one first, yourself for example")

    def _listed(self, tenant: TenantKeys) -> list[Registered]:
        newest: dict[str, Entry] = {}
        limit = DIRECTORY_ENTRIES_MAX + 1
        for read, entry in enumerate(self._trail.entries(tenant, types=(ENTERED, LEFT), limit=limit)):
            if read == DIRECTORY_ENTRIES_MAX:
                raise LimitExceeded(f"a directory has at most {DIRECTORY_ENTRIES_MAX} entries")
            newest[entry.said["of"]] = entry
        found = [_registered(entry) for entry in newest.values() if entry.what == ENTERED]
        return sorted(found, key=lambda one: one.subject)

    def _added(self, tenant: TenantKeys) -> dict[str, datetime]:
        entries = self._trail.entries(tenant, types=(FOUNDED,), limit=DIRECTORY_ENTRIES_MAX)
        return {entry.said[NAMED]["tenant"]: entry.at for entry in entries}

    def _counted(self, name: str, added_at: datetime | None) -> TenantCounts:
        tenant = self._log.keys.tenant(name, create=False)
        counts: tuple[Any, ...] = (0, 0, 0, 0)
        if tenant is not None:
            trail = self._trail.owner(tenant)
            with self._log.records.snapshot() as reader:
                counts = next(reader.scan("counts_of_tenant", tenant_id=tenant.tenant_id, trail=trail))
        if not all(isinstance(count, int) for count in counts):
            raise Tampered("the database holds a value of the wrong kind")
        sessions, events, inline, apart = counts
        size = inline + apart
        return TenantCounts(name=name, sessions=sessions, events=events, bytes=size, added_at=added_at)


def _registered(entry: Entry) -> Registered:
    said, named = entry.said, entry.said[NAMED]
    return Registered(
        subject=named["subject"],
        roles=frozenset(said.get("roles", ())),
        teams=frozenset(named.get("teams", ())),
        since=entry.at,
    )


def _checked_roles(roles: Iterable[str]) -> list[str]:
    given = list(roles) if isinstance(roles, Iterable) and not isinstance(roles, str) else []
    if not given or any(role not in ROLES for role in given):
        raise InvalidInput(f"roles are a list of one or more of {', '.join(ROLES)}")
    return sorted(set(given))


def _checked_teams(teams: Iterable[str]) -> list[str]:
    if isinstance(teams, str) or not isinstance(teams, Iterable):
        raise InvalidInput("teams are a list of names")
    return sorted({check_name(team, "a team") for team in teams})
