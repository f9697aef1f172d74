"""Moving in from ADK's own databases: made by ADK's own services, then read by ours."""

import asyncio
import contextlib
import json
import sqlite3

import pytest
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from tests.adapters.google_adk_case import APP, Services, said, texts
from vault.adapters import google_adk_record
from vault.adapters.google_adk_sqlite import import_adk_sqlite
from vault.errors import InvalidInput

S1 = {**APP, "session_id": "s1"}


@pytest.fixture
def services(alice):
    return Services.of(alice)


@pytest.fixture(params=["database", "sqlite"])
def old(request, tmp_path):
    """A database that one of ADK's services has filled, and what it gives out."""
    path = tmp_path / "adk.db"

    async def fill():
        if request.param == "database":
            service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
        else:
            service = SqliteSessionService(str(path))
        sessions = {}
        for place in (
            S1,
            {**APP, "session_id": "s2"},
            {"app_name": "app", "user_id": "u2", "session_id": "s1"},
        ):
            state = {"first": [1], "changed": 0, "user:name": place["user_id"], "app:theme": "dark"}
            session = await service.create_session(**place, state=state)
            for n in range(3):
                delta = {"changed": n, f"new{n}": {"n": n}, "user:n": n}
                event = said(f"{place['user_id']} {n}", delta=delta, custom_metadata={"n": n})
                await service.append_event(session, event)
            sessions[place["user_id"], place["session_id"]] = await service.get_session(**place)
        other = await service.create_session(app_name="app2", user_id="u1", session_id="s1")
        sessions["app2"] = other
        if request.param == "database":
            await service.close()
        return sessions

    return path, asyncio.run(fill())


