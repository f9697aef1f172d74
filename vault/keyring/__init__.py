"""Where the root key is: one provider per URI scheme."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from vault.errors import InvalidInput, KeyUnavailable
from vault.keyring import file, passphrase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Passphrase = str | Callable[[], str] | None
    #: Reads whose keys they are, the provider and its record, from keys.db.
    Stored = Callable[[], tuple[bytes, str, bytes] | None]

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


class Replacement(NamedTuple):
    """A root key on its way to be replaced, by another that is stored durably already."""

    key: bytes
    record: bytes
    new_key: bytes
    new_record: bytes


@contextlib.contextmanager
def replaced_root(
    stored: Stored, directory: Path, given: Passphrase, new: Passphrase = None
) -> Iterator[Replacement]:
    """A new root key, to wrap the vault's keys under; leaving without an error destroys the old one.

    Cut off anywhere, the record that is in keys.db names the key that opens it.

    Args:
        stored: reads the root record.
        directory: the vault's directory.
        given: the passphrase that opens the vault, for ``passphrase:``.
        new: the passphrase from now on; the same one when None.

    Raises:
        KeyUnavailable: the old key is missing, or the new one cannot be written.
        WrongKey: the passphrase is wrong; nothing was changed.
        InvalidInput: the new passphrase is too short.
    """
    scheme, record = _told(stored)
    given = given() if callable(given) else given  # asked once, used twice
    with _PROVIDERS[scheme].replacing(directory, record):
        scheme, record = _told(stored)  # another process may have replaced it while this one waited
        _PROVIDERS[scheme].destroy_old(record, directory)  # of a replacement that was cut off
        key = open_root(scheme, record, directory, given)
        new_key, new_record = _PROVIDERS[scheme].make_next(record, directory, key, new or given)
        yield Replacement(key, record, new_key, new_record)
        _PROVIDERS[scheme].destroy_old(new_record, directory)


def reopener(stored: Stored, directory: Path, key: bytes, first: bytes) -> Callable[[], bytes]:
    """What reads the root key again, for a process that is open while another one replaces it.

    Args:
        stored: reads the root record.
        directory: the vault's directory.
        key, first: the root key of this process, and the record that named it.

    Raises, when called:
        KeyUnavailable: it was replaced behind a passphrase, which is not kept; says what to do.
    """

    def reopen() -> bytes:
        while True:
            scheme, record = _told(stored)
            if record == first:
                return key
            if scheme == "passphrase":
                raise KeyUnavailable(
                    "another process replaced the root key behind the passphrase; close this vault, open it "
                    "again"
                )
            try:
                return open_root(scheme, record, directory, None)
            except KeyUnavailable:
                if _told(stored) == (scheme, record):
                    raise  # else it was replaced once more between the two looks

    return reopen


def _told(stored: Stored) -> tuple[str, bytes]:
    found = stored()
    if found is None or found[1] not in _PROVIDERS:
        raise KeyUnavailable("keys.db names no root key that this version knows; restore it from its backup")
    return found[1], found[2]
