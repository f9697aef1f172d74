"""Wrapping everything anew: under another root key, and at a barrier under fresh tenant keys too.

A barrier makes fresh keys on the whole path from the root to what was destroyed. Wrapping the same tenant
key under another root is not enough: an old copy of keys.db holds the wraps of destroyed keys, and today's
tenant key would open them.

Every step is one transaction after which the vault is whole: first each tenant, under the root of then, last
what hangs under the root, together with the record that says which root that is. Cut off in between, the
vault is as it was or a step further, and doing it again from the start does no harm.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

from vault.errors import Conflict, Tampered
from vault.sealing.top import TopKeys
from vault.sealing.wraps import KEY_BYTES, unwrap, wrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.ports.keys import KeyRow, KeyStore

    Progress = Callable[[int, int], None] | None

#: How often a tenant is begun anew because another barrier was faster.
_TRIES: Final = 3


class Rotation(TopKeys):
    """The keys of a vault on their way under other keys."""

    def __init__(self, vault_id: bytes, root: bytes, store: KeyStore, progress: Progress = None) -> None:
        """Nothing is changed yet.

        Args:
            vault_id: whose keys.
            root: the root key that opens them now.
            store: where they are.
            progress: told (keys wrapped anew, keys in all).
        """
        super().__init__(vault_id, root, store)
        self._progress = progress
        self._done, self._all = 0, 0

    def freshen(self) -> int:
        """Give every tenant a fresh wrapping key and wrap what is alive under it; how many keys.

        Raises:
            Tampered: a key does not open, so it would be lost; what is done until there stands.
            WrongKey: the root key is not this vault's.
        """
        self._top("vault")  # a wrong root is named before anything is touched
        self._all = sum(count.live for count in self._store.counts())
        tenants = [row.scope for row in self._store.rows_of(None) if row.purpose == "tenant"]
        self._adopt(tenants)
        return sum(map(self._freshened, tenants))

    def replace_root(self, root: bytes, record: tuple[bytes, bytes]) -> int:
        """Wrap what hangs under the root key under another, in one transaction; how many keys.

        Args:
            root: the new root key, stored durably where the new record says.
            record: the root record as it was read, and the new one.

        Raises:
            Conflict: another process replaced the root key first; nothing was changed.
            WrongKey: the root key is not this vault's.
        """
        self._top("vault")
        rows = list(self._store.rows_of(None))
        self._all = self._all or len(rows)
        made = {row.wrapped: self._moved(row, self._root, root) for row in rows}
        return self._store.rewrap(None, partial(self._again, made, self._root, root), record=record)

    def _freshened(self, tenant_id: bytes) -> int:
        for _ in range(_TRIES):
            row = self._store.get("tenant", tenant_id, 0, b"")
            if row is None:
                return 0  # it was erased meanwhile
            old, new = unwrap(self._root, row.wrapped, self._place(row)), os.urandom(KEY_BYTES)
            # Outside of the transaction, which keeps writers waiting; what comes meanwhile is done inside.
            made = {
                one.wrapped: self._moved(one, old, new)
                for one in self._store.rows_of(tenant_id)
                if one.purpose != "tenant"
            }
            made[row.wrapped] = wrap(self._root, new, self._place(row))
            try:
                return self._store.rewrap(tenant_id, partial(self._again, made, old, new), under=row)
            except Conflict:
                continue
        raise Conflict("another process wraps this vault's keys anew; wait for it, then try again")

    def _again(self, made: dict[bytes, bytes], old: bytes, new: bytes, row: KeyRow) -> bytes:
        return made.get(row.wrapped) or self._moved(row, old, new)

    def _moved(self, row: KeyRow, old: bytes, new: bytes) -> bytes:
        place = self._place(row)
        key = unwrap(old, row.wrapped, place)
        self._done += 1
        if self._progress is not None:
            self._progress(min(self._done, self._all), self._all)
        return wrap(new, key, place)

    def _adopt(self, tenants: list[bytes]) -> None:
        """Find whose the keys of older rows are, which do not say it: they open under one tenant's key."""
        unknown = {row.owner: row for row in self._store.rows_of(b"") if row.purpose == "epoch"}
        if not unknown:
            return
        wrappings = {}
        for tenant_id in tenants:
            row = self._store.get("tenant", tenant_id, 0, b"")
            if row is not None:
                wrappings[tenant_id] = unwrap(self._root, row.wrapped, self._place(row))
        for owner, row in unknown.items():
            self._store.adopt(owner, self._opener(row, wrappings))

    def _opener(self, row: KeyRow, wrappings: dict[bytes, bytes]) -> bytes:
        for tenant_id, wrapping in wrappings.items():
            try:
                unwrap(
                    wrapping, row.wrapped, self._context("epoch", tenant_id, row.owner, row.scope, row.epoch)
                )
            except Tampered:
                continue
            return tenant_id
        raise Tampered("a key in keys.db opens under no tenant's key; restore keys.db from its backup")
