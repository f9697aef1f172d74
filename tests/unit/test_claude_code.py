"""Claude Code transcripts: in and out byte for byte, and sliceable by what their lines are (A4)."""

import json
import os
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vault import Principal, Vault, errors
from vault.adapters import claude_code
from vault.adapters.claude_lines import read_line


@pytest.fixture(scope="module")
def access(tmp_path_factory):
    with Vault.create(tmp_path_factory.mktemp("claude") / "vault") as vault:
        alice = vault.access(Principal(tenant="acme", subject="alice"))
        alice.sessions.create()  # a tenant begins with its first session
        yield alice


@pytest.fixture
def place(tmp_path):
    """Where transcripts are made; every test has its own session ids, as the access is shared."""
    return tmp_path


def name_of(path) -> str:
    return f"{path.name}-{os.urandom(4).hex()}"


def write(path, content: bytes):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def imported(access, path, **options):
    report = claude_code.import_transcript(path, access, **options)
    return access.sessions.resume(report.sessions[0]), report


def files_below(directory) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def line(**fields) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode()


def said(role: str, *content, **fields) -> bytes:
    return line(type=role, message={"role": role, "content": list(content)}, **fields)


def lines_of(session):
    return [event for event in session.events() if not event.type.startswith("import.")]


ASKED = said("user", {"type": "text", "text": "Please read a.txt"}, timestamp="2025-06-14T11:00:00.250Z")
CALLED = said(
    "assistant",
    {"type": "text", "text": "Reading."},
    {"type": "tool_use", "id": "t1", "name": "Read", "input": {}},
)
RETURNED = said(
    "user",
    {"type": "tool_result", "tool_use_id": "t1", "content": "x"},
    timestamp="2025-06-14T13:01:00+02:00",
)


# ------------------------------------------------------------------------------------------------- lines

TYPES = {
    "user text": (ASKED, "message.user"),
    "user string": (line(type="user", message={"content": "hi"}), "message.user"),
    "user of another shape": (line(type="user", message="error"), "message.user"),
    "assistant text": (said("assistant", {"type": "text", "text": "hi"}), "message.assistant"),
    "assistant thinking": (said("assistant", {"type": "thinking", "thinking": "hm"}), "message.assistant"),
    "tool use": (CALLED, "tool.requested"),
    "server tool use": (said("assistant", {"type": "server_tool_use", "id": "s"}), "tool.requested"),
    "tool result": (RETURNED, "tool.returned"),
    "tool error": (said("user", {"type": "tool_result", "is_error": True}), "tool.failed"),
    "system": (line(type="system", subtype="local_command"), "message.system"),
    "compact boundary": (line(type="system", subtype="compact_boundary"), "context.summarized"),
    "compact summary": (line(type="user", isCompactSummary=True, message={}), "context.summarized"),
    "summary": (line(type="summary", summary="s"), "context.summarized"),
    "known word": (line(type="file-history-snapshot"), "transcript.file-history-snapshot"),
    "unknown word": (line(type="Alice Smith"), "transcript.other"),
    "type is a list": (line(type=["user"]), "transcript.other"),
    "no type": (line(silly="this"), "transcript.other"),
    "empty": (b"", "transcript.blank"),
    "spaces": (b" \r", "transcript.blank"),
    "cut": (ASKED[:-9], "transcript.damaged"),
    "two records": (ASKED + ASKED, "transcript.damaged"),
    "a number": (b"42", "transcript.damaged"),
    "not UTF-8": (b'{"type":"user","x":"\xff"}', "transcript.damaged"),
    "lone surrogate escape": (b'{"type":"user","x":"\\ud800"}', "message.user"),
    "CRLF": (ASKED + b"\r", "message.user"),
}


@pytest.mark.parametrize(("content", "expected"), TYPES.values(), ids=TYPES)
def test_a_line_becomes_an_event_of_its_kind(content, expected):
    """A4"""
    assert read_line(content).type == expected
    assert (read_line(content).damage is not None) == (expected == "transcript.damaged")


