"""What lies about in a vault, and what is missing: files, rows and keys that do not belong to each other.

`verify` asks whether what is there is genuine; this asks whether all of it belongs somewhere. Nothing is
deleted but files that cannot belong to anything any more, and only when asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vault.audit.verify_session import Finding
from vault.derived.verification import ItemsVerification
from vault.encoding import canonical_json, json_value
from vault.errors import StorageUnavailable
from vault.model import format_id
from vault.policy.epochs import own_number
from vault.storage.copies import write_file
from vault.storage.files import FileBlobs, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vault.erasure.service import Parts
    from vault.ports.keys import KeyRow

#: A file that nothing names may be one whose row is about to be written: so long it is left alone, and until
#: a second look finds it unnamed still (kopia's rule).
GRACE_US: Final = 24 * 3_600_000_000
#: Where a look notes the files that it found unnamed.
SIGHTINGS: Final = "unreferenced.json"
_INCOMING: Final = "incoming"
#: Kinds that mean that something is lost or wrong, not only left over.
DAMAGE: Final = frozenset({"missing_file", "missing_key", "lineage", "item_source", "stray_row"})
#: Kinds that the verification of derived items finds.
LINEAGE: Final = frozenset({"lineage", "item_source"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found; ``removed`` files and their bytes are gone, ``freed`` of them."""

    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    removed: int
    freed: int

    @property
    def ok(self) -> bool:
        """Whether nothing is lost or wrong; what is left over may be."""
        return not any(finding.kind in DAMAGE for finding in self.findings)


def check(parts: Parts, directory: Path, blobs: FileBlobs, *, remove: bool) -> Checked:
    """Look through everything; with ``remove``, delete the files that nothing will ever name.

    Raises:
        StorageUnavailable: the vault's directory cannot be read or written.
    """
    look = _Look(parts, directory, blobs)
    findings = [*look.files(remove=remove), *look.temporary(remove=remove), *look.keys(), *look.rows()]
    return Checked(findings=tuple(findings), counts=look.counts, removed=look.removed, freed=look.freed)


