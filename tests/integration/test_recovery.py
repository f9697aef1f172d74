"""Recovery: a state from a checkpoint is the state of a full replay, or an error; never a guess."""

import hashlib
import inspect
import itertools
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vault import NewEvent, Principal, Reducer, Trigger, Vault, new_event_id
from vault.encoding import canonical_json
from vault.errors import Diverged, InvalidInput, NotFound, Tampered
from vault.policy.recovery import DEFAULT, state_hash
from vault.policy.state import INITIAL
from vault.sessions import read as reading

ALICE = Principal(tenant="acme", subject="alice")
NEVER = Trigger(after_tool=False, every_events=None, every_seconds=None)
MOMENT = datetime(2026, 8, 1, tzinfo=UTC)
CHECKPOINT = "checkpoint.created"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A vault and its place; making one costs more than most of these tests, and each has its own session."""
    home = tmp_path_factory.mktemp("recovery")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        with Vault.create(home / "vault", settings={"synchronous": "NORMAL"}) as vault:
            yield vault, home / "vault"


@pytest.fixture
def alice(shared):
    return shared[0].access(ALICE).sessions


def count(state, event):
    """How often each type came, and the sum of what messages said."""
    said = event.payload if isinstance(event.payload, int) else 0
    return {
        "types": {**state["types"], event.type: state["types"].get(event.type, 0) + 1},
        "sum": state["sum"] + said,
        "last": event.id,
    }


COUNTING = Reducer(name="counting@1", initial={"types": {}, "sum": 0, "last": None}, apply=count)
REDUCERS = [pytest.param(DEFAULT, id="default"), pytest.param(COUNTING, id="own")]


def replayed(reducer, log):
    """The state before the first event of a log, and after each, by nothing but the reducer."""
    return list(itertools.accumulate(log, reducer.apply, initial=reducer.initial))


def checked_everywhere(session, reducer):
    """Recovery at every event is a full replay up to there; the number of checkpoints that were used."""
    log = list(session.events())
    states = replayed(reducer, log)
    used = set()
    for event, state in zip(log, states[1:], strict=True):
        found = session.recover(reducer, at=event.id)
        assert canonical_json(found.state) == canonical_json(state)
        assert found.sha256 == hashlib.sha256(canonical_json(state)).hexdigest()
        assert found.through == event.seq
        used.add(found.checkpoint)
        if found.checkpoint is None:
            assert found.replayed == event.seq
        else:
            base = log[[one.id for one in log].index(found.checkpoint)]
            assert base.payload["reducer"] == reducer.name
            assert base.seq <= event.seq
            assert found.replayed == event.seq - base.payload["through"]
    last = session.recover(reducer)
    assert canonical_json(last.state) == canonical_json(states[-1])
    assert [step.event for step in session.replay(reducer)] == log
    return used - {None}


# ------------------------------------------------------------------------------------ the same as a replay

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("message"), st.sampled_from(["user", "assistant"]), st.integers(-9, 9)),
        st.tuples(st.just("call"), st.sampled_from(["crm", "mail"])),
        st.tuples(st.just("answer"), st.sampled_from(["returned", "failed"]), st.integers(0, 5)),
        st.tuples(
            st.just("effect"), st.sampled_from(["a", "b"]), st.sampled_from(["commit", "fail", "leave"])
        ),
        st.tuples(st.just("observe"), st.sampled_from(["crm/1", "crm/2"])),
        st.tuples(st.just("ask")),
        st.tuples(st.just("grant"), st.integers(0, 5)),
        st.tuples(st.just("node"), st.sampled_from(["plan", "act"])),
        st.tuples(st.just("summary"), st.integers(1, 12), st.integers(0, 6)),
        st.tuples(st.just("post"), st.integers(-9, 9)),
        st.tuples(st.just("checkpoint")),
        st.tuples(st.just("by hand")),
        st.tuples(st.just("another run")),
        st.tuples(st.just("odd"), st.sampled_from([None, 3, "x", [1], {"kind": 4}])),
    ),
    max_size=30,
)


class Writer:
    """Writes the steps through the face, as a program would."""

    def __init__(self, session, trigger, reducer):
        self.session, self.about = session, {"checkpoints": trigger, "reducer": reducer, "lease_seconds": 600}
        self.run = session.run(**self.about)
        self.calls, self.asked, self.keys = [], [], itertools.count()

    def write(self, step):
        name, *said = step
        getattr(self, "_" + name.replace(" ", "_"))(*said)

    def _message(self, role, number):
        self.run.append(f"message.{role}", number)

    def _call(self, tool):
        self.calls.append(self.run.append("tool.requested", {}, tool=tool).id)

    def _answer(self, how, which):
        cause = self.calls[which % len(self.calls)] if self.calls else None
        self.run.append(f"tool.{how}", {"n": which}, caused_by=cause, tool="crm", observed_at=MOMENT)

    def _effect(self, key, how):
        effect = self.run.effect("mail.send", f"{key}{next(self.keys)}", {"to": "x"})
        effect.intend()
        if how == "commit":
            effect.commit({"ok": True})
        elif how == "fail":
            effect.fail("no")

    def _observe(self, resource):
        self.run.append("observation.recorded", {"value": 1}, resource=resource, observed_at=MOMENT)

    def _ask(self):
        self.asked.append(self.run.append("approval.requested", {"what": "send it"}).id)

    def _grant(self, which):
        if self.asked:
            self.session.post("approval.granted", {}, caused_by=self.asked[which % len(self.asked)])

    def _node(self, to):
        self.run.append("state.changed", {"to": to})

    def _summary(self, first, more):
        self.run.append("context.summarized", {"summary": "s", "first_seq": first, "last_seq": first + more})

    def _post(self, number):
        self.session.post("message.user", number)

    def _checkpoint(self):
        self.run.checkpoint()

    def _by_hand(self):
        self.run.checkpoint({"anything": [1, 2]})

    def _another_run(self):
        self.run.stop()
        self.run = self.session.run(**self.about)

    def _odd(self, payload):
        self.run.append("context.summarized", payload)
        self.run.append("state.changed", payload)


TRIGGERS = {
    "none": NEVER,
    "every-event": Trigger(after_tool=False, every_events=1, every_seconds=None),
    "every-third": Trigger(after_tool=False, every_events=3, every_seconds=None),
    "after-tools": Trigger(after_tool=True, every_events=None, every_seconds=None),
}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.sampled_from(sorted(TRIGGERS)), st.sampled_from([DEFAULT, COUNTING]))
def test_a_recovery_at_any_event_is_the_replay_of_all_events_up_to_there(alice, steps, trigger, reducer):
    """C2, C3"""
    session = alice.create()
    writer = Writer(session, TRIGGERS[trigger], reducer)
    for step in steps:
        writer.write(step)
    writer.run.stop()
    for one in (DEFAULT, COUNTING):
        checked_everywhere(session, one)


@pytest.mark.parametrize("reducer", REDUCERS)
def test_checkpoints_are_used_and_give_what_a_replay_gives(alice, reducer):
    """C1, C2, C3"""
    session = alice.create()
    with session.run(reducer=reducer, checkpoints=TRIGGERS["every-third"]) as run:
        for number in range(20):
            run.append("message.user", number)
    used = checked_everywhere(session, reducer)
    assert len(used) == sum(event.type == CHECKPOINT for event in session.events()) >= 5
    other = COUNTING if reducer is DEFAULT else DEFAULT
    assert checked_everywhere(session, other) == set()


def test_what_was_posted_between_a_state_and_its_checkpoint_is_replayed(alice, monkeypatch):
    """C2"""
    session = alice.create()
    with session.run(checkpoints=NEVER, reducer=COUNTING) as run:
        run.append("message.user", 1)
        caught_up = run._caught_up

        def late():
            found = caught_up()
            session.post("message.user", 10)
            return found

        monkeypatch.setattr(run, "_caught_up", late)
        event = run.checkpoint()
    assert event.payload["through"] == event.seq - 2
    assert session.recover(COUNTING).state["sum"] == 11
    assert checked_everywhere(session, COUNTING) == {event.id}


def test_a_session_without_events_recovers_to_the_initial_state(alice):
    """C2"""
    session = alice.create()
    found = session.recover()
    assert (found.state, found.through, found.checkpoint, found.replayed) == (INITIAL, 0, None, 0)
    assert list(session.replay()) == []


def test_a_caller_who_changes_a_recovered_state_changes_nobody_elses(alice):
    """C2, O1"""
    empty, session = alice.create(), alice.create()
    session.append("message.user", 1)
    before = canonical_json(INITIAL)
    for state in (empty.recover().state, session.recover().state, next(session.replay()).state):
        state["approvals"]["open"]["x"] = {"seq": 1, "what": "a secret"}
        state["effects"]["dropped"] = 7
        state["observations"]["y"] = [1, 1, None]
    assert canonical_json(INITIAL) == before
    assert empty.recover().state == INITIAL


@pytest.mark.parametrize("reducer", REDUCERS)
def test_another_process_recovers_the_same_hash(alice, shared, python, reducer):
    """C2"""
    session = alice.create()
    with session.run(reducer=reducer, checkpoints=TRIGGERS["every-third"]) as run:
        for number in range(10):
            run.append("tool.returned", number, tool="crm", observed_at=MOMENT)
    program = """
