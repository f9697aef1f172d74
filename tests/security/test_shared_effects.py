"""Whoever a session is shared with repeats no effect, takes no view for the truth, and asks of no branch.

E1, E2, O1, O2, R1.
"""

import pytest

from vault import Principal
from vault.errors import Conflict, InDoubt, InvalidInput
from vault.policy.recovery import Trigger
from vault.sessions.effect import Resolution
from vault.sessions.facts import MaskedConfirmation

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"agent", "owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"agent"}))
BY_HAND = Trigger(after_tool=False, every_events=None, every_seconds=None)
BELOW = ("L0", "L1", "L2")
CARD = "4111 1111 1111 1111"
PAID = {"receipt": "Wilhelmina paid", "card": CARD}
WORDS = ("Wilhelmina", "4111")


@pytest.fixture
def alice(vault):
    return vault.access(ALICE).sessions


@pytest.fixture
def bob(vault):
    return vault.access(BOB).sessions


@pytest.fixture
def session(alice):
    made = alice.create()
    made.append("user.profile", {"first_name": "Wilhelmina"})
    with made.run(checkpoints=BY_HAND) as run:
        about = {"resource": "crm/7", "subject": "Wilhelmina"}
        run.effect("pay", "order 7", {"card": CARD}, **about).once(lambda _: PAID)
    return made


def shared(vault, session, level):
    vault.access(ALICE).grants.give(session.id, "bob", level=level, may=["append"])


def never(_):
    pytest.fail("carried out again")


def facts_of(session):
    """What the facts of its effects say, as their owner reads them."""
    return [event.payload for event in session.events() if event.type.startswith("effect.")]


# ------------------------------------------------------------------------------------ what a view shows


@pytest.mark.parametrize("level", BELOW)
def test_a_masked_confirmation_says_that_it_is_none(vault, bob, session, level):
    """E1, O2: the effect is not repeated, and what the view shows is not taken for what the world said"""
    shared(vault, session, level)
    with bob.resume(session.id).run(checkpoints=BY_HAND) as run:
        effect = run.effect("pay", "order 7")
        told = effect.once(never)
        assert isinstance(told, MaskedConfirmation)
        assert told.masked is True
        assert told.fact == effect.state().fact
        assert effect.state().masked
        assert effect.state().state == "committed"
        assert not any(word in str([told.shown, told, effect.state()]) for word in WORDS)
        with pytest.raises(InvalidInput):  # nor stored as one by accident
            run.append("message.assistant", {"paid": told})


def test_whoever_sees_all_gets_the_confirmation_itself(vault, alice, bob, session):
    """E1: its owner, and a share at the highest level that hides nothing of it"""
    with alice.resume(session.id).run(checkpoints=BY_HAND) as run:
        assert run.effect("pay", "order 7").once(never) == PAID
        assert not run.effect("pay", "order 7").state().masked
        run.effect("note", "plain").once(lambda _: {"id": 7})
    shared(vault, session, "L3")
    with bob.resume(session.id).run(checkpoints=BY_HAND) as run:
        assert run.effect("note", "plain").once(never) == {"id": 7}
        assert not run.effect("note", "plain").state().masked


@pytest.mark.parametrize("guess", [PAID, {"receipt": "another"}])
@pytest.mark.parametrize("level", BELOW)
def test_whether_a_guess_is_the_hidden_confirmation_is_not_told(vault, bob, session, level, guess):
    """R1: committing it once more would tell by its answer"""
    shared(vault, session, level)
    with (
        bob.resume(session.id).run(checkpoints=BY_HAND) as run,
        pytest.raises(Conflict, match="not shown to you"),
    ):
        run.effect("pay", "order 7").commit(guess)


@pytest.mark.parametrize("level", BELOW)
def test_a_list_of_effects_says_that_it_is_a_view(vault, alice, bob, session, level):
    """O2"""
    shared(vault, session, level)
    assert [effect.masked for effect in bob.resume(session.id).effects()] == [True]
    assert [effect.masked for effect in session.effects()] == [False]


# --------------------------------------------------------------------------------------- what is in doubt


@pytest.fixture
def doubtful(session):
    """Two effects of which nobody knows whether they happened, and one that is committed."""
    with session.run(checkpoints=BY_HAND) as run:
        for key in ("order 8", "order 9"):
            about = {"resource": "crm/8", "subject": "Wilhelmina"}
            run.effect("pay", key, {"card": CARD, "to": "Wilhelmina"}, **about).intend()
    return session


