"""Sessions take events once, in order, for good: create, append, retry, batch, continue, end."""

import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from vault import NewEvent, Principal, Vault, new_event_id, new_run_id, vocabulary
from vault.errors import Conflict, InvalidInput, LimitExceeded, NotFound, SessionEnded, VaultClosed

ALICE = Principal(tenant="acme", subject="alice")
MOMENT = datetime(2026, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)


def seqs(events):
    return [event.seq for event in events]


def full_event(**changes):
    given = {
        "type": "tool.returned",
        "payload": {"rows": [1, 2.5, None, "é"]},
        "event_id": new_event_id(),
        "run": new_run_id(),
        "tool": "warehouse",
        "caused_by": new_event_id(),
        "observed_at": MOMENT,
        "valid_for": timedelta(minutes=5, microseconds=1),
        "resource": "crm/customer/42",
        "occurred_at": MOMENT - timedelta(days=1),
        "usage": {"model": "m-1", "tokens": {"in": 10, "out": 3}},
        "level": "L1",
    }
    return NewEvent(**(given | changes))


def test_a_session_and_its_events_have_ids_of_version_seven_that_sort(alice):
    """L7"""
    sessions = [alice.create() for _ in range(3)]
    events = [sessions[0].append("a.b", n) for n in range(5)]
    for ids, prefix in (([s.id for s in sessions], "ses_"), ([e.id for e in events], "evt_")):
        assert ids == sorted(set(ids))
        assert all(one.startswith(prefix) for one in ids)
        assert {uuid.UUID(one.removeprefix(prefix)).version for one in ids} == {7}
    assert "August" not in repr(alice.create(title="August"))


def test_an_appended_event_carries_all_that_it_was_given(session, place, vault):
    """L5, L6"""
    given = full_event()
    appended = session.append_many([given])[0]
    for field in ("type", "run", "tool", "caused_by", "observed_at", "occurred_at", "usage", "level"):
        assert getattr(appended, field) == getattr(given, field), field
    assert (appended.resource, appended.valid_for_us) == ("crm/customer/42", 300_000_001)
    assert (appended.id, appended.session_id, appended.seq) == (given.event_id, session.id, 1)
    assert appended.payload == given.payload
    assert appended.raw is None
    assert appended.payload_ref.startswith("blob://sha256/")
    assert appended.recorded_at.tzinfo is UTC
    assert appended.size > 0
    assert list(session.events()) == [appended]
    vault.close()
    with Vault.open(place) as again:
        assert list(again.access(ALICE).sessions.resume(session.id).events()) == [appended]


def test_an_event_needs_only_its_type(session):
    """L6"""
    event = session.append("state.changed")
    assert (event.payload, event.raw, event.level) == (None, None, "L3")
    assert {event.run, event.tool, event.caused_by, event.observed_at, event.occurred_at, event.usage} == {
        None
    }
    assert (event.resource, event.valid_for_us) == (None, None)


def test_an_observation_holds_from_a_microsecond_to_285_years(session):
    """L6, S3"""
    for valid_for in (timedelta(microseconds=1), timedelta(microseconds=2**53 - 1)):
        event = session.append("a.b", observed_at=MOMENT, valid_for=valid_for)
        assert timedelta(microseconds=event.valid_for_us) == valid_for
        assert list(session.events(limit=1, newest_first=True)) == [event]


def test_a_typed_fact_is_appended_like_any_event_and_what_is_given_beside_it_counts(session):
    """L6"""
    fact = vocabulary.ToolReturned(tool="crm", result=[1], resource="crm/1", observed_at=MOMENT)
    event = session.append(fact, valid_for=timedelta(hours=1), level="L1", run=new_run_id())
    assert (event.type, event.payload, event.tool, event.resource) == ("tool.returned", [1], "crm", "crm/1")
    assert (event.observed_at, event.valid_for_us, event.level) == (MOMENT, 3_600_000_000, "L1")
    assert list(session.events()) == [event]
    with pytest.raises(InvalidInput, match="payload already"):
        session.append(fact, {"another": 1})


def test_times_in_other_zones_are_the_same_moments(session):
    """L6"""
    event = session.append("a.b", observed_at=MOMENT.astimezone(tz=None), occurred_at=MOMENT)
    assert event.observed_at == MOMENT
    assert next(iter(session.events())).occurred_at == MOMENT


def test_recorded_times_never_go_back_though_the_clock_does(place, clock):
    """L8"""
    with Vault.create(place, clock=clock) as vault:
        session = vault.access(ALICE).sessions.create()
        first = session.append("a.b")
        clock.now -= 5_000_000
        second = session.append("a.b")
        session.end()
        ended_at = session.info().ended_at
    assert second.recorded_at >= first.recorded_at
    assert ended_at >= second.recorded_at


def test_the_same_event_written_twice_is_stored_once(session, vault):
    """L7, invariant 4"""
    given = full_event()
    first = session.append_many([given])[0]
    session.append("a.b", "between")
    assert session.append_many([given])[0] == first
    assert session.append_many([full_event(**{name: getattr(given, name) for name in FIELDS})])[0] == first
    assert seqs(session.events()) == [1, 2]
    assert vault.verify().findings == ()


