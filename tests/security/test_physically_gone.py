"""What was erased is in no file any more: no plaintext, sealed byte or wrapped key; nor is it said too early.

D6, K1.
"""

import contextlib
import dataclasses
import io
import os
import sqlite3
import threading
import time

import pytest

from tests.security.test_canaries import found_in
from vault import Principal, Vault
from vault.erasure import delete
from vault.errors import NotFound, StorageUnavailable
from vault.sealing.receipts import verified
from vault.storage.remains import FileRemains
from vault.storage.sqlite import Database

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
AUDITOR = Principal(tenant="acme", subject="otto", roles=frozenset({"auditor"}))
WORDS = {
    field: f"Kanarien{'V'}ogel-{field}-Tschilpt"
    for field in (
        "title",
        "label",
        "payload",
        "raw",
        "stream",
        "tool",
        "external",
        "memory",
        "artifact",
        "fork",
    )
}
#: Shorter pieces can be there by chance.
LEAST = 16

#: Keeps a snapshot of both databases until it is told to go.
READ = """
import sys
from vault import Vault
with Vault.open(sys.argv[1]) as vault:
    database = {"data.db": vault._database, "keys.db": vault._key_database}[sys.argv[2]]
    with database.snapshot() as connection:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        print("reading", flush=True)
        sys.stdin.readline()
"""


def planted(access):
    """A session, a fork, a memory and an artifact; a word of its own in every field."""
    session = access.sessions.create(
        title=WORDS["title"], labels={"case": WORDS["label"]}, external_id=WORDS["external"]
    )
    session.append("message.user", {"content": WORDS["payload"]}, tool=WORDS["tool"])
    session.append("message.user", {"content": WORDS["payload"] * 300})
    session.append("file.read", raw=WORDS["raw"].encode() * 4_000 + os.urandom(70_000))
    session.append("file.read", raw=io.BytesIO(WORDS["stream"].encode() * 50_000 + os.urandom(90_000)))
    with session.run() as run:
        run.effect("email.send", WORDS["payload"], {"to": WORDS["payload"]}).once(lambda _: WORDS["raw"])
    fork = access.sessions.fork(session.id, title=WORDS["fork"])
    fork.append("message.user", {"content": WORDS["fork"]})
    access.memories.put(("n",), WORDS["memory"], {"value": WORDS["memory"]}, sources=[fork])
    access.artifacts.put(WORDS["artifact"], os.urandom(80_000), sources=[session])
    access.artifacts.put("small", WORDS["artifact"].encode(), sources=[session])
    return session


