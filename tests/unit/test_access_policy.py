"""Who may do what is a pure table, closed by default, and always says why."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.model import LEVELS
from vault.policy.access import ACTIONS, RELATIONS, ROLES, Share, decide, decide_shared, is_level

#: The requirements' table, written again by hand: the highest view of whatever is allowed, - for what is not.
GRID = """
                         cre read app end lab fork share list aud ask agree rev man dir erase ret hold exp
agent           owner    L3  L3   L3  L3  L3  L3   -     L3   -   -   -     -   -   -   L3    -   -    -
agent           grantee  -   L3   L3  -   -   L3   -     L3   -   -   -     -   -   -   -     -   -    -
agent           tenant   -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
agent           stranger -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
owner           owner    L3  L3   L3  L3  L3  L3   L3    L3   -   -   -     -   -   -   L3    -   -    L3
owner           grantee  -   L3   L3  -   -   L3   -     L3   -   -   -     -   -   -   -     -   -    -
owner           tenant   -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
owner           stranger -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
support         owner    -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
support         grantee  -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
support         tenant   -   L1   -   -   -   -    -     L1   -   L1  -     -   -   -   -     -   -    -
support         stranger -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
auditor         owner    -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
auditor         grantee  -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
auditor         tenant   -   L0   -   -   -   -    -     L0   L0  -   -     -   -   -   -     -   -    -
auditor         stranger -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
privacy_officer owner    -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
privacy_officer grantee  -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
privacy_officer tenant   -   L2   -   -   -   -    -     L2   L0  L2  L0    L2  -   L0  L0    L0  L0   L3
privacy_officer stranger -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
administrator   owner    -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
administrator   grantee  -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
administrator   tenant   -   -    -   -   -   -    -     -    -   -   -     -   L0  L0  -     -   -    -
administrator   stranger -   -    -   -   -   -    -     -    -   -   -     -   -   -   -     -   -    -
"""
_LONG = {
    "cre": "create",
    "lab": "label",
    "exp": "export",
    "aud": "audit",
    "app": "append",
    "ask": "request_break_glass",
    "agree": "approve_break_glass",
    "rev": "reveal",
    "man": "manage",
    "dir": "directory",
    "ret": "retain",
}
_HEAD, *_ROWS = [line.split() for line in GRID.strip().splitlines()]
MAY = {
    (role, relation, _LONG.get(action, action)): level
    for role, relation, *levels in _ROWS
    for action, level in zip(_HEAD, levels, strict=True)
}
NO_NAMES = ("alice", "acme", "bob")

roles = st.frozensets(st.sampled_from([*ROLES, "nobody", ""]))
actions = st.sampled_from(ACTIONS)
shares = st.builds(
    Share,
    level=st.sampled_from(LEVELS),
    may=st.frozensets(st.sampled_from(["append", "fork", "end", "share", "audit"])),
    until_us=st.none() | st.integers(0, 100),
)
times = st.integers(0, 100)


def test_the_table_of_this_test_names_every_role_relation_and_action():
    """O3"""
    assert MAY.keys() == set(itertools.product(ROLES, RELATIONS, ACTIONS))


@pytest.mark.parametrize(("role", "relation"), [*itertools.product(ROLES, RELATIONS)])
def test_every_role_may_do_what_the_table_says_and_nothing_else(role, relation):
    """O1, O3"""
    for action in ACTIONS:
        decision, level = decide(frozenset({role}), action, relation), MAY[role, relation, action]
        assert decision.allowed == (level != "-"), action
        assert decision.level == ("L0" if level == "-" else level), action
        assert action in decision.reason
        assert (role in decision.reason) == decision.allowed


@pytest.mark.parametrize(
    ("roles_of", "action"),
    [
        pytest.param(frozenset(), "read", id="no-role"),
        pytest.param(frozenset({"administrator"}), "read", id="a-role-that-administers"),
        pytest.param(frozenset({"auditor", "support"}), "append", id="roles-not-listed"),
        pytest.param(frozenset({"Agent"}), "read", id="another-spelling"),
        pytest.param(frozenset({""}), "read", id="an-empty-role"),
        pytest.param(frozenset({"agent"}), "shred", id="an-action-not-listed"),
        pytest.param(frozenset({"agent"}), "", id="an-empty-action"),
        pytest.param(frozenset({"agent"}), "READ", id="an-action-in-another-spelling"),
    ],
)
def test_whatever_is_not_listed_is_denied_with_a_reason(roles_of, action):
    """O1, O3, invariant 11"""
    decision = decide(roles_of, action)
    assert decision == decide(roles_of, action, "owner")
    assert not decision.allowed
    assert decision.reason.startswith("no role of this principal may ")


def test_an_administrator_reads_nothing_whatever_the_session_is_to_it():
    """O3: administers without reading content"""
    for relation, action in itertools.product(RELATIONS, ("read", "list", "audit", "reveal")):
        assert not decide(frozenset({"administrator"}), action, relation).allowed
    everything = Share(level="L3", may=frozenset({"append"}), until_us=None)
    assert not decide_shared(frozenset({"administrator"}), "read", everything, 0).allowed


def test_one_allowing_role_among_others_is_enough():
    """O3"""
    decision = decide(frozenset({"administrator", "owner", "zebra"}), "read")
    assert decision.allowed
    assert "owner" in decision.reason


@given(roles, roles, actions, st.sampled_from(RELATIONS))
def test_more_roles_never_mean_less(some, more, action, relation):
    """O3"""
    less, all_of = decide(some, action, relation), decide(some | more, action, relation)
    assert (all_of.allowed, all_of.level) >= (less.allowed, less.level)
    best = max((d.allowed, d.level) for d in (less, decide(more, action, relation)))
    assert (all_of.allowed, all_of.level) == best


@given(roles, actions, shares, times)
def test_what_is_shared_never_exceeds_the_share_or_the_role(of, action, share, now_us):
    """O2, R1"""
    decision, by_role = decide_shared(of, action, share, now_us), decide(of, action, "grantee")
    ends = share.until_us is not None and share.until_us <= now_us
    may = action in {"read", "list"} or (action in {"append", "fork"} and action in share.may)
    may = may and (action != "fork" or share.level == "L3")
    assert decision.allowed == (by_role.allowed and may and not ends)
    if decision.allowed:
        assert decision.level == min(share.level, by_role.level)
    else:
        assert decision.level == "L0"


@given(roles, actions, shares, times)
def test_a_share_that_is_over_gives_nothing(of, action, share, now_us):
    """O2: until means before that moment"""
    if share.until_us is not None:
        for moment in (share.until_us, share.until_us + now_us):
            assert not share.holds(moment)
            assert not decide_shared(of, action, share, moment).allowed
        assert share.holds(share.until_us - 1)
    assert not decide_shared(of, action, None, now_us).allowed


@given(st.frozensets(st.sampled_from(ROLES) | st.sampled_from(NO_NAMES)), actions, shares, times)
def test_every_decision_has_a_reason_that_names_nobody(of, action, share, now_us):
    """Invariant 11, R5: reasons stand in the audit trail"""
    decisions = [decide(of, action, relation) for relation in RELATIONS]
    decisions += [decide_shared(of, action, one, now_us) for one in (share, None)]
    for decision in decisions:
        assert len(decision.reason.split()) >= 4
        assert not any(name in decision.reason for name in NO_NAMES)


def test_the_same_question_has_the_same_answer():
    """Invariant 11"""
    for of in (frozenset({"agent", "owner"}), frozenset({"nobody"})):
        assert len({decide(of, "read") for _ in range(20)}) == 1


@pytest.mark.parametrize("name", ["l1", "L4", "", "L", "L1 "])
def test_only_the_four_levels_are_levels(name):
    """R1"""
    assert all(is_level(level) for level in ("L0", "L1", "L2", "L3"))
    assert not is_level(name)


@pytest.mark.parametrize("level", LEVELS)
def test_leave_to_fork_holds_in_full_only(level):
    """O2: a fork goes on from all that its original holds"""
    share = Share(level=level, may=frozenset({"fork"}), until_us=None)
    for role in ("agent", "owner"):
        decision = decide_shared(frozenset({role}), "fork", share, 0)
        assert decision.allowed == (level == "L3")
        assert decide_shared(frozenset({role}), "read", share, 0).level == level
        assert not decide_shared(frozenset({role}), "append", share, 0).allowed
