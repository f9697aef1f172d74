"""What a new version of a retention policy changes, and whether anything would go earlier by it.

A change that makes something go earlier is announced before it counts; so the answer must not miss one. It
looks at pairs of rules, an old and a new one, that can both decide about one item, and says yes when in
doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, NamedTuple

from vault.policy.durations import Duration, longest_us, may_exceed, shortest_us
from vault.policy.rules import DERIVED_KINDS, KINDS, ON_EXPIRE, Policy, Rule, covers

#: Above so many pairs of rules and types the rules are not compared: whatever differs may shorten.
PAIRS_MAX: Final = 250_000

_FIELDS: Final = (
    "kinds",
    "labels",
    "types",
    "level",
    "anchor",
    "keep_min",
    "expire_after",
    "on_expire",
    "grace",
    "derived",
    "applies_to",
)
#: How much an option takes with it.
_TAKES: Final = {"detach": 0, "erase_with_last": 1, "recompute": 2, "erase_with_any": 3}
#: Clocks that never start before the item was made.
_LATER_THAN_CREATED: Final = frozenset({"created", "last_event", "ended", "labelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One rule that is new, gone, or not the same.

    Attributes:
        rule: its id.
        what: ``added``, ``removed`` or ``changed``.
        fields: those that differ, of a changed one.
        shortens: by it something may be hidden or erased earlier, or take more with it.
        existing: and this holds for what is stored already: a rule with ``applies_to = "all"`` says so.
    """

    rule: str
    what: Literal["added", "removed", "changed"]
    fields: tuple[str, ...]
    shortens: bool
    existing: bool


def diff(old: Policy, new: Policy) -> list[Change]:
    """The rules that differ, in the order of the new policy, then those that are gone."""
    olds, news = ({rule.id: rule for rule in policy.rules} for policy in (old, new))
    differing = {id: _fields(olds[id], rule) if id in olds else () for id, rule in news.items()}
    differing = {id: fields for id, fields in differing.items() if fields or id not in olds}
    gone = [id for id in olds if id not in news]
    if not differing and not gone:
        return []
    shortened: dict[str, bool] = {}
    for found in _shortened(old, new, {*differing, *gone}):
        id = found.new.id if found.new and found.new.id in differing else found.old.id if found.old else ""
        shortened[id] = shortened.get(id, False) or found.existing
    return [
        Change(
            rule=id,
            what="removed" if id not in news else "changed" if id in olds else "added",
            fields=differing.get(id, ()),
            shortens=id in shortened,
            existing=shortened.get(id, False),
        )
        for id in (*differing, *gone)
    ]


def is_shortening(old: Policy, new: Policy) -> bool:
    """Whether something that is stored already may go earlier by the new policy than by the old one."""
    return any(change.shortens and change.existing for change in diff(old, new))


def _fields(old: Rule, new: Rule) -> tuple[str, ...]:
    return tuple(field for field in _FIELDS if getattr(old, field) != getattr(new, field))


# -------------------------------------------------------------------------------------------------- pairs


class _Found(NamedTuple):
    """An old and a new rule by which an item may go earlier; None: no rule."""

    old: Rule | None
    new: Rule | None
    existing: bool


class _Meeting(NamedTuple):
    """What two rules both match."""

    labels: frozenset[tuple[str, str]]
    type: str
    level: str


class _Reach(NamedTuple):
    """A part of what a rule matches: of one kind and one entry of its types.

    ``place`` is its place among all of its policy and kind: of what matches an item, the first decides.
    """

    rule: Rule
    labels: frozenset[tuple[str, str]]
    type: str
    level: str
    place: int = 0

    def covers(self, other: _Reach | _Meeting) -> bool:
        """Whether it matches every item that the other one does."""
        return (
            self.labels <= other.labels
            and (not self.level or self.level == other.level)
            and (not self.type or (other.type != "" and covers(self.type, other.type)))
        )


def _reaches(policy: Policy, kind: str) -> list[_Reach]:
    """All of a policy for a kind, the first to decide first."""
    found = [
        _Reach(rule, frozenset(rule.labels.items()), type, rule.level)
        for rule in policy.rules
        if kind in rule.kinds
        for type in rule.types or ("",)
    ]
    found.sort(key=_rank)
    return [reach._replace(place=place) for place, reach in enumerate(found)]


def _rank(reach: _Reach) -> tuple[object, ...]:
    return reach.rule.rank_as(0 if not reach.type else 1 if reach.type.endswith(".*") else 2)


