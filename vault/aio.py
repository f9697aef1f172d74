"""For callers that must not block: what the vault does, in a thread, and settled before it is given up."""

from __future__ import annotations

import asyncio
import contextvars
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")


async def settled(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a call gives, made in a worker thread.

    When the task that waits is cancelled meanwhile, however often, the call comes to its end first: a write
    happened or did not, and whoever tries again finds out which by the event's id. Context variables are the
    caller's, as they were when this began; what the call sets of them stays in its thread.

    Raises:
        As the call.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        from anyio import to_thread  # noqa: PLC0415 - of another kind of loop, whose program brought anyio

        return await to_thread.run_sync(partial(call, *args, **kwargs), abandon_on_cancel=False)
    # A future and not a task: a loop that ends cancels every task, and this one has to wait for the thread.
    work = partial(contextvars.copy_context().run, call, *args, **kwargs)
    outcome: asyncio.Future[T] = loop.run_in_executor(None, work)
    cancelled: asyncio.CancelledError | None = None
    while not outcome.done():
        try:
            await asyncio.wait({outcome})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        outcome.exception()  # a failure is less than what the caller asked for: to stop
        raise cancelled
    return outcome.result()
