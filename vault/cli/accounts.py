"""What the events say that the vault itself writes: runs, effects, checkpoints, decisions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from vault.cli.printable import one_line

#: Characters of a value inside a text, and parts of a list or an object.
VALUE_MAX: Final = 120
PARTS_MAX: Final = 50
_DEPTH_MAX: Final = 6
_Said = Mapping[str, Any]


def account_of(event_type: str, said: _Said) -> str | None:
    """A payload of one of the vault's own types in words; None for another, or one that does not fit."""
    account = _ACCOUNTS.get(event_type)
    return None if account is None else account(said)


def named(said: _Said) -> str | None:
    """An effect by its kind and key; None when the payload has none."""
    kind, key = said.get("kind"), said.get("key")
    if not isinstance(kind, str) or not isinstance(key, str):
        return None
    return effect_name(kind, key)


def effect_name(kind: str, key: str) -> str:
    """An effect's kind and key, each on one line and short."""
    return f"{one_line(kind, VALUE_MAX)} “{one_line(key, VALUE_MAX)}”"


def _intended(said: _Said) -> str | None:
    return _effect(said, "intent")


def _committed(said: _Said) -> str | None:
    return _effect(said, "confirmation")


def _effect(said: _Said, told: str) -> str | None:
    effect, value = named(said), said.get(told)
    return effect if effect is None or value is None else f"{effect} {compact(value)}"


def _failed(said: _Said) -> str | None:
    effect, reason = named(said), _text(said, "reason")
    return effect if effect is None or not reason else f"{effect}: {reason}"


def _resolved(said: _Said) -> str | None:
    effect, decision = named(said), _text(said, "decision")
    if effect is None or not decision:
        return None
    by = f", by {_text(said, 'by')}" if _text(said, "by") else ""
    why = f": {_text(said, 'why')}" if _text(said, "why") else ""
    return f"{effect} {decision}{by}{why}"


def _checkpoint(said: _Said) -> str | None:
    through, digest = said.get("through"), _text(said, "sha256")
    if type(through) is not int or not digest:
        return None
    reducer = _text(said, "reducer") or "given by hand"
    return f"the state through event {through:,}, {reducer}, sha256 {digest[:12]}…"


def _begun(said: _Said) -> str | None:
    config = f"under config {_text(said, 'config')}" if _text(said, "config") else ""
    of = f"after {_text(said, 'of')}" if _text(said, "of") else ""
    return " ".join(filter(None, (config, of)))


def _stopped(said: _Said) -> str | None:
    return _text(said, "reason") or None


def _run_failed(said: _Said) -> str | None:
    return ": ".join(filter(None, (_text(said, "error"), _text(said, "message")))) or None


def _config(said: _Said) -> str | None:
    return f"config {_text(said, 'config')}" if _text(said, "config") else None


def _restarted(said: _Said) -> str | None:
    return f"goes on as {_text(said, 'as')}" if _text(said, "as") else None


def _asked(said: _Said) -> str | None:
    what, of = _text(said, "what", 2_000), said.get("of")
    return None if not what else what if of is None else f"{what} {compact(of)}"


def _decided(said: _Said) -> str | None:
    by = f"by {_text(said, 'by')}" if _text(said, "by") else ""
    return ": ".join(filter(None, (by, _text(said, "why", 2_000)))) or None


def _summarised(said: _Said) -> str | None:
    first, last, summary = said.get("first_seq"), said.get("last_seq"), said.get("summary")
    if type(first) is not int or type(last) is not int or not isinstance(summary, str):
        return None
    return f"instead of {first:,} to {last:,}: {summary}"


def _node(said: _Said) -> str | None:
    to, before = _text(said, "to"), _text(said, "from")
    return None if not to else f"{before} → {to}" if before else to


def _text(said: _Said, name: str, limit: int = 200) -> str:
    value = said.get(name)
    return one_line(value, limit) if isinstance(value, str) else ""


_ACCOUNTS: Final[dict[str, Callable[[_Said], str | None]]] = {
    "effect.intended": _intended,
    "effect.committed": _committed,
    "effect.failed": _failed,
    "effect.resolved": _resolved,
    "checkpoint.created": _checkpoint,
    "run.started": _begun,
    "run.woken": _begun,
    "run.retried": _begun,
    "run.stopped": _stopped,
    "run.failed": _run_failed,
    "config.changed": _config,
    "session.restarted": _restarted,
    "approval.requested": _asked,
    "approval.granted": _decided,
    "approval.denied": _decided,
    "context.summarized": _summarised,
    "state.changed": _node,
}


def compact(value: Any) -> str:
    """A value as JSON on one line, long strings and lists cut; quotes and line ends stay escaped."""
    return orjson.dumps(_cut(value, 0)).decode()


def _cut(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= VALUE_MAX else value[: VALUE_MAX - 1] + "…"
    if isinstance(value, list | dict) and depth == _DEPTH_MAX:  # deeper does not help a reader
        return "…"
    if isinstance(value, list):
        more = ["…"] if len(value) > PARTS_MAX else []
        return [_cut(item, depth + 1) for item in value[:PARTS_MAX]] + more
    if isinstance(value, dict):
        kept = list(value.items())[:PARTS_MAX]
        return {_cut(key, depth): _cut(item, depth + 1) for key, item in kept}
    return value
