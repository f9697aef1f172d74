"""ADK's own runner over the vault: tools, streams, rewind and resume, and what is derived on the way."""

import asyncio

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps.app import App, EventsCompactionConfig, ResumabilityConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.tools import ToolContext, load_memory, preload_memory

from tests.adapters.google_adk_case import APP, Scripted, Services, content, file, texts, turn


async def remember(fact: str, tool_context: ToolContext) -> str:
    """Keep a fact and a file."""
    await tool_context.add_memory(memories=[MemoryEntry(content=content(fact))])
    await tool_context.save_artifact("report.csv", file(fact))
    tool_context.state["user:facts"] = 1
    return "kept"


def agent(model, *tools):
    return LlmAgent(name="assistant", model=model, tools=list(tools))


def test_a_conversation_goes_on_in_another_process(vault, principal):
    """A7, L2."""

    async def first(services):
        await services.sessions.create_session(**APP, session_id="s1")
        await turn(services.runner(agent(Scripted.of("Nice to meet you."))), "I am Ada.")

    async def second(services):
        model = Scripted.of("You are Ada.")
        events = await turn(services.runner(agent(model)), "Who am I?")
        assert "I am Ada." in model.asked[0]
        assert events[-1].content.parts[0].text == "You are Ada."
        return await services.sessions.get_session(**APP, session_id="s1")

    asyncio.run(first(Services.of(vault.access(principal("alice")))))
    session = asyncio.run(second(Services.of(vault.access(principal("alice")))))
    assert texts(session) == ["I am Ada.", "Nice to meet you.", "Who am I?", "You are Ada."]


def test_what_a_tool_writes_comes_from_the_session_and_goes_with_it(alice):
    """A7, D4."""
    services = Services.of(alice)

    async def scenario():
        await services.sessions.create_session(**APP, session_id="s1")
        model = Scripted.of(("remember", {"fact": "Ada drinks oolong"}), "Noted.")
        await turn(services.runner(agent(model, remember)), "I drink oolong.")
        found = await services.memories.search_memory(**APP, query="oolong")
        assert [one.content.parts[0].text for one in found.memories] == ["Ada drinks oolong"]
        assert await services.artifacts.list_artifact_keys(**APP, session_id="s1") == ["report.csv"]
        (memory,) = alice.memories.list()
        session = next(iter(alice.sessions.find(labels={"scope": "session"}).items))
        assert session.id in {source.id for source in memory.sources}

        await services.sessions.delete_session(**APP, session_id="s1")
        assert not (await services.memories.search_memory(**APP, query="oolong")).memories
        assert await services.artifacts.list_artifact_keys(**APP, session_id="s1") == []
        assert await services.sessions.get_user_state(**APP) == {"facts": 1}
        assert alice.memories.list() == [] == alice.artifacts.list()

    asyncio.run(scenario())


def test_what_a_tool_puts_straight_into_the_vault_comes_from_the_session_too(alice):
    """D4: through no service of ADK's, also from a plain function."""
    services = Services.of(alice)

    def plain(fact: str) -> str:
        """Keep a fact."""
        alice.memories.put(("facts",), "plain", fact)
        return "kept"

    async def awaited(fact: str) -> str:
        """Keep a fact."""
        await asyncio.to_thread(alice.memories.put, ("facts",), "awaited", fact)
        return "kept"

    async def scenario():
        await services.sessions.create_session(**APP, session_id="s1")
        calls = [(name, {"fact": "tea"}) for name in ("plain", "awaited")]
        await turn(services.runner(agent(Scripted.of(*calls, "ok"), plain, awaited)), "I drink tea.")
        assert [memory.key for memory in alice.memories.list(("facts",))] == ["awaited", "plain"]
        await services.sessions.delete_session(**APP, session_id="s1")
        assert alice.memories.list(("facts",)) == []

    asyncio.run(scenario())


