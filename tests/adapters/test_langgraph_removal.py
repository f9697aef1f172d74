"""Taking checkpoints out of a thread that lives on: what goes is gone, what stays is whole (A1, D4)."""

import asyncio
import operator
from typing import Annotated, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite

from tests.adapters.langgraph_case import at, chain, id_of, listed, put, talking, values_of
from vault.adapters.langgraph import VaultSaver
from vault.adapters.langgraph_log import DROPPED
from vault.errors import Conflict, Erased, InvalidInput

BIG = "long enough to be a chunk of its own, number {}"


@pytest.fixture
def saver(alice):
    return VaultSaver(alice)


def growing(count):
    return [
        {"list": [BIG.format(n) for n in range(turn + 1)], "same": BIG.format("same")}
        for turn in range(count)
    ]


def everything(saver, thread):
    return [
        (found.config, found.checkpoint, found.pending_writes) for found in saver.list(at(thread, ns=None))
    ]


# --------------------------------------------------------------------------------------------- prune


def test_the_latest_of_each_namespace_stays_whole_with_its_writes_and_without_a_parent(saver, alice):
    states = growing(12)
    root, child = chain(saver, "t", states), chain(saver, "t", states[:4], ns="child:1")
    for config in (root[3], root[-1]):
        saver.put_writes(config, [("list", [BIG.format("written"), BIG.format(3)])], "task")
    saver.prune(["t"])
    for reader in (saver, VaultSaver(alice)):
        found = list(reader.list(at("t", ns=None)))
        assert [one.config for one in found] == sorted([root[-1], child[-1]], key=id_of, reverse=True)
        assert values_of(reader, root[-1]) == states[-1]
        assert values_of(reader, child[-1]) == states[3]
        assert [one.parent_config for one in found] == [None, None]
        assert reader.get_tuple(root[-1]).pending_writes == [
            ("task", "list", [BIG.format("written"), BIG.format(3)])
        ]
        assert reader.get_tuple(root[0]) is None


def test_a_thread_goes_on_after_it_was_pruned(saver, alice):
    configs = chain(saver, "t", growing(5))
    saver.prune(["t"])
    states = growing(9)[5:]
    for state in states:
        configs.append(put(saver, configs[-1], state))
    for reader in (saver, VaultSaver(alice)):
        assert [values_of(reader, config) for config in configs[5:]] == states
    saver.prune(["t"])
    assert [found.config for found in VaultSaver(alice).list(at("t"))] == [configs[-1]]


def test_pruned_twice_it_is_the_same_and_writes_nothing(saver):
    chain(saver, "t", growing(3))
    saver.prune(["t"])
    before, events = everything(saver, "t"), saver.session(at("t")).info().event_count
    saver.prune(["t"])
    assert everything(saver, "t") == before
    assert saver.session(at("t")).info().event_count == events


def test_a_fork_of_an_old_checkpoint_is_pruned_as_well(saver):
    configs = chain(saver, "t", growing(4))
    fork = put(saver, configs[1], {"list": ["fork"]})
    saver.prune(["t"])
    assert listed(saver, at("t")) == [id_of(fork)]


def test_the_strategy_delete_leaves_a_thread_that_can_be_gone_on_with(saver, alice):
    root = chain(saver, "t", growing(3))
    saver.put_writes(at("t", "of no checkpoint"), [("a", 1)], "task")
    asyncio.run(saver.aprune(["t", "never"], strategy="delete"))
    assert listed(saver, at("t", ns=None)) == []
    assert not [event for event in saver.session(at("t")).events() if event.raw and event.type != DROPPED]
    put(saver, at("t"), {"a": 1})
    assert values_of(VaultSaver(alice), at("t")) == {"a": 1}
    assert saver.get_tuple(root[0]) is None


def test_what_is_asked_wrongly_is_refused_before_anything_goes(saver):
    chain(saver, "t", growing(2))
    for strategy in ("keep_all", "", None):
        with pytest.raises(ValueError, match="strategies"):
            saver.prune(["t"], strategy=strategy)
    with pytest.raises(TypeError):
        saver.prune("t")
    with pytest.raises(TypeError):
        saver.delete_for_runs("t")
    with pytest.raises(InvalidInput):
        saver.prune([None])
    assert len(listed(saver, at("t"))) == 2


def test_a_deleted_thread_is_nothing_to_prune(saver):
    put(saver, at("t"))
    saver.delete_thread("t")
    saver.prune(["t"])
    saver.prune(["t"], strategy="delete")


