"""Waking: one call tells a process where a session stands, what is open and what changed, and lets it run."""

import threading
from datetime import timedelta

import pytest

from vault import NewEvent, Principal, Reducer, Resolution, Trigger, Vault, new_event_id
from vault.clock import from_us
from vault.errors import (
    Busy,
    ConfigDrift,
    Diverged,
    Fenced,
    InvalidInput,
    NotFound,
    SessionEnded,
    Stale,
)
from vault.policy.lease import decode
from vault.policy.recovery import DEFAULT, state_hash

ALICE = Principal(tenant="acme", subject="alice")
BOB = Principal(tenant="acme", subject="bob")
NEVER = Trigger(after_tool=False, every_events=None, every_seconds=None)
MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US


@pytest.fixture(scope="module")
def hand_moved(tmp_path_factory):
    """A vault whose clock moves by hand; each test has its own sessions."""

    class Ticks:
        now = 1_800_000_000_000_000  # 2027-01-15 08:00 UTC

        def now_us(self):
            return self.now

    home, ticks = tmp_path_factory.mktemp("wake"), Ticks()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        with Vault.create(home / "vault", settings={"synchronous": "NORMAL"}, clock=ticks) as vault:
            yield vault, ticks


@pytest.fixture
def clock(hand_moved):
    """Starts every test at the same minute of another day."""
    ticks = hand_moved[1]
    ticks.now = 1_800_000_000_000_000 + (ticks.now - 1_800_000_000_000_000) // DAY_US * DAY_US + 40 * DAY_US
    return ticks


@pytest.fixture
def alice(hand_moved, clock):
    return hand_moved[0].access(ALICE).sessions


@pytest.fixture
def bob(hand_moved, clock):
    return hand_moved[0].access(BOB).sessions


@pytest.fixture
def session(alice):
    return alice.create(title="August sales")


def begun(session, **about):
    return session.run(checkpoints=NEVER, lease_seconds=600, **about)


def die(run, clock):
    """The process of a run is gone: no more heartbeats, and after a while no more lease."""
    run._over.set()
    clock.now += 11 * MINUTE_US


def lease_of(session):
    with session._view(session._authorise("read")) as found:
        return decode(found.row.lease)


def woken(sessions, session, **about):
    found = sessions.wake(session.id, checkpoints=NEVER, lease_seconds=600, **about)
    found.run.stop()
    return found


# ------------------------------------------------------------------------------------------ where it stands


def new(session, clock):
    pass


def idle(session, clock):
    session.append("message.user", {"content": "hello"})


def stopped(session, clock):
    with begun(session) as run:
        run.append("message.user", 1)


def stopped_by_user(session, clock):
    run = begun(session)
    run.append("message.user", 1)
    session.stop()
    with pytest.raises(Fenced):
        run.append("message.user", 2)


def failed(session, clock):
    def broken():
        with begun(session):
            raise RuntimeError("no route to host")

    with pytest.raises(RuntimeError):
        broken()


def waiting(session, clock):
    with begun(session) as run:
        run.append("approval.requested", {"what": "refund 12"})


def waiting_crashed(session, clock):
    run = begun(session)
    run.append("tool.requested", {}, tool="crm")
    run.append("approval.requested", {"what": "refund 12"})
    die(run, clock)


def granted(session, clock):
    with begun(session) as run:
        asked = run.append("approval.requested", {"what": "refund 12"})
    session.append("approval.granted", {}, caused_by=asked.id)


def crashed(session, clock):
    run = begun(session)
    run.append("message.user", 1)
    die(run, clock)


def crashed_in_tool(session, clock):
    run = begun(session)
    run.append("tool.requested", {}, tool="warehouse")
    die(run, clock)


def crashed_in_effect(session, clock):
    run = begun(session)
    run.append("tool.requested", {}, tool="warehouse")
    run.effect("mail.send", "order 12", {"to": "x"}).intend()
    die(run, clock)


def doubt_behind_another_run(session, clock):
    crashed_in_effect(session, clock)
    with begun(session) as run:
        run.append("message.user", 1)


