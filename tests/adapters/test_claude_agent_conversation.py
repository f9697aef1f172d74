"""A conversation that runs on the vault alone: where it is written, and what comes from it."""

import asyncio
import json
import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    create_sdk_mcp_server,
    project_key_for_directory,
    query,
    tool,
)

from tests.adapters.claude_program import Program
from vault.adapters.claude_agent import VaultSessionStore, ingest_tool_results
from vault.errors import Conflict, Erased, InvalidInput, NotFound, StorageFull

ID = "5f0c7c1e-0a51-4a38-9a0e-2b64d2a0c001"


def run(call):
    return asyncio.run(call)


@pytest.fixture
def store(alice):
    return VaultSessionStore(alice)


@pytest.fixture
def project(tmp_path):
    return project_key_for_directory(tmp_path)


@pytest.fixture
def tools(alice):
    """An agent's own tools, which keep what they are told and name no source."""

    @tool("remember", "Keeps a fact.", {"fact": str})
    async def remember(arguments):
        await asyncio.to_thread(alice.memories.put, ("facts",), "one", arguments["fact"])
        alice.artifacts.put("fact.txt", arguments["fact"].encode())
        return {"content": [{"type": "text", "text": "kept"}]}

    return {"memory": create_sdk_mcp_server("memory", tools=[remember])}


def options(tmp_path, tools=None, **more):
    return ClaudeAgentOptions(cwd=tmp_path, mcp_servers=tools or {}, **more)


async def talk(store, given, calls=(), results=()):
    """One turn of a conversation; its id, and the program that played it."""
    async with store.conversation(given) as ready:
        program = Program(ready, calls, results)
        async for message in query(prompt="go on", options=ready, transport=program):
            found = getattr(message, "session_id", None)
    return found, program


def left_by_a_tool(ready, project, session_id):
    beside = Path(ready.env["CLAUDE_CONFIG_DIR"], "projects", project, session_id, "tool-results")
    beside.mkdir(parents=True)
    (beside / "a.txt").write_text("large")
    return beside


REMEMBER = [("memory", "remember", {"fact": "CANARY likes tea"})]

# ---------------------------------------------------------------------------------------- provenance


def test_what_a_tool_keeps_comes_from_the_conversation_and_goes_with_it(
    store, alice, tmp_path, project, tools
):
    """D4, A3: nobody named a source, and the SDK ran the tool in a task of its own."""
    session_id, program = run(talk(store, options(tmp_path, tools), REMEMBER))
    assert [answer["response"]["subtype"] for answer in program.answers] == ["success"] * 3
    [memory] = alice.memories.search(text="canary")
    [session] = alice.sessions.find().items
    assert [source.id for source in memory.sources] == [session.id]
    run(store.delete({"project_key": project, "session_id": session_id}))
    assert alice.memories.search(text="canary") == []
    assert alice.artifacts.list() == []


def test_it_does_in_a_conversation_that_is_resumed(store, alice, tmp_path, project, tools):
    """D4, A3, S1."""
    session_id, _ = run(talk(store, options(tmp_path)))
    again, _ = run(talk(store, options(tmp_path, tools, resume=session_id), REMEMBER))
    assert again == session_id
    run(store.delete({"project_key": project, "session_id": session_id}))
    assert alice.memories.search(text="canary") == []


def test_each_of_two_conversations_at_once_has_its_own(store, alice, tmp_path, project, tools):
    """D4, A3."""
    calls = [[("memory", "remember", {"fact": name})] for name in ("of one", "of two")]

    @tool("remember", "Keeps a fact.", {"fact": str})
    async def remember(arguments):
        await asyncio.sleep(0.02)
        alice.memories.put(("facts",), arguments["fact"], "x")
        return {"content": []}

    tools = {"memory": create_sdk_mcp_server("memory", tools=[remember])}

    async def both():
        return await asyncio.gather(*(talk(store, options(tmp_path, tools), call) for call in calls))

    (one, _), _ = run(both())
    run(store.delete({"project_key": project, "session_id": one}))
    assert [memory.key for memory in alice.memories.search()] == ["of two"]


