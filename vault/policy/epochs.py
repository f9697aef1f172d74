"""The number of an event's epoch: what it is erased with, and the hour in which it expires by itself.

A number is 32 bits: the upper 12 are the generation, which the writer chooses (0: none), the lower 20 the
hour, counted from 2020, in which what is sealed under it is hidden and its key destroyed (0: never). So
whoever reads a row knows, without any policy, whether its time is over; and all that expires in one hour goes
with one key.

Above these 32 bits the number of a key says how often the session was re-encrypted. A session's row holds
that of its own epoch, and what is kept under an event's number is found with both.
"""

from __future__ import annotations

from typing import Final

#: The highest generation: what a writer can erase as a whole in one session, so many times.
EPOCH_MAX: Final = 2**12 - 1
_HOUR_BITS: Final = 20
HOUR_MASK: Final = 2**_HOUR_BITS - 1
_HOUR_US: Final = 3_600_000_000
_EVENT_MASK: Final = 2**32 - 1
#: 2020-01-01 in hours since 1970; 2**20 hours later it is 2139.
_FIRST_HOUR: Final = 438_288


def key_number(own: int, epoch: int) -> int:
    """The number of an event's epoch among the keys of a session whose own epoch has the number ``own``."""
    return own | epoch


def event_epoch(number: int) -> int:
    """The number that events have, of a key's; 0: the session's own."""
    return number & _EVENT_MASK


def own_number(number: int) -> int:
    """The number of the session's own epoch among the keys that one of this number is of."""
    return number & ~_EVENT_MASK


def renewed(own: int) -> int:
    """The number of a session's own epoch after its keys were replaced once more."""
    return own + _EVENT_MASK + 1


def epoch_of(generation: int, hour: int = 0) -> int:
    """The number under which an event of a generation and an hour is stored."""
    return generation << _HOUR_BITS | hour


def generation_of(epoch: int) -> int:
    """The generation that a writer chose; 0: none. Also of a key's number."""
    return event_epoch(epoch) >> _HOUR_BITS


def generation_range(generation: int) -> tuple[int, int]:
    """The first number of a generation, and the first of the next."""
    return epoch_of(generation), epoch_of(generation + 1)


def hour_after(expires_us: int) -> int:
    """The hour at whose beginning what expires at a time is over; 0 when that is beyond what is counted.

    Never before that time, and less than an hour after it.
    """
    hour = -(-expires_us // _HOUR_US) - _FIRST_HOUR
    return hour if 0 < hour <= HOUR_MASK else 0


def hour_now(now_us: int) -> int:
    """The last hour that has begun: what is of it, or of an earlier one, is over."""
    return max(now_us // _HOUR_US - _FIRST_HOUR, 0)


def ends_us(epoch: int) -> int:
    """When what is stored under a number is over, in microseconds since 1970; 0: with its session."""
    hour = epoch & HOUR_MASK
    return (hour + _FIRST_HOUR) * _HOUR_US if hour else 0


def is_over(epoch: int, now_us: int) -> bool:
    """Whether what is stored under a number has expired."""
    hour = epoch & HOUR_MASK
    return hour != 0 and (hour + _FIRST_HOUR) * _HOUR_US <= now_us
