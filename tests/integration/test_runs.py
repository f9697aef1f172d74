"""Runs: one at a time, under a lease that is kept, lost, taken away and given back."""

import math
import signal
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from vault import NewEvent, Principal, Reducer, Resolution, Trigger, Vault, new_event_id, new_run_id
from vault.errors import Busy, Conflict, Fenced, InvalidInput, SessionEnded, StorageFull, VaultClosed
from vault.policy.lease import decode
from vault.sessions import run as run_module
from vault.vocabulary import MessageUser, RunStopped, ToolReturned

ALICE = Principal(tenant="acme", subject="alice")
MINUTE_US = 60_000_000
PATIENCE_SECONDS = 30
NO_CHECKPOINTS = Trigger(after_tool=False, every_events=None, every_seconds=None)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A vault and its place; making one costs more than most of these tests, and each has its own session."""
    home = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        with Vault.create(home / "vault", settings={"synchronous": "NORMAL"}) as vault:
            yield vault, home / "vault"
            assert vault.verify().findings == ()


@pytest.fixture
def alice(shared):
    return shared[0].access(ALICE).sessions


class Ticks:
    """A clock that moves by hand, so that a lease runs out before any heartbeat."""

    now = 1_800_000_000_000_000

    def now_us(self):
        return self.now

    def __str__(self):
        return f"{datetime.fromtimestamp(self.now // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


@pytest.fixture(scope="module")
def hands(tmp_path_factory):
    """A vault whose clock moves by hand, and that clock."""
    home, clock = tmp_path_factory.mktemp("hands"), Ticks()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        with Vault.create(home / "vault", settings={"synchronous": "NORMAL"}, clock=clock) as vault:
            yield vault, clock
            assert vault.verify().findings == ()


@pytest.fixture
def clock(hands):
    return hands[1]


@pytest.fixture
def by_hand(hands):
    return hands[0].access(ALICE).sessions.create()


def lease_of(session):
    with session._view(session._authorise("read")) as found:
        return decode(found.row.lease)


def expire(clock):
    clock.now += 10 * MINUTE_US


def told(session):
    """All that a session tells of itself: a refused call must leave it as it was."""
    return list(session.events()), session.info(), lease_of(session)


@contextmanager
def changes_nothing(session):
    before = told(session)
    yield
    assert told(session) == before


def until(condition):
    """Wait for what another thread is about to do."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came to it"
        time.sleep(0.002)


def fail_within(session, error, before):
    with session.run() as run:
        before(run)
        raise error


def types(session):
    return [event.type for event in session.events()]


def hearts():
    return [thread for thread in threading.enumerate() if thread.name == "vault-heartbeat"]


# ----------------------------------------------------------------------------------------------- the lease


def test_a_second_run_is_refused_with_a_word_since_when(by_hand, clock):
    """S6"""
    by_hand.run()
    since = str(clock)
    clock.now += 25_000_000
    with changes_nothing(by_hand), pytest.raises(Busy, match=f"another run is active since {since}; wait"):
        by_hand.run()


def test_a_run_can_begin_again_as_soon_as_the_one_before_is_over(session):
    """S6"""
    names = []
    for number in range(3):
        with session.run() as run:
            run.append("a.b", number)
            names.append(run.id)
    with session.run() as run:
        run.stop("no more to do")
        run.stop("once more")
    assert types(session) == [*["run.started", "a.b", "run.stopped"] * 3, "run.started", "run.stopped"]
    assert [event.run for event in session.events(types=["a.b"])] == names
    assert list(session.events())[-1].payload == {"reason": "no more to do"}


def test_the_lease_is_kept_far_beyond_its_length_while_its_holder_lives(session):
    """S6: five times as long"""
    with session.run(lease_seconds=0.3) as run:
        first = lease_of(session)
        time.sleep(1.5)
        with pytest.raises(Busy):
            session.run()
        assert lease_of(session).until_us > first.until_us + 900_000
        run.append("a.b", 1)
    assert types(session) == ["run.started", "a.b", "run.stopped"]


