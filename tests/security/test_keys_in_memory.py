"""What one process destroyed, no other one uses from its memory: not its keys, and nothing that they opened.

D2, D5, D6. "Theirs" is another process's: it had the session open before it was erased, and still runs.
"""

import contextlib

import pytest

from tests.security import surgery
from vault import NewEvent, Principal, Vault
from vault.errors import Erased, KeyUnavailable, NotFound
from vault.model import session_bytes
from vault.sessions import append

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"agent", "owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"agent"}))


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def other(vault, place):
    """The vault as another process has it open."""
    with Vault.open(place) as opened:
        yield opened


@pytest.fixture
def session(alice):
    made = alice.sessions.create(title="secret")
    made.append("user.profile", {"first_name": "Wilhelmina"})
    for text in ("I am Wilhelmina, and I like tea", "with milk"):
        made.append("message.user", {"content": text})
    return made


def tables(connection):
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%sqlite%'"
    return [name for (name,) in connection.execute(query)]


def all_rows(place):
    with contextlib.closing(surgery.connected(place)) as data:
        return {
            name: surgery.rows_as_dicts(data, f"SELECT * FROM {name}")  # noqa: S608
            for name in tables(data)
            if name not in {"operations", "receipts", "vault", "sweeper"}
        }


def put_back(place, rows):
    """All of data.db as it was."""
    with surgery.opened(place) as data:
        for name, found in rows.items():
            data.execute(f"DELETE FROM {name}")  # noqa: S608
            for row in found:
                surgery.insert(data, name, row)


# ------------------------------------------------------------------------------------------------- keys


def test_an_item_that_is_put_back_is_read_by_no_other_process(vault, place, alice, other, session):
    """D2, D6: neither by its key nor by a search, and nothing is made from it"""
    alice.memories.put(("likes",), "drink", "tea", sources=[session])
    theirs = other.access(ALICE)
    assert theirs.memories.get(("likes",), "drink").value == "tea"
    assert theirs.memories.search(text="tea")
    rows = all_rows(place)
    alice.erasure.erase(session=session.id)
    put_back(place, rows)
    with pytest.raises(NotFound):
        theirs.memories.get(("likes",), "drink")
    assert theirs.memories.search(text="tea") == []
    assert theirs.memories.list() == []


def test_a_detached_item_that_is_put_back_is_read_by_no_other_process(vault, place, alice, other, session):
    """D6: its key hangs on nothing, so nothing but its own end tells"""
    how = {"on_source_erased": "detach", "reason": "a form without anything filled in"}
    made = alice.artifacts.put("form", b"blank", sources=[session], **how)
    theirs = other.access(ALICE)
    assert theirs.artifacts.get("form").open().read() == b"blank"
    rows = all_rows(place)
    alice.erasure.erase(artifact=made.id)
    put_back(place, rows)
    with pytest.raises(NotFound):
        theirs.artifacts.get("form")


def test_a_session_that_is_put_back_is_read_by_no_other_process(vault, place, alice, other, session):
    """D6: nor written to, forked, or shared"""
    theirs = other.access(ALICE).sessions.resume(session.id)
    assert len(list(theirs.events())) == 3
    rows = all_rows(place)
    alice.erasure.erase(session=session.id)
    put_back(place, rows)
    for use in (
        lambda: next(theirs.events(limit=1)),
        lambda: theirs.append("message.user", "late"),
        theirs.run,
        lambda: other.access(ALICE).sessions.fork(session.id),
        lambda: other.access(ALICE).memories.put((), "late", "late", sources=[session.id]),
    ):
        with pytest.raises(NotFound):
            use()


def test_an_epoch_that_is_put_back_is_read_by_no_other_process(vault, place, alice, other, session):
    """D6: of a session that lives on, with its log as it was before the fact that says so"""
    session.append("chat.item", {"text": "passing " * 40}, epoch=1)
    theirs = other.access(ALICE).sessions.resume(session.id)
    assert [event.erased for event in theirs.events()] == [False, False, False, False]
    rows = all_rows(place)
    session.retract_epoch(1)
    put_back(place, rows)
    assert [event.erased for event in theirs.events()] == [False, False, False, True]


