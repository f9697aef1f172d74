"""Many processes on one file: each gets its turn, none loses anything, and who waits too long is told so."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from vault import Principal, Vault
from vault.errors import Busy, VaultClosed
from vault.storage.keystore import SqlKeyStore

ALICE = Principal(tenant="acme", subject="alice")

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""
WRITE = """
import sys
from vault import Principal, Vault
place, session_id, name, count = sys.argv[1:]
with Vault.open(place) as vault:
    session = vault.access(Principal(tenant="acme", subject="alice")).sessions.resume(session_id)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        session.append("a.b", [name, number])
"""
CREATE = """
import sys
from vault import Principal, Vault, errors
with Vault.open(sys.argv[1]) as vault:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        sessions = vault.access(Principal(tenant=f"tenant {number}", subject="alice")).sessions
        try:
            sessions.create(external_id="the same").append("a.b", number)
        except errors.Conflict:
            sessions.resume_external("the same").append("a.b", number)
"""
FORK = """
import os, sys
from vault import Principal, Vault
with Vault.open(sys.argv[1]) as vault:
    session = vault.access(Principal(tenant="acme", subject="alice")).sessions.create()
    session.append("a.b", 0)
    for number in range(20):
        if os.fork() == 0:
            sys.exit(0)  # an ordinary end, with all that the interpreter closes at it
        session.append("a.b", number)
        os.wait()
    print(session.id, flush=True)
"""


def started(process):
    assert process.stdout.readline() in {"ready\n", "held\n"}, process.stderr.read()


def go(processes):
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()


def ended(processes):
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors


@pytest.fixture
def impatient(place):
    """A vault whose writers wait for a fifth of a second."""
    with Vault.create(place, settings={"lock_seconds": 0.2}) as opened:
        yield opened


def test_who_waits_past_the_deadline_is_told_in_a_sentence(impatient, place, python):
    """Point 3, invariant 12"""
    session = impatient.access(ALICE).sessions.create()
    holder = python(HOLD, place / ".write-lock")
    started(holder)
    for _ in range(3):
        with pytest.raises(Busy, match=r"another process has held the vault's write lock for .*0\.2 s"):
            session.append("a.b", 1)
    assert list(session.events()) == []  # reading waits for nobody
    go([holder])
    ended([holder])
    assert session.append("a.b", 2).seq == 1
    # The turns that came too late were not kept: others get theirs.
    other = python(WRITE, place, session.id, "other", 2)
    started(other)
    go([other])
    ended([other])
    assert [event.payload for event in session.events()] == [2, ["other", 0], ["other", 1]]


def test_many_threads_that_wait_past_the_deadline_are_all_told(impatient, place, python):
    """Point 3"""
    session = impatient.access(ALICE).sessions.create()
    holder = python(HOLD, place / ".write-lock")
    started(holder)
    told = []

    def write():
        try:
            session.append("a.b", 1)
        except Busy as error:
            told.append(error)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 8
    go([holder])
    ended([holder])
    assert session.append("a.b", 2).seq == 1


def test_an_interrupted_wait_keeps_nobody_else_waiting(place, python):
    """Point 3: Ctrl-C while waiting for a turn"""
    with Vault.create(place, settings={"lock_seconds": 20}) as vault:
        session = vault.access(ALICE).sessions.create()
        holder = python(HOLD, place / ".write-lock")
        started(holder)

        def interrupt(number, frame):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                session.append("a.b", "interrupted")
        finally:
            signal.signal(signal.SIGALRM, before)
        go([holder])
        ended([holder])
        other = python(WRITE, place, session.id, "other", 1)
        started(other)
        go([other])
        ended([other])
        session.append("a.b", "afterwards")
        assert [event.payload for event in session.events()] == [["other", 0], "afterwards"]


def test_a_thread_interrupted_in_the_queue_holds_up_no_other(vault, session):
    """Point 3: Ctrl-C while another thread of this process commits"""
    raised = []

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    threads = [threading.Thread(target=lambda: session.append("a.b", "theirs")) for _ in range(3)]
    try:
        with vault._database._turn:
            threads[0].start()
            while not vault._database._led:
                threads[0].join(0.001)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                session.append("a.b", "interrupted")
            for thread in threads[1:]:
                thread.start()
    finally:
        signal.signal(signal.SIGALRM, before)
    for thread in threads:
        thread.join(30)
        raised += [thread] if thread.is_alive() else []
    assert raised == []
    session.append("a.b", "afterwards")
    assert [event.payload for event in session.events()] == ["theirs"] * 3 + ["afterwards"]


def test_four_processes_lose_nothing_and_take_turns(session, place, python, vault):
    """L2, L8, point 3: a fair lock"""
    count = 60
    writers = [python(WRITE, place, session.id, name, count) for name in "abcd"]
    for writer in writers:
        started(writer)
    go(writers)
    ended(writers)
    log = [event.payload for event in session.events()]
    assert len(log) == 4 * count
    for name in "abcd":
        assert [number for who, number in log if who == name] == list(range(count))
    # When the first of them was through, the others had got on too: nobody starved.
    first = min(log.index([name, count - 1]) for name in "abcd")
    shares = [sum(who == name for who, _ in log[: first + 1]) for name in "abcd"]
    assert min(shares) >= count / 10, shares
    assert vault.verify().findings == ()


def test_processes_that_make_the_same_tenant_at_once_share_its_keys(place, python, vault):
    """K3: one of them makes the keys, all use them"""
    processes = [python(CREATE, place, 12) for _ in range(3)]
    for process in processes:
        started(process)
    go(processes)
    ended(processes)
    for number in range(12):
        sessions = vault.access(Principal(tenant=f"tenant {number}", subject="alice")).sessions
        assert [event.payload for event in sessions.resume_external("the same").events()] == [number] * 3
    assert vault.verify().findings == ()


def test_a_tenant_that_another_makes_between_two_looks_is_no_tampering(vault, place, monkeypatch):
    """K3: its two keys are stored together, and looked for one after the other"""
    get, made = SqlKeyStore.get, []
    carol = Principal(tenant="initech", subject="carol")
    with Vault.open(place) as other:

        def meanwhile(store, purpose, *place):
            found = get(store, purpose, *place)
            if purpose == "tenant" and not made:
                made.append(purpose)
                made.append(other.access(carol).sessions.create().id)
            return found

        monkeypatch.setattr(SqlKeyStore, "get", meanwhile)
        mine = vault.access(carol).sessions.create().id
    assert {item.id for item in vault.access(carol).sessions.find().items} == {made[1], mine}
    assert vault.verify().findings == ()


def in_child(work):
    """What some work gives in a forked child, as JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


