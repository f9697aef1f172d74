"""What a session itself says is personal: values of its structured fields, found again in its free text.

A tool answers ``{"first_name": "Mei", "reservation_id": "M05KNL"}``; from then on "Mei" and "m05knl" in what
people write are known, which no pattern could tell. `terms_in` takes the values from payloads, a
`Vocabulary` finds them in texts: in any case and with or without accents, as whole words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from vault.errors import LimitExceeded
from vault.redaction.kinds import SEVERITY, marked
from vault.redaction.normalise import UNSPACED, fold, read
from vault.redaction.patterns import automaton
from vault.redaction.spans import Span
from vault.redaction.vocabulary_terms import Term, When, full_name, tail, terms_of_field
from vault.redaction.vocabulary_words import (
    CALLED,
    HOLDS_IDS,
    KIND_OF_FIELD,
    OF_A_PERSON,
    PERSONS,
    TAIL_FIELDS,
    TITLED,
)

#: Different terms of one vocabulary: the users of a session and some thousand rows of a table.
TERMS_MAX: Final = 200_000
#: Values of one payload that are looked at.
VALUES_MAX: Final = 2_000_000
#: JSON in strings, in one another.
STRINGS_MAX: Final = 4
_STRING_LENGTH_MAX: Final = 8 * 2**20

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN_WORDS: Final = re.compile(r"[^0-9A-Za-z]+")
_JSON_BEGINS: Final = re.compile(r"\s*[\[{\"]")


class _Node(NamedTuple):
    value: Any
    field: str
    kind: str | None
    strings: int


def terms_in(payload: Any) -> Iterator[Term]:
    """The terms of a JSON payload: what its fields for names, addresses, ids and the like hold.

    Strings with JSON in them are read as JSON. A field called just "name" counts where the object beside it
    or around it is a person's.

    Raises:
        LimitExceeded: more than ``VALUES_MAX`` values.
    """
    nodes, seen = [_Node(payload, "", None, 0)], 0
    while nodes:
        node = nodes.pop()
        seen += 1
        if seen > VALUES_MAX:
            raise LimitExceeded("the payload has too many values to learn from; show its structure only")
        if isinstance(node.value, dict):
            yield from _of_object(node, nodes)
        elif isinstance(node.value, list):
            nodes += (node._replace(value=item) for item in node.value)
        elif isinstance(node.value, str):
            inner = _json_in(node.value) if node.strings < STRINGS_MAX else None
            if inner is not None:
                nodes.append(_Node(inner, node.field, node.kind, node.strings + 1))
            elif node.kind:
                yield from _of_value(node.kind, node.value)
        elif node.kind and isinstance(node.value, int) and not isinstance(node.value, bool):
            yield from _of_value(node.kind, str(node.value))


def _of_object(node: _Node, nodes: list[_Node]) -> Iterator[Term]:
    """The terms that an object has by itself; its values are added to the nodes."""
    fields = {key: field_name(key) for key in node.value if isinstance(key, str)}
    known = set(fields.values())
    person = node.field in PERSONS or not known.isdisjoint(OF_A_PERSON)
    holds_ids = node.field in HOLDS_IDS
    values = {field: node.value[key] for key, field in fields.items()}
    for first, last in (("first_name", "last_name"), ("given_name", "family_name")):
        if isinstance(values.get(first), str) and isinstance(values.get(last), str):
            yield from full_name(values[first], values[last])
    for key, field in fields.items():
        kind = KIND_OF_FIELD.get(field)
        if (field == "name" and person) or (node.field == "name" and field in {"first", "last", "middle"}):
            kind = "NAME"
        elif field in TAIL_FIELDS:
            kind = _TAIL
        elif holds_ids and field == "id":
            kind = "REFERENCE"
        elif holds_ids and any(c.isdigit() for c in key):
            yield from terms_of_field("REFERENCE", key)
            # What stands under an id belongs to one of the field's own things.
            field = node.field  # noqa: PLW2901
        nodes.append(_Node(node.value[key], field, kind, node.strings))


_TAIL: Final = "TAIL"


def _of_value(kind: str, value: str) -> Iterator[Term]:
    return tail(value) if kind == _TAIL else terms_of_field(kind, value)


def field_name(key: str) -> str:
    """A field's name in lower case with underscores: "firstName", "First Name" and "first-name" alike."""
    return _BETWEEN_WORDS.sub("_", _CAMEL.sub("_", key[:64])).strip("_").lower()


def _json_in(text: str) -> Any:
    """The object, list or string that a string is the JSON of, None when it is none."""
    if not _JSON_BEGINS.match(text) or len(text) > _STRING_LENGTH_MAX:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _Entry(NamedTuple):
    length: int
    kind: str
    when: When
    open_start: bool  # no word boundary is needed there: the script has none
    open_end: bool


