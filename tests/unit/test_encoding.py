"""Canonical bytes are injective, and JSON comes back as exactly what went in or is refused."""

import datetime as dt
import decimal
import enum
import math
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.encoding import JSON_DEPTH_MAX, canonical_json, json_bytes, json_value, pack, u64
from vault.errors import InvalidInput, LimitExceeded

CANARY = "Zanzibar-4711"

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5)
)


def kinds(value: Any) -> Any:
    """The value with every number told apart from its equals: 1, 1.0, True and -0.0."""
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [kinds(item) for item in value]
    return type(value).__name__, repr(value)


def nested(depth: int, innermost: Any = None) -> Any:
    value = innermost
    for _ in range(depth):
        value = [value]
    return value


def unpacked(encoded: bytes) -> tuple[bytes, ...]:
    """The fields of ``pack``, read back by its description: a count, then each behind its length."""
    count, at, fields = int.from_bytes(encoded[:4]), 4, []
    for _ in range(count):
        length = int.from_bytes(encoded[at : at + 4])
        fields.append(encoded[at + 4 : at + 4 + length])
        at += 4 + length
    assert at == len(encoded)
    return tuple(fields)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_packed_fields_can_be_told_apart_again(fields):
    """K2"""
    assert unpacked(pack(*fields)) == tuple(fields)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param((b"ab", b"c"), (b"a", b"bc"), id="a-byte-moves-to-the-next-field"),
        pytest.param((b"", b"a"), (b"a", b""), id="an-empty-field-moves"),
        pytest.param((b"a",), (b"a", b""), id="an-empty-field-more"),
        pytest.param((), (b"",), id="no-field"),
        pytest.param((b"\x00\x00\x00\x01a",), (b"a",), id="a-field-that-looks-packed"),
    ],
)
def test_different_fields_never_pack_alike(one, other):
    """K2"""
    assert pack(*one) != pack(*other)


def test_numbers_are_eight_bytes_and_never_negative():
    assert u64(0) == bytes(8)
    assert u64(2**64 - 1) == b"\xff" * 8
    for number in (-1, 2**64):
        with pytest.raises(OverflowError):
            u64(number)


@given(JSON)
def test_json_reads_back_as_exactly_what_was_written(value):
    """L1"""
    assert kinds(json_value(json_bytes(value))) == kinds(value)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("\u2028\u0085\x00\x7f\ud7ff\ue000\U0010ffff", id="unusual-characters"),
        pytest.param(2**64 - 1, id="largest-integer"),
        pytest.param(-(2**63), id="smallest-integer"),
        pytest.param(-0.0, id="negative-zero"),
        pytest.param(5e-324, id="smallest-float"),
        pytest.param(1.7976931348623157e308, id="largest-float"),
        pytest.param(0.1 + 0.2, id="float-that-needs-17-digits"),
        pytest.param({"": {"": []}}, id="empty-names"),
        pytest.param({"b": 1, "a": 2}, id="order-of-keys"),
    ],
)
def test_the_edges_of_json_are_kept(value):
    """L1"""
    back = json_value(json_bytes(value))
    assert kinds(back) == kinds(value)
    if isinstance(value, dict):
        assert list(back) == list(value)


class Colour(enum.Enum):
    RED = CANARY


class Shade(enum.StrEnum):
    DARK = "dark"


class Place(NamedTuple):
    x: int


class Word(str):
    __slots__ = ()


@dataclass
class Record:
    name: str = CANARY


REFUSED = {
    "nan": math.nan,
    "infinity": math.inf,
    "negative-infinity": -math.inf,
    "bytes": CANARY.encode(),
    "bytearray": bytearray(CANARY.encode()),
    "tuple": (1, CANARY),
    "named-tuple": Place(1),
    "set": {CANARY},
    "frozenset": frozenset({CANARY}),
    "datetime": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "date": dt.date(2026, 1, 1),
    "time": dt.time(1),
    "decimal": decimal.Decimal("1.5"),
    "uuid": uuid.UUID(int=1),
    "complex": 1j,
    "enum": Colour.RED,
    "dataclass": Record(),
    "object": object(),
    "function": len,
    "class": Record,
    "range": range(2),
    "string-subclass": Word(CANARY),
    "dict-subclass": OrderedDict(name=CANARY),
    "integer-key": {1: CANARY},
    "none-key": {None: CANARY},
    "bool-key": {True: CANARY},
    "bytes-key": {b"a": CANARY},
    "enum-key": {Shade.DARK: CANARY},
    "integer-over-64-bits": 2**64,
    "integer-under-64-bits": -(2**63) - 1,
    "lone-surrogate": CANARY + "\ud800",
    "lone-surrogate-in-a-key": {CANARY + "\udfff": 1},
}


@pytest.mark.parametrize("within", ["alone", "in-a-list", "in-a-dict"])
@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in REFUSED.items()])
def test_what_json_cannot_hold_is_refused_in_one_sentence_without_its_content(value, within):
    """L1, invariant 13"""
    whole = {"alone": value, "in-a-list": [1, [value]], "in-a-dict": {"ok": True, CANARY: value}}[within]
    for write in (json_bytes, canonical_json):
        with pytest.raises(InvalidInput) as refusal:
            write(whole)
        message = str(refusal.value)
        assert CANARY not in message
        assert "\n" not in message
        assert 20 < len(message) < 160
        assert refusal.value.__cause__ is None


@pytest.mark.parametrize("member", [Shade.DARK, enum.IntEnum("Size", "SMALL").SMALL])
def test_members_of_text_and_number_enums_are_the_text_and_number_they_equal(member):
    assert json_value(json_bytes({"kind": member})) == {"kind": member.value}


@pytest.mark.parametrize("wrapped", [list, dict])
def test_the_documented_depth_is_accepted_and_one_more_refused(wrapped):
    """Invariant 12"""
    innermost = wrapped()
    assert json_value(json_bytes(nested(JSON_DEPTH_MAX - 1, innermost))) == nested(
        JSON_DEPTH_MAX - 1, innermost
    )
    with pytest.raises(LimitExceeded, match=str(JSON_DEPTH_MAX)):
        json_bytes(nested(JSON_DEPTH_MAX, innermost))


def test_a_value_that_contains_itself_is_refused():
    """Invariant 12"""
    knot: dict[str, Any] = {}
    knot["again"] = [knot]
    row: list[Any] = []
    row.append(row)
    for value in (knot, row):
        with pytest.raises(LimitExceeded, match="contains itself"):
            json_bytes(value)


@given(st.dictionaries(TEXT, JSON, max_size=6), st.randoms())
def test_canonical_json_does_not_depend_on_the_order_of_keys(value, random):
    """L7"""
    names = list(value)
    random.shuffle(names)
    assert canonical_json({name: value[name] for name in names}) == canonical_json(value)
    assert kinds(json_value(canonical_json(value))) == kinds(value)
