"""The two clocks that somebody sets: labels given while a session lives, and a date from outside.

D1, D2, D3.
"""

import io
from datetime import UTC, datetime, timedelta

import pytest

from vault import Principal, Trigger, Vault, copies
from vault.adapters.session_jsonl import export_session
from vault.clock import from_us, to_us
from vault.errors import Conflict, Fenced, InvalidInput, NotFound
from vault.model import LABELS_MAX, session_bytes
from vault.policy import terms as retention
from vault.ports.records import SessionRow
from vault.sealing.receipts import verified

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"owner"}))
PIA = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
AUDITOR = Principal(tenant="acme", subject="otto", roles=frozenset({"auditor"}))
STRANGER = Principal(tenant="zeta", subject="zoe", roles=frozenset({"owner", "privacy_officer"}))
MINUTE, HOUR = 60_000_000, 3_600_000_000
DAY = 24 * HOUR
BY_HAND = Trigger(after_tool=False, every_events=None, every_seconds=None)
CLOSED, CONTRACT = {"case": "closed"}, {"kind": "contract"}

#: Everything for a year; a closed case 30 days from its closing, a contract 30 days from its end, a patient's
#: record 100 days at least.
PAPER = """
version = {version}
name = "mine"
[[retention]]
id = "all"
match = {{ kind = ["session", "memory", "summary", "artifact", "embedding", "cache"] }}
anchor = "created"
expire_after = "365d"
applies_to = "{applies_to}"
[[retention]]
id = "closed"
match = {{ kind = ["session", "memory"], labels = {{ case = "closed" }} }}
anchor = "labelled"
expire_after = "{closed}"
grace = "1d"
applies_to = "{applies_to}"
[[retention]]
id = "contract"
match = {{ kind = ["session"], labels = {{ kind = "contract" }} }}
anchor = "external"
expire_after = "30d"
grace = "1d"
applies_to = "{applies_to}"
[[retention]]
id = "patient"
match = {{ kind = ["session"], labels = {{ data = "health" }} }}
anchor = "created"
keep_min = {{ for = "100d", basis = "legal_obligation", ref = "of the law" }}
expire_after = "200d"
applies_to = "{applies_to}"
"""


def paper(version=1, closed="30d", applies_to="new"):
    return PAPER.format(version=version, closed=closed, applies_to=applies_to)


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def pia(vault, alice):
    alice.sessions.create(title="first")  # the tenant is known
    officer = vault.access(PIA)
    assert officer.policies.activate(paper()).state == "active"
    return officer


@pytest.fixture
def session(alice, pia):
    made = alice.sessions.create(labels={"case": "open", "team": "red"}, external_id="thread-1")
    made.append("message.user", {"content": "hello"})
    return made


@pytest.fixture
def contract(alice, pia):
    made = alice.sessions.create(labels=CONTRACT, external_id="thread-1")
    made.append("message.user", {"content": "hello"})
    return made


@pytest.fixture
def later(clock, pia):
    """Lets time pass; somebody looked at the clock."""

    def pass_by(us):
        clock.now += us
        pia.retention.trust_clock()

    return pass_by


def found(access, **labels):
    return [item.id for item in access.sessions.find(labels=labels).items]


def row_of(vault, session):
    tenant = vault._keys.tenant("acme", create=False)
    with vault._records.snapshot() as reader:
        place = {"session_id": session_bytes(session.id), "tenant_id": tenant.tenant_id}
        return SessionRow._make(next(reader.scan("session_to_erase", **place)))


def terms_of(vault, session):
    return retention.decode(row_of(vault, session).retention)


def expires(pia, session):
    at = pia.retention.explain(session.id).expires_at
    return None if at is None else to_us(at)


def facts(session):
    return [event.payload for event in session.events(types=["session.relabelled"])]


def exported(session):
    out = io.BytesIO()
    export_session(session, out)
    return out.getvalue()


# ------------------------------------------------------------------------------------------- other labels


