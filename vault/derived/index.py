"""What is searched: the open items of a namespace, in memory only, until something in it changes.

Nothing of it is at rest, and nothing is answered from it alone: what it finds is opened anew from the
database, so an item that was erased, or has expired, since it was indexed is not shown.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from vault.derived.opening import Opener, open_body
from vault.errors import LimitExceeded
from vault.sealing.item_rows import STALE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.access.door import Grant
    from vault.derived.opening import Opened
    from vault.ports.items import Space
    from vault.sessions.log import Log

#: Items of an owner that one search or list looks through.
WINDOW_MAX: Final = 10_000
#: Namespaces of an owner, of all kinds.
SPACES_MAX: Final = 10_000
#: Bytes of open items that are kept in memory, of all owners together; further ones are opened each time.
INDEX_BYTES_MAX: Final = 64 * 2**20
#: What an entry takes besides its names and value (measured: 400 to 600).
_ENTRY_BYTES: Final = 600
_PAGE: Final = 200
_NAMES_MAX: Final = 4 * SPACES_MAX

#: Tenant, owner, blind index of kind and namespace.
_Place = tuple[bytes, bytes, bytes]


class Entry(NamedTuple):
    """An item as it is searched; ``body`` is None when it did not fit into memory."""

    item_id: bytes
    namespace: tuple[str, ...]
    key: str
    body: bytes | None

    def __repr__(self) -> str:
        """Nothing that a user supplied."""
        return f"Entry({self.item_id.hex()})"


class _Shelf(NamedTuple):
    """The entries of one namespace as of a stamp of its rows, and about how many bytes they take."""

    stamp: tuple[int, int]
    entries: list[Entry]
    size: int


class Index:
    """The open items of this process, by owner and namespace, within one budget of memory."""

    def __init__(self, bytes_max: int = INDEX_BYTES_MAX) -> None:
        """Start empty."""
        self._bytes_max, self._size = bytes_max, 0
        self._shelves: OrderedDict[_Place, _Shelf] = OrderedDict()
        self._names: OrderedDict[_Place, tuple[str, tuple[str, ...]]] = OrderedDict()
        self._lock, self._drops = threading.Lock(), 0

    def forget(self) -> None:
        """Drop everything that is open; an erasure calls this, so that it is not in memory either."""
        with self._lock:
            self._shelves.clear()
            self._names.clear()
            self._size = 0
            self._drops += 1

    def entries(self, log: Log, grant: Grant, kind: str, prefix: tuple[str, ...]) -> list[Entry]:
        """The items of a kind in the namespaces that begin with a prefix, in no order.

        Raises:
            LimitExceeded: there are more than are looked through.
            Tampered: an item was changed, moved or forged.
        """
        with log.records.snapshot() as reader:
            spaces = reader.items.spaces(grant.tenant.tenant_id, grant.owner, SPACES_MAX + 1)
        if len(spaces) > SPACES_MAX:
            raise LimitExceeded(f"items are searched in at most {SPACES_MAX} namespaces of an owner")
        found: list[Entry] = []
        for space in spaces:
            place = (grant.tenant.tenant_id, grant.owner, space.space)
            named = self._named(log, grant, place)
            if named is None or named[0] != kind or named[1][: len(prefix)] != prefix:
                continue
            found += self._shelf(log, grant, place, space)
            if len(found) > WINDOW_MAX:
                raise LimitExceeded(f"more than {WINDOW_MAX} items are here; name more of the namespace")
        return found

    def _named(self, log: Log, grant: Grant, place: _Place) -> tuple[str, tuple[str, ...]] | None:
        """Kind and namespace of a place, which never change; None while nothing there can be opened."""
        with self._lock:
            named = self._names.get(place)
        if named is None:
            opened = next((one for one in _walk(log, grant, place[2], page=1) if one is not None), None)
            if opened is not None:
                named = (opened.row.kind, tuple(opened.about["namespace"]))
                with self._lock:
                    self._names[place] = named
                    while len(self._names) > _NAMES_MAX:
                        self._names.popitem(last=False)
        return named

    def _shelf(self, log: Log, grant: Grant, place: _Place, space: Space) -> list[Entry]:
        stamp = (space.newest_no, space.versions)
        with self._lock:
            known = self._shelves.get(place)
            if known is not None:
                self._shelves.move_to_end(place)
        if known is not None and known.stamp == stamp:
            return known.entries
        entries, size, whole, drops = list[Entry](), 0, True, self._drops
        for opened in _walk(log, grant, place[2]):
            if opened is None:
                # Fenced or expired: a hold or a longer policy can give it back, and the stamp stays.
                whole = False
                continue
            body, names = open_body(log, opened), opened.about
            size += _ENTRY_BYTES + len(body)
            kept = body if size <= self._bytes_max else None
            entries.append(Entry(opened.row.item_id, tuple(names["namespace"]), names["key"], kept))
            if len(entries) > WINDOW_MAX:
                raise LimitExceeded(f"more than {WINDOW_MAX} items are here; name more of the namespace")
        if whole:
            self._keep(place, _Shelf(stamp, entries, min(size, self._bytes_max)), drops)
        return entries

    def _keep(self, place: _Place, shelf: _Shelf, drops: int) -> None:
        with self._lock:
            if drops != self._drops:
                return  # of something that is erased by now, perhaps
            before = self._shelves.pop(place, None)
            self._size += shelf.size - (before.size if before is not None else 0)
            self._shelves[place] = shelf
            while self._size > self._bytes_max:
                self._size -= self._shelves.popitem(last=False)[1].size


def _walk(log: Log, grant: Grant, space: bytes, *, page: int = _PAGE) -> Iterator[Opened | None]:
    """The items of a namespace, page by page, each page from one snapshot; None for one that is not shown."""
    after = 0
    while True:
        with log.records.snapshot() as reader:
            listed = reader.items.of_space(
                space, grant.tenant.tenant_id, grant.owner, after=after, limit=page
            )
            opener = Opener(log, grant.tenant, grant.owner, reader)
            # What is asked for again never becomes an item; another one takes its place.
            shown = [opener.if_shown(row) for row in listed if row.state != STALE]
        yield from shown
        if len(listed) < page:
            return
        after = listed[-1].no
