"""The key hierarchy: root → vault and tenant keys → epoch keys → what is derived for use.

Every key below the root is random and stored wrapped (never derived from its parent: a derived key cannot
be destroyed). A wrap is Cobblestone-256 of the 32 bytes, its context naming purpose, vault, tenant, session,
epoch and version; an epoch key's context also carries the owner, so a skipped ownership check opens nothing.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from cryptography.cobblestone import Cobblestone256Decryptor, Cobblestone256Encryptor
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from vault.encoding import pack, u64
from vault.errors import KeyUnavailable, Tampered, WrongKey
from vault.ports.keys import KeyRow
from vault.sealing.payload import FORMAT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault.ports.keys import KeyStore

KEY_BYTES: Final = 32
_VERSION: Final = 1
_KINDS: Final = (b"payload", b"meta", b"about")
#: Epoch keys held in memory; an entry is under 1 KiB.
_CACHE_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochKeys:
    """What one epoch key is used for, and the contexts of the kinds of payload sealed under it.

    A context is the place (vault, tenant, session, epoch) and the kind: ``payload``, ``meta`` or ``about``.
    """

    payload: bytes = field(repr=False)
    mac: bytes = field(repr=False)
    content: bytes = field(repr=False)
    contexts: Mapping[bytes, bytes] = field(repr=False)

    def context(self, kind: bytes) -> bytes:
        """The context of one kind of payload."""
        return self.contexts[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantKeys:
    """A tenant's pseudonym in the database and the key of its blind indexes."""

    tenant_id: bytes
    wrapping: bytes = field(repr=False)
    index: bytes = field(repr=False)

    def owner(self, subject: str) -> bytes:
        """The blind index of an owner."""
        return _owner(self.index, subject)

    def team(self, name: str) -> bytes:
        """The blind index of a team."""
        return _blind(self.index, "team", name)

    def pseudonym_key(self, purpose: str, epoch: int) -> bytes:
        """The key of the tenant's pseudonyms for one purpose and epoch."""
        return derive(self.index, b"pseudonym/" + pack(purpose.encode(), u64(epoch)))

    def blind(self, kind: str, *parts: str) -> bytes:
        """A blind index: equal names of one tenant meet, nobody without the key can try names out.

        BLAKE2b-128 under the tenant's index key, over the kind and the parts behind their lengths.
        """
        return _blind(self.index, kind, *parts)


def wrap(parent: bytes, key: bytes, context: bytes) -> bytes:
    """A key, sealed under its parent for one place (105 bytes with the format byte)."""
    encryptor = Cobblestone256Encryptor(parent, context)
    return FORMAT + encryptor.update(key) + encryptor.finalize()


def unwrap(parent: bytes, wrapped: bytes, context: bytes) -> bytes:
    """The key of a wrap.

    Raises:
        Tampered: another parent, another place, or a changed byte.
    """
    if not isinstance(wrapped, bytes) or wrapped[:1] != FORMAT:
        raise Tampered("a wrapped key has an unknown format")
    try:
        decryptor = Cobblestone256Decryptor(parent, context)
        return decryptor.update(wrapped[1:]) + decryptor.finalize()
    except InvalidTag:
        raise Tampered("a wrapped key does not verify") from None


def derive(key: bytes, purpose: bytes) -> bytes:
    """32 bytes for one purpose from a uniformly random key (HKDF-Expand, SHA-512; RFC 5869 §2.3)."""
    return HKDFExpand(algorithm=SHA512(), length=KEY_BYTES, info=b"session-vault/1/" + purpose).derive(key)


