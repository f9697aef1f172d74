"""What is printed and what is written: the same figures, each beside its target."""

import importlib.metadata
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.redaction.airline import NAMES_AND_ADDRESSES, Airline
from benchmarks.redaction.generated import KINDS, STRUCTURED
from benchmarks.redaction.hostile import Growth, Rate
from benchmarks.redaction.scoring import Score, as_json

SHARE_TARGET = 0.98
NAMES_TARGET = 0.95
RATE_TARGET = 2.0
#: A text twice as long may take so many times as long: 2 and the noise of a shared machine.
RATIO_TARGET = 2.5
_PACKAGES = ("faker", "google-re2", "phonenumbers", "pyahocorasick", "python-stdnum")
_EXAMPLE_LENGTH = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure beside what it should be; ``measured`` None: there was nothing to measure."""

    name: str
    bound: str
    target: float
    measured: float | None
    unit: str = "%"

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        met = self.measured >= self.target if self.bound == "≥" else self.measured <= self.target
        return "met" if met else "not met"


def versions() -> dict[str, str]:
    """The versions of what the figures depend on besides this project."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def generated_targets(total: Score) -> list[Target]:
    """Recall of each structured class, precision of each of their kinds."""
    recall = [
        Target(name=f"recall, {group}", bound="≥", target=SHARE_TARGET, measured=total.recall[group].share)
        for group in STRUCTURED
    ]
    kinds = dict.fromkeys(KINDS[group] for group in STRUCTURED)
    return recall + [
        Target(
            name=f"precision, {kind}", bound="≥", target=SHARE_TARGET, measured=total.precision[kind].share
        )
        for kind in kinds
        if kind in total.precision
    ]


def airline_targets(measured: Airline) -> list[Target]:
    """Names and addresses: as they stand in the talk, and planted in sentences of our own."""
    return [
        Target(
            name=f"{where}: {group}",
            bound="≥",
            target=NAMES_TARGET,
            measured=total.recall[group].share if group in total.recall else None,
        )
        for where, total in (("in the talk", measured.later), ("planted", measured.planted))
        for group in NAMES_AND_ADDRESSES
    ]


def speed_targets(rates: Iterable[Rate], grown: Iterable[Growth]) -> list[Target]:
    """Usual text, and the worst ratio of hostile text."""
    worst = max(grown, key=lambda one: one.ratio)
    return [
        Target(name=one.name, bound="≥", target=RATE_TARGET, measured=one.median, unit="MiB/s")
        for one in rates
    ] + [
        Target(
            name=f"n to 2n, worst: {worst.name}",
            bound="≤",
            target=RATIO_TARGET,
            measured=worst.ratio,
            unit="x",
        )
    ]


def print_score(console: Console, title: str, total: Score, *, texts_shown: bool) -> None:
    """Recall by class, precision by kind, and where it is worst."""
    table = _table(
        f"{title}: recall, {total.texts:,} texts", "class", "values", "hidden", "of its kind", "recall"
    )
    for group, one in total.recall.items():
        table.add_row(group, f"{one.values:,}", f"{one.hidden:,}", f"{one.named:,}", f"{one.share:.1%}")
    console.print(table)
    table = _table(f"{title}: precision", "kind", "marks", "right", "other kind", "on no value", "precision")
    for kind, marks in sorted(total.precision.items()):
        counts = (marks.marks, marks.right, marks.misnamed, marks.wrong)
        table.add_row(kind, *(f"{count:,}" for count in counts), f"{marks.share:.1%}")
    console.print(table)
    if total.missed and texts_shown:
        table = _table(
            f"{title}: most missed", "class", "how it is written", "missed", "of", "made-up example"
        )
        for (group, form), missed, of, text in total.worst(10, of_each=3):
            table.add_row(group, form, str(missed), str(of), _short(text))
        console.print(table)


