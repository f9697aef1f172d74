"""What came from events that go while their session lives on goes too, and is asked for again. D3, D4, D6."""

import dataclasses

import pytest

from vault import Principal, Vault
from vault.erasure import execute
from vault.erasure.below import BelowEvents
from vault.errors import Conflict, NotFound
from vault.sealing.receipts import verified

ALICE = Principal(tenant="acme", subject="alice", roles={"owner"})
BOB = Principal(tenant="acme", subject="bob", roles={"owner"})
PIA = Principal(tenant="acme", subject="pia", roles={"privacy_officer"})
OTTO = Principal(tenant="acme", subject="otto", roles={"auditor"})
HOUR = 3_600_000_000
DAY = 24 * HOUR
SPACE = ("users", "alice")
AGAIN = {"on_source_erased": "recompute"}
KINDS = '["session", "memory", "summary", "artifact", "embedding", "cache"]'
POLICY = f"""version = 1
name = "support"
[[retention]]
id = "all"
match = {{ kind = {KINDS}, labels = {{}} }}
anchor = "created"
expire_after = "3y"
[[retention]]
id = "tool-results"
match = {{ kind = ["event"], types = ["tool.*"] }}
anchor = "created"
expire_after = "30d"
"""
KEEPS = """[[retention]]
id = "kept"
match = { kind = ["memory"], labels = {} }
anchor = "created"
keep_min = { for = "2y", basis = "legal_obligation", ref = "a law" }
expire_after = "3y"
"""


@pytest.fixture
def opened(place, clock):
    """A vault whose policy lets results of tools expire after 30 days, and how to open it again."""

    class Opened:
        def __init__(self):
            self.vault = Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock)
            self.alice.sessions.create()
            self.policy(POLICY)

        @property
        def alice(self):
            return self.vault.access(ALICE)

        def policy(self, text):
            self.vault.access(PIA).policies.activate(text)
            self.days(2)
            assert self.vault.access(PIA).policies.active().digest

        def days(self, number):
            for _ in range(number):
                clock.now += DAY
                self.vault.sweep()

        def again(self):
            """As after a crash: another process opens it, which carries on what was begun."""
            self.vault.close()
            self.vault = Vault.open(place, clock=clock)

    made = Opened()
    yield made
    made.vault.close()


def written(opened, *types, epoch=0):
    session = opened.alice.sessions.create()
    return session, [session.append(name, {"n": n}, epoch=epoch) for n, name in enumerate(types)]


def put(access, *sources, key="tea", **more):
    return access.memories.put(SPACE, key, "a secret", sources=sources, **{**AGAIN, **more})


def rows(vault):
    with vault._records.snapshot() as reader:
        return {row[1]: row[8] for row in reader.scan("all_items", after=0, limit=1_000)}


def nothing_wrong(vault):
    assert vault.verify().findings == ()
    return True


def expiring(opened):
    """Two events, of which the first expires with the sweep of the 31st day, and how it goes."""
    session, events = written(opened, "tool.returned", "message.user")
    return session, events, lambda: opened.days(31)


def retracted(opened):
    """Two events, of which the first goes as somebody asks for it."""
    session = opened.alice.sessions.create()
    events = [session.append("chat.item", {"n": 1}, epoch=1), session.append("message.user", {"n": 2})]
    return session, events, lambda: opened.alice.sessions.resume(session.id).retract_epoch(1)


WAYS = pytest.mark.parametrize("way", [expiring, retracted])


@WAYS
def test_what_has_another_source_is_asked_for_with_it(opened, way):
    """D4: and its row, key and content are gone although the session lives on"""
    session, (first, second), go = way(opened)
    made = put(opened.alice, first, second, labels={"case": "7"})
    go()
    (asked,) = opened.alice.derived.stale()
    assert (asked.key, asked.labels, [one.id for one in asked.sources]) == ("tea", {"case": "7"}, [second.id])
    assert list(rows(opened.vault).values()) == ["stale"]
    raw = bytes.fromhex(made.id[4:].replace("-", ""))
    assert opened.vault._store.is_destroyed("item", raw, 0) is not None
    assert [event.erased for event in session.events(types=[first.type, second.type])] == [True, False]
    assert nothing_wrong(opened.vault)
    opened.alice.memories.put(asked.namespace, asked.key, "new", sources=asked.sources)
    assert opened.alice.derived.stale() == []


