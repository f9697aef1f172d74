"""What a store of wrapped keys promises."""

import hashlib
import os
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from vault.errors import Conflict, Erased, Tampered
from vault.ports.keys import WHOLE, Destroyed, Doomed, HoldRow, KeyRow, Tombstone


def key(**changes):
    fields = {"purpose": "epoch", "scope": b"s" * 16, "epoch": 0, "owner": b"o" * 16, "wrapped": b"w" * 106}
    return KeyRow(**(fields | changes))


OTHERS = [
    {"purpose": "tenant"},
    {"scope": b"t" * 16},
    {"epoch": 1},
]


def test_a_key_comes_back_as_it_was_put(keys, open_keys):
    """K3"""
    assert keys.get("epoch", b"s" * 16, 0, b"o" * 16) is None
    assert keys.put([key()])
    assert keys.get("epoch", b"s" * 16, 0, b"o" * 16) == key()
    assert open_keys().get("epoch", b"s" * 16, 0, b"o" * 16) == key()


@pytest.mark.parametrize("changes", [*OTHERS, {"owner": b"p" * 16}, {"owner": b""}])
def test_a_key_is_found_by_its_place_and_owner_only(keys, changes):
    """Invariant 16"""
    keys.put([key()])
    asked = key(**changes)
    assert keys.get(asked.purpose, asked.scope, asked.epoch, asked.owner) is None


@pytest.mark.parametrize("changes", [{}, {"wrapped": b"other"}, {"owner": b"p" * 16}])
def test_a_place_takes_one_key_for_good(keys, changes):
    """Invariant 14: nobody replaces a key, whoever says to be its owner"""
    keys.put([key()])
    assert keys.put([key(**changes)]) is False
    assert list(keys.rows()) == [key()]


def test_keys_that_belong_together_are_stored_together_or_not_at_all(keys):
    """K3"""
    pair = [key(purpose="tenant", owner=b""), key(purpose="index", owner=b"")]
    keys.put(pair[1:])
    assert keys.put(pair) is False
    assert list(keys.rows()) == pair[1:]
    assert keys.put([key(**changes) for changes in OTHERS])
    assert len(list(keys.rows())) == 4


def test_every_key_can_be_listed(keys):
    """K3"""
    made = [key(**changes) for changes in [{}, *OTHERS]]
    assert keys.put(made)
    listed = list(keys.rows())
    assert sorted(listed, key=repr) == sorted(made, key=repr)
    assert "www" not in repr(listed)


