"""After a barrier the receipts of earlier erasures say that it passed; the chain goes on (D6, K3)."""

import pytest

from vault import Principal, Vault
from vault.sealing.receipts import chain_of, verified

ALICE = Principal(tenant="acme", subject="alice", roles={"agent", "owner"})
OFFICER = Principal(tenant="acme", subject="dpo", roles={"privacy_officer"})


def receipts_of(vault):
    public = bytes.fromhex(vault.info()["ledger_public_key"])
    found = vault.access(OFFICER).erasure.receipts()
    return [verified(one.receipt, public) for one in reversed(found)]


@pytest.fixture
def erased(tmp_path):
    with Vault.create(tmp_path / "v") as vault:
        alice = vault.access(ALICE)
        for _ in range(2):
            session = alice.sessions.create()
            session.append("message.user", {"content": "gone"})
            alice.erasure.erase(session=session.id)
        yield vault


def test_each_verified_erasure_gets_one_further_receipt_that_says_so(erased):
    erased.keys.barrier()
    states = [(one.state, one.barrier.state) for one in receipts_of(erased)]
    assert states == [("verified", "pending")] * 2 + [("barrier_passed", "passed")] * 2
    chain_of(receipts_of(erased))
    assert {one.operation for one in receipts_of(erased)[:2]} == {
        one.operation for one in receipts_of(erased)[2:]
    }
    assert erased.verify().ok


def test_a_second_barrier_signs_nothing_again(erased):
    erased.keys.barrier()
    before = len(receipts_of(erased))
    erased.keys.barrier()
    assert len(receipts_of(erased)) == before


def test_a_new_root_key_alone_is_no_barrier(erased):
    erased.keys.rotate()
    assert [one.state for one in receipts_of(erased)] == ["verified"] * 2
