"""What an event says, as text for people: the usual shapes of messages, calls and results. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from vault.cli.accounts import PARTS_MAX, VALUE_MAX, account_of, compact
from vault.cli.printable import iso, one_line, shortened, size
from vault.model import Event

#: Characters of one event's text that are looked at; a timeline shows a few lines of it.
_TEXT_MAX: Final = 2_000
#: Raw payloads above this are not searched for JSON.
_PARSED_BYTES_MAX: Final = 8 * 2**20
#: Fields in which messages and their parts keep what they say, the first that holds something counts.
_SPOKEN: Final = ("message", "content", "text", "thinking", "summary", "output", "result", "error")
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def reading(event: Event) -> str:
    """The text of an event, visible, shortened; may hold line feeds."""
    if event.erased:
        return "erased: only the fact is left"
    if event.streamed:
        return f"a raw payload, {size(event.size)} sealed"
    if event.raw is not None:
        return _raw_reading(event.raw, event)
    return _value_reading(event.payload, event)


def _raw_reading(raw: bytes, event: Event) -> str:
    if raw[:1] in {b"{", b"["} and len(raw) <= _PARSED_BYTES_MAX:
        try:
            return _value_reading(orjson.loads(raw), event)
        except orjson.JSONDecodeError:
            pass  # it only looked like JSON: what follows shows it as text
    head = raw[: 4 * _TEXT_MAX]
    if _CONTROLS.search(head):
        return f"{size(len(raw))} of raw bytes"
    text = head.decode(errors="ignore" if len(head) < len(raw) else "backslashreplace")
    more = f"… ({size(len(raw))} in all)" if len(head) < len(raw) or len(text) > _TEXT_MAX else ""
    return shortened(text[:_TEXT_MAX], _TEXT_MAX) + more


def _value_reading(value: Any, event: Event) -> str:
    if isinstance(value, dict) and (account := account_of(event.type, value)) is not None:
        text = account
    elif value is None and event.type != "tool.requested":
        text = "no payload"
    elif event.type == "tool.requested":
        text = "\n".join(_calls(value, event.tool))
    elif event.tool and event.type.startswith("tool."):
        text = f"{one_line(event.tool, VALUE_MAX)} → {_said(value)}"
    else:
        text = _said(value)
    return shortened(text, _TEXT_MAX)


def _said(value: Any) -> str:
    parts: list[str] = []
    for part in _parts(value):
        parts.append(part)
        if len(parts) == PARTS_MAX:
            break
    return "\n".join(parts) if parts else compact(value)


def _parts(value: Any) -> Iterator[str]:
    """The texts, calls and results in a message of a common shape; nothing when it is of none."""
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, list):
        for item in value:
            yield from _parts(item) if isinstance(item, dict) else ()
    elif isinstance(value, dict):
        if str(value.get("type")).endswith("tool_use") or "tool_calls" in value or "function_call" in value:
            yield from _parts(value.get("content"))
            yield from _calls(value, None)
            return
        for name in _SPOKEN:
            inner = list(_parts(value.get(name)))
            if inner:
                yield from inner
                return
        if isinstance(value.get("type"), str) and "content" not in value and "source" in value:
            yield f"[{one_line(value['type'], VALUE_MAX)}]"  # a picture or a document inside a message


def _calls(value: Any, tool: str | None) -> Iterator[str]:
    """Every call in the payload of a tool request, as ``name(argument="value")``."""
    found = list(_found_calls(value))
    if found:
        yield from _parts(value.get("content")) if isinstance(value, dict) and "tool_calls" in value else ()
        yield from (_call(name, arguments) for name, arguments in found)
    elif isinstance(value, dict) and value.keys() == {"tool_call"} and isinstance(value["tool_call"], int):
        yield f"{one_line(tool or 'a tool', VALUE_MAX)}: call {value['tool_call'] + 1} of the request above"
    else:
        yield _call(tool, value)


def _found_calls(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list):
        for item in value[:PARTS_MAX]:
            yield from _found_calls(item)
    elif isinstance(value, dict):
        if str(value.get("type")).endswith("tool_use"):
            yield value.get("name"), value.get("input")
            return
        for function in (value.get("function"), value.get("function_call"), value.get("custom")):
            if isinstance(function, dict):
                yield function.get("name"), function.get("arguments", function.get("input"))
        for name in ("tool_calls", "message", "content"):
            yield from _found_calls(value.get(name))


def _call(name: Any, arguments: Any) -> str:
    if isinstance(arguments, str):
        with suppress(orjson.JSONDecodeError):  # a tool may take free text
            arguments = orjson.loads(arguments)
    called = one_line(name, VALUE_MAX) if isinstance(name, str) else "a tool"
    if isinstance(arguments, dict):
        given = ", ".join(f"{one_line(key, 40)}={compact(item)}" for key, item in arguments.items())
        return f"{called}({given})"
    return f"{called}({compact(arguments)})" if arguments is not None else f"{called}()"


def event_document(event: Event) -> Mapping[str, Any]:
    """An event as a JSON object: everything that is known of it; large raw payloads by reference only."""
    found = {
        "id": event.id,
        "session_id": event.session_id,
        "seq": event.seq,
        "type": event.type,
        "recorded_at": iso(event.recorded_at),
        "occurred_at": iso(event.occurred_at),
        "observed_at": iso(event.observed_at),
        "valid_for_us": event.valid_for_us,
        "resource": event.resource,
        "run": event.run,
        "tool": event.tool,
        "caused_by": event.caused_by,
        "usage": event.usage,
        "level": event.level,
        "payload_ref": event.payload_ref,
        "size": event.size,
        "payload": event.payload,
        "erased": event.erased,
    }
    return found if event.raw is None else found | _raw_field(event.raw)


def _raw_field(raw: bytes) -> dict[str, str]:
    try:
        return {"raw": raw.decode()}
    except UnicodeDecodeError:
        return {"raw_base64": base64.b64encode(raw).decode()}
