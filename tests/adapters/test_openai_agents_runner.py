"""The SDK's own Runner over a conversation in the vault: turns, tools, approvals, recovery, provenance."""

import asyncio
import contextlib
import json
from types import SimpleNamespace

import pytest
from agents import Agent, RunContextWrapper, Runner, RunState, function_tool
from agents.exceptions import InputGuardrailTripwireTriggered
from agents.guardrail import GuardrailFunctionOutput, input_guardrail
from agents.memory import OpenAIResponsesCompactionSession
from agents.run_internal.session_persistence import rewind_session_items

from tests.adapters.openai_agents.talk import QUIET, asked, call, kinds, output, said, scripted, texts
from vault.adapters.openai_agents import VaultSession

ran = asyncio.run
BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["run", "streamed"])


@pytest.fixture
def talk(alice):
    return VaultSession("talk", alice)


@function_tool
def look(place: str) -> str:
    return f"nothing in {place}"


# ------------------------------------------------------------------------------------------------------ turns


@BOTH
def test_a_second_turn_sees_the_first(talk, alice, streamed):
    """S1: also in another instance of the session, as in another process."""
    agent = scripted("hello", "you said hi")
    ran(asked(agent, "hi", talk, streamed=streamed))
    ran(asked(agent, "what did I say?", VaultSession("talk", alice), streamed=streamed))
    first, second = agent.model.calls
    assert kinds(first.input) == ["user"]
    assert kinds(second.input) == ["user", "message", "user"]
    assert kinds(ran(talk.get_items())) == ["user", "message", "user", "message"]


@BOTH
def test_a_tools_turn_is_kept_in_its_order(talk, streamed):
    calls = [("look", '{"place": "the box"}', "c1"), ("look", '{"place": "the bag"}', "c2")]
    agent = scripted(calls, "both are empty", tools=[look])
    ran(asked(agent, "look", talk, streamed=streamed))
    items = ran(talk.get_items())
    assert kinds(items) == ["user", *["function_call"] * 2, *["function_call_output"] * 2, "message"]
    assert [item["output"] for item in items[3:5]] == ["nothing in the box", "nothing in the bag"]


@BOTH
def test_a_run_that_fails_after_a_tool_keeps_what_was_done(talk, streamed):
    agent = scripted([("look", '{"place": "the box"}', "c1")], tools=[look])  # no second answer
    with pytest.raises(Exception, match=r"(?i)unexpected|script"):
        ran(asked(agent, "look", talk, streamed=streamed))
    assert kinds(ran(talk.get_items())) == ["user", "function_call", "function_call_output"]


@BOTH
def test_the_settings_of_a_run_limit_what_the_model_sees(talk, streamed):
    ran(talk.add_items([said(str(number)) for number in range(10)]))
    agent = scripted("yes")
    settings = {"session_settings": {"limit": 2}, "tracing_disabled": True}
    ran(asked(agent, "and?", talk, streamed=streamed, run_config=settings))
    assert texts(agent.model.calls[0].input) == ["8", "9", "and?"]


def test_what_a_guardrail_refuses_can_be_taken_back(talk, files_with, vault):
    """D4: the SDK persists a refused input; the application takes it back, and it is gone."""

    @input_guardrail
    def no_secrets(_, __, text):
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    agent = scripted("never", input_guardrails=[no_secrets])
    with pytest.raises(InputGuardrailTripwireTriggered):
        ran(asked(agent, "my secret", talk))
    assert ran(talk.pop_item())["content"] == "my secret"
    assert ran(talk.get_items()) == []


def test_every_method_takes_the_run_context_and_goes_by_the_access(vault, principal, talk):
    """A1: a context that names another tenant reaches nobody else's conversation."""
    wrapper = RunContextWrapper({"tenant": "other", "subject": "bob"})
    ran(talk.add_items([said("alice's")], wrapper=wrapper))
    assert texts(ran(talk.get_items(wrapper=wrapper))) == ["alice's"]
    assert ran(VaultSession("talk", vault.access(principal("bob"))).get_items(wrapper=wrapper)) == []
    assert ran(talk.pop_item(wrapper=wrapper)) == said("alice's")
    ran(talk.clear_session(wrapper=wrapper))


def test_two_runs_at_once_keep_all_items_of_both(talk):
    agents = [scripted(f"answer {number}") for number in range(2)]

    async def both():
        await asyncio.gather(*(asked(agent, f"q{at}", talk) for at, agent in enumerate(agents)))

    ran(both())
    items = ran(talk.get_items())
    assert sorted(kinds(items)) == ["message", "message", "user", "user"]


# -------------------------------------------------------------------------------- approvals, and lost answers


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    return f"paid {amount}"


