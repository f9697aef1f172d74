"""A session's log sealed anew, as a whole: under fresh keys, or with what it shares of another one in it.

A copy is made beside the log (`copied_log`), page by page. Then one transaction deletes the old rows and
stores the new ones, with the few that were written meanwhile. So a crash leaves either log whole. The
session's row says since which version it is another one (`sealing/renewal`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from vault.encoding import canonical_json
from vault.erasure.fence import keys_of, stored_session
from vault.errors import Conflict, NotFound, StorageUnavailable, Tampered
from vault.policy.epochs import key_number
from vault.ports.records import BlobRow, EventsQuery, RunRow
from vault.sealing import rows
from vault.sealing.payload import seal
from vault.sealing.renewal import renewal_of
from vault.sessions.amend import RULES_CHANGED
from vault.sessions.log import RETRACTED, decode_tails, open_about
from vault.sessions.read import View, retracted_of, rows_of
from vault.sessions.witness import head_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vault.erasure.copied_log import Copy
    from vault.ports.records import EventRow, Reader, SessionRow, Transaction
    from vault.sealing.notes import Head
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log, Retracted

#: How often a copy is made to follow what was written meanwhile.
TRIES: Final = 20
_PAGE: Final = 200
#: Events that are added while writers wait: some 20 ms.
_LAST_MAX: Final = 100
_ALL: Final = 2**31 - 1
ABSENT: Final = "there is no such session"
#: What of a session's row is another when its log was sealed anew.
_CHANGED: Final = (
    "no",
    "state",
    "version",
    "epoch",
    "head_chain",
    "tails",
    "forked_from",
    "base_seq",
    "base_chain",
    "renewed",
    "about",
    "mac",
)


def opened(log: Log, tenant: TenantKeys, reader: Reader, session_id: bytes, expected: Head | None) -> View:
    """A session of a tenant, whoever owns it, verified; for the vault's own work.

    Args:
        log, tenant, session_id: which one.
        reader: the snapshot.
        expected: ``log.witness.expected`` as it was before the snapshot began.

    Raises:
        NotFound: there is none, or it is being erased.
        Tampered: it was changed or rolled back.
    """
    row = stored_session(reader, tenant, session_id)
    if row is None or row.state == "erasing":
        raise NotFound(ABSENT)
    keys = keys_of(log, tenant, row)
    if keys is None:
        raise Tampered("a session's row does not verify: it was changed, moved or forged")

    def chain_at(seq: int) -> bytes | None:
        found = next(reader.scan("chain_at", session_no=row.no, seq=seq), None)
        return found[0] if found else None

    log.witness.check(expected, row, chain_at)
    return View(reader=reader, row=row, keys=keys, until=row.head_seq + 1)


def pages(
    log: Log, tenant: TenantKeys, session_id: bytes, low: int, high: int | None = None
) -> Iterator[tuple[View, list[EventRow], Retracted, dict[int, BlobRow]]]:
    """A session's own events behind a place, each page verified in its own snapshot; the last is empty."""
    while True:
        expected = log.witness.expected(session_id)
        with log.records.snapshot() as reader:
            found = opened(log, tenant, reader, session_id, expected)
            end = found.row.head_seq + 1 if high is None else high
            page, gone, blobs = _page(log, found, low, end)
        yield found, page, gone, blobs
        if not page:
            return
        low = page[-1].seq


def _page(log: Log, found: View, low: int, end: int) -> tuple[list[EventRow], Retracted, dict[int, BlobRow]]:
    page = rows_of(found, EventsQuery(found.row.no, low, end, _PAGE)) if end - low > 1 else []
    blobs = {}
    for number in dict.fromkeys(row.blob_no for row in page if row.blob_no is not None):
        for row in found.reader.scan("blob_whole", no=number, session_no=found.row.no):
            blobs[number] = BlobRow._make(row)
    return page, retracted_of(log, found), blobs


def follow(copy: Copy) -> None:
    """Add what stands in the session's own log behind what was copied.

    Raises:
        Conflict: its keys were replaced, or events of it erased, since the copy was begun.
    """
    for found, page, gone, blobs in pages(copy.log, copy.tenant, copy.row.session_id, copy.seq):
        _take(copy, found, page, gone, blobs)
        if copy.progress is not None:
            copy.progress(len(copy.events), len(copy.events) + found.row.head_seq - copy.seq)


def _take(copy: Copy, found: View, page: list[EventRow], gone: Retracted, blobs: dict[int, BlobRow]) -> None:
    if found.row.epoch != copy.row.epoch or _facts(found.row) != _facts(copy.row):
        raise Conflict("the session was erased of or sealed anew at the same moment; try again")
    copy.row = found.row
    copy.take(found, page, gone, blobs)


def _caught_up(copy: Copy, transaction: Transaction) -> bool:
    """Add what was written at the last moment, where that is quickly done: no file, no fresh key, one page.

    A session that is written to all the time is never still, so this is done while writers wait.
    """
    log, session_id = copy.log, copy.row.session_id
    found = opened(log, copy.tenant, transaction, session_id, log.witness.expected(session_id))
    if found.row.head_seq - copy.seq > _LAST_MAX:
        return False
    page, gone, blobs = _page(log, found, copy.seq, found.row.head_seq + 1)
    whose = (copy.row.owner, session_id)
    for row in page:
        known = not row.epoch or log.keys.has_epoch(*whose, key_number(copy.own, row.epoch))
        if row.body is None or not known:
            return False
    _take(copy, found, page, gone, blobs)
    return True


