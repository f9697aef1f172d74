"""What can be done to the files of a vault in which Google ADK keeps things: nothing that is not seen."""

# ruff: noqa: S608 - names in the statements are the tests' own

import asyncio
import hashlib
import json

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import GetSessionConfig

from tests.adapters.google_adk_case import Services, content, file, said, texts
from tests.security import surgery
from vault import Principal, Vault
from vault.errors import Tampered

ALICE = Principal(tenant="CANARY-tenant", subject="CANARY-alice")
APP = {"app_name": "CANARY-app", "user_id": "CANARY-user"}
PLACES = [{**APP, "session_id": f"CANARY-session-{n}"} for n in range(2)]
ROW = {"session_no", "seq"}


def opened(place):
    return Vault.open(place) if place.exists() else Vault.create(place, settings={"synchronous": "NORMAL"})


def with_services(place, work):
    """What some work gives on a vault that is opened for it and closed again."""
    with opened(place) as vault:
        return asyncio.run(work(Services.of(vault.access(ALICE))))


def line(number, event):
    delta = {"CANARY-key": event, "user:CANARY-user-key": "CANARY-value", "app:CANARY-app-key": 1}
    text = f"CANARY-text {number} {event} " + "x" * 100
    return said(text, id=f"CANARY-event-{number}-{event}", author="CANARY-author", delta=delta)


async def fill(services):
    for number, place in enumerate(PLACES):
        session = await services.sessions.create_session(**place, state={"CANARY-first": number})
        for event in range(4):
            await services.sessions.append_event(session, line(number, event))
        await services.memories.add_session_to_memory(session)
        fact = MemoryEntry(content=content("CANARY-fact"), id=f"CANARY-memory-{number}")
        await services.memories.add_memory(**APP, memories=[fact])
        for name in ("CANARY-file", "user:CANARY-file"):
            await services.artifacts.save_artifact(
                **place,
                filename=name,
                artifact=file("CANARY-content" * 9, "text/x-canary"),
                custom_metadata={"CANARY-meta": "CANARY-data"},
            )


@pytest.fixture
def filled(place):
    with_services(place, fill)
    return place


def read(place, number=0, **config):
    async def work(services):
        return await services.sessions.get_session(**PLACES[number], config=GetSessionConfig(**config))

    return with_services(place, work)


def numbers(connection):
    """The two sessions' row numbers: those that have the most events, in the order of their making."""
    query = (
        "SELECT session_no FROM events WHERE type = 'adk.event' GROUP BY session_no "
        "HAVING count(*) = 4 ORDER BY session_no"
    )
    found = [no for (no,) in connection.execute(query)]
    assert len(found) == 2
    return found


def events_of(connection, no):
    """The places of ADK's events of a session."""
    query = "SELECT seq FROM events WHERE session_no = ? AND type = 'adk.event' ORDER BY seq"
    return [{"session_no": no, "seq": seq} for (seq,) in connection.execute(query, (no,))]


def swapped(connection, table, places, kept):
    """The rows at two places changed for each other, but for the columns that are kept."""
    found = []
    for where in places:
        terms = " AND ".join(f"{name} = ?" for name in where)
        (row,) = surgery.rows_as_dicts(connection, f"SELECT * FROM {table} WHERE {terms}", *where.values())
        found.append({name: value for name, value in row.items() if name not in kept})
    surgery.without_rules(connection, table)
    for where, values in zip(places, reversed(found), strict=True):
        surgery.update(connection, table, where, **values)


def swapped_between_sessions(connection):
    swapped(connection, "events", [events_of(connection, no)[1] for no in numbers(connection)], ROW)


def swapped_within_a_session(connection):
    swapped(connection, "events", events_of(connection, numbers(connection)[0])[1:3], ROW)


def payloads_swapped(connection):
    kept = set(surgery.column_names(connection, "events")) - {"body", "address", "size"}
    swapped(connection, "events", events_of(connection, numbers(connection)[0])[1:3], kept)


def names_swapped(connection):
    kept = set(surgery.column_names(connection, "sessions")) - {"external"}
    swapped(connection, "sessions", [{"no": no} for no in numbers(connection)], kept)