def test_under_a_hold_nothing_goes_but_out_of_sight_and_the_next_time_finishes_it(saver, officer):
    chain(saver, "t", [{"a": BIG.format("held")}, {"a": 2}])
    session = saver.session(at("t"))
    hold = officer.holds.place(session=session.id, reason="a court asked")
    with pytest.raises(Conflict):
        saver.prune(["t"])
    assert listed(saver, at("t")) == [id_of(saver.get_tuple(at("t")).config)]
    assert any(BIG.format("held").encode() in (event.raw or b"") for event in session.events())
    officer.holds.lift(hold.id, reason="over")
    saver.prune(["t"])
    assert not any(BIG.format("held").encode() in (event.raw or b"") for event in session.events())


# ------------------------------------------------------------------------------------ delta channels


class Log(TypedDict, total=False):
    log: Annotated[list, DeltaChannel(lambda state, writes: [*state, *(one for w in writes for one in w)])]
    turns: Annotated[list, operator.add]


def logging(saver, name="node"):
    def node(state):
        return {"log": [f"did {len(state['log'])}"], "turns": [1]}

    graph = StateGraph(Log).add_node(name, node).add_edge(START, name).add_edge(name, END)
    return graph.compile(checkpointer=saver)


def test_a_pruned_thread_keeps_the_state_of_its_delta_channels(saver, alice):
    graph = logging(saver)
    for turn in range(4):
        graph.invoke({"log": [f"asked {turn}"]}, at("t", ns=None))
    before = graph.get_state(at("t", ns=None)).values
    assert len(before["log"]) == 8
    saver.prune(["t"])
    for reader in (saver, VaultSaver(alice)):
        assert logging(reader).get_state(at("t", ns=None)).values == before
    after = logging(VaultSaver(alice)).invoke({"log": ["asked on"]}, at("t", ns=None))
    assert after["log"] == [*before["log"], "asked on", "did 9"]


def test_what_is_older_than_a_snapshot_goes(saver):
    graph = logging(saver)
    for turn in range(3):
        graph.invoke({"log": [f"asked {turn}"]}, at("t", ns=None))
    graph.update_state(at("t", ns=None), {"log": Overwrite(["snapshot"])}, as_node="node")
    before, count = graph.get_state(at("t", ns=None)).values, len(listed(saver, at("t")))
    saver.prune(["t"])
    assert graph.get_state(at("t", ns=None)).values == before
    assert len(listed(saver, at("t"))) == 1 < count


# --------------------------------------------------------------------------------------------- runs


def test_the_runs_named_go_from_all_threads_and_namespaces_and_all_else_stays(saver, alice):
    kept = {}
    for thread, ns in (("t", ""), ("t", "child:1"), ("u", "")):
        config = at(thread, ns=ns)
        for turn, state in enumerate(growing(9)):
            run = f"run-{turn % 3}"
            config = put(saver, config, state, {"run_id": run})
            saver.put_writes(config, [("list", [BIG.format(f"written by {run}")])], "task")
            if run != "run-1":
                kept[thread, ns, id_of(config)] = state
    saver.delete_for_runs(["run-1", "never"])
    for reader in (saver, VaultSaver(alice)):
        found = {
            (
                *(one.config["configurable"][key] for key in ("thread_id", "checkpoint_ns")),
                one.checkpoint["id"],
            ): one
            for one in reader.list(None)
        }
        assert {key: one.checkpoint["channel_values"] for key, one in found.items()} == kept
        assert all(len(one.pending_writes) == 1 for one in found.values())
        parents = [one.parent_config for one in found.values() if one.parent_config]
        assert all(reader.get_tuple(parent) is not None for parent in parents)


def test_the_first_run_can_go_and_those_after_it_are_written_anew_from_one_another(saver, alice):
    states, config, kept = growing(60), at("t"), []
    for turn, state in enumerate(states):
        config = put(saver, config, state, {"run_id": "first" if turn == 0 else "later"})
        kept.append(config)
    saver.delete_for_runs(["first"])
    reader = VaultSaver(alice)
    assert [values_of(reader, one) for one in kept] == [None, *states[1:]]


def test_a_run_that_a_delta_channel_still_needs_is_refused_and_nothing_goes(saver):
    graph = logging(saver)
    for turn in range(3):
        graph.invoke({"log": [f"asked {turn}"]}, {**at("t", ns=None), "metadata": {"run_id": f"run-{turn}"}})
    before = everything(saver, "t")
    with pytest.raises(Conflict):
        saver.delete_for_runs(["run-1"])
    assert everything(saver, "t") == before
    saver.delete_for_runs(["run-2", "run-1"])
    assert graph.get_state(at("t", ns=None)).values["log"] == ["asked 0", "did 1"]


