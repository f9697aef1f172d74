"""LangGraph's store: what a conversation put goes with it, and is nobody else's (A2, D4, O1, K1)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import PutOp

from tests.adapters.langgraph_store_case import (
    WORDS,
    State,
    counted,
    erase_thread,
    graph_of,
    remember,
    run_of,
)
from vault.adapters.binding import Binding
from vault.adapters.langgraph import VaultSaver
from vault.adapters.langgraph_store import VaultStore
from vault.adapters.langgraph_store_items import ITEMS, place
from vault.errors import Erased, NotFound, VaultError

USERS = ("users", "alice")
CANARY = "canary-5f1e7c"


@pytest.fixture
def store(alice):
    return VaultStore(alice, index={"dims": len(WORDS), "embed": counted})


def thread_of(access, thread):
    return Binding(access, "langgraph").find("thread", thread)


def sources_of(access, key, namespace=USERS):
    return [source.id for source in access.memories.get(*place(ITEMS, namespace, key)).sources]


#: Reads the sealed items of a vault that another process has open.
SEALED = """
import sqlite3, sys
connection = sqlite3.connect(f"file:{sys.argv[1]}/data.db?mode=ro", uri=True)
for (body,) in connection.execute("SELECT body FROM items"):
    print(body.hex())
"""


@pytest.fixture
def sealed(python, place):
    """The ciphertext of every item, as it is in the database now."""

    def read():
        out, err = python(SEALED, place).communicate(timeout=60)
        assert not err, err
        return [bytes.fromhex(line) for line in out.split()]

    return read


# ------------------------------------------------------------------------------------- conversations


def test_a_memory_written_in_a_conversation_goes_with_it(store, alice, vault, files_with, sealed):
    """D4, D6: erase the conversation, search for the memory: neither it nor its embedding is anywhere."""
    graph_of(store, remember).invoke({"said": f"tea {CANARY}"}, run_of("thread-1"))
    assert store.search(("users",), query="tea")[0].value == {"text": f"tea {CANARY}"}
    assert sources_of(alice, "said") == [thread_of(alice, "thread-1").id]
    kept = sealed()
    assert len(kept) == 2

    assert erase_thread(alice, "thread-1")

    assert store.search(("users",), query="tea") == [] == store.search(())
    assert store.get(USERS, "said") is None
    assert store.list_namespaces() == []
    assert alice.memories.list() == [] == alice.memories.list(kind="embedding")
    vault.close()
    assert [files_with(body[40:]) for body in kept] == [[], []]
    assert files_with(CANARY) == []


def test_nothing_of_an_item_is_at_rest_in_clear(store, vault, files_with):
    """K1: neither names nor values, nor the thread, nor a vector."""
    names = (f"ns-{CANARY}", f"deep-{CANARY}", *"abcdefgh", f"deepest-{CANARY}")
    graph = graph_of(
        store, lambda store, said: store.put(names, f"key-{CANARY}", {f"f-{CANARY}": said}, ttl=9)
    )
    graph.invoke({"said": f"tea {CANARY}"}, run_of(f"thread-{CANARY}"))
    assert store.get(names, f"key-{CANARY}") is not None
    vault.close()
    assert files_with(CANARY) == []


def test_every_put_names_the_thread_that_runs_then(store, alice):
    """D4: an update in another conversation goes with that one; the version before does not come back."""
    graph = graph_of(store, remember)
    graph.invoke({"said": "tea"}, run_of("one"))
    graph.invoke({"said": "coffee"}, run_of("two"))
    assert sources_of(alice, "said") == [thread_of(alice, "two").id]
    erase_thread(alice, "two")
    assert store.get(USERS, "said") is None
    assert [memory.state for memory in alice.memories.history(*place(ITEMS, USERS, "said"))] == ["superseded"]


def test_an_update_outlives_the_conversation_of_the_version_before(store, alice):
    """D4: nothing innocent is taken; the older version goes, with its embedding."""
    graph = graph_of(store, remember)
    graph.invoke({"said": "tea"}, run_of("one"))
    graph.invoke({"said": "coffee"}, run_of("two"))
    before = store.get(USERS, "said")
    erase_thread(alice, "one")
    assert store.get(USERS, "said") == before
    assert store.search(USERS, query="coffee")[0].score == pytest.approx(1.0)
    for kind in ("memory", "embedding"):
        (left,) = alice.memories.history(*place(ITEMS, USERS, "said"), kind=kind)
        assert left.version == 2


def test_deleting_takes_an_older_version_whose_successor_is_gone(store, alice):
    """D5: an item that is not shown any more leaves nothing behind either."""
    graph = graph_of(store, remember)
    graph.invoke({"said": "tea"}, run_of("one"))
    graph.invoke({"said": "coffee"}, run_of("two"))
    erase_thread(alice, "two")
    store.delete(USERS, "said")
    for kind in ("memory", "embedding"):
        assert alice.memories.history(*place(ITEMS, USERS, "said"), kind=kind) == []


def test_deleting_an_item_leaves_the_thread_and_other_items(store, alice):
    """D4: nothing innocent is taken."""
    graph_of(
        store,
        lambda store, said: store.batch([PutOp(USERS, "a", {"x": said}), PutOp(USERS, "b", {"x": said})]),
    ).invoke({"said": "tea"}, run_of("one"))
    store.delete(USERS, "a")
    assert store.get(USERS, "b").value == {"x": "tea"}
    assert thread_of(alice, "one") is not None


def test_a_late_put_after_the_thread_was_erased_is_refused(store, alice):
    """D6: nothing brings it back; other threads go on."""
    graph = graph_of(store, remember)
    graph.invoke({"said": "tea"}, run_of("one"))
    erase_thread(alice, "one")
    with pytest.raises(Erased):
        graph.invoke({"said": "late"}, run_of("one"))
    assert store.search(()) == []
    graph.invoke({"said": "tea"}, run_of("two"))
    assert store.get(USERS, "said").value == {"text": "tea"}


def test_a_thread_begun_anew_on_purpose_takes_items_again(store, alice):
    """D6."""
    graph_of(store, remember).invoke({"said": "tea"}, run_of("one"))
    erase_thread(alice, "one")
    again = VaultStore(alice, reuse_erased=True)
    graph_of(again, remember).invoke({"said": "coffee"}, run_of("one"))
    assert store.get(USERS, "said").value == {"text": "coffee"}
    assert erase_thread(alice, "one")
    assert store.search(()) == []


def test_a_checkpointer_of_the_vault_has_the_same_threads(store, alice):
    """A2, D4: deleting a thread takes its checkpoints and what was remembered; whichever wrote first."""
    saver = VaultSaver(alice)
    with_both = graph_of(store, remember, checkpointer=saver)
    graph_of(store, remember).invoke({"said": "before"}, run_of("one"))
    with_both.invoke({"said": "tea"}, run_of("one"))
    with_both.invoke({"said": "coffee"}, run_of("two"))
    assert with_both.get_state(run_of("one")).values == {"said": "tea"}
    saver.delete_thread("two")
    assert store.search(()) == []
    assert with_both.get_state(run_of("two")).values == {}
    with pytest.raises(Erased):
        with_both.invoke({"said": "late"}, run_of("two"))


def test_a_thread_erased_between_the_look_and_the_put_takes_no_item(store, alice, monkeypatch):
    """D6, D7: whoever found the thread's session before is refused by the vault itself."""
    graph_of(store, lambda store, said: None).invoke({"said": ""}, run_of("one"))
    found = Binding(alice, "langgraph").open("thread", "one")
    erase_thread(alice, "one")
    monkeypatch.setattr(store._sources, "_thread", lambda: found)
    with pytest.raises(NotFound):
        store.put(USERS, "late", {"text": "tea"})
    assert store.search(()) == []


