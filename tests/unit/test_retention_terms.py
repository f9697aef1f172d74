"""What binds one item is picked from a policy, and stored as numbers (D1, K1)."""

import itertools
import re
import subprocess
import sys

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.errors import InvalidInput, NewerVault, Tampered
from vault.policy.durations import DAY_US, LAST_US, MONTHS_MAX, US_MAX, Duration, later, parse_duration
from vault.policy.rules import ANCHORS, DERIVED_KINDS, DERIVED_OPTIONS, KINDS, Keep, Policy, Rule
from vault.policy.terms import NO_TERMS, TERMS_BYTES_MAX, Bounds, Terms, bind, clampings, decode, encode

PERIODS = st.one_of(
    st.just((0, 0)),
    st.tuples(st.integers(1, MONTHS_MAX), st.just(0)),
    st.tuples(st.just(0), st.integers(1, US_MAX)),
)
TERMS = st.builds(
    lambda mark, rule, anchor, expire, keeps, grace, action, derived, *dates: Terms(
        mark, rule, anchor, *expire, tuple(keeps), *grace, action, tuple(derived), *dates
    ),
    st.one_of(st.just(""), st.binary(min_size=16, max_size=16).map(bytes.hex)),
    st.integers(-1, 2**31 - 1),
    st.integers(0, len(ANCHORS) - 1),
    PERIODS,
    st.lists(
        st.tuples(st.integers(0, 4), PERIODS).map(lambda keep: (keep[0], *keep[1]))
        | st.tuples(PERIODS, st.integers(1, LAST_US)).map(lambda keep: (3, *keep[0], keep[1])),
        max_size=4,
    ),
    PERIODS,
    st.integers(0, 2),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=4),
    st.integers(0, LAST_US),
    st.integers(0, LAST_US),
    st.just(0) | st.integers(0, LAST_US),
    st.just(0) | st.integers(0, LAST_US),
)


def rule(id="all", kinds=("session",), expire="never", keep=None, grace=None, **more):
    return Rule(
        id=id,
        kinds=kinds,
        expire_after=parse_duration(expire),
        keep_min=Keep(duration=keep and parse_duration(keep)),
        grace=grace and parse_duration(grace),
        **more,
    )


def policy(*rules):
    return Policy(name="mine", version=1, rules=rules, digest=repr(rules).encode().ljust(32, b"0"))


def expires(bound):
    return bound.expire_months, bound.expire_us // DAY_US


# ------------------------------------------------------------------------------------------------- stored


@given(TERMS)
def test_what_is_stored_reads_back(terms):
    """D1"""
    stored = encode(terms)
    assert decode(stored) == terms
    assert encode(decode(stored)) == stored


@given(TERMS)
def test_what_is_stored_is_numbers_and_the_mark_of_the_policy(terms):
    """K1"""
    stored = encode(terms)
    assert re.fullmatch(rb'(\[[12],"([0-9a-f]{32})?",[-0-9,\[\]]+\])?', stored)


@given(TERMS)
def test_what_needs_no_clock_that_somebody_sets_is_stored_as_before_there_were_any(terms):
    """D1: a vault in which nobody uses them can be read by an older program"""
    plain = terms._replace(labelled_us=0, external_us=0, keeps=tuple(keep[:3] for keep in terms.keeps))
    assert encode(plain)[:3] in {b"", b"[1,"}
    assert len(orjson.loads(encode(plain) or b"[]")) in {0, 13}


