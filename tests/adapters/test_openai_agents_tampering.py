"""Somebody who can write the files and has no keys changes a conversation; and two processes share one.

A1, K2, K4.
"""

import asyncio

import pytest

from tests.adapters.openai_agents.talk import call, output, said, texts
from tests.security import surgery
from vault import Principal, Vault
from vault.adapters.openai_agents import VaultSession
from vault.errors import Erased, RolledBack, Tampered, VaultError

ran = asyncio.run
SETTINGS = {"synchronous": "NORMAL"}
ALICE = Principal(tenant="acme", subject="alice")


def talk_of(vault, name):
    return VaultSession(name, vault.access(ALICE))


@pytest.fixture
def closed(place):
    """Two conversations of four items each, and their vault closed."""
    with Vault.create(place, settings=SETTINGS) as vault:
        for name in ("one", "two"):
            talk = talk_of(vault, name)
            ran(talk.add_items([said(f"{name} {number}") for number in range(3)]))
            ran(talk.add_items([said(f"{name} newest")]))
    return place


def number_of(connection, number):
    """The row of a session's nth session."""
    return connection.execute("SELECT no FROM sessions ORDER BY no").fetchall()[number][0]


def event_rows(connection, session_no):
    query = "SELECT * FROM events WHERE session_no = ? AND type = 'openai.item' ORDER BY seq"
    return surgery.rows_as_dicts(connection, query, session_no)


def swapped_events(connection):
    """The payloads of two conversations exchange their places."""
    one, two = (event_rows(connection, number_of(connection, at))[1] for at in range(2))
    surgery.without_rules(connection, "events")
    for row, other in ((one, two), (two, one)):
        where = {"session_no": row["session_no"], "seq": row["seq"]}
        surgery.update(connection, "events", where, blob_no=other["blob_no"])


def swapped_bodies(connection):
    one, two = (event_rows(connection, number_of(connection, at))[1]["blob_no"] for at in range(2))
    bodies = dict(connection.execute("SELECT no, body FROM blobs WHERE no IN (?, ?)", (one, two)).fetchall())
    surgery.update(connection, "blobs", {"no": one}, body=bodies[two])
    surgery.update(connection, "blobs", {"no": two}, body=bodies[one])


def swapped_within(connection):
    """Two items of one conversation exchange their places."""
    first, second = event_rows(connection, number_of(connection, 0))[:2]
    surgery.without_rules(connection, "events")
    for row, other in ((first, second), (second, first)):
        where = {"session_no": row["session_no"], "seq": row["seq"]}
        same = {name: other[name] for name in other if name not in ("session_no", "seq")}
        surgery.update(connection, "events", {**where, "event_id": row["event_id"]}, **same)


def in_clear(connection):
    """A payload that somebody without keys wrote, as the SDK's own store would hold it."""
    row = event_rows(connection, number_of(connection, 0))[1]
    surgery.update(connection, "blobs", {"no": row["blob_no"]}, body=surgery.json_of(said("from nobody")))


def without_the_newest(connection):
    row = event_rows(connection, number_of(connection, 0))[-1]
    query = "DELETE FROM events WHERE session_no = ? AND seq = ?"
    connection.execute(query, (row["session_no"], row["seq"]))


def twice(connection):
    """The newest item again, behind itself."""
    row = event_rows(connection, number_of(connection, 0))[-1]
    surgery.insert(connection, "events", {**row, "seq": row["seq"] + 1, "event_id": b"\x01" * 16})


def without_one_within(connection):
    row = event_rows(connection, number_of(connection, 0))[1]
    query = "DELETE FROM events WHERE session_no = ? AND seq = ?"
    connection.execute(query, (row["session_no"], row["seq"]))


