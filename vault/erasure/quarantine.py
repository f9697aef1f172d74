"""A restored vault before anybody may open it: its files from the backup, and the newest ledger there is.

Nothing is written anywhere but in the quarantine. What a backup says of its files is compared while they are
copied; who wrote them is checked when the vault in them is opened.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vault.erasure.backup import BLOBS, DATA, KEYS, LEDGER, MANIFEST, hash_of, read_manifest
from vault.errors import InvalidInput, StorageUnavailable, Tampered
from vault.ports.ledger import LedgerFile
from vault.storage.copies import copy_database_file, copy_file, pour, read_copy
from vault.storage.files import FileBlobs, FileLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Progress = Callable[[int, int], None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """What was copied out of a backup. ``missing`` are addresses of files that are not in it, or changed."""

    vault_id: str
    backup: str
    made_at: str
    ledger_entries: int
    missing: tuple[str, ...]


def unpack(backup: Path, quarantine: Path, progress: Progress) -> Unpacked:
    """Copy a backup of data, all but its keys, comparing each file with the manifest.

    Raises:
        InvalidInput: there is no finished backup.
        Tampered: a file of it is not what was backed up.
        StorageUnavailable: one cannot be read, or the quarantine not be written.
    """
    manifest = read_manifest(backup, "data")
    for path, said in manifest["files"].items():
        if copy_file(backup / path, quarantine / path) != (said["bytes"], said["sha256"]):
            raise Tampered(f"the backup's {_shown(path)} is not what was backed up; use another backup")
    source, target = FileBlobs(backup / BLOBS), FileBlobs(quarantine / BLOBS)
    addresses = sorted(source.addresses())
    whole = []
    for done, address in enumerate(addresses):
        if _copied(source, target, address):
            whole.append(address)
        if progress is not None:
            progress(done + 1, len(addresses))
    missing = set(manifest["damaged"]) | {one.hex() for one in set(addresses) - set(whole)}
    if hash_of(addresses) != manifest["blobs"]["sha256"]:
        missing.add("")  # which ones, `fsck` says: every row that lacks its file
    return Unpacked(
        vault_id=manifest["vault_id"],
        backup=manifest["backup"],
        made_at=manifest["made_at"],
        ledger_entries=manifest["ledger_entries"],
        missing=tuple(sorted(missing)),
    )


def unpack_keys(place: Path, quarantine: Path, vault_id: str) -> None:
    """Copy the keys: out of a backup of them, or as they stand in a vault's directory.

    Raises:
        InvalidInput: there are none.
        Tampered: the copy is not what was backed up.
    """
    target = quarantine / KEYS
    if (place / MANIFEST).is_file():
        manifest: dict[str, Any] = read_manifest(place, "keys")
        if manifest["vault_id"] != vault_id:
            raise InvalidInput("the keys at the path given are of another vault")
        said = manifest["files"].get(KEYS, {})
        if copy_file(place / KEYS, target) != (said.get("bytes"), said.get("sha256")):
            raise Tampered("the backup's keys.db is not what was backed up; use another backup")
        return
    file = place / KEYS if place.is_dir() else place
    if not file.is_file():
        raise InvalidInput("there is no keys.db at the path given")
    copy_database_file(file, target)  # it may be of a vault that is in use


def put_root_key(file: Path, quarantine: Path) -> None:
    """Put a copy of the root key's file where the keys say that it is, within the vault.

    Raises:
        InvalidInput: its place is elsewhere.
        StorageUnavailable: it cannot be read.
    """
    rows = read_copy(quarantine / KEYS, "root_row")
    place = Path(os.fsdecode(rows[0][2].partition(b"\0")[0])) if rows else Path("..")
    if not rows or rows[0][1] != "file" or place.is_absolute() or ".." in place.parts:
        raise InvalidInput("this vault's root key is not within its directory; leave it out")
    copy_file(file, quarantine / place)  # readable by its owner only


def merge_ledgers(quarantine: Path, sources: Iterable[Path]) -> tuple[list[int], tuple[int, int] | None]:
    """Put every entry that somebody still has into the quarantine's ledger.

    Returns:
        The newest entry of each source, 0 for one that has none, and the first and last entry that nobody
        has between those of the backup and the newer ones.

    Raises:
        Tampered: two of them hold different entries of one number: different histories.
    """
    merged = FileLedger(quarantine / LEDGER)
    have = {number: merged.read(number).content for number in merged.numbers()}
    newest = []
    for source in sources:
        ledger = FileLedger(source) if source.is_dir() else None
        numbers = ledger.numbers() if ledger is not None else []
        newest.append(numbers[-1] if numbers else 0)
        for number in numbers:
            assert ledger is not None  # noqa: S101 - told to the type checker
            content = ledger.read(number).content
            if have.setdefault(number, content) != content:
                raise Tampered(
                    "two copies of the ledger tell different histories of this vault; give only the right one"
                )
            merged.append(LedgerFile(number=number, content=content))
    missing = sorted(set(range(1, max(have, default=0) + 1)) - have.keys())
    return newest, (missing[0], missing[-1]) if missing else None


def _copied(source: FileBlobs, target: FileBlobs, address: bytes) -> bool:
    try:
        with source.open(address) as content, target.upload() as upload:
            if pour(content, upload.file).sha256 != address.hex():
                return False
            upload.keep(address)
    except Tampered:
        return False
    return True


def _shown(path: str) -> str:
    return path if path == DATA or path.startswith(LEDGER + "/") else "settings"


def check_target(to: Path) -> None:
    """Refuse to restore over anything.

    Raises:
        InvalidInput: something is there already, or its directory is not there.
    """
    if to.exists() or to.is_symlink():
        raise InvalidInput("there is something at the place to restore to; move it away first")
    if not to.parent.is_dir():
        raise InvalidInput("the directory to restore into does not exist")


def empty(directory: Path) -> None:
    """Delete what an attempt that was cut off left in a quarantine.

    Raises:
        StorageUnavailable: it cannot be deleted.
    """
    import shutil  # noqa: PLC0415 - only here

    try:
        for child in directory.iterdir():
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()
    except OSError:
        raise StorageUnavailable(
            "what an earlier attempt left cannot be deleted; check the permissions"
        ) from None
