"""What is due goes: found by index, decided anew, erased in operations like any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vault.erasure.adopt import adopted
from vault.erasure.facts import decision_of, gather
from vault.erasure.needles import needles
from vault.erasure.operations import GOING, Operation, Order, under_way
from vault.erasure.planning import active_holds
from vault.errors import Conflict
from vault.model import format_id, uuid7
from vault.policy.plan import Plan, Selector, blast, make_plan, token
from vault.sessions.family import DEPTH_MAX
from vault.sessions.log import hour_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vault.erasure.service import Parts
    from vault.erasure.watch import Watch
    from vault.policy.plan import Item
    from vault.ports.records import Transaction
    from vault.sealing.uses import TenantKeys

#: Rows of the index that one look takes.
_PAGE: Final = 500
#: Roots of one operation: its sealed plan stays under a megabyte.
ROOTS_MAX: Final = 2_000
#: So many may go in one sweep whatever share of a tenant's they are; above, the share counts.
FEW: Final = 20
_NEVER: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What a sweep would do with one tenant's: the plan, what waits for a person, and the sweep's token.

    ``review``: those whose policy asks for a person; ``over_cap``: more than its share of what is live, so
    that nothing goes before somebody gives the token.
    """

    tenant: TenantKeys = field(repr=False)
    plan: Plan
    token: str
    review: int
    over_cap: bool
    live: Mapping[str, int]

    @property
    def going(self) -> int:
        """How many sessions and items would go."""
        return sum(item.action in GOING for item in self.plan.items)


def due(parts: Parts, tenant_id: bytes | None = None) -> Iterator[Due]:
    """What is due now, tenant by tenant; of one tenant, or of all."""
    found, later, review = _found(parts, tenant_id)
    _look_later(parts, later)
    for one, roots in found.items():
        tenant = parts.log.keys.tenant_by_id(one)
        if tenant is not None:
            yield _planned(parts, tenant, roots, review[one])


def sweep(
    parts: Parts,
    watch: Watch,
    *,
    tenant_id: bytes | None = None,
    approved: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[Due, list[Operation]]]:
    """Erase what is due, tenant by tenant.

    Args:
        parts: the parts.
        watch: the lease, taken.
        tenant_id: only this tenant's.
        approved: the token of a preview, for what is over the cap.
        progress: told (sessions and items gone, in all) of the tenant at work.

    Raises:
        Fenced: another process took the lease over.
        ClockAnomaly: the clock jumped meanwhile.
    """
    for found in due(parts, tenant_id):
        one = _freed(parts, watch, found)
        if one.over_cap and approved != one.token:
            yield one, []
            continue
        yield one, list(_erase(parts, watch, one, progress))


def _freed(parts: Parts, watch: Watch, found: Due) -> Due:
    """What is due once forks hold by themselves what they share with it.

    Where somebody has to look at it first, it is left as that person sees it.
    """
    for _ in range(DEPTH_MAX):  # a fork of a fork takes over step by step
        shared = [item.id for item in found.plan.items if item.reason == "shared_by_fork"]
        if found.over_cap or not shared:
            break
        done = 0
        for id_ in shared:
            parts.log.records.transact(watch.check)
            done += adopted(parts, found.tenant, id_)
        if not done:
            break
        found = next(due(parts, found.tenant.tenant_id), found)
    return found


def _erase(
    parts: Parts, watch: Watch, found: Due, progress: Callable[[int, int], None] | None
) -> Iterator[Operation]:
    going, executed = [item for item in found.plan.items if item.action in GOING], list[Operation]()
    for start in range(0, len(going), ROOTS_MAX):
        batch = tuple(going[start : start + ROOTS_MAX])
        operation_id = uuid7()
        order = Order(items=batch, about=_about(parts, found, operation_id, batch))

        def guard(transaction: Transaction, batch: tuple[Item, ...] = batch) -> None:
            watch.check(transaction)
            _still_due(parts, found.tenant, batch, transaction)

        try:
            operation = parts.execution.begin(found.tenant, operation_id, order, guard=guard)
            executed.append(parts.execution.finished(operation, prove=False))
        except Conflict:
            continue  # a person's request, or a process that opened the vault, was faster
        if progress is not None:
            progress(min(start + ROOTS_MAX, len(going)), len(going))
    yield from parts.execution.proved(executed)  # all files are looked through once for all of them


