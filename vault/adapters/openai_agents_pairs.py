"""Which items of an OpenAI conversation belong together: a call and its output, an approval and its answer.

An item that answers another is stored with the event id of what it answers, and under an id that is made from
it. So when one of the two is erased, the other is known without its content.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from vault.model import Event, event_bytes, format_id

#: What answers what, both under the same ``call_id``.
_ANSWERED_BY: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
    "program": "program_output",
}
_ANSWERS: Final = {output: call for call, output in _ANSWERED_BY.items()}
_REASONING: Final = "reasoning"


class Pair(NamedTuple):
    """What joins the two: the kind of what is answered, and the id that the model gave it."""

    kind: str
    id: str


def asked_by(item: Mapping[str, Any]) -> Pair | None:
    """The pair that an item opens; None when nothing answers items of its kind."""
    kind = item.get("type")
    if kind == "mcp_approval_request":
        return Pair(kind, _text(item.get("id")))
    # A search for tools may have no id: its answer is the next one without.
    return Pair(kind, _text(item.get("call_id"))) if kind in _ANSWERED_BY else None


def answered_by(item: Mapping[str, Any]) -> Pair | None:
    """The pair that an item closes; None when it answers nothing."""
    kind = item.get("type")
    if kind == "mcp_approval_response":
        return Pair("mcp_approval_request", _text(item.get("approval_request_id")))
    asked = _ANSWERS.get(kind) if isinstance(kind, str) else None
    return None if asked is None else Pair(asked, _text(item.get("call_id")))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def answer_id(call: str) -> str:
    """A new event id for what answers a call; it tells which one, even when nothing else of it is left."""
    return format_id("evt", _mark(call) + os.urandom(8))


def _mark(call: str) -> bytes:
    return hashlib.sha256(f"openai.answer {call}".encode()).digest()[:8]


def orphans(facts: Sequence[Event], erased: Iterable[str]) -> frozenset[str]:
    """The ids of items that are there and mean nothing without another, which was erased.

    Args:
        facts: of a stretch of the conversation, newest first, erased ones too.
        erased: what is known to be erased besides.
    """
    gone = {fact.id for fact in facts if fact.erased} | set(erased)
    answers = {event_bytes(fact.id)[:8] for fact in facts if fact.erased}
    answered = {fact.caused_by for fact in facts if not fact.erased}
    hidden = {
        fact.id
        for fact in facts
        if not fact.erased
        and (
            fact.caused_by in gone
            or (asked_by(fact.payload) and fact.id not in answered and _mark(fact.id) in answers)
        )
    }
    return frozenset(hidden | _thoughts_on(facts, hidden | gone))


def _thoughts_on(facts: Iterable[Event], gone: set[str]) -> set[str]:
    """Reasoning before what is gone: a model refuses it without what followed from it."""
    thoughts: set[str] = set()
    followed_by = ""
    for fact in facts:
        if fact.erased or fact.payload.get("type") != _REASONING:
            followed_by = fact.id
        elif followed_by in gone:
            thoughts.add(fact.id)
    return thoughts