def test_a_prefix_and_case_of_thread_ids_alias_nothing(store, alice):
    """O1: each id is a session of its own."""
    ids = ["a:b", "a/b", "A:b", "a:b ", "é", "e\u0301", "x" * 300]
    graph = graph_of(store, lambda store, said: store.put(USERS, said, {}))
    for thread in ids:
        graph.invoke({"said": thread}, run_of(thread))
    assert len({sources_of(alice, thread)[0] for thread in ids}) == len(ids)
    erase_thread(alice, "a:b")
    assert {item.key for item in store.search(USERS)} == {*ids} - {"a:b"}


def test_an_async_graph_has_the_same_sources(store, alice):
    """A2, D4: context variables reach the thread that writes."""

    async def node(state):
        await store.aput(USERS, state["said"], {"text": "tea"})
        return {}

    async def program(builder):
        graph = builder.compile(store=store)
        await asyncio.gather(*[graph.ainvoke({"said": name}, run_of(name)) for name in ("one", "two")])

    asyncio.run(program(StateGraph(State).add_node("node", node).add_edge(START, "node")))
    for name in ("one", "two"):
        assert sources_of(alice, name) == [thread_of(alice, name).id]


def test_a_subgraph_is_the_same_conversation(store, alice):
    """D4."""
    inner = graph_of(store, remember)

    def node(state):
        inner.invoke({"said": state["said"]})
        return {}

    outer = StateGraph(State).add_node("outer", node).add_edge(START, "outer").compile(store=store)
    outer.invoke({"said": "tea"}, run_of("one"))
    assert sources_of(alice, "said") == [thread_of(alice, "one").id]


