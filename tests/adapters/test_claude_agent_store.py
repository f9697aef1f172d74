"""The store as the Claude Agent SDK calls it: its contracts, and what none of them asks for."""

import asyncio
import copy
import itertools
import json
import threading
import uuid

import pytest
from claude_agent_sdk.testing import run_session_store_conformance

from vault import Vault
from vault.adapters import claude_agent_transcript
from vault.adapters.claude_agent import VaultSessionStore
from vault.errors import Conflict, Erased, InvalidInput, NotFound

PROJECT = "-home-alice-shop"
ID = "5f0c7c1e-0a51-4a38-9a0e-2b64d2a0c001"
OTHER = "5f0c7c1e-0a51-4a38-9a0e-2b64d2a0c002"
MAIN = {"project_key": PROJECT, "session_id": ID}
AGENT = {**MAIN, "subpath": "subagents/agent-a1"}


def entry(text="hello", *, kind="user", **more):
    return {"type": kind, "uuid": str(uuid.uuid4()), "message": {"role": kind, "content": text}, **more}


def run(call):
    return asyncio.run(call)


@pytest.fixture
def store(alice):
    return VaultSessionStore(alice)


# ------------------------------------------------------------------------------------- its own contracts


@pytest.fixture
def fresh(vault, principal):
    """A store of an owner who has nothing yet."""
    numbers = itertools.count()
    return lambda **options: VaultSessionStore(vault.access(principal(f"owner {next(numbers)}")), **options)


def test_the_store_keeps_the_fourteen_contracts_of_the_sdk(fresh):
    """A3."""
    run(run_session_store_conformance(fresh))


def test_it_keeps_them_for_ids_that_can_be_resumed_when_asked_to_say_none(fresh):
    """A3: the suite's ids are no UUIDs, and what is said of others depends on that."""

    class WithUuids(VaultSessionStore):
        def _parts(self, key):
            return {**key, "session_id": str(uuid.uuid5(uuid.NAMESPACE_URL, key["session_id"]))}

        async def append(self, key, entries):
            await super().append(self._parts(key), entries)

        async def load(self, key):
            return await super().load(self._parts(key))

        async def delete(self, key):
            await super().delete(self._parts(key))

    async def contracts():
        store = fresh(reuse_erased=True, unknown_is_none=True)
        store.__class__ = WithUuids
        key = {"project_key": "proj", "session_id": "sess"}
        assert await store.load(key) is None
        await store.append(key, [{"type": "x", "n": 1}])
        await store.delete(key)
        assert await store.load(key) is None
        await store.append(key, [{"type": "x", "n": 2}])
        assert await store.load(key) == [{"type": "x", "n": 2}]

    run(contracts())


# ----------------------------------------------------------- the five things that no shipped store gets right


def test_an_entry_that_is_delivered_again_is_stored_once(store):
    """A3, L2: within one call, in another one, and by another store."""
    one, two = entry("one"), entry("two")

    async def delivered():
        await store.append(MAIN, [one, one])
        await store.append(MAIN, [one, two])
        await VaultSessionStore(store._binding.access).append(MAIN, [two, one])
        return await store.load(MAIN)

    assert run(delivered()) == [one, two]


def test_the_first_content_under_a_uuid_stays(store):
    """A3, L2: and what is new beside it is stored."""
    first, new = entry("first"), entry("new")

    async def delivered():
        await store.append(MAIN, [first])
        await store.append(MAIN, [{**first, "message": "second"}, new])
        return await store.load(MAIN)

    assert run(delivered()) == [first, new]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("t/a", "b", None), ("t", "a", "b")),
        (("a:b", "c", None), ("a", "b:c", None)),
        (("a", "b", "c/d"), ("a", "b/c", "d")),
        (("a", 'b","c', None), ("a", "b", "c")),
        (("a", "b", None), ("a", "b", "main")),
        (("p" * 300, "b", None), ("p" * 300, "c", None)),
        (("", "b", None), ("b", "", None)),
    ],
)
def test_no_two_keys_are_the_same_whatever_stands_in_them(store, one, other):
    """A3."""
    keys = [
        {
            "project_key": project,
            "session_id": session_id,
            **({} if subpath is None else {"subpath": subpath}),
        }
        for project, session_id, subpath in (one, other)
    ]

    async def kept():
        await store.append(keys[0], [{"type": "x", "n": 0}])
        assert await store.load(keys[1]) is None
        await store.append(keys[1], [{"type": "x", "n": 1}])
        return [await store.load(key) for key in keys]

    assert run(kept()) == [[{"type": "x", "n": 0}], [{"type": "x", "n": 1}]]


