"""How much a growing thread takes, and that what was taken out is in no file of the vault (A2, D4)."""

import random
import string
from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from tests.adapters.langgraph_case import at, checkpoint, put, values_of
from vault import Vault
from vault.adapters.langgraph import VaultSaver

T = {"configurable": {"thread_id": "t"}}


def text(size, seed):
    """Text that compression gains next to nothing from: 62 characters at random."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=size))


def stored(place):
    """Bytes of all payloads and their bookkeeping; the vault must be closed."""
    files = [place / "data.db", *(path for path in (place / "blobs").rglob("*") if path.is_file())]
    return sum(path.stat().st_size for path in files)


@pytest.fixture
def measured(place, principal):
    """The bytes that what a block does adds to an empty vault, measured once it is closed."""

    def run(work):
        with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
            access = vault.access(principal())
            access.sessions.create(title="another one")
        before = stored(place)
        with Vault.open(place) as vault:
            work(VaultSaver(vault.access(principal())))
        return stored(place) - before

    return run


class Talk(TypedDict, total=False):
    messages: Annotated[list, add_messages]
    document: str
    table: dict


def test_a_hundred_turns_with_a_constant_document_take_less_than_three_times_what_the_user_gave(measured):
    """SqliteSaver takes 223 times of it: 3 checkpoints a turn, each with everything."""
    document, table = text(50_000, "document"), {f"k{n}": text(100, n) for n in range(500)}
    given = len(document) + sum(map(len, table.values())) + 100 * 2_000

    def model(state):
        return {"messages": [AIMessage(text(1_000, len(state["messages"])))]}

    def work(saver):
        graph = StateGraph(Talk).add_node("model", model).add_edge(START, "model").add_edge("model", END)
        compiled = graph.compile(checkpointer=saver)
        for turn in range(100):
            state = {"messages": [HumanMessage(text(1_000, f"turn {turn}"))]}
            compiled.invoke(state | ({} if turn else {"document": document, "table": table}), T)
        found = compiled.get_state(T).values
        assert len(found["messages"]) == 200
        assert (found["document"], found["table"]) == (document, table)

    assert measured(work) <= 3 * given


def test_a_thousand_puts_of_a_growing_list_take_less_than_three_times_the_list(measured):
    items = [{"role": "user", "content": text(1_000, n)} for n in range(1_000)]

    def work(saver):
        config = at("t")
        for turn in range(1_000):
            state = {"messages": items[: turn + 1], "same": text(20_000, "same")}
            made = checkpoint(state, {"messages": turn + 1, "same": 1})
            config = saver.put(config, made, {"source": "loop", "step": turn}, {"messages": turn + 1})
        assert values_of(saver, config)["messages"] == items

    assert measured(work) <= 3 * (1_000 * 1_000 + 20_000)


def test_a_window_that_slides_over_a_conversation_stores_each_message_once(measured):
    items = [text(1_000, n) for n in range(200)]

    def work(saver):
        config = at("t")
        for turn in range(200):
            config = put(saver, config, {"messages": items[max(0, turn - 19) : turn + 1]})

    assert measured(work) <= 3 * 200 * 1_000


def test_a_dictionary_of_files_stores_only_the_file_that_changed(measured):
    def work(saver):
        config, files = at("t"), {f"file-{n}": text(5_000, n) for n in range(40)}
        for turn in range(100):
            files = {**files, f"file-{turn % 40}": text(5_000, f"turn {turn}")}
            config = put(saver, config, {"files": files})
        assert values_of(saver, config) == {"files": files}

    assert measured(work) <= 2 * (40 + 100) * 5_000


def test_another_process_does_not_store_what_is_there(place, principal):
    items = [text(1_000, n) for n in range(50)]
    with Vault.create(place) as vault:
        config = put(VaultSaver(vault.access(principal())), at("t"), {"items": items})
    before = stored(place)
    with Vault.open(place) as vault:
        put(VaultSaver(vault.access(principal())), config, {"items": items, "copy": items})
    assert stored(place) - before < 16_384


# ----------------------------------------------------------------------------------- physically gone


def lines(kind):
    return [f"{kind} {n}: {text(60, f'{kind}{n}')}" for n in range(4)]


@pytest.fixture
def thread(place, principal):
    """A thread of two runs whose states hold lines of their own, and one line that both hold."""
    with Vault.create(place) as vault:
        saver = VaultSaver(vault.access(principal()))
        config = at("t")
        for run in ("old", "new"):
            for line in lines(run):
                state = {"lines": [line, "both: " + text(60, "both")], "big": text(100_000, line)}
                config = put(saver, config, state, {"run_id": run})
                saver.put_writes(config, [("lines", [f"written {line}"])], "task")
    return config


REMOVALS = {
    "prune": (lambda saver: saver.prune(["t"]), lines("old") + lines("new")[:-1], lines("new")[-1:]),
    "delete_for_runs": (lambda saver: saver.delete_for_runs(["old"]), lines("old"), lines("new")),
    "prune of all": (lambda saver: saver.prune(["t"], strategy="delete"), lines("old") + lines("new"), []),
    "delete_thread": (lambda saver: saver.delete_thread("t"), lines("old") + lines("new"), []),
}


@pytest.mark.parametrize("how", REMOVALS)
def test_what_was_taken_out_is_in_no_file(thread, place, principal, how):
    """D4: nothing of it can be opened under the keys that are left, and its bytes are given back."""
    remove, gone, kept = REMOVALS[how]
    size = stored(place)
    sealed = payloads(place, principal)
    with Vault.open(place) as vault:
        remove(VaultSaver(vault.access(principal())))
    after = payloads(place, principal)
    for line in gone:
        assert any(line.encode() in raw for raw in sealed)
        assert not any(line.encode() in raw for raw in after)
    for line in kept:
        assert any(line.encode() in raw for raw in after)
    assert stored(place) <= size - 70_000 * len(gone)


def payloads(place, principal):
    """All that can still be opened in the thread's session."""
    with Vault.open(place) as vault:
        access = vault.access(principal())
        found = access.sessions.find(labels={"framework": "langgraph"}).items
        return [
            access.sessions.resume(one.id).open(event).read() if event.streamed else event.raw or b""
            for one in found
            for event in access.sessions.resume(one.id).events()
        ]


