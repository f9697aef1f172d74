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
    assert shown.split()[:3] == ["tenant", "purpose", "keys"]
    assert len(shown.splitlines()) == len(counted) + 1
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


def test_one_session_is_sealed_anew(call, filled):
    """K3: told how much, while its keys and what it says stay the same in number and words"""
    (session,) = [one["id"] for one in call("sessions", "--json").document["sessions"]]
    before = call("keys", "list", "--json").document
    done = call("keys", "reencrypt", session, "--json")
    assert done.document == {"session": session, "events": 0, "keys": 1, "clean": True}
    assert "0 events sealed anew under 1 fresh key" in call("keys", "reencrypt", session).out
    after = call("keys", "list", "--json").document
    assert [one for one in after["keys"] if one["tenant"] == before["keys"][0]["tenant"]]
    assert "kept" in call("sessions").out
    assert call("verify").code == 0
    assert call("fsck").code == 0


@pytest.mark.parametrize("absent", ["ses_none", "latest", "ses_01890000-0000-7000-8000-000000000000"])
def test_a_session_that_is_not_there_is_not_sealed_anew(call, filled, absent):
    """O1: nor one that is meant by another word: keys are replaced of what is named"""
    done = call("keys", "reencrypt", absent)
    assert (done.code, done.out) == (3, "")
    assert "there is no such session" in done.err
