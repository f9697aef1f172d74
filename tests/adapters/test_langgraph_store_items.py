"""LangGraph's store: items, batches, filters and namespaces behave as its interface says (A2).

Where a store that ships with LangGraph is known to do otherwise, the test says what is right.
"""

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from tests.adapters.langgraph_store_case import MovedClock
from vault import Principal, Vault
from vault.adapters.langgraph_store import VaultStore
from vault.adapters.langgraph_store_items import ITEMS, place
from vault.errors import InvalidInput, LimitExceeded

USERS = ("users", "alice")


@pytest.fixture
def clock():
    return MovedClock()


@pytest.fixture
def store(alice, clock):
    return VaultStore(alice, clock=clock)


def keys_of(items):
    return [item.key for item in items]


# ------------------------------------------------------------------------------------ put, get, delete


def test_an_item_reads_back_as_exactly_what_was_put(store):
    """A2."""
    value = {"text": "é", "list": [1, 2.5, None, True], "nested": {"a": {"b": []}}}
    store.put(USERS, "taste", value)
    found = store.get(USERS, "taste")
    assert isinstance(found, Item)
    assert (found.namespace, found.key, found.value) == (USERS, "taste", value)
    assert store.get(USERS, "other") is None
    assert store.get(("users",), "taste") is None


def test_an_update_keeps_when_the_item_was_made(store, clock):
    """A2: ``created_at`` survives updates, and a deleted item that is put again starts anew."""
    store.put(USERS, "taste", {"likes": "tea"})
    made = store.get(USERS, "taste")
    clock.move(minutes=1)
    store.put(USERS, "taste", {"likes": "coffee"})
    changed = store.get(USERS, "taste")
    assert changed.value == {"likes": "coffee"}
    assert changed.created_at == made.created_at < changed.updated_at
    store.delete(USERS, "taste")
    assert store.get(USERS, "taste") is None
    store.put(USERS, "taste", {"likes": "water"})
    assert store.get(USERS, "taste").created_at == changed.updated_at


def test_deleting_erases_all_versions(store, alice):
    """D5: neither the history nor the search of the vault has anything left."""
    for likes in ("tea", "coffee"):
        store.put(USERS, "taste", {"likes": likes})
    names = place(ITEMS, USERS, "taste")
    assert len(alice.memories.history(*names)) == 2
    store.delete(USERS, "taste")
    store.delete(USERS, "taste")  # again: nothing to do
    assert alice.memories.history(*names) == [] == alice.memories.list()
    assert store.search(()) == [] == store.list_namespaces()


def test_what_is_kept_is_no_alias_of_what_was_given_or_shown(store):
    """A2: neither the caller's dict nor a result reaches into the store."""
    given_value = {"list": [1]}
    store.put(USERS, "a", given_value)
    given_value["list"].append(2)
    for shown in (store.get(USERS, "a"), store.search(USERS)[0]):
        assert shown.value == {"list": [1]}
        shown.value["list"].append(3)
    assert store.get(USERS, "a").value == {"list": [1]}


def test_an_item_is_there_for_the_next_store(store, alice):
    store.put(USERS, "a", {"x": 1})
    assert VaultStore(alice).get(USERS, "a").value == {"x": 1}


def test_what_json_cannot_hold_is_refused_before_anything_is_written(store):
    """A2: of a batch, nothing is written then; and the error quotes nothing."""
    bad = {"x": object()}, {"x": float("nan")}, {"x": {1: "secret"}}, {"x": 2**70}
    for value in bad:
        with pytest.raises(InvalidInput) as raised:
            store.batch([PutOp(USERS, "good", {"x": 1}), PutOp(USERS, "bad", value)])
        assert "secret" not in str(raised.value)
    with pytest.raises(LimitExceeded):
        store.batch([PutOp(USERS, "good", {"x": 1}), PutOp(USERS, "large", {"x": "x" * 2**20})])
    assert store.search(()) == []


# --------------------------------------------------------------------------------------------- names

