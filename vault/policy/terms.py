"""What binds one item: the terms it was stored under, as numbers only.

A policy may be replaced, and what a newer one says may hold for new items only; so each item carries what
binds it. The stored form holds no name, no label and no reference: only the mark of the policy, the number of
the rule, and periods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from vault.encoding import json_bytes, json_value
from vault.errors import InvalidInput, NewerVault, Tampered
from vault.policy.durations import LAST_US, MONTHS_MAX, US_MAX, Duration, in_words, may_exceed, nominal_us
from vault.policy.rules import ANCHORS, DERIVED_KINDS, DERIVED_OPTIONS, KINDS, ON_EXPIRE, Policy, Rule

TERMS_BYTES_MAX: Final = 64 * 1024
_VERSION: Final = 1
#: With the two clocks that somebody sets, where one of them is set.
_WITH_CLOCKS: Final = 2
_MARK_LENGTH: Final = 32
_FIELDS: Final = 13
_FIELDS_WITH_CLOCKS: Final = 15
_RULE_NUMBER_MAX: Final = 2**31 - 1
#: Numbers of a minimum whose clock needs no start of its own.
_PLAIN: Final = 3
_LABELLED: Final = ANCHORS.index("labelled")
_PAIR_TOP: Final = (len(KINDS) - 1, len(DERIVED_OPTIONS) - 1)


#: A clock, months, microseconds; one counted from labels that came later has a fourth: when they came.
Minimum = tuple[int, int, int] | tuple[int, int, int, int]


class Terms(NamedTuple):
    """What binds one item. All numbers but the mark; codes are places in the vocabularies of ``rules``.

    Attributes:
        policy: the mark of the policy, 32 hexadecimal digits; empty: none.
        rule: the number of the rule that says when it expires, from 0; -1: none matched.
        anchor: the clock that ``expire_*`` is counted on.
        expire_months: with ``expire_us`` the period after which it is hidden; both 0: never.
        expire_us: see there.
        keeps: the minimums of all rules that matched: clock, months, microseconds; and when that clock
            started, if it was by labels that came later than the item.
        grace_months: with ``grace_us`` how long it can be restored after it expired; both 0: not at all.
        grace_us: see there.
        on_expire: what is done when it is due.
        derived: kind and option of what was made from it; a kind that is not there: ``erase_with_any``
            where nobody chooses.
        restored_us: when it was last restored: its expiry is counted from then. 0: never.
        requested_us: when a person asked for its erasure. 0: nobody did.
        labelled_us: when it got the labels that its rule names. 0: it was made with them.
        external_us: the date that was set from outside. 0: none.
    """

    policy: str = ""
    rule: int = -1
    anchor: int = 0
    expire_months: int = 0
    expire_us: int = 0
    keeps: tuple[Minimum, ...] = ()
    grace_months: int = 0
    grace_us: int = 0
    on_expire: int = 0
    derived: tuple[tuple[int, int], ...] = ()
    restored_us: int = 0
    requested_us: int = 0
    labelled_us: int = 0
    external_us: int = 0

    def option(self, kind: str) -> str:
        """What happens to something of this kind that was made from the item, when the item goes."""
        code = KINDS.index(kind) if kind in KINDS else -1
        return DERIVED_OPTIONS[dict(self.derived).get(code, 0)]

    def words(self) -> dict[str, str]:
        """What it says of kinds that are made from it: nobody may choose less than that."""
        return {KINDS[kind]: DERIVED_OPTIONS[option] for kind, option in self.derived}


#: Nothing binds it: it is kept for ever, and visible.
NO_TERMS: Final = Terms()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the vault allows a policy: nothing goes before the floor, nothing stays beyond the ceiling.

    A minimum that the floor or a rule sets is stronger than the ceiling.
    """

    floor: Duration | None = None
    ceiling: Duration | None = None


NO_BOUNDS: Final = Bounds()
_FROM_THE_START: Final[Mapping[str, int]] = {}
_NEVER: Final[frozenset[tuple[str, int]]] = frozenset()


@lru_cache(maxsize=4096)
def encode(terms: Terms) -> bytes:
    """The stored form; empty for ``NO_TERMS``. The same terms always give the same bytes.

    Raises:
        InvalidInput: a number is out of its range.
    """
    if terms == NO_TERMS:
        return b""
    keeps, derived = [list(keep) for keep in terms.keeps], [list(pair) for pair in terms.derived]
    fields = [_VERSION, *terms[:5], keeps, *terms[6:9], derived, *terms[10:12]]
    if terms.labelled_us or terms.external_us or any(len(keep) > _PLAIN for keep in keeps):
        fields = [_WITH_CLOCKS, *fields[1:], terms.labelled_us, terms.external_us]
    if _read(fields) is None:
        raise InvalidInput("these retention terms cannot be stored: a number in them is out of its range")
    return json_bytes(fields)


