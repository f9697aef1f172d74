"""What protects a row: canonical header, leaf and chain (anyone can check), MAC (only with the keys).

``leaf = SHA-256(0x00 ‖ header ‖ salt)`` and ``chain = SHA-256(0x02 ‖ previous chain ‖ leaf)``, after RFC 6962
§2.1's domain separation. The MAC covers header, salt and chain, so a genuine row is one row at one place of
one history. The salt keeps a leaf from telling its header once the header is redacted.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import lru_cache
from struct import Struct, error
from typing import TYPE_CHECKING, Final

from vault.encoding import pack
from vault.errors import Tampered

if TYPE_CHECKING:
    from vault.ports.operations import OperationRow, SweeperRow
    from vault.ports.records import BlobRow, EventRow, RunRow, SessionRow, VaultRow

_EVENT_NUMBERS: Final = Struct(">QQQQIIQBB")
_SESSION_NUMBERS: Final = Struct(">QQQQQQ")
_BLOB_NUMBERS: Final = Struct(">QQ")
_VAULT_NUMBERS: Final = Struct(">QQ")
#: What building a header raises when a database without its rules hands out text for a number and the like.
_MALFORMED: Final = (AttributeError, OverflowError, TypeError, UnicodeError, error)


def genesis(session_id: bytes) -> bytes:
    """The chain value before a session's first event."""
    return hashlib.sha256(b"\x02session-vault/1/genesis" + session_id).digest()


def fork_genesis(session_id: bytes, parent: bytes, base_seq: int, base_chain: bytes) -> bytes:
    """The chain value before a fork's own first event: it commits to the history that is shared.

    Raises:
        Tampered: a value is of the wrong kind or out of range.
    """
    try:
        fields = pack(b"session-vault/1/fork", session_id, parent, base_seq.to_bytes(8), base_chain)
    except _MALFORMED:
        raise Tampered("a fork's row holds a value of the wrong kind") from None
    return hashlib.sha256(b"\x02" + fields).digest()


def start_of(row: SessionRow) -> bytes:
    """The chain value before a session's own first event."""
    if row.forked_from is None:
        return genesis(row.session_id)
    return fork_genesis(row.session_id, row.forked_from, row.base_seq, row.base_chain)


def event_header(session_id: bytes, row: EventRow) -> bytes:
    """The canonical header: everything of an event that is in clear, and the hashes of what is sealed.

    Raises:
        Tampered: a value is of the wrong kind or out of range, so the row was not written by the vault.
    """
    try:
        return _event_header(session_id, row)
    except _MALFORMED:
        raise Tampered("an event's row holds a value of the wrong kind") from None


def _event_header(session_id: bytes, row: EventRow) -> bytes:
    return pack(
        b"session-vault/1/event",
        session_id,
        row.event_id,
        row.type.encode(),
        row.run_id or b"",
        _EVENT_NUMBERS.pack(
            row.seq,
            row.recorded_us,
            row.type_nth,
            row.run_nth,
            row.level,
            row.epoch,
            row.size,
            row.content,
            row.given_id,
        ),
        row.address,
        hashlib.sha256(row.meta).digest() if row.meta else b"",
        *((row.ref,) if row.ref is not None else ()),  # `pack` counts its fields, so with and without differ
    )


def event_chain(previous: bytes, header: bytes, salt: bytes) -> bytes:
    """The chain value of an event, committing to it and to all before it."""
    leaf = hashlib.sha256(b"\x00" + header + salt).digest()
    return hashlib.sha256(b"\x02" + previous + leaf).digest()


def event_mac(mac_key: bytes, header: bytes, salt: bytes, chain: bytes) -> bytes:
    """Keyed BLAKE2b-256 over header, salt and chain.

    Raises:
        Tampered: a value is of the wrong kind.
    """
    try:
        message = header + salt + chain
    except TypeError:
        raise Tampered("an event's row holds a value of the wrong kind") from None
    return hashlib.blake2b(message, key=mac_key, digest_size=32, person=b"sv1.event").digest()


def session_mac(mac_key: bytes, row: SessionRow) -> bytes:
    """Keyed BLAKE2b-256 over the whole session row but its internal number and the MAC itself.

    Raises:
        Tampered: a value is of the wrong kind or out of range.
    """
    try:
        return _session_mac(mac_key, row)
    except _MALFORMED:
        raise Tampered("a session's row holds a value of the wrong kind") from None


