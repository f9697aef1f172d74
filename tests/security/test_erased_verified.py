"""What is gone is verified too: by right, still gone, proved by receipts that are all there. D6, D7."""

import dataclasses
import os
import sqlite3

import pytest

from vault import Principal, Vault
from vault.model import format_id, uuid7
from vault.policy.receipt import digest
from vault.ports.keys import Doomed
from vault.sealing.receipts import signed, verified

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="zeta", subject="bob", roles=frozenset({"owner"}))


@pytest.fixture
def erased(place):
    """A vault in which two sessions and a memory were erased, in two tenants; closed. Ids by number."""
    ids = []
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        for who in (ALICE, ALICE, BOB):
            access = vault.access(who)
            session = access.sessions.create(title="gone")
            session.append("message.user", {"content": "hello"})
            access.memories.put(("notes",), "a", 1, sources=[session])
            access.sessions.create(title="stays")
            access.erasure.erase(session=session.id)
            ids.append(bytes.fromhex(session.id[4:].replace("-", "")))
    return place, ids


def edited(place, name, *statements):
    connection = sqlite3.connect(place / name)
    for statement, *values in statements:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        assert connection.execute(statement, values).rowcount
    connection.commit()
    connection.close()


def found(place):
    with Vault.open(place) as vault:
        return sorted({finding.kind for finding in vault.verify().findings})


def test_after_erasures_everything_verifies_and_says_how_much_was_erased_by_right(erased):
    place, _ = erased
    with Vault.open(place) as vault:
        report = vault.verify()
    assert report.ok, report.findings
    assert (report.counts["erased"], report.counts["receipts"], report.counts["items"]) == (6, 3, 0)


def test_without_keys_too(erased):
    report = Vault.verify_without_keys(erased[0])
    assert report.ok, report.findings
    assert report.counts["erased"] == 6


def test_an_erased_session_whose_row_is_there_is_found(erased):
    place, (id_, *_) = erased
    with Vault.open(place) as vault:
        move = "UPDATE sessions SET session_id = ? WHERE no = (SELECT min(no) FROM sessions)"
        edited(place, "data.db", (move, id_))
        report = vault.verify()
        assert "resurrected" in {finding.kind for finding in report.findings}


def test_a_key_of_something_erased_is_found(erased):
    place, (id_, *_) = erased
    with Vault.open(place) as vault:
        graves = "DELETE FROM destroyed WHERE scope = ?"
        plant = (
            "INSERT INTO keys (purpose, scope, epoch, owner, wrapped) VALUES ('epoch', ?, 0, x'00', x'00')"
        )
        edited(place, "keys.db", (graves, id_), (plant, id_))
        kinds = [finding.kind for finding in vault.verify().findings]
        assert kinds.count("resurrected") == 1
        assert kinds.count("tombstone") == 1
    with Vault.open(place) as vault:  # opening destroys it again
        assert vault.verify().ok


def test_a_tombstone_put_in_anothers_place_does_not_hide_a_key(erased):
    """As many tombstones as before: what counts is which."""
    place, (id_, *_) = erased
    moved = "UPDATE destroyed SET scope = ? WHERE scope = ?"
    plant = "INSERT INTO keys (purpose, scope, epoch, owner, wrapped) VALUES ('epoch', ?, 0, x'00', x'00')"
    edited(place, "keys.db", (moved, os.urandom(16), id_), (plant, id_))
    with Vault.open(place) as vault:
        assert [row for row in vault._store.rows() if row.scope == id_] == []


def test_a_tombstone_that_is_missing_beside_the_keys_is_found(erased):
    place, (id_, *_) = erased
    with Vault.open(place) as vault:
        edited(place, "keys.db", ("DELETE FROM destroyed WHERE scope = ?", id_))
        assert [finding.kind for finding in vault.verify().findings] == ["tombstone"]


def test_a_tombstone_that_the_ledger_does_not_know_is_found(erased):
    """Somebody destroyed a key without a word: what it opened is not erased by right."""
    place, _ = erased
    with Vault.open(place) as vault:
        tenant = vault._keys.tenant("acme", create=False).tenant_id
        vault._store.condemn(bytes(16), tenant, [Doomed("epoch", os.urandom(16), None, frozenset())], 1)
        assert [finding.kind for finding in vault.verify().findings] == ["tombstone"]


