"""Plans of more than 500 things: what changed since is seen in the transaction that opens the erasure. D4."""

import dataclasses
import os

import pytest

from vault import Principal, Vault
from vault.erasure.execute import PROGRESS
from vault.erasure.fence import BATCH
from vault.erasure.unchanged import REMADE_MAX, TRIES
from vault.errors import Conflict

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
MANY = REMADE_MAX + 5


@pytest.fixture
def vault(place):
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def officer(vault):
    return vault.access(OFFICER)


@pytest.fixture
def sessions(alice):
    made = [alice.sessions.create() for _ in range(MANY - 1)]
    made[0].append("message.user", 1)
    alice.memories.put(("n",), "k", 1, sources=[made[1]])
    return made


@pytest.fixture
def opening(vault):
    """Calls something just before each transaction that opens an erasure, up to so many times."""

    def before(work, times=1):
        left = [work] * times

        def step(told):
            if told == "open" and left:
                left.pop()()

        execution = dataclasses.replace(vault._parts.execution, step=step)
        vault._parts = dataclasses.replace(vault._parts, execution=execution)
        return left

    return before


def standing(vault):
    """Everything that an erasure would touch, as it stands: sessions, items, keys, erasures, receipts."""
    with vault._database.snapshot() as connection:
        rows = [
            connection.execute(f"SELECT {columns} FROM {table}").fetchall()  # noqa: S608
            for table, columns in (
                ("sessions WHERE external IS NULL", "session_id, state"),
                ("items", "item_id, state"),
                ("operations", "operation_id, state"),
                ("receipts", "number"),
            )
        ]
    return rows, sorted(row.scope for row in vault._store.rows())


def begun(access, session):
    """An erasure of a session whose process ends once it is opened."""

    class CutOff(Exception):
        """Stands for the end of a process."""

    def step(told):
        if told == "fence":
            raise CutOff

    parts = access.erasure._parts
    execution = dataclasses.replace(parts.execution, step=step)
    access.erasure._parts = dataclasses.replace(parts, execution=execution)
    with pytest.raises(CutOff):
        access.erasure.erase(session=session.id)


CHANGES = {
    "a new session": (
        lambda alice, bob, officer, made: alice.sessions.create(),
        "1 more, 0 fewer, 0 otherwise",
    ),
    "a fork": (
        lambda alice, bob, officer, made: alice.sessions.fork(made[0].id),
        "1 more, 0 fewer, 0 otherwise",
    ),
    "something derived": (
        lambda alice, bob, officer, made: alice.artifacts.put("a", b"x", sources=[made[-1]]),
        "1 more, 0 fewer, 0 otherwise",
    ),
    "something derived by another": (
        lambda alice, bob, officer, made: bob.memories.put(("n",), "of bob", 1, sources=[made[2].id]),
        "1 more, 0 fewer, 0 otherwise",
    ),
    "a new version": (
        lambda alice, bob, officer, made: alice.memories.put(("n",), "k", 2, sources=[made[1]]),
        "1 more, 0 fewer, 0 otherwise",
    ),
    "one that went": (
        lambda alice, bob, officer, made: alice.erasure.erase(session=made[-1].id),
        "0 more, 1 fewer, 0 otherwise",
    ),
    "one that went and one that came": (
        lambda alice, bob, officer, made: (
            alice.erasure.erase(memory=alice.memories.get(("n",), "k").id),
            alice.memories.put(("n",), "another", 1, sources=[made[1]]),
        ),
        "1 more, 1 fewer, 0 otherwise",
    ),
    "one that another erasure takes at this moment": (
        lambda alice, bob, officer, made: begun(alice, made[-1]),
        "0 more, 1 fewer, 0 otherwise",
    ),
    "a hold": (
        lambda alice, bob, officer, made: officer.holds.place(session=made[-1].id, reason="case"),
        "0 more, 0 fewer, 1 otherwise",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_since_a_large_plan_is_seen_at_the_last_moment(
    vault, alice, officer, sessions, opening, change
):
    """D4: Conflict says how; nothing is erased and nothing stays fenced"""
    alice.grants.give(sessions[2].id, "bob", level="L3")
    plan = officer.erasure.plan(subject="alice")
    assert len(plan.plan.items) == MANY
    work, sentence = CHANGES[change]
    others = [vault.access(who) for who in (ALICE, BOB, OFFICER)]  # their own steps are not watched
    after = []

    def changed():
        work(*others, sessions)
        after.append(standing(vault))

    opening(changed)
    with pytest.raises(Conflict, match=sentence):
        vault.access(OFFICER).erasure.execute(plan)
    assert [standing(vault)] == after
    assert vault.verify().findings == ()
    assert len(list(sessions[0].events())) == 1
    sessions[0].append("message.user", 2)


def test_what_changed_before_a_large_plan_is_carried_out_is_seen_too(vault, alice, officer, sessions):
    plan = officer.erasure.plan(subject="alice")
    alice.sessions.create()
    before = standing(vault)
    with pytest.raises(Conflict, match="1 more"):
        officer.erasure.execute(plan)
    assert standing(vault) == before


def test_what_does_not_matter_to_a_large_plan_stops_nothing(vault, alice, officer, sessions, opening):
    """A session that is used meanwhile goes as it is then; for a hold on another it is planned again"""
    plan = officer.erasure.plan(subject="alice")
    bob, other = vault.access(BOB), vault.access(OFFICER)

    def work():
        sessions[0].append("message.user", 2)
        bob.sessions.create()
        other.holds.place(subject="bob", reason="case")

    left = opening(work)
    outcome = vault.access(OFFICER).erasure.execute(plan)
    assert left == []
    assert outcome.state == "verified"
    assert dict(outcome.counts) == {("session", "erased"): MANY - 1, ("memory", "erased"): 1}
    assert len(bob.sessions.find().items) == 1
    assert vault.verify().findings == ()


def test_what_changes_all_the_time_is_given_up(vault, officer, sessions, opening):
    plan = officer.erasure.plan(subject="alice")
    other = vault.access(OFFICER)
    left = opening(lambda: other.holds.place(subject="bob", reason="case"), times=TRIES + 1)
    before = standing(vault)[0]
    with pytest.raises(Conflict, match="changes all the time"):
        vault.access(OFFICER).erasure.execute(plan)
    assert (len(left), standing(vault)[0]) == (1, before)


def test_how_far_an_erasure_is_can_be_followed_step_by_step(vault, alice, officer, sessions):
    """A2: of each step how much is done, and of how much; to its end, and never back"""
    for one in sessions[:3]:
        one.append("file.read", raw=os.urandom(90_000))
    seen = {}
    plan = officer.erasure.plan(subject="alice")
    outcome = officer.erasure.execute(
        plan, progress=lambda step, done, total: seen.setdefault(step, []).append((done, total))
    )
    assert outcome.state == "verified"
    assert sorted(seen) == sorted(PROGRESS)  # rows and files take turns
    for step, told in seen.items():
        assert told == sorted(told)
        assert all(0 <= done <= total for done, total in told)
        assert told[-1][0] == told[-1][1] == {"files": 3, "search": told[-1][1]}.get(step, MANY)
    assert seen["fence"] == [(done, MANY) for done in (*range(BATCH, MANY, BATCH), MANY)]
    assert seen["search"][-1][1] > 100_000
