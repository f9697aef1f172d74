"""Who may write the vault's files, and has no key, keeps nothing from being erased and brings nothing back.

D2, D6, D7, K4.
"""

import contextlib
import dataclasses
import os
import shutil
import sqlite3

import pytest

from tests.security import surgery
from vault import Principal, Vault
from vault.errors import Conflict, Erased, NotFound, RolledBack, Tampered, VaultError
from vault.model import session_bytes
from vault.sealing.receipts import chain_of, verified

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
AUDITOR = Principal(tenant="acme", subject="otto", roles=frozenset({"auditor"}))
DATA_TABLES = ("sessions", "labels", "blobs", "events", "runs", "touches")


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def officer(vault):
    return vault.access(OFFICER)


@pytest.fixture
def session(alice):
    made = alice.sessions.create(title="secret", labels={"case": "7"}, external_id="thread-1")
    made.append("message.user", {"content": "hello"})
    made.append("file.read", raw=os.urandom(90_000))
    return made


class Stopped(Exception):
    """Stands for a crash; what was begun stays as it is."""


def stopped_at(vault, name):
    """Whatever is erased from here on stops before a step."""

    def step(told):
        if told == name:
            raise Stopped

    execution = dataclasses.replace(vault._parts.execution, step=step)
    vault._parts = dataclasses.replace(vault._parts, execution=execution)


def rows_of(place, session):
    """A session's rows in both databases."""
    with contextlib.closing(surgery.connected(place)) as data:
        (row,) = surgery.rows_as_dicts(
            data, "SELECT * FROM sessions WHERE session_id = ?", session_bytes(session.id)
        )
        rows = [("sessions", row)]
        for table in DATA_TABLES[1:]:
            query = f"SELECT * FROM {table} WHERE session_no = ?"  # noqa: S608
            rows += [(table, found) for found in surgery.rows_as_dicts(data, query, row["no"])]
    with contextlib.closing(surgery.connected(place, "keys.db")) as keys:
        query = "SELECT * FROM keys WHERE scope = ?"
        return rows, surgery.rows_as_dicts(keys, query, session_bytes(session.id))


def put_back(place, rows):
    with surgery.opened(place) as data:
        for table, row in rows:
            surgery.insert(data, table, row)


def put_keys_back(place, rows, *, graves=True):
    with surgery.opened(place, "keys.db") as keys:
        if not graves:
            keys.execute("DELETE FROM destroyed")
        for row in rows:
            surgery.insert(keys, "keys", row)


def is_there(place, session):
    with contextlib.closing(surgery.connected(place)) as data:
        query = "SELECT count(*) FROM sessions WHERE session_id = ?"
        return data.execute(query, (session_bytes(session.id),)).fetchone()[0]


# ----------------------------------------------------------------------- what was tampered with can be erased

SPOILT = {
    "mac": b"x" * 32,
    "about": b"zz",
    "lease": b"junk",
    "state": "weird",
    "epoch": 7,
    "version": 99,
    "retention": b"garbage",
    "due_hour": 1,
    "created_us": -5,
    "head_seq": 77,
    "external": b"another",
    "forked_from": b"nobody at all...",
    "tails": b"",
}


@pytest.mark.parametrize("column", SPOILT)
def test_a_session_whose_row_was_changed_is_erased_all_the_same(vault, place, officer, session, column):
    """D6"""
    with surgery.opened(place) as data:
        where = {"session_id": session_bytes(session.id)}
        surgery.update(data, "sessions", where, **{column: SPOILT[column]})
    outcome = officer.erasure.erase(session=session.id)
    assert (outcome.state, dict(outcome.counts)) == ("verified", {("session", "erased"): 1})
    assert not is_there(place, session)
    assert rows_left(place) == 0
    assert vault.verify().findings == ()


def rows_left(place):
    """Rows of sessions but the audit trail's, and files of blobs."""
    with contextlib.closing(surgery.connected(place)) as data:
        trails = "SELECT no FROM sessions"
        tables = ("events", "blobs", "runs", "touches", "labels")
        strays = f"SELECT count(*) FROM %s WHERE session_no NOT IN ({trails})"  # noqa: S608
        count = sum(data.execute(strays % table).fetchone()[0] for table in tables)
    return count + sum(file.is_file() for file in (place / "blobs").rglob("*"))


def test_a_session_without_its_key_or_its_events_is_erased_all_the_same(vault, place, officer, session):
    with surgery.opened(place, "keys.db") as keys:
        keys.execute("DELETE FROM keys WHERE scope = ?", (session_bytes(session.id),))
    with surgery.opened(place) as data:
        data.execute("DELETE FROM events WHERE seq = 1")
    assert officer.erasure.erase(session=session.id).state == "verified"
    assert not is_there(place, session)
    assert rows_left(place) == 0


# ------------------------------------------------------------------------------------- nothing comes back


def refused(access, session):
    for use in (
        lambda: access.sessions.resume(session.id),
        lambda: list(session.events()),
        lambda: session.append("message.user", 1),
        lambda: access.sessions.fork(session.id),
        lambda: access.sessions.resume_external("thread-1"),
    ):
        with pytest.raises((NotFound, Erased)):
            use()


