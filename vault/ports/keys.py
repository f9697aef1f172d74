"""Where wrapped keys are kept, apart from the data they open; and where hold and destruction meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: The epoch of a tombstone that stands for all of a scope, also for the epochs that it never had.
WHOLE: Final = -1
#: The purpose of a tombstone of a caller's own id of a session; there are no such keys.
EXTERNAL: Final = "external"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A wrapped key and what it is for.

    ``owner`` is a blind index, empty above the epochs; so is ``tenant_id``, and in rows that were written
    before it was kept.
    """

    purpose: str
    scope: bytes
    epoch: int
    owner: bytes
    wrapped: bytes = field(repr=False)
    tenant_id: bytes = b""


class Doomed(NamedTuple):
    """Keys to destroy: one epoch of a scope, or with ``epoch`` None all of it and what it never had.

    ``tags`` are what a hold can name to keep them (16 bytes each); the scope and the tenant always are.
    """

    purpose: str
    scope: bytes
    epoch: int | None
    tags: frozenset[bytes]


class Condemned(NamedTuple):
    """By scope: the fingerprints of the keys that are dying or gone, or the holds that keep them."""

    fingerprints: Mapping[bytes, tuple[bytes, ...]]
    held: Mapping[bytes, tuple[bytes, ...]]


class Destroyed(NamedTuple):
    """How many keys were deleted, and whether no copy is left in the write-ahead log."""

    keys: int
    truncated: bool


class KeyCount(NamedTuple):
    """How many keys of one purpose a tenant has; ``dying`` are condemned and not yet deleted."""

    tenant_id: bytes
    purpose: str
    live: int
    dying: int


class Epoch(NamedTuple):
    """An epoch of a session that may live on."""

    session_id: bytes
    epoch: int
    owner: bytes
    tenant_id: bytes


class HoldRow(NamedTuple):
    """One tag of a hold; ``lifted_us`` is 0 while it holds."""

    hold_id: bytes
    tenant_id: bytes
    tag: bytes
    placed_us: int
    lifted_us: int


class Tombstone(NamedTuple):
    """A place whose key is dying or gone; epoch ``WHOLE`` for all of a scope."""

    purpose: str
    scope: bytes
    epoch: int
    owner: bytes
    tenant_id: bytes
    fingerprint: bytes
    operation: bytes
    destroyed_us: int


class Destruction(Protocol):
    """How keys end; every change is durable on return."""

    def is_destroyed(self, purpose: str, scope: bytes, epoch: int) -> bytes | None:
        """The operation that destroyed this place's key, or is about to; None when nobody did."""
        ...

    def condemn(
        self,
        operation: bytes,
        tenant_id: bytes,
        doomed: Sequence[Doomed],
        now_us: int,
        *,
        again: bool = False,
    ) -> Condemned:
        """Decide, in one transaction, which keys die: all but those with an active hold.

        What was condemned before stays so, whatever holds were placed since: asked again, by this operation
        or another, the answer is the same fingerprints. What was held is looked at anew. With ``again`` no
        hold counts: the ledger says that all of it was erased, so the holds are those of an old copy.

        Raises:
            Tampered: a key is another tenant's; nothing was condemned.
        """
        ...

    def destroy(self, operation: bytes) -> Destroyed:
        """Delete the keys that an operation condemned, then empty the write-ahead log.

        Asked again it deletes nothing more, and tries again to empty the log.
        """
        ...

    def newest_withdrawn(self) -> int:
        """A number that grows whenever any process takes a key away, or condemns it; 0 before the first."""
        ...

    def withdrawn_after(self, number: int) -> frozenset[bytes] | None:
        """The scopes that lost a key since that number; None when that is too long ago to say."""
        ...

    def operations_dying(self) -> list[bytes]:
        """The operations whose keys were condemned and not yet deleted."""
        ...

    def dying_of(self, tenant_id: bytes) -> list[bytes]:
        """The scopes of a tenant whose keys were condemned and not yet deleted."""
        ...

    def graves(self) -> set[bytes]:
        """The scopes that were destroyed as a whole, or are dying."""
        ...

    def epochs_of(self, session_id: bytes) -> list[int]:
        """The numbers of a session's keys, without those that are dying."""
        ...

    def epochs_due(self, hour: int) -> Iterator[Epoch]:
        """The keys of epochs whose hour (`policy/epochs`) is over, the earliest first."""
        ...

    def epochs_of_operation(self, operation: bytes) -> list[Epoch]:
        """The epochs that an operation destroyed by themselves, or is destroying."""
        ...

    def tombstones(self, tenant_id: bytes | None = None) -> Iterator[Tombstone]:
        """What was destroyed or is dying, of one tenant or of the vault."""
        ...


