"""Erasing what somebody asks for: what goes, what stays, what answers say. D4, D5, D6, D7, O1, S1, S4."""

import contextlib
import dataclasses
import io
import os
import threading
import time

import pytest

from vault import NewEvent, Principal, Trigger, Vault, new_event_id
from vault.adapters.session_jsonl import export_session, import_session
from vault.audit.anchor import Anchor
from vault.errors import Conflict, Erased, Fenced, InvalidInput, NotFound, StorageUnavailable, VaultError
from vault.sealing.keys import KeyHierarchy
from vault.sealing.receipts import (
    chain_of,
    check_item,
    check_subject,
    item_mark,
    proof,
    proof_file,
    tree_root,
    verified,
)
from vault.storage.files import FileBlobs

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
AUDITOR = Principal(tenant="acme", subject="otto", roles=frozenset({"auditor"}))
STRANGER = Principal(tenant="zeta", subject="alice", roles=frozenset({"owner", "privacy_officer"}))
NOTHING = "there is nothing of that to erase"
BY_HAND = Trigger(after_tool=False, every_events=None, every_seconds=None)


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        opened.access(STRANGER).sessions.create(title="of another tenant")
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def bob(vault):
    return vault.access(BOB)


@pytest.fixture
def officer(vault):
    return vault.access(OFFICER)


@pytest.fixture
def session(alice):
    made = alice.sessions.create(title="August sales", labels={"case": "7"})
    made.append("message.user", {"content": "hello"})
    made.append("file.read", raw=os.urandom(90_000))
    return made


@pytest.fixture
def steps(vault):
    """Calls something before a step of whatever is erased from here on."""

    def before(name, work):
        left = [work]

        def step(told):
            if told == name and left:
                left.pop()()

        execution = dataclasses.replace(vault._parts.execution, step=step)
        vault._parts = dataclasses.replace(vault._parts, execution=execution)

    return before


def is_gone(access, session):
    with pytest.raises(NotFound):
        access.sessions.resume(session.id)
    return True


def receipts_of(vault):
    """The tenant's receipts, oldest first, each signed by the vault."""
    found = vault.access(AUDITOR).erasure.receipts(limit=1_000)
    return [verified(one.receipt, vault._signer.public) for one in found][::-1]


# ------------------------------------------------------------------------------------------- what goes


def test_a_plan_says_what_goes_and_does_nothing(vault, alice, session):
    plan = alice.erasure.plan(session=session.id)
    assert dict(plan.counts) == {("session", "erase"): 1}
    assert [item.reason for item in plan.plan.items] == ["root"]
    assert len(list(session.events())) == 2
    assert receipts_of(vault) == []


def test_an_erased_session_is_found_by_no_reader_and_taken_by_no_writer(vault, alice, session):
    """D6: the handle from before, every face of it"""
    other = alice.sessions.create(title="stays")
    run = session.run(checkpoints=BY_HAND)
    outcome = alice.erasure.erase(session=session.id)
    assert (outcome.state, dict(outcome.counts)) == ("verified", {("session", "erased"): 1})
    for use in [
        lambda: list(session.events()),
        session.info,
        session.recover,
        session.effects,
        lambda: list(session.replay()),
        lambda: session.context(max_events=3),
        lambda: session.append("message.user", 1),
        lambda: session.append_many([NewEvent(type="message.user", payload=1)]),
        lambda: session.post("message.user", 1),
        session.end,
        session.stop,
        session.run,
        lambda: next(iter(session.follow())),
        lambda: alice.sessions.resume(session.id),
        lambda: alice.sessions.fork(session.id),
        lambda: alice.sessions.wake(session.id),
        lambda: alice.sessions.restart(session.id, "summary"),
        lambda: alice.memories.put(("a",), "b", 1, sources=[session]),
        lambda: alice.retention.explain(session.id),
        lambda: alice.retention.undo(session.id),
        lambda: alice.grants.give(session.id, "bob", level="L1"),
    ]:
        with pytest.raises(NotFound):
            use()
    for use in [lambda: run.append("message.user", 1), run.checkpoint]:
        with pytest.raises((Fenced, NotFound)):
            use()
    assert [found.id for found in alice.sessions.find().items] == [other.id]
    assert alice.sessions.latest().id == other.id
    assert vault.verify().findings == ()


