"""Holds, expiry, requests and sweeps, at random against an account of what should be left. D2, D3, D4, S4."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from vault import Principal, Vault
from vault.errors import ClockAnomaly, Conflict, NotFound

DAY = 24 * 3_600_000_000
YEAR, GRACE = 365 * DAY, 7 * DAY
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
OWNERS = ("alice", "bob")
CASES = ("1", "2")
SCOPES = st.one_of(
    st.tuples(st.just("subject"), st.sampled_from(OWNERS)),
    st.tuples(st.just("label"), st.sampled_from(CASES)),
    st.just(("tenant", True)),
)


class Ticks:
    """A clock that moves by hand."""

    def __init__(self):
        self.now = 1_800_000_000_000_000

    def now_us(self):
        return self.now


@dataclass(eq=False)
class Modelled:
    """What a session should be."""

    session: object
    owner: str
    case: str
    used: int
    parent: object = None  # whose log it shares
    events: int = 1
    restored: int = 0
    requested: bool = False
    gone: bool = False
    made_by: object = None

    def expires(self):
        return max(self.used, self.restored) + YEAR

    def is_due(self, now):
        return self.requested or now >= self.expires() + GRACE

    def is_visible(self, now):
        return not self.gone and not self.requested and now < self.expires()


@dataclass(eq=False)
class Held:
    """A hold in force."""

    id: str
    kind: str
    what: object

    def covers(self, model):
        if self.kind == "session":
            return self.what is model
        return {"subject": model.owner, "label": model.case, "tenant": True}[self.kind] == self.what


class ErasureMachine(RuleBasedStateMachine):
    """Two owners' sessions and forks, holds of every kind, a clock that runs for years."""

    sessions = Bundle("sessions")
    holds = Bundle("holds")
    plans = Bundle("plans")

    @initialize()
    def make(self):
        self.home = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("XDG_STATE_HOME", str(self.home / "state"))
        self.clock, self.models, self.held = Ticks(), [], []
        self.place = self.home / "vault"
        self.vault = Vault.create(self.place, settings={"synchronous": "NORMAL"}, clock=self.clock)
        self.open()
        self.faces["alice"].erasure.erase(session=self.faces["alice"].sessions.create().id)  # a known tenant

    def open(self):
        self.faces = {
            owner: self.vault.access(Principal(tenant="acme", subject=owner, roles=frozenset({"owner"})))
            for owner in OWNERS
        }
        self.officer = self.vault.access(OFFICER)

    def teardown(self):
        if hasattr(self, "vault"):
            assert self.vault.verify().findings == ()
            self.vault.close()
            self.patch.undo()
            shutil.rmtree(self.home)

    # ------------------------------------------------------------------------------- what should be so

    def alive(self):
        return [model for model in self.models if not model.gone]

    def is_held(self, model):
        return any(hold.covers(model) for hold in self.held)

    def below(self, roots):
        """Some sessions and all that was forked from them."""
        found = list(roots)
        for model in found:
            found += [one for one in self.alive() if one.parent is model and one not in found]
        return found

    def climb(self, seeds, within):
        """What keeps an item keeps what it shares, up to the roots."""
        kept = set()
        for model in seeds:
            while model is not None and model in within and model not in kept:
                kept.add(model)
                model = model.parent  # noqa: PLW2901 - upwards
        return kept

    def effects(self, roots):
        """Who goes by a person's request, and who is kept and restricted."""
        wanted = set(self.below(roots))
        pins = self.climb([model for model in wanted if self.is_held(model)], wanted)
        going, waiting = set(), [root for root in roots if root not in pins]
        while waiting:
            model = waiting.pop()
            if model not in pins and model not in going:
                going.add(model)
                waiting += [one for one in wanted if one.parent is model]
        return going, wanted - going  # what came from something kept is hidden with it

    def due(self):
        """Who goes by a sweep: what is due and shared by nothing that stays."""
        roots = {model for model in self.alive() if model.is_due(self.clock.now)}
        kept = self.climb([model for model in roots if self.is_held(model)], roots)
        for model in self.below(roots):
            if model not in roots:
                kept |= self.climb([model.parent], roots)
        return roots - kept

    def asked(self, going, met):
        for model in going:
            model.gone = True
        for model in met:
            model.requested = True

    # --------------------------------------------------------------------------------------- sessions

    @rule(target=sessions, owner=st.sampled_from(OWNERS), case=st.sampled_from(CASES))
    def create(self, owner, case):
        session = self.faces[owner].sessions.create(labels={"case": case})
        session.append("message.user", 1)
        return self.added(Modelled(session, owner, case, self.clock.now))

    @rule(target=sessions, parent=sessions, case=st.sampled_from(CASES))
    def fork(self, parent, case):
        sessions, asked = self.faces[parent.owner].sessions, parent.session.id
        if not parent.is_visible(self.clock.now):
            with pytest.raises(NotFound):
                sessions.fork(asked)
            return multiple()
        session = sessions.fork(asked, labels={"case": case})
        session.append("message.user", 2)
        return self.added(Modelled(session, parent.owner, case, self.clock.now, parent, parent.events + 1))

    def handle(self, model):
        """The handle that made it, as long as this vault is open; a fresh one since."""
        if model.made_by is not self.vault:
            model.session, model.made_by = (
                self.faces[model.owner].sessions.resume(model.session.id),
                self.vault,
            )
        return model.session

    def added(self, model):
        model.made_by = self.vault
        self.models.append(model)
        return model

    @rule(model=sessions)
    def append(self, model):
        if not model.is_visible(self.clock.now):
            with pytest.raises(NotFound):
                self.handle(model).append("message.user", 3)
            return
        self.handle(model).append("message.user", 3)
        model.events, model.used = model.events + 1, self.clock.now

    @rule(days=st.sampled_from([1, 7, 100, 364, 365, 372]))
    def wait(self, days):
        self.clock.now += days * DAY

    @rule()
    def reopen(self):
        self.vault.close()
        self.vault = Vault.open(self.place, clock=self.clock)
        self.open()

    # ------------------------------------------------------------------------------------------ holds

    @rule(target=holds, scope=SCOPES)
    def hold_many(self, scope):
        kind, what = scope
        given = {"label": ("case", what)} if kind == "label" else {kind: what}
        hold = self.officer.holds.place(**given, reason="case")
        assert hold.too_late == 0
        return self.placed(Held(hold.id, kind, what))

    @rule(target=holds, model=sessions)
    def hold_one(self, model):
        hold = self.officer.holds.place(session=model.session.id, reason="case")
        assert hold.too_late == int(model.gone)
        return self.placed(Held(hold.id, "session", model))

    def placed(self, held):
        self.held.append(held)
        return held

    @rule(hold=holds)
    def lift(self, hold):
        if hold in self.held:
            self.officer.holds.lift(hold.id, reason="over")
            self.held.remove(hold)
        else:
            with pytest.raises(NotFound):
                self.officer.holds.lift(hold.id, reason="over")

    # -------------------------------------------------------------------------------------- erasures

    @rule(model=sessions, by_officer=st.booleans())
    def erase(self, model, by_officer):
        face = self.officer if by_officer else self.faces[model.owner]
        if model.gone:
            assert face.erasure.erase(session=model.session.id).state == "verified"
            return
        going, met = self.effects([model])
        outcome = face.erasure.erase(session=model.session.id)
        self.counted(outcome, going, met)
        self.asked(going, met)

    @rule(owner=st.sampled_from(OWNERS))
    def erase_person(self, owner):
        roots = [model for model in self.alive() if model.owner == owner]
        if not roots:
            return
        going, met = self.effects(roots)
        self.counted(self.officer.erasure.erase(subject=owner), going, met)
        self.asked(going, met)

    def counted(self, outcome, going, met):
        expected = {("session", "erased"): len(going), ("session", "held"): len(met)}
        assert dict(outcome.counts) == {key: count for key, count in expected.items() if count}
        assert outcome.state == "verified"

    @rule(target=plans, model=sessions)
    def plan(self, model):
        if model.gone:
            with pytest.raises(NotFound):
                self.officer.erasure.plan(session=model.session.id)
            return multiple()
        return model, self.officer.erasure.plan(session=model.session.id), self.effects([model])

    @rule(planned=plans)
    def execute(self, planned):
        model, plan, before = planned
        now = ((), ()) if model.gone else self.effects([model])
        if now != before:
            with pytest.raises(Conflict):
                self.officer.erasure.execute(plan)
            return
        try:
            outcome = self.officer.erasure.execute(plan)
        except Conflict:
            # Who keeps what, and through which, may have changed while the same sessions go.
            assert before[1]
            return
        self.counted(outcome, *now)
        self.asked(*now)

    @rule()
    def sweep(self):
        going = self.due()
        for _ in range(2):
            try:
                swept = self.officer.retention.run()
            except ClockAnomaly:
                self.officer.retention.trust_clock()
                continue
            break
        assert swept.going == len(going)
        if swept.over_cap:
            assert swept.going > 20
            return
        for model in going:
            model.gone = True

    @rule(model=sessions)
    def undo(self, model):
        now, face = self.clock.now, self.faces[model.owner]
        may = not model.gone and not model.requested and model.expires() <= now < model.expires() + GRACE
        if not may:
            with pytest.raises(NotFound):
                face.retention.undo(model.session.id)
            return
        face.retention.undo(model.session.id)
        model.restored = now

    # ------------------------------------------------------------------------------------- invariants

    @invariant()
    def what_is_left_is_what_should_be(self):
        if not hasattr(self, "vault"):
            return
        scopes = {row.scope for row in self.vault._store.rows() if row.purpose == "epoch"}
        with self.vault._records.snapshot() as reader:
            rows = {id_ for (id_,) in reader.scan("all_session_ids")}
        for model in self.models:
            raw = bytes.fromhex(model.session.id.partition("_")[2].replace("-", ""))
            assert (raw in scopes) == (raw in rows) == (not model.gone), model
            assert self.seen(model) == (model.events if model.is_visible(self.clock.now) else None), model

    def seen(self, model):
        try:
            session = self.faces[model.owner].sessions.resume(model.session.id)
        except NotFound:
            return None
        return session.info().event_count


TestErasure = ErasureMachine.TestCase
TestErasure.settings = settings(
    max_examples=14,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