@pytest.mark.parametrize("how", REMOVALS)
def test_the_sealed_bytes_of_what_was_taken_out_are_in_no_file(thread, place, principal, files_with, how):
    """D4: looked for as they stood in the file before, one by one."""
    remove, gone, _ = REMOVALS[how]
    needles = sealed_of(place, principal, gone)
    assert len(needles) >= len(gone)
    assert all(files_with(needle) for needle in needles)
    with Vault.open(place) as vault:
        remove(VaultSaver(vault.access(principal())))
    assert [files_with(needle) for needle in needles] == [[] for _ in needles]


def sealed_of(place, principal, gone):
    """Some sealed bytes of each event that holds one of these lines."""
    from tests.security import surgery

    with Vault.open(place) as vault:
        access = vault.access(principal())
        session = access.sessions.resume(access.sessions.find(labels={"framework": "langgraph"}).items[0].id)
        addresses = [
            bytes.fromhex(event.payload_ref.rsplit("/", 1)[1])
            for event in session.events()
            if any(line.encode() in (event.raw or b"") for line in gone)
        ]
    needles = []
    with surgery.opened(place) as connection:
        for address in addresses:
            query = "SELECT body FROM blobs WHERE address = ?"
            (body,) = connection.execute(query, (address,)).fetchone()
            file = next((path for path in (place / "blobs").rglob(address.hex())), None)
            needles.append((body or file.read_bytes())[40:100])
    return needles