#: Names that a store of LangGraph takes.
LABELS = st.text(st.characters(codec="utf-8", exclude_characters=".\x00"), min_size=1, max_size=300)
NAMES = st.tuples(st.lists(LABELS, min_size=1, max_size=12).map(tuple), st.text(max_size=300))


@given(st.lists(NAMES, min_size=2, max_size=5, unique=True))
def test_no_two_items_stand_in_the_same_memory(names):
    """O1: deep namespaces and long keys are hashed; what looks like a hash is not mistaken for one."""
    places = [place(ITEMS, *name) for name in names]
    assert len(set(places)) == len(names)


def test_a_name_that_is_the_hash_of_another_is_no_alias_of_it():
    """O1."""
    long = place(ITEMS, ("a",), "k" * 5000)
    assert place(ITEMS, ("a",), long.key) != long
    deep = place(ITEMS, ("a" * 5000,), "k")
    assert place(ITEMS, deep.namespace[1:], "k") != deep


@pytest.mark.parametrize(
    ("namespace", "key"),
    [
        (("a",) * 30, "key"),
        (("a" * 5000,), "key"),
        (("a",), "k" * 5000),
        (("a",), ""),
        (("a",), "sha256:" + "0" * 64),
        (("sha256:" + "0" * 64,), "key"),
        (("a b/c\\d*?[x]%_", "ü\n"), "k/.. \n\x00"),
    ],
)
def test_all_names_that_langgraph_takes_work(namespace, key, store):
    """A2."""
    store.put(namespace, key, {"x": 1})
    found = store.get(namespace, key)
    assert (found.namespace, found.key) == (namespace, key)
    assert [(one.namespace, one.key) for one in store.search(namespace)] == [(namespace, key)]
    assert store.list_namespaces() == [namespace]
    store.delete(namespace, key)
    assert store.get(namespace, key) is None


def test_namespaces_match_by_segment(store):
    """A2, O1: a prefix is whole names, in their case; what begins with the same letters is elsewhere."""
    for namespace in (
        ("tenant", "acme"),
        ("tenant", "acme-corp"),
        ("tenant", "ACME"),
        ("tenant", "acm_"),
        ("tenant",),
    ):
        store.put(namespace, "k", {})
    assert [one.namespace for one in store.search(("tenant", "acme"))] == [("tenant", "acme")]
    assert store.list_namespaces(prefix=("tenant", "acme")) == [("tenant", "acme")]
    assert [one.namespace for one in store.search(("tenant", "acm_"))] == [("tenant", "acm_")]
    assert store.search(("tenan",)) == []
    assert len(store.search(("tenant",))) == 5


def test_prefixes_stay_exact_below_the_depth_of_a_memorys_namespace(store):
    """A2: names beyond the seventh are compared as all others are."""
    deep = tuple("abcdefg")
    store.put((*deep, "h1"), "k", {})
    store.put((*deep, "h2", "i"), "k", {})
    assert [one.namespace for one in store.search((*deep, "h1"))] == [(*deep, "h1")]
    assert [one.namespace for one in store.search((*deep, "h2"))] == [(*deep, "h2", "i")]
    assert len(store.search(deep)) == 2
    assert store.list_namespaces(prefix=(*deep, "h1")) == [(*deep, "h1")]


@pytest.mark.parametrize("namespace", [("foo.bar",), ("foo\x00",), ("foo", ""), (123,)])
def test_raw_operations_are_checked_as_well(namespace, store):
    """A2: what comes through ``batch`` cannot address another namespace; the error quotes nothing."""
    for op in (
        GetOp(namespace, "k"),
        PutOp(namespace, "k", {}),
        SearchOp(namespace),
        ListNamespacesOp((MatchCondition("prefix", namespace),)),
    ):
        with pytest.raises(InvalidNamespaceError) as raised:
            store.batch([op])
        assert "foo" not in str(raised.value)
    for op in (PutOp((), "k", {}), PutOp(USERS, 5, {}), GetOp(USERS, None), PutOp(USERS, "k", [1]), "no op"):
        with pytest.raises(ValueError, match=r"\w"):
            store.batch([op])


