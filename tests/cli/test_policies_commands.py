"""`policy` and `worker --once`: look at a document, bring it in, approve, take back, sweep (D1, D3, O3)."""

import json
import os
import shutil
from datetime import timedelta

import pytest

from vault import Principal, Vault
from vault.clock import SystemClock
from vault.erasure.policies import shipped

PIA = ["--as", "pia", "--role", "privacy_officer"]
EVE = ["--as", "eve", "--role", "privacy_officer"]
DAY = timedelta(days=1) // timedelta(microseconds=1)
MINE = """
version = {version}
name = "mine"

[[retention]]
id = "everything"
match = {{ kind = ["session", "memory", "artifact", "proof"], labels = {{}} }}
anchor = "last_event"
expire_after = "{period}"
applies_to = "{applies_to}"
"""


class Shifted:
    """The machine's clock, some days off."""

    def __init__(self, days):
        self.days = days

    def now_us(self):
        return SystemClock().now_us() + self.days * DAY


@pytest.fixture
def sessions(place):
    """A vault with three sessions of 10 days ago; more than two erased by a change need a second person."""
    settings = {"retention_second_person_above": 2}
    with Vault.create(place / "my.vault", settings=settings, clock=Shifted(-10)) as opened:
        access = opened.access(Principal(tenant="default", subject="owner"))
        return [access.sessions.create(title="A card").id for _ in range(3)]


@pytest.fixture
def paper(place):
    """Writes a document; its file."""

    def write(period="400d", version=1, applies_to="new"):
        (place / "mine.toml").write_text(
            MINE.format(period=period, version=version, applies_to=applies_to), encoding="utf-8"
        )
        return "mine.toml"

    return write


# ------------------------------------------------------------------------------------------------ looking


def test_list_and_show_tell_what_is_in_force_and_what_comes_with_the_vault(call, sessions):
    listed = call("policy", "list", *PIA)
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.splitlines()[0].split() == ["default", "1", shipped().digest.hex()[:16], "in", "force"]
    assert listed.out.count("comes with the vault") == 5
    told = call("policy", "list", "--json", *PIA).document["policies"]
    assert [one["name"] for one in told if one["active"]] == ["default"]
    assert call("policy", "show", *PIA).out == shipped().text
    assert call("policy", "show", "gdpr", "--json", *PIA).document["text"] == shipped("gdpr").text
    wrong = call("policy", "show", "../secrets", *PIA)
    assert wrong.code == 2
    assert "secrets" not in wrong.err.replace("default, gdpr", "")


def test_a_document_that_was_in_force_is_shown_by_its_digest(call, place, sessions, paper):
    call("policy", "activate", paper("400d"), *PIA)
    first = (place / "mine.toml").read_text(encoding="utf-8")
    call("policy", "activate", paper("500d", 2), *PIA)
    _, before, *_ = call("policy", "list", "--json", *PIA).document["policies"]
    assert (before["name"], before["version"], before["active"]) == ("mine", 1, False)
    for digits in (8, 16, 64):
        assert call("policy", "show", before["digest"][:digits], *PIA).out == first
    done = call("policy", "show", before["digest"][:7], *PIA)
    assert (done.code, "8 or more digits" in done.err) == (2, True)
    assert call("policy", "show", "0" * 16, *PIA).code == 3


def test_check_says_what_would_happen_and_does_nothing(call, sessions, paper):
    done = call("policy", "check", paper(), *PIA)
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "mine 1 would be in force at once" in said
    assert "rule everything: added" in said
    assert 'not enforced: rule 1 is not enforced for the kind "proof"' in said
    waits = call("policy", "check", paper("5d", applies_to="all"), *PIA)
    assert "would have to wait" in waits.out
    assert "expired by it: 3 sessions" in waits.out
    assert call("policy", "pending", "--json", *PIA).document == {"waiting": None}


