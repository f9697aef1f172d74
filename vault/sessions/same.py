"""Whether what a writer gives again is what is stored under its id, and the event that it gets for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vault.encoding import json_value
from vault.errors import Conflict, Tampered
from vault.model import LEVELS
from vault.sealing.payload import unseal
from vault.sessions.log import JSON, RAW, check_event, make_event, sealed_body

if TYPE_CHECKING:
    from vault.model import Event
    from vault.ports.records import BlobRow, EventRow
    from vault.sealing.uses import EpochKeys
    from vault.sessions.log import Log
    from vault.sessions.prepare import Prepared


def same_event(
    log: Log, keys: EpochKeys, session_id: bytes, stored: EventRow, prepared: Prepared, blob: BlobRow
) -> Event:
    """The stored event of an id, if it says what a writer gives under that id again.

    Raises:
        Conflict: it says something else.
        Erased: its epoch was.
        Tampered: the row does not verify, or is of another event.
    """
    check_event(keys, session_id, stored)
    if stored.event_id != prepared.event_id:
        raise Tampered("the database answered with another event")
    same = (
        (stored.type, stored.run_id, stored.content, stored.epoch)
        == (prepared.new.type, prepared.run_id, prepared.content, prepared.new.epoch or keys.epoch)
        # As it was asked for, before the policy lowered the type since; or as the policy has it.
        and LEVELS[stored.level] in {prepared.asked_level, prepared.new.level}
        and _meta(keys.of_epoch(stored.epoch), stored) == prepared.meta
    )
    # Longer repeats share their blob: an equal address is equal content. Short ones are opened.
    if same and stored.blob_no is None:
        context = keys.context(b"payload")
        same = prepared.body == unseal(keys.payload, context, sealed_body(log, stored))
    elif same:
        same = stored.address == blob.address
    if not same:
        raise Conflict("this event id is stored already with other content; use a new id")
    # Built from what was given, which is the same: a large payload is not read inside the transaction.
    return made_event(session_id, stored, prepared)


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