def test_a_session_is_found_by_its_new_labels_and_not_by_those_it_lost(vault, alice, session):
    """S2"""
    labels = session.relabel({"case": "closed", "year": "2027"}, remove=["team", "never-there"])
    assert labels == {"case": "closed", "year": "2027"}
    assert dict(session.info().labels) == labels
    assert found(alice, case="closed", year="2027") == [session.id]
    assert found(alice, case="open") == found(alice, team="red") == []
    assert facts(session) == [
        {"labels": {"case": "closed", "year": "2027"}, "removed": ["never-there", "team"]}
    ]
    assert vault.verify().findings == ()


def test_what_changes_nothing_is_not_written(alice, session):
    """L1"""
    head = session.info().event_count
    assert session.relabel({"case": "open"}, remove=["nothing"]) == {"case": "open", "team": "red"}
    assert session.info().event_count == head


def test_all_labels_can_go(vault, alice, session):
    assert session.relabel({}, remove=["case", "team"]) == {}
    assert dict(session.info().labels) == {}
    assert session.relabel({"case": "open"}) == {"case": "open"}
    assert vault.verify().findings == ()


def test_an_ended_session_can_be_labelled_and_its_log_goes_on_with_that_fact_only(alice, session):
    session.end()
    assert session.relabel(CLOSED)["case"] == "closed"
    assert [event.type for event in session.events()] == ["message.user", "session.relabelled"]


def test_while_a_run_is_at_work_a_session_can_be_labelled(alice, session):
    with session.run() as run:
        session.relabel(CLOSED)
        run.append("message.user", 1)
    assert dict(session.info().labels) == {"case": "closed", "team": "red"}


@pytest.mark.parametrize(
    ("labels", "remove", "why"),
    [
        pytest.param({"": "x"}, [], "a label's name", id="no-name"),
        pytest.param({"x": 1}, [], "a label's value", id="number"),
        pytest.param({"x": "y" * 257}, [], "a label's value", id="long"),
        pytest.param({"x": "y"}, ["x"], "not both", id="both"),
        pytest.param({}, "case", "a list of names", id="text"),
        pytest.param({}, None, "a list of names", id="nothing"),
        pytest.param(["case"], [], "by name and value", id="names-without-values"),
        pytest.param({}, [str(n) for n in range(LABELS_MAX + 1)], "at most 32", id="many-to-remove"),
        pytest.param({}, [1], "a label's name", id="name-that-is-a-number"),
        pytest.param({str(n): "x" for n in range(LABELS_MAX)}, [], "at most 32", id="many"),
    ],
)
def test_labels_that_cannot_be_stored_are_refused_and_nothing_changes(alice, session, labels, remove, why):
    """S1"""
    with pytest.raises(InvalidInput, match=why):
        session.relabel(labels, remove=remove)
    assert dict(session.info().labels) == {"case": "open", "team": "red"}
    assert facts(session) == []


def test_only_the_owner_labels_a_session(vault, alice, session):
    """A1, A2: not whom it is shared with, even in full, and no officer"""
    alice.grants.give(session.id, "bob", level="L3", may=["append"])
    shared = vault.access(BOB).sessions.resume(session.id)
    shared.append("message.user", 1)
    for access in (vault.access(BOB), vault.access(PIA)):
        with pytest.raises(NotFound):
            access.sessions.resume(session.id).relabel(CLOSED)
    assert facts(session) == []


def test_the_fact_of_other_labels_is_written_by_nobody_else(alice, session):
    """D3: what it says would not be so"""
    with pytest.raises(InvalidInput, match="relabel"):
        session.append("session.relabelled", {"labels": {"case": "closed"}, "removed": []})
    with pytest.raises(InvalidInput, match="relabel"):
        session.post("session.relabelled", {"labels": {}, "removed": []})


# ------------------------------------------------------------------------------------- counted from labels


