"""Preparing an event outside the transaction: check, encode, seal, and make a large payload durable."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, cast

from vault.clock import to_us
from vault.encoding import canonical_json, json_bytes
from vault.errors import InvalidInput, LimitExceeded, Tampered
from vault.model import (
    EAGER_BYTES_MAX,
    JSON_BYTES_MAX,
    LEVELS,
    STREAM_BYTES_MAX,
    USAGE_BYTES_MAX,
    check_name,
    check_type,
    event_bytes,
    run_bytes,
)
from vault.policy import effects
from vault.policy.epochs import EPOCH_MAX, epoch_of, key_number
from vault.policy.recovery import state_hash
from vault.ports.records import BlobRow
from vault.sealing import rows
from vault.sealing.payload import content_hash, seal, seal_stream
from vault.sessions.log import JSON, RAW, RELABELLED, RETRACTED, STREAM, Log, open_about

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault.access.door import Grant
    from vault.model import Event, NewEvent
    from vault.ports.records import Reader, SessionRow
    from vault.sealing.uses import EpochKeys, TenantKeys

#: The type of the event that holds a state to recover from.
CHECKPOINT: Final = "checkpoint.created"
VALID_US_END: Final = 2**53  # how long an observation can hold: JSON readers hold smaller numbers exactly
_MICROSECOND: Final = timedelta(microseconds=1)
_THE_VAULTS: Final = frozenset({CHECKPOINT, RELABELLED, RETRACTED})
#: Sealed payloads up to here stand in the database; larger ones in the blob area.
INLINE_BYTES_MAX: Final = 64 * 1024
#: Shorter payloads stand beside their event and are stored again when repeated: finding the repeat would cost
#: each append a random index page (measured: a fifth of its time), for at most this much saved.
REPEAT_BYTES_MIN: Final = 2048
#: As `sealing.payload.content_hash` gives it.
CONTENT_ID_BYTES: Final = 16
#: From here on a repeat is looked up before sealing, which then costs more than the query.
_LOOK_FIRST_BYTES: Final = 16 * 1024


class Prepared(NamedTuple):
    """An event that is checked, encoded and sealed, with its blob durable if it is a large one."""

    new: NewEvent  # its level as it is stored
    asked_level: str  # what the writer asked for
    event_id: bytes | None  # None: made when the place in the log is known
    run_id: bytes | None
    meta: dict[str, Any]
    sealed_meta: bytes | None
    content: int
    body: bytes
    blob: BlobRow
    epoch: int  # the number of the keys that it is sealed under
    repeats: bool  # long enough to be looked up as a repeat of what is stored
    ref: bytes | None  # what it is found by: an effect's kind and key, or a resource
    tags: tuple[bytes, ...]  # what it changed in the world, for other sessions to find

    def __repr__(self) -> str:
        """Nothing that a user supplied."""
        return f"Prepared({self.new.type!r})"


def prepare(
    log: Log,
    grant: Grant,
    session: SessionRow,
    keys: EpochKeys,
    new: NewEvent,
    fresh: dict[bytes, BlobRow],
) -> Prepared:
    """Check, encode and seal one event, its blob durable before this returns.

    ``fresh`` holds the blobs of the batch so far by content id: what repeats within it is sealed once.

    Raises:
        InvalidInput: something cannot be stored as given; LimitExceeded when it is too large.
        Erased: its epoch was.
        StorageUnavailable: the blob area did not take it.
    """
    check_type(new.type)
    if new.level not in LEVELS:
        raise InvalidInput("a level is one of L0, L1, L2, L3")
    asked, level = new.level, log.levels.stored_at(new.type, new.level)
    if level != asked:
        new = replace(new, level=level)
    meta = _checked_meta(new)
    ref, tags = _found_by(grant.tenant, new)
    with_keys = UnderKeys(keys, _under(log, grant, session, keys, new))
    body, stream = _body(new)
    if stream is not None:
        blob = streamed_blob(log, session, with_keys, stream, fresh)
    else:
        blob = sealed_blob(log, session, with_keys, body, fresh)
    return Prepared(
        new=new,
        asked_level=asked,
        event_id=event_bytes(new.event_id) if new.event_id is not None else None,
        run_id=run_bytes(new.run) if new.run is not None else None,
        meta=meta,
        sealed_meta=_sealed_meta(log, with_keys.under, meta),
        content=JSON
        if new.raw is None
        else RAW
        if stream is None and len(body) <= EAGER_BYTES_MAX
        else STREAM,
        body=body,
        blob=blob,
        epoch=with_keys.under.epoch,
        repeats=stream is not None or len(body) >= REPEAT_BYTES_MIN,
        ref=ref,
        tags=tags,
    )


def _under(log: Log, grant: Grant, session: SessionRow, keys: EpochKeys, new: NewEvent) -> EpochKeys:
    """The keys that an event's payload is sealed under."""
    hour = 0
    if not is_the_vaults(new.type):

        def labels() -> Mapping[str, str]:
            with log.records.snapshot() as reader:
                row = reader.session(session.session_id, session.tenant_id, session.owner)
            if row is None or row.epoch != session.epoch:
                row = session  # gone, or sealed anew: the append itself finds out
            rows.check(rows.session_mac(keys.mac, row), row.mac, "a session's row")
            found: Mapping[str, str] = open_about(keys, row).get("labels", {})
            return found

        hour = log.event_hour(grant, labels, new.type, new.level, log.clock.now_us())
    if not new.epoch and not hour:
        return keys
    check_epoch(new)
    place = grant.tenant, session.owner, session.session_id
    if new.epoch:
        # There for every event of its generation: once its key is destroyed nothing more is written under it.
        keys = log.keys.epoch(*place, key_number(session.epoch, epoch_of(new.epoch)), create=True)
    if not hour:
        return keys
    return log.keys.epoch(*place, key_number(session.epoch, epoch_of(new.epoch, hour)), create=True)


