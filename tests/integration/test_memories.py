"""Memories are put, found, superseded and hidden, for their owner alone (D4, O1)."""

import contextlib
import re
from datetime import timedelta
from pathlib import Path

import pytest

from vault import Principal, Vault
from vault.derived import index
from vault.derived.index import Index
from vault.derived.item import VALUE_BYTES_MAX
from vault.derived.verification import ItemsVerification
from vault.errors import InvalidInput, LimitExceeded, NotFound, VaultClosed
from vault.policy.durations import HOUR_US
from vault.policy.retention import Times, due_us
from vault.policy.terms import decode
from vault.ports.items import ItemRow
from vault.storage import items
from vault.storage.statements import STATEMENTS

ALICE = Principal(tenant="acme", subject="alice")
BOB = Principal(tenant="acme", subject="bob")
EVE = Principal(tenant="other", subject="alice")
SPACE = ("users", "alice")
ABSENT = "there is no such derived item"


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def session(alice):
    return alice.sessions.create(title="August sales")


@pytest.fixture
def put(alice, session):
    """Puts a memory that comes from the session."""

    def made(key, value, namespace=SPACE, **about):
        return alice.memories.put(namespace, key, value, **{"sources": [session], **about})

    return made


def keys_of(memories):
    return [memory.key for memory in memories]


# ------------------------------------------------------------------------------------- put and get


def test_a_memory_reads_back_as_exactly_what_was_put(put, alice):
    for value in (None, False, 0, "", "tea", [], {}, {"likes": ["tea", None, 1.5]}, "é" * 100_000):
        put("taste", value)
        found = alice.memories.get(SPACE, "taste").value
        assert (found, type(found)) == (value, type(value))


def test_a_memory_says_what_it_is_and_where_it_came_from(alice, session, put):
    asked = session.append("message.user", {"content": "hello"})
    made = put("taste", 1, sources=[asked], labels={"purpose": "sales"}, kind="summary")
    found = alice.memories.get(SPACE, "taste", kind="summary")
    assert found == made
    assert (found.namespace, found.key, found.version, found.state) == (SPACE, "taste", 1, "live")
    assert (found.kind, found.labels, found.reason) == ("summary", {"purpose": "sales"}, None)
    assert found.on_source_erased == "recompute"  # what the policy says of a summary
    assert [(one.kind, one.id, one.session_id) for one in found.sources] == [("event", asked.id, session.id)]


def test_a_memory_is_there_after_the_vault_was_closed(place, put, vault):
    put("taste", "tea")
    vault.close()
    with Vault.open(place) as again:
        assert again.access(ALICE).memories.get(SPACE, "taste").value == "tea"


def test_a_value_larger_than_a_row_stands_in_the_blob_area(put, alice, place):
    value = [f"{number:x}" for number in range(60_000)]
    put("long", value)
    assert list((place / "blobs").glob("??/*"))
    assert alice.memories.get(SPACE, "long").value == value
    assert alice.memories.search(text="ea5f")[0].value == value


def test_a_new_version_supersedes_the_one_before_and_both_stay(put, alice):
    first, second = put("taste", "tea"), put("taste", "coffee")
    assert alice.memories.get(SPACE, "taste") == second
    history = alice.memories.history(SPACE, "taste")
    assert [(one.id, one.version, one.state, one.value) for one in history] == [
        (second.id, 2, "live", "coffee"),
        (first.id, 1, "superseded", "tea"),
    ]
    assert keys_of(alice.memories.list()) == ["taste"]


def test_history_is_read_page_by_page_to_its_limit(put, alice):
    for number in range(7):
        put("taste", number)
    assert [one.value for one in alice.memories.history(SPACE, "taste", limit=3)] == [6, 5, 4]
    assert [one.value for one in alice.memories.history(SPACE, "taste")] == list(range(6, -1, -1))


