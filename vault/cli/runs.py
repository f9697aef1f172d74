"""Commands ``runs`` and ``stop``: the runs of a session, and taking the lease away from one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from vault.cli.accounts import account_of
from vault.cli.call import OwnerCall, SessionArgument, command
from vault.cli.output import console, document, note, progress, say, show
from vault.cli.printable import ago, iso, local, one_line, plural
from vault.cli.timeline import NARROW_CELLS
from vault.clock import SystemClock, from_us

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from vault.model import Event, SessionSummary

_BEGINNINGS: Final = {"run.started": "started", "run.woken": "woken", "run.retried": "retried"}
_ENDS: Final = {"run.stopped": "stopped", "run.failed": "failed"}
_STYLES: Final = {"active": "green", "failed": "red", "no end": "yellow", "lapsed": "yellow"}
_WORDS: Final = {
    "active": "at work: holds the lease",
    "lapsed": "no end: its lease ran out, and nobody took over",
    "no end": "no end: its process is gone",
    "session ended": "ended with its session",
    "in the original": "ends in the session that this one was forked from",
    "imported": "recorded without a lease",
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "runs")(list_runs)
    command(app, "stop")(stop_run)


@dataclass(slots=True)
class _Told:
    """What a log tells of one run."""

    run: str
    first: Event
    last: Event
    events: int = 0
    begun: Event | None = None
    end: Event | None = None

    def state(self, info: SessionSummary) -> str:
        """How it stands: stopped, failed, or why it has no end."""
        if self.end is not None:
            return _ENDS[self.end.type]
        if self.run == info.lease.run:
            return "active" if info.lease.live else "lapsed"
        if self.begun is None:
            return "imported"
        if self.last.seq <= info.shared_through:
            return "in the original"
        return "no end" if info.state == "active" else "session ended"

    @property
    def how(self) -> str | None:
        """How it began; None when it was recorded without a beginning."""
        return None if self.begun is None else _BEGINNINGS[self.begun.type]

    @property
    def began_at(self) -> datetime:
        """When its first event was recorded."""
        return self.first.recorded_at

    @property
    def reason(self) -> str | None:
        """Why it ended, in the words of whoever ended it."""
        if self.end is None or not isinstance(self.end.payload, dict):
            return None
        return account_of(self.end.type, self.end.payload)


def list_runs(call: OwnerCall, *, session: SessionArgument) -> None:
    """List the runs of a session, the oldest first.

    How each began, how and why it ended, how many events it wrote, and whether one holds the lease now.
    """
    with call.session(session) as found:
        info = found.info()
        lease = info.lease
        with progress("runs", info.event_count, of_bytes=False) as advance:
            told = _told(found.events(), advance)
    rows = [(run, run.state(info)) for run in told]
    if call.as_json:
        holding = lease.run if lease.live else None
        documents = [_document(run, state) for run, state in rows]
        document({"session": info.id, "active": holding, "waiting": lease.waiting, "runs": documents})
        return
    if not rows:
        note("no run was started in this session")
        return
    show(_table(rows, from_us(SystemClock().now_us())))
    active = "a run holds the lease" if lease.live else "no run holds the lease"
    waiting = f", {plural(lease.waiting, 'run')} waiting for it" if lease.waiting else ""
    say(f"{plural(len(rows), 'run')}; {active} now{waiting}")


def _told(events: Iterable[Event], advance: Any) -> list[_Told]:
    told: dict[str, _Told] = {}
    for event in events:
        advance(event.seq)
        if event.run is None:
            continue
        run = told.setdefault(event.run, _Told(event.run, event, event))
        run.last, run.events = event, run.events + 1
        if event.type in _BEGINNINGS:
            run.begun = event
        elif event.type in _ENDS and run.end is None:
            run.end = event
    return list(told.values())


def _document(run: _Told, state: str) -> dict[str, Any]:
    said = run.begun.payload if run.begun is not None and isinstance(run.begun.payload, dict) else {}
    return {
        "id": run.run,
        "how": run.how,
        "of": said.get("of"),
        "config": said.get("config"),
        "began_at": iso(run.began_at),
        "state": state,
        "reason": run.reason,
        "ended_at": None if run.end is None else iso(run.end.recorded_at),
        "last_event_at": iso(run.last.recorded_at),
        "events": run.events,
        "holds_lease": state in {"active", "lapsed"},
    }


def _table(rows: list[tuple[_Told, str]], now: datetime) -> RenderableType:
    if console().width < NARROW_CELLS:
        parts = [
            Text(f"{_begun(run)} {ago(run.began_at, now)}, {plural(run.events, 'event')}\n").append_text(
                _account(run, state)
            )
            for run, state in rows
        ]
        return Text("\n").join(parts)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("begun", no_wrap=True)
    table.add_column("run", ratio=1, overflow="fold")
    table.add_column("events", justify="right")
    for run, state in rows:
        when = Text.assemble(f"{_begun(run)} {ago(run.began_at, now)}", ("\n" + local(run.began_at), "dim"))
        table.add_row(when, _account(run, state), Text(f"{run.events:,}"))
    return table


def _begun(run: _Told) -> str:
    return run.how or "recorded"


def _account(run: _Told, state: str) -> Text:
    """How it ended and why, what it goes on from, its id."""
    ended = _WORDS.get(state, state)
    if run.reason:
        ended += f": {one_line(run.reason, 200)}"
    said = run.begun.payload if run.begun is not None and isinstance(run.begun.payload, dict) else {}
    begun = account_of(run.begun.type, said) if run.begun is not None else ""
    lines = [(ended, _STYLES.get(state, ""))]
    lines += [(begun, "")] if begun else []
    return Text("\n").join(Text(text, style=style) for text, style in [*lines, (run.run, "dim"), ("", "")])


def stop_run(
    call: OwnerCall,
    *,
    session: SessionArgument,
    reason: Annotated[
        str, typer.Option("--reason", metavar="R", help="Why, for whoever reads the log.")
    ] = "stopped from the command line",
) -> None:
    """Take the lease away from the run at work.

    Its writes are refused from now on. A run whose lease ran out is stopped as well: it may only be paused.
    """
    with call.session(session) as found:
        stopped = found.stop(reason)
        session_id = found.id
    if call.as_json:
        document({"session": session_id, "stopped": stopped})
    elif stopped is None:
        note("no run holds the lease of this session; there is nothing to stop")
    else:
        say(f"stopped {stopped}: its writes are refused from now on")