class Holds(Protocol):
    """What must not be destroyed; every change is durable on return."""

    def place_hold(
        self, hold_id: bytes, tenant_id: bytes, tags: Sequence[bytes], now_us: int
    ) -> tuple[bytes, ...]:
        """Hold everything that carries one of the tags, from this transaction on. The same again is a no-op.

        Returns:
            The scopes that it may come too late for: those among the tags that were destroyed, and all of the
            tenant's that are dying.

        Raises:
            Conflict: the id is another hold's, or of one that was lifted.
        """
        ...

    def lift_hold(self, hold_id: bytes, tenant_id: bytes, now_us: int) -> bool:
        """End a hold; False when the tenant has no such hold that is active."""
        ...

    def holds(self, tenant_id: bytes) -> list[HoldRow]:
        """All holds of a tenant, lifted ones too, oldest first."""
        ...

    def held(self, tenant_id: bytes, tags: Sequence[bytes]) -> list[bytes]:
        """The active holds on one of these tags, or on the tenant."""
        ...


class KeyStore(Destruction, Holds, Protocol):
    """A durable table of wrapped keys, of tombstones and of holds."""

    def put(self, rows: Sequence[KeyRow], *, under: KeyRow | None = None) -> bool:
        """Store all rows, or none when one is there already (then False).

        Args:
            rows: the keys.
            under: the row of the key that they are wrapped under, as it was read.

        Raises:
            Erased: the key of one of the places was destroyed.
            Conflict: ``under`` is not what is stored any more: wrap them again, under what is.
            StorageUnavailable: nothing was stored.
        """
        ...

    def get(self, purpose: str, scope: bytes, epoch: int, owner: bytes) -> KeyRow | None:
        """The row of this place and owner, or None; never one that is dying, or that was destroyed."""
        ...

    def owns(self, purpose: str, scope: bytes, owner: bytes) -> bool:
        """Whether an owner has a key in a scope that is neither dying nor destroyed with all of it."""
        ...

    def rewrite(self) -> bool:
        """Write the whole table anew, with nothing in it but what is live; whether that was done."""
        ...

    def drop(self, purpose: str, scope: bytes, epochs: Sequence[int]) -> bool:
        """Delete keys that others have taken the place of; whether no copy is left in the write-ahead log.

        It leaves no tombstone: nothing was erased. What is dying stays, for the operation that condemned it.
        """
        ...

    def rows(self) -> Iterator[KeyRow]:
        """Every row that ``get`` would answer; only for verification and re-wrapping."""
        ...

    def rows_of(self, tenant_id: bytes | None) -> Iterator[KeyRow]:
        """The rows of a tenant that ``get`` would answer; with None, those that hang under the root key."""
        ...

    def rewrap(
        self,
        tenant_id: bytes | None,
        again: Callable[[KeyRow], bytes],
        *,
        under: KeyRow | None = None,
        record: tuple[bytes, bytes] | None = None,
    ) -> int:
        """Replace the wraps of ``rows_of`` in one transaction, durably; how many there were.

        Args:
            tenant_id: whose; None for those that hang under the root key.
            again: gives a row's new wrap; called inside the transaction, so what takes long is done before.
            under: the row of the key that they hang under, as it was read.
            record: the root record as it was read, and the one to put in its place.

        Raises:
            Conflict: ``under`` or the root record is not what is stored any more; nothing was changed.
        """
        ...

    def adopt(self, owner: bytes, tenant_id: bytes) -> None:
        """Note whose an owner's keys are, in rows that were written before that was kept."""
        ...

    def counts(self) -> list[KeyCount]:
        """How many keys there are, by tenant and purpose."""
        ...