def test_the_same_key_in_another_namespace_or_kind_is_another_memory(put, alice):
    places = [((), "memory"), (("a",), "memory"), (("a", "b"), "memory"), (("a",), "cache")]
    for number, (namespace, kind) in enumerate(places):
        put("b", number, namespace=namespace, kind=kind)
    found = [alice.memories.get(namespace, "b", kind=kind).value for namespace, kind in places]
    assert found == [0, 1, 2, 3]
    assert {alice.memories.get(namespace, "b", kind=kind).version for namespace, kind in places} == {1}


def test_two_processes_see_and_supersede_each_others_memories(vault, place, put, alice, session):
    put("taste", "tea")
    with Vault.open(place) as other:
        theirs = other.access(ALICE).memories
        assert [one.value for one in theirs.search()] == ["tea"]
        assert theirs.put(SPACE, "taste", "coffee", sources=[session.id]).version == 2
        assert [one.value for one in alice.memories.search()] == ["coffee"]
        put("taste", "milk")
        assert [one.value for one in theirs.search()] == ["milk"]
        assert theirs.get(SPACE, "taste").version == 3


WRITER = """
import sys
from vault import Principal, Vault
with Vault.open(sys.argv[1]) as vault:
    alice = vault.access(Principal(tenant="acme", subject="alice"))
    for number in range(10):
        alice.memories.put(("users", "alice"), "taste", [sys.argv[3], number], sources=[sys.argv[2]])
"""


def test_two_processes_that_write_the_same_name_make_one_line_of_versions(
    vault, place, python, alice, session
):
    writers = [python(WRITER, place, session.id, name) for name in "ab"]
    for writer in writers:
        assert writer.wait(60) == 0, writer.stderr.read()
    history = alice.memories.history(SPACE, "taste")
    assert [one.version for one in history] == list(range(20, 0, -1))
    assert [one.state for one in history] == ["live"] + ["superseded"] * 19
    for name in "ab":
        assert [one.value[1] for one in history if one.value[0] == name] == list(range(9, -1, -1))
    assert list(ItemsVerification(vault._log).run()) == []


# ------------------------------------------------------------------------------------ whose it is


@pytest.mark.parametrize("other", [BOB, EVE], ids=["another owner", "another tenant"])
def test_a_memory_is_not_there_for_anybody_else(vault, put, other):
    put("taste", "tea")
    theirs = vault.access(other).memories
    for ask in (lambda: theirs.get(SPACE, "taste"), lambda: theirs.get(SPACE, "nothing")):
        with pytest.raises(NotFound) as refused:
            ask()
        assert str(refused.value) == ABSENT
    assert (theirs.search(), theirs.list(), theirs.history(SPACE, "taste")) == ([], [], [])


def test_the_same_name_of_two_owners_is_two_memories(vault, put, alice):
    put("taste", "tea")
    bob = vault.access(BOB)
    own = bob.sessions.create()
    assert bob.memories.put(SPACE, "taste", "milk", sources=[own]).version == 1
    assert bob.memories.get(SPACE, "taste").value == "milk"
    assert alice.memories.get(SPACE, "taste").value == "tea"


@pytest.mark.parametrize("roles", [{"auditor"}, {"support"}, {"privacy_officer"}, {"administrator"}, set()])
def test_a_role_that_works_with_nothing_of_its_own_gets_nothing(roles, vault, session, put, alice):
    """O1: Alice herself, in a role that is for others' sessions."""
    made, file = put("taste", "tea"), alice.artifacts.put("a", b"1", sources=[session])
    other = vault.access(Principal(tenant="acme", subject="alice", roles=frozenset(roles)))
    for ask in (
        lambda: other.memories.put(SPACE, "taste", 1, sources=[session]),
        lambda: other.memories.get(SPACE, "taste"),
        lambda: other.artifacts.put("a", b"1", sources=[session]),
        lambda: other.artifacts.get("a"),
        lambda: other.derived.lineage(made.id),
        lambda: other.derived.lineage(file.id),
    ):
        with pytest.raises(NotFound):
            ask()
    assert (other.memories.list(), other.memories.search(), other.memories.history(SPACE, "taste")) == (
        [],
        [],
        [],
    )
    assert other.artifacts.list() == []


