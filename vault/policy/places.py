"""Which field rule speaks of a place: patterns run side by side down a payload, the most specific wins.

Of the rules that match a place, in this order:

1. ``secret`` beats every other class, except a rule without ``**`` and with more literal words: only a rule
   that says exactly where can show what another calls a secret.
2. A rule whose last segment is a word beats one that ends in a wildcard: it names the value, not a region.
3. More literal words beat fewer; then more ``*`` beat fewer; then fewer ``**`` beat more.
4. Among equals the stricter action counts, at each level.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cached_property
from typing import Final, NamedTuple

from vault.policy.redaction import ACTIONS, CLASSES, Rule

#: The actions as numbers, the stricter the smaller.
DROP, SHAPE, MASK, PSEUDONYM, DETECT, KEEP = range(len(ACTIONS))

#: States kept of one matcher. A walk makes about one per pattern; above this they are made anew each time, so
#: that no set of patterns can fill the memory.
_STATES_MAX: Final = 4_096
_TYPES_MAX: Final = 512  # event types whose matcher is remembered


class Treatment(NamedTuple):
    """What the views of L0, L1, L2, and L3 of somebody else's data, do with a value."""

    class_: str
    actions: tuple[int, int, int, int]
    kind: str

    def within(self, other: Treatment) -> Treatment:
        """The stricter of the two at each level: no higher level shows less, as it is with each of them."""
        low, high = self.actions, other.actions
        return Treatment(
            self.class_,
            (min(low[0], high[0]), min(low[1], high[1]), min(low[2], high[2]), min(low[3], high[3])),
            self.kind or other.kind,
        )


def _treatment(class_: str, actions: tuple[str, str, str], kind: str = "") -> Treatment:
    first, second, third = map(ACTIONS.index, actions)
    # At L3 detectors still look for secrets, unless the reader is the owner, to whom nothing is done.
    return Treatment(class_, (first, second, third, DROP if class_ == "secret" else DETECT), kind)


#: What no rule speaks of: hidden at L0 and L1, and at L2 shown but for what the detectors find (R4).
UNKNOWN: Final = _treatment("unknown", CLASSES["unknown"])


#: What does not tell one word from another: joints, spaces, and signs without width (a key is still a key
#: with a soft hyphen in it).
_NOT_COMPARED: Final = str.maketrans("", "", "_- \t\r\n\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")


def fold(word: str) -> str:
    """A segment as it is compared: without case, joints and spaces; other scripts' forms as NFKC has them."""
    if not word.isascii():
        word = unicodedata.normalize("NFKC", word).casefold()
    return word.lower().translate(_NOT_COMPARED)


class _Pattern:
    __slots__ = ("deep", "literals", "names", "segments", "treatment", "weight")

    def __init__(self, rule: Rule) -> None:
        parts = rule.segments
        self.segments = tuple(part if part in {"*", "**"} else fold(part) for part in parts)
        stars, self.deep = parts.count("*"), parts.count("**")
        self.literals = len(parts) - stars - self.deep
        self.names = parts[-1] != "**"
        self.weight = (parts[-1] not in {"*", "**"}, self.literals, stars, -self.deep)
        self.treatment = _treatment(rule.class_, rule.actions, rule.kind)


class Place:
    """A place in a payload, as far as the rules can tell it from another."""

    def __init__(self, matcher: Matcher, active: frozenset[tuple[int, int]]) -> None:
        """Made by ``Matcher.start`` and ``below``."""
        self._matcher, self._active = matcher, active
        self._next: dict[str, Place] = {}

    def below(self, segment: str) -> Place:
        """The place one segment further down: an object's key, as it stands there."""
        return self._below(self._matcher.symbol(segment))

    def knows(self, segment: str) -> bool:
        """Whether a segment is a word of some rule, and so of a format rather than of somebody's data."""
        return self._matcher.symbol(segment) != "*"

    @property
    def items_are_alike(self) -> bool:
        """Whether all items of a list here have the same place, since no rule has a number in it."""
        return not self._matcher.has_indexes

    def at(self, index: int) -> Place:
        """The place of a list's item."""
        return self.below(str(index))

    def _below(self, symbol: str) -> Place:
        # Only words of the rules are remembered, never a word of the data: all others lead to the same place.
        known = self._next.get(symbol)
        if known is None:
            known = self._matcher.place(self._active, symbol)
            if self._matcher.has_room():
                self._next[symbol] = known
        return known

    @cached_property
    def treatment(self) -> Treatment:
        """What is done with a value here that is no object and no list."""
        return self._matcher.decide(self._active, naming=False) or UNKNOWN

    @cached_property
    def ceiling(self) -> Treatment | None:
        """The most that is shown of anything in an object or list here, if a rule names it."""
        return self._matcher.decide(self._active, naming=True)


