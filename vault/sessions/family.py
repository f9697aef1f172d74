"""A session and its branches: what it was forked from, up to the first, and what was forked from those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vault.errors import LimitExceeded, NotFound, RolledBack, Tampered
from vault.sealing.renewal import renewal_of
from vault.sessions.log import check_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.access.door import Grant
    from vault.ports.records import Reader, SessionRow
    from vault.sessions.log import Log

#: A fork of a fork of … at most so deep: a read opens each of them.
DEPTH_MAX: Final = 64
#: Branches that are looked through for an effect.
BRANCHES_MAX: Final = 1_000
#: What a fork tells whoever may not read the log that it goes on from: not shared any more, or erased.
GONE: Final = "what this fork shares of another session cannot be read any more; its own events still can"


def member(log: Log, grant: Grant, reader: Reader, session_id: bytes) -> SessionRow:
    """The verified row of another session that the grant gives leave for.

    Raises:
        As ``check_session``.
    """
    leave = grant.of(session_id)
    stored = reader.session(session_id, leave.tenant.tenant_id, leave.owner)
    return _checked(log, leave, reader, session_id, stored)


def _checked(
    log: Log,
    grant: Grant,
    reader: Reader,
    session_id: bytes,
    stored: SessionRow | None,
    *,
    expired_too: bool = False,
) -> SessionRow:
    place = (session_id, grant.tenant.tenant_id, grant.owner)
    expected = log.witness.expected(session_id)
    try:
        return check_session(log, grant, reader, session_id, stored, expected, expired_too=expired_too)
    except RolledBack:
        # The snapshot began before this was called, so what is expected may be a commit since: then it is
        # there in a newer snapshot. What was put back is not.
        with log.records.snapshot() as newer:
            now = newer.session(*place)
            check_session(log, grant, newer, session_id, now, expected, expired_too=expired_too)
        return check_session(log, grant, reader, session_id, stored, None, expired_too=expired_too)


def ancestors(log: Log, grant: Grant, reader: Reader, row: SessionRow) -> Iterator[SessionRow | None]:
    """The sessions that this one was forked from, nearest first; None and no more for one that is closed.

    Raises:
        NotFound: one of them was erased.
        Tampered: one of them was changed or removed, or does not hold what was forked.
    """
    for _ in range(DEPTH_MAX):
        if row.forked_from is None:
            return
        base = _base(log, grant, reader, row.session_id, row.forked_from)
        if base is None:
            yield None
            return
        # Else an older state of it could be put back where neither this process nor the ledger knew better.
        if not _holds(reader, base, row.base_seq, row.base_chain):
            raise Tampered("the event that a session was forked at is not in the one that it was forked from")
        row = base
        yield row
    if row.forked_from is None:
        return
    raise LimitExceeded(f"a fork is at most {DEPTH_MAX} deep; export the session and import it as a new one")


def _holds(reader: Reader, base: SessionRow, seq: int, chain: bytes) -> bool:
    """Whether a chain value stands in a verified session's log, or stood there before it was sealed anew."""
    if (chain,) == next(reader.scan("chain_at", session_no=base.no, seq=seq), None):
        return True
    return (seq, chain) in renewal_of(base.renewed).stood


def _base(log: Log, grant: Grant, reader: Reader, session_id: bytes, forked_from: bytes) -> SessionRow | None:
    """The session that another one was forked from; None when it is somebody else's and there is no leave."""
    leave = grant.of(session_id)
    stored = reader.session(forked_from, leave.tenant.tenant_id, leave.owner)
    # One of the same owner of whom the key is there, and the row is not, was removed: that is told below.
    if stored is not None or log.keys.has_epoch(leave.owner, forked_from):
        grant.same(forked_from, session_id)
        # By its time alone nothing goes that a fork of the same owner shares.
        return _checked(log, leave, reader, forked_from, stored, expired_too=True)
    others = grant.along(forked_from)
    if others is None:
        return None
    stored = reader.session(forked_from, others.tenant.tenant_id, others.owner)
    try:
        return _checked(log, others, reader, forked_from, stored)
    except NotFound:
        return None  # erased or expired: for somebody else's forks as if it were not shared any more


def family(
    log: Log, grant: Grant, reader: Reader, row: SessionRow, *, whole: bool = True
) -> list[SessionRow]:
    """The session, its ancestors, and the owner's branches of any of them; the session itself first.

    Ancestors are named under MACs. A branch is found by index: one that a tamperer hides is missed until
    ``verify``. What others made of a session that was shared with them is theirs, and not looked at.

    Args:
        log: the parts.
        grant: leave for the session.
        reader: a snapshot.
        row: the session, verified.
        whole: refuse when an ancestor is closed: what happened there cannot be known.

    Raises:
        NotFound: an ancestor is closed.
        LimitExceeded: more than ``BRANCHES_MAX`` of them.
    """
    found = {row.session_id: row}
    for ancestor in ancestors(log, grant, reader, row):
        if ancestor is not None:
            found[ancestor.session_id] = ancestor
        elif whole:
            raise NotFound(GONE)
    waiting = list(found)
    while waiting:
        place = {"session_id": waiting.pop(), "tenant_id": grant.tenant.tenant_id, "owner": grant.owner}
        for (session_id,) in list(reader.scan("forks_of", **place)):
            if session_id in found:
                continue
            try:
                found[session_id] = member(log, grant, reader, session_id)
            except NotFound:
                continue  # erased meanwhile: what it committed is told by nobody any more
            waiting.append(session_id)
            if len(found) > BRANCHES_MAX:
                raise LimitExceeded(f"a session and its branches are at most {BRANCHES_MAX} together")
    return list(found.values())
