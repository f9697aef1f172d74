"""What stands outside of the vault erases too: told until it did, also after a crash. D4, D6, D7."""

import dataclasses
import os
import signal

import pytest

from vault import Principal, Vault
from vault.adapters.vector_index import VectorIndex
from vault.errors import Erased, InvalidInput, StorageUnavailable
from vault.sealing.receipts import verified

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
SETTINGS = {"synchronous": "NORMAL"}
THREE = ("external:1", "external:2", "external:3")


class Far:
    """A target that cannot be asked what it holds, and that fails as often as it is told to."""

    name = "far"

    def __init__(self, fails=0):
        self.fails, self.calls = fails, []

    def erase(self, ids, idempotency_key):
        self.calls.append((tuple(ids), idempotency_key))
        if len(self.calls) <= self.fails:
            raise StorageUnavailable


@pytest.fixture
def index(tmp_path):
    return VectorIndex(tmp_path / "index")


@pytest.fixture
def vault(place):
    with Vault.create(place, settings=SETTINGS) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


def embedded(alice, index):
    """A session with a memory, each with a vector in the index; and another session with one."""
    session, other = alice.sessions.create(title="one"), alice.sessions.create(title="two")
    memory = alice.memories.put((), "k", [1.0, 0.0], sources=[session], kind="embedding")
    for number, made in enumerate((session, memory, other)):
        index.put(made.id, [1.0, float(number)])
    return session, memory, other


def found(index):
    return {item_id for item_id, _ in index.search([1.0, 0.0])}


def receipt_of(outcome):
    receipt = verified(outcome.receipt, None)
    return {one.store: one.result for one in receipt.stores if one.store.startswith("external")}, receipt


def swept(vault):
    """The newest receipt after a sweep."""
    officer = vault.access(OFFICER)
    officer.retention.run()
    return officer.erasure.receipts(limit=1)[0]


def test_what_is_erased_goes_from_an_index_of_vectors_too(vault, alice, index):
    session, memory, other = embedded(alice, index)
    vault.stores.register(index)
    outcome = alice.erasure.erase(session=session.id)
    assert found(index) == {other.id}
    stores, receipt = receipt_of(outcome)
    assert (outcome.state, stores) == ("verified", {"external:1": "done"})
    assert "external_targets" not in receipt.not_checked
    for gone in (session, memory):
        with pytest.raises(Erased):
            index.put(gone.id, [1.0, 1.0])
    assert found(index) == {other.id}


def test_a_target_that_cannot_be_asked_is_named_as_not_checked(vault, alice, index):
    session, _, _ = embedded(alice, index)
    vault.stores.register(index, Far())
    stores, receipt = receipt_of(alice.erasure.erase(session=session.id))
    assert stores == {"external:1": "done", "external:2": "done"}
    assert "external_targets" in receipt.not_checked


def test_without_any_target_a_receipt_says_nothing_of_them(alice):
    stores, receipt = receipt_of(alice.erasure.erase(session=alice.sessions.create().id))
    assert (stores, "external_targets" in receipt.not_checked) == ({}, False)


def test_a_target_that_is_down_is_told_again_until_it_did(vault, alice, index):
    session, memory, _ = embedded(alice, index)
    far, near = Far(fails=2), Far()
    near.name = "near"
    vault.stores.register(far, near, index)
    outcome = alice.erasure.erase(session=session.id)
    stores, receipt = receipt_of(outcome)
    assert (outcome.state, stores) == (
        "incomplete",
        dict(zip(THREE, ("unreachable", "done", "done"), strict=True)),
    )
    # The vault's own are done, and say so.
    assert {one.result for one in receipt.stores if not one.store.startswith("external")} == {"done"}
    assert swept(vault).state == "incomplete"
    last = swept(vault)
    assert (last.state, receipt_of(last)[0]) == ("verified", dict.fromkeys(THREE, "done"))
    [(ids, key)] = set(far.calls)
    assert (len(far.calls), set(ids), key) == (3, {session.id, memory.id}, outcome_key(outcome))
    swept(vault)
    assert (len(far.calls), len(near.calls)) == (3, 1)


def outcome_key(outcome):
    return outcome.operation.removeprefix("era_").replace("-", "")


