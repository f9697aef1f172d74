"""Another's session answers exactly as one that does not exist: same error, same words, same work."""

import re
import sqlite3
import threading
from contextvars import copy_context
from datetime import UTC, datetime, timedelta

import pytest

from tests.security.specimen import BY_HAND
from vault import NewEvent, Principal, Resolution, Vault, new_event_id, new_run_id
from vault.errors import KeyUnavailable, NotFound, Stale, Tampered, VaultError
from vault.model import format_id, session_bytes, uuid7
from vault.sessions.reader import SessionReader
from vault.sessions.service import Sessions
from vault.sessions.session import Session
from vault.storage.records import SqlReader
from vault.storage.sqlite import Database

ALICE = Principal(tenant="acme", subject="alice")
EXTERNAL, LABELS = "order-66", {"purpose": "sales"}
STRANGERS = {
    "another-owner": Principal(tenant="acme", subject="bob"),
    "an-owner-without-sessions": Principal(tenant="acme", subject="carol"),
    "the-same-name-in-another-tenant": Principal(tenant="globex", subject="alice"),
    "the-same-name-in-an-unknown-tenant": Principal(tenant="initech", subject="alice"),
    "another-spelling": Principal(tenant="acme", subject="Alice"),
    "names-run-together": Principal(tenant="acmealice", subject="alice"),
    "the-owner-without-a-role": Principal(tenant="acme", subject="alice", roles=frozenset()),
    "the-owner-as-an-administrator": Principal(
        tenant="acme", subject="alice", roles=frozenset({"administrator"})
    ),
}


def filled(vault):
    """Sessions of Alice that differ in everything that a careless answer could depend on."""
    sessions = vault.access(ALICE).sessions
    plain = sessions.create()
    full = sessions.create(title="t", labels=LABELS, external_id=EXTERNAL, config="c")
    full.append_many(NewEvent(type="a.b", payload="x" * 100, event_id=new_event_id()) for _ in range(30))
    full.append("file.read", raw=bytes(200_000))
    with full.run(checkpoints=BY_HAND) as run:
        run.effect("mail", "1", resource="crm/1", subject="Zoe").once(lambda _: {"id": 7})
        run.append("observation.recorded", 1, resource="crm/1", observed_at=run.started.recorded_at)
        run.checkpoint()
    sessions.fork(full.id)
    ended = sessions.create(labels=LABELS)
    ended.append("a.b")
    ended.end()
    for name in ("another-owner", "the-same-name-in-another-tenant"):
        own = vault.access(STRANGERS[name]).sessions.create(external_id="mine", labels={"own": "yes"})
        own.append("a.b")
    return {"plain": plain, "full": full, "ended": ended}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A vault that the tests of this module only ask, and its victims."""
    place = tmp_path_factory.mktemp("ownership")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        with Vault.create(place / "the.vault", settings={"synchronous": "NORMAL"}) as made:
            yield made, filled(made)


@pytest.fixture
def victims(vault):
    return filled(vault)


def outcome(call):
    """What a caller can tell: the error's class, words and arguments; or the result."""
    try:
        return call()
    except VaultError as error:
        return type(error), str(error), error.args, error.__cause__, vars(error)


def absent():
    return format_id("ses", uuid7())


BY_ID = {
    "resume": lambda sessions, one: sessions.resume(one),
    "create-a-child": lambda sessions, one: sessions.create(parent=one),
    "fork": lambda sessions, one: sessions.fork(one),
    "wake": lambda sessions, one: sessions.wake(one),
    "restart": lambda sessions, one: sessions.restart(one, "a summary"),
    "list-from-it": lambda sessions, one: sessions.find(cursor=one).items,
}


