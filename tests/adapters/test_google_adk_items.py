"""The artifact and memory services for Google ADK, and where what they keep comes from."""

import asyncio
import contextvars
import unicodedata

import pytest
from google.adk.artifacts import artifact_util
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from tests.adapters.google_adk_case import APP, Services, content, file, said
from vault.errors import Conflict, InvalidInput

S1 = {**APP, "session_id": "s1"}
S2 = {**APP, "session_id": "s2"}
WIDE = "\uff46\uff55\uff4c\uff4c width"


@pytest.fixture
def services(alice):
    return Services.of(alice)


@pytest.fixture
def another(vault, principal):
    """What another process of the same principal has."""
    return Services.of(vault.access(principal("alice")))


def apart(scenario):
    """Run in a context in which no session is running."""
    return contextvars.Context().run(asyncio.run, scenario())


async def found(services, query, **about):
    answer = await services.memories.search_memory(**(about or APP), query=query)
    return [one.content.parts[0].text for one in answer.memories]


# ------------------------------------------------------------------------------------------- artifacts


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(file("a,b\n"), id="bytes"),
        pytest.param(types.Part.from_bytes(data=b"", mime_type="image/png"), id="no bytes"),
        pytest.param(types.Part(text="Grüße\n"), id="text"),
        pytest.param(types.Part(text=""), id="no text"),
        pytest.param(
            types.Part(inline_data=types.Blob(data=b"x", mime_type="audio/wav", display_name="a.wav")),
            id="bytes with a name",
        ),
        pytest.param(
            types.Part(file_data=types.FileData(file_uri="gs://bucket/x", mime_type="video/mp4")),
            id="a file elsewhere",
        ),
    ],
)
def test_an_artifact_comes_back_as_it_was(services, another, part):
    """A7."""

    async def scenario():
        await services.sessions.create_session(**S1)
        assert await services.artifacts.save_artifact(**S1, filename="f", artifact=part) == 0
        assert await another.artifacts.load_artifact(**S1, filename="f") == part

    asyncio.run(scenario())


def test_artifacts_have_versions_from_0_and_what_is_said_about_them(services, another):
    """A7."""

    async def scenario():
        await services.sessions.create_session(**S1)
        save, place = services.artifacts.save_artifact, {**S1, "filename": "f.csv"}
        assert await save(**place, artifact=file("zero"), custom_metadata={"by": ["ada"]}) == 0
        assert await save(**place, artifact={"inlineData": {"data": "b25l", "mimeType": "text/csv"}}) == 1
        other = another.artifacts
        assert (await other.load_artifact(**place)).inline_data.data == b"one"
        assert (await other.load_artifact(**place, version=0)).inline_data.data == b"zero"
        assert await other.load_artifact(**place, version=2) is None
        assert await other.list_versions(**place) == [0, 1]
        versions = await other.list_artifact_versions(**place)
        assert [one.custom_metadata for one in versions] == [{"by": ["ada"]}, {}]
        assert [one.mime_type for one in versions] == ["text/csv", "text/csv"]
        assert await other.get_artifact_version(**place) == versions[1]
        assert await other.get_artifact_version(**place, version=0) == versions[0]
        assert await other.get_artifact_version(**place, version=7) is None
        assert artifact_util.parse_artifact_uri(versions[1].canonical_uri).filename == "f.csv"
        nowhere = {**S1, "filename": "none"}
        assert await other.load_artifact(**nowhere) is None
        assert await other.list_versions(**nowhere) == []
        assert await other.get_artifact_version(**nowhere) is None

    asyncio.run(scenario())


def test_files_are_a_sessions_or_a_users(services, another):
    """A7, O1."""

    async def scenario():
        await services.sessions.create_session(**S1)
        await services.sessions.create_session(**S2)
        await services.artifacts.save_artifact(**S1, filename="mine.csv", artifact=file("1"))
        await services.artifacts.save_artifact(**S1, filename="user:ours.csv", artifact=file("2"))
        keys = another.artifacts.list_artifact_keys
        assert await keys(**S1) == ["mine.csv", "user:ours.csv"]
        assert await keys(**S2) == await keys(**APP) == ["user:ours.csv"]
        assert await keys(app_name="app", user_id="u2", session_id="s1") == []
        load = another.artifacts.load_artifact
        assert await load(**S2, filename="mine.csv") is None
        assert (await load(**APP, filename="user:ours.csv")).inline_data.data == b"2"
        with pytest.raises(InputValidationError):
            await load(**APP, filename="mine.csv")

    asyncio.run(scenario())


