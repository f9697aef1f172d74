"""What was erased event by event stays erased in whatever is restored: the ledger names it. D6, S4."""

import shutil
import sqlite3
from datetime import UTC, datetime

import pytest

from vault import Principal, Vault, copies, rehearsal
from vault.audit.anchor import FULL_EVERY
from vault.erasure import emptied_again
from vault.errors import NotFound, Tampered
from vault.sealing.notes import Emptied, emptied_record, place_of

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
PIA = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
SECRET = {"content": "the secret of the erased one"}
LONG = {"content": "a secret that is stored once " * 200}
DAY = 24 * 3_600_000_000


@pytest.fixture(autouse=True)
def _machine(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class World:
    """A vault whose root key lies beside it, and what is made of its copies."""

    def __init__(self, tmp):
        self.tmp, self.live, self.copies = tmp, tmp / "vault", 0
        (tmp / "root").mkdir()
        settings = {"synchronous": "NORMAL"}
        self.vault = Vault.create(self.live, root="file:../root/root.key", settings=settings)

    @property
    def access(self):
        return self.vault.access(ALICE)

    def backup(self):
        self.copies += 1
        data, keys = self.tmp / f"data {self.copies}", self.tmp / f"keys {self.copies}"
        copies.backup(self.vault, data, keys)
        return data, keys

    def restored(self, backup, *, ledger=None, **more):
        """The restored vault, open, in place of the one before; and what the restore did."""
        self.vault.close()
        self.copies += 1
        target = self.tmp / f"restored {self.copies}"
        done = copies.restore(backup[0], target, keys=backup[1], ledger=ledger or self.live, **more)
        self.live, self.vault = target, Vault.open(target)
        return done

    def read(self, session_id):
        return [event.payload for event in self.access.sessions.resume(session_id).events()]

    def emptied(self):
        """How many events the ledger names, by session."""
        self.vault.stores.history.refresh()
        found = self.vault.stores.history.emptied
        return {sid: len(list(Emptied(sid, events).records())) for sid, events in found.items()}


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.vault.close()


def cut_off(python, world, session, event_id):
    """Retracts in another process, which ends without a word to the ledger."""
    process = python(RETRACTS, world.live, session.id, event_id)
    assert process.communicate()[1] == ""
    assert process.returncode == 0


RETRACTS = """
import os, sys
from vault import Principal, Vault
vault = Vault.open(sys.argv[1])
alice = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
vault.access(alice).sessions.resume(sys.argv[2]).retract([sys.argv[3]])
os._exit(0)
"""


def raw(session):
    return bytes.fromhex(session.id[4:].replace("-", ""))


def written(access, *payloads, epoch=1):
    session = access.sessions.create()
    return session, [session.append("chat.item", payload, epoch=epoch).id for payload in payloads]


def test_a_restored_vault_says_how_many_were_erased_again_and_verifies(world):
    session, ids = written(world.access, SECRET, {"n": 1}, LONG)
    backup = world.backup()
    session.retract([ids[0]])
    session.retract([ids[2]])
    done = world.restored(backup)
    assert (done.erased_again, done.events_again) == (0, 2)
    assert done.newer_ledger
    assert world.read(session.id)[:3] == [None, {"n": 1}, None]
    report = world.vault.verify()
    assert report.ok, report.findings
    again = world.access.sessions.resume(session.id)
    assert [event.erased for event in again.events(types=["chat.item"])] == [True, False, True]
    assert [event.payload for event in again.events(types=["event.retracted"])] == [
        {"epochs": [], "events": [1, 3]}
    ]
    again.append("chat.item", {"goes": "on"}, epoch=1)
    assert again.retract([ids[0]]) == []
    assert world.vault.verify().ok


def test_a_vault_is_restored_again_and_again_and_nothing_is_named_twice(world):
    session, ids = written(world.access, SECRET, SECRET)
    backup = world.backup()
    session.retract(ids)
    for _ in range(3):
        assert world.restored(backup).events_again == 2
        assert world.read(session.id)[:2] == [None, None]
        assert world.emptied() == {raw(session): 2}
        assert world.vault.verify().ok


def test_another_event_in_the_place_of_an_erased_one_is_not_meant(world):
    """After a restore the log goes on from an earlier place: what is written there then is not erased."""
    session, ids = written(world.access, {"n": 0})
    before = world.backup()
    ids.append(session.append("chat.item", SECRET, epoch=1).id)
    between = world.backup()
    session.retract([ids[1]])
    assert world.restored(before).events_again == 0
    world.access.sessions.resume(session.id).append("chat.item", {"another": 1}, epoch=1)
    after = world.backup()
    assert world.restored(after).events_again == 0
    assert world.read(session.id) == [{"n": 0}, {"another": 1}]
    # And the one that was erased is still known, in a copy of the history that it was in.
    assert world.restored(between).events_again == 1
    assert world.read(session.id)[:2] == [{"n": 0}, None]
    assert world.vault.verify().ok


def test_what_other_events_name_too_stays_for_them(world):
    """A payload that is stored once for two events goes with the last of them."""
    session, ids = written(world.access, LONG, LONG)
    backup = world.backup()
    session.retract(ids[:1])
    assert world.restored(backup).events_again == 1
    assert world.read(session.id)[:2] == [None, LONG]
    assert world.vault.verify().ok
    world.access.sessions.resume(session.id).retract(ids[1:])
    assert world.restored(backup).events_again == 2
    assert world.read(session.id)[:2] == [None, None]


def test_more_events_than_one_fact_names(world, monkeypatch):
    monkeypatch.setattr(emptied_again, "BATCH", 2)
    session, ids = written(world.access, *({"n": n} for n in range(5)))
    backup = world.backup()
    session.retract(ids)
    assert world.restored(backup).events_again == 5
    facts = list(world.access.sessions.resume(session.id).events(types=["event.retracted"]))
    assert [fact.payload["events"] for fact in facts] == [[1, 2], [3, 4], [5]]
    assert world.vault.verify().ok


def test_an_ended_session_and_one_in_the_middle_of_a_run(world):
    ended, first = written(world.access, SECRET)
    busy, second = written(world.access, SECRET)
    with busy.run(lease_seconds=60):
        ended.end()
        backup = world.backup()
    ended.retract(first)
    busy.retract(second)
    assert world.restored(backup).events_again == 2
    assert world.read(ended.id)[0] is None
    assert world.access.sessions.resume(ended.id).info().state == "ended"
    assert world.vault.verify().ok


def test_holds_and_time_of_an_old_copy_do_not_stand_against_it(world):
    """D6: as for whole sessions, what was erased was not held by then; and no session lives longer by it."""
    session, ids = written(world.access, SECRET, {"n": 1})
    hold = world.vault.access(PIA).holds.place(session=session.id, reason="a case")
    backup = world.backup()
    world.vault.access(PIA).holds.lift(hold.id, reason="closed")
    session.retract(ids[:1])
    last = session.info().last_event_at
    assert world.restored(backup).events_again == 1
    info = world.access.sessions.resume(session.id).info()
    assert info.last_event_at < last
    assert world.read(session.id)[:2] == [None, {"n": 1}]
    assert world.vault.verify().ok


class Ticks:
    """A clock that moves by hand."""

    def __init__(self):
        self.now = int(datetime.now(UTC).timestamp() * 1_000_000)

    def now_us(self):
        return self.now


def test_a_session_whose_time_is_over_is_erased_of_and_does_not_come_back(world):
    """D3, D6"""
    clock = Ticks()
    world.vault.close()
    world.vault = Vault.open(world.live, clock=clock)
    session, ids = written(world.access, SECRET, {"n": 1})
    backup = world.backup()
    session.retract(ids[:1])
    clock.now += 400 * DAY
    done = world.restored(backup, clock=clock)
    assert done.events_again == 1
    world.vault.close()
    world.vault = Vault.open(world.live, clock=clock)
    with pytest.raises(NotFound):
        world.access.sessions.resume(session.id)
    assert world.vault.verify().ok


def test_a_fork_reads_what_is_erased_again_as_erased(world):
    original, ids = written(world.access, SECRET, {"n": 1})
    fork = world.access.sessions.fork(original.id, at=ids[1])
    backup = world.backup()
    original.retract(ids[:1])
    assert world.restored(backup).events_again == 1
    assert world.read(fork.id)[:2] == [None, {"n": 1}]
    assert world.vault.verify().ok


def test_what_a_fork_took_over_is_named_as_its_own(world):
    """D3, D6: its original is over and gone; the facts that it shared are in its own log by then."""
    clock = Ticks()
    world.vault.close()
    world.vault = Vault.open(world.live, clock=clock)
    original, ids = written(world.access, SECRET, {"n": 1})
    original.retract(ids[:1])
    fork = world.access.sessions.fork(original.id)
    for days in (180, 200):
        fork.append("chat.item", {"days": days})
        clock.now += days * DAY
        world.vault.access(PIA).retention.trust_clock()
    (swept,) = world.vault.sweep()
    assert swept.going == 1
    world.vault.checkpoint()
    assert world.emptied() == {raw(fork): 1}
    assert world.read(fork.id)[:2] == [None, {"n": 1}]
    assert world.vault.verify().ok


def test_a_crash_loses_no_name_that_the_next_process_could_find(world, python):
    """The facts are in the log: whoever records the session's head next reads what they say."""
    session, ids = written(world.access, SECRET, {"n": 1})
    backup = world.backup()
    world.vault.close()
    cut_off(python, world, session, ids[0])
    world.vault = Vault.open(world.live)
    assert world.emptied() == {}
    world.access.sessions.resume(session.id).append("chat.item", {"n": 2}, epoch=1)
    world.vault.checkpoint()
    assert world.emptied() == {raw(session): 1}
    assert world.restored(backup).events_again == 1
    assert world.read(session.id)[:2] == [None, {"n": 1}]


def test_an_entry_of_one_process_names_what_another_one_erased(world, python):
    """Two processes at work: the head that is recorded lies behind the other's fact."""
    session, ids = written(world.access, SECRET, {"n": 1})
    world.vault.checkpoint()
    cut_off(python, world, session, ids[0])
    session.append("chat.item", {"n": 2}, epoch=1)
    world.vault._anchor.checkpoint()
    assert world.emptied() == {raw(session): 1}


def test_retracting_alone_writes_no_entry(world):
    """What it costs: nothing before the next entry, which would be written anyway."""
    session, ids = written(world.access, SECRET, SECRET)
    entries = world.vault.checkpoint().number
    session.retract(ids[:1])
    session.retract(ids[1:])
    assert world.vault.stores.history.newest.number == entries
    assert world.vault.checkpoint().number == entries + 1


def test_full_entries_name_them_all_until_their_session_is_erased(world):
    session, ids = written(world.access, *({"n": n} for n in range(4)))
    other, others = written(world.access, SECRET)
    session.retract(ids[:2])
    world.vault.checkpoint()
    session.retract(ids[2:3])
    other.retract(others)
    for number in range(FULL_EVERY + 1):
        session.append("chat.item", {"n": number})
        world.vault.checkpoint()
    assert world.emptied() == {raw(session): 3, raw(other): 1}
    world.vault.close()
    world.vault = Vault.open(world.live)  # reads from the newest full entry on
    assert world.emptied() == {raw(session): 3, raw(other): 1}
    assert world.vault.verify().ok
    world.access.erasure.erase(session=session.id)
    assert world.emptied() == {raw(other): 1}


def test_what_was_erased_alone_before_its_epoch_or_its_session_went(world):
    """D6: each in its own way, and all of it in one restore."""
    session, ids = written(world.access, SECRET, {"n": 1})
    whole, of_whole = written(world.access, SECRET)
    backup = world.backup()
    session.retract(ids[:1])
    session.retract_epoch(1)
    whole.retract(of_whole)
    world.access.erasure.erase(session=whole.id)
    done = world.restored(backup)
    assert (done.erased_again, done.events_again) == (1, 1)
    assert world.read(session.id)[:2] == [None, None]
    assert world.vault.verify().ok


def test_a_restore_that_does_not_erase_again_is_refused(world, monkeypatch):
    """That the table can fail, and that the restored vault is held against the ledger before it is served."""
    session, ids = written(world.access, SECRET)
    backup = world.backup()
    session.retract(ids)
    monkeypatch.setattr(copies, "empty_again", lambda *_: 0)
    with pytest.raises(Tampered, match="resurrected"):
        world.restored(backup)
    assert not list(world.tmp.glob("restored*"))


def test_rows_put_back_without_their_fact_are_found(world):
    """A1: the names stand in the ledger, whatever somebody does to the database."""
    session, ids = written(world.access, SECRET)
    world.vault.close()
    shutil.copy(world.live / "data.db", world.tmp / "old.db")
    world.vault = Vault.open(world.live)
    session = world.access.sessions.resume(session.id)
    session.retract(ids)
    world.vault.close()
    with sqlite3.connect(world.tmp / "old.db") as old:
        (body,) = old.execute("SELECT body FROM blobs").fetchone()
    old.close()
    with sqlite3.connect(world.live / "data.db") as data:
        data.execute("UPDATE blobs SET body = ?", (body,))
    data.close()
    world.vault = Vault.open(world.live)
    assert world.read(session.id)[0] is None
    assert not world.vault.verify().ok


def test_a_record_is_a_place_and_says_nothing_of_the_events_id():
    record = emptied_record(bytes(16), 2**31 - 1, b"\xff" * 16)
    assert (len(record), place_of(record)) == (12, 2**31 - 1)
    assert record[4:] != emptied_record(bytes(15) + b"\x01", 2**31 - 1, b"\xff" * 16)[4:]


def test_a_line_of_the_ledger_that_names_no_event_is_refused(world):
    """S4"""
    session, ids = written(world.access, SECRET)
    session.retract(ids)
    world.vault.close()
    newest = max((world.live / "ledger").iterdir())
    text = newest.read_text()
    assert "\nemptied " in text
    for other in (text[:-2], text.replace("\nemptied ", "\nheld "), text[: text.rindex("\nemptied ") + 1]):
        newest.write_text(other)
        with pytest.raises(Tampered):
            Vault.open(world.live)
    newest.write_text(text)
    world.vault = Vault.open(world.live)


def test_a_drill_rehearses_it(world):
    session, ids = written(world.access, SECRET)
    session.retract(ids)
    done = rehearsal.drill(world.vault)
    assert done.ok, done.steps
    (step,) = [one for one in done.steps if one.name == "restore of what was erased"]
    assert step.detail.startswith("both were in the backup")
