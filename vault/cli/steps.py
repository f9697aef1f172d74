"""What an event changed in the state of ``vault.policy.state``, in a few words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vault.cli.accounts import effect_name
from vault.cli.printable import one_line

_NAME_MAX: Final = 80
_State = Mapping[str, Any]


def changed_parts(before: _State, after: _State) -> dict[str, Any]:
    """The parts of a state that an event changed, but for how far it reaches and when it was used."""
    return {name: after[name] for name in after if name not in _CLOCKWORK and after[name] != before[name]}


_CLOCKWORK: Final = frozenset({"through", "last_us"})


def changes(before: _State, after: _State) -> list[str]:
    """What changed from one state to the next, one thing a string; empty when nothing did."""
    told = []
    if (count := after["messages"]["count"]) != before["messages"]["count"]:
        told.append(f"message {count:,}")
    if after["summary"] != before["summary"]:
        told.append(
            f"a summary stands for {after['summary']['first_seq']:,} to {after['summary']['last_seq']:,}"
        )
    told += _tools(before["tools"], after["tools"])
    told += _approvals(before["approvals"]["open"], after["approvals"]["open"])
    told += _effects(before["effects"], after["effects"])
    if after["node"] != before["node"]:
        told.append(f"in state “{one_line(after['node'], _NAME_MAX)}”")
    told += [
        f"saw {one_line(name, _NAME_MAX)}"
        for name, seen in after["observations"].items()
        if seen != before["observations"].get(name)
    ]
    told += _run(before["run"], after["run"])
    if after["config"] != before["config"]:
        told.append(f"config {one_line(after['config'], _NAME_MAX)}")
    return told


def _tools(before: _State, after: _State) -> list[str]:
    told = [
        f"waits for {_tool(call)}" for at, call in after["pending"].items() if at not in before["pending"]
    ]
    outcomes = {request: outcome for request, _, outcome in after["completed"]["recent"]}
    return told + [
        f"{_tool(call)} {outcomes[at]}"
        for at, call in before["pending"].items()
        if at not in after["pending"] and at in outcomes
    ]


def _tool(call: _State) -> str:
    return one_line(call["tool"], _NAME_MAX) if call["tool"] else "a tool"


def _approvals(before: _State, after: _State) -> list[str]:
    asked = [approval for at, approval in after.items() if at not in before]
    told = [f"waits for approval{_what(approval)}" for approval in asked]
    return told + [f"approval decided{_what(before[at])}" for at in before if at not in after and not asked]


def _what(approval: _State) -> str:
    return f" of “{one_line(approval['what'], _NAME_MAX)}”" if approval["what"] else ""


def _effects(before: _State, after: _State) -> list[str]:
    told = [
        f"{effect_name(effect['kind'], effect['key'])} intended"
        for at, effect in after["open"].items()
        if at not in before["open"]
    ]
    for outcome in ("committed", "failed"):
        if after[outcome] == before[outcome]:
            continue
        closed = [effect for at, effect in before["open"].items() if at not in after["open"]]
        told += [f"{effect_name(effect['kind'], effect['key'])} {outcome}" for effect in closed] or [
            f"an effect {outcome}"
        ]
    return told


def _run(before: _State | None, after: _State | None) -> list[str]:
    if after is None or after == before:
        return []
    if after["ended"] is not None:
        reason = one_line(after["ended"]["reason"], _NAME_MAX)
        return [f"run {after['ended']['how']}{': ' if reason else ''}{reason}"]
    return [f"run {after['how']}"]
