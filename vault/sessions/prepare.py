"""Preparing an event outside the transaction: check, encode, seal, and make a large payload durable."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from vault.clock import to_us
from vault.encoding import canonical_json, json_bytes
from vault.errors import InvalidInput, LimitExceeded
from vault.model import (
    JSON_BYTES_MAX,
    LEVELS,
    STREAM_BYTES_MAX,
    check_name,
    check_type,
    event_bytes,
    run_bytes,
)
from vault.ports.records import BlobRow
from vault.sealing.payload import content_hash, seal, seal_stream
from vault.sessions.log import JSON, RAW, Log

if TYPE_CHECKING:
    from vault.model import NewEvent
    from vault.ports.records import SessionRow
    from vault.sealing.keys import EpochKeys

#: Sealed payloads up to here stand in the database; larger ones in the blob area.
INLINE_BYTES_MAX: Final = 64 * 1024
#: Shorter payloads stand beside their event and are stored again when repeated: finding the repeat would cost
#: each append a random index page (measured: a fifth of its time), for at most this much saved.
REPEAT_BYTES_MIN: Final = 2048
#: From here on a repeat is looked up before sealing, which then costs more than the query.
_LOOK_FIRST_BYTES: Final = 16 * 1024


class Prepared(NamedTuple):
    """An event that is checked, encoded and sealed, with its blob durable if it is a large one."""

    new: NewEvent
    event_id: bytes | None  # None: made when the place in the log is known
    run_id: bytes | None
    meta: dict[str, Any]
    sealed_meta: bytes | None
    content: int
    body: bytes | None
    blob: BlobRow


def prepare(log: Log, session: SessionRow, keys: EpochKeys, new: NewEvent) -> Prepared:
    """Check, encode and seal one event, its blob durable before this returns.

    Raises:
        InvalidInput: something cannot be stored as given; LimitExceeded when it is too large.
        StorageUnavailable: the blob area did not take it.
    """
    check_type(new.type)
    if new.level not in LEVELS:
        raise InvalidInput("a level is one of L0, L1, L2, L3")
    meta = _checked_meta(new)
    sealed_meta = None
    if meta:
        sealed_meta = seal(keys.payload, keys.context(b"meta"), canonical_json(meta), log.sealing)
    body: bytes | None = None
    if new.raw is None:
        body = json_bytes(new.payload)
    elif new.payload is not None:
        raise InvalidInput("give either payload or raw, not both")
    elif isinstance(new.raw, bytes):
        body = new.raw
    if body is not None and len(body) > JSON_BYTES_MAX:
        raise LimitExceeded(
            f"a payload holds at most {JSON_BYTES_MAX} bytes; send larger ones as a stream (raw=file)"
        )
    if body is not None:
        blob = _sealed_blob(log, session, keys, body)
    elif hasattr(new.raw, "read"):
        blob = _streamed_blob(log, session, keys, new.raw)  # type: ignore[arg-type]
    else:
        raise InvalidInput("raw is bytes, or a binary file to read from")
    return Prepared(
        new=new,
        event_id=event_bytes(new.event_id) if new.event_id is not None else None,
        run_id=run_bytes(new.run) if new.run is not None else None,
        meta=meta,
        sealed_meta=sealed_meta,
        content=JSON if new.raw is None else RAW,
        body=body,
        blob=blob,
    )


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
    if new.usage is not None:
        if not isinstance(new.usage, dict):
            raise InvalidInput("usage is a dict of JSON values")
        json_bytes(new.usage)
        meta["usage"] = new.usage
    return meta


def _sealed_blob(log: Log, session: SessionRow, keys: EpochKeys, body: bytes) -> BlobRow:
    content_id = b""
    if len(body) >= REPEAT_BYTES_MIN:
        hasher = content_hash(keys.content)
        hasher.update(body)
        content_id = hasher.digest()
        if len(body) >= _LOOK_FIRST_BYTES:
            repeat = _repeat(log, session, content_id)
            if repeat is not None:
                return repeat
    sealed = seal(keys.payload, keys.context(b"payload"), body, log.sealing)
    address = hashlib.sha256(sealed).digest()
    inline = sealed if len(sealed) <= INLINE_BYTES_MAX else None
    if inline is None:
        with log.blobs.upload() as upload:
            upload.file.write(sealed)
            upload.keep(address)
    return BlobRow(0, session.no, session.epoch, content_id, address, len(sealed), inline)


def _streamed_blob(log: Log, session: SessionRow, keys: EpochKeys, source: BinaryIO) -> BlobRow:
    with log.blobs.upload() as upload:
        sealed = seal_stream(
            keys.payload,
            keys.context(b"payload"),
            source,
            upload.file,
            content_key=keys.content,
            limit=STREAM_BYTES_MAX,
            how=log.sealing,
        )
        # A repeat's own sealed copy is thrown away with the upload.
        repeat = _repeat(log, session, sealed.content_id)
        if repeat is not None:
            return repeat
        inline = None
        if sealed.size <= INLINE_BYTES_MAX:
            upload.file.seek(0)
            inline = upload.file.read()
        else:
            upload.keep(sealed.address)
        return BlobRow(0, session.no, session.epoch, sealed.content_id, sealed.address, sealed.size, inline)


def _repeat(log: Log, session: SessionRow, content_id: bytes) -> BlobRow | None:
    with log.records.snapshot() as reader:
        return reader.blob(session.no, session.epoch, content_id)
