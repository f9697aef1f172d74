"""The MAC of a derived item's row: everything in clear, the sealed fields' hashes, and the body's address.

It is under the item's own key, which is wrapped for its vault, tenant, owner and id: a genuine row is one row
of one owner. ``no`` joins tables and ``due_hour`` only says when to look at the retention, which is covered.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct, error
from typing import TYPE_CHECKING, Final

from vault.encoding import pack
from vault.errors import Tampered

if TYPE_CHECKING:
    from vault.ports.items import ItemRow

#: The states of an item while nobody erases it; its MAC speaks of one of these.
LIVE: Final = "live"
SUPERSEDED: Final = "superseded"
STALE: Final = "stale"
STATES: Final = (LIVE, SUPERSEDED, STALE)
_NUMBERS: Final = Struct(">QQQQQ")
#: What packing raises when a database without its rules hands out text for a number and the like.
_MALFORMED: Final = (AttributeError, OverflowError, TypeError, UnicodeError, error)


def item_mac(mac_key: bytes, row: ItemRow) -> bytes:
    """Keyed BLAKE2b-256 over the whole row but its number, its hour in the sweeper's index, and the MAC.

    Raises:
        Tampered: a value is of the wrong kind or out of range.
    """
    try:
        fields = pack(
            row.item_id,
            row.tenant_id,
            row.owner,
            row.kind.encode(),
            row.name,
            row.space,
            row.state.encode(),
            row.hung.encode(),
            _NUMBERS.pack(row.version, row.created_us, row.changed_us, row.content, row.size),
            row.sources,
            row.retention,
            row.about,
            row.address,
        )
    except _MALFORMED:
        raise Tampered("a derived item's row holds a value of the wrong kind") from None
    return hashlib.blake2b(fields, key=mac_key, digest_size=32, person=b"sv1.item").digest()


def state_under(mac_key: bytes, row: ItemRow) -> str | None:
    """Which state a row's MAC speaks of, whatever its state says; None when the row is not genuine.

    An item is fenced without its key: then its MAC still tells what it was, and what to give back.
    """
    for state in STATES:
        if hmac.compare_digest(item_mac(mac_key, row._replace(state=state)), row.mac):
            return state
    return None
