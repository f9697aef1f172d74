"""What a new policy says about what is stored already, where a rule of it says ``applies_to = "all"``.

The rule that decides says whether an item is bound anew. Where that one speaks of new items only, the
minimums of rules that speak of all of them are added: a minimum that the law sets holds for what is there.
What is asked for, or was taken back, stays asked for and taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vault.policy.durations import Duration, may_exceed, nominal_us
from vault.policy.rules import ANCHORS, Policy, Rule
from vault.policy.terms import Bounds, Terms, bind

_ALL: Final = "all"
_CREATED: Final = ANCHORS.index("created")
_Keep = tuple[int, int, int]


def speaks_of_all(policy: Policy) -> bool:
    """Whether any of its rules holds for what is there already."""
    return any(rule.applies_to == _ALL for rule in policy.rules)


def rebound(
    terms: Terms,
    policy: Policy,
    kind: str,
    labels: Mapping[str, str],
    *,
    bounds: Bounds,
    before: Policy | None,
) -> Terms:
    """What binds an item from a policy on; the same terms again where it says nothing about what is there.

    Args:
        terms: what binds it now.
        policy: the new one.
        kind: of the item.
        labels: of the item.
        bounds: what the vault allows.
        before: the policy that ``terms`` names, to know what its writer shortened; None: not known any more.
    """
    fresh = bind(policy, kind, labels, bounds=bounds)
    if fresh.rule < 0:
        return terms
    if policy.rules[fresh.rule].applies_to != _ALL:
        matching = [rule for rule in policy.rules if rule.applies_to == _ALL and rule.matches(kind, labels)]
        return terms._replace(keeps=_with(terms.keeps, matching))
    if kind != "session" and _is_its_writers(terms, kind, labels, bounds, before):
        period, own = _period(fresh), _period(terms)
        if nominal_us(own) < nominal_us(period):
            fresh = fresh._replace(anchor=_CREATED, expire_months=0, expire_us=terms.expire_us)
    return fresh._replace(restored_us=terms.restored_us, requested_us=terms.requested_us)


def _is_its_writers(
    terms: Terms, kind: str, labels: Mapping[str, str], bounds: Bounds, before: Policy | None
) -> bool:
    """Whether an item's own writer asked for a shorter period than its policy gave it (``ttl``).

    Where the policy is not known any more, it counts as the writer's: nothing is kept longer than somebody
    may have been promised.
    """
    if terms.anchor != _CREATED or terms.expire_months or not terms.expire_us:
        return False
    if before is None:
        return True
    given = bind(before, kind, labels, bounds=bounds)
    return (given.anchor, given.expire_months, given.expire_us) != (_CREATED, 0, terms.expire_us)


def _period(terms: Terms) -> Duration | None:
    if not terms.expire_months and not terms.expire_us:
        return None
    return Duration(months=terms.expire_months, us=terms.expire_us)


def _with(keeps: tuple[_Keep, ...], rules: list[Rule]) -> tuple[_Keep, ...]:
    """Minimums and those of rules, sorted; on one clock only those that another does not always outlast."""
    found = {
        (ANCHORS.index(rule.anchor), rule.keep_min.duration.months, rule.keep_min.duration.us)
        for rule in rules
        if rule.keep_min.duration is not None
    }
    if found <= set(keeps):
        return keeps
    found |= set(keeps)
    return tuple(sorted(keep for keep in found if not any(_outlasts(other, keep) for other in found)))


def _outlasts(first: _Keep, second: _Keep) -> bool:
    if first == second or first[0] != second[0]:
        return False
    one, other = (Duration(months=months, us=us) for _, months, us in (first, second))
    return may_exceed(one, other) and not may_exceed(other, one)
