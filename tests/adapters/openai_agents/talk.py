"""A conversation as the tests of the OpenAI adapter write it: items, agents with a scripted model, turns."""

import asyncio
import contextlib
from datetime import datetime

from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message, function_call

QUIET = RunConfig(tracing_disabled=True)


def said(text, role="user"):
    return {"role": role, "content": text}


def call(call_id, name="look", arguments="{}", **more):
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def output(call_id, text="seen"):
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def thought(text="hm"):
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]}


def texts(items):
    """What each item says, or what it is when it says nothing."""
    return [item.get("content") or item.get("output") or item.get("type") for item in items]


def kinds(items):
    return [item.get("type", item.get("role")) for item in items]


def scripted(*turns, tools=(), **more):
    """An agent whose model answers with these turns: a text, or calls as (name, arguments, call id)."""
    steps = [
        [assistant_message(turn)] if isinstance(turn, str) else [calling(*one) for one in turn]
        for turn in turns
    ]
    return Agent(name="scripted", model=ScriptedModel(steps), tools=list(tools), **more)


def calling(name, arguments, call_id):
    return function_call(name, arguments, call_id=call_id)


async def asked(agent, text, session, *, streamed=False, **more):
    """One run of an agent within a session."""
    more = {"run_config": QUIET, **more}
    if not streamed:
        return await Runner.run(agent, text, session=session, **more)
    result = Runner.run_streamed(agent, text, session=session, **more)
    async for _ in result.stream_events():
        pass
    return result


def waiting(*coroutines):
    """All of them at the same time in one loop."""

    async def together():
        return await asyncio.gather(*coroutines)

    return asyncio.run(together())


_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.rollback()
print("free", flush=True)
"""


@contextlib.contextmanager
def write_locked(place, python):
    """The vault's write lock, held in another process until it is let go: reading goes on, writing waits."""
    holder = python(_LOCK, place / "data.db")
    assert holder.stdout.readline() == "locked\n"

    def let_go():
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "free\n"

    yield let_go


def in_seconds(moment: datetime) -> str:
    """A time as SQLite's CURRENT_TIMESTAMP writes it."""
    return moment.strftime("%Y-%m-%d %H:%M:%S")
