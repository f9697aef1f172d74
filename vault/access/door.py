"""Checks a principal and makes the Grant that a use case needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from vault.access.grant import Grant
from vault.errors import NotFound
from vault.policy.access import Decision, decide, decide_shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.access.grant import Ask
    from vault.access.trail import Trail
    from vault.clock import Clock
    from vault.model import Principal
    from vault.sealing.keys import KeyHierarchy
    from vault.sealing.uses import TenantKeys

__all__ = ["Authorise", "Door", "Grant", "Leave", "TrailLeave"]

_ABSENT: Final = "there is no such session"
#: The owner of a tenant's audit trail: no subject has this blind index.
_TRAIL: Final = "audit-trail"
#: What shows content, and is recorded of owners too where the vault's settings want it.
_SHOWING: Final = ("read", "fork", "list")


class Authorise(Protocol):
    """Asks the door, for one principal and one session, each time something is done."""

    def __call__(self, action: str, *, recorded: bool = True) -> Grant:
        """Leave for one action; ``recorded``: it goes into the audit trail if it is not the owner's own.

        Raises:
            NotFound: not allowed, or not there.
        """
        ...


class Leave:
    """Asks the door for one principal."""

    def __init__(self, door: Door, principal: Principal, check_open: Callable[[], None]) -> None:
        """Ask for this principal, as long as the vault is open."""
        self._door, self._principal, self._check_open = door, principal, check_open

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self._principal

    @property
    def roles(self) -> frozenset[str]:
        """The roles that it asks in."""
        return self._principal.roles

    def __call__(self, action: str, *, recorded: bool = True) -> Grant:
        """Leave for an action with the principal's own sessions."""
        self._check_open()
        return self._door.authorise(self._principal, action, recorded=recorded)

    def session(
        self, action: str, session_id: bytes, owner: bytes | None = None, *, recorded: bool = True
    ) -> Grant:
        """Leave for an action with one session, whoever owns it."""
        self._check_open()
        return self._door.authorise_session(self._principal, action, session_id, owner, recorded=recorded)

    def tenant(self, action: str, *, create: bool = False) -> Grant:
        """Leave for an action with the principal's tenant as a whole; ``create``: made if nobody knows it."""
        self._check_open()
        return self._door.authorise_tenant(self._principal, action, create=create)

    def export(self, subject: str) -> Grant:
        """Leave to give a person all that is kept about them."""
        self._check_open()
        return self._door.authorise_export(self._principal, subject)

    def listing(self, subject: str | None) -> Grant:
        """Leave for a list of sessions: one's own, or by one's role those of the tenant."""
        self._check_open()
        return self._door.authorise_listing(self._principal, subject)

    def of(self, session_id: bytes, owner: bytes) -> Authorise:
        """What a handle of one session asks."""

        def authorise(action: str, *, recorded: bool = True) -> Grant:
            return self.session(action, session_id, owner, recorded=recorded)

        return authorise


class TrailLeave(Leave):
    """Asks the door for the vault itself, which keeps a tenant's audit trail."""

    def __init__(self, door: Door, tenant: TenantKeys) -> None:
        """Ask for one tenant's trail."""
        self._grant = door.for_trail(tenant)

    def __call__(self, action: str, *, recorded: bool = True) -> Grant:  # noqa: ARG002 - the same for all
        """Leave to keep the trail."""
        return self._grant

    def session(
        self,
        action: str,  # noqa: ARG002
        session_id: bytes,  # noqa: ARG002
        owner: bytes | None = None,  # noqa: ARG002
        *,
        recorded: bool = True,  # noqa: ARG002
    ) -> Grant:
        """Leave to keep the trail."""
        return self._grant


