"""National identity numbers, told by a word for them nearby and, where there is one, by their check.

Nine to eleven digits pass some country's check by chance one time in ten, so none is looked for without a
word. The words and forms are in `structured_ids_forms`, the checks are python-stdnum's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Final, NamedTuple

from stdnum import get_cc_module

from vault.redaction.kinds import marked
from vault.redaction.normalise import Reading
from vault.redaction.patterns import IDEOGRAPH, Pattern, linear
from vault.redaction.spans import Span
from vault.redaction.structured_ids_forms import IDS, Id
from vault.redaction.structured_scripts import ScriptWords

_NO_WORD_BEFORE: Final = rb"(?:^|[^0-9A-Za-z\xff])"
_NO_WORD_AFTER: Final = rb"(?:[^0-9A-Za-z\xff]|$)"
# Between a word and a number without a check: signs, and the words that lead from one to the other.
_LEADING: Final = (
    rb"^[^0-9A-Za-z\xff]{1,6}"
    rb"(?:(?:number|num|no|nr|card|id|code|is|was|ist|est|es|de|on file)[^0-9A-Za-z\xff]{1,6}){0,3}"
)
_WORDS: Final = linear(
    rb"|".join(dict.fromkeys(entry.words for entry in IDS if entry.words)), ignore_case=True
)
_NEXT_WORD: Final = re.compile(rb"[0-9A-Za-z\xff]*[^0-9A-Za-z\xff]*")
# Where words have no spaces, any word before a number of this form, and then its check.
_AFTER_IDEOGRAPH: Final = linear(
    rb"\xfe{2,}[ :\xa0(]{0,3}([0-9]{17}[0-9Xx]|[0-9]{6}-[0-9]{7}|[0-9]-[0-9]{4}-[0-9]{5}-[0-9]{2}-[0-9])"
)
_IDEOGRAPH_CHECKS: Final = (("cn", "ric"), ("kr", "rrn"), ("th", "pin"))

#: Characters after the word, and before it, in which the number stands.
_AFTER: Final = 48
_BEFORE: Final = 24
_NUMBER_MAX: Final = 24
_DIGITS_MIN: Final = 5
_TEXT_MIN: Final = 9  # a word of three letters and six digits


def national_ids(reading: Reading) -> Iterator[Span]:
    """National identity, social security, tax, passport and licence numbers near a word for them."""
    data = reading.data
    if len(data) < _TEXT_MIN:
        return
    for place in _WORDS.finditer(data):
        yield from _near(data, place.start(), place.end(), _entries(place.group().lower()))
    for start, end, numbers in _script_words().find(reading):
        yield from _near(data, start, end, numbers)
    if IDEOGRAPH in data:
        for match in _AFTER_IDEOGRAPH.finditer(data):
            if any(_holds(check, match.group(1)) for check in _IDEOGRAPH_CHECKS):
                yield marked(match.start(1), match.end(1), "NATIONAL_ID")


def _near(data: bytes, start: int, end: int, numbers: Iterable[_Number]) -> Iterator[Span]:
    """The numbers beside a word that stands at ``[start, end)``: after it, or else before it."""
    after = data[end : end + _AFTER + _NUMBER_MAX]
    before = data[max(0, start - _BEFORE) : start]
    for number in numbers:
        found = _first(number, after, _AFTER)
        if found:
            yield marked(end + found[0], end + found[1], "NATIONAL_ID")
        elif number.free and (found := _first(number, before, _BEFORE)):
            offset = start - len(before)
            yield marked(offset + found[0], offset + found[1], "NATIONAL_ID")


class _Number(NamedTuple):
    form: Pattern
    check: tuple[str, str] | None
    free: bool


@cache
def _numbers() -> tuple[tuple[Pattern, _Number], ...]:
    """The words of each number, compiled, with what to look for near them."""
    return tuple((linear(entry.words, ignore_case=True), _number(entry)) for entry in IDS if entry.words)


@cache
def _number(entry: Id) -> _Number:
    free = entry.near or entry.check is not None
    before = _NO_WORD_BEFORE if free else _LEADING
    form = linear(before + rb"(" + entry.form + rb")" + _NO_WORD_AFTER, ignore_case=True)
    return _Number(form, entry.check, free)


@cache
def _script_words() -> ScriptWords[list[_Number]]:
    numbers: dict[str, list[_Number]] = {}
    for entry in IDS:
        for word in filter(None, entry.scripts.split(",")):
            numbers.setdefault(word, []).append(_number(entry))
    return ScriptWords(numbers)


@lru_cache(maxsize=512)
def _entries(word: bytes) -> tuple[_Number, ...]:
    """The numbers that a word found by ``_WORDS`` is a word for."""
    return tuple(number for words, number in _numbers() if words.search(word))


def _first(number: _Number, window: bytes, reach: int) -> tuple[int, int] | None:
    """The first number of this form in a window that begins within reach and passes its check."""
    at = 0
    while match := number.form.search(window[at:]):
        start, end = at + match.start(1), at + match.end(1)
        if start >= reach:
            return None
        if _holds(number.check, window[start:end]):
            return start, end
        if not number.free:
            return None
        # It consumes nothing but its first word: the next one may begin a number that holds.
        following = _NEXT_WORD.match(window, start)
        at = max(following.end() if following else end, start + 1) - 1
    return None


def _holds(check: tuple[str, str] | None, number: bytes) -> bool:
    if check is None:
        return sum(48 <= byte < 58 for byte in number) >= _DIGITS_MIN  # noqa: PLR2004 - ASCII digits
    return bool(_checks(*check)(number.decode("ascii")))


@cache
def _checks(country: str, name: str) -> Callable[[str], bool]:
    module = get_cc_module(country, name)
    if module is None:
        raise ValueError("python-stdnum has no such check")
    return module.is_valid
