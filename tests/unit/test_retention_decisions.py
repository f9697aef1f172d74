"""One decision per item: hold before minimum before request before expiry, with its reasons (D1, D2)."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from vault.policy import retention
from vault.policy.document import read_policy
from vault.policy.durations import DAY_US, FOREVER_US, HOUR_US, LAST_US, MONTHS_MAX, US_MAX, later
from vault.policy.retention import Stay, Times, decide, due_us, explain, is_visible
from vault.policy.rules import ANCHORS, ON_EXPIRE
from vault.policy.terms import NO_TERMS, Terms, bind

CREATED, LAST, ENDED, LABELLED, EXTERNAL = range(len(ANCHORS))
MOMENTS = st.integers(1, 4_000_000_000_000_000)  # until 2096
SOON = st.integers(-3 * DAY_US, 3 * DAY_US)
PERIODS = st.one_of(
    st.tuples(st.integers(1, MONTHS_MAX), st.just(0)),
    st.tuples(st.just(0), st.integers(1, US_MAX)),
)
NONE_OR_PERIOD = st.one_of(st.just((0, 0)), PERIODS)
PLAIN = st.tuples(st.integers(0, 4), PERIODS).map(lambda keep: (keep[0], *keep[1]))
CAME = st.tuples(PERIODS, MOMENTS).map(lambda keep: (3, *keep[0], keep[1]))  # from labels that came later
KEEPS = st.lists(st.one_of(PLAIN, CAME), max_size=3)
CLOCK = st.one_of(st.just(0), MOMENTS)


@st.composite
def terms(draw, requested=CLOCK):
    months, us = draw(NONE_OR_PERIOD)
    grace_months, grace_us = draw(NONE_OR_PERIOD)
    return Terms(
        policy="ab" * 16,
        rule=0,
        anchor=draw(st.integers(0, 4)),
        expire_months=months,
        expire_us=us,
        keeps=tuple(draw(KEEPS)),
        grace_months=grace_months,
        grace_us=grace_us,
        on_expire=draw(st.integers(0, 2)),
        restored_us=draw(CLOCK),
        requested_us=draw(requested),
        labelled_us=draw(CLOCK),
        external_us=draw(CLOCK),
    )


TERMS = terms()
TIMES = st.builds(Times, MOMENTS, CLOCK, CLOCK)


@st.composite
def cases(draw, requested=CLOCK):
    """Terms, times, and a moment that is often near to one where something happens."""
    bound, times = draw(terms(requested)), draw(TIMES)
    decision = decide(bound, times, held=False, now_us=0)
    dates = (decision.expires_us, decision.min_until_us, decision.delete_at_us, bound.requested_us)
    near = [date + delta for date in dates if date for delta in (-1, 0, 1) if date != FOREVER_US]
    return bound, times, draw(st.one_of(MOMENTS, *([st.sampled_from(near)] if near else [])))


def at(*date):
    return (datetime(*date, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def days(number, **more):
    return Terms(policy="ab" * 16, rule=0, expire_us=number * DAY_US, **more)


# ----------------------------------------------------------------------------------------------- properties


@given(cases(), st.booleans())
def test_the_decision_is_the_formula(case, held):
    """D1, D2: written out again, with infinity for what is not known."""
    bound, times, now = case
    infinity = float("inf")
    starts = (
        times.created_us,
        max(times.created_us, times.last_us),
        max(times.created_us, times.ended_us) if times.ended_us else infinity,
        max(times.created_us, bound.labelled_us),
        bound.external_us or infinity,
    )

    def start_of(keep):
        return max(times.created_us, *keep[3:], 0) if keep[0] == LABELLED else starts[keep[0]]

    def plus(start, months, us):
        return infinity if start == infinity else later(start, months, us)

    minimum = max((plus(start_of(keep), keep[1], keep[2]) for keep in bound.keeps), default=0)
    ever = bound.expire_months or bound.expire_us
    expiry = (
        plus(max(starts[bound.anchor], bound.restored_us), bound.expire_months, bound.expire_us)
        if ever
        else infinity
    )
    requested = bound.requested_us or infinity
    delete_at = max(minimum, min(plus(expiry, bound.grace_months, bound.grace_us), requested))
    found = decide(bound, times, held=held, now_us=now)
    assert found.state == ("HELD" if held else "KEEP" if now < delete_at else "DUE")
    assert found.visible == (not bound.requested_us and now < expiry)
    assert found.restricted == (bool(bound.requested_us) and (held or now < minimum))
    assert (found.expires_us or infinity) == expiry
    assert found.min_until_us == min(minimum, FOREVER_US)
    assert (found.delete_at_us or infinity) == delete_at


@given(cases(), st.booleans())
def test_the_same_question_gets_the_same_answer(case, held):
    """D2"""
    bound, times, now = case
    assert decide(bound, times, held=held, now_us=now) == decide(bound, times, held=held, now_us=now)


@given(cases())
def test_a_hold_beats_everything(case):
    """D2"""
    bound, times, now = case
    free, held = (decide(bound, times, held=hold, now_us=now) for hold in (False, True))
    assert held.state == "HELD"
    assert held.reasons[0] == retention.HOLD
    assert retention.HOLD not in free.reasons
    # It makes nothing readable that was not, and moves no date.
    dates = "visible", "expires_us", "min_until_us", "delete_at_us", "action"
    assert [getattr(held, name) for name in dates] == [getattr(free, name) for name in dates]
    assert held.restricted == (bound.requested_us != 0)


@given(cases(), PERIODS, st.integers(0, 4))
def test_a_minimum_more_never_makes_anything_go_earlier(case, period, anchor):
    """D1, D2"""
    bound, times, now = case
    more = bound._replace(keeps=(*bound.keeps, (anchor, *period)))
    before, found = (decide(each, times, held=False, now_us=now) for each in (bound, more))
    assert found.min_until_us >= before.min_until_us
    assert (found.delete_at_us or FOREVER_US) >= (before.delete_at_us or FOREVER_US)
    assert before.state == "DUE" or found.state != "DUE"
    assert found.visible == before.visible


@given(cases(), st.integers(1, US_MAX))
def test_a_longer_minimum_never_deletes_earlier(case, more):
    """D1"""
    bound, times, now = case
    assume(bound.keeps)
    anchor, months, us, *came = bound.keeps[0]
    period = (min(months + 1, MONTHS_MAX), 0) if months else (0, min(us + more, US_MAX))
    longer = (anchor, *period, *came)
    before, found = (
        decide(bound._replace(keeps=(keep, *bound.keeps[1:])), times, held=False, now_us=now)
        for keep in (bound.keeps[0], longer)
    )
    assert (found.delete_at_us or FOREVER_US) >= (before.delete_at_us or FOREVER_US)


@given(cases(), st.integers(0, 2), MOMENTS)
def test_a_later_anchor_never_expires_earlier(case, anchor, moment):
    """D1"""
    bound, times, now = case
    assume(times[anchor] and moment >= times[anchor])
    moved = times._replace(**{Times._fields[anchor]: moment})
    before, found = (decide(bound, each, held=False, now_us=now) for each in (times, moved))
    assert (found.expires_us or FOREVER_US) >= (before.expires_us or FOREVER_US)
    assert (found.delete_at_us or FOREVER_US) >= (before.delete_at_us or FOREVER_US)


@given(cases(), st.sampled_from(["labelled_us", "external_us"]), st.integers(0, US_MAX))
def test_a_later_date_of_a_clock_that_somebody_sets_never_makes_anything_go_earlier(case, clock, more):
    """D1: by labels, or from outside"""
    bound, times, now = case
    assume(getattr(bound, clock))
    moved = bound._replace(**{clock: getattr(bound, clock) + more})
    before, found = (decide(each, times, held=False, now_us=now) for each in (bound, moved))
    assert (found.expires_us or FOREVER_US) >= (before.expires_us or FOREVER_US)
    assert found.min_until_us >= before.min_until_us
    assert before.state == "DUE" or found.state != "DUE"
    assert found.visible or not before.visible


@given(cases(), MOMENTS)
def test_a_date_from_outside_that_nobody_set_expires_nothing_and_passes_no_minimum(case, date):
    """D1: taking a date back makes nothing go earlier"""
    bound, times, now = case
    unset, dated = (decide(bound._replace(external_us=us), times, held=False, now_us=now) for us in (0, date))
    assert (unset.expires_us or FOREVER_US) >= (dated.expires_us or FOREVER_US)
    assert unset.min_until_us >= dated.min_until_us
    assert dated.state == "DUE" or unset.state != "DUE"


@given(cases(), st.integers(0, US_MAX))
def test_time_alone_never_makes_what_is_due_kept_or_what_is_hidden_visible(case, passed):
    """D1"""
    bound, times, now = case
    before, found = (decide(bound, times, held=False, now_us=moment) for moment in (now, now + passed))
    assert before.state != "DUE" or found.state == "DUE"
    assert before.visible or not found.visible


@given(cases(requested=st.just(0)), MOMENTS)
def test_a_request_never_delays_deletion_and_always_hides(case, requested):
    """D1, D5"""
    bound, times, now = case
    asked = bound._replace(requested_us=requested)
    before, found = (decide(each, times, held=False, now_us=now) for each in (bound, asked))
    assert not found.visible
    assert found.action == "erase"
    assert before.delete_at_us is None or found.delete_at_us <= before.delete_at_us
    assert before.state != "DUE" or found.state == "DUE"


@given(cases(), MOMENTS)
def test_restoring_never_makes_anything_expire_earlier(case, restored):
    """D1"""
    bound, times, now = case
    assume(restored >= bound.restored_us)
    before, found = (
        decide(each, times, held=False, now_us=now) for each in (bound, bound._replace(restored_us=restored))
    )
    assert (found.expires_us or FOREVER_US) >= (before.expires_us or FOREVER_US)
    assert found.min_until_us == before.min_until_us


@given(cases())
@example((Terms(expire_months=1), Times(LAST_US - 1), LAST_US))
@example((Terms(expire_months=1), Times(LAST_US - 1), LAST_US - 1))
@example((Terms(expire_months=1), Times(LAST_US + 5), LAST_US + 5))
def test_the_quick_answers_agree_with_the_decision(case):
    """D1"""
    bound, times, now = case
    found = decide(bound, times, held=False, now_us=now)
    assert is_visible(bound, *times, now) == found.visible
    assert due_us(bound, times) == (found.delete_at_us or 0)


@given(st.integers(1, MONTHS_MAX), MOMENTS, st.integers(-(4 * DAY_US), 4 * DAY_US))
@example(1, at(2023, 1, 31), 0)  # the shortest month there is
@example(1, at(2023, 1, 31), -1)
@example(1, at(2023, 3, 1), -1)  # a longest one
@example(1, at(2023, 3, 1), 0)
def test_visibility_changes_at_the_microsecond_of_expiry_for_months_too(months, start, delta):
    """D1"""
    bound = Terms(expire_months=months)
    now = later(start, months, 0) + delta
    assert is_visible(bound, start, 0, 0, now) == (delta < 0)


# -------------------------------------------------------------------------------------------------- cases


def test_what_nothing_binds_is_kept_for_ever_and_visible():
    """D1"""
    found = decide(NO_TERMS, Times(1), held=False, now_us=LAST_US)
    assert (found.state, found.visible, found.restricted) == ("KEEP", True, False)
    assert (found.expires_us, found.min_until_us, found.delete_at_us) == (None, 0, None)
    assert found.reasons == (retention.NEVER,)


def test_what_has_expired_is_hidden_before_anything_sweeps():
    """D1"""
    bound, times = days(90, grace_us=7 * DAY_US), Times(at(2026, 1, 1))
    expiry = at(2026, 4, 1)
    assert decide(bound, times, held=False, now_us=expiry - 1).visible
    found = decide(bound, times, held=False, now_us=expiry)
    assert (found.state, found.visible, found.expires_us) == ("KEEP", False, expiry)
    assert found.delete_at_us == at(2026, 4, 8)
    assert found.reasons == (retention.EXPIRED, retention.GRACE)
    assert decide(bound, times, held=False, now_us=at(2026, 4, 8)).state == "DUE"


def test_a_request_has_no_grace_and_is_due_at_once():
    """D5"""
    bound = days(90, grace_us=7 * DAY_US, requested_us=at(2026, 1, 2), on_expire=2)
    found = decide(bound, Times(at(2026, 1, 1)), held=False, now_us=at(2026, 1, 2))
    assert (found.state, found.visible, found.restricted, found.action) == ("DUE", False, False, "erase")


@pytest.mark.parametrize("held", [False, True])
def test_a_request_that_a_minimum_or_a_hold_blocks_makes_the_item_restricted(held):
    """D2, D5"""
    keeps = () if held else ((CREATED, 6, 0),)
    bound = days(400, keeps=keeps, requested_us=at(2026, 1, 2))
    found = decide(bound, Times(at(2026, 1, 1)), held=held, now_us=at(2026, 2, 1))
    assert (found.restricted, found.visible) == (True, False)
    assert found.state == ("HELD" if held else "KEEP")
    # Once neither blocks it, the request counts by itself.
    free = decide(bound, Times(at(2026, 1, 1)), held=False, now_us=at(2026, 7, 1))
    assert (free.state, free.restricted) == ("DUE", False)


def test_an_item_that_has_not_ended_does_not_expire_by_its_end():
    """D1"""
    bound = days(1, anchor=ENDED)
    running = decide(bound, Times(1, at(2026, 1, 1)), held=False, now_us=LAST_US)
    assert (running.state, running.visible, running.reasons) == ("KEEP", True, (retention.NOT_STARTED,))
    ended = decide(bound, Times(1, 2, at(2026, 1, 1)), held=False, now_us=at(2026, 1, 2))
    assert (ended.state, ended.expires_us) == ("DUE", at(2026, 1, 2))


def test_a_minimum_whose_clock_has_not_started_has_not_passed():
    """D1"""
    bound = days(1, keeps=((ENDED, 6, 0),), requested_us=5)
    found = decide(bound, Times(1), held=False, now_us=LAST_US)
    assert (found.state, found.restricted) == ("KEEP", True)
    assert (found.min_until_us, found.delete_at_us) == (FOREVER_US, None)
    assert due_us(bound, Times(1)) == 0


def test_a_clock_that_says_less_than_the_creation_does_not_move_an_anchor_back():
    """D1"""
    created = at(2026, 1, 1)
    for anchor in (LAST, ENDED):
        found = decide(days(1, anchor=anchor), Times(created, 5, 5), held=False, now_us=created)
        assert found.expires_us == created + DAY_US


def test_what_was_made_with_its_labels_was_labelled_when_it_was_made():
    """D1"""
    made = at(2026, 1, 1)
    with_them = decide(days(30, anchor=LABELLED), Times(made), held=False, now_us=made)
    assert with_them.expires_us == at(2026, 1, 31)
    given = days(30, anchor=LABELLED, labelled_us=at(2026, 2, 1))
    assert decide(given, Times(made), held=False, now_us=made).expires_us == at(2026, 3, 3)


def test_a_minimum_counts_from_its_own_labels_not_from_those_of_the_rule_that_decides():
    """D1"""
    made = at(2026, 1, 1)
    keeps = ((LABELLED, 0, 30 * DAY_US), (LABELLED, 0, 10 * DAY_US, at(2026, 1, 11)))
    bound = days(5, anchor=LABELLED, labelled_us=at(2026, 6, 1), keeps=keeps)
    assert decide(bound, Times(made), held=False, now_us=made).min_until_us == at(2026, 1, 31)


def test_a_date_from_outside_may_lie_before_the_item_was_made():
    """D1"""
    bound = days(30, anchor=EXTERNAL, external_us=at(2025, 1, 1))
    found = decide(bound, Times(at(2026, 1, 1)), held=False, now_us=at(2026, 1, 1))
    assert (found.state, found.expires_us) == ("DUE", at(2025, 1, 31))


@pytest.mark.parametrize("action", ON_EXPIRE)
def test_what_is_to_be_done_is_what_the_rule_says(action):
    """D1"""
    bound = days(1, on_expire=ON_EXPIRE.index(action))
    assert decide(bound, Times(1), held=False, now_us=LAST_US).action == action


# ------------------------------------------------------------------------------------------ for a person

POLICY = read_policy(
    """
