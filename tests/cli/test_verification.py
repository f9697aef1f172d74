"""`verify` names the place of what is wrong, and an older vault is refused with what it lacks."""

import shutil
from pathlib import Path

import pytest

from vault import Event, Principal, Vault
from vault.cli.demo import sealed_at

OWNER = Principal(tenant="default", subject="owner")


def damage(vault: Path) -> Event:
    """Flip a bit of a sealed payload where it stands in the database; the event that it belongs to."""
    with Vault.open(vault) as opened:
        event = list(opened.access(OWNER).sessions.latest().events())[1]
    content = bytearray((vault / "data.db").read_bytes())
    content[sealed_at(bytes(content), event)] ^= 1
    (vault / "data.db").write_bytes(content)
    return event


def test_a_sound_vault_verifies(call, vault):
    """K4."""
    done = call("verify")
    assert (done.code, done.err) == (0, "")
    assert "checked 1 session, 3 events, 3 payloads" in done.out
    assert "nothing is wrong" in done.out
    report = call("verify", "--json").document
    assert (report["ok"], report["findings"], report["with_keys"]) == (True, [], True)
    assert call("verify", "--without-keys", "--json").document["with_keys"] is False
    assert "not checked" in call("verify", "--without-keys").out


@pytest.mark.parametrize("keys", [[], ["--without-keys"]], ids=["with-keys", "without-keys"])
def test_damage_is_named_with_its_place_and_exit_code_4(call, vault, keys):
    """K4."""
    event = damage(vault)
    place = f"{event.session_id} event 2 payload"
    done = call("verify", *keys)
    assert done.code == 4
    assert place in done.out
    report = call("verify", "--json", *keys)
    assert report.code == 4
    assert not report.document["ok"]
    assert [found["place"] for found in report.document["findings"]] == [place]


def test_who_has_no_keys_checks_with_the_ledgers_public_key(call, vault):
    """K4."""
    public = call("info", "--json").document["ledger_public_key"]
    (vault / "root.key").unlink()
    assert call("verify").code == 6
    pinned = call("verify", "--without-keys", "--public-key", public)
    assert (pinned.code, pinned.err) == (0, "")
    assert "--public-key" in call("verify", "--without-keys").err
    another = call("verify", "--without-keys", "--public-key", "00" * 32)
    assert another.code == 4
    assert "not signed by this vault's key" in another.out
    assert call("verify", "--without-keys", "--public-key", "nothing").code == 2


def test_an_old_copy_is_refused_and_the_message_says_what_is_missing(call, vault, place):
    """K4."""
    shutil.copytree(vault, place / "old")
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.latest()
        session.append("message.user", "newer")
    shutil.rmtree(vault)
    shutil.copytree(place / "old", vault)
    done = call("verify", "--json")
    assert done.code == 4
    assert done.document["error"] == "RolledBack"
    assert session.id in done.document["message"]
    assert done.err.count("\n") == 1


def test_a_file_that_is_no_database_is_refused_in_words(call, vault):
    (vault / "data.db").write_bytes(b"not a database" * 1000)
    done = call("verify")
    assert done.code == 4
    assert done.err.count("\n") == 1
