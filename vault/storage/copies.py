"""Copies of a vault's files: databases while others write, and files that are whole and durable or not there.

A database that is open is copied through SQLite only. Reading its file would drop the locks that this process
holds on it as soon as the file is closed (fcntl(2)); see `remains`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from vault.errors import StorageUnavailable, Tampered
from vault.storage.files import make_private, refuse, sync_directory
from vault.storage.statements import STATEMENTS
from vault.storage.wording import translated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.storage.sqlite import Database

_CHUNK: Final = 2**20
#: How the name of a file begins that is not whole yet.
PARTIAL: Final = ".partial-"


class Copied(NamedTuple):
    """Length and SHA-256, in hexadecimal, of a file that was copied or looked at."""

    size: int
    sha256: str


def copy_database(database: Database, target: Path) -> Copied:
    """One consistent state of an open database as a single file, while others go on writing.

    Raises:
        StorageUnavailable: it cannot be read, or the copy not be written.
        Tampered: the copy is damaged, as the database is.
    """
    with database.snapshot() as connection, _new_file(target) as partial:
        _back_up(connection, partial)
    return look_at(target)


def copy_database_file(source: Path, target: Path) -> Copied:
    """The same of a database in some directory, whether or not somebody has it open.

    Raises:
        StorageUnavailable: it is not there, cannot be read, or the copy not be written.
        Tampered: it is no database, or damaged.
    """
    if not source.is_file():
        raise StorageUnavailable("there is no database at the path given")
    with translated(), contextlib.closing(_reading(source)) as connection, _new_file(target) as partial:
        _back_up(connection, partial)
    return look_at(target)


def read_copy(copy: Path, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a named statement, of a copy that nobody has open.

    Raises:
        Tampered, StorageUnavailable: it cannot be read.
    """
    with translated(), contextlib.closing(_reading(copy)) as connection:
        return connection.execute(STATEMENTS[statement]).fetchall()


def _reading(source: Path) -> sqlite3.Connection:
    # Not immutable: what is still in the write-ahead log belongs to it.
    return sqlite3.connect(
        f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=30, isolation_level=None
    )


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy:
        # All pages in one step, so in one read transaction: nobody's commit makes it begin again.
        connection.backup(copy, pages=-1)
        copy.execute("PRAGMA journal_mode = DELETE").fetchone()  # one file, without a log beside it
        if [line for (line,) in copy.execute("PRAGMA quick_check(1)")] != ["ok"]:
            raise Tampered("a database is damaged, so it cannot be copied; run session-vault verify")


def copy_file(source: Path, target: Path) -> Copied:
    """A file, durable under its new name; never of a database that may be open.

    Raises:
        StorageUnavailable: it cannot be read or written.
    """
    try:
        with source.open("rb") as content, _new_file(target) as partial, partial.open("wb") as file:
            copied = pour(content, file)
    except OSError as error:
        refuse(error)
    return copied


def write_file(target: Path, content: bytes) -> Copied:
    """Write a file that is whole or not there.

    Raises:
        StorageUnavailable: it cannot be written.
    """
    with _new_file(target) as partial:
        partial.write_bytes(content)
    return Copied(len(content), hashlib.sha256(content).hexdigest())


def look_at(path: Path) -> Copied:
    """Length and hash of a file of a copy.

    Raises:
        StorageUnavailable: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return pour(file, None)
    except OSError as error:
        refuse(error)


def pour(source: BinaryIO, target: BinaryIO | None) -> Copied:
    """Write one open file into another, or nowhere; its length and hash."""
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        if target is not None:
            target.write(chunk)
    return Copied(size, digest.hexdigest())


@contextlib.contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """A private file beside its place, which it takes when it is complete and on disk."""
    make_private(target.parent)
    try:
        descriptor, name = tempfile.mkstemp(prefix=PARTIAL, dir=target.parent)
        os.close(descriptor)
    except OSError as error:
        refuse(error)
    partial = Path(name)
    try:
        yield partial
        _settle(partial)
        partial.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        refuse(error)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _settle(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
