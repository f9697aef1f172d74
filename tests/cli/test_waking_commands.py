"""Looking at where a session stands, waking it by hand, and a checkpoint by hand."""

import json

import pytest

from vault import Principal, Vault
from vault.policy.recovery import state_hash

OWNER = Principal(tenant="default", subject="owner")


def events(call, session: str) -> list[str]:
    return [event["type"] for event in call("show", session, "--json").documents]


# ---------------------------------------------------------------------------------------------------- why


def test_why_tells_a_crash_within_an_effect_in_plain_words_and_writes_nothing(call, crashed):
    """C5, L11."""
    before = events(call, crashed)
    done = call("why", crashed)
    out = " ".join(done.out.split())
    assert done.code == 0
    assert "Crashed during effect payment.refund “order-7”" in out
    assert "nobody knows whether it happened" in out
    assert "No answer yet: tool bank" in out
    assert "What to do: find out whether the effect happened" in out
    told = call("why", crashed, "--json").document
    assert told["session"] == crashed
    assert told["standing"]["kind"] == "crashed_in_effect"
    assert told["active"] is None
    assert told["lines"][0].startswith("Crashed during")
    assert len(told["standing"]["pending_tools"]) == len(told["standing"]["effects_open"]) == 1
    assert events(call, crashed) == before


def test_why_tells_a_run_at_work_from_one_that_is_gone(call, vault):
    """S6."""
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.latest()
        with session.run() as run:
            told = call("why", session.id, "--json").document
            assert (told["standing"]["kind"], told["active"]) == ("running", run.id)
        assert call("why", session.id, "--json").document["standing"]["kind"] == "stopped"


def test_why_of_a_new_and_of_an_ended_session(call, vault):
    with Vault.open(vault) as opened:
        new = opened.access(OWNER).sessions.create().id
    assert "New: nothing has happened yet." in call("why", new).out
    assert call("why", new, "--json").document["standing"]["since"] is None
    call("end", new)
    assert "it takes no more runs." in call("why", new).out


def test_a_fork_does_not_count_the_originals_crash_as_its_own(call, crashed):
    fork = call("fork", crashed, "--json").document["id"]
    assert call("why", fork, "--json").document["standing"]["kind"] == "idle"


# --------------------------------------------------------------------------------------------------- wake


def test_waking_by_hand_tells_what_an_agent_would_be_told_and_gives_the_lease_back(call, crashed):
    """C5."""
    before = events(call, crashed)
    done = call("wake", crashed)
    out = " ".join(done.out.split())
    assert done.code == 0
    for part in (
        "it stood: crashed during effect payment.refund “order-7”",
        "tools without an answer: bank, asked for",
        "effects in doubt: payment.refund “order-7”, intended",
        "its config: not compared: no configuration was given",
        "note for the model",
        "Do not repeat these",
        "took the lease and gave it back",
    ):
        assert part in out
    assert events(call, crashed) == [*before, "run.woken", "run.stopped"]
    [*_, last] = call("runs", crashed, "--json").document["runs"]
    assert (last["how"], last["reason"]) == ("woken", "woken by hand from the command line")
    assert call("runs", crashed, "--json").document["active"] is None


def test_a_program_gets_all_that_waking_gives(call, crashed):
    """C5."""
    told = call("wake", crashed, "--json").document
    assert told["standing"]["kind"] == "crashed_in_effect"
    assert [tool["tool"] for tool in told["pending_tools"]] == ["bank"]
    assert [(effect["kind"], effect["state"]) for effect in told["in_doubt"]] == [
        ("payment.refund", "in doubt")
    ]
    assert told["recovered"]["through"] == told["recovered"]["state"]["through"]
    assert told["recovered"]["checkpoint"].startswith("evt_")
    assert told["gap"]["advice"] == "fresh"
    assert told["drift"]["changed"] is False
    assert told["run"].startswith("run_")