version = 1
name = "mine"
[[retention]]
id = "all"
match = { kind = ["session", "memory", "artifact"] }
anchor = "last_event"
expire_after = "365d"
grace = "7d"
[[retention]]
id = "law"
match = { kind = ["session"], labels = { area = "credit" } }
anchor = "created"
keep_min = { for = "2y", basis = "legal_obligation", ref = "AI Act 26(6)" }
expire_after = "never"
[[retention]]
id = "later"
match = { kind = ["session"], labels = { area = "trial" } }
anchor = "ended"
keep_min = "1d"
expire_after = "30d"
on_expire = "review"
""",
    file="mine.toml",
)
MADE = at(2026, 3, 1, 12)


def said(labels=None, policy=POLICY, times=None, now=MADE, *, held=False, **replaced):
    bound = bind(POLICY, "session", labels or {})._replace(**replaced)
    return explain(decide(bound, times or Times(MADE), held=held, now_us=now), bound, policy, now)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            {},
            'It is kept until 2027-03-01, because the rule "all" of the policy "mine" gives it 365 days '
            "after it was last used. Then it is hidden, can be restored for a while, and erased on "
            "2027-03-08.",
            id="living",
        ),
        pytest.param(
            {"policy": None},
            "It is kept until 2027-03-01, because its rule gives it 365 days after it was last used. Then "
            "it is hidden, can be restored for a while, and erased on 2027-03-08.",
            id="without-policy",
        ),
        pytest.param(
            {"now": at(2027, 3, 2)},
            'It expired on 2027-03-01 12:00 UTC, because the rule "all" of the policy "mine" gives it 365 '
            "days after it was last used. It is hidden, and can be restored until 2027-03-08; then it is "
            "erased.",
            id="grace",
        ),
        pytest.param(
            {"now": at(2027, 4, 1)},
            'It expired on 2027-03-01, because the rule "all" of the policy "mine" gives it 365 days '
            "after it was last used. It is due, and is erased by the next sweep.",
            id="due",
        ),
        pytest.param(
            {"labels": {"area": "credit"}},
            'It is kept without a date, because the rule "law" of the policy "mine" says that it never '
            "expires. It is not erased before 2028-03-01, because of a minimum of 2 years after it was "
            "made (AI Act 26(6)).",
            id="never-with-minimum",
        ),
        pytest.param(
            {"labels": {"area": "credit"}, "requested_us": MADE + HOUR_US},
            "Somebody asked for its erasure on 2026-03-01 13:00 UTC. It is hidden. It is not erased "
            "before 2028-03-01, because of a minimum of 2 years after it was made (AI Act 26(6)).",
            id="request-and-minimum",
        ),
        pytest.param(
            {"requested_us": MADE, "now": at(2026, 3, 2)},
            "Somebody asked for its erasure on 2026-03-01 12:00 UTC. It is due, and is erased by the next "
            "sweep.",
            id="request",
        ),
        pytest.param(
            {"held": True, "requested_us": MADE, "now": at(2026, 4, 2)},
            "A hold keeps it, whatever else is said, until the hold is released. Somebody asked for its "
            "erasure on 2026-03-01. Without the hold it is erased at once.",
            id="hold-and-request",
        ),
        pytest.param(
            {"held": True},
            "A hold keeps it, whatever else is said, until the hold is released. Without the hold it is "
            "erased on 2027-03-08.",
            id="hold",
        ),
        pytest.param(
            {"labels": {"area": "trial"}},
            'It is kept without a date, because the rule "later" of the policy "mine" gives it 30 days '
            "after it ended, which has not come. It is not erased before a date that is not known yet, "
            "because of a minimum of 1 day after it ended.",
            id="not-ended",
        ),
        pytest.param(
            {"labels": {"area": "trial"}, "times": Times(MADE, MADE, MADE), "now": at(2026, 5, 1)},
            'It expired on 2026-03-31, because the rule "later" of the policy "mine" gives it 30 days '
            "after it ended. It is due, and is put up for review by the next sweep.",
            id="review",
        ),
        pytest.param(
            {"restored_us": at(2027, 3, 3)},
            'It is kept until 2028-03-02, because the rule "all" of the policy "mine" gives it 365 days '
            "after it was last used, or after it was restored. Then it is hidden, can be restored for a "
            "while, and erased on 2028-03-09.",
            id="restored",
        ),
        pytest.param(
            {"keeps": ((CREATED, 24, 0), (LAST, 36, 0))},
            'It is kept until 2027-03-01, because the rule "all" of the policy "mine" gives it 365 days '
            "after it was last used. Then it is hidden, and erased on 2029-03-01, because of the longest "
            "of 2 minimums (AI Act 26(6)).",
            id="minimums",
        ),
        pytest.param(
            {"keeps": ((ENDED, 24, 0),)},
            'It is kept until 2027-03-01, because the rule "all" of the policy "mine" gives it 365 days '
            "after it was last used. Then it is hidden. It is not erased before a date that is not known "
            "yet, because of a minimum of 2 years after it ended.",
            id="minimum-not-started",
        ),
    ],
)
def test_why_it_is_still_there_and_when_it_goes_is_said_in_sentences(arguments, expected):
    """D2"""
    assert said(**arguments) == expected


@pytest.mark.parametrize(
    ("stay", "expected"),
    [
        (
            Stay("fork", "ses_1", at(2028, 1, 1)),
            (
                "The fork ses_1 shares it. The next sweep makes that the fork's own where it can, and then "
                "erases this; else this stays as long as the fork, until 2028-01-01."
            ),
        ),
        (
            Stay("fork", "ses_1"),
            (
                "The fork ses_1 shares it. The next sweep makes that the fork's own where it can, and then "
                "erases this; else this stays as long as the fork."
            ),
        ),
        (
            Stay("hold", "mem_1"),
            (
                "It stays because mem_1, which was made from it, is kept by a hold; it goes once that is "
                "released."
            ),
        ),
        (
            Stay("minimum", "", at(2028, 1, 1)),
            "It stays because something, which was made from it, is not erased before 2028-01-01.",
        ),
        (Stay("newer_version"), "It stays while the newer version that was made from it does."),
        (Stay("review"), "It stays until a person erases it, because its rule wants a person to decide."),
        (
            Stay("over_cap"),
            (
                "It stays until a privacy officer lets the sweep go on, because more of the tenant is due "
                "than goes by itself."
            ),
        ),
        (Stay("being_erased"), "It is being erased at this moment."),
    ],
    ids=lambda value: value.why if isinstance(value, Stay) else "",
)
def test_what_is_due_and_stays_is_said_with_its_date_and_because_of_what(stay, expected):
    """D3"""
    bound, now = bind(POLICY, "session", {}), at(2027, 4, 1)
    decision = decide(bound, Times(MADE), held=False, now_us=now)
    assert explain(decision, bound, POLICY, now, stay) == (
        'It expired on 2027-03-01, because the rule "all" of the policy "mine" gives it 365 days after it '
        f"was last used. It has been due since 2027-03-08. {expected}"
    )
    living = decide(bound, Times(MADE), held=False, now_us=MADE)
    assert explain(living, bound, POLICY, MADE, stay) == explain(living, bound, POLICY, MADE)


def test_what_nothing_binds_is_explained_too():
    """D2"""
    decision = decide(NO_TERMS, Times(1), held=False, now_us=5)
    expected = "It is kept without a date, because it was stored under no policy."
    assert explain(decision, NO_TERMS, None, 5) == expected
    bound = bind(POLICY, "summary", {})
    expected = "It is kept without a date, because no rule of its policy speaks of it."
    assert explain(decide(bound, Times(1), held=False, now_us=5), bound, POLICY, 5) == expected


@given(cases(), st.booleans())
def test_every_decision_is_explained_in_one_to_three_sentences(case, held):
    """D2"""
    bound, times, now = case
    text = explain(decide(bound, times, held=held, now_us=now), bound, POLICY, now)
    sentences = re.split(r"(?<=\.) (?=[A-Z])", text)
    assert 1 <= len(sentences) <= 3
    assert all(sentence.endswith(".") and sentence[0].isupper() for sentence in sentences), text
    assert "  " not in text
    assert "None" not in text


def test_the_name_of_a_rule_is_taken_from_the_policy_that_bound_the_item_and_no_other():
    """D2"""
    other = read_policy(POLICY.text.replace('"mine"', '"other"'), file="other.toml")
    assert '"all"' not in said(policy=other)
    assert "its rule gives it 365 days" in said(policy=other)