def test_one_conversation_after_another_in_one_task_has_its_own(store, alice, tmp_path, project):
    """D4, A3: nothing of the one before is left in the context."""

    async def one_after_another():
        ids = []
        for name in ("first", "second"):
            async with store.conversation(options(tmp_path)) as ready:
                await store.append(
                    {"project_key": project, "session_id": ready.session_id}, [{"type": "user"}]
                )
                alice.memories.put(("facts",), name, "x")
                ids.append(ready.session_id)
        await store.delete({"project_key": project, "session_id": ids[0]})

    run(one_after_another())
    assert [memory.key for memory in alice.memories.search()] == ["second"]


def test_another_conversation_that_is_read_meanwhile_is_a_source_as_well(store, alice, tmp_path, project):
    """D4: what is kept then may come from either."""
    read, _ = run(talk(store, options(tmp_path)))
    key = {"project_key": project, "session_id": read}

    async def reads():
        async with store.conversation(options(tmp_path)):
            await store.list_sessions(project)
            alice.memories.put(("facts",), "before", "x")
            await store.load(key)
            alice.memories.put(("facts",), "after", "x")
        await store.delete(key)

    run(reads())
    assert [memory.key for memory in alice.memories.search()] == ["before"]


def test_what_it_goes_on_as_under_another_id_is_a_source_as_well(store, alice, tmp_path, project):
    """D4, A3: the program begins a new transcript when somebody clears the conversation."""
    cleared = {"project_key": project, "session_id": ID}

    async def goes_on():
        async with store.conversation(options(tmp_path)):
            await store.append(cleared, [{"type": "user"}])
            alice.memories.put(("facts",), "one", "x")
        await store.delete(cleared)

    run(goes_on())
    assert alice.memories.search() == []


def test_what_is_said_is_stored_before_the_turn_ends(store, tmp_path, project, tools):
    """L2, A3: a tool finds the prompt that led to it."""
    seen = []

    @tool("look", "Looks.", {})
    async def look(_):
        for _ in range(500):
            with suppress(NotFound):
                seen.extend(await store.load({"project_key": project, "session_id": ID}))
                break
            await asyncio.sleep(0.01)
        return {"content": []}

    tools = {"memory": create_sdk_mcp_server("memory", tools=[look])}
    run(talk(store, options(tmp_path, tools, session_id=ID), [("memory", "look", {})]))
    assert [one["message"]["content"] for one in seen] == ["go on"]


def test_outside_of_a_conversation_a_source_has_to_be_named(store, alice, tmp_path, project):
    """D4: rather refused than kept without a source."""

    async def outside():
        await store.append({"project_key": project, "session_id": ID}, [{"type": "user"}])
        await store.load({"project_key": project, "session_id": ID})
        with pytest.raises(InvalidInput):
            alice.memories.put(("facts",), "one", "x")

    run(outside())


# ------------------------------------------------------------------------------------------- the place


def test_nothing_of_it_stays_on_the_disk(store, tmp_path):
    """K1, A3: the program's directory is readable by its owner alone, and removed."""

    async def looked():
        async with store.conversation(options(tmp_path)) as ready:
            places = [Path(ready.env[name]) for name in ("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_TMPDIR")]
            for place in places:
                assert place.stat().st_mode & 0o077 == place.parent.stat().st_mode & 0o077 == 0
                (place / "left.txt").write_text("left")
        return places

    assert not any(place.exists() or place.parent.exists() for place in run(looked()))


def test_it_is_removed_when_the_block_fails_and_what_tools_left_is_kept(store, alice, tmp_path, project):
    """K1, A3."""

    async def fails():
        async with store.conversation(options(tmp_path, session_id=ID)) as ready:
            seen.append(left_by_a_tool(ready, project, ID))
            raise RuntimeError("the agent fails")

    seen = []
    with pytest.raises(RuntimeError, match="the agent fails"):
        run(fails())
    assert not seen[0].exists()
    assert [one.bytes for one in alice.artifacts.list()] == [5]


def refusing(*_):
    raise StorageFull


