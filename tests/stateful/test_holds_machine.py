"""Holds, erasures and writers meet in keys.db, at random against a plain account of it: D2, D4, D5, L2.

What is held is never destroyed; what is condemned is never held without a word; what was destroyed never
comes back.
"""

import multiprocessing
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vault.errors import Conflict, Erased
from vault.ports.keys import WHOLE, Doomed, KeyRow
from vault.storage.destruction import fingerprint
from vault.storage.keystore import SqlKeyStore
from vault.storage.migrate import migrate
from vault.storage.sqlite import Database

TENANTS = (b"t" * 16, b"u" * 16)
OWNERS = (b"o" * 16, b"p" * 16)
SCOPES = tuple(bytes([n]) * 16 for n in range(4))
EPOCHS = range(3)
#: A scope belongs to one tenant and one owner, and carries a label or not.
TENANT_OF = dict(zip(SCOPES, (TENANTS[0], TENANTS[0], TENANTS[0], TENANTS[1]), strict=True))
TAGS_OF = {
    SCOPES[0]: {OWNERS[0]},
    SCOPES[1]: {OWNERS[0], b"l" * 16},
    SCOPES[2]: {OWNERS[1]},
    SCOPES[3]: {OWNERS[1], b"l" * 16},
}
ALL_TAGS = (*SCOPES, *OWNERS, b"l" * 16, *TENANTS)
OPERATIONS = tuple(bytes([0xA0 + n]) * 16 for n in range(3))
HOLDS = tuple(bytes([0xC0 + n]) * 16 for n in range(4))


def opened(place):
    database = Database(place / "keys.db", place / "lock", synchronous="NORMAL", lock_seconds=60)
    migrate(database, "keys")
    return database


def row(scope, epoch, wrapped):
    tenant = TENANT_OF.get(scope, TENANTS[0])
    return KeyRow(
        purpose="epoch", scope=scope, epoch=epoch, owner=OWNERS[0], wrapped=wrapped, tenant_id=tenant
    )


