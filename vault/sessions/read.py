"""Reading a part of the log so that nothing in it can be missing, moved, repeated or forged.

Every row carries its place among all events, among those of its type, and among those of its run, under its
MAC. A read checks that the places it returns follow each other, that they begin after the row before them,
and that they end at the session's verified counts or before the row behind them. So what a filtered read
leaves out is proved too, at the cost of at most two more rows.
"""

from __future__ import annotations

import contextlib
import heapq
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from vault.clock import monotonic_seconds
from vault.errors import KeyUnavailable, NotFound, Tampered
from vault.ports.records import EventsQuery
from vault.sealing import rows
from vault.sessions.family import GONE, ancestors
from vault.sessions.log import (
    NOTHING_RETRACTED,
    RETRACTED,
    Retracted,
    check_event,
    check_session,
    decode_event,
    decode_tails,
    epoch_keys,
    opened_event,
)
from vault.sessions.runs import proven_count
from vault.sessions.witness import head_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.access.door import Grant
    from vault.model import Event
    from vault.ports.records import EventRow, Reader, SessionRow
    from vault.sealing.notes import Head
    from vault.sealing.uses import EpochKeys
    from vault.sessions.log import Log

#: Rows per snapshot while iterating: short enough to hold back nobody, few enough to hold in memory.
_PAGE: Final = 200
_STEP: Final = 4
#: How long a page's rows are opened without another look: whoever reads slowly holds them for hours.
_LOOK_SECONDS: Final = 1.0
#: Sessions of which it is remembered what was erased of them.
_RETRACTED_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which part of a log: places between two others, of some types or of a run, at most so many."""

    types: tuple[str, ...] | None = None
    run_id: bytes | None = None
    low: int = 0
    high: int | None = None
    limit: int | None = None
    newest_first: bool = False
    outside_runs: bool = False  # only events that belong to no run
    shared: tuple[
        tuple[bytes, int], ...
    ] = ()  # of a fork: whose log comes before it, nearest first, until where


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One session in one snapshot, verified; for a fork, with those that it was forked from, nearest first.

    ``until`` is the first place that is not its own as seen from the session that was asked for. ``gone``:
    what stands before the last of these is somebody else's and cannot be read.
    """

    reader: Reader
    row: SessionRow
    keys: EpochKeys
    until: int
    older: tuple[View, ...] = ()
    gone: bool = False


@contextlib.contextmanager
def verified_view(log: Log, grant: Grant, session_id: bytes) -> Iterator[View]:
    """A snapshot of one session, verified; short: nothing else may happen inside.

    Raises:
        As ``view``.
    """
    for last in (False, True):
        expected = log.witness.expected(session_id)  # before the snapshot: later commits are not in it
        with log.records.snapshot() as reader:
            try:
                found = view(log, grant, session_id, reader, expected)
            except KeyUnavailable:
                if last:
                    raise
                continue  # its keys may have been replaced between the two looks
            yield found
            return


def view(log: Log, grant: Grant, session_id: bytes, reader: Reader, expected: Head | None) -> View:
    """The verified session of a snapshot.

    Raises:
        NotFound: there is none for this grant.
        Tampered: it was changed, removed or rolled back.
    """
    leave = grant.of(session_id)
    stored = reader.session(session_id, leave.tenant.tenant_id, leave.owner)
    is_part = grant.is_part(session_id)
    row = check_session(log, leave, reader, session_id, stored, expected, expired_too=is_part)
    log.witness.saw([head_of(row)])
    if next(reader.scan("event_behind", session_no=row.no, seq=row.head_seq), None):
        raise Tampered("an event stands behind the session's newest one: it is forged")
    older: list[View] = []
    until, gone = row.base_seq + 1, False
    for base in ancestors(log, grant, reader, row) if row.forked_from is not None else ():
        if base is None:
            gone = True
            break
        keys = epoch_keys(log, grant, base.session_id, base.epoch)
        older.append(View(reader=reader, row=base, keys=keys, until=until))
        until = min(until, base.base_seq + 1)
    keys = epoch_keys(log, grant, session_id, row.epoch, again=True)
    return View(reader=reader, row=row, keys=keys, until=row.head_seq + 1, older=tuple(older), gone=gone)


def shared_of(found: View) -> tuple[tuple[bytes, int], ...]:
    """Whose log comes before a fork's own, nearest first, and until where; empty for any other session.

    One that cannot be read has no name.
    """
    shared = [(base.row.session_id, base.until) for base in found.older]
    last = found.older[-1] if found.older else found
    nameless = [(b"", min(last.until, last.row.base_seq + 1))] if found.gone else []
    return (*shared, *nameless)


def read(log: Log, grant: Grant, session_id: bytes, part: Part) -> Iterator[Event]:
    """The events of a part, page by page, each page from one snapshot.

    Raises:
        Tampered: a row or payload was changed, moved, removed, repeated or forged.
    """
    if not part.shared:
        return islice(_read_one(log, grant, session_id, part), part.limit)
    pieces = _pieces(session_id, part)
    return islice(chain.from_iterable(_read_one(log, grant, *piece) for piece in pieces), part.limit)


