"""Facts come back from the log as they were, and refuse in one sentence that quotes nothing."""

import enum
import hashlib
import math
import os
import re
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from rich.pretty import pretty_repr

from vault import fact as fact_module
from vault import vocabulary
from vault.clock import to_us
from vault.encoding import canonical_json, json_bytes, json_value
from vault.errors import InvalidInput
from vault.model import EVENTS_MAX, Event, NewEvent, new_event_id, new_run_id
from vault.vocabulary import (
    BESIDE,
    FACTS,
    ApprovalRequested,
    CheckpointCreated,
    ConfigChanged,
    ContextSummarized,
    DecisionMade,
    EffectCommitted,
    EffectIntended,
    EffectResolved,
    Fact,
    Json,
    MessageUser,
    ObservationRecorded,
    RunStarted,
    SessionRestarted,
    StateChanged,
    ToolFailed,
    ToolRequested,
    ToolReturned,
    Usage,
    parse,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
SHIPPED = dict(FACTS)
CANARY = "Zanzibar-4711"
EVENT = "evt_01890a5d-ac96-774b-bcce-b302099a8057"
SESSION = EVENT.replace("evt", "ses")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _classes_of_its_own():
    """What a test declares is gone after it."""
    known = dict(FACTS)
    yield
    fact_module._classes.clear()
    fact_module._classes.update(known)


def stored(new: NewEvent) -> Event:
    """The event as a reader of the log gets it: through JSON and microseconds."""
    moments = {"observed": new.observed_at, "occurred": new.occurred_at}
    times = {f"{name}_us": None if at is None else to_us(at) for name, at in moments.items()}
    return event(
        new.type,
        json_value(json_bytes(new.payload)),
        tool=new.tool,
        caused_by=new.caused_by,
        usage=None if new.usage is None else json_value(canonical_json(new.usage)),
        resource=new.resource,
        valid_for_us=None if new.valid_for is None else new.valid_for // timedelta(microseconds=1),
        **times,
    )


def event(event_type, payload, **about) -> Event:
    fields = {
        "id": EVENT,
        "session_id": SESSION,
        "seq": 7,
        "type": event_type,
        "recorded_us": 1,
        "run": None,
        "tool": None,
        "caused_by": None,
        "observed_us": None,
        "occurred_us": None,
        "usage": None,
        "level": "L3",
        "payload": payload,
        "raw": None,
        "payload_ref": "blob://sha256/00",
        "size": 64,
        "streamed": False,
    }
    return Event(**{**fields, **about})


def back(fact: Fact) -> Fact | None:
    return parse(stored(fact.as_event()))


# ---------------------------------------------------------------------------------------- there and back

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
ID = st.uuids().map(str)
SEQ = st.integers(1, EVENTS_MAX)
COUNT = st.integers(0, 2**64 - 1)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
# Zones with odd offsets, and the hour that a summer time repeats, are among them.
MOMENT = st.datetimes(
    min_value=datetime.fromisoformat("0001-01-03"),
    max_value=datetime.fromisoformat("9999-12-29"),
    timezones=st.timezones() | st.just(UTC),
)
USAGE = {
    **dict.fromkeys(("model", "stop_reason"), TEXT),
    **dict.fromkeys(
        ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "max_tokens"), COUNT
    ),
    **dict.fromkeys(("temperature", "top_p", "cost"), NUMBER),
    "latency_ms": st.floats(0, allow_infinity=False),
    "seed": st.integers(-(2**63), 2**64 - 1),
}
ABOUT = {
    "tool": NAME,
    "caused_by": ID.map("evt_{}".format),
    "occurred_at": MOMENT,
    "resource": NAME,
    "usage": st.fixed_dictionaries({}, optional={**USAGE, "service_tier": JSON}),
}
FIELDS = {
    "content": TEXT | st.lists(JSON, max_size=3),
    **dict.fromkeys(
        ("arguments", "result", "intent", "confirmation", "state", "value", "approval.requested of"), JSON
    ),
    **dict.fromkeys(("kind", "key", "subject"), NAME),
    **dict.fromkeys(("first", "last"), ABOUT["caused_by"]),
    **dict.fromkeys(
        ("options", "event.retracted events", "event.retracted epochs", "session.relabelled removed"),
        st.lists(JSON, max_size=3),
    ),
    **dict.fromkeys(("document", "session.relabelled labels"), st.dictionaries(TEXT, JSON, max_size=3)),
    "effect.resolved decision": st.sampled_from(["retry", "commit", "fail", "ask"]),
    "of": ID.map("run_{}".format),
    "into": ID.map("ses_{}".format),
    "sha256": st.binary(max_size=8).map(lambda content: hashlib.sha256(content).hexdigest()),
    "through": st.just(0) | SEQ,
    "first_seq": SEQ,
    "last_seq": st.just(EVENTS_MAX),
}


