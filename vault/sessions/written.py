"""What a writer gives: a type and a payload, or a typed fact, and what rides beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast

from vault.errors import InvalidInput
from vault.model import NewEvent, check_type

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from typing import BinaryIO


class Fact(Protocol):
    """A typed event of ``vault.vocabulary``, or a product's own."""

    def as_event(self) -> NewEvent:
        """The event to append."""
        ...


class About(TypedDict, total=False):
    """What rides beside a payload; as the arguments of ``Session.append``."""

    raw: bytes | BinaryIO | None
    event_id: str | None
    tool: str | None
    caused_by: str | None
    observed_at: datetime | None
    valid_for: timedelta | None
    occurred_at: datetime | None
    resource: str | None
    usage: Mapping[str, Any] | None
    level: str
    epoch: int


def new_event(type: str | Fact, payload: Any, about: Mapping[str, Any]) -> NewEvent:
    """The event that a call of ``append`` describes; what is given beside a fact counts over its own.

    Raises:
        InvalidInput: neither a type nor a fact; or a payload beside a fact, which has one.
    """
    if isinstance(type, str) or not hasattr(type, "as_event"):
        return NewEvent(type=check_type(cast("str", type)), payload=payload, **about)
    if payload is not None or about.get("raw") is not None:
        raise InvalidInput("a fact has its payload already; leave payload and raw out")
    given = {name: value for name, value in about.items() if value is not None}
    return replace(type.as_event(), **given)
