"""Texts that arrive in parts: a name or a token may begin in one part and end in the next.

`find_across` searches parts that are all there. `Held` searches a stream while it runs: it gives out a text
only when what follows can no longer change what it says, and holds back a bounded rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from vault.redaction.kinds import marked
from vault.redaction.spans import Span, resolved

Finder = Callable[[str], Sequence[Span]]

#: Characters that are held back: longer than anything with a space in it that is found, a spelled-out seed of
#: 24 words (216) or a street with its postcode. Words and marked spans are held whole, however long.
HOLD_LENGTH: Final = 512
#: Held at most; a word or span that is longer is marked as far as it is known, and to its end.
HELD_LENGTH_MAX: Final = 64 * 1024
_STEP: Final = 512  # new characters before the text is searched again
_CONTEXT: Final = 256  # characters before the held text that are searched with it


class Piece(NamedTuple):
    """A part of a stream that may be shown once its spans are hidden; the pieces together are the stream."""

    text: str
    spans: tuple[Span, ...]


def find_across(find: Finder, parts: Sequence[str]) -> list[list[Span]]:
    """The spans of each part, found in the parts by themselves and in all of them joined.

    Raises:
        LimitExceeded: joined they are longer than the finder takes.
    """
    joined = "".join(parts)
    found, offset, offsets = list(find(joined)), 0, []
    for part in parts:
        # By itself too: joined, the digits of two parts may hide each other.
        found += (span._replace(start=span.start + offset, end=span.end + offset) for span in find(part))
        offsets.append(offset)
        offset += len(part)
    spans = resolved(found, joined)
    return [list(_between(spans, at, at + len(part))) for at, part in zip(offsets, parts, strict=True)]


def _between(spans: Sequence[Span], start: int, end: int) -> Iterator[Span]:
    """What the spans mark in ``[start, end)``, as offsets in it."""
    for span in spans:
        first, last = max(span.start, start), min(span.end, end)
        if first < last:
            yield span._replace(start=first - start, end=last - start)


class Held:
    """A stream of text in which things are found across its parts; for one stream and one thread.

    A part comes out once `HOLD_LENGTH` characters follow it, and never cut inside a word or a span.
    """

    def __init__(self, find: Finder) -> None:
        """Search with ``find``, which gets at most `HELD_LENGTH_MAX` characters and a little more at once."""
        self._find = find
        self._context = ""
        self._held = ""
        self._search_at = HOLD_LENGTH + _STEP
        self._open: str | None = None

    def push(self, part: str) -> list[Piece]:
        """Take a part; gives what may be shown now, which may be nothing."""
        pieces = []
        # In steps, so that one large part is not searched as a whole either.
        for at in range(0, len(part), HELD_LENGTH_MAX):
            self._held += part[at : at + HELD_LENGTH_MAX]
            pieces += self._closed_word()
            while len(self._held) >= self._search_at:
                piece = self._release(len(self._held) - HOLD_LENGTH)
                if piece is None:
                    break
                pieces.append(piece)
        return pieces

    def close(self) -> list[Piece]:
        """The rest, when nothing follows any more."""
        pieces = self._closed_word()
        if self._held:
            pieces.append(self._cut(len(self._held), self._spans()))
        return pieces

    def _spans(self) -> Sequence[Span]:
        return self._find(self._context + self._held)

    def _release(self, end: int) -> Piece | None:
        """The held text up to the last place at or before ``end`` where it may be cut; None when none is."""
        spans, offset = self._spans(), len(self._context)
        cut = end
        while cut > 0:
            crossing = next((s for s in spans if s.start < cut + offset < s.end), None)
            if crossing:
                cut = crossing.start - offset
            elif not self._held[cut - 1].isspace():
                cut = next((at for at in range(cut - 1, 0, -1) if self._held[at - 1].isspace()), 0)
            else:
                break
        if cut > 0:
            self._search_at = HOLD_LENGTH + _STEP
            return self._cut(cut, spans)
        if len(self._held) < HELD_LENGTH_MAX:
            # Searched again only at twice the length, so that a long word costs no more than its length.
            self._search_at = min(2 * len(self._held), HELD_LENGTH_MAX)
            return None
        self._open = next((s.kind for s in spans if s.start <= offset < s.end), "OPAQUE")
        self._search_at = HOLD_LENGTH + _STEP
        return self._cut(len(self._held), [marked(offset, offset + len(self._held), self._open)])

    def _cut(self, at: int, spans: Sequence[Span]) -> Piece:
        text, offset = self._held[:at], len(self._context)
        piece = Piece(text, tuple(_between(spans, offset, offset + at)))
        self._context = (self._context + text)[-_CONTEXT:]
        self._held = self._held[at:]
        return piece

    def _closed_word(self) -> list[Piece]:
        """The rest of a word that was too long to be held: hidden as its beginning was."""
        if self._open is None or not self._held:
            return []
        end = next((at for at, c in enumerate(self._held) if c.isspace()), len(self._held))
        kind = self._open
        if end < len(self._held):
            self._open = None
        offset = len(self._context)
        return [self._cut(end, [marked(offset, offset + end, kind)])] if end else []
