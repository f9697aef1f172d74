"""Which memories a search means: fields of a value compared, and text found in it; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import ge, gt, le, lt
from typing import Any, Final

from vault.errors import InvalidInput
from vault.model import check_name

#: Fields of a filter.
FIELDS_MAX: Final = 32
#: Values of one ``$in``.
CHOICES_MAX: Final = 256
TEXT_LENGTH_MAX: Final = 1_000
_FORM: Final = "a filter is a dict of field names and values, or of operators such as {'$gt': 1} for a field"


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(value: Any, given: Any) -> bool:
        """Numbers with numbers and text with text; anything else is in no order."""
        if isinstance(value, bool) or isinstance(given, bool):
            return False
        for kind in ((int, float), str):
            if isinstance(value, kind) and isinstance(given, kind):
                return compare(value, given)
        return False

    return compared


def _same(value: Any, given: Any) -> bool:
    """Equal as JSON: true is not 1."""
    return isinstance(value, bool) == isinstance(given, bool) and bool(value == given)


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$eq": _same,
    "$ne": lambda value, given: not _same(value, given),
    "$gt": _ordered(gt),
    "$gte": _ordered(ge),
    "$lt": _ordered(lt),
    "$lte": _ordered(le),
    "$in": lambda value, given: any(_same(value, one) for one in given),
}
_MISSING: Final = object()


class Filter:
    """What a search asks for; checked once, then held against every memory."""

    def __init__(self, fields: Mapping[str, Any] | None, text: str | None) -> None:
        """Check what was asked.

        Raises:
            InvalidInput: a filter or text is malformed.
        """
        if fields is not None and not isinstance(fields, Mapping):
            raise InvalidInput(_FORM)
        self._tests = [test for item in (fields or {}).items() for test in _tests(*item)]
        if len(self._tests) > FIELDS_MAX:
            raise InvalidInput(f"a filter compares at most {FIELDS_MAX} fields")
        self._text = None if text is None else check_name(text, "a text", TEXT_LENGTH_MAX).casefold()

    def matches(self, key: str, value: Any) -> bool:
        """Whether a memory passes."""
        if self._tests:
            if not isinstance(value, dict):
                return False
            for field, operator, given in self._tests:
                found = value.get(field, _MISSING)
                if found is _MISSING or not operator(found, given):
                    return False
        if self._text is None:
            return True
        return self._text in key.casefold() or any(self._text in text.casefold() for text in _texts(value))


def _tests(field: Any, wanted: Any) -> Iterator[tuple[str, Callable[[Any, Any], bool], Any]]:
    if not isinstance(field, str):
        raise InvalidInput(_FORM)
    if not isinstance(wanted, dict) or not any(str(name).startswith("$") for name in wanted):
        yield field, _same, wanted
        return
    for name, given in wanted.items():
        if name not in _OPERATORS:
            raise InvalidInput(f"an operator of a filter is one of {', '.join(_OPERATORS)}")
        if name == "$in" and (not isinstance(given, list | tuple) or len(given) > CHOICES_MAX):
            raise InvalidInput(f"$in takes a list of at most {CHOICES_MAX} values")
        yield field, _OPERATORS[name], given


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys of objects too; without recursion, as it may be nested deeply."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
