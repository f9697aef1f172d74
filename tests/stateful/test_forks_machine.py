"""Forks of forks at random against plain lists: each reads as if all of it had been written in one place."""

import shutil
import tempfile
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from vault import NewEvent, Principal, Reducer, Vault, new_event_id, new_run_id
from vault.errors import InvalidInput, NotFound, SessionEnded
from vault.policy.context import select
from vault.policy.recovery import DEFAULT, state_hash
from vault.sessions import read as reading

ALICE = Principal(tenant="acme", subject="alice")
TYPES = ["message.user", "message.assistant", "tool.requested", "tool.returned", "context.summarized"]
RUNS = [new_run_id() for _ in range(3)]
OWN = Reducer(
    name="places@1",
    initial=[],
    apply=lambda state, event: [*state[-3:], [event.seq, event.type, event.payload]],
)
#: Rows in a page of a read: few, so that the logs of this test have several pages.
PAGE = 4


class Steps:
    """A clock that stands still for a while, goes on, and at times goes back."""

    def __init__(self):
        self.now = 10**15

    def now_us(self):
        return self.now


@dataclass
class Branch:
    """What a session should be: its whole log, and how much of it is shared."""

    id: str
    title: str
    parent: str | None = None
    at: str | None = None
    shared: int = 0
    log: list = field(default_factory=list)
    ended: bool = False


def payload_of(number):
    return {"content": f"number {number} " + "word " * (number % 40)}


@st.composite
def drafts(draw):
    kind = draw(st.sampled_from(TYPES))
    number = draw(st.integers(0, 99))
    payload = payload_of(number)
    if kind == "context.summarized":
        payload = {"summary": "s", "first_seq": 1 + number % 4, "last_seq": 1 + number % 9}
    return NewEvent(
        type=kind,
        payload=payload,
        run=draw(st.sampled_from([None, *RUNS])),
        event_id=new_event_id() if number % 3 == 0 else None,
    )


def modelled(
    log,
    *,
    types=None,
    run=None,
    after=None,
    before=None,
    since=None,
    until=None,
    limit=None,
    newest_first=False,
):
    """What ``events`` should give, from the whole log as a list."""
    places = {event.id: event.seq for event in log}
    found = [
        event
        for event in log
        if (types is None or event.type in types)
        and (run is None or event.run == run)
        and (after is None or event.seq > places[after])
        and (before is None or event.seq < places[before])
        and (since is None or event.recorded_at >= since)
        and (until is None or event.recorded_at < until)
    ]
    return (found[::-1] if newest_first else found)[:limit]


@st.composite
def filters(draw, log):
    """Any combination of filters whose values occur in the log."""
    choice = {"types": st.lists(st.sampled_from(TYPES), max_size=3), "run": st.sampled_from(RUNS)}
    choice["limit"] = st.integers(1, 30)
    if log:
        choice |= dict.fromkeys(("after", "before"), st.sampled_from([event.id for event in log]))
        choice |= dict.fromkeys(("since", "until"), st.sampled_from([event.recorded_at for event in log]))
    chosen = {name: draw(choice[name]) for name in sorted(draw(st.sets(st.sampled_from(sorted(choice)))))}
    if "limit" in chosen:
        chosen["newest_first"] = draw(st.booleans())
    return chosen


