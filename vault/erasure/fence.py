"""Fencing: from here on readers find nothing, and writers are refused; also of what a hold keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vault.errors import Erased, KeyUnavailable, Tampered
from vault.policy import terms as retention
from vault.policy.lease import decode, encode, revoke
from vault.ports.records import SessionRow, is_sound
from vault.sealing import rows
from vault.sessions.log import due_hour, hour_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vault.policy.plan import Item
    from vault.ports.records import Reader, Transaction
    from vault.sealing.uses import EpochKeys, TenantKeys
    from vault.sessions.log import Log

#: Sessions and items that one transaction fences: some 10 ms, so that a live writer waits no longer.
BATCH: Final = 100
SESSION: Final = "session"


def fence(log: Log, transaction: Transaction, tenant: TenantKeys, items: Iterable[Item]) -> None:
    """Fence some items; fencing one twice is harmless."""
    for item in items:
        if item.kind != SESSION:
            transaction.change("fence_item", item_id=item.id, tenant_id=tenant.tenant_id)
            continue
        row = stored_session(transaction, tenant, item.id)
        if row is None or row.state == "erasing":
            continue
        keys = keys_of(log, tenant, row)
        if keys is None:
            transaction.change("fence_session", session_id=item.id, tenant_id=tenant.tenant_id)
            continue
        lease = encode(revoke(decode(row.lease))) if row.lease else row.lease
        _move(transaction, keys, row, row._replace(state="erasing", lease=lease))


def restrict(
    log: Log, transaction: Transaction, tenant: TenantKeys, items: Iterable[Item], requested_us: int
) -> None:
    """Keep what a hold or a minimum keeps: for nobody to read, and due again once that is over.

    Args:
        log, transaction, tenant: the parts.
        items: what is kept, fenced or not.
        requested_us: when a person asked for the erasure; 0 when a policy did, so that it is hidden anyway.
    """
    hour = hour_of(log.clock.now_us())
    for item in items:
        if item.kind != SESSION:
            # It stays fenced: its row's MAC is under a key that is not needed to keep it from everybody.
            transaction.change("restrict_item", item_id=item.id, tenant_id=tenant.tenant_id, due_hour=hour)
            continue
        row = stored_session(transaction, tenant, item.id)
        keys = None if row is None else keys_of(log, tenant, row)
        if row is None or keys is None:
            continue
        after = row._replace(state="ended" if row.ended_us else "active")
        if requested_us:
            # Nobody can use it any more: it has ended, so a minimum that is counted from its end runs too.
            ended_us = row.ended_us or max(log.clock.now_us(), row.updated_us)
            after = after._replace(state="ended", ended_us=ended_us)
            terms = retention.decode(row.retention)
            terms = terms._replace(requested_us=terms.requested_us or requested_us)
            lease = encode(revoke(decode(row.lease))) if row.lease else row.lease
            after = after._replace(retention=retention.encode(terms), lease=lease)
            after = after._replace(due_hour=due_hour(after))
        if after != row:
            _move(transaction, keys, row, after)


def stored_session(transaction: Reader, tenant: TenantKeys, session_id: bytes) -> SessionRow | None:
    """The row of a session whoever owns it, not verified."""
    place = {"session_id": session_id, "tenant_id": tenant.tenant_id}
    found = next(transaction.scan("session_to_erase", **place), None)
    return None if found is None else SessionRow._make(found)


def keys_of(log: Log, tenant: TenantKeys, row: SessionRow) -> EpochKeys | None:
    """The keys of a session whose row verifies; None for one that does not, or has no key any more."""
    try:
        if not is_sound(row):
            return None
        keys = log.keys.epoch(tenant, row.owner, row.session_id, row.epoch)
        rows.check(rows.session_mac(keys.mac, row), row.mac, "a session's row")
    except (Tampered, KeyUnavailable, Erased):
        return None
    return keys


def _move(transaction: Transaction, keys: EpochKeys, before: SessionRow, after: SessionRow) -> None:
    after = after._replace(version=before.version + 1)
    after = after._replace(mac=rows.session_mac(keys.mac, after))
    if not transaction.move_session(after, before):
        raise Tampered("the database does not take a session's new state: its rules were changed")
    transaction.heads[after.session_id] = after
