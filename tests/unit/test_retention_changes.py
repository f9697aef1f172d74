"""What a new policy changes; nothing goes earlier by one that is not called a shortening (D1, D3)."""

import itertools
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vault.policy import changes
from vault.policy.changes import Change, diff, is_shortening
from vault.policy.document import RULES_MAX
from vault.policy.durations import DAY_US, FOREVER_US, LAST_US, parse_duration
from vault.policy.retention import Times, decide
from vault.policy.rules import Keep, Policy, Rule
from vault.policy.terms import bind

TAKES = ["detach", "erase_with_last", "recompute", "erase_with_any"]


def rule(id="all", kinds=("session",), expire="90d", keep=None, grace=None, applies_to="all", **more):
    return Rule(
        id=id,
        kinds=kinds,
        expire_after=parse_duration(expire),
        keep_min=Keep(duration=keep and parse_duration(keep)),
        grace=grace and parse_duration(grace),
        applies_to=applies_to,
        **more,
    )


def policy(*rules):
    return Policy(name="mine", version=1, rules=rules, digest=repr(rules).encode())


BASE = rule()
A1 = {"a": "1"}


@pytest.mark.parametrize(
    ("old", "new", "what", "shortens"),
    [
        pytest.param([rule()], [rule(expire="89d")], "changed", True, id="shorter"),
        pytest.param([rule()], [rule(expire="91d")], "changed", False, id="longer"),
        pytest.param([rule()], [rule(expire="never")], "changed", False, id="to-never"),
        pytest.param([rule(expire="never")], [rule()], "changed", True, id="from-never"),
        pytest.param(
            [rule()], [rule(expire="3mo")], "changed", True, id="days-to-months-that-can-be-shorter"
        ),
        pytest.param([rule()], [rule(expire="4mo")], "changed", False, id="days-to-more-months"),
        pytest.param([rule(grace="7d")], [rule()], "changed", True, id="less-grace"),
        pytest.param([rule(grace="7d")], [rule(expire="97d")], "changed", False, id="less-grace-more-period"),
        pytest.param([rule()], [rule(grace="7d")], "changed", False, id="more-grace"),
        pytest.param([rule(keep="30d")], [rule(keep="29d")], "changed", True, id="shorter-minimum"),
        pytest.param([rule(keep="30d")], [rule()], "changed", True, id="no-minimum"),
        pytest.param([rule()], [rule(keep="30d")], "changed", False, id="a-minimum"),
        pytest.param([rule(anchor="last_event")], [rule()], "changed", True, id="earlier-clock"),
        pytest.param([rule()], [rule(anchor="last_event")], "changed", False, id="later-clock"),
        pytest.param([rule()], [rule(anchor="external")], "changed", True, id="another-clock"),
        pytest.param([rule(on_expire="review")], [rule()], "changed", True, id="no-review"),
        pytest.param([rule()], [rule(on_expire="redact:L0")], "changed", False, id="less-than-erase"),
        pytest.param([rule()], [rule(derived={"summary": "recompute"})], "changed", False, id="takes-less"),
        pytest.param(
            [rule(derived={"summary": "recompute"})], [rule()], "changed", True, id="takes-more-with-it"
        ),
        pytest.param([rule(applies_to="new")], [rule()], "changed", True, id="for-what-is-there-already"),
        pytest.param(
            [BASE], [BASE, rule("b", labels=A1, expire="30d")], "added", True, id="shorter-for-a-label"
        ),
        pytest.param(
            [BASE], [BASE, rule("b", labels=A1, expire="1y")], "added", False, id="longer-for-a-label"
        ),
        pytest.param(
            [BASE, rule("b", labels=A1, expire="9d")],
            [BASE, rule("b", labels=A1, expire="10d")],
            "changed",
            False,
            id="longer-for-a-label-though-shorter-than-what-never-decided",
        ),
        pytest.param(
            [rule(keep="30d")],
            [rule(), rule("b", labels=A1, keep="30d", expire="1y")],
            "changed",
            True,
            id="a-minimum-left-to-a-label",
        ),
        pytest.param([BASE], [BASE, rule("b", expire="1y")], "added", False, id="longer-and-never-chosen"),
        pytest.param([BASE], [BASE, rule("b", expire="1d")], "added", True, id="shorter-of-equals"),
        pytest.param([BASE], [BASE, rule("b", ("proof",))], "added", True, id="where-there-was-none"),
        pytest.param(
            [BASE],
            [BASE, rule("b", ("proof",), expire="never")],
            "added",
            False,
            id="never-where-there-was-none",
        ),
        pytest.param(
            [BASE, rule("b", labels=A1, expire="1y")], [BASE], "removed", True, id="longer-for-a-label-gone"
        ),
        pytest.param(
            [BASE, rule("b", labels=A1, expire="9d")], [BASE], "removed", False, id="shorter-for-a-label-gone"
        ),
        pytest.param([BASE, rule("b", ("proof",))], [BASE], "removed", False, id="the-only-one-gone"),
        pytest.param(
            [BASE, rule("b", keep="30d", expire="never")], [BASE], "removed", True, id="a-minimum-gone"
        ),
        pytest.param(
            [BASE, rule("b", keep="30d", labels=A1, expire="9d")],
            [rule(keep="30d")],
            "removed",
            False,
            id="a-minimum-that-another-has",
        ),
        pytest.param(
            [rule(expire="never", kinds=("event",)), rule("b", ("event",), types=("tool.*",))],
            [rule(expire="never", kinds=("event",)), rule("b", ("event",), types=("tool.*", "run.failed"))],
            "changed",
            True,
            id="one-type-more",
        ),
        pytest.param(
            [rule("b", ("event",), types=("tool.*",))],
            [rule("b", ("event",), types=("tool.*", "tool.returned"))],
            "changed",
            False,
            id="a-type-of-the-group",
        ),
    ],
)
def test_a_change_shortens_if_something_may_go_earlier_by_it(old, new, what, shortens):
    """D1, D3"""
    found = [change for change in diff(policy(*old), policy(*new)) if change.what == what]
    assert [change.shortens for change in found] == [shortens]
    if len(diff(policy(*old), policy(*new))) == 1:
        assert is_shortening(policy(*old), policy(*new)) == shortens


