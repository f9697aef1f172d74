"""Threads of LangGraph's SqliteSaver moved in, also encrypted ones; rows not its own are refused (A7)."""

import contextlib
import sqlite3
import sys

import ormsgpack
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.adapters.langgraph_case import at, chain, put, talking
from vault.adapters.langgraph import VaultSaver
from vault.adapters.langgraph_sqlite import import_langgraph_sqlite
from vault.errors import Erased, InvalidInput

STRICT = JsonPlusSerializer(allowed_msgpack_modules=None)


class Reversed:
    """A cipher for tests: it turns bytes around and knows when they are not its own."""

    def encrypt(self, plaintext):
        return "reversed", b"mark" + plaintext[::-1]

    def decrypt(self, ciphername, ciphertext):
        if ciphername != "reversed" or not ciphertext.startswith(b"mark"):
            raise ValueError("MAC check failed")
        return ciphertext[4:][::-1]


ENCRYPTED = EncryptedSerializer(Reversed(), STRICT)


@contextlib.contextmanager
def sqlite_saver(path, serde=None):
    with contextlib.closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        yield SqliteSaver(connection, serde=serde or STRICT)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "checkpoints.db"


def filled(file, serde=None):
    """Two conversations, a fork, subgraphs' namespaces, an interrupted task's writes; what a list says."""
    with sqlite_saver(file, serde) as saver:
        graph = talking(saver)
        for thread in ("one", "two"):
            for text in ("hello", "again"):
                config = {
                    "configurable": {"thread_id": thread, "api_key": "sk-1"},
                    "metadata": {"run_id": text},
                }
                graph.invoke({"messages": [HumanMessage(text)]}, config)
        earlier = list(graph.get_state_history({"configurable": {"thread_id": "one"}}))[3]
        graph.invoke({"messages": [HumanMessage("instead")]}, earlier.config)
        for config in chain(saver, "one", [{"list": list(range(n))} for n in range(3)], ns="child:1"):
            saver.put_writes(config, [("list", 1), ("other", "x")], "task-a", "path")
            saver.put_writes(config, [("__interrupt__", ["wait"]), ("__resume__", "go")], "task-b")
        return told(saver)


def told(saver):
    return [
        (
            found.config,
            found.parent_config,
            found.checkpoint,
            {
                key: one
                for key, one in found.metadata.items()
                if key in {"source", "step", "parents", "run_id"}
            },
            found.pending_writes,
        )
        for found in sorted(saver.list(None), key=lambda one: one.checkpoint["id"])
    ]


@pytest.mark.parametrize("serde", [None, ENCRYPTED], ids=["plain", "encrypted"])
def test_everything_of_a_file_is_in_the_vault_afterwards_and_goes_on_from_there(alice, file, serde):
    before = filled(file, serde)
    seen = []
    report = import_langgraph_sqlite(alice, file, serde=serde, progress=lambda *done: seen.append(done))
    saver = VaultSaver(alice)
    assert told(saver) == before
    assert (report.threads, report.checkpoints) == (2, len(before))
    assert report.writes == sum(len(writes) for *_, writes in before)
    assert seen[-1][0] == seen[-1][1] == report.checkpoints + report.writes
    assert seen == sorted(seen)
    graph = talking(saver)
    state = graph.invoke({"messages": [HumanMessage("on")]}, {"configurable": {"thread_id": "two"}})
    assert [message.content for message in state["messages"]][-2:] == ["on", "you said on"]
    assert len(state["messages"]) == 6


def test_moved_in_again_only_what_is_new_is_taken(alice, file):
    before = filled(file)
    import_langgraph_sqlite(alice, file)
    again = import_langgraph_sqlite(alice, file)
    assert (again.checkpoints, again.writes, again.threads) == (0, 0, 2)
    with sqlite_saver(file) as saver:
        put(saver, at("three"), {"a": 1})
    assert import_langgraph_sqlite(alice, file).checkpoints == 1
    assert len(told(VaultSaver(alice))) == len(before) + 1


def test_the_file_is_not_changed(alice, file):
    filled(file)
    before = file.read_bytes()
    import_langgraph_sqlite(alice, file)
    assert file.read_bytes() == before


def test_secrets_in_metadata_stay_behind_and_are_named(alice, file):
    filled(file)
    report = import_langgraph_sqlite(alice, file)
    assert report.left_out == {"api_key"}
    assert "api_key" not in repr(report)
    assert all("api_key" not in found.metadata for found in VaultSaver(alice).list(None))