def _pieces(session_id: bytes, part: Part) -> list[tuple[bytes, Part]]:
    """A part of a fork's log as parts of the logs that it is made of."""
    pieces, high = [], part.high
    for owner, (_, until) in zip(
        [session_id, *(base for base, _ in part.shared)], [*part.shared, (b"", 1)], strict=True
    ):
        low = max(part.low, until - 1)
        if high is None or high - low > 1:
            pieces.append((owner, replace(part, low=low, high=high)))
        high = until if high is None else min(high, until)
    return pieces if part.newest_first else pieces[::-1]


def _within_run(log: Log, grant: Grant, session_id: bytes, part: Part, run_id: bytes) -> Part:
    """The part between the first and the last event of a run: what else stands there is passed over."""
    with verified_view(log, grant, session_id) as found:
        span = EventsQuery(found.row.no, part.low, found.row.head_seq + 1, 1, None, run_id)
        first, last = rows_of(found, span), rows_of(found, span._replace(newest_first=True))
    if not first:
        return replace(part, high=part.low + 1)
    high = last[0].seq + 1 if part.high is None else min(part.high, last[0].seq + 1)
    return replace(part, low=first[0].seq - 1, high=high)


def _read_one(log: Log, grant: Grant, session_id: bytes, part: Part) -> Iterator[Event]:
    """The events of a part within one session's own log."""
    if not session_id:
        raise NotFound(GONE)
    types = part.types
    if types is None:
        return _stream(log, grant, session_id, part, None)
    if part.run_id is not None:
        part = _within_run(log, grant, session_id, part, part.run_id)
    # One proven stream per type, merged by place: a list of types costs what its events cost.
    streams = [_stream(log, grant, session_id, part, name) for name in dict.fromkeys(types)]
    return heapq.merge(*streams, key=lambda event: event.seq, reverse=part.newest_first)


def rows_of(found: View, query: EventsQuery) -> list[EventRow]:
    """The rows of a query, proved to be all there are between its ends.

    Raises:
        Tampered: a row was changed, moved, removed, repeated or forged.
    """
    stored = found.reader.events(query)
    headers = [check_event(found.keys, found.row.session_id, row) for row in stored]
    places = [_place(query, row) for row in stored]
    ascending = stored if not query.newest_first else stored[::-1]
    if query.newest_first:
        places.reverse()
        headers.reverse()
    for row in stored:
        if not query.low < row.seq < query.high:
            raise Tampered("the database answered with an event of another place")
    if places != list(range(places[0] if places else 0, (places[0] if places else 0) + len(places))):
        raise Tampered("an event was removed from the log, repeated or moved")
    full = len(stored) == query.limit
    starts = places[0] if places else None
    if not (full and query.newest_first):
        before = _place_before(found, query)
        ends = _place_behind(found, query) if not (full and not query.newest_first) else None
        _meet(before, starts, places, ends)
    elif places[-1] != _place_behind(found, query) - 1:
        raise Tampered("the newest events were removed from the log")
    if query.type is None and query.run_id is None:
        _check_chain(found, ascending, headers)
    return stored


def _meet(before: int, starts: int | None, places: list[int], ends: int | None) -> None:
    """The places found begin after the one before them, and end before the one behind them."""
    if starts is not None and starts != before + 1:
        raise Tampered("an event was removed from the log, or moved")
    last = places[-1] if places else before
    if ends is not None and last != ends - 1:
        raise Tampered("the newest events were removed from the log")


def _place(query: EventsQuery, row: EventRow) -> int:
    if (query.type is not None and row.type != query.type) or (
        query.run_id is not None and row.run_id != query.run_id
    ):
        raise Tampered("the database answered with an event of another type or run")
    if query.type is not None:
        return row.type_nth
    return row.seq if query.run_id is None else row.run_nth


def _place_before(found: View, query: EventsQuery) -> int:
    """The place, in this stream, of the last event at or before ``query.low``; 0 when there is none."""
    if query.type is None and query.run_id is None:
        return query.low
    if query.low <= found.row.base_seq:
        return 0
    beyond = query._replace(low=0, high=query.low + 1, limit=1, newest_first=True)
    return _neighbour(found, beyond) or 0


def _place_behind(found: View, query: EventsQuery) -> int:
    """The place, in this stream, of the first event at or after ``query.high``; one past the last without."""
    if query.type is None and query.run_id is None:
        return min(query.high, found.row.head_seq + 1)
    if query.high <= found.row.head_seq:
        beyond = query._replace(low=query.high - 1, high=found.row.head_seq + 1, limit=1, newest_first=False)
        place = _neighbour(found, beyond)
        if place is not None:
            return place
    if query.type is not None:
        return decode_tails(found.row.tails).types.get(query.type, 0) + 1
    return proven_count(found.reader, found.keys, found.row, query.run_id or b"") + 1


def _neighbour(found: View, query: EventsQuery) -> int | None:
    stored = found.reader.events(query)
    if not stored:
        return None
    check_event(found.keys, found.row.session_id, stored[0])
    if not query.low < stored[0].seq < query.high:
        raise Tampered("the database answered with an event of another place")
    return _place(query, stored[0])


