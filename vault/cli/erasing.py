"""Command ``erase``: look at what an erasure would do, say yes to exactly that, get the receipt."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from vault.cli.call import LATEST, OwnerCall, command
from vault.cli.output import document, note, replacing, say, steps
from vault.cli.plans import GOING, KEPT, done_lines, nested, print_plan, tell
from vault.cli.printable import plural
from vault.erasure import selection
from vault.errors import Conflict, InvalidInput, NotFound, StorageUnavailable
from vault.policy.plan import refuse_selector

if TYPE_CHECKING:
    from vault.erasure.service import ErasurePlan, Outcome
    from vault.faces import Access

_TOKEN_DIGITS: Final = 64
_WORD: Final = "erase"
_STATES: Final[Mapping[str, str]] = {
    "verified": "verified: every step was done, and a search of the vault's own stores found nothing left of"
    " what was erased",
    "executed": "executed: every step was done, but somebody still reads the database, so the search for"
    " remains is not over; a sweep ends it, or the next opening of the vault",
    "incomplete": "incomplete: a store did not give something up; each sweep tries again, and so does the"
    " next opening of the vault",
    "barrier_passed": "barrier passed: as verified, and copies of its keys open nothing any more",
}

#: What an erasure is at, for whoever waits.
_STEPS: Final[Mapping[str, str]] = {
    "fence": "hidden",
    "keys": "keys destroyed",
    "rows": "deleted",
    "files": "files deleted",
    "search": "searched for remains",
}

SubjectOption = Annotated[
    str | None, typer.Option("--subject", metavar="NAME", help="Everything of this person.")
]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="NAME=VALUE", help="The sessions that carry this label.")
]
WholeOption = Annotated[bool, typer.Option("--tenant-whole", help="Everything of the tenant.")]
ErasedSession = Annotated[str | None, typer.Argument(metavar="SESSION", help="One session, by its full id.")]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", metavar="ID", help="One memory, in all versions.")
]
ArtifactOption = Annotated[
    str | None, typer.Option("--artifact", metavar="ID", help="One artifact, in all versions.")
]
WhyOption = Annotated[
    str, typer.Option("--reason", metavar="WHY", help="person_request, contract_end, court or other.")
]
ForksOption = Annotated[
    str,
    typer.Option("--forks", metavar="HOW", help="include: forks go too. exclude: what a fork shares stays."),
]
PlanOption = Annotated[bool, typer.Option("--plan", help="Only show what would go and what stays.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Erase without a question.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace a receipt that exists.")]
ReceiptOption = Annotated[
    Path | None, typer.Option("--receipt", "-o", metavar="FILE", help="Write the receipt into this file.")
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option("--key-file", metavar="FILE", help="Write the receipt's key there, not to the screen."),
]
ProofsOption = Annotated[
    Path | None,
    typer.Option("--proofs", metavar="DIR", help="Write a proof for each item into this new directory."),
]
TokenOption = Annotated[
    str | None, typer.Option("--token", metavar="TOKEN", help="Do exactly what was shown with this token.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "erase")(erase)


class _Files(NamedTuple):
    """Where what comes of an erasure is written."""

    receipt: Path | None
    key: Path | None
    overwrite: bool
    proofs: Path | None = None


def erase(
    call: OwnerCall,
    *,
    session: ErasedSession = None,
    person: SubjectOption = None,
    memory: MemoryOption = None,
    artifact: ArtifactOption = None,
    label: LabelOption = None,
    tenant_whole: WholeOption = False,
    reason: WhyOption = "person_request",
    forks: ForksOption = "include",
    plan: PlanOption = False,
    token: TokenOption = None,
    yes: YesOption = False,
    receipt: ReceiptOption = None,
    key_file: KeyFileOption = None,
    overwrite: OverwriteOption = False,
    proofs: ProofsOption = None,
) -> None:
    """Erase a session, or all of a person, with what was derived from it, and get a receipt.

    Names one thing: SESSION or one of the options. On a terminal the plan is shown first, and you are asked.
    One's own as owner or agent; what is others', a label or the tenant as privacy_officer.
    """
    files = _Files(receipt, key_file, overwrite, proofs)
    for text in (session, person, memory, artifact):
        if text is not None:
            refuse_selector(text)  # whoever calls: a mistake is no question of leave
    selection.chosen(session, person, memory, artifact, label_pair(label), tenant_whole or None)
    _check(plan=plan, token=token, yes=yes, files=files, as_json=call.as_json)
    chosen: dict[str, Any] = {
        "session": _full_id(session),
        "subject": person,
        "memory": memory,
        "artifact": artifact,
        "label": label_pair(label),
        "tenant": tenant_whole,
    }
    with call.access() as access:
        try:
            planned = access.erasure.plan(**chosen, reason=reason, forks=forks)
        except NotFound:
            _erased_before(access, chosen, files, as_json=call.as_json)
            return
        if plan:
            print_plan(access, planned, as_json=call.as_json)
        else:
            _agree(access, planned, token, asked=not yes and token is None)
            _execute(access, planned, files, as_json=call.as_json)


def label_pair(text: str | None) -> tuple[str, str] | None:
    """A label that was given as ``name=value``.

    Raises:
        InvalidInput: it is none, or names nothing.
    """
    if text is None:
        return None
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput("a label is given as name=value")
    refuse_selector(name)
    refuse_selector(value)
    return name, value


def check_token(token: str | None) -> None:
    """Refuse what no preview or plan printed.

    Raises:
        InvalidInput: it is no token.
    """
    if token is not None and (len(token) != _TOKEN_DIGITS or set(token) - set("0123456789abcdef")):
        raise InvalidInput(f"--token is the {_TOKEN_DIGITS} hexadecimal digits that were shown with the plan")


def _check(*, plan: bool, token: str | None, yes: bool, files: _Files, as_json: bool) -> None:
    """Refuse what contradicts itself, before anything is looked at.

    Raises:
        InvalidInput: it does; or nobody could be asked, and nobody said yes.
    """
    check_token(token)
    if plan and (token is not None or yes or any(files)):
        raise InvalidInput("--plan only shows the plan; leave out what erases and what writes files")
    if files.key is not None and files.key == files.receipt:
        raise InvalidInput("the receipt and its key are two files; keep them apart")
    if files.key is not None and os.path.lexists(files.key):
        raise InvalidInput("there is something at the path of --key-file already; choose another")
    if files.proofs is not None and os.path.lexists(files.proofs):
        raise InvalidInput("there is something at the path of --proofs already; choose another")
    if not (plan or yes or token is not None) and (as_json or not _on_terminal()):
        raise InvalidInput(
            "nobody can be asked here: look at the plan with --plan, then give its --token, or --yes"
        )


def _on_terminal() -> bool:
    """Whether somebody sees the plan and the question, and can answer."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def _full_id(session: str | None) -> str | None:
    """A session's id; not ``latest``, which may be another one a moment later.

    Raises:
        InvalidInput: it is ``latest``.
    """
    if session == LATEST:
        raise InvalidInput("an erasure names a session by its full id, as sessions shows it")
    return session


