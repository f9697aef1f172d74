"""What nobody can mean is refused before anything is stored or erased: lives of items, holds, and who holds.

D1, D2, D5, O2.
"""

import math
import os
from datetime import timedelta
from functools import partial

import pytest

from vault import Principal, Vault
from vault.errors import InvalidInput, NotFound

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"agent", "owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
AUDITOR = Principal(tenant="acme", subject="otto", roles=frozenset({"auditor"}))
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

#: By which name a test shows them.
LIVES = {
    "zero": 0,
    "minus-one": -1,
    "true": True,
    "nan": math.nan,
    "inf": math.inf,
    "text": "30",
    "text-with-unit": "30d",
    "tiny": 1e-9,
    "64-bits": 2**63,
    "99-years": "P99Y",
    "list": [DAY],
    "no-time": timedelta(0),
    "before-now": -DAY,
    "a-microsecond": timedelta(microseconds=1),
    "just-short-of-a-second": timedelta(microseconds=999_999),
    "more-than-a-century": timedelta(days=36_526),
    "as-long-as-can-be": timedelta.max,
}


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
    return alice.sessions.create(labels={"case": "7"})


# ----------------------------------------------------------------------------------------------- lives


@pytest.mark.parametrize("what", ["memory", "artifact"])
@pytest.mark.parametrize("name", LIVES)
def test_a_life_that_cannot_be_meant_is_refused_and_nothing_is_stored(vault, alice, session, what, name):
    """D1, O2"""
    puts = {
        "memory": partial(alice.memories.put, ("n",), "k", 1),
        "artifact": partial(alice.artifacts.put, "a", os.urandom(90_000)),
    }
    with pytest.raises(InvalidInput) as refused:
        puts[what](sources=[session], ttl=LIVES[name])
    assert "\n" not in str(refused.value)
    with vault._records.snapshot() as reader:
        assert list(reader.scan("all_items", after=0, limit=10)) == []
    assert [file for file in (vault._directory / "blobs").rglob("*") if file.is_file()] == []


@pytest.mark.parametrize("ttl", [timedelta(seconds=1), 36_525 * DAY], ids=["a-second", "a-century"])
def test_the_shortest_and_the_longest_life_are_taken(alice, session, ttl):
    """D1"""
    made = alice.memories.put(("n",), "k", 1, sources=[session], ttl=ttl)
    assert made.expires_at <= alice.memories.get(("n",), "k").created_at + min(ttl, 366 * DAY)


# ----------------------------------------------------------------------------------------------- holds


@pytest.mark.parametrize("subject", ["", " ", "\t", "*", "%", "**", "?", "\u200b", "\u3000"], ids=repr)
def test_a_hold_on_nobody_is_refused_and_not_on_record(vault, officer, session, subject):
    """D2, O2: it would keep nothing, and say that it does"""
    with pytest.raises(InvalidInput):
        officer.holds.place(subject=subject, reason="case 7")
    assert officer.holds.list(lifted=True) == []
    entries = vault.access(AUDITOR).audit.entries(types=["hold.placed"], limit=10)
    assert list(entries) == []


@pytest.mark.parametrize("label", [("", "7"), ("case", ""), ("case",), "case=7", ("case", 7), ("case", None)])
def test_a_hold_on_a_label_that_is_none_is_refused(officer, session, label):
    """D2, O2"""
    with pytest.raises(InvalidInput):
        officer.holds.place(label=label, reason="case 7")
    assert officer.holds.list(lifted=True) == []


def test_placing_and_lifting_a_hold_are_on_record_with_who_and_why(vault, officer, session):
    """D2, K4: for an auditor; lifting again, which does nothing, is no entry"""
    hold = officer.holds.place(session=session.id, reason="case 7")
    eve = vault.access(Principal(tenant="acme", subject="eve", roles=frozenset({"privacy_officer"})))
    eve.holds.lift(hold.id, reason="settled")
    with pytest.raises(NotFound):
        officer.holds.lift(hold.id, reason="again")
    audit = vault.access(AUDITOR).audit
    lifted, placed = audit.entries(types=["hold.placed", "hold.lifted"], limit=10)
    number = hold.id.partition("_")[2].replace("-", "")
    assert (placed.what, placed.said["scope"], placed.said["reason"]) == ("hold.placed", "session", "case 7")
    assert (lifted.what, lifted.said) == ("hold.lifted", {"hold": number, "reason": "settled"})
    assert placed.said["hold"] == number
    for entry, who, other in ((placed, "pia", "eve"), (lifted, "eve", "pia")):
        assert [one.seq for one in audit.entries(who=who, types=[entry.what], limit=10)] == [entry.seq]
        assert list(audit.entries(who=other, types=[entry.what], limit=10)) == []


# -------------------------------------------------------------------------------------------- lineage


@pytest.mark.parametrize("swept", [False, True], ids=["hidden", "swept"])
@pytest.mark.parametrize("rule", ["erase_with_any", "erase_with_last", "recompute"])
def test_what_came_from_something_expired_still_goes_with_the_session(
    vault, alice, officer, session, clock, swept, rule
):
    """D3, D4: an item in the middle that is hidden, or gone, routes the cascade"""
    middle = alice.memories.put(("n",), "middle", 1, sources=[session], ttl=HOUR)
    last = alice.artifacts.put("last", b"1", sources=[middle], on_source_erased=rule)
    other = alice.memories.put(("n",), "other", 1, sources=[alice.sessions.create()])
    clock.now += 3_600_000_000 + 1
    with pytest.raises(NotFound):
        alice.memories.get(("n",), "middle")
    if swept:
        clock.now += 8 * 24 * 3_600_000_000
        officer.retention.trust_clock()
        officer.retention.run()
    else:
        assert alice.artifacts.get("last").id == last.id  # it has a life of its own
    alice.erasure.erase(session=session.id)
    with pytest.raises(NotFound):
        alice.artifacts.get("last")
    with vault._records.snapshot() as reader:
        left = {id_ for (id_,) in reader.scan("all_item_ids")}
    assert left == {bytes.fromhex(other.id.partition("_")[2].replace("-", ""))}
    assert vault.verify().findings == ()
