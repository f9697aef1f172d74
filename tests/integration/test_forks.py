"""Forks: a session that shares another one's log up to an event, at no cost, and leaves it as it was."""

import io
import json
import sqlite3
from datetime import timedelta

import pytest

from tests.stateful.test_forks_machine import modelled
from vault import NewEvent, Principal, Trigger, Vault, new_event_id
from vault.adapters import session_jsonl
from vault.errors import Conflict, InvalidInput, LimitExceeded, NotFound, SessionEnded
from vault.sessions.family import DEPTH_MAX
from vault.sessions.fork import WORLD_MAX

ALICE = Principal(tenant="acme", subject="alice")
BOB = Principal(tenant="acme", subject="bob")
NEVER = Trigger(after_tool=False, every_events=None, every_seconds=None)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A vault and its place; making one costs more than most of these tests, and each has its own session."""
    home = tmp_path_factory.mktemp("forks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        with Vault.create(home / "vault", settings={"synchronous": "NORMAL"}) as vault:
            yield vault, home / "vault"


@pytest.fixture
def alice(shared):
    return shared[0].access(ALICE).sessions


@pytest.fixture
def session(alice):
    return alice.create(title="August sales")


def talk(session, count, start=0):
    return session.append_many(
        NewEvent(type="message.user", payload={"content": f"number {n}"}) for n in range(start, start + count)
    )


def rows_in(place):
    connection = sqlite3.connect(place / "data.db")
    try:
        names = ("sessions", "events", "blobs", "runs", "labels", "touches")
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}  # noqa: S608
    finally:
        connection.close()


def bytes_of(place, session):
    """The bytes of a session's row, and how many rows of events are its own."""
    connection = sqlite3.connect(place / "data.db")
    try:
        row = connection.execute(
            "SELECT * FROM sessions WHERE session_id = ?", (session._row.session_id,)
        ).fetchone()
        events = connection.execute("SELECT count(*) FROM events WHERE session_no = ?", (row[0],)).fetchone()
        return sum(len(value) if isinstance(value, bytes | str) else 8 for value in row), events[0]
    finally:
        connection.close()


# --------------------------------------------------------------------------------------------- the original


def test_a_fork_and_its_original_go_on_apart(alice, session):
    """S1, S4"""
    log = talk(session, 6)
    before = session.info()
    fork = alice.fork(session.id, at=log[2].id)
    assert session.info() == before
    assert list(session.events()) == log
    here, there = talk(session, 2, 100), talk(fork, 3, 200)
    assert list(session.events()) == log + here
    assert list(fork.events()) == log[:3] + there
    assert [event.seq for event in there] == [4, 5, 6]
    fork.end()
    session.append("message.user", {"content": "still here"})
    with pytest.raises(SessionEnded):
        fork.append("message.user")
    assert alice.fork(session.id, at=log[0].id).info().event_count == 1


def test_a_fork_takes_the_title_over_and_not_labels_or_the_external_id(alice):
    """S1"""
    original = alice.create(
        title="A talk", labels={"team": "red"}, external_id=new_event_id(), config="analyst@12"
    )
    talk(original, 1)
    fork = alice.fork(original.id)
    info = fork.info()
    assert (info.title, info.labels, info.external_id, info.config) == ("A talk", {}, None, "analyst@12")
    assert info.parent == original.id
    named = alice.fork(original.id, title="Another", labels={"team": "blue"}, external_id="fork " + fork.id)
    assert (named.info().title, named.info().labels) == ("Another", {"team": "blue"})
    assert alice.resume_external("fork " + fork.id).id == named.id
    assert named.id in {item.id for item in alice.find(labels={"team": "blue"}).items}
    with pytest.raises(Conflict, match="external id"):
        alice.fork(original.id, external_id="fork " + fork.id)


def test_an_ended_session_can_be_forked(alice, session):
    """S1"""
    log = talk(session, 2)
    session.end()
    fork = alice.fork(session.id)
    assert list(fork.events()) == log
    fork.append("message.user", {"content": "go on"})


def test_a_fork_made_while_a_run_is_active_does_not_disturb_it(alice, session):
    """S1"""
    with session.run(checkpoints=NEVER) as run:
        run.append("message.user", 1)
        fork = alice.fork(session.id)
        run.append("message.user", 2)
        with fork.run(checkpoints=NEVER) as other:  # its lease is its own
            other.append("message.user", 3)
    assert [e.payload for e in session.events(types=["message.user"])] == [1, 2]
    assert [e.payload for e in fork.events(types=["message.user"])] == [1, 3]


