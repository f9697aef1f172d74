"""The log and its sessions as stored rows; what the database has to do, and nothing about how."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from vault.ports.items import ItemReader, ItemWriter

T = TypeVar("T")


class SessionRow(NamedTuple):
    """A session: its mutable head, everything under ``mac``. Times in microseconds since 1970."""

    no: int
    session_id: bytes
    tenant_id: bytes
    owner: bytes
    external: bytes | None
    state: str
    version: int
    epoch: int
    head_seq: int
    head_chain: bytes
    tails: bytes
    created_us: int
    updated_us: int
    used_hour: int
    ended_us: int
    lease: bytes
    forked_from: bytes | None
    base_seq: int
    base_chain: bytes
    retention: bytes
    due_hour: int
    renewed: bytes
    about: bytes
    mac: bytes


class EventRow(NamedTuple):
    """An event; ``body`` is a short sealed payload, else ``blob_no`` says where it stands. Never updated."""

    session_no: int
    seq: int
    event_id: bytes
    given_id: int
    type: str
    level: int
    recorded_us: int
    run_id: bytes | None
    epoch: int
    content: int
    type_nth: int
    run_nth: int
    salt: bytes
    meta: bytes | None
    body: bytes | None
    blob_no: int | None
    address: bytes
    size: int
    ref: bytes | None
    chain: bytes
    mac: bytes


class BlobRow(NamedTuple):
    """A sealed payload; ``body`` is None when it stands in the blob area under its address."""

    no: int
    session_no: int
    epoch: int
    content_id: bytes
    address: bytes
    size: int
    body: bytes | None
    mac: bytes


class RunRow(NamedTuple):
    """How many events a run wrote, once another run has taken over."""

    session_no: int
    run_id: bytes
    written: int
    mac: bytes


class VaultRow(NamedTuple):
    """The vault itself: which one this is and the newest ledger entry it has written."""

    vault_id: bytes
    created_us: int
    ledger_no: int
    ledger_hash: bytes
    mac: bytes


def is_sound(row: tuple[Any, ...]) -> bool:
    """Whether every value is of its column's kind: a file whose rules were taken away can hold any other."""
    return all(map(isinstance, row, _kinds(type(row))))


@functools.cache
def _kinds(row: type) -> tuple[Any, ...]:
    return tuple(get_type_hints(row).values())


class EventsQuery(NamedTuple):
    """Which events: ``low < seq < high``, of one type or one run, oldest or newest first."""

    session_no: int
    low: int
    high: int
    limit: int
    type: str | None = None
    run_id: bytes | None = None
    newest_first: bool = False


class Reader(Protocol):
    """One consistent snapshot."""

    items: ItemReader

    def vault(self) -> VaultRow | None:
        """The vault's own row."""
        ...

    def session(self, session_id: bytes, tenant_id: bytes, owner: bytes) -> SessionRow | None:
        """The session of this tenant and owner; another's is None, from the same statement."""
        ...

    def owner_of(self, session_id: bytes, tenant_id: bytes) -> bytes | None:
        """The blind index of the owner of a tenant's session; only for the door, which decides with it."""
        ...

    def session_by_external(self, external: bytes, tenant_id: bytes, owner: bytes) -> SessionRow | None:
        """The owner's session under an external id's blind index."""
        ...

    def sessions(
        self, tenant_id: bytes, owner: bytes, *, label: bytes | None, before: tuple[int, int, int], limit: int
    ) -> list[SessionRow]:
        """The owner's sessions, last used first, strictly before (used_hour, updated_us, no)."""
        ...

    def events(self, query: EventsQuery) -> list[EventRow]:
        """Events; ``body`` is filled in wherever the database holds it."""
        ...

    def event(self, session_no: int, event_id: bytes) -> EventRow | None:
        """One event by its id."""
        ...

    def events_about(self, session_no: int, low: bytes, high: bytes) -> list[EventRow]:
        """The events of a session whose ``ref`` is within ``low <= ref < high``, in any order."""
        ...

    def first_seq_since(self, session_no: int, recorded_us: int, head_seq: int) -> int:
        """The first sequence number recorded at or after a time; ``head_seq + 1`` when there is none."""
        ...

    def blob(self, session_no: int, epoch: int, content_id: bytes) -> BlobRow | None:
        """A blob by its content id, without its body."""
        ...

    def run(self, session_no: int, run_id: bytes) -> RunRow | None:
        """The kept count of a run."""
        ...

    def scan(self, statement: str, **parameters: Any) -> Iterator[tuple[Any, ...]]:
        """Rows of one of the named maintenance statements, for verification."""
        ...