def test_tasks_tools_and_the_runtime_are_in_the_conversation_too(store, alice):
    """D4: however LangGraph hands a store to what it runs, and in whatever thread it runs it."""

    @task
    def work(key):
        store.put(USERS, key, {})

    @entrypoint(store=store)
    def flow(keys):
        return [begun.result() for begun in [work(key) for key in keys]]

    @tool
    def save(key: str, store: Annotated[Any, InjectedStore()]) -> str:
        """Keep it."""
        store.put(USERS, key, {})
        return "kept"

    def node(state: State, runtime: Runtime) -> State:
        runtime.store.put(USERS, "runtime", {})
        return {}

    calls = [{"name": "save", "args": {"key": f"tool {number}"}, "id": str(number)} for number in range(2)]
    tools = StateGraph(MessagesState).add_node("tools", ToolNode([save])).add_edge(START, "tools")
    given = StateGraph(State).add_node("node", node).add_edge(START, "node")
    flow.invoke(["task 0", "task 1"], run_of("one"))
    tools.compile(store=store).invoke({"messages": [AIMessage("", tool_calls=calls)]}, run_of("one"))
    given.compile(store=store).invoke({"said": ""}, run_of("one"))

    kept = {item.key for item in store.search(USERS)}
    assert kept == {"task 0", "task 1", "tool 0", "tool 1", "runtime"}
    assert {sources_of(alice, key)[0] for key in kept} == {thread_of(alice, "one").id}


# ------------------------------------------------------------------------------------ outside of threads


def test_a_put_outside_of_all_threads_has_a_source_of_its_own(store, alice):
    """D4, D5: a session of the store stands for it, the same for a day, and erasing the person takes it."""
    store.put(USERS, "a", {"text": "tea"})
    store.put(USERS, "b", {"text": "tea"})
    (source,) = {*sources_of(alice, "a"), *sources_of(alice, "b")}
    assert alice.sessions.resume(source).info().title == "LangGraph store"
    VaultStore(alice).put(USERS, "c", {})
    assert sources_of(alice, "c") == [source]
    alice.erasure.erase(subject="alice")
    assert store.search(()) == []


def test_a_put_after_the_stores_own_session_went_begins_another(store, alice):
    """A2: what a person had erased stays so, and the store goes on."""
    store.put(USERS, "a", {"text": "tea"})
    alice.erasure.erase(session=sources_of(alice, "a")[0])
    store.put(USERS, "b", {"text": "tea"})
    assert [item.key for item in store.search(())] == ["b"]
    alice.sessions.resume(sources_of(alice, "b")[0]).end()
    store.put(USERS, "c", {})
    assert {item.key for item in store.search(())} == {"b", "c"}


def test_a_scope_stands_for_what_is_put_outside_of_threads(alice):
    """D4."""
    scope = alice.sessions.create(title="onboarding")
    store = VaultStore(alice, scope=scope)
    store.put(USERS, "said", {"text": "tea"})
    assert sources_of(alice, "said") == [scope.id]
    graph_of(store, remember).invoke({"said": "tea"}, run_of("one"))
    assert sources_of(alice, "said") == [thread_of(alice, "one").id]


def test_a_run_without_a_thread_is_outside_of_threads(store, alice):
    """D4."""
    graph_of(store, remember).invoke({"said": "tea"})
    assert alice.sessions.resume(sources_of(alice, "said")[0]).info().title == "LangGraph store"


def test_a_run_of_the_vault_is_the_source_of_what_it_puts(store, alice):
    """D4: with all that it has read, items of the store among it."""
    store.put(USERS, "old", {"text": "tea"})
    session, attached = alice.sessions.create(), alice.sessions.create()
    with session.run():
        old = store.get(USERS, "old")
        store.put(USERS, "new", {"text": old.value["text"]})
    read = alice.memories.get(*place(ITEMS, USERS, "old")).id
    assert sources_of(alice, "new") == [session.id, read]
    with attached.attached():
        store.put(USERS, "other", {"text": "rain"})
    assert sources_of(alice, "other") == [attached.id]


