"""Keys under keys: wrapping one for its place, and deriving one for its purpose."""

from __future__ import annotations

from typing import Final

from cryptography.cobblestone import Cobblestone256Decryptor, Cobblestone256Encryptor
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from vault.errors import Tampered
from vault.sealing.payload import FORMAT

KEY_BYTES: Final = 32


def wrap(parent: bytes, key: bytes, context: bytes) -> bytes:
    """A key, sealed under its parent for one place (105 bytes with the format byte)."""
    encryptor = Cobblestone256Encryptor(parent, context)
    return FORMAT + encryptor.update(key) + encryptor.finalize()


def unwrap(parent: bytes, wrapped: bytes, context: bytes) -> bytes:
    """The key of a wrap.

    Raises:
        Tampered: another parent, another place, or a changed byte.
    """
    if not isinstance(wrapped, bytes) or wrapped[:1] != FORMAT:
        raise Tampered("a wrapped key has an unknown format")
    try:
        decryptor = Cobblestone256Decryptor(parent, context)
        return decryptor.update(wrapped[1:]) + decryptor.finalize()
    except InvalidTag:
        raise Tampered("a wrapped key does not verify") from None


def derive(key: bytes, purpose: bytes) -> bytes:
    """32 bytes for one purpose from a uniformly random key (HKDF-Expand, SHA-512; RFC 5869 §2.3)."""
    return HKDFExpand(algorithm=SHA512(), length=KEY_BYTES, info=b"session-vault/1/" + purpose).derive(key)