def test_no_project_lists_what_is_anothers(store):
    """A3: also where the names are too long for a label."""
    projects = ["p" * 300, "q" * 300, "", "300 characters"]

    async def listed():
        for number, project in enumerate(projects):
            key = {"project_key": project, "session_id": f"s{number}"}
            await store.append(key, [{"type": "x"}])
        return [await store.list_sessions(project) for project in projects]

    assert [[one["session_id"] for one in found] for found in run(listed())] == [
        ["s0"],
        ["s1"],
        ["s2"],
        ["s3"],
    ]


@pytest.mark.parametrize("late", [MAIN, AGENT, {**MAIN, "subpath": "subagents/agent-new"}])
def test_what_comes_after_an_erasure_is_refused_and_brings_nothing_back(store, alice, late):
    """A3, D4, D7: by the same store and by another one."""

    async def late_writer():
        await store.append(MAIN, [entry()])
        await store.append(AGENT, [entry()])
        await store.delete(MAIN)
        for writer in (store, VaultSessionStore(alice)):
            with pytest.raises(Erased):
                await writer.append(late, [entry("late")])
        assert await store.list_sessions(PROJECT) == []
        assert await store.list_subkeys(MAIN) == []

    run(late_writer())


def test_a_delegates_transcript_that_was_erased_is_not_begun_again(store, alice):
    """D4, D7: while the conversation goes on."""

    async def late_writer():
        await store.append(MAIN, [entry("main")])
        await store.append(AGENT, [entry("agent")])
        await store.delete(AGENT)
        for writer in (store, VaultSessionStore(alice)):
            with pytest.raises(Erased):
                await writer.append(AGENT, [entry("late")])
        await store.append(MAIN, [entry("goes on")])
        return len(await store.load(MAIN)), await store.list_subkeys(MAIN)

    assert run(late_writer()) == (2, [])


def test_who_asks_to_reuse_ids_begins_anew_with_the_same_entries(alice):
    """A3: nothing of before comes back, and nothing of now is taken for it."""
    store, main, agent = VaultSessionStore(alice, reuse_erased=True), entry("main"), entry("agent")

    async def anew():
        for _ in range(2):
            await store.append(MAIN, [main])
            await store.append(AGENT, [agent])
            assert (await store.load(MAIN), await store.load(AGENT)) == ([main], [agent])
            await store.delete(AGENT)
            assert await store.load(AGENT) is None
            await store.append(AGENT, [agent])
            assert await store.load(AGENT) == [agent]
            await store.delete(MAIN)

    run(anew())


def test_what_load_gives_is_the_callers_own(store):
    """A3."""
    given = entry("as given")
    kept = copy.deepcopy(given)

    async def changed():
        await store.append(MAIN, [given])
        given["message"]["content"] = "changed afterwards"
        loaded = await store.load(MAIN)
        loaded[0]["message"]["content"] = "changed too"
        loaded.append("more")
        return await store.load(MAIN)

    assert run(changed()) == [kept]


def test_an_empty_batch_makes_no_conversation(store, alice):
    """A3."""
    run(store.append(MAIN, []))
    assert run(store.list_sessions(PROJECT)) == []
    assert alice.sessions.find().items == ()


