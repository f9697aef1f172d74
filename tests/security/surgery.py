"""What somebody can do who may write the vault's files and has no key: the database's rules are theirs.

Table and column names in the statements are the tests' own.
"""

# ruff: noqa: S608

import contextlib
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

TABLES = ("vault", "sessions", "labels", "blobs", "events", "runs", "touches")


@contextlib.contextmanager
def opened(place: Path, name: str = "data.db") -> Iterator[sqlite3.Connection]:
    """The database file itself, its triggers taken away and put back, no foreign key checked."""
    connection = connected(place, name)
    try:
        connection.execute("PRAGMA foreign_keys = OFF")
        query = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
        triggers = connection.execute(query).fetchall()
        for trigger, _ in triggers:
            connection.execute(f"DROP TRIGGER {trigger}")
        yield connection
        for _, sql in triggers:
            with contextlib.suppress(sqlite3.OperationalError):  # a view stands in the table's place by now
                connection.execute(sql)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.close()


def connected(place: Path, name: str = "data.db") -> sqlite3.Connection:
    """The database file as it is, triggers and all; close it."""
    return sqlite3.connect(place / name, isolation_level=None)


def without_rules(connection: sqlite3.Connection, table: str) -> None:
    """Write the table's schema anew without types, keys, uniqueness and NOT NULL; its rows stay."""
    columns = ", ".join(column_names(connection, table))
    query = "SELECT sql FROM sqlite_schema WHERE tbl_name = ? AND type = 'index' AND sql IS NOT NULL"
    indexes = [sql for (sql,) in connection.execute(query, (table,))]
    connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    connection.execute(f"CREATE TABLE {table} ({columns})")
    connection.execute(f"INSERT INTO {table} SELECT {columns} FROM old_{table}")
    connection.execute("PRAGMA legacy_alter_table = ON")
    connection.execute(f"DROP TABLE old_{table}")
    for sql in indexes:
        connection.execute(re.sub(r"^CREATE UNIQUE INDEX", "CREATE INDEX", sql))


def lying_index(
    connection: sqlite3.Connection, table: str, index: str, column: str, lies: dict[int, object]
) -> None:
    """Make an index anew that holds, for some rows (by rowid), another value than their column does."""
    (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
    connection.execute(f"ALTER TABLE {table} ADD COLUMN lie ANY")
    connection.execute(f"UPDATE {table} SET lie = {column}")
    for number, value in lies.items():
        connection.execute(f"UPDATE {table} SET lie = ? WHERE rowid = ?", (value, number))
    connection.execute(f"DROP INDEX {index}")
    connection.execute(re.sub(rf"\b{column}\b", "lie", sql))
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, index))
    connection.execute("PRAGMA writable_schema = RESET")


def column_names(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def rows_as_dicts(connection: sqlite3.Connection, query: str, *parameters: object) -> list[dict]:
    cursor = connection.execute(query, parameters)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def insert(connection: sqlite3.Connection, table: str, row: dict) -> None:
    marks = ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", row)


def update(connection: sqlite3.Connection, table: str, where: dict, **values: object) -> None:
    """Set columns of exactly one row."""
    sets = ", ".join(f"{name} = :new_{name}" for name in values)
    terms = " AND ".join(f"{name} IS :{name}" for name in where)
    new = {f"new_{name}": value for name, value in values.items()}
    assert connection.execute(f"UPDATE {table} SET {sets} WHERE {terms}", new | where).rowcount == 1


def flipped(value: object, at: int = 0) -> object:
    """The value with one bit of one byte changed; NULL and what is empty become something."""
    if value is None:
        return b"\x00" * 16
    if value in {b"", ""}:
        return b"\x01" if value == b"" else "\x01"
    if isinstance(value, int):
        return value ^ (1 << (8 * at))
    if isinstance(value, str):
        return value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
    return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]


def json_of(payload: object) -> bytes:
    """The bytes that the vault seals for a JSON payload."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def copied(source: Path, target: Path) -> Path:
    """A copy of a directory in place of whatever stands there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target
