"""Views: a payload with what a level does not show taken out, its structure kept.

A view is **total**: it answers for any JSON, and what fails, is too deep or too large is shown as its shape.
It is **monotone**: the view of a level can be made from the view of the next higher one, so nothing is hidden
at a level and shown below it. That is why a shape tells the type of a value and not its length, which a mask
in the same place would not tell either.

What stands in place of what is hidden, whatever its length: ``<string>``, ``<number>``, ``<boolean>``,
``<object>``, ``<array>`` (shapes); ``<secret>`` and ``<dropped>`` (by rule); ``[EMAIL]`` (masked, with its
kind) and ``[HIDDEN]`` (masked, of no known kind); ``key_1`` for an object's key that is data. Empty strings
and null stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vault.encoding import json_bytes
from vault.model import LEVELS, Event
from vault.policy.places import Rules
from vault.redaction.masking import (
    NO_JSON,
    STRING_LENGTH_MAX,
    TOO_DEEP,
    Finder,
    Masking,
    Pseudonym,
    Spot,
    parsed,
    shape,
    written,
)

#: A payload beyond this is shown as its shape: some seconds of detecting, and the same at every level.
VIEW_BYTES_MAX: Final = 8 * 2**20
USAGE_NUMBER_MAX: Final = 10**9  # counts and parameters are smaller; card and phone numbers are not
_USAGE_DEPTH_MAX: Final = 4


def view(
    payload: Any,
    *,
    level: str,
    event_type: str,
    rules: Rules,
    finder: Finder,
    pseudonym: Pseudonym,
    own: bool = False,
) -> Any:
    """The payload as a reader of this level sees it; never raises, never changes what it is given.

    ``finder`` gives the spans of a text that are personal or secret. Where it raises, the whole string is
    masked, so it bounds its own time by raising. ``pseudonym`` gives the stable name of a kind and a value.
    ``own``: the reader owns the data, to whom L3 is all of it; to others L3 is all but the secrets. A level
    that is none is L0.
    """
    if own and level == "L3":
        return payload
    try:
        size = len(json_bytes(payload))
        spot = Spot(rules.for_type(event_type).start.below("payload"))
        masking = Masking(level, finder, pseudonym)
        return masking.value(payload, spot) if size <= VIEW_BYTES_MAX else masking.beyond(payload, spot)
    except Exception:  # noqa: BLE001 - whatever it was, a shape tells nothing of the payload
        return shape(payload)


def view_event(
    event: Event, *, level: str, rules: Rules, finder: Finder, pseudonym: Pseudonym, own: bool = False
) -> Event:
    """The event as a reader of this level sees it, and never above the level it was stored at; never raises.

    Ids, type, times, sizes and the payload's reference stay. Below L3 a raw payload that is no JSON becomes
    the payload ``{"bytes": n}``, n rounded up to a power of two; ``usage`` keeps its numbers; ``tool`` is
    shown from L1; ``resource`` is a pseudonym at L2 and hidden below. Raw JSON is written anew.
    """
    level = min(level, event.level) if level in LEVELS and event.level in LEVELS else "L0"
    if own and level == "L3":
        return event

    def seen(payload: Any) -> Any:
        return view(
            payload, level=level, event_type=event.type, rules=rules, finder=finder, pseudonym=pseudonym
        )

    masking = Masking(level, finder, pseudonym)
    payload, raw = seen(event.payload), None
    try:
        if event.raw is not None:
            text = _text(event.raw)
            inner = NO_JSON if text is None else parsed(text)
            if inner is not NO_JSON and inner is not TOO_DEEP:
                raw = written(seen(inner)).encode()
            elif level == "L3" and inner is NO_JSON:
                raw = _full(text, masking)
            if raw is None:
                payload = {"bytes": _rounded(len(event.raw))}
        return event._replace(
            payload=payload,
            raw=raw,
            tool=_tool(event.tool, level, masking),
            usage=event.usage if level == "L3" else _numbers(event.usage, masking),
            resource=_resource(event.resource, level, masking),
        )
    except Exception:  # noqa: BLE001 - whatever it was, what is left has nothing that anybody supplied
        return event._replace(payload=shape(event.payload), raw=None, tool=None, usage=None, resource=None)


def _text(raw: bytes) -> str | None:
    """The text that bytes are, if it is short enough to be looked into."""
    try:
        return raw.decode() if len(raw) <= VIEW_BYTES_MAX else None
    except UnicodeDecodeError:
        return None


def _full(text: str | None, masking: Masking) -> bytes | None:
    """Raw bytes at L3, for a reader who is not the owner."""
    if text is None:
        return None  # what is no text cannot be searched for secrets, so only its owner sees it
    return masking.detected(text).encode() if len(text) <= STRING_LENGTH_MAX else None


def _rounded(size: int) -> int:
    return 1 << (size - 1).bit_length() if size else 0


def _tool(name: str | None, level: str, masking: Masking) -> str | None:
    """A tool's name, from L1, as a text."""
    if name is None or level == "L0":
        return None
    return masking.detected(name)


def _resource(name: str | None, level: str, masking: Masking) -> str | None:
    """What an event is about, which is the name of a record."""
    if name is None or level not in {"L2", "L3"}:
        return None
    return masking.named("RESOURCE", name) if level == "L2" else masking.detected(name)


def _numbers(usage: Any, masking: Masking, depth: int = 0) -> dict[str, Any] | None:
    """The numbers of a usage mapping, under those keys that are names of fields."""
    if not isinstance(usage, Mapping) or depth == _USAGE_DEPTH_MAX:
        return None
    shown: dict[str, Any] = {}
    for key, item in usage.items():
        number = isinstance(item, int | float) and not isinstance(item, bool) and abs(item) < USAGE_NUMBER_MAX
        kept = item if number else _numbers(item, masking, depth + 1)
        if kept is not None and isinstance(key, str) and masking.key(key).shown:
            shown[key] = kept
    return shown