def test_a_delegate_alone_makes_no_conversation_to_list(store):
    """A3: its transcript may be there before the main one is."""

    async def before_main():
        await store.append(AGENT, [entry("agent")])
        assert await store.list_sessions(PROJECT) == []
        assert await store.list_session_summaries(PROJECT) == []
        assert await store.list_subkeys(MAIN) == [AGENT["subpath"]]
        with pytest.raises(NotFound):
            await store.load(MAIN)
        await store.append(MAIN, [entry("main")])
        return len(await store.list_sessions(PROJECT)), len(await store.load(AGENT))

    assert run(before_main()) == (1, 1)


# ------------------------------------------------------------------------------------------- entries


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "user", "text": "cut \ud83d in half", "uuid": "a"},
        {"type": "user", "number": 2**70, "uuid": "a"},
        {"type": "user", "small": 1e-7, "zero": -0.0, "float": 1.0, "uuid": "a"},
        {"type": "user", "lines": "one\u2028two\u0085three\n\x00", "uuid": "a"},
        {"type": "user", "": {"z": None, "a": [True, [], {}]}, "uuid": "a"},
        {"type": "user", "deep": json.loads("[" * 400 + "]" * 400), "uuid": "a"},
        {"type": "user", "large": "x" * 3_000_000 + "\ud800", "uuid": "a"},
        {"type": "user", "large": "x" * 3_000_000, "uuid": "a"},
    ],
    ids=["half a pair", "a large integer", "floats", "line ends", "keys", "depth", "large and odd", "large"],
)
def test_an_entry_comes_back_as_it_was(store, odd):
    """A3, L1: also what the vault's own JSON would refuse; and given again it is known."""
    run(store.append(MAIN, [odd]))
    run(store.append(MAIN, [odd]))
    [loaded] = run(store.load(MAIN))
    assert json.dumps(loaded) == json.dumps(odd)


def test_entries_without_a_uuid_are_kept_as_often_as_they_are_written(store):
    """A3: a title that is given, changed and given again."""
    titles = [{"type": "custom-title", "customTitle": name} for name in ("A", "B", "A")]

    async def renamed():
        await store.append(MAIN, [entry()])
        for title in titles:
            await store.append(MAIN, [title])
        return (await store.load(MAIN))[1:]

    assert run(renamed()) == titles


def test_a_batch_that_is_given_again_doubles_nothing(store):
    """A3, L2: what has no uuid is known by its neighbour that has one."""
    mode, first, last = {"type": "mode", "mode": "plan"}, entry("one"), entry("two")
    batch = [mode, mode, first, {"type": "tag", "tag": "a"}, {"type": "tag", "tag": "a"}, last, mode]

    async def twice():
        await store.append(MAIN, batch)
        await store.append(MAIN, batch)
        return await store.load(MAIN)

    assert run(twice()) == batch


def test_a_long_batch_goes_on_where_a_crash_left_it(store, monkeypatch):
    """A3, L2: what was stored before is not doubled, and nothing is missing."""
    batch = [entry(str(number)) if number % 3 else {"type": "mode", "n": number} for number in range(2_500)]
    opened = store._opened

    def failing(project, session_id):
        session, calls = opened(project, session_id), itertools.count()
        append_many = session.append_many

        def second_fails(events, **terms):
            if next(calls):
                raise OSError("the power is gone")
            return append_many(events, **terms)

        session.append_many = second_fails
        return session

    for key in (MAIN, AGENT):
        monkeypatch.setattr(store, "_opened", failing)
        with pytest.raises(OSError, match="power"):
            run(store.append(key, batch))
        monkeypatch.setattr(store, "_opened", opened)
        assert 0 < len(run(store.load(key))) <= 1_000
        run(store.append(key, batch))
        assert run(store.load(key)) == batch


def test_a_subpath_is_not_empty(store):
    with pytest.raises(InvalidInput):
        run(store.append({**MAIN, "subpath": ""}, [entry()]))


# ------------------------------------------------------------------------------ whose, and what is erased


