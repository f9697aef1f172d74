"""A fork: a session that shares another one's log up to an event, by reference; the original is untouched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vault.errors import Conflict, InvalidInput, LimitExceeded
from vault.model import LEVELS, format_id
from vault.policy.effects import COMMITTED
from vault.ports.records import EventsQuery
from vault.sessions.family import DEPTH_MAX
from vault.sessions.log import check_session
from vault.sessions.place import locate
from vault.sessions.read import Part, read, rows_of, shared_of, verified_view

if TYPE_CHECKING:
    from vault.access.door import Grant
    from vault.model import Event
    from vault.ports.records import EventRow, Transaction
    from vault.sessions.log import Log
    from vault.sessions.read import View

#: Facts of the world behind the fork point that a fork's document names; the newest of them.
WORLD_MAX: Final = 100
#: What restoring the talk does not restore.
_OF_THE_WORLD: Final = ("environment.snapshot", COMMITTED)


class Base(NamedTuple):
    """Where a fork leaves the log that it shares: whose event that is, its place, chain value and time."""

    session_id: bytes
    seq: int
    chain: bytes
    recorded_us: int
    document: dict[str, Any]
    leave: Grant  # to read that session


def base_of(log: Log, grant: Grant, session_id: bytes, at: str | None) -> Base:
    """The fork point, verified, and what of the world stays as it is.

    Raises:
        NotFound: there is no such session, or ``at`` is no event of it.
        InvalidInput: the session has no event yet, so there is nothing to share.
        LimitExceeded: a fork of a fork deeper than ``DEPTH_MAX``.
        InvalidInput: a part of it is somebody else's, and is not shared in full.
    """
    with verified_view(log, grant, session_id) as found:
        holder, row = _newest(found) if at is None else locate(found, at)
        _check_whole(grant, found)
        shared, head = shared_of(found), found.row.head_seq
        depth = len(found.older) - [found, *found.older].index(holder) + 1
    if depth > DEPTH_MAX:
        raise LimitExceeded(
            f"a fork is at most {DEPTH_MAX} deep; export the session and import it as a new one"
        )
    part = Part(
        types=_OF_THE_WORLD, low=row.seq, high=head + 1, limit=WORLD_MAX, newest_first=True, shared=shared
    )
    world = [_named(event) for event in read(log, grant, session_id, part)][::-1]
    document = {"of": format_id("ses", session_id), "at": format_id("evt", row.event_id), "not_forked": world}
    # Of a fork of a fork, the session that holds the event: so the way back stays short.
    base_id = holder.row.session_id
    return Base(base_id, row.seq, row.chain, row.recorded_us, document, grant.of(base_id))


def check_still_there(log: Log, base: Base, transaction: Transaction) -> None:
    """Make sure, where the fork is stored, that what it goes on from is what was looked at.

    Raises:
        NotFound: it was erased, or is being.
        Conflict: it was sealed anew.
    """
    place = (base.session_id, base.leave.tenant.tenant_id, base.leave.owner)
    row = transaction.session(*place)
    row = check_session(log, base.leave, transaction, base.session_id, row, None, expired_too=True)
    if (base.chain,) != next(transaction.scan("chain_at", session_no=row.no, seq=base.seq), None):
        raise Conflict("the session was sealed anew at the same moment; fork it again")


def _check_whole(grant: Grant, found: View) -> None:
    """Whether all that a fork would share can be read in full by whoever makes it."""
    levels = {grant.of(strand.row.session_id).level for strand in (found, *found.older)}
    if found.gone or levels != {LEVELS[-1]}:
        raise InvalidInput(
            "a part of this session is somebody else's and not shared in full: it has no forks"
        )


def _newest(found: View) -> tuple[View, EventRow]:
    for strand in (found, *found.older):
        low = strand.row.base_seq
        rows = rows_of(strand, EventsQuery(strand.row.no, low, strand.until, 1, newest_first=True))
        if rows:
            return strand, rows[0]
    raise InvalidInput("this session has no event yet, so there is nothing to fork; create a new one")


def _named(event: Event) -> dict[str, Any]:
    said = event.payload if isinstance(event.payload, dict) else {}
    return {"type": event.type, "event": event.id, "kind": said.get("kind")}
