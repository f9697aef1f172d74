"""What goes with one source and is to be made again from the others is asked for (D4)."""

import contextlib
import dataclasses
import sqlite3
from datetime import timedelta

import pytest

from vault import Principal, Vault
from vault.erasure.retention import sweep_all
from vault.errors import InvalidInput, NotFound, StorageUnavailable, Tampered
from vault.sealing.receipts import verified

ALICE = Principal(tenant="acme", subject="alice", roles={"owner"})
BOB = Principal(tenant="acme", subject="bob", roles={"owner"})
PIA = Principal(tenant="acme", subject="pia", roles={"privacy_officer"})
OTTO = Principal(tenant="acme", subject="otto", roles={"auditor"})
DAY = 24 * 3_600_000_000
SPACE = ("users", "alice")
AGAIN = {"on_source_erased": "recompute"}


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def sessions(alice):
    return [alice.sessions.create(title=f"number {number}") for number in range(3)]


@pytest.fixture
def sweep(vault, clock, alice):
    """Lets time pass, somebody looking at the clock every day, and sweeps."""

    def swept(days):
        for _ in range(days):
            clock.now += DAY
            sweep_all(vault._parts)

    return swept


def stepped(parts, step):
    """The parts of a vault, of whose erasures somebody is told each step."""
    return dataclasses.replace(parts, execution=dataclasses.replace(parts.execution, step=step))


def put(alice, *sources, key="tea", value="a secret", **more):
    return alice.memories.put(SPACE, key, value, sources=sources, **{**AGAIN, **more})


def rows(vault):
    with vault._records.snapshot() as reader:
        return {row[1]: row[8] for row in reader.scan("all_items", after=0, limit=1_000)}


def nothing_wrong(vault):
    assert vault.verify().findings == ()
    return True


def test_what_went_with_one_source_is_asked_for_with_the_others(vault, alice, sessions):
    """D4: what names it, and nothing of its content"""
    made = put(alice, *sessions, labels={"case": "7"}, kind="summary")
    outcome = alice.erasure.erase(session=sessions[0].id)
    assert dict(outcome.counts) == {("session", "erased"): 1, ("summary", "recomputed"): 1}
    (asked,) = alice.derived.stale()
    assert (asked.namespace, asked.key, asked.kind, asked.labels) == (SPACE, "tea", "summary", {"case": "7"})
    assert [one.id for one in asked.sources] == [one.id for one in sessions[1:]]
    assert asked.id != made.id
    assert nothing_wrong(vault)
    assert outcome.state == "verified"


def test_what_is_asked_for_is_nowhere_to_be_read(vault, alice, sessions):
    """D4"""
    put(alice, *sessions)
    file = alice.artifacts.put("report", b"1" * 100_000, sources=sessions, media_type="text/plain", **AGAIN)
    alice.memories.list()
    alice.erasure.erase(session=sessions[0].id)
    found = alice.derived.stale()
    assert {(one.kind, one.key, one.media_type) for one in found} == {
        ("memory", "tea", None),
        ("artifact", "report", "text/plain"),
    }
    assert alice.memories.list() == alice.memories.search() == alice.memories.history(SPACE, "tea") == []
    assert alice.artifacts.list() == []
    for ask in (
        lambda: alice.memories.get(SPACE, "tea"),
        lambda: alice.artifacts.get("report"),
        lambda: alice.artifacts.get("report", 1),
        lambda: alice.artifacts.get("report", 2),
        lambda: alice.derived.lineage(found[0].id),
        lambda: put(alice, found[0].id, key="other"),
        file.open,
    ):
        with pytest.raises(NotFound):
            ask()
    states = [node.state for node in alice.derived.lineage(sessions[1].id).derived]
    assert states == ["stale", "stale"]


def test_a_new_version_settles_it(vault, alice, sessions, sweep):
    """D4: and the sweep takes what is left of the request"""
    put(alice, *sessions)
    alice.erasure.erase(session=sessions[0].id)
    (asked,) = alice.derived.stale()
    made = alice.memories.put(asked.namespace, asked.key, "new", sources=asked.sources)
    assert alice.derived.stale() == []
    assert alice.memories.get(SPACE, "tea").value == "new"
    assert [one.id for one in alice.memories.history(SPACE, "tea")] == [made.id]
    assert len(rows(vault)) == 2
    sweep(1)
    assert len(rows(vault)) == 1
    assert nothing_wrong(vault)


