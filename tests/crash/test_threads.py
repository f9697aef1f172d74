"""Threads of one process share commits, never each other's failures, and never see a half or false state."""

import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from vault import NewEvent, Principal, Vault, new_event_id
from vault.audit.anchor import History
from vault.errors import Conflict, InvalidInput, SessionEnded, StorageUnavailable, VaultClosed
from vault.storage.files import FileLedger
from vault.storage.records import SqlReader

ALICE = Principal(tenant="acme", subject="alice")


class Writer:
    """The writer's connection, with one statement made to fail once, and commits that take their time."""

    def __init__(self, connection, *, refused=None, pause=0.0):
        self._connection, self._refused, self._pause = connection, refused, pause

    def execute(self, statement, *parameters):
        if statement == self._refused:
            self._refused = None
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        if statement == "COMMIT":
            time.sleep(self._pause)
        return self._connection.execute(statement, *parameters)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def run_all(works):
    """Runs every work in a thread of its own, and what any of them raised."""
    raised = []

    def guarded(work):
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_sixty_four_threads_that_wait_for_each_other_share_one_commit(vault, session, together):
    """Point 3: group commit"""
    before = vault._records.commits()
    events = together(vault, [lambda n=n: session.append("a.b", n) for n in range(64)])
    assert vault._records.commits() == before + 1
    assert sorted(event.seq for event in events) == list(range(1, 65))
    assert list(session.events()) == sorted(events, key=lambda event: event.seq)
    assert vault.verify().findings == ()


def test_many_threads_need_far_fewer_commits_than_appends(vault, alice):
    """Point 3: group commit"""
    sessions = [alice.create() for _ in range(64)]
    vault._database._writer = Writer(vault._database._writer, pause=0.02)
    before = vault._records.commits()
    raised = run_all([lambda s=s: [s.append("a.b", n) for n in range(10)] for s in sessions])
    assert raised == []
    assert vault._records.commits() - before < 640 / 4
    assert [session.info().event_count for session in sessions] == [10] * 64


def test_work_that_fails_undoes_only_itself(vault, session, alice, together):
    """Point 3: group commit"""
    ended, known = alice.create(), new_event_id()
    ended.end()
    session.append("a.b", "known", event_id=known)
    results = together(
        vault,
        [
            lambda: session.append("a.b", 1),
            lambda: session.append("a.b", "other", event_id=known),
            lambda: session.append("a.b", 2),
            lambda: ended.append("a.b", 3),
            lambda: session.append_many([NewEvent(type="a.b", payload=n) for n in range(5)], expect_head=77),
            lambda: session.append("a.b", "known", event_id=known),
            lambda: alice.create(external_id="once"),
            lambda: session.append("a.b", "x" * 5_000),
        ],
    )
    assert [type(result) for result in results if isinstance(result, Exception)] == [
        Conflict,
        SessionEnded,
        Conflict,
    ]
    assert results[5].seq == 1
    assert len(list(session.events())) == 4
    assert list(ended.events()) == []
    assert alice.resume_external("once").id == results[6].id
    assert vault.verify().findings == ()


def test_two_creations_with_one_external_id_in_one_commit_make_one_session(vault, alice, together):
    """S1"""
    results = together(vault, [lambda: alice.create(external_id="same") for _ in range(5)])
    made = [result for result in results if not isinstance(result, Exception)]
    assert len(made) == 1
    assert {type(result) for result in results if isinstance(result, Exception)} == {Conflict}
    assert alice.resume_external("same").id == made[0].id


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "COMMIT"])
def test_a_commit_that_fails_is_nobodys_and_leaves_no_memory(vault, session, alice, together, statement):
    """L2, K4: nothing that was not committed is ever taken for what was last seen"""
    first = session.append("a.b", 0)
    other = alice.create()
    vault._database._writer = Writer(vault._database._writer, refused=statement)
    calls = [lambda: session.append("a.b", 1), session.end, lambda: other.append("a.b", 2), other.end]
    calls += [lambda: session.append("a.b", 1, expect_head=1)]
    results = together(vault, calls)
    # An append that came behind the end within the commit was refused before it failed.
    assert {type(result) for result in results} <= {StorageUnavailable, SessionEnded}
    assert {type(results[1]), type(results[3])} == {StorageUnavailable}
    assert list(session.events()) == [first]
    assert session.info().state == "active"
    assert other.info().event_count == 0
    second = session.append("a.b", 1)
    assert list(session.events()) == [first, second]
    session.end()
    assert vault.verify().findings == ()


