"""Appending: what was prepared outside goes in with one compare-and-set of the session's head.

The order of a session is decided in ``_Append._advance`` and nowhere else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from vault.encoding import json_value
from vault.errors import Conflict, InvalidInput, LimitExceeded, NotFound, SessionEnded, Tampered
from vault.model import (
    BATCH_BYTES_MAX,
    BATCH_MAX,
    EVENT_TYPES_MAX,
    EVENTS_MAX,
    LEVELS,
    Event,
    uuid7,
)
from vault.ports.records import EventRow, RunRow, SessionRow
from vault.sealing import rows
from vault.sealing.payload import unseal
from vault.sessions.log import (
    JSON,
    RAW,
    Log,
    Tails,
    check_event,
    decode_tails,
    epoch_keys,
    hour_of,
    make_event,
    sealed_body,
    verified_session,
)
from vault.sessions.prepare import prepare, repeat_of
from vault.sessions.runs import kept_count
from vault.sessions.witness import head_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vault.access.door import Grant
    from vault.model import NewEvent
    from vault.ports.records import BlobRow, Transaction
    from vault.sealing.keys import EpochKeys
    from vault.sessions.prepare import Prepared


def append(
    log: Log, grant: Grant, session: SessionRow, events: Sequence[NewEvent], expect_head: int | None
) -> list[Event]:
    """Append events in one transaction: all of them or none.

    Args:
        log: the parts.
        grant: leave to append.
        session: the session as it was when opened; only its identity and epoch are used.
        events: 1 to ``BATCH_MAX`` of them.
        expect_head: sequence number of the last event that the writer knows; None to append wherever the
            log is by now.

    Returns:
        The events as stored. One whose id is stored already with the same content is that stored event.

    Raises:
        InvalidInput: something cannot be stored as given.
        Conflict: an id is stored with other content, or the log has moved past ``expect_head``.
        SessionEnded: the session takes no more events.
    """
    if len(events) > BATCH_MAX:
        raise LimitExceeded(f"a batch holds at most {BATCH_MAX} events; split it")
    if expect_head is not None and (isinstance(expect_head, bool) or not isinstance(expect_head, int)):
        raise InvalidInput("expect_head is the number of the last event that the writer knows; 0 for none")
    given = [new.event_id for new in events if new.event_id is not None]
    if len(given) != len(set(given)):
        raise InvalidInput("the same event id stands twice in one batch; give each event its own")
    keys = epoch_keys(log, grant, session.session_id, session.epoch)
    fresh: dict[bytes, BlobRow] = {}
    prepared = [prepare(log, session, keys, new, fresh) for new in events]
    if sum(len(one.body) for one in prepared) > BATCH_BYTES_MAX:
        raise LimitExceeded(
            f"the payloads of a batch hold at most {BATCH_BYTES_MAX} bytes together; split it"
        )
    work = _Append(log, grant, session, keys, prepared, expect_head)
    result = log.records.transact(work.run)
    if work.head is not None:
        log.witness.saw([head_of(work.head)])
        log.appended(session.session_id, work.added)
    return result


def end(log: Log, grant: Grant, session_id: bytes) -> SessionRow:
    """End a session: it stays readable and takes no more events. Ending it twice is harmless."""

    def work(transaction: Transaction) -> SessionRow:
        row = verified_session(log, grant, transaction, session_id)
        if row.state != "active":
            return row
        keys = epoch_keys(log, grant, session_id, row.epoch)
        now = max(log.clock.now_us(), row.updated_us)
        ended = row._replace(state="ended", version=row.version + 1, ended_us=now)
        ended = ended._replace(mac=rows.session_mac(keys.mac, ended))
        if not transaction.move_session(ended, row):
            raise Conflict("the session changed while it was being ended; try again")
        transaction.heads[session_id] = ended
        return ended

    row = log.records.transact(work)
    log.witness.saw([head_of(row)])
    log.appended(session_id, 0)
    return row


class _Append:
    """The work of one append inside the write transaction."""

    def __init__(
        self,
        log: Log,
        grant: Grant,
        session: SessionRow,
        keys: EpochKeys,
        prepared: list[Prepared],
        expect_head: int | None,
    ) -> None:
        self._log, self._grant, self._session = log, grant, session
        self._keys, self._prepared, self._expect_head = keys, prepared, expect_head
        self.head: SessionRow | None = None
        self.added = 0

    def run(self, transaction: Transaction) -> list[Event]:
        session_id = self._session.session_id
        # Whether a writer is behind is told by the stored head, never by this process's view of it.
        row = transaction.known(session_id) if self._expect_head is None else None
        if row is None or row.tenant_id != self._grant.tenant.tenant_id or row.owner != self._grant.owner:
            row = verified_session(self._log, self._grant, transaction, session_id)
        placed = [self._place(transaction, prepared) for prepared in self._prepared]
        result = self._advance(transaction, row, placed)
        if result is None:
            # The process's view was behind another process's commit. This transaction holds the write
            # lock, so the row read now cannot move again: one more round does it.
            row = verified_session(self._log, self._grant, transaction, session_id)
            result = self._advance(transaction, row, placed)
        if result is None:
            raise Tampered("the database does not take a session's new head: its rules were changed")
        return result

    def _place(self, transaction: Transaction, prepared: Prepared) -> BlobRow:
        blob = prepared.blob
        if blob.no or not blob.content_id:
            return blob  # a repeat that was found before, or short enough to stand beside its event
        repeat = repeat_of(transaction, self._session, self._keys, blob.content_id)
        return repeat or blob._replace(no=transaction.add_blob(blob))

    def _advance(
        self, transaction: Transaction, row: SessionRow, placed: list[BlobRow]
    ) -> list[Event] | None:
        """Append to the log as ``row`` states it; None when the stored row is another by now."""
        stored = self._stored(transaction, placed)
        if all(event is not None for event in stored):
            return [event for event in stored if event is not None]
        self._refuse(row)
        tails, chain, seq = decode_tails(row.tails), row.head_chain, row.head_seq
        now = max(self._log.clock.now_us(), row.updated_us)
        new_rows, result = [], []
        runs: dict[bytes, int] = {}  # counts of runs that are left, written only once the head has moved
        for prepared, blob, known in zip(self._prepared, placed, stored, strict=True):
            if known is not None:
                result.append(known)
                continue
            seq += 1
            tails = self._counted(transaction, row, tails, prepared, runs)
            event = self._event_row(row, prepared, blob, seq, now, tails)
            header = rows.event_header(row.session_id, event)
            chain = rows.event_chain(chain, header, event.salt)
            mac = rows.event_mac(self._keys.mac, header, event.salt, chain)
            event = EventRow(*event[:-2], chain, mac)
            new_rows.append(event)
            result.append(_made(row.session_id, event, prepared))
        head = row._replace(
            version=row.version + 1,
            head_seq=seq,
            head_chain=chain,
            tails=tails.encoded(),
            updated_us=now,
            used_hour=hour_of(now),
        )
        head = head._replace(mac=rows.session_mac(self._keys.mac, head))
        if not transaction.move_session(head, row):
            return None
        for run_id, count in runs.items():
            kept = RunRow(row.no, run_id, count, b"")
            transaction.keep_run(kept._replace(mac=rows.run_mac(self._keys.mac, row.session_id, kept)))
        for event in new_rows:
            transaction.add_event(event)
        transaction.heads[row.session_id] = self.head = head
        self.added = len(new_rows)
        return result

    def _refuse(self, row: SessionRow) -> None:
        if row.state != "active":
            raise SessionEnded if row.state == "ended" else NotFound("there is no such session")
        if self._expect_head is not None and self._expect_head != row.head_seq:
            raise Conflict(
                f"the session's last event is number {row.head_seq}, not {self._expect_head}; read on first"
            )
        if row.head_seq + len(self._prepared) > EVENTS_MAX:
            raise LimitExceeded(f"a session holds at most {EVENTS_MAX} events; go on in a new one")

    def _event_row(
        self, row: SessionRow, prepared: Prepared, blob: BlobRow, seq: int, now: int, tails: Tails
    ) -> EventRow:
        new, given = prepared.new, prepared.event_id is not None
        return EventRow(
            row.no,
            seq,
            prepared.event_id or uuid7()[:-4] + seq.to_bytes(4),
            int(given),
            new.type,
            LEVELS.index(new.level),
            now,
            prepared.run_id,
            row.epoch,
            prepared.content,
            tails.types[new.type],
            tails.run_count if prepared.run_id else 0,
            os.urandom(16),
            prepared.sealed_meta,
            None if blob.no else blob.body,
            blob.no or None,
            blob.address,
            blob.size,
            b"",  # chain and MAC cover all the others
            b"",
        )

    def _counted(
        self,
        transaction: Transaction,
        row: SessionRow,
        tails: Tails,
        prepared: Prepared,
        runs: dict[bytes, int],
    ) -> Tails:
        """The counts with one more event; the count of a run that is left goes to ``runs``."""
        types = tails.types
        types[prepared.new.type] = types.get(prepared.new.type, 0) + 1
        if len(types) > EVENT_TYPES_MAX:
            raise LimitExceeded(f"a session holds at most {EVENT_TYPES_MAX} different event types; use fewer")
        if prepared.run_id is None:
            return tails
        count, start, kept = tails.run_count, tails.run_from, tails.kept
        if prepared.run_id != tails.run_id:
            if tails.run_id:
                runs[tails.run_id] = count
                kept += count - start
            known = runs.get(prepared.run_id)
            count = kept_count(transaction, self._keys, row, prepared.run_id) if known is None else known
            start = count
        return Tails(types, prepared.run_id, count + 1, start, kept)

    def _stored(self, transaction: Transaction, placed: list[BlobRow]) -> list[Event | None]:
        """For each event with a given id: the stored event of that id, if it says the same."""
        found: list[Event | None] = []
        for prepared, blob in zip(self._prepared, placed, strict=True):
            stored = None
            if prepared.event_id is not None:
                stored = transaction.event(self._session.no, prepared.event_id)
            found.append(self._same(stored, prepared, blob) if stored else None)
        return found

    def _same(self, stored: EventRow, prepared: Prepared, blob: BlobRow) -> Event:
        check_event(self._keys, self._session.session_id, stored)
        if stored.event_id != prepared.event_id:
            raise Tampered("the database answered with another event")
        same = (
            (stored.type, stored.run_id, stored.content)
            == (prepared.new.type, prepared.run_id, prepared.content)
            and LEVELS[stored.level] == prepared.new.level
            and _meta(self._keys, stored) == prepared.meta
        )
        # Longer repeats share their blob: an equal address is equal content. Short ones are opened.
        if same and stored.blob_no is None:
            context = self._keys.context(b"payload")
            same = prepared.body == unseal(self._keys.payload, context, sealed_body(self._log, stored))
        elif same:
            same = stored.address == blob.address
        if not same:
            raise Conflict("this event id is stored already with other content; use a new id")
        # Built from what was given, which is the same: a large payload is not read inside the transaction.
        return _made(self._session.session_id, stored, prepared)


def _made(session_id: bytes, row: EventRow, prepared: Prepared) -> Event:
    raw = prepared.body if prepared.content == RAW else None
    payload = prepared.new.payload if prepared.content == JSON else None
    return make_event(session_id, row, prepared.meta, payload, raw)


def _meta(keys: EpochKeys, row: EventRow) -> dict[str, Any]:
    if row.meta is None:
        return {}
    opened: dict[str, Any] = json_value(unseal(keys.payload, keys.context(b"meta"), row.meta))
    return opened
