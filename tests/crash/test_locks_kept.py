"""Nothing takes SQLite's locks from an open vault: fcntl(2) drops them when a file is closed (L2, D6)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vault import Principal, Vault
from vault.storage.remains import FileRemains

ROOT = Path(__file__).resolve().parents[2]
ALICE = Principal(tenant="acme", subject="alice")
#: Another process that opens the vault, writes, and closes it: whoever is last takes the log away.
OTHER = """
import sys
from vault import Principal, Vault
with Vault.open(sys.argv[1]) as vault:
    vault.access(Principal(tenant="acme", subject="alice")).sessions.create().append("a.b", 1)
"""


def log_of(place):
    """Which file the write-ahead logs are, by inode; None for one that is gone."""
    files = [place / "data.db-wal", place / "keys.db-wal"]
    return [file.stat().st_ino if file.exists() else None for file in files]


def another_process(place):
    subprocess.run([sys.executable, "-c", OTHER, str(place)], cwd=ROOT, check=True, timeout=60)


def read_through(place):
    """What a well-meaning program does: reads every file."""
    for file in place.glob("*.db*"):
        file.read_bytes()


@pytest.fixture
def opened(tmp_path):
    with Vault.create(tmp_path / "v") as vault:
        session = vault.access(ALICE).sessions.create()
        session.append("a.b", 1)
        yield vault, session, tmp_path / "v"


def test_looking_through_all_files_keeps_the_locks(opened):
    _, session, place = opened
    before = log_of(place)
    looked, _ = FileRemains(place, place / "ledger").found([[os.urandom(24)]])
    another_process(place)
    assert looked > 0
    assert log_of(place) == before
    session.append("a.b", 2)
    assert [event.payload for event in session.events()] == [1, 2]


def test_opening_a_vault_twice_in_one_process_keeps_the_locks_of_the_first(opened):
    vault, session, place = opened
    before = log_of(place)
    Vault.open(place).close()
    another_process(place)
    assert log_of(place) == before
    session.append("a.b", 2)
    assert vault.verify().ok


def test_these_tests_see_a_lock_that_is_lost(opened):
    """The danger is real on this machine: else the tests above show nothing."""
    vault, _, place = opened
    before = log_of(place)
    read_through(place)
    another_process(place)
    lost = log_of(place) != before
    vault._closed = True  # what it would write on closing goes to files that are gone
    assert lost
