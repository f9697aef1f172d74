"""Commands ``subject``: what is kept about a person, in numbers, as a file for them, and its erasure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from vault.cli import erasing
from vault.cli.call import OwnerCall, command
from vault.cli.output import document, note, progress, refuse_among_own_files, say, show
from vault.cli.plans import counted, tell
from vault.cli.printable import iso, local, plural, size
from vault.erasure.disclosure import WHY

if TYPE_CHECKING:
    from collections.abc import Mapping

PersonArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The person, as the application names them.")
]
_HELP: Final = "What is kept about a person: as that person, or as privacy_officer."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    subject = typer.Typer(rich_markup_mode=None, help=_HELP)
    command(subject, "report")(report)
    command(subject, "export")(export)
    command(subject, "erase")(erase)
    app.add_typer(subject, name="subject")


def report(call: OwnerCall, *, person: PersonArgument) -> None:
    """Say what is kept about a person, in numbers: no content is shown.

    An export holds exactly this, and an erasure meets it.
    """
    with call.access() as access:
        found = access.exports.report(person)
    if call.as_json:
        document(
            {
                "counts": found.counts,
                "held_back": found.held_back,
                "oldest": iso(found.oldest),
                "newest": iso(found.newest),
                "items": [
                    {
                        "id": one.id,
                        "kind": one.kind,
                        "created_at": iso(one.created_at),
                        "held_back": one.held_back,
                    }
                    for one in found.items
                ],
            }
        )
        return
    say(counted(found.counts.items()))
    say(f"made between {local(found.oldest)} and {local(found.newest)}")
    _say_held(found.held_back)


def export(
    call: OwnerCall,
    *,
    person: PersonArgument,
    to: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A new file: a zip, for the person.")
    ],
) -> None:
    """Write all that is kept about a person into a zip file, which is read without the vault.

    What cannot be shown is listed in it with the reason. It is opened: whoever has the file can read it.
    """
    refuse_among_own_files(to)
    with call.access() as access, progress("export", None, of_bytes=False) as advance:
        made = access.exports.subject(person, to, progress=lambda done, _: advance(done))
    if call.as_json:
        counts = {"files": made.files, "sessions": made.sessions, "items": made.items}
        held = [one._asdict() for one in made.held_back]
        document({"path": str(made.path), **counts, "held_back": held})
        return
    what = f"{plural(made.sessions, 'session')} and {plural(made.items, 'derived item')}"
    tell(f"exported {what} in {plural(made.files, 'file')}, {size(made.path.stat().st_size)}")
    held_back: dict[str, int] = {}
    for one in made.held_back:
        held_back[one.why] = held_back.get(one.why, 0) + 1
    _say_held(held_back)
    note("it is not sealed: whoever has this file can read all of it")


def erase(
    call: OwnerCall,
    *,
    person: PersonArgument,
    reason: erasing.WhyOption = "person_request",
    forks: erasing.ForksOption = "include",
    plan: erasing.PlanOption = False,
    token: erasing.TokenOption = None,
    yes: erasing.YesOption = False,
    receipt: erasing.ReceiptOption = None,
    key_file: erasing.KeyFileOption = None,
    proofs: erasing.ProofsOption = None,
    overwrite: erasing.OverwriteOption = False,
) -> None:
    """Erase all that is kept about a person: the same as `erase --subject NAME`."""
    erasing.erase(
        call,
        person=person,
        reason=reason,
        forks=forks,
        plan=plan,
        token=token,
        yes=yes,
        receipt=receipt,
        key_file=key_file,
        proofs=proofs,
        overwrite=overwrite,
    )


def _say_held(held_back: Mapping[str, int]) -> None:
    """What an export does not show, each with its reason."""
    for why, count in held_back.items():
        show(Text(f"{count:,} not shown: {WHY[why]}"))
