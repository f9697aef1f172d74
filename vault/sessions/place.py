"""Where something stands in a log: an event by its id, the first one since a time, a part by filters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vault.clock import to_us
from vault.encoding import json_value
from vault.errors import InvalidInput, NotFound, Tampered
from vault.model import check_type, event_bytes, run_bytes
from vault.ports.records import EventsQuery
from vault.sealing.payload import unseal
from vault.sessions.family import GONE
from vault.sessions.log import check_event
from vault.sessions.read import Part, rows_of, shared_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from vault.ports.records import EventRow
    from vault.sessions.read import View


def find_event(found: View, event_id: str) -> EventRow:
    """The verified row of an event id.

    Raises:
        InvalidInput: not an event id.
        NotFound: the session has no such event.
        Tampered: it was changed, moved or removed.
    """
    return locate(found, event_id)[1]


def locate(found: View, event_id: str) -> tuple[View, EventRow]:
    """The session that holds an event, of a fork and those before it, and the event's verified row.

    Raises:
        As ``find_event``.
    """
    asked = event_bytes(event_id)
    for view_of in (found, *found.older):
        stored = _event_in(view_of, asked)
        if stored is not None and stored.seq < view_of.until:
            return view_of, stored
    raise NotFound(GONE if found.gone else "there is no such event in this session")


def place_of(found: View, event_id: str) -> int:
    """The place of an event in the log; of a fork also that of its fork point, when it cannot be read.

    Raises:
        As ``find_event``.
    """
    if found.gone:
        last = found.older[-1] if found.older else found
        about = json_value(unseal(last.keys.payload, last.keys.context(b"about"), last.row.about))
        if about["fork"]["at"] == event_id:
            return last.row.base_seq
    return find_event(found, event_id).seq


def _event_in(found: View, asked: bytes) -> EventRow | None:
    stored = found.reader.event(found.row.no, asked)
    if stored is None:
        seq = int.from_bytes(asked[-4:])  # its place, in an id that the vault made: is that one still whole?
        if found.row.base_seq < seq <= found.row.head_seq:
            rows_of(found, EventsQuery(found.row.no, seq - 1, seq + 1, 1))
        return None
    check_event(found.keys, found.row.session_id, stored)
    if stored.event_id != asked:
        raise Tampered("the database answered with another event")
    return stored


def part_of(
    found: View,
    *,
    types: Iterable[str] | None,
    run: str | None,
    after: str | None,
    before: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int | None,
    newest_first: bool,
) -> Part:
    """The part that a caller's filters name; times and ids become places in the log.

    Raises:
        InvalidInput: a filter is malformed, or ``newest_first`` has no limit.
        NotFound: ``after`` or ``before`` names no event of this session.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidInput("limit is a whole number from 1")
    if newest_first and limit is None:
        raise InvalidInput("newest_first needs a limit, so that it costs what it returns")
    low, high = 0, found.row.head_seq + 1
    if after is not None:
        low = max(low, place_of(found, after))
    if before is not None:
        high = min(high, place_of(found, before))
    if since is not None:
        low = max(low, _first_since(found, to_us(since)) - 1)
    if until is not None:
        high = min(high, _first_since(found, to_us(until)))
    return Part(
        types=None if types is None else tuple(check_type(name) for name in types),
        run_id=None if run is None else run_bytes(run),
        low=low,
        high=high,
        limit=limit,
        newest_first=newest_first,
        shared=shared_of(found),
    )


def _first_since(found: View, moment_us: int) -> int:
    """The first place recorded at or after a time, the rows on both sides of it verified."""
    seq = found.reader.first_seq_since(found.row.no, moment_us, found.until - 1)
    low, high = max(seq - 2, found.row.base_seq), min(seq + 1, found.until)
    around = rows_of(found, EventsQuery(found.row.no, low, high, 2)) if high - low > 1 else []
    for row in around:
        if (row.recorded_us >= moment_us) != (row.seq >= seq):
            raise Tampered("the times in the log were changed")
    if found.older and seq <= found.row.base_seq + 1:
        # What a fork shares is older than what it holds: the place may be further back.
        rest = replace(found.older[0], older=found.older[1:], gone=found.gone)
        return min(seq, _first_since(rest, moment_us))
    if found.gone and seq <= found.row.base_seq + 1:
        raise NotFound(GONE)
    return seq