class _Look:
    def __init__(self, parts: Parts, directory: Path, blobs: FileBlobs) -> None:
        self._parts, self._directory, self._blobs = parts, directory, blobs
        self._now_us = parts.log.clock.now_us()
        self.removed = self.freed = 0
        self.counts = dict.fromkeys(("files", "unnamed_files", "keys", "unused_keys", "unfinished"), 0)

    def files(self, *, remove: bool) -> Iterator[Finding]:
        """Files against the rows that name them, both ways."""
        # Files first: one that is kept and named meanwhile is then found named.
        there = set(self._blobs.addresses())
        with self._parts.log.records.snapshot() as reader:
            named = {row[0]: (row[1], row[2]) for row in reader.scan("all_files")}
        self.counts["files"] = len(there)
        for address in sorted(named.keys() - there):
            id_, state = named[address]
            # An erasure deletes the file before the row; and a file may have come since the list was made.
            if state != "erasing" and not self._blobs.path(address).exists():
                place = f"{format_id('id', id_)} payload {address.hex()}"
                yield Finding(kind="missing_file", place=place, detail="its file is missing")
        unnamed = there - named.keys()
        before = self._sightings()
        self.counts["unnamed_files"] = len(unnamed)
        for address in sorted(unnamed):
            ready = address.hex() in before and self._is_old(self._blobs.path(address))
            if ready and remove and self._removed(address):
                continue
            detail = "nothing names it; " + (
                "fsck --remove deletes it" if ready else "it is left alone for 24 hours and a second look"
            )
            yield Finding(kind="unnamed_file", place=f"file {address.hex()}", detail=detail)
        left = {
            one.hex(): before.get(one.hex(), self._now_us) for one in set(self._blobs.addresses()) & unnamed
        }
        if left or before:
            write_file(self._directory / SIGHTINGS, canonical_json(left))

    def temporary(self, *, remove: bool) -> Iterator[Finding]:
        """What uploads and ledger entries that were cut off left behind."""
        incoming = self._directory / "blobs" / _INCOMING
        try:
            for file in sorted(incoming.iterdir()):
                if not self._is_old(file):
                    continue
                if remove:
                    self.freed += file.stat().st_size
                    file.unlink()
                    self.removed += 1
                else:
                    detail = "of an upload that was cut off; fsck --remove deletes it"
                    yield Finding(kind="temporary_file", place=f"file {file.name}", detail=detail)
            if remove:
                sync_directory(incoming)
        except OSError:
            raise StorageUnavailable("the blob area cannot be read; check its permissions") from None

    def keys(self) -> Iterator[Finding]:
        """Keys against the sessions and items that they open, both ways."""
        # Rows first: a key is always there before its row.
        with self._parts.log.records.snapshot() as reader:
            sessions = {id_ for (id_,) in reader.scan("all_session_ids")}
            items = {id_ for (id_,) in reader.scan("all_item_ids")}
        mine = [row for row in self._parts.store.rows() if row.purpose in {"epoch", "item"}]
        self.counts["keys"] = len(mine)
        known = sessions | items
        for row in mine:
            if row.scope not in known and self._is_of_old(row):
                self.counts["unused_keys"] += 1
                detail = "its key is of nothing: of something that was cut off while it was made"
                yield Finding(kind="unused_key", place=format_id("id", row.scope), detail=detail)
        yield from self._old_keys(mine)
        have = {row.scope for row in mine}
        for id_ in sorted(known - have):
            purpose = "item" if id_ in items else "epoch"
            if self._parts.store.is_destroyed(purpose, id_, 0) is None:
                detail = "its key is missing: nobody can read it"
                yield Finding(kind="missing_key", place=format_id("id", id_), detail=detail)
            else:
                detail = "it was erased by right and its rows are not deleted yet: a sweep goes on with that"
                yield Finding(kind="leaving", place=format_id("id", id_), detail=detail)

    @staticmethod
    def _old_keys(mine: list[KeyRow]) -> Iterator[Finding]:
        """Keys of sessions that were replaced, and whose replacement was cut off before they went."""
        numbers: dict[bytes, set[int]] = {}
        for row in mine:
            if row.purpose == "epoch":
                numbers.setdefault(row.scope, set()).add(own_number(row.epoch))
        for scope in sorted(scope for scope, found in numbers.items() if len(found) > 1):
            detail = "its keys were being replaced when that was cut off: run keys reencrypt again"
            yield Finding(kind="old_key", place=format_id("ses", scope), detail=detail)

    def rows(self) -> Iterator[Finding]:
        """Rows of nothing, erasures that are not done, and where derived items come from."""
        with self._parts.log.records.snapshot() as reader:
            strays = list(reader.scan("stray_rows"))
            unfinished = [(row[1], row[3]) for row in reader.scan("unfinished_operations")]
        for kind, number in strays:
            detail = f"a row ({kind}) of a session that is not there"
            yield Finding(kind="stray_row", place=f"session number {number}", detail=detail)
        self.counts["unfinished"] = len(unfinished)
        for operation, state in unfinished:
            detail = f"this erasure is not done yet (it is {state}): a sweep goes on with it"
            yield Finding(kind="unfinished", place=format_id("era", operation), detail=detail)
        for found in ItemsVerification(self._parts.log).run():
            if found.kind in LINEAGE:
                yield Finding(kind=found.kind, place=found.place, detail=found.detail)

    def _removed(self, address: bytes) -> bool:
        with self._parts.log.records.snapshot() as reader:
            if next(reader.scan("file_named", address=address), None) is not None:
                return False
        size = self._blobs.path(address).stat().st_size
        self._blobs.delete(address)
        self.removed, self.freed = self.removed + 1, self.freed + size
        return True

    def _is_old(self, file: Path) -> bool:
        try:
            return file.stat().st_mtime_ns // 1000 < self._now_us - GRACE_US
        except FileNotFoundError:
            return False

    def _is_of_old(self, row: KeyRow) -> bool:
        """By the time in its id: what is being made this moment has a key and no row."""
        return int.from_bytes(row.scope[:6]) * 1000 < self._now_us - GRACE_US

    def _sightings(self) -> dict[str, Any]:
        try:
            said = json_value((self._directory / SIGHTINGS).read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        except OSError:
            raise StorageUnavailable("the vault's directory cannot be read; check its permissions") from None
        return said if isinstance(said, dict) else {}
