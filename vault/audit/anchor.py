"""Signed checkpoints of the session heads into the ledger, and the check of a database against it.

An entry is a C2SP signed note (tlog checkpoint: origin, tree size, root) with extension lines, a blank line,
and the heads that are new since the entry before. The same bytes go to the anchors: copies of the newest
entries outside the vault's directory, by which an old copy of the whole directory is recognised.
"""

from __future__ import annotations

import base64
import hashlib
import threading
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from vault.clock import from_us, to_us
from vault.errors import Conflict, RolledBack, Tampered, VaultError
from vault.model import format_id
from vault.ports.ledger import LedgerFile
from vault.sealing import rows
from vault.sealing.notes import EMPTY, Edge, Head, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vault.clock import Clock
    from vault.ports.ledger import Ledger
    from vault.ports.records import Reader, Records, Transaction, VaultRow
    from vault.sealing.notes import Author, Signer
    from vault.sessions.witness import Witness

#: Most sessions that one message names.
_NAMED_MAX: Final = 3
#: Every so many entries one holds all heads, so that opening reads at most so many entries.
FULL_EVERY: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A verified ledger entry."""

    number: int
    digest: bytes
    previous: bytes
    recorded_us: int
    full: bool
    edge: Edge
    heads: tuple[Head, ...]


_NOTHING: Final = Entry(
    number=0, digest=bytes(32), previous=b"", recorded_us=0, full=True, edge=EMPTY, heads=()
)


def encode(signer: Signer, entry: Entry) -> bytes:
    """The signed bytes of an entry; its own digest is not part of them."""
    body = "".join(
        f"{head.session_id.hex()} {head.version} {head.seq} {_b64(head.chain)} {_b64(head.whose)}\n"
        for head in entry.heads
    )
    text = (
        f"{signer.name}\n{entry.edge.size}\n{_b64(entry.edge.root())}\n"
        f"entry {entry.number}\n"
        f"previous {entry.previous.hex()}\n"
        f"time {from_us(entry.recorded_us).isoformat()}\n"
        f"kind {'full' if entry.full else 'changes'}\n"
        f"edge {' '.join(_b64(root) for root in entry.edge.roots)}\n"
        f"heads {hashlib.sha256(body.encode()).hexdigest()}\n"
    )
    return (signer.sign(text) + "\n" + body).encode()


def decode(author: Signer | Author, content: bytes) -> Entry:
    """A ledger entry, its signature and heads verified.

    Raises:
        Tampered: not signed by this vault, or changed since.
    """
    try:
        note, _, body = content.decode().rpartition("\n\n")
        lines = opened(note + "\n", author.name, author.public).splitlines()
        size, root = int(lines[1]), base64.b64decode(lines[2], validate=True)
        fields = dict(line.partition(" ")[::2] for line in lines[3:])
        roots = tuple(base64.b64decode(part, validate=True) for part in fields["edge"].split())
        entry = Entry(
            number=int(fields["entry"]),
            digest=hashlib.sha256(content).digest(),
            previous=bytes.fromhex(fields["previous"]),
            recorded_us=to_us(datetime.fromisoformat(fields["time"])),
            full=fields["kind"] == "full",
            edge=Edge(size, roots),
            heads=tuple(_head(line) for line in body.splitlines()),
        )
        digest = hashlib.sha256(body.encode()).hexdigest()
    except (ValueError, KeyError, IndexError):
        raise Tampered("a ledger entry is malformed") from None
    if lines[0] != author.name or digest != fields["heads"] or entry.edge.root() != root:
        raise Tampered("a ledger entry does not hold together: its heads are not those that were signed")
    return entry


class History:
    """The ledger as verified so far: its newest entry, and the newest head of every session in it."""

    def __init__(self, author: Signer | Author, ledger: Ledger) -> None:
        """Nothing is read until ``refresh``."""
        self._author, self._ledger = author, ledger
        self._lock = threading.Lock()
        self.newest: Entry | None = None
        self.heads: dict[bytes, Head] = {}

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
        # A new dictionary: whoever goes through the one before is not disturbed.
        self.heads = self.heads | {head.session_id: head for head in entry.heads}

    def faults(self) -> list[tuple[int, str]]:
        """What is wrong with which entry, all of them read again; empty when nothing is.

        Opening reads from the newest full entry on, so only this finds what happened to older ones.
        """
        numbers, faults = set(self._ledger.numbers()), []
        before: Entry | None = _NOTHING
        for number in range(1, max(numbers, default=0) + 1):
            entry = None
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


def _check_follows(before: Entry, entry: Entry) -> None:
    if entry.number != before.number + 1 or entry.previous != before.digest:
        raise Tampered("a ledger entry is missing, or does not follow the one before it")
    if before.edge.extended(head.leaf() for head in entry.heads) != entry.edge:
        raise Tampered("a ledger entry's tree does not extend the one before it")


class Anchor:
    """Writes checkpoints for one open vault, and holds the database against those there are."""

    def __init__(
        self,
        records: Records,
        ledger: Ledger,
        copies: Sequence[Ledger],
        signer: Signer,
        row_key: bytes,
        witness: Witness,
        clock: Clock,
    ) -> None:
        """Use a ledger, and copies of its newest entries elsewhere."""
        self._records, self._ledger, self._copies = records, ledger, copies
        self._signer, self._row_key, self._witness, self._clock = signer, row_key, witness, clock
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
        with self._records.snapshot() as reader:
            problems = behind(reader, self.history.heads.values())
        if problems:
            rest = f", and {len(problems) - _NAMED_MAX} more" if len(problems) > _NAMED_MAX else ""
            raise RolledBack(f"the database is behind its ledger: {'; '.join(problems[:_NAMED_MAX])}{rest}")
        self._witness.saw(self.history.heads.values())

    def changed(self, session_id: bytes) -> None:
        """Note that a session has a new head for the next checkpoint."""
        self._changed.add(session_id)

    def checkpoint(self, found: Iterable[Head] = ()) -> Entry:
        """Write an entry with every head that is new; without any, the newest entry stands.

        Args:
            found: verified heads of sessions that other processes changed and did not record.

        Raises:
            StorageUnavailable: the ledger did not take it.
        """
        with self._lock:
            changed, self._changed = self._changed, set()
            heads = {head.session_id: head for head in found}
            heads |= {head.session_id: head for sid in changed if (head := self._witness.expected(sid))}
            try:
                return self._written(heads)
            except BaseException:
                self._changed |= changed  # still to be recorded
                raise

    def _written(self, heads: dict[bytes, Head]) -> Entry:
        while True:
            self.history.refresh()
            entry = self._next(heads)
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
            self.history.refresh()
            written = replace(entry, digest=hashlib.sha256(content).digest())
            self._records.transact(partial(self._keep, entry=written))
            for copy in self._copies:
                self._copy(copy, entry.number)
            return written

    def _next(self, heads: dict[bytes, Head]) -> Entry | None:
        newest, known = self.history.newest, self.history.heads
        new = [head for sid, head in heads.items() if sid not in known or head.version > known[sid].version]
        if not new and newest is not None:
            return None
        number = newest.number + 1 if newest else 1
        full = number % FULL_EVERY == 1
        recorded = [*{**known, **{head.session_id: head for head in new}}.values()] if full else new
        edge = (newest.edge if newest else EMPTY).extended(head.leaf() for head in recorded)
        return Entry(
            number=number,
            digest=b"",
            previous=newest.digest if newest else bytes(32),
            recorded_us=self._clock.now_us(),
            full=full,
            edge=edge,
            heads=tuple(recorded),
        )

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
        for missing in range(first, number + 1):
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
        no, session_id, version, seq, chain, base, *owned = row
        if not isinstance(version, int) or not isinstance(seq, int) or not _is_whose(session_id, owned, head):
            problems.append(f"{name} is not its owner's, or not under the external id that was recorded")
        elif seq < head.seq:
            problems.append(f"{name} ends at event {seq}, {head.seq} were recorded")
        elif version < head.version or (version == head.version and (seq, chain) != (head.seq, head.chain)):
            problems.append(f"{name} is an older or another state than was recorded")
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


def _named(heads: Sequence[Head]) -> str:
    names = [format_id("ses", head.session_id) for head in heads[:_NAMED_MAX]]
    return ", ".join(names) + (f" and {len(heads) - _NAMED_MAX} more" if len(heads) > _NAMED_MAX else "")


def _head(line: str) -> Head:
    session_id, version, seq, *hashes = line.split(" ")
    chain, whose = (base64.b64decode(part, validate=True) for part in hashes)
    return Head(bytes.fromhex(session_id), int(version), int(seq), chain, whose)


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode()
