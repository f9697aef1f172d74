"""The ways in which the value of a field is written again in free text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from enum import IntEnum
from typing import Final, NamedTuple

from vault.redaction.normalise import UNSPACED, fold
from vault.redaction.vocabulary_words import EVERYDAY, NO_VALUE, ORDINARY

#: Longer values are found by their form or not at all.
TERM_LENGTH_MAX: Final = 256
_NAME_SHORT: Final = 3  # a name up to here is one only with a capital: "Lei", "Al"
_PIECE_MIN: Final = 4  # of a name with hyphens
_DIGITS_MIN: Final = 6  # a number up to here is also a price, a year or a count
_PHONE_DIGITS_MIN: Final = 7


class When(IntEnum):
    """Where a term marks what it matches; a lower one marks more."""

    ALWAYS = 0
    CAPITAL = 1  # where it begins with a capital letter
    INSIDE = 2  # where it has a capital and does not begin a sentence, or as the next
    CALLED = 3  # where it has a capital and somebody is called so, or a name stands beside it
    TAIL = 4  # where words before it speak of last digits


class Term(NamedTuple):
    """A text to be found again, what it is, and when."""

    text: str
    kind: str
    when: When = When.ALWAYS


def terms_of_field(kind: str, value: str) -> Iterator[Term]:
    """Every way to write the value of a field of this kind; none when it says nothing or too little."""
    value = " ".join(value.split())
    if len(value) <= TERM_LENGTH_MAX and fold(value)[0] not in NO_VALUE:
        yield from _WAYS.get(kind, _plain)(kind, value)


def full_name(first: str, last: str) -> Iterator[Term]:
    """A first and a last name as one term, so that both together are one span."""
    if first and last and len(first) + len(last) < TERM_LENGTH_MAX:
        yield Term(f"{first.strip()} {last.strip()}", "NAME")


def tail(value: str) -> Iterator[Term]:
    """The last digits of a card."""
    if re.fullmatch(r"[0-9]{4,6}", value):
        yield Term(value, "CARD", When.TAIL)


def _names(kind: str, value: str) -> Iterator[Term]:
    parts = [part for part in (part.strip(".,;:'\"()") for part in re.split(r"[\s,]+", value)) if part]
    if len(parts) > 1:
        yield Term(" ".join(parts), kind)
    for part in parts:
        yield from _name(kind, part)
        if "-" in part:
            for piece in part.split("-"):
                if len(piece) >= _PIECE_MIN:
                    yield from _name(kind, piece)


def _name(kind: str, part: str) -> Iterator[Term]:
    folded = fold(part)[0]
    if len(folded) < 2 or not any(c.isalpha() for c in folded):  # noqa: PLR2004 - an initial
        return
    when = When.ALWAYS
    if folded in EVERYDAY:
        when = When.CALLED
    elif folded in ORDINARY:
        when = When.INSIDE
    elif len(part) <= _NAME_SHORT and not UNSPACED.match(part):
        when = When.CAPITAL
    yield Term(part, kind, when)
    expanded = part.translate(_UMLAUTS)
    if expanded != part:
        yield Term(expanded, kind, when)


def _dates(kind: str, value: str) -> Iterator[Term]:
    yield Term(value, kind)
    match = re.match(r"((?:19|20)[0-9]{2})-?([0-9]{2})-?([0-9]{2})(?![0-9])", value)
    if not match:
        return
    try:
        day = date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return
    month, short = _MONTHS[day.month - 1], _MONTHS[day.month - 1][:3]
    for name in (month, short, short + "."):
        for number in (str(day.day), f"{day.day:02}", str(day.day) + _ordinal(day.day)):
            for text in (f"{name} {number}, {{}}", f"{name} {number} {{}}", f"{number} {name} {{}}"):
                yield Term(text.format(day.year), kind)
            yield Term(f"{number} of {name} {day.year}", kind)
    for separator in "/.-":
        for first, second in ((day.day, day.month), (day.month, day.day)):
            yield Term(separator.join((str(first), str(second), str(day.year))), kind)
            yield Term(separator.join((f"{first:02}", f"{second:02}", str(day.year))), kind)
        yield Term(separator.join((str(day.year), f"{day.month:02}", f"{day.day:02}")), kind)
    yield Term(day.strftime("%Y%m%d"), kind)


def _ordinal(number: int) -> str:
    return {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}.get(number, "th")


def _phones(kind: str, value: str) -> Iterator[Term]:
    digits = re.sub(r"[^0-9]", "", value)
    if len(digits) < _PHONE_DIGITS_MIN:
        return
    yield Term(value, kind)
    yield Term(digits, kind)
    if len(digits) in {10, 11}:
        # As North America writes them.
        area, exchange, line = digits[-10:-7], digits[-7:-4], digits[-4:]
        yield Term(f"({area}) {exchange}-{line}", kind)
        for separator in " .-":
            yield Term(separator.join((area, exchange, line)), kind)


def _ids(kind: str, value: str) -> Iterator[Term]:
    word = fold(value)[0]
    if len(word) < 4 or word in EVERYDAY or word in ORDINARY:  # noqa: PLR2004 - "gold", "ok"
        return
    if word.isdigit() and len(word) < _DIGITS_MIN:
        return
    if word.isalpha() and kind == "REFERENCE" and not value.isupper():
        return
    yield Term(value, kind)
    if "_" in value:
        yield Term(value.replace("_", " "), kind)
    end = re.search(r"[^0-9]([0-9]+)\Z", value)
    if end and len(end[1]) >= _DIGITS_MIN:
        yield Term(end[1], kind)


def _numbers(kind: str, value: str) -> Iterator[Term]:
    compact = re.sub(r"[\s.\-/]", "", value)
    if len(compact) >= _DIGITS_MIN:
        yield Term(value, kind)
        yield Term(compact, kind)


def _plain(kind: str, value: str) -> Iterator[Term]:
    least = 4 if kind == "SECRET" else 5
    word = fold(value)[0]
    if (
        len(word) >= least
        and word not in EVERYDAY
        and word not in ORDINARY
        and not (
            word.isdigit() and len(word) < 5  # noqa: PLR2004 - four digits are a year
        )
    ):
        yield Term(value, kind)


_UMLAUTS: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "å": "aa", "ø": "oe"}
)
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WAYS: Final = {
    "NAME": _names,
    "BIRTH_DATE": _dates,
    "PHONE": _phones,
    "USER_ID": _ids,
    "REFERENCE": _ids,
    "NATIONAL_ID": _numbers,
    "CARD": _numbers,
    "IBAN": _numbers,
}
