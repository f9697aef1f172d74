"""What a fork shares of a session whose time is over becomes the fork's own, so that the session can go.

Only by policy, and only among sessions of one owner: what a person asked to be erased takes its forks along.
The shared part is sealed anew under the fork's keys (`resealing`); the fork reads as before. It is left where
it is, and the session stays as long as the fork does, where that would change what a fork is told: behind the
fork point the session holds facts of effects, which its forks must not repeat; or events of the one or the
other were erased in ways that a log of both could not tell apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vault.erasure.copied_log import Copy
from vault.erasure.resealing import TRIES, discard, follow, opened, pages, swapped
from vault.errors import Conflict, Erased, KeyUnavailable, LimitExceeded, NotFound, Tampered
from vault.model import EVENT_TYPES_MAX
from vault.policy import effects
from vault.ports.records import EventsQuery
from vault.sessions.log import RETRACTED, decode_tails
from vault.sessions.read import retracted_of, rows_of

if TYPE_CHECKING:
    from vault.erasure.service import Parts
    from vault.ports.records import Reader, SessionRow, Transaction
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log
    from vault.sessions.read import View

#: What keeps one fork from taking over what it shares: it, and its original, stay as they are.
_LEFT: Final = (Conflict, Erased, KeyUnavailable, LimitExceeded, NotFound, Tampered)


def adopted(parts: Parts, tenant: TenantKeys, session_id: bytes) -> int:
    """Let the forks of a session's owner take over what they share with it; how many did.

    Nothing is lost where a process is cut off: each fork is changed in one transaction of its own.
    """
    log = parts.log
    expected = log.witness.expected(session_id)
    with log.records.snapshot() as reader:
        try:
            base = opened(log, tenant, reader, session_id, expected).row
        except (NotFound, Tampered):
            return 0
        place = {"session_id": session_id, "tenant_id": tenant.tenant_id, "owner": base.owner}
        forks = [fork for (fork,) in reader.scan("forks_of", **place)]
    done = 0
    for fork in forks:
        try:
            done += _adopted(log, tenant, base, fork)
        except _LEFT:
            continue
    return done


def _adopted(log: Log, tenant: TenantKeys, base: SessionRow, fork: bytes) -> bool:
    seen = [log.witness.expected(base.session_id), log.witness.expected(fork)]
    with log.records.snapshot() as reader:
        of = opened(log, tenant, reader, base.session_id, seen[0])
        row = opened(log, tenant, reader, fork, seen[1])
        if row.row.forked_from != base.session_id or not _can(log, of, row):
            return False
        tags = _tags(reader, of, row.row.base_seq)
    copy = Copy(log, tenant, row.row, row.row.epoch, row.keys, base)
    try:
        for found, page, gone, blobs in pages(log, tenant, base.session_id, copy.seq, row.row.base_seq + 1):
            if found.row.mac != of.row.mac:
                return False  # it changes at this moment; the next sweep looks again
            copy.take(found, page, gone, blobs)
        copy.tags = [(tag, one.row) for one in copy.events for tag in tags.get(one.row.seq, ())]
        if copy.seq != row.row.base_seq or _meets(copy, log, row.row):
            return False

        def unchanged(transaction: Transaction) -> bool:
            return opened(log, tenant, transaction, base.session_id, seen[0]).row.mac == of.row.mac

        for _ in range(TRIES):
            follow(copy)
            if len(copy.types) > EVENT_TYPES_MAX:
                return False
            if swapped(copy, unchanged) is not None:
                return True
    except BaseException:
        discard(copy)
        raise
    discard(copy)
    return False


def _can(log: Log, of: View, fork: View) -> bool:
    """Whether a log of both tells what the two tell now."""
    behind = fork.row.base_seq
    for name in (*effects.TYPES, RETRACTED):
        count = decode_tails(of.row.tails).types.get(name, 0)
        if count and rows_of(of, EventsQuery(of.row.no, behind, of.row.head_seq + 1, 1, name)):
            return False
    # A fact that erases a generation speaks of all that its log holds of it.
    return not retracted_of(log, of).epochs and not retracted_of(log, fork).epochs


def _tags(reader: Reader, of: View, until: int) -> dict[int, list[bytes]]:
    """What the shared part changed in the world, by the place of the event."""
    found: dict[int, list[bytes]] = {}
    for tag, _, seq in reader.scan("all_touches_of_session", session_no=of.row.no):
        if seq <= until:
            found.setdefault(seq, []).append(tag)
    return found


def _meets(copy: Copy, log: Log, fork: SessionRow) -> bool:
    """Whether the fork gave an event an id that one of the shared part has too."""
    given = [one.row for one in copy.events if one.row.given_id]
    with log.records.snapshot() as reader:
        return any(reader.event(fork.no, row.event_id) is not None for row in given)
