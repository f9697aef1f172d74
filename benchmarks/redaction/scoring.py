"""Texts with known answers, and what a detector's spans are worth beside them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vault.redaction.spans import Span

Find = Callable[[str], Sequence[Span]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """A value that is to be found: where it stands, its kind, its class in the report, how it is written."""

    start: int
    end: int
    kind: str
    group: str
    form: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A text and every value in it. ``neutral``: kinds whose marks in it are neither right nor wrong."""

    text: str
    gold: tuple[Gold, ...] = ()
    form: str = ""
    neutral: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class Recall:
    """Values of one class. ``hidden``: no letter or digit is left; ``named``: by a mark of its kind."""

    values: int = 0
    hidden: int = 0
    named: int = 0

    @property
    def share(self) -> float:
        return self.hidden / self.values if self.values else 0.0


@dataclass(slots=True, kw_only=True)
class Precision:
    """Marks of one kind: on a value of that kind, on a value of another kind, on no value at all."""

    right: int = 0
    misnamed: int = 0
    wrong: int = 0

    @property
    def marks(self) -> int:
        return self.right + self.misnamed + self.wrong

    @property
    def share(self) -> float:
        return self.right / self.marks if self.marks else 0.0


@dataclass(slots=True, kw_only=True)
class Noise:
    """Texts of one form without any value, and how many of them got a mark."""

    texts: int = 0
    marked: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    example: str = ""


@dataclass(slots=True, kw_only=True)
class Score:
    """Everything counted over many cases."""

    texts: int = 0
    recall: dict[str, Recall] = field(default_factory=dict)
    precision: dict[str, Precision] = field(default_factory=dict)
    noise: dict[str, Noise] = field(default_factory=dict)
    forms: Counter[tuple[str, str]] = field(default_factory=Counter)
    missed: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], str] = field(default_factory=dict)
    signs_marked: int = 0
    signs_outside: int = 0

    def worst(self, count: int, *, of_each: int) -> list[tuple[tuple[str, str], int, int, str]]:
        """The forms with most misses, so many of each class: (class, form), missed, of how many, a text."""
        shown: Counter[str] = Counter()
        rows = []
        for form, missed in sorted(self.missed.items(), key=lambda one: (-one[1], one[0])):
            shown[form[0]] += 1
            if shown[form[0]] <= of_each:
                rows.append((form, missed, self.forms[form], self.examples[form]))
        return rows[:count]


def score(cases: Iterable[Case], find: Find, *, into: Score | None = None) -> Score:
    """Search every text and count; ``into``: add to these counts."""
    total = Score() if into is None else into
    for case in cases:
        total.texts += 1
        spans = find(case.text)
        _count_values(total, case, spans)
        _count_marks(total, case, spans)
        if not case.gold:
            _count_noise(total, case, spans)
    return total


def signs(text: str, start: int, end: int) -> set[int]:
    """The places of letters and digits; what stands between them tells nothing."""
    return {at for at in range(start, end) if text[at].isalnum()}


def is_hidden(text: str, gold: Gold, spans: Iterable[Span]) -> bool:
    """Whether no letter and no digit of a value is left to be seen."""
    left = signs(text, gold.start, gold.end)
    for span in spans:
        if span.start < gold.end and gold.start < span.end:
            left -= set(range(span.start, span.end))
    return not left


def _count_values(total: Score, case: Case, spans: Sequence[Span]) -> None:
    for gold in case.gold:
        counted = total.recall.setdefault(gold.group, Recall())
        counted.values += 1
        form = (gold.group, gold.form)
        total.forms[form] += 1
        if not is_hidden(case.text, gold, spans):
            total.missed[form] += 1
            total.examples.setdefault(form, case.text)
            continue
        counted.hidden += 1
        counted.named += any(
            span.kind == gold.kind and span.start < gold.end and gold.start < span.end for span in spans
        )


def _count_marks(total: Score, case: Case, spans: Sequence[Span]) -> None:
    for span in spans:
        touched = [gold for gold in case.gold if span.start < gold.end and gold.start < span.end]
        if not touched and span.kind in case.neutral:
            continue
        marked = signs(case.text, span.start, span.end)
        outside = marked - {at for gold in touched for at in range(gold.start, gold.end)}
        total.signs_marked += len(marked)
        total.signs_outside += len(outside)
        counted = total.precision.setdefault(span.kind, Precision())
        # A mark that mostly hides something else is not right because it also hides a value.
        if not touched or 2 * len(outside) > len(marked):
            counted.wrong += 1
        elif any(gold.kind == span.kind for gold in touched):
            counted.right += 1
        else:
            counted.misnamed += 1


def _count_noise(total: Score, case: Case, spans: Sequence[Span]) -> None:
    counted = total.noise.setdefault(case.form, Noise())
    counted.texts += 1
    wrong = [span for span in spans if span.kind not in case.neutral]
    if wrong:
        counted.marked += 1
        counted.kinds.update({span.kind for span in wrong})
        counted.example = counted.example or case.text


def as_json(total: Score, *, texts_shown: bool) -> dict[str, Any]:
    """The counts as they go into the document; texts only where they may be shown."""
    return {
        "texts": total.texts,
        "recall": {
            group: {
                "values": one.values,
                "hidden": one.hidden,
                "named": one.named,
                "recall": round(one.share, 4),
            }
            for group, one in sorted(total.recall.items())
        },
        "precision": {
            kind: {
                "marks": one.marks,
                "right": one.right,
                "misnamed": one.misnamed,
                "wrong": one.wrong,
                "precision": round(one.share, 4),
            }
            for kind, one in sorted(total.precision.items())
        },
        "without_values": {
            form: {"texts": one.texts, "marked": one.marked, "kinds": dict(one.kinds)}
            | ({"example": one.example} if texts_shown and one.example else {})
            for form, one in sorted(total.noise.items())
        },
        "worst": [
            {"class": group, "form": form, "missed": missed, "of": of}
            | ({"example": text} if texts_shown else {})
            for (group, form), missed, of, text in total.worst(40, of_each=10)
        ],
        "letters_and_digits_marked": total.signs_marked,
        "letters_and_digits_marked_outside_values": total.signs_outside,
    }
