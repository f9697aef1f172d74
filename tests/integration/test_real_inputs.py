"""Recorded sessions of real agents go into a real vault, come back equal, and verify (A4, L12)."""

import io
import json
from pathlib import Path

import pytest

from vault import Principal, Vault
from vault.adapters import claude_code, openai_chat, session_jsonl

DATA = Path(__file__).parents[2].parent / "shared" / "data"
RUNS = DATA / "airline-support.jsonl"
SAMPLE = Path(__file__).parents[2] / "vault" / "_sample" / "support-conversation.jsonl"
TRANSCRIPTS = sorted((DATA / "claude-code").glob("*.jsonl"))
ALICE = Principal(tenant="acme", subject="alice")

needs_data = pytest.mark.skipif(
    not RUNS.is_file(), reason="the recorded sessions are not here: ../shared/data"
)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "vault"


def exported(session) -> bytes:
    out = io.BytesIO()
    session_jsonl.export_session(session, out)
    return out.getvalue()


def is_verified(vault) -> bool:
    report = vault.verify()
    assert report.findings == ()
    return report.ok


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.name, marks=[] if path == SAMPLE else needs_data) for path in (SAMPLE, RUNS)],
)
def test_recorded_runs_come_back_equal_from_a_vault_that_verifies(place, path):
    runs = [json.loads(line) for line in path.read_bytes().splitlines()]
    with Vault.create(place) as vault, path.open("rb") as source:
        report = openai_chat.import_runs(source, vault.access(ALICE), strict=True)
    assert report.problems_total == 0
    assert len(report.sessions) == len(runs)
    with Vault.open(place) as vault:
        alice = vault.access(ALICE)
        for session_id, run in zip(report.sessions, runs, strict=True):
            session = alice.sessions.resume(session_id)
            assert openai_chat.export_messages(session) == run["messages"]
            assert session.info().labels == {"task": str(run["task_id"]), "trial": str(run["trial"])}
            calls = [call for message in run["messages"] for call in message.get("tool_calls") or []]
            assert session.info().title
            assert [event.tool for event in session.events(types=["tool.requested"])] == [
                call["function"]["name"] for call in calls
            ]
            requested = {event.id for event in session.events(types=["tool.requested"])}
            assert {event.caused_by for event in session.events(types=["tool.returned"])} <= requested
        assert is_verified(vault)


@needs_data
def test_recorded_runs_survive_export_and_import(place):
    """L12"""
    with Vault.create(place) as vault, RUNS.open("rb") as source:
        alice = vault.access(ALICE)
        report = openai_chat.import_runs(source, alice)
        for session_id in report.sessions[:20]:
            first = exported(alice.sessions.resume(session_id))
            again = session_jsonl.import_session(io.BytesIO(first), alice, strict=True)
            second = exported(alice.sessions.resume(again.sessions[0]))
            assert second.split(b"\n")[1:] == first.split(b"\n")[1:]
        assert is_verified(vault)


@needs_data
def test_recorded_transcripts_come_back_byte_for_byte_from_a_vault_that_verifies(place, tmp_path):
    """A4"""
    assert TRANSCRIPTS
    with Vault.create(place) as vault:
        alice = vault.access(ALICE)
        reports = [claude_code.import_transcript(path, alice) for path in TRANSCRIPTS]
    with Vault.open(place) as vault:
        alice = vault.access(ALICE)
        for path, report in zip(TRANSCRIPTS, reports, strict=True):
            session = alice.sessions.resume(report.sessions[0])
            (written,) = claude_code.export_transcript(session, tmp_path / "out")
            assert written.name == path.name
            assert written.read_bytes() == path.read_bytes()
            assert list(session.events(types=["message.user"]))
            assert session.info().title
            # Through our own format and back it is still the same transcript.
            data = exported(session).replace(b'"external_id":"', b'"external_id":"copy of ')
            copy = session_jsonl.import_session(io.BytesIO(data), alice, strict=True)
            claude_code.export_transcript(alice.sessions.resume(copy.sessions[0]), tmp_path / "copy")
            assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()
        assert is_verified(vault)


@needs_data
def test_the_damaged_lines_of_the_edge_cases_are_named(place):
    """A4, L12"""
    path = DATA / "claude-code" / "edge_cases.jsonl"
    damaged = [
        number
        for number, line in enumerate(path.read_bytes().split(b"\n"), start=1)
        if line in {b'"massive error"', b"42", b"[1]"}
    ]
    with Vault.create(place) as vault:
        report = claude_code.import_transcript(path, vault.access(ALICE))
    assert len(damaged) == 3
    assert [problem.line for problem in report.problems] == damaged
