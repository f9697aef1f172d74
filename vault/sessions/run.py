"""A run: one execution in a session, under a lease whose fencing token every append is checked against."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, Unpack

from vault.clock import monotonic_seconds
from vault.errors import (
    Fenced,
    NotFound,
    SessionEnded,
    Stale,
    StorageUnavailable,
    VaultClosed,
    VaultError,
)
from vault.model import BATCH_MAX, NewEvent, RunId, format_id, new_run_id, run_bytes
from vault.policy import lease as leases
from vault.policy.freshness import is_fresh
from vault.policy.recovery import due, fold, state_hash
from vault.sessions.amend import change_lease, in_turn
from vault.sessions.append import append
from vault.sessions.effect import Effect, Turns
from vault.sessions.gap import newest_observation, overtaking
from vault.sessions.prepare import CHECKPOINT
from vault.sessions.read import Part, read, verified_view
from vault.sessions.readings import Readings
from vault.sessions.recover import recover
from vault.sessions.terms import Holder, Terms
from vault.sessions.written import About, new_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta
    from types import TracebackType

    from vault.access.door import Authorise
    from vault.model import Event
    from vault.policy.recovery import Reducer, Trigger
    from vault.ports.records import SessionRow
    from vault.sessions.facts import EffectState
    from vault.sessions.log import Log
    from vault.sessions.written import Fact

#: Renewals of a lease while it lasts once: two may come late before it is lost.
_RENEWALS = 3
#: How long the background thread outlives a vault that was closed: a third of a lease can be eight hours.
_CLOSED_SECONDS = 1.0
_MICROSECONDS = 1_000_000
_MESSAGE_MAX = 1_000


class Run:
    """One execution in a session. Leaving the ``with`` block ends it; a lost lease fences it off."""

    def __init__(
        self,
        log: Log,
        authorise: Authorise,
        row: SessionRow,
        *,
        started: Event,
        token: int,
        lease_us: int,
        trigger: Trigger,
        reducer: Reducer,
    ) -> None:
        """Made by ``Session.run`` and ``Sessions.wake``."""
        self._log, self._authorise, self._row = log, authorise, row
        self._id, self._started, self._lease_us = RunId(started.run or ""), started, lease_us
        self._holder = Holder(run_bytes(self._id).hex(), token)
        self._trigger, self._reducer = trigger, reducer
        self._seen, self._noted = started.seq, monotonic_seconds()
        self._since = 0
        self._state: tuple[Any, int] | None = None  # of the reducer, and through which event
        self._guard = threading.RLock()
        self._turns = Turns()
        self._readings = Readings(log, row.session_id)
        self._over, self._ended = threading.Event(), False  # no more renewals; ended and recorded
        self._heart = threading.Thread(target=self._beat, name="vault-heartbeat", daemon=True)
        self._heart.start()

    @property
    def id(self) -> RunId:
        """``run_`` and a UUIDv7."""
        return self._id

    @property
    def started(self) -> Event:
        """The event that began it: what stands before it is what the run found."""
        return self._started

    def __repr__(self) -> str:
        """The id only."""
        return f"Run({self._id})"

    def append(self, type: str | Fact, payload: Any = None, **about: Unpack[About]) -> Event:
        """Append one event of this run; as ``Session.append``.

        A checkpoint follows by itself when one is due (``Session.run(checkpoints=…)``).

        Raises:
            Fenced: the lease is lost; nothing was written.
        """
        return self.append_many([new_event(type, payload, about)])[0]

    def append_many(self, events: Iterable[NewEvent]) -> list[Event]:
        """Append up to 1,000 events of this run in one transaction; as ``Session.append_many``.

        Raises:
            Fenced: the lease is lost; nothing was written.
        """
        stored = self._write(list(islice(events, BATCH_MAX + 1)))
        self._checkpoint_if_due(stored)
        return stored

    def inbox(self) -> list[Event]:
        """What was posted to the session since the run began, or since the last call, in order."""
        with self._guard:  # two threads of a run never get the same message
            grant = self._authorise("read")
            with verified_view(self._log, grant, self._row.session_id) as found:
                head = found.row.head_seq
            part = Part(low=self._seen, high=head + 1, outside_runs=True)
            posted = list(read(self._log, grant, self._row.session_id, part))
            self._seen = max(head, self._seen)
            return posted

    def effect(
        self,
        kind: str,
        key: str,
        intent: Any = None,
        *,
        resource: str | None = None,
        subject: str | None = None,
    ) -> Effect:
        """A side effect, to carry out once; nothing is recorded yet.

        Args:
            kind: what it is, for example ``email.send``; up to 256 characters.
            key: which one, chosen so that the same effect always has the same key; up to 256 characters.
            intent: what is about to be done, as JSON.
            resource: what it changes in the world, so that other sessions learn of it.
            subject: the person it is about, likewise.

        Raises:
            InvalidInput: a name is too long or empty.
        """
        return Effect(
            self._write,
            lambda: (self._log, self._authorise("read"), self._row.session_id),
            self._ask,
            kind=kind,
            key=key,
            intent=intent,
            resource=resource,
            subject=subject,
            turns=self._turns,
        )

    def checkpoint(self, state: Any = None) -> Event:
        """Store a state to recover from: the reducer's own at this point, or one given by hand.

        Raises:
            Fenced: the lease is lost.
            InvalidInput: the state is not JSON; nothing was written.
        """
        with self._guard:
            if state is None:
                state, through = self._caught_up()
                name = self._reducer.name
            else:
                with verified_view(self._log, self._authorise("read"), self._row.session_id) as found:
                    through, name = found.row.head_seq, ""
            payload = {"state": state, "sha256": state_hash(state), "through": through, "reducer": name}
            event = self._write([NewEvent(type=CHECKPOINT, payload=payload)])[0]
            self._since, self._noted = 0, monotonic_seconds()
            return event

    def require_fresh(self, resource: str, max_age: timedelta | None = None) -> Event:
        """The newest observation of a resource in this session, refused when it is too old to rely on.

        Args:
            resource: as it was observed under.
            max_age: how old at most; its own ``valid_for``, or the vault's threshold, when left out.

        Raises:
            Stale: never observed here, too long ago, or changed by another session since.
        """
        grant = self._authorise("read")
        event, observation = newest_observation(self._log, grant, self._row.session_id, resource)
        other = overtaking(self._log, grant, self._row.session_id, resource, observation)
        age_us = None if max_age is None else round(max_age.total_seconds() * _MICROSECONDS)
        now_us, thresholds = self._log.clock.now_us(), self._log.thresholds
        fresh = is_fresh(
            observation, now_us=now_us, max_age_us=age_us, thresholds=thresholds, overtaken_by=other
        )
        if not fresh.ok or event is None:
            raise Stale(fresh.reason)
        return event

    def stop(self, reason: str = "completed") -> None:
        """End the run and give its lease back; further writes are refused. Ending it twice is harmless.

        Raises:
            Fenced: the lease is lost; whoever has it goes on, and nothing was written.
        """
        self._end(NewEvent(type="run.stopped", payload={"reason": reason[:_MESSAGE_MAX]}))

    def renew(self) -> None:
        """Renew the lease now; a background thread does it three times while it lasts once.

        Raises:
            Fenced: another run took over, or the lease was taken away.
        """

        def renewed(lease: leases.Lease, now_us: int) -> leases.Lease:
            return leases.renew(lease, *self._holder, now_us, self._lease_us)

        try:
            change_lease(self._log, self._authorise("append", recorded=False), self._row.session_id, renewed)
        except (Fenced, SessionEnded, NotFound):
            self._over.set()
            raise

    def __enter__(self) -> Self:
        """The run itself; what is read from here on is what it derives from."""
        self._readings.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, as failed when an exception passes through; that one is not hidden by one in ending."""
        self._readings.end()
        if error is None:
            self.stop()
            return
        try:
            payload = {"error": type(error).__name__, "message": _message_of(error)}
            self._end(NewEvent(type="run.failed", payload=payload))
        except (VaultError, UnicodeError):
            self._over.set()  # the lease runs out by itself, and the log says that the run never ended

    def _write(self, events: Sequence[NewEvent], terms: Terms | None = None) -> list[Event]:
        if not events:
            return []
        mine = [replace(event, run=self._id) for event in events]
        grant = self._authorise("append")
        return append(self._log, grant, self._row, mine, terms or Terms(holder=self._holder))

    def _end(self, event: NewEvent) -> None:
        with self._guard:
            if self._ended:
                return
            terms = Terms(holder=self._holder, lease=lambda lease, _: leases.release(lease, *self._holder))
            try:
                self._write([event], terms)
            except SessionEnded:
                pass  # ending the session ended the run with it
            finally:
                self._over.set()  # if it was not recorded, the lease runs out, or it is ended again
            self._ended = True

    def _ask(self, known: EffectState) -> None:
        """Ask a person about an effect in doubt; once, however often the run comes back to it."""
        grant = self._authorise("append")
        event = NewEvent(
            type="approval.requested",
            payload={"what": f"effect {known.kind} “{known.key}” is in doubt: did it happen?"[:1000]},
            event_id=format_id("evt", grant.tenant.blind("ask", known.fact)),
            caused_by=known.fact,
        )
        append(self._log, grant, self._row, [event], Terms(holder=self._holder))

    def _checkpoint_if_due(self, stored: Sequence[Event]) -> None:
        if not self._authorise("append", recorded=False).own:
            return  # what a view shows is no state of the session
        with self._guard:
            self._since += len(stored)
            seconds = monotonic_seconds() - self._noted
            for event in stored:
                if due(
                    self._trigger,
                    event_type=event.type,
                    events_since=self._since,
                    seconds_since=seconds,
                ):
                    # The events are stored, so the append succeeded: the next one meets a lost lease, and
                    # what the disk did not take is due again.
                    with contextlib.suppress(Fenced, SessionEnded, StorageUnavailable):
                        self.checkpoint()
                    return

    def _caught_up(self) -> tuple[Any, int]:
        """The reducer's state through the newest event, from what is known already."""
        grant, session_id = self._authorise("read"), self._row.session_id
        if self._state is None:
            recovered = recover(self._log, grant, session_id, self._reducer, None, check=False)
            self._state = recovered.state, recovered.through
        state, through = self._state
        with verified_view(self._log, grant, session_id) as found:
            head = found.row.head_seq
        state = fold(
            self._reducer, state, read(self._log, grant, session_id, Part(low=through, high=head + 1))
        )
        self._state = state, max(head, through)
        return self._state

    def _beat(self) -> None:
        pause = self._lease_us / _RENEWALS / _MICROSECONDS
        due_seconds = monotonic_seconds() + pause
        while not self._over.wait(min(due_seconds - monotonic_seconds(), _CLOSED_SECONDS)):
            try:
                self._authorise("append", recorded=False)
                if monotonic_seconds() >= due_seconds:
                    due_seconds = monotonic_seconds() + pause
                    self.renew()
            except (Fenced, SessionEnded, NotFound, VaultClosed):
                self._over.set()
                return
            except VaultError:
                continue  # a disk that did not answer: the lease lasts a while yet, so it is tried again


