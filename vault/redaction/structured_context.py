"""Personal data that only its context tells: dates of birth, names, ids, local phone numbers.

The context is a word or a field's name before the value: ``"dob": "1992-09-13"``, ``born on 13 September
1992``, ``user ID is alice_42``. Nothing here is found without one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from vault.redaction.kinds import marked
from vault.redaction.normalise import Reading
from vault.redaction.patterns import IDEOGRAPH, Keywords, Pattern, linear
from vault.redaction.spans import Span
from vault.redaction.structured_address import (
    POSTCODE_SIGNS,
    STREET_SIGNS,
    WORD,
    postcodes,
    state_postcodes,
    streets,
)
from vault.redaction.structured_ids import national_ids
from vault.redaction.structured_scripts import ScriptWords

Found = Iterator[tuple[int, int, str]]

_MONTH: Final = rb"[A-Za-z\xff\xfe]{3,12}\.?"
_YEAR: Final = rb"(?:19|20)[0-9]{2}"
_DATE: Final = (
    rb"(?:" + _YEAR + rb"[-/. ](?:0?[1-9]|1[0-2])[-/. ](?:3[01]|[12][0-9]|0?[1-9])"
    rb"|[0-3]?[0-9][-/. ] ?[0-3]?[0-9][-/. ] ?(?:" + _YEAR + rb"|[0-9]{2})"
    rb"|[0-3]?[0-9](?:st|nd|rd|th|er)?\.?[ -](?:of |de |d')?" + _MONTH + rb",?(?: de)?[ -]" + _YEAR
    + rb"|" + _MONTH + rb" [0-3]?[0-9](?:st|nd|rd|th)?,? " + _YEAR
    + rb"|" + _YEAR + rb"\.? " + _MONTH + rb" [0-3]?[0-9]"
    + rb"|" + _YEAR + rb"(?:0[1-9]|1[0-2])(?:[0-2][0-9]|3[01]))"
)  # fmt: skip
# By language: English; German, Dutch; French; Spanish, Catalan; Italian; Portuguese; Polish; Czech, Slovak;
# Slovene, Croatian; Danish, Norwegian, Swedish; Finnish, Estonian; Hungarian; Romanian; Turkish; Latvian,
# Lithuanian; Indonesian, Malay; Vietnamese. Letters outside ASCII are one byte each.
_BORN: Final = (
    rb"(?:\bdob\b|d\.o\.b|date[ _-]?of[ _-]?birth|birth[ _-]?(?:date|day)|\bborn\b"
    rb"|geboren|geburts(?:datum|tag)|\bgeb\.|geboorte[ _-]?(?:datum|dag)"
    rb"|\bn\xffe? le\b|\bn\xff\(e\) le|date de naissance"
    rb"|\bnacid[oa]\b|\bnaci\xff|fecha de nac(?:imiento|\.)|data de naixement"
    rb"|\bnat[oa] il\b|data di nascita|\bnascid[oa]\b|data de nasc(?:imento|\.)"
    rb"|data urodzenia|\burodz[a-z\xff]{1,8}|\bur\."
    rb"|d[a\xff]tum naro[dz]en[a-z\xff]{1,3}|\bnaro[dz]en[a-z\xff]{0,2}\b"
    rb"|datum ro[jd\xff]{1,2}(?:stva|enja)|\bro(?:j|\xff|dj)en[ao]?\b"
    rb"|f\xffd(?:else|sels?)(?:datum|dato|dag)|\bf\xff(?:dd|dt)\b"
    rb"|syntym\xff(?:aika|p\xffiv\xff)|\bsyntynyt\b|s\xffnni(?:aeg|kuup\xffev)|\bs\xffndinud"
    rb"|sz\xfflet\xffsi (?:id\xff|d\xfftum|ideje|d\xfftuma)|\bsz\xffletett"
    rb"|data na\xffterii|n\xffscut[\xffa]?\b|do\xffum (?:tarihi|g\xffn\xff)"
    rb"|dzim\xffanas (?:datums|diena)|\bdzim(?:is|usi)\b|gimimo (?:data|diena)|\bgim(?:\xffs|usi)\b"
    rb"|tanggal lahir|tarikh lahir|\blahir\b|ng\xffy sinh|\bsinh ng\xffy)"
)
_BIRTH: Final = linear(
    _BORN + rb"[^0-9A-Za-z]{0,8}"
    rb"(?:(?:is|was|on|the|am|le|el|il|em|op|den|dne|d|dnia|v|w|la|a|no|pe|p\xff|tgl)[^0-9A-Za-z]{1,3}){0,3}"
    rb"(" + _DATE + rb")",
    ignore_case=True,
)
# The same in other scripts: Russian, Ukrainian, Bulgarian, Serbian, Macedonian; Greek; Hebrew; Arabic,
# Persian; Hindi; Thai; Georgian; Armenian.
_BORN_SCRIPTS: Final = (
    "дата рождения,родился,родилась,дата народження,народився,народилася,народилась,дата на раждане,роден,"
    "родена,датум рођења,рођен,рођена,датум на раѓање,ημερομηνία γέννησης,γεννήθηκα,γεννήθηκε,γεννημένος,"
    "γεννημένη,תאריך לידה,נולד,נולדה,تاريخ الميلاد,تاریخ تولد,जन्म तिथि,जन्मतिथि,วันเกิด,เกิดวันที่,"
    "დაბადების თარიღი,ծննդյան ամսաթիվ"
)
_BORN_WORDS: Final = ScriptWords(dict.fromkeys(_BORN_SCRIPTS.split(","), "BIRTH_DATE"))
_DATE_FOLLOWS: Final = linear(rb"^[^0-9A-Za-z\n]{0,24}(" + _DATE + rb")")
_DATE_WINDOW: Final = 64
_BIRTH_AFTER: Final = linear(
    rb"(" + _DATE + rb")[^0-9A-Za-z]{0,4}(?:(?:is|was|as|my|his|her|their|your|the)[^0-9A-Za-z]{1,3}){0,3}"
    rb"(?:dob\b|date[ _-]?of[ _-]?birth|birth[ _-]?(?:date|day))",
    ignore_case=True,
)
# Chinese, Japanese, Korean: in bytes their words are not told apart.
_BIRTH_UNSPACED: Final = re.compile(
    "(?:\u51fa\u751f|\u751f\u65e5|\u751f\u5e74\u6708\u65e5|\u8a95\u751f\u65e5|"
    "\uc0dd\ub144\uc6d4\uc77c|\uc0dd\uc77c)"
    "[^0-9\n]{0,8}((?:19|20)[0-9]{2} ?[^0-9\n] ?[0-9]{1,2} ?[^0-9\n] ?[0-9]{1,2})"
)

_FULL_NAME: Final = (
    WORD + rb"(?: (?:[A-Z]\.|(?:van|von|de|da|di|der|den|del|la|le|bin|al)|" + WORD + rb")){0,4}"
)
_NAME: Final = linear(
    rb"(?:(?i:my (?:full |first |last |given |family )?name(?: is|'s)|my name:|i am called|i'm called) {1,2}"
    rb"|\b(?:Mr|Mrs|Ms|Miss|Mister|Dr|Prof|Herr|Frau|Mme|Monsieur|Se\xffora?)\.? )(" + _FULL_NAME + rb")"
)
_NAME_KEY: Final = (
    rb"(?i:(?:first|last|given|family|middle|full|maiden|sur|display|passenger|customer|contact|"
    rb"guest|patient|"
    rb"employee|recipient|card[ _-]?holder|account[ _-]?holder|beneficiary|vor|nach)[ _-]?names?)"
)
_NAME_FIELD: Final = linear(
    _NAME_KEY + rb"[\"']?\s{0,2}(?:[:=]|=>|\bis\b)\s{0,2}"
    rb"(?:\"([^\"\n\r]{1,60})\"|'([^'\n\r]{1,60})'|(" + _FULL_NAME + rb"))"
    # The whole text is one field with its name before it.
    rb"|\A" + _NAME_KEY + rb": ([^\n\r]{1,60})\z|\A[Nn]ame: (" + WORD + rb"(?: " + WORD + rb"){1,3})\z"
)

_TO_VALUE: Final = rb"[\"']?\s{0,2}(?:[:=]|=>|\bis\b|\bwas\b)?\s{0,2}[\"'(\[{<]{0,2}"
_USER: Final = linear(
    rb"\b(?:user|customer|member|patient|employee|client|account|profile|loyalty|frequent[ _-]?flyer)"
    rb"(?:[ _-]?(?:ids?|names?|numbers?|no|login|handle))"
    + _TO_VALUE + rb"([A-Za-z0-9][A-Za-z0-9_.-]{2,62}[A-Za-z0-9])",
    ignore_case=True,
)  # fmt: skip
_REFERENCE: Final = linear(
    rb"\b(?:(?:reservation|booking|confirmation|order|payment|transaction|ticket|invoice|case|claim|policy|"
    rb"tracking|certificate|gift[ _-]?card)(?:[ _-]?(?:ids?|numbers?|no|codes?|references?|methods?|locator))"
    + _TO_VALUE + rb"|(?:reservations?|bookings?)[\"']?\s?[:=]\s?[\"'\[]{0,2})"
    rb"(#?[A-Za-z0-9][A-Za-z0-9_-]{3,62})\b",
    ignore_case=True,
)  # fmt: skip
_PNR: Final = linear(rb"\b(?i:record[ _-]?locator|pnr)" + _TO_VALUE + rb"([A-Z0-9]{5,8})\b")
_CAPITALS_MIN: Final = 5

_PHONE: Final = linear(
    rb"(?:\bphone|telephone|\btel\b|\bmobile\b|\bcell\b|cell ?phone|\bfax\b|whats ?app|\bsms\b|\bmsisdn|"
    rb"\bcall (?:me|us|him|her|them|back)|\btext me|\breach (?:me|us)|telefon|tel\xfffono|m\xffvil|"
    rb"t\xffl\xffphone|\bhandy(?:nummer)?\b|rufnummer|\bmobil(?:nummer)?\b|celular|contact number)"
    rb"[^0-9\n+]{0,30}?([+(]{0,2}[0-9](?:[ ().\-/]{0,2}[0-9]){6,14})\b",
    ignore_case=True,
)
# A date, or a time in milliseconds or microseconds since 1970.
_NO_PHONE: Final = re.compile(
    rb"(?:19|20)[0-9]{2}[-/.][0-9]{1,2}[-/.][0-9].*|[0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:19|20)[0-9]{2}.*|"
    rb"1[0-9]{12}|1[0-9]{15}"
)
# The last digits of a card or account, which is what is left of a number that somebody has masked.
_TAIL: Final = linear(
    rb"(?:card|visa|master ?card|amex|account|discover|certificate|payment|phone)[^0-9\n]{0,40}"
    rb"\bend(?:s|ing)?(?: in| with| on)?[^0-9A-Za-z]{1,4}([0-9]{4,8})\b"
    rb"|last[ _]?(?:four|4)(?:[ _]digits)?[\"']?[^0-9A-Za-z]{0,4}"
    rb"(?:(?:is|are|of|in)[^0-9A-Za-z]{1,4})?([0-9]{4})\b"
    rb"|(?:\*{4,}|\xa0{4,}|\bx{3,})[ *x\xa0-]{0,16}([0-9]{4})\b",
    ignore_case=True,
)


def by_context(reading: Reading, digits: int) -> Iterator[Span]:
    """Everything that its context tells in a text with so many digits."""
    seen = _SIGNS.seen(reading.low)
    for bit, (_, find, of_digits) in enumerate(_FINDERS):
        if seen >> bit & 1 and (digits or not of_digits):
            for start, end, kind in find(reading):
                yield marked(start, end, kind)
    if digits >= _ID_DIGITS:
        for start, end, kind in state_postcodes(reading.data):
            yield marked(start, end, kind)
        yield from national_ids(reading)


def _each(pattern: Pattern, reading: Reading, kind: str) -> Found:
    """Every match, by the first of its groups that took part."""
    for match in pattern.finditer(reading.data):
        group = next(group for group in range(1, pattern.groups + 1) if match.start(group) >= 0)
        yield match.start(group), match.end(group), kind


def _births(reading: Reading) -> Found:
    yield from _each(_BIRTH, reading, "BIRTH_DATE")
    yield from _each(_BIRTH_AFTER, reading, "BIRTH_DATE")
    for _, end, kind in _BORN_WORDS.find(reading):
        day = _DATE_FOLLOWS.search(reading.data[end : end + _DATE_WINDOW])
        if day:
            yield end + day.start(1), end + day.end(1), kind
    if IDEOGRAPH in reading.data:
        for match in _BIRTH_UNSPACED.finditer(reading.text):
            yield match.start(1), match.end(1), "BIRTH_DATE"


def _streets(reading: Reading) -> Found:
    return streets(reading.data)


def _postcodes(reading: Reading) -> Found:
    return postcodes(reading)


def _names(reading: Reading) -> Found:
    yield from _each(_NAME, reading, "NAME")
    yield from _each(_NAME_FIELD, reading, "NAME")


def _references(reading: Reading) -> Found:
    for pattern, kind in ((_USER, "USER_ID"), (_REFERENCE, "REFERENCE")):
        for start, end, _ in _each(pattern, reading, kind):
            if _is_code(reading.data[start:end]):
                yield start, end, kind
    yield from _each(_PNR, reading, "REFERENCE")


def _is_code(word: bytes) -> bool:
    """Whether a word is an id and no word of a language: a digit or an underscore in it, or all capitals."""
    return _DIGIT.search(word) is not None or b"_" in word or (word.isupper() and len(word) >= _CAPITALS_MIN)


def _phones(reading: Reading) -> Found:
    for start, end, kind in _each(_PHONE, reading, "PHONE"):
        if not _NO_PHONE.fullmatch(reading.data[start:end]):
            yield start, end, kind


def _tails(reading: Reading) -> Found:
    return _each(_TAIL, reading, "REFERENCE")


_DIGIT: Final = re.compile(rb"[0-9]")
_ID_DIGITS: Final = 4  # of a national id; more of an American postcode

_BIRTH_SIGNS: Final = (
    "dob,d.o.b,birth,born,gebor,geboor,geburt,geb.,n\xff,naissance,nacid,naci\xff,de nac,naixement,nato,"
    "nata,nasc,"
    "urodz,ur.,naroden,narozen,datum ro,rojen,ro\xffen,rodjen,f\xffd,syntym,syntyn,s\xffn,sz\xfflet,"
    "\xffterii,do\xffum,dzim,gim,lahir,sinh,\xff\xff\xff\xff,\xfe\xfe"
)
_NAME_SIGNS: Final = "name,mr,ms ,ms.,miss,mister,dr ,dr.,prof,herr,frau,mme,monsieur,se\xffor,called"
_REFERENCE_SIGNS: Final = (
    "user,customer,member,patient,employee,client,account,profile,loyalty,flyer,reservation,booking,"
    "confirmation,order,payment,transaction,ticket,invoice,case,claim,policy,tracking,certificate,gift,"
    "locator,pnr"
)
_PHONE_SIGNS: Final = (
    "phone,tel,mobil,cell,fax,whats,sms,msisdn,call,text me,reach,m\xffvil,t\xffl\xff,handy,rufnummer,"
    "celular,contact n"
)
# What is in every text in which a finder finds something, in lower case; the finder; whether it finds only
# what has digits.
_FINDERS: Final[tuple[tuple[str, Callable[[Reading], Found], bool], ...]] = (
    (_BIRTH_SIGNS, _births, True),
    (STREET_SIGNS, _streets, False),
    (POSTCODE_SIGNS, _postcodes, True),
    (_NAME_SIGNS, _names, False),
    (_REFERENCE_SIGNS, _references, False),
    (_PHONE_SIGNS, _phones, True),
    ("end,last,****,\xa0\xa0\xa0\xa0,xxx", _tails, True),
)
_SIGNS: Final = Keywords([words.split(",") for words, _, _ in _FINDERS])