def test_diff_says_each_field_that_differs(call, sessions, paper):
    assert call("policy", "activate", paper(), *PIA).code == 0
    assert call("policy", "diff", paper(), *PIA).out == "no rule differs from the policy in force\n"
    done = call("policy", "diff", paper("90d", 2, "all"), *PIA)
    assert "expire_after: 400d -> 90d\n" in done.out
    assert "applies_to: new -> all\n" in done.out
    [change] = call("policy", "diff", paper("90d", 2), "--json", *PIA).document["changes"]
    assert change == {
        "rule": "everything",
        "what": "changed",
        "fields": ["expire_after"],
        "shortens": True,
        "existing": False,
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(
            b"version = 'EVIL-WORD'", "mine.toml, line 1: version: write a whole number", id="wrong"
        ),
        pytest.param(b"version = \xff", "the policy document is not UTF-8 text", id="no-text"),
        pytest.param(b"#" * 300_000, "mine.toml: larger than 256 KiB", id="large"),
        pytest.param(None, "the policy document cannot be read", id="absent"),
    ],
)
def test_a_document_that_cannot_be_is_refused_in_one_sentence(call, place, sessions, content, said):
    if content is not None:
        (place / "mine.toml").write_bytes(content)
    for command in ("check", "diff", "activate"):
        done = call("policy", command, "mine.toml", *PIA)
        assert (done.code, done.out) == (2, "")
        assert done.err.count("\n") == 1
        assert said in done.err
        assert "EVIL" not in done.err


def test_a_rule_that_nothing_enforces_is_refused(call, place, sessions, paper):
    file = place / paper()
    file.write_text(file.read_text() + 'on_expire = "redact:L0"\n')
    done = call("policy", "activate", "mine.toml", *PIA)
    assert done.code == 2
    assert "rule 1 cannot come into force" in done.err


def test_who_is_no_privacy_officer_is_told_who_may(call, sessions, paper):
    paper()
    for command in (
        ["list"],
        ["show"],
        ["check", "mine.toml"],
        ["diff", "mine.toml"],
        ["activate", "mine.toml"],
        ["pending"],
        ["approve", "0" * 16],
        ["cancel"],
    ):
        for who in ([], ["--as", "ann", "--role", "auditor"]):
            done = call("policy", *command, *who)
            assert (done.code, done.out) == (3, "")
            assert "--role privacy_officer" in done.err


# ------------------------------------------------------------------------------------------------ changing


def test_activate_is_at_once_where_nothing_goes_earlier(call, sessions, paper):
    done = call("policy", "activate", paper(), *PIA)
    assert done.out.startswith("mine 1 is in force from now on\n")
    again = call("policy", "activate", paper(), "--json", *PIA).document
    assert (again["state"], again["waiting"]) == ("unchanged", None)
    assert "mine 1" in call("policy", "list", *PIA).out.splitlines()[0]
    refused = call("policy", "activate", paper("500d"), *PIA)
    assert refused.code == 7
    assert "higher version" in refused.err


def test_a_change_waits_is_approved_by_another_and_can_be_taken_back(call, sessions, paper):
    done = call("policy", "activate", paper("5d", 1, "all"), *PIA)
    assert "announced" in done.out
    assert "expired by it: 3 sessions; the oldest is of" in " ".join(done.out.split())
    assert "a second person has to approve it" in done.out
    shown = call("policy", "pending", "--json", *PIA).document
    digest = shown["waiting"]["digest"]
    assert f"change {digest[:16]}\n" in call("policy", "pending", *EVE).out
    assert shown["waiting"]["counts"] == {"session": {"erase": 3}}
    own = call("policy", "approve", digest[:16], *PIA)
    assert (own.code, "somebody else than who asked" in own.err) == (7, True)
    assert call("policy", "approve", "f" * 16, *EVE).code == 7
    assert call("policy", "approve", "12", *EVE).code == 2
    assert "approved; in force from" in call("policy", "approve", digest[:16], *EVE).out
    assert call("policy", "pending", "--json", *PIA).document["waiting"]["approved"]
    assert call("policy", "cancel", "--json", *EVE).document == {"cancelled": True}
    for command in (["cancel"], ["approve", digest]):
        done = call("policy", *command, *EVE)
        assert (done.code, "no change of the retention policy waits" in done.err) == (3, True)
    assert call("policy", "pending", *PIA).err == "no change of the retention policy waits\n"