class KeyHierarchy:
    """The vault's keys, unwrapped when asked for and kept in memory until ``forget``."""

    def __init__(self, vault_id: bytes, root: bytes, store: KeyStore) -> None:
        """Hold the root key; nothing is read yet."""
        self._vault_id, self._root, self._store = vault_id, root, store
        self._vault_key: bytes | None = None
        self._tenants: dict[str, TenantKeys] = {}
        self._epochs: OrderedDict[tuple[bytes, bytes, bytes, int], EpochKeys] = OrderedDict()
        self._lock = threading.Lock()

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

    def tenant(self, name: str, *, create: bool) -> TenantKeys | None:
        """A tenant's keys; None when the tenant is not known and ``create`` is false."""
        known = self._tenants.get(name)
        if known is not None:
            return known
        found = self._load_tenant(
            _blind(derive(self._vault(), b"tenant-index"), "tenant", name), create=create
        )
        if found is not None:
            with self._lock:
                self._tenants[name] = found
        return found

    def tenant_by_id(self, tenant_id: bytes) -> TenantKeys | None:
        """A tenant's keys by its pseudonym; only for verification, which has no principal."""
        return self._load_tenant(tenant_id, create=False)

    def create_epoch(self, tenant: TenantKeys, owner: bytes, session_id: bytes, epoch: int) -> EpochKeys:
        """A fresh epoch key, durable before this returns, so no ciphertext is ever older than its key."""
        key = os.urandom(KEY_BYTES)
        context = self._context("epoch", tenant.tenant_id, owner, session_id, epoch)
        row = KeyRow(
            purpose="epoch",
            scope=session_id,
            epoch=epoch,
            owner=owner,
            wrapped=wrap(tenant.wrapping, key, context),
        )
        self._store.put([row])
        return self._remember((tenant.tenant_id, owner, session_id, epoch), key)

    def epoch(self, tenant: TenantKeys, owner: bytes, session_id: bytes, epoch: int) -> EpochKeys:
        """The keys of one epoch of a session, for this owner only.

        Raises:
            KeyUnavailable: no key for this session and owner in the key store.
            Tampered: the wrap was changed, or belongs to another session, owner, tenant or vault.
        """
        place = (tenant.tenant_id, owner, session_id, epoch)
        with self._lock:
            if place in self._epochs:
                self._epochs.move_to_end(place)
                return self._epochs[place]
        row = self._store.get("epoch", session_id, epoch, owner)
        if row is None:
            raise KeyUnavailable("the key store holds no key for this session")
        context = self._context("epoch", tenant.tenant_id, owner, session_id, epoch)
        return self._remember(place, unwrap(tenant.wrapping, row.wrapped, context))

    def has_epoch(self, owner: bytes, session_id: bytes, epoch: int) -> bool:
        """Whether this owner's key for a session exists: it outlives a session row removed by a tamperer."""
        return self._store.get("epoch", session_id, epoch, owner) is not None

    def forget(self) -> None:
        """Drop every key from memory (as far as Python lets anyone: see SECURITY.md)."""
        with self._lock:
            self._tenants.clear()
            self._epochs.clear()
            self._vault_key = None
            self._root = b""
        _owner.cache_clear()  # its keys hold index keys

    def _load_tenant(self, scope: bytes, *, create: bool) -> TenantKeys | None:
        key_row, index_row = self._store.get("tenant", scope, 0, b""), self._store.get("index", scope, 0, b"")
        if key_row is None and index_row is not None:
            key_row = self._store.get("tenant", scope, 0, b"")  # another process made both between the looks
        if (key_row is None) != (index_row is None):
            raise Tampered("the key store holds only one of a tenant's two keys")
        if key_row is None or index_row is None:
            if not create:
                return None
            wrapping, index = os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)
            rows = [
                self._row("tenant", self._root, wrapping, scope),
                self._row("index", wrapping, index, scope),
            ]
            if not self._store.put(rows):  # another process made this tenant first: its keys count
                return self._load_tenant(scope, create=False)
        else:
            wrapping = unwrap(self._root, key_row.wrapped, self._context("tenant", scope, b"", scope, 0))
            index = unwrap(wrapping, index_row.wrapped, self._context("index", scope, b"", scope, 0))
        return TenantKeys(tenant_id=scope, wrapping=wrapping, index=index)

    def _remember(self, place: tuple[bytes, bytes, bytes, int], key: bytes) -> EpochKeys:
        tenant_id, _, session_id, epoch = place
        here = pack(b"session-vault/1/payload", self._vault_id, tenant_id, session_id, u64(epoch))
        keys = EpochKeys(
            payload=derive(key, b"payload"),
            mac=derive(key, b"row-mac"),
            content=derive(key, b"content-id"),
            contexts={kind: pack(here, kind) for kind in _KINDS},
        )
        with self._lock:
            self._epochs[place] = keys
            if len(self._epochs) > _CACHE_MAX:
                self._epochs.popitem(last=False)
        return keys

    def _vault(self) -> bytes:
        if self._vault_key is None:
            self._vault_key = self._top("vault")
        return self._vault_key

    def _top(self, purpose: str) -> bytes:
        row = self._store.get(purpose, self._vault_id, 0, b"")
        if row is None:
            raise KeyUnavailable(
                "keys.db does not hold this vault's keys; restore the keys.db that belongs to it"
            )
        try:
            return unwrap(self._root, row.wrapped, self._context(purpose, b"", b"", self._vault_id, 0))
        except Tampered:
            # A wrong root and a damaged wrap look alike by design; the common one is named.
            raise WrongKey("the root key does not open this vault's keys; give the right key file") from None

    def _row(self, purpose: str, parent: bytes, key: bytes, scope: bytes | None = None) -> KeyRow:
        tenant_id = scope or b""
        scope = scope or self._vault_id
        context = self._context(purpose, tenant_id, b"", scope, 0)
        return KeyRow(purpose=purpose, scope=scope, epoch=0, owner=b"", wrapped=wrap(parent, key, context))

    def _context(self, purpose: str, tenant_id: bytes, owner: bytes, scope: bytes, epoch: int) -> bytes:
        return pack(
            b"session-vault/1/wrap",
            purpose.encode(),
            self._vault_id,
            tenant_id,
            owner,
            scope,
            u64(epoch),
            u64(_VERSION),
        )


@lru_cache(maxsize=4096)
def _owner(index: bytes, subject: str) -> bytes:
    return _blind(index, "owner", subject)


def _blind(key: bytes, kind: str, *parts: str) -> bytes:
    fields = pack(kind.encode(), *(part.encode() for part in parts))
    return hashlib.blake2b(fields, key=key, digest_size=16, person=b"sv1.blind").digest()