def test_nothing_stored_means_that_nothing_binds():
    """D1"""
    assert encode(NO_TERMS) == b""
    assert decode(b"") is NO_TERMS


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"rule": -2}, id="rule"),
        pytest.param({"anchor": len(ANCHORS)}, id="anchor"),
        pytest.param({"on_expire": -1}, id="action"),
        pytest.param({"expire_months": 1}, id="months-and-microseconds"),
        pytest.param({"expire_us": US_MAX + 1}, id="over-a-hundred-years"),
        pytest.param({"grace_months": True}, id="bool"),
        pytest.param({"requested_us": -1}, id="negative"),
        pytest.param({"restored_us": 1.5}, id="fraction"),
        pytest.param({"requested_us": 2**63}, id="64-bits"),
        pytest.param({"keeps": ((0, 1, 1),)}, id="keep"),
        pytest.param({"keeps": ((9, 1, 0),)}, id="clock-of-a-keep"),
        pytest.param({"keeps": ((0, 1),)}, id="short-keep"),
        pytest.param({"keeps": ((0, 1, 0, 5),)}, id="start-of-another-clock"),
        pytest.param({"keeps": ((3, 1, 0, 0),)}, id="start-that-is-none"),
        pytest.param({"labelled_us": -1}, id="labelled"),
        pytest.param({"external_us": LAST_US + 1}, id="external"),
        pytest.param({"derived": ((len(KINDS), 0),)}, id="kind"),
        pytest.param({"derived": ((0, len(DERIVED_OPTIONS)),)}, id="option"),
        pytest.param({"policy": "AB" * 16}, id="mark-in-capitals"),
        pytest.param({"policy": "ab"}, id="short-mark"),
    ],
)
def test_terms_out_of_range_are_neither_written_nor_read(change):
    """D1"""
    wrong = Terms(policy="ab" * 16, rule=0, expire_us=DAY_US)._replace(**change)
    with pytest.raises(InvalidInput, match="out of its range"):
        encode(wrong)
    fields = list(wrong)
    if wrong.requested_us < 2**63:
        with pytest.raises(Tampered, match="not ones that this program writes"):
            decode(orjson.dumps([1, *fields]))


GOOD = encode(Terms(policy="ab" * 16, rule=0, expire_us=DAY_US, keeps=((0, 6, 0),)))


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(GOOD[:-1], id="cut"),
        pytest.param(GOOD + b" ", id="space"),
        pytest.param(GOOD.replace(b",", b", ", 1), id="other-form"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="object"),
        pytest.param(b"[]", id="empty"),
        pytest.param(b"[1]", id="short"),
        pytest.param(b"\xff", id="no-text"),
        pytest.param(GOOD.replace(b"[1,", b"[0,", 1), id="older"),
        pytest.param(GOOD.replace(b"[1,", b"[2,", 1), id="clocks-left-out"),
        pytest.param(GOOD[:-1] + b",0,5]", id="clocks-in-the-first-form"),
        pytest.param(GOOD.replace(b"[1,", b"[2,", 1)[:-1] + b",0,0]", id="clocks-that-are-none"),
        pytest.param(GOOD.replace(b"[1,", b"[true,", 1), id="true"),
        pytest.param(GOOD.replace(b"[1,", b"[1.0,", 1), id="float"),
        pytest.param(b'[1,"",-1,0,0,0,[],0,0,0,[],0,0]', id="a-second-form-of-nothing"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"[1," + b"0," * TERMS_BYTES_MAX + b"0]", id="long"),
    ],
)
def test_anything_else_is_not_read_as_terms(stored):
    """D1: what is not understood must not mean "kept for ever and visible"."""
    with pytest.raises(Tampered, match="not ones that this program writes"):
        decode(stored)


def test_terms_of_a_newer_version_are_told_apart():
    """D1"""
    with pytest.raises(NewerVault):
        decode(GOOD.replace(b"[1,", b"[3,", 1))


def test_reading_terms_and_deciding_by_them_loads_nothing_heavy():
    """D1"""
    code = "import sys, vault.policy.retention; print('pydantic' in sys.modules, 'tomllib' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


# ----------------------------------------------------------------------------------------------- which rule

EVENTS = ("event",)


