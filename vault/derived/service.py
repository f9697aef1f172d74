"""A vault's derived items, and what each principal reaches of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vault.derived.artifacts import Artifacts
from vault.derived.index import Index
from vault.derived.lineage import Derived
from vault.derived.memories import Memories

if TYPE_CHECKING:
    from vault.access.door import Leave
    from vault.sealing.kept import Withdrawn
    from vault.sessions.log import Log


class DerivedItems:
    """The memories, artifacts and lineage of one vault."""

    def __init__(self, log: Log) -> None:
        """Work with these parts; what is searched is opened once for all principals of this process."""
        self._log, self._index = log, Index()
        log.keys.kept.watch(self._withdrawn)

    def of(self, leave: Leave) -> tuple[Memories, Artifacts, Derived]:
        """What one principal reaches."""
        return Memories(self._log, leave, self._index), Artifacts(self._log, leave), Derived(self._log, leave)

    def forget(self) -> None:
        """Drop what is open for searching; for an erasure, so that nothing of it stays in memory."""
        self._index.forget()

    def _withdrawn(self, _: Withdrawn) -> None:
        self._index.forget()
