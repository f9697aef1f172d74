"""The event vocabulary: a typed fact for every event type, open for the types of products.

A fact is what an event says, before it has a place in a log; ``parse`` gives the fact of a stored event. A
product adds a type by subclassing, and imports what it needs from here::

    class OrderPlaced(Fact):
        event_type = "order.placed"
        order: str
        lines: list[Json]

The fields of a class are its payload's; those of ``BESIDE``, which every fact has, ride beside the payload.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from vault.errors import InvalidInput
from vault.fact import (
    BESIDE,
    FACTS,
    OWN_PREFIXES,
    EventRef,
    Fact,
    Json,
    Name,
    Usage,
    checked_id,
    is_json,
)
from vault.model import EVENTS_MAX, Event

__all__ = [
    "BESIDE",
    "FACTS",
    "OWN_PREFIXES",
    "ApprovalDenied",
    "ApprovalGranted",
    "ApprovalRequested",
    "CheckpointCreated",
    "ConfigChanged",
    "ContextSummarized",
    "DecisionMade",
    "EffectCommitted",
    "EffectFailed",
    "EffectIntended",
    "EffectResolved",
    "EnvironmentSnapshot",
    "EventRetracted",
    "Fact",
    "Json",
    "MessageAssistant",
    "MessageSystem",
    "MessageUser",
    "ObservationRecorded",
    "RunFailed",
    "RunRetried",
    "RunStarted",
    "RunStopped",
    "RunWoken",
    "SessionRelabelled",
    "SessionRestarted",
    "StateChanged",
    "ToolFailed",
    "ToolRequested",
    "ToolReturned",
    "Usage",
    "parse",
]


def parse(event: Event) -> Fact | None:
    """The fact that an event of the log states, or None when what it says is free.

    None for a type without a class, a payload that does not fit the class, and a raw payload: products write
    what they like, so a log may hold it.
    """
    kind = FACTS.get(event.type)
    return None if kind is None else kind.from_event(event)


def _sha256(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise InvalidInput("it must be 64 hexadecimal digits in lower case")
    return value


_Content = Annotated[str | list[Any], is_json]
_Seq = Annotated[int, Field(ge=1, le=EVENTS_MAX)]


# ------------------------------------------------------------------------------------------ what was said


class _Message(Fact):
    model_config = ConfigDict(extra="allow")

    content: _Content
    name: str | None = None


class MessageUser(_Message):
    """A person, or whatever starts the talk, says something: a text, or parts as the framework has them."""

    event_type = "message.user"


class MessageAssistant(_Message):
    """The agent says something; its tool calls are events of their own."""

    event_type = "message.assistant"


class MessageSystem(_Message):
    """Instructions to the agent."""

    event_type = "message.system"


# ------------------------------------------------------------------------------------------ what was done


class ToolRequested(Fact):
    """A tool is called; the payload is the arguments themselves."""

    event_type = "tool.requested"
    _whole: ClassVar[str] = "arguments"

    tool: Name
    arguments: Json


class ToolReturned(Fact):
    """A tool answered; the payload is the result itself. ``caused_by`` is the request."""

    event_type = "tool.returned"
    _whole: ClassVar[str] = "result"

    tool: Name
    result: Json


class ToolFailed(Fact):
    """A tool gave an error instead of a result. ``caused_by`` is the request."""

    event_type = "tool.failed"

    tool: Name
    error: str
    kind: str | None = None


class DecisionMade(Fact):
    """What was decided, among which options."""

    event_type = "decision.made"

    decision: str
    why: str | None = None
    options: Annotated[list[Any], is_json] | None = None


class ApprovalRequested(Fact):
    """The agent asks leave: for what, of which object, from whom."""

    event_type = "approval.requested"

    what: str
    of: Json = None
    from_: str | None = Field(default=None, validation_alias="from", serialization_alias="from")


class _Approval(Fact):
    by: str | None = None
    why: str | None = None


class ApprovalGranted(_Approval):
    """Leave was given. ``caused_by`` is the request."""

    event_type = "approval.granted"


class ApprovalDenied(_Approval):
    """Leave was refused. ``caused_by`` is the request."""

    event_type = "approval.denied"


class StateChanged(Fact):
    """The agent, or the thing it works on, went from one named state to another."""

    event_type = "state.changed"

    from_: str | None = Field(default=None, validation_alias="from", serialization_alias="from")
    to: str


class ObservationRecorded(Fact):
    """What was seen of the world, ``observed_at`` then, ``valid_for`` so long, of a ``resource``."""

    event_type = "observation.recorded"

    what: str | None = None
    value: Json


class EnvironmentSnapshot(Fact):
    """The surroundings of a run: of the kind ``git``, ``files`` or another."""

    event_type = "environment.snapshot"

    kind: str
    value: Json


# ------------------------------------------------------------------------- what the vault itself goes by


class _Effect(Fact):
    kind: Name
    key: Name


class EffectIntended(_Effect):
    """A side effect is about to be tried, under its idempotency key."""

    event_type = "effect.intended"

    intent: Json
    subject: Name | None = None


class EffectCommitted(_Effect):
    """A side effect happened; the confirmation is the outside world's."""

    event_type = "effect.committed"

    confirmation: Json
    subject: Name | None = None


