"""Reads a retention policy: a TOML document to a ``Policy``, or one sentence that says what to write instead.

Nothing of a document is quoted in an error: it says the file, the line, the field, and how it is written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vault.encoding import canonical_json
from vault.errors import InvalidInput
from vault.model import LABELS_MAX, LEVELS, NAME_LENGTH_MAX, TYPE_LENGTH_MAX, check_name
from vault.policy.durations import DAY_US, Duration, longest_us, may_exceed, parse_duration, parse_or_zero
from vault.policy.redaction import Fault, line_of
from vault.policy.rules import (
    ANCHORS,
    APPLIES_TO,
    BASES,
    DERIVED_KINDS,
    DERIVED_OPTIONS,
    KINDS,
    ON_EXPIRE,
    REQUIRED_KINDS,
    Keep,
    Policy,
    Rule,
)
from vault.policy.tables import tables

__all__ = ["DOCUMENT_BYTES_MAX", "RULES_MAX", "Keep", "Policy", "Rule", "read_policy"]

DOCUMENT_BYTES_MAX: Final = 256 * 1024
RULES_MAX: Final = 500
TYPES_MAX: Final = 32  # event types that one rule names
VERSION_MAX: Final = 2**31 - 1
REF_LENGTH_MAX: Final = 200

_ID: Final = re.compile(r"[a-z0-9-]{1,64}")
_TYPE: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*(\.\*)?")
_DOMAIN: Final = b"session-vault retention policy 1\0"
#: What has an end; for anything else a period that is counted from it would never pass.
_WITH_AN_END: Final = frozenset({"session", "event", "structure"})


def _one_of(words: tuple[str, ...]) -> str:
    return ", ".join(f'"{word}"' for word in words)


_INSTEAD: Final = {
    "version": "write a whole number from 1 on, one higher for each new document of the same name",
    "name": "write 1 to 64 of a-z, 0-9 and -",
    "retention": f"write 1 to {RULES_MAX} rules, each under its own [[retention]]",
    "redaction": "write field rules, each under its own [[redaction]]",
    "id": "write 1 to 64 of a-z, 0-9 and -",
    "match": 'write what the rule is about, for example { kind = ["session"], labels = {} }',
    "match.kind": f"write a list of one or more of {_one_of(KINDS)}, each once",
    "match.labels": (
        f"write at most {LABELS_MAX} labels and their values, of 1 to {NAME_LENGTH_MAX} characters each, "
        'for example { project = "north" }; there are no patterns'
    ),
    "match.types": (
        f'write a list of 1 to {TYPES_MAX} event types, for example ["tool.returned", "message.*"], '
        'in a rule whose only kind is "event"'
    ),
    "match.level": f'write one of {_one_of(LEVELS)}, in a rule whose only kind is "event"',
    "anchor": f"write one of {_one_of(ANCHORS)}",
    "keep_min": (
        'write "0d", or a period such as "6mo", or { for = "6mo", basis = "legal_obligation", '
        'ref = "AI Act 26(6)" }'
    ),
    "keep_min.basis": f"write one of {_one_of(BASES)}",
    "keep_min.ref": f"write at most {REF_LENGTH_MAX} printable characters that say where it is written",
    "expire_after": 'write a period such as "90d", or "never"',
    "on_expire": f"write one of {_one_of(ON_EXPIRE)}",
    "grace": 'write "0d", or a period such as "7d"',
    "derived": (
        f"write kinds of {_one_of(DERIVED_KINDS)}, each with one of {_one_of(DERIVED_OPTIONS)}, "
        'for example { summary = "recompute" }'
    ),
    "applies_to": f"write one of {_one_of(APPLIES_TO)}",
}
_UNKNOWN_IN_RULE: Final = (
    "there is no field of this name; remove it (a rule has id, match, anchor, keep_min, expire_after, "
    "on_expire, grace, derived, applies_to)"
)
_UNKNOWN_BELOW: Final = {
    "match": "there is no field of this name; remove it (match has kind, labels, types, level)",
    "keep_min": "there is no field of this name; remove it (keep_min has for, basis, ref)",
}
_UNKNOWN: Final = (
    "there is no field of this name; remove it (a document has version, name, [[retention]], [[redaction]])"
)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Match(_Table):
    kind: Annotated[list[str], Field(min_length=1, max_length=len(KINDS))]
    labels: Annotated[dict[str, str], Field(max_length=LABELS_MAX)] = {}
    types: Annotated[list[str], Field(min_length=1, max_length=TYPES_MAX)] | None = None
    level: Annotated[str, Field(min_length=1)] | None = None


class _KeepTable(_Table):
    for_: Any = Field(alias="for")
    basis: str
    ref: str = Field(default="", max_length=REF_LENGTH_MAX)


class _RuleTable(_Table):
    id: str
    match: _Match
    anchor: str
    keep_min: Any = "0d"  # a period or a table; read by `_keep`
    expire_after: Any
    on_expire: str = ON_EXPIRE[0]
    grace: Any = "0d"
    derived: dict[str, str] = {}
    applies_to: str = APPLIES_TO[0]


class _Document(_Table):
    version: int = Field(ge=1, le=VERSION_MAX)
    name: str
    retention: Annotated[list[_RuleTable], Field(min_length=1, max_length=RULES_MAX)]
    redaction: Any = None  # the other half of a policy document; not read here


def read_policy(text: str, *, file: str) -> Policy:
    """The retention rules of a policy document in TOML; ``file`` is its name in errors.

    Raises:
        InvalidInput: not TOML, or something in it is wrong: says file, line, field and what to write instead,
            and quotes nothing of it.
    """
    if len(text) > DOCUMENT_BYTES_MAX or len(text.encode(errors="replace")) > DOCUMENT_BYTES_MAX:
        raise InvalidInput(f"{file}: larger than {DOCUMENT_BYTES_MAX // 1024} KiB; write fewer rules")
    try:
        document = _Document.model_validate(tables(text, file=file, what="a policy"))
    except ValidationError as error:
        raise _refusal(file, text, *_first(error)) from None
    if not _ID.fullmatch(document.name):
        raise _refusal(file, text, ("name",), Fault("name", _INSTEAD["name"]))
    rules: list[Rule] = []
    for number, table in enumerate(document.retention):
        for found in _faults(table, {rule.id for rule in rules}):
            raise _refusal(file, text, ("retention", number, found.field.partition(".")[0]), found)
        try:
            rules.append(_rule(table))
        except _Wrong as wrong:
            raise _refusal(file, text, ("retention", number, wrong.key), wrong.fault) from None
    for kind in REQUIRED_KINDS:
        if not any(kind in rule.kinds and not rule.labels for rule in rules):
            instead = f'add a rule without labels for the kind "{kind}": nothing is kept without a rule'
            raise _refusal(file, text, ("retention",), Fault("retention", instead))
    digest = _digest(document.name, document.version, rules)
    return Policy(name=document.name, version=document.version, rules=tuple(rules), digest=digest, text=text)


class _Wrong(Exception):
    """Carries the fault of a field to where its line is known; ``key`` is what stands in its line."""

    def __init__(self, key: str, fault: Fault) -> None:
        super().__init__(key)
        self.key, self.fault = key, fault


def _first(error: ValidationError) -> tuple[tuple[str | int, ...], Fault]:
    """The place of the first thing that pydantic found, and what to write there."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = tuple(part for part in first["loc"] if isinstance(part, str | int))
    names = [part for part in place if isinstance(part, str)]
    in_rule = names[0] == "retention" and len(names) > 1
    if in_rule:
        names = names[1:]
    return place[:3], _said(names, first["type"], in_rule=in_rule)


