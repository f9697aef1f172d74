"""What somebody without keys does to a conversation is refused when it is resumed; nothing is in clear.

The vault is closed whenever its files are touched.
"""

# ruff: noqa: S608 - names in the statements are the tests' own

import asyncio
import hashlib
import json

import pytest

from tests.security import surgery
from vault import Principal, Vault
from vault.adapters.claude_agent import VaultSessionStore, ingest_tool_results
from vault.errors import Erased, KeyUnavailable, Tampered

ALICE = Principal(tenant="CANARY-tenant", subject="CANARY-alice")
PROJECT, SUBPATH = "CANARY-project", "subagents/agent-CANARY"
IDS = ["ca9a0000-0000-4000-8000-00000000000a", "ca9a0000-0000-4000-8000-00000000000b"]
KEYS = [{"project_key": PROJECT, "session_id": session_id} for session_id in IDS]
PLACE = {"session_no", "seq"}


def entry(conversation, number):
    return {
        "type": "user",
        "uuid": f"ca9a0000-0000-4000-9000-0000000{conversation}000{number}",
        "message": {"role": "user", "content": f"CANARY-text {conversation} {number} " + "x" * 100},
    }


def run(call):
    return asyncio.run(call)


@pytest.fixture
def filled(place):
    """A closed vault with two conversations of four entries, and a delegated agent in each."""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        store = VaultSessionStore(vault.access(ALICE))
        for conversation, key in enumerate(KEYS):
            for number in range(4):
                run(store.append(key, [entry(conversation, number)]))
            run(store.append({**key, "subpath": SUBPATH}, [entry(conversation, 9)]))
    return place


def loaded(place, key=KEYS[0]):
    with Vault.open(place) as vault:
        return run(VaultSessionStore(vault.access(ALICE)).load(key))


def numbers(connection):
    return [no for (no,) in connection.execute("SELECT no FROM sessions ORDER BY no")]


def swapped_between_conversations(connection):
    places = [{"session_no": no, "seq": 2} for no in numbers(connection)]
    swapped(connection, "events", places, PLACE)


def swapped_within_a_conversation(connection):
    places = [{"session_no": numbers(connection)[0], "seq": seq} for seq in (1, 2)]
    swapped(connection, "events", places, PLACE)


def payloads_swapped(connection):
    kept = set(surgery.column_names(connection, "events")) - {"body", "address", "size"}
    places = [{"session_no": numbers(connection)[0], "seq": seq} for seq in (1, 2)]
    swapped(connection, "events", places, kept)


def names_swapped(connection):
    kept = set(surgery.column_names(connection, "sessions")) - {"external"}
    swapped(connection, "sessions", [{"no": no} for no in numbers(connection)], kept)


def swapped(connection, table, places, kept):
    found = []
    for where in places:
        terms = " AND ".join(f"{name} = ?" for name in where)
        (row,) = surgery.rows_as_dicts(connection, f"SELECT * FROM {table} WHERE {terms}", *where.values())
        found.append({name: value for name, value in row.items() if name not in kept})
    surgery.without_rules(connection, table)
    for where, values in zip(places, reversed(found), strict=True):
        surgery.update(connection, table, where, **values)


def a_plaintext_row(connection):
    body = json.dumps(entry(0, 0)).encode()
    where = {"session_no": numbers(connection)[0], "seq": 1}
    surgery.update(
        connection, "events", where, body=body, size=len(body), address=hashlib.sha256(body).digest()
    )


def an_entry_removed(connection):
    connection.execute("DELETE FROM events WHERE session_no = ? AND seq = 2", (numbers(connection)[0],))


def a_delegates_entry_made_one_of_the_conversation(connection):
    no = numbers(connection)[0]
    found = connection.execute(
        "SELECT seq FROM events WHERE session_no = ? AND type GLOB 'claude.agent.*'", (no,)
    )
    where = {"session_no": no, "seq": found.fetchone()[0]}
    surgery.update(connection, "events", where, type="claude.entry", type_nth=5)


@pytest.mark.parametrize(
    "edit",
    [
        swapped_between_conversations,
        swapped_within_a_conversation,
        payloads_swapped,
        names_swapped,
        a_plaintext_row,
        an_entry_removed,
        a_delegates_entry_made_one_of_the_conversation,
    ],
)
def test_what_was_edited_is_not_resumed(filled, edit):
    """K2, K4, A3."""
    assert loaded(filled) == [entry(0, number) for number in range(4)]
    with surgery.opened(filled) as connection:
        edit(connection)
    with pytest.raises(Tampered):
        loaded(filled)