class EffectFailed(_Effect):
    """A side effect did not happen."""

    event_type = "effect.failed"

    reason: str


class EffectResolved(_Effect):
    """What to do about a side effect of which nobody knows whether it happened."""

    event_type = "effect.resolved"

    decision: Literal["retry", "commit", "fail", "ask"]
    by: str | None = None
    why: str | None = None


class CheckpointCreated(Fact):
    """A state to recover from: after event ``through``, made by ``reducer`` (``name@version``) or by hand.

    ``sha256`` is the hash of the state's canonical JSON.
    """

    event_type = "checkpoint.created"

    state: Json
    sha256: Annotated[str, AfterValidator(_sha256)]
    through: Annotated[int, Field(ge=0, le=EVENTS_MAX)]
    reducer: str = ""


class _Run(Fact):
    of: Annotated[str, checked_id("run")] | None = None
    config: str | None = None


class RunStarted(_Run):
    """A run begins, under a config version."""

    event_type = "run.started"


class RunWoken(_Run):
    """A run goes on where another one, ``of``, was left."""

    event_type = "run.woken"


class RunRetried(_Run):
    """A run does again what another one, ``of``, did not bring to its end."""

    event_type = "run.retried"


class RunStopped(Fact):
    """A run ended, and why."""

    event_type = "run.stopped"

    reason: str


class RunFailed(Fact):
    """A run ended by an error, given as the name of its class."""

    event_type = "run.failed"

    error: str
    message: str | None = None


class ContextSummarized(Fact):
    """In the context view, a summary stands for the events from ``first`` to ``last``, both included."""

    event_type = "context.summarized"

    summary: str
    first: EventRef
    last: EventRef
    first_seq: _Seq
    last_seq: _Seq

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.last_seq < self.first_seq:
            raise InvalidInput("last_seq of context.summarized must not be below first_seq; swap the two")
        return self


class ConfigChanged(Fact):
    """The session goes on under another config version."""

    event_type = "config.changed"

    config: str
    document: Annotated[dict[str, Any], is_json] | None = None


class SessionRestarted(Fact):
    """The talk goes on in a new session, ``into``."""

    event_type = "session.restarted"

    into: Annotated[str, checked_id("ses")] = Field(validation_alias="as", serialization_alias="as")


class SessionRelabelled(Fact):
    """Labels of this session were given and taken away; ``Session.relabel`` writes it."""

    event_type = "session.relabelled"

    labels: Annotated[dict[str, Any], is_json]
    removed: Annotated[list[Any], is_json]


class EventRetracted(Fact):
    """Payloads of this session were erased while it lives on; ``Session.retract`` writes it."""

    event_type = "event.retracted"

    events: Annotated[list[Any], is_json]
    epochs: Annotated[list[Any], is_json]
