"""What happened outside of a session: what it observed and when, and what other sessions did since."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from vault.errors import NotFound, Tampered
from vault.model import SessionId, check_name
from vault.policy.effects import COMMITTED
from vault.policy.freshness import TOOL_PREFIX, ForeignEffect, Observation, WorldGap, world_gap
from vault.ports.records import EventsQuery
from vault.sessions.family import GONE, family
from vault.sessions.log import NOTHING_RETRACTED, decode_event, opened_event
from vault.sessions.prepare import changed_by
from vault.sessions.read import retracted_of, rows_of, verified_view
from vault.sessions.refs import events_about

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vault.access.door import Grant
    from vault.model import Event
    from vault.sessions.log import Log
    from vault.sessions.read import View

#: Effects of other sessions that are told of one resource or subject; the newest come first.
FOREIGN_MAX: Final = 100
#: Effects on one resource or subject that are looked through for those: a session's own may be the newest.
_TOUCHED_MAX: Final = 1_000_000
#: Resources and subjects that one report looks at.
_TAGS_MAX: Final = 500


def newest_observation(
    log: Log, grant: Grant, session_id: bytes, resource: str
) -> tuple[Event | None, Observation | None]:
    """What a session, or what it was forked from, saw of a resource last; found by index.

    Raises:
        Tampered: an observation was changed, moved, removed or forged.
    """
    ref = grant.tenant.blind("resource", check_name(resource, "a resource"))
    with verified_view(log, grant, session_id) as found:
        for strand in (found, *found.older):
            rows = [
                row
                for row in events_about(strand.reader, strand.keys, strand.row, ref)
                if row.seq < strand.until
            ]
            for row in reversed(rows):
                gone = retracted_of(log, strand) if row.epoch else NOTHING_RETRACTED
                event = decode_event(log, grant, strand.keys, strand.row.session_id, row, gone)
                if event.observed_us is not None:
                    seen = Observation(
                        name=resource,
                        seq=event.seq,
                        observed_us=event.observed_us,
                        valid_for_us=event.valid_for_us,
                    )
                    return event, seen
        if found.gone:
            raise NotFound(GONE)
    return None, None


def overtaking(
    log: Log, grant: Grant, session_id: bytes, resource: str, observation: Observation | None
) -> ForeignEffect | None:
    """The newest effect of another session on a resource since it was observed; None without any."""
    if observation is None:
        return None
    tag = grant.tenant.blind("resource", resource)
    with verified_view(log, grant, session_id) as found:
        told = _foreign(log, grant, found, {tag: observation.observed_us - 1})
    return told[-1] if told else None


def gap_of(log: Log, grant: Grant, session_id: bytes, state: dict[str, Any]) -> WorldGap:
    """How the world moved on since a session was last used, from the vault's own state of it.

    Raises:
        Tampered: an effect that is told of was changed or forged.
    """
    observations = [
        Observation(name=name, seq=seq, observed_us=observed_us, valid_for_us=valid_us)
        for name, (seq, observed_us, valid_us) in state["observations"].items()
    ]
    now_us = log.clock.now_us()
    last_used_us = now_us if state["last_us"] is None else state["last_us"]
    since: dict[bytes, int] = {}
    with verified_view(log, grant, session_id) as found:
        for strand in (found, *found.older):
            for (tag,) in found.reader.scan("tags_of_session", session_no=strand.row.no, limit=_TAGS_MAX):
                since[tag] = last_used_us
        for seen in observations:
            if not seen.name.startswith(TOOL_PREFIX):
                tag = grant.tenant.blind("resource", seen.name)
                since[tag] = min(seen.observed_us - 1, since.get(tag, last_used_us))
        # Whoever is not the owner was given this session, not those that touched the same things.
        foreign = _foreign(log, grant, found, since) if grant.own else []
    return world_gap(
        now_us=now_us,
        last_used_us=last_used_us,
        observations=observations,
        foreign=foreign,
        thresholds=log.thresholds,
    )


def _foreign(log: Log, grant: Grant, found: View, since: dict[bytes, int]) -> list[ForeignEffect]:
    """Effects that other sessions of the owner committed on these tags, each verified, oldest first."""
    shared = {strand.row.session_id: strand.until for strand in found.older}
    places: dict[tuple[bytes, int], bytes] = {}
    for tag, since_us in since.items():
        where = {"tenant_id": grant.tenant.tenant_id, "owner": grant.owner}
        touched = found.reader.scan("touched_since", tag=tag, since_us=since_us, limit=_TOUCHED_MAX, **where)
        others = (
            (session_id, seq)
            for session_id, seq, _ in touched
            if session_id != found.row.session_id and _number(seq) >= shared.get(session_id, 0)
        )
        places |= dict.fromkeys(islice(others, FOREIGN_MAX), tag)
    if not places:
        return []
    branches = {row.session_id for row in family(log, grant, found.reader, found.row, whole=False)}
    events = [(_event_at(log, grant, *place, tag), place[0] in branches) for place, tag in places.items()]
    return sorted(_told(events), key=lambda effect: effect.committed_us)


def _told(events: Iterable[tuple[Event, bool]]) -> Iterable[ForeignEffect]:
    for event, branch in events:
        yield ForeignEffect(
            session_id=SessionId(event.session_id),
            kind=event.payload["kind"],
            key=event.payload["key"],
            resource=event.resource,
            subject=event.payload.get("subject"),
            committed_us=event.recorded_us,
            branch=branch,
        )


def _number(seq: object) -> int:
    if not isinstance(seq, int):
        raise Tampered("the index of effects holds a value of the wrong kind")
    return seq


def _event_at(log: Log, grant: Grant, session_id: bytes, seq: int, tag: bytes) -> Event:
    """The event that the index names under a tag; one that did not change this is tampering."""
    with verified_view(log, grant, session_id) as found:
        row = next(iter(rows_of(found, EventsQuery(found.row.no, seq - 1, seq + 1, 1))), None)
        if row is None or row.type != COMMITTED:
            raise Tampered("the index of effects names an event that is none")
        event = opened_event(log, found.keys, session_id, row)  # a view's names are not what was indexed
    if tag not in changed_by(grant.tenant, event):
        raise Tampered("the index of effects names an event that did not change this")
    return event
