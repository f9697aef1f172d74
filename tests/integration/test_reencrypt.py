"""One session's keys replaced, and all of it sealed anew under them. K3, D6, S4, O1."""

import contextlib
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading

import pytest

from vault import NewEvent, Principal, Vault, copies
from vault.audit.anchor import behind
from vault.erasure.fence import stored_session
from vault.errors import Conflict, Erased, KeyUnavailable, NotFound, Tampered, VaultError
from vault.sealing.renewal import Renewal, renewal_of
from vault.sessions.log import RETRACTED
from vault.sessions.witness import Witness, head_of

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"agent"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"agent"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
SIZES = (10, 3_000, 20_000, 300_000, 2_000_000)


def filled(access, **about):
    """A session with everything that a log can hold."""
    session = access.sessions.create(title="August", labels={"case": "7"}, external_id="x-1", **about)
    session.append("message.user", {"content": "hello"})
    for size in SIZES:
        session.append("chat.item", {"said": "a" * size}, tool="t", occurred_at=None)
        session.append("chat.raw", raw=b"b" * size)
    session.append("chat.file", raw=io.BytesIO(os.urandom(1_500_000)))
    session.append("chat.repeat", {"said": "a" * 20_000})
    with session.run(lease_seconds=30) as run:
        run.append("message.assistant", {"content": "…"})
        run.effect("email.send", key="k", intent={"to": "x"}, resource="mail/1").once(lambda _: {"id": 1})
        run.checkpoint({"step": 1})
    with session.run(lease_seconds=30) as run:
        run.append("message.assistant", {"content": "more"})
    one = session.append("chat.item", {"said": "single"}, epoch=1)
    session.append("chat.item", {"said": "left"}, epoch=1)
    session.append("chat.item", {"said": "b" * 5_000}, epoch=2)
    session.retract([one.id])
    session.retract_epoch(2)
    return session


def seen(session):
    return [
        (e.id, e.seq, e.type, e.payload, e.raw, e.tool, e.run, e.recorded_at, e.erased, e.epoch, e.streamed)
        for e in session.events()
    ]


def told(session):
    """What filtered reads give, which prove their own completeness."""
    types = sorted({event.type for event in session.events()})
    runs = {event.run for event in session.events() if event.run}
    return [
        *([e.id for e in session.events(types=[name])] for name in types),
        *([e.id for e in session.events(run=run)] for run in sorted(runs)),
    ]


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def rich(alice):
    return filled(alice)


def test_everything_reads_as_before(vault, alice, rich):
    """K3: ids, places, times, payloads of every size, what was erased, counts, title, labels, effects"""
    before, filtered, info = seen(rich), told(rich), rich.info()
    done = vault.keys.reencrypt(rich.id)
    assert done.events == len(before)
    assert done.clean
    for session in (rich, alice.sessions.resume(rich.id), alice.sessions.resume_external("x-1")):
        assert seen(session) == before
        assert told(session) == filtered
        assert session.info() == info
    assert [one.id for one in alice.sessions.find(labels={"case": "7"}).items] == [rich.id]
    assert vault.verify().findings == ()


def test_nothing_of_what_is_stored_is_the_same(vault, place, alice, rich):
    """K3: addresses, chain values and sealed bytes are new, and the old files are gone"""
    before = stored(place, rich)
    vault.keys.reencrypt(rich.id)
    after = stored(place, rich)
    assert not before["sealed"] & after["sealed"]
    assert not before["chains"] & after["chains"]
    assert not before["files"] & after["files"]
    assert len(before["files"]) == len(after["files"])
    assert not before["keys"] & after["keys"]
    assert len(before["keys"]) == len(after["keys"])