# ------------------------------------------------------------------------------------------- batches


def test_a_batch_reads_first_and_puts_last(store):
    """A2: a get beside a put sees what was before, and of several puts the last counts."""
    store.put(USERS, "a", {"x": 0})
    results = store.batch(
        [
            PutOp(USERS, "a", {"x": 1}),
            GetOp(USERS, "a"),
            PutOp(USERS, "a", {"x": 2}),
            PutOp(USERS, "b", {"x": 3}),
            PutOp(USERS, "b", None),
            SearchOp(USERS),
            ListNamespacesOp(),
        ]
    )
    assert [results[at] for at in (0, 2, 3, 4)] == [None] * 4
    assert results[1].value == {"x": 0}
    assert [one.value for one in results[5]] == [{"x": 0}]
    assert results[6] == [USERS]
    assert store.get(USERS, "a").value == {"x": 2}
    assert store.get(USERS, "b") is None
    assert store.batch([]) == []


def test_the_async_face_does_the_same(store):
    """A2."""

    async def program():
        await store.aput(USERS, "a", {"x": 1})
        found = await store.aget(USERS, "a"), await store.asearch(USERS), await store.alist_namespaces()
        await store.adelete(USERS, "a")
        return found, await store.aget(USERS, "a")

    (got, searched, listed), gone = asyncio.run(program())
    assert got.value == searched[0].value == {"x": 1}
    assert listed == [USERS]
    assert gone is None


def test_a_cancelled_put_is_there_or_not_but_never_half(store):
    """A2: whoever cancels finds the put settled."""

    async def program():
        task = asyncio.create_task(store.aput(USERS, "a", {"x": 1}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await store.aget(USERS, "a")

    found = asyncio.run(program())
    assert found is None or found.value == {"x": 1}


# -------------------------------------------------------------------------------------------- search


def test_a_search_shows_what_was_put_last_first_page_by_page(store, clock):
    """A2."""
    for number in range(25):
        store.put(USERS, f"k{number:02}", {"n": number})
        clock.move(minutes=1)
    store.put(USERS, "k03", {"n": 100})
    wanted = ["k03", *[f"k{number:02}" for number in reversed(range(25)) if number != 3]]
    assert keys_of(store.search(USERS, limit=100)) == wanted
    assert keys_of(store.search(USERS)) == wanted[:10]
    pages = [keys_of(store.search(USERS, limit=7, offset=at)) for at in range(0, 28, 7)]
    assert [key for page in pages for key in page] == wanted
    assert keys_of(store.search(USERS, filter={"n": {"$lt": 5}}, limit=2, offset=1)) == ["k02", "k01"]
    assert store.search(USERS, limit=0) == []
    assert store.search(USERS, offset=100) == []
    for wrong in ({"limit": -1}, {"offset": -1}):
        with pytest.raises(InvalidInput):
            store.search(USERS, **wrong)


@pytest.mark.slow
def test_a_search_looks_through_more_than_a_thousand_items(alice):
    """A2: nothing is cut off at what the vault answers at once."""
    store = VaultStore(alice, scope=alice.sessions.create())
    store.batch([PutOp(USERS, f"k{number}", {"n": number}) for number in range(1_050)])
    assert len(store.search(USERS, limit=2_000)) == 1_050
    assert keys_of(store.search(USERS, filter={"n": 0})) == ["k0"]


VALUES = {
    "tea": {"price": 3, "kind": "drink", "tags": ["hot", "leaf"], "maker": {"name": "A", "rank": 1}},
    "milk": {"price": 3.5, "kind": "drink", "tags": ["cold"], "maker": {"name": "B", "rank": 2}},
    "bread": {"price": 4, "kind": "food", "tags": [], "maker": None, "fresh": True},
    "odd": {"price": "3", "kind": 1, "a.b": 1, "$x": 1},
}


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        (None, "tea milk bread odd"),
        ({}, "tea milk bread odd"),
        ({"kind": "drink"}, "tea milk"),
        ({"kind": "drink", "price": 3}, "tea"),
        ({"price": {"$eq": 3.0}}, "tea"),
        ({"price": {"$ne": 3}}, "milk bread odd"),
        ({"price": {"$gt": 3}}, "milk bread"),
        ({"price": {"$gte": 3, "$lt": 4}}, "tea milk"),
        ({"price": {"$lte": 3.5}}, "tea milk"),
        ({"price": {"$gt": "2"}}, "odd"),
        ({"maker": {"name": "A"}}, "tea"),
        ({"maker": {"rank": {"$gt": 1}}}, "milk"),
        ({"maker": {"$eq": {"name": "A"}}}, ""),
        ({"maker": {"$eq": {"name": "A", "rank": 1}}}, "tea"),
        ({"tags": ["hot", "leaf"]}, "tea"),
        ({"tags": ["hot"]}, ""),
        ({"fresh": True}, "bread"),
        ({"fresh": 1}, ""),
        ({"kind": True}, ""),
        ({"kind": 1}, "odd"),
        ({"maker": None}, "bread"),
        ({"missing": None}, ""),
        ({"missing": {"$ne": 1}}, ""),
        ({"fresh": {"$gt": False}}, ""),
        ({"a.b": 1}, "odd"),
        ({"a": {"b": 1}}, ""),
    ],
    ids=str,
)
def test_a_filter_compares_fields(wanted, keys, store):
    """A2: what an item has not, it does not pass; true is not 1; a dict may say only some of the fields."""
    for key, value in VALUES.items():
        store.put(USERS, key, value)
    assert set(keys_of(store.search(USERS, filter=wanted))) == set(keys.split())


