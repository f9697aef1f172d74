"""After a barrier: receipts of what was verified before it say that old copies of the keys open nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vault.model import parse_id
from vault.ports.operations import ReceiptRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.ports.records import Transaction
    from vault.sealing.notes import Signer
    from vault.sessions.log import Log


def sign_passed(log: Log, signer: Signer, told: Callable[[bytes, bytes, str], None]) -> int:
    """Sign a further receipt for each erasure whose newest one says verified; how many were signed.

    Args:
        log: the parts.
        signer: the vault's.
        told: writes an erasure's receipt into the tenant's audit trail, before it is stored: tenant id,
            operation id, digest.
    """
    with log.records.snapshot() as reader:
        newest = {row[0]: ReceiptRow._make(row) for row in reader.scan("all_receipts")}  # in their order
    return sum(_signed(log, signer, told, row) for row in newest.values())


def waiting_since(log: Log, signer: Signer) -> int:
    """When the oldest erasure was verified that no barrier has followed yet; 0 when there is none."""
    from vault.sealing.receipts import verified  # noqa: PLC0415 - pydantic: only who erases needs it

    with log.records.snapshot() as reader:
        newest = {row[0]: row[3] for row in reader.scan("all_receipts")}  # in their order
    receipts = (verified(content, signer.public) for content in newest.values())
    return min((one.times.verified_us or 0 for one in receipts if one.state == "verified"), default=0)


def _signed(log: Log, signer: Signer, told: Callable[[bytes, bytes, str], None], row: ReceiptRow) -> bool:
    from vault.policy.receipt import Barrier, digest  # noqa: PLC0415 - pydantic: only who erases needs it
    from vault.sealing.receipts import signed, verified  # noqa: PLC0415 - the same

    before = verified(row.content, signer.public)
    if before.state != "verified":
        return False
    barrier = Barrier(state="passed", at_us=log.clock.now_us())
    while True:
        with log.records.snapshot() as reader:
            last = ReceiptRow._make(next(reader.scan("newest_receipt", tenant_id=row.tenant_id)))
        receipt = replace(
            before,
            number=last.number + 1,
            previous=digest(verified(last.content, signer.public)),
            follows=digest(before),
            state="barrier_passed",
            barrier=barrier,
        )
        content = signed(signer, receipt)
        told(row.tenant_id, parse_id("era", receipt.operation) or b"", digest(receipt))
        stored = ReceiptRow(row.operation_id, receipt.number, row.tenant_id, content)
        if log.records.transact(lambda transaction: _added(transaction, stored)):  # noqa: B023
            return True


def _added(transaction: Transaction, row: ReceiptRow) -> bool:
    """Store it, unless another receipt of this tenant was signed meanwhile."""
    newest = next(transaction.scan("newest_receipt", tenant_id=row.tenant_id))
    if newest[1] + 1 != row.number:
        return False
    return transaction.change("add_receipt", **row._asdict()) == 1
