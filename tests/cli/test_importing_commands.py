"""What frameworks kept in their own databases comes in by a command, and their adapters go on with it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from agents.memory import SQLiteSession

from tests.cli.framework_stores import (
    STORES,
    TALK,
    USERS,
    adk,
    adk_there,
    changed,
    langgraph,
    langgraph_store,
    langgraph_store_there,
    langgraph_there,
    names,
    openai,
    openai_there,
    reading,
)
from vault import Principal, Vault
from vault.adapters.google_adk_sessions import VaultSessionService
from vault.adapters.langgraph import VaultSaver
from vault.adapters.langgraph_store import VaultStore

ROOT = Path(__file__).resolve().parents[2]
OWNER = Principal(tenant="default", subject="owner")


def path_of(*places):
    """The environment in which modules are looked for there."""
    return {"PYTHONPATH": os.pathsep.join(map(str, places))}


# ---------------------------------------------------------------------------------------- each of the stores


def test_conversations_of_the_openai_sdk_come_in_and_are_told_by_name(call, vault):
    """A7."""
    done = call("import", "openai-sqlite", openai())
    assert done.code == 0
    assert done.out.startswith("chats.db: OpenAI Agents SDK, 4 rows, ")
    assert ": 2 sessions, 4 new events\n" in done.out
    assert [line.split()[-1] for line in done.out.splitlines()[1:]] == ["0", "1"]
    assert done.err == "chats.db still holds all of it; remove it, and its copies, when nothing needs it\n"
    assert openai_there() == [TALK, TALK]
    document = call("import", "openai-sqlite", "chats.db", "--json", "--as", "alice").document
    assert (document["store"], document["file"], document["problems"]) == ("openai-sqlite", "chats.db", [])
    assert (len(document["sessions"]), document["events"], document["rows"]) == (2, 4, 4)


def test_tables_of_other_names_and_an_age_can_be_given(call, vault):
    store = SQLiteSession("0", "own.db", "my_sessions", "my_messages")
    asyncio.run(store.add_items(TALK))
    store.close()
    changed("own.db", "UPDATE my_messages SET created_at = '2024-02-03 04:05:06' WHERE id = 1")
    assert call("import", "openai-sqlite", "own.db").code == 2
    named = ("--sessions-table", "my_sessions", "--messages-table", "my_messages", "--max-age", "30d")
    document = call("import", "openai-sqlite", "own.db", *named, "--json").document
    assert (document["events"], [problem["row"] for problem in document["problems"]]) == (1, [1])
    assert openai_there(count=1) == [TALK[1:]]
    for age in ("0d", "1y", "soon"):
        assert call("import", "openai-sqlite", "own.db", "--max-age", age).code == 2


def test_an_item_that_cannot_be_taken_is_reported_by_its_row_and_costs_no_other(call, vault):
    """L12."""
    openai()
    changed("chats.db", "UPDATE agent_messages SET message_data = 'no JSON' WHERE id = 2")
    done = call("import", "openai-sqlite", "chats.db")
    assert done.code == 0
    assert "3 new events" in done.out
    assert done.err.splitlines()[0] == "chats.db: row 2: not JSON"


def test_a_name_of_the_frameworks_is_not_obeyed_by_the_terminal(call, vault):
    store = SQLiteSession("\x1b[2J\u202e", "chats.db")
    asyncio.run(store.add_items(TALK))
    store.close()
    done = call("import", "openai-sqlite", "chats.db")
    assert done.out.splitlines()[1].endswith("  \\x1b[2J\\u202e")


def test_threads_of_langgraph_come_in_and_what_stays_behind_is_named(call, vault):
    """A7."""
    done = call("import", "langgraph-sqlite", langgraph())
    assert done.code == 0
    assert done.out.startswith("threads.db: LangGraph checkpoints, 2 threads: 6 new checkpoints, ")
    assert "left out of the metadata: api_key\n" in done.err
    assert langgraph_there() == [["Hello.", "yes"]] * 2
    with_metadata = ("--metadata", "api_key", "--as", "alice", "--json")
    document = call("import", "langgraph-sqlite", "threads.db", *with_metadata).document
    assert (document["store"], document["threads"], document["checkpoints"]) == ("langgraph-sqlite", 2, 6)
    assert document["left_out"] == []


def test_items_of_langgraphs_store_come_in(call, vault):
    """A2."""
    done = call("import", "langgraph-store-sqlite", langgraph_store())
    assert done.code == 0
    assert done.out == "items.db: LangGraph store: 2 new items, 0 there already, 0 expired\n"
    assert langgraph_store_there() == ["tea 0", "tea 1"]
    again = call("import", "langgraph-store-sqlite", "items.db", "--json").document
    counts = {"taken": 0, "known": 2, "expired": 0}
    assert again == {"store": "langgraph-store-sqlite", "file": "items.db", **counts}


@pytest.mark.parametrize("kind", ["sqlite", "database"])
def test_sessions_of_google_adk_come_in(call, vault, kind):
    """A7."""
    done = call("import", "adk-sqlite", adk(kind=kind))
    assert done.code == 0
    assert ": 2 sessions, 2 new events\n" in done.out
    assert "app / 0 / s" in done.out
    assert "this was of 2 users" in done.err
    assert adk_there() == [("Hello from 0.", "0"), ("Hello from 1.", "1")]


def test_each_user_of_google_adk_can_be_brought_to_a_person_of_their_own(call, vault):
    """O1."""
    adk()
    for user in names(2):
        done = call("import", "adk-sqlite", "adk.db", "--app", "app", "--user", user, "--as", user)
        assert (done.code, "users" in done.err) == (0, False)
    assert adk_there("0") == [("Hello from 0.", "0"), None]
    done = call("import", "adk-sqlite", "adk.db", "--app", "another", "--json")
    assert (done.document["sessions"], done.err) == ([], "")


def test_what_is_imported_is_the_callers_and_nobody_elses(call, vault):
    """A1, O1."""
    call("import", "openai-sqlite", openai(), "--as", "alice")
    assert openai_there("alice") == [TALK, TALK]
    assert openai_there("bob") == [[], []]


# -------------------------------------------------------------------------- twice, and after an interruption


def events(call):
    """All that is in all sessions."""
    listed = call("sessions", "--json").document["sessions"]
    return {one["id"]: call("show", one["id"], "--json").out for one in listed}


@pytest.mark.parametrize("store", STORES)
def test_to_import_twice_imports_nothing_twice(call, vault, store):
    """L7."""
    make, read, _ = STORES[store]
    path = make()
    assert call("import", store, path).code == 0
    before, there = events(call), read()
    done = call("import", store, path)
    assert (done.code, events(call), read()) == (0, before, there)
    assert ": 0 new " in done.out or ", 0 new " in done.out


@pytest.mark.parametrize("store", STORES)
def test_an_import_that_was_killed_is_completed_by_the_next(start, call, vault, store):
    """L7, L12."""
    make, read, one = STORES[store]
    path = make(count=60)
    process = start("import", store, path)
    with Vault.open(vault) as opened:
        sessions = opened.access(OWNER).sessions
        while len(sessions.find().items) == 1:
            assert process.poll() is None
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert call("import", store, path).code == 0
    assert read(count=60) == [one(name) for name in names(60)]
    assert call("verify").code == 0
    done = call("import", store, path)
    assert ": 0 new " in done.out or ", 0 new " in done.out


def test_ctrl_c_says_how_to_go_on(start, vault, place):
    """L12."""
    process = start("import", "langgraph-store-sqlite", langgraph_store(count=200))
    with Vault.open(vault) as opened:
        store = VaultStore(opened.access(OWNER))
        while len(store.search(USERS, limit=2)) < 2:
            assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"run again, takes the rest\nsession-vault: interrupted\n" in err


def test_what_was_erased_in_the_vault_does_not_come_back(call, vault):
    """D4, D6."""
    call("import", "adk-sqlite", adk())
    with reading() as access:
        erased = VaultSessionService(access).delete_session(app_name="app", user_id="0", session_id="s")
        asyncio.run(erased)
    done = call("import", "adk-sqlite", "adk.db")
    assert "a session that was erased; it is not brought back" in done.err
    assert adk_there() == [None, ("Hello from 1.", "1")]


def test_a_thread_that_was_erased_in_the_vault_does_not_come_back(call, vault):
    """D4."""
    call("import", "langgraph-sqlite", langgraph())
    with reading() as access:
        VaultSaver(access).delete_thread("0")
    done = call("import", "langgraph-sqlite", "threads.db")
    assert (done.code, done.out) == (5, "")
    assert "a thread of this file was erased in the vault and does not come back" in done.err
    assert langgraph_there() == [[], ["Hello.", "yes"]]


def test_a_damaged_item_of_a_store_ends_its_import_and_what_came_before_is_told_of(call, vault):
    """L12."""
    langgraph_store()
    changed("items.db", "UPDATE store SET value = '{' WHERE key = '1'")
    done = call("import", "langgraph-store-sqlite", "items.db")
    assert done.code == 2
    assert done.err.startswith("what was taken before this is in the vault\nsession-vault: ")
    assert langgraph_store_there() == ["tea 0", None]


# ------------------------------------------------------------------------------------ objects of own classes

SHOP = "from dataclasses import dataclass\n\n@dataclass\nclass Order:\n    number: int\n"
ORDERS = """
import sqlite3
from typing import TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from shop import Order

