"""Events that expire before their session: their keys are destroyed and their bytes go, hour by hour.

Readers do not wait for this: the number of an epoch says when it is over. A hold keeps the keys, and a
minimum of the session does too, until it is over; then the next sweep takes them. What was made from such
events goes with them (`below`), and one that is kept keeps the keys that its own hangs on.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from vault.erasure import facts
from vault.erasure.below import BelowEvents, Events
from vault.erasure.fence import SESSION, keys_of, stored_session
from vault.erasure.retract import empty, finish
from vault.errors import Conflict
from vault.model import uuid7
from vault.policy.epochs import event_epoch, hour_now
from vault.policy.plan import Item
from vault.ports.keys import Doomed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vault.erasure.service import Parts
    from vault.erasure.watch import Watch
    from vault.ports.keys import Epoch
    from vault.ports.records import Reader, Transaction
    from vault.sealing.uses import TenantKeys

#: Epochs that one transaction closes.
BATCH: Final = 200
#: The type of the entry in the audit trail that says how many went.
EXPIRED: Final = "events.expired"


def expire(parts: Parts, watch: Watch, tenant_id: bytes | None = None) -> dict[bytes, int]:
    """Destroy the keys of what is over, and delete its bytes; how many epochs went, by tenant.

    Raises:
        Fenced: another process took the sweep over.
        ClockAnomaly: the clock jumped meanwhile.
    """
    found: dict[bytes, list[Epoch]] = {}
    for epoch in parts.store.epochs_due(hour_now(parts.log.clock.now_us())):
        if tenant_id in {None, epoch.tenant_id}:
            found.setdefault(epoch.tenant_id, []).append(epoch)
    gone = {}
    for one, epochs in found.items():
        tenant = parts.log.keys.tenant_by_id(one)
        if tenant is None:
            continue
        went = 0
        for start in range(0, len(epochs), BATCH):
            parts.log.records.transact(watch.check)
            below = BelowEvents(parts=parts, tenant=tenant, guard=watch.check)
            went += _closed(parts, below, epochs[start : start + BATCH])
        if went:
            parts.trail.write(tenant, EXPIRED, b"", b"", {"epochs": went})
            gone[one] = went
    return gone


def _closed(parts: Parts, below: BelowEvents, epochs: Sequence[Epoch]) -> int:
    operation, now_us, tenant = uuid7(), parts.log.clock.now_us(), below.tenant
    with parts.log.records.snapshot() as reader:
        doomed = list(_doomed(parts, reader, tenant, epochs, now_us))
    try:
        kept = below.erase(_events(doomed))
    except Conflict:
        return 0  # a person's request was faster; the next sweep looks again
    doomed = [one for one in doomed if (one.scope, event_epoch(one.epoch or 0)) not in kept]
    with parts.log.records.snapshot() as reader:
        more = {one.session_id: below.tags(reader, [one]) for one in _events(doomed)}
    doomed = [one._replace(tags=one.tags | more[one.scope]) for one in doomed]
    condemned = parts.store.condemn(operation, tenant.tenant_id, doomed, now_us)
    closed = [one for one in doomed if one.scope not in condemned.held]
    if not closed:
        return 0
    parts.log.keys.forget_scope(*{one.scope for one in closed})
    close(parts, tenant, [(one.scope, one.epoch or 0) for one in closed])
    below.erase_late(_events(closed))
    parts.store.destroy(operation)
    return len(closed)


def _events(doomed: Sequence[Doomed]) -> list[Events]:
    """The events of some epochs, by session."""
    numbers: dict[bytes, set[int]] = {}
    for one in doomed:
        numbers.setdefault(one.scope, set()).add(event_epoch(one.epoch or 0))
    return [Events(session_id, some.__contains__) for session_id, some in numbers.items()]


def _doomed(
    parts: Parts, reader: Reader, tenant: TenantKeys, epochs: Sequence[Epoch], now_us: int
) -> Iterator[Doomed]:
    """What may go now: not what a minimum keeps, and not of the vault's own log."""
    for session_id, some in groupby(sorted(epochs), itemgetter(0)):
        decision = facts.decision_of(reader, tenant.tenant_id, session_id, now_us)
        if decision is not None and decision.min_until_us > now_us:
            continue
        of_session = list(some)
        if of_session[0].owner == parts.spared(tenant):
            continue
        item = Item(session_id, SESSION, of_session[0].owner, "erase", "root", session_id, 0, 0)
        tags = facts.tags_of(reader, tenant, [item])[session_id]
        # The number that events have too: so it stays destroyed when the session's keys are replaced.
        numbers = dict.fromkeys(
            number for one in of_session for number in (event_epoch(one.epoch), one.epoch)
        )
        yield from (Doomed("epoch", session_id, number, tags) for number in numbers)


def close(parts: Parts, tenant: TenantKeys, epochs: Sequence[tuple[bytes, int]]) -> None:
    """Delete the bytes of some epochs whose keys are condemned; doing it twice is harmless."""
    files: list[bytes] = []

    def work(transaction: Transaction) -> None:
        files.clear()
        for session_id, number in epochs:
            row = stored_session(transaction, tenant, session_id)
            keys = None if row is None else keys_of(parts.log, tenant, row)
            if row is None or keys is None:
                continue  # it went as a whole, or is told of by `verify`
            epoch = event_epoch(number)
            place = {"session_no": row.no, "low": epoch, "high": epoch + 1}
            files.extend(empty(transaction, keys, row, list(transaction.scan("blobs_of_epochs", **place))))

    parts.log.records.transact(work)
    finish(parts, files)


def close_interrupted(parts: Parts, operation: bytes) -> None:
    """Delete the bytes of the epochs that an operation condemned before it was cut off."""
    for tenant_id, some in groupby(
        sorted(parts.store.epochs_of_operation(operation), key=itemgetter(3)), itemgetter(3)
    ):
        tenant = parts.log.keys.tenant_by_id(tenant_id)
        if tenant is not None:
            epochs = list(some)
            close(parts, tenant, [(one.session_id, one.epoch) for one in epochs])
            doomed = [Doomed("epoch", one.session_id, one.epoch, frozenset()) for one in epochs]
            BelowEvents(parts=parts, tenant=tenant).erase_late(_events(doomed))
