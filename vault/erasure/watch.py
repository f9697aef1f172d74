"""One sweeper at a time, and a clock that is believed: what must hold before anything is erased by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vault.errors import Busy, ClockAnomaly, Fenced, Tampered
from vault.ports.operations import SweeperRow
from vault.sealing import rows

if TYPE_CHECKING:
    from vault.ports.records import Reader, Transaction
    from vault.sessions.log import Log

_NAME: Final = "retention"
#: How long a sweeper that died keeps others waiting.
LEASE_US: Final = 60_000_000
#: A clock that goes back or ahead by more than this is not believed (retention.md §2).
BACK_US: Final = 5 * 60_000_000
AHEAD_US: Final = 36 * 3_600_000_000
_NEVER: Final = SweeperRow(_NAME, 0, 0, 0, 0, b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The sweeper's lease: ``fence`` is compared in every transaction that begins an erasure."""

    log: Log
    fence: int = 0

    def taken(self) -> Watch:
        """The lease, for this process.

        Raises:
            Busy: another process sweeps.
            ClockAnomaly: the clock jumped; nothing is erased by itself until somebody says that it is right.
        """

        def work(transaction: Transaction) -> int:
            row, now_us = self._row(transaction), self.log.clock.now_us()
            if now_us < row.until_us <= now_us + LEASE_US:
                raise Busy("another process sweeps at this moment; it does the same work")
            if row.high_us:
                _believe(row.high_us, now_us)
            after = row._replace(
                fence=row.fence + 1, until_us=now_us + LEASE_US, high_us=max(row.high_us, now_us)
            )
            self._keep(transaction, after)
            return after.fence

        return replace(self, fence=self.log.records.transact(work))

    def check(self, transaction: Transaction) -> None:
        """Make sure, inside a transaction, that this process still has the lease, and prolong it.

        Raises:
            Fenced: another process took over.
            ClockAnomaly: the clock jumped.
        """
        row, now_us = self._row(transaction), self.log.clock.now_us()
        if row.fence != self.fence:
            raise Fenced("another process took the sweep over; this one stops")
        _believe(row.high_us, now_us)
        self._keep(transaction, row._replace(until_us=now_us + LEASE_US, high_us=max(row.high_us, now_us)))

    def done(self) -> None:
        """Give the lease back at the end of a sweep."""

        def work(transaction: Transaction) -> None:
            row = self._row(transaction)
            if row.fence == self.fence:
                self._keep(transaction, row._replace(until_us=0, ticked_us=self.log.clock.now_us()))

        self.log.records.transact(work)

    def released(self) -> None:
        """Believe the clock from now on, as somebody looked at it."""

        def work(transaction: Transaction) -> None:
            row = self._row(transaction)
            self._keep(transaction, row._replace(high_us=self.log.clock.now_us(), until_us=0))

        self.log.records.transact(work)

    def seen(self) -> SweeperRow:
        """The sweeper's row as it stands."""
        with self.log.records.snapshot() as reader:
            return self._row(reader)

    def _row(self, reader: Reader) -> SweeperRow:
        found = next(reader.scan("sweeper"), None)
        if found is None:
            return _NEVER
        row = SweeperRow._make(found)
        rows.check(rows.sweeper_mac(self.log.keys.row_key(), row), row.mac, "the sweeper's row")
        return row

    def _keep(self, transaction: Transaction, row: SweeperRow) -> None:
        row = row._replace(mac=rows.sweeper_mac(self.log.keys.row_key(), row))
        if transaction.change("keep_sweeper", **row._asdict()) != 1:
            raise Tampered("the database does not take the sweeper's row: its rules were changed")


def _believe(high_us: int, now_us: int) -> None:
    if now_us < high_us - BACK_US or now_us > high_us + AHEAD_US:
        way = "back" if now_us < high_us else "ahead by more than 36 hours"
        raise ClockAnomaly(
            f"the clock went {way} since the last sweep, so nothing is erased by itself; if it is right, run "
            "session-vault retention trust-clock"
        )
