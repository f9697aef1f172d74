"""What the SDK offers over any store, over this one: import, resume, fork, names, lists, deletion."""

import asyncio
import json
import uuid

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    delete_session_via_store,
    fork_session_via_store,
    get_session_info_from_store,
    get_session_messages_from_store,
    get_subagent_messages_from_store,
    import_session_to_store,
    list_sessions_from_store,
    list_subagents_from_store,
    project_key_for_directory,
    query,
    rename_session_via_store,
    tag_session_via_store,
)
from claude_agent_sdk._internal.session_resume import materialize_resume_session

from vault.adapters.claude_agent import VaultSessionStore
from vault.errors import Erased, NotFound

ID = "5f0c7c1e-0a51-4a38-9a0e-2b64d2a0c001"
STRANGE = "one\u2028two\u0085three \ud83d"


def run(call):
    return asyncio.run(call)


@pytest.fixture
def store(alice):
    return VaultSessionStore(alice)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """The directory that the agent works in; the program's own is of this test."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def key(work):
    return {"project_key": project_key_for_directory(work), "session_id": ID}


def turns(count, session_id=ID):
    """User and assistant in turn, each the child of the one before."""
    parent, found = None, []
    for number in range(count):
        kind = "assistant" if number % 2 else "user"
        content = [{"type": "text", "text": f"{number} {STRANGE}"}]
        found.append(
            {
                "type": kind,
                "uuid": str(uuid.uuid5(uuid.UUID(session_id), str(number))),
                "parentUuid": parent,
                "sessionId": session_id,
                "timestamp": f"2026-11-30T12:00:{number:02}.000Z",
                "isSidechain": False,
                "cwd": "/srv",
                "message": {"role": kind, "content": content},
            }
        )
        parent = found[-1]["uuid"]
    return found


def texts(messages):
    return [message.message["content"][0]["text"] for message in messages]


def on_disk(work, entries, agent=()):
    place = work.parent / "config" / "projects" / project_key_for_directory(work)
    (place / ID / "subagents").mkdir(parents=True)
    (place / f"{ID}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in entries))
    if agent:
        path = place / ID / "subagents" / "agent-a1.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in agent))
        path.with_name("agent-a1.meta.json").write_text('{"agentType": "reader"}')


def test_a_transcript_on_disk_is_taken_in_and_taking_it_in_again_doubles_nothing(store, work, key):
    """A3, L2: with what has no uuid, wherever it stands, and whatever was mirrored before."""
    entries = turns(20)
    entries.insert(0, {"type": "queue-operation", "operation": "enqueue"})
    entries[9:9] = [{"type": "mode", "mode": "plan"}, {"type": "mode", "mode": "plan"}]
    entries.append({"type": "last-prompt", "lastPrompt": "x"})
    agent = [{**one, "isSidechain": True} for one in turns(4)]
    on_disk(work, entries, agent)

    async def taken():
        await store.append(key, entries[3:9])
        await store.delete({**key, "session_id": str(uuid.uuid4())})
        for size in (500, 500):
            await import_session_to_store(ID, store, directory=str(work), batch_size=size)
        agents = await store.load({**key, "subpath": "subagents/agent-a1"})
        return await store.load(key), agents

    main, agents = run(taken())
    assert sorted(map(json.dumps, main)) == sorted(map(json.dumps, entries))
    assert [one for one in agents if one["type"] != "agent_metadata"] == agent


def test_what_was_taken_in_is_resumed_without_the_disk(store, work, key):
    """A3, S1: the SDK writes the same entries for the program, in a directory of its own."""
    entries, agent = turns(6), turns(2)
    on_disk(work, entries, agent)

    async def resumed():
        await import_session_to_store(ID, store, directory=str(work))
        options = ClaudeAgentOptions(session_store=store, resume=ID, cwd=work)
        made = await materialize_resume_session(options)
        place = made.config_dir / "projects" / key["project_key"]
        files = {
            str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()
        }
        await made.cleanup()
        return made.resume_session_id, files

    resumed_id, files = run(resumed())
    assert resumed_id == ID
    assert [json.loads(line) for line in files[f"{ID}.jsonl"].splitlines()] == entries
    assert [json.loads(line) for line in files[f"{ID}/subagents/agent-a1.jsonl"].splitlines()] == agent
    assert json.loads(files[f"{ID}/subagents/agent-a1.meta.json"]) == {"agentType": "reader"}


@pytest.mark.parametrize("of", ["somebody else's", "erased"])
def test_no_program_is_started_for_what_may_not_be_resumed(store, vault, principal, work, key, of):
    """O1, D5, A3: it would go on from the transcript on this disk, which is there."""
    on_disk(work, turns(4))

    async def refused():
        await store.append(key, turns(4))
        asking = store
        if of == "erased":
            await store.delete(key)
        else:
            asking = VaultSessionStore(vault.access(principal("bob")))
        options = ClaudeAgentOptions(session_store=asking, resume=ID, cwd=work, cli_path="/nowhere/program")
        with pytest.raises(RuntimeError, match=r"no such conversation|was erased") as refusal:
            async for _ in query(prompt="go on", options=options):
                pass
        return refusal.value

    error = run(refused())
    assert isinstance(error.__cause__, Erased if of == "erased" else NotFound)


def test_a_conversation_is_renamed_tagged_and_found_by_that(store, work, key):
    """A3, S2."""

    async def found():
        await store.append(key, turns(4))
        await rename_session_via_store(store, ID, "Shoes for Tuesday", directory=str(work))
        await tag_session_via_store(store, ID, "shopping", directory=str(work))
        [listed] = await list_sessions_from_store(store, directory=str(work))
        one = await get_session_info_from_store(store, ID, directory=str(work))
        messages = await get_session_messages_from_store(store, ID, directory=str(work))
        await tag_session_via_store(store, ID, None, directory=str(work))
        [untagged] = await list_sessions_from_store(store, directory=str(work))
        return listed, one, messages, untagged

    listed, one, messages, untagged = run(found())
    assert (listed.summary, listed.tag, listed.cwd) == ("Shoes for Tuesday", "shopping", "/srv")
    assert (one.custom_title, one.tag) == ("Shoes for Tuesday", "shopping")
    assert untagged.tag is None
    assert texts(messages) == [f"{number} {STRANGE}" for number in range(4)]


def test_a_list_is_in_the_order_of_use_and_reads_no_transcript(store, work, key, monkeypatch):
    """A3, S2: the summaries are as new as the list."""
    ids = [str(uuid.uuid4()) for _ in range(3)]

    async def listed():
        for session_id in (*ids, ids[0]):
            await store.append({**key, "session_id": session_id}, turns(2, session_id))
            await store.append({**key, "session_id": session_id}, [{"type": "mode"}])
        monkeypatch.setattr(VaultSessionStore, "load", None)
        return await list_sessions_from_store(store, directory=str(work), limit=2)

    assert [one.session_id for one in run(listed())] == [ids[0], ids[2]]


def test_a_fork_is_a_conversation_of_its_own(store, work, key):
    """A3, S1: it stays when the original is deleted, for it holds a copy."""
    entries = turns(6)

    async def forked():
        await store.append(key, entries)
        fork = await fork_session_via_store(
            store, ID, directory=str(work), up_to_message_id=entries[3]["uuid"], title="the fork"
        )
        await delete_session_via_store(store, ID, directory=str(work))
        with pytest.raises(Erased):
            await fork_session_via_store(store, ID, directory=str(work))
        messages = await get_session_messages_from_store(store, fork.session_id, directory=str(work))
        info = await get_session_info_from_store(store, fork.session_id, directory=str(work))
        return messages, info

    messages, info = run(forked())
    assert texts(messages) == [f"{number} {STRANGE}" for number in range(4)]
    assert info.custom_title == "the fork"


def test_the_transcripts_of_delegates_are_listed_and_read(store, work, key):
    """A3."""

    async def read():
        await store.append({**key, "subpath": "subagents/agent-a1"}, turns(2))
        await store.append({**key, "subpath": "subagents/workflows/run-1/agent-b2"}, turns(2))
        await store.append(key, turns(2))
        agents = await list_subagents_from_store(store, ID, directory=str(work))
        messages = await get_subagent_messages_from_store(store, ID, "b2", directory=str(work))
        return agents, messages

    agents, messages = run(read())
    assert sorted(agents) == ["a1", "b2"]
    assert len(messages) == 2


def test_what_one_deletes_is_in_no_list(store, work, key):
    """A3, D5."""

    async def deleted():
        await store.append(key, turns(2))
        await delete_session_via_store(store, ID, directory=str(work))
        await delete_session_via_store(store, str(uuid.uuid4()), directory=str(work))
        return await list_sessions_from_store(store, directory=str(work))

    assert run(deleted()) == []
