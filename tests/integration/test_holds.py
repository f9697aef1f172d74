"""Legal holds: what one names is kept, whatever else is asked, until it is lifted. D2, D4."""

import dataclasses
import os

import pytest

from vault import Principal, Vault
from vault.errors import InvalidInput, NotFound
from vault.model import session_bytes
from vault.sealing.receipts import verified

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
AUDITOR = Principal(tenant="acme", subject="otto", roles=frozenset({"auditor"}))
STRANGER = Principal(tenant="zeta", subject="zoe", roles=frozenset({"owner", "privacy_officer"}))
DAY = 24 * 3_600_000_000
YEAR = 365 * DAY
GRACE = 7 * DAY


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def officer(vault):
    return vault.access(OFFICER)


@pytest.fixture
def session(alice):
    made = alice.sessions.create(title="August sales", labels={"case": "7"})
    made.append("message.user", {"content": "hello"})
    return made


@pytest.fixture
def later(clock, officer):
    """Lets time pass; somebody looked at the clock."""

    def pass_by(us):
        clock.now += us
        officer.retention.trust_clock()

    return pass_by


@pytest.fixture
def steps(vault):
    """Calls something before a step of whatever is erased from here on."""

    def before(name, work):
        left = [work]

        def step(told):
            if told == name and left:
                left.pop()()

        execution = dataclasses.replace(vault._parts.execution, step=step)
        vault._parts = dataclasses.replace(vault._parts, execution=execution)

    return before


SCOPES = ["session", "subject", "label", "tenant"]


def scoped(kind, session):
    scopes = {"session": session.id, "subject": "alice", "label": ("case", "7"), "tenant": True}
    return {kind: scopes[kind]}


def key_of(vault, session):
    scope = bytes.fromhex(session.id.partition("_")[2].replace("-", ""))
    return [row for row in vault._store.rows() if row.scope == scope]


@pytest.mark.parametrize("kind", SCOPES)
def test_a_hold_keeps_what_a_person_asks_to_erase(vault, alice, officer, session, kind):
    """D2: it is restricted, the receipt says so, and it goes by itself once the hold is lifted"""
    other = vault.access(BOB).sessions.create()
    hold = officer.holds.place(**scoped(kind, session), reason="case 7")
    assert (hold.scope, hold.too_late) == (kind, 0)
    outcome = officer.erasure.erase(session=session.id)
    assert dict(outcome.counts) == {("session", "held"): 1}
    receipt = verified(outcome.receipt, vault._signer.public)
    assert [(one.kind, one.count, one.basis) for one in receipt.exceptions] == [("session", 1, "hold")]
    assert receipt.keys.destroyed == receipt.items.count == 0
    assert key_of(vault, session)
    for use in (lambda: alice.sessions.resume(session.id), lambda: list(session.events()), session.info):
        with pytest.raises(NotFound):
            use()
    assert "hold" in officer.retention.explain(session.id).text
    for _ in range(2):
        assert officer.retention.run().going == 0
    assert key_of(vault, session)
    officer.holds.lift(hold.id, reason="closed")
    assert officer.retention.run().going == 1
    assert not key_of(vault, session)
    assert vault.access(BOB).sessions.resume(other.id).id == other.id
    assert vault.verify().findings == ()


@pytest.mark.parametrize("kind", SCOPES)
@pytest.mark.parametrize("cause", ["request", "sweep"])
def test_a_hold_placed_at_the_last_moment_counts(vault, alice, session, later, steps, kind, cause):
    """D2: decided where the keys are condemned; nothing of what is held is touched, the receipt is true"""
    second = alice.sessions.create(title="goes")
    second.append("file.read", raw=os.urandom(80_000))
    if cause == "sweep":
        later(YEAR + GRACE)
    placed, holder = [], vault.access(OFFICER)
    steps("condemn", lambda: placed.append(holder.holds.place(**scoped(kind, session), reason="late")))
    watched = vault.access(OFFICER)
    if cause == "sweep":
        swept = watched.retention.run()
        assert (swept.operations, swept.unfinished) == (1, 0)
        (outcome,) = vault.access(AUDITOR).erasure.receipts()
    else:
        outcome = watched.erasure.erase(subject="alice")
    assert placed[0].too_late == 0
    assert outcome.state == "verified"
    kept = 1 if kind in {"session", "label"} else 2
    assert dict(outcome.counts).get(("session", "held")) == kept
    assert dict(outcome.counts).get(("session", "erased"), 0) == 2 - kept
    assert key_of(vault, session)
    assert vault.verify().findings == ()
    holder.holds.lift(placed[0].id, reason="closed")
    assert holder.retention.run().going == kept
    assert not key_of(vault, session)


@pytest.mark.parametrize("step", ["record", "condemned", "destroy", "delete rows", "prove"])
def test_a_hold_that_comes_too_late_says_so(vault, alice, officer, session, steps, step):
    """D2: whatever step the erasure has come to"""
    placed, holder = [], vault.access(OFFICER)
    steps(step, lambda: placed.append(holder.holds.place(session=session.id, reason="late")))
    outcome = vault.access(OFFICER).erasure.erase(session=session.id)
    assert dict(outcome.counts) == {("session", "erased"): 1}
    assert placed[0].too_late == 1
    assert outcome.state == "verified"


def test_a_hold_on_what_was_erased_says_so(officer, session):
    officer.erasure.erase(session=session.id)
    assert officer.holds.place(session=session.id, reason="late").too_late == 1


@pytest.mark.parametrize("moment", [-1, 0, 1])
def test_a_hold_at_the_due_moment_keeps_an_expired_session(
    vault, alice, officer, session, later, clock, moment
):
    """D2, D3"""
    later(YEAR + GRACE + moment)
    officer.holds.place(session=session.id, reason="just in time")
    assert officer.retention.preview().going == 0
    assert officer.retention.run().operations == 0
    assert key_of(vault, session)
    with pytest.raises(NotFound):  # it expired all the same
        alice.sessions.resume(session.id)


def test_a_hold_on_a_fork_keeps_what_it_shares(vault, alice, officer, session):
    """D2, D4: and on what was derived, through its sources"""
    fork = alice.sessions.fork(session.id, labels={"case": "8"})
    alice.memories.put(("n",), "key", 1, sources=[fork])
    officer.holds.place(label=("case", "8"), reason="the fork")
    outcome = officer.erasure.erase(session=session.id)
    assert dict(outcome.counts) == {("session", "held"): 2, ("memory", "held"): 1}
    assert key_of(vault, session)
    assert key_of(vault, fork)


def test_a_late_hold_on_a_fork_keeps_what_it_shares(vault, alice, officer, session, steps):
    """D2, D4: what is held could not be read without"""
    fork = alice.sessions.fork(session.id)
    fork.append("message.user", "of the fork")
    holder = vault.access(OFFICER)
    steps("condemn", lambda: holder.holds.place(session=fork.id, reason="late"))
    outcome = vault.access(OFFICER).erasure.erase(session=session.id)
    assert dict(outcome.counts) == {("session", "held"): 2}
    assert key_of(vault, session)
    assert key_of(vault, fork)


def test_several_holds_keep_it_until_the_last_is_lifted(vault, officer, session):
    holds = [officer.holds.place(**scoped(kind, session), reason=kind) for kind in SCOPES]
    officer.erasure.erase(session=session.id)
    assert officer.retention.explain(session.id).holds == 4
    for number, hold in enumerate(holds):
        assert officer.retention.run().going == 0, number
        officer.holds.lift(hold.id, reason="over")
    assert officer.retention.run().going == 1
    assert not key_of(vault, session)


def test_a_hold_that_nobody_asked_against_changes_nothing(alice, officer, session):
    hold = officer.holds.place(session=session.id, reason="case")
    assert session.append("message.user", 1).seq == 2
    assert alice.sessions.fork(session.id)
    officer.holds.lift(hold.id, reason="over")
    assert officer.retention.run().going == 0
    assert len(list(session.events())) == 2


def test_holds_are_listed_with_their_reasons(officer, session, clock):
    hold = officer.holds.place(subject="alice", reason="case 7")
    (listed,) = officer.holds.list()
    assert (listed.id, listed.scope, listed.reason) == (hold.id, "subject", "case 7")
    officer.holds.lift(hold.id, reason="closed")
    assert officer.holds.list() == []
    (listed,) = officer.holds.list(lifted=True)
    assert listed.lifted_at is not None
    with pytest.raises(NotFound):
        officer.holds.lift(hold.id, reason="again")
    assert "case 7" not in repr(listed)


def test_only_officers_of_the_tenant_hold_and_lift(vault, alice, officer, session):
    """O1, O3: another tenant's hold on an id keeps nothing here"""
    hold = officer.holds.place(session=session.id, reason="case")
    for principal in (ALICE, BOB, AUDITOR):
        access = vault.access(principal)
        for use in (
            lambda access=access: access.holds.place(session=session.id, reason="x"),
            lambda access=access: access.holds.lift(hold.id, reason="x"),
            lambda access=access: access.holds.list(),
        ):
            with pytest.raises(NotFound):
                use()
    stranger = vault.access(STRANGER)
    stranger.sessions.create()
    with pytest.raises(NotFound):
        stranger.holds.lift(hold.id, reason="x")
    assert stranger.holds.place(session=session.id, reason="x").too_late == 0
    officer.holds.lift(hold.id, reason="over")
    assert dict(alice.erasure.erase(session=session.id).counts) == {("session", "erased"): 1}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"subject": ""},
        {"subject": "*"},
        {"subject": 5},
        {"label": ("case", "")},
        {"label": ("case",)},
        {"label": "7"},
        {"label": ("case", "7"), "subject": "alice"},
        {"tenant": False},
    ],
    ids=repr,
)
def test_a_hold_names_one_thing(officer, session, given):
    with pytest.raises(InvalidInput):
        officer.holds.place(**given, reason="case")


