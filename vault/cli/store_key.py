"""The key of another product's encrypted store: from the environment, a file, or the terminal.

It is never an option's value, where other users of the machine could read it.
"""

from __future__ import annotations

import getpass
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Final

import typer

from vault.errors import InvalidInput, KeyUnavailable

_KEY_FILE_BYTES_MAX: Final = 4096
#: Of AES, which LangGraph encrypts with.
_AES_KEY_BYTES: Final = frozenset({16, 24, 32})
_LINE_ENDS: Final = b"\r\n"

KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="WHERE",
        help="Where the key of an encrypted store is: env:NAME, file:PATH, or `ask` for it on the terminal.",
    ),
]


def text_key(where: str) -> str:
    """The key of an ``EncryptedSession``.

    Args:
        where: as ``--key`` says it.

    Raises:
        InvalidInput: nowhere is said, or it is no text.
        KeyUnavailable: there is none.
    """
    try:
        return _key(where).rstrip(_LINE_ENDS).decode()
    except UnicodeDecodeError:
        raise InvalidInput("the key of an EncryptedSession is text, and this is none") from None


def aes_key(where: str) -> bytes:
    """The key of an ``EncryptedSerializer``; the end of the line is no part of it, unless it has the length.

    Args:
        where: as ``--key`` says it.

    Raises:
        InvalidInput: nowhere is said, or it is none of AES.
        KeyUnavailable: there is none.
    """
    given = _key(where)
    used = given if len(given) in _AES_KEY_BYTES else given.rstrip(_LINE_ENDS)
    if len(used) not in _AES_KEY_BYTES:
        raise InvalidInput("the key of an EncryptedSerializer has 16, 24 or 32 bytes, and this one has not")
    return used


def _key(where: str) -> bytes:
    """The key of a store, from where the caller says it is.

    Raises:
        InvalidInput: nowhere is said.
        KeyUnavailable: there is none.
    """
    kind, _, place = where.partition(":")
    if where == "ask":
        key = _asked_for()
    elif kind == "env" and place:
        key = os.fsencode(os.environ.get(place, ""))
    elif kind == "file" and place:
        try:
            with Path(place).open("rb") as file:
                key = file.read(_KEY_FILE_BYTES_MAX + 1)
        except OSError:
            raise KeyUnavailable("the key's file is not there, or cannot be read") from None
    else:
        raise InvalidInput("--key says where the key is: env:NAME, file:PATH or ask; never the key itself")
    if len(key) > _KEY_FILE_BYTES_MAX:
        raise InvalidInput("the file of a key holds the key and nothing else, and this one is too long")
    if not key.rstrip(_LINE_ENDS):
        raise KeyUnavailable("no key is there where --key says, or an empty one")
    return key


def _asked_for() -> bytes:
    refused = "the key is asked for on a terminal; elsewhere give --key env:NAME or file:PATH"
    if not sys.stderr.isatty():
        raise KeyUnavailable(refused)
    try:
        with warnings.catch_warnings():
            # Where the terminal cannot hide what is typed, nothing is typed.
            warnings.simplefilter("error", getpass.GetPassWarning)
            return os.fsencode(getpass.getpass("Key of the store: ", sys.stderr))
    except (getpass.GetPassWarning, EOFError):
        sys.stderr.write("\n")
        raise KeyUnavailable(refused) from None
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise
