"""What an erasure would meet: the sessions and items that a selector names, and all that came from them."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from vault.erasure.fence import SESSION
from vault.errors import NewerVault, Tampered
from vault.policy import terms as retention
from vault.policy.lineage import Node
from vault.policy.retention import Times, decide

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vault.policy.lineage import Hung, Kind
    from vault.policy.plan import Item, Selector
    from vault.policy.retention import Decision
    from vault.policy.terms import Terms
    from vault.ports.records import Reader
    from vault.sealing.uses import TenantKeys

#: How an item hangs that may be made again from what is left.
RECOMPUTE = "recompute"


def roots_of(reader: Reader, tenant: TenantKeys, selector: Selector, owner: bytes | None) -> list[bytes]:
    """The ids that a selector names; with an owner, only what is that owner's."""
    place: dict[str, Any] = {"tenant_id": tenant.tenant_id}
    if selector.kind == "session":
        found = [selector.value] if _facts(reader, tenant.tenant_id, selector.value) else []
    elif selector.kind in {"memory", "artifact"}:
        found = []
        for named, name in list(reader.scan("name_of_item", item_id=selector.value, **place)):
            found += _ids(reader, "items_named_to_erase", owner=named, name=name, **place)
    elif selector.kind == "subject":
        mine = place | {"owner": selector.value}
        found = _ids(reader, "sessions_to_erase", **mine) + _ids(reader, "items_to_erase", **mine)
    elif selector.kind == "label":
        found = _ids(reader, "sessions_labelled_to_erase", label=selector.value, **place)
    else:
        found = _ids(reader, "sessions_of_tenant_to_erase", **place)
        found += _ids(reader, "items_of_tenant_to_erase", **place)
    if owner is None:
        return found
    return [id_ for id_ in found if (facts := _facts(reader, tenant.tenant_id, id_)) and facts.owner == owner]


def gather(
    reader: Reader,
    tenant: TenantKeys,
    roots: Iterable[bytes],
    holds: Mapping[bytes, Sequence[bytes]],
    now_us: int,
    spared: bytes,
) -> dict[bytes, Node]:
    """The roots and everything below them, as lineage sees it.

    Args:
        reader: one snapshot.
        tenant: whose.
        roots: where to begin.
        holds: active holds by the tag that they name.
        now_us: for minimums.
        spared: the owner whose sessions are never erased: the vault's own, of the audit trail.
    """
    nodes: dict[bytes, Node] = {}
    tagged: dict[bytes, frozenset[bytes]] = {}
    waiting = deque(roots)
    while waiting:
        id_ = waiting.popleft()
        found = None if id_ in nodes else _facts(reader, tenant.tenant_id, id_)
        if found is None or found.owner == spared:
            continue
        tags = _tags(reader, tenant, id_, tagged)
        held = sorted({hold for tag in tags if tag in holds for hold in holds[tag]})
        decision = decide(found.terms, found.times, held=bool(held), now_us=now_us)
        sources = found.sources
        nodes[id_] = Node(
            id=id_,
            kind=cast("Kind", found.kind),
            owner=found.owner,
            hung="any" if found.hung == RECOMPUTE else cast("Hung", found.hung),
            recompute=found.hung == RECOMPUTE,
            sources=sources,
            fork=found.kind == SESSION and bool(sources),
            superseded=found.state == "superseded",
            held=tuple(held),
            min_until_us=decision.min_until_us if decision.min_until_us > now_us else 0,
        )
        waiting += _ids(reader, "items_from", source=id_, tenant_id=tenant.tenant_id)
        if found.kind == SESSION:
            # Somebody else's fork keeps its own events: what it shares is read by leave of this owner only.
            mine = {"session_id": id_, "tenant_id": tenant.tenant_id, "owner": found.owner}
            waiting += _ids(reader, "forks_of", **mine)
    return nodes


def tags_of(reader: Reader, tenant: TenantKeys, items: Sequence[Item]) -> dict[bytes, frozenset[bytes]]:
    """What holds may name, for each of some items.

    A source also carries the tags of what hangs on its key: a hold on that, even one placed this moment,
    keeps the source's key, without which what is held could not be read.
    """
    tagged: dict[bytes, frozenset[bytes]] = {}
    going = {item.id for item in items}
    tags = {id_: set(_tags(reader, tenant, id_, tagged)) for id_ in going}
    for item in items:  # deepest first: what hangs below is in a source's tags before it passes them on
        found = _facts(reader, tenant.tenant_id, item.id)
        if found is None or found.hung == "free":
            continue
        for source in found.sources:
            if source in tags:
                tags[source] |= tags[item.id]
    return {id_: frozenset(found) for id_, found in tags.items()}


