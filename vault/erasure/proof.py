"""Whether anything is left of what was erased, and the signed receipt of what was found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from vault.derived.item import item_name
from vault.erasure import operations
from vault.erasure.backup import DATA, KEYS
from vault.erasure.facts import exists
from vault.erasure.fence import SESSION
from vault.erasure.operations import DONE, INCOMPLETE, Operation
from vault.erasure.outbox import ENDED, FAILED, PROBED
from vault.errors import StorageUnavailable
from vault.model import format_id
from vault.policy.durations import FOREVER_US
from vault.ports.operations import ReceiptRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vault.audit.trail import AuditTrail
    from vault.policy.plan import Item
    from vault.policy.receipt import Exempted, Receipt, State, Store, Unchecked
    from vault.ports.keys import KeyStore
    from vault.ports.records import Transaction
    from vault.ports.remains import Remains
    from vault.sealing.notes import Signer
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log

#: The type of its entry in the audit trail.
PROVED: Final = "erasure.proved"
_ACTIONS: Final = {
    "erase": "erased",
    "recompute": "recomputed",
    "detach": "detached",
    "held": "held",
    "minimum": "minimum",
}
#: What no vault can look into (`receipt.OUT_OF_REACH`), and the memory of whoever had it open.
_NEVER_CHECKED: Final[tuple[Unchecked, ...]] = (
    "backups",
    "exported_copies",
    "filesystem_snapshots",
    "model_provider",
    "process_memory",
    "replicas",
    "storage_media",
    "swap",
)
_READER: Final[tuple[Unchecked, ...]] = ("open_reader",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What the look through all files found of one erasure."""

    looked: bool
    remains: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    left: int  # rows, keys and files that are still there
    waiting: int  # external targets that did not do it yet
    remains: bool  # pieces found in files
    pending: bool  # a write-ahead log that somebody still reads
    looked: bool  # whether the files could be looked through


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Looks for what is left, then signs. ``told`` writes into the tenant's audit trail."""

    log: Log
    store: KeyStore = field(repr=False)
    remains: Remains
    signer: Signer = field(repr=False)
    told: Callable[[TenantKeys, Operation, str], None]

    def search(
        self, executed: Sequence[Operation], progress: Callable[[int, int], None] | None = None
    ) -> list[Searched]:
        """Look once through all files for what some erasures took, each by its own pieces.

        Args:
            executed: erasures whose keys, rows and files are gone, of whatever tenants.
            progress: told (bytes done, bytes in all).
        """
        return self.searched([_needles(operation) for operation in executed], progress)

    def searched(
        self, needles: Sequence[Sequence[bytes]], progress: Callable[[int, int], None] | None = None
    ) -> list[Searched]:
        """Look once through all files for groups of pieces; what a database left behind is written over."""
        try:
            _, names = self.remains.found(needles, progress)
            if self._rewritten({file for found in names for file in found}):
                _, names = self.remains.found(needles, progress)
        except StorageUnavailable:
            return [Searched(looked=False) for _ in needles]
        return [Searched(looked=True, remains=bool(found)) for found in names]

    def _rewritten(self, files: set[str]) -> bool:
        """Whether databases in which pieces were found were written anew: only what is live is copied.

        A database moves rows from page to page, and clears what it deletes, but not what it left behind when
        it moved it.
        """
        done = [self.store.rewrite()] if KEYS in files else []
        done += [self.log.records.rewrite()] if DATA in files else []
        return any(done)

    def __call__(self, operation: Operation, searched: Searched) -> Operation:
        """The operation done, or incomplete when something is left; each with its receipt."""
        seen = self._look(operation, searched)
        state = _state(seen)
        last = operation.order.about.get("told")
        if state == last and state != "verified":  # nothing new to sign
            return self._moved(operation, INCOMPLETE, operation.order.about, None) or operation
        about = operation.order.about | {"told": state}
        return self._signed(operation, seen, state, about)

    def _look(self, operation: Operation, searched: Searched) -> _Seen:
        about, going = operation.order.about, operation.order.going()
        with self.log.records.snapshot() as reader:
            left = sum(exists(reader, operation.tenant, item.id) for item in going)
        for item in going:
            if item.kind == SESSION:
                purpose, there = "epoch", bool(self.store.epochs_of(item.id))
            else:
                purpose, there = "item", self.store.get("item", item.id, 0, item.owner) is not None
            left += there + (self.store.is_destroyed(purpose, item.id, 0) is None)
        pending = not (about.get("truncated") and about.get("keys_truncated"))
        waiting = sum(state not in ENDED for state in about.get("external", {}).values())
        return _Seen(
            left=left + about.get("left", 0),
            waiting=waiting,
            remains=searched.remains,
            pending=pending,
            looked=searched.looked,
        )

    def _signed(self, operation: Operation, seen: _Seen, state: str, about: dict[str, Any]) -> Operation:
        from vault.policy.receipt import digest  # noqa: PLC0415 - pydantic: only who erases needs it
        from vault.sealing.receipts import signed  # noqa: PLC0415 - the same

        while True:
            receipt = self._receipt(operation, seen, state, about)
            content = signed(self.signer, receipt)
            self.told(operation.tenant, operation, digest(receipt))
            row = ReceiptRow(operation.id, receipt.number, operation.tenant.tenant_id, content)
            done = self._moved(operation, DONE if state == "verified" else INCOMPLETE, about, row)
            if done is not None:
                return done

    def _moved(
        self, operation: Operation, state: str, about: dict[str, Any], receipt: ReceiptRow | None
    ) -> Operation | None:
        order = operations.Order(items=operation.order.items, about=about)

        def work(transaction: Transaction) -> Operation | None:
            if receipt is not None:
                newest = next(transaction.scan("newest_receipt", tenant_id=receipt.tenant_id), None)
                if (newest[1] if newest else 0) + 1 != receipt.number:
                    return None  # another erasure of this tenant was signed meanwhile
                transaction.change("add_receipt", **receipt._asdict())
            return operations.move(self.log, transaction, operation, state, order)

        return self.log.records.transact(work)

    def _receipt(self, operation: Operation, seen: _Seen, state: str, about: dict[str, Any]) -> Receipt:
        from vault.policy import receipt as words  # noqa: PLC0415 - pydantic: only who erases needs it
        from vault.sealing import receipts  # noqa: PLC0415 - the same

        tenant = operation.tenant
        with self.log.records.snapshot() as reader:
            newest = next(reader.scan("newest_receipt", tenant_id=tenant.tenant_id), None)
            earlier = list(reader.scan("receipts_of_operation", operation_id=operation.id))
        name = format_id("era", operation.id)
        key = bytes.fromhex(about["key"])
        going = operation.order.going()
        marks = sorted(receipts.item_mark(key, name, name_of(item)) for item in going)
        prints = [bytes.fromhex(one) for one in about.get("fingerprints", [])]
        requester = about["by"]
        return words.Receipt(
            operation=name,
            vault=self.signer.name,
            tenant=receipts.pseudonym(tenant.pseudonym_key("receipt", 0), "tenant", tenant.tenant_id.hex()),
            number=(newest[1] if newest else 0) + 1,
            previous=_digest(newest[3]) if newest else words.NO_RECEIPT,
            follows=_digest(earlier[-1][3]) if earlier else None,
            state=cast("State", state),
            selector=words.Selector(kind=about["selector"], mark=about["selector_mark"]),
            subject=about.get("subject_mark"),
            requested_by=words.Requester(pseudonym=requester, role=about["role"]),
            reason=about["reason"],
            policy=about["policy"],
            plan=about["plan"],
            counts=_counts(operation),
            items=words.Items(count=len(marks), root=receipts.tree_root(marks).hex()),
            keys=words.Keys(destroyed=len(prints), root=receipts.tree_root(prints).hex()),
            stores=_stores(seen, about),
            exceptions=_exceptions(operation),
            not_checked=_unchecked(seen, about),
            times=words.Times(
                requested_us=about["requested_us"],
                invisible_us=about["invisible_us"],
                erased_us=about["erased_us"] if state != "incomplete" else None,
                verified_us=self.log.clock.now_us() if state == "verified" else None,
            ),
            backup_horizon_us=about.get("backup_horizon_us"),
            barrier=words.Barrier(state="pending", at_us=None),
        )


