"""One way of writing for every text, with the way back: what detectors read instead of the original.

``alice%40example.com``, a card in Arabic-Indic digits, an address with a zero-width space in it: each is a
plain text written differently. A `Reading` has it plain, and maps a span in it to the span in the original
that says the same.
"""

from __future__ import annotations

import html.entities
import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from vault.redaction.patterns import IDEOGRAPH, LETTER, OTHER

#: Rounds of unescaping. One round undoes the same escape at any depth (``%252540``, ``\\\\\\u0040``), so this
#: bounds only different escapes in one another (a percent-encoded HTML entity in a JSON string: three).
ROUNDS_MAX: Final = 3

#: Different characters that are looked for one by one, each at the speed of memory.
_SEARCHED_MAX: Final = 32
_BEYOND_ASCII: Final = re.compile("[^\x00-\x7f]+")

_TAGS: Final = range(0xE0020, 0xE007F)  # Unicode 16 §23.9: invisible copies of ASCII
# Invisible although no format character (Default_Ignorable_Code_Point), and overlays that strike through.
_INVISIBLE: Final = frozenset(
    chr(point)
    for first, last in (
        (0x334, 0x338),
        (0x34F, 0x34F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x20D0, 0x20FF),
        (0xFE00, 0xFE0F),
        (0xE0100, 0xE01EF),
    )
    for point in range(first, last + 1)
)
_PLAIN: Final = {
    "\x85": "\n",
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u2212": "-",
    "\u3002": ".",  # IDNA 2008 mapping (RFC 5895 §2): the ideographic full stop separates labels
}
_BY_CATEGORY: Final = {"Cf": "", "Pd": "-", "Zs": " ", "Zl": "\n", "Zp": "\n"}

# Scripts that put no space between words: there, a neighbouring letter is no part of the same word.
UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u0f00-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u31ff\u3400-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b2ff\U00020000-\U0003ffff]"
)

# Linear in the standard engine: each begins with a run of its sign that is taken whole, and a backslash or an
# ampersand is never tried twice because the pattern matches there in any case, as an escape or as nothing.
_BACKSLASH: Final = re.compile(
    r"\\\\*+(?:"
    r"u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\{1,64}u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u(?P<u>[0-9a-fA-F]{4})|u\{(?P<braced>[0-9a-fA-F]{1,6})\}|U(?P<long>[0-9a-fA-F]{8})"
    r"|x(?P<x>[0-9a-fA-F]{2})|(?P<letter>[nrtbfv/\"'`]))?"
)
_NEXT_BYTE: Final = r"%(?:25)*[89abAB][0-9a-fA-F]"
_PERCENT: Final = re.compile(
    rf"%(?:25)*(?:(?P<ascii>[0-7][0-9a-fA-F])|(?P<utf8>[cCdD][0-9a-fA-F]{_NEXT_BYTE}"
    rf"|[eE][0-9a-fA-F](?:{_NEXT_BYTE}){{2}}|[fF][0-4](?:{_NEXT_BYTE}){{3}}))"
)
_ENTITY: Final = re.compile(
    r"&(?P<amp>(?:amp;)++)?(?:#(?P<decimal>[0-9]{2,7});?|#[xX](?P<hex>[0-9a-fA-F]{2,6});?"
    r"|(?P<name>[A-Za-z][A-Za-z0-9]{1,30};))?"
)
_ESCAPES: Final = (("\\", _BACKSLASH), ("%", _PERCENT), ("&", _ENTITY))
_LETTERS: Final = {"n": "\n", "r": "\n", "t": "\t", "b": " ", "f": " ", "v": " "}
_SURROGATES: Final = range(0xD800, 0xE000)
_PERCENT_SIGN: Final = re.compile(r"%(?:25)*")

_SPACES: Final = "\t\n\r\v\f"
_LONE: Final = "surrogatepass"
_RUN_OF_SPACES: Final = re.compile(" {2,}")
_NO_DECOMPOSITION: Final = {
    "ø": "o",
    "Ø": "o",
    "ł": "l",
    "Ł": "l",
    "đ": "d",
    "Đ": "d",
    "\u0131": "i",
    "æ": "ae",
    "Æ": "ae",
}