def test_a_closed_case_expires_some_time_after_it_was_closed(vault, alice, pia, session, clock, later):
    """D1, D3: hidden to the microsecond, swept after its grace, with a receipt"""
    later(10 * DAY)
    assert expires(pia, session) == row_of(vault, session).created_us + 365 * DAY
    session.relabel(CLOSED)
    (fact,) = session.events(types=["session.relabelled"])
    assert expires(pia, session) == fact.recorded_us + 30 * DAY
    assert 'the rule "closed"' in pia.retention.explain(session.id).text
    clock.now = fact.recorded_us + 30 * DAY - 1
    assert found(alice, case="closed") == [session.id]
    clock.now += 1
    assert found(alice, case="closed") == []
    with pytest.raises(NotFound):
        alice.sessions.resume(session.id)
    later(DAY - 1)
    assert pia.retention.run().going == 0
    later(1)
    swept = pia.retention.run()
    assert (swept.going, swept.operations) == (1, 1)
    (outcome, *_) = vault.access(AUDITOR).erasure.receipts()
    assert verified(outcome.receipt, vault._signer.public).reason == "policy"
    assert vault.verify().findings == ()


def test_a_session_that_is_made_with_a_label_was_labelled_then(vault, alice, pia):
    """D1"""
    made = alice.sessions.create(labels=CLOSED)
    assert expires(pia, made) == row_of(vault, made).created_us + 30 * DAY
    memory = alice.memories.put(("n",), "k", 1, sources=[made], labels=CLOSED)
    assert to_us(pia.retention.explain(memory.id).expires_at) == to_us(memory.created_at) + 30 * DAY


def test_other_labels_do_not_move_the_clock_and_closing_again_does(vault, alice, pia, session, later):
    """D1: it is counted from the last change of the labels that the rule names"""
    session.relabel(CLOSED)
    first = expires(pia, session)
    later(5 * DAY)
    session.relabel({"case": "closed", "team": "blue"}, remove=["year"])
    assert expires(pia, session) == first
    session.relabel({"case": "open"})
    assert expires(pia, session) == row_of(vault, session).created_us + 365 * DAY
    later(5 * DAY)
    session.relabel(CLOSED)
    assert expires(pia, session) == first + 10 * DAY


def test_a_label_that_no_rule_asks_for_brings_no_newer_policy_upon_what_is_stored(
    vault, alice, pia, session, later
):
    """D1: that one is for what is stored from then on"""
    before = terms_of(vault, session)
    short = paper(2).replace('"365d"', '"1d"')
    assert pia.policies.activate(short).state == "active"
    later(2 * DAY)
    session.relabel({"team": "blue"})
    assert terms_of(vault, session) == before
    session.relabel(CLOSED)  # what a rule of it asks for does
    assert terms_of(vault, session).policy == pia.policies.active().mark


def test_a_label_that_only_the_former_policy_asked_for_binds_anew_too(vault, alice, pia, session):
    """D1: else a case that was opened again would expire as a closed one"""
    session.relabel(CLOSED)
    plain = paper(2).replace('case = "closed"', 'case = "cold"')
    assert pia.policies.activate(plain).state == "active"
    session.relabel({"case": "open"})
    assert expires(pia, session) == row_of(vault, session).created_us + 365 * DAY


def test_no_minimum_ends_earlier_because_labels_change(vault, alice, pia, later):
    """D2: what the law keeps is kept also without the label by which it was known"""
    made = alice.sessions.create(labels={"data": "health"})
    made.relabel(CLOSED, remove=["data"])
    later(40 * DAY)
    with pytest.raises(NotFound):
        alice.sessions.resume(made.id)
    text = pia.retention.explain(made.id).text
    assert "It is not erased before" in text
    assert "of the law" in text
    assert pia.retention.run().going == 0
    later(60 * DAY)
    assert pia.retention.run().going == 1


def test_a_minimum_is_added_by_a_label_and_keeps_what_a_person_asks_to_erase(vault, alice, pia, later):
    """D2, D5"""
    made = alice.sessions.create()
    made.relabel({"data": "health"})
    outcome = alice.erasure.erase(session=made.id)
    assert outcome.counts == {("session", "minimum"): 1}
    later(101 * DAY)
    assert pia.retention.run().going == 1