@st.composite
def facts(draw) -> Fact:
    """Any fact of the shipped vocabulary, with any of its fields."""
    kind = draw(st.sampled_from(list(SHIPPED.values())))
    strategies = {
        name: FIELDS.get(f"{kind.event_type} {name}", FIELDS.get(name, ABOUT.get(name, TEXT)))
        for name in kind.model_fields.keys() - {"observed_at", "valid_for"}
    }
    required = {name for name, field in kind.model_fields.items() if field.is_required()}
    fields = draw(
        st.fixed_dictionaries(
            {name: strategies[name] for name in required},
            optional={name: strategy for name, strategy in strategies.items() if name not in required},
        )
    )
    if kind.model_config["extra"] == "allow":
        own = TEXT.filter(lambda name: name not in kind.model_fields)
        fields |= draw(st.dictionaries(own, JSON, max_size=3))
    if draw(st.booleans()):
        fields["observed_at"] = draw(MOMENT)
        microseconds = draw(st.none() | st.integers(1, 2**53 - 1))
        fields["valid_for"] = None if microseconds is None else timedelta(microseconds=microseconds)
    return kind(**fields)


def kinds(value):
    """The value with every number told apart from its equals: 1, 1.0 and True."""
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [kinds(item) for item in value]
    return type(value).__name__, repr(value)


@given(facts())
def test_every_fact_comes_back_from_the_log_as_it_was(fact):
    """L5"""
    again = back(fact)
    assert type(again) is type(fact)
    assert again == fact
    assert kinds(again.payload()) == kinds(json_value(json_bytes(fact.payload())))
    assert again.as_event() == fact.as_event()


@given(facts())
def test_nothing_that_rides_beside_is_part_of_a_payload(fact):
    """L5"""
    if fact._whole:
        assert fact.payload() == getattr(fact, fact._whole)
    else:
        assert not fact.payload().keys() & set(BESIDE)


@given(facts(), st.sampled_from(sorted(SHIPPED)), JSON, st.dictionaries(TEXT, JSON, max_size=3))
def test_parse_never_refuses_what_a_log_may_hold(fact, event_type, payload, usage):
    """L5"""
    for given_type, given_payload in [(event_type, payload), (event_type, fact.payload())]:
        for about in ({}, {"usage": usage}, {"usage": usage, "tool": "t", "observed_us": 1}):
            found = parse(event(given_type, given_payload, **about))
            assert found is None or found.event_type == given_type


class Colour(enum.StrEnum):
    RED = "red"


class Line(BaseModel):
    item: str
    price: Decimal


def order_class() -> type[Fact]:
    class OrderPlaced(Fact):
        event_type = "order.placed"
        order: UUID
        colour: Colour
        lines: list[Line]
        placed_at: datetime
        due: date | None = None
        note: str | None = "none"
        wait: timedelta = timedelta(hours=1)
        payload_: Json = Field(default=None, alias="payload")

    return OrderPlaced


@pytest.mark.parametrize(
    "about", [{}, {"tool": "shop", "observed_at": NOON, "valid_for": timedelta.resolution}]
)
@given(
    order=st.uuids(),
    price=st.decimals(allow_nan=False, allow_infinity=False),
    placed_at=MOMENT.map(lambda moment: moment.astimezone(UTC)),
    due=st.none() | st.dates(),
    note=st.none() | TEXT,
    free=JSON,
    usage=st.just({}) | ABOUT["usage"],
)
def test_a_products_own_type_comes_back_with_its_own_kinds_of_values(  # noqa: PLR0917 - one per kind
    about, order, price, placed_at, due, note, free, usage
):
    """L5"""
    fact = order_class()(
        order=order,
        colour=Colour.RED,
        lines=[Line(item="bolt", price=price)],
        placed_at=placed_at,
        due=due,
        note=note,
        payload_=free,
        usage=usage,
        **about,
    )
    assert fact.payload()["order"] == str(order)
    assert back(fact) == fact


