"""Replaying a session, and what a model would be shown of it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from vault import Principal, Vault
from vault.cli.steps import changed_parts, changes
from vault.policy.recovery import DEFAULT

OWNER = Principal(tenant="default", subject="owner")
ROOT = Path(__file__).resolve().parents[2]


def told(vault, session_id: str):
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.resume(session_id)
        return list(session.replay()), session.recover()


def test_each_event_is_told_with_what_it_changed(call, crashed):
    """L11."""
    out = call("replay", crashed).out
    for part in (
        "message 1",
        "run started",
        "waits for crm",
        "crm returned; saw crm/42",
        "nothing changed",
        "waits for approval of “a refund of 120”",
        "in state “refund”",
        "approval decided of “a refund of 120”",
        "email.send “order-7” intended",
        "email.send “order-7” committed",
        "sms.send “order-7” failed",
        "a summary stands for 1 to 8",
        "run failed: ZeroDivisionError: division by zero",
        "payment.refund “order-7” intended",
    ):
        assert part in out
    assert out.endswith("21 of 21 events replayed\n")


def test_a_program_gets_the_state_after_each_event(call, crashed, vault):
    """C2, C3, L11: the states of replay end in that of recovery."""
    steps, recovered = told(vault, crashed)
    documents = call("replay", crashed, "--json").documents
    assert [(item["event"], item["state"]) for item in documents] == [
        (step.event.id, step.state) for step in steps
    ]
    assert (documents[-1]["state"], documents[-1]["sha256"]) == (recovered.state, recovered.sha256)


def test_any_past_point_is_rebuilt(call, crashed, vault):
    """C3."""
    steps, _ = told(vault, crashed)
    step = steps[6]
    [found] = call("replay", crashed, "--at", step.event.id, "--json").documents
    assert (found["seq"], found["state"]) == (7, step.state)
    out = call("replay", crashed, "--at", step.event.id).out
    lines = out.partition(":\n{")[2].rpartition("}\n")[0]
    assert json.loads(f"{{{lines}}}") == step.state
    assert out.endswith("7 of 21 events replayed\n")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param(["--at", "nonsense"], 2, id="no-id"),
        pytest.param(["--at", "evt_00000000-0000-7000-8000-000000000000"], 3, id="absent"),
        pytest.param(["--step"], 2, id="no-terminal"),
        pytest.param(["--step", "--json"], 2, id="step-as-json"),
    ],
)
def test_what_cannot_be_replayed_is_refused_before_anything_is_printed(call, crashed, options, code):
    done = call("replay", crashed, *options)
    assert done.code == code
    assert done.err.count("\n") == 1
    assert "A refund" not in done.out


@pytest.mark.parametrize(
    ("keys", "events"),
    [
        pytest.param(b"\n\nq\n", 3, id="stopped"),
        pytest.param(b"\n\x04", 2, id="end-of-input"),
        pytest.param(b"\n" * 21, 21, id="all"),
    ],
)
def test_on_a_terminal_each_step_waits_for_enter(crashed, place, keys, events):
    there, here = pty.openpty()
    os.write(there, keys)
    done = subprocess.run(
        [sys.executable, "-m", "vault.cli", "replay", crashed, "--step"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=here,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(here)
    os.close(there)
    assert done.returncode == 0
    assert done.stdout.endswith(f"{events} of 21 events replayed\n")
    assert done.stderr.count("Enter: the next event") == events
    assert '"messages": {' in done.stdout


def test_what_changed_is_never_empty_where_a_part_of_the_state_did(crashed, vault):
    steps, _ = told(vault, crashed)
    before = DEFAULT.initial
    for _, state in steps:
        assert bool(changes(before, state)) == bool(changed_parts(before, state))
        before = state


def test_what_the_vault_dropped_or_cannot_name_is_told_too():
    state = {**DEFAULT.initial, "effects": {**DEFAULT.initial["effects"], "committed": 1}}
    assert changes(DEFAULT.initial, state) == ["an effect committed"]
    call_of = {"pending": {"evt_1": {"tool": None, "seq": 1}}}
    state = {**DEFAULT.initial, "tools": {**DEFAULT.initial["tools"], **call_of}}
    assert changes(DEFAULT.initial, state) == ["waits for a tool"]
    assert changes(DEFAULT.initial, {**DEFAULT.initial, "config": "a\x1bb"}) == ["config a\\x1bb"]


# ------------------------------------------------------------------------------------------------ context


def test_the_context_has_the_summary_in_place_of_what_it_covers(call, crashed):
    out = call("context", crashed).out
    assert "instead of 1 to 8: 120 back for order 7; approved." in out
    assert 'bank(account="x")' in out
    assert "I want my money back." not in out
    assert "2 of 21 events, about" in out
    assert "nothing is left out" in out
    found = call("context", crashed, "--json").document
    assert [event["type"] for event in found["events"]] == ["context.summarized", "tool.requested"]
    assert found["summary"] == found["events"][0]["id"]
    assert found["left_out"] == 0


def test_a_budget_is_kept_and_what_is_left_out_is_said(call, crashed, vault):
    [event] = call("context", crashed, "--max-events", "1", "--json").document["events"]
    assert event["type"] == "tool.requested"
    out = " ".join(call("context", crashed, "--max-events", "1").out.split())
    assert "the budget of 1 event is used up" in out
    assert "how many those are was not counted" in out
    assert call("context", crashed, "--max-tokens", "20", "--json").document["tokens"] <= 20
    [first] = [
        item["id"]
        for item in call("sessions", "--json").document["sessions"]
        if item["title"] == "August sales"
    ]
    assert call("context", first, "--max-tokens", "15", "--json").document["left_out"] == 1
    assert "left out: 1 event" in " ".join(call("context", first, "--max-tokens", "15").out.split())


@pytest.mark.parametrize("option", ["--max-events", "--max-tokens"])
def test_a_budget_of_nothing_is_refused(call, crashed, option):
    done = call("context", crashed, option, "0")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