def _agree(access: Access, planned: ErasurePlan, token: str | None, *, asked: bool) -> None:
    """Make sure that somebody wants exactly this.

    Raises:
        Conflict: the token is of another plan; or nothing of it can go.
        InvalidInput: whoever was asked did not type what was asked for.
    """
    if token is not None and planned.token != token:
        raise Conflict("what would go has changed since that plan, or the policy has: look at it with --plan")
    actions = {item.action for item in planned.plan.items}
    if not actions & (GOING | KEPT):
        raise Conflict("a fork shares it, so with --forks exclude nothing of it goes; nothing was done")
    if not asked:
        return
    print_plan(access, planned, as_json=False)
    going = sum(item.action in GOING for item in planned.plan.items)
    wanted = _WORD if going <= 1 else str(going)
    if _answer(f"this cannot be taken back; type {wanted} to go on: ") != wanted:
        raise InvalidInput(f"nothing was erased, as {wanted} was not what was typed")


def _answer(question: str) -> str:
    """What a person types."""
    sys.stdout.flush()
    sys.stderr.write(question)
    sys.stderr.flush()
    line = ""
    try:
        line = sys.stdin.readline()
    finally:
        if not line.endswith("\n"):  # Ctrl-C and Ctrl-D leave the cursor where it is
            sys.stderr.write("\n")
    return line.strip()


