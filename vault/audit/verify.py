"""Verification: walks everything stored and names the place of what is wrong, instead of stopping at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vault.audit.anchor import behind
from vault.audit.verify_session import Finding, SessionVerification
from vault.errors import Erased, KeyUnavailable, Tampered, VaultError
from vault.ports.records import SessionRow, is_sound
from vault.sealing import rows
from vault.sessions.witness import head_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vault.audit.anchor import History
    from vault.audit.verify_erased import ErasedVerification
    from vault.ports.blobs import Blobs
    from vault.ports.records import Reader, Records
    from vault.sealing.keys import KeyHierarchy
    from vault.sealing.notes import Head
    from vault.sealing.uses import EpochKeys, TenantKeys


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

    def __init__(
        self,
        records: Records,
        blobs: Blobs,
        keys: KeyHierarchy | None,
        erased: ErasedVerification | None = None,
    ) -> None:
        """Check these stores; without keys, only what needs none; with ``erased``, what is gone too."""
        self._records, self._blobs, self._hierarchy = records, blobs, keys
        self._erased = erased

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
        heads = []
        for row in stored:
            if not is_sound(row):
                raise Tampered("a session's row holds a value of the wrong kind")
            try:
                keys = self._keys(row)[1]
            except Erased:
                continue  # its keys are destroyed, its rows on their way: the ledger has it as erased
            rows.check(rows.session_mac(keys.mac, row), row.mac, "a session's row")
            heads.append(head_of(row))
        return heads

    def run(
        self, history: History, *, without_keys: bool, progress: Callable[[int, int], None] | None
    ) -> Report:
        """Check everything; see ``Vault.verify``."""
        without_keys = without_keys or self._hierarchy is None
        findings = [*self._damage(), *_ledger(history)]
        counts = dict.fromkeys(("sessions", "events", "blobs", "unnamed_blobs", "ledger_entries"), 0)
        counts["ledger_entries"] = history.newest.number if history.newest else 0
        counts["erased"] = len(history.erased)
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
                at_us = 0 if self._erased is None else self._erased.log.clock.now_us()
                one = SessionVerification(self._blobs, reader, now, named, history.erased, at_us)
                found = one.run(None if without_keys else self._keys)
                # On its way out, or gone since the list was read; what came back is told of as such.
                if not found or self._erased is None or not self._erased.is_going(row.session_id):
                    findings += found
                counts["events"] += one.events
                counts["blobs"] += one.blobs
            counts["sessions"] += 1
            if progress is not None:
                progress(done + 1, len(stored))
        with self._records.snapshot() as reader:
            named |= {row[0] for row in reader.scan("all_files")}  # of derived items, and of what is leaving
        if self._erased and not without_keys:
            findings += self._erased.run(history, counts)
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


def _is_recorded(row: tuple[Any, ...], recorded: Mapping[bytes, Head]) -> bool:
    head = recorded.get(row[1])
    return head is not None and (head.version, head.seq, head.chain) == row[2:5]
