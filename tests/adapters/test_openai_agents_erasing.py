"""What is taken back, cleared, expired or erased is gone from every file; what hung on it is not shown.

A1, D5, D6.
"""

import asyncio
import time
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adapters.openai_agents.talk import call, kinds, output, said, texts, thought
from vault.adapters.openai_agents import VaultSession
from vault.errors import Erased, SessionEnded

ran = asyncio.run

#: A call of every kind that the SDK knows, and what answers it.
PAIRS = {
    "function": (call("c"), output("c")),
    "custom": (
        {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "y"},
    ),
    "computer": (
        {"type": "computer_call", "call_id": "c", "id": "i", "action": {"type": "screenshot"}},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
    ),
    "local shell": (
        {"type": "local_shell_call", "call_id": "c", "id": "i", "action": {"type": "exec"}},
        {"type": "local_shell_call_output", "call_id": "c", "output": "y"},
    ),
    "shell": (
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c", "output": []},
    ),
    "patch": (
        {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "p"}},
        {"type": "apply_patch_call_output", "call_id": "c", "status": "completed"},
    ),
    "tool search": (
        {"type": "tool_search_call", "call_id": "c", "arguments": {}},
        {"type": "tool_search_output", "call_id": "c", "tools": []},
    ),
    "tool search without an id": (
        {"type": "tool_search_call", "call_id": None, "arguments": {}},
        {"type": "tool_search_output", "call_id": None, "tools": []},
    ),
    "program": (
        {"type": "program", "call_id": "c", "code": "1"},
        {"type": "program_output", "call_id": "c", "output": "1"},
    ),
    "approval": (
        {"type": "mcp_approval_request", "id": "a", "server_label": "s", "name": "n", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
    ),
}
EVERY_KIND = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
BATCHES = pytest.mark.parametrize("together", [True, False], ids=["one batch", "two batches"])


@pytest.fixture
def talk(alice):
    return VaultSession("talk", alice)


def item_ids(talk):
    return [event.id for event in talk.vault_session().events(types=["openai.item"])]


def erase_item(talk, place):
    """As its owner can, through the vault, without the adapter."""
    talk.vault_session().retract([item_ids(talk)[place]])


# -------------------------------------------------------------------------------------------- physically gone


@pytest.mark.parametrize("size", [1, 5_000, 200_000], ids=["short", "long", "in the blob area"])
def test_an_item_that_was_taken_back_is_in_no_file(vault, talk, place, python, size):
    """D4: also as sealed bytes: the address that the log names is nowhere."""
    ran(talk.add_items([said("stays"), said("goes" * size)]))
    gone = list(talk.vault_session().events(types=["openai.item"]))[1]
    assert ran(talk.pop_item()) == said("goes" * size)
    [fact] = list(talk.vault_session().slice(gone.id, gone.id))
    assert (fact.erased, fact.payload) == (True, None)
    assert texts(ran(talk.get_items())) == ["stays"]
    vault.close()
    blobs = [path.name for path in place.rglob("*") if path.is_file()]
    assert gone.payload_ref.rpartition("/")[2] not in blobs


SEALED = """
import sys, sqlite3
connection = sqlite3.connect(f"file:{sys.argv[1]}/data.db?mode=ro", uri=True)
for (body,) in connection.execute("SELECT body FROM blobs WHERE body <> x'' ORDER BY no"):
    print(bytes(body).hex())
"""


@pytest.mark.parametrize("how", ["pop_item", "clear_session", "expire", "compaction"])
def test_the_sealed_bytes_are_in_no_file_when_it_returns(talk, place, python, how):
    """D4: not in the write-ahead log either, while the vault is still open."""
    ran(talk.add_items([said("x" * 3_000)]))
    sealed = bytes.fromhex(python(SEALED, place).communicate()[0].split()[0])
    uses = {
        "pop_item": talk.pop_item,
        "clear_session": talk.clear_session,
        "expire": lambda: talk.expire_items(timedelta(0)),
        "compaction": lambda: talk._atomic_replace_items([said("in short")]),
    }
    found = """
import pathlib, sys
needle = bytes.fromhex(sys.argv[2])
print(sum(needle in path.read_bytes() for path in pathlib.Path(sys.argv[1]).rglob("*") if path.is_file()))
"""
    assert int(python(found, place, sealed[:200].hex()).communicate()[0]) > 0
    ran(uses[how]())
    assert int(python(found, place, sealed[:200].hex()).communicate()[0]) == 0


