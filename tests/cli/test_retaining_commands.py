"""`retention`: what is due, a sweep, its share, its token, health, why, undo, the clock (D1, D2, D3)."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from vault import Principal, Vault
from vault.clock import SystemClock
from vault.model import format_id

OFFICER = ["--as", "dpo", "--role", "privacy_officer"]
DAY = timedelta(days=1) // timedelta(microseconds=1)
TOKEN = "0" * 64


class Shifted:
    """The machine's clock, some days off."""

    def __init__(self, days):
        self.days = days

    def now_us(self):
        return SystemClock().now_us() + self.days * DAY


def principal(subject="owner", tenant="default", role="owner"):
    return Principal(tenant=tenant, subject=subject, roles={role})


@pytest.fixture
def aged(place):
    """A vault with one session for each of `ages`, in days, of `owner` in the tenant `default`; their ids."""

    def make(*ages, tenant="default"):
        ids = []
        for age in ages:
            opening = Vault.open if (place / "my.vault").exists() else Vault.create
            with opening(place / "my.vault", clock=Shifted(-age)) as opened:
                sessions = opened.access(principal(tenant=tenant)).sessions
                ids.append(sessions.create(title=f"{age} days ago").id)
        return ids

    return make


@pytest.fixture
def many(place):
    """A vault with 21 sessions that are due, of 21: more than their share."""
    with Vault.create(place / "my.vault", clock=Shifted(-500)) as opened:
        sessions = opened.access(principal()).sessions
        for _ in range(21):
            sessions.create()


def test_a_preview_says_what_a_sweep_then_does(call, aged):
    due, hidden, live = aged(500, 368, 1)
    assert "1 thing would be erased now" in call("retention", "preview", *OFFICER).out
    would = call("retention", "preview", "--json", *OFFICER).document
    assert (would["going"], would["held"], would["over_cap"], would["operations"]) == (1, 0, False, 0)
    assert f"token {would['token']}\n" in call("retention", "preview", *OFFICER).out
    done = call("retention", "run", *OFFICER)
    assert (done.code, done.out, done.err) == (0, "erased 1 thing in 1 erasure, each with its receipt\n", "")
    assert call("retention", "explain", due).code == 3
    assert [call("retention", "explain", id_).code for id_ in (hidden, live)] == [0, 0]
    assert call("retention", "preview", *OFFICER).out == "nothing is due now\n"
    again = call("retention", "run", "--once", "--json", *OFFICER).document["sweeps"]
    assert [(one["going"], one["operations"], one["token"]) for one in again] == [(0, 0, None)]
    [receipt] = call("receipt", "list", "--json", *OFFICER).document["receipts"]
    assert (receipt["selector"], receipt["reason"]) == ("policy", "policy")


def test_more_than_its_share_waits_for_the_token_of_a_preview(call, many):
    preview = call("retention", "preview", *OFFICER)
    assert "21 things would be erased now" in preview.out
    assert "more than its share" in " ".join(preview.out.split())
    for waits in (call("retention", "run", *OFFICER), call("retention", "run", "--all-tenants")):
        assert (waits.code, waits.err.count("\n")) == (7, 1)
        assert "nothing was erased" in waits.out
    for wrong in (TOKEN, "f" * 64):
        assert call("retention", "run", "--token", wrong, *OFFICER).code == 7
    token = call("retention", "preview", "--json", *OFFICER).document["token"]
    done = call("retention", "run", "--token", token, *OFFICER)
    assert (done.code, done.out) == (0, "erased 21 things in 1 erasure, each with its receipt\n")


def test_what_is_held_is_said_to_be_kept(call, aged):
    [due] = aged(500)
    call("hold", "place", "--subject", "owner", "--reason", "case 7", *OFFICER)
    assert "nothing is due now; 1 thing kept by a hold" in call("retention", "preview", *OFFICER).out
    done = call("retention", "run", *OFFICER)
    assert done.out == "nothing was erased\n1 thing kept by a hold or a statutory minimum\n"
    assert "A hold keeps it" in call("retention", "explain", due).out


