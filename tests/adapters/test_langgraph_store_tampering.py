"""LangGraph's store: whoever writes the files without the keys is refused (K2, K4, O1).

What is *not* found on a read is stated too: `test_an_older_version_put_back_whole_is_the_vaults_own_limit`.
"""

import hashlib
import json
from dataclasses import dataclass, field

import pytest

from tests.adapters.langgraph_store_case import WORDS, counted, graph_of, remember, run_of
from tests.security import surgery
from vault import Principal, Vault
from vault.adapters.langgraph_store import VaultStore
from vault.adapters.langgraph_store_items import ITEMS, LEASES, place
from vault.errors import KeyUnavailable, NotFound, Tampered

ALICE = Principal(tenant="acme", subject="alice")
BOB = Principal(tenant="acme", subject="bob")
REFUSED = (Tampered, KeyUnavailable)
INDEX = {"dims": len(WORDS), "embed": counted}
HERE, THERE = ("users", "alice"), ("users", "bob")
SEALED = ("about", "body", "address", "size")


@dataclass
class Made:
    place: object
    ids: dict = field(default_factory=dict)
    first: dict = field(default_factory=dict)  # the row of the first version, as it was while it was live


def id_of(access, first, namespace, key, kind="memory"):
    return bytes.fromhex(
        access.memories.get(*place(first, namespace, key), kind=kind).id[4:].replace("-", "")
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A closed vault: an item in two versions and another namespace's, from two threads, and Bob's."""
    at = tmp_path_factory.mktemp("template") / "the.vault"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(at.parent / "state"))
        return filled(Made(at))


def filled(made):
    with Vault.create(made.place, settings={"synchronous": "NORMAL"}) as vault:
        alice, bob = vault.access(ALICE), vault.access(BOB)
        store = VaultStore(alice, index=INDEX)
        graph_of(store, remember).invoke({"said": "tea old"}, run_of("one"))
        made.ids["old"] = id_of(alice, ITEMS, HERE, "said")
    with surgery.opened(made.place) as connection:
        made.first.update(row_of(connection, made.ids["old"]))
    with Vault.open(made.place) as vault:
        alice, bob = vault.access(ALICE), vault.access(BOB)
        store = VaultStore(alice, index=INDEX)
        graph_of(store, remember).invoke({"said": "tea new"}, run_of("one"))
        graph_of(store, lambda store, said: store.put(THERE, "said", {"text": said})).invoke(
            {"said": "rain"}, run_of("two")
        )
        VaultStore(bob, index=INDEX).put(HERE, "said", {"text": "bob's sun"})
        store.put(HERE, "short", {"text": "coffee"}, ttl=1_000_000)
        made.ids |= {
            "new": id_of(alice, ITEMS, HERE, "said"),
            "there": id_of(alice, ITEMS, THERE, "said"),
            "bob": id_of(bob, ITEMS, HERE, "said"),
            "vector": id_of(alice, ITEMS, HERE, "said", "embedding"),
            "vector there": id_of(alice, ITEMS, THERE, "said", "embedding"),
        }
    return made


@pytest.fixture
def made(template, place):
    surgery.copied(template.place, place)
    return Made(place, template.ids, template.first)


def row_of(connection, item_id):
    (row,) = surgery.rows_as_dicts(connection, "SELECT * FROM items WHERE item_id = ?", item_id)
    return row


def exchange(connection, one, two, *columns):
    first, second = row_of(connection, one), row_of(connection, two)
    surgery.without_rules(connection, "items")
    for item_id, row in ((one, second), (two, first)):
        surgery.update(connection, "items", {"item_id": item_id}, **{name: row[name] for name in columns})


def said_of(store, read):
    try:
        return read(store)
    except (*REFUSED, NotFound) as error:
        return type(error)


READS = {
    "get": lambda store: store.get(HERE, "said") and store.get(HERE, "said").value["text"],
    "search": lambda store: sorted(item.value["text"] for item in store.search(HERE)),
    "query": lambda store: sorted(item.value["text"] for item in store.search(HERE, query="tea")),
    "all": lambda store: sorted(item.value["text"] for item in store.search(())),
}
GENUINE = {
    "get": "tea new",
    "search": ["coffee", "tea new"],
    "query": ["coffee", "tea new"],
    "all": ["coffee", "rain", "tea new"],
}


def check_reads(made, *, shown=()):
    """Each read refuses, or leaves out what it cannot open; nothing false is ever shown."""
    with Vault.open(made.place) as vault:
        store = VaultStore(vault.access(ALICE), index=INDEX)
        said = {name: said_of(store, read) for name, read in READS.items()}
        assert said["get"] in (*REFUSED, *shown), said
        for name, value in said.items():
            if isinstance(value, list):
                assert set(value) <= {*GENUINE[name], *shown}, name
                assert "tea new" not in value
            else:
                assert value in (*REFUSED, *shown), name
        theirs = said_of(VaultStore(vault.access(BOB), index=INDEX), READS["get"])
        assert theirs in ("bob's sun", *REFUSED, None)


def test_the_specimen_reads_as_it_was_put(made):
    with Vault.open(made.place) as vault:
        store = VaultStore(vault.access(ALICE), index=INDEX)
        assert {name: said_of(store, read) for name, read in READS.items()} == GENUINE


@pytest.mark.parametrize("two", ["there", "bob", "old"], ids=["namespace", "owner", "version"])
@pytest.mark.parametrize(
    "columns",
    [("body",), SEALED, (*SEALED, "mac"), (*SEALED, "mac", "sources"), ("item_id",), ("mac",)],
    ids="-".join,
)
def test_rows_that_were_swapped_are_refused(two, columns, made):
    """K2, O1: between namespaces and threads, between owners, and between versions of one item."""
    with surgery.opened(made.place) as connection:
        if columns == ("item_id",):
            swap_ids(connection, made.ids["new"], made.ids[two])
        else:
            exchange(connection, made.ids["new"], made.ids[two], *columns)
    check_reads(made)


def swap_ids(connection, one, two):
    surgery.without_rules(connection, "items")
    aside = hashlib.sha256(one).digest()[:16]
    for old, new in ((one, aside), (two, one), (aside, two)):
        surgery.update(connection, "items", {"item_id": old}, item_id=new)


@pytest.mark.parametrize("two", ["there", "bob"], ids=["namespace", "owner"])
def test_a_row_renamed_into_another_place_is_refused(two, made):
    """K2, O1: the row of another namespace or owner in the place of the item."""
    with surgery.opened(made.place) as connection:
        surgery.without_rules(connection, "items")
        mine = row_of(connection, made.ids["new"])
        connection.execute("DELETE FROM items WHERE item_id = ?", (made.ids["new"],))
        places = {name: mine[name] for name in ("owner", "name", "space", "version", "no")}
        surgery.update(connection, "items", {"item_id": made.ids[two]}, **places)
    check_reads(made)


def test_an_older_version_put_back_is_refused(made):
    """K2, K4: the older content in the newer's row, or the older row made the live one."""
    with surgery.opened(made.place) as connection:
        old = row_of(connection, made.ids["old"])
        surgery.update(
            connection,
            "items",
            {"item_id": made.ids["new"]},
            **{name: old[name] for name in (*SEALED, "mac")},
        )
    check_reads(made)
    with surgery.opened(made.place) as connection:
        surgery.update(connection, "items", {"item_id": made.ids["old"]}, state="live")
        connection.execute("DELETE FROM items WHERE item_id = ?", (made.ids["new"],))
    check_reads(made)


def test_an_older_version_beside_the_newer_one_changes_nothing(made):
    """K2: the newest version counts."""
    with surgery.opened(made.place) as connection:
        surgery.update(connection, "items", {"item_id": made.ids["old"]}, **made.first)
    with Vault.open(made.place) as vault:
        store = VaultStore(vault.access(ALICE), index=INDEX)
        assert store.get(HERE, "said").value == {"text": "tea new"}


def test_an_older_version_put_back_whole_is_the_vaults_own_limit(made):
    """Said honestly: who also removes every trace of the newer version shows the older one to a read.

    Its key in keys.db still tells of it; docs/howto/memories.md says so.
    """
    with surgery.opened(made.place) as connection:
        for name in ("new", "vector"):
            connection.execute("DELETE FROM items WHERE item_id = ?", (made.ids[name],))
        connection.execute("DELETE FROM lineage WHERE item_no NOT IN (SELECT no FROM items)")
        surgery.update(connection, "items", {"item_id": made.ids["old"]}, **made.first)
    check_reads(made, shown=("tea old",))


@pytest.mark.parametrize("name", ["new", "vector"])
def test_a_row_in_clear_is_refused(name, made):
    """K2: there is no form of an item that is not sealed."""
    item = {"namespace": list(HERE), "key": "said", "value": {"text": "forged"}, "created_us": 1}
    item |= {"updated_us": 1, "revision": "0", "ttl_us": None, "expires_us": None}
    clear = json.dumps({"langgraph": item}).encode()
    with surgery.opened(made.place) as connection:
        values = {"body": clear, "size": len(clear), "address": hashlib.sha256(clear).digest()}
        surgery.update(connection, "items", {"item_id": made.ids[name]}, **values)
    with Vault.open(made.place) as vault:
        store = VaultStore(vault.access(ALICE), index=INDEX)
        assert said_of(store, READS["query"]) in REFUSED
        if name == "new":
            assert said_of(store, READS["get"]) in REFUSED


def test_vectors_that_were_swapped_are_refused(made):
    """K2: a search by meaning cannot be made to rank another item first."""
    with surgery.opened(made.place) as connection:
        exchange(connection, made.ids["vector"], made.ids["vector there"], *SEALED)
    with Vault.open(made.place) as vault:
        store = VaultStore(vault.access(ALICE), index=INDEX)
        assert said_of(store, READS["query"]) in REFUSED


def test_a_lease_of_another_item_prolongs_nothing(made):
    """K2: neither can a lease be forged, nor one of another item be moved."""
    with Vault.open(made.place) as vault:
        store = VaultStore(vault.access(ALICE), index=INDEX)
        alice = vault.access(ALICE)
        for key in ("a", "b"):
            store.put(HERE, key, {"text": key}, ttl=60)
            store._shelf.prolong(store._shelf.opened(HERE, key)._replace(expires_us=0))
        leases = [id_of(alice, LEASES, HERE, key) for key in ("a", "b")]
    with surgery.opened(made.place) as connection:
        exchange(connection, *leases, *SEALED)
    with Vault.open(made.place) as vault:
        store = VaultStore(vault.access(ALICE), index=INDEX)
        for read in (lambda store: store.get(HERE, "a"), lambda store: store.search(HERE)):
            assert said_of(store, read) in REFUSED


def test_rows_of_an_erased_item_that_are_put_back_open_for_nobody(made):
    """D6: its key is destroyed, so its row is nothing."""
    with surgery.opened(made.place) as connection:
        rows = [row_of(connection, made.ids[name]) for name in ("new", "old")]
    with Vault.open(made.place) as vault:
        VaultStore(vault.access(ALICE)).delete(HERE, "said")
    with surgery.opened(made.place) as connection:
        for row in rows:
            surgery.insert(connection, "items", row)
    with Vault.open(made.place) as vault:
        store = VaultStore(vault.access(ALICE), index=INDEX)
        assert said_of(store, READS["get"]) in (*REFUSED, None)
        assert "tea new" not in str(said_of(store, READS["all"]))
