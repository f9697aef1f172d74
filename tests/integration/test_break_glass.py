"""Break-glass: everything of one session, for a reason, for a time, with every read in the trail."""

import pytest

from vault import Principal, Vault
from vault.audit.oversight import GLASS_MINUTES_MAX, ends_at
from vault.clock import from_us
from vault.errors import Conflict, InvalidInput, NotFound
from vault.model import format_id, uuid7

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
SUE = Principal(tenant="acme", subject="sue", roles=frozenset({"support"}))
SAM = Principal(tenant="acme", subject="sam", roles=frozenset({"support"}))
PIA = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
PAUL = Principal(tenant="acme", subject="paul", roles=frozenset({"privacy_officer"}))
MAIL = "write to anna.lindqvist@example.com"
REASON = "the customer cannot log in"
MINUTE_US = 60_000_000


@pytest.fixture(params=[False])
def second_person(request):
    return request.param


@pytest.fixture
def vault(place, clock, second_person):
    settings = {"synchronous": "NORMAL", "break_glass_second_person": second_person}
    with Vault.create(place, settings=settings, clock=clock) as opened:
        yield opened


@pytest.fixture
def session(vault):
    made = vault.access(ALICE).sessions.create()
    made.append("message.user", {"content": MAIL})
    return made


with_a_second_person = pytest.mark.parametrize("second_person", [True], indirect=True)


def seen(vault, who, session):
    (event,) = vault.access(who).sessions.resume(session.id).events(types=["message.user"])
    return event.payload["content"]


@pytest.mark.parametrize("who", [pytest.param(SUE, id="support"), pytest.param(PIA, id="privacy-officer")])
def test_it_opens_everything_of_one_session_for_who_asked(vault, session, who):
    """R5"""
    other = vault.access(ALICE).sessions.create()
    other.append("message.user", {"content": MAIL})
    assert seen(vault, who, session) != MAIL
    entry = vault.access(who).break_glass.request(session.id, REASON)
    assert entry.what == "glass.broken"
    assert entry.said["reason"] == REASON
    assert seen(vault, who, session) == MAIL
    assert seen(vault, who, other) != MAIL
    assert seen(vault, SAM, session) != MAIL


@pytest.mark.parametrize("minutes", [1, 30, 60])
def test_it_closes_by_itself_at_its_time(vault, session, clock, minutes):
    """R5: 1 to 60 minutes"""
    entry = vault.access(SUE).break_glass.request(session.id, REASON, minutes=minutes)
    assert ends_at(entry) == from_us(clock.now + minutes * MINUTE_US)
    held = vault.access(SUE).sessions.resume(session.id)
    clock.now += minutes * MINUTE_US - 1
    assert next(held.events()).payload["content"] == MAIL
    clock.now += 1
    assert next(held.events()).payload["content"] != MAIL
    assert seen(vault, SUE, session) != MAIL


def test_it_can_be_asked_for_again(vault, session, clock):
    """R5: each time with its reason"""
    glass = vault.access(SUE).break_glass
    glass.request(session.id, REASON, minutes=1)
    clock.now += MINUTE_US
    assert seen(vault, SUE, session) != MAIL
    glass.request(session.id, "another reason", minutes=1)
    assert seen(vault, SUE, session) == MAIL


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"minutes": 0}, id="no-time"),
        pytest.param({"minutes": 61}, id="more-than-an-hour"),
        pytest.param({"minutes": -5}, id="less-than-nothing"),
        pytest.param({"minutes": 1.5}, id="a-fraction"),
        pytest.param({"minutes": True}, id="a-truth"),
        pytest.param({"minutes": None}, id="without-end"),
        pytest.param({"minutes": "30"}, id="a-text"),
        pytest.param({"reason": ""}, id="no-reason"),
        pytest.param({"reason": None}, id="nothing-for-a-reason"),
        pytest.param({"reason": "x" * 1_001}, id="a-novel"),
        pytest.param({"reason": "\udfff"}, id="a-lone-surrogate"),
    ],
)
def test_without_a_reason_and_a_time_nothing_opens(vault, session, wrong):
    """R5, A1"""
    assert GLASS_MINUTES_MAX == 60
    with pytest.raises(InvalidInput):
        vault.access(SUE).break_glass.request(session.id, **{"reason": REASON, **wrong})
    assert seen(vault, SUE, session) != MAIL


@pytest.mark.parametrize("role", ["agent", "owner", "auditor", "administrator"])
def test_only_support_and_privacy_officers_may_ask(vault, session, role):
    """R5, O3"""
    glass = vault.access(Principal(tenant="acme", subject="eve", roles=frozenset({role}))).break_glass
    for asked in (session.id, format_id("ses", uuid7())):
        with pytest.raises(NotFound, match="there is no such session"):
            glass.request(asked, REASON)


def test_asking_for_what_is_not_there_says_that(vault, session):
    """R5, O1"""
    elsewhere = Principal(tenant="globex", subject="sue", roles=frozenset({"support"}))
    vault.access(Principal(tenant="globex", subject="alice")).sessions.create()
    for who, asked in ((SUE, format_id("ses", uuid7())), (SUE, "ses_1"), (elsewhere, session.id)):
        with pytest.raises(NotFound, match="there is no such session"):
            vault.access(who).break_glass.request(asked, REASON)