#: By its past: the kind, how the sentence begins, what the note says, open tools, effects in doubt.
STANDINGS = {
    new: ("new", "new: nothing has happened yet", (), 0, 0),
    idle: ("idle", "idle: no run was started, last used ", (), 0, 0),
    stopped: ("stopped", "stopped: completed", (), 0, 0),
    stopped_by_user: ("stopped", "stopped: stopped by user", (), 0, 0),
    failed: ("failed", "failed ", ("no route to host",), 0, 0),
    waiting: ("waiting_approval", "waiting for approval of “refund 12” since ", ("refund 12",), 0, 0),
    waiting_crashed: (
        "waiting_approval",
        "waiting for approval of “refund 12” since ",
        ("refund 12", "never came back", '"crm"'),
        1,
        0,
    ),
    granted: ("stopped", "stopped: completed", (), 0, 0),
    crashed: ("crashed", "crashed: the run ended without a word, last seen ", ("without a word",), 0, 0),
    crashed_in_tool: (
        "crashed_in_tool",
        "crashed while tool warehouse was running, asked for ",
        ("while tool warehouse was running", "never came back", '"warehouse"'),
        1,
        0,
    ),
    crashed_in_effect: (
        "crashed_in_effect",
        "crashed during effect mail.send “order 12”, intended ",
        ("Begun but never confirmed", '"mail.send order 12"', '"warehouse"', "nobody knows"),
        1,
        1,
    ),
    doubt_behind_another_run: (
        "stopped",
        "stopped: completed; 1 effect in doubt",
        ("Begun but never confirmed", '"mail.send order 12"'),
        1,
        1,
    ),
}


@pytest.mark.parametrize("past", [pytest.param(past, id=past.__name__) for past in STANDINGS])
def test_waking_tells_where_a_session_stands_and_what_a_model_must_know(alice, session, clock, past):
    """C5, L11"""
    past(session, clock)
    kind, sentence, noted, tools, effects = STANDINGS[past]
    before = list(session.events())
    found = woken(alice, session)
    assert found.standing.kind == kind
    assert found.standing.sentence.startswith(sentence)
    assert len(found.pending_tools) == tools
    assert len(found.in_doubt) == effects
    if noted:
        assert found.note.startswith("You last worked in this session ")
    for words in noted:
        assert words in found.note
    if not noted:
        assert found.note == ""
    # And all of it is what the log told before the new run began.
    assert found.recovered.through == len(before)
    assert list(session.events(limit=max(len(before), 1)))[: len(before)] == before
    wanted = session.recover(at=before[-1].id).state if before else DEFAULT.initial
    assert found.state == wanted


def test_what_a_tool_was_asked_is_told(alice, session, clock):
    """C5"""
    run = begun(session)
    answered = run.append("tool.requested", {}, tool="crm")
    call = run.append("tool.requested", {}, tool="warehouse")
    run.append("tool.returned", {}, tool="crm", caused_by=answered.id)
    die(run, clock)
    (pending,) = woken(alice, session).pending_tools
    assert (pending["id"], pending["seq"], pending["tool"]) == (call.id, call.seq, "warehouse")
    assert (pending["run"], pending["since_us"]) == (run.id, call.recorded_us)


def test_only_effects_that_nobody_settled_are_in_doubt(alice, session, clock):
    """C5, S4"""
    run = begun(session)
    for key in ("open", "committed", "failed", "by a branch"):
        run.effect("mail.send", key, {"to": key}).intend()
    run.effect("mail.send", "committed").commit("ok")
    run.effect("mail.send", "failed").fail("no")
    fork = alice.fork(session.id)
    die(run, clock)
    with begun(fork) as other:
        other.effect("mail.send", "by a branch").once(
            lambda _: pytest.fail("again"), resolver=lambda _: Resolution(decision="commit", confirmation=1)
        )
    for one in (session, fork):
        (known,) = woken(alice, one).in_doubt
        assert (known.key, known.state, known.intent) == ("open", "in doubt", {"to": "open"})
        assert known.session_id == session.id
    session.resolve("mail.send", "open", Resolution(decision="fail", why="it was not sent"))
    assert woken(alice, fork).in_doubt == ()


