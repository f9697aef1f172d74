"""Whether what a writer gives again is what is stored under its id, and the event that it gets for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vault.encoding import json_value
from vault.errors import Conflict, Tampered
from vault.model import LEVELS
from vault.policy.epochs import generation_of
from vault.sealing.payload import content_hash, unseal
from vault.sessions.log import JSON, RAW, STREAM, check_event, make_event, sealed_body
from vault.sessions.prepare import repeat_of

if TYPE_CHECKING:
    from vault.model import Event
    from vault.ports.records import EventRow, Reader, SessionRow
    from vault.sealing.uses import EpochKeys
    from vault.sessions.log import Log
    from vault.sessions.prepare import Prepared


def same_event(
    log: Log, keys: EpochKeys, reader: Reader, session: SessionRow, stored: EventRow, prepared: Prepared
) -> Event:
    """The stored event of an id, if it says what a writer gives under that id again.

    Raises:
        Conflict: it says something else.
        Erased: its epoch was.
        Tampered: the row does not verify, or is of another event.
    """
    check_event(keys, session.session_id, stored)
    if stored.event_id != prepared.event_id:
        raise Tampered("the database answered with another event")
    same = (
        (stored.type, stored.run_id, stored.content, generation_of(stored.epoch))
        == (prepared.new.type, prepared.run_id, prepared.content, prepared.new.epoch)
        # As it was asked for, before the policy lowered the type since; or as the policy has it.
        and LEVELS[stored.level] in {prepared.asked_level, prepared.new.level}
        and _meta(keys.of_epoch(stored.epoch), stored) == prepared.meta
        and _same_payload(log, keys, reader, session, stored, prepared)
    )
    if not same:
        raise Conflict("this event id is stored already with other content; use a new id")
    # Built from what was given, which is the same: a large payload is not read inside the transaction.
    return made_event(session.session_id, stored, prepared)


def _same_payload(
    log: Log, keys: EpochKeys, reader: Reader, session: SessionRow, stored: EventRow, prepared: Prepared
) -> bool:
    """Whether the payloads are the same: what is in the database is opened, a file is named by content."""
    under = keys.of_epoch(stored.epoch)
    if stored.body is not None and prepared.content != STREAM:
        return prepared.body == unseal(under.payload, under.context(b"payload"), sealed_body(log, stored))
    content_id = prepared.blob.content_id
    if stored.epoch != prepared.epoch:  # the same event, in a later hour
        if prepared.content == STREAM:
            raise Conflict("this event is stored already, and too large to compare again; use a new id")
        hasher = content_hash(under.content)
        hasher.update(prepared.body)
        content_id = hasher.digest()
    blob = repeat_of(reader, session, keys, stored.epoch, content_id)
    return blob is not None and blob.address == stored.address


def made_event(session_id: bytes, row: EventRow, prepared: Prepared) -> Event:
    """The event of a row and of what was given for it."""
    raw = prepared.body if prepared.content == RAW else None
    payload = prepared.new.payload if prepared.content == JSON else None
    return make_event(session_id, row, prepared.meta, payload, raw)


def _meta(keys: EpochKeys, row: EventRow) -> dict[str, Any]:
    if row.meta is None:
        return {}
    opened: dict[str, Any] = json_value(unseal(keys.payload, keys.context(b"meta"), row.meta))
    return opened
