"""Expiry and the sweep: hidden at once, swept later, undone in between; one sweeper, a believed clock.

D1, D2, D3, S1.
"""

import dataclasses
import io
import sqlite3
import threading
import time
from datetime import timedelta

import pytest

from vault import Principal, Trigger, Vault
from vault.adapters.session_jsonl import export_session
from vault.clock import from_us
from vault.erasure.retention import sweep_all
from vault.erasure.watch import Watch
from vault.errors import Busy, ClockAnomaly, Conflict, Fenced, NotFound, Tampered
from vault.model import format_id
from vault.sealing.receipts import verified
from vault.storage.statements import STATEMENTS

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
AUDITOR = Principal(tenant="acme", subject="otto", roles=frozenset({"auditor"}))
STRANGER = Principal(tenant="zeta", subject="zoe", roles=frozenset({"owner", "privacy_officer"}))
MINUTE, HOUR = 60_000_000, 3_600_000_000
DAY = 24 * HOUR
YEAR, GRACE = 365 * DAY, 7 * DAY  # of the policy that comes with the vault
BY_HAND = Trigger(after_tool=False, every_events=None, every_seconds=None)


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
    made = alice.sessions.create(title="August sales", external_id="thread-1")
    made.append("message.user", {"content": "hello"})
    return made


@pytest.fixture
def later(clock, officer):
    """Lets time pass; somebody looked at the clock."""

    def pass_by(us):
        clock.now += us
        officer.retention.trust_clock()

    return pass_by


def many(access, count):
    return [access.sessions.create(title=str(number)) for number in range(count)]


def there(vault):
    """Sessions but audit trails, whatever their state."""
    with vault._database.snapshot() as connection:
        query = "SELECT session_id FROM sessions WHERE external IS NULL ORDER BY no"
        return [found for (found,) in connection.execute(query)]


def exported(session):
    out = io.BytesIO()
    export_session(session, out)
    return out.getvalue()


# ------------------------------------------------------------------------------------------- expiry


READERS = {
    "events": lambda access, session, run: list(session.events()),
    "info": lambda access, session, run: session.info(),
    "replay": lambda access, session, run: list(session.replay()),
    "recover": lambda access, session, run: session.recover(),
    "context": lambda access, session, run: session.context(max_events=3),
    "effects": lambda access, session, run: session.effects(),
    "export": lambda access, session, run: exported(session),
    "follow": lambda access, session, run: next(iter(session.follow())),
    "latest": lambda access, session, run: access.sessions.latest(),
    "resume": lambda access, session, run: access.sessions.resume(session.id),
    "resume_external": lambda access, session, run: access.sessions.resume_external("thread-1"),
    "fork": lambda access, session, run: access.sessions.fork(session.id),
    "wake": lambda access, session, run: access.sessions.wake(session.id),
    "restart": lambda access, session, run: access.sessions.restart(session.id, "summary"),
    "append": lambda access, session, run: session.append("message.user", 1),
    "post": lambda access, session, run: session.post("message.user", 1),
    "run": lambda access, session, run: session.run(),
    "run.append": lambda access, session, run: run.append("message.user", 1),
    "run.checkpoint": lambda access, session, run: run.checkpoint(),
    "stop": lambda access, session, run: session.stop(),
    "end": lambda access, session, run: session.end(),
    "derive": lambda access, session, run: access.memories.put(("n",), "k", 1, sources=[session]),
    "share": lambda access, session, run: access.grants.give(session.id, "bob", level="L1"),
    "find": lambda access, session, run: access.sessions.find().items[0],
}


@pytest.mark.parametrize("name", READERS)
def test_what_expired_is_hidden_at_once_from_every_reader_and_writer(alice, session, clock, name):
    """D1, D3: whether or not anything has swept, to the microsecond"""
    run = session.run(checkpoints=BY_HAND, lease_seconds=3_600)
    clock.now = run.started.recorded_us + YEAR - 1
    run.append("message.user", 1)  # last used: its year begins anew
    clock.now += YEAR - 1
    assert alice.sessions.resume(session.id).id == session.id
    clock.now += 1
    with pytest.raises((NotFound, Fenced, IndexError)):
        READERS[name](alice, session, run)


