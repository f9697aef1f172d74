"""Sessions out of files and back: formats, damaged lines, pipes, and imports that are stopped."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vault import Principal, Vault, new_event_id
from vault.cli.output import replacing

OWNER = Principal(tenant="default", subject="owner")
SAMPLE = Path(__file__).parents[2] / "vault" / "_sample" / "support-conversation.jsonl"
HEADER = '{"format":"session-vault-jsonl","version":1,"session":{"title":"from a file"}}\n'
TRANSCRIPT = (
    '{"type":"user","uuid":"u1","sessionId":"s1","timestamp":"2025-03-01T12:00:00Z",'
    '"message":{"role":"user","content":"Fix it \\u2028 please"}}\n'
    "damaged \u2028 line\n"
    '{"type":"assistant","uuid":"u2","sessionId":"s1","message":{"role":"assistant","content":"Done."}}'
)


def line(text: str) -> str:
    return json.dumps({"id": new_event_id(), "type": "message.user", "payload": {"content": text}}) + "\n"


@pytest.fixture
def transcript(place) -> Path:
    """A Claude Code transcript with another one beside it."""
    (place / "s1").mkdir()
    (place / "s1" / "agent.jsonl").write_text(TRANSCRIPT, encoding="utf-8")
    (place / "s1" / "result.txt").write_bytes(b"\x00\xff")
    (place / "s1.jsonl").write_text(TRANSCRIPT, encoding="utf-8")
    return place / "s1.jsonl"


# -------------------------------------------------------------------------------------------------- import


def test_every_format_is_recognised_and_its_sessions_are_listed(call, vault, place, transcript):
    """L12, A4."""
    (place / "own.jsonl").write_text(HEADER + line("Hello"), encoding="utf-8")
    done = call("import", "own.jsonl", transcript, SAMPLE)
    assert done.code == 0
    assert "own.jsonl: session JSONL, 2 lines" in done.out
    assert "s1.jsonl: Claude Code transcript" in done.out
    assert "support-conversation.jsonl: OpenAI chat format, 1 line" in done.out
    listed = {item["id"] for item in call("sessions", "--json").document["sessions"]}
    assert sum(session_id in done.out for session_id in listed) == 3
    assert "from a file" in done.out


def test_a_damaged_line_is_reported_with_its_number_and_costs_no_other(call, vault, place):
    """L12."""
    (place / "own.jsonl").write_text(HEADER + line("one") + "damaged\n" + line("two"), encoding="utf-8")
    done = call("import", "own.jsonl")
    assert done.code == 0
    assert "2 events" in done.out
    assert done.err == "own.jsonl: line 3: not JSON\n"
    [report] = call("import", "own.jsonl", "--json").document["files"]
    assert report["problems"] == [{"line": 3, "reason": "not JSON", "file": None}]
    assert (report["events"], report["problems_total"], len(report["sessions"])) == (2, 1, 1)


def test_strict_imports_nothing_of_a_damaged_file(call, vault, place, transcript):
    (place / "own.jsonl").write_text(HEADER + "damaged\n" + line("two"), encoding="utf-8")
    for file in ("own.jsonl", transcript):
        done = call("import", "--strict", file)
        assert (done.code, done.out) == (2, "")
        assert "line 2" in done.err
    assert call("info", "--json").document["sessions"] == 1


def test_a_file_that_cannot_be_taken_costs_no_other_file(call, vault, place):
    (place / "text").write_text("nothing that is known\n")
    (place / "own.jsonl").write_text(HEADER + line("Hello"), encoding="utf-8")
    done = call("import", "absent", ".", "text", "own.jsonl", "--json")
    assert done.code == 2
    assert [report.get("error") for report in done.document["files"]] == ["InvalidInput"] * 3 + [None]
    assert (done.document["error"], done.document["exit_code"]) == ("InvalidInput", 2)
    assert done.err.count("session-vault: ") == 3
    assert call("show", "latest").code == 0


def test_a_file_name_is_not_obeyed_by_the_terminal_either(call, vault, place):
    name = "\x1b[2J\u202e.jsonl"
    (place / name).write_text(HEADER + "damaged\n" + line("Hello"), encoding="utf-8")
    done = call("import", name, f"absent {name}")
    assert not {"\x1b", "\u202e"} & set(done.out + done.err)
    assert done.out.startswith("\\x1b[2J\\u202e.jsonl: session JSONL")
    assert done.err.count("\\x1b[2J") == 2


def test_a_transcript_that_is_here_already_is_a_conflict_and_costs_no_other_file(call, vault, transcript):
    assert call("import", transcript).code == 0
    done = call("import", transcript, SAMPLE)
    assert done.code == 7
    assert "OpenAI chat format" in done.out


def test_a_pipe_can_be_imported(start, call, vault, place):
    """L12."""
    exported = start("export", "latest")
    taken = start("import", "-", "--json", stdin=exported.stdout)
    out, err = taken.communicate(timeout=60)
    assert (taken.returncode, err) == (0, b"")
    [report] = json.loads(out)["files"]
    assert (report["format"], report["events"], report["problems"]) == ("jsonl", 3, [])


def test_what_cannot_come_through_a_pipe_is_refused_in_words(start, vault):
    for content, arguments in ((TRANSCRIPT, []), (HEADER + line("x"), ["--strict"])):
        process = start("import", "-", *arguments, stdin=-1)
        _, err = process.communicate(content.encode(), timeout=60)
        assert process.returncode == 2
        assert b"pipe" in err


# ----------------------------------------------------------------------------------- imports that are stopped


@pytest.fixture
def fed(start, vault, place) -> Callable:
    """An import that reads from a pipe which the test fills; the process, and the pipe."""
    os.mkfifo(place / "pipe")
    process = start("import", "pipe")
    feed = (place / "pipe").open("wb", buffering=0)
    feed.write(HEADER.encode())
    feed.write(b"".join(line(f"event {number}").encode() for number in range(300)))
    # One batch was committed when the session is there.
    with Vault.open(vault) as opened:
        sessions = opened.access(OWNER).sessions
        while sessions.latest().info().event_count < 200 or sessions.latest().info().title != "from a file":
            assert process.poll() is None
    return process, feed


def test_ctrl_c_lets_the_session_be_completed_and_then_ends(fed, call):
    process, feed = fed
    process.send_signal(signal.SIGINT)
    assert b"stopping when this session is complete" in process.stderr.readline()
    feed.write(line("the last one").encode())
    feed.close()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"301 events" in out
    events = call("show", "latest", "--json").documents
    assert len(events) == 301
    assert events[-1]["payload"] == {"content": "the last one"}


def test_ctrl_c_pressed_twice_leaves_a_session_that_says_so_itself(fed, call):
    """What is not whole is never taken for whole."""
    process, feed = fed
    process.send_signal(signal.SIGINT)
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    feed.close()
    assert process.returncode == 130
    assert b"holds only a part" in err
    [found, _] = call("sessions", "--json").document["sessions"]
    assert (found["title"], found["state"]) == ("from a file", "ended")
    assert call("show", found["id"], "--json", "--newest").documents[0]["type"] == "import.interrupted"
    assert call("verify").code == 0


# -------------------------------------------------------------------------------------------------- export


def test_an_exported_session_comes_back_equal(call, vault, place):
    """L12."""
    first = call("export", "latest")
    assert first.err == "3 events exported, in clear\n"
    assert (
        call("export", "latest", "-o", "first.jsonl").out == "3 events exported, in clear, to first.jsonl\n"
    )
    assert (place / "first.jsonl").read_text(encoding="utf-8") == first.out
    assert call("import", "first.jsonl").code == 0
    again = call("export", "latest")
    assert again.out.splitlines()[1:] == first.out.splitlines()[1:]
    assert (place / "first.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_transcript_comes_out_byte_for_byte(call, vault, place, transcript):
    """A4."""
    assert call("import", transcript).code == 0
    assert call("export", "latest", "--format", "claude-code").code == 2
    done = call("export", "latest", "--format", "claude-code", "-o", "out", "--json")
    assert done.code == 0
    assert set(done.document["files"]) == {"out/s1.jsonl", "out/s1/agent.jsonl", "out/s1/result.txt"}
    for name in ("s1.jsonl", "s1/agent.jsonl", "s1/result.txt"):
        assert (place / "out" / name).read_bytes() == (place / name).read_bytes()
    assert call("export", "latest", "--format", "claude-code", "-o", "out").code == 2
    assert call("export", "latest", "--format", "claude-code", "-o", "out", "--overwrite").code == 0


def test_a_chat_comes_out_as_the_messages_that_came_in(call, vault):
    call("import", SAMPLE)
    out = call("export", "latest", "--format", "openai-chat").out
    sample = json.loads(SAMPLE.read_bytes())
    assert json.loads(out)["messages"] == sample["messages"]
    assert json.loads(out)["task_id"] == sample["task_id"]


def test_a_session_without_messages_is_no_chat(call, vault):
    assert call("export", "latest", "--format", "openai-chat").code == 2


def test_a_file_that_exists_is_replaced_only_when_that_is_said(call, vault, place):
    (place / "taken").write_text("precious")
    assert call("export", "latest", "-o", "taken").code == 2
    assert (place / "taken").read_text() == "precious"
    assert call("export", "latest", "-o", "taken", "--overwrite", "--json").document["events"] == 3
    assert call("export", "latest", "-o", place, "--overwrite").code == 2
    assert call("export", "latest", "-o", "nowhere/file").code == 10


def half_written(path: Path) -> None:
    with replacing(path, overwrite=True) as file:
        file.write(b"half")
        raise KeyboardInterrupt


def test_an_export_that_fails_leaves_no_file_and_no_part_of_one(place):
    (place / "kept").write_text("old")
    before = sorted(place.iterdir())
    for name in ("new", "kept"):
        with pytest.raises(KeyboardInterrupt):
            half_written(place / name)
    assert sorted(place.iterdir()) == before
    assert (place / "kept").read_text() == "old"


def test_on_a_terminal_an_export_holds_nothing_that_it_would_obey(call, vault, monkeypatch):
    """The file gets every byte; the screen gets the same values, escaped."""
    text = "\x1b[2J\x9b31m\u202e\x7f"
    with Vault.open(vault) as opened:
        opened.access(OWNER).sessions.create().append("message.user", text)
    plain = call("export", "latest").out
    assert "\x9b" in plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    shown = call("export", "latest").out
    assert not set("\x1b\x9b\u202e\x7f") & set(shown)
    assert json.loads(shown.splitlines()[1]) == json.loads(plain.splitlines()[1])
