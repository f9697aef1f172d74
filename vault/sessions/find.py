"""What a person recognises a session by, and the list of them."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from vault.clock import from_us
from vault.encoding import json_value
from vault.errors import InvalidInput, NotFound, Tampered
from vault.model import PAGE_MAX, Holding, Page, RunId, SessionId, SessionSummary, check_name, format_id
from vault.policy.lease import ALIVE_US, decode
from vault.ports.records import EventsQuery
from vault.sessions.log import NOTHING_RETRACTED, decode_event, decode_tails, hour_of, open_about
from vault.sessions.read import retracted_of, rows_of, verified_view
from vault.sessions.readings import noted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vault.access.door import Grant
    from vault.ports.records import EventRow, Reader, SessionRow
    from vault.sessions.log import Log
    from vault.sessions.read import View

    #: Where a session stands in the list: the hour it was used in, when, its number.
    _Place = tuple[int, int, int]

#: Characters of a message preview.
_PREVIEW_MAX: Final = 80
_MESSAGES: Final = ("message.user", "message.assistant")
_CURSOR_BYTES: Final = 16
_END: Final = (2**63 - 1, 2**63 - 1, 2**63 - 1)
#: Payloads above this are not opened for a preview.
_PREVIEW_BYTES_MAX: Final = 2**20


def summary(log: Log, grant: Grant, session_id: bytes) -> SessionSummary:
    """What a list shows of a session, its previews opened from the log: no copy of them is kept.

    Raises:
        NotFound: there is none for this grant.
        Tampered: it was changed, removed or rolled back.
    """
    with verified_view(log, grant, session_id) as found:
        row, keys = found.row, found.keys
        first = _message(found, _MESSAGES[:1], newest=False)
        latest = _message(found, _MESSAGES, newest=True)
    about = open_about(keys, row)
    noted(log, grant, session_id)
    if not grant.own:
        about = log.viewer.about(grant, session_id, about)
    return SessionSummary(
        id=SessionId(format_id("ses", row.session_id)),
        title=about.get("title"),
        labels=about.get("labels", {}),
        config=about.get("config"),
        external_id=about.get("external_id"),
        parent=about.get("parent"),
        state=row.state,
        created_at=from_us(row.created_us),
        last_event_at=from_us(row.updated_us),
        ended_at=from_us(row.ended_us) if row.ended_us else None,
        event_count=row.head_seq,
        first_message=_preview(log, grant, first),
        last_message=_preview(log, grant, latest),
        fork=about.get("fork"),
        shared_through=row.base_seq,
        lease=_holding(row, log.clock.now_us()),
    )


def _holding(row: SessionRow, now_us: int) -> Holding:
    lease = decode(row.lease)
    return Holding(
        run=RunId(format_id("run", bytes.fromhex(lease.run))) if lease.run else None,
        live=lease.is_live(now_us),
        waiting=sum(now_us < ticket.alive_us + ALIVE_US for ticket in lease.queue),
    )


def find(
    log: Log, grant: Grant, labels: Mapping[str, str], state: str | None, limit: int, cursor: str | None
) -> Page:
    """A page of the grant's owner's sessions, last used first.

    Raises:
        InvalidInput: a limit or cursor that this never gave.
        Tampered: a listed session was changed, moved or rolled back.
    """
    # The first label narrows by index; all of them are compared on what is opened anyway.
    first = min(labels.items()) if labels else None
    label = grant.tenant.blind("label", *first) if first else None

    def listed(reader: Reader, before: _Place, count: int) -> list[tuple[bytes, _Place]]:
        rows = reader.sessions(grant.tenant.tenant_id, grant.owner, label=label, before=before, limit=count)
        return [(row.session_id, (row.used_hour, row.updated_us, row.no)) for row in rows]

    def opened(session_id: bytes) -> SessionSummary | None:
        item = _item(log, lambda: grant, session_id)
        if item and first and item.labels.get(first[0]) != first[1]:
            raise Tampered("a label's index points to a session without that label")
        return item if item and labels.items() <= item.labels.items() else None

    return _page(log, listed, opened, state, limit, cursor)


def find_of_tenant(
    log: Log,
    grant: Grant,
    leave: Callable[[bytes], Grant],
    subject: str | None,
    state: str | None,
    limit: int,
    cursor: str | None,
) -> Page:
    """A page of the sessions of the grant's tenant, or of one subject in it, last used first.

    ``leave`` asks the door about each of them: what it may not show, as the audit trail, is not there.

    Raises:
        As ``find``.
    """
    tenant = grant.tenant

    def listed(reader: Reader, before: _Place, count: int) -> list[tuple[bytes, _Place]]:
        if subject is not None:
            owner = tenant.owner(check_name(subject, "a subject"))
            rows = reader.sessions(tenant.tenant_id, owner, label=None, before=before, limit=count)
            return [(row.session_id, (row.used_hour, row.updated_us, row.no)) for row in rows]
        place = {"used_hour": before[0], "updated_us": before[1], "no": before[2], "limit": count}
        found = reader.scan("sessions_of_tenant", tenant_id=tenant.tenant_id, **place)
        return [_listed(row) for row in found]

    def opened(session_id: bytes) -> SessionSummary | None:
        return _item(log, lambda: leave(session_id), session_id)

    return _page(log, listed, opened, state, limit, cursor)


def _page(
    log: Log,
    listed: Callable[[Reader, _Place, int], list[tuple[bytes, _Place]]],
    opened: Callable[[bytes], SessionSummary | None],
    state: str | None,
    limit: int,
    cursor: str | None,
) -> Page:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= PAGE_MAX:
        raise InvalidInput(f"limit is a whole number from 1 to {PAGE_MAX}")
    before, items = _END if cursor is None else _decode_cursor(cursor), list[SessionSummary]()
    count = limit
    while True:
        with log.records.snapshot() as reader:
            found = listed(reader, before, count + 1)
        for session_id, place in found[:count]:
            # A session that is used meanwhile moves to the front, where a fresh first page shows it; on the
            # pages that follow none is shown twice.
            before = place
            item = opened(session_id)
            if item is not None and state in {None, item.state}:
                items.append(item)
                if len(items) == limit:
                    more = place != found[-1][1]
                    return Page(items=tuple(items), next_cursor=_encode_cursor(before) if more else None)
        if len(found) <= count:
            return Page(items=tuple(items), next_cursor=None)
        # Much is left out, as by many that expired: each look sorts all of an hour, so fewer are taken.
        count = min(4 * count, PAGE_MAX)


def _listed(row: tuple[Any, ...]) -> tuple[bytes, _Place]:
    session_id, used_hour, updated_us, number = row
    if not isinstance(session_id, bytes) or {*map(type, (used_hour, updated_us, number))} != {int}:
        raise Tampered("the database holds a value of the wrong kind")
    return session_id, (used_hour, updated_us, number)


def _item(log: Log, leave: Callable[[], Grant], session_id: bytes) -> SessionSummary | None:
    try:
        return summary(log, leave().anew(), session_id)
    except NotFound:
        return None  # erased since it was listed, or not to be shown


def _message(found: View, types: tuple[str, ...], *, newest: bool) -> tuple[View, EventRow] | None:
    """The first or newest message, in a fork's own log or in what it shares, and the keys that open it."""
    strands = [found, *found.older]
    for strand in strands if newest else strands[::-1]:
        best = None
        counts = decode_tails(strand.row.tails).types
        for name in types:
            if not counts.get(name):
                continue
            query = EventsQuery(strand.row.no, strand.row.base_seq, strand.until, 1, name, None, newest)
            stored = rows_of(strand, query)
            if stored and (best is None or stored[0].seq > best.seq):
                best = stored[0]
        if best is not None:
            return strand, best
    return None


