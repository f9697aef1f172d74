"""A side effect happens once: an intention before, a fact after, and who comes back finds what is known."""

import gc
import io
import json
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from itertools import product

import pytest

from tests.integration.test_query_plans import Steps, Ticks, plan
from tests.security import surgery
from vault import NewEvent, Principal, Resolution, Vault, new_event_id, new_run_id
from vault.adapters import session_jsonl
from vault.errors import (
    Busy,
    Conflict,
    EffectFailed,
    InDoubt,
    InvalidInput,
    RolledBack,
    Tampered,
)
from vault.model import session_bytes
from vault.sessions.refs import bucket_of
from vault.storage.statements import STATEMENTS

ALICE = Principal(tenant="acme", subject="alice")
KIND, KEY = "email.send", "report-8"
MAIL = (KIND, KEY, {"to": "bob"})


class World:
    """The outside: it counts what is done to it, and tells who asks."""

    def __init__(self):
        self.seen, self._guard = Counter(), threading.Lock()

    def does(self, key=KEY):
        def carry_out(_intent):
            with self._guard:
                self.seen[key] += 1
                return {"number": self.seen[key]}

        return carry_out

    def does_silently(self, key=KEY):
        """It happens, and the answer is lost."""
        return lambda intent: (self.does(key)(intent), break_off(intent))

    def asked(self, known):
        """The resolver that a world makes possible which can be asked."""
        if self.seen[known.key]:
            return Resolution(decision="commit", confirmation={"number": self.seen[known.key]})
        return Resolution(decision="retry")


@pytest.fixture
def world():
    return World()


def break_off(_intent):
    raise TimeoutError("no answer")


def never(_intent):
    pytest.fail("carried out again")


def in_doubt(session, about=MAIL, **more):
    """An effect whose answer never came."""
    with session.run() as run, pytest.raises(TimeoutError):
        run.effect(*about, **more).once(break_off)
    return state(session)


def state(session, kind=KIND, key=KEY):
    found = session.effects(kind=kind, key=key)
    return found[0] if found else None


def facts(session):
    """What the log says of effects, in order, without the prefix that they share."""
    return [event.type.removeprefix("effect.") for event in session.events() if "effect." in event.type]


def log_of(session):
    return list(session.events())


# ------------------------------------------------------------------------------------------- once


def test_the_intention_is_durable_before_the_effect_and_its_fact_before_the_result(place, session):
    """C4"""
    with Vault.open(place) as other, session.run() as run:
        elsewhere = other.access(ALICE).sessions.resume(session.id)

        def look(intent):
            found = state(elsewhere)
            assert (found.state, found.intent, found.run) == ("in doubt", {"to": "bob"}, run.id)
            return {"sent": intent["to"]}

        assert state(elsewhere) is None
        assert run.effect(*MAIL).once(look) == {"sent": "bob"}
        found = state(elsewhere)
        assert (found.state, found.confirmation) == ("committed", {"sent": "bob"})
    intended, committed = session.events(types=["effect.intended", "effect.committed"])
    assert committed.caused_by == intended.id


def test_nothing_is_carried_out_when_the_intention_cannot_be_recorded(vault, session, monkeypatch):
    """C4"""
    with session.run() as run:
        effect = run.effect(*MAIL)
        monkeypatch.setattr(vault._database, "write", break_off)
        with pytest.raises(TimeoutError):
            effect.once(never)
        monkeypatch.undo()
    assert session.effects() == []


def test_an_effect_whose_fact_cannot_be_recorded_is_in_doubt(vault, session, world, monkeypatch):
    """C4"""
    with session.run() as run:

        def done(intent):
            monkeypatch.setattr(vault._database, "write", break_off)
            return world.does()(intent)

        with pytest.raises(TimeoutError):
            run.effect(*MAIL).once(done)
        monkeypatch.undo()
        assert run.effect(*MAIL).state().state == "in doubt"
        assert run.effect(*MAIL).once(never, resolver=world.asked) == {"number": 1}
    assert world.seen == {KEY: 1}


def same_run(sessions, session, run):
    return run


def later_run(sessions, session, run):
    run.stop()
    return session.run()


def woken(sessions, session, run):
    run.stop()
    return sessions.wake(session.id).run


def of_a_fork(sessions, session, run):
    return sessions.fork(session.id).run()


def of_a_fork_before_it(sessions, session, run):
    first = next(session.events())
    return sessions.fork(session.id, at=first.id).run()


def of_a_fork_of_a_fork(sessions, session, run):
    fork = sessions.fork(session.id)
    fork.append("message.user", "on the other hand")
    return sessions.fork(fork.id).run()


RUNS = [same_run, later_run, woken, of_a_fork, of_a_fork_before_it, of_a_fork_of_a_fork]


@pytest.mark.parametrize("another", RUNS, ids=lambda one: one.__name__)
def test_a_committed_effect_gives_its_stored_result_to_every_run(alice, session, world, another):
    """C4, S4"""
    session.append("message.user", "send it")
    with session.run() as run:
        assert run.effect(*MAIL).once(world.does()) == {"number": 1}
        with another(alice, session, run) as later:
            assert later.effect(*MAIL).once(never) == {"number": 1}
            assert later.effect(*MAIL).once(never, resolver=never) == {"number": 1}
            assert later.effect(KIND, "report-9").once(world.does("report-9")) == {"number": 1}
    assert world.seen == {KEY: 1, "report-9": 1}


def family_of(sessions):
    """A session, a branch, a branch of that, and one from before both: each with an event of its own."""
    root = sessions.create()
    first = root.append("message.user", "hello")
    root.append("message.assistant", "hello")
    branch = sessions.fork(root.id)
    branch.append("message.user", "what if")
    twig = sessions.fork(branch.id)
    twig.append("message.user", "and then")
    return {"root": root, "branch": branch, "twig": twig, "sibling": sessions.fork(root.id, at=first.id)}


NAMES = ["root", "branch", "twig", "sibling"]
BRANCHES = [pytest.param(*pair, id=" then ".join(pair)) for pair in product(NAMES, NAMES)]


@pytest.mark.parametrize(("doer", "late"), BRANCHES)
def test_an_effect_of_one_branch_is_never_repeated_in_another(alice, world, doer, late):
    """S4"""
    branches = family_of(alice)
    with branches[doer].run() as run:
        run.effect(*MAIL).once(world.does())
    with branches[late].run() as run:
        assert run.effect(*MAIL).once(never) == {"number": 1}
        with pytest.raises(Conflict):
            run.effect(*MAIL).intend()
    for branch in branches.values():
        (known,) = branch.effects()
        assert (known.state, known.session_id) == ("committed", branches[doer].id)


@pytest.mark.parametrize(("doer", "late"), BRANCHES)
def test_an_effect_in_doubt_is_settled_in_any_branch_for_all(alice, world, doer, late):
    """C4, S4"""
    branches = family_of(alice)
    in_doubt(branches[doer])
    with branches[late].run() as run:
        with pytest.raises(InDoubt):
            run.effect(*MAIL).once(never)
        assert run.effect(*MAIL).once(world.does(), resolver=world.asked) == {"number": 1}
    for branch in branches.values():
        with branch.run() as run:
            assert run.effect(*MAIL).once(never) == {"number": 1}
        assert [known.state for known in branch.effects()] == ["committed"]