def test_nothing_begins_under_an_erased_external_id_but_on_purpose(alice, bob):
    """D6: a late writer brings nothing back; another owner's id of the same name is another id"""
    made = alice.sessions.create(external_id="thread-1")
    made.append("message.user", "before")
    alice.erasure.erase(session=made.id)
    for late in (alice.sessions.resume_external, lambda id_: alice.sessions.create(external_id=id_)):
        with pytest.raises(Erased):
            late("thread-1")
    assert bob.sessions.create(external_id="thread-1").id != made.id
    again = alice.sessions.create(external_id="thread-1", again=True)
    assert again.id != made.id
    assert list(alice.sessions.resume_external("thread-1").events()) == []


def test_ones_own_forks_go_with_what_they_share(vault, alice, bob, session):
    """S4, D4: also forks of forks; another's keeps what is its own, and reads no more of what it shared"""
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    shared = bob.sessions.fork(session.id)
    shared.append("message.user", "of bob")
    own = alice.sessions.fork(session.id)
    own.append("message.user", "of alice")
    deep = alice.sessions.fork(own.id)
    plan = alice.erasure.plan(session=session.id)
    assert [(item.depth, item.reason) for item in plan.plan.items] == [
        (2, "fork_of"),
        (1, "fork_of"),
        (0, "root"),
    ]
    assert dict(alice.erasure.execute(plan).counts) == {("session", "erased"): 3}
    assert all(is_gone(alice, one) for one in (session, own, deep))
    (newest,) = bob.sessions.resume(shared.id).events(limit=1, newest_first=True)
    assert newest.payload == "of bob"
    with pytest.raises(NotFound):
        list(shared.events())
    assert dict(bob.erasure.erase(session=shared.id).counts) == {("session", "erased"): 1}
    assert vault.verify().findings == ()


def test_anothers_fork_of_what_was_erased_is_no_damage(vault, alice, bob, session):
    """S4, K4"""
    alice.grants.give(session.id, "bob", level="L3", may=["fork"])
    bob.sessions.fork(session.id).append("message.user", "of bob")
    alice.erasure.erase(session=session.id)
    assert vault.verify().findings == ()


def test_a_fork_goes_alone(alice, session):
    """S4"""
    fork = alice.sessions.fork(session.id)
    fork.append("message.user", "of the fork")
    assert dict(alice.erasure.erase(session=fork.id).counts) == {("session", "erased"): 1}
    assert is_gone(alice, fork)
    assert len(list(session.events())) == 2


def test_with_forks_excluded_a_session_stays_while_a_fork_shares_it(vault, alice, session):
    fork = alice.sessions.fork(session.id)
    outcome = alice.erasure.erase(session=session.id, forks="exclude")
    assert dict(outcome.counts) == {}
    assert len(list(fork.events())) == 2
    assert len(list(alice.sessions.resume(session.id).events())) == 2
    alice.erasure.erase(session=fork.id)
    assert dict(alice.erasure.erase(session=session.id, forks="exclude").counts) == {("session", "erased"): 1}


