"""Deleting what is fenced and has no key any more: rows in small transactions, files before their rows.

Keys go before (`execute`), so what is deleted here is unreadable already, and a crash leaves only ciphertext
that the next attempt deletes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vault.erasure.fence import SESSION, stored_session
from vault.errors import StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vault.policy.plan import Item
    from vault.ports.records import SessionRow, Transaction
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log

#: Rows that one transaction deletes: some 8 ms, so that a live writer waits no longer.
ROWS_MAX: Final = 200
_PAUSE_SECONDS: Final = 0.0005  # long enough for one who waits to be woken
#: Every so many transactions the log is shortened: some 10 MB of it.
_SHORTENED_EVERY: Final = 25
#: In this order: what refers to others goes first.
_OF_SESSIONS: Final = ("delete_touches", "delete_events", "delete_inline_blobs")


@dataclass(slots=True)
class Deleted:
    """What was deleted: rows and files; ``left`` are files that the blob area did not give up."""

    rows: int = 0
    blobs: int = 0
    left: int = 0


class _File(NamedTuple):
    address: bytes
    then: tuple[tuple[str, dict[str, Any]], ...]  # named statements, once the file is gone


class _Part(NamedTuple):
    items: int  # how many from the front are finished
    rows: int
    files: tuple[_File, ...] = ()  # of the next one: they go before the rows that name them


def delete(
    log: Log,
    tenant: TenantKeys,
    items: Sequence[Item],
    step: Callable[[str], None],
    progress: Callable[[str, int, int], None],
) -> Deleted:
    """Delete sessions and derived items, in the order given. Deleting what is gone is harmless.

    Args:
        log: the parts.
        tenant: whose.
        items: fenced, their keys destroyed: what the sealed plan says, so it is not asked again here.
        step: told before each transaction and each file.
        progress: told ("rows", sessions and items done, in all) and ("files", files done, found so far).

    Raises:
        StorageUnavailable: the database did not take it; try again.
    """
    done, waiting, parts = Deleted(), deque(items), 0
    while waiting:
        step("delete rows")
        part = log.records.transact(lambda transaction: _part(transaction, tenant, waiting))
        # Who waits for the write lock in another process gets it in between, and not one of the next times.
        log.records.wait_commit(log.records.commits(), _PAUSE_SECONDS)
        parts += 1
        if parts % _SHORTENED_EVERY == 0:
            log.records.shorten()
        done.rows += part.rows
        for _ in range(part.items):
            waiting.popleft()
        if part.files and _delete_files(log, part.files, done, step, progress):
            waiting.popleft()  # what names them stays, so that the next attempt finds them again
        progress("rows", len(items) - len(waiting), len(items))
    return done


def _delete_files(
    log: Log,
    files: tuple[_File, ...],
    done: Deleted,
    step: Callable[[str], None],
    progress: Callable[[str, int, int], None],
) -> bool:
    """Delete files, then the rows that name them; whether some could not be deleted."""
    gone, left, found = [], 0, done.blobs + done.left + len(files)
    for number, file in enumerate(files, start=done.blobs + done.left):
        progress("files", number, found)
        step("delete a file")
        try:
            log.blobs.delete(file.address)
            gone.append(file)
        except StorageUnavailable:
            left += 1
    progress("files", found, found)
    step("delete rows of files")

    def work(transaction: Transaction) -> int:
        return sum(transaction.change(name, **given) for file in gone for name, given in file.then)

    done.rows += log.records.transact(work)
    done.blobs += len(gone)
    done.left += left
    return left > 0


def _part(transaction: Transaction, tenant: TenantKeys, waiting: deque[Item]) -> _Part:
    """Delete about ``ROWS_MAX`` rows of what waits."""
    finished, rows = 0, 0
    for item in waiting:
        if item.kind == SESSION:
            row = stored_session(transaction, tenant, item.id)
            part = _Part(1, 0) if row is None else _session(transaction, row, ROWS_MAX - rows)
        else:
            part = _item(transaction, tenant, item.id)
        finished, rows = finished + part.items, rows + part.rows
        if not part.items:
            return _Part(finished, rows, part.files)
        if rows >= ROWS_MAX:
            break
    return _Part(finished, rows)


def _session(transaction: Transaction, row: SessionRow, budget: int) -> _Part:
    if row.state != "erasing":  # its key is gone, so a fence that somebody tore down is put up again
        transaction.change("fence_session", session_id=row.session_id, tenant_id=row.tenant_id)
    rows = 0
    for statement in _OF_SESSIONS:
        rows += transaction.change(statement, session_no=row.no, limit=budget - rows)
        if rows >= budget:
            return _Part(0, rows)
    files = tuple(
        _File(address, (("delete_blob", {"no": no}),))
        for no, address in transaction.scan("area_blobs_of", session_no=row.no, limit=ROWS_MAX)
    )
    if files:
        return _Part(0, rows, files)
    rows += transaction.change("delete_lineage_from", source=row.session_id)
    rows += transaction.change("delete_runs", session_no=row.no)
    rows += transaction.change("delete_session", no=row.no)
    return _Part(1, rows)


def _item(transaction: Transaction, tenant: TenantKeys, item_id: bytes) -> _Part:
    found = next(transaction.scan("item_file", item_id=item_id, tenant_id=tenant.tenant_id), None)
    if found is None:
        return _Part(1, 0)
    no, state, address, in_area = found
    if state != "erasing":
        transaction.change("fence_item", item_id=item_id, tenant_id=tenant.tenant_id)
    then = (
        ("delete_lineage_of", {"item_no": no}),
        ("delete_lineage_from", {"source": item_id}),
        ("delete_item", {"no": no}),
    )
    if in_area:
        return _Part(0, 0, (_File(address, then),))
    return _Part(1, sum(transaction.change(name, **given) for name, given in then))