def test_calls_and_their_results_are_found_by_type_and_tool(access, place):
    """A4, L8"""
    other = said("user", {"type": "tool_result", "tool_use_id": "unknown", "content": "x"})
    session, _ = imported(
        access, write(place / f"{name_of(place)}.jsonl", b"\n".join([ASKED, CALLED, RETURNED, other]))
    )
    asked, called, returned, stray = lines_of(session)
    assert (called.type, called.tool, called.caused_by) == ("tool.requested", "Read", None)
    assert (returned.type, returned.tool, returned.caused_by) == ("tool.returned", "Read", called.id)
    assert (stray.tool, stray.caused_by) == (None, None)
    assert [event.raw for event in session.events(types=["tool.requested"])] == [CALLED]
    assert asked.occurred_at == datetime(2025, 6, 14, 11, 0, 0, 250_000, tzinfo=UTC)
    assert asked.observed_at is None
    assert returned.observed_at == returned.occurred_at == datetime(2025, 6, 14, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize("when", ["2025-06-14T11:00:00", "noon", 5, None, "9999-12-31T23:59:59-12:00"])
def test_a_time_without_a_moment_is_left_out_and_the_line_kept(access, place, when):
    content = said("user", timestamp=when)
    session, report = imported(access, write(place / f"{name_of(place)}.jsonl", content))
    (event,) = lines_of(session)
    assert (event.raw, event.occurred_at, report.problems_total) == (content, None, 0)


@pytest.mark.parametrize("name", ["x" * 257, "", 5, None, "\ud800"])
def test_a_tool_name_that_the_vault_does_not_take_costs_nothing(access, place, name):
    content = json.dumps(
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "name": name}]}}
    ).encode()
    session, _ = imported(access, write(place / f"{name_of(place)}.jsonl", content))
    (event,) = lines_of(session)
    assert (event.raw, event.tool) == (content, None)


# ----------------------------------------------------------------------------------------- name of a session

TITLES = {
    "what was asked": ([ASKED], "Please read a.txt"),
    "a summary": ([ASKED, line(type="summary", summary="Reading")], "Reading"),
    "a made title": ([line(type="ai-title", aiTitle="Made"), line(type="summary", summary="S")], "Made"),
    "the last given title": (
        [line(type="custom-title", customTitle="One"), ASKED, line(type="custom-title", customTitle="Two")],
        "Two",
    ),
    "not what nobody typed": (
        [said("user", {"type": "text", "text": "<command-name>x</command-name>"}), RETURNED, ASKED],
        "Please read a.txt",
    ),
    "not a note of the program": (
        [line(type="user", isMeta=True, message={"content": "meta"}), ASKED],
        "Please read a.txt",
    ),
    "one line of 80 characters": (
        [line(type="user", message={"content": "a\n\u2028b " + "c" * 100})],
        "a b " + "c" * 76,
    ),
    "none": ([CALLED], None),
}


@pytest.mark.parametrize(("content", "title"), TITLES.values(), ids=TITLES)
def test_a_session_is_called_what_its_transcript_is_called(access, place, content, title):
    """S2"""
    session, _ = imported(access, write(place / f"{name_of(place)}.jsonl", b"\n".join(content)))
    assert session.info().title == title


def test_a_session_is_found_by_the_id_in_its_transcript_else_by_its_file_name(access, place):
    name = name_of(place)
    session, _ = imported(access, write(place / f"{name}.jsonl", line(type="user", sessionId=f"in-{name}")))
    assert access.sessions.resume_external(f"in-{name}").id == session.id
    session, _ = imported(access, write(place / f"{name}.jsonl", ASKED))
    assert access.sessions.resume_external(name).id == session.id


