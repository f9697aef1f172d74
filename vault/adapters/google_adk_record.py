"""The vault's sessions as the adapter for Google ADK writes them: facts, and the state that they fold to.

Each ADK session is one session of the vault, and so are the state of an app and of a user, which ADK's
sessions share. The first fact of each holds a random salt that makes an ADK id into an event id: the same one
in every process, and nothing that somebody without the keys can guess an id by.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from vault.adapters.binding import Binding
from vault.adapters.google_adk_fold import CREATED, EVENT, SNAPSHOT, Fold
from vault.errors import Conflict, Erased, NotFound
from vault.model import EVENTS_MAX, NewEvent, format_id, session_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vault.faces import Access
    from vault.model import Event
    from vault.sealing.kept import Withdrawn
    from vault.sessions.session import Session

T = TypeVar("T")

FRAMEWORK: Final = "google-adk"
#: Facts after which a snapshot of the state is written, so that no read folds more than about so many.
SNAPSHOT_FACTS: Final = 64
#: Sessions whose handle and state one service keeps in memory.
RECORDS_MAX: Final = 512
#: Facts of others that may come between one look at a log and the append that follows it.
_TRIES: Final = 16


class Stale(Exception):
    """Somebody else wrote to the log since this writer has read it."""


class Taken(Exception):
    """A fact of this name is stored already, with other content."""


class Written(NamedTuple):
    """A stored fact; the head of the log as its writer knows it now; whether it knew all before."""

    event: Event
    head: int
    fresh: bool
    updated: float


class Record:
    """One log of ADK's: a session, or the state of an app or a user. Safe to share between threads."""

    def __init__(self, session: Session, first: Event) -> None:
        """Made by ``Records``."""
        self.session, self.begun = session, first.seq
        self.paid: str | None = None  # the name of what was owed to other records and is there by now
        self._salt = bytes.fromhex(first.payload["salt"])
        self._fold: Fold | None = None
        self._lock = threading.Lock()

    def event_id(self, name: str) -> str:
        """The event id that stands for an id of ADK's in this log."""
        raw = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16, key=self._salt).digest()
        return format_id("evt", raw)

    def fold(self, head: int | None = None) -> Fold:
        """The state as it is now; without a look at the log when that is known to be ``head`` events long."""
        with self._lock:
            if head is None or self._fold is None or self._fold.seq != head:
                self._folded()
            assert self._fold is not None  # noqa: S101 - made just now
            return self._fold.copied()

    def load(self, recent: int | None, since: float | None) -> tuple[Fold, list[Event]]:
        """The state, and ADK's events: all, the newest ones, or those that claim not to be older than a time.

        Without all of them the cost is what is returned, and at most about ``SNAPSHOT_FACTS`` events more.
        """
        with self._lock:
            if recent is None and since is None:
                events = list(self.session.events())
                self._fold = self._fold or Fold()
                for event in events:
                    if event.seq > self._fold.seq:
                        self._fold.take(event)
                return self._fold.copied(), [event for event in events if event.type == EVENT]
            fold = self._folded().copied()
        if recent == 0:
            return fold, []
        if since is not None:
            events = list(self._since(since, fold.seq))
            return fold, events if recent is None else events[-recent:]
        return fold, self._newest(recent or 0, fold)

    def write(self, kind: str, payload: Any, name: str) -> None:
        """Append a fact that needs to know no other; the same name and content is stored once.

        Raises:
            Taken: the name stands for other content.
        """
        new = NewEvent(type=kind, payload=payload, event_id=self.event_id(name))
        with self._lock:
            known = self._fold
            if known is not None and known.since + 1 >= SNAPSHOT_FACTS:
                try:
                    self._taken(self.session.append_many(_with_snapshot(new, known), expect_head=known.seq))
                except Conflict:
                    pass  # others wrote meanwhile: the snapshot waits, the fact does not
                else:
                    return
            try:
                self._taken(self.session.append_many([new]))
            except Conflict:
                self._again(new, 0)

    def settle(self) -> None:
        """Write a snapshot now, when there is more to fold than one snapshot is for."""
        with self._lock:
            known = self._folded()
            if known.since >= SNAPSHOT_FACTS:
                new = NewEvent(type=SNAPSHOT, payload=known.copied().snapshot())
                with contextlib.suppress(Conflict):  # others write meanwhile, and will do it
                    self._taken(self.session.append_many([new], expect_head=known.seq))

    def follow(self, kind: str, payload: Any, name: str, expect: int) -> Written:
        """Append the fact that follows the newest one that its writer knows, at ``expect`` or before.

        Raises:
            Stale: there are newer ones.
            Taken: the name stands for other content.
        """
        new = NewEvent(type=kind, payload=payload, event_id=self.event_id(name))
        with self._lock:
            known = self._fold
            if known is None or known.seq != expect:
                known = self._folded()
            for _ in range(_TRIES):
                if not known.told <= expect <= known.seq:
                    return self._again(new, expect)
                due = known.since + 1 >= SNAPSHOT_FACTS
                batch, head = _with_snapshot(new, known) if due else [new], known.seq
                try:
                    events = self.session.append_many(batch, expect_head=head)
                except Conflict:
                    if self._stored(new) is not None:
                        return self._again(new, expect)
                    known = self._folded()  # what came between may be no fact of ADK's
                    continue
                if events[0].seq != head + 1:
                    return self._again(new, expect)
                self._taken(events)
                return Written(events[0], events[-1].seq, fresh=True, updated=known.updated)
        raise Conflict("others write to this session all the time; try again")

    def _again(self, new: NewEvent, expect: int) -> Written:
        """A fact that is stored already: ``fresh`` when it is the very next one behind ``expect``."""
        stored = self._stored(new)
        if stored is None:
            raise Stale
        if stored.payload != new.payload:
            raise Taken
        before = self.session.events(types=[EVENT], before=stored.id, newest_first=True, limit=1)
        fresh = stored.seq > expect and all(event.seq <= expect for event in before)
        updated = self._fold.updated if self._fold else 0.0
        return Written(stored, stored.seq, fresh=fresh, updated=updated)

    def place(self, name: str) -> int:
        """Where a fact stands in the log; 0 when it is not there."""
        stored = self._stored(NewEvent(type=EVENT, event_id=self.event_id(name)))
        return 0 if stored is None else stored.seq

    def _stored(self, new: NewEvent) -> Event | None:
        """The stored event of that id."""
        event_id = new.event_id or ""
        try:
            return next(self.session.slice(event_id, event_id))
        except NotFound:
            self.session.info()  # an event that is not there is no news, a session that is not there is
            return None

    def _taken(self, events: list[Event]) -> None:
        """Go on by events that were appended just now, when nothing is between."""
        for event in events:
            if self._fold is not None and event.seq == self._fold.seq + 1:
                self._fold.take(event)

    def _folded(self) -> Fold:
        """The state brought up to date: from where it stood, or from the newest snapshot."""
        fold = self._fold
        if fold is None:
            fold = Fold()
            newest = next(self.session.events(types=[SNAPSHOT], newest_first=True, limit=1), None)
            if newest is not None:
                fold.take(newest)
        self._fold = None  # a fold that stops half-way is none
        for event in self.session.events(after=fold.last):
            fold.take(event)
        self._fold = fold
        return fold

    def _newest(self, count: int, fold: Fold) -> list[Event]:
        """The newest of ADK's events, as of a fold."""
        if fold.last is None:
            return []
        last = next(self.session.slice(fold.last, fold.last))
        found = [last] if last.type == EVENT else []
        before = self.session.events(types=[EVENT], before=fold.last, newest_first=True, limit=count)
        return [*found, *before][:count][::-1]

    def _since(self, since: float, head: int) -> Iterator[Event]:
        """ADK's events up to ``head`` that claim a time; those are skipped that a snapshot says are older."""
        start = None
        for snapshot in self.session.events(types=[SNAPSHOT], newest_first=True, limit=EVENTS_MAX):
            if snapshot.payload["updated"] < since:
                start = snapshot.id
                break
        for event in self.session.events(types=[EVENT], after=start):
            if event.seq <= head and event.payload["timestamp"] >= since:
                yield event


