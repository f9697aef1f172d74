"""The highest level at which events of a type are stored, whatever their writer asks for, from a document.

A policy lowers what others than the owner ever see of a type; a writer can ask for more protection than
that, never for less. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vault.errors import InvalidInput
from vault.model import LEVELS
from vault.policy.redaction import line_of
from vault.policy.tables import tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEVEL_RULES_MAX: Final = 1_000  # entries in one document
LEVELS_LENGTH_MAX: Final = 2**20  # characters of TOML
_FULL: Final = LEVELS[-1]
_EVERY: Final = "*"
_TYPE: Final = re.compile(r"\*|[a-z0-9_-]+(\.[a-z0-9_-]+)*(\.\*)?")

_INSTEAD: Final = {
    "type": 'write an event type, "tool.returned"; "tool.*" for all that begin so, or "*" for every type',
    "level": f"write one of {', '.join(LEVELS)}: the highest view that others than the owner get",
    "why": "write one sentence of at most 300 characters",
    "version": "write version = 1",
    "name": "write 1 to 64 of a-z, 0-9 and -",
    "levels": f"write at most {LEVEL_RULES_MAX} tables, each under its own [[levels]]",
}
_UNKNOWN: Final = (
    "there is no field of this name; remove it (a document has version, name and [[levels]], each of those "
    "type, level and why)"
)


@dataclass(frozen=True, slots=True)
class Levels:
    """The level of each event type: of the entry that names it most exactly; L3 where none does."""

    exact: Mapping[str, str] = field(default_factory=dict)
    begins: tuple[tuple[str, str], ...] = ()  # beginnings with their dot, the longest first

    def of(self, event_type: str) -> str:
        """The highest level that the policy allows for a type."""
        found = self.exact.get(event_type)
        if found is not None:
            return found
        for begin, level in self.begins:
            if event_type.startswith(begin):
                return level
        return _FULL

    def stored_at(self, event_type: str, asked: str) -> str:
        """The level an event is stored at: what its writer asks for, or less when the policy allows less."""
        return min(self.of(event_type), asked)


def made_of(entries: Iterable[tuple[str, str]]) -> Levels:
    """The levels of types and beginnings of types."""
    exact, begins = dict[str, str](), dict[str, str]()
    for name, level in entries:
        if name.endswith(_EVERY):
            begins[name.removesuffix(_EVERY)] = level
        else:
            exact[name] = level
    longest_first = sorted(begins.items(), key=lambda entry: len(entry[0]), reverse=True)
    return Levels(exact, tuple(longest_first))


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    type: Annotated[str, Field(pattern=rf"^({_TYPE.pattern})$", max_length=64)]
    level: Literal["L0", "L1", "L2", "L3"]
    why: Annotated[str, Field(min_length=1, max_length=300)] = "-"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal[1]
    name: str = Field(pattern=r"^[a-z0-9-]{1,64}$")
    levels: list[_Entry] = Field(default_factory=list, max_length=LEVEL_RULES_MAX)


def read_levels(text: str, *, file: str) -> Levels:
    """The levels of a policy document in TOML; ``file`` is its name in errors.

    Raises:
        InvalidInput: not TOML, or something in it is wrong: says file, line, field and what to write instead,
            and quotes nothing of it.
    """
    if len(text) > LEVELS_LENGTH_MAX:
        raise InvalidInput(f"{file}: longer than {LEVELS_LENGTH_MAX} characters; write fewer entries")
    try:
        document = _Document.model_validate(tables(text, file=file, what="levels of event types"))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = tuple(part for part in first["loc"] if isinstance(part, str | int))
        raise _refusal(file, text, place, first["type"]) from None
    seen: set[str] = set()
    for number, entry in enumerate(document.levels):
        if entry.type in seen:
            line = line_of(text, ("levels", number, "type"))
            raise InvalidInput(f"{file}, line {line}: type: a type stands here twice; keep one of them")
        seen.add(entry.type)
    return made_of((entry.type, entry.level) for entry in document.levels)


def _refusal(file: str, text: str, place: tuple[str | int, ...], kind: str) -> InvalidInput:
    names = [part for part in place if isinstance(part, str)]
    name = names[-1] if names else ""
    at = f"{file}, line {line_of(text, place or ('version',))}"
    if kind == "extra_forbidden" or name not in _INSTEAD:
        return InvalidInput(f"{at}: unknown field: {_UNKNOWN}")
    missing = "is missing; " if kind == "missing" else ""
    return InvalidInput(f"{at}: {name}: {missing}{_INSTEAD[name]}")