def test_metadata_that_is_asked_for_is_taken(alice, file):
    with sqlite_saver(file) as saver:
        put(saver, at("t"), {"a": 1}, {"team": "blue", "other": 1})
    assert import_langgraph_sqlite(alice, file, metadata_keys=["team"]).left_out == {"other"}
    assert VaultSaver(alice).get_tuple(at("t")).metadata["team"] == "blue"


def test_a_file_of_an_older_version_without_paths_of_tasks(alice, file):
    filled(file)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("ALTER TABLE writes DROP COLUMN task_path")
    report = import_langgraph_sqlite(alice, file)
    assert report.writes


# --------------------------------------------------------------------------------------------- refused


def edited(file, statement, *values):
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement, values)


CALL = ormsgpack.packb({"channel_values": {"a": ormsgpack.Ext(0, ormsgpack.packb(("os", "getenv", "HOME")))}})
EDITS = {
    "code": ("UPDATE checkpoints SET type = 'msgpack', checkpoint = ?", CALL),
    "pickle": ("UPDATE checkpoints SET type = 'pickle', checkpoint = ?", b"cos\ngetcwd\n(tR."),
    "no checkpoint": ("UPDATE checkpoints SET checkpoint = ?", ormsgpack.packb([1, 2])),
    "half a checkpoint": ("UPDATE checkpoints SET checkpoint = ?", ormsgpack.packb({"v": 1})),
    "garbage": ("UPDATE checkpoints SET checkpoint = ?", b"\xc1"),
    "text": ("UPDATE checkpoints SET checkpoint = ?", "text"),
    "metadata that is no JSON": ("UPDATE checkpoints SET metadata = ?", b"{"),
    "metadata that is a list": ("UPDATE checkpoints SET metadata = ?", b"[]"),
    "a write of code": ("UPDATE writes SET type = 'msgpack', value = ?", CALL),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_row_that_is_not_as_it_is_written_is_refused(alice, file, name):
    filled(file)
    edited(file, *EDITS[name])
    with pytest.raises(InvalidInput):
        import_langgraph_sqlite(alice, file)


def test_a_row_in_clear_in_an_encrypted_file_is_refused_and_an_encrypted_one_without_the_key(alice, file):
    filled(file, ENCRYPTED)
    with pytest.raises(InvalidInput):
        import_langgraph_sqlite(alice, file)
    forged = {"v": 4, "channel_values": {"a": "forged"}, "channel_versions": {"a": 1}, "versions_seen": {}}
    edited(file, "UPDATE checkpoints SET type = 'msgpack', checkpoint = ?", ormsgpack.packb(forged))
    with pytest.raises(InvalidInput):
        import_langgraph_sqlite(alice, file, serde=ENCRYPTED)
    assert list(VaultSaver(alice).list(None)) == []


def test_another_key_is_refused(alice, file):
    filled(file, ENCRYPTED)
    edited(file, "UPDATE checkpoints SET checkpoint = ?", b"other bytes")
    with pytest.raises(InvalidInput):
        import_langgraph_sqlite(alice, file, serde=ENCRYPTED)


@pytest.mark.parametrize(
    "serde", [JsonPlusSerializer(allowed_msgpack_modules=True), EncryptedSerializer(Reversed(), object())]
)
def test_a_serializer_that_makes_whatever_it_reads_is_refused(alice, file, serde):
    filled(file)
    with pytest.raises(InvalidInput):
        import_langgraph_sqlite(alice, file, serde=serde)


def test_what_is_no_file_of_a_saver_is_refused(alice, file, tmp_path):
    with pytest.raises(InvalidInput):
        import_langgraph_sqlite(alice, tmp_path / "absent")
    edited(file, "CREATE TABLE checkpoints (a)")
    with pytest.raises(InvalidInput):
        import_langgraph_sqlite(alice, file)
    file.write_bytes(b"no database" * 1_000)
    with pytest.raises(InvalidInput):
        import_langgraph_sqlite(alice, file)


def test_a_thread_that_was_deleted_from_the_vault_does_not_come_back(alice, file):
    filled(file)
    import_langgraph_sqlite(alice, file)
    VaultSaver(alice).delete_thread("one")
    with pytest.raises(Erased):
        import_langgraph_sqlite(alice, file)
    assert VaultSaver(alice).get_tuple(at("one")) is None


def test_importing_the_vault_brings_no_framework():
    program = "import sys, vault; print([name for name in sys.modules if name.startswith('lang')])"
    import subprocess

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told == "[]\n"
