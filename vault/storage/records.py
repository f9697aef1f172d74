"""The log in SQL: the ports' rows through the named statements, the same for every database."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, TypeVar

from vault.errors import Tampered
from vault.ports.records import BlobRow, EventRow, EventsQuery, RunRow, SessionRow, VaultRow, is_sound
from vault.storage.items import SqlItems
from vault.storage.statements import STATEMENTS, ordered

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    from vault.ports.items import ItemReader, ItemWriter
    from vault.storage.sqlite import Database

R = TypeVar("R", bound=tuple[Any, ...])
T = TypeVar("T")

#: Session rows of this process's own last commits; under 1 KiB each.
_HEADS_MAX: Final = 4096
#: A planted trigger can make a write come to nothing; then it is not acknowledged.
_SWALLOWED: Final = "the database did not take a row: its rules were changed"
_EVENT_COLUMNS: Final = len(EventRow._fields)
_ADD_EVENT: Final = ordered(STATEMENTS["add_event"], EventRow._fields)
_ADVANCE_SESSION: Final = ordered(STATEMENTS["advance_session"], (*SessionRow._fields, "expected_mac"))
_MOVE_SESSION: Final = ordered(STATEMENTS["move_session"], (*SessionRow._fields, "expected_mac"))


class SqlReader:
    """Queries on one connection, within whatever transaction it is in."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Use a connection that is inside a transaction."""
        self._execute = connection.execute
        self.items: ItemReader = SqlItems(connection)

    def vault(self) -> VaultRow | None:
        """The vault's own row."""
        row = self._execute(STATEMENTS["vault_row"]).fetchone()
        return row and _sound(VaultRow._make(row))

    def session(self, session_id: bytes, tenant_id: bytes, owner: bytes) -> SessionRow | None:
        """The session of this tenant and owner."""
        parameters = {"session_id": session_id, "tenant_id": tenant_id, "owner": owner}
        row = self._execute(STATEMENTS["session"], parameters).fetchone()
        return row and _sound(SessionRow._make(row))

    def owner_of(self, session_id: bytes, tenant_id: bytes) -> bytes | None:
        """The blind index of the owner of a tenant's session."""
        place = {"session_id": session_id, "tenant_id": tenant_id}
        row = self._execute(STATEMENTS["owner_of_session"], place).fetchone()
        if row is not None and not isinstance(row[0], bytes):
            raise Tampered("the database holds a value of the wrong kind")
        return row[0] if row else None

    def session_by_external(self, external: bytes, tenant_id: bytes, owner: bytes) -> SessionRow | None:
        """The owner's session under an external id's blind index."""
        parameters = {"external": external, "tenant_id": tenant_id, "owner": owner}
        row = self._execute(STATEMENTS["session_by_external"], parameters).fetchone()
        return row and _sound(SessionRow._make(row))

    def sessions(
        self, tenant_id: bytes, owner: bytes, *, label: bytes | None, before: tuple[int, int, int], limit: int
    ) -> list[SessionRow]:
        """The owner's sessions, last used first."""
        name = "sessions_of_owner" if label is None else "sessions_of_owner_labelled"
        parameters: dict[str, Any] = {"tenant_id": tenant_id, "owner": owner, "limit": limit}
        parameters |= {"used_hour": before[0], "updated_us": before[1], "no": before[2]}
        if label is not None:
            parameters["label"] = label
        return [_sound(SessionRow._make(row)) for row in self._execute(STATEMENTS[name], parameters)]

    def events(self, query: EventsQuery) -> list[EventRow]:
        """Events with the bodies that the database holds."""
        parameters: dict[str, Any] = {
            "session_no": query.session_no,
            "low": query.low,
            "high": query.high,
            "limit": query.limit,
        }
        if query.type is not None:
            kind, parameters["type"] = "events_of_type", query.type
        elif query.run_id is not None:
            kind, parameters["run_id"] = "events_of_run", query.run_id
        else:
            kind = "events"
        order = "newest_first" if query.newest_first else "oldest_first"
        rows = self._execute(STATEMENTS[f"{kind}_{order}"], parameters)
        return [_event_row(row) for row in rows]

    def event(self, session_no: int, event_id: bytes) -> EventRow | None:
        """One event by its id: at the place that an id of the vault's own ends in, else by index."""
        place = {"session_no": session_no, "seq": int.from_bytes(event_id[-4:])}
        row = self._execute(STATEMENTS["event_at"], place).fetchone()
        if row is not None and row[2] == event_id:
            return _event_row(row)
        parameters = {"session_no": session_no, "event_id": event_id}
        row = self._execute(STATEMENTS["event_by_given_id"], parameters).fetchone()
        return row and _event_row(row)

    def events_about(self, session_no: int, low: bytes, high: bytes) -> list[EventRow]:
        """The events of a session whose ``ref`` is within a range."""
        parameters = {"session_no": session_no, "low": low, "high": high}
        return [_event_row(row) for row in self._execute(STATEMENTS["events_about"], parameters)]

    def first_seq_since(self, session_no: int, recorded_us: int, head_seq: int) -> int:
        """The first place recorded at or after a time, by bisection: times never go back in a log."""
        low, high = 1, head_seq + 1
        while low < high:
            middle = (low + high) // 2
            parameters = {"session_no": session_no, "seq": middle}
            found = self._execute(STATEMENTS["recorded_at"], parameters).fetchone()
            # A missing row counts as early: the read that follows then meets the gap and refuses it.
            if found is None or not isinstance(found[0], int) or found[0] < recorded_us:
                low = middle + 1
            else:
                high = middle
        return low

    def blob(self, session_no: int, epoch: int, content_id: bytes) -> BlobRow | None:
        """A blob by its content id, without its body."""
        parameters = {"session_no": session_no, "epoch": epoch, "content_id": content_id}
        row = self._execute(STATEMENTS["blob_by_content"], parameters).fetchone()
        return row and _sound(BlobRow._make(row))

    def run(self, session_no: int, run_id: bytes) -> RunRow | None:
        """The kept count of a run."""
        row = self._execute(STATEMENTS["run"], {"session_no": session_no, "run_id": run_id}).fetchone()
        return row and _sound(RunRow._make(row))

    def scan(self, statement: str, **parameters: Any) -> Iterator[tuple[Any, ...]]:
        """Rows of a named maintenance statement."""
        return iter(self._execute(STATEMENTS[statement], parameters))


