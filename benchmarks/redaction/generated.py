"""The generated set: made-up values in templates, and look-alikes without any; the same for the same seed."""

import json
import random
from collections.abc import Callable, Iterator

from faker import Faker

from benchmarks.redaction import negatives, numbers, persons, secrets
from benchmarks.redaction.scoring import Case, Gold

SEED = 20_240_515
# The classes that the target of 98 % is held against: told by their own form, or by a word right before them.
STRUCTURED = (
    "card",
    "IBAN",
    "e-mail",
    "IP address",
    "phone with country",
    "national id",
    "private key block",
    "token",
    "birth date",
)
KINDS = {
    "card": "CARD",
    "IBAN": "IBAN",
    "e-mail": "EMAIL",
    "IP address": "IP",
    "phone with country": "PHONE",
    "national id": "NATIONAL_ID",
    "private key block": "SECRET",
    "token": "SECRET",
    "birth date": "BIRTH_DATE",
    "street": "STREET",
    "postcode": "ZIP",
}
_CARRIERS = (
    "{}",
    "It is {}, thanks.",
    "Please use {} for this.",
    "({})",
    '"{}"',
    "* {}\n* next",
    "a={};b=2",
    "<td>{}</td>",
    "2024-05-15T15:00:00Z INFO worker: got {} from the form",
    "Hier ist {}.",
    "Voici : {} !",
    "Aquí está {}.",
    "Ecco: {}.",
    "これは {} です。",
    "これは{}です。",
    "Вот {}.",
    "| {} | ok |",
    "> {}",
    "n,value\nx,{}\n",
    "Use {}",
    "{}?",
)
_IN_JSON = ('{{"value": {}, "n": 3}}', '{{"rows": [[{}, true]]}}')


def fakers(seed: int) -> dict[str, Faker]:
    """One seeded Faker for each locale in use."""
    made = {}
    used = persons.locales() | negatives.locales() | set(numbers.IBAN_LOCALES) | set(numbers.EMAIL_LOCALES)
    for locale in sorted(used):
        made[locale] = Faker(locale)
        made[locale].seed_instance(seed)
    return made


def cases(*, each: int, seed: int = SEED) -> Iterator[Case]:
    """So many texts with a value of each class, and half as many of each form without one."""
    fake = fakers(seed)
    rng = random.Random(seed)
    free: dict[str, Callable[[int], numbers.Made]] = {
        "card": lambda n: numbers.card(rng, n),
        "IBAN": lambda n: numbers.iban(rng, n, fake),
        "e-mail": lambda n: numbers.email(rng, n, fake),
        "IP address": lambda n: numbers.ip(rng, n),
        "phone with country": lambda n: numbers.phone(rng, n),
        "private key block": lambda n: secrets.key_block(rng, n),
        "token": lambda n: secrets.token(rng, n),
    }
    said: dict[str, Callable[[int], persons.Said]] = {
        "national id": lambda n: persons.national_id(rng, n, fake),
        "birth date": lambda n: persons.birth_date(rng, n),
        "street": lambda n: persons.street(rng, n, fake),
        "postcode": lambda n: persons.postcode(rng, n, fake),
    }
    for group, make in free.items():
        for number in range(each):
            value, form = make(number)
            yield _case(group, form, *_carried(rng, value, form))
    for group, make_said in said.items():
        for number in range(each):
            before, value, after, form = make_said(number)
            yield _case(group, form, before, value, after)
    for form, text, neutral in negatives.negatives(rng, fake, each // 2):
        yield Case(text=text, form=form, neutral=neutral)


def _carried(rng: random.Random, value: str, form: str) -> tuple[str, str, str]:
    """Text before, the value as it is written there, text after."""
    if form.endswith("integer"):
        before, after = rng.choice(_IN_JSON).format("\0").split("\0")
        return before, value, after
    if rng.random() < 0.2:
        before, after = rng.choice(_IN_JSON).format('"\0"').split("\0")
        return before, json.dumps(value, ensure_ascii=rng.random() < 0.5)[1:-1], after
    before, after = rng.choice(_CARRIERS).split("{}")
    return before, value, after


def _case(group: str, form: str, before: str, value: str, after: str) -> Case:
    if value.startswith("tel:"):
        # The scheme of the URI belongs to the text around the number.
        before, value = before + "tel:", value.removeprefix("tel:")
    gold = Gold(start=len(before), end=len(before) + len(value), kind=KINDS[group], group=group, form=form)
    return Case(text=before + value + after, gold=(gold,))
