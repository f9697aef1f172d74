"""What of a retention policy something enforces: the rest is refused, or said.

A rule that would erase otherwise than it says is refused. One that only erases nothing yet may stand in a
document, and whoever activates it is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vault.policy.rules import Policy, Rule

#: What is made from sessions: no date from outside is set for it.
_UNDATED: Final = frozenset({"memory", "summary", "artifact", "embedding", "cache"})
#: Kinds of which nothing is erased by its own period yet, and what is so instead.
_LATER: Final = {
    "export": "what was exported has left the vault, so nothing of it is erased",
    "structure": "no log without content is kept yet: structure goes with its session",
    "proof": "the audit trail and receipts are kept without an end",
}


def refusal(policy: Policy) -> str | None:
    """Why a policy cannot come into force: what nothing enforces yet, of the first rule that says it.

    Rules are counted from 1.
    """
    for number, rule in enumerate(policy.rules, 1):
        for why in _refused(rule):
            return f"rule {number} cannot come into force: {why}"
    return None


def _refused(rule: Rule) -> Iterator[str]:
    if "event" in rule.kinds:
        yield from _refused_for_events(rule)
    elif rule.on_expire == "redact:L0":
        yield 'nothing is reduced to its structure yet; write on_expire = "erase" or "review"'
    if rule.anchor == "labelled" and not rule.labels:
        yield "it counts from when labels came, and names none; write them into match.labels"
    if rule.anchor == "external" and not _UNDATED.isdisjoint(rule.kinds):
        yield (
            "a date from outside is set for sessions, and what is made from them goes with them; write a "
            'rule of their own for sessions, and anchor = "created" for what is made from them'
        )


def _refused_for_events(rule: Rule) -> Iterator[str]:
    """Single events are sealed under the hour in which they expire, settled when they are written."""
    if rule.kinds != ("event",):
        yield 'events are erased otherwise than the rest; write a rule of their own, match.kind = ["event"]'
    if rule.anchor != "created":
        yield 'an event expires some time after it was written; write anchor = "created"'
    if rule.keep_min.duration is not None:
        yield "a minimum keeps the whole session; write keep_min in the rule of the sessions"
    if rule.grace is not None:
        yield 'an event that expired cannot be restored; write grace = "0d"'
    if rule.on_expire == "review":
        yield 'nobody is asked about single events; write on_expire = "redact:L0"'
    if rule.applies_to != "new":
        yield 'what is stored keeps the hour it was sealed under; write applies_to = "new"'


def not_enforced(policy: Policy, *, redaction: bool = False) -> tuple[str, ...]:
    """What may stand in a policy and has no effect yet, one sentence each.

    Args:
        policy: the policy, which ``refusal`` lets pass.
        redaction: whether its document has field rules too.
    """
    said = [
        f'rule {number} is not enforced for the kind "{kind}": {_LATER[kind]}'
        for number, rule in enumerate(policy.rules, 1)
        for kind in rule.kinds
        if kind in _LATER
    ]
    said += [
        f'derived is not enforced for the kind "export" (rule {number}): {_LATER["export"]}'
        for number, rule in enumerate(policy.rules, 1)
        if "export" in rule.derived
    ]
    if redaction:
        said.append("field rules ([[redaction]]) are not enforced: views go by the vault's own")
    return tuple(said)