def _session_mac(mac_key: bytes, row: SessionRow) -> bytes:
    fields = pack(
        row.session_id,
        row.tenant_id,
        row.owner,
        row.external or b"",
        row.state.encode(),
        _SESSION_NUMBERS.pack(
            row.version, row.epoch, row.head_seq, row.created_us, row.updated_us, row.ended_us
        ),
        row.head_chain,
        row.tails,
        row.about,
        *_recovery_fields(row),
        # One or two fields more, beside none or four: `pack` counts them.
        *((row.retention, row.renewed) if row.renewed else (row.retention,) if row.retention else ()),
    )
    return hashlib.blake2b(fields, key=mac_key, digest_size=32, person=b"sv1.session").digest()


def _recovery_fields(row: SessionRow) -> tuple[bytes, ...]:
    """What runs and forks add; nothing for a session that has had neither, as in the first format."""
    if not row.lease and row.forked_from is None and not row.base_seq and not row.base_chain:
        return ()
    if row.forked_from == b"":
        # The same bytes as for no fork at all, and not the same history.
        raise Tampered("a fork's row does not name the session that it goes on from")
    return row.lease, row.forked_from or b"", row.base_seq.to_bytes(8), row.base_chain


@lru_cache(maxsize=4096)
def whose(session_id: bytes, tenant_id: bytes, owner: bytes, external: bytes | None) -> bytes:
    """16 bytes that say whose session it is and under which external id, for the ledger.

    A lookup by owner or external id cannot miss a session whose row says another one: opening compares this.
    The session id keeps two sessions of one owner from looking alike in the ledger.
    """
    return hashlib.sha256(pack(session_id, tenant_id, owner, external or b"")).digest()[:16]


def blob_mac(mac_key: bytes, session_id: bytes, row: BlobRow) -> bytes:
    """Keyed BLAKE2b-256 over which content a blob is the sealed form of: a repeat is answered with it.

    Raises:
        Tampered: a value is of the wrong kind or out of range.
    """
    try:
        fields = pack(session_id, row.content_id, row.address, _BLOB_NUMBERS.pack(row.epoch, row.size))
    except _MALFORMED:
        raise Tampered("a blob's row holds a value of the wrong kind") from None
    return hashlib.blake2b(fields, key=mac_key, digest_size=32, person=b"sv1.blob").digest()


def run_mac(mac_key: bytes, session_id: bytes, row: RunRow) -> bytes:
    """Keyed BLAKE2b-256 over a run's kept count.

    Raises:
        Tampered: a value is of the wrong kind or out of range.
    """
    try:
        fields = pack(session_id, row.run_id, row.written.to_bytes(8))
    except _MALFORMED:
        raise Tampered("a run's row holds a value of the wrong kind") from None
    return hashlib.blake2b(fields, key=mac_key, digest_size=32, person=b"sv1.run").digest()


def operation_mac(mac_key: bytes, row: OperationRow) -> bytes:
    """Keyed BLAKE2b-256 over an erasure's row but its internal number and the MAC itself.

    Raises:
        Tampered: a value is of the wrong kind or out of range.
    """
    try:
        fields = pack(
            row.operation_id, row.tenant_id, row.state.encode(), row.opened_us.to_bytes(8), row.plan
        )
    except _MALFORMED:
        raise Tampered("an erasure's row holds a value of the wrong kind") from None
    return hashlib.blake2b(fields, key=mac_key, digest_size=32, person=b"sv1.operation").digest()


def sweeper_mac(row_key: bytes, row: SweeperRow) -> bytes:
    """Keyed BLAKE2b-256 over the sweeper's row.

    Raises:
        Tampered: a value is of the wrong kind or out of range.
    """
    try:
        fields = pack(row.name.encode(), *(part.to_bytes(8) for part in row[1:5]))
    except _MALFORMED:
        raise Tampered("the sweeper's row holds a value of the wrong kind") from None
    return hashlib.blake2b(fields, key=row_key, digest_size=32, person=b"sv1.sweeper").digest()


def vault_mac(row_key: bytes, row: VaultRow) -> bytes:
    """Keyed BLAKE2b-256 over the vault's own row.

    Raises:
        Tampered: a value is of the wrong kind or out of range.
    """
    try:
        fields = pack(row.vault_id, _VAULT_NUMBERS.pack(row.created_us, row.ledger_no), row.ledger_hash)
    except _MALFORMED:
        raise Tampered("the vault's own row holds a value of the wrong kind") from None
    return hashlib.blake2b(fields, key=row_key, digest_size=32, person=b"sv1.vault").digest()


def check(expected: bytes, stored: bytes, what: str) -> None:
    """Compare a MAC in constant time.

    Raises:
        Tampered: they differ; ``what`` names the kind of row.
    """
    if not isinstance(stored, bytes) or not hmac.compare_digest(expected, stored):
        raise Tampered(f"{what} does not verify: it was changed, moved or forged")