def test_names_that_could_be_mistaken_for_each_other_are_not(services):
    """O1: ids with separators of any kind."""

    async def scenario():
        places = [
            {"app_name": "a", "user_id": "b/c", "session_id": "d", "filename": "f"},
            {"app_name": "a", "user_id": "b", "session_id": "c/d", "filename": "f"},
            {"app_name": "a", "user_id": 'b","c', "session_id": "d", "filename": "f"},
            {"app_name": "a", "user_id": "b", "session_id": "user", "filename": "f"},
            {"app_name": "a", "user_id": "b", "session_id": "user:x", "filename": "f"},
            {"app_name": "a" * 200, "user_id": "b" * 200, "session_id": "c", "filename": "../../f"},
        ]
        for n, place in enumerate(places):
            assert await services.artifacts.save_artifact(**place, artifact=file(str(n))) == 0
        for n, place in enumerate(places):
            part = await services.artifacts.load_artifact(**place)
            assert part.inline_data.data == str(n).encode()

    asyncio.run(scenario())


def test_a_deleted_artifact_is_erased_in_all_versions(services, alice):
    """D5, D6."""

    async def scenario():
        await services.sessions.create_session(**S1)
        place = {**S1, "filename": "f"}
        for text in ("0", "1"):
            await services.artifacts.save_artifact(**place, artifact=file(text))
        await services.artifacts.save_artifact(**S1, filename="other", artifact=file("kept"))
        await services.artifacts.delete_artifact(**place)
        await services.artifacts.delete_artifact(**place)
        assert await services.artifacts.load_artifact(**place) is None
        assert await services.artifacts.load_artifact(**place, version=0) is None
        assert await services.artifacts.list_artifact_keys(**S1) == ["other"]
        assert len(alice.artifacts.list()) == 1
        assert await services.artifacts.save_artifact(**place, artifact=file("anew")) == 0

    asyncio.run(scenario())


def test_a_reference_is_followed_within_its_users_own_and_not_for_ever(services):
    """O1."""

    async def scenario():
        await services.sessions.create_session(**S1)
        save, load = services.artifacts.save_artifact, services.artifacts.load_artifact

        def to(filename, version=0, **about):
            place = {**S1, **about, "filename": filename, "version": version}
            return types.Part(file_data=types.FileData(file_uri=artifact_util.get_artifact_uri(**place)))

        await save(**S1, filename="target", artifact=file("there"))
        await save(**S1, filename="link", artifact=to("target"))
        assert (await load(**S1, filename="link")).inline_data.data == b"there"
        await save(**S1, filename="loop", artifact=to("loop"))
        with pytest.raises(InputValidationError, match="too often"):
            await load(**S1, filename="loop")
        for n in range(6):
            await save(**S1, filename=f"{n}", artifact=to(f"{n - 1}") if n else file("end"))
        assert (await load(**S1, filename="5")).inline_data.data == b"end"
        for elsewhere in ({"user_id": "u2"}, {"session_id": "s2"}):
            with pytest.raises(InputValidationError):
                await save(**S1, filename="out", artifact=to("target", **elsewhere))

    asyncio.run(scenario())


def test_what_is_no_file_is_refused(services):
    """A7."""

    async def scenario():
        await services.sessions.create_session(**S1)
        for part in (types.Part(), types.Part.from_function_call(name="f", args={})):
            with pytest.raises(InputValidationError):
                await services.artifacts.save_artifact(**S1, filename="f", artifact=part)

    asyncio.run(scenario())


