"""What is known of an effect, from its facts in a session and all its branches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vault.clock import from_us
from vault.encoding import json_value
from vault.model import EventId, RunId, SessionId, format_id
from vault.policy.effects import COMMITTED, FAILED, INTENDED, RESOLVED, Counted
from vault.policy.lease import decode
from vault.sealing.payload import unseal
from vault.sessions.family import family
from vault.sessions.log import decode_event, epoch_keys, opened_event
from vault.sessions.refs import events_about

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
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
    ``fact`` the id of the event that says so, in ``session_id``: this session or a branch of it. ``masked``:
    this is a view, in which something is hidden, so its values are not what was stored.
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
    masked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedConfirmation:
    """In the place of a confirmation that this principal sees a view of only: the effect happened.

    ``shown`` is what the view shows of it, never to be taken for what the world said; ``fact`` the id of the
    event that holds it. It is no JSON, so that it is not stored as a confirmation by accident.
    """

    shown: Any = field(repr=False)
    fact: EventId

    @property
    def masked(self) -> bool:
        """Always true."""
        return True


class Newest(NamedTuple):
    """The fact that counts about an effect: as far as the grant shows it, and among all branches."""

    shown: Fact | None
    all: Fact | None


def newest_facts(log: Log, grant: Grant, reader: Reader, row: SessionRow, ref: bytes) -> Newest:
    """The fact that counts about an effect, among a session and its branches.

    Somebody else than their owner is shown those of the session, and what it shares of others. What is in
    other branches still counts when something is written, so that nothing happens twice.

    Raises:
        Tampered: one of its facts was changed, moved, removed or forged.
    """
    sessions = family(log, grant, reader, row)
    told: list[Fact] = []
    for session in sessions:
        keys = epoch_keys(log, grant, session.session_id, session.epoch)
        rows = events_about(reader, keys, session, ref)
        told += [
            Fact(session_id=session.session_id, lease=session.lease, keys=keys, row=fact) for fact in rows
        ]
    until = _shown_until(grant, row, sessions)
    shown = [fact for fact in told if fact.row.seq <= until.get(fact.session_id, 0)]
    best = _newest(told)
    return Newest(best if len(shown) == len(told) else _newest(shown), best)


def _shown_until(grant: Grant, row: SessionRow, sessions: Sequence[SessionRow]) -> dict[bytes, int]:
    """Through which event each session's log is shown: of others' branches nothing, of a part its part."""
    until = {one.session_id: one.head_seq for one in sessions if grant.of(one.session_id).own}
    by_id = {one.session_id: one for one in sessions}
    here, through = row, row.head_seq
    while True:
        until.setdefault(here.session_id, through)
        base = None if here.forked_from is None else by_id.get(here.forked_from)
        if base is None:
            return until
        # What somebody was given by itself is shown whole; what comes with a fork of it, up to there.
        is_part = grant.is_part(base.session_id)
        here, through = base, min(through, here.base_seq) if is_part else base.head_seq


def _newest(told: Sequence[Fact]) -> Fact | None:
    best: Fact | None = None
    closed: set[str] = set()
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


def counted(newest: Newest, row: SessionRow, run: str, now_us: int) -> tuple[Counted, Counted]:
    """Those facts as a writer to a session meets them; ``run`` is the writer's, in hexadecimal, or empty."""
    return _counted(newest.shown, row, run, now_us), _counted(newest.all, row, run, now_us)


def _counted(fact: Fact | None, row: SessionRow, run: str, now_us: int) -> Counted:
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
    """A fact, opened, as the grant shows it.

    Raises:
        Tampered: its payload was changed or is missing.
    """
    event = decode_event(log, grant, fact.keys, fact.session_id, fact.row)
    if grant.of(fact.session_id).own:
        return state_of(event)
    stored = opened_event(log, fact.keys, fact.session_id, fact.row)
    hides = (event.payload, event.resource) != (stored.payload, stored.resource)
    return replace(state_of(event), masked=hides)


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
