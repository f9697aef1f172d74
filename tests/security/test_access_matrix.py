"""Every use case, by every role, on every relation to a session: what the table denies answers as absence.

Denied means: the error's class and words of an absent id, the same statements, and nothing in the trail.
"""

import itertools
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.security.specimen import BY_HAND
from tests.security.test_ownership import CALLS, Work, absent, outcome, public
from vault import Principal, Vault, new_event_id
from vault.audit.oversight import Audit, BreakGlass, Grants
from vault.errors import InvalidInput, NotFound
from vault.model import uuid7
from vault.policy.access import ACTIONS, FULL_ACTIONS, ROLES, SHARED_ACTIONS, TABLE
from vault.sessions.reader import SessionReader
from vault.sessions.service import Sessions
from vault.sessions.session import Session

OWNER = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
EXTERNAL = "order-66"
GONE = (NotFound, "there is no such session")

#: Relation → tenant, subject, and what Alice shares with it: a level, and what it may beside reading.
RELATIONS = {
    "the-owner": ("acme", "alice", None),
    **{f"given-{level}": ("acme", f"given-{level}", (level, ())) for level in ("L0", "L1", "L2", "L3")},
    "given-append": ("acme", "given-append", ("L1", ("append",))),
    "given-fork": ("acme", "given-fork", ("L3", ("fork",))),
    "of-a-team": ("acme", "tim", ("L2", ())),
    "of-the-tenant": ("acme", "bob", None),
    "of-another-tenant": ("globex", "alice", None),
    "of-an-unknown-tenant": ("initech", "alice", None),
}
WITHIN = {name for name, (tenant, subject, _) in RELATIONS.items() if tenant == "acme" and subject != "alice"}

#: The requirements' table: who may do what with Alice's session, and the view that comes with reading it.
OWN = {
    "agent": "create read append end fork label list erase",
    "owner": "create read append end fork label list erase share",
}
OF_THE_TENANT = {
    "support": ("L1", "read list request"),
    "auditor": ("L0", "read list audit"),
    "privacy_officer": ("L2", "read list audit request approve reveal"),
}


def allowed(role, relation):
    """The actions that the table allows; written here once more, apart from the code."""
    if relation == "the-owner":
        actions = set(OWN.get(role, "").split())
        if role in OF_THE_TENANT:  # with the tenant as a whole; its own sessions are not others'
            actions |= set(OF_THE_TENANT[role][1].split()) & {"audit", "approve", "reveal"}
        return actions
    if relation not in WITHIN:
        if relation == "of-another-tenant" and role in OF_THE_TENANT:
            return set(OF_THE_TENANT[role][1].split()) & {
                "audit",
                "approve",
                "reveal",
            }  # that tenant's own trail
        return set()
    if role in OF_THE_TENANT:
        return set(OF_THE_TENANT[role][1].split())
    share = RELATIONS[relation][2]
    return {"read", "list", *share[1]} if share and role in OWN else set()


def level_of(role, relation):
    """The highest view of Alice's session; None for no view at all."""
    if "read" not in allowed(role, relation):
        return None
    if relation == "the-owner":
        return "L3"
    return OF_THE_TENANT[role][0] if role in OF_THE_TENANT else RELATIONS[relation][2][0]


UNTIL = datetime(2100, 1, 1, tzinfo=UTC)
#: By id: the actions that all have to be allowed, and the call.
BY_ID = {
    "resume": ("read", lambda access, one: access.sessions.resume(one)),
    "wake": ("read append", lambda access, one: access.sessions.wake(one)),
    "fork": ("fork", lambda access, one: access.sessions.fork(one)),
    "restart": ("end", lambda access, one: access.sessions.restart(one, "a summary")),
    "give": ("share", lambda access, one: access.grants.give(one, "zoe", level="L0", until=UNTIL)),
    "revoke": ("share", lambda access, one: access.grants.revoke(one, "yves")),
    "of": ("share", lambda access, one: access.grants.of(one)),
    "request": ("request", lambda access, one: access.break_glass.request(one, "a reason")),
    "approve": ("approve", lambda access, one: access.break_glass.approve(one, "sue")),
    "end-ones-own": ("request", lambda access, one: access.break_glass.end(one)),
    "end-anothers": ("approve", lambda access, one: access.break_glass.end(one, "sue")),
    "entries": ("audit", lambda access, one: list(access.audit.entries(session_id=one))),
    "reveal": ("reveal read", lambda access, one: access.audit.reveal(one, "PERSON_1", "a reason")),
}
#: What they ask for before the rest.
FIRST = {"wake": "read", "restart": "read", "reveal": "reveal"}
#: Of a handle, for the calls that are no reads.
NOT_READS = {
    **dict.fromkeys(("append", "append-a-known-id", "append-large", "append-many", "post"), "append"),
    **dict.fromkeys(("run", "run-when-it-is-free", "stop"), "append"),
    "resolve": "read append",
    "end": "end",
    "relabel": "label",
    **dict.fromkeys(("retract", "retract-an-epoch"), "erase"),
}
CELLS = [*itertools.product(ROLES, RELATIONS)]


