"""Periods are written in one way, and months are counted on the calendar (D1)."""

import calendar
import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.errors import InvalidInput
from vault.policy.durations import (
    DAY_US,
    HOUR_US,
    LAST_US,
    MONTHS_MAX,
    US_MAX,
    Duration,
    after,
    in_words,
    longest_us,
    may_exceed,
    nominal_us,
    parse_duration,
    parse_or_zero,
    shortest_us,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2300, 1, 1)).map(  # noqa: DTZ001 - the zone follows
    lambda moment: moment.replace(tzinfo=UTC)
)
DURATIONS = st.one_of(
    st.integers(1, MONTHS_MAX).map(lambda months: Duration(months=months)),
    st.integers(HOUR_US, US_MAX).map(lambda us: Duration(us=us)),
)


def us(moment):
    return (moment - EPOCH) // timedelta(microseconds=1)


def at(*date):
    return us(datetime(*date, tzinfo=UTC))


# ------------------------------------------------------------------------------------------------ written


@pytest.mark.parametrize(
    ("text", "months", "us"),
    [
        ("1h", 0, HOUR_US),
        ("12h", 0, 12 * HOUR_US),
        ("90d", 0, 90 * DAY_US),
        ("090d", 0, 90 * DAY_US),
        ("6mo", 6, 0),
        ("6y", 72, 0),
        ("P183D", 0, 183 * DAY_US),
        ("PT12H", 0, 12 * HOUR_US),
        ("P6M", 6, 0),
        ("P6Y", 72, 0),
        ("100y", 1200, 0),
        ("1200mo", 1200, 0),
        ("36525d", 0, US_MAX),
        ("876600h", 0, US_MAX),
    ],
)
def test_a_period_is_read_as_it_is_written(text, months, us):
    """D1"""
    assert parse_duration(text) == Duration(months=months, us=us) == parse_or_zero(text)


def test_never_is_a_word_and_no_period():
    """D1"""
    assert parse_duration("never") is None
    with pytest.raises(InvalidInput, match='write "0d" for none, or at most "100y"'):
        parse_or_zero("never")


@pytest.mark.parametrize("text", ["0d", "0h", "0mo", "0y", "P0D", "PT0H", "P0M", "00d"])
def test_nothing_is_a_minimum_or_a_grace_but_no_life(text):
    """D1"""
    assert parse_or_zero(text) is None
    with pytest.raises(InvalidInput, match='write 1 hour or more \\("1h"\\), or "never"'):
        parse_duration(text)


