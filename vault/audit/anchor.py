"""Signed checkpoints of the session heads into the ledger, and the check of a database against it.

An entry is a C2SP signed note (tlog checkpoint: origin, tree size, root) with extension lines, a blank line,
and the heads that are new since the entry before. The same bytes go to the anchors: copies of the newest
entries outside the vault's directory, by which an old copy of the whole directory is recognised.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Final

from vault.audit.emptied import EmptiedEvents
from vault.audit.entries import NOTHING, Entry, decode, encode
from vault.clock import from_us
from vault.errors import Conflict, RolledBack, Tampered, VaultError
from vault.model import format_id
from vault.ports.ledger import LedgerFile
from vault.sealing import rows
from vault.sealing.notes import EMPTY, Emptied, Gone, Head, joined
from vault.sealing.renewal import renewal_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vault.clock import Clock
    from vault.ports.ledger import Ledger
    from vault.ports.records import Reader, Records, Transaction, VaultRow
    from vault.sealing.keys import KeyHierarchy
    from vault.sealing.notes import Author, Signer
    from vault.sessions.witness import Witness

#: Most sessions that one message names.
_NAMED_MAX: Final = 3
#: Every so many entries one holds all heads, so that opening reads at most so many entries.
FULL_EVERY: Final = 64


class History:
    """The ledger as verified so far: its newest entry, and the newest head of every session in it."""

    def __init__(self, author: Signer | Author, ledger: Ledger) -> None:
        """Nothing is read until ``refresh``."""
        self._author, self._ledger = author, ledger
        self._lock = threading.Lock()
        self.newest: Entry | None = None
        self.heads: dict[bytes, Head] = {}
        self.erased: dict[bytes, Gone] = {}
        self.emptied: dict[bytes, bytes] = {}  # by session: which of its events were erased one by one

    def refresh(self) -> None:
        """Read and verify what is new since the last time; at first, from the newest full entry on.

        Raises:
            Tampered: an entry is missing, changed, or does not follow the one before it.
        """
        with self._lock:  # verification and a checkpoint may ask at the same time
            self._refresh()

    def _refresh(self) -> None:
        numbers = self._ledger.numbers()
        known = self.newest.number if self.newest else 0
        if known and (not numbers or numbers[-1] < known):
            raise RolledBack("the ledger lost entries while the vault was open")
        fresh = [number for number in numbers if number > known]
        entries: list[Entry] = []
        for number in reversed(fresh):
            entry = decode(self._author, self._ledger.read(number).content)
            if entry.number != number:
                raise Tampered("a ledger entry stands under another entry's number")
            entries.append(entry)
            if entry.full and self.newest is None:
                break
        for entry in reversed(entries):
            self._follow(entry)

    def _follow(self, entry: Entry) -> None:
        if self.newest is None:
            if not entry.full:
                raise Tampered("the ledger does not begin with a full entry: older entries were removed")
        else:
            _check_follows(self.newest, entry)
        self.newest = entry
        # New dictionaries: whoever goes through the ones before is not disturbed.
        self.erased = self.erased | {gone.id: gone for gone in entry.erased}
        before = {} if entry.restored else self.heads  # a restore takes back what was recorded before it
        heads = before | {head.session_id: head for head in entry.heads}
        self.heads = {sid: head for sid, head in heads.items() if sid not in self.erased}
        self.emptied = joined({} if entry.full else self.emptied, entry.emptied, self.erased)

    def faults(self) -> list[tuple[int, str]]:
        """What is wrong with which entry, all of them read again; empty when nothing is.

        Opening reads from the newest full entry on, so only this finds what happened to older ones.
        """
        numbers, faults = set(self._ledger.numbers()), []
        before: Entry | None = NOTHING
        last = max(numbers, default=0)
        excused = self._gaps(numbers) if len(numbers) < last else set[int]()
        for number in range(1, last + 1):
            entry = None
            if number in excused and number not in numbers:
                before = None  # whoever restored the vault did not have it, and signed that
                continue
            try:
                if number not in numbers:
                    raise Tampered("the entry is missing")
                entry = decode(self._author, self._ledger.read(number).content)
                if entry.number != number:
                    raise Tampered("another entry stands under this number")
                if before is not None:
                    _check_follows(before, entry)
            except VaultError as error:
                faults.append((number, str(error)))
            before = entry
        return faults

    def _gaps(self, numbers: set[int]) -> set[int]:
        excused: set[int] = set()
        for number in numbers:
            try:
                entry = decode(self._author, self._ledger.read(number).content)
            except VaultError:
                continue  # told as a fault of its own
            if entry.gap is not None and entry.gap[1] < number:
                excused.update(range(entry.gap[0], entry.gap[1] + 1))
        return excused


def _check_follows(before: Entry, entry: Entry) -> None:
    if entry.number != before.number + 1 or entry.previous != before.digest:
        raise Tampered("a ledger entry is missing, or does not follow the one before it")
    if before.edge.extended(entry.leaves()) != entry.edge:
        raise Tampered("a ledger entry's tree does not extend the one before it")


class Anchor:
    """Writes checkpoints for one open vault, and holds the database against those there are."""

    def __init__(
        self,
        records: Records,
        ledger: Ledger,
        copies: Sequence[Ledger],
        signer: Signer,
        keys: KeyHierarchy,
        witness: Witness,
        clock: Clock,
    ) -> None:
        """Use a ledger, and copies of its newest entries elsewhere."""
        self._records, self._ledger, self._copies = records, ledger, copies
        self._signer, self._row_key, self._witness, self._clock = signer, keys.row_key(), witness, clock
        self._emptied = EmptiedEvents(records, keys)
        self._changed: set[bytes] = set()
        self._lock = threading.Lock()
        self.history = History(signer, ledger)

    def check(self) -> None:
        """Refuse a database or ledger that is behind what was recorded; remember the recorded heads.

        Raises:
            RolledBack: an old copy was put back, or the newest part was removed; says what is missing.
            Tampered: the ledger or a recorded head was changed.
        """
        # Other processes go on writing: ledger, database, copies. What must not be ahead is read first.
        remembered = [(copy, numbers[-1]) for copy in self._copies if (numbers := copy.numbers())]
        with self._records.snapshot() as reader:
            row = reader.vault()
        self.history.refresh()
        newest = self.history.newest
        for copy, number in remembered:
            self._check_copy(copy, number, newest)
        self._check_vault_row(row, newest)
        problems = self._behind()
        if problems:
            # Another process may have erased something between the two looks: then the ledger says so by now.
            self.history.refresh()
            problems = self._behind()
        if problems:
            rest = f", and {len(problems) - _NAMED_MAX} more" if len(problems) > _NAMED_MAX else ""
            raise RolledBack(f"the database is behind its ledger: {'; '.join(problems[:_NAMED_MAX])}{rest}")
        self._witness.saw(self.history.heads.values())

    def _behind(self) -> list[str]:
        heads = self.history.heads.values()
        with self._records.snapshot() as reader:
            return behind(reader, heads)

    def give_back(self, heads: Iterable[Head], erased: Iterable[Gone], gap: tuple[int, int] | None) -> Entry:
        """Let the database count as it is from here on, older than its ledger on purpose: after a restore.

        What was erased stays erased. No other old state is accepted: the next check is against these heads.

        Args:
            heads: the verified heads of every session of the database.
            erased: what is known to be erased and not in the ledger.
            gap: the first and last entry that is not there any more.

        Raises:
            RolledBack: the database is newer than every ledger that there is.
            Tampered: the ledger or the vault's own row was changed.
        """
        with self._records.snapshot() as reader:
            row = reader.vault()
        with self._lock:
            self.history.refresh()
            self._check_vault_row(row, self.history.newest)
            gone = self.history.erased | {one.id: one for one in erased}
            heads = [head for head in heads if head.session_id not in gone]
            known = self.history.emptied
            # All facts there are: what stands before a backup's heads need not have been recorded.
            emptied = joined(known, self._emptied.between({}, heads, known), gone)
            entry = self._entry(heads, tuple(gone.values()), starmap(Emptied, emptied.items()))
            entry = replace(entry, restored=True, gap=gap)
            content = encode(self._signer, entry)
            self._ledger.append(LedgerFile(number=entry.number, content=content))
            return self._noted(entry, content)

    def changed(self, session_id: bytes) -> None:
        """Note that a session has a new head for the next checkpoint."""
        self._changed.add(session_id)

    def checkpoint(self, found: Iterable[Head] = (), erased: Iterable[Gone] = ()) -> Entry:
        """Write an entry with every head that is new; without any, the newest entry stands.

        Args:
            found: verified heads of sessions that other processes changed and did not record.
            erased: what is about to be erased; from then on nothing brings it back.

        Raises:
            StorageUnavailable: the ledger did not take it.
        """
        with self._lock:
            changed, self._changed = self._changed, set()
            heads = {head.session_id: head for head in found}
            heads |= {head.session_id: head for sid in changed if (head := self._witness.expected(sid))}
            try:
                return self._written(heads, tuple(erased))
            except BaseException:
                self._changed |= changed  # still to be recorded
                raise

    def _written(self, heads: dict[bytes, Head], erased: tuple[Gone, ...]) -> Entry:
        while True:
            self.history.refresh()
            entry = self._next(heads, erased)
            if entry is None and self.history.newest is not None:
                return self.history.newest
            if entry is None:
                raise AssertionError("an empty ledger always gets its first entry")
            content = encode(self._signer, entry)
            # The ledger never knows more than survives a power loss: it would refuse what is left.
            self._records.settle()
            try:
                self._ledger.append(LedgerFile(number=entry.number, content=content))
            except Conflict:
                continue  # another process wrote this number first: ours comes behind it
            return self._noted(entry, content)

    def _noted(self, entry: Entry, content: bytes) -> Entry:
        """Let history, database and copies know of an entry that the ledger took."""
        self.history.refresh()
        written = replace(entry, digest=hashlib.sha256(content).digest())
        self._records.transact(partial(self._keep, entry=written))
        for copy in self._copies:
            self._copy(copy, entry.number)
        return written

    def _next(self, heads: dict[bytes, Head], erased: tuple[Gone, ...]) -> Entry | None:
        newest, known, gone = self.history.newest, self.history.heads, self.history.erased
        erased = tuple(one for one in erased if one.id not in gone)
        going = gone.keys() | {one.id for one in erased}
        new = [
            head
            for sid, head in heads.items()
            if sid not in going and (sid not in known or head.version > known[sid].version)
        ]
        if not new and not erased and newest is not None:
            return None
        emptied = self._emptied.between(known, new, self.history.emptied)
        number = newest.number + 1 if newest else 1
        full = number % FULL_EVERY == 1
        if full:
            emptied = list(starmap(Emptied, joined(self.history.emptied, emptied, going).items()))
            heads = {**known, **{head.session_id: head for head in new}}
            new = [head for sid, head in heads.items() if sid not in going]
            erased = (*gone.values(), *erased)
        return self._entry(new, erased, emptied, full=full)

    def _entry(
        self, heads: Sequence[Head], gone: tuple[Gone, ...], emptied: Iterable[Emptied], *, full: bool = True
    ) -> Entry:
        """The entry that would follow the newest one."""
        newest = self.history.newest
        entry = Entry(
            number=newest.number + 1 if newest else 1,
            digest=b"",
            previous=newest.digest if newest else bytes(32),
            recorded_us=self._clock.now_us(),
            full=full,
            edge=EMPTY,
            heads=tuple(heads),
            erased=gone,
            emptied=tuple(emptied),
        )
        return replace(entry, edge=(newest.edge if newest else EMPTY).extended(entry.leaves()))

    def _keep(self, transaction: Transaction, *, entry: Entry) -> None:
        row = transaction.vault()
        if row is None:
            raise Tampered("the database lacks the vault's own row")
        # What is there gets a new MAC, so it must be what the vault wrote.
        rows.check(rows.vault_mac(self._row_key, row), row.mac, "the vault's own row")
        if row.ledger_no < entry.number:
            row = row._replace(ledger_no=entry.number, ledger_hash=entry.digest)
            transaction.keep_vault(row._replace(mac=rows.vault_mac(self._row_key, row)))

    def _copy(self, copy: Ledger, number: int) -> None:
        there = copy.numbers()
        first = there[-1] + 1 if there else number - (number - 1) % FULL_EVERY
        for missing in self._ledger.numbers():  # after a restore some may be gone for good
            if first <= missing <= number:
                copy.append(self._ledger.read(missing))

    def _check_copy(self, copy: Ledger, number: int, newest: Entry | None) -> None:
        remembered = decode(self._signer, copy.read(number).content)
        if newest is None or newest.number < remembered.number:
            ours = f"ends at entry {newest.number}" if newest else "has no entry"
            raise RolledBack(
                f"this is an old copy of the vault: its ledger {ours}, this machine remembers entry "
                f"{remembered.number} of {from_us(remembered.recorded_us):%Y-%m-%d %H:%M} UTC "
                f"({_named(remembered.heads)} changed since)"
            )
        if self._ledger.read(number).content != copy.read(number).content:
            raise Tampered("the ledger is not the one this machine remembers: its history was rewritten")

    def _check_vault_row(self, row: VaultRow | None, newest: Entry | None) -> None:
        if row is None:
            raise Tampered("the database lacks the vault's own row")
        rows.check(rows.vault_mac(self._row_key, row), row.mac, "the vault's own row")
        number = newest.number if newest else 0
        if row.ledger_no > number:
            raise RolledBack(
                f"the ledger ends at entry {number}, the database has written entry {row.ledger_no}"
            )
        if newest and row.ledger_no == number and row.ledger_hash != newest.digest:
            raise Tampered("the newest ledger entry is not the one that the database has written")


def behind(reader: Reader, recorded: Iterable[Head]) -> list[str]:
    """What the database lacks of the recorded heads, one phrase each; empty when it extends them all."""
    stored = {row[1]: row for row in reader.scan("all_heads")}
    problems = []
    for head in recorded:
        name = format_id("ses", head.session_id)
        row = stored.get(head.session_id)
        if row is None:
            problems.append(f"{name} with {head.seq} events is missing")
            continue
        no, session_id, version, seq, chain, base, renewed, *owned = row
        if not isinstance(version, int) or not isinstance(seq, int) or not _is_whose(session_id, owned, head):
            problems.append(f"{name} is not its owner's, or not under the external id that was recorded")
        elif seq < head.seq:
            problems.append(f"{name} ends at event {seq}, {head.seq} were recorded")
        elif version < head.version or (version == head.version and (seq, chain) != (head.seq, head.chain)):
            problems.append(f"{name} is an older or another state than was recorded")
        elif _sealed_anew(renewed, head):
            continue  # every read checks that its row, which says so, is the vault's
        elif seq > head.seq and head.seq != base:  # a fork's own log begins behind what it shares
            found = next(reader.scan("chain_at", session_no=no, seq=head.seq), None)
            if found is None or found[0] != head.chain:
                problems.append(f"{name} has another event {head.seq} than was recorded")
    return problems


def _is_whose(session_id: bytes, owned: list[bytes], head: Head) -> bool:
    try:
        return rows.whose(session_id, *owned) == head.whose
    except TypeError:
        return False


def _sealed_anew(renewed: object, head: Head) -> bool:
    """Whether a session's log was sealed anew since a head of it was recorded."""
    try:
        return isinstance(renewed, bytes) and head.version < renewal_of(renewed).version
    except Tampered:
        return False


def _named(heads: Sequence[Head]) -> str:
    names = [format_id("ses", head.session_id) for head in heads[:_NAMED_MAX]]
    return ", ".join(names) + (f" and {len(heads) - _NAMED_MAX} more" if len(heads) > _NAMED_MAX else "")
