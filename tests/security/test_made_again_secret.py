"""What is asked for again tells nothing to who has the files, and nothing of it is left later (K1, D4)."""

import pytest

from vault import Principal, Vault

ALICE = Principal(tenant="acme", subject="alice", roles={"owner"})
NAMES = (b"zanzibar", b"nougat", b"praline", b"turmeric")
CONTENT = b"marzipan"


@pytest.fixture
def sessions(place):
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        alice = vault.access(ALICE)
        made = [alice.sessions.create() for _ in range(3)]
        alice.memories.put(
            ("turmeric",),
            "zanzibar",
            "marzipan",
            sources=made,
            labels={"nougat": "praline"},
            on_source_erased="recompute",
        )
        alice.erasure.erase(session=made[0].id)
    return [one.id for one in made]


def files_with(place, *words):
    files = [path for path in place.rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if any(word in path.read_bytes() for word in words)]


def bytes_of(place, table):
    import contextlib
    import sqlite3

    with contextlib.closing(sqlite3.connect(place / "data.db")) as data:
        return data.execute(f"SELECT about, body FROM {table}").fetchone()  # noqa: S608


def test_nothing_of_a_request_stands_anywhere_in_clear(place, sessions):
    """K1: while it is asked for"""
    assert files_with(place, *NAMES, CONTENT) == []
    with Vault.open(place) as vault:
        (asked,) = vault.access(ALICE).derived.stale()
        assert (asked.key, asked.namespace, asked.labels) == (
            "zanzibar",
            ("turmeric",),
            {"nougat": "praline"},
        )


def test_nothing_of_a_request_is_left_when_it_goes(place, sessions):
    """D4: not even sealed"""
    about, body = bytes_of(place, "items")
    assert files_with(place, about[-24:])
    with Vault.open(place) as vault:
        outcome = vault.access(ALICE).erasure.erase(session=sessions[1])
        assert outcome.state == "verified"
    assert files_with(place, about[-24:], body[-24:], *NAMES) == []


def test_a_request_says_no_name_in_what_is_shown_of_it(place, sessions):
    with Vault.open(place) as vault:
        (asked,) = vault.access(ALICE).derived.stale()
        assert not any(word.decode() in repr(asked) for word in (*NAMES, CONTENT))
