"""Sharing: who, what and until when; a later share replaces an earlier one, and each can be taken back."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from vault import Principal, Trigger, Vault
from vault.clock import from_us
from vault.errors import Busy, InvalidInput, NotFound, VaultError
from vault.model import format_id, uuid7

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob")
CAROL = Principal(tenant="acme", subject="carol", teams=frozenset({"sales", "west"}))
BY_HAND = Trigger(after_tool=False, every_events=None, every_seconds=None)
MAIL = "write to anna.lindqvist@example.com"


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def session(alice):
    made = alice.sessions.create(title="August sales")
    made.append("message.user", {"content": MAIL})
    return made


def seen(vault, who, session):
    """What somebody reads of the one message; None when the session is absent for them."""
    try:
        (event,) = vault.access(who).sessions.resume(session.id).events(types=["message.user"])
    except NotFound:
        return None
    return event.payload["content"]


@pytest.mark.parametrize("level", ["L0", "L1", "L2", "L3"])
def test_a_share_gives_its_level_and_no_more(vault, alice, session, level):
    """O2, R1"""
    assert seen(vault, BOB, session) is None
    entry = alice.grants.give(session.id, to="bob", level=level)
    assert entry.what == "share.given"
    text = seen(vault, BOB, session)
    assert text is not None
    assert (text == MAIL) == (level == "L3")
    assert ("anna.lindqvist" in text) == (level == "L3")
    assert seen(vault, CAROL, session) is None
    assert seen(vault, ALICE, session) == MAIL


def test_a_later_share_replaces_an_earlier_one(vault, alice, session):
    """O2: also by a lower level, and by one that may less"""
    alice.grants.give(session.id, to="bob", level="L3", may=["append"])
    vault.access(BOB).sessions.resume(session.id).append("a.b", 1)
    assert seen(vault, BOB, session) == MAIL
    alice.grants.give(session.id, to="bob", level="L0")
    assert "anna" not in seen(vault, BOB, session)
    with pytest.raises(NotFound):
        vault.access(BOB).sessions.resume(session.id).append("a.b", 2)
    (entry,) = alice.grants.of(session.id)
    assert (entry.said["level"], entry.said["may"]) == ("L0", [])


def test_a_share_is_of_one_session_only(vault, alice, session):
    """O2"""
    other = alice.sessions.create()
    alice.grants.give(session.id, to="bob")
    with pytest.raises(NotFound):
        vault.access(BOB).sessions.resume(other.id)
    assert alice.grants.of(other.id) == []


def test_what_is_revoked_is_gone_for_every_handle(vault, alice, session):
    """O2, invariant 16"""
    alice.grants.give(session.id, to="bob", may=["append"])
    held = vault.access(BOB).sessions.resume(session.id)
    assert len(list(held.events())) == 1
    assert alice.grants.revoke(session.id, "bob").what == "share.revoked"
    for call in (lambda: list(held.events()), held.info, lambda: held.append("a.b"), held.run):
        with pytest.raises(NotFound, match="there is no such session"):
            call()
    assert seen(vault, BOB, session) is None
    assert alice.grants.of(session.id) == []
    alice.grants.give(session.id, to="bob")
    assert len(list(held.events())) == 1


def test_only_what_is_shared_can_be_revoked(alice, session):
    """O2"""
    with pytest.raises(NotFound, match="nothing of this session is shared"):
        alice.grants.revoke(session.id, "bob")
    alice.grants.give(session.id, to="bob")
    alice.grants.revoke(session.id, "bob")
    with pytest.raises(NotFound, match="nothing of this session is shared"):
        alice.grants.revoke(session.id, "bob")


def test_a_share_ends_by_itself_at_its_time(vault, alice, session, clock):
    """O2: until means before that moment"""
    until = from_us(clock.now + 60_000_000)
    alice.grants.give(session.id, to="bob", until=until)
    held = vault.access(BOB).sessions.resume(session.id)
    clock.now += 59_999_999
    assert seen(vault, BOB, session) is not None
    assert len(alice.grants.of(session.id)) == 1
    clock.now += 1
    assert seen(vault, BOB, session) is None
    with pytest.raises(NotFound):
        held.info()
    assert alice.grants.of(session.id) == []
    assert vault.access(BOB).grants.to_me() == []


def test_a_team_shares_what_its_members_get(vault, alice, session):
    """O2"""
    alice.grants.give(session.id, to="team:sales", level="L0")
    assert seen(vault, CAROL, session) is not None
    assert seen(vault, BOB, session) is None
    named_alike = Principal(tenant="acme", subject="team:sales")
    by_subject = Principal(tenant="acme", subject="sales")
    elsewhere = Principal(tenant="globex", subject="carol", teams=frozenset({"sales"}))
    for stranger in (named_alike, by_subject, elsewhere):
        assert seen(vault, stranger, session) is None
    alice.grants.revoke(session.id, "team:sales")
    assert seen(vault, CAROL, session) is None


def test_the_most_that_one_is_given_counts(vault, alice, session):
    """O2: by name and by two teams"""
    for to, level in (("team:sales", "L0"), ("carol", "L3"), ("team:west", "L1")):
        alice.grants.give(session.id, to=to, level=level)
    assert seen(vault, CAROL, session) == MAIL
    alice.grants.revoke(session.id, "carol")
    text = seen(vault, CAROL, session)
    assert text not in {MAIL, None}


def test_who_may_append_writes_into_the_owners_session(vault, alice, session):
    """O2: one log, one order"""
    alice.grants.give(session.id, to="bob", may=["append"])
    theirs = vault.access(BOB).sessions.resume(session.id)
    posted = theirs.post("message.user", {"content": "from bob"})
    assert theirs.append("a.b", 7).seq == posted.seq + 1
    assert [event.payload for event in session.events(after=posted.id)] == [7]
    with pytest.raises(NotFound):
        theirs.end()
    for other in (
        lambda: vault.access(BOB).sessions.fork(session.id),
        lambda: vault.access(BOB).grants.of(session.id),
    ):
        with pytest.raises(NotFound, match="there is no such session"):
            other()
    assert session.info().state == "active"


def test_who_may_append_runs_and_wakes_the_session_under_its_one_lease(vault, alice, session):
    """O2, L4"""
    alice.grants.give(session.id, to="bob", may=["append"])
    theirs = vault.access(BOB).sessions.resume(session.id)
    with theirs.run(checkpoints=BY_HAND) as run:
        assert run.append("a.b", 1).run == run.id
        with pytest.raises(Busy):
            session.run()
    woken = vault.access(BOB).sessions.wake(session.id, checkpoints=BY_HAND)
    assert woken.state["messages"]["count"] == 1
    with pytest.raises(Busy):
        session.append("a.b", 2)
    woken.run.stop()
    assert [event.type for event in session.events(types=["run.started", "run.woken"])] == [
        "run.started",
        "run.woken",
    ]


def test_who_may_only_read_neither_appends_nor_runs(vault, alice, session):
    """O2: a refusal is as an absence"""
    alice.grants.give(session.id, to="bob", level="L3")
    theirs = vault.access(BOB).sessions.resume(session.id)
    calls = (
        lambda: theirs.append("a.b"),
        lambda: theirs.post("a.b"),
        theirs.run,
        theirs.stop,
        theirs.end,
        lambda: vault.access(BOB).sessions.wake(session.id),
    )
    for call in calls:
        with pytest.raises(NotFound, match="there is no such session"):
            call()
    assert session.info().event_count == 1


def test_an_effect_is_done_once_whoever_runs(vault, alice, session):
    """O2, E1: what a view hides is still compared"""
    done = []
    with session.run() as run:
        run.effect("mail", MAIL).once(done.append)
    alice.grants.give(session.id, to="bob", level="L0", may=["append"])
    with vault.access(BOB).sessions.resume(session.id).run(checkpoints=BY_HAND) as run:
        run.effect("mail", MAIL).once(done.append)
    assert len(done) == 1


def test_a_run_ends_when_its_share_is_revoked(vault, alice, session):
    """O2: a lease is not a permission"""
    alice.grants.give(session.id, to="bob", may=["append"])
    run = vault.access(BOB).sessions.resume(session.id).run()
    alice.grants.revoke(session.id, "bob")
    with pytest.raises(NotFound):
        run.append("a.b")
    with pytest.raises(NotFound):
        run.stop()
    session.stop()
    assert session.append("a.b").seq == 4


@pytest.mark.parametrize("how", ["revoked", "over"])
def test_an_open_follow_ends_within_a_second_of_its_share(vault, alice, session, clock, how):
    """O2, L10"""
    alice.grants.give(session.id, to="bob", until=from_us(clock.now + 3_600_000_000))
    following = vault.access(BOB).sessions.resume(session.id).follow()
    got, ended = threading.Event(), []

    def follow():
        try:
            for _ in following:
                got.set()
        except VaultError as error:
            ended.append((type(error), time.monotonic()))

    thread = threading.Thread(target=follow)
    thread.start()
    assert got.wait(30)
    time.sleep(0.1)  # it waits for more by now
    start = time.monotonic()
    if how == "revoked":
        alice.grants.revoke(session.id, "bob")
    else:
        clock.now += 3_600_000_000
    thread.join(30)
    ((kind, at),) = ended
    assert kind is NotFound
    assert at - start < 1


def test_the_owner_lists_what_is_shared_and_each_sees_what_is_shared_with_them(vault, alice, session):
    """O2"""
    other = alice.sessions.create(title="September")
    assert vault.access(BOB).grants.to_me() == []
    alice.grants.give(session.id, to="bob", level="L0")
    alice.grants.give(session.id, to="team:sales", level="L1", may=["append"])
    alice.grants.give(other.id, to="bob", level="L3")
    assert [(e.said["level"], e.said["may"]) for e in alice.grants.of(session.id)] == [
        ("L0", []),
        ("L1", ["append"]),
    ]
    assert len({e.said["to"] for e in alice.grants.of(session.id)}) == 2
    listed = {item.id: item for item in vault.access(BOB).grants.to_me()}
    assert listed.keys() == {session.id, other.id}
    assert listed[other.id].title == "September"
    assert listed[session.id].title != "August sales"
    carol = vault.access(CAROL).grants
    assert carol.to_me() == []
    assert [item.id for item in carol.to_me(["sales"])] == [session.id]
    assert vault.access(BOB).grants.to_me(["sales"])[0].id == session.id
    assert (
        len(vault.access(BOB).grants.to_me(["sales", "north"])) == 2
    )  # a team that one is not of gives nothing


def test_what_is_listed_as_shared_is_recorded_as_a_look(vault, alice, session):
    """O2, R5: a list shows titles and messages"""
    alice.grants.give(session.id, to="bob")
    officer = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
    vault.access(BOB).grants.to_me()
    entries = list(vault.access(officer).audit.entries(who="bob"))
    assert [(e.session_id, e.said["action"], e.said["level"]) for e in entries] == [
        (session.id, "list", "L1")
    ]


def test_nobody_shares_what_is_shared_with_them(vault, alice, session):
    """O2: nor what is another's, nor what is not there"""
    alice.grants.give(session.id, to="bob", level="L3", may=["append"])
    as_owner = Principal(tenant="acme", subject="bob", roles=frozenset({"owner"}))
    for who in (BOB, as_owner):
        grants = vault.access(who).grants
        for asked in (session.id, format_id("ses", uuid7()), "", "ses_1"):
            for call in (
                lambda: grants.give(asked, to="dave"),  # noqa: B023
                lambda: grants.revoke(asked, "bob"),  # noqa: B023
                lambda: grants.of(asked),  # noqa: B023
            ):
                with pytest.raises(NotFound, match="there is no such session"):
                    call()


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"level": "L4"}, id="no-such-level"),
        pytest.param({"level": "l1"}, id="another-spelling"),
        pytest.param({"level": None}, id="no-level"),
        pytest.param({"may": ["end"]}, id="an-action-that-is-not-shared"),
        pytest.param({"may": ["append", "share"]}, id="one-of-two"),
        pytest.param({"may": "append"}, id="a-string-for-a-list"),
        pytest.param({"may": None}, id="nothing-for-a-list"),
        pytest.param({"may": [["append"]]}, id="a-list-in-a-list"),
        pytest.param({"to": ""}, id="nobody"),
        pytest.param({"to": "team:"}, id="a-team-without-a-name"),
        pytest.param({"to": None}, id="no-string"),
        pytest.param({"to": "x" * 257}, id="too-long"),
        pytest.param({"to": "\ud800"}, id="a-lone-surrogate"),
        pytest.param({"until": datetime(2100, 1, 1)}, id="a-time-without-a-zone"),  # noqa: DTZ001
        pytest.param({"until": datetime(2000, 1, 1, tzinfo=UTC)}, id="a-time-that-is-over"),
        pytest.param({"until": 1}, id="no-time"),
    ],
)
def test_a_share_that_says_nothing_clear_is_refused_and_nothing_is_shared(vault, alice, session, wrong):
    """O2, A1"""
    with pytest.raises(InvalidInput):
        alice.grants.give(session.id, **{"to": "bob", **wrong})
    assert alice.grants.of(session.id) == []
    assert seen(vault, BOB, session) is None


