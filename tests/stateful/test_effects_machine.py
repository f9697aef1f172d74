"""Effects in branches that crash, against a world that counts: never twice, and nothing silently lost."""

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from vault import Principal, Resolution, Trigger, Vault
from vault.errors import Busy, Conflict, EffectFailed, InDoubt

ALICE = Principal(tenant="acme", subject="alice")
LEASE_SECONDS = 600
#: Effects of a world that can be asked whether something happened, and of one that cannot.
ASKED = [("email.send", "one"), ("crm.write", "one")]
BLIND = [("email.send", "two")]
BRANCHES_MAX = 3
SELDOM = Trigger(after_tool=False, every_events=7, every_seconds=None)


class Crash(BaseException):
    """The process dies here."""


class Lost(Exception):
    """Nobody knows whether it happened."""


class Hours:
    """A clock that moves by hand."""

    now = 10**15

    def now_us(self):
        return self.now


@dataclass
class Attempt:
    """What the log should say of an effect."""

    state: str
    run: str
    fact: str | None = None
    confirmation: object = None


#: How an attempt ends, and how often the world sees it.
ENDS = {
    "it-goes-well": (1, None),
    "it-fails-for-certain": (0, EffectFailed),
    "the-answer-is-lost-and-nothing-happened": (0, Lost),
    "the-answer-is-lost-and-it-happened": (1, Lost),
    "a-crash-before-it-happened": (0, Crash),
    "a-crash-after-it-happened": (1, Crash),
}
DOORS = st.integers(0, 1)
effects = st.sampled_from([*ASKED, *BLIND])
ends = st.sampled_from(list(ENDS))