@pytest.mark.parametrize(("doer", "late"), BRANCHES)
def test_an_effect_that_failed_in_one_branch_is_tried_again_in_another_and_in_doubt_in_all(alice, doer, late):
    """C4, S4"""
    branches = family_of(alice)
    in_doubt(branches[doer])
    branches[late].resolve(KIND, KEY, Resolution(decision="fail"))
    assert {state(branch).state for branch in branches.values()} == {"failed"}
    in_doubt(branches[doer])
    for branch in branches.values():
        assert state(branch).state == "in doubt"
        with branch.run() as run, pytest.raises(InDoubt):
            run.effect(*MAIL).once(never)


ONCE = """
import json, sys
from vault import Principal, Vault
with Vault.open(sys.argv[1]) as vault:
    session = vault.access(Principal(tenant="acme", subject="alice")).sessions.resume(sys.argv[2])
    with session.run() as run:
        print(json.dumps(run.effect("email.send", "report-8").once(lambda _: "carried out again")))
"""


def test_a_committed_effect_gives_its_stored_result_to_another_process(place, alice, session, python):
    """C4"""
    with session.run() as run:
        run.effect(*MAIL).once(lambda _: "sent")
    for which in (session, alice.fork(session.id)):
        said, errors = python(ONCE, place, which.id).communicate()
        assert json.loads(said or "null") == "sent", errors


def test_a_committed_effect_gives_its_stored_result_after_the_vault_was_reopened(place, world):
    """C4"""
    with Vault.create(place) as vault:
        session_id = vault.access(ALICE).sessions.create().id
    for _ in range(3):
        with Vault.open(place) as vault:
            session = vault.access(ALICE).sessions.resume(session_id)
            with session.run() as run:
                assert run.effect(*MAIL).once(world.does()) == {"number": 1}
    assert world.seen == {KEY: 1}


RESULTS = {"nothing": None, "zero": 0, "empty": {}, "text": "sent", "nested": {"id": [1, 2.5, None, True]}}


@pytest.mark.parametrize("result", list(RESULTS.values()), ids=RESULTS)
def test_the_stored_result_is_exactly_what_was_returned(session, result):
    """C4"""
    with session.run() as run:
        assert run.effect(*MAIL).once(lambda _: result) == result
    with session.run() as run:
        again = run.effect(*MAIL).once(never)
        assert again == result
        assert type(again) is type(result)


def test_a_failed_effect_is_recorded_and_may_be_tried_again(session, world):
    """C4"""

    def refused(_intent):
        raise EffectFailed("the address does not exist")

    with session.run() as run:
        for _ in range(2):
            with pytest.raises(EffectFailed, match="does not exist"):
                run.effect(*MAIL).once(refused)
            known = run.effect(*MAIL).state()
            assert (known.state, known.reason) == ("failed", "the address does not exist")
        assert run.effect(*MAIL).once(world.does()) == {"number": 1}
    assert facts(session) == ["intended", "failed", "intended", "failed", "intended", "committed"]


def test_a_failure_is_recorded_whatever_its_words(session):
    """C4"""

    def refused(_intent):
        raise EffectFailed("\ud800")

    with session.run() as run, pytest.raises(EffectFailed):
        run.effect(*MAIL).once(refused)
    assert state(session).state == "failed"


ERRORS = [TimeoutError, KeyError, KeyboardInterrupt, SystemExit, GeneratorExit, InDoubt, Busy, InvalidInput]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_after_any_other_exception_the_effect_is_in_doubt(session, kind):
    """C4"""
    error = kind("broken off")

    def broken(_intent):
        raise error

    with session.run() as run:
        with pytest.raises(kind) as seen:
            run.effect(*MAIL).once(broken)
        assert seen.value is error
        assert run.effect(*MAIL).state().state == "in doubt"
        with pytest.raises(InDoubt):
            run.effect(*MAIL).once(never)
    assert facts(session) == ["intended"]


def test_an_effect_in_doubt_is_not_repeated_when_nobody_decides(session):
    """C4"""
    known = in_doubt(session)
    with session.run() as run:
        before = log_of(session)
        with pytest.raises(InDoubt) as refusal:
            run.effect(*MAIL).once(never)
        assert refusal.value.effect == known
        with pytest.raises(Conflict):
            run.effect(*MAIL).intend()
        assert log_of(session) == before


def test_an_effect_within_itself_is_in_doubt(session, world):
    """C4"""
    with session.run() as run:

        def nested(intent):
            with pytest.raises(InDoubt):
                run.effect(*MAIL).once(never)
            return world.does()(intent)

        assert run.effect(*MAIL).once(nested) == {"number": 1}


# ------------------------------------------------------------------------------------------- resolvers


def test_a_resolver_gets_all_that_is_known_and_is_asked_only_about_what_is_in_doubt(session, world):
    """C4"""
    about = {"resource": "crm/customer/42", "subject": "bob"}
    known = in_doubt(session, **about)
    (intended,) = session.events(types=["effect.intended"])
    asked = []

    def resolver(effect):
        asked.append(effect)
        return Resolution(decision="retry")

    with session.run() as run:
        run.effect(*MAIL, **about).once(world.does(), resolver=resolver)
        run.effect(*MAIL, **about).once(never, resolver=resolver)
        run.effect(KIND, "report-9").once(world.does("report-9"), resolver=resolver)
    assert asked == [known]
    assert (known.kind, known.key, known.intent, known.state) == (*MAIL, "in doubt")
    assert (known.fact, known.session_id, known.run) == (intended.id, session.id, intended.run)
    assert (known.resource, known.subject, known.at) == (*about.values(), intended.recorded_at)


def test_retry_carries_it_out_again_under_an_intention_of_its_own(session, world):
    """C4"""
    known = in_doubt(session)
    decided = Resolution(decision="retry", why="the log of the mail server has no trace", by="ops")
    with session.run() as run:
        assert run.effect(*MAIL).once(world.does(), resolver=lambda _: decided) == {"number": 1}
    assert facts(session) == ["intended", "resolved", "failed", "intended", "committed"]
    *_, resolved, failed, intended, committed = (
        event for event in session.events() if event.type.startswith("effect.")
    )
    assert resolved.payload == {
        "kind": KIND,
        "key": KEY,
        "decision": "retry",
        "why": decided.why,
        "by": "ops",
    }
    assert (resolved.caused_by, failed.caused_by, committed.caused_by) == (
        known.fact,
        known.fact,
        intended.id,
    )
    # In one transaction: a crash leaves the old intention in doubt, or the new one, and never neither.
    assert len({event.recorded_us for event in (resolved, failed, intended)}) == 1
    assert intended.payload["intent"] == {"to": "bob"}


def test_commit_takes_the_confirmation_that_the_world_gave(session):
    """C4"""
    in_doubt(session, resource="crm/customer/42", subject="bob")
    decided = Resolution(decision="commit", confirmation={"id": 7})
    with session.run() as run:
        assert run.effect(*MAIL).once(never, resolver=lambda _: decided) == {"id": 7}
        assert run.effect(*MAIL).once(never) == {"id": 7}
    known = state(session)
    assert (known.state, known.confirmation, known.run) == ("committed", {"id": 7}, run.id)
    assert (known.resource, known.subject) == ("crm/customer/42", "bob")
    assert facts(session) == ["intended", "resolved", "committed"]


