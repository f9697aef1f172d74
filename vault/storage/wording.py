"""SQLite's errors in the vault's words."""

from __future__ import annotations

import sqlite3
from typing import Final

from vault.errors import Busy, StorageFull, StorageUnavailable, Tampered, VaultError

#: Busy: a program that does not wait for its turn with everybody else, such as a database tool.
_WORDS: Final = {sqlite3.SQLITE_FULL: StorageFull, sqlite3.SQLITE_BUSY: Busy}
NOT_WRITABLE: Final = "the vault's database cannot be opened for writing; check its permissions"


class translated:  # noqa: N801 - reads as a phrase; a class, because a generator costs each append 3 us
    """SQLite's errors in the vault's words; the driver's text stays out, it can quote values."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise the vault's word for an error of SQLite."""
        if isinstance(error, sqlite3.Error | OverflowError | UnicodeDecodeError):
            raise in_words(error) from None


def in_words(error: Exception) -> VaultError:
    """The vault's word for an error of the driver."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, OverflowError):
        return Tampered("the database holds a number that is out of range")
    # No code: the driver itself gave up, on text that is none. A schema can hold such text too.
    if isinstance(error, sqlite3.OperationalError) and code:
        if code in _WORDS:
            return _WORDS[code]()
        if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}:
            return StorageUnavailable(NOT_WRITABLE)
        return StorageUnavailable(
            f"the database refused the operation (SQLite code {code}); nothing was written"
        )
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, 0}:
        return Tampered("the database file is damaged: SQLite cannot read a part of it")
    return Tampered(f"the database refused a row that breaks its rules (SQLite code {code})")