def test_what_somebody_else_wrote_looks_as_if_it_were_not_there(store, vault, principal):
    """O1, A3: to an owner of the same tenant and of another one, and neither can tell it from nothing."""
    run(store.append(MAIN, [entry("alice's")]))
    run(store.append(AGENT, [entry("alice's")]))

    async def answers(other):
        with pytest.raises(NotFound) as foreign:
            await other.load(MAIN)
        with pytest.raises(NotFound) as unknown:
            await other.load({**MAIN, "session_id": OTHER})
        assert str(foreign.value) == str(unknown.value)
        assert await other.load(AGENT) is None
        assert await other.list_sessions(PROJECT) == await other.list_session_summaries(PROJECT) == []
        assert await other.list_subkeys(MAIN) == []
        await other.delete(MAIN)
        await other.append(MAIN, [entry("their own")])
        await other.delete(MAIN)

    for stranger in (principal("bob"), principal("alice", tenant="globex")):
        run(answers(VaultSessionStore(vault.access(stranger))))
    assert [one["message"]["content"] for one in run(store.load(MAIN))] == ["alice's"]
    assert len(run(store.load(AGENT))) == 1


@pytest.mark.parametrize("key", [MAIN, {**MAIN, "session_id": "no uuid"}])
def test_what_was_erased_by_somebody_is_refused_to_readers(store, alice, officer, key):
    """D5, A3: as none, the program would resume it from its own disk."""
    run(store.append(key, [entry()]))
    run(store.append({**key, "subpath": "agent"}, [entry()]))
    officer.erasure.erase(subject="alice")
    for reader in (store, VaultSessionStore(alice)):
        for asked in (key, {**key, "subpath": "agent"}):
            with pytest.raises(Erased):
                run(reader.load(asked))


def test_what_this_store_erased_is_refused_under_an_id_that_can_be_resumed(store):
    """A3, D4: the suite of the SDK asks for None, under ids that the program does not take."""
    run(store.append(MAIN, [entry()]))
    run(store.delete(MAIN))
    run(store.delete(MAIN))
    with pytest.raises(Erased):
        run(store.load(MAIN))


def test_a_conversation_that_was_never_written_is_refused_unless_none_is_asked_for(store, alice):
    """A3."""
    with pytest.raises(NotFound):
        run(store.load(MAIN))
    assert run(VaultSessionStore(alice, unknown_is_none=True).load(MAIN)) is None


def test_deleting_takes_the_delegates_and_what_came_from_it_and_nothing_else(store, alice, files_with, vault):
    """D4, D5, D6, A3."""
    kept = {**MAIN, "session_id": OTHER}
    elsewhere = {**MAIN, "project_key": "another"}

    async def written():
        for key in (MAIN, AGENT, kept, {**kept, "subpath": "subagents/agent-a1"}, elsewhere):
            await store.append(key, [entry("CANARY-entry")])

    run(written())
    sessions = {one.labels["project"] + one.external_id: one.id for one in alice.sessions.find().items}
    gone = next(session_id for name, session_id in sessions.items() if PROJECT in name and ID in name)
    for name, session_id in sessions.items():
        alice.memories.put(("facts",), name, "CANARY-memory", sources=[session_id])
        alice.artifacts.put(name, b"CANARY-artifact", sources=[session_id])
    alice.memories.put(("facts",), "of a memory", "x", sources=[alice.memories.search(text="CANARY")[0]])
    run(store.delete(MAIN))
    assert all(gone not in {one.id for one in item.sources} for item in alice.memories.search())
    assert len(alice.artifacts.list()) == 2
    assert len(run(store.load(kept))) == len(run(store.load(elsewhere))) == 1
    assert len(run(store.load({**kept, "subpath": "subagents/agent-a1"}))) == 1
    vault.close()
    assert files_with("CANARY") == []