def test_what_was_derived_goes_as_its_rule_says(vault, alice, session):
    """D4"""
    other = alice.sessions.create()
    other.append("message.user", "kept")
    alice.memories.put(("n",), "any", 1, sources=[session, other])
    alice.memories.put(("n",), "last", 2, sources=[session, other], on_source_erased="erase_with_last")
    alice.memories.put(("n",), "both", 3, sources=[session], on_source_erased="erase_with_last")
    inner = alice.artifacts.put("a", os.urandom(80_000), sources=[session])
    alice.memories.put(("n",), "of the artifact", 4, sources=[inner])
    alice.memories.put(("n",), "untouched", 5, sources=[other])
    counts = dict(alice.erasure.erase(session=session.id).counts)
    assert counts == {("session", "erased"): 1, ("memory", "erased"): 3, ("artifact", "erased"): 1}
    assert {memory.key for memory in alice.memories.search(limit=50)} == {"last", "untouched"}
    with pytest.raises(NotFound):
        alice.artifacts.get("a")
    assert alice.memories.get(("n",), "last").value == 2
    # Its last source goes: now it goes too.
    assert dict(alice.erasure.erase(session=other.id).counts) == {
        ("session", "erased"): 1,
        ("memory", "erased"): 2,
    }
    assert alice.memories.search(limit=50) == []
    with vault._records.snapshot() as reader:
        assert list(reader.scan("all_item_ids")) == []
    assert vault.verify().findings == ()


def test_all_versions_of_a_memory_go_and_what_came_from_an_old_one(alice, session):
    """D4: superseded versions route a cascade"""
    first = alice.memories.put(("n",), "key", "first", sources=[session])
    alice.memories.put(("n",), "of the first", "x", sources=[first])
    second = alice.memories.put(("n",), "key", "second", sources=[session])
    counts = dict(alice.erasure.erase(memory=second.id).counts)
    assert counts == {("memory", "erased"): 3}
    assert alice.memories.history(("n",), "key") == []
    assert alice.memories.search(limit=50) == []


def test_everything_of_a_person_goes_across_sessions(vault, alice, bob, officer, session):
    """D5"""
    alice.sessions.create(title="two")
    alice.artifacts.put("a", b"x", sources=[session])
    kept = bob.sessions.create(title="of bob")
    outcome = officer.erasure.erase(subject="alice")
    assert dict(outcome.counts) == {("session", "erased"): 2, ("artifact", "erased"): 1}
    assert alice.sessions.find().items == ()
    assert [found.id for found in bob.sessions.find().items] == [kept.id]
    receipt = verified(outcome.receipt, vault._signer.public)
    check_subject(receipt, "alice", outcome.key)
    with pytest.raises(NotFound):
        check_subject(receipt, "bob", outcome.key)


def test_what_carries_a_label_goes(vault, alice, bob, officer, session):
    """D5: the receipt says so, and the vault opens again"""
    other = bob.sessions.create(labels={"case": "7"})
    kept = bob.sessions.create(labels={"case": "8"})
    outcome = officer.erasure.erase(label=("case", "7"))
    assert (outcome.state, dict(outcome.counts)) == ("verified", {("session", "erased"): 2})
    assert is_gone(alice, session)
    assert is_gone(bob, other)
    assert bob.sessions.resume(kept.id).id == kept.id
    assert receipts_of(vault)[0].selector.kind == "label"
    assert officer.erasure.erase(label=("case", "7")).operation == outcome.operation


def test_a_whole_tenant_goes_but_for_its_audit_trail(vault, alice, officer, session):
    alice.artifacts.put("a", b"x", sources=[session])
    outcome = officer.erasure.erase(tenant=True)
    assert outcome.state == "verified"
    assert alice.sessions.find().items == ()
    assert vault.access(AUDITOR).audit.entries(limit=50)
    stranger = vault.access(STRANGER)
    assert [found.title for found in stranger.sessions.find().items] == ["of another tenant"]


# ------------------------------------------------------------------------------------------- who may


