"""A session as its owner's code holds it: append, run, post, end; reading is in ``reader``."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from vault.errors import Conflict, InvalidInput, NotFound
from vault.model import BATCH_MAX, NewEvent, RunId, format_id, run_bytes
from vault.policy.lease import decode, revoke
from vault.policy.recovery import DEFAULT
from vault.sessions.amend import end
from vault.sessions.append import append
from vault.sessions.effect import Resolution, resolution_events
from vault.sessions.reader import SessionReader
from vault.sessions.readings import Readings, attached, is_attached
from vault.sessions.run import Run, begin
from vault.sessions.stated import find_effect, repeatable
from vault.sessions.terms import Terms
from vault.sessions.written import About, new_event

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from vault.model import Event
    from vault.policy.lease import Lease
    from vault.policy.recovery import Reducer, Trigger
    from vault.sessions.facts import EffectState
    from vault.sessions.written import Fact

#: What a run writes about itself and its work is not posted from outside.
_OF_RUNS = ("run.", "tool.", "effect.", "checkpoint.", "context.")


class Session(SessionReader):
    """One session of its owner, to write to as well. Every call is checked again."""

    def append(
        self,
        type: str | Fact,
        payload: Any = None,
        *,
        run: str | None = None,
        expect_head: int | None = None,
        **about: Unpack[About],
    ) -> Event:
        """Append one event; it is durable when this returns.

        Args:
            type: two or more parts of ``[a-z0-9_-]`` joined by dots, 64 characters at most; or a typed fact
                of ``vault.vocabulary``, which brings its own payload.
            payload: any JSON value, up to 64 MiB; stored exactly or refused.
            run: the run it belongs to, for a log that was made elsewhere; see ``run`` for leases.
            expect_head: number of the last event known to the writer (0 for none); refused when behind.
            about: beside the payload, each optional:

                - ``raw``: bytes, or a binary file to stream (up to 16 GiB); instead of ``payload``.
                - ``event_id``: from ``vault.new_event_id()``, to make a retry safe.
                - ``caused_by``: the event that led to it.
                - ``tool``: name of the tool, up to 256 characters.
                - ``observed_at``, ``valid_for``: when the world was so, and how long that holds.
                - ``resource``: what it is an observation of, for example ``crm/customer/42``.
                - ``occurred_at``: when it happened, if not now (imports).
                - ``usage``: model parameters and token counts, as JSON.
                - ``level``: redaction level, ``L0`` (least sensitive view) to ``L3``.

        Raises:
            InvalidInput: something cannot be stored as given; LimitExceeded when it is too large.
            Conflict: the id is stored with other content, or the log has moved past ``expect_head``.
            Busy: a run is active; append within it, or ``post``.
            SessionEnded: the session takes no more events.
            NotFound: there is no such session for this principal any more.
        """
        new = new_event(type, payload, {"run": run, **about})
        return self._append([new], Terms(expect_head=expect_head))[0]

    def append_many(self, events: Iterable[NewEvent], *, expect_head: int | None = None) -> list[Event]:
        """Append up to 1,000 events in one transaction: all of them or none.

        Raises:
            As ``append``.
        """
        batch = list(islice(events, BATCH_MAX + 1))  # one too many is refused, and an endless one ends
        return self._append(batch, Terms(expect_head=expect_head)) if batch else []

    def post(self, type: str | Fact, payload: Any = None, **about: Unpack[About]) -> Event:
        """Append an event from outside while a run may be active: a user's message, an approval.

        It stands in the log's order like any other, and the run sees it by ``Run.inbox``.

        Raises:
            InvalidInput: a type that only a run writes, or a run.
            As ``append``, but for ``Busy``.
        """
        new = new_event(type, payload, about)
        if new.run is not None:
            raise InvalidInput("what is posted belongs to no run; leave run out, or append within the run")
        if str(new.type).startswith(_OF_RUNS):
            raise InvalidInput(
                "only a run writes events of this type; post messages, approvals, observations"
            )
        return self._append([new], Terms(posted=True))[0]

    def run(
        self,
        *,
        lease_seconds: float = 30,
        wait: float | None = None,
        retry_of: str | None = None,
        checkpoints: Trigger | None = None,
        reducer: Reducer = DEFAULT,
    ) -> Run:
        """Begin a run: one at a time, under a lease that a background thread renews.

        Args:
            lease_seconds: how long a holder that dies blocks the session; 0.1 to 86,400.
            wait: how long to wait for another run to end, in order of arrival; None refuses at once.
            retry_of: the run that this one tries again.
            checkpoints: when the run writes a checkpoint by itself; the vault's setting when left out.
            reducer: what makes the state of those checkpoints.

        Raises:
            Busy: another run is active, and did not end while this one waited; says since when.
            SessionEnded: the session takes no more runs.
            InvalidInput: a number is out of range, or ``retry_of`` is no run's id.
        """
        started = NewEvent(type="run.started", payload={})
        if retry_of is not None:
            run_bytes(retry_of)
            started = NewEvent(type="run.retried", payload={"of": retry_of})
        made, _ = begin(
            self._log,
            self._authorise,
            self._row,
            lambda run: [replace(started, run=run)],
            lease_seconds=lease_seconds,
            wait=wait,
            trigger=checkpoints or self._log.trigger,
            reducer=reducer,
        )
        return made

    def stop(self, reason: str = "stopped by user") -> RunId | None:
        """Take the lease away from the active run: its writes are refused from now on.

        Returns:
            The run that was stopped, also one whose lease ran out; None when none holds it.

        Raises:
            Conflict: that run ended, or another took over, at the same moment.
        """
        with self._view(self._authorise("append")) as found:
            lease = decode(found.row.lease)
        if not lease.run:  # a lease that ran out is still its holder's, who may only be paused
            return None

        def taken(now: Lease, _: int) -> Lease:
            if (now.run, now.token) != (lease.run, lease.token):
                raise Conflict("that run is over meanwhile; look again before you stop another")
            return revoke(now)

        run = RunId(format_id("run", bytes.fromhex(lease.run)))
        event = NewEvent(type="run.stopped", payload={"reason": reason}, run=run)
        self._append([event], Terms(posted=True, lease=taken))
        return run

    def resolve(self, kind: str, key: str, resolution: Resolution) -> EffectState:
        """Settle an effect in doubt from outside of a run; after ``retry`` the next run carries it out again.

        Raises:
            Conflict: the effect is not in doubt, or was never intended.
            Busy: a run is active, here or in the branch that intended it.
        """
        grant = self._authorise("read")
        known = find_effect(self._log, grant, self._id, kind, key)
        if known is None:
            raise Conflict("there is no such effect to resolve: it was never intended")
        if resolution.decision == "ask":
            raise InvalidInput("to settle an effect, decide: retry, commit or fail")
        known = repeatable(self._log, grant, self._id, known, kind, key)
        self._append(resolution_events(known, resolution, self.id), Terms())
        settled = find_effect(self._log, self._authorise("read"), self._id, kind, key)
        assert settled is not None  # noqa: S101 - it was written just now
        return settled

    def attach(self) -> None:
        """From here on, what is derived in this context comes from this session without anybody naming it.

        Tasks and threads that inherit the context's variables are in it. Another session that is attached
        later takes its place; what a run reads is noted by that run as well.

        Raises:
            NotFound: there is no such session for this principal any more.
        """
        if not is_attached(self._log, self._id):
            self._check_there()
            Readings(self._log, self._id, attached=True).attach()

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """As ``attach``, for a block."""
        self._check_there()
        with attached(self._log, self._id):
            yield

    def retract(self, events: Iterable[str], *, also: Iterable[NewEvent] = ()) -> list[Event]:
        """Erase the payloads of some events while the session lives on; that they were there stays a fact.

        When this returns, the bytes are in no file of the vault. Their epoch's key stays, so a copy of data
        and keys that was made before can still be read with it; ``retract_epoch`` ends that too.

        Args:
            events: ids of up to 1,000 events that were written under an epoch of their own.
            also: events to append in the same transaction, before the fact.

        Returns:
            What was appended; erasing twice appends no second fact.

        Raises:
            InvalidInput: an event's payload lives as long as the session, or is shared with its original.
            Conflict: a hold or a statutory minimum keeps the session.
            NotFound: there is no such event, or session, for this principal.
        """
        return self._retract(list(events), [], also)

    def retract_epoch(self, epoch: int, *, also: Iterable[NewEvent] = ()) -> list[Event]:
        """As ``retract``, for all that was written under an epoch; its key is destroyed as well.

        Nothing can be written under that number again. What was derived from these events, by their ids, goes
        first, in an erasure with a receipt; what goes by ``recompute`` is asked for again.

        Raises:
            InvalidInput: the session's own epoch, 0, goes only with the session.
            Conflict: a hold or a minimum keeps something that was derived from these events.
            As ``retract``.
        """
        return self._retract([], [epoch], also)

    def relabel(self, labels: Mapping[str, str], *, remove: Collection[str] = ()) -> dict[str, str]:
        """Give the session labels while it lives on, and take some away; the log says so in a fact.

        What is counted from a label starts with it, and the policy in force binds the session anew if a rule
        tells its labels apart; no minimum ends earlier by that. An ended session can be labelled too.

        Args:
            labels: names and values; a name that is there gets the new value.
            remove: names to take away; one that is not there is passed over.

        Returns:
            All labels that it has then. Where nothing changes, nothing is written.

        Raises:
            InvalidInput: a name or value cannot be stored, or there would be more than 32.
            Conflict: a hold names a label that would go.
            NotFound: there is no such session for this principal any more, or it is somebody else's.
        """
        # Not for whoever may append: what finds and binds it is for its owner to say.
        return self._log.relabel(self._authorise("label"), self._row, labels, remove)

    def end(self) -> None:
        """End the session: it stays readable and takes no more events. Ending it twice is harmless.

        A run that is active loses its lease.
        """
        self._row = end(self._log, self._authorise("end"), self._id)

    def _check_there(self) -> None:
        with self._view(self._authorise("read", recorded=False)):
            return

    def _retract(self, events: list[str], epochs: list[int], also: Iterable[NewEvent]) -> list[Event]:
        grant = self._authorise("erase", recorded=False)
        if not grant.own:
            raise NotFound("there is no such session")  # who may erase for others erases whole sessions
        return self._log.retract(grant, self._row, events, epochs, list(also))

    def _append(self, events: list[NewEvent], terms: Terms) -> list[Event]:
        return append(self._log, self._authorise("append"), self._row, events, terms)
