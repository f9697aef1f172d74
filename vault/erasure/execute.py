"""Carrying an erasure out: fence, condemn, ledger, destroy, delete, prove; from wherever a crash left it.

The order is what makes it safe. Nothing is destroyed before the ledger, outside of the database, says what;
whether a hold stands against it is decided in the one transaction that condemns the keys, and nowhere else;
rows are deleted only once nothing opens them. Each step done twice does nothing the second time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import partial
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
from vault.ports.keys import EXTERNAL, Condemned, Doomed
from vault.ports.operations import OperationRow
from vault.sealing.notes import Gone
from vault.sealing.uses import grave_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vault.erasure.proof import Searched
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
#: Keys that one transaction condemns: some 10 ms.
_CONDEMNED_MAX: Final = 200


#: The steps that ``Execution.progress`` is told of, in order.
PROGRESS: Final = ("fence", "keys", "rows", "files", "search")
#: Erasures that are proved by one look through all files: some thousand pieces are looked for.
TOGETHER: Final = 32

_KEPT: Final = frozenset({"held", "minimum"})


class Prove(Protocol):
    """Looks whether anything is left, signs what was done, and ends the operation if nothing is."""

    def search(
        self, executed: Sequence[Operation], progress: Callable[[int, int], None] | None = None
    ) -> list[Searched]:
        """What one look through all files finds of some operations."""
        ...

    def searched(
        self, needles: Sequence[Sequence[bytes]], progress: Callable[[int, int], None] | None = None
    ) -> list[Searched]:
        """What one look through all files finds of some groups of pieces."""
        ...

    def __call__(self, operation: Operation, searched: Searched) -> Operation:
        """The operation as it stands then: done, or incomplete."""
        ...


def _nothing(*_: Any) -> None:
    """Nobody asked to be told."""


def _unguarded(_: Transaction) -> None:
    """Whoever asked may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What carries erasures out.

    ``record`` writes what is about to go into the ledger, durably; ``step`` is told of each step before it.
    ``progress`` is told how far a step is: which of ``PROGRESS``, how much of it is done, and how much there
    is (of ``files`` those found so far; of ``search`` bytes; of the others sessions and items).
    """

    log: Log
    store: KeyStore = field(repr=False)
    record: Callable[[Sequence[Gone]], None]
    prove: Prove
    step: Callable[[str], None] = _nothing
    progress: Callable[[str, int, int], None] = _nothing
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
        plan, first = operations.sealed(self.log, tenant, order), order.going()[:BATCH]
        requests = again.prepared(self.log, tenant, operation_id, order, first)

        def work(transaction: Transaction) -> Operation:
            guard(transaction)
            operation = operations.add(self.log, transaction, tenant, operation_id, order, now_us, plan)
            again.add(transaction, tenant, requests)
            # What fits is fenced in the same transaction; the rest in those that follow, before any key goes.
            fence(self.log, transaction, tenant, first)
            return operation

        self.step("open")
        return self.log.records.transact(work)

    def carry_on(self, operation: Operation) -> Operation:
        """Carry an erasure on to its end.

        Raises:
            Conflict: another process carries it on too, and was faster.
            StorageUnavailable: a store did not take it; what was done stays done, try again.
        """
        operation = self.executed(operation)
        if operation.row.state == DELETED:
            operation, searched = self._searched([operation])[0]
            operation = self.prove(operation, searched)
        return operation

    def executed(self, operation: Operation) -> Operation:
        """Carry an erasure on until nothing of it is left that is known of; to be proved.

        Raises:
            Conflict, StorageUnavailable: as ``carry_on``.
        """
        if operation.row.state == OPEN:
            operation = self._condemn(operation)
        if operation.row.state == CONDEMNED:
            operation = self._destroy(operation)
        if operation.row.state in {DESTROYED, INCOMPLETE}:
            operation = self._delete(operation)
        return operation

    def proved(self, executed: Sequence[Operation]) -> Iterator[Operation]:
        """Prove erasures that were executed, by one look through all files for up to ``TOGETHER`` of them.

        Each as it stands then, whoever proved it.

        Raises:
            StorageUnavailable: as ``carry_on``.
        """
        yield from (operation for operation in executed if operation.row.state != DELETED)
        waiting = [operation for operation in executed if operation.row.state == DELETED]
        for start in range(0, len(waiting), TOGETHER):
            for operation, searched in self._searched(waiting[start : start + TOGETHER]):
                try:
                    yield self.prove(operation, searched)
                except Conflict:  # another process was faster
                    yield self._stored(operation)

    def finished(self, operation: Operation, *, prove: bool = True) -> Operation:
        """An erasure at its end, whoever brings it there: a process that opens the vault carries it on too.

        Without ``prove`` only executed, for ``proved``.

        Raises:
            Conflict: others are at it for longer than this waits.
            StorageUnavailable: as ``carry_on``.
        """
        on = self.carry_on if prove else self.executed
        for _ in range(_TRIES):
            try:
                return on(operation)
            except Conflict:
                self.log.records.wait_commit(self.log.records.commits(), _PAUSE_SECONDS)
            operation = self._stored(operation)
        return on(operation)

    def _stored(self, operation: Operation) -> Operation:
        with self.log.records.snapshot() as reader:
            found = next(reader.scan("operation", operation_id=operation.id))
        return operations.opened(self.log, OperationRow._make(found))

    def _searched(self, executed: Sequence[Operation]) -> list[tuple[Operation, Searched]]:
        """Erasures with how their targets stand, and what one look through all files finds of each."""
        waiting = []
        for operation in executed:
            waiting.append(self._tell(operation))
            self.step("prove")
        return list(zip(waiting, self.prove.search(waiting, partial(self.progress, "search")), strict=True))

    def _condemn(self, operation: Operation) -> Operation:
        tenant, going = operation.tenant, operation.order.going()
        self._fence(operation)
        if len(going) > BATCH:
            operation = self._with_strays(operation)
            going = operation.order.going()
        doomed = self._doomed(operation)
        self.progress("keys", 0, len(going))
        self.step("condemn")
        condemned = self._condemned(operation, doomed)
        kept = [item for item in operation.order.items if item.action in _KEPT or item.id in condemned.held]
        gone = [item.id for item in going if item.id not in condemned.held]
        self.log.keys.forget_scope(*(item.id for item in going))
        self.step("record")
        prints = {id_: condemned.fingerprints.get(id_, ()) for id_ in gone}
        self.record([Gone(id_, fingerprint_of(found)) for id_, found in prints.items()])
        about = operation.order.about | {
            "invisible_us": self.log.clock.now_us(),
            "fingerprints": sorted(one.hex() for found in prints.values() for one in found),
        }
        order = Order(items=_held(operation.order.items, set(condemned.held)), about=about)
        requested_us = about["requested_us"] if about["reason"] != "policy" else 0

        batches, plan = list(_batches(going)), operations.sealed(self.log, tenant, order)
        for batch in batches[:-1]:
            self.log.records.transact(partial(again.settle, self.log, operation, batch, condemned.held))

        def work(transaction: Transaction) -> Operation:
            restrict(self.log, transaction, tenant, kept, requested_us)
            for batch in batches[-1:]:
                again.settle(self.log, operation, batch, condemned.held, transaction)
            return operations.move(self.log, transaction, operation, CONDEMNED, order, plan)

        self.step("condemned")
        return self.log.records.transact(work)

    def _condemned(self, operation: Operation, doomed: list[Doomed]) -> Condemned:
        """Which keys die, decided some at a time: a writer waits for none of it long.

        A hold that is placed meanwhile keeps what comes after it. The same place is in one part only.
        """
        prints: dict[bytes, tuple[bytes, ...]] = {}
        held: dict[bytes, tuple[bytes, ...]] = {}
        whole = operation.order.about.get("again", False)
        doomed.sort(key=lambda one: (one.purpose, one.scope))  # as the tables are: fewer pages for each part
        for start in range(0, len(doomed), _CONDEMNED_MAX):
            part, now_us = doomed[start : start + _CONDEMNED_MAX], self.log.clock.now_us()
            found = self.store.condemn(operation.id, operation.tenant.tenant_id, part, now_us, again=whole)
            prints |= found.fingerprints
            held |= found.held
        return Condemned(prints, held)

    def _fence(self, operation: Operation) -> None:
        """Fence what goes, in transactions of bounded size; each stores the requests for what it fences."""
        log, tenant = self.log, operation.tenant
        going = operation.order.going()
        for number, batch in enumerate(_batches(going)):
            # What was fenced when the erasure was opened, or before a crash, has its requests.
            requests = again.prepared(log, tenant, operation.id, operation.order, batch) if number else []
            self.step("fence")
            log.records.transact(partial(_fenced, log, tenant, batch, requests))
            self.progress("fence", number * BATCH + len(batch), len(going))

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
        going = len(operation.order.going())
        self.progress("keys", going, going)
        return self._moved(operation, DESTROYED, operation.order.about)

    def _delete(self, operation: Operation) -> Operation:
        done = delete(self.log, operation.tenant, operation.order.going(), self.step, self.progress)
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
        order = operation.order if about == operation.order.about else replace(operation.order, about=about)
        plan = None if order is operation.order else operations.sealed(self.log, operation.tenant, order)
        self.step(state)
        return self.log.records.transact(
            lambda transaction: operations.move(self.log, transaction, operation, state, order, plan)
        )


def _fenced(
    log: Log,
    tenant: TenantKeys,
    batch: Sequence[Item],
    requests: Sequence[again.Request],
    transaction: Transaction,
) -> None:
    again.add(transaction, tenant, requests)
    fence(log, transaction, tenant, batch)


def fingerprint_of(prints: Sequence[bytes]) -> bytes:
    """One fingerprint of all the wrapped keys of a session or item."""
    return hashlib.sha256(b"".join(prints)).digest()[:16]


def _held(items: tuple[Item, ...], kept: set[bytes]) -> tuple[Item, ...]:
    """The items of a plan, those that a hold kept at the last moment as such."""
    return tuple(item._replace(action="held", reason="hold") if item.id in kept else item for item in items)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]