@WAYS
def test_what_has_no_other_source_just_goes(opened, way):
    """D4: also what goes with any of them, and what came from that"""
    _, (first, second), go = way(opened)
    put(opened.alice, first, key="alone")
    any_ = put(opened.alice, first, second, key="any", on_source_erased="erase_with_any")
    put(opened.alice, any_, key="of any")
    file = opened.alice.artifacts.put("report", b"1" * 100_000, sources=[first])
    put(opened.alice, second, key="other")
    go()
    assert opened.alice.derived.stale() == []
    assert [one.key for one in opened.alice.memories.list()] == ["other"]
    assert list(rows(opened.vault).values()) == ["live"]
    with pytest.raises(NotFound):
        file.open()
    assert nothing_wrong(opened.vault)


@WAYS
def test_what_stays_until_its_last_source_goes_stays(opened, way):
    _, (first, second), go = way(opened)
    put(opened.alice, first, second, on_source_erased="erase_with_last")
    go()
    assert opened.alice.memories.get(SPACE, "tea").value == "a secret"
    assert opened.alice.derived.stale() == []
    assert nothing_wrong(opened.vault)


@WAYS
def test_what_names_the_session_stays(opened, way):
    """Its key hangs on the session's own epoch: it goes with that."""
    session, (first, _), go = way(opened)
    put(opened.alice, session)
    put(opened.alice, session, first, key="both")
    go()
    assert [one.key for one in opened.alice.memories.list()] == ["tea"]
    assert [[one.id for one in asked.sources] for asked in opened.alice.derived.stale()] == [[session.id]]
    assert nothing_wrong(opened.vault)


@WAYS
def test_a_receipt_says_what_went_and_who_asked(opened, way):
    """D5"""
    _, (first, second), go = way(opened)
    put(opened.alice, first, second)
    go()
    newest = opened.vault.access(OTTO).erasure.receipts()[0]
    receipt = verified(newest.receipt, opened.vault._signer.public)
    assert receipt.counts == {"memory": {"recomputed": 1}}
    asked = way is retracted
    assert (receipt.requested_by.role, receipt.reason) == (
        ("owner", "other") if asked else ("vault", "policy")
    )
    assert (receipt.requested_by.pseudonym is not None) is asked


@WAYS
def test_another_persons_item_goes_and_its_maker_is_asked(opened, way):
    """D4, O1"""
    session, (first, _), go = way(opened)
    opened.alice.grants.give(session.id, to="bob", level="L3")
    bob = opened.vault.access(BOB)
    own = bob.sessions.create()
    bob.memories.put((), "k", 1, sources=[first, own], **AGAIN)
    go()
    assert opened.alice.derived.stale() == []
    assert [one.sources[0].id for one in opened.vault.access(BOB).derived.stale()] == [own.id]
    assert nothing_wrong(opened.vault)


@WAYS
def test_the_next_source_that_goes_takes_the_request_with_it(opened, way):
    """D4: a request hangs on events too"""
    other, (third,) = written(opened, "chat.item", epoch=2)
    _, (first, _), go = way(opened)
    put(opened.alice, first, third)
    go()
    assert [one.sources[0].id for one in opened.alice.derived.stale()] == [third.id]
    other.retract_epoch(2)
    assert opened.alice.derived.stale() == []
    assert rows(opened.vault) == {}
    assert nothing_wrong(opened.vault)


def test_two_epochs_of_one_session_go_at_once(opened):
    session, events = written(opened, "chat.item", epoch=1)
    events.append(session.append("chat.item", {"n": 2}, epoch=2))
    put(opened.alice, *events)
    session.retract_epoch(1)
    assert [one.sources[0].id for one in opened.alice.derived.stale()] == [events[1].id]
    session.retract_epoch(2)
    assert rows(opened.vault) == {}
    assert nothing_wrong(opened.vault)


