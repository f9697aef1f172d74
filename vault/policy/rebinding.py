"""What a new policy says about what is stored already, where a rule of it says ``applies_to = "all"``.

The rule that decides says whether an item is bound anew. Where that one speaks of new items only, the
minimums of rules that speak of all of them are added: a minimum that the law sets holds for what is there.
What is asked for, or was taken back, stays asked for and taken back; a date from outside stays set.

A session whose labels change while it lives is bound anew too, if its policy or the one in force tells the
labels apart; then no minimum that binds it ends earlier than before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from vault.policy.durations import Duration, nominal_us
from vault.policy.rules import ANCHORS, Policy
from vault.policy.terms import Bounds, Minimum, Terms, bind, minimum, outlasting

_ALL: Final = "all"
_CREATED: Final = ANCHORS.index("created")
_FROM_THE_START: Final[Mapping[str, int]] = {}


class Labels(NamedTuple):
    """Labels, and when they got their values, by name; one that is not in ``since`` has had it all along."""

    named: Mapping[str, str]
    since: Mapping[str, int] = _FROM_THE_START

    def changed(self, given: Mapping[str, str], removed: Collection[str], now_us: int) -> Labels:
        """The labels with some given and some taken away; one that is given as it was is not changed."""
        named = {name: value for name, value in self.named.items() if name not in removed} | {**given}
        since = {name: us for name, us in self.since.items() if named.get(name) == self.named.get(name)}
        new = {name: now_us for name, value in named.items() if self.named.get(name) != value}
        return Labels(named, {name: us for name, us in (since | new).items() if name in named})


def speaks_of_all(policy: Policy) -> bool:
    """Whether any of its rules holds for what is there already."""
    return any(rule.applies_to == _ALL for rule in policy.rules)


def rebound(
    terms: Terms,
    policy: Policy,
    kind: str,
    labels: Labels,
    *,
    bounds: Bounds,
    before: Policy | None,
) -> Terms:
    """What binds an item from a policy on; the same terms again where it says nothing about what is there.

    Args:
        terms: what binds it now.
        policy: the new one.
        kind: of the item.
        labels: of the item, and since when.
        bounds: what the vault allows.
        before: the policy that ``terms`` names, to know what its writer shortened; None: not known any more.
    """
    named, since = labels
    fresh = bind(policy, kind, named, since=since, bounds=bounds)
    if fresh.rule < 0:
        return terms
    if policy.rules[fresh.rule].applies_to != _ALL:
        keeps = [
            minimum(rule, rule.keep_min.duration, since)
            for rule in policy.rules
            if rule.applies_to == _ALL and rule.matches(kind, named) and rule.keep_min.duration is not None
        ]
        return terms if set(keeps) <= set(terms.keeps) else terms._replace(keeps=_with(terms.keeps, keeps))
    if kind != "session" and _is_its_writers(terms, kind, named, bounds, before):
        period, own = _period(fresh), _period(terms)
        if nominal_us(own) < nominal_us(period):
            fresh = fresh._replace(anchor=_CREATED, expire_months=0, expire_us=terms.expire_us)
    return _carried(terms, fresh)


def relabelled(
    terms: Terms,
    policy: Policy,
    was: Labels,
    labels: Labels,
    *,
    bounds: Bounds,
    before: Policy | None,
) -> Terms:
    """What binds a session from a change of its labels on.

    The same terms again where neither the policy in force nor the one that they name tells the labels apart:
    a label that no rule asks for does not bring a newer policy upon what is stored.

    Args:
        terms: what binds it now.
        policy: the one in force.
        was: its labels up to now.
        labels: those that it gets.
        bounds: what the vault allows.
        before: the policy that ``terms`` names; None: not known any more.
    """
    if not any(_tells_apart(one, was, labels) for one in (policy, before) if one is not None):
        return terms
    fresh = bind(policy, "session", labels.named, since=labels.since, bounds=bounds)
    return _carried(terms, fresh)._replace(keeps=_with(terms.keeps, fresh.keeps))


def _tells_apart(policy: Policy, was: Labels, labels: Labels) -> bool:
    return any(
        rule.matches("session", was.named) != rule.matches("session", labels.named) for rule in policy.rules
    )


def _carried(terms: Terms, fresh: Terms) -> Terms:
    """New terms, with what was done to the item itself."""
    return fresh._replace(
        restored_us=terms.restored_us, requested_us=terms.requested_us, external_us=terms.external_us
    )


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


def _with(keeps: tuple[Minimum, ...], more: Iterable[Minimum]) -> tuple[Minimum, ...]:
    """Minimums and others; those of them that count."""
    return outlasting((*keeps, *more))
