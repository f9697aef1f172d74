"""The plan of an erasure: every item it touches, what happens to it and why, before anything happens.

Holds and statutory minimums beat the erasure, and an item that is kept stays readable to whoever may read
it. Its key hangs on its sources' keys, so they cannot be destroyed either: what keeps an item keeps what
its key needs, up to the roots. Everything else goes.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

from vault.encoding import pack, u64
from vault.errors import InvalidInput
from vault.policy.lineage import Effect, Forks, Kind, Node, affected, doomed, goes, origins

Cause = Literal["request", "policy"]
Action = Literal["erase", "recompute", "detach", "keep", "held", "minimum"]
Reason = Literal[
    "root",
    "derived_from",
    "fork_of",
    "last_source_gone",
    "other_source_remains",
    "hold",
    "minimum",
    "shared_by_fork",
]
SelectorKind = Literal["session", "subject", "memory", "artifact", "tenant", "label"]

#: Above this share of a tenant's live items a plan waits for a person.
CAP_PERCENT: Final = 10
_PERCENT: Final = 100
_WILDCARDS: Final = frozenset("*%?")


class Selector(NamedTuple):
    """Whose or which data: an id or a blind index, never a name."""

    kind: SelectorKind
    value: bytes


class Item(NamedTuple):
    """One line of a plan."""

    id: bytes
    kind: Kind
    owner: bytes
    action: Action
    reason: Reason
    through: bytes  # what it goes or stays because of; its own id for a root, and for a hold of its own
    depth: int
    until_us: int  # held, minimum: the latest minimum on it or on what needs its key; 0 for none


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an erasure would do: items deepest first, and the digest of all of it."""

    selector: Selector
    cause: Cause
    items: tuple[Item, ...]
    counts: Mapping[tuple[str, str], int]  # by kind and action
    digest: bytes


class Drift(NamedTuple):
    """How a plan differs from an earlier one: ids, in order."""

    added: tuple[bytes, ...]
    gone: tuple[bytes, ...]
    changed: tuple[bytes, ...]

    def __bool__(self) -> bool:
        """Whether there is any difference."""
        return any(self)


class _Pin(NamedTuple):
    """Why an item stays although it should go."""

    action: Literal["held", "minimum", "keep"]
    reason: Literal["hold", "minimum", "shared_by_fork"]
    through: bytes
    until_us: int


def make_plan(
    *,
    selector: Selector,
    cause: Cause,
    roots: Collection[bytes],
    nodes: Mapping[bytes, Node],
    forks: Forks,
    now_us: int,
) -> Plan:
    """Everything that erasing the roots does, with reasons; the same for the same facts, in whatever order.

    Args:
        selector: What was asked for; it goes into the digest.
        cause: A person's request, or a policy.
        roots: The ids that the selector stands for; those that are not among the nodes are gone already.
        nodes: The roots and everything below them, by id.
        forks: ``include``: forks go with their session. ``exclude``: a session that a fork shares stays.
        now_us: When; a minimum that ends now or earlier no longer counts. Not part of the digest.

    Raises:
        InvalidInput: the selector is empty or of an unknown kind.
    """
    _check(selector)
    roots = frozenset(roots)
    wanted = doomed(roots, nodes, forks=forks)
    pins = _pins(roots, nodes, wanted, forks, now_us)
    effects = affected(roots, nodes, forks=forks, kept=pins)
    found = {node_id: _item(nodes[node_id], effect, roots) for node_id, effect in effects.items()}
    for node_id, depth in _restricted(roots, nodes, wanted, pins).items():
        node, pin = nodes[node_id], pins[node_id]
        found[node_id] = Item(
            node_id, node.kind, node.owner, pin.action, pin.reason, pin.through, depth, pin.until_us
        )
    if cause == "request":
        found |= _shielded(nodes, wanted, found)
    items = tuple(sorted(found.values(), key=lambda item: (-item.depth, item.id)))
    counts = Counter((item.kind, item.action) for item in items)
    return Plan(
        selector=selector,
        cause=cause,
        items=items,
        counts=MappingProxyType(dict(sorted(counts.items()))),
        digest=_digest(selector, cause, items),
    )