def test_a_forked_child_is_told_to_open_the_vault_itself(vault, session, alice, place):
    """L2: a connection carried over a fork would damage the file"""
    session.append("a.b", 1)
    calls = [
        lambda: session.append("a.b", 2),
        lambda: list(session.events()),
        lambda: list(session.follow()),
        session.info,
        session.end,
        alice.create,
        alice.find,
        lambda: alice.resume(session.id),
        vault.verify,
        vault.checkpoint,
        vault.info,
        vault.close,
    ]

    def work():
        told = []
        for call in calls:
            try:
                call()
                told.append("nothing")
            except Exception as error:  # noqa: BLE001 - its name is what the parent compares
                told.append(type(error).__name__)
        with Vault.open(place) as own:
            own.access(ALICE).sessions.resume(session.id).append("a.b", "of the child")
        return told

    assert in_child(work) == [VaultClosed.__name__] * len(calls)
    session.append("a.b", 3)
    assert [event.payload for event in session.events()] == [1, "of the child", 3]
    assert vault.verify().findings == ()


def test_children_that_end_in_the_usual_way_do_no_harm(place, python, vault):
    """L2"""
    vault.close()
    process = python(FORK, place)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    with Vault.open(place) as again:
        session = again.access(ALICE).sessions.resume(output.split()[-1])
        assert [event.payload for event in session.events()] == [0, *range(20)]
        assert again.verify().findings == ()


def test_a_fork_in_the_middle_of_a_commit_leaves_no_lock_behind(vault, session, place, python):
    """Point 3: a child shares the parent's lock file, which must not keep the lock when the parent lets go"""
    reading, writing = os.pipe()
    with vault._database._lock:
        child = os.fork()
        if child == 0:
            os.read(reading, 1)  # lives on, holding whatever it was born with
            os._exit(0)
    try:
        other = python(WRITE, place, session.id, "other", 1)
        started(other)
        go([other])
        ended([other])
        assert session.append("a.b", 1).seq == 2
    finally:
        os.write(writing, b"x")
        os.waitpid(child, 0)


def test_a_killed_holder_gives_its_turn_to_the_next(vault, session, place, python):
    """L2, point 3"""
    holder = python(HOLD, place / ".write-lock")
    started(holder)
    waiting = threading.Thread(target=lambda: session.append("a.b", 1))
    waiting.start()
    holder.kill()
    waiting.join(60)
    assert [event.seq for event in session.events()] == [1]
    assert Path(place / ".write-lock").stat().st_mode & 0o077 == 0