def _said(names: list[str], kind: str, *, in_rule: bool) -> Fault:
    # Only names of ours are said back: whoever writes `labels` chooses what stands below it.
    field = next((name for name in (".".join(names[:2]), names[0]) if name in _INSTEAD), "")
    if kind == "extra_forbidden" or not field:
        below = _UNKNOWN_BELOW.get(names[0]) if in_rule and len(names) > 1 else None
        return Fault("unknown field", below or (_UNKNOWN_IN_RULE if in_rule else _UNKNOWN))
    return Fault(field, ("is missing; " if kind == "missing" else "") + _INSTEAD[field])


def _refusal(file: str, text: str, place: tuple[str | int, ...], found: Fault) -> InvalidInput:
    return InvalidInput(f"{file}, line {line_of(text, place)}: {found.field}: {found.instead}")


# -------------------------------------------------------------------------------------------------- rules


def _faults(table: _RuleTable, ids: set[str]) -> Iterator[Fault]:
    """What pydantic does not see: words that are none of ours, and what does not go together."""
    if not _ID.fullmatch(table.id):
        yield Fault("id", _INSTEAD["id"])
    if table.id in ids:
        yield Fault("id", "another rule has it already; write another one")
    yield from _match_faults(table.match)
    for field, word, words in (
        ("anchor", table.anchor, ANCHORS),
        ("on_expire", table.on_expire, ON_EXPIRE),
        ("applies_to", table.applies_to, APPLIES_TO),
    ):
        if word not in words:
            yield Fault(field, _INSTEAD[field])
    if table.anchor == "ended" and not set(table.match.kind) <= _WITH_AN_END:
        yield Fault(
            "anchor", f'only these end: {", ".join(sorted(_WITH_AN_END))}; write "created" or "last_event"'
        )
    yield from _derived_faults(table.derived)


