"""Schema migrations: the reviewed SQL files of `migrations/`, applied in order by sqlite-utils."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from vault import data
from vault.errors import NewerVault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vault.storage.sqlite import Database


def migrate(database: Database, kind: str) -> None:
    """Bring a database to the newest schema, under its write lock.

    Args:
        database: the open file.
        kind: ``data`` or ``keys``, the folder of migrations.

    Raises:
        NewerVault: the file was migrated by a newer version of the program.
    """
    files = sorted((data.migrations() / "sqlite" / kind).glob("*.sql"), key=lambda file: file.name)
    names = [file.name.removesuffix(".sql") for file in files]
    applied = _applied(database, kind)
    if set(applied) - set(names):
        raise NewerVault
    if applied != names:
        database.migrate(lambda connection: _apply(connection, kind, files))


def _applied(database: Database, kind: str) -> list[str]:
    with database.snapshot() as connection:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = '_sqlite_migrations'").fetchone():
            return []
        query = "SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY name"
        return [row[0] for row in connection.execute(query, (kind,))]


def _apply(connection: sqlite3.Connection, kind: str, files: list[Path]) -> None:
    import sqlite_utils  # noqa: PLC0415 - only needed here, and it would double the import time
    from sqlite_utils.migrations import Migrations  # noqa: PLC0415

    migrations = Migrations(kind)
    for file in files:
        text = file.read_text(encoding="utf-8")

        def run(db: sqlite_utils.Database, text: str = text) -> None:
            for statement in _statements(text):
                db.conn.execute(statement)

        migrations(name=file.name.removesuffix(".sql"))(run)
    # Whoever waited for the lock finds nothing pending: apply() looks again under it.
    migrations.apply(sqlite_utils.Database(connection))


def _statements(text: str) -> Iterator[str]:
    """Single statements: executescript would commit before each script and break the transaction."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
