"""Erasing what a person, an officer or a policy asks for: plan, look at it, execute, keep the receipt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from vault.erasure import operations, selection
from vault.erasure.needles import needles
from vault.erasure.operations import DONE, Operation, Order
from vault.erasure.planning import Planned, planned
from vault.erasure.proof import name_of
from vault.erasure.selection import NOTHING
from vault.erasure.unchanged import compare, opened
from vault.errors import Conflict, InvalidInput, LimitExceeded, NotFound, StorageUnavailable
from vault.model import check_name, format_id, uuid7
from vault.policy.plan import Plan, Selector, token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vault.access.door import Grant, Leave
    from vault.audit.trail import AuditTrail
    from vault.erasure.execute import Execution
    from vault.erasure.policies import Policies
    from vault.ports.keys import KeyStore
    from vault.ports.records import Reader
    from vault.sealing.notes import Signer
    from vault.sessions.log import Log

#: Sessions and items of one erasure; what is more is erased in several.
ITEMS_MAX: Final = 100_000
REASONS: Final = ("person_request", "contract_end", "court", "other")
#: Types of entries in the audit trail.
ASKED: Final = "erasure.asked"
_CARRIED_ON: Final = "another process carries this erasure on; look at its receipt in a moment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the use cases of retention and erasure work with."""

    log: Log
    store: KeyStore = field(repr=False)
    trail: AuditTrail
    policies: Policies
    execution: Execution
    spared: Any  # the owner of a tenant's audit trail, by its keys
    signer: Signer = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePlan:
    """What an erasure would do, looked at before it is done.

    ``plan.items`` holds each session and item with its action and reason, deepest first; ``counts`` how many
    of a kind meet which action. ``token`` stands for exactly this plan under exactly this policy.
    """

    plan: Plan
    token: str
    asked_us: int
    reason: str
    forks: str
    grant: Grant = field(repr=False)
    subject: str | None = field(repr=False)
    named: str = field(repr=False)  # what was asked for: an id, a name, a label as NAME=VALUE

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many by kind and action."""
        return self.plan.counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an erasure.

    ``receipt`` is the signed file, ``state`` what it says: ``verified``; ``executed`` while somebody still
    reads the database; ``incomplete`` when a store did not give something up, which is tried again. ``key``
    shows with `receipt verify` whom and what the receipt is about; it is handed out here and never again.
    """

    operation: str
    state: str
    receipt: bytes = field(repr=False)
    counts: Mapping[tuple[str, str], int]
    key: bytes | None = field(default=None, repr=False)
    items: tuple[str, ...] = field(default=(), repr=False)

    def proof(self, item_id: str) -> bytes:
        """The content of a file that shows, with the receipt and the key, that an item is among those erased.

        Raises:
            NotFound: it is not, or this outcome was not made by ``execute`` just now.
            Conflict: something else went with it meanwhile, so that the tree is another one.
        """
        from vault.sealing import receipts  # noqa: PLC0415 - pydantic: only who erases needs it

        if self.key is None or item_id not in self.items:
            raise NotFound("this outcome does not show that the item is among those erased")
        mine = receipts.item_mark(self.key, self.operation, item_id)
        marks = sorted(receipts.item_mark(self.key, self.operation, one) for one in self.items)
        if receipts.tree_root(marks).hex() != receipts.verified(self.receipt, None).items.root:
            raise Conflict("the receipt is about other items than were planned; ask for the erasure again")
        at = marks.index(mine)
        return receipts.proof_file(at, receipts.proof(marks, at))


