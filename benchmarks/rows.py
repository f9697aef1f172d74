"""The rows of the table: what is done, by whom, and what it is held against.

A target is the figure a first landing has to reach. It is shown as met or not met; nothing here asserts it.
"""

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Barrier, Thread
from time import perf_counter, perf_counter_ns

from benchmarks import contention, engines
from benchmarks.adapters import ADAPTER_ROWS
from benchmarks.engines import (
    Engine,
    OpenAIEncryptedSession,
    OpenAISession,
    PlainSqlite,
    Synchronous,
    VaultEngine,
)
from benchmarks.measure import (
    Bench,
    Check,
    Line,
    Reading,
    Row,
    Series,
    append_batches,
    append_one_by_one,
    series,
)
from benchmarks.recovery import recovery
from benchmarks.retention import retention
from benchmarks.workload import SESSIONS, Sample

PROJECT_ROOT = Path(__file__).resolve().parent.parent
_BATCH = 100
_THREADS = 64
_LAST = 100

_APPEND_TARGETS: Mapping[Synchronous, tuple[float, float]] = {"FULL": (0.6, 1.8), "NORMAL": (0.35, 3.5)}
"""Vault over plain sqlite3, and over OpenAI EncryptedSession."""


def append(bench: Bench, mode: Synchronous) -> Row:
    """One event per commit, 20 sessions in turn, every engine."""
    count = 900 if bench.quick else 3_200
    samples = [bench.workload.take(count) for _ in range(bench.rounds)]

    def run(engine: type[Engine], number: int) -> Reading:
        with bench.folder() as folder:
            store = engine(folder, mode, SESSIONS)
            try:
                return append_one_by_one(store, samples[number], cap_seconds=bench.cap_seconds)
            finally:
                store.close()

    present, notes = _present(engines.ALL)
    lines = _compare(bench.interleave({engine.name: partial(run, engine) for engine in present}))
    over_plain, over_openai = _APPEND_TARGETS[mode]
    checks = _checks(lines, (PlainSqlite, over_plain), (OpenAIEncryptedSession, over_openai))
    title = f"append one by one, synchronous {mode}"
    return Row(name=f"append-{mode.lower()}", title=title, lines=lines, checks=checks, notes=notes)


def batch(bench: Bench, mode: Synchronous) -> Row:
    """A hundred events per commit, the engines that have a call for it."""
    count = 32 if bench.quick else 102

    def take() -> list[list[Sample]]:
        return list(bench.workload.batches(count, _BATCH))

    samples = {number: take() for number in range(bench.rounds)}

    def run(engine: type[Engine], number: int) -> Reading:
        with bench.folder() as folder:
            store = engine(folder, mode, SESSIONS)
            try:
                return append_batches(store, samples[number], cap_seconds=bench.cap_seconds)
            finally:
                store.close()

    present, notes = _present(engine for engine in engines.ALL if engine.has_batches)
    lines = _compare(bench.interleave({engine.name: partial(run, engine) for engine in present}))
    checks = _checks(lines, (PlainSqlite, 0.35))
    title = f"append batches of {_BATCH}, synchronous {mode}"
    return Row(name=f"batch-{mode.lower()}", title=title, lines=lines, checks=checks, notes=notes)


def threads(bench: Bench) -> Row:
    """The vault alone: 64 threads of one process against one, each thread its own session."""
    present, notes = _present((VaultEngine,))
    each, single = 150, 4_000

    def run(count: int, events: int, _number: int) -> Reading:
        work = [bench.workload.take(events) for _ in range(count)]
        with bench.folder() as folder:
            store = VaultEngine(folder, "FULL", count)
            try:
                return _append_from_threads(store, work, cap_seconds=bench.cap_seconds)
            finally:
                store.close()

    title = f"{_THREADS} appending threads against one, synchronous FULL"
    if not present:
        return Row(name="threads", title=title, lines=(), notes=notes)
    contenders = {
        "vault, 1 thread": partial(run, 1, single),
        f"vault, {_THREADS} threads": partial(run, _THREADS, each),
    }
    readings = bench.interleave(contenders)
    one, many = (series(found, "events_per_second", "events/s", name) for name, found in readings.items())
    lines = tuple(
        Line(main=main, aside=(series(readings[main.label], "p99_ms", "ms", "p99"),)) for main in (one, many)
    )
    ratio = many.over(one, f"{_THREADS} threads vs one")
    return Row(
        name="threads",
        title=title,
        lines=lines,
        checks=(Check(series=ratio, bound="≥", target=3),),
        notes=notes,
    )


