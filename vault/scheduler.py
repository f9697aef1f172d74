"""The worker: sweeps a vault again and again, as long as its process lives.

APScheduler only ticks. What is due, who sweeps and what a crash left stand in the database, so any number of
workers may run beside each other, and a killed one is replaced by the next tick of another.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from vault.clock import SystemClock, from_us, monotonic_seconds
from vault.errors import Busy, InvalidInput, VaultError

if TYPE_CHECKING:
    from collections.abc import Callable

    from apscheduler.schedulers.background import BackgroundScheduler

    from vault.erasure.retention import Sweep
    from vault.wiring import Vault

EVERY_SECONDS: Final = 60.0
EVERY_SECONDS_MIN: Final = 1.0
EVERY_SECONDS_MAX: Final = 86_400.0
#: After so many intervals without a tick the scheduler is made anew: its thread can die of one error.
_SILENT: Final = 5
_JOB: Final = "retention"
#: How often it is looked whether a barrier is due.
_LOOK: Final = timedelta(hours=1)


def _now() -> datetime:
    return from_us(SystemClock().now_us())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One tick: what was swept, or why nothing was; ``barrier``: one was passed as well."""

    at: datetime
    sweeps: tuple[Sweep, ...] = ()
    error: VaultError | None = None
    barrier: bool = False


class Worker:
    """Sweeps one open vault every so many seconds."""

    def __init__(
        self,
        vault: Vault,
        *,
        every_seconds: float = EVERY_SECONDS,
        told: Callable[[Tick], None] | None = None,
    ) -> None:
        """Make it; nothing ticks before ``run``.

        Args:
            vault: open; each tick uses it.
            every_seconds: 1 to 86,400.
            told: called after each tick, in the worker's thread.

        Raises:
            InvalidInput: the interval is out of range.
        """
        number = isinstance(every_seconds, int | float) and not isinstance(every_seconds, bool)
        if not number or not EVERY_SECONDS_MIN <= every_seconds <= EVERY_SECONDS_MAX:
            raise InvalidInput(
                f"a worker ticks every {EVERY_SECONDS_MIN:.0f} to {EVERY_SECONDS_MAX:.0f} seconds"
            )
        self._vault, self._every, self._told = vault, every_seconds, told
        self._ticked = monotonic_seconds()
        self._failed: Exception | None = None
        self._look_at = datetime.min.replace(tzinfo=UTC)

    def run(self, stop: threading.Event) -> None:
        """Tick until ``stop`` is set; the tick at work is finished first.

        Raises:
            Exception: whatever a tick raised that no error of the vault explains: a mistake in the program.
        """
        scheduler = self._started()
        try:
            while not stop.wait(min(self._every, 1.0)) and self._failed is None:
                if monotonic_seconds() - self._ticked > _SILENT * self._every + 60:
                    scheduler.shutdown(wait=False)
                    self._ticked, scheduler = monotonic_seconds(), self._started()
        finally:
            scheduler.shutdown(wait=True)
        if self._failed is not None:
            raise self._failed

    def tick(self) -> Tick:
        """One sweep, now; an error of the vault is told, not raised, and the next tick tries again."""
        at = _now()
        try:
            sweeps = tuple(self._vault.sweep())
            tick = Tick(at=at, sweeps=sweeps, barrier=self._passed_barrier(at))
        except Busy:
            tick = Tick(at=at)  # another worker does the same work at this moment
        except VaultError as error:
            tick = Tick(at=at, error=error)
        self._ticked = monotonic_seconds()
        if self._told is not None:
            self._told(tick)
        return tick

    def _passed_barrier(self, now: datetime) -> bool:
        """Pass a barrier when the oldest erasure has waited for it as long as the settings say."""
        days, keys = self._vault.stores.settings.barrier_days, self._vault.keys
        if not days or keys.scheme == "passphrase" or now < self._look_at:
            return False
        self._look_at = now + _LOOK  # every receipt is read for it
        since = keys.waiting_since()
        return bool(since) and from_us(since) + timedelta(days=days) <= now and keys.barrier().passed

    def _started(self) -> BackgroundScheduler:
        from apscheduler.jobstores.memory import MemoryJobStore  # noqa: PLC0415 - `import vault` does without
        from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415 - the same
        from apscheduler.triggers.interval import IntervalTrigger  # noqa: PLC0415 - the same

        scheduler = BackgroundScheduler(timezone=UTC, jobstores={"default": MemoryJobStore()})
        scheduler.add_job(
            self._tick_safely,
            IntervalTrigger(seconds=max(int(self._every), 1), timezone=UTC),
            id=_JOB,
            replace_existing=True,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,  # a late tick is a tick: the default throws it away after a second
            next_run_time=_now(),
        )
        scheduler.start()
        return scheduler

    def _tick_safely(self) -> None:
        try:
            self.tick()
        except Exception as error:  # noqa: BLE001 - told by `run`, in the thread of whoever started it
            self._failed = error
