"""One run at a time: who holds the lease of a session, until when, and who waits for it.

Pure: every change gives a new ``Lease``, which the caller stores with a compare-and-set. The token grows
with every run that takes the lease and whenever it is taken away, so a writer under an old one is told apart.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

import orjson

from vault.errors import Busy, Fenced, InvalidInput

SECONDS_MIN: Final = 0.1
SECONDS_MAX: Final = 86_400  # a holder that dies blocks its session for at most so long
WAIT_SECONDS_MAX: Final = 86_400
QUEUE_MAX: Final = 64
#: A waiter says so often that it is still there; one that was silent for so long is passed over.
ALIVE_US: Final = 5_000_000


class Ticket(NamedTuple):
    """A run that waits: it is passed over when it stops saying that it is there."""

    run: str
    alive_us: int


class Lease(NamedTuple):
    """The lease of a session. ``run`` is hexadecimal, empty when nobody holds it; times in microseconds."""

    token: int = 0
    run: str = ""
    since_us: int = 0
    until_us: int = 0
    queue: tuple[Ticket, ...] = ()

    def is_live(self, now_us: int) -> bool:
        """Whether somebody holds it and has renewed it in time."""
        return bool(self.run) and now_us < self.until_us


def decode(stored: bytes) -> Lease:
    """The lease of a verified session row; empty bytes before its first run."""
    if not stored:
        return Lease()
    token, run, since_us, until_us, queue = orjson.loads(stored)
    return Lease(token, run, since_us, until_us, tuple(Ticket(*ticket) for ticket in queue))


def encode(lease: Lease) -> bytes:
    """Canonical bytes for the session row."""
    return orjson.dumps([*lease[:4], [list(ticket) for ticket in lease.queue]])


def check_seconds(seconds: float, what: str, *, low: float, high: float) -> int:
    """A time in seconds, checked, in microseconds.

    Raises:
        InvalidInput: not a number, or outside the limits.
    """
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not low <= seconds <= high:  # a NaN is not within anything
        raise InvalidInput(f"{what} is a number of seconds from {low:g} to {high:g}")
    return round(seconds * 1_000_000)


def is_next(lease: Lease, run: str, now_us: int) -> bool:
    """Whether this run may take the lease now: nobody holds it, and nobody who is there waits longer."""
    waiting = _present(lease, now_us)
    return not lease.is_live(now_us) and (not waiting or waiting[0].run == run)


def take(lease: Lease, run: str, now_us: int, lease_us: int) -> Lease:
    """The lease held by this run, under a new token.

    Raises:
        Busy: another run holds it, or waits longer.
    """
    if not is_next(lease, run, now_us):
        raise Busy(f"{_who(lease, now_us)}; wait for it (wait=seconds), or post what should reach it")
    waiting = tuple(ticket for ticket in _present(lease, now_us) if ticket.run != run)
    return Lease(lease.token + 1, run, now_us, now_us + lease_us, waiting)


def wait(lease: Lease, run: str, now_us: int) -> Lease:
    """The same lease with this run in the queue, at the end or where it stands already.

    Raises:
        Busy: the queue is full.
    """
    queue = _present(lease, now_us)
    if any(ticket.run == run for ticket in queue):
        queue = tuple(Ticket(run, now_us) if ticket.run == run else ticket for ticket in queue)
    elif len(queue) < QUEUE_MAX:
        queue = (*queue, Ticket(run, now_us))
    else:
        raise Busy(f"{_who(lease, now_us)}, and {QUEUE_MAX} others wait; try again later")
    return lease._replace(queue=queue)


def leave(lease: Lease, run: str) -> Lease:
    """The same lease without this run in the queue."""
    return lease._replace(queue=tuple(ticket for ticket in lease.queue if ticket.run != run))


def check(lease: Lease, run: str, token: int) -> None:
    """Whether a writer still holds the lease; an expired one that nobody took is still its own.

    Raises:
        Fenced: another run took it, or it was taken away.
    """
    if (lease.run, lease.token) != (run, token):
        raise Fenced("this run lost its lease; another run may have taken over, so stop writing")


def renew(lease: Lease, run: str, token: int, now_us: int, lease_us: int) -> Lease:
    """The lease for a while longer, never shorter than it is.

    Raises:
        Fenced: it is not this run's any more.
    """
    check(lease, run, token)
    return lease._replace(until_us=max(lease.until_us, now_us + lease_us))


def release(lease: Lease, run: str, token: int) -> Lease:
    """The lease held by nobody; the token stays, so that the next one is greater.

    Raises:
        Fenced: it is not this run's any more.
    """
    check(lease, run, token)
    return lease._replace(run="", until_us=0)


def revoke(lease: Lease) -> Lease:
    """The lease taken away from whoever holds it: every write under the old token is refused."""
    return lease._replace(token=lease.token + 1, run="", until_us=0)


def refuse_outsider(lease: Lease, now_us: int) -> None:
    """Refuse an append that belongs to no run while one is active.

    Raises:
        Busy: naming since when.
    """
    if lease.is_live(now_us):
        raise Busy(f"{_who(lease, now_us)}; append within that run, or post what should reach it")


def _present(lease: Lease, now_us: int) -> tuple[Ticket, ...]:
    return tuple(ticket for ticket in lease.queue if now_us < ticket.alive_us + ALIVE_US)


def _who(lease: Lease, now_us: int) -> str:
    if lease.is_live(now_us):
        return f"another run is active since {datetime.fromtimestamp(lease.since_us // 10**6, UTC):%F %T} UTC"
    return "other runs wait for this session"
