"""Sessions of Google ADK in the vault: its ``BaseSessionService``, for one principal.

Whose sessions they are is said by the access that the service is made with. The app's name and the user id
that travel through ADK choose among that principal's own, and never reach anybody else's.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from pydantic_core import to_jsonable_python

from vault.adapters.google_adk_fold import DELTA, EVENT, Fold, Owed, owed
from vault.adapters.google_adk_origins import GONE, SessionIds, attach, detach, modelled, running
from vault.adapters.google_adk_record import Record, Records, Stale, Taken, Written
from vault.aio import settled
from vault.errors import Conflict, Erased, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.faces import Access

_STALE: Final = (
    "the session was modified in storage since this object was read; get the session again, then append"
)
_TAKEN: Final = "a session with this id exists already, or was deleted; take another id"
_OTHER: Final = "an event with this id is stored already with other content; give the new one its own id"


class VaultSessionService(BaseSessionService):
    """ADK's sessions of one principal: sealed, in the order of the log, erased when they are deleted."""

    def __init__(self, access: Access, *, reuse_erased: bool = False) -> None:
        """Keep sessions for one principal; make one service for each.

        Args:
            access: from ``vault.access``: whose sessions they are.
            reuse_erased: let ``create_session`` take the id of a session that was deleted; else it is refused
                for good, so that nobody who is late writes into a new one.
        """
        self._records = Records(access, reuse_erased=reuse_erased)
        self._access = access
        self._turns: WeakValueDictionary[tuple[int, SessionIds], asyncio.Lock] = WeakValueDictionary()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session.

        Raises:
            AlreadyExistsError: the id is taken, or was until it was deleted.
            InvalidInput: an id is too long, or the state is not JSON.
        """
        given = session_id.strip() if session_id else ""
        ids = SessionIds.checked(app_name, user_id, given or str(uuid.uuid4()))
        record, session = await settled(
            self._created, ids, to_jsonable_python(state or {}, serialize_unknown=True)
        )
        attach(self._access, record, ids)
        return session

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """A session with its events in the log's order, all or as ``config`` says; None when there is none.

        Raises:
            Tampered: it was changed, removed or rolled back.
            InvalidInput: an event was stored by another version of ADK, which this one cannot read.
        """
        if not session_id or not session_id.strip():
            return None
        ids = SessionIds.checked(app_name, user_id, session_id)
        found = await settled(self._got, ids, config or GetSessionConfig())
        if found is None:
            return None
        record, session = found
        current = running.get()
        if current is None or current.access is not self._access:
            attach(self._access, record, ids)
        return session

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of an app, of one user or of all, without events; the one updated last comes last."""
        named = app_name and user_id != ""
        sessions = await settled(self._listed, app_name, user_id) if named else []
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erase a session for good, with the memories and artifacts that came from it.

        Raises:
            Conflict: a legal hold or a statutory minimum keeps it.
        """
        if session_id and session_id.strip():
            ids = SessionIds.checked(app_name, user_id, session_id)
            try:
                await settled(self._records.sessions.erase, *ids.key)
            finally:
                self._records.forget(*ids.key)
                detach(self._access, ids)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state that a user's sessions of an app share, without the prefix."""
        return await settled(self._scope, "user", SessionIds(app_name, user_id, ""))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event that follows the last one that ``session`` knows; it is durable when this returns.

        The same event again is stored once. A partial one is given back unsaved.

        Raises:
            StaleSessionError: somebody else appended since ``session`` was read.
            SessionNotFoundError: it was deleted, or never created.
            AlreadyExistsError: the event's id is stored with other content.
            InvalidInput: something in it is not JSON.
        """
        if event.partial:
            return event
        ids = SessionIds.checked(session.app_name, session.user_id, session.id)
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        payload = event.model_dump(mode="json", exclude_none=True)
        done: list[tuple[Record, Written]] = []
        async with self._turn(ids):
            try:
                await settled(self._appended, ids, session, payload, done)
            finally:  # also for whoever is cancelled meanwhile: the object knows what is stored
                for record, written in done:
                    self._know(session, event, record, written)
        attach(self._access, done[0][0], ids, event.invocation_id)
        return event

    # What follows runs in worker threads, but for what says otherwise.

    def _created(self, ids: SessionIds, state: dict[str, Any]) -> tuple[Record, Session]:
        first = {"state": {key: value for key, value in state.items() if not key.startswith("temp:")}}
        try:
            record = self._records.begin(ids.key, ids.labels, first)
        except (Conflict, Erased):
            raise AlreadyExistsError(_TAKEN) from None
        fold, _ = record.load(0, None)
        self._pay(ids, record, fold.owed)
        return record, self._session(ids, record, fold, [])

    def _got(self, ids: SessionIds, config: GetSessionConfig) -> tuple[Record, Session] | None:
        def load(record: Record) -> tuple[Record, Session]:
            fold, events = record.load(config.num_recent_events, config.after_timestamp)
            self._pay(ids, record, fold.owed)
            now = running.get()
            if now is not None and now.session_id != record.session.id:
                record.session.info()  # read, also where its state was in memory already and no event is
            known = [modelled(Event, event.payload) for event in events]
            return record, self._session(ids, record, fold, known)

        found: tuple[Record, Session] | None = self._with(ids.key, load)
        return found

    def _appended(
        self, ids: SessionIds, session: Session, payload: dict[str, Any], done: list[tuple[Record, Written]]
    ) -> None:
        def append(record: Record) -> bool:
            try:
                written = record.follow(EVENT, payload, payload["id"], _expected(session, record))
            except Stale:
                raise StaleSessionError(_STALE) from None
            except Taken:
                raise AlreadyExistsError(_OTHER) from None
            done[:] = [(record, written)]
            # Behind the event, which decides whether this happened: a crash here is made good by whoever
            # appends the event again, or reads the session.
            self._pay(ids, record, owed(payload))
            return True

        if not self._with(ids.key, append):
            raise SessionNotFoundError(GONE)

    def _pay(self, ids: SessionIds, record: Record, due: Owed | None) -> None:
        """Have what a session's newest fact says about its app's and user's state stand there too, once."""
        if due is None or record.paid == due[0]:
            return
        name = f"{record.session.id}/{due[0]}"
        for scope, delta in due[1].items():
            self._deliver(ids.scopes[scope], {"state": delta}, name)
        record.paid = due[0]

    def _deliver(self, key: tuple[str, ...], said: dict[str, Any], name: str) -> None:
        self._records.shared(key, lambda record: record.write(DELTA, said, name))

    def _scope(self, scope: str, ids: SessionIds) -> dict[str, Any]:
        """The state of an app, or of a user, without its prefix."""
        found: Fold | None = self._with(ids.scopes[scope], lambda record: record.fold())
        return {} if found is None else found.state

    def _listed(self, app_name: str, user_id: str | None) -> list[Session]:
        labels = {"scope": "session", "app": app_name}
        if user_id is not None:
            labels["user"] = user_id
        sessions = []
        for key, summary in self._records.sessions.listed(**labels):
            ids = SessionIds(*key[1:])
            with contextlib.suppress(NotFound, Erased):  # gone since it was listed
                record = self._records.find(*key)
                if record is None or record.session.id != summary.id:
                    record = self._records.of(self._access.sessions.resume(summary.id), key)
                if record is not None:
                    sessions.append(self._session(ids, record, record.fold(summary.event_count), []))
        return sorted(sessions, key=lambda one: (one.last_update_time, one.user_id, one.id))

    def _with(self, key: tuple[str, ...], work: Callable[[Record], Any]) -> Any:
        """What some work gives on a record; None when there is none. A handle of what is gone is left."""
        record = self._records.find(*key)
        if record is None:
            return None
        try:
            return work(record)
        except (NotFound, Erased):
            self._records.forget(*key)
            record = self._records.find(*key)
            return None if record is None else work(record)

    def _session(self, ids: SessionIds, record: Record, fold: Fold, events: list[Event]) -> Session:
        state = fold.state
        for scope in ids.scopes:
            state.update({f"{scope}:{key}": value for key, value in self._scope(scope, ids).items()})
        session = Session(
            id=ids.session,
            app_name=ids.app,
            user_id=ids.user,
            state=state,
            events=events,
            last_update_time=fold.updated,
        )
        _mark(session, record, fold.seq)
        return session

    # What follows runs in the thread of the event loop.

    def _know(self, session: Session, event: Event, record: Record, written: Written) -> None:
        """Bring an object of ADK's up to what was stored, unless it knew that, or does not know enough."""
        if written.fresh:
            self._commit_event_to_session(session, event)
            _mark(session, record, written.head)
            session.last_update_time = written.updated

    def _turn(self, ids: SessionIds) -> asyncio.Lock:
        """Who appends to a session takes turns, in the order of the calls: tasks may share one object."""
        place = (id(asyncio.get_running_loop()), ids)
        lock = self._turns.get(place)
        if lock is None:
            lock = self._turns[place] = asyncio.Lock()
        return lock


def _expected(session: Session, record: Record) -> int:
    """The place of the last event that an object of ADK's knows.

    Raises:
        StaleSessionError: it is of a session that was deleted, and another one has its id.
    """
    marker = session._storage_update_marker  # noqa: SLF001 - the field that ADK's session has for its store
    if marker is None:  # made by hand
        return record.place(session.events[-1].id) if session.events else record.begun
    session_id, _, seq = marker.partition(":")
    if session_id != record.session.id:
        raise StaleSessionError(_STALE)
    return int(seq)


def _mark(session: Session, record: Record, seq: int) -> None:
    session._storage_update_marker = f"{record.session.id}:{seq}"  # noqa: SLF001 - the field for it
