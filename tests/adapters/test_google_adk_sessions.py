"""The session service for Google ADK: what its contract asks, and what ADK's own stores get wrong."""

import asyncio
import copy
import hashlib
import traceback

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from tests.adapters.google_adk_case import APP, content, said, texts
from vault.adapters import google_adk_record
from vault.adapters.google_adk import VaultSessionService
from vault.adapters.google_adk_origins import running
from vault.errors import Diverged, InvalidInput

S1 = {**APP, "session_id": "s1"}


@pytest.fixture
def service(alice):
    return VaultSessionService(alice)


@pytest.fixture
def another(vault, principal):
    """A service as another process of the same principal has it: it has seen nothing yet."""
    return VaultSessionService(vault.access(principal("alice")))


async def begun(service, *events, **about):
    session = await service.create_session(**S1, **about)
    for event in events:
        await service.append_event(session, event)
    return session


# ------------------------------------------------------------------------------------------ round trip


def full_event():
    return Event(
        invocation_id="inv",
        author="assistant",
        content=types.Content(
            role="model",
            parts=[
                types.Part.from_bytes(data=b"\x00\xffpng", mime_type="image/png"),
                types.Part(text="thinking", thought=True, thought_signature=b"\x01sig"),
                types.Part.from_function_call(name="lookup", args={"n": 1.5, "none": None}),
            ],
        ),
        actions=EventActions(
            state_delta={"nested": {"list": [1, None, {"x": True}]}, "gone": None, "big": 2**63},
            artifact_delta={"file": 0},
            transfer_to_agent="other",
            escalate=True,
            agent_state={"step": 3},
            compaction=EventCompaction(
                start_timestamp=1.25, end_timestamp=2.5, compacted_content=content("summary", "model")
            ),
        ),
        turn_complete=True,
        partial=False,
        long_running_tool_ids={"a", "b"},
        grounding_metadata=types.GroundingMetadata(
            search_entry_point=types.SearchEntryPoint(sdk_blob=b"blob")
        ),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1),
        custom_metadata={"key": ["value", None]},
        branch="a.b",
        timestamp=1_700_000_000.123456,
    )


def test_an_event_comes_back_as_it_was(service, another):
    """A7, L1: also for a process that has seen nothing of the session."""

    async def scenario():
        session = await begun(service, full_event(), state={"k": 1, "user:u": 2, "app:a": 3})
        for one in (service, another):
            assert await one.get_session(**S1) == session

    asyncio.run(scenario())


def test_what_another_version_of_adk_stored_is_refused_without_quoting_it(service, alice):
    """A7, K1."""

    async def scenario():
        await begun(service)
        (summary,) = alice.sessions.find(labels={"scope": "session"}).items
        event = {"id": "e", "timestamp": 1.0, "author": {"CANARY": "CANARY"}}
        alice.sessions.resume(summary.id).append("adk.event", event)
        with pytest.raises(InvalidInput) as refusal:
            await service.get_session(**S1)
        assert "CANARY" not in "".join(traceback.format_exception(refusal.value))

    asyncio.run(scenario())


def test_a_session_that_was_never_created_is_none(service):
    """A7, O1."""
    assert asyncio.run(service.get_session(**S1)) is None
    assert asyncio.run(service.get_session(**APP, session_id=" ")) is None


def test_an_id_is_given_out_when_none_is_chosen(service):
    """A7."""

    async def scenario():
        one, other = [await service.create_session(**APP) for _ in range(2)]
        assert one.id != other.id
        assert await service.get_session(**APP, session_id=one.id) == one

    asyncio.run(scenario())


def test_white_space_around_an_id_does_not_count(service):
    """A7: as ADK's stores have it."""

    async def scenario():
        session = await service.create_session(**APP, session_id="  s1 ")
        assert session.id == "s1"
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**APP, session_id=" s1")
        assert await service.get_session(**APP, session_id="s1  ") == session
        await service.delete_session(**APP, session_id=" s1")
        assert await service.get_session(**S1) is None

    asyncio.run(scenario())


def test_an_id_that_exists_is_not_created_again(service, another):
    """A7, L7."""

    async def scenario():
        await begun(service, said("kept"), state={"k": 1})
        for one in (service, another):
            with pytest.raises(AlreadyExistsError):
                await one.create_session(**S1, state={"k": 2})
        assert (await service.get_session(**S1)).state == {"k": 1}

    asyncio.run(scenario())