class Vocabulary:
    """Terms, to be found in texts in one pass; immutable."""

    def __init__(self, terms: Iterable[Term]) -> None:
        """Take the terms; of two alike, the more severe kind and the condition that marks more.

        Raises:
            LimitExceeded: more than ``TERMS_MAX`` different ones.
        """
        entries: dict[str, _Entry] = {}
        for text, kind, when in dict.fromkeys(terms):
            word = fold(read(text).text)[0].strip()
            if not word:
                continue
            before = entries.get(word)
            if before:
                kind = max(kind, before.kind, key=lambda kind: (SEVERITY[kind], kind))  # noqa: PLW2901
                when = min(when, before.when)  # noqa: PLW2901
            entries[word] = _Entry(
                len(word), kind, when, bool(UNSPACED.match(word[0])), bool(UNSPACED.match(word[-1]))
            )
            if len(entries) > TERMS_MAX:
                raise LimitExceeded("the session names too many things to look for; show its structure only")
        self._size = len(entries)
        self._automaton = automaton(entries.items())

    def __len__(self) -> int:
        return self._size

    def find(self, text: str) -> list[Span]:
        """Every term in a plain text (`Reading.text`), as whole words; spans may overlap."""
        if not self._size:
            return []
        folded, layers = fold(text)
        sure: list[Span] = []
        unsure: list[tuple[Span, When]] = []
        for last, entry in self._automaton.iter(folded):
            start, end = last + 1 - entry.length, last + 1
            if not _is_whole(folded, start, end, entry):
                continue
            place = start
            for layer in reversed(layers):
                start, end = layer.back(start, end)
            span = marked(start, end, entry.kind)
            if entry.when == When.TAIL:
                if _SPEAKS_OF_DIGITS.search(
                    folded, max(0, place - _TAIL_WORDS), place
                ) or _CARD_FOLLOWS.match(folded, last + 1):
                    sure.append(span)
            elif entry.when == When.ALWAYS or _is_called(folded, place, text, start):
                sure.append(span)
            else:
                unsure.append((span, entry.when))
        return sure + list(_believed(text, sure, unsure))


_TAIL_WORDS: Final = 32  # characters before last digits that are read
_CALLED_WORDS: Final = 24
_SPEAKS_OF_DIGITS: Final = re.compile(r"\bend|\blast|\bfour\b|digit|card|visa|amex|\*|\bx{2,}|\u2022|#")
_CARD_FOLLOWS: Final = re.compile(
    r"[ -]{1,2}(?:[a-z]{2,10} )?(?:card|visa|master ?card|amex|maestro|discover|one\b)"
)
# What somebody writes who begins words with capitals; without any such word, case tells nothing of a name.
_CAPITALISED: Final = re.compile(r"[A-Z\xc0-\xde][a-z\xdf-\xff]")
_LOWER_NAME_MIN: Final = 3
# Codes of airports and currencies stand in brackets behind what they are for, or beside one another.
_CODE_LENGTH: Final = 3
_CODE_BEFORE: Final = re.compile(r"\b[A-Z]{3}\W{1,3}(?:(?:to|and|or|via)\W)?\Z")
_CODE_AFTER: Final = re.compile(r"\W{1,3}(?:(?:to|and|or|via)\W)?[A-Z]{3}\b")
_CODE_AROUND: Final = 24
_ENDS_SENTENCE: Final = frozenset(".!?:;\n\r\"'*#-(>|")


def _is_whole(folded: str, start: int, end: int, entry: _Entry) -> bool:
    before, after = folded[start - 1 : start] if start else "", folded[end : end + 1]
    return (entry.open_start or not before.isalnum() or bool(UNSPACED.match(before))) and (
        entry.open_end or not after.isalnum() or bool(UNSPACED.match(after))
    )


def _is_called(folded: str, place: int, text: str, start: int) -> bool:
    """Whether somebody is called by the name that begins here: a capital, and words that lead to it.

    After a title it need not have a capital: "ms lee".
    """
    leads = CALLED if text[start].isupper() else TITLED
    return leads.search(folded[max(0, place - _CALLED_WORDS) : place]) is not None


def _believed(text: str, sure: list[Span], unsure: list[tuple[Span, When]]) -> Iterator[Span]:
    """Of the names that are words as well, those that are names where they stand."""
    if not unsure:
        return
    if not _CAPITALISED.search(text):
        for span, when in unsure:
            short = span.end - span.start < _LOWER_NAME_MIN
            if when == When.CAPITAL and not short and text[span.start].islower():
                yield span
    known = {span.start for span in sure} | {span.start for span, _ in unsure}
    capitals = [
        (span, when)
        for span, when in unsure
        if text[span.start].isupper() and not _is_code(text, span, known)
    ]
    names = [span for span in sure if span.kind == "NAME"] + [span for span, _ in capitals]
    starts, ends = {span.start for span in names}, {span.end for span in names}
    for span, when in capitals:
        # Two of a kind beside each other are a full name: "May Will", "Garcia, May".
        beside = any(span.end + gap in starts or span.start - gap in ends for gap in (1, 2))
        before = text[max(0, span.start - 8) : span.start].rstrip(" ")[-1:]
        inside = when == When.INSIDE and before != "" and before not in _ENDS_SENTENCE
        if when == When.CAPITAL or beside or inside:
            yield span


def _is_code(text: str, span: Span, known: set[int]) -> bool:
    """Whether three capitals are the code of something, as "MIA" is in "Miami (MIA)" and "MIA to EWR".

    Not where all is in capitals, nor beside what is a name itself (``known``: where terms begin).
    """
    start, end = span.start, span.end
    if end - start != _CODE_LENGTH or not text[start:end].isupper():
        return False
    around = text[max(0, start - _CODE_AROUND) : end + _CODE_AROUND]
    if not any(c.islower() for c in around.replace(" to ", " ").replace(" and ", " ")):
        return False
    if text[start - 1 : start] == "(" and text[end : end + 1] == ")":
        return True
    before, after = (
        _CODE_BEFORE.search(text, max(0, start - _CODE_AROUND), start),
        _CODE_AFTER.match(text, end),
    )
    return (before is not None and before.start() not in known) or (
        after is not None and after.end() - _CODE_LENGTH not in known
    )
