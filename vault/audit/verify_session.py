"""Verification of one session: its row, its log, its payloads, and the indexes that lead to them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vault.encoding import json_value
from vault.errors import Erased, StorageUnavailable, Tampered, VaultError
from vault.model import format_id
from vault.policy.effects import COMMITTED
from vault.policy.epochs import is_over
from vault.ports.records import BlobRow, EventRow, RunRow, SessionRow, is_sound
from vault.sealing import rows
from vault.sealing.payload import unseal
from vault.sealing.renewal import renewal_of
from vault.sessions.log import (
    JSON,
    NOTHING_RETRACTED,
    RETRACTED,
    Retracted,
    check_event,
    decode_tails,
    due_hour,
    hour_of,
    open_about,
    open_stream,
)
from vault.sessions.refs import bucket_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from vault.ports.blobs import Blobs
    from vault.ports.records import Reader
    from vault.sealing.uses import EpochKeys, TenantKeys

_CHUNK: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: its kind, the place, and what it means."""

    kind: str
    place: str
    detail: str


class _Committed(NamedTuple):
    """An effect that happened: when, whether there was an index of such, and what is needed to look in it."""

    recorded_us: int
    indexed: bool
    address: bytes
    resource: str | None


class SessionVerification:
    """The checks of one session, in one snapshot."""

    def __init__(
        self,
        blobs: Blobs,
        reader: Reader,
        row: SessionRow,
        named: set[bytes],
        erased: Container[bytes] = (),
        now_us: int = 0,
    ) -> None:
        """Check a session as ``reader`` shows it.

        Args:
            blobs, reader, row: the parts.
            named: gets what it names in the blob area.
            erased: what was erased by right, which a fork may still name.
            now_us: when; events whose time is over may be emptied.
        """
        self._now_us = now_us
        self._blobs, self._reader, self._row, self._named = blobs, reader, row, named
        self._gone = erased
        self._name = (
            format_id("ses", row.session_id) if isinstance(row.session_id, bytes) else f"session {row.no}"
        )
        self._findings: list[Finding] = []
        self._committed: dict[int, _Committed] = {}
        self._retracted = NOTHING_RETRACTED
        self._subjects: dict[bytes, Any] = {}  # who committed effects are about, by the payload's address
        self.events = self.blobs = 0

    def run(self, keys_of: Callable[[SessionRow], tuple[TenantKeys, EpochKeys]] | None) -> list[Finding]:
        """What is wrong; without ``keys_of``, only what can be told without keys."""
        tenant = keys = None
        if keys_of is not None:
            try:
                tenant, keys = keys_of(self._row)
                self._session_row(tenant, keys)
            except VaultError as error:
                self._found("session_row", self._name, str(error))
        if keys is not None:
            self._retracted = self._facts(keys)
        self._bodies(keys, self._events(keys))
        self._touches(tenant)
        return self._findings

    def _found(self, kind: str, place: str, detail: str) -> None:
        self._findings.append(Finding(kind=kind, place=place, detail=detail))

    def _session_row(self, tenant: TenantKeys, keys: EpochKeys) -> None:
        row = self._row
        rows.check(rows.session_mac(keys.mac, row), row.mac, "the session's row")
        if not due_hour(row._replace(updated_us=row.created_us)) <= row.due_hour <= due_hour(row):
            self._found("session_row", self._name, "the hour in which the sweep looks at it was changed")
        if row.used_hour != hour_of(row.updated_us):
            self._found("session_row", self._name, "its place in the list was changed")
        about = open_about(keys, row)
        labels = {tenant.blind("label", *label) for label in about.get("labels", {}).items()}
        stored = {label for (label,) in self._reader.scan("all_labels_of_session", session_no=row.no)}
        if labels != stored:
            self._found("labels", self._name, "its label index is not what its sealed labels say")
        for run in map(RunRow._make, self._reader.scan("all_runs_of_session", session_no=row.no)):
            try:
                rows.check(rows.run_mac(keys.mac, row.session_id, run), run.mac, "a run's kept count")
            except Tampered as error:
                self._found("run_row", self._name, str(error))

    def _facts(self, keys: EpochKeys) -> Retracted:
        """What was erased while the session lives on, by those facts that open; the others are told later."""
        events, epochs = set[int](), set[int]()
        facts = self._reader.scan("events_of_a_type", session_no=self._row.no, type=RETRACTED)
        for row in filter(is_sound, map(EventRow._make, facts)):
            try:
                check_event(keys, self._row.session_id, row)
                said = json_value(unseal(keys.payload, keys.context(b"payload"), row.body or b""))
            except VaultError:
                continue
            events.update(said["events"])
            epochs.update(said["epochs"])
        return Retracted(len(events), 0, frozenset(events), frozenset(epochs))

    def _events(self, keys: EpochKeys | None) -> list[EventRow]:
        """Check the log in order; the events whose payloads stand elsewhere come back."""
        row, elsewhere = self._row, []
        chain, expected = self._start(), row.base_seq + 1
        per_type: dict[str, int] = {}
        per_ref: dict[str, int] = {}
        per_run: dict[bytes, int] = {}
        for event in map(EventRow._make, self._reader.scan("all_events_of_session", session_no=row.no)):
            place = f"{self._name} event {event.seq}"
            self.events += 1
            if not is_sound(event):
                self._found("event_row", place, "holds a value of the wrong kind")
                continue
            if event.seq < expected:
                self._found("duplicate", place, "stands twice in the log")
                continue
            if event.seq > expected:
                self._found(
                    "removed", f"{self._name} events {expected} to {event.seq - 1}", "removed from the log"
                )
                chain = b""
            chain = self._event(keys, event, place, chain)
            per_type[event.type] = per_type.get(event.type, 0) + 1
            if event.ref:
                per_ref[bucket_of(event.ref)] = per_ref.get(bucket_of(event.ref), 0) + 1
            if event.run_id is not None:
                per_run[event.run_id] = per_run.get(event.run_id, 0) + 1
            expected = event.seq + 1
            if event.blob_no is not None:
                elsewhere.append(event)
        if expected - 1 != row.head_seq:
            what = f"the head names event {row.head_seq}, the log ends at {expected - 1}"
            self._found("head", self._name, what)
        elif chain != row.head_chain:
            self._found("head", self._name, "the head's chain value is not that of the log")
        if not self._findings:
            self._counts(per_type, per_run, per_ref)
        return elsewhere

    def _start(self) -> bytes:
        """The chain value before the session's own first event; of a fork, held against what it shares."""
        row = self._row
        try:
            start = rows.start_of(row)
        except VaultError as error:
            self._found("session_row", self._name, str(error))
            return b""
        if row.forked_from is None:
            return start
        shared = self._reader.scan("chain_in_session", session_id=row.forked_from, seq=row.base_seq)
        stood = self._reader.scan("renewal_of_session", session_id=row.forked_from)
        if (
            (row.base_chain,) not in set(shared)
            and not any((row.base_seq, row.base_chain) in _stood(renewed) for (renewed,) in stood)
            and row.forked_from not in self._gone
        ):
            self._found("fork", self._name, "the event that it was forked at is not in the session it names")
        return start

    def _event(self, keys: EpochKeys | None, event: EventRow, place: str, chain: bytes) -> bytes:
        """Check one event row; the chain value that the next one builds on."""
        meta: dict[str, Any] = {}
        try:
            header = rows.event_header(self._row.session_id, event)
            if keys is not None:
                check_event(keys, self._row.session_id, event)
                if event.meta is not None and not self._is_gone(keys, event):
                    under = keys.of_epoch(event.epoch)
                    meta = json_value(unseal(under.payload, under.context(b"meta"), event.meta))
            if event.type == COMMITTED:
                resource = meta.get("resource")
                self._committed[event.seq] = _Committed(
                    event.recorded_us, event.ref is not None, event.address, resource
                )
            if event.blob_no is None:
                self.blobs += 1
                self._short(keys, event, place)
            if chain and rows.event_chain(chain, header, event.salt) != event.chain:
                self._found("chain", place, "does not follow the event before it")
        except VaultError as error:
            self._found("event_row", place, str(error))
        return event.chain

    def _counts(self, per_type: dict[str, int], per_run: dict[bytes, int], per_ref: dict[str, int]) -> None:
        """Compare the counts that make filtered reads complete with those of the log."""
        try:
            tails = decode_tails(self._row.tails)
            newest, kept = tails.run_id, dict(per_run)
            counted = kept.pop(newest, 0)
            if tails.run_from:
                kept[newest] = tails.run_from
            total = sum(kept.values())
        except (ValueError, KeyError, TypeError, IndexError):
            self._found("counts", self._name, "its counts cannot be read")
            return
        if tails.refs != per_ref:
            self._found("counts", self._name, "its counts of what events are about are not those of the log")
        if tails.types != per_type:
            self._found("counts", self._name, "its counts per type are not those of the log")
        stored = {row[1]: row[2] for row in self._reader.scan("all_runs_of_session", session_no=self._row.no)}
        if (counted, kept, total) != (tails.run_count, stored, tails.kept):
            self._found("counts", self._name, "its counts per run are not those of the log")

    def _bodies(self, keys: EpochKeys | None, events: list[EventRow]) -> None:
        named_by: dict[int, list[EventRow]] = {}
        for event in events:
            named_by.setdefault(event.blob_no or 0, []).append(event)
        by_number = {number: naming[0] for number, naming in named_by.items()}
        stored: dict[int, bytes] = {}
        for blob in map(BlobRow._make, self._blob_rows()):
            self.blobs += 1
            stored[blob.no] = blob.address
            named = by_number.get(blob.no)
            place = f"{self._name} event {named.seq} payload" if named else f"{self._name} blob {blob.no}"
            if not is_sound(blob):
                self._found("blob", place, "its row holds a value of the wrong kind")
                continue
            if named is None:
                self._found("orphan_blob", place, "no event names it")
            if self._is_emptied(keys, blob, named_by.get(blob.no, []), place):
                continue
            if blob.body is None:
                self._named.add(blob.address)
            try:
                if keys is not None:
                    mac = rows.blob_mac(keys.mac, self._row.session_id, blob)
                    rows.check(mac, blob.mac, "its row")
                self._body(keys, named, blob)
            except VaultError as error:
                self._found("blob", place, str(error))
        for event in events:
            if stored.get(event.blob_no or 0) != event.address:
                self._found(
                    "blob", f"{self._name} event {event.seq} payload", "missing, or another payload's"
                )

    def _is_emptied(self, keys: EpochKeys | None, blob: BlobRow, naming: list[EventRow], place: str) -> bool:
        """Whether a payload is gone by right, its events having been erased; without keys nobody can tell."""
        empty = blob.body == b""
        if keys is None:
            return empty and blob.epoch > 0
        erased = bool(naming) and all(self._is_gone(keys, event) for event in naming)
        if erased and not empty and all(map(self._retracted.takes, naming)):
            self._found("blob", place, "was erased and is there again")
        if erased:
            return True
        if empty:
            self._found("blob", place, "missing: it is emptied, and no fact says that it was erased")
        return empty

    def _is_gone(self, keys: EpochKeys, event: EventRow) -> bool:
        """Whether an event was erased, its time is over, or its epoch's key was destroyed by right."""
        if self._retracted.takes(event) or is_over(event.epoch, self._now_us):
            return True
        try:
            keys.of_epoch(event.epoch)
        except Erased:
            return True
        except VaultError:
            return False  # told of where it is opened
        return False

    def _short(self, keys: EpochKeys | None, event: EventRow, place: str) -> None:
        """Check a payload that stands beside its event."""
        if event.body is None:
            self._found("blob", f"{place} payload", "missing")
            return
        row = BlobRow(0, event.session_no, event.epoch, b"", event.address, event.size, event.body, b"")
        try:
            self._body(keys, event, row)
        except VaultError as error:
            self._found("blob", f"{place} payload", str(error))

    def _blob_rows(self) -> Iterator[tuple[object, ...]]:
        return self._reader.scan("all_blobs_of_session", session_no=self._row.no)

    def _body(self, keys: EpochKeys | None, event: EventRow | None, blob: BlobRow) -> None:
        if blob.body is None:
            self._file(keys, event, blob)
            return
        if hashlib.sha256(blob.body).digest() != blob.address or len(blob.body) != blob.size:
            raise Tampered("its sealed bytes are not those of its address")
        if keys is not None and event is not None:
            under = keys.of_epoch(event.epoch)
            self._payload(event, unseal(under.payload, under.context(b"payload"), blob.body))

    def _file(self, keys: EpochKeys | None, event: EventRow | None, blob: BlobRow) -> None:
        if keys is not None and event is not None:
            with open_stream(self._blobs, keys, event) as stream:
                if event.type == COMMITTED:
                    self._payload(event, stream.read())
            return
        digest = hashlib.sha256()
        try:
            with self._blobs.open(blob.address) as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except OSError:
            raise StorageUnavailable("its file cannot be read") from None
        if digest.digest() != blob.address:
            raise Tampered("its sealed bytes are not those of its address")

    def _payload(self, event: EventRow, body: bytes) -> None:
        if event.content != JSON:
            return
        said = json_value(body)
        if event.type == COMMITTED and isinstance(said, dict):
            self._subjects[event.address] = said.get("subject")

    def _touches(self, tenant: TenantKeys | None) -> None:
        """Hold the index of what the session changed in the world against the effects that it committed."""
        entries: dict[int, set[bytes]] = {}
        for tag, recorded_us, seq in self._reader.scan("all_touches_of_session", session_no=self._row.no):
            place = f"{self._name} event {seq}" if isinstance(seq, int) else self._name
            if not (isinstance(tag, bytes) and isinstance(recorded_us, int) and isinstance(seq, int)):
                self._found("touch", place, "the index of what it changed holds a value of the wrong kind")
            elif seq not in self._committed or self._committed[seq].recorded_us != recorded_us:
                self._found("touch", place, "the index of what it changed names no effect committed then")
            else:
                entries.setdefault(seq, set()).add(tag)
        if tenant is None:
            return
        for seq, committed in self._committed.items():
            if committed.address not in self._subjects:
                continue  # its payload does not open, which is told already
            named = {"resource": committed.resource, "subject": self._subjects[committed.address]}
            # Effects that were written before there was such an index are not in it.
            wanted = {tenant.blind(*one) for one in named.items() if one[1] is not None and committed.indexed}
            if wanted != entries.get(seq, set()):
                self._found(
                    "touch", f"{self._name} event {seq}", "the index of what it changed is not what it says"
                )


def _stood(renewed: object) -> frozenset[tuple[int, bytes]]:
    """The chain values that stood in a log before it was sealed anew, as its row says."""
    try:
        return renewal_of(renewed).stood if isinstance(renewed, bytes) else frozenset()
    except Tampered:
        return frozenset()
