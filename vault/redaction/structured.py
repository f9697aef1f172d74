"""E-mail addresses, IP addresses and phone numbers: what is told by its own form.

Cards and bank accounts are in `structured_numbers`; what only its context tells, in `structured_context`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

import phonenumbers

from vault.redaction.kinds import marked
from vault.redaction.normalise import Reading
from vault.redaction.patterns import linear
from vault.redaction.spans import Span
from vault.redaction.structured_context import by_context
from vault.redaction.structured_numbers import cards, ibans

# --------------------------------------------------------------------------------------- e-mail addresses

# RFC 5322 §3.4.1 with RFC 6531 for other scripts. Where words have no spaces between them, an address does
# not begin or end inside one. "=40" is @ in quoted-printable (RFC 2045 §6.7).
_LOCAL_CHARACTERS: Final = rb"[A-Za-z0-9._%&~!#$*^\xff-]+"
_LOCAL: Final = (
    rb"(?:" + _LOCAL_CHARACTERS + rb"(?:'" + _LOCAL_CHARACTERS + rb")*(?:\+[A-Za-z0-9._=+\xff-]*)?"
    rb"|\xfe[\xfe0-9._-]*|\"[^\"\r\n@]{1,62}\")"
)
_LABEL: Final = rb"(?:[A-Za-z0-9\xff](?:[A-Za-z0-9\xff-]*[A-Za-z0-9\xff])?|\xfe+)"
_TOP: Final = rb"(?:[Xx][Nn]--[A-Za-z0-9-]+|[A-Za-z\xff]{2,63}|\xfe{2,63})"
_EMAIL: Final = linear(
    _LOCAL + rb"(?:@|=40)(?:(?:" + _LABEL + rb"\.)+" + _TOP + rb"|\[[0-9A-Fa-f.:IPv]{3,45}\])"
)
# For people only: "alice [at] example [dot] com" with any top, "alice at example dot com" with a known one.
_DOT: Final = rb" ?[(\[{<] ?(?:dot|\.) ?[)\]}>] ?"
_SPELLED: Final = linear(
    rb"[A-Za-z0-9._+-]+(?: ?[(\[{<] ?(?:at|@) ?[)\]}>] ?[A-Za-z0-9-]+(?:(?:"
    + _DOT
    + rb"| dot |\.)[A-Za-z0-9-]+){0,3}"
    rb"(?:" + _DOT + rb"| dot |\.)[A-Za-z]{2,24}"
    rb"|@[A-Za-z0-9-]+(?:" + _DOT + rb"[A-Za-z0-9-]+){1,3}"
    rb"| (?:at|@) [A-Za-z0-9-]+(?: dot [A-Za-z0-9-]+){0,2} dot "
    rb"(?:com|org|net|edu|gov|info|co|io|de|fr|uk|eu|us|ch|nl|es|ca|au|jp|cn|br|ru|pl|se|no))\b",
    ignore_case=True,
)
_SPELLED_SIGN: Final = re.compile(r"[(\[{<] ?(?:at|@|dot|\.) ?[)\]}>]| dot ")
# A picture for dense screens, "icon@2x.png", and the account of a code host, "git@host:path".
_NO_EMAIL: Final = re.compile(rb".*@[0-9](?:\.[0-9])?x\.[a-z]{3,4}|git@.*")


def emails(data: bytes, low: str) -> Iterator[Span]:
    """E-mail addresses, international ones and those spelled "alice at example dot com" among them."""
    if b"@" in data or b"=40" in data:
        for match in _EMAIL.finditer(data):
            if not _NO_EMAIL.fullmatch(match.group()):
                yield marked(match.start(), match.end(), "EMAIL")
    if _SPELLED_SIGN.search(low):
        for match in _SPELLED.finditer(data):
            yield marked(match.start(), match.end(), "EMAIL")


# ------------------------------------------------------------------------------------------- IP addresses

_IPV4: Final = linear(rb"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_IPV6: Final = linear(
    rb"(?:[0-9A-Fa-f]{1,4}:){2,7}(?:[0-9A-Fa-f]{1,4}|:(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,5})?)"
    rb"(?::[0-9]{1,3}(?:\.[0-9]{1,3}){3}|(?:\.[0-9]{1,3}){3})?"
    rb"|(?:[0-9A-Fa-f]{1,4})?::(?:[0-9A-Fa-f]{1,4}:){0,5}(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{1,4})"
)
_DOTS_OF_IPV4: Final = 3
_COLONS_MIN: Final = 2
_GROUPS_SURE: Final = 5
_VERSION: Final = re.compile(
    rb"(?:version|release|build|section|chapter|clause|\xa7|\bver|\bv|\br)[\s.:=\"'/-]*\Z|[A-Za-z]/\Z",
    re.IGNORECASE,
)
# RFC 9110 §10.1.5: a product of a User-Agent and its version, "Chrome/115.0.90.81". Any other word before a
# slash may be a host, "db/10.2.3.4".
_PRODUCT: Final = re.compile(
    rb"(?:Chrom(?:e|ium)|CriOS|Edg(?:e|A|iOS)?|OPR|OPT|Opera|Firefox|FxiOS|Version|Safari|AppleWebKit|"
    rb"WebView|"
    rb"SamsungBrowser|YaBrowser|Vivaldi|Brave|Whale|UCBrowser|QQBrowser|MiuiBrowser|DuckDuckGo|Silk|Electron|"
    rb"Trident|MSIE)/\Z",
    re.IGNORECASE,
)
_PRODUCT_LENGTH: Final = 24
_WORD: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_\xff"


def addresses(data: bytes) -> Iterator[Span]:
    """IP addresses of both versions; not a version number that says so, nor a longer dotted number."""
    if data.count(b".") >= _DOTS_OF_IPV4:
        for match in _IPV4.finditer(data):
            start, end = match.start(), match.end()
            if _is_ipv4(data, start, end):
                yield marked(start, end, "IP")
    if data.count(b":") >= _COLONS_MIN:
        for match in _IPV6.finditer(data):
            start, end = match.start(), match.end()
            if _is_ipv6(data, start, end):
                yield marked(start, end, "IP")


def _is_ipv4(data: bytes, start: int, end: int) -> bool:
    before, after = data[start - 1 : start] if start else b"", data[end : end + 2]
    if (before and before in _WORD + b".") or (after[:1] and after[:1] in _WORD):
        return False
    if after[:1] == b"." and after[1:].isdigit():
        return False
    parts = data[start:end].split(b".")
    if any(int(part) > 255 for part in parts):  # noqa: PLR2004 - an octet
        return False
    if before == b"/" and _PRODUCT.search(data[max(0, start - _PRODUCT_LENGTH) : start]):
        return False
    said = _VERSION.search(data[max(0, start - 16) : start])
    # "Chrome/120.0.0.0" is a version, "host/10.2.3.4" is an address.
    return said is None or (said[0].endswith(b"/") and len(said[0]) == 2 and parts[1:] != [b"0"] * 3)  # noqa: PLR2004


def _is_ipv6(data: bytes, start: int, end: int) -> bool:
    before, after = data[start - 1 : start] if start else b"", data[end : end + 1]
    if (before and before in _WORD + b":.") or (after and after in _WORD + b":"):
        return False
    word = data[start:end].decode("ascii")
    groups = [group for group in word.split(":") if group]
    # "abc::def" is a name in many programming languages and "x[1::2]" a slice in one.
    if not any(c.isdigit() for c in word) or (
        len(groups) < _GROUPS_SURE and not any(len(group) > 2 for group in groups)  # noqa: PLR2004
    ):
        return word == "::1"
    try:
        ipaddress.IPv6Address(word)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------------------------------ phone numbers

#: Numbers of one text that are looked up in the numbering plans, about 0.1 ms each; beyond, all are marked.
LOOKUPS_MAX: Final = 2_000

# E.164: a plus or a trunk prefix of two zeros, at most 15 digits; how they are grouped is free.
_INTERNATIONAL: Final = linear(
    rb"(?:^|[^0-9A-Za-z\xff+.])(\(?(?:\+|00) ?(?:\(?\+? ?)[1-9](?:[ ().\-/]{0,3}[0-9]){6,14})"
)
_NORTH_AMERICAN: Final = linear(
    rb"(?:^|[^0-9A-Za-z\xff+./-])"
    rb"((?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4})"
    rb"(?:[^0-9A-Za-z\xff .-]|[ .-][^0-9]|[ .-]?$)"
)
# A number of goods is written in the same groups; a plus between two numbers adds them.
_GOODS_BEFORE: Final = re.compile(
    rb"(?:\b(?:sku|upc|ean|gtin|asin|mpn|isbn|issn|lot|batch|serial|model|part|item|article|artikel|product|"
    rb"catalog|catalogue|stock|barcode)(?:[ _-]?(?:numbers?|nos?|num|codes?|ids?|nr|#))?|\bs/n|"
    rb"\bp/n)[\s.:=#\"'-]{0,4}\Z",
    re.IGNORECASE,
)
_GOODS_LENGTH: Final = 32
_ADDED: Final = re.compile(rb"[0-9)\]%]\s{1,3}\Z")
_NUMBER_BEFORE: Final = re.compile(rb"[0-9][ .-]\Z")  # then it is a row of numbers
_GROUP_AT_END: Final = re.compile(rb"[ ().\-/]+[0-9]+\Z")
_GROUPS_DROPPED_MAX: Final = 3


def phones(data: bytes) -> Iterator[Span]:
    """Phone numbers with their country, and North American ones as they are written there; all valid ones.

    Others are found in `structured_context`, by a word for phone.
    """
    looked_up = 0
    if b"+" in data or b"00" in data:
        for match in _INTERNATIONAL.finditer(data):
            if _is_sum(data, match.start(1)):
                continue
            looked_up += 1
            end = (
                match.end(1)
                if looked_up > LOOKUPS_MAX
                else _international_end(data, match.start(1), match.end(1))
            )
            if end is not None:
                yield marked(match.start(1), end, "PHONE")
    for match in _NORTH_AMERICAN.finditer(data):
        before = data[max(0, match.start(1) - _GOODS_LENGTH) : match.start(1)]
        if _NUMBER_BEFORE.search(before) or _GOODS_BEFORE.search(before):
            continue
        looked_up += 1
        if looked_up > LOOKUPS_MAX or _is_phone(match.group(1).decode("ascii"), "US"):
            yield marked(match.start(1), match.end(1), "PHONE")


def _is_sum(data: bytes, start: int) -> bool:
    """Whether a plus adds what follows it to a number before: "152 + 687760854"."""
    return data[start : start + 2] == b"+ " and _ADDED.search(data[max(0, start - 4) : start]) is not None


def _international_end(data: bytes, start: int, end: int) -> int | None:
    """Where the number ends: what follows it may be another number, written as its last groups."""
    for _ in range(_GROUPS_DROPPED_MAX):
        word = data[start:end].decode("ascii").replace("(", "").replace("+", "").strip()
        if _is_phone("+" + word.removeprefix("00"), None):
            return end
        shorter = _GROUP_AT_END.search(data, start, end)
        if shorter is None:
            return None
        end = shorter.start()
    return None


def _is_phone(number: str, region: str | None) -> bool:
    try:
        return bool(phonenumbers.is_valid_number(phonenumbers.parse(number, region)))
    except phonenumbers.NumberParseException:
        return False


# --------------------------------------------------------------------------------------------------- all

_DIGITS: Final = b"0123456789"
_SHORTEST: Final = 3  # "::1"
# Fewer digits than these are in no number of the sort.
_CARD_DIGITS, _PHONE_DIGITS, _IBAN_DIGITS = 12, 7, 2


def structured(reading: Reading) -> Iterator[Span]:
    """Everything that these modules find in a text; spans are of its plain form and may overlap."""
    data = reading.data
    digits = len(data) - len(data.translate(None, _DIGITS))
    yield from emails(data, reading.low)
    yield from by_context(reading, digits)
    if len(data) >= _SHORTEST:
        yield from addresses(data)
    if digits >= _IBAN_DIGITS:
        yield from ibans(data)
    if digits >= _PHONE_DIGITS:
        yield from phones(data)
    if digits >= _CARD_DIGITS:
        yield from cards(data)
