"""Moving the items of LangGraph's own SqliteStore into a vault, with their times."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langgraph.store.base import PutOp

from vault.adapters.langgraph_store_items import Times
from vault.clock import SystemClock, to_us
from vault.encoding import json_value
from vault.errors import InvalidInput
from vault.storage import foreign

if TYPE_CHECKING:
    from vault.adapters.langgraph_store import VaultStore

_ITEMS: Final = """
SELECT prefix, key, value, created_at, updated_at, expires_at, ttl_minutes FROM store ORDER BY prefix, key
"""


class Taken(NamedTuple):
    """How many items were taken; were there already, and stay as they are in the vault; or had expired."""

    taken: int
    known: int
    expired: int


def take_sqlite(path: str | Path, store: VaultStore) -> Taken:
    """Take all items of a SqliteStore's file; to do it again takes what is missing.

    What is embedded, and what the items come from, is as for every put into ``store``. The file is only read;
    it holds all of it in clear, so remove it, and its copies, when all is taken.

    Args:
        path: the file.
        store: of whom it all is.

    Raises:
        InvalidInput: this is no such file, or an item in it cannot be kept.
    """
    counts = {True: 0, False: 0}
    expired, now_us = 0, SystemClock().now_us()
    with foreign.opened(Path(path)) as file:
        if "store" not in file.tables():
            raise InvalidInput("this is no file of a SqliteStore: it has no table of items")
        for row in file.rows(_ITEMS):
            op, times = _item(row)
            if times.expires_us is not None and times.expires_us <= now_us:
                expired += 1
                continue
            counts[store.take(op, times)] += 1
    return Taken(counts[True], counts[False], expired)


def _item(row: tuple[Any, ...]) -> tuple[PutOp, Times]:
    prefix, key, value, created, updated, expires, ttl_minutes = row
    try:
        op = PutOp(tuple(prefix.split(".")), key, json_value(value), ttl=ttl_minutes)
        return op, Times(_us(created), _us(updated), None if expires is None else _us(expires))
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput("an item in this file cannot be read") from None


def _us(written: str) -> int:
    """A time as SQLite writes it, in UTC unless it says otherwise."""
    moment = datetime.fromisoformat(written)
    return to_us(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
