"""LangGraph's checkpointer beyond the suite: writes, order, threads, values, refusals (A1, D4, K1)."""

import asyncio
import json
import math
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.base import EXCLUDED_METADATA_KEYS
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Send

from tests.adapters.langgraph_case import at, chain, checkpoint, id_of, listed, put, values_of
from vault.adapters import langgraph_log
from vault.adapters.langgraph import VaultSaver
from vault.errors import Erased, InvalidInput


@pytest.fixture
def saver(alice):
    return VaultSaver(alice)


@pytest.fixture
def stranger(vault, principal):
    """Another person's saver in the same vault."""
    return VaultSaver(vault.access(principal("bob")))


def pending(saver, config):
    return saver.get_tuple(config).pending_writes


# ------------------------------------------------------------------------------------------- writes


def test_the_first_ordinary_write_of_a_place_counts(saver):
    config = put(saver, at("t"))
    saver.put_writes(config, [("a", 1), ("b", 2)], "task")
    saver.put_writes(config, [("a", "again"), ("b", "again"), ("c", 3)], "task")
    assert pending(saver, config) == [("task", "a", 1), ("task", "b", 2), ("task", "c", 3)]


def test_writes_that_are_there_are_not_stored_again(saver, alice):
    config = put(saver, at("t"))
    for writer in (saver, saver, VaultSaver(alice)):
        writer.put_writes(config, [("a", 1), ("b", 2)], "task")
    assert sum(event.type == "langgraph.writes" for event in saver.session(config).events()) == 1


@pytest.mark.parametrize("channel", ["__error__", "__scheduled__", "__interrupt__", "__resume__"])
def test_the_last_special_write_counts(saver, channel):
    config = put(saver, at("t"))
    for value in ("first", "second"):
        saver.put_writes(config, [(channel, value)], "task")
    assert pending(saver, config) == [("task", channel, "second")]


def test_in_a_mixed_list_each_write_is_decided_on_its_own(saver):
    config = put(saver, at("t"))
    saver.put_writes(config, [("a", 1), ("__resume__", "first")], "task")
    saver.put_writes(config, [("a", "again"), ("__resume__", "second")], "task")
    assert pending(saver, config) == [("task", "__resume__", "second"), ("task", "a", 1)]


def test_writes_come_by_path_then_task_then_place(saver):
    config = put(saver, at("t"))
    saver.put_writes(config, [("c", 1)], "task-a", "path-2")
    saver.put_writes(config, [("b", 1), ("b", 2)], "task-z", "path-1")
    saver.put_writes(config, [("a", 1)], "task-m")
    assert [(task, value) for task, _, value in pending(saver, config)] == [
        ("task-m", 1),
        ("task-z", 1),
        ("task-z", 2),
        ("task-a", 1),
    ]


def test_writes_may_come_before_their_checkpoint(saver):
    made = checkpoint({"a": 1})
    saver.put_writes(at("t", made["id"]), [("a", 2)], "task")
    assert saver.get_tuple(at("t")) is None
    config = saver.put(at("t"), made, {"source": "input", "step": -1}, {"a": 1})
    assert pending(saver, config) == [("task", "a", 2)]


def test_writes_that_belong_to_no_checkpoint_are_refused(saver):
    with pytest.raises(InvalidInput):
        saver.put_writes(at("t"), [("a", 1)], "task")


def test_no_writes_are_no_event(saver, alice):
    config = put(saver, at("t"))
    before = saver.session(config).info().event_count
    saver.put_writes(config, [], "task")
    assert saver.session(config).info().event_count == before


# --------------------------------------------------------------------------------- reading and lists


def test_a_namespace_that_is_left_out_is_the_root(saver):
    config = put(saver, at("t", ns=None), {"a": 1})
    assert config == at("t", id_of(config))
    assert values_of(saver, at("t", ns=None)) == {"a": 1}


