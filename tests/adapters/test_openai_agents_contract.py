"""What every session of the OpenAI Agents SDK does, a conversation in the vault does."""

import asyncio
import inspect
import json
import threading

import pytest
from agents import SessionSettings
from agents.memory import Session, is_openai_responses_compaction_aware_session
from agents.memory.session import _session_accepts_wrapper
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adapters.openai_agents.talk import call, output, said, texts, waiting, write_locked
from vault.adapters.openai_agents import VaultSession
from vault.errors import InvalidInput, LimitExceeded

ran = asyncio.run

HOSTILE_IDS = [
    "../../etc/passwd",
    "'; DROP TABLE events; --",
    '{"$ne": ""}',
    "user:messages",
    "user",
    "user:",
    "a" * 5_000,
    "\x00",
    "naïve - 日本語 🜂",
    "%s %(x)s {0}",
    " ",
]


@pytest.fixture
def talk(alice):
    return VaultSession("talk", alice)


# ----------------------------------------------------------------------------------------------- the protocol


def test_it_is_a_session_of_the_sdk(talk):
    assert isinstance(talk, Session)
    assert talk.session_id == "talk"
    assert not is_openai_responses_compaction_aware_session(talk)


def test_all_four_methods_take_the_wrapper_by_keyword(talk):
    assert _session_accepts_wrapper(talk)
    for name in ("get_items", "add_items", "pop_item", "clear_session"):
        parameter = inspect.signature(getattr(talk, name)).parameters["wrapper"]
        assert (parameter.kind, parameter.default) == (inspect.Parameter.KEYWORD_ONLY, None)


@pytest.mark.parametrize("session_id", [None, 7, b"talk", {"$ne": ""}, ["talk"]])
def test_a_session_id_that_is_no_string_is_refused(alice, session_id):
    """A2: an id that a query could take for an operator reaches nobody's conversation."""
    with pytest.raises(TypeError, match="a string"):
        VaultSession(session_id, alice)


@pytest.mark.parametrize("session_id", ["", "\ud800"])
def test_a_session_id_that_is_no_text_is_refused(alice, session_id):
    with pytest.raises(InvalidInput):
        ran(VaultSession(session_id, alice).add_items([said("x")]))


def test_what_it_shows_of_itself_is_not_its_id(alice):
    """K1."""
    assert "patient" not in repr(VaultSession("patient-7", alice))


# ----------------------------------------------------------------------------------------- reading and adding


def test_a_new_session_is_empty_and_nothing_is_made_by_looking(talk, alice):
    assert ran(talk.get_items()) == []
    assert ran(talk.pop_item()) is None
    ran(talk.clear_session())
    ran(talk.add_items([]))
    assert talk.vault_session() is None
    assert alice.sessions.find().items == ()


def test_items_come_back_in_the_order_they_were_added(talk):
    ran(talk.add_items([said("1"), said("2", "assistant")]))
    ran(talk.add_items([said("3")]))
    assert texts(ran(talk.get_items())) == ["1", "2", "3"]


@pytest.mark.parametrize("count", [250, 1_000])
def test_a_large_batch_is_one_batch(talk, count):
    ran(talk.add_items([said(str(number)) for number in range(count)]))
    assert texts(ran(talk.get_items())) == [str(number) for number in range(count)]
    assert texts(ran(talk.get_items(3))) == [str(number) for number in range(count - 3, count)]


def test_a_batch_above_the_limit_is_refused_whole(talk):
    with pytest.raises(LimitExceeded, match="at most 1000"):
        ran(talk.add_items([said("x")] * 1_001))
    assert ran(talk.get_items()) == []


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(0, []), (1, ["5"]), (3, ["3", "4", "5"]), (5, ["1", "2", "3", "4", "5"]), (2**40, list("12345"))],
)
def test_a_limit_gives_the_newest_in_their_order(talk, limit, expected):
    ran(talk.add_items([said(text) for text in "12345"]))
    assert texts(ran(talk.get_items(limit))) == expected
    assert texts(ran(talk.get_items(limit=limit))) == expected


@pytest.mark.parametrize("limit", [-1, -(2**40), True, 1.5, "3"])
def test_a_limit_that_is_no_count_is_refused(talk, limit):
    """SQLite reads a negative limit as none, others as nothing: here nobody has to know."""
    ran(talk.add_items([said("1")]))
    with pytest.raises(InvalidInput, match="a limit is a whole number"):
        ran(talk.get_items(limit))


def test_the_settings_limit_what_is_read_unless_the_call_does(alice):
    ran(VaultSession("talk", alice).add_items([said(text) for text in "1234"]))
    limited = VaultSession("talk", alice, session_settings=SessionSettings(limit=2))
    assert texts(ran(limited.get_items())) == ["3", "4"]
    assert texts(ran(limited.get_items(3))) == ["2", "3", "4"]
    assert ran(limited.get_items(0)) == []
    from_dict = VaultSession("talk", alice, session_settings={"limit": 1})
    assert texts(ran(from_dict.get_items())) == ["4"]
    with pytest.raises(Exception, match="unexpected"):
        VaultSession("talk", alice, session_settings={"limit": 1, "unexpected": 2})


