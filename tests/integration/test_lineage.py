"""Nothing is derived from nothing, from what may not be read, or from what is going (D4, O1)."""

import contextvars
import threading
from functools import partial

import pytest

from vault import Principal, Vault
from vault.derived import lineage, putting, sources
from vault.derived.opening import Opener
from vault.erasure.fence import fence
from vault.errors import Fenced, InvalidInput, LimitExceeded, NotFound
from vault.policy.plan import Item
from vault.ports.keys import Doomed
from vault.sealing.item_rows import item_mac
from vault.sessions import readings

ALICE = Principal(tenant="acme", subject="alice", roles={"agent", "owner"})
BOB = Principal(tenant="acme", subject="bob", roles={"agent", "owner"})
EVE = Principal(tenant="other", subject="alice")
ABSENT = "there is no such derived item"
ABSENT_SOURCE = "there is no such source"


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def bob(vault):
    return vault.access(BOB)


@pytest.fixture
def session(alice):
    return alice.sessions.create(title="August sales")


def ids(item):
    return [one.id for one in item.sources]


def edges(vault):
    """Every edge of the lineage table: source, and the id of what came from it."""
    with vault._records.snapshot() as reader:
        rows = [row[:2] for row in reader.scan("all_items", after=0, limit=1000)]
        return {(source, item_id) for number, item_id in rows for source in reader.items.sources_of(number)}


# ------------------------------------------------------------------------------------ named sources


def test_an_item_names_what_it_came_from_by_object_or_id(alice, session, vault):
    event = session.append("message.user", {"content": "hello"})
    first = alice.memories.put((), "a", 1, sources=[session])
    file = alice.artifacts.put("f", b"x", sources=[session.id])
    forms = [session, event, first, file, *first.sources]
    made = alice.memories.put((), "b", 1, sources=forms)
    assert ids(made) == [session.id, event.id, first.id, file.id]
    assert [one.kind for one in made.sources] == ["session", "event", "memory", "artifact"]
    again = alice.memories.put((), "c", 1, sources=[session.id, event.id, first.id, file.id])
    assert again.sources == made.sources
    raw = {one.id: bytes.fromhex(one.id[4:].replace("-", "")) for one in made.sources}
    mine = bytes.fromhex(made.id[4:].replace("-", ""))
    assert {source for source, item in edges(vault) if item == mine} == {
        raw[session.id],
        raw[first.id],
        raw[file.id],
    }


def test_nothing_comes_from_nothing(alice, session):
    for none in (None, [], (), iter([])):
        with pytest.raises(InvalidInput, match="nothing comes from nothing"):
            alice.memories.put((), "a", 1, sources=none)
        with pytest.raises(InvalidInput, match="nothing comes from nothing"):
            alice.artifacts.put("a", b"1", sources=none)


def test_what_is_no_source_is_refused(alice, session):
    run = session.run()
    run.stop()
    for wrong in (7, None, "", "ses_", "run_x", session.id[:-1], run, run.id, b"x", [session]):
        with pytest.raises((InvalidInput, NotFound)):
            alice.memories.put((), "a", 1, sources=[wrong])
    for wrong in (session.id, session, 7):
        with pytest.raises(InvalidInput):
            alice.memories.put((), "a", 1, sources=wrong)
    memory, file = (
        alice.memories.put((), "m", 1, sources=[session]),
        alice.artifacts.put("f", b"1", sources=[session]),
    )
    for wrong in (
        memory.id.replace("mem", "art"),
        file.id.replace("art", "mem"),
        session.id.replace("ses", "mem"),
    ):
        with pytest.raises(NotFound, match=ABSENT_SOURCE):
            alice.memories.put((), "a", 1, sources=[wrong])
        with pytest.raises(NotFound, match=ABSENT):
            alice.derived.lineage(wrong)


def test_an_events_id_alone_needs_its_session_beside_it(alice, session):
    event = session.append("message.user", {"content": "hello"})
    with pytest.raises(InvalidInput, match="does not say its session"):
        alice.memories.put((), "a", 1, sources=[event.id])
    other = alice.sessions.create()
    with pytest.raises(NotFound, match=ABSENT_SOURCE):
        alice.memories.put((), "a", 1, sources=[other, event.id])
    assert alice.memories.put((), "a", 1, sources=[session, event.id]).sources[1].session_id == session.id