def test_an_item_whose_epoch_is_put_back_is_read_by_no_other_process(vault, place, alice, other, session):
    """D2, D6: its key hangs on the epoch's, which is gone; nothing tells of its own"""
    said = session.append("chat.item", {"text": "passing"}, epoch=1)
    alice.memories.put((), "said", "passing", sources=[said])
    theirs = other.access(ALICE)
    assert theirs.memories.get((), "said").value == "passing"
    rows = all_rows(place)
    session.retract_epoch(1)
    put_back(place, rows)
    with pytest.raises(NotFound):
        theirs.memories.get((), "said")


def test_a_key_that_another_one_took_the_place_of_is_used_by_no_other_process(place, other, session):
    """D6: it leaves no tombstone, and is gone all the same"""
    theirs = other.access(ALICE).sessions.resume(session.id)
    assert len(list(theirs.events())) == 3
    with contextlib.closing(surgery.connected(place, "keys.db")) as keys:
        of_session = session_bytes(session.id)
        (row,) = surgery.rows_as_dicts(keys, "SELECT * FROM keys WHERE scope = ?", of_session)
        keys.execute("DELETE FROM keys WHERE scope = ?", (of_session,))
        with pytest.raises(KeyUnavailable):
            list(theirs.events())
        surgery.insert(keys, "keys", row)  # so that the vault can be closed


def test_what_was_opened_in_the_midst_of_an_erasure_is_not_kept(vault, alice, other, session):
    """D5: read before it was condemned, and put into memory after"""
    tenant = other._keys.tenant("acme", create=False)
    place_of = tenant, tenant.owner("alice"), session_bytes(session.id)
    opened = other._keys._open_epoch

    def meanwhile(*asked):
        key = opened(*asked)
        alice.erasure.erase(session=session.id)
        other._keys.kept.refresh()  # another thread, which looks meanwhile
        return key

    other._keys._open_epoch = meanwhile
    other._keys.epoch(*place_of, 0)
    other._keys._open_epoch = opened
    with pytest.raises(Erased):
        other._keys.epoch(*place_of, 0)


def test_nothing_is_written_under_a_key_that_another_process_destroys_meanwhile(other, session, monkeypatch):
    """D6: sealed with it already, and not stored yet"""
    session.append("chat.item", {"text": "passing"}, epoch=1)
    theirs = other.access(ALICE).sessions.resume(session.id)
    prepare_all = append.prepare_all

    def meanwhile(*given):
        prepared = prepare_all(*given)
        monkeypatch.undo()
        session.retract_epoch(1)
        return prepared

    monkeypatch.setattr(append, "prepare_all", meanwhile)
    with pytest.raises(Erased):
        theirs.append("chat.item", {"text": "late"}, epoch=1)


def test_the_sessions_that_others_make_drop_nothing(vault, alice, other, session):
    """A process whose neighbours begin sessions all the time opens each key once"""
    theirs = other.access(ALICE).sessions.resume(session.id)
    kept = other._keys.kept
    before = dict(kept._keys)
    for number in range(20):
        alice.sessions.create(external_id=f"one of many {number}")
    assert len(list(theirs.events())) == 3
    assert before
    assert all(kept._keys[key] is value for key, value in before.items())


