"""Whether a value is still what it was when it was put last, without serialising it again. Pure.

Only for plain data and LangChain's own messages: what an object of another class serialises to may depend on
more than can be seen, so it never counts as unchanged.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage

_PLAIN: Final = frozenset({str, bytes, type(None)})
_NUMBERS: Final = frozenset({int, float, bool})


class Picture(NamedTuple):
    """A value that nobody else can reach and change.

    ``exact`` holds those of its parts in which there are numbers: Python takes 1, 1.0 and True for equal.
    """

    kind: type
    plain: Any
    exact: tuple[tuple[Any, Any], ...] = ()


#: Of what cannot be compared.
NEVER: Final = Picture(type(NotImplemented), None)


def taken(value: Any) -> Any:
    """The picture of a value."""
    kind = type(value)
    if kind in _PLAIN or kind in _NUMBERS:
        return value
    try:
        if _is_message(kind):
            plain = _copied(value.__dict__)
            return NEVER if value.__pydantic_extra__ else Picture(kind, plain, _exact(plain.items()))
        plain = _copied(value)
    except TypeError:
        return NEVER
    return Picture(kind, plain, _exact(plain.items() if kind is dict else enumerate(plain)))


class Album:
    """The pictures of a list's items in their order, for comparing all of them at once.

    That is what makes a put cost what is new: 400 messages are compared in a tenth of a millisecond.
    """

    def __init__(self) -> None:
        """Empty."""
        self._pictures: list[Any] = []
        self._kinds: list[type] = []
        self._plain: list[Any] = []
        self._exact: list[tuple[int, Any, Any]] = []
        self._messages = 0
        self._never = 0

    def __len__(self) -> int:
        return len(self._pictures)

    def append(self, picture: Any) -> None:
        """One more item."""
        place, framed = len(self._pictures), type(picture) is Picture
        self._pictures.append(picture)
        self._kinds.append(picture.kind if framed else type(picture))
        self._plain.append(picture.plain if framed else picture)
        self._never += picture is NEVER
        self._messages += framed and _is_message(picture.kind)
        if framed:
            self._exact += [(place, key, part) for key, part in picture.exact]
        elif type(picture) is float:
            self._exact.append((place, None, picture))

    def rearrange(self, pictures: list[Any]) -> None:
        """Other items in place of all of them."""
        self.__init__()  # type: ignore[misc]  # empty again
        for picture in pictures:
            self.append(picture)

    def pictures(self) -> list[Any]:
        """All of them, as a list of its own."""
        return list(self._pictures)

    def begins(self, values: list[Any]) -> bool:
        """Whether each of the items is still as in its picture, in a list that may have become longer."""
        values = values[: len(self)]
        if self._never or list(map(type, values)) != self._kinds:
            return False
        parts = values
        if self._messages:
            if any(one.__pydantic_extra__ for one in values if isinstance(one, BaseMessage)):
                return False
            parts = [one.__dict__ if isinstance(one, BaseMessage) else one for one in values]
        return parts == self._plain and all(
            _identical(parts[place] if key is None else parts[place][key], part)
            for place, key, part in self._exact
        )


def unchanged(value: Any, picture: Any) -> bool:
    """Whether a value is as in its picture: types, texts and numbers."""
    kind = type(value)
    if kind in _PLAIN:
        return value is picture or (kind is type(picture) and bool(value == picture))
    if kind in _NUMBERS:
        return _identical(value, picture)
    if type(picture) is not Picture or picture.kind is not kind:
        return False
    parts = value.__dict__ if _is_message(kind) else value
    equal = parts == picture.plain and not getattr(value, "__pydantic_extra__", None)
    return equal and all(_identical(parts[key], part) for key, part in picture.exact)


def _is_message(kind: type) -> bool:
    return kind.__module__.startswith("langchain_core.") and issubclass(kind, BaseMessage)


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN or kind in _NUMBERS:
        return value
    if kind is dict:
        return {_key(key): _copied(item) for key, item in value.items()}
    if kind is list:
        return [_copied(item) for item in value]
    if kind is tuple:
        return tuple(_copied(item) for item in value)
    raise TypeError


def _key(key: Any) -> Any:
    if type(key) is not str:
        raise TypeError
    return key


def _exact(parts: Any) -> tuple[tuple[Any, Any], ...]:
    return tuple((place, part) for place, part in parts if _has_numbers(part))


def _has_numbers(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return any(map(_has_numbers, value.values()))
    if kind is list or kind is tuple:
        return any(map(_has_numbers, value))
    return kind in _NUMBERS


def _identical(value: Any, known: Any) -> bool:
    """Equal, down to the types."""
    kind = type(value)
    if kind is not type(known):
        return False
    if kind is dict:
        return len(value) == len(known) and all(
            key in value and _identical(value[key], part) for key, part in known.items()
        )
    if kind is list or kind is tuple:
        return len(value) == len(known) and all(map(_identical, value, known))
    # Their text tells apart what is equal and not the same: 0.0 and -0.0.
    return value is known or (value == known and (kind is not float or repr(value) == repr(known)))