@pytest.mark.parametrize("level", BELOW)
def test_wake_counts_what_is_in_doubt_and_names_nothing(vault, alice, bob, doubtful, level):
    """E2, O2: so that whoever goes on asks the owner before"""
    shared(vault, doubtful, level)
    woken = bob.wake(doubtful.id, checkpoints=BY_HAND)
    woken.run.stop()
    assert (woken.in_doubt, woken.in_doubt_hidden) == ((), 2)
    assert "2 of which this view does not tell" in woken.note
    assert not any(word in str([woken.note, woken.in_doubt]) for word in WORDS)
    mine = alice.wake(doubtful.id, checkpoints=BY_HAND)
    mine.run.stop()
    assert ([effect.key for effect in mine.in_doubt], mine.in_doubt_hidden) == (["order 8", "order 9"], 0)


def test_wake_names_what_a_share_shows_whole(vault, bob, session):
    """E2"""
    with session.run(checkpoints=BY_HAND) as run:
        run.effect("note", "plain", {"id": 7}).intend()
    shared(vault, session, "L3")
    woken = bob.wake(session.id, checkpoints=BY_HAND)
    woken.run.stop()
    assert ([effect.key for effect in woken.in_doubt], woken.in_doubt_hidden) == (["plain"], 0)


@pytest.mark.parametrize("level", BELOW)
def test_what_is_in_doubt_is_not_repeated_by_whoever_sees_a_view(vault, bob, doubtful, level):
    """E1"""
    shared(vault, doubtful, level)
    with bob.resume(doubtful.id).run(checkpoints=BY_HAND) as run:
        with pytest.raises(InDoubt) as raised:
            run.effect("pay", "order 8").once(never)
        assert raised.value.effect.masked
        assert not any(word in str([raised.value, raised.value.effect]) for word in WORDS)
        seen = []
        with pytest.raises(InDoubt):
            run.effect("pay", "order 8").once(
                never, resolver=lambda known: seen.append(known) or Resolution(decision="ask")
            )
        assert not any(word in str(seen) for word in WORDS)


@pytest.mark.parametrize("decision", ["commit", "fail", "retry"])
@pytest.mark.parametrize("level", BELOW)
@pytest.mark.parametrize("outside", [True, False])
def test_settling_it_stores_nothing_of_the_view(vault, alice, bob, doubtful, level, decision, outside):
    """E2, K4: the facts say what was intended, as its owner stored it, and what it changed in the world"""
    shared(vault, doubtful, level)
    resolution = Resolution(decision=decision, confirmation={"id": 8}, why="looked it up")
    theirs = bob.resume(doubtful.id)
    if outside:
        settled = theirs.resolve("pay", "order 8", resolution)
        assert not any(word in str(settled) for word in WORDS)
    else:
        with theirs.run(checkpoints=BY_HAND) as run:
            effect = run.effect("pay", "order 8")
            {"commit": lambda: effect.commit({"id": 8}), "fail": lambda: effect.fail("no")}.get(
                decision, lambda: effect.once(lambda _: {"id": 8}, resolver=lambda _: resolution)
            )()
    (now,) = alice.resume(doubtful.id).effects(kind="pay", key="order 8")
    assert (now.kind, now.key) == ("pay", "order 8")
    if decision == "commit":
        assert (now.state, now.confirmation) == ("committed", {"id": 8})
        assert (now.resource, now.subject) == ("crm/8", "Wilhelmina")
    for payload in facts_of(doubtful):
        assert payload["kind"] == "pay"
        assert payload["key"] in {"order 7", "order 8", "order 9"}


def test_a_fork_takes_over_no_value_of_a_view(vault, alice, bob, doubtful):
    """O2: what the share hides by now is not stored as this owner's"""
    vault.access(ALICE).grants.give(doubtful.id, "bob", level="L3", may=["fork"])
    fork = bob.fork(doubtful.id)
    vault.access(ALICE).grants.give(doubtful.id, "bob", level="L1")
    with fork.run(checkpoints=BY_HAND) as run:
        resolution = Resolution(decision="commit", confirmation={"id": 8})
        run.effect("pay", "order 8").once(never, resolver=lambda _: resolution)
    assert facts_of(fork)[-3:] == [
        {"kind": "pay", "key": "order 8", "intent": None},
        {"kind": "pay", "key": "order 8", "decision": "commit"},
        {"kind": "pay", "key": "order 8", "confirmation": {"id": 8}},
    ]


# --------------------------------------------------------------------------------------- other branches

