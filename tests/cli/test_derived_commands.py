"""Memories, artifacts and lineage from the command line (D4)."""

import json
import sys
from io import BytesIO

import pytest

from vault import Principal, Vault


@pytest.fixture
def session(vault):
    with Vault.open(vault) as opened:
        return opened.access(Principal(tenant="default", subject="owner")).sessions.latest().id


@pytest.fixture
def put(call, session):
    def made(key, value, *more, namespace="users/alice"):
        done = call("memory", "put", namespace, key, json.dumps(value), "--source", session, "--json", *more)
        assert (done.code, done.err) == (0, ""), done.err
        return done.document

    return made


def test_a_memory_is_put_and_printed(call, put, session):
    made = put("taste", {"likes": "tea"}, "--label", "purpose=sales", "--ttl", "12h", "--reason", "because")
    assert (made["kind"], made["version"], made["state"]) == ("memory", 1, "live")
    assert (made["namespace"], made["key"], made["value"]) == (["users", "alice"], "taste", {"likes": "tea"})
    assert made["sources"] == [{"kind": "session", "id": session, "session": None}]
    assert (made["labels"], made["reason"]) == ({"purpose": "sales"}, "because")
    assert made["expires_at"] > made["created_at"]
    assert call("memory", "get", "users/alice", "taste", "--json").document == made
    assert json.loads(call("memory", "get", "/users/alice/", "taste").out) == {"likes": "tea"}


def test_putting_says_the_id_and_how_it_hangs(call, session):
    done = call("memory", "put", "/", "k", "1", "--source", session, "--on-source-erased", "erase_with_last")
    assert done.out.startswith("mem_")
    assert "version 1, from 1 source: erase_with_last" in done.out


def test_memories_are_listed_and_found_by_content_and_have_a_history(call, put):
    (
        put("b", {"city": "Oslo"}),
        put("a", {"city": "Rome"}),
        put("c", 1, "--kind", "cache"),
        put("a", {"city": "Pisa"}),
    )
    put("z", "Oslo", namespace="teams")

    def keys(*arguments):
        return [one["key"] for one in call("memory", *arguments, "--json").document["memories"]]

    assert keys("list") == ["z", "a", "b"]
    assert keys("list", "users") == ["a", "b"]
    assert keys("list", "--limit", "1") == ["z"]
    assert keys("list", "--kind", "cache") == ["c"]
    assert keys("search", "--text", "OSLO") == ["z", "b"]
    assert keys("search", "users", "--filter", '{"city": "Pisa"}') == ["a"]
    history = call("memory", "history", "users/alice", "a", "--json").document["memories"]
    assert [(one["version"], one["state"]) for one in history] == [(2, "live"), (1, "superseded")]
    shown = call("memory", "list").out
    assert "users/alice" in shown
    assert '{"city":"Pisa"}' in shown


def test_a_file_goes_in_and_comes_out(call, place, session):
    content = bytes(range(256)) * 1000
    (place / "in.bin").write_bytes(content)
    done = call(
        "artifact", "put", "report", "in.bin", "--source", session, "--media-type", "image/png", "--json"
    )
    assert (done.document["bytes"], done.document["media_type"]) == (256_000, "image/png")
    assert call("artifact", "get", "report", "--output", "out.bin").out.startswith("250.0 KiB of art_")
    assert (place / "out.bin").read_bytes() == content
    assert call("artifact", "get", "report", "--output", "out.bin").code == 2
    (place / "in.bin").write_bytes(b"hello\n")
    call("artifact", "put", "report", "in.bin", "--source", session)
    assert call("artifact", "get", "report").out == "hello\n"
    assert call("artifact", "get", "report", "--version", "1", "--json").document["bytes"] == 256_000
    [listed] = call("artifact", "list", "--json").document["artifacts"]
    assert (listed["name"], listed["version"]) == ("report", 2)
    assert "report" in call("artifact", "list").out