def test_an_event_of_a_fork_is_a_source_at_the_session_that_holds_it(alice, session):
    event = session.append("message.user", {"content": "hello"})
    fork = alice.sessions.fork(session.id)
    (shared,) = fork.events()
    made = alice.memories.put((), "a", 1, sources=[fork, event.id])
    assert made.sources[1].session_id == session.id
    assert alice.memories.put((), "b", 1, sources=[shared]).sources[0].session_id == session.id


def test_there_is_a_most_of_sources(alice, session):
    events = [session.append("message.user", number) for number in range(sources.SOURCES_MAX + 1)]
    with pytest.raises(LimitExceeded):
        alice.memories.put((), "a", 1, sources=events)
    made = alice.memories.put((), "a", 1, sources=[*events[:-1], events[0], events[1]][: sources.SOURCES_MAX])
    assert len(made.sources) == sources.SOURCES_MAX
    assert alice.memories.get((), "a") == made


def test_there_is_a_most_of_derivations(alice, session, monkeypatch):
    monkeypatch.setattr(putting, "LINEAGE_DEPTH_MAX", 3)
    made = session
    for number in range(3):
        made = alice.memories.put((), str(number), 1, sources=[made])
    with pytest.raises(LimitExceeded):
        alice.memories.put((), "x", 1, sources=[made])
    assert alice.memories.put((), "x", 1, sources=[session]).version == 1


# ------------------------------------------------------------------------------- whose they may be


def test_a_source_is_what_this_principal_may_read_in_full(vault, alice, bob, session):
    event = session.append("message.user", {"content": "hello"})
    mine = alice.memories.put((), "a", 1, sources=[session])
    file = alice.artifacts.put("a", b"1", sources=[session])
    for stranger in (bob, vault.access(EVE)):
        own = stranger.sessions.create()
        for source in (session, session.id, event, mine, mine.id, file):
            with pytest.raises(NotFound) as refused:
                stranger.memories.put((), "b", 1, sources=[own, source])
            assert str(refused.value) == ABSENT_SOURCE
        assert stranger.memories.list() == []


def test_a_session_that_was_shared_is_a_source_in_full_and_not_as_a_view(alice, bob, session):
    event = session.append("message.user", {"content": "hello"})
    alice.grants.give(session.id, to="bob", level="L2")
    for source in (session.id, event):
        with pytest.raises(InvalidInput, match="only as a view"):
            bob.memories.put((), "b", 1, sources=[source])
    alice.grants.give(session.id, to="bob", level="L3")
    made = bob.memories.put((), "b", 1, sources=[session.id])
    assert bob.memories.get((), "b") == made
    with pytest.raises(NotFound):
        alice.memories.get((), "b")
    # What Alice sees of her session's lineage is hers alone.
    assert alice.derived.lineage(session.id).derived == ()


# -------------------------------------------------------------------------------- what a run reads


def test_within_a_run_what_it_read_is_the_source_by_itself(alice, session):
    other, unread = alice.sessions.create(), alice.sessions.create()
    other.append("message.user", {"content": "hello"})
    unread.append("message.user", {"content": "hello"})
    old = alice.memories.put((), "old", 1, sources=[other])
    older = alice.memories.put((), "older", 1, sources=[other])
    file = alice.artifacts.put("f", b"1", sources=[other])
    with session.run():
        assert ids(alice.memories.put((), "a", 1)) == [session.id]
        list(other.events())
        alice.memories.get((), "old")
        assert ids(alice.memories.put((), "a", 1)) == [session.id, other.id, old.id]
        alice.artifacts.get("f")
        alice.memories.search(filter=None, text="older")
        made = alice.artifacts.put("g", b"1")
        assert ids(made) == [session.id, other.id, old.id, file.id, older.id]
    with pytest.raises(InvalidInput, match="nothing comes from nothing"):
        alice.memories.put((), "b", 1)


def test_a_new_version_comes_from_the_one_before_only_when_that_was_read(alice, session):
    first = alice.memories.put((), "a", 1, sources=[session])
    with session.run():
        assert ids(alice.memories.put((), "a", 2)) == [session.id]
    with session.run():
        second = alice.memories.get((), "a")
        assert ids(alice.memories.put((), "a", 3)) == [session.id, second.id]
    assert first.id != second.id


