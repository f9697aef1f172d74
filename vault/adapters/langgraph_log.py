"""The threads of LangGraph as sessions: read as far as they grew, written by compare-and-set, taken apart.

What a process knows of a thread it keeps in memory, for the threads used last. Before each read it asks the
log for what came since, and a write goes in only when nothing came: so two processes never build on a state
that the other one has changed, and a chunk is only named while it is there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar, cast

from vault.adapters.langgraph_records import CHECKPOINT, LAYOUT, STRANGE, VALUES, WRITES, Record
from vault.adapters.langgraph_state import Thread
from vault.errors import Conflict, Erased, NotFound, Tampered
from vault.model import BATCH_MAX, NewEvent, session_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vault.adapters.binding import Binding
    from vault.adapters.langgraph_values import Memory
    from vault.model import Event
    from vault.sealing.kept import Withdrawn
    from vault.sessions.session import Session

#: Which events count no more: written before their bytes are taken out, so nobody builds on them meanwhile.
DROPPED: Final = "langgraph.dropped"
RETRACTED: Final = "event.retracted"
#: What a record is to become: the type of the event, and the record.
Pending: TypeAlias = tuple[str, Record]
T = TypeVar("T")

_KIND: Final = "thread"
_RECORDS: Final = frozenset({CHECKPOINT, WRITES, VALUES})
#: The epoch of what may be taken out of a thread that lives on.
_EPOCH: Final = 1
#: Threads, and bytes of all of them together, that are kept in memory.
_THREADS_MAX: Final = 256
_BYTES_MAX: Final = 256 * 2**20
#: Events of one transaction while a thread is taken apart or copied, each of up to about half a MiB.
BATCH: Final = 200
#: Bytes of a record from which the log is asked first: one that is refused was uploaded for nothing.
_LARGE: Final = 32 * 1024
#: How often a write is tried when other processes write to the same thread all the time.
_ATTEMPTS: Final = 1_000
_TAKEN: Final = "other processes write to this thread all the time; try again"


class Removal(NamedTuple):
    """Events to take out of a thread, and what is to be written anew before."""

    events: Sequence[str]
    records: Sequence[Pending] = ()


class ThreadLog:
    """One thread's session, and what its events amount to; used under its lock."""

    def __init__(self, session: Session) -> None:
        """Nothing is read yet."""
        self.session = session
        self.session_bytes = session_bytes(session.id)
        self.lock = threading.RLock()
        self.thread = Thread()
        #: What each channel of each namespace held when it was put last.
        self.memories: dict[tuple[str, str], Memory] = {}
        self._seq, self._last = 0, cast("str | None", None)
        self._dropped: set[str] = set()
        self._leftover: list[str] = []  # events that count no more and whose bytes are there still

    @property
    def read(self) -> bool:
        """Whether anything was read or written yet."""
        return self._seq > 0

    def refresh(self) -> Thread:
        """The thread as it is now.

        Raises:
            NotFound: the session is gone.
            Tampered: what is stored is not what was written.
        """
        with self.lock:
            if not self._seq or not self._follow():
                self._reload()
            return self.thread

    def append(self, compose: Callable[[Thread], Sequence[Pending]]) -> list[Event]:
        """Write what ``compose`` makes of the thread as it is, all of it or nothing.

        ``compose`` is called again when another process was faster. Whoever calls holds the lock, and takes
        in what was written.

        Raises:
            NotFound: the session is gone.
            Conflict: other processes were faster each time.
        """
        for _ in range(_ATTEMPTS):
            records = compose(self.thread)
            if sum(len(one.packed) for _, one in records) > _LARGE and self._moved():
                continue
            try:
                return self._write([_event(one) for one in records]) if records else []
            except Conflict:
                self.refresh()
        raise Conflict(_TAKEN)

    def drop(self, plan: Callable[[Thread], Removal]) -> None:
        """Take events out: first so that nobody builds on them any more, then their bytes.

        What is still needed of them is written anew before. Interrupted, it is finished by the next one.

        Raises:
            NotFound: the session is gone.
            Conflict: a hold keeps the bytes; what was taken out stays hidden.
        """
        with self.lock:
            self._hide(plan)
            # The newest first: what is left, when this is interrupted, still has all that it was made from.
            gone = self._leftover[::-1]
            for start in range(0, len(gone), BATCH_MAX):
                self.session.retract(gone[start : start + BATCH_MAX])
            self._reload()

    def _hide(self, plan: Callable[[Thread], Removal]) -> None:
        """Say which events count no more, once what is still needed of them stands elsewhere."""
        for _ in range(_ATTEMPTS):
            self._reload()
            removal = plan(self.thread)
            if not removal.events:
                return
            said = NewEvent(type=DROPPED, payload={"layout": LAYOUT, "events": [*removal.events]})
            new = [*(_event(one) for one in removal.records), said]
            try:
                for start in range(0, len(new), BATCH):
                    self._write(new[start : start + BATCH])
            except Conflict:
                continue
            self._reload()
            return
        raise Conflict(_TAKEN)

    def _moved(self) -> bool:
        """Whether something came since the last look."""
        before = self._seq
        self.refresh()
        return self._seq != before

    def _write(self, new: list[NewEvent]) -> list[Event]:
        events = self.session.append_many(new, expect_head=self._seq)
        self._seq, self._last = events[-1].seq, events[-1].id
        return events

    def _reload(self) -> None:
        """Read all of it; from the beginning again when another process took events out meanwhile.

        Raises:
            Tampered: what is stored is not what was written.
        """
        while True:
            try:
                if self._loaded():
                    return
            except Tampered:  # or what an event stands on is gone, and stands elsewhere by now
                early = self.session.events(types=[DROPPED])
                if self._dropped.issuperset(mark for event in early for mark in _marks(event)):
                    raise

    def _loaded(self) -> bool:
        self.thread, self._leftover = Thread(), []
        self._seq, self._last = 0, None
        early = list(self.session.events(types=[DROPPED, VALUES]))
        self._dropped = {mark for event in early if event.type == DROPPED for mark in _marks(event)}
        for event in early:  # what was written anew stands behind what names it
            if event.type == VALUES and event.id not in self._dropped:
                self._take(event)
        for event in self.session.events():
            if event.type == DROPPED and not self._dropped.issuperset(_marks(event)):
                return False
            self._take(event)
        return True

    def _follow(self) -> bool:
        """Take in what came since; False when what was taken in before counts no more."""
        for event in self.session.events(after=self._last):
            if event.type in {DROPPED, RETRACTED} or event.erased:
                return False
            self._take(event)
        return True

    def _take(self, event: Event) -> None:
        if event.type in _RECORDS and not event.erased:
            if event.id in self._dropped:
                self._leftover.append(event.id)
            elif event.id not in self.thread.value_events:
                self.thread.fold(event.id, event.type, self._bytes(event))
        self._seq, self._last = event.seq, event.id

    def _bytes(self, event: Event) -> bytes:
        if not event.streamed:
            return event.raw or b""
        with self.session.open(event) as stream:
            return stream.read()


