"""Commands on sessions: ``sessions``, ``show``, ``follow``, ``label``, ``end``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from vault.cli.call import LimitOption, OwnerCall, SessionArgument, check_event_id, command, parse_moment
from vault.cli.output import console, document, note, say, show
from vault.cli.printable import ago, iso, local, one_line, plural, visible
from vault.cli.readable import event_document
from vault.cli.timeline import NARROW_CELLS, Timeline, header, labels_line
from vault.clock import SystemClock, from_us
from vault.errors import InvalidInput
from vault.model import PAGE_MAX, Event, SessionSummary

if TYPE_CHECKING:
    from vault.model import Page

#: How many events ``--newest`` shows when no limit says otherwise.
_NEWEST = 20


def _now() -> datetime:
    return from_us(SystemClock().now_us())


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "sessions")(list_sessions)
    command(app, "show")(show_session)
    command(app, "follow")(follow_session)
    command(app, "label")(label_session)
    command(app, "end")(end_session)


# ------------------------------------------------------------------------------------------------ sessions


def list_sessions(
    call: OwnerCall,
    *,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="K=V", help="Only sessions with this label; may be given again."),
    ] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help="Only `active` or only `ended` sessions.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=PAGE_MAX, metavar="N", help="Sessions in a page.")
    ] = 20,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the page before ended.")
    ] = None,
) -> None:
    """List sessions, the one used last first."""
    with call.sessions() as sessions:
        page = sessions.find(labels=_labels(label or []), state=state, limit=limit, cursor=cursor)
    if call.as_json:
        items = [summary_document(item) for item in page.items]
        document({"sessions": items, "next_cursor": page.next_cursor})
    elif page.items:
        show(_table(page))
        if page.next_cursor:
            say(f"next page: {_next_page(call, label or [], state, limit, page.next_cursor)}")
    else:
        note("no sessions to show; --tenant and --as say whose are listed")


def _labels(given: list[str]) -> dict[str, str]:
    labels = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            raise InvalidInput("a label is given as name=value")
        labels[name] = value
    return labels


def _table(page: Page) -> RenderableType:
    now = _now()
    if console().width < NARROW_CELLS:
        return Text("\n").join(
            Text("\n").join(
                [
                    Text(
                        f"{ago(item.last_event_at, now)}, {plural(item.event_count, 'event')}, {item.state}"
                    ),
                    _recognised(item),
                ]
            )
            for item in page.items
        )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("last used", no_wrap=True)
    table.add_column("session", ratio=1, overflow="fold")
    table.add_column("events", justify="right")
    table.add_column("state")
    for item in page.items:
        used = Text.assemble(ago(item.last_event_at, now), ("\n" + local(item.last_event_at), "dim"))
        state = Text(item.state, style="green" if item.state == "active" else "dim")
        table.add_row(used, _recognised(item), Text(f"{item.event_count:,}"), state)
    return table


def _recognised(item: SessionSummary) -> Text:
    """Title, how the talk began and where it stands, labels, id."""
    title = one_line(item.title, 100) if item.title else None
    first = one_line(item.first_message, 80) if item.first_message else None
    last = one_line(item.last_message, 80) if item.last_message else None
    lines = [(title, "bold")] if title else []
    # A title that was taken from the first message says it already.
    if first and not (title and first[:40] == title[:40]):
        lines.append((first, "" if title else "bold"))
    if last and last != first:
        lines.append((f"→ {last}", ""))
    if labels := labels_line(item):
        lines.append((labels, "cyan"))
    lines += [(item.id, "dim"), ("", "")]
    return Text("\n").join(Text(text, style=style) for text, style in lines)


def _next_page(call: OwnerCall, label: list[str], state: str | None, limit: int, cursor: str) -> str:
    """The command for the next page; what comes from the environment need not be said again."""
    words = ["session-vault", "sessions"]
    defaults = {field.name: field.default for field in fields(call)}
    for option, name in (("--vault", "place"), ("--tenant", "tenant"), ("--as", "subject")):
        value = getattr(call, name)
        if value != defaults[name]:
            words += [option, str(value)]
    for option, values in (("--role", call.role), ("--team", call.team)):
        for value in values or ():
            words += [option, value]
    for item in label:
        words += ["--label", item]
    words += ["--state", state] if state else []
    return visible(shlex.join([*words, "--limit", str(limit), "--cursor", cursor]))


def summary_document(info: SessionSummary) -> dict[str, Any]:
    """A session as a JSON object."""
    return {
        "id": info.id,
        "title": info.title,
        "labels": dict(info.labels),
        "config": info.config,
        "external_id": info.external_id,
        "parent": info.parent,
        "state": info.state,
        "created_at": iso(info.created_at),
        "last_event_at": iso(info.last_event_at),
        "ended_at": iso(info.ended_at),
        "event_count": info.event_count,
        "first_message": info.first_message,
        "last_message": info.last_message,
        "fork": None if info.fork is None else dict(info.fork),
    }


# ------------------------------------------------------------------------------------------- show, follow


def show_session(
    call: OwnerCall,
    *,
    session: SessionArgument,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="T", help="Only events of this type; may be given again."),
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="R", help="Only events of this run (its id).")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Only events behind this one.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="ID", help="Only events in front of this one.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Only events recorded at or after an ISO 8601 time with its zone."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only events recorded before such a time.")
    ] = None,
    limit: LimitOption = None,
    newest: Annotated[
        bool, typer.Option("--newest", help="The newest first; the last 20 when there is no --limit.")
    ] = False,
) -> None:
    """Print a session as a timeline.

    With --json, one event a line. Times are in this machine's time zone, in JSON in UTC.
    """
    moments = {"since": parse_moment(since, "--since"), "until": parse_moment(until, "--until")}
    check_event_id(after, "--after")
    check_event_id(before, "--before")
    most = limit or (_NEWEST if newest else None)
    with call.session(session) as found:
        events = found.events(
            types=types, run=run, after=after, before=before, limit=most, newest_first=newest, **moments
        )
        if call.as_json:
            _print_documents(events)
        else:
            _print_timeline(found.info(), events, most, newest=newest)


def _print_timeline(info: SessionSummary, events: Iterator[Event], most: int | None, *, newest: bool) -> None:
    show(header(info, _now()))
    timeline, shown, last = Timeline(console(), info.event_count), 0, None
    for event in events:
        timeline.add(event)
        shown, last = shown + 1, event
    more = f"; go on with --{'before' if newest else 'after'} {last.id}" if last and shown == most else ""
    say(f"{shown:,} of {plural(info.event_count, 'event')}{more}")


def follow_session(
    call: OwnerCall,
    *,
    session: SessionArgument,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="ID", help="Begin behind this event instead of at the first one."),
    ] = None,
) -> None:
    """Print a session, then each new event.

    Goes on until the session ends or Ctrl-C is pressed.
    """
    check_event_id(after, "--after")
    with call.session(session) as found:
        events = found.follow(after=after)
        if call.as_json:
            _print_documents(events)
            return
        info = found.info()
        show(header(info, _now()))
        timeline = Timeline(console(), info.event_count)
        for event in events:
            timeline.add(event)
        note("the session has ended")


def _print_documents(events: Iterator[Event]) -> None:
    for event in events:
        document(event_document(event))


# ---------------------------------------------------------------------------------------------- label, end


def label_session(
    call: OwnerCall,
    *,
    session: SessionArgument,
    labels: Annotated[
        list[str] | None, typer.Argument(metavar="[K=V]...", help="Labels to give, each with its value.")
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="NAME", help="A label to take away; may be given again."),
    ] = None,
) -> None:
    """Give a session labels while it lives on, and take some away.

    What is kept by a label's rule is bound anew, and the log says so. A label that a legal hold names stays:
    then the exit code is 7.
    """
    if not labels and not remove:
        raise InvalidInput("say which labels to give as name=value, or which to take away with --remove")
    with call.session(session) as found:
        found.relabel(_labels(labels or []), remove=remove or ())
        info = found.info()
    if call.as_json:
        document(summary_document(info))
    else:
        say(f"{info.id} has the labels {labels_line(info)}" if info.labels else f"{info.id} has no labels")


def end_session(call: OwnerCall, session: SessionArgument) -> None:
    """End a session.

    It stays readable and takes no more events. Ending it twice is harmless.
    """
    with call.session(session) as found:
        found.end()
        info = found.info()
    if call.as_json:
        document(summary_document(info))
    else:
        say(f"{info.id} has ended, with {plural(info.event_count, 'event')}")
