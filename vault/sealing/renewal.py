"""What a session's row says about a log that was sealed anew: since when, and what stood for it before.

Every event of it has another chain value then. Whoever remembers an earlier one, this process or the ledger,
goes by the version in which it was seen: what is older than the renewal cannot be compared any more, and the
row that says so is under the session's MAC. A fork commits to a chain value of the log that it shares, so the
values that forks name stay listed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from vault.encoding import pack, u64
from vault.errors import Tampered

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHAIN_BYTES: Final = 32
_FIELD_BYTES: Final = 8 + _CHAIN_BYTES
_VERSION_BYTES: Final = 8


class Renewal(NamedTuple):
    """When a log was last sealed anew, as a version of its row (0: never), and the chain values before.

    ``stood`` are places with the chain value that stood there, one for each fork that names it.
    """

    version: int = 0
    stood: frozenset[tuple[int, bytes]] = frozenset()

    def encoded(self) -> bytes:
        """The stored form, of which there is one; empty for a log that was never sealed anew."""
        if not self.version:
            return b""
        return pack(u64(self.version), *(u64(seq) + chain for seq, chain in sorted(self.stood)))

    def again(self, version: int, stood: Iterable[tuple[int, bytes]]) -> Renewal:
        """One more renewal: what stood there before the earlier ones still counts."""
        return Renewal(version, self.stood.union(stood))


NEVER: Final = Renewal()


@lru_cache(maxsize=4096)
def renewal_of(stored: bytes) -> Renewal:
    """The stored form, read.

    Raises:
        Tampered: it is not what ``encoded`` writes.
    """
    if not stored:
        return NEVER
    fields, at = [], 4
    while at < len(stored):
        size = int.from_bytes(stored[at : at + 4])
        fields.append(stored[at + 4 : at + 4 + size])
        at += 4 + size
    first, *rest = fields or [b""]
    stood = frozenset((int.from_bytes(one[:8]), one[8:]) for one in rest)
    found = Renewal(int.from_bytes(first), stood)
    # There is one stored form, so a byte more or less is seen.
    fits = [len(first), *map(len, rest)] == [_VERSION_BYTES] + [_FIELD_BYTES] * len(rest)
    if not fits or found.encoded() != stored:
        raise Tampered("a session's row does not say how its log was sealed anew: it was changed")
    return found