def test_a_copy_made_before_a_clearing_cannot_be_read_with_the_keys_of_after(talk, place, alice):
    """D4: the key of the generation is destroyed, so old copies of the data are lost with it."""
    ran(talk.add_items([said("1"), said("2")]))
    session = talk.vault_session()
    ran(talk.clear_session())
    with pytest.raises(Erased):
        session.append("openai.item", said("late"), epoch=1)
    ran(talk.add_items([said("3")]))
    assert [(event.epoch, event.erased) for event in session.events(types=["openai.item"])] == [
        (1, True),
        (1, True),
        (2, False),
    ]


def test_taking_back_and_clearing_are_facts_of_the_log(talk):
    """A3: that something was there, and when it went, stays; what it was does not."""
    ran(talk.add_items([said("1"), said("2")]))
    ran(talk.pop_item())
    ran(talk.clear_session())
    events = list(talk.vault_session().events())
    assert [event.type for event in events if event.type.startswith("event.")] == ["event.retracted"] * 2
    assert [event.payload for event in events if event.type == "openai.item"] == [None, None]
    told = [event.payload for event in events if event.type in ("openai.withdrawn", "openai.cleared")]
    assert "1" not in str(sorted(told[0]["stretch"]))
    assert told[1] == {"generation": 1}


def test_the_vault_verifies_afterwards(vault, talk):
    """K2: what is gone by right is no finding."""
    ran(talk.add_items([said("1"), call("c"), output("c"), said("2")]))
    ran(talk.pop_item())
    ran(talk.expire_items(timedelta(0)))
    ran(talk.add_items([said("3")]))
    ran(talk.clear_session())
    ran(talk.add_items([said("4")]))
    assert vault.verify().findings == ()


# -------------------------------------------------------------------------------------------- a whole session


def test_an_erased_conversation_is_refused_to_late_writers(alice, talk):
    """D4: its tombstone answers, in this instance and in a new one."""
    ran(talk.add_items([said("1")]))
    late = VaultSession("talk", alice)
    ran(late.get_items())
    assert ran(talk.erase())
    for one in (talk, late, VaultSession("talk", alice)):
        for use in (
            one.get_items,
            one.pop_item,
            one.clear_session,
            lambda one=one: one.add_items([said("2")]),
        ):
            with pytest.raises(Erased):
                ran(use())
    assert not ran(VaultSession("never", alice).erase())


def test_an_erased_conversation_can_be_begun_anew_on_purpose(alice, talk):
    ran(talk.add_items([said("1")]))
    ran(talk.erase())
    anew = VaultSession("talk", alice, reuse_erased=True)
    assert ran(anew.get_items()) == []
    ran(anew.add_items([said("2")]))
    assert texts(ran(VaultSession("talk", alice).get_items())) == ["2"]
    ran(anew.erase())
    ran(anew.add_items([said("3")]))  # by the same instance, whose session is gone
    assert texts(ran(anew.get_items())) == ["3"]


def test_an_erasure_of_the_person_takes_the_conversation(alice, officer, talk):
    """D1."""
    ran(talk.add_items([said("1")]))
    officer.erasure.erase(subject="alice")
    with pytest.raises(Erased):
        ran(VaultSession("talk", alice).add_items([said("2")]))


def test_a_conversation_whose_key_its_owner_destroyed_goes_on(alice, talk):
    """D4: through the vault, without the adapter; by the instance that knew it and by a new one."""
    ran(talk.add_items([said("1"), said("2")]))
    talk.vault_session().retract_epoch(1)
    assert ran(talk.get_items()) == []
    assert ran(talk.pop_item()) is None
    for number, one in enumerate((VaultSession("talk", alice), talk)):
        ran(one.add_items([said(str(number))]))
    assert texts(ran(talk.get_items())) == ["0", "1"]


def test_an_ended_session_takes_no_more_items(talk):
    ran(talk.add_items([said("1")]))
    talk.vault_session().end()
    with pytest.raises(SessionEnded):
        ran(talk.add_items([said("2")]))
    assert texts(ran(talk.get_items())) == ["1"]


# ------------------------------------------------------------------------------------------------------ pairs


@EVERY_KIND
@BATCHES
def test_an_output_whose_call_was_erased_is_not_shown(talk, pair, together):
    """D4: a model refuses an output without its call; whatever limit is asked for."""
    asked, answered = pair
    batches = [[said("1"), asked, answered]] if together else [[said("1"), asked], [answered]]
    for batch in batches:
        ran(talk.add_items(batch))
    ran(talk.add_items([said("2")]))
    assert kinds(ran(talk.get_items())) == ["user", asked["type"], answered["type"], "user"]
    erase_item(talk, 1)
    for limit in (None, 1, 2, 3, 4):
        assert texts(ran(talk.get_items(limit))) == ["1", "2"][-(limit or 9) :]


