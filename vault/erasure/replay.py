"""After a restore: what the ledger says was erased is erased again, before anything is served."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from vault.erasure import operations
from vault.erasure.execute import fingerprint_of
from vault.erasure.expire import close_interrupted
from vault.erasure.facts import owner_and_kind
from vault.erasure.needles import needles
from vault.erasure.operations import Operation, Order
from vault.errors import Tampered
from vault.model import format_id, uuid7
from vault.policy.epochs import generation_of
from vault.policy.plan import Item
from vault.ports.keys import Doomed
from vault.sealing.notes import Gone
from vault.sealing.uses import generation_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from vault.erasure.service import Parts

_PURPOSES: Final = ("epoch", "item")
_NO_DIGEST = "0" * 64


def returned(parts: Parts, erased: Collection[bytes]) -> list[tuple[bytes, Item]]:
    """Sessions and items that were erased and are there all the same, with their tenants.

    What an erasure under way is still deleting is not among them.
    """
    found = []
    with parts.log.records.snapshot() as reader:
        open_ones = operations.unfinished(parts.log, reader)
        under_way = {item.id for operation in open_ones for item in operation.order.items}
        for (id_,) in [*reader.scan("all_session_ids"), *reader.scan("all_item_ids")]:
            if id_ in erased and id_ not in under_way:
                tenant_id, owner, kind = owner_and_kind(reader, id_)
                found.append((tenant_id, Item(id_, kind, owner, "erase", "root", id_, 0, 0)))
    return found


def forgotten(parts: Parts) -> set[bytes]:
    """Destroy keys that were condemned by an erasure that data.db does not know any more; what they were of.

    Whoever removed its row, or put an older data.db back, does not keep them.
    """
    dying = set(parts.store.operations_dying())  # looked at first: what ends in between is destroyed already
    if not dying:
        return set()
    with parts.log.records.snapshot() as reader:
        dying -= {operation.id for operation in operations.unfinished(parts.log, reader)}
    prints: dict[bytes, list[bytes]] = {}
    for grave in parts.store.tombstones():
        if grave.operation in dying:
            prints.setdefault(grave.scope, []).extend([grave.fingerprint] if grave.fingerprint else [])
    if prints:
        parts.execution.record([Gone(scope, fingerprint_of(found)) for scope, found in prints.items()])
    for operation_id in dying:
        close_interrupted(parts, operation_id)
        parts.store.destroy(operation_id)
    return set(prints)


def replay(parts: Parts, erased: Collection[bytes]) -> Iterator[Operation]:
    """Erase again what came back, tenant by tenant; each with a receipt of its own.

    Raises:
        Tampered: what came back is of no tenant of this vault.
    """
    from vault.sealing import receipts  # noqa: PLC0415 - pydantic: only who erases needs it

    back = sorted(returned(parts, {*erased, *forgotten(parts)}))
    for tenant_id, group in groupby(back, key=lambda one: one[0]):
        tenant = parts.log.keys.tenant_by_id(tenant_id)
        if tenant is None:
            raise Tampered("what was erased came back under a tenant that this vault does not know")
        operation_id, key = uuid7(), receipts.new_key()
        order = Order(items=tuple(item for _, item in group), about={})
        about = {
            "selector": "policy",
            "selector_mark": receipts.selector_mark(key, format_id("era", operation_id), "policy", ""),
            "about": "",
            "who": "",
            "by": None,
            "role": "vault",
            "reason": "policy",
            "policy": parts.policies.active(tenant).digest.hex(),
            "plan": _NO_DIGEST,
            "requested_us": parts.log.clock.now_us(),
            "key": key.hex(),
            "needles": needles(parts.log, parts.store, tenant, order.items),
            "again": True,
        }
        operation = parts.execution.begin(tenant, operation_id, Order(items=order.items, about=about))
        yield parts.execution.carry_on(operation)


def bury(parts: Parts, erased: Collection[bytes]) -> int:
    """Destroy again the keys of what was erased and is not there, in an old keys.db that was put back.

    What is there too is for ``replay``, before. When nothing is amiss it costs a look at the tombstones.

    Returns:
        How many keys were destroyed.
    """
    store = parts.store
    missing = set(erased) - store.graves()
    if not missing:
        return 0
    doomed: dict[bytes, list[Doomed]] = {}
    found = set()
    for row in store.rows():
        generation = generation_of(row.epoch) if row.purpose == "epoch" else 0
        if row.scope in missing:
            found.add(row.scope)
            doomed.setdefault(row.tenant_id, []).append(
                Doomed(row.purpose, row.scope, None, frozenset[bytes]())
            )
        elif generation and generation_name(row.scope, generation) in missing:
            one = Doomed(row.purpose, row.scope, row.epoch, frozenset[bytes]())
            doomed.setdefault(row.tenant_id, []).append(one)
    # Whose they were, and of what kind, nobody knows any more: no key may come back in either place.
    nowhere = [Doomed(kind, id_, None, frozenset[bytes]()) for id_ in missing - found for kind in _PURPOSES]
    operation_id, now_us = uuid7(), parts.log.clock.now_us()
    for tenant_id, some in [*doomed.items(), (b"", nowhere)]:
        store.condemn(operation_id, tenant_id, some, now_us, again=True)
    for some in doomed.values():
        parts.log.keys.forget_scope(*(one.scope for one in some))
    close_interrupted(parts, operation_id)
    return store.destroy(operation_id).keys