def test_what_is_itself_made_again_stands_for_its_own_sources(opened):
    session, (first, second), go = retracted(opened)
    base = put(opened.alice, first, second)
    put(opened.alice, base, key="of tea")
    go()
    found = {one.key: [source.id for source in one.sources] for one in opened.alice.derived.stale()}
    assert found == {"tea": [second.id], "of tea": [second.id]}
    assert session.id
    assert nothing_wrong(opened.vault)


# -------------------------------------------------------------------------------- what is kept


def test_a_hold_on_what_was_made_from_an_event_keeps_both_from_expiring(opened):
    """D6, 0030: what a hold names, by whatever tag, stays readable"""
    other = opened.alice.sessions.create(labels={"case": "7"})
    _, (first, second), go = expiring(opened)
    free, (third, _), _ = expiring(opened)
    put(opened.alice, first, second, other)
    put(opened.alice, third, key="free")
    hold = opened.vault.access(PIA).holds.place(label=("case", "7"), reason="court")
    go()
    assert [one.key for one in opened.alice.memories.list()] == ["tea"]
    assert opened.alice.derived.stale() == []
    assert free.id
    assert nothing_wrong(opened.vault)
    opened.vault.access(PIA).holds.lift(hold.id, reason="over")
    opened.days(1)
    assert opened.alice.memories.list() == []
    assert [[one.id for one in asked.sources] for asked in opened.alice.derived.stale()] == [
        [second.id, other.id]
    ]
    assert nothing_wrong(opened.vault)


def test_a_hold_on_what_was_made_from_an_event_refuses_to_retract_it(opened):
    """D6"""
    other = opened.alice.sessions.create()
    session, (first, second), go = retracted(opened)
    put(opened.alice, first, other)
    put(opened.alice, first, second, key="free")
    hold = opened.vault.access(PIA).holds.place(session=other.id, reason="court")
    with pytest.raises(Conflict, match="made from these events"):
        go()
    assert {one.key for one in opened.alice.memories.list()} == {"tea", "free"}
    assert [event.erased for event in session.events()] == [False, False]
    opened.vault.access(PIA).holds.lift(hold.id, reason="over")
    go()
    assert opened.alice.memories.list() == []
    assert len(opened.alice.derived.stale()) == 2
    assert nothing_wrong(opened.vault)


@WAYS
def test_a_minimum_of_what_was_made_from_an_event_keeps_both(opened, way):
    """D3"""
    opened.policy(POLICY.replace("version = 1", "version = 2").replace('"memory", ', "") + KEEPS)
    _, (first, second), go = way(opened)
    put(opened.alice, first, second)
    if way is expiring:
        go()
    else:
        with pytest.raises(Conflict):
            go()
    assert [one.key for one in opened.alice.memories.list()] == ["tea"]
    assert nothing_wrong(opened.vault)


@WAYS
def test_a_hold_placed_at_the_last_moment_keeps_the_item_and_its_event(opened, way, clock, monkeypatch):
    """D6: after the plan, before any key is condemned"""
    other, holds = opened.alice.sessions.create(), []
    session, (first, second), go = way(opened)
    put(opened.alice, first, second, other)

    def step(name):
        if name == "condemn" and not holds:
            clock.now += 1
            holds.append(opened.vault.access(PIA).holds.place(session=other.id, reason="court"))

    stepped(opened, monkeypatch, step)
    if way is expiring:
        go()
    else:
        with pytest.raises(Conflict):
            go()
    assert holds
    assert opened.alice.derived.stale() == []
    number = 1 << 20 if way is retracted else None
    numbers = opened.vault._store.epochs_of(session._row.session_id)
    assert number in numbers if number else len(numbers) == 2  # the key is there, as what is held hangs on it
    assert sorted(rows(opened.vault).values()) == ["erasing", "stale"]
    opened.vault.access(PIA).holds.lift(holds[0].id, reason="over")
    opened.days(1)
    if way is retracted:
        go()
    assert rows(opened.vault) == {}
    assert nothing_wrong(opened.vault)


