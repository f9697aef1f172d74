"""Effects as a reader asks for them: all there are, one by its key, the last of a kind in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vault.errors import InvalidInput
from vault.model import check_name
from vault.policy.effects import COMMITTED, FAILED, INTENDED, subject_of
from vault.sessions.facts import effect_state, newest_fact, state_of
from vault.sessions.family import family
from vault.sessions.read import Part, read, shared_of, verified_view

if TYPE_CHECKING:
    from vault.access.door import Grant
    from vault.model import Event
    from vault.policy.effects import Subject
    from vault.sessions.facts import EffectState
    from vault.sessions.log import Log


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
            return state_of(event)
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
                told[subject] = state_of(event)
                if not grant.of(branch).own:
                    masked.add(subject)
    if not grant.own:  # a view can hide names, so nothing can be looked up by them
        return [state for subject, state in told.items() if kind in {None, subject.kind}]
    wanted = [subject for subject in told if kind in {None, subject.kind}]
    # What somebody else's part names can stand there under a mask: it is told as that part tells it.
    known = [
        find_effect(log, grant, session_id, *subject) or (told[subject] if subject in masked else None)
        for subject in wanted
    ]
    return sorted((state for state in known if state), key=lambda state: state.at)


def find_effect(log: Log, grant: Grant, session_id: bytes, kind: str, key: str) -> EffectState | None:
    """One effect by its kind and key, by index; None when it was never intended."""
    check_name(kind, "an effect's kind")
    ref = grant.tenant.blind("effect", kind, check_name(key, "an effect's key"))
    with verified_view(log, grant, session_id) as found:
        fact = newest_fact(log, grant, found.reader, found.row, ref)
    return None if fact is None else effect_state(log, grant, fact)


def _subject(event: Event) -> Subject | None:
    """What a fact is about; None for an event from before its type meant anything to the vault."""
    try:
        return subject_of(event.type, event.payload)
    except InvalidInput:
        return None