def _sealed_meta(log: Log, under: EpochKeys, meta: dict[str, Any]) -> bytes | None:
    return seal(under.payload, under.context(b"meta"), canonical_json(meta), log.sealing) if meta else None


def _found_by(tenant: TenantKeys, new: NewEvent) -> tuple[bytes | None, tuple[bytes, ...]]:
    """The blind index of what an event is about, and of what it changed in the world."""
    check_own(new.type, new.payload)
    if new.type in effects.TYPES:
        tags = changed_by(tenant, new) if new.type == effects.COMMITTED else ()
        return tenant.blind("effect", *effects.subject_of(new.type, new.payload)), tags
    return None if new.resource is None else tenant.blind("resource", new.resource), ()


def check_epoch(new: NewEvent) -> None:
    """Whether an event may be sealed under an epoch of its own.

    Raises:
        InvalidInput: the number is out of range, or the vault itself goes by events of this type.
    """
    if isinstance(new.epoch, bool) or not isinstance(new.epoch, int) or not 0 <= new.epoch <= EPOCH_MAX:
        raise InvalidInput(f"an epoch is a whole number from 1 to {EPOCH_MAX}, or 0 for the session's own")
    if is_the_vaults(new.type):
        raise InvalidInput("events of this type live as long as their session: leave the epoch out")


def is_the_vaults(event_type: str) -> bool:
    """Whether the vault itself goes by events of a type, so that they live as long as their session."""
    return event_type in effects.TYPES or event_type in _THE_VAULTS or event_type.startswith("run.")


def check_own(event_type: str, payload: Any) -> None:
    """Whether the payload of an event that the vault itself goes by is what it must be.

    Raises:
        InvalidInput: it is not.
    """
    if event_type in effects.TYPES:
        effects.subject_of(event_type, payload)
        if payload.get("subject") is not None:
            check_name(payload["subject"], "an effect's subject")
    elif event_type == CHECKPOINT:
        check_snapshot(payload)


