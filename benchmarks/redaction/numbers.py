"""Made-up cards, bank accounts, e-mail and IP addresses and phone numbers, of valid form."""

import ipaddress
import random
import string
from collections.abc import Callable

import phonenumbers
from faker import Faker
from stdnum import luhn

Made = tuple[str, str]
"""A value, and the name of how it is written."""

# First digits and lengths as the schemes publish them; not taken from the detector's own table.
_SCHEMES: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...] = (
    ("visa", ("4",), (13, 16, 16, 19)),
    ("mastercard", ("51", "52", "53", "54", "55", "2221", "2300", "2599", "2720"), (16,)),
    ("amex", ("34", "37"), (15,)),
    ("discover", ("6011", "644", "649", "65"), (16, 19)),
    ("diners", ("300", "305", "3095", "36", "38", "39"), (14,)),
    ("jcb", ("3528", "3550", "3589"), (16,)),
    ("unionpay", ("62", "81"), (16, 17, 18, 19)),
    ("maestro", ("5018", "5020", "5038", "5893", "6304", "6759", "6761", "6763"), (12, 13, 16, 18, 19)),
    ("mir", ("2200", "2204"), (16,)),
    ("rupay", ("60", "65", "81", "82", "508"), (16,)),
    ("troy", ("9792", "65"), (16,)),
    ("elo", ("438935", "451416", "504175", "509042", "627780", "636297", "650031"), (16,)),
    ("hipercard", ("606282",), (16,)),
    ("verve", ("506099", "506198", "650002"), (16, 19)),
    ("dankort", ("5019", "4571"), (16,)),
    ("uzcard", ("8600",), (16,)),
    ("humo", ("9860",), (16,)),
    ("napas", ("9704",), (16, 19)),
    ("lankapay", ("357111",), (16,)),
    ("interpayment", ("636",), (16, 19)),
    ("borica", ("2205",), (16,)),
    ("uatp", ("1",), (15,)),
    ("gpn", ("1946",), (16,)),
)
IBAN_LOCALES = (
    "az_AZ", "bn_BD", "cs_CZ", "da_DK", "de_DE", "de_AT", "de_CH", "el_GR", "en_GB", "en_IE", "es_ES",
    "fi_FI", "fr_FR", "it_IT", "mk_MK", "nl_BE", "nl_NL", "no_NO", "pl_PL", "pt_BR", "pt_PT", "ro_RO",
    "ru_RU", "sk_SK", "tr_TR", "uk_UA",
)  # fmt: skip
_BAD_IBANS = frozenset({"BD"})  # countries that Faker makes accounts for and ISO 13616 has none of
EMAIL_LOCALES = ("en_US", "de_DE", "fr_FR", "es_ES", "it_IT", "pl_PL")
_DOMAINS = (
    "m\xfcller-stra\xdfe.example", "caf\xe9.example.fr", "\u4f8b\u3048.\u30c6\u30b9\u30c8",
    "\u043f\u0440\u0438\u043c\u0435\u0440.\u0440\u0444", "xn--mller-kva.example", "b\xfccher.example.de",
)  # fmt: skip
_FIRST_NAMES = ("j\xfcrgen", "zo\xeb", "\u0438\u0432\u0430\u043d")


def digits(rng: random.Random, count: int) -> str:
    """So many random digits."""
    return "".join(rng.choices(string.digits, k=count))


def grouped(text: str, sizes: tuple[int, ...], gap: str) -> str:
    """The text in groups of these sizes, the last one with what is left."""
    parts, at = [], 0
    for size in sizes:
        parts.append(text[at : at + size])
        at += size
    parts.append(text[at:])
    return gap.join(part for part in parts if part)


def card(rng: random.Random, number: int) -> Made:
    """A payment card with a valid check digit, its schemes in turn."""
    scheme, prefixes, lengths = _SCHEMES[number % len(_SCHEMES)]
    length = rng.choice(lengths)
    prefix = rng.choice(prefixes)
    body = prefix + digits(rng, length - 1 - len(prefix))
    value = body + luhn.calc_check_digit(body)
    sizes = (4, 6) if length in {14, 15} else (4, 4, 4, 4)
    gap, name = rng.choice(
        (("", "plain"), ("", "integer"), (" ", "spaced"), ("-", "dashed"), ("\xa0", "no-break space"))
    )
    return (grouped(value, sizes, gap) if gap else value), f"{scheme}, {name}"