def test_a_process_that_was_away_for_long_drops_all(vault, alice, other, session, place):
    """D6: of what is not listed any more it is not known whose it was"""
    theirs = other.access(ALICE).sessions.resume(session.id)
    list(theirs.events())
    kept = other._keys.kept
    held = list(kept._keys.values())
    assert held
    with contextlib.closing(surgery.connected(place, "keys.db")) as keys:
        for number in range(5_000):
            scope = number.to_bytes(16)
            row = ("epoch", scope, -1, b"", b"", b"", b"o" * 16, 1)
            keys.execute("INSERT INTO destroyed VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        assert keys.execute("SELECT count(*) FROM withdrawn").fetchone()[0] == 4096
    assert len(list(theirs.events())) == 3
    assert not any(one is two for one in held for two in kept._keys.values())


# ------------------------------------------------------------------------------------- what they opened


def test_what_is_searched_is_dropped_when_another_process_erases(vault, alice, other, session):
    """D2: by whatever the process does next, for whomever"""
    alice.memories.put(("likes",), "drink", "tea", sources=[session])
    assert other.access(ALICE).memories.search(text="tea")
    index = other._derived._index
    assert index._shelves
    alice.erasure.erase(session=session.id)
    other.access(BOB).sessions.create().info()
    assert not index._shelves
    assert not index._names
    assert index._size == 0


@pytest.fixture
def views(vault, alice, other, session):
    """Bob's view of a session, seen in this process and in theirs: both have learnt its words."""
    alice.grants.give(session.id, "bob", level="L1")
    for one in (vault, other):
        seen = list(one.access(BOB).sessions.resume(session.id).events())
        assert "Wilhelmina" not in str(seen)
    return vault._viewer, other._viewer


def words_of(viewer):
    return {term.text for known in viewer._words._known.values() for term in known.terms}


def test_the_words_of_a_session_are_dropped_with_it(vault, alice, other, session, views):
    """D2: by the process that erases it, and by others; and its texts at the seams of events"""
    for viewer in views:
        assert any("ilhelmina" in word.lower() for word in words_of(viewer))
        assert viewer._seams._kept
    alice.erasure.erase(session=session.id)
    other.access(ALICE).sessions.create().append("a.b", 1)
    for viewer in views:
        assert words_of(viewer) == set()
        assert not viewer._seams._kept


def test_words_of_an_event_that_was_erased_are_learnt_no_more(vault, alice, session):
    """D2: the session lives on; what only that event named is not kept for it"""
    session.append_many([NewEvent(type="user.profile", payload={"first_name": "Rumpelstiltskin"}, epoch=1)])
    alice.grants.give(session.id, "bob", level="L1")
    theirs = vault.access(BOB).sessions.resume(session.id)
    list(theirs.events())
    assert any("rumpelstiltskin" in word.lower() for word in words_of(vault._viewer))
    one = next(session.events(types=["user.profile"], newest_first=True, limit=1))
    session.retract([one.id])
    assert "Wilhelmina" not in str(list(theirs.events()))
    words = {word.lower() for word in words_of(vault._viewer)}
    assert not any("rumpelstiltskin" in word for word in words)
    assert any("wilhelmina" in word for word in words)


def test_learning_goes_on_while_others_erase(vault, alice, other, session, views):
    """D2, R1: a process in the midst of learning hides all that it knew, and keeps nothing of it"""
    words = other._viewer._words
    with words._lock:
        alice.erasure.erase(session=session.id)
        other._keys.kept.refresh()  # by the same thread; another one would leave it to this one
    assert words_of(other._viewer) == set()


def test_whoever_watches_is_told_whose_keys_are_gone(vault, alice, other, session):
    """D2: adapters drop what they hold of these sessions, and of no others"""

    class Holder:
        def __init__(self):
            self.told = []

        def withdrawn(self, gone):
            self.told.append(gone)

    holder, unheard = Holder(), Holder()
    access = other.access(ALICE)
    kept = access.sessions.create()
    kept.info()
    access.watch(holder.withdrawn)
    access.watch(unheard.withdrawn)
    del unheard
    alice.erasure.erase(session=session.id)
    assert len(list(kept.events())) == 0
    assert any(session_bytes(session.id) in gone for gone in holder.told)
    assert not any(session_bytes(kept.id) in gone for gone in holder.told)