@pytest.mark.parametrize(
    "way", ["events", "slice", "find", "info", "open", "recover", "history", "list", "artifacts"]
)
def test_every_way_to_read_is_noted(way, alice, session, vault):
    other = alice.sessions.create(title="other")
    event = other.append("tool.returned", raw=bytes(2_000_000))
    memory = alice.memories.put((), "m", 1, sources=[other])
    file = alice.artifacts.put("f", b"1", sources=[other])
    expected = {"history": memory.id, "list": memory.id, "artifacts": file.id}.get(way, other.id)
    with session.run():
        {
            "events": lambda: list(other.events()),
            "slice": lambda: list(other.slice(event.id, event.id)),
            "find": lambda: alice.sessions.find(limit=5),
            "info": other.info,
            "open": lambda: other.open(event).close(),
            "recover": other.recover,
            "history": lambda: alice.memories.history((), "m"),
            "list": alice.memories.list,
            "artifacts": alice.artifacts.list,
        }[way]()
        assert expected in ids(alice.memories.put((), "a", 1))


def test_fewer_sources_than_the_run_has_read_need_a_reason(alice, session):
    other = alice.sessions.create()
    other.append("message.user", {"content": "hello"})
    with session.run() as run:
        mine = run.append("message.assistant", {"content": "hi"})
        list(other.events())
        with pytest.raises(InvalidInput, match="say why"):
            alice.memories.put((), "a", 1, sources=[session])
        made = alice.memories.put((), "a", 1, sources=[session], reason="the other one was only looked at")
        assert (ids(made), made.reason) == ([session.id], "the other one was only looked at")
        assert alice.memories.get((), "a").reason == made.reason
        # An event stands for its session; more than was read is no narrowing.
        alice.memories.put((), "b", 1, sources=[mine.id, other, made, alice.sessions.create()])


def test_a_run_that_read_too_much_has_to_say_what_counts(alice, session, monkeypatch):
    monkeypatch.setattr(sources, "SOURCES_MAX", 3)
    for number in range(3):
        alice.memories.put((), str(number), 1, sources=[session])
    with session.run():
        alice.memories.list()
        with pytest.raises(LimitExceeded, match="name its sources"):
            alice.memories.put((), "a", 1)
        alice.memories.put((), "a", 1, sources=[session], reason="the others were only counted")


def test_what_no_longer_fits_into_a_runs_readings_is_not_taken_for_unread(alice, session, monkeypatch):
    monkeypatch.setattr(readings, "READINGS_MAX", 2)
    others = [alice.sessions.create() for _ in range(2)]
    for other in others:
        other.append("message.user", {"content": "hello"})
    with session.run():
        list(others[0].events())
        assert len(alice.memories.put((), "a", 1).sources) == 2
        list(others[1].events())
        with pytest.raises(LimitExceeded):
            alice.memories.put((), "a", 1)
        with pytest.raises(InvalidInput, match="say why"):
            alice.memories.put((), "a", 1, sources=[session, *others])


def test_what_a_run_within_a_run_reads_both_know(alice, session):
    inner, read = alice.sessions.create(), alice.sessions.create()
    read.append("message.user", {"content": "hello"})
    with session.run():
        with inner.run():
            list(read.events())
            assert ids(alice.memories.put((), "a", 1)) == [inner.id, read.id]
        assert ids(alice.memories.put((), "a", 1)) == [session.id, read.id]


def test_a_run_that_is_entered_twice_notes_once(alice, session):
    inner = alice.sessions.create()
    with session.run() as run, inner.run(), run:
        alice.sessions.create().append("message.user", {"content": "hello"})
        assert ids(alice.memories.put((), "a", 1)) == [inner.id]
    with pytest.raises(InvalidInput):
        alice.memories.put((), "a", 1)