def test_of_many_that_put_the_same_place_one_wins(keys, open_keys):
    """K3: two processes make one tenant at once"""
    stores, won = [keys, open_keys(), open_keys()], []

    def put(number):
        row = key(wrapped=bytes([number]))
        won.extend([row] * stores[number % 3].put([row]))

    threads = [threading.Thread(target=put, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert list(keys.rows()) == won


# ------------------------------------------------------------------------------------- destruction


T, U, S, OWNER = b"t" * 16, b"u" * 16, b"s" * 16, b"o" * 16
OPERATION, ANOTHER = b"1" * 16, b"2" * 16


def epochs(*numbers, **changes):
    return [key(epoch=n, wrapped=bytes([n]) * 105, tenant_id=T, **changes) for n in numbers]


def doomed(epoch=None, scope=S, tags=(), purpose="epoch"):
    return Doomed(purpose, scope, epoch, frozenset(tags))


def mark(row):
    return hashlib.sha256(b"session-vault/1/key" + row.wrapped).digest()[:16]


def test_a_condemned_key_is_found_by_nobody_and_never_put_again(keys, open_keys):
    """D5"""
    rows = epochs(0, 1, 2)
    keys.put(rows)
    condemned = keys.condemn(OPERATION, T, [doomed()], 7)
    assert condemned.fingerprints == {S: tuple(map(mark, rows))}
    assert condemned.held == {}
    for store in (keys, open_keys()):
        assert [store.get("epoch", S, n, OWNER) for n in range(3)] == [None] * 3
        assert list(store.rows()) == []
        assert store.operations_dying() == [OPERATION]
        assert store.dying_of(T) == [S]
        assert store.dying_of(U) == []
        for again in (*rows, *epochs(3), key(wrapped=b"other")):
            with pytest.raises(Erased):
                store.put([again])
    assert keys.destroy(OPERATION) == Destroyed(keys=3, truncated=True)
    assert keys.destroy(OPERATION) == Destroyed(keys=0, truncated=True)
    for store in (keys, open_keys()):
        assert store.operations_dying() == store.dying_of(T) == []
        assert [store.is_destroyed("epoch", S, n) for n in range(4)] == [OPERATION] * 4
        with pytest.raises(Erased):
            store.put(rows[:1])


def test_one_epoch_is_condemned_without_the_others(keys):
    """D5"""
    rows = epochs(0, 1, 2)
    keys.put(rows)
    assert keys.condemn(OPERATION, T, [doomed(1)], 7).fingerprints == {S: (mark(rows[1]),)}
    assert keys.destroy(OPERATION).keys == 1
    assert list(keys.rows()) == [rows[0], rows[2]]
    assert [keys.is_destroyed("epoch", S, n) for n in range(4)] == [None, OPERATION, None, None]
    assert keys.put(epochs(3))
    condemned = keys.condemn(ANOTHER, T, [doomed()], 8)
    assert condemned.fingerprints == {S: tuple(map(mark, [*rows, *epochs(3)]))}
    assert keys.destroy(ANOTHER).keys == 3
    assert keys.is_destroyed("epoch", S, 1) == OPERATION
    assert keys.is_destroyed("epoch", S, 9) == ANOTHER


def test_what_never_had_a_key_gets_a_tombstone_all_the_same(keys):
    """D5: who is slow finds it gone"""
    assert keys.condemn(OPERATION, T, [doomed(), doomed(3, scope=b"x" * 16)], 7).fingerprints == {
        S: (),
        b"x" * 16: (),
    }
    with pytest.raises(Erased):
        keys.put(epochs(0))
    with pytest.raises(Erased):
        keys.put(epochs(3, scope=b"x" * 16))
    assert keys.put(epochs(0, scope=b"x" * 16))
    # Only of what is gone as a whole: the session of an epoch may live on.
    assert [(grave.scope, grave.epoch, grave.fingerprint) for grave in keys.tombstones()] == [(S, WHOLE, b"")]


def test_keys_that_belong_together_are_all_refused_when_one_was_destroyed(keys):
    """D5"""
    keys.condemn(OPERATION, T, [doomed()], 7)
    with pytest.raises(Erased):
        keys.put([*epochs(0, scope=b"x" * 16), *epochs(0)])
    assert list(keys.rows()) == []


@pytest.mark.parametrize("destroyed", [False, True])
def test_an_operation_asked_again_gives_the_same_answer(keys, destroyed):
    """D5: a crash after it"""
    keys.put(epochs(0, 1))
    everything = [doomed(), doomed(scope=b"x" * 16), doomed(1, scope=b"y" * 16)]
    first = keys.condemn(OPERATION, T, everything, 7)
    if destroyed:
        keys.destroy(OPERATION)
    keys.place_hold(b"h" * 16, T, [S], 8)
    assert keys.condemn(OPERATION, T, everything, 9) == first
    assert keys.condemn(ANOTHER, T, everything, 9) == first
    assert {grave.destroyed_us for grave in keys.tombstones()} == {7}


def test_what_is_held_is_not_condemned_and_says_by_whom(keys):
    """D4"""
    keys.put([*epochs(0), *epochs(0, scope=b"x" * 16)])
    assert keys.place_hold(b"h" * 16, T, [OWNER, S], 5) == ()
    assert keys.place_hold(b"g" * 16, T, [b"l" * 16], 6) == ()
    asked = [doomed(tags=[OWNER, b"l" * 16]), doomed(scope=b"x" * 16)]
    condemned = keys.condemn(OPERATION, T, asked, 7)
    assert condemned.held == {S: (b"g" * 16, b"h" * 16)}
    assert condemned.fingerprints.keys() == {b"x" * 16}
    assert keys.destroy(OPERATION).keys == 1
    assert list(keys.rows()) == epochs(0)
    assert keys.held(T, [OWNER]) == [b"h" * 16]
    assert keys.held(U, [OWNER]) == []
    assert keys.lift_hold(b"h" * 16, T, 8)
    assert keys.condemn(OPERATION, T, asked, 9).held == {S: (b"g" * 16,)}
    assert keys.lift_hold(b"g" * 16, T, 9)
    assert keys.condemn(OPERATION, T, asked, 10).held == {}
    assert keys.destroy(OPERATION).keys == 1


@pytest.mark.parametrize("tag", [S, T], ids=["the session", "the tenant"])
def test_a_session_and_its_tenant_are_tags_that_nobody_need_name(keys, tag):
    """D4"""
    keys.put(epochs(0))
    keys.place_hold(b"h" * 16, T, [tag], 5)
    assert keys.condemn(OPERATION, T, [doomed()], 7).held == {S: (b"h" * 16,)}
    assert keys.held(T, [S]) == [b"h" * 16]


def test_a_hold_of_another_tenant_holds_nothing_here(keys):
    """D4, A1"""
    keys.put(epochs(0))
    keys.place_hold(b"h" * 16, U, [S, T, OWNER], 5)
    assert keys.lift_hold(b"h" * 16, T, 6) is False
    assert keys.holds(T) == []
    assert keys.condemn(OPERATION, T, [doomed(tags=[OWNER])], 7).held == {}


def test_a_hold_that_comes_too_late_is_told(keys):
    """D4: decided in keys.db and nowhere else"""
    keys.put([*epochs(0), *epochs(0, scope=b"x" * 16)])
    keys.condemn(OPERATION, T, [doomed()], 7)
    assert keys.place_hold(b"h" * 16, T, [OWNER], 8) == (S,)
    keys.destroy(OPERATION)
    assert keys.place_hold(b"g" * 16, T, [S], 9) == (S,)
    assert keys.place_hold(b"f" * 16, T, [b"x" * 16], 9) == ()
    assert keys.place_hold(b"e" * 16, U, [S], 9) == ()


def test_a_hold_is_placed_once_and_lifted_once(keys):
    """D4"""
    keys.place_hold(b"h" * 16, T, [S, OWNER], 5)
    assert keys.place_hold(b"h" * 16, T, [OWNER, S, S], 6) == ()
    assert keys.holds(T) == [HoldRow(b"h" * 16, T, tag, 5, 0) for tag in (OWNER, S)]
    for tenant, tags in ((T, [S]), (T, [S, OWNER, b"l" * 16]), (U, [S, OWNER])):
        with pytest.raises(Conflict):
            keys.place_hold(b"h" * 16, tenant, tags, 7)
    assert keys.lift_hold(b"h" * 16, T, 8) is True
    assert keys.lift_hold(b"h" * 16, T, 9) is False
    assert {row.lifted_us for row in keys.holds(T)} == {8}
    assert keys.held(T, [S, OWNER]) == []
    with pytest.raises(Conflict):
        keys.place_hold(b"h" * 16, T, [S, OWNER], 10)


def test_a_key_of_another_tenant_is_not_condemned_and_nothing_else_with_it(keys):
    """A1: a mistake of the caller ends here"""
    rows = [*epochs(0), *epochs(0, scope=b"x" * 16)]
    keys.put(rows)
    with pytest.raises(Tampered, match="another tenant's"):
        keys.condemn(OPERATION, U, [doomed(scope=b"a" * 16), doomed()], 7)
    assert list(keys.rows()) == rows
    assert list(keys.tombstones()) == []


def test_tombstones_say_what_was_destroyed_and_by_whom(keys):
    """D6"""
    scopes = [n.to_bytes(16) for n in range(1100)]
    keys.put([key(scope=scope, tenant_id=T) for scope in scopes])
    keys.condemn(OPERATION, T, [doomed(scope=scope) for scope in scopes], 7)
    keys.condemn(ANOTHER, U, [doomed(scope=b"z" * 16)], 8)
    graves = list(keys.tombstones(T))
    assert [(grave.scope, grave.epoch) for grave in graves] == [(s, e) for s in scopes for e in (WHOLE, 0)]
    assert graves[1] == Tombstone("epoch", scopes[0], 0, OWNER, T, mark(key()), OPERATION, 7)
    assert graves[0] == Tombstone("epoch", scopes[0], WHOLE, b"", T, b"", OPERATION, 7)
    assert list(keys.tombstones()) == [*graves, *keys.tombstones(U)]
    assert [grave.operation for grave in keys.tombstones(U)] == [ANOTHER]


def test_a_key_is_put_only_under_the_parent_that_is_there(keys):
    """K3: what is wrapped under a key that was replaced meanwhile could never be opened"""
    parent = key(purpose="tenant", scope=T, owner=b"")
    keys.put([parent])
    assert keys.put(epochs(0), under=parent)
    with pytest.raises(Conflict):
        keys.put(epochs(1), under=replace(parent, wrapped=b"older"))
    keys.condemn(OPERATION, T, [doomed(scope=T, purpose="tenant")], 7)
    with pytest.raises(Erased):
        keys.put(epochs(1), under=parent)
    assert list(keys.rows()) == epochs(0)


def opened(keys):
    """The file itself, as somebody who can write it opens it."""
    ((_, _, path),) = keys._database._writer.execute("PRAGMA database_list").fetchall()
    return sqlite3.connect(path, isolation_level=None)


def test_a_tombstone_cannot_be_changed_or_removed(keys):
    """D6"""
    keys.condemn(OPERATION, T, [doomed()], 7)
    file = opened(keys)
    put_back = "(purpose, scope, epoch, owner, wrapped) SELECT purpose, scope, 8, x'', x'' FROM destroyed"
    for change in (
        "DELETE FROM destroyed",
        "UPDATE destroyed SET epoch = 5",
        f"INSERT INTO keys {put_back}",
        f"INSERT OR REPLACE INTO keys {put_back}",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            file.execute(change)
    file.close()


def test_a_destroyed_key_that_is_put_back_by_force_is_not_used(keys):
    """D5: an old copy of the row, its trigger dropped"""
    rows = epochs(0, 1)
    keys.put(rows)
    keys.condemn(OPERATION, T, [doomed(1)], 7)
    keys.destroy(OPERATION)
    file = opened(keys)
    file.execute("DROP TRIGGER keys_stay_destroyed")
    file.execute(
        "INSERT INTO keys (purpose, scope, epoch, owner, wrapped, tenant_id) VALUES ('epoch', ?, 1, ?, ?, ?)",
        (S, OWNER, rows[1].wrapped, T),
    )
    assert keys.get("epoch", S, 1, OWNER) is None
    assert list(keys.rows()) == rows[:1]
    keys.condemn(ANOTHER, T, [doomed()], 8)
    keys.destroy(ANOTHER)
    file.execute(
        "INSERT INTO keys (purpose, scope, epoch, owner, wrapped, tenant_id) VALUES ('epoch', ?, 7, ?, ?, ?)",
        (S, OWNER, rows[1].wrapped, T),
    )
    assert keys.get("epoch", S, 7, OWNER) is None
    assert list(keys.rows()) == []
    file.close()


def found_in_files(keys, wanted):
    ((_, _, path),) = keys._database._writer.execute("PRAGMA database_list").fetchall()
    files = [Path(path + ending) for ending in ("", "-wal", "-shm")]
    content = b"".join(file.read_bytes() for file in files if file.exists())
    return [one for one in wanted if one in content]


def test_nothing_of_a_destroyed_key_is_left_in_the_files(keys):
    """D5: the file, its write-ahead log and the log's index"""
    rows = [key(scope=n.to_bytes(16), wrapped=os.urandom(105), tenant_id=T) for n in range(300)]
    keys.put(rows)
    wrapped = [row.wrapped for row in rows]
    assert found_in_files(keys, wrapped) == wrapped
    assert keys.condemn(OPERATION, T, [doomed(scope=row.scope) for row in rows[::2]], 7).held == {}
    assert found_in_files(keys, wrapped) == wrapped
    assert keys.destroy(OPERATION).truncated
    assert found_in_files(keys, wrapped) == wrapped[1::2]
    assert found_in_files(keys, [wrapped[0][n : n + 16] for n in range(89)]) == []
    assert found_in_files(keys, [mark(rows[0])])


def test_a_reader_that_keeps_an_old_state_is_told_and_the_log_emptied_later(keys):
    """D5: the result of the checkpoint is the receipt's"""
    rows = [key(wrapped=os.urandom(105), tenant_id=T)]
    keys.put(rows)
    reader = opened(keys)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM keys").fetchone()
    keys.condemn(OPERATION, T, [doomed()], 7)
    assert keys.destroy(OPERATION) == Destroyed(keys=1, truncated=False)
    assert found_in_files(keys, [rows[0].wrapped])
    reader.execute("COMMIT")
    assert keys.destroy(OPERATION) == Destroyed(keys=0, truncated=True)
    assert not found_in_files(keys, [rows[0].wrapped])
    reader.close()


def test_twenty_five_thousand_keys_are_condemned_at_once(keys):
    """D5: one transaction, about a second"""
    scopes = [os.urandom(16) for _ in range(25_000)]
    keys.put([key(scope=scope, tenant_id=T) for scope in scopes])
    condemned = keys.condemn(OPERATION, T, [doomed(scope=scope, tags=[OWNER]) for scope in scopes], 7)
    assert condemned.fingerprints.keys() == set(scopes)
    assert keys.destroy(OPERATION) == Destroyed(keys=25_000, truncated=True)
    assert list(keys.rows()) == []


def test_what_was_erased_before_is_condemned_again_whatever_is_held(keys):
    """D4, D6: the holds of an old copy are as old as it is"""
    keys.put(epochs(0))
    keys.place_hold(b"h" * 16, T, [S], 5)
    assert keys.condemn(OPERATION, T, [doomed()], 7).held == {S: (b"h" * 16,)}
    assert keys.condemn(OPERATION, T, [doomed()], 7, again=True).held == {}
    assert keys.destroy(OPERATION).keys == 1
    assert keys.held(T, [S]) == [b"h" * 16]


def test_graves_are_scopes_that_were_destroyed_as_a_whole(keys):
    """D6"""
    keys.put(epochs(0, 1))
    keys.condemn(OPERATION, T, [doomed(1)], 7)
    assert keys.graves() == set()
    keys.condemn(OPERATION, T, [doomed()], 7)
    assert keys.graves() == {S}