class SqlTransaction(SqlReader):
    """Reads and writes within one write transaction."""

    items: ItemWriter

    def __init__(self, connection: sqlite3.Connection, known: dict[bytes, SessionRow]) -> None:
        """Use the writer's connection; ``known`` is the process's view of session rows."""
        super().__init__(connection)
        self.heads: dict[bytes, SessionRow] = {}
        self._known = known

    def known(self, session_id: bytes) -> SessionRow | None:
        """The session row of this process's own last commit, or of earlier work in this transaction."""
        return self.heads.get(session_id) or self._known.get(session_id)

    def add_session(self, row: SessionRow, labels: Sequence[bytes]) -> int:
        """Insert a session with its label indexes."""
        parameters = row._asdict()
        del parameters["no"]
        number = _number(self._execute(STATEMENTS["add_session"], parameters))
        for label in labels:
            self._execute(STATEMENTS["add_label"], {"label": label, "session_no": number})
        return number

    def move_session(self, row: SessionRow, before: SessionRow) -> bool:
        """Replace the head if the stored row is still the one before."""
        only_head = row.about is before.about and row.state is before.state and row.lease is before.lease
        only_head = only_head and row.retention is before.retention and row.due_hour == before.due_hour
        statement = _ADVANCE_SESSION if only_head else _MOVE_SESSION
        moved = self._execute(statement, (*row, before.mac)).rowcount == 1
        if moved and row.used_hour != before.used_hour:
            self._execute(STATEMENTS["move_session_in_list"], {"used_hour": row.used_hour, "no": row.no})
        return moved

    def add_event(self, row: EventRow) -> None:
        """Insert an event."""
        if self._execute(_ADD_EVENT, row).rowcount != 1:
            raise Tampered(_SWALLOWED)

    def add_touch(self, tag: bytes, row: EventRow) -> None:
        """Index an event under what it changed in the world."""
        place = {"tag": tag, "recorded_us": row.recorded_us, "session_no": row.session_no, "seq": row.seq}
        if self._execute(STATEMENTS["add_touch"], place).rowcount != 1:
            raise Tampered(_SWALLOWED)

    def add_blob(self, row: BlobRow) -> int:
        """Insert a blob."""
        parameters = row._asdict()
        del parameters["no"]
        return _number(self._execute(STATEMENTS["add_blob"], parameters))

    def keep_run(self, row: RunRow) -> None:
        """Insert or replace the kept count of a run."""
        self._execute(STATEMENTS["keep_run"], row._asdict())

    def keep_vault(self, row: VaultRow) -> None:
        """Insert or replace the vault's own row."""
        self._execute(STATEMENTS["keep_vault"], row._asdict())

    def change(self, statement: str, **parameters: Any) -> int:
        """Run a named statement; how many rows it changed."""
        return self._execute(STATEMENTS[statement], parameters).rowcount