class Erasure:
    """What one principal can have erased."""

    def __init__(self, parts: Parts, leave: Leave) -> None:
        """Made by ``Vault.access``."""
        self._parts, self._leave = parts, leave

    def plan(
        self,
        *,
        session: str | None = None,
        subject: str | None = None,
        memory: str | None = None,
        artifact: str | None = None,
        label: tuple[str, str] | None = None,
        tenant: bool = False,
        reason: str = "person_request",
        forks: str = "include",
    ) -> ErasurePlan:
        """What erasing something would do: what goes with it, what is held back, and why. Nothing is done.

        Args:
            session, memory, artifact: by id; of a memory or artifact all versions.
            subject: everything of a person, across sessions.
            label: a name and value: the sessions that carry it.
            tenant: everything of the tenant.
            reason: ``person_request``, ``contract_end``, ``court`` or ``other``.
            forks: ``include``: what was forked from it goes too; ``exclude``: then it stays while a fork
                shares it.

        Raises:
            InvalidInput: not exactly one of them, or one that names nothing.
            NotFound: there is nothing of that for this principal; ``erased`` finds receipts.
        """
        if reason not in REASONS or forks not in ("include", "exclude"):
            raise InvalidInput(f"a reason is one of {', '.join(REASONS)}; forks is include or exclude")
        kind, value = selection.chosen(session, subject, memory, artifact, label, tenant or None)
        grant = self._grant(kind, subject)
        selector = selection.selector(grant.tenant, kind, value)
        with self._parts.log.records.snapshot() as reader:
            plan = self._planned(grant, selector, forks, reader).plan
        if not plan.items:
            raise NotFound(NOTHING)
        return ErasurePlan(
            plan=plan,
            token=token(plan, self._parts.policies.active(grant.tenant).digest),
            asked_us=self._parts.log.clock.now_us(),
            reason=reason,
            forks=forks,
            grant=grant,
            subject=subject,
            named="" if tenant else "=".join(label) if label else str(value),
        )

    def execute(
        self, plan: ErasurePlan, *, progress: Callable[[str, int, int], None] | None = None
    ) -> Outcome:
        """Carry a plan out; it is durable step by step, and a crash is resumed.

        Args:
            plan: as ``plan`` made it.
            progress: told (step, done, in all): of ``fence``, ``keys`` and ``rows`` sessions and items, of
                ``files`` those found so far, of ``search`` bytes.

        Raises:
            Conflict: the facts changed since the plan was made; says how, and nothing was done.
            NotFound: it was erased meanwhile, or the principal has no leave any more.
        """
        parts, grant = self._parts, self._grant_again(plan)
        # Looked at twice: now, and in the transaction that opens the erasure and fences what it takes.
        with parts.log.records.snapshot() as reader:
            compare(plan.plan, self._planned(grant, plan.plan.selector, plan.forks, reader).plan)
        policy = parts.policies.active(grant.tenant).digest
        if token(plan.plan, policy) != plan.token:
            raise Conflict("the retention policy changed since this plan was made; look at a new plan")
        order = self._order(plan, policy)
        if len(order.items) > ITEMS_MAX:
            raise LimitExceeded(
                f"one erasure takes at most {ITEMS_MAX} sessions and items; erase by subject or label"
            )
        operation_id = uuid7()
        order = Order(items=order.items, about=order.about | self._marks(plan, operation_id))
        said = {"operation": operation_id.hex(), "selector": plan.plan.selector.kind, "reason": plan.reason}
        parts.trail.write(grant.tenant, ASKED, grant.who, b"", said)
        again = partial(self._planned, grant, plan.plan.selector, plan.forks)
        execution = parts.execution if progress is None else replace(parts.execution, progress=progress)
        operation = opened(execution, grant.tenant, plan.plan, order, operation_id, again)
        return outcome(parts, execution.finished(operation), order)

    def erase(self, **named: Any) -> Outcome:
        """Plan and execute in one step; for what was erased before, the first receipt again.

        What a crash or a failing store left unfinished is carried on.

        Raises:
            As ``plan``; an id that never existed is NotFound, never "erased".
            Conflict: as ``execute``, or another process has it erased at this moment.
        """
        try:
            return self.execute(self.plan(**named))
        except NotFound:
            waiting = self._unfinished(**named)
            for _ in resume(self._parts, waiting):
                pass
            before = self.erased(**named)
            if before is None and waiting:
                raise Conflict(_CARRIED_ON) from None
            if before is None:
                raise
            return before

    def erased(
        self,
        *,
        session: str | None = None,
        subject: str | None = None,
        memory: str | None = None,
        artifact: str | None = None,
        label: tuple[str, str] | None = None,
        tenant: bool = False,
        **_: Any,
    ) -> Outcome | None:
        """The receipt of an erasure that was done already; None when there was none.

        Only who could have asked for it is told.
        """
        grant, value = self._asked(session, subject, memory, artifact, label, tenant or None)
        operation_id = self._operation_of(grant, value)
        if operation_id is None:
            return None
        with self._parts.log.records.snapshot() as reader:
            rows = list(reader.scan("receipts_of_operation", operation_id=operation_id))
        mine = [row for row in rows if row[2] == grant.tenant.tenant_id]
        return _of_receipt(mine[-1][0], mine[-1][3]) if mine else None

    def receipts(self, *, limit: int = 100) -> list[Outcome]:
        """The tenant's receipts, newest first.

        Raises:
            NotFound: no leave to see them.
        """
        tenant = self._leave.tenant("audit").tenant
        with self._parts.log.records.snapshot() as reader:
            rows = list(reader.scan("receipts_of_tenant", tenant_id=tenant.tenant_id, limit=limit))
        return [_of_receipt(row[0], row[3]) for row in rows]

    def _grant(self, kind: str, subject: str | None) -> Grant:
        """Leave to erase: an officer in the tenant, anybody else what is their own."""
        try:
            return self._leave.tenant("erase")
        except NotFound:
            grant = self._leave("erase")
        mine = subject is not None and grant.tenant.owner(check_name(subject, "a subject")) == grant.owner
        if kind in {"tenant", "label"} or (kind == "subject" and not mine):
            raise NotFound(NOTHING)
        return grant

    def _grant_again(self, plan: ErasurePlan) -> Grant:
        return self._grant(plan.plan.selector.kind, plan.subject)

    def _planned(self, grant: Grant, selector: Selector, forks: Any, reader: Reader) -> Planned:
        log, store, spared = self._parts.log, self._parts.store, self._parts.spared(grant.tenant)
        leave = {"owner": grant.owner or None, "spared": spared}
        return planned(log, store, reader, grant.tenant, selector, forks=forks, **leave)

    def _order(self, plan: ErasurePlan, policy: bytes) -> Order:
        role = (
            "privacy_officer" if not plan.grant.own else "owner" if "owner" in self._leave.roles else "agent"
        )
        about = {
            "selector": plan.plan.selector.kind,
            "about": plan.plan.selector.value.hex(),
            "who": plan.grant.who.hex(),
            "role": role,
            "reason": plan.reason,
            "policy": policy.hex(),
            "plan": plan.plan.digest.hex(),
            "requested_us": plan.asked_us,
        }
        order = Order(items=plan.plan.items, about=about)
        found = needles(self._parts.log, self._parts.store, plan.grant.tenant, order.going())
        return Order(items=order.items, about=about | {"needles": found})

    def _marks(self, plan: ErasurePlan, operation_id: bytes) -> dict[str, Any]:
        from vault.sealing import receipts  # noqa: PLC0415 - pydantic: only who erases needs it

        key, name = receipts.new_key(), format_id("era", operation_id)
        selector, tenant = plan.plan.selector, plan.grant.tenant
        about = receipts.selector_mark(key, name, selector.kind, plan.named)
        return {
            "key": key.hex(),
            "selector_mark": about,
            "subject_mark": plan.subject and receipts.subject_mark(key, name, plan.subject),
            "by": receipts.pseudonym(tenant.pseudonym_key("receipt", 0), "requester", plan.grant.who.hex()),
        }

    def _operation_of(self, grant: Grant, value: bytes) -> bytes | None:
        """The erasure that took something away; what was another's only an officer is told of."""
        for grave in self._parts.store.tombstones(grant.tenant.tenant_id):
            if grave.scope == value and (not grant.own or grave.owner == grant.owner):
                return grave.operation
        entry = self._parts.trail.newest(grant.tenant, "erasure", b"", value)
        if entry is None or (grant.own and value != grant.owner and entry.who != grant.who.hex()):
            return None
        return bytes.fromhex(entry.said["operation"])

    def _asked(self, *given: Any) -> tuple[Grant, bytes]:
        """Leave for what is asked about, and its id or blind index."""
        kind, value = selection.chosen(*given)
        grant = self._grant(kind, value if kind == "subject" else None)
        return grant, selection.selector(grant.tenant, kind, value).value

    def _unfinished(self, **named: Any) -> set[bytes]:
        """The erasures under way that take this away, of one's own or for an officer."""
        grant, value = self._asked(*(named.get(kind) or None for kind in selection.KINDS))
        found = set()
        with self._parts.log.records.snapshot() as reader:
            for operation in operations.unfinished(self._parts.log, reader):
                mine = [
                    item for item in operation.order.going() if not grant.own or item.owner == grant.owner
                ]
                met = any(value in (item.id, item.owner) for item in mine)
                met = met or (bool(mine) and operation.order.about["about"] == value.hex())
                if met and operation.tenant.tenant_id == grant.tenant.tenant_id:
                    found.add(operation.id)
        return found


