"""What stands outside of the vault and holds something of its items: it is asked to erase too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class Target(Protocol):
    """A store of somebody else's, under a name that is the same in every process."""

    @property
    def name(self) -> str:
        """Up to 64 letters, digits, dots, dashes and underscores."""
        ...

    def erase(self, ids: Sequence[str], idempotency_key: str) -> None:
        """Erase what is held of these sessions and items; what is not there is erased already.

        It is called again until it returns, also after it did: the same key comes with the same ids.

        Raises:
            StorageUnavailable: not all of it is gone; it is tried again.
        """
        ...


@runtime_checkable
class Probed(Protocol):
    """A target that can be asked what it still holds."""

    def holds(self, ids: Sequence[str]) -> Collection[str]:
        """Those of the ids that something is held of.

        Raises:
            StorageUnavailable: it cannot be told now.
        """
        ...