def is_another(copy: Copy) -> bool:
    """Whether the session was sealed anew by somebody else since the copy was begun."""
    with copy.log.records.snapshot() as reader:
        row = stored_session(reader, copy.tenant, copy.row.session_id)
    return row is not None and row.renewed != copy.row.renewed


def _facts(row: SessionRow) -> int:
    return decode_tails(row.tails).types.get(RETRACTED, 0)


def swapped(copy: Copy, guard: Callable[[Transaction], bool] = lambda _: True) -> SessionRow | None:
    """Put a copy in the log's place; None when the session is another by now.

    Args:
        copy: followed to the session's head.
        guard: asked in the transaction whether the copy is still wanted.

    Raises:
        NotFound: the session is being erased.
        Tampered: the database does not take it.
    """
    log, files = copy.log, list[bytes]()

    def work(transaction: Transaction) -> SessionRow | None:
        files.clear()
        now = stored_session(transaction, copy.tenant, copy.row.session_id)
        if now is None or now.state == "erasing":
            raise NotFound(ABSENT)
        if (now != copy.row and not _caught_up(copy, transaction)) or not guard(transaction):
            return None
        now = copy.row
        files.extend(
            address for _, address in transaction.scan("area_blobs_of", session_no=now.no, limit=_ALL)
        )
        after = _after(copy, transaction)
        transaction.change("fence_session", session_id=now.session_id, tenant_id=now.tenant_id)
        _replace_rows(copy, transaction)
        if transaction.change("renew_session", **_renewing(after, now.mac)) != 1:
            raise Tampered(RULES_CHANGED)
        transaction.heads[now.session_id] = after
        return after

    after = log.records.transact(work)
    if after is None:
        return None
    log.witness.saw([head_of(after)])
    log.keys.forget_scope(after.session_id)
    log.renewed[after.session_id] = after
    log.appended(after.session_id, 0)
    _delete_files(log, set(files) - _files_of(copy))
    log.records.truncate()
    return after


def discard(copy: Copy) -> None:
    """Delete the files of a copy that nothing will ever name."""
    with copy.log.records.snapshot() as reader:
        scanned = reader.scan("area_blobs_of", session_no=copy.row.no, limit=_ALL)
        there = {address for _, address in scanned}
    _delete_files(copy.log, _files_of(copy) - there)


def _files_of(copy: Copy) -> set[bytes]:
    return {blob.address for blob in copy.blobs.values() if blob.body is None}


def _delete_files(log: Log, addresses: set[bytes]) -> None:
    for address in addresses:
        # What stays is named by nothing, so `fsck --remove` finds and deletes it.
        with contextlib.suppress(StorageUnavailable):
            log.blobs.delete(address)


def _renewing(after: SessionRow, before: bytes) -> dict[str, Any]:
    return {name: getattr(after, name) for name in _CHANGED} | {"expected_mac": before}


def _replace_rows(copy: Copy, transaction: Transaction) -> None:
    number = copy.row.no
    transaction.change("delete_events", session_no=number, limit=_ALL)
    transaction.change("delete_blobs", session_no=number)
    numbers = {content_id: transaction.add_blob(blob) for content_id, blob in copy.blobs.items()}
    for event, content_id in copy.events:
        transaction.add_event(event._replace(blob_no=numbers[content_id]) if content_id else event)
    for tag, event in copy.tags:
        transaction.add_touch(tag, event)
    newest = decode_tails(copy.row.tails)
    for run_id, count in copy.runs.items():
        if run_id == newest.run_id:
            count = newest.run_from  # noqa: PLW2901 - what of it was kept when another run took over
        if count:
            kept = RunRow(number, run_id, count, b"")
            mac = rows.run_mac(copy.keys.mac, copy.row.session_id, kept)
            transaction.keep_run(kept._replace(mac=mac))


def _after(copy: Copy, transaction: Transaction) -> SessionRow:
    """The session's row with the copy as its log."""
    row, log = copy.row, copy.log
    tails = decode_tails(row.tails)
    kept = sum(count for run_id, count in copy.runs.items() if run_id != tails.run_id) + tails.run_from
    tails = tails._replace(types=copy.types, refs=copy.refs, kept=kept)
    before = keys_of(log, copy.tenant, row)
    if before is None:
        raise Tampered("a session's row does not verify: it was changed, moved or forged")
    about = canonical_json(open_about(before, row))
    after = row._replace(
        version=row.version + 1,
        epoch=copy.own,
        head_chain=copy.chain,
        tails=tails.encoded(),
        forked_from=copy.base.forked_from,
        base_seq=copy.base.base_seq,
        base_chain=copy.base.base_chain,
        renewed=renewal_of(row.renewed).again(row.version + 1, _forked(transaction, row)).encoded(),
        about=seal(copy.keys.payload, copy.keys.context(b"about"), about, log.sealing),
    )
    return after._replace(mac=rows.session_mac(copy.keys.mac, after))


def _forked(transaction: Transaction, row: SessionRow) -> set[tuple[int, bytes]]:
    """The places that forks go on from, with the chain values that they name and that do stand there."""
    found = set()
    for seq, chain in list(transaction.scan("places_forked", session_id=row.session_id)):
        if (chain,) == next(transaction.scan("chain_at", session_no=row.no, seq=seq), None):
            found.add((seq, chain))
    return found
