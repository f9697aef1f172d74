"""A thread that calls a sweep at once, and then every so many minutes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from vault.errors import Busy, InvalidInput

#: Minutes between two sweeps when nobody says.
MINUTES: Final = 5.0
_MINUTE_SECONDS: Final = 60.0


class Sweeper:
    """At most one thread, which a program starts and stops."""

    def __init__(self, sweep: Callable[[], object]) -> None:
        """Nothing runs yet."""
        self._sweep, self._lock = sweep, threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._ended: Future[None] = Future()

    def start(self, minutes: float) -> Future[None]:
        """Sweep now and every ``minutes``; where it runs already, nothing changes.

        Returns:
            What is done when the thread has ended: with the error that ended it, if one did. To cancel it
            stops the thread.

        Raises:
            InvalidInput: the interval is not above zero.
        """
        if minutes <= 0:
            raise InvalidInput("the minutes between two sweeps are above zero")
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                stop, ended = threading.Event(), Future[None]()
                ended.add_done_callback(lambda _: stop.set())
                seconds = minutes * _MINUTE_SECONDS
                thread = threading.Thread(
                    target=self._run, args=(stop, ended, seconds), name="vault-store-sweeper", daemon=True
                )
                self._stop, self._ended, self._thread = stop, ended, thread
                thread.start()
            return self._ended

    def stop(self, timeout: float | None = None) -> bool:
        """End the thread after the sweep at work; whether it has ended within ``timeout`` seconds."""
        with self._lock:
            thread = self._thread
            self._stop.set()
        if thread is not None:
            thread.join(timeout)
        return thread is None or not thread.is_alive()

    def _run(self, stop: threading.Event, ended: Future[None], seconds: float) -> None:
        try:
            while not stop.is_set():
                # Another writer was in the way for long: what is due stays so until the next sweep.
                with contextlib.suppress(Busy):
                    self._sweep()
                stop.wait(seconds)
        except BaseException as error:  # noqa: BLE001 - it is not lost: whoever started this gets it
            if not ended.cancelled():
                ended.set_exception(error)
        else:
            if not ended.cancelled():
                ended.set_result(None)