# -------------------------------------------------------------------------------------- taking back, clearing


def test_items_are_taken_back_newest_first(talk):
    ran(talk.add_items([said(text) for text in "123"]))
    taken = [ran(talk.pop_item())["content"] for _ in range(3)]
    assert taken == ["3", "2", "1"]
    assert ran(talk.pop_item()) is None
    assert ran(talk.get_items()) == []


def test_adding_and_taking_back_can_alternate(talk):
    ran(talk.add_items([said("1"), said("2"), said("3")]))
    assert ran(talk.pop_item()) == said("3")
    ran(talk.add_items([said("4")]))
    assert ran(talk.pop_item()) == said("4")
    assert ran(talk.pop_item()) == said("2")
    ran(talk.add_items([said("5")]))
    assert texts(ran(talk.get_items())) == ["1", "5"]
    assert texts(ran(talk.get_items(1))) == ["5"]
    assert texts(ran(talk.get_items(2))) == ["1", "5"]


def test_a_cleared_session_is_empty_and_goes_on(talk, alice):
    ran(talk.add_items([said("1"), said("2")]))
    ran(talk.clear_session())
    assert ran(talk.get_items()) == []
    assert ran(talk.pop_item()) is None
    ran(talk.clear_session())
    ran(talk.add_items([said("3")]))
    for reader in (talk, VaultSession("talk", alice)):
        assert texts(ran(reader.get_items())) == ["3"]
        assert texts(ran(reader.get_items(5))) == ["3"]


def test_what_one_clears_another_instance_that_knew_it_does_not_bring_back(alice):
    """D4: a writer that has not seen the clearing goes on behind it."""
    one, two = VaultSession("talk", alice), VaultSession("talk", alice)
    ran(one.add_items([said("1")]))
    ran(two.add_items([said("2")]))
    ran(one.clear_session())
    ran(two.add_items([said("3")]))
    assert texts(ran(one.get_items())) == ["3"] == texts(ran(two.get_items()))


def test_a_session_is_apart_from_those_with_ids_like_it(alice):
    names = ["user", "user:messages", "user:", "use", "user2", "User"]
    for name in names:
        ran(VaultSession(name, alice).add_items([said(name)]))
    ran(VaultSession("user", alice).clear_session())
    ran(VaultSession("use", alice).pop_item())
    left = {name: texts(ran(VaultSession(name, alice).get_items())) for name in names}
    assert left == {name: [] if name in ("user", "use") else [name] for name in names}


@pytest.mark.parametrize("session_id", HOSTILE_IDS)
def test_a_hostile_id_is_an_id_like_any_other(alice, session_id):
    """A2."""
    ran(VaultSession("other", alice).add_items([said("theirs")]))
    ran(VaultSession(session_id, alice).add_items([said("mine")]))
    assert texts(ran(VaultSession(session_id, alice).get_items())) == ["mine"]
    ran(VaultSession(session_id, alice).clear_session())
    assert texts(ran(VaultSession("other", alice).get_items())) == ["theirs"]


def test_the_same_id_is_another_conversation_for_every_owner(vault, principal, talk):
    """A1, A2: the owner is bound when the session is made, and nothing else says it."""
    ran(talk.add_items([said("alice's")]))
    for other in (principal("bob"), principal("alice", tenant="other")):
        theirs = VaultSession("talk", vault.access(other))
        assert ran(theirs.get_items()) == []
        assert ran(theirs.pop_item()) is None
        ran(theirs.add_items([said("not alice's")]))
        ran(theirs.clear_session())
    assert texts(ran(talk.get_items())) == ["alice's"]


def test_identical_items_are_all_kept(talk):
    ran(talk.add_items([said("same"), said("same")]))
    ran(talk.add_items([said("same")]))
    big = said("x" * 5_000)  # long enough to be stored once
    ran(talk.add_items([big, big]))
    assert ran(talk.get_items()) == [said("same")] * 3 + [big] * 2
    assert ran(talk.pop_item()) == big
    assert ran(talk.get_items()) == [said("same")] * 3 + [big]


# ---------------------------------------------------------------------------------------- exactly those items

EXACT = [
    {"z": 1, "a": {"y": [1, 2.5, -0.0, 1e300, 2**63, -(2**63)], "b": None}, "m": True},
    {"content": "\x00 NUL, \u2028, 🜂 astral, \ufffe, e\u0301 and é"},
    {"role": "user", "content": [], "empty": {}, "": ""},
    {"type": "function_call", "arguments": '{"a": 1.0, "a": 2}', "call_id": "c"},
    {"content": "long " * 50_000},
    {"deep": [[[[[[[[{"x": [{}]}]]]]]]]]},
]


@pytest.mark.parametrize("item", EXACT, ids=range(len(EXACT)))
def test_an_item_comes_back_as_the_same_bytes_of_json(talk, item):
    """S1: the order of keys as well, on which a model's cache depends."""
    ran(talk.add_items([item]))
    [back] = ran(talk.get_items())
    assert json.dumps(back) == json.dumps(item)
    assert json.dumps(ran(talk.pop_item())) == json.dumps(item)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False, width=64, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
        ),
        max_leaves=8,
    )
)
def test_any_json_value_comes_back_exactly(talk, value):
    """S1."""
    ran(talk.add_items([{"value": value}]))
    assert json.dumps(ran(talk.pop_item())) == json.dumps({"value": value})


