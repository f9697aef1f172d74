"""Moving in from Google ADK's SQLite databases: of ``DatabaseSessionService`` or ``SqliteSessionService``.

The order is that in which the events were stored, not the one that their times claim. What is there already
is left as it is, so an import that broke off is simply run again.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from google.adk.events.event import Event

from vault.adapters import ImportReport
from vault.adapters.google_adk_fold import DELTA, EVENT, scoped
from vault.adapters.google_adk_origins import SessionIds
from vault.adapters.google_adk_record import Record, Records
from vault.adapters.intake import Intake, Problems
from vault.encoding import canonical_json, json_bytes
from vault.errors import Conflict, Erased, InvalidInput
from vault.model import NewEvent
from vault.storage import foreign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.adapters import Progress
    from vault.faces import Access
    from vault.storage.foreign import Foreign

_TABLES: Final = {"sessions", "events", "app_states", "user_states"}
_MINE: Final = "(:app IS NULL OR app_name = :app) AND (:user IS NULL OR user_id = :user)"
_SESSIONS: Final = (
    f"SELECT app_name, user_id, id, state, create_time FROM sessions WHERE {_MINE} ORDER BY rowid"  # noqa: S608 - the statement's own text
)
_EVENTS: Final = (
    "SELECT rowid, id, invocation_id, timestamp, event_data FROM events "
    "WHERE app_name = :app AND user_id = :user AND session_id = :session ORDER BY rowid"
)
_OF_APPS: Final = "SELECT app_name, state FROM app_states WHERE :app IS NULL OR app_name = :app"
_OF_USERS: Final = f"SELECT app_name, user_id, state FROM user_states WHERE {_MINE}"  # noqa: S608 - as above


def import_adk_sqlite(
    access: Access,
    path: str | Path,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    progress: Progress | None = None,
) -> ImportReport:
    """Bring the sessions, events and states of one of ADK's databases to a principal.

    Args:
        access: from ``vault.access``: whose they become. Where each user is a principal of their own, import
            once for each, with ``user_id``.
        path: the SQLite file; it is only read.
        app_name: only of this app.
        user_id: only of this user.
        progress: called after each session with the events and the bytes of them read so far.

    Returns:
        The sessions, and the events that were not there yet; ``lines`` counts the events that were read, and
        a problem's line is the row number of an event.

    Raises:
        InvalidInput: it is no such database, or one of the older format, with pickles.
    """
    problems, wanted = Problems(), {"app": app_name, "user": user_id}
    incoming = _Incoming(Records(access), problems)
    with foreign.opened(Path(path)) as db:
        _check(db)
        for app, state in db.rows(_OF_APPS, {"app": app_name}):
            incoming.shared(("app", app), state)
        for app, user, state in db.rows(_OF_USERS, wanted):
            incoming.shared(("user", app, user), state)
        for app, user, session, state, created in db.rows(_SESSIONS, wanted):
            place = {"app": app, "user": user, "session": session}
            incoming.session(SessionIds.checked(app, user, session), state, created, db.rows(_EVENTS, place))
            if progress is not None:
                progress(incoming.lines, incoming.bytes)
    return ImportReport(
        sessions=tuple(incoming.sessions),
        events=incoming.events,
        lines=incoming.lines,
        bytes=incoming.bytes,
        problems=problems.listed,
        problems_total=problems.total,
    )


def _check(db: Foreign) -> None:
    if not db.tables() >= _TABLES:
        raise InvalidInput("this file is no database of Google ADK's session services")
    if ("event_data",) not in db.rows("SELECT name FROM pragma_table_info('events')"):
        raise InvalidInput(
            "this database holds pickles, which are never opened here; bring it to ADK's newer format first, "
            "with `adk migrate session`"
        )


class _Incoming:
    """What was taken in so far."""

    def __init__(self, records: Records, problems: Problems) -> None:
        self._records, self._problems = records, problems
        self._seen: set[SessionIds] = set()
        self.sessions: list[str] = []
        self.events = self.lines = self.bytes = 0

    def shared(self, key: tuple[str, ...], text: object) -> None:
        """Take in the state of an app or a user, once."""
        state = _state(text)
        try:
            self._records.sessions.find(*key)
        except Erased:
            self._problems.add(0, "the state of an app or user that was erased; it is not brought back")
            return
        if state:
            self._records.shared(key, lambda record: _write(record, state))

    def session(
        self, ids: SessionIds, text: object, created: object, rows: Iterator[tuple[Any, ...]]
    ) -> None:
        """Take in a session: what it began with, its events, and what they do not say about its state."""
        if ids in self._seen:
            self._problems.add(0, "a session whose id differs from another's in white space only; left out")
            return
        self._seen.add(ids)
        events = list(self._read(rows))
        state, told = _state(text), dict[str, Any]()
        for _, _, payload in events:
            told |= scoped(payload["actions"].get("state_delta", {})).get("session", {})
        first = {key: value for key, value in state.items() if key not in told}
        try:
            record = self._begun(ids, {"at": _seconds(created), "state": first})
        except Erased:
            self._problems.add(0, "a session that was erased; it is not brought back")
            return
        before = record.fold().seq
        intake = Intake(record.session, problems=self._problems)
        for row, size, payload in events:
            at = datetime.fromtimestamp(payload["timestamp"], UTC)
            event_id = record.event_id(payload["id"])
            new = NewEvent(type=EVENT, payload=payload, event_id=event_id, occurred_at=at)
            intake.add(new, line=row, size=size)
        intake.flush()
        self.events += record.fold().seq - before
        rest = {key: value for key, value in state.items() if key in told and told[key] != value}
        if rest:
            _write(record, rest)
        record.settle()
        self.sessions.append(record.session.id)

    def _begun(self, ids: SessionIds, first: dict[str, Any]) -> Record:
        found = self._records.find(*ids.key)
        if found is not None:
            return found
        try:
            return self._records.begin(ids.key, ids.labels, first)
        except Conflict:  # another process was first
            found = self._records.find(*ids.key)
            if found is None:
                raise
            return found

    def _read(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """The events as this adapter stores them, each with its row and size; a damaged one is noted."""
        for row, event_id, invocation_id, timestamp, text in rows:
            self.lines += 1
            self.bytes += len(text or "")
            try:
                said = {"timestamp": _seconds(timestamp), **(_parsed(text) or {})}
                event = Event.model_validate({**said, "id": event_id, "invocation_id": invocation_id})
                payload = event.model_dump(mode="json", exclude_none=True)
                json_bytes(payload)
            except ValueError:
                self._problems.add(row, "an event that is not of ADK's form, or holds what JSON cannot")
                continue
            yield row, len(text or ""), payload


def _write(record: Record, state: dict[str, Any]) -> None:
    digest = hashlib.sha256(canonical_json(state)).hexdigest()
    record.write(DELTA, {"state": state}, f"imported/{digest}")


def _state(text: object) -> dict[str, Any]:
    """The state that a column holds; an empty one when it holds none."""
    try:
        return _parsed(text) or {}
    except ValueError:
        return {}


def _parsed(text: object) -> dict[str, Any] | None:
    """The JSON object that a column holds, None for NULL.

    Raises:
        ValueError: it holds anything else.
    """
    if text is None:
        return None
    value = json.loads(text) if isinstance(text, str | bytes) else text
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - as what is no JSON at all
    return value


def _seconds(value: object) -> float:
    """A time from a column: seconds since 1970, or a date and time in UTC."""
    if isinstance(value, int | float):
        return float(value)
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return 0.0
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
