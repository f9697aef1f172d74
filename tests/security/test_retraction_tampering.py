"""What somebody without keys can do to erased events: nothing that is not seen. D6, K4."""

import contextlib

import pytest

from tests.security import surgery
from vault import Principal, Vault
from vault.errors import Tampered, VaultError
from vault.model import session_bytes

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"agent"}))


@pytest.fixture
def erased(place):
    """A closed vault with an event that was erased, one that was not, and an epoch that is gone; its id."""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        session = vault.access(ALICE).sessions.create()
        for number, epoch in enumerate((1, 1, 2)):
            session.append("chat.item", {"text": f"{number} " * 40}, epoch=epoch)
        first = next(session.events())
        with vault._records.snapshot() as reader:
            before = list(reader.scan("all_blobs_of_session", session_no=1))
        session.retract([first.id])
        session.retract_epoch(2)
    return session.id, before


def seen(place, session_id):
    """What a reader gets of each item, and whether the vault verifies."""
    with Vault.open(place) as vault:
        session = vault.access(ALICE).sessions.resume(session_id)
        told = [event.payload for event in session.events(types=["chat.item"])]
        return told, [finding.kind for finding in vault.verify().findings]


def changed(place, statement, *values):
    with surgery.opened(place) as database:
        assert database.execute(statement, values).rowcount


def put_back(place, blobs):
    """Rows of blobs as they were, in full."""
    for no, *_, content_id, _, _, body, mac in blobs:
        statement = "UPDATE blobs SET body = ?, content_id = ?, mac = ? WHERE no = ?"
        changed(place, statement, body, content_id, mac, no)


def test_what_was_erased_is_not_read_when_its_bytes_are_put_back(place, erased):
    """D6: the fact decides"""
    session_id, blobs = erased
    put_back(place, blobs)
    told, found = seen(place, session_id)
    assert told == [None, {"text": "1 " * 40}, None]
    assert found == ["blob", "blob"]


def test_a_payload_that_was_not_erased_cannot_be_emptied(place, erased):
    """K4: an empty row is no fact"""
    session_id, _ = erased
    changed(place, "UPDATE blobs SET body = x'' WHERE no = 2")
    with pytest.raises(Tampered):
        seen(place, session_id)
    with Vault.open(place) as vault:
        assert [finding.kind for finding in vault.verify().findings] == ["blob"]


@pytest.mark.parametrize("which", ["first", "last", "both"])
def test_a_fact_of_an_erasure_cannot_be_taken_away(place, erased, which):
    """K4, L9: a filtered read is complete"""
    session_id, blobs = erased
    where = {"first": "seq = 4", "last": "seq = 5", "both": "seq > 3"}[which]
    changed(place, f"DELETE FROM events WHERE {where}")  # noqa: S608 - the test's own
    for no, *_, body, _ in blobs:
        changed(place, "UPDATE blobs SET body = ? WHERE no = ?", body, no)
    with pytest.raises(VaultError):
        seen(place, session_id)


def test_a_fact_of_another_session_says_nothing_here(place, erased):
    session_id, _ = erased
    with Vault.open(place) as vault:
        other = vault.access(ALICE).sessions.create()
        for _ in range(3):
            other.append("chat.item", "x", epoch=1)
        other.retract([next(other.events()).id])
    theirs = "SELECT body FROM events WHERE session_no = 2 AND type = 'event.retracted'"
    changed(place, f"UPDATE events SET body = ({theirs}) WHERE session_no = 1 AND seq = 4")  # noqa: S608
    with pytest.raises(Tampered):
        seen(place, session_id)


def test_a_key_of_an_erased_epoch_that_is_put_back_opens_nothing(place, tmp_path):
    """D6: keys.db as it was does not bring it back, whoever removes its rules"""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        session = vault.access(ALICE).sessions.create()
        session.append("chat.item", "secret", epoch=1)
        with vault._records.snapshot() as reader:
            blobs = list(reader.scan("all_blobs_of_session", session_no=1))
    columns = "purpose, scope, epoch, owner, wrapped, tenant_id"
    with contextlib.closing(surgery.connected(place, "keys.db")) as keys:
        query = f"SELECT {columns} FROM keys WHERE scope = ? AND epoch = 1 << 20"  # noqa: S608 - the test's own
        (row,) = keys.execute(query, (session_bytes(session.id),)).fetchall()
    with Vault.open(place) as vault:
        vault.access(ALICE).sessions.resume(session.id).retract_epoch(1)
    with surgery.opened(place, "keys.db") as keys:
        keys.execute(f"INSERT INTO keys ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - the same
    put_back(place, blobs)
    told, found = seen(place, session.id)
    assert told == [None]
    assert found
