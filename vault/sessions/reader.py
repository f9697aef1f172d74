"""A session as whoever may read it holds it: events, slices, live following, recovery, context."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from vault.clock import monotonic_seconds
from vault.errors import Erased, InvalidInput
from vault.model import SessionId, format_id, run_bytes
from vault.policy import context
from vault.policy.recovery import DEFAULT
from vault.sessions import recover
from vault.sessions.find import summary
from vault.sessions.log import open_stream
from vault.sessions.place import locate, part_of, place_of
from vault.sessions.prepare import CHECKPOINT
from vault.sessions.read import Part, read, retracted_of, shared_of, verified_view
from vault.sessions.readings import noted
from vault.sessions.stated import effect_states, last_committed

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime

    from vault.access.door import Authorise, Grant
    from vault.model import Event, SessionSummary
    from vault.policy.context import Context
    from vault.policy.recovery import Reducer
    from vault.ports.records import SessionRow
    from vault.sessions.facts import EffectState
    from vault.sessions.log import Log
    from vault.sessions.read import View
    from vault.sessions.recover import Recovered, Step

#: Longest pause between two looks of ``follow``; appends of the same process are seen at once.
_POLL_SECONDS_MAX = 60.0


class SessionReader:
    """What can be read of one session. Every call is checked again: a handle is not a permission."""

    def __init__(self, log: Log, authorise: Authorise, row: SessionRow) -> None:
        """Made by ``Sessions``; ``authorise`` gives leave for one action at a time."""
        self._log, self._authorise, self._row = log, authorise, row
        self._id = row.session_id

    @property
    def id(self) -> SessionId:
        """``ses_`` and a UUIDv7."""
        return SessionId(format_id("ses", self._id))

    def __repr__(self) -> str:
        """The id only: everything else is the user's."""
        return f"{type(self).__name__}({self.id})"

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
            first, last = place_of(found, first_id), place_of(found, last_id)
            shared = shared_of(found)
        if first > last:
            raise InvalidInput("the first event of a slice stands behind the last one; swap them")
        return read(self._log, grant, self._id, Part(low=first - 1, high=last + 1, shared=shared))

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
        with self._view(self._authorise("read", recorded=False)) as found:
            last = 0 if after is None else place_of(found, after)
        return self._followed(last, poll_seconds, stop, idle_seconds)

    def open(self, event: Event) -> BinaryIO:
        """The payload of an event as a binary stream, once all of it was authenticated; close it.

        Raises:
            NotFound: the event is not of this session.
            Erased: it was erased, and the session lives on.
            Tampered: the payload was changed, or is missing.
        """
        grant = self._authorise("read")
        with self._view(grant) as found:
            holder, row = locate(found, event.id)
            if row.epoch and retracted_of(self._log, holder).takes(row):
                raise Erased("this event was erased; only the fact is left")
        if not grant.of(holder.row.session_id).own:
            raise InvalidInput(
                "a view has no streams; read the event itself, whose payload is as you may see it"
            )
        noted(self._log, grant, holder.row.session_id)
        return open_stream(self._log.blobs, holder.keys, row)

    def info(self) -> SessionSummary:
        """What a list shows of this session, as it is now."""
        return summary(self._log, self._authorise("read"), self._id)

    def last_checkpoint(self, run: str | None = None) -> Event | None:
        """The newest checkpoint, of one run or of any; None when there is none.

        Raises:
            As ``events``.
        """
        return next(self.events(types=[CHECKPOINT], run=run, limit=1, newest_first=True), None)

    def last_committed_effect(self, run: str, kind: str) -> EffectState | None:
        """The effect of a kind that a run committed last, at the cost of what it committed since.

        Raises:
            As ``events``.
        """
        grant, run_id = self._authorise("read"), run_bytes(run)
        return last_committed(self._log, grant, self._id, run_id, kind)

    def effects(self, *, kind: str | None = None, key: str | None = None) -> list[EffectState]:
        """The effects of this session and its branches, each as its newest fact tells it, oldest first.

        With ``kind`` and ``key`` it is looked up by index; otherwise it costs all of their facts.

        Raises:
            InvalidInput: a key without its kind.
            Tampered: a fact was changed, moved, removed or forged.
        """
        return effect_states(self._log, self._authorise("read"), self._id, kind, key)

    def recover(self, reducer: Reducer = DEFAULT, *, at: str | None = None, check: bool = True) -> Recovered:
        """The state after an event: nearest checkpoint, replay of what follows, hashes compared.

        Args:
            reducer: a pure function of the product's own; the vault's keeps messages, tools, effects.
            at: the state after this event; after the newest one when left out.
            check: also replay the interval before the checkpoint that is used, and compare.

        Raises:
            Diverged: a replay gives another state than a checkpoint holds.
            InvalidInput: the reducer is not pure, or its state is not JSON.
            NotFound: ``at`` is no event of this session.
            Tampered: what is stored is not what was written.
        """
        return recover.recover(self._log, self._authorise("read"), self._id, reducer, at, check=check)

    def replay(
        self,
        reducer: Reducer = DEFAULT,
        *,
        recent: bool = False,
        follow: bool = False,
        stop: threading.Event | None = None,
        idle_seconds: float | None = None,
    ) -> Iterator[Step]:
        """The state after each event: the same events and the same reducer as in recovery.

        Args:
            reducer: as in ``recover``.
            recent: begin at the newest checkpoint instead of the first event.
            follow: after catching up, go on with every new event, without gap or duplicate.
            stop, idle_seconds: what ends following, as in ``follow``.

        Raises:
            As ``recover``.
        """
        start = recover.start_of_replay(self._log, self._authorise("read"), self._id, reducer, recent=recent)
        events = (
            self._followed(start.through, 0.1, stop, idle_seconds) if follow else self._after(start.through)
        )
        return recover.steps(reducer, start, events)

    def context(
        self,
        *,
        max_events: int | None = None,
        max_tokens: int | None = None,
        counter: Callable[[Event], int] | None = None,
    ) -> Context:
        """What to load into a model's context: newest first within a budget, oldest first in the answer.

        A tool call and its result come together or not at all; the newest summary stands in for what it
        covers. The log keeps everything.

        Args:
            max_events: at most so many events.
            max_tokens: at most so many tokens, as ``counter`` counts them.
            counter: the tokens of one event; a rough estimate by bytes when left out.

        Raises:
            InvalidInput: a budget or the counter is wrong.
        """
        grant = self._authorise("read")
        with self._view(grant) as found:
            part = Part(newest_first=True, high=found.row.head_seq + 1, shared=shared_of(found))
        newest_first = read(self._log, grant, self._id, part)
        return context.select(newest_first, max_events=max_events, max_tokens=max_tokens, counter=counter)

    def _view(self, grant: Grant) -> AbstractContextManager[View]:
        return verified_view(self._log, grant, self._id)

    def _after(self, last: int) -> Iterator[Event]:
        grant = self._authorise("read", recorded=False)  # where the replay begins was read a moment ago
        with self._view(grant) as found:
            part = Part(low=last, high=found.row.head_seq + 1, shared=shared_of(found))
        return read(self._log, grant, self._id, part)

    def _followed(
        self, last: int, poll_seconds: float, stop: threading.Event | None, idle_seconds: float | None
    ) -> Iterator[Event]:
        quiet_since, first = monotonic_seconds(), True
        while stop is None or not stop.is_set():
            grant = self._authorise("read", recorded=first)  # leave can be taken away while somebody follows
            first = False
            commits = self._log.records.commits()
            with self._view(grant) as found:
                head, state, shared = found.row.head_seq, found.row.state, shared_of(found)
            part = Part(low=last, high=head + 1, shared=shared)
            for event in read(self._log, grant, self._id, part):
                yield event
                last, quiet_since = event.seq, monotonic_seconds()
            if head > last:
                continue
            idle = monotonic_seconds() - quiet_since
            if state != "active" or (idle_seconds is not None and idle >= idle_seconds):
                return
            self._log.records.wait_commit(commits, poll_seconds)
