"""How an item of a LangGraph store stands in the vault: as a memory, under names that it can always have.

LangGraph's names are longer and deeper than a memory's. So what does not fit is hashed into the memory's
names, which are blind indexes in any case, and every item holds its own names in clear inside its seal: they
decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from vault.derived.item import NAMESPACE_DEPTH_MAX
from vault.encoding import json_bytes
from vault.errors import InvalidInput
from vault.model import NAME_LENGTH_MAX

#: First names of the namespaces: of items and their embeddings; of what keeps an item longer than was said.
ITEMS: Final = "langgraph-store"
LEASES: Final = "langgraph-store-leases"
#: What a memory of the store holds, under one name: what an owner wrote there by hand is not mistaken for it.
HELD: Final = "langgraph"
MINUTE_US: Final = 60_000_000
_LABELS_KEPT: Final = NAMESPACE_DEPTH_MAX - 1
_HASHED: Final = "sha256:"


class Times(NamedTuple):
    """When an item was made, when it was put last, and until when it lives; in microseconds since 1970."""

    created_us: int
    updated_us: int
    expires_us: int | None = None


class Place(NamedTuple):
    """The names of a memory."""

    namespace: tuple[str, ...]
    key: str

    def __repr__(self) -> str:
        """Nothing that a user supplied."""
        return "Place()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An item as its memory holds it.

    ``revision`` is its own at every put: what belongs to it, and to no version before or after, names it.
    ``ttl_us`` is the time to live; ``expires_us`` the end of it, if nobody reads it meanwhile.
    """

    namespace: tuple[str, ...] = field(repr=False)
    key: str = field(repr=False)
    value: dict[str, Any] = field(repr=False)
    created_us: int
    updated_us: int
    revision: str
    ttl_us: int | None = None
    expires_us: int | None = None

    def body(self) -> dict[str, Any]:
        """What the memory holds."""
        return {HELD: asdict(self) | {"namespace": list(self.namespace)}}


def place(first: str, namespace: Sequence[str], key: str) -> Place:
    """The names of the memory for an item; no two items have the same.

    Raises:
        InvalidInput: the key is no text.
    """
    if not isinstance(key, str):
        raise InvalidInput("the key of an item is text")
    names = beginning(first, namespace)
    if len(namespace) <= _LABELS_KEPT and _kept(key) == key:
        return Place(names, key)
    return Place(names, _hash(json_bytes([*namespace, key])))


def beginning(first: str, labels: Sequence[str]) -> tuple[str, ...]:
    """The names that the memories of all items below a namespace begin with; others' may begin so, too."""
    return (first, *(_kept(label) for label in labels[:_LABELS_KEPT]))


def _kept(name: str) -> str:
    """A name as a memory can have it: itself where it fits, and is not mistaken for a hash."""
    if 0 < len(name) <= NAME_LENGTH_MAX and not name.startswith(_HASHED):
        return name
    return _hash(json_bytes(name))


def _hash(content: bytes) -> str:
    return _HASHED + hashlib.sha256(content).hexdigest()


def stored(held: Any) -> Stored | None:
    """What an item's memory holds; None for what is no item of a store."""
    if not isinstance(held, dict) or held.keys() != _FIELDS or not isinstance(held["value"], dict):
        return None
    return Stored(**{**held, "namespace": tuple(held["namespace"])})


_FIELDS: Final = frozenset(Stored.__dataclass_fields__)


class Sieve:
    """Looks into the open items of a search and lets none through, so that the vault opens none for it.

    The vault compares a field of each memory with what is asked for. This is equal to nothing, and hands on
    what it was compared with: all that stands below a namespace, newest first, from what is open in memory.
    Whatever is shown in the end is opened anew.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, take: Callable[[Any], None]) -> None:
        """Hand what is found to ``take``."""
        self._take = take

    def __eq__(self, other: object) -> bool:
        self._take(other)
        return False
