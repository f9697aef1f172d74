"""The audit trail: what it says, that nothing is read before it is said, and that nothing can be unsaid."""

import contextlib
from datetime import UTC, datetime

import pytest

from tests.security import surgery
from tests.security.specimen import closed
from tests.security.test_canaries import found_in
from tests.security.test_ownership import CALLS
from vault import Principal, Vault
from vault.errors import InvalidInput, NotFound, RolledBack, StorageUnavailable, Tampered, VaultError
from vault.model import session_bytes

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob")
SUE = Principal(tenant="acme", subject="sue", roles=frozenset({"support"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
AUDITOR = Principal(tenant="acme", subject="aud", roles=frozenset({"auditor"}))

#: Calls of a handle that read, and how many entries each makes: one for each leave that it asks for.
READS = dict.fromkeys(
    (
        "events",
        "events-after",
        "events-newest",
        "slice",
        "follow",
        "info",
        "effects",
        "an-effect",
        "last-effect",
        "last-checkpoint",
        "recover",
        "recover-a-past-state",
        "context",
    ),
    1,
)
READS["replay"] = 1


def filled(vault):
    session = vault.access(ALICE).sessions.create(title="t")
    session.append("message.user", {"content": "hello"})
    return session


def trail(vault, **only):
    """The entries, oldest first, without those of the officer's own looks."""
    entries = list(vault.access(OFFICER).audit.entries(limit=10_000, **only))
    return [e for e in reversed(entries) if e.said.get("action") != "audit"]


def got(call):
    """What came out before it ended, and the error that ended it."""
    items = []
    try:
        result = call()
        if hasattr(result, "__next__"):
            items.extend(result)
        else:
            items.append(result)
    except VaultError as error:
        return items, type(error)
    return items, None


# ------------------------------------------------------------------------------------ what it says


def test_an_entry_says_who_did_what_with_which_session_why_at_which_level_and_when(place):
    """O2, K4, R5"""

    class Clock:
        now = 1_800_000_000_000_000

        def now_us(self):
            return self.now

    with Vault.create(place, clock=Clock()) as vault:
        session = filled(vault)
        vault.access(ALICE).grants.give(session.id, to="bob", level="L1", may=["append"])
        Clock.now += 7_000_000
        list(vault.access(BOB).sessions.resume(session.id).events())
        list(vault.access(SUE).sessions.resume(session.id).events())
        given, by_bob, by_sue = trail(vault)
        assert (given.what, given.session_id) == ("share.given", session.id)
        assert given.said == {"to": by_bob.who, "level": "L1", "may": ["append"], "until_us": None}
        assert given.at == datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
        for entry, role, why in ((by_bob, "agent", "shared at L1"), (by_sue, "support", "the role support")):
            assert (entry.what, entry.session_id) == ("access.used", session.id)
            assert entry.at == datetime(2027, 1, 15, 8, 0, 7, tzinfo=UTC)
            assert {**entry.said, "why": None} == {
                "action": "read",
                "level": "L1",
                "roles": [role],
                "why": None,
                "outcome": "allowed",
            }
            assert why in entry.said["why"]
        assert len({given.who, by_bob.who, by_sue.who}) == 3
        assert [given.seq, by_bob.seq, by_sue.seq] == [1, 2, 3]


def test_entries_are_found_by_who_which_session_and_what(vault):
    """K4: a name finds its entries; an entry shows no name"""
    one, other = filled(vault), filled(vault)
    for session in (one, other):
        vault.access(ALICE).grants.give(session.id, to="bob")
        vault.access(BOB).sessions.resume(session.id).info()
    assert {e.who for e in trail(vault, who="bob")} == {trail(vault)[1].who}
    assert trail(vault, who=trail(vault)[1].who) == trail(vault, who="bob")
    assert len(trail(vault, who="bob")) == 2
    assert len(trail(vault, session_id=one.id)) == 2
    assert [e.what for e in trail(vault, types=["share.given"])] == ["share.given"] * 2
    assert trail(vault, who="nobody") == []
    newest = vault.access(AUDITOR).audit.entries(limit=2)
    assert [e.said["action"] for e in newest] == ["audit", "audit"]
    for name in ("alice", "bob", "pia", "acme"):
        assert name not in repr([(e, e.said) for e in trail(vault)])


@pytest.mark.parametrize("limit", [0, -1, 10_001, True, 1.5, None, "1"])
def test_a_limit_that_is_none_is_refused(vault, limit):
    """A1"""
    filled(vault)
    with pytest.raises(InvalidInput, match="limit is a whole number"):
        list(vault.access(OFFICER).audit.entries(limit=limit))


def test_each_tenant_has_a_trail_of_its_own(vault):
    """O4"""
    session = filled(vault)
    vault.access(ALICE).grants.give(session.id, to="bob")
    vault.access(Principal(tenant="globex", subject="alice")).sessions.create()
    there = Principal(tenant="globex", subject="pia", roles=frozenset({"privacy_officer"}))
    assert [e.said["action"] for e in vault.access(there).audit.entries()] == ["audit"]


def test_whom_a_pseudonym_stands_for_is_told_for_a_reason_that_is_recorded(vault):
    """R5: before the value comes"""
    session = filled(vault)
    session.append("tool.returned", {"email": "anna.lindqvist@example.com"}, tool="crm")
    view = vault.access(OFFICER).sessions.resume(session.id).events(types=["tool.returned"])
    pseudonym = next(view).payload["email"]
    reveal = vault.access(OFFICER).audit.reveal
    assert reveal(session.id, pseudonym, "the customer asked") == "anna.lindqvist@example.com"
    assert reveal(session.id, "EMAIL_AAAAAAAAAAAAAAAA", "a guess") is None
    first, second = trail(vault, types=["pseudonym.revealed"])
    assert first.said == {"pseudonym": pseudonym, "reason": "the customer asked"}
    assert (second.session_id, second.said["reason"]) == (session.id, "a guess")
    for reason in ("", None, "x" * 1_001):
        with pytest.raises(InvalidInput):
            reveal(session.id, pseudonym, reason)
    with pytest.raises(NotFound):
        vault.access(SUE).audit.reveal(session.id, pseudonym, "curious")


# ------------------------------------------------------------------- nothing is read before it is said


@pytest.mark.parametrize("who", [pytest.param(BOB, id="a-grantee"), pytest.param(SUE, id="support")])
@pytest.mark.parametrize("call", READS)
def test_every_read_of_another_is_recorded_once(vault, call, who):
    """R5, K4"""
    session = filled(vault)
    vault.access(ALICE).grants.give(session.id, to="bob")
    event, before = next(session.events()).id, len(trail(vault))
    held = vault.access(who).sessions.resume(session.id)
    assert len(trail(vault)) == before  # it has shown nothing yet
    assert got(lambda: CALLS[call](held, event))[1] is None
    new = trail(vault)[before:]
    assert [(e.what, e.said["action"], e.session_id) for e in new] == [
        ("access.used", "read", session.id)
    ] * READS[call]


def test_what_a_follower_sees_later_is_under_the_one_entry(vault):
    """R5: following asks again and again, and is one read"""
    session = filled(vault)
    vault.access(ALICE).grants.give(session.id, to="bob")
    following = vault.access(BOB).sessions.resume(session.id).follow(poll_seconds=0.01)
    assert next(following).seq == 1
    for n in range(3):
        session.append("a.b", n)
        assert next(following).seq == n + 2
    assert [e.said.get("action") for e in trail(vault)] == [None, "read"]


@pytest.mark.parametrize("call", [*READS, "to_me", "reveal", "glass", "entries"])
def test_no_content_comes_when_the_trail_cannot_be_written(vault, monkeypatch, call):
    """R5, K4: recorded before, or not read"""
    session = filled(vault)
    vault.access(ALICE).grants.give(session.id, to="bob")
    event = next(session.events()).id
    held = vault.access(BOB).sessions.resume(session.id)
    officer = vault.access(OFFICER)

    def full(*_):
        raise StorageUnavailable

    monkeypatch.setattr("vault.sessions.session.append", full)
    calls = {
        "to_me": vault.access(BOB).grants.to_me,
        "reveal": lambda: officer.audit.reveal(session.id, "NAME_AAAAAAAAAAAAAAAA", "why"),
        "glass": lambda: officer.break_glass.request(session.id, "why"),
        "entries": officer.audit.entries,
    }
    asked = calls.get(call, lambda: CALLS[call](held, event))
    assert got(asked) == ([], StorageUnavailable)
    assert got(lambda: CALLS["events"](session, event))[1] is None  # the owner reads on


def test_the_owners_own_reads_are_not_recorded_and_make_no_trail(vault):
    """O1"""
    session = filled(vault)
    event = next(session.events()).id
    for call in READS:
        assert got(lambda: CALLS[call](session, event))[1] is None  # noqa: B023
    session.open(next(session.events())).close()
    assert vault.info()["sessions"] == 1
    vault.access(ALICE).grants.give(session.id, to="bob")
    for call in READS:
        got(lambda: CALLS[call](session, event))  # noqa: B023
    assert [e.what for e in trail(vault)] == ["share.given"]


READER = """
import sys
from vault import Principal, Vault
place, session_id, subject = sys.argv[1:]
with Vault.open(place) as vault:
    print("ready", flush=True)
    sys.stdin.readline()
    access = vault.access(Principal(tenant="acme", subject=subject, roles=frozenset({"support"})))
    for _ in range(20):
        assert len(list(access.sessions.resume(session_id).events())) == 1
"""


def test_two_processes_that_read_at_once_write_one_trail(vault, place, python):
    """K4, L2: also when neither has one yet"""
    session = filled(vault)
    readers = [python(READER, place, session.id, name) for name in ("sue", "sam")]
    for reader in readers:
        assert reader.stdout.readline() == "ready\n"
    for reader in readers:
        reader.stdin.write("\n")
        reader.stdin.flush()
    assert [reader.wait(60) for reader in readers] == [0, 0]
    entries = trail(vault)
    assert [e.seq for e in entries] == list(range(1, 41))
    assert [len(trail(vault, who=name)) for name in ("sue", "sam")] == [20, 20]
    assert vault.info()["sessions"] == 2
    assert vault.verify().ok


# ---------------------------------------------------------------------------- nothing can be unsaid


def rows_of(connection, kept):
    query = (
        "SELECT e.* FROM events AS e JOIN sessions AS s ON s.no = e.session_no"
        " WHERE s.session_id = ? ORDER BY e.seq"
    )
    return surgery.rows_as_dicts(connection, query, session_bytes(kept))


def slot(row):
    return {"session_no": row["session_no"], "seq": row["seq"]}


def entry_changed(connection, rows, _):
    surgery.update(connection, "events", slot(rows[4]), body=surgery.flipped(rows[4]["body"], 40))


def entry_removed(connection, rows, _):
    connection.execute("DELETE FROM events WHERE session_no = :session_no AND seq = :seq", slot(rows[2]))


def newest_removed(connection, rows, _):
    connection.execute("DELETE FROM events WHERE session_no = :session_no AND seq = :seq", slot(rows[-1]))


def entries_exchanged(connection, rows, _):
    columns = set(rows[0]) - {"session_no", "seq", "event_id", "type_nth", "run_nth"}
    for here, there in ((rows[1], rows[2]), (rows[2], rows[1])):
        surgery.update(connection, "events", slot(here), **{name: there[name] for name in columns})


def revocation_hidden(connection, rows, _):
    """Taken out of the index by which shares are looked up."""
    surgery.update(connection, "events", slot(rows[-1]), ref=None)


def revocation_told_as_a_share(connection, rows, _):
    surgery.update(connection, "events", slot(rows[-1]), type="share.given")


def rolled_back(connection, rows, past):
    """All since the share is gone, and the session's row is the genuine one of then, MAC and all."""
    surgery.update(connection, "sessions", {"no": past["no"]}, **past)
    connection.execute("DELETE FROM events WHERE session_no = ? AND seq > ?", (past["no"], past["head_seq"]))


EDITS = {
    "an-entry-changed": entry_changed,
    "an-entry-removed": entry_removed,
    "the-newest-entry-removed": newest_removed,
    "two-entries-exchanged": entries_exchanged,
    "a-revocation-hidden-from-the-index": revocation_hidden,
    "a-revocation-told-as-a-share": revocation_told_as_a_share,
    "rolled-back-to-before-a-revocation": rolled_back,
}
#: What leaves the look-up of a share intact; everything else has to stop it.
ELSEWHERE = {"an-entry-removed", "two-entries-exchanged"}


def edit(place, kept, change, past):
    with surgery.opened(place) as connection:
        change(connection, rows_of(connection, kept), past)


@contextlib.contextmanager
def tampered(vault, place, name, when):
    """The vault after an edit of its trail: closed and opened again, or behind its back."""
    session, grants = filled(vault), vault.access(ALICE).grants
    grants.give(session.id, to="bob", level="L3")
    kept = next(iter(vault._trail._kept.values())).id
    with contextlib.closing(surgery.connected(place)) as connection:
        query = "SELECT * FROM sessions WHERE session_id = ?"
        (past,) = surgery.rows_as_dicts(connection, query, session_bytes(kept))
    held = vault.access(BOB).sessions.resume(session.id)
    for _ in range(3):
        list(held.events())
    grants.revoke(session.id, "bob")
    vault.checkpoint()
    if when == "while-closed":
        vault.close()
        edit(place, kept, EDITS[name], past)
        vault = Vault.open(place)
    else:
        edit(place, kept, EDITS[name], past)
    try:
        yield vault, session
    finally:
        closed(vault)


@pytest.mark.parametrize("when", ["while-closed", "while-open"])
@pytest.mark.parametrize("name", EDITS)
def test_what_was_done_to_a_trail_is_found_and_refused(place, name, when):
    """K4, O2, invariant 6"""
    if (name, when) == ("rolled-back-to-before-a-revocation", "while-closed"):
        with pytest.raises(RolledBack), tampered(Vault.create(place), place, name, when):
            pytest.fail("a vault that is behind its ledger was opened")
        return
    with tampered(Vault.create(place), place, name, when) as (vault, session):
        items, error = got(lambda: CALLS["events"](vault.access(BOB).sessions.resume(session.id), None))
        assert items == []
        assert issubclass(error, NotFound if name in ELSEWHERE else Tampered)
        report = vault.verify()
        assert not report.ok
        assert all(session.id not in finding.place for finding in report.findings)
        items, error = got(lambda: trail(vault))
        assert items == []
        assert issubclass(error, Tampered)
        # The owner's own session is whole, and needs no trail.
        assert [event.payload for event in session_of(vault, session)] == [{"content": "hello"}]


def session_of(vault, session):
    return list(vault.access(ALICE).sessions.resume(session.id).events())


@pytest.mark.parametrize("when", ["while-closed", "while-open"])
def test_a_trail_that_was_taken_away_is_missed(place, when):
    """K4"""
    vault = Vault.create(place)
    session = filled(vault)
    vault.access(ALICE).grants.give(session.id, to="bob")
    kept = next(iter(vault._trail._kept.values())).id
    vault.checkpoint()
    if when == "while-closed":
        vault.close()
    with surgery.opened(place) as connection:
        no = (rows_of(connection, kept)[0]["session_no"],)
        for table in ("events", "runs", "labels", "blobs"):
            connection.execute(f"DELETE FROM {table} WHERE session_no = ?", no)  # noqa: S608
        connection.execute("DELETE FROM sessions WHERE no = ?", no)
    if when == "while-closed":
        with pytest.raises(RolledBack, match="missing"):
            Vault.open(place)
        return
    try:
        assert not vault.verify().ok
        for call in (lambda: trail(vault), lambda: vault.access(BOB).sessions.resume(session.id)):
            with pytest.raises(Tampered):
                call()
    finally:
        closed(vault)


# ----------------------------------------------------------------------------------- nothing in clear


def test_no_name_reason_or_pseudonym_of_the_trail_is_in_clear_in_any_file(place, state_home):
    """K1, K4"""
    words = {
        field: f"Kanarien{'V'}ogel-{field}-Zwitschert"
        for field in ("tenant", "owner", "grantee", "team", "support", "officer", "reason", "why", "value")
    }

    def who(subject, role, **more):
        return Principal(tenant=words["tenant"], subject=words[subject], roles=frozenset({role}), **more)

    with Vault.create(place) as vault:
        owner = vault.access(who("owner", "owner"))
        session = owner.sessions.create()
        session.append("tool.returned", {"name": words["value"]}, tool="crm")
        owner.grants.give(session.id, to=words["grantee"], level="L1")
        owner.grants.give(session.id, to=f"team:{words['team']}", level="L2")
        list(vault.access(who("grantee", "agent")).sessions.resume(session.id).events())
        vault.access(who("support", "support")).break_glass.request(session.id, words["reason"])
        list(vault.access(who("support", "support")).sessions.resume(session.id).events())
        officer = vault.access(who("officer", "privacy_officer"))
        officer.audit.reveal(session.id, "NAME_AAAAAAAAAAAAAAAA", words["why"])
        assert (
            len(list(officer.audit.entries(who=words["support"]))) == 4
        )  # asked twice: of the door, and of the glass; then opened, then read
        owner.grants.revoke(session.id, words["grantee"])
        assert found_in(place, words) == set()
    assert found_in(place, words) == set()
    assert found_in(state_home, words) == set()
    (place / "a-name").write_text(words["reason"])
    assert found_in(place, words) == {"reason"}