def _message_of(error: BaseException) -> str:
    """What an error says, as text that can be stored; nothing when it cannot even say that."""
    try:
        return str(error)[:_MESSAGE_MAX].encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - the error that ended the run counts, not one in printing it
        return ""


def begin(
    log: Log,
    authorise: Authorise,
    row: SessionRow,
    openings: Callable[[RunId], Sequence[NewEvent]],
    *,
    lease_seconds: float,
    wait: float | None,
    trigger: Trigger,
    reducer: Reducer,
) -> tuple[Run, list[Event]]:
    """Take the lease and record the run's beginning, in one transaction.

    Raises:
        Busy: another run holds the lease, and did not give it back while this one waited.
        SessionEnded: the session takes no more runs.
        InvalidInput: a number of seconds is out of range.
    """
    bounds = {"low": leases.SECONDS_MIN, "high": leases.SECONDS_MAX}
    lease_us = leases.check_seconds(lease_seconds, "lease_seconds", **bounds)
    run_id = new_run_id()
    name = run_bytes(run_id).hex()
    held: list[leases.Lease] = []

    def take(lease: leases.Lease, now_us: int) -> leases.Lease:
        held[:] = [leases.take(lease, name, now_us, lease_us)]
        return held[0]

    terms, events = Terms(posted=True, lease=take), openings(run_id)

    def attempt() -> list[Event]:
        return append(log, authorise("append"), row, events, terms)

    stored = attempt() if wait is None else in_turn(log, authorise, row.session_id, name, attempt, wait)
    made = Run(
        log,
        authorise,
        row,
        started=stored[-1],
        token=held[0].token,
        lease_us=lease_us,
        trigger=trigger,
        reducer=reducer,
    )
    return made, stored
