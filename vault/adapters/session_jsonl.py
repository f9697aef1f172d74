"""Session JSONL, the vault's own interchange: a header line, then one event per line, readable with jq.

``docs/reference/interchange.md`` describes every field. A raw payload is the last field of its line, so that
a large one is written and read as a stream; every other line is held in memory while it is worked on.
"""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from vault.adapters import Access, ImportReport, Progress, Session, parse_object
from vault.adapters.intake import Base64Tail, Intake, Lines, Problems, is_stream
from vault.adapters.session_lines import EffectOrder, event_fields, event_of, iso_time, present, raw_field
from vault.encoding import json_bytes
from vault.errors import Conflict, InvalidInput, LineRefused, NewerVault, NotFound
from vault.model import (
    EAGER_BYTES_MAX,
    EVENT_TYPES_MAX,
    JSON_BYTES_MAX,
    Event,
    NewEvent,
    SessionSummary,
    event_bytes,
)

FORMAT: Final = "session-vault-jsonl"
VERSION: Final = 1
#: An ordinary line: the largest JSON payload with all of it escaped, and its envelope.
LINE_BYTES_MAX: Final = 3 * JSON_BYTES_MAX
#: A line longer than this is read as a stream when its raw payload is.
_HEAD_BYTES: Final = 2 * EAGER_BYTES_MAX
_CHUNK_BYTES: Final = 3 * 2**16  # a multiple of 3, so that base64 pieces join without padding
_PROGRESS_LINES: Final = 200
_STREAM_MARK: Final = b',"raw_base64":"'

_SESSION_FIELDS: Final = ("title", "labels", "config", "external_id", "parent")


# ------------------------------------------------------------------------------------------------ export


def export_session(session: Session, out: BinaryIO, *, progress: Progress | None = None) -> int:
    """Write the session to ``out``, event by event; return the number of events.

    The same log always gives the same bytes. ``progress`` gets the lines and bytes written.
    """
    done = out.write(_line({"format": FORMAT, "version": VERSION, "session": _header(session.info())}))
    events = 0
    for event in session.events():
        for piece in _event_pieces(event, session):
            done += out.write(piece)
        events += 1
        if progress is not None and events % _PROGRESS_LINES == 0:
            progress(events + 1, done)
    if progress is not None:
        progress(events + 1, done)
    return events


def _header(info: SessionSummary) -> dict[str, Any]:
    return present(
        id=info.id,
        title=info.title,
        labels=dict(sorted(info.labels.items())) or None,
        config=info.config,
        external_id=info.external_id,
        parent=info.parent,
        state=info.state,
        created_at=iso_time(info.created_at),
        ended_at=iso_time(info.ended_at),
        event_count=info.event_count,
    )


def _event_pieces(event: Event, session: Session) -> Iterator[bytes]:
    """The line of an event in pieces: one, unless its raw payload is streamed."""
    fields = event_fields(event)
    if event.payload is not None:
        # Joined as bytes: a payload as deep as JSON may be would be too deep one level further in.
        yield _escape(json_bytes(fields)[:-1] + b',"payload":' + json_bytes(event.payload) + b"}\n")
    elif event.raw is not None:
        yield _line(fields | raw_field(event.raw))
    elif event.streamed:
        with session.open(event) as stream:
            yield from _streamed_pieces(fields, stream)
    else:
        yield _line(fields)


def _streamed_pieces(fields: dict[str, Any], stream: BinaryIO) -> Iterator[bytes]:
    yield _escape(json_bytes(fields)[:-1]) + _STREAM_MARK
    while chunk := _read_exactly(stream, _CHUNK_BYTES):
        yield base64.b64encode(chunk)
    yield b'"}\n'


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    """``size`` bytes, or what is left: a stream may give less than it was asked for before its end."""
    parts: list[bytes] = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _line(fields: dict[str, Any]) -> bytes:
    return _escape(json_bytes(fields)) + b"\n"


def _escape(encoded: bytes) -> bytes:
    r"""Write U+0085, U+2028 and U+2029 as ``\uXXXX``: some readers take them for line ends.

    They can stand in strings only, and no other UTF-8 sequence contains these bytes.
    """
    encoded = encoded.replace(b"\xc2\x85", b"\\u0085")
    return encoded.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


# ------------------------------------------------------------------------------------------------ import


