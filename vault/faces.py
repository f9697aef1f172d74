"""What one principal can reach, each part of it checked at every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vault.audit.administration import Admin
from vault.audit.oversight import Audit, BreakGlass, Grants
from vault.erasure.activation import PolicyDesk
from vault.erasure.exports import Exports
from vault.erasure.holds import Holds
from vault.erasure.retention import Retention
from vault.erasure.service import Erasure
from vault.sessions.service import Sessions

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.access.door import Leave
    from vault.audit.trail import AuditTrail
    from vault.derived.service import DerivedItems
    from vault.erasure.service import Parts
    from vault.sealing.kept import Withdrawn
    from vault.sessions.log import Log
    from vault.sessions.viewing import Viewer


class Access:
    """What one principal can reach."""

    def __init__(
        self,
        log: Log,
        leave: Leave,
        trail: AuditTrail,
        viewer: Viewer,
        parts: Parts,
        derived: DerivedItems,
        *,
        second: bool,
    ) -> None:
        """Made by ``Vault.access``."""
        self.sessions = Sessions(log, leave)
        self.memories, self.artifacts, self.derived = derived.of(leave)
        self.erasure = Erasure(parts, leave)
        self.exports = Exports(parts, leave)
        self.holds = Holds(parts, leave)
        self.retention = Retention(parts, leave)
        self.policies = PolicyDesk(parts, leave)
        self.grants = Grants(log, leave, trail)
        self.break_glass = BreakGlass(log, leave, trail, second_person=second)
        self.audit = Audit(log, leave, trail, viewer)
        self.admin = Admin(log, leave, trail)
        self.teams = leave.principal.teams
        self._kept = log.keys.kept

    def watch(self, told: Callable[[Withdrawn], None]) -> None:
        """Have a method told which sessions lost a key, by whatever process, while its object lives.

        For whoever holds content of sessions in memory, and has to drop it. It is called in the midst of
        whatever this process does with the vault next, so it must not wait for anything.
        """
        self._kept.watch(told)
