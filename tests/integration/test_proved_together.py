"""Erasures of one sweep are proved by one look through all files; each receipt says its own. D3, D6."""

import pytest

from vault import Principal, Vault
from vault.sealing.receipts import verified
from vault.storage.remains import FileRemains

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
YEAR, GRACE = 365 * 86_400_000_000, 7 * 86_400_000_000


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        yield opened


@pytest.fixture
def officer(vault):
    return vault.access(OFFICER)


@pytest.fixture
def due(vault, officer, clock, monkeypatch):
    """Five sessions that are due, of which each sweep takes two at once."""
    monkeypatch.setattr("vault.erasure.sweep.ROOTS_MAX", 2)
    made = [vault.access(ALICE).sessions.create() for _ in range(5)]
    for number, one in enumerate(made):
        one.append("message.user", {"content": f"words {number} " * 20})
    clock.now += YEAR + GRACE
    officer.retention.trust_clock()
    return made


@pytest.fixture
def looks(monkeypatch):
    """What each look through the files was for: the pieces of each erasure."""
    seen, found = [], FileRemains.found

    def looking(self, groups, progress=None):
        seen.append([list(group) for group in groups])
        return found(self, groups, progress)

    monkeypatch.setattr(FileRemains, "found", looking)
    return seen


def receipts_of(vault, officer):
    return [verified(one.receipt, vault._signer.public) for one in officer.erasure.receipts()]


def test_one_look_serves_all_erasures_of_a_sweep(vault, officer, due, looks):
    """D6: each with its own pieces, after the last of them was executed"""
    assert officer.retention.run().operations == 3
    assert [len(groups) for groups in looks] == [3]
    assert all(len(group) > 1 for group in looks[0])
    assert len({piece for group in looks[0] for piece in group}) == sum(map(len, looks[0]))
    receipts = receipts_of(vault, officer)
    assert [one.state for one in receipts] == ["verified"] * 3
    assert sorted(one.items.count for one in receipts) == [1, 2, 2]
    assert len({one.operation for one in receipts}) == 3
    assert vault.verify().findings == ()


def test_what_is_left_of_one_erasure_is_said_of_that_one_only(vault, officer, due, place, monkeypatch):
    """D6, S1: its receipt is incomplete, the others are verified; the next sweep tries that one again"""
    left, found = [], FileRemains.found

    def keeping(self, groups, progress=None):
        if not left:
            left.append(place / "blobs" / "forgotten")
            left[0].write_bytes(b"before" + groups[1][0] + b"behind")
        return found(self, groups, progress)

    monkeypatch.setattr(FileRemains, "found", keeping)
    swept = officer.retention.run()
    assert (swept.operations, swept.unfinished) == (3, 1)
    assert sorted(one.state for one in receipts_of(vault, officer)) == ["incomplete", "verified", "verified"]
    left[0].unlink()
    officer.retention.run()
    newest = receipts_of(vault, officer)[0]
    assert (newest.state, len(receipts_of(vault, officer))) == ("verified", 4)
    assert newest.follows is not None


def test_what_waits_for_its_proof_is_proved_by_one_look_on_opening(vault, officer, due, place, looks, clock):
    """S1: a sweep that was cut off before its proofs"""
    execution = vault._parts.execution

    class CutOff(Exception):
        """Stands for the end of a process."""

    def cut(*_):
        raise CutOff

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(execution.prove), "search", cut)
        with pytest.raises(CutOff):
            officer.retention.run()
    assert receipts_of(vault, officer) == []
    with Vault.open(place, clock=clock) as again:
        assert [len(groups) for groups in looks] == [3]
        assert [one.state for one in receipts_of(again, again.access(OFFICER))] == ["verified"] * 3


def test_more_than_one_look_takes_at_once_is_looked_for_in_several(vault, officer, due, looks, monkeypatch):
    monkeypatch.setattr("vault.erasure.execute.TOGETHER", 2)
    assert officer.retention.run().operations == 3
    assert [len(groups) for groups in looks] == [2, 1]
    assert [one.state for one in receipts_of(vault, officer)] == ["verified"] * 3


def test_what_another_process_proved_meanwhile_counts_once(vault, officer, due, place, clock, monkeypatch):
    """D3: whoever opens the vault meanwhile proves what waits; nothing is signed twice"""
    found, opened = FileRemains.found, []

    def looking(self, groups, progress=None):
        if not opened:
            opened.append(True)
            with Vault.open(place, clock=clock):
                pass
        return found(self, groups, progress)

    monkeypatch.setattr(FileRemains, "found", looking)
    swept = officer.retention.run()
    assert (swept.operations, swept.unfinished) == (3, 0)
    assert [one.state for one in receipts_of(vault, officer)] == ["verified"] * 3
    assert vault.verify().findings == ()
