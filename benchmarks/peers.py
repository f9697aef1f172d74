"""An adapter beside its framework's own stores: the same work in turns, and what came out, side by side.

All run in one process and promise the same durability. Ratios are taken inside a round. Of rates more is
better, of times and bytes less.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any, Literal, cast

import orjson

from benchmarks.engines import Engine, Synchronous, missing
from benchmarks.measure import Bench, Check, Line, Reading, Row, Series, series
from benchmarks.workload import Sample
from vault import Principal, Vault
from vault.faces import Access

OURS = "vault"
LAST = 100
"""What a program reads that goes on with a conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One of those that do the work; ``run`` gets an empty directory and the number of the round."""

    name: str
    requires: tuple[str, ...]
    run: Callable[[Path, int], Reading]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a reading, as it is shown."""

    name: str
    label: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What is wanted of a figure of ours: of its ratio to that of a peer, or of itself.

    ``theirs_over_ours`` turns the ratio round, for what is to be a small part of theirs.
    """

    figure: str
    label: str
    bound: Literal["≥", "≤"]
    target: float
    peer: str | None = None
    theirs_over_ours: bool = False


def compare(
    bench: Bench,
    *,
    name: str,
    title: str,
    peers: Iterable[Peer],
    figures: Sequence[Figure],
    aims: Iterable[Aim] = (),
    rounds: int | None = None,
) -> Row:
    """A row of those that are installed; the first figure is the main one."""
    reasons = {peer: missing(cast("type[Engine]", peer)) for peer in peers}
    notes = [f"{peer.name} skipped: {reason}" for peer, reason in reasons.items() if reason]
    contenders = {
        peer.name: partial(_in_a_folder, bench, peer) for peer, reason in reasons.items() if not reason
    }
    readings = bench.interleave(contenders, rounds=rounds)
    lines = tuple(
        Line(
            main=series(found, figures[0].name, figures[0].unit, one),
            aside=tuple(series(found, figure.name, figure.unit, figure.label) for figure in figures[1:]),
        )
        for one, found in readings.items()
    )
    checks: list[Check] = []
    if OURS in readings:
        checks = [check for aim in aims if (check := _held_against(aim, readings)) is not None]
        notes += [_ratios(readings, other, figures) for other in readings if other != OURS]
    return Row(name=name, title=title, lines=lines, checks=tuple(checks), notes=tuple(notes))


def pace(spent_ns: Sequence[int]) -> Reading:
    """Calls per second, and how long the middle one and the slowest hundredth took."""
    ordered = sorted(spent_ns)
    return {
        "per_second": len(ordered) / (sum(ordered) / 1e9),
        "p50_us": ordered[len(ordered) // 2] / 1e3,
        "p99_us": ordered[len(ordered) * 99 // 100] / 1e3,
    }


def took_ns(call: Callable[[], object]) -> int:
    """Nanoseconds of one call."""
    before = perf_counter_ns()
    call()
    return perf_counter_ns() - before


def median_ms(call: Callable[[], object], times: int = 15) -> float:
    """The middle one of several calls."""
    return sorted(took_ns(call) for _ in range(times))[times // 2] / 1e6


async def median_ms_of(call: Callable[[], Awaitable[object]], times: int = 15) -> float:
    """The same of calls that are awaited."""
    spent = []
    for _ in range(times):
        before = perf_counter()
        await call()
        spent.append((perf_counter() - before) * 1e3)
    return sorted(spent)[times // 2]


def stored(folder: Path, user_bytes: int) -> Reading:
    """Bytes of all files of a store that is closed: in all, and for each byte of what was given to it."""
    found = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"mb": found / 1e6, "times": found / user_bytes}


def json_bytes(values: Iterable[Any]) -> int:
    """Bytes of what was given to a store, as plain JSON."""
    return sum(len(orjson.dumps(value)) for value in values)


def messages(samples: Iterable[Sample]) -> list[dict[str, str]]:
    """A question and an answer in turns."""
    return [
        {"role": ("user", "assistant")[number % 2], "content": sample.payload["content"]}
        for number, sample in enumerate(samples)
    ]


def a_vault(folder: Path, mode: Synchronous) -> tuple[Vault, Access]:
    """The vault in a directory, made when it is not there yet, and what one person does with it."""
    path = folder / "bench.vault"
    vault = Vault.open(path) if path.exists() else Vault.create(path, settings={"synchronous": mode})
    return vault, vault.access(Principal(tenant="acme", subject="alice"))


def _in_a_folder(bench: Bench, peer: Peer, number: int) -> Reading:
    with bench.folder() as folder:
        return peer.run(folder, number)


def _held_against(aim: Aim, readings: dict[str, list[Reading]]) -> Check | None:
    held = mine = series(readings[OURS], aim.figure, "x", aim.label)
    if aim.peer is not None:
        if aim.peer not in readings:
            return None
        theirs = series(readings[aim.peer], aim.figure, "x", "")
        if aim.theirs_over_ours:
            held = theirs.over(mine, f"{aim.label} of {aim.peer} vs ours")
        else:
            held = mine.over(theirs, f"{aim.label} vs {aim.peer}")
    return Check(series=held, bound=aim.bound, target=aim.target)


def _ratios(readings: dict[str, list[Reading]], other: str, figures: Sequence[Figure]) -> str:
    def ratio(figure: Figure) -> Series:
        mine, theirs = (series(readings[one], figure.name, "", "") for one in (OURS, other))
        return mine.over(theirs, figure.label)

    found = (ratio(figure) for figure in figures)
    return f"{OURS} / {other}: " + ", ".join(f"{one.label} {one.median:.3g}" for one in found)
