"""One person's data, whatever framework it came through: reported, exported and erased by one selector.

D2, D4, D5, D6, A1, A2, A3, A7, S1.
"""

import asyncio
import base64
import re
import uuid
import warnings
import zipfile

import pytest

from vault import Principal, Vault
from vault.errors import Erased, NotFound

WORDS = {
    name: f"Kanarien{'V'}ogel-{name}" for name in ("openai", "langgraph", "store", "claude", "adk", "file")
}
BOBS = f"Kanarien{'V'}ogel-bob"
CLAUDE = str(uuid.uuid4())
PLACE = {"app_name": "shop", "user_id": "u-1"}


def who(subject, *roles):
    return Principal(tenant="acme", subject=subject, roles=frozenset(roles or ("owner",)))


@pytest.fixture(scope="module")
def frameworks():
    """The adapters; importing some of the frameworks warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from google.adk.events import Event
        from google.genai import types
        from langgraph.graph import START, MessagesState, StateGraph

        from vault.adapters import claude_agent, langgraph, langgraph_store, openai_agents
        from vault.adapters import google_adk as adk

        return {
            "openai": openai_agents,
            "saver": langgraph,
            "store": langgraph_store,
            "claude": claude_agent,
            "adk": adk,
            "graph": (START, MessagesState, StateGraph),
            "event": Event,
            "types": types,
        }


async def used(access, frameworks, words):
    """Everything that one person does: a conversation in each framework, with what they derive from it."""
    session = frameworks["openai"].VaultSession("order-66", access)
    await session.add_items([{"role": "user", "content": words["openai"]}])
    claude = frameworks["claude"].VaultSessionStore(access)
    entry = {
        "type": "user",
        "uuid": str(uuid.uuid4()),
        "message": {"role": "user", "content": words["claude"]},
    }
    await claude.append({"project_key": "p", "session_id": CLAUDE}, [entry])
    await in_adk(access, frameworks, words)


async def in_adk(access, frameworks, words):
    adk, types = frameworks["adk"], frameworks["types"]
    sessions = adk.VaultSessionService(access)
    artifacts, memories = adk.VaultArtifactService(access), adk.VaultMemoryService(access)
    session = await sessions.create_session(**PLACE, session_id="s-1")
    said = types.Content(role="user", parts=[types.Part(text=words["adk"])])
    event = frameworks["event"](author="user", invocation_id="i", content=said)
    await sessions.append_event(session, event)
    await memories.add_session_to_memory(session)
    file = types.Part.from_bytes(data=words["file"].encode(), mime_type="text/plain")
    await artifacts.save_artifact(**PLACE, session_id="s-1", filename="a.txt", artifact=file)


def in_langgraph(access, frameworks, words):
    start, state, graph = frameworks["graph"]
    store = frameworks["store"].VaultStore(access)

    def node(_, config, *, store):
        store.put(("facts",), "k", {"text": words["store"]})
        return {"messages": [("ai", words["langgraph"])]}

    built = graph(state).add_node("node", node).add_edge(start, "node")
    saver = frameworks["saver"].VaultSaver(access)
    compiled = built.compile(checkpointer=saver, store=store)
    compiled.invoke({"messages": [("user", "hi")]}, {"configurable": {"thread_id": "t-1"}})


def everything(access, frameworks, words):
    in_langgraph(access, frameworks, words)
    asyncio.run(used(access, frameworks, words))


@pytest.fixture
def two(vault, frameworks):
    """Alice's and Bob's data, under the same ids in every framework."""
    alice, bob = vault.access(who("alice")), vault.access(who("bob"))
    everything(alice, frameworks, WORDS)
    everything(bob, frameworks, dict.fromkeys(WORDS, BOBS))
    return alice, bob


async def found(access, frameworks):
    """What each framework still gives: seven answers."""
    openai = await frameworks["openai"].VaultSession("order-66", access).get_items()
    claude = (
        await frameworks["claude"].VaultSessionStore(access).load({"project_key": "p", "session_id": CLAUDE})
    )
    adk = frameworks["adk"]
    session = await adk.VaultSessionService(access).get_session(**PLACE, session_id="s-1")
    memories = await adk.VaultMemoryService(access).search_memory(
        **PLACE, query=BOBS.split("-", maxsplit=1)[0]
    )
    files = await adk.VaultArtifactService(access).list_artifact_keys(**PLACE, session_id="s-1")
    saver, store = frameworks["saver"].VaultSaver(access), frameworks["store"].VaultStore(access)
    thread = saver.get_tuple({"configurable": {"thread_id": "t-1"}})
    items = store.search(("facts",))
    return [bool(one) for one in (openai, claude, session, memories.memories, files, thread, items)]


@pytest.mark.slow
def test_one_selector_reports_exports_and_erases_a_person_in_all_frameworks(
    place, tmp_path, vault, frameworks, two, files_with
):
    """D4, D5: with one receipt; another person under the same ids keeps everything"""
    alice, bob = two
    officer = vault.access(who("pia", "privacy_officer"))
    plan = officer.erasure.plan(subject="alice")
    kinds = {item.kind for item in plan.plan.items}
    assert {"session", "memory", "artifact"} <= kinds
    assert sum(item.kind == "session" for item in plan.plan.items) >= 4

    export = officer.exports.subject("alice", tmp_path / "alice.zip")
    told = unpacked(export.path)
    assert BOBS.encode() not in told
    assert [name for name, word in WORDS.items() if word.encode() not in told] == []

    outcome = officer.erasure.execute(plan)
    assert outcome.state == "verified"
    assert len(officer.erasure.receipts()) == 1
    assert sum(count for (_, action), count in outcome.counts.items() if action == "erased") == len(
        plan.plan.items
    )
    saver = frameworks["saver"].VaultSaver(alice)
    assert saver.get_tuple({"configurable": {"thread_id": "t-1"}}) is None
    for late in (
        frameworks["openai"].VaultSession("order-66", alice).add_items([{"role": "user", "content": "late"}]),
        frameworks["claude"].VaultSessionStore(alice).load({"project_key": "p", "session_id": CLAUDE}),
    ):
        with pytest.raises((Erased, NotFound)):
            asyncio.run(late)
    assert alice.memories.search() == []
    assert list(alice.artifacts.list()) == []
    assert asyncio.run(found(bob, frameworks)) == [True] * 7
    assert vault.verify().ok
    vault.close()
    for word in (*WORDS.values(), BOBS, "order-66", CLAUDE):
        assert files_with(word) == []


def unpacked(path):
    """All that an export says, whatever form a framework's values were stored in."""
    with zipfile.ZipFile(path) as archive:
        parts = [archive.read(name) for name in archive.namelist()]
    raw = re.findall(rb'"raw_base64":"([^"]+)"', b"".join(parts))
    return b"\n".join([*parts, *map(base64.b64decode, raw)])


@pytest.mark.slow
def test_a_conversation_that_is_erased_takes_what_was_derived_from_it(vault, frameworks, two):
    """D4: each in its own framework's way, and nothing of the others"""
    alice, _ = two
    frameworks["saver"].VaultSaver(alice).delete_thread("t-1")
    assert frameworks["store"].VaultStore(alice).search(("facts",)) == []
    adk = frameworks["adk"]
    asyncio.run(adk.VaultSessionService(alice).delete_session(**PLACE, session_id="s-1"))
    left = adk.VaultMemoryService(alice).search_memory(**PLACE, query=WORDS["adk"])
    assert asyncio.run(left).memories == []
    keys = adk.VaultArtifactService(alice).list_artifact_keys(**PLACE, session_id="s-1")
    assert asyncio.run(keys) == []
    items = asyncio.run(frameworks["openai"].VaultSession("order-66", alice).get_items())
    assert items == [{"role": "user", "content": WORDS["openai"]}]
    with Vault.open(vault.stores.directory) as again:
        assert again.verify().ok
