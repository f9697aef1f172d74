"""Where wrapped keys are kept, apart from the data they open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A wrapped key and what it is for; ``owner`` is a blind index, empty above the epochs."""

    purpose: str
    scope: bytes
    epoch: int
    owner: bytes
    wrapped: bytes = field(repr=False)


class KeyStore(Protocol):
    """A durable table of wrapped keys."""

    def put(self, rows: Sequence[KeyRow]) -> bool:
        """Store all rows durably before returning, or none when one is there already (then False).

        Raises:
            StorageUnavailable: nothing was stored.
        """
        ...

    def get(self, purpose: str, scope: bytes, epoch: int, owner: bytes) -> KeyRow | None:
        """The row of this place and owner, or None."""
        ...

    def rows(self) -> Iterator[KeyRow]:
        """Every row; only for verification and re-wrapping."""
        ...