def test_artifacts_go_with_the_session_that_saved_them_a_users_too(services, another, alice):
    """D4: of a file of the user, the versions of other sessions stay."""

    async def one():
        await services.sessions.create_session(**S1)
        await services.artifacts.save_artifact(**S1, filename="f", artifact=file("gone"))
        await services.artifacts.save_artifact(**S1, filename="user:f", artifact=file("gone"))

    async def two():
        await services.sessions.create_session(**S2)
        await services.artifacts.save_artifact(**S2, filename="f", artifact=file("kept"))
        await services.artifacts.save_artifact(**S2, filename="user:f", artifact=file("kept"))

    async def three():
        await services.sessions.delete_session(**S1)
        for its in (services, another):
            assert await its.artifacts.list_artifact_keys(**S1) == ["user:f"]
            assert await its.artifacts.load_artifact(**S1, filename="f") is None
            assert (await its.artifacts.load_artifact(**S2, filename="f")).inline_data.data == b"kept"
            assert await its.artifacts.list_versions(**APP, filename="user:f") == [1]
            assert (await its.artifacts.load_artifact(**APP, filename="user:f")).inline_data.data == b"kept"
            with pytest.raises(SessionNotFoundError):
                await its.artifacts.save_artifact(**S1, filename="late", artifact=file("late"))
        assert len(alice.artifacts.list()) == 2

    for scenario in (one, two, three):
        apart(scenario)


def test_a_users_file_that_no_session_saved_comes_from_the_state_of_the_user(services, alice):
    """D4: it goes when everything of the person goes."""

    async def scenario():
        place = {**APP, "filename": "user:avatar"}
        await services.artifacts.save_artifact(**place, artifact=file("png"))
        assert (await services.artifacts.load_artifact(**place)).inline_data.data == b"png"
        (artifact,) = alice.artifacts.list()
        (summary,) = alice.sessions.find(labels={"scope": "user"}).items
        assert [source.id for source in artifact.sources] == [summary.id]

    apart(scenario)


def test_an_artifact_can_be_saved_before_its_session_is_created(services):
    """D4: and goes with it."""

    async def scenario():
        await services.artifacts.save_artifact(**S1, filename="f", artifact=file("early"))
        assert await services.sessions.get_session(**S1) is None
        await services.sessions.create_session(**S1)
        assert (await services.artifacts.load_artifact(**S1, filename="f")).inline_data.data == b"early"
        await services.sessions.delete_session(**S1)
        assert await services.artifacts.load_artifact(**S1, filename="f") is None

    apart(scenario)


# -------------------------------------------------------------------------------------------- memories


async def conversation(services, *lines, place=S1):
    session = await services.sessions.create_session(**place)
    for n, line in enumerate(lines):
        await services.sessions.append_event(session, said(line, id=f"e{n}", timestamp=1_700_000_000.5 + n))
    await services.memories.add_session_to_memory(session)
    return session


def test_a_conversation_is_found_by_its_words(services, another):
    """A7."""

    async def scenario():
        await conversation(services, "My cat is called Miro.", "I live in Zürich.", "The weather is nice.")
        assert await found(another, "what is the cat called") == [
            "My cat is called Miro.",
            "The weather is nice.",
        ]
        assert await found(another, "ZÜRICH") == ["I live in Zürich."]
        assert await found(another, "dog") == await found(another, "") == await found(another, "?!") == []
        (memory,) = (await another.memories.search_memory(**APP, query="Miro")).memories
        assert (memory.id, memory.author) == ("e0", "user")
        assert memory.timestamp == "2023-11-14T22:13:20.500000+00:00"
        assert memory.custom_metadata == {"session_id": "s1"}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("text", "query", "matches"),
    [
        ("私はPythonを使う", "python", True),
        ("私はPythonを使う", "使う", True),
        ("私はPythonを使う", "thon", False),
        ("私はPythonを使う", "天気", False),
        ("我喜欢机器学习", "机器", True),
        ("저는 서울에 삽니다", "서울에", True),
        ("Я живу в Киеве", "КИЕВЕ", True),
        ("私のCaféへ", "café", True),
        (unicodedata.normalize("NFD", "Meet at the Café"), "Café", True),
        ("Meet at the Café", unicodedata.normalize("NFD", "café"), True),
        (WIDE, "full", True),
        ("snake_case_name", "snake_case_name", True),
        ("I like Python.", "thon", False),
    ],
)
def test_words_are_found_in_any_script(services, text, query, matches):
    """A7."""

    async def scenario():
        await conversation(services, text)
        assert await found(services, query) == ([text] if matches else [])

    asyncio.run(scenario())


