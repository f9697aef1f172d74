"""Derived items in SQL, on the connection and in the transaction of the log's own queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vault.errors import Tampered
from vault.ports.items import ItemRow, Space
from vault.ports.records import is_sound
from vault.storage.statements import STATEMENTS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

#: A planted trigger can make a write come to nothing; then it is not acknowledged.
_SWALLOWED: Final = "the database did not take a row: its rules were changed"


class SqlItems:
    """Derived items on one connection, within whatever transaction it is in."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Use a connection that is inside a transaction."""
        self._execute = connection.execute

    def by_id(self, item_id: bytes, tenant_id: bytes, owner: bytes) -> ItemRow | None:
        """One version by its id."""
        place = {"item_id": item_id, "tenant_id": tenant_id, "owner": owner}
        row = self._execute(STATEMENTS["item"], place).fetchone()
        return row and _item_row(row)

    def newest(self, name: bytes, tenant_id: bytes, owner: bytes) -> ItemRow | None:
        """The newest version of a name, whatever its state."""
        place = {"name": name, "tenant_id": tenant_id, "owner": owner}
        row = self._execute(STATEMENTS["newest_item"], place).fetchone()
        return row and _item_row(row)

    def versions(
        self, name: bytes, tenant_id: bytes, owner: bytes, *, before: int, limit: int
    ) -> list[ItemRow]:
        """Versions of a name below ``before``, newest first."""
        place = {"name": name, "tenant_id": tenant_id, "owner": owner, "before": before, "limit": limit}
        return self._rows("versions_of_item", place)

    def spaces(self, tenant_id: bytes, owner: bytes, limit: int) -> list[Space]:
        """The kinds and namespaces in which an owner has items."""
        place = {"tenant_id": tenant_id, "owner": owner, "limit": limit}
        found = [Space._make(row) for row in self._execute(STATEMENTS["spaces_of_owner"], place)]
        if not all(map(is_sound, found)):
            raise Tampered("the database holds a value of the wrong kind")
        return found

    def of_space(
        self, space: bytes, tenant_id: bytes, owner: bytes, *, after: int, limit: int
    ) -> list[ItemRow]:
        """The versions of a kind and namespace that nothing replaced, with numbers above ``after``."""
        place = {"space": space, "tenant_id": tenant_id, "owner": owner, "after": after, "limit": limit}
        return self._rows("items_of_space", place)

    def newest_of_space(
        self, space: bytes, tenant_id: bytes, owner: bytes, *, before: int, limit: int
    ) -> list[ItemRow]:
        """The same, the newest first, with numbers below ``before``."""
        place = {"space": space, "tenant_id": tenant_id, "owner": owner, "before": before, "limit": limit}
        return self._rows("newest_items_of_space", place)

    def made_from(self, source: bytes, tenant_id: bytes, owner: bytes, limit: int) -> list[ItemRow]:
        """What the owner derived from a session or an item."""
        place = {"source": source, "tenant_id": tenant_id, "owner": owner, "limit": limit}
        return self._rows("items_made_from", place)

    def sources_of(self, item_no: int) -> list[bytes]:
        """The ids that the lineage table has for an item."""
        found = [source for (source,) in self._execute(STATEMENTS["lineage_of"], {"item_no": item_no})]
        if not all(isinstance(source, bytes) for source in found):
            raise Tampered("the database holds a value of the wrong kind")
        return found

    def add(self, row: ItemRow, sources: Collection[bytes]) -> int:
        """Insert a version and what it came from."""
        parameters = row._asdict()
        del parameters["no"]
        inserted = self._execute(STATEMENTS["add_item"], parameters).fetchone()
        if inserted is None:
            raise Tampered(_SWALLOWED)
        number = int(inserted[0])
        for source in sources:
            edge = {"source": source, "item_no": number}
            if self._execute(STATEMENTS["add_lineage"], edge).rowcount != 1:
                raise Tampered(_SWALLOWED)
        return number

    def move(self, row: ItemRow, before: ItemRow) -> bool:
        """Compare-and-set of what can change in a version."""
        changed = {
            "state": row.state,
            "changed_us": row.changed_us,
            "retention": row.retention,
            "due_hour": row.due_hour,
            "mac": row.mac,
        }
        place = {"no": before.no, "expected_mac": before.mac, "expected_state": before.state}
        return self._execute(STATEMENTS["move_item"], changed | place).rowcount == 1

    def _rows(self, statement: str, parameters: dict[str, Any]) -> list[ItemRow]:
        return [_item_row(row) for row in self._execute(STATEMENTS[statement], parameters)]


def _item_row(row: tuple[Any, ...]) -> ItemRow:
    found = ItemRow._make(row)
    if not is_sound(found):
        raise Tampered("the database holds a value of the wrong kind")
    return found
