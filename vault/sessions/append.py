"""Appending: what was prepared outside goes in with one compare-and-set of the session's head.

The order of a session is decided in ``_Append._advance`` and nowhere else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vault.errors import (
    Busy,
    Conflict,
    Erased,
    Fenced,
    InvalidInput,
    KeyUnavailable,
    LimitExceeded,
    NotFound,
    SessionEnded,
    Tampered,
)
from vault.model import (
    BATCH_MAX,
    EVENT_TYPES_MAX,
    EVENTS_MAX,
    LEVELS,
    Event,
    uuid7,
)
from vault.policy import effects
from vault.policy.epochs import epoch_of, is_over, key_number
from vault.policy.lease import check, decode, encode, refuse_outsider
from vault.ports.records import EventRow, RunRow, SessionRow
from vault.sealing import rows
from vault.sessions.amend import RULES_CHANGED
from vault.sessions.attempt import prepare_all, transacted
from vault.sessions.facts import counted, newest_facts
from vault.sessions.log import (
    RELABELLED,
    RETRACTED,
    Log,
    Tails,
    decode_tails,
    epoch_keys,
    hour_of,
    is_live,
    verified_session,
)
from vault.sessions.prepare import CHECKPOINT, repeat_of
from vault.sessions.read import View, retracted_of
from vault.sessions.refs import bucket_of
from vault.sessions.runs import kept_count
from vault.sessions.same import made_event, same_event
from vault.sessions.terms import Terms
from vault.sessions.witness import head_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vault.access.door import Grant
    from vault.model import NewEvent
    from vault.ports.records import BlobRow, Transaction
    from vault.sealing.uses import EpochKeys
    from vault.sessions.prepare import Prepared


_PLAIN = Terms()
#: How often events are prepared again because the session's keys were replaced.
_TRIES = 3
_OWN_FACTS = frozenset({RELABELLED, RETRACTED})
_GOING = "the session expired or was erased; stop writing"


class _Renewed(Exception):
    """The session's keys were replaced since it was looked up; its argument is the row as it is now."""


def append(
    log: Log, grant: Grant, session: SessionRow, events: Sequence[NewEvent], terms: Terms = _PLAIN
) -> list[Event]:
    """Append events in one transaction: all of them or none.

    Args:
        log: the parts.
        grant: leave to append.
        session: the session as it was when opened; only its identity and epoch are used.
        events: 1 to ``BATCH_MAX`` of them.
        terms: what the writer knows and holds.

    Returns:
        The events as stored. One whose id is stored already with the same content is that stored event.

    Raises:
        InvalidInput: something cannot be stored as given.
        Conflict: an id is stored with other content, the log has moved past ``expect_head``, or an effect's
            fact does not follow from those before it.
        SessionEnded: the session takes no more events.
        Fenced: the writer's run lost its lease.
        Busy: the writer has no run, and one is active.
        Erased: an event's epoch was, or the event of this id.
    """
    if not grant.own and any(new.type == CHECKPOINT for new in events):
        raise InvalidInput("a view's state is no checkpoint of the session; let a run of its owner write it")
    if terms.retracting is None and any(new.type in _OWN_FACTS for new in events):
        raise InvalidInput("this fact is written by what it says: use session.retract, or session.relabel")
    expect_head = terms.expect_head
    if len(events) > BATCH_MAX:
        raise LimitExceeded(f"a batch holds at most {BATCH_MAX} events; split it")
    if expect_head is not None and (isinstance(expect_head, bool) or not isinstance(expect_head, int)):
        raise InvalidInput("expect_head is the number of the last event that the writer knows; 0 for none")
    given = [new.event_id for new in events if new.event_id is not None]
    if len(given) != len(set(given)):
        raise InvalidInput("the same event id stands twice in one batch; give each event its own")
    session = log.renewed.get(session.session_id, session)
    for _ in range(_TRIES):
        try:
            return _append(log, grant, session, events, terms)
        except _Renewed as found:
            session = log.renewed[session.session_id] = found.args[0]
            if any(hasattr(new.raw, "read") for new in events):
                break  # what was read of a stream cannot be read again
    raise Conflict("the session was sealed anew at the same moment; append again")


def _append(
    log: Log, grant: Grant, session: SessionRow, events: Sequence[NewEvent], terms: Terms
) -> list[Event]:
    keys = _keys(log, grant, session, terms)
    prepared = prepare_all(log, grant, session, keys, events)
    work = _Append(log, grant, session, keys, prepared, terms)
    result = transacted(log, work.run, prepared)
    if work.head is not None:
        log.witness.saw([head_of(work.head)])
        log.appended(session.session_id, work.added)
    return result


