"""Root key in a file that only its owner can read.

The record is the file's path, relative to the vault's directory. Once the key was replaced, 16 bytes that
name the key follow behind a zero byte, so that the record says which key opens the vault: a new key is
written beside the old one (``root.key.next``) before the keys are wrapped under it, and renamed after.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vault.errors import KeyUnavailable, WrongKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.keyring import Passphrase

_HEADER: Final = "session-vault root key, version 1"
_DEFAULT: Final = "root.key"
_NEXT: Final = ".next"
_BYTES: Final = 32


def create(rest: str, directory: Path, _given: Passphrase) -> tuple[bytes, bytes]:
    """Make a key file (mode 0600, never over an existing one) and return the key and its place."""
    key = secrets.token_bytes(_BYTES)
    _write(directory / (rest or _DEFAULT), key)
    return key, (rest or _DEFAULT).encode()


def open_key(record: bytes, directory: Path, _given: Passphrase) -> bytes:
    """Read the key file, refusing one that others can read; finish its replacement, if that was cut off.

    Raises:
        KeyUnavailable: missing, unreadable, or its mode lets others in.
        WrongKey: not a root key file, or not the one that the vault's keys are under.
    """
    path, name = _place(record, directory)
    if not name:
        return _read(path)
    refused: KeyUnavailable | None = None
    for place in (path, _next(path)) * 2:  # twice: the one may have become the other between the looks
        try:
            key = _read(place)
        except KeyUnavailable as error:
            refused = refused or error
            continue
        if hmac.compare_digest(_name(key), name):
            if place != path:
                # When another process holds it, that one finishes; on a read-only disk nobody does.
                with contextlib.suppress(KeyUnavailable), _held(path, wait=False) as got:
                    _finish(path, name if got else b"")
            return key
        refused = refused or WrongKey(
            "the root key file is not the one that the vault's keys are under by now; put back the newest"
        )
    raise refused or KeyUnavailable("the root key file is missing; put it back from its own backup")


@contextlib.contextmanager
def replacing(directory: Path, record: bytes) -> Iterator[None]:
    """Hold the key file's directory against every other process that replaces the key."""
    with _held(_place(record, directory)[0], wait=True):
        yield


def make_next(record: bytes, directory: Path, old: bytes, _given: Passphrase) -> tuple[bytes, bytes]:
    """A new key beside the old one, durable, and the record that names it.

    Raises:
        KeyUnavailable: it cannot be written, or the old key is not in its place.
    """
    path, key = _place(record, directory)[0], secrets.token_bytes(_BYTES)
    if _read(path) != old:  # it could be what stands beside it: that must never be overwritten
        raise KeyUnavailable("the root key file is not in its place; open the vault again, then try again")
    with contextlib.suppress(OSError):  # writing it says what is in the way
        _next(path).unlink()  # of an attempt that was cut off before anything was under it
    _write(_next(path), key)
    return key, record.partition(b"\0")[0] + b"\0" + _name(key)


def destroy_old(record: bytes, directory: Path) -> None:
    """Overwrite the old key and put the one that the record names in its place.

    Raises:
        KeyUnavailable: the old key file cannot be overwritten; the vault is under the new one all the same.
    """
    _finish(*_place(record, directory))


def _place(record: bytes, directory: Path) -> tuple[Path, bytes]:
    place, _, name = record.partition(b"\0")
    # The file itself, where a link leads to it: it is what is overwritten and replaced.
    return Path(os.path.realpath(directory / os.fsdecode(place))), name


def _next(path: Path) -> Path:
    return path.with_name(path.name + _NEXT)


def _name(key: bytes) -> bytes:
    """What names a key without telling anything of it: it is uniformly random."""
    return hashlib.sha256(b"session-vault/1/root" + key).digest()[:16]


def _finish(path: Path, name: bytes) -> None:
    """Destroy the old key and rename the new one; only for who holds the directory."""
    try:
        key = _read(_next(path))
    except KeyUnavailable:
        return  # another process was faster, or there is nothing to finish
    if not hmac.compare_digest(_name(key), name):
        return  # nothing is under it yet: it is of a replacement that was cut off, or of a later one
    try:
        with contextlib.suppress(FileNotFoundError):
            path.chmod(0o600)
            with path.open("r+b") as old:
                old.write(bytes(os.fstat(old.fileno()).st_size))
                old.flush()
                os.fsync(old.fileno())
        _next(path).replace(path)
        _settle(path.parent)
    except OSError:
        raise KeyUnavailable(
            "the vault is under its new root key, but the old key file cannot be overwritten; destroy it "
            "and put the file beside it that ends in .next in its place"
        ) from None


@contextlib.contextmanager
def _held(path: Path, *, wait: bool) -> Iterator[bool]:
    try:
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        raise KeyUnavailable("the root key's directory cannot be opened; check that it exists") from None
    try:
        got = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            got = False
        yield got
    finally:
        os.close(descriptor)


def _write(path: Path, key: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{_HEADER}\n{base64.b64encode(key).decode()}\n")
            file.flush()
            os.fsync(file.fileno())
        _settle(path.parent)  # the name too: a vault without its key is lost
    except FileExistsError:
        raise KeyUnavailable("there is a file at the root key's place already; move it away first") from None
    except OSError:
        raise KeyUnavailable("the root key file cannot be written; check that its directory exists") from None


def _settle(directory: Path) -> None:
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
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