REFUSED = [
    pytest.param(0, "in quotes and with its unit", id="zero"),
    pytest.param(-1, "in quotes and with its unit", id="minus-one"),
    pytest.param(30, "in quotes and with its unit", id="number"),
    pytest.param(True, "in quotes and with its unit", id="true"),
    pytest.param(None, "in quotes and with its unit", id="nothing"),
    pytest.param(math.nan, "in quotes and with its unit", id="nan"),
    pytest.param(math.inf, "in quotes and with its unit", id="inf"),
    pytest.param(1e-9, "in quotes and with its unit", id="tiny"),
    pytest.param(2**63, "in quotes and with its unit", id="64-bits"),
    pytest.param(["90d"], "in quotes and with its unit", id="list"),
    pytest.param(timedelta(days=1), "in quotes and with its unit", id="timedelta"),
    pytest.param("30", "needs a unit", id="no-unit"),
    pytest.param("0", "needs a unit", id="zero-without-unit"),
    pytest.param("-1", "not negative", id="negative"),
    pytest.param("-90d", "not negative", id="negative-days"),
    pytest.param("", "one whole number and one unit", id="empty"),
    pytest.param("d", "one whole number and one unit", id="unit-alone"),
    pytest.param("NaN", "one whole number and one unit", id="nan-text"),
    pytest.param("inf", "one whole number and one unit", id="inf-text"),
    pytest.param("Never", "one whole number and one unit", id="never-in-capitals"),
    pytest.param("forever", "one whole number and one unit", id="forever"),
    pytest.param("+90d", "one whole number and one unit", id="plus"),
    pytest.param("1.5y", "one whole number and one unit", id="fraction"),
    pytest.param("1e3d", "one whole number and one unit", id="exponent"),
    pytest.param("1_000d", "one whole number and one unit", id="underscore"),
    pytest.param("90D", "one whole number and one unit", id="capital"),
    pytest.param("3w", "one whole number and one unit", id="weeks"),
    pytest.param("5m", "one whole number and one unit", id="minutes-or-months"),
    pytest.param("10s", "one whole number and one unit", id="seconds"),
    pytest.param("1y6mo", "one whole number and one unit", id="two"),
    pytest.param("P1Y6M", "one whole number and one unit", id="two-iso"),
    pytest.param("PT5M", "one whole number and one unit", id="iso-minutes"),
    pytest.param("P", "one whole number and one unit", id="iso-empty"),
    pytest.param("p6m", "one whole number and one unit", id="iso-small"),
    pytest.param("\u0669\u0660d", "one whole number and one unit", id="arabic-digits"),
    pytest.param("90d\x00", "one whole number and one unit", id="nul"),
    pytest.param(" 90d", "no spaces", id="space-before"),
    pytest.param("90d\n", "no spaces", id="newline"),
    pytest.param("90 d", "no spaces", id="space-within"),
    pytest.param("90\u00a0d", "no spaces", id="no-break-space"),
    pytest.param("101y", "at most 100 years", id="101-years"),
    pytest.param("1201mo", "at most 100 years", id="1201-months"),
    pytest.param("36526d", "at most 100 years", id="too-many-days"),
    pytest.param("876601h", "at most 100 years", id="too-many-hours"),
    pytest.param("P99999Y", "at most 100 years", id="99999-years"),
    pytest.param(f"{2**63}d", "at most 100 years", id="64-bits-text"),
    pytest.param("9" * 10_000 + "d", "at most 100 years", id="ten-thousand-digits"),
]


@pytest.mark.parametrize("parse", [parse_duration, parse_or_zero])
@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_anything_else_is_refused_with_one_sentence_that_says_what_to_write(parse, text, said):
    """D1"""
    with pytest.raises(InvalidInput, match=said) as caught:
        parse(text)
    sentence = str(caught.value)
    assert ": write " in sentence
    assert "\n" not in sentence
    assert len(sentence) < 200


@given(st.text(max_size=20))
def test_no_text_is_read_as_another_period_than_it_says_or_quoted(text):
    """D1"""
    found, sentence = None, ""
    try:
        found = parse_or_zero(text)
    except InvalidInput as refusal:
        sentence = str(refusal)
    assert len(text) < 6 or text not in sentence
    assert found is None or parse_or_zero(str(found)) == found


@pytest.mark.parametrize(
    ("months", "us"), [(0, 0), (1, 1), (-1, 0), (0, -1), (1201, 0), (0, US_MAX + 1), (True, 0), (0, 1.5)]
)
def test_a_period_is_months_or_microseconds_and_exactly_one_of_them(months, us):
    """D1"""
    with pytest.raises(InvalidInput, match=r"^a period is"):
        Duration(months=months, us=us)


@given(DURATIONS.filter(lambda duration: duration.us % HOUR_US == 0))
def test_what_is_written_reads_back(duration):
    """D1"""
    assert parse_duration(str(duration)) == duration


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1h", "1 hour"),
        ("36h", "36 hours"),
        ("48h", "2 days"),
        ("1d", "1 day"),
        ("18mo", "18 months"),
        ("12mo", "1 year"),
    ],
)
def test_a_period_is_said_in_the_largest_unit_that_fits(text, words):
    """D2"""
    duration = parse_duration(text)
    assert in_words(duration.months, duration.us) == words


def test_periods_that_no_document_has_are_said_too():
    """D2"""
    assert in_words(0, 90 * 60_000_000) == "90 minutes"
    assert in_words(0, 1_500_000) == "1 second"


# ------------------------------------------------------------------------------------------- the calendar


def naive(moment, months):
    year, month = moment.year, moment.month
    for _ in range(months):
        month += 1
        if month > 12:
            year, month = year + 1, 1
    return moment.replace(year=year, month=month, day=min(moment.day, calendar.monthrange(year, month)[1]))


@given(MOMENTS, st.integers(1, MONTHS_MAX))
def test_months_are_counted_as_a_calendar_does(moment, months):
    """D1"""
    assert after(us(moment), Duration(months=months)) == us(naive(moment, months))