def test_an_expired_lease_is_taken_over_and_whoever_comes_late_changes_nothing(by_hand, clock):
    """S6"""
    late = by_hand.run(checkpoints=NO_CHECKPOINTS)
    late.append("a.b", 1)
    effect = late.effect("email.send", "one", {"to": "bob"})
    expire(clock)
    over = by_hand.run()
    called = []
    for refused in (
        lambda: late.append("a.b", 2),
        lambda: late.append("a.b", event_id=new_event_id()),
        lambda: late.append("a.b", "y" * 200_000),
        lambda: late.append("a.b", raw=b"z" * 200_000),
        lambda: late.append_many(NewEvent(type="a.b", payload=number) for number in range(100)),
        late.checkpoint,
        lambda: late.checkpoint({"by": "hand"}),
        effect.intend,
        lambda: effect.once(called.append),
        late.renew,
        late.stop,
        late.stop,
    ):
        with changes_nothing(by_hand), pytest.raises(Fenced, match="lost its lease"):
            refused()
    assert called == []
    assert over.append("a.b", 3).seq == 4


def test_an_expired_lease_that_nobody_took_is_still_its_holders(by_hand, clock):
    """S6: a laptop that slept"""
    run = by_hand.run()
    expire(clock)
    run.append("a.b", 1)
    run.renew()
    with pytest.raises(Busy):
        by_hand.run()
    run.stop()
    assert types(by_hand) == ["run.started", "a.b", "run.stopped"]


def test_a_fenced_run_is_told_so_at_its_end_too_whether_or_not_its_thread_noticed_before(session):
    """S6"""
    for noticed in (False, True):
        run = session.run(lease_seconds=0.3 if noticed else 3_600)
        session.stop()
        if noticed:
            run._heart.join(PATIENCE_SECONDS)
        with changes_nothing(session), pytest.raises(Fenced), run:
            pass


def test_leaving_a_fenced_run_with_an_error_hides_neither(session):
    """S6"""
    with pytest.raises(ZeroDivisionError):
        fail_within(session, ZeroDivisionError(), lambda _: session.stop())
    assert types(session) == ["run.started", "run.stopped"]


def test_an_end_that_the_disk_did_not_take_can_be_tried_again(session, monkeypatch):
    """S6"""
    run = session.run()
    with monkeypatch.context() as patch:
        patch.setattr(session._log.records, "transact", lambda work: (_ for _ in ()).throw(StorageFull()))
        with pytest.raises(StorageFull):
            run.stop()
    run._heart.join(PATIENCE_SECONDS)  # not renewed any more: if nobody tries again, the lease runs out
    assert not run._heart.is_alive()
    with pytest.raises(InvalidInput):
        run.stop("\ud800")
    run.stop()
    assert types(session) == ["run.started", "run.stopped"]
    session.run().stop()


@pytest.mark.parametrize("name", ["lease_seconds", "wait"])
@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, True, "30", 365 * 86_400])
def test_a_number_of_seconds_out_of_range_begins_no_run(session, name, seconds):
    """S6, invariant 12"""
    with changes_nothing(session), pytest.raises(InvalidInput, match=f"^{name} is a number of seconds"):
        session.run(**{name: seconds})


def test_a_lease_of_no_time_begins_no_run(session):
    """S6, invariant 12"""
    with changes_nothing(session), pytest.raises(InvalidInput, match="lease_seconds is a number of seconds"):
        session.run(lease_seconds=0)


# ----------------------------------------------------------------------------------------------- the queue


def test_whoever_waits_gets_the_lease_in_order_of_arrival(session):
    """S6"""
    holder, threads = session.run(), []

    def wait(number):
        with session.run(wait=PATIENCE_SECONDS) as run:
            run.append("a.b", number)
            time.sleep(0.005)
            run.append("a.b", number)

    for number in range(8):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        until(lambda: len(lease_of(session).queue) == len(threads))
    with pytest.raises(Busy):
        session.run()
    holder.stop()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    order = [event.payload for event in session.events(types=["a.b"])]
    assert order == [number for number in range(8) for _ in range(2)]
    assert types(session)[2:] == ["run.started", "a.b", "a.b", "run.stopped"] * 8


def test_whoever_waits_does_so_until_a_deadline_and_leaves_the_queue_then(session):
    """S6"""
    holder, before = session.run(), time.monotonic()
    with changes_nothing(session), pytest.raises(Busy, match="another run is active since"):
        session.run(wait=0.4)
    assert 0.4 <= time.monotonic() - before < PATIENCE_SECONDS
    with changes_nothing(session), pytest.raises(Busy):
        session.run(wait=0)
    holder.stop()
    session.run(wait=0).stop()


