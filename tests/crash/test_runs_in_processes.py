"""Runs in processes of their own: killed, paused, racing, stopped from outside; never two at once."""

import os
import signal
import threading
import time

import pytest

from vault import Principal, Trigger, Vault
from vault.errors import Busy, Fenced
from vault.policy.lease import ALIVE_US, decode

ALICE = Principal(tenant="acme", subject="alice")
PATIENCE_SECONDS = 60
NO_CHECKPOINTS = Trigger(after_tool=False, every_events=None, every_seconds=None)

OPEN = """
import os, signal, sys
from vault import Principal, Trigger, Vault, errors

place, session_id, *given = sys.argv[1:]
vault = Vault.open(place)
session = vault.access(Principal(tenant="acme", subject="alice")).sessions.resume(session_id)

NO_CHECKPOINTS = Trigger(after_tool=False, every_events=None, every_seconds=None)

def ready():
    print("ready", flush=True)
    sys.stdin.readline()

def refused(work):
    try:
        work()
    except errors.VaultError as error:
        return type(error).__name__
    return "nothing"
"""
WRITE = (
    OPEN
    + """
run = session.run(lease_seconds=float(given[0]), checkpoints=NO_CHECKPOINTS)
ready()
print(run.id, flush=True)
number = 0
while True:
    try:
        run.append("a.b", number)
    except errors.VaultError as error:
        print(type(error).__name__, refused(run.stop), flush=True)
        break
    number += 1
"""
)
PAUSE = (
    OPEN
    + """
run = session.run(lease_seconds=float(given[0]))
run.append("a.b", "before")
print("ready", flush=True)
with vault._database._turn:  # not while its heartbeat holds the write lock: then everybody would have to wait
    os.kill(os.getpid(), signal.SIGSTOP)
sys.stdin.readline()
for work in (lambda: run.append("a.b", "late"), run.checkpoint, run.renew, run.stop):
    print(refused(work))
"""
)
WAIT = (
    OPEN
    + """
ready()
with session.run(wait=60) as run:
    run.append("a.b", given[0])
"""
)
RACE = (
    OPEN
    + """
ready()
for number in range(int(given[1])):
    with session.run(wait=60) as run:
        run.append("a.began", [given[0], number])
        run.append("a.ended", [given[0], number])
"""
)
ANSWER = (
    OPEN
    + """
with session.run() as run:
    ready()
    left = int(given[0])
    while left:
        for event in run.inbox():
            run.append("message.assistant", event.payload, caused_by=event.id)
            left -= 1
"""
)
POST = (
    OPEN
    + """
ready()
for number in range(int(given[1])):
    session.post("message.user", [given[0], number])
"""
)


def started(process):
    assert process.stdout.readline() == "ready\n", process.stderr.read()


def go(*processes):
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()


def ended(process):
    output, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, errors
    return output


def lease_of(session):
    with session._view(session._authorise("read")) as found:
        return decode(found.row.lease)


def log_of(session):
    return [(event.type, event.run, event.payload) for event in session.events()]