@pytest.mark.parametrize(
    "item",
    [
        {"content": b"bytes"},
        {"content": object()},
        {"content": float("nan")},
        {"content": "\ud800"},
        {"content": {1: 2}},
        {"content": (1, 2)},
        {"content": 2**64},
        "a string",
        None,
        ["role", "user"],
    ],
    ids=range(10),
)
def test_what_json_cannot_hold_refuses_its_whole_batch(talk, item):
    """S1: nothing is turned into a string on the way, and nothing of the batch is seen."""
    ran(talk.add_items([said("before")]))
    with pytest.raises(InvalidInput):
        ran(talk.add_items([said("1"), item, said("2")]))
    assert texts(ran(talk.get_items())) == ["before"]
    ran(talk.add_items([said("after")]))
    assert texts(ran(talk.get_items())) == ["before", "after"]


def test_what_is_added_or_returned_is_nobody_elses_object(talk):
    given = [said(["x"])]
    ran(talk.add_items(given))
    given[0]["content"].append("changed")
    given.append(said("more"))
    ran(talk.get_items())[0]["content"].append("changed")
    assert ran(talk.get_items()) == [said(["x"])]


# --------------------------------------------------------------------------------------------------- together


def test_a_reopened_vault_gives_the_same(place):
    """S1."""
    from vault import Principal, Vault

    items = [said("1"), call("c"), output("c")]
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        ran(VaultSession("talk", vault.access(Principal(tenant="acme", subject="alice"))).add_items(items))
    with Vault.open(place) as vault:
        talk = VaultSession("talk", vault.access(Principal(tenant="acme", subject="alice")))
        assert ran(talk.get_items()) == items


@pytest.mark.parametrize("instances", [1, 2])
def test_batches_added_at_once_stay_whole_and_none_is_lost(alice, instances):
    talks = [VaultSession("talk", alice) for _ in range(instances)]
    batches = [[said(f"{number}/{part}") for part in range(3)] for number in range(40)]
    waiting(*(talks[number % instances].add_items(batch) for number, batch in enumerate(batches)))
    there = ran(talks[0].get_items())
    assert sorted(texts(there)) == sorted(text for batch in batches for text in texts(batch))
    for start in range(0, len(there), 3):
        assert there[start : start + 3] in batches


@pytest.mark.parametrize("instances", [1, 2])
def test_items_taken_back_at_once_are_each_given_to_one(alice, instances):
    """D4: two that take back at the same time never get the same item."""
    talks = [VaultSession("talk", alice) for _ in range(instances)]
    ran(talks[0].add_items([said(str(number)) for number in range(30)]))
    taken = waiting(*(talks[number % instances].pop_item() for number in range(35)))
    got = [item["content"] for item in taken if item is not None]
    assert sorted(got, key=int) == [str(number) for number in range(30)]
    assert ran(talks[0].get_items()) == []


def test_of_two_that_saw_the_same_newest_item_one_gets_it(alice, place, python):
    """D4: the other gets the one before."""
    talks = [VaultSession("talk", alice) for _ in range(2)]
    ran(talks[0].add_items([said("1"), said("2"), said("3")]))

    async def at_once():
        with write_locked(place, python) as let_go:
            tasks = [asyncio.create_task(talk.pop_item()) for talk in talks]
            await asyncio.sleep(0.5)
            await asyncio.to_thread(let_go)
            return await asyncio.gather(*tasks)

    assert sorted(texts(ran(at_once()))) == ["2", "3"]
    assert texts(ran(talks[0].get_items())) == ["1"]


def test_adding_and_taking_back_at_once_loses_nothing(alice):
    """D4: every item is there, or was given back."""
    talks = [VaultSession("talk", alice) for _ in range(4)]
    seen = []

    async def work(number):
        talk = talks[number]
        for turn in range(25):
            await talk.add_items([said(f"{number}/{turn}/a"), said(f"{number}/{turn}/b")])
            if turn % 3 == number % 3:
                item = await talk.pop_item()
                if item is not None:
                    seen.append(item["content"])

    waiting(*(work(number) for number in range(4)))
    left = texts(ran(talks[0].get_items()))
    every = {f"{number}/{turn}/{part}" for number in range(4) for turn in range(25) for part in "ab"}
    assert len(left) + len(seen) == len(every)
    assert set(left) | set(seen) == every
    assert texts(ran(VaultSession("talk", alice).get_items(50))) == left[-50:]


def test_a_session_works_in_several_loops_and_threads(talk):
    ran(talk.add_items([said("first loop")]))
    failures = []

    def in_a_thread(number):
        try:
            ran(talk.add_items([said(str(number))]))
            ran(talk.get_items(1))
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            failures.append(error)

    threads = [threading.Thread(target=in_a_thread, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(texts(ran(talk.get_items()))) == sorted(["first loop", *map(str, range(8))])