@lru_cache(maxsize=4096)
def decode(stored: bytes) -> Terms:
    """The terms of a stored form.

    Raises:
        NewerVault: a newer version of the program wrote them.
        Tampered: they are not what ``encode`` writes.
    """
    if not stored:
        return NO_TERMS
    try:
        found = json_value(stored) if len(stored) <= TERMS_BYTES_MAX else None
    except ValueError:
        found = None
    if isinstance(found, list) and found and type(found[0]) is int and found[0] > _WITH_CLOCKS:
        raise NewerVault("a newer version of the program wrote these retention terms; update the program")
    terms = _read(found) if isinstance(found, list) else None
    # There is one stored form, so a byte more or less is seen.
    if terms is None or encode(terms) != stored:
        raise Tampered("the stored retention terms are not ones that this program writes; run verify")
    return terms


def _read(found: list[Any]) -> Terms | None:
    """The terms of what is in a stored form, if each number is in its range."""
    clocks = found[_FIELDS:]
    if len(found) not in {_FIELDS, _FIELDS_WITH_CLOCKS}:
        return None
    version, mark, rule, anchor, months, us, keeps, grace_months, grace_us, action, derived = found[:11]
    asked = found[11:_FIELDS]
    fits = (
        (type(version), version) == (int, _WITH_CLOCKS if clocks else _VERSION)
        and _are_numbers(clocks, (LAST_US,) * len(clocks))
        and _is_mark(mark)
        and (type(rule) is int and -1 <= rule <= _RULE_NUMBER_MAX)
        and _are_numbers([anchor, action, *asked], (len(ANCHORS) - 1, len(ON_EXPIRE) - 1, LAST_US, LAST_US))
        and all(_is_period(parts) for parts in ([months, us], [grace_months, grace_us]))
        and (isinstance(keeps, list) and all(_is_keep(keep, later=bool(clocks)) for keep in keeps))
        and (isinstance(derived, list) and all(_are_numbers(pair, _PAIR_TOP) for pair in derived))
    )
    if not fits:
        return None
    return Terms(
        policy=mark,
        rule=rule,
        anchor=anchor,
        expire_months=months,
        expire_us=us,
        keeps=tuple(map(tuple, keeps)),
        grace_months=grace_months,
        grace_us=grace_us,
        on_expire=action,
        derived=tuple((pair[0], pair[1]) for pair in derived),
        restored_us=asked[0],
        requested_us=asked[1],
        labelled_us=clocks[0] if clocks else 0,
        external_us=clocks[1] if clocks else 0,
    )


def _is_mark(mark: Any) -> bool:
    return isinstance(mark, str) and len(mark) in {0, _MARK_LENGTH} and set(mark) <= set("0123456789abcdef")


def _are_numbers(found: Any, highest: tuple[int, ...]) -> bool:
    """Whether these are as many integers, none below 0 or above its limit."""
    if not isinstance(found, list) or len(found) != len(highest):
        return False
    return all(type(number) is int and 0 <= number <= top for number, top in zip(found, highest, strict=True))


def _is_period(found: Any) -> bool:
    return _are_numbers(found, (MONTHS_MAX, US_MAX)) and 0 in found


def _is_keep(found: Any, *, later: bool) -> bool:
    top: tuple[int, ...] = (len(ANCHORS) - 1, MONTHS_MAX, US_MAX)
    if later and isinstance(found, list) and len(found) > _PLAIN:
        if found[0] != _LABELLED or not found[_PLAIN]:
            return False
        top = (*top, LAST_US)
    return _are_numbers(found, top) and _is_period(found[1:_PLAIN])


# ------------------------------------------------------------------------------------------------ binding


def bind(
    policy: Policy,
    kind: str,
    labels: Mapping[str, str],
    *,
    since: Mapping[str, int] = _FROM_THE_START,
    type: str = "",
    level: str = "",
    bounds: Bounds = NO_BOUNDS,
) -> Terms:
    """What a policy says about one item, within what the vault allows.

    It expires by the most specific rule that matches it: more labels, then an event type, then a level; of
    equals the one with the shortest period. The minimums of *all* rules that match it bind it. An event for
    which there is no rule has no expiry of its own: it goes with its session.

    Args:
        policy, kind, labels: what is said about what.
        since: when labels got their values, by name; one that is not there has had it from the start.
        type, level: of an event.
        bounds: what the vault allows.

    Raises:
        InvalidInput: the kind is not one of ``KINDS``.
    """
    if kind not in KINDS:
        raise InvalidInput(f"a kind of item is one of {', '.join(KINDS)}")
    # Labels that no rule asks for make no difference, and would only fill the cache.
    asked = frozenset(pair for pair in labels.items() if pair in _asked(policy))
    came = frozenset(pair for pair in since.items() if pair[0] in _dating(policy)) if since else _NEVER
    return _bind(policy, kind, asked, came, type, level, bounds)


@lru_cache(maxsize=256)
def _asked(policy: Policy) -> frozenset[tuple[str, str]]:
    return frozenset(pair for rule in policy.rules for pair in rule.labels.items())


