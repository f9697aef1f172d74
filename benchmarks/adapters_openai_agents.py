"""The session of the OpenAI Agents SDK: items added one by one, a conversation taken up again, the bytes."""

import asyncio
import secrets
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Protocol

from benchmarks import peers
from benchmarks.engines import Synchronous, forced_synchronous
from benchmarks.measure import Bench, Reading, Row
from benchmarks.peers import Aim, Figure, Peer

_CONVERSATIONS = 4
_WARM_UP_ITEMS = 40
_AT_ONCE, _TURNS = 10, 40
_DAY_SECONDS = 86_400
_ENCRYPTED = "OpenAI EncryptedSession"
_TARGET = 3.0
_FIGURES = (
    Figure(name="per_second", label="add one item", unit="items/s"),
    Figure(name="p50_us", label="p50", unit="µs"),
    Figure(name="p99_us", label="p99", unit="µs"),
    Figure(name="of_turns", label="ten at once", unit="items/s"),
    Figure(name="again_ms", label=f"last {peers.LAST}", unit="ms"),
    Figure(name="reopen_ms", label=f"open, last {peers.LAST}", unit="ms"),
    Figure(name="mb", label="disk", unit="MB"),
    Figure(name="times", label="disk / data", unit="x"),
)


class _Store(Protocol):
    """What holds the conversations."""

    def session(self, number: int) -> Any:
        """A new object for a conversation, as each request makes one."""

    def close(self) -> None: ...


class _Own:
    """The SDK's `SQLiteSession`, each conversation in the same file; in its `EncryptedSession` with a key."""

    def __init__(self, folder: Path, mode: Synchronous, key: str | None) -> None:
        self._forced = ExitStack()
        self._forced.enter_context(forced_synchronous(mode))
        self._path, self._key = folder / "openai.db", key
        self._made: list[Any] = []

    def session(self, number: int) -> Any:
        from agents.memory import SQLiteSession

        session = SQLiteSession(f"conversation-{number}", self._path)
        self._made.append(session)
        if self._key is None:
            return session
        from agents.extensions.memory import EncryptedSession

        # Its default life of 600 s would be another promise: nothing is to vanish while this runs.
        return EncryptedSession(session.session_id, session, self._key, ttl=_DAY_SECONDS)

    def close(self) -> None:
        for session in self._made:
            session.close()
        self._forced.close()


class _Ours:
    """`VaultSession`."""

    def __init__(self, folder: Path, mode: Synchronous) -> None:
        self._vault, self._access = peers.a_vault(folder, mode)

    def session(self, number: int) -> Any:
        from vault.adapters.openai_agents import VaultSession

        return VaultSession(f"conversation-{number}", self._access)

    def close(self) -> None:
        self._vault.close()


def openai_agents(bench: Bench, mode: Synchronous) -> Row:
    """Items one by one, two to each of four conversations in turn, then ten at once; in one event loop."""
    count = (640 if bench.quick else 3_040) + _AT_ONCE * _TURNS
    rounds = [peers.messages(bench.workload.take(count)) for _ in range(bench.rounds)]

    def run(opened: Any, folder: Path, number: int) -> Reading:
        return asyncio.run(_talked(partial(opened, folder, mode), rounds[number], folder))

    def encrypted(folder: Path, number: int) -> Reading:
        return run(partial(_Own, key=secrets.token_urlsafe(32)), folder, number)

    return peers.compare(
        bench,
        name=f"openai-agents-{mode.lower()}",
        title=f"OpenAI Agents SDK, synchronous {mode}",
        peers=(
            Peer(
                name="OpenAI SQLiteSession", requires=("agents",), run=partial(run, partial(_Own, key=None))
            ),
            Peer(
                name=_ENCRYPTED,
                requires=("agents", "agents.extensions.memory.encrypt_session"),
                run=encrypted,
            ),
            Peer(
                name=peers.OURS, requires=("agents", "vault.adapters.openai_agents"), run=partial(run, _Ours)
            ),
        ),
        figures=_FIGURES,
        aims=(Aim(figure="per_second", label="add one item", bound="≥", target=_TARGET, peer=_ENCRYPTED),),
    )


async def _talked(opened: Any, items: list[dict[str, str]], folder: Path) -> Reading:
    store: _Store = opened()
    sessions = [store.session(number) for number in range(_CONVERSATIONS)]
    alone = len(items) - _AT_ONCE * _TURNS
    spent = []
    for number, item in enumerate(items[:alone]):
        session = sessions[number // 2 % _CONVERSATIONS]
        before = perf_counter_ns()
        await session.add_items([item])
        spent.append(perf_counter_ns() - before)
    before = perf_counter_ns()
    for number in range(_TURNS):
        start = alone + number * _AT_ONCE
        await sessions[number % _CONVERSATIONS].add_items(items[start : start + _AT_ONCE])
    at_once = perf_counter_ns() - before
    again = await peers.median_ms_of(lambda: _last(store))
    store.close()
    before = perf_counter_ns()
    store = opened()
    await _last(store)
    reopened = (perf_counter_ns() - before) / 1e6
    store.close()
    return {
        **peers.pace(spent[_WARM_UP_ITEMS:]),
        "of_turns": _AT_ONCE * _TURNS / (at_once / 1e9),
        "again_ms": again,
        "reopen_ms": reopened,
        **peers.stored(folder, peers.json_bytes(items)),
    }


async def _last(store: _Store) -> None:
    came = await store.session(0).get_items(limit=peers.LAST)
    if len(came) != peers.LAST:
        raise RuntimeError("a read came back short")
