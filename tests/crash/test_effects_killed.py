"""Processes are killed at each step of an effect: a world that can be asked sees it once, no world twice."""

import contextlib
import json
import os
import random
import select
import signal
import time
import traceback
from collections import Counter
from functools import partial
from itertools import product

import pytest

from vault import Principal, Resolution, Trigger, Vault
from vault.errors import Busy, Conflict, EffectFailed, InDoubt
from vault.sessions import run as run_module
from vault.storage.records import SqlRecords

ALICE = Principal(tenant="acme", subject="alice")
ROUNDS, BRANCHES = 120, 2
#: Effects that each round begins, and how many that earlier rounds began it comes back to.
NEW, OLD, RECENT = 5, 8, 25
HOUR_US = 3_600_000_000
SECONDS_MAX = 60
SELDOM = Trigger(after_tool=False, every_events=40, every_seconds=None)

#: The writes of an effect by the type of fact that tells them apart.
WRITES = {
    "effect.resolved": "the resolution",
    "effect.intended": "the intention",
    "effect.committed": "the fact",
    "effect.failed": "the failure",
}
POINTS = [f"{when} {write}" for write, when in product(WRITES.values(), ["before", "within", "after"])]
POINTS += ["before the world", "within the world", "after the world", "after the result"]
#: Which time that a process comes by it is its last; some processes never come by so often.
TIMES = [1, 1, 1, 1, 2, 2, 3, 5]
#: There is not always something to resolve, so this is planned more often.
PLANNED = [*product(POINTS, TIMES), *product(POINTS[:3], [1] * 16)]


class Later:
    """A clock that is some hours ahead, so that the leases of those who were killed before have run out."""

    def __init__(self, hours):
        self._ahead = hours * HOUR_US

    def now_us(self):
        return time.time_ns() // 1_000 + self._ahead


def say(pipe, fact):
    os.write(pipe, json.dumps(fact).encode() + b"\n")


class Dying:
    """Kills its process at a point, the nth time that it comes there."""

    def __init__(self, point, nth, pipe):
        self._point, self._left, self._pipe = point, nth, pipe
        self._write = None

    def at(self, point):
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                say(self._pipe, {"died": point})
                os.kill(os.getpid(), signal.SIGKILL)

    def watch_writes(self):
        """Come by before, within and after the transactions of effects; only in a process of its own."""
        append, transact = run_module.append, SqlRecords.transact

        def watched(log, grant, row, events, terms):
            types = [event.type for event in events]
            write = next((WRITES[name] for name in WRITES if name in types), None)
            self.at(f"before {write}")
            self._write = write
            stored = append(log, grant, row, events, terms)
            self._write = None
            self.at(f"after {write}")
            return stored

        def within(records, work):
            write = self._write

            def worked(transaction):
                result = work(transaction)
                self.at(f"within {write}")
                return result

            return transact(records, work if write is None else worked)

        run_module.append, SqlRecords.transact = watched, within


class World:
    """The outside: a file to which each effect adds a line, durably."""

    def __init__(self, file):
        self._file = file

    def seen(self):
        return Counter(self._file.read_text().split("\n")[:-1])

    def does(self, key, dying, *, fails, seconds=0.0):
        def carry_out(intent):
            dying.at("before the world")
            time.sleep(seconds)
            if fails:
                raise EffectFailed("it is certain that nothing happened")
            place = os.open(self._file, os.O_WRONLY | os.O_APPEND)
            os.write(place, f"{key}\n".encode())
            dying.at("within the world")
            os.fsync(place)
            os.close(place)
            dying.at("after the world")
            return {"sent": intent}

        return carry_out

    def asked(self, known):
        if self.seen()[known.key]:
            return Resolution(decision="commit", confirmation={"sent": known.key})
        return Resolution(decision="retry")


