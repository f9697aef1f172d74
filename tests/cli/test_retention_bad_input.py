"""Wrong input of a person at the command line: lives of items, policy documents, and what an auditor reads.

D1, D2, K4, O2.
"""

import re
import resource
import time
from pathlib import Path

import pytest

from vault import Principal, Vault
from vault.cli.entries import _SAID
from vault.policy.document import DOCUMENT_BYTES_MAX

ROOT = Path(__file__).resolve().parents[2]
#: Entries that have nothing more to say.
SILENT = {"tenant.added"}
PIA = ["--as", "pia", "--role", "privacy_officer"]
ANN = ["--as", "ann", "--role", "auditor"]
RULE = """
[[retention]]
id = "everything-{number}"
match = {{ kind = ["session", "memory", "artifact"], labels = {{}} }}
anchor = "last_event"
expire_after = "400d"
"""
LIVES = ["0", "-1", "true", "NaN", "inf", "30", "1e-9", str(2**63), f"{2**63}d", "P99Y", "P99999Y", "0d"]
LIVES += ["-1d", "30D", "59m", "6mo", "1y", "never", "1.5h", "90_d", "", " 30d", "90 d", "9" * 5_000 + "h"]
HEAD = 'version = 1\nname = "mine"\n'


@pytest.fixture
def session(place):
    with Vault.create(place / "my.vault") as opened:
        made = opened.access(Principal(tenant="default", subject="owner")).sessions.create(title="A card")
        made.append("message.user", {"content": "hello"})
        return made.id


@pytest.fixture
def checked(call, place, session):
    """What ``policy check`` says of a document."""

    def check(text):
        (place / "mine.toml").write_text(text, encoding="utf-8")
        return call("policy", "check", "mine.toml", *PIA)

    return check


# ----------------------------------------------------------------------------------------------- lives


@pytest.mark.parametrize("ttl", LIVES, ids=lambda ttl: ttl[:25] or "empty")
@pytest.mark.parametrize("what", ["memory", "artifact"])
def test_a_life_that_cannot_be_meant_is_refused_in_one_sentence(call, place, session, what, ttl):
    """D1, O2: with an example that is taken, and nothing is stored"""
    (place / "f").write_text("1")
    given = ["memory", "put", "n", "k", "1"] if what == "memory" else ["artifact", "put", "a", "f"]
    done = call(*given, "--source", session, f"--ttl={ttl}")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "--ttl is a whole number of hours or days, for example 12h or 90d" in done.err
    assert call(what, "list", "--json").document[{"memory": "memories"}.get(what, "artifacts")] == []
    for good in ("12h", "90d"):
        assert call(*given, "--source", session, "--ttl", good).code == 0


# ------------------------------------------------------------------------------------------- documents


def test_a_tab_is_white_space_and_lines_are_counted_as_an_editor_does(checked):
    """D1"""
    tabbed = HEAD + RULE.format(number=1).replace("\nanchor", "\n\tanchor").replace(" = ", "\t=\t")
    assert checked(tabbed).code == 0
    done = checked(tabbed.replace('"400d"', "400"))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "mine.toml, line 8: expire_after: " in done.err
    within = checked(HEAD + RULE.format(number=1).replace('"last_event"', '"last_\tevent"'))
    assert "mine.toml, line 7: anchor: write one of" in within.err
    broken = checked(HEAD + RULE.format(number=1).replace("anchor", "an\tchor"))
    assert "mine.toml, line 7: not valid TOML; correct it there\n" in broken.err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(HEAD + 'name = "other"\n' + RULE.format(number=1), 3, id="field"),
        pytest.param(HEAD + RULE.format(number=1) + 'expire_after = "1d"\n', 9, id="field-of-a-rule"),
        pytest.param(
            HEAD + RULE.format(number=1).replace("labels = {}", "labels = {}, labels = {}"), 6, id="inline"
        ),
    ],
)
def test_what_stands_twice_in_a_document_is_called_so(checked, text, line):
    """D1: file, line, and what to write instead"""
    done = checked(text)
    assert (done.code, done.out) == (2, "")
    assert f"mine.toml, line {line}: not valid TOML; a field or table stands there for the second" in done.err