def test_what_is_anothers_answers_as_what_never_was(vault, alice, bob, session):
    """O1: before and after it was erased; another owner's, another tenant's officer, an unknown id"""
    stranger = vault.access(STRANGER)
    unknown = session.id[:-6] + "abcdef"
    item = alice.artifacts.put("a", b"x", sources=[session])

    def told(access, selection):
        answers = set()
        for ask in (access.erasure.plan, access.erasure.erase):
            with pytest.raises(NotFound) as caught:
                ask(**selection)
            answers.add((type(caught.value), str(caught.value)))
        return answers

    for erased in (False, True):
        if erased:
            alice.erasure.erase(session=session.id)
            assert alice.erasure.erased(artifact=item.id) is not None
        for access in (bob, stranger):
            answers = told(access, {"session": session.id})
            assert answers == {(NotFound, NOTHING)}
            assert answers == told(access, {"session": unknown})
            assert answers == told(access, {"session": "no id at all"})
            assert answers == told(access, {"artifact": item.id})
            assert access.erasure.erased(session=session.id) is None
            assert access.erasure.erased(artifact=item.id) is None
    assert told(alice, {"session": unknown}) == {(NotFound, NOTHING)}


def test_an_owner_erases_only_what_is_their_own(alice, bob, session):
    """O1"""
    for selection in ({"subject": "alice"}, {"tenant": True}, {"label": ("case", "7")}):
        with pytest.raises(NotFound) as caught:
            bob.erasure.plan(**selection)
        assert str(caught.value) == NOTHING
        with pytest.raises(NotFound):
            bob.erasure.erased(**selection)
    assert len(list(session.events())) == 2
    bob.sessions.create()
    assert dict(bob.erasure.erase(subject="bob").counts) == {("session", "erased"): 1}


def test_nobody_else_is_told_why_it_is_there(vault, alice, bob, officer, session):
    """D2, O1"""
    artifact = alice.artifacts.put("a", b"x", sources=[session])
    unknown = session.id[:-6] + "abcdef"
    for access in (alice, officer):
        assert access.retention.explain(session.id).state == "KEEP"
        assert access.retention.explain(artifact.id).state == "KEEP"
    for access in (bob, vault.access(STRANGER)):
        said = set()
        for id_ in (session.id, artifact.id, unknown, "no id", "mem_1"):
            with pytest.raises(NotFound) as caught:
                access.retention.explain(id_)
            said.add(str(caught.value))
        assert len(said) == 1


def test_a_plan_is_not_carried_out_by_who_could_not_have_made_it(vault, alice, bob, session):
    """O1"""
    plan = alice.erasure.plan(session=session.id)
    for access in (bob, vault.access(STRANGER)):
        with pytest.raises((NotFound, Conflict)):
            access.erasure.execute(plan)
    assert len(list(session.events())) == 2
    assert receipts_of(vault) == []


@pytest.mark.parametrize(
    "selection",
    [
        {},
        {"session": ""},
        {"session": "*"},
        {"subject": ""},
        {"subject": "   "},
        {"subject": "%"},
        {"subject": "**?"},
        {"subject": "\u200b"},
        {"label": ("*", "x")},
        {"label": ("case", "*")},
        {"label": ("case", "")},
        {"label": ("case",)},
        {"label": "case"},
        {"label": ("case", None)},
        {"session": 5},
        {"subject": 5},
        {"memory": b"mem"},
        {"tenant": False},
        {"tenant": True, "subject": "alice"},
        {"session": "ses_1", "subject": "alice"},
        {"subject": "alice", "reason": "because"},
        {"subject": "alice", "reason": ["other"]},
        {"subject": "alice", "forks": "maybe"},
        {"subject": "alice", "forks": []},
    ],
    ids=repr,
)
def test_a_selector_that_names_nothing_or_too_much_is_refused(officer, session, selection):
    """D5: an empty or wildcard selector never erases"""
    for ask in (officer.erasure.plan, officer.erasure.erase):
        with pytest.raises(InvalidInput):
            ask(**selection)
    assert len(list(session.events())) == 2


# ------------------------------------------------------------------------------------------ once, and again


def test_who_asks_again_gets_the_first_receipt(vault, alice, officer, session):
    """D6"""
    first = alice.erasure.erase(session=session.id)
    again = alice.erasure.erase(session=session.id)
    assert (again.operation, again.receipt, again.state) == (first.operation, first.receipt, "verified")
    assert again.key is None  # handed out once
    assert officer.erasure.erased(session=session.id).receipt == first.receipt
    assert len(receipts_of(vault)) == 1


