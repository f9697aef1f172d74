"""Labels, dates, holds, time and sweeps at random, against a plain account of what is there: D1, D2, D3.

What is over is hidden at once and swept then, never before; what a hold or a minimum keeps is not swept.
"""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vault import Principal, Vault
from vault.clock import from_us
from vault.errors import Conflict, NotFound

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
PIA = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
DAY = 24 * 3_600_000_000
PAPER = """
version = 1
name = "mine"
[[retention]]
id = "all"
match = { kind = ["session", "memory", "artifact"] }
anchor = "last_event"
expire_after = "100d"
[[retention]]
id = "closed"
match = { kind = ["session"], labels = { case = "closed" } }
anchor = "labelled"
expire_after = "10d"
grace = "2d"
[[retention]]
id = "contract"
match = { kind = ["session"], labels = { kind = "contract" } }
anchor = "external"
expire_after = "11d"
[[retention]]
id = "health"
match = { kind = ["session"], labels = { data = "health" } }
anchor = "created"
keep_min = "30d"
expire_after = "40d"
"""
LABELS = st.sampled_from(
    [("case", "open"), ("case", "closed"), ("kind", "contract"), ("data", "health"), ("team", "red")]
)
SLOTS = st.integers(0, 2)


class Clock:
    """Moves by hand."""

    now = 1_800_000_000_000_000

    def now_us(self):
        return self.now


class Account:
    """What a session is, told by hand."""

    def __init__(self, session, labels, now):
        self.session, self.labels, self.since = session, dict(labels), {}
        self.created = self.last = now
        self.external, self.minimum = None, 0
        self.keep()

    def keep(self):
        """A minimum stays, also without its label."""
        if self.labels.get("data") == "health":
            self.minimum = self.created + 30 * DAY

    def expiry(self):
        """When it is hidden, and how long it can be restored then."""
        if self.labels.get("case") == "closed":
            return self.since.get("case", self.created) + 10 * DAY, 2 * DAY
        if self.labels.get("kind") == "contract":
            return (float("inf") if self.external is None else self.external + 11 * DAY), 0
        if self.labels.get("data") == "health":
            return self.created + 40 * DAY, 0
        return self.last + 100 * DAY, 0

    def due(self):
        expiry, grace = self.expiry()
        return max(self.minimum, expiry + grace)


class Clocks(RuleBasedStateMachine):
    """A vault beside accounts of its sessions."""

    def __init__(self):
        super().__init__()
        self.directory, self.clock = Path(tempfile.mkdtemp()), Clock()
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("XDG_STATE_HOME", str(self.directory / "state"))
        how = {"synchronous": "NORMAL"}
        self.vault = Vault.create(self.directory / "vault", settings=how, clock=self.clock)
        self.alice, self.pia = self.vault.access(ALICE), self.vault.access(PIA)
        self.pia.policies.activate(PAPER)
        self.there, self.holds, self.gone = [], {}, []
        for labels in ({}, {"case": "open"}, {"kind": "contract", "data": "health"}):
            self.begin(labels)

    def begin(self, labels):
        session = self.alice.sessions.create(labels=labels)
        self.there.append(Account(session, labels, self.clock.now))

    def teardown(self):
        assert self.vault.verify().findings == ()
        self.vault.close()
        self.patch.undo()
        shutil.rmtree(self.directory)

    def one(self, slot):
        return self.there[slot % len(self.there)]

    def is_held(self, account):
        return not self.holds.keys().isdisjoint(account.labels.items())

    @precondition(lambda self: len(self.there) < 3)
    @rule(label=LABELS)
    def make_another(self, label):
        self.begin(dict([label]))

    @precondition(lambda self: self.there)
    @rule(slot=SLOTS, given=LABELS, removed=st.none() | LABELS)
    def relabel(self, slot, given, removed):
        account, (name, value) = self.one(slot), given
        remove = [] if removed is None or removed[0] == name else [removed[0]]
        now = {key: known for key, known in account.labels.items() if key not in remove} | {name: value}
        lost = account.labels.items() - now.items()
        try:
            labels = account.session.relabel({name: value}, remove=remove)
        except NotFound:
            assert self.clock.now >= account.expiry()[0]
            return
        except Conflict:
            assert not self.holds.keys().isdisjoint(lost)
            return
        assert self.clock.now < account.expiry()[0]
        assert self.holds.keys().isdisjoint(lost)
        assert labels == now
        if now != account.labels:
            account.last = self.clock.now
            account.since |= {key: self.clock.now for key in now if now[key] != account.labels.get(key)}
            account.labels = now
            account.keep()

    @precondition(lambda self: self.there)
    @rule(slot=SLOTS, days=st.none() | st.integers(-40, 40))
    def date(self, slot, days):
        account = self.one(slot)
        at = None if days is None else self.clock.now + days * DAY
        try:
            self.pia.retention.date(account.session.id, None if at is None else from_us(at))
        except NotFound:
            assert self.clock.now >= account.due()
            return
        assert self.clock.now < account.due()
        account.external = at

    @rule(label=LABELS)
    def hold(self, label):
        if label not in self.holds:
            self.holds[label] = self.pia.holds.place(label=label, reason="case").id

    @precondition(lambda self: self.holds)
    @rule(label=LABELS)
    def lift(self, label):
        if label in self.holds:
            self.pia.holds.lift(self.holds.pop(label), reason="over")

    @rule(hours=st.sampled_from([1, 23, 24, 5 * 24, 10 * 24, 12 * 24 - 1, 30 * 24]))
    def pass_by(self, hours):
        self.clock.now += hours * DAY // 24
        self.pia.retention.trust_clock()

    @rule()
    def sweep(self):
        due = [one for one in self.there if self.clock.now >= one.due() and not self.is_held(one)]
        assert self.pia.retention.run().going == len(due)
        self.there = [one for one in self.there if one not in due]
        self.gone += [one.session.id for one in due]

    @invariant()
    def what_is_over_is_hidden_and_nothing_else(self):
        shown = {one.session.id for one in self.there if self.clock.now < one.expiry()[0]}
        assert {item.id for item in self.alice.sessions.find(limit=100).items} == shown
        for account in self.there:
            if account.session.id in shown:
                assert dict(account.session.info().labels) == account.labels

    @invariant()
    def each_is_found_by_its_labels(self):
        for label in (("case", "open"), ("case", "closed"), ("data", "health")):
            listed = {item.id for item in self.alice.sessions.find(labels=dict([label])).items}
            carry = [one for one in self.there if label in one.labels.items()]
            assert listed == {one.session.id for one in carry if self.clock.now < one.expiry()[0]}

    @invariant()
    def what_was_swept_does_not_come_back(self):
        for id_ in self.gone:
            with pytest.raises(NotFound):
                self.pia.retention.explain(id_)


TestClocks = Clocks.TestCase
TestClocks.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
