"""Following a session: catch up, then every new event once, in order, whoever writes it."""

import threading

import pytest

from vault import NewEvent, new_event_id
from vault.errors import InvalidInput, NotFound, VaultClosed

WRITE = """
import sys
from vault import Principal, Vault
place, session_id, start, count = sys.argv[1:]
with Vault.open(place) as vault:
    session = vault.access(Principal(tenant="acme", subject="alice")).sessions.resume(session_id)
    for number in range(int(start), int(start) + int(count)):
        session.append("a.b", number)
"""


def test_following_catches_up_then_ends_with_the_session(session):
    """L10"""
    written = [session.append("a.b", n) for n in range(250)]
    session.end()
    assert list(session.follow()) == written
    assert list(session.follow(after=written[100].id)) == written[101:]
    assert list(session.follow(after=written[-1].id)) == []


def test_following_ends_when_nothing_new_comes(session):
    """L10"""
    written = [session.append("a.b", n) for n in range(3)]
    assert list(session.follow(idle_seconds=0, poll_seconds=0.01)) == written


def test_following_ends_when_it_is_told_to(session):
    """L10"""
    stop = threading.Event()
    written = [session.append("a.b", n) for n in range(3)]
    following = session.follow(stop=stop)
    assert next(following) == written[0]
    stop.set()
    rest = list(following)
    assert rest == written[1 : 1 + len(rest)]
    stop.set()
    assert list(session.follow(stop=stop)) == []


def test_a_follower_sees_what_threads_append_without_gap_or_repeat(session):
    """L10"""
    seen, start = [], threading.Barrier(5)

    def write(number: int) -> None:
        start.wait()
        for n in range(40):
            if n % 5:
                session.append("a.b", (number, n).__repr__())
            else:
                session.append_many(NewEvent(type="a.b", payload=f"{number}-{n}-{k}") for k in range(3))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    start.wait()
    for event in session.follow(poll_seconds=0.01):
        seen.append(event)
        if len(seen) == 4 * (32 + 8 * 3):
            break
    for thread in threads:
        thread.join()
    assert seen == list(session.events())
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))


def test_a_follower_sees_what_other_processes_append_without_gap_or_repeat(session, place, python):
    """L10, L2"""
    writers = [python(WRITE, place, session.id, 1_000 * n, 30) for n in range(1, 3)]
    written, seen = [session.append("a.b", n) for n in range(10)], []
    for event in session.follow(poll_seconds=0.01, idle_seconds=60):
        seen.append(event)
        if len(seen) % 20 == 0:
            written.append(session.append("a.b", len(seen)))  # the follower writes too
        if len(seen) == 70 + len(seen) // 20:
            break
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen == list(session.events(limit=len(seen)))
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    theirs = sorted(event.payload for event in seen if event.payload >= 1_000)
    assert theirs == [*range(1_000, 1_030), *range(2_000, 2_030)]


def test_appends_of_this_process_are_seen_at_once_and_not_at_the_next_look(session):
    """L10: the pause between two looks is a minute, and the test does not take one"""
    following, seen, done = session.follow(poll_seconds=60), [], threading.Event()

    def look() -> None:
        seen.extend(next(following) for _ in range(3))
        done.set()

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(3):
        session.append("a.b", number)
    assert done.wait(50)
    thread.join()
    assert [event.payload for event in seen] == [0, 1, 2]


def test_two_followers_do_not_disturb_each_other(session):
    """L10"""
    written = [session.append("a.b", n) for n in range(5)]
    one, other = session.follow(), session.follow(after=written[1].id)
    assert [next(one), next(other), next(one), next(other)] == [
        written[0],
        written[2],
        written[1],
        written[3],
    ]


def test_following_begins_only_where_an_event_of_the_session_is(session):
    """L10"""
    session.append("a.b")
    with pytest.raises(NotFound):
        session.follow(after=new_event_id())
    with pytest.raises(InvalidInput):
        session.follow(after="e1")


@pytest.mark.parametrize("pause", [0, -1, 61, float("nan"), float("inf")])
def test_the_pause_between_two_looks_has_limits(session, pause):
    """Invariant 12"""
    with pytest.raises(InvalidInput, match="poll_seconds"):
        session.follow(poll_seconds=pause)


def test_closing_the_vault_ends_a_follower_with_that_word(session, vault):
    """L10"""
    session.append("a.b")
    following, ended = session.follow(poll_seconds=60), []
    next(following)

    def look() -> None:
        with pytest.raises(VaultClosed):
            next(following)
        ended.append(True)

    thread = threading.Thread(target=look)
    thread.start()
    vault.close()
    thread.join(50)
    assert ended == [True]


def test_a_follower_sees_a_run_and_what_is_posted_to_it_in_the_logs_order(session):
    """L10, S6"""
    seen = []
    stop = threading.Event()
    follower = threading.Thread(target=lambda: seen.extend(session.follow(stop=stop, poll_seconds=0.01)))
    follower.start()
    with session.run() as run:
        for number in range(20):
            run.append("a.b", number)
            session.post("message.user", {"content": str(number)})
        run.effect("mail", "1").once(lambda _: 7)
        run.checkpoint()
    session.end()
    follower.join(60)
    stop.set()
    assert not follower.is_alive()
    assert seen == list(session.events())
    assert [event.seq for event in seen] == list(range(1, 46))


def test_following_a_fork_from_an_event_that_it_shares_catches_up_across_the_fork_point(alice, session):
    """L10, S1"""
    shared = [session.append("a.b", n) for n in range(5)]
    fork = alice.fork(session.id, at=shared[3].id)
    own = [fork.append("a.b", n) for n in range(2)]
    session.append("a.b", "of the original only")
    for start, wanted in ((None, shared[:4] + own), (shared[1], shared[2:4] + own), (own[0], own[1:])):
        after = None if start is None else start.id
        assert list(fork.follow(after=after, idle_seconds=0, poll_seconds=0.01)) == wanted
    with pytest.raises(NotFound):
        fork.follow(after=shared[4].id)
