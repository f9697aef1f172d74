"""The time of a session is over, and forks of it live on: they take over what they share. D3, D4, S4."""

import io
import os

import pytest

from vault import Principal, Trigger, Vault
from vault.errors import NotFound
from vault.model import session_bytes

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
DAY = 24 * 3_600_000_000
OVER = 373 * DAY  # a year, and the grace
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
def later(clock, officer):
    def pass_by(us):
        clock.now += us
        officer.retention.trust_clock()

    return pass_by


def word(name):
    return f"Kanarien{'V'}ogel-{name}"


@pytest.fixture
def plain(alice):
    """With nothing that could keep it."""
    session = alice.sessions.create(title="July")
    session.append("message.user", {"content": word("shared")})
    session.append("chat.item", {"said": "a" * 300_000})
    session.append("chat.item", {"said": "b"}, epoch=1)
    return session


@pytest.fixture
def original(alice):
    """With payloads of all sizes, runs, a resource that was changed, and something erased."""
    session = alice.sessions.create(title="August")
    session.append("message.user", {"content": word("shared")})
    for size in (10, 5_000, 20_000, 300_000):
        session.append("chat.item", {"said": "a" * size})
    session.append("chat.file", raw=io.BytesIO(os.urandom(1_500_000)))
    with session.run(lease_seconds=30) as run:
        run.append("message.assistant", {"content": "…"})
        run.effect("mail.send", key="k", intent={}, resource="mail/1").once(lambda _: {"id": 1})
    gone = session.append("chat.item", {"said": word("gone")}, epoch=1)
    session.append("chat.item", {"said": "x"}, epoch=1)
    session.retract([gone.id])
    return session


def used(session):
    session.append("message.user", {"content": "of the fork"})


