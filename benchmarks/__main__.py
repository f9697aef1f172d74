"""Run the measurements: `python -m benchmarks [--quick] [--only NAME] [--json]`, from the project root."""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from benchmarks import engines, report
from benchmarks.measure import Bench, Row, load_average
from benchmarks.rows import PROJECT_ROOT, ROWS
from benchmarks.workload import SESSIONS, Workload, shape

_RESULTS = PROJECT_ROOT / "benchmarks" / "results" / "latest.json"
_SEED = 1
# One-minute load average up to which a machine counts as idle enough.
_IDLE_LOAD = 1.0


def main() -> int:
    """Measure, print and write; the exit code says that it ran, never that a target was met."""
    options = _parse()
    # With --json the standard output carries the document alone.
    console = Console(stderr=options.json)
    rounds = options.rounds or (3 if options.quick else 5)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir) as name:
        directory = Path(name)
        # A vault notes its newest ledger entry in the user's state directory; this is not the user's.
        os.environ["XDG_STATE_HOME"] = str(directory / "state")
        machine = report.machine(directory)
        _print_heading(console, machine, rounds)
        workload = Workload(_SEED)
        described = shape(Workload(_SEED).take(5_000))
        bench = Bench(
            workload=workload,
            rounds=rounds,
            quick=options.quick,
            directory=directory,
            say=lambda _: None,
            cap_seconds=1.0 if options.quick else 2.0,
        )
        rows = [_measure(bench, console, row) for row in options.only or ROWS]
    report.print_summary(console, rows)
    document = {
        "taken_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine,
        "versions": engines.versions(),
        "method": {"rounds": rounds, "quick": options.quick, "seed": _SEED, "sessions": SESSIONS},
        "workload": asdict(described),
        "rows": [report.row_as_json(row) for row in rows],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if options.json:
        sys.stdout.write(text + "\n")
    _RESULTS.parent.mkdir(exist_ok=True)
    _RESULTS.write_text(text + "\n", encoding="utf-8")
    console.print(f"written to {_RESULTS.relative_to(PROJECT_ROOT)}")
    return 0


def _measure(bench: Bench, console: Console, name: str) -> Row:
    before, started = load_average(), time.perf_counter()
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def say(what: str) -> None:
            # Drawn between measurements only: a thread that redraws would take time from them.
            live.update(Text(f"{name}: {what}", style="dim"), refresh=True)

        row = ROWS[name](replace(bench, say=say))
    row = replace(row, load_average=(before, load_average()), seconds=time.perf_counter() - started)
    report.print_row(console, row)
    return row


def _print_heading(console: Console, machine: dict[str, object], rounds: int) -> None:
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB; "
        f"{machine['system']}, file system {machine['file_system']}; "
        f"Python {machine['python']}, SQLite {machine['sqlite']}; "
        f"load {machine['load_average']}; medians of {rounds} interleaved rounds",
        highlight=False,
    )
    console.print(
        ", ".join(f"{name} {version}" for name, version in engines.versions().items()), highlight=False
    )
    if report.in_memory(str(machine["file_system"])):
        console.print(
            "This file system is in memory: commits cost nothing here. Give --dir on a disk.", style="red"
        )
    if load_average() > _IDLE_LOAD:
        console.print(
            "Other work is running: what waits for the disk or for a thread will vary widely.", style="red"
        )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer events and 3 rounds: about a minute and a half"
    )
    parser.add_argument("--only", action="append", choices=list(ROWS), metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--rounds", type=int, help="rounds of each row (default 5, quick 3)")
    parser.add_argument(
        "--json", action="store_true", help="the document on standard output, the table on standard error"
    )
    parser.add_argument(
        "--dir", type=Path, help="where the stores are made (default: the system's temporary directory)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