# ------------------------------------------------------------------------------------ what is written


def test_a_tool_call_has_its_arguments_as_payload_and_its_tool_beside_it():
    """L5, L6"""
    usage = Usage(model="m", input_tokens=3, service_tier=None)
    run, event_id = new_run_id(), new_event_id()
    new = ToolRequested(tool="crm", arguments=[1], caused_by=EVENT, usage=usage).as_event(
        run=run, event_id=event_id, level="L1"
    )
    assert new == NewEvent(
        type="tool.requested",
        payload=[1],
        event_id=event_id,
        run=run,
        tool="crm",
        caused_by=EVENT,
        usage={"model": "m", "input_tokens": 3, "service_tier": None},
        level="L1",
    )
    assert type(new.usage) is dict


@pytest.mark.parametrize(
    ("fact", "payload"),
    [
        pytest.param(MessageUser(content="a"), {"content": "a"}, id="optional-left-out"),
        pytest.param(
            MessageUser(content="a", name=None, role="user", x=None),
            {"content": "a", "role": "user", "x": None},
            id="further-fields",
        ),
        pytest.param(StateChanged(from_="a", to="b"), {"from": "a", "to": "b"}, id="alias"),
        pytest.param(StateChanged(**{"from": "a", "to": "b"}), {"from": "a", "to": "b"}, id="by-alias"),
        pytest.param(SessionRestarted(into=SESSION), {"as": SESSION}, id="as"),
        pytest.param(ObservationRecorded(value=None), {"value": None}, id="null-is-a-value"),
        pytest.param(
            EffectCommitted(kind="k", key="1", confirmation=None, subject="alice", resource="crm/1"),
            {"kind": "k", "key": "1", "confirmation": None, "subject": "alice"},
            id="effect",
        ),
        pytest.param(
            CheckpointCreated(state=[], sha256="0" * 64, through=0),
            {"state": [], "sha256": "0" * 64, "through": 0, "reducer": ""},
            id="default-is-written",
        ),
        pytest.param(RunStarted(), {}, id="empty"),
        pytest.param(ToolReturned(tool="t", result=None), None, id="null-result"),
    ],
)
def test_a_payload_is_what_the_vocabulary_says(fact, payload):
    """L5"""
    assert fact.payload() == payload
    assert back(fact) == fact


def test_times_are_kept_in_utc_to_the_microsecond():
    east = timezone(timedelta(hours=5, minutes=45))
    fact = ToolReturned(tool="t", result=1, observed_at=NOON.astimezone(east), occurred_at=NOON)
    assert fact.observed_at == NOON
    assert fact.observed_at.tzinfo is UTC
    assert back(fact) == fact


def test_a_deep_value_is_stored_as_deep_as_the_log_allows():
    """Invariant 12"""
    value = []
    for _ in range(252):
        value = [value]
    for fact in (ObservationRecorded(value=value), ToolReturned(tool="t", result=value)):
        assert back(fact) == fact
    with pytest.raises(InvalidInput, match="254"):
        ObservationRecorded(value=[value])


def test_a_fact_cannot_be_changed_and_shows_nothing_of_what_it_holds():
    """Invariant 13"""
    fact = MessageUser(content=CANARY, extra=CANARY, tool=CANARY, usage={"model": CANARY})
    with pytest.raises(ValidationError):
        fact.content = "other"
    for shown in (repr(fact), str(fact), f"{fact}", pretty_repr(fact), repr(fact.usage), str(fact.usage)):
        assert CANARY not in shown
        assert "MessageUser" in shown or "Usage" in shown


# ------------------------------------------------------------------------------------------ refusals

