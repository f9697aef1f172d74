"""A retention policy: its rules, and the closed vocabularies that they are made of.

Values only, so that whoever decides by a policy need not load what reads its document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from vault.policy.durations import Duration, nominal_us

# Stored terms name the words of these by their place: new ones are put at the end, none is ever removed.
KINDS: Final = (
    "session",
    "event",
    "memory",
    "summary",
    "artifact",
    "embedding",
    "cache",
    "export",
    "structure",
    "proof",
)
#: The clock a period is counted from. ``ended``, ``labelled`` and ``external`` may not have started.
ANCHORS: Final = ("created", "last_event", "ended", "labelled", "external")
#: What is done when an item is due, the most careful last.
ON_EXPIRE: Final = ("erase", "redact:L0", "review")
#: What happens to a derived item when one of its sources goes, the first where nothing is said.
DERIVED_OPTIONS: Final = ("erase_with_any", "recompute", "erase_with_last", "detach")
#: What can be derived from something.
DERIVED_KINDS: Final = ("memory", "summary", "artifact", "embedding", "cache", "export")
APPLIES_TO: Final = ("new", "all")
#: Kinds that a policy must have a rule for, so that nothing is kept without a reason.
REQUIRED_KINDS: Final = ("session", "memory", "artifact")
#: Why something must be kept: GDPR Art. 6(1)(a)-(f) in its order, then Art. 17(3)(e).
BASES: Final = (
    "consent",
    "contract",
    "legal_obligation",
    "vital_interests",
    "public_task",
    "legitimate_interests",
    "legal_claims",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """A minimum: kept at least so long (None: no minimum), on which basis, and what says so."""

    duration: Duration | None = None
    basis: str = ""
    ref: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How long what it matches is kept.

    Attributes:
        id: unique in its policy.
        kinds: what it is about, of ``KINDS``.
        labels: all of them must be on the item, with these values.
        types: for events: one of these types, ``message.*`` for all that begin so; none: every type.
        level: for events: stored at this level; empty: at any.
        anchor: which clock ``keep_min`` and ``expire_after`` are counted on.
        keep_min: not erased before, not even when a person asks.
        expire_after: hidden from then on; None: never.
        on_expire: what is done then, of ``ON_EXPIRE``.
        grace: how long it can be restored after it expired; None: not at all.
        derived: what happens to what was made from it, by kind; unsaid: it goes too.
        applies_to: ``new`` items, or ``all``, also those that are there already.
    """

    id: str
    kinds: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    level: str = ""
    anchor: str = "created"
    keep_min: Keep = Keep()
    expire_after: Duration | None = None
    on_expire: str = "erase"
    grace: Duration | None = None
    derived: Mapping[str, str] = field(default_factory=dict)
    applies_to: str = "new"

    def matches(self, kind: str, labels: Mapping[str, str], event_type: str = "", level: str = "") -> bool:
        """Whether it speaks of such an item."""
        return (
            kind in self.kinds
            and (not self.level or self.level == level)
            and (not self.types or any(covers(pattern, event_type) for pattern in self.types))
            and all(labels.get(key) == value for key, value in self.labels.items())
        )

    def rank(self, event_type: str = "") -> tuple[object, ...]:
        """Sorts the rules that match one item; the first says when it expires.

        More labels come before fewer, then an event type before its group before none, then a level; of
        equals, the shortest period. What follows only makes the order whole, without regard to the place in
        the document.
        """
        return self.rank_as(2 if event_type in self.types else 1 if self.types else 0)

    def rank_as(self, named: int) -> tuple[object, ...]:
        """As ``rank``, where it names the item's type (2), its group (1) or no type (0)."""
        return (
            -len(self.labels),
            -named,
            -bool(self.level),
            nominal_us(self.expire_after),
            ANCHORS.index(self.anchor),
            nominal_us(self.grace) if self.grace else 0,
            ON_EXPIRE.index(self.on_expire),
            self.id,
        )


def covers(pattern: str, event_type: str) -> bool:
    """Whether an entry of ``types`` speaks of an event type, or of all that another entry speaks of."""
    return event_type.startswith(pattern[:-1]) if pattern.endswith(".*") else event_type == pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy document, read. Two are the same if their digests are.

    ``digest`` is the SHA-256 of what the rules say: comments, spaces and the order of keys do not count.
    """

    name: str = field(compare=False)
    version: int = field(compare=False)
    rules: tuple[Rule, ...] = field(compare=False)
    digest: bytes
    text: str = field(default="", compare=False, repr=False)

    @property
    def mark(self) -> str:
        """The first 16 bytes of the digest in hexadecimal: how stored terms name their policy."""
        return self.digest[:16].hex()


@lru_cache(maxsize=256)
def has_event_rules(policy: Policy) -> bool:
    """Whether a policy says how long single events are kept; asked with every append."""
    return any("event" in rule.kinds for rule in policy.rules)