def test_a_transcript_is_not_imported_twice(access, place):
    path = write(place / f"{name_of(place)}.jsonl", ASKED)
    imported(access, path)
    with pytest.raises(errors.Conflict):
        imported(access, path)


# --------------------------------------------------------------------------------------------- byte for byte

#: A line that is longer than what is held at once, and one that just fits.
LIMIT = claude_code.PIECE_BYTES_MAX
CONTENTS = {
    "empty file": b"",
    "one empty line": b"\n",
    "empty lines": b"\n\n" + ASKED + b"\n\n\n",
    "final newline": ASKED + b"\n" + CALLED + b"\n",
    "no final newline": ASKED + b"\n" + CALLED,
    "CRLF": ASKED + b"\r\n" + CALLED + b"\r\n",
    "carriage returns alone": ASKED + b"\r" + CALLED,
    "line separators of Unicode": line(type="user", message="a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg") + b"\n",
    "escaped separators": b'{"type":"user","x":"\\u2028\\/\\ud800"}\n',
    "numbers that do not survive reading": b'{"type":"user","x":[1e-7,-0,1.0,100000000000000000000000]}\n',
    "a key twice": b'{"type":"user","type":"system"}\n',
    "not UTF-8": b"\xff\xfe\x00\n" + ASKED,
    "byte order mark": b"\xef\xbb\xbf" + ASKED + b"\n",
    "NUL": b"\x00\n\x00",
    "torn and glued": ASKED[:20] + CALLED + b"\n" + RETURNED,
    "longer than is held": b'{"type":"user","x":"' + b"a" * (2 * LIMIT) + b'"}\n' + ASKED,
    "as long as is held": b"b" * LIMIT + b"\n" + ASKED + b"\n",
    "as long as is held, at the end": ASKED + b"\n" + b"b" * LIMIT,
    "one byte less": b"b" * (LIMIT - 1) + b"\n" + ASKED,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_transcript_comes_back_byte_for_byte(access, place, content):
    """A4"""
    path = write(place / "in" / f"{name_of(place)}.jsonl", content)
    session, report = imported(access, path)
    written = claude_code.export_transcript(session, place / "out")
    assert files_below(place / "out") == {path.name: content}
    assert written == (place / "out" / path.name,)
    assert report.bytes == len(content)
    assert report.lines == len(content.split(b"\n")) - (content.endswith(b"\n") or not content)


def test_what_stands_beside_a_transcript_comes_back_too(access, place):
    """A4"""
    name = name_of(place)
    files = {
        f"{name}.jsonl": ASKED + b"\n" + CALLED + b"\n",
        f"{name}/subagents/agent-1.jsonl": RETURNED,
        f"{name}/subagents/agent-1.meta.json": b'{\n "finished": true }\n',
        f"{name}/subagents/workflows/run-7/agent-2.jsonl": b"{\n\n",
        f"{name}/tool-results/t1.txt": b"\r\n\xff\x00" * 200_000,
        f"{name}/tool-results/large.txt": os.urandom(LIMIT + 5),
        f"{name}/tool-results/empty.txt": b"",
        f"{name}/tool-results/Zürich 東京.txt": b"x",
    }
    for relative, content in files.items():
        write(place / "in" / relative, content)
    write(place / "in" / "another.jsonl", ASKED)
    session, report = imported(access, place / "in" / f"{name}.jsonl")
    claude_code.export_transcript(session, place / "out")
    assert files_below(place / "out") == files
    assert [(problem.file, problem.line) for problem in report.problems] == [
        (f"{name}/subagents/workflows/run-7/agent-2.jsonl", 1)
    ]
    assert report.bytes == sum(map(len, files.values()))
    (called,) = session.events(types=["tool.requested"])
    (returned,) = session.events(types=["tool.returned"])
    assert returned.caused_by == called.id


@settings(max_examples=60)
@example(main=b"", agent=b"\n", result=b"\n")
@given(
    main=st.lists(st.binary(max_size=12) | st.sampled_from([ASKED, CALLED, b"\r"]), max_size=6).map(
        b"\n".join
    ),
    agent=st.binary(max_size=40),
    result=st.binary(max_size=40),
)
def test_any_bytes_come_back(access, tmp_path_factory, main, agent, result):
    """A4"""
    place = tmp_path_factory.mktemp("any")
    name = name_of(place)
    files = {
        f"{name}.jsonl": main,
        f"{name}/subagents/agent-1.jsonl": agent,
        f"{name}/tool-results/1.txt": result,
    }
    for relative, content in files.items():
        write(place / "in" / relative, content)
    session, _ = imported(access, place / "in" / f"{name}.jsonl")
    claude_code.export_transcript(session, place / "out")
    assert files_below(place / "out") == files


def test_what_is_appended_after_the_import_is_not_of_the_transcript(access, place):
    path = write(place / "in" / f"{name_of(place)}.jsonl", ASKED + b"\n")
    session, _ = imported(access, path)
    session.append("message.user", {"content": "go on"})
    session.append("tool.returned", raw=b"more")
    session.append("import.file", {"path": "more.txt", "kind": "bytes", "final_newline": False})
    claude_code.export_transcript(session, place / "out")
    assert files_below(place / "out") == {path.name: ASKED + b"\n"}


# ------------------------------------------------------------------------------------------------ damage


def test_damaged_lines_are_named_and_kept(access, place):
    """A4, L12"""
    path = write(place / f"{name_of(place)}.jsonl", b"\n".join([ASKED, b"{secret", b"", b'"secret"', CALLED]))
    session, report = imported(access, path)
    assert [(problem.line, problem.reason, problem.file) for problem in report.problems] == [
        (2, "not JSON", path.name),
        (4, "not a JSON object", path.name),
    ]
    assert [event.raw for event in session.events(types=["transcript.damaged"])] == [b"{secret", b'"secret"']


@pytest.mark.parametrize("file", ["{name}.jsonl", "{name}/subagents/agent-1.jsonl"])
def test_a_strict_import_of_a_damaged_transcript_leaves_nothing(access, place, file):
    """L12"""
    name = name_of(place)
    path = write(place / f"{name}.jsonl", ASKED)
    write(place / file.format(name=name), ASKED + b"\n{secret")
    before = access.sessions.find(limit=500).items
    with pytest.raises(errors.InvalidInput, match=r"nothing was imported: 1 .* line 2") as refusal:
        imported(access, path, strict=True)
    assert "secret" not in str(refusal.value)
    assert access.sessions.find(limit=500).items == before


def test_a_strict_import_of_a_whole_transcript_takes_all_of_it(access, place):
    session, report = imported(access, write(place / f"{name_of(place)}.jsonl", ASKED), strict=True)
    assert [event.raw for event in lines_of(session)] == [ASKED]
    assert report.problems_total == 0


def test_links_and_pipes_beside_a_transcript_are_left_out_and_told(access, place):
    name = name_of(place)
    secret = write(place / "elsewhere" / "secret.txt", b"secret")
    path = write(place / "in" / f"{name}.jsonl", ASKED)
    results = place / "in" / name / "tool-results"
    results.mkdir(parents=True)
    (results / "link.txt").symlink_to(secret)
    (results / "directory").symlink_to(secret.parent)
    os.mkfifo(results / "pipe")
    session, report = imported(access, path)
    claude_code.export_transcript(session, place / "out")
    assert files_below(place / "out") == {path.name: ASKED}
    assert [problem.file for problem in report.problems] == [
        f"{name}/tool-results/{file}" for file in ("directory", "link.txt", "pipe")
    ]
    with pytest.raises(errors.InvalidInput, match="nothing was imported: 3"):
        imported(access, path, strict=True)


def test_a_directory_of_results_that_is_a_link_is_not_followed(access, place):
    name = name_of(place)
    path = write(place / "in" / f"{name}.jsonl", ASKED)
    secret = write(place / "elsewhere" / "secret.txt", b"secret")
    (place / "in" / name).symlink_to(secret.parent)
    session, _ = imported(access, path)
    claude_code.export_transcript(session, place / "out")
    assert files_below(place / "out") == {path.name: ASKED}


def test_a_directory_that_cannot_be_read_is_refused_and_not_left_out(access, place, monkeypatch):
    name = name_of(place)
    path = write(place / f"{name}.jsonl", ASKED)
    write(place / name / "tool-results" / "t1.txt", b"x")
    scan = os.scandir

    def denied(directory):
        if str(directory).endswith("tool-results"):
            raise PermissionError(directory)
        return scan(directory)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(errors.InvalidInput, match="cannot be read") as refusal:
        imported(access, path)
    assert name not in str(refusal.value)


@pytest.mark.parametrize("path", ["absent.jsonl", "."])
def test_a_path_without_a_transcript_is_refused_in_words(access, place, path):
    with pytest.raises(errors.InvalidInput, match="no transcript at this path"):
        imported(access, place / path)


def test_nobody_writes_into_a_transcript_while_it_is_imported(access, place):
    path = write(place / f"{name_of(place)}.jsonl", (ASKED + b"\n") * 450)

    def interfere(lines, done):
        access.sessions.resume_external(path.stem).append("message.user", {"content": "me too"})

    with pytest.raises(errors.Conflict):
        imported(access, path, progress=interfere)
    with pytest.raises(errors.InvalidInput, match="no whole Claude Code transcript"):
        claude_code.export_transcript(access.sessions.resume_external(path.stem), place / "out")


def test_progress_is_told_in_lines_and_bytes(access, place):
    content = (ASKED + b"\n") * 450
    told = []
    imported(
        access,
        write(place / f"{name_of(place)}.jsonl", content),
        progress=lambda lines, done: told.append((lines, done)),
    )
    assert len(told) >= 3
    assert told == sorted(told)
    assert told[-1] == (450, len(content))


# ------------------------------------------------------------------------------------------------ export


def made_up(access, *names):
    """A session whose log says that these files were imported."""
    session = access.sessions.create()
    for name in names:
        session.append("import.file", {"path": name, "kind": "lines", "final_newline": True})
        session.append("message.user", raw=b"x")
    session.append("import.end", {"files": len(names), "lines": len(names)})
    return session


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "a/../../x", "..", ".", "", "a//b", "a/", "a\0b", "./x", "x" * 256], ids=repr
)
def test_a_file_cannot_leave_the_directory_of_the_export(access, place, name):
    target = place / "deep" / "out"
    with pytest.raises(errors.InvalidInput, match="leads out"):
        claude_code.export_transcript(made_up(access, "fine.jsonl", name), target)
    assert files_below(place) == {}


