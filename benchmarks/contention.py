"""Four processes that append to one store as fast as they can."""

import multiprocessing
from collections.abc import Sequence
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from time import perf_counter_ns

from benchmarks.engines import Engine
from benchmarks.measure import Reading
from benchmarks.workload import Workload

PROCESSES = 4
_WARM_UP_EVENTS = 20
# More than a disk confirms in a second.
_EVENTS_A_SECOND = 8_000
_PATIENCE_SECONDS = 120

Outcome = tuple[int, int, Sequence[int]]
"""Events stored, errors, and the nanoseconds of each call that stored one."""


def saturate(engine: type[Engine], directory: Path, *, seconds: float, seed: int) -> Reading:
    """Return errors, the longest wait of one append, the smallest share over the largest, and the rate."""
    engine(directory, "FULL", 1).close()
    # Fresh interpreters, as separate agents are; a fork would inherit open connections.
    context = multiprocessing.get_context("spawn")
    together, outcomes = context.Barrier(PROCESSES), context.Queue()
    crew = [
        context.Process(
            target=_append,
            kwargs={
                "store_class": engine,
                "directory": directory,
                "number": number,
                "seed": seed,
                "seconds": seconds,
                "together": together,
                "outcomes": outcomes,
            },
        )
        for number in range(PROCESSES)
    ]
    for one in crew:
        one.start()
    found: list[Outcome] = [outcomes.get(timeout=_PATIENCE_SECONDS) for _ in crew]
    for one in crew:
        one.join(_PATIENCE_SECONDS)
    stored = [events for events, _, _ in found]
    waits = sorted(wait for _, _, spent in found for wait in spent)
    return {
        "errors": sum(errors for _, errors, _ in found),
        "max_wait_ms": waits[-1] / 1e6,
        "p99_ms": waits[len(waits) * 99 // 100] / 1e6,
        "share": min(stored) / max(stored),
        "events_per_second": sum(stored) / seconds,
    }


def _append(
    *,
    store_class: type[Engine],
    directory: Path,
    number: int,
    seed: int,
    seconds: float,
    together: Barrier,
    outcomes: "Queue[Outcome]",
) -> None:
    samples = Workload(seed * PROCESSES + number).take(int(_EVENTS_A_SECOND * seconds))
    store = store_class(directory, "FULL", PROCESSES)
    for sample in samples[:_WARM_UP_EVENTS]:
        store.append(number, sample)
    spent: list[int] = []
    errors = 0
    together.wait(_PATIENCE_SECONDS)
    before = perf_counter_ns()
    finish = before + int(seconds * 1e9)
    for sample in samples[_WARM_UP_EVENTS:]:
        try:
            store.append(number, sample)
        except Exception:  # noqa: BLE001 - whatever an engine raises is counted and reported
            errors += 1
        after = perf_counter_ns()
        spent.append(after - before)
        before = after
        if after > finish:
            break
    # All have stopped before the first closes: closing is not what is measured.
    together.wait(_PATIENCE_SECONDS)
    store.close()
    outcomes.put((len(spent) - errors, errors, spent))
