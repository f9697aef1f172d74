"""Bytes that a database left behind when it moved a row within its file: found, and written over. D6, K1.

`secure_delete` clears what is deleted, and not what a row left on the page that it was moved from.
"""

import sqlite3
import subprocess
import sys

import pytest

from vault import Principal, Vault
from vault.sealing.receipts import verified
from vault.storage import sqlite as storage

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
LEAF, HEADER = 0x0D, 8


def planted(file, piece):
    """Put bytes where no cell is: between the pointers and the cells of a page of a table."""
    content = bytearray(file.read_bytes())
    size = int.from_bytes(content[16:18])
    for start in range(size, len(content), size):
        if content[start] != LEAF:
            continue
        low = start + HEADER + 2 * int.from_bytes(content[start + 3 : start + 5])
        high = start + (int.from_bytes(content[start + 5 : start + 7]) or size)
        if high - low > len(piece) + 16:
            content[low + 8 : low + 8 + len(piece)] = piece
            file.write_bytes(content)
            return
    raise AssertionError("no page has room")


def holds(place, piece):
    """Whether a file holds the bytes: another process looks, as reading here would drop SQLite's locks."""
    program = """
import pathlib, sys
piece, files = bytes.fromhex(sys.argv[2]), pathlib.Path(sys.argv[1]).rglob("*")
print([file.name for file in files if file.is_file() and piece in file.read_bytes()])
"""
    command = [sys.executable, "-c", program, str(place), piece.hex()]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def left(place):
    """A closed vault with one session, and copies of its wrapped key and a payload where no row is."""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        sessions = vault.access(ALICE).sessions
        session = sessions.create()
        session.append("message.user", {"content": "hello" + "x" * 200})
        other = sessions.create()
        other.append("message.user", {"content": "stays"})
        raw = session._id
    with sqlite3.connect(place / "keys.db") as keys:
        (wrapped,) = keys.execute("SELECT wrapped FROM keys WHERE scope = ?", (raw,)).fetchone()
    keys.close()
    with sqlite3.connect(place / "data.db") as data:
        bodies = data.execute("SELECT body FROM events WHERE seq = 1").fetchall()
    data.close()
    pieces = {"keys.db": wrapped, "data.db": bodies[0][0]}
    for name, piece in pieces.items():
        planted(place / name, piece)
    return session.id, other.id, pieces


def erased(vault, session_id):
    outcome = vault.access(ALICE).erasure.erase(session=session_id)
    return verified(outcome.receipt, None).state


def test_what_a_database_left_behind_goes_too(place, left):
    """D6: no key and no payload of it is in any file, and the receipt says verified"""
    session_id, other, pieces = left
    with Vault.open(place) as vault:
        assert erased(vault, session_id) == "verified"
        for piece in pieces.values():
            assert holds(place, piece) == "[]"
        found = vault.access(ALICE).sessions.resume(other)
        assert [event.payload for event in found.events()] == [{"content": "stays"}]
        found.append("message.user", {"content": "goes on"})
        assert vault.verify().findings == ()


def test_what_a_re_encrypted_session_left_behind_goes_too(place, left):
    """K3, D6: at once, what is left of its old keys and rows; and when it is erased, of its new ones"""
    session_id, _, pieces = left
    with Vault.open(place) as vault:
        assert vault.keys.reencrypt(session_id).clean
        for piece in pieces.values():
            assert holds(place, piece) == "[]"
    with sqlite3.connect(place / "keys.db") as keys:
        query = "SELECT wrapped FROM keys WHERE epoch > 0 AND purpose = 'epoch'"
        (wrapped,) = keys.execute(query).fetchone()
    keys.close()
    planted(place / "keys.db", wrapped)
    with Vault.open(place) as vault:
        assert erased(vault, session_id) == "verified"
        assert holds(place, wrapped) == "[]"


def test_a_database_too_large_to_be_written_anew_is_told(place, left, monkeypatch):
    """D6: the receipt says incomplete, and it is tried again when the vault is opened"""
    session_id, _, pieces = left
    with Vault.open(place) as vault, monkeypatch.context() as patched:
        patched.setattr(storage, "_REWRITTEN_BYTES_MAX", 0)
        assert erased(vault, session_id) == "incomplete"
        assert holds(place, pieces["keys.db"]) == "['keys.db']"
    with Vault.open(place) as vault:
        assert erased(vault, session_id) == "verified"
        assert holds(place, pieces["keys.db"]) == "[]"


def test_a_reader_meanwhile_is_waited_for(place, left):
    """D6: who reads keeps reading what he saw; then it is tried again"""
    session_id, _, pieces = left
    with Vault.open(place) as vault:
        with vault._records.snapshot() as reader:
            list(reader.scan("all_heads"))
            assert erased(vault, session_id) in {"executed", "incomplete"}
        vault.sweep()
        assert erased(vault, session_id) == "verified"
        for piece in pieces.values():
            assert holds(place, piece) == "[]"