def test_a_share_that_would_end_now_is_refused(alice, session, clock):
    """O2"""
    with pytest.raises(InvalidInput, match="ends in the future"):
        alice.grants.give(session.id, to="bob", until=from_us(clock.now))
    alice.grants.give(session.id, to="bob", until=from_us(clock.now) + timedelta(microseconds=1))


def test_shares_hold_in_another_process_and_after_opening_again(alice, session, vault, place, python):
    """O2, L2: what counts is in the log"""
    program = """
import sys
from vault import Principal, Vault
from vault.errors import NotFound
place, session_id = sys.argv[1:]
with Vault.open(place) as vault:
    access = vault.access(Principal(tenant="acme", subject="bob"))
    while sys.stdin.readline() != "end\\n":
        try:
            print(len(list(access.sessions.resume(session_id).events())), flush=True)
        except NotFound:
            print("absent", flush=True)
"""
    other = python(program, place, session.id)

    def asked():
        other.stdin.write("\n")
        other.stdin.flush()
        return other.stdout.readline().strip()

    assert asked() == "absent"
    alice.grants.give(session.id, to="bob")
    assert asked() == "1"
    alice.grants.revoke(session.id, "bob")
    assert asked() == "absent"
    alice.grants.give(session.id, to="bob")
    other.stdin.write("end\n")
    other.stdin.flush()
    assert other.wait(30) == 0
    vault.close()
    with Vault.open(place) as again:
        assert seen(again, BOB, session) is not None


