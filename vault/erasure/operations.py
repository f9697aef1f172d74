"""An erasure under way: what it erases and why, kept sealed until it is done, so that a crash is resumed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from vault.encoding import canonical_json, json_value
from vault.errors import Conflict, Tampered
from vault.policy.plan import Item
from vault.ports.operations import OperationRow
from vault.sealing import rows
from vault.sealing.payload import seal, unseal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.ports.records import Reader, Transaction
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log

#: Its states, in order. ``incomplete``: a store did not give something up yet; it is tried again.
OPEN: Final = "open"
CONDEMNED: Final = "condemned"
DESTROYED: Final = "destroyed"
DELETED: Final = "deleted"
INCOMPLETE: Final = "incomplete"
DONE: Final = "done"

#: Actions of a plan's items that take something away.
GOING: Final = frozenset({"erase", "recompute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be erased, and why; ids and blind indexes only.

    ``about`` is what the receipt says beside: selector, requester, reason, policy, times. ``told`` says which
    receipts were signed for it already.
    """

    items: tuple[Item, ...] = field(repr=False)
    about: dict[str, Any] = field(repr=False)

    def going(self) -> tuple[Item, ...]:
        """The items that are taken away, deepest first."""
        return tuple(item for item in self.items if item.action in GOING)

    def encoded(self) -> bytes:
        """Canonical bytes, to be sealed."""
        items = [
            [one.id.hex(), one.kind, one.owner.hex(), one.action, one.reason, one.through.hex(), *one[6:]]
            for one in self.items
        ]
        return canonical_json({"items": items, "about": self.about})


def decoded(encoded: bytes) -> Order:
    """An order from its canonical bytes."""
    value = json_value(encoded)
    items = tuple(
        Item(bytes.fromhex(id_), kind, bytes.fromhex(owner), action, reason, bytes.fromhex(through), *rest)
        for id_, kind, owner, action, reason, through, *rest in value["items"]
    )
    return Order(items=items, about=value["about"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One erasure as it stands."""

    tenant: TenantKeys = field(repr=False)
    row: OperationRow = field(repr=False)
    order: Order = field(repr=False)

    @property
    def id(self) -> bytes:
        """Its 16 bytes."""
        return self.row.operation_id


def sealed(log: Log, tenant: TenantKeys, order: Order) -> bytes:
    """An order as it is stored: megabytes for thousands of items, so it is made before a transaction."""
    keys = log.keys.operation_keys(tenant)
    return seal(keys.payload, keys.context(b"payload"), order.encoded(), log.sealing)


def add(
    log: Log,
    transaction: Transaction,
    tenant: TenantKeys,
    operation_id: bytes,
    order: Order,
    now_us: int,
    plan: bytes,
) -> Operation:
    """Store a new erasure, with its ``sealed`` order; nothing of it is done yet."""
    keys = log.keys.operation_keys(tenant)
    row = OperationRow(0, operation_id, tenant.tenant_id, OPEN, now_us, plan, b"")
    row = row._replace(mac=rows.operation_mac(keys.mac, row))
    fields = row._asdict()
    del fields["no"]
    if transaction.change("add_operation", **fields) != 1:
        raise Tampered("the database does not take an erasure: its rules were changed")
    return Operation(tenant=tenant, row=row, order=order)


def move(
    log: Log,
    transaction: Transaction,
    operation: Operation,
    state: str,
    order: Order | None = None,
    plan: bytes | None = None,
) -> Operation:
    """The next state of an erasure; once it is done, nothing but its receipts tells of it.

    ``plan`` is the order, ``sealed``: here, where it is left out.

    Raises:
        Conflict: another process carries it on.
    """
    keys = log.keys.operation_keys(operation.tenant)
    order = order or operation.order
    if state == DONE:
        order, plan = Order(items=(), about={}), None
    if plan is None:
        plan = operation.row.plan if order is operation.order else sealed(log, operation.tenant, order)
    row = operation.row._replace(state=state, plan=plan)
    row = row._replace(mac=rows.operation_mac(keys.mac, row))
    changed = {
        "state": row.state,
        "plan": row.plan,
        "mac": row.mac,
        "operation_id": row.operation_id,
        "expected_mac": operation.row.mac,
    }
    if transaction.change("move_operation", **changed) != 1:
        raise Conflict("another process carries this erasure on; look at its receipt in a moment")
    return replace(operation, row=row, order=order)


def unfinished(log: Log, reader: Reader) -> Iterator[Operation]:
    """The erasures that are not done, verified.

    Raises:
        Tampered: one of them was changed.
    """
    for found in reader.scan("unfinished_operations"):
        yield opened(log, OperationRow._make(found))


def under_way(log: Log, reader: Reader) -> set[bytes]:
    """The sessions and items that an unfinished erasure takes away: no other one takes them again.

    Raises:
        Tampered: one of the erasures was changed.
    """
    return {item.id for operation in unfinished(log, reader) for item in operation.order.going()}


def opened(log: Log, row: OperationRow) -> Operation:
    """An erasure of a stored row.

    Raises:
        Tampered: it was changed, or is of no tenant of this vault.
    """
    tenant = log.keys.tenant_by_id(row.tenant_id)
    if tenant is None:
        raise Tampered("an erasure is of no tenant of this vault")
    keys = log.keys.operation_keys(tenant)
    rows.check(rows.operation_mac(keys.mac, row), row.mac, "an erasure's row")
    order = decoded(unseal(keys.payload, keys.context(b"payload"), row.plan))
    return Operation(tenant=tenant, row=row, order=order)