def test_a_session_where_nothing_is_open_has_nothing_to_note(call, vault):
    out = call("wake", "latest").out
    assert "tools without an answer: warehouse" in " ".join(out.split())
    with Vault.open(vault) as opened:
        opened.access(OWNER).sessions.create().append("message.user", {"content": "hello"})
    out = call("wake", "latest").out
    assert "tools without an answer: none" in out
    assert "effects in doubt: none" in out
    assert "note for the model" not in out


def test_another_configuration_is_refused_until_somebody_decides(call, crashed, place):
    """S7."""
    (place / "now.json").write_text(json.dumps({"tools": {"mail": {}}, "model": "two"}))
    given = ["--config", "support@4", "--document", "now.json"]
    before = events(call, crashed)
    done = call("wake", crashed, *given)
    assert (done.code, done.out) == (7, "")
    assert done.err.count("\n") == 1
    assert "--on-drift" in done.err
    assert events(call, crashed) == before
    old = " ".join(call("wake", crashed, *given, "--on-drift", "old").out.split())
    for part in ('New tools: "mail"', 'Tools that no longer exist: "crm"', 'is "two" now; it was "one"'):
        assert part in old
    assert "An agent would go on under the old one." in old
    assert "config.changed" not in events(call, crashed)
    new = call("wake", crashed, *given, "--on-drift", "new", "--json").document
    assert new["choice"]["config"] == "new"
    assert "config.changed" in events(call, crashed)
    assert call("wake", crashed, *given).code == 0
    assert "nothing changed" in call("wake", crashed, *given).out


@pytest.mark.parametrize(
    ("options", "word"),
    [
        pytest.param(["--on-drift", "maybe"], "--on-drift", id="policy"),
        pytest.param(["--document", "absent.json"], "cannot be read", id="no-file"),
        pytest.param(["--document", "text.txt"], "not JSON", id="no-json"),
        pytest.param(["--document", "list.json"], "one object", id="no-object"),
        pytest.param(["--document", "."], "cannot be read", id="directory"),
        pytest.param(["--wait", "-1"], "wait is a number", id="wait"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_sentence(call, crashed, place, options, word):
    (place / "text.txt").write_text("not json")
    (place / "list.json").write_text("[]")
    done = call("wake", crashed, *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert word in done.err


def test_a_run_at_work_is_not_disturbed(call, vault):
    """S6."""
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.latest()
        with session.run():
            for command in (
                ["wake", session.id],
                ["wake", session.id, "--wait", "0.1"],
                ["checkpoint", "--session", session.id],
                ["restart", session.id, "--summary", "x"],
                ["effects", "resolve", session.id, "a", "b", "--decision", "fail"],
            ):
                done = call(*command)
                assert done.code == (7 if command[0] == "effects" else 11)
                assert (done.out, done.err.count("\n")) == ("", 1)
        assert call("wake", session.id).code == 0


# --------------------------------------------------------------------------------------------- checkpoint


def test_a_checkpoint_by_hand_is_one_to_recover_from(call, crashed):
    """C1: on demand."""
    done = call("checkpoint", "--session", crashed, "--json").document
    assert done["session"] == crashed
    assert call("wake", crashed, "--json").document["recovered"]["checkpoint"] == done["event"]
    assert "holds the state of" in call("checkpoint", "--session", "latest").out
    assert events(call, crashed)[-3:] == ["run.started", "checkpoint.created", "run.stopped"]


def test_without_a_session_it_is_still_the_ledger_that_is_written(call, vault):
    assert call("checkpoint", "--json").document.keys() == {"entry", "recorded_at", "sha256", "new"}


# -------------------------------------------------------------------------------------------------- errors


def test_a_checkpoint_that_the_log_does_not_bear_out_is_refused(call, vault):
    """C2."""
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.latest()
        state = session.recover().state
        wrong = {**state, "node": "somewhere else"}
        with session.run() as run:
            said = {"state": wrong, "sha256": state_hash(wrong), "through": 3, "reducer": "vault@1"}
            run.append("checkpoint.created", said)
    for command in ("why", "wake"):
        done = call(command, session.id)
        assert (done.code, done.out, done.err.count("\n")) == (18, "", 1)
        assert "checkpoint" in done.err
    assert call("runs", session.id, "--json").document["active"] is None