import inspect, sys
from vault import Principal, Reducer, Vault
from vault.policy.recovery import DEFAULT
place, session_id, source = sys.argv[1:]
names = {}
exec(source, names)
own = lambda: Reducer(name="counting@1", initial={"types": {}, "sum": 0, "last": None}, apply=names["count"])
with Vault.open(place) as vault:
    session = vault.access(Principal(tenant="acme", subject="alice")).sessions.resume(session_id)
    print(session.recover(own() if source else DEFAULT).sha256)
"""
    source = "" if reducer is DEFAULT else inspect.getsource(count)
    process = python(program, shared[1], session.id, source)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.strip() == session.recover(reducer).sha256


# ------------------------------------------------------------------------------------------------ refusals


def impure_reducers():
    calls = itertools.count()

    def counted(state, event):
        return {"calls": next(calls)} if event.seq >= 3 else state

    def changes(state, event):
        if event.seq >= 3:
            state["seen"] = state.get("seen", 0) + 1
        return state

    def sets(state, event):
        if event.seq >= 3:
            state["type"] = event.type
        return dict(state)

    def timed(state, event):
        return {"at": time.perf_counter_ns()} if event.seq >= 3 else state

    kept = []

    def grows(state, event):
        if event.seq >= 3:
            kept.append(event.seq)
        return {"kept": kept}

    return {
        "a-counter": counted,
        "adds-to-its-state": changes,
        "sets-in-its-state": sets,
        "a-clock": timed,
        "gives-what-it-keeps": grows,
    }


@pytest.mark.parametrize("name", sorted(impure_reducers()))
def test_a_reducer_that_is_not_pure_is_refused_at_the_event_that_shows_it(alice, name):
    """C2"""
    session = alice.create()
    for number in range(5):
        session.append("message.user", number)
    reducer = Reducer(name="impure@1", initial={}, apply=impure_reducers()[name])
    for call in (
        lambda: session.recover(reducer),
        lambda: session.recover(reducer),  # what it did to its own initial state does not help it
        lambda: list(session.replay(reducer)),
        lambda: list(session.replay(reducer, follow=True, idle_seconds=0)),
    ):
        with pytest.raises(InvalidInput, match="at seq 3"):
            call()


def test_an_impure_reducer_writes_no_checkpoint(alice):
    """C1, C2"""
    session = alice.create()
    reducer = Reducer(name="impure@1", initial={}, apply=impure_reducers()["a-clock"])
    with session.run(reducer=reducer, checkpoints=NEVER) as run:
        run.append("message.user", 1)
        run.append("message.user", 2)
        with pytest.raises(InvalidInput, match="at seq 3"):
            run.checkpoint()
    assert session.last_checkpoint() is None


def with_three_checkpoints(alice):
    """Tool calls between the first and second, and between the second and third checkpoint; none before."""
    session, checkpoints = alice.create(), []
    with session.run(reducer=COUNTING, checkpoints=NEVER) as run:
        for kind in ("message.user", "note.made", "note.made"):
            run.append(kind, 1)
            run.append("message.user", 2)
            checkpoints.append(run.checkpoint())
        run.append("note.made", 3)
    return session, checkpoints


def changed_count(state, event):
    after = count(state, event)
    return {**after, "sum": after["sum"] + 100} if event.type == "note.made" else after


CHANGED = Reducer(name="counting@1", initial=COUNTING.initial, apply=changed_count)


def test_a_reducer_changed_under_its_name_is_found_at_the_first_checkpoint_that_differs(alice):
    """C2"""
    session, (first, second, third) = with_three_checkpoints(alice)
    before = list(session.events())
    for call in (
        lambda: session.recover(CHANGED),
        lambda: session.recover(CHANGED, at=third.id),
        lambda: list(session.replay(CHANGED, recent=True)),
    ):
        with pytest.raises(Diverged, match=rf"{second.id} \(event {second.seq}\)") as refusal:
            call()
        assert third.id not in str(refusal.value)
    assert session.recover(CHANGED, at=first.id).checkpoint == first.id
    assert session.recover(CHANGED, check=False).checkpoint == third.id
    other_name = Reducer(name="counting@2", initial=CHANGED.initial, apply=CHANGED.apply)
    assert session.recover(other_name).state == replayed(CHANGED, before)[-1]
    assert list(session.events()) == before


def stated(state, through, reducer="counting@1", sha256=None):
    return {
        "state": state,
        "sha256": state_hash(state) if sha256 is None else sha256,
        "through": through,
        "reducer": reducer,
    }


WRONG = {
    "another-hash": stated({"a": 1}, 1, sha256="0" * 64),
    "a-hash-in-capitals": stated({"a": 1}, 1, sha256=state_hash({"a": 1}).upper()),
    "the-hash-of-another-state": stated({"a": 1}, 1, sha256=state_hash({"a": 2})),
    "no-hash": {"state": {"a": 1}, "through": 1, "reducer": "counting@1"},
    "no-state": {"sha256": state_hash(None), "through": 1, "reducer": "counting@1"},
    "a-hash-that-is-null": {"state": None, "sha256": None},
    "no-object": "state",
    "nothing": None,
}


@pytest.mark.parametrize("payload", [pytest.param(value, id=name) for name, value in WRONG.items()])
def test_a_checkpoint_that_does_not_hold_its_own_hash_is_refused(alice, payload):
    """C1"""
    session = alice.create()
    session.append("message.user", 1)
    for write in (
        lambda: session.append(CHECKPOINT, payload),
        lambda: session.append_many([NewEvent(type=CHECKPOINT, payload=payload)]),
    ):
        with pytest.raises(InvalidInput, match="SHA-256"):
            write()
    assert session.info().event_count == 1


def test_a_stored_checkpoint_whose_hash_is_wrong_is_not_recovered_from(alice, monkeypatch):
    """C2: as an earlier or a careless writer could have stored it"""
    session = alice.create()
    session.append("message.user", 1)
    with monkeypatch.context() as patch:
        patch.setattr("vault.sessions.prepare.check_snapshot", lambda _: None)
        session.append(CHECKPOINT, stated({"a": 1}, 1, sha256="0" * 64))
    with pytest.raises(InvalidInput):
        session.recover(COUNTING)


@pytest.mark.parametrize("through", [2, 3, 10**6, -1, True, 1.0, "1", None])
def test_a_checkpoint_that_covers_more_than_what_is_before_it_is_refused(alice, through):
    """C2"""
    session = alice.create()
    session.append("message.user", 1)
    session.append(CHECKPOINT, stated(COUNTING.initial, through))
    with pytest.raises(Tampered, match="cover events that are not before it"):
        session.recover(COUNTING)
    assert session.recover().through == 2  # another reducer never looks at it


def test_a_checkpoint_given_by_hand_that_no_replay_gives_is_refused(alice):
    """C2: never a guess"""
    session = alice.create()
    session.append("message.user", 1)
    forged = session.append(CHECKPOINT, stated({**COUNTING.initial, "sum": 1_000_000}, 1))
    session.append("message.user", 2)
    with pytest.raises(Diverged, match=forged.id):
        session.recover(COUNTING)


def test_an_event_of_another_session_is_no_point_to_recover_at(alice):
    """C3, O1"""
    session, other = alice.create(), alice.create()
    session.append("message.user", 1)
    with other.run(checkpoints=NEVER) as run:
        run.append("message.user", 2)
        foreign = run.checkpoint()
    for stranger in (foreign.id, new_event_id()):
        with pytest.raises(NotFound):
            session.recover(at=stranger)
    with pytest.raises(InvalidInput):
        session.recover(at="checkpoint 1")


# ---------------------------------------------------------------------------------------------------- cost


def opened_while(monkeypatch, call):
    """How many events a call opens."""
    opened = itertools.count()
    decode = reading.decode_event

    def counted(*arguments):
        next(opened)
        return decode(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(reading, "decode_event", counted)
        found = call()
    return next(opened), found


def long_session(alice, events):
    session = alice.create()
    with session.run(reducer=COUNTING, checkpoints=NEVER, lease_seconds=600) as run:
        for start in range(0, events, 50):
            run.append_many(NewEvent(type="message.user", payload=n) for n in range(start, start + 49))
            run.checkpoint()
        for number in range(20):
            run.append("message.user", number)
    return session


def test_a_recovery_opens_as_many_events_of_a_long_session_as_of_a_short_one(alice, monkeypatch):
    """C2, L9: the distance to the checkpoint, and one interval before it; not the length of the log"""
    opened = {}
    for events in (200, 5_000):
        session = long_session(alice, events)
        middle = next(iter(session.events(types=["message.user"], limit=1))).id
        opened[events], found = opened_while(monkeypatch, lambda session=session: session.recover(COUNTING))
        assert found.state["sum"] == sum(e.payload for e in session.events(types=["message.user"]))
        assert found.replayed == 22  # the checkpoint itself, 20 messages and the end of the run
        early, _ = opened_while(
            monkeypatch, lambda session=session, at=middle: session.recover(COUNTING, at=at)
        )
        assert early <= 2
        unchecked, _ = opened_while(
            monkeypatch, lambda session=session: session.recover(COUNTING, check=False)
        )
        assert unchecked < opened[events]
    assert opened[200] == opened[5_000] <= 22 + 50 + 4


# ------------------------------------------------------------------------------------------------ following


def test_a_replay_that_goes_on_while_others_append_gives_every_event_once(alice):
    """L10, C2"""
    session, written, start = alice.create(), [], threading.Barrier(3)
    with session.run(reducer=COUNTING, checkpoints=NEVER) as run:
        for number in range(120):
            run.append("message.user", number)
        checkpoint = run.checkpoint()
        for number in range(30):
            run.append("message.user", number)

    def write(number):
        start.wait()
        written.extend(session.append("message.user", number * 1_000 + n).id for n in range(60))

    threads = [threading.Thread(target=write, args=(n,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    steps = session.replay(COUNTING, recent=True, follow=True, idle_seconds=30)
    start.wait()
    seen = []
    for step in steps:
        seen.append(step)
        if sum(one.event.payload in range(1_000, 3_000) for one in seen if one.event.run is None) == 120:
            break
    for thread in threads:
        thread.join()
    log = list(session.events())
    behind = checkpoint.payload["through"]
    assert [step.event for step in seen] == log[behind:]
    assert sorted(step.event.id for step in seen[-120:]) == sorted(written)
    states = replayed(COUNTING, log)[behind + 1 :]
    assert [canonical_json(step.state) for step in seen] == [canonical_json(state) for state in states]
    assert canonical_json(seen[-1].state) == canonical_json(session.recover(COUNTING).state)


def test_a_replay_of_the_recent_part_begins_at_the_newest_checkpoint(alice):
    """L11, C3"""
    session, (_, _, third) = with_three_checkpoints(alice)
    log = list(session.events())
    steps = list(session.replay(COUNTING, recent=True))
    assert [step.event for step in steps] == log[third.payload["through"] :]
    assert steps[-1].state == session.recover(COUNTING).state
    assert [step.event for step in session.replay(recent=True)] == log  # none of the vault's own reducer
    assert "sum" in steps[0].state
    assert "sum" not in repr(steps[0])


# ---------------------------------------------------------------------------------------- the log's queries


def test_the_last_checkpoint_is_asked_for_of_any_run_or_of_one(alice):
    """L9"""
    session, made = alice.create(), []
    for _ in range(3):
        with session.run(checkpoints=NEVER) as run:
            run.append("message.user", 1)
            run.checkpoint()
            made.append((run.id, run.checkpoint()))
    with session.run(checkpoints=NEVER) as run:
        run.append("message.user", 1)
        without = run.id
    for run_id, checkpoint in made:
        assert session.last_checkpoint(run_id) == checkpoint
    assert session.last_checkpoint() == made[-1][1]
    assert session.last_checkpoint(without) is None
    with pytest.raises(InvalidInput):
        session.last_checkpoint("the last one")


@pytest.mark.parametrize(
    ("trigger", "reasons"),
    [
        (Trigger(after_tool=True, every_events=None, every_seconds=None), [3]),
        (Trigger(after_tool=False, every_events=2, every_seconds=None), [3, 6, 9]),
        (NEVER, []),
    ],
    ids=["after-a-tool", "every-two-events", "never"],
)
def test_a_run_writes_checkpoints_when_they_are_due(alice, trigger, reasons):
    """C1"""
    session = alice.create()
    with session.run(checkpoints=trigger) as run:
        call = run.append("tool.requested", {}, tool="crm")
        run.append("tool.returned", {}, tool="crm", caused_by=call.id)
        for _ in range(4):
            run.append("note.made")
    log = list(session.events())
    assert [event.payload["through"] for event in log if event.type == CHECKPOINT] == reasons
    for event in log:
        if event.type == CHECKPOINT:
            assert event.payload["sha256"] == state_hash(event.payload["state"])
            assert event.payload["state"] == replayed(DEFAULT, log)[event.payload["through"]]
            assert event.run == run.id


def test_a_checkpoint_after_so_many_seconds(alice, monkeypatch):
    """C1"""
    now = [1_000.0]
    monkeypatch.setattr("vault.sessions.run.monotonic_seconds", lambda: now[0])
    session = alice.create()
    trigger = Trigger(after_tool=False, every_events=None, every_seconds=300)
    with session.run(checkpoints=trigger, lease_seconds=86_400) as run:
        run.append("note.made")
        assert session.last_checkpoint() is None
        now[0] += timedelta(seconds=301).total_seconds()
        run.append("note.made")
        assert session.last_checkpoint().payload["through"] == 3