def a_plaintext_row(connection):
    body = json.dumps(line(0, 1).model_dump(mode="json", exclude_none=True)).encode()
    where = events_of(connection, numbers(connection)[0])[1]
    values = {"body": body, "size": len(body), "address": hashlib.sha256(body).digest()}
    surgery.update(connection, "events", where, **values)


def an_event_removed(connection):
    where = events_of(connection, numbers(connection)[0])[1]
    connection.execute("DELETE FROM events WHERE session_no = :session_no AND seq = :seq", where)


def an_event_made_a_note(connection):
    surgery.update(connection, "events", events_of(connection, numbers(connection)[0])[3], type="ops.note")


@pytest.mark.parametrize(
    "edit",
    [
        swapped_between_sessions,
        swapped_within_a_session,
        payloads_swapped,
        names_swapped,
        a_plaintext_row,
        an_event_removed,
        an_event_made_a_note,
    ],
)
def test_what_was_edited_is_not_read(filled, edit):
    """K2, K4, A7."""
    assert len(read(filled).events) == 4
    with surgery.opened(filled) as connection:
        edit(connection)
    with pytest.raises(Tampered):
        read(filled)


def test_an_older_version_put_back_is_refused(place):
    """K4, A7: the beginning of the session, genuine row by genuine row."""

    async def begin(services):
        session = await services.sessions.create_session(**PLACES[0])
        await services.sessions.append_event(session, line(0, 0))

    async def go_on(services):
        session = await services.sessions.get_session(**PLACES[0])
        await services.sessions.append_event(session, said("later", delta={"CANARY-key": "later"}))

    with_services(place, begin)
    with surgery.opened(place) as connection:
        before = surgery.rows_as_dicts(connection, "SELECT * FROM sessions")
        count = dict(connection.execute("SELECT session_no, max(seq) FROM events GROUP BY session_no"))
    with_services(place, go_on)
    with surgery.opened(place) as connection:
        for row in before:
            connection.execute(
                "DELETE FROM events WHERE session_no = ? AND seq > ?", (row["no"], count[row["no"]])
            )
            surgery.update(connection, "sessions", {"no": row["no"]}, **row)
    with pytest.raises(Tampered):
        read(place)


def test_the_state_of_a_user_that_was_put_back_is_refused(place):
    """K4, A7: it is a log of its own."""

    async def write(services, value, **about):
        session = await services.sessions.create_session(**APP)
        await services.sessions.append_event(session, said("x", delta={"user:k": value}))

    async def state(services):
        return await services.sessions.get_user_state(**APP)

    with_services(place, lambda services: write(services, "old"))
    with surgery.opened(place) as connection:
        (no,) = connection.execute("SELECT session_no FROM events WHERE type = 'adk.delta'").fetchone()
        (before,) = surgery.rows_as_dicts(connection, "SELECT * FROM sessions WHERE no = ?", no)
        (last,) = connection.execute("SELECT max(seq) FROM events WHERE session_no = ?", (no,)).fetchone()
    with_services(place, lambda services: write(services, "new"))
    assert with_services(place, state) == {"k": "new"}
    with surgery.opened(place) as connection:
        connection.execute("DELETE FROM events WHERE session_no = ? AND seq > ?", (no, last))
        surgery.update(connection, "sessions", {"no": no}, **before)
    with pytest.raises(Tampered):
        with_services(place, state)


def tables_of(place):
    with surgery.opened(place) as connection:
        query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        names = [name for (name,) in connection.execute(query)]
        return {name: surgery.rows_as_dicts(connection, f"SELECT * FROM {name}") for name in names}


