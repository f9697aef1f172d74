"""Commands ``receipt``: check and read receipts of erasures from their files alone; get them from a vault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from vault.cli.call import Call, OwnerCall, command
from vault.cli.output import binary_stdout, document, note, replacing, say, show
from vault.cli.plans import done_lines, nested
from vault.cli.printable import iso, local
from vault.clock import from_us
from vault.errors import InvalidInput, NotFound, Unpinned
from vault.policy.receipt import Receipt, digest
from vault.policy.receipt import document as receipt_document
from vault.policy.receipt_text import rendered
from vault.sealing.receipts import (
    FILE_BYTES_MAX,
    KEY_BYTES,
    chain_of,
    check_item,
    check_subject,
    verified,
)

if TYPE_CHECKING:
    from vault.erasure.service import Outcome

#: Receipts of a tenant that are looked through for one.
RECEIPTS_MAX: Final = 10_000
_NOBODY: Final = (
    "no receipts for this tenant and role: they are for an auditor or a privacy_officer, with --as"
)
_UNPINNED = (
    "UNPINNED: nobody checked who signed this receipt, so anybody may have written it; give the vault's"
    " public key, got another way than the receipt, with --key"
)

ReceiptFile = Annotated[Path, typer.Argument(metavar="FILE", help="A receipt, as the vault wrote it.")]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="HEX",
        help="The vault's public key, got another way than the receipt; info shows it.",
    ),
]
SubjectOption = Annotated[
    str | None, typer.Option("--subject", metavar="NAME", help="Check that it is about this person.")
]
SubjectKey = Annotated[
    str | None, typer.Option("--subject-key", metavar="HEX", help="The key handed out for that.")
]
ItemOption = Annotated[
    str | None, typer.Option("--item", metavar="ID", help="Check that this item is among those erased.")
]
ItemKey = Annotated[
    str | None, typer.Option("--item-key", metavar="HEX", help="The key handed out for that.")
]
ProofOption = Annotated[
    Path | None, typer.Option("--proof", metavar="FILE", help="The item's proof, handed out for that.")
]
PreviousOption = Annotated[
    Path | None,
    typer.Option("--previous", metavar="FILE", help="Check that this is the tenant's receipt before."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    receipt = typer.Typer(rich_markup_mode=None, help="Receipts of erasures: get, check and read them.")
    command(receipt, "verify")(verify)
    command(receipt, "show")(show_receipt)
    command(receipt, "list")(list_receipts)
    command(receipt, "get")(get_receipt)
    app.add_typer(receipt, name="receipt")


def verify(
    call: Call,
    *,
    file: ReceiptFile,
    key: KeyOption = None,
    subject: SubjectOption = None,
    subject_key: SubjectKey = None,
    item: ItemOption = None,
    item_key: ItemKey = None,
    proof: ProofOption = None,
    previous: PreviousOption = None,
) -> None:
    """Check a receipt: form, signature, and what else is asked for; then print it.

    Whatever was changed in it is found, if --key says whose signature is expected. Without one the receipt is
    printed, then "UNPINNED", and the exit code is 19.
    """
    _refuse_some("--subject and --subject-key belong together", subject, subject_key)
    _refuse_some("--item, --item-key and --proof belong together", item, item_key, proof)
    public = None if key is None else _key(key, "--key")
    receipt = verified(_content(file), public)
    if subject is not None and subject_key is not None:
        check_subject(receipt, subject, _key(subject_key, "--subject-key"))
    if item is not None and item_key is not None and proof is not None:
        check_item(receipt, item, _key(item_key, "--item-key"), _content(proof))
    if previous is not None:
        chain_of((verified(_content(previous), public), receipt))
    checked = {
        "signature": public is not None,
        "subject": subject is not None,
        "item": item is not None,
        "previous": previous is not None,
    }
    _print(receipt, checked, as_json=call.as_json)


def show_receipt(
    call: Call,
    *,
    file: ReceiptFile,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write Markdown, to send or to file.")] = False,
) -> None:
    """Print what a receipt says. Its signature is not checked: receipt verify does that."""
    receipt = verified(_content(file), None)
    if call.as_json:
        document({"receipt": receipt_document(receipt), "sha256": digest(receipt)})
    elif markdown:
        say(rendered(receipt).rstrip("\n"))
    else:
        _show(receipt)
    note("the signature was not checked; receipt verify checks it")


def _print(receipt: Receipt, checked: dict[str, bool], *, as_json: bool) -> None:
    """The receipt and what was checked.

    Raises:
        Unpinned: the signature was not among it.
        Exit: the same, when the error is part of the JSON document.
    """
    refusal = None if checked["signature"] else Unpinned(_UNPINNED)
    if as_json:
        about: dict[str, Any] = {"receipt": receipt_document(receipt), "sha256": digest(receipt)}
        about |= {"pinned": refusal is None, "checked": checked}
        if refusal is not None:
            about |= {"error": "Unpinned", "message": _UNPINNED, "exit_code": Unpinned.exit_code}
        document(about)
        if refusal is not None:
            note(f"session-vault: {_UNPINNED}")
            raise typer.Exit(Unpinned.exit_code)
        return
    _show(receipt)
    say("")
    for what, sentences in _CHECKED.items():
        say(sentences[0] if checked[what] else sentences[1])
    if refusal is not None:
        raise refusal


_CHECKED = {
    "signature": (
        "The signature is that of the key given, and nothing was changed.",
        "The signature was NOT checked: this may be anybody's text.",
    ),
    "subject": ("It is about the person given.", "Whom it is about was not checked."),
    "item": ("The item given is among those erased.", "Whether a certain item was erased was not checked."),
    "previous": ("It is the next after the receipt given.", "Its place in the chain was not checked."),
}


def _show(receipt: Receipt) -> None:
    from rich.markdown import Markdown  # noqa: PLC0415 - other commands need not wait for it

    show(Markdown(rendered(receipt)))


def _content(file: Path) -> bytes:
    """The content of a file, up to a little more than a receipt or a proof has.

    Raises:
        InvalidInput: it is not there, or cannot be read.
    """
    try:
        with file.open("rb") as source:
            return source.read(FILE_BYTES_MAX + 1)
    except OSError:
        raise InvalidInput("a file that was named is not there or cannot be read; check its path") from None


def _key(text: str, option: str) -> bytes:
    """A key that was given as text.

    Raises:
        InvalidInput: it is none; the sentence does not quote it.
    """
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"{option} is {2 * KEY_BYTES} hexadecimal digits")
    return key


def _refuse_some(sentence: str, *options: object) -> None:
    """Make sure that options that belong together were all given, or none.

    Raises:
        InvalidInput: some of them.
    """
    if len({option is None for option in options}) > 1:
        raise InvalidInput(sentence)


# ---------------------------------------------------------------------------------------------- list, get


def list_receipts(
    call: OwnerCall,
    *,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=RECEIPTS_MAX, metavar="N", help="At most so many receipts.")
    ] = 20,
) -> None:
    """List the tenant's receipts, the newest first, as auditor or privacy_officer."""
    found = _receipts(call, limit + 1)
    more, found = len(found) > limit, found[:limit]
    told = [(outcome, verified(outcome.receipt, None)) for outcome in found]
    if call.as_json:
        document({"receipts": [_outcome_document(*one) for one in told], "more": more})
    elif told:
        show(*(_line(*one) for one in told))
        say(f"{len(told):,} receipt{'s' * (len(told) != 1)}{'; there are more, --limit shows them' * more}")
    else:
        note("nothing was erased in this tenant yet")


