"""What other labels do to what binds a session: decided from values alone (D1, D2)."""

from datetime import UTC, datetime
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.policy.durations import DAY_US, FOREVER_US, parse_duration
from vault.policy.rebinding import Labels, rebound, relabelled
from vault.policy.retention import Times, decide
from vault.policy.rules import ANCHORS, Keep, Policy, Rule
from vault.policy.terms import NO_BOUNDS, Bounds, Duration, bind, decode, encode

MADE = (datetime(2026, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days * DAY_US
LABELLED = ANCHORS.index("labelled")


def rule(id, labels, expire="never", keep=None, anchor="labelled", applies_to="new"):
    return Rule(
        id=id,
        kinds=("session",),
        labels=labels,
        anchor=anchor,
        expire_after=parse_duration(expire),
        keep_min=Keep(duration=keep and parse_duration(keep)),
        applies_to=applies_to,
    )


def policy(*rules):
    return Policy(name="mine", version=1, rules=rules, digest=sha256(repr(rules).encode()).digest())


def day(number):
    return MADE + number * DAY_US


# ------------------------------------------------------------------------------------------------- labels


def test_a_label_has_its_value_since_it_was_given_another_one():
    """D1"""
    made = Labels({"a": "1", "b": "1"})
    first = made.changed({"a": "2", "b": "1", "c": "1"}, [], day(1))
    assert first == Labels({"a": "2", "b": "1", "c": "1"}, {"a": day(1), "c": day(1)})
    second = first.changed({"a": "2"}, ["b", "c", "never"], day(2))
    assert second == Labels({"a": "2"}, {"a": day(1)})
    assert second.changed({"b": "1"}, ["a"], day(3)) == Labels({"b": "1"}, {"b": day(3)})


NAMES, VALUES = st.sampled_from("abc"), st.sampled_from("12")
CHANGES = st.lists(st.tuples(st.dictionaries(NAMES, VALUES), st.sets(NAMES)), max_size=6)


@given(st.dictionaries(NAMES, VALUES), CHANGES)
def test_since_when_a_label_has_its_value_is_what_its_history_says(first, changes):
    """D1"""
    labels, history = Labels(first), [dict(first)]
    for number, (given_, removed) in enumerate(changes, 1):
        labels = labels.changed(given_, removed - set(given_), day(number))
        history.append(dict(labels.named))
    for name, value in labels.named.items():
        since = next(n for n in range(len(history)) if all(at.get(name) == value for at in history[n:]))
        assert labels.since.get(name) == (day(since) if since else None)
    assert labels.since.keys() <= labels.named.keys()


# ------------------------------------------------------------------------------------------------ binding


def test_a_rule_counts_from_the_last_of_its_labels_and_a_minimum_from_those_of_its_own_rule():
    """D1"""
    mine = policy(
        rule("both", {"a": "1", "b": "1"}, "90d", "30d"),
        rule("one", {"a": "1"}, "90d", "60d"),
        rule("made", {"c": "1"}, "90d", "10d"),
    )
    labels, since = {"a": "1", "b": "1", "c": "1"}, {"a": day(1), "b": day(5), "z": day(9)}
    bound = bind(mine, "session", labels, since=since)
    assert bound.labelled_us == day(5)
    # The ten days from the start are over before the sixty from the first day are, whatever happens.
    assert bound.keeps == ((LABELLED, 0, 30 * DAY_US, day(5)), (LABELLED, 0, 60 * DAY_US, day(1)))
    found = decide(bound, Times(MADE), held=False, now_us=MADE)
    assert (found.expires_us, found.min_until_us) == (day(95), day(61))
    assert decode(encode(bound)) == bound


def test_the_bounds_of_the_vault_count_on_the_clock_of_the_rule():
    """D1"""
    mine, bounds = policy(rule("a", {"a": "1"}, "90d")), Bounds(floor=Duration(us=DAY_US))
    bound = bind(mine, "session", {"a": "1"}, since={"a": day(3)}, bounds=bounds)
    assert bound.keeps == ((LABELLED, 0, DAY_US, day(3)),)


def test_labels_that_start_no_clock_make_no_difference_to_what_is_stored():
    """D1: else each session would have terms of its own"""
    mine = policy(rule("a", {"a": "1"}, "90d", anchor="created"))
    assert bind(mine, "session", {"a": "1"}, since={"a": day(3)}) is bind(mine, "session", {"a": "1"})


def test_a_label_that_no_rule_asks_for_changes_nothing():
    """D1"""
    old, new = policy(rule("all", {}, "365d")), policy(rule("all", {}, "1d"), rule("a", {"a": "1"}, "1d"))
    terms = bind(old, "session", {})
    was, labels = Labels({"x": "1"}), Labels({"x": "2"}, {"x": day(3)})
    assert relabelled(terms, new, was, labels, bounds=NO_BOUNDS, before=old) is terms
    for known in (old, None):
        asked = Labels({"a": "1"}, {"a": day(3)})
        again = relabelled(terms, new, was, asked, bounds=NO_BOUNDS, before=known)
        assert (again.policy, again.labelled_us) == (new.mark, day(3))


def test_a_label_that_only_the_former_policy_asked_for_counts_where_that_is_known():
    """D1"""
    old, new = policy(rule("all", {}, "365d"), rule("a", {"a": "1"}, "1d")), policy(rule("all", {}, "9d"))
    terms = bind(old, "session", {"a": "1"})
    was, labels = Labels({"a": "1"}), Labels({})
    assert relabelled(terms, new, was, labels, bounds=NO_BOUNDS, before=old).policy == new.mark
    assert relabelled(terms, new, was, labels, bounds=NO_BOUNDS, before=None) is terms


def test_what_people_did_to_a_session_stays_when_its_labels_change():
    """D1, D5"""
    mine = policy(rule("all", {}, "365d"), rule("a", {"a": "1"}, "1d"))
    done = {"restored_us": 1, "requested_us": 2, "external_us": 3}
    terms = bind(mine, "session", {})._replace(**done)
    again = relabelled(terms, mine, Labels({}), Labels({"a": "1"}), bounds=NO_BOUNDS, before=mine)
    assert again.rule == 1
    assert {name: getattr(again, name) for name in done} == done


def test_minimums_do_not_pile_up_however_often_a_label_comes_and_goes():
    """D2: of one period on one clock only the last counts"""
    mine = policy(rule("all", {}, "365d"), rule("a", {"a": "1"}, "90d", "30d"))
    labels, terms = Labels({}), bind(mine, "session", {})
    for number in range(1, 200):
        was, labels = labels, labels.changed(*(({"a": "1"}, []) if number % 2 else ({}, ["a"])), day(number))
        terms = relabelled(terms, mine, was, labels, bounds=NO_BOUNDS, before=mine)
    assert terms.keeps == ((LABELLED, 0, 30 * DAY_US, day(199)),)


RULES = st.builds(
    rule,
    st.uuids().map(str),
    st.dictionaries(NAMES, VALUES, max_size=2),
    st.sampled_from(["40d", "90d", "2mo", "never"]),
    st.sampled_from([None, "1d", "30d", "1mo"]),
    st.sampled_from(ANCHORS),
    st.sampled_from(["new", "all"]),
)
POLICIES = st.lists(RULES, min_size=1, max_size=4).map(lambda rules: policy(*rules))
TIMES = st.sampled_from([Times(MADE), Times(MADE, day(20)), Times(MADE, day(20), day(25))])


@given(POLICIES, POLICIES, st.dictionaries(NAMES, VALUES), CHANGES, TIMES, st.sampled_from([0, day(7)]))
def test_no_minimum_ever_ends_earlier_because_labels_change(old, new, first, changes, times, external):
    """D2: whatever the policies, and however often"""
    labels, known = Labels(first), {old.mark: old, new.mark: new}
    terms = bind(old, "session", first)._replace(external_us=external)
    for number, (given_, removed) in enumerate(changes, 1):
        was, labels = labels, labels.changed(given_, removed - set(given_), day(number))
        before = decide(terms, times, held=False, now_us=MADE)
        terms = relabelled(terms, new, was, labels, bounds=NO_BOUNDS, before=known.get(terms.policy))
        after = decide(terms, times, held=False, now_us=MADE)
        assert after.min_until_us >= before.min_until_us
        assert (after.delete_at_us or FOREVER_US) >= after.min_until_us
        assert decode(encode(terms)) == terms


@given(POLICIES, POLICIES, st.dictionaries(NAMES, VALUES), CHANGES)
def test_a_policy_for_what_is_there_binds_as_if_it_had_been_in_force_when_labels_came(
    old, new, first, changes
):
    """D1"""
    labels = Labels(first)
    for number, (given_, removed) in enumerate(changes, 1):
        labels = labels.changed(given_, removed - set(given_), day(number))
    terms = bind(old, "session", labels.named, since=labels.since)
    fresh = bind(new, "session", labels.named, since=labels.since)
    again = rebound(terms, new, "session", labels, bounds=NO_BOUNDS, before=old)
    if fresh.rule >= 0 and new.rules[fresh.rule].applies_to == "all":
        assert again == fresh
    elif fresh.rule >= 0:
        assert again._replace(keeps=()) == terms._replace(keeps=())
        ends = [decide(each, Times(MADE), held=False, now_us=MADE).min_until_us for each in (terms, again)]
        assert ends == sorted(ends)


@pytest.mark.parametrize("kind", ["memory", "artifact"])
def test_what_is_made_from_a_session_was_labelled_when_it_was_put(kind):
    """D1"""
    mine = policy(
        Rule(id="a", kinds=(kind,), labels={"a": "1"}, anchor="labelled", expire_after=parse_duration("9d"))
    )
    bound = bind(mine, kind, {"a": "1"})
    assert decide(bound, Times(MADE, MADE), held=False, now_us=MADE).expires_us == day(9)