class EffectsMachine(RuleBasedStateMachine):
    """Two handles of one vault, as two processes would have them; each branch has a run, or none."""

    branches = Bundle("branches")

    @initialize(target=branches)
    def make(self):
        self.home = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("XDG_STATE_HOME", str(self.home / "state"))
        self.place, self.clock = self.home / "vault", Hours()
        settings_of_vault = {"synchronous": "NORMAL", "ledger_every": 11}
        self.vaults = [Vault.create(self.place, settings=settings_of_vault, clock=self.clock), None]
        self.vaults[1] = Vault.open(self.place, clock=self.clock)
        self.runs = {}  # branch: (door, run)
        self.world, self.known, self.by_hand = Counter(), {}, {}
        root = self.sessions(0).create()
        root.append("message.user", "do it")
        self.ids = [root.id]
        return root.id

    def sessions(self, door):
        return self.vaults[door].access(ALICE).sessions

    def session(self, branch, door=0):
        return self.sessions(door).resume(branch)

    # ---------------------------------------------------------------------------------- branches and runs

    @rule(target=branches, data=st.data(), branch=branches, door=DOORS)
    def fork(self, data, branch, door):
        if len(self.ids) == BRANCHES_MAX:
            return multiple()
        places = [event.id for event in self.session(branch, door).events()]
        at = data.draw(st.none() | st.sampled_from(places), "at")
        made = self.sessions(door).fork(branch, at=at)
        self.ids.append(made.id)
        return made.id

    @rule(branch=branches, door=DOORS, wakes=st.booleans())
    def begin(self, branch, door, wakes):
        if branch in self.runs:
            with pytest.raises(Busy):
                self.session(branch, door).run()
            return
        about = {"lease_seconds": LEASE_SECONDS, "checkpoints": SELDOM}
        if not wakes:
            self.runs[branch] = (door, self.session(branch, door).run(**about))
            return
        woken = self.sessions(door).wake(branch, **about)
        self.runs[branch] = (door, woken.run)
        told = {(effect.kind, effect.key): effect.state for effect in woken.in_doubt}
        doubted = {effect for effect, attempt in self.known.items() if attempt.state == "in doubt"}
        assert told.keys() <= doubted

    @rule(branch=branches)
    def stop(self, branch):
        if branch in self.runs:
            self.runs.pop(branch)[1].stop()

    @rule(door=DOORS)
    def crash(self, door):
        """The process is gone, and came back when the leases of its runs had run out."""
        self.drop(self.vaults[door])
        for branch in [branch for branch, (of, _) in self.runs.items() if of == door]:
            self.runs.pop(branch)[1]._over.set()
        self.clock.now += (LEASE_SECONDS + 1) * 1_000_000
        for _, run in self.runs.values():
            run.renew()
        self.vaults[door] = Vault.open(self.place, clock=self.clock)

    def drop(self, vault):
        vault._closed = True
        vault._database.close()
        vault._key_database.close()

    @rule(branch=branches, text=st.integers(0, 9))
    def talk(self, branch, text):
        if branch in self.runs:
            self.runs[branch][1].append("message.assistant", "on and on " * text)
        else:
            self.session(branch).append("message.user", text)

    # ---------------------------------------------------------------------------------- effects

    def is_active(self, attempt, but=None):
        """Whether another run is at it now."""
        return any(run.id == attempt.run for _, run in self.runs.values() if run.id != but)

    def truth(self, known):
        """What a world tells that can be asked."""
        if self.world[known.kind, known.key]:
            return Resolution(decision="commit", confirmation=self.world[known.kind, known.key])
        return Resolution(decision="retry")

    def carried_out(self, effect, end):
        times, error = ENDS[end]

        def carry_out(intent):
            assert intent == list(effect)
            self.world[effect] += times
            if error is not None:
                raise error
            return self.world[effect]

        return carry_out

    def running(self, branch, door):
        """The run of a branch; one is begun by this process when none is active."""
        if branch not in self.runs:
            self.begin(branch, door, wakes=False)
        return self.runs[branch]

    @rule(branch=branches, door=DOORS, effect=effects, end=ends, asks=st.booleans())
    def once(self, branch, door, effect, end, asks):
        door, run = self.running(branch, door)
        resolver = None
        if asks:
            resolver = self.truth if effect in ASKED else lambda _: Resolution(decision="ask")
        before, seen = self.known.get(effect), self.world[effect]
        expected = self.expected(effect, before, run, resolver)
        tried = run.effect(*effect, list(effect))
        if expected is None:  # it is carried out
            self.by_hand.pop(effect, None)
            self.attempt(tried, effect, end, run, resolver, door)
        elif isinstance(expected, type):
            with pytest.raises(expected):
                tried.once(self.never, resolver=resolver)
            assert self.world[effect] == seen
        else:
            assert tried.once(self.never, resolver=resolver) == expected.confirmation
            self.known[effect] = expected
            self.by_hand.pop(effect, None)
            assert self.world[effect] == seen

    def expected(self, effect, before, run, resolver):
        """What becomes of an attempt: None when it is carried out, else its error, or what is stored."""
        if before is None or before.state == "failed":
            return None
        if before.state == "committed":
            return before
        if resolver is None or effect in BLIND:
            return InDoubt
        if self.is_active(before, but=run.id):
            return Busy
        if self.world[effect]:
            return Attempt("committed", run.id, confirmation=self.world[effect])
        return None

    def attempt(self, tried, effect, end, run, resolver, door):
        _, error = ENDS[end]
        state = {None: "committed", EffectFailed: "failed"}.get(error, "in doubt")
        if error is None:
            result = tried.once(self.carried_out(effect, end), resolver=resolver)
            self.known[effect] = Attempt(state, run.id, confirmation=result)
            return
        with pytest.raises(error):
            tried.once(self.carried_out(effect, end), resolver=resolver)
        self.known[effect] = Attempt(state, run.id)
        if error is Crash:
            self.crash(door)

    def never(self, _intent):
        raise AssertionError("carried out again")

    @rule(branch=branches, door=DOORS, effect=effects)
    def intend(self, branch, door, effect):
        """Begun by hand: until it is finished, other branches find it at work."""
        _, run = self.running(branch, door)
        before = self.known.get(effect)
        tried = run.effect(*effect, list(effect))
        if before is not None and before.state != "failed":
            with pytest.raises(Conflict):
                tried.intend()
            return
        tried.intend()
        self.known[effect] = Attempt("in doubt", run.id)
        self.by_hand[effect] = (branch, run.id)

    def going(self):
        """What was begun by hand in a run that is active."""
        held = {branch: run.id for branch, (_, run) in self.runs.items()}
        return [effect for effect, (branch, run_id) in self.by_hand.items() if held.get(branch) == run_id]

    @rule(data=st.data(), end=st.sampled_from(list(ENDS)[:4]))
    def finish(self, data, end):
        if not self.going():
            return
        effect = data.draw(st.sampled_from(self.going()), "effect")
        branch, _ = self.by_hand.pop(effect)
        run = self.runs[branch][1]
        times, error = ENDS[end]
        self.world[effect] += times
        if error is None:
            known = run.effect(*effect).commit(self.world[effect])
            self.known[effect] = Attempt("committed", run.id, confirmation=known.confirmation)
        elif error is EffectFailed:
            run.effect(*effect).fail("no")
            self.known[effect] = Attempt("failed", run.id)

    @rule(branch=branches, effect=st.sampled_from(ASKED), door=DOORS)
    def resolve(self, branch, effect, door):
        """Somebody who asked the world settles it from outside."""
        before = self.known.get(effect)
        session = self.session(branch, door)
        kind, key = effect
        happened = self.world[effect]
        resolution = Resolution(decision="commit" if happened else "fail", confirmation=happened or None)
        if before is None or before.state != "in doubt":
            with pytest.raises(Conflict):
                session.resolve(kind, key, resolution)
        elif branch in self.runs or self.is_active(before):
            with pytest.raises(Busy):
                session.resolve(kind, key, resolution)
        else:
            session.resolve(kind, key, resolution)
            self.by_hand.pop(effect, None)
            self.known[effect] = Attempt(
                "committed" if happened else "failed", "", confirmation=happened or None
            )

    # ---------------------------------------------------------------------------------- what must hold

    @invariant()
    def the_world_saw_nothing_twice(self):
        assert max(getattr(self, "world", Counter()).values(), default=0) <= 1

    @invariant()
    def what_happened_is_never_told_as_failed(self):
        for effect, attempt in getattr(self, "known", {}).items():
            assert self.world[effect] == {"committed": 1, "failed": 0}.get(attempt.state, self.world[effect])

    @rule(branch=branches, door=DOORS)
    def every_effect_is_told_in_every_branch(self, branch, door):
        found = {(one.kind, one.key): one for one in self.session(branch, door).effects()}
        assert found.keys() == self.known.keys()
        for effect, attempt in self.known.items():
            told = found[effect]
            assert (told.state, told.confirmation) == (attempt.state, attempt.confirmation), effect
            # Of failures in several branches, any one is told: no clock says which of them was the last.
            assert attempt.state == "failed" or (told.run or "") == attempt.run

    def teardown(self):
        if not hasattr(self, "runs"):
            return
        try:
            for branch in self.ids:
                self.every_effect_is_told_in_every_branch(branch, 0)
            for _, run in self.runs.values():
                run.stop()
            # Whoever comes back asks the world, and then each effect that was ever wanted happened once.
            with self.session(self.ids[-1], 1).run() as run:
                for effect in self.known.keys() & set(ASKED):
                    tried = run.effect(*effect, list(effect))
                    assert tried.once(self.carried_out(effect, "it-goes-well"), resolver=self.truth) == 1
            assert all(self.world[effect] == 1 for effect in self.known.keys() & set(ASKED))
            assert all(self.world[effect] <= 1 for effect in BLIND)
            for vault in self.vaults:
                report = vault.verify()
                note(str(report.findings))
                assert report.ok
                vault.close()
        finally:
            for vault in self.vaults:
                vault._closed = True
            self.patch.undo()
            shutil.rmtree(self.home)


TestEffects = EffectsMachine.TestCase
TestEffects.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
