"""The frozen nouns and the ids, with the limits that bound them."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, NewType

from vault.clock import from_us, now_ns
from vault.errors import InvalidInput, LimitExceeded, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

SessionId = NewType("SessionId", str)
EventId = NewType("EventId", str)
RunId = NewType("RunId", str)

# Limits (architecture.md invariant 12). Each is answered with one sentence when passed.
TYPE_LENGTH_MAX: Final = 64
NAME_LENGTH_MAX: Final = 256  # tenant, subject, tool, external id, config, label key and value, in characters
TITLE_LENGTH_MAX: Final = 1_000
LABELS_MAX: Final = 32
TEAMS_MAX: Final = 32  # of one principal: each is a look-up when it asks for somebody else's session
JSON_BYTES_MAX: Final = 64 * 2**20  # one JSON payload: it is held in memory whole, some three times over
USAGE_BYTES_MAX: Final = 64 * 1024  # model parameters and token counts of one event
STREAM_BYTES_MAX: Final = 16 * 2**30  # one streamed payload: two hours of audio is 1 GiB
EAGER_BYTES_MAX: Final = 2**20  # raw payloads up to here come with the event; longer ones are streamed
BATCH_BYTES_MAX: Final = 512 * 2**20  # payloads of one append_many together; held in memory twice
BATCH_MAX: Final = 1_000  # events in one append_many
EVENT_TYPES_MAX: Final = 256  # different types in one session
EVENTS_MAX: Final = 2**31 - 1  # events in one session
PAGE_MAX: Final = 500  # sessions in one page of find

LEVELS: Final = ("L0", "L1", "L2", "L3")
_TYPE = re.compile(r"[a-z0-9_-]{1,64}(\.[a-z0-9_-]{1,62})+")

_id_lock = threading.Lock()
_id_last = 0


def uuid7() -> bytes:
    """16 bytes of a UUIDv7 (RFC 9562 §5.7) that sort after every one this process made before.

    48 bits of milliseconds, 12 bits of their fraction (method 3 of §6.2), then 62 random bits; when the
    clock stands still or goes back, the last time counts on by one step.
    """
    global _id_last  # noqa: PLW0603 - one process, one order: that is what makes the ids monotonic
    nanoseconds = now_ns()
    ticks = (nanoseconds // 1_000_000 << 12) | (nanoseconds % 1_000_000 * 4096 // 1_000_000)
    with _id_lock:
        _id_last = ticks = max(ticks, _id_last + 1)
    high = (ticks >> 12 << 16) | 0x7000 | (ticks & 0xFFF)
    low = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    return (high << 64 | low).to_bytes(16)


def format_id(prefix: str, raw: bytes) -> str:
    """``ses_``, ``evt_`` or ``run_`` and the UUID in its usual hexadecimal form."""
    text = raw.hex()
    return f"{prefix}_{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def parse_id(prefix: str, text: str) -> bytes | None:
    """The 16 bytes of an id, or None when it is no id of this kind."""
    head, _, uuid = text.partition("_")
    if head != prefix or not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid):
        return None
    return bytes.fromhex(uuid.replace("-", ""))


def session_bytes(session_id: str) -> bytes:
    """The 16 bytes of a session id.

    Raises:
        NotFound: not a session id, which answers exactly as an unknown one.
    """
    raw = parse_id("ses", session_id) if isinstance(session_id, str) else None
    if raw is None:
        raise NotFound("there is no such session")
    return raw


def event_bytes(event_id: str) -> bytes:
    """The 16 bytes of an event id.

    Raises:
        InvalidInput: not of the form ``evt_`` and a UUID.
    """
    raw = parse_id("evt", event_id) if isinstance(event_id, str) else None
    if raw is None:
        raise InvalidInput("an event id is evt_ followed by a UUID; leave it out to get a new one")
    return raw


def run_bytes(run_id: str) -> bytes:
    """The 16 bytes of a run id.

    Raises:
        InvalidInput: not of the form ``run_`` and a UUID.
    """
    raw = parse_id("run", run_id) if isinstance(run_id, str) else None
    if raw is None:
        raise InvalidInput("a run id is run_ followed by a UUID; make one with vault.new_run_id()")
    return raw


def new_run_id() -> RunId:
    """A fresh run id."""
    return RunId(format_id("run", uuid7()))


def new_event_id() -> EventId:
    """A fresh event id, for a writer that wants to retry an append safely."""
    return EventId(format_id("evt", uuid7()))


def check_type(event_type: str) -> str:
    """An event type, checked: two or more parts of ``[a-z0-9_-]`` joined by dots, 64 characters at most.

    Raises:
        InvalidInput: anything else.
    """
    if not isinstance(event_type, str) or not _is_type(event_type):
        raise InvalidInput(
            "an event type is two or more parts of a-z, 0-9, _ or - joined by dots, at most "
            f"{TYPE_LENGTH_MAX} characters, for example message.user"
        )
    return event_type


@lru_cache(maxsize=1024)
def _is_type(text: str) -> bool:
    return len(text) <= TYPE_LENGTH_MAX and _TYPE.fullmatch(text) is not None


def check_name(value: str, what: str, limit: int = NAME_LENGTH_MAX) -> str:
    """A user-supplied name, checked: a non-empty string of Unicode text within the limit.

    Raises:
        InvalidInput: anything else; the message names ``what``, never the value.
    """
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise InvalidInput(f"{what} must be a string of 1 to {limit} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} holds a lone surrogate, which is not Unicode text") from None
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is calling: a subject of a tenant, in one or more roles, perhaps a member of teams."""

    tenant: str = field(repr=False)
    subject: str = field(repr=False)
    roles: frozenset[str] = frozenset({"agent"})
    teams: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        """Check the names once, at the edge."""
        check_name(self.tenant, "a tenant")
        check_name(self.subject, "a subject")
        object.__setattr__(self, "roles", frozenset(self.roles))
        object.__setattr__(self, "teams", frozenset(check_name(team, "a team") for team in self.teams))
        if len(self.teams) > TEAMS_MAX:
            raise LimitExceeded(f"a principal is in at most {TEAMS_MAX} teams")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event as a writer gives it; either ``payload`` (JSON) or ``raw`` (bytes, or a binary stream).

    ``epoch`` 0: its payload lives as long as the session, or as its policy says. Another number, up to 4,095:
    under a key of that number's own, so that it can be erased while the session lives on
    (``Session.retract``).
    """

    type: str
    payload: Any = field(default=None, repr=False)
    raw: bytes | BinaryIO | None = field(default=None, repr=False)
    event_id: str | None = None
    run: str | None = None
    tool: str | None = field(default=None, repr=False)
    caused_by: str | None = None
    observed_at: datetime | None = None
    occurred_at: datetime | None = None
    usage: Mapping[str, Any] | None = field(default=None, repr=False)
    level: str = "L3"
    resource: str | None = field(default=None, repr=False)
    valid_for: timedelta | None = None
    epoch: int = 0


class Event(NamedTuple):
    """One fact of a session's log, as a reader gets it.

    ``seq`` is its place in the log, from 1; ``recorded_at`` the vault's time, never going back within a
    session; ``occurred_at`` the original time of an imported event; ``resource`` what an observation is of,
    ``valid_for_us`` how long it holds from ``observed_at``; ``size`` the bytes of the sealed payload. A raw
    payload above ``EAGER_BYTES_MAX`` is ``streamed``: not loaded, ``Session.open`` reads it. Of one that is
    ``erased`` the fact is left, without its payload and what was beside it.

    A named tuple, because making a frozen dataclass of this many fields takes a tenth of an append.
    """

    id: EventId
    session_id: SessionId
    seq: int
    type: str
    recorded_us: int
    run: RunId | None
    tool: str | None
    caused_by: EventId | None
    observed_us: int | None
    occurred_us: int | None
    usage: Mapping[str, Any] | None
    level: str
    payload: Any
    raw: bytes | None
    payload_ref: str
    size: int
    streamed: bool
    resource: str | None = None
    valid_for_us: int | None = None
    epoch: int = 0
    erased: bool = False

    @property
    def recorded_at(self) -> datetime:
        """When the vault recorded it, UTC."""
        return from_us(self.recorded_us)

    @property
    def observed_at(self) -> datetime | None:
        """When the world was as the payload says, UTC."""
        return None if self.observed_us is None else from_us(self.observed_us)

    @property
    def occurred_at(self) -> datetime | None:
        """When it happened, if that is not when it was recorded, UTC."""
        return None if self.occurred_us is None else from_us(self.occurred_us)

    def __repr__(self) -> str:
        """The vault's own fields; what a user supplied is left out."""
        return f"Event({self.id}, {self.session_id}, seq={self.seq}, type={self.type!r}, level={self.level})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The lease of a session as it stands.

    ``run`` is whoever has it, None when nobody has; ``live`` whether it was renewed in time: else its process
    is gone, or paused; ``waiting`` how many runs wait for it.
    """

    run: RunId | None = None
    live: bool = False
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """What a person needs to recognise a session in a list; the two messages are previews.

    ``fork`` is None, or the fork's document: ``of`` which session, ``at`` which event, and ``not_forked``:
    what happened to the world behind that event and stays so. ``shared_through`` is the last place that a
    fork shares with its original, 0 for any other session; ``lease`` says whether a run is active.
    """

    id: SessionId
    title: str | None = field(repr=False)
    labels: Mapping[str, str] = field(repr=False)
    config: str | None = field(repr=False)
    external_id: str | None = field(repr=False)
    parent: SessionId | None
    state: str
    created_at: datetime
    last_event_at: datetime
    ended_at: datetime | None
    event_count: int
    first_message: str | None = field(repr=False)
    last_message: str | None = field(repr=False)
    fork: Mapping[str, Any] | None = field(default=None, repr=False)
    shared_through: int = 0
    lease: Holding = field(default_factory=Holding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of sessions, the most recently used first; pass ``next_cursor`` to get the following one."""

    items: tuple[SessionSummary, ...]
    next_cursor: str | None