def _preview(log: Log, grant: Grant, message: tuple[View, EventRow] | None) -> str | None:
    if message is None or message[1].size > _PREVIEW_BYTES_MAX:
        return None
    found, row = message
    gone = retracted_of(log, found) if row.epoch else NOTHING_RETRACTED
    event = decode_event(log, grant, found.keys, found.row.session_id, row, gone)
    text = _text(event.payload if event.raw is None else _parsed(event.raw))
    if text is None:
        return None
    line = " ".join(text[: _PREVIEW_MAX * 4].split())
    return line if len(line) <= _PREVIEW_MAX else line[: _PREVIEW_MAX - 1] + "…"


def _parsed(raw: bytes) -> Any:
    """The value of raw bytes that are JSON, as a transcript's lines are."""
    try:
        return json_value(raw)
    except ValueError:
        return None


def _text(payload: Any) -> str | None:
    """The text of a message in the common shapes: a string, ``content`` or ``text``, or parts of them."""
    if isinstance(payload, str):
        return payload
    if isinstance(payload, dict):
        return _text(payload.get("content", payload.get("text", payload.get("message"))))
    if isinstance(payload, list):
        parts = [text for part in payload[:20] if (text := _text(part)) is not None]
        return " ".join(parts) if parts else None
    return None


def _encode_cursor(before: tuple[int, int, int]) -> str:
    _, updated_us, no = before
    return base64.urlsafe_b64encode(updated_us.to_bytes(8) + no.to_bytes(8)).decode()


def _decode_cursor(cursor: str) -> tuple[int, int, int]:
    try:
        raw = base64.urlsafe_b64decode(cursor)
    except (binascii.Error, ValueError, TypeError):
        raw = b""
    if len(raw) != _CURSOR_BYTES:
        raise InvalidInput("cursor is the next_cursor of an earlier page")
    updated_us, no = int.from_bytes(raw[:8]), int.from_bytes(raw[8:])
    if max(updated_us, no) >= 2**63:
        raise InvalidInput("cursor is the next_cursor of an earlier page")
    return hour_of(updated_us), updated_us, no