class ThreadLogs:
    """The threads of one principal; safe to share between threads and between copies of a saver."""

    def __init__(self, binding: Binding) -> None:
        """None is known yet."""
        self._binding = binding
        self._lock = threading.Lock()
        self._known: OrderedDict[str, ThreadLog] = OrderedDict()
        binding.access.watch(self._withdrawn)

    def reading(self, thread_id: str) -> ThreadLog | None:
        """A thread, up to date; None when nothing was written to it, or when it was erased.

        Raises:
            Tampered: what is stored is not what was written.
        """
        for _ in range(2):
            try:
                log = self._known.get(thread_id)
                if log is None:
                    session = self._binding.find(_KIND, thread_id)
                    if session is None:
                        return None
                    log = self._entered(thread_id, session)
                log.refresh()
            except (Erased, NotFound):
                self.forget(thread_id)  # another one may stand under this id by now
            else:
                return log
        return None

    def write(self, thread_id: str, write: Callable[[ThreadLog], T]) -> T:
        """What ``write`` makes of a thread, under its lock; the thread begins with it if it has to.

        Raises:
            Erased: the thread was erased.
            As ``write``.
        """
        for last in (False, True):
            log = self._known.get(thread_id)
            if log is None:
                log = self._entered(thread_id, self._binding.open(_KIND, thread_id))
            try:
                with log.lock:
                    if not log.read:
                        log.refresh()
                    return write(log)
            except NotFound:  # erased meanwhile; the next look says so
                self.forget(thread_id)
                if last:
                    raise
        raise Erased

    def session(self, thread_id: str) -> Session:
        """The session of a thread, made when there is none yet.

        Raises:
            Erased: the thread was erased.
        """
        return self._binding.open(_KIND, thread_id)

    def erase(self, thread_id: str) -> None:
        """Erase a thread with all that came from it; one that was never there is no error.

        Raises:
            Conflict: a hold or a minimum keeps it.
        """
        self.forget(thread_id)
        self._binding.erase(_KIND, thread_id)
        self.forget(thread_id)

    def ids(self) -> list[str]:
        """The ids of all threads, last used first."""
        return [ids[1] for ids, _ in self._binding.listed() if ids[0] == _KIND]

    def forget(self, thread_id: str) -> None:
        """Hold nothing of a thread in memory."""
        with self._lock:
            self._known.pop(thread_id, None)

    def _withdrawn(self, gone: Withdrawn) -> None:
        """Hold nothing of the threads that were erased, or something of them, by whatever process."""
        with self._lock:
            for thread_id in [one for one, log in self._known.items() if log.session_bytes in gone]:
                del self._known[thread_id]

    def _entered(self, thread_id: str, session: Session) -> ThreadLog:
        """The one view of a thread that all of this process share; the last used stay."""
        with self._lock:
            log = self._known.setdefault(thread_id, ThreadLog(session))
            self._known.move_to_end(thread_id)
            total = sum(one.thread.bytes for one in self._known.values())
            while len(self._known) > _THREADS_MAX or (total > _BYTES_MAX and len(self._known) > 1):
                _, gone = self._known.popitem(last=False)
                total -= gone.thread.bytes
            return log


def _event(pending: Pending) -> NewEvent:
    kind, record = pending
    return NewEvent(type=kind, raw=record.packed, epoch=_EPOCH)


def _marks(event: Event) -> list[str]:
    """Which events another one takes out.

    Raises:
        Tampered: it is not as this module writes it.
    """
    said = event.payload
    if not isinstance(said, dict) or said.get("layout") != LAYOUT or not isinstance(said.get("events"), list):
        raise Tampered(STRANGE)
    return list(said["events"])
