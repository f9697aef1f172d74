"""Opening a derived item: its key hangs on its sources' keys, so those are opened first, down to the log."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from vault.derived.item import ABSENT, RULES
from vault.derived.sources import DERIVED, decode
from vault.encoding import json_value
from vault.errors import Erased, NotFound, Tampered
from vault.policy.epochs import key_number
from vault.policy.retention import Times, decide, is_visible
from vault.policy.terms import decode as decode_terms
from vault.sealing import item_rows, rows
from vault.sealing.item_rows import LIVE, STALE, SUPERSEDED
from vault.sealing.payload import unseal, unseal_stream

if TYPE_CHECKING:
    from vault.derived.sources import Source
    from vault.ports.items import ItemRow
    from vault.ports.records import Reader
    from vault.sealing.uses import EpochKeys, TenantKeys
    from vault.sessions.log import Log

#: States in which an item can be read by its id, and something be derived from it.
READABLE: Final = frozenset({LIVE, SUPERSEDED})
#: Sources that are items themselves.
_ITEMS: Final = frozenset({"memory", "artifact"})


class Opened(NamedTuple):
    """A verified item: its row, its keys, and what is sealed beside its body."""

    row: ItemRow
    keys: EpochKeys
    about: dict[str, Any]

    def __repr__(self) -> str:
        """Nothing that a user supplied."""
        return f"Opened({self.row.kind})"


class Opener:
    """Opens the items of one owner in one snapshot or transaction; looks nothing up twice."""

    def __init__(self, log: Log, tenant: TenantKeys, owner: bytes, reader: Reader) -> None:
        """Open for this owner only: another's items are not found."""
        self._log, self._tenant, self._owner, self._reader = log, tenant, owner, reader
        self._sessions: dict[bytes, bytes | None] = {}  # whose they are; None: gone
        self._own: dict[bytes, int] = {}  # the numbers of their own epochs
        self._keys: dict[bytes, EpochKeys | None] = {}  # of items, by id; None: gone
        log.keys.kept.refresh()  # before any key comes out of memory: another process may have destroyed it

    def opened(self, row: ItemRow) -> Opened:
        """A readable item of a stored row.

        Raises:
            NotFound: it is being erased, has expired, or its key went with a source.
            Tampered: the row was changed, moved or forged.
        """
        if row.state not in READABLE:
            raise NotFound(ABSENT)
        keys = self.keys_of(row)
        if keys is None or not is_shown(row, self._log.clock.now_us()):
            raise NotFound(ABSENT)
        return Opened(row, keys, open_about(keys, row))

    def by_id(self, item_id: bytes) -> Opened:
        """A readable item by its id.

        Raises:
            As ``opened``.
        """
        row = self._row(item_id)
        if row is None:
            raise NotFound(ABSENT)
        return self.opened(row)

    def if_shown(self, row: ItemRow) -> Opened | None:
        """As ``opened``, but None for what is not there for a reader."""
        try:
            return self.opened(row)
        except NotFound:
            return None

    def keys_of(self, row: ItemRow) -> EpochKeys | None:
        """The keys of an item, its row verified with them; None when they went with a source.

        Raises:
            Tampered: a row on the way was changed, moved or forged.
            KeyUnavailable: a key is missing that nobody destroyed.
        """
        # Without recursion: a memory that is written anew each day is derived from itself a thousand times.
        way, passed = [row], {row.item_id}
        while way:
            here = way[-1]
            # A key that was opened before: it is enough that its sources are there themselves.
            known = self._log.keys.known_item(self._tenant, here.owner, here.item_id)
            before = None if known is not None else self._next(here)
            if before is None:
                self._keys[here.item_id] = self._opened_keys(here, known)
                passed.discard(way.pop().item_id)
            elif before.item_id in passed:
                raise Tampered("a derived item is said to come from itself: its row is forged")
            else:
                way.append(before)
                passed.add(before.item_id)
        return self._keys[row.item_id]

    def _next(self, row: ItemRow) -> ItemRow | None:
        """A source of an item that has to be opened before it; None when there is none left."""
        for source in () if row.hung == "free" else decode(row.sources):
            if source.kind in _ITEMS and source.id not in self._keys:
                before = self._row(source.id)
                if before is not None and before.state in READABLE:
                    return before
                self._keys[source.id] = None
        return None

    def _opened_keys(self, row: ItemRow, keys: EpochKeys | None) -> EpochKeys | None:
        """The keys of an item whose sources are opened, or that are known; its row verified with them."""
        sources = [one for one in decode(row.sources) if one.role == DERIVED]
        if row.hung not in RULES or not sources:
            raise Tampered("a derived item does not say what it hangs on: its row was changed")
        if row.hung != "free":
            there = sum(map(self._is_there if keys is not None else self._has_key, sources))
            if there < (1 if row.hung == "last" else len(sources)):
                return None
        if keys is None:
            hung = "any" if row.hung == "recompute" else row.hung
            wrappings = [] if row.hung == "free" else [self._wrapping(one) for one in sources]
            try:
                keys = self._log.keys.item(self._tenant, row.owner, row.item_id, hung, wrappings)
            except Erased:
                return None
        rows.check(item_rows.item_mac(keys.mac, row), row.mac, "a derived item's row")
        return keys

    def _has_key(self, source: Source) -> bool:
        return self._wrapping(source) is not None

    def _is_there(self, source: Source) -> bool:
        """Whether a source is there, itself: what it came from is its own business."""
        if source.kind not in _ITEMS:
            return self._owner_of(source.id) is not None
        if source.id in self._keys:
            return self._keys[source.id] is not None
        row = self._row(source.id)
        return row is not None and row.state in READABLE

    def _wrapping(self, source: Source) -> bytes | None:
        """What an item hangs on at one of its sources; None when that is gone."""
        if source.kind in _ITEMS:
            keys = self._keys[source.id]
            return None if keys is None else keys.wrapping
        owner = self._owner_of(source.id)
        if owner is None:
            return None
        try:
            number = key_number(self._own[source.id], source.epoch)
            return self._log.keys.epoch(self._tenant, owner, source.id, number).wrapping
        except Erased:
            return None

    def _owner_of(self, session_id: bytes) -> bytes | None:
        """Whose a source session is; None when it is gone or going."""
        if session_id not in self._sessions:
            tenant_id = self._tenant.tenant_id
            owner = self._reader.owner_of(session_id, tenant_id)
            row = None if owner is None else self._reader.session(session_id, tenant_id, owner)
            self._sessions[session_id] = None if row is None or row.state == "erasing" else owner
            self._own[session_id] = 0 if row is None else row.epoch
        return self._sessions[session_id]

    def _row(self, item_id: bytes) -> ItemRow | None:
        row = self._reader.items.by_id(item_id, self._tenant.tenant_id, self._owner)
        if row is not None and row.item_id != item_id:
            raise Tampered("the database answered with another derived item")
        return row