@pytest.mark.parametrize(
    "wanted",
    [
        {"price": {"$in": [3]}},
        {"price": {"$regex": "x"}},
        {"price": {"$gt": 1, "name": 2}},
        {"maker": {"rank": {"$where": 1}}},
        {"tags": [{"$no": 1}]},
        {"$or": [{"price": 3}]},
        {5: 1},
        [("price", 3)],
    ],
    ids=str,
)
def test_a_filter_that_is_not_known_is_refused(wanted, store):
    """A2: it never widens, not even where there is nothing to compare with."""
    for _ in range(2):
        with pytest.raises(ValueError, match="filter"):
            store.search(USERS, filter=wanted)
        store.put(USERS, "k", {"other": 1})


# --------------------------------------------------------------------------------- listing namespaces


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, "a/b/c a/b/d/e a/b/d/i a/c/f b/a/f users/alice/v1"),
        ({"prefix": ("a", "b")}, "a/b/c a/b/d/e a/b/d/i"),
        ({"suffix": ("f",)}, "a/c/f b/a/f"),
        ({"prefix": ("a",), "suffix": ("f",)}, "a/c/f"),
        ({"prefix": ("*", "b")}, "a/b/c a/b/d/e a/b/d/i"),
        ({"prefix": ("a", "*", "c")}, "a/b/c"),
        ({"suffix": ("*", "v1")}, "users/alice/v1"),
        ({"suffix": ("alice", "*")}, "users/alice/v1"),
        ({"max_depth": 2}, "a/b a/c b/a users/alice"),
        ({"prefix": ("a",), "max_depth": 1}, "a"),
        ({"prefix": ("a",), "limit": 2}, "a/b/c a/b/d/e"),
        ({"prefix": ("a",), "limit": 2, "offset": 2}, "a/b/d/i a/c/f"),
        ({"limit": 0}, ""),
        ({"offset": 10}, ""),
        ({"prefix": ("a", "b", "c", "d", "e", "f")}, ""),
    ],
    ids=str,
)
def test_namespaces_are_listed(asked, found, store):
    """A2."""
    for name in ("a/b/c", "a/b/d/e", "a/b/d/i", "b/a/f", "users/alice/v1", "a/c/f"):
        store.put(tuple(name.split("/")), "id", {})
        store.put(tuple(name.split("/")), "id2", {})
    assert ["/".join(one) for one in store.list_namespaces(**asked)] == found.split()


