"""Fresh keys for one session, and everything of it sealed anew under them: for when its keys got out.

The fresh keys are durable first, then the log is sealed anew in one transaction, then the old keys go. Cut
off anywhere, the session opens as before or as after; running it again replaces what there is by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from vault.erasure.copied_log import Copy
from vault.erasure.fence import SESSION
from vault.erasure.needles import needles
from vault.erasure.resealing import ABSENT, TRIES, discard, follow, is_another, opened, swapped
from vault.errors import Conflict, Erased, KeyUnavailable, NotFound, Tampered
from vault.model import session_bytes
from vault.policy.epochs import event_epoch, key_number, own_number, renewed
from vault.policy.plan import Item

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.erasure.service import Parts
    from vault.ports.records import SessionRow
    from vault.sealing.uses import TenantKeys

#: The type of the entry in the audit trail.
REENCRYPTED: Final = "session.reencrypted"
_BUSY: Final = "the session is written to all the time, or sealed anew by another process; try again"


class Reencrypted(NamedTuple):
    """How many events were sealed anew, how many keys replaced.

    ``clean``: no piece of the old keys and rows that was looked for is left in any file of the vault; else
    somebody still reads, or the database is too large to be written anew.
    """

    events: int
    keys: int
    clean: bool


def reencrypted(parts: Parts, session_id: str, progress: Callable[[int, int], None] | None) -> Reencrypted:
    """Replace a session's keys by fresh ones, and seal all of it anew under them.

    Its own events, payloads, title and labels; what it shares with the session that it was forked from is
    that one's, and derived items keep their own keys. Its id, its events' ids, places and times stay, and
    what was erased stays so. Forks of it, shares, runs and holds go on.

    Raises:
        As ``Custody.reencrypt``.
    """
    log, raw = parts.log, session_bytes(session_id)
    expected = log.witness.expected(raw)
    with log.records.snapshot() as reader:
        whose = next(reader.scan("whose", id=raw), None)
        tenant = None if whose is None else log.keys.tenant_by_id(whose[0])
        if tenant is None:
            raise NotFound(ABSENT)
        row = opened(log, tenant, reader, raw, expected).row
    if row.owner == parts.spared(tenant):
        raise NotFound(ABSENT)
    return _reencrypted(parts, tenant, row, progress)


def _reencrypted(
    parts: Parts, tenant: TenantKeys, row: SessionRow, progress: Callable[[int, int], None] | None
) -> Reencrypted:
    log, store, session_id = parts.log, parts.store, row.session_id
    old_pieces = needles(
        log, store, tenant, [Item(session_id, SESSION, row.owner, "erase", "root", session_id, 0, 0)]
    )
    own = renewed(max(map(own_number, store.epochs_of(session_id)), default=row.epoch))
    keys = _fresh(parts, tenant, row, own)
    copy = Copy(log, tenant, row, own, log.keys.epoch(tenant, row.owner, session_id, own), row, progress)
    try:
        _put(copy)
    except BaseException:
        discard(copy)
        raise
    log.keys.forget_scope(session_id)
    # Only what is older: whoever was faster than this process has made higher numbers, and goes by them.
    old = [number for number in store.epochs_of(session_id) if own_number(number) < own]
    truncated = store.drop("epoch", session_id, old) and log.records.truncate()
    (seen,) = parts.execution.prove.searched([[bytes.fromhex(piece) for _, piece in old_pieces]])
    parts.trail.write(tenant, REENCRYPTED, b"", session_id, {"events": len(copy.events), "keys": keys})
    return Reencrypted(len(copy.events), keys, truncated and seen.looked and not seen.remains)


def _put(copy: Copy) -> None:
    for _ in range(TRIES):
        try:
            follow(copy)
        except (KeyUnavailable, Tampered):
            if not is_another(copy):
                raise
            break  # another process was faster: the keys and files that this one reads are gone
        if swapped(copy) is not None:
            return
    raise Conflict(_BUSY)


def _fresh(parts: Parts, tenant: TenantKeys, row: SessionRow, own: int) -> int:
    """Fresh keys for every epoch that the session has; how many."""
    made = 0
    for number in parts.store.epochs_of(row.session_id):
        if own_number(number) == row.epoch:
            try:
                fresh = key_number(own, event_epoch(number))
                parts.log.keys.create_epoch(tenant, row.owner, row.session_id, fresh, instead_of=number)
            except Erased:
                continue  # it went at this moment
            made += 1
    return made