def _keys(log: Log, grant: Grant, session: SessionRow, terms: Terms) -> EpochKeys:
    """The session's keys; a run whose session was erased meanwhile learns that it has to stop."""
    try:
        return epoch_keys(log, grant, session.session_id, session.epoch)
    except NotFound:
        if terms.holder is None:
            raise
        raise Fenced(_GOING) from None
    except KeyUnavailable:
        with log.records.snapshot() as reader:
            row = verified_session(log, grant, reader, session.session_id)
        if row.epoch == session.epoch:
            raise
        raise _Renewed(row) from None


class _Append:
    """The work of one append inside the write transaction."""

    def __init__(
        self,
        log: Log,
        grant: Grant,
        session: SessionRow,
        keys: EpochKeys,
        prepared: list[Prepared],
        terms: Terms,
    ) -> None:
        self._log, self._grant, self._session = log, grant, session
        self._keys, self._prepared, self._terms = keys, prepared, terms
        self._of_effects = any(one.new.type in effects.TYPES for one in prepared)
        self.head: SessionRow | None = None
        self.added = 0

    def run(self, transaction: Transaction) -> list[Event]:
        session_id = self._session.session_id
        # Whether a writer is behind, who holds the lease and what became of an effect is told by the stored
        # row, never by this process's view of it.
        terms = self._terms
        by_view = terms.lease is None and not self._of_effects
        row = seen = transaction.known(session_id) if by_view else None
        if row is not None and terms.expect_head not in {None, row.head_seq}:
            row = None  # a view that is the writer's own is either what is stored, or cannot be moved from
        whose = (self._grant.tenant.tenant_id, self._grant.owner, self._session.epoch)
        if row is None or (row.tenant_id, row.owner, row.epoch) != whose:
            row = verified_session(self._log, self._grant, transaction, session_id)
        self._refuse_erased()
        try:
            result = self._advance(transaction, row)
        except (Busy, Fenced):
            if row is not seen:
                raise
            result = None  # by this process's view; another one may have ended that run meanwhile
        if result is None:
            # The process's view was behind another process's commit. This transaction holds the write
            # lock, so the row read now cannot move again: one more round does it.
            row = verified_session(self._log, self._grant, transaction, session_id)
            result = self._advance(transaction, row)
        if result is None:
            raise Tampered(RULES_CHANGED)
        if self._terms.retracting is not None and self.head is not None:
            self._terms.retracting(transaction, self.head)
        return result

    def _refuse_erased(self) -> None:
        """Refuse what would be written under a key that is destroyed by now.

        Asked inside the transaction: whoever destroys the key of an epoch then waits for this, and erases
        what it writes too.
        """
        epochs = {one.epoch for one in self._prepared} | {epoch_of(one.new.epoch) for one in self._prepared}
        for epoch in epochs - {0}:
            number = key_number(self._session.epoch, epoch)
            if not self._log.keys.has_epoch(self._session.owner, self._session.session_id, number):
                raise Erased("this epoch of the session was erased; write under another one")

    def _place(self, transaction: Transaction, prepared: Prepared) -> BlobRow:
        """Where a payload stands: beside its event, as what it repeats, or in a row that is added later."""
        blob = prepared.blob
        if not prepared.repeats or (blob.no and not blob.epoch):
            return blob  # too short to be looked up, or a repeat that was found before
        repeat = repeat_of(transaction, self._session, self._keys, blob.epoch, blob.content_id)
        if blob.no and repeat is None:
            raise Conflict("what this event repeats was erased at the same moment; append it again")
        return repeat or blob

    def _advance(self, transaction: Transaction, row: SessionRow) -> list[Event] | None:
        """Append to the log as ``row`` states it; None when the stored row is another by now."""
        if row.epoch != self._session.epoch:
            raise _Renewed(row)
        stored = self._stored(transaction, row)
        if all(event is not None for event in stored):
            return [event for event in stored if event is not None]
        lease = self._refuse(row)
        if self._of_effects:
            self._check_effects(transaction, row, stored)
        tails, chain, seq = decode_tails(row.tails), row.head_chain, row.head_seq
        now = max(self._log.clock.now_us(), row.updated_us)
        new_rows: list[tuple[EventRow, BlobRow, tuple[bytes, ...]]] = []
        result = []
        runs: dict[bytes, int] = {}  # counts of runs that are left, written only once the head has moved
        for prepared, known in zip(self._prepared, stored, strict=True):
            if known is not None:
                result.append(known)
                continue
            seq, blob = seq + 1, self._place(transaction, prepared)
            tails = self._counted(transaction, row, tails, prepared, runs)
            event = self._event_row(row, prepared, blob, seq, now, tails)
            header = rows.event_header(row.session_id, event)
            chain = rows.event_chain(chain, header, event.salt)
            mac = rows.event_mac(self._keys.mac, header, event.salt, chain)
            event = EventRow(*event[:-2], chain, mac)
            new_rows.append((event, blob, prepared.tags))
            result.append(made_event(row.session_id, event, prepared))
        head = row._replace(
            version=row.version + 1,
            head_seq=seq,
            head_chain=chain,
            tails=tails.encoded(),
            updated_us=now,
            used_hour=hour_of(now),
            lease=lease,
        )
        head = head._replace(mac=rows.session_mac(self._keys.mac, head))
        if not transaction.move_session(head, row):
            return None
        for run_id, count in runs.items():
            kept = RunRow(row.no, run_id, count, b"")
            transaction.keep_run(kept._replace(mac=rows.run_mac(self._keys.mac, row.session_id, kept)))
        self._add(transaction, new_rows)
        transaction.heads[row.session_id] = self.head = head
        self.added = len(new_rows)
        return result

    @staticmethod
    def _add(transaction: Transaction, new: Sequence[tuple[EventRow, BlobRow, tuple[bytes, ...]]]) -> None:
        """Add rows of events, and of payloads that stand apart: the head moved, so their session is there."""
        numbers: dict[bytes, int] = {}  # what repeats within the batch is added once
        for event, blob, tags in new:
            if blob.content_id and not blob.no:
                if blob.content_id not in numbers:
                    numbers[blob.content_id] = transaction.add_blob(blob)
                event = event._replace(blob_no=numbers[blob.content_id])  # noqa: PLW2901 - now it is known
            transaction.add_event(event)
            for tag in tags:
                transaction.add_touch(tag, event)

    def _refuse(self, row: SessionRow) -> bytes:
        """Whether these events may go in now; the lease that the session has with them."""
        terms, lease = self._terms, row.lease
        if not is_live(row, self._log.clock.now_us()):
            if terms.holder is not None:
                raise Fenced(_GOING)
            raise NotFound("there is no such session")
        if row.state != "active" and terms.retracting is None:  # an ended session can still be erased of
            raise SessionEnded
        if terms.expect_head is not None and terms.expect_head != row.head_seq:
            raise Conflict(
                f"the session's last event is number {row.head_seq}, not {terms.expect_head}; read on first"
            )
        if terms.holder is not None:
            check(decode(lease), *terms.holder)
        elif lease and not terms.posted:
            refuse_outsider(decode(lease), self._log.clock.now_us())
        if terms.lease is not None:
            lease = encode(terms.lease(decode(lease), self._log.clock.now_us()))
        if row.head_seq + len(self._prepared) > EVENTS_MAX:
            raise LimitExceeded(f"a session holds at most {EVENTS_MAX} events; go on in a new one")
        return lease

    def _check_effects(
        self, transaction: Transaction, row: SessionRow, stored: Sequence[Event | None]
    ) -> None:
        """Refuse a fact that does not follow from those there are, in this session or a branch of it."""
        told: dict[bytes, tuple[effects.Counted, effects.Counted]] = {}
        for prepared, known in zip(self._prepared, stored, strict=True):
            kind, ref = prepared.new.type, prepared.ref
            if known is not None or ref is None or kind not in effects.TYPES:
                continue
            if ref not in told:
                newest = newest_facts(self._log, self._grant, transaction, row, ref)
                mine = self._terms.holder.run if self._terms.holder else ""
                told[ref] = counted(newest, row, mine, self._log.clock.now_us())
            effects.check_both(*told[ref], kind, prepared.new.caused_by)
            if kind != effects.RESOLVED:
                told[ref] = (effects.Counted(kind, prepared.new.event_id),) * 2

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
            prepared.epoch,
            prepared.content,
            tails.types[new.type],
            tails.run_count if prepared.run_id else 0,
            os.urandom(16),
            prepared.sealed_meta,
            None if blob.content_id else blob.body,
            blob.no or None,
            blob.address,
            blob.size,
            prepared.ref,
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
        if prepared.ref is not None:
            bucket = bucket_of(prepared.ref)
            tails.refs[bucket] = tails.refs.get(bucket, 0) + 1
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
        return Tails(types, prepared.run_id, count + 1, start, kept, tails.refs)

    def _stored(self, transaction: Transaction, row: SessionRow) -> list[Event | None]:
        """For each event with a given id: the stored event of that id, if it says the same."""
        found: list[Event | None] = []
        for prepared in self._prepared:
            stored = None
            if prepared.event_id is not None:
                stored = transaction.event(self._session.no, prepared.event_id)
            found.append(stored and self._same(transaction, row, stored, prepared))
        return found

    def _same(self, transaction: Transaction, row: SessionRow, stored: EventRow, prepared: Prepared) -> Event:
        if stored.epoch:
            view = View(reader=transaction, row=row, keys=self._keys, until=row.head_seq + 1)
            is_gone = retracted_of(self._log, view).takes(stored)
            if is_gone or is_over(stored.epoch, self._log.clock.now_us()):
                raise Erased("this event was erased; what is written late does not bring it back")
        return same_event(self._log, self._keys, transaction, self._session, stored, prepared)
