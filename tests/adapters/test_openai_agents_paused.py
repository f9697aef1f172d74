"""A run that waits for an approval is kept with its conversation, and gone on with once."""

import asyncio
import json
from datetime import timedelta

import pytest
from agents import RunContextWrapper, function_tool

from tests.adapters.openai_agents.talk import asked, kinds, said, scripted, write_locked
from tests.security import surgery
from vault import Principal, Vault
from vault.adapters.openai_agents import VaultSession, conversations
from vault.errors import Conflict, Erased, InvalidInput, Tampered

ran = asyncio.run
ALICE = Principal(tenant="acme", subject="alice")


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    return f"paid {amount}"


def payer():
    return scripted([("pay", '{"amount": 7}', "c1")], "done", tools=[pay])


@pytest.fixture
def talk(alice):
    return VaultSession("talk", alice)


async def paused(agent, talk):
    """The agent's run up to its approval, kept."""
    result = await asked(agent, "pay 7", talk)
    await talk.pause(result.to_state())


@pytest.mark.parametrize("streamed", [False, True], ids=["run", "streamed"])
def test_a_kept_run_goes_on_in_another_process(alice, talk, streamed):
    """S1."""
    agent = payer()
    ran(paused(agent, talk))

    async def approved():
        other = VaultSession("talk", alice)
        state = await other.resume(agent)
        state.approve(state.get_interruptions()[0])
        return await asked(agent, state, other, streamed=streamed)

    assert ran(approved()).final_output == "done"
    items = ran(talk.get_items())
    assert kinds(items) == ["user", "function_call", "function_call_output", "message"]
    assert ran(talk.resume(agent)) is None


def test_one_of_many_goes_on_with_it(alice, talk, place, python):
    """D4: an approved payment is not made twice, though all have seen that it waits."""
    agent = payer()
    ran(paused(agent, talk))
    talks = [VaultSession("talk", alice) for _ in range(4)]

    async def at_once():
        with write_locked(place, python) as let_go:
            tasks = [asyncio.create_task(one.resume(agent)) for one in talks]
            await asyncio.sleep(0.5)
            await asyncio.to_thread(let_go)
            return await asyncio.gather(*tasks)

    assert sum(state is not None for state in ran(at_once())) == 1


def test_a_newer_one_takes_the_place_of_an_older_one(talk):
    """D4: the older one is erased."""
    agent = payer()
    ran(paused(agent, talk))
    ran(paused(payer(), talk))
    kept = list(talk.vault_session().events(types=["openai.paused"]))
    assert [event.erased for event in kept] == [True, False]
    assert ran(talk.resume(agent)) is not None
    assert ran(talk.resume(agent)) is None


def test_nobody_else_goes_on_with_it_and_no_other_conversation(vault, principal, alice, talk):
    """A1, A2: the SDK itself resumes a run over any session that it is given."""
    agent = payer()
    ran(paused(agent, talk))
    assert ran(VaultSession("other", alice).resume(agent)) is None
    for other in (principal("bob"), principal("alice", tenant="other")):
        assert ran(VaultSession("talk", vault.access(other)).resume(agent)) is None
    assert ran(talk.resume(agent)) is not None


@pytest.mark.parametrize("how", ["pop", "clear", "expire", "compaction"])
def test_what_is_taken_back_is_not_kept_in_a_paused_run(talk, how):
    """D4: it holds a copy of every item."""
    ran(paused(payer(), talk))
    uses = {
        "pop": talk.pop_item,
        "clear": talk.clear_session,
        "expire": lambda: talk.expire_items(timedelta(0)),
        "compaction": lambda: talk._atomic_replace_items([said("in short")]),
    }
    ran(uses[how]())
    assert ran(talk.resume(payer())) is None
    assert [event.erased for event in talk.vault_session().events(types=["openai.paused"])] == [True]


def test_clearing_takes_a_paused_run_that_stands_alone(talk):
    """D4: kept after the last clearing, before any item."""
    agent = payer()
    state = ran(asked(agent, "pay 7", None)).to_state()
    ran(talk.pause(state))
    ran(talk.clear_session())
    ran(talk.pause(state))
    ran(talk.clear_session())
    assert ran(talk.resume(agent)) is None
    assert {event.erased for event in talk.vault_session().events(types=["openai.paused"])} == {True}


def test_a_paused_run_goes_with_its_conversation(talk):
    ran(paused(payer(), talk))
    ran(talk.erase())
    with pytest.raises(Erased):
        ran(talk.resume(payer()))


def test_a_hold_keeps_a_paused_run_where_it_is(officer, talk):
    """R3: nothing is given out that could not be taken."""
    agent = payer()
    ran(paused(agent, talk))
    hold = officer.holds.place(session=talk.vault_session().id, reason="case 7")
    with pytest.raises(Conflict, match="hold"):
        ran(talk.resume(agent))
    officer.holds.lift(hold.id, reason="closed")
    assert ran(talk.resume(agent)) is not None


def test_a_changed_paused_run_is_refused(place):
    """K2: an approval that nobody gave cannot be written in."""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        ran(paused(payer(), VaultSession("talk", vault.access(ALICE))))
    with surgery.opened(place) as connection:
        query = "SELECT blob_no FROM events WHERE type = 'openai.paused'"
        [[number]] = connection.execute(query)
        [[body]] = connection.execute("SELECT body FROM blobs WHERE no = ?", (number,))
        surgery.update(connection, "blobs", {"no": number}, body=surgery.flipped(body, at=len(body) // 2))
    with Vault.open(place) as vault, pytest.raises(Tampered):
        ran(VaultSession("talk", vault.access(ALICE)).resume(payer()))


def test_its_context_is_written_and_read_as_the_application_says(talk):
    class Context:
        def __init__(self, user):
            self.user = user

    agent = payer()

    async def kept():
        result = await asked(agent, "pay 7", talk, context=Context("u"))
        await talk.pause(result.to_state(), context_serializer=lambda context: {"user": context.user})
        return await talk.resume(agent, context_deserializer=lambda document: Context(document["user"]))

    state = ran(kept())
    assert isinstance(state._context, RunContextWrapper)
    assert state._context.context.user == "u"


def test_what_json_cannot_hold_is_refused_and_the_older_one_stays(talk):
    agent = payer()
    ran(paused(agent, talk))

    class Odd:
        def to_string(self):
            return json.dumps({"n": float("nan")})

    with pytest.raises(InvalidInput):
        ran(talk.pause(Odd()))
    assert ran(talk.resume(agent)) is not None


def test_nothing_of_it_stands_in_any_file(vault, talk, files_with):
    """K1."""
    agent = scripted([("pay", '{"amount": 7}', "canary-88d1")], "done", tools=[pay])
    ran(paused(agent, talk))
    vault.close()
    assert files_with("canary-88d1") == []


def test_a_principal_lists_its_conversations(vault, principal, alice):
    """A1: the SDK's stores cannot; what was erased is not among them."""
    long_name = "very-long-" * 100
    for name in ("one", "two", long_name):
        ran(VaultSession(name, alice).add_items([said("x")]))
    ran(VaultSession("theirs", vault.access(principal("bob"))).add_items([said("x")]))
    ran(VaultSession("one", alice).erase())
    listed = dict(conversations(alice))
    assert set(listed) == {"two", long_name}
    assert listed["two"].id == VaultSession("two", alice).vault_session().id
