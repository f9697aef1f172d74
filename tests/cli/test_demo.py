"""The demonstration holds, can fail, and leaves nothing behind."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from vault import Resolution
from vault.cli import at_rest, demo, demo_crash, demo_erasure, demo_levels
from vault.rehearsal import Drill, Step

#: What a drill that held says; it takes seconds, and one test looks at a real one.
HELD = Drill(steps=tuple(Step(name=str(n), held=True, detail="") for n in range(6)))
SAMPLE = Path(__file__).parents[2] / "vault" / "_sample" / "support-conversation.jsonl"


@pytest.fixture(autouse=True)
def rehearsed(request, monkeypatch):
    if request.node.originalname != "test_every_step_says_what_was_seen":
        monkeypatch.setattr(demo_erasure, "drill", lambda *_, **__: HELD)


def test_the_demonstration_holds_in_three_screens_and_leaves_nothing_behind(start, place, tmp_path):
    """D3, D4, D5, K1, K4, L2, L3, L12, O1."""
    (tmp_path / "temporary").mkdir()
    env = {"TMPDIR": str(tmp_path / "temporary"), "COLUMNS": "80", "SESSION_VAULT": "elsewhere"}
    process = start("demo", env=env)
    out, err = process.communicate(timeout=120)
    lines = out.decode().splitlines()
    assert (process.returncode, err) == (0, b"")
    assert len(lines) <= 80
    assert all(len(line) <= 80 for line in lines)
    steps = [line.partition(".")[0] for line in lines if line[:1].isdigit()]
    assert steps == [str(number) for number in range(1, 14)]
    for level in ("L0", "L1", "L2", "L3"):
        assert sum(f" {level}  " in line for line in lines) == 3  # one for each of the three events
    assert not any("DOES NOT HOLD" in line for line in lines)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert list(place.iterdir()) == []
    assert not (tmp_path / "state").exists()


def test_every_step_says_what_was_seen(call):
    done = call("demo", "--json")
    assert done.code == 0
    assert done.document["holds"]
    seen = [step["evidence"] for step in done.document["steps"]]
    assert len(seen) == 13
    found, wanted = [int(word) for word in seen[6].split() if word.isdigit()][:2]
    assert found == wanted > 40
    assert seen[6].endswith(": 0")
    assert "there is no such session" in seen[4]
    assert "signal 9" in seen[7]
    assert seen[7].endswith("payments in the bank's book: 1")
    assert "found at L0 0, L1 0, L2 0, L3 5" in seen[8]
    assert seen[8].endswith("looks at L0, L1, L2, L3")
    assert "2 items planned and gone" in seen[9]
    assert "is verified and its signature verifies without the vault" in seen[9]
    assert "It is hidden" in seen[10]
    assert seen[10].endswith("1 session swept, receipt verified")
    assert seen[11].endswith("each held")
    assert "payload" in seen[12]


@pytest.mark.parametrize(
    ("name", "part", "claims"),
    [
        pytest.param("_is_gone", lambda *_: False, [10, 11], id="not-gone"),
        pytest.param("_is_signed", lambda *_: False, [10, 11], id="not-signed"),
        pytest.param("readable", lambda *_: {"kettle"}, [10], id="in-clear"),
        pytest.param("drill", lambda *_, **__: Drill(steps=()), [12], id="not-restored"),
    ],
)
def test_an_erasure_that_leaves_something_is_said(call, monkeypatch, name, part, claims):
    """D5, D6"""
    monkeypatch.setattr(demo_erasure, name, part)
    done = call("demo", "--json")
    assert done.code == 1
    assert [step["step"] for step in done.document["steps"] if not step["holds"]] == claims


def test_what_is_kept_can_be_looked_at(call, place, monkeypatch):
    assert call("demo", "--keep", "kept").code == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "kept" / "state"))
    monkeypatch.setenv("SESSION_VAULT", str(place / "kept" / "demo.vault"))
    who = ["--tenant", "Tidewater Kettles", "--as", "Ottoline Quarrenby"]
    assert len(call("sessions", "--json", *who).document["sessions"]) == 5
    assert call("verify").code == 0
    assert call("verify", "--vault", "kept/damaged-copy.vault").code == 4
    done = call("demo", "--keep", "kept")
    assert done.code == 2


@pytest.mark.parametrize(
    ("broken", "claims"),
    [
        pytest.param(
            {"_verified": lambda *_: {"ok": True}, "readable": lambda *_: set()}, [7, 13], id="finds-nothing"
        ),
        pytest.param(
            {
                "_child": lambda *_: CompletedProcess([], 0, b"{}", b""),
                "_refusal": lambda sessions, asked: asked,
                "readable": lambda texts, _: set(texts),
                "_refuses_to_read": lambda *_: False,
            },
            [3, 5, 7, 13],
            id="refuses-nothing",
        ),
    ],
)
def test_a_claim_that_does_not_hold_is_said_and_ends_with_1(call, monkeypatch, broken, claims):
    for name, part in broken.items():
        monkeypatch.setattr(demo, name, part)
    done = call("demo", "--json")
    assert done.code == 1
    assert not done.document["holds"]
    assert [step["step"] for step in done.document["steps"] if not step["holds"]] == claims


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param(
            "asked_the_bank", lambda *_: Resolution(decision="retry", by="nobody"), id="the-bank-is-not-asked"
        ),
        pytest.param("_is_refused", lambda *_: False, id="repeated-by-itself"),
        pytest.param("killed_agent", lambda *_: -9, id="nothing-was-killed"),
    ],
)
def test_an_effect_that_a_crash_repeats_or_misses_is_said(call, monkeypatch, name, part):
    """C5."""
    monkeypatch.setattr(demo_crash, name, part)
    done = call("demo", "--json")
    assert done.code == 1
    assert [step["step"] for step in done.document["steps"] if not step["holds"]] == [8]


def test_an_agent_that_ends_by_itself_does_not_count_as_killed(call, monkeypatch):
    monkeypatch.setattr(demo_crash, "pay", lambda *_: None)
    monkeypatch.setattr(demo_crash, "killed_agent", lambda *_: 0)
    done = call("demo", "--json")
    assert [step["step"] for step in done.document["steps"] if not step["holds"]] == [8]
    assert done.document["steps"][7]["evidence"].endswith("payments in the bank's book: 0")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param("canaries_in", lambda _: {"ottoline"}, id="a-name-below-L3"),
        pytest.param("seen", lambda *asked, seen=demo_levels.seen: seen(*asked[:3], "L3"), id="all-see-all"),
        pytest.param(
            "seen", lambda *asked, seen=demo_levels.seen: seen(*asked[:3], "L1"), id="none-sees-all"
        ),
    ],
)
def test_a_view_that_shows_too_much_or_too_little_is_said(call, monkeypatch, name, part):
    """R1."""
    monkeypatch.setattr(demo_levels, name, part)
    done = call("demo", "--json")
    assert done.code == 1
    assert [step["step"] for step in done.document["steps"] if not step["holds"]] == [9]


def test_a_claim_that_does_not_hold_stands_out(capsys):
    steps = demo._Steps(quiet=False)
    steps.say(True, "It holds.", "seen")
    steps.say(False, "It does not.", "not seen")
    assert capsys.readouterr().out == "1. It holds.\n   seen\n2. It does not.\n   DOES NOT HOLD: not seen\n"
    assert not steps.hold


def test_the_search_finds_every_string_of_the_sample_in_the_sample():
    """K1: a search that finds nothing proves nothing unless it can find."""
    wanted = at_rest.strings(json.loads(SAMPLE.read_bytes()))
    assert len(wanted) > 40
    assert at_rest.readable(wanted, [SAMPLE]) == wanted
    assert "ottoline.quarrenby@example.org" in wanted


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('café "quoted"\n', id="plain"),
        pytest.param(json.dumps('café "quoted"\n'), id="json-ascii"),
        pytest.param(json.dumps('café "quoted"\n', ensure_ascii=False), id="json"),
        pytest.param(json.dumps(json.dumps('café "quoted"\n', ensure_ascii=False)), id="json-in-json"),
    ],
)
def test_a_planted_string_is_found_however_it_is_written(tmp_path, content):
    """K1."""
    (tmp_path / "file").write_bytes(b"\x00\xff" + content.encode() + b"\x00")
    assert at_rest.readable({'café "quoted"\n', "something else"}, at_rest.below(tmp_path)) == {
        'café "quoted"\n'
    }


def test_strings_are_collected_through_json_in_strings_and_without_words_of_the_format():
    document = [
        {"role": "assistant", "content": '{"inner": "inside"}', "short": "abc", "broken": "{not json"}
    ]
    assert at_rest.strings(document) == {'{"inner": "inside"}', "inside", "{not json"}
