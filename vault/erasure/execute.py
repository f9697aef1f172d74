"""Carrying an erasure out: fence, condemn, ledger, destroy, delete, prove; from wherever a crash left it.

The order is what makes it safe. Nothing is destroyed before the ledger, outside of the database, says what;
whether a hold stands against it is decided in the one transaction that condemns the keys, and nowhere else;
rows are deleted only once nothing opens them. Each step done twice does nothing the second time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from vault.erasure import again, operations
from vault.erasure.delete import delete
from vault.erasure.facts import gather, tags_of
from vault.erasure.fence import BATCH, SESSION, fence, restrict, stored_session
from vault.erasure.operations import CONDEMNED, DELETED, DESTROYED, INCOMPLETE, OPEN, Operation, Order
from vault.erasure.outbox import Outbox
from vault.erasure.proof import name_of
from vault.errors import Conflict
from vault.policy.lineage import affected, goes
from vault.policy.plan import Item
from vault.ports.keys import EXTERNAL, Doomed
from vault.ports.operations import OperationRow
from vault.sealing.notes import Gone
from vault.sealing.uses import grave_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vault.ports.keys import KeyStore
    from vault.ports.records import Transaction
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log


#: How often a write-ahead log is tried that a reader still needs, and how long in between. Each try keeps
#: other writers waiting for up to half a second, so these are few: two seconds in all.
_ATTEMPTS: Final = 3
#: How often an erasure is carried on that another process carries on too.
_TRIES: Final = 50
_PAUSE_SECONDS: Final = 0.1


_KEPT: Final = frozenset({"held", "minimum"})


class Prove(Protocol):
    """Looks whether anything is left, signs what was done, and ends the operation if nothing is."""

    def __call__(self, operation: Operation) -> Operation:
        """The operation as it stands then: done, or incomplete."""
        ...


def _nothing(_: str) -> None:
    """Nobody asked to be told of the steps."""


def _unguarded(_: Transaction) -> None:
    """Whoever asked may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What carries erasures out.

    ``record`` writes what is about to go into the ledger, durably; ``step`` is told of each step before it.
    """

    log: Log
    store: KeyStore = field(repr=False)
    record: Callable[[Sequence[Gone]], None]
    prove: Prove
    step: Callable[[str], None] = _nothing
    outbox: Outbox = field(default_factory=Outbox)

    def begin(
        self,
        tenant: TenantKeys,
        operation_id: bytes,
        order: Order,
        *,
        guard: Callable[[Transaction], None] = _unguarded,
    ) -> Operation:
        """Open an erasure: from then on it is carried on, whatever happens to this process.

        Args:
            tenant: whose.
            operation_id: 16 bytes.
            order: what goes, and why.
            guard: refuses, inside the transaction, a process that may not begin any more.
        """
        now_us = self.log.clock.now_us()
        order = replace(order, about=order.about | {"external": self.outbox.waiting()})
        requests = again.prepared(self.log, tenant, operation_id, order.items)

        def work(transaction: Transaction) -> Operation:
            guard(transaction)
            operation = operations.add(self.log, transaction, tenant, operation_id, order, now_us)
            again.add(transaction, tenant, requests)
            # What fits is fenced in the same transaction; the rest in those that follow, before any key goes.
            fence(self.log, transaction, tenant, order.going()[:BATCH])
            return operation

        self.step("open")
        return self.log.records.transact(work)

    def carry_on(self, operation: Operation) -> Operation:
        """Carry an erasure on to its end.

        Raises:
            Conflict: another process carries it on too, and was faster.
            StorageUnavailable: a store did not take it; what was done stays done, try again.
        """
        if operation.row.state == OPEN:
            operation = self._condemn(operation)
        if operation.row.state == CONDEMNED:
            operation = self._destroy(operation)
        if operation.row.state in {DESTROYED, INCOMPLETE}:
            operation = self._delete(operation)
        if operation.row.state == DELETED:
            operation = self._tell(operation)
            self.step("prove")
            operation = self.prove(operation)
        return operation

    def finished(self, operation: Operation) -> Operation:
        """An erasure at its end, whoever brings it there: a process that opens the vault carries it on too.

        Raises:
            Conflict: others are at it for longer than this waits.
            StorageUnavailable: as ``carry_on``.
        """
        for _ in range(_TRIES):
            try:
                return self.carry_on(operation)
            except Conflict:
                self.log.records.wait_commit(self.log.records.commits(), _PAUSE_SECONDS)
            with self.log.records.snapshot() as reader:
                found = next(reader.scan("operation", operation_id=operation.id))
            operation = operations.opened(self.log, OperationRow._make(found))
        return self.carry_on(operation)

    def _condemn(self, operation: Operation) -> Operation:
        tenant, going = operation.tenant, operation.order.going()
        for batch in _batches(going):
            self.step("fence")
            self.log.records.transact(lambda transaction: fence(self.log, transaction, tenant, batch))  # noqa: B023
        if len(going) > BATCH:
            operation = self._with_strays(operation)
            going = operation.order.going()
        doomed = self._doomed(operation)
        self.step("condemn")
        condemned = self.store.condemn(
            operation.id,
            tenant.tenant_id,
            doomed,
            self.log.clock.now_us(),
            again=operation.order.about.get("again", False),
        )
        kept = [item for item in operation.order.items if item.action in _KEPT or item.id in condemned.held]
        gone = [item.id for item in going if item.id not in condemned.held]
        for item in going:
            self.log.keys.forget_scope(item.id)
        self.step("record")
        prints = {id_: condemned.fingerprints.get(id_, ()) for id_ in gone}
        self.record([Gone(id_, fingerprint_of(found)) for id_, found in prints.items()])
        about = operation.order.about | {
            "invisible_us": self.log.clock.now_us(),
            "fingerprints": sorted(one.hex() for found in prints.values() for one in found),
        }
        order = Order(items=_held(operation.order.items, set(condemned.held)), about=about)
        requested_us = about["requested_us"] if about["reason"] != "policy" else 0

        def work(transaction: Transaction) -> Operation:
            restrict(self.log, transaction, tenant, kept, requested_us)
            again.settle(self.log, transaction, operation, condemned.held)
            return operations.move(self.log, transaction, operation, CONDEMNED, order)

        self.step("condemned")
        return self.log.records.transact(work)

    def _doomed(self, operation: Operation) -> list[Doomed]:
        """The keys that go; and, when somebody asked, callers' own ids: who writes late begins nothing."""
        tenant, going = operation.tenant, operation.order.going()
        asked = operation.order.about["reason"] != "policy"
        with self.log.records.snapshot() as reader:
            tags = tags_of(reader, tenant, going)
            sessions = [item for item in going if asked and item.kind == SESSION]
            rows = [(item.id, stored_session(reader, tenant, item.id)) for item in sessions]
        doomed = [
            Doomed("epoch" if item.kind == SESSION else "item", item.id, None, tags[item.id])
            for item in going
        ]
        return doomed + [
            Doomed(EXTERNAL, grave_of(row.owner, row.external), None, tags[id_])
            for id_, row in rows
            if row and row.external
        ]

    def _with_strays(self, operation: Operation) -> Operation:
        """With what came from its items after the plan was made and before the last of them was fenced."""
        tenant, known = operation.tenant, {item.id for item in operation.order.items}
        roots = [item.id for item in operation.order.going()]
        with self.log.records.snapshot() as reader:
            nodes = gather(reader, tenant, roots, {}, self.log.clock.now_us(), b"")
        strays = [
            Item(id_, node.kind, node.owner, "erase", "derived_from", found.through, found.depth, 0)
            for id_, found in affected(roots, nodes, forks="include").items()
            if goes(found) and id_ not in known and (node := nodes[id_])
        ]
        if not strays:
            return operation
        strays.sort(key=lambda item: (-item.depth, item.id))
        for batch in _batches(strays):
            self.step("fence")
            self.log.records.transact(lambda transaction: fence(self.log, transaction, tenant, batch))  # noqa: B023
        order = replace(operation.order, items=(*strays, *operation.order.items))
        return self._with_strays(replace(operation, order=order))  # what came from these before their fence

    def _destroy(self, operation: Operation) -> Operation:
        self.step("destroy")
        self.store.destroy(operation.id)
        return self._moved(operation, DESTROYED, operation.order.about)

    def _delete(self, operation: Operation) -> Operation:
        done = delete(self.log, operation.tenant, operation.order.going(), self.step)
        before: dict[str, Any] = operation.order.about
        self.step("truncate")
        truncated, keys_truncated = self._truncated(operation)
        about = before | {
            "rows": before.get("rows", 0) + done.rows,
            "blobs": before.get("blobs", 0) + done.blobs,
            "left": done.left,
            "truncated": truncated,
            "keys_truncated": keys_truncated,
            "erased_us": self.log.clock.now_us(),
        }
        return self._moved(operation, DELETED, about)

    def _tell(self, operation: Operation) -> Operation:
        """With how each external target stands; kept with what is proved next, else they are told again."""
        self.step("tell")
        about, ids = operation.order.about, [name_of(item) for item in operation.order.going()]
        external = self.outbox.told(about.get("external", {}), ids, operation.id.hex())
        return replace(operation, order=replace(operation.order, about=about | {"external": external}))

    def _truncated(self, operation: Operation) -> tuple[bool, bool]:
        """Whether nothing of it is left in the write-ahead logs of data and keys; waits for short readers."""
        for attempt in range(_ATTEMPTS):
            done = self.log.records.truncate(), self.store.destroy(operation.id).truncated
            if all(done) or attempt == _ATTEMPTS - 1:
                return done
            self.log.records.wait_commit(self.log.records.commits(), _PAUSE_SECONDS)
        return False, False

    def _moved(self, operation: Operation, state: str, about: dict[str, Any]) -> Operation:
        order = replace(operation.order, about=about)
        self.step(state)
        return self.log.records.transact(
            lambda transaction: operations.move(self.log, transaction, operation, state, order)
        )


def fingerprint_of(prints: Sequence[bytes]) -> bytes:
    """One fingerprint of all the wrapped keys of a session or item."""
    return hashlib.sha256(b"".join(prints)).digest()[:16]


def _held(items: tuple[Item, ...], kept: set[bytes]) -> tuple[Item, ...]:
    """The items of a plan, those that a hold kept at the last moment as such."""
    return tuple(item._replace(action="held", reason="hold") if item.id in kept else item for item in items)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]