def test_erasing_a_subpath_leaves_the_others_and_the_conversation(store, alice):
    """D4: its entries are facts without content from then on."""
    other = {**MAIN, "subpath": "subagents/agent-b2"}

    async def erased():
        await store.append(MAIN, [entry("main")])
        await store.append(AGENT, [entry("secret of a1")] * 2)
        await store.append(other, [entry("b2")])
        await store.delete(AGENT)
        await store.delete(AGENT)
        with pytest.raises(Erased):
            await VaultSessionStore(alice).load(AGENT)
        return len(await store.load(MAIN)), len(await store.load(other)), await store.list_subkeys(MAIN)

    assert run(erased()) == (1, 1, ["subagents/agent-b2"])
    [session] = [alice.sessions.resume(one.id) for one in alice.sessions.find().items]
    assert [event.erased for event in session.events(types=["claude.agent.1"])] == [True]
    assert "secret" not in str([event.payload for event in session.events()])


def test_delegates_whose_entries_share_a_type_are_told_apart(store, monkeypatch):
    """D4, A3: a session has no more types than it may, however many delegated agents."""
    monkeypatch.setattr(claude_agent_transcript, "_AGENT_TYPES", 2)
    keys = [{**MAIN, "subpath": f"agent {number}"} for number in range(5)]

    async def told_apart():
        for key in keys:
            await store.append(key, [entry(key["subpath"])])
        await store.delete(keys[0])
        return [(await store.load(key))[0]["message"]["content"] for key in keys[1:]]

    assert run(told_apart()) == [key["subpath"] for key in keys[1:]]


def test_the_id_of_an_event_tells_nobody_which_entry_it_is(store, alice):
    """K1: who has the data and a copy of the transcript cannot find one in the other."""
    same = entry()
    run(store.append(MAIN, [same]))
    run(store.append({**MAIN, "session_id": OTHER}, [same]))
    sessions = [alice.sessions.resume(one.id) for one in alice.sessions.find().items]
    assert len({event.id for session in sessions for event in session.events()}) == 2


def test_a_conversation_under_a_hold_is_not_deleted(store, officer, alice):
    """D2."""
    run(store.append(MAIN, [entry()]))
    officer.holds.place(reason="a case in court", session=alice.sessions.find().items[0].id)
    with pytest.raises(Conflict):
        run(store.delete(MAIN))


def test_a_writer_that_was_at_it_when_the_conversation_was_erased_is_told(store, alice, monkeypatch):
    """D7."""
    run(store.append(MAIN, [entry()]))
    stale = store._opened(PROJECT, ID)
    run(VaultSessionStore(alice).delete(MAIN))
    monkeypatch.setattr(store, "_opened", lambda *_: stale)
    for late in (MAIN, AGENT):
        with pytest.raises(Erased):
            run(store.append(late, [entry("late")]))


# ---------------------------------------------------------------------------------------- at the same time


