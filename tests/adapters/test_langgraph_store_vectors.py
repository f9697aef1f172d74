"""LangGraph's store: items are found by meaning, and their embeddings go with them (A2, D4, K1)."""

import asyncio

import pytest
from langgraph.store.base import PutOp, SearchOp

from tests.adapters.langgraph_store_case import WORDS, MovedClock, counted
from vault.adapters.langgraph_store import VaultStore
from vault.adapters.langgraph_store_items import ITEMS, place
from vault.errors import InvalidInput, LimitExceeded

DOCS = ("docs",)
INDEX = {"dims": len(WORDS), "embed": counted}


class Recorder:
    """Embeds, and remembers what it was given."""

    def __init__(self):
        self.given = []

    def __call__(self, texts):
        self.given += texts
        return counted(texts)


@pytest.fixture
def store(alice):
    return VaultStore(alice, index=INDEX)


def found(store, query, **asked):
    return [item.key for item in store.search(DOCS, query=query, **asked)]


def embeddings(access):
    return access.memories.list(kind="embedding")


def test_a_query_ranks_by_nearness(store):
    """A2: with the cosine as score, whole vectors compared whatever their length."""
    store.put(DOCS, "sun", {"text": "sun"})
    store.put(DOCS, "mixed", {"text": "tea tea tea rain"})
    store.put(DOCS, "tea", {"text": "tea"})
    first, second, third = store.search(DOCS, query="tea tea")
    assert (first.key, second.key, third.key) == ("tea", "mixed", "sun")
    assert first.score == pytest.approx(1.0)
    assert second.score == pytest.approx(3 / 10**0.5)
    assert third.score == pytest.approx(0.0)
    assert found(store, "tea", limit=1, offset=1) == ["mixed"]
    assert found(store, "tea", filter={"text": {"$ne": "tea"}}) == ["mixed", "sun"]
    assert [item.score for item in store.search(DOCS)] == [None] * 3


def test_a_query_without_an_index_ranks_nothing(alice):
    """A2: as with every store of LangGraph."""
    store = VaultStore(alice)
    store.put(DOCS, "a", {"text": "sun"}, index=["text"])
    assert [(item.key, item.score) for item in store.search(DOCS, query="tea")] == [("a", None)]
    assert embeddings(alice) == []


def test_only_the_fields_of_the_index_reach_the_embedder(alice):
    """A2, K1: what is not to be searched is not sent to a model."""
    embed = Recorder()
    store = VaultStore(alice, index={"dims": 4, "embed": embed, "fields": ["text", "parts[*].body"]})
    store.put(DOCS, "a", {"text": "tea", "ssn": "111-11-1111", "parts": [{"body": "rain"}, {"body": "sun"}]})
    store.put(DOCS, "b", {"text": "coffee", "note": "sun"}, index=["note"])
    store.put(DOCS, "c", {"text": "coffee"}, index=False)
    store.put(DOCS, "d", {"other": "coffee"})
    assert embed.given == ["tea", "rain", "sun", "sun"]
    assert {memory.key for memory in embeddings(alice)} == {"a", "b"}
    assert found(store, "rain")[0] == "a"  # the nearest of its vectors counts
    assert found(store, "sun")[:2] == ["b", "a"]


def test_the_whole_item_is_embedded_when_no_fields_are_said(alice):
    """A2."""
    embed = Recorder()
    store = VaultStore(alice, index={"dims": 4, "embed": embed})
    store.put(DOCS, "a", {"b": "tea", "a": 1})
    assert embed.given == ['{"a": 1, "b": "tea"}']


def test_items_without_a_vector_come_last(store):
    """A2: they can be meant, too, but nothing says how well."""
    store.put(DOCS, "plain", {"text": "tea"}, index=False)
    store.put(DOCS, "sun", {"text": "sun"})
    assert [(one.key, one.score) for one in store.search(DOCS, query="tea")] == [
        ("sun", 0.0),
        ("plain", None),
    ]


def test_an_update_is_found_by_what_it_says_now(store):
    """A2: the vectors of the version before do not count, also when the new one has none."""
    store.put(DOCS, "a", {"text": "tea"})
    store.put(DOCS, "b", {"text": "tea sun"})
    store.put(DOCS, "a", {"text": "rain"})
    assert found(store, "tea") == ["b", "a"]
    store.put(DOCS, "b", {"text": "tea"}, index=False)
    assert [one.score for one in store.search(DOCS, query="tea", filter={"text": "tea"})] == [None]