def until(condition):
    """Wait for what another process is about to do."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came to it"
        time.sleep(0.005)


def test_a_run_that_was_killed_is_taken_over_once_its_lease_ran_out(vault, session, place, python):
    """S6, L2"""
    holder = python(WRITE, place, session.id, 2)
    started(holder)
    go(holder)
    until(lambda: session.info().event_count > 20)
    holder.kill()
    holder.wait()
    lost = lease_of(session)
    with pytest.raises(Busy, match="another run is active since"):
        session.run()
    with session.run(wait=PATIENCE_SECONDS) as run:
        assert run.started.recorded_us >= lost.until_us
        run.append("a.b", "after")
    (_, lost_run, _), *written, begun, after, _ = log_of(session)
    assert written == [("a.b", lost_run, number) for number in range(len(written))]
    assert len(written) >= 20
    assert (begun, after) == (("run.started", run.id, {}), ("a.b", run.id, "after"))
    assert vault.verify().findings == ()


def paused(python, place, session, lease_seconds):
    """A process that was stopped, heartbeat and all, with its lease run out."""
    process = python(PAUSE, place, session.id, lease_seconds)
    started(process)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    until(lambda: lease_of(session).until_us < time.time_ns() // 1_000)
    return process


def resumed(process):
    process.send_signal(signal.SIGCONT)
    go(process)
    return ended(process).split()


def test_a_paused_run_that_comes_back_after_another_took_over_changes_nothing(vault, session, place, python):
    """S6"""
    late = paused(python, place, session, 0.5)
    with session.run() as run:
        run.append("a.b", "of the other")
        before, lease = log_of(session), lease_of(session)
        assert resumed(late) == ["Fenced"] * 4
        assert log_of(session) == before
        assert (lease_of(session).run, lease_of(session).token) == (lease.run, lease.token)
        run.append("a.b", "undisturbed")
    assert [payload for kind, _, payload in log_of(session) if kind == "a.b"] == [
        "before",
        "of the other",
        "undisturbed",
    ]
    assert vault.verify().findings == ()


def test_a_paused_run_that_was_stopped_meanwhile_changes_nothing(vault, session, place, python):
    """S6, D7: its lease ran out, and nobody took it"""
    late = paused(python, place, session, 0.5)
    run = next(session.events()).run
    assert session.stop("enough") == run
    before = log_of(session)
    assert resumed(late) == ["Fenced"] * 4
    assert log_of(session) == before
    assert before[2:] == [("run.stopped", run, {"reason": "enough"})]


def test_a_paused_run_whose_session_was_ended_meanwhile_changes_nothing(vault, session, place, python):
    """S6, D7"""
    late = paused(python, place, session, 0.5)
    session.end()
    before = log_of(session)
    assert resumed(late) == [*["SessionEnded"] * 3, "nothing"]
    assert log_of(session) == before


def test_a_paused_run_that_nobody_replaced_goes_on(vault, session, place, python):
    """S6"""
    late = paused(python, place, session, 0.5)
    assert resumed(late) == ["nothing"] * 4
    assert [kind for kind, _, _ in log_of(session)] == [
        "run.started",
        "a.b",
        "a.b",
        "checkpoint.created",
        "run.stopped",
    ]


@pytest.mark.parametrize("end", [False, True], ids=["stopped", "ended"])
def test_a_process_whose_run_is_taken_away_while_it_writes_leaves_nothing_behind(
    vault, session, place, python, end
):
    """S6, D7, L8"""
    writer = python(WRITE, place, session.id, 30)
    started(writer)
    go(writer)
    run = writer.stdout.readline().strip()
    until(lambda: session.info().event_count > 20)
    if end:
        session.end()
    else:
        assert session.stop("enough") == run
    count = session.info().event_count
    assert ended(writer).split() == (["SessionEnded", "nothing"] if end else ["Fenced", "Fenced"])
    _, *written = log_of(session)
    if not end:
        assert written.pop() == ("run.stopped", run, {"reason": "enough"})
    assert written == [("a.b", run, number) for number in range(len(written))]
    assert session.info().event_count == count
    assert vault.verify().findings == ()


def test_a_process_that_died_waiting_keeps_those_behind_it_waiting_for_a_few_seconds_only(
    vault, session, place, python
):
    """S6"""
    holder = session.run()
    first = python(WAIT, place, session.id, "first")
    started(first)
    go(first)
    until(lambda: len(lease_of(session).queue) == 1)
    began = []
    thread = threading.Thread(target=lambda: began.append(session.run(wait=PATIENCE_SECONDS)))
    thread.start()
    until(lambda: len(lease_of(session).queue) == 2)
    first.kill()
    first.wait()
    said = lease_of(session).queue[0].alive_us
    holder.stop()
    thread.join(PATIENCE_SECONDS)
    assert began[0].started.recorded_us >= said + ALIVE_US
    assert lease_of(session).queue == ()
    began[0].stop()


def test_processes_that_race_for_a_session_have_it_one_at_a_time_in_order_of_arrival(place, python):
    """S6, L8"""
    count = 100
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        session = vault.access(ALICE).sessions.create()
        racers = [python(RACE, place, session.id, name, count) for name in "abcd"]
        for racer in racers:
            started(racer)
        go(*racers)
        for racer in racers:
            ended(racer)
        log = log_of(session)
        assert vault.verify().findings == ()
    runs = [log[place : place + 4] for place in range(0, len(log), 4)]
    assert len(runs) == 4 * count
    for run in runs:  # nothing of any other run between a run's first event and its last
        assert [kind for kind, _, _ in run] == ["run.started", "a.began", "a.ended", "run.stopped"]
        assert len({name for _, name, _ in run}) == 1
        assert run[1][2] == run[2][2]
    order = [run[1][2] for run in runs]
    for name in "abcd":
        assert [number for who, number in order if who == name] == list(range(count))
    first = min(order.index([name, count - 1]) for name in "abcd")
    shares = [sum(who == name for who, _ in order[: first + 1]) for name in "abcd"]
    assert min(shares) >= count / 2, shares
    # Whoever comes back stands behind the other three, so each four in a row are four different ones.
    rounds = [len({who for who, _ in order[place : place + 4]}) == 4 for place in range(first - 3)]
    assert sum(rounds) >= len(rounds) * 3 / 4, rounds


def test_what_users_post_from_other_processes_reaches_the_run_once_and_in_order(
    vault, session, place, python
):
    """S6, L8"""
    count = 25
    answering = python(ANSWER, place, session.id, 2 * count)
    started(answering)
    posting = python(POST, place, session.id, "theirs", count)
    started(posting)
    go(answering, posting)
    for number in range(count):
        session.post("message.user", ["mine", number])
        with pytest.raises(Busy):
            session.append("message.user", ["not posted", number])
    ended(posting)
    ended(answering)
    log = list(session.events())
    asked = [event for event in log if event.type == "message.user"]
    answers = [event for event in log if event.type == "message.assistant"]
    assert [event.payload for event in answers] == [event.payload for event in asked]
    assert [event.caused_by for event in answers] == [event.id for event in asked]
    assert all(answer.seq > event.seq for answer, event in zip(answers, asked, strict=True))
    for name in ("mine", "theirs"):
        assert [number for who, number in (event.payload for event in asked) if who == name] == list(
            range(count)
        )
    assert {event.run for event in asked} == {None}
    assert {event.run for event in answers} == {log[0].run}
    assert vault.verify().findings == ()


def test_one_commit_that_holds_a_stop_and_what_came_behind_it_takes_only_what_came_before(
    vault, session, together
):
    """S6, D7, L8: the events of several threads in one transaction of the database"""
    run = session.run(checkpoints=NO_CHECKPOINTS)
    calls = [lambda number=number: run.append("a.b", number) for number in range(8)]
    calls[4:4] = [session.stop, lambda: session.post("message.user", "hello")]
    commits = vault._database.commits()
    results = together(vault, calls)
    assert vault._database.commits() == commits + 1
    log = list(session.events())
    stopped = [event.type for event in log].index("run.stopped")
    stored = [event for event in results if event in log]
    fenced = [result for result in results if isinstance(result, Fenced)]
    assert len(stored) + len(fenced) + 1 == len(calls)
    assert [event.type for event in log[1:stopped] if event.run] == ["a.b"] * (8 - len(fenced))
    assert [event.type for event in log[stopped + 1 :] if event.run] == []
    assert len(log) == 3 + 8 - len(fenced)
    assert vault.verify().findings == ()