# ------------------------------------------------------------------------------------------------- refusals


def nothing_new(place, call, error, words):
    before = rows_in(place)
    with pytest.raises(error, match=words) as refusal:
        call()
    assert "\n" not in str(refusal.value)
    assert rows_in(place) == before


def test_a_session_without_events_cannot_be_forked(alice, session, shared):
    """S1"""
    nothing_new(shared[1], lambda: alice.fork(session.id), InvalidInput, "nothing to fork")


def test_a_fork_point_is_an_event_of_the_session(alice, session, shared):
    """S1, O1"""
    log = talk(session, 3)
    fork = alice.fork(session.id, at=log[0].id)
    other = alice.create()
    (stranger,) = talk(other, 1)
    for of, at in (
        (session, new_event_id()),
        (session, stranger.id),
        (fork, log[1].id),  # the original's, behind the place that is shared
        (fork, new_event_id()),
        (other, log[0].id),
    ):
        nothing_new(shared[1], lambda of=of, at=at: alice.fork(of.id, at=at), NotFound, "no such event")
    nothing_new(shared[1], lambda: alice.fork(session.id, at="the third"), InvalidInput, "event")


def test_nobody_forks_somebody_elses_session(alice, session, shared):
    """O1"""
    log = talk(session, 3)
    bob = shared[0].access(BOB).sessions
    bob.create()
    for at in (None, log[1].id):
        nothing_new(shared[1], lambda at=at: bob.fork(session.id, at=at), NotFound, "no such session")


# ----------------------------------------------------------------------------------------------------- cost


def test_a_fork_of_a_long_session_takes_as_much_room_as_one_of_a_short_session(alice, shared):
    """S1: nothing is copied"""
    sizes = {}
    for count in (2, 2_000):
        original = alice.create(title="a")
        for start in range(0, count, 1_000):
            talk(original, min(count, 1_000), start)
        before = rows_in(shared[1])
        fork = alice.fork(original.id)
        after = rows_in(shared[1])
        assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {
            "sessions": 1
        }
        sizes[count], own = bytes_of(shared[1], fork)
        assert own == 0
        assert fork.info().event_count == count
    assert abs(sizes[2] - sizes[2_000]) <= 16


def test_a_fork_is_no_deeper_than_the_limit_and_one_at_the_limit_is_whole(alice, session, shared):
    """S1: the documented limit"""
    log, deepest = talk(session, 1), session
    for number in range(DEPTH_MAX):
        deepest = alice.fork(deepest.id)
        log += talk(deepest, 1, number)
    assert list(deepest.events()) == log
    assert deepest.info().event_count == DEPTH_MAX + 1
    with deepest.run(checkpoints=NEVER) as run:
        assert run.effect("mail.send", "1").once(lambda _: "sent") == "sent"
    nothing_new(shared[1], lambda: alice.fork(deepest.id), LimitExceeded, "64 deep")
    # At an event of an ancestor it is no deeper than a fork of that one.
    beside = alice.fork(deepest.id, at=log[-2].id)
    assert list(beside.events()) == log[:-1]


def test_a_fork_of_a_fork_at_an_event_of_the_first_hangs_under_the_first(alice, session):
    """S1"""
    log = talk(session, 5)
    middle = alice.fork(session.id, at=log[3].id)
    own = talk(middle, 3, 50)
    below, above = alice.fork(middle.id, at=log[1].id), alice.fork(middle.id, at=own[0].id)
    empty = alice.fork(alice.fork(middle.id, at=log[3].id).id)
    assert below._row.forked_from == session._row.session_id
    assert above._row.forked_from == middle._row.session_id
    assert empty._row.forked_from == session._row.session_id
    assert list(below.events()) == log[:2]
    assert list(above.events()) == log[:4] + own[:1]
    assert list(empty.events()) == log[:4]
    assert [one.info().fork["of"] for one in (below, above)] == [middle.id] * 2
    talk(below, 1)
    assert list(middle.events()) == log[:4] + own


# ------------------------------------------------------------------------------------------ what stays done


