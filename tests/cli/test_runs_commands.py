"""Listing the runs of a session, and stopping one from outside."""

import json
import re

import pytest

from vault import Principal, Vault

OWNER = Principal(tenant="default", subject="owner")


@pytest.fixture
def working(vault):
    """A session with a run at work, while the vault is open; the session and the run."""
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.latest()
        run = session.run()
        yield session, run


def test_each_run_tells_how_it_began_how_it_ended_and_what_it_wrote(call, crashed):
    """C5, S6."""
    runs = call("runs", crashed, "--json").document["runs"]
    assert [(run["how"], run["state"], run["reason"], run["events"]) for run in runs] == [
        ("started", "stopped", "completed", 7),
        ("started", "stopped", "completed", 7),
        ("started", "failed", "ZeroDivisionError: division by zero", 2),
        ("started", "lapsed", None, 3),
    ]
    assert [run["holds_lease"] for run in runs] == [False, False, False, True]
    assert [run["ended_at"] is None for run in runs] == [False, False, False, True]
    out = call("runs", crashed).out
    assert "failed: ZeroDivisionError: division by zero" in out
    assert "its lease ran out, and nobody took over" in out
    assert out.endswith("4 runs; no run holds the lease now\n")
    assert all(run["id"] in out for run in runs)


def test_the_run_at_work_is_marked_and_then_stopped(call, working):
    """S6."""
    session, run = working
    listed = call("runs", session.id, "--json").document
    assert listed["active"] == run.id
    assert [item["state"] for item in listed["runs"]] == ["active"]
    assert "1 run; a run holds the lease now" in call("runs", session.id).out
    done = call("stop", session.id, "--reason", "a person said so")
    assert (done.code, done.out) == (0, f"stopped {run.id}: its writes are refused from now on\n")
    [stopped] = call("runs", session.id, "--json").document["runs"]
    assert (stopped["state"], stopped["reason"]) == ("stopped", "a person said so")
    again = call("stop", session.id)
    assert (again.code, again.out) == (0, "")
    assert "nothing to stop" in again.err
    assert call("stop", session.id, "--json").document == {"session": session.id, "stopped": None}


def test_a_run_whose_lease_ran_out_is_stopped_as_well(call, crashed):
    [*_, last] = call("runs", crashed, "--json").document["runs"]
    assert call("stop", crashed, "--json").document["stopped"] == last["id"]
    assert call("runs", crashed, "--json").document["runs"][-1]["state"] == "stopped"


@pytest.mark.parametrize(
    ("prepare", "state", "words"),
    [
        pytest.param("wake", "no end", "no end: its process is gone", id="another-took-over"),
        pytest.param("end", "session ended", "ended with its session", id="the-session-ended"),
        pytest.param("fork", "in the original", "ends in the session that this one", id="forked-within-it"),
    ],
)
def test_a_run_without_an_end_says_why(call, crashed, prepare, state, words):
    done = call(prepare, crashed, "--json")
    session = done.document["id"] if prepare == "fork" else crashed
    run = call("runs", session, "--json").document["runs"][3]
    assert (run["state"], run["reason"], run["ended_at"]) == (state, None, None)
    assert words in " ".join(call("runs", session).out.split())


def test_a_run_that_was_recorded_without_a_lease_is_listed(call, vault):
    run = "run_00000000-0000-7000-8000-000000000001"
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.create()
        session.append("message.user", "hello", run=run)
    [found] = call("runs", session.id, "--json").document["runs"]
    assert (found["id"], found["how"], found["state"]) == (run, None, "imported")
    assert "recorded without a lease" in call("runs", session.id).out


def test_a_session_without_a_run_says_so(call, vault):
    done = call("runs", "latest")
    assert (done.code, done.out, done.err) == (0, "", "no run was started in this session\n")
    assert call("runs", "latest", "--json").document["runs"] == []


@pytest.mark.parametrize("columns", ["50", "80", "120"])
@pytest.mark.parametrize("command", ["runs", "why", "effects", "replay", "context", "wake"])
def test_what_is_printed_keeps_to_the_width(call, crashed, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", columns)
    done = call(command, crashed)
    assert done.code == 0
    lines = [line.rstrip() for line in done.out.splitlines()]
    # Ids stay in one piece, to be copied; what --json shows is not wrapped.
    assert all(len(line) <= int(columns) for line in lines if not re.search(r"(evt|ses|run)_", line))


@pytest.mark.parametrize(
    "command",
    [
        ["runs"],
        ["stop"],
        ["why"],
        ["wake"],
        ["effects"],
        ["effects", "list"],
        ["replay"],
        ["context"],
        ["fork"],
        ["checkpoint", "--session"],
    ],
    ids=" ".join,
)
def test_nobody_else_reaches_a_session(call, crashed, command):
    """O1: exactly the answer that an id gets which nobody has."""
    absent = "ses_00000000-0000-7000-8000-000000000000"
    other = call(*command, crashed, "--as", "bob", "--json")
    assert other == call(*command, absent, "--as", "bob", "--json") == call(*command, absent, "--json")
    assert (other.code, json.loads(other.out)["error"]) == (3, "NotFound")
    settle = ["effects", "resolve", crashed, "a", "b", "--decision", "fail"]
    for words in (["restart", crashed, "--summary", "x"], settle):
        assert call(*words, "--as", "bob").code == 3


def test_what_a_session_holds_is_never_obeyed_by_the_terminal(call, vault):
    """K1: names of tools, effects, resources, states, reasons are whatever a product or a person wrote."""
    evil = "\x1b]0;x\x07\u202eevil"
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.create(title=evil, config=evil)
        with session.run() as run:
            asked = run.append("tool.requested", {"a": evil}, tool=evil)
            run.append("approval.requested", {"what": evil})
            run.append("state.changed", {"to": evil})
            run.append("observation.recorded", {"value": evil}, resource=evil)
            run.effect(evil, evil, {"a": evil}, resource=evil, subject=evil).once(lambda _: {"b": evil})
            run.effect(evil, "open", {"a": evil}).intend()
            run.append("context.summarized", {"summary": evil, "first_seq": 2, "last_seq": 2})
            run.stop(evil)
    for command in (
        ["runs"],
        ["why"],
        ["effects"],
        ["replay"],
        ["replay", "--at", asked.id],
        ["context"],
        ["show"],
        ["fork", "--at", asked.id],
        ["wake", "--config", evil, "--on-drift", "old"],
        ["sessions"],
    ):
        words = command if command[0] == "sessions" else [command[0], session.id, *command[1:]]
        for options in ([], ["--json"]):
            done = call(*words, *options)
            assert done.code == 0
            assert not {"\x1b", "\x07", "\u202e"} & set(done.out + done.err), words
