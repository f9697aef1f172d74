"""What a typed fact of the log is: fields of a payload, what rides beside it, and how it becomes an event.

``vault.vocabulary`` holds the classes, and is where to import all of this from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, Self, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from vault.clock import from_us, to_us
from vault.encoding import json_bytes
from vault.errors import InvalidInput
from vault.model import Event, NewEvent, check_name, check_type, parse_id

#: Types of these prefixes mean something to the vault itself, so each keeps the class it has.
OWN_PREFIXES: Final = ("effect.", "checkpoint.", "run.", "context.", "config.")
#: What rides beside a payload: fields of every fact, and of no payload.
BESIDE: Final = ("tool", "caused_by", "observed_at", "valid_for", "occurred_at", "resource", "usage")

_MICROSECOND: Final = timedelta(microseconds=1)
_VALID_US_END: Final = 2**53  # as `append` has it: 285 years
_STORED: Final = {"stored": True}  # a validation context: what the log holds was checked when it was written
_VALUES: Final = TypeAdapter(dict[str, Any])

_classes: dict[str, type[Fact]] = {}
#: The class of every event type; where a product declared one again, the newer class.
FACTS: Final[Mapping[str, type[Fact]]] = MappingProxyType(_classes)


def _json(value: Any, info: ValidationInfo) -> Any:
    if info.context is not _STORED:
        json_bytes([value])  # a level deeper, as within a payload
    return value


def _name(value: str) -> str:
    return check_name(value, "it")


def checked_id(prefix: str) -> AfterValidator:
    """Checks a string to be an id of this kind: ``evt``, ``run`` or ``ses``."""

    def check(value: str) -> str:
        if parse_id(prefix, value) is None:
            raise InvalidInput(f"it must be {prefix}_ followed by a UUID")
        return value

    return AfterValidator(check)


def _moment(value: datetime) -> datetime:
    return from_us(to_us(value))  # in UTC, as a reader gets it: times of two zones may never be equal


def _validity(value: timedelta) -> timedelta:
    if not 0 < value // _MICROSECOND < _VALID_US_END:
        raise InvalidInput("it must be above zero, and at most 285 years")
    return value


def _usage(value: Any, info: ValidationInfo) -> Any:
    if value is None or isinstance(value, Usage):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InvalidInput("it must be a Usage, or a mapping of JSON values")
    try:
        return Usage(**value)
    except InvalidInput:
        if info.context is _STORED:
            return value  # unusual counts do not cost a reader the fact
        raise


#: Marks a field that holds JSON values as they are: NaN, tuples, datetimes and other objects are refused.
is_json: Final = AfterValidator(_json)
#: Any JSON value.
Json = Annotated[Any, is_json]
Name = Annotated[str, AfterValidator(_name)]
EventRef = Annotated[str, checked_id("evt")]
_Moment = Annotated[datetime, AfterValidator(_moment)]
_Validity = Annotated[timedelta, AfterValidator(_validity)]
_Count = Annotated[int, Field(ge=0)]
_Milliseconds = Annotated[float, Field(ge=0)]


class _Words(BaseModel):
    """What facts and their usage share: strict, frozen, and silent about what they hold."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,
    )
    __pydantic_extra__: dict[str, Json] = Field(init=False)
    _beside: ClassVar[tuple[str, ...]] = ()

    def __init__(self, /, **fields: Any) -> None:
        """Check every field.

        Raises:
            InvalidInput: a field is missing, unknown or not what it must be; says which and what to give.
        """
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InvalidInput(_sentence(type(self), error)) from None

    # Else pydantic would send stored values through it too, as if they were new.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        """The class only: the rest is the user's."""
        return f"{type(self).__name__}(…)"

    __str__ = __repr__

    def __repr_args__(self) -> tuple[()]:
        """Nothing, for those who print without ``repr``."""
        return ()

    @model_validator(mode="after")
    def _check_storable(self, info: ValidationInfo) -> Self:
        if info.context is _STORED:
            return self
        fields = type(self).model_fields
        checked = {
            field.serialization_alias or at for at, field in fields.items() if is_json in field.metadata
        }
        for name, value in self._document().items():
            if name in checked:
                continue
            try:
                json_bytes({name: value})
            except InvalidInput as refusal:
                raise InvalidInput(f"{_shown(type(self), name)}: {refusal}") from None
        return self

    def _document(self) -> dict[str, Any]:
        """The payload's fields as JSON; what is None, and would be so when left out, is left out."""
        fields = type(self).model_fields.items()
        absent = {name for name, field in fields if field.default is None and getattr(self, name) is None}
        try:
            return self.model_dump(mode="json", by_alias=True, exclude={*self._beside, *absent})
        except ValueError:  # of pydantic, with the value in its words
            kind = _label(type(self))
            raise InvalidInput(f"a field of {kind} cannot be written as JSON; declare it as Json") from None


