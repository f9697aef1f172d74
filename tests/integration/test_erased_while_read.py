"""A reader in the midst of a session that another process erases: it stops, and opens nothing more of it."""

import os
import time

import pytest

from vault import Principal
from vault.errors import NotFound
from vault.sessions import read

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"agent", "owner"}))
PAGE = read._PAGE
ERASE = """
import sys
from vault import Principal, Vault
place, session_id, what = sys.argv[1:]
with Vault.open(place) as vault:
    access = vault.access(Principal(tenant="acme", subject="alice", roles={"agent", "owner"}))
    if what == "session":
        access.erasure.erase(session=session_id)
    elif what == "epoch":
        access.sessions.resume(session_id).retract_epoch(1)
    else:
        session = access.sessions.resume(session_id)
        session.retract([event.id for event in session.events() if event.epoch])
"""


@pytest.fixture
def session(vault):
    return vault.access(ALICE).sessions.create()


@pytest.fixture
def erase(python, place, session):
    """Erases it, or events of it, in another process; done when this returns."""

    def done(what="session"):
        _, said = python(ERASE, place, session.id, what).communicate()
        assert not said

    return done


@pytest.fixture
def hours_pass(monkeypatch):
    """The reader's clock runs ahead from here on; nobody else's does."""

    def ahead():
        monkeypatch.setattr(read, "monotonic_seconds", lambda: time.monotonic() + 3_600)

    return ahead


WAYS = {
    "events": lambda session: session.events(),
    "of a type": lambda session: session.events(types=["a.b"]),
    "of types": lambda session: session.events(types=["a.b", "c.d"]),
    "newest first": lambda session: session.events(newest_first=True, limit=2 * PAGE),
    "follow": lambda session: session.follow(poll_seconds=0.01),
    "replay": lambda session: (step.event for step in session.replay()),
}


def read_on(events):
    """What is still given out, until it stops."""
    rest = []
    with pytest.raises(NotFound):
        rest.extend(events)
    return rest


@pytest.mark.parametrize("way", WAYS)
def test_a_reader_in_the_midst_of_a_page_stops_at_the_next_one(session, erase, way):
    """D6, D7: of what was read before the fence; nothing is read after it"""
    written = [session.append("a.b", number) for number in range(2 * PAGE + 10)]
    events = WAYS[way](session)
    first = next(events)
    erase()
    given = [first, *read_on(events)]
    assert len(given) <= PAGE
    assert {event.id for event in given} <= {event.id for event in written}


@pytest.mark.parametrize("way", WAYS)
def test_a_reader_that_was_slow_opens_nothing_more(session, erase, hours_pass, way):
    """D6: also not of the page that it has in hand, with the keys to it"""
    for number in range(2 * PAGE + 10):
        session.append("a.b", number)
    events = WAYS[way](session)
    next(events)
    erase()
    hours_pass()
    assert read_on(events) == []


@pytest.mark.parametrize("what", ["epoch", "events"])
def test_a_reader_that_was_slow_opens_no_event_that_was_erased(session, erase, hours_pass, what):
    """D6: of a session that lives on"""
    for number in range(20):
        session.append("a.b", number, epoch=number % 2)
    events = session.events()
    assert next(events).payload == 0
    erase(what)
    hours_pass()
    seen = list(events)
    assert [event.payload for event in seen if event.type == "a.b"] == [
        None if number % 2 else number for number in range(1, 20)
    ]


def test_files_that_went_meanwhile_are_no_tampering(session, erase):
    """K4, D6: a payload in a file of its own is gone with the session, and that is said"""
    for _ in range(5):
        session.append("file.read", raw=os.urandom(90_000))
    events = session.events()
    next(events)
    erase()
    assert read_on(events) == []


def test_a_reader_that_waits_for_more_is_told(session, erase):
    """D7"""
    session.append("a.b", 1)
    following = session.follow(poll_seconds=0.01)
    next(following)
    erase()
    assert read_on(following) == []


def test_a_reader_that_is_slow_reads_all_the_same(session, monkeypatch):
    """L10: nothing is left out, or given twice"""
    written = [session.append("a.b", number).id for number in range(PAGE + 10)]
    clock = iter(range(10**9))
    monkeypatch.setattr(read, "monotonic_seconds", lambda: 2.0 * next(clock))
    assert [event.id for event in session.events()] == written
    assert [event.id for event in session.events(newest_first=True, limit=PAGE)] == written[: -PAGE - 1 : -1]