def changed_by(tenant: TenantKeys, committed: NewEvent | Event) -> tuple[bytes, ...]:
    """The blind indexes of what a committed effect changed: its resource, and the subject in its payload."""
    named = {"resource": committed.resource, "subject": committed.payload.get("subject")}
    return tuple(tenant.blind(kind, name) for kind, name in named.items() if name is not None)


def check_snapshot(payload: Any) -> None:
    """Whether a checkpoint's payload holds a state and its own hash.

    Raises:
        InvalidInput: it does not, so nothing could be recovered from it.
    """
    stated = payload.get("sha256") if isinstance(payload, dict) and "state" in payload else None
    if stated is None or stated != state_hash(payload["state"]):
        raise InvalidInput(
            "a checkpoint holds a state and the SHA-256 of its canonical JSON; use run.checkpoint"
        )


def _body(new: NewEvent) -> tuple[bytes, BinaryIO | None]:
    """The payload's bytes; or, for a stream that is longer than its first chunk, the stream."""
    if new.raw is None:
        body = json_bytes(new.payload)
    elif new.payload is not None:
        raise InvalidInput("give either payload or raw, not both")
    elif isinstance(new.raw, bytes):
        body = new.raw
    elif hasattr(new.raw, "read"):
        return _begun(new.raw)
    else:
        raise InvalidInput("raw is bytes, or a binary file to read from")
    if len(body) > JSON_BYTES_MAX:
        raise LimitExceeded(
            f"a payload holds at most {JSON_BYTES_MAX} bytes; send larger ones as a stream (raw=file)"
        )
    return body, None


def _begun(source: BinaryIO) -> tuple[bytes, BinaryIO | None]:
    first = b""
    while len(first) <= EAGER_BYTES_MAX:
        chunk = source.read(EAGER_BYTES_MAX + 1 - len(first))
        if not isinstance(chunk, bytes):
            raise InvalidInput("raw is a file that is opened for text; open it for bytes (mode rb)")
        if not chunk:
            return first, None  # short, so the same as the same bytes given whole
        first += chunk
    return b"", cast("BinaryIO", _Rejoined(first, source))


class _Rejoined:
    """A stream with what was read of it put back."""

    def __init__(self, first: bytes, source: BinaryIO) -> None:
        self._first, self._source = first, source

    def read(self, size: int) -> bytes:
        first, self._first = self._first[:size], self._first[size:]
        return first or self._source.read(size)


def _checked_meta(new: NewEvent) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    if new.tool is not None:
        meta["tool"] = check_name(new.tool, "a tool's name")
    if new.caused_by is not None:
        event_bytes(new.caused_by)
        meta["caused_by"] = new.caused_by
    if new.observed_at is not None:
        meta["observed_us"] = to_us(new.observed_at)
    if new.occurred_at is not None:
        meta["occurred_us"] = to_us(new.occurred_at)
    if new.resource is not None:
        meta["resource"] = check_name(new.resource, "a resource")
    if new.valid_for is not None:
        meta["valid_us"] = _checked_validity(new)
    if new.usage is not None:
        if not isinstance(new.usage, dict):
            raise InvalidInput("usage is a dict of JSON values")
        if len(json_bytes(new.usage)) > USAGE_BYTES_MAX:
            raise LimitExceeded(
                f"usage holds at most {USAGE_BYTES_MAX} bytes of JSON; put more into the payload"
            )
        meta["usage"] = new.usage
    return meta


def _checked_validity(new: NewEvent) -> int:
    if new.observed_at is None:
        raise InvalidInput("valid_for says how long an observation holds: give observed_at too")
    valid_us = new.valid_for // _MICROSECOND if isinstance(new.valid_for, timedelta) else 0
    if not 0 < valid_us < VALID_US_END:
        raise InvalidInput("valid_for is a timedelta above zero, up to 285 years")
    return valid_us


