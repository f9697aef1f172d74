"""Checks a principal and makes the Grant that a use case needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vault.errors import NotFound
from vault.policy.access import decide

if TYPE_CHECKING:
    from vault.model import Principal
    from vault.sealing.keys import KeyHierarchy, TenantKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Leave to do one action with the sessions of one owner in one tenant.

    It carries what every query and every key needs: without the right tenant and owner nothing is found,
    and nothing opens.
    """

    action: str
    tenant: TenantKeys = field(repr=False)
    owner: bytes = field(repr=False)
    reason: str


class Door:
    """Where Grants are made."""

    def __init__(self, keys: KeyHierarchy) -> None:
        """Check against the vault's keys."""
        self._keys = keys

    def authorise(self, principal: Principal, action: str) -> Grant:
        """Leave for the principal to do an action with its own sessions.

        Raises:
            NotFound: not allowed, or nothing there; a caller cannot tell which.
        """
        decision = decide(principal.roles, action)
        if not decision.allowed:
            raise NotFound("there is no such session")
        tenant = self._keys.tenant(principal.tenant, create=action == "create")
        if tenant is None:
            raise NotFound("there is no such session")
        owner = tenant.owner(principal.subject)
        return Grant(action=action, tenant=tenant, owner=owner, reason=decision.reason)