def test_a_link_in_the_directory_of_the_export_is_not_followed(access, place):
    (place / "elsewhere").mkdir()
    (place / "out").mkdir()
    (place / "out" / "a").symlink_to(place / "elsewhere")
    with pytest.raises(errors.InvalidInput, match="link"):
        claude_code.export_transcript(made_up(access, "a/b/x.jsonl"), place / "out", overwrite=True)
    assert files_below(place / "elsewhere") == {}


def test_two_files_of_one_name_are_refused(access, place):
    with pytest.raises(errors.InvalidInput, match="same name"):
        claude_code.export_transcript(made_up(access, "a.jsonl", "a.jsonl"), place / "out")


def test_nothing_is_overwritten_unasked(access, place):
    session = made_up(access, "a.jsonl", "b/c.jsonl")
    old = write(place / "b" / "c.jsonl", b"old")
    with pytest.raises(errors.InvalidInput, match="exists already"):
        claude_code.export_transcript(session, place)
    assert files_below(place) == {"b/c.jsonl": b"old"}
    claude_code.export_transcript(session, place, overwrite=True)
    assert old.read_bytes() == b"x\n"
    assert old.stat().st_mode & 0o777 == 0o600


def test_a_failing_export_leaves_no_half_file(access, place):
    session = made_up(access, "a.jsonl")

    class Failing:
        def events(self, **options):
            yield from session.events(**options)
            if "before" in options:
                raise errors.Tampered

    with pytest.raises(errors.Tampered):
        claude_code.export_transcript(Failing(), place / "out")
    assert files_below(place) == {}


