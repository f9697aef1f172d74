"""What is printed and what is written: the same figures, with the machine they were taken on."""

import os
import platform
import sqlite3
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.measure import Check, Line, Row, Series

_MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})


def file_system(directory: Path) -> str:
    """Return the type of the file system a directory is on, or "unknown"."""
    place, best = str(directory.resolve()), ("", "unknown")
    mounts = Path("/proc/self/mounts")
    for line in mounts.read_text().splitlines() if mounts.exists() else ():
        _, point, kind, *_ = line.split(" ")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def in_memory(kind: str) -> bool:
    """Tell whether a file system keeps nothing on a disk, so that a commit to it costs nothing."""
    return kind in _MEMORY_FILE_SYSTEMS


def machine(directory: Path) -> dict[str, Any]:
    """Return what the figures depend on. No name of the machine or of a person."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "file_system": file_system(directory),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load_average": [round(one, 2) for one in os.getloadavg()],
    }


def row_as_json(row: Row) -> dict[str, Any]:
    """Return a row as it goes into the JSON file."""
    return {
        "name": row.name,
        "title": row.title,
        "lines": [_line_as_json(line) for line in row.lines],
        "targets": [_check_as_json(check) for check in row.checks],
        "notes": list(row.notes),
        "load_average_before_and_after": list(row.load_average),
        "seconds": round(row.seconds, 1),
    }


def print_row(console: Console, row: Row) -> None:
    """Print one row: its contenders, then its targets."""
    if row.lines:
        console.print(_table_of(row.title, row.lines))
    else:
        console.print(Text(row.title, style="bold"))
    for check in row.checks:
        console.print(_verdict(check))
    for note in row.notes:
        console.print(Text(f"  {note}", style="yellow"))


def print_summary(console: Console, rows: list[Row]) -> None:
    """Print every target in one place."""
    table = _empty_table("against the targets of the first landing")
    for heading in ("row", "figure", "target", "measured", ""):
        table.add_column(
            heading, justify="right" if heading in {"target", "measured"} else "left", no_wrap=True
        )
    for row in rows:
        for check in row.checks:
            one = check.series
            target = f"{check.bound} {_figure(check.target)} {one.unit}".rstrip()
            table.add_row(row.name, one.label, target, _figure(one.median), _met(check))
    if table.row_count:
        console.print(table)


def _empty_table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)


def _table_of(title: str, lines: tuple[Line, ...]) -> Table:
    table = _empty_table(f"{title}: {lines[0].main.unit}")
    table.add_column("", no_wrap=True)
    table.add_column("median", justify="right")
    table.add_column("spread", justify="right", style="dim", no_wrap=True)
    if any(line.versus_plain for line in lines):
        table.add_column("/ plain", justify="right")
    for one in lines[0].aside:
        table.add_column(f"{one.label} {one.unit}".rstrip(), justify="right", style="dim")
    for line in lines:
        ratio = [_figure(line.versus_plain.median)] if line.versus_plain else []
        aside = [_figure(one.median) for one in line.aside]
        table.add_row(line.main.label, _figure(line.main.median), _spread(line.main), *ratio, *aside)
    return table


def _verdict(check: Check) -> Text:
    one = check.series
    measured = f"{_figure(one.median)} {one.unit}".rstrip()
    words = f"  {one.label}: {measured} ({_spread(one)}), target {check.bound} {_figure(check.target)}: "
    return Text.assemble(words, _met(check))


def _met(check: Check) -> Text:
    return Text("met", style="green") if check.met else Text("not met", style="red")


def _line_as_json(line: Line) -> dict[str, Any]:
    return _series_as_json(line.main) | {
        "versus_plain": _series_as_json(line.versus_plain) if line.versus_plain else None,
        "aside": [_series_as_json(one) for one in line.aside],
    }


def _check_as_json(check: Check) -> dict[str, Any]:
    return _series_as_json(check.series) | {"bound": check.bound, "target": check.target, "met": check.met}


def _series_as_json(one: Series) -> dict[str, Any]:
    return {
        "label": one.label,
        "unit": one.unit,
        "median": round(one.median, 4),
        "min": round(min(one.values), 4),
        "max": round(max(one.values), 4),
        "rounds": [round(value, 4) for value in one.values],
    }


def _figure(value: float) -> str:
    """Three significant digits are more than the noise allows."""
    if value == int(value) and abs(value) < 1_000:
        return f"{value:.0f}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _spread(one: Series) -> str:
    low, high = _figure(min(one.values)), _figure(max(one.values))
    return low if low == high else f"{low}..{high}"


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    for line in facts.read_text().splitlines() if facts.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