def get_receipt(
    call: OwnerCall,
    *,
    operation: Annotated[
        str,
        typer.Argument(metavar="OPERATION", help="The erasure: `era_` and a UUID, as receipt list shows it."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A file; standard output when left out."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
) -> None:
    """Write the newest receipt of an erasure, as auditor or privacy_officer."""
    outcome = next((one for one in _receipts(call, RECEIPTS_MAX) if one.operation == operation), None)
    if outcome is None:
        raise NotFound("there is no receipt of such an operation; receipt list shows them")
    if output is None:
        binary_stdout().write(outcome.receipt)
        return
    with replacing(output, overwrite=overwrite) as out:
        out.write(outcome.receipt)
    if call.as_json:
        about = _outcome_document(outcome, verified(outcome.receipt, None))
        document({**about, "file": str(output)})
    else:
        say(f"receipt written to {output}")


def _receipts(call: OwnerCall, limit: int) -> list[Outcome]:
    """The tenant's receipts; whoever may not see them is told who may.

    Raises:
        NotFound: no leave.
    """
    with call.access() as access:
        try:
            return access.erasure.receipts(limit=limit)
        except NotFound:
            raise NotFound(_NOBODY) from None


def _line(outcome: Outcome, receipt: Receipt) -> Text:
    when = local(from_us(receipt.times.requested_us))
    style = "green" if receipt.state in {"verified", "barrier_passed"} else "yellow"
    head = Text.assemble(f"{receipt.number:>5}  {when}  ", (receipt.state.replace("_", " "), style))
    by = f"{receipt.selector.kind}, asked for by {receipt.requested_by.role}: {receipt.reason}"
    lines = [by, *done_lines(outcome.counts), outcome.operation]
    return Text("\n").join([head, *(Text(f"       {line}") for line in lines)])


def _outcome_document(outcome: Outcome, receipt: Receipt) -> dict[str, Any]:
    return {
        "operation": outcome.operation,
        "number": receipt.number,
        "state": receipt.state,
        "requested_at": iso(from_us(receipt.times.requested_us)),
        "selector": receipt.selector.kind,
        "reason": receipt.reason,
        "counts": nested(outcome.counts),
        "sha256": digest(receipt),
    }
