"""The key hierarchy: root → vault and tenant keys → epoch keys → what is derived for use.

Every key below the root is random and stored wrapped (never derived from its parent: a derived key cannot
be destroyed). A wrap is Cobblestone-256 of the 32 bytes, its context naming purpose, vault, tenant, session,
epoch and version; an epoch key's context also carries the owner, so a skipped ownership check opens nothing.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from vault.encoding import pack, u64
from vault.errors import Conflict, Erased, KeyUnavailable, Tampered
from vault.policy.epochs import event_epoch, key_number, own_number
from vault.ports.keys import EXTERNAL, WHOLE, KeyRow
from vault.sealing import hanging
from vault.sealing.kept import ITEM, KeptKeys
from vault.sealing.top import TRIES, TopKeys
from vault.sealing.uses import EpochKeys, TenantKeys, blind_index, epoch_keys, grave_of, owner_index
from vault.sealing.wraps import KEY_BYTES, derive, unwrap, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vault.ports.keys import KeyStore
    from vault.sealing.kept import Place

_SAID: Final = {"epoch": "session", "item": "derived item"}


class KeyHierarchy(TopKeys):
    """The vault's keys, unwrapped when asked for and kept in memory until ``forget``."""

    def __init__(
        self, vault_id: bytes, root: bytes, store: KeyStore, reopen: Callable[[], bytes] | None = None
    ) -> None:
        """Hold the root key; nothing is read yet."""
        super().__init__(vault_id, root, store, reopen)
        self._tenants: dict[str, TenantKeys] = {}
        self._newest: dict[bytes, TenantKeys] = {}  # by id: callers may hold keys from before a barrier
        self.kept = KeptKeys(store)

    def tenant(self, name: str, *, create: bool) -> TenantKeys | None:
        """A tenant's keys; None when the tenant is not known and ``create`` is false."""
        known = self._tenants.get(name)
        if known is not None:
            return known
        found = self._load_tenant(
            blind_index(derive(self._vault(), b"tenant-index"), "tenant", name), create=create
        )
        if found is not None:
            with self._lock:
                self._tenants[name] = found
        return found

    def tenant_by_id(self, tenant_id: bytes) -> TenantKeys | None:
        """A tenant's keys by its pseudonym; only for verification, which has no principal."""
        return self._newest.get(tenant_id) or self._load_tenant(tenant_id, create=False)

    def create_epoch(
        self,
        tenant: TenantKeys,
        owner: bytes,
        session_id: bytes,
        epoch: int,
        *,
        instead_of: int | None = None,
    ) -> EpochKeys:
        """A fresh epoch key, durable before this returns, so no ciphertext is ever older than its key.

        ``instead_of``: the number of one whose place it takes. What derived items hang under stays the same
        then, so they neither go nor have to be opened.

        Raises:
            Erased: the session, or this epoch of it, was erased.
        """
        hanging_key = b""
        if instead_of is not None:
            hanging_key = self.epoch(tenant, owner, session_id, instead_of).wrapping
        place = (tenant.tenant_id, owner, session_id, epoch)
        key, seen = os.urandom(KEY_BYTES) + hanging_key, self.kept.mark()
        context = self._context("epoch", *place)

        def rows(wrapping: bytes) -> list[KeyRow]:
            return [_row("epoch", place, wrap(wrapping, key, context))]

        if not self._put(tenant, rows):  # another process made this epoch first: its key counts
            return self.epoch(tenant, owner, session_id, epoch)
        return self._remember(place, key, seen)

    def epoch(
        self,
        tenant: TenantKeys,
        owner: bytes,
        session_id: bytes,
        epoch: int,
        *,
        create: bool = False,
        again: bool = False,
    ) -> EpochKeys:
        """The keys of one epoch of a session, for this owner only; with ``create`` made now if it has none.

        ``again``: they were asked for a moment ago, for the same snapshot; it is not looked again whether
        another process has destroyed them.

        Raises:
            Erased: the key was destroyed, or is about to be.
            KeyUnavailable: no key for this session and owner in the key store.
            Tampered: the wrap was changed, or belongs to another session, owner, tenant or vault.
        """
        if not again:
            self.kept.refresh()
        try:
            return self._epoch(tenant, (tenant.tenant_id, owner, session_id, epoch))
        except KeyUnavailable:
            if create:
                return self.create_epoch(tenant, owner, session_id, epoch)
            raise

    def has_epoch(self, owner: bytes, session_id: bytes, epoch: int | None = None) -> bool:
        """Whether this owner's key of an epoch exists, or any: they outlive a row removed by a tamperer."""
        if epoch is None:
            return self._store.owns("epoch", session_id, owner)
        return self._store.get("epoch", session_id, epoch, owner) is not None

    def is_buried(self, owner: bytes, external: bytes) -> bool:
        """Whether this owner's session under an external id was erased."""
        return self._store.is_destroyed(EXTERNAL, grave_of(owner, external), WHOLE) is not None

    def create_item(
        self, tenant: TenantKeys, owner: bytes, item_id: bytes, hung: str, wrappings: Sequence[bytes]
    ) -> EpochKeys:
        """A fresh key of a derived item, hung under its sources; durable before this returns.

        Args:
            tenant: the tenant's keys.
            owner: whose item it is.
            item_id: 16 bytes.
            hung: ``any`` (gone with any source), ``last`` (gone with the last of them) or ``free``.
            wrappings: ``EpochKeys.wrapping`` of each source, in the order they are stored in.

        Raises:
            Erased: the item was erased.
            Conflict: the item has a key already.
            InvalidInput: unknown ``hung``, no source, or not a key; LimitExceeded: too many.
        """
        hanging.checked(hung, wrappings)
        if None in wrappings:
            raise KeyUnavailable("a source of this derived item has no key any more")
        key, seen, how = os.urandom(KEY_BYTES), self.kept.mark(), hung.encode()

        def rows(wrapping: bytes) -> list[KeyRow]:
            made = []
            for epoch, parent in enumerate(hanging.parents(hung, wrappings)):
                place = (tenant.tenant_id, owner, item_id, epoch)
                outer, inner = self._context("item", *place), self._context("item", *place, how)
                made.append(_row("item", place, hanging.hang(wrapping, parent or b"", key, outer, inner)))
            return made

        if not self._put(tenant, rows):
            raise Conflict("this derived item has a key already; make it under a new id")
        return self._remember((tenant.tenant_id, owner, item_id, ITEM), key, seen)

    def item(
        self, tenant: TenantKeys, owner: bytes, item_id: bytes, hung: str, wrappings: Sequence[bytes | None]
    ) -> EpochKeys:
        """The keys of a derived item, by those of its sources; None stands for a source whose key is gone.

        Raises:
            Erased: its key, or all that it hangs under, was destroyed.
            KeyUnavailable: it cannot be opened without the sources that are missing.
            Tampered: the wrap was changed, or is of another item, owner, tenant or sources.
        """
        hanging.checked(hung, wrappings)
        if hanging.is_gone(hung, wrappings):  # also when its key is still in memory
            raise KeyUnavailable("what this derived item was made from has no key any more")
        place, seen = (tenant.tenant_id, owner, item_id, ITEM), self.kept.mark()
        known = self.kept.get(place)
        if known is not None:
            return known
        parents = hanging.parents(hung, wrappings)
        key = self._opened(tenant, lambda keys: self._open_item(keys, owner, item_id, hung, parents))
        return self._remember(place, key, seen)

    def known_item(self, tenant: TenantKeys, owner: bytes, item_id: bytes) -> EpochKeys | None:
        """The keys of a derived item that were opened before and not dropped since; spares its sources'.

        Whoever asks for several looks once before (``kept.refresh``) whether others have destroyed some.
        """
        return self.kept.get((tenant.tenant_id, owner, item_id, ITEM))

    def operation_keys(self, tenant: TenantKeys) -> EpochKeys:
        """The keys that seal and authenticate what the vault notes about a tenant's erasures.

        From the index key, which stays: a barrier replaces the wrapping key.
        """
        place = pack(b"session-vault/1/operation", self._vault_id, tenant.tenant_id)
        return epoch_keys(derive(tenant.index, b"operations"), place)

    def forget_scope(self, *scopes: bytes) -> None:
        """Drop the keys of some sessions or items from memory, and of all items: they may hang on those."""
        self.kept.drop(scopes)

    def forget(self) -> None:
        """Drop every key from memory (as far as Python lets anyone: see SECURITY.md)."""
        self.kept.drop(None)
        with self._lock:
            self._tenants.clear()
            self._newest.clear()
            self._vault_key = None
            self._root = b""
        owner_index.cache_clear()  # its keys hold index keys

    def _load_tenant(self, scope: bytes, *, create: bool) -> TenantKeys | None:
        for last in TRIES:
            found, index_row = self._under_root("tenant", scope), self._store.get("index", scope, 0, b"")
            if found is None and index_row is not None:
                found = self._under_root("tenant", scope)  # another process made both between the looks
            if (found is None) != (index_row is None):
                raise Tampered("the key store holds only one of a tenant's two keys")
            if found is None or index_row is None:
                return self._create_tenant(scope) if create else None
            row, wrapping = found
            try:
                index = unwrap(wrapping, index_row.wrapped, self._place(index_row))
            except Tampered:
                if last or self._store.get("tenant", scope, 0, b"") == row:
                    raise  # else there was a barrier between the looks
            else:
                return self._took(TenantKeys(tenant_id=scope, wrapping=wrapping, index=index, row=index_row))
        raise AssertionError("unreachable: the last try returns or raises")

    def _create_tenant(self, scope: bytes) -> TenantKeys | None:
        wrapping, index = os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)
        for last in TRIES:
            vault_row, _ = self._top_row("vault")
            rows = [
                self._row("tenant", self._root, wrapping, scope),
                self._row("index", wrapping, index, scope),
            ]
            try:
                if not self._store.put(rows, under=vault_row):
                    return self._load_tenant(
                        scope, create=False
                    )  # another process made it first: its keys count
            except Conflict:
                if last:
                    raise  # else another process replaced the root key between the looks
            else:
                return self._took(TenantKeys(tenant_id=scope, wrapping=wrapping, index=index, row=rows[1]))
        raise AssertionError("unreachable: the last try returns or raises")

    def _took(self, tenant: TenantKeys) -> TenantKeys:
        with self._lock:
            self._newest[tenant.tenant_id] = tenant
        return tenant

    def _is_newer(self, tried: TenantKeys) -> bool:
        """Whether the tenant has another wrapping key by now than the one that was tried: after a barrier."""
        known = self._newest.get(tried.tenant_id)
        if known is None or known.wrapping == tried.wrapping:
            known = self._load_tenant(tried.tenant_id, create=False)
        return known is not None and known.wrapping != tried.wrapping

    def _put(self, tenant: TenantKeys, rows: Callable[[bytes], list[KeyRow]]) -> bool:
        """Store rows under the wrapping key that counts: under an older one they could never be opened."""
        for last in TRIES:
            newest = self._newest.get(tenant.tenant_id, tenant)
            try:
                return self._store.put(rows(newest.wrapping), under=newest.row)
            except Conflict:
                if last or not self._is_newer(newest):
                    raise
        raise AssertionError("unreachable: the last try returns or raises")

    def _opened(self, tenant: TenantKeys, work: Callable[[TenantKeys], bytes]) -> bytes:
        for last in TRIES:
            newest = self._newest.get(tenant.tenant_id, tenant)
            try:
                return work(newest)
            except Tampered:
                if last or not self._is_newer(newest):
                    raise
        raise AssertionError("unreachable: the last try returns or raises")

    def _epoch(self, tenant: TenantKeys, place: Place) -> EpochKeys:
        seen = self.kept.mark()
        return self.kept.get(place) or self._remember(place, self._open_epoch(tenant, place), seen)

    def _open_epoch(self, tenant: TenantKeys, place: Place) -> bytes:
        _, owner, session_id, epoch = place
        context = self._context("epoch", *place)

        def work(keys: TenantKeys) -> bytes:
            row = self._store.get("epoch", session_id, epoch, owner)
            if row is None:
                raise self._missing("epoch", session_id, epoch)
            return unwrap(keys.wrapping, row.wrapped, context)

        return self._opened(tenant, work)

    def _open_item(
        self,
        tenant: TenantKeys,
        owner: bytes,
        item_id: bytes,
        hung: str,
        parents: Sequence[bytes | None],
    ) -> bytes:
        refused: Tampered | None = None
        for epoch, parent in enumerate(parents):
            row = None if parent is None else self._store.get("item", item_id, epoch, owner)
            if parent is None or row is None:
                continue
            place = (tenant.tenant_id, owner, item_id, epoch)
            outer, inner = self._context("item", *place), self._context("item", *place, hung.encode())
            try:
                return hanging.unhang(tenant.wrapping, parent, row.wrapped, outer, inner)
            except Tampered as error:
                refused = error  # another of its rows may open: each holds the same key
        raise refused or self._missing("item", item_id, 0)

    def _sibling(self, place: Place, epoch: int) -> EpochKeys:
        """The keys of another event epoch of the same session."""
        tenant = self.tenant_by_id(place[0])
        if tenant is None:
            raise KeyUnavailable("the key store holds no key for this session's tenant")
        # Whoever asks has keys of this session that were looked at a moment ago, for the same page of a log.
        return self._epoch(tenant, (*place[:3], key_number(own_number(place[3]), epoch)))

    def _missing(self, purpose: str, scope: bytes, epoch: int) -> Erased | KeyUnavailable:
        if self._store.is_destroyed(purpose, scope, epoch):
            return Erased()
        return KeyUnavailable(f"the key store holds no key for this {_SAID[purpose]}")

    def _remember(self, place: Place, key: bytes, seen: int | None = None) -> EpochKeys:
        tenant_id, _, scope, epoch = place
        if epoch == ITEM:
            here = pack(b"session-vault/1/item", self._vault_id, tenant_id, scope)
        else:
            here = pack(b"session-vault/1/payload", self._vault_id, tenant_id, scope, u64(epoch))
        keys = epoch_keys(key[:KEY_BYTES], here)
        if epoch != ITEM:
            # A key that took another one's place keeps what derived items hang under.
            kept = key[KEY_BYTES:] or keys.wrapping
            sibling = partial(self._sibling, place)
            keys = replace(keys, epoch=event_epoch(epoch), sibling=sibling, wrapping=kept)
        self.kept.keep(place, keys, seen)
        return keys


def _row(purpose: str, place: Place, wrapped: bytes) -> KeyRow:
    tenant_id, owner, scope, epoch = place
    return KeyRow(
        purpose=purpose, scope=scope, epoch=epoch, owner=owner, wrapped=wrapped, tenant_id=tenant_id
    )
