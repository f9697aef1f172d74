"""What is known of an effect, from its facts in a session and all its branches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vault.clock import from_us
from vault.encoding import json_value
from vault.model import EventId, RunId, SessionId, format_id
from vault.policy.effects import COMMITTED, FAILED, INTENDED, RESOLVED, Counted
from vault.policy.lease import decode
from vault.sealing.payload import unseal
from vault.sessions.family import family
from vault.sessions.log import decode_event, epoch_keys
from vault.sessions.refs import events_about

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from vault.access.door import Grant
    from vault.model import Event
    from vault.ports.records import EventRow, Reader, SessionRow
    from vault.sealing.uses import EpochKeys
    from vault.sessions.log import Log

#: A committed effect counts over one in doubt, that over a failed one: in whichever branch it happened.
_WEIGHT: Final = {COMMITTED: 3, INTENDED: 2, FAILED: 1}
_WORDS: Final = {COMMITTED: "committed", INTENDED: "in doubt", FAILED: "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """The newest fact that counts about one effect, and where it stands."""

    session_id: bytes
    lease: bytes  # of that session
    keys: EpochKeys = field(repr=False)
    row: EventRow = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectState:
    """An effect as its facts tell it.

    ``state`` is ``committed``, ``failed`` or ``in doubt`` (intended, and nobody knows whether it happened);
    ``fact`` the id of the event that says so, in ``session_id``: this session or a branch of it.
    """

    kind: str = field(repr=False)
    key: str = field(repr=False)
    state: str
    fact: EventId
    session_id: SessionId
    run: RunId | None
    at: datetime
    confirmation: Any = field(default=None, repr=False)
    intent: Any = field(default=None, repr=False)
    reason: str | None = field(default=None, repr=False)
    resource: str | None = field(default=None, repr=False)
    subject: str | None = field(default=None, repr=False)


def newest_fact(log: Log, grant: Grant, reader: Reader, row: SessionRow, ref: bytes) -> Fact | None:
    """The fact that counts about an effect, among all branches of a session.

    Raises:
        Tampered: one of its facts was changed, moved, removed or forged.
    """
    best: Fact | None = None
    sessions = family(log, grant, reader, row)
    closed: set[str] = set()
    told: list[Fact] = []
    for session in sessions:
        keys = epoch_keys(log, grant, session.session_id, session.epoch)
        rows = events_about(reader, keys, session, ref)
        told += [
            Fact(session_id=session.session_id, lease=session.lease, keys=keys, row=fact) for fact in rows
        ]
    for fact in told:
        if fact.row.type != RESOLVED:
            closed.add(_cause(fact))  # a branch can close, or take over, what another one had intended
    for fact in _last_of_each(told):
        kind = fact.row.type
        if kind == INTENDED and format_id("evt", fact.row.event_id) in closed:
            continue
        if best is None or _WEIGHT[kind] > _WEIGHT[best.row.type]:
            best = fact
    return best


def counted(fact: Fact | None, row: SessionRow, run: str, now_us: int) -> Counted:
    """That fact as a writer to a session meets it; ``run`` is the writer's, in hexadecimal, or empty."""
    if fact is None:
        return Counted()
    holder = decode(fact.lease)
    is_its = fact.row.run_id is not None and holder.run == fact.row.run_id.hex()
    return Counted(
        fact.row.type,
        format_id("evt", fact.row.event_id),
        own=fact.session_id == row.session_id,
        active=is_its and holder.is_live(now_us) and holder.run != run,
    )


def effect_state(log: Log, grant: Grant, fact: Fact) -> EffectState:
    """A fact, opened.

    Raises:
        Tampered: its payload was changed or is missing.
    """
    event = decode_event(log, grant, fact.keys, fact.session_id, fact.row)
    return state_of(event)


def state_of(event: Event) -> EffectState:
    """What the event of a fact says about its effect."""
    said = event.payload if isinstance(event.payload, dict) else {}  # in a view of its structure
    return EffectState(
        kind=said.get("kind", ""),
        key=said.get("key", ""),
        state=_WORDS[event.type],
        fact=event.id,
        session_id=event.session_id,
        run=event.run,
        at=from_us(event.recorded_us),
        confirmation=said.get("confirmation"),
        intent=said.get("intent"),
        reason=said.get("reason"),
        resource=event.resource,
        subject=said.get("subject"),
    )


def _last_of_each(told: Iterable[Fact]) -> list[Fact]:
    """The newest fact of each session that counts: a resolution decides nothing by itself."""
    last: dict[bytes, Fact] = {}
    for fact in told:
        if fact.row.type != RESOLVED:
            last[fact.session_id] = fact
    return list(last.values())


def _cause(fact: Fact) -> str:
    if fact.row.meta is None:
        return ""
    meta = json_value(unseal(fact.keys.payload, fact.keys.context(b"meta"), fact.row.meta))
    return str(meta.get("caused_by", ""))