@BOTH
def test_an_approval_is_waited_for_in_another_process(talk, alice, streamed):
    """A paused run goes on over another instance, and its history is that of one run."""
    agent = scripted([("pay", '{"amount": 7}', "c1")], "paid", tools=[pay])
    paused = ran(asked(agent, "pay 7", talk, streamed=streamed))
    assert kinds(ran(talk.get_items())) == ["user", "function_call"]

    async def resumed():
        state = await RunState.from_json(agent, json.loads(paused.to_state().to_string()))
        state.approve(state.get_interruptions()[0])
        return await asked(agent, state, VaultSession("talk", alice), streamed=streamed)

    assert ran(resumed()).final_output == "paid"
    items = ran(talk.get_items())
    assert kinds(items) == ["user", "function_call", "function_call_output", "message"]
    assert items[2]["output"] == "paid 7"


class LosesTheAnswer(VaultSession):
    """Says that a batch with a tool's output failed: before it was written, or after."""

    written = None

    async def add_items(self, items, *, wrapper=None):
        loses = self.written is not None and any(item.get("type") == "function_call_output" for item in items)
        written, self.written = self.written, None if loses else self.written
        if not loses or written:
            await super().add_items(items, wrapper=wrapper)
        if loses:
            raise ConnectionError("no answer")


@pytest.mark.parametrize("written", [False, True], ids=["not written", "written"])
def test_a_resumed_run_finds_out_whether_its_write_happened(alice, written):
    """S1: what comes back is exactly what was added, so a lost answer is settled without a duplicate."""
    talk = LosesTheAnswer("talk", alice)
    agent = scripted([("pay", '{"amount": 7}', "c1")], "paid", tools=[pay])
    paused = ran(asked(agent, "pay 7", talk))
    state = paused.to_state()
    state.approve(state.get_interruptions()[0])
    talk.written = written
    with pytest.raises(ConnectionError):
        ran(asked(agent, state, talk))
    again = ran(asked(agent, state, talk))
    assert again.final_output == "paid"
    assert kinds(ran(talk.get_items())) == ["user", "function_call", "function_call_output", "message"]


def test_rewinding_takes_back_the_suffix_and_no_other(talk):
    """The SDK's own rewind, over pops: it verifies the tail first."""
    ran(talk.add_items([said("1"), said("2"), said("3")]))
    ran(rewind_session_items(talk, [said("2"), said("3")]))
    assert texts(ran(talk.get_items())) == ["1"]
    ran(rewind_session_items(talk, [said("another")]))
    assert texts(ran(talk.get_items())) == ["1"]


# ------------------------------------------------------------------------------------------------- provenance


@BOTH
@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
def test_what_a_tool_remembers_comes_from_the_conversation_and_goes_with_it(alice, talk, streamed, is_async):
    """A7: nobody names a source, and erasing the conversation leaves no memory of it."""

    def keep(what):
        alice.memories.put(("users",), what, {"likes": what})
        alice.artifacts.put(f"{what}.txt", what.encode())
        return "kept"

    if is_async:

        @function_tool
        async def remember(what: str) -> str:
            return keep(what)

    else:

        @function_tool
        def remember(what: str) -> str:
            return keep(what)

    agent = scripted([("remember", '{"what": "tea"}', "c1")], "noted", tools=[remember])
    ran(asked(agent, "I like tea", talk, streamed=streamed))
    [memory] = alice.memories.list()
    assert [source.id for source in memory.sources] == [talk.vault_session().id]
    ran(talk.erase())
    assert alice.memories.search(("users",), text="tea") == []
    assert alice.artifacts.list() == []


def test_a_run_in_a_task_of_its_own_is_attributed_to_its_own_conversation(alice):
    """A7: two runs at once, each within wait_for and create_task, remember each for itself."""

    @function_tool
    async def remember(what: str) -> str:
        await asyncio.sleep(0.01)
        alice.memories.put(("users",), what, {"likes": what})
        return "kept"

    async def run(name):
        agent = scripted([("remember", json.dumps({"what": name}), "c1")], "noted", tools=[remember])
        await asyncio.create_task(asyncio.wait_for(asked(agent, name, VaultSession(name, alice)), 60))

    async def both():
        await asyncio.gather(run("tea"), run("coffee"))

    ran(both())
    memories = alice.memories.list()
    assert sorted(memory.key for memory in memories) == ["coffee", "tea"]
    for memory in memories:
        [source] = memory.sources
        assert source.id == VaultSession(memory.key, alice).vault_session().id


# ------------------------------------------------------------------------------------------------- compaction


def compacting(talk, summary, *, during=None, threshold=1):
    """The SDK's compaction over a session; ``during``: what happens while the model writes the summary."""

    async def compact(**_):
        if during is not None:
            await during()
        return SimpleNamespace(output=summary, usage=None)

    return OpenAIResponsesCompactionSession(
        talk.session_id,
        talk,
        client=SimpleNamespace(responses=SimpleNamespace(compact=compact)),
        compaction_mode="input",
        should_trigger_compaction=lambda context: len(context["compaction_candidate_items"]) >= threshold,
    )


SUMMARY = [said("in short: nothing", "assistant")]


def test_a_summary_takes_the_place_of_the_history_in_one_transaction(talk, vault, files_with):
    """D4: what was summed up is in no file any more."""
    ran(talk.add_items([said("long talk about sparrows"), said("indeed", "assistant")]))
    ran(compacting(talk, SUMMARY).run_compaction({"force": True}))
    assert ran(talk.get_items()) == SUMMARY
    session = talk.vault_session()
    assert [event.type for event in session.events(types=["openai.cleared"])] == ["openai.cleared"]
    assert [event.erased for event in session.events(types=["openai.item"])] == [True, True, False]