def stored(place, session):
    """The session's sealed bytes, chain values, files and wrapped keys, by another process."""
    program = """
import json, pathlib, sqlite3, sys
place, raw = pathlib.Path(sys.argv[1]), bytes.fromhex(sys.argv[2])
data, keys = (sqlite3.connect(f"file:{place}/{name}?mode=ro", uri=True) for name in ("data.db", "keys.db"))
no, about = data.execute("SELECT no, about FROM sessions WHERE session_id = ?", (raw,)).fetchone()
events = data.execute("SELECT body, meta, chain FROM events WHERE session_no = ?", (no,)).fetchall()
blobs = data.execute("SELECT body, address FROM blobs WHERE session_no = ?", (no,)).fetchall()
sealed = [about, *(b for b, _, _ in events), *(m for _, m, _ in events), *(b for b, _ in blobs)]
print(json.dumps({
    "sealed": [one.hex() for one in sealed if one],
    "chains": [chain.hex() for _, _, chain in events],
    "files": [path.name for path in (place / "blobs").rglob("*") if path.is_file()],
    "keys": [w.hex() for (w,) in keys.execute("SELECT wrapped FROM keys WHERE scope = ?", (raw,))],
}))
"""
    raw = session._id.hex()
    command = [sys.executable, "-c", program, str(place), raw]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {name: set(found) for name, found in said.items()}


def test_the_keys_of_before_open_nothing_of_it(vault, place, alice, rich, tmp_path):
    """K3: an old copy of all keys, put back beside the new data, opens nothing of the session"""
    vault.close()
    old = (place / "keys.db").read_bytes()
    with Vault.open(place) as again:
        again.keys.reencrypt(rich.id)
    (place / "keys.db").write_bytes(old)
    with Vault.open(place) as again, pytest.raises(VaultError):
        list(again.access(ALICE).sessions.resume(rich.id).events())


def test_who_had_it_open_goes_on(vault, place, alice, rich):
    """K3, S1: the same object, another one, another process's; readers, writers and a run"""
    with Vault.open(place) as other:
        theirs = other.access(ALICE).sessions.resume(rich.id)
        before = seen(theirs)
        theirs.append("chat.item", {"said": "theirs"}, epoch=3)
        with rich.run(lease_seconds=30) as run:
            run.append("chat.item", {"said": "in the run"})
            vault.keys.reencrypt(rich.id)
            run.append("chat.item", {"said": "still in it"}, epoch=3)
            run.checkpoint({"step": 2})
            assert run.effect("email.send", key="k", intent={"to": "x"}).once(lambda _: 1 / 0) == {"id": 1}
        theirs.append("chat.item", {"said": "they too"}, epoch=1)
        theirs.append("chat.file", raw=io.BytesIO(b"c" * 1_500_000))
        rich.append("chat.item", {"said": "and we"})
        assert seen(theirs)[: len(before)] == before
        assert seen(theirs) == seen(rich)
        with pytest.raises(Erased):
            theirs.append("chat.item", {"said": "late"}, epoch=2)
        other.keys.reencrypt(rich.id)
        rich.append("chat.item", {"said": "again"}, epoch=1)
        assert seen(theirs) == seen(rich)
        assert other.verify().findings == ()
    assert vault.verify().findings == ()


def test_what_was_derived_from_it_stays_and_goes_with_it(vault, alice, rich):
    """D4: items hang where they hung, new ones hang there too, and all go with the session"""
    event = next(rich.events(types=["chat.item"]))
    left = next(e for e in rich.events(types=["chat.item"]) if e.epoch == 1 and not e.erased)
    other = alice.sessions.create()
    for name, sources, rule in (
        ("any", [rich, other], "erase_with_any"),
        ("event", [event], "erase_with_any"),
        ("epoch", [left], "erase_with_any"),
        ("last", [rich, other], "erase_with_last"),
        ("again", [rich, other], "recompute"),
    ):
        alice.memories.put(("m",), name, {"v": name}, sources=sources, on_source_erased=rule)
    vault.keys.reencrypt(rich.id)
    alice.memories.put(("m",), "new", {"v": "new"}, sources=[rich])
    alice.memories.put(("m",), "newer", {"v": "newer"}, sources=[left])
    names = {"any", "event", "epoch", "last", "again", "new", "newer"}
    assert {one.key for one in alice.memories.list(("m",))} == names
    assert vault.verify().findings == ()
    rich.retract_epoch(1)
    assert {one.key for one in alice.memories.list(("m",))} == names - {"epoch", "newer"}
    alice.erasure.erase(session=rich.id)
    assert {one.key for one in alice.memories.list(("m",))} == {"last"}
    assert vault.verify().findings == ()


