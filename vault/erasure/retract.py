"""Erasing single events while their session lives on: the bytes go, the fact that something was there stays.

A whole epoch goes with its key, which is condemned first: from then on nothing is read or written under it,
and whether a hold stands against it is decided in that transaction. Single events keep their epoch's key;
holds are looked at right before, and again inside the transaction that deletes the bytes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from vault.erasure import facts
from vault.erasure.below import BelowEvents, Events
from vault.erasure.execute import fingerprint_of
from vault.erasure.fence import SESSION
from vault.errors import Conflict, InvalidInput, SessionEnded, StorageUnavailable, Tampered
from vault.model import BATCH_MAX, NewEvent, uuid7
from vault.policy.epochs import EPOCH_MAX, event_epoch, generation_of, generation_range
from vault.policy.plan import Item
from vault.ports.keys import Doomed
from vault.ports.records import BlobRow
from vault.sealing import rows
from vault.sealing.notes import Gone
from vault.sealing.uses import generation_name
from vault.sessions.append import append
from vault.sessions.log import RETRACTED, epoch_keys
from vault.sessions.place import locate
from vault.sessions.prepare import CONTENT_ID_BYTES
from vault.sessions.read import retracted_of, verified_view
from vault.sessions.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vault.access.door import Grant
    from vault.erasure.service import Parts
    from vault.model import Event
    from vault.ports.records import EventRow, Reader, SessionRow, Transaction
    from vault.sealing.uses import EpochKeys
    from vault.sessions.log import Retracted
    from vault.sessions.read import View

#: How often a write-ahead log is tried that a reader still needs, and how long in between.
_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.05
_KEPT: Final = (
    "a legal hold or a statutory minimum keeps what was made from these events, and so them; erase them when "
    "it is over"
)
_HELD: Final = "a legal hold keeps this session; nothing of it can be erased before that is lifted"


def retract(
    parts: Parts,
    grant: Grant,
    session: SessionRow,
    events: Sequence[str],
    epochs: Sequence[int],
    also: Sequence[NewEvent],
) -> list[Event]:
    """Erase events and whole epochs of a session; what was appended comes back.

    Raises:
        As ``Session.retract``.
    """
    if len(events) > BATCH_MAX:
        raise InvalidInput(f"one call erases at most {BATCH_MAX} events; erase them in several")
    for epoch in epochs:
        if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 < epoch <= EPOCH_MAX:
            raise InvalidInput("this epoch goes only with its session; give the number of another one")
    log, session_id = parts.log, session.session_id
    with verified_view(log, grant, session_id) as found:
        if also and found.row.state != "active":
            raise SessionEnded
        known = retracted_of(log, found)
        going = _own(session_id, [locate(found, one) for one in dict.fromkeys(events)])
        named = [row for row in going if not known.takes(row)]
        fresh = [epoch for epoch in dict.fromkeys(epochs) if epoch not in known.epochs]
        tags = _tags(grant, found.reader, session_id)
        _refuse_minimum(parts, grant, found.reader, session_id)
    _refuse_held(parts, grant, tags)
    operation, below = uuid7(), BelowEvents(parts=parts, tenant=grant.tenant, grant=grant)
    made_from = [Events(session_id, lambda epoch: generation_of(epoch) in fresh)] if fresh else []
    if fresh:
        tags = _without_what_came_from(parts, below, made_from, tags)
        _condemn(parts, grant, operation, session_id, fresh, tags)
    work = _Deletion(parts, grant, session, tags, named, fresh, known)
    told = [*also]
    if named or fresh:
        told.append(
            NewEvent(type=RETRACTED, payload={"epochs": fresh, "events": sorted(row.seq for row in named)})
        )
    result = append(log, grant, session, told, Terms(posted=True, retracting=work.run)) if told else []
    if fresh:
        live = {generation_of(epoch) for epoch in parts.store.epochs_of(session_id)}
        if again := [one for one in fresh if one in live]:
            # What was written until the fact, which is erased too, made another key.
            _condemn(parts, grant, operation, session_id, again, tags)
        below.erase_late(made_from)
        parts.store.destroy(operation)
    finish(parts, work.files)
    return result


def _without_what_came_from(
    parts: Parts, below: BelowEvents, events: Sequence[Events], tags: frozenset[bytes]
) -> frozenset[bytes]:
    """Erase what came from whole epochs that go; what a hold may name then to keep their keys.

    Raises:
        Conflict: some of it is kept, and with it what its key hangs on.
    """
    if below.erase(events, all_or_none=True):
        raise Conflict(_KEPT)
    with parts.log.records.snapshot() as reader:
        return tags | below.tags(reader, events)


def finish(parts: Parts, files: Sequence[bytes]) -> None:
    """Delete the files of what was emptied, and leave nothing of it in the write-ahead log."""
    for address in files:
        _delete_file(parts, address)
    for _ in range(_ATTEMPTS):
        if parts.log.records.truncate():
            break
        parts.log.records.wait_commit(parts.log.records.commits(), _PAUSE_SECONDS)  # somebody still reads


class _Deletion:
    """What is done inside the transaction that appends the fact."""

    def __init__(
        self,
        parts: Parts,
        grant: Grant,
        session: SessionRow,
        tags: frozenset[bytes],
        named: Sequence[EventRow],
        epochs: Sequence[int],
        known: Retracted,
    ) -> None:
        self._parts, self._grant, self._session, self._tags = parts, grant, session, tags
        self._named, self._epochs = named, epochs
        self._gone = known.events.union(row.seq for row in named)
        self.files: list[bytes] = []

    def run(self, transaction: Transaction, head: SessionRow) -> None:
        _refuse_held(self._parts, self._grant, self._tags)
        session_no = self._session.no
        blobs = named_by_none(transaction, session_no, self._named, self._gone)
        for generation in self._epochs:
            low, high = generation_range(generation)
            blobs += transaction.scan("blobs_of_epochs", session_no=session_no, low=low, high=high)
        keys = epoch_keys(self._parts.log, self._grant, head.session_id, head.epoch)
        self.files += empty(transaction, keys, head, blobs)


def named_by_none(
    transaction: Transaction, session_no: int, events: Sequence[EventRow], gone: Collection[int]
) -> list[tuple[Any, ...]]:
    """The payloads of some events that no event names but those that are gone, to be emptied."""
    blobs: list[tuple[Any, ...]] = []
    for number in dict.fromkeys(row.blob_no for row in events if row.blob_no is not None):
        naming = transaction.scan("events_of_blob", blob_no=number, session_no=session_no)
        if all(seq in gone for (seq,) in naming):
            blobs += transaction.scan("blob_to_blank", no=number, session_no=session_no)
    return blobs


def empty(
    transaction: Transaction, keys: EpochKeys, session: SessionRow, blobs: Sequence[tuple[Any, ...]]
) -> list[bytes]:
    """Empty the rows of some blobs of a session; the addresses of those that stand in the blob area."""
    files = []
    for number, epoch, address, size, in_area in blobs:
        # Under another name, so that nothing is taken for a repeat of what is gone.
        row = BlobRow(number, session.no, epoch, os.urandom(CONTENT_ID_BYTES), address, size, b"", b"")
        mac = rows.blob_mac(keys.mac, session.session_id, row)
        emptied = {"emptied": b"", "content_id": row.content_id, "mac": mac}
        if transaction.change("blank_blob", no=number, session_no=session.no, **emptied) != 1:
            raise Tampered("the database does not give a payload up: its rules were changed")
        if in_area:
            files.append(address)
    return files


def _own(session_id: bytes, located: Sequence[tuple[View, EventRow]]) -> list[EventRow]:
    found = []
    for view, row in located:
        if view.row.session_id != session_id:
            raise InvalidInput("this event is of the session that this one was forked from; erase it there")
        if not row.epoch:
            raise InvalidInput("this event lives as long as its session; erase the session instead")
        found.append(row)
    return found


def _tags(grant: Grant, reader: Reader, session_id: bytes) -> frozenset[bytes]:
    item = Item(session_id, SESSION, grant.owner, "erase", "root", session_id, 0, 0)
    return facts.tags_of(reader, grant.tenant, [item])[session_id]


def _refuse_minimum(parts: Parts, grant: Grant, reader: Reader, session_id: bytes) -> None:
    decision = facts.decision_of(reader, grant.tenant.tenant_id, session_id, parts.log.clock.now_us())
    if decision is not None and decision.min_until_us > parts.log.clock.now_us():
        raise Conflict("a statutory minimum keeps this session; nothing of it can be erased before that ends")


def _refuse_held(parts: Parts, grant: Grant, tags: frozenset[bytes]) -> None:
    if parts.store.held(grant.tenant.tenant_id, sorted(tags)):
        raise Conflict(_HELD)


def _condemn(
    parts: Parts,
    grant: Grant,
    operation: bytes,
    session_id: bytes,
    epochs: Sequence[int],
    tags: frozenset[bytes],
) -> None:
    doomed = []
    for generation in epochs:
        low, high = generation_range(generation)
        # Its first number also when there is no such key: nothing more is written under the generation.
        live = parts.store.epochs_of(session_id)
        numbers = {low, *(number for number in live if low <= event_epoch(number) < high)}
        doomed += [Doomed("epoch", session_id, epoch, tags) for epoch in sorted(numbers)]
        doomed.append(Doomed("epoch", generation_name(session_id, generation), None, tags))
    now_us = parts.log.clock.now_us()
    condemned = parts.store.condemn(operation, grant.tenant.tenant_id, doomed, now_us)
    if condemned.held:
        raise Conflict(_HELD)
    parts.log.keys.forget_scope(session_id)
    # In the ledger as well, so that no backup of both databases brings the epoch back.
    print_ = fingerprint_of(condemned.fingerprints.get(session_id, ()))
    parts.execution.record([Gone(generation_name(session_id, one), print_) for one in epochs])


def _delete_file(parts: Parts, address: bytes) -> None:
    try:
        parts.log.blobs.delete(address)
    except StorageUnavailable:
        return  # nothing names it any more, so `fsck --remove` finds and deletes it