class UnderKeys(NamedTuple):
    """The keys that authenticate a session's rows, and those that one payload is sealed under."""

    rows: EpochKeys
    under: EpochKeys


def sealed_blob(
    log: Log, session: SessionRow, keys: UnderKeys, body: bytes, fresh: dict[bytes, BlobRow]
) -> BlobRow:
    """A payload that is held whole, sealed; a repeat is the blob that holds it already."""
    content_id, under = b"", keys.under
    if len(body) >= REPEAT_BYTES_MIN:
        hasher = content_hash(under.content)
        hasher.update(body)
        content_id = hasher.digest()
        if content_id in fresh:
            return fresh[content_id]
        if len(body) >= _LOOK_FIRST_BYTES:
            repeat = _repeat(log, session, keys, content_id)
            if repeat is not None:
                return repeat
    elif under.epoch:
        # Of an epoch of its own, a payload never stands in the event's row, which is never changed; a short
        # one is stored again when it is repeated, so its name is nobody else's.
        content_id = os.urandom(CONTENT_ID_BYTES)
    sealed = seal(under.payload, under.context(b"payload"), body, log.sealing)
    address = hashlib.sha256(sealed).digest()
    inline = sealed if len(sealed) <= INLINE_BYTES_MAX else None
    if inline is None:
        with log.blobs.upload() as upload:
            upload.file.write(sealed)
            upload.keep(address)
    blob = BlobRow(0, session.no, under.epoch, content_id, address, len(sealed), inline, b"")
    if not content_id:
        return blob
    fresh[content_id] = blob._replace(mac=rows.blob_mac(keys.rows.mac, session.session_id, blob))
    return fresh[content_id]


def streamed_blob(
    log: Log, session: SessionRow, keys: UnderKeys, source: BinaryIO, fresh: dict[bytes, BlobRow]
) -> BlobRow:
    """A payload that is read piece by piece, sealed into the blob area; a repeat as ``sealed_blob``."""
    under = keys.under
    with log.blobs.upload() as upload:
        sealed = seal_stream(
            under.payload,
            under.context(b"payload"),
            source,
            upload.file,
            content_key=under.content,
            limit=STREAM_BYTES_MAX,
            how=log.sealing,
        )
        # A repeat's own sealed copy is thrown away with the upload.
        repeat = fresh.get(sealed.content_id) or _repeat(log, session, keys, sealed.content_id)
        if repeat is not None:
            return repeat
        inline = None
        if sealed.size <= INLINE_BYTES_MAX:
            upload.file.seek(0)
            inline = upload.file.read()
        else:
            upload.keep(sealed.address)
        known = (sealed.content_id, sealed.address, sealed.size)
        blob = BlobRow(0, session.no, under.epoch, *known, inline, b"")
        blob = blob._replace(mac=rows.blob_mac(keys.rows.mac, session.session_id, blob))
        fresh[blob.content_id] = blob
        return blob


def _repeat(log: Log, session: SessionRow, keys: UnderKeys, content_id: bytes) -> BlobRow | None:
    with log.records.snapshot() as reader:
        return repeat_of(reader, session, keys.rows, keys.under.epoch, content_id)


def repeat_of(
    reader: Reader, session: SessionRow, keys: EpochKeys, epoch: int, content_id: bytes
) -> BlobRow | None:
    """The stored blob of the same content in this epoch; the log will commit to it, so it is verified.

    Raises:
        Tampered: the database answered with another content's blob.
    """
    blob = reader.blob(session.no, epoch, content_id)
    if blob is not None:
        rows.check(rows.blob_mac(keys.mac, session.session_id, blob), blob.mac, "a blob's row")
        if (blob.content_id, blob.epoch) != (content_id, epoch):
            raise Tampered("the database answered with another content's blob")
    return blob
