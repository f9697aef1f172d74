"""What the tests of LangGraph's store share: a clock that they move, an embedder, and graphs that put."""

from collections.abc import Callable
from typing import Any, TypedDict

from langgraph.config import get_store
from langgraph.graph import START, StateGraph

from vault.adapters.binding import Binding
from vault.adapters.langgraph_store import VaultStore

MINUTE_US = 60_000_000


class MovedClock:
    """Stands still until it is moved."""

    def __init__(self, now_us: int = 1_800_000_000_000_000) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def move(self, minutes: float) -> None:
        self._now_us += round(minutes * MINUTE_US)


#: What each dimension of an embedding counts.
WORDS = ("tea", "coffee", "rain", "sun")


def counted(texts):
    """One number for each word: how often it is in the text."""
    return [[float(text.count(word)) for word in WORDS] for text in texts]


class State(TypedDict, total=False):
    said: str


def graph_of(store: VaultStore, work: Callable[[Any, str], Any], **compiled: Any) -> Any:
    """A graph of one node, which does ``work`` with the store and what was said."""

    def node(state: State) -> State:
        work(get_store(), state["said"])
        return {}

    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile(store=store, **compiled)


def run_of(thread: str) -> dict:
    return {"configurable": {"thread_id": thread}}


def remember(store, said):
    """What a node does: it puts what was said."""
    store.put(("users", "alice"), "said", {"text": said})


def erase_thread(access, thread):
    return Binding(access, "langgraph").erase("thread", thread)