def test_every_call_asks_again_so_a_closed_vault_answers_none(vault, put, alice):
    made, file = put("taste", "tea"), alice.artifacts.put("a", b"1", sources=[put("b", 1)])
    vault.close()
    for ask in (
        lambda: put("taste", 1),
        lambda: alice.memories.get(SPACE, "taste"),
        lambda: alice.memories.history(SPACE, "taste"),
        alice.memories.list,
        alice.memories.search,
        lambda: alice.artifacts.put("a", b"1", sources=[made]),
        lambda: alice.artifacts.get("a"),
        alice.artifacts.list,
        file.open,
        lambda: alice.derived.lineage(made.id),
    ):
        with pytest.raises(VaultClosed):
            ask()


def test_no_statement_finds_an_item_without_its_tenant_and_owner():
    """Invariant 8: but for verification, and what an erasure asks for in its tenant."""
    used = set(re.findall(r'"(\w+)"', Path(items.__file__).read_text(encoding="utf-8"))) & STATEMENTS.keys()
    reads = {name for name in used if STATEMENTS[name].startswith("SELECT")} - {"lineage_of"}
    assert len(reads) == 7
    for name in reads:
        assert re.search(r"tenant_id = :tenant_id AND (\w\.)?owner = :owner", STATEMENTS[name]), name


# ---------------------------------------------------------------------------------- find and list


@pytest.fixture
def many(put):
    put("a", {"city": "Oslo", "age": 31, "tags": ["x"], "vip": True})
    put("b", {"city": "Rome", "age": 25, "note": "Likes LEMON tea"})
    put("c", {"city": "Oslo", "age": 1, "vip": 1}, namespace=("users", "bob"))
    put("d", ["Oslo"], namespace=("teams",))


def test_a_search_finds_what_matches_below_a_namespace_newest_first(many, alice):
    for prefix, asked, keys in [
        ((), {}, "dcba"),
        (("users",), {}, "cba"),
        (SPACE, {}, "ba"),
        (("user",), {}, ""),
        ((), {"filter": {"city": "Oslo"}}, "ca"),
        ((), {"filter": {"city": "Oslo", "age": 31}}, "a"),
        ((), {"filter": {"age": {"$gt": 1}}}, "ba"),
        ((), {"filter": {"age": {"$gte": 1, "$lt": 31}}}, "cb"),
        ((), {"filter": {"age": {"$gt": "1"}}}, ""),
        ((), {"filter": {"city": {"$ne": "Oslo"}}}, "b"),
        ((), {"filter": {"city": {"$in": ["Rome", "Paris"]}}}, "b"),
        ((), {"filter": {"vip": True}}, "a"),
        ((), {"filter": {"vip": 1}}, "c"),
        ((), {"filter": {"tags": ["x"]}}, "a"),
        ((), {"filter": {"nothing": None}}, ""),
        ((), {"text": "lemon TEA"}, "b"),
        ((), {"text": "oslo"}, "dca"),
        ((), {"text": "oslo", "filter": {"age": 1}}, "c"),
        ((), {"limit": 2}, "dc"),
        ((), {"kind": "cache"}, ""),
    ]:
        assert "".join(keys_of(alice.memories.search(prefix, **asked))) == keys, (prefix, asked)


def test_a_list_is_in_the_order_of_namespaces_and_keys(many, alice):
    found = [(one.namespace, one.key) for one in alice.memories.list()]
    assert found == sorted(found)
    assert len(found) == 4
    assert keys_of(alice.memories.list(("users",), limit=2)) == ["a", "b"]