def test_an_interrupted_wait_leaves_the_queue(session):
    """S6: Ctrl-C"""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    session.run()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with changes_nothing(session), pytest.raises(KeyboardInterrupt):
            session.run(wait=PATIENCE_SECONDS)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_whoever_waits_for_a_session_that_ends_is_told_so(session):
    """S6"""
    session.run()
    heard = []

    def wait():
        with pytest.raises(SessionEnded):
            session.run(wait=PATIENCE_SECONDS)
        heard.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: lease_of(session).queue)
    session.end()
    thread.join(PATIENCE_SECONDS)
    assert heard == [True]


def test_whoever_waits_is_next_when_the_run_is_stopped_from_outside(session):
    """S6, D7"""
    run, began = session.run(), []
    thread = threading.Thread(target=lambda: began.append(session.run(wait=PATIENCE_SECONDS)))
    thread.start()
    until(lambda: lease_of(session).queue)
    assert session.stop() == run.id
    thread.join(PATIENCE_SECONDS)
    assert began[0].started.seq == 3
    with pytest.raises(Fenced):
        run.append("a.b")
    assert began[0].append("a.b").seq == 4


# ------------------------------------------------------------------------------------------- outside a run


def test_whatever_belongs_to_no_run_is_refused_while_one_is_active(by_hand, clock):
    """S6"""
    run = by_hand.run()
    effect = run.effect("email.send", "one")
    effect.intend()
    retry = Resolution(decision="retry")
    for refused in (
        lambda: by_hand.append("message.user", {"content": "hello"}),
        lambda: by_hand.append(MessageUser(content="hello")),
        lambda: by_hand.append("message.user", {"content": "hello"}, run=run.id),
        lambda: by_hand.append_many([NewEvent(type="a.b"), NewEvent(type="a.b", run=run.id)]),
        lambda: by_hand.append("a.b", expect_head=2),
        lambda: by_hand.resolve("email.send", "one", retry),
    ):
        with (
            changes_nothing(by_hand),
            pytest.raises(Busy, match=f"active since {clock}; append within that run, or post"),
        ):
            refused()
    run.stop()
    by_hand.append("message.user", {"content": "hello"})
    by_hand.resolve("email.send", "one", retry)


def test_whatever_belongs_to_no_run_goes_in_again_once_the_lease_ran_out(by_hand, clock):
    """S6"""
    run = by_hand.run()
    expire(clock)
    by_hand.append("message.user", {"content": "is anybody there?"})
    assert [event.payload["content"] for event in run.inbox()] == ["is anybody there?"]


def test_a_run_of_another_process_that_is_over_keeps_nobody_waiting(session, shared):
    """S6: this process has seen that run active, and not its end"""
    with Vault.open(shared[1]) as other:
        run = other.access(ALICE).sessions.resume(session.id).run()
        session.post("message.user", {"content": "hello"})
        run.stop()
        assert session.append("a.b", 1).seq == 4


def test_what_is_posted_stands_in_order_and_reaches_the_run_exactly_once(session):
    """S6, L8"""
    session.post("message.user", {"content": "before"})
    with session.run() as run:
        assert run.inbox() == []
        one = session.post("message.user", {"content": "one"})
        run.append("a.b", 1)
        two = session.post(MessageUser(content="two"))
        assert run.inbox() == [one, two]
        assert run.inbox() == []
        run.append("a.b", 2)
        assert run.inbox() == []
        three = session.post("approval.granted", {"by": "carol"}, caused_by=one.id)
        run.append("a.b", 3)
        assert run.inbox() == [three]
    log = list(session.events())
    assert [event.seq for event in log] == list(range(1, 10))
    assert [log[place] for place in (2, 4, 6)] == [one, two, three]
    assert {event.run for event in (one, two, three)} == {None}
    assert three.caused_by == one.id
    with session.run() as run:
        assert run.inbox() == []  # a later run finds it in the log, not in its inbox


def test_many_that_post_at_once_reach_the_run_once_each_whichever_thread_looks(session):
    """S6, L8"""
    run, got, over = session.run(checkpoints=NO_CHECKPOINTS), [], threading.Event()

    def post(name):
        for number in range(25):
            session.post("message.user", {"content": [name, number]})

    def look():
        while not over.is_set():
            got.extend(run.inbox())  # one step: no other thread comes between

    posters = [threading.Thread(target=post, args=(name,)) for name in "abc"]
    lookers = [threading.Thread(target=look) for _ in range(3)]
    for thread in posters + lookers:
        thread.start()
    for number in range(20):
        run.append("a.b", number)
    for thread in posters:
        thread.join()
    over.set()
    for thread in lookers:
        thread.join()
    got += run.inbox()
    run.stop()
    assert sorted(event.seq for event in got) == [
        event.seq for event in session.events() if event.type == "message.user"
    ]
    assert len(got) == 75