def test_an_async_embedder_works_for_async_calls(alice):
    """A2."""

    async def embed(texts):
        await asyncio.sleep(0)
        return counted(texts)

    store = VaultStore(alice, index={"dims": 4, "embed": embed})

    async def program():
        await store.abatch([PutOp(DOCS, "a", {"text": "tea"}), PutOp(DOCS, "b", {"text": "sun"})])
        return await store.abatch([SearchOp(DOCS, query="tea"), SearchOp(DOCS, query="sun")])

    assert [[one.key for one in result] for result in asyncio.run(program())] == [["a", "b"], ["b", "a"]]


@pytest.mark.parametrize(
    "embed",
    [
        lambda texts: [[1.0]] * len(texts),
        lambda texts: [[float("nan")] * 4] * len(texts),
        lambda texts: [],
    ],
    ids=["size", "nan", "number"],
)
def test_what_is_no_embedding_is_refused_before_anything_is_written(embed, alice):
    """A2."""
    store = VaultStore(alice, index={"dims": 4, "embed": embed})
    with pytest.raises(InvalidInput):
        store.batch([PutOp(DOCS, "plain", {}, index=False), PutOp(DOCS, "a", {"text": "tea"})])
    assert store.search(()) == []


def test_an_embedder_that_fails_leaves_nothing_written(alice):
    """A2: an item is there with its embeddings, or not at all."""

    def embed(texts):
        raise ConnectionError

    store = VaultStore(alice, index={"dims": 4, "embed": embed})
    with pytest.raises(ConnectionError):
        store.put(DOCS, "a", {"text": "tea"})
    many = VaultStore(alice, index={"dims": 4, "embed": counted, "fields": ["parts[*]"]})
    with pytest.raises(LimitExceeded):
        many.put(DOCS, "b", {"parts": [f"tea {number}" for number in range(40_000)]})
    assert store.search(()) == []


def test_an_index_says_its_dimensions(alice):
    """A2."""
    for dims in ({}, {"dims": 0}, {"dims": "4"}, {"dims": True}):
        with pytest.raises(InvalidInput):
            VaultStore(alice, index={"embed": counted, **dims})
    assert VaultStore(alice, index=INDEX).index_config["dims"] == 4


# ------------------------------------------------------------------------------------- they go with it


def test_an_embedding_goes_with_its_item(store, alice):
    """D4: when it is deleted, and when somebody else erases the item's memory."""
    for key in ("deleted", "erased", "stays"):
        store.put(DOCS, key, {"text": "sun"})
        store.put(DOCS, key, {"text": "tea"})
    store.delete(DOCS, "deleted")
    alice.erasure.erase(memory=alice.memories.get(*place(ITEMS, DOCS, "erased")).id)
    assert [memory.key for memory in embeddings(alice)] == ["stays"]
    assert found(store, "tea") == ["stays"]
    for key in ("deleted", "erased"):
        assert alice.memories.history(*place(ITEMS, DOCS, key), kind="embedding") == []


def test_an_embedding_goes_when_its_item_expires(alice):
    """D3, D4."""
    clock = MovedClock()
    store = VaultStore(alice, index=INDEX, clock=clock)
    store.put(DOCS, "a", {"text": "tea"}, ttl=1)
    clock.move(minutes=1)
    assert found(store, "tea") == []
    assert store.sweep_ttl() == 1
    assert embeddings(alice) == []


def test_an_embedding_names_its_item_as_its_source(store, alice):
    """D4: that is how it goes with it, by its key."""
    store.put(DOCS, "a", {"text": "tea"})
    item = alice.memories.get(*place(ITEMS, DOCS, "a"))
    assert [source.id for source in embeddings(alice)[0].sources] == [item.id]


def test_a_search_by_meaning_reads_only_what_it_shows(store, alice):
    """A2: neither vectors nor what is passed over is something that a run has learned."""
    for key in ("tea", "rain", "sun"):
        store.put(DOCS, key, {"text": key})
    session = alice.sessions.create()
    with session.run():
        assert found(store, "rain", limit=1) == ["rain"]
        made = alice.memories.put(("made",), "k", 1)
    read = alice.memories.get(*place(ITEMS, DOCS, "rain")).id
    assert [source.id for source in made.sources] == [session.id, read]
