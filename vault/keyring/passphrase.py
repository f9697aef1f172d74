"""Root key behind a passphrase: Argon2id makes the key that wraps a random root key, never data."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Final

import orjson
from cryptography.cobblestone import Cobblestone256Decryptor, Cobblestone256Encryptor
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from vault.errors import InvalidInput, KeyUnavailable, Tampered, WrongKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vault.keyring import Passphrase

_CONTEXT: Final = b"session-vault/1/passphrase-root"
#: RFC 9106 §4, second recommended option: 3 passes, 4 lanes, 64 MiB. About 0.4 s.
_PASSES, _LANES, _MEMORY_KIB = 3, 4, 64 * 1024
_SALT_BYTES: Final = 16  # RFC 9106 §3.1
_LENGTH_MIN: Final = 8  # NIST SP 800-63B §5.1.1.1; longer is better, and Argon2id cannot save a guessable one
#: Most work a stored record may ask for, so that a changed one cannot hang or starve the machine.
_MEMORY_KIB_MAX, _PASSES_MAX, _LANES_MAX = 2**21, 16, 16


def create(rest: str, _directory: Path, given: Passphrase) -> tuple[bytes, bytes]:
    """Make a random root key and wrap it under the passphrase."""
    if rest:
        raise InvalidInput("nothing follows passphrase: in the root key's place")
    key = secrets.token_bytes(32)
    return key, rewrap(key, given)


def rewrap(key: bytes, given: Passphrase) -> bytes:
    """The record of a root key under a (new) passphrase; nothing else of the vault changes.

    Raises:
        InvalidInput: no passphrase, or one that is too short.
    """
    passphrase = _asked(given)
    if len(passphrase) < _LENGTH_MIN:
        raise InvalidInput(f"a passphrase has at least {_LENGTH_MIN} characters")
    salt = os.urandom(_SALT_BYTES)
    encryptor = Cobblestone256Encryptor(_stretched(passphrase, salt, _PASSES, _LANES, _MEMORY_KIB), _CONTEXT)
    wrapped = encryptor.update(key) + encryptor.finalize()
    parameters = {"passes": _PASSES, "lanes": _LANES, "memory_kib": _MEMORY_KIB}
    return orjson.dumps(parameters | {"salt": salt.hex(), "wrapped": wrapped.hex()})


def open_key(record: bytes, _directory: Path, given: Passphrase) -> bytes:
    """Unwrap the root key.

    Raises:
        KeyUnavailable: no passphrase was given.
        WrongKey: the passphrase is wrong.
        Tampered: the stored record is damaged.
    """
    if given is None:
        raise KeyUnavailable(
            "this vault opens with a passphrase; set SESSION_VAULT_PASSPHRASE or give it when asked"
        )
    try:
        stored = orjson.loads(record)
        passes, lanes, memory = (int(stored[name]) for name in ("passes", "lanes", "memory_kib"))
        salt, wrapped = bytes.fromhex(stored["salt"]), bytes.fromhex(stored["wrapped"])
    except (ValueError, KeyError, TypeError):
        raise Tampered("the stored passphrase record is damaged; restore keys.db from its backup") from None
    if len(salt) != _SALT_BYTES or not (
        1 <= passes <= _PASSES_MAX and 1 <= lanes <= _LANES_MAX and 8 * lanes <= memory <= _MEMORY_KIB_MAX
    ):
        raise Tampered(
            "the stored passphrase record asks for impossible work; restore keys.db from its backup"
        )
    try:
        decryptor = Cobblestone256Decryptor(_stretched(_asked(given), salt, passes, lanes, memory), _CONTEXT)
        return decryptor.update(wrapped) + decryptor.finalize()
    except InvalidTag:
        raise WrongKey("the passphrase is wrong") from None


@contextlib.contextmanager
def replacing(_directory: Path, _record: bytes) -> Iterator[None]:
    """Nothing to hold: the record in keys.db is all there is, and it is compared when it is replaced."""
    yield


def make_next(_record: bytes, _directory: Path, _old: bytes, given: Passphrase) -> tuple[bytes, bytes]:
    """A new root key, and its record under the passphrase that is to open it."""
    key = secrets.token_bytes(32)
    return key, rewrap(key, given)


def destroy_old(_record: bytes, _directory: Path) -> None:
    """Nothing is left to do: the old record went with the transaction that wrote the new one."""


def _asked(given: Passphrase) -> str:
    passphrase = given() if callable(given) else given
    if not passphrase:
        raise InvalidInput("a passphrase is needed; set SESSION_VAULT_PASSPHRASE or give it when asked")
    return passphrase


def _stretched(passphrase: str, salt: bytes, passes: int, lanes: int, memory_kib: int) -> bytes:
    kdf = Argon2id(salt=salt, length=32, iterations=passes, lanes=lanes, memory_cost=memory_kib)
    return kdf.derive(passphrase.encode("utf-8", "surrogatepass"))