def test_reading_does_not_prolong_a_life(alice, session, clock):
    clock.now += YEAR - 1
    for name in ("events", "info", "recover", "export", "find", "resume"):
        READERS[name](alice, session, None)
    clock.now += 1
    with pytest.raises(NotFound):
        alice.sessions.resume(session.id)


def test_whoever_follows_is_told_of_the_expiry_within_a_second(alice, session, clock):
    seen, told = [], []

    def follow():
        try:
            seen.extend(session.follow())
        except NotFound:
            told.append(time.monotonic())

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    while not seen:
        time.sleep(0.005)
    clock.now += YEAR
    began = time.monotonic()
    thread.join(timeout=5)
    assert told
    assert told[0] - began < 1.0


def test_a_memory_and_an_artifact_expire_by_themselves(vault, alice, officer, session, later):
    """D1: earlier when their writer says so, and are swept without their source"""
    memory = alice.memories.put(("n",), "key", 1, sources=[session], ttl=timedelta(days=1))
    artifact = alice.artifacts.put("art", b"x", sources=[session], ttl=timedelta(days=2))
    assert officer.retention.run().going == 0
    later(DAY)
    with pytest.raises(NotFound):
        alice.memories.get(("n",), "key")
    assert alice.artifacts.get("art").id == artifact.id
    later(DAY + GRACE)
    with pytest.raises(NotFound):
        alice.artifacts.get("art")
    assert officer.retention.run().going == 2
    for id_ in (memory.id, artifact.id):
        with pytest.raises(NotFound):
            officer.retention.explain(id_)
    assert len(list(session.events())) == 1
    assert vault.verify().findings == ()


