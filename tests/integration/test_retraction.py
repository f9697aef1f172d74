"""Erasing single events, and whole epochs, while their session lives on. D5, D6, S4, K1."""

import os
import subprocess
import sys

import pytest

from vault import NewEvent, Principal, Vault, new_event_id
from vault.errors import Conflict, Erased, InvalidInput, NotFound, SessionEnded
from vault.model import event_bytes
from vault.policy.epochs import EPOCH_MAX
from vault.sessions.log import RETRACTED

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"agent"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"agent"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
#: Of every size that is kept differently: in the database, as a repeat can be found, and in the blob area.
SIZES = (10, 3_000, 20_000, 300_000, 2_000_000)


def word(name):
    return f"Kanarien{'V'}ogel-{name}-Tschilpt"


def items(session, *names, epoch=1):
    return [session.append("chat.item", {"said": word(name)}, epoch=epoch) for name in names]


def told(session):
    return [None if event.erased else event.payload for event in session.events(types=["chat.item"])]


def in_files(place, needle):
    """The files that hold some bytes: another process looks, as reading here would drop SQLite's locks."""
    program = (
        "import pathlib, sys\n"
        "needle = bytes.fromhex(sys.argv[2])\n"
        "for path in pathlib.Path(sys.argv[1]).rglob('*'):\n"
        "    if path.is_file() and needle in path.read_bytes(): print(path)"
    )
    command = [sys.executable, "-c", program, str(place), needle.hex()]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_an_event_is_erased_and_the_fact_stays(session):
    """D5: the others are as they were, in their places"""
    _, second, _ = items(session, "a", "b", "c")
    (fact,) = session.retract([second.id])
    assert fact.type == RETRACTED
    assert fact.payload == {"epochs": [], "events": [second.seq]}
    assert told(session) == [{"said": word("a")}, None, {"said": word("c")}]
    (seen,) = session.events(after=next(session.events()).id, limit=1)
    assert (seen.id, seen.seq, seen.type, seen.erased, seen.payload) == (
        second.id,
        2,
        "chat.item",
        True,
        None,
    )


def test_a_whole_epoch_goes_with_its_key_and_another_is_not_touched(session):
    """D6"""
    items(session, "a", "b", epoch=1)
    items(session, "c", epoch=2)
    session.retract_epoch(1)
    assert told(session) == [None, None, {"said": word("c")}]
    with pytest.raises(Erased):
        items(session, "late", epoch=1)
    items(session, "d", epoch=2)
    assert told(session)[2:] == [{"said": word("c")}, {"said": word("d")}]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", ["json", "raw"])