def test_fail_gives_it_up_until_somebody_wants_it_again(session, world):
    """C4"""
    in_doubt(session)
    decided = Resolution(decision="fail", why="the customer left")
    with session.run() as run:
        with pytest.raises(EffectFailed):
            run.effect(*MAIL).once(never, resolver=lambda _: decided)
        known = run.effect(*MAIL).state()
        assert (known.state, known.reason) == ("failed", "the customer left")
        assert run.effect(*MAIL).once(world.does(), resolver=never) == {"number": 1}
    assert facts(session) == ["intended", "resolved", "failed", "intended", "committed"]


def test_ask_asks_a_person_once_however_often_the_run_comes_back_to_it(place, vault, session, world):
    """C4"""
    known = in_doubt(session)
    ask = Resolution(decision="ask")
    for opened in (vault, vault, Vault.open(place)):
        again = opened.access(ALICE).sessions.resume(session.id)
        with again.run() as run:
            for _ in range(2):
                with pytest.raises(InDoubt) as refusal:
                    run.effect(*MAIL).once(never, resolver=lambda _: ask)
                assert refusal.value.effect == known
        if opened is not vault:
            opened.close()
    (asked,) = session.events(types=["approval.requested"])
    assert asked.caused_by == known.fact
    assert KEY in asked.payload["what"]
    assert facts(session) == ["intended"]
    # The next attempt that is in doubt is asked about by itself.
    session.resolve(KIND, KEY, Resolution(decision="retry"))
    in_doubt(session)
    with session.run() as run, pytest.raises(InDoubt):
        run.effect(*MAIL).once(never, resolver=lambda _: ask)
    assert len(list(session.events(types=["approval.requested"]))) == 2


@pytest.mark.parametrize("answer", [None, "retry", True, {"decision": "retry"}], ids=repr)
def test_a_resolver_that_gives_no_resolution_decides_nothing(session, answer):
    """C4"""
    in_doubt(session)
    with session.run() as run:
        before = log_of(session)
        with pytest.raises(InvalidInput, match="returns a Resolution"):
            run.effect(*MAIL).once(never, resolver=lambda _: answer)
        assert log_of(session) == before


def test_a_resolver_that_breaks_off_decides_nothing(session):
    """C4"""
    known = in_doubt(session)
    with session.run() as run, pytest.raises(TimeoutError):
        run.effect(*MAIL).once(never, resolver=break_off)
    assert state(session) == known
    assert facts(session) == ["intended"]


@pytest.mark.parametrize("decision", [None, "", "maybe", 1, ["retry"]], ids=repr)
def test_a_resolution_is_one_of_four(decision):
    with pytest.raises(InvalidInput, match="retry, commit, fail or ask"):
        Resolution(decision=decision)


NOT_JSON = {
    "an-object": object(),
    "bytes": b"sent",
    "a-tuple": (1, 2),
    "a-set": {1},
    "not-a-number": float("nan"),
    "a-time": datetime.now(UTC),
    "a-lone-surrogate": "\ud800",
    "a-long-number": 2**64,
    "within": {"id": [object()]},
}


@pytest.mark.parametrize("confirmation", list(NOT_JSON.values()), ids=NOT_JSON)
def test_an_effect_whose_confirmation_is_not_json_is_in_doubt_until_it_is_committed_by_hand(
    session, confirmation
):
    """C4"""
    with session.run() as run:
        with pytest.raises(InvalidInput):
            run.effect(*MAIL).once(lambda _: confirmation)
        assert run.effect(*MAIL).state().state == "in doubt"
        with pytest.raises(InDoubt):
            run.effect(*MAIL).once(never)
        with pytest.raises(InvalidInput):
            run.effect(*MAIL).once(
                never, resolver=lambda _: Resolution(decision="commit", confirmation=confirmation)
            )
        assert run.effect(*MAIL).commit("it was sent").state == "committed"
        assert run.effect(*MAIL).once(never) == "it was sent"
    assert facts(session) == ["intended", "committed"]


# ------------------------------------------------------------------------------------------- from outside


def test_an_effect_in_doubt_is_settled_from_outside_of_a_run(session, world):
    """C4"""
    in_doubt(session, resource="crm/customer/42", subject="bob")
    known = session.resolve(KIND, KEY, Resolution(decision="retry", by="ops"))
    assert (known.state, known.run) == ("failed", None)
    with session.run() as run:
        assert run.effect(*MAIL).once(world.does()) == {"number": 1}
    in_doubt(session, (KIND, "report-9"), resource="crm/customer/42", subject="bob")
    known = session.resolve(KIND, "report-9", Resolution(decision="commit", confirmation=["id", 9]))
    assert (known.state, known.confirmation) == ("committed", ["id", 9])
    assert (known.resource, known.subject) == ("crm/customer/42", "bob")
    in_doubt(session, (KIND, "report-10"))
    known = session.resolve(KIND, "report-10", Resolution(decision="fail", why="too late"))
    assert (known.state, known.reason) == ("failed", "too late")
    with session.run() as run:
        assert run.effect(KIND, "report-9").once(never) == ["id", 9]
        assert run.effect(KIND, "report-10").once(world.does("report-10")) == {"number": 1}


def test_nothing_is_settled_while_a_run_is_active(alice, session):
    """C4, S6"""
    in_doubt(session, (KIND, "before"))
    with session.run() as run:
        run.effect(*MAIL).intend()
        for which, key in [(session, "before"), (session, KEY), (alice.fork(session.id), KEY)]:
            before = log_of(which)
            for decision in ("retry", "commit", "fail"):
                with pytest.raises(Busy):
                    which.resolve(KIND, key, Resolution(decision=decision, confirmation=1))
            assert log_of(which) == before
    assert alice.fork(session.id).resolve(KIND, KEY, Resolution(decision="fail")).state == "failed"


def test_a_fact_by_hand_counts_in_all_branches_or_is_refused(alice, session):
    """S4: it happened, whoever says so; that it failed is said of an intention that is named"""
    in_doubt(session)
    fork = alice.fork(session.id)
    before, about = log_of(fork), {"kind": KIND, "key": KEY}
    with pytest.raises(Conflict, match="look again"):
        fork.append("effect.failed", {**about, "reason": "I think so"})
    with pytest.raises(Conflict, match="look again"):
        fork.append("effect.resolved", {**about, "decision": "retry"})
    assert log_of(fork) == before
    fork.append("effect.committed", {**about, "confirmation": "it was sent"})
    for branch in (session, fork):
        with branch.run() as run:
            assert run.effect(*MAIL).once(never) == "it was sent"


def test_a_writer_whose_view_is_behind_meets_the_effects_as_they_are(place, session):
    """C4: what became of an effect is told by what is stored, not by what this process wrote last"""
    session.append("message.user", "send it")
    about = {"kind": KIND, "key": KEY}
    with Vault.open(place) as other:
        elsewhere = other.access(ALICE).sessions.resume(session.id)
        elsewhere.append("effect.intended", {**about, "intent": None})
        with pytest.raises(Conflict, match="intended already"):
            session.append("effect.intended", {**about, "intent": None})
        session.append("effect.committed", {**about, "confirmation": 1})
        with pytest.raises(Conflict, match="committed already"):
            elsewhere.append("effect.failed", {**about, "reason": "no"})
    assert facts(session) == ["intended", "committed"]


