"""Verification of what is gone: erased by right, staying so, and proved by receipts that are all there.

Three places tell of an erasure, each in files of its own: the signed ledger (what), the tombstones beside
the keys (which keys), and the tenant's receipts with its audit trail (why, and what was done). Whoever takes
one of them away has to take all three.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

from vault.audit.emptied import EmptiedEvents
from vault.audit.verify_session import Finding
from vault.derived.verification import ItemsVerification
from vault.errors import VaultError
from vault.model import format_id
from vault.ports.keys import WHOLE
from vault.ports.operations import ReceiptRow
from vault.ports.records import is_sound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vault.audit.anchor import History
    from vault.audit.trail import AuditTrail
    from vault.policy.receipt import Receipt
    from vault.ports.keys import KeyStore
    from vault.sealing.notes import Gone
    from vault.sessions.log import Log

#: The type of the entries of the audit trail that name a receipt, as `erasure/proof` writes them.
PROVED: Final = "erasure.proved"
#: And as `erasure/holds` writes those of holds.
PLACED: Final = "hold.placed"
LIFTED: Final = "hold.lifted"
#: More entries than any tenant's trail has.
_ALL: Final = 2**62
_ENDED: Final = ("verified", "barrier_passed")


@dataclass(frozen=True, slots=True)
class ErasedVerification:
    """The checks of erasures, their receipts, and derived items, of a vault whose keys are there."""

    log: Log
    store: KeyStore = field(repr=False)
    trail: AuditTrail
    public: bytes  # the vault's signing key

    def is_going(self, session_id: bytes) -> bool:
        """Whether a session's keys were destroyed, or are about to be."""
        return self.store.is_destroyed("epoch", session_id, WHOLE) is not None

    def run(self, history: History, counts: dict[str, int]) -> Iterator[Finding]:
        """What is wrong; ``counts`` takes how many derived items and receipts there are."""
        items = ItemsVerification(self.log)
        for found in items.run():
            yield Finding(kind=found.kind, place=found.place, detail=found.detail)
        counts["items"] = items.items
        for id_, seq in EmptiedEvents(self.log.records, self.log.keys).returned(history.emptied):
            place = f"{format_id('ses', id_)} event {seq} payload"
            detail = "was erased by the ledger, and is there again with no fact that says so"
            yield Finding(kind="resurrected", place=place, detail=detail)
        erased = history.erased  # before the snapshot: what it lists is then gone, or on its way
        with self.log.records.snapshot() as reader:
            # In this order: an erasure that ends meanwhile is then still counted as under way.
            doing = {row[1] for row in reader.scan("unfinished_operations")}
            receipts = [ReceiptRow._make(row) for row in reader.scan("all_receipts")]
            present = {id_ for (id_,) in reader.scan("all_ids") if isinstance(id_, bytes)}
            fenced = {id_ for (id_,) in reader.scan("all_fenced_sessions") if isinstance(id_, bytes)}
        yield from self._graves(erased, present, doing)
        if not doing:  # else one of these takes it away
            for id_ in sorted(fenced - erased.keys()):
                yield _found("fenced", id_, "is being erased by no erasure: a row was changed", "ses")
        yield from self._holds()
        counts["receipts"] = len(receipts)
        sound = [row for row in receipts if is_sound(row)]
        if len(sound) < len(receipts):
            yield Finding(kind="receipt", place="receipts", detail="a row holds a value of the wrong kind")
        yield from self._receipts(sound, doing)

    def _graves(
        self, erased: Mapping[bytes, Gone], present: set[bytes], doing: set[bytes]
    ) -> Iterator[Finding]:
        graves: dict[bytes, bytes] = {grave.scope: grave.operation for grave in self.store.tombstones()}
        for id_ in sorted(erased.keys() & present):
            if graves.get(id_) not in doing:
                yield _found("resurrected", id_, "was erased and is there again: open the vault anew")
        for id_ in sorted(erased.keys() - graves.keys()):
            yield _found("tombstone", id_, "was erased by the ledger, and keys.db does not say so")
        for id_ in sorted(graves.keys() - erased.keys()):
            if graves[id_] not in doing:
                yield _found("tombstone", id_, "was erased by keys.db, and the ledger does not say so")
        seen = 0
        for row in self.store.rows():
            seen += 1
            if row.scope in erased:
                yield _found("resurrected", row.scope, "was erased and has a key again: open the vault anew")
        back = sum(count.live for count in self.store.counts()) - seen
        if back > 0:
            detail = f"keys stand where one was destroyed, {back} of them: nobody is given these"
            yield Finding(kind="resurrected", place="keys.db", detail=detail)

    def _holds(self) -> Iterator[Finding]:
        """The holds beside the keys against the audit trails, which say who placed and lifted them."""
        for tenant_id in sorted({row.scope for row in self.store.rows_of(None) if row.purpose == "tenant"}):
            try:
                yield from self._holds_of(tenant_id)
            except VaultError as error:
                yield Finding(kind="hold", place=f"holds of tenant {tenant_id.hex()}", detail=str(error))

    def _holds_of(self, tenant_id: bytes) -> Iterator[Finding]:
        tenant = self.log.keys.tenant_by_id(tenant_id)
        if tenant is None:
            return
        told: dict[str, str] = {}
        for entry in self.trail.entries(tenant, types=[PLACED, LIFTED], limit=_ALL):
            told[entry.said["hold"]] = entry.what
        standing = {row.hold_id.hex() for row in self.store.holds(tenant_id) if not row.lifted_us}
        placed = {hold for hold, what in told.items() if what == PLACED}
        for hold in sorted(placed ^ standing):
            where = "by the audit trail" if hold in placed else "beside the keys"
            yield _found("hold", bytes.fromhex(hold), f"stands {where} only", "hld")

    def _receipts(self, stored: list[ReceiptRow], doing: set[bytes]) -> Iterator[Finding]:
        """The receipts of every tenant against their signatures, their chain, and the audit trail."""
        by_tenant = {
            tenant_id: [(row[0], row[3]) for row in group]
            for tenant_id, group in groupby(stored, key=lambda row: row[2])
        }
        tenants = {row.scope for row in self.store.rows_of(None) if row.purpose == "tenant"}
        for tenant_id in sorted(tenants | by_tenant.keys()):
            try:
                yield from self._of_tenant(tenant_id, by_tenant.get(tenant_id, []), doing)
            except VaultError as error:
                yield Finding(
                    kind="receipt", place=f"receipts of tenant {tenant_id.hex()}", detail=str(error)
                )

    def _of_tenant(
        self, tenant_id: bytes, stored: list[tuple[bytes, bytes]], doing: set[bytes]
    ) -> Iterator[Finding]:
        from vault.policy.receipt import digest  # noqa: PLC0415 - pydantic: only who verifies needs it
        from vault.sealing.receipts import chain_of, verified  # noqa: PLC0415 - the same

        told = self._told(tenant_id)
        if not stored and not told:
            return
        place = f"receipts of tenant {tenant_id.hex()}"
        receipts = [verified(content, self.public) for _, content in stored]
        if receipts and receipts[0].number != 1:
            yield Finding(kind="receipt", place=place, detail="the oldest ones are missing")
        chain_of(receipts)
        newest: dict[bytes, Receipt] = {}
        for (operation, _), receipt in zip(stored, receipts, strict=True):
            if format_id("era", operation) != receipt.operation or digest(receipt) not in told.get(
                operation, ()
            ):
                yield Finding(kind="receipt", place=receipt.operation, detail="is not in the audit trail")
            newest[operation] = receipt
        # A crash between the two may leave an entry without its receipt, and then a later one with it: so an
        # erasure that is done has some receipt that the trail names, and its last one says that it is done.
        for operation in sorted(told.keys() - doing):
            last = newest.get(operation)
            if last is None or last.state not in _ENDED:
                yield _found("receipt", operation, "its last receipt was removed", "era")

    def _told(self, tenant_id: bytes) -> dict[bytes, set[str]]:
        """What the audit trail says was signed, by operation."""
        tenant = self.log.keys.tenant_by_id(tenant_id)
        told: dict[bytes, set[str]] = {}
        if tenant is not None:
            for entry in self.trail.entries(tenant, types=[PROVED], limit=_ALL):
                told.setdefault(bytes.fromhex(entry.said["operation"]), set()).add(entry.said["receipt"])
        return told


def _found(kind: str, id_: bytes, detail: str, prefix: str = "id") -> Finding:
    return Finding(kind=kind, place=format_id(prefix, id_), detail=detail)