def test_the_same_id_in_two_namespaces_is_two_checkpoints(saver):
    made = checkpoint({"a": 1})
    for ns, value in (("", 1), ("child:1", 2)):
        given = {**made, "channel_values": {"a": value}}
        saver.put(at("t", ns=ns), given, {"source": "loop", "step": 0}, {"a": 1})
    assert [values_of(saver, at("t", ns=ns)) for ns in ("", "child:1", "child:2")] == [
        {"a": 1},
        {"a": 2},
        None,
    ]


def test_a_checkpoint_that_is_put_again_is_the_later_one(saver):
    first, second = put(saver, at("t"), {"a": 1}), put(saver, at("t"), {"a": 2})
    made = checkpoint({"a": "anew"}, id=id_of(second))
    saver.put(first, made, {"source": "loop", "step": 7}, {"a": 1})
    found = saver.get_tuple(second)
    assert found.checkpoint["channel_values"] == {"a": "anew"}
    assert found.parent_config == first
    assert found.metadata["step"] == 7
    assert len(listed(saver, at("t"))) == 2


def test_a_list_goes_from_the_newest_over_all_namespaces_and_threads_of_this_person(saver, stranger):
    ids = [id_of(put(saver, at(thread, ns=ns))) for thread, ns in [("t", ""), ("u", ""), ("t", "child:1")]]
    put(stranger, at("t"))
    assert listed(saver, None) == ids[::-1]
    assert listed(saver, at("t", ns=None)) == [ids[2], ids[0]]
    assert listed(saver, at("t")) == [ids[0]]
    assert len(listed(stranger, None)) == 1


def test_nobody_elses_thread_is_there(saver, stranger):
    config = put(saver, at("t"), {"secret": "alice's"})
    assert stranger.get_tuple(config) is None
    assert listed(stranger, at("t")) == []
    stranger.delete_thread("t")
    stranger.prune(["t"], strategy="delete")
    assert values_of(saver, config) == {"secret": "alice's"}


def test_an_id_in_the_configuration_lists_that_one_and_before_lists_older_ones(saver):
    ids = [id_of(config) for config in chain(saver, "t", [{"a": n} for n in range(4)])]
    assert listed(saver, at("t", ids[1])) == [ids[1]]
    assert listed(saver, at("t"), before=at("t", ids[2])) == [ids[1], ids[0]]
    assert listed(saver, at("t"), before=at("t", ids[2]), limit=1) == [ids[1]]
    assert listed(saver, at("t"), limit=0) == []
    assert listed(saver, at("t"), limit=-1) == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param({"flag": True}, ["true"], id="True is not 1"),
        pytest.param({"flag": 1}, ["one"], id="1 is not True"),
        pytest.param({"flag": None}, [], id="None is not absent"),
        pytest.param({"a.b": 1}, [], id="a dot is no path"),
        pytest.param({"nested": {"b": 1}}, ["nested"], id="a dictionary is equal as a whole"),
        pytest.param({"nested": {}}, [], id="not in part"),
        pytest.param({"x') OR '1'='1": "d"}, [], id="nothing is a query"),
        pytest.param({"tenant_id": "acme"}, [], id="an unknown name does not widen"),
        pytest.param({}, ["true", "one", "nested"], id="an empty filter is none"),
    ],
)
def test_a_filter_never_widens(saver, wanted, found):
    given = {"true": {"flag": True}, "one": {"flag": 1}, "nested": {"a": {"b": 1}, "nested": {"b": 1}}}
    names = {id_of(put(saver, at("t"), None, metadata)): name for name, metadata in given.items()}
    assert sorted(names[one] for one in listed(saver, at("t"), filter=wanted)) == sorted(found)


def test_a_filter_or_a_before_that_says_nothing_finds_nothing(saver):
    put(saver, at("t"))
    for bad in ([("step", 0)], {1: 0}, "step"):
        with pytest.raises(InvalidInput):
            listed(saver, at("t"), filter=bad)
    assert listed(saver, at("t"), before=at("t")) == []