def live(place, branch, world, hour, seed, dying, pipe):
    """Carries out effects until it is killed; of some the world can be asked, of the others it cannot."""
    dying.watch_writes()
    choose = random.Random(seed)
    with Vault.open(place, clock=Later(hour)) as vault:
        say(pipe, {"opened": branch})
        session = vault.access(ALICE).sessions.resume(branch)
        with session.run(checkpoints=SELDOM) as run:
            for key in keys_of(hour, choose):
                resolver = world.asked if key.startswith("asked") else None
                seconds = choose.choice([0, 0, 0.01])  # so that the other branch meets it at work
                carry_out = world.does(key, dying, fails=choose.random() < 0.2, seconds=seconds)
                try:
                    result = run.effect("email.send", key, key).once(carry_out, resolver=resolver)
                except (InDoubt, EffectFailed, Busy, Conflict):
                    continue
                say(pipe, {"done": key, "result": result})
                dying.at("after the result")
            if choose.random() < 0.5:  # the run is not ended
                os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def keys_of(hour, choose):
    """Some effects of the hours before, and new ones, which the other processes of this hour want too."""
    old = range(max(hour * NEW - RECENT, 0), hour * NEW)
    keys = [*choose.sample(old, min(OLD, len(old))), *range(hour * NEW, (hour + 1) * NEW)]
    if choose.random() < 0.5:
        choose.shuffle(keys)
    return [f"{'asked' if number % 4 else 'blind'}-{number}" for number in keys]