def test_each_rule_that_differs_is_said_with_what_differs():
    """D1"""
    old = policy(rule("a"), rule("b", ("memory",), keep="1d"), rule("c", ("proof",)))
    new = policy(rule("a"), rule("d", ("export",)), rule("b", ("memory",), expire="30d", grace="1d"))
    assert diff(old, new) == [
        Change(rule="d", what="added", fields=(), shortens=True, existing=True),
        Change(
            rule="b",
            what="changed",
            fields=("keep_min", "expire_after", "grace"),
            shortens=True,
            existing=True,
        ),
        Change(rule="c", what="removed", fields=(), shortens=False, existing=False),
    ]


def test_another_name_or_order_changes_nothing():
    """D1"""
    first, second = rule("a"), rule("b", ("memory",))
    assert diff(policy(first, second), policy(second, first)) == []
    renamed = diff(policy(first), policy(rule("z")))
    assert [(change.what, change.shortens) for change in renamed] == [("added", False), ("removed", False)]


def test_what_holds_for_new_items_only_shortens_nothing_that_is_stored():
    """D3"""
    old, new = policy(rule()), policy(rule(expire="1d", applies_to="new"))
    assert diff(old, new) == [
        Change(
            rule="all", what="changed", fields=("expire_after", "applies_to"), shortens=True, existing=False
        )
    ]
    assert not is_shortening(old, new)


# ----------------------------------------------------------------------------------------------- properties

PERIODS = ["1d", "30d", "1mo", "31d", "never"]
RULES = st.builds(
    lambda kind, labels, types, anchor, keep, expire, action, grace, derived, applies_to: rule(
        "x",
        (kind,),
        labels=labels,
        types=types if kind == "event" else (),
        anchor=anchor,
        keep=keep,
        expire=expire,
        on_expire=action,
        grace=grace,
        derived=derived,
        applies_to=applies_to,
    ),
    st.sampled_from(["session", "event"]),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"]), max_size=2),
    st.sampled_from([(), ("tool.*",), ("tool.returned",), ("message.*", "tool.returned")]),
    st.sampled_from(["created", "last_event", "ended", "labelled"]),
    st.sampled_from([None, None, "1d", "30d"]),
    st.sampled_from(PERIODS),
    st.sampled_from(["erase", "erase", "review"]),
    st.sampled_from([None, None, "1d", "1mo"]),
    st.sampled_from([{}, {}, {"summary": "recompute"}]),
    st.sampled_from(["new", "all", "all"]),
)