class Layer(NamedTuple):
    """Where a text was rewritten: of the old ``[old_start, old_end)`` came the new ``[new_start, new_end)``.

    One entry an edit, in order; between two edits the texts are the same, character by character.
    """

    new_start: list[int]
    new_end: list[int]
    old_start: list[int]
    old_end: list[int]

    def back(self, start: int, end: int) -> tuple[int, int]:
        """The span of the old text that ``[start, end)``, which is not empty, was made of."""
        edit = bisect_right(self.new_start, start) - 1
        if edit >= 0:
            inside = start < self.new_end[edit]
            start = self.old_start[edit] if inside else self.old_end[edit] + start - self.new_end[edit]
        edit = bisect_right(self.new_start, end - 1) - 1
        if edit >= 0:
            inside = end - 1 < self.new_end[edit]
            end = self.old_end[edit] if inside else self.old_end[edit] + end - self.new_end[edit]
        return start, end


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A text as detectors read it.

    ``text`` is plain: NFKC, without invisible characters, ASCII digits, spaces and dashes, nothing escaped.
    ``data`` is the same with one byte a character: ASCII as it is, and for the rest one of the three bytes of
    `vault.redaction.patterns`. ``low`` is ``data`` in lower case, as a string.
    """

    text: str
    data: bytes
    low: str
    layers: tuple[Layer, ...]

    def back(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original text that says what ``text[start:end]`` says."""
        for layer in reversed(self.layers):
            start, end = layer.back(start, end)
        return start, end


def read(text: str) -> Reading:
    """The text made plain, in time linear in its length and at most ``ROUNDS_MAX`` rounds of unescaping."""
    if text.isascii() and not any(sign in text for sign, _ in _ESCAPES):
        return Reading(text=text, data=text.encode("ascii"), low=text.lower(), layers=())
    layers: list[Layer] = []
    text = _apply(text, _unicode_edits(text), layers)
    for _ in range(ROUNDS_MAX):
        unescaped = text
        for sign, escape in _ESCAPES:
            if sign in unescaped:
                unescaped = _apply(unescaped, _escape_edits(unescaped, escape), layers)
        if unescaped == text:
            break
        text = _apply(unescaped, _unicode_edits(unescaped), layers)
    data = as_bytes(text)
    return Reading(text=text, data=data, low=data.lower().decode("latin-1"), layers=tuple(layers))


def fold(text: str) -> tuple[str, tuple[Layer, ...]]:
    """A plain text for comparing words: lower case, no accents, every run of white space one space.

    Returns the folded text, and its layers in the order in which they were laid.
    """
    layers: list[Layer] = []
    for space in _SPACES:
        if space in text:
            text = text.replace(space, " ")
    if "  " in text:
        text = _apply(text, ((m.start(), m.end(), " ") for m in _RUN_OF_SPACES.finditer(text)), layers)
    if text.isascii():
        return text.lower(), tuple(layers)
    folding = {c: folded for c in set(text) if c > "\x7f" and (folded := _folded(c)) != c}
    longer = {c: folded for c, folded in folding.items() if len(folded) != 1}
    if longer:
        text = _apply(text, _edits(text, longer), layers)
        for c in longer:
            del folding[c]
    # In UTF-8 no byte of another character is an ASCII letter.
    return _exchanged(text, folding, _FOLDING).encode("utf-8", _LONE).lower().decode("utf-8", _LONE), tuple(
        layers
    )


def as_bytes(text: str) -> bytes:
    """One byte for each character, as `Reading.data` says."""
    if text.isascii():
        return text.encode("ascii")
    return _exchanged(text, _changes(text, _BYTES), _BYTES).encode("latin-1")


def _changes(text: str, table: dict[int, str]) -> dict[str, str]:
    return {c: new for c in set(text) if c > "\x7f" and (new := table[ord(c)]) != c}


def _exchanged(text: str, changed: dict[str, str], table: dict[int, str]) -> str:
    """The text with single characters for single ones: few are looked for one by one, many in the table."""
    if len(changed) > _SEARCHED_MAX or not changed.keys().isdisjoint(changed.values()):
        return text.translate(table)
    for character, new in changed.items():
        text = text.replace(character, new)
    return text


