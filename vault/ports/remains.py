"""Looking through everything a vault stores for what must not be there any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Remains(Protocol):
    """All files of the vault but its ledger, which names on purpose what was erased."""

    def found(
        self, groups: Sequence[Sequence[bytes]], progress: Callable[[int, int], None] | None = None
    ) -> tuple[int, list[list[str]]]:
        """How many bytes were looked through, and for each group of byte strings which files hold one of it.

        Raises:
            StorageUnavailable: a file cannot be read.
        """
        ...
