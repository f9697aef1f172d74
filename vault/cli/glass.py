"""Commands ``break-glass``: full view of a session for a reason and a time, loudly recorded."""

from __future__ import annotations

from typing import Annotated

import typer

from vault.audit.trail import BROKEN
from vault.cli.call import OwnerCall, command
from vault.cli.entries import entry_document, until_text
from vault.cli.output import document, say

GlassSession = Annotated[
    str, typer.Argument(metavar="SESSION", help="The full id of a session in the same tenant.")
]
_WHO_HELP = "Who asked: a name, or the blind index that the audit trail shows."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    glass = typer.Typer(rich_markup_mode=None, help="See all of a session, for a reason and a time.")
    command(glass, "request")(request)
    command(glass, "approve")(approve)
    command(glass, "end")(end)
    app.add_typer(glass, name="break-glass")


def request(
    call: OwnerCall,
    *,
    session: GlassSession,
    reason: Annotated[
        str,
        typer.Option(
            "--reason", metavar="R", help="Why, for whoever reads the audit trail; 1,000 characters at most."
        ),
    ],
    minutes: Annotated[int, typer.Option("--minutes", metavar="N", help="For how long: 1 to 60.")] = 30,
) -> None:
    """Ask to see all of a session, as support or privacy_officer.

    It opens at once, or, where the vault's settings want a second person, when somebody else approves it.
    """
    with call.access() as access:
        entry = access.break_glass.request(session, reason, minutes=minutes)
    if call.as_json:
        document({**entry_document(entry), "open": entry.what == BROKEN})
    elif entry.what == BROKEN:
        say(f"{entry.session_id} is open to you in full until {until_text(entry)}")
        say("the request and every look are in the audit trail; break-glass end closes it")
    else:
        say("asked; it opens when a privacy_officer who is somebody else approves it:")
        say(f"session-vault break-glass approve {entry.session_id} {entry.who}")


def approve(
    call: OwnerCall,
    *,
    session: GlassSession,
    who: Annotated[str, typer.Argument(metavar="WHO", help=_WHO_HELP)],
) -> None:
    """Open a session for somebody who asked, as privacy_officer.

    The time that was asked for begins now. Nobody approves a request of their own.
    """
    with call.access() as access:
        entry = access.break_glass.approve(session, who)
    if call.as_json:
        document({**entry_document(entry), "open": True})
    else:
        say(f"{entry.session_id} is open to them in full until {until_text(entry)}")


def end(
    call: OwnerCall,
    *,
    session: GlassSession,
    who: Annotated[
        str | None,
        typer.Argument(metavar="WHO", help="Close somebody else's, as privacy_officer; without it your own."),
    ] = None,
) -> None:
    """Close break-glass access before its time is over."""
    with call.access() as access:
        entry = access.break_glass.end(session, who)
    if call.as_json:
        document({**entry_document(entry), "open": False})
    else:
        say(f"{entry.session_id} is closed again")