def test_all_tenants_are_swept_by_whoever_opens_the_vault(call, aged):
    [mine] = aged(500)
    [theirs] = aged(500, tenant="acme")
    assert call("retention", "run", *OFFICER).out.startswith("erased 1 thing")
    assert call("retention", "explain", mine).code == 3
    assert call("retention", "explain", theirs, "--tenant", "acme").code == 0
    swept = call("retention", "run", "--all-tenants", "--json").document["sweeps"]
    assert sum(one["going"] for one in swept) == 1
    assert call("retention", "explain", theirs, "--tenant", "acme").code == 3
    done = call("retention", "run", "--all-tenants", "--token", TOKEN)
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_status_is_red_until_something_sweeps_and_when_nothing_did_for_two_days(call, aged, place):
    aged(10)
    never = call("retention", "status", *OFFICER)
    assert (never.code, never.err) == (1, "")
    assert "nothing was ever swept" in never.out
    with Vault.open(place / "my.vault", clock=Shifted(-3)) as opened:
        opened.sweep()
    late = call("retention", "status", *OFFICER)
    assert late.code == 1
    assert "swept 3 days ago" in late.out
    call("retention", "trust-clock", *OFFICER)
    call("retention", "run", *OFFICER)
    well = call("retention", "status", *OFFICER)
    assert well.code == 0
    assert well.out.startswith("swept just now (")
    assert well.out.endswith("nothing is wrong\n")
    told = call("retention", "status", "--json", *OFFICER).document
    assert (told["ok"], told["working"], told["unfinished"]) == (True, False, 0)


def test_a_clock_that_jumped_stops_sweeps_until_somebody_looked_at_it(call, aged, place):
    [due] = aged(500)
    with Vault.open(place / "my.vault", clock=Shifted(-400)) as opened:
        opened.sweep()
    for refused in (["run", *OFFICER], ["run", "--all-tenants"]):
        done = call("retention", *refused)
        assert (done.code, done.out, done.err.count("\n")) == (20, "", 1)
        assert "trust-clock" in done.err
    assert call("retention", "run", "--json", *OFFICER).document["error"] == "ClockAnomaly"
    assert call("retention", "explain", due).code == 0
    trusted = call("retention", "trust-clock", *OFFICER)
    assert trusted.out.startswith("the clock is believed from now on: it is 20")
    assert call("retention", "trust-clock", "--json", *OFFICER).document["trusted"].startswith("20")
    assert call("retention", "run", *OFFICER).code == 0
    assert call("retention", "explain", due).code == 3


def test_an_expired_session_is_explained_and_taken_back(call, aged):
    [hidden] = aged(368)
    assert call("show", hidden).code == 3
    told = call("retention", "explain", hidden, "--json").document
    assert (told["id"], told["visible"], told["holds"]) == (hidden, False, 0)
    assert told["expires_at"] < told["erased_from"]
    assert "can be restored until" in told["text"]
    assert " ".join(call("retention", "explain", hidden).out.split()) == told["text"]
    done = call("retention", "undo", hidden)
    assert done.code == 0
    assert done.out.startswith(f"{hidden} is back\nIt is kept until ")
    assert call("show", hidden).code == 0
    again = call("retention", "undo", hidden, "--json")
    assert (again.code, again.err.count("\n")) == (3, 1)


def test_an_officer_explains_and_takes_back_what_is_others(call, aged):
    [hidden] = aged(368)
    assert call("retention", "undo", hidden, "--json", *OFFICER).document["visible"] is True
    assert call("retention", "explain", hidden, *OFFICER).code == 0


def test_latest_and_derived_items_are_explained(call, aged, place):
    [live] = aged(1)
    with Vault.open(place / "my.vault") as opened:
        owner = opened.access(principal())
        made = SimpleNamespace(
            memory=owner.memories.put((), "a", 1, sources=[live]),
            artifact=owner.artifacts.put("a", b"1", sources=[live]),
        )
    assert call("retention", "explain", "latest", "--json").document["id"] == live
    for id_ in (made.memory.id, made.artifact.id):
        assert call("retention", "explain", id_).out.startswith("It is kept until ")


