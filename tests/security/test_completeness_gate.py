"""No column without a declaration of how it is kept and how it is erased (invariant 15; K1, D6)."""

# ruff: noqa: S608 - names in the statements are the schema's own

import sqlite3
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security import surgery
from vault import Principal, Vault, new_event_id, new_run_id
from vault.ports.keys import Doomed

DECLARED = tomllib.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "reference" / "columns.toml").read_text(encoding="utf-8")
)
KEPT = {"clear", "blind index", "sealed", "keyed hash", "mac", "hash", "random"}
ERASED = {"with the session's rows", "with the item's rows", "key destroyed", "never: no personal data"}
#: Bytes of a stored value by how it is kept.
LENGTHS = {"blind index": {16}, "keyed hash": {16}, "mac": {32}, "hash": {16, 32}, "random": {16}}
#: Where nothing is written as nothing: whose the vault's own keys are, what was destroyed where no key was,
#: and what a session is no fork of.
MAY_BE_EMPTY = {
    "keys.owner",
    "keys.tenant_id",
    "destroyed.owner",
    "destroyed.fingerprint",
    "sessions.base_chain",
}


def schema_of(database: Path) -> Iterator[tuple[str, str]]:
    """Table and column of everything that can hold a value, in the file as it is."""
    connection = sqlite3.connect(database)
    query = (
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_'"
    )
    for (table,) in connection.execute(query).fetchall():
        for column in surgery.column_names(connection, table):
            yield table, column
    connection.close()


def gaps(database: Path) -> set[str]:
    """What is stored and not declared, and what is declared and not stored."""
    tables = DECLARED[database.stem]
    declared = {(table, column) for table, columns in tables.items() for column in columns}
    return {f"{table}.{column}" for table, column in declared ^ set(schema_of(database))}


@pytest.fixture
def filled(vault, place):
    """A vault with something in every column."""
    alice = vault.access(Principal(tenant="acme", subject="alice"))
    session = alice.sessions.create(title="a", labels={"a": "b"}, external_id="c")
    for run in (new_run_id(), new_run_id()):
        more = {"run": run, "tool": "t", "event_id": new_event_id()}
        session.append("message.user", {"content": "hello"}, **more)
    session.append("tool.returned", raw=bytes(100_000))
    session.append("tool.returned", raw=b"x" * 3_000, run=new_run_id())
    with session.run() as run:
        run.effect("a", "b", resource="c", subject="d").once(lambda _: "e")
    alice.sessions.fork(session.id).append("message.user", {"content": "hello"})
    vault.keys.reencrypt(session.id)
    alice.memories.put(("a",), "b", {"c": "d"}, sources=[session])
    alice.artifacts.put("e", bytes(range(256)) * 1_000, sources=[session])
    doomed, tenant = uuid.UUID(session.id[4:]).bytes, vault._keys.tenant("acme", create=False).tenant_id
    vault._store.condemn(bytes(16), tenant, [Doomed("epoch", doomed, None, frozenset())], 1)
    vault._store.place_hold(bytes(16), tenant, [doomed], 2)
    officer = vault.access(Principal(tenant="acme", subject="dpo", roles={"privacy_officer"}))
    gone = alice.sessions.create()
    gone.append("message.user", {"content": "hello"})
    officer.erasure.erase(session=gone.id)
    officer.retention.run()
    return place


@pytest.mark.parametrize("name", ["data.db", "keys.db"])
def test_every_column_is_declared_and_every_declared_column_is_there(name, vault, place):
    assert gaps(place / name) == set()


def test_every_declaration_is_complete():
    assert DECLARED.keys() == {"data", "keys"}
    for tables in DECLARED.values():
        for table, columns in tables.items():
            for column, declaration in columns.items():
                place = f"{table}.{column}"
                assert declaration["kept"] in KEPT, place
                assert declaration["erased"] in ERASED, place
                assert ("reason" in declaration) == (declaration["kept"] == "clear"), place
                assert declaration.keys() <= {"kept", "erased", "reason"}, place


@pytest.mark.parametrize("name", ["data.db", "keys.db"])
def test_what_is_stored_is_what_is_declared(name, filled):
    """As far as bytes can tell: what is sealed starts with the format byte, a MAC has its length."""
    connection = sqlite3.connect(filled / name)
    for table, columns in DECLARED[name.removesuffix(".db")].items():
        for column, declaration in columns.items():
            query = f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"
            values = [value for (value,) in connection.execute(query)]
            if f"{table}.{column}" in MAY_BE_EMPTY:
                values = [value for value in values if value]
            assert any(value != b"" for value in values), f"{table}.{column}"
            if declaration["kept"] == "sealed":
                assert {value[:1] for value in values} == {b"\x01"}, f"{table}.{column}"
            elif declaration["kept"] != "clear":
                assert {len(value) for value in values} <= LENGTHS[declaration["kept"]], f"{table}.{column}"
    connection.close()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("ALTER TABLE sessions ADD COLUMN nickname TEXT", "sessions.nickname"),
        ("CREATE TABLE notes (text TEXT)", "notes.text"),
        ("CREATE VIEW shown AS SELECT about FROM sessions", "shown.about"),
        ("ALTER TABLE runs DROP COLUMN written", "runs.written"),
        ("DROP TABLE labels", "labels.label"),
    ],
    ids=["column", "table", "view", "dropped column", "dropped table"],
)
def test_the_gate_fails_for_a_column_that_came_or_went_undeclared(change, named, place):
    Vault.create(place).close()
    connection = sqlite3.connect(place / "data.db")
    connection.execute(change)
    connection.commit()
    connection.close()
    assert named in gaps(place / "data.db")