def test_after_its_day_the_next_sweep_brings_it_into_force(call, place, sessions, paper):
    """The vault's own clock is a day behind here, so that the day is over for the program"""
    text = (place / paper("90d", 1, "all")).read_text(encoding="utf-8")
    with Vault.open(place / "my.vault", clock=Shifted(-1)) as opened:
        officer = opened.access(Principal(tenant="default", subject="pia", roles={"privacy_officer"}))
        assert officer.policies.activate(text).state == "pending"
    assert call("policy", "pending", "--json", *PIA).document["waiting"] is not None
    assert call("worker", "--once").code == 0
    assert call("policy", "pending", "--json", *PIA).document["waiting"] is None
    explained = call("policy", "explain", sessions[0])
    assert 'the rule "everything" of the policy "mine" gives it 90 days' in " ".join(explained.out.split())


# ------------------------------------------------------------------------------------------------ worker


@pytest.fixture
def due(place):
    """A vault with a due session that holds a file of the blob area."""
    with Vault.create(place / "my.vault", clock=Shifted(-500)) as opened:
        session = opened.access(Principal(tenant="default", subject="owner")).sessions.create()
        session.append("file.read", raw=os.urandom(200_000))
    return place / "my.vault"


def test_one_sweep_says_what_it_did(call, due):
    done = call("worker", "--once")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("  erased 1 thing in 1 erasure\n")
    assert call("worker", "--once").out.endswith("  nothing was due\n")
    told = call("worker", "--once", "--json").document
    assert (told["sweeps"], told["error"]) == ([], None)


def test_one_sweep_ends_with_an_error_when_the_clock_jumped(call, due):
    with Vault.open(due, clock=Shifted(-600)) as opened:
        opened.sweep()
    done = call("worker", "--once", "--json")
    assert (done.code, json.loads(done.out)["error"]) == (20, "ClockAnomaly")
    assert "trust-clock" in done.err


def test_one_sweep_ends_with_an_error_when_an_erasure_is_unfinished(call, due, place):
    [blob] = [file for file in (due / "blobs").rglob("*") if file.is_file()]
    shutil.move(blob, place / "aside")
    (blob / "in the way").mkdir(parents=True)
    done = call("worker", "--once")
    assert (done.code, done.err.count("\n")) == (10, 1)
    assert "1 erasure not finished yet" in done.out
    shutil.rmtree(blob)
    assert call("worker", "--once").code == 0
    assert call("receipt", "list", "--json", *PIA).document["receipts"][0]["state"] == "verified"


@pytest.mark.parametrize("every", ["0", "-1", "0.5", "86401", "nan"])
def test_an_interval_out_of_range_is_refused(call, due, every):
    done = call("worker", "--every", every)
    assert (done.code, done.out) == (2, "")
    assert "1 to 86400 seconds" in done.err.replace(",", "")


def test_a_policy_is_set_before_anybody_used_the_tenant_and_it_is_said(call, vault, place):
    new = ["--tenant", "new"]
    (place / "mine.toml").write_text(MINE.format(version=1, period="5d", applies_to="new"))
    for looking in (["list"], ["check", "mine.toml"], ["show"]):
        assert call("policy", *looking, *PIA, *new).code == 3
    for who in ([], ["--as", "ann", "--role", "auditor"]):
        done = call("policy", "activate", "mine.toml", *new, *who)
        assert (done.code, done.out) == (3, "")
        assert "privacy_officer" in done.err
    done = call("policy", "activate", "mine.toml", *PIA, *new)
    assert (done.code, done.out.count("mine 1 is in force from now on")) == (0, 1)
    assert done.err == "nobody used this tenant before; check its name, if that surprises you\n"
    assert call("policy", "show", *PIA, *new, "--json").document["name"] == "mine"
