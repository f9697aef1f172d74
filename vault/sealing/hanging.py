"""How a derived item's key hangs under the keys of what it was made from, so that it goes with them.

Every source has a ``wrapping`` key of 32 uniformly random bytes. A hanging key is wrapped twice: inside under
what its sources' give, outside under the tenant's wrapping key. The inner wrap makes it go with its sources.
The outer one makes it end at a barrier: it is made anew there under a fresh tenant key, without the sources,
so an old copy of keys.db opens no item that was destroyed since, not even with the keys of today.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vault.encoding import u64
from vault.errors import InvalidInput, LimitExceeded, Tampered
from vault.sealing.wraps import KEY_BYTES, derive, unwrap, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Most sources of one derived item: 16 KiB of keys, and as many rows when each can keep it.
SOURCES_MAX: Final = 256
#: Goes with any source, stays until the last is gone, or stands by itself.
HUNG: Final = frozenset({"any", "last", "free"})


def checked(hung: str, wrappings: Sequence[bytes | None]) -> None:
    """Refuse what cannot hang.

    Raises:
        InvalidInput: an unknown way to hang, no source, or one that is not a key.
        LimitExceeded: more than ``SOURCES_MAX`` sources.
    """
    if hung not in HUNG:
        raise InvalidInput("a derived item hangs on any source, on the last one, or is free")
    if len(wrappings) > SOURCES_MAX:
        raise LimitExceeded(f"a derived item has at most {SOURCES_MAX} sources; derive it in steps")
    if hung != "free" and not wrappings:
        raise InvalidInput("a derived item that goes with its sources names at least one")
    if any(wrapping is not None and len(wrapping) != KEY_BYTES for wrapping in wrappings):
        raise InvalidInput("a source's wrapping key has another length; take it from its keys")


def is_gone(hung: str, wrappings: Sequence[bytes | None]) -> bool:
    """Whether what hangs on these went with those that are None."""
    if hung == "last":
        return all(wrapping is None for wrapping in wrappings)
    return hung == "any" and None in wrappings


def parents(hung: str, wrappings: Sequence[bytes | None]) -> list[bytes | None]:
    """The inner parent of each of an item's rows, by epoch; None where the source's key is gone.

    For ``any`` it is derived from all sources' keys, in their stored order: the KEK cannot be computed
    without every one of them (HKDF-Expand is a PRF of each 32-byte part, the others being known).
    """
    if hung == "last":
        return [None if wrapping is None else derive(wrapping, b"hang") for wrapping in wrappings]
    if hung == "free":
        return [b""]
    keys = [wrapping for wrapping in wrappings if wrapping is not None]
    return [derive(b"".join(keys), b"hang-any/" + u64(len(keys))) if len(keys) == len(wrappings) else None]


def hang(tenant: bytes, parent: bytes, key: bytes, outer: bytes, inner: bytes) -> bytes:
    """A key under its inner parent (a free one has none), and that under the tenant's wrapping key.

    Args:
        tenant: the tenant's wrapping key.
        parent: one of ``parents``.
        key: the item's key.
        outer: the context of the outer wrap: the place, which the row in keys.db says by itself.
        inner: the context of the inner wrap: the place, and how it hangs.
    """
    return wrap(tenant, wrap(parent, key, inner) if parent else key, outer)


def unhang(tenant: bytes, parent: bytes, wrapped: bytes, outer: bytes, inner: bytes) -> bytes:
    """The key of ``hang``.

    Raises:
        Tampered: another tenant, parent, place or way to hang, or a changed byte.
    """
    key = unwrap(tenant, wrapped, outer)
    if parent:
        key = unwrap(parent, key, inner)
    # Also a key that hangs under sources and is asked for as a free one: what it then gives is a wrap.
    if len(key) != KEY_BYTES:
        raise Tampered("a wrapped key has another length")
    return key