@pytest.mark.parametrize("decision", ["retry", "commit", "fail", "ask"])
def test_a_resolution_alone_settles_nothing(alice, session, world, decision):
    """C4"""
    known = in_doubt(session)
    session.append("effect.resolved", {"kind": KIND, "key": KEY, "decision": decision})
    for branch in (session, alice.fork(session.id)):
        assert state(branch) == known
        with branch.run() as run, pytest.raises(InDoubt):
            run.effect(*MAIL).once(never)
    with session.run() as run:
        assert run.effect(*MAIL).once(world.does(), resolver=world.asked) == {"number": 1}


@pytest.mark.parametrize("settled", ["never", "committed", "failed"])
@pytest.mark.parametrize("decision", ["retry", "commit", "fail"])
def test_only_what_is_in_doubt_is_settled(session, settled, decision):
    """C4"""
    if settled != "never":
        in_doubt(session)
        session.resolve(KIND, KEY, Resolution(decision="commit" if settled == "committed" else "fail"))
    before = log_of(session)
    with pytest.raises(Conflict) as refusal:
        session.resolve(KIND, KEY, Resolution(decision=decision))
    assert "." not in str(refusal.value)
    assert log_of(session) == before


def test_to_ask_settles_nothing(session):
    in_doubt(session)
    before = log_of(session)
    with pytest.raises(InvalidInput, match="decide"):
        session.resolve(KIND, KEY, Resolution(decision="ask"))
    assert log_of(session) == before


# ------------------------------------------------------------------------------------------- one sentence


def committed_then(act):
    def refused(run):
        run.effect(*MAIL).once(lambda _: "sent")
        return lambda: act(run.effect(*MAIL))

    return refused


def failed_then(act):
    def refused(run):
        run.effect(*MAIL).intend()
        run.effect(*MAIL).fail("no")
        return lambda: act(run.effect(*MAIL))

    return refused


def intended_then(act):
    def refused(run):
        run.effect(*MAIL).intend()
        return lambda: act(run.effect(*MAIL))

    return refused


def at_once(act):
    return lambda run: lambda: act(run)


def by_hand(kind, payload, **about):
    return at_once(lambda run: run.append(f"effect.{kind}", payload, **about))


REFUSED = {
    "committed-and-never-intended": (Conflict, at_once(lambda run: run.effect(*MAIL).commit(1))),
    "failed-and-never-intended": (Conflict, at_once(lambda run: run.effect(*MAIL).fail("no"))),
    "intended-twice": (Conflict, intended_then(lambda effect: effect.intend())),
    "intended-when-committed": (Conflict, committed_then(lambda effect: effect.intend())),
    "committed-with-another-confirmation": (Conflict, committed_then(lambda effect: effect.commit("Sent"))),
    "committed-without-its-confirmation": (Conflict, committed_then(lambda effect: effect.commit())),
    "committed-with-what-is-not-json": (InvalidInput, committed_then(lambda effect: effect.commit(b"sent"))),
    "failed-when-committed": (Conflict, committed_then(lambda effect: effect.fail("no"))),
    "failed-twice": (Conflict, failed_then(lambda effect: effect.fail("no"))),
    "committed-when-failed": (Conflict, failed_then(lambda effect: effect.commit("sent"))),
    "an-intent-that-is-not-json": (InvalidInput, at_once(lambda run: run.effect(KIND, KEY, {1}).intend())),
    "a-key-of-257-characters": (InvalidInput, at_once(lambda run: run.effect(KIND, "k" * 257))),
    "a-kind-of-257-characters": (InvalidInput, at_once(lambda run: run.effect("k" * 257, KEY))),
    "an-empty-key": (InvalidInput, at_once(lambda run: run.effect(KIND, ""))),
    "an-empty-kind": (InvalidInput, at_once(lambda run: run.effect("", KEY))),
    "a-number-as-key": (InvalidInput, at_once(lambda run: run.effect(KIND, 8))),
    "a-list-as-key": (InvalidInput, at_once(lambda run: run.effect(KIND, ["k"]))),
    "none-as-kind": (InvalidInput, at_once(lambda run: run.effect(None, KEY))),
    "a-key-that-is-no-text": (InvalidInput, at_once(lambda run: run.effect(KIND, "\ud800"))),
    "an-empty-subject": (InvalidInput, at_once(lambda run: run.effect(KIND, KEY, subject=""))),
    "a-number-as-subject": (InvalidInput, at_once(lambda run: run.effect(KIND, KEY, subject=8))),
    "an-empty-resource": (InvalidInput, at_once(lambda run: run.effect(KIND, KEY, resource="").intend())),
    "by-hand-without-payload": (InvalidInput, by_hand("intended", None)),
    "by-hand-as-bytes": (InvalidInput, by_hand("intended", None, raw=b'{"kind":"k","key":"k"}')),
    "by-hand-without-kind": (InvalidInput, by_hand("intended", {"key": KEY})),
    "by-hand-without-key": (InvalidInput, by_hand("committed", {"kind": KIND, "confirmation": 1})),
    "by-hand-with-a-long-key": (InvalidInput, by_hand("intended", {"kind": KIND, "key": "k" * 257})),
    "by-hand-with-a-bad-subject": (
        InvalidInput,
        by_hand("intended", {"kind": KIND, "key": KEY, "subject": 8}),
    ),
    "by-hand-committed": (Conflict, by_hand("committed", {"kind": KIND, "key": KEY, "confirmation": 1})),
    "by-hand-failed": (Conflict, by_hand("failed", {"kind": KIND, "key": KEY, "reason": "no"})),
    "by-hand-resolved": (Conflict, by_hand("resolved", {"kind": KIND, "key": KEY, "decision": "retry"})),
    "by-hand-undecided": (InvalidInput, by_hand("resolved", {"kind": KIND, "key": KEY})),
    "by-hand-twice-in-one-batch": (
        Conflict,
        at_once(
            lambda run: run.append_many(
                [NewEvent(type="effect.intended", payload={"kind": KIND, "key": KEY}) for _ in range(2)]
            )
        ),
    ),
    "by-hand-failed-about-another-intention": (
        Conflict,
        at_once(
            lambda run: run.append_many(
                [
                    NewEvent(
                        type=f"effect.{kind}",
                        payload={"kind": KIND, "key": KEY},
                        event_id=event_id,
                        caused_by=cause,
                    )
                    for kind, event_id, cause in [
                        ("intended", new_event_id(), None),
                        ("failed", None, new_event_id()),
                    ]
                ]
            )
        ),
    ),
    "looked-up-by-a-key-alone": (InvalidInput, lambda run: lambda: run_session(run).effects(key=KEY)),
    "looked-up-by-a-long-key": (
        InvalidInput,
        lambda run: lambda: run_session(run).effects(kind=KIND, key="k" * 257),
    ),
    "the-last-of-a-run-that-is-none": (
        InvalidInput,
        lambda run: lambda: run_session(run).last_committed_effect("run_1", KIND),
    ),
}
_sessions = {}


def run_session(run):
    return _sessions[run.id]


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_told_in_one_sentence_and_changes_nothing(session, case):
    """C4"""
    error, prepared = REFUSED[case]
    with session.run() as run:
        _sessions[run.id] = session
        act = prepared(run)
        before, known = log_of(session), session.effects()
        with pytest.raises(error) as refusal:
            act()
        said = str(refusal.value)
        assert "\n" not in said
        assert ". " not in said
        assert not said.endswith(".")
        assert "kkk" not in said
        assert KEY not in said
        assert session.info().event_count == len(before)
        assert log_of(session) == before
        assert session.effects() == known
        run.append("message.assistant", "the run goes on")
    del _sessions[run.id]