def test_a_thread_within_a_run_has_both_as_sources(store, alice):
    """D4: nothing of what the run around has read is lost."""
    session, other = alice.sessions.create(), alice.sessions.create()
    other.append("message.user", {"content": "secret"})
    with session.run():
        list(other.events())
        graph_of(store, remember).invoke({"said": "tea"}, run_of("one"))
    assert {*sources_of(alice, "said")} == {session.id, other.id, thread_of(alice, "one").id}
    alice.erasure.erase(session=other.id)
    assert store.get(USERS, "said") is None


def test_what_the_store_looks_up_for_itself_is_no_source(store, alice):
    """D4: an update does not come from the version that it replaces, unless that was read."""
    session = alice.sessions.create()
    with session.run():
        store.put(USERS, "a", {"text": "tea"}, ttl=60)
        store.put(USERS, "a", {"text": "coffee"}, ttl=60)
        store.list_namespaces()
        store.search(USERS, filter={"text": "none"}, query="tea")
        store.put(USERS, "b", {"text": "tea"})
    assert sources_of(alice, "a") == [session.id] == sources_of(alice, "b")


# ----------------------------------------------------------------------------------------------- owners


def test_owners_and_tenants_see_nothing_of_each_other(store, vault, principal):
    """O1: by whatever name they ask; and no config that travels through a graph changes whose it is."""
    store.put(USERS, "said", {"text": "tea"}, ttl=60)
    others = [vault.access(principal("bob")), vault.access(principal("alice", tenant="other"))]
    for other in (VaultStore(access, index=store.index_config) for access in others):
        assert other.get(USERS, "said") is None
        assert other.search((), query="tea") == [] == other.list_namespaces()
        other.delete(USERS, "said")
        assert other.sweep_ttl() == 0
        config = {"configurable": {"thread_id": "t", "tenant": "acme", "user_id": "alice", "owner": "alice"}}
        graph_of(other, remember).invoke({"said": "rain"}, config)
        assert other.get(USERS, "said").value == {"text": "rain"}
    assert store.get(USERS, "said").value == {"text": "tea"}


def test_who_owns_nothing_has_an_empty_store(store, vault, principal):
    """O3: an auditor sees no items of others here, and may put none."""
    store.put(USERS, "said", {"text": "tea"}, ttl=60)
    for roles in (["auditor"], ["support"], ["administrator"], ["privacy_officer"]):
        other = VaultStore(vault.access(principal("eve", *roles)))
        assert other.get(USERS, "said") is None
        assert other.search(()) == [] == other.list_namespaces()
        with pytest.raises(VaultError):
            other.put(USERS, "said", {})


def test_many_threads_put_and_read_at_once(store, alice):
    """A2: graphs do so; each put is a version of its own, and none fails."""

    def work(number):
        for turn in range(5):
            store.put(USERS, "same", {"text": f"{number} {turn}"})
            store.put(USERS, f"own {number}", {"turn": turn})
            assert store.get(USERS, f"own {number}").value == {"turn": turn}
            assert store.search(USERS, query="tea", limit=1)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert len(alice.memories.history(*place(ITEMS, USERS, "same"))) == 30
    assert len(store.search(USERS)) == 7


PUTTER = """
import sys
from langgraph.store.base import PutOp
from tests.adapters.langgraph_store_case import graph_of, run_of
from vault import Principal, Vault
from vault.adapters.langgraph import VaultSaver
from vault.adapters.langgraph_store import VaultStore

with Vault.open(sys.argv[1]) as vault:
    store = VaultStore(vault.access(Principal(tenant="acme", subject="alice")))
    work = lambda store, said: [store.put(("users",), f"{said}-{n}", {"n": n}) for n in range(10)]
    graph_of(store, work).invoke({"said": sys.argv[2]}, run_of("shared"))
    print(len(store.search((), limit=100)))
"""


def test_two_processes_put_into_one_conversation(store, alice, python, place):
    """A2, L2: both find the same thread, and each other's items."""
    started = [python(PUTTER, place, name) for name in ("one", "two")]
    for process in started:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert int(out) >= 10
    assert len(store.search((), limit=100)) == 20
    thread = thread_of(alice, "shared").id
    assert {sources_of(alice, f"{name}-3", ("users",))[0] for name in ("one", "two")} == {thread}
    erase_thread(alice, "shared")
    assert store.search(()) == []
