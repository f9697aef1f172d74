"""Wrapped keys in a SQLite file of their own."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from vault.errors import Tampered
from vault.ports.keys import KeyRow
from vault.storage.statements import STATEMENTS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from vault.storage.sqlite import Database


class SqlKeyStore:
    """The table of wrapped keys, and whose keys they are."""

    def __init__(self, database: Database) -> None:
        """Serve keys from a migrated database."""
        self._database = database

    def put(self, rows: Sequence[KeyRow]) -> bool:
        """Store all rows durably, or none when one is there already."""

        def work(connection: sqlite3.Connection) -> bool:
            for row in rows:
                place = {"purpose": row.purpose, "scope": row.scope, "epoch": row.epoch}
                if connection.execute(STATEMENTS["key_exists"], place).fetchone():
                    return False
            for row in rows:
                if connection.execute(STATEMENTS["add_key"], asdict(row)).rowcount != 1:
                    raise Tampered("keys.db does not take a key: its rules were changed")
            return True

        stored: bool = self._database.write(work)
        return stored

    def get(self, purpose: str, scope: bytes, epoch: int, owner: bytes) -> KeyRow | None:
        """The row of this place and owner."""
        parameters = {"purpose": purpose, "scope": scope, "epoch": epoch, "owner": owner}
        with self._database.snapshot() as connection:
            row = connection.execute(STATEMENTS["key"], parameters).fetchone()
        return row and _key_row(row)

    def rows(self) -> Iterator[KeyRow]:
        """Every row."""
        with self._database.snapshot() as connection:
            rows = connection.execute(STATEMENTS["all_keys"]).fetchall()
        return map(_key_row, rows)

    def root(self) -> tuple[bytes, str, bytes] | None:
        """Vault id, provider and the provider's record; None in a file that holds no keys yet."""
        with self._database.snapshot() as connection:
            found: tuple[bytes, str, bytes] | None = connection.execute(STATEMENTS["root_row"]).fetchone()
        if found is not None and not all(map(isinstance, found, (bytes, str, bytes))):
            raise Tampered("keys.db holds a value of the wrong kind; restore it from its backup")
        return found

    def keep_root(self, vault_id: bytes, provider: str, record: bytes) -> None:
        """Write the root record durably."""
        parameters = {"vault_id": vault_id, "provider": provider, "record": record}
        self._database.write(lambda connection: connection.execute(STATEMENTS["keep_root"], parameters))


def _key_row(row: tuple[str, bytes, int, bytes, bytes]) -> KeyRow:
    purpose, scope, epoch, owner, wrapped = row
    return KeyRow(purpose=purpose, scope=scope, epoch=epoch, owner=owner, wrapped=wrapped)