def test_of_two_that_create_one_id_at_once_one_is_refused(service, another):
    """A7, L8."""

    async def scenario():
        made = await asyncio.gather(
            *(one.create_session(**S1) for one in (service, another)), return_exceptions=True
        )
        assert sorted(type(one).__name__ for one in made) == ["AlreadyExistsError", "Session"]

    asyncio.run(scenario())


def test_an_id_that_looks_like_a_path_or_a_query_is_an_id(service):
    """A7, O1: what reached other sessions elsewhere."""

    async def scenario():
        await begun(service, said("mine"))
        odd = {**APP, "session_id": "../s1?force=true"}
        assert await service.get_session(**odd) is None
        await service.delete_session(**odd)
        await service.delete_session(app_name="app", user_id="u2", session_id="s1")
        assert texts(await service.get_session(**S1)) == ["mine"]
        session = await service.create_session(**odd)
        assert session.id == "../s1?force=true"

    asyncio.run(scenario())


def test_what_cannot_be_held_exactly_is_refused_whole(service):
    """A7, L1: an integer beyond 64 bits."""

    async def scenario():
        session = await begun(service)
        with pytest.raises(InvalidInput):
            await service.append_event(session, said("x", delta={"k": 2**70}))
        assert session.events == []
        assert (await service.get_session(**S1)).events == []

    asyncio.run(scenario())


# ----------------------------------------------------------------------------------------------- state


def test_state_is_shared_as_far_as_its_prefix_says(service, another):
    """A7."""

    async def scenario():
        delta = {"k": 1, "user:u": 2, "app:a": 3, "temp:t": 4}
        session = await begun(service, said("x", delta=delta), state={"app:first": 0, "temp:no": 5})
        assert session.state == {"k": 1, "user:u": 2, "app:a": 3, "temp:t": 4, "app:first": 0}
        assert "temp:t" not in session.events[0].actions.state_delta
        stored = await another.get_session(**S1)
        assert stored.state == {"k": 1, "user:u": 2, "app:a": 3, "app:first": 0}
        same_user = await another.create_session(**APP)
        assert same_user.state == {"user:u": 2, "app:a": 3, "app:first": 0}
        other_user = await another.create_session(app_name="app", user_id="u2")
        assert other_user.state == {"app:a": 3, "app:first": 0}
        other_app = await another.create_session(app_name="app2", user_id="u1")
        assert other_app.state == {}
        assert await another.get_user_state(**APP) == {"u": 2}
        assert await another.get_user_state(app_name="app", user_id="nobody") == {}

    asyncio.run(scenario())


def test_state_that_is_handed_out_is_a_copy(service):
    """A7."""

    async def scenario():
        session = await begun(service, state={"k": [1], "user:u": [2]})
        session.state["k"].append("mine alone")
        (await service.get_user_state(**APP))["u"].append("mine alone")
        assert (await service.get_session(**S1)).state == {"k": [1], "user:u": [2]}

    asyncio.run(scenario())


def test_a_state_folds_the_same_with_and_without_snapshots(service, another, monkeypatch):
    """A7, C2."""

    async def scenario():
        monkeypatch.setattr(google_adk_record, "SNAPSHOT_FACTS", 5)
        session = await begun(service, state={"first": [0]})
        for n in range(23):
            delta = {f"k{n % 3}": n, "user:n": n, "app:n": n}
            await service.append_event(session, said(str(n), delta=delta))
        for one in (service, another):
            for config in (None, GetSessionConfig(num_recent_events=0)):
                stored = await one.get_session(**S1, config=config)
                assert stored.state == session.state
            assert (await one.list_sessions(app_name="app")).sessions[0].state == session.state
        assert texts(await another.get_session(**S1)) == [str(n) for n in range(23)]

    asyncio.run(scenario())


def test_a_snapshot_that_says_something_else_than_the_events_is_refused(service, another, alice):
    """C2: an error, never a guess."""

    async def scenario():
        await begun(service, said("one", delta={"k": 1}))
        (summary,) = alice.sessions.find(labels={"scope": "session"}).items
        empty = hashlib.sha256(b"{}").hexdigest()
        wrong = {"state": {}, "updated": 0.0, "owed": None, "sha256": empty}
        alice.sessions.resume(summary.id).append("adk.state", wrong)
        for one in (service, another):
            with pytest.raises(Diverged):
                await one.get_session(**S1)

    asyncio.run(scenario())


