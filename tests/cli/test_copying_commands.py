"""Commands ``backup``, ``restore``, ``fsck``, ``drill``: what they say, and how they end. D6, K3."""

import os

import pytest

from vault import Principal, Vault

OWNER = Principal(tenant="default", subject="owner", roles={"agent", "owner"})


@pytest.fixture
def backed_up(call, vault, place):
    done = call("backup", "data", "--keys", "keys")
    assert done.code == 0, done.err
    return place


def erased_since(vault):
    with Vault.open(vault) as opened:
        access = opened.access(OWNER)
        (found,) = access.sessions.find().items
        access.erasure.erase(session=found.id)
        return found.id, access.sessions.create(title="made since").id


def moved_away(place):
    (place / "my.vault").rename(place / "broken.vault")
    return ("restore", "data", "my.vault", "--keys", "keys", "--root-key", "broken.vault/root.key")


def test_a_backup_says_what_it_holds_and_what_it_does_not(call, vault):
    done = call("backup", "data")
    assert done.code == 0
    assert done.out.startswith("backed up ")
    assert "1 ledger entries" not in done.out
    assert "without its keys" in done.err
    assert "the root key is not in it" in call("backup", "data 2", "--keys", "keys").err


def test_a_backup_as_json(call, vault):
    made = call("backup", "data", "--keys", "keys", "--json").document
    assert set(made) == {
        "id",
        "made_us",
        "ledger_entries",
        "bytes",
        "blobs",
        "copied",
        "damaged",
        "with_keys",
    }
    assert made["with_keys"] is True


def test_a_backup_within_the_vault_is_refused(call, vault):
    done = call("backup", "my.vault/backup")
    assert done.code == 2
    assert "three places" in done.err


def test_a_vault_is_restored_and_says_what_is_lost_and_what_is_erased_again(call, vault, backed_up):
    _, lost = erased_since(vault)
    command = moved_away(backed_up)
    done = call(*command, "--ledger", "broken.vault")
    assert done.code == 0, done.err
    assert "1 erased since were in the backup, and are erased again" in done.out
    assert f"lost: {lost}" in done.out
    assert "is not known" not in done.err
    assert "my.vault" not in call("sessions").err
    assert "1 erased by right" in call("verify").out
    assert call("--help").code == 0


def test_a_restore_says_how_many_single_events_are_erased_again(call, vault):
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.create()
        event = session.append("chat.item", {"a": "secret"}, epoch=1)
    assert call("backup", "data", "--keys", "keys").code == 0
    with Vault.open(vault) as opened:
        opened.access(OWNER).sessions.resume(session.id).retract([event.id])
    done = call(*moved_away(vault.parent), "--ledger", "broken.vault")
    assert "1 single event erased since, and erased again" in done.out
    assert call("verify").code == 0


def test_a_restore_as_json(call, vault, backed_up):
    id_, lost = erased_since(vault)
    done = call(*moved_away(backed_up), "--json").document
    assert (done["erased_again"], done["newer_ledger"], done["findings"]) == (1, True, [])
    assert {"session_id": lost, "events": 0, "restored": 0} in done["lost"]
    assert id_ not in {one["session_id"] for one in done["lost"]}


def test_that_nothing_newer_than_the_backup_was_found_is_said(call, vault, backed_up, monkeypatch, tmp_path):
    command = moved_away(backed_up)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    done = call(*command)
    assert done.code == 0, done.err
    assert "what was erased since is not known" in done.err


def test_without_its_root_key_nothing_is_restored(call, vault, backed_up):
    command = moved_away(backed_up)[:-2]
    done = call(*command)
    assert done.code == 6
    assert not (backed_up / "my.vault").exists()


def test_fsck_of_a_vault_in_order(call, vault):
    done = call("fsck")
    assert done.code == 0
    assert done.out.endswith("everything belongs somewhere, and nothing is missing\n")
    assert call("fsck", "--json").document["ok"] is True


def test_fsck_deletes_what_nothing_names_at_the_second_look(call, vault):
    address = os.urandom(32).hex()
    file = vault / "blobs" / address[:2] / address
    file.parent.mkdir()
    file.write_bytes(b"left over")
    os.utime(file, (1, 1))
    assert "it is left alone" in call("fsck", "--remove").out
    assert "fsck --remove deletes it" in call("fsck").out
    assert "deleted 1 file, 9 bytes" in call("fsck", "--remove").out
    assert not file.exists()


def test_what_is_missing_ends_fsck_and_backup_with_4(call, vault):
    with Vault.open(vault) as opened:
        opened.access(OWNER).sessions.latest().append("file.read", raw=os.urandom(90_000))
    (file,) = [file for file in (vault / "blobs").rglob("*") if file.is_file()]
    file.unlink()
    done = call("fsck")
    assert done.code == 4
    assert "missing_file" in done.out
    assert call("fsck", "--json").code == 4
    done = call("backup", "data")
    assert done.code == 4
    assert "1 sealed file of the vault cannot be read" in done.err


def test_a_drill_says_what_held(call, vault):
    done = call("drill")
    assert done.code == 0, done.out
    assert [line.split()[0] for line in done.out.splitlines()] == ["held"] * 6
    assert "root key lost" in done.out


def test_a_drill_as_json(call, vault, place):
    done = call("drill", "--in", ".", "--json")
    assert done.document["ok"] is True
    assert len(done.document["steps"]) == 6
    assert sorted(path.name for path in place.iterdir()) == ["my.vault"]


def test_a_drill_that_does_not_hold_ends_with_4(call, vault, monkeypatch):
    monkeypatch.setattr("vault.wiring.replay", lambda *_: [])
    done = call("drill")
    assert done.code == 4
    assert "FAILED" in done.out
