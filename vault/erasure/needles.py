"""Pieces of what is about to be erased, as it stands on disk: afterwards they must be found in no file.

They are ciphertext and wrapped keys, never content. A sample, not all of it: it shows whether the stores
really gave up what was deleted, pages and write-ahead logs included.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from vault.erasure.fence import SESSION
from vault.errors import VaultError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vault.policy.plan import Item
    from vault.ports.keys import KeyRow, KeyStore
    from vault.ports.records import Reader
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log

#: A sample; each is kept with the erasure until that is proved. One look finds thousands (`storage/scanner`).
NEEDLES_MAX: Final = 64
#: Of random bytes: two files share so many by chance never.
NEEDLE_BYTES: Final = 24
_ITEMS_MAX: Final = 16
_EVENTS_MAX: Final = 2
_KEYS_MAX: Final = 2


def needles(log: Log, store: KeyStore, tenant: TenantKeys, items: Sequence[Item]) -> list[list[str]]:
    """Some pieces, spread over the items, each behind the id of its item; both in hexadecimal.

    By item, because a hold placed at the last moment keeps one, whose pieces then stay where they are.
    """
    step = max(len(items) // _ITEMS_MAX, 1)
    found: dict[bytes, bytes] = {}
    for item in items[::step]:
        found.update((key.wrapped[-NEEDLE_BYTES:], item.id) for key in _keys(store, item))
        with log.records.snapshot() as reader:
            pieces = list(_pieces(log, reader, tenant, item))
        found.update(dict.fromkeys((piece for piece in pieces if len(piece) == NEEDLE_BYTES), item.id))
    return [[id_.hex(), piece.hex()] for piece, id_ in islice(found.items(), NEEDLES_MAX)]


def _keys(store: KeyStore, item: Item) -> Iterator[KeyRow]:
    """Some of its wrapped keys: of a session its own first, whatever its number is by now."""
    if item.kind == SESSION:
        places = [("epoch", number) for number in sorted(store.epochs_of(item.id))[:_KEYS_MAX]]
    else:
        places = [("item", 0)]
    for purpose, number in places:
        key = store.get(purpose, item.id, number, item.owner)
        if key is not None:
            yield key


def _pieces(log: Log, reader: Reader, tenant: TenantKeys, item: Item) -> Iterator[bytes]:
    place = {"tenant_id": tenant.tenant_id}
    if item.kind == SESSION:
        sealed = reader.scan("sealed_of_session", session_id=item.id, limit=_EVENTS_MAX, **place)
    else:
        sealed = reader.scan("sealed_of_item", item_id=item.id, **place)
    for about, body, address, in_area in list(sealed):
        # The end of a sealed thing: its beginning is the same format byte for all.
        yield (about or b"")[-NEEDLE_BYTES:]
        yield (body or b"")[-NEEDLE_BYTES:]
        if in_area:
            try:
                with log.blobs.open(address) as file:
                    yield file.read(2 * NEEDLE_BYTES)[-NEEDLE_BYTES:]
            except VaultError:
                continue  # it is missing or cannot be read now: no piece to look for