TOOL = {"tool": "t", "arguments": {}}
CHECKPOINT = {"state": 1, "sha256": "0" * 64, "through": 1}
SUMMARY = {"summary": "s", "first": EVENT, "last": EVENT, "first_seq": 2, "last_seq": 1}
REFUSED = {
    "missing": (MessageUser, {"name": CANARY}, "content of message.user is missing; give a string or a list"),
    "wrong-type": (
        MessageUser,
        {"content": CANARY.encode()},
        "content of message.user must be a string or a list",
    ),
    "tuple": (
        DecisionMade,
        {"decision": "d", "options": (CANARY,)},
        "options of decision.made must be a list",
    ),
    "surrogate": (
        MessageUser,
        {"content": CANARY + "\ud800"},
        "content of message.user: a string holds a lone",
    ),
    "surrogate-in-a-name": (
        MessageUser,
        {"content": "", CANARY + "\ud800": 1},
        "a field of message.user holds",
    ),
    "surrogate-in-a-text": (
        ToolFailed,
        {"tool": "t", "error": CANARY + "\udfff"},
        "error of tool.failed: a string",
    ),
    "further-field": (
        ToolFailed,
        {"tool": "t", "error": "e", CANARY: 1},
        "a further field of tool.failed is not",
    ),
    "further-value": (
        MessageUser,
        {"content": "", CANARY: {CANARY}},
        "a further field of message.user: a value",
    ),
    "no-tool": (ToolRequested, {"arguments": CANARY}, "tool of tool.requested is missing; give a string"),
    "no-arguments": (
        ToolRequested,
        {"tool": CANARY},
        "arguments of tool.requested is missing; give a JSON value",
    ),
    "empty-tool": (
        ToolRequested,
        {**TOOL, "tool": ""},
        "tool of tool.requested: it must be a string of 1 to 256",
    ),
    "long-tool": (
        ToolRequested,
        {**TOOL, "tool": CANARY * 99},
        "tool of tool.requested: it must be a string of 1",
    ),
    "nan": (ToolRequested, {**TOOL, "arguments": {CANARY: math.nan}}, "arguments of tool.requested: NaN and"),
    "nested-tuple": (
        ConfigChanged,
        {"config": "c", "document": {CANARY: ()}},
        "document of config.changed: a value",
    ),
    "no-dict": (
        ConfigChanged,
        {"config": "c", "document": CANARY},
        "document of config.changed must be a dict",
    ),
    "cause": (
        ToolRequested,
        {**TOOL, "caused_by": CANARY},
        "caused_by of tool.requested: it must be evt_ followed",
    ),
    "run-id": (RunStarted, {"of": EVENT}, "of of run.started: it must be run_ followed by a UUID"),
    "session-id": (SessionRestarted, {"into": CANARY}, "into of session.restarted: it must be ses_ followed"),
    "no-session-id": (SessionRestarted, {}, "into of session.restarted is missing; give a string"),
    "naive": (
        ToolRequested,
        {**TOOL, "observed_at": NOON.replace(tzinfo=None)},
        "observed_at of tool.requested: a",
    ),
    "time-as-text": (
        ToolRequested,
        {**TOOL, "occurred_at": CANARY},
        "occurred_at of tool.requested must be a datetime",
    ),
    "time-without": (
        ToolRequested,
        {**TOOL, "valid_for": timedelta(1)},
        "valid_for of tool.requested counts from",
    ),
    "no-time": (
        ToolRequested,
        {**TOOL, "observed_at": NOON, "valid_for": timedelta(0)},
        "valid_for of tool.requested: it",
    ),
    "endless": (
        ToolRequested,
        {**TOOL, "observed_at": NOON, "valid_for": timedelta.max},
        "valid_for of tool.requested: it",
    ),
    "seconds": (
        ToolRequested,
        {**TOOL, "valid_for": 4711},
        "valid_for of tool.requested must be a timedelta",
    ),
    "usage": (ToolRequested, {**TOOL, "usage": [CANARY]}, "usage of tool.requested: it must be a Usage"),
    "usage-names": (
        ToolRequested,
        {**TOOL, "usage": {4711: 1}},
        "usage of tool.requested: it must be a Usage",
    ),
    "tokens": (
        ToolRequested,
        {**TOOL, "usage": {"input_tokens": CANARY}},
        "usage of tool.requested: input_tokens of usage must be an integer",
    ),
    "negative": (
        Usage,
        {"output_tokens": -4711},
        "output_tokens of usage should be greater than or equal to 0",
    ),
    "too-large": (Usage, {"seed": 2**64}, "seed of usage: an integer is beyond 64 bits"),
    "infinite": (Usage, {"cost": math.inf}, "cost of usage should be a finite number"),
    "number": (Usage, {"temperature": CANARY}, "temperature of usage must be a number"),
    "further-usage": (Usage, {CANARY: (1,)}, "a further field of usage: a value"),
    "choice": (
        EffectResolved,
        {"kind": "k", "key": "1", "decision": CANARY},
        "decision of effect.resolved should be 'retry', 'commit', 'fail' or 'ask'",
    ),
    "no-choice": (
        EffectResolved,
        {"kind": "k", "key": "1"},
        "decision of effect.resolved is missing; give retry or commit or fail or ask",
    ),
    "no-key": (
        EffectIntended,
        {"kind": CANARY, "key": "", "intent": 1},
        "key of effect.intended: it must be",
    ),
    "hash": (
        CheckpointCreated,
        {**CHECKPOINT, "sha256": CANARY},
        "sha256 of checkpoint.created: it must be 64",
    ),
    "bool": (
        CheckpointCreated,
        {**CHECKPOINT, "through": True},
        "through of checkpoint.created must be an integer",
    ),
    "order": (ContextSummarized, SUMMARY, "last_seq of context.summarized must not be below first_seq"),
    "alias": (
        ApprovalRequested,
        {"what": "w", "from_": 4711},
        "from_ of approval.requested must be a string",
    ),
    "by-alias": (
        ApprovalRequested,
        {"what": "w", "from": 4711},
        "from_ of approval.requested must be a string",
    ),
}


