"""How much of an event a view shows: the order of levels, and rules for fields, read from a document.

**Levels.** L0 structure (types, times, shapes) is less than L1 masked, less than L2 pseudonymised, less than
L3 full. The level *of a view* is the least of everything that bounds it (``effective``). The level *of an
event* is the highest view in which its content is shown: one stored at L1 is never shown above L1, to
anybody; the default, L3, leaves it to the other bounds. A writer may ask for more protection than the policy
gives, never for less (``raised``).

**Field rules** say what a view of each level does with the value at a place; ``vault.policy.places`` finds
the rule for a place. What no rule speaks of is hidden at L0 and L1, and goes through the detectors at L2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vault.errors import InvalidInput
from vault.model import LEVELS
from vault.policy.tables import tables

RULES_MAX: Final = 1_000  # rules in one document
POINTER_LENGTH_MAX: Final = 256  # characters
SEGMENTS_MAX: Final = 32
TYPES_MAX: Final = 32  # event types that one rule names
DOCUMENT_LENGTH_MAX: Final = 2**20  # characters of TOML

#: What can be done with a value, the stricter first: every action shows nothing that a later one hides.
#: ``drop`` leaves a marker; ``shape`` says what JSON type it is; ``mask`` says the rule's kind as well;
#: ``pseudonym`` puts a stable name in its place; ``detect`` hides what the detectors find in it; ``keep``
#: shows it, though at L0 and L1 only if it is one word: what stands there may not be what the rule expects.
ACTIONS: Final = ("drop", "shape", "mask", "pseudonym", "detect", "keep")

#: Classes, and what a rule of the class does at L0, L1 and L2 where it says nothing else. ``unknown`` is also
#: how a value is treated that no rule speaks of.
CLASSES: Final = {
    "public": ("shape", "keep", "keep"),
    "personal": ("shape", "mask", "pseudonym"),
    "sensitive": ("drop", "mask", "mask"),
    "secret": ("drop", "drop", "drop"),
    "unknown": ("shape", "mask", "detect"),
}
#: L0 holds no free text and L1 nothing that links one event to another.
_AT: Final = (
    ("drop", "shape", "mask", "keep"),
    ("drop", "shape", "mask", "detect", "keep"),
    ACTIONS,
)
_KIND: Final = re.compile(r"[A-Z][A-Z0-9_]{0,31}")
_TYPE: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*(\.\*)?")


class Bound(NamedTuple):
    """A level and why it is that one; the reason names bounds and levels, never people."""

    level: str
    reason: str


def effective(
    *, role: str, purpose: str | None, event: str, rule: str | None, grant: str | None, subject: str | None
) -> Bound:
    """The level of a view: the least of the levels that each bound allows. None: it sets no bound.

    ``subject`` is what the state of the person allows (a restricted one: L0). A word that is no level allows
    L0 only, so a typing error never shows more.
    """
    given = {
        "role": role,
        "purpose": purpose,
        "event": event,
        "field rule": rule,
        "grant": grant,
        "subject's state": subject,
    }
    bounds = {name: level if level in LEVELS else "L0" for name, level in given.items() if level is not None}
    least = min(bounds.values())
    names = [name for name, level in bounds.items() if level == least]
    unknown = [name for name in names if given[name] not in LEVELS]
    reason = f"{least}, because the {' and the '.join(names)} allow{'s' * (len(names) == 1)} no more"
    if unknown:
        reason += f"; what the {' and the '.join(unknown)} said is not a level"
    return Bound(least, reason)


def raised(policy_level: str, asked_level: str | None) -> Bound:
    """The level an event is stored at: what the policy says, or less when the writer asks for less.

    Raises:
        InvalidInput: either is not a level.
    """
    if policy_level not in LEVELS or asked_level not in {*LEVELS, None}:
        raise InvalidInput(f"a level is one of {', '.join(LEVELS)}")
    if asked_level is None or asked_level == policy_level:
        return Bound(policy_level, f"{policy_level}, as the policy says")
    if asked_level < policy_level:
        return Bound(
            asked_level, f"{asked_level}, as the writer asked; the policy would allow {policy_level}"
        )
    return Bound(policy_level, f"{policy_level}, as the policy says; a writer cannot ask for less protection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What views of L0, L1 and L2 do with the values at a pointer.

    ``pointer`` is an RFC 6901 JSON Pointer that begins with ``/payload`` or a wildcard: ``*`` is any one
    segment, ``**`` any number of them, none included. Words match without regard to case, ``-``, ``_`` and
    spaces: ``api_key`` is ``apiKey`` as well. JSON inside a string goes on below the string. A rule that
    names an object, a list or a string with JSON in it is the most that is shown of anything in it; one that
    ends in ``/**`` speaks of each value below, one by one.

    ``types`` are the event types it holds for (``message.*``: all that begin so); none: every type. ``kind``
    is the word of the mask and the pseudonym. An action left out is the class's own.

    Raises:
        InvalidInput: the rule contradicts itself; says what to write instead.
    """

    pointer: str
    class_: str
    L0: str = ""
    L1: str = ""
    L2: str = ""
    types: tuple[str, ...] = ()
    kind: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        """Take the class's own actions where none is said, then check."""
        for name, action in zip(LEVELS, CLASSES.get(self.class_, ()), strict=False):
            object.__setattr__(self, name, getattr(self, name) or action)
        for found in _faults(self):
            raise InvalidInput(f"{found.field}: {found.instead}")

    @property
    def actions(self) -> tuple[str, str, str]:
        """The actions at L0, L1 and L2."""
        return self.L0, self.L1, self.L2

    @property
    def segments(self) -> tuple[str, ...]:
        """The pointer's segments, unescaped (RFC 6901 §4) except for the two wildcards."""
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in self.pointer[1:].split("/"))

    def holds_for(self, event_type: str) -> bool:
        """Whether the rule speaks of events of this type."""
        return not self.types or any(
            event_type.startswith(name[:-1]) if name.endswith(".*") else event_type == name
            for name in self.types
        )