def changed(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


def test_everything_comes_over_and_goes_on(old, services, alice):
    """A7, L1: events, their order, the state of sessions, users and apps."""
    path, expected = old
    told = []
    report = import_adk_sqlite(alice, path, progress=lambda *done: told.append(done))
    assert (len(report.sessions), report.events, report.lines, report.problems_total) == (4, 9, 9, 0)
    assert told[-1] == (9, report.bytes)

    async def look():
        for (user, name), session in [(key, one) for key, one in expected.items() if key != "app2"]:
            moved = await services.sessions.get_session(app_name="app", user_id=user, session_id=name)
            assert moved.events == session.events
            assert moved.state == session.state
            assert moved.last_update_time == pytest.approx(session.last_update_time, abs=1e-5)
        listed = await services.sessions.list_sessions(app_name="app2")
        assert [one.id for one in listed.sessions] == ["s1"]
        session = await services.sessions.get_session(**S1)
        await services.sessions.append_event(session, said("on", delta={"user:n": 9}))
        assert texts(await services.sessions.get_session(**S1))[-1] == "on"
        assert (await services.sessions.get_user_state(**APP))["n"] == 9

    asyncio.run(look())


def test_an_import_that_is_run_again_changes_nothing(old, services, alice):
    """L7: also when what came over went on meanwhile."""
    path, _ = old
    first = import_adk_sqlite(alice, path)

    async def go_on():
        session = await services.sessions.get_session(**S1)
        await services.sessions.append_event(session, said("on", delta={"changed": 7, "user:n": 8}))

    asyncio.run(go_on())
    again = import_adk_sqlite(alice, path)
    assert (again.sessions, again.events, again.problems_total) == (first.sessions, 0, 0)
    session = asyncio.run(services.sessions.get_session(**S1))
    assert len(session.events) == 4
    assert (session.state["changed"], session.state["user:n"]) == (7, 8)


def test_one_app_and_one_user_can_be_taken(old, vault, principal):
    """O1: each user's into their own hands."""
    path, _ = old
    access = vault.access(principal("bob"))
    report = import_adk_sqlite(access, path, app_name="app", user_id="u2")
    assert (len(report.sessions), report.events) == (1, 3)

    async def look():
        services = Services.of(access)
        assert [one.user_id for one in (await services.sessions.list_sessions(app_name="app")).sessions] == [
            "u2"
        ]
        assert await services.sessions.get_user_state(**APP) == {}
        assert (await services.sessions.get_user_state(app_name="app", user_id="u2"))["name"] == "u2"

    asyncio.run(look())


def test_the_order_is_that_of_the_storing_not_of_the_times(tmp_path, services, alice):
    """L8: an event with an older time, which ADK itself gives out first."""
    path = tmp_path / "adk.db"

    async def fill():
        service = SqliteSessionService(str(path))
        session = await service.create_session(**S1)
        for name, back in (("one", 0), ("two", 0), ("older", 100)):
            event = said(name)
            event.timestamp -= back
            await service.append_event(session, event)
        return texts(await service.get_session(**S1))

    assert asyncio.run(fill()) == ["older", "one", "two"]
    import_adk_sqlite(alice, path)
    assert texts(asyncio.run(services.sessions.get_session(**S1))) == ["one", "two", "older"]


def test_a_damaged_event_is_told_of_and_costs_no_other(old, services, alice):
    """L12."""
    path, _ = old
    for row, text in ((1, "{"), (2, '"text"')):
        changed(path, "UPDATE events SET event_data = ? WHERE rowid = ?", text, row)
    report = import_adk_sqlite(alice, path)
    assert [one.line for one in report.problems] == [1, 2]
    assert report.events == 7
    session = asyncio.run(services.sessions.get_session(**S1))
    assert texts(session) == ["u1 2"]
    assert session.state["new0"] == {"n": 0}  # ADK kept it beside the event


def test_a_state_that_its_events_do_not_tell_comes_over_too(old, services, alice):
    """A7: what another writer changed without an event."""
    path, _ = old
    state = {"first": [1], "changed": "otherwise", "new0": 5}
    changed(path, "UPDATE sessions SET state = ? WHERE id = 's1' AND user_id = 'u1'", json.dumps(state))
    import_adk_sqlite(alice, path)
    moved = asyncio.run(services.sessions.get_session(**S1)).state
    assert {key: moved[key] for key in state} == state


def test_a_session_that_was_erased_here_is_not_brought_back(old, services, alice):
    """D6."""
    path, _ = old
    import_adk_sqlite(alice, path)
    asyncio.run(services.sessions.delete_session(**S1))
    report = import_adk_sqlite(alice, path)
    assert (report.events, report.problems_total, len(report.sessions)) == (0, 1, 3)
    assert asyncio.run(services.sessions.get_session(**S1)) is None


def test_a_long_session_is_cheap_to_read_at_once(old, services, alice, monkeypatch):
    """L9: a snapshot stands at its end."""
    monkeypatch.setattr(google_adk_record, "SNAPSHOT_FACTS", 3)
    path, _ = old
    report = import_adk_sqlite(alice, path)
    session = alice.sessions.resume(report.sessions[0])
    assert next(session.events(limit=1, newest_first=True)).type == "adk.state"


def test_two_sessions_that_differ_in_white_space_are_not_mixed(old, services, alice):
    """O1."""
    path, _ = old
    changed(path, "UPDATE sessions SET id = ' s1 ' WHERE id = 's2'")
    report = import_adk_sqlite(alice, path)
    assert report.problems_total == 1
    assert texts(asyncio.run(services.sessions.get_session(**S1))) == ["u1 0", "u1 1", "u1 2"]


def test_what_is_no_database_of_adks_is_refused(tmp_path, alice):
    """A7."""
    with pytest.raises(InvalidInput, match="no such file"):
        import_adk_sqlite(alice, tmp_path / "none.db")
    changed(tmp_path / "other.db", "CREATE TABLE sessions (id)")
    with pytest.raises(InvalidInput, match="no database of Google ADK"):
        import_adk_sqlite(alice, tmp_path / "other.db")


def test_pickles_are_never_opened(old, alice):
    """A7: the format of ADK's older versions."""
    path, _ = old
    changed(path, "ALTER TABLE events RENAME COLUMN event_data TO actions")
    with pytest.raises(InvalidInput, match="pickles"):
        import_adk_sqlite(alice, path)
    assert alice.sessions.find().items == ()


def test_the_state_of_a_person_who_was_erased_here_is_not_brought_back(old, services, alice, officer):
    """D6."""
    path, _ = old
    import_adk_sqlite(alice, path)
    officer.erasure.erase(subject="alice")
    report = import_adk_sqlite(alice, path)
    assert (report.sessions, report.events, report.problems_total) == ((), 0, 7)
    assert asyncio.run(services.sessions.get_user_state(**APP)) == {}