def processes(bench: Bench) -> Row:
    """Four processes saturate one store; a plain SQLite file with a busy timeout beside it."""
    present, notes = _present((PlainSqlite, VaultEngine))
    seconds = 1.0 if bench.quick else 3.0

    def run(engine: type[Engine], number: int) -> Reading:
        with bench.folder() as folder:
            return contention.saturate(engine, folder, seconds=seconds, seed=number)

    readings = bench.interleave({engine.name: partial(run, engine) for engine in present})
    lines = tuple(
        Line(
            main=series(found, "max_wait_ms", "longest wait, ms", name),
            aside=(
                series(found, "errors", "", "errors"),
                series(found, "share", "", "min/max share"),
                series(found, "events_per_second", "events/s", "all together"),
                series(found, "p99_ms", "ms", "p99"),
            ),
        )
        for name, found in readings.items()
    )
    checks: tuple[Check, ...] = ()
    if VaultEngine in present:
        found = readings[VaultEngine.name]
        errors = sum(one["errors"] for one in found)
        checks = (
            # Summed: a median would hide an error.
            Check(series=Series(label="errors", unit="", values=(errors,)), bound="≤", target=0),
            Check(series=series(found, "max_wait_ms", "ms", "longest wait"), bound="≤", target=100),
            Check(series=series(found, "share", "", "min/max share"), bound="≥", target=0.6),
        )
    title = f"{contention.PROCESSES} processes on one store, synchronous FULL"
    return Row(name="processes", title=title, lines=lines, checks=checks, notes=notes)


def last(bench: Bench) -> Row:
    """The newest hundred events of a long session and of a short one that lie in the same store."""
    present, notes = _present((PlainSqlite, VaultEngine, OpenAIEncryptedSession))
    short, long = 1_000, 10_000 if bench.quick else 100_000
    sizes = ((0, f"{short // 1000} k"), (1, f"{long // 1000} k"))
    contenders: dict[str, Callable[[int], Reading]] = {}
    with ExitStack() as stack:
        for engine in present:
            store = engine(stack.enter_context(bench.folder()), "NORMAL", 2)
            stack.callback(store.close)
            bench.say(f"filling {engine.name}")
            _fill(bench, store, short, long)
            for session, size in sizes:
                contenders[f"{engine.name}, of {size}"] = partial(
                    _time_reads, partial(store.last, session, _LAST)
                )
            if isinstance(store, VaultEngine):
                again = partial(store.resume_and_last, 1, _LAST)
                contenders[f"vault, resume by id and read, of {sizes[1][1]}"] = partial(_time_reads, again)
        readings = bench.interleave(contenders)
    found = {name: series(values, "ms", "ms", name) for name, values in readings.items()}
    plain = found[f"{PlainSqlite.name}, of {sizes[1][1]}"]
    lines = tuple(Line(main=one, versus_plain=one.over(plain, "vs plain")) for one in found.values())
    checks: tuple[Check, ...] = ()
    if VaultEngine in present:
        of_short, of_long = (found[f"vault, of {size}"] for _, size in sizes)
        checks = (
            Check(series=of_long.over(of_short, f"of {sizes[1][1]} vs of 1 k"), bound="≤", target=1.5),
            Check(series=of_long.over(plain, "vs plain"), bound="≤", target=5),
        )
    title = f"last {_LAST} events, warm"
    return Row(name="last", title=title, lines=lines, checks=checks, notes=notes)


def disk(bench: Bench) -> Row:
    """Bytes of every file of a closed store, for words and for random base64."""
    present, notes = _present((PlainSqlite, VaultEngine, OpenAISession, OpenAIEncryptedSession))
    rounds = 30 if bench.quick else 200
    kinds = {
        "words": list(bench.workload.batches(rounds, _BATCH)),
        "random base64": list(bench.workload.batches(rounds, _BATCH, random_content=True)),
    }

    def run(engine: type[Engine], kind: str, _number: int) -> Reading:
        with bench.folder() as folder:
            store = engine(folder, "NORMAL", SESSIONS)
            for number, samples in enumerate(kinds[kind]):
                store.append_batch(number % SESSIONS, samples)
            store.close()
            files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
            return {"mb": sum(files) / 1e6}

    contenders = {
        f"{engine.name}, {kind}": partial(run, engine, kind) for kind in kinds for engine in present
    }
    # The same events give the same bytes, so one round says all.
    readings = bench.interleave(contenders, rounds=1)
    found = {name: series(values, "mb", "MB", name) for name, values in readings.items()}
    lines = []
    for name, main in found.items():
        plain = found[f"{PlainSqlite.name}, {name.rpartition(', ')[2]}"]
        lines.append(Line(main=main, versus_plain=main.over(plain, "vs plain")))
    checks: tuple[Check, ...] = ()
    if VaultEngine in present:
        checks = tuple(
            Check(
                series=found[f"vault, {kind}"].over(found[f"{PlainSqlite.name}, {kind}"], f"{kind} vs plain"),
                bound="≤",
                target=1.3,
            )
            for kind in kinds
        )
    return Row(
        name="disk",
        title=f"bytes on disk, {rounds * _BATCH:,} events",
        lines=tuple(lines),
        checks=checks,
        notes=notes,
    )


