"""Conversations of the OpenAI Agents SDK's SQLite stores in: ``SQLiteSession`` and what keeps its tables.

Those are ``AsyncSQLiteSession``, ``AdvancedSQLiteSession`` (its main branch), ``SQLAlchemySession`` on
SQLite, and any of them below an ``EncryptedSession``, with its key. The file is opened for reading only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from vault.adapters import ImportReport, Progress, parse_object, parse_time
from vault.adapters.binding import Binding
from vault.adapters.intake import BATCH_EVENTS_MAX, Problems
from vault.adapters.openai_agents_items import Items
from vault.adapters.openai_agents_pairs import Pair, answered_by, asked_by
from vault.adapters.openai_agents_walk import CLEARED, WITHDRAWN, Walk
from vault.clock import from_us, now_ns
from vault.encoding import json_bytes
from vault.errors import Erased, InvalidInput, LineRefused
from vault.model import EVENTS_MAX
from vault.storage import foreign

if TYPE_CHECKING:
    from vault.faces import Access

_BRANCHES: Final = "message_structure"
_NOT_OPENED: Final = "an encrypted item that the key does not open"

#: What an item is, as its row of a session says it.
_Opener = Callable[[str, dict[str, Any]], dict[str, Any]]


class _Item(NamedTuple):
    """An item as it is taken over; ``row`` is the number of its row."""

    row: int
    value: dict[str, Any]
    made_at: datetime | None


def import_openai_sqlite(
    access: Access,
    path: str | Path,
    *,
    encryption_key: str | None = None,
    sessions_table: str = "agent_sessions",
    messages_table: str = "agent_messages",
    ttl: timedelta | None = None,
    progress: Progress | None = None,
) -> ImportReport:
    """Move every conversation of a database in, under its session id, for ``VaultSession`` to go on with.

    Each is taken whole or, after an interruption, from where it ended; what is there already is not doubled.
    One that went another way in the vault since, or had items erased there, is reported and left alone. One
    conversation at a time is held in memory.

    Args:
        access: from ``vault.access``: whose conversations they become.
        path: the database file.
        encryption_key: the one that ``EncryptedSession`` was given. An item in clear is then not taken: who
            could write the file could have put it there.
        sessions_table, messages_table: the store's tables, if they were named otherwise.
        ttl: leave behind what is older, and outputs of calls that are; all of it is taken when left out,
            though ``EncryptedSession`` did not show what was older than its own.
        progress: gets the rows and bytes done.

    Returns:
        The vault's sessions, and what could not be taken, by row number.

    Raises:
        InvalidInput: it is no such database, its items are encrypted and there is no key, or a wrong one.
    """
    binding = Binding(access, "openai-agents")  # as VaultSession
    with foreign.opened(Path(path)) as db:
        statement = _statement(db.tables(), sessions_table, messages_table)
        opener = _opener(encryption_key)
        _check_key(db.rows(statement), opener, given=encryption_key is not None)
        taking = _Taking(binding, opener, ttl, progress)
        if _BRANCHES in db.tables():
            taking.leave_branches(db)
        for session_id, rows in groupby(db.rows(statement), key=itemgetter(0)):
            taking.take(session_id, rows)
    return taking.report()


def _statement(tables: set[str], sessions_table: str, messages_table: str) -> str:
    if not {sessions_table, messages_table} <= tables:
        raise InvalidInput(
            "this file holds no sessions of the OpenAI Agents SDK; name its tables if they differ"
        )
    # Both are names of tables that are there, and quoted: nothing else can be said by them.
    messages = '"' + messages_table.replace('"', '""') + '"'
    columns = "m.session_id, m.id, m.message_data, m.created_at"
    if _BRANCHES not in tables:
        return f"SELECT {columns} FROM {messages} AS m ORDER BY m.session_id, m.id"  # noqa: S608 - as above
    return (
        f"SELECT {columns} FROM {messages} AS m JOIN {_BRANCHES} AS s ON s.message_id = m.id"  # noqa: S608
        " WHERE s.branch_id = 'main' ORDER BY m.session_id, s.sequence_number"
    )


# ------------------------------------------------------------------------------------------ encrypted items


def _is_envelope(item: dict[str, Any]) -> bool:
    return item.get("__enc__") == 1 and "payload" in item and "kid" in item


def _opener(encryption_key: str | None) -> _Opener:
    """Gives what an item is; refuses it when that is not what the whole database is."""

    def as_it_is(_: str, item: dict[str, Any]) -> dict[str, Any]:
        if _is_envelope(item):
            raise LineRefused(_NOT_OPENED)
        return item

    if encryption_key is None:
        return as_it_is
    if not encryption_key:
        raise InvalidInput("an encryption key is not empty; leave it out when nothing is encrypted")
    try:
        # Here, because a database in clear is moved without the SDK.
        from agents.extensions.memory import encrypt_session  # noqa: PLC0415
    except ImportError:
        raise InvalidInput(
            "to open encrypted items the SDK is needed: pip install 'openai-agents[encrypt]'"
        ) from None
    key, refusal = encryption_key, encrypt_session.InvalidToken  # type: ignore[attr-defined]

    def decrypted(session_id: str, item: dict[str, Any]) -> dict[str, Any]:
        if not _is_envelope(item) or not isinstance(item["payload"], str):
            raise LineRefused("an item in clear within an encrypted database")
        # Its cipher opens an item whatever its age.
        cipher = encrypt_session.EncryptedSession(session_id, cast("Any", None), key).cipher
        try:
            return parse_object(cipher.decrypt(item["payload"].encode()))
        except (refusal, UnicodeEncodeError):
            raise LineRefused(_NOT_OPENED) from None

    return decrypted


def _check_key(rows: Iterator[tuple[Any, ...]], opener: _Opener, *, given: bool) -> None:
    """Refuse a wrong key before anything is written.

    Raises:
        InvalidInput: there are encrypted items, and not one of them opens.
    """
    closed = 0
    for session_id, _, data, _ in rows:
        try:
            item = parse_object(data.encode())
            if _is_envelope(item):
                closed += 1
                opener(session_id, item)
                return
        except (LineRefused, AttributeError, UnicodeEncodeError):
            continue
    if closed and given:
        raise InvalidInput("the key opens none of the encrypted items; give the one they were written with")
    if closed:
        raise InvalidInput("the items are encrypted; give the key that EncryptedSession was given")


# ------------------------------------------------------------------------------------------------- taking in


class _Taking:
    """Takes conversations in, one after the other, and notes what could not be taken."""

    def __init__(
        self, binding: Binding, opener: _Opener, ttl: timedelta | None, progress: Progress | None
    ) -> None:
        self._binding, self._opener, self._progress = binding, opener, progress
        self._oldest = None if ttl is None else from_us(now_ns() // 1000) - ttl
        self._problems = Problems()
        self._sessions: list[str] = []
        self._events = self._rows = self._bytes = 0

    def leave_branches(self, db: foreign.Foreign) -> None:
        """Note the branches that are not taken."""
        query = "SELECT session_id, branch_id, min(message_id) FROM message_structure"
        for _, _, first in db.rows(f"{query} WHERE branch_id <> 'main' GROUP BY session_id, branch_id"):
            self._problems.add(first, "a branch beside the main one was left behind")

    def take(self, session_id: Any, rows: Iterator[tuple[Any, ...]]) -> None:
        """Take one conversation in."""
        items = list(self._current(self._items(session_id, rows)))
        if not items:
            return
        kept = Items(self._binding, session_id)
        try:
            there = [json_bytes(event.payload) for event in kept.newest(None)]
            session = kept.session
            touched = session is not None and _is_touched(session)
        except (Erased, InvalidInput) as refusal:
            self._problems.add(items[0].row, str(refusal))  # the core's messages hold nothing of a user's
            return
        asked = [json_bytes(item.value) for item in items]
        if touched or (there[: len(asked)] != asked and asked[: len(there)] != there):
            self._problems.add(items[0].row, "this conversation went on otherwise in the vault: left alone")
            return
        rest = items[len(there) :]
        for start in range(0, len(rest), BATCH_EVENTS_MAX):
            batch = rest[start : start + BATCH_EVENTS_MAX]
            kept.add([item.value for item in batch], times=[item.made_at for item in batch])
            self._events += len(batch)
            if self._progress is not None:
                self._progress(self._rows, self._bytes)
        session = kept.find()
        if session is not None:
            self._sessions.append(session.id)

    def _items(self, session_id: Any, rows: Iterator[tuple[Any, ...]]) -> Iterator[_Item]:
        """The items that can be taken; a problem for each that cannot."""
        for _, number, data, created_at in rows:
            self._rows += 1
            try:
                if not isinstance(session_id, str) or not session_id or not isinstance(data, str):
                    raise LineRefused("no text where the SDK writes text")
                encoded = data.encode()
                self._bytes += len(encoded)
                item = self._opener(session_id, parse_object(encoded))
                json_bytes(item)  # what the core would refuse costs no other item
            except (InvalidInput, UnicodeEncodeError) as refusal:
                known = isinstance(refusal, InvalidInput)
                self._problems.add(number, str(refusal) if known else "not Unicode text")
            else:
                # SQLite's own clock writes UTC without saying so.
                made_at = parse_time(f"{created_at}+00:00") or parse_time(created_at)
                yield _Item(number, item, made_at)

    def _current(self, items: Iterator[_Item]) -> Iterator[_Item]:
        """Those within the time; what answers one that is not is left behind with it."""
        past: set[Pair] = set()
        for item in items:
            is_past = self._oldest is not None and item.made_at is not None and item.made_at < self._oldest
            asked, answered = asked_by(item.value), answered_by(item.value)
            if asked is not None:
                (past.add if is_past else past.discard)(asked)
            if is_past or answered in past:
                self._problems.add(item.row, "older than the given time, or the output of such a call")
            else:
                yield item

    def report(self) -> ImportReport:
        """What was taken, and what was not."""
        return ImportReport(
            sessions=tuple(self._sessions),
            events=self._events,
            lines=self._rows,
            bytes=self._bytes,
            problems=self._problems.listed,
            problems_total=self._problems.total,
        )


def _is_touched(session: Any) -> bool:
    """Whether items were erased since: they must not come back."""
    facts = session.events(types=[CLEARED, WITHDRAWN], limit=1)
    return next(facts, None) is not None or any(fact.erased for fact in Walk(session, EVENTS_MAX))
