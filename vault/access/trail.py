"""What the door asks of the audit trail, and tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vault.access.grant import Grant
    from vault.policy.access import Share
    from vault.sealing.uses import TenantKeys


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
