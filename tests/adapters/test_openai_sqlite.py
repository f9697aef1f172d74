"""Conversations of the SDK's own SQLite stores come into the vault, encrypted ones with their key."""

import asyncio
import contextlib
import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
from agents.extensions.memory import AdvancedSQLiteSession, AsyncSQLiteSession
from agents.extensions.memory.encrypt_session import EncryptedSession
from agents.memory import SQLiteSession
from cryptography.fernet import Fernet

from tests.adapters.openai_agents.talk import call, in_seconds, kinds, output, said, texts
from vault.adapters.openai_agents import VaultSession
from vault.adapters.openai_sqlite import import_openai_sqlite
from vault.errors import InvalidInput

ran = asyncio.run
KEY = Fernet.generate_key().decode()
ITEMS = [said("1"), call("c"), output("c"), {"role": "assistant", "content": [{"z": 1, "a": "é\x00🜂"}]}]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "sessions.db"


def plain(name, file):
    return SQLiteSession(name, file)


def encrypted(name, file, key=KEY):
    return EncryptedSession(name, SQLiteSession(name, file), key)


def written(session, items):
    """A conversation in one of the SDK's stores, which is closed again."""

    async def write():
        await session.add_items(items)
        closing = (
            session.underlying_session.close if hasattr(session, "underlying_session") else session.close
        )
        done = closing()
        if asyncio.iscoroutine(done):
            await done

    ran(write())


@contextlib.contextmanager
def changed(file):
    connection = sqlite3.connect(file, isolation_level=None)
    with contextlib.closing(connection):
        yield connection


def asynchronous(name, file):
    return AsyncSQLiteSession(name, file)


STORES = {
    "sqlite": (plain, None),
    "async": (asynchronous, None),
    "encrypted": (encrypted, KEY),
    "encrypted over async": (lambda name, file: EncryptedSession(name, asynchronous(name, file), KEY), KEY),
    "encrypted with a phrase": (lambda name, file: encrypted(name, file, "a phrase"), "a phrase"),
}


@pytest.mark.parametrize(("store", "key"), STORES.values(), ids=STORES)
def test_every_conversation_comes_in_exactly_as_its_store_gives_it(alice, file, store, key):
    """S1."""
    for name in ("one", "two", "naïve/日本語"):
        written(store(name, file), [*ITEMS, said(name)])
    report = import_openai_sqlite(alice, file, encryption_key=key)
    assert (len(report.sessions), report.events, report.lines, report.problems) == (3, 15, 15, ())
    for name in ("one", "two", "naïve/日本語"):
        there = ran(VaultSession(name, alice).get_items())
        assert json.dumps(there) == json.dumps([*ITEMS, said(name)])


def test_the_stores_of_sqlalchemy_come_in_too(alice, file):
    memory = pytest.importorskip("agents.extensions.memory.sqlalchemy_session")

    async def write():
        store = memory.SQLAlchemySession.from_url(
            "one", url=f"sqlite+aiosqlite:///{file}", create_tables=True
        )
        await store.add_items(ITEMS)
        await store.engine.dispose()

    ran(write())
    assert import_openai_sqlite(alice, file).events == 4
    assert ran(VaultSession("one", alice).get_items()) == ITEMS


def test_the_main_branch_of_a_branching_store_comes_in(alice, file):
    async def write():
        store = AdvancedSQLiteSession(session_id="one", db_path=file, create_tables=True)
        await store.add_items([said("1"), said("a", "assistant"), said("2"), said("b", "assistant")])
        await store.create_branch_from_turn(2, "other")
        await store.add_items([said("of the branch")])
        await store.switch_to_branch("main")
        await store.add_items([said("3")])
        store.close()

    ran(write())
    report = import_openai_sqlite(alice, file)
    assert texts(ran(VaultSession("one", alice).get_items())) == ["1", "a", "2", "b", "3"]
    assert [problem.reason for problem in report.problems] == ["a branch beside the main one was left behind"]


