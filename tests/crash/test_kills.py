"""Writers are killed at random moments, hundreds of times: what was acknowledged is there, once and whole."""

import contextlib
import io
import json
import os
import random
import select
import signal
import time
import traceback

import pytest

from vault import NewEvent, Principal, Vault, new_event_id, new_run_id

ALICE = Principal(tenant="acme", subject="alice")
ROUNDS, WRITERS = 54, 4
SETTINGS = {"ledger_every": 25}


def body_of(tag, size):
    return random.Random(tag).randbytes(size)


def planned(tag, kind):
    """The event of a tag; it carries the tag in clear view of its reader, as the name of its tool."""
    fields = {"tool": tag, "event_id": new_event_id() if kind % 2 else None}
    if kind == 7:
        return NewEvent(type="file.read", raw=body_of(tag, 90_000), **fields)
    if kind == 8:
        return NewEvent(type="file.read", raw=io.BytesIO(body_of(tag, 1_100_000)), **fields)
    if kind == 6:
        return NewEvent(type="screen.seen", raw=b"the same picture" * 9_000, **fields)
    return NewEvent(type="message.user", payload={"tag": tag, "text": tag * (kind * 40)}, **fields)


def is_whole(session, event, kind):
    """Whether an event's payload is the one that was planned under its tag."""
    tag = event.tool
    if kind < 6:
        return event.payload == {"tag": tag, "text": tag * (kind * 40)}
    with session.open(event) as stream:
        body = stream.read()
    expected = {6: b"the same picture" * 9_000, 7: body_of(tag, 90_000)}.get(kind)
    return body == (body_of(tag, 1_100_000) if expected is None else expected)


def write_until_killed(place, session_ids, name, seed, pipe):
    """Appends, saying before each append what it is about to do, and after it what was acknowledged."""
    choose = random.Random(seed)
    with Vault.open(place) as vault:
        sessions = [vault.access(ALICE).sessions.resume(one) for one in session_ids]
        run = new_run_id()
        for number in range(10**9):
            which = choose.randrange(len(sessions))
            count = choose.choice([1, 1, 1, 1, 2, 7, 20])
            kinds = [choose.choices(range(9), [5, 5, 5, 5, 5, 5, 2, 2, count < 3])[0] for _ in range(count)]
            batch = [planned(f"{name}-{number}-{k}", kind) for k, kind in enumerate(kinds)]
            if choose.random() < 0.3:
                batch = [NewEvent(**{f: getattr(e, f) for f in FIELDS} | {"run": run}) for e in batch]
            plan = [(e.tool, kind, e.event_id, e.run) for e, kind in zip(batch, kinds, strict=True)]
            say(pipe, {"plan": plan, "session": which})
            events = sessions[which].append_many(batch)
            say(pipe, {"done": [(event.tool, event.id, event.seq) for event in events], "session": which})


FIELDS = ("type", "payload", "raw", "tool", "event_id")


def say(pipe, fact):
    os.write(pipe, json.dumps(fact).encode() + b"\n")


class Writer:
    """A forked process that writes, and what it said by the time it was killed."""

    def __init__(self, place, session_ids, name, seed):
        self.reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                write_until_killed(place, session_ids, name, seed, writing)
            except BaseException:  # noqa: BLE001 - said to the parent, which fails
                say(writing, {"error": traceback.format_exc()})
            finally:
                os._exit(1)
        os.close(writing)

    def killed(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with os.fdopen(self.reading, "rb") as pipe:
            lines = pipe.read().split(b"\n")
        os.waitpid(self.pid, 0)
        # The last line may be cut off by the kill: then it was not said.
        return [json.loads(line) for line in lines[:-1]]


class Expected:
    """What the sessions must hold by what the killed writers said, checked after each round."""

    def __init__(self, count):
        self.plans = {}  # tag: (session, kind, event id, run, number of its batch)
        self.done = {}  # tag: (event id, seq)
        self.logs = [[] for _ in range(count)]
        self.batches = 0

    def heard(self, facts):
        for fact in facts:
            assert "error" not in fact, fact["error"]
            self.batches += "plan" in fact
            for tag, *plan in fact.get("plan", ()):
                self.plans[tag] = (fact["session"], *plan, self.batches)
            for tag, event_id, seq in fact.get("done", ()):
                self.done[tag] = (event_id, seq)

    def check(self, sessions):
        for which, session in enumerate(sessions):
            log = self.logs[which]
            for event in session.events(after=log[-1].id if log else None):
                place, kind, event_id, run, _ = self.plans[event.tool]
                assert (place, run) == (which, event.run)
                assert event_id in {None, event.id}
                assert event.seq == len(log) + 1
                assert is_whole(session, event, kind), event.tool
                log.append(event)
        stored = {}
        for event in (event for log in self.logs for event in log):
            assert event.tool not in stored, "stored twice"
            stored[event.tool] = event
        for tag, (event_id, seq) in self.done.items():
            assert (stored[tag].id, stored[tag].seq) == (event_id, seq), "acknowledged, and lost"
        halves = {}
        for tag, (*_, batch) in self.plans.items():
            halves.setdefault(batch, set()).add(tag in stored)
        assert all(len(states) == 1 for states in halves.values()), "half a batch"

    def retry_some(self, sessions, choose):
        """An append whose answer never came is tried again: it is stored once, whichever way it went."""
        open_plans = [tag for tag in self.plans if tag not in self.done and self.plans[tag][2]]
        for tag in choose.sample(open_plans, min(2, len(open_plans))):
            which, kind, event_id, run, batch = self.plans[tag]
            alone = sum(plan[-1] == batch for plan in self.plans.values()) == 1
            event = planned(tag, kind)
            if not alone or kind == 8:
                continue
            known = {"event_id": event_id, "run": run}
            given = NewEvent(**{field: getattr(event, field) for field in FIELDS} | known)
            (stored,) = sessions[which].append_many([given])
            self.done[tag] = (stored.id, stored.seq)


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_no_acknowledged_event_is_lost_and_no_half_event_seen(place):
    """L2, L7, invariants 1 to 4: 216 kills while appending, opening, checkpointing and storing blobs"""
    seed = random.randrange(2**32)
    choose, kills = random.Random(seed), 0
    with Vault.create(place, settings=SETTINGS) as vault:
        ids = [vault.access(ALICE).sessions.create().id for _ in range(3)]
    expected = Expected(len(ids))
    for number in range(ROUNDS):
        writers = [Writer(place, ids, f"{number}-{n}", choose.random()) for n in range(WRITERS)]
        if choose.random() < 0.85:  # else they are killed while they open the vault
            select.select([writer.reading for writer in writers], [], [], 60)
        time.sleep(choose.uniform(0, 0.25))
        for writer in choose.sample(writers, WRITERS):
            expected.heard(writer.killed())
            kills += 1
        with Vault.open(place) as vault:
            sessions = [vault.access(ALICE).sessions.resume(one) for one in ids]
            expected.check(sessions)
            expected.retry_some(sessions, choose)
            if number % 12 == 11 or number == ROUNDS - 1:
                assert vault.verify().findings == ()
                expected.check(sessions)
    assert kills >= 200
    # The rounds were long enough to do something, and the kills did interrupt something.
    assert len(expected.done) > 5 * ROUNDS, seed
    assert len(expected.plans) > len(expected.done), seed
    assert {plan[1] for plan in expected.plans.values()} == set(range(9))
