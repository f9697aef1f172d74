"""A backup: one state of the data, its sealed files, and the ledger; the keys apart, and only when asked for.

In this order: database, files, keys, ledger. Keys are written before the data that they open, so those copied
after the data hold all that it needs; and the ledger comes last, so it knows of every erasure that took
something away meanwhile. The manifest is written at the very end: without one, nothing here is a backup.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from vault.clock import from_us
from vault.encoding import canonical_json, json_value
from vault.errors import InvalidInput, StorageUnavailable, Tampered
from vault.storage.copies import PARTIAL, Copied, copy_database, copy_file, pour, read_copy, write_file
from vault.storage.files import FileBlobs, FileLedger, make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from vault.clock import Clock
    from vault.storage.sqlite import Database

    Progress = Callable[[int, int], None] | None

MANIFEST: Final = "manifest.json"
#: There while a backup is being made, so that it is gone on with and nothing else is written over.
UNFINISHED: Final = "unfinished.json"
FORMAT: Final = "session-vault/backup/1"
DATA: Final = "data.db"
KEYS: Final = "keys.db"
BLOBS: Final = "blobs"
LEDGER: Final = "ledger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is backed up: the stores of an open vault.

    ``files`` are those beside the stores, by their path within the vault. ``gone`` answers, once all is
    copied, which sessions and items were erased.
    """

    vault_id: str
    database: Database = field(repr=False)
    key_database: Database = field(repr=False)
    blobs: FileBlobs
    ledger: FileLedger
    files: Mapping[str, Path]
    gone: Callable[[], Collection[bytes]]
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A finished backup.

    ``id`` stands in the manifests of data and keys that were made together. ``blobs`` sealed files belong to
    it, ``copied`` of them were copied now; ``damaged`` were missing or changed in the vault itself.
    """

    id: str
    made_us: int
    ledger_entries: int
    bytes: int
    blobs: int
    copied: int
    damaged: tuple[str, ...]
    with_keys: bool


def back_up(source: Source, to: Path, keys_to: Path | None, progress: Progress) -> Backup:
    """Make a backup, or go on with one that was cut off.

    Raises:
        InvalidInput: something else is at one of the places, or a finished backup.
        StorageUnavailable, StorageFull: it was not finished; begin it again at the same place.
        Tampered: a database is damaged.
    """
    name = _begun(to, source.vault_id)
    if keys_to is not None:
        _begun_keys(keys_to, source.vault_id, name)
    made_us = source.clock.now_us()
    files = {DATA: copy_database(source.database, to / DATA)}
    wanted = {address: id_ for address, id_, _ in read_copy(to / DATA, "all_files")}
    copied, size, lost = _copy_blobs(source.blobs, FileBlobs(to / BLOBS), wanted, progress)
    files |= {path: copy_file(file, to / path) for path, file in source.files.items()}
    about = {"format": FORMAT, "vault_id": source.vault_id, "backup": name}
    about["made_at"] = from_us(made_us).isoformat()
    if keys_to is not None:
        keys = {KEYS: copy_database(source.key_database, keys_to / KEYS)}
        _finish(keys_to, {**about, "kind": "keys", "files": _listed(keys)})
    entries = _copy_ledger(source.ledger, FileLedger(to / LEDGER), files)
    gone = source.gone()
    damaged = sorted(address for address in lost if wanted[address] not in gone)
    kept = sorted(wanted.keys() - set(lost))
    blobs = {"count": len(kept), "bytes": size, "sha256": hash_of(kept)}
    more = {"kind": "data", "ledger_entries": entries, "blobs": blobs, "files": _listed(files)}
    _finish(to, {**about, **more, "damaged": [address.hex() for address in damaged]})
    return Backup(
        id=name,
        made_us=made_us,
        ledger_entries=entries,
        bytes=size + sum(one.size for one in files.values()),
        blobs=len(kept),
        copied=copied,
        damaged=tuple(address.hex() for address in damaged),
        with_keys=keys_to is not None,
    )


def read_manifest(place: Path, kind: str) -> dict[str, Any]:
    """What a finished backup says of itself.

    Raises:
        InvalidInput: there is no finished backup of this kind at the place.
        Tampered: its manifest is malformed.
    """
    try:
        content = (place / MANIFEST).read_bytes()
    except OSError:
        raise InvalidInput(
            f"there is no finished backup of {kind} at the path given; one that was cut off does not count"
        ) from None
    try:
        manifest = dict(json_value(content))
        bytes.fromhex(manifest["vault_id"] + manifest["backup"])
        hashes = [said["bytes"] + int(said["sha256"], 16) for said in manifest["files"].values()]
        sound = bool(hashes) and manifest["format"] == FORMAT and manifest["kind"] in {"data", "keys"}
        sound = sound and not any(map(_leads_away, manifest["files"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        manifest, sound = {}, False
    if not sound:
        raise Tampered("a backup's manifest is not one that the vault writes; take another backup")
    if manifest["kind"] != kind:
        raise InvalidInput(f"the backup at the path given is not one of {kind}")
    return manifest


def hash_of(addresses: list[bytes]) -> str:
    """One hash of the addresses of all files of sealed payloads, in order."""
    return hashlib.sha256(b"".join(addresses)).hexdigest()


def _leads_away(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return not parts or path.startswith("/") or ".." in parts or "\\" in path


def _begun(to: Path, vault_id: str) -> str:
    """The id of the backup that is to be finished at a place; a new one where nothing is."""
    if (to / MANIFEST).exists():
        raise InvalidInput("there is a finished backup at this place; choose another directory")
    found = _tidied(to)
    if UNFINISHED in found:
        try:
            said = json_value((to / UNFINISHED).read_bytes())
            if said["vault_id"] == vault_id:
                return str(said["backup"])
        except (OSError, ValueError, KeyError, TypeError, Tampered):
            raise InvalidInput(_OTHER) from None
    if found or (to.exists() and not to.is_dir()):
        raise InvalidInput(_OTHER)
    name = secrets.token_hex(16)
    make_private(to)
    write_file(to / UNFINISHED, canonical_json({"vault_id": vault_id, "backup": name}))
    return name


_OTHER: Final = "there is something else at this place; give an empty directory, or one that is not there yet"


def _tidied(place: Path) -> list[str]:
    """What stands at a place; half-written files of a backup that was cut off are deleted first."""
    if not place.is_dir():
        return []
    for half in (*place.glob(PARTIAL + "*"), *(place / BLOBS / "incoming").glob("*")):
        half.unlink(missing_ok=True)
    for half in (place / LEDGER).glob(".incoming-*"):
        half.unlink(missing_ok=True)
    return [file.name for file in place.iterdir()]


def _begun_keys(keys_to: Path, vault_id: str, name: str) -> None:
    """Take the keys' place; one where the same backup was cut off is taken anew."""
    if (keys_to / MANIFEST).exists() and read_manifest(keys_to, "keys")["backup"] == name:
        (keys_to / MANIFEST).unlink()
        write_file(keys_to / UNFINISHED, canonical_json({"vault_id": vault_id, "backup": name}))
    found = _tidied(keys_to)
    if found and UNFINISHED not in found:
        raise InvalidInput(_OTHER)
    if not found:
        make_private(keys_to)
        write_file(keys_to / UNFINISHED, canonical_json({"vault_id": vault_id, "backup": name}))
    elif json_value((keys_to / UNFINISHED).read_bytes()).get("backup") != name:
        raise InvalidInput(_OTHER)


