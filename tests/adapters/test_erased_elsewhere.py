"""What adapters hold in memory goes when another process erases it, with what this one does next. D2, D6."""

import asyncio
import gc
import weakref

import pytest

from tests.adapters.google_adk_case import Services, said
from tests.adapters.langgraph_case import at, chain, put, values_of
from tests.security.test_keys_in_memory import all_rows, put_back
from vault import Principal, Vault
from vault.adapters.langgraph import VaultSaver
from vault.errors import Erased

BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"agent"}))


@pytest.fixture
def theirs(vault, place, principal):
    """The vault as another process has it open, and its access for the same person."""
    with Vault.open(place) as opened:
        yield opened, opened.access(principal("alice"))


def look(vault):
    """Something that has nothing to do with what was erased."""
    vault.access(BOB).sessions.create().info()


def is_held(reference):
    gc.collect()
    return reference() is not None


def test_a_thread_that_another_process_erased_does_not_stay_unsealed(vault, alice, theirs):
    """Also when nobody asks for it again; others stay"""
    mine, (their_vault, access) = VaultSaver(alice), theirs
    saver = VaultSaver(access)
    chain(mine, "erased", [{"topic": "CANARY " * 40}])
    chain(mine, "kept", [{"topic": "tea"}])
    for thread in ("erased", "kept"):
        assert values_of(saver, at(thread))
    erased, kept = (weakref.ref(saver._threads._known[thread]) for thread in ("erased", "kept"))
    mine.delete_thread("erased")
    look(their_vault)
    assert not is_held(erased)
    assert is_held(kept)
    assert saver.get_tuple(at("erased")) is None
    with pytest.raises(Erased):
        put(saver, at("erased"), {"topic": "late"})
    assert values_of(saver, at("kept")) == {"topic": "tea"}


def test_a_thread_that_is_put_back_is_read_by_no_other_process(alice, theirs, place):
    """D6: all of data.db as it was before the thread was erased"""
    mine, saver = VaultSaver(alice), VaultSaver(theirs[1])
    chain(mine, "erased", [{"topic": "CANARY"}, {"topic": "more"}])
    assert values_of(saver, at("erased"))
    rows = all_rows(place)
    mine.delete_thread("erased")
    put_back(place, rows)
    assert saver.get_tuple(at("erased")) is None
    with pytest.raises(Erased):
        put(saver, at("erased"), {"topic": "late"})


def test_copies_of_a_saver_forget_too(vault, alice, theirs):
    """A graph is compiled with a saver of its own; all of them are told"""
    mine, (their_vault, access) = VaultSaver(alice), theirs
    chain(mine, "erased", [{"topic": "CANARY"}])
    savers = [VaultSaver(access) for _ in range(3)]
    for saver in savers:
        assert values_of(saver, at("erased"))
    mine.delete_thread("erased")
    look(their_vault)
    assert [list(saver._threads._known) for saver in savers] == [[], [], []]


def test_a_saver_that_is_gone_is_not_kept_by_the_vault(vault, alice, theirs):
    """A server makes one for each request"""
    their_vault, access = theirs
    before = len(their_vault._keys.kept._told)
    for number in range(20):
        put(VaultSaver(access), at(f"thread {number}"), {"topic": "tea"})
    gc.collect()
    VaultSaver(alice).delete_thread("thread 3")
    look(their_vault)
    assert len(their_vault._keys.kept._told) == before


def test_a_session_of_adk_that_another_process_erased_does_not_stay_in_memory(vault, alice, theirs):
    """Its state is unsealed in the service's memory"""
    their_vault, access = theirs
    place = {"app_name": "app", "user_id": "user", "session_id": "one"}

    async def work():
        mine, other = Services.of(alice).sessions, Services.of(access).sessions
        session = await mine.create_session(**place, state={"first": "CANARY"})
        await mine.append_event(session, said("hello"))
        assert (await other.get_session(**place)).state["first"] == "CANARY"
        known = other._records._known
        (record,) = [weakref.ref(one) for ids, one in known.items() if ids[0] == "session"]
        await mine.delete_session(**place)
        look(their_vault)
        assert not is_held(record)
        assert await other.get_session(**place) is None

    asyncio.run(work())
