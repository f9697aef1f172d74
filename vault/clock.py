"""Time as a dependency: the only module that asks the machine what time it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from vault.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


class Clock(Protocol):
    """Where the time comes from; tests pass one that they move by hand."""

    def now_us(self) -> int:
        """Microseconds since 1970-01-01 UTC."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        """Microseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1000


def now_ns() -> int:
    """Nanoseconds since 1970-01-01 UTC; only for making ids, which carry their own order."""
    return time.time_ns()


def monotonic_seconds() -> float:
    """Seconds on a clock that never goes back; for deadlines, never for stored times."""
    return time.monotonic()


def to_us(moment: datetime) -> int:
    """Microseconds since 1970 of an aware datetime.

    Raises:
        InvalidInput: the datetime is naive, so it names no moment, or is outside the years 1 to 9999 in UTC.
    """
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidInput("a time must be a datetime with a time zone, for example datetime.now(UTC)")
    microseconds = (moment - _EPOCH) // _MICROSECOND
    # A zone can push the edges of the calendar beyond it: such a moment could be written but not read.
    if not _FIRST_US <= microseconds <= _LAST_US:
        raise InvalidInput("a time must be within the years 1 to 9999 in UTC")
    return microseconds


def from_us(microseconds: int) -> datetime:
    """The aware UTC datetime of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)
