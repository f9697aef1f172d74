"""Verification: walks everything stored and names the place of what is wrong, instead of stopping at it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vault.audit.anchor import behind
from vault.encoding import json_value
from vault.errors import KeyUnavailable, StorageUnavailable, Tampered, VaultError
from vault.model import format_id
from vault.ports.records import BlobRow, EventRow, RunRow, SessionRow, is_sound
from vault.sealing import rows
from vault.sealing.payload import unseal
from vault.sessions.find import open_about
from vault.sessions.log import JSON, check_event, decode_tails, hour_of, open_stream
from vault.sessions.witness import head_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vault.audit.anchor import History
    from vault.ports.blobs import Blobs
    from vault.ports.records import Reader, Records
    from vault.sealing.keys import EpochKeys, KeyHierarchy, TenantKeys
    from vault.sealing.notes import Head

_CHUNK: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: its kind, the place, and what it means."""

    kind: str
    place: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was checked, and what was found."""

    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    with_keys: bool

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


class Verification:
    """Checks the whole of one vault."""

    def __init__(self, records: Records, blobs: Blobs, keys: KeyHierarchy | None) -> None:
        """Check these stores; without keys, only what needs none."""
        self._records, self._blobs, self._hierarchy = records, blobs, keys

    def count_sessions(self) -> int:
        """How many sessions there are."""
        with self._records.snapshot() as reader:
            return sum(1 for _ in reader.scan("all_heads"))

    def unrecorded(self, recorded: Mapping[bytes, Head]) -> list[Head]:
        """Verified heads of the sessions that the ledger does not have in their present state.

        Raises:
            Tampered: one of them does not verify.
        """
        with self._records.snapshot() as reader:
            wanted = {row[1] for row in reader.scan("all_heads") if not _is_recorded(row, recorded)}
            if not wanted:
                return []
            stored = [SessionRow._make(row) for row in reader.scan("all_sessions") if row[1] in wanted]
        for row in stored:
            if not is_sound(row):
                raise Tampered("a session's row holds a value of the wrong kind")
            rows.check(rows.session_mac(self._keys(row)[1].mac, row), row.mac, "a session's row")
        return [head_of(row) for row in stored]

    def run(
        self, history: History, *, without_keys: bool, progress: Callable[[int, int], None] | None
    ) -> Report:
        """Check everything; see ``Vault.verify``."""
        without_keys = without_keys or self._hierarchy is None
        findings = [*self._damage(), *_ledger(history)]
        counts = dict.fromkeys(("sessions", "events", "blobs", "unnamed_blobs", "ledger_entries"), 0)
        counts["ledger_entries"] = history.newest.number if history.newest else 0
        named: set[bytes] = set()
        recorded = history.heads  # before the snapshot, which so holds all that is recorded
        with self._records.snapshot() as reader:
            findings += _behind(reader, recorded)
            findings += self._vault_row(reader)
            stored = [SessionRow._make(row) for row in reader.scan("all_sessions")]
            findings += [
                Finding(
                    kind="stray", place=f"{kind} of session number {number}", detail="belongs to no session"
                )
                for kind, number in reader.scan("stray_rows")
            ]
        for done, row in enumerate(stored):
            if not is_sound(row):
                place, detail = f"session number {row.no}", "its row holds a value of the wrong kind"
                findings.append(Finding(kind="session_row", place=place, detail=detail))
                continue
            with self._records.snapshot() as reader:
                # As this snapshot has it: others may have appended since the list was read.
                now = reader.session(row.session_id, row.tenant_id, row.owner) or row
                one = _OneSession(self._blobs, reader, now, named)
                findings += one.run(None if without_keys else self._keys)
                counts["events"] += one.events
                counts["blobs"] += one.blobs
            counts["sessions"] += 1
            if progress is not None:
                progress(done + 1, len(stored))
        # Durable before the event that was to name it, then a crash or a refusal: clutter, not damage.
        counts["unnamed_blobs"] = sum(address not in named for address in self._blobs.addresses())
        return Report(findings=tuple(findings), counts=counts, with_keys=not without_keys)

    def _damage(self) -> list[Finding]:
        try:
            lines = self._records.damage()
        except VaultError as error:
            lines = [str(error)]
        return [Finding(kind="database", place="data.db", detail=line) for line in lines]

    def _vault_row(self, reader: Reader) -> list[Finding]:
        try:
            row = reader.vault()
            if row is None:
                raise Tampered("is missing")
            if self._hierarchy is not None:
                rows.check(rows.vault_mac(self._hierarchy.row_key(), row), row.mac, "the vault's own row")
        except VaultError as error:
            return [Finding(kind="vault_row", place="the vault's own row", detail=str(error))]
        return []

    def _keys(self, row: SessionRow) -> tuple[TenantKeys, EpochKeys]:
        if self._hierarchy is None:
            raise KeyUnavailable
        tenant = self._hierarchy.tenant_by_id(row.tenant_id)
        if tenant is None:
            raise KeyUnavailable("the key store holds no key for this session's tenant")
        return tenant, self._hierarchy.epoch(tenant, row.owner, row.session_id, row.epoch)


def _ledger(history: History) -> list[Finding]:
    findings = []
    try:
        history.refresh()
    except VaultError as error:
        findings.append(Finding(kind="ledger", place="ledger", detail=str(error)))
    for number, detail in history.faults():
        findings.append(Finding(kind="ledger", place=f"ledger entry {number}", detail=detail))
    return findings


def _behind(reader: Reader, recorded: Mapping[bytes, Head]) -> list[Finding]:
    found = (text.partition(" ") for text in behind(reader, recorded.values()))
    return [Finding(kind="behind_ledger", place=place, detail=detail) for place, _, detail in found]


class _OneSession:
    """The checks of one session, in one snapshot."""

    def __init__(self, blobs: Blobs, reader: Reader, row: SessionRow, named: set[bytes]) -> None:
        self._blobs, self._reader, self._row, self._named = blobs, reader, row, named
        self._name = (
            format_id("ses", row.session_id) if isinstance(row.session_id, bytes) else f"session {row.no}"
        )
        self._findings: list[Finding] = []
        self.events = self.blobs = 0

    def run(self, keys_of: Callable[[SessionRow], tuple[TenantKeys, EpochKeys]] | None) -> list[Finding]:
        keys = None
        if keys_of is not None:
            try:
                tenant, keys = keys_of(self._row)
                self._session_row(tenant, keys)
            except VaultError as error:
                self._found("session_row", self._name, str(error))
        self._bodies(keys, self._events(keys))
        return self._findings

    def _found(self, kind: str, place: str, detail: str) -> None:
        self._findings.append(Finding(kind=kind, place=place, detail=detail))

    def _session_row(self, tenant: TenantKeys, keys: EpochKeys) -> None:
        row = self._row
        rows.check(rows.session_mac(keys.mac, row), row.mac, "the session's row")
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

    def _events(self, keys: EpochKeys | None) -> list[EventRow]:
        """Check the log in order; the events whose payloads stand elsewhere come back."""
        row, elsewhere = self._row, []
        chain, expected = rows.genesis(row.session_id), 1
        per_type: dict[str, int] = {}
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
            self._counts(per_type, per_run)
        return elsewhere

    def _event(self, keys: EpochKeys | None, event: EventRow, place: str, chain: bytes) -> bytes:
        """Check one event row; the chain value that the next one builds on."""
        try:
            header = rows.event_header(self._row.session_id, event)
            if keys is not None:
                check_event(keys, self._row.session_id, event)
                if event.meta is not None:
                    json_value(unseal(keys.payload, keys.context(b"meta"), event.meta))
            if event.blob_no is None:
                self.blobs += 1
                self._short(keys, event, place)
            if chain and rows.event_chain(chain, header, event.salt) != event.chain:
                self._found("chain", place, "does not follow the event before it")
        except VaultError as error:
            self._found("event_row", place, str(error))
        return event.chain

    def _counts(self, per_type: dict[str, int], per_run: dict[bytes, int]) -> None:
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
        if tails.types != per_type:
            self._found("counts", self._name, "its counts per type are not those of the log")
        stored = {row[1]: row[2] for row in self._reader.scan("all_runs_of_session", session_no=self._row.no)}
        if (counted, kept, total) != (tails.run_count, stored, tails.kept):
            self._found("counts", self._name, "its counts per run are not those of the log")

    def _bodies(self, keys: EpochKeys | None, events: list[EventRow]) -> None:
        by_number: dict[int, EventRow] = {}
        for event in events:
            by_number.setdefault(event.blob_no or 0, event)
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
            body = unseal(keys.payload, keys.context(b"payload"), blob.body)
            if event.content == JSON:
                json_value(body)

    def _file(self, keys: EpochKeys | None, event: EventRow | None, blob: BlobRow) -> None:
        if keys is not None and event is not None:
            open_stream(self._blobs, keys, event).close()
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


def _is_recorded(row: tuple[Any, ...], recorded: Mapping[bytes, Head]) -> bool:
    head = recorded.get(row[1])
    return head is not None and (head.version, head.seq, head.chain) == row[2:5]