def test_an_older_version_put_back_is_refused(place):
    """K4, A3: the beginning of the conversation, genuine row by genuine row."""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        run(VaultSessionStore(vault.access(ALICE)).append(KEYS[0], [entry(0, 0)]))
    with surgery.opened(place) as connection:
        (before,) = surgery.rows_as_dicts(connection, "SELECT * FROM sessions WHERE no = 1")
    with Vault.open(place) as vault:
        run(VaultSessionStore(vault.access(ALICE)).append(KEYS[0], [entry(0, 1)]))
    with surgery.opened(place) as connection:
        connection.execute("DELETE FROM events WHERE session_no = 1 AND seq > 1")
        surgery.update(connection, "sessions", {"no": 1}, **before)
    with pytest.raises(Tampered):
        loaded(place)


@pytest.mark.parametrize("with_keys", [False, True])
def test_rows_that_come_late_bring_no_erased_conversation_back(filled, with_keys):
    """D6, K4, A3: those of the data file, and those of the keys as well."""
    names = ("data.db", "keys.db") if with_keys else ("data.db",)
    saved = {}
    for name in names:
        with surgery.opened(filled, name) as connection:
            tables = [
                row[0]
                for row in connection.execute(
                    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
                )
            ]
            saved[name] = {
                table: surgery.rows_as_dicts(connection, f"SELECT * FROM {table}") for table in tables
            }
    with Vault.open(filled) as vault:
        run(VaultSessionStore(vault.access(ALICE)).delete(KEYS[0]))
    for name, tables in saved.items():
        with surgery.opened(filled, name) as connection:
            for table, rows in tables.items():
                for row in rows:
                    columns = ", ".join(row)
                    marks = ", ".join(f":{column}" for column in row)
                    connection.execute(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", row)
    with pytest.raises((Tampered, Erased, KeyUnavailable)):
        loaded(filled)


def test_nothing_is_in_clear_in_any_file(place, files_with, tmp_path):
    """K1, A3: what was said, ids, keys, names and results, also while some of it is erased."""
    results = tmp_path / "projects" / PROJECT / IDS[0] / "tool-results"
    results.mkdir(parents=True)
    (results / "CANARY-file.txt").write_text("CANARY-result" * 10_000)
    with Vault.create(place) as vault:
        access = vault.access(ALICE)
        store = VaultSessionStore(access)

        async def written():
            for conversation, key in enumerate(KEYS):
                await store.append(key, [entry(conversation, number) for number in range(40)])
                for name in (SUBPATH, f"{SUBPATH}-2"):
                    await store.append({**key, "subpath": name}, [entry(conversation, 9)])
                await store.append(key, [{"type": "custom-title", "customTitle": "CANARY-title"}])
            await ingest_tool_results(store, IDS[0], tmp_path, project_key=PROJECT)
            await store.delete({**KEYS[0], "subpath": SUBPATH})
            assert len(await store.list_session_summaries(PROJECT)) == 2

        run(written())
        session = access.sessions.find().items[0].id
        access.memories.put(("CANARY-space",), "CANARY-key", "CANARY-value", sources=[session])
    assert files_with("CANARY") == []
    for session_id in (*IDS, *(entry(0, number)["uuid"] for number in (0, 9))):
        for form in (session_id, session_id.encode(), bytes.fromhex(session_id.replace("-", ""))):
            assert files_with(form) == []


def test_what_is_erased_of_a_delegate_is_in_no_file(place, files_with):
    """D6, K1: nor can an old copy of the data be read, for its key is gone; the conversation is."""
    with Vault.create(place) as vault:
        store = VaultSessionStore(vault.access(ALICE))
        run(store.append(KEYS[0], [entry(0, 0)]))
        run(store.append({**KEYS[0], "subpath": SUBPATH}, [entry(0, 9)]))
    with surgery.opened(place) as connection:
        bodies = [body for (body,) in connection.execute("SELECT body FROM blobs WHERE epoch != 0")]
    assert len(bodies) == 2  # the entry, and which subpath it is
    assert all(files_with(body) for body in bodies)
    with Vault.open(place) as vault:
        run(VaultSessionStore(vault.access(ALICE)).delete({**KEYS[0], "subpath": SUBPATH}))
    assert not any(files_with(body) for body in bodies)
    assert loaded(place) == [entry(0, 0)]
