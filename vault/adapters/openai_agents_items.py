"""The items of one conversation of the OpenAI Agents SDK, as facts in a session's log.

Each item is one event, sealed under the key of its generation: from one clearing of the conversation to the
next. Taking an item back, or clearing, is a fact too, and the payload is physically gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any, TypeVar, cast

from vault.adapters.binding import Binding
from vault.adapters.openai_agents_pairs import Pair, answer_id, answered_by, asked_by, orphans
from vault.adapters.openai_agents_walk import (
    CLEARED,
    FIRST_PAGE,
    ITEM,
    PAUSED,
    RESUMED,
    WITHDRAWN,
    Stretch,
    Walk,
    erased_calls,
    fact_id,
    is_erased,
    paused,
    tail_of,
    withdrawn,
)
from vault.errors import Conflict, Erased, InvalidInput, NotFound
from vault.model import BATCH_MAX, EVENTS_MAX, Event, NewEvent, new_event_id
from vault.sessions.session import Session

T = TypeVar("T")


class Items:
    """The items under one of the framework's session ids; safe to share between threads."""

    def __init__(self, binding: Binding, session_id: str) -> None:
        """Begin without looking: nothing is made until something is added."""
        self._binding, self._id = binding, session_id
        self._session: Session | None = None
        self._generation = 0  # that this process knows of; another may have cleared since

    @property
    def session(self) -> Session | None:
        """The vault's session, if this process has met it."""
        return self._session

    def find(self) -> Session | None:
        """The vault's session; None when nothing was ever added.

        Raises:
            Erased: it was erased, and may not be begun anew.
        """
        return self._use(lambda session: session, None)

    def newest(self, limit: int | None) -> list[Event]:
        """The newest items that are shown, at most ``limit``, in the order they were added.

        Raises:
            Erased: the conversation was erased.
            Tampered: something of it was changed, moved or removed.
        """
        return self._use(lambda session: tail_of(session, limit).items[::-1], [])

    def add(self, items: Sequence[Any], *, times: Sequence[datetime | None] = ()) -> None:
        """Add items in one transaction, all or none; ``times``: when each was made, if that was not now.

        Raises:
            InvalidInput: an item is no JSON object, or holds what JSON cannot; LimitExceeded above 1,000.
            Erased: the conversation was erased.
        """
        checked = [_checked(item) for item in items]
        if checked:
            self._use(lambda session: self._add(session, checked, times), None, make=True)

    def pop(self) -> Any:
        """Take back the newest item: its payload is erased. None when there is none.

        Raises:
            Conflict: a hold or a statutory minimum keeps the conversation as it is.
        """
        return self._use(_pop, None)

    def clear(self) -> None:
        """End the generation: its payloads are erased, and its key is destroyed.

        Raises:
            Conflict: a hold or a statutory minimum keeps the conversation as it is.
        """
        self._use(self._clear, None)

    def replace(self, items: Sequence[Any]) -> None:
        """Clear, and add items, in one transaction.

        Raises:
            As ``clear`` and ``add``.
        """
        checked = [_checked(item) for item in items]
        self._use(lambda session: self._clear(session, checked), None, make=bool(checked))

    def replace_tail(self, tail: Sequence[str], items: Sequence[Any]) -> bool:
        """Put items in place of the newest ones, if those are still the events ``tail``; whether they were.

        Raises:
            As ``clear`` and ``add``.
        """
        checked = [_checked(item) for item in items]
        return self._use(lambda session: self._replace_tail(session, tail, checked), absent=False)

    def expire(self, before: datetime) -> int:
        """Erase the items made before a time, the outputs of such calls too; how many were erased.

        Raises:
            Conflict: a hold or a statutory minimum keeps the conversation as it is.
        """
        return self._use(lambda session: _expire(session, before), 0)

    def pause(self, document: dict[str, Any]) -> None:
        """Keep a run that waits; it takes the place of one that was kept before.

        Raises:
            As ``add``.
        """
        self._use(lambda session: self._pause(session, document), None, make=True)

    def resume(self) -> dict[str, Any] | None:
        """The run that waits, given to one caller; None when there is none any more.

        Raises:
            Conflict: a hold or a statutory minimum keeps the conversation as it is.
        """
        return self._use(_resume, None)

    # ------------------------------------------------------------------------------------- within a session

    def _use(self, work: Callable[[Session], T], absent: T, *, make: bool = False) -> T:
        """What work gives with the session; ``absent`` when there is none, unless it is to be made."""
        known = self._session
        if known is not None:
            try:
                return work(known)
            except (NotFound, Erased):
                self._session, self._generation = None, 0  # erased since; the binding says what follows
        found = self._binding.open(self._id) if make else self._binding.find(self._id)
        if found is None:
            return absent
        self._session = found
        return work(found)

    def _write(self, session: Session, write: Callable[[int], object]) -> None:
        """Write into the current generation, by its number."""
        generation = self._generation or _generation(session)
        while True:
            try:
                write(generation)
            except Erased:
                # Cleared since. If the whole session was erased, looking raises, and this ends.
                generation = max(_generation(session), generation + 1)
            else:
                self._generation = generation
                return

    def _add(self, session: Session, items: list[dict[str, Any]], times: Sequence[datetime | None]) -> None:
        self._write(session, lambda number: session.append_many(_events(session, items, number, times)))

    def _pause(self, session: Session, document: dict[str, Any]) -> None:
        def write(generation: int) -> None:
            told = [NewEvent(type=PAUSED, payload=document, epoch=generation)]
            before = paused(session)
            if before:
                session.retract(before, also=told)
            else:
                session.append_many(told)

        self._write(session, write)

    def _clear(self, session: Session, then: Sequence[dict[str, Any]] = ()) -> None:
        newest = _newest(session)
        if newest is None or newest.type == CLEARED:
            if then:
                self._add(session, list(then), ())
            return
        ended = newest.epoch
        cleared = NewEvent(
            type=CLEARED,
            payload={"generation": ended},
            event_id=fact_id(CLEARED, session.id, ended),  # however many clear at once, it ends once
        )
        session.retract_epoch(ended, also=[cleared, *_events(session, then, ended + 1)])
        self._generation = ended + 1

    def _replace_tail(self, session: Session, tail: Sequence[str], items: list[dict[str, Any]]) -> bool:
        there = tail_of(session, len(tail))
        if not tail or [event.id for event in reversed(there.items)] != list(tail):
            return False
        if len(there.live) >= BATCH_MAX or len(items) >= BATCH_MAX:
            return False
        added = _events(session, items, _generation(session))
        return there.withdraw(session, added)