def test_a_fork_tells_what_of_the_world_stays_as_it_is(alice, session):
    """S4"""
    (start,) = talk(session, 1)
    with session.run(checkpoints=NEVER) as run:
        early = run.append("environment.snapshot", {"kind": "git", "value": "a1"})
        run.effect("mail.send", "first").once(lambda _: "ok")
        point = run.append("message.user", {"content": "here"})
        later = run.append("environment.snapshot", {"kind": "files", "value": []})
        run.effect("mail.send", "second").once(lambda _: "ok")
        refused = run.effect("mail.send", "third")
        refused.intend()
        refused.fail("no")
        run.effect("mail.send", "fourth").intend()
    committed = list(session.events(types=["effect.committed"]))
    told = alice.fork(session.id, at=point.id).info().fork
    assert told == {
        "of": session.id,
        "at": point.id,
        "not_forked": [
            {"type": "environment.snapshot", "event": later.id, "kind": "files"},
            {"type": "effect.committed", "event": committed[1].id, "kind": "mail.send"},
        ],
    }
    from_start = alice.fork(session.id, at=start.id).info().fork["not_forked"]
    assert [one["event"] for one in from_start] == [early.id, committed[0].id, later.id, committed[1].id]
    assert alice.fork(session.id).info().fork["not_forked"] == []
    assert "not_forked" not in str(session.info().fork)


def test_a_fork_of_a_fork_tells_of_both_logs(alice, session):
    """S4"""
    log = talk(session, 2)
    one = session.append("environment.snapshot", {"kind": "git"})
    fork = alice.fork(session.id)
    session.append("environment.snapshot", {"kind": "behind the fork"})
    two = fork.append("environment.snapshot", "a payload that is no object")
    told = alice.fork(fork.id, at=log[0].id).info().fork["not_forked"]
    assert [(item["event"], item["kind"]) for item in told] == [(one.id, "git"), (two.id, None)]


def test_a_fork_names_the_newest_facts_only_where_there_are_many(alice, session):
    """S4: the documented limit"""
    (start,) = talk(session, 1)
    events = session.append_many(NewEvent(type="environment.snapshot") for _ in range(WORLD_MAX + 5))
    told = alice.fork(session.id, at=start.id).info().fork["not_forked"]
    assert [item["event"] for item in told] == [event.id for event in events[5:]]


def test_an_effect_of_one_branch_is_done_in_all_of_them(alice, session):
    """S4"""
    (start,) = talk(session, 1)
    left = alice.fork(session.id, at=start.id)
    right, deep = alice.fork(session.id, at=start.id), None
    talk(left, 1)
    deep = alice.fork(left.id)
    branches = [session, left, right, deep]
    for number, doer in enumerate(branches):
        with doer.run(checkpoints=NEVER) as run:
            assert run.effect("mail.send", f"to {number}").once(lambda _: "sent") == "sent"
        for other in branches:
            with other.run(checkpoints=NEVER) as run:
                effect = run.effect("mail.send", f"to {number}")
                assert effect.state().session_id == doer.id
                assert effect.once(lambda _: pytest.fail("carried out again")) == "sent"
                with pytest.raises(Conflict, match="committed already"):
                    effect.intend()
    assert {len(branch.effects()) for branch in branches} == {len(branches)}


# ---------------------------------------------------------------------------------------------------- reads


def test_every_read_at_the_seams_of_three_logs_is_that_of_one(alice, session):
    """L3, L9"""
    log = talk(session, 450)
    middle = alice.fork(session.id, at=log[399].id)
    log = log[:400] + middle.append_many(
        NewEvent(type="message.assistant", payload={"content": "yes"}) for _ in range(210)
    )
    top = alice.fork(middle.id, at=log[604].id)
    log = log[:605] + talk(top, 5, 900)
    assert list(top.events()) == log
    for edge in (1, 398, 399, 400, 401, 603, 604, 605, 608):
        for around in ({"after": log[edge].id}, {"before": log[edge].id}):
            for more in (
                {"limit": 1},
                {"limit": 3},
                {"limit": 1, "newest_first": True},
                {"limit": 300, "newest_first": True},
                {"types": ["message.user"]},
                {"types": ["message.user", "message.assistant"], "limit": 4, "newest_first": True},
            ):
                assert list(top.events(**around, **more)) == modelled(log, **around, **more)
        assert list(top.slice(log[edge - 1].id, log[edge].id)) == log[edge - 1 : edge + 1]
        assert list(top.follow(after=log[edge].id, idle_seconds=0)) == log[edge + 1 :]


