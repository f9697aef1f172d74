"""The state that the vault's own reducer, ``vault@1``, makes of a session's log: where the session stands.

It is stored again with every checkpoint. So it holds places in the log (``seq``, event ids), times and
names, and at most 200 characters of what an open approval is for and why the last run ended; never the
content of a message or of a tool's answer: what is erased from the log does not live on in a checkpoint. It
stays bounded however long the session is. Times are microseconds since 1970 (``_us``)::

    {
      "through": seq of the last event, 0 before the first,
      "messages": {"count": of all, "recent": [seq, ...]},
      "summary": null | {"id", "seq", "first_seq", "last_seq"},
      "tools": {
        "pending": {request's event id: {"seq", "tool", "run", "since_us"}},
        "dropped": how many pending ones went because there were more than the limit,
        "completed": {"count": of all, "recent": [[request's event id, seq, "returned" | "failed"], ...]}
      },
      "approvals": {"open": {event id: {"seq", "what", "run", "since_us"}}, "dropped": n},
      "node": null | where the last state.changed went to,
      "effects": {
        "open": {event id of the intention: {"seq", "kind", "key", "run", "since_us"}},
        "dropped": n, "committed": how often, "failed": how often
      },
      "observations": {resource, or "tool:" and a tool: [seq, observed_us, valid_for_us | null]},
      "run": null | {"id", "seq", "since_us", "how": "started" | "woken" | "retried",
                     "ended": null | {"how": "stopped" | "failed", "seq", "at_us", "reason"}},
      "config": null | the last one that a run or a config.changed named,
      "last_us": null | when the last event was recorded that is not about runs or checkpoints
    }

Messages that an applied summary covers are not among the recent ones. An effect is open from its intention
until a committed or failed fact of the same kind and key; a resolution alone leaves it open. A name longer
than ``NAME_LENGTH_MAX`` is kept as its start and a digest. Whatever a product writes as a payload, nothing is
raised: what the vault cannot read in it is passed over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from heapq import nsmallest
from operator import itemgetter
from typing import Any, Final

from vault.errors import InvalidInput
from vault.model import NAME_LENGTH_MAX, Event
from vault.policy.freshness import TOOL_PREFIX

#: How many of each the state holds; where more are open, the oldest go and are counted.
RECENT_MAX: Final = 200  # places of messages, and answered tool requests: what a context view asks for
PENDING_MAX: Final = 1_000  # tool requests without an answer
APPROVALS_MAX: Final = 200
EFFECTS_MAX: Final = 200
OBSERVATIONS_MAX: Final = 500

TEXT_LENGTH_MAX: Final = 200  # what an approval is for, why a run ended; in characters
#: The largest state in canonical JSON: all lists full, all names of the greatest length, in characters that
#: JSON writes with six bytes (measured: 3.2 MiB). All lists full of names of 40 letters: 363 KiB.
STATE_BYTES_MAX: Final = 4 * 2**20

INITIAL: Final[dict[str, Any]] = {
    "through": 0,
    "messages": {"count": 0, "recent": []},
    "summary": None,
    "tools": {"pending": {}, "dropped": 0, "completed": {"count": 0, "recent": []}},
    "approvals": {"open": {}, "dropped": 0},
    "node": None,
    "effects": {"open": {}, "dropped": 0, "committed": 0, "failed": 0},
    "observations": {},
    "run": None,
    "config": None,
    "last_us": None,
}
ANSWERS: Final = {"tool.returned": "returned", "tool.failed": "failed"}
_HOW: Final = {"run.started": "started", "run.woken": "woken", "run.retried": "retried"}


def summary_range(event: Event) -> tuple[int, int] | None:
    """The first and last seq that a ``context.summarized`` event stands for, or None when it does not apply.

    It applies when both are integers, in order, from 1, and lie before the summary's own place.
    """
    if event.type != "context.summarized" or not isinstance(event.payload, dict):
        return None
    first, last = event.payload.get("first_seq"), event.payload.get("last_seq")
    if type(first) is not int or type(last) is not int or not 1 <= first <= last < event.seq:
        return None
    return first, last


def observed_name(event: Event) -> str | None:
    """What an event observed: its resource, else ``tool:`` and its tool; None when it is no observation.

    An event is an observation when it says since when or for how long it holds, or has the type
    ``observation.recorded``.
    """
    if event.observed_us is None and event.valid_for_us is None and event.type != "observation.recorded":
        return None
    if event.resource is not None:
        return _name(event.resource)
    return None if event.tool is None else f"{TOOL_PREFIX}{_name(event.tool)}"


def check_state(state: Any) -> None:
    """That something has the parts of this state; what is inside them is taken as it is.

    Raises:
        InvalidInput: it is another reducer's, or no state at all.
    """
    if not isinstance(state, dict) or state.keys() != INITIAL.keys():
        raise InvalidInput("this is no state of the reducer vault@1; fold the log from its initial state")


def apply(state: Any, event: Event) -> Any:
    """The next state; the given one stays as it is, and is shared where the event touches nothing."""
    after = {**state, "through": event.seq}
    if not event.type.startswith(("run.", "checkpoint.")):
        after["last_us"] = event.recorded_us
    if event.type.startswith("message."):
        _add_message(after, event)
    elif (step := _STEPS.get(event.type)) is not None:
        # Products may write any payload under any type: one that is no dict says nothing to the vault.
        step(after, event, event.payload if isinstance(event.payload, dict) else {})
    if (name := observed_name(event)) is not None:
        # Without a time of its own it was seen when it was recorded, or before: it is never taken as fresher.
        observed_us = event.recorded_us if event.observed_us is None else event.observed_us
        seen = [event.seq, observed_us, event.valid_for_us]
        after["observations"], _ = _with(after["observations"], name, seen, OBSERVATIONS_MAX, 0)
    return after


def _add_message(after: dict[str, Any], event: Event) -> None:
    messages = after["messages"]
    recent = [*messages["recent"], event.seq][-RECENT_MAX:]
    after["messages"] = {"count": messages["count"] + 1, "recent": recent}


def _summarise(after: dict[str, Any], event: Event, _payload: dict[str, Any]) -> None:
    if (covered := summary_range(event)) is None:
        return
    first, last = covered
    after["summary"] = {"id": event.id, "seq": event.seq, "first_seq": first, "last_seq": last}
    recent = [seq for seq in after["messages"]["recent"] if not first <= seq <= last]
    after["messages"] = {**after["messages"], "recent": recent}


def _request_tool(after: dict[str, Any], event: Event, _payload: dict[str, Any]) -> None:
    tools, entry = after["tools"], {**_origin(event), "tool": _name(event.tool)}
    pending, dropped = _with(tools["pending"], event.id, entry, PENDING_MAX, "seq")
    after["tools"] = {**tools, "pending": pending, "dropped": tools["dropped"] + dropped}


def _answer_tool(after: dict[str, Any], event: Event, _payload: dict[str, Any]) -> None:
    tools, request = after["tools"], event.caused_by
    if request not in tools["pending"]:
        return
    pending = {key: entry for key, entry in tools["pending"].items() if key != request}
    answered = [request, event.seq, ANSWERS[event.type]]
    recent = [*tools["completed"]["recent"], answered][-RECENT_MAX:]
    completed = {"count": tools["completed"]["count"] + 1, "recent": recent}
    after["tools"] = {**tools, "pending": pending, "completed": completed}


def _request_approval(after: dict[str, Any], event: Event, payload: dict[str, Any]) -> None:
    approvals, entry = after["approvals"], {**_origin(event), "what": _text(payload.get("what")) or ""}
    entries, dropped = _with(approvals["open"], event.id, entry, APPROVALS_MAX, "seq")
    after["approvals"] = {"open": entries, "dropped": approvals["dropped"] + dropped}


def _decide_approval(after: dict[str, Any], event: Event, _payload: dict[str, Any]) -> None:
    approvals = after["approvals"]
    if event.caused_by in approvals["open"]:
        entries = {key: entry for key, entry in approvals["open"].items() if key != event.caused_by}
        after["approvals"] = {**approvals, "open": entries}


def _change_node(after: dict[str, Any], _event: Event, payload: dict[str, Any]) -> None:
    if (node := _text(payload.get("to"), NAME_LENGTH_MAX)) is not None:
        after["node"] = node


def _change_config(after: dict[str, Any], _event: Event, payload: dict[str, Any]) -> None:
    if (config := _text(payload.get("config"), NAME_LENGTH_MAX)) is not None:
        after["config"] = config


def _intend_effect(after: dict[str, Any], event: Event, payload: dict[str, Any]) -> None:
    kind, key = _name(payload.get("kind")), _name(payload.get("key"))
    if kind is None or key is None:
        return
    # Intended anew, it is one effect in doubt, not two.
    entries, entry = _without_effect(after, kind, key), {**_origin(event), "kind": kind, "key": key}
    entries, dropped = _with(entries, event.id, entry, EFFECTS_MAX, "seq")
    effects = after["effects"]
    after["effects"] = {**effects, "open": entries, "dropped": effects["dropped"] + dropped}


def _close_effect(after: dict[str, Any], event: Event, payload: dict[str, Any]) -> None:
    effects, outcome = after["effects"], event.type.removeprefix("effect.")
    entries = _without_effect(after, _name(payload.get("kind")), _name(payload.get("key")))
    after["effects"] = {**effects, "open": entries, outcome: effects[outcome] + 1}


def _without_effect(after: dict[str, Any], kind: str | None, key: str | None) -> dict[str, Any]:
    effects = after["effects"]["open"]
    return {at: entry for at, entry in effects.items() if (entry["kind"], entry["key"]) != (kind, key)}


def _begin_run(after: dict[str, Any], event: Event, payload: dict[str, Any]) -> None:
    origin = _origin(event)
    after["run"] = {
        "id": origin["run"],
        "seq": origin["seq"],
        "since_us": origin["since_us"],
        "how": _HOW[event.type],
        "ended": None,
    }
    _change_config(after, event, payload)


def _end_run(after: dict[str, Any], event: Event, payload: dict[str, Any]) -> None:
    run = after["run"]
    # The end of a run that was replaced says nothing about the one that replaced it.
    if run is None or run["ended"] is not None or run["id"] != event.run:
        return
    words = ("reason",) if event.type == "run.stopped" else ("error", "message")
    reason = ": ".join(text for word in words if (text := _text(payload.get(word))))
    ended = {
        "how": event.type.removeprefix("run."),
        "seq": event.seq,
        "at_us": event.recorded_us,
        "reason": reason[:TEXT_LENGTH_MAX],
    }
    after["run"] = {**run, "ended": ended}


def _origin(event: Event) -> dict[str, Any]:
    return {"seq": event.seq, "run": event.run, "since_us": event.recorded_us}


def _with(
    entries: dict[str, Any], key: Any, entry: Any, limit: int, place: Any
) -> tuple[dict[str, Any], int]:
    """The entries and one more, at most ``limit`` of them, and how many of the oldest went for that.

    By seq, not by the order in the dict: canonical JSON sorts the keys, and the next fold may start from it.
    """
    kept, seq_of = {**entries, key: entry}, itemgetter(place)
    excess = max(0, len(kept) - limit)
    for oldest in nsmallest(excess, kept, key=lambda name: (seq_of(kept[name]), name)):
        del kept[oldest]
    return kept, excess


def _text(value: Any, limit: int = TEXT_LENGTH_MAX) -> str | None:
    return _clean(value[:limit]) if isinstance(value, str) else None


def _name(value: Any) -> str | None:
    """A name as it is; a longer one cut, with a digest of the whole, so that two long ones stay apart."""
    if not isinstance(value, str) or len(value) <= NAME_LENGTH_MAX:
        return _text(value, NAME_LENGTH_MAX)
    digest = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()
    return f"{_clean(value[: NAME_LENGTH_MAX - len(digest) - 1])}…{digest}"


def _clean(text: str) -> str:
    """The text with lone surrogates replaced, which no JSON holds; an event that was stored has none."""
    return text if text.isascii() else text.encode(errors="replace").decode()


_STEPS: Final[dict[str, Callable[[dict[str, Any], Event, dict[str, Any]], None]]] = {
    "context.summarized": _summarise,
    "tool.requested": _request_tool,
    **dict.fromkeys(ANSWERS, _answer_tool),
    "approval.requested": _request_approval,
    "approval.granted": _decide_approval,
    "approval.denied": _decide_approval,
    "state.changed": _change_node,
    "config.changed": _change_config,
    "effect.intended": _intend_effect,
    "effect.committed": _close_effect,
    "effect.failed": _close_effect,
    **dict.fromkeys(_HOW, _begin_run),
    "run.stopped": _end_run,
    "run.failed": _end_run,
}
