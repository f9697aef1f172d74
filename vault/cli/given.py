"""What a person gives as text, as the vault takes it: namespaces, labels, lives of items."""

from __future__ import annotations

from datetime import timedelta

from vault.errors import InvalidInput
from vault.policy.durations import parse_duration


def namespace_of(text: str) -> tuple[str, ...]:
    """The names of a namespace; none for the root.

    Raises:
        InvalidInput: no text, as a rule a variable of a script that was never set.
    """
    if not text.strip():
        raise InvalidInput("NAMESPACE is names joined by slashes, for example users/alice; / is the root")
    return tuple(part for part in text.split("/") if part)


def labels_of(given: list[str] | None) -> dict[str, str]:
    """Labels by name, of texts like ``case=7``.

    Raises:
        InvalidInput: one has no name and value.
    """
    labels = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals:
            raise InvalidInput("a label is given as name=value")
        labels[name] = value
    return labels


def life_of(text: str | None) -> timedelta | None:
    """How long an item is shown, of hours or days; None when nothing was given.

    Raises:
        InvalidInput: anything else. Months and years depend on when they begin: they are for policies.
    """
    if text is None:
        return None
    try:
        period = parse_duration(text)
    except InvalidInput:
        period = None  # what it says is meant for policies
    if period is None or not period.us:
        raise InvalidInput(
            "--ttl is a whole number of hours or days, for example 12h or 90d; at most 100 years"
        )
    return timedelta(microseconds=period.us)