def test_whoever_lists_may_read_write_and_delete_meanwhile(saver):
    chain(saver, "t", [{"a": n} for n in range(5)])
    seen = []
    for found in saver.list(at("t")):
        seen.append(values_of(saver, found.config)["a"])
        put(saver, found.config, {"a": "more"})
    assert seen == [4, 3, 2, 1, 0]

    async def paused():
        going = saver.alist(at("t"))
        await anext(going)
        await asyncio.wait_for(saver.aput(at("t"), checkpoint(), {"source": "loop", "step": 1}, {}), 20)
        await saver.adelete_thread("t")
        return [one async for one in going]

    assert len(asyncio.run(paused())) == 9


def test_what_is_read_is_the_readers_own(saver):
    given = {"list": [{"a": [1]}], "dict": {"a": {"b": 1}}}
    config = put(saver, at("t"), given)
    for _ in range(2):
        found = saver.get_tuple(config)
        assert found.checkpoint["channel_values"] == given
        found.checkpoint["channel_values"]["list"][0]["a"].append(2)
        found.checkpoint["channel_values"]["dict"]["a"]["b"] = 2
        found.checkpoint["channel_versions"]["list"] = 9
        found.metadata["source"] = "forged"
    assert saver.get_tuple(config).metadata["source"] == "loop"


# ----------------------------------------------------------------------------------- threads by name

COMPOSED, DECOMPOSED = "caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9")
NAMES = ["a:b", "a/b", "A:b", "a:b ", "a", "", "\x00", "a\x00b", "%", "*", COMPOSED, DECOMPOSED, "t" * 5_000]


def test_thread_ids_do_not_alias(saver):
    for name in NAMES:
        put(saver, at(name), {"name": name})
    assert [values_of(saver, at(name)) for name in NAMES] == [{"name": name} for name in NAMES]
    saver.delete_thread("a:b")
    gone = [name for name in NAMES if saver.get_tuple(at(name)) is None]
    assert gone == ["a:b"]
    assert {found.config["configurable"]["thread_id"] for found in saver.list(None)} == set(NAMES) - {"a:b"}


def test_a_number_names_the_thread_of_its_digits_and_nothing_else_names_one(saver):
    config = put(saver, at(7), {"a": 1})
    assert config["configurable"]["thread_id"] == "7"
    assert values_of(saver, at("7")) == values_of(saver, at(7)) == {"a": 1}
    for bad in ({"$ne": None}, True, None, b"7", ["7"]):
        with pytest.raises(InvalidInput):
            saver.get_tuple({"configurable": {"thread_id": bad}})
    with pytest.raises(InvalidInput):
        saver.get_tuple({})
    with pytest.raises(InvalidInput):
        put(saver, {"configurable": {"thread_id": "t", "checkpoint_ns": 1}})


# --------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("a\x00b", id="NUL"),
        pytest.param("\U0001f600" * 100, id="astral"),
        pytest.param(math.inf, id="infinity"),
        pytest.param(2**64 - 1, id="64 bits"),
        pytest.param(b"\x00\xff" * 50, id="bytes"),
        pytest.param(None, id="None"),
        pytest.param([], id="empty list"),
        pytest.param({}, id="empty dict"),
        pytest.param([None, True, 1, 1.0, "", [], {}], id="list of all kinds"),
        pytest.param({"a": {"b": {"c": {"d": [1, {"e": 2}]}}}}, id="nested"),
        pytest.param({1: "a", (2, 3): "b"}, id="keys that are no text"),
        pytest.param({"": "", "\x00": 1}, id="odd keys"),
        pytest.param([{"role": "user", "content": "x" * 2_000}] * 3, id="repeats"),
        pytest.param({1, 2}, id="set"),
        pytest.param([Send("node", {"a": [1]})], id="packets"),
        pytest.param([HumanMessage("hello", id="1"), AIMessage([{"type": "text", "text": "hi"}])], id="talk"),
        pytest.param([ToolMessage("42" * 200, tool_call_id="c", artifact={"rows": [1]})], id="tool result"),
        pytest.param([RemoveMessage(id="1")], id="removal"),
        pytest.param({"text": "x" * 3_000_000, "bytes": bytes(range(256)) * 8_000}, id="megabytes"),
    ],
)
def test_a_value_comes_back_as_it_was(saver, alice, value):
    config = put(saver, at("t"), {"channel": value})
    saver.put_writes(config, [("channel", value)], "task")
    for reader in (saver, VaultSaver(alice)):
        found = reader.get_tuple(config)
        assert found.checkpoint["channel_values"] == {"channel": value}
        assert found.pending_writes == [("task", "channel", value)]
        assert type(found.checkpoint["channel_values"]["channel"]) is type(value)


