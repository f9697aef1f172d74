"""Copies of a whole vault: backup and restore; and what belongs to nothing in it.

A restore is the one way back to an older state. What is restored stands in a quarantine beside its place
until all of it is checked: what the newest ledger says was erased is erased there again, and the ledger gets
a signed entry that says which state counts from then on. Only then it is moved into its place, in one step.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from vault import config
from vault.audit.anchor import FULL_EVERY
from vault.audit.verify import Verification
from vault.clock import SystemClock
from vault.erasure import backup as backups
from vault.erasure import fsck as consistency
from vault.erasure import quarantine
from vault.erasure.emptied_again import empty_again
from vault.erasure.execute import fingerprint_of
from vault.erasure.left_out import leave_out_replaced
from vault.errors import Conflict, InvalidInput, KeyUnavailable, Tampered
from vault.model import format_id
from vault.sealing.notes import Gone
from vault.storage.copies import write_file
from vault.storage.files import FileBlobs, FileLedger, held_directory, make_private, sync_directory
from vault.stores import open_anchors
from vault.wiring import Vault

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from vault.audit.anchor import Anchor
    from vault.audit.verify_session import Finding
    from vault.clock import Clock
    from vault.erasure.backup import Backup
    from vault.erasure.fsck import Checked
    from vault.keyring import Passphrase
    from vault.sealing.keys import KeyHierarchy
    from vault.storage.keystore import SqlKeyStore
    from vault.storage.records import SqlRecords

    Progress = Callable[[int, int], None] | None

#: Settings of a vault in quarantine: it writes nowhere else.
_APART: Final = {"ledger": backups.LEDGER, "anchor": ""}
#: Of a rehearsal also: nobody outside is told, and a document that stands elsewhere is not looked for.
_REHEARSED: Final = {**_APART, "external_targets": "", "levels": ""}


class Lost(NamedTuple):
    """A session that the newest ledger knows with more events than the backup holds; 0 when it lacks it."""

    session_id: str
    events: int
    restored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did.

    ``lost`` is what the ledger knows and the backup does not hold. ``erased_again`` sessions and items were
    in the backup and had been erased since, and ``events_again`` single events of other sessions.
    ``newer_ledger`` is whether anything but the backup itself
    told of what was erased since: a newer ledger, or keys.db. ``findings`` is the damage that was accepted.
    """

    sessions: int
    lost: tuple[Lost, ...]
    erased_again: int
    events_again: int
    ledger_entries: int
    newer_ledger: bool
    made_at: str
    findings: tuple[Finding, ...] = field(repr=False)


def backup(vault: Vault, to: Path, keys_to: Path | None = None, *, progress: Progress = None) -> Backup:
    """Copy an open vault's data, and apart from it its keys, while others go on writing.

    The root key is never copied. Cut off, it does not count, and goes on when it is begun again.

    Args:
        vault: an open vault.
        to: a directory that is empty or not there, outside of the vault's.
        keys_to: another one for keys.db, or None; keep it in another place, and for a shorter time.
        progress: told (files of payloads done, files in all).

    Raises:
        InvalidInput: the places are not empty, within the vault's directory, or within each other.
        StorageUnavailable, StorageFull: it was not finished.
        Tampered: a database is damaged.
    """
    stores = vault.stores
    to, keys_to = _place(to), keys_to and _place(keys_to)
    _check_apart(stores.directory, to, keys_to)

    def gone() -> set[bytes]:
        stores.history.refresh()
        return stores.history.erased.keys() | {grave.scope for grave in stores.parts.store.tombstones()}

    source = backups.Source(
        vault_id=stores.settings.vault_id,
        database=stores.database,
        key_database=stores.key_database,
        blobs=FileBlobs(stores.directory / backups.BLOBS),
        ledger=FileLedger(stores.directory / stores.settings.ledger),
        files=_files(stores.directory, stores.settings),
        gone=gone,
        clock=stores.parts.log.clock,
    )
    return backups.back_up(source, to, keys_to, progress)


def fsck(vault: Vault, *, remove: bool = False) -> Checked:
    """Look for what belongs to nothing, and for what is missing.

    Args:
        vault: an open vault.
        remove: delete files that nothing names, once they are a day old and were found so before.

    Raises:
        StorageUnavailable: the vault's directory cannot be read or written.
    """
    stores = vault.stores
    area = FileBlobs(stores.directory / backups.BLOBS)
    return consistency.check(stores.parts, stores.directory, area, remove=remove)


