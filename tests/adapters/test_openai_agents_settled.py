"""Failed, cancelled, closed: what the SDK's own tests ask of SQLite's insides, asked of the vault.

Those tests look at connections, locks and raw rows of ``SQLiteSession`` and cannot be run over another store;
what they protect is proved here.
"""

import asyncio
import contextlib
import json
import threading
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from agents import Agent, MessageOutputItem, Runner, RunState, handoff
from agents.memory import OpenAIResponsesCompactionSession
from agents.testing import ScriptedModel, assistant_message

from tests.adapters.openai_agents.talk import QUIET, asked, calling, said, texts, write_locked
from tests.security import surgery
from vault import Principal, Vault
from vault.adapters.openai_agents import VaultSession
from vault.errors import Conflict, InvalidInput, StorageFull, Tampered

ran = asyncio.run
SETTINGS = {"synchronous": "NORMAL"}
ALICE = Principal(tenant="acme", subject="alice")


@pytest.fixture
def talk(alice):
    return VaultSession("talk", alice)


@pytest.fixture
def write_lock(place, python):
    return lambda: write_locked(place, python)


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


# ----------------------------------------------------------------------------------------------------- closed


@pytest.mark.parametrize(
    "use",
    [
        lambda talk: talk.get_items(),
        lambda talk: talk.get_items(0),
        lambda talk: talk.add_items([said("x")]),
        lambda talk: talk.add_items([]),
        lambda talk: talk.pop_item(),
        lambda talk: talk.clear_session(),
        lambda talk: talk.erase(),
        lambda talk: talk.pause(None),
        lambda talk: talk.resume(None),
        lambda talk: talk.expire_items(timedelta(0)),
        lambda talk: talk._get_compaction_snapshot(1),
        lambda talk: talk._atomic_replace_items([]),
    ],
)
def test_a_closed_session_refuses_every_use_even_an_empty_batch(alice, talk, use):
    ran(talk.add_items([said("1")]))
    talk.close()
    talk.close()  # closing what is closed is harmless
    with pytest.raises(RuntimeError, match="VaultSession is closed"):
        ran(use(talk))
    assert texts(ran(VaultSession("talk", alice).get_items())) == ["1"]  # the vault is not closed with it


def test_threads_that_are_over_leave_no_connection_behind(talk):
    ran(talk.add_items([said("1")]))

    def in_threads(count):
        for _ in range(count):
            thread = threading.Thread(target=lambda: ran(talk.get_items()))
            thread.start()
            thread.join()

    in_threads(5)
    before = descriptors()
    in_threads(40)
    assert descriptors() <= before + 2


def test_closing_leaves_no_file_open_that_others_do_not_use(alice):
    ran(VaultSession("talk", alice).add_items([said("1")]))
    before = descriptors()
    for number in range(40):
        talk = VaultSession("talk", alice)
        ran(talk.add_items([said(str(number))]))
        talk.close()
    assert descriptors() <= before + 2


def test_threads_that_live_go_on_while_others_end(talk):
    """Each keeps its connection while it works."""
    ran(talk.add_items([said("0")]))
    begun, go, failures = threading.Barrier(5), threading.Event(), []

    async def work():
        await talk.get_items()
        begun.wait(timeout=30)
        await asyncio.to_thread(go.wait, 30)
        await talk.add_items([said("live")])

    def thread():
        try:
            ran(work())
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            failures.append(error)

    live = [threading.Thread(target=thread) for _ in range(4)]
    for one in live:
        one.start()
    begun.wait(timeout=30)
    for _ in range(10):
        short = threading.Thread(target=lambda: ran(talk.get_items()))
        short.start()
        short.join()
    go.set()
    for one in live:
        one.join()
    assert failures == []
    assert texts(ran(talk.get_items())).count("live") == 4


# ---------------------------------------------------------------------------------------------------- damaged