@BOTH
def test_automatic_compaction_replaces_what_the_model_saw_and_nothing_before(talk, streamed):
    ran(talk.add_items([said(f"old {number}") for number in range(6)]))
    agent = scripted("answer")
    session = compacting(talk, SUMMARY, threshold=1)
    settings = {"session_settings": {"limit": 2}, "tracing_disabled": True}
    ran(asked(agent, "new", session, streamed=streamed, run_config=settings))
    assert texts(ran(talk.get_items())) == [*(f"old {number}" for number in range(4)), "in short: nothing"]
    assert texts(ran(talk.get_items(2))) == ["old 3", "in short: nothing"]
    ran(talk.add_items([said("later")]))
    assert texts(ran(talk.get_items())) == [
        *(f"old {number}" for number in range(4)),
        "in short: nothing",
        "later",
    ]


@pytest.mark.parametrize("change", ["add", "pop", "clear"])
def test_what_happens_while_a_summary_is_written_is_not_undone(alice, talk, change):
    """D4: another process adds, takes back or clears meanwhile; the summary is given up instead."""
    ran(talk.add_items([said("1"), said("2", "assistant")]))
    other = VaultSession("talk", alice)

    async def meanwhile():
        if change == "add":
            await other.add_items([said("meanwhile")])
        elif change == "pop":
            await other.pop_item()
        else:
            await other.clear_session()

    session = compacting(talk, SUMMARY, during=meanwhile)
    ran(asked(scripted("answer"), "new", session))
    left = texts(ran(talk.get_items()))
    expected = {"add": ["1", "2", "new", [], "meanwhile"], "pop": ["1", "2", "new"], "clear": []}
    assert [text if isinstance(text, str) else [] for text in left] == expected[change]


def test_a_subclass_that_changes_items_on_their_way_is_not_gone_round(alice):
    """The SDK then reads and writes through the four methods alone."""

    class Shouting(VaultSession):
        async def add_items(self, items, *, wrapper=None):
            await super().add_items([{**item, "content": "loud"} for item in items], wrapper=wrapper)

    talk = Shouting("talk", alice)
    ran(talk.add_items([said("1")]))
    assert ran(talk._get_compaction_snapshot(5)) is None
    ran(compacting(talk, SUMMARY).run_compaction({"force": True}))
    assert texts(ran(talk.get_items())) == ["loud"]


def test_a_summary_takes_the_place_of_the_tail_it_was_made_of_and_of_no_other(talk):
    """D4: of two that replace the same tail, one does."""
    ran(talk.add_items([said("1"), said("2"), call("c"), output("c")]))
    first, second = (ran(talk._get_compaction_snapshot(3)) for _ in range(2))
    assert (first.complete, kinds(first.items)) == (False, ["user", "function_call", "function_call_output"])
    assert ran(talk._get_compaction_snapshot(4)).complete
    assert ran(first.replace_suffix(0, SUMMARY))
    assert not ran(second.replace_suffix(0, [said("another summary")]))
    assert not ran(first.replace_suffix(3, SUMMARY))  # of nothing
    assert texts(ran(talk.get_items())) == ["1", "in short: nothing"]
    erased = [event.erased for event in talk.vault_session().events(types=["openai.item"])]
    assert erased == [False, True, True, True, False]


def test_a_tail_too_large_for_one_transaction_stays_as_it_is(talk):
    ran(talk.add_items([said("x")] * 1_000))
    ran(talk.add_items([said("y")]))
    snapshot = ran(talk._get_compaction_snapshot(1_001))
    assert not ran(snapshot.replace_suffix(0, SUMMARY))
    assert len(ran(talk.get_items())) == 1_001
    assert ran(snapshot.replace_suffix(1_000, SUMMARY))
    assert ran(talk.get_items(2)) == [said("x"), *SUMMARY]


def test_the_agent_runs_sync_too(talk):
    loop = asyncio.new_event_loop()  # the SDK would make one and leave it open
    asyncio.set_event_loop(loop)
    with contextlib.closing(loop):
        result = Runner.run_sync(scripted("hello"), "hi", session=talk, run_config=QUIET)
        asyncio.set_event_loop(None)
    assert result.final_output == "hello"
    assert kinds(ran(talk.get_items())) == ["user", "message"]


def test_an_agent_as_a_tool_has_the_session_that_it_is_given(alice, talk):
    inner = VaultSession("inner", alice)
    expert = scripted("42")
    tool = expert.as_tool("ask", "asks", session=inner)
    outer = Agent(name="outer", model=scripted([("ask", '{"input": "6*7"}', "c1")], "42").model, tools=[tool])
    ran(asked(outer, "what is it?", talk))
    assert kinds(ran(inner.get_items())) == ["user", "message"]
    assert kinds(ran(talk.get_items())) == ["user", "function_call", "function_call_output", "message"]
