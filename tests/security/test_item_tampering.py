"""What somebody without keys does to derived items is refused, or found by verification (K1, K2, K4, D4).

Invariants 6, 8 and 16. What is *not* found is stated here too: `test_an_older_version_put_back_whole`.
"""

import contextlib
import hashlib
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.security import surgery
from tests.security.test_canaries import canary, found_in
from vault import Principal, Vault
from vault.derived.sources import Source, encode
from vault.derived.verification import ItemsVerification
from vault.errors import InvalidInput, KeyUnavailable, NotFound, Tampered, VaultError
from vault.ports.items import ItemRow
from vault.sealing.item_rows import STATES
from vault.storage.statements import STATEMENTS

ALICE = Principal(tenant="acme", subject="alice", roles={"agent", "owner"})
BOB = Principal(tenant="acme", subject="bob")
EVE = Principal(tenant="other", subject="alice")
NOISE = hashlib.shake_256(b"noise").digest(100_000)


def raw(item_id):
    return bytes.fromhex(item_id[4:].replace("-", ""))


@dataclass
class Made:
    place: object
    ids: dict
    before: dict  # the row of the first version as it was while it was the newest


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A closed vault: ``a`` in two versions, ``b`` from it, a large file, and what others have."""
    place = tmp_path_factory.mktemp("template") / "the.vault"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place.parent / "state"))
        return filled(place)


@pytest.fixture
def made(template, place):
    """A copy of it of one's own."""
    surgery.copied(template.place, place)
    return Made(place, template.ids, template.before)


def filled(place):
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        alice, ids = vault.access(ALICE), {}
        session, other = alice.sessions.create(), alice.sessions.create()
        ids |= {"session": session.id, "other": other.id}
        ids["a1"] = alice.memories.put((), "a", "old", sources=[session]).id
        with surgery.opened(place) as connection:
            (before,) = surgery.rows_as_dicts(connection, "SELECT * FROM items")
        ids["a"] = alice.memories.put((), "a", "new", sources=[session]).id
        ids["b"] = alice.memories.put((), "b", "from a", sources=[ids["a"]]).id
        ids["c"] = alice.memories.put(
            (), "c", "from any", sources=[session, other], on_source_erased="erase_with_last"
        ).id
        ids["f"] = alice.artifacts.put("f", NOISE, sources=[session]).id
        for name, principal in (("bob", BOB), ("eve", EVE)):
            access = vault.access(principal)
            ids[name] = access.memories.put((), "a", name, sources=[access.sessions.create()]).id
        assert findings(vault) == {}
        assert vault.verify().ok
    return Made(place, ids, before)


READS = {
    "get a": lambda access: access.memories.get((), "a").value,
    "get b": lambda access: access.memories.get((), "b").value,
    "get c": lambda access: access.memories.get((), "c").value,
    "list": lambda access: [one.value for one in access.memories.list()],
    "search": lambda access: [one.value for one in access.memories.search(text="from")],
    "history": lambda access: [one.value for one in access.memories.history((), "a")],
    "file": lambda access: access.artifacts.get("f").open().read(),
    "files": lambda access: [one.bytes for one in access.artifacts.list()],
}
GENUINE = {
    "get a": "new",
    "get b": "from a",
    "get c": "from any",
    "list": ["new", "from a", "from any"],
    "search": ["from any", "from a"],
    "history": ["new", "old"],
    "file": NOISE,
    "files": [100_000],
}


def outcomes(vault, principal=ALICE):
    """What each read says: its value, or the class of the error."""
    said = {}
    for name, read in READS.items():
        try:
            said[name] = read(vault.access(principal))
        except VaultError as error:
            said[name] = type(error)
    return said


def findings(vault):
    checks = ItemsVerification(vault._log)
    return dict(Counter(found.kind for found in checks.run()))


@contextlib.contextmanager
def edited(made):
    """Edit the closed vault's database, then open it."""
    with surgery.opened(made.place) as connection:
        yield connection


def row_of(connection, item_id):
    (row,) = surgery.rows_as_dicts(connection, "SELECT * FROM items WHERE item_id = ?", raw(item_id))
    return row