def import_session(
    source: BinaryIO, access: Access, *, strict: bool = False, progress: Progress | None = None
) -> ImportReport:
    """Make a session of what ``export_session`` wrote: the same events in the same order, under their ids.

    The session gets a new id; one that had ended is ended again. A damaged line is reported and costs no
    other line. ``progress`` gets the lines and bytes read.

    Raises:
        InvalidInput: nothing in it is of this format; with ``strict``, any line is damaged, and then nothing
            is imported. ``strict`` reads twice, so it needs a source that can seek.
        NewerVault: a newer version of the format.
        Conflict: the header's external id belongs to a session that is here already.
    """
    if strict:
        if not source.seekable():
            raise InvalidInput("a strict import reads its source twice: give a file, not a pipe")
        start = source.tell()
        check(source).refuse_any()
        source.seek(start)
    problems = Problems()
    incoming = _Incoming(source, problems)
    header = incoming.header()
    events = incoming.events()
    first = next(events, None)
    if first is None and not incoming.has_header:
        raise InvalidInput("no line of it is a header or an event of session JSONL")
    session = _create(access, header, problems, strict=strict)
    intake = Intake(session, problems=None if strict else problems)
    for event in itertools.chain([] if first is None else [first], events):
        batched = intake.add(event, line=incoming.lines.number, size=incoming.lines.size)
        if batched and progress is not None:
            progress(incoming.lines.number, incoming.lines.bytes)
    intake.flush()
    if incoming.ended:
        session.end()
    if progress is not None:
        progress(incoming.lines.number, incoming.lines.bytes)
    return ImportReport(
        sessions=(session.id,),
        events=intake.appended,
        lines=incoming.lines.number,
        bytes=incoming.lines.bytes,
        problems=problems.listed,
        problems_total=problems.total,
    )


def check(source: BinaryIO) -> Problems:
    """What is wrong with a file, without importing anything; some 100 bytes are kept per event.

    Raises:
        NewerVault: a newer version of the format.
    """
    problems = Problems()
    incoming = _Incoming(source, problems)
    incoming.header()
    ids: set[bytes] = set()
    types: set[str] = set()
    order = EffectOrder()
    for event in incoming.events():
        number = incoming.lines.number
        if is_stream(event.raw):
            try:
                while event.raw.read(_CHUNK_BYTES):
                    pass
            except LineRefused as refusal:
                problems.add(number, str(refusal))
        if event.event_id is not None:
            known = len(ids)
            ids.add(event_bytes(event.event_id))
            if len(ids) == known:
                problems.add(number, "an event id that an earlier line has")
        if event.type not in types and len(types) == EVENT_TYPES_MAX:
            problems.add(number, f"more than {EVENT_TYPES_MAX} different event types in one session")
        else:
            types.add(event.type)
        try:
            order.check(event)
        except Conflict as refusal:
            problems.add(number, str(refusal))
    return problems


def _create(access: Access, header: dict[str, Any], problems: Problems, *, strict: bool) -> Session:
    try:
        return access.sessions.create(**header)
    except NotFound:
        if header.get("parent") is None:
            raise
        problems.add(1, "the session's parent is not here, so the link to it was left out")
        return _create(access, header | {"parent": None}, problems, strict=strict)
    except InvalidInput as refusal:
        if strict:
            raise
        problems.add(1, str(refusal))
        return access.sessions.create()


class _Incoming:
    """A file as its header and its events; what is damaged goes to ``problems``, line by line."""

    def __init__(self, source: BinaryIO, problems: Problems) -> None:
        self.lines = Lines(source, _HEAD_BYTES)
        self.has_header = False
        self.ended = False
        self._problems = problems
        self._first: bytes | None = None
        self._announced = 0

    def header(self) -> dict[str, Any]:
        """The arguments of ``Sessions.create`` from the first line; none when it is not a header.

        Raises:
            NewerVault: a newer version of the format.
        """
        self._first = self.lines.head()
        try:
            fields = parse_object(self._first or b"") if not self.lines.more else {}
        except LineRefused:
            return {}
        if fields.get("format") != FORMAT:
            return {}
        if fields.get("version") != VERSION:
            raise NewerVault("this file was written by a newer version of the program; update it to import")
        self.has_header = True
        session = fields.get("session")
        if not isinstance(session, dict) or not isinstance(session.get("labels"), dict | None):
            self._problems.add(1, "the header's session or its labels are not an object")
            return {}
        count = session.get("event_count")
        self._announced = count if type(count) is int else 0
        self.ended = session.get("state") == "ended"
        return {name: session[name] for name in _SESSION_FIELDS if name in session}

    def events(self) -> Iterator[NewEvent]:
        """The events after the header; ``lines.number`` is where the current one stands."""
        seen = 0
        head = self.lines.head() if self.has_header else self._first
        while head is not None:
            if self.lines.more or head.strip():
                seen += 1
                event = self._event_or_none(head)
                if self.lines.number == 1:
                    self._problems.add(1, "not a header" if event is None else "an event instead of a header")
                if event is not None:
                    yield event
            head = self.lines.head()
        if seen < self._announced:
            self._problems.add(
                self.lines.number + 1, "the file ends before the events that its header counts"
            )

    def _event_or_none(self, head: bytes) -> NewEvent | None:
        try:
            return self._event(head)
        except InvalidInput as refusal:
            if self.lines.number > 1:
                self._problems.add(self.lines.number, str(refusal))
            return None

    def _event(self, head: bytes) -> NewEvent:
        mark = head.find(_STREAM_MARK) if self.lines.more else -1
        if mark > 0:
            try:
                # Inside a string its quotes would be escaped, inside an inner object this does not close.
                fields = parse_object(head[:mark] + b"}")
            except LineRefused:
                pass
            else:
                encoded = Base64Tail(self.lines, head[mark + len(_STREAM_MARK) :])
                return event_of(fields, io.BufferedReader(encoded))
        return event_of(parse_object(self.lines.whole(head, LINE_BYTES_MAX)))