@WAYS
def test_a_hold_on_what_is_made_from_it_at_the_last_moment_keeps_both(opened, way, clock, monkeypatch):
    """D6: made after the plan, and held before the key is condemned"""
    other, late, holds = opened.alice.sessions.create(), [], []
    _, (first, _), go = way(opened)
    erase, condemn = BelowEvents.erase, opened.vault._store.condemn

    def then_put(self, events, **more):
        kept = erase(self, events, **more)
        if events and not late:
            late.append(put(opened.alice, first, other))
        return kept

    def slow(*given, **more):
        if late and not holds:
            clock.now += 1
            holds.append(opened.vault.access(PIA).holds.place(session=other.id, reason="court"))
        return condemn(*given, **more)

    monkeypatch.setattr(BelowEvents, "erase", then_put)
    monkeypatch.setattr(opened.vault._store, "condemn", slow)
    if way is expiring:
        go()
    else:
        with pytest.raises(Conflict):
            go()
    assert late
    assert holds
    assert opened.alice.memories.get(SPACE, "tea").value == "a secret"
    assert nothing_wrong(opened.vault)


@WAYS
def test_what_is_made_from_it_at_the_last_moment_goes_too(opened, way, monkeypatch):
    """D4: between the plan and the end of the key"""
    _, (first, second), go = way(opened)
    condemn, late = opened.vault._store.condemn, []

    def slow(operation, tenant_id, doomed, now_us, **more):
        if not late:
            late.append(put(opened.alice, first, second, key="late"))
        return condemn(operation, tenant_id, doomed, now_us, **more)

    monkeypatch.setattr(opened.vault._store, "condemn", slow)
    go()
    assert late
    assert rows(opened.vault) == {}
    assert opened.alice.derived.stale() == []
    assert nothing_wrong(opened.vault)


# ----------------------------------------------------------------------------- killed anywhere


class Cut(BaseException):
    """The process ends here."""


def stepped(opened, monkeypatch, step):
    """Let somebody be told each step of every erasure, and of the end of every key."""
    parts = opened.vault._parts
    monkeypatch.setattr(
        opened.vault,
        "_parts",
        dataclasses.replace(parts, execution=dataclasses.replace(parts.execution, step=step)),
    )
    for name in ("condemn", "destroy"):
        call = getattr(parts.store, name)

        def told(*given, call=call, name=name, **more):
            step(f"store.{name}")
            return call(*given, **more)

        monkeypatch.setattr(parts.store, name, told)


def about_to_go(opened, way, key):
    """Something that goes with the next call: what else a sweep finds before is gone by then."""
    session, (first, second), go = way(opened)
    put(opened.alice, first, second, key=key)
    if way is expiring:
        opened.days(29)
        return session, first, second, lambda: opened.days(2)
    return session, first, second, go


def steps_of(opened, way, monkeypatch):
    found = []
    _, _, _, go = about_to_go(opened, way, "tea")
    with monkeypatch.context() as patch:
        stepped(opened, patch, found.append)
        go()
    (asked,) = opened.alice.derived.stale()
    opened.alice.memories.put(asked.namespace, asked.key, "settled", sources=asked.sources)
    return found


