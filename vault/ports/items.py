"""Derived items as stored rows: memories, summaries, embeddings, artifacts, caches, and their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection


class ItemRow(NamedTuple):
    """One version of a derived item; all but ``no``, ``due_hour`` and ``body`` is under ``mac``.

    ``body`` is None when it stands in the blob area under its address. Times in microseconds since 1970.
    """

    no: int
    item_id: bytes
    tenant_id: bytes
    owner: bytes
    kind: str
    name: bytes
    space: bytes
    version: int
    state: str
    hung: str
    sources: bytes
    created_us: int
    changed_us: int
    retention: bytes
    due_hour: int
    content: int
    about: bytes
    body: bytes | None
    address: bytes
    size: int
    mac: bytes


class Space(NamedTuple):
    """The items of one kind and namespace: all versions counted, and the newest one's number."""

    space: bytes
    newest_no: int
    versions: int


class ItemReader(Protocol):
    """Derived items in one snapshot; another owner's are not found, by the same statements."""

    def by_id(self, item_id: bytes, tenant_id: bytes, owner: bytes) -> ItemRow | None:
        """One version by its id."""
        ...

    def newest(self, name: bytes, tenant_id: bytes, owner: bytes) -> ItemRow | None:
        """The newest version of a name, whatever its state."""
        ...

    def versions(
        self, name: bytes, tenant_id: bytes, owner: bytes, *, before: int, limit: int
    ) -> list[ItemRow]:
        """Versions of a name below ``before``, newest first."""
        ...

    def spaces(self, tenant_id: bytes, owner: bytes, limit: int) -> list[Space]:
        """The kinds and namespaces in which an owner has items."""
        ...

    def of_space(
        self, space: bytes, tenant_id: bytes, owner: bytes, *, after: int, limit: int
    ) -> list[ItemRow]:
        """The versions of a kind and namespace that nothing replaced, with numbers above ``after``."""
        ...

    def newest_of_space(
        self, space: bytes, tenant_id: bytes, owner: bytes, *, before: int, limit: int
    ) -> list[ItemRow]:
        """The same, the newest first, with numbers below ``before``."""
        ...

    def made_from(self, source: bytes, tenant_id: bytes, owner: bytes, limit: int) -> list[ItemRow]:
        """What the owner derived from a session or an item."""
        ...

    def sources_of(self, item_no: int) -> list[bytes]:
        """The ids that the lineage table has for an item."""
        ...


class ItemWriter(ItemReader, Protocol):
    """Derived items in one write transaction."""

    def add(self, row: ItemRow, sources: Collection[bytes]) -> int:
        """Insert a version and what it came from; its number is returned."""
        ...

    def move(self, row: ItemRow, before: ItemRow) -> bool:
        """Compare-and-set of state, times, retention and MAC; False when the stored row is another by now."""
        ...
