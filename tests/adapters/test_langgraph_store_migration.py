"""LangGraph's store: the items of its own SqliteStore move in, with their times (A2)."""

import sqlite3
import time

import pytest
from langgraph.store.sqlite import SqliteStore

from tests.adapters.langgraph_store_case import WORDS, counted
from vault.adapters.langgraph_store import VaultStore
from vault.adapters.langgraph_store_migration import Taken, take_sqlite
from vault.errors import InvalidInput

USERS = ("users", "alice")


@pytest.fixture
def old(tmp_path):
    """A file of a SqliteStore: an item that was updated, one that lives for a while, and one that expired."""
    path = tmp_path / "old.db"
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        store.put(USERS, "a", {"text": "tea é", "n": 2**53})
        store.put(("users",), "b", {"text": "rain"}, ttl=60)
        store.put(USERS, "expired", {"text": "sun"}, ttl=0.001)
        store.put(USERS, "here", {"text": "old"})
    connection = sqlite3.connect(path)
    connection.execute("UPDATE store SET created_at = '2024-02-29 12:00:00' WHERE key = 'a'")
    connection.commit()
    connection.close()
    time.sleep(0.1)
    return path


def test_items_move_in_with_their_times(old, alice):
    """A2: what is there stays, what expired does not come back, and doing it twice changes nothing."""
    store = VaultStore(alice, index={"dims": len(WORDS), "embed": counted, "fields": ["text"]})
    store.put(USERS, "here", {"text": "new"})
    assert take_sqlite(old, store) == Taken(taken=2, known=1, expired=1)
    found = store.get(USERS, "a")
    assert found.value == {"text": "tea é", "n": 2**53}
    assert found.created_at.isoformat() == "2024-02-29T12:00:00+00:00"
    assert store.get(USERS, "here").value == {"text": "new"}
    assert store.get(USERS, "expired") is None
    assert [item.key for item in store.search((), query="rain", limit=1)] == ["b"]
    left = store._shelf.opened(("users",), "b").expires_us / 1e6 - time.time()
    assert 59 * 60 < left < 60 * 60
    assert take_sqlite(old, store) == Taken(taken=0, known=3, expired=1)


def test_what_is_no_such_file_is_refused(tmp_path, alice):
    """A2."""
    store = VaultStore(alice)
    empty, other = tmp_path / "empty.db", tmp_path / "other.db"
    sqlite3.connect(empty).close()
    other.write_bytes(b"no database" * 1_000)
    for path in (empty, other, tmp_path / "none.db"):
        with pytest.raises(InvalidInput):
            take_sqlite(path, store)


@pytest.mark.parametrize(
    ("column", "value"),
    [("value", "{"), ("value", "[1]"), ("created_at", "soon"), ("prefix", "a..b")],
)
def test_an_item_that_cannot_be_read_is_refused(column, value, old, alice):
    """A2: it is not left out in silence."""
    connection = sqlite3.connect(old)
    connection.execute(f"UPDATE store SET {column} = ? WHERE key = 'a'", (value,))  # noqa: S608 - names of ours
    connection.commit()
    connection.close()
    with pytest.raises(ValueError, match=r"\w"):
        take_sqlite(old, VaultStore(alice))