RECEIPTS = {
    "newest removed": "DELETE FROM receipts WHERE number = 2",
    "oldest removed": "DELETE FROM receipts WHERE number = 1",
    "all removed": "DELETE FROM receipts",
    "replaced": "UPDATE receipts SET content = (SELECT content FROM receipts WHERE number = 1)"
    " WHERE number = 2",
    "changed": "UPDATE receipts SET content = CAST(replace(CAST(content AS TEXT), 'person_request', 'court')"
    " AS BLOB) WHERE number = 2",
    "of another erasure": "UPDATE receipts SET operation_id = zeroblob(16) WHERE number = 2",
}


@pytest.mark.parametrize("change", RECEIPTS)
def test_a_receipt_that_is_not_as_it_was_handed_out_is_found(erased, change):
    place, _ = erased
    edited(place, "data.db", (RECEIPTS[change],))
    assert found(place) == ["receipt"]


def changed_signature(content):
    """The receipt is as it was, and its digest; only who signed it is not."""
    place = content.index(b'"value":"') + len(b'"value":"')
    digit = b"1" if content[place : place + 1] == b"0" else b"0"
    return content[:place] + digit + content[place + 1 :]


def test_a_receipts_signature_is_verified(erased):
    place, _ = erased
    with sqlite3.connect(place / "data.db") as data:
        query = "SELECT content FROM receipts WHERE number = 2"
        (content,) = data.execute(query).fetchone()
    data.close()
    change = "UPDATE receipts SET content = ? WHERE number = 2"
    edited(place, "data.db", (change, changed_signature(content)))
    assert found(place) == ["receipt"]


def test_receipts_that_change_places_are_found(erased):
    place, _ = erased
    with Vault.open(place) as vault:
        access = vault.access(ALICE)
        access.erasure.erase(session=access.sessions.latest().id)
    numbers = ((-1, 2), (2, 3), (3, -1))
    edited(
        place, "data.db", *[("UPDATE receipts SET number = ? WHERE number = ?", *pair) for pair in numbers]
    )
    assert found(place) == ["receipt"]


def test_a_receipt_that_the_trail_does_not_know_is_found_although_the_vault_signed_it(erased):
    place, _ = erased
    with Vault.open(place) as vault:
        with sqlite3.connect(place / "data.db") as data:
            query = "SELECT tenant_id, content FROM receipts WHERE number = 2"
            tenant_id, content = data.execute(query).fetchone()
        data.close()
        last, operation = verified(content, None), uuid7()
        more = {"operation": format_id("era", operation), "number": 3, "previous": digest(last)}
        planted = signed(vault._signer, dataclasses.replace(last, **more))
        plant = "INSERT INTO receipts (operation_id, number, tenant_id, content) VALUES (?, 3, ?, ?)"
        edited(place, "data.db", (plant, operation, tenant_id, planted))
    assert found(place) == ["receipt"]


def test_the_first_of_two_receipts_of_an_erasure_is_missed(place):
    """It was signed while somebody read the database; the second one says that all is verified."""
    with Vault.create(place) as vault:
        access = vault.access(ALICE)
        session = access.sessions.create()
        session.append("message.user", {"content": "hello"})
        with vault.stores.database.snapshot() as reader:
            reader.execute("SELECT count(*) FROM sessions").fetchone()
            assert access.erasure.erase(session=session.id).state == "executed"
    with Vault.open(place) as vault:
        assert vault.verify().counts["receipts"] == 2
    edited(place, "data.db", ("DELETE FROM receipts WHERE number = 1",))
    assert found(place) == ["receipt"]


def test_the_newest_receipt_and_its_operation_removed_together_are_found(erased):
    place, _ = erased
    last = "(SELECT max(operation_id) FROM receipts)"
    edited(
        place,
        "data.db",
        (f"DELETE FROM operations WHERE operation_id = {last}",),  # noqa: S608
        (f"DELETE FROM receipts WHERE operation_id = {last}",),  # noqa: S608
    )
    assert found(place) == ["receipt"]


def test_derived_items_are_verified_with_everything_else(place):
    with Vault.create(place) as vault:
        access = vault.access(ALICE)
        access.memories.put(("notes",), "a", {"b": 1}, sources=[access.sessions.create()])
        assert vault.verify().counts["items"] == 1
    edited(place, "data.db", ("UPDATE items SET created_us = created_us + 1",))
    assert found(place) == ["item_row"]
