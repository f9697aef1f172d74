"""What an item of a LangGraph store comes from: the running thread, the run around it, or what is said."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langgraph.config import get_config

from vault.adapters.binding import LABEL
from vault.clock import from_us
from vault.errors import Erased, Fenced, InvalidInput, LimitExceeded, NotFound, SessionEnded

if TYPE_CHECKING:
    from vault.adapters.binding import Binding
    from vault.clock import Clock
    from vault.derived.item import Memory
    from vault.sessions.session import Session

#: What the sessions of threads are bound as.
FRAMEWORK: Final = "langgraph"
#: By what the store finds the session that stands for what nobody said a source of.
DIRECT: Final = {LABEL: "langgraph-store"}
_DAY: Final = timedelta(days=1)
_ACTIVE: Final = "active"


class _Own(NamedTuple):
    session: Session
    made_at: datetime


class Sources:
    """Puts memories of one principal, each with the source that is known without anybody naming it."""

    def __init__(self, threads: Binding, scope: Session | None, clock: Clock) -> None:
        """Use ``scope`` outside of threads and runs; None: a session of the store's own."""
        self._access, self._threads, self._scope, self._clock = threads.access, threads, scope, clock
        self._own: _Own | None = None
        self._lock = threading.Lock()

    def put(self, *item: Any) -> Memory:
        """Put a memory (namespace, key, value) that comes from what runs here.

        Raises:
            InvalidInput: it cannot be stored as given.
            Erased: the running thread was erased.
            NotFound: it is being erased, or there is no leave to write.
        """
        put, thread = self._access.memories.put, self._thread()
        if thread is None:
            try:
                return put(*item)
            except LimitExceeded:
                raise
            except InvalidInput:  # nothing runs here, so nothing is its source by itself
                return self._put_directly(*item)
        try:
            return put(*item, sources=[thread])
        except LimitExceeded:
            raise
        except InvalidInput:  # a run around has read more: it comes from the thread and from all of that
            thread.info()
            return put(*item)

    def _thread(self) -> Session | None:
        """The session of the thread that runs in this context, made when it has no checkpoint yet."""
        try:
            config = get_config()
        except RuntimeError:
            return None
        thread_id = (config.get("configurable") or {}).get("thread_id")
        return None if thread_id is None else self._threads.open("thread", str(thread_id))

    def _put_directly(self, *item: Any) -> Memory:
        if self._scope is not None:
            return self._access.memories.put(*item, sources=[self._scope])
        try:
            return self._put_from(self._own_session(), *item)
        except (NotFound, Erased, Fenced, SessionEnded):  # it went meanwhile
            with self._lock:
                self._own = None
            return self._put_from(self._own_session(), *item)

    def _put_from(self, session: Session, *item: Any) -> Memory:
        # Retention counts from a session's last event: it is to live as long as what comes from it.
        session.append("langgraph.store.put", {"items": 1})
        return self._access.memories.put(*item, sources=[session])

    def _own_session(self) -> Session:
        """A session of the last 24 hours: none of them lives for ever, and takes all with it in the end."""
        with self._lock:
            earliest = from_us(self._clock.now_us()) - _DAY
            if self._own is None or self._own.made_at < earliest:
                sessions = self._access.sessions
                newest = next(iter(sessions.find(labels=DIRECT, limit=1).items), None)
                if newest is not None and newest.state == _ACTIVE and newest.created_at >= earliest:
                    self._own = _Own(sessions.resume(newest.id), newest.created_at)
                else:
                    made = sessions.create(title="LangGraph store", labels=DIRECT)
                    self._own = _Own(made, made.info().created_at)
            return self._own.session
