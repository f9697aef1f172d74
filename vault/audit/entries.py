"""A ledger entry as signed bytes: a C2SP checkpoint with extension lines, then what it records.

One line for each head that is new, one for each thing that was erased, written before its keys go, and one
for each session of which single events were erased. An entry is full when it holds all of them; of kind
``restored`` when it holds all and takes back the heads before it: the vault was given an older state on
purpose, and exactly that one counts from there on.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from vault.clock import from_us, to_us
from vault.errors import Tampered
from vault.sealing.notes import EMPTIED_BYTES, EMPTY, Edge, Emptied, Gone, Head, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.sealing.notes import Author, Signer

_ERASED: Final = "erased"
_EMPTIED: Final = "emptied"
_FULL: Final = "full"
_RESTORED: Final = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A verified ledger entry.

    ``restored``: its heads are all that count, whatever was recorded before. ``gap`` are the numbers of the
    first and last entry that nobody had any more when the vault was restored.
    """

    number: int
    digest: bytes
    previous: bytes
    recorded_us: int
    full: bool
    edge: Edge
    heads: tuple[Head, ...]
    erased: tuple[Gone, ...] = ()
    emptied: tuple[Emptied, ...] = ()
    restored: bool = False
    gap: tuple[int, int] | None = None

    def leaves(self) -> Iterator[bytes]:
        """What it adds to the tree."""
        yield from (head.leaf() for head in self.heads)
        yield from (gone.leaf() for gone in self.erased)
        yield from (one.leaf() for one in self.emptied)


NOTHING: Final = Entry(
    number=0, digest=bytes(32), previous=b"", recorded_us=0, full=True, edge=EMPTY, heads=()
)


def encode(signer: Signer, entry: Entry) -> bytes:
    """The signed bytes of an entry; its own digest is not part of them."""
    body = "".join(
        f"{head.session_id.hex()} {head.version} {head.seq} {_b64(head.chain)} {_b64(head.whose)}\n"
        for head in entry.heads
    )
    body += "".join(f"{_ERASED} {gone.id.hex()} {_b64(gone.fingerprint)}\n" for gone in entry.erased)
    body += "".join(f"{_EMPTIED} {one.session_id.hex()} {_b64(one.events)}\n" for one in entry.emptied)
    text = (
        f"{signer.name}\n{entry.edge.size}\n{_b64(entry.edge.root())}\n"
        f"entry {entry.number}\n"
        f"previous {entry.previous.hex()}\n"
        f"time {from_us(entry.recorded_us).isoformat()}\n"
        f"kind {_kind(entry)}\n"
        f"edge {' '.join(_b64(root) for root in entry.edge.roots)}\n"
        f"heads {hashlib.sha256(body.encode()).hexdigest()}\n"
    )
    if entry.gap is not None:
        text += f"gap {entry.gap[0]} {entry.gap[1]}\n"
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
        recorded: dict[str, list[str]] = {_ERASED: [], _EMPTIED: [], "": []}
        for line in body.splitlines():
            recorded[kind if (kind := line.partition(" ")[0]) in recorded else ""].append(line)
        entry = Entry(
            number=int(fields["entry"]),
            digest=hashlib.sha256(content).digest(),
            previous=bytes.fromhex(fields["previous"]),
            recorded_us=to_us(datetime.fromisoformat(fields["time"])),
            full=fields["kind"] in {_FULL, _RESTORED},
            edge=Edge(size, roots),
            heads=tuple(map(_head, recorded[""])),
            erased=tuple(map(_gone, recorded[_ERASED])),
            emptied=tuple(map(_emptied, recorded[_EMPTIED])),
            restored=fields["kind"] == _RESTORED,
            gap=_gap(fields.get("gap")),
        )
        digest = hashlib.sha256(body.encode()).hexdigest()
    except (ValueError, KeyError, IndexError):
        raise Tampered("a ledger entry is malformed") from None
    if lines[0] != author.name or digest != fields["heads"] or entry.edge.root() != root:
        raise Tampered("a ledger entry does not hold together: its heads are not those that were signed")
    return entry


def _kind(entry: Entry) -> str:
    if entry.restored:
        return _RESTORED
    return _FULL if entry.full else "changes"


def _gap(said: str | None) -> tuple[int, int] | None:
    if said is None:
        return None
    first, last = said.split(" ")
    return int(first), int(last)


def _head(line: str) -> Head:
    session_id, version, seq, *hashes = line.split(" ")
    chain, whose = (base64.b64decode(part, validate=True) for part in hashes)
    return Head(bytes.fromhex(session_id), int(version), int(seq), chain, whose)


def _gone(line: str) -> Gone:
    _, erased, fingerprint = line.split(" ")
    return Gone(bytes.fromhex(erased), base64.b64decode(fingerprint, validate=True))


def _emptied(line: str) -> Emptied:
    _, session_id, events = line.split(" ")
    found = Emptied(bytes.fromhex(session_id), base64.b64decode(events, validate=True))
    if not found.events or len(found.events) % EMPTIED_BYTES:
        raise ValueError
    return found


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode()
