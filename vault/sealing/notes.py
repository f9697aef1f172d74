"""The ledger's signed checkpoints (C2SP signed note over a tlog checkpoint) and the tree they commit to.

The tree is RFC 6962's over one leaf per recorded head: session, row version, sequence number, chain. It only
grows, so the root is carried forward from the right edge of the tree, in time proportional to what is new.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from vault.encoding import pack, u64
from vault.errors import Tampered

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

#: C2SP signed-note: algorithm byte of Ed25519 in the key id and signature.
_ED25519: Final = b"\x01"
#: A session holds fewer than 2**31 events.
_SEQ_BYTES: Final = 4
#: 64 bits of a hash tell two histories apart.
EMPTIED_BYTES: Final = _SEQ_BYTES + 8


class Head(NamedTuple):
    """A session's head as the ledger records it; ``whose`` says whose session it is (`rows.whose`)."""

    session_id: bytes
    version: int
    seq: int
    chain: bytes
    whose: bytes

    def leaf(self) -> bytes:
        """The tree leaf (RFC 6962 §2.1: prefix 0x00)."""
        return hashlib.sha256(
            b"\x00" + pack(self.session_id, u64(self.version), u64(self.seq), self.chain, self.whose)
        ).digest()


class Gone(NamedTuple):
    """What was erased, as the ledger records it before its keys are destroyed.

    ``fingerprint`` is a hash of its wrapped keys: one that is put back is known by it.
    """

    id: bytes
    fingerprint: bytes

    def leaf(self) -> bytes:
        """The tree leaf; two fields, so never that of a head."""
        return hashlib.sha256(b"\x00" + pack(self.id, self.fingerprint)).digest()


class Emptied(NamedTuple):
    """Events of a session that were erased one by one while it lives on, as the ledger records them.

    ``events`` are records of ``EMPTIED_BYTES`` for each: its place in the log, and a hash of its id. Another
    event that takes the place in another history, after a restore, is not meant.
    """

    session_id: bytes
    events: bytes

    def leaf(self) -> bytes:
        """The tree leaf; three fields, so never that of a head or of something erased."""
        return hashlib.sha256(b"\x00" + pack(self.session_id, self.events, b"emptied")).digest()

    def records(self) -> Iterator[bytes]:
        """One record for each event."""
        for start in range(0, len(self.events), EMPTIED_BYTES):
            yield self.events[start : start + EMPTIED_BYTES]


def emptied_record(session_id: bytes, seq: int, event_id: bytes) -> bytes:
    """The record of one event: the same whatever is done to its log, as long as it has its place."""
    name = hashlib.sha256(pack(b"session-vault/1/event", session_id, event_id)).digest()
    return seq.to_bytes(_SEQ_BYTES) + name[: EMPTIED_BYTES - _SEQ_BYTES]


def place_of(record: bytes) -> int:
    """The place of the event that a record means."""
    return int.from_bytes(record[:_SEQ_BYTES])


def joined(
    before: Mapping[bytes, bytes], more: Iterable[Emptied], erased: Container[bytes]
) -> dict[bytes, bytes]:
    """Which events were erased one by one, by session; not of those that are erased as a whole."""
    found = {sid: events for sid, events in before.items() if sid not in erased}
    for one in more:
        if one.session_id not in erased:
            found[one.session_id] = found.get(one.session_id, b"") + one.events
    return found


class Edge(NamedTuple):
    """The tree so far: leaf count and the roots of its perfect subtrees, largest first."""

    size: int
    roots: tuple[bytes, ...]

    def extended(self, leaves: Iterable[bytes]) -> Edge:
        """The tree with more leaves on its right."""
        size, roots = self.size, list(self.roots)
        for leaf in leaves:
            roots.append(leaf)
            size += 1
            for _ in range(
                (size & -size).bit_length() - 1
            ):  # one merge per trailing zero bit of the new size
                right = roots.pop()
                roots[-1] = _node(roots[-1], right)
        return Edge(size, tuple(roots))

    def root(self) -> bytes:
        """The tree's root hash (RFC 6962 §2.1; the hash of nothing for an empty tree)."""
        if not self.roots:
            return hashlib.sha256(b"").digest()
        root = self.roots[-1]
        for left in reversed(self.roots[:-1]):
            root = _node(left, root)
        return root


EMPTY: Final = Edge(0, ())


class Signer:
    """The vault's Ed25519 signing key and its name in notes."""

    PUBLIC_BYTES: Final = 32

    def __init__(self, seed: bytes, name: str) -> None:
        """Make the key from its 32-byte seed."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.name = name
        self.public = self._key.public_key().public_bytes_raw()

    @staticmethod
    def new_seed() -> bytes:
        """A fresh 32-byte seed."""
        return Ed25519PrivateKey.generate().private_bytes_raw()

    def sign(self, text: str) -> str:
        """The text with a signature line (C2SP signed-note); the text ends in a newline."""
        signature = key_id(self.name, self.public) + self._key.sign(text.encode())
        return f"{text}\n— {self.name} {base64.b64encode(signature).decode()}\n"


def key_id(name: str, public: bytes) -> bytes:
    """The four bytes that tell keys apart in a note (C2SP signed-note §"Signatures")."""
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + public).digest()[:4]


class Author(NamedTuple):
    """Whose notes to read: the name and the Ed25519 public key; without a key no signature is checked."""

    name: str
    public: bytes | None


def opened(note: str, name: str, public: bytes | None) -> str:
    """The text of a note whose signature by this key verifies.

    Raises:
        Tampered: no signature by this key, or it does not verify.
    """
    text, separator, signatures = note.partition("\n\n")
    text += "\n"
    if separator and public is None:
        return text
    if separator and public is not None:
        for line in signatures.splitlines():
            mark, _, rest = line.partition(" ")
            signer, _, encoded = rest.partition(" ")
            if mark != "—" or signer != name:
                continue
            try:
                signature = base64.b64decode(encoded, validate=True)
                if signature[:4] == key_id(name, public):
                    Ed25519PublicKey.from_public_bytes(public).verify(signature[4:], text.encode())
                    return text
            except (binascii.Error, InvalidSignature):
                raise Tampered("a ledger entry's signature does not verify") from None
    raise Tampered("a ledger entry is not signed by this vault's key")


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root of a whole tree."""
    return EMPTY.extended(leaves).root()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
