"""Numbers with a check: payment cards and bank accounts.

A candidate that fails its check consumes nothing: in ``2026 4111 1111 1111 1111`` every group of digits is
tried as the beginning of a card.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Final

from stdnum import iban, numdb

from vault.redaction.kinds import marked
from vault.redaction.patterns import linear
from vault.redaction.spans import Span

DIGITS_MIN: Final = 12
DIGITS_MAX: Final = 19  # ISO/IEC 7812-1

_ANY: Final = tuple(range(DIGITS_MIN, DIGITS_MAX + 1))
_LONG: Final = (16, 17, 18, 19)
# First digits, from and to, and the lengths that are issued: the schemes' published ranges (ISO/IEC 7812
# registrations as the schemes document them). Left out is what is no payment card or was never issued.
_SCHEMES: Final = (
    ("0604", "0604", _ANY),  # Maestro
    ("1", "1", (15,)),  # UATP; JCB, old (1800)
    ("1946", "1946", (16,)),  # GPN
    ("2131", "2131", (15,)),
    ("2200", "2205", _LONG),  # Mir, BORICA
    ("2221", "2720", (16,)),  # Mastercard, 2-series
    ("300", "305", (14, 16, 19)),  # Diners Club
    ("3095", "3095", (14, 16, 19)),
    ("34", "34", (15,)),  # American Express
    ("35", "35", (16,)),  # JCB from 3528 to 3589; RuPay, LankaPay; the rest is nobody's
    ("36", "36", (14, 16, 19)),  # Diners Club
    ("37", "37", (15,)),
    ("38", "39", (14, 16, 19)),
    ("4", "4", (13, 16, 19)),  # Visa; Elo, Dankort, Switch within
    ("4903", "4936", (16, 18, 19)),  # Switch
    ("50", "50", _ANY),  # Maestro; Elo, RuPay, Verve within
    ("51", "55", (16,)),  # Mastercard
    ("56", "58", _ANY),  # Maestro
    ("60", "60", (16,)),  # RuPay, Hipercard
    ("6011", "6011", _LONG),  # Discover
    ("62", "62", _LONG),  # UnionPay
    ("63", "63", _ANY),  # Maestro, InstaPayment, Elo
    ("644", "659", _LONG),  # Discover, RuPay, Troy
    ("67", "67", _ANY),  # Maestro
    ("81", "82", _LONG),  # UnionPay, RuPay
    ("8600", "8600", (16,)),  # Uzcard
    ("9704", "9704", (16, 19)),  # Napas
    ("9792", "9792", (16,)),  # Troy
    ("9860", "9860", (16,)),  # Humo
)

_BY_FIRST_DIGIT: Final = tuple(tuple(s for s in _SCHEMES if s[0][0] == str(digit)) for digit in range(10))

_RUN: Final = linear(rb"[0-9](?:[ \t\r\n.\-_/+]{0,3}[0-9]){11,}")
_GROUP: Final = re.compile(rb"[0-9]+")
_CARD_WORDS: Final = linear(
    rb"card|\bpan\b|visa|maestro|amex|american express|diners|discover|\bjcb\b|union ?pay|\bcc\b|\bcc[-_ ]?n|"
    rb"kreditkarte|karte|carte|tarjeta|cart[a\xff]o|carta di credito",
    ignore_case=True,
)
_CONTEXT: Final = 60  # characters before a number that are read for what it is
_SPLIT_MAX: Final = 64  # groups after a word for card that are tried in every way
_GROUP_MIN: Final = 4  # digits of a group that is one of several, when no word says card
_LENGTH_AMONG_OTHERS: Final = 14
_DOUBLE_DIGITS: Final = 17  # significant digits of a binary64 number (IEEE 754-2019 §5.12.2)
_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
_HEX_WORD_MIN: Final = 20
_WORD_BEFORE: Final = re.compile(rb"[0-9A-Za-z\xff]*\Z")
_WORD_AFTER: Final = re.compile(rb"[0-9A-Za-z\xff]*")
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID_LENGTH: Final = 36
_HEX_WORD: Final = re.compile(rb"(?=.*[a-fA-F])[0-9a-fA-F]+")

_IBAN_START: Final = linear(rb"(?:^|[^0-9A-Za-z\xff])([A-Za-z]{2}[ .-]?[0-9][ .-]?[0-9])")
_IBAN_CHARACTERS_MIN: Final = 15  # Norway
_IBAN_CHARACTERS_MAX: Final = 34  # ISO 13616-1
_IBAN_GAPS: Final = b" ._-\t"
_IBAN_DIGITS: Final = {65 + n: str(10 + n) for n in range(26)}  # ISO 13616-1: A is 10
_IBAN_REST: Final = re.compile(rb"(?:[ ._\-\t]{0,2}[0-9A-Za-z])*")


def cards(data: bytes) -> Iterator[Span]:
    """Payment card numbers: a known scheme, a length it issues, a Luhn check that holds.

    Digits may be grouped by spaces, dots, dashes, slashes. How they are grouped must be how a card is
    written, unless a word before says that it is one.
    """
    if len(data) < DIGITS_MIN:
        return
    for match in _RUN.finditer(data):
        groups = [(g.start(), g.end()) for g in _GROUP.finditer(data, match.start(), match.end())]
        yield from _cards_in(data, groups)


def _cards_in(data: bytes, groups: Sequence[tuple[int, int]]) -> Iterator[Span]:
    said = _CARD_WORDS.search(data, max(0, groups[0][0] - _CONTEXT), groups[0][0]) is not None
    taken = 0
    for first, (start, end) in enumerate(groups):
        known = said and first < _SPLIT_MAX
        # Short groups in a row are a table of numbers, unless they are all of it.
        if start < taken or (end - start < _GROUP_MIN and first > 0 and not known):
            continue
        last = _card_at(data, groups, first, known=known)
        if last is not None:
            taken = groups[last][1]
            yield marked(start, taken, "CARD")


def _card_at(data: bytes, groups: Sequence[tuple[int, int]], first: int, *, known: bool) -> int | None:
    """The last group of the longest card that begins with group ``first``, None when there is none."""
    digits, found = b"", None
    for last in range(first, len(groups)):
        digits += data[slice(*groups[last])]
        if len(digits) > DIGITS_MAX:
            break
        if (
            len(digits) >= DIGITS_MIN
            and is_card(digits)
            and (known or _is_written_as_card(data, groups, first, last))
        ):
            found = last
    return found


def is_card(digits: bytes) -> bool:
    """Whether ASCII digits are a number that a card may have: scheme, length and Luhn check."""
    length, text = len(digits), digits.decode("ascii")
    schemes = _BY_FIRST_DIGIT[digits[0] - 48]
    if not any(length in lengths and low <= text[: len(low)] <= high for low, high, lengths in schemes):
        return False
    # ISO/IEC 7812-1 annex B: from the right, every second digit doubled, its digits added.
    odd, even = digits[::-2], digits[-2::-2]
    return (sum(odd) - 48 * len(odd) + sum(_DOUBLED[digit - 48] for digit in even)) % 10 == 0


def _is_written_as_card(data: bytes, groups: Sequence[tuple[int, int]], first: int, last: int) -> bool:
    sizes = [end - start for start, end in groups[first : last + 1]]
    gaps = {data[groups[n][1] : groups[n + 1][0]] for n in range(first, last)}
    if len(sizes) == 1:
        return not _is_fraction(data, groups, first) and not _is_in_hex(data, *groups[first])
    if (len(gaps) > 1 and any(len(gap) > 1 for gap in gaps)) or any(
        set(gap) & set(b"\t\r\n") for gap in gaps
    ):
        return False
    if _is_in_uuid(data, groups[first][0], groups[last][1]):
        return False
    if len(sizes) == 2 and gaps == {b"."}:  # noqa: PLR2004 - a whole part and a fraction
        return False
    whole_run = first == 0 and last == len(groups) - 1
    if all(size >= _GROUP_MIN for size in sizes[:-1]):
        # Among other numbers, three groups of four pass by chance more often than they are a card.
        return whole_run or sum(sizes) >= _LENGTH_AMONG_OTHERS
    return whole_run and len(set(sizes[:-1])) == 1 and sizes[-1] <= sizes[0]


def _is_fraction(data: bytes, groups: Sequence[tuple[int, int]], at: int) -> bool:
    """Whether a group is the decimals of a floating-point number: 0.4111111111111111 is no card."""
    start, end = groups[at]
    if data[start - 1 : start] != b".":
        return False
    whole = re.search(rb"[0-9]{1,6}\Z", data[max(0, start - 7) : start - 1])
    return whole is not None and len(whole[0].lstrip(b"0")) + end - start <= _DOUBLE_DIGITS


def _is_in_hex(data: bytes, start: int, end: int) -> bool:
    """Whether digits are part of a longer hexadecimal word, such as a digest."""
    before = _WORD_BEFORE.search(data[max(0, start - 64) : start])
    after = _WORD_AFTER.match(data[end : end + 64])
    word = (before[0] if before else b"") + data[start:end] + (after[0] if after else b"")
    return len(word) >= _HEX_WORD_MIN and _HEX_WORD.fullmatch(word) is not None


def _is_in_uuid(data: bytes, start: int, end: int) -> bool:
    around = max(0, start - _UUID_LENGTH)
    return any(
        around + uuid.start() < end and start < around + uuid.end()
        for uuid in _UUID.finditer(data[around : end + _UUID_LENGTH])
    )


def ibans(data: bytes) -> Iterator[Span]:
    """International bank account numbers: a country's length, then its structure and ISO 7064 mod 97-10."""
    taken = 0
    if len(data) < _IBAN_CHARACTERS_MIN:
        return
    for match in _IBAN_START.finditer(data):
        start = match.start(1)
        length = _iban_lengths().get(data[start : start + 2].upper())
        if length is None or start < taken:
            continue
        rest = _IBAN_REST.match(data[start : start + 3 * _IBAN_CHARACTERS_MAX])
        end = _iban_end(data, start, rest.end() if rest else 0, length)
        if end is not None:
            taken = end
            yield marked(start, end, "IBAN")


def _iban_end(data: bytes, start: int, reach: int, length: int) -> int | None:
    """Where the account number that begins at ``start`` ends, None when it is none."""
    number = data[start : start + reach].translate(None, _IBAN_GAPS)[:length].decode("ascii").upper()
    # The remainder first, which rules out 96 of 97; the country's inner checks not at all: an account with
    # a wrong one is still an account.
    if len(number) < length or int((number[4:] + number[:4]).translate(_IBAN_DIGITS)) % 97 != 1:
        return None
    if not iban.is_valid(number, check_country=False):
        return None
    places = (at for at in range(start, start + reach) if data[at] not in _IBAN_GAPS)
    end = next(islice(places, length - 1, None)) + 1
    return None if data[end : end + 1].isalnum() else end


@cache
def _iban_lengths() -> dict[bytes, int]:
    """The length of an account number by country, from the registry of ISO 13616 that stdnum carries."""
    registry, lengths = numdb.get("iban"), {}
    for first in range(26):
        for second in range(26):
            country = chr(65 + first) + chr(65 + second)
            for _, entry in registry.info(country + "00"):
                if "bban" in entry:
                    lengths[country.encode()] = 4 + sum(int(n) for n in re.findall(r"[0-9]+", entry["bban"]))
    return lengths
