"""The session store of the Claude Agent SDK, beside the SDK's own, which keeps all in memory and is no rival.

The SDK has no store that lasts, so nothing here is held against a target.
"""

import asyncio
import uuid
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from benchmarks import peers
from benchmarks.measure import Bench, Reading, Row
from benchmarks.peers import Figure, Peer

_CONVERSATIONS = 4
_WARM_UP_ENTRIES = 20
_FIGURES = (
    Figure(name="per_second", label="append one entry", unit="entries/s"),
    Figure(name="p50_us", label="p50", unit="µs"),
    Figure(name="p99_us", label="p99", unit="µs"),
    Figure(name="load_ms", label="load", unit="ms"),
)


def claude_agent(bench: Bench) -> Row:
    """Entries appended one by one, two to each of four conversations in turn; then one is loaded."""
    count = 424 if bench.quick else 2_024
    rounds = [_entries(peers.messages(bench.workload.take(count))) for _ in range(bench.rounds)]

    def in_memory(_folder: Path, number: int) -> Reading:
        from claude_agent_sdk import InMemorySessionStore

        return asyncio.run(_talked(InMemorySessionStore(), rounds[number]))

    def ours(folder: Path, number: int) -> Reading:
        from vault.adapters.claude_agent import VaultSessionStore

        vault, access = peers.a_vault(folder, "NORMAL")
        with vault:
            return asyncio.run(_talked(VaultSessionStore(access), rounds[number]))

    return peers.compare(
        bench,
        name="claude-agent",
        title="Claude Agent SDK, synchronous NORMAL",
        peers=(
            Peer(name="InMemorySessionStore", requires=("claude_agent_sdk",), run=in_memory),
            Peer(name=peers.OURS, requires=("claude_agent_sdk", "vault.adapters.claude_agent"), run=ours),
        ),
        figures=_FIGURES,
    )


def _entries(items: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {
            "type": item["role"],
            "uuid": str(uuid.uuid4()),
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": item,
        }
        for item in items
    ]


async def _talked(store: Any, entries: list[dict[str, Any]]) -> Reading:
    keys = [{"project_key": "bench", "session_id": str(uuid.uuid4())} for _ in range(_CONVERSATIONS)]
    spent = []
    for number, entry in enumerate(entries):
        key = keys[number // 2 % _CONVERSATIONS]
        before = perf_counter_ns()
        await store.append(key, [entry])
        spent.append(perf_counter_ns() - before)
    load = partial(store.load, keys[0])
    if len(await load()) != len(entries) // _CONVERSATIONS:
        raise RuntimeError("a read came back short")
    return {**peers.pace(spent[_WARM_UP_ENTRIES:]), "load_ms": await peers.median_ms_of(load, 5)}
