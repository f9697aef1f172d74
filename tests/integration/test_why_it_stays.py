"""Why something that is due is still there: what the next sweep will do, and because of what. D1, D3."""

from datetime import timedelta

import pytest

from vault import Principal, Vault
from vault.errors import NotFound

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
HOUR = 3_600_000_000
DAY = 24 * HOUR
YEAR, GRACE = 365 * DAY, 7 * DAY  # of the policy that comes with the vault

RULE = """
[[retention]]
id = "{id}"
match = {{ kind = [{kind}], labels = {{ {labels} }} }}
anchor = "last_event"
keep_min = {least}
expire_after = "{days}d"
on_expire = "{then}"
grace = "7d"
derived = {{}}
applies_to = "new"
"""


def rule(id, kind, days, labels="", least='"0d"', then="erase"):
    return RULE.format(id=id, kind=kind, days=days, labels=labels, least=least, then=then)


POLICY = 'version = 1\nname = "mine"\n' + "".join(
    (
        rule("sessions", '"session", "artifact"', 10),
        rule("trials", '"session"', 30, labels='area = "trial"', then="review"),
        rule("memories", '"memory"', 200, least='{ for = "100d", basis = "contract", ref = "7" }'),
        rule("others", '"summary", "embedding", "cache", "structure", "proof", "export"', 400),
    )
)


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def officer(vault):
    return vault.access(OFFICER)


@pytest.fixture
def session(alice):
    made = alice.sessions.create(title="August sales")
    made.append("message.user", {"content": "hello"})
    return made


@pytest.fixture
def later(clock, officer):
    """Lets time pass; somebody looked at the clock."""

    def pass_by(us):
        clock.now += us
        officer.retention.trust_clock()

    return pass_by


def test_what_the_next_sweep_takes_is_said_to_go(alice, officer, session, later):
    later(YEAR + GRACE)
    told = alice.retention.explain(session.id)
    assert (told.state, told.stays, told.because_of) == ("DUE", None, None)
    assert told.text.endswith("It is due, and is erased by the next sweep.")
    assert officer.retention.run().going == 1


@pytest.mark.parametrize("how", ["it takes that over", "it cannot"])
def test_a_fork_that_shares_it_is_named_with_its_date(alice, officer, session, later, how):
    """S4: and what the next sweep then does is what was said"""
    later(YEAR // 2)
    fork = alice.sessions.fork(session.id)
    if how == "it cannot":  # behind the fork point stands a fact that the fork must not be told
        session.retract([session.append("message.user", 1, epoch=1).id])
    later(YEAR // 2 + GRACE) if how == "it takes that over" else later(YEAR - DAY)
    if how == "it cannot":
        fork.append("message.user", 1)
        later(GRACE + DAY)
    told = alice.retention.explain(session.id)
    assert (told.state, told.stays, told.because_of) == ("DUE", "fork", fork.id)
    assert "It has been due since 2028-0" in told.text
    assert f"The fork {fork.id} shares it. The next sweep makes that the fork's own where it can" in told.text
    assert "else this stays as long as the fork, until 202" in told.text
    officer.retention.run()
    if how == "it takes that over":
        with pytest.raises(NotFound):
            alice.retention.explain(session.id)
    else:
        assert alice.retention.explain(session.id).because_of == fork.id
    assert fork.info().id == fork.id


def test_what_is_held_and_was_made_from_it_is_named(alice, officer, session, later):
    """D2: a hold on another source keeps what came from both, and its key needs this one"""
    other = alice.sessions.create()
    memory = alice.memories.put(("n",), "k", 1, sources=[session, other], ttl=timedelta(days=3_000))
    hold = officer.holds.place(session=other.id, reason="case")
    later(YEAR + GRACE)
    told = alice.retention.explain(session.id)
    assert (told.state, told.stays, told.because_of) == ("DUE", "hold", memory.id)
    assert f"because {memory.id}, which was made from it, is kept by a hold" in told.text
    assert officer.retention.run().going == 0
    officer.holds.lift(hold.id, reason="over")
    assert alice.retention.explain(session.id).stays is None
    assert officer.retention.run().going == 3


def test_what_somebody_asked_to_erase_says_what_still_keeps_it(alice, officer, session):
    """D2: a request, not an expiry, made it due; the end of the chain is named, not its middle"""
    other = alice.sessions.create()
    middle = alice.memories.put(("n",), "k", 1, sources=[session])
    last = alice.memories.put(("n",), "l", 1, sources=[middle, other])
    officer.holds.place(session=other.id, reason="case")
    alice.erasure.erase(session=session.id)
    told = officer.retention.explain(session.id)
    assert (told.state, told.stays, told.because_of) == ("DUE", "hold", last.id)
    assert told.text.startswith("Somebody asked for its erasure on ")


def test_a_minimum_of_what_was_made_from_it_is_said_with_its_date(alice, officer, later):
    officer.policies.activate(POLICY)
    session = alice.sessions.create()
    memory = alice.memories.put(("n",), "k", 1, sources=[session])
    later(10 * DAY + GRACE)
    told = alice.retention.explain(session.id)
    assert (told.state, told.stays, told.because_of) == ("DUE", "minimum", memory.id)
    assert f"because {memory.id}, which was made from it, is not erased before 2027-04-25." in told.text
    assert officer.retention.run().going == 0


def test_what_waits_for_a_person_says_so(alice, officer, later):
    officer.policies.activate(POLICY)
    session = alice.sessions.create(labels={"area": "trial"})
    later(30 * DAY + GRACE)
    told = alice.retention.explain(session.id)
    assert (told.state, told.stays) == ("DUE", "review")
    assert "It stays until a person erases it" in told.text
    assert officer.retention.run().review == 1


def test_more_than_goes_by_itself_says_so_until_somebody_lets_it_go(vault, alice, officer, later):
    """D3: the blast cap"""
    sessions = [alice.sessions.create() for _ in range(21)]
    later(YEAR + GRACE)
    told = alice.retention.explain(sessions[0].id)
    assert (told.state, told.stays) == ("DUE", "over_cap")
    assert "until a privacy officer lets the sweep go on" in told.text
    officer.retention.run(token=officer.retention.preview().token)
    with pytest.raises(NotFound):
        alice.retention.explain(sessions[0].id)


def test_an_old_version_stays_while_the_newer_one_does(alice, officer, session, later):
    with session.run():
        old = alice.memories.put(("taste",), "tea", 1)
    later(YEAR - DAY)
    session.append("message.user", {"content": "still here"})
    with session.run():
        alice.memories.get(("taste",), "tea")
        alice.memories.put(("taste",), "tea", 2)
    later(2 * DAY + GRACE)
    told = alice.retention.explain(old.id)
    assert (told.state, told.stays) == ("DUE", "newer_version")
    assert officer.retention.run().going == 0


def test_nothing_of_anybody_else_is_named(vault, alice, officer, session, later):
    """O1: an officer is told the id; the owner only that something keeps it"""
    bob = vault.access(BOB)
    alice.grants.give(session.id, "bob", level="L3")
    memory = bob.memories.put(("n",), "k", 1, sources=[session.id], ttl=timedelta(days=3_000))
    officer.holds.place(subject="bob", reason="case")
    later(YEAR + GRACE)
    told = alice.retention.explain(session.id)
    assert (told.stays, told.because_of) == ("hold", None)
    assert memory.id not in told.text
    assert officer.retention.explain(session.id).because_of == memory.id
