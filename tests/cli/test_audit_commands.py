"""The audit trail on the command line: listed, verified, exported, and who is behind a pseudonym."""

import json
import re
import stat

import pytest

from vault import Principal, Vault
from vault.cli import auditing
from vault.cli.demo import sealed_at

ANN = ["--as", "ann", "--role", "auditor"]
PIA = ["--as", "pia", "--role", "privacy_officer"]
SAM = ["--as", "sam", "--role", "support"]
NAME = "Ottoline Quarrenby"


@pytest.fixture
def session(call, vault):
    """A session that names a customer, was shared, looked at, and opened in full once; its id."""
    with Vault.open(vault) as opened:
        made = opened.access(Principal(tenant="default", subject="owner")).sessions.create()
        made.append("tool.returned", {"name": NAME, "customer_id": "cus_1"}, tool="crm")
        made.append("message.assistant", {"content": f"Thank you, {NAME}."})
    call("grants", "give", made.id, "bob", "--may", "append")
    call("view", made.id, "--as", "bob")
    call("break-glass", "request", made.id, *SAM, "--reason", "ticket 7\x1b[31m")
    call("break-glass", "end", made.id, *SAM)
    call("grants", "revoke", made.id, "bob")
    return made.id


def test_entries_are_listed_the_newest_first_in_80_columns(call, session, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = call("audit", "list", *ANN)
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert "\x1b" not in done.out
    assert "ticket 7\\x1b[31m" in done.out
    assert "share.given" in done.out
    places = [int(place) for place in re.findall(r"^ *(\d+)  \d{4}-", done.out, re.MULTILINE)]
    assert places == sorted(places, reverse=True)
    assert places[-1] == 1
    assert done.out.endswith(f"{len(places)} entries\n")
    assert not re.search(r"\b(sam|bob|ann)\b", done.out)


def test_entries_of_one_person_and_one_session_are_found_by_name_or_index(call, session, vault):
    named = call("audit", "list", *ANN, "--who", "sam", "--session", session, "--json").document["entries"]
    assert {entry["what"] for entry in named} >= {"access.used", "glass.broken", "glass.mended"}
    assert {entry["session"] for entry in named} == {session}
    [who] = {entry["who"] for entry in named}
    indexed = call("audit", "list", *ANN, "--who", who, "--session", session, "--json").document["entries"]
    assert indexed == named
    assert call("audit", "list", *ANN, "--who", "nobody").err == "no entry to show\n"


def test_a_limit_counts_the_entries_that_are_shown(call, session):
    found = call("audit", "list", *ANN, "--who", "bob", "--limit", "1", "--json").document
    assert (len(found["entries"]), found["more"]) == (1, True)
    assert "there are more" in call("audit", "list", *ANN, "--limit", "1").out


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(["--limit", "0"], id="no-entries"),
        pytest.param(["--limit", "10001"], id="too-many"),
        pytest.param(["--session", "latest"], id="no-session-id"),
        pytest.param(["--who", ""], id="nobody"),
    ],
)
def test_a_filter_that_is_none_is_refused_in_one_sentence(call, session, given):
    done = call("audit", "list", *ANN, *given)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("verb", ["list", "verify", "export"])
def test_who_may_not_look_is_answered_as_in_a_tenant_without_a_trail(call, session, verb):
    """O1"""
    absent = call("audit", verb, *ANN, "--tenant", "other", "--json")
    for who in (["--as", "bob"], SAM, ["--as", "root", "--role", "administrator"]):
        denied = call("audit", verb, *who, "--json")
        assert (denied.code, denied.out, denied.err) == (absent.code, absent.out, absent.err)
        assert denied.code == 3


def test_a_sound_trail_and_vault_are_said_to_be_sound(call, session):
    done = call("audit", "verify", *ANN)
    assert done.code == 0
    assert re.match(r"read \d+ entries of this tenant's audit trail: nothing is wrong\n", done.out)
    assert done.out.endswith("nothing is wrong\n")
    found = call("audit", "verify", *PIA, "--json").document
    assert found["ok"]
    assert found["findings"] == []
    assert found["trail"]["ok"]
    assert found["trail"]["entries"] > 5


def damage(vault, payload):
    """Flip one bit of a stored payload, given a part of its address."""
    database = vault / "data.db"
    content = bytearray(database.read_bytes())
    content[payload(bytes(content))] ^= 1
    database.write_bytes(content)