class Child:
    """A forked process that does some work, and what it said by the time it was killed."""

    def __init__(self, work, point, nth):
        self.reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                work(Dying(point, nth, writing), writing)
            except BaseException:  # noqa: BLE001 - said to the parent, which fails
                say(writing, {"error": traceback.format_exc()})
            finally:
                os._exit(1)
        os.close(writing)

    def waited_for(self):
        """Wait until it killed itself."""
        until = time.monotonic() + SECONDS_MAX
        while time.monotonic() < until and os.waitid(os.P_PID, self.pid, GONE) is None:
            time.sleep(0.002)

    def killed(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        with os.fdopen(self.reading, "rb") as pipe:
            lines = pipe.read().split(b"\n")
        # The last line may be cut off by the kill: then it was not said.
        return [json.loads(line) for line in lines[:-1]]


GONE = os.WEXITED | os.WNOHANG | os.WNOWAIT


def family_of(place):
    with Vault.create(place) as vault:
        sessions = vault.access(ALICE).sessions
        root = sessions.create()
        root.append("message.user", "send them")
        branches = [root, sessions.fork(root.id)]
        branches.append(sessions.fork(branches[1].id))
        return [branch.id for branch in branches]


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_the_world_sees_an_effect_once_whenever_its_process_is_killed(place, tmp_path):
    """C4, S4: 240 kills, in two branches at once, at each step of an effect and at random moments"""
    seed = random.randrange(2**32)
    choose = random.Random(seed)
    branches, died, kills, done = family_of(place), Counter(), 0, {}
    world = World(tmp_path / "world")
    world._file.touch()
    planned = choose.sample(PLANNED, len(PLANNED))
    for hour in range(ROUNDS):
        children = []
        for branch in choose.sample(branches, BRANCHES):
            point, nth = planned.pop() if planned and choose.random() < 0.8 else (None, 0)
            work = partial(live, place, branch, world, hour, choose.random())
            children.append((point, Child(work, point, nth)))
        for point, child in sorted(children, key=lambda pair: pair[0] is not None):
            if point is not None:
                child.waited_for()
            else:
                if choose.random() < 0.85:  # else it is killed while it opens the vault
                    select.select([child.reading], [], [], SECONDS_MAX)
                time.sleep(choose.uniform(0, 0.1))
            for fact in child.killed():
                assert "error" not in fact, fact["error"]
                died[fact.get("died")] += 1
                if "done" in fact:
                    assert done.setdefault(fact["done"], fact["result"]) == fact["result"]
            kills += 1
        assert max(world.seen().values(), default=0) <= 1, (seed, hour)
    assert kills >= 200
    # Each point has its own test below; here they come in any order, and at least one of each kind.
    kinds = {*WRITES.values(), "the world", "the result"}
    assert {point.partition(" ")[2] for point in died if point} == kinds, (seed, died)
    assert len(done) > ROUNDS / 2, seed
    check(place, branches, world, done)


def check(place, branches, world, done):
    """What the branches tell agrees with the world; then whoever may ask it settles what is in doubt."""
    with Vault.open(place, clock=Later(ROUNDS)) as vault:
        sessions = [vault.access(ALICE).sessions.resume(branch) for branch in branches]
        known = {effect.key: effect for effect in sessions[0].effects()}
        for session in sessions[1:]:
            assert {effect.key: effect.state for effect in session.effects()} == {
                key: effect.state for key, effect in known.items()
            }
        seen = world.seen()
        assert seen.keys() <= known.keys(), "it happened, and nobody knows"
        for key, effect in known.items():
            assert effect.state != "committed" or seen[key] == 1
            assert effect.state != "failed" or seen[key] == 0
            assert effect.state == "committed" or key not in done, "acknowledged, and lost"
        assert {effect.state for effect in known.values()} == {"committed", "failed", "in doubt"}
        with sessions[1].run() as run:
            for key in sorted(known):
                if key.startswith("asked"):
                    carry_out = world.does(key, Dying(None, 0, 0), fails=False)
                    run.effect("email.send", key, key).once(carry_out, resolver=world.asked)
                elif known[key].state == "in doubt":
                    with pytest.raises(InDoubt):
                        run.effect("email.send", key, key).once(pytest.fail)
        seen = world.seen()
        assert {seen[key] for key in known if key.startswith("asked")} == {1}
        assert {seen[key] for key in known if key.startswith("blind")} == {0, 1}
        assert vault.verify().findings == ()


#: Where the process before was killed, if there was one; where this one is; the state that is known then; and
#: how often the world saw it.
STEPS = [
    (None, "before the intention", None, 0),
    (None, "within the intention", None, 0),
    (None, "after the intention", "in doubt", 0),
    (None, "before the world", "in doubt", 0),
    (None, "within the world", "in doubt", 1),
    (None, "after the world", "in doubt", 1),
    (None, "before the fact", "in doubt", 1),
    (None, "within the fact", "in doubt", 1),
    (None, "after the fact", "committed", 1),
    (None, "after the result", "committed", 1),
    (None, "before the failure", "in doubt", 0),
    (None, "within the failure", "in doubt", 0),
    (None, "after the failure", "failed", 0),
    ("before the world", "before the resolution", "in doubt", 0),
    ("before the world", "within the resolution", "in doubt", 0),
    ("before the world", "after the resolution", "in doubt", 0),
    ("before the world", "within the world", "in doubt", 1),
    ("before the world", "within the fact", "in doubt", 1),
    ("after the world", "before the resolution", "in doubt", 1),
    ("after the world", "within the resolution", "in doubt", 1),
    ("after the world", "after the resolution", "committed", 1),
]


def once(place, branch, world, hour, fails, dying, pipe):
    """Carries out one effect, of which the world can be asked."""
    dying.watch_writes()
    with Vault.open(place, clock=Later(hour)) as vault:
        with vault.access(ALICE).sessions.resume(branch).run() as run, contextlib.suppress(EffectFailed):
            carry_out = world.does("asked", dying, fails=fails)
            run.effect("email.send", "asked", "asked").once(carry_out, resolver=world.asked)
        dying.at("after the result")


@pytest.mark.parametrize("asked", [True, False], ids=["then-the-world-is-asked", "then-nobody-is-asked"])
@pytest.mark.parametrize(("first", "point", "state", "times"), STEPS)
def test_a_process_is_killed_at_a_step_of_an_effect(place, tmp_path, first, point, state, times, asked):
    """C4, S4"""
    branches, world = family_of(place), World(tmp_path / "world")
    world._file.touch()
    for hour, step in enumerate([first, point] if first else [point]):
        child = Child(partial(once, place, branches[0], world, hour, "failure" in step), step, 1)
        child.waited_for()
        assert child.killed() == [{"died": step}]
    with Vault.open(place, clock=Later(2)) as vault:
        sessions = [vault.access(ALICE).sessions.resume(branch) for branch in branches]
        for session in sessions:
            assert [effect.state for effect in session.effects()] == ([state] if state else [])
        assert world.seen()["asked"] == times
        with sessions[-1].run() as run:
            effect = run.effect("email.send", "asked", "asked")
            carry_out = world.does("asked", Dying(None, 0, 0), fails=False)
            if state == "in doubt" and not asked:
                with pytest.raises(InDoubt):
                    effect.once(carry_out)
                assert world.seen()["asked"] == times
                return
            assert effect.once(carry_out, resolver=world.asked if asked else None) == {"sent": "asked"}
        assert world.seen()["asked"] == 1
        assert {session.effects()[0].state for session in sessions} == {"committed"}


def test_each_step_has_its_test():
    assert {point for _, point, *_ in STEPS} == set(POINTS)
