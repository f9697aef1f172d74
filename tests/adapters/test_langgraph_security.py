"""LangGraph's checkpointer against writers of its files without keys, and code in data (A2, K1, K4).

The vault is closed whenever its files are touched.
"""

# ruff: noqa: S608 - names in the statements are the tests' own

import asyncio
import base64
import enum
import hashlib
import json
from dataclasses import dataclass

import ormsgpack
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel, SecretStr

from tests.adapters.langgraph_case import at, chain, checkpoint, listed, put, talking, values_of
from tests.security import surgery
from vault import NewEvent, Principal, Vault
from vault.adapters.langgraph import VaultSaver
from vault.errors import Erased, InvalidInput, KeyUnavailable, Tampered

ALICE = Principal(tenant="CANARY-tenant", subject="CANARY-alice")
REFUSED = (Tampered, KeyUnavailable, Erased)
PLACE = {"session_no", "seq"}


@pytest.fixture
def saver(alice):
    return VaultSaver(alice)


# ---------------------------------------------------------------------------------- types and code


class Model(BaseModel):
    name: str = "model"


@dataclass
class Plain:
    name: str = "plain"


class Colour(enum.Enum):
    RED = "red"


CARRIER = ToolMessage("rows", tool_call_id="c", artifact=Colour.RED)
STRANGE = [
    Model(),
    [HumanMessage("fine"), CARRIER],
    Plain(),
    Colour.RED,
    SecretStr("hunter2"),
    [Model()],
    {"a": {"b": [Plain()]}},
]
NAMES = {(Model.__module__, "Model"), (Plain.__module__, "Plain"), (Colour.__module__, "Colour")}


@pytest.mark.parametrize("value", STRANGE)
def test_a_class_that_was_not_named_is_refused_where_it_is_put(saver, value):
    """A1: others store it and give back a bare dictionary."""
    first = put(saver, at("t"), {"a": 1})
    writes = [
        lambda: put(saver, first, {"a": value}),
        lambda: saver.put_writes(first, [("a", value)], "task"),
        lambda: put(saver, first, None, {"extra": value}),
    ]
    for write in writes:
        with pytest.raises(InvalidInput, match="allowed_msgpack_modules") as refused:
            write()
        assert "hunter2" not in str(refused.value)
    assert len(listed(saver, at("t"))) == 1


def test_a_class_that_was_named_comes_back_and_is_refused_where_it_was_not_named(saver, alice):
    knowing = VaultSaver(alice, serde=JsonPlusSerializer(allowed_msgpack_modules=[Model, Plain, Colour]))
    state = {"model": Model(), "list": [Plain(), Colour.RED]}
    config = put(knowing, at("t"), state)
    assert values_of(knowing, config) == state
    assert values_of(saver.with_allowlist(NAMES), config) == state
    with pytest.raises(InvalidInput, match="allowed_msgpack_modules"):
        saver.get_tuple(config)
    with pytest.raises(InvalidInput, match="allowed_msgpack_modules"):
        list(saver.list(at("t")))


@pytest.mark.parametrize(
    "serde",
    [
        pytest.param(JsonPlusSerializer(allowed_msgpack_modules=True), id="any class"),
        pytest.param(JsonPlusSerializer(allowed_msgpack_modules=None, pickle_fallback=True), id="pickle"),
        pytest.param(
            JsonPlusSerializer(allowed_msgpack_modules=None, __unpack_ext_hook__=lambda *_: None),
            id="own hook",
        ),
        pytest.param(object(), id="another one"),
    ],
)
def test_a_serializer_that_makes_whatever_it_reads_is_refused(alice, serde):
    with pytest.raises(InvalidInput):
        VaultSaver(alice, serde=serde)


def ext(code, *what):
    return ormsgpack.packb({"a": [ormsgpack.Ext(code, ormsgpack.packb(what))]})


