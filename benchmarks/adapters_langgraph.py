"""LangGraph's checkpointer: puts of a state that grows, and what they leave on the disk.

Each turn is one message and one put, as a graph makes one for the question and one for the answer. No writes
of tasks are put, and the channel is the usual one that holds the whole list.
"""

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.engines import Synchronous, forced_synchronous
from benchmarks.measure import Bench, Reading, Row
from benchmarks.peers import Aim, Figure, Peer

_TURNS = 200
_LATEST = 50
_CONSTANT_BYTES = 50 * 1024
_THREAD = {"configurable": {"thread_id": "thread", "checkpoint_ns": ""}}
_ENCRYPTED = "LangGraph Encrypted"
_FASTER_TARGET, _SMALLER_TARGET, _OF_DATA_TARGET = 5.0, 50.0, 3.0
_FIGURES = (
    Figure(name="latest", label=f"last {_LATEST} puts", unit="puts/s"),
    Figure(name="latest_ms", label="p50 of these", unit="ms"),
    Figure(name="per_second", label="all", unit="puts/s"),
    Figure(name="get_ms", label="get_tuple", unit="ms"),
    Figure(name="reopen_ms", label="open, get_tuple", unit="ms"),
    Figure(name="mb", label="disk", unit="MB"),
    Figure(name="times", label="disk / data", unit="x"),
)


@contextmanager
def _own(folder: Path, mode: Synchronous, key: bytes | None) -> Iterator[Any]:
    """`SqliteSaver`; with a key, and its `EncryptedSerializer` as it comes (AES-EAX)."""
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver

    serializer = EncryptedSerializer.from_pycryptodome_aes(key=key) if key else None
    with forced_synchronous(mode):
        connection = sqlite3.connect(folder / "langgraph.db", check_same_thread=False)
    try:
        yield SqliteSaver(connection, serde=serializer)
    finally:
        connection.close()


@contextmanager
def _ours(folder: Path, mode: Synchronous) -> Iterator[Any]:
    """`VaultSaver`."""
    from vault.adapters.langgraph import VaultSaver

    vault, access = peers.a_vault(folder, mode)
    with vault:
        yield VaultSaver(access)


class _Thread:
    """One thread, whose every checkpoint is the child of the one before."""

    def __init__(self, saver: Any) -> None:
        from langgraph.checkpoint.base.id import uuid6

        self._saver, self._new_id = saver, uuid6
        self._config: Any = _THREAD
        self._step, self._versions = 0, dict[str, Any]()

    def put(self, state: dict[str, Any], changed: tuple[str, ...]) -> int:
        """Put a state; return how many nanoseconds that took."""
        new = {one: self._saver.get_next_version(self._versions.get(one), None) for one in changed}
        self._versions = {**self._versions, **new}
        checkpoint = {
            "v": 4,
            "id": str(self._new_id(clock_seq=self._step % 16_000)),
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": state,
            "channel_versions": self._versions,
            "versions_seen": {"model": dict(self._versions)},
            "updated_channels": list(changed),
        }
        about = {"source": "loop", "step": self._step, "parents": {}}
        self._step += 1

        def put() -> None:
            self._config = self._saver.put(self._config, checkpoint, about, new)

        return peers.took_ns(put)


def langgraph(bench: Bench, mode: Synchronous) -> Row:
    """A conversation of 200 turns; before each the state is read, as a graph that is invoked again does."""
    rounds = [peers.messages(bench.workload.take(_TURNS)) for _ in range(bench.rounds)]

    def run(opened: Any, folder: Path, number: int) -> Reading:
        return _talked(partial(opened, folder, mode), rounds[number], folder)

    return peers.compare(
        bench,
        name=f"langgraph-{mode.lower()}",
        title=f"LangGraph, a list that grows over {_TURNS} turns, synchronous {mode}",
        peers=_peers(run),
        figures=_FIGURES,
        aims=(
            Aim(
                figure="latest",
                label=f"put at {_TURNS} turns",
                bound="≥",
                target=_FASTER_TARGET,
                peer=_ENCRYPTED,
            ),
            Aim(
                figure="mb",
                label="disk",
                bound="≥",
                target=_SMALLER_TARGET,
                peer=_ENCRYPTED,
                theirs_over_ours=True,
            ),
        ),
    )


