"""Forking a session, and going on in a new one."""

import io
import sys

import pytest


def event_of(call, session: str, kind: str) -> str:
    [event] = call("show", session, "--type", kind, "--json").documents
    return event["id"]


def test_a_fork_prints_its_id_and_what_of_the_world_was_not_forked(call, crashed):
    """S4."""
    at = event_of(call, crashed, "state.changed")
    done = call("fork", crashed, "--at", at, "--title", "Another way")
    fork, *rest = done.out.splitlines()
    assert done.code == 0
    assert rest[0] == f"shares 7 events with {crashed}"
    assert rest[1] == f"up to {at}"
    assert "the world was not forked" in rest[2]
    assert rest[3].startswith("  effect.committed  email.send  evt_")
    out = call("show", fork).out
    assert "Another way" in out
    assert f"forked from {crashed}" in " ".join(out.split())
    assert "7 of 7 events" in out
    assert "21 events" in call("show", crashed).out


def test_a_fork_at_the_end_has_nothing_to_leave_behind(call, crashed):
    assert "no effect and no snapshot" in call("fork", crashed).out
    found = call("fork", crashed, "--json").document
    assert found["title"] == "A refund"
    assert found["fork"]["of"] == crashed
    assert found["fork"]["not_forked"] == []
    listed = {item["id"]: item for item in call("sessions", "--json").document["sessions"]}
    assert listed[found["id"]]["fork"] == found["fork"]
    assert listed[crashed]["fork"] is None


@pytest.mark.parametrize(
    ("at", "code"),
    [
        pytest.param("nonsense", 2, id="no-id"),
        pytest.param("evt_00000000-0000-7000-8000-000000000000", 3, id="absent"),
    ],
)
def test_a_fork_at_no_event_of_the_session_is_refused(call, crashed, at, code):
    before = call("sessions", "--json").document["sessions"]
    done = call("fork", crashed, "--at", at)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert call("sessions", "--json").document["sessions"] == before


def test_a_session_goes_on_in_a_new_one_that_begins_with_a_summary(call, crashed):
    done = call("restart", crashed, "--summary", "120 back for order 7; approved.")
    new, about = done.out.splitlines()
    assert about == f"begins with the summary, under the title and labels of {crashed}"
    [first] = call("show", new, "--json").documents
    assert (first["type"], first["payload"]["content"]) == (
        "message.system",
        "120 back for order 7; approved.",
    )
    assert f"goes on as {new}" in " ".join(call("show", crashed, "--newest", "--limit", "1").out.split())
    assert call("restart", crashed, "--summary", "again", "--json").document["parent"] == crashed


@pytest.mark.parametrize(
    ("given", "code"),
    [
        pytest.param(b"what was done\n", 0, id="text"),
        pytest.param(b" \n", 2, id="empty"),
        pytest.param(b"\xff\xfe", 2, id="not-utf-8"),
        pytest.param(b"a" * 500_000, 2, id="too-long"),
    ],
)
def test_the_summary_can_come_from_standard_input(call, crashed, monkeypatch, given, code):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    done = call("restart", crashed, "--summary", "-", "--json")
    assert done.code == code
    if code == 0:
        [first] = call("show", done.document["id"], "--json").documents
        assert first["payload"]["content"] == "what was done"
    else:
        assert done.err.count("\n") == 1


def test_an_ended_session_is_not_restarted(call, crashed):
    call("end", crashed)
    assert call("restart", crashed, "--summary", "x").code == 9