class ForksMachine(RuleBasedStateMachine):
    """One vault, and what each of its sessions should hold."""

    branches = Bundle("branches")

    @initialize(target=branches)
    def make(self):
        self.home = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("XDG_STATE_HOME", str(self.home / "state"))
        self.patch.setattr(reading, "_PAGE", PAGE)
        self.clock, self.models = Steps(), {}
        settings_of_vault = {"synchronous": "NORMAL", "ledger_every": 7}
        self.vault = Vault.create(self.home / "vault", settings=settings_of_vault, clock=self.clock)
        return self.added(Branch(self.sessions.create(title="first").id, "first"))

    @property
    def sessions(self):
        return self.vault.access(ALICE).sessions

    def session(self, branch):
        return self.sessions.resume(branch.id)

    def added(self, branch):
        self.models[branch.id] = branch
        return branch

    @rule(target=branches, number=st.integers(0, 9))
    def another(self, number):
        title = f"another {number}"
        return self.added(Branch(self.sessions.create(title=title).id, title))

    @rule(seconds=st.integers(-3, 5))
    def time_passes(self, seconds):
        self.clock.now += seconds * 1_000_000

    @rule(branch=branches, batch=st.lists(drafts(), min_size=1, max_size=6))
    def append(self, branch, batch):
        session = self.session(branch)
        if branch.ended:
            with pytest.raises(SessionEnded):
                session.append_many(batch)
            return
        events = session.append_many(batch, expect_head=len(branch.log))
        first = len(branch.log) + 1
        assert [event.seq for event in events] == list(range(first, first + len(batch)))
        assert [(event.type, event.payload, event.run) for event in events] == [
            (draft.type, draft.payload, draft.run) for draft in batch
        ]
        branch.log += events

    @rule(target=branches, branch=branches, data=st.data(), titled=st.booleans())
    def fork(self, branch, data, titled):
        if not branch.log:
            with pytest.raises(InvalidInput, match="nothing to fork"):
                self.sessions.fork(branch.id)
            return branch
        at = data.draw(st.none() | st.sampled_from([event.id for event in branch.log]))
        title = "a fork" if titled else branch.title
        made = self.sessions.fork(branch.id, at=at, title=title if titled else None)
        count = len(branch.log) if at is None else [event.id for event in branch.log].index(at) + 1
        log = branch.log[:count]
        return self.added(Branch(made.id, title, branch.id, log[-1].id, count, log))

    @rule(branch=branches)
    def fork_at_a_stranger(self, branch):
        known = {event.id for event in branch.log}
        strangers = {event.id for other in self.models.values() for event in other.log} - known
        for event_id in (*sorted(strangers)[-8:], new_event_id()):
            with pytest.raises(NotFound):
                self.sessions.fork(branch.id, at=event_id)

    @rule(branch=branches, seldom=st.integers(0, 3))
    def end(self, branch, seldom):
        if seldom == 0:
            self.session(branch).end()
            branch.ended = True

    @rule(branch=branches, data=st.data())
    def read(self, branch, data):
        chosen = data.draw(filters(branch.log))
        found = list(self.session(branch).events(**chosen))
        assert found == modelled(branch.log, **chosen)

    @rule(branch=branches, data=st.data())
    def read_a_slice(self, branch, data):
        if branch.log:
            places = st.integers(0, len(branch.log) - 1)
            first, last = sorted((data.draw(places), data.draw(places)))
            found = self.session(branch).slice(branch.log[first].id, branch.log[last].id)
            assert list(found) == branch.log[first : last + 1]
            event = branch.log[first]
            with self.session(branch).open(event) as file:
                assert file.read()

    @rule(branch=branches, data=st.data())
    def follow(self, branch, data):
        after = data.draw(st.none() | st.sampled_from([event.id for event in branch.log] or [None]))
        wanted = modelled(branch.log, after=after)
        assert list(self.session(branch).follow(after=after, idle_seconds=0, poll_seconds=0.001)) == wanted

    @rule(branch=branches)
    def info(self, branch):
        info = self.session(branch).info()
        assert (info.title, info.event_count, info.parent) == (branch.title, len(branch.log), branch.parent)
        users = [event for event in branch.log if event.type == "message.user"]
        messages = [event for event in branch.log if event.type in TYPES[:2]]
        for shown, of in ((info.first_message, users[:1]), (info.last_message, messages[-1:])):
            assert bool(shown) == bool(of)
            assert not of or shown.startswith(of[0].payload["content"][:10].strip())
        assert info.state == ("ended" if branch.ended else "active")
        assert (info.fork or {}).get("of") == branch.parent
        assert (info.fork or {}).get("at") == branch.at

    @rule(branch=branches, size=st.integers(1, 12))
    def context(self, branch, size):
        wanted = select(branch.log[::-1], max_events=size)
        assert self.session(branch).context(max_events=size) == wanted

    @rule(branch=branches, data=st.data(), reducer=st.sampled_from([DEFAULT, OWN]))
    def recover(self, branch, data, reducer):
        states = list(accumulate(branch.log, reducer.apply, initial=reducer.initial))
        session = self.session(branch)
        assert [(step.event, step.state) for step in session.replay(reducer)] == list(
            zip(branch.log, states[1:], strict=True)
        )
        assert session.recover(reducer).sha256 == state_hash(states[-1])
        if branch.log:
            place = data.draw(st.integers(1, len(branch.log)))
            found = session.recover(reducer, at=branch.log[place - 1].id)
            assert (found.sha256, found.through) == (state_hash(states[place]), place)

    @rule(branch=branches, reducer=st.sampled_from([DEFAULT, OWN]))
    def checkpoint(self, branch, reducer):
        if not branch.ended:
            with self.session(branch).run(reducer=reducer) as run:
                run.checkpoint()
            branch.log += list(self.session(branch).events(limit=3, newest_first=True))[::-1]

    @rule()
    def reopen(self):
        self.vault.close()
        self.vault = Vault.open(self.home / "vault", clock=self.clock)

    @invariant()
    def newest_event_is_the_models(self):
        for branch in getattr(self, "models", {}).values():
            assert list(self.session(branch).events(limit=2, newest_first=True)) == branch.log[:-3:-1]

    def teardown(self):
        if not hasattr(self, "models"):
            return
        try:
            for branch in self.models.values():
                assert list(self.session(branch).events()) == branch.log
            report = self.vault.verify()
            note(str(report.findings))
            assert report.ok
            assert report.counts["sessions"] == len(self.models)
            assert report.counts["events"] == sum(len(b.log) - b.shared for b in self.models.values())
            self.vault.close()
        finally:
            self.vault._closed = True
            self.patch.undo()
            shutil.rmtree(self.home)


TestForks = ForksMachine.TestCase
TestForks.settings = settings(max_examples=20, stateful_step_count=35, deadline=None)