def test_the_best_ten_are_given_the_newer_first_among_equals(services):
    """A7."""

    async def scenario():
        await conversation(services, *(f"tea number {n}" for n in range(15)), "green tea number 3 please")
        answer = await found(services, "green tea please")
        assert len(answer) == 10
        assert answer[:2] == ["green tea number 3 please", "tea number 14"]

    asyncio.run(scenario())


def test_memories_are_a_users_of_an_app(services):
    """O1."""

    async def scenario():
        await conversation(services, "secret of u1")
        for about in ({"app_name": "app", "user_id": "u2"}, {"app_name": "app2", "user_id": "u1"}):
            assert await found(services, "secret", **about) == []

    asyncio.run(scenario())


def test_a_session_is_remembered_once_however_often_it_is_added(services, another, alice):
    """L7, A7."""

    async def scenario():
        session = await conversation(services, "tea one", "tea two")
        await another.memories.add_session_to_memory(session)
        await services.sessions.append_event(session, said("tea three", id="e9"))
        await another.memories.add_session_to_memory(session)
        await another.memories.add_events_to_memory(**S1, events=session.events[:1])
        assert len(alice.memories.list()) == 3
        assert {one.version for one in alice.memories.list()} == {1}

    asyncio.run(scenario())


def test_what_nobody_said_is_no_memory(services, alice):
    """A7: thoughts, calls, files without a word."""

    async def scenario():
        session = await services.sessions.create_session(**S1)
        call = types.Part.from_function_call(name="tea", args={})
        for parts in ([call], [types.Part(text="tea", thought=True)], [file("tea")], []):
            event = said()
            event.content.parts = parts
            await services.sessions.append_event(session, event)
        await services.memories.add_session_to_memory(session)
        assert alice.memories.list() == []

    asyncio.run(scenario())


def test_a_memory_names_the_session_and_the_event_it_is_of(services, alice):
    """D4."""

    async def scenario():
        await conversation(services, "I drink tea.")
        (memory,) = alice.memories.list()
        (source,) = memory.sources
        (summary,) = alice.sessions.find(labels={"scope": "session"}).items
        assert (source.kind, source.session_id) == ("event", summary.id)
        (event,) = alice.sessions.resume(summary.id).slice(source.id, source.id)
        assert event.payload["content"]["parts"][0]["text"] == "I drink tea."

    asyncio.run(scenario())


def test_a_memory_goes_with_its_session_and_does_not_come_back(services, another, alice):
    """D4, D6: elsewhere the memory service still gave it out."""

    async def one():
        return await conversation(services, "I drink oolong.")

    async def two():
        await conversation(services, "Coffee for me.", place=S2)

    session = apart(one)
    apart(two)

    async def three():
        await services.sessions.delete_session(**S1)
        for its in (services, another):
            assert await found(its, "oolong coffee") == ["Coffee for me."]
            with pytest.raises(SessionNotFoundError):
                await its.memories.add_session_to_memory(session)
            with pytest.raises(SessionNotFoundError):
                await its.memories.add_events_to_memory(**S1, events=session.events)
            memory = MemoryEntry(content=content("oolong"))
            with pytest.raises(SessionNotFoundError):
                await its.memories.add_memory(**APP, memories=[memory], custom_metadata={"session_id": "s1"})
        assert len(alice.memories.list()) == 1

    apart(three)


def test_a_deleted_memory_does_not_come_back_and_its_event_stays(services, another):
    """D5."""

    async def scenario():
        session = await conversation(services, "tea one", "tea two")
        await services.memories.delete_memory(**APP, memory_id="e0")
        await services.memories.delete_memory(**APP, memory_id="e0")
        await services.memories.delete_memory(**APP)
        for its in (services, another):
            await its.memories.add_session_to_memory(session)
            assert await found(its, "tea") == ["tea two"]
        await services.sessions.append_event(session, said("still fresh"))
        assert len((await another.sessions.get_session(**S1)).events) == 3

    asyncio.run(scenario())