def test_the_same_confirmation_again_changes_nothing(alice, session):
    """C4"""
    confirmation = {"id": 7, "at": ["noon", None]}
    with session.run() as run:
        first = run.effect(*MAIL)
        first.intend()
        known = first.commit(confirmation)
        before = log_of(session)
        assert first.commit({"at": ["noon", None], "id": 7}) == known
        assert run.effect(KIND, KEY).commit(confirmation) == known
        assert log_of(session) == before
    fork = alice.fork(session.id)
    with fork.run() as run:
        before = log_of(fork)
        assert run.effect(*MAIL).commit(confirmation) == known
        with pytest.raises(Conflict):
            run.effect(*MAIL).commit({"id": 8})
        assert log_of(fork) == before


def test_what_is_committed_by_hand_changed_what_its_intention_said(session):
    """C4, S3"""
    in_doubt(session, resource="crm/customer/42", subject="bob")
    with session.run() as run:
        known = run.effect(KIND, KEY).commit("sent")
    assert (known.resource, known.subject) == ("crm/customer/42", "bob")


def test_keys_of_different_kinds_are_different_effects(session, world):
    """C4"""
    with session.run() as run:
        for kind, key in [("a.b", "c"), ("a", "b.c"), ("a.b", "C"), ("a.b", "c "), ("k" * 256, "k" * 256)]:
            assert run.effect(kind, key).once(world.does((kind, key))) == {"number": 1}
            assert run.effect(kind, key).once(never) == {"number": 1}
    assert set(world.seen.values()) == {1}
    assert len(session.effects()) == len(world.seen) == 5
    assert len(session.effects(kind="a.b")) == 3


def test_an_effect_of_another_session_or_owner_is_another_effect(vault, alice, session, world):
    """C4, O1"""
    bob = vault.access(Principal(tenant="acme", subject="bob")).sessions
    for number, other in enumerate([session, alice.create(), bob.create()], start=1):
        with other.run() as run:
            assert run.effect(*MAIL).once(world.does()) == {"number": number}


# ------------------------------------------------------------------------------------------- at once