def _shortened(old: Policy, new: Policy, changed: set[str]) -> Iterator[_Found]:
    for kind in KINDS:
        before, now = _reaches(old, kind), _reaches(new, kind)
        if len(before) * len(now) > PAIRS_MAX:
            yield from (_Found(None, rule, existing=True) for rule in new.rules)
            yield from (_Found(rule, None, existing=True) for rule in old.rules)
            return
        yield from _by_another_rule(before, now, changed)
        yield from _by_a_rule_where_none_was(before, now)
        yield from _by_a_lost_minimum(before, now)


def _by_another_rule(before: list[_Reach], now: list[_Reach], changed: set[str]) -> Iterator[_Found]:
    for new in now:
        for old in before:
            # Of two rules that are in both policies the same one decides in both.
            if not changed & {old.rule.id, new.rule.id} or not _earlier(old.rule, new.rule):
                continue
            met = _meeting(old, new)
            if met and not _beaten(old, before, met) and not _beaten(new, now, met):
                yield _Found(old.rule, new.rule, existing=new.rule.applies_to == "all")
                if new.rule.id in changed:
                    break  # one is enough


def _by_a_rule_where_none_was(before: list[_Reach], now: list[_Reach]) -> Iterator[_Found]:
    for new in now:
        if (
            new.rule.expire_after is not None
            and not any(old.covers(new) for old in before)
            and not _beaten(new, now, new)
        ):
            yield _Found(None, new.rule, existing=new.rule.applies_to == "all")


def _by_a_lost_minimum(before: list[_Reach], now: list[_Reach]) -> Iterator[_Found]:
    for old in before:
        if old.rule.keep_min.duration is None or any(_keeps(new, old) for new in now):
            continue
        met = [new.rule for new in now if _meeting(old, new)]
        same = next((rule for rule in met if rule.id == old.rule.id), None)
        yield _Found(old.rule, same, existing=any(rule.applies_to == "all" for rule in met))


def _keeps(new: _Reach, old: _Reach) -> bool:
    """Whether a new rule keeps, at least as long, all that an old one kept."""
    least, was = new.rule.keep_min.duration, old.rule.keep_min.duration
    if least is None or was is None or not new.covers(old):
        return False
    return _starts_no_earlier(old.rule, new.rule) and not may_exceed(was, least)


def _beaten(reach: _Reach, among: list[_Reach], met: _Reach | _Meeting) -> bool:
    """Whether another rule always decides instead, about what was met."""
    return any(other.covers(met) for other in islice(among, reach.place))


def _meeting(first: _Reach, second: _Reach) -> _Meeting | None:
    labels = first.labels | second.labels
    if len(dict(labels)) < len(labels) or (first.level and second.level and first.level != second.level):
        return None
    types = {first.type, second.type} - {""}
    narrow = [type for type in types if all(covers(other, type) for other in types)]
    if types and not narrow:
        return None
    return _Meeting(labels, narrow[0] if narrow else "", first.level or second.level)


# ------------------------------------------------------------------------------------------- two outcomes


def _earlier(old: Rule, new: Rule) -> bool:
    """Whether an item may be hidden or erased earlier by a new rule than by an old one, or take more with it.

    The minimums are looked at elsewhere, as those of all rules count.
    """
    if old is new:
        return False
    # What is stored may be older than the old policy too, and bound by what was before that one.
    widened = old.applies_to == "new" and new.applies_to == "all"
    if widened or any(_taken(new, kind) > _taken(old, kind) for kind in DERIVED_KINDS):
        return True
    if new.expire_after is None:
        return False
    if old.expire_after is None or not _starts_no_earlier(old, new):
        return True
    harsher = ON_EXPIRE.index(new.on_expire) < ON_EXPIRE.index(old.on_expire)
    return harsher or may_exceed(old.expire_after, new.expire_after) or _sooner_gone(old, new)


def _sooner_gone(old: Rule, new: Rule) -> bool:
    """Whether period and grace together may be shorter; the new period is not."""
    if old.grace is None or (new.grace is not None and not may_exceed(old.grace, new.grace)):
        return False
    return _sum(longest_us, old) > _sum(shortest_us, new)


def _sum(length: Callable[[Duration], int], rule: Rule) -> int:
    return sum(length(period) for period in (rule.expire_after, rule.grace) if period is not None)


def _starts_no_earlier(old: Rule, new: Rule) -> bool:
    if old.anchor == "labelled" == new.anchor:
        return old.labels.keys() <= new.labels.keys()  # it starts with the last of them
    return old.anchor == new.anchor or (old.anchor == "created" and new.anchor in _LATER_THAN_CREATED)


def _taken(rule: Rule, kind: str) -> int:
    return _TAKES[rule.derived.get(kind, "erase_with_any")]