def test_a_changed_entry_of_the_trail_is_found_and_ends_with_4(call, session, vault):
    with Vault.open(vault) as opened:
        auditor = opened.access(Principal(tenant="default", subject="ann", roles={"auditor"})).audit
        kept = auditor._trail._trail(opened._keys.tenant("default", create=False), create=False)
        entry = next(iter(kept.events(types=["share.given"])))
    damage(vault, lambda content: sealed_at(content, entry))
    done = call("audit", "verify", *ANN, "--json")
    assert done.code == 4
    found = done.document
    assert not found["ok"]
    assert not found["trail"]["ok"]
    assert any(finding["place"].startswith(entry.session_id) for finding in found["findings"])
    shown = call("audit", "verify", *ANN)
    assert shown.code == 4
    assert "audit trail cannot be read" in shown.out
    assert f"{entry.session_id} event {entry.seq}" in shown.out


def test_damage_elsewhere_is_found_although_the_trail_is_sound(call, session, vault):
    with Vault.open(vault) as opened:
        sessions = opened.access(Principal(tenant="default", subject="owner")).sessions
        event = next(iter(sessions.resume(session).events()))
    damage(vault, lambda content: sealed_at(content, event))
    done = call("audit", "verify", *ANN, "--json")
    assert done.code == 4
    assert done.document["trail"]["ok"]
    assert done.document["findings"]


def test_the_trail_is_exported_as_json_lines_the_oldest_first(call, session, place):
    shown = call("audit", "export", *ANN)
    entries = shown.documents
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert entries[0]["what"] == "share.given"
    assert shown.err == f"{len(entries)} entries exported\n"
    done = call("audit", "export", "trail.jsonl", *PIA, "--json")
    assert done.document == {"file": "trail.jsonl", "entries": len(entries) + 1}
    file = place / "trail.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    written = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert written[: len(entries)] == entries


def test_an_export_replaces_nothing_unless_told_to(call, session, place):
    (place / "trail.jsonl").write_text("mine")
    done = call("audit", "export", "trail.jsonl", *ANN)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert (place / "trail.jsonl").read_text() == "mine"
    assert "exported to trail.jsonl" in call("audit", "export", "trail.jsonl", *ANN, "--overwrite").out
    assert call("audit", "export", "absent/trail.jsonl", *ANN).code == 10


def test_a_trail_longer_than_one_answer_is_said_to_be_longer(call, session, monkeypatch):
    monkeypatch.setattr(auditing, "ENTRIES_MAX", 3)
    done = call("audit", "export", *ANN)
    assert len(done.documents) == 3
    assert done.documents[-1]["said"]["action"] == "audit"
    assert "only the newest 3 entries were exported" in done.err
    assert call("audit", "verify", *ANN).out.startswith("read the newest 3 entries")


def test_a_pseudonym_is_revealed_for_a_reason_and_that_is_recorded(call, session):
    view = call("view", session, *PIA).out
    pseudonym = re.search(r"NAME_[A-Z0-9]+", view)[0]
    assert NAME not in view
    assert call("audit", "reveal", session, pseudonym, *PIA, "--reason", "claim 4").out == f"{NAME}\n"
    found = call("audit", "reveal", session, pseudonym, *PIA, "--reason", "claim 4", "--json").document
    assert found == {"session": session, "pseudonym": pseudonym, "value": NAME}
    entries = call("audit", "list", *ANN, "--who", "pia", "--json").document["entries"]
    said = [entry["said"] for entry in entries if entry["what"] == "pseudonym.revealed"]
    assert said == [{"pseudonym": pseudonym, "reason": "claim 4"}] * 2


@pytest.mark.parametrize(
    ("given", "code"),
    [
        pytest.param(["NAME_XXXXXXXXXXXXXXXX", *PIA, "--reason", "r"], 3, id="nobody"),
        pytest.param(["NAME_XXXXXXXXXXXXXXXX", *SAM, "--reason", "r"], 3, id="support"),
        pytest.param(["NAME_XXXXXXXXXXXXXXXX", *ANN, "--reason", "r"], 3, id="auditor"),
        pytest.param(["NAME_XXXXXXXXXXXXXXXX", *PIA, "--reason", ""], 2, id="no-reason"),
        pytest.param(["NAME_XXXXXXXXXXXXXXXX", *PIA], 2, id="reason-left-out"),
        pytest.param(["", *PIA, "--reason", "r"], 2, id="no-pseudonym"),
    ],
)
def test_what_cannot_be_revealed_is_refused_in_one_sentence(call, session, given, code):
    done = call("audit", "reveal", session, *given)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert NAME not in done.err


def test_an_export_holds_the_owners_own_reads_where_the_settings_want_them(call, vault):
    """K4"""
    toml = vault / "vault.toml"
    toml.write_text(toml.read_text().replace('audit_reads = "others"', 'audit_reads = "all"'))
    session = call("sessions", "--json").document["sessions"][0]["id"]
    assert call("show", session).code == 0
    done = call("audit", "export", "--as", "dan", "--role", "auditor")
    reads = [line for line in done.documents if line["session"] == session]
    assert {(line["what"], line["said"]["action"]) for line in reads} == {("access.used", "read")}
