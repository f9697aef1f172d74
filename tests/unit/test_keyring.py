"""The root key's places: a file that only its owner can read, or a passphrase; wrong ones say so (K3)."""

# ruff: noqa: S608 - the names in the statements are the tests' own

import base64
import json
import os
import shutil
import sqlite3
import traceback

import pytest

from vault import Principal, Vault, data
from vault.errors import (
    InvalidInput,
    KeyUnavailable,
    StorageUnavailable,
    Tampered,
    VaultError,
    VaultExists,
    WrongKey,
)
from vault.keyring import file as key_file

ALICE = Principal(tenant="acme", subject="alice")
PASSPHRASE, OTHER = "correct horse battery", "incorrect horse battery"


@pytest.fixture(autouse=True)
def state_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def place(tmp_path):
    return tmp_path / "the.vault"


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A closed vault behind a passphrase, made once: stretching takes half a second by design."""
    home = tmp_path_factory.mktemp("locked")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        filled(home / "the.vault", root="passphrase:", passphrase=PASSPHRASE)
    return home / "the.vault"


@pytest.fixture
def behind_passphrase(locked, place):
    shutil.copytree(locked, place)
    return place


def filled(place, **options) -> None:
    with Vault.create(place, **options) as vault:
        vault.access(ALICE).sessions.create(external_id="it").append("note.made", {"text": "kept"})


def said(place, **options) -> list:
    """What the vault holds, read as a fresh process would."""
    with Vault.open(place, **options) as vault:
        return [event.payload for event in vault.access(ALICE).sessions.resume_external("it").events()]


def refusal(error_class: type[VaultError], place, **options) -> VaultError:
    """The error of opening: exactly of this class, one sentence, without a secret or a path in it."""
    with pytest.raises(error_class) as caught:
        Vault.open(place, **options).close()
    error = caught.value
    assert type(error) is error_class
    text = str(error)
    assert len(text.splitlines()) == 1
    shown = "".join(traceback.format_exception(error)[-1:]) + repr(error.args)
    for secret in (PASSPHRASE, OTHER, str(place), place.name):
        assert secret not in shown
    return error


def record_of(place) -> dict:
    with sqlite3.connect(place / "keys.db") as connection:
        (record,) = connection.execute("SELECT record FROM root").fetchone()
    connection.close()
    return json.loads(record)


def change_root(place, **values) -> None:
    with sqlite3.connect(place / "keys.db") as connection:
        for name, value in values.items():
            connection.execute(f"UPDATE root SET {name} = ?", (value,))
    connection.close()


# ------------------------------------------------------------------------------------------- key file


def test_the_key_file_is_made_for_its_owner_alone_whatever_the_umask(place):
    before = os.umask(0)
    try:
        filled(place)
    finally:
        os.umask(before)
    assert (place / "root.key").stat().st_mode & 0o777 == 0o600
    assert place.stat().st_mode & 0o077 == 0
    assert said(place) == [{"text": "kept"}]
    assert (place / "root.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o610, 0o601, 0o602, 0o777], ids=oct)
def test_a_key_file_that_others_can_reach_is_refused(place, mode):
    filled(place)
    (place / "root.key").chmod(mode)
    error = refusal(KeyUnavailable, place)
    assert f"{mode:04o}" in str(error)
    assert "chmod 600" in str(error)
    (place / "root.key").chmod(0o600)
    assert said(place) == [{"text": "kept"}]


def test_a_key_file_that_is_read_only_is_fine(place):
    filled(place)
    (place / "root.key").chmod(0o400)
    assert said(place) == [{"text": "kept"}]


def test_a_missing_key_file_is_named(place):
    filled(place)
    (place / "root.key").unlink()
    assert "missing" in str(refusal(KeyUnavailable, place))


def test_something_else_in_the_place_of_the_key_file_is_refused(place):
    filled(place)
    (place / "root.key").unlink()
    (place / "root.key").mkdir(mode=0o700)
    refusal(KeyUnavailable, place)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"session-vault root key, version 1\n",
        b"session-vault root key, version 1\n" + base64.b64encode(bytes(31)) + b"\n",
        b"session-vault root key, version 1\n" + base64.b64encode(bytes(33)) + b"\n",
        b"session-vault root key, version 1\nnot base64 at all!\n",
        b"session-vault root key, version 2\n" + base64.b64encode(bytes(32)) + b"\n",
        base64.b64encode(bytes(32)) + b"\n",
        bytes(32),
        b"\xff\xfe\x00" * 3_000,
    ],
    ids=["empty", "header", "short", "long", "not base64", "version", "no header", "binary", "not ASCII"],
)
def test_a_malformed_key_file_is_called_one(place, content):
    filled(place)
    (place / "root.key").write_bytes(content)
    assert "is not a session-vault root key" in str(refusal(WrongKey, place))


def test_another_vaults_key_file_opens_nothing(place, tmp_path):
    filled(place)
    filled(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "root.key", place / "root.key")
    assert "does not open this vault's keys" in str(refusal(WrongKey, place))


def test_every_byte_of_the_key_counts(place):
    filled(place)
    header, encoded = (place / "root.key").read_bytes().splitlines()
    key = base64.b64decode(encoded)
    for at in range(len(key)):
        changed = key[:at] + bytes([key[at] ^ 1]) + key[at + 1 :]
        (place / "root.key").write_bytes(header + b"\n" + base64.b64encode(changed) + b"\n")
        with pytest.raises(WrongKey):
            Vault.open(place)


def test_the_key_file_can_stand_elsewhere_and_nothing_of_it_stays_inside(place, tmp_path):
    elsewhere = tmp_path / "safe" / "the.key"
    elsewhere.parent.mkdir()
    filled(place, root=f"file:{elsewhere}")
    assert said(place) == [{"text": "kept"}]
    encoded = elsewhere.read_bytes().splitlines()[1]
    inside = b"".join(file.read_bytes() for file in place.rglob("*") if file.is_file())
    assert encoded not in inside
    assert base64.b64decode(encoded) not in inside
    elsewhere.rename(tmp_path / "lost")
    refusal(KeyUnavailable, place)


def test_a_key_file_is_never_made_over_a_file_that_is_there(place, tmp_path):
    there = tmp_path / "precious"
    there.write_text("do not lose me")
    with pytest.raises(KeyUnavailable):
        Vault.create(place, root=f"file:{there}")
    assert there.read_text() == "do not lose me"
    assert not (place / "data.db").exists()


def test_a_vault_is_never_made_over_a_vault(place):
    filled(place)
    key = (place / "root.key").read_bytes()
    with pytest.raises(VaultExists):
        Vault.create(place)
    assert (place / "root.key").read_bytes() == key
    assert said(place) == [{"text": "kept"}]


@pytest.mark.parametrize("root", ["", "vault:", "passphrase:now", "pkcs11:x", "root.key"])
def test_an_unknown_place_of_the_root_key_is_refused(place, root):
    with pytest.raises(InvalidInput):
        Vault.create(place, root=root, passphrase=PASSPHRASE)


# ----------------------------------------------------------------------------------------- passphrase


def test_a_passphrase_opens_the_vault_and_no_key_file_is_there(behind_passphrase):
    assert not (behind_passphrase / "root.key").exists()
    assert said(behind_passphrase, passphrase=PASSPHRASE) == [{"text": "kept"}]
    assert said(behind_passphrase, passphrase=lambda: PASSPHRASE) == [{"text": "kept"}]


def test_a_wrong_passphrase_is_one_clear_error(behind_passphrase):
    assert str(refusal(WrongKey, behind_passphrase, passphrase=OTHER)) == "the passphrase is wrong"
    refusal(WrongKey, behind_passphrase, passphrase=PASSPHRASE + " ")


def test_no_passphrase_is_another_clear_error(behind_passphrase):
    assert "passphrase" in str(refusal(KeyUnavailable, behind_passphrase))
    refusal(InvalidInput, behind_passphrase, passphrase="")
    refusal(InvalidInput, behind_passphrase, passphrase=lambda: "")


@pytest.mark.parametrize("given", [None, "", "7 chars"])
def test_a_vault_is_not_made_behind_no_or_a_short_passphrase(place, given):
    with pytest.raises(InvalidInput):
        Vault.create(place, root="passphrase:", passphrase=given)
    filled(place, root="passphrase:", passphrase="8 chars!")
    assert said(place, passphrase="8 chars!") == [{"text": "kept"}]


def test_the_passphrase_is_asked_for_once_when_a_vault_is_made(place):
    asked = []

    def ask() -> str:
        asked.append(1)
        return PASSPHRASE

    Vault.create(place, root="passphrase:", passphrase=ask).close()
    assert len(asked) == 1


def test_the_work_factor_is_stored_and_is_that_of_rfc_9106(behind_passphrase):
    record = record_of(behind_passphrase)
    assert (record["passes"], record["lanes"], record["memory_kib"]) == (3, 4, 64 * 1024)
    assert len(bytes.fromhex(record["salt"])) == 16


def test_two_vaults_behind_one_passphrase_share_no_salt_and_no_wrap(behind_passphrase, tmp_path):
    filled(tmp_path / "other", root="passphrase:", passphrase=PASSPHRASE)
    one, two = record_of(behind_passphrase), record_of(tmp_path / "other")
    assert one["salt"] != two["salt"]
    assert one["wrapped"] != two["wrapped"]


@pytest.mark.parametrize(
    "change",
    [
        {"passes": 0},
        {"passes": 17},
        {"passes": 2**40},
        {"lanes": 0},
        {"lanes": 17},
        {"memory_kib": 31},
        {"memory_kib": 2**22},
        {"memory_kib": 2**70},
        {"memory_kib": -1},
        {"passes": "many"},
        {"passes": None},
        {"salt": "not hexadecimal"},
        {"salt": 7},
        {"salt": ""},
        {"wrapped": "zz"},
        {"wrapped": None},
    ],
    ids=str,
)
def test_a_stored_record_that_cannot_be_ours_is_refused_before_any_work(behind_passphrase, change):
    change_root(behind_passphrase, record=json.dumps(record_of(behind_passphrase) | change).encode())
    refusal(Tampered, behind_passphrase, passphrase=PASSPHRASE)


@pytest.mark.parametrize("record", [b"", b"{}", b"[]", b"null", b"{", b"\xff", b'"text"'])
def test_a_damaged_record_is_refused(behind_passphrase, record):
    change_root(behind_passphrase, record=record)
    refusal(Tampered, behind_passphrase, passphrase=PASSPHRASE)


@pytest.mark.parametrize("name", ["salt", "wrapped"])
def test_a_changed_record_looks_like_a_wrong_passphrase_and_opens_nothing(behind_passphrase, name):
    record = record_of(behind_passphrase)
    changed = bytearray.fromhex(record[name])
    changed[-1] ^= 1
    change_root(behind_passphrase, record=json.dumps(record | {name: changed.hex()}).encode())
    refusal(WrongKey, behind_passphrase, passphrase=PASSPHRASE)


def test_a_rotated_passphrase_refuses_the_old_one_and_keeps_every_byte_of_data(behind_passphrase):
    data = (behind_passphrase / "data.db").read_bytes()
    with Vault.open(behind_passphrase, passphrase=PASSPHRASE) as vault:
        vault.rotate_passphrase(lambda: OTHER)
    assert (behind_passphrase / "data.db").read_bytes() == data
    refusal(WrongKey, behind_passphrase, passphrase=PASSPHRASE)
    assert said(behind_passphrase, passphrase=OTHER) == [{"text": "kept"}]


def test_a_refused_new_passphrase_leaves_the_old_one_in_force(behind_passphrase):
    with Vault.open(behind_passphrase, passphrase=PASSPHRASE) as vault:
        for bad in ("", None, "7 chars"):
            with pytest.raises(InvalidInput):
                vault.rotate_passphrase(bad)
    assert said(behind_passphrase, passphrase=PASSPHRASE) == [{"text": "kept"}]


def test_a_vault_with_a_key_file_has_no_passphrase_to_rotate(place):
    filled(place)
    with Vault.open(place) as vault, pytest.raises(InvalidInput):
        vault.rotate_passphrase(PASSPHRASE)


# ------------------------------------------------------------------------------------- the key store


def test_the_key_store_of_another_vault_is_refused(place, tmp_path):
    filled(place)
    filled(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "keys.db", place / "keys.db")
    assert "another vault" in str(refusal(KeyUnavailable, place))


def test_key_store_and_root_key_of_another_vault_are_refused_together(place, tmp_path):
    filled(place)
    filled(tmp_path / "other")
    for name in ("keys.db", "root.key"):
        shutil.copy(tmp_path / "other" / name, place / name)
    refusal(KeyUnavailable, place)


def test_the_data_of_another_vault_is_refused(place, tmp_path):
    filled(place)
    filled(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "data.db", place / "data.db")
    assert "not of this vault" in str(refusal(Tampered, place))


def test_the_settings_of_another_vault_are_refused(place, tmp_path):
    filled(place)
    filled(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "vault.toml", place / "vault.toml")
    refusal(KeyUnavailable, place)


@pytest.mark.parametrize("name", ["keys.db", "data.db"])
def test_a_missing_database_is_named_and_not_made_anew(place, name):
    filled(place)
    (place / name).rename(place / "elsewhere")
    with pytest.raises(StorageUnavailable, match=f"{name} is missing"):
        Vault.open(place)
    assert not (place / name).exists()
    (place / "elsewhere").rename(place / name)
    assert said(place) == [{"text": "kept"}]


def test_an_empty_key_store_is_refused(place):
    filled(place)
    (place / "keys.db").write_bytes(b"")
    refusal(KeyUnavailable, place)


def test_a_provider_that_this_version_does_not_know_is_refused(place):
    filled(place)
    change_root(place, provider="tpm")
    refusal(KeyUnavailable, place)


@pytest.mark.parametrize("purpose", ["vault", "signing", "tenant", "index", "epoch"])
def test_without_any_one_key_nothing_is_read(place, purpose):
    filled(place)
    with sqlite3.connect(place / "keys.db") as connection:
        connection.execute("DELETE FROM keys WHERE purpose = ?", (purpose,))
    connection.close()
    with pytest.raises((KeyUnavailable, Tampered)):
        said(place)


def test_the_keys_of_the_first_schema_open_and_take_what_came_since(place):
    """K3, point 3"""
    filled(place)
    scripts = sorted((data.migrations() / "sqlite" / "keys").glob("*.sql"))
    with sqlite3.connect(place / "first.db") as older, sqlite3.connect(place / "keys.db") as newer:
        older.executescript(scripts[0].read_text(encoding="utf-8"))
        older.execute(
            *newer.execute("SELECT sql FROM sqlite_schema WHERE name = '_sqlite_migrations'").fetchone()
        )
        older.execute("PRAGMA journal_mode = WAL")
        for table, columns in {
            "root": "vault_id, provider, record",
            "keys": "purpose, scope, epoch, owner, wrapped",
            "_sqlite_migrations": "id, migration_set, name, applied_at",
        }.items():
            rows = newer.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()
            rows = rows[:1] if table == "_sqlite_migrations" else rows
            older.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    older.close()
    newer.close()
    (place / "first.db").replace(place / "keys.db")
    for turn in range(2):
        with Vault.open(place) as vault:
            vault.access(ALICE).sessions.create(external_id=f"new {turn}").append(
                "note.made", {"text": "new"}
            )
            keys, tenant = vault._keys, vault._keys.tenant("acme", create=False)
            keys.create_item(tenant, bytes(16), bytes([turn]) * 16, "free", [])
            assert vault.keys.barrier().passed
        assert said(place) == [{"text": "kept"}]
    with Vault.open(place) as vault:
        for turn in range(2):
            session = vault.access(ALICE).sessions.resume_external(f"new {turn}")
            assert [event.payload for event in session.events()] == [{"text": "new"}]
        assert vault.verify().ok


# ------------------------------------------------------------------------------- another root key


def test_a_new_root_key_elsewhere_takes_the_place_of_the_old_one_there(place, tmp_path):
    safe = tmp_path / "safe"
    safe.mkdir()
    filled(place, root=f"file:{safe / 'the.key'}")
    (safe / "the.key").chmod(0o400)
    old = (safe / "the.key").read_bytes()
    with Vault.open(place) as vault:
        vault.keys.rotate()
    assert [file.name for file in safe.iterdir()] == ["the.key"]
    assert (safe / "the.key").read_bytes() != old
    assert said(place) == [{"text": "kept"}]


def test_a_root_key_behind_a_link_is_replaced_where_it_lies(place, tmp_path):
    filled(place)
    (place / "root.key").rename(tmp_path / "real.key")
    (place / "root.key").symlink_to(tmp_path / "real.key")
    old = (tmp_path / "real.key").read_bytes()
    with Vault.open(place) as vault:
        vault.keys.rotate()
    assert (place / "root.key").is_symlink()
    assert (tmp_path / "real.key").read_bytes() != old
    assert said(place) == [{"text": "kept"}]


def test_a_new_key_that_nothing_is_under_is_overwritten_by_the_next(place):
    filled(place)
    shutil.copy(place / "root.key", place / "root.key.next")
    assert said(place) == [{"text": "kept"}]
    assert (place / "root.key.next").exists()  # nobody but a replacement touches it
    with Vault.open(place) as vault:
        vault.keys.rotate()
    assert not (place / "root.key.next").exists()
    assert said(place) == [{"text": "kept"}]


@pytest.mark.parametrize("left", ["old", "nothing", "zeros", "half"])
def test_a_replacement_that_was_cut_off_is_finished_by_who_opens_the_vault(place, left):
    filled(place)
    old = (place / "root.key").read_bytes()
    with Vault.open(place) as vault:
        vault.keys.rotate()
    (place / "root.key").rename(place / "root.key.next")
    if left != "nothing":
        (place / "root.key").touch(mode=0o600)
        (place / "root.key").write_bytes({"old": old, "zeros": bytes(len(old)), "half": old[:40]}[left])
    new = (place / "root.key.next").read_bytes()
    assert said(place) == [{"text": "kept"}]
    assert (place / "root.key").read_bytes() == new
    assert not (place / "root.key.next").exists()


def test_a_new_key_is_never_lost_to_one_that_comes_after(place):
    """Cut off after the keys were wrapped under it, and replaced again at once"""
    filled(place)
    with Vault.open(place) as vault:
        vault.keys.rotate()
        (place / "root.key").rename(place / "root.key.next")
        vault.keys.rotate()
        assert not (place / "root.key.next").exists()
        (place / "root.key").rename(place / "root.key.next")
        (place / "root.key.next").chmod(0o640)
        with pytest.raises(KeyUnavailable):
            vault.keys.rotate()  # who can read it is somebody's to say: it is not touched
        assert (place / "root.key.next").exists()
        (place / "root.key.next").chmod(0o600)
    assert said(place) == [{"text": "kept"}]


def test_a_root_key_that_cannot_be_replaced_leaves_everything_as_it_was(place, tmp_path):
    filled(place, root=f"file:{tmp_path / 'the.key'}")
    old, record = (tmp_path / "the.key").read_bytes(), root_record(place)
    with Vault.open(place) as vault:
        (tmp_path / "the.key.next").mkdir()
        with pytest.raises(KeyUnavailable):
            vault.keys.barrier()
        (tmp_path / "the.key.next").rmdir()
    assert ((tmp_path / "the.key").read_bytes(), root_record(place)) == (old, record)
    assert said(place) == [{"text": "kept"}]


def root_record(place) -> bytes:
    with sqlite3.connect(place / "keys.db") as connection:
        (record,) = connection.execute("SELECT record FROM root").fetchone()
    connection.close()
    return record


def test_what_stands_beside_the_key_file_is_not_overwritten_while_it_may_be_the_key(tmp_path):
    """K3: the second line, behind finishing what was cut off"""
    key, record = key_file.create("the.key", tmp_path, None)
    (tmp_path / "the.key.next").write_bytes(b"perhaps the key")
    with pytest.raises(KeyUnavailable, match="not in its place"):
        key_file.make_next(record, tmp_path, bytes(32), None)
    assert (tmp_path / "the.key.next").read_bytes() == b"perhaps the key"
    made, named = key_file.make_next(record, tmp_path, key, None)
    assert key_file.open_key(record, tmp_path, None) == key
    assert key_file.open_key(named, tmp_path, None) == made
