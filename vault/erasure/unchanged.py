"""Whether a plan still says what is there, asked in the transaction that opens its erasure.

A plan of a few hundred things is made again there. One of thousands is not: that would keep every writer
waiting while decisions, tags and effects are worked out anew. What it was made from is compared instead, a
row for each thing with what hangs on it counted. If that is the same, so is the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from vault.erasure import operations
from vault.erasure.facts import roots_of
from vault.erasure.fence import SESSION
from vault.erasure.planning import active_holds
from vault.errors import Conflict, NewerVault, Tampered
from vault.policy.plan import drift
from vault.policy.terms import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.erasure.execute import Execution
    from vault.erasure.operations import Operation, Order
    from vault.erasure.planning import Planned
    from vault.policy.plan import Plan
    from vault.ports.keys import KeyStore
    from vault.ports.records import Reader, Transaction
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log

#: Above so many things a plan is not made again inside a transaction: some 35 ms.
REMADE_MAX: Final = 500
#: How often a large plan is compared anew when something of it changed that may not matter.
TRIES: Final = 5


class Moved(Exception):
    """Something that the plan was made from changed; whether the plan did is to be seen."""


def compare(plan: Plan, again: Plan) -> None:
    """Refuse a plan that is not what it was.

    Raises:
        Conflict: says how it differs.
    """
    if again.digest != plan.digest:
        found = drift(plan, again)
        raise Conflict(
            f"the facts changed since this plan was made: {len(found.added)} more, {len(found.gone)} "
            f"fewer, {len(found.changed)} otherwise; look at a new plan"
        )


def opened(
    execution: Execution,
    tenant: TenantKeys,
    plan: Plan,
    order: Order,
    operation_id: bytes,
    planned: Callable[[Reader], Planned],
) -> Operation:
    """The erasure of a plan, opened in a transaction in which the plan still says what is there.

    Args:
        execution: what carries it out.
        tenant: whose.
        plan: as somebody looked at it.
        order: the same, to be carried out.
        operation_id: 16 bytes.
        planned: makes the plan again.

    Raises:
        Conflict: it does not; nothing was done.
    """

    def remade(transaction: Transaction) -> None:
        compare(plan, planned(transaction).plan)

    if len(order.items) <= REMADE_MAX:
        return execution.begin(tenant, operation_id, order, guard=remade)
    for _ in range(TRIES):
        with execution.log.records.snapshot() as reader:
            again = planned(reader)
            compare(plan, again.plan)
            before = seen(execution.store, reader, tenant, again)
        guard = partial(check, execution.log, execution.store, before=before)
        with suppress(Moved):
            return execution.begin(tenant, operation_id, order, guard=guard)
    raise Conflict("what this plan was made from changes all the time; try again when less is going on")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a plan was made from.

    All that hangs on a thing of the plan is in ``rows`` too. So while none of these rows is gone, nothing new
    hangs on it exactly if as much does as before.
    """

    tenant: TenantKeys = field(repr=False)
    roots: frozenset[bytes] = field(repr=False)
    rows: Mapping[bytes, tuple[str, Any]] = field(repr=False)
    holds: Mapping[bytes, list[bytes]] = field(repr=False)
    planned: Planned = field(repr=False)


def seen(store: KeyStore, reader: Reader, tenant: TenantKeys, planned: Planned) -> Seen:
    """What a plan was made from, in its own snapshot."""
    found = {**planned.nodes, **planned.leaving}
    return Seen(
        tenant=tenant,
        roots=frozenset(roots_of(reader, tenant, planned.plan.selector, None)),
        rows={id_: (node.kind, _row(reader, tenant, node.kind, id_)) for id_, node in found.items()},
        holds=active_holds(store, tenant),
        planned=planned,
    )


def check(log: Log, store: KeyStore, reader: Reader, before: Seen) -> None:
    """Refuse, in a transaction, what is not as it was: some 10 µs for each thing.

    Raises:
        Moved: something of it changed.
    """
    tenant = before.tenant
    same = (
        operations.under_way(log, reader).isdisjoint(item.id for item in before.planned.plan.items)
        and before.holds == active_holds(store, tenant)
        and before.roots == frozenset(roots_of(reader, tenant, before.planned.plan.selector, None))
        and all(_row(reader, tenant, kind, id_) == row for id_, (kind, row) in before.rows.items())
    )
    if not same:
        raise Moved


def _row(reader: Reader, tenant: TenantKeys, kind: str, id_: bytes) -> Any:
    """What decides about one thing, and how much hangs on it; None when it is gone."""
    place = {"id": id_, "tenant_id": tenant.tenant_id}
    if kind != SESSION:
        return next(reader.scan("item_as_planned", **place), None)
    found = next(reader.scan("session_as_planned", **place), None)
    if found is None:
        return None
    *row, created_us, updated_us, ended_us, retention = found
    # An append moves a clock, which matters only where a minimum is counted from it.
    clocks = (created_us, updated_us, ended_us) if _has_minimum(retention) else ()
    return (*row, retention, clocks)


@lru_cache(maxsize=1024)
def _has_minimum(retention: bytes) -> bool:
    try:
        return bool(decode(retention).keeps)
    except (Tampered, NewerVault):
        return True