def import_time(bench: Bench) -> Row:
    """A fresh interpreter, from its start to its end, with byte code already written."""
    present, notes = _present((VaultEngine,))
    statements = {"python -c pass": "pass"}
    if present:
        statements["import vault"] = "import vault"

    def run(statement: str, _number: int) -> Reading:
        started = perf_counter()
        subprocess.run([sys.executable, "-c", statement], cwd=PROJECT_ROOT, check=True)
        return {"ms": (perf_counter() - started) * 1e3}

    contenders = {name: partial(run, statement) for name, statement in statements.items()}
    for once in contenders.values():
        once(0)
    readings = bench.interleave(contenders, rounds=bench.rounds * 2)
    found = {name: series(values, "ms", "ms", name) for name, values in readings.items()}
    checks = (Check(series=found["import vault"], bound="≤", target=150),) if present else ()
    lines = tuple(Line(main=one) for one in found.values())
    return Row(name="import", title="a fresh interpreter", lines=lines, checks=checks, notes=notes)


ROWS: Mapping[str, Callable[[Bench], Row]] = {
    "append-full": partial(append, mode="FULL"),
    "append-normal": partial(append, mode="NORMAL"),
    "batch-full": partial(batch, mode="FULL"),
    "batch-normal": partial(batch, mode="NORMAL"),
    "threads": threads,
    "processes": processes,
    "last": last,
    "disk": disk,
    "import": import_time,
    "recovery": recovery,
    "retention": retention,
    **ADAPTER_ROWS,
}


def _present(wanted: Iterable[type[Engine]]) -> tuple[list[type[Engine]], tuple[str, ...]]:
    reasons = {engine: engines.missing(engine) for engine in wanted}
    here = [engine for engine, reason in reasons.items() if reason is None]
    return here, tuple(f"{engine.name} skipped: {reason}" for engine, reason in reasons.items() if reason)


def _compare(readings: Mapping[str, list[Reading]]) -> tuple[Line, ...]:
    found = {name: series(values, "events_per_second", "events/s", name) for name, values in readings.items()}
    lines = []
    for name, main in found.items():
        asides = [figure for figure in ("p50_us", "p99_us") if figure in readings[name][0]]
        lines.append(
            Line(
                main=main,
                versus_plain=main.over(found[PlainSqlite.name], "vs plain"),
                aside=tuple(
                    series(readings[name], figure, "µs", figure.partition("_")[0]) for figure in asides
                ),
            )
        )
    return tuple(lines)


def _checks(lines: Iterable[Line], *against: tuple[type[Engine], float]) -> tuple[Check, ...]:
    found: dict[str, Series] = {line.main.label: line.main for line in lines}
    if VaultEngine.name not in found:
        return ()
    mine = found[VaultEngine.name]
    return tuple(
        Check(series=mine.over(found[other.name], f"vs {other.name}"), bound="≥", target=target)
        for other, target in against
        if other.name in found
    )


def _append_from_threads(store: Engine, work: list[list[Sample]], *, cap_seconds: float) -> Reading:
    spent: list[list[int]] = [[] for _ in work]
    finished: list[int] = []
    together = Barrier(len(work) + 1)

    def appender(session: int) -> None:
        mine = spent[session]
        store.append(session, work[session][0])
        together.wait()
        give_up = perf_counter() + cap_seconds
        for sample in work[session][1:]:
            before = perf_counter_ns()
            store.append(session, sample)
            mine.append(perf_counter_ns() - before)
            if perf_counter() > give_up:
                break
        finished.append(session)

    crew = [Thread(target=appender, args=(session,)) for session in range(len(work))]
    for one in crew:
        one.start()
    together.wait()
    started = perf_counter()
    for one in crew:
        one.join()
    seconds = perf_counter() - started
    if len(finished) != len(work):
        raise RuntimeError("an appending thread failed")
    every = sorted(wait for mine in spent for wait in mine)
    return {"events_per_second": len(every) / seconds, "p99_ms": every[len(every) * 99 // 100] / 1e6}


def _fill(bench: Bench, store: Engine, short: int, long: int) -> None:
    """Spread the short session's rows over the whole file, the hardest case for reading it."""
    batches = long // _BATCH
    every, few = max(1, batches // short), max(1, short // batches)
    for number, samples in enumerate(bench.workload.batches(batches, _BATCH)):
        store.append_batch(1, samples)
        if number % every == 0:
            store.append_batch(0, bench.workload.take(few))


def _time_reads(read: Callable[[], int], _number: int) -> Reading:
    spent = []
    for _ in range(30):
        before = perf_counter_ns()
        came = read()
        spent.append(perf_counter_ns() - before)
        if came != _LAST:
            raise RuntimeError("a read came back short")
    return {"ms": sorted(spent)[len(spent) // 2] / 1e6}
