"""Where large sealed payloads are kept, under the SHA-256 of their sealed bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


class Upload(Protocol):
    """Room for one blob that is being sealed; it is not visible until ``keep``."""

    file: BinaryIO

    def keep(self, address: bytes) -> None:
        """Make it durable and visible under its address. Keeping an address twice is a no-op.

        Raises:
            StorageFull: the disk is full; nothing is visible.
            StorageUnavailable: nothing can be assumed stored; try again.
        """
        ...


class Blobs(Protocol):
    """The blob area."""

    def upload(self) -> AbstractContextManager[Upload]:
        """Room for a new blob, thrown away on leaving unless kept."""
        ...

    def open(self, address: bytes) -> BinaryIO:
        """The sealed bytes, seekable.

        Raises:
            Tampered: there is no such blob, though the log names it.
            StorageUnavailable: it cannot be read now.
        """
        ...

    def delete(self, address: bytes) -> None:
        """Delete a blob durably; one that is not there is deleted already.

        Raises:
            StorageUnavailable: it is still there; try again.
        """
        ...

    def addresses(self) -> Iterator[bytes]:
        """Every address kept."""
        ...