def test_what_the_sdk_gave_up_is_stored_at_the_end(store, tmp_path, project, monkeypatch):
    """L2, A3: from what the program wrote, for its directory is removed then."""
    key = {"project_key": project, "session_id": ID}
    main, agent = [{"type": "user", "uuid": f"{n}"} for n in range(3)], [{"type": "user", "uuid": "agent"}]

    async def given_up():
        async with store.conversation(options(tmp_path, session_id=ID)) as ready:
            beside = left_by_a_tool(ready, project, ID).parent
            beside.with_suffix(".jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in main) + '{"to')
            (beside / "subagents").mkdir()
            (beside / "subagents" / "agent-1.jsonl").write_text(json.dumps(agent[0]))
            await store.append(key, main[:1])
            with monkeypatch.context() as patch:
                patch.setattr(store, "_opened", refusing)
                with pytest.raises(StorageFull):
                    await store.append(key, main[1:])
        return await store.load(key), await store.load({**key, "subpath": "subagents/agent-1"}), beside

    *found, beside = run(given_up())
    assert found == [main, agent]
    assert not beside.exists()


def test_what_cannot_be_stored_at_the_end_either_stays_on_the_disk(store, tmp_path, project, monkeypatch):
    """L2, A3: and whoever runs it is told."""
    seen = []

    async def given_up():
        async with store.conversation(options(tmp_path, session_id=ID)) as ready:
            seen.append(left_by_a_tool(ready, project, ID).parent.with_suffix(".jsonl"))
            seen[0].write_text('{"type": "user"}')
            monkeypatch.setattr(store, "_opened", refusing)
            with suppress(StorageFull):
                await store.append({"project_key": project, "session_id": ID}, [{"type": "user"}])

    with pytest.raises(StorageFull) as refusal:
        run(given_up())
    assert "still in the directory" in refusal.value.__notes__[0]
    assert seen[0].exists()
    shutil.rmtree(seen[0].parents[3])


def test_a_directory_that_is_named_stays(store, tmp_path):
    named = tmp_path / "named"
    named.mkdir()

    async def talked():
        async with store.conversation(options(tmp_path, env={"CLAUDE_CONFIG_DIR": str(named)})) as ready:
            assert ready.env["CLAUDE_CONFIG_DIR"] == str(named)

    run(talked())
    assert named.is_dir()


def test_the_hooks_that_there_are_stay(store, tmp_path):
    from claude_agent_sdk import HookMatcher

    mine = {"Stop": [HookMatcher(matcher="mine")], "PreToolUse": [HookMatcher(matcher="other")]}

    async def talked():
        async with store.conversation(options(tmp_path, hooks=mine)) as ready:
            return ready.hooks

    hooks = run(talked())
    assert [len(hooks["Stop"]), len(hooks["PreToolUse"]), hooks["Stop"][0].matcher] == [2, 1, "mine"]
    assert len(mine["Stop"]) == 1


# ------------------------------------------------------------------------------------ which conversation


def test_what_is_resumed_is_ones_own_and_there(store, vault, principal, tmp_path):
    """O1, A3, S1: also before the SDK asks."""
    session_id, _ = run(talk(store, options(tmp_path)))

    async def begins(of, **more):
        async with of.conversation(options(tmp_path, **more)) as ready:
            return ready.resume, ready.session_id

    bob = VaultSessionStore(vault.access(principal("bob")))
    for refused in (session_id, ID):
        with pytest.raises(NotFound):
            run(begins(bob, resume=refused))
    with pytest.raises(InvalidInput):
        run(begins(store, resume="../../etc"))
    with pytest.raises(Conflict):
        run(begins(store, session_id=session_id))
    assert run(begins(store, resume=session_id)) == (session_id, None)
    resumed, forked = run(begins(store, resume=session_id, fork_session=True))
    assert resumed == session_id != forked
    assert uuid.UUID(forked)
    assert bob.list_sessions  # nothing was made for bob
    assert vault.access(principal("bob")).sessions.find().items == ()


def test_to_continue_is_to_resume_what_was_used_last(store, tmp_path, project):
    """S1, A3: but for what is a delegated agent's, or empty."""

    async def continued():
        async with store.conversation(options(tmp_path, continue_conversation=True)) as ready:
            return ready.resume

    assert run(continued()) is None
    ids = [str(uuid.UUID(int=number)) for number in range(3)]
    for session_id in ids[:2]:
        run(store.append({"project_key": project, "session_id": session_id}, [{"type": "user"}]))
    run(store.append({"project_key": project, "session_id": ids[2]}, [{"type": "user", "isSidechain": True}]))
    assert run(continued()) == ids[1]


def test_a_conversation_that_was_erased_is_not_begun_again(store, alice, tmp_path, project):
    """D5, D7: and one that is erased while it runs ends without leaving anything."""
    session_id, _ = run(talk(store, options(tmp_path)))

    async def erased_meanwhile():
        async with store.conversation(options(tmp_path, resume=session_id)) as ready:
            left_by_a_tool(ready, project, session_id)
            await store.delete({"project_key": project, "session_id": session_id})
            with pytest.raises(NotFound):
                alice.memories.put(("facts",), "late", "x")

    run(erased_meanwhile())
    assert alice.artifacts.list() == []
    with pytest.raises(Erased):
        run(talk(store, options(tmp_path, resume=session_id)))


# ------------------------------------------------------------------------------------- results of tools


def test_the_large_results_of_tools_are_kept_and_go_with_it(store, alice, tmp_path, project):
    """A3, D4: by the hook, before the SDK removes the directory of a resumed conversation, and at the end."""
    results = [("one.txt", "1" * 400_000), ("two.json", "[2]")]
    session_id, _ = run(talk(store, options(tmp_path), results=results))
    kept = alice.artifacts.list()
    assert sorted((one.bytes, one.version, one.media_type) for one in kept) == [
        (3, 1, None),
        (400_000, 1, "text/plain"),
    ]
    run(store.delete({"project_key": project, "session_id": session_id}))
    assert alice.artifacts.list() == []


def test_they_are_taken_from_a_directory_once(store, alice, tmp_path, project):
    """A3: also from the program's usual one."""
    beside = tmp_path / "projects" / project / ID / "tool-results"
    beside.mkdir(parents=True)
    (beside / "a.txt").write_text("as it is")
    (beside / f"{'n' * 240}.txt").write_text("long name")

    async def taken():
        await store.append({"project_key": project, "session_id": ID}, [{"type": "user"}])
        first = await ingest_tool_results(store, ID, tmp_path, project_key=project)
        again = await ingest_tool_results(store, ID, str(tmp_path), project_key=project)
        (beside / "a.txt").write_text("changed")
        changed = await ingest_tool_results(store, ID, tmp_path, project_key=project)
        return [{path.name: one.version for path, one in found.items()} for found in (first, again, changed)]

    first, again, changed = run(taken())
    assert list(first.values()) == list(again.values()) == [1, 1]
    assert (first.keys(), changed["a.txt"]) == (changed.keys(), 2)


def test_keeping_them_is_no_reading_of_the_agents(store, alice, tmp_path, project):
    """D4: they come from their conversation alone, and are no sources of what is kept afterwards."""
    read = {"project_key": project, "session_id": ID}
    run(store.append(read, [{"type": "user"}]))

    async def kept():
        async with store.conversation(options(tmp_path)) as ready:
            await store.load(read)
            place = Path(ready.env["CLAUDE_CONFIG_DIR"])
            left_by_a_tool(ready, project, ready.session_id)
            for _ in range(2):
                found = await ingest_tool_results(store, ready.session_id, place, project_key=project)
            return found, alice.memories.put(("facts",), "one", "x")

    found, memory = run(kept())
    assert [len(artifact.sources) for artifact in found.values()] == [1]
    assert [source.kind for source in memory.sources] == ["session", "session"]


def test_they_are_kept_when_the_conversation_is_cancelled(store, alice, tmp_path, project):
    """A3, K1."""
    seen = []

    async def cancelled():
        with anyio.move_on_after(0.2):
            async with store.conversation(options(tmp_path, session_id=ID)) as ready:
                seen.append(left_by_a_tool(ready, project, ID))
                await anyio.sleep(30)

    run(cancelled())
    assert not seen[0].exists()
    assert len(alice.artifacts.list()) == 1


def test_what_a_tool_links_to_elsewhere_is_not_followed(store, alice, tmp_path, project):
    """O1, A3: a tool runs what a model wrote."""
    beside = tmp_path / "projects" / project / ID / "tool-results"
    beside.mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (beside / "link.txt").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(beside / "pipe.txt")
    (beside / "directory.txt").mkdir()
    run(store.append({"project_key": project, "session_id": ID}, [{"type": "user"}]))
    assert run(ingest_tool_results(store, ID, tmp_path, project_key=project)) == {}
    beside.rename(tmp_path / "moved")
    beside.symlink_to(tmp_path / "moved")
    (tmp_path / "moved" / "a.txt").write_text("a")
    assert run(ingest_tool_results(store, ID, tmp_path, project_key=project)) == {}
    assert alice.artifacts.list() == []
