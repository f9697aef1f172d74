"""Another product's SQLite file, to move out of: opened for reading only, never changed."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any, Final

from vault.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_REFUSED: Final = "this file is no SQLite database that can be read, or not of the kind that was said"


class Foreign:
    """An open file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Made by ``opened``."""
        self._connection = connection

    def tables(self) -> set[str]:
        """The names of its tables."""
        return {name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def rows(self, statement: str, values: Mapping[str, Any] | None = None) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, as they come.

        Raises:
            InvalidInput: the file has no such table or column, or is damaged.
        """
        try:
            # Not `yield from`: that closes the cursor after the connection, when somebody stops half-way.
            for row in self._connection.execute(statement, values or {}):  # noqa: UP028 - as above
                yield row
        except sqlite3.Error:
            raise InvalidInput(_REFUSED) from None  # the driver's text can quote what it read


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Foreign]:
    """The file, for a block; one transaction, so that a program that still writes to it changes nothing here.

    Raises:
        InvalidInput: there is no such file, or it is no SQLite database.
    """
    if not path.is_file():
        raise InvalidInput("there is no such file to import; check its path")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.Error:
        raise InvalidInput(_REFUSED) from None
    with contextlib.closing(connection):
        try:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error:
            raise InvalidInput(_REFUSED) from None
        yield Foreign(connection)
