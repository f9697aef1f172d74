"""Root key in a file that only its owner can read."""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vault.errors import KeyUnavailable, WrongKey

if TYPE_CHECKING:
    from vault.keyring import Passphrase

_HEADER: Final = "session-vault root key, version 1"
_DEFAULT: Final = "root.key"
_BYTES: Final = 32


def create(rest: str, directory: Path, _given: Passphrase) -> tuple[bytes, bytes]:
    """Make a key file (mode 0600, never over an existing one) and return the key and its place."""
    key = secrets.token_bytes(_BYTES)
    path = directory / (rest or _DEFAULT)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{_HEADER}\n{base64.b64encode(key).decode()}\n")
            file.flush()
            os.fsync(file.fileno())
        place = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(place)  # the name too: a vault without its key is lost
        finally:
            os.close(place)
    except FileExistsError:
        raise KeyUnavailable("there is a file at the root key's place already; move it away first") from None
    except OSError:
        raise KeyUnavailable("the root key file cannot be written; check that its directory exists") from None
    return key, (rest or _DEFAULT).encode()


def open_key(record: bytes, directory: Path, _given: Passphrase) -> bytes:
    """Read the key file, refusing one that others can read.

    Raises:
        KeyUnavailable: missing, unreadable, or its mode lets others in.
        WrongKey: not a root key file.
    """
    try:
        with (directory / Path(os.fsdecode(record))).open("rb") as file:
            # The mode of the open file, not of a path that may be swapped in between.
            mode = os.fstat(file.fileno()).st_mode & 0o777
            content = file.read(4096)
    except FileNotFoundError:
        raise KeyUnavailable("the root key file is missing; put it back from its own backup") from None
    except OSError:
        raise KeyUnavailable("the root key file cannot be read; check its owner and permissions") from None
    if mode & 0o077:
        raise KeyUnavailable(
            f"the root key file can be read by others (mode {mode:04o}); run chmod 600 on it"
        )
    header, _, encoded = content.decode("ascii", errors="replace").partition("\n")
    try:
        key = base64.b64decode(encoded.strip(), validate=True)
    except ValueError:  # not base64, or not even ASCII
        key = b""
    if header != _HEADER or len(key) != _BYTES:
        raise WrongKey("the root key file is not a session-vault root key; put back the right one")
    return key