def test_when_each_item_was_made_is_kept(alice, file):
    written(plain("one", file), ITEMS)
    with changed(file) as connection:
        connection.execute("UPDATE agent_messages SET created_at = '2024-02-03 04:05:06' WHERE id = 1")
    import_openai_sqlite(alice, file)
    first, *_ = VaultSession("one", alice).vault_session().events(types=["openai.item"])
    assert first.occurred_at == datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_tables_of_other_names_come_in_when_they_are_named(alice, file):
    written(SQLiteSession("one", file, "my_sessions", "my_messages"), ITEMS)
    with pytest.raises(InvalidInput, match="name its tables"):
        import_openai_sqlite(alice, file)
    report = import_openai_sqlite(alice, file, sessions_table="my_sessions", messages_table="my_messages")
    assert report.events == 4


@pytest.mark.parametrize("name", ["agent_messages; DROP TABLE x", 'agent_messages" AS m --', ""])
def test_a_table_name_that_is_no_table_says_nothing_to_the_database(alice, file, name):
    written(plain("one", file), ITEMS)
    with pytest.raises(InvalidInput):
        import_openai_sqlite(alice, file, messages_table=name)


def test_a_file_that_is_no_database_is_refused(alice, file, tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        import_openai_sqlite(alice, file)
    file.write_bytes(b"not a database" * 100)
    with pytest.raises(InvalidInput):
        import_openai_sqlite(alice, file)
    with changed(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE something (x)")
    with pytest.raises(InvalidInput, match="no sessions of the OpenAI Agents SDK"):
        import_openai_sqlite(alice, str(tmp_path / "other.db"))


# ------------------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    "key", [None, "", Fernet.generate_key().decode(), "wrong"], ids=["none", "empty", "another", "a phrase"]
)
def test_a_wrong_key_or_none_moves_nothing(alice, file, key):
    """K1: in the SDK a wrong key gives an empty history, or drains it."""
    written(encrypted("one", file), ITEMS)
    written(encrypted("two", file), ITEMS)
    with pytest.raises(InvalidInput, match="key") as refusal:
        import_openai_sqlite(alice, file, encryption_key=key)
    assert KEY not in str(refusal.value)
    assert alice.sessions.find().items == ()


def test_an_item_in_clear_among_encrypted_ones_is_not_taken(alice, file):
    """K2: who could write the file could have put it there."""
    written(encrypted("one", file), ITEMS)
    written(plain("one", file), [said("forged")])
    report = import_openai_sqlite(alice, file, encryption_key=KEY)
    assert ran(VaultSession("one", alice).get_items()) == ITEMS
    assert [(problem.line, problem.reason) for problem in report.problems] == [
        (5, "an item in clear within an encrypted database")
    ]


def test_an_encrypted_item_of_another_session_or_key_is_not_taken(alice, file):
    written(encrypted("one", file), ITEMS)
    written(encrypted("two", file, "another key"), [said("x")])
    with changed(file) as connection:
        connection.execute("UPDATE agent_messages SET session_id = 'moved' WHERE id = 2")
    report = import_openai_sqlite(alice, file, encryption_key=KEY)
    assert kinds(ran(VaultSession("one", alice).get_items())) == ["user", "function_call_output", "assistant"]
    assert ran(VaultSession("moved", alice).get_items()) == []
    assert [problem.reason for problem in report.problems] == [
        "an encrypted item that the key does not open"
    ] * 2


def test_what_the_encrypted_session_no_longer_showed_comes_in_unless_it_is_to_be_left(alice, file):
    """R1: there, time only hides; here the application says whether it is to come along."""
    written(encrypted("one", file), ITEMS)
    old = in_seconds(datetime.now(UTC) - timedelta(hours=2))
    with changed(file) as connection:
        connection.execute("UPDATE agent_messages SET created_at = ? WHERE id <= 2", (old,))
    report = import_openai_sqlite(alice, file, encryption_key=KEY, ttl=timedelta(hours=1))
    # The output is young, and its call is not.
    assert kinds(ran(VaultSession("one", alice).get_items())) == ["assistant"]
    assert [problem.line for problem in report.problems] == [1, 2, 3]


# ---------------------------------------------------------------------------------------------- damaged input


def test_what_cannot_be_taken_is_reported_by_its_row_and_costs_no_other(alice, file):
    written(plain("one", file), [said(str(number)) for number in range(8)])
    damaged = ["not json", "[1]", '{"a": NaN}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}', None, b"\xff\xfe"]
    with changed(file) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'message_data TEXT NOT NULL', 'message_data')"
        )
    with changed(file) as connection:
        for row, data in enumerate(damaged, 1):
            connection.execute("UPDATE agent_messages SET message_data = ? WHERE id = ?", (data, row))
    seen = []
    report = import_openai_sqlite(alice, file, progress=lambda rows, size: seen.append((rows, size)))
    assert texts(ran(VaultSession("one", alice).get_items())) == ["7"]
    assert [problem.line for problem in report.problems] == [1, 2, 3, 4, 5, 6, 7]
    assert report.problems_total == 7
    assert seen == [(8, report.bytes)]


