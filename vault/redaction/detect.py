"""What is personal or secret in a text, and where: the detectors, one after the other.

The text is made plain (`normalise`), what is encoded in it is decoded within bounds (`decode`), every
detector reads the result, and what they find is marked in the original text. The same text gives the same
spans; nothing is asked of anybody else; all of it is linear in the length of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from vault.errors import LimitExceeded
from vault.redaction.decode import DEPTH_MAX, Budget, Encoded, encoded_texts
from vault.redaction.kinds import marked
from vault.redaction.normalise import read
from vault.redaction.secrets import secrets
from vault.redaction.spans import Span, resolved
from vault.redaction.structured import structured
from vault.redaction.vocabulary import Vocabulary

#: The longest text that is searched: some seconds.
TEXT_LENGTH_MAX: Final = 8 * 2**20


class Detector:
    """Finds personal data and secrets in texts; safe to share between threads.

    It never says that a text is harmless: what it does not find may still be personal, so a level is never
    lowered for it.
    """

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        """Take the words of the session whose texts will be searched."""
        self._vocabulary = vocabulary or None

    def find(self, text: str) -> list[Span]:
        """The spans of ``text``, in order, whole words, without overlaps.

        Raises:
            LimitExceeded: longer than ``TEXT_LENGTH_MAX``; hide all of it.
        """
        if len(text) > TEXT_LENGTH_MAX:
            raise LimitExceeded(f"the text is longer than {TEXT_LENGTH_MAX} characters; hide all of it")
        found = list(self._marked(text, 0, Budget.of(len(text))))
        return resolved(found, text) if found else []

    def _marked(self, text: str, depth: int, budget: Budget) -> Iterator[Span]:
        reading = read(text)
        words = self._vocabulary.find(reading.text) if self._vocabulary else ()
        found: Iterable[Span] = chain(structured(reading), secrets(reading), words)
        if reading.layers:
            found = (_moved(span, reading.back(span.start, span.end)) for span in found)
        yield from found
        if self._vocabulary and "\\" in text:
            # In a path, "\n" before "adia" is no escape but the beginning of a name.
            yield from self._vocabulary.find(text)
        for encoded in encoded_texts(reading.data, budget):
            kind = self._inside(encoded, depth, budget)
            if kind:
                yield marked(*reading.back(encoded.start, encoded.end), kind)

    def _inside(self, encoded: Encoded, depth: int, budget: Budget) -> str | None:
        """The kind of what an encoded text holds, the most severe; None when it holds nothing."""
        if encoded.text is None or depth == DEPTH_MAX:
            return "OPAQUE"
        found = list(self._marked(encoded.text, depth + 1, budget))
        return (
            max(found, key=lambda span: (span.severity, span.end - span.start, span.kind)).kind
            if found
            else None
        )


def _moved(span: Span, place: tuple[int, int]) -> Span:
    return Span(*place, span.kind, span.severity)
