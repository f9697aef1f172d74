"""Canonical bytes: one injective encoding for everything that is MACed, bound or hashed; strict JSON."""

from __future__ import annotations

import math
from typing import Any, Final

import orjson

from vault.errors import InvalidInput, LimitExceeded

#: Deepest nesting of a JSON payload: orjson's own limit, so that what is refused is what cannot be written.
JSON_DEPTH_MAX: Final = 254

_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


#: Lengths of short fields, ready: every append packs some fifty of them.
_SHORT: Final = 256
_SIZES: Final = tuple(size.to_bytes(4) for size in range(_SHORT))


def pack(*fields: bytes) -> bytes:
    """Join fields so that no two different tuples give the same bytes.

    A count, then each field behind its length, both as 4 bytes big-endian. Lengths come before content,
    so moving a byte from one field to the next changes the result.
    """
    parts = [
        _SIZES[size] + field if (size := len(field)) < _SHORT else size.to_bytes(4) + field
        for field in fields
    ]
    return len(fields).to_bytes(4) + b"".join(parts)


def u64(number: int) -> bytes:
    """A non-negative integer as 8 bytes big-endian."""
    return number.to_bytes(8)


def json_bytes(value: Any) -> bytes:
    """JSON as UTF-8 bytes that read back as exactly ``value``.

    Nothing is converted on the way: what JSON cannot hold is refused, never turned into a string or null.

    Raises:
        InvalidInput: NaN or infinity, bytes, tuples, sets, other objects, keys that are not strings,
            integers beyond 64 bits, lone surrogates, or a cycle; the message names the kind and the depth.
        LimitExceeded: nested deeper than ``JSON_DEPTH_MAX``.
    """
    try:
        encoded = orjson.dumps(value, option=_STRICT)
        # Reading it back finds every silent conversion (NaN to null, UUID to text) for about 2 us per 2 KB.
        if orjson.loads(encoded) == value:
            return encoded
    except (TypeError, ValueError, RecursionError):
        pass  # _refuse below walks the value and says which part it is
    _refuse(value, 0)
    raise InvalidInput("the payload cannot be written as JSON; use dict, list, str, int, float, bool or None")


def json_value(encoded: bytes) -> Any:
    """The value of JSON bytes that this module wrote.

    Raises:
        ValueError: not JSON.
    """
    return orjson.loads(encoded)


def canonical_json(value: Any) -> bytes:
    """JSON bytes with sorted keys, for small mappings that are MACed or compared.

    Raises:
        InvalidInput: as ``json_bytes``.
    """
    json_bytes(value)
    return orjson.dumps(value, option=_STRICT | orjson.OPT_SORT_KEYS)


def _refuse(value: Any, depth: int) -> None:
    """Raise for the first part that JSON cannot hold; paths and values stay out of the message."""
    if depth >= JSON_DEPTH_MAX and isinstance(value, dict | list):
        raise LimitExceeded(f"the payload is nested deeper than {JSON_DEPTH_MAX} levels or contains itself")
    if value is None or isinstance(value, bool):
        return
    if type(value) is int:
        if not -(2**63) <= value < 2**64:
            raise InvalidInput("an integer is beyond 64 bits; write it as a string")
    elif type(value) is float and not math.isfinite(value):
        raise InvalidInput("NaN and infinity are not JSON; write null or a string")
    elif type(value) is str:
        _refuse_surrogates(value)
    elif type(value) is dict:
        for key, item in value.items():
            _refuse_key(key, depth + 1)
            _refuse(item, depth + 1)
    elif type(value) is list:
        for item in value:
            _refuse(item, depth + 1)
    elif type(value) is not float:
        raise InvalidInput(
            f"a value at depth {depth} is {type(value).__name__}, which is not JSON; convert it first"
        )


def _refuse_key(key: Any, depth: int) -> None:
    if type(key) is not str:
        raise InvalidInput(f"a key at depth {depth} is {type(key).__name__}; JSON keys are strings")
    _refuse_surrogates(key)


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("a string holds a lone surrogate, which is not Unicode text; replace it") from None