@pytest.mark.parametrize("form", ["plain", "full", "ended"])
@pytest.mark.parametrize("call", BY_ID)
@pytest.mark.parametrize("who", STRANGERS)
def test_knowing_an_id_gives_nothing(house, who, call, form):
    """O1, invariant 7"""
    vault, victims = house
    sessions = vault.access(STRANGERS[who]).sessions
    theirs = outcome(lambda: BY_ID[call](sessions, victims[form].id))
    assert theirs == outcome(lambda: BY_ID[call](sessions, absent()))
    if call == "resume":
        assert theirs[:2] == (NotFound, "there is no such session")
        for malformed in ("", "ses_1", victims[form].id.upper(), victims[form].id + "0", None):
            assert outcome(lambda: sessions.resume(malformed)) == theirs  # noqa: B023


@pytest.mark.parametrize("who", STRANGERS)
def test_names_of_another_find_nothing(house, who):
    """O1: external ids and labels are the owner's own"""
    vault, victims = house
    sessions = vault.access(STRANGERS[who]).sessions
    one = outcome(lambda: sessions.resume_external(EXTERNAL))
    assert one == outcome(lambda: sessions.resume_external("no such id"))
    assert one[:2] == (NotFound, "there is no such session")
    assert outcome(lambda: sessions.latest(labels=LABELS)) == one
    for state in (None, "active", "ended"):
        found = outcome(lambda: sessions.find(labels=LABELS, state=state).items)  # noqa: B023
        assert found == outcome(lambda: sessions.find(labels={"no": "such"}, state=state).items)  # noqa: B023
        assert found in ((), one)
    seen = outcome(lambda: {item.id for item in sessions.find().items})
    assert seen == one or not seen & {session.id for session in victims.values()}


def test_an_external_id_is_free_for_everybody_else(vault, victims):
    """O1: a Conflict would tell that another has it"""
    for who in ("another-owner", "the-same-name-in-another-tenant", "an-owner-without-sessions"):
        sessions = vault.access(STRANGERS[who]).sessions
        mine = sessions.create(external_id=EXTERNAL)
        assert sessions.resume_external(EXTERNAL).id == mine.id


