"""What the keys of an epoch, of a derived item and of a tenant are used for, and where each use is bound."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from vault.encoding import pack, u64
from vault.errors import KeyUnavailable
from vault.sealing.wraps import derive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vault.ports.keys import KeyRow

_KINDS: Final = (b"payload", b"meta", b"about")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochKeys:
    """What one epoch key is used for, and the contexts of the kinds of payload sealed under it.

    A context is the place (vault, tenant, session, epoch) and the kind: ``payload``, ``meta`` or ``about``.
    A derived item's keys are of this kind too, and the place names the item. ``epoch`` is the number that
    events have.
    """

    payload: bytes = field(repr=False)
    mac: bytes = field(repr=False)
    content: bytes = field(repr=False)
    wrapping: bytes = field(repr=False)  # what derived items hang under
    contexts: Mapping[bytes, bytes] = field(repr=False)
    epoch: int = 0
    sibling: Callable[[int], EpochKeys] | None = field(default=None, repr=False, compare=False)

    def of_epoch(self, epoch: int) -> EpochKeys:
        """The keys of another epoch of the same session.

        Raises:
            Erased: that epoch's key was destroyed, or is about to be.
            KeyUnavailable: it never had one.
        """
        if epoch == self.epoch:
            return self
        if self.sibling is None:
            raise KeyUnavailable("these keys are of no session, so they have no other epochs")
        return self.sibling(epoch)

    def context(self, kind: bytes) -> bytes:
        """The context of one kind of payload."""
        return self.contexts[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantKeys:
    """A tenant's pseudonym in the database and the key of its blind indexes."""

    tenant_id: bytes
    wrapping: bytes = field(repr=False)
    index: bytes = field(repr=False)
    #: The index key's row: what hangs under ``wrapping`` shows whether it is still the one that counts.
    row: KeyRow | None = field(default=None, repr=False)

    def owner(self, subject: str) -> bytes:
        """The blind index of an owner."""
        return owner_index(self.index, subject)

    def team(self, name: str) -> bytes:
        """The blind index of a team."""
        return blind_index(self.index, "team", name)

    def pseudonym_key(self, purpose: str, epoch: int) -> bytes:
        """The key of the tenant's pseudonyms for one purpose and epoch."""
        return derive(self.index, b"pseudonym/" + pack(purpose.encode(), u64(epoch)))

    def blind(self, kind: str, *parts: str) -> bytes:
        """A blind index: equal names of one tenant meet, nobody without the key can try names out.

        BLAKE2b-128 under the tenant's index key, over the kind and the parts behind their lengths.
        """
        return blind_index(self.index, kind, *parts)


def epoch_keys(key: bytes, place: bytes) -> EpochKeys:
    """All uses of one key, at one place."""
    return EpochKeys(
        payload=derive(key, b"payload"),
        mac=derive(key, b"row-mac"),
        content=derive(key, b"content-id"),
        wrapping=derive(key, b"wrapping"),
        contexts={kind: pack(place, kind) for kind in _KINDS},
    )


@lru_cache(maxsize=4096)
def owner_index(index: bytes, subject: str) -> bytes:
    """The blind index of an owner."""
    return blind_index(index, "owner", subject)


def blind_index(key: bytes, kind: str, *parts: str) -> bytes:
    """BLAKE2b-128 under a key, over the kind and the parts behind their lengths."""
    fields = pack(kind.encode(), *(part.encode() for part in parts))
    return hashlib.blake2b(fields, key=key, digest_size=16, person=b"sv1.blind").digest()


def grave_of(owner: bytes, external: bytes) -> bytes:
    """The place of an external id's tombstone, from the two blind indexes: ids are each owner's own."""
    return hashlib.sha256(pack(b"session-vault/1/external", owner, external)).digest()[:16]


def generation_name(session_id: bytes, generation: int) -> bytes:
    """16 bytes that stand for one generation of a session's epochs, where whole sessions are named by id."""
    return hashlib.sha256(pack(b"session-vault/1/generation", session_id, u64(generation))).digest()[:16]