FIELDS = ("type", "payload", "event_id", "run", "tool", "caused_by", "observed_at", "occurred_at", "usage")
FIELDS += ("level", "valid_for", "resource")
CHANGES = {
    "type": "tool.failed",
    "payload": {"rows": [1, 2.5, None, "e"]},
    "raw": b'{"rows":[1,2.5,null,"\xc3\xa9"]}',
    "run": new_run_id(),
    "tool": "Warehouse",
    "caused_by": new_event_id(),
    "observed_at": MOMENT + timedelta(microseconds=1),
    "valid_for": timedelta(minutes=5),
    "resource": "crm/customer/43",
    "occurred_at": MOMENT,
    "usage": {"model": "m-1", "tokens": {"in": 10, "out": 4}},
    "level": "L0",
}
DROPPED = [name for name in CHANGES if name not in {"type", "level", "raw"}]


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize(
    "changes",
    [pytest.param({name: value}, id=f"another-{name}") for name, value in CHANGES.items()]
    + [pytest.param({name: None}, id=f"no-{name}") for name in DROPPED],
)
def test_an_id_is_refused_for_other_content(session, changes, large):
    """L7, invariant 4"""
    payload = {"rows": [1, 2.5, None, "é"] * (40_000 if large else 1)}
    given = full_event(payload=payload)
    stored = session.append_many([given])[0]
    fields = {name: getattr(given, name) for name in FIELDS} | changes
    if "raw" in changes:
        fields["payload"] = None
    if fields["observed_at"] is None:
        fields["valid_for"] = None  # it counts from there: alone it would be refused for that
    with pytest.raises(Conflict, match="other content"):
        session.append_many([NewEvent(**fields)])
    assert list(session.events()) == [stored]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 20_000, 70_000, 300_000])