def test_two_conversations_at_once_do_not_take_each_others_memories(alice):
    """D4: each is a task of its own, as in a server."""
    services = Services.of(alice)

    async def conversation(name):
        await services.sessions.create_session(**APP, session_id=name)
        model = Scripted.of(("remember", {"fact": f"fact of {name}"}), "ok")
        await turn(services.runner(agent(model, remember)), "hi", name)

    async def scenario():
        await asyncio.gather(*(conversation(f"s{n}") for n in range(6)))
        await services.sessions.delete_session(**APP, session_id="s3")
        found = await services.memories.search_memory(**APP, query="fact")
        kept = sorted(one.content.parts[0].text for one in found.memories)
        assert kept == [f"fact of s{n}" for n in (0, 1, 2, 4, 5)]
        assert all(one.custom_metadata["session_id"] in one.content.parts[0].text for one in found.memories)

    asyncio.run(scenario())


def test_what_is_derived_from_a_memory_goes_with_the_session_that_the_memory_is_of(alice):
    """D4."""
    services = Services.of(alice)

    async def scenario():
        await services.sessions.create_session(**APP, session_id="old")
        model = Scripted.of("Noted.")
        await turn(services.runner(agent(model)), "I drink oolong.", "old")
        old = await services.sessions.get_session(**APP, session_id="old")
        await services.memories.add_session_to_memory(old)

    async def later():
        await services.sessions.create_session(**APP, session_id="s1")
        model = Scripted.of(("remember", {"fact": "tea again"}), "Noted.")
        await turn(services.runner(agent(model, preload_memory, remember)), "Was it oolong?")
        await services.sessions.delete_session(**APP, session_id="old")
        assert not (await services.memories.search_memory(**APP, query="tea")).memories
        assert await services.artifacts.list_artifact_keys(**APP, session_id="s1") == []
        assert len((await services.sessions.get_session(**APP, session_id="s1")).events) == 4

    asyncio.run(scenario())
    asyncio.run(later())


def test_an_agent_finds_what_an_earlier_session_said(alice):
    """A7."""
    services = Services.of(alice)

    async def scenario():
        await services.sessions.create_session(**APP, session_id="old")
        await turn(services.runner(agent(Scripted.of("Noted."))), "My cat is Miro.", "old")
        old = await services.sessions.get_session(**APP, session_id="old")
        await services.memories.add_session_to_memory(old)
        await services.sessions.create_session(**APP, session_id="s1")
        model = Scripted.of(("load_memory", {"query": "cat"}), "Miro.")
        events = await turn(services.runner(agent(model, load_memory)), "What is my cat called?")
        responses = [one for event in events for one in event.get_function_responses()]
        assert "Miro" in str(responses[0].response)

    asyncio.run(scenario())


def test_a_stream_is_seen_in_parts_and_stored_whole(alice):
    """A7, L1."""
    services = Services.of(alice)

    async def scenario():
        await services.sessions.create_session(**APP, session_id="s1")
        runner = services.runner(agent(Scripted.of("one two three")))
        seen = await turn(runner, "count", run_config=RunConfig(streaming_mode=StreamingMode.SSE))
        assert [event.partial for event in seen] == [True, True, True, None]
        stored = await services.sessions.get_session(**APP, session_id="s1")
        assert texts(stored) == ["count", "one two three"]

    asyncio.run(scenario())


