"""`keys list`, `keys rotate` and `keys barrier`: what they say, and that the vault opens after (K3, D5)."""

import pytest

from vault import Principal, Vault

OLD, NEW = "correct horse battery", "another horse battery"


@pytest.fixture(params=["file:", "passphrase:"])
def filled(request, place, monkeypatch):
    """A vault of one session; whether it is behind a passphrase."""
    behind = request.param == "passphrase:"
    if behind:
        monkeypatch.setenv("SESSION_VAULT_PASSPHRASE", OLD)
    with Vault.create("my.vault", root=request.param, passphrase=OLD if behind else None) as vault:
        vault.access(Principal(tenant="default", subject="owner")).sessions.create(title="kept")
    return behind


def test_keys_are_counted_without_a_key_or_a_name(call, filled):
    counted = call("keys", "list", "--json").document["keys"]
    assert {one["purpose"]: one["live"] for one in counted if one["tenant"]} == {
        "epoch": 1,
        "index": 1,
        "tenant": 1,
    }
    assert {one["purpose"] for one in counted if one["tenant"] is None} == {"signing", "vault"}
    assert not any(one["dying"] for one in counted)
    shown = call("keys", "list").out
    assert len(shown.splitlines()) == len(counted)
    assert "default" not in shown


@pytest.mark.parametrize("verb", ["rotate", "barrier"])
def test_the_vault_opens_after_its_keys_were_replaced(call, filled, verb):
    done = call("keys", verb, "--json")
    assert (done.code, done.document["truncated"]) == (0, True)
    assert done.document["rotated" if verb == "rotate" else "passed"] is (verb == "rotate" or not filled)
    assert ("still opens" in done.err) is (filled and verb == "barrier")
    assert "wrapped anew" in call("keys", verb).out
    assert "kept" in call("sessions").out
    assert call("verify").code == 0


def test_another_passphrase_comes_with_other_keys(call, filled, monkeypatch):
    monkeypatch.setenv("SESSION_VAULT_NEW_PASSPHRASE", NEW)
    done = call("keys", "barrier", "--renew", "--json")
    if not filled:
        assert (done.code, done.document["error"]) == (2, "InvalidInput")
        return
    assert done.document["passed"]
    assert call("sessions").code == 6
    monkeypatch.setenv("SESSION_VAULT_PASSPHRASE", NEW)
    assert "kept" in call("sessions").out