def test_a_target_that_says_it_did_and_did_not_is_told_again(vault, alice, index):
    class Forgetful(VectorIndex):
        works = False

        def erase(self, ids, idempotency_key):
            if self.works:
                super().erase(ids, idempotency_key)

    session, _, other = embedded(alice, index)
    forgetful = Forgetful(index._root)
    vault.stores.register(forgetful)
    outcome = alice.erasure.erase(session=session.id)
    assert (outcome.state, receipt_of(outcome)[0]) == ("incomplete", {"external:1": "failed"})
    forgetful.works = True
    assert swept(vault).state == "verified"
    assert found(index) == {other.id}


def test_what_a_hold_keeps_is_kept_in_a_target_too(vault, alice, index):
    session, memory, other = embedded(alice, index)
    vault.access(OFFICER).holds.place(session=session.id, reason="court")
    vault.stores.register(index)
    alice.erasure.erase(subject="alice")
    assert found(index) == {session.id, memory.id}
    assert other.id not in found(index)


def test_no_erasure_ends_before_a_target_that_the_settings_name(place, index):
    with Vault.create(place, settings={**SETTINGS, "external_targets": "vectors"}) as vault:
        alice = vault.access(ALICE)
        session, _, other = embedded(alice, index)
        outcome = alice.erasure.erase(session=session.id)  # as a program does that knows of no index
        assert (outcome.state, receipt_of(outcome)[0]) == ("incomplete", {"external:1": "unreachable"})
    with Vault.open(place) as vault:
        assert swept(vault).state == "incomplete"
        vault.stores.register(index)
        assert swept(vault).state == "verified"
    assert found(index) == {other.id}


@pytest.mark.parametrize("step", ["tell", "prove"])
def test_a_target_is_told_after_a_kill_before_or_after_it_was(place, tmp_path, index, step):
    with Vault.create(place, settings=SETTINGS) as vault:
        session, _, other = embedded(vault.access(ALICE), index)
    child = os.fork()
    if child == 0:
        killed_before(place, tmp_path, session.id, step)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    gone_already = step == "prove"
    assert (session.id in found(index)) != gone_already
    with Vault.open(place) as vault:  # it opens, and goes on without the index as far as it can
        assert (session.id in found(index)) != gone_already
        assert vault.access(OFFICER).erasure.receipts(limit=1)[0].state == "incomplete"
        far = Far()
        far.name = index.name
        vault.stores.register(far)
        last = swept(vault)
        assert (last.state, receipt_of(last)[0]) == ("verified", {"external:1": "done"})
        for ids, key in far.calls * 2:  # and twice again: it comes to the same
            index.erase(ids, key)
        assert far.calls[0][1] == outcome_key(last)
    assert found(index) == {other.id}


def killed_before(place, tmp_path, session_id, step):
    """Erase in this process until a step, and end it there without a word."""
    try:
        vault = Vault.open(place)
        vault.stores.register(VectorIndex(tmp_path / "index"))

        def dies(told):
            if told == step:
                os.kill(os.getpid(), signal.SIGKILL)

        execution = dataclasses.replace(vault._parts.execution, step=dies)
        vault._parts = dataclasses.replace(vault._parts, execution=execution)
        vault.access(ALICE).erasure.erase(session=session_id)
    finally:
        os._exit(1)


@pytest.mark.parametrize("name", ["", "a name", "a/b", "n" * 65, 7])
def test_a_name_that_is_none_is_refused(vault, name):
    far = Far()
    far.name = name
    with pytest.raises(InvalidInput):
        vault.stores.register(far)


def test_vectors_are_found_by_how_near_they_are(alice, index):
    ids = [alice.sessions.create().id for _ in range(3)]
    for one, vector in zip(ids, ([1, 0], [1, 1], [-1, 0]), strict=True):
        index.put(one, vector)
    assert [one for one, _ in index.search([2, 0.1])] == ids
    assert index.search([2, 0.1], limit=1)[0][1] == pytest.approx(0.99875, abs=1e-4)
    for vector in ([], [0, 0], [float("nan"), 1]):
        with pytest.raises(InvalidInput):
            index.put(ids[0], vector)
    with pytest.raises(InvalidInput):
        index.put("../elsewhere", [1, 0])