def test_what_the_serializer_changes_is_changed(saver):
    """It is LangGraph's own, so what it does to a value is the same as with every checkpointer."""
    config = put(saver, at("t"), {"tuple": (1, 2), "nan": math.nan, "surrogate": "a\ud800"})
    found = values_of(saver, config)
    assert found["tuple"] == [1, 2]
    assert math.isnan(found["nan"])
    assert found["surrogate"] == "a?"


@pytest.mark.parametrize(
    "value", [2**64, [2**70], {"a": {"b": 2**64}}, object(), [object()], {"a": lambda: 1}, open]
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_stored(saver, value):
    first = put(saver, at("t"), {"a": 1})
    made = checkpoint({"a": 1, "b": value})
    with pytest.raises(InvalidInput) as refused:
        saver.put(first, made, {"source": "loop", "step": 1}, {"b": 1})
    assert "object at" not in str(refused.value)
    with pytest.raises(InvalidInput):
        saver.put_writes(first, [("a", 1), ("b", value)], "task")
    assert listed(saver, at("t")) == [id_of(first)]
    assert pending(saver, first) == []


def test_a_change_in_place_is_seen(saver, alice):
    message = AIMessage(
        "draft", id="1", usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    )
    state = {
        "list": [message, {"n": 1}, {"deep": [{"n": 0.0}]}],
        "numbers": [1, 0.0],
        "dict": {"a": [1], "b": {"n": 1}},
    }
    configs = [put(saver, at("t"), state)]
    expected = [values_of(saver, configs[0])]
    changes = [
        lambda: setattr(message, "content", "final"),
        lambda: message.usage_metadata.update(input_tokens=True),
        lambda: state["list"][1].update(n=True),
        lambda: state["numbers"].__setitem__(0, True),
        lambda: state["numbers"].__setitem__(1, -0.0),
        lambda: state["list"][2]["deep"][0].update(n=-0.0),
        lambda: state["dict"]["b"].update(n=1.0),
        lambda: state["dict"].update(a=state["dict"].pop("a")),
        state["list"].reverse,
        lambda: state["list"].pop(0),
    ]
    for change in changes:
        change()
        configs.append(put(saver, configs[-1], state))
        plain = JsonPlusSerializer(allowed_msgpack_modules=None)
        expected.append(plain.loads_typed(plain.dumps_typed(state)))
    for reader in (saver, VaultSaver(alice)):
        assert [repr(values_of(reader, config)) for config in configs] == [repr(one) for one in expected]


def test_a_channel_that_did_not_change_is_the_parents_and_one_that_went_stays_away(saver):
    first = saver.put(at("t"), checkpoint({"a": 1, "b": 2}), {}, {"a": 1, "b": 1})
    partial = checkpoint({"a": 3}, {"a": 2, "b": 1})
    second = saver.put(first, partial, {}, {"a": 2})
    third = saver.put(second, checkpoint({"a": 4}, {"a": 3}), {}, {"a": 3})
    empty = saver.put(third, checkpoint({}, {"a": 4}), {}, {"a": 4})
    found = [values_of(saver, config) for config in (first, second, third, empty)]
    assert found == [{"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 4}, {}]


def test_whoever_answers_a_request_for_access_can_read_what_was_said(saver):
    """D5: what an export of the session shows is text, not an encoding of it."""
    call = {"name": "order", "args": {"article": "tea"}, "id": "c", "type": "tool_call"}
    state = {
        "messages": [HumanMessage("I drink tea."), AIMessage("Noted.", tool_calls=[call])],
        "n": {"a": 1.5},
    }
    config = put(saver, at("t"), state)
    (event,) = saver.session(config).events(types=["langgraph.checkpoint"])
    told = json.loads(event.raw)
    kinds = [one["message"][0] for one in told["values"] if "message" in one]
    assert kinds == ["HumanMessage", "AIMessage"]
    for text in ('{"json":"I drink tea."}', '"article":"tea"', '{"json":1.5}'):
        assert text in event.raw.decode()


def test_two_values_of_one_version_are_two_values(saver):
    first = put(saver, at("t"), {"a": "one"})
    second, third = put(saver, first, {"a": "two"}), put(saver, first, {"a": "three"})
    assert [values_of(saver, config)["a"] for config in (first, second, third)] == ["one", "two", "three"]


def test_a_value_whose_parent_does_not_have_it_is_stored_even_if_it_is_not_said_to_be_new(saver):
    config = saver.put(at("t"), checkpoint({"a": 1}), {}, {})
    child = saver.put(config, checkpoint({"a": 2}, {"a": 2}), {}, {})
    assert [values_of(saver, one) for one in (config, child)] == [{"a": 1}, {"a": 2}]


def test_another_process_folds_the_log_to_the_same(saver, alice):
    state = {"list": [], "dict": {}, "text": "same"}
    config = at("t")
    for turn in range(150):
        state = {
            "list": [*state["list"][turn % 7 == 6 :], {"turn": turn, "text": "x" * 50}],
            "dict": {**state["dict"], f"k{turn % 20}": ["y" * 60, turn]},
            "text": "same",
        }
        made = checkpoint(state, {"list": turn + 1, "dict": turn + 1, "text": 1})
        made["versions_seen"] = {"node": {"list": turn}, "other": {"text": 1}}
        config = saver.put(config, made, {"step": turn}, {"list": turn + 1, "dict": turn + 1})
        saver.put_writes(config, [("list", state["list"][-1:])], f"task-{turn}")
    assert list(VaultSaver(alice).list(at("t"))) == list(saver.list(at("t")))
    assert values_of(saver, config) == state


def test_only_what_was_given_and_the_run_become_metadata(alice):
    config = at("t", openai_api_key="sk-1", user="alice@example.com", run_id="from configurable")
    config["metadata"] = {"password": "hunter2", "run_id": "run-1", "team": "blue", "object": object()}
    found = [
        next(saver.list(put(saver, config))).metadata
        for saver in (VaultSaver(alice), VaultSaver(alice, metadata_keys=["team", "object", "absent"]))
    ]
    assert found[0] == {"source": "loop", "step": 0, "run_id": "run-1"}
    assert found[1] == {"source": "loop", "step": 0, "run_id": "run-1", "team": "blue"}
    assert not EXCLUDED_METADATA_KEYS & found[0].keys()
    given = put(VaultSaver(alice), config, None, {"run_id": "given"})
    assert VaultSaver(alice).get_tuple(given).metadata["run_id"] == "given"


def test_versions_go_on_as_they_began(saver):
    assert saver.get_next_version(None, None) == 1
    assert saver.get_next_version(1, None) == 2
    assert saver.get_next_version(1.5, None) == 2.5
    text = saver.get_next_version("00000000000000000000000000000009.0.123", None)
    assert text.startswith("00000000000000000000000000000010.")
    assert text > "00000000000000000000000000000009.0.999"


# -------------------------------------------------------------------------------------------- deleting


def test_a_deleted_thread_is_not_there_and_takes_no_late_write(saver, alice):
    config = put(saver, at("t"), {"a": 1})
    saver.delete_thread("t")
    for late in (saver, VaultSaver(alice)):
        with pytest.raises(Erased):
            put(late, config, {"a": 2})
        with pytest.raises(Erased):
            late.put_writes(config, [("a", 2)], "task")
        with pytest.raises(Erased):
            late.session(config)
        assert late.get_tuple(config) is None
        assert listed(late, at("t")) == listed(late, None) == []
        late.delete_thread("t")


def test_a_thread_that_another_saver_deleted_takes_no_late_write(saver, alice):
    other = VaultSaver(alice)
    config = put(saver, at("t"), {"a": 1})
    other.delete_thread("t")
    with pytest.raises(Erased):
        put(saver, config, {"a": 2})
    with pytest.raises(Erased):
        saver.put_writes(config, [("a", 2)], "task")
    assert saver.get_tuple(config) is None


def test_a_thread_begins_anew_under_the_id_of_a_deleted_one_only_on_purpose(alice):
    saver = VaultSaver(alice, reuse_erased=True)
    put(saver, at("t"), {"a": "old"})
    saver.delete_thread("t")
    assert saver.get_tuple(at("t")) is None
    put(saver, at("t"), {"a": "new"})
    assert [found.checkpoint["channel_values"] for found in saver.list(None)] == [{"a": "new"}]


def test_deleting_in_a_fresh_vault_is_no_error(saver):
    asyncio.run(saver.adelete_thread("never"))
    saver.delete_thread("never")
    put(saver, at("never"), {"a": 1})
    assert values_of(saver, at("never")) == {"a": 1}


# ------------------------------------------------------------------------------- several at a time


def test_threads_of_one_process_write_to_one_thread_at_once(saver, alice):
    root = put(saver, at("t"), {"a": 0})

    def work(number):
        saver.put_writes(root, [("a", number)], f"task-{number:02}")
        config = put(saver, root, {"a": number, "big": "x" * 10_000})
        return values_of(saver, config)["a"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(24))) == list(range(24))
    for reader in (saver, VaultSaver(alice)):
        assert [value for *_, value in pending(reader, root)] == list(range(24))
        assert len(listed(reader, at("t"))) == 25


def test_threads_of_one_process_begin_one_thread_at_once(saver, alice):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: put(saver, at("new"), {"a": number}), range(16)))
    assert len(listed(VaultSaver(alice), at("new"))) == 16
    assert len(list(alice.sessions.find(labels={"framework": "langgraph"}).items)) == 1