def test_a_byte_order_mark_is_called_so(checked):
    """D1"""
    done = checked("\ufeff" + HEAD + RULE.format(number=1))
    assert (done.code, "line 1: not valid TOML; it begins with a byte order mark" in done.err) == (2, True)


def test_ten_megabytes_of_rules_are_refused_before_they_are_read(checked):
    """D1, O2: at once, and without the memory that they would take"""
    rules, size = [], 0
    while size < 10 * 2**20:
        rules.append(RULE.format(number=len(rules)))
        size += len(rules[-1])
    checked(HEAD + RULE.format(number=1))  # what reading any document takes is not counted
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    done = checked(HEAD + "".join(rules))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"mine.toml: larger than {DOCUMENT_BYTES_MAX // 1024} KiB; write fewer rules" in done.err
    assert time.monotonic() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024  # KiB


# -------------------------------------------------------------------------------- places to write to


@pytest.mark.parametrize("link", [False, True], ids=["itself", "by-a-link"])
@pytest.mark.parametrize("name", ["data.db", "keys.db", "root.key", "vault.toml", "new"])
def test_nothing_is_written_among_a_vaults_own_files(call, place, session, name, link):
    """D6, O2: a receipt that may replace one must not replace a database; no export lies there in clear"""
    kept = {file.name: file.read_bytes() for file in (place / "my.vault").glob("*.*") if file.is_file()}
    (place / "by a link").symlink_to(place / "my.vault")
    target = place / ("by a link" if link else "my.vault") / name
    for given in (
        ["erase", session, "--yes", "--receipt", target, "--overwrite"],
        ["erase", session, "--yes", "--key-file", target],
        ["export", session, "-o", target, "--overwrite"],
        ["subject", "export", "owner", "-o", target],
        ["audit", "export", "-o", target, "--overwrite", *ANN],
    ):
        done = call(*given)
        assert (done.code, done.out) == (2, ""), given
    assert kept == {
        file.name: file.read_bytes() for file in (place / "my.vault").glob("*.*") if file.is_file()
    }
    assert not (place / "my.vault" / "new").exists()
    assert len(call("sessions", "--json").document["sessions"]) == 1
    assert call("verify").code == 0


# ------------------------------------------------------------------------------------- for an auditor


def test_an_auditor_reads_what_was_held_erased_exported_and_decided_and_why(call, place, session):
    """D2, D6, K4: on a terminal too, not only as JSON"""
    held = call("hold", "place", "--session", session, "--reason", "case 7\x1b[31m", "--json", *PIA).document
    call("hold", "lift", held["id"], "--reason", "settled", *PIA)
    call("subject", "export", "owner", "-o", "owner.zip", *PIA)
    erased = call("erase", "--subject", "owner", "--yes", "--json", *PIA).document
    (place / "mine.toml").write_text(HEAD + RULE.format(number=1))
    assert call("policy", "activate", "mine.toml", *PIA).code == 0
    (place / "mine.toml").write_text(HEAD.replace("1", "2") + RULE.format(number=1).replace("400d", "200d"))
    call("policy", "activate", "mine.toml", *PIA)
    said = " ".join(call("audit", "list", "--limit", "100", *ANN).out.split())
    digest = call("receipt", "list", "--json", *ANN).document["receipts"][0]["sha256"]
    for part in (
        f"{held['id']} on a session: case 7\\x1b[31m",
        f"{held['id']}: settled",
        "1 session and 0 derived items, 0 held back",
        f"{erased['operation']}: subject, for person_request",
        f"{erased['operation']}: receipt {digest}",
        "mine 1, ",
        "mine 2, ",
    ):
        assert part in said, part
    assert "\x1b" not in said


def test_every_entry_of_the_trail_is_described_and_shown():
    """K4: each type that the vault writes stands in the reference, and says more than its name"""
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "vault").rglob("*.py"))
    names = set(re.findall(r"trail\.write\(\s*\S+,\s*([A-Z]+),", source))
    named = dict(re.findall(r'^([A-Z]+): Final = "([a-z]+\.[a-z_]+)"$', source, re.MULTILINE))
    assert {"PLACED", "LIFTED", "PROVED", "EXPORTED", "EXPIRED", "GIVEN"} <= names
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    for what in sorted(named[name] for name in names):
        assert f"| `{what}` |" in reference, what
        assert what in _SAID or what in SILENT, what