def test_two_threads_that_look_at_the_same_moment_do_not_both_get_it(session, monkeypatch):
    """S6"""
    read = run_module.read

    def slow(*part):
        time.sleep(0.2)  # the other one comes in meanwhile, if it can
        return read(*part)

    monkeypatch.setattr(run_module, "read", slow)
    got = []
    with session.run() as run:
        session.post("message.user", {"content": "hello"})
        threads = [threading.Thread(target=lambda: got.extend(run.inbox())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [event.payload["content"] for event in got] == ["hello"]


@pytest.mark.parametrize(
    "kind",
    [
        "run.started",
        "run.stopped",
        "run.of-mine",
        "tool.requested",
        "tool.returned",
        "effect.intended",
        "effect.committed",
        "effect.resolved",
        "checkpoint.created",
        "context.summarized",
    ],
)
def test_what_only_a_run_writes_is_not_posted(session, kind):
    """S6"""
    payload = {"kind": "email.send", "key": "one", "decision": "commit"}
    for active in (False, True):
        if active:
            session.run()
        with changes_nothing(session), pytest.raises(InvalidInput, match="only a run writes events"):
            session.post(kind, payload)


@pytest.mark.parametrize(
    "fact",
    [
        pytest.param(RunStopped(reason="from outside"), id="run"),
        pytest.param(ToolReturned(tool="crm", result=1), id="tool"),
    ],
)
def test_a_typed_fact_of_a_run_is_not_posted_either(session, fact):
    """S6"""
    with (
        changes_nothing(session),
        pytest.raises(InvalidInput, match="only a run writes events"),
    ):
        session.post(fact)


def test_nothing_is_posted_in_the_name_of_a_run(session):
    """S6: a run that lost its lease would get around its token"""
    run = session.run()
    session.stop()
    for name in (run.id, new_run_id()):
        with changes_nothing(session), pytest.raises(InvalidInput, match="belongs to no run"):
            session.post("message.assistant", {"content": "I am still here"}, run=name)


# ----------------------------------------------------------------------------------------- taking it away


def test_stopping_fences_the_run_off_and_stands_in_the_log(session):
    """S6, D7"""
    run = session.run()
    run.append("a.b", 1)
    assert session.stop("the budget is spent") == run.id
    stopped = list(session.events())[-1]
    assert (stopped.type, stopped.run, stopped.payload) == (
        "run.stopped",
        run.id,
        {"reason": "the budget is spent"},
    )
    for refused in (lambda: run.append("a.b", 2), run.renew, run.stop):
        with changes_nothing(session), pytest.raises(Fenced):
            refused()
    with changes_nothing(session):
        assert session.stop() is None
    with session.run() as other:
        assert other.append("a.b", 3).seq == 5


def test_a_run_whose_lease_ran_out_is_fenced_off_too(by_hand, clock):
    """S6, D7: it may only be paused, and would go on writing"""
    run = by_hand.run()
    expire(clock)
    assert by_hand.stop() == run.id
    with changes_nothing(by_hand), pytest.raises(Fenced):
        run.append("a.b", 1)
    assert types(by_hand) == ["run.started", "run.stopped"]


@pytest.mark.parametrize("taken", [False, True], ids=["it-ended", "another-took-over"])
def test_only_the_run_that_was_seen_is_stopped(session, alice, taken):
    """S6: it was over, or another had begun, between the look and the stop"""
    run, began = session.run(), []
    stopping = alice.resume(session.id)
    append = stopping._append

    def meanwhile(events, terms):
        run.stop()
        began.extend([session.run()] if taken else [])
        return append(events, terms)

    stopping._append = meanwhile
    with pytest.raises(Conflict, match="that run is over meanwhile"):
        stopping.stop()
    assert types(session) == ["run.started", "run.stopped", *["run.started"] * taken]
    for other in began:
        other.append("a.b", "undisturbed")


def test_there_is_nothing_to_stop_where_nothing_runs(session):
    """S6"""
    with changes_nothing(session):
        assert session.stop() is None
    session.run().stop()
    with changes_nothing(session):
        assert session.stop() is None


def test_ending_a_session_ends_its_run(session):
    """S6, D7"""
    with session.run() as run:
        run.append("a.b", 1)
        session.end()
        for refused in (lambda: run.append("a.b", 2), run.checkpoint, run.renew, session.run):
            with changes_nothing(session), pytest.raises(SessionEnded):
                refused()
        with changes_nothing(session), pytest.raises(SessionEnded):
            session.post("message.user", {"content": "too late"})
    assert types(session) == ["run.started", "a.b"]
    assert lease_of(session).run == ""
    assert session.stop() is None


def test_threads_that_write_while_their_run_is_stopped_leave_nothing_behind_the_stop(session):
    """S6, D7, L8"""
    run, start = session.run(checkpoints=NO_CHECKPOINTS), threading.Barrier(5)
    stored, refused = [], []

    def write():
        start.wait()
        for number in range(1_000):
            try:
                stored.append(run.append("a.b", number).seq)
            except Fenced:
                refused.append(number)
                return

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    start.wait()
    time.sleep(0.02)
    session.stop()
    for thread in threads:
        thread.join()
    log = list(session.events())
    assert log[-1].type == "run.stopped"
    assert sorted(stored) == [event.seq for event in log if event.type == "a.b"]
    assert len(refused) == 4


# ------------------------------------------------------------------------------------------------- its end


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("not even that")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(ZeroDivisionError("by nothing"), "by nothing", id="error"),
        pytest.param(KeyboardInterrupt(), "", id="interrupt"),
        pytest.param(SystemExit(3), "3", id="exit"),
        pytest.param(ValueError("x" * 5_000), "x" * 1_000, id="long"),
        pytest.param(ValueError("a\ud800b"), "a?b", id="no-unicode"),
        pytest.param(Unprintable(), "", id="unprintable"),
        pytest.param(SessionEnded(), str(SessionEnded()), id="of-the-vault"),
    ],
)
def test_a_run_that_fails_says_how_and_the_error_comes_through(session, error, message):
    """S6"""
    with pytest.raises(type(error)) as raised:
        fail_within(session, error, lambda run: run.append("a.b", 1))
    assert raised.value is error
    started, _, failed = session.events()
    assert (failed.type, failed.run) == ("run.failed", started.run)
    assert failed.payload == {"error": type(error).__name__, "message": message}
    session.run().stop()  # and its lease is free


