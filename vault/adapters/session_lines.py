"""A line of session JSONL: an event as its fields, and back; a streamed payload is not among them."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, Final

from vault.adapters import parse_time
from vault.encoding import canonical_json, json_bytes
from vault.errors import LineRefused
from vault.model import (
    JSON_BYTES_MAX,
    LEVELS,
    Event,
    NewEvent,
    check_name,
    check_type,
    event_bytes,
    run_bytes,
)
from vault.policy import effects
from vault.sessions.log import RELABELLED, RETRACTED
from vault.sessions.prepare import VALID_US_END, check_epoch, check_own

_CONTENT_FIELDS: Final = frozenset({"payload", "raw", "raw_base64"})
_ABOUT_FIELDS: Final = frozenset(
    {"run", "tool", "caused_by", "observed_at", "valid_for_us", "resource", "usage", "level"}
)
_FIELDS: Final = _CONTENT_FIELDS | _ABOUT_FIELDS | {"seq", "id", "type", "time", "epoch", "erased"}
#: What facts about the other session come in as: that was erased of, or labelled; here nothing is.
_THERE: Final = {RETRACTED: "imported.retracted", RELABELLED: "imported.relabelled"}


def event_fields(event: Event) -> dict[str, Any]:
    """The fields of an event's line, but for its content."""
    return present(
        seq=event.seq,
        id=event.id,
        type=event.type,
        time=iso_time(event.occurred_at or event.recorded_at),
        run=event.run,
        tool=event.tool,
        caused_by=event.caused_by,
        observed_at=iso_time(event.observed_at),
        valid_for_us=event.valid_for_us,
        resource=event.resource,
        usage=dict(event.usage) if event.usage is not None else None,
        level=event.level,
        epoch=event.epoch or None,
        erased=event.erased or None,
    )


def raw_field(raw: bytes) -> dict[str, str]:
    """The field of a raw payload: as text when it is UTF-8, else in base64."""
    try:
        return {"raw": raw.decode()}
    except UnicodeDecodeError:
        return {"raw_base64": base64.b64encode(raw).decode("ascii")}


def present(**fields: Any) -> dict[str, Any]:
    """Those fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def iso_time(moment: datetime | None) -> str | None:
    """ISO 8601 in UTC, always with microseconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def event_of(fields: dict[str, Any], stream: BinaryIO | None = None) -> NewEvent:
    """The event of a line, checked like the core will check it, so that ``strict`` knows before it appends.

    Raises:
        InvalidInput: it is not an event; the message quotes nothing of it.
    """
    if not _FIELDS.issuperset(fields):
        raise LineRefused("a field that events do not have")
    if fields.get("type") is None:
        raise LineRefused("an event without a type")
    if len(_CONTENT_FIELDS.intersection(fields)) + (stream is not None) > 1:
        raise LineRefused("more than one of payload, raw and raw_base64")
    given = {name: value for name, value in fields.items() if value is not None}
    if len(json_bytes(given.get("payload"))) > JSON_BYTES_MAX:
        raise LineRefused(f"a payload of more than {JSON_BYTES_MAX} bytes")
    if type(given.get("seq", 1)) is not int:
        raise LineRefused("seq is not a number")
    if given.get("level", "L3") not in LEVELS:
        raise LineRefused("level is not one of " + ", ".join(LEVELS))
    for name, check in (("id", event_bytes), ("caused_by", event_bytes), ("run", run_bytes)):
        if name in given:
            check(given[name])
    if "tool" in given:
        check_name(given["tool"], "a tool")
    if "resource" in given:
        check_name(given["resource"], "a resource")
    if "usage" in given and not (isinstance(given["usage"], dict) and canonical_json(given["usage"])):
        raise LineRefused("usage is not an object")
    event_type = check_type(given["type"])
    event_type = _THERE.get(event_type, event_type)
    check_own(event_type, given.get("payload"))
    return NewEvent(
        type=event_type,
        payload=given.get("payload"),
        raw=_raw(given) if stream is None else stream,
        event_id=given.get("id"),
        run=given.get("run"),
        tool=given.get("tool"),
        caused_by=given.get("caused_by"),
        observed_at=_moment(given, "observed_at"),
        occurred_at=_moment(given, "time"),
        usage=given.get("usage"),
        level=given.get("level", "L3"),
        resource=given.get("resource"),
        valid_for=_validity(given),
        epoch=_epoch(given, event_type),
    )


def _epoch(given: dict[str, Any], event_type: str) -> int:
    """The epoch of a line; of what lost its payload there is nothing to erase again."""
    epoch = 0 if given.get("erased") else given.get("epoch", 0)
    if epoch:
        check_epoch(NewEvent(type=event_type, epoch=epoch))
    return int(epoch)


class EffectOrder:
    """Whether the facts of effects follow each other in a file as they must in a log."""

    def __init__(self) -> None:
        """Nothing was told yet."""
        self._told: dict[effects.Subject, effects.Counted] = {}

    def check(self, event: NewEvent) -> None:
        """Take the next event of the file.

        Raises:
            Conflict: it does not follow from the facts before it.
        """
        if event.type not in effects.TYPES:
            return
        subject = effects.subject_of(event.type, event.payload)
        effects.check_next(self._told.get(subject, effects.Counted()), event.type, event.caused_by)
        if event.type != effects.RESOLVED:
            self._told[subject] = effects.Counted(event.type, event.event_id)


def _raw(given: dict[str, Any]) -> bytes | None:
    text, encoded = given.get("raw"), given.get("raw_base64")
    if not isinstance(text, str | None) or not isinstance(encoded, str | None):
        raise LineRefused("raw or raw_base64 is not a string")
    try:
        if encoded is not None:
            return binascii.a2b_base64(encoded, strict_mode=True)
        return None if text is None else text.encode()
    except UnicodeEncodeError:
        raise LineRefused("raw holds a lone surrogate, which is not Unicode text") from None
    except ValueError:  # binascii.Error, or a string that is not ASCII
        raise LineRefused("raw_base64 is not base64") from None


def _moment(given: dict[str, Any], name: str) -> datetime | None:
    moment = parse_time(given.get(name))
    if moment is None and name in given:
        raise LineRefused(f"{name} is not an ISO 8601 time with a time zone")
    return moment


def _validity(given: dict[str, Any]) -> timedelta | None:
    if "valid_for_us" not in given:
        return None
    valid_us = given["valid_for_us"]
    if type(valid_us) is not int or not 0 < valid_us < VALID_US_END:
        raise LineRefused("valid_for_us is not a number of microseconds above zero, up to 285 years")
    if "observed_at" not in given:
        raise LineRefused("valid_for_us without observed_at, from which it counts")
    return timedelta(microseconds=valid_us)
