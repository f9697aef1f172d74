"""A session as its owner's code holds it: append, read, follow, end."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from vault.clock import monotonic_seconds
from vault.errors import InvalidInput
from vault.model import BATCH_MAX, NewEvent, SessionId, format_id
from vault.sessions.append import append, end
from vault.sessions.find import summary
from vault.sessions.log import open_stream
from vault.sessions.read import Part, find_event, part_of, read, verified_view

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime

    from vault.access.door import Grant
    from vault.model import Event, SessionSummary
    from vault.ports.records import SessionRow
    from vault.sessions.log import Log
    from vault.sessions.read import View

#: Longest pause between two looks of ``follow``; appends of the same process are seen at once.
_POLL_SECONDS_MAX = 60.0


class Session:
    """One session of its owner. Every call is checked again: a handle is not a permission."""

    def __init__(self, log: Log, authorise: Callable[[str], Grant], row: SessionRow) -> None:
        """Made by ``Sessions``; ``authorise`` gives leave for one action at a time."""
        self._log, self._authorise, self._row = log, authorise, row
        self._id = row.session_id

    @property
    def id(self) -> SessionId:
        """``ses_`` and a UUIDv7."""
        return SessionId(format_id("ses", self._id))

    def __repr__(self) -> str:
        """The id only: everything else is the user's."""
        return f"Session({self.id})"

    def append(
        self,
        type: str,
        payload: Any = None,
        *,
        raw: bytes | BinaryIO | None = None,
        event_id: str | None = None,
        run: str | None = None,
        tool: str | None = None,
        caused_by: str | None = None,
        observed_at: datetime | None = None,
        occurred_at: datetime | None = None,
        usage: dict[str, Any] | None = None,
        level: str = "L3",
        expect_head: int | None = None,
    ) -> Event:
        """Append one event; it is durable when this returns.

        Args:
            type: two or more parts of ``[a-z0-9_-]`` joined by dots, 64 characters at most.
            payload: any JSON value, up to 64 MiB; stored exactly or refused.
            raw: bytes as they are, or a binary file to stream (up to 16 GiB); instead of ``payload``.
            event_id: from ``vault.new_event_id()``, to make a retry safe.
            run, caused_by: the run it belongs to, and the event that led to it.
            tool: name of the tool, up to 256 characters.
            observed_at, occurred_at: when the world was so; when it happened, if not now (imports).
            usage: model parameters and token counts, as JSON.
            level: redaction level, ``L0`` (least sensitive view) to ``L3``.
            expect_head: number of the last event known to the writer (0 for none); refused when behind.

        Raises:
            InvalidInput: something cannot be stored as given; LimitExceeded when it is too large.
            Conflict: the id is stored with other content, or the log has moved past ``expect_head``.
            SessionEnded: the session takes no more events.
            NotFound: there is no such session for this principal any more.
        """
        new = NewEvent(
            type=type,
            payload=payload,
            raw=raw,
            event_id=event_id,
            run=run,
            tool=tool,
            caused_by=caused_by,
            observed_at=observed_at,
            occurred_at=occurred_at,
            usage=usage,
            level=level,
        )
        return append(self._log, self._authorise("append"), self._row, [new], expect_head)[0]

    def append_many(self, events: Iterable[NewEvent], *, expect_head: int | None = None) -> list[Event]:
        """Append up to 1,000 events in one transaction: all of them or none.

        Raises:
            As ``append``.
        """
        batch = list(islice(events, BATCH_MAX + 1))  # one too many is refused, and an endless one ends
        return append(self._log, self._authorise("append"), self._row, batch, expect_head) if batch else []

    def events(
        self,
        *,
        types: Iterable[str] | None = None,
        run: str | None = None,
        after: str | None = None,
        before: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Event]:
        """The events that pass every filter, in the log's order, at the cost of what is returned.

        Args:
            types: only these types.
            run: only this run.
            after: only behind the event of this id.
            before: only before the event of this id.
            since: only recorded at or after this time.
            until: only recorded before this time.
            limit: at most so many.
            newest_first: from the end; needs a limit.

        Raises:
            InvalidInput: a filter is malformed.
            NotFound: no such session, or ``after`` or ``before`` is no event of it.
            Tampered: what is stored is not what was written.
        """
        grant = self._authorise("read")
        with self._view(grant) as found:
            part = part_of(
                found,
                types=[types] if isinstance(types, str) else types,
                run=run,
                after=after,
                before=before,
                since=since,
                until=until,
                limit=limit,
                newest_first=newest_first,
            )
        return read(self._log, grant, self._id, part)

    def slice(self, first_id: str, last_id: str) -> Iterator[Event]:
        """The events from one to another, both included.

        Raises:
            As ``events``; InvalidInput when the first stands behind the last.
        """
        grant = self._authorise("read")
        with self._view(grant) as found:
            first, last = find_event(found, first_id), find_event(found, last_id)
        if first.seq > last.seq:
            raise InvalidInput("the first event of a slice stands behind the last one; swap them")
        return read(self._log, grant, self._id, Part(low=first.seq - 1, high=last.seq + 1))

    def follow(
        self,
        *,
        after: str | None = None,
        poll_seconds: float = 0.1,
        stop: threading.Event | None = None,
        idle_seconds: float | None = None,
    ) -> Iterator[Event]:
        """Catch up, then every new event as it is committed by any process: no gap, no duplicate.

        Args:
            after: start behind this event; from the first one when left out.
            poll_seconds: how soon another process's events are seen, up to 60; this process's are at once.
            stop: ends the iteration when set.
            idle_seconds: ends it when nothing new came for so long; None waits until the session ends.

        Raises:
            As ``events``.
        """
        if not 0 < poll_seconds <= _POLL_SECONDS_MAX:
            raise InvalidInput("poll_seconds is a number above 0, up to 60")
        with self._view(self._authorise("read")) as found:
            last = 0 if after is None else find_event(found, after).seq
        return self._followed(last, poll_seconds, stop, idle_seconds)

    def open(self, event: Event) -> BinaryIO:
        """The payload of an event as a binary stream, once all of it was authenticated; close it.

        Raises:
            NotFound: the event is not of this session.
            Tampered: the payload was changed, or is missing.
        """
        grant = self._authorise("read")
        with self._view(grant) as found:
            row = find_event(found, event.id)
        return open_stream(self._log.blobs, found.keys, row)

    def info(self) -> SessionSummary:
        """What a list shows of this session, as it is now."""
        return summary(self._log, self._authorise("read"), self._id)

    def end(self) -> None:
        """End the session: it stays readable and takes no more events. Ending it twice is harmless."""
        self._row = end(self._log, self._authorise("end"), self._id)

    def _view(self, grant: Grant) -> AbstractContextManager[View]:
        return verified_view(self._log, grant, self._id)

    def _followed(
        self, last: int, poll_seconds: float, stop: threading.Event | None, idle_seconds: float | None
    ) -> Iterator[Event]:
        quiet_since = monotonic_seconds()
        while stop is None or not stop.is_set():
            grant = self._authorise("read")  # leave can be taken away while somebody follows
            commits = self._log.records.commits()
            with self._view(grant) as found:
                head, state = found.row.head_seq, found.row.state
            for event in read(self._log, grant, self._id, Part(low=last, high=head + 1)):
                yield event
                last, quiet_since = event.seq, monotonic_seconds()
            if head > last:
                continue
            idle = monotonic_seconds() - quiet_since
            if state != "active" or (idle_seconds is not None and idle >= idle_seconds):
                return
            self._log.records.wait_commit(commits, poll_seconds)
