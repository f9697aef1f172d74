"""Runs in OpenAI chat format in: one JSON object per line, ``{"task_id": …, "trial": …, "messages": […]}``.

Each line becomes a session, each message an event whose payload is the message as it was. A message that
calls several tools is kept whole by the event of its first call; the others name their place in it:
``{"tool_call": 1}``. So every call is an event of its own, and nothing is kept twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from vault.adapters import (
    Access,
    ImportReport,
    Progress,
    Session,
    name_or_none,
    parse_object,
    title_of,
)
from vault.adapters.intake import Intake, Lines, Problems
from vault.encoding import json_bytes
from vault.errors import InvalidInput, LineRefused
from vault.model import JSON_BYTES_MAX, Event, NewEvent, new_event_id

#: One run. It is held in memory while it is taken.
LINE_BYTES_MAX: Final = JSON_BYTES_MAX
_HEAD_BYTES: Final = 2**20

_RUN = "import.run"
_ROLES: Final = {
    "system": "message.system",
    "developer": "message.system",
    "user": "message.user",
    "assistant": "message.assistant",
    "tool": "tool.returned",
    "function": "tool.returned",
}
_OTHER = "message.other"
_MESSAGE_TYPES: Final = frozenset({*_ROLES.values(), _OTHER, "tool.requested"})


def import_runs(
    source: BinaryIO, access: Access, *, strict: bool = False, progress: Progress | None = None
) -> ImportReport:
    """Make a session of every line, labelled with its task and trial.

    A damaged line is reported and makes no session. ``progress`` gets the lines and bytes read.

    Raises:
        InvalidInput: no line is a run; with ``strict``, any line is damaged, and then nothing is imported.
            ``strict`` reads twice, so it needs a source that can seek.
    """
    if strict:
        if not source.seekable():
            raise InvalidInput("a strict import reads its source twice: give a file, not a pipe")
        start = source.tell()
        found = Problems()
        for _ in _runs(Lines(source, _HEAD_BYTES), found):
            pass
        found.refuse_any()
        source.seek(start)
    problems, lines = Problems(), Lines(source, _HEAD_BYTES)
    sessions: list[str] = []
    events = 0
    for run in _runs(lines, problems):
        session = access.sessions.create(title=_title(run["messages"]), labels=_labels(run))
        intake = Intake(session)
        for event in _events(run):
            intake.add(event, line=lines.number, size=len(json_bytes(event.payload)))
        intake.flush()
        sessions.append(session.id)
        events += intake.appended
        if progress is not None:
            progress(lines.number, lines.bytes)
    if not sessions:
        raise InvalidInput("no line of it is a run in OpenAI chat format")
    return ImportReport(
        sessions=tuple(sessions),
        events=events,
        lines=lines.number,
        bytes=lines.bytes,
        problems=problems.listed,
        problems_total=problems.total,
    )


def export_messages(session: Session) -> list[dict[str, Any]]:
    """The session's messages as OpenAI chat format has them, all in memory.

    Of an imported run these are the very messages; messages of the same shape that were appended since are
    among them.
    """
    return [event.payload for event in session.events() if _is_message(event)]


def _is_message(event: Event) -> bool:
    # What names a place in a message has no role.
    return isinstance(event.payload, dict) and "role" in event.payload and event.type in _MESSAGE_TYPES


# ------------------------------------------------------------------------------------------------- lines


def _runs(lines: Lines, problems: Problems) -> Iterator[dict[str, Any]]:
    """The runs that can be taken whole; ``lines.number`` is where the current one stands."""
    while (head := lines.head()) is not None:
        if not lines.more and not head.strip():
            continue
        try:
            run = parse_object(lines.whole(head, LINE_BYTES_MAX))
            _check_run(run)
        except InvalidInput as refusal:
            problems.add(lines.number, str(refusal))
        else:
            yield run


def _check_run(run: dict[str, Any]) -> None:
    """Check what the core will check, so that no session is begun that cannot be filled.

    Raises:
        InvalidInput: it is not a run; the message quotes nothing of it.
    """
    messages = run.get("messages")
    if not isinstance(messages, list):
        raise LineRefused("a run without a list of messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise LineRefused("a message that is not an object with a role")
    for name in ("task_id", "trial"):
        if run.get(name) is not None and _label(run[name]) is None:
            raise LineRefused(f"{name} is not a number or a short text")
    json_bytes(run)


def _label(value: object) -> str | None:
    return name_or_none(str(value)) if isinstance(value, str | int | float) else None


def _labels(run: dict[str, Any]) -> dict[str, str]:
    labels = {"task": _label(run.get("task_id")), "trial": _label(run.get("trial"))}
    return {name: value for name, value in labels.items() if value is not None}


def _title(messages: list[dict[str, Any]]) -> str | None:
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        texts = [part.get("text") for part in parts if isinstance(part, dict)]
        title = next((title for text in texts if (title := title_of(text)) is not None), None)
        if message["role"] == "user" and title is not None:
            return title
    return None


def _events(run: dict[str, Any]) -> Iterator[NewEvent]:
    about = {name: value for name, value in run.items() if name not in {"task_id", "trial", "messages"}}
    if about:
        yield NewEvent(type=_RUN, payload=about)
    calls: dict[str, tuple[str, str | None]] = {}
    for message in run["messages"]:
        asked = _calls(message)
        if asked:
            yield from _call_events(message, asked, calls)
            continue
        kind = _ROLES.get(message["role"], _OTHER)
        answer = message.get("tool_call_id", message.get("name"))
        caused_by, tool = calls.get(answer, (None, None)) if isinstance(answer, str) else (None, None)
        answers = kind == "tool.returned"
        yield NewEvent(
            type=kind,
            payload=message,
            tool=(name_or_none(message.get("name")) or tool) if answers else None,
            caused_by=caused_by if answers else None,
        )


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool calls of a message, of today's kind or of the older one."""
    if message["role"] != "assistant":
        return []
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        older = message.get("function_call")
        calls = [{"function": older, "id": older.get("name")}] if isinstance(older, dict) else []
    return [call if isinstance(call, dict) else {} for call in calls]


def _call_events(
    message: dict[str, Any], asked: list[dict[str, Any]], calls: dict[str, tuple[str, str | None]]
) -> Iterator[NewEvent]:
    """One event for each call; ``calls`` learns which event made the call of an id."""
    first = new_event_id()
    for place, call in enumerate(asked):
        event_id = first if place == 0 else new_event_id()
        function = call.get("function", call.get("custom"))
        tool = name_or_none(function.get("name")) if isinstance(function, dict) else None
        if isinstance(call.get("id"), str):
            calls[call["id"]] = (event_id, tool)
        yield NewEvent(
            type="tool.requested",
            payload=message if place == 0 else {"tool_call": place},
            event_id=event_id,
            tool=tool,
            caused_by=None if place == 0 else first,
        )
