"""Checks a principal and makes the Grant that a use case needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from vault.errors import NotFound
from vault.policy.access import Decision, decide, decide_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vault.clock import Clock
    from vault.model import Principal
    from vault.policy.access import Share
    from vault.sealing.keys import KeyHierarchy, TenantKeys

_ABSENT: Final = "there is no such session"
#: The owner of a tenant's audit trail: no subject has this blind index.
_TRAIL: Final = "audit-trail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Leave to do one action with the sessions of one owner in one tenant.

    It carries what every query and every key needs: without the right tenant and owner nothing is found,
    and nothing opens. ``level`` is the highest view that it allows; ``own`` that it is the owner's own, who
    sees everything as it was stored. ``who`` is the principal's blind index.
    """

    action: str
    tenant: TenantKeys = field(repr=False)
    owner: bytes = field(repr=False)
    reason: str
    level: str = "L3"
    own: bool = True
    who: bytes = field(default=b"", repr=False)


class Authorise(Protocol):
    """Asks the door, for one principal and one session, each time something is done."""

    def __call__(self, action: str, *, recorded: bool = True) -> Grant:
        """Leave for one action; ``recorded``: it goes into the audit trail if it is not the owner's own.

        Raises:
            NotFound: not allowed, or not there.
        """
        ...


class Trail(Protocol):
    """What the door asks of the audit trail, and tells it."""

    def shares(self, tenant: TenantKeys, session_id: bytes, whom: Sequence[bytes]) -> list[Share]:
        """What was shared of one session with any of these: a subject and its teams."""
        ...

    def broken_glass(self, tenant: TenantKeys, session_id: bytes, who: bytes) -> bool:
        """Whether somebody has an open break-glass access to a session."""
        ...

    def record(self, grant: Grant, session_id: bytes, roles: frozenset[str]) -> None:
        """Record what a grant is about to allow; durable before this returns."""
        ...


class Leave:
    """Asks the door for one principal."""

    def __init__(self, door: Door, principal: Principal, check_open: Callable[[], None]) -> None:
        """Ask for this principal, as long as the vault is open."""
        self._door, self._principal, self._check_open = door, principal, check_open

    def __call__(self, action: str, *, recorded: bool = True) -> Grant:  # noqa: ARG002 - its own: never recorded
        """Leave for an action with the principal's own sessions."""
        self._check_open()
        return self._door.authorise(self._principal, action)

    def session(
        self, action: str, session_id: bytes, owner: bytes | None = None, *, recorded: bool = True
    ) -> Grant:
        """Leave for an action with one session, whoever owns it."""
        self._check_open()
        return self._door.authorise_session(self._principal, action, session_id, owner, recorded=recorded)

    def tenant(self, action: str) -> Grant:
        """Leave for an action with the principal's tenant as a whole."""
        self._check_open()
        return self._door.authorise_tenant(self._principal, action)

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
    ) -> None:
        """Check against the vault's keys.

        Args:
            keys: the vault's.
            clock: for shares that end.
            owner_of: the blind index of a session's owner, by session and tenant; None for an absent one.
            trail: the audit trail, once there is one.
        """
        self._keys, self._clock, self._owner_of, self._trail = keys, clock, owner_of, trail

    def authorise(self, principal: Principal, action: str) -> Grant:
        """Leave for the principal to do an action with its own sessions.

        Raises:
            NotFound: not allowed, or nothing there; a caller cannot tell which.
        """
        decision = decide(principal.roles, action)
        if not decision.allowed:
            raise NotFound(_ABSENT)
        tenant = self._tenant(principal, create=action == "create")
        owner = tenant.owner(principal.subject)
        return Grant(action=action, tenant=tenant, owner=owner, reason=decision.reason, who=owner)

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
            return self.authorise(principal, action)
        whom = [me, *(tenant.team(team) for team in sorted(principal.teams))]
        decision = self._of_another(principal.roles, action, tenant, session_id, whom)
        if owner is None or not decision.allowed:
            if held:
                raise NotFound(_ABSENT)
            # As if it were the principal's own: the use case then tells an absent session from one whose row
            # was taken away or given to somebody else while its key remains.
            return self.authorise(principal, action)
        grant = Grant(
            action=action,
            tenant=tenant,
            owner=owner,
            reason=decision.reason,
            level=decision.level,
            own=False,
            who=me,
        )
        if recorded:
            self._trail().record(grant, session_id, principal.roles)
        return grant

    def authorise_tenant(self, principal: Principal, action: str) -> Grant:
        """Leave for an action with a tenant as a whole: its audit trail, its list of sessions.

        Raises:
            NotFound: not allowed, or there is no such tenant.
        """
        decision = decide(principal.roles, action, "tenant")
        if not decision.allowed:
            raise NotFound(_ABSENT)
        tenant = self._tenant(principal, create=False)
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

    def for_trail(self, tenant: TenantKeys) -> Grant:
        """Leave for the vault itself to keep a tenant's audit trail."""
        owner = tenant.blind("trail", _TRAIL)
        return Grant(action="trail", tenant=tenant, owner=owner, reason="the vault keeps its own audit trail")

    def _of_another(
        self,
        roles: frozenset[str],
        action: str,
        tenant: TenantKeys,
        session_id: bytes,
        whom: Sequence[bytes],
    ) -> Decision:
        """What is allowed with somebody else's session; the same look-ups whether it exists or not."""
        now_us, trail = self._clock.now_us(), self._trail()
        shares = trail.shares(tenant, session_id, whom)
        decisions = [decide_shared(roles, action, share, now_us) for share in shares]
        decisions.append(decide(roles, action, "tenant"))
        best = max(decisions, key=lambda decision: (decision.allowed, decision.level))
        may_ask = action == "read" and decide(roles, "request_break_glass", "tenant").allowed
        if may_ask and trail.broken_glass(tenant, session_id, whom[0]):
            return Decision(allowed=True, level="L3", reason="break-glass access, for a reason and a time")
        return best

    def _tenant(self, principal: Principal, *, create: bool) -> TenantKeys:
        tenant = self._keys.tenant(principal.tenant, create=create)
        if tenant is None:
            raise NotFound(_ABSENT)
        return tenant
