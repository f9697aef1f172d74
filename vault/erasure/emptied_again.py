"""After a restore: single events that the ledger says were erased are erased again, before they are served.

Holds and minimums do not stand against it: those of a copy are as old as it is, and that an event was erased
says that none was in force by then. The fact bears the time of the session's last event, so that being erased
of again makes no session live longer, nor one visible again whose time is over.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

from vault.encoding import json_bytes
from vault.erasure.facts import owner_and_kind
from vault.erasure.fence import keys_of, stored_session
from vault.erasure.retract import empty, finish, named_by_none
from vault.errors import Tampered
from vault.model import LEVELS, NewEvent, uuid7
from vault.ports.records import EventRow, EventsQuery
from vault.sealing import rows
from vault.sealing.notes import Emptied, emptied_record, place_of
from vault.sealing.payload import seal
from vault.sessions.log import JSON, RETRACTED, check_event, decode_tails
from vault.sessions.read import View, retracted_of
from vault.sessions.witness import head_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vault.erasure.service import Parts
    from vault.ports.records import SessionRow, Transaction
    from vault.sealing.uses import EpochKeys, TenantKeys
    from vault.sessions.log import Log

#: Events that one transaction empties: the fact that names them is short enough to stand in its own row.
BATCH: Final = 100


def empty_again(parts: Parts, emptied: Mapping[bytes, bytes]) -> int:
    """Erase again the events that are there and were erased by the ledger; how many there were.

    Args:
        parts: of a vault that nobody else has open.
        emptied: by session, as `audit/anchor` has them.

    Raises:
        StorageUnavailable: the database did not take it.
    """
    done, files = 0, list[bytes]()
    for session_id, events in sorted(emptied.items()):
        with parts.log.records.snapshot() as reader:
            if next(reader.scan("whose", id=session_id), None) is None:
                continue
            tenant_id, _, _ = owner_and_kind(reader, session_id)
        tenant = parts.log.keys.tenant_by_id(tenant_id)
        if tenant is None:
            continue  # nothing of it opens, and `verify` says so
        records = list(Emptied(session_id, events).records())
        for start in range(0, len(records), BATCH):
            work = _Again(parts.log, tenant, session_id, records[start : start + BATCH])
            parts.log.records.transact(work.run)
            if work.head is not None:
                parts.log.witness.saw([head_of(work.head)])
                parts.log.appended(session_id, 1)
            done, files = done + work.events, files + work.files
    if done:
        finish(parts, files)
    return done


class _Again:
    """The work on some events of one session, in one transaction."""

    def __init__(self, log: Log, tenant: TenantKeys, session_id: bytes, records: Sequence[bytes]) -> None:
        self._log, self._tenant, self._session_id, self._records = log, tenant, session_id, records
        self.head: SessionRow | None = None
        self.events, self.files = 0, list[bytes]()

    def run(self, transaction: Transaction) -> None:
        self.head, self.events, self.files = None, 0, []
        row = stored_session(transaction, self._tenant, self._session_id)
        keys = None if row is None else keys_of(self._log, self._tenant, row)
        if row is None or keys is None or row.state == "erasing":
            return  # it goes as a whole, or is told of by `verify`
        view = View(reader=transaction, row=row, keys=keys, until=row.head_seq + 1)
        known = retracted_of(self._log, view)
        found = [event for one in self._records if (event := self._event(transaction, row, keys, one))]
        found = [event for event in found if event.epoch and not known.takes(event)]
        if not found:
            return
        gone = known.events.union(event.seq for event in found)
        blobs = named_by_none(transaction, row.no, found, gone)
        self.files = empty(transaction, keys, row, blobs)
        self.head = self._fact(transaction, keys, row, sorted(event.seq for event in found))
        self.events = len(found)

    def _event(
        self, transaction: Transaction, row: SessionRow, keys: EpochKeys, record: bytes
    ) -> EventRow | None:
        """The event that a record means, if it is there: another may have its place after a restore."""
        seq = place_of(record)
        for event in transaction.events(EventsQuery(row.no, seq - 1, seq + 1, 1)):
            try:
                check_event(keys, row.session_id, event)
            except Tampered:
                return None  # nobody reads it, and `verify` says so
            if emptied_record(row.session_id, event.seq, event.event_id) == record:
                return event
        return None

    def _fact(
        self, transaction: Transaction, keys: EpochKeys, row: SessionRow, places: Sequence[int]
    ) -> SessionRow:
        """Append the fact that says which events are erased; the session's new head."""
        tails, seq = decode_tails(row.tails), row.head_seq + 1
        tails.types[RETRACTED] = tails.types.get(RETRACTED, 0) + 1
        new = NewEvent(type=RETRACTED, payload={"epochs": [], "events": list(places)})
        body = seal(keys.payload, keys.context(b"payload"), json_bytes(new.payload), self._log.sealing)
        event = EventRow(
            session_no=row.no,
            seq=seq,
            event_id=uuid7()[:-4] + seq.to_bytes(4),
            given_id=0,
            type=RETRACTED,
            level=LEVELS.index(self._log.levels.stored_at(RETRACTED, new.level)),
            recorded_us=row.updated_us,
            run_id=None,
            epoch=keys.epoch,
            content=JSON,
            type_nth=tails.types[RETRACTED],
            run_nth=0,
            salt=os.urandom(16),
            meta=None,
            body=body,
            blob_no=None,
            address=hashlib.sha256(body).digest(),
            size=len(body),
            ref=None,
            chain=b"",
            mac=b"",
        )
        header = rows.event_header(row.session_id, event)
        chain = rows.event_chain(row.head_chain, header, event.salt)
        event = event._replace(chain=chain, mac=rows.event_mac(keys.mac, header, event.salt, chain))
        head = row._replace(version=row.version + 1, head_seq=seq, head_chain=chain, tails=tails.encoded())
        head = head._replace(mac=rows.session_mac(keys.mac, head))
        if not transaction.move_session(head, row):
            raise Tampered("the database does not take a session's new head: its rules were changed")
        transaction.add_event(event)
        transaction.heads[row.session_id] = head
        return head