def principal(role, relation):
    tenant, subject, _ = RELATIONS[relation]
    if relation == "of-an-unknown-tenant":
        tenant = f"initech-{role}"  # of its own: a fork that is refused makes its tenant known
    teams = {"sales"} if relation == "of-a-team" else set()
    return Principal(tenant=tenant, subject=subject, roles=frozenset({role}), teams=frozenset(teams))


def filled(vault, external_id=None):
    """A session of Alice, shared with whomever the relations name."""
    access = vault.access(OWNER)
    session = access.sessions.create(title="t", labels={"a": "b"}, external_id=external_id)
    session.append("a.b", "x" * 100, event_id=new_event_id())
    with session.run(checkpoints=BY_HAND) as run:
        run.effect("mail", "1", resource="crm/1").intend()
        run.effect("mail", "2").once(lambda _: {"id": 7})
        run.checkpoint()
    shared = {name: share for name, (_, _, share) in RELATIONS.items() if share}
    for relation, (level, may) in shared.items():
        to = "team:sales" if relation == "of-a-team" else relation
        access.grants.give(session.id, to, level=level, may=may)
    access.grants.give(session.id, "yves")
    return session


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A vault whose statements are written down, and a session of Alice in it."""
    place = tmp_path_factory.mktemp("matrix")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        settings = {"synchronous": "NORMAL", "break_glass_second_person": True}
        Vault.create(place / "the.vault", settings=settings).close()
        work = Work(patch)
        with Vault.open(place / "the.vault") as made:
            for who in (principal("agent", "of-the-tenant"), principal("agent", "of-another-tenant")):
                made.access(who).sessions.create().append("a.b")
            yield made, filled(made, EXTERNAL), work


def handle(access, victim, session_id=None):
    """A stolen row in the hands of somebody: each call asks the door for them."""
    row = victim._row if session_id is None else victim._row._replace(session_id=session_id)
    return Session(victim._log, access.sessions._authorise.of(row.session_id, row.owner), row)


def trail_length(vault):
    return next(vault.access(OFFICER).audit.entries(limit=1)).seq


def let_go(result):
    for held in (result, getattr(result, "run", None)):
        if type(held).__name__ == "Run":
            held.stop()


def known_to(role, relation):
    """Whether somebody may know that the session is there: they own it, read it, or were given it."""
    return relation == "the-owner" or RELATIONS[relation][2] or "read" in allowed(role, relation)


def same_as_absent(work, theirs, nothing, *, known):
    """What a caller can tell, and the statements, unless they may know that it is there."""
    if outcome(theirs) != outcome(nothing) or outcome(theirs)[:2] != GONE:
        return False
    return known or work.of(theirs)[0] == work.of(nothing)[0]


@pytest.mark.parametrize(("role", "relation"), CELLS)
def test_what_is_asked_by_id_follows_the_table(house, role, relation):
    """O1, O2, O3, invariant 7"""
    vault, victim, work = house
    access = vault.access(principal(role, relation))
    wrong = []
    for name, (actions, call) in BY_ID.items():
        if set(actions.split()) <= allowed(role, relation):
            result = outcome(lambda: call(access, filled(vault).id))  # noqa: B023
            let_go(result)
            denied = isinstance(result, tuple) and result[:2] == GONE
            wrong += [f"{name} is denied"] if denied else []
            continue
        before = trail_length(vault)
        begun = FIRST.get(name) in allowed(role, relation)  # its first leave is given, and recorded
        same = same_as_absent(
            work,
            lambda: call(access, victim.id),  # noqa: B023
            lambda: call(access, absent()),  # noqa: B023
            known=begun or known_to(role, relation),
        )
        wrong += [] if same else [f"{name} is not as absent"]
        # One more, by the officer who looked.
        wrong += [] if begun or trail_length(vault) == before + 1 else [f"{name} is recorded"]
    assert wrong == []


@pytest.mark.parametrize(("role", "relation"), CELLS)
def test_what_is_asked_of_a_handle_follows_the_table(house, role, relation):
    """O1, O2, O3, invariant 16: a handle is not a permission"""
    vault, victim, work = house
    access = vault.access(principal(role, relation))
    event = next(victim.events()).id
    wrong = []
    for name, call in CALLS.items():
        if set(NOT_READS.get(name, "read").split()) <= allowed(role, relation):
            one = filled(vault) if name in NOT_READS else victim
            known = event if one is victim else next(one.events()).id
            result = outcome(lambda: call(handle(access, one), known))  # noqa: B023
            let_go(result)
            denied = isinstance(result, tuple) and result[:1] == (NotFound,)
            wrong += [f"{name} is denied"] if denied else []
            continue
        before, none = trail_length(vault), uuid7()
        same = same_as_absent(
            work,
            lambda: call(handle(access, victim), event),  # noqa: B023
            lambda: call(handle(access, victim, none), event),  # noqa: B023
            known=known_to(role, relation),
        )
        wrong += [] if same else [f"{name} is not as absent"]
        # What needs two leaves may have used the first.
        used = trail_length(vault) - before - 1
        half = name == "resolve" and "read" in allowed(role, relation)
        wrong += [] if used == 0 or half else [f"{name} is recorded"]
    assert wrong == []
    assert victim.info().state == "active"


@pytest.mark.parametrize(("role", "relation"), CELLS)
def test_a_stream_is_opened_for_the_owner_only(house, role, relation):
    """O1, R1: a view has no streams"""
    vault, victim, _ = house
    event = next(victim.events())
    result = outcome(lambda: handle(vault.access(principal(role, relation)), victim).open(event).read())
    if relation == "the-owner" and role in OWN:
        assert result == b'"' + b"x" * 100 + b'"'
    else:
        assert result[0] is (NotFound if level_of(role, relation) is None else InvalidInput)


@pytest.mark.parametrize(("role", "relation"), CELLS)
def test_a_read_gets_the_view_of_the_table(house, role, relation):
    """O2, O3, R1: never above the share, never above the role"""
    vault, victim, _ = house
    level, before = level_of(role, relation), trail_length(vault)
    session = handle(vault.access(principal(role, relation)), victim)
    if level is None:
        assert outcome(lambda: list(session.events()))[0] is NotFound
        return
    seen = [event.payload for event in session.events(types=["a.b"])]
    assert len(seen) == 1
    if relation == "the-owner":
        assert seen == ["x" * 100]
        assert trail_length(vault) == before + 1  # the officer's own look
        return
    (newest,) = (e for e in vault.access(OFFICER).audit.entries(limit=2) if e.seq == before + 1)
    assert newest.said["level"] == level
    assert (newest.said["action"], newest.said["roles"]) == ("read", [role])
    if level in {"L0", "L3"}:
        assert (seen == ["x" * 100]) == (level == "L3")


@pytest.mark.parametrize(("role", "relation"), [cell for cell in CELLS if cell[1] != "the-owner"])
def test_ones_own_lists_and_names_show_nothing_of_another(house, role, relation):
    """O1: a list of one's own, an external id, the last used; what is shared is listed as shared"""
    vault, victim, work = house
    access = vault.access(principal(role, relation))
    listed = {item.id for item in access.sessions.find(limit=500).items}
    assert (victim.id in listed) == (role in OF_THE_TENANT and "list" in allowed(role, relation))
    assert not {item.id for item in access.sessions.find(subject="alice", limit=500).items} - listed
    for_theirs = outcome(lambda: access.sessions.resume_external(EXTERNAL))
    assert for_theirs == outcome(lambda: access.sessions.resume_external("no such id"))
    assert for_theirs[:2] == GONE
    assert outcome(lambda: access.sessions.latest(labels={"a": "b"}))[:2] == GONE
    one = work.of(lambda: access.sessions.resume_external(EXTERNAL))[0]
    assert one == work.of(lambda: access.sessions.resume_external("no such id"))[0]
    shared = {item.id for item in access.grants.to_me({"sales"} if relation == "of-a-team" else ())}
    assert (victim.id in shared) == (role in OWN and RELATIONS[relation][2] is not None)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("relation", ["the-owner", "of-the-tenant"])