def token(plan: Plan, policy_digest: bytes) -> str:
    """What a preview hands out: it stands for exactly this plan under exactly this policy.

    It is no secret and grants nothing; whoever executes makes the plan again and compares.
    """
    return hashlib.sha256(pack(b"session-vault/1/preview", plan.digest, policy_digest)).hexdigest()


def drift(old: Plan, new: Plan) -> Drift:
    """What has changed since the old plan; empty exactly when their items are equal."""
    before = {item.id: item for item in old.items}
    after = {item.id: item for item in new.items}
    return Drift(
        added=tuple(sorted(after.keys() - before.keys())),
        gone=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(sorted(key for key in before.keys() & after.keys() if before[key] != after[key])),
    )


def blast(
    plan_counts: Mapping[tuple[str, str], int],
    live_counts: Mapping[str, int],
    cap_percent: int = CAP_PERCENT,
) -> bool:
    """Whether a plan takes more than its share of what is live, so that a person has to look at it first.

    Args:
        plan_counts: ``Plan.counts``; what is erased or recomputed counts.
        live_counts: The tenant's live items by kind.
        cap_percent: The largest share that needs nobody, 1 to 100.

    Raises:
        InvalidInput: the share is not a whole number from 1 to 100.
    """
    if type(cap_percent) is not int or not 1 <= cap_percent <= _PERCENT:
        raise InvalidInput("the cap is a whole number of percent from 1 to 100; give one in that range")
    taken = sum(count for (_, action), count in plan_counts.items() if action in ("erase", "recompute"))
    return taken * _PERCENT > sum(live_counts.values()) * cap_percent


def refuse_selector(text: str) -> None:
    """Refuse what names nobody, before it becomes a blind index: nothing, white space, or only wildcards.

    Raises:
        InvalidInput: it names nothing.
    """
    if all(char in _WILDCARDS or unicodedata.category(char)[0] in "ZC" for char in text):
        raise InvalidInput("what is meant has to be named: give an id, a subject or a label, no wildcard")


def _check(selector: Selector) -> None:
    if selector.kind not in get_args(SelectorKind):
        raise InvalidInput(
            "a selector is a session, a subject, a memory, an artifact, a tenant or a label; give one of them"
        )
    if not selector.value and selector.kind != "tenant":
        raise InvalidInput("an erasure has to name what it erases; give the selector a value")


def _item(node: Node, effect: Effect, roots: Collection[bytes]) -> Item:
    action: Action = "keep" if effect.action == "keep_last" else effect.action
    reason: Reason = "derived_from"
    if effect.action == "keep_last":
        reason = "other_source_remains"
    elif node.id in roots and goes(effect):
        reason = "root"
    elif node.fork:
        reason = "fork_of"
    elif effect.action == "erase" and (node.hung == "last" or node.recompute):
        reason = "last_source_gone"
    return Item(node.id, node.kind, node.owner, action, reason, effect.through, effect.depth, 0)


def _needs(node: Node, wanted: Collection[bytes]) -> tuple[bytes, ...]:
    """Those sources that have to stay so that the key of this item can still be opened.

    Any one source is enough for an item that hangs by ``last``: when all of them are to go, the first one
    stays. This looks at the roots only, not at what else is held: otherwise one hold more could let
    another item go.
    """
    sources = origins(node)
    if node.hung == "free":
        return ()
    if node.hung == "last":
        return sources[:1] if all(source in wanted for source in sources) else ()
    return tuple(source for source in sources if source in wanted)


def _pins(
    roots: Collection[bytes],
    nodes: Mapping[bytes, Node],
    wanted: Collection[bytes],
    forks: Forks,
    now_us: int,
) -> dict[bytes, _Pin]:
    """Whatever has to stay of what should go; a hold before a minimum before a fork that shares it."""

    def climb(seeds: Iterable[bytes], into: dict[bytes, bytes]) -> list[bytes]:
        return _climb(seeds, into, lambda node_id: _needs(nodes[node_id], wanted))

    held: dict[bytes, bytes] = {}
    climb((node_id for node_id in wanted if nodes[node_id].held), held)
    ends: dict[int, list[bytes]] = {}
    for node_id in wanted:
        if nodes[node_id].min_until_us > now_us:
            ends.setdefault(nodes[node_id].min_until_us, []).append(node_id)
    minimum: dict[bytes, bytes] = {}
    until: dict[bytes, int] = {}
    for end in sorted(ends, reverse=True):  # the latest first, so each has the latest that concerns it
        until.update(dict.fromkeys(climb(ends[end], minimum), end))
    shared: dict[bytes, bytes] = {}
    if forks == "exclude":
        outside = {node.id for node in nodes.values() if node.fork and node.id not in roots}
        climb(outside, shared)
        for fork in outside:
            del shared[fork]
    pins = {node_id: _Pin("keep", "shared_by_fork", fork, 0) for node_id, fork in shared.items()}
    pins |= {node_id: _Pin("minimum", "minimum", child, until[node_id]) for node_id, child in minimum.items()}
    pins |= {node_id: _Pin("held", "hold", child, until.get(node_id, 0)) for node_id, child in held.items()}
    return pins