#: Each would make a directory, by the path that it is given.
ATTACKS = {
    "a function": lambda path: ("msgpack", ext(0, "os", "mkdir", path)),
    "a function of several arguments": lambda path: ("msgpack", ext(1, "os", "mkdir", [path, 0o700])),
    "a function of named arguments": lambda path: ("msgpack", ext(2, "os", "mkdir", {"path": path})),
    "a method": lambda path: ("msgpack", ext(3, "os", "mkdir", path, "__call__")),
    "a model of old": lambda path: ("msgpack", ext(4, "os", "mkdir", {"path": path})),
    "a model": lambda path: ("msgpack", ext(5, "os", "mkdir", {"path": path}, "model_validate_json")),
    "pickle": lambda path: ("pickle", b"cos\nmkdir\n(V" + path.encode() + b"\ntR."),
    "a message": lambda path: ("message", ["mkdir", {"path": path}]),
    "an unknown tag": lambda path: ("yaml", f"!!python/object/apply:os.mkdir [{path}]".encode()),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_code_runs_on_reading_even_if_somebody_with_the_keys_wrote_it(saver, tmp_path, attack):
    """A3: the record is sealed as it should be; what it says is an attack."""
    first = put(saver, at("t"), {"a": 1})
    target = tmp_path / "made"
    tag, data = ATTACKS[attack](str(target))
    said = data if tag == "message" else base64.b64encode(data).decode()
    form = ["message", 0, None, {"json": None}] if tag == "message" else 0
    record = record_of(values=[{tag: said}], channels=[{"a": form}, []])
    saver.session(first).append_many([NewEvent(type="langgraph.checkpoint", raw=record, epoch=1)])
    with pytest.raises(InvalidInput):
        saver.get_tuple(at("t", "forged"))
    assert not target.exists()
    assert values_of(saver, first) == {"a": 1}


def test_an_object_in_the_words_of_another_serializer_is_plain_data(saver):
    """A3"""
    said = {"lc": 2, "type": "constructor", "id": ["os", "getcwd"], "args": []}
    assert values_of(saver, put(saver, at("t"), {"a": said})) == {"a": said}


RECORDS = {
    "nothing": b"",
    "no JSON": b"{",
    "a number": b"7",
    "another layout": {"layout": 2},
    "no parts": b'{"layout": 1, "values": []}',
    "a base that is not there": {"based": True},
    "a chunk that is not there": {"channels": [{"a": -1}, []], "known": ["a" * 20]},
    "a chunk beyond the last": {"channels": [{"a": 0}, []]},
    "a list of no list": {"channels": [{"a": ["from", 9, [], 9]}, []]},
    "changes of no dictionary": {"channels": [{"a": ["changed", {}, []]}, []]},
    "an unknown form": {"channels": [{"a": ["tuple", []]}, []]},
    "a channel gone that was not there": {"channels": [{}, ["a"]]},
    "bytes that are none": {"values": [{"msgpack": "?"}]},
    "a chunk of two": {"values": [{"json": 1, "bytes": ""}]},
    "a message of a number": {"channels": [{"a": ["message", 0, None, 0]}, []]},
}


def record_of(**parts):
    """A record of a checkpoint, but for some of its parts."""
    whole = {
        "layout": 1,
        "ns": "",
        "id": "forged",
        "parent": None,
        "based": False,
        "checkpoint": {"json": {}},
        "metadata": {"json": {}},
        "versions": [{"a": 1}, []],
        "seen": [{}, []],
        "channels": [{}, []],
        "known": [],
        "values": [],
    }
    return json.dumps(whole | parts).encode()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_is_not_as_it_is_written_is_refused(saver, name):
    first = put(saver, at("t"), {"a": 1})
    record = RECORDS[name] if isinstance(RECORDS[name], bytes) else record_of(**RECORDS[name])
    saver.session(first).append_many([NewEvent(type="langgraph.checkpoint", raw=record, epoch=1)])
    with pytest.raises(Tampered):
        saver.get_tuple(first)


# ---------------------------------------------------------------------------------------- tampering


@pytest.fixture
def filled(place):
    """A closed vault with two threads of three checkpoints and a write each."""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        saver = VaultSaver(vault.access(ALICE))
        for thread in ("one", "two"):
            states = [{"a": f"{thread} {turn}", "list": ["x" * 50] * turn} for turn in range(3)]
            saver.put_writes(chain(saver, thread, states)[-1], [("a", thread)], "task")
    return place


def read(place, thread="one"):
    with Vault.open(place) as vault:
        found = VaultSaver(vault.access(ALICE)).get_tuple(at(thread))
        return found and (found.checkpoint["channel_values"]["a"], found.pending_writes)


def numbers(connection):
    return [no for (no,) in connection.execute("SELECT no FROM sessions ORDER BY no")]


def exchanged(connection, table, places, kept):
    found = []
    for where in places:
        terms = " AND ".join(f"{name} = ?" for name in where)
        (row,) = surgery.rows_as_dicts(connection, f"SELECT * FROM {table} WHERE {terms}", *where.values())
        found.append({name: value for name, value in row.items() if name not in kept})
    surgery.without_rules(connection, table)
    for where, values in zip(places, reversed(found), strict=True):
        surgery.update(connection, table, where, **values)


def events_swapped_between_threads(connection):
    exchanged(connection, "events", [{"session_no": no, "seq": 3} for no in numbers(connection)], PLACE)


def events_swapped_within_a_thread(connection):
    no = numbers(connection)[0]
    exchanged(connection, "events", [{"session_no": no, "seq": seq} for seq in (2, 3)], PLACE)


def blobs_of(connection, no):
    query = "SELECT blob_no FROM events WHERE session_no = ? AND blob_no IS NOT NULL ORDER BY seq"
    return [blob for (blob,) in connection.execute(query, (no,))]


def payloads_swapped_between_threads(connection):
    blobs = [{"no": blobs_of(connection, no)[-1]} for no in numbers(connection)]
    exchanged(connection, "blobs", blobs, {"no", "session_no"})


def payload_bytes_swapped_within_a_thread(connection):
    blobs = [{"no": blob} for blob in blobs_of(connection, numbers(connection)[0])[:2]]
    exchanged(connection, "blobs", blobs, {"no", "session_no", "address", "content_id", "mac"})


def names_of_threads_swapped(connection):
    kept = set(surgery.column_names(connection, "sessions")) - {"external"}
    exchanged(connection, "sessions", [{"no": no} for no in numbers(connection)], kept)


def a_plaintext_row(connection):
    body = record_of()
    where = {"no": blobs_of(connection, numbers(connection)[0])[-1]}
    surgery.update(
        connection, "blobs", where, body=body, size=len(body), address=hashlib.sha256(body).digest()
    )


def one_bit(connection):
    where = {"no": blobs_of(connection, numbers(connection)[0])[-1]}
    ((body,),) = connection.execute("SELECT body FROM blobs WHERE no = :no", where).fetchall()
    surgery.update(connection, "blobs", where, body=surgery.flipped(body, 60))


def called_a_write(connection):
    where = {"session_no": numbers(connection)[0], "seq": 3}
    surgery.update(connection, "events", where, type="langgraph.writes", type_nth=2)


def said_to_be_erased(connection):
    where = {"no": blobs_of(connection, numbers(connection)[0])[0]}
    surgery.update(connection, "blobs", where, body=b"")


def a_row_removed(connection):
    connection.execute("DELETE FROM events WHERE session_no = ? AND seq = 2", (numbers(connection)[0],))


def the_newest_removed(connection):
    no = numbers(connection)[0]
    (last,) = connection.execute("SELECT max(seq) FROM events WHERE session_no = ?", (no,)).fetchone()
    connection.execute("DELETE FROM events WHERE session_no = ? AND seq = ?", (no, last))


def another_epoch(connection):
    where = {"session_no": numbers(connection)[0], "seq": 2}
    surgery.update(connection, "events", where, epoch=2)


EDITS = [
    events_swapped_between_threads,
    events_swapped_within_a_thread,
    payloads_swapped_between_threads,
    payload_bytes_swapped_within_a_thread,
    names_of_threads_swapped,
    a_plaintext_row,
    one_bit,
    called_a_write,
    said_to_be_erased,
    a_row_removed,
    the_newest_removed,
    another_epoch,
]


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_edited_is_not_loaded(filled, edit):
    """K2, K4, A3: other checkpointers load all of these but the bit."""
    assert read(filled) == ("one 2", [("task", "a", "one")])
    with surgery.opened(filled) as connection:
        edit(connection)
    with pytest.raises(REFUSED):
        read(filled)


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_edited_is_not_written_on(filled, edit):
    """K4: what comes new would stand on something that is not there."""
    with surgery.opened(filled) as connection:
        edit(connection)
    with pytest.raises(REFUSED), Vault.open(filled) as vault:
        put(VaultSaver(vault.access(ALICE)), at("one"), {"a": 1})


def test_an_older_version_put_back_is_refused(place):
    """K4, A3: the beginning of the thread, genuine row by genuine row."""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        config = put(VaultSaver(vault.access(ALICE)), at("t"), {"a": "older"})
    with surgery.opened(place) as connection:
        (before,) = surgery.rows_as_dicts(connection, "SELECT * FROM sessions WHERE no = 1")
    with Vault.open(place) as vault:
        put(VaultSaver(vault.access(ALICE)), config, {"a": "newer"})
    with surgery.opened(place) as connection:
        kept = before["head_seq"]
        connection.execute("DELETE FROM events WHERE session_no = 1 AND seq > ?", (kept,))
        surgery.update(connection, "sessions", {"no": 1}, **before)
    with pytest.raises(Tampered):
        read(place, "t")


@pytest.mark.parametrize("remove", ["delete_thread", "prune"])
def test_rows_that_come_late_bring_nothing_back(filled, remove):
    """D4, D6, K4: those of the data file as they stood before the removal."""
    with surgery.opened(filled) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        tables = [name for name in tables if not name.startswith("sqlite_")]
        saved = {table: surgery.rows_as_dicts(connection, f"SELECT * FROM {table}") for table in tables}
    with Vault.open(filled) as vault:
        saver = VaultSaver(vault.access(ALICE))
        saver.delete_thread("one") if remove == "delete_thread" else saver.prune(["one"])
    with surgery.opened(filled) as connection:
        for table, rows in saved.items():
            for row in rows:
                columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
                connection.execute(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", row)
            if table == "blobs" and remove == "prune":
                for row in rows:
                    surgery.update(
                        connection,
                        "blobs",
                        {"no": row["no"]},
                        **{k: row[k] for k in ("body", "content_id", "mac")},
                    )
    try:
        with Vault.open(filled) as vault:
            found = [
                one.checkpoint["channel_values"]["a"]
                for one in VaultSaver(vault.access(ALICE)).list(at("one"))
            ]
    except REFUSED:
        found = []
    assert found in ([], ["one 2"])


# ---------------------------------------------------------------------------------------- in clear


def test_nothing_of_a_thread_is_in_clear_in_any_file(place, files_with):
    """K1: values of every kind, names of channels, nodes, tasks and types, ids, metadata, errors."""
    ids = []
    with Vault.create(place) as vault:
        saver = VaultSaver(vault.access(ALICE), metadata_keys=["team"])
        graph = talking(saver, answer=lambda text: f"CANARY-answer to {text}")
        config = {"configurable": {"thread_id": "CANARY-thread", "key": "CANARY-key"}}
        config["metadata"] = {"team": "CANARY-team", "password": "CANARY-password"}
        for run in ("CANARY-run-1", "CANARY-run-2"):
            config["metadata"]["run_id"] = run
            graph.invoke({"messages": [HumanMessage(f"CANARY-question of {run}")]}, config)
        first = put(
            saver,
            at("CANARY-thread", ns="CANARY-space:1"),
            {"CANARY-channel": "CANARY-text", "number": 31337.25, "CANARY-list": ["CANARY-item" * 9] * 3},
            {"extra": {"CANARY-name": "CANARY-value"}},
        )
        saver.put_writes(first, [("__error__", ValueError("CANARY-error"))], "CANARY-task", "CANARY-path")
        ids += [
            config["configurable"]["checkpoint_id"] for config in [one.config for one in saver.list(None)]
        ]
        saver.copy_thread("CANARY-thread", "CANARY-copy")
        saver.prune(["CANARY-thread"])
        saver.delete_thread("CANARY-copy")
    assert len(ids) == 7
    for needle in ("CANARY", "HumanMessage", "langchain_core", "messages", "branch:to", *ids):
        assert files_with(needle) == [], needle
    for one in ids:
        assert files_with(bytes.fromhex(one.replace("-", ""))) == []


def test_errors_and_names_of_objects_quote_nothing(saver, alice):
    config = put(saver, at("CANARY-thread"), {"CANARY-channel": "CANARY-text"})
    saver.delete_thread("CANARY-thread")
    refused = []
    for call in (
        lambda: put(saver, config, {"a": 1}),
        lambda: put(saver, at("CANARY"), {"CANARY": [object(), "CANARY"]}),
        lambda: listed(saver, at("t"), filter={1: "CANARY"}),
        lambda: saver.prune(["CANARY"], strategy="CANARY"),
        lambda: saver.get_tuple({"configurable": {"thread_id": {"CANARY": 1}}}),
        lambda: put(saver, at("t", ns="\ud800CANARY"), {"a": 1}),
        lambda: put(saver, at("t"), {"\ud800CANARY": 1}),
    ):
        with pytest.raises((Erased, InvalidInput)) as raised:
            call()
        refused.append(str(raised.value) + repr(raised.value))
    assert "CANARY" not in "".join(refused) + repr(saver)


# ------------------------------------------------------------------------------------ two processes

PROGRAM = """
import sys
from tests.adapters.langgraph_case import at, put, values_of
from vault import Principal, Vault
from vault.adapters.langgraph import VaultSaver

place, name, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Vault.open(place) as vault:
    saver = VaultSaver(vault.access(Principal(tenant="acme", subject="alice")))
    print("ready", flush=True)
    sys.stdin.readline()
    config = at("t")
    for turn in range(turns):
        config = put(saver, config, {"by": [name, turn], "shared": ["x" * 100] * turn})
        saver.put_writes(config, [("by", turn)], name)
        found = values_of(saver, config)  # None: the other one has put a newer one and pruned
        assert found is None or (found["by"], found["shared"]) == ([name, turn], ["x" * 100] * turn)
        if turn % 5 == 4 and name == "pruner":
            saver.prune(["t"])
    print("done", flush=True)
"""


@pytest.mark.parametrize("names", [("one", "two"), ("one", "pruner")])
def test_two_processes_write_to_one_thread_and_neither_loses_anything(vault, place, python, alice, names):
    """S1: both are kept, in one order; a prune of one does not take away what the other builds on."""
    turns = 20
    processes = [python(PROGRAM, place, name, turns) for name in names]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (out, process.returncode) == ("done\n", 0), err
    found = list(VaultSaver(alice).list(at("t")))
    if "pruner" in names:
        assert found[0].checkpoint["channel_values"]["by"][1] == turns - 1
        return
    assert len(found) == turns * 2
    by = [tuple(one.checkpoint["channel_values"]["by"]) for one in found]
    assert sorted(by) == sorted((name, turn) for name in names for turn in range(turns))
    assert all(len(one.pending_writes) == 1 for one in found)


ENDLESS = """
import asyncio, sys
from tests.adapters.langgraph_case import talking
from vault import Principal, Vault
from vault.adapters.langgraph import VaultSaver

with Vault.open(sys.argv[1]) as vault:
    graph = talking(VaultSaver(vault.access(Principal(tenant="acme", subject="alice"))))
    for turn in range(1000):
        graph.invoke({"messages": [("user", str(turn))]}, {"configurable": {"thread_id": "t"}})
        print(turn, flush=True)
"""


def test_a_process_that_is_killed_leaves_a_thread_that_goes_on(vault, place, python, alice):
    """S1: what was said to be done is there; the next process goes on from it."""
    process = python(ENDLESS, place)
    for _ in range(5):
        last = int(process.stdout.readline())
    process.kill()
    process.wait()
    graph = talking(VaultSaver(alice))
    config = {"configurable": {"thread_id": "t"}}
    messages = graph.get_state(config).values["messages"]
    assert len(messages) >= 2 * (last + 1)
    state = graph.invoke({"messages": [("user", "and on")]}, config)
    assert state["messages"][-1].content == "you said and on"


def test_a_cancelled_call_is_done_or_not_done(saver):
    """S1: never in part, and the log goes on."""

    async def cancelled():
        made = checkpoint({"a": ["x" * 1_000] * 50})
        task = asyncio.ensure_future(saver.aput(at("t"), made, {"source": "loop", "step": 0}, {"a": 1}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return made["id"]

    made = asyncio.run(cancelled())
    assert listed(saver, at("t")) in ([made], [])
    put(saver, at("t"), {"a": 1})