def change(connection, item_id, /, **values):
    surgery.update(connection, "items", {"item_id": raw(item_id)}, **values)


def exchange(connection, one, two, *columns):
    first, second = row_of(connection, one), row_of(connection, two)
    for column in columns:
        change(connection, one, **{column: hashlib.sha256(str(column).encode()).digest()[:16]})
    change(connection, two, **{column: first[column] for column in columns})
    change(connection, one, **{column: second[column] for column in columns})


def another(column, value):
    if column == "state":
        return next(state for state in STATES if state != value)
    if column == "hung":
        return "last" if value != "last" else "any"
    if column == "kind":
        return "cache"
    if isinstance(value, int):
        return value + 1
    if column == "retention":
        return b""
    return surgery.flipped(value, len(value) // 2)


#: Columns that no read goes by.
UNREAD = {"no", "due_hour"}


@pytest.mark.parametrize("column", [column for column in ItemRow._fields if column not in UNREAD])
def test_every_column_of_an_item_is_under_its_seal(column, made):
    """Invariant 6: a read gives what was put, or refuses; verification says where."""
    with edited(made) as connection:
        row = row_of(connection, made.ids["a"])
        change(connection, made.ids["a"], **{column: another(column, row[column])})
    with Vault.open(made.place) as vault:
        said = outcomes(vault)
        assert said["get a"] in {Tampered, NotFound, KeyUnavailable}
        for name, value in said.items():
            if isinstance(
                value, list
            ):  # what is not found by its names is left out, and nothing else is shown
                assert all(one in GENUINE[name] for one in value), name
            else:
                assert value in (GENUINE[name], Tampered, NotFound, KeyUnavailable), name
        assert findings(vault)


def test_what_is_to_happen_when_a_source_goes_cannot_be_changed(made):
    """Two of the rules hang alike, so that only the row's MAC tells them apart."""
    for rule in ("recompute", "last", "free"):
        with edited(made) as connection:
            change(connection, made.ids["a"], hung=rule)
        with Vault.open(made.place) as vault:
            assert outcomes(vault)["get a"] is Tampered, rule
            assert findings(vault)["item_row"] >= 1


def test_the_hour_of_the_sweep_cannot_be_put_off(made):
    with edited(made) as connection:
        change(connection, made.ids["a"], due_hour=2**40)
    with Vault.open(made.place) as vault:
        assert findings(vault) == {"item_row": 1}


@pytest.mark.parametrize(
    ("one", "two", "columns"),
    [
        ("a", "bob", ["owner"]),
        ("a", "bob", ["owner", "no"]),
        ("a", "eve", ["tenant_id"]),
        ("a", "eve", ["tenant_id", "owner"]),
        ("a", "b", ["name"]),
        ("a", "b", ["name", "space"]),
        ("a", "b", ["body"]),
        ("a", "b", ["body", "address", "size"]),
        ("a", "b", ["about"]),
        ("a", "b", ["about", "body", "address", "size"]),
        ("a", "b", ["mac"]),
        ("a", "b", ["sources"]),
        ("a", "a1", ["version"]),
        ("a", "a1", ["state"]),
        ("a", "a1", ["body", "address", "size", "about", "mac"]),
        ("a", "b", ["item_id"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else value,
)
def test_what_was_exchanged_between_rows_is_refused(one, two, columns, made):
    with edited(made) as connection:
        surgery.without_rules(connection, "items")
        connection.execute("PRAGMA foreign_keys = OFF")
        exchange(connection, made.ids[one], made.ids[two], *columns)
    with Vault.open(made.place) as vault:
        said = outcomes(vault)
        assert said["get a"] in {Tampered, NotFound, KeyUnavailable}
        for principal, value in ((BOB, "bob"), (EVE, "eve")):
            assert outcomes(vault, principal)["get a"] in {value, Tampered, NotFound, KeyUnavailable}
        assert findings(vault)


@pytest.mark.parametrize("who", [BOB, EVE], ids=["owner", "tenant"])
def test_a_row_given_to_somebody_else_opens_for_nobody(who, made):
    """Invariant 16: the owner is bound into the key, so a forged row passes no check."""
    with edited(made) as connection:
        theirs = row_of(connection, made.ids["bob" if who is BOB else "eve"])
        connection.execute("DELETE FROM items WHERE item_id = ?", (theirs["item_id"],))
        change(
            connection,
            made.ids["a"],
            tenant_id=theirs["tenant_id"],
            owner=theirs["owner"],
            name=theirs["name"],
        )
    with Vault.open(made.place) as vault:
        with pytest.raises((Tampered, NotFound, KeyUnavailable)):
            vault.access(who).memories.get((), "a")
        assert findings(vault)


def test_a_state_alone_brings_no_older_version_back(made):
    with edited(made) as connection:
        change(connection, made.ids["a1"], state="live")
        connection.execute("DELETE FROM items WHERE item_id = ?", (raw(made.ids["a"]),))
    with Vault.open(made.place) as vault:
        assert outcomes(vault)["get a"] is Tampered


def test_an_older_row_put_back_beside_the_newer_one_is_found(made):
    with edited(made) as connection:
        change(connection, made.ids["a1"], **made.before)
    with Vault.open(made.place) as vault:
        assert outcomes(vault)["get a"] == "new"
        assert findings(vault) == {"item_version": 1}


def test_an_older_version_put_back_whole(made):
    """Said honestly: where every trace of the newer version is removed too, a read takes the older one.

    Only its key in keys.db still tells of it. Sessions have no such gap: their heads are in the ledger.
    """
    with edited(made) as connection:
        for item_id in (made.ids["a"], made.ids["b"]):
            connection.execute("DELETE FROM items WHERE item_id = ?", (raw(item_id),))
        connection.execute("DELETE FROM lineage WHERE item_no NOT IN (SELECT no FROM items)")
        change(connection, made.ids["a1"], **made.before)
    with Vault.open(made.place) as vault:
        assert outcomes(vault)["get a"] == "old"
        checks = ItemsVerification(vault._log)
        assert list(checks.run()) == []
        keys = [row.scope for row in vault._store.rows() if row.purpose == "item"]
        assert checks.unused_keys(keys) == 2


@pytest.mark.parametrize("what", ["a", "f"])
def test_removing_an_item_leaves_its_key_and_whatever_came_from_it(what, made):
    with edited(made) as connection:
        connection.execute("DELETE FROM items WHERE item_id = ?", (raw(made.ids[what]),))
    with Vault.open(made.place) as vault:
        found = findings(vault)
        assert found["lineage"] >= 1
        # What is derived from it hangs on it, so that it is missed by name.
        assert found.get("item_source", 0) == (what == "a")
        checks = ItemsVerification(vault._log)
        list(checks.run())
        assert checks.unused_keys([row.scope for row in vault._store.rows() if row.purpose == "item"]) == 1


def test_a_lineage_row_that_was_removed_is_found_and_saves_nothing(made):
    """Invariant 9: the cascade does not find the item, its key is gone all the same."""
    with edited(made) as connection:
        for name in ("a1", "a", "f"):
            (number,) = connection.execute(
                "SELECT no FROM items WHERE item_id = ?", (raw(made.ids[name]),)
            ).fetchone()
            connection.execute("DELETE FROM lineage WHERE item_no = ?", (number,))
    with Vault.open(made.place) as vault:
        assert findings(vault) == {"lineage": 3}
        assert outcomes(vault) == GENUINE  # its keys are in memory now
        vault.access(ALICE).erasure.erase(session=made.ids["session"])
        gone = {"get a", "get b", "file"}
        assert {name for name, said in outcomes(vault).items() if said is NotFound} == gone
        assert outcomes(vault)["list"] == ["from any"]
        assert findings(vault)["item_source"] >= 3
    with Vault.open(made.place) as vault:
        assert {name for name, said in outcomes(vault).items() if said is NotFound} == gone


def test_a_forged_lineage_row_is_found_and_not_shown(made):
    with edited(made) as connection:
        (number,) = connection.execute(
            "SELECT no FROM items WHERE item_id = ?", (raw(made.ids["b"]),)
        ).fetchone()
        connection.execute("INSERT INTO lineage VALUES (?, ?)", (raw(made.ids["other"]), number))
        connection.execute("INSERT INTO lineage VALUES (?, ?)", (raw(made.ids["other"]), 4711))
    with Vault.open(made.place) as vault:
        assert findings(vault) == {"lineage": 2}
        with pytest.raises(Tampered):
            vault.access(ALICE).derived.lineage(made.ids["other"])
        assert vault.access(ALICE).derived.lineage(made.ids["b"]).id == made.ids["b"]


@pytest.mark.parametrize(
    "said",
    [
        lambda ids: encode([Source("session", raw(ids["other"]), 0)]),
        lambda ids: encode([Source("session", raw(ids["session"]), 1)]),
        lambda ids: encode([Source("event", raw(ids["session"]), 0, bytes(16))]),
        lambda ids: encode([Source("memory", raw(ids["a"]), 0)]),
        lambda ids: encode([Source("memory", raw(ids["b"]), 0)]),
        lambda ids: encode([Source("memory", raw(ids["bob"]), 0)]),
        lambda ids: encode([Source("session", raw(ids["session"]), 0, b"", 2)]),
        lambda ids: encode([Source("session", raw(ids["session"]), 0)] * 257),
        lambda ids: b"",
        lambda ids: bytes(4),
        lambda ids: encode([Source("session", raw(ids["session"]), 0)])[:-1],
        lambda ids: encode([Source("session", raw(ids["session"]), 0)]) + b"\0",
        lambda ids: b"\xff" * 40,
    ],
    ids=[
        "other",
        "epoch",
        "event",
        "itself",
        "circle",
        "bob's",
        "cites",
        "many",
        "empty",
        "none",
        "cut",
        "more",
        "noise",
    ],
)
def test_forged_sources_are_refused_and_end(said, made):
    with edited(made) as connection:
        change(connection, made.ids["a"], sources=said(made.ids))
    with Vault.open(made.place) as vault:
        assert outcomes(vault)["get a"] in {Tampered, NotFound, KeyUnavailable}
        assert outcomes(vault)["get b"] in {Tampered, NotFound, KeyUnavailable}
        assert findings(vault)


def test_a_key_of_another_item_or_owner_opens_nothing(made):
    for name in ("b", "c", "a1", "bob", "eve"):
        copy = surgery.copied(made.place, made.place.parent / name)
        with surgery.opened(copy, "keys.db") as connection:
            query = "SELECT wrapped FROM keys WHERE scope = ? AND purpose = 'item'"
            ((theirs,), *_) = connection.execute(query, (raw(made.ids[name]),)).fetchall()
            surgery.update(connection, "keys", {"scope": raw(made.ids["a"])}, wrapped=theirs)
        with Vault.open(copy) as vault:
            assert outcomes(vault)["get a"] is Tampered, name
            assert findings(vault)


@pytest.mark.parametrize("how", ["changed", "cut", "removed", "exchanged"])
def test_a_body_in_the_blob_area_is_the_one_that_was_put(how, made):
    (file,) = (made.place / "blobs").glob("??/*")
    content = file.read_bytes()
    if how == "removed":
        file.unlink()
    else:
        file.write_bytes(
            {"changed": surgery.flipped(content, 50_000), "cut": content[:-1], "exchanged": b"x"}[how]
        )
    with Vault.open(made.place) as vault:
        assert outcomes(vault)["file"] is Tampered
        assert outcomes(vault)["get a"] == "new"
        assert findings(vault) == {"item_body": 1}
        checks = ItemsVerification(vault._log, with_keys=False)
        assert [found.kind for found in checks.run()] == ["item_body"]


@pytest.mark.parametrize("table", ["items", "lineage"])
def test_a_planted_trigger_that_swallows_a_row_is_not_acknowledged(table, made):
    with edited(made) as connection:
        connection.execute(f"CREATE TRIGGER gone BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END")
    with Vault.open(made.place) as vault, pytest.raises(Tampered):
        vault.access(ALICE).memories.put((), "d", 1, sources=[made.ids["session"]])


def test_a_planted_trigger_that_keeps_a_version_live_is_not_acknowledged(made):
    with edited(made) as connection:
        connection.execute("CREATE TRIGGER kept BEFORE UPDATE ON items BEGIN SELECT RAISE(IGNORE); END")
    with Vault.open(made.place) as vault:
        with pytest.raises(Tampered):
            vault.access(ALICE).memories.put((), "a", 1, sources=[made.ids["session"]])
        assert outcomes(vault)["get a"] == "new"


def test_an_item_that_is_fenced_without_an_erasure_is_found(made):
    with edited(made) as connection:
        change(connection, made.ids["a"], state="erasing")
    with Vault.open(made.place) as vault:
        assert outcomes(vault)["get a"] is NotFound
        assert findings(vault)["item_row"] == 1
    with edited(made) as connection:
        change(connection, made.ids["a"], due_hour=1)  # as of one that a hold keeps, which the sweep looks at
    with Vault.open(made.place) as vault:
        assert "item_row" not in findings(vault)


def test_without_keys_what_is_public_is_still_checked(made):
    with edited(made) as connection:
        change(connection, made.ids["a"], body=surgery.flipped(row_of(connection, made.ids["a"])["body"], 20))
        change(connection, made.ids["b"], sources=b"")
    with Vault.open(made.place) as vault:
        checks = ItemsVerification(vault._log, with_keys=False)
        assert sorted(found.kind for found in checks.run()) == ["item_body", "item_row"]


# -------------------------------------------------------------------------------------- canaries


FIELDS = ("space", "key", "value", "label", "reason", "name", "media", "small", "large", "refused")


def test_nothing_of_an_item_is_at_rest_in_clear(place):
    """K1, invariant 13"""
    words = {field: canary(field) for field in FIELDS}
    with Vault.create(place) as vault:
        alice = vault.access(ALICE)
        session = alice.sessions.create()
        common = {"sources": [session], "labels": {words["label"]: words["label"]}, "reason": words["reason"]}
        memory = alice.memories.put(
            (words["space"],), words["key"], {words["value"]: words["value"]}, **common
        )
        file = alice.artifacts.put(
            words["name"], words["small"].encode(), media_type=words["media"], **common
        )
        large = words["large"].encode() + NOISE
        alice.artifacts.put("large", large, **common)
        with pytest.raises(InvalidInput) as refused:
            alice.memories.put((words["refused"],), "a", {words["refused"]: float("nan")}, sources=[session])
        assert alice.memories.search(text=words["value"]) == [memory]
        said = [repr(memory), repr(file), str(refused.value), repr(alice.derived.lineage(memory.id))]
        assert found_in(place, words) == set()
        for text in said:
            assert not any(word in text for word in words.values())
    assert found_in(place, words) == set()


def test_an_index_that_answers_with_another_row_is_refused(made):
    with edited(made) as connection:
        a, b = row_of(connection, made.ids["a"]), row_of(connection, made.ids["b"])
        lies = {a["no"]: b["name"], b["no"]: bytes(16)}
        surgery.lying_index(connection, "items", "items_by_name", "name", lies)
    with Vault.open(made.place) as vault:
        assert outcomes(vault)["get b"] is Tampered
        with pytest.raises(Tampered):
            vault.access(ALICE).memories.history((), "b")
        with pytest.raises(Tampered):
            vault.access(ALICE).memories.put((), "b", 1, sources=[made.ids["session"]])


@pytest.mark.parametrize(
    ("statement", "asked", "answered", "reads"),
    [
        ("newest_item", "AND name = :name", "AND name <> :name", ["get a", "get b", "file"]),
        ("versions_of_item", "AND name = :name", "AND name <> :name", ["history"]),
        ("item", "item_id = :item_id", "item_id <> :item_id", ["get b", "list", "search"]),
    ],
    ids=["name", "versions", "id"],
)
def test_a_database_that_answers_with_another_genuine_row_is_refused(
    statement, asked, answered, reads, made, monkeypatch
):
    """Invariant 6: the reader checks the identity that it asked for."""
    assert STATEMENTS[statement].count(asked) == 1
    with Vault.open(made.place) as vault:
        monkeypatch.setitem(STATEMENTS, statement, STATEMENTS[statement].replace(asked, answered))
        said = outcomes(vault)
        assert {name: said[name] for name in reads} == dict.fromkeys(reads, Tampered)
