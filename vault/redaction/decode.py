"""Texts inside a text: base64, hexadecimal and compressed ones, decoded within a budget.

A detector cannot read ``YWxpY2VAZXhhbXBsZS5jb20=``; this module can, says where it stands, and leaves
everything alone that does not decode to a text. What it may not decode any more, it reports as unread.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from vault.redaction.patterns import Match, linear

#: Encodings in one another that are followed; one more is unread.
DEPTH_MAX: Final = 3
#: Characters that may be decoded for each of a text: three layers of base64 need 1.8, compression more.
DECODED_PER_CHARACTER: Final = 4
DECODED_CHARACTERS_MIN: Final = 64 * 1024
#: Of a decoded text, at most one character in this many is none; binary data has far more.
_NOISE: Final = 20
_ENCODED_MIN: Final = 12  # base64 of "al@ex.com", hexadecimal of "a@b.co"
_DECODED_MIN: Final = 6  # the shortest e-mail address, "a@b.co"

# A block of several full lines (RFC 2045 §6.8, RFC 7468 §2), or one word.
_BASE64: Final = linear(
    rb"[A-Za-z0-9+/_-]{60,}(?:[ \t]*\r?\n[ \t]*[A-Za-z0-9+/_-]{4,}={0,2})+|[A-Za-z0-9+/_-]{12,}={0,2}"
)
_SPACED_HEX: Final = linear(rb"[0-9A-Fa-f]{2}(?:[ :-][0-9A-Fa-f]{2}){5,}")
_HEX: Final = re.compile(rb"(?:0[xX])?((?:[0-9A-Fa-f]{2}){6,})")
_UUID: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGIT: Final = re.compile(rb"[0-9]")
_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_CONTROL: Final = bytes(set(range(32)) - {9, 10, 13}) + b"\x7f"
_COMPRESSED: Final = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")  # RFC 1952, RFC 1950


class Encoded(NamedTuple):
    """A part ``[start, end)`` of a text that encodes ``text``; None when there was no budget to read it."""

    start: int
    end: int
    text: str | None


@dataclass(slots=True)
class Budget:
    """How many characters may still be decoded for one text; it only falls."""

    left: int

    @classmethod
    def of(cls, characters: int) -> Budget:
        """The budget of a text of so many characters."""
        return cls(DECODED_CHARACTERS_MIN + DECODED_PER_CHARACTER * characters)


def encoded_texts(data: bytes, budget: Budget) -> Iterator[Encoded]:
    """Every encoded text in ``data``, which is a `Reading.data`; spaced hexadecimal comes last."""
    if len(data) < _ENCODED_MIN:
        return
    for match in _BASE64.finditer(data):
        yield from _in_word(data, match, budget)
    if b" " in data or b":" in data:
        for match in _SPACED_HEX.finditer(data):
            raw = bytes.fromhex(re.sub(rb"[ :-]", b"", match.group()).decode("ascii"))
            yield from _as_text(raw, match.start(), match.end(), budget)


def _in_word(data: bytes, match: Match, budget: Budget) -> Iterator[Encoded]:
    """The encoded text that a word is, or else those in its lines or parts."""
    start, end = match.start(), match.end()
    word = data[start:end]
    if _UUID.fullmatch(word) or _is_plain(word):
        return
    found = list(_decoded(word, start, end, budget))
    if found:
        yield from found
        return
    # A path may hold an encoded part, and a block may end in a line that is none of it.
    at = start
    for part in re.split(rb"([\s+/_-]+)", word):
        if _ENCODED_MIN <= len(part) < len(word):
            yield from _decoded(part, at, at + len(part), budget)
        at += len(part)


def _is_plain(word: bytes) -> bool:
    """Whether a word has no mark of base64 or hexadecimal: neither a digit nor both cases of letters."""
    return (word.islower() or word.isupper()) and not _DIGIT.search(word)


def _decoded(word: bytes, start: int, end: int, budget: Budget) -> Iterator[Encoded]:
    hexadecimal = _HEX.fullmatch(word)
    if hexadecimal:
        found = list(_as_text(bytes.fromhex(hexadecimal[1].decode("ascii")), start, end, budget))
        if found:
            yield from found
            return
    compact = b"".join(word.split()).rstrip(b"=").translate(_TO_STANDARD)
    # One character too many cannot be part of it: four characters are three bytes.
    compact = compact[: len(compact) - (len(compact) % 4 == 1)]
    try:
        raw = base64.b64decode(compact + b"=" * (-len(compact) % 4))
    except binascii.Error:
        return
    yield from _as_text(raw, start, end, budget)


def _as_text(raw: bytes, start: int, end: int, budget: Budget) -> Iterator[Encoded]:
    """The bytes as a text with its place, nothing when they are not a text."""
    if raw.startswith(_COMPRESSED):
        try:
            raw = zlib.decompressobj(wbits=47).decompress(raw, budget.left + 1)
        except zlib.error:
            return
    text = _text_of(raw)
    if text is None or len(text) < _DECODED_MIN:
        return
    if len(text) > budget.left:
        budget.left = 0
        yield Encoded(start, end, None)
        return
    budget.left -= len(text)
    yield Encoded(start, end, text)


def _text_of(raw: bytes) -> str | None:
    """The bytes as UTF-8 or UTF-16, None when more than one in `_NOISE` is no part of a text."""
    if raw[1:64:2].count(0) * 4 > len(raw[1:64:2]) * 3 or raw[:2] == b"\xff\xfe":
        return raw.decode("utf-16-le", "replace").lstrip("\ufeff")
    # Random bytes fail here within the first few, before anything is copied twice.
    sample = raw[:64]
    if len(sample.translate(None, _CONTROL)) * _NOISE < len(sample) * (_NOISE - 1):
        return None
    text = raw.decode("utf-8", "replace")
    noise = text.count("\ufffd") + len(raw) - len(raw.translate(None, _CONTROL))
    return None if noise * _NOISE > len(raw) else text
