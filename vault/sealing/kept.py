"""Keys that were opened, in memory: none is given out once any process has taken it away.

Keys are destroyed in the key store, by whichever process is asked to. So before a key comes out of memory,
the store is asked whether any was taken away since the last look; that is one read of one page. What is held
of opened content beside the keys is dropped with them: whoever holds some has itself told.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import WeakMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vault.ports.keys import KeyStore
    from vault.sealing.uses import EpochKeys

#: Keys held in memory; an entry is under 1 KiB.
KEYS_MAX: Final = 4096
#: Stands for the epoch in the place of an item's keys, which have none.
ITEM: Final = -1
#: Tenant, owner, session or item, epoch.
Place = tuple[bytes, bytes, bytes, int]


class Withdrawn:
    """The sessions and items that lost a key, or all of them: those of which it is not known any more."""

    __slots__ = ("_scopes",)

    def __init__(self, scopes: Iterable[bytes] | None) -> None:
        """These scopes; None for all."""
        self._scopes = None if scopes is None else frozenset(scopes)

    def __contains__(self, scope: bytes) -> bool:
        """Whether a session or item, by its 16 bytes, may have lost a key."""
        return self._scopes is None or scope in self._scopes


class KeptKeys:
    """The opened keys of sessions and items; safe to share between threads."""

    def __init__(self, store: KeyStore) -> None:
        """Hold none yet."""
        self._store = store
        self._keys: OrderedDict[Place, EpochKeys] = OrderedDict()
        self._lock = threading.Lock()
        self._drops = 0  # what is being opened while something is dropped is not kept
        self._number = -1  # of what was withdrawn last, as far as it was looked at
        self._told: list[WeakMethod[Callable[[Withdrawn], None]]] = []

    def watch(self, told: Callable[[Withdrawn], None]) -> None:
        """Have a method told what was withdrawn, as long as its object lives.

        It may be called in the midst of any use of the vault, so it must not wait for one.
        """
        with self._lock:
            self._told.append(WeakMethod(told))

    def refresh(self) -> None:
        """Drop what any process has taken away since the last look."""
        number = self._store.newest_withdrawn()
        if number != self._number:
            self._drop(self._store.withdrawn_after(self._number), number)

    def get(self, place: Place) -> EpochKeys | None:
        """The keys of a place, if they were opened and not dropped since; not looked at anew."""
        with self._lock:
            found = self._keys.get(place)
            if found is not None:
                self._keys.move_to_end(place)
            return found

    def mark(self) -> int:
        """A moment: what is opened from here on is kept unless something is dropped meanwhile."""
        return self._drops

    def keep(self, place: Place, keys: EpochKeys, mark: int | None) -> None:
        """Keep what was opened since a moment."""
        with self._lock:
            if mark is None or mark == self._drops:
                self._keys[place] = keys
            if len(self._keys) > KEYS_MAX:
                self._keys.popitem(last=False)

    def drop(self, scopes: Iterable[bytes] | None) -> None:
        """Drop the keys of some sessions or items, and of all items: they may hang on those; None: all."""
        self._drop(scopes, None)

    def _drop(self, scopes: Iterable[bytes] | None, number: int | None) -> None:
        gone = Withdrawn(scopes)
        with self._lock:
            self._drops += 1
            for place in [place for place in self._keys if place[2] in gone or place[3] == ITEM]:
                del self._keys[place]
            if number is not None:
                self._number = number  # only now: others go by it
            self._told = [told for told in self._told if told() is not None]
            watching = [told() for told in self._told]
        for told in watching:
            if told is not None:
                told(gone)
