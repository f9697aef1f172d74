"""Measure what the detectors find, miss and cost: `python -m benchmarks.redaction [--quick] [--json]`."""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.status import Status

from benchmarks.redaction import airline, generated, hostile, report
from benchmarks.redaction.scoring import as_json, score
from vault.redaction.detect import Detector

DATA_VARIABLE = "SESSION_VAULT_BENCH_DATA"
_AIRLINE_FILE = "airline-support.jsonl"


def main() -> int:
    """Measure and print; the exit code says that it ran, never that a target was met."""
    options = _parse()
    # With --json the standard output carries the document alone.
    console = Console(stderr=options.json, width=None if sys.stdout.isatty() else 140)
    each = 200 if options.quick else 2_000
    document: dict[str, Any] = {
        "taken_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "versions": report.versions(),
        "load_average": round(os.getloadavg()[0], 2),
        "method": {"quick": options.quick, "seed": generated.SEED, "texts_of_each_class": each},
    }
    console.print(
        f"Python {document['python']}, load {document['load_average']}, seed {generated.SEED}; "
        + ", ".join(f"{name} {version}" for name, version in document["versions"].items()),
        highlight=False,
    )
    with console.status("") as status:
        targets = _generated(console, status, document, each)
        targets += _airline(console, status, document, options.airline)
        targets += _speed(console, status, document, quick=options.quick)
    report.print_targets(console, targets)
    document["targets"] = [report.target_as_json(one) for one in targets]
    if options.json:
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return 0


def _generated(console: Console, status: Status, document: dict[str, Any], each: int) -> list[report.Target]:
    status.update("generated set")
    total = score(generated.cases(each=each), Detector().find)
    report.print_score(console, "generated", total, texts_shown=True)
    report.print_noise(console, total)
    document["generated"] = as_json(total, texts_shown=True)
    return report.generated_targets(total)


def _airline(
    console: Console, status: Status, document: dict[str, Any], path: Path | None
) -> list[report.Target]:
    if path is None or not path.is_file():
        why = (
            f"no recorded conversations: set {DATA_VARIABLE} to the directory of {_AIRLINE_FILE}, "
            "or give --airline"
        )
        console.print(why, style="yellow", highlight=False)
        document["airline"] = {"skipped": why}
        return []
    status.update("recorded conversations")
    measured = airline.measure(path)
    for title, total in (
        ("after the result that names it", measured.later),
        ("the same, patterns alone", measured.alone),
        ("anywhere in the conversation", measured.anywhere),
        ("anywhere, words known when it was said", measured.live),
        ("planted addresses", measured.planted),
    ):
        report.print_score(console, title, total, texts_shown=False)
    document["airline"] = report.airline_as_json(measured)
    return report.airline_targets(measured)


def _speed(console: Console, status: Status, document: dict[str, Any], *, quick: bool) -> list[report.Target]:
    def say(what: str) -> None:
        status.update(f"speed: {what}")

    # Nothing is drawn while time is taken.
    status.stop()
    rates = hostile.rates(mebibytes=0.25 if quick else 1.0, rounds=3 if quick else 7, say=say)
    length = 2**16 if quick else 2**19
    grown = hostile.growth(length=length, rounds=5, say=say)
    report.print_speed(console, rates, grown)
    document["speed"] = report.speed_as_json(rates, grown)
    return report.speed_targets(rates, grown)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.redaction", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the texts, shorter ones for speed")
    parser.add_argument(
        "--json", action="store_true", help="the document on standard output, the tables on standard error"
    )
    named = os.environ.get(DATA_VARIABLE)
    parser.add_argument(
        "--airline",
        type=Path,
        default=Path(named) / _AIRLINE_FILE
        if named and Path(named).is_dir()
        else Path(named)
        if named
        else None,
        help=f"the recorded conversations (default: {_AIRLINE_FILE} where {DATA_VARIABLE} says)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
