"""Commands ``audit``: who did what with which session, and why that was allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer
from rich.text import Text

from vault.audit.oversight import ENTRIES_MAX
from vault.cli.call import OwnerCall, command
from vault.cli.entries import entry_document, entry_text
from vault.cli.glass import GlassSession
from vault.cli.output import TerminalJson, console, document, note, replacing, say, show
from vault.cli.printable import json_line, visible
from vault.cli.verification import checked, report_document, say_report
from vault.errors import InvalidInput, NotFound, Tampered
from vault.model import parse_id

if TYPE_CHECKING:
    from vault.audit.oversight import Audit
    from vault.audit.trail import Entry


def register(app: typer.Typer) -> None:
    """Add the commands."""
    audit = typer.Typer(rich_markup_mode=None, help="Look at the audit trail of a tenant.")
    command(audit, "list")(list_entries)
    command(audit, "verify")(verify)
    command(audit, "export")(export)
    command(audit, "reveal")(reveal)
    app.add_typer(audit, name="audit")


@contextmanager
def _audit(call: OwnerCall) -> Iterator[Audit]:
    """The trail; whoever may not look is answered as in a tenant that has none."""
    with call.access() as access:
        try:
            yield access.audit
        except NotFound:
            raise NotFound("there is no audit trail for this tenant and role") from None


# --------------------------------------------------------------------------------------------------- list


def list_entries(
    call: OwnerCall,
    *,
    who: Annotated[
        str | None,
        typer.Option(
            "--who", metavar="W", help="Only of this person: a name, or the blind index that entries show."
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="SESSION", help="Only about this session, by its full id."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=ENTRIES_MAX, metavar="N", help="At most so many entries.")
    ] = 20,
) -> None:
    """List entries of the audit trail, the newest first, as auditor or privacy_officer.

    This look is the newest of them. The newest 10,000 entries of the tenant are searched.
    """
    if session is not None and parse_id("ses", session) is None:
        raise InvalidInput("--session is a session's full id: ses_ and a UUID, as sessions shows it")
    with _audit(call) as audit:
        every = audit.entries(who=who, session_id=session, limit=ENTRIES_MAX)
        shown = list(islice(every, limit + 1))
    more, shown = len(shown) > limit, shown[:limit]
    if call.as_json:
        document({"entries": [entry_document(entry) for entry in shown], "more": more})
    elif shown:
        width = console().width
        show(*(entry_text(entry, width) for entry in shown))
        say(f"{_count(len(shown))}{'; there are more, --limit shows them' if more else ''}")
    else:
        note("no entry to show")


# ------------------------------------------------------------------------------------------------- verify


def verify(call: OwnerCall) -> None:
    """Read the tenant's audit trail from end to end, then check everything stored, as auditor.

    The trail is a log of the vault like any session, so an entry that was changed, removed, moved or rolled
    back is found. Names the place of what is wrong; then the exit code is 4.
    """
    wrong: str | None = None
    read = 0
    try:
        with _audit(call) as audit:
            for _ in audit.entries(limit=ENTRIES_MAX):
                read += 1
    except Tampered as refusal:
        wrong = str(refusal)
    report = checked(call)
    if call.as_json:
        trail = {"ok": wrong is None, "entries": read, "detail": wrong}
        document({**report_document(report), "ok": report.ok and wrong is None, "trail": trail})
    else:
        if wrong is None:
            newest = "the newest " if read == ENTRIES_MAX else ""
            say(f"read {newest}{_count(read)} of this tenant's audit trail: nothing is wrong")
        else:
            show(Text(visible(f"the tenant's audit trail cannot be read: {wrong}"), style="bold red"))
        say("and all that is stored, every tenant's trail among the sessions:")
        say_report(report)
    if wrong is not None or not report.ok:
        raise typer.Exit(Tampered.exit_code)


# ------------------------------------------------------------------------------------------------- export


def export(
    call: OwnerCall,
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Where to write; standard output when left out."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
) -> None:
    """Export the audit trail as JSON Lines, the oldest entry first, as auditor or privacy_officer.

    The newest 10,000 entries of the tenant. A file appears whole or not at all, with mode 0600.
    """
    with _audit(call) as audit:
        entries = list(audit.entries(limit=ENTRIES_MAX))[::-1]
    if file is None:
        _write(entries, TerminalJson())
    else:
        with replacing(file, overwrite=overwrite) as out:
            _write(entries, out)
    if len(entries) == ENTRIES_MAX and entries[0].seq > 1:
        note(f"the trail is longer: only the newest {ENTRIES_MAX:,} entries were exported")
    if file is None:
        note(f"{_count(len(entries))} exported")
    elif call.as_json:
        document({"file": str(file), "entries": len(entries)})
    else:
        say(f"{_count(len(entries))} exported to {file}")


def _write(entries: list[Entry], out: BinaryIO | TerminalJson) -> None:
    for entry in entries:
        out.write(json_line(entry_document(entry)))
    out.flush()


# ------------------------------------------------------------------------------------------------- reveal


def reveal(
    call: OwnerCall,
    *,
    session: GlassSession,
    pseudonym: Annotated[
        str,
        typer.Argument(
            metavar="PSEUDONYM", help="As a view at L2 shows it, for example NAME_ and 16 characters."
        ),
    ],
    reason: Annotated[
        str, typer.Option("--reason", metavar="R", help="Why, for whoever reads the audit trail.")
    ],
) -> None:
    """Say who or what is behind a pseudonym of a session's view, as privacy_officer.

    Only what the session's records name can be found. The question goes into the audit trail first.
    """
    with call.access() as access:
        value = access.audit.reveal(session, pseudonym, reason)
    if value is None:
        raise NotFound("no record of this session names what is behind this pseudonym")
    if call.as_json:
        about: dict[str, Any] = {"session": session, "pseudonym": pseudonym, "value": value}
        document(about)
    else:
        say(value)


def _count(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries:,} entries"