@given(MOMENTS, st.integers(1, US_MAX))
def test_everything_else_is_counted_in_microseconds(moment, period):
    """D1"""
    assert after(us(moment), Duration(us=period)) == us(moment) + period


@pytest.mark.parametrize(
    ("start", "months", "end"),
    [
        pytest.param((2023, 1, 31), 1, (2023, 2, 28), id="clipped"),
        pytest.param((2024, 1, 31), 1, (2024, 2, 29), id="clipped-in-a-leap-year"),
        pytest.param((2024, 2, 29), 12, (2025, 2, 28), id="leap-day-plus-a-year"),
        pytest.param((2024, 2, 29), 48, (2028, 2, 29), id="leap-day-plus-four-years"),
        pytest.param((2096, 2, 29), 48, (2100, 2, 28), id="2100-is-no-leap-year"),
        pytest.param((1996, 2, 29), 48, (2000, 2, 29), id="2000-is-one"),
        pytest.param((2023, 12, 31), 2, (2024, 2, 29), id="over-new-year"),
        pytest.param(
            (2026, 8, 31, 23, 59, 59, 999999), 1, (2026, 9, 30, 23, 59, 59, 999999), id="time-of-day"
        ),
        pytest.param((1970, 1, 1), 1200, (2070, 1, 1), id="a-hundred-years"),
        pytest.param((1969, 12, 31, 23), 2, (1970, 2, 28, 23), id="before-1970"),
    ],
)
def test_the_end_of_a_month_is_clipped(start, months, end):
    """D1"""
    assert after(at(*start), Duration(months=months)) == at(*end)


@given(st.integers(-(2**70), 2**70), DURATIONS)
def test_no_moment_overflows_and_none_is_before_its_start(moment, duration):
    """D1"""
    found = after(moment, duration)
    assert moment <= found <= max(moment, LAST_US)


@given(st.integers(0, LAST_US), st.integers(0, LAST_US), DURATIONS)
def test_what_starts_later_ends_no_earlier(first, second, duration):
    """D1"""
    first, second = sorted((first, second))
    assert after(first, duration) <= after(second, duration)


def test_the_last_date_is_one_that_can_be_written():
    """D1"""
    assert after(at(9999, 6, 1), Duration(months=12)) == LAST_US == at(9999, 12, 31, 23, 59, 59, 999999)
    assert after(LAST_US, Duration(us=1)) == LAST_US
    assert after(2**63 - 1, Duration(months=1)) == 2**63 - 1


# -------------------------------------------------------------------------------------------- comparisons


@given(st.integers(1, MONTHS_MAX), st.integers(0, 400 * 366))
def test_no_start_makes_months_shorter_or_longer_than_is_said(months, day):
    """D1"""
    duration = Duration(months=months)
    length = after(day * DAY_US, duration) - day * DAY_US
    assert shortest_us(duration) <= length <= longest_us(duration)


@pytest.mark.parametrize("months", [1, 6, 95, 1200])
def test_the_least_and_the_most_of_months_are_reached(months):
    """D1"""
    duration = Duration(months=months)
    lengths = {after(day * DAY_US, duration) - day * DAY_US for day in range(400 * 365 + 97)}
    assert (shortest_us(duration), longest_us(duration)) == (min(lengths), max(lengths))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("6mo", "183d", True),
        ("6mo", "184d", False),
        ("181d", "6mo", False),
        ("182d", "6mo", True),
        ("1y", "365d", True),
        ("365d", "1y", False),
        ("366d", "1y", True),
        ("12mo", "1y", False),
        ("13mo", "1y", True),
        ("90d", "90d", False),
        ("91d", "90d", True),
    ],
)
def test_a_period_may_exceed_another_if_some_start_makes_it_longer(first, second, expected):
    """D1"""
    assert may_exceed(parse_duration(first), parse_duration(second)) is expected


def test_periods_have_an_order_in_which_never_is_last():
    """D1"""
    order = ["1h", "1d", "30d", "1mo", "31d", "365d", "1y", "366d", "100y", "never"]
    lengths = [nominal_us(parse_duration(text)) for text in order]
    assert all(first < second for first, second in pairwise(lengths))