def langgraph_disk(bench: Bench) -> Row:
    """A long list that grows, over many puts: what is on the disk for each byte of it."""
    puts = 300 if bench.quick else 1_000
    items = peers.messages(bench.workload.take(puts))
    return peers.compare(
        bench,
        name="langgraph-disk",
        title=f"LangGraph, {puts:,} puts of a list that grows",
        peers=_peers(partial(_grown, items=items, constant="")),
        figures=(
            Figure(name="times", label="disk / data", unit="x"),
            Figure(name="mb", label="disk", unit="MB"),
            Figure(name="seconds", label="all puts", unit="s"),
        ),
        aims=(Aim(figure="times", label="disk / data", bound="≤", target=_OF_DATA_TARGET),),
        rounds=1,  # the same puts leave the same bytes
    )


def langgraph_constant(bench: Bench) -> Row:
    """A list that grows beside a channel of 50 KB that never changes, 100 turns."""
    items = peers.messages(bench.workload.take(100))
    (sample,) = next(bench.workload.batches(1, 1))
    text = sample.payload["content"] * (_CONSTANT_BYTES // len(sample.payload["content"]) + 1)
    return peers.compare(
        bench,
        name="langgraph-constant",
        title=f"LangGraph, {len(items)} turns beside a channel of 50 KB that stays",
        peers=_peers(partial(_grown, items=items, constant=text[:_CONSTANT_BYTES])),
        figures=(
            Figure(name="times", label="disk / data", unit="x"),
            Figure(name="mb", label="disk", unit="MB"),
            Figure(name="seconds", label="all puts", unit="s"),
        ),
        rounds=1,
    )


def _peers(run: Any) -> tuple[Peer, ...]:
    def encrypted(folder: Path, number: int) -> Reading:
        reading: Reading = run(partial(_own, key=secrets.token_bytes(32)), folder, number)
        return reading

    return (
        Peer(
            name="LangGraph SqliteSaver",
            requires=("langgraph.checkpoint.sqlite", "langchain_core.messages"),
            run=partial(run, partial(_own, key=None)),
        ),
        Peer(name=_ENCRYPTED, requires=("langgraph.checkpoint.sqlite", "Crypto.Cipher.AES"), run=encrypted),
        Peer(name=peers.OURS, requires=("langgraph", "vault.adapters.langgraph"), run=partial(run, _ours)),
    )


def _talked(opened: Any, items: list[dict[str, str]], folder: Path) -> Reading:
    spent, reads = [], []

    def read(saver: Any) -> list[Any]:
        found = saver.get_tuple(_THREAD)
        return found.checkpoint["channel_values"]["messages"] if found else []

    with opened() as saver:
        thread, state = _Thread(saver), list[Any]()
        for message in _made(items):

            def look() -> None:
                state[:] = read(saver)

            reads.append(peers.took_ns(look))
            spent.append(thread.put({"messages": [*state, message]}, ("messages",)))
        if len(read(saver)) != len(items):
            raise RuntimeError("a read came back short")

    def reopen() -> None:
        with opened() as saver:
            read(saver)

    reopened = peers.took_ns(reopen)
    latest = sorted(spent[-_LATEST:])
    return {
        "latest": _LATEST / (sum(latest) / 1e9),
        "latest_ms": latest[_LATEST // 2] / 1e6,
        "per_second": len(spent) / (sum(spent) / 1e9),
        "get_ms": sorted(reads[-_LATEST:])[_LATEST // 2] / 1e6,
        "reopen_ms": reopened / 1e6,
        **peers.stored(folder, peers.json_bytes(items)),
    }


def _grown(opened: Any, folder: Path, _number: int, *, items: list[dict[str, str]], constant: str) -> Reading:
    with opened(folder, "NORMAL") as saver:
        thread, state = _Thread(saver), dict[str, Any](messages=[])
        changed: tuple[str, ...] = ("messages",)
        if constant:
            state["constant"], changed = constant, ("messages", "constant")
        spent = 0
        for message in _made(items):
            state = {**state, "messages": [*state["messages"], message]}
            spent += thread.put(state, changed)
            changed = ("messages",)
    given = peers.json_bytes(items) + len(constant)
    return {"seconds": spent / 1e9, **peers.stored(folder, given)}


def _made(items: list[dict[str, str]]) -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage

    kinds = {"user": HumanMessage, "assistant": AIMessage}
    return [kinds[item["role"]](item["content"], id=secrets.token_hex(16)) for item in items]