def restore(
    from_: Path,
    to: Path,
    *,
    keys: Path,
    ledger: Path | None = None,
    root_key: Path | None = None,
    passphrase: Passphrase = None,
    accept_damage: bool = False,
    remembered: bool = True,
    clock: Clock | None = None,
    progress: Progress = None,
) -> Restored:
    """Make a vault out of a backup, with what was erased since erased again; then it may be opened.

    Args:
        from_: a finished backup of data.
        to: where the vault is to be; nothing may be there.
        keys: a backup of keys, or a vault's directory or keys.db.
        ledger: the newest ledger there is, for example of the vault that is replaced.
        root_key: the root key's file, to be put into the restored vault; only where it belongs inside.
        passphrase: what opens the vault, or asks for it.
        accept_damage: serve it although something in it does not verify; the findings say what.
        remembered: whether this machine's memory of the ledger counts, and goes on with the restored vault.
        clock: another source of time, for tests.
        progress: told (files of payloads done, files in all).

    Raises:
        InvalidInput: something is at ``to``, or there is no finished backup.
        Tampered: the backup was changed, does not verify, or the ledgers tell different histories.
        KeyUnavailable: the root key is missing or not that of these keys, or they lack some of the data's.
        RolledBack: no ledger reaches as far as the backup.
    """
    work = _Restoring(_place(from_), _place(to), remembered=remembered, progress=progress)
    return work.run(keys, ledger, root_key, passphrase, clock or SystemClock(), accept_damage=accept_damage)


class _Restoring:
    """One restore."""

    def __init__(self, from_: Path, to: Path, *, remembered: bool, progress: Progress) -> None:
        self._from, self._to, self._remembered, self._progress = from_, to, remembered, progress
        quarantine.check_target(to)
        self._place = to.with_name(f".{to.name}.quarantine")

    def run(
        self,
        keys: Path,
        ledger: Path | None,
        root_key: Path | None,
        passphrase: Passphrase,
        clock: Clock,
        *,
        accept_damage: bool,
    ) -> Restored:
        make_private(self._place)
        with held_directory(self._place), _emptied(self._place, self._to):
            about = quarantine.unpack(self._from, self._place, self._progress)
            settings, given = _settings(self._place, about.vault_id)
            quarantine.unpack_keys(_place(keys), self._place, about.vault_id)
            if root_key is not None:
                quarantine.put_root_key(_place(root_key), self._place)
            newest, gap = quarantine.merge_ledgers(self._place, self._ledgers(ledger, settings))
            config.write(self._place, settings.model_copy(update=_APART if self._remembered else _REHEARSED))
            returning = _Returning(FileBlobs(self._place / backups.BLOBS), gap, accept_damage=accept_damage)
            with Vault(self._place, passphrase, clock, returning) as vault:
                events = empty_again(vault.stores.parts, vault.stores.history.emptied)
                findings = _checked(vault, accept_damage=accept_damage)
                sessions = vault.info()["sessions"]
            entries = self._serve(settings, given)
        return Restored(
            sessions=sessions,
            lost=returning.lost,
            erased_again=returning.again,
            events_again=events,
            ledger_entries=entries,
            newer_ledger=max(newest, default=0) > about.ledger_entries or returning.told,
            made_at=about.made_at,
            findings=findings,
        )

    def _ledgers(self, given: Path | None, settings: config.Settings) -> list[Path]:
        known = _known_ledgers(self._place, settings) if self._remembered else []
        return known if given is None else [_given_ledger(given), *known]

    def _serve(self, settings: config.Settings, given: bytes) -> int:
        """Move what was checked into its place; how many entries its ledger has."""
        if self._remembered:
            _settle(self._place, settings, given)
        self._place.rename(self._to)
        sync_directory(self._to.parent)
        ledger = FileLedger(self._to / (settings.ledger if self._remembered else backups.LEDGER))
        if self._remembered:
            _remember(self._to, settings, ledger)
        return ledger.numbers()[-1]


class _Returning:
    """Makes the state of a copy count: called while the vault in quarantine is opened."""

    def __init__(self, blobs: FileBlobs, gap: tuple[int, int] | None, *, accept_damage: bool) -> None:
        self._blobs, self._gap, self._accept = blobs, gap, accept_damage
        self.lost: tuple[Lost, ...] = ()
        self.again = 0
        self.told = False  # whether keys.db knew of an erasure that the ledger does not

    def __call__(self, anchor: Anchor, records: SqlRecords, keys: KeyHierarchy, store: SqlKeyStore) -> None:
        anchor.history.refresh()
        known, erased = anchor.history.heads, anchor.history.erased
        more = _told_by_keys(store, erased)
        self.told = bool(more)
        leave_out_replaced(records, store, accepted=self._accept)
        try:
            heads = Verification(records, self._blobs, keys).unrecorded({})
        except KeyUnavailable:
            raise KeyUnavailable(
                "keys.db lacks keys of the data that is restored: it is older; give a newer one with --keys"
            ) from None
        with records.snapshot() as reader:
            present = {id_ for (id_,) in reader.scan("all_ids")}
        gone = erased.keys() | {one.id for one in more}
        self.again = len(present & gone)
        have = {head.session_id: head.seq for head in heads}
        self.lost = tuple(
            Lost(format_id("ses", id_), head.seq, have.get(id_, 0))
            for id_, head in sorted(known.items())
            if id_ not in gone and have.get(id_, -1) < head.seq
        )
        anchor.give_back(heads, more, self._gap)


