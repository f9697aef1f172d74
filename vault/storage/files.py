"""Files that are durable before anything names them: the blob area and the ledger's entries."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from vault.errors import Conflict, StorageFull, StorageUnavailable, Tampered
from vault.ports.ledger import LedgerFile

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def make_private(directory: Path) -> None:
    """Make a directory that only its owner can enter; one that exists keeps its mode.

    Raises:
        StorageUnavailable: it cannot be made.
    """
    try:
        for missing in reversed([one for one in (directory, *directory.parents) if not one.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        refuse(error)


@contextlib.contextmanager
def held_directory(directory: Path) -> Iterator[None]:
    """Hold a directory against every other process that does so too; what was made in it is durable after.

    Raises:
        StorageUnavailable: it cannot be opened.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        refuse(error)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FileUpload:
    """One temporary file that becomes a blob when it is kept."""

    def __init__(self, file: BinaryIO, temporary: Path, area: FileBlobs) -> None:
        """Wrap an open temporary file of the area."""
        self.file, self._temporary, self._area = file, temporary, area

    def keep(self, address: bytes) -> None:
        """Make the blob durable and visible under its address."""
        target = self._area.path(address)
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
            if not target.parent.is_dir():
                make_private(target.parent)
                sync_directory(target.parent.parent)
            self._temporary.replace(target)  # atomic: nobody ever sees half a blob
            sync_directory(target.parent)
        except OSError as error:
            refuse(error)


class FileBlobs:
    """Sealed payloads as files, sharded by the first byte of their address."""

    def __init__(self, root: Path) -> None:
        """Use a directory, made when absent."""
        self._root = root
        make_private(root / "incoming")

    def path(self, address: bytes) -> Path:
        """Where a blob stands."""
        name = address.hex()
        return self._root / name[:2] / name

    @contextlib.contextmanager
    def upload(self) -> Iterator[FileUpload]:
        """Room for a new blob, thrown away on leaving unless kept."""
        try:
            descriptor, name = tempfile.mkstemp(dir=self._root / "incoming")
        except OSError as error:
            refuse(error)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield FileUpload(file, temporary, self)
        except OSError as error:
            refuse(error)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()

    def open(self, address: bytes) -> BinaryIO:
        """The sealed bytes."""
        try:
            return self.path(address).open("rb")
        except FileNotFoundError:
            raise Tampered("a blob that the log names is missing from the blob area") from None
        except OSError as error:
            refuse(error)

    def delete(self, address: bytes) -> None:
        """Delete a blob durably; one that is not there is deleted already."""
        target = self.path(address)
        try:
            target.unlink()
            sync_directory(target.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            refuse(error)

    def addresses(self) -> Iterator[bytes]:
        """Every address kept; a file that is no blob is not an address."""
        for shard in sorted(self._root.glob("[0-9a-f][0-9a-f]")):
            for file in sorted(shard.iterdir()):
                with contextlib.suppress(ValueError):
                    yield bytes.fromhex(file.name)


class FileLedger:
    """Ledger entries as numbered files that are written once."""

    def __init__(self, root: Path, *, keep: int | None = None) -> None:
        """Use a directory, made when absent; with ``keep``, only that many newest entries stay."""
        self._root, self._keep = root, keep
        make_private(root)

    def numbers(self) -> list[int]:
        """The numbers that are there, ascending."""
        try:
            return sorted(int(file.name) for file in self._root.iterdir() if file.name.isdecimal())
        except OSError as error:
            refuse(error)

    def read(self, number: int) -> LedgerFile:
        """One entry."""
        try:
            return LedgerFile(number=number, content=self._path(number).read_bytes())
        except OSError as error:
            refuse(error)

    def append(self, entry: LedgerFile) -> None:
        """Store an entry durably; one that is there already is never replaced."""
        target = self._path(entry.number)
        try:
            descriptor, name = tempfile.mkstemp(dir=self._root, prefix=".incoming-")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(entry.content)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(name, target)  # unlike a rename, a link never replaces what is there
            finally:
                Path(name).unlink()
            sync_directory(self._root)
        except FileExistsError:
            if self.read(entry.number).content != entry.content:
                raise Conflict("the ledger has another entry of this number") from None
        except OSError as error:
            refuse(error)
        self._prune()

    def _path(self, number: int) -> Path:
        return self._root / f"{number:010d}"

    def _prune(self) -> None:
        if self._keep is not None:
            for number in self.numbers()[: -self._keep]:
                self._path(number).unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Make what was made, renamed or deleted in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse(error: OSError) -> NoReturn:
    """Raise the vault's word for an operating system error; its text stays out, it holds paths."""
    if error.errno in _FULL:
        raise StorageFull from None
    reason = os.strerror(error.errno).lower() if error.errno else "unknown reason"
    raise StorageUnavailable(f"a file of the vault cannot be read or written: {reason}") from None
