"""What a line of a Claude Code transcript says: its event type, and what links it to other lines. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from vault.adapters import name_or_none, parse_object, title_of
from vault.errors import LineRefused

_KNOWN: Final = """
agent-color agent-name agent-setting ai-title api-request api-request-blob api-request-resumed
api-request-shape artifact-autoreact-ledger artifact-comment-monitor atis-latch attachment
attribution-snapshot bridge-session content-replacement continued-in cost-state custom-title
data-flow-incomplete data-flow-records derived-from dev-mods ended-by-model file-history-delta
file-history-snapshot fork-context-ref frame-link history-suppression isolation-latch last-prompt memory-mode
mode observer-ref permission-mode pr-link progress queue-operation relocated resume-head-vouch session-owner
tag tools-used worktree-state
"""
#: An event's type is stored in clear, so what a file says becomes one only when it is a word of the format.
_TYPES: Final = {
    "system": "message.system",
    "summary": "context.summarized",
    **{name: f"transcript.{name}" for name in _KNOWN.split()},
}
#: Where titles stand, the better ones first.
_TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
_TITLE_MARKS: Final = tuple(f'"{name}"'.encode() for name in _TITLES.values())
#: How texts begin that stand in a user's line though nobody typed them.
_NOT_TYPED: Final = ("<command-", "<local-command-", "Caveat: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a line says about itself; ``damage`` is why nothing could be read from it."""

    type: str
    tool: str | None = field(default=None, repr=False)
    calls: tuple[str, ...] = field(default=(), repr=False)
    answers: tuple[str, ...] = field(default=(), repr=False)
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    damage: str | None = None


def read_line(line: bytes) -> Reading:
    """The event type of a line and what links it to others; any bytes are a line."""
    if not line.strip():
        return Reading(type="transcript.blank")
    try:
        fields = parse_object(line)
    except LineRefused as refusal:
        return Reading(type="transcript.damaged", damage=str(refusal))
    kind = fields.get("type")
    if kind == "user":
        return _read_user(fields)
    if kind == "assistant":
        return _read_assistant(fields)
    name = _TYPES.get(str(kind), "transcript.other")
    if kind == "system" and fields.get("subtype") == "compact_boundary":
        name = "context.summarized"
    return Reading(type=name, fields=fields)


def _read_user(fields: dict[str, Any]) -> Reading:
    results = [block for block in _blocks(fields) if block.get("type") == "tool_result"]
    if results:
        failed = any(block.get("is_error") is True for block in results)
        answers = _texts(results, "tool_use_id")
        return Reading(type="tool.failed" if failed else "tool.returned", answers=answers, fields=fields)
    summarized = fields.get("isCompactSummary") is True
    return Reading(type="context.summarized" if summarized else "message.user", fields=fields)


def _read_assistant(fields: dict[str, Any]) -> Reading:
    # tool_use, and what the provider itself runs: server_tool_use, mcp_tool_use.
    calls = [block for block in _blocks(fields) if str(block.get("type")).endswith("tool_use")]
    if not calls:
        return Reading(type="message.assistant", fields=fields)
    tool = name_or_none(calls[0].get("name"))
    return Reading(type="tool.requested", tool=tool, calls=_texts(calls, "id"), fields=fields)


def _blocks(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = _content(fields)
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _content(fields: Mapping[str, Any]) -> Any:
    message = fields.get("message")
    return message.get("content") if isinstance(message, dict) else None


def _texts(blocks: list[dict[str, Any]], name: str) -> tuple[str, ...]:
    return tuple(block[name] for block in blocks if isinstance(block.get(name), str))


class About:
    """Gathers from the lines of a transcript what its session is called; the last title of a kind counts."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self._typed: str | None = None
        self._titles: dict[str, str | None] = {}

    @property
    def title(self) -> str | None:
        """A given title, else a made one, else a summary, else what was typed first."""
        return next((self._titles[kind] for kind in _TITLES if self._titles.get(kind)), self._typed)

    def wants(self, line: bytes) -> bool:
        """Whether a line may tell something new; most lines need not be read for it."""
        return self._typed is None or self.session_id is None or any(mark in line for mark in _TITLE_MARKS)

    def note(self, reading: Reading) -> None:
        """Take what a line tells."""
        kind = str(reading.fields.get("type"))
        if kind in _TITLES:
            self._titles[kind] = title_of(reading.fields.get(_TITLES[kind]))
        self._typed = self._typed or title_of(_typed_text(reading))
        self.session_id = self.session_id or name_or_none(reading.fields.get("sessionId"))


def _typed_text(reading: Reading) -> str | None:
    if reading.type != "message.user" or reading.fields.get("isMeta") is True:
        return None
    content = _content(reading.fields)
    texts = [content] if isinstance(content, str) else _texts(_blocks(reading.fields), "text")
    return next((text for text in texts if not text.startswith(_NOT_TYPED)), None)
