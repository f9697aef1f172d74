"""Commands ``fork`` and ``restart``: a new session out of an old one."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from vault.cli.accounts import VALUE_MAX
from vault.cli.call import OwnerCall, SessionArgument, check_event_id, command, found
from vault.cli.output import document, say
from vault.cli.printable import one_line, plural
from vault.cli.sessions import summary_document
from vault.errors import InvalidInput
from vault.sessions.service import SUMMARY_LENGTH_MAX

_STANDARD_INPUT: Final = "-"
#: Facts of the world that are shown; --json has all that the fork names.
_SHOWN_MAX: Final = 10


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "fork")(fork)
    command(app, "restart")(restart)


def fork(
    call: OwnerCall,
    *,
    session: SessionArgument,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="EVENT", help="The last event that is shared, instead of the newest."),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", metavar="T", help="The fork's own title, instead of the same.")
    ] = None,
) -> None:
    """Fork a session at an event.

    The fork shares the log up to there, and the original is untouched. Only the talk goes back: what
    happened to the world since then stays as it is, and is listed.
    """
    check_event_id(at, "--at")
    with call.sessions() as sessions:
        original = found(sessions, session).id
        info = sessions.fork(original, at=at, title=title).info()
    if call.as_json:
        document(summary_document(info))
        return
    say(info.id)
    about: Any = info.fork or {}
    say(f"shares {plural(info.event_count, 'event')} with {original}")
    say(f"up to {about.get('at')}")
    world = about.get("not_forked", [])
    if not world:
        say("the original has no effect and no snapshot of the world behind that event")
        return
    say("the world was not forked; this happened behind that event and stays so:")
    for fact in world[-_SHOWN_MAX:]:
        kind = one_line(fact["kind"], VALUE_MAX) if isinstance(fact["kind"], str) else "without a kind"
        say(f"  {fact['type']}  {kind}  {fact['event']}")
    if len(world) > _SHOWN_MAX:
        say(f"  and {len(world) - _SHOWN_MAX:,} before those")


def restart(
    call: OwnerCall,
    *,
    session: SessionArgument,
    summary: Annotated[
        str,
        typer.Option(
            "--summary",
            metavar="TEXT",
            help="What the new session begins with; - reads it from standard input.",
        ),
    ],
) -> None:
    """Go on in a new session that begins with a summary of this one.

    Each names the other; the old one stays as it is.
    """
    text = _read_summary() if summary == _STANDARD_INPUT else summary
    with call.sessions() as sessions:
        old = found(sessions, session).id
        info = sessions.restart(old, text).info()
    if call.as_json:
        document(summary_document(info))
    else:
        say(info.id)
        say(f"begins with the summary, under the title and labels of {old}")


def _read_summary() -> str:
    # One character too many is refused by its length; an endless input ends.
    try:
        text = sys.stdin.buffer.read(4 * SUMMARY_LENGTH_MAX + 1).decode()
    except UnicodeDecodeError:
        raise InvalidInput("the summary on standard input is not UTF-8 text") from None
    if not text.strip():
        raise InvalidInput("the summary on standard input is empty; write what the new session begins with")
    return text.strip()
