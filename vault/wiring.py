"""Puts a vault together; the only place that knows concrete classes."""

from __future__ import annotations

import secrets
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vault import config, keyring
from vault.access.door import Door, Leave
from vault.audit.anchor import FULL_EVERY, Anchor, History
from vault.audit.oversight import Audit, BreakGlass, Grants
from vault.audit.trail import AuditTrail
from vault.audit.verify import Verification
from vault.clock import SystemClock
from vault.errors import (
    InvalidInput,
    KeyUnavailable,
    StorageUnavailable,
    Tampered,
    VaultClosed,
    VaultError,
    VaultExists,
)
from vault.keyring import passphrase as passphrase_provider
from vault.ports.records import VaultRow
from vault.sealing import rows
from vault.sealing.keys import KeyHierarchy
from vault.sealing.notes import Author, Signer
from vault.sealing.payload import Sealing
from vault.sessions.log import Log
from vault.sessions.service import Sessions
from vault.sessions.viewing import Viewer, shipped_rules
from vault.sessions.witness import Witness
from vault.storage.files import FileBlobs, FileLedger, held_directory, make_private
from vault.storage.keystore import SqlKeyStore
from vault.storage.migrate import migrate
from vault.storage.records import SqlRecords
from vault.storage.sqlite import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from vault.audit.anchor import Entry
    from vault.audit.verify import Report
    from vault.clock import Clock
    from vault.keyring import Passphrase
    from vault.model import Principal

_DATA, _KEYS, _LOCK = "data.db", "keys.db", ".write-lock"


def _make_databases(directory: Path, vault_id: bytes, made: tuple[bytes, str, bytes], clock: Clock) -> None:
    """Make the key store and the log of a new vault, with the vault's own keys and row in them."""
    key, scheme, record = made
    with closing(Database(directory / _KEYS, directory / _LOCK, synchronous="FULL", lock_seconds=30)) as file:
        migrate(file, "keys")
        store = SqlKeyStore(file)
        keys = KeyHierarchy(vault_id, key, store)
        store.keep_root(vault_id, scheme, record)
        keys.create(Signer.new_seed())
        row = VaultRow(vault_id, clock.now_us(), 0, bytes(32), b"")
        row = row._replace(mac=rows.vault_mac(keys.row_key(), row))
    with closing(Database(directory / _DATA, directory / _LOCK, synchronous="FULL", lock_seconds=30)) as file:
        migrate(file, "data")
        SqlRecords(file).transact(lambda transaction: transaction.keep_vault(row))


class Access:
    """What one principal can reach."""

    def __init__(self, log: Log, leave: Leave, trail: AuditTrail, viewer: Viewer, *, second: bool) -> None:
        """Made by ``Vault.access``."""
        self.sessions = Sessions(log, leave)
        self.grants = Grants(log, leave, trail)
        self.break_glass = BreakGlass(log, leave, trail, second_person=second)
        self.audit = Audit(log, leave, trail, viewer)


