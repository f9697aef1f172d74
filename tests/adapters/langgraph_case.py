"""What the tests of LangGraph's checkpointer share: checkpoints, threads and graphs, made in one line."""

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

TS = "2026-11-30T12:00:00+00:00"


def at(thread: Any, checkpoint: str | None = None, ns: str | None = "", **more: Any) -> dict:
    """A configuration; ``ns=None`` leaves the namespace out."""
    named = {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint, **more}
    return {"configurable": {key: value for key, value in named.items() if value is not None}}


_steps = iter(range(10_000_000))


def checkpoint(values: dict | None = None, versions: dict | None = None, **more: Any) -> dict:
    """A checkpoint whose channels all have version 1, unless ``versions`` says otherwise."""
    given = values or {}
    return {
        "v": 4,
        "id": str(uuid6(clock_seq=next(_steps) % 16_000)),
        "ts": TS,
        "channel_values": given,
        "channel_versions": versions or dict.fromkeys(given, 1),
        "versions_seen": {},
        "updated_channels": None,
        **more,
    }


def put(saver: Any, config: dict, values: dict | None = None, metadata: dict | None = None) -> dict:
    """One checkpoint with new values of all its channels; where it is."""
    made = checkpoint(values)
    return saver.put(
        config, made, {"source": "loop", "step": 0, **(metadata or {})}, made["channel_versions"]
    )


def chain(saver: Any, thread: str, states: list[dict], ns: str = "", metadata: dict | None = None) -> list:
    """Checkpoints, each the child of the one before, every channel new in each."""
    placed = []
    config = at(thread, ns=ns)
    for step, values in enumerate(states):
        made = checkpoint(values, dict.fromkeys(values, step + 1))
        config = saver.put(
            config, made, {"source": "loop", "step": step, **(metadata or {})}, made["channel_versions"]
        )
        placed.append(config)
    return placed


def values_of(saver: Any, config: dict) -> dict | None:
    """What the channels of a checkpoint hold; None when there is none."""
    found = saver.get_tuple(config)
    return None if found is None else found.checkpoint["channel_values"]


def listed(saver: Any, config: dict | None, **how: Any) -> list[str]:
    """The ids of what ``list`` finds."""
    return [found.checkpoint["id"] for found in saver.list(config, **how)]


def id_of(config: dict) -> str:
    return config["configurable"]["checkpoint_id"]


class Talk(TypedDict, total=False):
    messages: Annotated[list, add_messages]
    notes: Annotated[list, operator.add]


def talking(saver: Any, answer: Any = None) -> Any:
    """A conversation: each turn the model answers."""

    def model(state: Talk) -> Talk:
        said = state["messages"][-1].content
        return {"messages": [AIMessage(answer(said) if answer else f"you said {said}")], "notes": [said]}

    graph = StateGraph(Talk).add_node("model", model)
    return graph.add_edge(START, "model").add_edge("model", END).compile(checkpointer=saver)