def _needles(operation: Operation) -> list[bytes]:
    gone = {item.id.hex() for item in operation.order.going()}
    return [bytes.fromhex(piece) for id_, piece in operation.order.about.get("needles", []) if id_ in gone]


def name_of(item: Item) -> str:
    """The id of a session or item as people see it."""
    return format_id("ses", item.id) if item.kind == SESSION else item_name(item.kind, item.id)


def _unchecked(seen: _Seen, about: dict[str, Any]) -> tuple[Unchecked, ...]:
    found = [*_NEVER_CHECKED, *(_READER if seen.pending else ())]
    if any(state != PROBED for state in about.get("external", {}).values()):
        found.append("external_targets")
    return tuple(sorted(found))


def _state(seen: _Seen) -> str:
    if seen.left or seen.waiting or (seen.remains and not seen.pending):
        return "incomplete"
    return "executed" if seen.pending or not seen.looked else "verified"


def _digest(content: bytes) -> str:
    from vault.policy.receipt import digest  # noqa: PLC0415 - pydantic: only who erases needs it
    from vault.sealing.receipts import verified  # noqa: PLC0415 - the same

    return digest(verified(content, None))


def _counts(operation: Operation) -> dict[Any, dict[Any, int]]:
    counts: dict[str, Counter[str]] = {}
    for item in operation.order.items:
        if item.action in _ACTIONS:
            counts.setdefault(item.kind, Counter())[_ACTIONS[item.action]] += 1
    return {kind: dict(found) for kind, found in counts.items()}