def _resume(session: Session) -> dict[str, Any] | None:
    for fact in session.events(types=[PAUSED], limit=1, newest_first=True):
        if fact.erased:
            return None
        # Of two who go on with it one writes this: the other's has the same id and other content.
        payload, event_id = {"by": new_event_id()}, fact_id(RESUMED, fact.id, 0)
        by = NewEvent(type=RESUMED, payload=payload, event_id=event_id)
        try:
            session.retract([fact.id], also=[by])
        except Conflict:
            if is_erased(session, fact.id):
                return None
            raise
        return cast("dict[str, Any]", fact.payload)
    return None


def _pop(session: Session) -> Any:
    while True:
        there = tail_of(session, 1)
        if not there.items:
            return None
        if there.withdraw(session):
            return there.items[0].payload


def _expire(session: Session, before: datetime) -> int:
    facts = list(Walk(session, EVENTS_MAX))
    live = [fact for fact in facts if not fact.erased]
    old: set[str] = {fact.id for fact in live if (fact.occurred_at or fact.recorded_at) < before}
    old |= {fact.id for fact in live if fact.caused_by in old}
    old |= orphans(facts, erased_calls(session, facts))
    # The oldest last: should this end half-way, then what is left of a pair is its call.
    ids = [fact.id for fact in live if fact.id in old]
    if ids:
        session.retract(paused(session))  # it holds copies
    for start in range(0, len(ids), BATCH_MAX):
        session.retract(ids[start : start + BATCH_MAX])
    gone = list(takewhile(lambda fact: fact.erased or fact.id in old, reversed(facts)))
    if ids and gone:
        told = withdrawn(Stretch(gone[0].seq, gone[-1].seq, gone[0].id), once=False)
        session.append_many([told])
    return len(ids)


def _newest(session: Session) -> Event | None:
    return next(session.events(types=[ITEM, PAUSED, CLEARED], limit=1, newest_first=True), None)


def _generation(session: Session) -> int:
    """The number of the current generation, the first being 1."""
    newest = _newest(session)
    if newest is None:
        return 1
    return newest.payload["generation"] + 1 if newest.type == CLEARED else newest.epoch


# -------------------------------------------------------------------------------------------- what is written


def _checked(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise InvalidInput("an item of a conversation is a JSON object; give each as a dict")
    return item


def _events(
    session: Session,
    items: Sequence[dict[str, Any]],
    generation: int,
    times: Sequence[datetime | None] = (),
) -> list[NewEvent]:
    """An event of each item; what answers a call names the call's event."""
    calls: dict[Pair, str] = {}
    events = []
    for number, item in enumerate(items):
        asked, answered = asked_by(item), answered_by(item)
        event_id: str | None = None
        caused_by: str | None = None
        if asked is not None:
            event_id = calls[asked] = new_event_id()
        if answered is not None:
            caused_by = calls.get(answered) or _call(session, answered)
            event_id = None if caused_by is None else answer_id(caused_by)
        events.append(
            NewEvent(
                type=ITEM,
                payload=item,
                event_id=event_id,
                caused_by=caused_by,
                occurred_at=times[number] if times else None,
                epoch=generation,
            )
        )
    return events


def _call(session: Session, pair: Pair) -> str | None:
    """The event of the newest call of a pair; of one that may be erased, so that its output is not shown."""
    erased = None
    for fact in Walk(session, FIRST_PAGE):
        if not fact.erased and asked_by(fact.payload) == pair:
            return fact.id
        if fact.erased and erased is None:
            erased = fact.id
    return erased or _taken_back(session)


def _taken_back(session: Session) -> str | None:
    """Some item that was taken back or cleared; None when none ever was."""
    for fact in session.events(types=[WITHDRAWN, CLEARED], limit=1, newest_first=True):
        if fact.type == WITHDRAWN:
            return str(fact.payload["stretch"]["first_id"])
        for cleared in session.events(types=[ITEM], before=fact.id, limit=1, newest_first=True):
            return cleared.id
    return None
