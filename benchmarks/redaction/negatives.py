"""Texts without anything personal that look as if: numbers, digests, versions, logs, prose."""

import hashlib
import random
import uuid
from collections.abc import Callable

from faker import Faker
from stdnum import ean, isbn

from benchmarks.redaction.numbers import digits

_REFERENCE = frozenset({"REFERENCE"})
_PROSE = ("en_US", "de_DE", "fr_FR", "es_ES", "it_IT", "ja_JP")


def _order(rng: random.Random) -> str:
    number = rng.choice("123456789") + digits(rng, rng.randrange(7, 18))
    return rng.choice(
        ("Your order {} has shipped.", "order #{}", '{{"order": {}}}', "Order number: {}", "item {} x 2")
    ).format(number)


def _epoch(rng: random.Random) -> str:
    seconds = rng.randrange(1_500_000_000, 1_900_000_000)
    stamp = rng.choice(
        (f"{seconds}{digits(rng, 3)}", f"{seconds}{digits(rng, 6)}", f"{seconds}{digits(rng, 9)}")
    )
    return rng.choice(
        ('{{"created_us": {}}}', "ts={} level=info", "{}", "at {} the job ended", '{{"t":{},"v":2}}')
    ).format(stamp)


def _uuid(rng: random.Random) -> str:
    value = uuid.UUID(int=rng.getrandbits(128), version=4)
    return rng.choice(("{}", "request_id={}", "GET /v1/items/{}", '{{"id":"{}"}}')).format(value)


def _version(rng: random.Random) -> str:
    three = ".".join(str(rng.randrange(40)) for _ in range(3))
    return rng.choice(
        (
            f"requires python-lib>={three}",
            f"v{three}.{rng.randrange(99)}",
            f"version 10.0.{rng.randrange(20000)}.{rng.randrange(3000)}",
            f"Chrome/{rng.randrange(90, 130)}.0.{rng.randrange(7000)}.{rng.randrange(200)} Safari/537.36",
            f"released {three}-rc.1",
            f"npm install left-pad@{three}",
            f"build {three}.{rng.randrange(256)}",
            f"section {three}.{rng.randrange(9)}",
        )
    )


def _price(rng: random.Random) -> str:
    amount = rng.randrange(100, 10**9)
    return rng.choice(
        (
            f"${amount / 100:,.2f}",
            f"total: {amount / 100:.2f} EUR",
            f"USD {amount:,}",
            f"152 + {amount} = {amount + 152}",
            f"{amount} units at {rng.randrange(99)}.{rng.randrange(99):02} each",
            f"between {amount} and {amount * 2} dollars",
        )
    )


def _isbn(rng: random.Random) -> str:
    body = "978" + digits(rng, 9)
    value = body + ean.calc_check_digit(body)
    written = rng.choice((value, isbn.format(value)))
    return rng.choice(("ISBN {}", "see {} (2nd ed.)", '{{"isbn": "{}"}}')).format(written)


def _digest(rng: random.Random) -> str:
    digest = rng.choice((hashlib.sha256, hashlib.sha1, hashlib.md5))(rng.randbytes(8)).hexdigest()
    return rng.choice(("sha256:{}", "commit {}", "{}  file.tar.gz", 'etag: "{}"', '{{"hash":"{}"}}')).format(
        digest
    )


def _flight(rng: random.Random) -> str:
    flight = rng.choice(("HAT", "BA", "LH", "UA", "DL")) + digits(rng, 3)
    hour, minute, day, price = rng.randrange(24), rng.randrange(60), rng.randrange(1, 29), rng.randrange(900)
    return rng.choice(
        (
            f"Flight {flight} leaves JFK at {hour:02}:{minute:02} on 2024-05-{day:02}.",
            f'{{"flight_number": "{flight}", "origin": "JFK", "prices": {{"economy": {price}}}}}',
            f"{flight} to SEA, seat {rng.randrange(1, 40)}C, gate B{rng.randrange(60)}",
        )
    )