# -------------------------------------------------------------------------------------------- carrying out


def _execute(access: Access, planned: ErasurePlan, files: _Files, *, as_json: bool) -> None:
    """Erase, write the files, say what came of it.

    The files are begun first: where they cannot be written, nothing is erased.
    """
    going = sum(item.action in GOING for item in planned.plan.items)
    done: Outcome | None = None
    try:
        with ExitStack() as opened:
            receipt, key = (
                None if path is None else opened.enter_context(replacing(path, overwrite=files.overwrite))
                for path in (files.receipt, files.key)
            )
            if files.proofs is not None:
                files.proofs.mkdir(mode=0o700)
                opened.callback(_removed_if_empty, files.proofs)  # of what was refused
            with steps(f"erasing {plural(going, 'thing')}", _STEPS, of_bytes=("search",)) as advance:
                done = access.erasure.execute(planned, progress=advance)
            if receipt is not None:
                receipt.write(done.receipt)
            if key is not None and done.key is not None:
                key.write(done.key.hex().encode() + b"\n")
            if files.proofs is not None:
                for item in done.items:
                    with replacing(files.proofs / f"{item}.json", overwrite=False) as proof:
                        proof.write(done.proof(item))
    except (OSError, StorageUnavailable):
        if done is not None:  # it is gone, and its key exists nowhere else
            note(
                f"{done.operation} was carried out; the same command with another --receipt gives its receipt"
            )
            note(f"its key, shown once: {done.key.hex() if done.key is not None else ''}")
        raise
    _print_outcome(done, files, before=False, as_json=as_json)


def _removed_if_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()


def _erased_before(access: Access, chosen: dict[str, Any], files: _Files, *, as_json: bool) -> None:
    """Give the first receipt of what was erased before again.

    Raises:
        NotFound: there is nothing of that for who calls, and never was.
    """
    done = access.erasure.erased(**chosen)
    if done is None:
        raise NotFound("there is nothing of that to erase")
    if files.receipt is not None:
        with replacing(files.receipt, overwrite=files.overwrite) as out:
            out.write(done.receipt)
    _print_outcome(done, files, before=True, as_json=as_json)


def _print_outcome(done: Outcome, files: _Files, *, before: bool, as_json: bool) -> None:
    """What came of an erasure, in words or as JSON.

    Raises:
        Exit: it is incomplete.
    """
    if as_json:
        document(
            {
                "operation": done.operation,
                "state": done.state,
                "before": before,
                "counts": nested(done.counts),
                "receipt": None if files.receipt is None else str(files.receipt),
                "key": done.key.hex() if done.key is not None and files.key is None else None,
            }
        )
    else:
        if before:
            say("this was erased before; its receipt says:")
        for line in done_lines(done.counts):
            tell(line)
        if any(action in {"held", "minimum"} for _, action in done.counts):
            tell("what is kept is hidden from now on, and erased once nothing keeps it any more")
        if any(action in {"erased", "recomputed"} for _, action in done.counts) or done.state == "incomplete":
            tell(_STATES[done.state])
        say(f"operation {done.operation}")
        _print_files(done, files, before=before)
    if done.state == "incomplete":
        note("session-vault: not everything is gone yet")
        raise typer.Exit(StorageUnavailable.exit_code)


def _print_files(done: Outcome, files: _Files, *, before: bool) -> None:
    if files.receipt is not None:
        tell(f"receipt written to {files.receipt}")
    else:
        tell("no receipt was written to a file; the same command with --receipt FILE gives it again")
    if files.proofs is not None and not before:
        tell(f"{plural(len(done.items), 'proof')} written to {files.proofs}, one for each thing that went")
    if before:
        tell("its key was shown when it was erased, and is kept nowhere")
    elif done.key is not None and files.key is not None:
        tell(f"the receipt's key is in {files.key}, and nowhere else; it shows what the receipt is about")
    elif done.key is not None:
        tell("the receipt's key, shown once and kept nowhere; it shows what the receipt is about:")
        say(done.key.hex())
