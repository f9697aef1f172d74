"""What goes with what: the effect of erasing some things on everything that was made from them.

A least fixpoint over "was made from". It starts with the roots and only ever adds, so it ends on cycles too,
and neither the order of the nodes nor that of the roots changes the result.

``nodes`` holds the roots and everything below them. A source that is not among the nodes therefore does not
go, and a root that is not among them is gone already: both are ignored.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple

Kind = Literal["session", "memory", "summary", "embedding", "artifact", "cache"]
Hung = Literal["any", "last", "free"]
Forks = Literal["include", "exclude"]


class Node(NamedTuple):
    """A session or a derived item, as lineage sees it."""

    id: bytes
    kind: Kind
    owner: bytes
    hung: Hung  # how its key hangs on its sources' keys; a session's is "any"
    recompute: bool  # only with "any": may be made again from what is left
    sources: tuple[bytes, ...]  # those that propagate, in stored order; of a fork the session it came from
    fork: bool
    superseded: bool  # an old version goes like any other: what came from it came from its sources
    held: tuple[bytes, ...]  # the active holds on it
    min_until_us: int  # a statutory minimum; 0 for none


class Effect(NamedTuple):
    """What an erasure does to one node, and because of which source."""

    action: Literal["erase", "recompute", "detach", "keep_last"]
    depth: int  # deeper than all that it came from and that go; 0 for a root that came from none of them
    through: bytes  # the source it is affected by; its own id for a root


def affected(
    roots: Collection[bytes],
    nodes: Mapping[bytes, Node],
    *,
    forks: Forks,
    kept: Collection[bytes] = (),
) -> dict[bytes, Effect]:
    """What happens to the roots and to everything that was made from them.

    Args:
        roots: What is to be erased.
        nodes: The roots and everything below them, by id.
        forks: Whether a fork goes with the session it was forked from. With ``exclude`` the caller keeps
            a session that a fork still shares.
        kept: Ids that stay whatever happens to their sources; nothing goes because of them.

    Returns:
        An effect per id. ``erase`` and ``recompute`` go: their body and key are destroyed, and what came from
        them goes too. ``keep_last`` and ``detach`` stay and lose a source.
    """
    kept = frozenset(kept)
    starts = {root for root in roots if root in nodes and root not in kept}
    children = _children(nodes, starts, forks)
    through, gone = _spread(starts, nodes, children, kept)
    erased = _beyond_repair(gone, starts, nodes, children)
    depths = _depths(gone, children)
    effects: dict[bytes, Effect] = {}
    for node_id, source in through.items():
        if node_id in gone:
            action: Literal["erase", "recompute"] = "erase" if node_id in erased else "recompute"
            effects[node_id] = Effect(action, depths[node_id], source)
        elif nodes[node_id].hung != "any":
            deepest = max(depths[origin] for origin in nodes[node_id].sources if origin in gone)
            stays: Literal["detach", "keep_last"] = "detach" if nodes[node_id].hung == "free" else "keep_last"
            effects[node_id] = Effect(stays, deepest + 1, source)
    return effects


def doomed(roots: Collection[bytes], nodes: Mapping[bytes, Node], *, forks: Forks) -> AbstractSet[bytes]:
    """The ids that go when nothing is kept: ``affected`` without the details."""
    starts = {root for root in roots if root in nodes}
    _, gone = _spread(starts, nodes, _children(nodes, starts, forks), frozenset())
    return gone.keys()


def goes(effect: Effect | None) -> bool:
    """Whether body and key are destroyed, so that what came from it is affected too."""
    return effect is not None and effect.action in ("erase", "recompute")


def origins(node: Node) -> tuple[bytes, ...]:
    """Its sources, each once, without itself."""
    sources = node.sources
    if node.id not in sources and (len(sources) == 1 or len(set(sources)) == len(sources)):
        return sources
    return tuple(source for source in dict.fromkeys(sources) if source != node.id)


def _children(
    nodes: Mapping[bytes, Node], starts: Collection[bytes], forks: Forks
) -> dict[bytes, list[bytes]]:
    """What was made from what; forks that stay out are nobody's children."""
    children: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for node in nodes.values():
        if node.fork and forks == "exclude" and node.id not in starts:
            continue
        for source in origins(node):
            children[source].append(node.id)
    return children


def _spread(
    starts: Collection[bytes],
    nodes: Mapping[bytes, Node],
    children: Mapping[bytes, list[bytes]],
    kept: frozenset[bytes],
) -> tuple[dict[bytes, bytes], dict[bytes, int]]:
    """Whom it reaches, each with the source that reached it first, and the round in which each goes.

    All of one round goes at once and in the order of ids, so "first" means the same for any input order.
    """
    through = {root: root for root in sorted(starts)}
    gone = dict.fromkeys(starts, 0)
    left: dict[bytes, int] = {}
    frontier, turn = sorted(starts), 0
    while frontier:
        turn += 1
        reached: list[bytes] = []
        for source in frontier:
            for child in children.get(source, ()):
                through.setdefault(child, source)
                if child in gone or child in kept:
                    continue
                node = nodes[child]
                if node.hung == "last":
                    left[child] = left.get(child, len(origins(node))) - 1
                if node.hung == "any" or left.get(child) == 0:
                    gone[child] = turn
                    reached.append(child)
        frontier = sorted(reached)
    return through, gone


def _beyond_repair(
    gone: Mapping[bytes, int],
    starts: Collection[bytes],
    nodes: Mapping[bytes, Node],
    children: Mapping[bytes, list[bytes]],
) -> set[bytes]:
    """Those that go for good: all but what may be made again and has a source left to make it from.

    A source that is itself made again counts as left.
    """

    def again(node_id: bytes) -> bool:
        return nodes[node_id].recompute and nodes[node_id].hung == "any" and node_id not in starts

    left = {node_id: len(origins(nodes[node_id])) for node_id in gone if again(node_id)}
    erased = {node_id for node_id in gone if node_id not in left}
    queue = deque(erased if left else ())
    while queue:
        for child in children.get(queue.popleft(), ()):
            if child not in left:
                continue
            left[child] -= 1
            if left[child] == 0:
                erased.add(child)
                queue.append(child)
    return erased


def _depths(gone: Mapping[bytes, int], children: Mapping[bytes, list[bytes]]) -> dict[bytes, int]:
    """The longest way down to each, so that "deepest first" never takes a source before its children.

    On a cycle there is no such order; it is cut at the node that goes first, then by id.
    """
    waiting = dict.fromkeys(gone, 0)
    for source in gone:
        for child in children.get(source, ()):
            if child in waiting:
                waiting[child] += 1
    depths = dict.fromkeys(gone, 0)
    settled: set[bytes] = set()

    def settle(start: bytes) -> None:
        queue = [start]
        while queue:
            source = queue.pop()
            settled.add(source)
            deeper = depths[source] + 1
            for child in children.get(source, ()):
                if child not in waiting or child in settled:
                    continue
                depths[child] = max(depths[child], deeper)
                waiting[child] -= 1
                if waiting[child] == 0:
                    queue.append(child)

    for start in [node_id for node_id, count in waiting.items() if count == 0]:
        settle(start)
    on_cycles = (node_id for node_id in gone if node_id not in settled)
    for start in sorted(on_cycles, key=lambda node_id: (gone[node_id], node_id)):
        if start not in settled:
            settle(start)
    return depths
