"""Commands on copies of the whole vault: ``backup``, ``restore``, ``fsck``, ``drill``."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vault import copies, rehearsal
from vault.cli.call import Call, VaultCall, ask_passphrase, command
from vault.cli.output import document, note, progress, say
from vault.cli.printable import plural
from vault.errors import Tampered

if TYPE_CHECKING:
    from vault.copies import Restored

_LOST_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "backup")(backup)
    command(app, "restore")(restore)
    command(app, "fsck")(fsck)
    command(app, "drill")(drill)


def backup(
    call: VaultCall,
    *,
    to: Annotated[Path, typer.Argument(metavar="TO", help="A directory that is empty or not there yet.")],
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="PLACE", help="Copy keys.db too, into this other directory."),
    ] = None,
) -> None:
    """Copy the vault while others go on writing.

    Data, sealed files and ledger go to TO; keys only with --keys, to another place; the root key never. A
    backup that was cut off does not count: the same command goes on with it.
    """
    with call.opened() as opened, progress("backup", None, of_bytes=False) as advance:
        made = copies.backup(opened, to, keys, progress=lambda done, _: advance(done))
    if call.as_json:
        document(asdict(made))
    else:
        entries = f"{made.ledger_entries:,} ledger {'entry' if made.ledger_entries == 1 else 'entries'}"
        say(f"backed up {made.bytes:,} bytes: the log, {plural(made.blobs, 'sealed file')}, {entries}")
        if keys is None:
            note("without its keys: nothing of it opens without keys.db and the root key; back them up apart")
        else:
            note("the root key is not in it: keep a copy of that in a third place")
    if made.damaged:
        files = plural(len(made.damaged), "sealed file")
        note(f"{files} of the vault cannot be read, so this backup lacks them: run session-vault verify")
        raise typer.Exit(Tampered.exit_code)


def restore(
    call: Call,
    *,
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="A finished backup of data.")],
    to: Annotated[Path, typer.Argument(metavar="TO", help="Where the vault is to be; not there yet.")],
    keys: Annotated[
        Path,
        typer.Option("--keys", metavar="PLACE", help="A backup of keys, or the vault that is replaced."),
    ],
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", metavar="DIR", help="The newest ledger there is, or the vault it is in."),
    ] = None,
    root_key: Annotated[
        Path | None,
        typer.Option("--root-key", metavar="FILE", help="The root key, when its place is inside the vault."),
    ] = None,
    accept_damage: Annotated[
        bool, typer.Option("--accept-damage", help="Restore although something does not verify.")
    ] = False,
) -> None:
    """Make a vault out of a backup, and erase again in it what was erased since.

    The newest ledger says what that is: the one given, and this machine's copy. TO is there only when all was
    checked. From then on this machine refuses the vault that it replaces.
    """
    with progress("restore", None, of_bytes=False) as advance:
        done = copies.restore(
            backup,
            to,
            keys=keys,
            ledger=ledger,
            root_key=root_key,
            passphrase=ask_passphrase,
            accept_damage=accept_damage,
            progress=lambda files, _: advance(files),
        )
    if call.as_json:
        document({**asdict(done), "lost": [lost._asdict() for lost in done.lost]})
    else:
        _say_restored(done)
    if not done.newer_ledger:
        note(
            "no ledger newer than the backup was found: what was erased since is not known, and would be back"
        )


def _say_restored(done: Restored) -> None:
    say(f"restored the state of {done.made_at}: {plural(done.sessions, 'session')}, all checked")
    if done.erased_again:
        say(f"{done.erased_again:,} erased since were in the backup, and are erased again")
    if done.events_again:
        say(f"{plural(done.events_again, 'single event')} erased since, and erased again")
    for lost in done.lost[:_LOST_SHOWN]:
        say(f"  lost: {lost.session_id}: {lost.events - lost.restored:,} of {plural(lost.events, 'event')}")
    if len(done.lost) > _LOST_SHOWN:
        say(f"  and {len(done.lost) - _LOST_SHOWN:,} more")
    for finding in done.findings:
        say(f"  {finding.place}: {finding.detail} ({finding.kind})")


def fsck(
    call: VaultCall,
    *,
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Delete files that nothing named in two looks, and are a day old."),
    ] = False,
) -> None:
    """Look for files, keys and rows that belong to nothing, and for what is missing.

    What is left over is no damage. When something is lost or wrong, the exit code is 4.
    """
    with call.opened() as opened:
        done = copies.fsck(opened, remove=remove)
    if call.as_json:
        found = [asdict(finding) for finding in done.findings]
        about = {"ok": done.ok, "counts": dict(done.counts), "removed": done.removed, "freed": done.freed}
        document({**about, "findings": found})
    else:
        counts = done.counts
        say(f"looked at {plural(counts['files'], 'sealed file')} and {plural(counts['keys'], 'key')}")
        for finding in done.findings:
            say(f"  {finding.place}: {finding.detail} ({finding.kind})")
        if done.removed:
            say(f"deleted {plural(done.removed, 'file')}, {done.freed:,} bytes")
        if not done.findings:
            say("everything belongs somewhere, and nothing is missing")
    if not done.ok:
        raise typer.Exit(Tampered.exit_code)


def drill(
    call: VaultCall,
    *,
    within: Annotated[
        Path | None,
        typer.Option("--in", metavar="DIR", help="Where the copies are made: three times the vault."),
    ] = None,
) -> None:
    """Rehearse the loss of the root key, and a restore, on copies that are deleted again.

    The vault is only read. When a step does not hold, the exit code is 4.
    """
    with call.opened() as opened, progress("drill", None, of_bytes=False) as advance:
        behind = opened.info()["root_key"] == "passphrase"
        done = rehearsal.drill(
            opened,
            within=within,
            passphrase=cache(ask_passphrase) if behind else None,
            progress=lambda steps, _: advance(steps),
        )
    if call.as_json:
        document({"ok": done.ok, "steps": [asdict(step) for step in done.steps]})
    else:
        for step in done.steps:
            say(f"{'held' if step.held else 'FAILED'}  {step.name}: {step.detail}")
    if not done.ok:
        raise typer.Exit(Tampered.exit_code)
