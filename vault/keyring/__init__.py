"""Where the root key is: one provider per URI scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vault.errors import InvalidInput, KeyUnavailable
from vault.keyring import file, passphrase

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Passphrase = str | Callable[[], str] | None

_PROVIDERS: Final = {"file": file, "passphrase": passphrase}


def create_root(uri: str, directory: Path, given: Passphrase) -> tuple[bytes, str, bytes]:
    """Make a new root key with the provider that a URI names.

    Args:
        uri: ``file:`` (root.key in the vault's directory), ``file:/other/place`` or ``passphrase:``.
        directory: the vault's directory.
        given: the passphrase, or what asks for it; only for ``passphrase:``.

    Returns:
        The 32-byte root key, the provider's scheme, and the record it needs to find the key again.

    Raises:
        InvalidInput: unknown scheme, or no usable passphrase.
        KeyUnavailable: the key cannot be stored.
    """
    scheme, _, rest = uri.partition(":")
    if scheme not in _PROVIDERS:
        raise InvalidInput("the root key's place is file:, file:/a/path or passphrase:")
    key, record = _PROVIDERS[scheme].create(rest, directory, given)
    return key, scheme, record


def open_root(scheme: str, record: bytes, directory: Path, given: Passphrase) -> bytes:
    """The root key of an existing vault.

    Raises:
        KeyUnavailable: the key is missing, or can be read by others.
        WrongKey: the key file is malformed, or the passphrase is wrong.
    """
    if scheme not in _PROVIDERS:
        raise KeyUnavailable("the root key is with a provider that this version does not know")
    key: bytes = _PROVIDERS[scheme].open_key(record, directory, given)
    return key
