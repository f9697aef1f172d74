"""Commands on the vault itself: ``init``, ``info``, ``checkpoint``, ``keys rotate-passphrase``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

import vault
from vault.cli import keyring
from vault.cli.call import (
    NEW_PASSPHRASE,
    PASSPHRASE,
    OwnerCall,
    VaultCall,
    ask_new_passphrase,
    command,
)
from vault.cli.output import document, note, say
from vault.cli.printable import iso, local, plural
from vault.clock import from_us
from vault.errors import InvalidInput

_NAMES: Final = {
    "directory": "directory",
    "vault_id": "vault id",
    "root_key": "root key",
    "sessions": "sessions",
    "synchronous": "synchronous",
    "ledger_entries": "ledger entries",
    "ledger_every": "events per entry",
    "ledger_public_key": "ledger's public key",
    "anchors": "copies of the ledger",
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "init")(init)
    command(app, "info")(info)
    command(app, "checkpoint")(checkpoint)
    keys = typer.Typer(rich_markup_mode=None, help="Work on the vault's keys.")
    command(keys, "rotate-passphrase")(rotate_passphrase)
    keyring.add(keys)
    app.add_typer(keys, name="keys")


def init(
    call: VaultCall,
    *,
    path: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="The directory to make it in, instead of --vault.")
    ] = None,
    root: Annotated[
        str,
        typer.Option(
            "--root",
            metavar="WHERE",
            help="Where the root key is: `file:` (in the vault), `file:/elsewhere/root.key`, `passphrase:`.",
        ),
    ] = "file:",
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", metavar="PATH", help="A directory for the ledger, better on another disk."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse a root key or ledger inside the vault's directory.")
    ] = False,
) -> None:
    """Make a new vault.

    It says what would be better placed elsewhere. A passphrase is taken from SESSION_VAULT_PASSPHRASE, or
    asked for twice on the terminal.
    """
    directory = (path or call.place).absolute()
    placed = _placed(root)
    if strict:
        _refuse_together(directory, placed, ledger)
    settings = {} if ledger is None else {"ledger": str(ledger.absolute())}
    asked = (lambda: ask_new_passphrase(PASSPHRASE)) if placed.startswith("passphrase:") else None
    with vault.Vault.create(directory, root=placed, passphrase=asked, settings=settings) as made:
        about = made.info()
    if call.as_json:
        document(about)
        return
    keys = "keys.db" if about["root_key"] == "passphrase" else "keys.db and the root key"
    say(f"made a vault in {directory}")
    say(f"back up {keys} apart from data.db and blobs: without them nothing opens")
    _note_weaker(about)


def _placed(root: str) -> str:
    """The root key's place, a relative path taken from the working directory as a shell would."""
    scheme, colon, rest = root.partition(":")
    if scheme == "file" and colon and rest:
        return f"file:{Path(rest).expanduser().absolute()}"
    return root


def _refuse_together(directory: Path, root: str, ledger: Path | None) -> None:
    """Refuse what an adversary who copies or writes one directory would get at once.

    Raises:
        InvalidInput: the root key or the ledger would be inside the vault's directory.
    """
    inside = directory.resolve()
    scheme, _, rest = root.partition(":")
    if scheme == "file" and (not rest or Path(rest).resolve().is_relative_to(inside)):
        raise InvalidInput(
            "--strict wants the root key elsewhere: --root passphrase:, or file: and a path outside the vault"
        )
    if ledger is None or ledger.resolve().is_relative_to(inside):
        raise InvalidInput("--strict wants the ledger elsewhere: --ledger with a path outside the vault")


def info(call: VaultCall) -> None:
    """Describe a vault, and which weaker choices are in force."""
    with call.opened() as opened:
        about = opened.info()
    if call.as_json:
        document(about)
        return
    width = max(map(len, _NAMES.values()))
    for key, name in _NAMES.items():
        say(f"{name.ljust(width)}  {_text(about[key])}")
    _note_weaker(about)


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _note_weaker(about: dict[str, Any]) -> None:
    for choice in about["weaker_choices"]:
        note(f"weaker than it could be: {choice}")


def checkpoint(
    call: OwnerCall,
    *,
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            metavar="SESSION",
            help="Write a checkpoint of this session's state instead: its full id, or `latest`.",
        ),
    ] = None,
) -> None:
    """Write a signed ledger entry now, or a checkpoint of a session.

    The entry records where every session stands; one is also written whenever a vault is closed after a
    change. With --session, a run takes the lease, writes the state to recover from, and ends.
    """
    if session is not None:
        _checkpoint_session(call, session)
        return
    with call.opened() as opened:
        before = opened.info()["ledger_entries"]
        entry = opened.checkpoint()
    if call.as_json:
        recorded = iso(from_us(entry.recorded_us))
        digest = entry.digest.hex()
        document(
            {"entry": entry.number, "recorded_at": recorded, "sha256": digest, "new": entry.number > before}
        )
    elif entry.number > before:
        say(f"ledger entry {entry.number} written, with {plural(len(entry.heads), 'session')}")
    else:
        say(f"nothing has changed since ledger entry {entry.number} of {local(from_us(entry.recorded_us))}")


def _checkpoint_session(call: OwnerCall, named: str) -> None:
    with call.session(named) as found:
        run = found.run()
        try:
            event = run.checkpoint()
        finally:
            run.stop("a checkpoint by hand from the command line")
        session_id, told = found.id, event.payload
    if call.as_json:
        about = {name: told[name] for name in ("through", "sha256", "reducer")}
        document({"session": session_id, "event": event.id, "run": run.id, **about})
    else:
        say(f"{event.id} holds the state of {session_id} through event {told['through']:,}")


def rotate_passphrase(call: VaultCall) -> None:
    """Change the passphrase.

    The root key is wrapped anew; no data is written again. The new passphrase is taken from
    SESSION_VAULT_NEW_PASSPHRASE, or asked for twice. A copy of keys.db from before still opens with the old
    one: replace its backups.
    """
    with call.opened() as opened:
        if opened.info()["root_key"] != "passphrase":
            raise InvalidInput("this vault's root key is not behind a passphrase, so there is none to change")
        opened.rotate_passphrase(ask_new_passphrase(NEW_PASSPHRASE))
    if call.as_json:
        document({"rotated": True})
    else:
        say("the new passphrase opens this vault; replace backups of keys.db, the old one opens those")
