"""LangGraph's own suite for checkpointers, and what it expects of delta channels (A1, A2)."""

import asyncio

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from tests.adapters.langgraph_case import at, checkpoint
from vault import Vault
from vault.adapters.langgraph import VaultSaver

TESTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


def test_all_81_tests_of_the_suite_pass_with_all_eight_capabilities(tmp_path, principal):
    """A1"""

    @checkpointer_test(name="vault")
    async def fresh():
        count = len(list(tmp_path.glob("vault-*")))
        with Vault.create(tmp_path / f"vault-{count}", settings={"synchronous": "NORMAL"}) as vault:
            yield VaultSaver(vault.access(principal()))

    report = asyncio.run(validate(fresh))
    failures = [failure for result in report.results.values() for failure in result.failures or ()]
    assert failures == []
    assert all(result.detected and result.passed for result in report.results.values())
    assert {name: result.tests_passed for name, result in report.results.items()} == TESTS


# ------------------------------------------------------------------- the history of a delta channel

SYNC = pytest.param(False, id="sync")
ASYNC = pytest.param(True, id="async")
both_ways = pytest.mark.parametrize("is_async", [SYNC, ASYNC])


@pytest.fixture
def saver(alice):
    return VaultSaver(alice)


def history(saver, config, channels, is_async):
    if is_async:
        return asyncio.run(saver.aget_delta_channel_history(config=config, channels=channels))
    return saver.get_delta_channel_history(config=config, channels=channels)


_versions = iter(range(1, 1_000_000))


def step(saver, config, values=None, writes=(), channels=("log",), task="task", path=""):
    """A checkpoint with a new version of each channel and the values of some, and what its tasks wrote."""
    versions = dict.fromkeys(channels, next(_versions))
    made = checkpoint(values, versions)
    placed = saver.put(config, made, {"source": "loop", "step": 0}, versions)
    if writes:
        saver.put_writes(placed, list(writes), task, path)
    return placed


@both_ways
def test_a_history_is_overridden_and_agrees_with_the_slow_one_of_the_base_class(saver, is_async):
    name = "aget_delta_channel_history" if is_async else "get_delta_channel_history"
    assert getattr(VaultSaver, name) is not getattr(BaseCheckpointSaver, name)
    first = step(saver, at("t"), {"log": _DeltaSnapshot(["seed"])}, [("log", "a"), ("other", "x")])
    second = step(saver, first, writes=[("log", "b"), ("log", "c")])
    third = step(saver, second, writes=[("log", "not yet")])
    told = history(saver, third, ["log", "other"], is_async)
    assert told == BaseCheckpointSaver.get_delta_channel_history(
        saver, config=third, channels=["log", "other"]
    )


@both_ways
def test_no_channels_have_no_history(saver, is_async):
    assert history(saver, at("t"), [], is_async) == {}


@both_ways
def test_writes_come_oldest_first_and_those_of_the_target_do_not_count(saver, is_async):
    first = step(saver, at("t"), writes=[("log", 1), ("log", 2)])
    second = step(saver, first, writes=[("log", 3)])
    target = step(saver, second, writes=[("log", 4)])
    told = history(saver, target, ["log"], is_async)["log"]
    assert [value for *_, value in told["writes"]] == [1, 2, 3]
    assert "seed" not in told


@both_ways
def test_the_walk_ends_at_the_nearest_stored_value_and_takes_the_writes_there(saver, is_async):
    first = step(saver, at("t"), {"log": _DeltaSnapshot(["old"])}, [("log", "too old")])
    second = step(saver, first, {"log": _DeltaSnapshot(["seed"])}, [("log", "a")])
    third = step(saver, second, writes=[("log", "b")])
    target = step(saver, third)
    told = history(saver, target, ["log"], is_async)["log"]
    assert told["seed"] == _DeltaSnapshot(["seed"])
    assert [value for *_, value in told["writes"]] == ["a", "b"]


@both_ways
def test_a_plain_value_from_before_the_channel_was_a_delta_is_a_seed(saver, is_async):
    first = step(saver, at("t"), {"log": ["plain"]})
    second = step(saver, first, writes=[("log", "a")])
    target = step(saver, second)
    told = history(saver, target, ["log"], is_async)["log"]
    assert told["seed"] == ["plain"]
    assert [value for *_, value in told["writes"]] == ["a"]


@both_ways
def test_each_channel_ends_at_its_own_value(saver, is_async):
    names = ("one", "two", "three")
    first = step(saver, at("t"), {"one": ["1"], "two": ["2"]}, [("one", "x"), ("two", "x")], names)
    second = step(saver, first, {"two": ["22"]}, [("one", "y"), ("two", "y"), ("three", "y")], names)
    target = step(saver, second, channels=names)
    told = history(saver, target, list(names), is_async)
    assert told["one"]["seed"] == ["1"]
    assert [value for *_, value in told["one"]["writes"]] == ["x", "y"]
    assert told["two"] == {"seed": ["22"], "writes": [("task", "two", "y")]}
    assert told["three"] == {"writes": [("task", "three", "y")]}


@both_ways
def test_only_the_branch_of_the_target_contributes(saver, is_async):
    root = step(saver, at("t"), writes=[("log", "root")])
    left = step(saver, root, writes=[("log", "left")])
    right = step(saver, root, writes=[("log", "right")])
    tips = [step(saver, side) for side in (left, right)]
    told = [history(saver, tip, ["log"], is_async)["log"]["writes"] for tip in tips]
    assert [[value for *_, value in writes] for writes in told] == [["root", "left"], ["root", "right"]]


@both_ways
def test_the_writes_of_parallel_tasks_come_in_the_order_of_a_live_run(saver, is_async):
    first = step(saver, at("t"))
    saver.put_writes(first, [("log", "late")], "task-a", "~__pregel_pull, b")
    saver.put_writes(first, [("log", "early"), ("log", "early too")], "task-z", "~__pregel_pull, a")
    saver.put_writes(first, [("log", "input")], "task-m")
    target = step(saver, first)
    told = history(saver, target, ["log"], is_async)["log"]["writes"]
    assert [value for *_, value in told] == ["input", "early", "early too", "late"]


@both_ways
def test_without_an_id_the_latest_checkpoint_is_meant_and_of_nothing_there_is_no_history(saver, is_async):
    first = step(saver, at("t"), writes=[("log", 1)])
    latest = step(saver, first)
    assert history(saver, at("t"), ["log"], is_async) == history(saver, latest, ["log"], is_async)
    unknown = at("t", "00000000-0000-6000-8000-000000000000")
    for config in (at("nobody"), unknown):
        assert history(saver, config, ["log"], is_async) == {"log": {"writes": []}}
