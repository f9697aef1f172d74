"""What ADK's own in-memory service answers, the vault's answers too: both are asked the same, at random.

Where they differ on purpose is tested elsewhere: here times go forward, nobody is behind, ids are used once.
"""

import asyncio
import contextvars
import itertools

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adapters.google_adk_case import said
from vault.adapters import google_adk_record
from vault.adapters.google_adk import VaultSessionService

USERS = st.sampled_from(["u1", "u1", "u1", "u2"])
IDS = st.sampled_from(["a", "a", "a", " a ", "b"])
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=3)
    | st.lists(st.floats(0, 1), max_size=2)
)
KEYS = st.sampled_from(["k", "l", "user:k", "user:l", "app:k", "temp:k", "other:k", "user:"])
STATES = st.dictionaries(KEYS, VALUES, max_size=3)
COUNTS = st.none() | st.integers(0, 3)
APPEND = st.tuples(st.just("append"), USERS, IDS, STATES)
GET = st.tuples(st.just("get"), USERS, IDS, COUNTS, st.none() | st.integers(0, 9))
RECENT = st.tuples(st.just("get"), USERS, IDS, COUNTS, st.none())
OTHERS = [
    st.tuples(st.just("create"), USERS, IDS, STATES),
    st.tuples(st.just("again"), USERS, IDS),
    st.tuples(st.just("list"), st.none() | USERS),
    st.tuples(st.just("user state"), USERS),
    st.tuples(st.just("delete"), USERS, st.just("b")),
]
#: So often each: a union of strategies would choose all alike.
CHOSEN = st.sampled_from([*[APPEND] * 8, *[GET] * 2, *[RECENT] * 2, *OTHERS])
OPERATIONS = st.lists(CHOSEN.flatmap(lambda one: one), min_size=15, max_size=40)
#: There is something to work on from the start.
BEGUN = [("create", "u1", "a", {"k": 0, "temp:k": 1}), ("create", "u1", "b", {}), ("create", "u2", "a", {})]
_number = itertools.count()
#: Later than any session is created here.
START = 4e9


def seen(session):
    """A session as its user sees it; when it was last updated only once an event said so."""
    if session is None:
        return None
    updated = session.last_update_time if session.last_update_time >= START else None
    return session.user_id, session.id, session.state, session.events, updated


class Asked:
    """One of the two services, the objects that a program holds of its sessions, and who reads."""

    def __init__(self, service, reading=None):
        self.service, self.held = service, {}
        self.reading = reading or (lambda: service)

    async def create(self, user, name, state):
        try:
            place = {"app_name": "app", "user_id": user, "session_id": name}
            session = await self.service.create_session(**place, state=dict(state))
        except AlreadyExistsError:
            return "exists"
        self.held[user, session.id] = session
        return seen(session)

    async def append(self, user, name, event):
        session = self.held.get((user, name.strip()))
        if session is None:
            return "none"
        await self.service.append_event(session, event.model_copy(deep=True))
        return seen(session)

    async def again(self, user, name):
        session = self.held.get((user, name.strip()))
        if session is None or not session.events:
            return "none"
        await self.service.append_event(session, session.events[-1])
        return seen(session)

    async def get(self, user, name, recent, after):
        config = GetSessionConfig(
            num_recent_events=recent, after_timestamp=None if after is None else START + after
        )
        place = {"app_name": "app", "user_id": user, "session_id": name}
        return seen(await self.reading().get_session(**place, config=config))

    async def list(self, user):
        answer = await self.reading().list_sessions(app_name="app", user_id=user)
        return [seen(session) for session in answer.sessions]

    async def user_state(self, user):
        return await self.reading().get_user_state(app_name="app", user_id=user)

    async def delete(self, user, name):
        self.held.pop((user, name.strip()), None)
        return await self.service.delete_session(app_name="app", user_id=user, session_id=name)


async def compared(mine, adks, operations):
    gone, times = set(), itertools.count()
    for name, *arguments in [*BEGUN, *operations]:
        if name == "append":
            event = said("x", timestamp=START + next(times), delta=arguments.pop())
            arguments.append(event)
        elif name == "delete":
            gone.add((arguments[0], arguments[1].strip()))
        elif name == "create" and (arguments[0], arguments[1].strip()) in gone:
            continue  # an id that is not taken again
        answers = [await getattr(one, name.replace(" ", "_"))(*arguments) for one in (mine, adks)]
        assert answers[0] == answers[1], name


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS)
def test_whatever_is_asked_the_answer_is_that_of_adks_own(vault, principal, monkeypatch, operations):
    """A7."""
    monkeypatch.setattr(google_adk_record, "SNAPSHOT_FACTS", 3)
    access = vault.access(principal(f"someone-{next(_number)}"))
    # Each read is that of a process that has seen nothing yet.
    mine = Asked(VaultSessionService(access), lambda: VaultSessionService(access))
    contextvars.Context().run(asyncio.run, compared(mine, Asked(InMemorySessionService()), operations))