def test_a_search_sees_what_was_put_superseded_and_added_since_the_last_one(put, alice):
    put("a", "tea")
    assert keys_of(alice.memories.search(text="tea")) == ["a"]
    put("b", "tea")
    put("a", "milk")
    assert keys_of(alice.memories.search(text="tea")) == ["b"]
    assert keys_of(alice.memories.search(text="milk")) == ["a"]


def test_what_does_not_fit_into_memory_is_found_all_the_same(vault, put, many, alice):
    for bytes_max in (1, 700, 1_500):
        alice.memories._index = Index(bytes_max=bytes_max)
        for _ in range(2):
            assert keys_of(alice.memories.search(text="oslo")) == ["d", "c", "a"]
            assert alice.memories._index._size <= bytes_max
        assert len(alice.memories.list()) == 4


def test_what_was_replaced_since_it_was_indexed_is_not_shown(vault, many, put, alice, monkeypatch):
    grant = vault._door.authorise(ALICE, "read")
    indexed = alice.memories._index.entries(vault._log, grant, "memory", ())
    put("a", "another")
    monkeypatch.setattr(Index, "entries", lambda *_: indexed)
    assert keys_of(alice.memories.search(text="oslo")) == ["d", "c"]
    assert keys_of(alice.memories.list()) == ["d", "b", "c"]


def test_a_search_refuses_to_look_through_more_than_its_window(many, alice, monkeypatch):
    monkeypatch.setattr(index, "WINDOW_MAX", 3)
    with pytest.raises(LimitExceeded):
        alice.memories.search()
    assert len(alice.memories.search(("users",))) == 3


def test_a_search_of_a_new_tenant_finds_nothing_and_makes_no_tenant(vault):
    stranger = vault.access(Principal(tenant="new", subject="x"))
    assert (stranger.memories.search(), stranger.memories.list()) == ([], [])
    assert vault._keys.tenant("new", create=False) is None


# ------------------------------------------------------------------------------------ how long


