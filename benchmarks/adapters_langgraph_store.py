"""LangGraph's long-term store: items put, got and searched, as a node of a running thread does it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.engines import Synchronous, forced_synchronous
from benchmarks.measure import Bench, Reading, Row
from benchmarks.peers import Figure, Peer

_NAMESPACES = 10
_WARM_UP_ITEMS = 20
_TEXT_MAX = 400
_FOUND = 10
_FIGURES = (
    Figure(name="per_second", label="put", unit="puts/s"),
    Figure(name="p50_us", label="p50", unit="µs"),
    Figure(name="get_us", label="get", unit="µs"),
    Figure(name="search_ms", label="search", unit="ms"),
    Figure(name="after_put_ms", label="search after a put", unit="ms"),
    Figure(name="reopen_ms", label="open, search", unit="ms"),
    Figure(name="mb", label="disk", unit="MB"),
    Figure(name="times", label="disk / data", unit="x"),
)


@contextmanager
def _own(folder: Path, mode: Synchronous) -> Iterator[Any]:
    """`SqliteStore`, without an index."""
    from langgraph.store.sqlite import SqliteStore

    with forced_synchronous(mode), SqliteStore.from_conn_string(str(folder / "store.db")) as store:
        store.setup()
        yield store


@contextmanager
def _ours(folder: Path, mode: Synchronous) -> Iterator[Any]:
    """`VaultStore`, without an index."""
    from vault.adapters.langgraph_store import VaultStore

    vault, access = peers.a_vault(folder, mode)
    with vault:
        yield VaultStore(access)


def langgraph_store(bench: Bench) -> Row:
    """Short items in ten namespaces; a search filters by a field that one in seven has, and takes ten."""
    items = 300 if bench.quick else 1_000

    def drawn() -> list[dict[str, Any]]:
        samples = bench.workload.take(items)
        return [
            {"text": one.payload["content"][:_TEXT_MAX], "topic": number % 7}
            for number, one in enumerate(samples)
        ]

    rounds = [drawn() for _ in range(bench.rounds)]

    def run(opened: Any, folder: Path, number: int) -> Reading:
        with _in_a_thread():
            return _kept(partial(opened, folder, "NORMAL"), rounds[number], folder)

    return peers.compare(
        bench,
        name="langgraph-store",
        title=f"LangGraph's store, {items:,} items, synchronous NORMAL",
        peers=(
            Peer(name="LangGraph SqliteStore", requires=("langgraph.store.sqlite",), run=partial(run, _own)),
            Peer(
                name=peers.OURS,
                requires=("langgraph", "vault.adapters.langgraph_store"),
                run=partial(run, _ours),
            ),
        ),
        figures=_FIGURES,
    )


@contextmanager
def _in_a_thread() -> Iterator[None]:
    """What a node sees while a thread of LangGraph runs."""
    from langchain_core.runnables.config import var_child_runnable_config

    before = var_child_runnable_config.set({"configurable": {"thread_id": "thread"}})
    try:
        yield
    finally:
        var_child_runnable_config.reset(before)


def _kept(opened: Any, values: list[dict[str, Any]], folder: Path) -> Reading:
    names = [(("users", str(number % _NAMESPACES)), f"item-{number}") for number in range(len(values))]
    more = count()

    def search(store: Any) -> None:
        if len(store.search(("users",), filter={"topic": 3}, limit=_FOUND)) != _FOUND:
            raise RuntimeError("a search came back short")

    with opened() as store:
        spent = [
            peers.took_ns(partial(store.put, namespace, key, value))
            for (namespace, key), value in zip(names, values, strict=True)
        ]
        gets = sorted(peers.took_ns(partial(store.get, *name)) for name in names[::3])
        search(store)
        searched = peers.median_ms(partial(search, store))
        after = []
        for _ in range(5):
            store.put(("users", "0"), f"more-{next(more)}", {"text": "more", "topic": 1})
            after.append(peers.took_ns(partial(search, store)) / 1e6)

    def reopen() -> None:
        with opened() as store:
            search(store)

    reopened = peers.took_ns(reopen)
    return {
        **peers.pace(spent[_WARM_UP_ITEMS:]),
        "get_us": gets[len(gets) // 2] / 1e3,
        "search_ms": searched,
        "after_put_ms": sorted(after)[2],
        "reopen_ms": reopened / 1e6,
        **peers.stored(folder, peers.json_bytes(values)),
    }