@pytest.mark.parametrize(
    ("rules", "labels", "type", "level", "winner"),
    [
        pytest.param([rule(expire="9d")], {}, "", "", "all", id="one"),
        pytest.param(
            [rule(expire="9d"), rule("b", expire="30d", labels={"a": "1"})],
            {"a": "1"},
            "",
            "",
            "b",
            id="a-label-though-longer",
        ),
        pytest.param(
            [rule(expire="9d"), rule("b", expire="3d", labels={"a": "1"})],
            {"a": "2"},
            "",
            "",
            "all",
            id="another-value",
        ),
        pytest.param(
            [rule("b", expire="3d", labels={"a": "1"}), rule("c", expire="9d", labels={"a": "1", "b": "2"})],
            {"a": "1", "b": "2", "c": "3"},
            "",
            "",
            "c",
            id="more-labels",
        ),
        pytest.param(
            [rule("b", expire="9d", labels={"a": "1"}), rule("c", expire="3d", labels={"b": "2"})],
            {"a": "1", "b": "2"},
            "",
            "",
            "c",
            id="tie-the-shortest",
        ),
        pytest.param([rule("b"), rule("c", expire="100y")], {}, "", "", "c", id="tie-never-is-longest"),
        pytest.param(
            [rule("b", expire="31d"), rule("c", expire="1mo")], {}, "", "", "c", id="tie-months-and-days"
        ),
        pytest.param(
            [rule("b", EVENTS, "3d"), rule("c", EVENTS, "9d", types=("tool.*",))],
            {},
            "tool.returned",
            "",
            "c",
            id="group-of-types",
        ),
        pytest.param(
            [rule("b", EVENTS, "3d", types=("tool.*",)), rule("c", EVENTS, "9d", types=("tool.returned",))],
            {},
            "tool.returned",
            "",
            "c",
            id="type-over-group",
        ),
        pytest.param(
            [rule("b", EVENTS, "3d"), rule("c", EVENTS, "9d", types=("tool.*",))],
            {},
            "toolbox.used",
            "",
            "b",
            id="a-group-ends-at-the-dot",
        ),
        pytest.param(
            [rule("b", EVENTS, "3d", types=("tool.*",)), rule("c", EVENTS, "9d", labels={"a": "1"})],
            {"a": "1"},
            "tool.returned",
            "",
            "c",
            id="label-over-type",
        ),
        pytest.param(
            [rule("b", EVENTS, "3d"), rule("c", EVENTS, "9d", level="L1")],
            {},
            "my.own",
            "L1",
            "c",
            id="level",
        ),
        pytest.param(
            [rule("b", EVENTS, "3d"), rule("c", EVENTS, "9d", level="L1")],
            {},
            "my.own",
            "",
            "b",
            id="unknown-level",
        ),
        pytest.param(
            [rule("b", EVENTS, "9d", types=("tool.*",)), rule("c", EVENTS, "3d", level="L1")],
            {},
            "tool.returned",
            "L1",
            "b",
            id="type-over-level",
        ),
    ],
)
def test_the_most_specific_rule_says_when_it_expires(rules, labels, type, level, winner):
    """D1"""
    for order in itertools.permutations(rules):
        bound = bind(policy(*order), order[0].kinds[0], labels, type=type, level=level)
        assert order[bound.rule].id == winner
        chosen = order[bound.rule]
        assert (bound.expire_months, bound.expire_us) == (
            (chosen.expire_after.months, chosen.expire_after.us) if chosen.expire_after else (0, 0)
        )


def test_the_minimums_of_all_rules_that_match_bind_it():
    """D1"""
    rules = (
        rule("a", expire="9d", labels={"a": "1"}),
        rule("b", keep="6mo", anchor="ended"),
        rule("c", keep="30d", labels={"b": "2"}),
        rule("d", keep="60d"),
        rule("e", keep="6y", labels={"a": "2"}),
        rule("f", ("memory",), keep="7y"),
    )
    bound = bind(policy(*rules), "session", {"a": "1", "b": "2"})
    assert rules[bound.rule].id == "a"
    # 30 days on a clock are always outlasted by 60 days on it, and need not be kept.
    assert bound.keeps == ((0, 0, 60 * DAY_US), (2, 6, 0))


def test_of_minimums_that_either_can_be_the_longer_one_both_are_kept():
    """D1"""
    bound = bind(policy(rule("a", keep="6mo"), rule("b", keep="182d")), "session", {})
    assert bound.keeps == ((0, 0, 182 * DAY_US), (0, 6, 0))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["created", "last_event", "ended"]),
            st.sampled_from(["1d", "30d", "1mo", "31d", "6mo", "183d"]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 4 * 10**15),
)
def test_dropping_what_is_outlasted_never_shortens_the_minimum(keeps, start):
    """D1"""
    rules = [rule(str(number), keep=keep, anchor=anchor) for number, (anchor, keep) in enumerate(keeps)]
    bound = bind(policy(*rules), "session", {})
    for anchor in {anchor for anchor, _ in keeps}:
        wanted = [parse_duration(keep) for at, keep in keeps if at == anchor]
        kept = [keep for keep in bound.keeps if ANCHORS[keep[0]] == anchor]
        assert max(later(start, each.months, each.us) for each in wanted) == max(
            later(start, months, us) for _, months, us in kept
        )