def test_a_state_is_read_at_the_cost_of_what_came_since_the_snapshot(service, another, vault, monkeypatch):
    """A7, L9."""

    async def scenario():
        session = await begun(service)
        for n in range(200):
            await service.append_event(session, said(str(n), delta={"n": n}))
        read = []
        taken = google_adk_record.Fold.take
        monkeypatch.setattr(
            google_adk_record.Fold, "take", lambda self, event: (read.append(event), taken(self, event))
        )
        stored = await another.get_session(**S1, config=GetSessionConfig(num_recent_events=2))
        assert texts(stored) == ["198", "199"]
        assert stored.state == {"n": 199}
        assert len(read) <= google_adk_record.SNAPSHOT_FACTS

    asyncio.run(scenario())


def test_what_a_crash_kept_from_the_user_state_is_there_once_somebody_reads_or_tries_again(
    service, another, monkeypatch
):
    """A7, L2: the event decides; the state of user and app follows from it."""

    async def scenario():
        session = await begun(service)
        event = said("x", delta={"user:u": 1, "k": 2})
        monkeypatch.setattr(google_adk_record.Record, "write", crash)
        with pytest.raises(OSError, match="power"):
            await service.append_event(session, event)
        monkeypatch.undo()
        assert await another.get_user_state(**APP) == {}
        stored = await another.get_session(**S1)
        assert stored.state == {"k": 2, "user:u": 1}
        assert texts(stored) == texts(session) == ["x"]
        await service.append_event(session, event)
        assert await another.get_user_state(**APP) == {"u": 1}
        assert len((await another.get_session(**S1)).events) == 1

    asyncio.run(scenario())


def crash(*_):
    raise OSError("power")


# -------------------------------------------------------------------------------- which events are read


def test_recent_events_and_events_after_a_time(service, another):
    """A7."""

    async def scenario():
        await begun(service, *(said(str(n), timestamp=n) for n in range(1, 6)))

        async def read(**config):
            return texts(await another.get_session(**S1, config=GetSessionConfig(**config)))

        assert await read() == ["1", "2", "3", "4", "5"]
        assert await read(num_recent_events=0) == []
        assert await read(num_recent_events=3) == ["3", "4", "5"]
        assert await read(num_recent_events=9) == ["1", "2", "3", "4", "5"]
        assert await read(after_timestamp=4.0) == ["4", "5"]
        assert await read(after_timestamp=50.0) == []
        assert await read(after_timestamp=2.0, num_recent_events=2) == ["4", "5"]
        assert await read(after_timestamp=5.0, num_recent_events=3) == ["5"]

    asyncio.run(scenario())


def test_events_after_a_time_are_all_found_when_times_are_out_of_order(service, another, monkeypatch):
    """A7, L8: also behind a snapshot."""
    monkeypatch.setattr(google_adk_record, "SNAPSHOT_FACTS", 3)

    async def scenario():
        times = [9e9, 1, 2, 9e9 + 1, 3, 4, 5, 6, 9e9 + 2, 7]
        await begun(service, *(said(str(n), timestamp=at) for n, at in enumerate(times)))
        stored = await another.get_session(**S1, config=GetSessionConfig(after_timestamp=9e9))
        assert texts(stored) == ["0", "3", "8"]

    asyncio.run(scenario())


def test_events_after_a_time_do_not_cost_what_a_snapshot_says_is_older(service, another, monkeypatch):
    """A7, L9."""
    monkeypatch.setattr(google_adk_record, "SNAPSHOT_FACTS", 10)

    async def scenario():
        session = await begun(service)
        now = session.last_update_time
        for n in range(95):
            await service.append_event(session, said(str(n), timestamp=now + n))
        asked = []
        monkeypatch.setattr(Event, "model_validate", classmethod(lambda _, payload: asked.append(payload)))
        record = another._records.find("session", "app", "u1", "s1")
        read = [event.payload["id"] for event in record._since(now + 90, 10**6)]
        assert len(read) == 5

    asyncio.run(scenario())


