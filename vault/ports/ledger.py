"""The ledger: signed checkpoints of the session heads, kept outside the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFile:
    """One stored entry: its number, from 1, and its bytes."""

    number: int
    content: bytes


class Ledger(Protocol):
    """An append-only list of entries, each written once."""

    def numbers(self) -> list[int]:
        """The numbers that are there, ascending."""
        ...

    def read(self, number: int) -> LedgerFile:
        """One entry.

        Raises:
            StorageUnavailable: it cannot be read.
        """
        ...

    def append(self, entry: LedgerFile) -> None:
        """Store durably before returning; an entry that is there already is never replaced.

        Raises:
            Conflict: another entry has this number.
            StorageUnavailable: it was not stored.
        """
        ...
