"""Made-up national ids, birth dates, streets and postcodes, each inside words that say what it is."""

import random
from collections.abc import Callable
from datetime import date, timedelta

from faker import Faker
from stdnum import get_cc_module

from benchmarks.redaction.numbers import digits

Said = tuple[str, str, str, str]
"""Text before, the value, text after, the name of how it is written."""

# Words before, Faker locale and method, stdnum's check (None: the number has none).
_IDS: tuple[tuple[str, str, str, tuple[str, str] | None], ...] = (
    ("My SSN is ", "en_US", "ssn", None),
    ("social security number: ", "en_US", "ssn", None),
    ("Steuer-ID: ", "de_DE", "", ("de", "idnr")),
    ("Sozialversicherungsnummer (SVNR) ", "de_AT", "ssn", ("at", "vnr")),
    ("AHV-Nummer ", "de_CH", "ssn", ("ch", "ssn")),
    ("numéro de sécurité sociale : ", "fr_FR", "ssn", ("fr", "nir")),
    ("mi DNI es ", "es_ES", "nif", ("es", "dni")),
    ("NIE: ", "es_ES", "nie", ("es", "nie")),
    ("codice fiscale ", "it_IT", "ssn", ("it", "codicefiscale")),
    ("mijn BSN is ", "nl_NL", "ssn", ("nl", "bsn")),
    ("rijksregisternummer ", "nl_BE", "ssn", ("be", "nn")),
    ("meu CPF é ", "pt_BR", "cpf", ("br", "cpf")),
    ("PESEL: ", "pl_PL", "pesel", ("pl", "pesel")),
    ("mitt personnummer är ", "sv_SE", "ssn", ("se", "personnummer")),
    ("fødselsnummer ", "no_NO", "ssn", ("no", "fodselsnummer")),
    ("henkilötunnus ", "fi_FI", "ssn", ("fi", "hetu")),
    ("SIN ", "en_CA", "ssn", ("ca", "sin")),
    ("NHS number ", "en_GB", "", ("gb", "nhs")),
    ("National Insurance number: ", "en_GB", "", ("", "nino")),
    ("Aadhaar ", "en_IN", "aadhaar_id", ("in", "aadhaar")),
    ("TC kimlik no ", "tr_TR", "ssn", ("tr", "tckimlik")),
    ("CNP ", "ro_RO", "ssn", ("ro", "cnp")),
    ("OIB: ", "hr_HR", "ssn", ("hr", "oib")),
    ("isikukood ", "et_EE", "ssn", ("ee", "ik")),
    ("rodné číslo ", "cs_CZ", "birth_number", ("cz", "rc")),
    ("身份证号码", "zh_CN", "ssn", ("cn", "ric")),
    ("주민등록번호 ", "ko_KR", "ssn", ("kr", "rrn")),
    ("\u0391\u039c\u039a\u0391: ", "el_GR", "ssn", ("gr", "amka")),
    ("AMKA: ", "el_GR", "ssn", ("gr", "amka")),
    ("mi RUT es ", "es_CL", "rut", ("cl", "rut")),
    ("CURP: ", "es_MX", "curp", ("mx", "curp")),
    ("teudat zehut ", "he_IL", "ssn", ("il", "idnr")),
    ("CUIL ", "es_AR", "", ("ar", "cuit")),
    ("Tax file number (TFN): ", "en_AU", "", ("au", "tfn")),
    ("PPS number ", "en_IE", "", ("ie", "pps")),
    ("passport number: ", "en_US", "passport_number", None),
    ("ЕГН ", "bg_BG", "", ("bg", "egn")),
    ("adószám ", "hu_HU", "", ("hu", "anum")),
    ("ИНН ", "ru_RU", "individuals_inn", ("ru", "inn")),
    ("EMŠO ", "sl_SI", "", ("si", "emso")),
)
_FORMS = {"idnr": 11, "nhs": 10, "cuit": 11, "tfn": 9, "anum": 8}
_AFTER = (".", " , thanks", "\n", ' (see file)"', "; ok")

_BORN: tuple[tuple[str, str], ...] = (
    ("en", "I was born on {}."),
    ("en", "date of birth: {}"),
    ("en", "DOB {}, female"),
    ("en", "My birthday is {}"),
    ("en", "her date of birth is {}, right?"),
    ("json", '{{"dob": "{}", "n": 1}}'),
    ("json", '{{"date_of_birth":"{}"}}'),
    ("json", '{{"birthDate": "{}"}}'),
    ("csv", "birth_date={};x=1"),
    ("de", "geboren am {} in Bonn"),
    ("de", "Geburtsdatum: {}"),
    ("fr", "né le {} à Lyon"),
    ("fr", "date de naissance : {}"),
    ("es", "nacido el {}"),
    ("es", "fecha de nacimiento: {}"),
    ("it", "nato il {} a Roma"),
    ("it", "data di nascita: {}"),
    ("pt", "data de nascimento: {}"),
    ("nl", "geboortedatum: {}"),
    ("pl", "data urodzenia: {}"),
    ("sv", "född {}"),
)
_DATES: dict[str, tuple[tuple[str, Callable[[date], str]], ...]] = {
    "en": (
        ("ISO", lambda day: day.isoformat()),
        ("m/d/y", lambda day: f"{day.month}/{day.day}/{day.year}"),
        ("Month d, y", lambda day: f"{day:%B} {day.day}, {day.year}"),
        ("d Mon y", lambda day: f"{day.day} {day:%b} {day.year}"),
        ("d of Month y", lambda day: f"{day.day} of {day:%B} {day.year}"),
        ("two-digit year", lambda day: f"{day:%m/%d/%y}"),
    ),
    "": (
        ("ISO", lambda day: day.isoformat()),
        ("d.m.y", lambda day: f"{day:%d.%m.%Y}"),
        ("d/m/y", lambda day: f"{day:%d/%m/%Y}"),
    ),
}
_MONTHS = {
    "de": [
        "Januar",
        "Februar",
        "März",
        "April",
        "Mai",
        "Juni",
        "Juli",
        "August",
        "September",
        "Oktober",
        "November",
        "Dezember",
    ],
    "fr": [
        "janvier",
        "février",
        "mars",
        "avril",
        "mai",
        "juin",
        "juillet",
        "août",
        "septembre",
        "octobre",
        "novembre",
        "décembre",
    ],
    "es": [
        "enero",
        "febrero",
        "marzo",
        "abril",
        "mayo",
        "junio",
        "julio",
        "agosto",
        "septiembre",
        "octubre",
        "noviembre",
        "diciembre",
    ],
    "it": [
        "gennaio",
        "febbraio",
        "marzo",
        "aprile",
        "maggio",
        "giugno",
        "luglio",
        "agosto",
        "settembre",
        "ottobre",
        "novembre",
        "dicembre",
    ],
}