def test_a_later_policy_for_what_is_there_knows_when_labels_came(vault, alice, pia, session, later):
    """D1: bound anew, counted from the same moment; what would go is counted before"""
    session.relabel(CLOSED)
    first = expires(pia, session)
    later(4 * DAY)
    answer = pia.policies.activate(paper(2, closed="3d", applies_to="all"))
    assert answer.waiting.counts == {("session", "erase"): 1}
    later(DAY)
    pia.retention.run()
    with pytest.raises(NotFound):  # hidden by the sweep that binds it, and over its grace
        pia.retention.explain(session.id)
    assert first > vault._clock.now


def test_a_policy_that_names_another_label_counts_from_when_that_one_came(vault, alice, pia, later):
    """D1"""
    made = alice.sessions.create(labels={"team": "red"})
    later(DAY)
    made.relabel(CLOSED)
    later(DAY)
    made.relabel({"team": "blue"})
    blue = to_us(made.info().last_event_at)
    named = paper(2, applies_to="all").replace('{ case = "closed" }', '{ case = "closed", team = "blue" }')
    if pia.policies.activate(named).state == "pending":
        later(DAY)
    pia.retention.run()
    assert expires(pia, made) == blue + 30 * DAY


def test_an_expiry_by_labels_is_undone_within_its_grace(vault, alice, pia, session, later):
    """D3"""
    session.relabel(CLOSED)
    later(30 * DAY + HOUR)
    alice.retention.undo(session.id)
    assert found(alice, case="closed") == [session.id]
    assert expires(pia, session) == vault._clock.now + 30 * DAY
    assert vault.verify().findings == ()


def test_what_binds_events_goes_by_the_labels_of_now_in_every_process(place, vault, alice, pia, clock):
    """D1: also through a handle from before"""
    events = '\n[[retention]]\nid = "e"\nmatch = { kind = ["event"], labels = { case = "closed" } }\n'
    text = paper(2) + events + 'anchor = "created"\nexpire_after = "1d"\non_expire = "redact:L0"\n'
    assert pia.policies.activate(text).state == "active"
    made = alice.sessions.create()
    with Vault.open(place, clock=clock) as other:
        other.access(ALICE).sessions.resume(made.id).relabel(CLOSED)
        made.append("message.user", {"content": "late"})
        clock.now += 2 * DAY
        assert [event.erased for event in made.events(types=["message.user"])] == [True]


# --------------------------------------------------------------------------------- holds and erasures


def test_a_label_under_a_hold_cannot_be_taken_off(vault, alice, pia, session, later):
    """D2: a hold keeps what carried its label when it was placed"""
    hold = pia.holds.place(label=("case", "open"), reason="case")
    for change in ({"labels": CLOSED}, {"labels": {}, "remove": ["case"]}):
        with pytest.raises(Conflict, match="legal hold"):
            session.relabel(**change)
    assert dict(session.info().labels) == {"case": "open", "team": "red"}
    assert facts(session) == []
    assert session.relabel({"year": "2027"}, remove=["team"])["year"] == "2027"
    assert alice.erasure.erase(session=session.id).counts == {("session", "held"): 1}
    pia.holds.lift(hold.id, reason="over")
    assert pia.retention.run().going == 1


def test_a_hold_on_a_new_label_keeps_the_session_and_what_came_from_it(vault, alice, pia, session):
    """D2"""
    memory = alice.memories.put(("n",), "k", 1, sources=[session])
    pia.holds.place(label=("case", "closed"), reason="case")
    session.relabel(CLOSED)
    outcome = alice.erasure.erase(session=session.id)
    assert outcome.counts == {("session", "held"): 1, ("memory", "held"): 1}
    assert pia.retention.explain(memory.id).holds == 1


def test_an_erasure_by_label_takes_what_carries_it_now(vault, alice, pia, session):
    """D5"""
    other = alice.sessions.create(labels=CLOSED)
    other.relabel({"case": "open"})
    session.relabel(CLOSED)
    assert pia.erasure.erase(label=("case", "closed")).counts == {("session", "erased"): 1}
    with pytest.raises(NotFound):
        alice.sessions.resume(session.id)
    assert alice.sessions.resume(other.id).id == other.id