class Fault(NamedTuple):
    """Which field of a document is wrong, and what to write instead."""

    field: str
    instead: str


_POINTER = (
    'write a JSON Pointer that begins with "/payload/" or "/**/", such as "/payload/**/email": "*" is one '
    f'whole segment, "**" any number; at most {POINTER_LENGTH_MAX} characters and {SEGMENTS_MAX} segments; '
    '"~0" is "~" and "~1" is "/"'
)
_ACTION = 'write one of {}, or leave it out for what the class "{}" does'
_INSTEAD: Final = {
    "pointer": _POINTER,
    "class": f"write one of {', '.join(CLASSES)}",
    "types": f'write a list of 1 to {TYPES_MAX} event types, for example ["message.*", "tool.returned"]',
    "kind": 'write 1 to 32 of A-Z, 0-9 and _, beginning with a letter, for example "EMAIL"',
    "why": "write one sentence of at most 300 characters",
    "version": "write version = 1",
    "name": "write 1 to 64 of a-z, 0-9 and -",
    "redaction": f"write at most {RULES_MAX} tables, each under its own [[redaction]]",
    **{
        level: f"write one of {', '.join(allowed)}, or leave it out for what the class does"
        for level, allowed in zip(LEVELS, _AT, strict=False)
    },
}
_UNKNOWN = (
    "there is no field of this name; remove it (a rule has pointer, class, types, kind, why, L0, L1, L2)"
)


def _faults(rule: Rule) -> Iterator[Fault]:
    if rule.class_ not in CLASSES:
        yield Fault("class", _INSTEAD["class"])
        return  # without a class there are no actions to check
    if not _is_pointer(rule.pointer):
        yield Fault("pointer", _POINTER)
    if rule.kind and not _KIND.fullmatch(rule.kind):
        yield Fault("kind", _INSTEAD["kind"])
    if len(rule.types) > TYPES_MAX or not all(_TYPE.fullmatch(name) for name in rule.types):
        yield Fault("types", _INSTEAD["types"])
    for level, action, allowed in zip(LEVELS, rule.actions, _AT, strict=False):
        if action not in allowed:
            yield Fault(level, _INSTEAD[level])
        elif rule.class_ == "secret" and action != "drop":
            yield Fault(level, 'a secret is shown in no view: write "drop", or leave it out')
    for number, (lower, upper) in enumerate(pairwise(rule.actions), 1):
        if {lower, upper} <= set(ACTIONS) and ACTIONS.index(lower) > ACTIONS.index(upper):
            later = ", ".join(ACTIONS[ACTIONS.index(lower) :])
            yield Fault(LEVELS[number], f"shows less than L{number - 1}; write one of {later}")


def _is_pointer(pointer: str) -> bool:
    if not pointer.startswith("/") or len(pointer) > POINTER_LENGTH_MAX:
        return False
    segments = pointer[1:].split("/")
    # No other place is ever asked about: a rule for one would protect nothing and say so nowhere.
    return (
        segments[0] in {"payload", "*", "**"}
        and len(segments) <= SEGMENTS_MAX
        and not re.search(r"~(?![01])", pointer)
        and all(part in {"*", "**"} or "*" not in part for part in segments)
    )


# --------------------------------------------------------------------------------------------- documents


