"""LangGraph's store: items live for their minutes, are not seen a moment longer, and are erased (A2, D3)."""

import threading
import time

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp

from tests.adapters.langgraph_store_case import MovedClock
from vault import Vault
from vault.adapters.langgraph_store import VaultStore
from vault.adapters.langgraph_store_items import ITEMS, LEASES, place
from vault.errors import Conflict, InvalidInput

USERS = ("users", "alice")


@pytest.fixture
def clock():
    return MovedClock()


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        yield opened


@pytest.fixture
def store(alice, clock):
    return VaultStore(alice, clock=clock)


def keys_of(items):
    return {item.key for item in items}


def test_an_expired_item_is_invisible_at_once(store, clock):
    """A2, D3: to get, search and listing, swept or not, whatever ``omit_expired`` says."""
    assert store.supports_ttl
    store.put(USERS, "short", {}, ttl=0.5)
    store.put(USERS, "long", {})
    store.put(("other",), "short", {}, ttl=0.5)
    clock.move(minutes=0.499)
    assert keys_of(store.search((), refresh_ttl=False)) == {"short", "long"}
    assert store.list_namespaces() == [("other",), USERS]
    clock.move(minutes=0.001)
    assert store.get(USERS, "short") is None
    assert keys_of(store.search((), limit=100)) == {"long"}
    assert store.list_namespaces() == [USERS]
    assert store.search(USERS, filter={}, limit=1)[0].key == "long"


def test_a_part_of_a_minute_is_what_it_says(store, clock):
    """A2: down to less than a second, and no longer after it was read."""
    store.put(USERS, "blink", {}, ttl=0.01)
    clock.move(minutes=0.009)
    assert store.get(USERS, "blink") is not None
    clock.move(minutes=0.009)
    assert store.get(USERS, "blink", refresh_ttl=False) is not None
    clock.move(minutes=0.001)
    assert store.get(USERS, "blink") is None


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), 1e12, True])
def test_a_time_that_cannot_be_meant_is_refused(ttl, store):
    """A2."""
    with pytest.raises(InvalidInput):
        store.put(USERS, "k", {}, ttl=ttl)


def test_an_expired_item_that_is_put_again_starts_anew(store, clock):
    """A2: what is invisible is not updated."""
    store.put(USERS, "k", {"x": 1}, ttl=1)
    clock.move(minutes=2)
    store.put(USERS, "k", {"x": 2})
    found = store.get(USERS, "k")
    assert found.value == {"x": 2}
    assert found.created_at == found.updated_at


def test_the_default_time_to_live_can_be_overridden(alice, clock):
    """A2: by another, and by none."""
    store = VaultStore(alice, ttl={"default_ttl": 5, "refresh_on_read": False}, clock=clock)
    store.put(USERS, "default", {})
    store.put(USERS, "short", {}, ttl=1)
    store.put(USERS, "forever", {}, ttl=None)
    clock.move(minutes=1)
    assert keys_of(store.search(USERS)) == {"default", "forever"}
    clock.move(minutes=4)
    assert keys_of(store.search(USERS)) == {"forever"}


@pytest.mark.parametrize(
    "configured", [None, {}, {"refresh_on_read": True}, {"refresh_on_read": False}], ids=str
)
@pytest.mark.parametrize("asked", [None, True, False])
def test_a_read_prolongs_a_life_as_it_is_said(configured, asked, alice, clock):
    """A2: the operation decides, else the configuration, else it does."""
    store = VaultStore(alice, ttl=configured, clock=clock)
    prolongs = asked if asked is not None else (configured or {}).get("refresh_on_read", True)
    for read in (
        lambda: store.get(USERS, "k", refresh_ttl=asked),
        lambda: store.search(USERS, refresh_ttl=asked),
    ):
        store.put(USERS, "k", {}, ttl=1)
        clock.move(minutes=0.6)
        assert read()
        clock.move(minutes=0.6)
        assert (store.get(USERS, "k", refresh_ttl=False) is not None) == prolongs


def test_a_read_prolongs_no_sibling_in_its_batch(store, clock):
    """A2: each read of a batch says so for itself; and what a page does not show, it does not prolong."""
    for key in ("a", "b", "c", "d"):
        store.put(USERS, key, {"key": key}, ttl=1)
    clock.move(minutes=0.6)
    store.batch(
        [
            GetOp(USERS, "a", refresh_ttl=True),
            GetOp(USERS, "b", refresh_ttl=False),
            SearchOp(USERS, filter={"key": {"$gt": "b"}}, limit=1, refresh_ttl=True),
        ]
    )
    clock.move(minutes=0.6)
    assert keys_of(store.search(USERS)) == {"a", "d"}


def test_a_read_changes_neither_the_item_nor_its_times(store, alice, clock):
    """A2: a life is prolonged by a memory beside it; the item has one version, and is as it was."""
    store.put(USERS, "k", {"x": 1}, ttl=1)
    before = store.get(USERS, "k")
    for _ in range(5):
        clock.move(minutes=0.9)
        assert store.get(USERS, "k") == before
    assert len(alice.memories.history(*place(ITEMS, USERS, "k"))) == 1


def test_reading_often_is_not_writing_often(store, alice, clock):
    """A2: within a sixteenth of its time, an item is prolonged once at most."""
    store.put(USERS, "k", {}, ttl=16)
    for _ in range(100):
        clock.move(minutes=0.25)
        assert store.get(USERS, "k") is not None
    assert len(alice.memories.history(*place(LEASES, USERS, "k"))) == 25


def test_an_update_takes_its_own_time(store, clock):
    """A2: what a read said of the version before does not count for it."""
    store.put(USERS, "k", {"x": 1}, ttl=10)
    clock.move(minutes=9)
    store.get(USERS, "k")
    store.put(USERS, "k", {"x": 2}, ttl=1)
    clock.move(minutes=1)
    assert store.get(USERS, "k") is None


