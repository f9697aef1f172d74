"""Sessions of two owners, at random against plain lists: nothing is lost, mixed up, or shown to another."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from vault import NewEvent, Principal, Vault, new_event_id, new_run_id
from vault.errors import Conflict, NotFound, SessionEnded

OWNERS = [Principal(tenant="acme", subject="alice"), Principal(tenant="globex", subject="alice")]
TYPES = ["message.user", "message.assistant", "tool.requested", "tool.returned"]
RUNS = [new_run_id() for _ in range(3)]
STATES = st.sampled_from([None, "active", "ended"])
LABELS = [{}, {"team": "red"}, {"team": "blue"}, {"team": "red", "kind": "chat"}]


@dataclass
class Modelled:
    """What a session should be."""

    id: str
    owner: int
    labels: dict
    log: list = field(default_factory=list)
    ended: bool = False
    used: int = 0

    def position(self, event_id):
        return next(place for place, event in enumerate(self.log) if event.id == event_id)


PAYLOADS = [0, 1, "", "short", "x" * 3_000, "y" * 90_000, {"content": "hello"}, [1.5, None]]
payloads = st.integers(0, len(PAYLOADS) - 1).map(lambda which: PAYLOADS[which])
DOORS = OWNER = st.integers(0, 1)
drafts = st.builds(
    NewEvent,
    type=st.sampled_from(TYPES),
    payload=payloads,
    run=st.sampled_from([None, *RUNS]),
    tool=st.sampled_from([None, "warehouse"]),
    level=st.sampled_from(["L0", "L3"]),
)


def with_id(draft, event_id):
    return NewEvent(
        type=draft.type,
        payload=draft.payload,
        run=draft.run,
        tool=draft.tool,
        level=draft.level,
        event_id=event_id,
    )


class SessionsMachine(RuleBasedStateMachine):
    """Two handles of one vault, as two processes would have them, and what each session should hold."""

    sessions = Bundle("sessions")
    known = Bundle("known")  # (session, an event of it that has an id of the writer's)

    @initialize(target=sessions)
    def make(self):
        self.home = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("XDG_STATE_HOME", str(self.home / "state"))
        self.place = self.home / "vault"
        settings_of_vault = {"synchronous": "NORMAL", "ledger_every": 7}
        self.vaults = [Vault.create(self.place, settings=settings_of_vault), None]
        self.vaults[1] = Vault.open(self.place)
        self.models, self.handles, self.steps = {}, {}, 0
        return multiple(*(self.create(owner, 0, {}) for owner in (0, 1)))

    def sessions_of(self, owner, door):
        return self.vaults[door].access(OWNERS[owner]).sessions

    def handle(self, modelled, door):
        """A handle that lives on, as a program keeps one, or a fresh one after its vault was reopened."""
        found = self.handles.get((modelled.id, door))
        if found is None:
            found = self.handles[modelled.id, door] = self.sessions_of(modelled.owner, door).resume(
                modelled.id
            )
        return found

    def used(self, modelled):
        self.steps += 1
        modelled.used = self.steps

    def create(self, owner, door, labels):
        session = self.sessions_of(owner, door).create(labels=labels, title=f"of {owner}")
        self.handles[session.id, door] = session
        modelled = self.models[session.id] = Modelled(session.id, owner, labels)
        self.used(modelled)
        return modelled

    @rule(target=sessions, owner=OWNER, door=DOORS, labels=st.sampled_from(LABELS))
    def another(self, owner, door, labels):
        return self.create(owner, door, labels)

    @rule(modelled=sessions, door=DOORS, draft=drafts)
    def append(self, modelled, door, draft):
        session = self.handle(modelled, door)
        if modelled.ended:
            with pytest.raises(SessionEnded):
                session.append_many([draft])
            return
        (event,) = session.append_many([draft])
        self.took(modelled, [draft], [event])

    @rule(
        target=known,
        modelled=sessions,
        door=DOORS,
        batch=st.lists(drafts, min_size=1, max_size=6),
    )
    def append_many(self, modelled, door, batch):
        batch = [with_id(draft, new_event_id()) if n % 2 == 0 else draft for n, draft in enumerate(batch)]
        session = self.handle(modelled, door)
        if modelled.ended:
            with pytest.raises(SessionEnded):
                session.append_many(batch)
            return multiple()
        events = session.append_many(batch, expect_head=len(modelled.log))
        self.took(modelled, batch, events)
        return multiple(*((modelled, draft) for draft in batch if draft.event_id))

    def took(self, modelled, batch, events):
        first = len(modelled.log) + 1
        assert [event.seq for event in events] == list(range(first, first + len(batch)))
        for draft, event in zip(batch, events, strict=True):
            for name in ("type", "payload", "run", "tool", "level"):
                assert getattr(event, name) == getattr(draft, name)
        modelled.log += events
        self.used(modelled)

    @rule(pair=known, door=DOORS, more=st.none() | drafts)
    def retry(self, pair, door, more):
        modelled, draft = pair
        stored = modelled.log[modelled.position(draft.event_id)]
        session = self.handle(modelled, door)
        if more is None:
            assert session.append_many([draft]) == [stored]
        elif modelled.ended:
            with pytest.raises(SessionEnded):
                session.append_many([draft, more])
        else:
            again, new = session.append_many([draft, more])
            assert again == stored
            self.took(modelled, [more], [new])

    @rule(pair=known, door=DOORS, other=drafts)
    def misuse_an_id(self, pair, door, other):
        modelled, draft = pair
        other = with_id(other, draft.event_id)
        if other != draft:
            with pytest.raises(Conflict):
                self.handle(modelled, door).append_many([NewEvent(type="a.b"), other])

    @rule(modelled=sessions, door=DOORS, draft=drafts, behind=st.integers(1, 3))
    def append_behind_the_head(self, modelled, door, draft, behind):
        if not modelled.ended:
            with pytest.raises(Conflict):
                self.handle(modelled, door).append_many([draft], expect_head=len(modelled.log) + behind)

    @rule(modelled=sessions, door=DOORS, seldom=st.integers(0, 3))
    def end(self, modelled, door, seldom):
        if seldom == 0:
            self.handle(modelled, door).end()
            modelled.ended = True

    @rule(data=st.data(), modelled=sessions, door=DOORS)
    def read(self, data, modelled, door):
        log = modelled.log
        types = data.draw(st.none() | st.lists(st.sampled_from(TYPES), max_size=2), "types")
        run = data.draw(st.sampled_from([None, *RUNS]), "run")
        after = data.draw(st.none() | st.integers(0, max(len(log) - 1, 0)), "after") if log else None
        before = data.draw(st.none() | st.integers(0, max(len(log) - 1, 0)), "before") if log else None
        newest = data.draw(st.booleans(), "newest first")
        limit = data.draw(st.integers(1, 8) if newest else st.none() | st.integers(1, 8), "limit")
        wanted = [
            event
            for place, event in enumerate(log)
            if (types is None or event.type in types)
            and (run is None or event.run == run)
            and (after is None or place > after)
            and (before is None or place < before)
        ]
        found = self.handle(modelled, door).events(
            types=types,
            run=run,
            after=None if after is None else log[after].id,
            before=None if before is None else log[before].id,
            limit=limit,
            newest_first=newest,
        )
        assert list(found) == (wanted[::-1] if newest else wanted)[:limit]

    @rule(
        owner=OWNER,
        door=DOORS,
        labels=st.sampled_from(LABELS),
        state=st.sampled_from([None, "active", "ended"]),
        limit=st.integers(1, 3),
    )
    def find(self, owner, door, labels, state, limit):
        wanted = [
            modelled
            for modelled in self.models.values()
            if modelled.owner == owner
            and labels.items() <= modelled.labels.items()
            and state in {None, "ended" if modelled.ended else "active"}
        ]
        sessions, found, cursor = self.sessions_of(owner, door), [], None
        while True:
            page = sessions.find(labels=labels, state=state, limit=limit, cursor=cursor)
            assert len(page.items) <= limit
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        assert [item.id for item in found] == [m.id for m in sorted(wanted, key=lambda m: -m.used)]
        for item in found:
            modelled = self.models[item.id]
            assert (item.event_count, item.labels) == (len(modelled.log), modelled.labels)
            assert (item.state == "ended") == modelled.ended
        if wanted and state == "active":
            assert sessions.latest(labels=labels).id == found[0].id

    @rule(modelled=sessions, door=DOORS)
    def look_over_the_fence(self, modelled, door):
        with pytest.raises(NotFound):
            self.sessions_of(1 - modelled.owner, door).resume(modelled.id)

    @rule(door=DOORS, checkpoint=st.booleans())
    def reopen(self, door, checkpoint):
        if checkpoint:
            self.vaults[1 - door].checkpoint()
        self.vaults[door].close()
        self.vaults[door] = Vault.open(self.place)
        self.handles = {key: handle for key, handle in self.handles.items() if key[1] != door}

    @invariant()
    def newest_event_is_the_models(self):
        for modelled in getattr(self, "models", {}).values():
            newest = list(self.handle(modelled, 0).events(limit=1, newest_first=True))
            assert newest == modelled.log[-1:]

    def teardown(self):
        if not hasattr(self, "vaults"):
            return
        try:
            for modelled in self.models.values():
                for door in (0, 1):
                    assert list(self.handle(modelled, door).events()) == modelled.log
            for vault in self.vaults:
                report = vault.verify()
                note(str(report.findings))
                assert report.ok
                assert report.counts["sessions"] == len(self.models)
                assert report.counts["events"] == sum(len(m.log) for m in self.models.values())
                vault.close()
        finally:
            for vault in self.vaults:
                vault._closed = True
            self.patch.undo()
            shutil.rmtree(self.home)


TestSessions = SessionsMachine.TestCase
TestSessions.settings = settings(max_examples=30, stateful_step_count=35, deadline=None)
