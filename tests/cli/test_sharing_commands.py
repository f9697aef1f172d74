"""Sharing a session, and seeing it in another role."""

import json

import pytest

from vault import Principal, Vault

NAME, MAIL, CARD = "Ottoline Quarrenby", "ottoline@example.org", "4111 1111 1111 1111"


@pytest.fixture
def customer(vault):
    """In the vault, a session of the default owner that names a customer; its id."""
    with Vault.open(vault) as opened:
        session = opened.access(Principal(tenant="default", subject="owner")).sessions.create(title="A card")
        session.append("message.user", {"content": f"I'm {NAME}, {MAIL}, card {CARD}"})
        session.append("tool.returned", {"name": NAME, "email": MAIL, "customer_id": "cus_1"}, tool="crm")
        session.append("message.assistant", {"content": "Thank you, Ms Quarrenby."})
    return session.id


def seen_by(call, session, *who):
    done = call("view", session, "--json", *who)
    return done, json.dumps([document.get("payload") for document in done.documents])


def test_what_is_shared_is_seen_at_its_level_and_no_longer_when_revoked(call, customer):
    assert call("view", customer, "--as", "bob").code == 3
    done = call("grants", "give", customer, "bob")
    assert (done.code, done.err) == (0, "")
    assert f"shared {customer} at L1" in done.out
    assert "to read, until it is revoked" in done.out
    shown, text = seen_by(call, customer, "--as", "bob")
    assert {(event["view"], event["recorded"]) for event in shown.documents} == {("L1", True)}
    assert "[NAME]" in text
    assert not any(hidden in text for hidden in (NAME, "Quarrenby", MAIL, CARD))
    assert call("grants", "revoke", customer, "bob").out == f"{customer} is no longer shared with them\n"
    assert call("view", customer, "--as", "bob").code == 3
    assert call("grants", "revoke", customer, "bob").code == 3


def test_a_later_share_replaces_an_earlier_one(call, customer):
    for level in ("L3", "L0"):
        assert call("grants", "give", customer, "bob", "--level", level).code == 0
    _, text = seen_by(call, customer, "--as", "bob")
    assert "<string>" in text
    assert NAME not in text
    [given] = call("grants", "list", customer, "--json").document["grants"]
    assert given["said"]["level"] == "L0"


def test_a_team_reads_and_only_who_is_in_it(call, customer):
    give = ["--level", "L2", "--may", "append", "--until", "2199-01-01T00:00:00Z", "--json"]
    given = call("grants", "give", customer, "team:desk", *give).document
    assert (given["what"], given["said"]["may"]) == ("share.given", ["append"])
    assert given["until"] == "2199-01-01T00:00:00.000000Z"
    shown, text = seen_by(call, customer, "--as", "carol", "--team", "north", "--team", "desk")
    assert shown.documents[0]["view"] == "L2"
    assert "NAME_" in text
    assert NAME not in text
    assert call("view", customer, "--as", "carol").code == 3
    assert call("view", customer, "--as", "carol", "--team", "north").code == 3


