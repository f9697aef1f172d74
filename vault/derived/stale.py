"""What is asked for again: an item that went with one of its sources, and is to be made anew from the others.

Of the item only what names it is kept: namespace, key, kind, labels, and the sources that stay. It stands in
a row of its own, under a key that hangs on every one of those, so it goes with the first of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vault.clock import from_us
from vault.derived.item import SourceId, item_name
from vault.derived.opening import Opener, expires_us, is_shown, open_naming
from vault.derived.sources import DERIVED, decode
from vault.errors import Tampered
from vault.policy.durations import HOUR_US
from vault.policy.terms import Terms, encode
from vault.ports.items import ItemRow
from vault.ports.records import is_sound
from vault.sealing import item_rows
from vault.sealing.item_rows import STALE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from vault.access.door import Grant
    from vault.sealing.uses import EpochKeys
    from vault.sessions.log import Log

#: How long something is asked for: 30 days, or as long as the item itself would have been shown, if shorter.
ASKED_US: Final = 30 * 24 * HOUR_US
#: Requests of one answer.
STALE_MAX: Final = 1_000
_PAGE: Final = 200
#: Over a microsecond after it was made: hidden at once, and erased by the next sweep.
_OVER: Final = encode(Terms(expire_us=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """An item that is to be made again, as its owner reads it.

    ``sources`` are those that stay, to be given to ``put``; of an artifact ``key`` is its name, and
    ``namespace`` is empty. After ``expires_at`` nobody is asked any more.
    """

    id: str
    kind: str
    namespace: tuple[str, ...] = field(repr=False)
    key: str = field(repr=False)
    labels: Mapping[str, str] = field(repr=False)
    media_type: str | None = field(repr=False)
    sources: tuple[SourceId, ...] = field(repr=False)
    asked_at: datetime
    expires_at: datetime | None


def stale(log: Log, grant: Grant, limit: int) -> list[Stale]:
    """What an owner is asked to make again, by namespace, then as it was asked.

    Raises:
        Tampered: one of the requests was changed, moved or forged.
    """
    found: list[Stale] = []
    after = {"space": b"", "no": 0}
    while len(found) < limit:
        with log.records.snapshot() as reader:
            place = {"tenant_id": grant.tenant.tenant_id, "owner": grant.owner}
            scanned = reader.scan("stale_items", **after, **place, state=STALE, limit=_PAGE)
            page = [ItemRow._make(row) for row in scanned]
            opener = Opener(log, grant.tenant, grant.owner, reader)
            for row in page:
                if not is_sound(row) or (row.tenant_id, row.owner) != (place["tenant_id"], grant.owner):
                    raise Tampered("the database answered with another derived item")
                keys = opener.keys_of(row)
                newest = reader.items.newest(row.name, row.tenant_id, row.owner)
                settled = newest is None or newest.item_id != row.item_id
                if keys is not None and not settled and is_shown(row, log.clock.now_us()):
                    found.append(_stale(row, open_naming(keys, row)))
        if len(page) < _PAGE:
            break
        after = {"space": page[-1].space, "no": page[-1].no}
    return found[:limit]


def over(row: ItemRow, keys: EpochKeys) -> ItemRow:
    """The row of a request that nobody needs any more: hidden, and due for the next sweep."""
    row = row._replace(state=STALE, retention=_OVER, due_hour=row.created_us // HOUR_US)
    return row._replace(mac=item_rows.item_mac(keys.mac, row))


def _stale(row: ItemRow, about: dict[str, Any]) -> Stale:
    ends_us = expires_us(row)
    return Stale(
        id=item_name(row.kind, row.item_id),
        kind=row.kind,
        namespace=tuple(about["namespace"]),
        key=about["key"],
        labels=about["labels"],
        media_type=about.get("media_type"),
        sources=tuple(one.shown() for one in decode(row.sources) if one.role == DERIVED),
        asked_at=from_us(row.created_us),
        expires_at=None if ends_us is None else from_us(ends_us),
    )