def _log(rng: random.Random) -> str:
    month, day, hour, minute = (
        rng.randrange(1, 10),
        rng.randrange(10),
        rng.randrange(10, 24),
        rng.randrange(10, 60),
    )
    stamp = f"2024-0{month}-1{day}T{hour}:{minute}:03.{digits(rng, 6)}Z"
    line, code = rng.randrange(900), rng.getrandbits(32)
    return rng.choice(
        (
            f"{stamp} INFO worker[{rng.randrange(32768)}]: finished 12 of 12 in {rng.random():.6f}s",
            f'{stamp} "GET /static/app.{rng.getrandbits(32):08x}.js HTTP/1.1" 200 {rng.randrange(10**6)}',
            f'  File "/usr/lib/python3.11/site-packages/x/core.py", line {rng.randrange(2000)}, in run',
            f"{stamp} WARN gc: heap {rng.randrange(10**10)} bytes, pause {rng.random() * 9:.15f} ms",
            f"[{rng.randrange(10**5)}.{digits(rng, 6)}] usb 1-1: new device, id=0{rng.getrandbits(12):03x}",
            f"{stamp} ERROR at com.example.Main$1.run(Main.java:{line}) code=0x{code:08x}",
        )
    )


def _code(rng: random.Random) -> str:
    return rng.choice(
        (
            "def read(path: str) -> bytes:\n    return open(path, 'rb').read()[1::2]",
            "import { a } from '@scope/name'; // eslint-disable-line",
            f"for (int i = 0; i < {rng.randrange(10**6)}; ++i) std::cout << v[i] << '\\n';",
            f"color: #{rng.getrandbits(24):06x}; background: url(icon@2x.png) -{rng.randrange(999)}px 0;",
            "git clone git@example.com:team/project.git && cd project",
            f"assert total(rows, after={rng.randrange(10**12)}, limit=100) == {rng.randrange(10**6)}",
            "@app.route('/users/<int:id>')\n@login_required\nasync def show(id): ...",
            f"const MAX = 0x{rng.getrandbits(64):016x}n; let x = {rng.random()!r};",
        )
    )


def _measure(rng: random.Random) -> str:
    return rng.choice(
        (
            f"{rng.uniform(-90, 90):.7f}, {rng.uniform(-180, 180):.7f}",
            f"[{rng.random()!r}, {rng.random()!r}, {rng.random()!r}]",
            f"loss={rng.random():.16f} step={rng.randrange(10**6)}",
            f"{rng.randrange(10**12)} bytes ({rng.random():.1%})",
            "\t".join(digits(rng, 4) for _ in range(5)),
            " ".join(str(rng.randrange(10**4)) for _ in range(6)),
        )
    )


def _when(rng: random.Random) -> str:
    day = f"2024-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
    return rng.choice(
        (
            "due on {}",
            "The meeting on {} at 10:30 is moved.",
            '{{"departure_date": "{}"}}',
            "from {} to 2025-01-01",
        )
    ).format(day)


def _product(rng: random.Random) -> str:
    body = digits(rng, 12)
    return rng.choice(
        (
            f"EAN {body}{ean.calc_check_digit(body)}",
            f"part 74-{digits(rng, 4)}-{digits(rng, 4)}-A",
            f"SKU {digits(rng, 3)}-{digits(rng, 3)}-{digits(rng, 4)}",
            f"model WX-{digits(rng, 4)}/{digits(rng, 2)}",
        )
    )


_FORMS: dict[str, tuple[Callable[[random.Random], str], frozenset[str]]] = {
    # What follows "order number" is marked on purpose, so such a mark is neither right nor wrong.
    "order number": (_order, _REFERENCE),
    "epoch in ms, us, ns": (_epoch, frozenset()),
    "UUID": (_uuid, frozenset()),
    "version": (_version, frozenset()),
    "price": (_price, frozenset()),
    "ISBN": (_isbn, frozenset()),
    "hex digest": (_digest, frozenset()),
    "flight": (_flight, frozenset()),
    "log line": (_log, frozenset()),
    "code": (_code, frozenset()),
    "measurement": (_measure, frozenset()),
    "other date": (_when, frozenset()),
    "product code": (_product, frozenset()),
}


def negatives(
    rng: random.Random, fakers: dict[str, Faker], each: int
) -> list[tuple[str, str, frozenset[str]]]:
    """So many texts of every form: the form, the text, the kinds whose marks do not count in it."""
    made = [(form, make(rng), neutral) for form, (make, neutral) in _FORMS.items() for _ in range(each)]
    for locale in _PROSE:
        # Sentences of random words: no names, and every way to begin a sentence with a capital.
        made += [(f"prose, {locale[:2]}", fakers[locale].paragraph(4), frozenset()) for _ in range(each)]
    return made


def locales() -> set[str]:
    """Every locale that is used here."""
    return set(_PROSE)