def _climb(
    seeds: Iterable[bytes], into: dict[bytes, bytes], needs: Callable[[bytes], tuple[bytes, ...]]
) -> list[bytes]:
    """Add the seeds and all they need, each with the nearest that needs it; those added."""
    added: list[bytes] = []
    frontier = sorted(seed for seed in seeds if seed not in into)
    into.update((seed, seed) for seed in frontier)
    while frontier:
        added += frontier
        reached: list[bytes] = []
        for child in frontier:
            for source in needs(child):
                if source not in into:
                    into[source] = child
                    reached.append(source)
        frontier = reached
    return added


def _restricted(
    roots: Collection[bytes],
    nodes: Mapping[bytes, Node],
    wanted: Collection[bytes],
    pins: Mapping[bytes, _Pin],
) -> dict[bytes, int]:
    """The kept ones that the erasure meets, with their depth.

    These are the kept roots and, below a source that stays only for them, the items that it stays for. Below
    an item with a hold of its own nothing is met: it does not go, so what came from it is as it was.
    """
    blocking: dict[bytes, list[bytes]] = {}
    for node_id, pin in pins.items():
        if pin.action != "keep":
            for source in _needs(nodes[node_id], wanted):
                blocking.setdefault(source, []).append(node_id)
    met = dict.fromkeys(sorted(root for root in roots if root in pins), 0)
    frontier = list(met)
    depth = 0
    while frontier:
        depth += 1
        reached: list[bytes] = []
        for source in frontier:
            if pins[source].action == "keep" or pins[source].through == source:
                continue
            reached += (child for child in blocking.get(source, ()) if child not in met)
        met |= dict.fromkeys(sorted(reached), depth)
        frontier = sorted(set(reached))
    return met


def _shielded(
    nodes: Mapping[bytes, Node], doomed: Collection[bytes], found: Mapping[bytes, Item]
) -> dict[bytes, Item]:
    """What came from something kept, and would go with it: as somebody asked, it is hidden with it as well.

    It says what that says, so to leave it readable would be to answer the request with half of it. All that
    it came from was to go, so a source that is left to it by its last is one that is kept.
    """
    children: dict[bytes, list[bytes]] = {}
    for node_id in doomed:
        for source in origins(nodes[node_id]):
            children.setdefault(source, []).append(node_id)
    added: dict[bytes, Item] = {}
    frontier = [item for _, item in sorted(found.items()) if item.action in ("held", "minimum")]
    while frontier:
        reached: dict[bytes, Item] = {}
        for item in frontier:
            for child in children.get(item.id, ()):
                # "Its other source remains" counts for nothing when that is hidden as well.
                rests = child not in found or found[child].reason == "other_source_remains"
                if rests and child not in added:
                    node = nodes[child]
                    kept = Item(child, node.kind, node.owner, item.action, item.reason, item.id, 0, 0)
                    reached.setdefault(child, kept._replace(depth=item.depth + 1, until_us=item.until_us))
        added |= reached
        frontier = [item for _, item in sorted(reached.items())]
    return added


def _digest(selector: Selector, cause: Cause, items: Iterable[Item]) -> bytes:
    """SHA-256 over all of a plan but the time it was made."""
    lines = [
        pack(
            item.id,
            item.kind.encode(),
            item.owner,
            item.action.encode(),
            item.reason.encode(),
            item.through,
            u64(item.depth),
            u64(item.until_us),
        )
        for item in items
    ]
    head = pack(selector.kind.encode(), selector.value, cause.encode())
    return hashlib.sha256(pack(b"session-vault/1/plan", head, *lines)).digest()