class State(TypedDict):
    order: Order

saver = SqliteSaver(sqlite3.connect("orders.db", check_same_thread=False))
graph = StateGraph(State).add_node("n", lambda state: {"order": Order(2)})
graph = graph.add_edge(START, "n").add_edge("n", END).compile(checkpointer=saver)
graph.invoke({"order": Order(1)}, {"configurable": {"thread_id": "one"}})
"""


def test_a_class_is_made_only_when_it_was_named_and_the_answer_says_how(start, vault, place):
    """A7."""
    (place / "shop.py").write_text(SHOP)
    program, here = [sys.executable, "-W", "ignore", "-c", ORDERS], path_of(place, ROOT)
    subprocess.run(program, check=True, env={**os.environ, **here}, cwd=place)

    def imported(*arguments):
        process = start("import", "langgraph-sqlite", "orders.db", *arguments, env=here)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err.decode()

    code, out, err = imported()
    assert (code, out) == (2, b"")
    assert err.startswith(
        "orders.db: it holds objects of a class; if that is yours, add --class shop:Order\nsession-vault: "
    )
    assert err.count("\n") == 2
    for named in ("shop", "shop:", ":Order", "shop:Order()", "../shop:Order"):
        code, out, err = imported("--class", named)
        assert (code, out, err.count("\n")) == (2, b"", 1)
        assert "--class is module:Class" in err
    code, out, err = imported("--class", "shop:Order", "--json")
    assert (code, err, json.loads(out)["checkpoints"]) == (0, "", 3)


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("store", STORES)
def test_each_mistake_with_a_file_is_one_sentence(call, vault, place, store):
    (place / "text.db").write_text("no database " * 100)
    changed("other.db", "CREATE TABLE something (x)")
    (place / "link.db").symlink_to(vault / "data.db")
    (place / "second.db").hardlink_to(vault / "keys.db")
    said = {
        "absent.db": "there is no such file",
        "-": "there is no such file",
        ".": "this is a directory",
        "text.db": "no SQLite database",
        "other.db": "this ",
        vault / "data.db": "the vault's own",
        "link.db": "the vault's own",
        "second.db": "the vault's own",
    }
    for path, words in said.items():
        done = call("import", store, path)
        assert (path, done.code, done.out) == (path, 2, "")
        assert done.err.startswith("session-vault: ")
        assert (done.err.count("\n"), words in done.err) == (1, True)
        assert call("import", store, path, "--json").document["error"] == "InvalidInput"
    assert call("import", store, "other.db", "--vault", "nowhere").code == 3
    assert call("import", store).code == 2


@pytest.mark.parametrize(
    ("store", "package", "extra"),
    [
        pytest.param("langgraph-sqlite", "langgraph", "langgraph", id="langgraph"),
        pytest.param("langgraph-store-sqlite", "langgraph", "langgraph", id="langgraph-store"),
        pytest.param("adk-sqlite", "google", "google-adk", id="google-adk"),
        pytest.param("openai-sqlite", "agents", "openai-agents", id="openai-agents-encrypted"),
    ],
)
def test_a_framework_that_is_not_installed_is_named_by_its_extra(start, vault, place, store, package, extra):
    path = STORES[store][0]()
    (place / "without" / package).mkdir(parents=True)
    (place / "without" / package / "__init__.py").write_text("raise ImportError\n")
    key = ["--key", "env:HOME"] if store == "openai-sqlite" else []
    process = start("import", store, path, *key, env=path_of(place / "without", ROOT))
    out, err = process.communicate(timeout=60)
    install = f"the framework's own package is needed: pip install 'agent-session-vault[{extra}]'"
    assert (process.returncode, out, err.decode()) == (2, b"", f"session-vault: {install}\n")


def test_conversations_of_the_openai_sdk_in_clear_come_in_without_the_sdk(start, vault, place):
    path = openai()
    (place / "without" / "agents").mkdir(parents=True)
    (place / "without" / "agents" / "__init__.py").write_text("raise ImportError\n")
    process = start("import", "openai-sqlite", path, env=path_of(place / "without", ROOT))
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert openai_there() == [TALK, TALK]


# -------------------------------------------------------------------------------------- beside `import FILE`


def test_files_are_imported_as_before_with_and_without_their_word(call, vault):
    """L12."""
    Path("one.jsonl").write_text(call("export", "latest").out, encoding="utf-8")
    for words in (["import"], ["import", "files"], ["import", "--as", "bob", "--format", "jsonl"]):
        done = call(*words, "one.jsonl")
        assert (done.code, done.err) == (0, "")
        assert "one.jsonl: session JSONL, 4 lines" in done.out


def test_a_file_that_has_the_name_of_a_store_can_still_be_named(call, vault, place):
    (place / "adk-sqlite").write_text(call("export", "latest").out, encoding="utf-8")
    assert "session JSONL" in call("import", "./adk-sqlite").out
    assert "session JSONL" in call("import", "files", "adk-sqlite", "--as", "bob").out


def test_a_database_that_is_given_as_a_file_is_answered_with_the_names_of_the_stores(call, vault):
    done = call("import", openai())
    assert done.code == 2
    assert all(store in done.err for store in STORES)
    done = call("import", "--as", "alice", "openai-sqlite", "chats.db")
    assert "a store's name comes first, its options last" in done.err


def test_the_vaults_own_database_is_not_even_looked_into(call, vault):
    done = call("import", vault / "data.db")
    assert (done.code, "the vault's own" in done.err) == (2, True)


def test_the_help_of_import_names_files_and_every_store(call):
    for option in ("--help", "-h"):
        done = call("import", option)
        assert done.code == 0
        assert "FILE... | STORE PATH" in done.out
        assert all(f"  {name} " in done.out for name in ("files", *STORES))


def test_the_program_starts_without_any_framework():
    program = "import sys, vault.cli; print({name.split('.')[0] for name in sys.modules} & set(sys.argv))"
    arguments = [sys.executable, "-c", program, "agents", "openai", "langgraph", "langchain_core", "google"]
    assert subprocess.run(arguments, capture_output=True, check=True, cwd=ROOT).stdout == b"set()\n"
