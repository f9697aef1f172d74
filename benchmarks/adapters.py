"""The rows of the adapters: each framework's own stores, plain or encrypted, and ours, on the same work."""

from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.adapters_claude_agent import claude_agent
from benchmarks.adapters_google_adk import google_adk
from benchmarks.adapters_langgraph import langgraph, langgraph_constant, langgraph_disk
from benchmarks.adapters_langgraph_store import langgraph_store
from benchmarks.adapters_openai_agents import openai_agents
from benchmarks.measure import Bench, Row

ADAPTER_ROWS: Mapping[str, Callable[[Bench], Row]] = {
    "openai-agents-full": partial(openai_agents, mode="FULL"),
    "openai-agents-normal": partial(openai_agents, mode="NORMAL"),
    "langgraph-full": partial(langgraph, mode="FULL"),
    "langgraph-normal": partial(langgraph, mode="NORMAL"),
    "langgraph-constant": langgraph_constant,
    "langgraph-disk": langgraph_disk,
    "langgraph-store": langgraph_store,
    "google-adk-full": partial(google_adk, mode="FULL"),
    "google-adk-normal": partial(google_adk, mode="NORMAL"),
    "claude-agent": claude_agent,
}