def test_a_fork_made_within_a_run_has_not_crashed(alice, session):
    """C5, S4: that run is the original's"""
    with begun(session) as run:
        run.append("message.user", 1)
        fork = alice.fork(session.id)
        found = woken(alice, fork)
        assert (found.standing.kind, found.note) == ("idle", "")
        run.append("message.user", 2)
    deep = alice.fork(fork.id)
    own = begun(deep)
    own._over.set()
    deep.stop("by hand")
    assert woken(alice, deep).standing.kind == "stopped"


# ------------------------------------------------------------------------------------------------ the lease


def test_waking_takes_the_lease_and_a_second_one_is_refused(alice, session):
    """C5, C6"""
    session.append("message.user", 1)
    first = alice.wake(session.id, lease_seconds=600)
    before = list(session.events())
    assert before[-1] == first.run.started
    assert (before[-1].type, before[-1].run) == ("run.woken", first.run.id)
    for call in (lambda: alice.wake(session.id), session.run, lambda: session.append("a.b")):
        with pytest.raises(Busy):
            call()
    assert list(session.events()) == before
    first.run.append("message.assistant", {"content": "here"})
    first.run.stop()
    assert woken(alice, session).run.id != first.run.id


def test_a_waiting_wake_is_told_what_happened_while_it_waited(alice, session):
    """C5"""
    run, found = begun(session), []
    thread = threading.Thread(
        target=lambda: found.append(alice.wake(session.id, wait=60, lease_seconds=600, checkpoints=NEVER))
    )
    thread.start()
    last = run.append("message.user", 1)
    run.stop()
    thread.join(60)
    (second,) = found
    assert second.recovered.through == last.seq + 1
    assert second.standing.sentence == "stopped: completed"
    second.run.stop()


def test_what_cannot_be_woken_is_refused_and_left_as_it_was(alice, bob, session):
    """C5, O1"""
    session.append("message.user", 1)
    session.end()
    with pytest.raises(SessionEnded):
        alice.wake(session.id)
    mine = alice.create()
    mine.append("message.user", 1)
    for stranger in (mine.id, "ses_" + new_event_id()[4:]):
        with pytest.raises(NotFound):
            bob.wake(stranger)
    for about in ({"lease_seconds": 0}, {"on_drift": "maybe"}, {"config": ""}, {"config_document": []}):
        with pytest.raises(InvalidInput):
            alice.wake(mine.id, **about)
    assert mine.info().event_count == 1
    assert lease_of(mine).run == ""


def test_a_wake_whose_recovery_fails_gives_the_lease_back(alice, session):
    """C5, C2"""
    own = Reducer(name="own@1", initial=0, apply=lambda state, _: state + 1)
    session.append("message.user", 1)
    wrong = {"state": 7, "sha256": state_hash(7), "through": 1, "reducer": "own@1"}
    session.append("checkpoint.created", wrong)
    with pytest.raises(Diverged):
        alice.wake(session.id, reducer=own)
    assert lease_of(session).run == ""
    assert [event.type for event in session.events()][2:] == ["run.woken", "run.stopped"]
    found = woken(alice, session)
    assert found.standing.sentence == "stopped: waking it failed"


def test_a_wake_with_an_own_reducer_gives_its_state_and_the_same_standing(alice, session, clock):
    """C5, C2"""
    crashed_in_effect(session, clock)
    own = Reducer(name="own@1", initial=0, apply=lambda state, _: state + 1)
    found = woken(alice, session, reducer=own)
    assert found.state == found.recovered.through == 3
    assert found.standing.kind == "crashed_in_effect"
    assert len(found.in_doubt) == 1
    assert "state=" not in repr(found.recovered)


