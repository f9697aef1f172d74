"""A conversation whose time is over is hidden at once from every reader of every adapter (D1, D3, A3).

Whether or not a sweep has run. What the adapters' own pages say of the time after it is tested with each.
"""

import asyncio

import pytest
from google.adk.events.event import Event
from google.genai import types

from tests.adapters.langgraph_case import at, chain
from vault import Vault
from vault.adapters.claude_agent import VaultSessionStore
from vault.adapters.google_adk import VaultArtifactService, VaultMemoryService, VaultSessionService
from vault.adapters.langgraph import VaultSaver
from vault.adapters.langgraph_store import VaultStore
from vault.adapters.openai_agents import VaultSession
from vault.errors import VaultError

DAY_US = 24 * 3_600_000_000
WORD = "CANARY-of-last-year"
APP = {"app_name": "app", "user_id": "u1"}
KEY = {"project_key": "-home", "session_id": "5f0c7c1e-0a51-4a38-9a0e-2b64d2a0c001"}


class Clock:
    """Moves by hand."""

    def __init__(self):
        self.now = 1_800_000_000_000_000

    def now_us(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        yield opened


class Checkpoints:
    """LangGraph's checkpointer."""

    def __init__(self, access):
        self.saver = VaultSaver(access)

    def write(self):
        chain(self.saver, "t", [{"said": WORD}])

    def readers(self):
        yield lambda: self.saver.get_tuple(at("t"))
        yield lambda: list(self.saver.list(at("t")))
        yield lambda: list(self.saver.list(None))


class Items:
    """LangGraph's store."""

    def __init__(self, access):
        self.store = VaultStore(access)

    def write(self):
        self.store.put(("n",), "k", {"said": WORD})

    def readers(self):
        yield lambda: self.store.get(("n",), "k")
        yield lambda: self.store.search(("n",))
        yield self.store.list_namespaces


class Talk:
    """A session of the OpenAI Agents SDK."""

    def __init__(self, access):
        self.talk = VaultSession("talk", access)

    def write(self):
        asyncio.run(self.talk.add_items([{"role": "user", "content": WORD}]))

    def readers(self):
        yield lambda: asyncio.run(self.talk.get_items())
        yield lambda: asyncio.run(self.talk.get_items(limit=1))


class Sessions:
    """Google ADK's sessions, artifacts and memories."""

    def __init__(self, access):
        self.sessions = VaultSessionService(access)
        self.artifacts, self.memories = VaultArtifactService(access), VaultMemoryService(access)

    def write(self):
        async def work():
            made = await self.sessions.create_session(**APP, session_id="s1", state={"said": WORD})
            content = types.Content(role="user", parts=[types.Part(text=WORD)])
            await self.sessions.append_event(made, Event(invocation_id="i", author="user", content=content))
            await self.memories.add_session_to_memory(made)
            await self.artifacts.save_artifact(
                **APP, session_id="s1", filename="f", artifact=types.Part(text=WORD)
            )

        asyncio.run(work())

    def readers(self):
        yield lambda: asyncio.run(self.sessions.get_session(**APP, session_id="s1"))
        yield lambda: asyncio.run(self.sessions.list_sessions(**APP)).sessions
        yield lambda: asyncio.run(self.memories.search_memory(**APP, query="CANARY")).memories
        yield lambda: asyncio.run(self.artifacts.load_artifact(**APP, session_id="s1", filename="f"))
        yield lambda: asyncio.run(self.artifacts.list_artifact_keys(**APP, session_id="s1"))


class Transcripts:
    """The Claude Agent SDK's session store."""

    def __init__(self, access):
        self.store = VaultSessionStore(access)

    def write(self):
        entry = {"type": "user", "uuid": "u", "message": {"role": "user", "content": WORD}}
        asyncio.run(self.store.append(KEY, [entry]))

    def readers(self):
        yield lambda: asyncio.run(self.store.load(KEY))
        yield lambda: asyncio.run(self.store.list_sessions(KEY["project_key"]))
        yield lambda: asyncio.run(self.store.list_session_summaries(KEY["project_key"]))


def seen(reader):
    """What a reader shows as text; nothing when it is refused."""
    try:
        found = reader()
    except VaultError:
        return ""
    return str(found) if found else ""


@pytest.mark.parametrize("adapter", [Checkpoints, Items, Talk, Sessions, Transcripts])
@pytest.mark.parametrize("handle", ["the one that wrote it", "a new one"])
def test_what_expired_is_shown_by_no_reader_of_an_adapter(vault, alice, clock, adapter, handle):
    """D1, D3: with the same handle, which may remember, and with a new one"""
    used = adapter(alice)
    used.write()
    assert [number for number, reader in enumerate(used.readers()) if not seen(reader)] == []
    clock.now += 366 * DAY_US
    if handle == "a new one":
        used = adapter(alice)
    assert [seen(reader) for reader in used.readers()] == [""] * len(list(used.readers()))
    assert not list(alice.sessions.find().items)
