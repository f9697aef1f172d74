"""A session as a timeline that a person can read: one event under the other, as wide as the terminal."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from rich.console import Console
from rich.text import Text

from vault.cli.printable import ago, duration, local, one_line, plural
from vault.cli.readable import reading
from vault.model import Event, SessionSummary

#: A pause from here on is marked.
GAP: Final = timedelta(minutes=5)
_TYPE_CELLS: Final = 18
#: Below this width an event's text stands under its head instead of beside it.
NARROW_CELLS: Final = 72
_MESSAGE_LINES, _OTHER_LINES = 12, 3
_STYLES: Final = {
    "message.user": "bold cyan",
    "message.assistant": "green",
    "tool.requested": "yellow",
    "tool.returned": "blue",
    "tool.failed": "bold red",
}


def header(info: SessionSummary, now: datetime) -> Text:
    """What a session is: its title, state, times, labels and id."""
    used = f"last used {ago(info.last_event_at, now)} ({local(info.last_event_at)})"
    facts = [plural(info.event_count, "event"), info.state, used]
    labels = labels_line(info)
    origin = f"\nforked from {info.fork['of']} at {info.fork['at']}" if info.fork else ""
    title = one_line(info.title, 200) if info.title else "(no title)"
    return Text.assemble(
        (title, "bold"),
        f"\n{' · '.join(facts)}",
        f"\n{labels}" if labels else "",
        (origin, "dim"),
        (f"\n{info.id}", "dim"),
    )


def labels_line(info: SessionSummary) -> str:
    """The labels, and the config it is pinned to, on one line."""
    pairs = [f"{one_line(name, 40)}={one_line(value, 60)}" for name, value in sorted(info.labels.items())]
    if info.config:
        pairs.append(f"config {one_line(info.config, 60)}")
    return "  ".join(pairs)


class Timeline:
    """Prints events as they come, with the day, the pauses and the runs between them."""

    def __init__(self, console: Console, places: int) -> None:
        """Print on a console; ``places`` is the highest number of an event to make room for."""
        self._console = console
        self._seq_cells = max(len(str(places)), 3)
        self._before: Event | None = None
        self._moment: datetime | None = None
        self._timeless = False
        self._day = ""
        self._run: str | None = None

    def add(self, event: Event, body: str | None = None) -> None:
        """Print one event, with what it says or another text beside it."""
        moment = self._own_moment(event)
        self._between(event, moment)
        style = _STYLES.get(event.type, "magenta" if event.type.startswith("effect.") else "dim")
        time = f"{moment.astimezone():%H:%M:%S}" if moment else " " * 8
        place = f"{event.seq:>{self._seq_cells}}  {time}  "
        head = Text.assemble((place, "dim"), (event.type, style))
        body = reading(event) if body is None else body
        limit = _MESSAGE_LINES if event.type in {"message.user", "message.assistant"} else _OTHER_LINES
        if self._console.width < NARROW_CELLS:
            self._print(head, Text("    "), body, limit, beside=False)
        else:
            indent = Text(" " * (len(place) + _TYPE_CELLS + 1))
            fits = len(event.type) <= _TYPE_CELLS
            head.pad_right(_TYPE_CELLS - len(event.type) + 1 if fits else 0)
            self._print(head, indent, body, limit, beside=fits)

    def _print(self, head: Text, indent: Text, body: str, limit: int, *, beside: bool) -> None:
        width = max(self._console.width - indent.cell_len, 10)
        # More characters than this fill more lines than are shown; wrapping them would take most of the time.
        most = width * (limit + 1)
        lines = list(Text(body[:most]).wrap(self._console, width, overflow="fold"))
        if len(lines) > limit or len(body) > most:
            lines = lines[:limit]
            while len(lines) > 1 and not lines[-1].plain.strip():
                lines.pop()
            lines[-1].rstrip()
            lines[-1].truncate(width - 2)
            lines[-1] = Text.assemble(lines[-1], (" …", "dim"))
        out = [] if beside else [head]
        for line in lines or [Text()]:
            line.rstrip()
            out.append(Text.assemble(head if beside and not out else indent, line))
        self._console.print(Text("\n").join(out), soft_wrap=True)

    def _own_moment(self, event: Event) -> datetime | None:
        """When it happened; None for one that was imported without a time, among others that have theirs."""
        before = self._before
        if event.occurred_at is not None:
            self._timeless = False
            return event.occurred_at
        with_import = before is not None and (before.occurred_at is not None or self._timeless)
        self._timeless = bool(with_import and before and abs(event.recorded_at - before.recorded_at) < GAP)
        return None if self._timeless else event.recorded_at

    def _between(self, event: Event, moment: datetime | None) -> None:
        """What stands between this event and the one before: another day, a long pause, another run."""
        marks = []
        before, self._before = self._before, event
        if moment is not None:
            pause = moment - self._moment if self._moment is not None else timedelta(0)
            # From the time of an import back to the times of what it brought is no step of the story.
            alike = before is not None and (before.occurred_at is None) == (event.occurred_at is None)
            if pause >= GAP or (alike and pause <= -GAP):
                marks.append(f"{duration(abs(pause))} {'later' if pause > timedelta(0) else 'earlier'}")
            there = moment.astimezone()
            day = f"{there:%A %Y-%m-%d}, UTC{there.isoformat()[-6:]}"
            marks += [day] if day != self._day else []
            self._moment, self._day = moment, day
        if event.run != self._run:
            marks.append(event.run or "outside a run")
            self._run = event.run
        if marks:
            self._console.print(Text(f"── {' · '.join(marks)} ──", style="dim"), soft_wrap=True)