def test_a_value_and_a_file_can_come_from_standard_input(call, session, monkeypatch):
    for arguments, given in (
        (("memory", "put", "/", "k"), b'{"a": 1}'),
        (("artifact", "put", "f"), b"bytes"),
    ):
        monkeypatch.setattr(sys, "stdin", type("Input", (), {"buffer": BytesIO(given)}))
        assert call(*arguments, "-", "--source", session).code == 0
    assert call("memory", "get", "/", "k", "--json").document["value"] == {"a": 1}
    assert call("artifact", "get", "f").out == "bytes"


def test_a_lineage_is_drawn_both_ways(call, put, session):
    first, second = put("a", 1)["id"], put("a", 2)["id"]
    third = put("b", 3, "--source", second)["id"]
    down = call("lineage", session).out
    assert down.splitlines()[:2] == [f"{session} session", "made from it"]
    assert f"├── {first} memory version 1, superseded" in down
    assert f"│   └── {third} memory version 1" in down
    up = call("lineage", third).out
    assert f"    └── {session} session" in up or f"├── {session} session" in up
    told = call("lineage", second, "--json").document
    assert [one["id"] for one in told["sources"]] == [session]
    assert [one["id"] for one in told["derived"]] == [third]
    assert "nothing was made from it" not in up


def test_what_is_to_be_made_again_is_listed(call, vault, session):
    with Vault.open(vault) as opened:
        access = opened.access(Principal(tenant="default", subject="owner"))
        other = access.sessions.create()
        sources = [access.sessions.resume(session), other]
        access.memories.put(("users", "alice"), "taste", 1, sources=sources, on_source_erased="recompute")
        access.erasure.erase(session=other.id)
        (asked,) = access.derived.stale()
    done = call("memory", "stale")
    assert done.out.splitlines()[0].startswith(f"{asked.id} memory users/alice/taste, until 20")
    assert done.out.splitlines()[1:] == [f"    from {session}"]
    (told,) = call("memory", "stale", "--json").document["stale"]
    assert (told["namespace"], told["key"], told["labels"]) == (["users", "alice"], "taste", {})
    assert told["sources"] == [{"kind": "session", "id": session, "session": None}]
    assert "there may be more" in call("memory", "stale", "--limit", "1").err
    call("memory", "put", "users/alice", "taste", "2", "--source", session)
    assert "nothing is to be made again" in call("memory", "stale").err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("memory", "put", "/", "k", "tea", "--source", "SES"), 2, "VALUE is JSON"),
        (("memory", "put", "/", "k", "1"), 2, "--source"),
        (("memory", "put", "/", "k", "1", "--source", "x"), 2, "a source is"),
        (("memory", "put", "/", "k", "1", "--source", "SES", "--label", "x"), 2, "name=value"),
        (("memory", "put", "/", "k", "1", "--source", "SES", "--ttl", "6mo"), 2, "--ttl is a whole number"),
        (("memory", "put", "", "k", "1", "--source", "SES"), 2, "/ is the root"),
        (
            ("memory", "put", "/", "k", "1", "--source", "SES", "--on-source-erased", "x"),
            2,
            "on_source_erased",
        ),
        (("memory", "get", "/", "k"), 3, "no such derived item"),
        (("memory", "search", "--filter", "x"), 2, "--filter is a JSON object"),
        (("artifact", "put", "f", "missing", "--source", "SES"), 2, "no such file"),
        (("artifact", "put", "f", ".", "--source", "SES"), 2, "cannot be read"),
        (("artifact", "get", "f"), 3, "no such derived item"),
        (("lineage", "x"), 3, "no such session, memory or artifact"),
        (("lineage", "SES", "--as", "bob"), 3, "no such"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_done_is_said_in_one_sentence(arguments, code, told, call, session):
    done = call(*(session if one == "SES" else one for one in arguments))
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert done.err.count("\n") == 1


def test_what_is_empty_is_said_to_be_empty(call, vault):
    assert "no memories here" in call("memory", "list").err
    assert "no artifacts here" in call("artifact", "list").err
    assert call("memory", "search", "--json").document == {"memories": []}