STATES = {
    "committed": lambda run: run.effect("deal", "quuxberg", {"card": CARD}).once(lambda _: PAID),
    "in doubt": lambda run: run.effect("deal", "quuxberg", {"card": CARD}).intend(),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("level", [*BELOW, "L3"])
def test_what_became_of_it_in_an_unshared_branch_is_not_told(vault, alice, bob, session, level, state):
    """O1, O2: and it is repeated by nobody"""
    branch = alice.fork(session.id)
    with branch.run(checkpoints=BY_HAND) as run:
        STATES[state](run)
    shared(vault, session, level)
    theirs = bob.resume(session.id)
    assert theirs.effects(kind="deal", key="quuxberg") == []
    with theirs.run(checkpoints=BY_HAND) as run:
        effect = run.effect("deal", "quuxberg")
        assert effect.state() is None
        for use in (lambda: effect.once(never), effect.intend):
            with pytest.raises(Conflict, match="not shared with you") as raised:
                use()
            assert raised.value.__cause__ is None
            assert str(raised.value) == (
                "a branch that is not shared with you stands against this; ask the session's owner about it"
            )
        said = [str(answer(lambda use=use: use(effect, theirs))) for use in SETTLING]
    absent = bob.resume(session.id)
    with absent.run(checkpoints=BY_HAND) as run:
        nothing = run.effect("deal", "never heard of")
        assert said == [
            str(answer(lambda use=use: use(nothing, absent, "never heard of"))) for use in SETTLING
        ]
    woken = bob.wake(session.id, checkpoints=BY_HAND)
    woken.run.stop()
    assert woken.in_doubt_hidden == 0
    assert "quuxberg" not in woken.note
    assert not [fact for fact in facts_of(session) if fact["key"] == "quuxberg"]


SETTLING = (
    lambda effect, *_: effect.commit(PAID),
    lambda effect, *_: effect.fail("no"),
    lambda _, session, key="quuxberg": session.resolve("deal", key, Resolution(decision="retry")),
)


def answer(use):
    with pytest.raises(Conflict) as raised:
        use()
    return raised.value


def test_while_an_unshared_branch_is_at_it_the_same_is_said(vault, alice, bob, session):
    """E1, O2: not that somebody is carrying it out now"""
    branch = alice.fork(session.id)
    shared(vault, session, "L1")
    with branch.run(checkpoints=BY_HAND) as carrying:
        carrying.effect("deal", "quuxberg").intend()
        with (
            bob.resume(session.id).run(checkpoints=BY_HAND) as run,
            pytest.raises(Conflict, match="not shared with you"),
        ):
            run.effect("deal", "quuxberg").once(never)


def test_what_failed_in_an_unshared_branch_can_be_tried(vault, alice, bob, session):
    """E1: as its owner can, in any branch"""
    branch, done = alice.fork(session.id), []
    with branch.run(checkpoints=BY_HAND) as run:
        run.effect("deal", "quuxberg").intend()
        run.effect("deal", "quuxberg").fail("refused")
    shared(vault, session, "L1")
    with bob.resume(session.id).run(checkpoints=BY_HAND) as run:
        run.effect("deal", "quuxberg").once(lambda _: done.append(1) or {"id": 1})
    assert done == [1]
    with branch.run(checkpoints=BY_HAND) as run:
        assert run.effect("deal", "quuxberg").once(never) == {"id": 1}


def test_what_is_settled_in_an_unshared_branch_is_still_in_doubt_to_others(vault, alice, bob, doubtful):
    """O2, E1: and what they make of it does not count against what the owner knows"""
    branch = alice.fork(doubtful.id)
    branch.resolve("pay", "order 8", Resolution(decision="commit", confirmation=PAID))
    shared(vault, doubtful, "L2")
    theirs = bob.resume(doubtful.id)
    with theirs.run(checkpoints=BY_HAND) as run:
        effect = run.effect("pay", "order 8")
        assert effect.state().state == "in doubt"
        resolution = Resolution(decision="retry")
        with pytest.raises(Conflict, match="not shared with you"):
            effect.once(never, resolver=lambda _: resolution)
        with pytest.raises(Conflict, match="not shared with you"):
            effect.fail("no")
    (now,) = alice.resume(doubtful.id).effects(kind="pay", key="order 8")
    assert (now.state, now.confirmation) == ("committed", PAID)


@pytest.mark.parametrize("when", ["before", "after"])
def test_of_what_a_shared_fork_goes_on_from_only_its_part_is_told(vault, alice, bob, session, when):
    """O2: the original went on after the fork, and is not shared"""

    def deal():
        with session.run(checkpoints=BY_HAND) as run:
            run.effect("note", "plain").once(lambda _: {"id": 7})

    if when == "before":
        deal()
    fork = alice.fork(session.id)
    if when == "after":
        deal()
    shared(vault, fork, "L3")
    with bob.resume(fork.id).run(checkpoints=BY_HAND) as run:
        effect = run.effect("note", "plain")
        if when == "before":
            assert effect.once(never) == {"id": 7}
        else:
            assert effect.state() is None
            with pytest.raises(Conflict, match="not shared with you"):
                effect.once(never)