def pieces(place):
    """All sealed bytes and wrapped keys there are of sessions and items, in pieces, but for the trail's."""
    found = set()
    with contextlib.closing(sqlite3.connect(place / "data.db")) as data:
        mine = "SELECT no FROM sessions WHERE external IS NULL OR forked_from IS NOT NULL OR no = 1"
        queries = [
            f"SELECT about, mac FROM sessions WHERE no IN ({mine})",  # noqa: S608
            f"SELECT meta, body, mac, chain, address FROM events WHERE session_no IN ({mine})",  # noqa: S608
            f"SELECT body, address FROM blobs WHERE session_no IN ({mine})",  # noqa: S608
            "SELECT about, body, address, mac FROM items",
        ]
        for query in queries:
            found |= {value for row in data.execute(query) for value in row}
        ids = [id_ for (id_,) in data.execute(f"SELECT session_id FROM sessions WHERE no IN ({mine})")]  # noqa: S608
        ids += [id_ for (id_,) in data.execute("SELECT item_id FROM items")]
    with contextlib.closing(sqlite3.connect(place / "keys.db")) as keys:
        for id_ in ids:
            found |= {
                wrapped for (wrapped,) in keys.execute("SELECT wrapped FROM keys WHERE scope = ?", (id_,))
            }
    for file in (place / "blobs").rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            found |= {content[start : start + 64] for start in range(0, len(content) - 64, 20_000)}
    cut = set()
    for value in found:
        if isinstance(value, bytes) and len(value) >= LEAST:
            # A sealed thing begins as all do of its kind; its middle and its end are its own.
            cut |= {value[-LEAST:], value[len(value) // 2 :][:LEAST]}
    return {piece for piece in cut if len(piece) == LEAST}


def left_in(place, wanted):
    """Which pieces stand in which files."""
    found = {}
    for file in sorted(place.rglob("*")):
        if file.is_file():
            content = file.read_bytes()
            count = sum(piece in content for piece in wanted)
            if count:
                found[file.name] = count
    return found


@pytest.fixture
def planted_vault(place):
    with Vault.create(place) as vault:
        access = vault.access(ALICE)
        yield vault, access, planted(access)


def test_no_sealed_byte_and_no_key_is_in_any_file(planted_vault, place, state_home):
    """D6: data, write-ahead logs, their indexes, blobs, temporary files, keys; open and closed, and later"""
    vault, access, session = planted_vault
    wanted = pieces(place)
    kept = access.sessions.create()
    kept.append("message.user", {"content": "stays"})
    assert len(wanted) > 60
    before = left_in(place, wanted)  # the search finds what is there
    assert {"data.db-wal", "keys.db-wal"} <= before.keys() | {"data.db", "keys.db"}
    assert sum(before.values()) >= len(wanted)
    outcome = access.erasure.erase(session=session.id)
    assert (outcome.state, sum(outcome.counts.values())) == ("verified", 5)
    for opened in (True, False):
        assert left_in(place, wanted) == {}, opened
        assert left_in(state_home, wanted) == {}, opened
        assert found_in(place, WORDS) == found_in(state_home, WORDS) == set()
        assert not [file for file in (place / "blobs").rglob("*") if file.is_file()]
        if opened:
            vault.close()
    with Vault.open(place) as again:
        assert [event.payload for event in again.access(ALICE).sessions.resume(kept.id).events()]
        assert left_in(place, wanted) == {}
        assert again.verify().findings == ()


@pytest.mark.parametrize(
    ("name", "finish"), [("data.db", "sweep"), ("data.db", "reopen"), ("keys.db", "ask again")]
)
def test_while_somebody_reads_it_is_executed_and_not_yet_verified(planted_vault, place, python, name, finish):
    """D6: unreadable at once; the receipt names the reader; finished once it is gone"""
    vault, access, session = planted_vault
    wanted = pieces(place)
    reader = python(READ, place, name)
    assert reader.stdout.readline() == "reading\n"
    outcome = access.erasure.erase(session=session.id)
    receipt = verified(outcome.receipt, vault._signer.public)
    assert outcome.state == receipt.state == "executed"
    assert "open_reader" in receipt.not_checked
    assert {store.store: store.wal_truncated for store in receipt.stores}[name] is False
    assert receipt.times.verified_us is None
    with pytest.raises(NotFound):
        access.sessions.resume(session.id)
    reader.communicate("\n", timeout=30)
    assert vault.access(OFFICER).retention.health().unfinished == 1
    if finish == "sweep":
        vault.access(OFFICER).retention.run()
    elif finish == "reopen":
        Vault.open(place).close()
    else:
        assert access.erasure.erase(session=session.id).state == "verified"
    states = [one.state for one in vault.access(AUDITOR).erasure.receipts()]
    assert states == ["verified", "executed"]
    assert left_in(place, wanted) == {}


def test_a_long_reader_does_not_keep_an_erasure_or_its_writers_for_long(planted_vault, place, python):
    """D3: about two seconds, of which no writer waits for more than half of one at a time"""
    _, access, session = planted_vault
    other = access.sessions.create()
    reader = python(READ, place, "data.db")
    assert reader.stdout.readline() == "reading\n"
    waits, over = [], threading.Event()

    def write():
        while not over.is_set():
            began = time.monotonic()
            other.append("message.user", 1)
            waits.append(time.monotonic() - began)

    writer = threading.Thread(target=write)
    writer.start()
    began = time.monotonic()
    outcome = access.erasure.erase(session=session.id)
    seconds = time.monotonic() - began
    over.set()
    writer.join()
    reader.communicate("\n", timeout=30)
    assert outcome.state == "executed"
    assert seconds < 8  # it took twelve and more, with every writer waiting for most of it
    assert len(waits) > 10


# --------------------------------------------------------------- what is left is found before it is denied


def keeping_deleted_pages(monkeypatch):
    connect = Database._connect

    def kept(database):
        connection = connect(database)
        connection.execute("PRAGMA secure_delete = OFF").fetchone()
        return connection

    monkeypatch.setattr(Database, "_connect", kept)
    monkeypatch.setattr(Database, "rewrite", lambda database: True)


def keeping_the_log(monkeypatch):
    monkeypatch.setattr(Database, "truncate", lambda database: True)


def keeping_rows(monkeypatch):
    monkeypatch.setattr(delete, "_OF_SESSIONS", ("delete_touches",))
    monkeypatch.setattr(delete, "_session", lambda transaction, row, budget: delete._Part(1, 0))
    # What is left is found by asking for it, too, not only by its bytes.
    monkeypatch.setattr(FileRemains, "found", lambda self, groups, progress=None: (0, [[] for _ in groups]))


def keeping_a_copy(place):
    blob = next(file for file in (place / "blobs").rglob("*") if file.is_file())
    (place / "blobs" / "incoming" / "tmp1").write_bytes(blob.read_bytes())


@pytest.mark.parametrize("spoil", [keeping_deleted_pages, keeping_the_log, keeping_rows, keeping_a_copy])
def test_a_store_that_keeps_what_it_was_told_to_delete_gives_no_verified_receipt(place, monkeypatch, spoil):
    """D6: the vault looks for itself before it signs"""
    if spoil is not keeping_a_copy:
        spoil(monkeypatch)
    with Vault.create(place) as vault:
        access = vault.access(ALICE)
        session = access.sessions.create()
        for _ in range(60):
            session.append("message.user", {"content": "word " * 300})
        session.append("file.read", raw=os.urandom(90_000))
        if spoil is keeping_a_copy:
            keeping_a_copy(place)
        outcome = access.erasure.erase(session=session.id)
        receipt = verified(outcome.receipt, vault._signer.public)
        assert outcome.state == receipt.state == "incomplete"
        assert receipt.times.erased_us is None
        assert any(store.result == "failed" for store in receipt.stores)
        with pytest.raises(NotFound):
            access.sessions.resume(session.id)
        monkeypatch.undo()


def test_a_file_that_cannot_be_read_gives_no_verified_receipt(place, monkeypatch):
    def refused(self, groups, progress=None):
        raise StorageUnavailable("a file cannot be read")

    with Vault.create(place) as vault:
        access = vault.access(ALICE)
        session = access.sessions.create()
        monkeypatch.setattr(FileRemains, "found", refused)
        assert access.erasure.erase(session=session.id).state == "executed"
        monkeypatch.undo()
        assert access.erasure.erase(session=session.id).state == "verified"


def test_keys_go_first_and_the_ledger_knows_before(planted_vault, place):
    """D6: recorded, then unreadable for good, then deleted"""
    vault, _, session = planted_vault
    scope = bytes.fromhex(session.id.partition("_")[2].replace("-", ""))
    seen = {}

    def counted():
        with vault._key_database.snapshot() as connection:
            query = "SELECT count(*), count(dying) FROM keys WHERE scope = ?"
            keys = connection.execute(query, (scope,)).fetchone()
        with vault._database.snapshot() as connection:
            query = "SELECT count(*) FROM sessions WHERE session_id = ? AND state = 'erasing'"
            fenced = connection.execute(query, (scope,)).fetchone()[0]
        return (*keys, fenced, scope in vault._anchor.history.erased)

    def step(name):
        seen.setdefault(name, counted())

    execution = dataclasses.replace(vault._parts.execution, step=step)
    vault._parts = dataclasses.replace(vault._parts, execution=execution)
    vault.access(ALICE).erasure.erase(session=session.id)
    assert seen["open"] == (1, 0, 0, False)
    assert seen["condemn"] == (1, 0, 1, False)  # fenced, nothing else
    assert seen["record"] == (1, 1, 1, False)  # dying: nobody opens it
    assert seen["destroy"] == (1, 1, 1, True)  # the ledger has it
    assert seen["delete rows"] == (0, 0, 1, True)  # no key is left that opens the rows
    assert seen["prove"] == (0, 0, 0, True)