def test_terms_hold_everything_that_the_rule_says():
    """D1, D4"""
    derived = {"memory": "erase_with_any", "summary": "recompute", "artifact": "detach"}
    mine = policy(
        rule(expire="6mo", grace="7d", anchor="last_event", on_expire="review", derived=derived, keep="1d")
    )
    bound = bind(mine, "session", {})
    assert bound == Terms(
        policy=mine.digest[:16].hex(),
        rule=0,
        anchor=1,
        expire_months=6,
        keeps=((1, 0, DAY_US),),
        grace_us=7 * DAY_US,
        on_expire=2,
        derived=((2, 0), (3, 1), (4, 3)),
    )
    assert {kind: bound.option(kind) for kind in DERIVED_KINDS} == {
        **dict.fromkeys(DERIVED_KINDS, "erase_with_any"),
        **derived,
    }
    assert bound.option("no kind") == "erase_with_any"
    assert bound.words() == derived


def test_a_kind_that_no_rule_speaks_of_is_bound_by_its_policy_without_a_date():
    """D1"""
    mine = policy(rule(expire="9d"))
    assert bind(mine, "cache", {}) == Terms(policy=mine.mark)


def test_a_word_that_is_no_kind_is_refused():
    """D1"""
    with pytest.raises(InvalidInput, match="a kind of item is one of session, event"):
        bind(policy(rule()), "sesion", {})


def test_binding_again_after_another_policy_gives_what_that_one_says():
    """D1: what is remembered is told apart by digest."""
    first, second = policy(rule(expire="9d")), policy(rule(expire="10d"))
    assert [expires(bind(mine, "session", {})) for mine in (first, second, first)] == [
        (0, 9),
        (0, 10),
        (0, 9),
    ]


# -------------------------------------------------------------------------------------------------- bounds

DAYS = Bounds(floor=Duration(us=10 * DAY_US), ceiling=Duration(us=100 * DAY_US))


@pytest.mark.parametrize(
    ("expire", "keep", "expected", "keeps", "sentences"),
    [
        pytest.param("50d", "20d", (0, 50), ((0, 0, 20 * DAY_US),), (), id="within"),
        pytest.param(
            "101d",
            "10d",
            (0, 100),
            ((0, 0, 10 * DAY_US),),
            ("rule 1 says expire_after 101 days; this vault allows at most 100 days",),
            id="above",
        ),
        pytest.param(
            "never",
            "5d",
            (0, 100),
            ((0, 0, 10 * DAY_US),),
            (
                "rule 1 says expire_after never; this vault allows at most 100 days",
                "rule 1 says keep_min 5 days; this vault keeps at least 10 days",
            ),
            id="both",
        ),
        pytest.param(
            "5d",
            None,
            (0, 5),
            ((0, 0, 10 * DAY_US),),
            ("rule 1 says keep_min nothing; this vault keeps at least 10 days",),
            id="no-minimum",
        ),
    ],
)
def test_what_the_vault_allows_clamps_a_rule_and_says_so(expire, keep, expected, keeps, sentences):
    """D1"""
    mine = policy(rule(expire=expire, keep=keep))
    bound = bind(mine, "session", {}, bounds=DAYS)
    assert (expires(bound), bound.keeps) == (expected, keeps)
    assert clampings(mine, DAYS) == sentences
    assert clampings(mine, Bounds()) == ()


def test_what_no_rule_speaks_of_is_bounded_by_its_age_and_an_event_by_its_session():
    """D1"""
    mine = policy(rule())
    bound = bind(mine, "proof", {}, bounds=DAYS)
    assert (bound.rule, bound.anchor, expires(bound), bound.keeps) == (
        -1,
        0,
        (0, 100),
        ((0, 0, 10 * DAY_US),),
    )
    assert bind(mine, "event", {}, bounds=DAYS) == Terms(policy=mine.mark)