@pytest.fixture
def damaged(place):
    """A conversation of three items of which the newest is damaged on disk: its vault, opened again."""
    with Vault.create(place, settings=SETTINGS) as vault:
        talk = VaultSession("talk", vault.access(ALICE))
        ran(talk.add_items([said("1"), said("2"), said("3")]))
    with surgery.opened(place) as connection:
        newest = connection.execute("SELECT max(no) FROM blobs").fetchone()[0]
        [[body]] = connection.execute("SELECT body FROM blobs WHERE no = ?", (newest,))
        surgery.update(connection, "blobs", {"no": newest}, body=surgery.flipped(body, at=len(body) // 2))
    with Vault.open(place) as vault:
        yield vault.access(ALICE)


@pytest.mark.parametrize("limit", [None, 1, 2], ids=["all", "one", "two"])
@pytest.mark.parametrize("how", ["explicit", "settings"])
def test_a_damaged_item_is_refused_and_never_passed_over(damaged, limit, how):
    """K2: the SDK's stores leave it out, and its limit is filled up with older ones; here it is said."""
    settings = {"limit": limit} if how == "settings" else None
    talk = VaultSession("talk", damaged, session_settings=settings)
    with pytest.raises(Tampered):
        ran(talk.get_items() if how == "settings" else talk.get_items(limit))


def test_a_damaged_item_is_not_taken_back_nor_what_stands_before_it(damaged):
    """K2: in the SDK's stores a wrong key drains the whole history this way."""
    talk = VaultSession("talk", damaged)
    for _ in range(4):
        with pytest.raises(Tampered):
            ran(talk.pop_item())
    facts = list(talk.vault_session().events(types=["openai.item"], limit=2))
    assert [(fact.erased, fact.payload["content"]) for fact in facts] == [(False, "1"), (False, "2")]


def test_only_damaged_items_are_not_an_empty_conversation(place):
    """K2: an empty history would make an agent begin anew without anybody noticing."""
    with Vault.create(place, settings=SETTINGS) as vault:
        ran(VaultSession("talk", vault.access(ALICE)).add_items([said("1")]))
    with surgery.opened(place) as connection:
        surgery.update(connection, "blobs", {"no": 1}, body=b"damaged")
    with Vault.open(place) as vault:
        talk = VaultSession("talk", vault.access(ALICE))
        with pytest.raises(Tampered):
            ran(talk.pop_item())
        with pytest.raises(Tampered):
            ran(talk.get_items())


# ----------------------------------------------------------------------------------------------------- failed


def test_a_refused_batch_leaves_no_lock(alice, talk):
    ran(talk.add_items([said("1")]))
    with pytest.raises(InvalidInput):
        ran(talk.add_items([said("2"), {"content": object()}]))
    ran(asyncio.wait_for(VaultSession("talk", alice).add_items([said("3")]), 5))
    assert texts(ran(talk.get_items())) == ["1", "3"]


@pytest.mark.parametrize("use", ["pop_item", "clear_session", "expire"])
def test_a_hold_refuses_erasing_and_leaves_everything_usable(alice, officer, talk, use):
    """R3, D2: nothing half-done, no lock left, and adding goes on."""
    ran(talk.add_items([said("1"), said("2")]))
    hold = officer.holds.place(session=talk.vault_session().id, reason="case 7")
    uses = {
        "pop_item": talk.pop_item,
        "clear_session": talk.clear_session,
        "expire": lambda: talk.expire_items(timedelta(0)),
    }
    with pytest.raises(Conflict, match="hold"):
        ran(uses[use]())
    assert texts(ran(talk.get_items())) == ["1", "2"]
    ran(asyncio.wait_for(VaultSession("talk", alice).add_items([said("3")]), 5))
    officer.holds.lift(hold.id, reason="closed")
    ran(talk.clear_session())
    assert ran(talk.get_items()) == []


def test_a_full_disk_in_the_middle_refuses_and_the_next_write_goes_on(vault, talk):
    """The SDK throws away a connection that could not roll back; here the vault goes on with what it has."""
    ran(talk.add_items([said("1")]))
    writer = vault._database._writer
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages}")

    def fill():
        for number in range(100):
            ran(talk.add_items([said(f"{number} " * 1_000), said("never alone")]))

    with pytest.raises(StorageFull):
        fill()
    writer.execute("PRAGMA max_page_count = 1000000")
    there = texts(ran(talk.get_items()))
    assert len(there) % 2 == 1  # whole batches
    ran(talk.add_items([said("after")]))
    assert texts(ran(talk.get_items())) == [*there, "after"]


# -------------------------------------------------------------------------------------------------- cancelled


@pytest.mark.parametrize("operation", ["add", "pop", "clear", "expire"])
def test_a_cancelled_change_has_happened_before_the_cancellation_is_seen(talk, write_lock, operation):
    """S1, D4: however often it is cancelled, whoever catches it knows that the change is done."""
    ran(talk.add_items([said("1"), said("2")]))
    uses = {
        "add": lambda: talk.add_items([said("3")]),
        "pop": talk.pop_item,
        "clear": talk.clear_session,
        "expire": lambda: talk.expire_items(timedelta(0)),
    }
    expected = {"add": ["1", "2", "3"], "pop": ["1"], "clear": [], "expire": []}

    async def cancelled(let_go):
        task = asyncio.create_task(uses[operation]())
        await asyncio.sleep(0.1)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.02)
        assert not task.done()
        await asyncio.to_thread(let_go)
        with pytest.raises(asyncio.CancelledError):
            await task
        return await talk.get_items()

    with write_lock() as let_go:
        assert texts(ran(cancelled(let_go))) == expected[operation]


