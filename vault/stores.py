"""A vault's two databases in its directory: made, and opened."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from vault import config
from vault.audit.anchor import FULL_EVERY
from vault.errors import StorageUnavailable
from vault.ports.records import VaultRow
from vault.sealing import rows
from vault.sealing.keys import KeyHierarchy
from vault.sealing.notes import Signer
from vault.storage.files import FileLedger
from vault.storage.keystore import SqlKeyStore
from vault.storage.migrate import migrate
from vault.storage.records import SqlRecords
from vault.storage.sqlite import Database

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vault.audit.anchor import Anchor, History
    from vault.clock import Clock
    from vault.erasure.service import Parts
    from vault.ports.outbox import Target

DATA: Final = "data.db"
KEYS: Final = "keys.db"
_LOCK: Final = ".write-lock"


class Stores(NamedTuple):
    """The stores of an open vault."""

    directory: Path
    settings: config.Settings
    database: Database
    key_database: Database
    parts: Parts
    history: History

    def register(self, *targets: Target) -> None:
        """Have these, outside of the vault, erase too what it erases; a sweep tells them of what waits.

        Raises:
            InvalidInput: a name is none, or there are too many.
        """
        self.parts.execution.outbox.register(*targets)


class Admit(Protocol):
    """Looks at a copy of a vault before it is held against its ledger; it may make it count."""

    def __call__(self, anchor: Anchor, records: SqlRecords, keys: KeyHierarchy, store: SqlKeyStore) -> None:
        """Return, or refuse it."""
        ...


def make_databases(directory: Path, vault_id: bytes, made: tuple[bytes, str, bytes], clock: Clock) -> None:
    """Make the key store and the log of a new vault, with the vault's own keys and row in them."""
    key, scheme, record = made
    with closing(Database(directory / KEYS, directory / _LOCK, synchronous="FULL", lock_seconds=30)) as file:
        migrate(file, "keys")
        store = SqlKeyStore(file)
        keys = KeyHierarchy(vault_id, key, store)
        store.keep_root(vault_id, scheme, record)
        keys.create(Signer.new_seed())
        row = VaultRow(vault_id, clock.now_us(), 0, bytes(32), b"")
        row = row._replace(mac=rows.vault_mac(keys.row_key(), row))
    with closing(Database(directory / DATA, directory / _LOCK, synchronous="FULL", lock_seconds=30)) as file:
        migrate(file, "data")
        SqlRecords(file).transact(lambda transaction: transaction.keep_vault(row))


def open_database(directory: Path, name: str, settings: config.Settings) -> Database:
    """One of the databases of an existing vault.

    Raises:
        StorageUnavailable: the file is missing or cannot be opened.
    """
    if not (directory / name).is_file():
        raise StorageUnavailable(f"{name} is missing from the vault's directory; restore it from a backup")
    return Database(
        directory / name,
        directory / _LOCK,
        synchronous=settings.synchronous if name == DATA else "FULL",
        lock_seconds=settings.lock_seconds,
    )


def open_anchors(
    directory: Path, settings: config.Settings, apart: Admit | None = None
) -> tuple[list[FileLedger], bool]:
    """The copies of the newest ledger entries outside of the directory; whether one could not be had.

    A copy that stands apart has none.

    Raises:
        StorageUnavailable: the one that the settings ask for cannot be written.
    """
    if apart is not None:
        return [], True
    places = [config.state_directory(settings.vault_id)]
    if settings.anchor:
        places.append(directory / settings.anchor)
    copies = []
    for place in places:
        try:
            copies.append(FileLedger(place, keep=2 * FULL_EVERY))
        except StorageUnavailable:
            if place != places[0]:
                raise  # it was asked for
    return copies, len(copies) < len(places)


def weaker_choices(directory: Path, settings: config.Settings, root: str, *, anchored: bool) -> list[str]:
    """What could be stronger about a vault, one sentence each.

    Args:
        directory, settings: the vault's.
        root: the scheme of its root key's provider.
        anchored: whether this machine remembers its ledger.
    """
    weaker = []
    if root == "file" and (directory / "root.key").exists():
        weaker.append("the root key lies beside the data: whoever copies the directory can read it")
    if settings.ledger == "ledger":
        weaker.append("the ledger lies beside the data: put it on another disk or bucket")
    if settings.synchronous != "FULL":
        weaker.append("synchronous is NORMAL: the last commits can be lost with the power")
    if not anchored:
        weaker.append("this machine cannot remember the ledger: its state directory cannot be written")
    if not settings.pad:
        weaker.append("padding is off: the lengths of payloads show")
    return weaker


def extra_detector(settings: config.Settings) -> Callable[[Any], Any] | None:
    """What adds the marks of one more detector to the vault's own; None when the settings ask for none.

    Raises:
        InvalidInput: it is not installed.
    """
    if not settings.view_extra_detector:
        return None
    from vault.redaction import presidio  # noqa: PLC0415 - an extra, and the detectors are loaded for views

    presidio.recognizers()  # what is missing is said now, not with the first view
    return presidio.added
