"""Memories against a plain dict: puts, reads, erasures, two handles, closing (D4; invariant 10)."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from vault import Principal, Vault
from vault.derived.verification import ItemsVerification
from vault.errors import NotFound

PEOPLE = ("alice", "bob")
SPACES = ((), ("users",), ("users", "x"))
KEYS = ("a", "b")
HOW = ("erase_with_any", "recompute", "erase_with_last")


class Items(RuleBasedStateMachine):
    """The model: which sessions live, and each version with sources and rule; what goes follows."""

    sessions = Bundle("sessions")
    items = Bundle("items")

    @initialize()
    def begin(self):
        self.directory = Path(tempfile.mkdtemp())
        os.environ["XDG_STATE_HOME"] = str(self.directory / "state")
        self.vault = Vault.create(self.directory / "vault", settings={"synchronous": "NORMAL"})
        self.other = Vault.open(self.directory / "vault")
        self.live = {}  # session id → owner
        self.versions = {}  # item id → (owner, namespace, key, value, sources, how)
        self.newest = {}  # (owner, namespace, key) → item id
        self.asked = {}  # (owner, namespace, key) → sources of what is to be made again

    def access(self, who, second=False):
        return (self.other if second else self.vault).access(Principal(tenant="acme", subject=who))

    def is_there(self, id_):
        if id_ not in self.versions:
            return id_ in self.live
        sources, how = self.versions[id_][4:]
        return (any if how == "erase_with_last" else all)(self.is_there(one) for one in sources)

    @rule(target=sessions, who=st.sampled_from(PEOPLE))
    def begins(self, who):
        session = self.access(who).sessions.create()
        self.live[session.id] = who
        return session.id

    def put(self, who, namespace, key, sources, how, second):
        value = len(self.versions)
        mine = [one for one in dict.fromkeys(sources) if self.owner(one) == who]
        memories = self.access(who, second).memories
        if not mine or not all(map(self.is_there, mine)):
            if mine:
                with pytest.raises(NotFound):
                    memories.put(namespace, key, value, sources=mine, on_source_erased=how)
            return None
        made = memories.put(namespace, key, value, sources=mine, on_source_erased=how)
        self.versions[made.id] = (who, namespace, key, value, mine, how)
        self.newest[who, namespace, key] = made.id
        self.asked.pop((who, namespace, key), None)
        return made.id

    def owner(self, id_):
        return self.versions[id_][0] if id_ in self.versions else self.live.get(id_)

    @rule(
        target=items,
        namespace=st.sampled_from(SPACES),
        key=st.sampled_from(KEYS),
        sources=st.lists(sessions, min_size=1, max_size=3),
        how=st.sampled_from(HOW),
        second=st.booleans(),
    )
    def puts_from_sessions(self, namespace, key, sources, how, second):
        made = self.put(self.owner(sources[0]) or "alice", namespace, key, sources, how, second)
        return multiple() if made is None else made

    @rule(
        target=items,
        namespace=st.sampled_from(SPACES),
        key=st.sampled_from(KEYS),
        first=items,
        more=st.lists(items, max_size=2),
        how=st.sampled_from(HOW),
        second=st.booleans(),
    )
    def puts_from_items(self, namespace, key, first, more, how, second):
        made = self.put(self.owner(first), namespace, key, [first, *more], how, second)
        return multiple() if made is None else made

    @rule(session=consumes(sessions))
    def erases(self, session):
        if session not in self.live:
            return
        before = set(filter(self.is_there, self.versions))
        self.access(self.live.pop(session)).erasure.erase(session=session)
        for name, sources in list(self.asked.items()):
            if not all(map(self.is_there, sources)):
                del self.asked[name]
        for name, item_id in self.newest.items():
            if item_id in before and not self.is_there(item_id):
                stays = self.stays(item_id, before)
                if stays:
                    self.asked[name] = stays

    def stays(self, item_id, before):
        """What an item that went just now can be made again from."""
        sources, how = self.versions[item_id][4:]
        if how != "recompute" or item_id not in before:
            return set()
        there = {one for one in sources if self.is_there(one)}
        made = [one for one in sources if one in self.versions and one not in there]
        return there.union(*(self.stays(one, before) for one in made))

    @rule(second=st.booleans())
    def is_opened_again(self, second):
        if second:
            self.other.close()
            self.other = Vault.open(self.directory / "vault")
        else:
            self.vault.close()
            self.vault = Vault.open(self.directory / "vault")

    @rule(second=st.booleans(), who=st.sampled_from(PEOPLE))
    def reads_agree(self, second, who):
        memories = self.access(who, second).memories
        expected = {}
        for (owner, namespace, key), item_id in self.newest.items():
            if owner == who and self.is_there(item_id):
                expected[namespace, key] = self.versions[item_id][3]
        assert {(one.namespace, one.key): one.value for one in memories.list()} == expected
        asked = {(one.namespace, one.key): {source.id for source in one.sources} for one in self.stale(who)}
        assert asked == {name[1:]: sources for name, sources in self.asked.items() if name[0] == who}
        for namespace in SPACES:
            below = {
                place: value for place, value in expected.items() if place[0][: len(namespace)] == namespace
            }
            found = memories.search(namespace)
            assert sorted(one.value for one in found) == sorted(below.values())
            for key in KEYS:
                versions = [
                    version[3]
                    for item_id, version in self.versions.items()
                    if version[:3] == (who, namespace, key) and self.is_there(item_id)
                ]
                assert [one.value for one in memories.history(namespace, key)] == versions[::-1]
                if (namespace, key) in expected:
                    assert memories.get(namespace, key).value == expected[namespace, key]
                else:
                    with pytest.raises(NotFound):
                        memories.get(namespace, key)

    def stale(self, who):
        return self.access(who).derived.stale()

    @invariant()
    def nothing_is_wrong(self):
        if hasattr(self, "vault"):
            assert list(ItemsVerification(self.vault._log).run()) == []

    def teardown(self):
        if hasattr(self, "vault"):
            self.reads_agree(second=True, who="alice")
            self.reads_agree(second=False, who="bob")
            self.vault.close()
            self.other.close()
            shutil.rmtree(self.directory)


Items.TestCase.settings = settings(
    max_examples=8,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestItems = Items.TestCase