CALLS = {
    "append": lambda session, event: session.append("a.b", 1),
    "append-a-known-id": lambda session, event: session.append("a.b", "x" * 100, event_id=event),
    "append-large": lambda session, event: session.append("a.b", raw=b"y" * 100_000),
    "append-many": lambda session, event: session.append_many([NewEvent(type="a.b")] * 3),
    "events": lambda session, event: list(session.events()),
    "events-after": lambda session, event: list(session.events(after=event)),
    "events-newest": lambda session, event: list(session.events(limit=1, newest_first=True)),
    "slice": lambda session, event: list(session.slice(event, event)),
    "follow": lambda session, event: list(session.follow(idle_seconds=0)),
    "info": lambda session, event: session.info(),
    "post": lambda session, event: session.post("message.user", "x"),
    "run": lambda session, event: session.run(),
    "run-when-it-is-free": lambda session, event: session.run(wait=0.1),
    "stop": lambda session, event: session.stop(),
    "resolve": lambda session, event: session.resolve("mail", "1", Resolution(decision="fail")),
    "effects": lambda session, event: session.effects(),
    "an-effect": lambda session, event: session.effects(kind="mail", key="1"),
    "last-effect": lambda session, event: session.last_committed_effect(new_run_id(), "mail"),
    "last-checkpoint": lambda session, event: session.last_checkpoint(),
    "recover": lambda session, event: session.recover(),
    "recover-a-past-state": lambda session, event: session.recover(at=event),
    "replay": lambda session, event: list(session.replay(recent=True)),
    "context": lambda session, event: session.context(max_events=3),
    "end": lambda session, event: session.end(),
    "relabel": lambda session, event: session.relabel({"case": "closed"}, remove=["a"]),
    "retract": lambda session, event: session.retract([event]),
    "retract-an-epoch": lambda session, event: session.retract_epoch(3),
    "attach": lambda session, event: copy_context().run(session.attach),
    "attached": lambda session, event: session.attached().__enter__(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("who", STRANGERS)
def test_a_handle_is_not_a_permission(house, who, call):
    """O1, invariant 16: with a stolen row in hand, every call is checked again and nothing opens"""
    vault, victims = house
    event = next(victims["full"].events()).id
    authorise = vault.access(STRANGERS[who]).sessions._authorise
    row = victims["full"]._row
    stolen = Session(vault._log, authorise, row)
    nothing = Session(vault._log, authorise, row._replace(session_id=uuid7()))
    theirs = outcome(lambda: CALLS[call](stolen, event))
    assert theirs == outcome(lambda: CALLS[call](nothing, event))
    assert theirs[0] in {NotFound, KeyUnavailable}
    assert victims["full"].info().event_count == 37
    assert victims["full"].info().state == "active"


def public(kind):
    return {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}


def test_every_call_of_a_handle_and_of_the_door_is_tried():
    """O1"""
    tried = {name for call in CALLS.values() for name in call.__code__.co_names}
    assert public(Session) | public(SessionReader) <= tried | {"open"}  # it needs an event that was read
    by_id = {name for call in BY_ID.values() for name in call.__code__.co_names}
    assert public(Sessions) <= by_id | {"resume_external", "latest", "find"}


def test_what_another_changed_in_the_world_is_told_to_nobody_else(vault, victims):
    """O1, S3: the same resource, observed by another owner and in another tenant"""
    for who in ("another-owner", "the-same-name-in-another-tenant", "an-owner-without-sessions"):
        session = vault.access(STRANGERS[who]).sessions.create()
        with session.run() as run:
            long_ago = datetime(2020, 1, 1, tzinfo=UTC)
            run.append("observation.recorded", 1, resource="crm/1", observed_at=long_ago)
            assert run.require_fresh("crm/1", timedelta(days=10_000)).payload == 1
            assert run.effect("mail", "1").state() is None
        woken = vault.access(STRANGERS[who]).sessions.wake(session.id)
        assert woken.gap.foreign == ()
        woken.run.stop()
    mine = vault.access(ALICE).sessions.create()
    with mine.run() as run:
        run.append("observation.recorded", 1, resource="crm/1", observed_at=long_ago)
        with pytest.raises(Stale):
            run.require_fresh("crm/1", timedelta(days=10_000))


@pytest.mark.parametrize("damage", ["changed", "removed"])
def test_damage_to_a_session_shows_to_its_owner_only(vault, victims, place, damage):
    """O1, invariant 7"""
    one = victims["full"].id
    with sqlite3.connect(place / "data.db") as database:
        if damage == "changed":
            database.execute(
                "UPDATE sessions SET version = version + 1 WHERE session_id = ?", [session_bytes(one)]
            )
        else:
            database.execute("PRAGMA foreign_keys = OFF")
            database.execute("DELETE FROM sessions WHERE session_id = ?", [session_bytes(one)])
    database.close()
    with pytest.raises(Tampered):
        vault.access(ALICE).sessions.resume(one)
    for who in STRANGERS.values():
        sessions = vault.access(who).sessions
        assert outcome(lambda: sessions.resume(one)) == outcome(lambda: sessions.resume(absent()))  # noqa: B023
    with sqlite3.connect(place / "data.db") as database:  # so that the vault can be closed in peace
        database.execute(
            "UPDATE sessions SET version = version - 1 WHERE session_id = ?", [session_bytes(one)]
        )
    database.close()


class Work:
    """Writes down the statements of every connection made from now on, and counts their steps."""

    def __init__(self, monkeypatch):
        self.statements, self.steps = [], 0
        self._thread = threading.get_ident()  # the vault's own thread copies its log at any moment
        connect = Database._connect

        def watched(database):
            connection = connect(database)
            connection.set_trace_callback(self._statement)
            connection.set_progress_handler(self._step, 1)
            return connection

        monkeypatch.setattr(Database, "_connect", watched)

    def _statement(self, text):
        if threading.get_ident() == self._thread:
            self.statements.append(re.sub(r"'[^']*'|\d+", "?", text))

    def _step(self):
        self.steps += threading.get_ident() == self._thread

    def of(self, call):
        outcome(call)
        self.statements.clear()
        self.steps = 0
        outcome(call)
        return list(self.statements), self.steps


@pytest.mark.parametrize("who", [name for name in STRANGERS if not name.startswith("the-owner")])
def test_another_session_takes_the_same_work_as_an_absent_one(vault, victims, place, monkeypatch, who):
    """O1: the timing class, told by the work and not by a clock"""
    vault.close()
    work = Work(monkeypatch)
    with Vault.open(place) as again:
        sessions = again.access(STRANGERS[who]).sessions
        for victim in victims.values():
            theirs, their_steps = work.of(lambda: sessions.resume(victim.id))  # noqa: B023
            nothing, no_steps = work.of(lambda: sessions.resume(absent()))
            assert theirs == nothing
            assert abs(their_steps - no_steps) <= 15  # the rows that two look-ups met, compared and dropped
        one, _ = work.of(lambda: sessions.resume_external(EXTERNAL))
        other, _ = work.of(lambda: sessions.resume_external("no such id"))
        assert one == other


def test_a_query_that_forgets_the_owner_opens_nothing(vault, victims, monkeypatch):
    """Invariant 16: the check in the query skipped, then the comparison of its answer too"""
    rows = {session._id: session._row for session in victims.values()}
    bob = vault.access(STRANGERS["another-owner"]).sessions
    monkeypatch.setattr(
        SqlReader, "session", lambda reader, session_id, tenant_id, owner: rows.get(session_id)
    )
    with pytest.raises(Tampered, match="another session"):
        bob.resume(victims["full"].id)
    grant = bob._authorise("read")
    disguised = rows[victims["full"]._id]._replace(owner=grant.owner)
    monkeypatch.setattr(SqlReader, "session", lambda _, session_id, tenant_id, owner: disguised)
    with pytest.raises(KeyUnavailable):
        bob.resume(victims["full"].id)


def test_the_keys_of_a_session_open_for_its_tenant_and_owner_only(vault, victims, place):
    """O4, K3, invariant 16"""
    keys, row = vault._log.keys, victims["full"]._row
    grants = {
        name: vault.access(who).sessions._authorise("read")
        for name, who in STRANGERS.items()
        if name in {"another-owner", "the-same-name-in-another-tenant"}
    }
    alice, bob, other = vault.access(ALICE).sessions._authorise("read"), *grants.values()
    assert keys.epoch(alice.tenant, alice.owner, row.session_id, 0)
    assert len({alice.owner, bob.owner, other.owner}) == 3
    for tenant, owner in ((bob.tenant, bob.owner), (other.tenant, other.owner), (alice.tenant, other.owner)):
        with pytest.raises(KeyUnavailable):
            keys.epoch(tenant, owner, row.session_id, 0)
    with pytest.raises(Tampered):  # the right owner's index in the wrong tenant finds the wrap, and no more
        keys.epoch(other.tenant, alice.owner, row.session_id, 0)
    with sqlite3.connect(place / "keys.db") as database:
        database.execute("UPDATE keys SET owner = ? WHERE scope = ?", [bob.owner, row.session_id])
    database.close()
    with pytest.raises(Tampered):  # a wrap moved to another owner does not open for that owner
        keys.epoch(bob.tenant, bob.owner, row.session_id, 0)


def test_the_first_listing_of_a_new_principal_is_empty(vault):
    """S2: nothing is there yet, which is no error"""
    for who in ("an-owner-without-sessions", "the-same-name-in-an-unknown-tenant"):
        page = vault.access(STRANGERS[who]).sessions.find()
        assert (page.items, page.next_cursor) == ((), None)


def test_asking_leaves_no_trace_of_who_asked(vault, victims, place):
    """K1: a tenant comes to be by creating a session, not by looking for one"""
    before = list(vault._store.rows())
    for who in STRANGERS.values():
        sessions = vault.access(who).sessions
        for call in (lambda: sessions.resume(absent()), sessions.find, sessions.latest):  # noqa: B023
            outcome(call)
    assert list(vault._store.rows()) == before
