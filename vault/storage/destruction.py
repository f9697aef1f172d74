"""The end of keys: condemned in one transaction, deleted in another, and never back in their places."""

from __future__ import annotations

import hashlib
from itertools import starmap
from typing import TYPE_CHECKING, Final

from vault.errors import Tampered
from vault.policy.epochs import HOUR_MASK
from vault.ports.keys import EXTERNAL, WHOLE, Condemned, Destroyed, Epoch, Tombstone
from vault.storage.holds import scopes_dying, sound, whole
from vault.storage.statements import STATEMENTS, ordered

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from vault.ports.keys import Doomed
    from vault.storage.sqlite import Database

#: Tombstones that are read at once: about 300 KB, and a read transaction of a few milliseconds.
_PAGE: Final = 1000
#: Keys that one transaction deletes: some 10 ms.
_DELETED_MAX: Final = 400
_ADD_TOMBSTONE: Final = ordered(STATEMENTS["add_tombstone"], Tombstone._fields)


def fingerprint(wrapped: bytes) -> bytes:
    """What names a wrapped key once it is gone: 16 bytes of a hash over sealed bytes, which tell nothing."""
    return hashlib.sha256(b"session-vault/1/key" + wrapped).digest()[:16]


class SqlDestruction:
    """The table of tombstones, and the keys that are dying."""

    def __init__(self, database: Database) -> None:
        """Serve a migrated database of keys."""
        self._database = database

    def is_destroyed(self, purpose: str, scope: bytes, epoch: int) -> bytes | None:
        """The operation that destroyed this place's key."""
        place = {"purpose": purpose, "scope": scope, "epoch": epoch}
        with self._database.snapshot() as connection:
            row = connection.execute(STATEMENTS["destroyer"], place).fetchone()
        return row and bytes(row[0])

    def condemn(
        self,
        operation: bytes,
        tenant_id: bytes,
        doomed: Sequence[Doomed],
        now_us: int,
        *,
        again: bool = False,
    ) -> Condemned:
        """Decide, in one transaction, which keys die."""

        def work(connection: sqlite3.Connection) -> Condemned:
            judging = _Judging(connection, operation, tenant_id, now_us)
            if again:
                judging.forget_holds()
            for one in sorted(doomed, key=_place):  # in the order of the tables: a fifth of the pages
                judging.judge(one)
            return judging.result()

        condemned: Condemned = self._database.write(work)
        return condemned

    def destroy(self, operation: bytes) -> Destroyed:
        """Delete what an operation condemned, then empty the write-ahead log."""
        some = {"operation": operation, "limit": _DELETED_MAX}

        def work(connection: sqlite3.Connection) -> int:
            return connection.execute(STATEMENTS["delete_dying_keys"], some).rowcount

        keys = gone = self._database.write(work)
        while gone == _DELETED_MAX:  # writers of the log wait for the same lock
            gone = self._database.write(work)
            keys += gone
        return Destroyed(keys=keys, truncated=self._database.truncate())

    def newest_withdrawn(self) -> int:
        """The number of what lost a key last."""
        (number,) = self._database.glance(STATEMENTS["newest_withdrawn"])
        return number or 0

    def withdrawn_after(self, number: int) -> frozenset[bytes] | None:
        """The scopes that lost a key since; None when some of them are not listed any more."""
        with self._database.snapshot() as connection:
            rows = connection.execute(STATEMENTS["withdrawn_after"], {"number": number}).fetchall()
        if not rows or rows[0][0] != number + 1:
            return None
        return frozenset(whole(scope) for _, scope in rows)

    def operations_dying(self) -> list[bytes]:
        """The operations with keys that are dying."""
        with self._database.snapshot() as connection:
            return [whole(one) for (one,) in connection.execute(STATEMENTS["operations_dying"])]

    def dying_of(self, tenant_id: bytes) -> list[bytes]:
        """The scopes of a tenant that are dying."""
        with self._database.snapshot() as connection:
            return scopes_dying(connection, tenant_id)

    def graves(self) -> set[bytes]:
        """The scopes that were destroyed as a whole."""
        with self._database.snapshot() as connection:
            graves = connection.execute(STATEMENTS["all_graves"], {"whole": WHOLE, "external": EXTERNAL})
            return {whole(scope) for (scope,) in graves}

    def epochs_of(self, session_id: bytes) -> list[int]:
        """The numbers of a session's keys that are not dying."""
        place = {"purpose": "epoch", "scope": session_id}
        with self._database.snapshot() as connection:
            return [epoch for (epoch,) in connection.execute(STATEMENTS["epochs_of_scope"], place)]

    def epochs_due(self, hour: int) -> Iterator[Epoch]:
        """The keys of epochs whose hour is over, a page at a time."""
        after = {"purpose": "epoch", "hour": 1, "scope": b"", "epoch": 0, "until": hour, "limit": _PAGE}
        while True:
            with self._database.snapshot() as connection:
                page = [sound(Epoch(*row)) for row in connection.execute(STATEMENTS["epochs_due"], after)]
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1]
            after |= {"hour": last.epoch & HOUR_MASK, "scope": last.session_id, "epoch": last.epoch}

    def epochs_of_operation(self, operation: bytes) -> list[Epoch]:
        """The epochs that an operation destroyed by themselves."""
        with self._database.snapshot() as connection:
            rows = connection.execute(STATEMENTS["graves_of_operation"], {"operation": operation})
            return [sound(Epoch(*row)) for row in rows]

    def tombstones(self, tenant_id: bytes | None = None) -> Iterator[Tombstone]:
        """What was destroyed or is dying, a page at a time."""
        statement = STATEMENTS["tombstones" if tenant_id is None else "tombstones_of_tenant"]
        after = {"tenant_id": tenant_id, "purpose": "", "scope": b"", "epoch": WHOLE, "limit": _PAGE}
        after["external"] = EXTERNAL
        while True:
            with self._database.snapshot() as connection:
                page = [sound(Tombstone(*row)) for row in connection.execute(statement, after)]
            yield from page
            if len(page) < _PAGE:
                return
            after |= {"purpose": page[-1].purpose, "scope": page[-1].scope, "epoch": page[-1].epoch}


