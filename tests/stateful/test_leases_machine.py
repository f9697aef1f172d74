"""Runs, at random against a plain account of who holds what: who should not write does not, nor by half."""

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from vault import NewEvent, Principal, Trigger, Vault, new_event_id
from vault.errors import Busy, Fenced, SessionEnded
from vault.policy import lease as leases
from vault.sessions.amend import change_lease

ALICE = Principal(tenant="acme", subject="alice")
SECOND = 1_000_000
NO_CHECKPOINTS = Trigger(after_tool=False, every_events=None, every_seconds=None)
SESSIONS, HANDLES = st.integers(0, 1), st.integers(0, 1)
#: Far longer than an example takes, so that no lease is renewed but by hand.
LEASE_SECONDS = st.sampled_from([600, 3_600])


class Ticks:
    """A clock that moves by hand."""

    def __init__(self):
        self.now = 1_800_000_000 * SECOND

    def now_us(self):
        return self.now


@dataclass
class Modelled:
    """What a session should be."""

    log: list = field(default_factory=list)  # (type, run, payload) of each event
    holder: object = None  # the run whose appends go in
    until: int = 0
    waiting: dict = field(default_factory=dict)  # who waits → when they said so, in order of arrival
    ended: bool = False


@dataclass(eq=False)
class Started:
    """A run, its session, and how much of it is known to it."""

    run: object
    place: int
    lease_seconds: int
    seen: int
    over: bool = False
    given: list = field(default_factory=list)  # its events that have an id of the writer's