def _with_snapshot(new: NewEvent, known: Fold) -> list[NewEvent]:
    after = known.copied()
    after.fact(new.type, new.payload, known.seq + 1)
    return [new, NewEvent(type=SNAPSHOT, payload=after.snapshot())]


class Records:
    """The records of one principal, found by ADK's ids; the handles that are kept are no permissions."""

    def __init__(self, access: Access, *, reuse_erased: bool = False) -> None:
        """Keep the last ``RECORDS_MAX`` that were used.

        Args:
            access: of the principal.
            reuse_erased: begin anew under the ids of a session that was erased. The state of an app or a user
                always is: only who appends to a session that is there writes to it.
        """
        self.sessions = Binding(access, FRAMEWORK, reuse_erased=reuse_erased)
        self._scopes = Binding(access, FRAMEWORK, reuse_erased=True)
        self._known: OrderedDict[tuple[str, ...], Record] = OrderedDict()
        self._lock = threading.Lock()
        access.watch(self._withdrawn)

    def find(self, *ids: str) -> Record | None:
        """The record under these ids; None when there is none, or none any more."""
        with self._lock:
            known = self._known.get(ids)
            if known is not None:
                self._known.move_to_end(ids)
                return known
        try:
            session = self._binding(ids).find(*ids)
        except Erased:
            return None
        return None if session is None else self.of(session, ids)

    def of(self, session: Session, ids: tuple[str, ...]) -> Record | None:
        """The record that a session of the vault is; None when it was not begun yet."""
        with self._lock:
            known = self._known.get(ids)
        if known is not None and known.session.id == session.id:
            return known
        first = next(session.events(types=[CREATED], limit=1), None)
        if first is None:
            return None
        record = Record(session, first)
        with self._lock:
            self._known[ids] = record
            while len(self._known) > RECORDS_MAX:
                self._known.popitem(last=False)
        return record

    def begin(self, ids: tuple[str, ...], labels: dict[str, str], first: dict[str, Any]) -> Record:
        """A new record with its first fact.

        Raises:
            Conflict: there is one.
            Erased: there was one.
        """
        session = self.bound(ids, labels)
        head = 0
        for event in session.events():
            if event.type == CREATED:
                raise Conflict("there is a session under these ids already")
            head = event.seq
        salted = {**first, "salt": os.urandom(16).hex()}
        session.append_many([NewEvent(type=CREATED, payload=salted)], expect_head=head)
        made = self.of(session, ids)
        assert made is not None  # noqa: S101 - its first fact was written just now
        return made

    def bound(self, ids: tuple[str, ...], labels: dict[str, str]) -> Session:
        """The vault's session under these ids, begun or not; made when there is none.

        Raises:
            Erased: there was one.
        """
        return self._binding(ids).open(*ids, labels=labels)

    def shared(self, ids: tuple[str, ...], work: Callable[[Record], T]) -> T:
        """What some work gives on the state of an app or a user, begun when there is none (any more)."""
        record = self.find(*ids)
        if record is not None:
            try:
                return work(record)
            except (NotFound, Erased):
                self.forget(*ids)
                if self.find(*ids) is not None:
                    raise
        try:
            record = self.begin(ids, {"scope": ids[0], "app": ids[1]}, {"state": {}})
        except Conflict:  # another process was first
            record = self.find(*ids)
            if record is None:
                raise
        return work(record)

    def forget(self, *ids: str) -> None:
        """Drop what is kept of a record: its handle and its state."""
        with self._lock:
            self._known.pop(ids, None)

    def _withdrawn(self, gone: Withdrawn) -> None:
        """Drop what is kept of sessions that were erased, or something of them, by whatever process."""
        with self._lock:
            for ids in [ids for ids, one in self._known.items() if session_bytes(one.session.id) in gone]:
                del self._known[ids]

    def _binding(self, ids: tuple[str, ...]) -> Binding:
        return self.sessions if ids[0] == "session" else self._scopes
