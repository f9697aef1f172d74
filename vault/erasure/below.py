"""What came from events that go while their session lives on: it goes before them, in an erasure of its own.

The key of such an item hangs on the epochs of the events that it names, so without them it could not be read
anyway. In the plan each of these epochs stands for itself, as a source: what has others left is asked for
again, and where a hold or a minimum keeps an item it keeps the epochs too, as it keeps any source. The
epochs' keys are condemned after this, with the tags of what still hangs on them, so that a hold placed in
between counts.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vault.derived.sources import DERIVED, Source, decode
from vault.encoding import pack, u64
from vault.erasure import facts
from vault.erasure.again import EPOCHS
from vault.erasure.fence import SESSION
from vault.erasure.needles import needles
from vault.erasure.operations import GOING, Order, under_way
from vault.erasure.planning import active_holds
from vault.errors import Conflict, Tampered
from vault.model import format_id, uuid7
from vault.policy.lineage import Node
from vault.policy.plan import Item, Selector, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from vault.access.door import Grant
    from vault.erasure.service import Parts
    from vault.ports.records import Reader, Transaction
    from vault.sealing.uses import TenantKeys

#: Items of one operation: its sealed plan stays under a megabyte.
ITEMS_MAX: Final = 2_000
#: How often it is planned anew when another erasure was faster.
_TRIES: Final = 10
_BUSY: Final = "another erasure takes what came from these events; try again in a moment"


class Events(NamedTuple):
    """The events of some epochs of a session: which numbers they have."""

    session_id: bytes
    has: Callable[[int], bool]


class Below(NamedTuple):
    """What came from events: what of it goes, deepest first, and the epochs that have to stay for the rest.

    An epoch is a session and a number. ``epochs`` are all that anything came from.
    """

    items: tuple[Item, ...]
    epochs: frozenset[tuple[bytes, int]]
    kept: frozenset[tuple[bytes, int]]
    digest: bytes


_EPOCH: Final = Node(
    id=b"",
    kind=SESSION,
    owner=b"",
    hung="any",
    recompute=False,
    sources=(),
    fork=False,
    superseded=False,
    held=(),
    min_until_us=0,
)
NOTHING: Final = Below((), frozenset(), frozenset(), bytes(32))


@dataclass(frozen=True, slots=True, kw_only=True)
class BelowEvents:
    """Erases what came from events, for a policy or for who has leave to erase them."""

    parts: Parts = field(repr=False)
    tenant: TenantKeys = field(repr=False)
    grant: Grant | None = field(default=None, repr=False)  # who asked; None: nobody, it follows a policy
    guard: Callable[[Transaction], None] = lambda _: None

    def planned(self, reader: Reader, events: Collection[Events]) -> Below:
        """What would go, and what has to stay for it."""
        tenant, named = self.tenant, dict(self._named(reader, events))
        if not named:
            return NOTHING
        now_us, holds = self.parts.log.clock.now_us(), active_holds(self.parts.store, tenant)
        nodes = facts.gather(reader, tenant, named, holds, now_us, self.parts.spared(tenant))
        for id_ in under_way(self.parts.log, reader):
            nodes.pop(id_, None)
        has, epochs = {one.session_id: one.has for one in events}, dict[bytes, tuple[bytes, int]]()
        for id_ in named.keys() & nodes.keys():
            sources = dict[bytes, None]()
            for source in named[id_]:
                mark = source.id
                if source.kind == "event" and source.id in has and has[source.id](source.epoch):
                    mark = _mark(source.id, source.epoch)
                    epochs[mark] = source.id, source.epoch
                sources[mark] = None
            nodes[id_] = nodes[id_]._replace(sources=tuple(sources))
        nodes |= {mark: _EPOCH._replace(id=mark) for mark in epochs}
        plan = make_plan(
            selector=Selector("tenant", tenant.tenant_id),
            cause="policy",
            roots=epochs.keys(),
            nodes=nodes,
            forks="exclude",
            now_us=now_us,
        )
        going = tuple(item for item in plan.items if item.action in GOING and item.id not in epochs)
        kept = {epochs[one.id] for one in plan.items if one.id in epochs and one.action not in GOING}
        return Below(going, frozenset(epochs.values()), frozenset(kept), plan.digest)

    def erase(self, events: Collection[Events], *, all_or_none: bool = False) -> frozenset[tuple[bytes, int]]:
        """Erase it, and ask again for what can be made anew; the epochs that have to stay.

        Args:
            events: what is about to go.
            all_or_none: nothing is done when some of them have to stay.

        Raises:
            Conflict: others erase the same for longer than this waits.
            StorageUnavailable: a store did not take it; what was done stays done, and is carried on.
        """
        for _ in range(_TRIES):
            with self.parts.log.records.snapshot() as reader:
                found = self.planned(reader, events)
            if not found.items or (all_or_none and found.kept):
                return found.kept
            try:
                self._carry_out(found)
            except Conflict:
                self.parts.log.records.wait_commit(self.parts.log.records.commits(), 0.1)
        raise Conflict(_BUSY)

    def erase_late(self, events: Collection[Events]) -> None:
        """Erase what was made from events until their keys were condemned: nothing of it opens any more."""
        with suppress(Conflict):  # it goes with its session then
            self.erase(events)

    def tags(self, reader: Reader, events: Collection[Events]) -> frozenset[bytes]:
        """What a hold may name to keep what still hangs on these events, and with it their keys."""
        hanging = [id_ for id_, _ in self._named(reader, events)]
        spared, now_us = self.parts.spared(self.tenant), self.parts.log.clock.now_us()
        nodes = facts.gather(reader, self.tenant, hanging, {}, now_us, spared).values()
        items = [Item(one.id, one.kind, one.owner, "erase", "root", one.id, 0, 0) for one in nodes]
        kept = [item for item, node in zip(items, nodes, strict=True) if node.hung != "free"]
        return frozenset[bytes]().union(*facts.tags_of(reader, self.tenant, kept).values())

    def _named(
        self, reader: Reader, events: Collection[Events]
    ) -> Iterator[tuple[bytes, tuple[Source, ...]]]:
        """What hangs on some events by their own keys, with the sources that propagate; as its row says."""
        for one in events:
            place = {"source": one.session_id, "tenant_id": self.tenant.tenant_id}
            for id_, hung, stored in list(reader.scan("sources_of_items_from", **place)):
                try:
                    sources = tuple(source for source in decode(stored) if source.role == DERIVED)
                except Tampered:
                    continue  # `verify` tells of it
                of_event = [source for source in sources if source.kind == "event"]
                if hung != "free" and any(
                    source.id == one.session_id and one.has(source.epoch) for source in of_event
                ):
                    yield id_, sources

    def _carry_out(self, found: Below) -> None:
        parts = self.parts
        for start in range(0, len(found.items), ITEMS_MAX):
            batch = found.items[start : start + ITEMS_MAX]
            operation_id = uuid7()
            order = Order(items=batch, about=self._about(found, operation_id, batch))

            def guard(transaction: Transaction, batch: tuple[Item, ...] = batch) -> None:
                self.guard(transaction)
                if not under_way(parts.log, transaction).isdisjoint(item.id for item in batch):
                    raise Conflict(_BUSY)

            parts.execution.finished(parts.execution.begin(self.tenant, operation_id, order, guard=guard))

    def _about(self, found: Below, operation_id: bytes, batch: Collection[Item]) -> dict[str, Any]:
        from vault.sealing import receipts  # noqa: PLC0415 - pydantic: only who erases needs it

        key, name, tenant = receipts.new_key(), format_id("era", operation_id), self.tenant
        who, by = b"", None
        if self.grant is not None:
            who = self.grant.who
            by = receipts.pseudonym(tenant.pseudonym_key("receipt", 0), "requester", who.hex())
        return {
            "selector": "policy",
            "selector_mark": receipts.selector_mark(key, name, "policy", tenant.tenant_id.hex()),
            "about": "",
            "who": who.hex(),
            "by": by,
            "role": "vault" if self.grant is None else "owner" if self.grant.own else "privacy_officer",
            "reason": "policy" if self.grant is None else "other",
            "policy": self.parts.policies.active(tenant).digest.hex(),
            "plan": found.digest.hex(),
            "requested_us": self.parts.log.clock.now_us(),
            "key": key.hex(),
            "needles": needles(self.parts.log, self.parts.store, tenant, tuple(batch)),
            EPOCHS: sorted([id_.hex(), epoch] for id_, epoch in found.epochs - found.kept),
        }


def _mark(session_id: bytes, epoch: int) -> bytes:
    """What stands for an epoch in a plan."""
    return hashlib.sha256(pack(b"session-vault/1/below", session_id, u64(epoch))).digest()[:16]