def test_grants_are_listed_by_blind_indexes_in_80_columns(call, customer, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = call("grants", "list", customer)
    assert (done.code, done.out, done.err) == (0, "", "nothing of this session is shared\n")
    call("grants", "give", customer, "bob")
    call("grants", "give", customer, "team:desk", "--may", "append", "--until", "2199-01-01T00:00:00Z")
    done = call("grants", "list", customer)
    [head, *rows] = done.out.splitlines()
    assert head.split() == ["to", "level", "may", "until"]
    assert sorted(row.split()[1:] for row in rows) == [
        ["L1", "read", "it", "is", "revoked"],
        ["L1", "read,", "append", "2199-01-01", "00:00"],
    ]
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert "bob" not in done.out


def test_what_is_shared_with_somebody_is_listed_as_they_may_see_it(call, customer):
    assert "nothing is shared with you" in call("grants", "list", "--as", "bob").err
    call("grants", "give", customer, "bob", "--level", "L0")
    [shared] = call("grants", "list", "--as", "bob", "--json").document["sessions"]
    assert (shared["id"], shared["view"], shared["title"]) == (customer, "L0", "<string>")
    out = call("grants", "list", "--as", "bob").out
    assert customer in out
    assert "A card" not in out
    call("grants", "revoke", customer, "bob")
    assert call("grants", "list", "--as", "bob", "--json").document == {"sessions": []}


@pytest.mark.parametrize(
    ("given", "said", "code"),
    [
        pytest.param(["--level", "L9"], "L0, L1, L2, L3", 2, id="level"),
        pytest.param(["--may", "end"], "append", 2, id="action"),
        pytest.param(["--until", "tomorrow"], "--until", 2, id="no-time"),
        pytest.param(["--until", "2030-01-01T00:00:00"], "--until", 2, id="no-zone"),
        pytest.param(["--until", "2001-01-01T00:00:00Z"], "future", 2, id="over"),
        pytest.param(["--as", "mallory"], "no such session", 3, id="not-the-owner"),
        pytest.param(["--role", "agent"], "no such session", 3, id="an-agent-shares-nothing"),
        pytest.param(["--as", "sam", "--role", "support"], "no such session", 3, id="support"),
    ],
)
def test_a_share_that_cannot_be_is_refused_in_one_sentence(call, customer, given, said, code):
    done = call("grants", "give", customer, "bob", *given)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert said in done.err
    assert call("grants", "list", customer, "--json").document["grants"] == []


@pytest.mark.parametrize("to", [pytest.param("", id="nobody"), pytest.param("team:", id="no-team")])
def test_a_share_with_nobody_is_refused(call, customer, to):
    done = call("grants", "give", customer, to)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_an_own_session_is_seen_whole_and_without_a_record(call, customer):
    out = call("view", "latest").out
    assert "not recorded" in out
    assert NAME in out
    assert "3 of 3 events" in out
    assert call("audit", "list", "--as", "ann", "--role", "auditor", "--session", customer).out == ""


@pytest.mark.parametrize(
    ("role", "level", "shown"),
    [
        pytest.param("auditor", "L0", "<string>", id="auditor"),
        pytest.param("support", "L1", "[NAME]", id="support"),
        pytest.param("privacy_officer", "L2", "NAME_", id="privacy-officer"),
    ],
)
def test_a_role_sees_the_session_at_its_level_and_is_told_that_it_was_recorded(
    call, customer, role, level, shown
):
    out = call("view", customer, "--as", "sam", "--role", role, "--limit", "1").out
    told = " ".join(out.split())
    assert f"seen at {level}: the role {role} may read within its tenant; this look was recorded" in told
    assert shown in out
    assert not any(hidden in out for hidden in (NAME, "Quarrenby", MAIL, CARD))
    assert "1 of 3 events; --limit cut it" in out
    audit = ["--as", "ann", "--role", "auditor", "--session", customer, "--who", "sam", "--json"]
    entries = call("audit", "list", *audit).document["entries"]
    assert {(entry["said"]["action"], entry["said"]["level"]) for entry in entries} == {("read", level)}


@pytest.mark.parametrize(
    "who",
    [
        pytest.param(["--as", "bob"], id="a-stranger"),
        pytest.param(["--as", "root", "--role", "administrator"], id="an-administrator"),
        pytest.param(["--as", "sam", "--role", "support", "--tenant", "other"], id="another-tenant"),
        pytest.param(["--as", "owner", "--role", "support"], id="the-owner-in-another-role"),
    ],
)
def test_what_is_denied_looks_like_what_is_absent(call, customer, who):
    """O1"""
    denied = call("view", customer, "--json", *who)
    absent = call("view", "ses_00000000-0000-7000-8000-000000000000", "--json", *who)
    assert (denied.code, denied.out, denied.err) == (absent.code, absent.out, absent.err)
    assert denied.document["error"] == "NotFound"


@pytest.mark.parametrize(
    ("who", "said"),
    [
        pytest.param(["--role", "suport"], "--role is agent, owner, support", id="no-role"),
        pytest.param(["--as", "sam", "--role", ""], "--role is", id="empty-role"),
        pytest.param(["--role", "support"], "say with --as who calls", id="nobody-in-a-role"),
        pytest.param(["--role", "owner", "--role", "auditor"], "say with --as", id="nobody-in-two-roles"),
        pytest.param(["--as", "sam", "--team", ""], "a team", id="no-team"),
    ],
)
def test_a_role_or_team_that_is_none_is_refused_in_one_sentence(call, customer, who, said):
    done = call("view", customer, *who)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_the_next_page_is_asked_for_in_the_same_roles_and_teams(call, vault, customer):
    done = call("sessions", "--limit", "1", "--role", "owner", "--team", "desk")
    assert "--role owner --team desk" in done.out


def test_a_session_that_may_be_forked_is_gone_on_from_by_somebody_else(call, customer):
    """O2"""
    assert call("fork", customer, "--as", "bob").code == 3
    given = call("grants", "give", customer, "bob", "--level", "L3", "--may", "fork", "--may", "append")
    assert given.out == f"shared {customer} at L3\nto read and append and fork, until it is revoked\n"
    done = call("fork", customer, "--as", "bob")
    assert (done.code, done.err) == (0, "")
    fork = done.out.split()[0]
    assert len(call("show", fork, "--as", "bob", "--json").documents) == 3
    assert call("show", fork).code == 3
    call("grants", "revoke", customer, "bob")
    refused = call("show", fork, "--as", "bob")
    assert (refused.code, NAME in refused.out) == (3, False)
    assert "cannot be read any more" in refused.err
    assert call("sessions", "--as", "bob", "--json").document["sessions"][0]["id"] == fork


def test_leave_to_fork_is_given_in_full_only(call, customer):
    """O2"""
    done = call("grants", "give", customer, "bob", "--may", "fork")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "L3" in done.err


@pytest.mark.parametrize("role", ["support", "auditor", "privacy_officer"])
def test_a_role_that_sees_the_tenants_sessions_lists_them_as_it_sees_them(call, customer, role):
    """O3, R1"""
    listed = call("sessions", "--as", "sam", "--role", role, "--json").document["sessions"]
    assert customer in [item["id"] for item in listed]
    shown = call("sessions", "--as", "sam", "--role", role)
    assert (shown.code, shown.err) == (0, "")
    for text in (json.dumps(listed), shown.out):
        assert not any(hidden in text for hidden in (NAME, "Quarrenby", MAIL, CARD))
    trail = call("audit", "list", "--as", "pia", "--role", "privacy_officer", "--who", "sam", "--json")
    assert [entry["said"]["action"] for entry in trail.document["entries"]] == ["list", "list"]
    assert call("show", "latest", "--as", "sam", "--role", role).code == 3
