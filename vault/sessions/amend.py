"""Changing a session's row while its log stays as it is: its end, its lease, who waits for it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, TypeVar

from vault.clock import monotonic_seconds
from vault.errors import Busy, SessionEnded, Tampered, VaultError
from vault.policy import lease as leases
from vault.policy.lease import decode, encode, revoke
from vault.sealing import rows
from vault.sessions.log import due_hour, epoch_keys, verified_session
from vault.sessions.read import verified_view
from vault.sessions.witness import head_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.access.door import Authorise, Grant
    from vault.policy.lease import Lease
    from vault.ports.records import SessionRow, Transaction
    from vault.sessions.log import Log

T = TypeVar("T")

#: How soon a waiting run sees that another process gave the lease back, and how often it says that it waits.
_POLL_SECONDS: Final = 0.05
_WORD_SECONDS: Final = leases.ALIVE_US / 3 / 1_000_000
RULES_CHANGED: Final = "the database does not take a session's new head: its rules were changed"


def end(log: Log, grant: Grant, session_id: bytes) -> SessionRow:
    """End a session: it stays readable and takes no more events. Ending it twice is harmless.

    A run that is active loses its lease with it.
    """

    def ended(row: SessionRow) -> SessionRow:
        if row.state != "active":
            return row
        lease = encode(revoke(decode(row.lease))) if row.lease else row.lease
        row = row._replace(state="ended", ended_us=max(log.clock.now_us(), row.updated_us), lease=lease)
        return row._replace(due_hour=due_hour(row))

    row = amend(log, grant, session_id, ended)
    log.appended(session_id, 0)
    return row


def change_lease(
    log: Log, grant: Grant, session_id: bytes, change: Callable[[Lease, int], Lease]
) -> SessionRow:
    """Change a session's lease and nothing else; an unchanged one is not written.

    Raises:
        SessionEnded: the session takes no more runs.
        Fenced, Busy: what ``change`` finds.
    """

    def changed(row: SessionRow) -> SessionRow:
        if row.state != "active":
            raise SessionEnded
        before = decode(row.lease)
        after = change(before, log.clock.now_us())
        return row if after == before else row._replace(lease=encode(after))

    return amend(log, grant, session_id, changed)


def amend(
    log: Log, grant: Grant, session_id: bytes, change: Callable[[SessionRow], SessionRow]
) -> SessionRow:
    """Change a session's row by compare-and-set, its log as it is.

    Raises:
        NotFound: there is none for this grant.
        Tampered: it was changed, or removed.
    """

    def work(transaction: Transaction) -> SessionRow:
        row = verified_session(log, grant, transaction, session_id)
        after = change(row)
        if after is row:
            return row
        keys = epoch_keys(log, grant, session_id, row.epoch)
        after = after._replace(version=row.version + 1)
        after = after._replace(mac=rows.session_mac(keys.mac, after))
        if not transaction.move_session(after, row):
            raise Tampered(RULES_CHANGED)
        transaction.heads[session_id] = after
        return after

    row = log.records.transact(work)
    log.witness.saw([head_of(row)])
    return row


def in_turn(
    log: Log,
    authorise: Authorise,
    session_id: bytes,
    run: str,
    attempt: Callable[[], T],
    wait_seconds: float,
) -> T:
    """What ``attempt`` gives once the lease is this run's, in the order of arrival among those that wait.

    Raises:
        Busy: it was not its turn in time, or too many wait.
        InvalidInput: the number of seconds is out of range.
    """
    leases.check_seconds(wait_seconds, "wait", low=0, high=leases.WAIT_SECONDS_MAX)
    deadline = monotonic_seconds() + wait_seconds
    try:
        while True:
            try:
                return attempt()
            except Busy:
                if monotonic_seconds() >= deadline:
                    raise
            leave = authorise("append", recorded=False)  # every attempt is recorded; waiting for one is not
            change_lease(log, leave, session_id, lambda lease, now_us: leases.wait(lease, run, now_us))
            _watch(log, authorise, session_id, run, deadline)
    except BaseException:
        with contextlib.suppress(VaultError):
            leave = authorise("append", recorded=False)
            change_lease(log, leave, session_id, lambda lease, _: leases.leave(lease, run))
        raise


def _watch(log: Log, authorise: Authorise, session_id: bytes, run: str, deadline: float) -> None:
    """Wait until this run is next, or for as long as its place in the queue holds without a word."""
    until = min(deadline, monotonic_seconds() + _WORD_SECONDS)
    while monotonic_seconds() < until:
        commits = log.records.commits()
        with verified_view(log, authorise("read", recorded=False), session_id) as found:
            if leases.is_next(leases.decode(found.row.lease), run, log.clock.now_us()):
                return
        log.records.wait_commit(commits, min(_POLL_SECONDS, max(until - monotonic_seconds(), 0)))
