"""Forks of what somebody else shared: the fork is the grantee's, what it shares its owner's. O2, S1, R1."""

from datetime import UTC, datetime, timedelta

import pytest

from vault import Principal, Trigger, Vault
from vault.clock import from_us
from vault.errors import Conflict, InvalidInput, NotFound
from vault.model import format_id, uuid7

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"agent", "owner"}))
CAROL = Principal(tenant="acme", subject="carol", roles=frozenset({"agent", "owner"}))
SAM = Principal(tenant="acme", subject="sam", roles=frozenset({"support"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
BY_HAND = Trigger(after_tool=False, every_events=None, every_seconds=None)
SECRET = "sk_live_51HqLyjWDarjtT1zdp7dcQ9yXkW"
DAY_US = 24 * 3_600_000_000
GONE = "what this fork shares of another session cannot be read any more"


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def bob(vault):
    return vault.access(BOB)


@pytest.fixture
def session(alice):
    made = alice.sessions.create(title="August sales", config="analyst@1", labels={"team": "red"})
    for number in range(3):
        made.append("message.user", {"content": f"number {number}"})
    return made


@pytest.fixture
def fork(alice, bob, session):
    """Bob's fork of Alice's session, with two events of its own."""
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    made = bob.sessions.fork(session.id)
    for number in range(2):
        made.append("message.user", {"content": f"own {number}"})
    return made


def said(events):
    return [event.payload["content"] for event in events]


def looks(vault, who):
    """What the trail says that somebody did with whose session, the oldest first."""
    entries = vault.access(OFFICER).audit.entries(who=who, types=["access.used"], limit=1000)
    return [(entry.session_id, entry.said["action"], entry.said["level"]) for entry in entries][::-1]


# ------------------------------------------------------------------------------------------ making one


def test_a_fork_of_what_was_shared_belongs_to_whoever_made_it(vault, alice, bob, session):
    """O2, S1: the original is untouched, and its owner does not own the fork"""
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    before = session.info()
    fork = bob.sessions.fork(session.id, at=list(session.events())[1].id)
    own = fork.append("message.user", {"content": "mine"})
    assert said(fork.events()) == ["number 0", "number 1", "mine"]
    assert own.seq == 3
    assert session.info() == before
    info = fork.info()
    assert (info.title, info.config, info.labels, info.parent) == (
        "August sales",
        "analyst@1",
        {},
        session.id,
    )
    assert [item.id for item in bob.sessions.find().items] == [fork.id]
    assert [item.id for item in alice.sessions.find().items] == [session.id]
    with pytest.raises(NotFound, match="there is no such session"):
        alice.sessions.resume(fork.id)
    fork.end()
    assert session.info().state == "active"


@pytest.mark.parametrize(
    ("level", "may"),
    [("L0", []), ("L1", ["append"]), ("L2", []), ("L3", []), ("L3", ["append"])],
)
def test_without_leave_to_fork_there_is_no_such_session(vault, alice, bob, session, level, may):
    """O2: a denial is an absence"""
    alice.grants.give(session.id, "bob", level=level, may=may)
    before = len(looks(vault, "bob"))
    for asked in (session.id, format_id("ses", uuid7())):
        with pytest.raises(NotFound, match=r"^there is no such session$"):
            bob.sessions.fork(asked)
    assert len(looks(vault, "bob")) == before


@pytest.mark.parametrize("level", ["L0", "L1", "L2"])
def test_forks_are_shared_in_full_or_not_at_all(alice, session, level):
    """O2: a fork goes on from all that is there"""
    with pytest.raises(InvalidInput, match="share it at L3 to allow forks"):
        alice.grants.give(session.id, "bob", level=level, may=["append", "fork"])
    assert alice.grants.of(session.id) == []


def test_leave_to_fork_is_no_leave_to_append_or_share(alice, bob, session):
    """O2"""
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    theirs = bob.sessions.resume(session.id)
    calls = (
        lambda: theirs.append("a.b"),
        theirs.run,
        theirs.end,
        lambda: bob.grants.give(session.id, "carol"),
        lambda: bob.sessions.restart(session.id, "a summary"),
    )
    for call in calls:
        with pytest.raises(NotFound, match="there is no such session"):
            call()


def test_a_team_may_be_given_leave_to_fork(vault, alice, session):
    """O2"""
    alice.grants.give(session.id, "team:sales", level="L3", may=["fork"])
    member = Principal(tenant="acme", subject="tim", teams=frozenset({"sales"}))
    fork = vault.access(member).sessions.fork(session.id)
    assert said(fork.events()) == ["number 0", "number 1", "number 2"]
    assert looks(vault, "tim") == [(session.id, "fork", "L3"), (session.id, "read", "L3")]


# ------------------------------------------------------------------------------- reading what it shares


def test_every_way_of_reading_a_fork_reads_what_it_shares(vault, bob, fork, session):
    """O2, L3, L9"""
    log = list(fork.events())
    assert said(log) == ["number 0", "number 1", "number 2", "own 0", "own 1"]
    assert said(fork.events(newest_first=True, limit=4))[::-1] == said(log)[1:]
    assert said(fork.events(types=["message.user"])) == said(log)
    assert said(fork.events(after=log[0].id, before=log[4].id)) == said(log)[1:4]
    assert said(fork.slice(log[1].id, log[3].id)) == said(log)[1:4]
    assert said(fork.events(since=log[0].recorded_at)) == said(log)
    assert said(fork.follow(idle_seconds=0)) == said(log)
    assert said(fork.context(max_events=4).events) == said(log)[1:]
    assert [step.event.seq for step in fork.replay()] == [1, 2, 3, 4, 5]
    assert fork.recover().state["messages"]["count"] == 5
    info = fork.info()
    assert (info.first_message, info.last_message) == ("number 0", "own 1")
    assert info.shared_through == 3
    woken = bob.sessions.wake(fork.id, checkpoints=BY_HAND)
    assert woken.state["messages"]["count"] == 5
    woken.run.stop()


def test_each_look_at_what_a_fork_shares_is_in_the_trail_once(vault, fork, session):
    """O2, K4: before anything of it is returned, under the session that it is of"""
    before = len(looks(vault, "bob"))
    list(fork.events())
    assert looks(vault, "bob")[before:] == [(session.id, "read", "L3")]
    before += 1
    list(fork.events(newest_first=True, limit=2))
    fork.append("a.b")
    with fork.run(checkpoints=BY_HAND) as run:
        run.append("a.b")
        run.inbox()
    assert len(looks(vault, "bob")) == before
    list(fork.replay())
    assert len(looks(vault, "bob")) == before + 1


def test_nothing_of_the_shared_part_is_returned_when_the_trail_cannot_be_written(fork, vault, monkeypatch):
    """O2, K4"""

    def refused(*_, **__):
        raise OSError

    monkeypatch.setattr(type(vault._trail), "write", refused)
    with pytest.raises(OSError):  # noqa: PT011
        next(fork.events())
    assert said(fork.events(newest_first=True, limit=2)) == ["own 1", "own 0"]


def test_a_fork_shows_of_the_shared_part_what_the_share_shows(alice, bob, session):
    """O2, R1: all but secrets; and as they were written, its own events"""
    session.append("message.user", {"content": f"the key is {SECRET}"})
    session.append("message.user", {"content": "kept low"}, level="L0")
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    fork = bob.sessions.fork(session.id)
    fork.append("message.user", {"content": f"mine is {SECRET}"})
    *_, key, low, mine = fork.events()
    assert SECRET not in str(key.payload)
    assert "kept low" not in str(low.payload)
    assert mine.payload == {"content": f"mine is {SECRET}"}
    assert SECRET in str([event.payload for event in session.events()])


def test_a_fork_takes_a_title_over_as_the_share_shows_it(alice, bob):
    """R1"""
    session = alice.sessions.create(title=f"the key is {SECRET}")
    session.append("a.b")
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    assert SECRET not in bob.sessions.fork(session.id).info().title


def test_a_stream_of_the_shared_part_is_not_opened(fork, alice, bob, session):
    """R1: a view has no streams"""
    first, *_, last = fork.events()
    with pytest.raises(InvalidInput, match="a view has no streams"):
        fork.open(first)
    with fork.open(last) as stream:
        assert b"own 1" in stream.read()


def test_events_after_the_fork_point_are_not_in_the_fork(fork, session):
    """S1"""
    session.append("message.user", {"content": "later"})
    assert "later" not in said(fork.events())
    assert fork.info().event_count == 5


def test_a_fork_of_a_fork_reads_by_leave_of_each_owner(vault, alice, bob, fork, session):
    """O2: nobody shares what is shared with them"""
    bob.grants.give(fork.id, "carol", level="L3", may=["fork"])
    carol = vault.access(CAROL).sessions
    with pytest.raises(InvalidInput, match="not shared in full"):
        carol.fork(fork.id)
    theirs = carol.resume(fork.id)
    with pytest.raises(NotFound, match=GONE):
        list(theirs.events())
    assert said(theirs.events(newest_first=True, limit=2)) == ["own 1", "own 0"]
    assert theirs.info().first_message == "own 0"
    alice.grants.give(session.id, "carol", level="L3")
    assert len(list(theirs.events())) == 5
    deeper = carol.fork(fork.id)
    deeper.append("message.user", {"content": "deep"})
    assert said(deeper.events())[-2:] == ["own 1", "deep"]
    assert len(list(deeper.events())) == 6
    alice.grants.give(session.id, "carol", level="L1")
    with pytest.raises(InvalidInput, match="not shared in full"):
        carol.fork(fork.id)


def test_the_owner_reads_her_own_part_in_somebody_elses_fork(vault, alice, bob, session):
    """O2: there, everything as she wrote it; the fork's own events as Bob shares them"""
    session.append("message.user", {"content": f"the key is {SECRET}"})
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    fork = bob.sessions.fork(session.id)
    fork.append("message.user", {"content": "write to anna.lindqvist@example.com"})
    bob.grants.give(fork.id, "alice", level="L1")
    *_, key, own = alice.sessions.resume(fork.id).events()
    assert SECRET in key.payload["content"]
    assert "anna.lindqvist" not in own.payload["content"]


def test_support_sees_a_fork_as_support_sees_each_part(vault, fork, session):
    """O3"""
    theirs = vault.access(SAM).sessions.resume(fork.id)
    assert len(list(theirs.events())) == 5
    assert looks(vault, "sam") == [(fork.id, "read", "L1"), (session.id, "read", "L1")]


def test_a_name_that_only_the_shared_part_records_is_hidden_in_the_forks_own_text(vault, alice, bob):
    """R2: also from whoever may not read that part"""
    session = alice.sessions.create()
    session.append("tool.returned", {"customer": {"name": "Ottoline Quarrenby"}}, tool="crm")
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    fork = bob.sessions.fork(session.id)
    fork.append("message.user", {"content": "tell Quarrenby that it is done"})
    bob.grants.give(fork.id, "carol", level="L1")
    for who in (CAROL, SAM):
        (own,) = vault.access(who).sessions.resume(fork.id).events(newest_first=True, limit=1)
        assert "Quarrenby" not in str(own.payload)


# ---------------------------------------------------------------------------------- when the share ends


def ended(alice, session, clock, how):
    if how == "revoked":
        alice.grants.revoke(session.id, "bob")
    elif how == "over":
        clock.now += 3_600_000_000
    else:
        alice.grants.give(session.id, "bob", level="L1")


@pytest.mark.parametrize("how", ["revoked", "over"])
def test_when_a_share_ends_a_fork_keeps_its_own_events_and_nothing_else(alice, bob, session, clock, how):
    """O2, S1: one sentence for every way of reading what was shared"""
    until = from_us(clock.now + 3_600_000_000)
    alice.grants.give(session.id, "bob", level="L3", may=["fork"], until=until)
    fork = bob.sessions.fork(session.id)
    shared = list(fork.events())
    own = [fork.append("message.user", {"content": f"own {n}"}) for n in range(3)]
    ended(alice, session, clock, how)
    again = bob.sessions.resume(fork.id)
    for held in (fork, again):
        calls = (
            lambda: list(held.events()),  # noqa: B023
            lambda: list(held.events(types=["message.user"])),  # noqa: B023
            lambda: list(held.events(newest_first=True, limit=4)),  # noqa: B023
            lambda: list(held.events(after=shared[0].id)),  # noqa: B023
            lambda: list(held.events(since=shared[0].recorded_at)),  # noqa: B023
            lambda: list(held.slice(shared[0].id, own[0].id)),  # noqa: B023
            lambda: list(held.follow(idle_seconds=0)),  # noqa: B023
            held.recover,
            lambda: list(held.replay()),  # noqa: B023
            held.context,
            lambda: held.open(shared[0]),  # noqa: B023
            lambda: held.effects(kind="mail", key="1"),  # noqa: B023
            lambda: bob.sessions.wake(held.id),  # noqa: B023
        )
        for call in calls:
            with pytest.raises(NotFound, match=GONE):
                call()
        at = held.info().fork["at"]
        assert at == shared[-1].id
        assert said(held.events(after=at)) == ["own 0", "own 1", "own 2"]
        assert said(held.events(newest_first=True, limit=3)) == ["own 2", "own 1", "own 0"]
        assert said(held.slice(own[0].id, own[2].id)) == ["own 0", "own 1", "own 2"]
        assert said(held.follow(after=at, idle_seconds=0)) == ["own 0", "own 1", "own 2"]
        assert said(held.context(max_events=2).events) == ["own 1", "own 2"]
        assert held.info().first_message == "own 0"
    assert [item.id for item in bob.sessions.find().items] == [fork.id]
    fork.append("message.user", {"content": "still"})
    with pytest.raises(InvalidInput, match="not shared in full"):
        bob.sessions.fork(fork.id)


def test_a_share_that_is_given_again_opens_the_shared_part_again(alice, bob, fork, session):
    """O2"""
    alice.grants.revoke(session.id, "bob")
    with pytest.raises(NotFound, match=GONE):
        list(fork.events())
    alice.grants.give(session.id, "bob", level="L3")
    assert len(list(fork.events())) == 5
    with pytest.raises(NotFound, match="there is no such session"):
        bob.sessions.fork(session.id)


def test_a_share_that_shows_less_shows_less_of_the_fork_too(alice, bob, session):
    """O2, R1"""
    session.append("message.user", {"content": "write to anna.lindqvist@example.com"})
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    fork = bob.sessions.fork(session.id)
    assert "anna.lindqvist" in str([event.payload for event in fork.events()])
    alice.grants.give(session.id, "bob", level="L1")
    assert "anna.lindqvist" not in str([event.payload for event in fork.events()])


def test_following_a_fork_goes_on_with_its_own_events_when_the_share_ends(alice, bob, fork, session):
    """O2, L10"""
    followed = fork.follow(idle_seconds=0.2)
    got = [next(followed) for _ in range(5)]
    alice.grants.revoke(session.id, "bob")
    fork.append("message.user", {"content": "own 2"})
    assert said([*got, *followed])[-1] == "own 2"


def test_a_checkpoint_of_its_own_recovers_a_fork_that_lost_what_it_shared(alice, bob, fork, session):
    """O2, C2: what the fork's owner had made of it is the fork's own"""
    with fork.run(checkpoints=BY_HAND) as run:
        run.checkpoint()
    alice.grants.revoke(session.id, "bob")
    state = fork.recover().state
    assert state["messages"]["count"] == 5


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_a_checkpoint_of_a_fork_stands_when_less_is_shared_than_when_it_was_made(alice, bob, session, level):
    """C2: what a view showed then is not what it shows now, which is no divergence"""
    session.append("tool.requested", {"to": "anna.lindqvist@example.com"}, tool="mail")
    with session.run(checkpoints=BY_HAND) as run:
        run.checkpoint()  # of what Alice reads, not of what Bob does
        run.append("message.user", {"content": f"the key is {SECRET}"})
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    fork = bob.sessions.fork(session.id)
    first = fork.recover()
    assert first.checkpoint is None
    with fork.run(checkpoints=BY_HAND) as run:
        run.checkpoint()
        run.append("message.user", {"content": "after"})
        run.checkpoint()
    recovered = fork.recover()
    assert recovered.checkpoint is not None
    alice.grants.give(session.id, "bob", level=level)
    assert fork.recover() == recovered
    woken = bob.sessions.wake(fork.id, checkpoints=BY_HAND)
    woken.run.stop()
    assert woken.state["messages"]["count"] == recovered.state["messages"]["count"]


# ------------------------------------------------------------------------------------------------ effects


def test_an_effect_of_the_shared_session_is_not_done_again_in_the_fork(alice, bob, session):
    """E1, O2: the whole session was shared, so what it did counts, before the fork point and since"""
    done = []
    with session.run(checkpoints=BY_HAND) as run:
        run.effect("mail", "1").once(lambda _: done.append(1) or {"id": 7})
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    fork = bob.sessions.fork(session.id)
    with session.run(checkpoints=BY_HAND) as run:
        run.effect("mail", "2").once(lambda _: done.append(2) or {"id": 8})
    with fork.run(checkpoints=BY_HAND) as run:
        assert run.effect("mail", "1").once(lambda _: done.append("again")) == {"id": 7}
        assert run.effect("mail", "2").once(lambda _: done.append("again")) == {"id": 8}
        run.effect("mail", "3").once(lambda _: done.append(3) or {"id": 9})
        with pytest.raises(Conflict):
            run.effect("mail", "1").intend()
    assert done == [1, 2, 3]
    assert {effect.key for effect in fork.effects()} == {"1", "2", "3"}
    assert {effect.key for effect in session.effects()} == {"1", "2"}


def test_a_fork_learns_nothing_of_the_owners_other_branches(alice, bob, session):
    """O2: neither by a list, nor by name, nor by a wake"""
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    fork = bob.sessions.fork(session.id)
    branch, beside = alice.sessions.fork(session.id), alice.sessions.create()
    for other, key in ((branch, "quuxberg"), (beside, "zorblax")):
        with other.run(checkpoints=BY_HAND) as run:
            run.effect("deal", key, resource="crm/42").once(lambda _: 1)
    with fork.run(checkpoints=BY_HAND) as run:
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        run.append("observation.recorded", 1, resource="crm/42", observed_at=long_ago)
        assert run.require_fresh("crm/42", timedelta(days=10_000)).payload == 1
        assert run.effect("deal", "quuxberg").state() is None
        assert run.effect("deal", "zorblax").state() is None
    assert fork.effects() == []
    woken = bob.sessions.wake(fork.id, checkpoints=BY_HAND)
    woken.run.stop()
    assert woken.gap.foreign == ()
    assert "deal" not in woken.note


def test_an_effect_cannot_be_looked_up_where_the_share_ended(alice, bob, fork, session):
    """E1: nobody knows any more whether it was done, so it is not done"""
    alice.grants.revoke(session.id, "bob")
    done = []
    with fork.run(checkpoints=BY_HAND) as run:
        with pytest.raises(NotFound, match=GONE):
            run.effect("mail", "1").once(done.append)
        with pytest.raises(NotFound, match=GONE):
            run.effect("mail", "1").intend()
        run.append("message.user", {"content": "on"})
        with pytest.raises(NotFound, match=GONE):  # it may have been observed there, and newer
            run.require_fresh("crm/1")
    assert done == []


# ------------------------------------------------------------------------------------------ verification


@pytest.mark.parametrize("shared", [True, False])
def test_verification_checks_a_fork_across_owners(vault, alice, fork, session, shared):
    """K4: whether or not the share still holds"""
    if not shared:
        alice.grants.revoke(session.id, "bob")
    report = vault.verify()
    assert report.ok, report.findings
    assert vault.verify(without_keys=True).ok


def test_a_fork_across_owners_reads_the_same_when_the_vault_is_opened_again(vault, fork, place, clock):
    """L2"""
    before = list(fork.events())
    vault.close()
    with Vault.open(place, clock=clock) as again:
        assert list(again.access(BOB).sessions.resume(fork.id).events()) == before


@pytest.mark.parametrize("mine", [True, False])
def test_what_a_fork_shares_stays_when_it_expires_and_not_in_somebody_elses_fork(
    vault, alice, bob, session, clock, mine
):
    """D3, O2: a session expires a year after its last use, by the policy that comes with the vault"""
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    clock.now += 200 * DAY_US
    who = alice if mine else bob
    fork = who.sessions.fork(session.id)
    fork.append("message.user", {"content": "own"})
    clock.now += 200 * DAY_US
    with pytest.raises(NotFound, match="there is no such session"):
        alice.sessions.resume(session.id)
    held = who.sessions.resume(fork.id)
    if mine:
        assert said(held.events()) == ["number 0", "number 1", "number 2", "own"]
        assert held.recover().state["messages"]["count"] == 4
    else:
        with pytest.raises(NotFound, match=GONE):
            list(held.events())
    assert said(held.events(newest_first=True, limit=1)) == ["own"]
    assert [item.id for item in who.sessions.find().items] == [fork.id]