def test_the_trail_is_no_session_of_anybody(house, role, relation):
    """O3, K4: not even for who may audit, who gets its entries"""
    vault, _victim, work = house
    kept = next(iter(vault._trail._kept.values()))
    access = vault.access(principal(role, relation))
    assert same_as_absent(
        work,
        lambda: access.sessions.resume(kept.id),
        lambda: access.sessions.resume(absent()),
        known=relation == "the-owner",
    )
    stolen, nothing = handle(access, kept), handle(access, kept, uuid7())
    for name in ("append", "events", "info", "end", "run"):
        theirs, none = (lambda one=one: CALLS[name](one, absent()) for one in (stolen, nothing))  # noqa: B023
        assert outcome(theirs) == outcome(none)
        assert outcome(theirs)[:2] == GONE
    assert outcome(lambda: access.break_glass.request(kept.id, "a reason"))[:2] == GONE


def test_more_roles_are_as_the_best_of_them(house):
    """O3: roles add up"""
    vault, victim, _ = house
    for roles in itertools.combinations(ROLES, 2):
        who = Principal(tenant="acme", subject="bob", roles=frozenset(roles))
        levels = [level for role in roles if (level := level_of(role, "of-the-tenant"))]
        result = outcome(lambda: handle(vault.access(who), victim).info())  # noqa: B023
        if not levels:
            assert result[:2] == GONE
            continue
        trail = vault.access(OFFICER).audit.entries(limit=2)
        assert next(e for e in trail if e.said["action"] == "read").said["level"] == max(levels)