def test_two_that_resume_one_conversation_lose_nothing_of_each_other(vault, principal):
    """A3, S6: the order is that of the commits, the same for every reader."""
    stores = [VaultSessionStore(vault.access(principal("alice"))) for _ in range(2)]
    said = [[entry(f"{writer} {turn}") for turn in range(20)] for writer in range(2)]

    def writes(writer):
        for turn in said[writer]:
            run(stores[writer].append(MAIN, [turn]))

    threads = [threading.Thread(target=writes, args=(writer,)) for writer in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = [run(store.load(MAIN)) for store in stores]
    assert seen[0] == seen[1]
    for writer in range(2):
        assert [one for one in seen[0] if one in said[writer]] == said[writer]


def test_delegates_that_begin_at_once_get_a_transcript_each(store):
    """A3, D4."""
    keys = [{**MAIN, "subpath": f"subagents/agent-{number}"} for number in range(6)]

    async def all_at_once():
        await asyncio.gather(*(store.append(key, [entry(key["subpath"])]) for key in keys))
        await asyncio.gather(*(store.append(keys[0], [entry("more")]) for _ in range(3)))
        await store.delete(keys[3])
        return [None if key is keys[3] else await store.load(key) for key in keys]

    found = run(all_at_once())
    assert len(found[0]) == 4
    assert [one[0]["message"]["content"] for one in found if one] == [
        key["subpath"] for key in keys if key is not keys[3]
    ]


PROGRAM = """
import asyncio, sys
from vault import Principal, Vault
from vault.adapters.claude_agent import VaultSessionStore

async def main():
    with Vault.open(sys.argv[1]) as vault:
        store = VaultSessionStore(vault.access(Principal(tenant="acme", subject="alice")))
        key = {"project_key": sys.argv[2], "session_id": sys.argv[3]}
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(15):
            shared = {"type": "user", "uuid": f"shared {number}", "n": number}
            own = {"type": "user", "uuid": f"{sys.argv[4]} {number}", "n": number}
            await store.append(key, [shared, own])
            await store.append({**key, "subpath": f"subagents/{sys.argv[4]}"}, [own])
        print(len(await store.load(key)), flush=True)

asyncio.run(main())
"""


def test_two_processes_write_one_conversation(vault, place, python, principal):
    """A3, S6, L2: what both deliver is stored once, what one delivers is not lost."""
    vault.close()
    programs = [python(PROGRAM, place, PROJECT, ID, name) for name in ("one", "two")]
    for program in programs:
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        program.stdin.write("\n")
        program.stdin.flush()
    for program in programs:
        output, errors = program.communicate(timeout=60)
        assert output, errors
    with Vault.open(place) as again:
        store = VaultSessionStore(again.access(principal("alice")))
        uuids = [one["uuid"] for one in run(store.load(MAIN))]
        assert sorted(uuids) == sorted(f"{who} {n}" for who in ("shared", "one", "two") for n in range(15))
        assert sorted(run(store.list_subkeys(MAIN))) == ["subagents/one", "subagents/two"]
        for who in ("one", "two"):
            assert len(run(store.load({**MAIN, "subpath": f"subagents/{who}"}))) == 15


# ------------------------------------------------------------------------------------------- summaries


def test_a_summary_is_that_of_all_entries_however_they_came(store):
    """A3: it is stored now and then, and what came since is folded in."""
    from claude_agent_sdk import fold_session_summary

    entries = [
        entry(
            f"turn {n}",
            timestamp=f"2026-11-30T12:{n // 60:02}:{n % 60:02}.000Z",
            cwd="/srv",
            gitBranch=f"b{n}",
        )
        for n in range(100)
    ]
    entries[60:60] = [{"type": "custom-title", "customTitle": "the title"}, {"type": "tag", "tag": "t"}]

    async def summarised():
        for start in range(0, len(entries), 7):
            await store.append(MAIN, entries[start : start + 7])
            await store.append(MAIN, entries[:7])
        await store.append(AGENT, [entry("agent", cwd="/elsewhere")])
        [summary] = await store.list_session_summaries(PROJECT)
        [listed] = await store.list_sessions(PROJECT)
        return summary, listed

    summary, listed = run(summarised())
    assert summary["data"] == fold_session_summary(None, MAIN, entries)["data"]
    assert summary["mtime"] == listed["mtime"]


def test_a_summary_that_was_stored_says_what_was_said_last(store):
    """A3: the entries it names are in the order of the log."""
    branches = [{"gitBranch": "one"}, {"gitBranch": "two", "cwd": "/srv"}, {"gitBranch": "three"}]
    run(store.append(MAIN, [entry("x", **branch) for branch in branches]))
    run(store.append(MAIN, [entry("x") for _ in range(60)]))
    [summary] = run(store.list_session_summaries(PROJECT))
    assert (summary["data"]["git_branch"], summary["data"]["cwd"]) == ("three", "/srv")


def test_a_summary_costs_the_entries_since_the_one_before(store, alice, monkeypatch):
    """A3."""
    for start in range(0, 200, 10):
        run(store.append(MAIN, [entry(str(start + number)) for number in range(10)]))
    folded = []
    fold = claude_agent_transcript.fold_session_summary
    monkeypatch.setattr(
        claude_agent_transcript, "fold_session_summary", lambda *given: folded.append(1) or fold(*given)
    )
    run(store.list_session_summaries(PROJECT))
    assert len(folded) < 64