def test_what_is_remembered_while_a_session_runs_comes_from_it(services, alice):
    """D4: nobody names it."""

    async def scenario():
        session = await services.sessions.create_session(**S1)
        await services.sessions.append_event(session, said("hi"))
        memory = MemoryEntry(
            content=content("likes tea"), author="assistant", id="m1", custom_metadata={"a": 1}
        )
        await services.memories.add_memory(**APP, memories=[memory])
        (kept,) = (await services.memories.search_memory(**APP, query="tea")).memories
        assert (kept.id, kept.author, kept.custom_metadata) == (
            "m1",
            "assistant",
            {"a": 1, "session_id": "s1"},
        )
        await services.sessions.delete_session(**S1)
        assert await found(services, "tea") == []
        assert alice.memories.list() == []

    apart(scenario)


def test_a_memory_from_nowhere_is_refused(services):
    """D4: outside of a session, somebody says which one it is of."""

    async def made():
        await services.sessions.create_session(**S1)

    async def scenario():
        memories = [MemoryEntry(content=content("likes tea"))]
        with pytest.raises(InvalidInput, match="which session"):
            await services.memories.add_memory(**APP, memories=memories)
        with pytest.raises(InvalidInput, match="which session"):
            await services.memories.add_events_to_memory(**APP, events=[said("likes tea")])
        named = {"session_id": "s1"}
        await services.memories.add_memory(**APP, memories=memories, custom_metadata=named)
        await services.memories.add_events_to_memory(**S1, events=[said("of no log: tea")])
        assert sorted(await found(services, "tea")) == ["likes tea", "of no log: tea"]

    apart(made)
    apart(scenario)


def test_the_running_session_is_the_one_that_was_written_to_last(services):
    """D4: to look at another one changes nothing."""

    async def scenario():
        first = await services.sessions.create_session(**S1)
        second = await services.sessions.create_session(**S2)
        await services.sessions.append_event(second, said("two"))
        await services.sessions.append_event(first, said("one"))
        await services.sessions.get_session(**S2)
        await services.memories.add_memory(**APP, memories=[MemoryEntry(content=content("tea"))])
        (memory,) = (await services.memories.search_memory(**APP, query="tea")).memories
        assert memory.custom_metadata["session_id"] == "s1"

    apart(scenario)


def test_what_a_session_read_of_another_is_part_of_where_its_memories_come_from(services):
    """D4."""

    async def scenario():
        await services.sessions.create_session(**S2)
        first = await services.sessions.create_session(**S1)
        await services.sessions.append_event(first, said("one"))
        await services.sessions.get_session(**S2)
        await services.memories.add_memory(**APP, memories=[MemoryEntry(content=content("tea"))])
        await services.sessions.delete_session(**S2)
        assert await found(services, "tea") == []

    apart(scenario)


def test_what_a_session_read_of_another_counts_also_when_only_its_state_was_asked_for(services):
    """D4: which this process had in memory."""

    async def scenario():
        await services.sessions.create_session(**S2, state={"secret": 1})
        first = await services.sessions.create_session(**S1)
        await services.sessions.append_event(first, said("one"))
        config = GetSessionConfig(num_recent_events=0)
        assert (await services.sessions.get_session(**S2, config=config)).state == {"secret": 1}
        await services.memories.add_memory(**APP, memories=[MemoryEntry(content=content("tea"))])
        await services.sessions.delete_session(**S2)
        assert await found(services, "tea") == []

    apart(scenario)


