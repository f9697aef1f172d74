"""Which items of a LangGraph store a search means, and which namespaces a listing; pure.

A filter never widens: what it names and an item has not, the item does not pass, and an operator that is not
known is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any, Final

from langgraph.store.base import MatchCondition

from vault.errors import InvalidInput, LimitExceeded

#: Fields and values of one filter, those within others too.
PARTS_MAX: Final = 10_000
_ANY: Final = "*"


def same(value: Any, given: Any) -> bool:
    """Equal as JSON: true is not 1, at whatever depth."""
    if isinstance(value, bool) or isinstance(given, bool):
        return value is given
    if isinstance(value, Mapping) and isinstance(given, Mapping):
        return value.keys() == given.keys() and all(same(value[name], given[name]) for name in given)
    if _is_list(value) and _is_list(given):
        return len(value) == len(given) and all(map(same, value, given))
    return bool(value == given)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(value: Any, given: Any) -> bool:
        """Numbers with numbers and text with text; anything else is in no order."""
        if isinstance(value, bool) or isinstance(given, bool):
            return False
        kinds: tuple[Any, ...] = ((int, float), str)
        return any(
            isinstance(value, kind) and isinstance(given, kind) and compare(value, given) for kind in kinds
        )

    return compared


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$eq": same,
    "$ne": lambda value, given: not same(value, given),
    "$gt": _ordered(gt),
    "$gte": _ordered(ge),
    "$lt": _ordered(lt),
    "$lte": _ordered(le),
}


def checked(wanted: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A filter whose operators are all known, wherever they stand in it.

    Raises:
        InvalidInput: it is no mapping of names, or an operator is not known; LimitExceeded when it is too
            large, or contains itself.
    """
    if wanted is None:
        return {}
    if not isinstance(wanted, Mapping):
        raise InvalidInput("a filter is a dict of fields and what they are")
    if _has_operators(wanted):
        raise InvalidInput("a filter begins with the name of a field, not with an operator")
    waiting: list[Any] = [wanted]
    for _ in range(PARTS_MAX):
        if not waiting:
            return wanted
        one = waiting.pop()
        if isinstance(one, Mapping):
            _check_names(one)
            waiting += [] if _has_operators(one) else one.values()
        elif _is_list(one):
            waiting += one
    raise LimitExceeded(f"a filter has at most {PARTS_MAX} parts")


def _check_names(one: Mapping[Any, Any]) -> None:
    if not all(isinstance(name, str) for name in one):
        raise InvalidInput("the fields of a filter are named by text")
    if _has_operators(one) and not one.keys() <= _OPERATORS.keys():
        raise InvalidInput(f"an operator of a filter is one of {', '.join(_OPERATORS)}")


def matches(value: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether an item's value passes a checked filter: all of its fields do."""
    return isinstance(value, Mapping) and all(
        name in value and _passes(value[name], given) for name, given in wanted.items()
    )


def _passes(value: Any, given: Any) -> bool:
    if isinstance(given, Mapping):
        if _has_operators(given):
            return all(_OPERATORS[name](value, operand) for name, operand in given.items())
        return matches(value, given)
    if _is_list(given):
        return _is_list(value) and len(value) == len(given) and all(map(_passes, value, given))
    return same(value, given)


def _has_operators(given: Mapping[Any, Any]) -> bool:
    return any(isinstance(name, str) and name.startswith("$") for name in given)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


# ------------------------------------------------------------------------------------------- namespaces


def check_conditions(conditions: Iterable[MatchCondition]) -> None:
    """Refuse what is neither a beginning nor an end.

    Raises:
        InvalidInput: a condition is of another kind.
    """
    if any(one.match_type not in {"prefix", "suffix"} for one in conditions):
        raise InvalidInput("a condition on a namespace is a prefix or a suffix")


def fits(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends as asked for, name by name; ``*`` stands for any one name."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return not path or all(asked in (_ANY, name) for asked, name in zip(path, part, strict=True))


def common_beginning(conditions: Iterable[MatchCondition]) -> tuple[str, ...]:
    """The names that all that fits begins with: the longest that a prefix says before its first ``*``."""
    longest: tuple[str, ...] = ()
    for one in conditions:
        if one.match_type == "prefix":
            path = tuple(one.path)
            known = path[: path.index(_ANY)] if _ANY in path else path
            longest = max(longest, known, key=len)
    return longest