def test_an_id_that_never_was_is_never_said_to_be_erased(alice, officer, session):
    unknown = session.id[:-6] + "abcdef"
    for access in (alice, officer):
        assert access.erasure.erased(session=unknown) is None
        for ask in (access.erasure.plan, access.erasure.erase):
            with pytest.raises(NotFound, match=NOTHING):
                ask(session=unknown)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda alice, session: alice.sessions.fork(session.id), "1 more, 0 fewer, 0 otherwise"),
        (lambda alice, session: alice.artifacts.put("a", b"x", sources=[session]), "1 more, 0 fewer"),
        (lambda alice, session: alice.erasure.erase(session=session.id), "0 more, 1 fewer, 0 otherwise"),
    ],
    ids=["forked", "derived", "erased"],
)
@pytest.mark.parametrize("when", ["before it is carried out", "while it is"])
def test_a_plan_of_other_facts_is_refused(vault, alice, session, steps, change, sentence, when):
    """D4: nothing is done, however late the change; it says how the facts differ"""
    officer = vault.access(OFFICER)
    plan = officer.erasure.plan(session=session.id)
    kept = alice.sessions.create()
    if when == "while it is":
        other = vault.access(ALICE)  # its own steps are not watched
        steps("open", lambda: change(other, session))
    else:
        change(alice, session)
    with pytest.raises(Conflict, match=sentence):
        vault.access(OFFICER).erasure.execute(plan)
    assert alice.sessions.resume(kept.id).id == kept.id
    assert vault.verify().findings == ()
    if "fewer" not in sentence.split(",")[0] and "1 more" in sentence:
        assert len(list(session.events())) == 2
        assert receipts_of(vault) == []
        assert sum(dict(officer.erasure.erase(session=session.id).counts).values()) == 2


def test_more_than_one_batch_leaves_no_fork_behind_that_came_in_between(vault, alice, officer, steps):
    """D4: what is forked, or derived from, before the last batch is fenced goes too"""
    for _ in range(3):
        alice.sessions.create()
    made = sorted((alice.sessions.create() for _ in range(505)), key=lambda one: one.id)
    last = made[-1]  # in the second batch
    last.append("message.user", 1)
    other = vault.access(ALICE)
    steps("fence", lambda: other.artifacts.put("late", b"x", sources=[other.sessions.fork(last.id)]))
    outcome = vault.access(OFFICER).erasure.erase(subject="alice")
    assert outcome.state == "verified"
    assert dict(outcome.counts) == {("session", "erased"): 509, ("artifact", "erased"): 1}
    assert alice.sessions.find().items == ()
    with vault._records.snapshot() as reader:
        assert list(reader.scan("all_item_ids")) == []
    assert vault.verify().findings == ()