def test_a_thread_of_a_run_needs_its_context_to_put(alice, session):
    told = []

    def work():
        try:
            told.append(ids(alice.memories.put((), "a", 1)))
        except InvalidInput:
            told.append("refused")

    with session.run():
        for target in (work, partial(contextvars.copy_context().run, work)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert told == ["refused", [session.id]]


def test_a_run_of_one_vault_says_nothing_of_another(alice, session, tmp_path):
    with Vault.create(tmp_path / "other", settings={"synchronous": "NORMAL"}) as vault:
        theirs = vault.access(ALICE)
        own = theirs.sessions.create()
        own.append("message.user", {"content": "hello"})
        with session.run():
            list(own.events())
            assert ids(alice.memories.put((), "a", 1)) == [session.id]
            with pytest.raises(InvalidInput, match="nothing comes from nothing"):
                theirs.memories.put((), "a", 1)
            theirs.memories.put((), "a", 1, sources=[own])


def test_looking_whether_something_is_shared_reads_nothing(alice, bob, session):
    session.append("message.user", {"content": "hello"})
    alice.grants.give(session.id, to="bob", level="L3")
    own = bob.sessions.create()
    with own.run():
        list(bob.sessions.resume(session.id).events())
        assert ids(bob.memories.put((), "b", 1)) == [own.id, session.id]


# ------------------------------------------------------------------------------------- what goes


RULES = ["erase_with_any", "recompute", "erase_with_last"]


def there(memories, *keys):
    found = set()
    for key in keys:
        try:
            memories.get((), key)
        except NotFound:
            continue
        found.add(key)
    assert {one.key for one in memories.list()} & set(keys) == found
    return found


def test_what_came_from_an_erased_session_goes_with_it_as_its_rule_says(alice):
    one, two = alice.sessions.create(), alice.sessions.create()
    for rule in RULES:
        alice.memories.put((), rule, 1, sources=[one, two], on_source_erased=rule)
    alice.memories.put(
        (), "detach", 1, sources=[one, two], on_source_erased="detach", kind="cache", reason="a count"
    )
    alice.erasure.erase(session=one.id)
    assert there(alice.memories, *RULES) == {"erase_with_last"}
    left = alice.memories.get((), "erase_with_last")
    assert alice.memories.get((), "detach", kind="cache").value == 1
    # It can still be what something comes from, and so can the session that is left.
    alice.memories.put((), "more", 1, sources=[left, two])
    alice.erasure.erase(session=two.id)
    assert there(alice.memories, *RULES, "more") == set()
    assert alice.memories.get((), "detach", kind="cache").value == 1


def test_what_came_from_what_came_from_an_erased_session_goes_too(alice, session):
    first = alice.memories.put((), "a", 1, sources=[session])
    file = alice.artifacts.put("f", b"1" * 100_000, sources=[first])
    alice.memories.put((), "b", 1, sources=[file])
    alice.memories.put(
        (), "a", 2, sources=[alice.sessions.create()]
    )  # the old version still leads to the others
    alice.erasure.erase(session=session.id)
    assert there(alice.memories, "a", "b") == {"a"}
    assert alice.artifacts.list() == []
    with pytest.raises(NotFound):
        file.open()


def test_an_erasure_leaves_nothing_of_an_item_open_in_memory(vault, alice, session):
    alice.memories.put((), "m", "marzipan", sources=[session])
    alice.memories.put((), "n", "nougat", sources=[alice.sessions.create()])
    alice.memories.list()
    assert [len(shelf.entries) for shelf in vault._derived._index._shelves.values()] == [2]
    alice.erasure.erase(session=session.id)
    assert not vault._derived._index._shelves
    assert [one.value for one in alice.memories.list()] == ["nougat"]


def test_the_key_alone_decides_even_when_no_row_was_touched(vault, alice, session):
    """Invariant 9: the cascade only cleans up."""
    other = alice.sessions.create()
    for rule in RULES:
        alice.memories.put((), rule, 1, sources=[session, other], on_source_erased=rule)
    deeper = alice.memories.put((), "deeper", 1, sources=[alice.memories.get((), "recompute")])
    raw = bytes.fromhex(session.id[4:].replace("-", ""))
    tenant_id = vault._keys.tenant("acme", create=False).tenant_id
    vault._store.condemn(bytes(16), tenant_id, [Doomed("epoch", raw, None, frozenset())], 1)
    vault._keys.forget_scope(raw)
    assert there(alice.memories, *RULES, "deeper") == {"erase_with_last"}
    vault._store.destroy(bytes(16))
    assert there(alice.memories, *RULES, "deeper") == {"erase_with_last"}
    with pytest.raises(NotFound, match=ABSENT_SOURCE):
        alice.memories.put((), "b", 1, sources=[deeper])


def test_a_name_can_be_used_again_after_what_it_named_is_gone(alice, session):
    alice.memories.put((), "a", 1, sources=[session])
    alice.erasure.erase(session=session.id)
    assert alice.memories.put((), "a", 2, sources=[alice.sessions.create()]).value == 2
    assert [one.value for one in alice.memories.history((), "a")] == [2]


def fenced(vault, item_id, kind="session"):
    """What an erasure does first, in its own transaction."""
    raw, tenant = bytes.fromhex(item_id[4:].replace("-", "")), vault._keys.tenant("acme", create=False)
    item = Item(raw, kind, b"", "erase", "root", raw, 0, 0)
    vault._records.transact(lambda transaction: fence(vault._log, transaction, tenant, [item]))


@pytest.mark.parametrize("source", ["session", "event", "memory"])
def test_a_put_that_races_with_an_erasure_of_its_source_is_refused(
    source, vault, alice, session, monkeypatch
):
    event = session.append("message.user", {"content": "hello"})
    memory = alice.memories.put((), "m", 1, sources=[session])
    given = {"session": session, "event": event, "memory": memory}[source]
    made = vault._keys.create_item

    def create_item(*place):
        keys = made(*place)
        fenced(vault, *((memory.id, "memory") if source == "memory" else (session.id,)))
        return keys

    monkeypatch.setattr(vault._keys, "create_item", create_item)
    before = edges(vault)
    with pytest.raises((NotFound, Fenced)) as refused:
        alice.memories.put((), "a", 1, sources=[given])
    assert str(refused.value) == ABSENT_SOURCE
    assert edges(vault) == before


def test_what_a_source_that_is_going_gave_is_hidden_at_once(vault, alice, session):
    memory = alice.memories.put((), "m", 1, sources=[session])
    file = alice.artifacts.put("f", b"1", sources=[session])
    alice.memories.list()
    fenced(vault, session.id)
    assert there(alice.memories, "m") == set()
    assert alice.artifacts.list() == []
    for gone in (memory.id, file.id, session.id):
        with pytest.raises(NotFound, match=ABSENT):
            alice.derived.lineage(gone)
    with pytest.raises(NotFound):
        file.open()


def moved(vault, item_id, state):
    """A new state under the row's own MAC, as whoever makes it anew writes it."""
    raw, tenant = bytes.fromhex(item_id[4:].replace("-", "")), vault._keys.tenant("acme", create=False)

    def work(transaction):
        row = transaction.items.by_id(raw, tenant.tenant_id, tenant.owner("alice"))
        keys = Opener(vault._log, tenant, row.owner, transaction).keys_of(row)
        after = row._replace(state=state, changed_us=row.changed_us + 1)
        assert transaction.items.move(after._replace(mac=item_mac(keys.mac, after)), row)
        assert not transaction.items.move(after, row)

    vault._records.transact(work)


@pytest.mark.parametrize("state", ["erasing", "stale"])
def test_what_is_fenced_or_stale_is_hidden_everywhere_and_no_source(state, vault, alice, session):
    memory = alice.memories.put((), "m", 1, sources=[session])
    file = alice.artifacts.put("f", b"1", sources=[session])
    below = alice.memories.put((), "n", 1, sources=[memory])
    assert len(alice.memories.list()) == 2
    for item, kind in ((memory, "memory"), (file, "artifact")):
        if state == "erasing":
            fenced(vault, item.id, kind)
        else:
            moved(vault, item.id, state)
    assert there(alice.memories, "m", "n") == set()
    assert (alice.memories.history((), "m"), alice.artifacts.list()) == ([], [])
    for ask in (
        lambda: alice.memories.get((), "m"),
        lambda: alice.artifacts.get("f"),
        lambda: alice.artifacts.get("f", 1),
        lambda: alice.derived.lineage(memory.id),
        lambda: alice.derived.lineage(below.id),
        file.open,
    ):
        with pytest.raises(NotFound, match=ABSENT):
            ask()
    for source in (memory, file, below):
        with pytest.raises(NotFound, match=ABSENT_SOURCE):
            alice.memories.put((), "x", 1, sources=[source])
    states = {one.id: one.state for one in alice.derived.lineage(session.id).derived}
    assert states == {memory.id: state, file.id: state}
    # The names go on being used, and what was given back is read again.
    assert alice.memories.put((), "m", 2, sources=[session]).version == 2
    if state == "stale":
        moved(vault, file.id, "live")
        assert [one.name for one in alice.artifacts.list()] == ["f"]


def test_what_a_hold_gave_back_is_found_by_a_search_again(vault, alice, session):
    memory = alice.memories.put((), "m", "tea", sources=[session])
    alice.memories.put((), "n", "milk", sources=[session])
    moved(vault, memory.id, "erasing")
    assert alice.memories.search(text="tea") == []
    moved(vault, memory.id, "live")
    assert [one.id for one in alice.memories.search(text="tea")] == [memory.id]


# ---------------------------------------------------------------------------------------- the tree


def test_a_lineage_is_shown_both_ways(alice, session):
    event = session.append("message.user", {"content": "hello"})
    first = alice.memories.put((), "a", 1, sources=[event])
    second = alice.memories.put((), "a", 2, sources=[first, session])
    file = alice.artifacts.put("f", b"1", sources=[second])
    tree = alice.derived.lineage(second.id)
    assert (tree.kind, tree.id, tree.state, tree.version) == ("memory", second.id, "live", 2)
    assert [(one.kind, one.id, one.state) for one in tree.sources] == [
        ("memory", first.id, "superseded"),
        ("session", session.id, "live"),
    ]
    assert [(one.kind, one.id, one.session_id) for one in tree.sources[0].sources] == [
        ("event", event.id, session.id)
    ]
    assert [(one.kind, one.id) for one in tree.derived] == [("artifact", file.id)]
    down = alice.derived.lineage(session.id)
    assert [(one.id, one.more) for one in down.derived] == [(first.id, False), (second.id, True)]
    assert [one.id for one in down.derived[0].derived[0].derived] == [file.id]


def test_a_lineage_says_what_is_gone(alice, session):
    other = alice.sessions.create()
    first = alice.memories.put((), "a", 1, sources=[session, other], on_source_erased="erase_with_last")
    alice.erasure.erase(session=session.id)
    states = [(one.id, one.state) for one in alice.derived.lineage(first.id).sources]
    assert states == [(session.id, "gone"), (other.id, "live")]


def test_a_lineage_is_its_owners_alone(vault, alice, bob, session):
    made = alice.memories.put((), "a", 1, sources=[session])
    for stranger in (bob, vault.access(EVE), vault.access(Principal(tenant="new", subject="x"))):
        for asked in (made.id, session.id, "mem_0", "x", made.id.replace("mem", "art")):
            with pytest.raises((NotFound, InvalidInput)) as refused:
                stranger.derived.lineage(asked)
            assert isinstance(refused.value, InvalidInput) or str(refused.value) == ABSENT


def test_a_long_lineage_is_cut_and_says_so(alice, session, monkeypatch):
    made = [session]
    for number in range(8):
        made.append(alice.memories.put((), str(number), 1, sources=made[-1:]))
    monkeypatch.setattr(lineage, "STEPS_MAX", 3)
    node, steps = alice.derived.lineage(made[-1].id), 0
    while node.sources:
        node, steps = node.sources[0], steps + 1
    assert (steps, node.more) == (3, True)
    monkeypatch.setattr(lineage, "STEPS_MAX", 64)
    monkeypatch.setattr(lineage, "NODES_MAX", 4)
    node, steps = alice.derived.lineage(made[0].id), 0
    while node.derived:
        node, steps = node.derived[0], steps + 1
    assert (steps, node.more) == (4, True)


def test_a_memory_that_was_written_anew_a_hundred_times_opens_in_a_fresh_process(
    alice, session, vault, place
):
    made = session
    for number in range(100):
        made = alice.memories.put((), "a", number, sources=[made])
    vault.close()
    with Vault.open(place) as again:
        assert again.access(ALICE).memories.get((), "a").value == 99