def test_an_artifact_is_settled_by_its_name(alice, sessions):
    alice.artifacts.put("report", b"1", sources=sessions, **AGAIN)
    alice.erasure.erase(session=sessions[0].id)
    (asked,) = alice.derived.stale()
    made = alice.artifacts.put(asked.key, b"2", sources=asked.sources, **AGAIN)
    assert alice.derived.stale() == []
    assert alice.artifacts.get("report").id == made.id
    alice.erasure.erase(session=sessions[1].id)
    assert [one.id for one in alice.derived.stale()[0].sources] == [sessions[2].id]


def test_the_next_source_that_goes_takes_the_request_with_it(vault, alice, sessions):
    """D4"""
    put(alice, *sessions)
    alice.erasure.erase(session=sessions[0].id)
    outcome = alice.erasure.erase(session=sessions[1].id)
    assert dict(outcome.counts) == {("session", "erased"): 1, ("memory", "erased"): 1}
    assert alice.derived.stale() == []
    assert rows(vault) == {}
    assert nothing_wrong(vault)


def test_what_has_no_source_left_is_not_asked_for(vault, alice, sessions):
    put(alice, sessions[0])
    assert dict(alice.erasure.erase(session=sessions[0].id).counts)["memory", "erased"] == 1
    assert alice.derived.stale() == []
    assert rows(vault) == {}


def test_what_is_itself_made_again_stands_for_its_own_sources(vault, alice, sessions):
    """D4: from the log upwards"""
    first = put(alice, *sessions[:2])
    second = put(alice, first, key="of tea")
    put(alice, second, sessions[2], key="of both")
    alice.erasure.erase(session=sessions[0].id)
    found = {one.key: [source.id for source in one.sources] for one in alice.derived.stale()}
    assert found.pop("of both") in ([sessions[1].id, sessions[2].id], [sessions[2].id, sessions[1].id])
    assert found == {"tea": [sessions[1].id], "of tea": [sessions[1].id]}
    alice.erasure.erase(session=sessions[1].id)
    assert alice.derived.stale() == []
    assert rows(vault) == {}
    assert nothing_wrong(vault)


def test_a_request_can_hang_on_an_item_and_on_an_event(vault, alice, sessions):
    event = sessions[1].append("message.user", {"content": "hello"})
    item = alice.memories.put((), "base", 1, sources=[sessions[2]])
    put(alice, sessions[0], event, item)
    alice.erasure.erase(session=sessions[0].id)
    (asked,) = alice.derived.stale()
    assert [one.id for one in asked.sources] == [event.id, item.id]
    alice.erasure.erase(memory=item.id)
    assert alice.derived.stale() == []
    assert nothing_wrong(vault)


def test_only_the_newest_version_of_a_name_is_asked_for(alice, sessions):
    put(alice, *sessions)
    put(alice, sessions[1])
    alice.erasure.erase(session=sessions[0].id)
    assert alice.derived.stale() == []
    put(alice, *sessions[1:])
    put(alice, *sessions[1:])
    alice.erasure.erase(session=sessions[1].id)
    assert len(alice.derived.stale()) == 1


def test_who_erases_the_item_itself_is_not_asked_for_it(vault, alice, sessions):
    """D4: nor who erases all that is a person's"""
    made = put(alice, *sessions)
    alice.erasure.erase(memory=made.id)
    put(alice, *sessions, key="k")
    vault.access(PIA).erasure.erase(subject="alice")
    assert alice.derived.stale() == []
    assert rows(vault) == {}


def test_a_request_is_erased_by_its_id_and_with_its_owner(vault, alice, sessions):
    """D5"""
    put(alice, *sessions)
    put(alice, *sessions, key="k")
    alice.erasure.erase(session=sessions[0].id)
    first, _ = alice.derived.stale()
    alice.erasure.erase(memory=first.id)
    assert len(alice.derived.stale()) == 1
    vault.access(PIA).erasure.erase(subject="alice")
    assert rows(vault) == {}
    assert nothing_wrong(vault)


