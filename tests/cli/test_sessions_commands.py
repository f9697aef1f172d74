"""Finding, reading, following and ending sessions, as a person and as a program."""

import json
import re
import shlex
from datetime import UTC, datetime, timedelta

import pytest

from vault import Principal, Vault, new_run_id
from vault.cli.timeline import Timeline
from vault.clock import to_us

OWNER = Principal(tenant="default", subject="owner")


def ids(done) -> list[str]:
    return [event["id"] for event in done.documents]


@pytest.fixture
def told(vault):
    """The vault, and the events of its session."""
    with Vault.open(vault) as opened:
        return list(opened.access(OWNER).sessions.latest().events())


# ------------------------------------------------------------------------------------------------ sessions


def test_a_session_is_recognised_in_the_list(call, vault, told):
    """S2."""
    out = call("sessions").out
    for part in (
        "August sales",
        "Why did sales drop?",
        "→ The south fell.",
        "purpose=sales",
        "active",
        "just now",
    ):
        assert part in out
    assert told[0].session_id in out
    [found] = call("sessions", "--json").document["sessions"]
    assert found["id"] == told[0].session_id
    assert (found["title"], found["event_count"], found["state"]) == ("August sales", 3, "active")
    assert datetime.fromisoformat(found["last_event_at"]).utcoffset() == timedelta(0)