def test_an_erasure_that_was_planned_by_a_label_is_refused_when_it_is_taken_off(vault, alice, pia, session):
    """D5"""
    session.relabel(CLOSED)
    plan = pia.erasure.plan(label=("case", "closed"))
    session.relabel({"case": "open"})
    with pytest.raises(Conflict):
        pia.erasure.execute(plan)
    assert alice.sessions.resume(session.id).id == session.id


def test_what_is_erased_is_not_labelled(alice, session):
    """D5"""
    alice.erasure.erase(session=session.id)
    with pytest.raises(NotFound):
        session.relabel(CLOSED)


# ------------------------------------------------------------------------------------ a date from outside


def test_a_contract_expires_some_time_after_its_end_whenever_that_is_set(vault, alice, pia, contract, later):
    """D1, D3"""
    assert expires(pia, contract) is None
    later(300 * DAY)
    assert [event.payload for event in contract.events()] == [{"content": "hello"}]
    end = from_us(vault._clock.now + 10 * DAY)
    told = pia.retention.date(contract.id, end)
    assert told.expires_at == end + timedelta(days=30)
    assert "after a date that is set from outside" in told.text
    later(40 * DAY)
    with pytest.raises(NotFound):
        alice.sessions.resume(contract.id)
    later(DAY)
    swept = pia.retention.run()
    assert (swept.going, swept.operations) == (1, 1)
    assert vault.verify().findings == ()


def test_a_date_in_the_past_hides_at_once_and_goes_by_the_sweep(vault, alice, pia, contract):
    """D1, D3"""
    told = pia.retention.date(contract.id, datetime(2001, 1, 1, tzinfo=UTC))
    assert (told.visible, told.state) == (False, "DUE")
    for call in (lambda: alice.sessions.resume(contract.id), lambda: list(contract.events())):
        with pytest.raises(NotFound):
            call()
    assert pia.retention.preview().going == 1
    assert pia.retention.run().going == 1


def test_more_than_a_share_that_a_date_makes_due_waits_for_a_person(vault, alice, pia):
    """D3: the cap is as for anything else"""
    made = [alice.sessions.create(labels=CONTRACT) for _ in range(30)]
    for one in made:
        pia.retention.date(one.id, datetime(2001, 1, 1, tzinfo=UTC))
    swept = pia.retention.run()
    assert (swept.over_cap, swept.operations) == (True, 0)
    assert pia.retention.run(token=swept.token).going == 30


def test_another_date_can_be_set_and_one_can_be_taken_back(vault, alice, pia, contract, later):
    """D1, O1: each of it is in the audit trail"""
    first, second = (from_us(vault._clock.now + days * DAY) for days in (1, 50))
    for at in (first, second, None, second):
        told = pia.retention.date(contract.id, at)
        assert told.expires_at == (at and at + timedelta(days=30))
    entries = vault.access(AUDITOR).audit.entries(types=["retention.dated"], limit=10)
    assert [entry.said["at_us"] for entry in entries] == [to_us(second), None, to_us(second), to_us(first)]
    assert {entry.session_id for entry in vault.access(AUDITOR).audit.entries(types=["retention.dated"])} == {
        contract.id
    }
    later(60 * DAY)
    assert alice.sessions.resume(contract.id).id == contract.id


def test_a_date_can_be_set_before_a_rule_asks_for_it(vault, alice, pia, session, later):
    """D1: the answer says what binds the session now, and other labels bring the date to count"""
    end = from_us(vault._clock.now + DAY)
    assert 'the rule "all"' in pia.retention.date(session.id, end).text
    session.relabel(CONTRACT)
    assert pia.retention.explain(session.id).expires_at == end + timedelta(days=30)


def test_a_date_stays_when_a_policy_binds_everything_anew(vault, alice, pia, contract, later):
    """D1"""
    end = from_us(vault._clock.now + 100 * DAY)
    pia.retention.date(contract.id, end)
    longer = paper(2, applies_to="all").replace('anchor = "external"\nexpire_after = "30d"', ANOTHER)
    if pia.policies.activate(longer).state == "pending":
        later(DAY)
    pia.retention.run()
    assert terms_of(vault, contract).policy == pia.policies.active().mark
    assert pia.retention.explain(contract.id).expires_at == end + timedelta(days=60)