def test_after_the_time_limit_the_sweep_takes_the_request(vault, alice, sessions, sweep):
    """D3, D4"""
    put(alice, *sessions)
    alice.erasure.erase(session=sessions[0].id)
    (asked,) = alice.derived.stale()
    assert (asked.expires_at - asked.asked_at).days == 30
    sweep(29)
    assert alice.derived.stale() == [asked]
    sweep(1)
    assert alice.derived.stale() == []
    sweep(1)
    assert rows(vault) == {}
    newest = verified(vault.access(OTTO).erasure.receipts()[0].receipt, vault._signer.public)
    assert (newest.reason, newest.counts) == ("policy", {"memory": {"erased": 1}})
    assert nothing_wrong(vault)


KEEPS = """version = 1
name = "keeps"
[[retention]]
id = "all"
match = { kind = ["session", "memory", "artifact"], labels = {} }
anchor = "created"
keep_min = { for = "6y", basis = "legal_obligation", ref = "a law" }
expire_after = "10y"
on_expire = "review"
grace = "30d"
applies_to = "all"
"""


def test_a_minimum_of_a_kind_keeps_no_request_for_it(vault, alice, sessions, sweep):
    """D1, D3: it would keep the sources too"""
    put(alice, *sessions)
    alice.erasure.erase(session=sessions[0].id)
    vault.access(PIA).policies.activate(KEEPS)
    sweep(2)
    assert [node.state for node in alice.derived.lineage(sessions[1].id).derived] == ["stale"]
    sweep(29)
    assert rows(vault) == {}
    assert nothing_wrong(vault)


def test_what_would_have_expired_sooner_is_asked_for_no_longer(alice, sessions, clock):
    put(alice, *sessions, ttl=timedelta(days=3))
    clock.now += DAY
    alice.erasure.erase(session=sessions[0].id)
    (asked,) = alice.derived.stale()
    assert (asked.expires_at - asked.asked_at).days == 2
    clock.now += 2 * DAY
    assert alice.derived.stale() == []


def test_what_an_expiry_takes_is_asked_for_too(vault, alice, sessions, clock, sweep):
    """D3: by a policy as by a person"""
    sweep(20)
    put(alice, *sessions)
    for session in sessions[1:]:
        session.append("message.user", {"content": "hello"})
    sweep(353)
    assert [one.id for one in alice.derived.stale()[0].sources] == [one.id for one in sessions[1:]]


def test_nobody_else_sees_a_request(vault, alice, sessions):
    """O1"""
    alice.grants.give(sessions[1].id, to="bob", level="L3")
    put(alice, *sessions)
    alice.erasure.erase(session=sessions[0].id)
    for other in (BOB, PIA, Principal(tenant="other", subject="alice", roles={"owner"})):
        assert vault.access(other).derived.stale() == []


def test_the_owner_is_asked_also_when_somebody_else_erased(vault, alice):
    """D4: what was made from a shared session is its maker's"""
    bob = vault.access(BOB)
    shared, own = alice.sessions.create(), bob.sessions.create()
    alice.grants.give(shared.id, to="bob", level="L3")
    bob.memories.put((), "k", 1, sources=[shared, own], **AGAIN)
    alice.erasure.erase(session=shared.id)
    assert alice.derived.stale() == []
    assert [one.sources[0].id for one in bob.derived.stale()] == [own.id]


def test_a_hold_placed_at_the_last_moment_keeps_the_item_and_asks_for_nothing(
    vault, alice, sessions, sweep, clock
):
    """D6"""
    pia, holds = vault.access(PIA), []
    put(alice, *sessions)

    def step(name):
        if name == "condemn":
            clock.now += 1
            holds.append(pia.holds.place(session=sessions[1].id, reason="court"))

    whole = vault._parts
    alice.erasure._parts = stepped(whole, step)
    alice.erasure.erase(session=sessions[0].id)
    alice.erasure._parts = whole
    assert alice.derived.stale() == []
    sweep(1)
    assert alice.derived.stale() == []
    assert sorted(rows(vault).values()) == ["erasing", "stale"]  # both are held, and hidden from everybody
    pia.holds.lift(holds[0].id, reason="over")
    sweep(1)
    assert rows(vault) == {}
    assert nothing_wrong(vault)


