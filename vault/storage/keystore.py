"""Wrapped keys in a SQLite file of their own."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from vault.errors import Conflict, Erased, Tampered
from vault.ports.keys import WHOLE, KeyCount, KeyRow
from vault.storage.destruction import SqlDestruction
from vault.storage.holds import SqlHolds
from vault.storage.statements import STATEMENTS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    from vault.storage.sqlite import Database


class SqlKeyStore(SqlDestruction, SqlHolds):
    """The table of wrapped keys, and whose keys they are."""

    def __init__(self, database: Database) -> None:
        """Serve keys from a migrated database."""
        self._database = database

    def put(self, rows: Sequence[KeyRow], *, under: KeyRow | None = None) -> bool:
        """Store all rows durably, or none when one is there already."""

        def work(connection: sqlite3.Connection) -> bool:
            for row in rows:
                place = {"purpose": row.purpose, "scope": row.scope, "epoch": row.epoch}
                if connection.execute(STATEMENTS["destroyer"], place).fetchone():
                    raise Erased
                if connection.execute(STATEMENTS["key_exists"], place).fetchone():
                    return False
            _check_parent(connection, under)
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
        if row is None or row[-1]:
            return None
        return _key_row(row[:-1])

    def owns(self, purpose: str, scope: bytes, owner: bytes) -> bool:
        """Whether an owner has any key in a scope."""
        place = {"purpose": purpose, "scope": scope, "epoch": WHOLE}
        with self._database.snapshot() as connection:
            row = connection.execute(STATEMENTS["owner_of_scope"], place).fetchone()
            if row != (owner,):
                return False
            return connection.execute(STATEMENTS["destroyer"], place).fetchone() is None

    def rewrite(self) -> bool:
        """Write the file anew; whether that was done."""
        return self._database.rewrite()

    def drop(self, purpose: str, scope: bytes, epochs: Sequence[int]) -> bool:
        """Delete keys that others have taken the place of, then empty the write-ahead log."""

        def work(connection: sqlite3.Connection) -> None:
            for epoch in epochs:
                place = {"purpose": purpose, "scope": scope, "epoch": epoch}
                connection.execute(STATEMENTS["drop_key"], place)

        self._database.write(work)
        return self._database.truncate()

    def rows(self) -> Iterator[KeyRow]:
        """Every row."""
        with self._database.snapshot() as connection:
            rows = connection.execute(STATEMENTS["all_keys"]).fetchall()
        return map(_key_row, rows)

    def rows_of(self, tenant_id: bytes | None) -> Iterator[KeyRow]:
        """The rows of a tenant, or those that hang under the root key."""
        with self._database.snapshot() as connection:
            return iter(_rows_of(connection, tenant_id))

    def rewrap(
        self,
        tenant_id: bytes | None,
        again: Callable[[KeyRow], bytes],
        *,
        under: KeyRow | None = None,
        record: tuple[bytes, bytes] | None = None,
    ) -> int:
        """Replace the wraps of ``rows_of`` in one transaction, durably; how many there were."""

        def work(connection: sqlite3.Connection) -> int:
            _check_parent(connection, under)
            if record is not None:
                _replace_record(connection, *record)
            rows = _rows_of(connection, tenant_id)
            for row in rows:
                wrapped = {
                    "purpose": row.purpose,
                    "scope": row.scope,
                    "epoch": row.epoch,
                    "wrapped": again(row),
                }
                if connection.execute(STATEMENTS["rewrap_key"], wrapped).rowcount != 1:
                    raise Tampered("keys.db does not take a key: its rules were changed")
            return len(rows)

        count: int = self._database.write(work)
        return count

    def adopt(self, owner: bytes, tenant_id: bytes) -> None:
        """Note whose an owner's keys are."""
        parameters = {"purpose": "epoch", "owner": owner, "tenant_id": tenant_id, "nobody": b""}
        self._database.write(lambda connection: connection.execute(STATEMENTS["adopt_keys"], parameters))

    def counts(self) -> list[KeyCount]:
        """How many keys there are, by tenant and purpose."""
        with self._database.snapshot() as connection:
            rows = connection.execute(STATEMENTS["all_keys_counted"]).fetchall()
        return [
            KeyCount(tenant_id, purpose, count - dying, dying) for tenant_id, purpose, count, dying in rows
        ]

    def root(self) -> tuple[bytes, str, bytes] | None:
        """Vault id, provider and the provider's record; None in a file that holds no keys yet."""
        with self._database.snapshot() as connection:
            return _root(connection)

    def keep_root(
        self, vault_id: bytes, provider: str, record: bytes, *, before: bytes | None = None
    ) -> None:
        """Write the root record durably.

        Args:
            vault_id: whose keys these are.
            provider: which kind of root key opens them.
            record: what the provider needs to find it again.
            before: the record that it replaces, as it was read.

        Raises:
            Conflict: ``before`` is not what is stored any more, so ``record`` may name an old root key.
        """
        parameters = {"vault_id": vault_id, "provider": provider, "record": record}

        def work(connection: sqlite3.Connection) -> None:
            if before is not None:
                _replace_record(connection, before, record)
            else:
                connection.execute(STATEMENTS["keep_root"], parameters)

        self._database.write(work)


def _root(connection: sqlite3.Connection) -> tuple[bytes, str, bytes] | None:
    found: tuple[bytes, str, bytes] | None = connection.execute(STATEMENTS["root_row"]).fetchone()
    if found is not None and not all(map(isinstance, found, (bytes, str, bytes))):
        raise Tampered("keys.db holds a value of the wrong kind; restore it from its backup")
    return found


def _replace_record(connection: sqlite3.Connection, before: bytes, after: bytes) -> None:
    found = _root(connection)
    if found is None or found[2] != before:
        raise Conflict("the root key was replaced meanwhile by another process; open the vault again")
    vault_id, provider, _ = found
    parameters = {"vault_id": vault_id, "provider": provider, "record": after}
    connection.execute(STATEMENTS["keep_root"], parameters)


def _check_parent(connection: sqlite3.Connection, under: KeyRow | None) -> None:
    if under is not None:
        place = {"purpose": under.purpose, "scope": under.scope, "epoch": under.epoch}
        if connection.execute(STATEMENTS["destroyer"], place).fetchone():
            raise Erased
        if connection.execute(STATEMENTS["wrapped_key"], place).fetchone() != (under.wrapped,):
            raise Conflict("the vault's keys were wrapped anew meanwhile; try again")


def _rows_of(connection: sqlite3.Connection, tenant_id: bytes | None) -> list[KeyRow]:
    if tenant_id is None:
        tops = {"first": "vault", "second": "signing", "third": "tenant"}
        found = connection.execute(STATEMENTS["keys_under_root"], tops)
    else:
        found = connection.execute(STATEMENTS["keys_of_tenant"], {"tenant_id": tenant_id})
    return [_key_row(row) for row in found]


def _key_row(row: tuple[str, bytes, int, bytes, bytes, bytes]) -> KeyRow:
    purpose, scope, epoch, owner, wrapped, tenant_id = row
    if not isinstance(tenant_id, bytes) or not isinstance(scope, bytes):  # the others are under the wrap
        raise Tampered("keys.db holds a value of the wrong kind; restore it from its backup")
    return KeyRow(
        purpose=purpose, scope=scope, epoch=epoch, owner=owner, wrapped=wrapped, tenant_id=tenant_id
    )