ANOTHER = 'anchor = "external"\nexpire_after = "60d"'


def test_no_date_brings_back_what_is_due(vault, alice, pia, contract, later):
    """D3: within the grace it does, as taking an expiry back"""
    far = from_us(vault._clock.now + 900 * DAY)
    pia.retention.date(contract.id, from_us(vault._clock.now - 30 * DAY))
    pia.retention.date(contract.id, far)
    assert alice.sessions.resume(contract.id).id == contract.id
    pia.retention.date(contract.id, from_us(vault._clock.now - 31 * DAY))
    with pytest.raises(NotFound):
        pia.retention.date(contract.id, far)
    assert pia.retention.run().going == 1


def test_a_minimum_from_a_date_that_nobody_set_keeps_what_a_person_asks_to_erase(vault, alice, pia, later):
    """D2, D5: once it is set, that counts"""
    kept = paper(2).replace(
        'anchor = "external"\nexpire_after = "30d"',
        'anchor = "external"\nkeep_min = "7d"\nexpire_after = "30d"',
    )
    assert pia.policies.activate(kept).state == "active"
    made = alice.sessions.create(labels=CONTRACT)
    assert alice.erasure.erase(session=made.id).counts == {("session", "minimum"): 1}
    later(300 * DAY)
    assert pia.retention.run().going == 0
    pia.retention.date(made.id, from_us(vault._clock.now))
    later(7 * DAY)
    assert pia.retention.run().going == 1


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(datetime(2027, 1, 31), id="without-a-zone"),  # noqa: DTZ001 - that is the case
        pytest.param(datetime(1969, 1, 1, tzinfo=UTC), id="before-1970"),
        pytest.param(datetime(2200, 1, 1, tzinfo=UTC), id="over-a-hundred-years"),
        pytest.param("2027-01-31", id="text"),
        pytest.param(0, id="number"),
    ],
)
def test_what_is_no_date_is_refused(vault, pia, contract, at):
    """D1"""
    with pytest.raises(InvalidInput):
        pia.retention.date(contract.id, at)
    assert list(vault.access(AUDITOR).audit.entries(types=["retention.dated"], limit=1)) == []


def test_only_an_officer_of_the_tenant_sets_a_date(vault, alice, pia, contract):
    """A1, A2: not the owner, and nobody for what is not there, or not a session of somebody's"""
    end = from_us(vault._clock.now)
    for access in (alice, vault.access(STRANGER), vault.access(AUDITOR)):
        with pytest.raises(NotFound):
            access.retention.date(contract.id, end)
    alice.erasure.erase(session=contract.id)
    for id_ in (contract.id, "ses_" + "0" * 8 + "-0000-7000-8000-" + "0" * 12, "no id"):
        with pytest.raises((NotFound, InvalidInput)):
            pia.retention.date(id_, end)
    assert list(vault.access(AUDITOR).audit.entries(types=["retention.dated"], limit=1)) == []


def test_the_audit_trail_itself_has_no_date(vault, pia):
    """O1: it is nobody's session"""
    tenant = vault._keys.tenant("acme", create=False)
    trail = vault._trail._trail(tenant, create=False)
    with pytest.raises(NotFound):
        pia.retention.date(trail.id, datetime(2001, 1, 1, tzinfo=UTC))
    assert row_of(vault, trail).retention == b""


# ------------------------------------------------------------------------------- both, for every reader

