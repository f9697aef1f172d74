"""Which format a file is in, by looking at its first lines."""

from __future__ import annotations

import io
import re
from typing import Any, BinaryIO, Final, Literal

import orjson

from vault.errors import InvalidInput

Format = Literal["jsonl", "claude-code", "openai-chat"]
NAMES: Final[dict[Format, str]] = {
    "jsonl": "session JSONL",
    "claude-code": "Claude Code transcript",
    "openai-chat": "OpenAI chat format",
}

#: How far to look: a first line may be damaged, a file may begin with lines that say little.
_LINES_MAX: Final = 50
_BYTES_MAX: Final = 2**20
#: Beginnings of lines that are too long to read for this.
_BEGINNINGS: Final[tuple[tuple[re.Pattern[bytes], Format], ...]] = (
    (re.compile(rb'\s*\{[^\[]{0,400}"messages"\s*:\s*\['), "openai-chat"),
    (re.compile(rb'\s*\{"seq":\d+,"id":"evt_'), "jsonl"),
    (re.compile(rb'\s*\{.{0,2000}"(parentUuid|sessionId|isSidechain)"\s*:', re.DOTALL), "claude-code"),
)
_CLAUDE_FIELDS: Final = frozenset({"sessionId", "uuid", "parentUuid", "leafUuid", "isSidechain", "messageId"})
_CLAUDE_TYPES: Final = frozenset({"user", "assistant", "system", "summary"})


def recognise(source: BinaryIO) -> Format:
    """The format of a source, which is left where it was; of a pipe, only what is there already is looked at.

    Raises:
        InvalidInput: it is none that is known.
    """
    if source.seekable():
        start = source.tell()
        found = _by_lines(source)
        source.seek(start)
    else:
        peek = getattr(source, "peek", None)
        found = _by_lines(io.BytesIO(peek(_BYTES_MAX))) if peek else None
    if found is None:
        raise InvalidInput("its format is not recognised; say which with --format")
    return found


def _by_lines(source: BinaryIO) -> Format | None:
    left = _BYTES_MAX
    for _ in range(_LINES_MAX):
        line = source.readline(left)
        left -= len(line)
        found = _of_line(line)
        if found is not None or left <= 0 or not line:
            return found
    return None


def _of_line(line: bytes) -> Format | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        beginnings = (name for pattern, name in _BEGINNINGS if pattern.match(line))
        return next(beginnings, None)
    return _of_object(value) if isinstance(value, dict) else None


def _of_object(value: dict[str, Any]) -> Format | None:
    if value.get("format") == "session-vault-jsonl":
        return "jsonl"
    if isinstance(value.get("messages"), list):
        return "openai-chat"
    kind = value.get("type")
    if not isinstance(kind, str):
        return None
    if "." in kind:
        return "jsonl"
    return "claude-code" if kind in _CLAUDE_TYPES or not _CLAUDE_FIELDS.isdisjoint(value) else None
