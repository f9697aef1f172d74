"""An export as one zip file: written in constant memory, hashed, signed, and there whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, NoReturn, Self

from vault.clock import from_us
from vault.errors import InvalidInput, StorageFull, StorageUnavailable
from vault.storage.files import refuse, sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vault.sealing.notes import Signer

FORMAT: Final = "session-vault/subject-export/1"
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
_CHUNK_BYTES: Final = 2**20
_TAKEN: Final = "there is something at this path already; choose another"
_NO_PLACE: Final = "the directory of this file cannot be written, or does not exist"
#: The years that a zip file can write.
_FIRST: Final = (1980, 1, 1, 0, 0, 0)
_LAST_YEAR: Final = 2107


class Written(NamedTuple):
    """One file of an archive."""

    sha256: str
    bytes: int


class Archive:
    """A zip file on its way."""

    def __init__(self, file: BinaryIO, made_us: int) -> None:
        """Write into a file; ``made_us`` is when each file in it was made."""
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        made = from_us(made_us).timetuple()[:6]
        self._made = made if _FIRST[0] <= made[0] <= _LAST_YEAR else _FIRST
        self.files: dict[str, Written] = {}

    def __enter__(self) -> Self:
        """The archive itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the file; one that was not finished is not to be kept."""
        with contextlib.suppress(OSError, ValueError):
            self._zip.close()

    @contextlib.contextmanager
    def entry(self, name: str) -> Iterator[Callable[[bytes], None]]:
        """One file, written piece by piece; what it holds is hashed on the way."""
        info = zipfile.ZipInfo(name, self._made)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        digest, size = hashlib.sha256(), 0
        with self._zip.open(info, "w", force_zip64=True) as out:

            def write(piece: bytes) -> None:
                nonlocal size
                out.write(piece)
                digest.update(piece)
                size += len(piece)

            try:
                yield write
            finally:
                self.files[name] = Written(digest.hexdigest(), size)

    @contextlib.contextmanager
    def listing(self, name: str) -> Iterator[Callable[[bytes], None]]:
        """A file that holds a JSON array, one value a line."""
        with self.entry(name) as write:
            before = b"[\n"

            def add(value: bytes) -> None:
                nonlocal before
                write(before + value)
                before = b",\n"

            yield add
            write(b"\n]\n" if before != b"[\n" else b"[]\n")

    def pour(self, name: str, source: BinaryIO) -> None:
        """A file that is as large as it is."""
        with self.entry(name) as write:
            while chunk := source.read(_CHUNK_BYTES):
                write(chunk)

    def finish(self, signer: Signer, about: dict[str, Any]) -> str:
        """Write the manifest, which names every file, and its signature; the SHA-256 of the manifest.

        Nothing can be added afterwards.
        """
        files = [{"name": name, **written._asdict()} for name, written in self.files.items()]
        manifest = json.dumps({"format": FORMAT, **about, "files": files}, ensure_ascii=False, indent=2)
        with self.entry(MANIFEST) as write:
            write(manifest.encode() + b"\n")
        digest = self.files[MANIFEST].sha256
        with self.entry(SIGNATURE) as write:
            write(signer.sign(statement(signer.name, digest)).encode())
        self._zip.close()
        return digest


def statement(vault: str, digest: str) -> str:
    """What is signed of an export: its format, whose vault made it, the SHA-256 of its manifest."""
    return f"{FORMAT}\n{vault}\n{digest}\n"


def refuse_taken(to: Path) -> None:
    """Refuse a place where something is already.

    Raises:
        InvalidInput: there is.
    """
    if os.path.lexists(to):
        raise InvalidInput(_TAKEN)


@contextlib.contextmanager
def new_file(to: Path) -> Iterator[BinaryIO]:
    """A file of mode 0600 that takes its name once it is whole and on disk, and never another's.

    Raises:
        InvalidInput: something is there already.
        StorageUnavailable: it cannot be written there.
    """
    refuse_taken(to)
    try:
        descriptor, partial = tempfile.mkstemp(prefix=".partial-", dir=to.parent)
    except OSError as error:
        _refuse_place(error)
    try:
        with open(descriptor, "w+b") as file:  # noqa: PTH123 - a descriptor, not a path
            yield file
            file.flush()
            os.fsync(descriptor)
        _name(Path(partial), to)
    except OSError as error:
        refuse(error)
    finally:
        Path(partial).unlink(missing_ok=True)


def _name(partial: Path, to: Path) -> None:
    """Give a whole file its name.

    Raises:
        InvalidInput: something has it meanwhile.
    """
    try:
        os.link(partial, to)  # unlike a rename, a link never replaces what is there
    except FileExistsError:
        raise InvalidInput(_TAKEN) from None
    except OSError:  # no links on this file system
        refuse_taken(to)
        partial.rename(to)
    sync_directory(to.parent)


def _refuse_place(error: OSError) -> NoReturn:
    try:
        refuse(error)
    except StorageFull:
        raise
    except StorageUnavailable:
        raise StorageUnavailable(_NO_PLACE) from None