def retracted_of(log: Log, found: View) -> Retracted:
    """What of a session's own log was erased while it lives on; nothing is read when nothing was.

    Raises:
        Tampered: a fact that says so was changed, moved, removed or forged.
    """
    session_id, count = found.row.session_id, decode_tails(found.row.tails).types.get(RETRACTED, 0)
    if not count:
        return NOTHING_RETRACTED
    kept = session_id + found.row.renewed  # a log that was sealed anew may have taken over facts of another
    known = log.retracted.get(kept, NOTHING_RETRACTED)
    if known.facts == count:
        return known
    # An older snapshot than another thread's is read from the beginning, and not kept.
    if newer := known.facts > count:
        known = NOTHING_RETRACTED
    while known.facts < count:
        query = EventsQuery(found.row.no, known.through, found.row.head_seq + 1, _PAGE, RETRACTED)
        for row in rows_of(found, query):
            said = opened_event(log, found.keys, session_id, row).payload
            events, epochs = known.events.union(said["events"]), known.epochs.union(said["epochs"])
            known = Retracted(row.type_nth, row.seq, events, epochs)
    if not newer:
        if len(log.retracted) >= _RETRACTED_MAX:
            log.retracted.clear()
        log.retracted[kept] = known
    return known


def _check_chain(found: View, stored: list[EventRow], headers: list[bytes]) -> None:
    """The rows follow each other in the one chain that leads to the session's head."""
    for previous, row, header in zip(stored, stored[1:], headers[1:], strict=False):
        if rows.event_chain(previous.chain, header, row.salt) != row.chain:
            raise Tampered("an event does not follow the one before it: it is of another history")
    if not stored:
        return
    first, last = stored[0], stored[-1]
    if (
        first.seq == found.row.base_seq + 1
        and rows.event_chain(rows.start_of(found.row), headers[0], first.salt) != first.chain
    ):
        raise Tampered("the first event does not begin the session's chain")
    if last.seq == found.row.head_seq:
        if last.chain != found.row.head_chain:
            raise Tampered("the newest event is not the one that the session's head names")
        return
    behind = found.reader.events(EventsQuery(found.row.no, last.seq, last.seq + 2, 1))
    if not behind:
        raise Tampered("an event was removed from the log")
    row = behind[0]
    header = check_event(found.keys, found.row.session_id, row)
    if rows.event_chain(last.chain, header, row.salt) != row.chain:
        raise Tampered("an event is not followed by the one that was: it is of another history")


def _decoded(log: Log, grant: Grant, found: View, row: EventRow, gone: Retracted) -> Event:
    """The event of a row of a page; read again where the log was sealed anew, or erased, since the page was.

    Raises:
        As ``decode_event``; NotFound: the session was erased.
    """
    session_id = found.row.session_id
    try:
        return decode_event(log, grant, found.keys, session_id, row, gone)
    except (KeyUnavailable, Tampered):
        with verified_view(log, grant, session_id) as now:
            if now.row.renewed == found.row.renewed:
                raise
            (row,) = rows_of(now, EventsQuery(now.row.no, row.seq - 1, row.seq + 1, 1))
            gone = retracted_of(log, now)
        return decode_event(log, grant, now.keys, session_id, row, gone)


def _opened_page(
    log: Log, grant: Grant, found: View, stored: list[EventRow], gone: Retracted
) -> Iterator[Event]:
    """The events of a page's rows, one when it is asked for; what was erased meanwhile is not opened.

    Raises:
        As ``_decoded``.
    """
    looked = monotonic_seconds()
    for row in stored:
        if monotonic_seconds() - looked > _LOOK_SECONDS:
            with verified_view(log, grant, found.row.session_id) as now:
                gone = retracted_of(log, now)
            looked = monotonic_seconds()
        yield _decoded(log, grant, found, row, gone)


def _stream(log: Log, grant: Grant, session_id: bytes, part: Part, name: str | None) -> Iterator[Event]:
    low, high, left = part.low, part.high, part.limit
    mixed = name is not None and part.run_id is not None  # a type's events of other runs are passed over
    step = _STEP if part.newest_first else _PAGE  # from the end one often looks for a single event
    while True:
        page = step if left is None else min(_PAGE, left)
        step = min(4 * step, _PAGE)
        with verified_view(log, grant, session_id) as found:
            end = found.row.head_seq + 1 if high is None else min(high, found.row.head_seq + 1)
            run_id = None if mixed else part.run_id
            query = EventsQuery(found.row.no, low, end, page, name, run_id, part.newest_first)
            stored = rows_of(found, query) if end - low > 1 else []
            gone = retracted_of(log, found) if any(row.epoch for row in stored) else NOTHING_RETRACTED
        wanted = [
            row
            for row in stored
            if not (mixed and row.run_id != part.run_id) and not (part.outside_runs and row.run_id)
        ]
        yield from _opened_page(log, grant, found, wanted, gone)
        if left is not None and not mixed:
            left -= len(stored)
        if len(stored) < page or left == 0:
            return
        if part.newest_first:
            high = stored[-1].seq
        else:
            low = stored[-1].seq