@pytest.mark.parametrize(
    ("kind", "fields", "sentence"), [pytest.param(*case, id=name) for name, case in REFUSED.items()]
)
def test_what_does_not_fit_is_refused_in_one_sentence_that_names_the_field_only(kind, fields, sentence):
    """Invariant 13"""
    with pytest.raises(InvalidInput) as refusal:
        kind(**fields)
    message = str(refusal.value)
    assert message.startswith(sentence)
    assert CANARY not in message
    assert "4711" not in message
    assert "\n" not in message
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__


def test_values_of_a_products_own_class_stay_out_of_its_refusals():
    """Invariant 13"""

    class Parcel(Fact):
        event_type = "parcel.sent"
        number: UUID | None = None
        line: Line | None = None
        weight: float = Field(default=1.0, gt=0)
        free: object = None
        count: int = 0
        way: Literal["air", "sea"] = "air"

        @field_validator("way")
        @classmethod
        def _check(cls, way: str) -> str:
            if way == "sea":
                raise ValueError(CANARY)
            return way

    for fields, sentence in [
        ({"number": CANARY}, "number of parcel.sent must be a UUID"),
        ({"line": {"item": CANARY}}, "line of parcel.sent must be a Line"),
        ({"weight": -4711.0}, "weight of parcel.sent should be greater than 0"),
        ({"way": "sea"}, "way of parcel.sent is refused by a check of its class; give what that asks for"),
        ({"free": lambda: CANARY}, "a field of parcel.sent cannot be written as JSON; declare it as Json"),
        ({"count": 2**64}, "count of parcel.sent: an integer is beyond 64 bits; write it as a string"),
    ]:
        with pytest.raises(InvalidInput) as refusal:
            Parcel(**fields)
        assert str(refusal.value) == sentence


def test_what_is_wrong_with_a_mapping_is_not_told_with_its_values():
    """Invariant 13"""
    with pytest.raises(ValidationError) as refusal:
        MessageUser.model_validate({"content": {CANARY: 1}})
    assert CANARY not in str(refusal.value)


# ------------------------------------------------------------------------------------------- own classes


def test_a_products_class_is_in_the_registry_from_then_on():
    """L5"""
    assert "order.placed" not in FACTS
    kind = order_class()
    assert FACTS["order.placed"] is kind
    with pytest.raises(TypeError):
        FACTS["order.placed"] = MessageUser  # type: ignore[index]