def test_forks_of_it_go_on(vault, place, alice, rich):
    """S4: a fork names a chain value that is no more; it still shares what it shared"""
    at = list(rich.events())[4]
    forks = [alice.sessions.fork(rich.id), alice.sessions.fork(rich.id, at=at.id)]
    for fork in forks:
        fork.append("message.user", {"content": "another way"})
    deeper = alice.sessions.fork(forks[0].id)
    before = [seen(one) for one in (*forks, deeper)]
    vault.keys.reencrypt(rich.id)
    third = alice.sessions.fork(rich.id, at=at.id)
    vault.keys.reencrypt(rich.id)
    vault.keys.reencrypt(forks[0].id)
    assert [seen(one) for one in (*forks, deeper)] == before
    assert seen(third)[: at.seq] == seen(rich)[: at.seq]
    assert vault.verify().findings == ()
    vault.close()
    with Vault.open(place) as again:
        access = again.access(ALICE)
        assert [seen(access.sessions.resume(one.id)) for one in (*forks, deeper)] == before
        assert again.verify(without_keys=True).findings == ()


def test_what_was_erased_stays_erased_and_more_can_be(vault, place, alice, rich):
    """D6: facts hold, generations go with all their keys, and a repeated one is refused"""
    vault.keys.reencrypt(rich.id)
    left = next(e for e in rich.events(types=["chat.item"]) if e.epoch == 1 and not e.erased)
    rich.retract([left.id])
    rich.append("chat.item", {"said": "g"}, epoch=4)
    vault.keys.reencrypt(rich.id)
    rich.retract_epoch(4)
    with pytest.raises(Erased):
        rich.append("chat.item", {"said": "late"}, epoch=4)
    vault.keys.reencrypt(rich.id)
    with pytest.raises(Erased):
        rich.append("chat.item", {"said": "late"}, epoch=4)
    assert len(list(rich.events(types=[RETRACTED]))) == 4
    assert vault.verify().findings == ()
    alice.erasure.erase(session=rich.id)
    assert vault._store.epochs_of(rich._id) == []
    assert vault.verify().findings == ()


def test_a_rollback_is_still_seen(vault, place, alice, rich):
    """I3: the log of before, put back by whoever kept it, is refused; with the old keys too"""
    vault.close()
    old = {name: (place / name).read_bytes() for name in ("data.db", "keys.db")}
    with Vault.open(place) as again:
        again.keys.reencrypt(rich.id)
    for name, content in old.items():
        (place / name).write_bytes(content)
    with pytest.raises(Tampered):
        Vault.open(place).close()


@pytest.mark.parametrize("change", ["renewed = x''", "renewed = zeroblob(12)", "version = version + 1"])
def test_the_row_that_says_so_is_under_its_mac(vault, place, rich, change):
    """I1: who takes the word away, or forges it, is refused"""
    vault.keys.reencrypt(rich.id)
    vault.close()
    with sqlite3.connect(place / "data.db") as database:
        database.execute(f"UPDATE sessions SET {change} WHERE session_id = ?", (rich._id,))  # noqa: S608
    database.close()
    with pytest.raises(VaultError), Vault.open(place) as again:
        list(again.access(ALICE).sessions.resume(rich.id).events())