def is_shown(row: ItemRow, now_us: int) -> bool:
    """Whether an item's time is not over, and nobody asked for its erasure."""
    return not row.retention or is_visible(
        decode_terms(row.retention), row.created_us, row.created_us, 0, now_us
    )


def expires_us(row: ItemRow) -> int | None:
    """When an item is hidden by its terms; None: never."""
    if not row.retention:
        return None
    times = Times(row.created_us, row.created_us)
    return decide(decode_terms(row.retention), times, held=False, now_us=0).expires_us


def open_about(keys: EpochKeys, row: ItemRow) -> dict[str, Any]:
    """What is sealed beside the body of a verified row: namespace, key, labels, media type, reason.

    Raises:
        Erased: the row only asks for an item again: nothing reads it, or binds it by a policy, as one.
    """
    if row.state == STALE:
        raise Erased("what this names was erased, and is only asked for again")
    return open_naming(keys, row)


def open_naming(keys: EpochKeys, row: ItemRow) -> dict[str, Any]:
    """As ``open_about``, also of a row that only asks for an item again."""
    about: dict[str, Any] = json_value(unseal(keys.payload, keys.context(b"about"), row.about))
    return about


def open_body(log: Log, found: Opened) -> bytes:
    """The body of an item that is held in memory whole.

    Raises:
        Tampered: missing, changed, or another's.
    """
    row, keys = found.row, found.keys
    if row.body is None:
        with log.blobs.open(row.address) as file:
            sealed = file.read(row.size + 1)
    else:
        sealed = row.body
    if hashlib.sha256(sealed).digest() != row.address:
        raise Tampered("a stored blob is not the one that a derived item names")
    return unseal(keys.payload, keys.context(b"payload"), sealed)


def open_stream(log: Log, found: Opened) -> BinaryIO:
    """A reader of an item's body in constant memory, after all of it was authenticated.

    Raises:
        Tampered: missing, changed, or another's.
    """
    row, keys = found.row, found.keys
    source = log.blobs.open(row.address) if row.body is None else io.BytesIO(row.body)
    return unseal_stream(keys.payload, keys.context(b"payload"), source, row.address)