def test_rows_that_come_late_bring_nothing_back(filled):
    """D6, K4, A7: neither the session, nor its memories and files; nor does a writer who is late."""
    late = read(filled)
    saved = tables_of(filled)

    async def delete(services):
        await services.sessions.delete_session(**PLACES[0])

    with_services(filled, delete)
    with surgery.opened(filled) as connection:
        for table, rows in saved.items():
            for row in rows:
                columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
                connection.execute(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", row)

    async def look(services):
        seen = []
        for call in (
            services.sessions.get_session(**PLACES[0]),
            services.sessions.append_event(late, said("late")),
            services.sessions.create_session(**PLACES[0]),
            services.memories.search_memory(**APP, query="0"),
            services.artifacts.load_artifact(**PLACES[0], filename="CANARY-file"),
            services.artifacts.save_artifact(**PLACES[0], filename="late", artifact=file("late")),
        ):
            try:
                seen.append(await call)
            except (Tampered, SessionNotFoundError, StaleSessionError, AlreadyExistsError) as refusal:
                seen.append(type(refusal))
        return seen

    session, appended, created, memories, artifact, saved_late = with_services(filled, look)
    assert session in (None, Tampered)
    assert appended in (SessionNotFoundError, Tampered)
    assert created in (AlreadyExistsError, Tampered)
    assert memories is Tampered or not any("CANARY-text 0" in str(one) for one in memories.memories)
    assert artifact in (None, Tampered)
    assert saved_late in (SessionNotFoundError, Tampered)


def test_nothing_of_what_adk_says_is_in_clear_in_a_file(filled, files_with):
    """K1: texts, states, names of apps, users, sessions, events, authors, files and memories."""
    assert len(read(filled).events) == 4
    assert files_with("CANARY") == []
    assert files_with("canary") == []


def test_an_events_id_cannot_be_guessed_from_what_stands_in_clear(place):
    """K1: nor can it be told that two sessions hold one."""

    async def one_each(services):
        for where in PLACES:
            session = await services.sessions.create_session(**where)
            await services.sessions.append_event(session, said("x", id="CANARY-event"))

    with_services(place, one_each)
    with surgery.opened(place) as connection:
        stored = {event for (event,) in connection.execute("SELECT event_id FROM events")}
        of_adk = connection.execute("SELECT event_id FROM events WHERE type = 'adk.event'").fetchall()
    assert len(set(of_adk)) == 2
    for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s"):
        digest = hashlib.new(algorithm, b"CANARY-event").digest()
        assert not any(digest[:16] == event for event in stored)
    assert hashlib.blake2b(b"CANARY-event", digest_size=16).digest() not in stored


def test_what_was_deleted_is_in_no_file(filled, files_with):
    """D6."""

    async def delete(services):
        for place in PLACES:
            await services.sessions.delete_session(**place)

    with_services(filled, delete)
    with_services(filled, lambda services: services.sessions.list_sessions(app_name="CANARY-app"))
    assert files_with("CANARY") == []
    with surgery.opened(filled) as connection:
        assert connection.execute("SELECT count(*) FROM events WHERE type = 'adk.event'").fetchone() == (0,)


#: Appends under the vault of another process, each time as who has read the session anew.
WRITER = """
import asyncio, sys
from google.adk.errors import StaleSessionError
from tests.adapters.google_adk_case import Services, said
from tests.adapters.test_google_adk_tampering import ALICE, PLACES
from vault import Vault

async def write(services, name):
    for number in range(20):
        while True:
            session = await services.sessions.get_session(**PLACES[0])
            event = said(f"{name} {number}", delta={f"user:{name}": number, name: number})
            try:
                await services.sessions.append_event(session, event)
                break
            except StaleSessionError:
                print("behind", flush=True)

with Vault.open(sys.argv[1]) as vault:
    asyncio.run(write(Services.of(vault.access(ALICE)), sys.argv[2]))
"""


def test_two_processes_write_one_session_and_lose_nothing(place, python):
    """L2, L8, S6."""
    with_services(place, lambda services: services.sessions.create_session(**PLACES[0]))
    writers = [python(WRITER, place, name) for name in ("one", "two")]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    session = read(place)
    assert session.state == {"one": 19, "two": 19, "user:one": 19, "user:two": 19}
    for name in ("one", "two"):
        mine = [text for text in texts(session) if text.startswith(name)]
        assert mine == [f"{name} {number}" for number in range(20)]
    assert len(session.events) == 40