def test_the_file_is_not_changed(alice, file):
    written(encrypted("one", file), ITEMS)
    before = file.read_bytes()
    import_openai_sqlite(alice, file, encryption_key=KEY)
    assert file.read_bytes() == before


# -------------------------------------------------------------------------------------------------- once more


def test_importing_again_adds_only_what_is_new(alice, file):
    written(plain("one", file), ITEMS)
    assert import_openai_sqlite(alice, file).events == 4
    assert import_openai_sqlite(alice, file).events == 0
    written(plain("one", file), [said("later")])
    assert import_openai_sqlite(alice, file).events == 1
    assert ran(VaultSession("one", alice).get_items()) == [*ITEMS, said("later")]


def test_an_interrupted_import_goes_on_where_it_ended(alice, file):
    """Also within a large conversation."""
    written(plain("one", file), [said(str(number)) for number in range(450)])

    class Interrupted(Exception):
        pass

    def interrupt(rows, size):
        raise Interrupted

    with pytest.raises(Interrupted):
        import_openai_sqlite(alice, file, progress=interrupt)
    assert 0 < len(ran(VaultSession("one", alice).get_items())) < 450
    report = import_openai_sqlite(alice, file)
    assert texts(ran(VaultSession("one", alice).get_items())) == [str(number) for number in range(450)]
    assert 0 < report.events < 450


def test_a_conversation_that_went_on_in_the_vault_is_left_alone(alice, file):
    written(plain("one", file), ITEMS)
    import_openai_sqlite(alice, file)
    ran(VaultSession("one", alice).add_items([said("in the vault")]))
    assert import_openai_sqlite(alice, file).problems == ()  # all of it is there
    written(plain("one", file), [said("in the file")])
    report = import_openai_sqlite(alice, file)
    assert texts(ran(VaultSession("one", alice).get_items()))[-1] == "in the vault"
    assert [problem.reason for problem in report.problems] == [
        "this conversation went on otherwise in the vault: left alone"
    ]


@pytest.mark.parametrize("how", ["pop", "clear", "expire", "retract", "erase"])
def test_what_was_erased_in_the_vault_does_not_come_back_by_importing_again(alice, file, how):
    """D4."""
    written(plain("one", file), ITEMS)
    import_openai_sqlite(alice, file)
    talk = VaultSession("one", alice)
    session = talk.vault_session()
    item = next(session.events(types=["openai.item"]))
    uses = {
        "pop": talk.pop_item,
        "clear": talk.clear_session,
        "expire": lambda: talk.expire_items(timedelta(0)),
        "erase": talk.erase,
    }
    if how == "retract":
        session.retract([item.id])
    else:
        ran(uses[how]())
    report = import_openai_sqlite(alice, file)
    assert (report.events, report.problems_total) == (0, 1)


def test_a_person_gets_only_what_is_imported_for_them(vault, principal, file):
    """A1."""
    written(plain("one", file), ITEMS)
    import_openai_sqlite(vault.access(principal("bob")), file)
    assert ran(VaultSession("one", vault.access(principal("alice"))).get_items()) == []


def test_nothing_that_was_imported_stands_in_any_file(vault, alice, file, files_with):
    """K1."""
    canary = "canary-51c0"
    written(encrypted(f"id-{canary}", file), [said(f"text {canary}"), call(f"c-{canary}")])
    import_openai_sqlite(alice, file, encryption_key=KEY)
    vault.close()
    assert files_with(canary) == [] == files_with(KEY)