class Usage(_Words):
    """The model, its parameters and what a call of it took; all optional, further fields allowed.

    Tokens are counts, ``latency_ms`` is milliseconds, ``cost`` a number in the currency of the product.
    """

    model_config = ConfigDict(extra="allow")

    model: str | None = None
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cached_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: _Count | None = None
    seed: int | None = None
    stop_reason: str | None = None
    latency_ms: _Milliseconds | None = None
    cost: float | None = None

    def as_mapping(self) -> dict[str, Any]:
        """What is set, as ``append`` takes it."""
        return self._document()


class Fact(_Words):
    """One fact of the log; a subclass declares ``event_type`` and the fields of its payload.

    Beside the payload ride, all optional: ``tool``; ``caused_by``, an event id; ``observed_at``, when the
    world was so, and ``valid_for``, how long that holds (above zero, up to 285 years); ``occurred_at``, when
    it happened, if that is not when it is recorded; ``resource``, what it is about; ``usage``.
    """

    event_type: ClassVar[str]
    _beside: ClassVar[tuple[str, ...]] = BESIDE
    _whole: ClassVar[str] = ""  # the field that is the payload, where that is not an object of fields

    tool: Name | None = None
    caused_by: EventRef | None = None
    observed_at: _Moment | None = None
    valid_for: _Validity | None = None
    occurred_at: _Moment | None = None
    resource: Name | None = None
    usage: Annotated[Usage | dict[str, Any] | None, PlainValidator(_usage)] = None

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Enter the class under its type.

        Raises:
            InvalidInput: the type is malformed, or the vault's own; or a field's name means something else.
        """
        fields = cls.model_fields
        names = fields.keys() - {*BESIDE, cls._whole}
        aliases = {alias for alias, name in _by_alias(cls).items() if alias != name}
        if names & {"event_type", "payload", "as_event", "from_event"} or aliases & {*BESIDE}:
            raise InvalidInput(
                "a field of a payload cannot have a name that every fact uses; choose another one, and "
                "Field(alias=...) where the payload needs it"
            )
        if any(field.serialization_alias != field.validation_alias for field in fields.values()):
            raise InvalidInput("a field reads and writes one name: give both aliases, or Field(alias=...)")
        if names and cls._whole:
            raise InvalidInput(f"{cls._whole} is the payload of this class as a whole; put more into it")
        if hasattr(cls, "event_type"):
            if check_type(cls.event_type) in _classes and cls.event_type.startswith(OWN_PREFIXES):
                raise InvalidInput(
                    "this event type is the vault's own and has its class; choose another type"
                )
            _classes[cls.event_type] = cls

    @model_validator(mode="after")
    def _check_whole(self, info: ValidationInfo) -> Self:
        if not hasattr(self, "event_type"):
            raise InvalidInput("this class has no event_type; make one of a class that declares it")
        if info.context is not _STORED and self.valid_for is not None and self.observed_at is None:
            raise InvalidInput(f"valid_for of {self.event_type} counts from observed_at; give that too")
        return self

    def payload(self) -> Any:
        """The payload, a JSON value: an object of the fields; of a tool call its arguments or result."""
        document = self._document()
        return document.get(self._whole) if self._whole else document

    def as_event(self, *, run: str | None = None, event_id: str | None = None, level: str = "L3") -> NewEvent:
        """The event to append.

        Args:
            run: the run it belongs to.
            event_id: from ``vault.new_event_id()``, to make a retry safe.
            level: redaction level, ``L0`` (least sensitive view) to ``L3``.
        """
        return NewEvent(
            type=self.event_type,
            payload=self.payload(),
            event_id=event_id,
            run=run,
            tool=self.tool,
            caused_by=self.caused_by,
            observed_at=self.observed_at,
            valid_for=self.valid_for,
            occurred_at=self.occurred_at,
            resource=self.resource,
            usage=self.usage.as_mapping() if isinstance(self.usage, Usage) else self.usage,
            level=level,
        )

    @classmethod
    def from_event(cls, event: Event) -> Self | None:
        """The fact of this class that a stored event states; None when it does not fit."""
        if event.type != getattr(cls, "event_type", None) or event.raw is not None or event.streamed:
            return None
        fields = {cls._whole: event.payload} if cls._whole else event.payload
        if not isinstance(fields, dict) or fields.keys() & {*BESIDE}:
            return None
        beside = _beside_of(event)
        with suppress(ValidationError):
            return cls.model_validate({**fields, **beside}, by_alias=True, by_name=False, context=_STORED)
        # Dates, ids and models that a product declares are texts and objects in the log.
        with suppress(ValidationError, InvalidInput):
            text = json_bytes({**fields, **_VALUES.dump_python(beside, mode="json")})
            return cls.model_validate_json(text, by_alias=True, by_name=False, context=_STORED)
        return None


def _beside_of(event: Event) -> dict[str, Any]:
    valid_for = None if event.valid_for_us is None else timedelta(microseconds=event.valid_for_us)
    found = {name: getattr(event, name) for name in BESIDE if name != "valid_for"}
    return {name: value for name, value in {**found, "valid_for": valid_for}.items() if value is not None}


# ------------------------------------------------------------------------------------------------ sentences

_NOUNS: Final[Mapping[Any, str]] = {
    Any: "a JSON value",
    bool: "true or false",
    datetime: "a datetime with a time zone",
    dict: "a dict",
    float: "a number",
    int: "an integer",
    list: "a list",
    str: "a string",
}
#: Errors whose words, pydantic's, name what the class declares and nothing of the value.
_DECLARED: Final = re.compile(
    "(greater|less)_than(_equal)?|multiple_of|(string_)?too_(short|long)|string_pattern_mismatch|literal_error"
    "|enum|finite_number"
)


def _label(kind: type[_Words]) -> str:
    return getattr(kind, "event_type", kind.__name__.lower())


def _by_alias(kind: type[_Words]) -> dict[str, str]:
    return {field.serialization_alias or name: name for name, field in kind.model_fields.items()}


def _declared_name(kind: type[_Words], place: object) -> str | None:
    return place if place in kind.model_fields else _by_alias(kind).get(str(place))


def _shown(kind: type[_Words], place: object) -> str:
    """A field by its declared name; of a name that came with the values, nothing."""
    return f"{_declared_name(kind, place) or 'a further field'} of {_label(kind)}"


def _wanted(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _wanted(parts[0])
    if origin in (Union, UnionType):
        return " or ".join(_wanted(part) for part in parts if part is not NoneType)
    if origin is Literal:
        return " or ".join(map(str, parts))
    return _NOUNS.get(origin or annotation, f"a {getattr(annotation, '__name__', 'value of its type')}")


def _sentence(kind: type[_Words], error: ValidationError) -> str:
    """The first thing that is wrong, in words that hold nothing of what was given."""
    first = error.errors(include_url=False, include_input=False)[0]
    cause, place = first.get("ctx", {}).get("error"), first["loc"]
    shown = _shown(kind, place[0]) if place else f"a field of {_label(kind)}"
    if isinstance(cause, InvalidInput):
        return f"{shown}: {cause}" if place else str(cause)
    return f"{shown} {_trouble(kind, first)}"


def _trouble(kind: type[_Words], error: Mapping[str, Any]) -> str:
    sort, place = error["type"], error["loc"]
    if sort == "string_unicode":
        return "holds a lone surrogate, which is not Unicode text; replace it"
    if sort == "extra_forbidden" and len(place) == 1:
        return f"is not known; it takes {', '.join(kind.model_fields)}"
    if sort in ("value_error", "assertion_error") or not place:
        return "is refused by a check of its class; give what that asks for"
    if _DECLARED.fullmatch(sort):
        return f"should {error['msg'].partition(' should ')[2]}"
    name = _declared_name(kind, place[0])
    wanted = "what its class declares" if name is None else _wanted(kind.model_fields[name].annotation)
    return f"is missing; give {wanted}" if sort == "missing" and len(place) == 1 else f"must be {wanted}"