def _exceptions(operation: Operation) -> tuple[Exempted, ...]:
    from vault.policy.receipt import Exempted  # noqa: PLC0415 - pydantic: only who erases needs it

    kept: Counter[tuple[Any, Any, int]] = Counter()
    for item in operation.order.items:
        if item.action in {"held", "minimum"}:
            kept[item.kind, "hold" if item.action == "held" else "minimum", item.until_us] += 1
    # A minimum whose clock has not started ends on a date that nobody knows yet.
    return tuple(
        Exempted(
            kind=kind, count=count, basis=basis, until_us=until_us if 0 < until_us < FOREVER_US else None
        )
        for (kind, basis, until_us), count in sorted(kept.items())
    )


def _stores(seen: _Seen, about: dict[str, Any]) -> tuple[Store, ...]:
    from vault.policy.receipt import Store  # noqa: PLC0415 - pydantic: only who erases needs it

    def store(name: str, rows: int, blobs: int, emptied: bool | None, *, done: bool) -> Store:  # noqa: FBT001
        result = cast("Any", "done" if done else "failed")
        return Store(store=name, rows=rows, blobs=blobs, wal_truncated=emptied, result=result)

    whole, files = not seen.left and (seen.pending or not seen.remains), not about.get("left")
    keys = len(about.get("fingerprints", []))
    return (
        store("blobs", 0, about.get("blobs", 0), None, done=files),
        store("data.db", about.get("rows", 0), 0, bool(about.get("truncated")), done=whole),
        store("keys.db", keys, 0, bool(about.get("keys_truncated")), done=whole),
        *_external(about.get("external", {})),
    )


def _external(states: dict[str, str]) -> Iterator[Store]:
    from vault.policy.receipt import Store  # noqa: PLC0415 - pydantic: only who erases needs it

    for number, (_, state) in enumerate(sorted(states.items()), start=1):
        result = "done" if state in ENDED else "failed" if state == FAILED else "unreachable"
        yield Store(
            store=f"external:{number}", rows=0, blobs=0, wal_truncated=None, result=cast("Any", result)
        )


def told(trail: AuditTrail) -> Callable[[TenantKeys, Operation, str], None]:
    """What writes an erasure's receipt into the tenant's audit trail, before it is stored."""

    def tell(tenant: TenantKeys, operation: Operation, receipt: str) -> None:
        about = operation.order.about
        said = {"operation": operation.id.hex(), "receipt": receipt, "selector": about["selector"]}
        value = bytes.fromhex(about["about"])
        trail.write(
            tenant,
            PROVED,
            bytes.fromhex(about["who"]),
            b"",
            said,
            about=("erasure", value) if value else None,
        )

    return tell


def noted_receipt(log: Log, trail: AuditTrail) -> Callable[[bytes, bytes, str], None]:
    """What writes a further receipt of an erasure into the audit trail: tenant, operation, digest."""

    def note(tenant_id: bytes, operation_id: bytes, receipt: str) -> None:
        tenant = log.keys.tenant_by_id(tenant_id)
        if tenant is not None:
            trail.write(tenant, PROVED, b"", b"", {"operation": operation_id.hex(), "receipt": receipt})

    return note
