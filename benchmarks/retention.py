"""What it costs to erase: until nobody reads it, until it is gone, and what a live writer notices."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import perf_counter, sleep

from benchmarks.measure import Bench, Check, Line, Reading, Row, series
from vault import NewEvent, Principal, Vault
from vault.clock import SystemClock
from vault.errors import NotFound

_EVENTS = 20
_LABEL = ("batch", "one")
_SOME = 1_000
_EXPIRED = "what is left, expired: by its id, nobody finds it"
_LISTED = "what is left, expired: a list finds nothing"
_YEARS = timedelta(days=400)


class _Clock:
    """The machine's clock, moved ahead by hand."""

    ahead_us = 0

    def now_us(self) -> int:
        return SystemClock().now_us() + self.ahead_us


@dataclass
class _Marks:
    """When an erasure came to which step, in seconds since it was asked for."""

    began: float
    fenced: float = 0.0

    def step(self, name: str) -> None:
        if name == "condemn" and not self.fenced:
            self.fenced = perf_counter() - self.began


def retention(bench: Bench) -> Row:
    """Sessions of 20 events: one, many by label, half of all; against DELETE and VACUUM of the same rows."""
    sessions = 2_000 if bench.quick else 50_000
    some = min(_SOME, sessions // 4)
    with bench.folder() as folder:
        clock = _Clock()
        readings: dict[str, list[Reading]] = {}
        with Vault.create(folder / "v", settings={"synchronous": "NORMAL"}, clock=clock) as vault:
            first, left, live = _filled(bench, vault, sessions, some)
            plain = _plain(bench, folder / "plain.db", sessions)
            bench.say("erasing")
            officer = vault.access(Principal(tenant="acme", subject="dpo", roles={"privacy_officer"}))
            readings["one session"] = [
                _erased(vault, partial(officer.erasure.erase, session=one)) for one in first
            ]
            readings["one session, DELETE and VACUUM"] = [_deleted(plain, f"session = {n}") for n in range(3)]
            label = f"{some:,} sessions by label"
            readings[label] = [_erased(vault, lambda: officer.erasure.erase(label=_LABEL))]
            readings[f"{some:,} sessions, DELETE and VACUUM"] = [
                _deleted(plain, f"session BETWEEN 10 AND {9 + some}")
            ]
            alone = _written(folder / "v", live, lambda: sleep(2))
            half = f"half of all, with a live writer: {sessions // 2:,} sessions"
            found: list[Reading] = []

            def erase_half() -> None:
                found.append(_erased(vault, lambda: officer.erasure.erase(subject="bob")))

            beside = _written(folder / "v", live, erase_half)
            readings[half] = found
            readings["half of all, DELETE and VACUUM"] = [_deleted(plain, f"session > {sessions // 2}")]
            clock.ahead_us = _YEARS // timedelta(microseconds=1)
            alice = vault.access(Principal(tenant="acme", subject="alice")).sessions
            readings[_EXPIRED] = [_looked_for(partial(alice.resume, left))]
            readings[_LISTED] = [_looked_for(alice.latest)]
    lines = [
        Line(main=series(found, "ms", "ms", name), aside=_asides(found, name))
        for name, found in readings.items()
    ]
    lines += [
        Line(
            main=series([alone], "p50", "ms", "a live writer's append, alone: median"), aside=_writer(alone)
        ),
        Line(
            main=series([beside], "p50", "ms", "the same, while half of all goes: median"),
            aside=_writer(beside),
        ),
    ]
    return Row(
        name="retention",
        title=f"erasure, {sessions:,} sessions of {_EVENTS} events",
        lines=tuple(lines),
        checks=_checks(readings, half, beside, sessions),
    )


def _checks(
    readings: dict[str, list[Reading]], half: str, beside: Reading, sessions: int
) -> tuple[Check, ...]:
    unreadable = series(readings["one session"], "unreadable", "ms", "a session unreadable")
    swept = [{"rate": sessions // 2 * _EVENTS / (readings[half][0]["ms"] / 1e3)}]
    return (
        Check(series=unreadable, bound="≤", target=50),
        Check(
            series=series(swept, "rate", "events/s", "sweep beside a live writer"), bound="≥", target=10_000
        ),
        Check(series=series([beside], "p99", "ms", "the writer's p99 meanwhile"), bound="≤", target=15),
        Check(series=series([beside], "max", "ms", "the writer's longest wait"), bound="≤", target=200),
        Check(
            series=series(
                readings[_EXPIRED],
                "ms",
                "ms",
                "all that is left expired",
            ),
            bound="≤",
            target=500,
        ),
    )


def _filled(bench: Bench, vault: Vault, sessions: int, some: int) -> tuple[list[str], str, str]:
    """Half of the sessions are alice's, half bob's; some of alice's carry a label.

    Returns:
        The ids of the first three, of one of alice's that nothing erases, and of carol's, who writes.
    """
    alice = vault.access(Principal(tenant="acme", subject="alice")).sessions
    bob = vault.access(Principal(tenant="acme", subject="bob")).sessions
    first, left = [], ""
    for number in range(sessions):
        if number % 500 == 0:
            bench.say(f"filling: {number:,} of {sessions:,} sessions")
        whose = alice if number < sessions // 2 else bob
        session = whose.create(labels=dict([_LABEL]) if 3 <= number < 3 + some else None)
        session.append_many(
            [NewEvent(type=one.type, payload=one.payload) for one in bench.workload.take(_EVENTS)]
        )
        if number < 3:
            first.append(session.id)
        elif number == 3 + some:
            left = session.id
    return first, left, vault.access(Principal(tenant="acme", subject="carol")).sessions.create().id


def _erased(vault: Vault, work: Callable[[], object]) -> Reading:
    """Milliseconds until the receipt is there, and until nobody could read what it is about."""
    marks = _Marks(began=perf_counter())
    object.__setattr__(vault._parts.execution, "step", marks.step)
    work()
    return {"ms": (perf_counter() - marks.began) * 1e3, "unreadable": marks.fenced * 1e3}


def _plain(bench: Bench, path: Path, sessions: int) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA secure_delete = ON")
    database.execute(
        "CREATE TABLE events (session INTEGER, seq INTEGER, body TEXT, PRIMARY KEY (session, seq))"
    )
    for number in range(sessions):
        if number % 5_000 == 0:
            bench.say(f"filling plain SQLite: {number:,} of {sessions:,} sessions")
        samples = bench.workload.take(_EVENTS)
        rows = [(number, seq, json.dumps(one.payload)) for seq, one in enumerate(samples)]
        database.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        if number % 50 == 0:
            database.commit()
    database.commit()
    return database


def _deleted(database: sqlite3.Connection, where: str) -> Reading:
    began = perf_counter()
    database.execute(f"DELETE FROM events WHERE {where}")  # noqa: S608 - our own text
    database.commit()
    gone = perf_counter() - began
    database.execute("VACUUM")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return {"ms": (perf_counter() - began) * 1e3, "unreadable": gone * 1e3}


def _written(place: Path, session: str, meanwhile: Callable[[], object]) -> Reading:
    """Latencies of another process's appends, each after a short pause, while something goes on here."""
    command = [sys.executable, "-c", _WRITER, str(place), session]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writing\n"
        meanwhile()
        told, _ = writer.communicate()  # which closes its standard input: it stops
    spent = sorted(json.loads(told))
    return {"p50": spent[len(spent) // 2], "p99": spent[len(spent) * 99 // 100], "max": spent[-1]}


_WRITER = """
import json, select, sys, time
from vault import Principal, Vault
with Vault.open(sys.argv[1]) as vault:
    session = vault.access(Principal(tenant="acme", subject="carol")).sessions.resume(sys.argv[2])
    session.append("message.user", {"content": "here"})
    print("writing", flush=True)
    spent = []
    while not select.select([sys.stdin], [], [], 0.002)[0]:
        began = time.perf_counter()
        session.append("message.user", {"content": "still here"})
        spent.append((time.perf_counter() - began) * 1e3)
    print(json.dumps(spent))
"""


def _looked_for(look: Callable[[], object]) -> Reading:
    """Everything expired at one moment: how long until somebody who looks for it is told so."""
    began = perf_counter()
    try:
        look()
    except NotFound:
        return {"ms": (perf_counter() - began) * 1e3, "unreadable": 0.0}
    raise AssertionError("a session is still there")


def _asides(found: list[Reading], name: str) -> tuple:
    return (series(found, "unreadable", "ms", f"{name}: unreadable"),)


def _writer(reading: Reading) -> tuple:
    return (series([reading], "p99", "ms", "p99"), series([reading], "max", "ms", "longest"))