def test_a_real_run_is_found_by_its_id(saver):
    graph = talking(saver)
    for run in ("run-1", "run-2"):
        graph.invoke({"messages": [("user", run)]}, {**at("t", ns=None), "metadata": {"run_id": run}})
    asyncio.run(saver.adelete_for_runs(["run-2"]))
    assert {found.metadata["run_id"] for found in saver.list(None)} == {"run-1"}
    assert len(graph.get_state(at("t", ns=None)).values["messages"]) == 2
    saver.delete_for_runs([])
    assert listed(saver, None)


# --------------------------------------------------------------------------------------------- copies


def test_a_copy_has_everything_and_is_a_thread_of_its_own(saver, alice):
    configs = chain(saver, "t", growing(30))
    chain(saver, "t", growing(3), ns="child:1")
    saver.put_writes(configs[3], [("list", [BIG.format("w")]), ("__resume__", "yes")], "task", "path")
    put(saver, configs[4], {"list": ["fork"]})
    put(saver, configs[7], {"list": ["again"]})
    saver.copy_thread("t", "copy")

    def told(reader, thread):
        return [
            (one.checkpoint, one.metadata, one.pending_writes, one.parent_config and id_of(one.parent_config))
            for one in reader.list(at(thread, ns=None))
        ]

    before = told(saver, "t")
    assert told(saver, "copy") == told(VaultSaver(alice), "copy") == before
    put(saver, at("copy", id_of(configs[-1])), {"list": ["only in the copy"]})
    saver.delete_thread("copy")
    assert told(saver, "t") == before
    with pytest.raises(Erased):
        saver.copy_thread("t", "copy")


def test_a_thread_is_not_copied_into_itself_and_nothing_is_copied_from_nothing(saver, alice):
    chain(saver, "t", growing(2))
    with pytest.raises(InvalidInput):
        saver.copy_thread("t", "t")
    saver.copy_thread("never", "copy")
    assert listed(saver, at("copy")) == []
    saver.delete_thread("t")
    asyncio.run(saver.acopy_thread("t", "copy"))
    assert listed(saver, at("copy")) == []


def test_a_copy_into_a_thread_that_is_there_adds_to_it(saver, alice):
    chain(saver, "t", growing(3))
    own = put(saver, at("u"), {"list": ["own"]})
    saver.copy_thread("t", "u")
    saver.copy_thread("t", "u")
    for reader in (saver, VaultSaver(alice)):
        assert len(listed(reader, at("u"))) == 4
        assert values_of(reader, own) == {"list": ["own"]}


def test_a_write_that_is_copied_to_where_one_is_takes_no_place(saver, alice):
    config = put(saver, at("t"))
    here = at("u", id_of(config))
    saver.put_writes(here, [("a", "first")], "task")
    saver.put_writes(config, [("a", "second"), ("b", 1)], "task")
    saver.copy_thread("t", "u")
    for reader in (saver, VaultSaver(alice)):
        assert reader.get_tuple(here).pending_writes == [("task", "a", "first"), ("task", "b", 1)]


def test_a_copy_of_a_delta_channel_can_be_gone_on_with(saver, alice):
    graph = logging(saver)
    for turn in range(3):
        graph.invoke({"log": [f"asked {turn}"]}, at("t", ns=None))
    saver.copy_thread("t", "copy")
    state = logging(VaultSaver(alice)).get_state(at("copy", ns=None)).values
    assert state == graph.get_state(at("t", ns=None)).values


# ------------------------------------------------------------------------------------- interrupted


def test_one_that_was_interrupted_hides_all_that_goes_and_the_next_one_finishes_it(saver, alice, monkeypatch):
    states = growing(6)
    configs = chain(saver, "t", states)
    session = type(saver.session(at("t")))
    with monkeypatch.context() as patch:
        patch.setattr(session, "retract", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            saver.prune(["t"])
    later = put(VaultSaver(alice), configs[-1], {"list": [BIG.format(0)]})
    for reader in (saver, VaultSaver(alice)):
        assert listed(reader, at("t")) == [id_of(later), id_of(configs[-1])]
        assert values_of(reader, configs[-1]) == states[-1]
    saver.prune(["t"])
    assert listed(saver, at("t")) == [id_of(later)]
    left = [event.raw for event in saver.session(at("t")).events() if event.raw]
    assert not any(BIG.format(3).encode() in raw for raw in left)


def test_whoever_writes_while_checkpoints_go_builds_on_what_stays(alice):
    """Two savers as in two processes: one prunes again and again while the other one goes on."""
    one, other = VaultSaver(alice), VaultSaver(alice)
    config, items = at("t"), []
    for turn in range(20):
        items = [*items, BIG.format(turn % 5)]
        config = put(one, config, {"list": items})
        if turn % 3 == 2:
            other.prune(["t"])
        assert values_of(other, config) == {"list": items}
    assert values_of(VaultSaver(alice), at("t")) == {"list": items}