def test_two_savers_see_each_others_writes_at_once(alice):
    one, other = VaultSaver(alice), VaultSaver(alice)
    config = at("t")
    for turn in range(10):
        writer, reader = (one, other) if turn % 2 else (other, one)
        config = put(writer, config, {"turns": list(range(turn))})
        assert values_of(reader, at("t")) == {"turns": list(range(turn))}
    assert listed(one, at("t")) == listed(other, at("t"))


def test_tasks_write_at_once(saver):
    async def work():
        root = await saver.aput(at("t"), checkpoint({"a": 0}), {}, {"a": 1})
        async with asyncio.TaskGroup() as group:
            for number in range(12):
                group.create_task(saver.aput_writes(root, [("a", number)], f"task-{number:02}"))
        found = await saver.aget_tuple(root)
        return [value for *_, value in found.pending_writes], [one async for one in saver.alist(at("t"))]

    written, found = asyncio.run(work())
    assert written == list(range(12))
    assert len(found) == 1


@pytest.mark.parametrize("limit", ["_THREADS_MAX", "_BYTES_MAX"])
def test_threads_that_are_not_held_in_memory_any_more_are_read_again(saver, monkeypatch, limit):
    monkeypatch.setattr(langgraph_log, limit, 2)
    configs = {name: put(saver, at(name), {"a": name * 100}) for name in "abcd"}
    for name in "abcdabcd":
        configs[name] = put(saver, configs[name], {"a": name * 100, "b": [name]})
    assert len(saver._threads._known) <= 2
    assert [values_of(saver, configs[name])["b"] for name in "abcd"] == [["a"], ["b"], ["c"], ["d"]]
    assert len(listed(saver, None)) == 12


def test_a_copy_of_the_saver_that_knows_more_classes_shares_the_threads(saver):
    wider = saver.with_allowlist({("tests.adapters.test_langgraph_saver", "Anything")})
    assert wider is not saver
    config = put(wider, at("t"), {"a": 1})
    assert values_of(saver, config) == {"a": 1}