@lru_cache(maxsize=256)
def _dating(policy: Policy) -> frozenset[str]:
    """The labels whose coming starts a clock."""
    return frozenset(name for rule in policy.rules if rule.anchor == "labelled" for name in rule.labels)


@lru_cache(maxsize=4096)
def _bind(
    policy: Policy,
    kind: str,
    labels: frozenset[tuple[str, str]],
    since: frozenset[tuple[str, int]],
    event_type: str,
    level: str,
    bounds: Bounds,
) -> Terms:
    known, came = dict(labels), dict(since)
    matching = [rule for rule in policy.rules if rule.matches(kind, known, event_type, level)]
    if not matching:
        return _unmatched(policy, kind, bounds)
    winner = min(matching, key=lambda rule: rule.rank(event_type))
    expire = _capped(winner.expire_after, bounds.ceiling)
    grace = winner.grace or _NOTHING
    return Terms(
        policy=policy.mark,
        rule=policy.rules.index(winner),
        anchor=ANCHORS.index(winner.anchor),
        expire_months=expire.months,
        expire_us=expire.us,
        keeps=outlasting(
            minimum(rule, duration, came)
            for rule in matching
            for duration in (rule.keep_min.duration, bounds.floor)
            if duration is not None
        ),
        grace_months=grace.months,
        grace_us=grace.us,
        on_expire=ON_EXPIRE.index(winner.on_expire),
        derived=_derived(winner),
        labelled_us=_came_us(winner, came),
    )


class _Nothing(NamedTuple):
    months: int = 0
    us: int = 0


_NOTHING: Final = _Nothing()


def _unmatched(policy: Policy, kind: str, bounds: Bounds) -> Terms:
    # An event is part of its session, whose bounds hold for it; all else is bounded by its own age.
    limits = NO_BOUNDS if kind == "event" else bounds
    expire = _capped(None, limits.ceiling)
    keeps = ((0, limits.floor.months, limits.floor.us),) if limits.floor else ()
    return Terms(policy=policy.mark, expire_months=expire.months, expire_us=expire.us, keeps=keeps)


def _capped(expire: Duration | None, ceiling: Duration | None) -> Duration | _Nothing:
    if ceiling is not None and nominal_us(expire) > nominal_us(ceiling):
        expire = ceiling
    return expire or _NOTHING


def minimum(rule: Rule, duration: Duration, came: Mapping[str, int]) -> Minimum:
    """A period that a rule keeps what it matches, on its clock; ``came``: when labels got their values."""
    anchor, came_us = ANCHORS.index(rule.anchor), _came_us(rule, came)
    if came_us:
        return anchor, duration.months, duration.us, came_us
    return anchor, duration.months, duration.us


def _came_us(rule: Rule, came: Mapping[str, int]) -> int:
    """When all the labels that a rule counts from were there; 0: from the start, or it counts from others."""
    return max((came.get(name, 0) for name in rule.labels), default=0) if rule.anchor == "labelled" else 0


def outlasting(minimums: Iterable[Minimum]) -> tuple[Minimum, ...]:
    """Minimums, sorted; on one clock only those that another does not always outlast."""
    found = set(minimums)
    return tuple(sorted(keep for keep in found if not any(_outlasts(other, keep) for other in found)))


def _outlasts(first: Minimum, second: Minimum) -> bool:
    """Whether one minimum is another one, and on the same clock never ends before it."""
    if first == second or first[0] != second[0] or _start(first) < _start(second):
        return False
    if first[1:_PLAIN] == second[1:_PLAIN]:
        return True
    one, other = (Duration(months=keep[1], us=keep[2]) for keep in (first, second))
    return may_exceed(one, other) and not may_exceed(other, one)


def _start(keep: Minimum) -> int:
    return keep[3] if len(keep) > _PLAIN else 0


def _derived(rule: Rule) -> tuple[tuple[int, int], ...]:
    return tuple(
        (KINDS.index(kind), DERIVED_OPTIONS.index(rule.derived[kind]))
        for kind in DERIVED_KINDS
        if kind in rule.derived
    )


def clampings(policy: Policy, bounds: Bounds) -> tuple[str, ...]:
    """What the vault's bounds change in a policy, one sentence for each; rules are counted from 1."""
    said = []
    for number, rule in enumerate(policy.rules, 1):
        expire, ceiling, floor = rule.expire_after, bounds.ceiling, bounds.floor
        if ceiling is not None and nominal_us(expire) > nominal_us(ceiling):
            was = in_words(expire.months, expire.us) if expire else "never"
            most = in_words(ceiling.months, ceiling.us)
            said.append(f"rule {number} says expire_after {was}; this vault allows at most {most}")
        keep = rule.keep_min.duration
        if floor is not None and (keep is None or may_exceed(floor, keep)):
            was = in_words(keep.months, keep.us) if keep else "nothing"
            least = in_words(floor.months, floor.us)
            said.append(f"rule {number} says keep_min {was}; this vault keeps at least {least}")
    return tuple(said)