def _still_due(parts: Parts, tenant: TenantKeys, batch: tuple[Item, ...], transaction: Transaction) -> None:
    """Decide again, in the transaction that opens the erasure.

    Raises:
        Conflict: a person had some of it erased, or it is not due any more.
    """
    now_us, taken = parts.log.clock.now_us(), under_way(parts.log, transaction)
    for item in batch:
        decision = decision_of(transaction, tenant.tenant_id, item.id, now_us)
        due_still = decision is not None and (item.reason != "root" or decision.state == "DUE")
        if item.id in taken or not due_still:
            raise Conflict("what was due is not so any more; the next sweep looks again")


def _about(parts: Parts, found: Due, operation_id: bytes, batch: Any) -> dict[str, Any]:
    from vault.sealing import receipts  # noqa: PLC0415 - pydantic: only who erases needs it

    key, name = receipts.new_key(), format_id("era", operation_id)
    return {
        "selector": "policy",
        "selector_mark": receipts.selector_mark(key, name, "policy", found.tenant.tenant_id.hex()),
        "about": "",
        "who": "",
        "by": None,
        "role": "vault",
        "reason": "policy",
        "policy": parts.policies.active(found.tenant).digest.hex(),
        "plan": found.plan.digest.hex(),
        "requested_us": parts.log.clock.now_us(),
        "key": key.hex(),
        "needles": needles(parts.log, parts.store, found.tenant, batch),
    }


def _planned(parts: Parts, tenant: TenantKeys, roots: list[bytes], review: int) -> Due:
    now_us, holds = parts.log.clock.now_us(), active_holds(parts.store, tenant)
    with parts.log.records.snapshot() as reader:
        nodes = gather(reader, tenant, roots, holds, now_us, parts.spared(tenant))
        for id_ in under_way(parts.log, reader):
            nodes.pop(id_, None)
        live = dict(reader.scan("count_live", tenant_id=tenant.tenant_id))
    plan = make_plan(
        selector=Selector("tenant", tenant.tenant_id),
        cause="policy",
        roots=roots,
        nodes=nodes,
        forks="exclude",
        now_us=now_us,
    )
    going = sum(item.action in GOING for item in plan.items)
    return Due(
        tenant=tenant,
        plan=plan,
        token=token(plan, parts.policies.active(tenant).digest),
        review=review,
        over_cap=going > FEW and blast(plan.counts, live),
        live=live,
    )


def _found(
    parts: Parts, tenant_id: bytes | None
) -> tuple[dict[bytes, list[bytes]], list[tuple[str, bytes, int]], Counter[bytes]]:
    """What is due by tenant, when to look again at what is not yet, and how many wait for a person."""
    now_us = parts.log.clock.now_us()
    found: dict[bytes, list[bytes]] = {}
    later: list[tuple[str, bytes, int]] = []
    review: Counter[bytes] = Counter()
    for statement, again in (("due_sessions", "look_at_session_in"), ("due_items", "look_at_item_in")):
        after = (_NEVER, _NEVER)
        while True:
            with parts.log.records.snapshot() as reader:
                page = list(
                    reader.scan(
                        statement, hour=hour_of(now_us), after_hour=after[0], after_no=after[1], limit=_PAGE
                    )
                )
                decisions = [(row, decision_of(reader, row[1], row[0], now_us)) for row in page]
            for (id_, tenant, *_), decision in decisions:
                if tenant_id not in {None, tenant} or decision is None:
                    continue
                if decision.state == "DUE" and decision.action == "erase":
                    found.setdefault(tenant, []).append(id_)
                elif decision.state == "DUE":
                    review[tenant] += 1
                    found.setdefault(tenant, [])
                else:
                    later.append((again, id_, _hour(decision.delete_at_us)))
            if len(page) < _PAGE:
                break
            after = page[-1][2:]
    return found, later, review


def _hour(at_us: int | None) -> int:
    return _NEVER if at_us is None else hour_of(at_us)


def _look_later(parts: Parts, later: list[tuple[str, bytes, int]]) -> None:
    """What was used or bound anew since is looked at when it is due then."""
    for start in range(0, len(later), _PAGE):
        batch = later[start : start + _PAGE]

        def work(transaction: Transaction, batch: list[tuple[str, bytes, int]] = batch) -> None:
            for statement, id_, hour in batch:
                transaction.change(statement, id=id_, due_hour=hour)

        parts.log.records.transact(work)