def test_a_partial_event_is_given_back_and_not_kept(service):
    """A7."""

    async def scenario():
        session = await begun(service)
        event = said("par", partial=True, delta={"k": 1})
        assert await service.append_event(session, event) is event
        assert session.events == []
        assert session.state == {}
        assert (await service.get_session(**S1)).events == []

    asyncio.run(scenario())


# ------------------------------------------------------------------------------------- order and writers


def test_the_order_is_the_logs_whatever_the_times_claim(service, another):
    """L8: elsewhere an older time put an event in front, and equal ones were shuffled by id."""

    async def scenario():
        session = await begun(service)
        at = session.last_update_time
        for name, time in (("c", at + 5), ("a", at - 100), ("b", at + 5), ("d", at + 1)):
            await service.append_event(session, said(name, id=name, timestamp=time))
        assert session.last_update_time == at + 5
        stored = await another.get_session(**S1)
        assert texts(stored) == ["c", "a", "b", "d"]
        assert stored == session
        recent = await another.get_session(**S1, config=GetSessionConfig(num_recent_events=2))
        assert texts(recent) == ["b", "d"]

    asyncio.run(scenario())


def test_a_writer_who_is_behind_is_refused_also_when_the_times_are_equal(service, another):
    """L8, S6: by place in the log; elsewhere two writers with one timestamp both passed."""

    async def scenario():
        first = await begun(service)
        second = await another.get_session(**S1)
        at = first.last_update_time
        await service.append_event(first, said("first", timestamp=at))
        with pytest.raises(StaleSessionError, match="modified in storage"):
            await another.append_event(second, said("second", timestamp=at, delta={"user:u": 1}))
        assert texts(await service.get_session(**S1)) == ["first"]
        assert await service.get_user_state(**APP) == {}
        second = await another.get_session(**S1)
        await another.append_event(second, said("second", timestamp=at))
        with pytest.raises(StaleSessionError):
            await service.append_event(first, said("third"))
        assert texts(await service.get_session(**S1)) == ["first", "second"]

    asyncio.run(scenario())


def test_of_two_copies_that_append_at_once_one_is_refused(service):
    """L8, S6."""

    async def scenario():
        session = await begun(service)
        for n in range(5):
            latest = await service.get_session(**S1)
            copies = [copy.deepcopy(latest), latest.model_copy(deep=True)]
            done = await asyncio.gather(
                *(service.append_event(one, said(f"{n}", delta={f"{n}": n})) for one in copies),
                return_exceptions=True,
            )
            assert sorted(type(one).__name__ for one in done) == ["Event", "StaleSessionError"]
        assert len((await service.get_session(**S1)).events) == 5
        with pytest.raises(StaleSessionError):
            await service.append_event(session, said("late"))

    asyncio.run(scenario())


def test_tasks_that_share_one_object_take_turns(service):
    """A7, L8: no false refusal within one process, and the order of the calls."""

    async def scenario():
        session = await begun(service)
        await asyncio.gather(*(service.append_event(session, said(str(n))) for n in range(20)))
        assert texts(session) == [str(n) for n in range(20)]
        assert await service.get_session(**S1) == session

    asyncio.run(scenario())


def test_two_appends_within_a_microsecond_are_no_conflict(service):
    """L8."""

    async def scenario():
        session = await begun(service)
        at = session.last_update_time
        for n in range(3):
            session.last_update_time -= 0.0001
            await service.append_event(session, said(str(n), timestamp=at))
        assert texts(await service.get_session(**S1)) == ["0", "1", "2"]

    asyncio.run(scenario())


def test_facts_that_are_not_adks_make_nobody_stale(service, alice):
    """L8: a label, a note, the record of a retention job."""

    async def scenario():
        session = await begun(service, said("one"))
        (summary,) = alice.sessions.find(labels={"scope": "session"}).items
        for n in range(3):
            alice.sessions.resume(summary.id).append("ops.note", {"n": n})
            await service.append_event(session, said(str(n)))
        assert texts(await service.get_session(**S1)) == ["one", "0", "1", "2"]

    asyncio.run(scenario())


