"""Who may do what is a pure table, closed by default, and always says why."""

import itertools

import pytest

from vault.policy.access import OWN_SESSIONS, decide

ACTIONS = ("create", "read", "append", "end")


@pytest.mark.parametrize(("role", "action"), [*itertools.product(("agent", "owner"), ACTIONS)])
def test_agents_and_owners_may_use_their_own_sessions(role, action):
    """O1, O3"""
    decision = decide(frozenset({role}), action)
    assert decision.allowed
    assert role in decision.reason
    assert action in decision.reason


@pytest.mark.parametrize(
    ("roles", "action"),
    [
        pytest.param(frozenset(), "read", id="no-role"),
        pytest.param(frozenset({"administrator"}), "read", id="a-role-that-administers"),
        pytest.param(frozenset({"auditor", "support"}), "append", id="roles-not-listed"),
        pytest.param(frozenset({"Agent"}), "read", id="another-spelling"),
        pytest.param(frozenset({""}), "read", id="an-empty-role"),
        pytest.param(frozenset({"agent"}), "erase", id="an-action-not-listed"),
        pytest.param(frozenset({"agent"}), "", id="an-empty-action"),
        pytest.param(frozenset({"agent"}), "READ", id="an-action-in-another-spelling"),
    ],
)
def test_whatever_is_not_listed_is_denied_with_a_reason(roles, action):
    """O1, O3, invariant 11"""
    decision = decide(roles, action)
    assert not decision.allowed
    assert decision.reason.startswith("no role of this principal may ")


def test_one_allowing_role_among_others_is_enough():
    """O3"""
    decision = decide(frozenset({"administrator", "owner", "zebra"}), "read")
    assert decision.allowed
    assert "owner" in decision.reason


def test_the_same_question_has_the_same_answer():
    """Invariant 11"""
    for roles in (frozenset({"agent", "owner"}), frozenset({"nobody"})):
        assert len({decide(roles, "read") for _ in range(20)}) == 1


def test_no_role_is_allowed_an_action_that_no_use_case_has():
    """O3"""
    assert {action for actions in OWN_SESSIONS.values() for action in actions} == set(ACTIONS)