def test_readers_see_no_false_alarm_while_others_write(vault, alice, place):
    """K4, L2: a roll-back or tampering is never seen where there was none"""
    sessions = [alice.create(labels={"n": str(n)}) for n in range(3)]
    done = threading.Event()
    writing = threading.Semaphore(0)

    def write(number):
        session = alice.resume(sessions[number % 3].id)
        for n in range(120):
            if n % 10 == 0:
                session.append_many(NewEvent(type="a.b", payload=[number, n, k]) for k in range(5))
            elif n % 17 == 0:
                session.append("c.d", raw=os.urandom(70_000))
            else:
                session.append("a.b" if n % 3 else "c.d", [number, n], run=None)
        short = alice.create()
        short.append("a.b")
        short.end()
        writing.release()

    def read(number):
        session, seen = sessions[number % 3], []
        while not done.is_set():
            log = list(session.events())
            assert log[: len(seen)] == seen
            assert [event.seq for event in log] == list(range(1, len(log) + 1))
            seen = log
            list(session.events(types=["c.d"], limit=3, newest_first=True))
            alice.find(limit=5)
            alice.resume(session.id).info()

    def watch():
        for _ in range(6):
            writing.acquire()
        done.set()

    def elsewhere():
        while not done.is_set():
            with Vault.open(place) as other:
                assert other.verify().findings == ()

    works = [lambda n=n: write(n) for n in range(6)] + [lambda n=n: read(n) for n in range(3)]
    assert run_all([*works, watch, elsewhere]) == []
    assert vault.verify().findings == ()
    assert sum(session.info().event_count for session in sessions) == 6 * (12 * 5 + 108)


@pytest.mark.parametrize("moment", ["ledger", "copies", "database"])
def test_opening_while_another_writes_checkpoints_is_no_roll_back(vault, session, place, monkeypatch, moment):
    """K4, L2: the other one is ahead of whatever was read first"""
    own, busy = vault._anchor.history, []

    def meanwhile(method, is_ours):
        def wrapped(one, *arguments):
            result = method(one, *arguments)
            if not is_ours(one) and not busy:
                busy.append(True)
                session.append("a.b", 1)
                vault.checkpoint()
                busy.pop()
            return result

        return wrapped

    if moment == "ledger":
        monkeypatch.setattr(History, "refresh", meanwhile(History.refresh, lambda one: one is own))
    elif moment == "copies":
        ours = {id(own._ledger), *map(id, vault._copies)}
        monkeypatch.setattr(FileLedger, "numbers", meanwhile(FileLedger.numbers, lambda one: id(one) in ours))
    else:
        monkeypatch.setattr(SqlReader, "vault", meanwhile(SqlReader.vault, lambda one: bool(busy)))
    with Vault.open(place) as other:
        assert other.verify().findings == ()
    assert session.info().event_count > 0


def test_closing_while_threads_work_tells_them_that_it_is_closed(place):
    """Bad input: a closed vault"""
    for _ in range(5):
        with Vault.create(place.with_name(new_event_id())) as vault:
            session = vault.access(ALICE).sessions.create()
            session.append("a.b", raw=os.urandom(100_000))
            going = threading.Barrier(7)

            def write(session=session, going=going):
                going.wait()
                while True:
                    session.append("a.b", 1)

            def read(session=session, going=going):
                going.wait()
                while True:
                    list(session.events())

            closing = [lambda going=going: going.wait() + 1, vault.close]
            raised = run_all([write] * 3 + [read] * 3 + [lambda c=closing: (c[0](), c[1]())])
        assert {type(error) for error in raised} == {VaultClosed}
        assert len(raised) == 6


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_threads_that_come_and_go_leave_no_connections_behind(vault, session):
    """Invariant 12"""
    session.append("a.b", 1)
    run_all([lambda: list(session.events())])
    before = open_files()
    for _ in range(60):
        assert run_all([lambda: list(session.events())]) == []
    assert open_files() <= before + 4


def test_a_read_inside_a_read_works(vault, session, alice):
    """L3: events are read a page at a time, and the caller may do anything in between"""
    session.append_many(NewEvent(type="a.b", payload=n) for n in range(5))
    pairs = [(one.seq, other.seq) for one in session.events() for other in session.events()]
    assert len(pairs) == 25
    for event in session.events():
        session.append("c.d", caused_by=event.id)
    assert session.info().event_count >= 10


def test_bad_input_in_one_thread_does_not_reach_another(vault, session):
    """Bad input"""
    raised = run_all(
        [lambda: session.append("a.b", float("nan")) for _ in range(5)]
        + [lambda: session.append("a.b", 1)] * 5
    )
    assert {type(error) for error in raised} == {InvalidInput}
    assert [event.payload for event in session.events()] == [1] * 5
