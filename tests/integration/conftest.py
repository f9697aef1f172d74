"""A vault in a directory of its own, whose ledger this machine remembers in a directory of its own too."""

import io
from pathlib import Path

import pytest

from vault import Principal, Vault

ROOT = Path(__file__).resolve().parents[2]
ALICE = Principal(tenant="acme", subject="alice")


@pytest.fixture
def vault(place):
    # NORMAL: what these tests check does not depend on the power; tests/crash runs with FULL.
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE).sessions


@pytest.fixture
def session(alice):
    return alice.create(title="August sales")


class Ticks:
    """A clock that moves by hand."""

    def __init__(self, now_us: int) -> None:
        self.now = now_us

    def now_us(self) -> int:
        return self.now


@pytest.fixture
def clock():
    return Ticks(1_800_000_000_000_000)


@pytest.fixture
def as_raw():
    """What ``raw`` takes: bytes as they are, or a binary stream of them."""
    return lambda form, body: body if form == "bytes" else io.BytesIO(body)