class Door:
    """Where Grants are made."""

    def __init__(
        self,
        keys: KeyHierarchy,
        clock: Clock,
        owner_of: Callable[[bytes, bytes], bytes | None],
        trail: Callable[[], Trail],
        *,
        own_reads: bool = False,
    ) -> None:
        """Check against the vault's keys.

        Args:
            keys: the vault's.
            clock: for shares that end.
            owner_of: the blind index of a session's owner, by session and tenant; None for an absent one.
            trail: the audit trail, once there is one.
            own_reads: whether owners' own reads go into it too.
        """
        self._keys, self._clock, self._owner_of, self._trail = keys, clock, owner_of, trail
        self._own_reads = own_reads

    def authorise(
        self, principal: Principal, action: str, session_id: bytes = b"", *, recorded: bool = True
    ) -> Grant:
        """Leave for the principal to do an action with its own sessions, or one of them.

        Raises:
            NotFound: not allowed, or nothing there; a caller cannot tell which.
        """
        decision = decide(principal.roles, action)
        if not decision.allowed:
            raise NotFound(_ABSENT)
        tenant = self._tenant(principal, create=action == "create")
        owner = tenant.owner(principal.subject)
        grant = Grant(
            action=action,
            tenant=tenant,
            owner=owner,
            reason=decision.reason,
            who=owner,
            _ask=self._along(principal),
        )
        if self._own_reads and recorded and action in _SHOWING:
            self._trail().record(grant, session_id, principal.roles)
        return grant

    def authorise_session(
        self,
        principal: Principal,
        action: str,
        session_id: bytes,
        owner: bytes | None = None,
        *,
        recorded: bool = True,
    ) -> Grant:
        """Leave to do an action with one session, whoever owns it.

        Args:
            principal: who asks.
            action: what for.
            session_id: which session.
            owner: whose a handle says it is; spares the owner a look-up.
            recorded: whether this goes into the audit trail; a check that is made again does not.

        Raises:
            NotFound: not allowed, or nothing there; both take the same look-ups.
        """
        tenant = self._tenant(principal, create=False)
        me = tenant.owner(principal.subject)
        held = owner is not None
        if owner != me:  # what a handle says of others is not believed: it may be of another tenant
            owner = self._owner_of(session_id, tenant.tenant_id)
        if owner == self.for_trail(tenant).owner:
            owner = None  # a trail is read by who may audit, through Audit; as a session it is nobody's
        if owner == me:
            return self.authorise(principal, action, session_id, recorded=recorded)
        decision = self._of_another(principal, action, tenant, session_id)
        if owner is None or not decision.allowed:
            if held:
                raise NotFound(_ABSENT)
            # As if it were the principal's own: the use case then tells an absent session from one whose row
            # was taken away or given to somebody else while its key remains.
            return self.authorise(principal, action, recorded=False)
        grant = Grant(
            action=action,
            tenant=tenant,
            owner=owner,
            reason=decision.reason,
            level=decision.level,
            own=False,
            who=me,
            _ask=self._along(principal),
        )
        if recorded:
            self._trail().record(grant, session_id, principal.roles)
        return grant

    def authorise_shared(self, principal: Principal, session_id: bytes) -> Grant | None:
        """Leave to read a session that a fork shares a log with, whoever owns it; None without any now.

        It goes into the audit trail when something of it is first opened.
        """
        tenant = self._tenant(principal, create=False)
        me, owner = tenant.owner(principal.subject), self._owner_of(session_id, tenant.tenant_id)
        if owner == me:
            return self.authorise(principal, "read", recorded=False)  # the read of the fork is
        decision = self._of_another(principal, "read", tenant, session_id)
        if owner is None or not decision.allowed:
            return None
        recorded: list[Grant] = []

        def used() -> None:
            if not recorded:
                self._trail().record(grant, session_id, principal.roles)
                recorded.append(grant)

        grant = Grant(
            action="read",
            tenant=tenant,
            owner=owner,
            reason=decision.reason,
            level=decision.level,
            own=False,
            who=me,
            used=used,
            _ask=self._along(principal),
        )
        return grant

    def for_masking(self, principal: Principal, session_id: bytes) -> Grant | None:
        """Leave for the vault itself to learn which words it has to hide in a view; it shows nothing."""
        tenant = self._tenant(principal, create=False)
        owner = self._owner_of(session_id, tenant.tenant_id)
        if owner is None:
            return None
        reason = "what a session names is hidden in views of its forks"
        return Grant(
            action="mask",
            tenant=tenant,
            owner=owner,
            reason=reason,
            level="L0",
            own=False,
            _ask=self._along(principal),
        ).masking()

    def authorise_tenant(self, principal: Principal, action: str, *, create: bool = False) -> Grant:
        """Leave for an action with a tenant as a whole: its audit trail, its list of sessions.

        Args:
            principal: who asks.
            action: what for.
            create: whether a tenant that nobody used yet gets its keys now: for what somebody decides about
                all that will be in it, never for a look.

        Raises:
            NotFound: not allowed, or there is no such tenant.
        """
        decision = decide(principal.roles, action, "tenant")
        if not decision.allowed:
            raise NotFound(_ABSENT)
        tenant = self._tenant(principal, create=create or action == "manage")  # whoever makes it known
        grant = Grant(
            action=action,
            tenant=tenant,
            owner=b"",
            reason=decision.reason,
            level=decision.level,
            own=False,
            who=tenant.owner(principal.subject),
        )
        self._trail().record(grant, b"", principal.roles)
        return grant

    def authorise_export(self, principal: Principal, subject: str) -> Grant:
        """Leave to give a person all that is kept about them: for that person, or an officer of the tenant.

        It is the person who reads it, so it is as an owner's own reading, whoever makes the file.

        Raises:
            NotFound: not allowed, or there is no such tenant.
        """
        mine = subject == principal.subject and decide(principal.roles, "export").allowed
        decision = decide(principal.roles, "export", "owner" if mine else "tenant")
        if not decision.allowed:
            raise NotFound(_ABSENT)
        tenant = self._tenant(principal, create=False)
        grant = Grant(
            action="export",
            tenant=tenant,
            owner=tenant.owner(subject),
            reason=decision.reason,
            level=decision.level,
            who=tenant.owner(principal.subject),
        )
        if not mine or self._own_reads:
            self._trail().record(grant, session_id=b"", roles=principal.roles)
        return grant

    def authorise_listing(self, principal: Principal, subject: str | None) -> Grant:
        """Leave for a list of sessions: one's own; else, by one's role, those of the tenant or a subject.

        Raises:
            NotFound: not allowed, or there is no such tenant.
        """
        if subject in {None, principal.subject} and decide(principal.roles, "read").allowed:
            return self.authorise(principal, "read")
        return self.authorise_tenant(principal, "list")

    def for_trail(self, tenant: TenantKeys) -> Grant:
        """Leave for the vault itself to keep a tenant's audit trail."""
        owner = tenant.blind("trail", _TRAIL)
        return Grant(action="trail", tenant=tenant, owner=owner, reason="the vault keeps its own audit trail")

    def _of_another(
        self, principal: Principal, action: str, tenant: TenantKeys, session_id: bytes
    ) -> Decision:
        """What is allowed with somebody else's session; the same look-ups whether it exists or not."""
        now_us, trail, roles = self._clock.now_us(), self._trail(), principal.roles
        me = tenant.owner(principal.subject)
        whom = [me, *(tenant.team(team) for team in sorted(principal.teams))]
        shares = trail.shares(tenant, session_id, whom)
        decisions = [decide_shared(roles, action, share, now_us) for share in shares]
        decisions.append(decide(roles, action, "tenant"))
        best = max(decisions, key=lambda decision: (decision.allowed, decision.level))
        may_ask = action == "read" and decide(roles, "request_break_glass", "tenant").allowed
        if may_ask and trail.broken_glass(tenant, session_id, me):
            return Decision(allowed=True, level="L3", reason="break-glass access, for a reason and a time")
        return best

    def _along(self, principal: Principal) -> Ask:
        def ask(session_id: bytes, *, masking: bool = False) -> Grant | None:
            if masking:
                return self.for_masking(principal, session_id)
            return self.authorise_shared(principal, session_id)

        return ask

    def _tenant(self, principal: Principal, *, create: bool) -> TenantKeys:
        tenant = self._keys.tenant(principal.tenant, create=create)
        if tenant is None:
            raise NotFound(_ABSENT)
        return tenant
