"""Words in other scripts than Latin: in `Reading.data` they are not told apart, so its text is read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from vault.redaction.normalise import UNSPACED, Reading

T = TypeVar("T")

#: A character behind Latin and the marks that go with it.
_NO_LATIN: Final = re.compile("[\u0370-\u1dff\u1f00-\u1fff\u2e80-\uffff]")


class ScriptWords(Generic[T]):
    """Whole words, each with what it stands for; as written here, in capitals, or with one at its beginning.

    Linear: the words are literal, and the longest one at a place is taken.
    """

    def __init__(self, words: Mapping[str, T]) -> None:
        """Take the words in lower case."""
        spelled = {way: value for word, value in words.items() for way in _ways(word)}
        self._meaning = spelled
        self._words = re.compile("|".join(re.escape(word) for word in sorted(spelled, key=len, reverse=True)))

    def find(self, reading: Reading) -> Iterator[tuple[int, int, T]]:
        """Where each word begins and ends, and what it stands for."""
        text = reading.text
        if text.isascii() or not _NO_LATIN.search(text):
            return
        for match in self._words.finditer(text):
            start, end = match.span()
            if _ends(text[start - 1 : start], text[start]) and _ends(text[end : end + 1], text[end - 1]):
                yield start, end, self._meaning[match[0]]


def _ways(word: str) -> Iterable[str]:
    # Capitals are written without accents in some languages, in Greek for one.
    bare = "".join(c for c in unicodedata.normalize("NFD", word.upper()) if unicodedata.category(c) != "Mn")
    return {word, word.upper(), unicodedata.normalize("NFC", bare), word[0].upper() + word[1:], word.title()}


def _ends(beside: str, last: str) -> bool:
    """Whether a word ends between its own last character and the one beside it."""
    return not beside.isalpha() or bool(UNSPACED.match(last)) or bool(UNSPACED.match(beside))