class Transaction(Reader, Protocol):
    """One write transaction. ``heads`` holds session rows that become this process's view on commit."""

    heads: dict[bytes, SessionRow]
    items: ItemWriter

    def known(self, session_id: bytes) -> SessionRow | None:
        """The session row of this process's own last commit; perhaps behind another process's."""
        ...

    def add_session(self, row: SessionRow, labels: Sequence[bytes]) -> int:
        """Insert a session with its label indexes; its number is returned."""
        ...

    def move_session(self, row: SessionRow, before: SessionRow) -> bool:
        """Compare-and-set: replace the head if the stored row still has the MAC of the one before.

        The MAC covers the whole row, so a view that is behind in anything at all does not match.
        """
        ...

    def add_event(self, row: EventRow) -> None:
        """Insert an event."""
        ...

    def add_touch(self, tag: bytes, row: EventRow) -> None:
        """Index an event under what it changed in the world."""
        ...

    def add_blob(self, row: BlobRow) -> int:
        """Insert a blob; its number is returned."""
        ...

    def keep_run(self, row: RunRow) -> None:
        """Insert or replace the kept count of a run."""
        ...

    def keep_vault(self, row: VaultRow) -> None:
        """Insert or replace the vault's own row."""
        ...

    def change(self, statement: str, **parameters: Any) -> int:
        """Run one of the named statements of retention and erasure; how many rows it changed."""
        ...


class Records(Protocol):
    """The database of the log."""

    def snapshot(self) -> AbstractContextManager[Reader]:
        """A consistent view for reading; short: nothing else may happen inside.

        Raises:
            StorageUnavailable: the database cannot be read.
        """
        ...

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a write transaction that is durable when this returns.

        Concurrent callers of one process may share a commit; a ``work`` that raises undoes only itself.

        Raises:
            Busy: the write lock was not free before the deadline.
            StorageFull: the disk is full; nothing was written.
            StorageUnavailable: the database did not take it; nothing was written.
        """
        ...

    def damage(self) -> list[str]:
        """What the database itself finds wrong with its storage, an index unlike its table among it."""
        ...

    def settle(self) -> None:
        """Make every commit so far survive a power loss; at once when each of them does by itself.

        Raises:
            StorageUnavailable: the disk did not take it.
        """
        ...

    def shorten(self) -> None:
        """Keep what is written ahead short during long work: no writer then waits for all of it at once."""
        ...

    def rewrite(self) -> bool:
        """Write the whole database anew, with nothing in it but what is live; whether that was done.

        Writers wait meanwhile: some seconds for the largest that is rewritten.
        """
        ...

    def truncate(self) -> bool:
        """Leave nothing of what was deleted in the write-ahead log; False while somebody still reads it.

        Raises:
            StorageUnavailable: the disk did not take it.
        """
        ...

    def commits(self) -> int:
        """A number that grows with every commit of this process; ``wait_commit`` waits for it to change."""
        ...

    def wait_commit(self, seen: int, timeout_seconds: float) -> None:
        """Return when this process has committed since ``seen``, or after the timeout."""
        ...

    def close(self) -> None:
        """Close all connections; truncates the write-ahead log when nobody else uses it."""
        ...