class HoldsMachine(RuleBasedStateMachine):
    """keys.db beside dictionaries."""

    def __init__(self):
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.databases = [opened(self.place), opened(self.place)]  # two processes' views, as it were
        self.stores = [SqlKeyStore(database) for database in self.databases]
        self.live, self.dying, self.graves, self.wholes, self.holds = {}, {}, {}, {}, {}
        self.ticks = 0

    def teardown(self):
        for database in self.databases:
            database.close()
        shutil.rmtree(self.place)

    @property
    def keys(self):
        self.ticks += 1
        return self.stores[self.ticks % 2]

    def is_gone(self, scope, epoch):
        return self.graves.get((scope, epoch), self.wholes.get(scope))

    def held(self, scope, tags=()):
        tenant = TENANT_OF[scope]
        wanted = {scope, tenant, *tags}
        return {
            hold
            for hold, (whose, on, active) in self.holds.items()
            if active and whose == tenant and on & wanted
        }

    def late(self, tenant):
        return {scope for scope, _ in self.dying if TENANT_OF[scope] == tenant}

    @rule(
        scope=st.sampled_from(SCOPES), epoch=st.sampled_from(EPOCHS), tail=st.binary(min_size=4, max_size=4)
    )
    def put(self, scope, epoch, tail):
        made = row(scope, epoch, b"\x01" + tail * 26)
        try:
            stored = self.keys.put([made])
        except Erased:
            assert (scope, epoch) in self.graves or scope in self.wholes
            return
        assert stored == ((scope, epoch) not in self.live)
        assert (scope, epoch) not in self.graves
        assert scope not in self.wholes
        self.live.setdefault((scope, epoch), made)

    @rule(
        operation=st.sampled_from(OPERATIONS),
        whole=st.booleans(),
        epoch=st.sampled_from(EPOCHS),
        scopes=st.sets(st.sampled_from(SCOPES[:3]), min_size=1),
    )
    def condemn(self, operation, whole, epoch, scopes):
        asked = None if whole else epoch
        doomed = [Doomed("epoch", scope, asked, frozenset(TAGS_OF[scope])) for scope in sorted(scopes)]
        answer = self.keys.condemn(operation, TENANTS[0], doomed, self.ticks)
        held = {}
        for scope in scopes:
            before = scope in self.wholes or (not whole and (scope, epoch) in self.graves)
            if not before and self.held(scope, TAGS_OF[scope]):
                held[scope] = tuple(sorted(self.held(scope, TAGS_OF[scope])))
                continue
            for number in EPOCHS if whole else [epoch]:
                if (scope, number) in self.live and not before:
                    self.dying[scope, number] = operation
                    self.graves[scope, number] = (
                        operation,
                        fingerprint(self.live.pop((scope, number)).wrapped),
                    )
            if whole:
                self.wholes.setdefault(scope, (operation, b""))
            elif not before:
                self.graves.setdefault((scope, epoch), (operation, b""))
            wanted = [self.graves.get((scope, number)) for number in (EPOCHS if whole else [epoch])]
            marks = tuple(mark for _, mark in filter(None, wanted) if mark)
            assert answer.fingerprints[scope] == marks
        assert answer.held == held
        assert answer.fingerprints.keys() == scopes - held.keys()

    @rule(operation=st.sampled_from(OPERATIONS))
    def destroy(self, operation):
        ended = [place for place, by in self.dying.items() if by == operation]
        assert self.keys.destroy(operation) == (len(ended), True)
        for place in ended:
            del self.dying[place]

    @rule(
        hold=st.sampled_from(HOLDS),
        tenant=st.sampled_from(TENANTS),
        tags=st.sets(st.sampled_from(ALL_TAGS), min_size=1, max_size=3),
    )
    def place_hold(self, hold, tenant, tags):
        try:
            late = self.keys.place_hold(hold, tenant, sorted(tags), self.ticks)
        except Conflict:
            assert hold in self.holds
            assert self.holds[hold] != (tenant, tags, True)
            return
        assert self.holds.get(hold, (tenant, tags, True)) == (tenant, tags, True)
        self.holds[hold] = (tenant, tags, True)
        destroyed = {scope for scope, _ in self.graves} | set(self.wholes)
        named = {tag for tag in tags & destroyed if TENANT_OF[tag] == tenant}
        assert set(late) == self.late(tenant) | named

    @rule(hold=st.sampled_from(HOLDS), tenant=st.sampled_from(TENANTS))
    def lift(self, hold, tenant):
        whose, tags, active = self.holds.get(hold, (None, None, False))
        assert self.keys.lift_hold(hold, tenant, self.ticks) == (active and whose == tenant)
        if active and whose == tenant:
            self.holds[hold] = (whose, tags, False)

    @invariant()
    def what_lives_is_found_and_nothing_else(self):
        keys = self.keys
        assert {(one.scope, one.epoch): one for one in keys.rows()} == self.live
        for scope in SCOPES:
            for epoch in EPOCHS:
                assert keys.get("epoch", scope, epoch, OWNERS[0]) == self.live.get((scope, epoch))
                gone = keys.is_destroyed("epoch", scope, epoch)
                assert (gone is not None) == (self.is_gone(scope, epoch) is not None)

    @invariant()
    def what_is_dying_is_known(self):
        keys = self.keys
        assert keys.operations_dying() == sorted(set(self.dying.values()))
        for tenant in TENANTS:
            assert set(keys.dying_of(tenant)) == self.late(tenant)

    @invariant()
    def every_end_has_its_tombstone(self):
        # The scope of single epochs may live on: only what is gone as a whole is listed.
        of_whole = ((place, grave) for place, grave in self.graves.items() if place[0] in self.wholes)
        expected = dict(of_whole)
        expected |= {(scope, WHOLE): grave for scope, grave in self.wholes.items()}
        assert {
            (one.scope, one.epoch): (one.operation, one.fingerprint) for one in self.keys.tombstones()
        } == (expected)

    @invariant()
    def holds_are_as_placed(self):
        for tenant in TENANTS:
            listed = {}
            for one in self.keys.holds(tenant):
                listed.setdefault(one.hold_id, set()).add((one.tag, one.lifted_us == 0))
            assert listed == {
                hold: {(tag, active) for tag in tags}
                for hold, (whose, tags, active) in self.holds.items()
                if whose == tenant
            }
        for scope, tenant in TENANT_OF.items():
            assert set(self.keys.held(tenant, [scope, *TAGS_OF[scope]])) == self.held(scope, TAGS_OF[scope])


HoldsMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
test_holds_and_erasures_agree_with_a_plain_account = HoldsMachine.TestCase


# ------------------------------------------------------------------------------- several processes

ROUNDS = 600
RACED = [number.to_bytes(16) for number in range(1, ROUNDS + 1)]


def _hold(place, seed, result):
    """Hold every scope in some order; some for a moment only. Tells what was held in time and kept."""
    database, chance = opened(Path(place)), random.Random(seed)
    keys, kept, wrong, late_count, lifted = SqlKeyStore(database), [], [], 0, 0
    for scope in chance.sample(RACED, len(RACED)):
        hold = chance.randbytes(16)
        late = keys.place_hold(hold, TENANTS[0], [scope], 5)
        found = keys.get("epoch", scope, 0, OWNERS[0])
        if scope in late:
            late_count += 1
            if found is not None:
                wrong.append(("told too late, and there", scope))
        elif found is None:
            wrong.append(("told in time, and gone", scope))
        elif chance.random() < 0.5:
            kept.append(scope)
        else:
            lifted += keys.lift_hold(hold, TENANTS[0], 6)
    database.close()
    result.put(("held", kept, wrong, late_count, lifted))


def _erase(place, seed, result):
    """Condemn every scope in some order, and destroy now and then. Tells what was condemned."""
    database, chance = opened(Path(place)), random.Random(seed)
    keys, condemned, refused, wrong = SqlKeyStore(database), [], 0, []
    for number, scope in enumerate(chance.sample(RACED, len(RACED))):
        operation = bytes([seed]) * 8 + (number // 20).to_bytes(8)
        answer = keys.condemn(operation, TENANTS[0], [Doomed("epoch", scope, None, frozenset())], 7)
        if scope in answer.held:
            refused += 1
        else:
            condemned.append(scope)
            if keys.get("epoch", scope, 0, OWNERS[0]) is not None:
                wrong.append(("condemned, and there", scope))
        if number % 20 == 19:
            keys.destroy(operation)
    database.close()
    result.put(("erased", condemned, wrong, refused, 0))


@pytest.mark.parametrize("seed", [1])
def test_of_processes_that_hold_and_erase_the_same_each_is_told_the_truth(tmp_path, seed):
    """D4: decided in one transaction, whoever comes first"""
    database = opened(tmp_path)
    keys = SqlKeyStore(database)
    keys.put([row(scope, 0, b"\x01" + scope * 6) for scope in RACED])
    fork = multiprocessing.get_context("spawn")
    result = fork.Queue()
    work = [(_hold, 2 * seed), (_hold, 2 * seed + 1), (_erase, 2 * seed + 100), (_erase, 2 * seed + 101)]
    processes = [fork.Process(target=target, args=(str(tmp_path), n, result)) for target, n in work]
    for process in processes:
        process.start()
    told = [result.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(60)
    assert [wrong for _, _, wrong, _, _ in told if wrong] == []
    held = {scope for kind, scopes, *_ in told if kind == "held" for scope in scopes}
    condemned = {scope for kind, scopes, *_ in told if kind == "erased" for scope in scopes}
    assert condemned  # how often each side wins is for the machine's scheduler to say
    assert not held & condemned
    for operation in keys.operations_dying():
        keys.destroy(operation)
    assert {scope for scope in RACED if keys.get("epoch", scope, 0, OWNERS[0])} == set(RACED) - condemned
    assert held <= set(RACED) - condemned
    database.close()
