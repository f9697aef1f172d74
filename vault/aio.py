"""For callers that must not block: what the vault does, in a thread, and settled before it is given up."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anyio import to_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")


async def settled(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a call gives, made in a worker thread.

    When the task that waits is cancelled meanwhile, the call comes to its end first: a write happened or did
    not, and whoever tries again finds out which by the event's id. Context variables are the caller's, as
    they were when this began; what the call sets of them stays in its thread.

    Raises:
        As the call.
    """
    return await to_thread.run_sync(partial(call, *args, **kwargs), abandon_on_cancel=False)
