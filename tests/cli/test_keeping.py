"""Making and keeping a vault: init, info, checkpoint, the passphrase."""

import os
import pty
import select
from collections.abc import Callable
from pathlib import Path

import pytest

from vault import Vault

OLD, NEW = "correct horse battery", "another staple"


def test_init_makes_a_vault_and_says_what_would_be_better_placed(call, place):
    done = call("init")
    assert done.code == 0
    assert f"made a vault in {place / 'my.vault'}" in done.out
    assert done.err.count("weaker than it could be") == 2
    assert "root key" in done.err
    assert "ledger" in done.err
    assert (place / "my.vault" / "root.key").stat().st_mode & 0o777 == 0o600


def test_init_takes_its_place_as_argument_option_or_from_the_environment(call, place, monkeypatch):
    assert call("init", "a", "--vault", "ignored").code == 0
    assert call("init", "-V", "b").code == 0
    monkeypatch.setenv("SESSION_VAULT", "c")
    assert call("init").code == 0
    assert {path.name for path in place.iterdir()} == {"a", "b", "c"}


def test_init_never_touches_a_vault_that_is_there(call, vault):
    before = {path.name: path.stat().st_mtime_ns for path in vault.iterdir()}
    done = call("init", "--json")
    assert done.document["error"] == "VaultExists"
    assert done.code == 12
    assert {path.name: path.stat().st_mtime_ns for path in vault.iterdir()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="both-inside"),
        pytest.param(["--ledger", "ledger"], id="key-inside"),
        pytest.param(["--root", "file:keys/root.key"], id="ledger-inside"),
        pytest.param(["--root", "file:my.vault/sub/root.key", "--ledger", "ledger"], id="key-below"),
        pytest.param(["--root", "file:keys/root.key", "--ledger", "my.vault/ledger"], id="ledger-below"),
        pytest.param(["--root", "file:link/root.key", "--ledger", "ledger"], id="key-behind-a-link"),
        pytest.param(
            ["--root", "file:keys/root.key", "--ledger", "keys/../my.vault"], id="ledger-the-vault-itself"
        ),
    ],
)
def test_strict_refuses_key_and_ledger_beside_the_data(call, place, arguments):
    (place / "keys").mkdir()
    (place / "link").symlink_to("my.vault")
    done = call("init", "--strict", *arguments)
    assert done.code == 2
    assert done.err.startswith("session-vault: --strict wants the ")
    assert not (place / "my.vault").exists()


def test_strict_makes_a_vault_without_weaker_choices(call, place):
    (place / "keys").mkdir()
    done = call("init", "--strict", "--root", "file:keys/root.key", "--ledger", "ledger", "--json")
    assert done.document["weaker_choices"] == []
    assert done.err == ""
    assert list((place / "ledger").iterdir())
    assert not (place / "my.vault" / "ledger").exists()
    assert not (place / "my.vault" / "root.key").exists()
    assert call("info", "--json").document == done.document


def test_an_unknown_place_for_the_root_key_is_refused_and_leaves_nothing_that_opens(call, place):
    assert call("init", "--root", "cloud:").code == 2
    assert call("info").code == 3


def test_info_is_the_same_for_people_and_programs(call, vault):
    about = call("info", "--json").document
    done = call("info")
    assert str(vault) in done.out
    for name in ("vault_id", "root_key", "ledger_public_key"):
        assert about[name] in done.out
    assert about["sessions"] == 1
    assert len(about["weaker_choices"]) == done.err.count("weaker") == 2


def test_checkpoint_writes_an_entry_when_something_changed_and_says_so_when_not(call, vault):
    """K4."""
    first = call("checkpoint", "--json").document
    assert first["new"] is False
    with Vault.open(vault) as opened:
        assert opened.checkpoint().number == first["entry"]
    assert "nothing has changed since ledger entry" in call("checkpoint").out
    assert len(first["sha256"]) == 64


# ---------------------------------------------------------------------------------------------- passphrase


@pytest.fixture
def secret(call, monkeypatch, place) -> Path:
    """A vault behind a passphrase."""
    monkeypatch.setenv("SESSION_VAULT_PASSPHRASE", OLD)
    assert call("init", "--root", "passphrase:").code == 0
    return place / "my.vault"


def test_the_passphrase_comes_from_the_environment(call, secret, monkeypatch):
    """K3."""
    assert call("info", "--json").document["root_key"] == "passphrase"
    monkeypatch.setenv("SESSION_VAULT_PASSPHRASE", "wrong horse")
    done = call("info", "--json")
    assert (done.code, done.document["error"]) == (6, "WrongKey")
    monkeypatch.delenv("SESSION_VAULT_PASSPHRASE")
    done = call("info")
    assert done.code == 6
    assert "SESSION_VAULT_PASSPHRASE" in done.err


def test_a_rotated_passphrase_opens_and_the_old_one_does_not(call, secret, monkeypatch):
    """K3."""
    monkeypatch.setenv("SESSION_VAULT_NEW_PASSPHRASE", NEW)
    assert call("keys", "rotate-passphrase", "--json").document == {"rotated": True}
    assert call("info").code == 6
    monkeypatch.setenv("SESSION_VAULT_PASSPHRASE", NEW)
    assert call("info").code == 0


def test_a_passphrase_that_is_too_short_changes_nothing(call, secret, monkeypatch):
    monkeypatch.setenv("SESSION_VAULT_NEW_PASSPHRASE", "short")
    assert call("keys", "rotate-passphrase").code == 2
    assert call("info").code == 0


def test_a_vault_without_a_passphrase_has_none_to_rotate(call, vault, monkeypatch):
    monkeypatch.setenv("SESSION_VAULT_NEW_PASSPHRASE", NEW)
    done = call("keys", "rotate-passphrase")
    assert done.code == 2
    assert "no" in done.err


def typed(start: Callable, arguments: list[str], lines: list[str]) -> tuple[int, str]:
    """Run the program on a terminal of its own, and type a line whenever it asks for a passphrase."""
    keyboard, terminal = pty.openpty()
    process = start(*arguments, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    seen = ""
    while select.select([keyboard], [], [], 60)[0]:
        try:
            piece = os.read(keyboard, 4096).decode()
        except OSError:  # the other side has gone
            break
        seen += piece
        if lines and seen.rstrip("\r\n ").endswith(":") and ("assphrase:" in piece or "again:" in piece):
            os.write(keyboard, f"{lines.pop(0)}\n".encode())
        if not piece:
            break
    os.close(keyboard)
    return process.wait(60), seen


def test_on_a_terminal_the_passphrase_is_asked_for_and_never_shown(start, call, secret, monkeypatch):
    monkeypatch.delenv("SESSION_VAULT_PASSPHRASE")
    code, seen = typed(start, ["info"], [OLD])
    assert code == 0
    assert "Passphrase:" in seen
    assert OLD not in seen
    code, seen = typed(start, ["keys", "rotate-passphrase"], [OLD, NEW, NEW])
    assert code == 0, seen
    assert NEW not in seen
    monkeypatch.setenv("SESSION_VAULT_PASSPHRASE", NEW)
    assert call("info").code == 0


def test_two_new_passphrases_that_differ_change_nothing(start, place):
    code, seen = typed(start, ["init", "--root", "passphrase:"], [NEW, OLD])
    assert code == 2
    assert "differ" in seen
    assert list(place.iterdir()) == []
