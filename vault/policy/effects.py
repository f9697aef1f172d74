"""Side effects as facts: which may follow which, for one kind and key in a session and its branches."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from vault.errors import Busy, Conflict, InvalidInput
from vault.model import check_name

INTENDED: Final = "effect.intended"
COMMITTED: Final = "effect.committed"
FAILED: Final = "effect.failed"
RESOLVED: Final = "effect.resolved"
TYPES: Final = (INTENDED, COMMITTED, FAILED, RESOLVED)
DECISIONS: Final = ("retry", "commit", "fail", "ask")

#: What says of one intention that it is over; it may have been decided long after the intention was read.
_ENDING: Final = (FAILED, RESOLVED)

#: What each fact needs to find as the newest one that counts (a resolution decides nothing by itself).
_AFTER: Final = {
    INTENDED: (None, FAILED),
    COMMITTED: (INTENDED,),
    FAILED: (INTENDED,),
    RESOLVED: (INTENDED,),
}
_REFUSED: Final = {
    (INTENDED, INTENDED): "this effect is intended already and nobody knows whether it happened; resolve it",
    (INTENDED, COMMITTED): "this effect is committed already; use its stored result",
    (COMMITTED, None): "an effect is committed only after it was intended; call run.effect(...) first",
    (COMMITTED, COMMITTED): "this effect is committed already, and stays as it is",
    (COMMITTED, FAILED): "this effect has failed; intend it again before it is committed",
    (FAILED, None): "an effect fails only after it was intended; call run.effect(...) first",
    (FAILED, COMMITTED): "this effect is committed already; it cannot fail any more",
    (FAILED, FAILED): "this effect has failed already",
    (RESOLVED, None): "there is no such effect to resolve: it was never intended",
    (RESOLVED, COMMITTED): "this effect is not in doubt: it is committed",
    (RESOLVED, FAILED): "this effect is not in doubt: it has failed",
}


_UNSHOWN: Final = "a branch that is not shared with you stands against this; ask the session's owner about it"


class Subject(NamedTuple):
    """What an effect's facts are about."""

    kind: str
    key: str


def subject_of(event_type: str, payload: Any) -> Subject:
    """Kind and key of an effect's fact, its payload checked.

    Raises:
        InvalidInput: the payload is not what this fact says.
    """
    if not isinstance(payload, dict):
        raise InvalidInput(f"the payload of {event_type} is a dict with kind and key")
    kind, key = check_name(payload.get("kind", ""), "an effect's kind"), payload.get("key", "")
    if event_type == RESOLVED and payload.get("decision") not in DECISIONS:
        raise InvalidInput("the decision about an effect in doubt is retry, commit, fail or ask")
    return Subject(kind, check_name(key, "an effect's key"))


class Counted(NamedTuple):
    """The newest fact that counts about an effect, as whoever writes the next one meets it."""

    type: str | None = None
    event_id: str | None = None
    own: bool = True  # it stands in the writer's session, not in a branch of it
    active: bool = False  # it belongs to another run, which is active


def check_both(shown: Counted, whole: Counted, event_type: str, cause: str | None) -> None:
    """Whether a fact may follow what its writer is shown of an effect, and also all that there is.

    Raises:
        As ``check_next`` of what is shown.
        Conflict: something that the writer is not shown stands against it; that is all he learns.
    """
    check_next(shown, event_type, cause)
    if whole == shown:
        return
    try:
        check_next(whole, event_type, cause)
    except (Busy, Conflict):
        raise Conflict(_UNSHOWN) from None


def check_next(before: Counted, event_type: str, cause: str | None = None) -> None:
    """Whether a fact may follow the newest one that counts.

    A branch that settles an intention of another one takes it over first: it intends the same, and names that
    intention. So the log of each branch is whole by itself.

    Args:
        before: that one.
        event_type: the type of the fact that follows.
        cause: the intention that the fact names.

    Raises:
        Conflict: it may not; the sentence says why.
        Busy: it would end what another run is carrying out now.
    """
    taken_over = event_type == before.type == INTENDED and cause is not None and cause == before.event_id
    if before.type not in _AFTER[event_type] and not taken_over:
        raise Conflict(_REFUSED[event_type, before.type])
    if event_type not in _ENDING and not taken_over:
        return
    if before.active:
        raise Busy("a run of another branch is carrying out this effect now; wait for it to end, or stop it")
    # What was decided about one intention is no answer about a later one.
    if cause != before.event_id and not (cause is None and before.own):
        raise Conflict("what was decided is about another intention than the one in doubt now; look again")
