"""What is done to a vault's keys as a whole: another root key, a barrier, another passphrase."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vault import keyring
from vault.erasure.passing import sign_passed, waiting_since
from vault.erasure.reencrypt import reencrypted
from vault.errors import InvalidInput, KeyUnavailable
from vault.keyring import passphrase as passphrase_provider
from vault.sealing.keys import KeyHierarchy
from vault.sealing.rotation import Rotation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vault.erasure.reencrypt import Reencrypted
    from vault.erasure.service import Parts
    from vault.keyring import Passphrase
    from vault.ports.keys import KeyCount
    from vault.sealing.rotation import Progress
    from vault.storage.keystore import SqlKeyStore


class Rewrapped(NamedTuple):
    """How many keys were wrapped anew, and what that is worth.

    ``truncated``: no old wrap is left in the write-ahead log. ``passed``: it was a barrier, and what opens
    old copies of keys.db is gone too: behind a passphrase, when the passphrase was changed with it.
    """

    keys: int
    truncated: bool
    passed: bool


def _nothing() -> None:
    """Nobody waits for a barrier."""


class Custody:
    """The keys of an open vault, as a whole."""

    def __init__(
        self,
        store: SqlKeyStore,
        directory: Path,
        found: tuple[bytes, str, bytes],
        root: bytes,
        truncate: Callable[[], bool],
    ) -> None:
        """Use ``opened``."""
        self.vault_id, self.scheme, self._record = found
        self._store, self._directory, self._root, self._truncate = store, directory, root, truncate
        reopen = keyring.reopener(store.root, directory, root, self._record)
        self._parts: Parts
        #: What follows a barrier that passed: the receipts of what was erased before it say so.
        self.passed: Callable[[], object] = _nothing
        #: When the oldest erasure was verified that no barrier has followed yet, in microseconds; 0: none.
        self.waiting_since: Callable[[], int] = lambda: 0
        #: The hierarchy that this process works with.
        self.hierarchy = KeyHierarchy(self.vault_id, root, store, reopen)

    def serve(self, parts: Parts, told: Callable[[bytes, bytes, str], None]) -> None:
        """Work on keys together with what stands under them, once the vault is open.

        Args:
            parts: of erasure.
            told: writes the receipts of a barrier that passed into the audit trail.
        """
        self._parts = parts
        self.passed = lambda: sign_passed(parts.log, parts.signer, told)
        self.waiting_since = lambda: waiting_since(parts.log, parts.signer)

    def rotate(
        self, *, passphrase: Passphrase = None, new: Passphrase = None, progress: Progress = None
    ) -> Rewrapped:
        """Make a new root key, wrap what hangs under the root under it, and destroy the old one.

        Data, epochs and tenants' keys stay as they are, and other open processes go on working. It takes as
        long as there are tenants: about 40,000 a second.

        Args:
            passphrase: what opens the vault, when its root key is behind one.
            new: another passphrase from now on.
            progress: told (keys done, keys in all).

        Raises:
            WrongKey: the passphrase is wrong; nothing was changed.
            KeyUnavailable: the new root key cannot be stored, or the old one not destroyed.
            Conflict: another process replaced the root key first.
        """
        return self._replaced(passphrase, new, progress, fresh=False)

    def barrier(
        self, *, passphrase: Passphrase = None, new: Passphrase = None, progress: Progress = None
    ) -> Rewrapped:
        """Put what was destroyed out of reach of old copies of keys.db: fresh keys all the way down to it.

        Every tenant gets a fresh wrapping key, everything alive is wrapped under it, and the root key is
        replaced as by ``rotate``. An old copy of keys.db then opens nothing with the keys of today. Cut off,
        it is begun again from the start.

        Args:
            passphrase: what opens the vault, when its root key is behind one.
            new: another passphrase from now on; without one, a copy of keys.db from before still opens with
                the passphrase.
            progress: told (keys done, keys in all).

        Raises:
            Tampered: a key does not open, so it would be lost.
            WrongKey, KeyUnavailable, Conflict: as ``rotate``.
        """
        return self._replaced(passphrase, new, progress, fresh=True)

    def reencrypt(self, session_id: str, *, progress: Progress = None) -> Reencrypted:
        """Replace one session's keys by fresh ones, and seal all of it anew under them; the old keys go.

        For when its keys got out, for example with an old copy of keys.db and its root key: what is stored
        from here on opens with the fresh keys only. Whoever copied the sealed rows before, too, still reads
        that copy; a backup of data from before opens with the keys of then only. Derived items keep theirs.
        The session stays usable meanwhile; cut off, run it again.

        Args:
            session_id: its id.
            progress: told (events done, events in all).

        Raises:
            NotFound: there is no such session, or it is being erased.
            Conflict: it is written to all the time; LimitExceeded: it is too large.
            Tampered: something of it does not verify; nothing was changed.
        """
        return reencrypted(self._parts, session_id, progress)

    def change_passphrase(self, new: Passphrase) -> None:
        """Wrap the root key under another passphrase; no data and no other key is touched.

        Raises:
            InvalidInput: this vault has no passphrase, or the new one is too short.
            Conflict: another process replaced the root key: open the vault again.
        """
        if self.scheme != "passphrase":
            raise InvalidInput("this vault's root key is not behind a passphrase, so there is none to change")
        record = passphrase_provider.rewrap(self._root, new)
        self._store.keep_root(self.vault_id, "passphrase", record, before=self._record)
        self._record = record
        self._truncate()  # the old wrap goes from the write-ahead log too

    def counts(self) -> list[KeyCount]:
        """How many keys there are, by tenant and purpose."""
        return self._store.counts()

    def forget(self) -> None:
        """Drop every key from memory."""
        self._root = b""
        self.hierarchy.forget()

    def _replaced(
        self, passphrase: Passphrase, new: Passphrase, progress: Progress, *, fresh: bool
    ) -> Rewrapped:
        stored = self._store.root
        with keyring.replaced_root(stored, self._directory, passphrase, new) as made:
            rotation = Rotation(self.vault_id, made.key, self._store, progress)
            count = rotation.freshen() if fresh else 0
            count += rotation.replace_root(made.new_key, (made.record, made.new_record))
            self.hierarchy.take_root(made.new_key)
            self._record, self._root = made.new_record, made.new_key
        truncated = self._truncate()
        passed = fresh and truncated and (self.scheme != "passphrase" or new is not None)
        if passed:
            self.passed()
        return Rewrapped(count, truncated, passed)


def opened(
    store: SqlKeyStore, directory: Path, vault_id: str, given: Passphrase, truncate: Callable[[], bool]
) -> Custody:
    """The keys of a vault, with its root key.

    Args:
        store: the vault's keys.
        directory: the vault's.
        vault_id: which vault's they must be, in hexadecimal.
        given: the passphrase, or what asks for it.
        truncate: empties the write-ahead log of keys.db; whether it could.

    Raises:
        KeyUnavailable: no keys, another vault's, or the root key is missing; WrongKey: it is another's.
    """
    while True:
        found = store.root()
        if found is None:
            raise KeyUnavailable("keys.db holds no keys; restore the keys.db that belongs to this vault")
        if found[0].hex() != vault_id:
            raise KeyUnavailable("keys.db is of another vault; restore the keys.db that belongs to this one")
        _, scheme, record = found
        try:
            root = keyring.open_root(scheme, record, directory, given)
        except KeyUnavailable:
            if store.root() == found:
                raise
            continue  # another process replaced the root key between the two looks
        return Custody(store, directory, found, root, truncate)