@pytest.mark.parametrize("reason", ["", "x" * 1_001, None])
def test_a_hold_has_a_reason(officer, session, reason):
    with pytest.raises(InvalidInput):
        officer.holds.place(session=session.id, reason=reason)
    assert officer.holds.list() == []


def test_what_came_from_what_a_hold_keeps_is_hidden_as_well(alice, officer, session):
    """D2, D4: somebody asked for its erasure; what was made from it says the same words"""
    fork = alice.sessions.fork(session.id)
    memory = alice.memories.put(("n",), "key", "hello", sources=[session])
    officer.holds.place(session=session.id, reason="case")
    alice.erasure.erase(session=session.id)
    with pytest.raises(NotFound):
        list(fork.events())
    with pytest.raises(NotFound):
        alice.memories.get(("n",), memory.key)


@pytest.mark.parametrize(
    ("kind", "named"),
    [("session", None), ("subject", "alice"), ("label", "case=7"), ("tenant", None)],
)
def test_a_hold_is_listed_with_what_it_names(officer, session, kind, named):
    """A2: so that whoever lifts it knows which one it is; not in its repr"""
    named = session.id if kind == "session" else named
    placed = officer.holds.place(**scoped(kind, session), reason="case")
    (listed,) = officer.holds.list()
    assert (placed.named, listed.named, listed.scope) == (named, named, kind)
    assert "alice" not in repr(listed)
    assert "case=7" not in repr(listed)


def test_a_hold_of_before_names_were_kept_is_listed_without(vault, officer, session):
    """As it was placed then: its entry has only the tag; of a session that is the id"""
    tenant = vault._keys.tenant("acme", create=False)
    for number, (scope, tag) in enumerate(
        [("subject", tenant.owner("alice")), ("session", session_bytes(session.id))], start=1
    ):
        hold_id = bytes([number]) * 16
        said = {"hold": hold_id.hex(), "scope": scope, "tag": tag.hex(), "reason": "old"}
        vault._parts.trail.write(tenant, "hold.placed", b"", b"", said, about=("hold", hold_id))
        vault._store.place_hold(hold_id, tenant.tenant_id, [tag], number)
    assert {one.scope: one.named for one in officer.holds.list()} == {"subject": None, "session": session.id}


def test_what_a_hold_names_is_told_to_who_may_hold_and_stands_in_no_file(vault, place, officer, session):
    """K1, O1: a look at the audit trail shows whom nobody is told; every file of the vault holds it sealed"""
    name, value = "kanarienvogel-person", "kanarienvogel-value"
    officer.holds.place(subject=name, reason="case")
    officer.holds.place(label=("case", value), reason="case")
    for who in (AUDITOR, OFFICER):
        told = repr(
            [entry.said for entry in vault.access(who).audit.entries() if entry.what == "hold.placed"]
        )
        assert told.count("'reason': 'case'") == 2
        assert "kanarienvogel" not in told
    vault.close()
    files = [file.read_bytes() for file in place.rglob("*") if file.is_file()]
    assert len(files) > 3
    assert not any(b"kanarienvogel" in content for content in files)


@pytest.mark.parametrize(
    "given",
    [{"tenant": True}, {"subject": "alice"}, {"label": ("case", "7")}],
    ids=["tenant", "subject", "label"],
)
def test_a_tenant_that_nobody_used_yet_is_held_from_its_first_session_on(vault, officer, given):
    """D2: what is held may come later"""
    officer.holds.place(**given, reason="case")
    alice = vault.access(ALICE)
    session = alice.sessions.create(labels={"case": "7"})
    assert dict(alice.erasure.erase(session=session.id).counts) == {("session", "held"): 1}
    assert vault.verify().findings == ()


def test_nothing_but_a_hold_on_what_may_come_makes_a_tenant(vault, officer):
    """O1: not a look, not a mistake, not who has no leave"""
    for use in (
        officer.holds.list,
        lambda: officer.holds.place(session="ses_00000000-0000-7000-8000-000000000000", reason="case"),
        lambda: officer.holds.place(tenant=True, reason=""),
        lambda: officer.holds.place(subject="*", reason="case"),
        lambda: vault.access(ALICE).holds.place(tenant=True, reason="case"),
        lambda: vault.access(AUDITOR).holds.place(tenant=True, reason="case"),
    ):
        with pytest.raises((NotFound, InvalidInput)):
            use()
    assert vault._keys.tenant("acme", create=False) is None
