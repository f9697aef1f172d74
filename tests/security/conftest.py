"""A vault of its own for every test, and a machine's memory (the state directory) that only this test has."""

import pytest

from vault import Principal, Vault

ALICE = Principal(tenant="acme", subject="alice")
BOB = Principal(tenant="acme", subject="bob")


@pytest.fixture(autouse=True)
def state_home(tmp_path, monkeypatch):
    """Where this machine remembers ledgers; outside the vault's directory."""
    place = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
    return place


@pytest.fixture
def place(tmp_path):
    """The directory of a vault that is not made yet."""
    return tmp_path / "the.vault"


@pytest.fixture
def vault(place):
    """A fresh vault, open."""
    with Vault.create(place) as made:
        yield made


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def bob(vault):
    return vault.access(BOB)