def test_a_namespace_without_items_is_not_listed(store):
    """A2: it goes with its last item."""
    store.put(USERS, "a", {})
    store.put(("other",), "a", {})
    store.delete(USERS, "a")
    assert store.list_namespaces() == [("other",)]


def test_a_filter_has_an_end(store):
    """A2: one that contains itself is refused."""
    wanted = {"a": {}}
    wanted["a"]["b"] = wanted
    with pytest.raises(LimitExceeded):
        store.search(USERS, filter=wanted)


def test_a_listing_that_cannot_be_meant_is_refused(store):
    """A2."""
    for op in (
        ListNamespacesOp(max_depth=0),
        ListNamespacesOp(limit=-1),
        ListNamespacesOp((MatchCondition("infix", ("a",)),)),
    ):
        with pytest.raises(InvalidInput):
            store.batch([op])


def test_what_an_owner_wrote_there_by_hand_is_no_item(store, alice):
    """A2: only what the store put is shown, under its own names, and nothing else breaks it."""
    session = alice.sessions.create()
    store.put(("elsewhere",), "k", {"x": 1})
    copied = alice.memories.get(*place(ITEMS, ("elsewhere",), "k")).value
    alice.memories.put(*place(ITEMS, USERS, "c"), copied, sources=[session])
    assert store.get(USERS, "c") is None
    store.delete(("elsewhere",), "k")
    alice.memories.put((ITEMS, *USERS), "a", {"by": "hand"}, sources=[session])
    alice.memories.put((ITEMS, *USERS), "b", {"langgraph": {"by": "hand"}}, sources=[session])
    assert store.get(USERS, "a") is None
    assert store.get(USERS, "b") is None
    assert store.search(()) == [] == store.list_namespaces()


# ------------------------------------------------------------------------------------------ as a whole

NAMESPACES = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "l"])
DONE = st.one_of(
    st.tuples(NAMESPACES, KEYS, st.fixed_dictionaries({"n": st.integers(0, 3)})).map(lambda one: PutOp(*one)),
    st.tuples(NAMESPACES, KEYS, st.none()).map(lambda one: PutOp(*one)),
    st.tuples(NAMESPACES, KEYS).map(lambda one: GetOp(*one)),
    st.tuples(NAMESPACES | st.just(()), st.sampled_from([None, {"n": 1}]), st.just(99)).map(
        lambda one: SearchOp(*one)
    ),
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One vault for all examples; each has an owner of its own."""
    with pytest.MonkeyPatch.context() as patch:
        at = tmp_path_factory.mktemp("shared")
        patch.setenv("XDG_STATE_HOME", str(at / "state"))
        with Vault.create(at / "the.vault", settings={"synchronous": "NORMAL"}) as opened:
            yield opened


def plain(result):
    """A result without its times and order."""
    if isinstance(result, Item):
        return (result.namespace, result.key, result.value)
    if isinstance(result, list):
        return sorted(map(plain, result), key=str)
    return result


@settings(max_examples=20)
@given(batches=st.lists(st.lists(DONE, max_size=5), max_size=5))
def test_any_batches_do_what_they_do_in_memory(batches, shared):
    """A2: whatever is put, deleted and asked for, in whatever order."""
    subject = f"owner {next(OWNERS)}"
    store = VaultStore(shared.access(Principal(tenant="acme", subject=subject)))
    model = InMemoryStore()
    for ops in batches:
        assert list(map(plain, store.batch(ops))) == list(map(plain, model.batch(ops)))
    # In memory, a namespace is listed that nothing is left in.
    assert store.list_namespaces() == sorted({item.namespace for item in model.search((), limit=99)})


OWNERS = itertools.count()