def test_a_session_object_made_by_hand_is_known_by_its_last_event(service):
    """A7, L8."""

    async def scenario():
        session = await begun(service, said("one"), said("two"))
        by_hand = Session(id="s1", **APP, events=list(session.events))
        await service.append_event(by_hand, said("three"))
        behind = Session(id="s1", **APP, events=session.events[:1])
        for one in (behind, Session(id="s1", **APP)):
            with pytest.raises(StaleSessionError):
                await service.append_event(one, said("four"))
        assert texts(await service.get_session(**S1)) == ["one", "two", "three"]

    asyncio.run(scenario())


def test_a_session_that_was_never_created_takes_no_event(service):
    """A7, O1."""
    with pytest.raises(SessionNotFoundError):
        asyncio.run(service.append_event(Session(id="s1", **APP), said()))


# ------------------------------------------------------------------------------------------- once only


def test_the_same_event_again_is_stored_once(service, another):
    """L7: elsewhere a raw database error."""

    async def scenario():
        session = await begun(service)
        behind = await another.get_session(**S1)
        event = said("one", id="e1", delta={"user:n": 1})
        again = event.model_copy(deep=True)
        await service.append_event(session, event)
        await service.append_event(session, event)
        assert len(session.events) == 1
        await another.append_event(behind, again)
        assert behind == session
        await service.append_event(session, said("two"))
        await another.append_event(behind, again.model_copy(deep=True))
        assert texts(behind) == ["one"]
        with pytest.raises(StaleSessionError):
            await another.append_event(behind, said("three"))
        assert texts(await service.get_session(**S1)) == ["one", "two"]

    asyncio.run(scenario())


def test_the_same_event_again_after_a_note_of_somebody_else_counts_as_known(service, another, alice):
    """L7."""

    async def scenario():
        session = await begun(service)
        behind = await another.get_session(**S1)
        (summary,) = alice.sessions.find(labels={"scope": "session"}).items
        alice.sessions.resume(summary.id).append("ops.note", {})
        event = said("one", id="e1")
        await service.append_event(session, event)
        await another.append_event(behind, event.model_copy(deep=True))
        assert texts(behind) == ["one"]
        await another.append_event(behind, said("two"))
        assert texts(await service.get_session(**S1)) == ["one", "two"]

    asyncio.run(scenario())


def test_an_events_id_is_not_taken_for_other_content(service, another):
    """L7: elsewhere it was appended twice."""

    async def scenario():
        session = await begun(service, said("one", id="e1"))
        for one in (service, another):
            with pytest.raises(AlreadyExistsError):
                await one.append_event(await one.get_session(**S1), said("other", id="e1"))
        await service.append_event(session, said("two"))
        with pytest.raises(AlreadyExistsError):
            await service.append_event(session, said("other", id="e1"))
        assert texts(await service.get_session(**S1)) == ["one", "two"]

    asyncio.run(scenario())


def test_the_same_event_again_is_stored_once_also_when_a_snapshot_is_due(service, another, monkeypatch):
    """L7."""
    monkeypatch.setattr(google_adk_record, "SNAPSHOT_FACTS", 2)

    async def scenario():
        session = await begun(service, said("one", id="e1"))
        behind = await another.get_session(**S1, config=GetSessionConfig(num_recent_events=0))
        event = said("two", id="e2")
        await service.append_event(session, event)
        await another.append_event(behind, event.model_copy(deep=True))
        await another.append_event(behind, said("three"))
        assert texts(await service.get_session(**S1)) == ["one", "two", "three"]

    asyncio.run(scenario())


