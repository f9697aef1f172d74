"""Listing effects, and settling one of which nobody knows whether it happened."""

import json

import pytest


def states(call, session: str, *options: str) -> dict[str, str]:
    listed = call("effects", session, "--json", *options).document["effects"]
    return {effect["kind"]: effect["state"] for effect in listed}


def test_effects_are_listed_with_what_is_known_of_them(call, crashed):
    """C4."""
    assert states(call, crashed) == {
        "email.send": "committed",
        "sms.send": "failed",
        "payment.refund": "in doubt",
    }
    out = call("effects", crashed).out
    for part in (
        "email.send “order-7”",
        '→ {"id":"m-1"}',
        "there is no such number",
        'intent {"amount":120}',
        "on crm/42  about Ann",
        "3 effects; 1 in doubt",
    ):
        assert part in out
    assert call("effects", "list", crashed).out.splitlines()[0] == out.splitlines()[0]


def test_effects_are_narrowed_by_kind_and_to_those_in_doubt(call, crashed):
    assert states(call, crashed, "--kind", "sms.send") == {"sms.send": "failed"}
    assert states(call, crashed, "--in-doubt") == {"payment.refund": "in doubt"}
    assert states(call, crashed, "--kind", "sms.send", "--in-doubt") == {}
    done = call("effects", crashed, "--kind", "nothing.such")
    assert (done.code, done.out) == (0, "")
    assert "no effect" in done.err


@pytest.mark.parametrize(
    ("decision", "options", "state", "words"),
    [
        pytest.param(
            "commit", ["--confirmation", '{"paid": 120}'], "committed", "carries it out again", id="commit"
        ),
        pytest.param("fail", ["--why", "the bank refused"], "failed", "it is over", id="fail"),
        pytest.param("retry", [], "failed", "may carry it out again", id="retry"),
    ],
)
def test_an_effect_in_doubt_is_settled_by_hand(call, crashed, decision, options, state, words):
    """C4."""
    done = call("effects", "resolve", crashed, "payment.refund", "order-7", "--decision", decision, *options)
    assert done.code == 0
    assert f"payment.refund “order-7” is {state}" in done.out
    assert words in done.out
    assert states(call, crashed, "--in-doubt") == {}
    [resolved] = call("show", crashed, "--type", "effect.resolved", "--json").documents
    assert (resolved["payload"]["decision"], resolved["payload"]["by"]) == (decision, "command line")
    again = call("effects", "resolve", crashed, "payment.refund", "order-7", "--decision", decision)
    assert (again.code, again.err.count("\n")) == (7, 1)


def test_the_confirmation_is_kept_and_counts_in_a_fork_too(call, crashed):
    """S4."""
    fork = call("fork", crashed, "--json").document["id"]
    words = ["payment.refund", "order-7", "--decision", "commit", "--confirmation", '{"paid": 120}']
    settled = call("effects", "resolve", crashed, *words, "--json").document
    assert (settled["state"], settled["confirmation"]) == ("committed", {"paid": 120})
    [known] = call("effects", fork, "--kind", "payment.refund", "--json").document["effects"]
    assert (known["confirmation"], known["session_id"]) == ({"paid": 120}, crashed)
    assert f"recorded in {crashed}" in " ".join(call("effects", fork).out.split())


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        pytest.param(["--decision", "maybe"], 2, "retry, commit or fail", id="decision"),
        pytest.param(["--decision", "ask"], 2, "retry, commit or fail", id="ask"),
        pytest.param([], 2, "--decision", id="no-decision"),
        pytest.param(["--decision", "commit", "--confirmation", "{x"], 2, "JSON", id="json"),
        pytest.param(["--decision", "commit", "--confirmation", "\udcff"], 2, "JSON", id="not-utf-8"),
        pytest.param(["--decision", "fail", "--confirmation", "{}"], 2, "commit only", id="confirmation"),
    ],
)
def test_a_decision_that_says_nothing_is_refused(call, crashed, options, code, word):
    done = call("effects", "resolve", crashed, "payment.refund", "order-7", *options)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert word in done.err
    assert states(call, crashed, "--in-doubt") == {"payment.refund": "in doubt"}


def test_an_effect_that_was_never_intended_cannot_be_settled(call, crashed):
    done = call("effects", "resolve", crashed, "payment.refund", "order-8", "--decision", "fail", "--json")
    assert (done.code, json.loads(done.out)["error"]) == (7, "Conflict")


@pytest.mark.parametrize(
    "words", [["effects"], ["effects", "--json"], ["effects", "list"]], ids=["bare", "option", "list"]
)
def test_the_missing_session_is_named(call, vault, words):
    done = call(*words)
    assert done.code == 2
    assert "missing argument 'SESSION'" in done.err
