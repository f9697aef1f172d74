"""Puts a vault together; the only place that knows concrete classes."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vault import config, custody, keyring, stores
from vault.access.door import Door, Leave
from vault.audit.anchor import Anchor, History
from vault.audit.trail import AuditTrail
from vault.audit.verify import Verification
from vault.audit.verify_erased import ErasedVerification
from vault.clock import SystemClock
from vault.derived.service import DerivedItems
from vault.erasure.execute import Execution
from vault.erasure.outbox import Outbox
from vault.erasure.policies import Policies
from vault.erasure.proof import Proof, noted_receipt, told
from vault.erasure.relabel import relabel
from vault.erasure.replay import bury, replay
from vault.erasure.retention import sweep_all
from vault.erasure.retract import retract
from vault.erasure.service import Parts, resume
from vault.errors import (
    InvalidInput,
    StorageUnavailable,
    Tampered,
    VaultClosed,
    VaultError,
    VaultExists,
)
from vault.faces import Access
from vault.sealing.keys import KeyHierarchy
from vault.sealing.notes import Author, Signer
from vault.sealing.payload import Sealing
from vault.sessions.log import Log
from vault.sessions.viewing import Viewer, shipped_rules
from vault.sessions.witness import Witness
from vault.storage.files import FileBlobs, FileLedger, held_directory, make_private
from vault.storage.keystore import SqlKeyStore
from vault.storage.migrate import migrate
from vault.storage.records import SqlRecords
from vault.storage.remains import FileRemains
from vault.stores import Stores

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from vault.audit.entries import Entry
    from vault.audit.verify import Report
    from vault.clock import Clock
    from vault.custody import Custody
    from vault.erasure.retention import Sweep
    from vault.keyring import Passphrase
    from vault.model import Principal
    from vault.sealing.notes import Gone
    from vault.stores import Admit


class Vault:
    """An embedded vault: a directory with the log, its blobs, its keys and its ledger.

    Use it as a context manager: leaving writes a checkpoint and closes it. Threads may share it; after a
    fork, open it again in the child.
    """

    def __init__(self, directory: Path, given: Passphrase, clock: Clock, apart: Admit | None = None) -> None:
        """Use ``Vault.open`` or ``Vault.create``; ``apart`` is for what `copies` makes."""
        self._directory, self._clock, self._apart, self._closed = directory, clock, apart, False
        self._records: SqlRecords
        self._keys: KeyHierarchy
        self._log: Log
        self._trail: AuditTrail
        self._parts: Parts
        self._settings = config.read(directory)
        self._key_database = stores.open_database(directory, stores.KEYS, self._settings)
        try:
            self._store = SqlKeyStore(self._key_database)
            self._database = stores.open_database(directory, stores.DATA, self._settings)
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
            if any((directory / name).exists() for name in (config.FILE, stores.DATA, stores.KEYS)):
                raise VaultExists
            try:
                made = keyring.create_root(root, directory, passphrase)
                stores.make_databases(directory, vault_id, made, clock)
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
        return Access(self._log, leave, self._trail, self._viewer, self._parts, self._derived, second=second)

    def checkpoint(self) -> Entry:
        """Record every session's head in the ledger, signed; without any change the newest entry stands.

        Raises:
            Tampered: a session's row does not verify, so it is not recorded.
            StorageUnavailable: the ledger did not take it.
        """
        self._check_open()
        return self._anchor.checkpoint(self._verification.unrecorded(self._anchor.history.heads))

    def sweep(self, *, progress: Callable[[int, int], None] | None = None) -> list[Sweep]:
        """Erase what is due by the policies of all tenants, and finish what a crash left; for a worker.

        Raises:
            Busy: another process sweeps.
            ClockAnomaly: the clock jumped; nothing was erased.
        """
        self._check_open()
        return sweep_all(self._parts, progress=progress)

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
        database = stores.open_database(directory, stores.DATA, settings)
        try:
            author = Author(f"session-vault/{settings.vault_id}", public)
            history = History(author, FileLedger(directory / settings.ledger))
            verification = Verification(SqlRecords(database), FileBlobs(directory / "blobs"), None)
            return verification.run(history, without_keys=True, progress=progress)
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
            "weaker_choices": stores.weaker_choices(
                self._directory, self._settings, self._root_scheme, anchored=not self._without_anchor
            ),
        }

    def rotate_passphrase(self, new: Passphrase) -> None:
        """Wrap the root key under another passphrase; no data and no other key is touched.

        Raises:
            InvalidInput: this vault has no passphrase, or the new one is too short.
        """
        self.keys.change_passphrase(new)

    @property
    def keys(self) -> Custody:
        """Work on the keys as a whole: another root key, a barrier, how many there are."""
        self._check_open()
        return self._custody

    @property
    def stores(self) -> Stores:
        """What copies of the whole vault are made of (`vault.copies`)."""
        self._check_open()
        database, keys = self._database, self._key_database
        return Stores(self._directory, self._settings, database, keys, self._parts, self._anchor.history)

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
            self._custody.forget()

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
        self._custody = custody.opened(
            self._store, self._directory, self._settings.vault_id, given, self._key_database.truncate
        )
        vault_id, self._root_scheme = self._custody.vault_id, self._custody.scheme
        self._vault_id, self._keys = vault_id, self._custody.hierarchy
        self._signer = Signer(self._keys.signing_seed(), f"session-vault/{vault_id.hex()}")
        migrate(self._database, "data")
        self._records, self._witness = SqlRecords(self._database), Witness()
        with self._records.snapshot() as reader:
            row = reader.vault()
        if row is None or row.vault_id != vault_id:
            raise Tampered("data.db is not of this vault; restore the data.db that belongs to its keys.db")
        self._anchor = self._anchored()
        more = {"added": found} if (found := stores.extra_detector(self._settings)) else {}
        self._viewer = Viewer(shipped_rules, lambda: self._log, self._settings.pseudonym_epoch, **more)
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
            retention=lambda *asked: self._parts.policies(*asked),  # noqa: PLW0108 - made later
            levels=config.read_level_document(self._directory, self._settings),
            event_hour=lambda *asked: self._parts.policies.event_hour(*asked),  # noqa: PLW0108 - made later
            retract=lambda *asked: retract(self._parts, *asked),
            relabel=lambda *asked: relabel(self._parts, *asked),
        )
        self._door, self._pending = self._made_door(), 0
        self._trail = AuditTrail(self._log, self._door)
        self._derived = DerivedItems(self._log)
        gone = ErasedVerification(self._log, self._store, self._trail, self._signer.public)
        self._verification = Verification(self._records, self._log.blobs, self._keys, gone)
        self._parts = self._erasure_parts()
        self._custody.serve(self._parts, noted_receipt(self._log, self._trail))
        self._finish_erasures()

    def _anchored(self) -> Anchor:
        self._copies, self._without_anchor = stores.open_anchors(self._directory, self._settings, self._apart)
        kept = self._records, FileLedger(self._directory / self._settings.ledger), self._copies
        anchor = Anchor(*kept, self._signer, self._keys, self._witness, self._clock)
        if self._apart is not None:
            self._apart(anchor, self._records, self._keys, self._store)
        anchor.check()
        return anchor

    def _erasure_parts(self) -> Parts:
        log, store, trail, key = self._log, self._store, self._trail, self._signer
        remains = FileRemains(self._directory, self._directory / self._settings.ledger)
        proof = Proof(log=log, store=store, remains=remains, signer=key, told=told(trail))
        outbox = Outbox(self._settings.targets())
        work = Execution(log=log, store=store, record=self._record_erased, prove=proof, outbox=outbox)
        rules = Policies(trail, self._settings.bounds(), self._settings.retention_second_person_above)
        return Parts(
            log=log, store=store, trail=trail, policies=rules, execution=work, spared=trail.owner, signer=key
        )

    def _record_erased(self, erased: Sequence[Gone]) -> None:
        self._derived.forget()
        self._anchor.checkpoint((), erased)

    def _finish_erasures(self) -> None:
        """Before anything is served: what was erased and is back, and what a crash left unfinished."""
        try:
            for _ in (*resume(self._parts), *replay(self._parts, self._anchor.history.erased)):
                pass
            bury(self._parts, self._anchor.history.erased)
        except StorageUnavailable:
            return  # what is being erased is fenced: nobody reads it, and the next open tries again

    def _made_door(self) -> Door:
        own = self._settings.audit_reads == "all"
        return Door(self._keys, self._clock, self._owner_of, lambda: self._trail, own_reads=own)

    def _owner_of(self, session_id: bytes, tenant_id: bytes) -> bytes | None:
        with self._records.snapshot() as reader:
            return reader.owner_of(session_id, tenant_id)

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

    def _check_open(self) -> None:
        if self._closed:
            raise VaultClosed