def test_a_cancelled_append_is_stored_and_known_or_neither(service):
    """L2, L7."""

    async def scenario():
        session = await begun(service)
        task = asyncio.create_task(service.append_event(session, said("one", id="e1")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await service.get_session(**S1) == session
        await service.append_event(session, said("two"))
        assert texts(await service.get_session(**S1))[-1] == "two"

    asyncio.run(scenario())


# --------------------------------------------------------------------------------------- list and delete


def test_sessions_are_listed_without_events_the_last_updated_last(service, another):
    """A7, S2."""

    async def scenario():
        made = {name: await service.create_session(**APP, session_id=name) for name in ("a", "b", "c")}
        await service.create_session(app_name="app", user_id="u2", session_id="a", state={"user:x": 1})
        await service.create_session(app_name="app2", user_id="u1", session_id="a")
        await service.append_event(made["a"], said("x", delta={"k": 1, "user:y": 2}))
        for one in (service, another):
            mine = (await one.list_sessions(**APP)).sessions
            assert [session.id for session in mine] == ["b", "c", "a"]
            assert [session.events for session in mine] == [[], [], []]
            assert mine[2].state == {"k": 1, "user:y": 2}
            everyone = (await one.list_sessions(app_name="app")).sessions
            assert [(session.user_id, session.id) for session in everyone] == [
                ("u1", "b"),
                ("u1", "c"),
                ("u2", "a"),
                ("u1", "a"),
            ]
            assert everyone[2].state == {"user:x": 1}
            assert (await one.list_sessions(app_name="none")).sessions == []

    asyncio.run(scenario())


def test_a_listed_session_can_be_appended_to(service):
    """A7."""

    async def scenario():
        await begun(service, said("one"))
        (listed,) = (await service.list_sessions(**APP)).sessions
        await service.append_event(listed, said("two"))
        assert texts(await service.get_session(**S1)) == ["one", "two"]

    asyncio.run(scenario())


def test_a_deleted_session_stays_deleted(service, another):
    """D5, D6: late writers are refused, the id is not taken again; what the user shares stays, as in ADK."""

    async def scenario():
        session = await begun(service, said("one", delta={"user:u": 1}))
        late = await another.get_session(**S1)
        await service.delete_session(**S1)
        await service.delete_session(**S1)
        for one in (service, another):
            assert await one.get_session(**S1) is None
            assert (await one.list_sessions(**APP)).sessions == []
            with pytest.raises(SessionNotFoundError):
                await one.append_event(session if one is service else late, said("late"))
            with pytest.raises(AlreadyExistsError):
                await one.create_session(**S1)
            assert await one.get_user_state(**APP) == {"u": 1}

    asyncio.run(scenario())


def test_an_id_can_be_taken_again_on_purpose_and_the_late_are_still_refused(alice, another):
    """D5."""
    service = VaultSessionService(alice, reuse_erased=True)

    async def scenario():
        session = await begun(service, said("one"))
        late = await another.get_session(**S1)
        await service.delete_session(**S1)
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, said("late"))
        await service.create_session(**S1)
        for one, its in ((service, session), (another, late)):
            with pytest.raises(StaleSessionError):
                await one.append_event(its, said("late"))
        assert (await service.get_session(**S1)).events == []

    asyncio.run(scenario())


def test_another_principal_has_sessions_of_its_own(service, vault, principal):
    """O1: whatever app, user and session it names."""
    bobs = VaultSessionService(vault.access(principal("bob")))

    async def scenario():
        session = await begun(service, said("alice's", delta={"app:a": 1, "user:u": 2}))
        assert await bobs.get_session(**S1) is None
        assert (await bobs.list_sessions(app_name="app")).sessions == []
        assert await bobs.get_user_state(**APP) == {}
        with pytest.raises(SessionNotFoundError):
            await bobs.append_event(session, said("bob's"))
        await bobs.delete_session(**S1)
        mine = await bobs.create_session(**S1)
        assert mine.state == {}
        with pytest.raises(StaleSessionError):
            await bobs.append_event(session, said("bob's"))
        assert texts(await service.get_session(**S1)) == ["alice's"]

    asyncio.run(scenario())


def test_a_person_who_comes_back_after_all_was_erased_begins_anew(service, another, officer):
    """D5: nothing of the old, and nothing in the way of the new."""

    async def before():
        await begun(service, said("old", delta={"user:u": "old", "app:a": "old"}))

    async def after():
        for one in (service, another):
            assert await one.get_session(**S1) is None
            assert await one.get_user_state(**APP) == {}
        session = await service.create_session(**APP, state={"user:new": 1})
        assert session.state == {"user:new": 1}
        await service.append_event(session, said("new", delta={"user:u": "new", "app:a": "new"}))
        other = await another.create_session(**APP)
        assert other.state == {"user:new": 1, "user:u": "new", "app:a": "new"}

    asyncio.run(before())
    officer.erasure.erase(subject="alice")
    asyncio.run(after())


def test_who_deletes_the_running_session_goes_on_in_another(service):
    """D4."""

    async def scenario():
        await begun(service, said("one"))
        await service.delete_session(**S1)
        assert running.get() is None
        session = await service.create_session(**APP)
        assert running.get().ids.session == session.id

    asyncio.run(scenario())