class Vault:
    """An embedded vault: a directory with the log, its blobs, its keys and its ledger.

    Use it as a context manager: leaving writes a checkpoint and closes it. Threads may share it; after a
    fork, open it again in the child.
    """

    def __init__(self, directory: Path, given: Passphrase, clock: Clock) -> None:
        """Use ``Vault.open`` or ``Vault.create``."""
        self._directory, self._clock, self._closed = directory, clock, False
        self._records: SqlRecords
        self._keys: KeyHierarchy
        self._settings = config.read(directory)
        self._key_database = _database(directory, _KEYS, self._settings)
        try:
            self._store = SqlKeyStore(self._key_database)
            self._database = _database(directory, _DATA, self._settings)
            try:
                self._assemble(given)
            except BaseException:
                self._database.close()
                raise
        except BaseException:
            self._key_database.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        root: str = "file:",
        passphrase: Passphrase = None,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> Vault:
        """Make a new vault in a directory, and open it.

        Args:
            path: the directory; made when absent.
            root: where the root key is: ``file:`` (root.key inside, mode 0600), ``file:/another/place``
                (better: not backed up together with the data), or ``passphrase:``.
            passphrase: for ``passphrase:``, or what asks for it; at least 8 characters.
            settings: values for vault.toml (docs/reference/settings.md).
            clock: another source of time, for tests.

        Raises:
            VaultExists: there is a vault, or a part of one, in this directory.
            InvalidInput: a setting or the root's place is wrong.
            StorageUnavailable: the directory cannot be written.
        """
        directory, clock = Path(path).absolute(), clock or SystemClock()
        passphrase = passphrase() if callable(passphrase) else passphrase  # asked once, used twice
        vault_id = secrets.token_bytes(16)
        checked = config.checked({**(settings or {}), "vault_id": vault_id.hex()})
        make_private(directory)
        # Two processes that make a vault here at once: the second waits, then finds the first one's.
        with held_directory(directory):
            before = set(directory.iterdir())
            if any((directory / name).exists() for name in (config.FILE, _DATA, _KEYS)):
                raise VaultExists
            try:
                made = keyring.create_root(root, directory, passphrase)
                _make_databases(directory, vault_id, made, clock)
                # Last: a directory without it is not a vault, so a create that was cut off is not opened.
                config.write(directory, checked)
            except BaseException:
                for file in set(directory.iterdir()) - before:
                    file.unlink()  # only files so far, and nothing is under the new key yet
                raise
        vault = cls(directory, passphrase, clock)
        vault.checkpoint()
        return vault

    @classmethod
    def open(cls, path: str | Path, *, passphrase: Passphrase = None, clock: Clock | None = None) -> Vault:
        """Open an existing vault, held against its ledger.

        Raises:
            NotFound: there is no vault in this directory.
            KeyUnavailable: the root key is missing or readable by others; WrongKey when it is another's.
            RolledBack: the database or directory is older than its ledger; says what is missing.
            Tampered: the ledger or the key store was changed.
            NewerVault: written by a newer version of the program.
        """
        return cls(Path(path).absolute(), passphrase, clock or SystemClock())

    def access(self, principal: Principal) -> Access:
        """What a principal can reach; every call is checked when it is made."""
        self._check_open()
        leave = Leave(self._door, principal, self._check_open)
        second = self._settings.break_glass_second_person
        return Access(self._log, leave, self._trail, self._viewer, second=second)

    def checkpoint(self) -> Entry:
        """Record every session's head in the ledger, signed; without any change the newest entry stands.

        Raises:
            Tampered: a session's row does not verify, so it is not recorded.
            StorageUnavailable: the ledger did not take it.
        """
        self._check_open()
        return self._anchor.checkpoint(self._verification.unrecorded(self._anchor.history.heads))

    def verify(
        self, *, without_keys: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Report:
        """Check everything stored: MACs, chains, blobs, counts, ledger; names the place of what is wrong.

        Args:
            without_keys: only what needs no key: addresses, chains, ledger.
            progress: told (sessions done, sessions in all).
        """
        self._check_open()
        return self._verification.run(self._anchor.history, without_keys=without_keys, progress=progress)

    @staticmethod
    def verify_without_keys(
        path: str | Path,
        *,
        public_key: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Report:
        """Check what needs no key, of a vault whose root key one does not have: hashes, chains, ledger.

        Args:
            path: the vault's directory.
            public_key: the ledger's, in hexadecimal (``info`` shows it); without it nobody checks who signed.
            progress: told (sessions done, sessions in all).

        Raises:
            NotFound: there is no vault in this directory.
            InvalidInput: not a public key.
        """
        directory = Path(path).absolute()
        settings = config.read(directory)
        try:
            public = None if public_key is None else bytes.fromhex(public_key)
        except ValueError:
            public = b""
        if public is not None and len(public) != Signer.PUBLIC_BYTES:
            raise InvalidInput(
                "the ledger's public key is 64 hexadecimal digits; session-vault info shows it"
            )
        database = _database(directory, _DATA, settings)
        try:
            author = Author(f"session-vault/{settings.vault_id}", public)
            history = History(author, FileLedger(directory / settings.ledger))
            stores = Verification(SqlRecords(database), FileBlobs(directory / "blobs"), None)
            return stores.run(history, without_keys=True, progress=progress)
        finally:
            database.close()

    def info(self) -> dict[str, Any]:
        """What this vault is and which weaker choices are in force, as JSON values."""
        self._check_open()
        newest = self._anchor.history.newest
        return {
            "directory": str(self._directory),
            "vault_id": self._settings.vault_id,
            "root_key": self._root_scheme,
            "synchronous": self._settings.synchronous,
            "ledger_entries": newest.number if newest else 0,
            "ledger_every": self._settings.ledger_every,
            "ledger_public_key": self._signer.public.hex(),
            "anchors": len(self._copies),
            "sessions": self._verification.count_sessions(),
            "weaker_choices": self._weaker(),
        }

    def rotate_passphrase(self, new: Passphrase) -> None:
        """Wrap the root key under another passphrase; no data and no other key is touched.

        Raises:
            InvalidInput: this vault has no passphrase, or the new one is too short.
        """
        self._check_open()
        if self._root_scheme != "passphrase":
            raise InvalidInput("this vault's root key is not behind a passphrase, so there is none to change")
        self._store.keep_root(self._vault_id, "passphrase", passphrase_provider.rewrap(self._root, new))
        self._key_database.truncate()  # the old wrap goes from the write-ahead log too

    def close(self) -> None:
        """Write a checkpoint and close; what was acknowledged is safe even without."""
        if self._closed:
            return
        try:
            self.checkpoint()
        finally:
            self._closed = True
            self._records.close()
            self._key_database.close()
            self._keys.forget()
            self._root = b""

    def __enter__(self) -> Self:
        """The vault itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; an error inside is not hidden by one in closing."""
        try:
            self.close()
        except VaultError:
            if error is None:
                raise

    def _assemble(self, given: Passphrase) -> None:
        migrate(self._key_database, "keys")
        found = self._store.root()
        if found is None:
            raise KeyUnavailable("keys.db holds no keys; restore the keys.db that belongs to this vault")
        vault_id, self._root_scheme, record = found
        if vault_id.hex() != self._settings.vault_id:
            raise KeyUnavailable("keys.db is of another vault; restore the keys.db that belongs to this one")
        self._root = keyring.open_root(self._root_scheme, record, self._directory, given)
        self._vault_id, self._keys = vault_id, KeyHierarchy(vault_id, self._root, self._store)
        self._signer = Signer(self._keys.signing_seed(), f"session-vault/{vault_id.hex()}")
        migrate(self._database, "data")
        self._records, self._witness = SqlRecords(self._database), Witness()
        with self._records.snapshot() as reader:
            row = reader.vault()
        if row is None or row.vault_id != vault_id:
            raise Tampered("data.db is not of this vault; restore the data.db that belongs to its keys.db")
        self._copies, self._without_anchor = self._made_copies()
        ledger = FileLedger(self._directory / self._settings.ledger)
        self._anchor = Anchor(
            self._records,
            ledger,
            self._copies,
            self._signer,
            self._keys.row_key(),
            self._witness,
            self._clock,
        )
        self._anchor.check()
        self._viewer = Viewer(shipped_rules, lambda: self._log, self._settings.pseudonym_epoch)
        self._log = Log(
            viewer=self._viewer,
            records=self._records,
            blobs=FileBlobs(self._directory / "blobs"),
            keys=self._keys,
            clock=self._clock,
            witness=self._witness,
            sealing=Sealing(compress=self._settings.compress, pad=self._settings.pad),
            appended=self._appended,
            trigger=self._settings.trigger(),
            thresholds=self._settings.thresholds(),
        )
        self._door, self._pending = Door(self._keys, self._clock, self._owner_of, lambda: self._trail), 0
        self._trail = AuditTrail(self._log, self._door)
        self._verification = Verification(self._records, self._log.blobs, self._keys)

    def _owner_of(self, session_id: bytes, tenant_id: bytes) -> bytes | None:
        with self._records.snapshot() as reader:
            return reader.owner_of(session_id, tenant_id)

    def _made_copies(self) -> tuple[list[FileLedger], bool]:
        places = [config.state_directory(self._settings.vault_id)]
        if self._settings.anchor:
            places.append(self._directory / self._settings.anchor)
        copies = []
        for place in places:
            try:
                copies.append(FileLedger(place, keep=2 * FULL_EVERY))
            except StorageUnavailable:
                if place != places[0]:
                    raise  # it was asked for
        return copies, len(copies) < len(places)

    def _appended(self, session_id: bytes, events: int) -> None:
        self._anchor.changed(session_id)
        self._pending += events  # two threads may count one twice or not at all: the interval is approximate
        if self._pending >= self._settings.every() or (events == 0 and self._settings.every() == 1):
            pending, self._pending = self._pending, 0
            try:
                self._anchor.checkpoint()
            except StorageUnavailable as error:
                self._pending = pending  # tried again with the next commit
                raise type(error)(
                    "what was written is stored, but the ledger did not take its checkpoint; make room, or "
                    "check the ledger's directory"
                ) from None

    def _weaker(self) -> list[str]:
        weaker = []
        if self._root_scheme == "file" and (self._directory / "root.key").exists():
            weaker.append("the root key lies beside the data: whoever copies the directory can read it")
        if self._settings.ledger == "ledger":
            weaker.append("the ledger lies beside the data: put it on another disk or bucket")
        if self._settings.synchronous != "FULL":
            weaker.append("synchronous is NORMAL: the last commits can be lost with the power")
        if self._without_anchor:
            weaker.append("this machine cannot remember the ledger: its state directory cannot be written")
        if not self._settings.pad:
            weaker.append("padding is off: the lengths of payloads show")
        return weaker

    def _check_open(self) -> None:
        if self._closed:
            raise VaultClosed


def _database(directory: Path, name: str, settings: config.Settings) -> Database:
    if not (directory / name).is_file():
        raise StorageUnavailable(f"{name} is missing from the vault's directory; restore it from a backup")
    return Database(
        directory / name,
        directory / _LOCK,
        synchronous=settings.synchronous if name == _DATA else "FULL",
        lock_seconds=settings.lock_seconds,
    )