class _Judging:
    """One operation's look at all that it wants destroyed, inside its transaction."""

    def __init__(
        self, connection: sqlite3.Connection, operation: bytes, tenant_id: bytes, now_us: int
    ) -> None:
        self._connection = connection
        self._operation, self._tenant_id, self._now_us = operation, tenant_id, now_us
        self._holds: dict[bytes, list[bytes]] = {}
        for tag, hold_id in connection.execute(STATEMENTS["active_holds"], {"tenant_id": tenant_id}):
            self._holds.setdefault(tag, []).append(hold_id)
        self._gone: dict[bytes, dict[tuple[str, int], bytes]] = {}
        self._held: dict[bytes, set[bytes]] = {}

    def forget_holds(self) -> None:
        self._holds.clear()

    def judge(self, doomed: Doomed) -> None:
        place = {"purpose": doomed.purpose, "scope": doomed.scope}
        wanted = WHOLE if doomed.epoch is None else doomed.epoch
        rows = self._connection.execute(STATEMENTS["tombstones_of_scope"], place)
        graves = {row.epoch: row.fingerprint for row in starmap(Tombstone, rows)}
        if wanted not in graves and WHOLE not in graves:
            holds = self._holds_on(doomed)
            if holds:
                self._held.setdefault(doomed.scope, set()).update(holds)
                return
            self._condemn(doomed, wanted, graves)
        gone = self._gone.setdefault(doomed.scope, {})
        for epoch, mark in graves.items():
            if mark and wanted in {epoch, WHOLE}:
                gone[doomed.purpose, epoch] = mark

    def result(self) -> Condemned:
        return Condemned(
            fingerprints={
                scope: tuple(gone[place] for place in sorted(gone)) for scope, gone in self._gone.items()
            },
            held={scope: tuple(sorted(holds)) for scope, holds in self._held.items()},
        )

    def _holds_on(self, doomed: Doomed) -> list[bytes]:
        if not self._holds:
            return []
        # The scope and the tenant are tags of their own, whatever the caller thought of.
        tags = {*doomed.tags, doomed.scope, self._tenant_id}
        return [hold_id for tag in tags for hold_id in self._holds.get(tag, ())]

    def _condemn(self, doomed: Doomed, wanted: int, graves: dict[int, bytes]) -> None:
        place = {"purpose": doomed.purpose, "scope": doomed.scope}
        for epoch, owner, wrapped, tenant_id in self._connection.execute(
            STATEMENTS["keys_of_scope"], place
        ).fetchall():
            if tenant_id not in {b"", self._tenant_id}:
                raise Tampered("a key that is to be destroyed is another tenant's; nothing was destroyed")
            if epoch not in graves and wanted in {epoch, WHOLE}:
                key = place | {"operation": self._operation, "epoch": epoch}
                if self._connection.execute(STATEMENTS["condemn_key"], key).rowcount != 1:
                    raise Tampered("keys.db does not take a key's end: its rules were changed")
                graves[epoch] = fingerprint(wrapped)
                self._bury(doomed, epoch, owner, graves[epoch])
        if wanted not in graves:
            graves[wanted] = b""
            self._bury(doomed, wanted, b"", b"")

    def _bury(self, doomed: Doomed, epoch: int, owner: bytes, mark: bytes) -> None:
        row = Tombstone(
            purpose=doomed.purpose,
            scope=doomed.scope,
            epoch=epoch,
            owner=owner,
            tenant_id=self._tenant_id,
            fingerprint=mark,
            operation=self._operation,
            destroyed_us=self._now_us,
        )
        if self._connection.execute(_ADD_TOMBSTONE, row).rowcount != 1:
            raise Tampered("keys.db does not take a tombstone: its rules were changed")


def _place(doomed: Doomed) -> tuple[str, bytes, int]:
    return doomed.purpose, doomed.scope, WHOLE if doomed.epoch is None else doomed.epoch