def test_prolonging_brings_nothing_back_that_is_deleted_meanwhile(store, alice, clock):
    """D5: not even when the read began before."""
    store.put(USERS, "k", {"secret": 1}, ttl=1)
    found = store._shelf.opened(USERS, "k")
    clock.move(minutes=0.5)
    store.delete(USERS, "k")
    store._shelf.prolong(found)
    assert store.get(USERS, "k") is None
    assert alice.memories.list() == []


# ---------------------------------------------------------------------------------------- sweeping


def test_a_sweep_erases_what_is_due_in_all_its_versions(store, alice, clock):
    """D3, D6: nothing of it is left, leases among it; what was read or put anew stays."""
    store.put(USERS, "gone", {"x": 1}, ttl=1)
    store.put(USERS, "gone", {"x": 2}, ttl=1)
    store.put(USERS, "read", {}, ttl=1)
    store.put(USERS, "anew", {}, ttl=1)
    store.put(USERS, "stays", {})
    clock.move(minutes=0.6)
    assert store.get(USERS, "read") is not None
    clock.move(minutes=0.6)
    store.put(USERS, "anew", {})
    assert store.sweep_ttl() == 1
    assert alice.memories.history(*place(ITEMS, USERS, "gone")) == []
    assert keys_of(store.search(USERS, refresh_ttl=False)) == {"read", "anew", "stays"}
    clock.move(minutes=0.5)
    assert store.sweep_ttl() == 1
    assert store.sweep_ttl() == 0
    assert {memory.key for memory in alice.memories.list()} == {"anew", "stays"}


def test_another_process_sweeps_what_it_never_saw(store, alice, clock):
    """D3: what is due is found in the vault, not in the memory of who put it."""
    store.put(USERS, "gone", {}, ttl=1)
    clock.move(minutes=1)
    assert VaultStore(alice, clock=clock).sweep_ttl() == 1


def test_a_sweep_takes_nobody_elses(store, vault, principal, clock):
    """O1."""
    other = VaultStore(vault.access(principal("bob")), clock=clock)
    other.put(USERS, "gone", {}, ttl=1)
    clock.move(minutes=1)
    assert store.sweep_ttl() == 0
    assert other.sweep_ttl() == 1


def test_a_hold_keeps_an_expired_item_hidden(store, officer, clock):
    """D2: it is neither shown nor erased until the hold is released."""
    store.put(USERS, "k", {}, ttl=1)
    hold = officer.holds.place(subject="alice", reason="a case")
    clock.move(minutes=1)
    assert store.sweep_ttl() == 0
    assert store.get(USERS, "k") is None
    officer.holds.lift(hold.id, reason="over")
    assert store.sweep_ttl() == 1


def test_a_hold_keeps_a_deleted_item_hidden(store, officer, alice):
    """D2: who deletes it is told, nobody reads it any more, and it goes when the hold is lifted."""
    store.put(USERS, "k", {})
    hold = officer.holds.place(subject="alice", reason="a case")
    with pytest.raises(Conflict):
        store.delete(USERS, "k")
    assert store.get(USERS, "k") is None
    assert store.search(USERS) == [] == store.list_namespaces() == alice.memories.list()
    officer.holds.lift(hold.id, reason="over")
    assert store.get(USERS, "k") is None


def test_the_sweeper_sweeps_at_once_and_stops(alice, clock):
    """A2: not after its first interval."""
    store = VaultStore(alice, ttl={"default_ttl": 1, "sweep_interval_minutes": 60}, clock=clock)
    store.put(USERS, "k", {})
    clock.move(minutes=1)
    ended = store.start_ttl_sweeper()
    assert store.start_ttl_sweeper() is ended
    until = time.monotonic() + 30
    while alice.memories.list() and time.monotonic() < until:
        time.sleep(0.01)
    assert alice.memories.list() == []
    assert store.stop_ttl_sweeper(timeout=30)
    assert ended.result(timeout=30) is None
    assert store.stop_ttl_sweeper()
    assert "vault-store-sweeper" not in {thread.name for thread in threading.enumerate()}


def test_the_sweeper_goes_on_every_so_often_until_it_is_cancelled(alice, clock):
    """A2."""
    store = VaultStore(alice, ttl={"default_ttl": 1}, clock=clock)
    ended = store.start_ttl_sweeper(sweep_interval_minutes=0.001)
    for _ in range(2):
        store.put(USERS, "k", {})
        clock.move(minutes=1)
        until = time.monotonic() + 30
        while alice.memories.list() and time.monotonic() < until:
            time.sleep(0.01)
        assert alice.memories.list() == []
    assert ended.cancel()
    assert store.stop_ttl_sweeper(timeout=30)


def test_the_sweeper_says_what_ended_it(alice, vault, clock):
    """A2: an error is with whoever started it; and without a configuration nothing is swept."""
    assert VaultStore(alice).start_ttl_sweeper().done()
    store = VaultStore(alice, ttl={"default_ttl": 1}, clock=clock)
    with pytest.raises(InvalidInput):
        store.start_ttl_sweeper(0)
    vault.close()
    assert type(store.start_ttl_sweeper().exception(timeout=30)).__name__ == "VaultClosed"


def test_a_raw_put_without_a_time_lives_on(alice, clock):
    """A2: the default is filled in by ``put``, as for every store of LangGraph."""
    store = VaultStore(alice, ttl={"default_ttl": 1}, clock=clock)
    store.batch([PutOp(USERS, "k", {})])
    clock.move(minutes=5)
    assert store.get(USERS, "k") is not None
