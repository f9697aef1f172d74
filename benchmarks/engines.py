"""Every store that is measured, behind the same few calls.

Third-party stores run with their own defaults, except the SQLite synchronous mode, which is set on each
connection as it is opened so that all engines promise the same durability.
"""

import asyncio
import contextlib
import importlib
import secrets
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Literal

import orjson

from benchmarks.workload import Sample

Synchronous = Literal["FULL", "NORMAL"]
_LEVELS = {"NORMAL": 1, "FULL": 2}
_DAY_SECONDS = 86_400


class Engine(ABC):
    """A store opened in a directory, holding a number of sessions named by their index."""

    name: ClassVar[str]
    requires: ClassVar[tuple[str, ...]] = ()
    has_batches: ClassVar[bool] = True

    @abstractmethod
    def __init__(self, directory: Path, synchronous: Synchronous, sessions: int) -> None:
        """Make the store, or open the one that is there."""

    @abstractmethod
    def append(self, session: int, sample: Sample) -> None:
        """Store one event in its own commit."""

    def append_batch(self, session: int, samples: list[Sample]) -> None:
        """Store events of one session in one commit."""
        raise NotImplementedError

    def last(self, session: int, count: int) -> int:
        """Read and decode the newest `count` events of a session; return how many came."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None:
        """Close as a process that ends does."""


def missing(engine: type[Engine]) -> str | None:
    """Return why an engine cannot run here, or None."""
    for name in engine.requires:
        module, _, attribute = name.partition(":")
        try:
            found = importlib.import_module(module)
        except ImportError:
            return f"{module} is not installed"
        if attribute and not hasattr(found, attribute):
            return f"{module} has no {attribute} yet"
    return None


def versions() -> dict[str, str]:
    """Return the versions of everything that is measured and of what it stands on."""
    names = (
        "agent-session-vault", "cryptography", "orjson", "zstandard", "openai-agents", "langgraph-checkpoint",
        "langgraph-checkpoint-sqlite", "pycryptodome", "langgraph", "google-adk", "aiosqlite", "sqlalchemy",
        "claude-agent-sdk",
    )  # fmt: skip
    found = {}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@contextlib.contextmanager
def forced_synchronous(mode: Synchronous) -> Iterator[None]:
    """Open every sqlite3 connection with this synchronous mode, whoever opens it."""
    genuine = sqlite3.connect

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = genuine(*arguments, **options)
        connection.execute(f"PRAGMA synchronous={mode}")
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
        if level != _LEVELS[mode]:
            raise RuntimeError("the synchronous mode was not taken")
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]
    try:
        yield
    finally:
        sqlite3.connect = genuine


class PlainSqlite(Engine):
    """The yardstick: one table of plain JSON in SQLite, WAL, one prepared statement per event."""

    name = "plain sqlite3"
    _INSERT = "INSERT INTO events (session, seq, type, payload) VALUES (?, ?, ?, ?)"

    def __init__(self, directory: Path, synchronous: Synchronous, sessions: int) -> None:
        self._connection = sqlite3.connect(directory / "plain.db", isolation_level=None, timeout=30)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={synchronous}")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, session TEXT NOT NULL,"
            " seq INTEGER NOT NULL, type TEXT NOT NULL, payload BLOB NOT NULL)"
        )
        self._connection.execute(
            "CREATE UNIQUE INDEX IF NOT EXISTS events_by_session ON events (session, seq)"
        )
        self._sessions = [f"session-{number}" for number in range(sessions)]
        self._seq = [0] * sessions

    def append(self, session: int, sample: Sample) -> None:
        self._seq[session] += 1
        row = (self._sessions[session], self._seq[session], sample.type, orjson.dumps(sample.payload))
        self._connection.execute(self._INSERT, row)

    def append_batch(self, session: int, samples: list[Sample]) -> None:
        name, first = self._sessions[session], self._seq[session] + 1
        rows = [(name, seq, one.type, orjson.dumps(one.payload)) for seq, one in enumerate(samples, first)]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(self._INSERT, rows)
        self._connection.execute("COMMIT")
        self._seq[session] += len(samples)

    def last(self, session: int, count: int) -> int:
        rows = self._connection.execute(
            "SELECT seq, type, payload FROM events WHERE session = ? ORDER BY seq DESC LIMIT ?",
            (self._sessions[session], count),
        )
        return len([(seq, kind, orjson.loads(payload)) for seq, kind, payload in rows])

    def close(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


class VaultEngine(Engine):
    """The product: `Session.append`, `Session.append_many` and `Session.events`, with default settings."""

    name = "vault"
    requires = ("vault:Vault",)

    def __init__(self, directory: Path, synchronous: Synchronous, sessions: int) -> None:
        vault = importlib.import_module("vault")
        self._new_event = vault.NewEvent
        path = directory / "bench.vault"
        if path.exists():
            self._vault = vault.Vault.open(path)
        else:
            self._vault = vault.Vault.create(path, settings={"synchronous": synchronous})
        principal = vault.Principal(tenant="acme", subject="alice", roles=frozenset({"agent"}))
        self._access = self._vault.access(principal)
        self._sessions = [self._access.sessions.create() for _ in range(sessions)]

    def append(self, session: int, sample: Sample) -> None:
        self._sessions[session].append(sample.type, sample.payload)

    def append_batch(self, session: int, samples: list[Sample]) -> None:
        new = self._new_event
        self._sessions[session].append_many([new(type=one.type, payload=one.payload) for one in samples])

    def last(self, session: int, count: int) -> int:
        return len(list(self._sessions[session].events(newest_first=True, limit=count)))

    def resume_and_last(self, session: int, count: int) -> int:
        """Find the session again by its id first, as a process that takes it up does."""
        resumed = self._access.sessions.resume(self._sessions[session].id)
        return len(list(resumed.events(newest_first=True, limit=count)))

    def close(self) -> None:
        self._vault.close()


class OpenAISession(Engine):
    """OpenAI Agents SDK `SQLiteSession`, called from one event loop as an agent calls it."""

    name = "OpenAI SQLiteSession"
    requires: ClassVar[tuple[str, ...]] = ("agents",)

    def __init__(self, directory: Path, synchronous: Synchronous, sessions: int) -> None:
        self._forced = contextlib.ExitStack()
        self._forced.enter_context(forced_synchronous(synchronous))
        self._runner = asyncio.Runner()
        self._run: Callable[[Any], Any] = self._runner.get_loop().run_until_complete
        memory = importlib.import_module("agents.memory")
        path = directory / "openai.db"
        self._stores = [memory.SQLiteSession(f"session-{number}", path) for number in range(sessions)]
        self._sessions = [self._wrap(store) for store in self._stores]

    def _wrap(self, store: Any) -> Any:
        return store

    def append(self, session: int, sample: Sample) -> None:
        self._run(self._sessions[session].add_items([sample.payload]))

    def append_batch(self, session: int, samples: list[Sample]) -> None:
        self._run(self._sessions[session].add_items([one.payload for one in samples]))

    def last(self, session: int, count: int) -> int:
        return len(self._run(self._sessions[session].get_items(limit=count)))

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self._runner.close()
        self._forced.close()


class OpenAIEncryptedSession(OpenAISession):
    """OpenAI Agents SDK `EncryptedSession` (Fernet) over its `SQLiteSession`."""

    name = "OpenAI EncryptedSession"
    requires = ("agents", "agents.extensions.memory.encrypt_session")

    def _wrap(self, store: Any) -> Any:
        extension = importlib.import_module("agents.extensions.memory.encrypt_session")
        # The default life of 600 s would make old items vanish from the reads below.
        return extension.EncryptedSession(
            store.session_id, store, secrets.token_urlsafe(32), ttl=_DAY_SECONDS
        )


class LangGraphSaver(Engine):
    """LangGraph `SqliteSaver.put` of a tiny state that holds the newest event alone."""

    name = "LangGraph SqliteSaver"
    requires: ClassVar[tuple[str, ...]] = ("langgraph.checkpoint.sqlite",)
    has_batches = False

    def __init__(self, directory: Path, synchronous: Synchronous, sessions: int) -> None:
        module = importlib.import_module("langgraph.checkpoint.sqlite")
        self._new_id = importlib.import_module("langgraph.checkpoint.base.id").uuid6
        with forced_synchronous(synchronous):
            self._connection = sqlite3.connect(directory / "langgraph.db", check_same_thread=False)
        self._saver = module.SqliteSaver(self._connection, serde=self._serializer())
        self._saver.setup()
        self._configs: list[Any] = [
            {"configurable": {"thread_id": f"session-{number}", "checkpoint_ns": ""}}
            for number in range(sessions)
        ]
        self._steps = [0] * sessions

    def _serializer(self) -> Any:
        return None

    def append(self, session: int, sample: Sample) -> None:
        self._steps[session] = step = self._steps[session] + 1
        checkpoint = {
            "v": 4,
            "id": str(self._new_id(clock_seq=step)),
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": {"event": sample.payload},
            "channel_versions": {"event": step},
            "versions_seen": {},
            "updated_channels": ["event"],
        }
        about = {"source": "loop", "step": step, "parents": {}}
        self._configs[session] = self._saver.put(self._configs[session], checkpoint, about, {"event": step})

    def close(self) -> None:
        self._connection.close()


class LangGraphEncryptedSaver(LangGraphSaver):
    """LangGraph `SqliteSaver` with its `EncryptedSerializer` (pycryptodome AES-EAX, its default)."""

    name = "LangGraph Encrypted"
    requires = ("langgraph.checkpoint.sqlite", "Crypto.Cipher.AES")

    def _serializer(self) -> Any:
        encrypted = importlib.import_module("langgraph.checkpoint.serde.encrypted").EncryptedSerializer
        return encrypted.from_pycryptodome_aes(key=secrets.token_bytes(32))


ALL: tuple[type[Engine], ...] = (
    PlainSqlite,
    VaultEngine,
    OpenAISession,
    OpenAIEncryptedSession,
    LangGraphSaver,
    LangGraphEncryptedSaver,
)