def test_two_who_erase_at_once_erase_once(vault, alice, session, steps):
    plan = vault.access(OFFICER).erasure.plan(session=session.id)
    both, answers = threading.Barrier(2, timeout=30), []

    def step(told):
        if told == "open":
            both.wait()

    execution = dataclasses.replace(vault._parts.execution, step=step)
    vault._parts = dataclasses.replace(vault._parts, execution=execution)

    def work():
        try:
            answers.append(vault.access(OFFICER).erasure.execute(plan).state)
        except VaultError as error:
            answers.append(type(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers, key=str) == [Conflict, "verified"]
    assert len(receipts_of(vault)) == 1


# ------------------------------------------------------------------------------------------ late comers


class Halfway(io.RawIOBase):
    """A stream that calls something in the middle of being read."""

    def __init__(self, work):
        super().__init__()
        self._work, self._pieces = work, 0

    def readable(self):
        return True

    def read(self, _=-1):
        self._pieces += 1
        if self._pieces == 2:
            self._work()
        return os.urandom(100_000) if self._pieces < 4 else b""


def test_a_payload_that_arrives_while_its_session_is_erased_is_refused(officer, session):
    """D7"""
    with pytest.raises(NotFound):
        session.append("file.read", raw=Halfway(lambda: officer.erasure.erase(session=session.id)))


def test_nothing_is_left_of_what_was_refused(place, officer, session):
    """D6"""
    with pytest.raises(VaultError):
        session.append("file.read", raw=Halfway(lambda: officer.erasure.erase(session=session.id)))
    assert not [file for file in (place / "blobs").rglob("*") if file.is_file()]


def test_what_is_forked_while_it_is_erased_is_refused(vault, alice, officer, session, monkeypatch):
    """D4, D7: between the look at the original and the fork's own row"""
    create = KeyHierarchy.create_epoch

    def late(keys, tenant, owner, *place):
        if owner == tenant.owner("alice"):
            officer.erasure.erase(session=session.id)
        return create(keys, tenant, owner, *place)

    officer.holds.list()  # the audit trail is there
    monkeypatch.setattr(KeyHierarchy, "create_epoch", late)
    with contextlib.suppress(NotFound):
        alice.sessions.fork(session.id)
    assert alice.sessions.find().items == ()
    assert vault.verify().findings == ()


def test_what_is_derived_while_its_source_is_erased_is_refused(vault, alice, officer):
    """D4, D7"""
    other = alice.sessions.create()
    with pytest.raises(NotFound):
        alice.artifacts.put("a", Halfway(lambda: officer.erasure.erase(session=other.id)), sources=[other])
    assert vault.verify().findings == ()
    with vault._records.snapshot() as reader:
        assert list(reader.scan("all_item_ids")) == []


def test_a_run_is_fenced_off_first(vault, alice, session, steps):
    """D7: from the opening on, before anything is destroyed"""
    run = session.run(checkpoints=BY_HAND)
    refused = []

    def write():
        for work in (lambda: run.append("message.user", 1), lambda: session.post("message.user", 1)):
            with pytest.raises((Fenced, NotFound)) as caught:
                work()
            refused.append(type(caught.value))
        with pytest.raises(NotFound):
            list(session.events())

    steps("condemn", write)
    assert vault.access(ALICE).erasure.erase(session=session.id).state == "verified"
    assert len(refused) == 2
    with pytest.raises((Fenced, NotFound)):
        run.append("message.user", 1)


def test_an_event_that_is_delivered_again_is_refused(alice, session):
    """D7: also under its own id"""
    given = NewEvent(type="message.user", payload=1, event_id=new_event_id())
    session.append_many([given])
    alice.erasure.erase(session=session.id)
    with pytest.raises(NotFound):
        session.append_many([given])


def test_what_was_exported_comes_back_as_another_session(alice, session):
    """D7: an id is never used again; what left the vault before is beyond it"""
    out = io.BytesIO()
    export_session(session, out)
    alice.erasure.erase(session=session.id)
    out.seek(0)
    (imported,) = import_session(out, alice).sessions
    assert imported != session.id
    assert is_gone(alice, session)
    assert alice.erasure.erased(session=imported) is None


@pytest.mark.parametrize("step", ["fence", "condemned", "destroyed", "delete rows", "deleted", "prove"])
def test_a_process_that_opens_the_vault_meanwhile_carries_it_on(vault, place, session, steps, clock, step):
    """D3: the other one is told of the same receipt, and each thing is erased once"""
    steps(step, lambda: Vault.open(place, clock=clock).close())
    outcome = vault.access(OFFICER).erasure.erase(session=session.id)
    assert (outcome.state, dict(outcome.counts)) == ("verified", {("session", "erased"): 1})
    assert [receipt.state for receipt in receipts_of(vault)] == ["verified"]
    assert vault.verify().findings == ()


def test_verification_finds_nothing_wrong_at_any_step(vault, alice, session):
    """K4: an erasure under way is no damage"""
    alice.artifacts.put("a", os.urandom(80_000), sources=[alice.sessions.fork(session.id)])
    found = {}

    def step(name):
        found[name] = vault.verify().findings

    execution = dataclasses.replace(vault._parts.execution, step=step)
    vault._parts = dataclasses.replace(vault._parts, execution=execution)
    assert vault.access(OFFICER).erasure.erase(session=session.id).state == "verified"
    assert {name: findings for name, findings in found.items() if findings} == {}
    assert len(found) > 10


def test_a_vault_is_opened_while_another_process_erases(vault, place, alice, session, clock, monkeypatch):
    """D3: that is no roll-back"""
    vault.checkpoint()
    check = Anchor._check_vault_row

    def late(anchor, row, newest):
        check(anchor, row, newest)
        monkeypatch.undo()
        alice.erasure.erase(session=session.id)

    monkeypatch.setattr(Anchor, "_check_vault_row", late)
    Vault.open(place, clock=clock).close()


def test_whoever_follows_is_told_within_a_second(vault, alice, session):
    seen, told = [], []

    def follow():
        try:
            seen.extend(session.follow())
        except NotFound:
            told.append(time.monotonic())

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    while len(seen) < 2:
        time.sleep(0.005)
    alice.erasure.erase(session=session.id)
    began = time.monotonic()
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert not told or told[0] - began < 1.0


# ------------------------------------------------------------------------------------------ stores that fail


def test_a_blob_that_cannot_be_deleted_leaves_it_incomplete_until_it_can(
    vault, alice, officer, session, monkeypatch
):
    """D3, D6: unreadable all the same; each is erased once, and the receipt says how far it is"""
    artifact = alice.artifacts.put("a", os.urandom(90_000), sources=[session])
    delete = FileBlobs.delete

    def refused(self, address):
        raise StorageUnavailable("the blob area is read-only")

    monkeypatch.setattr(FileBlobs, "delete", refused)
    first = alice.erasure.erase(session=session.id)
    assert first.state == "incomplete"
    assert is_gone(alice, session)
    for _ in range(2):  # it is tried again, and nothing new is signed
        again = alice.erasure.erase(session=session.id)
        assert (again.operation, again.state) == (first.operation, "incomplete")
        officer.retention.run()
    assert alice.erasure.erase(artifact=artifact.id).operation == first.operation
    assert officer.retention.health().unfinished == 1
    assert len(receipts_of(vault)) == 1
    monkeypatch.setattr(FileBlobs, "delete", delete)
    done = alice.erasure.erase(session=session.id)
    assert (done.operation, done.state) == (first.operation, "verified")
    assert [receipt.state for receipt in receipts_of(vault)] == ["incomplete", "verified"]
    chain_of(receipts_of(vault))
    assert not [file for file in (vault._directory / "blobs").rglob("*") if file.is_file()]
    assert officer.retention.health().unfinished == 0


def test_reopening_completes_what_the_blob_area_kept(vault, place, alice, session, clock):
    """D3"""
    blob = next(file for file in (place / "blobs").rglob("*") if file.is_file())
    blob.unlink()
    (blob / "in the way").mkdir(parents=True)  # not even root unlinks a directory
    assert alice.erasure.erase(session=session.id).state == "incomplete"
    vault.close()
    (blob / "in the way").rmdir()
    blob.rmdir()
    with Vault.open(place, clock=clock) as again:
        assert [receipt.state for receipt in receipts_of(again)] == ["incomplete", "verified"]


# ------------------------------------------------------------------------------------------ receipts


def test_receipts_are_chained_signed_and_say_what_really_went(vault, alice, bob, officer, place):
    """D6: counts, trees and stores against the files themselves; no name, no id, no other tenant"""
    words = {"title": "Kanarienvogel-title", "label": "Kanarienvogel-label"}
    stranger = vault.access(STRANGER)
    alice.erasure.erase(session=alice.sessions.create().id)  # makes the audit trail
    outcomes = []
    for number in range(3):
        made = alice.sessions.create(title=words["title"], labels={"k": words["label"]})
        for _ in range(4):
            made.append("message.user", {"content": "x" * 2_000})
        made.append("file.read", raw=os.urandom(90_000 + number))
        fork = alice.sessions.fork(made.id)
        artifact = alice.artifacts.put("a", os.urandom(90_000), sources=[fork])
        rows, blobs, keys = counted(vault, place)
        outcome = alice.erasure.erase(session=made.id)
        after = counted(vault, place)
        receipt = verified(outcome.receipt, vault._signer.public)
        stores = {store.store: store for store in receipt.stores}
        assert stores["data.db"].rows == rows - after[0]
        assert stores["blobs"].blobs == blobs - after[1] == 2
        assert stores["keys.db"].rows == keys - after[2] == receipt.keys.destroyed == 3
        assert receipt.counts == {"session": {"erased": 2}, "artifact": {"erased": 1}}
        assert receipt.items.count == 3
        outcomes.append((outcome, receipt, [made.id, fork.id, artifact.id]))
        other = stranger.sessions.create()
        stranger.erasure.erase(session=other.id)
    receipts = receipts_of(vault)
    assert [receipt.number for receipt in receipts] == [1, 2, 3, 4]
    assert chain_of(receipts)
    for outcome, receipt, names in outcomes:
        text = outcome.receipt.decode()
        ids = [name.partition("_")[2] for name in names]
        for word in (*words.values(), "alice", "acme", "zeta", *ids, *(id_.replace("-", "") for id_ in ids)):
            assert word not in text
        # An item is shown to be among those erased, to who has the key.
        marks = sorted(item_mark(outcome.key, receipt.operation, name) for name in names)
        assert tree_root(marks).hex() == receipt.items.root
        for name in names:
            index = marks.index(item_mark(outcome.key, receipt.operation, name))
            check_item(receipt, name, outcome.key, proof_file(index, proof(marks, index)))
    stranger_receipts = vault.access(
        dataclasses.replace(STRANGER, roles=frozenset({"auditor"}))
    ).erasure.receipts()
    assert {verified(one.receipt, None).tenant for one in stranger_receipts}.isdisjoint(
        receipt.tenant for receipt in receipts
    )


def counted(vault, place):
    """Rows of sessions and items, files of blobs, and keys, as SQLite and the file system count them."""
    tables = ("sessions", "labels", "events", "blobs", "runs", "touches", "items", "lineage")
    with vault._database.snapshot() as connection:
        # The audit trail grows meanwhile, so it is left out; labels go with their session's row.
        trail = "SELECT no FROM sessions WHERE external IS NOT NULL"
        rows = 0
        for table in tables:
            where = f" WHERE session_no NOT IN ({trail})"
            where = {"sessions": " WHERE external IS NULL", "items": "", "lineage": ""}.get(table, where)
            if table != "labels":
                query = f"SELECT count(*) FROM {table}{where}"  # noqa: S608
                rows += connection.execute(query).fetchone()[0]
    blobs = sum(file.is_file() for file in (place / "blobs").rglob("*"))
    with vault._key_database.snapshot() as connection:
        return rows, blobs, connection.execute("SELECT count(*) FROM keys").fetchone()[0]


def test_erasing_takes_so_long(alice, capsys):
    """Figures for people to read; nothing is judged"""
    lines = []
    for count in (20, 2_000):
        made = alice.sessions.create()
        for start in range(0, count, 500):
            size = min(500, count - start)
            made.append_many([NewEvent(type="message.user", payload={"x": "y" * 300}) for _ in range(size)])
        began = time.perf_counter()
        assert alice.erasure.erase(session=made.id).state == "verified"
        seconds = time.perf_counter() - began
        lines.append(f"a session of {count} events is unreadable and gone in {seconds:.3f} s")
    with capsys.disabled():
        print("", *lines, sep="\n")