def test_rows_that_are_put_back_are_read_by_nobody_and_go_again(vault, place, alice, session):
    """D6: the session's row and all of its events as they were; it is erased again at the next opening"""
    rows, _ = rows_of(place, session)
    blobs = {file: file.read_bytes() for file in (place / "blobs").rglob("*") if file.is_file()}
    alice.erasure.erase(session=session.id)
    put_back(place, rows)
    for file, content in blobs.items():
        file.write_bytes(content)
    refused(alice, session)
    assert vault.verify().findings
    with Vault.open(place) as again:
        assert not is_there(place, session)
        assert rows_left(place) == 0
        assert again.verify().findings == ()
        receipts = [
            verified(one.receipt, again._signer.public) for one in again.access(AUDITOR).erasure.receipts()
        ]
        assert [(one.state, one.requested_by.role) for one in receipts] == [
            ("verified", "vault"),
            ("verified", "owner"),
        ]


def test_rows_that_are_put_back_are_read_by_no_other_process_either(vault, place, alice, session):
    """D6: one that had the session open before it was erased"""
    with Vault.open(place) as other:
        theirs = other.access(ALICE).sessions.resume(session.id)
        assert len(list(theirs.events())) == 2
        rows, _ = rows_of(place, session)
        alice.erasure.erase(session=session.id)
        with pytest.raises(NotFound):
            list(theirs.events())
        put_back(place, rows)
        with pytest.raises(VaultError):
            next(theirs.events(limit=1))


def test_a_key_that_is_put_back_opens_nothing(vault, place, alice, session):
    """D6: its trigger refuses it; without the trigger nobody reads it"""
    rows, keys = rows_of(place, session)
    alice.erasure.erase(session=session.id)
    connection = surgery.connected(place, "keys.db")
    with contextlib.closing(connection), pytest.raises(sqlite3.IntegrityError, match="was destroyed"):
        surgery.insert(connection, "keys", keys[0])
    put_keys_back(place, keys)
    put_back(place, rows)
    refused(alice, session)
    tenant = vault._keys.tenant("acme", create=False)
    with pytest.raises(Erased):
        vault._keys.epoch(tenant, tenant.owner("alice"), session_bytes(session.id), 0)
    with Vault.open(place) as again:
        refused(again.access(ALICE), session)
        assert not is_there(place, session)


def test_a_key_that_is_put_back_is_found_or_destroyed_again(vault, place, alice, session):
    """D6, K4"""
    _, keys = rows_of(place, session)
    alice.erasure.erase(session=session.id)
    put_keys_back(place, keys)
    with Vault.open(place) as again:
        found = again.verify().findings
        assert found or not rows_of_keys(place, session)


def rows_of_keys(place, session):
    with contextlib.closing(surgery.connected(place, "keys.db")) as keys:
        query = "SELECT wrapped FROM keys WHERE scope = ?"
        return keys.execute(query, (session_bytes(session.id),)).fetchall()


def test_an_old_backup_of_both_databases_is_not_opened(vault, place, alice, session):
    """D6: the ledger says that it is behind, so nothing of it is served"""
    vault.checkpoint()
    for name in ("data.db", "keys.db"):
        surgery.connected(place, name).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        shutil.copy(place / name, place.parent / name)
    blobs = place.parent / "blobs"
    shutil.copytree(place / "blobs", blobs)
    alice.erasure.erase(session=session.id)
    vault.close()
    for name in ("data.db", "keys.db"):
        for suffix in ("", "-wal", "-shm"):
            (place / f"{name}{suffix}").unlink(missing_ok=True)
        shutil.copy(place.parent / name, place / name)
    shutil.rmtree(place / "blobs")
    shutil.copytree(blobs, place / "blobs")
    assert rows_of_keys(place, session)
    with pytest.raises(RolledBack):
        Vault.open(place)


def test_the_tombstones_are_not_changed(vault, place, alice, session):
    alice.erasure.erase(session=session.id)
    connection = surgery.connected(place, "keys.db")
    with contextlib.closing(connection):
        for change in ("DELETE FROM destroyed", "UPDATE destroyed SET epoch = 9"):
            with pytest.raises(sqlite3.IntegrityError, match="stays so"):
                connection.execute(change)


def test_without_its_tombstone_the_ledger_still_knows(vault, place, alice, session):
    """D6: all that the databases say of the erasure is removed, and the session is put back"""
    rows, keys = rows_of(place, session)
    alice.erasure.erase(session=session.id)
    vault.close()
    put_back(place, rows)
    put_keys_back(place, keys, graves=False)
    with Vault.open(place) as again:
        with pytest.raises(NotFound):
            again.access(ALICE).sessions.resume(session.id)
        assert not is_there(place, session)
        assert not rows_of_keys(place, session)


# ------------------------------------------------------------------------------ an erasure that is under way