class _RuleTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    pointer: str | Annotated[list[str], Field(min_length=1, max_length=RULES_MAX)]
    class_: str = Field(alias="class")
    L0: str = Field(default="", min_length=1)
    L1: str = Field(default="", min_length=1)
    L2: str = Field(default="", min_length=1)
    types: Annotated[list[str], Field(min_length=1, max_length=TYPES_MAX)] | None = None
    kind: str = Field(default="", min_length=1)
    why: str = Field(default="", max_length=300)


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal[1]
    name: str = Field(pattern=r"^[a-z0-9-]{1,64}$")
    redaction: list[_RuleTable] = Field(default_factory=list, max_length=RULES_MAX)
    retention: Any = None  # the other half of a policy document; not read here


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionDocument:
    """The field rules of a policy document, in its order."""

    name: str
    version: int
    rules: tuple[Rule, ...]


def read_document(text: str, *, file: str) -> RedactionDocument:
    """The field rules of a policy document in TOML; ``file`` is its name in errors.

    A table may have a list of pointers, which makes a rule of each.

    Raises:
        InvalidInput: not TOML, or something in it is wrong: says file, line, field and what to write instead,
            and quotes nothing of it.
    """
    if len(text) > DOCUMENT_LENGTH_MAX:
        raise InvalidInput(f"{file}: longer than {DOCUMENT_LENGTH_MAX} characters; split it")
    try:
        document = _Document.model_validate(tables(text, file=file, what="field rules"))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = tuple(part for part in first["loc"] if isinstance(part, str | int))
        raise _refusal(file, text, place, _said(place, first["type"])) from None
    entries = enumerate(document.redaction)
    rules = [rule for number, table in entries for rule in _rules(table, number, file, text)]
    if len(rules) > RULES_MAX:
        raise InvalidInput(f"{file}: more than {RULES_MAX} pointers; write fewer, with * and **")
    return RedactionDocument(name=document.name, version=document.version, rules=tuple(rules))


def _rules(table: _RuleTable, number: int, file: str, text: str) -> Iterator[Rule]:
    """A rule for each pointer of a table."""
    said = table.model_dump(exclude={"pointer", "types"}) | {"types": tuple(table.types or ())}
    for pointer in [table.pointer] if isinstance(table.pointer, str) else table.pointer:
        try:
            yield Rule(pointer=pointer, **said)
        except InvalidInput as refusal:
            field, _, instead = str(refusal).partition(": ")
            raise _refusal(file, text, ("redaction", number, field), Fault(field, instead)) from None


def _said(place: tuple[str | int, ...], kind: str) -> Fault:
    """The field of a pydantic location, if it is one of ours, and what to write there."""
    names = [part for part in place if isinstance(part, str)]
    field = names[1] if names[0] == "redaction" and len(names) > 1 else names[0]
    if kind == "extra_forbidden" or field not in _INSTEAD:
        return Fault(
            "unknown field", _UNKNOWN if len(names) > 1 else "a document has version, name, [[redaction]]"
        )
    return Fault(field, ("is missing; " if kind == "missing" else "") + _INSTEAD[field])


def _refusal(file: str, text: str, place: tuple[str | int, ...], found: Fault) -> InvalidInput:
    return InvalidInput(f"{file}, line {line_of(text, place)}: {found.field}: {found.instead}")


def line_of(text: str, place: tuple[str | int, ...]) -> int:
    """The line, from 1, of a place in a TOML text: ``("redaction", 2, "class")`` or ``("name",)``.

    tomllib tells no lines of what it has read. This knows headers, keys and multi-line strings, as a document
    of rules has them. Where a key cannot be found (missing, in an inline table) it is the line of what would
    hold it.
    """
    lines = _without_strings(text).splitlines()
    name, *rest = place
    headers = [number for number, line in enumerate(lines) if _header(line) == f"[[{name}]]"]
    if rest and isinstance(rest[0], int) and rest[0] < len(headers):
        header = headers[rest[0]]
        found = _key_line(lines, header + 1, str(rest[1])) if len(rest) > 1 else None
        return (header if found is None else found) + 1
    found = _key_line(lines, 0, str(name))
    return (found if found is not None else headers[0] if headers else 0) + 1


def _header(line: str) -> str | None:
    """A table's header without spaces and quotes; a line of a list of lists is none."""
    found = re.fullmatch(r"\s*(\[{1,2})\s*[\"']?([\w.-]+)[\"']?\s*(\]{1,2})\s*(?:#.*)?", line)
    return found and "".join(found.groups())


def _key_line(lines: list[str], start: int, key: str) -> int | None:
    """Where a key is assigned between here and the next header."""
    for number, line in enumerate(lines[start:], start):
        if _header(line):
            return None
        if re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return None


def _without_strings(text: str) -> str:
    """The text with the content of its multi-line strings blanked, line for line."""
    pattern = r"#[^\n]*|\"\"\"(?:\\.|[^\\])*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'"

    def blanked(found: re.Match[str]) -> str:
        return '""' + "\n" * found[0].count("\n") if found[0][:3] in {'"""', "'''"} else found[0]

    return re.sub(pattern, blanked, text, flags=re.DOTALL)
