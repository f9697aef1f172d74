"""A side effect of a run: an intention before it, a fact after it, and never a silent second time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from vault.encoding import canonical_json
from vault.errors import Busy, Conflict, EffectFailed, InDoubt, InvalidInput
from vault.model import NewEvent, check_name, format_id, new_event_id
from vault.policy.effects import COMMITTED, DECISIONS, FAILED, INTENDED, RESOLVED
from vault.sessions.facts import MaskedConfirmation
from vault.sessions.stated import find_effect, repeatable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vault.access.door import Grant
    from vault.model import Event, EventId
    from vault.sessions.facts import EffectState
    from vault.sessions.log import Log

_TRIED_AGAIN = "to be tried again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What is decided about an effect in doubt.

    ``retry``: it did not happen, or happening twice does no harm: carry it out again. ``commit``: it
    happened, with this confirmation. ``fail``: it did not happen and is not wanted any more. ``ask``: nobody
    knows; a person is asked, and until then the run does not go on with it.
    """

    decision: Literal["retry", "commit", "fail", "ask"]
    confirmation: Any = field(default=None, repr=False)
    why: str | None = field(default=None, repr=False)
    by: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check the word once, at the edge."""
        if self.decision not in DECISIONS:
            raise InvalidInput("the decision about an effect in doubt is retry, commit, fail or ask")


def resolution_events(
    known: EffectState, resolution: Resolution, session_id: str, resource: str | None = None
) -> list[NewEvent]:
    """The facts of a session that settle an effect in doubt; after ``retry`` it can be intended again.

    Raises:
        Conflict: the effect is not in doubt.
    """
    if known.state != "in doubt":
        raise Conflict(f"this effect is not in doubt: it is {known.state}")
    intention, facts = _taken_over(known, session_id)
    about = {"kind": known.kind, "key": known.key}
    noted = {"by": resolution.by, "why": resolution.why}
    told = {**about, "decision": resolution.decision, **{k: v for k, v in noted.items() if v is not None}}
    facts.append(NewEvent(type=RESOLVED, payload=told, caused_by=intention))
    if resolution.decision == "commit":
        payload = {**about, "confirmation": resolution.confirmation, **_subject(known.subject)}
        changed = resource or known.resource
        facts.append(NewEvent(type=COMMITTED, payload=payload, caused_by=intention, resource=changed))
    elif resolution.decision != "ask":
        reason = (
            _TRIED_AGAIN if resolution.decision == "retry" else resolution.why or "decided that it failed"
        )
        facts.append(NewEvent(type=FAILED, payload={**about, "reason": reason}, caused_by=intention))
    return facts


def _taken_over(known: EffectState, session_id: str) -> tuple[EventId, list[NewEvent]]:
    """The intention that a session settles; of a branch, the facts that make it this session's too."""
    if known.session_id == session_id or known.state != "in doubt":
        return known.fact, []
    intention = new_event_id()
    payload = {"kind": known.kind, "key": known.key, "intent": known.intent, **_subject(known.subject)}
    taken = NewEvent(
        type=INTENDED,
        payload=payload,
        event_id=intention,
        caused_by=known.fact,
        resource=known.resource,
    )
    return intention, [taken]


class Turns:
    """Whose turn it is among the threads of a run, for each effect by itself."""

    def __init__(self) -> None:
        """Nobody is at anything yet."""
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[tuple[str, str], threading.RLock] = WeakValueDictionary()

    def of(self, kind: str, key: str) -> threading.RLock:
        """The turn at one effect; whoever holds it may take it again."""
        with self._guard:
            return self._locks.setdefault((kind, key), threading.RLock())


