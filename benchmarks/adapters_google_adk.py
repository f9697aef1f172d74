"""The session service of Google ADK: one event appended at a time, a session read again, the bytes."""

import asyncio
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from benchmarks import peers
from benchmarks.engines import Synchronous, forced_synchronous
from benchmarks.measure import Bench, Reading, Row
from benchmarks.peers import Aim, Figure, Peer

_APP, _USER = "bench", "alice"
_SESSIONS = 2
_WARM_UP_EVENTS = 20
_DATABASE = "ADK DatabaseSessionService"
_TARGET = 10.0
_FIGURES = (
    Figure(name="per_second", label="append_event", unit="events/s"),
    Figure(name="p50_us", label="p50", unit="µs"),
    Figure(name="p99_us", label="p99", unit="µs"),
    Figure(name="again_ms", label=f"last {peers.LAST}", unit="ms"),
    Figure(name="reopen_ms", label=f"open, last {peers.LAST}", unit="ms"),
    Figure(name="mb", label="disk", unit="MB"),
    Figure(name="times", label="disk / data", unit="x"),
)


class _Own:
    """One of ADK's services, in the journal mode that it chooses itself."""

    def __init__(self, folder: Path, mode: Synchronous, kind: str) -> None:
        self._forced = ExitStack()
        self._forced.enter_context(forced_synchronous(mode))
        path = folder / "adk.db"
        if kind == "database":
            from google.adk.sessions import DatabaseSessionService

            self.service: Any = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
        else:
            from google.adk.sessions.sqlite_session_service import SqliteSessionService

            self.service = SqliteSessionService(str(path))

    async def close(self) -> None:
        await self.service.close()
        self._forced.close()


class _Ours:
    """`VaultSessionService`."""

    def __init__(self, folder: Path, mode: Synchronous) -> None:
        from vault.adapters.google_adk import VaultSessionService

        self._vault, access = peers.a_vault(folder, mode)
        self.service: Any = VaultSessionService(access)

    async def close(self) -> None:
        self._vault.close()


def google_adk(bench: Bench, mode: Synchronous) -> Row:
    """Events of one text each, two of an invocation, two sessions of one user in turn, in one event loop."""
    count = 260 if bench.quick else 820
    rounds = [peers.messages(bench.workload.take(count)) for _ in range(bench.rounds)]

    def run(opened: Any, folder: Path, number: int) -> Reading:
        return asyncio.run(_talked(partial(opened, folder, mode), rounds[number], folder))

    return peers.compare(
        bench,
        name=f"google-adk-{mode.lower()}",
        title=f"Google ADK, synchronous {mode}",
        peers=(
            Peer(
                name=_DATABASE,
                requires=("google.adk.sessions.database_session_service", "aiosqlite"),
                run=partial(run, partial(_Own, kind="database")),
            ),
            Peer(
                name="ADK SqliteSessionService",
                requires=("google.adk.sessions.sqlite_session_service",),
                run=partial(run, partial(_Own, kind="sqlite")),
            ),
            Peer(
                name=peers.OURS, requires=("google.adk", "vault.adapters.google_adk"), run=partial(run, _Ours)
            ),
        ),
        figures=_FIGURES,
        aims=(Aim(figure="per_second", label="append_event", bound="≥", target=_TARGET, peer=_DATABASE),),
    )


async def _talked(opened: Any, items: list[dict[str, str]], folder: Path) -> Reading:
    events = [_event(item, number) for number, item in enumerate(items)]
    store = opened()
    sessions = [
        await store.service.create_session(app_name=_APP, user_id=_USER, session_id=f"session-{number}")
        for number in range(_SESSIONS)
    ]
    spent = []
    for number, event in enumerate(events):
        session = sessions[number // 2 % _SESSIONS]
        before = perf_counter_ns()
        await store.service.append_event(session, event)
        spent.append(perf_counter_ns() - before)
    again = await peers.median_ms_of(lambda: _last(store.service), 9)
    await store.close()
    before = perf_counter_ns()
    store = opened()
    await _last(store.service)
    reopened = (perf_counter_ns() - before) / 1e6
    await store.close()
    return {
        **peers.pace(spent[_WARM_UP_EVENTS:]),
        "again_ms": again,
        "reopen_ms": reopened,
        **peers.stored(folder, peers.json_bytes(items)),
    }


def _event(item: dict[str, str], number: int) -> Any:
    from google.adk.events.event import Event
    from google.genai.types import Content, Part

    role = "user" if item["role"] == "user" else "model"
    content = Content(role=role, parts=[Part(text=item["content"])])
    return Event(author=role, invocation_id=f"invocation-{number // 2}", content=content)


async def _last(service: Any) -> None:
    from google.adk.sessions.base_session_service import GetSessionConfig

    found = await service.get_session(
        app_name=_APP,
        user_id=_USER,
        session_id="session-0",
        config=GetSessionConfig(num_recent_events=peers.LAST),
    )
    if len(found.events) != peers.LAST:
        raise RuntimeError("a read came back short")
