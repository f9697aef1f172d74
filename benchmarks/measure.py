"""How a figure is taken: interleaved rounds in shuffled order, medians, and ratios inside one round."""

import gc
import os
import random
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Literal

from benchmarks.engines import Engine
from benchmarks.workload import SESSIONS, Sample, Workload

Reading = Mapping[str, float]
"""What one run of one contender gave: figure name to value."""

_WARM_UP_EVENTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One figure over the rounds."""

    label: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def over(self, other: "Series", label: str) -> "Series":
        """Divide round by round, so that what slows a whole round down cancels out."""
        pairs = zip(self.values, other.values, strict=True)
        return Series(label=label, unit="x", values=tuple(mine / theirs for mine, theirs in pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A figure held against its target."""

    series: Series
    bound: Literal["≥", "≤"]
    target: float

    @property
    def met(self) -> bool:
        median = self.series.median
        return median >= self.target if self.bound == "≥" else median <= self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One contender in a row: its main figure, that against plain SQLite, and side figures."""

    main: Series
    versus_plain: Series | None = None
    aside: tuple[Series, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured kind of work."""

    name: str
    title: str
    lines: tuple[Line, ...]
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    load_average: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every row is given."""

    workload: Workload
    rounds: int
    quick: bool
    directory: Path
    say: Callable[[str], None]
    cap_seconds: float
    order: random.Random = field(default_factory=lambda: random.Random(7))

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Give an empty directory on the measured file system and remove it afterwards."""
        path = Path(tempfile.mkdtemp(dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def interleave(
        self, contenders: Mapping[str, Callable[[int], Reading]], *, rounds: int | None = None
    ) -> dict[str, list[Reading]]:
        """Run every contender once a round, in an order shuffled anew each round."""
        readings: dict[str, list[Reading]] = {name: [] for name in contenders}
        for number in range(rounds or self.rounds):
            names = list(contenders)
            self.order.shuffle(names)
            for name in names:
                self.say(f"round {number + 1}: {name}")
                gc.collect()
                readings[name].append(contenders[name](number))
        return readings


def series(readings: Iterable[Reading], figure: str, unit: str, label: str) -> Series:
    """Collect one figure of a contender over its rounds."""
    return Series(label=label, unit=unit, values=tuple(one[figure] for one in readings))


def load_average() -> float:
    """Return the one-minute load average."""
    return round(os.getloadavg()[0], 2)


def append_one_by_one(store: Engine, samples: list[Sample], *, cap_seconds: float) -> Reading:
    """Append to the sessions in turn, each event its own commit; the first events are not counted."""
    for number, sample in enumerate(samples[:_WARM_UP_EVENTS]):
        store.append(number % SESSIONS, sample)
    append, spent = store.append, []
    started = before = perf_counter_ns()
    give_up = started + int(cap_seconds * 1e9)
    for number, sample in enumerate(samples[_WARM_UP_EVENTS:]):
        append(number % SESSIONS, sample)
        after = perf_counter_ns()
        spent.append(after - before)
        before = after
        if after > give_up:
            break
    spent.sort()
    return {
        "events_per_second": len(spent) / ((before - started) / 1e9),
        "p50_us": spent[len(spent) // 2] / 1e3,
        "p99_us": spent[len(spent) * 99 // 100] / 1e3,
    }


def append_batches(store: Engine, batches: list[list[Sample]], *, cap_seconds: float) -> Reading:
    """Append batches to the sessions in turn, each batch its own commit; the first two are not counted."""
    for batch in batches[:2]:
        store.append_batch(0, batch)
    started = after = perf_counter_ns()
    give_up = started + int(cap_seconds * 1e9)
    events = 0
    for number, batch in enumerate(batches[2:]):
        store.append_batch(number % SESSIONS, batch)
        events += len(batch)
        after = perf_counter_ns()
        if after > give_up:
            break
    return {"events_per_second": events / ((after - started) / 1e9)}
