"""Real graphs over the checkpointer: conversations, time travel, interrupts, subgraphs, packets (A1)."""

import asyncio
import operator
from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from tests.adapters.langgraph_case import talking
from vault import Vault
from vault.adapters.langgraph import VaultSaver

T = {"configurable": {"thread_id": "t"}}
DURABILITIES = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


@pytest.fixture
def saver(alice):
    return VaultSaver(alice)


class Steps(TypedDict, total=False):
    done: Annotated[list, operator.add]
    answer: str


def said(state):
    return [message.content for message in state["messages"]]


@DURABILITIES
def test_a_conversation_goes_on_in_another_process_with_the_same_messages(
    vault, place, principal, durability
):
    first = talking(VaultSaver(vault.access(principal())))
    told = [
        first.invoke({"messages": [HumanMessage(text, id=text)]}, T, durability=durability)
        for text in ("one", "two")
    ]
    vault.close()
    with Vault.open(place) as again:
        graph = talking(VaultSaver(again.access(principal())))
        assert graph.get_state(T).values == told[-1]
        assert said(graph.invoke({"messages": [HumanMessage("three")]}, T)) == [
            text for one in ("one", "two", "three") for text in (one, f"you said {one}")
        ]


def test_sync_and_async_calls_share_a_thread(saver):
    graph = talking(saver)

    async def turn(text):
        return await graph.ainvoke({"messages": [HumanMessage(text)]}, T)

    graph.invoke({"messages": [HumanMessage("one")]}, T)
    asyncio.run(turn("two"))
    state = graph.invoke({"messages": [HumanMessage("three")]}, T)
    assert said(state)[::2] == ["one", "two", "three"]

    async def states():
        return [state async for state in graph.aget_state_history(T)]

    assert asyncio.run(states()) == list(graph.get_state_history(T))


def test_a_conversation_goes_another_way_from_an_earlier_moment(saver):
    graph = talking(saver)
    for text in ("one", "two", "three"):
        graph.invoke({"messages": [HumanMessage(text)]}, T)
    history = list(graph.get_state_history(T))
    earlier = next(state for state in history if len(state.values["messages"]) == 2 and not state.next)
    fork = graph.invoke({"messages": [HumanMessage("instead")]}, earlier.config)
    assert said(fork) == ["one", "you said one", "instead", "you said instead"]
    assert said(graph.get_state(history[0].config).values)[-1] == "you said three"
    assert said(graph.get_state(T).values) == said(fork)


def test_a_step_is_replayed_from_its_checkpoint(saver):
    count = []
    graph = talking(saver, answer=lambda text: f"{text} {len(count)}" if count.append(1) is None else "")
    graph.invoke({"messages": [HumanMessage("one")]}, T)
    before = next(state for state in graph.get_state_history(T) if state.next == ("model",))
    again = graph.invoke(None, before.config)
    assert said(again) == ["one", "one 2"]


def test_a_state_is_edited_and_the_graph_goes_on_from_it(saver):
    graph = talking(saver)
    graph.invoke({"messages": [HumanMessage("one", id="1")]}, T)
    earlier = list(graph.get_state_history(T))[-2]
    forked = graph.update_state(earlier.config, {"messages": [HumanMessage("edited", id="1")]})
    assert said(graph.invoke(None, forked)) == ["edited", "you said edited"]


@DURABILITIES
def test_an_interrupt_waits_and_is_resumed_elsewhere(alice, durability):
    def ask(state):
        return {"answer": interrupt({"question": "sure?"}), "done": ["asked"]}

    def made():
        graph = StateGraph(Steps).add_node("before", lambda _: {"done": ["before"]}).add_node("ask", ask)
        graph.add_edge(START, "before").add_edge("before", "ask").add_edge("ask", END)
        return graph.compile(checkpointer=VaultSaver(alice))

    waiting = made().invoke({"done": []}, T, durability=durability)
    assert waiting["__interrupt__"][0].value == {"question": "sure?"}
    assert made().get_state(T).next == ("ask",)
    answered = made().invoke(Command(resume="yes"), T, durability=durability)
    assert answered == {"done": ["before", "asked"], "answer": "yes"}


def test_a_task_that_was_done_is_not_done_again_when_its_sibling_failed(alice):
    ran = []

    def fine(_):
        ran.append("fine")
        return {"done": ["fine"]}

    def fails(_):
        ran.append("fails")
        if ran.count("fails") == 1:
            raise RuntimeError("at first")
        return {"done": ["at last"]}

    def made():
        graph = StateGraph(Steps).add_node("fine", fine).add_node("fails", fails)
        return graph.add_edge(START, "fine").add_edge(START, "fails").compile(checkpointer=VaultSaver(alice))

    with pytest.raises(RuntimeError, match="at first"):
        made().invoke({"done": []}, T)
    assert made().invoke(None, T)["done"] == ["at last", "fine"]
    assert ran.count("fine") == 1


def test_subgraphs_keep_their_own_state_in_namespaces_of_the_same_thread(saver, alice):
    def ask(state):
        return {"done": [interrupt("inner?")]}

    inner = StateGraph(Steps).add_node("ask", ask).add_edge(START, "ask").compile()
    remembering = (
        StateGraph(Steps)
        .add_node("count", lambda state: {"done": [len(state.get("done", []))]})
        .add_edge(START, "count")
        .compile(checkpointer=True)
    )
    graph = (
        StateGraph(Steps).add_node("inner", inner).add_node("own", lambda _: remembering.invoke({}) and {})
    )
    graph = graph.add_edge(START, "own").add_edge("own", "inner").compile(checkpointer=saver)
    graph.invoke({"done": []}, T)
    state = graph.get_state(T, subgraphs=True)
    assert state.tasks[0].state.next == ("ask",)
    graph.invoke(Command(resume="answer"), T)
    assert graph.get_state(T).values["done"] == ["answer"]
    spaces = {found.config["configurable"]["checkpoint_ns"] for found in VaultSaver(alice).list(T)}
    assert "" in spaces
    assert any(space.startswith("inner:") for space in spaces)


def test_packets_to_many_tasks_of_one_node(saver):
    class Mapped(TypedDict, total=False):
        items: list
        results: Annotated[list, operator.add]

    def work(item):
        return {"results": [item["text"].upper()]}

    graph = StateGraph(Mapped).add_node("work", work)
    graph.add_conditional_edges(
        START, lambda state: [Send("work", {"text": text}) for text in state["items"]]
    )
    compiled = graph.compile(checkpointer=saver)
    texts = [f"item {number} " + "x" * 100 for number in range(30)]
    assert compiled.invoke({"items": texts}, T)["results"] == [text.upper() for text in texts]
    assert compiled.get_state(T).values["results"] == [text.upper() for text in texts]


def test_a_memory_that_a_node_wrote_with_the_thread_as_its_source_dies_with_it(saver, alice):
    """O1: erasing the conversation erases what came from it."""

    def remember(state):
        config = {"configurable": {"thread_id": "t"}}
        text = state["messages"][-1].content
        alice.memories.put(("users",), "said", {"text": text}, sources=[saver.session(config)])
        return {}

    graph = talking(saver)
    graph.builder.add_node("remember", remember)
    graph.builder.add_edge("model", "remember")
    graph.builder.compile(checkpointer=saver).invoke({"messages": [HumanMessage("my secret")]}, T)
    assert alice.memories.get(("users",), "said").value == {"text": "you said my secret"}
    saver.delete_thread("t")
    assert list(alice.memories.search(("users",))) == []
