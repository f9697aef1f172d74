"""`hold place`, `lift` and `list`: what a hold keeps, until when, and what it came too late for (D2)."""

import pytest

OFFICER = ["--as", "dpo", "--role", "privacy_officer"]
NOBODYS = "ses_00000000-0000-7000-8000-000000000000"


@pytest.fixture
def session(call, vault):
    """The id of the vault's one session, of `owner`, labelled purpose=sales."""
    return call("sessions", "--json").document["sessions"][0]["id"]


def place(call, *arguments):
    done = call("hold", "place", *arguments, *OFFICER, "--json")
    assert done.code == 0
    return done.document


@pytest.mark.parametrize(
    ("given", "scope"),
    [
        pytest.param(None, "one session, and what was derived from it", id="session"),
        pytest.param(["--subject", "owner"], "everything of one person", id="subject"),
        pytest.param(["--label", "purpose=sales"], "every session with one label", id="label"),
        pytest.param(["--tenant-whole"], "everything of the tenant", id="tenant"),
    ],
)
def test_what_is_held_is_not_erased_until_the_hold_is_lifted(call, session, given, scope):
    given = given or ["--session", session]
    done = call("hold", "place", *given, "--reason", "case 7", *OFFICER)
    assert (done.code, done.err) == (0, "")
    hold, told = done.out.split(" keeps ")
    assert told == f"{scope}\n"
    assert call("erase", session, "--yes", "--json").document["counts"] == {"session": {"held": 1}}
    assert call("show", session).code == 3
    assert call("retention", "explain", session, "--json").document["state"] == "HELD"
    done = call("hold", "lift", hold, "--reason", "closed", *OFFICER)
    assert (done.code, done.out[:7]) == (0, "lifted;")
    assert call("retention", "explain", session, "--json").document["state"] == "DUE"
    assert "erased 1 thing in 1 erasure" in call("retention", "run", *OFFICER).out
    assert call("retention", "explain", session).code == 3


def test_one_hold_of_two_is_enough(call, session):
    for reason in ("one", "two"):
        held = place(call, "--session", session, "--reason", reason)
    call("hold", "lift", held["id"], "--reason", "closed", *OFFICER)
    assert call("erase", session, "--yes", "--json").document["counts"] == {"session": {"held": 1}}


def test_a_hold_on_what_was_erased_says_that_it_is_too_late(call, session):
    call("erase", session, "--yes")
    done = call("hold", "place", "--session", session, "--reason", "case 7", *OFFICER)
    assert done.code == 0
    assert "it may come too late for 1 thing, erased before" in done.out
    assert place(call, "--session", session, "--reason", "case 7")["too_late"] == 1


