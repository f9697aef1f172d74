"""National identity numbers, told by a word for them nearby and, where there is one, by their check.

Nine to eleven digits pass some country's check by chance one time in ten, so none is looked for without a
word. The checks are python-stdnum's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Final, NamedTuple

from stdnum import get_cc_module

from vault.redaction.kinds import marked
from vault.redaction.patterns import IDEOGRAPH, Pattern, linear
from vault.redaction.spans import Span


class _Id(NamedTuple):
    """Words for a number, its form (both RE2), and its check in stdnum: country and module, or none.

    ``near``: without a check, the form is so much its own that it need not follow its word at once.
    """

    words: bytes
    form: bytes
    check: tuple[str, str] | None = None
    near: bool = False


_NINE: Final = rb"[0-9]{3}[ .-]?[0-9]{3}[ .-]?[0-9]{3}"
_TEN: Final = rb"[0-9]{6}[ /+-]?[0-9]{4}"
_ELEVEN: Final = rb"[0-9]{3}[ .]?[0-9]{3}[ .]?[0-9]{3}[ .-]?[0-9]{2}"
_SSN: Final = rb"\bssn|social[ _-]?security"
_PERSONAL_NUMBER: Final = rb"personnummer|f\xffdselsnummer|fodselsnummer|personal number"

# Form without a check: the number has none, or what people write for one is to be hidden as well.
_IDS: Final = (
    _Id(_SSN, rb"[0-9]{3}[ -][0-9]{2}[ -][0-9]{4}", near=True),
    _Id(_SSN, rb"[0-9]{9}"),
    _Id(rb"\bitin\b|taxpayer", rb"9[0-9]{2}[ -]?[0-9]{2}[ -]?[0-9]{4}"),
    _Id(rb"\bnino\b|national[ _-]?insurance", rb"[A-Za-z]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-Da-d]"),
    _Id(rb"\bnhs", rb"[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{4}", ("gb", "nhs")),
    _Id(
        rb"steuer-?id|identifikationsnummer|\bidnr|tax[ _-]?id|\btin\b",
        rb"[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{3}",
        ("de", "idnr"),
    ),
    _Id(
        rb"sozialversicherung|rentenversicherung|versicherungsnummer|\bsvnr",
        rb"[0-9]{2} ?[0-9]{6} ?[A-Za-z] ?[0-9]{3}",
    ),
    _Id(rb"versicherungsnummer|\bsvnr|\bvnr\b", rb"[0-9]{4} ?[0-9]{6}", ("at", "vnr")),
    _Id(rb"personalausweis|ausweisnummer|ausweis-nr", rb"[0-9A-Za-z]{9}[0-9]?"),
    _Id(
        rb"\bnir\b|s\xffcurit\xff sociale|securite sociale|\binsee\b|num\xffro de s\xffcu",
        rb"[12] ?[0-9]{2} ?[0-9]{2} ?[0-9][0-9ABab] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}",
        ("fr", "nir"),
    ),
    _Id(rb"\bdni\b|\bnif\b", rb"[0-9]{7,8}[ -]?[A-Za-z]", ("es", "dni")),
    _Id(rb"\bnie\b|\bnif\b", rb"[XYZxyz][ -]?[0-9]{7}[ -]?[A-Za-z]", ("es", "nie")),
    _Id(
        rb"codice[ _-]?fiscale|cod\. ?fisc|fiscal[ _-]?code",
        rb"[A-Za-z]{6} ?[0-9A-Za-z]{2}[A-Za-z][0-9A-Za-z]{2} ?[A-Za-z][0-9A-Za-z]{3}[A-Za-z]",
        ("it", "codicefiscale"),
    ),
    _Id(rb"\bbsn\b|burgerservice|sofi-?nummer", rb"[0-9]{3,4}[ .]?[0-9]{2}[ .]?[0-9]{3}", ("nl", "bsn")),
    _Id(
        rb"rijksregister|registre national|national (?:register )?number|\bniss\b|\binsz\b",
        rb"[0-9]{2}[ .]?[0-9]{2}[ .]?[0-9]{2}[ -]?[0-9]{3}[ .]?[0-9]{2}",
        ("be", "nn"),
    ),
    _Id(rb"\bcpf\b", _ELEVEN, ("br", "cpf")),
    _Id(rb"\bpesel\b", rb"[0-9]{11}", ("pl", "pesel")),
    _Id(_PERSONAL_NUMBER, rb"(?:[0-9]{2})?[0-9]{6}[ +-]?[0-9]{4}", ("se", "personnummer")),
    _Id(_PERSONAL_NUMBER, rb"[0-9]{6} ?[0-9]{5}", ("no", "fodselsnummer")),
    _Id(rb"\bcpr\b|" + _PERSONAL_NUMBER, rb"[0-9]{6}[ -]?[0-9]{4}", ("dk", "cpr")),
    _Id(
        rb"\bhetu\b|henkil\xfftunnus|personal identity",
        rb"[0-9]{6}[-+A-FU-Ya-fu-y][0-9]{3}[0-9A-Za-z]",
        ("fi", "hetu"),
    ),
    _Id(rb"\bkennitala", _TEN, ("is", "kennitala")),
    _Id(rb"\bahv|\bavs\b", rb"756\.?[0-9]{4}\.?[0-9]{4}\.?[0-9]{2}", ("ch", "ssn")),
    _Id(rb"\bnif\b|contribuinte", _NINE, ("pt", "nif")),
    _Id(rb"social[ _-]?insurance|\bsin\b", _NINE, ("ca", "sin")),
    _Id(rb"tax[ _-]?file|\btfn\b", rb"[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{2,3}", ("au", "tfn")),
    _Id(rb"\bird\b", rb"[0-9]{2,3}[ -]?[0-9]{3}[ -]?[0-9]{3}", ("nz", "ird")),
    _Id(rb"aadhaa?r|uidai", rb"[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{4}", ("in", "aadhaar")),
    _Id(rb"\bpan\b|permanent account", rb"[A-Za-z]{5}[0-9]{4}[A-Za-z]", ("in", "pan")),
    _Id(rb"\bcurp\b", rb"[A-Za-z]{4}[0-9]{6}[A-Za-z]{6}[0-9A-Za-z][0-9]", ("mx", "curp")),
    _Id(rb"\brfc\b", rb"[A-Za-z&]{3,4}-?[0-9]{6}-?[0-9A-Za-z]{3}", ("mx", "rfc")),
    _Id(rb"resident identity|\bric\b|chinese id", rb"[0-9]{17}[0-9Xx]", ("cn", "ric")),
    _Id(rb"resident registration|\brrn\b", rb"[0-9]{6}-?[0-9]{7}", ("kr", "rrn")),
    _Id(rb"kimlik", rb"[0-9]{11}", ("tr", "tckimlik")),
    _Id(rb"south african id|\brsa id|\bsa id", rb"[0-9]{13}", ("za", "idnr")),
    _Id(rb"teudat|mispar zehut|israeli id", rb"[0-9]{8}-?[0-9]", ("il", "idnr")),
    _Id(rb"\bcnp\b|numeric personal", rb"[0-9]{13}", ("ro", "cnp")),
    _Id(rb"\begn\b", rb"[0-9]{10}", ("bg", "egn")),
    _Id(rb"rodn\xff|rodne|birth number", rb"[0-9]{6}/?[0-9]{3,4}", ("cz", "rc")),
    _Id(rb"\boib\b", rb"[0-9]{11}", ("hr", "oib")),
    _Id(rb"\bpps", rb"[0-9]{7}[A-Wa-w][A-Ia-iWw]?", ("ie", "pps")),
    _Id(rb"asmens kodas", rb"[0-9]{11}", ("lt", "asmens")),
    _Id(rb"isikukood", rb"[0-9]{11}", ("ee", "ik")),
    _Id(rb"personas kods", rb"[0-9]{6}-?[0-9]{5}", ("lv", "pvn")),
    _Id(rb"\bamka\b", rb"[0-9]{11}", ("gr", "amka")),
    _Id(rb"\brut\b", rb"[0-9]{1,2}\.?[0-9]{3}\.?[0-9]{3}-?[0-9Kk]", ("cl", "rut")),
    _Id(rb"\bdni\b", rb"[0-9]{2}\.?[0-9]{3}\.?[0-9]{3}", ("ar", "dni")),
    _Id(rb"\bcui[tl]\b", rb"[0-9]{2}-?[0-9]{8}-?[0-9]", ("ar", "cuit")),
    _Id(rb"\bnric\b|mykad", rb"[0-9]{6}-?[0-9]{2}-?[0-9]{4}", ("my", "nric")),
    _Id(rb"\bnric\b|\bfin\b", rb"[STFGMstfgm][0-9]{7}[A-Za-z]"),
    _Id(rb"\bnik\b|\bktp\b", rb"[0-9]{16}", ("id", "nik")),
    _Id(rb"thai id", rb"[0-9]-?[0-9]{4}-?[0-9]{5}-?[0-9]{2}-?[0-9]", ("th", "pin")),
    _Id(rb"passport|reisepass|passeport|pasaporte|passaporto|paspoort", rb"[A-Za-z]{0,3}[0-9]{6,9}[A-Za-z]?"),
    _Id(rb"passport|reisepass|ausweis", rb"[CFGHJKcfghjk][0-9CFGHJKLMNPRTVWXYZ]{8}[0-9]?"),
    _Id(
        rb"driv\w*[ _']{0,2}s?[ _-]?(?:licen[cs]e|permit)|dl number|f\xffhrerschein|permis de conduire",
        rb"[0-9A-Za-z]{1,5}[ -]?[0-9]{2,8}(?:-?[0-9A-Za-z]{2,6}| [0-9]{2,6}){0,3}",
    ),
    _Id(
        rb"national[ _-]?id|identity (?:card|number)|identification number|c\xffdula|cedula",
        rb"[A-Za-z]{0,2}[0-9][0-9 .\-/]{5,16}[0-9A-Za-z]",
    ),
)

_NO_WORD_BEFORE: Final = rb"(?:^|[^0-9A-Za-z\xff])"
_NO_WORD_AFTER: Final = rb"(?:[^0-9A-Za-z\xff]|$)"
# Between a word and a number without a check: signs, and the words that lead from one to the other.
_LEADING: Final = (
    rb"^[^0-9A-Za-z\xff]{1,6}"
    rb"(?:(?:number|num|no|nr|card|id|code|is|was|ist|est|es|de|on file)[^0-9A-Za-z\xff]{1,6}){0,3}"
)
_WORDS: Final = linear(rb"|".join(dict.fromkeys(entry.words for entry in _IDS)), ignore_case=True)
_NEXT_WORD: Final = re.compile(rb"[0-9A-Za-z\xff]*[^0-9A-Za-z\xff]*")
# Where words have no spaces, any word before a number of this form, and then its check.
_AFTER_IDEOGRAPH: Final = linear(
    rb"\xfe{2,}[ :\xa0(]{0,3}([0-9]{17}[0-9Xx]|[0-9]{6}-[0-9]{7}|[0-9]-[0-9]{4}-[0-9]{5}-[0-9]{2}-[0-9])"
)
_IDEOGRAPH_CHECKS: Final = (("cn", "ric"), ("kr", "rrn"), ("th", "pin"))

#: Characters after the word, and before it, in which the number stands.
_AFTER: Final = 48
_BEFORE: Final = 24
_NUMBER_MAX: Final = 24
_DIGITS_MIN: Final = 5
_TEXT_MIN: Final = 9  # a word of three letters and six digits


def national_ids(data: bytes) -> Iterator[Span]:
    """National identity, social security, tax, passport and licence numbers near a word for them."""
    if len(data) < _TEXT_MIN:
        return
    for place in _WORDS.finditer(data):
        after = data[place.end() : place.end() + _AFTER + _NUMBER_MAX]
        before = data[max(0, place.start() - _BEFORE) : place.start()]
        for number in _entries(place.group().lower()):
            found = _first(number, after, _AFTER)
            if found:
                yield marked(place.end() + found[0], place.end() + found[1], "NATIONAL_ID")
            elif number.free and (found := _first(number, before, _BEFORE)):
                offset = place.start() - len(before)
                yield marked(offset + found[0], offset + found[1], "NATIONAL_ID")
    if IDEOGRAPH in data:
        for match in _AFTER_IDEOGRAPH.finditer(data):
            if any(_holds(check, match.group(1)) for check in _IDEOGRAPH_CHECKS):
                yield marked(match.start(1), match.end(1), "NATIONAL_ID")


class _Number(NamedTuple):
    form: Pattern
    check: tuple[str, str] | None
    free: bool


@cache
def _numbers() -> tuple[tuple[Pattern, _Number], ...]:
    """The words of each number, compiled, with what to look for near them."""
    compiled = []
    for entry in _IDS:
        free = entry.near or entry.check is not None
        before = _NO_WORD_BEFORE if free else _LEADING
        form = linear(before + rb"(" + entry.form + rb")" + _NO_WORD_AFTER, ignore_case=True)
        compiled.append((linear(entry.words, ignore_case=True), _Number(form, entry.check, free)))
    return tuple(compiled)


@lru_cache(maxsize=512)
def _entries(word: bytes) -> tuple[_Number, ...]:
    """The numbers that a word found by ``_WORDS`` is a word for."""
    return tuple(number for words, number in _numbers() if words.search(word))


def _first(number: _Number, window: bytes, reach: int) -> tuple[int, int] | None:
    """The first number of this form in a window that begins within reach and passes its check."""
    at = 0
    while match := number.form.search(window[at:]):
        start, end = at + match.start(1), at + match.end(1)
        if start >= reach:
            return None
        if _holds(number.check, window[start:end]):
            return start, end
        if not number.free:
            return None
        # It consumes nothing but its first word: the next one may begin a number that holds.
        following = _NEXT_WORD.match(window, start)
        at = max(following.end() if following else end, start + 1) - 1
    return None


def _holds(check: tuple[str, str] | None, number: bytes) -> bool:
    if check is None:
        return sum(48 <= byte < 58 for byte in number) >= _DIGITS_MIN  # noqa: PLR2004 - ASCII digits
    return bool(_checks(*check)(number.decode("ascii")))


@cache
def _checks(country: str, name: str) -> Callable[[str], bool]:
    module = get_cc_module(country, name)
    if module is None:
        raise ValueError("python-stdnum has no such check")
    return module.is_valid