def _apply(text: str, edits: Iterable[tuple[int, int, str]], layers: list[Layer]) -> str:
    """The text with the edits, which are in order and do not overlap; a layer is added when there are any."""
    edits = list(edits)
    if not edits:
        return text
    new_start, new_end, parts = [], [], []
    done = length = 0
    for start, end, new in edits:
        parts.append(text[done:start])
        parts.append(new)
        length += start - done
        new_start.append(length)
        length += len(new)
        new_end.append(length)
        done = end
    parts.append(text[done:])
    layers.append(Layer(new_start, new_end, [edit[0] for edit in edits], [edit[1] for edit in edits]))
    return "".join(parts)


def _edits(text: str, changed: dict[str, str]) -> Iterable[tuple[int, int, str]]:
    """The edits that change these single characters."""
    if len(changed) > _SEARCHED_MAX:
        return (
            (at, at + 1, changed[text[at]])
            for run in _BEYOND_ASCII.finditer(text)
            for at in range(*run.span())
            if text[at] in changed
        )
    edits = []
    for character, new in changed.items():
        at = text.find(character)
        while at >= 0:
            edits.append((at, at + 1, new))
            at = text.find(character, at + 1)
    edits.sort()
    return edits


def _unicode_edits(text: str) -> Iterable[tuple[int, int, str]]:
    if text.isascii():
        return ()
    return _edits(text, {c: plain for c in set(text) if c > "\x7f" and (plain := _plain(c)) != c})


@lru_cache(maxsize=2**14)
def _plain(character: str) -> str:
    """What a character says in plain writing; most say themselves."""
    if ord(character) in _TAGS:
        return chr(ord(character) - _TAGS.start + 0x20)
    if character in _INVISIBLE:
        return ""
    decimal = unicodedata.decimal(character, None)
    if decimal is not None:
        return str(decimal)
    special = _PLAIN.get(character, _BY_CATEGORY.get(unicodedata.category(character)))
    if special is not None:
        return special
    compatible = unicodedata.normalize("NFKC", character)
    if compatible == character:
        return character
    return "".join(_plain(part) if part > "\x7f" else part for part in compatible)


def _escape_edits(text: str, escape: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
    for match in escape.finditer(text):
        if match.lastgroup == "letter":
            letter = match["letter"]
            yield *match.span(), _LETTERS.get(letter, letter)
        elif match.lastgroup:
            new = _unescaped(match)
            if new is not None:
                yield *match.span(), new


def _unescaped(match: re.Match[str]) -> str | None:
    """What an escape stands for, None when it stands for nothing."""
    kind = match.lastgroup
    if kind == "amp":
        return "&"
    if kind == "low":
        return chr(0x10000 + (int(match["high"], 16) - 0xD800) * 0x400 + int(match["low"], 16) - 0xDC00)
    if kind == "utf8":
        try:
            return bytes.fromhex(_PERCENT_SIGN.sub("", match["utf8"])).decode()
        except UnicodeDecodeError:
            return None
    if kind == "name":
        return html.entities.html5.get(match["name"])
    number = int(match[kind or 0], 10 if kind == "decimal" else 16)
    return chr(number) if number <= sys.maxunicode and number not in _SURROGATES else None


class _Table(dict[int, str]):
    """A table for `str.translate` that works out a character when it first meets it."""

    def __init__(self, of: Callable[[str], str]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, point: int) -> str:
        # Bounded by the number of Unicode characters, and holds nothing about any text.
        self[point] = answer = self._of(chr(point))
        return answer


def _byte(character: str) -> str:
    if character < "\x80":
        return character
    if UNSPACED.match(character):
        return IDEOGRAPH.decode("latin-1")
    # Letters, marks and numbers: a combining mark belongs to the letter before it.
    return (LETTER if unicodedata.category(character)[0] in "LMN" else OTHER).decode("latin-1")


@lru_cache(maxsize=2**14)
def _folded(character: str) -> str:
    """A character in lower case without its accents; may be several, or none for an accent by itself."""
    if character in _NO_DECOMPOSITION:
        return _NO_DECOMPOSITION[character]
    if UNSPACED.match(character):
        return character
    decomposed = unicodedata.normalize("NFKD", character.casefold())
    return "".join(part for part in decomposed if unicodedata.category(part) != "Mn")


_BYTES: Final = _Table(_byte)
_FOLDING: Final = _Table(lambda character: folded if len(folded := _folded(character)) == 1 else character)
