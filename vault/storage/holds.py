"""Holds, beside the keys that they keep: so that hold and destruction are decided in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from vault.errors import Conflict, Tampered
from vault.ports.keys import HoldRow
from vault.ports.records import is_sound
from vault.storage.statements import STATEMENTS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from vault.storage.sqlite import Database


R = TypeVar("R", bound=tuple[Any, ...])

_WRONG_KIND: Final = "keys.db holds a value of the wrong kind; restore it from its backup"


class SqlHolds:
    """The table of holds."""

    def __init__(self, database: Database) -> None:
        """Serve holds from a migrated database of keys."""
        self._database = database

    def place_hold(
        self, hold_id: bytes, tenant_id: bytes, tags: Sequence[bytes], now_us: int
    ) -> tuple[bytes, ...]:
        """Hold everything that carries one of the tags; the scopes that it may come too late for."""
        wanted = sorted(set(tags))

        def work(connection: sqlite3.Connection) -> tuple[bytes, ...]:
            there = [HoldRow(*row) for row in connection.execute(STATEMENTS["hold"], {"hold_id": hold_id})]
            if there and [(row.tenant_id, row.tag, row.lifted_us) for row in there] != [
                (tenant_id, tag, 0) for tag in wanted
            ]:
                raise Conflict("a hold with this id was placed before; give another id")
            for tag in () if there else wanted:
                row = {"hold_id": hold_id, "tenant_id": tenant_id, "tag": tag, "placed_us": now_us}
                if connection.execute(STATEMENTS["add_hold"], row).rowcount != 1:
                    raise Tampered("keys.db does not take a hold: its rules were changed")
            late = set(scopes_dying(connection, tenant_id))
            for tag in wanted:
                place = {"tenant_id": tenant_id, "scope": tag}
                if connection.execute(STATEMENTS["scope_destroyed"], place).fetchone():
                    late.add(tag)
            return tuple(sorted(late))

        late: tuple[bytes, ...] = self._database.write(work)
        return late

    def lift_hold(self, hold_id: bytes, tenant_id: bytes, now_us: int) -> bool:
        """End a hold."""
        parameters = {"hold_id": hold_id, "tenant_id": tenant_id, "now_us": now_us}

        def work(connection: sqlite3.Connection) -> bool:
            return connection.execute(STATEMENTS["lift_hold"], parameters).rowcount > 0

        lifted: bool = self._database.write(work)
        return lifted

    def holds(self, tenant_id: bytes) -> list[HoldRow]:
        """All holds of a tenant."""
        with self._database.snapshot() as connection:
            rows = connection.execute(STATEMENTS["holds_of_tenant"], {"tenant_id": tenant_id})
            return [sound(HoldRow(*row)) for row in rows]

    def held(self, tenant_id: bytes, tags: Sequence[bytes]) -> list[bytes]:
        """The active holds on one of these tags, or on the tenant."""
        found: set[bytes] = set()
        with self._database.snapshot() as connection:
            for tag in {tenant_id, *tags}:
                rows = connection.execute(STATEMENTS["holds_on"], {"tenant_id": tenant_id, "tag": tag})
                found.update(hold_id for (hold_id,) in rows)
        return sorted(found)


def sound(row: R) -> R:
    """A row, each value of its column's kind: a file whose rules were taken away can hold any other.

    Raises:
        Tampered: one is not.
    """
    if not is_sound(row):
        raise Tampered(_WRONG_KIND)
    return row


def whole(value: Any) -> bytes:
    """An id as it was stored.

    Raises:
        Tampered: it is something else.
    """
    if not isinstance(value, bytes):
        raise Tampered(_WRONG_KIND)
    return value


def scopes_dying(connection: sqlite3.Connection, tenant_id: bytes) -> list[bytes]:
    """The scopes of a tenant that are dying."""
    found = connection.execute(STATEMENTS["scopes_dying"], {"tenant_id": tenant_id})
    return sorted({whole(scope) for (scope,) in found})
