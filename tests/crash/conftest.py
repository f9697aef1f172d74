"""Vaults as they are by default, with every commit durable, in a directory of their own."""

import threading
import time
from pathlib import Path

import pytest

from vault import Principal, Vault

ROOT = Path(__file__).resolve().parents[2]
ALICE = Principal(tenant="acme", subject="alice")


@pytest.fixture
def vault(place):
    with Vault.create(place) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE).sessions


@pytest.fixture
def session(alice):
    return alice.create()


@pytest.fixture
def together():
    """Runs several calls in one commit each: they queue up while the writer's turn is kept from them."""

    def run(vault, calls):
        results = [None] * len(calls)

        def call(number):
            try:
                results[number] = calls[number]()
            except Exception as error:  # noqa: BLE001 - the test looks at it
                results[number] = error

        threads = [threading.Thread(target=call, args=(number,)) for number in range(len(calls))]
        database = vault._database
        with database._turn:
            for thread in threads:
                thread.start()
            while len(database._queue) < len(calls):
                time.sleep(0.001)
        for thread in threads:
            thread.join()
        return results

    return run