def test_a_memory_is_hidden_when_its_time_is_over_and_a_longer_one_is_the_policys(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as vault:
        alice = vault.access(ALICE)
        session = alice.sessions.create()
        made = alice.memories.put((), "a", 1, sources=[session], ttl=timedelta(minutes=5))
        plain = alice.memories.put((), "b", 1, sources=[session])
        long = alice.memories.put((), "c", 1, sources=[session], ttl=timedelta(days=36_500))
        assert made.expires_at - made.created_at == timedelta(minutes=5)
        assert long.expires_at == plain.expires_at
        clock.now += 299_999_999
        assert keys_of(alice.memories.list()) == ["a", "b", "c"]
        clock.now += 1
        assert keys_of(alice.memories.list()) == ["b", "c"]
        with pytest.raises(NotFound, match=ABSENT):
            alice.memories.get((), "a")
        with pytest.raises(NotFound):
            alice.memories.put((), "d", 1, sources=[made])
        assert alice.memories.history((), "a") == []
        assert alice.memories.put((), "a", 2, sources=[session]).version == 2


def test_the_hour_of_the_sweep_is_never_late(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as vault:
        alice = vault.access(ALICE)
        made = alice.memories.put((), "a", 1, sources=[alice.sessions.create()], ttl=timedelta(hours=5))
        with vault._records.snapshot() as reader:
            (row,) = reader.scan("all_items", after=0, limit=10)
        row = ItemRow._make(row)
        due = due_us(decode(row.retention), Times(row.created_us, row.created_us))
        assert 0 <= due - row.due_hour * HOUR_US < HOUR_US
        assert due >= made.expires_at.timestamp() * 1_000_000


# ------------------------------------------------------------------------------------ bad input


def test_what_cannot_be_stored_is_refused_in_words_that_quote_nothing(put, vault):
    for namespace, key, value, about, kind in [
        ("users", "a", 1, {}, InvalidInput),
        (["users", 7], "a", 1, {}, InvalidInput),
        (("",), "a", 1, {}, InvalidInput),
        (("x",) * 9, "a", 1, {}, LimitExceeded),
        (("x" * 257,), "a", 1, {}, InvalidInput),
        (SPACE, "", 1, {}, InvalidInput),
        (SPACE, "x" * 257, 1, {}, InvalidInput),
        (SPACE, None, 1, {}, InvalidInput),
        (SPACE, "a", {1: 2}, {}, InvalidInput),
        (SPACE, "a", float("nan"), {}, InvalidInput),
        (SPACE, "a", "x" * (VALUE_BYTES_MAX - 1), {}, LimitExceeded),
        (SPACE, "a", 1, {"kind": "artifact"}, InvalidInput),
        (SPACE, "a", 1, {"labels": {"a": 1}}, InvalidInput),
        (SPACE, "a", 1, {"labels": {str(n): "x" for n in range(33)}}, InvalidInput),
        (SPACE, "a", 1, {"ttl": timedelta(0)}, InvalidInput),
        (SPACE, "a", 1, {"ttl": 5}, InvalidInput),
        (SPACE, "a", 1, {"ttl": timedelta(days=40_000)}, InvalidInput),
        (SPACE, "a", 1, {"reason": ""}, InvalidInput),
        (SPACE, "a", 1, {"on_source_erased": "keep"}, InvalidInput),
        (SPACE, "a", 1, {"on_source_erased": ["detach"]}, InvalidInput),
        (SPACE, "a", 1, {"labels": [("a", "b")]}, InvalidInput),
        (SPACE, "a", 1, {"kind": None}, InvalidInput),
        (b"ab", "a", 1, {}, InvalidInput),
        ({"a"}, "a", 1, {}, InvalidInput),
        (SPACE, "a", 1, {"on_source_erased": "detach", "reason": "a count"}, InvalidInput),
        (SPACE, "a", 1, {"on_source_erased": "detach", "kind": "cache"}, InvalidInput),
    ]:
        with pytest.raises(kind) as refused:
            put(key, value, namespace=namespace, **about)
        assert "xx" not in str(refused.value)
        assert (kind is LimitExceeded) == isinstance(refused.value, LimitExceeded)
    with vault._records.snapshot() as reader:
        assert list(reader.scan("all_items", after=0, limit=10)) == []


def test_a_malformed_search_is_refused(alice):
    for asked in [
        {"filter": ["a"]},
        {"filter": {1: 2}},
        {"filter": {"a": {"$near": 1}}},
        {"filter": {"a": {"$in": "abc"}}},
        {"filter": {str(n): 1 for n in range(33)}},
        {"text": ""},
        {"text": "x" * 1001},
        {"limit": 0},
        {"limit": True},
        {"limit": 1001},
        {"kind": "artifact"},
        {"namespace_prefix": "users"},
    ]:
        with pytest.raises(InvalidInput):
            alice.memories.search(**asked)


def test_a_value_of_exactly_the_limit_is_taken(put, alice):
    put("a", "x" * (VALUE_BYTES_MAX - 2))
    assert len(alice.memories.get(SPACE, "a").value) == VALUE_BYTES_MAX - 2


def test_nothing_of_a_memory_shows_in_its_repr(put):
    made = put("sweet-tooth", {"likes": "marzipan"}, labels={"who": "alice"}, reason="only-this")
    for word in ("sweet-tooth", "marzipan", "who", "only-this", "users"):
        assert word not in repr(made)


def test_a_disk_that_is_full_leaves_no_half_of_a_memory(vault, put, alice, monkeypatch):
    put("a", 1)

    def full(*_):
        raise RuntimeError

    monkeypatch.setattr("vault.storage.items.SqlItems.add", full)
    with contextlib.suppress(RuntimeError):
        put("a", 2)
    monkeypatch.undo()
    found = alice.memories.get(SPACE, "a")
    assert (found.value, found.version, found.state) == (1, 1, "live")