def test_an_error_comes_through_when_the_vault_is_closed_or_the_session_ended_within(alice, vault):
    """S6"""
    ended, other = alice.create(), vault.access(ALICE).sessions.create()
    with pytest.raises(ZeroDivisionError):
        fail_within(ended, ZeroDivisionError(), lambda _: ended.end())
    with pytest.raises(ZeroDivisionError):
        fail_within(other, ZeroDivisionError(), lambda _: vault.close())


def test_a_run_that_tries_another_again_names_it(session):
    """S6"""
    runs = []
    with pytest.raises(ZeroDivisionError):
        fail_within(session, ZeroDivisionError(), runs.append)
    first = runs[0]
    with session.run(retry_of=first.id) as again:
        assert again.id != first.id
        assert (again.started.type, again.started.run) == ("run.retried", again.id)
        assert again.started.payload == {"of": first.id}
    for wrong in ("yesterday's", session.id, 7):
        with changes_nothing(session), pytest.raises(InvalidInput, match="a run id is run_"):
            session.run(retry_of=wrong)


@pytest.mark.parametrize("lease_seconds", [0.1, 86_400], ids=["short", "a-day"])
def test_no_thread_is_left_of_a_run(session, lease_seconds):
    """S6"""
    before = set(threading.enumerate())
    with session.run(lease_seconds=lease_seconds) as run:
        assert set(threading.enumerate()) - before == {run._heart}
        assert run._heart.daemon
    run._heart.join(PATIENCE_SECONDS)
    assert set(threading.enumerate()) <= before


def test_no_thread_is_left_of_a_run_when_the_vault_is_closed(place):
    """S6"""
    before = set(threading.enumerate())
    vault = Vault.create(place, settings={"synchronous": "NORMAL"})
    sessions = vault.access(ALICE).sessions
    runs = [sessions.create().run(lease_seconds=seconds) for seconds in (0.1, 0.1, 30, 86_400)]
    assert len(hearts()) >= len(runs)
    vault.close()
    for run in runs:
        run._heart.join(5)
        with pytest.raises(VaultClosed):
            run.append("a.b")
    assert set(threading.enumerate()) <= before


