"""What is derived while a session is attached comes from it, without anybody naming it. D4."""

import asyncio
from contextvars import copy_context

import pytest

from vault import Principal
from vault.errors import InvalidInput, NotFound

ALICE = Principal(tenant="acme", subject="alice")
BOB = Principal(tenant="acme", subject="bob")


@pytest.fixture
def access(vault):
    return vault.access(ALICE)


def alone(work):
    """Runs in a context of its own: what is attached in it ends with it."""
    return copy_context().run(work)


def sources(memory):
    return {source.id for source in memory.sources}


def test_a_memory_comes_from_the_session_that_is_attached(access, session):
    def work():
        session.attach()
        session.attach()
        return access.memories.put(("facts",), "k", 1)

    memory = alone(work)
    assert sources(memory) == {session.id}
    access.erasure.erase(session=session.id)
    assert access.memories.search() == []


def test_another_session_takes_its_place_and_inherits_nothing(access):
    """D4: no innocent sibling is erased"""
    first, second = access.sessions.create(), access.sessions.create()

    def work():
        first.attach()
        one = access.memories.put(("facts",), "one", 1)
        second.attach()
        two = access.memories.put(("facts",), "two", 2)
        first.attach()
        return one, two, access.memories.put(("facts",), "three", 3)

    one, two, three = alone(work)
    assert [sources(one), sources(two), sources(three)] == [{first.id}, {second.id}, {first.id}]


def test_what_was_read_meanwhile_is_a_source_too(access, session):
    other = access.sessions.create()
    other.append("message.user", "x")

    def work():
        session.attach()
        list(other.events())
        return access.memories.put(("facts",), "k", 1)

    assert sources(alone(work)) == {session.id, other.id}


def test_a_run_keeps_what_it_knows_when_a_session_is_attached_in_it(access, session):
    other = access.sessions.create()
    with session.run() as run, other.attached():
        inner = access.memories.put(("facts",), "inner", 1)
        run.append("message.agent", "x")
    # Nobody can tell which of the two it was made from.
    assert sources(inner) == {session.id, other.id}


def test_within_a_block_only(access, session):
    def work():
        with session.attached():
            memory = access.memories.put(("facts",), "k", 1)
        with pytest.raises(InvalidInput):
            access.memories.put(("facts",), "k", 2)
        return memory

    assert sources(alone(work)) == {session.id}


def test_a_block_ends_also_when_another_session_was_attached_within(access, session):
    other = access.sessions.create()

    def work():
        with session.attached():
            other.attach()
        with pytest.raises(InvalidInput):
            access.memories.put(("facts",), "k", 1)

    alone(work)


def test_a_block_that_ends_in_another_context_changes_nothing_there(access, session):
    """D4: a block that a task left open, ended by whoever tidies up"""
    block = session.attached()
    alone(block.__enter__)
    block.__exit__(None, None, None)
    with pytest.raises(InvalidInput):
        access.memories.put(("facts",), "k", 1)


def test_tasks_inherit_it(access, session):
    async def tool():
        return await asyncio.to_thread(access.memories.put, ("facts",), "k", 1)

    async def work():
        session.attach()
        return await asyncio.create_task(tool())

    assert sources(alone(lambda: asyncio.run(work()))) == {session.id}


def test_what_is_not_ones_own_is_not_attached(vault, session):
    """O1"""
    stolen = type(session)(vault._log, vault.access(BOB).sessions._authorise, session._row)
    for use in (stolen.attach, lambda: stolen.attached().__enter__()):
        with pytest.raises(NotFound):
            alone(use)