def test_every_public_use_case_is_asked_here():
    """O1"""
    asked = {name for call in CALLS.values() for name in call.__code__.co_names}
    asked |= {name for _, call in BY_ID.values() for name in call.__code__.co_names}
    elsewhere = {"open", "find", "latest", "resume_external", "to_me", "create"}
    for face in (Sessions, Session, SessionReader, Grants, BreakGlass, Audit):
        assert public(face) <= asked | elsewhere


def best(roles, relation, action):
    """The level that the table gives for an action, by whichever role gives the most; None for none."""
    share = RELATIONS[relation][2]
    levels = [TABLE[role, "tenant"][action] for role in roles if action in TABLE.get((role, "tenant"), {})]
    for role in roles if share else ():
        given = TABLE.get((role, "grantee"), {}).get(action)
        if given and (action not in SHARED_ACTIONS or action in share[1]):
            levels += [] if action in FULL_ACTIONS and share[0] != "L3" else [min(given, share[0])]
    return max(levels, default=None)


def told(call):
    """What the door gives: an error as a caller meets it, or whose leave it is."""
    result = outcome(call)
    return result if isinstance(result, tuple) else (result.own, result.owner, result.level)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    roles=st.frozensets(st.sampled_from([*ROLES, "nobody"])),
    relation=st.sampled_from(sorted(WITHIN | {"of-another-tenant", "of-an-unknown-tenant"})),
    action=st.sampled_from(ACTIONS),
)
def test_the_door_gives_what_the_table_gives_to_any_roles(house, roles, relation, action):
    """O1, O2, O3, O4: every action, whoever asks; what is denied is what is absent, in class and words"""
    vault, victim, _ = house
    who = replace(principal("of-any", relation), roles=roles)
    leave = vault.access(who).sessions._authorise
    if action != "create":
        theirs = told(lambda: leave.session(action, victim._id, recorded=False))
        nothing = told(lambda: leave.session(action, uuid7(), recorded=False))
        level = best(roles, relation, action) if relation in WITHIN else None
        if level is None:
            assert theirs == nothing
            assert theirs[:2] == GONE or theirs[0] is True  # leave for its own, which that session is not of
        else:
            assert theirs == (False, victim._row.owner, level)
    if relation in WITHIN:
        of_tenant = told(lambda: leave.tenant(action))
        levels = [
            TABLE[role, "tenant"][action] for role in roles if action in TABLE.get((role, "tenant"), {})
        ]
        assert of_tenant == ((False, b"", max(levels)) if levels else told(lambda: leave.tenant("no-such")))
        assert levels or of_tenant[:2] == GONE


def test_every_action_of_the_table_is_asked_of_some_use_case():
    """O3"""
    long = {"request": "request_break_glass", "approve": "approve_break_glass"}
    asked = {action for actions, _ in BY_ID.values() for action in actions.split()}
    asked |= {action for actions in NOT_READS.values() for action in actions.split()}
    asked = {long.get(action, action) for action in asked}
    elsewhere = {
        "create": "test_sessions_are_made_by_who_may_make_them_and_for_oneself",
        "list": "test_ones_own_lists_and_names_show_nothing_of_another",
        "directory": "tests/integration/test_administration.py",
        "manage": "tests/integration/test_administration.py",
        "erase": "tests of erasure",
        "retain": "tests of retention",
        "hold": "tests of holds",
        "export": "tests/integration/test_subject_export.py",
    }
    assert set(ACTIONS) == asked | elsewhere.keys()


@pytest.mark.parametrize("role", ROLES)
def test_sessions_are_made_by_who_may_make_them_and_for_oneself(house, role):
    """O1, O3: a parent of somebody else is none"""
    vault, victim, _ = house
    sessions = vault.access(Principal(tenant="acme", subject="carol", roles=frozenset({role}))).sessions
    made = outcome(sessions.create)
    assert isinstance(made, Session) == (role in OWN)
    assert outcome(lambda: sessions.create(parent=victim.id)) == outcome(
        lambda: sessions.create(parent=absent())
    )
