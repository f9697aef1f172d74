"""The keys at the top of the hierarchy: what hangs under the root itself, and the places of all wraps."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from vault.encoding import pack, u64
from vault.errors import KeyUnavailable, Tampered, WrongKey
from vault.ports.keys import KeyRow
from vault.sealing.wraps import KEY_BYTES, derive, unwrap, wrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.ports.keys import KeyStore

_VERSION: Final = 1
#: How often a key is looked up while other processes wrap keys anew; says whether it is the last time.
TRIES: Final = (False, False, True)


class TopKeys:
    """The vault's own keys, unwrapped when asked for."""

    def __init__(
        self, vault_id: bytes, root: bytes, store: KeyStore, reopen: Callable[[], bytes] | None = None
    ) -> None:
        """Hold the root key; nothing is read yet.

        Args:
            vault_id: whose keys.
            root: the root key.
            store: where what hangs under it is.
            reopen: reads the root key again, when another process may have replaced it.
        """
        self._vault_id, self._root, self._store, self._reopen = vault_id, root, store, reopen
        self._vault_key: bytes | None = None
        self._lock = threading.Lock()

    def take_root(self, root: bytes) -> None:
        """Go on with another root key, which the keys were wrapped under meanwhile."""
        self._root = root

    def create(self, signing_seed: bytes) -> None:
        """Make and store the vault key and the ledger's signing key of a new vault."""
        rows = [
            self._row("vault", self._root, os.urandom(KEY_BYTES)),
            self._row("signing", self._root, signing_seed),
        ]
        self._store.put(rows)

    def signing_seed(self) -> bytes:
        """The 32-byte Ed25519 seed that signs the ledger.

        Raises:
            WrongKey: the root key is not this vault's.
            KeyUnavailable: the key store holds no such key.
        """
        return self._top("signing")

    def row_key(self) -> bytes:
        """The MAC key of the vault's own row."""
        return derive(self._vault(), b"vault-row")

    def _vault(self) -> bytes:
        if self._vault_key is None:
            self._vault_key = self._top("vault")
        return self._vault_key

    def _top(self, purpose: str) -> bytes:
        return self._top_row(purpose)[1]

    def _top_row(self, purpose: str) -> tuple[KeyRow, bytes]:
        try:
            found = self._under_root(purpose, self._vault_id)
        except Tampered:
            # A wrong root and a damaged wrap look alike by design; the common one is named.
            raise WrongKey("the root key does not open this vault's keys; give the right key file") from None
        if found is None:
            raise KeyUnavailable(
                "keys.db does not hold this vault's keys; restore the keys.db that belongs to it"
            )
        return found

    def _under_root(self, purpose: str, scope: bytes) -> tuple[KeyRow, bytes] | None:
        """A key that hangs under the root; when it does not open, under the root that is there by now."""
        for last in TRIES:
            root, row = self._root, self._store.get(purpose, scope, 0, b"")
            if row is None:
                return None
            try:
                return row, unwrap(root, row.wrapped, self._place(row))
            except Tampered:
                if last or not self._renewed(root):
                    raise
        raise AssertionError("unreachable: the last try returns or raises")

    def _renewed(self, tried: bytes) -> bool:
        """Whether there is another root key than the one that was tried."""
        if self._root == tried and self._reopen is not None:
            self._root = self._reopen()
        return self._root != tried

    def _place(self, row: KeyRow) -> bytes:
        """The context that a row's wrap was made for, as far as the row itself says."""
        return self._context(row.purpose, row.tenant_id, row.owner, row.scope, row.epoch)

    def _row(self, purpose: str, parent: bytes, key: bytes, scope: bytes | None = None) -> KeyRow:
        tenant_id = scope or b""
        scope = scope or self._vault_id
        context = self._context(purpose, tenant_id, b"", scope, 0)
        wrapped = wrap(parent, key, context)
        return KeyRow(purpose=purpose, scope=scope, epoch=0, owner=b"", wrapped=wrapped, tenant_id=tenant_id)

    def _context(
        self, purpose: str, tenant_id: bytes, owner: bytes, scope: bytes, epoch: int, *how: bytes
    ) -> bytes:
        return pack(
            b"session-vault/1/wrap",
            purpose.encode(),
            self._vault_id,
            tenant_id,
            owner,
            scope,
            u64(epoch),
            u64(_VERSION),
            *how,
        )
