"""On what terms events are appended: what their writer knows, and holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.policy.lease import Lease
    from vault.ports.records import SessionRow, Transaction


class Holder(NamedTuple):
    """The run that an append belongs to, in hexadecimal, and the token under which it took the lease."""

    run: str
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms an append goes in; the plain ones are for a writer outside of any run."""

    expect_head: int | None = (
        None  # the last event that the writer knows; None for wherever the log is by now
    )
    holder: Holder | None = None  # refused when this run no longer holds the lease
    posted: bool = False  # also while a run is active
    lease: Callable[[Lease, int], Lease] | None = None  # what becomes of the lease, in the same transaction
    retracting: Callable[[Transaction, SessionRow], None] | None = (
        None  # deletes what the events say is erased
    )