@pytest.mark.parametrize("may_ask", [False, True], ids=["nobody-decides", "the-world-is-asked"])
def test_threads_of_a_run_that_race_for_one_effect_carry_it_out_once(session, world, may_ask):
    """C4"""
    results, start = [], threading.Barrier(8)

    def slowly(intent):
        time.sleep(0.05)
        return world.does()(intent)

    def race(run):
        start.wait()
        results.append(run.effect(*MAIL).once(slowly, resolver=world.asked if may_ask else None))

    with session.run() as run:
        threads = [threading.Thread(target=race, args=(run,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [{"number": 1}] * 8
    assert world.seen == {KEY: 1}
    assert facts(session) == ["intended", "committed"]


def test_different_effects_of_a_run_are_carried_out_at_the_same_time(session):
    """C4"""
    together = threading.Barrier(2, timeout=20)

    def meet(run, key):
        run.effect(KIND, key).once(lambda _: together.wait() and None)

    with session.run() as run:
        threads = [threading.Thread(target=meet, args=(run, key)) for key in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {known.state for known in session.effects()} == {"committed"}


def test_the_turns_of_a_run_are_forgotten_with_their_effects(session):
    with session.run() as run:
        for key in range(100):
            run.effect(KIND, str(key))
        gc.collect()
        assert not run._turns._locks


RACE = """
import os, sys, time
from vault import Principal, Resolution, Vault, errors
place, session_id, seen, wait = sys.argv[1:]

def send(intent):
    time.sleep(0.05)
    with open(seen, "ab") as file:
        file.write(b"sent\\n")
    return "sent"

def ask(known):
    happened = os.path.getsize(seen)
    time.sleep(0.05)
    return Resolution(decision="commit", confirmation="sent") if happened else Resolution(decision="retry")

with Vault.open(place) as vault:
    session = vault.access(Principal(tenant="acme", subject="alice")).sessions.resume(session_id)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(400):
        try:
            with session.run(wait=60 if wait else None) as run:
                print(run.effect("email.send", "report-8").once(send, resolver=ask))
                break
        except (errors.Busy, errors.Conflict):
            time.sleep(0.01)
"""


@pytest.mark.parametrize("how", ["one-session", "branches", "branches-of-one-in-doubt"])
def test_processes_that_race_for_one_effect_carry_it_out_once(place, alice, session, python, tmp_path, how):
    """C4, S4"""
    session.append("message.user", "send it")
    seen = tmp_path / "seen"
    seen.touch()
    if how == "branches-of-one-in-doubt":
        in_doubt(session)
    sessions = [session] * 3 if how == "one-session" else [session, *(alice.fork(session.id) for _ in "ab")]
    wait = "wait" if how == "one-session" else ""
    racing = [python(RACE, place, one.id, seen, wait) for one in sessions]
    for process in racing:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    for process in racing:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in racing:
        said, errors = process.communicate()
        assert said == "sent\n", errors
    assert seen.read_bytes() == b"sent\n"
    assert {state(one).state for one in sessions} == {"committed"}


def test_what_a_run_is_carrying_out_is_not_carried_out_by_a_branch(alice, session, world):
    """S4"""
    session.append("message.user", "send it")
    fork = alice.fork(session.id)
    with session.run() as run, fork.run() as other:

        def meanwhile(intent):
            with pytest.raises(Busy):
                other.effect(*MAIL).once(never, resolver=world.asked)
            with pytest.raises(InDoubt):
                other.effect(*MAIL).once(never)
            with pytest.raises(Busy):
                other.effect(*MAIL).fail("I do not think so")
            return world.does()(intent)

        assert run.effect(*MAIL).once(meanwhile) == {"number": 1}
        assert other.effect(*MAIL).once(never, resolver=never) == {"number": 1}


def test_a_decision_about_one_attempt_does_not_count_for_the_next(alice, session, world):
    """S4: while one branch thinks about the attempt in doubt, another has tried again and is in doubt too"""
    in_doubt(session)
    fork = alice.fork(session.id)
    with session.run() as run:

        def slow(known):
            with fork.run() as other, pytest.raises(TimeoutError):
                other.effect(*MAIL).once(world.does_silently(), resolver=world.asked)
            return Resolution(decision="retry")

        with pytest.raises(Conflict, match="another intention"):
            run.effect(*MAIL).once(never, resolver=slow)
        assert run.effect(*MAIL).once(never, resolver=world.asked) == {"number": 1}
    assert world.seen == {KEY: 1}


def test_a_failure_is_of_the_attempt_that_failed_and_of_no_later_one(place, clock, world):
    """S4: a run that was silent for too long learns that its attempt failed when a branch has tried again"""
    with Vault.create(place, clock=clock, settings={"synchronous": "NORMAL"}) as vault:
        sessions = vault.access(ALICE).sessions
        session = sessions.create()
        session.append("message.user", "send it")
        fork = sessions.fork(session.id)
        run = session.run(lease_seconds=3600)

        def refused(intent):
            clock.now += 3_600_000_000
            with fork.run(lease_seconds=3600) as other, pytest.raises(TimeoutError):
                other.effect(*MAIL).once(world.does_silently(), resolver=world.asked)
            raise EffectFailed("refused")

        with pytest.raises(Conflict, match="another intention"):
            run.effect(*MAIL).once(refused)
        assert state(session).state == "in doubt"
        assert run.effect(*MAIL).once(never, resolver=world.asked) == {"number": 1}
        run.stop()


# ------------------------------------------------------------------------------------------- woken


def test_a_woken_session_is_told_what_is_in_doubt_and_nothing_that_is_settled(alice, session, world):
    """C4, C5"""
    with session.run() as run:
        run.effect(KIND, "committed").once(world.does("committed"))
        run.effect(KIND, "failed").intend()
        run.effect(KIND, "failed").fail("no")
    known = in_doubt(session)
    for sessions_id in (session.id, alice.fork(session.id).id):
        woken = alice.wake(sessions_id)
        with woken.run as run:
            assert woken.in_doubt == (known,)
            assert KEY in woken.note
            assert run.effect(KIND, "committed").once(never) == {"number": 1}
    session.resolve(KIND, KEY, Resolution(decision="commit"))
    woken = alice.wake(session.id)
    with woken.run as run:
        assert woken.in_doubt == ()
        assert run.effect(*MAIL).once(never) is None


# ------------------------------------------------------------------------------------------- found by index


def sharing_bucket(sessions, wanted=3):
    """Keys whose blind indexes begin alike, so that one lookup reads all of them."""
    tenant = sessions._authorise("read").tenant
    buckets = {}
    for number in range(10_000):
        key = f"report-{number}"
        group = buckets.setdefault(bucket_of(tenant.blind("effect", KIND, key)), [])
        group.append(key)
        if len(group) == wanted:
            return group
    raise AssertionError


@pytest.fixture
def settled(place, world):
    """A vault with three effects of one bucket, all committed, a fork with a fourth, and a table of where."""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        sessions = vault.access(ALICE).sessions
        session = sessions.create()
        one, two, three, four = sharing_bucket(sessions, 4)
        session.append("message.user", "send them")
        fork = sessions.fork(session.id)
        for where, keys in ((session, (one, two, three)), (fork, (four,))):
            with where.run() as run:
                for key in keys:
                    run.effect(KIND, key).once(world.does(key))
        yield vault, session, fork, (one, two, three, four)


def number_of(connection, session):
    found = connection.execute("SELECT no FROM sessions WHERE session_id = ?", (session_bytes(session.id),))
    return found.fetchone()[0]


def without(kind, nth, *, of_fork=False):
    """Takes away the nth fact of a kind."""

    def edit(connection, session, fork):
        place = (number_of(connection, fork if of_fork else session), f"effect.{kind}", nth)
        query = "DELETE FROM events WHERE session_no = ? AND type = ? AND type_nth = ?"
        assert connection.execute(query, place).rowcount == 1

    return edit


def all_of(*edits):
    def edit(connection, session, fork):
        for one in edits:
            one(connection, session, fork)

    return edit


def unindexed(connection, session, fork):
    query = "UPDATE events SET ref = NULL WHERE session_no = ? AND type = 'effect.committed' AND type_nth = 1"
    assert connection.execute(query, (number_of(connection, session),)).rowcount == 1


def in_another_bucket(connection, session, fork):
    place = (number_of(connection, session),)
    query = "SELECT ref FROM events WHERE session_no = ? AND type = 'effect.committed' AND type_nth = 1"
    (ref,) = connection.execute(query, place).fetchone()
    moved = bytes([(ref[0] + 4) % 256]) + ref[1:]
    query = "UPDATE events SET ref = ? WHERE session_no = ? AND type = 'effect.committed' AND type_nth = 1"
    assert connection.execute(query, (moved, *place)).rowcount == 1


def as_failed(connection, session, fork):
    query = "UPDATE events SET type = 'effect.failed' WHERE session_no = ? AND type = 'effect.committed'"
    assert connection.execute(query, (number_of(connection, session),)).rowcount == 3


def twice_instead(connection, session, fork):
    """The count of the bucket is right again: another effect's fact stands there twice."""
    query = "SELECT * FROM events WHERE session_no = ? AND type = 'effect.committed' ORDER BY seq"
    its, other, _ = surgery.rows_as_dicts(connection, query, number_of(connection, session))
    without("committed", 1)(connection, session, fork)
    place = {name: its[name] for name in ("seq", "event_id", "type_nth", "run_nth")}
    surgery.insert(connection, "events", other | place)


EDITS = {
    "its-commit-removed": without("committed", 1),
    "its-intention-removed": without("intended", 1),
    "both-removed": all_of(without("committed", 1), without("intended", 1)),
    "the-commit-of-another-of-its-bucket-removed": without("committed", 2),
    "the-intention-of-another-of-its-bucket-removed": without("intended", 3),
    "its-commit-taken-out-of-the-index": unindexed,
    "its-commit-moved-to-another-bucket": in_another_bucket,
    "its-commit-turned-into-a-failure": as_failed,
    "another-in-its-place": twice_instead,
    "the-commit-of-a-branch-removed": without("committed", 1, of_fork=True),
    "all-facts-of-a-branch-removed": all_of(
        without("committed", 1, of_fork=True), without("intended", 1, of_fork=True)
    ),
}


def refused(sessions, session_id, key):
    """Whether an effect whose facts were tampered with is refused and not carried out, whatever the way."""
    session = sessions.resume(session_id)
    with pytest.raises(Tampered):
        state(session, KIND, key)
    with session.run() as run:
        for act in (
            lambda effect: effect.once(never),
            lambda effect: effect.once(never, resolver=lambda _: Resolution(decision="retry")),
            lambda effect: effect.intend(),
            lambda effect: effect.commit({"number": 1}),
            lambda effect: effect.fail("no"),
        ):
            with pytest.raises(Tampered):
                act(run.effect(KIND, key))
        with pytest.raises(Tampered):
            run.append("effect.intended", {"kind": KIND, "key": key, "intent": None})


@pytest.mark.parametrize("late", ["behind-its-back", "before-it-opens"])
@pytest.mark.parametrize("case", EDITS)
def test_an_effect_whose_facts_were_tampered_with_is_refused_and_never_repeated(place, settled, case, late):
    """C4, L9, K4"""
    vault, session, fork, keys = settled
    of_fork = "branch" in case
    # What the fork committed is asked for in the session that it was forked from, and the other way round.
    asked, key = (session, keys[3]) if of_fork else (fork, keys[0])
    with surgery.opened(place) as connection:
        EDITS[case](connection, session, fork)
    if late == "behind-its-back":
        sessions = vault.access(ALICE).sessions
        refused(sessions, asked.id, key)
        refused(sessions, (fork if of_fork else session).id, key)
        return
    with Vault.open(place) as opened:
        refused(opened.access(ALICE).sessions, asked.id, key)


def test_an_effect_is_found_when_nothing_was_tampered_with(place, settled):
    _, session, fork, keys = settled
    with surgery.opened(place):
        pass
    for branch, key in product((session, fork), keys):
        with branch.run() as run:
            assert run.effect(KIND, key).once(never) == {"number": 1}


def test_a_session_put_back_to_before_its_effect_is_refused(place, session, world, vault):
    """C4, K4: its row and its events as they were before, which are genuine"""
    session.append("message.user", "send it")
    fork = vault.access(ALICE).sessions.fork(session.id)
    query = "SELECT * FROM sessions WHERE session_id = ?"
    with surgery.opened(place) as connection:
        (before,) = surgery.rows_as_dicts(connection, query, session_bytes(session.id))
    with session.run() as run:
        run.effect(*MAIL).once(world.does())
    with surgery.opened(place) as connection:
        connection.execute(
            "DELETE FROM events WHERE session_no = ? AND seq > ?", (before["no"], before["head_seq"])
        )
        surgery.update(connection, "sessions", {"no": before.pop("no")}, **before)
    for branch in (session, fork):
        with pytest.raises(RolledBack):
            state(branch)
    with pytest.raises(RolledBack):
        session.run()
    with fork.run() as run, pytest.raises(RolledBack):
        run.effect(*MAIL).once(never, resolver=world.asked)
    vault._closed = True
    vault._database.close()
    vault._key_database.close()


def test_a_session_put_back_while_the_vault_is_closed_is_refused_when_it_opens(place, world):
    """C4, K4"""
    with Vault.create(place) as vault:
        session = vault.access(ALICE).sessions.create()
        session.append("message.user", "send it")
    with surgery.opened(place) as connection:
        (before,) = surgery.rows_as_dicts(connection, "SELECT * FROM sessions")
    with Vault.open(place) as vault, vault.access(ALICE).sessions.resume(session.id).run() as run:
        run.effect(*MAIL).once(world.does())
    with surgery.opened(place) as connection:
        connection.execute("DELETE FROM events WHERE seq > ?", (before["head_seq"],))
        surgery.update(connection, "sessions", {"no": before.pop("no")}, **before)
    with pytest.raises(RolledBack):
        Vault.open(place)


RUN = new_run_id()


def long_session(sessions, unrelated):
    """Events of no effect before, between and behind three effects of a run, the last one of a kind."""
    session = sessions.create()

    def talk(count):
        for start in range(0, count, 500):
            session.append_many(
                NewEvent(type="message.user", payload=number, run=None if number % 2 else RUN)
                for number in range(start, min(start + 500, count))
            )

    for key in ("one", "two", "three"):
        talk(unrelated // 4)
        for kind in ("intended", "committed"):
            payload = {"kind": KIND if key != "three" else "crm.write", "key": key, "confirmation": key}
            session.append(f"effect.{kind}", payload, run=RUN)
    talk(unrelated // 4)
    return session


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The steps that a lookup takes, in a session of 1,000 unrelated events and in one of 10,000."""
    place = tmp_path_factory.mktemp("effects")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        steps = Steps(patch)
        with Vault.create(place / "vault", settings={"synchronous": "NORMAL"}, clock=Ticks()) as vault:
            sessions = vault.access(ALICE).sessions
            small, large = long_session(sessions, 1_000), long_session(sessions, 10_000)
            with small.run() as of_small, large.run() as of_large:
                yield steps, (small, large), (of_small, of_large)


LOOKUPS = {
    "by-key": lambda session, run: session.effects(kind=KIND, key="two")[0].confirmation,
    "by-a-key-that-is-none": lambda session, run: session.effects(kind=KIND, key="four"),
    "committed-before": lambda session, run: run.effect(KIND, "one").once(never),
    "the-last-of-a-kind-of-a-run": lambda session, run: session.last_committed_effect(RUN, KIND).key,
    "the-last-of-the-newest-kind": lambda session, run: session.last_committed_effect(RUN, "crm.write").key,
    "the-last-of-a-kind-that-is-none": lambda session, run: session.last_committed_effect(RUN, "never.used"),
}
ANSWERS = ["two", [], "one", "two", "three", None]


@pytest.mark.parametrize(("name", "answer"), list(zip(LOOKUPS, ANSWERS, strict=True)), ids=LOOKUPS)
def test_finding_an_effect_costs_the_same_in_a_session_of_any_length(measured, name, answer):
    """L9"""
    steps, sessions, runs = measured
    costs = []
    for session, run in zip(sessions, runs, strict=True):
        cost, statements, found = steps.of(lambda session=session, run=run: LOOKUPS[name](session, run))
        assert found == answer
        costs.append((cost, statements))
    (few, statements), (many, statements_of_many) = costs
    assert few > 0
    assert many <= 1.2 * few
    assert statements_of_many == statements


def test_a_new_effect_costs_the_same_in_a_session_of_any_length(measured):
    """L9"""
    steps, _, runs = measured
    costs = []
    for run in runs:
        keys = iter(range(1_000))
        cost, statements, _ = steps.of(
            lambda run=run, keys=keys: run.effect("a.b", f"{next(keys)}").once(str)
        )
        costs.append((cost, statements))
    assert costs[1][0] <= 1.2 * costs[0][0]
    assert costs[1][1] == costs[0][1]


INDEXES = {
    "events_about": "SEARCH e USING INDEX events_by_ref (session_no=? AND ref>? AND ref<?)",
    "events_of_type_newest_first": "SEARCH e USING INDEX events_by_type (session_no=? AND type=? AND ",
    "events_of_run_newest_first": "SEARCH e USING INDEX events_by_run (session_no=? AND run_id=? AND ",
    "forks_of": "SEARCH sessions USING INDEX sessions_by_fork (forked_from=?",
    "touched_since": "SEARCH t USING PRIMARY KEY (tag=? AND recorded_us>?)",
    "tags_of_session": "SEARCH touches USING COVERING INDEX touches_by_session (session_no=?)",
}


@pytest.mark.parametrize("statement", INDEXES)
def test_effects_are_looked_up_by_index(place, vault, statement):
    """L9"""
    with surgery.opened(place) as connection:
        steps = plan(connection, STATEMENTS[statement])
    assert any(step.startswith(INDEXES[statement]) for step in steps), steps


def test_the_last_committed_effect_of_a_run_is_of_that_run_and_kind(alice, session):
    """L9"""
    runs = []
    for number in range(3):
        with session.run() as run:
            runs.append(run.id)
            for kind, key in [(KIND, "first"), (KIND, "last"), ("crm.write", "only")]:
                run.effect(kind, f"{key} of {number}").once(lambda _, key=key: key)
            run.effect(KIND, f"failed of {number}").intend()
            run.effect(KIND, f"failed of {number}").fail("no")
    fork = alice.fork(session.id)
    for which, (number, run_id) in product((session, fork), enumerate(runs)):
        known = which.last_committed_effect(run_id, KIND)
        assert (known.key, known.confirmation, known.state) == (f"last of {number}", "last", "committed")
        assert (known.run, known.session_id) == (run_id, session.id)
        assert which.last_committed_effect(run_id, "crm.write").key == f"only of {number}"
        assert which.last_committed_effect(run_id, "never.used") is None
    assert session.last_committed_effect(new_run_id(), KIND) is None


def test_the_list_of_effects_tells_each_one_once_and_the_oldest_first(alice, session):
    """L9"""
    with session.run() as run:
        for key in ("one", "two", "three"):
            run.effect(KIND, key, {"n": key}).intend()
        run.effect(KIND, "two").commit("done")
        run.effect("crm.write", "one").once(lambda _: "written")
        run.effect(KIND, "one").fail("no")
    fork = alice.fork(session.id)
    with fork.run() as run:
        run.effect(KIND, "of the fork").once(lambda _: "there")
    expected = [
        (KIND, "three", "in doubt"),
        (KIND, "two", "committed"),
        ("crm.write", "one", "committed"),
        (KIND, "one", "failed"),
        (KIND, "of the fork", "committed"),
    ]
    for which in (session, fork):
        assert [(known.kind, known.key, known.state) for known in which.effects()] == expected
        assert [known.key for known in which.effects(kind="crm.write")] == ["one"]
        assert which.effects(kind="never.used") == []


def test_nothing_of_an_effect_shows_in_what_may_be_logged(session):
    in_doubt(session, (KIND, "a-secret-key", {"to": "a-secret"}), resource="a-secret/1", subject="a-secret")
    known = state(session, KIND, "a-secret-key")
    with session.run() as run, pytest.raises(InDoubt) as refusal:
        run.effect(KIND, "a-secret-key").once(never)
    resolution = Resolution(decision="commit", confirmation="a-secret", why="a-secret", by="a-secret")
    for shown in (repr(known), str(refusal.value), repr(refusal.value), repr(resolution), repr(run)):
        assert "a-secret" not in shown
        assert KIND not in shown


# ------------------------------------------------------------------------------------------- elsewhere


def exported(session):
    out = io.BytesIO()
    session_jsonl.export_session(session, out)
    out.seek(0)
    return out


def test_effects_survive_export_and_import_into_another_vault(place, tmp_path, vault, session, world):
    """C4, L12"""
    with session.run() as run:
        run.effect(*MAIL).once(world.does())
        for _ in range(2):
            with pytest.raises(EffectFailed):
                run.effect(KIND, "failed").once(lambda _: (_ for _ in ()).throw(EffectFailed("no")))
        with pytest.raises(TimeoutError):
            run.effect(KIND, "in doubt").once(break_off)
        with pytest.raises(TimeoutError):
            run.effect(KIND, "tried again").once(break_off)
        run.effect(KIND, "tried again").once(
            world.does("tried again"), resolver=lambda _: Resolution(decision="retry")
        )
    with Vault.create(tmp_path / "another") as other:
        access = other.access(ALICE)
        report = session_jsonl.import_session(exported(session), access, strict=True)
        assert report.problems_total == 0
        copy = access.sessions.resume(report.sessions[0])
        known = {effect.key: effect.state for effect in copy.effects()}
        assert known == {effect.key: effect.state for effect in session.effects()}
        assert known == {
            KEY: "committed",
            "failed": "failed",
            "in doubt": "in doubt",
            "tried again": "committed",
        }
        assert copy.last_committed_effect(run.id, KIND).key == "tried again"
        with copy.run() as again:
            assert again.effect(*MAIL).once(never) == {"number": 1}
            assert again.effect(KIND, "tried again").once(never) == {"number": 1}
            with pytest.raises(InDoubt):
                again.effect(KIND, "in doubt").once(never)
            assert again.effect(KIND, "failed").once(world.does("failed")) == {"number": 1}
        assert other.verify().findings == ()


@pytest.mark.parametrize("forked", ["before-they-were-intended", "after"])
def test_a_fork_that_is_exported_takes_the_effects_that_it_settled_with_it(
    tmp_path, alice, session, world, forked
):
    """S4, L12: its log is whole by itself, whichever branch had intended them"""
    session.append("message.user", "send them")
    fork = alice.fork(session.id) if forked != "after" else None
    intended = {"resource": "crm/customer/42", "subject": "bob"}
    for key in ("resolved", "tried", "committed", "failed", "given up"):
        in_doubt(session, (KIND, key, {"to": key}), **intended)
    fork = fork or alice.fork(session.id)
    fork.resolve(KIND, "resolved", Resolution(decision="commit", confirmation="it was sent"))
    fork.resolve(KIND, "given up", Resolution(decision="fail"))
    with fork.run() as run:
        run.effect(KIND, "tried").once(world.does("tried"), resolver=world.asked)
        run.effect(KIND, "committed").commit("by hand")
        run.effect(KIND, "failed").fail("by hand")
    states = {effect.key: effect.state for effect in fork.effects()}
    assert states == {effect.key: effect.state for effect in session.effects()}
    assert [states[key] for key in ("resolved", "tried", "committed", "failed", "given up")] == [
        *(["committed"] * 3),
        *(["failed"] * 2),
    ]
    with Vault.create(tmp_path / "another") as other:
        report = session_jsonl.import_session(exported(fork), other.access(ALICE), strict=True)
        copy = other.access(ALICE).sessions.resume(report.sessions[0])
        assert {effect.key: effect.state for effect in copy.effects()} == states
        assert (state(copy, KIND, "resolved").resource, state(copy, KIND, "resolved").subject) == tuple(
            intended.values()
        )
        with copy.run() as run:
            assert run.effect(KIND, "resolved").once(never) == "it was sent"
            assert run.effect(KIND, "tried").once(never) == {"number": 1}
            assert run.effect(KIND, "committed").once(never) == "by hand"


def test_what_happened_is_recorded_in_a_branch_while_another_run_is_at_it(alice, session):
    """S4"""
    session.append("message.user", "send it")
    fork = alice.fork(session.id)
    with session.run() as run, fork.run() as other:
        run.effect(*MAIL).intend()
        assert other.effect(*MAIL).commit("seen").state == "committed"
        assert run.effect(*MAIL).once(never) == "seen"
        assert run.effect(*MAIL).commit("seen").state == "committed"
        with pytest.raises(Conflict):
            run.effect(*MAIL).commit("something else")
    assert facts(fork) == ["committed"]


HERE = {"resource": "crm/customer/42", "subject": "bob"}
OWNERS = [("acme", "alice", True), ("acme", "bob", False), ("globex", "alice", False)]


@pytest.mark.parametrize("tagged", [{"resource": HERE["resource"]}, {"subject": HERE["subject"]}, HERE])
@pytest.mark.parametrize(("tenant", "owner", "sees"), OWNERS)
def test_an_effect_is_told_to_the_owners_other_sessions_and_to_nobody_elses(
    vault, alice, session, tagged, tenant, owner, sees
):
    """S3, S4, O1"""
    theirs = vault.access(Principal(tenant=tenant, subject=owner)).sessions
    other = theirs.create()
    with other.run() as run:  # it has to do with the same things, and was used before
        run.effect("crm.read", "1", **tagged).once(lambda _: "read")
    with session.run() as run:
        run.effect("crm.write", "2", {"name": "Bob"}, **tagged).once(lambda _: "written")
        run.effect("crm.write", "3", **tagged).intend()
        run.effect("crm.write", "4").once(lambda _: "of nobody")
    woken = theirs.wake(other.id)
    woken.run.stop()
    told = [(effect.kind, effect.key, effect.session_id, effect.branch) for effect in woken.gap.foreign]
    assert told == ([("crm.write", "2", session.id, False)] if sees else [])
    for effect in woken.gap.foreign:
        assert {"resource": effect.resource, "subject": effect.subject} == {
            "resource": tagged.get("resource"),
            "subject": tagged.get("subject"),
        }


def test_an_effect_that_is_settled_later_is_told_when_it_was_committed(alice, session):
    """S3, C4"""
    other = alice.create()
    with other.run() as run:
        run.effect("crm.read", "1", **HERE).once(lambda _: "read")
    in_doubt(session, **HERE)
    woken = alice.wake(other.id)
    woken.run.stop()
    assert woken.gap.foreign == ()
    session.resolve(KIND, KEY, Resolution(decision="commit", confirmation="sent"))
    woken = alice.wake(other.id)
    woken.run.stop()
    (told,) = woken.gap.foreign
    assert (told.kind, told.key, told.session_id) == (KIND, KEY, session.id)
    assert (told.resource, told.subject) == tuple(HERE.values())
