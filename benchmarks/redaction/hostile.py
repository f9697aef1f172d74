"""Texts that are meant to make detectors slow, at two lengths; and how fast they are on usual text."""

import base64
import gc
import itertools
import json
import random
import statistics
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.redaction import generated, negatives
from vault import data
from vault.encoding import json_bytes
from vault.policy.places import Rules
from vault.policy.redaction import read_document
from vault.redaction.detect import Detector
from vault.redaction.pseudonyms import Pseudonyms
from vault.redaction.view import view
from vault.redaction.vocabulary import Vocabulary, terms_in

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How much text a second of processor time takes: MiB/s, each round."""

    name: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Seconds of processor time for a text and for one twice as long; the least of the rounds."""

    name: str
    characters: int
    seconds: float
    seconds_twice: float

    @property
    def ratio(self) -> float:
        return self.seconds_twice / max(self.seconds, 1e-6)


def _repeat(piece: str) -> Callable[[int], str]:
    return lambda length: (piece * (length // len(piece) + 1))[:length]


def _layers(encode: Callable[[str], str]) -> Callable[[int], str]:
    """Encodings in one another until the text is so long; the beginning of what comes out."""

    def make(length: int) -> str:
        text = "alice@example.com born 1990-01-01 "
        while len(text) < length:
            text = encode(text)
        return text[:length]

    return make


def _parts(length: int) -> str:
    """Many short encoded texts, each to be decoded."""
    rng = random.Random(1)
    made = (base64.b64encode(f"note {rng.random()} for nobody".encode()).decode() for _ in itertools.count())
    return " ".join(itertools.islice(made, length // 40))[:length]


HOSTILE: dict[str, Callable[[int], str]] = {
    "one letter": _repeat("a"),
    "digits": _repeat("4111111111111111"),
    "spaced digits": _repeat("4111 "),
    "a@": _repeat("a@"),
    "a.": _repeat("a."),
    "dotted digits": _repeat("1."),
    "colons": _repeat("a:"),
    "plus and digits": _repeat("+1 "),
    "iban beginnings": _repeat("DE89 "),
    "spaces": _repeat(" "),
    "brackets": _repeat("["),
    "quotes": _repeat('"'),
    "backslashes": _repeat("\\"),
    "escapes": _repeat("\\u0061"),
    "percent 25": _repeat("%25"),
    "amp;": _repeat("&amp;"),
    "zero-width": _repeat("a\u200b"),
    "combining marks": _repeat("e\u0301"),
    "ideographs": _repeat("\u51fa\u751f"),
    "word for an id": _repeat("ssn "),
    "word for a name": _repeat("my name is Mr. "),
    "street beginnings": _repeat("12 Aa "),
    "key begins": _repeat("-----BEGIN PRIVATE KEY-----"),
    "password=": _repeat("password="),
    "url userinfo": _repeat("http://a:"),
    "vocabulary words": _repeat("mei "),
    "base64 letters": _repeat("QUJD"),
    "many base64 texts": _parts,
    "base64 in base64": _layers(lambda text: base64.b64encode(text.encode()).decode()),
    "hex in hex": _layers(lambda text: text.encode().hex()),
    "JSON in JSON": _layers(lambda text: json.dumps({"a": text + text})),
    "percent in percent": _layers(lambda text: urllib.parse.quote(text + text, safe="")),
}


def growth(*, length: int, rounds: int, say: Callable[[str], None]) -> list[Growth]:
    """Search each hostile text at ``length`` characters and at twice as many."""
    find = Detector(_words()).find
    grown = []
    for name, make in HOSTILE.items():
        say(name)
        short, long = make(length), make(2 * length)
        times = [(_seconds(partial(find, short)), _seconds(partial(find, long))) for _ in range(rounds)]
        grown.append(
            Growth(
                name=name,
                characters=length,
                seconds=min(one for one, _ in times),
                seconds_twice=min(two for _, two in times),
            )
        )
    return grown


def rates(*, mebibytes: float, rounds: int, say: Callable[[str], None]) -> list[Rate]:
    """Take the time of usual text: searched alone, and in the L2 view of payloads with it."""
    texts = _usual(int(mebibytes * _MIB))
    joined = "\n".join(texts)
    messages = [joined[at : at + 4096] for at in range(0, len(joined), 4096)]
    words = _words()
    plain, knowing = Detector().find, Detector(words).find
    payloads = [_payload(number, texts) for number in range(0, len(texts) - 20, 20)]
    rules = Rules(
        read_document(
            (data.policies() / "redaction.toml").read_text(encoding="utf-8"), file="redaction.toml"
        ).rules
    )
    names = Pseudonyms(bytes(range(32)))

    def seen() -> None:
        for payload in payloads:
            view(
                payload,
                level="L2",
                event_type="tool.returned",
                rules=rules,
                finder=knowing,
                pseudonym=names.of,
            )

    searched = sum(len(message.encode()) for message in messages)
    viewed = sum(len(json_bytes(payload)) for payload in payloads)
    contenders: dict[str, tuple[int, Callable[[], Any]]] = {
        "find, one text": (len(joined.encode()), lambda: plain(joined)),
        "find, 4 KiB messages": (searched, lambda: [plain(message) for message in messages]),
        "find, 4 KiB messages, 500 known words": (
            searched,
            lambda: [knowing(message) for message in messages],
        ),
        "find, short texts": (
            sum(len(text.encode()) for text in texts),
            lambda: [plain(text) for text in texts],
        ),
        "L2 view of JSON payloads": (viewed, seen),
    }
    order = random.Random(7)
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name in order.sample(list(contenders), len(contenders)):
            say(f"round {number + 1}: {name}")
            size, run = contenders[name]
            taken[name].append(size / _MIB / _seconds(run))
    return [Rate(name=name, values=tuple(values)) for name, values in taken.items()]


def _seconds(run: Callable[[], Any]) -> float:
    # Processor time: what other programs do at the same time takes less of it than of the clock's.
    gc.collect()
    started = time.process_time()
    run()
    return time.process_time() - started


def _usual(size: int) -> list[str]:
    """Prose of six languages, code, logs, numbers: the texts without a value, so many bytes of them."""
    rng, fake = random.Random(generated.SEED), generated.fakers(generated.SEED)
    made = [text for _, text, _ in negatives.negatives(rng, fake, 60)]
    rng.shuffle(made)
    texts: list[str] = []
    length = 0
    for text in itertools.cycle(made):
        if length >= size:
            return texts
        texts.append(text)
        length += len(text.encode()) + 1
    return texts


def _payload(number: int, texts: list[str]) -> dict[str, Any]:
    """A tool's result as they are usual: ids, counts, and texts."""
    rows = [
        {"row": number + at, "ok": True, "price": at * 12.5, "note": texts[number + at]} for at in range(20)
    ]
    return {"call_id": f"call_{number}", "name": "search", "content": rows, "next": None}


def _words() -> Vocabulary:
    """The words of a session with a hundred people in it, none of whom is in the texts."""
    fake = generated.fakers(generated.SEED)["en_US"]
    people = [
        {
            "first_name": f"Xq{fake.first_name()}",
            "last_name": f"Xq{fake.last_name()}",
            "email": fake.email(),
            "zip": fake.zipcode(),
        }
        for _ in range(100)
    ] + [{"first_name": "Mei", "last_name": "Xqa"}]
    return Vocabulary(terms_in({"users": people}))
