"""Effects as a reader asks for them: all there are, one by its key, the last of a kind in a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from vault.errors import Conflict, InvalidInput
from vault.model import check_name, format_id, session_bytes
from vault.policy.effects import COMMITTED, FAILED, INTENDED, subject_of
from vault.ports.records import EventsQuery
from vault.sessions.facts import effect_state, newest_facts, state_of
from vault.sessions.family import family
from vault.sessions.log import opened_event
from vault.sessions.read import Part, read, rows_of, shared_of, verified_view

if TYPE_CHECKING:
    from vault.access.door import Grant
    from vault.model import Event
    from vault.policy.effects import Subject
    from vault.sessions.facts import EffectState, Fact
    from vault.sessions.log import Log

_PAGE: Final = 200


def last_committed(log: Log, grant: Grant, session_id: bytes, run_id: bytes, kind: str) -> EffectState | None:
    """The effect of a kind that a run committed last."""
    with verified_view(log, grant, session_id) as found:
        part = Part(
            types=(COMMITTED,),
            run_id=run_id,
            high=found.row.head_seq + 1,
            newest_first=True,
            shared=shared_of(found),
        )
    for event in read(log, grant, session_id, part):
        subject = _subject(event)
        if subject is not None and subject.kind == kind:
            return replace(state_of(event), masked=not grant.of(session_bytes(event.session_id)).own)
    return None


def effect_states(
    log: Log, grant: Grant, session_id: bytes, kind: str | None, key: str | None
) -> list[EffectState]:
    """Each effect of a session and its branches as its newest fact tells it.

    Raises:
        InvalidInput: a key without its kind.
    """
    if key is not None:
        if kind is None:
            raise InvalidInput("an effect's key is looked up together with its kind; give both")
        one = find_effect(log, grant, session_id, kind, key)
        return [] if one is None else [one]
    with verified_view(log, grant, session_id) as found:
        # Whoever is not the owner was given this session, not its branches.
        branches = [session_id]
        if grant.own:
            branches = [row.session_id for row in family(log, grant, found.reader, found.row)]
    told: dict[Subject, EffectState] = {}
    masked: set[Subject] = set()
    for branch in branches:
        for event in read(log, grant, branch, Part(types=(INTENDED, COMMITTED, FAILED))):
            subject = _subject(event)
            if subject is not None:
                leave = grant.of(branch)
                told[subject] = replace(state_of(event), masked=not leave.own)
                if not leave.own:
                    masked.add(subject)
    if not grant.own and grant.level < "L3":  # a view hides names, so nothing can be looked up by them
        return [state for subject, state in told.items() if kind in {None, subject.kind}]
    wanted = [subject for subject in told if kind in {None, subject.kind}]
    # What somebody else's part names can stand there under a mask: it is told as that part tells it.
    known = [
        find_effect(log, grant, session_id, *subject) or (told[subject] if subject in masked else None)
        for subject in wanted
    ]
    return sorted((state for state in known if state), key=lambda state: state.at)


def find_effect(log: Log, grant: Grant, session_id: bytes, kind: str, key: str) -> EffectState | None:
    """One effect by its kind and key, by index; None when it was never intended where the grant shows it."""
    fact = _fact(log, grant, session_id, kind, key)
    return None if fact is None else effect_state(log, grant, fact)


def repeatable(
    log: Log, grant: Grant, session_id: bytes, known: EffectState, kind: str, key: str
) -> EffectState:
    """An effect as facts of a session may repeat it, for its owner: a view's values are never stored as real.

    In a session of the same owner the facts repeat what is stored; in another one, only what it is called.

    Raises:
        Conflict: something became of it meanwhile.
    """
    if not known.masked:
        return known
    if grant.own:
        said = replace(known, kind=kind, key=key, intent=None, confirmation=None, reason=None)
        return replace(said, resource=None, subject=None)
    fact = _fact(log, grant, session_id, kind, key)
    if fact is None or format_id("evt", fact.row.event_id) != known.fact:
        raise Conflict("something became of this effect meanwhile; look again")
    return state_of(opened_event(log, fact.keys, fact.session_id, fact.row))


def in_doubt_by_view(log: Log, grant: Grant, session_id: bytes) -> tuple[list[EffectState], int] | None:
    """The effects in doubt where not all of a session is the reader's own; None where all of it is.

    Those that the view shows whole, and how many there are besides: a view can hide their names, and what
    is told of them.
    """
    intended: dict[bytes, None] = {}
    with verified_view(log, grant, session_id) as found:
        strands = [found, *found.older]
        if all(grant.of(strand.row.session_id).own for strand in strands):
            return None
        for strand in strands:
            low = strand.row.base_seq
            while True:
                query = EventsQuery(strand.row.no, low, strand.until, _PAGE, INTENDED)
                rows = rows_of(strand, query) if strand.until - low > 1 else []
                intended.update(dict.fromkeys(row.ref for row in rows if row.ref is not None))
                if len(rows) < _PAGE:
                    break
                low = rows[-1].seq
        facts = [newest_facts(log, grant, found.reader, found.row, ref).shown for ref in intended]
    states = [effect_state(log, grant, fact) for fact in facts if fact is not None]
    doubtful = [state for state in states if state.state == "in doubt"]
    shown = [state for state in doubtful if not state.masked]
    return shown, len(doubtful) - len(shown)


def _fact(log: Log, grant: Grant, session_id: bytes, kind: str, key: str) -> Fact | None:
    check_name(kind, "an effect's kind")
    ref = grant.tenant.blind("effect", kind, check_name(key, "an effect's key"))
    with verified_view(log, grant, session_id) as found:
        return newest_facts(log, grant, found.reader, found.row, ref).shown


def _subject(event: Event) -> Subject | None:
    """What a fact is about; None for an event from before its type meant anything to the vault."""
    try:
        return subject_of(event.type, event.payload)
    except InvalidInput:
        return None