def test_its_bytes_are_in_no_file_when_the_call_returns(place, form, size):
    """D6: not the sealed ones either, in whichever way a payload of its size is kept"""
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        session = vault.access(ALICE).sessions.create()
        filler = "".join(f"{number:x}" for number in range(size // 4))
        about = {"payload": filler} if form == "json" else {"raw": filler.encode()}
        gone = session.append("chat.item", epoch=1, tool="mail", **about)
        kept = session.append("chat.item", epoch=1, **{k: v + v for k, v in about.items()})
        address = bytes.fromhex(gone.payload_ref.rpartition("/")[2])
        with vault._records.snapshot() as reader:
            sealed = reader.event(1, event_bytes(gone.id)).body
        assert sealed is None or in_files(place, sealed[-40:])
        session.retract([gone.id])
        assert sealed is None or not in_files(place, sealed[-40:])
        assert not (place / "blobs" / address.hex()[:2] / address.hex()).exists()
        with vault._records.snapshot() as reader:
            blobs = list(reader.scan("blobs_of_epochs", session_no=1, low=1, high=2**32))
        # Its row says nothing any more, and not that there is a file.
        assert [in_area for _, _, named, _, in_area in blobs if named == address] == [0]
        (seen,) = [event for event in session.events() if event.id == gone.id]
        assert (seen.erased, seen.streamed) == (True, False)
        assert (seen.payload, seen.raw, seen.tool) == (None, None, None)
        (other,) = [event for event in session.events() if event.id == kept.id]
        assert not other.erased
        with pytest.raises(Erased):
            session.open(gone)
        assert vault.verify().ok


def test_what_another_event_repeats_stays_until_that_is_erased_too(session):
    """D4: nothing innocent is taken"""
    text = {"said": word("twice") * 200}
    first, second = (session.append("chat.item", text, epoch=1) for _ in range(2))
    session.retract([first.id])
    assert told(session) == [None, text]
    session.retract([second.id])
    assert told(session) == [None, None]
    assert session.append("chat.item", text, epoch=1).payload == text
    assert told(session) == [None, None, text]


def test_erasing_twice_appends_no_second_fact(session):
    (item,) = items(session, "a")
    session.retract([item.id, item.id])
    assert session.retract([item.id]) == []
    session.retract_epoch(1)
    assert session.retract_epoch(1) == []
    assert session.retract([item.id]) == []
    assert len(list(session.events(types=[RETRACTED]))) == 2


def test_events_that_go_with_the_fact_are_appended_or_nothing_is_erased(session):
    """D5: one transaction"""
    (item,) = items(session, "a")
    known = session.append("chat.note", {"n": 1}, event_id=new_event_id())
    with pytest.raises(Conflict):
        session.retract([item.id], also=[NewEvent(type="chat.note", payload={"n": 2}, event_id=known.id)])
    assert told(session) == [{"said": word("a")}]
    appended = session.retract([item.id], also=[NewEvent(type="chat.summary", payload={"n": 3})])
    assert [event.type for event in appended] == ["chat.summary", RETRACTED]
    assert told(session) == [None]


def test_a_late_delivery_brings_nothing_back(session):
    """D6: the same event again, as a queue would deliver it"""
    new = NewEvent(type="chat.item", payload={"said": word("a")}, epoch=1, event_id=new_event_id())
    (item,) = session.append_many([new])
    assert session.append_many([new]) == [item]
    session.retract([item.id])
    with pytest.raises(Erased):
        session.append_many([new])
    session.retract_epoch(1)
    with pytest.raises(Erased):
        session.append_many([new])
    assert told(session) == [None]


@pytest.mark.parametrize("how", ["retract", "retract_epoch"])
def test_a_hold_keeps_all_of_a_session(vault, session, how):
    """D2: legal hold beats every deletion"""
    (item,) = items(session, "a")
    hold = vault.access(OFFICER).holds.place(subject="alice", reason="matter 7")
    asked = {"retract": lambda: session.retract([item.id]), "retract_epoch": lambda: session.retract_epoch(1)}
    with pytest.raises(Conflict, match="hold"):
        asked[how]()
    assert told(session) == [{"said": word("a")}]
    vault.access(OFFICER).holds.lift(hold.id, reason="over")
    asked[how]()
    assert told(session) == [None]


def test_what_lives_as_long_as_its_session_is_refused(session):
    plain = session.append("chat.item", "x")
    with pytest.raises(InvalidInput, match="as long as its session"):
        session.retract([plain.id])
    for epoch in (0, -1, EPOCH_MAX + 1, True, "1", None):
        with pytest.raises(InvalidInput):
            session.retract_epoch(epoch)
    for epoch in (-1, EPOCH_MAX + 1, True, "1", 1.0):
        with pytest.raises(InvalidInput):
            session.append("chat.item", "x", epoch=epoch)
    with pytest.raises(NotFound):
        session.retract([new_event_id()])
    assert [event.payload for event in session.events()] == ["x"]


@pytest.mark.parametrize("kind", ["effect.intended", "run.noted", "checkpoint.created"])
def test_what_the_vault_itself_goes_by_has_no_epoch_of_its_own(session, kind):
    """C4, invariant 18: erasing never makes an agent repeat an effect"""
    with pytest.raises(InvalidInput):
        session.append(kind, {"kind": "mail", "key": "1", "state": {}, "sha256": ""}, epoch=1)


def test_nobody_writes_the_fact_by_hand(session):
    """D2: else what a hold keeps could be hidden"""
    (item,) = items(session, "a")
    with pytest.raises(InvalidInput):
        session.append(RETRACTED, {"epochs": [1], "events": [item.seq]})
    assert told(session) == [{"said": word("a")}]


def test_a_fork_sees_what_is_erased_in_its_original_and_erases_nothing_of_it(alice, session):
    """S4"""
    items(session, "a", "b")
    shared = list(session.events())
    fork = alice.fork(session.id)
    (own,) = items(fork, "own", epoch=1)
    with pytest.raises(InvalidInput, match="forked from"):
        fork.retract([shared[0].id])
    session.retract([shared[0].id])
    assert told(fork) == [None, {"said": word("b")}, {"said": word("own")}]
    fork.retract([own.id])
    assert told(fork) == [None, {"said": word("b")}, None]
    assert told(session) == [None, {"said": word("b")}]


def test_another_process_sees_it_too(place, vault, session, python):
    """D6: what it had opened before is no way round"""
    (item,) = items(session, "a")
    program = """
import sys
from vault import Principal, Vault
with Vault.open(sys.argv[1]) as vault:
    session = vault.access(Principal(tenant="acme", subject="alice")).sessions.resume(sys.argv[2])
    print(next(session.events()).payload["said"], flush=True)
    sys.stdin.readline()
    print([event.erased for event in session.events(limit=1)], flush=True)
    try:
        session.append("chat.item", "late", epoch=1)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""
    other = python(program, place, session.id)
    assert other.stdout.readline().strip() == word("a")
    session.retract([item.id])
    session.retract_epoch(1)
    other.stdin.write("\n")
    other.stdin.flush()
    assert other.stdout.readline().strip() == "[True]"
    assert other.stdout.readline().strip() == "Erased"


def test_a_session_with_erased_events_is_erased_whole_and_verifies(vault, alice, session):
    """D6, invariant 17"""
    (item,) = items(session, "a")
    items(session, "b", epoch=2)
    session.retract([item.id])
    session.retract_epoch(2)
    assert vault.verify().ok
    outcome = vault.access(ALICE).erasure.erase(session=session.id)
    assert outcome.state == "verified"
    assert vault.verify().ok


def test_no_process_that_opens_the_vault_takes_an_erased_epoch_for_an_erased_session(place, monkeypatch):
    """D6: killed after the key was condemned; the session lives on, and the epoch is gone"""
    from vault.erasure import retract

    with Vault.create(place, settings={"synchronous": "NORMAL"}) as vault:
        session = vault.access(ALICE).sessions.create()
        items(session, "a", epoch=1)
        items(session, "b", epoch=2)

        def killed(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(retract, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            session.retract_epoch(1)
        monkeypatch.undo()
    with Vault.open(place) as vault:
        session = vault.access(ALICE).sessions.resume(session.id)
        assert told(session) == [None, {"said": word("b")}]
        session.retract_epoch(1)
        assert told(session) == [None, {"said": word("b")}]
        assert vault.verify().ok


def test_what_was_made_from_an_event_goes_with_its_epoch(vault, session):
    """D4, invariants 10 and 17: unreadable at once, at whatever remove, and the vault verifies"""
    (item,) = items(session, "a", epoch=1)
    kept = items(session, "b", epoch=2)[0]
    access = vault.access(ALICE)
    first = access.memories.put(("facts",), "first", {"n": 1}, sources=[item])
    access.memories.put(("facts",), "second", {"n": 2}, sources=[first])
    access.memories.put(("facts",), "other", {"n": 3}, sources=[kept])
    session.retract([item.id])
    assert len(access.memories.search()) == 3  # the key of its epoch is there, as of all that is in it
    session.retract_epoch(1)
    assert [memory.key for memory in access.memories.search()] == ["other"]
    for key in ("first", "second"):
        with pytest.raises(NotFound):
            access.memories.get(("facts",), key)
    assert vault.verify().ok
    assert access.erasure.erase(session=session.id).state == "verified"
    assert vault.verify().ok


def test_a_memory_stays_known_as_made_from_the_session(vault, session):
    """D4: what was derived goes with the session, whatever of it was erased before"""
    (item,) = items(session, "a")
    access = vault.access(ALICE)
    access.memories.put(("facts",), "k", {"n": 1}, sources=[item])
    session.retract([item.id])
    access.erasure.erase(session=session.id)
    assert access.memories.search() == []


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_refused_append_leaves_no_file_behind(place, session, epoch):
    """D6: what nothing will ever name is not kept under a living key"""
    known = session.append("chat.note", "n", event_id=new_event_id())
    body = os.urandom(100_000)
    for terms, about in (({"expect_head": 7}, {}), ({}, {"event_id": known.id})):
        with pytest.raises(Conflict):
            session.append_many([NewEvent(type="chat.item", raw=body, epoch=epoch, **about)], **terms)
    with pytest.raises(InvalidInput):
        session.append_many([NewEvent(type="chat.item", raw=body, epoch=epoch), NewEvent(type="no")])
    assert [path for path in (place / "blobs").rglob("*") if path.is_file()] == []
    session.append("chat.item", raw=body, epoch=epoch)
    assert len([path for path in (place / "blobs").rglob("*") if path.is_file()]) == 1


def test_events_of_a_session_that_ended_can_still_be_erased(vault, session):
    """D5: and nothing else is appended by it"""
    first, _ = items(session, "a", "b")
    session.end()
    with pytest.raises(SessionEnded):
        session.retract([first.id], also=[NewEvent(type="chat.note", payload=1)])
    session.retract([first.id])
    assert told(session) == [None, {"said": word("b")}]
    session.retract_epoch(1)
    assert told(session) == [None, None]
    assert session.info().state == "ended"
    with pytest.raises(SessionEnded):
        session.append("chat.note", 1)
    assert vault.verify().ok