class Effect:
    """One side effect of a run, found again by its kind and key in the session and all its branches."""

    def __init__(
        self,
        write: Callable[[Sequence[NewEvent]], list[Event]],
        look: Callable[[], tuple[Log, Grant, bytes]],
        ask: Callable[[EffectState], None],
        *,
        kind: str,
        key: str,
        intent: Any,
        resource: str | None,
        subject: str | None,
        turns: Turns,
    ) -> None:
        """Made by ``Run.effect``."""
        self._write, self._look, self._ask = write, look, ask
        self._kind, self._key = check_name(kind, "an effect's kind"), check_name(key, "an effect's key")
        self._intent, self._resource = intent, resource
        self._subject = None if subject is None else check_name(subject, "an effect's subject")
        self._turn = turns.of(kind, key)

    def state(self) -> EffectState | None:
        """What is known of it; None when it was never intended."""
        return find_effect(*self._look(), self._kind, self._key)

    def intend(self) -> None:
        """Record that it is about to happen; durable when this returns.

        Raises:
            Conflict: it is in doubt, or committed already.
        """
        self._write([self._intention()])

    def once(
        self, fn: Callable[[Any], Any], *, resolver: Callable[[EffectState], Resolution] | None = None
    ) -> Any:
        """Carry it out, once: ``fn(intent)`` is called between a durable intention and a durable fact.

        A thread of the same run that is at the same effect is waited for; then its result counts.

        Args:
            fn: does it and returns the world's confirmation, a JSON value. It raises ``EffectFailed`` when
                it is certain that nothing happened; after any other exception the effect is in doubt.
            resolver: decides about an earlier attempt of which nobody knows whether it happened.

        Returns:
            What ``fn`` returned, now or when the effect was committed: then ``fn`` is not called. Whoever
            sees the session in a view that hides some of that gets a ``MaskedConfirmation``.

        Raises:
            InDoubt: an earlier attempt is in doubt, and nobody decided.
            EffectFailed: nothing happened; recorded as failed.
            Busy: a run of another branch is carrying it out now.
            Conflict: a branch was faster; call it again to see what became of it. Or one that is not shown
                to whoever asks stands against it.
            InvalidInput: the confirmation is not JSON; the effect is in doubt, ``commit`` it by hand.
        """
        # Without a turn, a thread would take what another one is carrying out for an attempt in doubt.
        with self._turn:
            known, settling = self.state(), []
            if known is not None and known.state == "committed":
                if known.masked:
                    return MaskedConfirmation(shown=known.confirmation, fact=known.fact)
                return known.confirmation
            if known is not None and known.state == "in doubt":
                resolution = self._decided(known, resolver)
                whole = self._repeatable(known)
                settling = resolution_events(whole, resolution, self._session_id(), self._resource)
                if resolution.decision != "retry":
                    self._write(settling)
                    if resolution.decision == "commit":
                        return resolution.confirmation
                    raise EffectFailed("this effect was intended before, and it is decided that it failed")
            intended = self._write([*settling, self._intention()])[-1]
            try:
                confirmation = fn(self._intent)
            except EffectFailed as failed:
                # Of this intention, whatever a branch has intended since; a lone surrogate would be refused.
                reason = str(failed).encode(errors="replace").decode()
                self._write([self._fact(FAILED, {"reason": reason}, intended.id)])
                raise
            self.commit(confirmation)
            return confirmation

    def _decided(
        self, known: EffectState, resolver: Callable[[EffectState], Resolution] | None
    ) -> Resolution:
        """What the resolver says of an effect in doubt, when it says how it is settled."""
        if resolver is None:
            raise InDoubt(effect=known)
        resolution = resolver(known)
        if not isinstance(resolution, Resolution):
            raise InvalidInput("a resolver returns a Resolution: retry, commit, fail or ask")
        if resolution.decision == "ask":
            self._ask(replace(known, kind=self._kind, key=self._key))  # a view hides what this run calls it
            raise InDoubt(effect=known)
        return resolution

    def commit(self, confirmation: Any = None) -> EffectState:
        """Record that it happened, with the world's confirmation; again with the same one changes nothing.

        Raises:
            Conflict: it was never intended, has failed, or is committed with another confirmation.
        """
        known = self.state()
        taken: list[NewEvent] = []
        cause, resource, subject = None, self._resource, self._subject
        if known is not None:
            if known.state == "committed":
                if known.masked:  # whether it is the same would tell what the view hides
                    raise Conflict("this effect is committed, with a confirmation that is not shown to you")
                if canonical_json(known.confirmation) != canonical_json(confirmation):
                    raise Conflict("this effect is committed with another confirmation, and stays as it is")
                return known
            known = self._repeatable(known)
            # By hand, in a later run perhaps: the intention has said what it changes in the world.
            resource, subject = resource or known.resource, subject or known.subject
            cause, taken = _taken_over(known, self._session_id())
        said = {"confirmation": confirmation, **_subject(subject)}
        try:
            self._write([*taken, self._fact(COMMITTED, said, cause, resource)])
        except Busy:
            # A run of a branch is at it, so this one cannot take it over. It happened all the same.
            if known is None or not taken:
                raise
            self._write([self._fact(COMMITTED, said, known.fact, resource)])
        return self._told()

    def fail(self, reason: str) -> EffectState:
        """Record that it did not happen; it can be intended again.

        Raises:
            Conflict: it was never intended, has failed, or is committed.
        """
        known = self.state()
        cause, taken = (
            (None, []) if known is None else _taken_over(self._repeatable(known), self._session_id())
        )
        self._write([*taken, self._fact(FAILED, {"reason": str(reason)}, cause)])
        return self._told()

    def _repeatable(self, known: EffectState) -> EffectState:
        return repeatable(*self._look(), known, self._kind, self._key)

    def _session_id(self) -> str:
        return format_id("ses", self._look()[2])

    def _told(self) -> EffectState:
        known = self.state()
        assert known is not None  # noqa: S101 - it was written just now
        return known

    def _intention(self) -> NewEvent:
        said = {"intent": self._intent, **_subject(self._subject)}
        return self._fact(INTENDED, said, None, self._resource)

    def _fact(
        self, event_type: str, said: dict[str, Any], cause: str | None, resource: str | None = None
    ) -> NewEvent:
        payload = {"kind": self._kind, "key": self._key, **said}
        return NewEvent(type=event_type, payload=payload, caused_by=cause, resource=resource)


def _subject(subject: str | None) -> dict[str, str]:
    return {} if subject is None else {"subject": subject}