@pytest.mark.parametrize("again", ["bytes", "stream"])
@pytest.mark.parametrize("first", ["bytes", "stream"])
def test_raw_bytes_and_a_stream_of_them_are_the_same_content(session, as_raw, vault, size, first, again):
    """L7"""
    body, event_id = bytes(range(256)) * (size // 256) + bytes(size % 256), new_event_id()
    stored = session.append("file.read", raw=as_raw(first, body), event_id=event_id)
    assert session.append("file.read", raw=as_raw(again, body), event_id=event_id) == stored
    for other in (body + b"x", body[:-1] + b"\x77" if body else b"\x00"):
        with pytest.raises(Conflict):
            session.append("file.read", raw=as_raw(again, other), event_id=event_id)
    assert seqs(session.events()) == [1]
    report = vault.verify()
    assert report.findings == ()
    assert report.counts["events"] == 1


def test_a_retry_is_recognised_by_a_vault_opened_anew(session, place, vault):
    """L2, L7"""
    given = full_event()
    stored = session.append_many([given])[0]
    vault.close()
    with Vault.open(place) as again:
        resumed = again.access(ALICE).sessions.resume(session.id)
        assert resumed.append_many([given])[0] == stored
        with pytest.raises(Conflict):
            resumed.append_many([full_event(event_id=given.event_id)])
        assert seqs(resumed.events()) == [1]


def test_a_retried_batch_returns_what_is_stored_and_adds_what_is_new(session):
    """L7"""
    batch = [full_event(payload=n) for n in range(4)]
    stored = session.append_many(batch[:2])
    again = session.append_many([batch[3], batch[1], batch[2], batch[0]])
    assert [event.payload for event in again] == [3, 1, 2, 0]
    assert seqs(again) == [3, 2, 4, 1]
    assert again[1] == stored[1]
    assert again[3] == stored[0]
    assert [event.payload for event in session.events()] == [0, 1, 3, 2]


def test_one_conflict_in_a_batch_refuses_all_of_it(session):
    """L7, invariant 4"""
    stored = session.append_many([full_event()])
    with pytest.raises(Conflict):
        session.append_many([full_event(), full_event(event_id=stored[0].id, payload="other"), full_event()])
    assert list(session.events()) == stored


def test_one_id_cannot_stand_twice_in_a_batch(session):
    """L7"""
    given = full_event()
    with pytest.raises(InvalidInput, match="twice"):
        session.append_many([given, full_event(), given])
    assert list(session.events()) == []


def test_the_same_id_in_two_sessions_is_two_events(alice):
    """L7"""
    given = full_event()
    for session in (alice.create(), alice.create()):
        assert seqs(session.append_many([given])) == [1]


def test_a_batch_is_in_the_order_given_and_holds_at_most_a_thousand(session):
    """L1, L8, invariant 12"""
    events = session.append_many(NewEvent(type="a.b", payload=n) for n in range(1_000))
    assert [event.payload for event in session.events()] == list(range(1_000))
    assert seqs(events) == list(range(1, 1_001))
    with pytest.raises(LimitExceeded, match="1000"):
        session.append_many([NewEvent(type="a.b")] * 1_001)
    assert session.append_many([]) == []
    assert session.info().event_count == 1_000


def test_a_writer_that_is_behind_the_head_it_expects_is_refused(session):
    """L8"""
    session.append("a.b", expect_head=0)
    given = full_event()
    session.append_many([given, NewEvent(type="a.b")], expect_head=1)
    for head in (0, 2, 4):
        with pytest.raises(Conflict, match="number 3"):
            session.append("a.b", expect_head=head)
    # A retry after a lost answer is not behind: what it says is stored.
    assert session.append_many([given], expect_head=1)[0].seq == 2
    assert seqs(session.events()) == [1, 2, 3]


def test_of_many_writers_with_the_same_head_one_wins(session):
    """L8, invariant 3"""
    won, refused = [], []
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait()
        try:
            won.append(session.append("a.b", number, expect_head=0))
        except Conflict:
            refused.append(number)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(refused) == 7
    assert list(session.events()) == won


def test_an_ended_session_stays_readable_and_takes_no_more(session, alice):
    """S1"""
    given = full_event()
    stored = session.append_many([given])
    session.end()
    session.end()
    assert session.info().state == "ended"
    assert session.info().ended_at >= stored[0].recorded_at
    for late in (session, alice.resume(session.id)):
        with pytest.raises(SessionEnded):
            late.append("a.b")
        with pytest.raises(SessionEnded):
            late.append_many([given, NewEvent(type="a.b")])
        assert late.append_many([given]) == stored
        assert list(late.events()) == stored


def test_the_latest_active_session_is_the_one_to_continue(alice, place, clock):
    """S1"""
    with pytest.raises(NotFound):
        alice.latest()
    first, second = alice.create(labels={"for": "sales"}), alice.create()
    assert alice.latest().id == second.id
    first.append("a.b")
    assert alice.latest().id == first.id
    second.append("a.b")
    assert alice.latest(labels={"for": "sales"}).id == first.id
    second.end()
    assert alice.latest().id == first.id
    first.end()
    with pytest.raises(NotFound):
        alice.latest()


def test_a_session_is_resumed_by_its_id_or_the_callers_own(alice, place, vault):
    """S1"""
    session = alice.create(external_id="thread-7", parent=alice.create().id)
    session.append("a.b", 1)
    with pytest.raises(Conflict, match="external id"):
        alice.create(external_id="thread-7")
    vault.close()
    with Vault.open(place) as again:
        mine = again.access(ALICE).sessions
        for resumed in (mine.resume(session.id), mine.resume_external("thread-7")):
            assert resumed.id == session.id
            resumed.append("a.b", 2)
        assert [event.payload for event in mine.resume(session.id).events()] == [1, 2, 2]
        for missing in ("thread-8", "Thread-7"):
            with pytest.raises(NotFound):
                mine.resume_external(missing)


def test_two_handles_write_one_log(session, alice, vault):
    """L1, L8"""
    other = alice.resume(session.id)
    for number in range(10):
        (session if number % 2 else other).append("a.b", number)
    assert [event.payload for event in session.events()] == list(range(10))
    assert list(other.events()) == list(session.events())
    other.end()
    with pytest.raises(SessionEnded):
        session.append("a.b")


def test_two_open_vaults_write_one_log(session, place, vault):
    """L2, L8"""
    with Vault.open(place) as second:
        other = second.access(ALICE).sessions.resume(session.id)
        for number in range(10):
            # Either is behind what the other wrote, and yet knows the right head.
            (session if number % 3 else other).append("a.b", number, expect_head=number)
        with pytest.raises(Conflict, match="number 10"):
            other.append("a.b", expect_head=8)
        assert [event.payload for event in session.events()] == list(range(10))
        assert list(other.events()) == list(session.events())
    assert vault.verify().findings == ()


def test_a_writer_that_is_behind_appends_after_what_another_wrote(session, place):
    """L2, L8, invariant 3: the head is moved only from where it really is."""
    with Vault.open(place) as second:
        other = second.access(ALICE).sessions.resume(session.id)
        for number in range(10):
            (session if number % 3 else other).append("a.b", number)
        assert [(event.seq, event.payload) for event in other.events()] == [(n + 1, n) for n in range(10)]


def test_a_closed_vault_says_so(session, vault, alice):
    """Bad input"""
    event = session.append("a.b", raw=b"x")
    vault.close()
    vault.close()
    calls = [alice.create, alice.latest, alice.find, session.info, session.end, vault.checkpoint]
    calls += [lambda: session.append("a.b"), lambda: session.append_many([NewEvent(type="a.b")])]
    calls += [
        lambda: list(session.events()),
        lambda: session.open(event),
        lambda: session.slice(event.id, event.id),
    ]
    calls += [lambda: alice.resume(session.id), lambda: list(session.follow()), vault.verify, vault.info]
    calls += [lambda: vault.access(ALICE)]
    for call in calls:
        with pytest.raises(VaultClosed):
            call()