def test_a_product_can_type_the_arguments_of_its_tools():
    """L5"""

    class Arguments(BaseModel):
        sql: str

    class QueryRequested(ToolRequested):
        event_type = "tool.requested"
        arguments: Arguments

    fact = QueryRequested(tool="warehouse", arguments=Arguments(sql="select 1"))
    assert fact.payload() == {"sql": "select 1"}
    assert back(fact) == fact
    assert parse(event("tool.requested", {"other": 1}, tool="warehouse")) is None


@pytest.mark.parametrize("event_type", sorted(SHIPPED))
def test_only_a_type_that_the_vault_goes_by_keeps_its_class(event_type):
    own = event_type.startswith(("effect.", "checkpoint.", "run.", "context.", "config."))
    if own:
        with pytest.raises(InvalidInput, match="the vault's own"):
            type("Mine", (Fact,), {"event_type": event_type})
        with pytest.raises(InvalidInput, match="the vault's own"):
            type("Mine", (SHIPPED[event_type],), {})
        assert FACTS[event_type] is SHIPPED[event_type]
    else:
        mine = type("Mine", (Fact,), {"event_type": event_type})
        assert FACTS[event_type] is mine


def test_a_new_type_under_a_prefix_of_the_vault_is_free():
    kind = type("Paused", (Fact,), {"event_type": "run.paused"})
    assert FACTS["run.paused"] is kind


@pytest.mark.parametrize("event_type", ["order", "", "Order.placed", "a." + "b" * 63, 4711, None])
def test_a_malformed_type_is_refused_when_its_class_is_made(event_type):
    with pytest.raises(InvalidInput, match="an event type is two or more parts"):
        type("Mine", (Fact,), {"event_type": event_type})
    assert dict(FACTS) == SHIPPED


def test_a_class_without_a_type_gives_fields_to_others_and_makes_no_fact():
    class OfOrder(Fact):
        order: str

    class OrderPaid(OfOrder):
        event_type = "order.paid"

    assert back(OrderPaid(order="1")) == OrderPaid(order="1")
    for kind in (Fact, OfOrder):
        with pytest.raises(InvalidInput, match="no event_type"):
            kind(**({"order": "1"} if kind is OfOrder else {}))