@pytest.mark.parametrize(
    ("given", "said", "code"),
    [
        pytest.param(["explain", ""], "no such session or item", 3, id="empty"),
        pytest.param(["explain", "*"], "no such session or item", 3, id="wildcard"),
        pytest.param(["explain", f"ses_{'0' * 8}-0000-7000-8000-{'0' * 12}"], "no such", 3, id="unknown"),
        pytest.param(["explain", "latest", "--as", "bob"], "no active session", 3, id="none-latest"),
        pytest.param(["undo", "ses_nonsense"], "no such session", 3, id="undo-no-id"),
        pytest.param(["undo", "latest"], "no such session", 3, id="undo-latest"),
        pytest.param(["run", "--token", "abc", *OFFICER], "64 hexadecimal digits", 2, id="token"),
        pytest.param(["run", "--token", TOKEN, *OFFICER], "has changed since", 7, id="old-token"),
        pytest.param(["preview"], "privacy_officer", 3, id="preview-as-owner"),
        pytest.param(["run"], "privacy_officer", 3, id="run-as-owner"),
        pytest.param(["status"], "privacy_officer", 3, id="status-as-owner"),
        pytest.param(["trust-clock"], "privacy_officer", 3, id="clock-as-owner"),
        pytest.param(["run", "--as", "ann", "--role", "auditor"], "privacy_officer", 3, id="auditor"),
        pytest.param(["preview", *OFFICER, "--tenant", "other"], "privacy_officer", 3, id="tenant"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(call, vault, given, said, code):
    done = call("retention", *given)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert said in done.err


def test_anothers_session_is_explained_to_nobody_but_an_officer(call, aged):
    [live] = aged(1)
    never = call("retention", "explain", live.replace("ses_0", "ses_1"))
    foreign = call("retention", "explain", live, "--as", "bob")
    assert (foreign.code, foreign.err) == (never.code, never.err)
    assert call("retention", "undo", live, "--as", "bob").code == 3


DOCUMENT = """
version = 1
name = "mine"
[[retention]]
id = "contracts"
match = { kind = ["session"], labels = { kind = "contract" } }
anchor = "external"
expire_after = "30d"
[[retention]]
id = "all"
match = { kind = ["session", "memory", "artifact"] }
anchor = "created"
expire_after = "365d"
"""


@pytest.fixture
def contract(place, call):
    """A session whose rule counts from a date that nobody set yet."""
    with Vault.create(place / "my.vault") as opened:
        opened.access(principal()).sessions.create()
    (place / "mine.toml").write_text(DOCUMENT)
    assert call("policy", "activate", str(place / "mine.toml"), *OFFICER).code == 0
    with Vault.open(place / "my.vault") as opened:
        return opened.access(principal()).sessions.create(labels={"kind": "contract"}).id


def test_a_date_from_outside_is_set_moved_and_taken_back(call, contract):
    """D1"""
    done = call("retention", "date", contract, "2090-01-31", *OFFICER)
    assert f"{contract} has this date from outside now\n" in done.out
    assert "2090-03-02" in " ".join(done.out.split())
    told = call("retention", "date", contract, "2091-01-31T12:00:00+01:00", *OFFICER, "--json").document
    assert told["expires_at"] == "2091-03-02T11:00:00.000000Z"
    told = call("retention", "date", contract, "none", *OFFICER, "--json").document
    assert (told["id"], told["expires_at"], told["visible"]) == (contract, None, True)
    assert "no date from outside" in call("retention", "date", contract, "none", *OFFICER).out
    shown = call("audit", "list", "--as", "otto", "--role", "auditor").out
    assert "no date from outside" in shown
    assert "2090" in shown


def test_a_date_in_the_past_is_due_at_once(call, contract):
    """D3"""
    told = call("retention", "date", contract, "2001-01-01", *OFFICER, "--json").document
    assert (told["visible"], told["state"]) == (False, "DUE")
    assert call("show", contract).code == 3
    assert "erased 1 thing" in call("retention", "run", *OFFICER).out


@pytest.mark.parametrize("at", ["soon", "2027-13-01", "2027-01-31T12:00:00", "1960-01-01", "2900-01-01", ""])
def test_what_is_no_date_is_refused_in_one_sentence(call, contract, at):
    refused = call("retention", "date", contract, at, *OFFICER)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)


def test_only_an_officer_sets_a_date(call, contract):
    """A1"""
    refused = call("retention", "date", contract, "2027-01-31")
    assert (refused.code, refused.out) == (3, "")
    assert "privacy_officer" in refused.err


def test_what_is_due_and_stays_says_because_of_what(call, many):
    """D3: in words, and in JSON"""
    due = call("sessions", "--as", "dpo", "--role", "privacy_officer", "--json").document
    assert due["sessions"] == []  # hidden since it expired
    with Vault.open("my.vault") as opened, opened._database.snapshot() as connection:
        found = connection.execute(
            "SELECT session_id FROM sessions WHERE external IS NULL ORDER BY no"
        ).fetchone()
    id_ = format_id("ses", found[0])
    told = call("retention", "explain", id_, "--json", *OFFICER).document
    assert (told["state"], told["stays"], told["because_of"]) == ("DUE", "over_cap", None)
    said = " ".join(call("retention", "explain", id_, *OFFICER).out.split())
    assert said == told["text"]
    assert "It stays until a privacy officer lets the sweep go on" in said