@pytest.mark.parametrize("columns", ["50", "71", "72", "100", "200"])
def test_the_list_and_the_timeline_keep_to_the_width(call, vault, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    for command in (["sessions"], ["show", "latest"]):
        lines = call(*command).out.splitlines()
        # Ids stay in one piece, to be copied.
        assert all(
            len(line.rstrip()) <= int(columns) for line in lines if not re.search(r"(evt|ses|run)_", line)
        )


def test_a_list_is_paged_by_the_command_that_it_prints(call, vault):
    """S2."""
    with Vault.open(vault) as opened:
        for number in range(4):
            opened.access(OWNER).sessions.create(title=f"No {number}", labels={"kind": "it's one"})
    seen: list[str] = []
    words = ["session-vault", "sessions", "--label", "kind=it's one", "--vault", str(vault), "--limit", "3"]
    while words:
        done = call(*words[1:])
        assert done.code == 0
        seen += re.findall(r"No \d", done.out)
        printed = re.search(r"^next page: (.*)$", done.out, re.MULTILINE)
        words = shlex.split(printed[1]) if printed else []
    assert seen == ["No 3", "No 2", "No 1", "No 0"]


def test_the_list_is_filtered_by_label_and_state(call, vault):
    with Vault.open(vault) as opened:
        opened.access(OWNER).sessions.create(labels={"purpose": "support"}).end()

    def found(*options: str) -> list[dict]:
        return call("sessions", "--json", *options).document["sessions"]

    assert [item["labels"] for item in found("--label", "purpose=support")] == [{"purpose": "support"}]
    assert [item["state"] for item in found("--state", "active")] == ["active"]
    assert found("--label", "purpose=support", "--label", "x=y") == []
    assert call("sessions", "--label", "purpose").code == 2
    assert call("sessions", "--state", "asleep").code == 2
    assert call("sessions", "--cursor", "x").code == 2


def test_nobody_else_sees_a_session(call, vault, told):
    """O1: exactly the answer that an id gets which nobody has."""
    absent = "ses_00000000-0000-7000-8000-000000000000"
    for command in (["show"], ["export"], ["follow"], ["end"]):
        other = call(*command, told[0].session_id, "--as", "bob")
        assert other == call(*command, absent, "--as", "bob") == call(*command, absent)
        assert (other.code, other.out) == (3, "")
    assert call("sessions", "--as", "bob", "--json").document["sessions"] == []
    assert call("sessions", "--tenant", "acme", "--json").document["sessions"] == []


def test_who_is_meant_can_come_from_the_environment(call, vault, monkeypatch):
    monkeypatch.setenv("SESSION_VAULT_TENANT", "acme")
    monkeypatch.setenv("SESSION_VAULT_SUBJECT", "alice")
    assert call("show", "latest").code == 3
    with Vault.open(vault) as opened:
        opened.access(Principal(tenant="acme", subject="alice")).sessions.create(title="hers")
    assert "hers" in call("show", "latest").out
    assert "August" in call("show", "latest", "--tenant", "default", "--as", "owner").out


# ---------------------------------------------------------------------------------------------------- show


def test_a_timeline_shows_every_event_as_it_was_said(call, vault, told):
    out = call("show", "latest").out
    assert re.search(r"1  \d\d:\d\d:\d\d  message.user +Why did sales drop\?", out)
    assert re.search(r"2  \d\d:\d\d:\d\d  tool.requested +warehouse\(month=8\)", out)
    assert "3 of 3 events" in out


def test_json_lines_are_the_events_themselves(call, vault, told):
    """L3, L6."""
    found = call("show", told[0].session_id, "--json").documents
    assert [event["seq"] for event in found] == [1, 2, 3]
    for event, document in zip(told, found, strict=True):
        for name in ("id", "type", "tool", "caused_by", "payload", "payload_ref", "level", "size"):
            assert document[name] == getattr(event, name)
        assert datetime.fromisoformat(document["recorded_at"]) == event.recorded_at


def test_a_part_of_a_session_is_shown_by_type_run_place_and_time(call, vault, told):
    """L3, L9."""
    run = new_run_id()
    with Vault.open(vault) as opened:
        in_run = opened.access(OWNER).sessions.latest().append("message.user", "more", run=run)
    every = [event.id for event in told] + [in_run.id]

    def shown(*options: str) -> list[str]:
        return ids(call("show", "latest", "--json", *options))

    assert shown() == every
    assert shown("--type", "message.user") == [every[0], every[3]]
    assert shown("--type", "message.user", "--type", "tool.requested") == [every[0], every[1], every[3]]
    assert shown("--run", run) == [every[3]]
    assert shown("--after", every[0], "--before", every[3]) == every[1:3]
    assert shown("--limit", "2") == every[:2]
    assert shown("--newest", "--limit", "2") == [every[3], every[2]]
    assert shown("--newest") == every[::-1]
    assert shown("--since", in_run.recorded_at.isoformat()) == [every[3]]
    assert shown("--until", in_run.recorded_at.isoformat().replace("+00:00", "Z")) == every[:3]


def test_a_part_that_was_cut_says_how_to_go_on(call, vault, told):
    assert f"2 of 3 events; go on with --after {told[1].id}" in call("show", "latest", "--limit", "2").out
    assert f"--before {told[2].id}" in call("show", "latest", "--newest", "--limit", "1").out


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--since", "yesterday"], id="not-a-time"),
        pytest.param(["--since", "2025-03-01T12:00:00"], id="no-zone"),
        pytest.param(["--after", "3"], id="not-an-event-id"),
        pytest.param(["--run", "x"], id="not-a-run-id"),
        pytest.param(["--type", "Message"], id="not-a-type"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_in_one_sentence(call, vault, options):
    done = call("show", "latest", *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_nothing_that_a_session_holds_is_obeyed_by_the_terminal(call, vault):
    """Escape sequences and markup, in every place where a user or an agent can put text."""
    evil = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e[bold]:smile:"
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.create(
            title=evil, labels={evil: evil}, config=evil, external_id=evil
        )
        session.append("message.user", {"content": evil})
        session.append("message.assistant", evil)
        session.append("tool.requested", {evil: evil}, tool=evil, usage={evil: evil})
        session.append("tool.returned", raw=evil.encode(), tool=evil)
        session.append("tool.failed", raw=b"\x1b[2J plain bytes", tool=evil)
    for command in (
        ["sessions"],
        ["sessions", "--json"],
        ["show", "latest"],
        ["show", "latest", "--json"],
        ["end", "latest"],
    ):
        done = call(*command)
        assert done.code == 0
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", done.out + done.err)
        if "--json" not in command and command[0] != "end":
            assert "[bold]:smile:" in done.out


@pytest.mark.parametrize(
    ("kind", "lines"),
    [("message.user", 12), ("message.assistant", 12), ("message.system", 3), ("tool.returned", 3)],
)
@pytest.mark.parametrize("text", ["word " * 5_000, "漢" * 5_000, "\u200d" * 5_000, "x\n" * 5_000])
def test_a_long_text_is_cut_to_a_few_lines_with_a_mark(call, vault, kind, lines, text):
    with Vault.open(vault) as opened:
        opened.access(OWNER).sessions.create(title="long").append(kind, {"content": text})
    shown = call("show", "latest").out.split("──\n")[1].splitlines()[:-1]
    assert 1 <= len(shown) <= lines
    assert shown[-1].endswith("…")


def test_pauses_days_and_runs_are_marked(call, vault):
    run, start = new_run_id(), datetime(2025, 3, 1, 12, tzinfo=UTC)
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.create()
        for minutes in (0, 1, 121, 60 * 24 * 3):
            session.append(
                "message.user", str(minutes), occurred_at=start + timedelta(minutes=minutes), run=run
            )
        session.append("message.user", "without a time of its own", run=run)
    lines = call("show", "latest").out.splitlines()
    marks = [line for line in lines if line.startswith("──")]
    assert marks == [
        f"── Saturday 2025-03-01, UTC+00:00 · {run} ──",
        "── 2 hours later ──",
        "── 2 days later · Tuesday 2025-03-04, UTC+00:00 ──",
    ]
    assert re.search(r"  5 {12}message.user", "\n".join(lines))


def test_what_is_appended_after_an_import_stands_in_its_own_time(vault, told):
    class Screen:
        width = 100

        def __init__(self):
            self.lines = []

        def print(self, text, **_):
            self.lines.append(text.plain)

    screen = Screen()
    timeline, then = Timeline(screen, 3), to_us(datetime(2024, 1, 1, tzinfo=UTC))
    imported = told[0]._replace(occurred_us=then)
    later = told[1]._replace(recorded_us=imported.recorded_us + 3_600 * 10**6)
    timeline.add(told[0])
    timeline.add(imported)
    timeline.add(later)
    marks = [line for line in screen.lines if line.startswith("──")]
    assert len(marks) == 3
    assert "2024-01-01" in marks[1]
    assert "earlier" not in marks[1]
    assert "later" in marks[2]


# ------------------------------------------------------------------------------------------------- follow


def test_follow_shows_what_is_there_and_what_comes_until_the_session_ends(start, vault, told):
    """L10, across processes."""
    process = start("follow", told[0].session_id, "--json", "--after", told[0].id)
    assert [json.loads(process.stdout.readline())["seq"] for _ in range(2)] == [2, 3]
    with Vault.open(vault) as opened:
        session = opened.access(OWNER).sessions.latest()
        session.append("message.user", "and now?")
        assert json.loads(process.stdout.readline())["payload"] == "and now?"
        session.append_many([])
        session.end()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_follow_of_an_ended_session_is_a_timeline_that_ends(call, vault):
    assert call("end", "latest").code == 0
    [found] = call("sessions", "--json").document["sessions"]
    done = call("follow", found["id"])
    assert done.code == 0
    assert "Why did sales drop?" in done.out
    assert "ended" in done.err


# ---------------------------------------------------------------------------------------------------- end


def test_an_ended_session_stays_readable_and_is_no_longer_the_latest(call, vault, told):
    """S1."""
    done = call("end", "latest", "--json")
    assert done.document["state"] == "ended"
    assert done.document["ended_at"]
    assert call("end", told[0].session_id).code == 0
    assert len(call("show", told[0].session_id, "--json").documents) == 3
    assert call("show", "latest").code == 3


def test_labels_are_given_and_taken_away_by_a_command(call, vault, told):
    """S2"""
    done = call("label", "latest", "case=closed", "year=2027", "--remove", "purpose")
    assert done.out == f"{told[0].session_id} has the labels case=closed  year=2027\n"
    [found] = call("sessions", "--label", "case=closed", "--json").document["sessions"]
    assert found["id"] == told[0].session_id
    again = call("label", "latest", "--remove", "case", "--remove", "year", "--json").document
    assert (again["id"], again["labels"]) == (told[0].session_id, {})
    assert call("label", "latest", "--remove", "case").out == f"{told[0].session_id} has no labels\n"


@pytest.mark.parametrize("given", [[], ["case"], ["case=closed", "--remove", "case"]])
def test_labels_that_mean_nothing_are_refused_in_one_sentence(call, vault, told, given):
    refused = call("label", "latest", *given)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)


def test_a_label_that_a_hold_names_stays_and_the_exit_code_says_so(call, vault, told):
    """D2"""
    officer = Principal(tenant="default", subject="dpo", roles={"privacy_officer"})
    with Vault.open(vault) as opened:
        opened.access(officer).holds.place(label=("purpose", "sales"), reason="case")
    refused = call("label", "latest", "purpose=rent")
    assert (refused.code, refused.out) == (7, "")
    assert "legal hold" in refused.err