@pytest.mark.parametrize("step", ["condemn", "record", "destroy", "delete rows", "prove"])
@pytest.mark.parametrize("column", ["plan", "state", "tenant_id", "mac"])
def test_an_erasure_under_way_that_was_changed_is_found(vault, place, officer, session, step, column):
    """K4: nothing is done on its word"""
    stopped_at(vault, step)
    with pytest.raises(Stopped):
        vault.access(OFFICER).erasure.erase(session=session.id)
    with surgery.opened(place) as data:
        (row,) = surgery.rows_as_dicts(data, "SELECT * FROM operations")
        value = "done" if column == "state" else surgery.flipped(row[column])
        data.execute(f"UPDATE operations SET {column} = ?", (value,))  # noqa: S608
    if column == "state":  # it is not looked at any more; verification, or the next erasure, has to tell
        return
    with pytest.raises(Tampered):
        Vault.open(place)


@pytest.mark.parametrize("step", ["record", "condemned", "destroy", "delete rows", "prove"])
def test_an_erasure_whose_row_is_removed_is_still_carried_out(vault, place, session, step):
    """D6: what the ledger says was erased goes at the next opening; before that it is read by nobody"""
    stopped_at(vault, step)
    with pytest.raises(Stopped):
        vault.access(OFFICER).erasure.erase(session=session.id)
    with surgery.opened(place) as data:
        data.execute("DELETE FROM operations")
    with pytest.raises(NotFound):
        vault.access(ALICE).sessions.resume(session.id)
    with Vault.open(place) as again:
        with pytest.raises(NotFound):
            again.access(ALICE).sessions.resume(session.id)
        if step != "record":
            assert not is_there(place, session)
            assert rows_left(place) == 0
            assert again.verify().findings == ()


@pytest.mark.parametrize("step", ["condemn", "destroy", "delete rows"])
def test_a_fence_that_is_torn_down_lets_nobody_in(vault, place, alice, session, step):
    """D7: the row as it was before, put in the place of the fenced one"""
    rows, _ = rows_of(place, session)
    stopped_at(vault, step)
    with pytest.raises(Stopped):
        vault.access(OFFICER).erasure.erase(session=session.id)
    with surgery.opened(place) as data:
        before = dict(rows[0][1])
        number = before.pop("no")
        surgery.update(data, "sessions", {"no": number}, **before)
    if step != "condemn":  # until then nothing was destroyed
        with pytest.raises((NotFound, Tampered)):
            list(session.events())
    with Vault.open(place) as again:
        assert not is_there(place, session)
        assert rows_left(place) == 0
        assert again.verify().findings == ()


# ----------------------------------------------------------------------------------------------- holds


@pytest.mark.parametrize("change", ["DELETE FROM holds", "UPDATE holds SET lifted_us = 1"])
def test_a_hold_that_is_removed_by_hand_still_counts_or_is_found(vault, place, officer, session, change):
    """D2, K4: the audit trail says that it was placed, and not that it was lifted"""
    officer.holds.place(session=session.id, reason="case")
    with surgery.opened(place, "keys.db") as keys:
        keys.execute(change)
    found = bool(vault.verify().findings)
    with contextlib.suppress(Tampered, Conflict):
        officer.erasure.erase(session=session.id)
    assert found or rows_of_keys(place, session)


# -------------------------------------------------------------------------------------------- receipts


def test_a_receipt_that_is_changed_does_not_verify(vault, alice, session):
    """D6: one bit anywhere"""
    outcome = alice.erasure.erase(session=session.id)
    public = vault._signer.public
    assert verified(outcome.receipt, public).state == "verified"
    for at in range(0, len(outcome.receipt), 7):
        changed = bytearray(outcome.receipt)
        changed[at] ^= 1
        with pytest.raises(Tampered):
            verified(bytes(changed), public)


@pytest.mark.parametrize(
    "change", ["DELETE FROM receipts WHERE number = 2", "UPDATE receipts SET number = 9 WHERE number = 2"]
)
def test_a_receipt_that_is_removed_is_missed_in_the_chain(vault, place, alice, session, change):
    """D6"""
    alice.erasure.erase(session=session.id)
    for _ in range(2):
        alice.erasure.erase(session=alice.sessions.create().id)
    with surgery.opened(place) as data:
        data.execute(change)
    alice.erasure.erase(session=alice.sessions.create().id)
    receipts = [verified(one.receipt, None) for one in vault.access(AUDITOR).erasure.receipts()][::-1]
    with pytest.raises(Tampered):
        chain_of(receipts)


@pytest.mark.parametrize("change", ["DELETE FROM operations", "UPDATE operations SET state = 'done'"])
@pytest.mark.parametrize(
    "step",
    [
        "condemn",
        "record",
        "destroy",
    ],
)
def test_an_erasure_that_was_made_to_be_forgotten_is_done_or_found(vault, place, session, change, step):
    """D6, K4: also before the ledger says anything of it"""
    stopped_at(vault, step)
    with pytest.raises(Stopped):
        vault.access(OFFICER).erasure.erase(session=session.id)
    with surgery.opened(place) as data:
        data.execute(change)
    with Vault.open(place) as again:
        assert again.verify().findings or not (is_there(place, session) or rows_of_keys(place, session))
