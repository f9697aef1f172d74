"""The large results of tools that Claude Code keeps in files beside a transcript, as artifacts."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from vault.errors import InvalidInput, LimitExceeded, NotFound

if TYPE_CHECKING:
    from vault.derived.item import Artifact
    from vault.faces import Access
    from vault.sessions.session import Session

#: Files of one conversation.
RESULTS_MAX: Final = 10_000
_PIECE_BYTES: Final = 2**20
#: Characters of a file's name that stay as they are.
_NAME_MAX: Final = 200


def kept_results(access: Access, session: Session, beside: Path) -> dict[Path, Artifact]:
    """An artifact of each file in ``tool-results`` beside a transcript; links are not followed.

    Their names hold the session's id and the file's. A file that was kept before is not stored again.

    Raises:
        InvalidInput: a file cannot be read.
        LimitExceeded: there are too many.
    """
    kept: dict[Path, Artifact] = {}
    for path in _files(beside / "tool-results"):
        if len(kept) == RESULTS_MAX:
            raise LimitExceeded(f"a conversation has at most {RESULTS_MAX} files of tool results")
        with _opened(path) as file:
            kept[path] = _kept(access, session, path.name, file)
    return kept


def _kept(access: Access, session: Session, file_name: str, file: BinaryIO) -> Artifact:
    if len(file_name) > _NAME_MAX:
        file_name = hashlib.sha256(os.fsencode(file_name)).hexdigest()
    name = f"claude-agent/{session.id}/{file_name}"
    try:
        before = access.artifacts.get(name)
        with before.open() as stored:
            if _are_alike(stored, file):
                return before
    except NotFound:
        pass  # it is new
    file.seek(0)
    media_type = "text/plain" if file_name.endswith(".txt") else None
    return access.artifacts.put(name, file, media_type=media_type, sources=[session])


def _are_alike(one: BinaryIO, other: BinaryIO) -> bool:
    while True:
        pieces = one.read(_PIECE_BYTES), other.read(_PIECE_BYTES)
        if pieces[0] != pieces[1]:
            return False
        if not pieces[0]:
            return True


def _files(directory: Path) -> Iterator[Path]:
    """What a tool could have put there in place of a file, as a link to elsewhere, is left out."""
    if directory.is_symlink() or directory.parent.is_symlink() or not directory.is_dir():
        return
    for path in sorted(directory.iterdir()):
        if stat.S_ISREG(path.lstat().st_mode):
            yield path


def _opened(path: Path) -> BinaryIO:
    try:
        # It may have become a link, or a pipe that never ends, since it was looked at.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        raise InvalidInput("a file of tool results cannot be read") from None
    return open(descriptor, "rb")  # noqa: PTH123 - a descriptor, not a path