def test_a_loop_that_ends_waits_for_the_change_under_way(talk, write_lock):
    """S1: ``asyncio.run`` cancels what is left; when it returns, the batch is there."""
    ran(talk.add_items([said("1")]))
    with write_lock() as let_go:
        timer = threading.Timer(0.5, let_go)

        async def ends_early():
            left = asyncio.create_task(talk.add_items([said("2")]))
            await asyncio.sleep(0.1)
            timer.start()
            assert not left.done()

        ran(ends_early())
        timer.join()
        facts = list(talk.vault_session().events(types=["openai.item"]))
    assert [fact.payload["content"] for fact in facts] == ["1", "2"]


def test_a_cancelled_batch_is_there_whole_or_not_at_all(talk):
    """The SDK's issue with streaming: cleanup cancelled the write before its commit."""

    async def storm():
        for number in range(40):
            batch = [said(f"{number}/{part}") for part in range(5)]
            task = asyncio.create_task(talk.add_items(batch))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    ran(storm())
    there = texts(ran(talk.get_items()))
    assert 0 < len(there) < 200
    for start in range(0, len(there), 5):
        number = there[start].partition("/")[0]
        assert there[start : start + 5] == [f"{number}/{part}" for part in range(5)]


@pytest.mark.parametrize("round_trip", [False, True], ids=["live", "json"])
@pytest.mark.parametrize("streamed", [False, True], ids=["run", "streamed"])
def test_a_run_cancelled_within_a_compaction_goes_on_from_what_was_committed(
    talk, write_lock, round_trip, streamed
):
    """The one of the SDK's resume tests that pauses SQLite in the middle of a replacement."""
    summary, transfers, summed_up = [said("in short", "assistant")], [], []
    first = [assistant_message("delegating"), calling("transfer_to_delegate", "{}", "h1")]
    model = ScriptedModel([{"output": first, "response_id": "resp-1"}, [assistant_message("done")]])
    to = handoff(
        Agent(name="delegate", model=model),
        input_filter=lambda data: data.clone(
            new_items=tuple(item for item in data.new_items if isinstance(item, MessageOutputItem))
        ),
        on_handoff=lambda _: transfers.append("once"),
    )
    agent = Agent(name="triage", model=model, handoffs=[to])

    async def interrupted():
        with contextlib.ExitStack() as stack:
            started, let_go = asyncio.Event(), []

            async def compact(**_):
                if not summed_up:
                    let_go.append(await asyncio.to_thread(stack.enter_context, write_lock()))
                summed_up.append(1)
                started.set()
                return SimpleNamespace(output=summary, usage=None)

            session = OpenAIResponsesCompactionSession(
                "talk",
                talk,
                client=SimpleNamespace(responses=SimpleNamespace(compact=compact)),
                compaction_mode="input",
                should_trigger_compaction=lambda context: context["response_id"] == "resp-1",
            )
            result = Runner.run_streamed(agent, "hello", session=session, run_config=QUIET)
            consumer = asyncio.create_task(drained(result))
            await asyncio.wait_for(started.wait(), 30)
            await asyncio.sleep(0.2)
            result.cancel()
            await asyncio.to_thread(let_go[0])
            await asyncio.wait_for(consumer, 30)
            assert await session.get_items() == summary
            state = result.to_state()
            if round_trip:
                state = await RunState.from_json(agent, json.loads(state.to_string()))
            return await asked(agent, state, session, streamed=streamed)

    resumed = ran(interrupted())
    assert (resumed.final_output, transfers, len(summed_up)) == ("done", ["once"], 1)
    assert ran(talk.get_items()) == [*summary, resumed.new_items[-1].to_input_item()]


async def drained(result):
    async for _ in result.stream_events():
        pass