def print_noise(console: Console, total: Score) -> None:
    """Texts without a value, and what was marked in them."""
    table = _table("texts without a value", "form", "texts", "with a mark", "kinds", "made-up example")
    for form, one in total.noise.items():
        kinds = ", ".join(f"{kind} {count}" for kind, count in one.kinds.most_common())
        table.add_row(form, f"{one.texts:,}", f"{one.marked:,}", kinds, _short(one.example))
    console.print(table)
    console.print(
        f"letters and digits marked: {total.signs_marked:,}, outside of any value: {total.signs_outside:,}",
        highlight=False,
    )


def print_speed(console: Console, rates: list[Rate], grown: list[Growth]) -> None:
    """Usual text in MiB/s of processor time, then hostile text by how its time grows."""
    table = _table("usual text, MiB/s of processor time", "", "median", "spread")
    for rate in rates:
        table.add_row(rate.name, f"{rate.median:.2f}", f"{min(rate.values):.2f}..{max(rate.values):.2f}")
    console.print(table)
    title = f"hostile text, {grown[0].characters:,} characters and twice as many"
    table = _table(title, "", "seconds", "twice", "ratio")
    for one in sorted(grown, key=lambda one: -one.seconds_twice):
        table.add_row(one.name, f"{one.seconds:.3f}", f"{one.seconds_twice:.3f}", f"{one.ratio:.2f}")
    console.print(table)


def print_targets(console: Console, targets: list[Target]) -> None:
    """Every target in one place."""
    table = _table("against the targets", "figure", "target", "measured", "")
    styles = {"met": "green", "not met": "red", "not measured": "yellow"}
    for one in targets:
        target, measured = f"{one.bound} {_figure(one.target, one.unit)}", "-"
        if one.measured is not None:
            measured = _figure(one.measured, one.unit)
        table.add_row(one.name, target, measured, f"[{styles[one.verdict]}]{one.verdict}[/]")
    console.print(table)


def airline_as_json(measured: Airline) -> dict[str, Any]:
    """Counts only: no text of a conversation goes anywhere."""
    return {
        "conversations": measured.conversations,
        "messages": measured.messages,
        "after_the_result": as_json(measured.later, texts_shown=False),
        "after_the_result_patterns_alone": as_json(measured.alone, texts_shown=False),
        "anywhere": as_json(measured.anywhere, texts_shown=False),
        "anywhere_words_known_then": as_json(measured.live, texts_shown=False),
        "planted": as_json(measured.planted, texts_shown=False),
    }


def speed_as_json(rates: list[Rate], grown: list[Growth]) -> dict[str, Any]:
    """Rates with their rounds, and seconds at both lengths."""
    return {
        "usual_mib_per_second": {
            one.name: {
                "median": round(statistics.median(one.values), 3),
                "rounds": [round(value, 3) for value in one.values],
            }
            for one in rates
        },
        "hostile": {
            one.name: {
                "characters": one.characters,
                "seconds": round(one.seconds, 4),
                "seconds_twice": round(one.seconds_twice, 4),
                "ratio": round(one.ratio, 2),
            }
            for one in grown
        },
    }


def target_as_json(one: Target) -> dict[str, Any]:
    """A target as it goes into the document."""
    return {
        "name": one.name,
        "bound": one.bound,
        "target": one.target,
        "measured": None if one.measured is None else round(one.measured, 4),
        "unit": "share" if one.unit == "%" else one.unit,
        "verdict": one.verdict,
    }


def _figure(value: float, unit: str) -> str:
    return f"{value:.1%}" if unit == "%" else f"{value:.2f} {unit}"


def _short(text: str) -> str:
    shown = text.replace("\n", "⏎").replace("[", "\\[")
    return shown if len(shown) <= _EXAMPLE_LENGTH else shown[:_EXAMPLE_LENGTH] + "…"


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    words = {"", "class", "form", "kind", "kinds", "figure", "how it is written", "made-up example"}
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right")
    return table