def _copy_blobs(
    area: FileBlobs, target: FileBlobs, wanted: Mapping[bytes, bytes], progress: Progress
) -> tuple[int, int, list[bytes]]:
    """How many files were copied, how many bytes belong to the backup, and what could not be had."""
    have = set(target.addresses())
    copied, size, lost = 0, 0, []
    for done, address in enumerate(sorted(wanted)):
        there = _size_of(target, address) if address in have else None
        if there is None:
            there = _copy_blob(area, target, address)
            copied += there is not None
        if there is None:
            lost.append(address)
        size += there or 0
        if progress is not None:
            progress(done + 1, len(wanted))
    for address in have - wanted.keys():
        target.delete(address)  # of the attempt that was cut off; it was erased since
    return copied, size, lost


def _copy_blob(area: FileBlobs, target: FileBlobs, address: bytes) -> int | None:
    try:
        with area.open(address) as content, target.upload() as upload:
            found = pour(content, upload.file)
            if found.sha256 != address.hex():
                return None
            upload.keep(address)
    except Tampered:
        return None  # it is not there
    return found.size


def _size_of(target: FileBlobs, address: bytes) -> int | None:
    """The size of a file that was copied before; None when it is not whole."""
    with target.open(address) as file:
        found = pour(file, None)
    return found.size if found.sha256 == address.hex() else None


def _copy_ledger(ledger: FileLedger, target: FileLedger, files: dict[str, Copied]) -> int:
    numbers = ledger.numbers()
    for number in numbers:
        entry = ledger.read(number)
        target.append(entry)
        said = hashlib.sha256(entry.content).hexdigest()
        files[f"{LEDGER}/{number:010d}"] = Copied(len(entry.content), said)
    return numbers[-1] if numbers else 0


def _listed(files: Mapping[str, Copied]) -> dict[str, Any]:
    return {path: {"bytes": one.size, "sha256": one.sha256} for path, one in sorted(files.items())}


def _finish(place: Path, manifest: dict[str, Any]) -> None:
    write_file(place / MANIFEST, canonical_json(manifest) + b"\n")
    try:
        (place / UNFINISHED).unlink(missing_ok=True)
    except OSError:
        raise StorageUnavailable("the backup is finished, and its directory cannot be tidied") from None
