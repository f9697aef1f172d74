"""Command ``worker``: sweeps the vault again and again, until it is told to stop."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vault.cli.call import VaultCall, command
from vault.cli.output import document, note, say
from vault.cli.printable import iso, local, plural
from vault.clock import SystemClock, from_us
from vault.errors import StorageUnavailable

if TYPE_CHECKING:
    from types import FrameType

    from vault.erasure.retention import Sweep
    from vault.scheduler import Tick


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "worker")(worker)


def worker(
    call: VaultCall,
    *,
    every: Annotated[
        float,
        typer.Option("--every", metavar="SECONDS", help="How long from one sweep to the next; 1 to 86,400."),
    ] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="One sweep, then an end.")] = False,
) -> None:
    """Erase what is due in every tenant, again and again, and finish what a crash left.

    Any number of them may run beside each other. Each sweep that did something is a line. SIGTERM and Ctrl-C
    end it, once the sweep at work is done.
    """
    from vault.scheduler import Worker  # noqa: PLC0415 - only this command needs APScheduler

    with call.opened() as opened:
        if once:
            _once(opened.sweep(), as_json=call.as_json)
            return
        worker = Worker(opened, every_seconds=every, told=_Teller(as_json=call.as_json))
        # That a sweep took longer than the interval is nothing to tell anybody.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        with _until_stopped() as stop:
            worker.run(stop)


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()

    def asked(_: int, __: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, asked) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _once(swept: list[Sweep], *, as_json: bool) -> None:
    """What one sweep did.

    Raises:
        Exit: an erasure is unfinished.
    """
    now = from_us(SystemClock().now_us())
    if as_json:
        document({"at": iso(now), "sweeps": [_document(one) for one in swept], "error": None})
    else:
        say(f"{local(now)}  {_did(swept) or 'nothing was due'}")
    if any(one.unfinished for one in swept):
        note("session-vault: a store did not give something up; each sweep tries again")
        raise typer.Exit(StorageUnavailable.exit_code)


class _Teller:
    """Writes a line for each tick that did something, or could not; what waits is said once."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._waits: set[str] = set()

    def __call__(self, tick: Tick) -> None:
        error, waits = tick.error, {one.token for one in tick.sweeps if _waits(one)}
        did = _did([one for one in tick.sweeps if one.token not in self._waits or not _waits(one)])
        if error is None:
            self._waits = waits
        if self._as_json and (did or error or tick.barrier):
            about = None if error is None else {"error": type(error).__name__, "message": str(error)}
            sweeps = [_document(one) for one in tick.sweeps]
            document({"at": iso(tick.at), "sweeps": sweeps, "barrier": tick.barrier, "error": about})
        elif error is not None:
            note(f"{local(tick.at)}  {error}")
        elif did or tick.barrier:
            barrier = "passed a barrier: old copies of keys.db open nothing that was erased"
            say(f"{local(tick.at)}  {'; '.join(part for part in (did, tick.barrier and barrier) if part)}")
        sys.stdout.flush()  # whoever watches sees it now


def _waits(one: Sweep) -> bool:
    """Whether what is due waits for its token."""
    return one.over_cap and one.going > 0 and not one.operations


def _did(swept: list[Sweep]) -> str:
    """What sweeps did; empty for nothing that anybody has to know."""
    operations = sum(one.operations for one in swept)
    told = []
    if operations:
        gone = sum(one.going for one in swept if one.operations)
        told.append(f"erased {plural(gone, 'thing')} in {plural(operations, 'erasure')}")
    if epochs := sum(one.epochs for one in swept):
        told.append(f"{plural(epochs, 'hour')} of events expired")
    if unfinished := sum(one.unfinished for one in swept):
        told.append(f"{plural(unfinished, 'erasure')} not finished yet")
    if waits := sum(one.going for one in swept if _waits(one)):
        told.append(f"{plural(waits, 'thing')} due wait for a token: retention preview shows it")
    return "; ".join(told)


def _document(one: Sweep) -> dict[str, Any]:
    return {
        "going": one.going,
        "held": one.held,
        "review": one.review,
        "over_cap": one.over_cap,
        "operations": one.operations,
        "unfinished": one.unfinished,
        "epochs": one.epochs,
    }