class LeasesMachine(RuleBasedStateMachine):
    """Two sessions with two handles each, whatever runs were ever begun, and whoever waits for one."""

    runs = Bundle("runs")
    waiters = Bundle("waiters")

    @initialize()
    def make(self):
        self.home = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("XDG_STATE_HOME", str(self.home / "state"))
        self.clock, self.started, self.names = Ticks(), [], 0
        synchronous = {"synchronous": "NORMAL"}
        self.vault = Vault.create(self.home / "vault", settings=synchronous, clock=self.clock)
        sessions = self.vault.access(ALICE).sessions
        made = [sessions.create() for _ in range(2)]
        self.handles = [(session, sessions.resume(session.id)) for session in made]
        self.models = [Modelled(), Modelled()]

    # ------------------------------------------------------------------------------- what should be so

    def is_live(self, model):
        return model.holder is not None and self.clock.now < model.until

    def present(self, model):
        return [name for name, said in model.waiting.items() if self.clock.now - said < leases.ALIVE_US]

    def why_not(self, model, *, run=None, plain=False, taking=False):
        """The error that a call should meet; None when it should go in."""
        if model.ended:
            return SessionEnded
        if run is not None:
            return None if model.holder is run else Fenced
        busy = (plain or taking) and self.is_live(model)
        return Busy if busy or (taking and self.present(model)) else None

    def row(self, place):
        session = self.handles[place][0]
        with session._view(session._authorise("read")) as found:
            return found.row

    @contextmanager
    def refused(self, place, error):
        """A call that meets this error, and leaves the session's row (head, chain, lease, version) alone."""
        before = self.row(place)
        with pytest.raises(error) as told:
            yield
        assert type(told.value) is error
        assert self.row(place) == before

    def call(self, place, error, work):
        """What the call gives; None when it was refused as it should be."""
        if error is None:
            return work()
        with self.refused(place, error):
            work()
        return None

    def wrote(self, place, *events):
        for event in events:
            self.models[place].log.append((event.type, event.run, event.payload))
            assert event.seq == len(self.models[place].log)

    # ------------------------------------------------------------------------------------------- runs

    @rule(target=runs, place=SESSIONS, handle=HANDLES, seconds=LEASE_SECONDS, wait=st.sampled_from([None, 0]))
    def take(self, place, handle, seconds, wait):
        model, session = self.models[place], self.handles[place][handle]
        run = self.call(
            place,
            self.why_not(model, taking=True),
            lambda: session.run(lease_seconds=seconds, wait=wait, checkpoints=NO_CHECKPOINTS),
        )
        if run is None:
            return multiple()
        started = Started(run, place, seconds, seen=len(model.log) + 1)
        self.started.append(started)
        self.wrote(place, run.started)
        model.holder, model.until = started, self.clock.now + seconds * SECOND
        model.waiting.clear()  # whoever still stood there was silent, else it would not have been taken
        return started

    @rule(started=runs, count=st.integers(1, 3), known=st.booleans(), large=st.booleans())
    def append(self, started, count, known, large):
        place = started.place
        drafts = [
            NewEvent(
                type="a.b",
                payload=["x" * 70_000 if large else "x", number],
                event_id=new_event_id() if known else None,
            )
            for number in range(count)
        ]
        error = self.why_not(self.models[place], run=started)
        events = self.call(place, error, lambda: started.run.append_many(drafts))
        if events is not None:
            assert {event.run for event in events} == {started.run.id}
            self.wrote(place, *events)
            started.given += zip(drafts, events, strict=True) if known else ()

    @rule(started=runs, which=st.integers(0, 9))
    def repeat(self, started, which):
        """A retry of what is stored is answered with it, whoever holds the lease by now."""
        if started.given:
            draft, event = started.given[which % len(started.given)]
            before = self.row(started.place)
            assert started.run.append_many([draft]) == [event]
            assert self.row(started.place) == before

    @rule(started=runs, by_hand=st.booleans())
    def checkpoint(self, started, by_hand):
        place = started.place
        error = self.why_not(self.models[place], run=started)
        event = self.call(place, error, lambda: started.run.checkpoint({"by": "hand"} if by_hand else None))
        if event is not None:
            self.wrote(place, event)

    @rule(started=runs)
    def renew(self, started):
        model = self.models[started.place]
        error = self.why_not(model, run=started)
        self.call(started.place, error, started.run.renew)
        if error is None:
            model.until = max(model.until, self.clock.now + started.lease_seconds * SECOND)

    @rule(started=runs)
    def stop(self, started):
        model = self.models[started.place]
        error = self.why_not(model, run=started)
        if started.over or error is SessionEnded:
            error, started.over = None, True  # ending it twice, or after its session, is harmless
        elif error is None:
            model.log.append(("run.stopped", started.run.id, {"reason": "completed"}))
            model.holder, started.over = None, True
        self.call(started.place, error, started.run.stop)

    @rule(started=runs)
    def fail(self, started):
        model = self.models[started.place]
        if not started.over and self.why_not(model, run=started) is None:
            failure = {"error": "ValueError", "message": "it went wrong"}
            model.log.append(("run.failed", started.run.id, failure))
            model.holder = None
            started.over = True
        started.over |= model.ended
        error = ValueError("it went wrong")
        assert started.run.__exit__(ValueError, error, None) is None  # the error goes on

    @rule(started=runs)
    def look_into_the_inbox(self, started):
        log = self.models[started.place].log
        posted = [(kind, run, payload) for kind, run, payload in log[started.seen :] if run is None]
        found = [(event.type, event.run, event.payload) for event in started.run.inbox()]
        assert found == posted
        started.seen = len(log)

    # ------------------------------------------------------------------------------------ from outside

    @rule(place=SESSIONS, handle=HANDLES, count=st.integers(1, 2))
    def append_outside(self, place, handle, count):
        drafts = [NewEvent(type="message.user", payload=number) for number in range(count)]
        error = self.why_not(self.models[place], plain=True)
        events = self.call(place, error, lambda: self.handles[place][handle].append_many(drafts))
        if events is not None:
            self.wrote(place, *events)

    @rule(place=SESSIONS, handle=HANDLES, kind=st.sampled_from(["message.user", "approval.granted"]))
    def post(self, place, handle, kind):
        error = self.why_not(self.models[place])
        event = self.call(place, error, lambda: self.handles[place][handle].post(kind, {"n": self.names}))
        if event is not None:
            assert event.run is None
            self.wrote(place, event)

    @rule(place=SESSIONS, handle=HANDLES)
    def stop_from_outside(self, place, handle):
        model = self.models[place]
        holder, model.holder = model.holder, None
        stopped = self.handles[place][handle].stop("enough")
        assert stopped == (holder.run.id if holder else None)
        if holder:
            model.log.append(("run.stopped", holder.run.id, {"reason": "enough"}))

    @rule(place=SESSIONS, handle=HANDLES, seldom=st.integers(0, 7))
    def end(self, place, handle, seldom):
        if seldom == 0:
            self.handles[place][handle].end()
            self.models[place].ended, self.models[place].holder = True, None

    @rule(seconds=st.sampled_from([1, 4, 599, 600, 3_600]))
    def time_passes(self, seconds):
        self.clock.now += seconds * SECOND

    # ---------------------------------------------------------------------------------- others who wait

    def change(self, place, change):
        session = self.handles[place][0]
        return lambda: change_lease(session._log, session._authorise("append"), session._id, change)

    @rule(target=waiters, place=SESSIONS)
    def another_process_waits(self, place):
        self.names += 1
        waiter = (place, f"{self.names:032x}")
        self.another_process_says_that_it_waits(waiter)
        return waiter

    @rule(waiter=waiters)
    def another_process_says_that_it_waits(self, waiter):
        place, name = waiter
        model = self.models[place]
        change = self.change(place, lambda lease, now_us: leases.wait(lease, name, now_us))
        self.call(place, self.why_not(model), change)
        if not model.ended:
            present = self.present(model)
            model.waiting = {who: model.waiting[who] for who in present} | {name: self.clock.now}

    @rule(waiter=consumes(waiters))
    def another_process_waits_no_more(self, waiter):
        place, name = waiter
        model = self.models[place]
        self.call(place, self.why_not(model), self.change(place, lambda lease, _: leases.leave(lease, name)))
        model.waiting.pop(name, None)

    # ------------------------------------------------------------------------------------ at every step

    @precondition(lambda self: hasattr(self, "models"))
    @invariant()
    def the_head_and_the_lease_are_the_models(self):
        for place, model in enumerate(self.models):
            row = self.row(place)
            assert row.head_seq == len(model.log)
            assert row.state == ("ended" if model.ended else "active")
            lease = leases.decode(row.lease)
            assert lease.is_live(self.clock.now) == self.is_live(model)
            assert bool(lease.run) == (model.holder is not None)

    def teardown(self):
        if not hasattr(self, "models"):
            return
        try:
            for place, model in enumerate(self.models):
                events = list(self.handles[place][0].events())
                assert [(event.type, event.run, event.payload) for event in events] == model.log
                # Whoever was replaced never wrote again: no run comes back once another has begun.
                order = [run for _, run, _ in model.log if run is not None]
                changes = [run for run, before in zip(order, [None, *order], strict=False) if run != before]
                assert len(changes) == len(set(changes))
            report = self.vault.verify()
            note(str(report.findings))
            assert report.ok
        finally:
            for started in self.started:
                started.run._over.set()  # its thread ends now, not at the next renewal
            self.vault.close()
            self.patch.undo()
            shutil.rmtree(self.home)


TestLeases = LeasesMachine.TestCase
TestLeases.settings = settings(max_examples=20, stateful_step_count=40, deadline=None)