# ----------------------------------------------------------------------------------------- its checkpoints


def test_a_checkpoint_follows_every_so_many_events(session):
    """S6, C1"""
    with session.run(checkpoints=Trigger(after_tool=False, every_events=3, every_seconds=None)) as run:
        for number in range(7):
            run.append("a.b", number)
        run.append_many(NewEvent(type="a.b", payload=number) for number in range(7))
        session.post("message.user", {"content": "not counted: it is not this run's"})
        run.append("tool.returned", 1, tool="crm")
    assert types(session) == [
        "run.started",
        *(["a.b"] * 3 + ["checkpoint.created"]) * 2,
        *["a.b"] * 8,
        "checkpoint.created",
        "message.user",
        "tool.returned",
        "run.stopped",
    ]
    newest = session.last_checkpoint(run.id)
    assert newest.payload["through"] == newest.seq - 1
    assert session.recover().state == session.recover(check=True).state


@pytest.mark.parametrize("answer", ["tool.returned", "tool.failed"])
def test_a_checkpoint_follows_when_a_tool_is_done(session, answer):
    """S6, C1"""
    with session.run(checkpoints=Trigger(after_tool=True, every_events=None, every_seconds=None)) as run:
        request = run.append("tool.requested", {"q": 1}, tool="crm")
        run.append("a.b", 1)
        run.append(answer, {"error": "none"}, tool="crm", caused_by=request.id)
        run.append("a.b", 2)
    assert types(session) == [
        "run.started",
        "tool.requested",
        "a.b",
        answer,
        "checkpoint.created",
        "a.b",
        "run.stopped",
    ]


def test_a_checkpoint_follows_after_so_many_seconds(session, monkeypatch):
    """S6, C1"""
    passed = [0.0]
    monkeypatch.setattr(run_module, "monotonic_seconds", lambda: time.monotonic() + passed[0])
    with session.run(checkpoints=Trigger(after_tool=False, every_events=None, every_seconds=600)) as run:
        run.append("a.b", 1)
        passed[0] += 590
        run.append("a.b", 2)
        passed[0] += 11
        run.append("a.b", 3)
        run.append("a.b", 4)
        passed[0] += 601
        run.checkpoint({"by": "hand"})
        run.append("a.b", 5)
    assert types(session) == [
        *["run.started", "a.b", "a.b", "a.b"],
        *["checkpoint.created", "a.b", "checkpoint.created", "a.b", "run.stopped"],
    ]


def test_no_checkpoint_is_written_when_nothing_asks_for_one(session, monkeypatch):
    """S6, C1"""
    passed = [0.0]
    monkeypatch.setattr(run_module, "monotonic_seconds", lambda: time.monotonic() + passed[0])
    with session.run(checkpoints=NO_CHECKPOINTS) as run:
        for _ in range(3):
            run.append("tool.requested", 1, tool="crm")
            run.append("tool.returned", 1, tool="crm")
            run.append_many(NewEvent(type="a.b", payload=number) for number in range(60))
            passed[0] += 100_000
    assert session.last_checkpoint() is None


def test_an_event_is_stored_though_the_lease_is_lost_before_its_checkpoint(session, alice):
    """S6: refused means that nothing was written, so what was written is not refused"""
    other = alice.resume(session.id)

    def stopping(state, event):
        if event.type == "a.b":
            other.stop()
        return state + 1

    trigger = Trigger(after_tool=False, every_events=1, every_seconds=None)
    run = session.run(checkpoints=trigger, reducer=Reducer(name="count@1", initial=0, apply=stopping))
    event = run.append("a.b", 1)
    assert list(session.events(types=["a.b"])) == [event]
    assert types(session) == ["run.started", "a.b", "run.stopped"]
    with changes_nothing(session), pytest.raises(Fenced):
        run.append("a.b", 2)


def test_a_checkpoint_that_the_disk_did_not_take_is_due_again(session, monkeypatch):
    """S6, C1"""
    with session.run(checkpoints=Trigger(after_tool=False, every_events=2, every_seconds=None)) as run:
        run.append("a.b", 1)
        with monkeypatch.context() as patch:
            patch.setattr(run, "checkpoint", lambda: (_ for _ in ()).throw(StorageFull()))
            run.append("a.b", 2)
        run.append("a.b", 3)
    assert types(session) == ["run.started", "a.b", "a.b", "a.b", "checkpoint.created", "run.stopped"]
