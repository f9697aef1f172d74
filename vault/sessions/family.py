"""A session and its branches: what it was forked from, up to the first, and what was forked from those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vault.errors import LimitExceeded, NotFound, RolledBack, Tampered
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


def member(log: Log, grant: Grant, reader: Reader, session_id: bytes) -> SessionRow:
    """The verified row of another session of the same owner.

    Raises:
        As ``check_session``.
    """
    place = (session_id, grant.tenant.tenant_id, grant.owner)
    expected = log.witness.expected(session_id)
    try:
        return check_session(log, grant, reader, session_id, reader.session(*place), expected)
    except RolledBack:
        # The snapshot began before this was called, so what is expected may be a commit since: then it is
        # there in a newer snapshot. What was put back is not.
        with log.records.snapshot() as newer:
            check_session(log, grant, newer, session_id, newer.session(*place), expected)
        return check_session(log, grant, reader, session_id, reader.session(*place), None)


def ancestors(log: Log, grant: Grant, reader: Reader, row: SessionRow) -> Iterator[SessionRow]:
    """The sessions that this one was forked from, nearest first.

    Raises:
        NotFound: one of them was erased.
        Tampered: one of them was changed or removed, or does not hold what was forked.
    """
    for _ in range(DEPTH_MAX):
        if row.forked_from is None:
            return
        base = member(log, grant, reader, row.forked_from)
        # Else an older state of it could be put back where neither this process nor the ledger knew better.
        if (row.base_chain,) != next(reader.scan("chain_at", session_no=base.no, seq=row.base_seq), None):
            raise Tampered("the event that a session was forked at is not in the one that it was forked from")
        row = base
        yield row
    if row.forked_from is None:
        return
    raise LimitExceeded(f"a fork is at most {DEPTH_MAX} deep; export the session and import it as a new one")


def family(log: Log, grant: Grant, reader: Reader, row: SessionRow) -> list[SessionRow]:
    """The session, its ancestors, and every branch of any of them; the session itself first.

    Ancestors are named under MACs. A branch is found by index: one that a tamperer hides is missed until
    ``verify``.

    Raises:
        LimitExceeded: more than ``BRANCHES_MAX`` of them.
    """
    found = {row.session_id: row}
    for ancestor in ancestors(log, grant, reader, row):
        found[ancestor.session_id] = ancestor
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