STREET_LOCALES = (
    "en_US",
    "en_GB",
    "en_CA",
    "en_AU",
    "de_DE",
    "de_AT",
    "fr_FR",
    "es_ES",
    "it_IT",
    "nl_NL",
    "pt_BR",
    "pl_PL",
    "sv_SE",
)
_LIVES = {
    "en": ("I live at {}", "Ship it to {}", "Address: {}", "my address is {}, please update it"),
    "de": ("Ich wohne in der {}", "Adresse: {}", "Meine Anschrift: {}"),
    "fr": ("J'habite au {}", "Adresse : {}"),
    "es": ("Vivo en {}", "Dirección: {}"),
    "it": ("Abito in {}", "Indirizzo: {}"),
    "": ("Address: {}", "I live at {}"),
}
_CODES = {
    "en": ("zip code {}", "ZIP: {}", "postcode {}", "postal code is {}"),
    "de": ("PLZ {}", "Postleitzahl: {}"),
    "fr": ("code postal {}", "code postal : {}"),
    "es": ("código postal {}",),
    "it": ("CAP {}",),
    "": ("postal code {}",),
}


def national_id(rng: random.Random, number: int, fakers: dict[str, Faker]) -> Said:
    """A national id after words for it, of many countries in turn; those with a check pass it."""
    words, locale, method, check = _IDS[number % len(_IDS)]
    module = get_cc_module(*check) if check and check[0] else None
    for _ in range(5_000):
        value = str(getattr(fakers[locale], method)()) if method else _shaped(rng, check[1] if check else "")
        if module is None or module.is_valid(value):
            break
    else:
        raise AssertionError(f"no valid number for {words}")
    return words, value, rng.choice(_AFTER), f"{locale[-2:]}: {words.strip(' :')}"


def _shaped(rng: random.Random, name: str) -> str:
    if name in _FORMS:
        return digits(rng, _FORMS[name])
    if name == "pps":
        return digits(rng, 7) + rng.choice("ABCDEFGHIJKLMNOPQRSTUVW") + rng.choice(("", "A"))
    if name == "nino":
        # HMRC manual NIM39110: these prefixes are issued, the suffix is A to D. Faker's are not.
        pairs = (digits(rng, 2), digits(rng, 2), digits(rng, 2))
        parts = (rng.choice(("AB", "CE", "JN", "PW", "SY")), *pairs, rng.choice("ABCD"))
        return rng.choice(("", " ")).join(parts)
    # Born on a day: without a valid one few would pass.
    day = _birthday(rng)
    return (
        f"{day:%y%m%d}{digits(rng, 4)}"
        if name == "egn"
        else f"{day:%d%m}{day:%Y}"[:4] + f"{day:%Y}"[1:] + digits(rng, 6)
    )


def _birthday(rng: random.Random) -> date:
    return date(1935, 1, 1) + timedelta(days=rng.randrange(70 * 365))


def birth_date(rng: random.Random, number: int) -> Said:
    """A date of birth after words for it in several languages and ways to write a day."""
    language, said = _BORN[number % len(_BORN)]
    day = _birthday(rng)
    if language in _MONTHS and rng.random() < 0.4:
        pattern = {"es": "{} de {} de {}", "de": "{}. {} {}"}.get(language, "{} {} {}")
        form, value = "d month y", pattern.format(day.day, _MONTHS[language][day.month - 1], day.year)
    else:
        form, make = rng.choice(_DATES["en" if language in {"en", "json"} else ""])
        value = make(day)
    before, after = said.format("\0").split("\0")
    return before, value, after, f"{language}: {before.strip()} / {form}"


def street(rng: random.Random, number: int, fakers: dict[str, Faker]) -> Said:
    """A street with a house number after words for an address."""
    locale = STREET_LOCALES[number % len(STREET_LOCALES)]
    value = fakers[locale].street_address().replace("\n", ", ")
    before, after = rng.choice(_LIVES.get(locale[:2], _LIVES[""])).format("\0").split("\0")
    return before, value, after, f"{locale}: {before.strip(' :')}"


def postcode(rng: random.Random, number: int, fakers: dict[str, Faker]) -> Said:
    """A postcode after a word for it."""
    locale = STREET_LOCALES[number % len(STREET_LOCALES)]
    value = fakers[locale].postcode()
    before, after = rng.choice(_CODES.get(locale[:2], _CODES[""])).format("\0").split("\0")
    return before, value, after, f"{locale}: {before.strip(' :')}"


def locales() -> set[str]:
    """Every locale that is used here."""
    return {locale for _, locale, _, _ in _IDS} | set(STREET_LOCALES)
