"""A session's log as it is to stand once it is sealed anew: made beside the log, in memory, row by row.

Places, ids, types, times and what was erased stay; sealed bytes, their addresses, salts and every chain value
are new, unless a payload is under the right keys already. Large payloads go into the blob area at once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from vault.errors import Conflict, Erased, LimitExceeded, Tampered
from vault.policy.epochs import key_number
from vault.ports.records import BlobRow, EventRow
from vault.sealing import rows
from vault.sealing.payload import seal, unseal
from vault.sessions.log import STREAM, open_stream, sealed_body
from vault.sessions.prepare import CONTENT_ID_BYTES, UnderKeys, sealed_blob, streamed_blob
from vault.sessions.refs import bucket_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.ports.records import SessionRow
    from vault.sealing.uses import EpochKeys, TenantKeys
    from vault.sessions.log import Log, Retracted
    from vault.sessions.read import View

#: A copy is held in memory, and stored in one transaction: some two seconds for this many events.
EVENTS_MAX: Final = 50_000
BYTES_MAX: Final = 256 * 1024 * 1024


class _Event(NamedTuple):
    row: EventRow
    content_id: bytes  # of the blob that it names; empty: its payload stands beside it


@dataclass(slots=True)
class Copy:
    """A session's own log, and what came before it of another one, as they are to stand; in order.

    ``row`` is the session as it was read, ``own`` the number that its own epoch is to have, ``keys`` those of
    it. ``base`` says whose log it goes on from then.
    """

    log: Log
    tenant: TenantKeys
    row: SessionRow
    own: int
    keys: EpochKeys
    base: SessionRow  # `forked_from`, `base_seq` and `base_chain` of this row
    progress: Callable[[int, int], None] | None = None  # told (events done, events in all)
    seq: int = 0
    chain: bytes = b""
    events: list[_Event] = field(default_factory=list)
    blobs: dict[bytes, BlobRow] = field(default_factory=dict)  # by content id, the new ones
    types: dict[str, int] = field(default_factory=dict)
    refs: dict[str, int] = field(default_factory=dict)
    runs: dict[bytes, int] = field(default_factory=dict)
    tags: list[tuple[bytes, EventRow]] = field(default_factory=list)  # what was changed in the world
    _size: int = 0
    _named: dict[tuple[int, int], bytes] = field(default_factory=dict)  # new content id of an old blob

    def __post_init__(self) -> None:
        """Begin where the log is to begin."""
        after = self.row._replace(
            forked_from=self.base.forked_from, base_seq=self.base.base_seq, base_chain=self.base.base_chain
        )
        self.seq, self.chain = after.base_seq, rows.start_of(after)

    def take(self, found: View, page: list[EventRow], gone: Retracted, blobs: dict[int, BlobRow]) -> None:
        """Add rows that were read and verified, with what was erased of their log and the blobs they name.

        Raises:
            LimitExceeded: it is more than a copy holds.
            Tampered: a payload does not open.
        """
        for row in page:
            if len(self.events) >= EVENTS_MAX or self._size > BYTES_MAX:
                raise LimitExceeded(
                    f"a session of more than {EVENTS_MAX} events or {BYTES_MAX // 1024**2} MiB is not sealed "
                    "anew; export it, and import it as a new one"
                )
            self._add(found, row, gone, blobs)

    def _add(self, found: View, row: EventRow, gone: Retracted, blobs: dict[int, BlobRow]) -> None:
        blob = blobs.get(row.blob_no or 0)
        emptied = blob is not None and blob.body == b""
        keys = None if emptied or gone.takes(row) else _opened_with(found.keys, row.epoch)
        if keys is None:
            meta, body = None, self._emptied(row, blob)
        elif found.row.session_id == self.row.session_id and found.row.epoch == self.own:
            meta, body = row.meta, self._as_it_is(row, blob)
        else:
            meta, body = self._anew(found, row, keys)
        self._store(row, meta, body)

    def _emptied(self, row: EventRow, blob: BlobRow | None) -> BlobRow:
        """In place of what was erased: its size and address, and no bytes."""
        if blob is None:
            raise Tampered("an erased event's payload stands beside it: its row was changed")
        named = self._named.get((blob.session_no, blob.no))
        if named is not None and blob.body == b"":
            return self.blobs[named]
        content_id = os.urandom(CONTENT_ID_BYTES)
        made = BlobRow(0, self.row.no, row.epoch, content_id, row.address, row.size, b"", b"")
        if blob.body != b"":  # an event that is there repeats it
            blob = blob._replace(no=0)
        return self._kept(blob, made)

    def _as_it_is(self, row: EventRow, blob: BlobRow | None) -> BlobRow:
        if blob is None:
            return BlobRow(0, self.row.no, 0, b"", row.address, row.size, row.body, b"")
        return self._kept(blob, blob._replace(no=0))

    def _kept(self, old: BlobRow, new: BlobRow) -> BlobRow:
        new = new._replace(mac=rows.blob_mac(self.keys.mac, self.row.session_id, new))
        if old.no:
            self._named[old.session_no, old.no] = new.content_id
        return self.blobs.setdefault(new.content_id, new)

    def _anew(self, found: View, row: EventRow, keys: EpochKeys) -> tuple[bytes | None, BlobRow]:
        """Its sealed fields and payload under the keys of the copy."""
        log = self.log
        under = self._under(row.epoch)
        meta = None
        if row.meta is not None:
            opened = unseal(keys.payload, keys.context(b"meta"), row.meta)
            meta = seal(under.payload, under.context(b"meta"), opened, log.sealing)
        before = (found.row.no, row.blob_no or 0)
        if before in self._named:
            return meta, self.blobs[self._named[before]]
        with_keys = UnderKeys(self.keys, under)
        if row.content == STREAM:
            with open_stream(log.blobs, found.keys, row) as source:
                blob = streamed_blob(log, self.row, with_keys, source, self.blobs)
        else:
            body = unseal(keys.payload, keys.context(b"payload"), sealed_body(log, row))
            blob = sealed_blob(log, self.row, with_keys, body, self.blobs)
        if blob.no:  # the session's own log, which comes later, holds the same
            blob = self._kept(blob, _whole(log, blob)._replace(no=0))
        if row.blob_no is not None and blob.content_id:
            self._named[before] = blob.content_id
        return meta, blob

    def _under(self, epoch: int) -> EpochKeys:
        if not epoch:
            return self.keys
        number = key_number(self.own, epoch)
        return self.log.keys.epoch(self.tenant, self.row.owner, self.row.session_id, number, create=True)

    def _store(self, row: EventRow, meta: bytes | None, blob: BlobRow) -> None:
        self.types[row.type] = self.types.get(row.type, 0) + 1
        if row.ref is not None:
            self.refs[bucket_of(row.ref)] = self.refs.get(bucket_of(row.ref), 0) + 1
        if row.run_id is not None:
            self.runs[row.run_id] = self.runs.get(row.run_id, 0) + 1
        body = None if blob.content_id else blob.body
        event = row._replace(
            session_no=self.row.no,
            type_nth=self.types[row.type],
            run_nth=self.runs[row.run_id] if row.run_id else 0,
            salt=os.urandom(16),
            meta=meta,
            body=body,
            blob_no=None,
            address=blob.address,
            size=blob.size,
        )
        header = rows.event_header(self.row.session_id, event)
        self.chain = rows.event_chain(self.chain, header, event.salt)
        mac = rows.event_mac(self.keys.mac, header, event.salt, self.chain)
        self.events.append(_Event(event._replace(chain=self.chain, mac=mac), blob.content_id))
        self.seq = row.seq
        self._size += len(meta or b"") + len(blob.body or b"")


def _opened_with(keys: EpochKeys, epoch: int) -> EpochKeys | None:
    """The keys of an event's epoch; None when it was erased."""
    try:
        return keys.of_epoch(epoch)
    except Erased:
        return None


def _whole(log: Log, blob: BlobRow) -> BlobRow:
    with log.records.snapshot() as reader:
        found = next(reader.scan("blob_whole", no=blob.no, session_no=blob.session_no), None)
    if found is None:
        raise Conflict("the session was changed at the same moment; try again")
    return BlobRow._make(found)