def test_a_claim_to_be_sealed_anew_counts_under_the_rows_mac_only(vault, place, alice):
    """I1, I3: it spares comparisons, so nobody without the keys makes it"""
    session = alice.sessions.create()
    session.append("message.user", {"content": "one"})
    vault.close()
    with sqlite3.connect(place / "data.db") as database:
        change = "UPDATE sessions SET renewed = ? WHERE session_id = ?"
        database.execute(change, (Renewal(1).encoded(), session._id))
    database.close()
    with Vault.open(place) as again, pytest.raises(Tampered):
        list(again.access(ALICE).sessions.resume(session.id).events())


@pytest.mark.parametrize(("version", "found"), [(-1, None), (0, Tampered), (1, Tampered)])
def test_what_was_seen_since_a_renewal_is_compared_as_ever(vault, alice, rich, version, found):
    """I3: by this process's memory and by the ledger; what is older cannot be"""
    vault.keys.reencrypt(rich.id)
    renewed = head_of_stored(vault, rich)[0]
    rich.append("chat.item", {"said": "since"})
    rich.append("chat.item", {"said": "since"})
    _, row = head_of_stored(vault, rich)
    seen = head_of(row)._replace(version=renewed + version, seq=row.head_seq - 1, chain=bytes(32))
    with vault._records.snapshot() as reader:
        problems = behind(reader, [seen])
    assert bool(problems) == bool(found)
    with pytest.raises(found) if found else contextlib.nullcontext():
        Witness().check(seen, row, lambda _: b"1" * 32)


def head_of_stored(vault, session):
    tenant = vault._keys.tenant("acme", create=False)
    with vault._records.snapshot() as reader:
        row = stored_session(reader, tenant, session._id)
    return renewal_of(row.renewed).version, row


def test_what_was_prepared_under_the_old_keys_is_prepared_again(vault, place, alice, rich, monkeypatch):
    """K3: also while those are still there, as when the process that replaces them is cut off"""
    with Vault.open(place) as other:
        theirs = other.access(ALICE).sessions.resume(rich.id)
        theirs.append("chat.item", {"said": "before"}, epoch=1)
        with monkeypatch.context() as patched:
            patched.setattr(vault._store, "drop", lambda *_: False)
            assert not vault.keys.reencrypt(rich.id).clean
        theirs.append("chat.item", {"said": "after"}, epoch=1)
        rich.append("chat.item", {"said": "and we"})
        vault.keys.reencrypt(rich.id)
        texts = [e.payload["said"] for e in theirs.events(types=["chat.item"]) if not e.erased]
        assert texts[-3:] == [
            "before",
            "after",
            "and we",
        ]
        assert other.verify().findings == ()


def test_a_planted_fork_attests_nothing(vault, place, alice, rich):
    """I1, S4: a row that names a chain value that never stood there is not vouched for by the next renewal"""
    at = list(rich.events())[2]
    fork = alice.sessions.fork(rich.id, at=at.id)
    vault.close()
    with sqlite3.connect(place / "data.db") as database:
        change = "UPDATE sessions SET base_chain = zeroblob(32) WHERE session_id = ?"
        database.execute(change, (fork._id,))
    database.close()
    with Vault.open(place) as again:
        again.keys.reencrypt(rich.id)
        with again._records.snapshot() as reader:
            (renewed,) = next(reader.scan("renewal_of_session", session_id=rich._id))
        assert renewal_of(renewed).stood == frozenset()
        with pytest.raises(Tampered):
            list(again.access(ALICE).sessions.resume(fork.id).events())
        assert "fork" in {finding.kind for finding in again.verify().findings}


