"""The checkpointer against LangGraph's own in memory, over random histories of two threads (A1)."""

import contextlib
import random

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from tests.adapters.langgraph_case import at, checkpoint, id_of
from vault.adapters.langgraph import VaultSaver

SPECIAL = ["__error__", "__interrupt__", "__resume__", "__scheduled__"]


class Histories:
    """The same history in both, made of random steps."""

    def __init__(self, alice, seed):
        self.random = random.Random(seed)
        self.alice = alice
        self.savers = [VaultSaver(alice), VaultSaver(alice)]
        self.model = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self.states = {}
        self.version = 0

    def item(self):
        number = self.random.randrange(6)
        return self.random.choice(
            [
                number,
                f"text {number}" * 20,
                {"n": number, "deep": [f"{number}" * 40]},
                HumanMessage(f"said {number}" * 10, id=str(number)),
                AIMessage(f"answered {number}", id=None, additional_kwargs={"n": number}),
            ]
        )

    def changed(self, value):
        """A list or dictionary as a node would leave it."""
        pick = self.random.random()
        if isinstance(value, dict):
            kept = {key: one for key, one in value.items() if self.random.random() > 0.2}
            return {**kept, f"k{self.random.randrange(4)}": self.item()}
        if pick < 0.6:
            return [*value, self.item()]
        if pick < 0.75:
            return value[self.random.randrange(3) :]
        if pick < 0.9 and value:
            place = self.random.randrange(len(value))
            return [*value[:place], self.item(), *value[place + 1 :]]
        return [self.item() for _ in range(self.random.randrange(3))]

    def put(self):
        thread, ns = self.random.choice(["t", "u"]), self.random.choice(["", "child:1"])
        parents = [None, *(key for key in self.states if key[:2] == (thread, ns))]
        parent = self.random.choice(parents[-4:])
        values, versions = self.states.get(parent, ({"list": [], "dict": {}, "one": 0}, {}))
        self.version += 1
        names = [name for name in values if parent is None or self.random.random() < 0.5]
        fresh = {name: self.changed(values[name]) if name != "one" else self.item() for name in names}
        values, new = {**values, **fresh}, dict.fromkeys(names, self.version)
        made = checkpoint(values, {**versions, **new})
        made["versions_seen"] = {f"node {self.random.randrange(2)}": new}
        metadata = {"source": "loop", "step": self.version, "run_id": f"run-{self.random.randrange(3)}"}
        config = at(thread, parent and parent[2], ns)
        for saver in (self.random.choice(self.savers), self.model):
            placed = saver.put(config, made, metadata, new)
        self.states[thread, ns, id_of(placed)] = (values, made["channel_versions"])

    def put_writes(self):
        if not self.states:
            return
        thread, ns, one = self.random.choice(list(self.states))
        writes = [(self.random.choice([*SPECIAL, "list", "dict"]), self.item()) for _ in range(3)]
        task = f"task-{self.random.randrange(3)}"
        for saver in (self.random.choice(self.savers), self.model):
            saver.put_writes(at(thread, one, ns), writes, task, f"path-{task[-1]}")

    def prune(self):
        thread = self.random.choice(["t", "u"])
        self.random.choice(self.savers).prune([thread])
        self.prune_model(thread)

    def prune_model(self, thread):
        kept = {
            ns: max(ones)
            for ns in ("", "child:1")
            if (ones := [k[2] for k in self.states if k[:2] == (thread, ns)])
        }
        self.forget(lambda key, _: key[0] == thread and key[2] != kept[key[1]])

    def delete_for_runs(self):
        run = f"run-{self.random.randrange(3)}"
        self.random.choice(self.savers).delete_for_runs([run])
        self.forget(lambda _, found: found.metadata["run_id"] == run)

    def copy(self):
        """Into a third thread, which may have a part of it from before."""
        self.random.choice(self.savers).copy_thread("t", "copy")
        for ns, ones in self.model.storage["t"].items():
            self.model.storage["copy"][ns].update(ones)
        for (thread, *rest), packed in list(self.model.blobs.items()):
            if thread == "t":
                self.model.blobs["copy", *rest] = packed
        for (thread, *rest), writes in list(self.model.writes.items()):
            if thread == "t":
                known = self.model.writes["copy", *rest]
                known.update(
                    {place: one for place, one in writes.items() if place[1] < 0 or place not in known}
                )

    def interrupted(self):
        """A removal whose process dies before the bytes are taken out."""
        saver = self.random.choice(self.savers)
        session = type(saver.session(at("t")))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session, "retract", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
            with contextlib.suppress(KeyboardInterrupt):
                saver.prune(["u"])
        self.prune_model("u")

    def forget(self, goes):
        """Take what goes out of the model; what is left has no parent that is gone."""
        spaces = [(thread, ns) for thread, known in self.model.storage.items() for ns in known]
        every = [(*space, one) for space in spaces for one in self.model.storage[space[0]][space[1]]]
        gone = {key for key in every if goes(key, self.model.get_tuple(at(key[0], key[2], key[1])))}
        for thread, ns, one in gone:
            del self.model.storage[thread][ns][one]
            self.states.pop((thread, ns, one), None)
            self.model.writes.pop((thread, ns, one), None)
        for thread, spaces in self.model.storage.items():
            for ns, ones in spaces.items():
                for one, (packed, metadata, parent) in ones.items():
                    if (thread, ns, parent) in gone:
                        ones[one] = (packed, metadata, None)

    def told(self, saver):
        found = [
            (one.config, one.parent_config, one.checkpoint, one.metadata, one.pending_writes)
            for one in saver.list(None)
        ]
        return sorted(found, key=lambda one: (one[0]["configurable"]["thread_id"], one[2]["id"]))


@pytest.mark.parametrize("seed", range(20))
def test_every_history_reads_as_in_memory_in_each_process_that_looks(alice, seed):
    """Two savers write in turns, as two processes would; a third one reads the log from its beginning."""
    made = Histories(alice, seed)
    steps = (
        [made.put] * 8
        + [made.put_writes] * 4
        + [made.prune, made.delete_for_runs, made.copy, made.interrupted]
    )
    for turn in range(60):
        made.random.choice(steps)()
        if turn % 10 == 9:
            expected = made.told(made.model)
            for saver in (*made.savers, VaultSaver(alice)):
                assert made.told(saver) == expected
