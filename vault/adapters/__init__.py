"""What the adapters share: the face of the core they write to, lines, batches, and the report.

An adapter turns one foreign format into events and back. It is handed an ``Access`` or a ``Session`` and
knows nothing else of the vault; the adapters do not know each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, Protocol

from vault.errors import LineRefused
from vault.model import NAME_LENGTH_MAX, Event, NewEvent, SessionSummary

#: Characters of a title that is taken from a message.
TITLE_TAKEN_MAX: Final = 80

#: Called after every batch with the lines and the bytes done so far.
Progress = Callable[[int, int], None]


class Session(Protocol):
    """The part of a session that adapters use."""

    @property
    def id(self) -> str:
        """``ses_`` and a UUID."""
        ...

    def info(self) -> SessionSummary:
        """Title, labels, state, times."""
        ...

    def append_many(self, events: Iterable[NewEvent], *, expect_head: int | None = None) -> list[Event]:
        """All of them or none."""
        ...

    def events(
        self, *, types: Iterable[str] | None = None, before: str | None = None, limit: int | None = None
    ) -> Iterator[Event]:
        """In the order of the log."""
        ...

    def open(self, event: Event) -> BinaryIO:
        """The large raw payload of an event as a stream."""
        ...

    def end(self) -> None:
        """No more events."""
        ...


class Sessions(Protocol):
    """Where an import makes its session."""

    def create(
        self,
        *,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
        config: str | None = None,
        external_id: str | None = None,
        parent: str | None = None,
    ) -> Session:
        """A new, empty session."""
        ...


class Access(Protocol):
    """The door of one principal."""

    @property
    def sessions(self) -> Sessions:
        """The sessions that this principal may use."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LineProblem:
    """A line that could not be taken as it should be; ``reason`` quotes nothing of it.

    ``line`` counts from 1. ``file`` is the name within a transcript of several files.
    """

    line: int
    reason: str
    file: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import made: sessions in the order of the input, and what was wrong with it."""

    sessions: tuple[str, ...]
    events: int
    lines: int
    bytes: int
    problems: tuple[LineProblem, ...]
    problems_total: int


def parse_json(line: bytes) -> Any:
    """The value of one line of JSON, exactly: no key twice, no NaN, no number that cannot be held.

    Raises:
        LineRefused: it is not JSON.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise LineRefused("not UTF-8 text") from None
    try:
        return _DECODER.decode(text)
    except LineRefused:
        raise
    except (ValueError, RecursionError):
        raise LineRefused("not JSON") from None


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object of one line.

    Raises:
        LineRefused: it is not JSON, or not an object.
    """
    value = parse_json(line)
    if not isinstance(value, dict):
        raise LineRefused("not a JSON object")
    return value


def _refuse_constant(_: str) -> None:
    raise LineRefused("NaN and infinity are not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise LineRefused("an object names a key twice")
    return value


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object)


def parse_time(text: object) -> datetime | None:
    """The moment of an ISO 8601 text with a time zone, in UTC; None when it is not one."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() is None:
            return None
        # Converted now: at the ends of the calendar this overflows, and must not do so on a read.
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def name_or_none(name: object) -> str | None:
    """A foreign name as the vault can hold it: 1 to 256 characters of Unicode text; otherwise None."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or _holds_surrogate(name):
        return None
    return name


def title_of(text: object) -> str | None:
    """The first ``TITLE_TAKEN_MAX`` printable characters of a message on one line; None without any."""
    if not isinstance(text, str):
        return None
    # A message may be megabytes; a title needs its beginning only.
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: TITLE_TAKEN_MAX * 10]).split())
    return line[:TITLE_TAKEN_MAX].strip() or None


def _holds_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
