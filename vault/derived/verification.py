"""Verification of derived items: rows, bodies, names, and that each came from what it says, both ways."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from vault.derived.opening import READABLE, Opened, Opener, open_body, open_naming, open_stream
from vault.derived.sources import DERIVED, decode
from vault.errors import Erased, KeyUnavailable, StorageUnavailable, Tampered, VaultError
from vault.model import format_id
from vault.policy.durations import HOUR_US
from vault.policy.epochs import key_number
from vault.policy.retention import Times, due_us
from vault.policy.terms import decode as decode_terms
from vault.ports.items import ItemRow
from vault.ports.records import is_sound
from vault.sealing.item_rows import STATES
from vault.sessions.log import JSON

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from vault.ports.records import Reader
    from vault.sealing.uses import EpochKeys, TenantKeys
    from vault.sessions.log import Log

_PAGE: Final = 200
_CHUNK: Final = 2**20
#: What an erasure makes of an item without its key; its MAC speaks of the state before.
_FENCED: Final = frozenset({"erasing"})


class Found(NamedTuple):
    """One thing that is wrong: its kind, the place, and what it means."""

    kind: str
    place: str
    detail: str


class ItemsVerification:
    """The checks of all derived items of a vault.

    Afterwards ``items`` says how many there are, ``named`` holds the addresses of their bodies in the blob
    area, and ``ids`` their ids: an item's key that is not among them is of a put that was cut off, or of an
    item that was removed.
    """

    def __init__(self, log: Log, *, with_keys: bool = True) -> None:
        """Check this vault's; without keys, only what can be told without them."""
        self._log, self._with_keys = log, with_keys
        self._tenants: dict[bytes, TenantKeys | None] = {}
        self._unfinished = False
        self.items = 0
        self.named: set[bytes] = set()
        self.ids: set[bytes] = set()

    def run(self) -> Iterator[Found]:
        """What is wrong, item by item, each page from one snapshot."""
        with self._log.records.snapshot() as reader:
            self._unfinished = next(reader.scan("unfinished_operations"), None) is not None
            for source, number in reader.scan("all_stray_lineage"):
                shown = source.hex() if isinstance(source, bytes) else "?"
                yield Found("lineage", f"source {shown} of item number {number}", "leads to no derived item")
            for tenant_id, owner, name in reader.scan("all_doubtful_names"):
                row = reader.items.newest(name, tenant_id, owner)
                place = self._place(row) if row is not None else "a derived item"
                yield Found("item_version", place, "an older version of it counts as the newest too")
        after = 0
        while True:
            with self._log.records.snapshot() as reader:
                page = [ItemRow._make(row) for row in reader.scan("all_items", after=after, limit=_PAGE)]
                checked = [(row, list(self._row(reader, row))) for row in page]
            for row, findings in checked:
                yield from findings
                self.items += 1
                after = row.no
            if len(page) < _PAGE:
                return

    def unused_keys(self, item_ids: Collection[bytes]) -> int:
        """How many items' keys are of no item: of a put that was cut off, or of an item that was removed."""
        return len(set(item_ids) - self.ids)

    def _place(self, row: ItemRow) -> str:
        prefix = "art" if row.kind == "artifact" else "mem"
        return format_id(prefix, row.item_id) if isinstance(row.item_id, bytes) else f"item number {row.no}"

    def _lost(self, reader: Reader, row: ItemRow) -> bool:
        """Whether an item that does not open should: not when it went with an event that it came from."""
        should = self._with_keys and row.state in READABLE and not self._unfinished
        return should and not self._went_with_an_event(reader, row)

    def _went_with_an_event(self, reader: Reader, row: ItemRow) -> bool:
        """Whether the epoch of an event that it came from, at whatever remove, was destroyed by itself."""
        tenant = self._log.keys.tenant_by_id(row.tenant_id)
        for source in decode(row.sources):
            if source.kind == "event" and source.epoch and tenant is not None:
                owner = reader.owner_of(source.id, row.tenant_id) or b""
                session = reader.session(source.id, row.tenant_id, owner)
                number = key_number(session.epoch if session else 0, source.epoch)
                try:
                    self._log.keys.epoch(tenant, owner, source.id, number)
                except Erased:
                    return True
            elif source.kind in {"memory", "artifact"}:
                before = reader.items.by_id(source.id, row.tenant_id, row.owner)
                if before is not None and self._went_with_an_event(reader, before):
                    return True
        return False

    def _row(self, reader: Reader, row: ItemRow) -> Iterator[Found]:
        place = self._place(row)
        if not is_sound(row):
            yield Found("item_row", place, "holds a value of the wrong kind")
            return
        self.ids.add(row.item_id)
        if row.body is None:
            self.named.add(row.address)
        if row.state not in STATES and row.state not in _FENCED:
            yield Found("item_row", place, "is in no known state")
        # One that a hold or a minimum keeps stays fenced, and the sweep has it before it.
        waits = 0 < row.due_hour <= self._log.clock.now_us() // HOUR_US
        if row.state == "erasing" and not self._unfinished and not waits:
            yield Found("item_row", place, "is fenced, and no erasure is under way")
        try:
            yield from self._sources(reader, row, place)
            opened = self._opened(reader, row) if self._with_keys else None
            if opened is not None:
                yield from self._names(row, opened, place)
            elif self._lost(reader, row):
                yield Found("item_source", place, "what its key hangs on is gone, and it is not")
        except VaultError as error:
            yield Found("item_row", place, str(error))
            opened = None
        if row.state == "erasing" and self._unfinished:
            return  # its body may be gone already
        try:
            self._body(row, opened)
        except VaultError as error:
            yield Found("item_body", place, str(error))

    def _opened(self, reader: Reader, row: ItemRow) -> Opened | None:
        """The item, its row verified; None when its key is gone.

        Raises:
            Tampered: the row, or one that it came from, was changed.
        """
        tenant = self._tenant(row.tenant_id)
        if tenant is None:
            raise KeyUnavailable("the key store holds no key for this derived item's tenant")
        keys = self._keys(tenant, reader, row)
        return None if keys is None else Opened(row, keys, open_naming(keys, row))

    def _keys(self, tenant: TenantKeys, reader: Reader, row: ItemRow) -> EpochKeys | None:
        if row.state not in _FENCED:
            return Opener(self._log, tenant, row.owner, reader).keys_of(row)
        refused: Tampered | None = None
        for state in STATES:
            try:
                return Opener(self._log, tenant, row.owner, reader).keys_of(row._replace(state=state))
            except Tampered as error:
                refused = error
        raise refused or Tampered("a derived item's row does not verify")

    def _tenant(self, tenant_id: bytes) -> TenantKeys | None:
        if tenant_id not in self._tenants:
            self._tenants[tenant_id] = self._log.keys.tenant_by_id(tenant_id)
        return self._tenants[tenant_id]

    def _sources(self, reader: Reader, row: ItemRow, place: str) -> Iterator[Found]:
        """Hold the lineage table against what the item itself says; what is gone is not in it any more."""
        said = {one.id for one in decode(row.sources) if one.role == DERIVED}
        stored = set(reader.items.sources_of(row.no))
        if stored - said:
            yield Found("lineage", place, "the lineage has a source for it that it does not name")
        missing = [id_ for id_ in said - stored if self._is_there(reader, row, id_)]
        if missing:
            yield Found(
                "lineage", place, "the lineage lacks a source that it names: an erasure would not find it"
            )

    def _is_there(self, reader: Reader, row: ItemRow, source_id: bytes) -> bool:
        return (
            reader.owner_of(source_id, row.tenant_id) is not None
            or reader.items.by_id(source_id, row.tenant_id, row.owner) is not None
        )

    def _names(self, row: ItemRow, opened: Opened, place: str) -> Iterator[Found]:
        """What is sealed in it, against the indexes that lead to it."""
        tenant, about = self._tenants[row.tenant_id], opened.about
        if tenant is not None:
            name = tenant.blind("item", row.kind, *about["namespace"], about["key"])
            if (name, tenant.blind("space", row.kind, *about["namespace"])) != (row.name, row.space):
                yield Found("item_name", place, "its indexes are not of the name that is sealed in it")
        if row.retention and row.state in READABLE:
            due = due_us(decode_terms(row.retention), Times(row.created_us, row.created_us)) // HOUR_US
            if due and not 0 < row.due_hour <= due:
                yield Found("item_row", place, "the sweep would look at it too late")

    def _body(self, row: ItemRow, opened: Opened | None) -> None:
        """Check the sealed bytes against their address, and with the keys that they open to the end.

        Raises:
            VaultError: they do not.
        """
        if row.body is not None:
            if hashlib.sha256(row.body).digest() != row.address or len(row.body) != row.size:
                raise Tampered("its sealed bytes are not those of its address")
        elif opened is None:
            self._file(row)
        if opened is None:
            return
        if row.content == JSON:
            open_body(self._log, opened)
            return
        with open_stream(self._log, opened) as stream:  # every chunk is authenticated before it is made
            stream.read(1)

    def _file(self, row: ItemRow) -> None:
        digest = hashlib.sha256()
        try:
            with self._log.blobs.open(row.address) as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except OSError:
            raise StorageUnavailable("its file cannot be read") from None
        if digest.digest() != row.address:
            raise Tampered("its sealed bytes are not those of its address")
