"""Whose reads the audit trail holds is a setting: others' always, the owner's own where that is wanted.

K4.
"""

import pytest

from vault import Principal, Vault, new_run_id
from vault.config import FILE
from vault.errors import InvalidInput, NotFound
from vault.model import format_id, uuid7
from vault.policy.recovery import Trigger

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"agent", "owner"}))
BOB = Principal(tenant="acme", subject="bob")
DAN = Principal(tenant="acme", subject="dan", roles=frozenset({"auditor"}))
BY_HAND = Trigger(after_tool=False, every_events=None, every_seconds=None)

#: Every way of reading a session of one's own, and what stands in the trail for it.
READS = {
    "events": lambda session: list(session.events()),
    "newest": lambda session: list(session.events(limit=1, newest_first=True)),
    "slice": lambda session: list(session.slice(*[event.id for event in session.events(limit=2)])),
    "follow": lambda session: list(session.follow(idle_seconds=0)),
    "info": lambda session: session.info(),
    "effects": lambda session: session.effects(),
    "last-effect": lambda session: session.last_committed_effect(new_run_id(), "mail"),
    "last-checkpoint": lambda session: session.last_checkpoint(),
    "recover": lambda session: session.recover(),
    "replay": lambda session: list(session.replay()),
    "context": lambda session: session.context(max_events=1),
}


@pytest.fixture
def vault(place):
    with Vault.create(place, settings={"synchronous": "NORMAL", "audit_reads": "all"}) as opened:
        yield opened


def filled(vault):
    session = vault.access(ALICE).sessions.create(external_id="one")
    for number in range(3):
        session.append("a.b", number)
    return session


def used(vault, who):
    entries = vault.access(DAN).audit.entries(who=who, types=["access.used"], limit=1000)
    return [(entry.session_id, entry.said["action"], entry.said["level"]) for entry in entries][::-1]


@pytest.mark.parametrize("name", READS)
def test_each_read_of_ones_own_is_recorded_where_all_are(vault, name):
    """K4"""
    session = filled(vault)
    before = len(used(vault, "alice"))
    READS[name](session)
    made = used(vault, "alice")[before:]
    assert set(made) == {(session.id, "read", "L3")}
    assert len(made) == (2 if name == "slice" else 1)


def test_lists_and_forks_of_ones_own_are_recorded_and_what_shows_nothing_is_not(vault):
    """K4"""
    session = filled(vault)
    sessions = vault.access(ALICE).sessions
    before = len(used(vault, "alice"))
    sessions.resume(session.id)
    sessions.resume_external("one")
    session.append("a.b", 4)
    with session.run(checkpoints=BY_HAND) as run:
        run.append("a.b", 5)
    session.stop()
    assert used(vault, "alice")[before:] == []
    sessions.find()
    sessions.fork(session.id)
    assert used(vault, "alice")[before:] == [(None, "read", "L3"), (session.id, "fork", "L3")]


def test_an_agents_reads_within_a_run_are_recorded_too(vault):
    """K4"""
    session = filled(vault)
    before = len(used(vault, "alice"))
    with session.run(checkpoints=BY_HAND) as run:
        run.inbox()
        run.checkpoint()
    assert used(vault, "alice")[before:] == [(session.id, "read", "L3")] * 2


def test_nothing_of_ones_own_is_returned_when_the_trail_cannot_be_written(vault, monkeypatch):
    """K4"""
    session = filled(vault)

    def refused(*_, **__):
        raise OSError

    monkeypatch.setattr(type(vault._trail), "write", refused)
    with pytest.raises(OSError):  # noqa: PT011
        next(session.events())


def test_what_is_denied_or_absent_is_not_recorded(vault):
    """K4, O1"""
    session = filled(vault)
    used_before = used(vault, "bob"), used(vault, "alice")
    absent = format_id("ses", uuid7())
    for who, asked in ((BOB, session.id), (BOB, absent), (ALICE, absent)):
        with pytest.raises(NotFound, match="there is no such session"):
            vault.access(who).sessions.resume(asked)
        with pytest.raises(NotFound, match="there is no such session"):
            vault.access(who).sessions.fork(asked)
    assert (used(vault, "bob"), used(vault, "alice")) == used_before


def test_by_default_the_owners_own_reads_are_not_recorded(place):
    """K4: what others read is, whatever is set"""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        assert 'audit_reads = "others"' in (place / FILE).read_text(encoding="utf-8")
        session = filled(vault)
        for read in READS.values():
            read(session)
        vault.access(ALICE).sessions.find()
        assert vault._trail._kept == {}  # there is no trail yet
        vault.access(ALICE).grants.give(session.id, "bob")
        list(vault.access(BOB).sessions.resume(session.id).events())
        assert used(vault, "alice") == []
        assert used(vault, "bob") == [(session.id, "read", "L1")]


@pytest.mark.parametrize("wrong", ["none", "", "ALL", True])
def test_another_value_is_refused(place, wrong):
    with pytest.raises(InvalidInput, match="audit_reads"):
        Vault.create(place, settings={"audit_reads": wrong})


def test_the_trail_with_own_reads_verifies(vault):
    """K4"""
    session = filled(vault)
    list(session.events())
    assert vault.verify().ok