def test_what_was_only_compared_or_listed_is_not_where_a_memory_comes_from(services):
    """D4: nothing innocent is taken."""

    async def one():
        await conversation(services, "I drink oolong.", place=S2)
        await services.artifacts.save_artifact(**S2, filename="user:f", artifact=file("x"))

    async def two():
        first = await services.sessions.create_session(**S1)
        await services.sessions.append_event(first, said("I drink coffee."))
        assert await found(services, "coffee") == []
        assert await services.artifacts.list_artifact_keys(**S1) == ["user:f"]
        assert await services.artifacts.list_versions(**APP, filename="user:f") == [0]
        await services.memories.add_session_to_memory(first)
        await services.memories.add_memory(**APP, memories=[MemoryEntry(content=content("coffee"))])
        await services.sessions.delete_session(**S2)
        assert await found(services, "coffee oolong") == ["coffee", "I drink coffee."]

    apart(one)
    apart(two)


def test_nothing_is_derived_from_what_was_erased_meanwhile(services):
    """D4, D6."""

    async def one():
        await conversation(services, "I drink oolong.", place=S2)

    async def two():
        memory = {**APP, "memories": [MemoryEntry(content=content("oolong"))]}
        first = await services.sessions.create_session(**S1)
        await services.sessions.append_event(first, said("one", invocation_id="turn 1"))
        assert await found(services, "oolong") == ["I drink oolong."]
        await asyncio.get_running_loop().run_in_executor(None, apart, three)
        await services.sessions.append_event(first, said("two", invocation_id="turn 1"))
        with pytest.raises(InvalidInput, match="erased meanwhile"):
            await services.memories.add_memory(**memory)
        with pytest.raises(InvalidInput, match="erased meanwhile"):
            await services.artifacts.save_artifact(**S1, filename="f", artifact=file("oolong"))
        await services.sessions.append_event(first, said("three", invocation_id="turn 2"))
        await services.memories.add_memory(**memory)

    async def three():
        await services.sessions.delete_session(**S2)

    apart(one)
    apart(two)


def test_a_memory_that_is_too_large_with_its_files_is_kept_without_them(services):
    """A7."""

    async def scenario():
        session = await services.sessions.create_session(**S1)
        event = said("look at this picture")
        event.content.parts.append(types.Part.from_bytes(data=b"x" * 2**20, mime_type="image/png"))
        await services.sessions.append_event(session, event)
        await services.memories.add_session_to_memory(session)
        (memory,) = (await services.memories.search_memory(**APP, query="picture")).memories
        assert [part.text for part in memory.content.parts] == ["look at this picture"]

    asyncio.run(scenario())


def test_what_a_hold_keeps_is_not_deleted_and_whoever_asks_is_told(services, officer, alice):
    """D2."""

    async def scenario():
        session = await conversation(services, "tea one")
        await services.artifacts.save_artifact(**S1, filename="f", artifact=file("x"))
        (summary,) = alice.sessions.find(labels={"scope": "session"}).items
        officer.holds.place(session=summary.id, reason="a case in court")
        with pytest.raises(Conflict, match="hold"):
            await services.memories.delete_memory(**APP, memory_id="e0")
        with pytest.raises(Conflict, match="hold"):
            await services.artifacts.delete_artifact(**S1, filename="f")
        with pytest.raises(Conflict, match="hold"):
            await services.sessions.delete_session(**S1)
        with pytest.raises(SessionNotFoundError):
            await services.sessions.append_event(session, said("late"))

    asyncio.run(scenario())


def test_another_principal_sees_no_items(services, vault, principal):
    """O1."""
    bobs = Services.of(vault.access(principal("bob")))

    async def scenario():
        await conversation(services, "secret")
        await services.artifacts.save_artifact(**S1, filename="f", artifact=file("secret"))
        await services.artifacts.save_artifact(**S1, filename="user:f", artifact=file("secret"))

    async def bob():
        assert await found(bobs, "secret") == []
        assert await bobs.artifacts.list_artifact_keys(**S1) == []
        for name in ("f", "user:f"):
            assert await bobs.artifacts.load_artifact(**S1, filename=name) is None
            await bobs.artifacts.delete_artifact(**S1, filename=name)
        await bobs.memories.delete_memory(**APP, memory_id="e0")

    async def still():
        assert await found(services, "secret") == ["secret"]
        assert await services.artifacts.list_artifact_keys(**S1) == ["f", "user:f"]

    for one in (scenario, bob, still):
        apart(one)
