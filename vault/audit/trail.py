"""The audit trail of a tenant: who did what with which session, why that was allowed, and what came of it.

It is a log like any other, kept by the vault: sealed, chained, its head in the signed ledger, so an entry
that is removed, changed, reordered or rolled back is found as in a session. What was shared, and for whom
glass was broken, is read from it and proved complete. People stand in it as blind indexes: who may look, and
knows a name, finds its entries; nothing leads from an entry to a name.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from vault.access.door import TrailLeave
from vault.errors import Conflict, NotFound
from vault.model import SessionId, format_id, session_bytes
from vault.policy.access import Share
from vault.sessions.log import decode_event
from vault.sessions.read import verified_view
from vault.sessions.refs import events_about
from vault.sessions.service import Sessions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from vault.access.door import Door, Grant
    from vault.model import Event
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log
    from vault.sessions.session import Session

#: Types of entries.
USED: Final = "access.used"
GIVEN: Final = "share.given"
REVOKED: Final = "share.revoked"
ASKED: Final = "glass.asked"
BROKEN: Final = "glass.broken"
MENDED: Final = "glass.mended"
REVEALED: Final = "pseudonym.revealed"
ENTERED: Final = "principal.added"
LEFT: Final = "principal.removed"
FOUNDED: Final = "tenant.added"

#: The part of an entry that names people and tenants; only the directory shows it.
NAMED: Final = "named"

_EXTERNAL: Final = "audit-trail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a trail. ``who`` is a blind index in hexadecimal; ``said`` what else it says."""

    seq: int
    at: datetime
    what: str
    who: str
    session_id: SessionId | None
    said: dict[str, Any] = field(repr=False)


class AuditTrail:
    """The audit trails of a vault's tenants; each is made when there is something to record."""

    def __init__(self, log: Log, door: Door) -> None:
        """Keep the trails in the same log as the sessions."""
        self._log, self._door = log, door
        self._kept: dict[bytes, Session] = {}
        self._lock = threading.Lock()

    def shares(self, tenant: TenantKeys, session_id: bytes, whom: Sequence[bytes]) -> list[Share]:
        """What was shared of one session with any of these, as the newest entry of each says."""
        found = []
        for who in whom:
            entry = self.newest(tenant, "share", session_id, who)
            if entry is not None and entry.what == GIVEN:
                found.append(share_of(entry))
        return found

    def broken_glass(self, tenant: TenantKeys, session_id: bytes, who: bytes) -> bool:
        """Whether somebody has an open break-glass access to a session."""
        entry = self.newest(tenant, "glass", session_id, who)
        if entry is None or entry.what != BROKEN:
            return False
        return bool(self._log.clock.now_us() < entry.said["until_us"])

    def record(self, grant: Grant, session_id: bytes, roles: frozenset[str]) -> None:
        """Record what a grant is about to allow; durable before this returns."""
        said = {
            "action": grant.action,
            "level": grant.level,
            "roles": sorted(roles),
            "why": grant.reason,
            "outcome": "allowed",
        }
        self.write(grant.tenant, USED, grant.who, session_id, said)

    def write(
        self,
        tenant: TenantKeys,
        what: str,
        who: bytes,
        session_id: bytes,
        said: dict[str, Any],
        *,
        about: tuple[str, bytes] | None = None,
        event_id: str | None = None,
    ) -> Entry:
        """Append an entry.

        Args:
            tenant: whose trail.
            what: the type of the entry.
            who: the blind index of who did it.
            session_id: the session it is about; empty for none.
            said: what else, as JSON.
            about: a kind and a blind index that ``newest`` finds it by, together with the session.
            event_id: its id, where no two entries may have the same.

        Raises:
            Conflict: there is another entry with this id.
        """
        payload = {"who": who.hex(), "session": session_id.hex(), **said}
        resource = None if about is None else _resource(about[0], session_id, about[1])
        stored = self._trail(tenant, create=True)
        assert stored is not None  # noqa: S101 - told to the type checker
        return _entry(stored.append(what, payload, resource=resource, event_id=event_id))

    def newest(self, tenant: TenantKeys, kind: str, session_id: bytes, who: bytes) -> Entry | None:
        """The newest entry of a kind about somebody and a session; proved to be the newest."""
        kept = self._trail(tenant, create=False)
        if kept is None:
            return None
        grant = self._door.for_trail(tenant)
        ref = tenant.blind("resource", _resource(kind, session_id, who))
        trail = session_bytes(kept.id)
        with verified_view(self._log, grant, trail) as found:
            rows = events_about(found.reader, found.keys, found.row, ref)
        if not rows:
            return None
        return _entry(decode_event(self._log, grant, found.keys, trail, rows[-1]))

    def entries(
        self,
        tenant: TenantKeys,
        *,
        types: Sequence[str] | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> Iterator[Entry]:
        """The entries of a tenant's trail."""
        kept = self._trail(tenant, create=False)
        if kept is not None:
            for event in kept.events(types=types, newest_first=newest_first, limit=limit):
                yield _entry(event)

    def owner(self, tenant: TenantKeys) -> bytes:
        """Whose the trail's own session is: of no subject."""
        return self._door.for_trail(tenant).owner

    @staticmethod
    def without_names(entry: Entry) -> Entry:
        """An entry as a look at the trail shows it."""
        return replace(entry, said={name: part for name, part in entry.said.items() if name != NAMED})

    def _trail(self, tenant: TenantKeys, *, create: bool) -> Session | None:
        known = self._kept.get(tenant.tenant_id)
        if known is not None:
            return known
        sessions = Sessions(self._log, TrailLeave(self._door, tenant))
        with self._lock:
            try:
                kept = sessions.resume_external(_EXTERNAL)
            except NotFound:
                if not create:
                    return None
                try:
                    kept = sessions.create(external_id=_EXTERNAL)
                except Conflict:  # another process made it meanwhile
                    kept = sessions.resume_external(_EXTERNAL)
            self._kept[tenant.tenant_id] = kept
        return kept


def share_of(entry: Entry) -> Share:
    """What an entry of a share allows."""
    return Share(
        level=entry.said["level"], may=frozenset(entry.said["may"]), until_us=entry.said.get("until_us")
    )


def _resource(kind: str, session_id: bytes, who: bytes) -> str:
    return f"{kind}/{session_id.hex()}/{who.hex()}"


def _entry(event: Event) -> Entry:
    said = dict(event.payload)
    who, session = said.pop("who"), bytes.fromhex(said.pop("session"))
    return Entry(
        seq=event.seq,
        at=event.recorded_at,
        what=event.type,
        who=who,
        session_id=SessionId(format_id("ses", session)) if session else None,
        said=said,
    )
