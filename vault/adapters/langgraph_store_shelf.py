"""The items of a LangGraph store as they stand in a vault: found, opened, kept while they are read."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

from vault.adapters.langgraph_store_items import (
    HELD,
    ITEMS,
    LEASES,
    Sieve,
    Stored,
    beginning,
    place,
    stored,
)
from vault.errors import NotFound

if TYPE_CHECKING:
    from vault.clock import Clock
    from vault.derived.item import Memory
    from vault.faces import Access

P = ParamSpec("P")
T = TypeVar("T")

#: A read prolongs a life only after this part of it, so that reading often does not mean writing often.
REFRESH_PART: Final = 16


class Found(NamedTuple):
    """An item that is there, the memory that it stands in, and until when it is kept."""

    memory: Memory
    item: Stored
    expires_us: int | None
    score: float | None = None

    def __repr__(self) -> str:
        """Nothing that a user supplied."""
        return "Found()"


class Shelf:
    """The items of one principal; what expired is not there, whether or not anything has swept."""

    def __init__(self, access: Access, clock: Clock) -> None:
        """Made by the store."""
        self._access, self._clock = access, clock

    def opened(self, namespace: tuple[str, ...], key: str) -> Found | None:
        """An item, opened anew; None when there is none, or its time is over.

        Raises:
            Tampered: it was changed, moved or forged.
        """
        try:
            memory = self._access.memories.get(*place(ITEMS, namespace, key))
        except NotFound:
            return None
        item = stored(memory.value.get(HELD)) if isinstance(memory.value, dict) else None
        if item is None or (item.namespace, item.key) != (tuple(namespace), key):
            return None
        expires_us = _later(item, self._lease(item))
        return None if self._is_over(expires_us) else Found(memory, item, expires_us)

    def items(self, labels: tuple[str, ...]) -> list[Stored]:
        """All items below a namespace, as they are open in memory; what is shown of them is opened anew.

        Raises:
            LimitExceeded: there are more than are looked through.
            Tampered: one of them was changed, moved or forged.
        """
        leases: dict[str, int] = {}
        items = self._all(labels)
        if any(item.expires_us is not None for item in items):
            leases = {held["revision"]: held["expires_us"] for held in self._held(LEASES, labels)}
        return [item for item in items if not self._is_over(_later(item, leases.get(item.revision)))]

    def overdue(self) -> list[Stored]:
        """All items that are over unless a read has prolonged them."""
        return [item for item in self._all(()) if self._is_over(item.expires_us)]

    def vectors(self, labels: tuple[str, ...]) -> dict[str, list[str]]:
        """The vectors of all items below a namespace, by the revision of an item that they are of."""
        return {held["revision"]: held["vectors"] for held in self._held(ITEMS, labels, "embedding")}

    def prolong(self, found: Found) -> None:
        """Keep an item that was read for its whole time to live again.

        That is said by a memory of its own, which comes from the item's and goes with it. A new version of
        the item would bring back what somebody deletes at this moment, or undo what somebody puts.
        """
        item = found.item
        if item.ttl_us is None or found.expires_us is None:
            return
        expires_us = self._clock.now_us() + item.ttl_us
        if expires_us - found.expires_us < item.ttl_us // REFRESH_PART:
            return
        held = {HELD: {"revision": item.revision, "expires_us": expires_us}}
        put = quietly(self._access.memories.put)
        try:
            put(*place(LEASES, item.namespace, item.key), held, sources=[found.memory.id])
        except NotFound:
            return  # gone by now

    def _lease(self, item: Stored) -> int | None:
        """Until when reads have prolonged an item's life."""
        if item.expires_us is None:
            return None
        try:
            lease = quietly(self._access.memories.get)(*place(LEASES, item.namespace, item.key))
        except NotFound:
            return None
        held: dict[str, Any] = lease.value[HELD]
        return int(held["expires_us"]) if held["revision"] == item.revision else None

    def _all(self, labels: tuple[str, ...]) -> list[Stored]:
        return [one for held in self._held(ITEMS, labels) if (one := stored(held)) is not None]

    def _held(self, first: str, labels: tuple[str, ...], kind: str = "memory") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        names = beginning(first, labels)
        # Nothing passes, so the limit is never reached.
        self._access.memories.search(names, filter={HELD: Sieve(found.append)}, kind=kind, limit=1)
        return found

    def _is_over(self, expires_us: int | None) -> bool:
        return expires_us is not None and expires_us <= self._clock.now_us()


def _later(item: Stored, lease_us: int | None) -> int | None:
    """The end of an item's life: as it was put, or as a read has prolonged it."""
    return item.expires_us if item.expires_us is None or lease_us is None else max(item.expires_us, lease_us)


def quietly(call: Callable[P, T]) -> Callable[P, T]:
    """The call in an empty context: what the store looks up for itself is nothing that a run has read."""

    def quiet(*args: P.args, **kwargs: P.kwargs) -> T:
        return Context().run(call, *args, **kwargs)

    return quiet