class SqlRecords:
    """The log's database."""

    def __init__(self, database: Database) -> None:
        """Serve the log from a migrated database."""
        self._database = database
        self._known: dict[bytes, SessionRow] = {}

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[SqlReader]:
        """A consistent view for reading."""
        with self._database.snapshot() as connection:
            yield SqlReader(connection)

    def transact(self, work: Callable[[SqlTransaction], T]) -> T:
        """Run ``work`` in a durable write transaction, perhaps sharing the commit of others."""
        transactions: list[SqlTransaction] = []

        def run(connection: sqlite3.Connection) -> T:
            transactions.append(SqlTransaction(connection, self._known))
            result = work(transactions[-1])
            # Later work of this commit builds on these; should the commit fail, compare-and-set finds out.
            self._remember(transactions[-1].heads)
            return result

        try:
            result: T = self._database.write(run)
        except BaseException:
            for transaction in transactions:
                for session_id in transaction.heads:
                    self._known.pop(session_id, None)
            raise
        return result

    def damage(self) -> list[str]:
        """What the database itself finds wrong with its file."""
        return self._database.damage()

    def settle(self) -> None:
        """Make every commit so far survive a power loss."""
        self._database.settle()

    def shorten(self) -> None:
        """Let the write-ahead log start anew if it is long."""
        self._database.shorten()

    def rewrite(self) -> bool:
        """Write the whole database anew; whether that was done."""
        return self._database.rewrite()

    def truncate(self) -> bool:
        """Leave nothing of what was deleted in the write-ahead log; False while somebody still reads it."""
        return self._database.truncate()

    def commits(self) -> int:
        """Commits of this process so far."""
        return self._database.commits()

    def wait_commit(self, seen: int, timeout_seconds: float) -> None:
        """Wait until this process commits again, or for the timeout."""
        self._database.wait_commit(seen, timeout_seconds)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _remember(self, heads: dict[bytes, SessionRow]) -> None:
        for session_id, row in heads.items():
            self._known.pop(session_id, None)
            self._known[session_id] = row
        while len(self._known) > _HEADS_MAX:
            self._known.pop(next(iter(self._known)), None)


def _number(inserted: sqlite3.Cursor) -> int:
    row = inserted.fetchone()
    if row is None:
        raise Tampered(_SWALLOWED)
    return int(row[0])


def _sound(row: R) -> R:
    if not is_sound(row):
        raise Tampered("the database holds a value of the wrong kind")
    return row


def _event_row(row: tuple[Any, ...]) -> EventRow:
    event, shared = EventRow._make(row[:_EVENT_COLUMNS]), row[_EVENT_COLUMNS]
    # The other columns are under the row's MAC, or not used.
    if not isinstance(event.body if shared is None else shared, bytes | None):
        raise Tampered("the database holds a value of the wrong kind")
    return event if shared is None else event._replace(body=shared)
