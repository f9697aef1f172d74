"""What a detector says: from here to here stands something of this kind."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

#: Severities, the weaker first. A span of ``SECRET`` is of the class secret: it is masked in every view but
#: the owner's own full one, and never given a pseudonym.
INDIRECT: Final = 1  # points at a person only together with other things: a date, a postcode, an IP address
PERSONAL: Final = (
    2  # points at one person by itself: an e-mail address, a phone number, a card, a national id
)
SECRET: Final = 3  # opens something: a password, a key, a token, a session cookie


class Span(NamedTuple):
    """A part of a text that a detector marks: ``text[start:end]``, in characters of the text it was given.

    ``kind`` is 1 to 32 of ``A-Z``, ``0-9`` and ``_`` (``EMAIL``, ``CARD``, ``API_KEY``): it becomes the mask
    ``[EMAIL]`` and the type of the pseudonym. ``severity`` is one of the three above.
    """

    start: int
    end: int
    kind: str
    severity: int


def resolved(found: Iterable[Span], text: str, *, skip: int = 0) -> list[Span]:
    """Spans of ``text`` in order, without overlaps, each widened to whole words.

    Whatever any span marks is in one of them: overlapping ones become one, with the kind of the longest (of
    equals the most severe) and the highest severity. ``skip`` is how many characters stood before ``text``
    when it was searched; what was found only there is left out.

    Raises:
        ValueError: a span is empty or not of this text, so the detector cannot be trusted with it.
    """
    edges = _Edges(text)
    marked: list[tuple[int, int, tuple[int, int, str], int]] = []
    for start, end, kind, severity in sorted(found):
        if not 0 <= start < end <= len(text) + skip:
            raise ValueError("a detector marked what is not there")
        if end <= skip:
            continue
        begin, stop, rank, most = max(start - skip, 0), end - skip, (end - start, severity, kind), severity
        # Inside the one before there is nothing to widen, so that many spans in one long word cost no more.
        if not marked or stop > marked[-1][1]:
            begin, stop = edges.widened(begin, stop)
        if marked and begin < marked[-1][1]:
            before = marked.pop()
            begin, stop = min(begin, before[0]), max(stop, before[1])
            rank, most = max(rank, before[2]), max(most, before[3])
        marked.append((begin, stop, rank, most))
    return [Span(begin, stop, rank[2], severity) for begin, stop, rank, severity in marked]


# Scripts that put no space between words: there a word's end is not seen, and whole sentences would go.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
# What belongs to a word without being a letter: combining marks, soft hyphen, zero-width signs.
_JOINING = "\u00ad\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff\u200b-\u200f\u2060\ufeff"
_WORD: Final = re.compile(f"(?:[^\\W{_UNSPACED}]|[{_JOINING}])*+")


class _Edges:
    """Finds where the words around a span end, without walking over the text in Python."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._reversed: str | None = None

    def widened(self, start: int, end: int) -> tuple[int, int]:
        if self._reversed is None:
            self._reversed = self._text[::-1]
        before = _WORD.match(self._reversed, len(self._text) - start)
        after = _WORD.match(self._text, end)
        # The pattern matches the empty string, so there always is a match.
        return start - (before.end() - before.start() if before else 0), after.end() if after else end
