"""Reading a conversation of the OpenAI Agents SDK from its end, and taking back what stands there.

A walk goes from the newest item backwards and leaps over stretches in which nothing is left, so it costs what
it returns. Whoever takes a stretch back writes that as a fact, under an id that only one can write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from vault.adapters.openai_agents_pairs import orphans
from vault.errors import Conflict
from vault.model import EVENTS_MAX, Event, NewEvent, format_id, new_event_id
from vault.sessions.session import Session

#: An item as the SDK gave it.
ITEM: Final = "openai.item"
#: A stretch of the log in which no item is left, all of them taken back.
WITHDRAWN: Final = "openai.withdrawn"
#: A generation is over.
CLEARED: Final = "openai.cleared"
#: A run that waits to be gone on with: all that it knows, its items among it.
PAUSED: Final = "openai.paused"
#: Somebody went on with it.
RESUMED: Final = "openai.resumed"
#: Facts of the first page from the end: one often looks for a single item.
FIRST_PAGE: Final = 4


class Stretch(NamedTuple):
    """Places of the log, both included, with no item left; ``first_id`` is the first event there."""

    first: int
    through: int
    first_id: str


class Walk:
    """The items of the current generation, newest first, erased ones too, without what was withdrawn."""

    def __init__(self, session: Session, page: int) -> None:
        self._session, self._page = session, page
        #: The place of the newest fact that the walk began from.
        self.newest = 0

    def __iter__(self) -> Iterator[Event]:
        gone: list[Stretch] = []
        generation, before, page = 0, None, self._page
        while True:
            met, leapt = 0, False
            for event in self._facts(before, page):
                met += 1
                self.newest = max(self.newest, event.seq)
                within = [stretch for stretch in gone if stretch.first <= event.seq <= stretch.through]
                if within:
                    before, leapt = min(within).first_id, True
                    break
                before = event.id
                if event.type == CLEARED:
                    generation = max(generation, event.payload["generation"] + 1)
                elif event.type == WITHDRAWN:
                    gone.append(Stretch(**event.payload["stretch"]))
                elif event.epoch < generation:
                    return
                else:
                    yield event
            if met < page and not leapt:
                return
            page = min(2 * page, EVENTS_MAX)

    def _facts(self, before: str | None, page: int) -> Iterator[Event]:
        types = (ITEM, WITHDRAWN, CLEARED)
        return self._session.events(types=types, before=before, limit=page, newest_first=True)


class Tail(NamedTuple):
    """The newest items that are shown, newest first, and all that is there of their stretch of the log."""

    items: list[Event]
    live: list[str]
    newest: int

    def withdraw(self, session: Session, also: Iterable[NewEvent] = ()) -> bool:
        """Erase the stretch; False when another one took it back first.

        Raises:
            Conflict: a hold or a statutory minimum keeps the conversation as it is.
        """
        first = self.items[-1]
        stretch = Stretch(first.seq, self.newest, first.id)
        try:
            # A run that waits holds a copy of what is taken back here.
            session.retract([*self.live, *paused(session)], also=[withdrawn(stretch, once=True), *also])
        except Conflict:
            if is_erased(session, first.id):
                return False
            raise
        return True


def tail_of(session: Session, limit: int | None) -> Tail:
    """The newest items without those whose other half was erased; ``limit`` at most."""
    walk = Walk(session, EVENTS_MAX if limit is None else min(limit + FIRST_PAGE, EVENTS_MAX))
    facts: list[Event] = []
    items: list[Event] = []
    steps = iter(walk) if limit != 0 else iter(())
    while limit is None or len(items) < limit:
        wanted = None if limit is None else limit - len(items)
        more = list(islice(steps, wanted))
        facts += more
        hidden = orphans(facts, erased_calls(session, facts))
        items = [fact for fact in facts if not fact.erased and fact.id not in hidden]
        if wanted is None or len(more) < wanted:
            break
    return Tail(items, [fact.id for fact in facts if not fact.erased], walk.newest)


def erased_calls(session: Session, facts: list[Event]) -> set[str]:
    """Of the calls that stand before the facts and are answered in them: those that are erased."""
    known = {fact.id for fact in facts}
    asked = {fact.caused_by for fact in facts if not fact.erased and fact.caused_by} - known
    return {call for call in asked if is_erased(session, call)}


def is_erased(session: Session, event_id: str) -> bool:
    """Whether the payload of an event of the session is gone."""
    return next(session.slice(event_id, event_id)).erased


def paused(session: Session) -> list[str]:
    """The run that waits, if there is one."""
    facts = session.events(types=[PAUSED], limit=1, newest_first=True)
    return [fact.id for fact in facts if not fact.erased]


def withdrawn(stretch: Stretch, *, once: bool) -> NewEvent:
    """The fact that a stretch is taken back; ``once``: only one can take back what begins there.

    Of two who do, one writes the fact: the other's has the same id and other content.
    """
    payload = {"stretch": stretch._asdict(), "by": new_event_id()}
    event_id = fact_id(WITHDRAWN, stretch.first_id, 0) if once else None
    return NewEvent(type=WITHDRAWN, payload=payload, event_id=event_id)


def fact_id(kind: str, of: str, number: int) -> str:
    """An event id that stands for one thing: whoever tells it again tells the same fact."""
    raw = hashlib.sha256(f"{kind} {of} {number}".encode()).digest()[:16]
    return format_id("evt", raw)
