"""Matching in linear time: RE2 for patterns, one Aho-Corasick automaton for the words that lead to them.

Both read what `vault.redaction.normalise` makes: one byte for each character, so that an offset in the bytes
is an offset in the text and nothing is encoded twice. Neither engine backtracks; no text makes them slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import ahocorasick  # type: ignore[import-not-found]  # an extension module without stubs
import re2  # type: ignore[import-untyped]

#: The byte that stands for a letter, digit or mark outside ASCII in a script with spaces between words.
LETTER: Final = b"\xff"
#: The byte that stands for a letter in a script without them (Han, Kana, Hangul, Thai, ...).
IDEOGRAPH: Final = b"\xfe"
#: The byte that stands for everything else outside ASCII.
OTHER: Final = b"\xa0"


class Match(Protocol):
    """What a pattern found: offsets of the whole (group 0) and of its groups; -1 for a group left out."""

    def start(self, group: int = 0) -> int:
        """The first byte."""

    def end(self, group: int = 0) -> int:
        """The byte after the last one."""

    def group(self, group: int = 0) -> bytes:
        """The bytes."""


class Pattern(Protocol):
    """A compiled RE2 pattern over bytes."""

    groups: int

    def finditer(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> Iterator[Match]:
        """Every match that does not overlap the one before, from the left."""

    def search(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> Match | None:
        """The leftmost match."""

    def fullmatch(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> Match | None:
        """The match of all of it."""


def linear(pattern: bytes, *, ignore_case: bool = False) -> Pattern:
    """A pattern in RE2's syntax over bytes, one byte a character (Latin-1).

    Raises:
        ValueError: RE2 does not take the pattern; it is never quoted.
    """
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.case_sensitive = not ignore_case
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error:
        raise ValueError("RE2 does not take this pattern") from None
    return compiled


class Keywords:
    """Which of several groups of lower-case words occur in a text, in one pass."""

    def __init__(self, groups: Sequence[Iterable[str]]) -> None:
        """Take group ``n`` as bit ``n`` of every answer."""
        bits: dict[str, int] = {}
        for number, words in enumerate(groups):
            for word in words:
                bits[word] = bits.get(word, 0) | 1 << number
        self._automaton: Any = automaton(bits.items())
        self._all = (1 << len(groups)) - 1

    def seen(self, low: str) -> int:
        """The groups with a word in ``low``, which is lower-case, as a bit mask."""
        seen = 0
        for _, bits in self._automaton.iter(low):
            seen |= bits
            if seen == self._all:
                break
        return seen


class _Nothing:
    """What finds no word; the library refuses to search without any."""

    def iter(self, low: str) -> Iterator[tuple[int, Any]]:
        """Nothing."""
        del low
        return iter(())


def automaton(words: Iterable[tuple[str, Any]]) -> Any:
    """An Aho-Corasick automaton over the words, each with what it stands for; ``iter`` gives (end, that)."""
    built = ahocorasick.Automaton()
    for word, value in words:
        built.add_word(word, value)
    if not len(built):
        return _Nothing()
    built.make_automaton()
    return built
