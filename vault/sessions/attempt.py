"""Around the transaction of an append: sealing before it, and tidying up when the events are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vault.errors import LimitExceeded, VaultError
from vault.model import BATCH_BYTES_MAX
from vault.sessions.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vault.access.door import Grant
    from vault.model import Event, NewEvent
    from vault.ports.records import BlobRow, SessionRow, Transaction
    from vault.sealing.uses import EpochKeys
    from vault.sessions.log import Log
    from vault.sessions.prepare import Prepared


def prepare_all(
    log: Log, grant: Grant, session: SessionRow, keys: EpochKeys, events: Sequence[NewEvent]
) -> list[Prepared]:
    """Events that are checked, encoded and sealed; of none of them anything is left when one is refused.

    Raises:
        As ``prepare``; LimitExceeded: their payloads are too much together.
    """
    fresh: dict[bytes, BlobRow] = {}
    try:
        prepared = [prepare(log, grant, session, keys, new, fresh) for new in events]
        if sum(len(one.body) for one in prepared) > BATCH_BYTES_MAX:
            raise LimitExceeded(
                f"the payloads of a batch hold at most {BATCH_BYTES_MAX} bytes together; split it"
            )
    except VaultError:
        _discard(log, fresh.values())
        raise
    return prepared


def transacted(
    log: Log, work: Callable[[Transaction], list[Event]], prepared: Sequence[Prepared]
) -> list[Event]:
    """The work's result; what was uploaded for events that were refused is deleted again.

    Raises:
        As the work, and as ``Records.transact``.
    """
    refused = False

    def run(transaction: Transaction) -> list[Event]:
        nonlocal refused
        refused = True  # until it is done: what the commit itself meets later may leave the rows in place
        result = work(transaction)
        refused = False
        return result

    try:
        return log.records.transact(run)
    except BaseException:
        if refused:
            _discard(log, [one.blob for one in prepared])
        raise


def _discard(log: Log, blobs: Iterable[BlobRow]) -> None:
    """Delete what was uploaded for events that are not stored: nothing will ever name it."""
    for blob in blobs:
        if blob.content_id and not blob.no and blob.body is None:
            log.blobs.delete(blob.address)