READERS = {
    "events": lambda access, session, run: list(session.events()),
    "info": lambda access, session, run: session.info(),
    "recover": lambda access, session, run: session.recover(),
    "export": lambda access, session, run: exported(session),
    "follow": lambda access, session, run: next(iter(session.follow())),
    "latest": lambda access, session, run: access.sessions.latest(labels={"due": "soon"}),
    "resume": lambda access, session, run: access.sessions.resume(session.id),
    "resume_external": lambda access, session, run: access.sessions.resume_external("thread-1"),
    "fork": lambda access, session, run: access.sessions.fork(session.id),
    "wake": lambda access, session, run: access.sessions.wake(session.id),
    "append": lambda access, session, run: session.append("message.user", 1),
    "run.append": lambda access, session, run: run.append("message.user", 1),
    "relabel": lambda access, session, run: session.relabel({"case": "open"}),
    "derive": lambda access, session, run: access.memories.put(("n",), "k", 1, sources=[session]),
    "find": lambda access, session, run: access.sessions.find(labels={"due": "soon"}).items[0],
}


@pytest.mark.parametrize("by", ["labels", "date"])
@pytest.mark.parametrize("name", READERS)
def test_what_either_clock_ends_is_hidden_at_once_from_every_reader_and_writer(
    vault, alice, pia, clock, name, by
):
    """D1, D3: also through what was opened before, and where another process set the clock"""
    made = alice.sessions.create(external_id="thread-1", labels={"due": "soon"})
    made.append("message.user", {"content": "hello"})
    run = made.run(checkpoints=BY_HAND, lease_seconds=3_600)
    with Vault.open(vault._directory, clock=clock) as other:
        theirs = other.access(ALICE).sessions.resume(made.id)
        theirs.relabel(CLOSED if by == "labels" else CONTRACT)
        if by == "date":
            other.access(PIA).retention.date(made.id, from_us(clock.now))
    started = clock.now
    clock.now = started + 30 * DAY - 1
    assert alice.sessions.resume(made.id).id == made.id
    clock.now = started + 30 * DAY
    with pytest.raises((NotFound, Fenced, IndexError)):
        READERS[name](alice, made, run)


def test_the_sweep_finds_both_by_their_hour(vault, alice, pia, session, later):
    """D3: the index is never late"""
    contract = alice.sessions.create(labels=CONTRACT)
    session.relabel(CLOSED)
    pia.retention.date(contract.id, from_us(vault._clock.now))
    due = [row_of(vault, one).due_hour for one in (session, contract)]
    assert due == [(vault._clock.now + 31 * DAY) // HOUR] * 2
    pia.retention.date(contract.id, None)
    assert row_of(vault, contract).due_hour == 0
    session.relabel({"case": "open"})
    assert row_of(vault, session).due_hour == (row_of(vault, session).created_us + 365 * DAY) // HOUR
    assert vault.verify().findings == ()


def test_a_session_that_is_restored_from_a_backup_keeps_its_clocks(
    vault, alice, pia, session, clock, tmp_path
):
    """K3, D1"""
    contract = alice.sessions.create(labels=CONTRACT)
    session.relabel(CLOSED)
    pia.retention.date(contract.id, from_us(clock.now + DAY))
    ends = [expires(pia, one) for one in (session, contract)]
    copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    session.relabel({"case": "open"})
    pia.retention.date(contract.id, None)
    vault.close()
    root = vault._directory / "root.key"
    copies.restore(tmp_path / "data", tmp_path / "restored", keys=tmp_path / "keys", root_key=root)
    with Vault.open(tmp_path / "restored", clock=clock) as again:
        assert [expires(again.access(PIA), one) for one in (session, contract)] == ends
        assert found(again.access(ALICE), case="closed") == [session.id]
        assert again.verify().findings == ()


def test_a_minimum_that_counts_from_an_end_that_has_not_come_is_told_without_a_date(place, vault, alice, pia):
    """D2, D5: by a receipt, and nothing is left that keeps the vault from opening"""
    ended = paper(2).replace('anchor = "external"', 'anchor = "ended"\nkeep_min = "7d"')
    assert pia.policies.activate(ended).state == "active"
    made = alice.sessions.create(labels=CONTRACT)
    outcome = alice.erasure.erase(session=made.id)
    assert outcome.counts == {("session", "minimum"): 1}
    (kept,) = verified(outcome.receipt, vault._signer.public).exceptions
    assert (kept.basis, kept.until_us) == ("minimum", None)
    with Vault.open(place, clock=vault._clock) as again:
        assert again.access(PIA).retention.health().unfinished == 0