def test_a_follower_of_a_fork_sees_its_new_events_and_none_of_the_originals(alice, session):
    """L10"""
    log = talk(session, 3)
    fork = alice.fork(session.id, at=log[1].id)
    following = fork.follow(poll_seconds=0.01)
    assert [next(following) for _ in range(2)] == log[:2]
    talk(session, 2, 50)
    new = talk(fork, 1, 60)
    assert next(following) == new[0]
    fork.end()
    assert list(following) == []


def test_the_payloads_of_a_fork_open_whoever_holds_them(alice, session):
    """L5"""
    large = session.append("file.read", raw=b"x" * 3_000_000)
    small = session.append("file.read", raw=b"y" * 100)
    fork = alice.fork(session.id)
    own = fork.append("file.read", raw=b"z" * 70_000)
    for event, body in ((large, b"x" * 3_000_000), (small, b"y" * 100), (own, b"z" * 70_000)):
        with fork.open(event) as file:
            assert file.read() == body
    with pytest.raises(NotFound):
        session.open(own)


def test_a_clock_that_went_back_does_not_put_a_fork_before_what_it_shares(place, clock):
    """L3"""
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as vault:
        alice = vault.access(ALICE).sessions
        session = alice.create()
        log = []
        for _ in range(4):
            clock.now += 10_000_000
            log += talk(session, 1)
        clock.now -= 3_600_000_000
        fork = alice.fork(session.id, at=log[2].id)
        log = log[:3] + talk(fork, 2)
        times = [event.recorded_us for event in log]
        assert times == sorted(times)
        for event in log:
            for near in (-1, 0, 1):
                moment = event.recorded_at + timedelta(microseconds=near)
                for chosen in ({"since": moment}, {"until": moment}):
                    assert list(fork.events(**chosen)) == modelled(log, **chosen)
        assert vault.verify().ok


def test_an_export_of_a_fork_holds_the_whole_talk(alice, session, shared):
    """S1, X1"""
    log = talk(session, 4)
    session.append("file.read", raw=b"\x00\xff" * 10)
    fork = alice.fork(session.id, at=log[2].id)
    log = log[:3] + talk(fork, 2, 70)
    out = io.BytesIO()
    assert session_jsonl.export_session(fork, out) == len(log)
    header, *lines = map(json.loads, out.getvalue().splitlines())
    assert header["session"]["id"] == fork.id
    assert header["session"]["event_count"] == len(log)
    assert [(line["seq"], line["id"], line["payload"]) for line in lines] == [
        (event.seq, event.id, event.payload) for event in log
    ]


def test_a_fork_is_the_same_after_reopening(place):
    """S1"""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        alice = vault.access(ALICE).sessions
        session = alice.create(title="first")
        log = talk(session, 5)
        fork = alice.fork(session.id, at=log[3].id)
        log = log[:4] + talk(fork, 2)
        told = fork.info()
    with Vault.open(place) as vault:
        again = vault.access(ALICE).sessions.resume(fork.id)
        assert (list(again.events()), again.info()) == (log, told)
        assert vault.verify().ok


def test_a_fork_can_be_read_while_threads_write_to_its_original(alice, session, monkeypatch):
    """L1, S1: a commit between a snapshot and the look at the original is no rollback"""
    log = talk(session, 2)
    fork = alice.fork(session.id)
    with session.run(checkpoints=NEVER) as run:
        assert fork.info().event_count == 2
        expected, late = type(session._log.witness).expected, []

        def after_a_commit(witness, session_id):
            if session_id == session._row.session_id and not late:
                late.append(None)
                late[:] = [run.append("message.user", {"content": "just now"})]
            return expected(witness, session_id)

        for read in (
            lambda: list(fork.events()) == log,
            lambda: fork.info().event_count == 2,
            lambda: fork.effects() == [],
            lambda: fork.effects(kind="mail.send", key="1") == [],
        ):
            late.clear()
            with monkeypatch.context() as patch:
                patch.setattr(type(session._log.witness), "expected", after_a_commit)
                assert read()
            assert late