def _told_by_keys(store: SqlKeyStore, erased: Container[bytes]) -> list[Gone]:
    """What keys.db says was destroyed and the ledger does not: the ledger is older."""
    graves: dict[bytes, list[tuple[str, int, bytes]]] = {}
    for grave in store.tombstones():
        graves.setdefault(grave.scope, []).append((grave.purpose, grave.epoch, grave.fingerprint))
    return [
        Gone(id_, fingerprint_of([mark for _, _, mark in sorted(found) if mark]))
        for id_, found in graves.items()
        if id_ not in erased
    ]


@contextmanager
def _emptied(place: Path, to: Path) -> Iterator[None]:
    """A quarantine that only this process uses, with nothing in it; emptied again when that fails."""
    quarantine.check_target(to)  # another process may have restored while this one waited
    if not place.is_dir():
        raise Conflict("another process restored to the same place; nothing was done")
    quarantine.empty(place)
    try:
        yield
    except BaseException:
        if place.is_dir():
            quarantine.empty(place)
            place.rmdir()
        raise


def _checked(vault: Vault, *, accept_damage: bool) -> tuple[Finding, ...]:
    looked, report = fsck(vault), vault.verify()
    findings = (*report.findings, *(one for one in looked.findings if one.kind in consistency.DAMAGE))
    if findings and not accept_damage:
        raise Tampered(
            f"what the backup holds does not verify ({len(findings)} findings, the first of kind "
            f"{findings[0].kind}): use another backup, or accept the damage"
        )
    return findings


def _place(path: Path) -> Path:
    return Path(path).absolute()


def _check_apart(directory: Path, to: Path, keys_to: Path | None) -> None:
    """Refuse places that lie within each other.

    Raises:
        InvalidInput: they do.
    """
    places = [directory, to, *([] if keys_to is None else [keys_to])]
    real = [Path(place).resolve() for place in places]
    for number, place in enumerate(real):
        if any(place == other or other in place.parents for other in real[:number] + real[number + 1 :]):
            raise InvalidInput(
                "the vault, the backup and the backup of its keys are three places, none within another"
            )


def _files(directory: Path, settings: config.Settings) -> dict[str, Path]:
    """What belongs to a vault beside its stores; never its root key."""
    files = {config.FILE: directory / config.FILE}
    levels = Path(settings.levels)
    if settings.levels and not levels.is_absolute() and ".." not in levels.parts:
        files[levels.as_posix()] = directory / levels
    return files


def _settings(place: Path, vault_id: str) -> tuple[config.Settings, bytes]:
    """The settings in a quarantine, taken out of it: without them nobody opens it.

    Raises:
        Tampered: they are another vault's.
    """
    settings = config.read(place)
    if settings.vault_id != vault_id:
        raise Tampered("the backup's settings are of another vault; use another backup")
    content = (place / config.FILE).read_bytes()
    (place / config.FILE).unlink()
    return settings, content


def _given_ledger(place: Path) -> Path:
    place = _place(place)
    inside = place / backups.LEDGER
    if (place / config.FILE).is_file() and inside.is_dir():
        place = inside  # a vault's directory was given
    if not place.is_dir():
        raise InvalidInput("there is no ledger at the path given")
    return place


def _known_ledgers(place: Path, settings: config.Settings) -> list[Path]:
    """Where else entries of this vault's ledger may be: this machine's memory, and where the settings say."""
    places = [config.state_directory(settings.vault_id)]
    if settings.anchor:
        places.append(place / settings.anchor)
    if _is_outside(settings):
        places.append(place / settings.ledger)
    return places


def _is_outside(settings: config.Settings) -> bool:
    ledger = Path(settings.ledger)
    return ledger.is_absolute() or ".." in ledger.parts


def _settle(place: Path, settings: config.Settings, given: bytes) -> None:
    """Put settings and ledger of a quarantine where the vault has them."""
    inside = place / backups.LEDGER
    target = place / settings.ledger
    if _is_outside(settings):
        ledger, outside = FileLedger(inside), FileLedger(target)
        there = set(outside.numbers())
        for number in ledger.numbers():
            if number not in there:
                outside.append(ledger.read(number))
        quarantine.empty(inside)
        inside.rmdir()
    elif target != inside:
        make_private(target.parent)
        inside.rename(target)
    write_file(place / config.FILE, given)


def _remember(to: Path, settings: config.Settings, ledger: FileLedger) -> None:
    """Let this machine's memory go on with the restored ledger: no other copy is opened from here on."""
    for copy in open_anchors(to, settings)[0]:
        there = copy.numbers()
        newest = there[-1] if there else 0
        for number in ledger.numbers()[-2 * FULL_EVERY :]:
            if number > newest:
                copy.append(ledger.read(number))
