"""The key of an encrypted store: from the environment, a file or the terminal, never an option's value."""

import sys

import pytest

from tests.cli.framework_stores import TALK, langgraph, langgraph_there, openai, openai_there

PHRASE = "correct horse battery staple"
AES = "0123456789abcdef"


def test_an_encrypted_session_comes_in_with_its_key(call, vault, place, monkeypatch):
    """K1, A7."""
    openai(key=PHRASE)
    monkeypatch.setenv("OLD_KEY", PHRASE)
    assert call("import", "openai-sqlite", "chats.db", "--key", "env:OLD_KEY").code == 0
    (place / "key").write_text(PHRASE + "\n")
    assert call("import", "openai-sqlite", "chats.db", "--key", "file:key", "--as", "alice").code == 0
    assert openai_there() == openai_there("alice") == [TALK, TALK]


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_an_encrypted_saver_comes_in_with_its_key(call, vault, place, ending):
    """K1, A7."""
    langgraph(key=AES)
    (place / "key").write_bytes(AES.encode() + ending)
    assert call("import", "langgraph-sqlite", "threads.db", "--key", "file:key").code == 0
    assert langgraph_there() == [["Hello.", "yes"]] * 2


def test_a_key_that_ends_like_a_line_is_taken_whole(call, vault, place):
    """K1."""
    key = "0123456789abcde\n"
    langgraph(key=key)
    (place / "key").write_text(key)
    assert call("import", "langgraph-sqlite", "threads.db", "--key", "file:key").code == 0


BOTH = pytest.mark.parametrize(
    ("store", "make", "right"),
    [
        pytest.param("openai-sqlite", openai, PHRASE, id="openai"),
        pytest.param("langgraph-sqlite", langgraph, AES, id="langgraph"),
    ],
)


@BOTH
def test_without_the_key_nothing_of_an_encrypted_store_comes_in(
    call, vault, place, monkeypatch, store, make, right
):
    """K1, K2: and no answer holds what was given."""
    path = make(key=right)
    (place / "empty").write_text("\n")
    (place / "long").write_text("x" * 5_000)
    (place / "binary").write_bytes(b"\xff" * 20)
    monkeypatch.setenv("WRONG", right[::-1])
    wrong = dict.fromkeys(["env:WRONG", right, "env:", "file:", "file:long", "file:binary"], 2)
    absent = dict.fromkeys(["env:NOT_SET", "file:absent", "file:empty", "file:.", "ask"], 6)
    for where, code in {None: 2, **wrong, **absent}.items():
        done = call("import", store, path, *(() if where is None else ("--key", where)))
        assert (where, done.code, done.out) == (where, code, "")
        assert done.err.startswith("session-vault: ")
        assert (done.err.count("\n"), "key" in done.err, right in done.err) == (1, True, False)
    assert call("info", "--json").document["sessions"] == 1


def test_an_encrypted_saver_without_a_key_is_answered_with_how_to_give_it(call, vault):
    done = call("import", "langgraph-sqlite", langgraph(key=AES))
    assert (done.code, "say with --key where the key is" in done.err) == (2, True)


def test_an_item_in_clear_among_encrypted_ones_is_not_taken(call, vault, monkeypatch):
    """K2: who could write the file could have put it there."""
    openai(key=PHRASE, count=1)
    openai()
    monkeypatch.setenv("OLD_KEY", PHRASE)
    done = call("import", "openai-sqlite", "chats.db", "--key", "env:OLD_KEY")
    assert (done.code, done.err.count("an item in clear within an encrypted database")) == (0, 4)
    assert openai_there() == [TALK, []]


def test_a_key_that_nothing_needs_is_refused(call, vault, monkeypatch):
    monkeypatch.setenv("OLD_KEY", AES)
    done = call("import", "langgraph-sqlite", langgraph(), "--key", "env:OLD_KEY")
    assert (done.code, done.err) == (2, "session-vault: nothing in this file is encrypted; leave --key out\n")


@BOTH
def test_a_key_is_asked_for_on_a_terminal(call, vault, monkeypatch, store, make, right):
    """K1."""
    path = make(key=right)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for typed, code in (("", 6), (right, 0)):
        monkeypatch.setattr("getpass.getpass", lambda *_, typed=typed: typed)
        assert call("import", store, path, "--key", "ask", "--json").code == code


def test_no_option_takes_a_key_itself(call):
    """K1: every user of the machine could read it."""
    for store in ("openai-sqlite", "langgraph-sqlite"):
        assert "--key WHERE" in call("import", store, "--help").out