def named(rules):
    return policy(*(replace(each, id=f"r{number}") for number, each in enumerate(rules)))


@st.composite
def pairs(draw):
    """Two policies that often share rules."""
    old = draw(st.lists(RULES, max_size=3))
    new = draw(st.lists(st.one_of(RULES, *([st.sampled_from(old)] if old else [])), max_size=3))
    return named(old), named(new)


ITEMS = [
    (kind, dict(zip("ab", labels, strict=True)), type)
    for kind, types in (("session", [""]), ("event", ["tool.returned", "tool.failed", "message.user"]))
    for type in types
    for labels in itertools.product(["1", "2", "3"], repeat=2)
]
START = 1_700_000_000_000_000
CLOCKS = [
    Times(START, START + last * DAY_US, ended and START + ended * DAY_US)
    for last, ended in [(0, 0), (20, 0), (20, 25), (40, 40)]
]
#: When labels came, in days after the item was made.
CAME = [{}, {"a": 1}, {"b": 200}, {"a": 90, "b": 2}, {"a": 2, "b": 90}]


def dates(bound, times):
    found = decide(bound, times, held=False, now_us=LAST_US)
    return found.expires_us or FOREVER_US, found.min_until_us, found.delete_at_us or FOREVER_US


def goes_earlier(old, new, item, came):
    """Whether an item that was bound by the old policy goes earlier when the new one binds it again."""
    kind, labels, type = item
    since = {name: START + days * DAY_US for name, days in came.items()}
    before, after = (bind(each, kind, labels, since=since, type=type) for each in (old, new))
    if after.rule < 0 or new.rules[after.rule].applies_to == "new":
        return False
    harsher = after.expire_us + after.expire_months > 0 and after.on_expire < before.on_expire
    takes = TAKES.index(after.option("summary")) > TAKES.index(before.option("summary"))
    return (
        (harsher and before.rule >= 0)
        or takes
        or any(
            later < earlier
            for times in CLOCKS
            for earlier, later in zip(dates(before, times), dates(after, times), strict=True)
        )
    )


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(pairs())
def test_nothing_that_is_stored_goes_earlier_unless_the_change_was_called_a_shortening(pair):
    """D1, D3"""
    old, new = pair
    if any(goes_earlier(old, new, item, came) for item in ITEMS for came in CAME):
        assert is_shortening(old, new)


def test_a_rule_that_counts_from_another_label_may_start_earlier():
    """D1: what has both labels got the one before the other; from its creation on, none starts earlier"""
    old = [rule(), rule("x", labels={"b": "1"}, anchor="labelled")]
    another = rule("w", labels=A1, anchor="labelled")
    assert is_shortening(policy(*old), policy(*old, another))
    assert not is_shortening(policy(*old), policy(*old, replace(another, labels={"a": "1", "b": "1"})))
    assert not is_shortening(policy(rule()), policy(rule(), another))


@settings(max_examples=100)
@given(pairs())
def test_the_same_policy_is_no_change(pair):
    """D1"""
    old, _ = pair
    assert diff(old, old) == []


def test_the_largest_policies_are_compared_in_a_moment():
    """D1"""
    old = policy(*(rule(f"r{n}", labels={"a": str(n)}, expire="90d") for n in range(RULES_MAX)))
    new = policy(*(rule(f"r{n}", labels={"b": str(n)}, expire="30d") for n in range(RULES_MAX)))
    start = time.monotonic()
    assert is_shortening(old, new)
    assert time.monotonic() - start < 20


def test_policies_that_are_too_large_to_compare_shorten_when_they_differ(monkeypatch):
    """D1"""
    old, new = policy(rule("a"), rule("b")), policy(rule("a"), rule("b", expire="1y"))
    assert not is_shortening(old, new)
    monkeypatch.setattr(changes, "PAIRS_MAX", 1)
    assert is_shortening(old, new)
    assert not is_shortening(old, old)