class Matcher:
    """The rules that hold for some event types, compiled."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Compile; the order of the rules does not matter."""
        self._patterns = [_Pattern(rule) for rule in rules]
        #: Every word of the patterns, folded.
        self.words = {part for found in self._patterns for part in found.segments} - {"*", "**"}
        #: Whether a pattern has a number in it; if none has, the items of a list are alike.
        self.has_indexes = any(word.isdecimal() for word in self.words)
        self._spellings: dict[str, str] = {}
        self._places: dict[frozenset[tuple[int, int]], Place] = {}
        self.start = self._place((number, 0) for number in range(len(self._patterns)))

    def symbol(self, segment: str) -> str:
        """The word of the patterns that a segment is a spelling of; ``*`` if it is none."""
        known = self._spellings.get(segment)
        if known is None:
            known = fold(segment)
            if known not in self.words:
                return "*"
            if len(self._spellings) < _STATES_MAX:
                self._spellings[segment] = known
        return known

    def has_room(self) -> bool:
        """Whether another place is worth remembering."""
        return len(self._places) < _STATES_MAX

    def place(self, active: frozenset[tuple[int, int]], symbol: str) -> Place:
        """Where one segment leads; ``*`` stands for every word that no pattern has."""
        moved = []
        for number, at in active:
            segments = self._patterns[number].segments
            if at < len(segments):
                if segments[at] == "**":
                    moved.append((number, at))
                elif segments[at] in {"*", symbol}:
                    moved.append((number, at + 1))
        return self._place(moved)

    def _place(self, moved: Iterable[tuple[int, int]]) -> Place:
        active = set()
        for number, reached in moved:
            at, segments = reached, self._patterns[number].segments
            active.add((number, at))
            while at < len(segments) and segments[at] == "**":
                at += 1  # none of the segments that ** may stand for
                active.add((number, at))
        key = frozenset(active)
        known = self._places.get(key)
        if known is None:
            known = Place(self, key)
            if self.has_room():
                self._places[key] = known
        return known

    def decide(self, active: frozenset[tuple[int, int]], *, naming: bool) -> Treatment | None:
        """The winner of the patterns that match whole, or of those that name the place itself."""
        matching = [
            self._patterns[number] for number, at in active if at == len(self._patterns[number].segments)
        ]
        if naming:
            matching = [found for found in matching if found.names]
        if not matching:
            return None
        secrets = [found for found in matching if found.treatment.class_ == "secret"]
        if secrets:
            most = max(found.literals for found in secrets)
            exact = [found for found in matching if not found.deep and found.literals > most]
            matching = exact or secrets
        best = max(found.weight for found in matching)
        winners = [found for found in matching if found.weight == best]
        # In the order of their words, so that the same rules always give the same kind.
        first, *others = sorted(found.treatment for found in winners)
        for other in others:
            first = first.within(other)
        return first


class Rules:
    """Field rules, ready to be asked about events of any type."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Take the rules of one or more documents together."""
        self._rules = tuple(rules)
        self._by_type: dict[str, Matcher] = {}
        self._by_rules: dict[tuple[Rule, ...], Matcher] = {}

    def for_type(self, event_type: str) -> Matcher:
        """The rules that hold for an event type."""
        known = self._by_type.get(event_type)
        if known is None:
            holding = tuple(rule for rule in self._rules if rule.holds_for(event_type))
            # Types that the rules do not tell apart share a matcher, and what it has learnt.
            known = self._by_rules.get(holding)
            if known is None:
                known = self._by_rules[holding] = Matcher(holding)
            if len(self._by_type) < _TYPES_MAX:
                self._by_type[event_type] = known
        return known