EDITS = [
    swapped_events,
    swapped_bodies,
    swapped_within,
    in_clear,
    without_the_newest,
    without_one_within,
    twice,
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_a_changed_conversation_is_refused_on_reading(closed, edit):
    """K2."""
    with surgery.opened(closed) as connection:
        edit(connection)
    with Vault.open(closed) as vault, pytest.raises(Tampered):
        ran(talk_of(vault, "one").get_items())


def test_an_older_version_put_back_is_refused(closed, tmp_path):
    """K2: the conversation as it was before its newest item was taken back, on the machine that saw it."""
    surgery.copied(closed, tmp_path / "copy")
    with Vault.open(closed) as vault:
        assert ran(talk_of(vault, "one").pop_item()) == said("one newest")
    for name in ("data.db", "keys.db"):
        (closed / name).write_bytes((tmp_path / "copy" / name).read_bytes())
    with pytest.raises(RolledBack):
        Vault.open(closed).close()


def test_an_item_that_was_taken_back_cannot_be_put_back(closed, tmp_path):
    """D4, K2: its old bytes in the row they came from; the fact decides, not whether bytes are there."""
    with surgery.opened(closed) as connection:
        row = event_rows(connection, number_of(connection, 0))[-1]
        [[body]] = connection.execute("SELECT body FROM blobs WHERE no = ?", (row["blob_no"],))
    with Vault.open(closed) as vault:
        ran(talk_of(vault, "one").pop_item())
    with surgery.opened(closed) as connection:
        surgery.update(connection, "blobs", {"no": row["blob_no"]}, body=body)
    with Vault.open(closed) as vault:
        talk = talk_of(vault, "one")
        assert texts(ran(talk.get_items())) == [f"one {number}" for number in range(3)]
        assert ran(talk.pop_item()) == said("one 2")


@pytest.mark.parametrize("kind", ["openai.withdrawn", "openai.cleared", "event.retracted"])
def test_a_fact_of_erasing_cannot_be_removed(closed, kind):
    """K2: what was taken back does not come back by removing what says so."""
    with Vault.open(closed) as vault:
        talk = talk_of(vault, "one")
        ran(talk.pop_item())
        ran(talk.clear_session())
        ran(talk.add_items([said("new")]))
    with surgery.opened(closed) as connection:
        connection.execute("DELETE FROM events WHERE type = ?", (kind,))
    with Vault.open(closed) as vault, pytest.raises(Tampered):
        ran(talk_of(vault, "one").get_items())


def test_a_write_after_the_erasure_is_refused_though_its_row_was_put_back(closed):
    """D4: the session's row of before, put back; its key is gone."""
    with surgery.opened(closed) as connection:
        session = surgery.rows_as_dicts(connection, "SELECT * FROM sessions ORDER BY no")[0]
    with Vault.open(closed) as vault:
        assert ran(talk_of(vault, "one").erase())
    with surgery.opened(closed) as connection:
        surgery.insert(connection, "sessions", session)
    with Vault.open(closed) as vault:
        for use in (lambda talk: talk.add_items([said("late")]), lambda talk: talk.get_items()):
            with pytest.raises(VaultError) as refusal:
                ran(use(talk_of(vault, "one")))
            assert isinstance(refusal.value, Erased | Tampered)


# ---------------------------------------------------------------------------------------------- two processes

WORK = """
import asyncio, json, sys
from vault import Principal, Vault
from vault.adapters.openai_agents import VaultSession
place, name = sys.argv[1:]
with Vault.open(place) as vault:
    talk = VaultSession("talk", vault.access(Principal(tenant="acme", subject="alice")))
    print("ready", flush=True)
    sys.stdin.readline()
    taken = []
    async def work():
        for number in range(15):
            await talk.add_items([{"content": f"{name}/{number}/{part}"} for part in "ab"])
            if number % 3 == 0:
                item = await talk.pop_item()
                if item is not None:
                    taken.append(item["content"])
    asyncio.run(work())
    print(json.dumps(taken), flush=True)
"""
CLEAR = """
import asyncio, sys
from vault import Principal, Vault
from vault.adapters.openai_agents import VaultSession
with Vault.open(sys.argv[1]) as vault:
    talk = VaultSession("talk", vault.access(Principal(tenant="acme", subject="alice")))
    asyncio.run(talk.get_items())
    print("ready", flush=True)
    for line in sys.stdin:
        new = [{"content": line.strip()}]
        asyncio.run(talk.clear_session() if line == "clear\\n" else talk.add_items(new))
        print("done", flush=True)
"""


def test_two_processes_add_and_take_back_without_loss(place, python):
    """D4: every item is there once, or was given to exactly one."""
    import json

    Vault.create(place, settings=SETTINGS).close()
    workers = [python(WORK, place, name) for name in ("one", "two")]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    taken = [text for worker in workers for text in json.loads(worker.stdout.readline())]
    with Vault.open(place) as vault:
        left = texts(ran(talk_of(vault, "talk").get_items()))
    every = [f"{name}/{number}/{part}" for name in ("one", "two") for number in range(15) for part in "ab"]
    assert sorted(left + taken) == sorted(every)


def test_a_process_that_did_not_see_the_clearing_writes_behind_it(place, python):
    """D4: it knows the old generation, whose key is gone, and goes on in the new one."""
    with Vault.create(place, settings=SETTINGS) as vault:
        talk = talk_of(vault, "talk")
        ran(talk.add_items([said("1"), call("c")]))
        other = python(CLEAR, place)

        def tell(line):
            other.stdin.write(line + "\n")
            other.stdin.flush()
            assert other.stdout.readline() == "done\n"

        assert other.stdout.readline() == "ready\n"
        tell("theirs")
        ran(talk.clear_session())
        tell("behind")
        assert texts(ran(talk.get_items())) == ["behind"]
        tell("clear")
        assert ran(talk.get_items()) == []
        ran(talk.add_items([output("c"), said("2")]))
        assert texts(ran(talk.get_items())) == ["2"]  # its call was cleared