@pytest.mark.parametrize("level", ["L0", "L1", "L2", "L3"])
def test_a_run_of_somebody_else_leaves_no_state_of_its_view_in_the_log(vault, level):
    """O2, C2: the owner would recover what the other may see"""
    alice = vault.access(Principal(tenant="acme", subject="alice", roles=frozenset({"owner"})))
    session = alice.sessions.create()
    with session.run(checkpoints=BY_HAND) as run:
        run.effect("pay", "order 7").intend()
    alice.grants.give(session.id, "zoe", level=level, may=["append"])
    zoe = vault.access(Principal(tenant="acme", subject="zoe"))
    with zoe.sessions.resume(session.id).run() as theirs:  # by the usual trigger
        call = theirs.append("tool.requested", {}, tool="bank")
        theirs.append("tool.returned", {}, tool="bank", caused_by=call.id)
        before = session.info().event_count
        for state in (None, {"a": 1}):
            with pytest.raises(InvalidInput):
                theirs.checkpoint(state)
        assert session.info().event_count == before
    assert session.last_checkpoint() is None
    (effect,) = alice.sessions.wake(session.id).in_doubt
    assert effect.key == "order 7"


@pytest.mark.parametrize("level", ["L1", "L3"])
def test_what_is_shared_tells_nothing_of_the_owners_other_sessions(vault, level):
    """O2: neither a wake nor the list of effects names what was done elsewhere, in a branch or beside"""
    alice = vault.access(Principal(tenant="acme", subject="alice", roles=frozenset({"owner"})))
    session, beside = alice.sessions.create(), alice.sessions.create()
    with session.run(checkpoints=BY_HAND) as run:
        about = {"resource": "crm/42", "observed_at": from_us(vault._clock.now_us())}
        run.append("observation.recorded", {"value": 1}, **about)
        run.effect("note", "ours", resource="crm/42").once(lambda _: 1)
    branch = alice.sessions.fork(session.id)
    for other, key in ((beside, "zorblax"), (branch, "quuxberg")):
        with other.run(checkpoints=BY_HAND) as run:
            run.effect("deal", key, resource="crm/42").once(lambda _: 1)
    alice.grants.give(session.id, "bob", level=level, may=["append"])
    bob = vault.access(BOB).sessions
    woken = bob.wake(session.id, checkpoints=BY_HAND)
    woken.run.stop()
    told = [woken.note, woken.gap.foreign, bob.resume(session.id).effects()]
    told.append([(effect.kind, effect.key) for effect in bob.resume(session.id).effects()])
    told.append([(effect.kind, effect.key) for effect in woken.gap.foreign])
    assert not any(name in str(part) for part in told for name in ("zorblax", "quuxberg", "deal"))
    mine = alice.sessions.wake(session.id, checkpoints=BY_HAND)
    mine.run.stop()
    assert {effect.key for effect in mine.gap.foreign} == {"zorblax", "quuxberg"}
