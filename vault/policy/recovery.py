"""Recovery: a pure reducer folds the log into a state, and a rule says when a checkpoint of it is due."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from vault.encoding import canonical_json
from vault.errors import InvalidInput
from vault.model import Event
from vault.policy import state as vault_state

EVENTS_SINCE_MAX: Final = 1_000_000
SECONDS_SINCE_MAX: Final = 86_400

_NAME_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_REDUCER_NAME: Final = re.compile(f"{_NAME_PART}@{_NAME_PART}")


def _canonical(state: Any, what: str) -> bytes:
    try:
        return canonical_json(state)
    except InvalidInput:
        raise InvalidInput(f"{what} is not JSON; use dict, list, str, int, float, bool or None") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reducer:
    """How events become a state: a pure function, under a name that its checkpoints carry.

    Attributes:
        name: ``name@version``, each part of 1 to 64 letters, digits, dots, underscores or hyphens; the name
            ``vault`` is the vault's own. Give another version whenever ``apply`` changes: older checkpoints
            are then not taken for its own.
        initial: the state before the first event, as JSON.
        apply: from a state and the next event to a new state, as JSON. It leaves the given state as it is
            and gives the same for the same on every machine: no clock, no randomness, only its arguments.

    Raises:
        InvalidInput: the name has another form or is the vault's, or ``initial`` is not JSON.
    """

    name: str
    initial: Any = field(repr=False)
    apply: Callable[[Any, Event], Any] = field(repr=False)

    def __post_init__(self) -> None:
        """Check the name and the state once, at the edge."""
        if not isinstance(self.name, str) or not _REDUCER_NAME.fullmatch(self.name):
            raise InvalidInput("a reducer's name is name@version, for example sales@1")
        # Its checkpoints would be taken for those of DEFAULT.
        if self.name.startswith("vault@") and self.apply is not vault_state.apply:
            raise InvalidInput("the name vault is the vault's own; give the reducer another one")
        _canonical(self.initial, "the initial state of a reducer")


#: The vault's own reducer; its state is described in ``vault.policy.state``.
DEFAULT: Final = Reducer(name="vault@1", initial=vault_state.INITIAL, apply=vault_state.apply)


def fold(reducer: Reducer, state: Any, events: Iterable[Event], *, checked: bool = True) -> Any:
    """The state after the events, in the order given; folding them in parts gives the same.

    The result may share parts with ``state``: change neither. With ``checked``, every event is applied twice
    and three states are written as JSON, to find a reducer that is not pure. ``DEFAULT`` is pure by test and
    never checked; for one event at a time, its ``apply`` does without the check of the first state.

    Raises:
        InvalidInput: the state is not JSON, before or after, or ``DEFAULT`` was given another's; or
            (``checked``) the reducer gave two results for one event, or changed the state that it was
            given. The sentence names the seq of the event.
    """
    before = _canonical(state, "the state to start from")
    if reducer is DEFAULT:
        vault_state.check_state(state)
        for event in events:
            state = reducer.apply(state, event)
        return state
    if not checked:
        for event in events:
            state = reducer.apply(state, event)
        _canonical(state, "the state that the reducer made")
        return state
    for event in events:
        state, before = _checked(reducer, state, before, event)
    return state


def _checked(reducer: Reducer, state: Any, before: bytes, event: Event) -> tuple[Any, bytes]:
    """The next state and its canonical bytes, from a state whose bytes are known."""
    made = f"the state that the reducer made at seq {event.seq}"
    after = reducer.apply(state, event)
    # Written before the second application, which could change the first result through something kept.
    first = _canonical(after, made)
    second = _canonical(reducer.apply(state, event), made)
    if _canonical(state, f"the state that the reducer was given at seq {event.seq}") != before:
        raise InvalidInput(
            f"the reducer changed the state that it was given at seq {event.seq}; return a new one instead"
        )
    if first != second:
        raise InvalidInput(
            f"the reducer made two different states of the event at seq {event.seq}; "
            "let it depend on nothing but the state and the event"
        )
    return after, first


def state_hash(state: Any) -> str:
    """SHA-256 of the state's canonical JSON (sorted keys, no spaces, UTF-8), in hexadecimal.

    Raises:
        InvalidInput: the state is not JSON.
    """
    return hashlib.sha256(_canonical(state, "the state")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a checkpoint is due; whichever comes first (the defaults are those of requirement C1).

    Attributes:
        after_tool: when a tool has returned or failed.
        every_events: so many events after the last checkpoint, 1 to 1,000,000; None for never.
        every_seconds: so many seconds after it, 1 to 86,400; None for never.

    Raises:
        InvalidInput: something else.
    """

    after_tool: bool = True
    every_events: int | None = 50
    every_seconds: float | None = 300.0

    def __post_init__(self) -> None:
        """Check the numbers once, at the edge."""
        events, seconds = self.every_events, self.every_seconds
        if not isinstance(self.after_tool, bool):
            raise InvalidInput("after_tool is True or False")
        if events is not None and not (type(events) is int and 1 <= events <= EVENTS_SINCE_MAX):
            raise InvalidInput(f"every_events is an integer from 1 to {EVENTS_SINCE_MAX:,}, or None")
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        # NaN compares false with everything, so it is refused here too.
        if seconds is not None and not (is_number and 1 <= seconds <= SECONDS_SINCE_MAX):
            raise InvalidInput(f"every_seconds is a number from 1 to {SECONDS_SINCE_MAX:,}, or None")


def due(trigger: Trigger, *, event_type: str, events_since: int, seconds_since: float) -> str | None:
    """Why a checkpoint is due after an event, in words, or None when it is not.

    Args:
        trigger: when it is due.
        event_type: of the event just recorded; after a checkpoint none is due.
        events_since: events since the last checkpoint (or the session's start), that event included.
        seconds_since: seconds since then.
    """
    if events_since < 1 or event_type == "checkpoint.created":
        return None
    if trigger.after_tool and event_type in vault_state.ANSWERS:
        return "a tool completed"
    if trigger.every_events is not None and events_since >= trigger.every_events:
        return f"{events_since:,} events since the last checkpoint"
    if trigger.every_seconds is not None and seconds_since >= trigger.every_seconds:
        return f"{int(seconds_since):,} seconds since the last checkpoint"
    return None
