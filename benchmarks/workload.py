"""The events every engine is given: seeded, of lognormal size, made of English-like words."""

import base64
import hashlib
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import orjson
import zstandard

SESSIONS = 20
"""Events go to this many sessions in turn."""

# Sizes seen in agent logs: median 589 B and p95 8.0 KB give a mean of 2.1 KB.
SIZE_MEDIAN_BYTES = 589
SIZE_P95_BYTES = 8_000
SIZE_MAX_BYTES = 256 * 1024
_SIGMA = math.log(SIZE_P95_BYTES / SIZE_MEDIAN_BYTES) / 1.645

_COMMON = """
the of and to a in is that for it was on are as with be by at this from or have an not which but we you
they all can will when if there one their more has had been so no out up do time about other into than its
some could these would only new after also use two how our first any work like because get through over
such most where need before order error value result table report sales customer price region please
""".split()  # noqa: SIM905 - words are read as words
_SYLLABLES = """
a an ar be ber bo ca con cor de der di do e en er es fa fi for ga gen hi i in ing is ju ka la le li lo ly
ma men mi mo na ne ni o on or pa per po pre ra re ri ro sa se sh si so st ta te ter ti tion to tra u un us
va ve vi wa wi y
""".split()  # noqa: SIM905 - the same
_VOCABULARY_WORDS = 2_500
_CORPUS_WORDS = 200_000
_TYPES = ("message.user", "message.assistant", "tool.requested", "tool.returned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One event to store: its type and its JSON payload."""

    type: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a stretch of the workload looks like: payload sizes as JSON, and how well they compress."""

    events: int
    median_bytes: int
    p95_bytes: int
    mean_bytes: int
    max_bytes: int
    zstd1_ratio: float
    zstd1_ratio_near_600_bytes: float


class Workload:
    """An endless stream of distinct events; the same seed gives the same stream."""

    def __init__(self, seed: int = 1) -> None:
        """Make the text that payloads are cut from (a fifth of a second)."""
        self._random = random.Random(seed)
        self._corpus = _make_corpus(self._random)
        self._count = 0

    def take(self, count: int) -> list[Sample]:
        """Return the next `count` events."""
        return [self._next() for _ in range(count)]

    def batches(self, count: int, size: int, *, random_content: bool = False) -> Iterator[list[Sample]]:
        """Yield `count` batches of `size` events, made as they are asked for: words, or random base64."""
        for _ in range(count):
            yield [self._next(random_content=random_content) for _ in range(size)]

    def _next(self, *, random_content: bool = False) -> Sample:
        self._count += 1
        chosen = self._random
        kind = _TYPES[chosen.randrange(len(_TYPES))]
        size = min(int(chosen.lognormvariate(math.log(SIZE_MEDIAN_BYTES), _SIGMA)), SIZE_MAX_BYTES)
        payload: dict[str, Any] = {
            "role": kind.partition(".")[2],
            "call_id": f"call_{chosen.getrandbits(96):024x}",
            "number": self._count,
            "content": "",
        }
        # Every payload differs, so no engine gains from storing repeats once.
        length = max(8, size - len(orjson.dumps(payload)))
        if random_content:
            payload["content"] = base64.b64encode(chosen.randbytes(length * 3 // 4)).decode()
        else:
            start = chosen.randrange(len(self._corpus) - length)
            payload["content"] = self._corpus[start : start + length]
        return Sample(type=kind, payload=payload)


def shape(samples: list[Sample]) -> Shape:
    """Measure payload sizes and compressibility, each payload compressed alone as a store has to."""
    documents = [orjson.dumps(sample.payload) for sample in samples]
    sizes = sorted(map(len, documents))
    return Shape(
        events=len(sizes),
        median_bytes=sizes[len(sizes) // 2],
        p95_bytes=sizes[len(sizes) * 95 // 100],
        mean_bytes=sum(sizes) // len(sizes),
        max_bytes=sizes[-1],
        zstd1_ratio=_ratio(documents),
        zstd1_ratio_near_600_bytes=_ratio([one for one in documents if 500 <= len(one) <= 700]),
    )


def _ratio(documents: list[bytes]) -> float:
    compressed = sum(len(zstandard.ZstdCompressor(level=1).compress(one)) for one in documents)
    return round(sum(map(len, documents)) / compressed, 2)


def _make_corpus(chosen: random.Random) -> str:
    """Words with Zipf frequencies, in sentences and paragraphs."""
    lengths = chosen.choices((2, 3, 4), weights=(2, 2, 1), k=_VOCABULARY_WORDS)
    rare = {"".join(chosen.choices(_SYLLABLES, k=syllables)) for syllables in lengths}
    words = _COMMON + sorted(rare, key=lambda word: hashlib.sha256(word.encode()).digest())
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(words))))
    text = chosen.choices(words, cum_weights=weights, k=_CORPUS_WORDS)
    position = 0
    while position < len(text):
        text[position] = text[position].capitalize()
        position += chosen.randrange(5, 22)
        if position < len(text):
            text[position - 1] += chosen.choice((".", ".", ".", "?", ":", ".\n"))
    return " ".join(text)