def test_a_rewind_takes_state_and_files_back_and_keeps_the_log(alice):
    """A7, L1."""
    services = Services.of(alice)

    async def write(text: str, tool_context: ToolContext) -> str:
        """Write a file and a note."""
        await tool_context.save_artifact("note.csv", file(text))
        await tool_context.save_artifact(f"{text}.csv", file(text))
        tool_context.state["note"] = text
        return "written"

    async def scenario():
        await services.sessions.create_session(**APP, session_id="s1")
        answers = [("write", {"text": "first"}), "ok", ("write", {"text": "second"}), "ok", "again"]
        runner = services.runner(agent(Scripted.of(*answers), write))
        await turn(runner, "one")
        undone = (await turn(runner, "two"))[0].invocation_id
        await runner.rewind_async(user_id="u1", session_id="s1", rewind_before_invocation_id=undone)
        session = await services.sessions.get_session(**APP, session_id="s1")
        assert session.state["note"] == "first"
        assert len(session.events) == 9
        place = {**APP, "session_id": "s1"}
        restored = await services.artifacts.load_artifact(**place, filename="note.csv")
        assert restored.inline_data.data == b"first"
        assert await services.artifacts.load_artifact(**place, filename="second.csv") is None
        await turn(runner, "three")
        session = await services.sessions.get_session(**APP, session_id="s1")
        assert texts(session)[-2:] == ["three", "again"]

    asyncio.run(scenario())


@pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\] ResumabilityConfig:UserWarning")
def test_an_invocation_that_broke_off_is_resumed(vault, principal):
    """A7, C5."""
    charged = []

    def charge(amount: int) -> str:
        """Charge an amount."""
        charged.append(amount)
        return "charged"

    def runner(services, *answers):
        app = App(
            name="app",
            root_agent=agent(Scripted.of(*answers), charge),
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        return services.runner(None, app=app)

    async def breaks_off():
        services = Services.of(vault.access(principal("alice")))
        await services.sessions.create_session(**APP, session_id="s1")
        begun = runner(services, ("charge", {"amount": 5}))
        running = begun.run_async(user_id="u1", session_id="s1", new_message=content("charge 5"))
        called = [event async for event in up_to_a_call(running)][-1]
        await running.aclose()
        return called.invocation_id

    async def resumes(invocation_id):
        services = Services.of(vault.access(principal("alice")))
        await turn(runner(services, "done"), "", new_message=None, invocation_id=invocation_id)
        session = await services.sessions.get_session(**APP, session_id="s1")
        assert "done" in texts(session)

    invocation_id = asyncio.run(breaks_off())
    assert charged == []
    asyncio.run(resumes(invocation_id))
    assert charged == [5]


@pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")
def test_the_compaction_behind_each_turn_makes_no_turn_stale(alice):
    """A7, L8, S7: a summary is one more event, and the log keeps what it covers."""
    services = Services.of(alice)

    async def scenario():
        await services.sessions.create_session(**APP, session_id="s1")
        summaries = Scripted.of(*(f"summary {n}" for n in range(4)))
        config = EventsCompactionConfig(
            compaction_interval=1, overlap_size=0, summarizer=LlmEventSummarizer(llm=summaries)
        )
        model = Scripted.of(*(f"answer {n}" for n in range(4)))
        runner = services.runner(
            None, app=App(name="app", root_agent=agent(model), events_compaction_config=config)
        )
        for n in range(4):
            await turn(runner, f"question {n}")
        assert "summary 2" in model.asked[3]
        assert "question 0" not in model.asked[3]
        session = await services.sessions.get_session(**APP, session_id="s1")
        compacted = [event.actions.compaction for event in session.events if event.actions.compaction]
        assert [one.compacted_content.parts[0].text for one in compacted] == [
            f"summary {n}" for n in range(4)
        ]
        assert texts(session)[:2] == ["question 0", "answer 0"]
        assert len(session.events) == 12

    asyncio.run(scenario())


async def up_to_a_call(events):
    async for event in events:
        yield event
        if event.get_function_calls():
            return


def test_the_plain_run_of_a_script_works_too(alice):
    """A7: ``runner.run`` has an event loop in a thread of its own."""
    services = Services.of(alice)
    asyncio.run(services.sessions.create_session(**APP, session_id="s1"))
    runner = services.runner(agent(Scripted.of("hello")))
    events = list(runner.run(user_id="u1", session_id="s1", new_message=content("hi")))
    assert events[-1].content.parts[0].text == "hello"
    assert texts(asyncio.run(services.sessions.get_session(**APP, session_id="s1"))) == ["hi", "hello"]