def over(later, *forks):
    """The time of everything is over but that of what was used since."""
    later(OVER // 2)
    for fork in forks:
        used(fork)
    later(OVER // 2 + DAY)


def seen(session):
    return [
        (e.id, e.seq, e.type, e.payload, e.raw, e.run, e.recorded_at, e.erased, e.epoch, e.streamed)
        for e in session.events()
    ]


def rows(vault, session):
    with vault._records.snapshot() as reader:
        return list(reader.scan("whose", id=session_bytes(session.id)))


def shares_with(vault, fork):
    """The session whose log a fork goes on from."""
    ((tenant_id, _, _),) = rows(vault, fork)
    with vault._records.snapshot() as reader:
        place = {"session_id": session_bytes(fork.id), "tenant_id": tenant_id}
        return next(reader.scan("session_facts", **place))[1]


def went(vault, session):
    return rows(vault, session) == [] and vault._store.epochs_of(session_bytes(session.id)) == []


def test_the_original_goes_and_the_fork_reads_as_before(vault, alice, officer, original, later):
    """D3, S4: its own log, what was erased of it, runs, effects and files"""
    tail = original.append("message.user", {"content": word("tail")})
    fork = alice.sessions.fork(original.id, at=list(original.events())[-2].id)
    used(fork)
    before = seen(fork)
    over(later, fork)
    assert officer.retention.run().going == 1
    assert went(vault, original)
    assert seen(fork)[:-1] == before
    assert tail.id not in {event.id for event in fork.events()}
    types = {event.type for event in fork.events()}
    assert sum(len(list(fork.events(types=[name]))) for name in types) == len(before) + 1
    for run in {event.run for event in fork.events() if event.run}:
        assert list(fork.events(run=run))
    with fork.run(lease_seconds=30) as run:
        assert run.effect("mail.send", key="k", intent={}).once(lambda _: 1 / 0) == {"id": 1}
    assert shares_with(vault, fork) is None
    assert vault.verify().findings == ()


def test_what_stands_behind_the_fork_is_in_no_file(vault, place, alice, officer, plain, later):
    """D6: the original's tail goes with its key, and its receipt says so"""
    plain.append("chat.item", {"said": word("tail") * 100})
    fork = alice.sessions.fork(plain.id, at=next(plain.events()).id)
    over(later, fork)
    officer.retention.run()
    assert went(vault, plain)
    assert [event.payload["content"] for event in fork.events()] == [word("shared"), "of the fork"]
    assert len(list((place / "blobs").rglob("*.*"))) <= 1
    assert vault.verify().findings == ()


def test_forks_of_forks_take_over_step_by_step(vault, alice, officer, plain, later):
    """S4: each level's part is the next one's, and forks between them that live on stay"""
    first = alice.sessions.fork(plain.id)
    used(first)
    second = alice.sessions.fork(first.id)
    used(second)
    beside = alice.sessions.fork(plain.id, at=list(plain.events())[2].id)
    used(beside)
    before = {one.id: seen(one) for one in (second, beside)}
    over(later, second, beside)
    officer.retention.run()
    assert went(vault, plain)
    assert went(vault, first)
    assert {one.id: seen(one)[:-1] for one in (second, beside)} == before
    assert vault.verify().findings == ()


def test_a_fork_of_the_fork_goes_on_from_it(vault, place, clock, alice, officer, original, later):
    """S4: whoever shares the fork's own log names a chain value that is no more"""
    fork = alice.sessions.fork(original.id)
    used(fork)
    deeper = alice.sessions.fork(fork.id)
    used(deeper)
    before = seen(deeper)
    over(later, fork, deeper)
    officer.retention.run()
    assert went(vault, original)
    assert seen(deeper)[:-1] == before
    vault.close()
    with Vault.open(place, clock=clock) as again:
        assert again.verify().findings == ()
        assert again.verify(without_keys=True).findings == ()
        assert seen(again.access(ALICE).sessions.resume(deeper.id))[:-1] == before


def test_what_a_fork_must_not_repeat_keeps_the_original(vault, alice, officer, original, later):
    """S4, R4: an effect behind the fork point is told to all branches; better kept than paid twice"""
    fork = alice.sessions.fork(original.id)
    with original.run(lease_seconds=30) as run:
        run.effect("pay", key="7", intent={}).once(lambda _: {"paid": True})
    over(later, fork)
    officer.retention.run()
    assert not went(vault, original)
    with pytest.raises(NotFound):
        alice.sessions.resume(original.id)
    with fork.run(lease_seconds=30) as run:
        assert run.effect("pay", key="7", intent={}).once(lambda _: 1 / 0) == {"paid": True}


@pytest.mark.parametrize("how", ["behind", "epoch", "epoch of the fork", "same id"])
def test_what_one_log_could_not_tell_keeps_the_original(vault, alice, officer, original, later, how):
    """S4: facts of erasures, and ids that two events have"""
    one = original.append("chat.item", {"said": "x"}, epoch=2)
    named = original.append("chat.item", {"n": 1}, event_id="evt_01890000-0000-7000-8000-000000000001")
    fork = alice.sessions.fork(original.id)
    if how == "behind":
        original.retract([one.id])
    elif how == "epoch":
        original.retract_epoch(2)
    elif how == "epoch of the fork":
        fork.append("chat.item", {"said": "y"}, epoch=3)
        fork.retract_epoch(3)
    else:
        fork.append("chat.item", {"n": 2}, event_id=named.id)
    before = seen(fork)
    over(later, fork)
    officer.retention.run()
    assert not went(vault, original)
    assert seen(fork)[:-1] == before
    assert vault.verify().findings == ()


def test_somebody_elses_fork_takes_over_nothing(vault, alice, officer, original, later):
    """O1: what was shared with them was never theirs"""
    alice.grants.give(original.id, "bob", level="L3", may=["fork"])
    fork = vault.access(BOB).sessions.fork(original.id)
    used(fork)
    over(later, fork)
    officer.retention.run()
    assert went(vault, original)
    assert [event.payload["content"] for event in fork.events(limit=1, newest_first=True)] == ["of the fork"]
    assert shares_with(vault, fork) == session_bytes(original.id)


def test_a_hold_on_the_fork_or_the_original_keeps_both(vault, alice, officer, original, later):
    """D2: what a hold keeps is not touched"""
    fork = alice.sessions.fork(original.id)
    hold = officer.holds.place(session=original.id, reason="a claim")
    over(later, fork)
    officer.retention.run()
    assert not went(vault, original)
    assert shares_with(vault, fork) == session_bytes(original.id)
    officer.holds.lift(hold.id, reason="settled")
    officer.retention.run()
    assert went(vault, original)
    assert shares_with(vault, fork) is None


def test_what_was_derived_from_the_shared_part_goes_with_the_original(vault, alice, officer, original, later):
    """D4: it hung under the original's key; what came from the fork's own stays"""
    fork = alice.sessions.fork(original.id)
    alice.memories.put(("m",), "of the original", {"v": 1}, sources=[original])
    over(later, fork)
    alice.memories.put(("m",), "of the fork", {"v": 2}, sources=[fork])
    officer.retention.run()
    assert went(vault, original)
    assert [one.key for one in alice.memories.list(("m",))] == ["of the fork"]
    assert vault.verify().findings == ()


def test_who_had_the_fork_open_goes_on(vault, place, clock, alice, officer, original, later):
    """S1: in another process, with what it saw of the log before"""
    fork = alice.sessions.fork(original.id)
    used(fork)
    with Vault.open(place, clock=clock) as other:
        theirs = other.access(ALICE).sessions.resume(fork.id)
        before = seen(theirs)
        over(later, fork)
        officer.retention.run()
        assert went(vault, original)
        used(theirs)
        assert seen(theirs)[: len(before)] == before
        assert seen(theirs) == seen(fork)
        theirs.retract([next(e.id for e in theirs.events() if e.epoch == 1 and not e.erased)])
        assert seen(theirs) == seen(fork)
        assert other.verify().findings == ()


def test_a_person_takes_the_forks_along_whatever_they_took_over(vault, alice, officer, original, later):
    """D5: erased by subject, nothing of it is left"""
    fork = alice.sessions.fork(original.id)
    over(later, fork)
    officer.retention.run()
    officer.erasure.erase(subject="alice")
    assert went(vault, fork)