@EVERY_KIND
@BATCHES
def test_a_call_whose_output_was_erased_is_not_shown(talk, pair, together):
    asked, answered = pair
    batches = [[said("1"), asked, answered]] if together else [[said("1"), asked], [answered]]
    for batch in batches:
        ran(talk.add_items(batch))
    ran(talk.add_items([said("2")]))
    erase_item(talk, 2)
    for limit in (None, 1, 2, 3):
        assert texts(ran(talk.get_items(limit))) == ["1", "2"][-(limit or 9) :]


def test_reasoning_goes_with_the_call_that_followed_from_it(talk):
    """A model refuses reasoning without what followed."""
    ran(talk.add_items([said("1"), thought(), call("c"), output("c"), thought(), said("2", "assistant")]))
    erase_item(talk, 3)
    assert kinds(ran(talk.get_items())) == ["user", "reasoning", "assistant"]
    erase_item(talk, 5)
    assert kinds(ran(talk.get_items())) == ["user"]


def test_a_call_that_waits_for_its_output_is_shown(talk):
    """An approval is pending: nothing of it was erased."""
    ran(talk.add_items([said("1"), call("c")]))
    assert kinds(ran(talk.get_items())) == ["user", "function_call"]


def test_an_output_that_is_taken_back_leaves_its_call(talk):
    """Taking back is the application's own undo: what it did not take is there, as in every store."""
    ran(talk.add_items([said("1"), call("c"), output("c")]))
    assert ran(talk.pop_item()) == output("c")
    assert kinds(ran(talk.get_items())) == ["user", "function_call"]
    ran(talk.add_items([output("c", "another")]))
    assert texts(ran(talk.get_items()))[2] == "another"


def test_an_output_without_any_call_comes_back_as_it_was_added(talk):
    ran(talk.add_items([output("of another store"), said("1")]))
    assert kinds(ran(talk.get_items())) == ["function_call_output", "user"]


@pytest.mark.parametrize("how", ["erase", "pop", "clear", "expire"])
def test_the_output_of_a_call_that_is_gone_comes_late_and_is_not_shown(talk, how):
    """D4: a paused run goes on after its call was erased; it must not make the conversation unusable."""
    ran(talk.add_items([said("1"), call("c")]))
    uses = {
        "pop": talk.pop_item,
        "clear": talk.clear_session,
        "expire": lambda: talk.expire_items(timedelta(0)),
    }
    if how == "erase":
        erase_item(talk, 1)
    else:
        ran(uses[how]())
    ran(talk.add_items([output("c"), said("2")]))
    left = ["1", "2"] if how in ("erase", "pop") else ["2"]
    for limit in (None, 1, 2, 3):
        assert texts(ran(talk.get_items(limit))) == left[-(limit or 9) :]
    ran(talk.add_items([call("c"), output("c", "anew")]))
    assert texts(ran(talk.get_items())) == [*left, "function_call", "anew"]


def test_an_id_that_is_used_twice_joins_each_output_to_the_call_before_it(talk):
    ran(talk.add_items([call("c"), output("c", "first"), call("c"), output("c", "second")]))
    erase_item(talk, 0)
    assert texts(ran(talk.get_items())) == ["function_call", "second"]


def test_taking_back_takes_what_is_not_shown_with_it(talk):
    """D4: nothing is left behind that nobody can reach any more."""
    ran(talk.add_items([said("1"), call("c"), output("c")]))
    erase_item(talk, 1)
    assert ran(talk.pop_item()) == said("1")
    facts = list(talk.vault_session().events(types=["openai.item"]))
    assert [fact.erased for fact in facts] == [True, True, True]


# --------------------------------------------------------------------------------------------------- expiring


def later():
    time.sleep(0.02)


def test_what_is_older_expires_and_the_rest_stays(talk):
    """R1."""
    ran(talk.add_items([said("old"), said("older", "assistant")]))
    later()
    ran(talk.add_items([said("new")]))
    assert ran(talk.expire_items(timedelta(microseconds=newest_age_us(talk)))) == 2
    assert texts(ran(talk.get_items())) == ["new"]
    assert ran(talk.expire_items(timedelta(hours=1))) == 0
    ran(talk.add_items([said("newer")]))
    assert texts(ran(talk.get_items())) == ["new", "newer"]


def newest_age_us(talk):
    *_, newest = talk.vault_session().events(types=["openai.item"])
    return (datetime.now(UTC) - newest.recorded_at) // timedelta(microseconds=1) + 10_000