def test_a_directory_that_cannot_be_written_to_is_told_in_words(access, place):
    occupied = write(place / "occupied", b"")
    with pytest.raises(errors.StorageUnavailable, match="cannot be written") as refusal:
        claude_code.export_transcript(made_up(access, "a.jsonl"), occupied)
    assert "occupied" not in str(refusal.value)
    with pytest.raises(errors.StorageUnavailable):
        claude_code.export_transcript(made_up(access, "occupied/b/a.jsonl"), place)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")  # noqa: PTH110
def test_a_full_disk_is_told_in_words_and_leaves_no_half_file(access, place, monkeypatch):
    session = made_up(access, "a.jsonl")
    made = claude_code.tempfile.mkstemp

    def on_a_full_disk(**options):
        descriptor, name = made(**options)
        os.close(descriptor)
        return os.open("/dev/full", os.O_WRONLY), name

    monkeypatch.setattr(claude_code.tempfile, "mkstemp", on_a_full_disk)
    with pytest.raises(errors.StorageFull):
        claude_code.export_transcript(session, place)
    assert files_below(place) == {}


@pytest.mark.parametrize(
    "events",
    [
        [],
        [("message.user", {"content": "hi"})],
        [("import.end", {"files": 0})],
        [("import.file", {"path": "a"})],
        [("import.file", {"path": "a"}), ("import.end", {"files": 2})],
        [("import.file", "a"), ("import.end", {"files": 1})],
    ],
)
def test_a_session_without_a_whole_transcript_is_refused_in_words(access, place, events):
    session = access.sessions.create()
    for kind, payload in events:
        session.append(kind, payload)
    with pytest.raises(errors.InvalidInput, match="no whole Claude Code transcript"):
        claude_code.export_transcript(session, place)