@pytest.mark.parametrize("moment", ["open", "condemn"])
def test_what_is_made_again_meanwhile_is_not_asked_for(vault, alice, sessions, sweep, moment):
    def step(name):
        if name == moment:
            put(alice, sessions[1], value="new")

    put(alice, *sessions)
    alice.erasure._parts = stepped(vault._parts, step)
    alice.erasure.erase(session=sessions[0].id)
    assert alice.derived.stale() == []
    assert alice.memories.get(SPACE, "tea").value == "new"
    sweep(1)
    assert list(rows(vault).values()) == ["live"]
    assert nothing_wrong(vault)


@pytest.mark.parametrize("moment", ["fence", "condemn", "condemned", "destroy", "delete rows", "prove"])
def test_two_erasures_at_once_leave_no_request_without_its_sources(vault, alice, sessions, moment):
    """D4: another one takes a source that the request hangs on"""
    done = []

    def step(name):
        if name == moment and not done:
            done.append(name)
            vault.access(ALICE).erasure.erase(session=sessions[1].id)

    put(alice, *sessions)
    alice.erasure._parts = stepped(vault._parts, step)
    alice.erasure.erase(session=sessions[0].id)
    assert done
    assert alice.derived.stale() == []
    assert rows(vault) == {}
    assert nothing_wrong(vault)


def test_a_request_stays_fenced_while_another_erasure_is_about_to_take_it(vault, alice, sessions):
    """D4: one that was cut off"""
    whole, waits = vault._parts, []

    def cut_off(name):
        if name == "condemn":
            raise StorageUnavailable("cut off")

    def step(name):
        if name == "condemn":
            second = vault.access(ALICE)
            second.erasure._parts = stepped(whole, cut_off)
            with pytest.raises(StorageUnavailable):
                second.erasure.erase(session=sessions[1].id)
        elif name == "condemned":
            waits.append(1)

    put(alice, *sessions)
    alice.erasure._parts = stepped(whole, step)
    alice.erasure.erase(session=sessions[0].id)
    assert waits
    assert alice.derived.stale() == []
    assert list(rows(vault).values()) == ["erasing"]
    vault.access(ALICE).erasure.erase(session=sessions[1].id)  # carried on
    assert rows(vault) == {}
    assert nothing_wrong(vault)


def test_the_key_of_what_went_is_destroyed_and_the_request_has_its_own(vault, alice, sessions):
    """D4"""
    made = put(alice, *sessions)
    alice.erasure.erase(session=sessions[0].id)
    old = bytes.fromhex(made.id[4:].replace("-", ""))
    assert vault._store.is_destroyed("item", old, 0) is not None
    (new,) = rows(vault)
    assert {row.scope for row in vault._store.rows() if row.purpose == "item"} == {new}


@pytest.mark.parametrize("column", ["about", "sources", "name", "version", "retention", "mac"])
def test_a_request_that_was_changed_is_refused(place, vault, alice, sessions, column):
    """A1"""
    put(alice, *sessions)
    put(alice, *sessions, key="other")
    alice.erasure.erase(session=sessions[0].id)
    vault.close()
    with contextlib.closing(sqlite3.connect(place / "data.db")) as data, data:
        (low, one), (_, two) = data.execute(f"SELECT no, {column} FROM items ORDER BY no").fetchall()  # noqa: S608
        if column == "sources":
            two = one[:-8] + bytes(8)
        if column in {"version", "retention"}:
            two = {"version": 9, "retention": b""}[column]
        if column == "name":
            two = bytes(16)
        data.execute(f"UPDATE items SET {column} = ? WHERE no = ?", (two, low))  # noqa: S608
    with Vault.open(place) as again:
        with pytest.raises(Tampered):
            again.access(ALICE).derived.stale()
        assert any(one.kind.startswith("item") for one in again.verify().findings)


def test_the_number_of_requests_is_limited(alice):
    for limit in (0, 1_001, True, "1"):
        with pytest.raises(InvalidInput):
            alice.derived.stale(limit=limit)


def test_requests_are_listed_page_by_page(alice, sessions, monkeypatch):
    from vault.derived import stale

    monkeypatch.setattr(stale, "_PAGE", 2)
    for number in range(5):
        put(alice, *sessions, key=f"k{number}")
    alice.erasure.erase(session=sessions[0].id)
    assert {one.key for one in alice.derived.stale()} == {f"k{number}" for number in range(5)}
    assert len(alice.derived.stale(limit=3)) == 3
