"""Where what Google ADK derives comes from: the session that a context works for, or one that is named."""

from __future__ import annotations

import contextlib
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from google.adk.errors.session_not_found_error import SessionNotFoundError
from pydantic import BaseModel, ValidationError

from vault.adapters.google_adk_record import Record, Records
from vault.errors import Conflict, Erased, InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.faces import Access
    from vault.sessions.session import Session

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

#: Said of a session that is not there, or not there any more.
GONE: Final = "there is no such session, or it was deleted; create one"
_SOURCE_GONE: Final = (
    "something that was read in this turn was erased meanwhile, so nothing is derived from it; "
    "try again in the next turn"
)


class SessionIds(NamedTuple):
    """Where a session stands among those of its principal."""

    app: str
    user: str
    session: str

    @classmethod
    def checked(cls, app_name: str, user_id: str, session_id: str) -> SessionIds:
        """The ids as they are looked up: white space around a session id does not count, as elsewhere in ADK.

        Raises:
            InvalidInput: one is empty, or no text.
        """
        ids = (app_name, user_id, session_id.strip() if isinstance(session_id, str) else session_id)
        if not all(isinstance(one, str) and one for one in ids):
            raise InvalidInput("an app's name, a user id and a session id are text that is not empty")
        return cls(*ids)

    @property
    def key(self) -> tuple[str, ...]:
        """Its ids for ``Binding``."""
        return ("session", *self)

    @property
    def labels(self) -> dict[str, str]:
        """What it is listed by."""
        return {"scope": "session", "app": self.app, "user": self.user}

    @property
    def scopes(self) -> dict[str, tuple[str, ...]]:
        """The records of the state that it shares with others."""
        return {"app": ("app", self.app), "user": ("user", self.app, self.user)}


class Running(NamedTuple):
    """What a context works for: a session by whose access, in the vault, by ADK's ids; and in which turn."""

    access: Access
    session_id: str
    ids: SessionIds
    invocation: str
    readings: contextlib.ExitStack  # closed when the next turn begins, in this context


#: What a tool writes without saying where from comes from this one.
running: ContextVar[Running | None] = ContextVar("google_adk_running", default=None)


def attach(access: Access, record: Record, ids: SessionIds, invocation: str = "") -> None:
    """From here on this context works for a session: what it derives comes from that and what it reads.

    When another turn begins (``invocation``), what was read before it does not count any more.
    """
    now = running.get()
    if now is not None and now.access is access and now.session_id == record.session.id:
        if invocation in ("", now.invocation):
            return
        if not now.invocation:  # what was read on the way to the turn is part of it
            running.set(now._replace(invocation=invocation))
            return
    if now is not None:
        now.readings.close()
    readings = contextlib.ExitStack()
    try:
        readings.enter_context(record.session.attached())
    except NotFound:  # erased at this very moment
        running.set(None)
    else:
        running.set(Running(access, record.session.id, ids, invocation, readings))


def detach(access: Access, ids: SessionIds) -> None:
    """This context does not work for a session any more, if it did."""
    now = running.get()
    if now is not None and now.access is access and now.ids == ids:
        now.readings.close()
        running.set(None)


def modelled(model: type[M], value: Any) -> M:
    """What was stored as an object of ADK's.

    Raises:
        InvalidInput: another version of ADK wrote it, which this one cannot read.
    """
    try:
        return model.model_validate(value)
    except ValidationError:  # its text quotes what was stored
        raise InvalidInput(
            "this was stored by another version of google-adk; read it with that one"
        ) from None


def erase_item(access: Access, **named: str) -> None:
    """Erase a memory or an artifact for good; nothing when it is gone already.

    Raises:
        Conflict: a hold or a minimum keeps it.
    """
    try:
        outcome = access.erasure.erase(**named)
    except NotFound:
        return
    if any(action in ("held", "minimum") for _, action in outcome.counts):
        raise Conflict("a hold or a statutory minimum keeps this; it is hidden until that ends")


class Origins:
    """The sessions of one principal as sources of what is derived from them."""

    def __init__(self, access: Access) -> None:
        """Look among this principal's; ``access`` is from ``vault.access``."""
        self._access, self._records = access, Records(access)

    def event_id(self, ids: SessionIds, name: str) -> str | None:
        """The event id in the vault of one of ADK's; None while the session was not created."""
        record = self._records.find(*ids.key)
        return None if record is None else record.event_id(name)

    def of(self, ids: SessionIds, work: Callable[[Session], T]) -> T:
        """What some work gives on a session, which is made when there was none yet.

        Raises:
            SessionNotFoundError: it was deleted.
        """
        try:
            record = self._records.find(*ids.key)
            if record is not None:
                try:
                    return work(record.session)
                except (NotFound, Erased):
                    self._records.forget(*ids.key)  # a handle of what is gone, or was made anew
            return work(self._records.bound(ids.key, ids.labels))
        except (NotFound, Erased):
            raise SessionNotFoundError(GONE) from None

    def derive(
        self, app_name: str, user_id: str, ids: SessionIds | None, put: Callable[[list[Any] | None], T]
    ) -> T:
        """What ``put`` gives, called with the sources of what it writes; None for all that was read here.

        Args:
            app_name, user_id: for whom.
            ids: the session that it is for; the running one when left out, else the state of the user.
            put: writes it.

        Raises:
            SessionNotFoundError: the session was deleted.
            InvalidInput: something that was read here was erased.
        """
        now = running.get()
        if ids is None and now is not None and now.ids[:2] == (app_name, user_id):
            ids = now.ids
        if ids is None:
            of_user = ("user", app_name, user_id)
            return self._records.shared(of_user, lambda scope: Context().run(put, [scope.session]))
        return self.of(ids, lambda session: self._derived(session, now, put))

    def _derived(self, session: Session, now: Running | None, put: Callable[[list[Any] | None], T]) -> T:
        if now is None or now.session_id != session.id:
            beside = [now.session_id] if now is not None and now.access is self._access else []
            return Context().run(put, [session, *beside])
        try:
            return put(None)
        except NotFound:
            session.info()
            raise InvalidInput(_SOURCE_GONE) from None
