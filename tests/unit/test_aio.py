"""What is begun for a task that cannot block is settled before the task is given up. A1, L2."""

import asyncio
import threading
import time
from contextvars import ContextVar

import pytest

from vault.aio import settled

WHERE = ContextVar("where", default="nowhere")


def slow(done, seconds=0.1):
    time.sleep(seconds)
    done.append(threading.current_thread() is threading.main_thread())
    return "written"


def test_a_call_is_made_in_another_thread_with_the_callers_context():
    async def main():
        WHERE.set("here")
        done = []
        return await settled(slow, done, seconds=0), done, await settled(WHERE.get)

    assert asyncio.run(main()) == ("written", [False], "here")


@pytest.mark.parametrize("times", [1, 5])
def test_a_cancelled_caller_learns_of_it_when_the_call_has_ended(times):
    """L2: however often it is cancelled"""

    async def main():
        done = []
        task = asyncio.create_task(settled(slow, done))
        for _ in range(times):
            await asyncio.sleep(0.01)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return done

    assert asyncio.run(main()) == [False]


def test_a_call_that_fails_fails_for_its_caller():
    def refuse():
        raise ValueError("no")

    async def main():
        with pytest.raises(ValueError, match="no"):
            await settled(refuse)

    asyncio.run(main())


def test_a_loop_that_ends_waits_for_what_was_begun():
    """L2"""
    done = []

    async def main():
        asyncio.create_task(settled(slow, done))  # noqa: RUF006 - nobody waits for it
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert done == [False]