@WAYS
def test_killed_at_any_step_it_is_carried_on_and_asked_for_once(opened, way, monkeypatch):
    """D4, invariant 7: whatever a process was about to do when it ended"""
    steps = steps_of(opened, way, monkeypatch)
    assert {"open", "condemn", "destroy", "delete rows", "store.condemn"} <= set(steps)
    for number in range(len(steps)):
        left = [number]

        def step(_, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Cut

        key = f"k{number}"
        session, first, second, go = about_to_go(opened, way, key)
        with monkeypatch.context() as patch:
            stepped(opened, patch, step)
            with pytest.raises(Cut):
                go()
        opened.again()
        if way is expiring:
            opened.days(1)
        elif not next(opened.alice.sessions.resume(session.id).events(types=[first.type])).erased:
            opened.alice.sessions.resume(session.id).retract_epoch(1)
        found = [one for one in opened.alice.derived.stale() if one.key == key]
        assert [[one.id for one in asked.sources] for asked in found] == [[second.id]], steps[number]
        assert next(opened.alice.sessions.resume(session.id).events(types=[first.type])).erased
        with pytest.raises(NotFound):
            opened.alice.memories.get(SPACE, key)
        assert nothing_wrong(opened.vault), steps[number]


# ---------------------------------------------------------------- more than one transaction takes


def test_more_than_one_transaction_takes_is_all_asked_for(opened, monkeypatch):
    """D4: in transactions of bounded size"""
    monkeypatch.setattr(execute, "BATCH", 3)
    session, other = opened.alice.sessions.create(), opened.alice.sessions.create()
    for number in range(11):
        put(opened.alice, session, other, key=f"k{number}")
    outcome = opened.alice.erasure.erase(session=session.id)
    assert dict(outcome.counts) == {("session", "erased"): 1, ("memory", "recomputed"): 11}
    assert {one.key for one in opened.alice.derived.stale()} == {f"k{number}" for number in range(11)}
    assert set(rows(opened.vault).values()) == {"stale"}
    assert nothing_wrong(opened.vault)


def test_killed_between_its_transactions_it_asks_for_all_of_it(opened, monkeypatch):
    """D4, invariant 7"""
    monkeypatch.setattr(execute, "BATCH", 2)
    steps = None
    number = -1
    while steps is None or number < len(steps):
        session, other = opened.alice.sessions.create(), opened.alice.sessions.create()
        for item in range(5):
            put(opened.alice, session, other, key=f"k{number} {item}")
        seen = []

        def step(name, seen=seen, number=number):
            seen.append(name)
            if len(seen) == number + 1:
                raise Cut

        with monkeypatch.context() as patch:
            stepped(opened, patch, step)
            access = opened.alice
            if number < 0:
                access.erasure.erase(session=session.id)
                steps = seen
            else:
                with pytest.raises(Cut):
                    access.erasure.erase(session=session.id)
        opened.again()
        if seen == ["open"]:  # nothing was begun
            opened.alice.erasure.erase(session=session.id)
        mine = [one for one in opened.alice.derived.stale(limit=1_000) if one.key.startswith(f"k{number} ")]
        assert len(mine) == 5, (number, seen[-1])
        assert nothing_wrong(opened.vault), seen[-1]
        number += 1
    assert steps.count("fence") == 3


def test_a_hold_at_the_last_moment_puts_requests_of_every_transaction_aside(opened, monkeypatch, clock):
    """D6"""
    monkeypatch.setattr(execute, "BATCH", 2)
    session, other, held = (opened.alice.sessions.create() for _ in range(3))
    for number in range(5):
        put(opened.alice, session, other, *([held] if number % 2 else []), key=f"k{number}")

    def step(name):
        if name == "condemn":
            clock.now += 1
            opened.vault.access(PIA).holds.place(session=held.id, reason="court")

    stepped(opened, monkeypatch, step)
    opened.alice.erasure.erase(session=session.id)
    assert {one.key for one in opened.alice.derived.stale()} <= {"k0", "k2", "k4"}
    assert opened.alice.memories.list() == []
    assert nothing_wrong(opened.vault)


@WAYS
def test_nothing_is_stored_that_hangs_on_a_key_which_went_meanwhile(opened, way, monkeypatch):
    """D4: else it would lie there, read by nobody, until its session goes"""
    _, (first, second), go = way(opened)
    transact, done = opened.vault._log.records.transact, []

    def slow(work):
        if not done:
            done.append(work)
            go()
        return transact(work)

    monkeypatch.setattr(opened.vault._log.records, "transact", slow)
    with pytest.raises(NotFound):
        put(opened.alice, first, second)
    assert rows(opened.vault) == {}
    assert nothing_wrong(opened.vault)