def test_it_allows_to_read_and_nothing_else(vault, session):
    """R5, O3"""
    vault.access(SUE).break_glass.request(session.id, REASON)
    held = vault.access(SUE).sessions.resume(session.id)
    for call in (
        lambda: held.append("a.b"),
        held.run,
        held.end,
        lambda: vault.access(SUE).grants.of(session.id),
    ):
        with pytest.raises(NotFound):
            call()
    assert session.info().event_count == 1


def test_a_role_that_may_not_ask_any_more_reads_nothing_by_it(vault, session):
    """R5: an open glass adds to a role, and does not stand in for one"""
    vault.access(SUE).break_glass.request(session.id, REASON)
    without = Principal(tenant="acme", subject="sue")
    with pytest.raises(NotFound):
        seen(vault, without, session)


@with_a_second_person
def test_with_a_second_person_it_opens_when_that_one_approves(vault, session, clock):
    """R5: the time counts from the opening"""
    asked = vault.access(SUE).break_glass.request(session.id, REASON, minutes=10)
    assert asked.what == "glass.asked"
    assert seen(vault, SUE, session) != MAIL
    clock.now += 20 * MINUTE_US
    opened = vault.access(PIA).break_glass.approve(session.id, "sue")
    assert (opened.what, opened.said["reason"]) == ("glass.broken", REASON)
    assert opened.who != asked.who == opened.said["for"]
    assert seen(vault, SUE, session) == MAIL
    assert seen(vault, PIA, session) != MAIL
    clock.now += 10 * MINUTE_US
    assert seen(vault, SUE, session) != MAIL


@with_a_second_person
def test_ones_own_request_is_not_approved(vault, session):
    """R5: a second person is somebody else"""
    asked = vault.access(PIA).break_glass.request(session.id, REASON)
    for name in ("pia", asked.who):
        with pytest.raises(Conflict, match="somebody else"):
            vault.access(PIA).break_glass.approve(session.id, name)
    assert seen(vault, PIA, session) != MAIL
    vault.access(PAUL).break_glass.approve(session.id, asked.who)
    assert seen(vault, PIA, session) == MAIL


@with_a_second_person
def test_only_who_may_approve_does_and_only_what_was_asked(vault, session):
    """R5, O3"""
    vault.access(SUE).break_glass.request(session.id, REASON)
    for who in (SUE, SAM, ALICE, Principal(tenant="acme", subject="al", roles=frozenset({"auditor"}))):
        with pytest.raises(NotFound):
            vault.access(who).break_glass.approve(session.id, "sue")
    approve = vault.access(PIA).break_glass.approve
    other = vault.access(ALICE).sessions.create()
    for asked, name in ((session.id, "sam"), (other.id, "sue"), (format_id("ses", uuid7()), "sue")):
        with pytest.raises(NotFound):
            approve(asked, name)
    assert seen(vault, SUE, session) != MAIL
    approve(session.id, "sue")
    with pytest.raises(NotFound, match="no open request"):
        approve(session.id, "sue")  # once: for more time it is asked for again


def test_every_read_through_it_is_in_the_trail(vault, session):
    """R5: loudly audited"""
    vault.access(SUE).break_glass.request(session.id, REASON)
    held = vault.access(SUE).sessions.resume(session.id)
    for _ in range(3):
        list(held.events())
    held.info()
    entries = list(vault.access(PIA).audit.entries(who="sue", session_id=session.id))
    reads = [e for e in entries if e.said.get("action") == "read"]
    assert len(reads) == 4
    assert all(e.said["level"] == "L3" and "break-glass" in e.said["why"] for e in reads)
    (broken,) = [e for e in entries if e.what == "glass.broken"]
    assert broken.said["reason"] == REASON
    assert all(e.seq > broken.seq for e in reads)


@pytest.mark.parametrize("who", ["who-asked", "an-officer"])
def test_it_can_be_closed_before_its_time(vault, session, who):
    """R5"""
    vault.access(SUE).break_glass.request(session.id, REASON)
    assert seen(vault, SUE, session) == MAIL
    if who == "who-asked":
        entry = vault.access(SUE).break_glass.end(session.id)
    else:
        entry = vault.access(PIA).break_glass.end(session.id, "sue")
    assert entry.what == "glass.mended"
    assert seen(vault, SUE, session) != MAIL
    with pytest.raises(NotFound, match="no break-glass access"):
        vault.access(SUE).break_glass.end(session.id)


def test_nobody_closes_what_is_anothers_without_leave(vault, session):
    """R5, O3"""
    vault.access(SUE).break_glass.request(session.id, REASON)
    with pytest.raises(NotFound, match="no break-glass access"):
        vault.access(SAM).break_glass.end(session.id)
    for who in (SAM, ALICE):
        with pytest.raises(NotFound, match="there is no such session"):
            vault.access(who).break_glass.end(session.id, "sue")
    assert seen(vault, SUE, session) == MAIL


@with_a_second_person
def test_a_request_can_be_taken_back(vault, session):
    """R5"""
    vault.access(SUE).break_glass.request(session.id, REASON)
    vault.access(SUE).break_glass.end(session.id)
    with pytest.raises(NotFound, match="no open request"):
        vault.access(PIA).break_glass.approve(session.id, "sue")
