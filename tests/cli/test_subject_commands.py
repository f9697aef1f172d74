"""What is kept about a person, from the shell: in numbers, as a file, erased. D5, O3."""

import json
import re
import stat
import zipfile

import pytest

from vault import Principal, Vault

OFFICER = ("--as", "pia", "--role", "privacy_officer")
OWNER = Principal(tenant="default", subject="owner")


@pytest.fixture
def filled(vault):
    """The vault, with a memory and an artifact beside the session, and a held session that was to go."""
    with Vault.open(vault) as opened:
        access = opened.access(OWNER)
        session = next(iter(access.sessions.find().items))
        access.memories.put(("users",), "taste", {"likes": "tea"}, sources=[session.id])
        access.artifacts.put("report.pdf", b"%PDF-of-owner", sources=[session.id])
        held = access.sessions.create(title="complaint")
        officer = opened.access(
            Principal(tenant="default", subject="pia", roles=frozenset({"privacy_officer"}))
        )
        officer.holds.place(session=held.id, reason="court")
        access.erasure.erase(session=held.id)
    return session.id, held.id


def test_a_report_says_what_there_is_and_shows_nothing_of_it(call, filled):
    done = call("subject", "report", "owner", *OFFICER)
    assert done.code == 0
    assert done.out.startswith("2 sessions, 1 memory, 1 artifact\nmade between 20")
    assert "1 not shown: its erasure was asked for; a hold or a statutory minimum keeps it" in done.out
    assert "August" not in done.out + done.err
    told = call("subject", "report", "owner", "--json", *OFFICER).document
    assert told["counts"] == {"artifact": 1, "memory": 1, "session": 2}
    assert told["held_back"] == {"restricted": 1}
    assert {one["id"] for one in told["items"] if one["held_back"]} == {filled[1]}
    assert told["oldest"] == min(one["created_at"] for one in told["items"]) < told["newest"]


@pytest.mark.parametrize("who", [OFFICER, ()], ids=["officer", "owner"])
def test_an_export_is_a_zip_for_the_person(call, place, filled, who):
    done = call("subject", "export", "owner", "-o", "owner.zip", *who)
    assert done.code == 0
    assert re.fullmatch(
        r"exported 1 session and 2 derived items in 11 files, .* KiB\n1 not shown: its erasure .*\n"
        r"(?:.*\n)?",
        done.out,
    )
    assert done.err == "it is not sealed: whoever has this file can read all of it\n"
    assert stat.S_IMODE((place / "owner.zip").stat().st_mode) == 0o600
    with zipfile.ZipFile(place / "owner.zip") as archive:
        [session] = json.loads(archive.read("sessions.json"))
        assert (session["id"], session["title"]) == (filled[0], "August sales")
        assert b"Why did sales drop?" in archive.read(session["file"])
        assert json.loads(archive.read("manifest.json"))["subject"] == "owner"


def test_an_export_as_json_names_what_is_held_back(call, place, filled):
    told = call("subject", "export", "owner", "-o", "owner.zip", "--json", *OFFICER).document
    held = {"id": filled[1], "kind": "session", "why": "restricted", "part": False}
    assert told == {"path": "owner.zip", "files": 11, "sessions": 1, "items": 2, "held_back": [held]}


def test_a_file_that_is_there_is_not_written_over(call, place, filled):
    (place / "owner.zip").write_bytes(b"mine")
    done = call("subject", "export", "owner", "-o", "owner.zip", *OFFICER)
    assert (done.code, (place / "owner.zip").read_bytes()) == (2, b"mine")
    assert {file.name for file in place.iterdir()} == {"my.vault", "owner.zip"}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("report", "owner", "--as", "bob"), id="report-of-another"),
        pytest.param(("export", "owner", "-o", "e.zip", "--as", "bob"), id="export-of-another"),
        pytest.param(("export", "owner", "-o", "e.zip", "--as", "sue", "--role", "support"), id="support"),
        pytest.param(("export", "owner", "-o", "e.zip", "--role", "agent"), id="agent"),
        pytest.param(("report", "nobody-here", *OFFICER), id="nobody"),
    ],
)
def test_whom_it_is_no_business_of_learns_nothing(call, place, filled, arguments):
    """O1"""
    done = call("subject", *arguments)
    assert (done.code, done.out) == (3, "")
    assert done.err == "session-vault: there is nothing of that person\n"
    assert not (place / "e.zip").exists()


@pytest.mark.parametrize("command", ["report", "erase"])
def test_a_wildcard_names_nobody(call, filled, command):
    assert call("subject", command, "*", *OFFICER).code == 2


def test_erasing_a_person_is_the_erasure_by_that_subject(call, place, filled):
    planned = call("subject", "erase", "owner", "--plan", "--json", *OFFICER).document
    assert planned == call("erase", "--subject", "owner", "--plan", "--json", *OFFICER).document
    done = call(
        "subject",
        "erase",
        "owner",
        "--token",
        planned["token"],
        "--receipt",
        "gone.json",
        "--key-file",
        "gone.key",
        *OFFICER,
    )
    assert done.code == 0
    assert "erased: 1 session, 1 memory, 1 artifact" in done.out
    left = call("subject", "report", "owner", "--json", *OFFICER).document
    assert (left["counts"], left["held_back"]) == ({"session": 1}, {"restricted": 1})
