"""A list in which a person recognises a session, page by page."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vault import Principal, Vault, new_run_id
from vault.errors import InvalidInput, NotFound

ALICE = Principal(tenant="acme", subject="alice")


def pages(sessions, **filters):
    """Every page of a listing, to its end."""
    cursor, found = None, []
    while True:
        page = sessions.find(cursor=cursor, **filters)
        found.append([item.id for item in page.items])
        cursor = page.next_cursor
        if cursor is None:
            return found


def ids(sessions, **filters):
    return list(itertools.chain.from_iterable(pages(sessions, **filters)))


def test_a_person_recognises_a_session_in_the_list(alice, session):
    """S2"""
    parent = alice.create()
    made = alice.create(
        title="August sales",
        labels={"purpose": "sales"},
        config="analyst@12",
        external_id="t-1",
        parent=parent.id,
    )
    made.append("system.entry", {"content": "not a message"})
    made.append("message.user", {"content": "Why did\n  sales drop?"})
    made.append("message.assistant", {"content": [{"type": "text", "text": "Let me look."}]})
    made.append("tool.requested", {"sql": "select 1"}, tool="warehouse")
    last = made.append("message.assistant", "Because it rained.")
    made.append("tool.returned", [1])
    (item,) = alice.find(limit=1).items
    assert (item.id, item.title, item.config, item.external_id) == (
        made.id,
        "August sales",
        "analyst@12",
        "t-1",
    )
    assert (dict(item.labels), item.parent, item.state, item.ended_at) == (
        {"purpose": "sales"},
        parent.id,
        "active",
        None,
    )
    assert (item.first_message, item.last_message) == ("Why did sales drop?", "Because it rained.")
    assert item.event_count == 6
    assert item.created_at <= last.recorded_at <= item.last_event_at
    assert item == made.info()
    assert "August" not in repr(item)
    assert "rained" not in repr(item)


def test_a_person_recognises_a_fork_by_what_it_shares(alice, session):
    """S1, S2: its previews are those of the whole talk, and it says where it left the other"""
    asked = session.append("message.user", "Why did sales drop?")
    session.append("message.assistant", "Because it rained.")
    fork = alice.fork(session.id, at=asked.id, labels={"try": "2"})
    (item,) = alice.find(labels={"try": "2"}).items
    assert item == fork.info()
    assert (item.title, item.parent, item.fork["at"]) == ("August sales", session.id, asked.id)
    assert (item.first_message, item.last_message) == ("Why did sales drop?", "Why did sales drop?")
    assert item.event_count == 1
    fork.append("message.assistant", "Because of the prices.")
    (item, original) = alice.find(limit=2).items
    assert (item.id, original.id) == (fork.id, session.id)
    assert (item.first_message, item.last_message) == ("Why did sales drop?", "Because of the prices.")
    assert (original.last_message, original.fork) == ("Because it rained.", None)
    assert "rained" not in repr(item)
    assert asked.id not in repr(item)


def test_a_session_without_anything_is_in_the_list_too(alice):
    """S2"""
    made = alice.create()
    (item,) = alice.find().items
    assert item == made.info()
    assert (item.title, item.config, item.external_id, item.parent) == (None, None, None, None)
    assert (dict(item.labels), item.event_count, item.first_message, item.last_message) == ({}, 0, None, None)


PREVIEWS = {
    "text": ("short", "short"),
    "content": ({"content": "in content"}, "in content"),
    "text-field": ({"text": "in text"}, "in text"),
    "message-field": ({"message": {"content": "nested"}}, "nested"),
    "parts": ({"content": [{"type": "text", "text": "one"}, {"type": "image"}, "two"]}, "one two"),
    "white-space": ("a\n\t b\u2028c", "a b c"),
    "long": ("x" * 500, "x" * 79 + "…"),
    "eighty": ("y" * 80, "y" * 80),
    "number": (5, None),
    "null": (None, None),
    "no-text": ({"content": [{"type": "image"}]}, None),
    "deep": ({"content": {"content": {"content": "down here"}}}, "down here"),
}


@pytest.mark.parametrize(("payload", "preview"), [pytest.param(*p, id=name) for name, p in PREVIEWS.items()])
def test_a_preview_is_one_line_of_a_messages_text(session, payload, preview):
    """S2"""
    session.append("message.user", payload)
    assert (session.info().first_message, session.info().last_message) == (preview, preview)


def test_a_raw_message_has_no_preview(session):
    """S2"""
    session.append("message.user", raw=b"bytes")
    assert session.info().first_message is None


def test_the_last_used_session_comes_first_and_ended_ones_say_so(alice, place, clock):
    """S2"""
    made = [alice.create() for _ in range(4)]
    made[1].append("a.b")
    made[0].end()
    assert set(ids(alice)[2:]) <= {made[0].id, made[2].id, made[3].id}
    assert ids(alice, state="ended") == [made[0].id]
    assert set(ids(alice, state="active")) == {made[1].id, made[2].id, made[3].id}
    assert ids(alice, state="active")[0] == made[1].id


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 20])
def test_pages_hold_every_session_once_and_no_more_than_the_limit(alice, limit):
    """S2, invariant 12"""
    made = [alice.create().id for _ in range(8)]
    found = pages(alice, limit=limit)
    assert list(itertools.chain.from_iterable(found)) == made[::-1]
    assert all(len(page) <= limit for page in found)


def test_sessions_used_at_the_same_moment_are_all_listed(place, clock):
    """S2"""
    with Vault.create(place, clock=clock, settings={"synchronous": "NORMAL"}) as vault:
        sessions = vault.access(ALICE).sessions
        made = {sessions.create().id for _ in range(9)}
        assert set(ids(sessions, limit=2)) == made
        assert len(ids(sessions, limit=2)) == 9


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_paging_while_sessions_move_shows_the_others_once_each_and_none_twice(vault, data):
    """S2: what is used meanwhile moves to the front, where a fresh first page shows it"""
    sessions = vault.access(Principal(tenant="acme", subject=new_run_id())).sessions
    made = [sessions.create() for _ in range(data.draw(st.integers(1, 9)))]
    moved, found, cursor = set(), [], None
    while True:
        page = sessions.find(limit=data.draw(st.integers(1, 3)), cursor=cursor)
        found += [item.id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
        for place in data.draw(st.lists(st.integers(0, len(made) - 1), max_size=2)):
            made[place].append("a.b")
            moved.add(made[place].id)
    assert len(found) == len(set(found))
    assert {session.id for session in made} - moved <= set(found)
    assert {item.id for item in sessions.find(limit=500).items} == {session.id for session in made}


def test_labels_narrow_the_list_together(alice):
    """S2"""
    both = alice.create(labels={"team": "red", "kind": "chat"})
    one = alice.create(labels={"team": "red", "kind": "batch"})
    other = alice.create(labels={"team": "blue", "kind": "chat"})
    alice.create()
    assert ids(alice, labels={"team": "red"}) == [one.id, both.id]
    assert ids(alice, labels={"kind": "chat"}) == [other.id, both.id]
    assert ids(alice, labels={"team": "red", "kind": "chat"}) == [both.id]
    for nothing in ({"team": "Red"}, {"red": "team"}, {"team": "red", "kind": "none"}, {"team": "redkind"}):
        assert ids(alice, labels=nothing) == []
    one.end()
    assert ids(alice, labels={"team": "red"}, state="active", limit=1) == [both.id]
    assert len(ids(alice, labels={})) == 4


def test_a_filter_that_few_sessions_pass_still_fills_its_pages(alice):
    """S2"""
    made = [alice.create(labels={"n": str(n % 2)}) for n in range(12)]
    for session in made[::3]:
        session.end()
    wanted = [session.id for session in made if session.info().state == "ended"]
    assert {len(page) for page in pages(alice, state="ended", limit=2)} <= {0, 2}
    assert sorted(ids(alice, state="ended", limit=2)) == sorted(wanted)


MALFORMED = {
    "limit-zero": {"limit": 0},
    "limit-over": {"limit": 501},
    "limit-true": {"limit": True},
    "limit-text": {"limit": "10"},
    "state-unknown": {"state": "erased"},
    "state-empty": {"state": ""},
    "cursor-text": {"cursor": "next"},
    "cursor-empty": {"cursor": ""},
    "cursor-number": {"cursor": 7},
    "cursor-beyond-any-time": {"cursor": "_____________________w=="},
    "cursor-not-ascii": {"cursor": "é" * 24},
    "label-name-empty": {"labels": {"": "x"}},
    "label-value-not-text": {"labels": {"n": 1}},
    "labels-too-many": {"labels": {str(n): "x" for n in range(33)}},
}


@pytest.mark.parametrize("chosen", [pytest.param(value, id=name) for name, value in MALFORMED.items()])
def test_a_malformed_filter_is_refused_in_one_sentence(alice, session, chosen):
    """Bad input"""
    with pytest.raises(InvalidInput) as refusal:
        alice.find(**chosen)
    assert "\n" not in str(refusal.value)
    assert len(alice.find().items) == 1


def test_an_empty_list_is_a_page_without_items(alice):
    """S2"""
    page = alice.find()
    assert (page.items, page.next_cursor) == ((), None)
    with pytest.raises(NotFound):
        alice.latest(labels={"a": "b"})