def _match_faults(match: _Match) -> Iterator[Fault]:
    if not set(match.kind) <= set(KINDS) or len(set(match.kind)) != len(match.kind):
        yield Fault("match.kind", _INSTEAD["match.kind"])
    if not all(_is_label(part) for pair in match.labels.items() for part in pair):
        yield Fault("match.labels", _INSTEAD["match.labels"])
    only_events = match.kind == ["event"]
    if match.types is not None and not (only_events and all(map(_is_type, match.types))):
        yield Fault("match.types", _INSTEAD["match.types"])
    if match.level is not None and not (only_events and match.level in LEVELS):
        yield Fault("match.level", _INSTEAD["match.level"])


def _derived_faults(derived: dict[str, str]) -> Iterator[Fault]:
    if not set(derived) <= set(DERIVED_KINDS) or not set(derived.values()) <= set(DERIVED_OPTIONS):
        yield Fault("derived", _INSTEAD["derived"])
    elif any(option == "detach" and kind != "artifact" for kind, option in derived.items()):
        # What was merged from two sources cannot be told apart again.
        yield Fault(
            "derived",
            'only an artifact can be detached, all else may repeat its source: write "erase_with_any", '
            '"recompute" or "erase_with_last"',
        )


def _is_label(text: str) -> bool:
    try:
        check_name(text, "a label")
    except InvalidInput:
        return False
    # A "*" would look like a pattern and match nothing.
    return text == text.strip() and text.isprintable() and "*" not in text


def _is_type(text: str) -> bool:
    return len(text) <= TYPE_LENGTH_MAX and _TYPE.fullmatch(text) is not None


def _rule(table: _RuleTable) -> Rule:
    keep = _keep(table.keep_min)
    expire = _period("expire_after", table.expire_after, never=True)
    if keep.duration and expire and may_exceed(keep.duration, expire):
        longest = longest_us(keep.duration) // DAY_US
        instead = (
            f"can be longer than expire_after; write a shorter one, or expire_after above {longest} days"
        )
        raise _Wrong("keep_min", Fault("keep_min", instead))
    return Rule(
        id=table.id,
        kinds=tuple(kind for kind in KINDS if kind in table.match.kind),
        labels=dict(sorted(table.match.labels.items())),
        types=tuple(sorted(set(table.match.types or ()))),
        level=table.match.level or "",
        anchor=table.anchor,
        keep_min=keep,
        expire_after=expire,
        on_expire=table.on_expire,
        grace=_period("grace", table.grace),
        derived={kind: table.derived[kind] for kind in DERIVED_KINDS if kind in table.derived},
        applies_to=table.applies_to,
    )


def _keep(found: Any) -> Keep:
    if not isinstance(found, dict):
        return Keep(duration=_period("keep_min", found))
    try:
        table = _KeepTable.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        names = ["keep_min", *(str(part) for part in first["loc"])]
        raise _Wrong("keep_min", _said(names, first["type"], in_rule=True)) from None
    for field, good in (("keep_min.basis", table.basis in BASES), ("keep_min.ref", table.ref.isprintable())):
        if not good:
            raise _Wrong("keep_min", Fault(field, _INSTEAD[field]))
    return Keep(duration=_period("keep_min", table.for_), basis=table.basis, ref=table.ref)


def _period(field: str, text: Any, *, never: bool = False) -> Duration | None:
    try:
        return parse_duration(text) if never else parse_or_zero(text)
    except InvalidInput as refusal:
        raise _Wrong(field, Fault(field, str(refusal))) from None


# ------------------------------------------------------------------------------------------------- digest


def _digest(name: str, version: int, rules: list[Rule]) -> bytes:
    """SHA-256 of what the rules say, in one form for all ways to write it."""
    form = {"name": name, "version": version, "rules": [_form(rule) for rule in rules]}
    return hashlib.sha256(_DOMAIN + canonical_json(form)).digest()


def _form(rule: Rule) -> dict[str, Any]:
    keep = rule.keep_min
    return {
        "id": rule.id,
        "match": [list(rule.kinds), dict(rule.labels), list(rule.types), rule.level],
        "anchor": rule.anchor,
        "keep_min": [*_numbers(keep.duration), keep.basis, keep.ref],
        "expire_after": _numbers(rule.expire_after),
        "on_expire": rule.on_expire,
        "grace": _numbers(rule.grace),
        "derived": dict(rule.derived),
        "applies_to": rule.applies_to,
    }


def _numbers(duration: Duration | None) -> list[int]:
    return [duration.months, duration.us] if duration else [0, 0]