def exists(reader: Reader, tenant: TenantKeys, id_: bytes) -> bool:
    """Whether a row of a session or item is there, in whatever state."""
    return _facts(reader, tenant.tenant_id, id_) is not None


def owner_and_kind(reader: Reader, id_: bytes) -> tuple[bytes, bytes, Kind]:
    """The tenant, owner and kind of a session or item that is there."""
    tenant_id, owner, kind = next(iter(reader.scan("whose", id=id_)))
    return tenant_id, owner, cast("Kind", kind)


def decision_of(reader: Reader, tenant_id: bytes, id_: bytes, now_us: int) -> Decision | None:
    """What its terms say about a session or item now, holds aside.

    None when it is gone, or its terms were tampered with. One that is restricted, as a hold kept it from an
    erasure, is due again.
    """
    found = _facts(reader, tenant_id, id_)
    if found is None or not found.readable:
        return None
    decision = decide(found.terms, found.times, held=False, now_us=now_us)
    # A newer version that was made from it lives on its own period: it is not taken along, and then it goes.
    replaced = found.state == "superseded" and decision.state == "DUE"
    if replaced and _ids(reader, "items_from", source=id_, tenant_id=tenant_id):
        return replace(decision, state="KEEP")
    if found.state == "erasing" and decision.state == "KEEP":
        return replace(decision, state="DUE", action="erase")
    return decision


def terms_of(reader: Reader, tenant_id: bytes, id_: bytes) -> tuple[Terms, Times]:
    """What binds a session or item that is there, and its clocks."""
    found = _facts(reader, tenant_id, id_)
    return (retention.NO_TERMS, Times(0)) if found is None else (found.terms, found.times)


class _Facts:
    """What decides about one session or item, as its row says; whether that verifies is not asked here."""

    __slots__ = ("hung", "kind", "owner", "readable", "sources", "state", "terms", "times")

    def __init__(self, reader: Reader, tenant_id: bytes, id_: bytes, session: Any, item: Any) -> None:
        self.terms, self.state, self.hung = retention.NO_TERMS, "", "any"
        self.sources: tuple[bytes, ...] = ()
        if session is not None:
            self.owner, forked_from, created_us, updated_us, ended_us, kept = session
            self.kind = SESSION
            if forked_from is not None:
                self.sources = (forked_from,)
            self.times = Times(created_us, updated_us, ended_us)
        else:
            self.kind, self.owner, self.state, self.hung, created_us, kept = item
            place = {"item_id": id_, "tenant_id": tenant_id}
            self.sources = tuple(_ids(reader, "sources_of", **place))
            self.times = Times(created_us, created_us)
        self.readable = True
        try:
            self.terms = retention.decode(kept)
        except (Tampered, NewerVault):
            # The row is not verified here. Nothing keeps an erasure from what was tampered with, and a sweep
            # leaves it alone: it is no reason to stop for all others.
            self.readable = False


def _facts(reader: Reader, tenant_id: bytes, id_: bytes) -> _Facts | None:
    session = next(reader.scan("session_facts", session_id=id_, tenant_id=tenant_id), None)
    item = None
    if session is None:
        item = next(reader.scan("item_facts", item_id=id_, tenant_id=tenant_id), None)
    return None if session is None and item is None else _Facts(reader, tenant_id, id_, session, item)


def _tags(
    reader: Reader, tenant: TenantKeys, id_: bytes, known: dict[bytes, frozenset[bytes]]
) -> frozenset[bytes]:
    """The tags of a session or item, and of all that it came from."""
    if id_ in known:
        return known[id_]
    known[id_] = frozenset()  # a circle, which only a tamperer can make, ends here
    found = _facts(reader, tenant.tenant_id, id_)
    tags = {id_, tenant.tenant_id}
    if found is not None:
        tags.add(found.owner)
        if found.kind == SESSION:
            tags.update(_ids(reader, "labels_of", session_id=id_, tenant_id=tenant.tenant_id))
        else:
            for source in found.sources:
                tags |= _tags(reader, tenant, source, known)
    known[id_] = frozenset(tags)
    return known[id_]


def _ids(reader: Reader, statement: str, **place: bytes) -> list[bytes]:
    return [found for (found,) in reader.scan(statement, **place)]
