"""What a selector stands for, and what erasing it would do: one account for report, export and erasure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vault.erasure import operations
from vault.erasure.facts import gather, roots_of
from vault.policy.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault.policy.lineage import Forks, Node
    from vault.policy.plan import Plan, Selector
    from vault.ports.keys import KeyStore
    from vault.ports.records import Reader
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, and what it was made from.

    ``chosen`` is what the selector itself stands for; all else in the plan only falls with it. ``leaving`` is
    what an unfinished erasure takes already, so that it is in no plan.
    """

    plan: Plan
    chosen: tuple[bytes, ...] = field(repr=False)
    nodes: Mapping[bytes, Node] = field(repr=False)
    leaving: Mapping[bytes, Node] = field(repr=False)
    now_us: int

    def met(self) -> tuple[tuple[Node, bool], ...]:
        """What the selector stands for, in the order of its choice, each with whether it is leaving."""
        listed = {item.id for item in self.plan.items}
        return tuple(
            (self.leaving[id_], True) if id_ in self.leaving else (self.nodes[id_], False)
            for id_ in self.chosen
            if id_ in self.leaving or id_ in listed
        )


def active_holds(store: KeyStore, tenant: TenantKeys) -> dict[bytes, list[bytes]]:
    """The holds in force, by the tag that they name."""
    holds: dict[bytes, list[bytes]] = {}
    for row in store.holds(tenant.tenant_id):
        if not row.lifted_us:
            holds.setdefault(row.tag, []).append(row.hold_id)
    return holds


def planned(
    log: Log,
    store: KeyStore,
    reader: Reader,
    tenant: TenantKeys,
    selector: Selector,
    *,
    owner: bytes | None,
    spared: bytes,
    forks: Forks,
) -> Planned:
    """What erasing something would do, in one snapshot.

    Args:
        log, store: the parts.
        reader: the snapshot.
        tenant: whose.
        selector: what.
        owner: only what is that owner's; None for anybody's.
        spared: the owner whose sessions are never erased: the vault's own, of the audit trail.
        forks: as in ``make_plan``.

    Raises:
        Tampered: an unfinished erasure was changed.
    """
    now_us, holds = log.clock.now_us(), active_holds(store, tenant)
    roots = roots_of(reader, tenant, selector, owner)
    nodes = gather(reader, tenant, roots, holds, now_us, spared)
    under_way = operations.under_way(log, reader)
    leaving = {id_: nodes.pop(id_) for id_ in list(nodes) if id_ in under_way}
    plan = make_plan(selector=selector, cause="request", roots=roots, nodes=nodes, forks=forks, now_us=now_us)
    return Planned(plan=plan, chosen=tuple(roots), nodes=nodes, leaving=leaving, now_us=now_us)
