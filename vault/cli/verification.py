"""Command ``verify``: checks everything stored, and names the place of what is wrong."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from vault.cli.call import VaultCall, command
from vault.cli.output import document, note, progress, say, show
from vault.cli.printable import plural
from vault.errors import Tampered, VaultError
from vault.wiring import Vault

if TYPE_CHECKING:
    from vault.audit.verify import Report


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "verify")(verify)


def verify(
    call: VaultCall,
    *,
    without_keys: Annotated[
        bool,
        typer.Option("--without-keys", help="Check only what needs no keys: hashes, chains, ledger."),
    ] = False,
    public_key: Annotated[
        str | None,
        typer.Option(
            metavar="HEX",
            help="The ledger's public key, kept apart from the vault; with --without-keys. info shows it.",
        ),
    ] = None,
) -> None:
    """Check everything stored.

    Names the place of whatever is wrong; then the exit code is 4. A vault that is older than its ledger is
    refused when it is opened; the message says what is missing. Without keys it is not opened: the findings
    say it.
    """
    if without_keys:
        with progress("verify", None, of_bytes=False) as advance:
            report = Vault.verify_without_keys(
                call.found(), public_key=public_key, progress=lambda done, _: advance(done)
            )
        if public_key is None:
            note("who signed the ledger was not checked: give --public-key, as info showed it")
    else:
        report = checked(call)
    _print(report, as_json=call.as_json)
    if not report.ok:
        raise typer.Exit(Tampered.exit_code)


def checked(call: VaultCall) -> Report:
    """What a check of everything with keys finds.

    Raises:
        VaultError: the vault cannot be opened, or closed although nothing was found.
    """
    report = None
    try:
        with call.opened() as opened:
            total = opened.info()["sessions"]
            with progress("verify", total, of_bytes=False) as advance:
                report = opened.verify(progress=lambda done, _: advance(done))
    except VaultError:
        # Damage may also refuse the checkpoint that closing writes: then the findings say it already.
        if report is None or report.ok:
            raise
    return report


def _print(report: Report, *, as_json: bool) -> None:
    if as_json:
        document(report_document(report))
    else:
        say_report(report)


def report_document(report: Report) -> dict[str, Any]:
    """What was checked and found, as a JSON object."""
    found = [asdict(finding) for finding in report.findings]
    about = {"ok": report.ok, "with_keys": report.with_keys, "counts": dict(report.counts)}
    return {**about, "findings": found}


def say_report(report: Report) -> None:
    """What was checked and found, for people."""
    counts = report.counts
    checked = [
        plural(counts["sessions"], "session"),
        plural(counts["events"], "event"),
        plural(counts["blobs"], "payload"),
        f"{counts['ledger_entries']:,} ledger {'entry' if counts['ledger_entries'] == 1 else 'entries'}",
        f"{counts['erased']:,} erased by right",
    ]
    how = "with keys" if report.with_keys else "without keys: whether they are authentic was not checked"
    say(f"checked {', '.join(checked)}, {how}")
    if report.ok:
        show(Text("nothing is wrong", style="green"))
        return
    show(Text(f"{plural(len(report.findings), 'finding')}:", style="bold red"))
    for finding in report.findings:
        say(f"  {finding.place}: {finding.detail} ({finding.kind})")