def iban(rng: random.Random, number: int, fakers: dict[str, Faker]) -> Made:
    """A bank account of one of many countries, in print or in electronic form."""
    locales = [locale for locale in IBAN_LOCALES if locale[-2:] not in _BAD_IBANS]
    value = fakers[locales[number % len(locales)]].iban()
    form = rng.choice(("plain", "spaced", "lower case", "dashed"))
    written = {
        "plain": value,
        "spaced": grouped(value, (4,) * 9, " "),
        "lower case": value.lower(),
        "dashed": grouped(value, (4,) * 9, "-"),
    }[form]
    return written, f"{value[:2]}, {form}"


def email(rng: random.Random, number: int, fakers: dict[str, Faker]) -> Made:
    """An e-mail address: plain, with a tag, quoted, international, escaped."""
    fake = fakers[rng.choice(EMAIL_LOCALES)]
    plain = fake.ascii_email()
    local, domain = plain.split("@")
    makers: tuple[tuple[str, Callable[[], str]], ...] = (
        ("plain", lambda: plain),
        ("company", fake.ascii_company_email),
        ("tag", lambda: f"{local}+{rng.choice(('news', 'a.b', '2024', 'x=y'))}@{domain}"),
        ("subdomain", lambda: f"{local}@mail.eu-1.{domain}"),
        ("upper case", plain.upper),
        ("apostrophe", lambda: f"o'{local}@{domain}"),
        ("underscore and digits", lambda: f"_{local}_{rng.randrange(9999)}@{domain}"),
        ("long top level", lambda: f"{local}@example.photography"),
        ("IDN", lambda: f"{local}@{rng.choice(_DOMAINS)}"),
        ("international local part", lambda: f"{rng.choice(_FIRST_NAMES)}.{local}@{domain}"),
        ("quoted local part", lambda: f'"{local} x"@{domain}'),
        ("percent-encoded @", lambda: plain.replace("@", "%40")),
        ("entity @", lambda: plain.replace("@", "&#64;")),
        ("literal address", lambda: f"{local}@[192.0.2.{rng.randrange(255)}]"),
        ("spelled out", lambda: plain.replace("@", " [at] ").replace(".", " [dot] ")),
    )  # fmt: skip
    form, make = makers[number % len(makers)]
    return make(), form


def ip(rng: random.Random, number: int) -> Made:
    """An IP address of either version, in the ways programs write them."""
    four = ipaddress.IPv4Address(rng.randrange(2**24, 2**32 - 2**28))
    six = ipaddress.IPv6Address((0x2001 << 112) | (rng.randrange(2**16) << 96) | rng.getrandbits(64))
    whole = ipaddress.IPv6Address((0x2A00 << 112) | rng.getrandbits(112))
    forms = (
        ("v4", str(four)),
        ("v4 private", f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"),
        ("v4 private", f"192.168.{rng.randrange(256)}.{rng.randrange(1, 255)}"),
        ("v6 compressed", str(six)),
        ("v6 whole", whole.exploded),
        ("v6 upper case", str(whole).upper()),
        (
            "v6 link-local",
            f"fe80::{rng.getrandbits(16):x}:{rng.getrandbits(16):x}:{rng.getrandbits(16) | 256:x}",
        ),
        ("v6 of v4", f"::ffff:{four}"),
        ("v6 short", f"2001:db8::{rng.randrange(1, 9)}"),
    )
    form, value = forms[number % len(forms)]
    return value, form


def phone(rng: random.Random, number: int) -> Made:
    """A valid phone number with its country, of all regions in turn."""
    regions = sorted(phonenumbers.SUPPORTED_REGIONS)
    region = regions[number % len(regions)]
    example = phonenumbers.example_number_for_type(
        region, rng.choice((phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE))
    ) or phonenumbers.example_number(region)
    assert example is not None
    national = phonenumbers.national_significant_number(example)
    for _ in range(20):
        tried = phonenumbers.parse(f"+{example.country_code}{national[:-4]}{digits(rng, 4)}", None)
        if phonenumbers.is_valid_number(tried):
            example = tried
            break
    plain = phonenumbers.format_number(example, phonenumbers.PhoneNumberFormat.E164)
    spaced = phonenumbers.format_number(example, phonenumbers.PhoneNumberFormat.INTERNATIONAL)
    forms = (
        ("E.164", plain),
        ("international", spaced),
        ("dashed", spaced.replace(" ", "-")),
        ("dotted", spaced.replace(" ", ".").replace("-", ".")),
        ("00", "00" + spaced.removeprefix("+")),
        ("tel:", phonenumbers.format_number(example, phonenumbers.PhoneNumberFormat.RFC3966)),
        ("brackets", _bracketed(spaced)),
    )
    form, value = rng.choice(forms)
    return value, form


def _bracketed(spaced: str) -> str:
    country, _, rest = spaced.partition(" ")
    area, gap, line = rest.partition(" ")
    return f"{country} ({area}) {line}" if gap else spaced