def test_a_fork_is_held_against_what_stands_there_since(vault, place, alice, python):
    """I3, S4: the original alone is rolled back to what the ledger knows, and goes on otherwise"""
    session = alice.sessions.create()
    session.append("message.user", {"content": "one"})
    vault.keys.reencrypt(session.id)
    vault.close()
    old = place.with_name("old.db")
    shutil.copy(place / "data.db", old)
    cut_off = """
import os, sys
from vault import Principal, Vault
vault = Vault.open(sys.argv[1])
sessions = vault.access(Principal(tenant="acme", subject="alice")).sessions
sessions.resume(sys.argv[2]).append("message.user", {"content": "two"})
print(sessions.fork(sys.argv[2]).id, flush=True)
os._exit(0)
"""
    fork = python(cut_off, place, session.id).communicate()[0].strip()
    database = sqlite3.connect(place / "data.db")
    database.execute("ATTACH ? AS old", (str(old),))
    for (name,) in database.execute("SELECT name FROM main.sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    one = "session_no = (SELECT no FROM main.sessions WHERE session_id = ?)"
    database.execute(f"DELETE FROM main.events WHERE {one}", (session._id,))  # noqa: S608
    database.execute(f"INSERT INTO main.events SELECT * FROM old.events WHERE {one}", (session._id,))  # noqa: S608
    columns = "version, head_seq, head_chain, tails, updated_us, mac"
    change = (
        f"UPDATE main.sessions SET ({columns}) = (SELECT {columns} FROM old.sessions WHERE session_id = ?1)"  # noqa: S608
    )
    database.execute(f"{change} WHERE session_id = ?1", (session._id,))
    database.commit()
    database.close()
    with Vault.open(place) as again:
        access = again.access(ALICE)
        access.sessions.resume(session.id).append("message.user", {"content": "another two"})
        with pytest.raises(Tampered):
            list(access.sessions.resume(fork).events())


def test_only_a_session_that_is_there(vault, alice, rich):
    """O1: an id that is none, of an erased one, of the audit trail's own log"""
    alice.erasure.erase(session=rich.id)
    trail = vault._trail._trail(vault._keys.tenant("acme", create=False), create=False)
    for absent in ("ses_none", "", rich.id, trail.id, "ses_01890000-0000-7000-8000-000000000000"):
        with pytest.raises(NotFound):
            vault.keys.reencrypt(absent)


def test_it_stands_in_the_audit_trail(vault, alice, rich):
    """L5: who looks after a tenant sees that it happened"""
    vault.keys.reencrypt(rich.id)
    tenant = vault._keys.tenant("acme", create=False)
    entry = next(vault._trail.entries(tenant, types=["session.reencrypted"], limit=1))
    assert entry.session_id == rich.id


def test_held_and_bound_sessions_go_on_as_they_were(vault, alice, rich):
    """D2: nothing is erased by it, so a hold has nothing against it, and holds on"""
    officer = vault.access(OFFICER)
    officer.holds.place(session=rich.id, reason="a claim")
    before = seen(rich)
    vault.keys.reencrypt(rich.id)
    assert seen(rich) == before
    outcome = alice.erasure.plan(session=rich.id)
    assert outcome.counts == {("session", "held"): 1}


def test_a_writer_that_never_stops_does_not_hold_it_up(vault, place, alice, rich):
    """K3: what is appended meanwhile is in the copy, or after it; nothing is lost"""
    stop, written = threading.Event(), []

    def write():
        number = 0
        while not stop.is_set():
            written.append(rich.append("chat.item", {"n": number}, epoch=1 if number % 2 else 0).id)
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(5):
            vault.keys.reencrypt(rich.id)
    finally:
        stop.set()
        thread.join()
    assert [e.id for e in rich.events(types=["chat.item"])][-len(written) :] == written
    assert vault.verify().findings == ()


def test_two_that_replace_the_keys_at_once_lose_nothing(vault, place, alice, rich):
    """K3: one of them is told that another was faster, or both happen one after the other"""
    before, told = seen(rich), []
    with Vault.open(place) as other:

        def work(one):
            for _ in range(3):
                try:
                    one.keys.reencrypt(rich.id)
                    told.append("done")
                except Conflict:
                    told.append("conflict")

        threads = [threading.Thread(target=work, args=(one,)) for one in (vault, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "done" in told
        assert len(told) == 6
        assert seen(other.access(ALICE).sessions.resume(rich.id)) == before
    assert seen(rich) == before
    assert vault.verify().findings == ()


def test_events_that_expire_by_themselves_expire_under_the_new_keys(vault, alice):
    """D3: their hour stays in their number"""
    session = alice.sessions.create()
    session.append_many([NewEvent(type="chat.item", payload={"n": n}, epoch=5) for n in range(3)])
    vault.keys.reencrypt(session.id)
    assert [event.epoch for event in session.events()] == [5, 5, 5]


def test_labels_are_changed_through_a_handle_from_before(vault, place, alice, rich):
    """D1: what is sealed beside the log is under the fresh keys too"""
    with Vault.open(place) as other:
        other.keys.reencrypt(rich.id)
        assert rich.relabel({"case": "8"}) == {"case": "8"}
        assert other.access(ALICE).sessions.resume(rich.id).info().labels == {"case": "8"}
        assert rich.end() is not None or rich.info().state == "ended"
        vault.keys.reencrypt(rich.id)
        assert rich.info().state == "ended"
        assert other.verify().findings == ()


# ------------------------------------------------------------------------------------------- backups


@pytest.fixture
def backed_up(vault, place, alice, rich, tmp_path):
    """A backup of data and keys, made before a session was re-encrypted; the vault is closed."""
    other = alice.sessions.create()
    other.append("message.user", {"content": "kept"})
    alice.memories.put(("m",), "of both", {"v": 1}, sources=[rich, other])
    alice.memories.put(
        ("m",), "of the last", {"v": 2}, sources=[rich, other], on_source_erased="erase_with_last"
    )
    alice.memories.put(("m",), "of the other", {"v": 3}, sources=[other])
    before = seen(rich)
    copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    vault.keys.reencrypt(rich.id)
    rich.append("message.user", {"content": "since"})
    vault.close()
    place.rename(tmp_path / "replaced")
    return rich.id, other.id, before


def restored(tmp_path, place, keys, **more):
    place_of = {"from_": tmp_path / "data", "to": place, "root_key": tmp_path / "replaced" / "root.key"}
    return copies.restore(**place_of, keys=tmp_path / keys, **more)


def test_a_backup_from_before_comes_back_with_the_keys_of_then(backed_up, place, tmp_path):
    """D6, K3: nothing was erased, so nothing stands against it"""
    session_id, _, before = backed_up
    done = restored(tmp_path, place, "keys", ledger=tmp_path / "replaced" / "ledger")
    assert done.findings == ()
    with Vault.open(place) as vault:
        alice = vault.access(ALICE)
        assert seen(alice.sessions.resume(session_id)) == before
        vault.keys.reencrypt(session_id)
        assert len(list(alice.memories.list(("m",)))) == 3
        assert vault.verify().findings == ()


def test_with_the_keys_of_now_it_is_left_out_if_that_is_accepted(backed_up, place, tmp_path):
    """K3: the others come back; what went with the session is left out too"""
    session_id, other_id, _ = backed_up
    with pytest.raises(KeyUnavailable, match="1 of the backup's sessions were re-encrypted since"):
        restored(tmp_path, place, "replaced")
    assert not place.exists()
    done = restored(tmp_path, place, "replaced", accept_damage=True)
    assert session_id in {lost.session_id for lost in done.lost}
    with Vault.open(place) as vault:
        alice = vault.access(ALICE)
        assert [e.payload for e in alice.sessions.resume(other_id).events()] == [{"content": "kept"}]
        assert {one.key for one in alice.memories.list(("m",))} == {"of the last", "of the other"}
        assert {one.kind for one in vault.verify().findings} <= {"unnamed"}
