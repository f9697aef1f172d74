"""Tenants and principals on the command line, and what the directory changes for other commands. O3, O4."""

import pytest

from vault.policy.access import ROLES

ROOT = ["--as", "root"]
CLAIMED = [*ROOT, "--role", "administrator"]


@pytest.fixture
def directory(call, vault):
    """In the vault, root administers, Sam is support of the desk, Eve does nothing any more."""
    for given in (
        ["root", "administrator", *CLAIMED],
        ["sam", "support", "--into", "desk", *ROOT],
        ["eve", "auditor", *ROOT],
    ):
        assert call("principals", "add", *given).code == 0
    assert call("principals", "remove", "eve", *ROOT).out.startswith("removed;")


def session_of(call):
    return call("sessions", "--json").document["sessions"][0]["id"]


def test_who_is_registered_need_not_say_in_which_role(call, directory):
    session = session_of(call)
    shown = call("view", session, "--as", "sam", "--json")
    assert (shown.code, {event["view"] for event in shown.documents}) == (0, {"L1"})
    assert call("view", session, "--as", "sam", "--role", "support", "--team", "desk").code == 0
    assert call("view", session, "--as", "mallory").code == 3
    assert call("view", session, "--as", "eve").code == 3
    assert call("view", session).code == 0


@pytest.mark.parametrize(
    "claimed",
    [
        pytest.param(["--as", "sam", "--role", "privacy_officer"], id="another-role"),
        pytest.param(["--as", "sam", "--role", "agent"], id="a-role-that-others-have"),
        pytest.param(["--as", "sam", "--team", "north"], id="another-team"),
        pytest.param(["--as", "mallory", "--role", "auditor"], id="not-registered"),
        pytest.param(["--as", "eve", "--role", "auditor"], id="removed"),
        pytest.param(["--as", "eve", "--role", "agent"], id="removed-and-an-agent"),
    ],
)
def test_a_role_that_the_directory_does_not_give_is_refused_in_one_sentence(call, directory, claimed):
    done = call("sessions", *claimed)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "not registered in that role or team" in done.err


def test_without_a_directory_the_role_is_as_said(call, vault):
    session = session_of(call)
    assert call("view", session, "--as", "sam", "--role", "support").code == 0
    assert call("view", session, "--as", "sam").code == 3


def test_principals_are_listed_by_name_to_who_may_see_them(call, directory):
    listed = call("principals", "list", *ROOT, "--json").document["principals"]
    assert [(one["subject"], one["roles"], one["teams"]) for one in listed] == [
        ("root", ["administrator"], []),
        ("sam", ["support"], ["desk"]),
    ]
    out = call("principals", "list", *ROOT).out
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["subject", "roles"],
        ["root", "administrator"],
        ["sam", "support"],
    ]
    for who in (["--as", "sam"], ["--as", "mallory"], []):
        done = call("principals", "list", *who)
        assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
        assert "there is no directory for this tenant and role" in done.err
    elsewhere = call("principals", "list", "--as", "mallory", "--tenant", "initech")
    assert elsewhere.err == done.err


def test_an_empty_directory_says_how_it_begins(call, vault):
    done = call("principals", "list", *CLAIMED)
    assert (done.code, done.out) == (0, "")
    assert "begins a directory" in done.err
    refused = call("principals", "add", "sam", "support", *CLAIMED)
    assert refused.code == 7
    assert "register one first" in refused.err


@pytest.mark.parametrize(
    ("given", "code"),
    [
        pytest.param(["sam", "king"], 2, id="no-such-role"),
        pytest.param(["sam"], 2, id="no-role"),
        pytest.param(["", "support"], 2, id="nobody"),
        pytest.param(["sam", "support", "--into", ""], 2, id="no-team"),
        pytest.param(["root", "support"], 7, id="the-last-administrator"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_in_one_sentence(call, directory, given, code):
    done = call("principals", "add", *given, *ROOT)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert len(call("principals", "list", *ROOT, "--json").document["principals"]) == 2


def test_tenants_are_added_counted_and_kept_apart(call, directory):
    assert call("tenants", "add", "globex", "--administrator", "greta", *ROOT).out.startswith("added;")
    greta = ["--tenant", "globex", "--as", "greta"]
    assert call("principals", "list", *greta, "--json").document["principals"][0]["subject"] == "greta"
    [own, added] = call("tenants", "list", *ROOT, "--json").document["tenants"]
    assert (own["name"], own["sessions"], own["events"], own["added_at"]) == ("default", 1, 3, None)
    assert (added["name"], added["sessions"], added["events"], added["bytes"]) == ("globex", 0, 0, 0)
    assert own["bytes"] > 100
    assert call("tenants", "show", *ROOT).out.startswith("1 session, 3 events, ")
    assert call("tenants", "show", "globex", *ROOT, "--json").document == added
    assert "0 sessions, 0 events" in call("tenants", "show", "globex", *ROOT).out
    [head, *rows] = call("tenants", "list", *ROOT).out.splitlines()
    assert head.split() == ["tenant", "sessions", "events", "bytes"]
    assert [row.split()[:3] for row in rows] == [["default", "1", "3"], ["globex", "0", "0"]]
    [theirs] = call("tenants", "list", *greta, "--json").document["tenants"]
    assert theirs["name"] == "globex"
    for name in ("initech", "default"):
        assert call("tenants", "show", name, *greta).code == 3
    assert call("tenants", "add", "globex", *ROOT).code == 7


def test_what_an_administrator_did_is_in_the_trail_without_names(call, directory):
    call("principals", "add", "ann", "auditor", *ROOT)
    done = call("audit", "list", "--as", "ann", "--limit", "100")
    assert done.code == 0
    assert "principal.added" in done.out
    assert "principal.removed" in done.out
    assert not any(name in done.out for name in ("sam", "desk", "eve"))


@pytest.mark.parametrize("role", ROLES)
def test_only_an_administrator_changes_the_directory(call, vault, role):
    done = call("principals", "add", "zoe", "administrator", "--as", "zed", "--role", role)
    assert done.code == (0 if role == "administrator" else 3)


def test_an_administrator_sees_no_content(call, directory):
    session = session_of(call)
    glass = ["break-glass", "request", session, "--reason", "r"]
    for command in (["view", session], ["show", session], ["audit", "list"], glass):
        done = call(*command, *ROOT)
        assert (done.code, done.out) == (3, "")
    assert call("sessions", *ROOT, "--json").document["sessions"] == []