def test_an_event_that_is_not_of_the_transcript_is_never_written_into_it(access, place):
    session = access.sessions.create()
    session.append("import.file", {"path": "a.jsonl", "kind": "lines", "final_newline": True})
    session.append("message.user", {"content": "not a line"})
    session.append("import.end", {"files": 1, "lines": 1})
    with pytest.raises(errors.InvalidInput, match="not of it"):
        claude_code.export_transcript(session, place / "out")
    assert files_below(place) == {}


def test_a_file_that_grows_meanwhile_is_taken_as_it_was(access, place):
    name = name_of(place)
    path = write(place / "in" / f"{name}.jsonl", (ASKED + b"\n") * 250)
    beside = write(place / "in" / name / "subagents" / "agent-1.jsonl", ASKED + b"\n{half")

    def go_on(lines, done):
        beside.write_bytes(ASKED + b"\n{half a line}\n" + ASKED)

    session, _ = imported(access, path, progress=go_on)
    claude_code.export_transcript(session, place / "out")
    assert (place / "out" / name / "subagents" / "agent-1.jsonl").read_bytes() == ASKED + b"\n{half"


def test_a_file_that_shrinks_meanwhile_ends_the_import(access, place):
    name = name_of(place)
    path = write(place / f"{name}.jsonl", (ASKED + b"\n") * 250)
    beside = write(place / name / "subagents" / "agent-1.jsonl", ASKED)
    with pytest.raises(errors.InvalidInput, match="shorter"):
        imported(access, path, progress=lambda lines, done: beside.write_bytes(b"{"))