def resume(parts: Parts, only: Collection[bytes] | None = None) -> Iterator[Operation]:
    """Carry on what a crash, or a store that failed, left unfinished; each operation as it stands then.

    With the ids of some, only those.
    """
    with parts.log.records.snapshot() as reader:
        waiting = [
            operation
            for operation in operations.unfinished(parts.log, reader)
            if only is None or operation.id in only
        ]
    executed, failed = [], None
    for operation in waiting:
        try:
            executed.append(parts.execution.executed(operation))
        except Conflict:
            continue  # another process carries it on
        except StorageUnavailable as error:
            failed = error
            break
    yield from parts.execution.proved(executed)
    if failed is not None:
        raise failed


def outcome(parts: Parts, operation: Operation, order: Order) -> Outcome:
    """What came of an operation that was carried out just now."""
    with parts.log.records.snapshot() as reader:
        rows = list(reader.scan("receipts_of_operation", operation_id=operation.id))
    if not rows:
        raise Conflict(_CARRIED_ON)
    made = _of_receipt(operation.id, rows[-1][3])
    return Outcome(
        operation=made.operation,
        state=made.state if operation.row.state != DONE else "verified",
        receipt=made.receipt,
        counts=made.counts,
        key=bytes.fromhex(order.about["key"]),
        items=tuple(name_of(item) for item in order.going()),
    )


def _of_receipt(operation_id: bytes, content: bytes) -> Outcome:
    from vault.sealing.receipts import verified  # noqa: PLC0415 - pydantic: only who erases needs it

    receipt = verified(content, None)
    counts: dict[tuple[str, str], int] = {
        (kind, action): number for kind, found in receipt.counts.items() for action, number in found.items()
    }
    return Outcome(
        operation=format_id("era", operation_id), state=receipt.state, receipt=content, counts=counts
    )
