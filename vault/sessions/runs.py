"""How many events each run of a session wrote: kept in a row when another run takes over, and proved on read.

A row's MAC says that it was written once, not that it is the newest. So the session's own row, whose newest
state is known, holds the sum of all kept counts: they only grow, so the sum is right only when every one is
the newest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vault.errors import Tampered
from vault.ports.records import RunRow
from vault.sealing import rows
from vault.sessions.log import decode_tails

if TYPE_CHECKING:
    from vault.ports.records import Reader, SessionRow
    from vault.sealing.uses import EpochKeys


def kept_count(reader: Reader, keys: EpochKeys, row: SessionRow, run_id: bytes) -> int:
    """How many events a run had when another took over; not proved to be the newest count.

    Raises:
        Tampered: the row was changed.
    """
    kept = reader.run(row.no, run_id)
    if kept is None:
        return 0
    rows.check(rows.run_mac(keys.mac, row.session_id, kept), kept.mac, "a run's row")
    if kept.run_id != run_id:
        raise Tampered("the database answered with another run's count")
    return kept.written


def proven_count(reader: Reader, keys: EpochKeys, row: SessionRow, run_id: bytes) -> int:
    """How many events a run wrote in all, at the cost of one row for each run of the session.

    Raises:
        Tampered: a run's row was changed, removed or put back to an older one.
    """
    tails = decode_tails(row.tails)
    if run_id == tails.run_id:
        return tails.run_count
    kept: dict[bytes, int] = {}
    for stored in map(RunRow._make, reader.scan("all_runs_of_session", session_no=row.no)):
        rows.check(rows.run_mac(keys.mac, row.session_id, stored), stored.mac, "a run's row")
        kept[stored.run_id] = stored.written
    if sum(kept.values()) != tails.kept:
        raise Tampered("a run's kept count was removed or put back")
    return kept.get(run_id, 0)