@pytest.mark.parametrize(
    ("annotations", "values", "sentence"),
    [
        pytest.param(
            {"event_type": str}, {"event_type": "a.b"}, "a name that every fact uses", id="type-as-field"
        ),
        pytest.param(
            {"x": int}, {"x": Field(alias="tool")}, "a name that every fact uses", id="alias-beside"
        ),
        pytest.param({"x": int}, {"x": Field(validation_alias="y")}, "one name", id="reads-another-name"),
        pytest.param({"x": int}, {"x": Field(serialization_alias="y")}, "one name", id="writes-another-name"),
    ],
)
def test_a_field_that_could_not_come_back_is_refused_when_its_class_is_made(annotations, values, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        type("Mine", (Fact,), {"__annotations__": annotations, "event_type": "a.b", **values})
    assert "a.b" not in FACTS


@pytest.mark.filterwarnings("ignore:Field name:UserWarning")
@pytest.mark.parametrize("name", ["payload", "as_event", "from_event"])
def test_a_field_cannot_hide_a_method_of_facts(name):
    with pytest.raises(InvalidInput, match="a name that every fact uses"):
        type("Mine", (Fact,), {"__annotations__": {name: str}, "event_type": "a.b"})


def test_what_would_be_lost_beside_a_whole_payload_is_refused():
    with pytest.raises(InvalidInput, match="arguments is the payload of this class as a whole"):
        type("Mine", (ToolRequested,), {"__annotations__": {"more": int}, "more": 1})


def test_further_fields_are_a_products_choice():
    kind = type("Mine", (Fact,), {"event_type": "a.b", "model_config": ConfigDict(extra="allow")})
    fact = kind(self=1, from_event=[2], self_={"a": None})
    assert fact.payload() == {"self": 1, "from_event": [2], "self_": {"a": None}}
    assert back(fact) == fact
    with pytest.raises(InvalidInput, match=r"a further field of a\.b"):
        kind(x=(1, 2))


# ------------------------------------------------------------------------------------------ free payloads

FREE = {
    "unknown-type": event("order.note", {"content": "a"}),
    "no-object": event("message.user", "a"),
    "null": event("message.user", None),
    "list": event("state.changed", ["a"]),
    "missing-field": event("state.changed", {"from": "a"}),
    "wrong-type": event("state.changed", {"to": 1}),
    "further-field": event("state.changed", {"to": "a", "x": 1}),
    "pythons-name": event("state.changed", {"to": "a", "from_": "b"}),
    "no-tool": event("tool.requested", {}),
    "field-called-tool": event("message.user", {"content": "a", "tool": "b"}),
    "field-called-usage": event("message.user", {"content": "a", "usage": {}}, usage={}),
    "raw": event("tool.returned", None, tool="t", raw=b"\x00"),
    "streamed": event("tool.returned", None, tool="t", streamed=True),
    "summary-out-of-order": event("context.summarized", SUMMARY),
    "number-as-text": event("checkpoint.created", {**CHECKPOINT, "through": "1"}),
}


@pytest.mark.parametrize("found", [pytest.param(found, id=name) for name, found in FREE.items()])
def test_what_is_free_has_no_fact(found):
    """L5"""
    assert parse(found) is None


def test_a_null_for_an_optional_field_fits():
    fact = parse(event("message.user", {"content": "a", "name": None}))
    assert fact == MessageUser(content="a")


def test_a_stored_usage_that_is_none_stays_the_mapping_it_is():
    """L5"""
    usage = {"input_tokens": "many", "x": 1}
    fact = parse(event("message.user", {"content": "a"}, usage=usage))
    assert fact.usage == usage
    assert fact.as_event().usage == usage
    with pytest.raises(InvalidInput):
        MessageUser(content="a", usage=usage)


def test_a_class_gives_the_facts_of_its_own_type_only():
    found = stored(MessageUser(content="a").as_event())
    assert MessageUser.from_event(found) == MessageUser(content="a")
    assert ToolRequested.from_event(found) is None
    assert Fact.from_event(found) is None


# ---------------------------------------------------------------------------------------------- the page


def rows(section: str) -> list[list[str]]:
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def named(cell: str) -> dict[str, bool]:
    """The fields that a cell lists, and whether each may be left out; behind a colon stands what it means."""
    heads = " ".join(part.partition(":")[0] for part in cell.split(";"))
    return {name: bool(mark) for name, mark in re.findall(r"`([a-z_0-9]+)`(\?)?", heads)}


def test_the_page_lists_exactly_the_types_and_their_fields():
    """L5"""
    listed = {row[0].strip("`"): named(row[1]) for row in rows("Types")}
    actual = {
        event_type: {
            field.serialization_alias or name: not field.is_required()
            for name, field in kind.model_fields.items()
            if name not in BESIDE
        }
        for event_type, kind in SHIPPED.items()
    }
    assert listed == actual


def test_the_page_says_which_fields_beside_a_payload_are_obligatory():
    for event_type, _, beside, writer in rows("Types"):
        fields = SHIPPED[event_type.strip("`")].model_fields
        listed = named(beside)
        assert set(listed) <= set(BESIDE)
        assert {name for name, optional in listed.items() if not optional} == {
            name for name in BESIDE if fields[name].is_required()
        }
        assert writer in {"product", "run", "vault"}


def test_the_page_lists_what_rides_beside_and_what_usage_holds():
    assert [row[0].strip("`") for row in rows("Beside the payload")] == list(BESIDE)
    listed = {name for row in rows("`usage`") for name in re.findall(r"\w+", row[0])}
    assert listed == set(Usage.model_fields)


def test_every_class_has_the_name_of_its_type():
    for event_type, kind in SHIPPED.items():
        assert kind.__name__ == "".join(part.capitalize() for part in event_type.split("."))
        assert kind.__name__ in vocabulary.__all__
        assert kind.__module__ == "vault.vocabulary"
        assert kind.__doc__


def python(program: str, place: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(place / "state")}
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)


def test_the_program_of_the_page_runs(tmp_path):
    """L5"""
    [program] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    done = python(program, tmp_path)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_does_not_load_the_vocabulary(tmp_path):
    program = "import sys, vault; print({'vault.fact', 'vault.vocabulary', 'pydantic'} & sys.modules.keys())"
    done = python(program, tmp_path)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr
