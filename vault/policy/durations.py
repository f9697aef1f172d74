"""Periods as people write them ("90d", "6mo", "P183D"), and the moment that is one of them after another.

A period is a number of months or a number of microseconds, never both: a month has no fixed length, so it is
counted on the calendar, in UTC, from the moment it starts. The 31st plus one month is the last day of the
next month.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final

from vault.errors import InvalidInput

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US
MONTHS_MAX: Final = 1_200  # 100 years
US_MAX: Final = 36_525 * DAY_US  # 100 years of 365.25 days
#: 9999-12-31T23:59:59.999999 UTC: no date is later, so every date can be written down.
LAST_US: Final = 253_402_300_799_999_999
#: An end that nobody knows yet: the clock it is counted from has not started.
FOREVER_US: Final = 2**63 - 1

_EPOCH_ORDINAL: Final = 719_163  # date(1970, 1, 1).toordinal()
_CYCLE_DAYS: Final = 146_097  # 400 years: after these the calendar repeats
_CYCLE_US: Final = _CYCLE_DAYS * DAY_US
_EPOCH_IN_CYCLE_US: Final = (_EPOCH_ORDINAL - 1) * DAY_US
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NO_CLIP_DAYS: Final = 28  # every month has so many
_MONTH_US: Final = _CYCLE_US // 4_800  # the average

_DIGITS_MAX: Final = 6  # 876,600 hours are 100 years
_FORM: Final = re.compile(r"(?:(?P<n>[0-9]+)(?P<u>h|d|mo|y)|P(?P<N>[0-9]+)(?P<U>[DMY])|PT(?P<H>[0-9]+)H)")
_UNITS: Final = {"h": (0, HOUR_US), "d": (0, DAY_US), "mo": (1, 0), "y": (12, 0)}
_ISO_UNITS: Final = {"D": "d", "M": "mo", "Y": "y"}

_EXAMPLES: Final = '"12h", "90d", "6mo" or "6y" (or "PT12H", "P90D", "P6M", "P6Y")'


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """A period: months on the calendar, or microseconds; exactly one of them is not zero.

    Raises:
        InvalidInput: both or neither, negative, or longer than 100 years.
    """

    months: int = 0
    us: int = 0

    def __post_init__(self) -> None:
        """Check it once, so that nobody has to again."""
        if type(self.months) is not int or type(self.us) is not int or (self.months == 0) == (self.us == 0):
            raise InvalidInput("a period is a whole number of months or of microseconds, exactly one of them")
        if not 0 <= self.months <= MONTHS_MAX or not 0 <= self.us <= US_MAX:
            raise InvalidInput("a period is longer than nothing and at most 100 years")

    def __str__(self) -> str:
        """As it is written in a document; the shortest form that says the same."""
        if self.months:
            return f"{self.months // 12}y" if self.months % 12 == 0 else f"{self.months}mo"
        if self.us % DAY_US == 0:
            return f"{self.us // DAY_US}d"
        return f"{self.us // HOUR_US}h" if self.us % HOUR_US == 0 else f"{self.us}us"


def parse_duration(text: object) -> Duration | None:
    """A period of 1 hour to 100 years, as it is written in a document; None for ``"never"``.

    Raises:
        InvalidInput: anything else; says what to write instead, and does not quote it.
    """
    if text == "never" and isinstance(text, str):
        return None
    amount, unit = _parts(text)
    if amount == 0:
        raise InvalidInput('nothing lives for no time: write 1 hour or more ("1h"), or "never"')
    return _bounded(amount, unit)


def parse_or_zero(text: object) -> Duration | None:
    """A period that may be none at all: None for ``"0d"``; there is no ``"never"``.

    Raises:
        InvalidInput: anything else; says what to write instead, and does not quote it.
    """
    if text == "never" and isinstance(text, str):
        raise InvalidInput('this period has an end: write "0d" for none, or at most "100y"')
    amount, unit = _parts(text)
    return None if amount == 0 else _bounded(amount, unit)


def _parts(text: object) -> tuple[int, str]:
    if not isinstance(text, str):
        raise InvalidInput(f"a period is written in quotes and with its unit: write {_EXAMPLES}")
    if text != text.strip() or any(character.isspace() for character in text):
        raise InvalidInput(f"a period has no spaces in it: write {_EXAMPLES}")
    found = _FORM.fullmatch(text)
    if found is None:
        raise InvalidInput(_unreadable(text))
    unit = found["u"] or (found["U"] and _ISO_UNITS[found["U"]]) or "h"
    digits = (found["n"] or found["N"] or found["H"]).lstrip("0")
    if len(digits) > _DIGITS_MAX:
        raise InvalidInput('a period is at most 100 years: write "100y" or less, or "never"')
    return int(digits or "0"), unit


def _unreadable(text: str) -> str:
    if text.startswith("-"):
        return 'a period is not negative: write "never" for no end, or a period such as "90d"'
    if re.fullmatch(r"[0-9]+", text):
        return f"a period needs a unit (h, d, mo, y): write {_EXAMPLES}"
    return f"a period is one whole number and one unit (h, d, mo, y): write {_EXAMPLES}"


def _bounded(amount: int, unit: str) -> Duration:
    months, us = (amount * each for each in _UNITS[unit])
    if months > MONTHS_MAX or us > US_MAX:
        raise InvalidInput('a period is at most 100 years: write "100y" or less, or "never"')
    return Duration(months=months, us=us)


# ---------------------------------------------------------------------------------------- on the calendar


def after(anchor_us: int, duration: Duration) -> int:
    """The moment a period after another; never before it, and not after the year 9999 (``LAST_US``)."""
    return later(anchor_us, duration.months, duration.us)


def later(anchor_us: int, months: int, us: int) -> int:
    """As ``after``, for the parts of a period; 0 and 0 are no time at all."""
    if months:
        # Within one cycle of 400 years, so that no moment is outside the calendar of this language.
        cycles, rest = divmod(anchor_us + _EPOCH_IN_CYCLE_US, _CYCLE_US)
        day, rest = divmod(rest, DAY_US)
        start = date.fromordinal(day + 1)
        years, month = divmod(start.month - 1 + months, 12)
        year, number = start.year + years, start.day
        if number > _NO_CLIP_DAYS:
            number = min(number, days_in(year, month + 1))
        day = date(year, month + 1, number).toordinal() - _EPOCH_ORDINAL
        moment = cycles * _CYCLE_US + day * DAY_US + rest
    else:
        moment = anchor_us + us
    return moment if moment <= LAST_US else max(anchor_us, LAST_US)


def days_in(year: int, month: int) -> int:
    """How many days a month has (proleptic Gregorian calendar)."""
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)  # noqa: PLR2004 - the calendar
    return _MONTH_DAYS[month - 1] + leap


# --------------------------------------------------------------------------------------------- comparison


def nominal_us(duration: Duration | None) -> int:
    """About how long it is, to put periods in an order: a month counts as the average one; None: for ever."""
    return FOREVER_US if duration is None else duration.months * _MONTH_US + duration.us


@lru_cache(maxsize=1024)
def shortest_us(duration: Duration) -> int:
    """The least it can be, whenever it starts: a month is 28 days from 31 January of a common year."""
    if not duration.months:
        return duration.us
    # Around 2100, which has no 29 February, each start gives the least of its kind.
    return min(_length_us(year, month, duration.months, 31) for year, month in _months(2096, 2105))


@lru_cache(maxsize=1024)
def longest_us(duration: Duration) -> int:
    """The most it can be, whenever it starts: a month is 31 days from 1 January."""
    if not duration.months:
        return duration.us
    # From here on no leap year is missing for 100 years.
    return max(_length_us(year, month, duration.months, 1) for year, month in _months(1996, 2001))


def may_exceed(first: Duration, second: Duration) -> bool:
    """Whether one period can be longer than another that starts with it."""
    if first.months and second.months:
        return first.months > second.months
    return longest_us(first) > shortest_us(second)


def _months(start: int, end: int) -> list[tuple[int, int]]:
    return [(year, month) for year in range(start, end) for month in range(1, 13)]


def _length_us(year: int, month: int, months: int, day: int) -> int:
    start = (date(year, month, min(day, days_in(year, month))).toordinal() - _EPOCH_ORDINAL) * DAY_US
    return later(start, months, 0) - start


def in_words(months: int, us: int) -> str:
    """A period as a person reads it, in the largest unit that fits: ``90 days``, ``6 months``."""
    whole = [(us, DAY_US, "day"), (us, HOUR_US, "hour"), (us, MINUTE_US, "minute")]
    if months:
        whole = [(months, 12, "year"), (months, 1, "month")]
    amount, unit = next(
        ((number // size, unit) for number, size, unit in whole if number % size == 0),
        (us // SECOND_US, "second"),
    )
    return f"{amount} {unit}" if amount == 1 else f"{amount} {unit}s"