def test_holds_are_listed_with_their_reasons_in_80_columns(call, session, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert call("hold", "list", *OFFICER).err == "no hold is in force\n"
    first = place(call, "--session", session, "--reason", "case 7: \x1b[31m" + "long " * 40)
    second = place(call, "--tenant-whole", "--reason", "case 8")
    assert (first["scope"], first["lifted_at"], first["too_late"]) == ("session", None, 0)
    call("hold", "lift", second["id"], "--reason", "closed", *OFFICER)
    out = call("hold", "list", *OFFICER).out
    assert first["id"] in out
    assert "one session, and what was derived from it" in out
    assert r"case 7: \x1b[31mlong long" in out
    assert second["id"] not in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "case 8" in call("hold", "list", "--lifted", *OFFICER).out
    told = call("hold", "list", "--lifted", "--json", *OFFICER).document["holds"]
    assert [(one["id"], one["lifted_at"] is None) for one in told] == [
        (first["id"], True),
        (second["id"], False),
    ]


@pytest.mark.parametrize(
    ("given", "said", "code"),
    [
        pytest.param(["--tenant-whole"], "missing option '--reason'", 2, id="no-reason"),
        pytest.param(["--tenant-whole", "--reason", ""], "the reason of a hold", 2, id="empty-reason"),
        pytest.param(["--tenant-whole", "--reason", "x" * 1001], "1 to 1000", 2, id="long-reason"),
        pytest.param(["--reason", "R"], "one thing", 2, id="nothing"),
        pytest.param(["--tenant-whole", "--subject", "a", "--reason", "R"], "one thing", 2, id="two"),
        pytest.param(["--session", "", "--label", "a=b", "--reason", "R"], "one thing", 2, id="two-again"),
        pytest.param(["--subject", "", "--reason", "R"], "no wildcard", 2, id="empty-subject"),
        pytest.param(["--subject", "*", "--reason", "R"], "no wildcard", 2, id="wildcard-subject"),
        pytest.param(["--label", "a", "--reason", "R"], "name=value", 2, id="no-label"),
        pytest.param(["--label", "a=*", "--reason", "R"], "no wildcard", 2, id="wildcard-label"),
        pytest.param(["--session", NOBODYS, "--reason", "R"], "no such session", 3, id="unknown-session"),
        pytest.param(["--session", "", "--reason", "R"], "no such session", 3, id="empty-session"),
        pytest.param(["--session", "latest", "--reason", "R"], "no such session", 3, id="latest"),
    ],
)
def test_a_hold_that_names_nothing_or_has_no_reason_is_refused(call, vault, given, said, code):
    done = call("hold", "place", *given, *OFFICER)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert said in done.err
    assert call("hold", "list", "--lifted", "--json", *OFFICER).document == {"holds": []}


@pytest.mark.parametrize(
    ("given", "said", "code"),
    [
        pytest.param(["hld_nonsense", "--reason", "R"], "no such hold", 3, id="no-id"),
        pytest.param([NOBODYS.replace("ses", "hld"), "--reason", "R"], "no such hold", 3, id="unknown"),
        pytest.param(["hld_nonsense"], "missing option '--reason'", 2, id="no-reason"),
        pytest.param(["hld_nonsense", "--reason", ""], "the reason for lifting", 2, id="empty-reason"),
    ],
)
def test_a_hold_that_is_not_in_force_is_not_lifted(call, vault, given, said, code):
    done = call("hold", "lift", *given, *OFFICER)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert said in done.err


def test_a_hold_is_lifted_once(call, session):
    held = place(call, "--session", session, "--reason", "case 7")["id"]
    assert call("hold", "lift", held, "--reason", "R", *OFFICER, "--json").document == {
        "id": held,
        "lifted": True,
    }
    assert call("hold", "lift", held, "--reason", "R", *OFFICER).code == 3


@pytest.mark.parametrize(
    "who",
    [
        pytest.param([], id="owner"),
        pytest.param(["--as", "ann", "--role", "auditor"], id="auditor"),
        pytest.param(["--as", "sam", "--role", "support"], id="support"),
        pytest.param(["--as", "al", "--role", "administrator"], id="administrator"),
        pytest.param([*OFFICER, "--tenant", "another"], id="another-tenant"),
    ],
)
def test_only_the_tenants_officer_holds(call, session, who):
    held = place(call, "--session", session, "--reason", "case 7")["id"]
    for command in (
        ["place", "--session", session, "--reason", "R"],
        ["lift", held, "--reason", "R"],
        ["list"],
    ):
        done = call("hold", *command, *who)
        assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
        assert "privacy_officer" in done.err
    assert len(call("hold", "list", "--json", *OFFICER).document["holds"]) == 1


def test_a_list_shows_what_each_hold_names(call, session):
    """A2: in words, and in JSON; the tenant as a whole has no name"""
    place(call, "--session", session, "--reason", "one")
    place(call, "--subject", "ow\x1bner", "--reason", "two")
    assert place(call, "--label", "purpose=sales", "--reason", "three")["named"] == "purpose=sales"
    place(call, "--tenant-whole", "--reason", "four")
    out = call("hold", "list", *OFFICER).out
    for named in (session, r"ow\x1bner", "purpose=sales"):
        assert f"\n  {named}\n" in out
    told = call("hold", "list", "--json", *OFFICER).document["holds"]
    assert [one["named"] for one in told] == [session, "ow\x1bner", "purpose=sales", None]


def test_a_tenant_that_nobody_used_is_held_and_it_is_said(call, vault):
    new = [*OFFICER, "--tenant", "new"]
    assert call("hold", "list", *new).code == 3
    done = call("hold", "place", "--tenant-whole", "--reason", "case 7", *new)
    assert (done.code, done.out.count("keeps everything of the tenant")) == (0, 1)
    assert done.err == "nobody used this tenant before; check its name, if that surprises you\n"
    assert call("hold", "place", "--subject", "eve", "--reason", "case 8", *new).err == ""
    assert len(call("hold", "list", "--json", *new).document["holds"]) == 2