def test_a_fork_keeps_what_it_shares_when_the_original_expires(vault, alice, officer, session, later):
    """S4: it takes over what it shares, and the original goes; then the fork in its turn"""
    later(YEAR // 2)
    fork = alice.sessions.fork(session.id)
    fork.append("message.user", {"content": "of the fork"})
    later(YEAR // 2 + GRACE)
    with pytest.raises(NotFound):
        alice.sessions.resume(session.id)
    assert officer.retention.run().going == 1
    assert [event.payload["content"] for event in fork.events()] == ["hello", "of the fork"]
    later(YEAR // 2)
    assert officer.retention.run().going == 1
    assert there(vault) == []
    assert vault.verify().findings == ()


def test_an_external_id_of_an_expired_session_is_said_to_be_taken(vault, alice, officer, session, later):
    """Until it is swept; then it is free"""
    later(YEAR)
    with pytest.raises(Conflict):
        alice.sessions.create(external_id="thread-1")
    later(GRACE)
    assert officer.retention.run().going == 1
    assert alice.sessions.create(external_id="thread-1").id != session.id


# ------------------------------------------------------------------------------------------- the sweep


def test_what_is_due_is_swept_and_nothing_else(vault, alice, officer, session, later):
    """D3: with a receipt that says that a policy did it"""
    later(YEAR // 2)
    young = alice.sessions.create(title="young")
    later(YEAR // 2 + GRACE - 1)
    assert officer.retention.preview().going == officer.retention.run().going == 0
    assert there(vault) == [_raw(young)]  # the other one has an external id, as trails do
    later(1)
    preview = officer.retention.preview()
    assert (preview.going, preview.operations) == (1, 0)
    swept = officer.retention.run()
    assert (swept.going, swept.operations, swept.unfinished, swept.token) == (1, 1, 0, preview.token)
    assert alice.sessions.resume(young.id).id == young.id
    (outcome,) = vault.access(AUDITOR).erasure.receipts()
    receipt = verified(outcome.receipt, vault._signer.public)
    assert (receipt.reason, receipt.requested_by.role, receipt.selector.kind) == ("policy", "vault", "policy")
    assert receipt.requested_by.pseudonym is None
    assert officer.retention.run().operations == 0
    assert alice.erasure.erase(session=session.id).operation == outcome.operation


def test_an_expiry_is_undone_within_its_grace(vault, alice, officer, session, later):
    """D3: it lives for its whole period again; then it is too late"""
    with pytest.raises(NotFound):
        alice.retention.undo(session.id)  # it did not expire
    later(YEAR + GRACE - 1)
    with pytest.raises(NotFound):
        vault.access(BOB).retention.undo(session.id)
    alice.retention.undo(session.id)
    assert [event.payload for event in session.events()] == [{"content": "hello"}]
    assert officer.retention.run().going == 0
    assert vault.verify().findings == ()
    later(YEAR)
    with pytest.raises(NotFound):
        alice.sessions.resume(session.id)
    officer.retention.undo(session.id)
    later(YEAR + GRACE)
    with pytest.raises(NotFound):
        alice.retention.undo(session.id)
    assert officer.retention.run().going == 1
    with pytest.raises(NotFound):
        alice.retention.undo(session.id)


def test_what_a_person_asked_to_erase_is_not_restored_by_undo(officer, alice, session):
    hold = officer.holds.place(session=session.id, reason="case")
    alice.erasure.erase(session=session.id)
    for access in (alice, officer):
        with pytest.raises(NotFound):
            access.retention.undo(session.id)
    officer.holds.lift(hold.id, reason="over")
    assert officer.retention.run().going == 1


def test_more_than_a_tenth_waits_for_somebody_with_the_token(vault, alice, officer, later):
    """D3: the blast cap; a token of another set, or of another tenant, opens nothing"""
    many(alice, 21)
    later(YEAR + GRACE)
    stranger = vault.access(STRANGER)
    stranger.sessions.create()
    preview = officer.retention.preview()
    assert (preview.going, preview.over_cap) == (21, True)
    assert officer.retention.run().operations == 0
    assert len(there(vault)) == 22
    with pytest.raises(Conflict):
        officer.retention.run(token="0" * 64)
    with pytest.raises(Conflict):
        stranger.retention.run(token=preview.token)
    with pytest.raises(Conflict):
        officer.retention.run(token=stranger.retention.preview().token)
    seen = []
    swept = officer.retention.run(
        token=preview.token, progress=lambda done, total: seen.append((done, total))
    )
    assert (swept.going, swept.operations) == (21, 1)
    assert seen == [(21, 21)]
    assert len(there(vault)) == 1


def test_a_token_of_what_was_due_before_is_refused(vault, alice, officer, later):
    many(alice, 21)
    later(YEAR + GRACE)
    preview = officer.retention.preview()
    alice.erasure.erase(session=_first(vault))
    with pytest.raises(Conflict):
        officer.retention.run(token=preview.token)
    assert len(there(vault)) == 20


def _first(vault):
    return format_id("ses", there(vault)[0])


def test_a_few_go_whatever_share_they_are(vault, alice, officer, later):
    many(alice, 20)
    later(YEAR + GRACE)
    assert officer.retention.run().operations == 1
    assert there(vault) == []


def test_a_sweep_is_for_officers_and_of_their_tenant(vault, alice, officer, session, later):
    """O1, O3"""
    stranger = vault.access(STRANGER)
    theirs = stranger.sessions.create()
    later(YEAR + GRACE)
    for principal in (ALICE, AUDITOR):
        for use in ("preview", "run", "trust_clock", "health"):
            with pytest.raises(NotFound):
                getattr(vault.access(principal).retention, use)()
    assert officer.retention.run().going == 1
    assert len(there(vault)) == 1
    with pytest.raises(NotFound):
        stranger.sessions.resume(theirs.id)
    assert [one.going for one in sweep_all(vault._parts)] == [1]
    assert there(vault) == []


def test_one_session_that_was_tampered_with_holds_up_no_sweep(vault, place, alice, officer, later, clock):
    """D3: it is left alone and found by verification; a person can still have it erased"""
    bad, good = many(alice, 2)
    later(YEAR + GRACE)
    vault.checkpoint()
    with sqlite3.connect(place / "data.db") as connection:
        connection.execute("UPDATE sessions SET retention = ? WHERE session_id = ?", (b"[9]", _raw(bad)))
    connection.close()
    assert officer.retention.run().going == 1
    assert there(vault) == [_raw(bad)]
    assert vault.verify().findings
    assert officer.erasure.erase(session=bad.id).state == "verified"
    assert there(vault) == []
    assert good.id != bad.id


def _raw(session):
    return bytes.fromhex(session.id.partition("_")[2].replace("-", ""))


# ------------------------------------------------------------------------------------------- the clock


@pytest.mark.parametrize("jump", [-6 * MINUTE, -30 * DAY, 37 * HOUR, 400 * DAY], ids=str)
def test_a_clock_that_jumps_erases_nothing(vault, alice, officer, session, later, clock, jump):
    """D3: back by more than 5 minutes, ahead by more than 36 hours; until somebody says that it is right"""
    later(YEAR + GRACE)
    before = clock.now
    many(alice, 1)
    officer.retention.run()
    clock.now = before + jump
    for _ in range(2):
        with pytest.raises(ClockAnomaly):
            officer.retention.run()
        with pytest.raises(ClockAnomaly):
            sweep_all(vault._parts)
    assert len(there(vault)) == 1
    clock.now = before + MINUTE
    assert officer.retention.run().going == 0  # it came back by itself
    clock.now = before + jump
    officer.retention.trust_clock()
    assert officer.retention.run().going == (1 if jump > YEAR else 0)


@pytest.mark.parametrize("jump", [-5 * MINUTE, 36 * HOUR], ids=str)
def test_a_clock_that_is_a_little_off_is_believed(officer, session, clock, jump):
    officer.retention.run()
    clock.now += jump
    officer.retention.run()


def test_a_clock_that_jumps_in_the_middle_stops_the_sweep(vault, alice, officer, later, clock):
    """D3: before the next batch begins"""
    many(alice, 2)
    later(YEAR + GRACE)
    parts = vault._parts
    find = parts.spared

    def spared(tenant):
        clock.now += 100 * DAY
        return find(tenant)

    with pytest.raises(ClockAnomaly):
        sweep_all(dataclasses.replace(parts, spared=spared))
    assert len(there(vault)) == 2
    officer.retention.trust_clock()
    assert officer.retention.run().going == 2


# ------------------------------------------------------------------------------------------- the lease


def stepped(vault, step):
    return dataclasses.replace(vault._parts, execution=dataclasses.replace(vault._parts.execution, step=step))


def test_one_sweeps_at_a_time(vault, place, alice, session, later, clock):
    """D3: the other one is told that somebody does it"""
    later(YEAR + GRACE)
    with Vault.open(place, clock=clock) as other:
        told = []

        def step(name):
            if name == "fence":
                with pytest.raises(Busy) as caught:
                    sweep_all(other._parts)
                told.append(str(caught.value))

        assert [one.operations for one in sweep_all(stepped(vault, step))] == [1]
        assert told == ["another process sweeps at this moment; it does the same work"]
        assert sweep_all(other._parts) == []
    assert len(vault.access(AUDITOR).erasure.receipts()) == 1


def test_who_slept_past_its_lease_begins_nothing_more(
    vault, place, alice, officer, later, clock, monkeypatch
):
    """D3: the fencing token is compared in every transaction that begins an erasure"""
    monkeypatch.setattr("vault.erasure.sweep.ROOTS_MAX", 1)
    many(alice, 3)
    later(YEAR + GRACE)
    with Vault.open(place, clock=clock) as other:
        swept = []

        def step(name):
            if name == "deleted" and not swept:  # the last before it waits to be proved with the others
                clock.now += 2 * MINUTE
                swept.extend(sweep_all(other._parts))

        with pytest.raises(Fenced):
            sweep_all(stepped(vault, step))
        assert swept[0].operations == 2
    receipts = vault.access(AUDITOR).erasure.receipts()
    assert [dict(one.counts) for one in receipts] == [{("session", "erased"): 1}] * 3
    assert there(vault) == []
    assert vault.verify().findings == ()


def test_a_sweeper_that_died_keeps_others_waiting_for_a_minute(vault, place, alice, session, later, clock):
    later(YEAR + GRACE)
    Watch(log=vault._log).taken()
    with pytest.raises(Busy):
        sweep_all(vault._parts)
    clock.now += MINUTE
    assert [one.going for one in sweep_all(vault._parts)] == [1]


def test_a_request_and_a_sweep_at_once_erase_once(vault, session, later):
    """D3: whichever opens its erasure first"""
    later(YEAR + GRACE)
    answers = []

    def step(name):
        if name == "open" and not answers:
            answers.append(None)
            answers.append(vault.access(OFFICER).erasure.erase(session=session.id).state)

    swept = sweep_all(stepped(vault, step))
    assert answers[1] == "verified"
    assert [one.operations for one in swept] == [0]
    assert len(vault.access(AUDITOR).erasure.receipts()) == 1
    assert vault.verify().findings == ()


def test_health_tells_when_the_last_sweep_ended(officer, session, clock):
    assert officer.retention.health().last_sweep is None
    officer.retention.run()
    assert officer.retention.health().last_sweep == from_us(clock.now)
    assert not officer.retention.health().working


# ------------------------------------------------------------------------------------------- its cost


@pytest.mark.parametrize("name", ["due_sessions", "due_items"])
def test_what_is_due_is_found_by_index(vault, name):
    """D3: without a look at what is not due, in the index's own order"""
    table = name.removeprefix("due_")
    with vault._database.snapshot() as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN " + STATEMENTS[name],
            {"hour": 1, "after_hour": 0, "after_no": 0, "limit": 10},
        )
        steps = [row[3] for row in plan]
    assert len(steps) == 1
    assert steps[0].startswith(f"SEARCH {table} USING INDEX {table}_by_due (")


def test_a_sweep_with_nothing_due_costs_the_same_for_ten_and_for_a_thousand(vault, alice, officer):
    """D3"""
    counted = []
    for count in (10, 400):
        many(alice, count)
        with vault._database.snapshot() as connection:
            steps = [0]

            def step(steps=steps):
                steps[0] += 1

            connection.set_progress_handler(step, 1)
            parameters = {"hour": 1, "after_hour": 0, "after_no": 0, "limit": 500}
            connection.execute(STATEMENTS["due_sessions"], parameters).fetchall()
            connection.set_progress_handler(None, 0)
        counted.append(steps[0])
    assert counted[0] == counted[1]


def test_its_row_is_verified(place, officer, session):
    officer.retention.run()
    with sqlite3.connect(place / "data.db") as connection:
        connection.execute("UPDATE sweeper SET high_us = 0")
    connection.close()
    with pytest.raises(Tampered):
        officer.retention.run()


def test_a_version_that_expired_does_not_take_the_newer_one_along(alice, officer, session, later):
    """D1, D4: within a run the newer one is made from the older one, and each lives for its own period"""
    with session.run():
        alice.memories.put(("taste",), "tea", 1)
    later(YEAR - DAY)
    session.append("message.user", {"content": "still here"})
    with session.run():
        alice.memories.get(("taste",), "tea")
        alice.memories.put(("taste",), "tea", 2)
    later(2 * DAY + GRACE)
    assert officer.retention.run().going == 0
    assert alice.memories.get(("taste",), "tea").value == 2
    assert [one.value for one in alice.memories.history(("taste",), "tea")] == [2]


def test_the_external_id_of_a_session_that_expired_is_free_once_it_is_swept(alice, officer, session, later):
    """S1, D3"""
    later(YEAR + DAY)
    with pytest.raises(Conflict, match="expired and is not swept yet"):
        alice.sessions.create(external_id="thread-1")
    later(GRACE)
    assert officer.retention.run().going == 1
    assert alice.sessions.create(external_id="thread-1").id != session.id
