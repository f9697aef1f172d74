"""Commands on the vault's keys: ``keys list``, ``keys rotate``, ``keys barrier``, ``keys reencrypt``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

import typer

import vault
from vault.cli.call import NEW_PASSPHRASE, VaultCall, ask_new_passphrase, ask_passphrase, command
from vault.cli.output import document, note, progress, say
from vault.cli.printable import plural
from vault.errors import InvalidInput

if TYPE_CHECKING:
    from vault.custody import Rewrapped

RenewOption = Annotated[
    bool,
    typer.Option(
        "--renew",
        help="Set another passphrase too: SESSION_VAULT_NEW_PASSPHRASE, or asked for twice.",
    ),
]


def add(keys: typer.Typer) -> None:
    """Add the commands to the group ``keys``."""
    command(keys, "list")(list_keys)
    command(keys, "rotate")(rotate)
    command(keys, "barrier")(barrier)
    command(keys, "reencrypt")(reencrypt)


def list_keys(call: VaultCall) -> None:
    """Count the keys, by tenant and purpose.

    No key is shown, and no name: a tenant is shown as in the databases, by its blind index. Dying keys were
    condemned by an erasure that has not ended yet.
    """
    with call.opened() as opened:
        counts = opened.keys.counts()
    if call.as_json:
        document(
            {
                "keys": [
                    {
                        "tenant": count.tenant_id.hex() or None,
                        "purpose": count.purpose,
                        "live": count.live,
                        "dying": count.dying,
                    }
                    for count in counts
                ]
            }
        )
        return
    say(f"{'tenant':32}  {'purpose':8}  keys")
    for count in counts:
        dying = f", {count.dying:,} dying" if count.dying else ""
        say(f"{count.tenant_id.hex() or '-':32}  {count.purpose:8}  {count.live:,}{dying}")


def rotate(call: VaultCall, *, renew: RenewOption = False) -> None:
    """Make a new root key and destroy the old one.

    What hangs under the root key is wrapped anew; no data is written again, and open processes go on working.
    Back up the new root key and keys.db: older copies of the two open only together.
    """
    done = _replaced(call, fresh=False, renew=renew)
    if call.as_json:
        document({"rotated": True, "keys": done.keys, "truncated": done.truncated})
    else:
        say(f"a new root key: {plural(done.keys, 'key')} wrapped anew under it, the old one is destroyed")
    _note_log(done)


def barrier(call: VaultCall, *, renew: RenewOption = False) -> None:
    """Put what was erased out of reach of old copies of keys.db.

    Every tenant gets a fresh key, all that is alive is wrapped under it, and the root key is replaced as by
    keys rotate. Cut off, it does no harm: run it again. Behind a passphrase, set another one too, or a copy
    of keys.db from before still opens with it.
    """
    done = _replaced(call, fresh=True, renew=renew)
    if call.as_json:
        document({"passed": done.passed, "keys": done.keys, "truncated": done.truncated})
    else:
        say(
            f"fresh keys for every tenant: {plural(done.keys, 'key')} wrapped anew, the old root is destroyed"
        )
    _note_log(done)


def reencrypt(
    call: VaultCall,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session's id.", show_default=False)],
) -> None:
    """Replace one session's keys, and seal all of it anew under the fresh ones.

    For when its keys got out, for example with an old keys.db and its root key. Whoever copied the sealed
    data too still reads that copy, and what was derived from the session keeps its own keys. A backup of
    data from before gives this session back only with the keys of then: make a new one. Cut off, run it
    again.
    """
    with call.opened() as opened, progress("events", None, of_bytes=False) as advance:
        done = opened.keys.reencrypt(session, progress=lambda done, _: advance(done))
    if call.as_json:
        document({"session": session, **done._asdict()})
    else:
        say(f"{plural(done.events, 'event')} sealed anew under {plural(done.keys, 'fresh key')}")
    if not done.clean:
        note("old bytes are left in a file of the vault: somebody still reads it; run this again after that")


def _replaced(call: VaultCall, *, fresh: bool, renew: bool) -> Rewrapped:
    given = cache(ask_passphrase)  # opening asks for it, and replacing the root key does
    with vault.Vault.open(call.found(), passphrase=given) as opened:
        behind = opened.info()["root_key"] == "passphrase"
        if renew and not behind:
            raise InvalidInput("this vault's root key is not behind a passphrase, so there is none to change")
        new = ask_new_passphrase(NEW_PASSPHRASE) if renew else None
        if behind and fresh and new is None:
            note("the passphrase stays: a copy of keys.db from before still opens with it")
        with progress("keys", None, of_bytes=False) as advance:
            work = opened.keys.barrier if fresh else opened.keys.rotate
            return work(passphrase=given if behind else None, new=new, progress=lambda done, _: advance(done))


def _note_log(done: Rewrapped) -> None:
    if not done.truncated:
        note("a reader keeps old wraps in the write-ahead log of keys.db; they go when the vault is closed")
