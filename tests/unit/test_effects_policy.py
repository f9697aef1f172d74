"""Which fact of an effect may follow which, and what a fact has to say."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault import new_event_id
from vault.errors import Busy, Conflict, InvalidInput
from vault.policy.effects import (
    COMMITTED,
    DECISIONS,
    FAILED,
    INTENDED,
    RESOLVED,
    TYPES,
    Counted,
    Subject,
    check_next,
    subject_of,
)

#: What counts before, and what may follow it; everything else may not. A resolution never counts by itself.
FOLLOWS = {
    None: {INTENDED},
    INTENDED: {COMMITTED, FAILED, RESOLVED},
    COMMITTED: set(),
    FAILED: {INTENDED},
}
#: For each pair that is refused, the word of its sentence that tells the reason.
WHY = {
    (None, COMMITTED): "only after it was intended",
    (None, FAILED): "only after it was intended",
    (None, RESOLVED): "never intended",
    (INTENDED, INTENDED): "nobody knows whether it happened",
    (COMMITTED, INTENDED): "use its stored result",
    (COMMITTED, COMMITTED): "committed already",
    (COMMITTED, FAILED): "committed already",
    (COMMITTED, RESOLVED): "not in doubt",
    (FAILED, COMMITTED): "intend it again",
    (FAILED, FAILED): "has failed already",
    (FAILED, RESOLVED): "not in doubt",
}
PAIRS = list(product(FOLLOWS, TYPES))
FIRST, SECOND = new_event_id(), new_event_id()


def named(pair):
    return " then ".join(str(one).removeprefix("effect.") for one in pair)


def is_one_sentence(text):
    return re.search(r"\n|\. |\.$", text) is None


@pytest.mark.parametrize(("before", "kind"), PAIRS, ids=map(named, PAIRS))
def test_a_fact_follows_only_those_that_it_may_follow(before, kind):
    """C4"""
    if kind in FOLLOWS[before]:
        check_next(Counted(before), kind)
        return
    with pytest.raises(Conflict, match=WHY[before, kind]) as refusal:
        check_next(Counted(before), kind)
    assert is_one_sentence(str(refusal.value))


def test_the_table_of_reasons_has_every_pair_that_is_refused():
    refused = {(before, kind) for before, kind in PAIRS if kind not in FOLLOWS[before]}
    assert refused == WHY.keys()


ENDED = {  # the fact: the intention that it names, whether it is of this session: whether it goes in
    "the-intention-in-doubt": (FIRST, True, True),
    "the-intention-in-doubt-of-a-branch": (FIRST, False, True),
    "none-in-its-own-session": (None, True, True),
    "none-and-it-is-of-a-branch": (None, False, False),
    "an-older-intention": (SECOND, True, False),
    "an-older-intention-of-a-branch": (SECOND, False, False),
}


@pytest.mark.parametrize("kind", [FAILED, RESOLVED])
@pytest.mark.parametrize("case", ENDED)
def test_what_was_decided_about_one_intention_ends_no_other(case, kind):
    """C4, S4"""
    cause, own, allowed = ENDED[case]
    before = Counted(INTENDED, FIRST, own=own)
    if allowed:
        check_next(before, kind, cause)
        return
    with pytest.raises(Conflict, match="look again") as refusal:
        check_next(before, kind, cause)
    assert is_one_sentence(str(refusal.value))


def test_an_intention_in_doubt_is_taken_over_by_its_name_alone():
    """S4: also in one log, where both stand once a fork was exported"""
    for own in (True, False):
        check_next(Counted(INTENDED, FIRST, own=own), INTENDED, FIRST)
        for before, cause in [
            (Counted(INTENDED, FIRST, own=own), SECOND),
            (Counted(INTENDED, FIRST, own=own), None),
            (Counted(INTENDED, None, own=own), None),
            (Counted(COMMITTED, FIRST, own=own), FIRST),
        ]:
            with pytest.raises(Conflict):
                check_next(before, INTENDED, cause)


@pytest.mark.parametrize("kind", [INTENDED, FAILED, RESOLVED])
def test_nobody_ends_or_takes_over_what_another_run_is_carrying_out(kind):
    """C4, S4"""
    with pytest.raises(Busy, match="wait for it") as refusal:
        check_next(Counted(INTENDED, FIRST, own=False, active=True), kind, FIRST)
    assert is_one_sentence(str(refusal.value))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("cause", [None, FIRST, SECOND], ids=["no-cause", "the-first", "the-second"])
def test_what_happened_is_recorded_whatever_was_intended_since(own, active, cause):
    """C4: an effect that happened is never refused its fact because somebody tried again meanwhile"""
    check_next(Counted(INTENDED, FIRST, own=own, active=active), COMMITTED, cause)


@given(st.lists(st.sampled_from(TYPES), max_size=30))
def test_an_effect_is_committed_once_and_never_begun_twice_at_a_time(attempts):
    """C4"""
    counted, taken = Counted(), []
    for kind in attempts:
        try:
            check_next(counted, kind)
        except Conflict:
            continue
        taken.append(kind)
        if kind != RESOLVED:
            counted = Counted(kind)
    counting = [kind for kind in taken if kind != RESOLVED]
    assert counting[::2] == [INTENDED] * len(counting[::2])
    assert INTENDED not in counting[1::2]
    assert counting.count(COMMITTED) <= 1
    assert COMMITTED not in taken[:-1]


SAID = {
    INTENDED: {"intent": {"to": "bob"}},
    COMMITTED: {"confirmation": 250},
    FAILED: {"reason": "no such address"},
    RESOLVED: {"decision": "retry"},
}


@pytest.mark.parametrize("kind", TYPES)
def test_a_fact_is_about_its_kind_and_key(kind):
    payload = {"kind": "email.send", "key": "report-8", **SAID[kind]}
    assert subject_of(kind, payload) == Subject("email.send", "report-8")


BAD = {
    "no-payload": None,
    "a-list": ["email.send", "report-8"],
    "a-string": "email.send",
    "no-kind": {"key": "report-8"},
    "no-key": {"kind": "email.send"},
    "an-empty-kind": {"kind": "", "key": "report-8"},
    "an-empty-key": {"kind": "email.send", "key": ""},
    "a-number-as-key": {"kind": "email.send", "key": 8},
    "null-as-key": {"kind": "email.send", "key": None},
    "a-list-as-kind": {"kind": ["email.send"], "key": "report-8"},
    "a-kind-of-257-characters": {"kind": "k" * 257, "key": "report-8"},
    "a-key-of-257-characters": {"kind": "email.send", "key": "k" * 257},
    "a-lone-surrogate": {"kind": "email.send", "key": "\ud800"},
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("case", BAD)
def test_a_fact_without_a_sound_kind_and_key_is_refused(case, kind):
    payload = {**BAD[case], **SAID[kind]} if isinstance(BAD[case], dict) else BAD[case]
    with pytest.raises(InvalidInput) as refusal:
        subject_of(kind, payload)
    assert is_one_sentence(str(refusal.value))
    assert "kkk" not in str(refusal.value)


@pytest.mark.parametrize("decision", [None, "", "maybe", "Retry", 1, ["retry"], {}])
def test_a_resolution_decides_one_of_four_things(decision):
    payload = {"kind": "email.send", "key": "report-8", "decision": decision}
    with pytest.raises(InvalidInput, match="retry, commit, fail or ask"):
        subject_of(RESOLVED, payload)
    for known in DECISIONS:
        assert subject_of(RESOLVED, payload | {"decision": known}).key == "report-8"


def test_the_longest_names_are_taken():
    names = {"kind": "k" * 256, "key": "ключ" * 64}
    assert subject_of(INTENDED, {**names, "intent": None}) == tuple(names.values())