@EVERY_KIND
def test_an_expired_call_takes_its_younger_output_along(talk, pair):
    """R1: a pair is kept or erased, never split."""
    asked, answered = pair
    ran(talk.add_items([said("old"), asked]))
    later()
    ran(talk.add_items([answered, said("new")]))
    assert ran(talk.expire_items(timedelta(microseconds=newest_age_us(talk)))) == 3
    for limit in (None, 1, 2, 3):
        assert texts(ran(talk.get_items(limit))) == ["new"]
    facts = list(talk.vault_session().events(types=["openai.item"]))
    assert [fact.erased for fact in facts] == [True, True, True, False]


def test_more_than_a_batch_expires(talk):
    for _ in range(3):
        ran(talk.add_items([said("x")] * 700))
    assert ran(talk.expire_items(timedelta(0))) == 2_100
    assert ran(talk.get_items()) == []
    assert ran(talk.pop_item()) is None


# ----------------------------------------------------------------------------------------- any order of steps

STEP = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 3)),
    st.tuples(st.just("tool"), st.just(0)),
    st.tuples(st.just("pop"), st.integers(1, 2)),
    st.tuples(st.just("clear"), st.just(0)),
    st.tuples(st.just("replace"), st.integers(1, 2)),
    st.tuples(st.just("tail"), st.integers(1, 3)),
    st.tuples(st.just("expire"), st.just(0)),
)


class Mirror:
    """A conversation, and beside it the list that it should be."""

    def __init__(self, talks):
        self.talks, self.items, self.made = talks, [], 0

    def fresh(self, count):
        self.made += count
        return [said(str(number)) for number in range(self.made - count, self.made)]

    async def add(self, talk, count):
        new = self.fresh(count)
        self.items += new
        await talk.add_items(new)

    async def tool(self, talk, count):
        new = [call(f"c{self.made}"), output(f"c{self.made}")]
        self.made += 1
        self.items += new
        await talk.add_items(new)

    async def pop(self, talk, count):
        for _ in range(count):
            assert await talk.pop_item() == (self.items.pop() if self.items else None)

    async def clear(self, talk, count):
        self.items = []
        await talk.clear_session()

    async def replace(self, talk, count):
        self.items = self.fresh(count)
        await talk._atomic_replace_items(self.items)

    async def tail(self, talk, count):
        snapshot = await talk._get_compaction_snapshot(count)
        assert snapshot.items == self.items[-count:]
        assert snapshot.complete == (len(self.items) <= count)
        new = self.fresh(1)
        assert await snapshot.replace_suffix(0, new) == bool(self.items)
        if self.items:
            self.items[-count:] = new

    async def expire(self, talk, count):
        self.items = []
        await talk.expire_items(timedelta(0))

    async def check(self):
        for limit in (None, 0, 1, 2, 3, 100):
            expected = self.items[-limit:] if limit else ([] if limit == 0 else self.items)
            assert await self.talks[-1].get_items(limit) == expected


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, max_size=14), instances=st.integers(1, 2))
def test_any_order_of_steps_gives_what_a_list_would(alice, steps, instances):
    """S1, D4: read whole or with any limit, by whichever instance."""
    name = str(uuid.uuid4())
    mirror = Mirror([VaultSession(name, alice) for _ in range(instances)])

    async def walk():
        for at, (step, count) in enumerate(steps):
            await getattr(mirror, step)(mirror.talks[at % instances], count)
            await mirror.check()

    ran(walk())


# --------------------------------------------------------------------------------------------------- canaries


def test_nothing_of_a_conversation_stands_in_any_file(vault, alice, talk, files_with):
    """K1: neither ids of the framework nor what was said, in any form, before or after it is taken back."""
    canary = "canary-7f3a"
    named = VaultSession(f"id-{canary}", alice)
    long_name = VaultSession("id-of-many-characters-" * 30 + canary, alice)
    for one in (named, long_name):
        ran(
            one.add_items(
                [
                    said(f"text {canary}"),
                    call(f"call-{canary}", name=f"tool-{canary}", arguments=f'{{"x": "{canary}"}}'),
                    output(f"call-{canary}", f"out {canary}" * 1_000),
                    {"type": "reasoning", "id": f"rs-{canary}", "summary": []},
                    {"type": "message", "id": f"msg-{canary}", "role": "assistant", "content": []},
                ]
            )
        )
        ran(one.pop_item())
    ran(named.clear_session())
    ran(named.add_items([said(canary)]))
    vault.close()
    assert files_with(canary) == []
    assert files_with(b"SQLite format 3")  # the search finds what is there
    assert files_with("id-of-many") == []
