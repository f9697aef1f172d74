"""Commands ``grants`` and ``view``: what an owner shares of a session, and what others see of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from vault.cli.call import LimitOption, OwnerCall, SessionArgument, command, found, parse_moment
from vault.cli.entries import entry_document, until_text
from vault.cli.output import console, document, note, say, show
from vault.cli.printable import ago, one_line, plural
from vault.cli.readable import event_document
from vault.cli.sessions import summary_document
from vault.cli.timeline import Timeline, header
from vault.clock import SystemClock, from_us
from vault.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.access.door import Grant
    from vault.audit.trail import Entry
    from vault.faces import Access
    from vault.model import Event, SessionSummary
    from vault.sessions.session import Session

ToArgument = Annotated[
    str, typer.Argument(metavar="TO", help="A person of the same tenant by name, or `team:NAME`.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    grants = typer.Typer(rich_markup_mode=None, help="Share sessions with others of the tenant.")
    command(grants, "give")(give)
    command(grants, "revoke")(revoke)
    command(grants, "list")(list_grants)
    app.add_typer(grants, name="grants")
    command(app, "view")(view)


# ------------------------------------------------------------------------------------------------- grants


def give(
    call: OwnerCall,
    *,
    session: SessionArgument,
    to: ToArgument,
    level: Annotated[
        str, typer.Option("--level", metavar="LEVEL", help="The highest view: L0, L1, L2 or L3.")
    ] = "L1",
    may: Annotated[
        list[str] | None,
        typer.Option(
            "--may", metavar="ACTION", help="What they may do beside reading: append, or fork (with L3)."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="When it ends by itself: an ISO 8601 time with its zone."
        ),
    ] = None,
) -> None:
    """Share a session with somebody, or a team.

    L0 shows its structure, L1 masks what is personal, L2 puts pseudonyms in its place, L3 shows all but
    secrets. A later share with the same person or team replaces an earlier one.
    """
    moment = parse_moment(until, "--until")
    with call.access() as access:
        entry = access.grants.give(
            found(access.sessions, session).id, to, level=level, may=may or (), until=moment
        )
    if call.as_json:
        document(entry_document(entry))
        return
    how = " and ".join(["read", *entry.said["may"]])
    say(f"shared {entry.session_id} at {entry.said['level']}")
    say(f"to {how}, until {until_text(entry)}")


def revoke(call: OwnerCall, *, session: SessionArgument, to: ToArgument) -> None:
    """Take back what was shared; whoever follows the session is stopped within a second."""
    with call.access() as access:
        entry = access.grants.revoke(found(access.sessions, session).id, to)
    if call.as_json:
        document(entry_document(entry))
    else:
        say(f"{entry.session_id} is no longer shared with them")


def list_grants(
    call: OwnerCall,
    *,
    session: Annotated[
        str | None,
        typer.Argument(metavar="SESSION", help="One of your own, by full id or as `latest`."),
    ] = None,
) -> None:
    """List with whom a session is shared; without one, what is shared with you.

    People and teams stand there as blind indexes: whoever knows a name finds it, nothing leads back to one.
    """
    with call.access() as access:
        if session is None:
            _print_mine(call, list(_to_me(access)))
        else:
            session_id = found(access.sessions, session).id
            _print_given(call, session_id, access.grants.of(session_id))


def _to_me(access: Access) -> Iterator[tuple[SessionSummary, str]]:
    """What is shared with who calls, and at which level."""
    for item in access.grants.to_me(access.teams):
        with suppress(NotFound):  # revoked at this moment
            yield item, leave_to_read(access.sessions.resume(item.id)).level


def _print_mine(call: OwnerCall, shared: list[tuple[SessionSummary, str]]) -> None:
    if call.as_json:
        document({"sessions": [{**summary_document(item), "view": level} for item, level in shared]})
        return
    if not shared:
        note("nothing is shared with you; --as and --team say who you are")
        return
    now = from_us(SystemClock().now_us())
    table = _made_table("last used", "session", "level")
    for item, level in shared:
        title = one_line(item.title, 100) if item.title else "(no title)"
        table.add_row(Text(ago(item.last_event_at, now)), Text(f"{title}\n{item.id}"), Text(level))
    show(table)


def _print_given(call: OwnerCall, session_id: str, entries: list[Entry]) -> None:
    if call.as_json:
        document({"session": session_id, "grants": [entry_document(entry) for entry in entries]})
        return
    if not entries:
        note("nothing of this session is shared")
        return
    table = _made_table("to", "level", "may", "until")
    for entry in entries:
        may = ", ".join(["read", *entry.said["may"]])
        row = entry.said["to"], entry.said["level"], may, until_text(entry)
        table.add_row(*map(Text, row))
    show(table)


def _made_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


# --------------------------------------------------------------------------------------------------- view


def view(
    call: OwnerCall,
    *,
    session: SessionArgument,
    limit: LimitOption = None,
) -> None:
    """Print a session as the one who calls may see it, with the level of that view.

    --role and --as say who looks. A look at what is somebody else's goes into the audit trail first. With
    --json, one event a line.
    """
    with call.access() as access:
        opened = found(access.sessions, session)
        grant = leave_to_read(opened)
        if call.as_json:
            for event in opened.events(limit=limit):
                document({**event_document(event), "view": grant.level, "recorded": not grant.own})
        else:
            _print_view(opened.info(), grant, opened.events(limit=limit), limit)


def _print_view(info: SessionSummary, grant: Grant, events: Iterator[Event], limit: int | None) -> None:
    show(header(info, from_us(SystemClock().now_us())))
    if grant.own:
        show(Text("all of it: a session of your own, so this look was not recorded", style="bold"))
    else:
        told = f"seen at {grant.level}: {grant.reason}; this look was recorded in the audit trail"
        show(Text(told, style="bold"))
    timeline, shown = Timeline(console(), info.event_count), 0
    for event in events:
        timeline.add(event)
        shown += 1
    more = "; --limit cut it" if limit == shown < info.event_count else ""
    say(f"{shown:,} of {plural(info.event_count, 'event')}{more}")


def leave_to_read(session: Session) -> Grant:
    """What reading a session is allowed to show; asked for as a handle does it, and not recorded."""
    return session._authorise("read", recorded=False)  # noqa: SLF001 - a handle does not show its level