def test_the_state_covers_what_was_before_the_run_and_the_inbox_what_came_behind(alice, session):
    """C5, L10"""
    session.append("message.user", -1)
    stop, posted = threading.Event(), []

    def post():
        while not stop.is_set():
            posted.append(session.post("message.user", len(posted)).id)

    threads = [threading.Thread(target=post) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(8):
            found = alice.wake(
                session.id,
                config_document={"round": number},
                on_drift="new",
                config=f"c@{number}",
                checkpoints=NEVER,
            )
            inbox = found.run.inbox()
            log = list(session.events(before=inbox[-1].id)) + inbox[-1:] if inbox else list(session.events())
            first = next(event.seq for event in log if event.run == found.run.id)
            started = found.run.started.seq
            assert found.recovered.through == first - 1
            assert found.state == session.recover(at=log[first - 2].id).state
            assert found.state["messages"]["count"] == sum(e.type == "message.user" for e in log[: first - 1])
            assert [event.run for event in log[first - 1 : started]] == [found.run.id] * (started - first + 1)
            if inbox:
                assert inbox == log[started:]
            found.run.stop()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(posted) > 0


# ---------------------------------------------------------------------------------------- the configuration

OLD = {"model": "small", "tools": {"crm": {"v": 1}, "mail": {}}}
NEW = {"model": "large", "tools": {"crm": {"v": 1}}}


@pytest.fixture
def pinned(alice):
    session = alice.create(config="sales@1", config_document=OLD)
    session.append("message.user", {"content": "hello"})
    return session


DRIFTED = {
    "another-name": {"config": "sales@2", "config_document": OLD},
    "another-document": {"config": "sales@1", "config_document": NEW},
    "both": {"config": "sales@2", "config_document": NEW},
    "a-name-alone": {"config": "sales@2"},
    "a-document-alone": {"config_document": NEW},
}


@pytest.mark.parametrize("now", [pytest.param(value, id=name) for name, value in DRIFTED.items()])
def test_another_configuration_is_asked_about_before_anything_is_changed(alice, pinned, now):
    """S5"""
    with begun(pinned):
        pass
    before = list(pinned.events()), pinned.info(), lease_of(pinned)
    for about in (now, {**now, "on_drift": "ask"}):
        with pytest.raises(ConfigDrift):
            alice.wake(pinned.id, **about)
    assert (list(pinned.events()), pinned.info(), lease_of(pinned)) == before
    if now.get("config_document") == NEW:
        found = woken(alice, pinned, on_drift="old", **now)
        assert found.drift.tools_gone == ("mail",)
        assert found.drift.model == ("small", "large")
        assert '"mail"' in found.note
        assert "configuration" in found.note


def test_the_old_configuration_stays_and_is_compared_again(alice, pinned):
    """S5"""
    found = woken(alice, pinned, on_drift="old", config="sales@2", config_document=NEW)
    assert (found.choice.config, found.drift.changed) == ("old", True)
    assert list(pinned.events(types=["config.changed"])) == []
    assert found.run.started.payload == {"config": "sales@1"}
    assert pinned.recover().state["config"] == "sales@1"
    with pytest.raises(ConfigDrift):
        alice.wake(pinned.id, config="sales@2", config_document=NEW)
    assert not woken(alice, pinned, config="sales@1", config_document=OLD).drift.changed


@pytest.mark.parametrize("now", [pytest.param(value, id=name) for name, value in DRIFTED.items()])
def test_a_new_configuration_is_recorded_and_a_later_wake_compares_to_it(alice, pinned, now):
    """S5"""
    found = woken(alice, pinned, on_drift="new", **now)
    assert found.choice.config == "new"
    (changed,) = pinned.events(types=["config.changed"])
    assert changed.run == found.run.id
    assert changed.seq == found.run.started.seq - 1
    name = now.get("config", "sales@1")
    assert changed.payload.get("config") == name
    assert changed.payload.get("document") == now.get("config_document")
    assert found.run.started.payload == {"config": name}
    assert found.recovered.through == changed.seq - 1
    full = {"config": name, **now}
    again = woken(alice, pinned, **full)
    assert not again.drift.changed
    assert pinned.recover().state["config"] == name
    with pytest.raises(ConfigDrift):
        alice.wake(pinned.id, **{**full, "config": "sales@3"})
    assert len(list(pinned.events(types=["config.changed"]))) == 1


def test_without_a_configuration_to_compare_nothing_has_drifted(alice, pinned, session):
    """S5"""
    session.append("message.user", 1)
    for one in (pinned, session):
        found = woken(alice, one)
        assert not found.drift.changed
        assert found.note == ""
    with pytest.raises(ConfigDrift):
        alice.wake(session.id, config="sales@1")  # made without one


def test_a_tool_that_is_awaited_and_exists_no_more_is_told(alice, pinned, clock):
    """S5, C5"""
    run = begun(pinned)
    run.append("tool.requested", {}, tool="mail")
    die(run, clock)
    found = woken(alice, pinned, on_drift="new", config="sales@2", config_document=NEW)
    assert "The tool “mail” is awaited and no longer exists." in found.note


def test_a_fork_goes_on_under_the_configuration_of_the_fork_point(alice, pinned):
    """S5, S1"""
    (start,) = pinned.events()
    woken(alice, pinned, on_drift="new", config="sales@2", config_document=NEW)
    early, late = alice.fork(pinned.id, at=start.id), alice.fork(pinned.id)
    assert not woken(alice, early, config="sales@1", config_document=OLD).drift.changed
    assert not woken(alice, late, config="sales@2", config_document=NEW).drift.changed
    with pytest.raises(ConfigDrift):
        alice.wake(early.id, config="sales@2", config_document=NEW)


@pytest.mark.parametrize(
    "payload",
    [5, None, {}, {"config": 5}, {"config": ""}, {"document": []}, {"config": "x", "document": {"tools": 3}}],
)
def test_a_change_of_configuration_that_says_nothing_is_passed_over(alice, pinned, payload):
    """S5: whatever a product writes under this type, the session can be woken"""
    pinned.append("config.changed", payload)
    assert not woken(alice, pinned, config="sales@1", config_document=OLD).drift.changed
    assert woken(alice, pinned, on_drift="new", config="sales@2", config_document=NEW).choice.config == "new"
    pinned.append("config.changed", payload)
    assert not woken(alice, pinned, config="sales@2", config_document=NEW).drift.changed


# ------------------------------------------------------------------------------------------------- the gap


def observe(writer, resource, clock, **about):
    return writer.append(
        "observation.recorded", {"value": 1}, resource=resource, observed_at=from_us(clock.now), **about
    )


def commit(sessions, kind, key, session=None, **about):
    with begun(session or sessions.create()) as run:
        run.effect(kind, key, **about).once(lambda _: "done")
        return run


def test_what_was_seen_too_long_ago_is_told_with_how_long(alice, session, clock):
    """S3"""
    observe(session, "crm/1", clock)
    observe(session, "crm/2", clock, valid_for=timedelta(minutes=10))
    observe(session, "crm/3", clock, valid_for=timedelta(days=365))
    session.append("tool.returned", {}, tool="warehouse", observed_at=from_us(clock.now))
    assert woken(alice, session).gap.advice == "fresh"
    clock.now += 30 * MINUTE_US
    gap = woken(alice, session).gap
    assert [(one.name, one.age_us, one.over_us) for one in gap.stale] == [
        ("crm/2", 30 * MINUTE_US, 20 * MINUTE_US)
    ]
    assert (gap.advice, gap.away_us) == ("note", 30 * MINUTE_US)
    clock.now += 2 * HOUR_US
    found = woken(alice, session)
    assert {one.name for one in found.gap.stale} == {"crm/1", "crm/2", "tool:warehouse"}
    assert found.gap.away_us == 150 * MINUTE_US  # the wakes themselves are no use of it
    assert '"crm/2"' in found.note
    observe(session, "crm/2", clock)
    assert "crm/2" not in {one.name for one in woken(alice, session).gap.stale}
    clock.now += 2 * DAY_US
    assert woken(alice, session).gap.advice == "reread"
    clock.now += 40 * DAY_US
    last = woken(alice, session)
    assert last.gap.advice == "restart"
    assert "start anew with a summary" in last.note


def test_what_another_session_changed_since_it_was_seen_is_told(alice, session, clock):
    """S3"""
    name = "crm/" + session.id
    observe(session, name, clock)
    observe(session, name + "/other", clock)
    clock.now += MINUTE_US
    run = commit(alice, "crm.write", "1", resource=name)
    commit(alice, "crm.write", "2", resource=name + "/nobody saw this")
    clock.now += MINUTE_US
    found = woken(alice, session)
    assert [one.name for one in found.gap.overtaken] == [name]
    (effect,) = found.gap.foreign
    assert (effect.kind, effect.key, effect.resource, effect.branch) == ("crm.write", "1", name, False)
    assert effect.session_id == run.started.session_id
    assert effect.committed_us == clock.now - MINUTE_US
    assert found.gap.advice == "reread"
    assert "by another session" in found.note
    observe(session, name, clock)
    assert woken(alice, session).gap.foreign == ()


def test_effects_on_what_a_session_changed_itself_and_about_its_people_are_told(alice, session, clock):
    """S3"""
    person = "person " + session.id
    commit(alice, "mail.send", "mine", session, subject=person, resource="box/" + session.id)
    clock.now += MINUTE_US
    commit(alice, "mail.send", "theirs", subject=person)
    commit(alice, "box.write", "theirs", resource="box/" + session.id)
    commit(alice, "box.write", "of nobody", subject="somebody else", resource="another box")
    found = woken(alice, session).gap
    assert {(one.kind, one.key) for one in found.foreign} == {
        ("mail.send", "theirs"),
        ("box.write", "theirs"),
    }
    assert {one.subject for one in found.foreign} == {person, None}


def test_an_effect_of_a_branch_is_told_as_one(alice, session, clock):
    """S3, S4"""
    name = "crm/" + session.id
    seen = observe(session, name, clock)
    shared = commit(alice, "crm.write", "shared", session, resource=name)
    observe(session, name, clock)
    fork = alice.fork(session.id)
    clock.now += MINUTE_US
    commit(alice, "crm.write", "of the fork", fork, resource=name)
    clock.now += MINUTE_US
    commit(alice, "crm.write", "of the original", session, resource=name)
    (theirs,) = woken(alice, session).gap.foreign
    assert (theirs.key, theirs.branch, theirs.session_id) == ("of the fork", True, fork.id)
    (ours,) = woken(alice, fork).gap.foreign
    assert (ours.key, ours.branch, ours.session_id) == ("of the original", True, session.id)
    assert "another branch of this session" in woken(alice, fork).note
    early = alice.fork(session.id, at=seen.id)
    keys = {one.key for one in woken(alice, early).gap.foreign}
    assert keys == {"shared", "of the fork", "of the original"}
    assert shared.started.session_id == session.id


def test_effects_of_another_owner_are_never_told(alice, bob, session, clock):
    """S3, O1"""
    name, person = "crm/" + session.id, "person " + session.id
    observe(session, name, clock)
    commit(alice, "mail.send", "mine", session, subject=person)
    clock.now += MINUTE_US
    commit(bob, "crm.write", "1", resource=name)
    commit(bob, "mail.send", "2", subject=person)
    found = woken(alice, session)
    assert (found.gap.foreign, found.gap.overtaken, found.note) == ((), (), "")
    with begun(session) as run:
        assert run.require_fresh(name).payload == {"value": 1}


def test_many_effects_of_its_own_do_not_hide_one_of_another_session(alice, session, clock):
    """S3"""
    name = "crm/" + session.id
    seen = observe(session, name, clock)
    clock.now += MINUTE_US
    commit(alice, "crm.write", "theirs", resource=name)
    clock.now += MINUTE_US
    with begun(session) as run:
        about = [{"kind": "crm.write", "key": str(n)} for n in range(110)]
        run.append_many(NewEvent(type="effect.intended", payload=said) for said in about)
        run.append_many(NewEvent(type="effect.committed", payload=said, resource=name) for said in about)
        with pytest.raises(Stale, match="another session"):
            run.require_fresh(name)
        assert seen.seq < run.started.seq


# -------------------------------------------------------------------------------------------- fresh enough


def test_a_write_can_ask_for_an_observation_that_is_fresh_enough(alice, session, clock):
    """S3: by program, not by the model's good will"""
    name = "crm/" + session.id
    with begun(session) as run:
        with pytest.raises(Stale, match="never observed in this session"):
            run.require_fresh(name)
        first = observe(run, name, clock)
        assert run.require_fresh(name) == first
        clock.now += 30 * MINUTE_US
        assert run.require_fresh(name) == first  # the vault's own limit: an hour
        with pytest.raises(Stale, match="30 minutes ago"):
            run.require_fresh(name, timedelta(minutes=29))
        assert run.require_fresh(name, timedelta(minutes=30)) == first
        clock.now += 31 * MINUTE_US
        with pytest.raises(Stale, match="read it again"):
            run.require_fresh(name)
        assert run.require_fresh(name, timedelta(hours=2)) == first
        second = observe(run, name, clock, valid_for=timedelta(minutes=5))
        assert run.require_fresh(name, timedelta(hours=2)) == second
        clock.now += 6 * MINUTE_US
        for age in (None, timedelta(hours=2)):
            with pytest.raises(Stale, match="it holds for 5 minutes"):
                run.require_fresh(name, age)
        third = run.append(
            "tool.returned", {}, tool="crm", resource=name, observed_at=from_us(clock.now + HOUR_US)
        )
        assert run.require_fresh(name, timedelta(0)) == third  # in the future, which counts as now
        with pytest.raises(InvalidInput):
            run.require_fresh(name, timedelta(seconds=-1))
        with pytest.raises(InvalidInput):
            run.require_fresh("")
        with pytest.raises(Stale):
            run.require_fresh(name + "/other")


def test_an_observation_that_another_session_overtook_is_not_fresh(alice, session, clock):
    """S3"""
    name = "crm/" + session.id
    observe(session, name, clock)
    clock.now += MINUTE_US
    commit(alice, "crm.write", "1", resource=name)
    run = begun(session)
    with pytest.raises(Stale, match="changed by another session"):
        run.require_fresh(name, timedelta(days=1))
    clock.now += MINUTE_US
    again = observe(run, name, clock)
    assert run.require_fresh(name) == again
    run.effect("crm.write", "mine", resource=name).once(lambda _: "ok")
    assert run.require_fresh(name) == again  # what one did oneself is known
    run.stop()


def test_a_fork_relies_on_what_it_shares_and_not_on_what_its_original_saw_later(alice, session, clock):
    """S3, S4"""
    name = "crm/" + session.id
    early = observe(session, name, clock)
    fork = alice.fork(session.id)
    clock.now += 2 * MINUTE_US
    observe(session, name, clock)
    with begun(fork) as run:
        assert run.require_fresh(name) == early
        with pytest.raises(Stale):
            run.require_fresh(name, timedelta(minutes=1))
        own = observe(run, name, clock)
        assert run.require_fresh(name, timedelta(minutes=1)) == own
    commit(alice, "crm.write", "1", session, resource=name)
    with begun(fork) as run, pytest.raises(Stale, match="another branch"):
        run.require_fresh(name)


# ------------------------------------------------------------------------------------------- starting anew


def test_a_restart_begins_with_a_summary_and_links_both_sessions(alice, session):
    """S3, S1"""
    session.append("message.user", {"content": "hello"})
    new = alice.restart(session.id, "They said hello.")
    assert new.info().parent == session.id
    assert new.info().title == "August sales"
    (first,) = new.events()
    assert (first.type, first.payload) == ("message.system", {"content": "They said hello."})
    (said,) = session.events(types=["session.restarted"])
    assert said.payload == {"as": new.id}
    assert new.info().fork is None


def test_a_restart_goes_on_under_the_configuration_that_counts(alice, pinned):
    """S5"""
    woken(alice, pinned, on_drift="new", config="sales@2", config_document=NEW)
    new = alice.restart(pinned.id, "All well.")
    assert new.info().config == "sales@2"
    assert not woken(alice, new, config="sales@2", config_document=NEW).drift.changed


def test_a_restart_that_is_refused_makes_no_session(alice, session):
    """S3"""
    session.append("message.user", 1)

    def count():
        return len(alice.find(limit=500).items)

    before = count()
    with begun(session) as run:
        with pytest.raises(Busy):
            alice.restart(session.id, "a summary")
        run.append("message.user", 2)
    for summary in ("", "x" * 100_001):
        with pytest.raises(InvalidInput):
            alice.restart(session.id, summary)
    session.end()
    with pytest.raises(SessionEnded):
        alice.restart(session.id, "a summary")
    assert count() == before
    assert list(session.events(types=["session.restarted"])) == []
