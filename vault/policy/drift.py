"""Config drift: how the configuration of now differs from the one that a session was made under."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from vault.encoding import canonical_json
from vault.errors import InvalidInput, LimitExceeded
from vault.model import check_name

Policy = Literal["old", "new", "ask"]

TOOLS_MAX: Final = 1_000
DOCUMENT_BYTES_MAX: Final = 256 * 1024  # as canonical JSON; to compare two, both are held whole
QUOTED_LENGTH_MAX: Final = 120  # of a name in a text; a longer one helps no reader
_NAMED_MAX: Final = 4  # names of one kind in a line

_KNOWN: Final = frozenset({"tools", "instructions", "instructions_sha256", "model"})
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_JOINERS: Final = frozenset("\u200c\u200d")  # scripts and emoji need them; they draw nothing by themselves
_QUOTES: Final = str.maketrans(dict.fromkeys('"“”„‟«»\uff02', "'"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDocument:
    """A configuration as far as it is compared: names, and the SHA-256 of what they stand for, in hex.

    ``tools`` and ``other`` are in the order of their names; None and empty mean that nothing is stated.
    """

    tools: Mapping[str, str] = field(repr=False)
    model: str | None = field(repr=False)
    instructions_sha256: str | None = field(repr=False)
    other: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What differs between the pinned and the current configuration; pairs are (pinned, current).

    ``compared`` says whether both documents were there; without them only the names were compared.
    ``lines`` say the same in plain words, with every name quoted on its line.
    """

    changed: bool
    compared: bool
    config: tuple[str | None, str | None] | None = field(repr=False)
    tools_gone: tuple[str, ...] = field(repr=False)
    tools_added: tuple[str, ...] = field(repr=False)
    tools_changed: tuple[str, ...] = field(repr=False)
    model: tuple[str | None, str | None] | None = field(repr=False)
    instructions_changed: bool
    other_changed: tuple[str, ...] = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Under which configuration to go on, or to ask, and why."""

    config: Policy
    reason: str


def normalised(document: Any) -> ConfigDocument:
    """What is compared of a configuration document.

    Args:
        document: a JSON object. ``tools``: an object from name to definition, or a list of objects with a
            ``name`` (or with a ``function`` that has one); ``TOOLS_MAX`` at most. ``instructions``: text, or
            ``instructions_sha256``: 64 hex digits. ``model``: a name. Each may be absent or null. Anything
            else is compared by name.

    Raises:
        InvalidInput: not of this shape, or not JSON (see ``vault.encoding.json_bytes``).
        LimitExceeded: more than ``TOOLS_MAX`` tools, ``DOCUMENT_BYTES_MAX`` bytes, or nested too deep.
    """
    if not isinstance(document, dict):
        raise InvalidInput("a config document is a JSON object")
    if len(canonical_json(document)) > DOCUMENT_BYTES_MAX:
        raise LimitExceeded(f"a config document has at most {DOCUMENT_BYTES_MAX:,} bytes as JSON")
    model = document.get("model")
    other = {check_name(name, "a name in a config document"): document[name] for name in document}
    return ConfigDocument(
        tools=_digests(_definitions(document.get("tools"))),
        model=None if model is None else check_name(model, "the model of a config document"),
        instructions_sha256=_instructions(document),
        other=_digests({name: value for name, value in other.items() if name not in _KNOWN}),
    )


def _definitions(tools: Any) -> dict[str, Any]:
    """Definitions by name, the same for both forms: the name itself is no part of what can change."""
    if tools is None:
        return {}
    if isinstance(tools, dict):
        named = list(tools.items())
    elif isinstance(tools, list):
        named = [(_name(tool), tool) for tool in tools]
    else:
        raise InvalidInput("the tools of a config document are an object by name or a list of objects")
    if len(named) > TOOLS_MAX:
        raise LimitExceeded(f"a config document has at most {TOOLS_MAX:,} tools")
    found: dict[str, Any] = {}
    for name, tool in named:
        if check_name(name, "a tool's name") in found:
            raise InvalidInput("two tools of a config document have the same name; keep one")
        repeats_name = isinstance(tool, dict) and tool.get("name") == name
        found[name] = {key: tool[key] for key in tool if key != "name"} if repeats_name else tool
    return found


def _name(tool: Any) -> Any:
    if not isinstance(tool, dict):
        raise InvalidInput("each tool in a list is an object with a name; or give an object of tools by name")
    function = tool.get("function")
    return tool.get("name", function.get("name") if isinstance(function, dict) else None)


def _instructions(document: dict[str, Any]) -> str | None:
    text, digest = document.get("instructions"), document.get("instructions_sha256")
    if text is not None and digest is not None:
        raise InvalidInput("a config document has instructions or instructions_sha256, not both")
    if text is not None:
        if not isinstance(text, str):
            raise InvalidInput("the instructions of a config document are text")
        return hashlib.sha256(text.encode()).hexdigest()
    if digest is None:
        return None
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest.lower()):
        raise InvalidInput("instructions_sha256 is a SHA-256 as 64 hex digits")
    return digest.lower()


def _digests(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: hashlib.sha256(canonical_json(values[name])).hexdigest() for name in sorted(values)}


def drift(
    pinned: str | None,
    pinned_document: ConfigDocument | None,
    current: str | None,
    current_document: ConfigDocument | None,
) -> Drift:
    """What differs between two configurations, each a name and a document; any of the four may be absent.

    Without a document on either side only the names are compared, and a line says so, unless there is
    neither a name nor a document anywhere. The order of tools never matters.
    """
    nothing = ConfigDocument(tools={}, model=None, instructions_sha256=None, other={})
    compared = pinned_document is not None and current_document is not None
    old = pinned_document if compared and pinned_document is not None else nothing
    new = current_document if compared and current_document is not None else nothing
    found = Drift(
        changed=pinned != current or old != new,
        compared=compared,
        config=None if pinned == current else (pinned, current),
        tools_gone=tuple(sorted(old.tools.keys() - new.tools.keys())),
        tools_added=tuple(sorted(new.tools.keys() - old.tools.keys())),
        tools_changed=_differing(old.tools, new.tools, old.tools.keys() & new.tools.keys()),
        model=None if old.model == new.model else (old.model, new.model),
        instructions_changed=old.instructions_sha256 != new.instructions_sha256,
        other_changed=_differing(old.other, new.other, old.other.keys() | new.other.keys()),
        lines=(),
    )
    if (pinned, pinned_document, current, current_document) == (None, None, None, None):
        return found
    lines = _changes(found)
    if not compared:
        lines.append(_not_compared(pinned_document, current_document))
    return replace(found, lines=tuple(lines))


def _differing(old: Mapping[str, str], new: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if old.get(name) != new.get(name)))


def _changes(found: Drift) -> list[str]:
    return [
        *_moved("configuration", found.config),
        *_named("Tools that no longer exist", found.tools_gone),
        *_named("Tools with another definition", found.tools_changed),
        *_named("New tools", found.tools_added),
        *_moved("model", found.model),
        *(["The instructions changed."] if found.instructions_changed else []),
        *_named("Other settings that changed", found.other_changed),
    ]


def _not_compared(pinned_document: ConfigDocument | None, current_document: ConfigDocument | None) -> str:
    missing = "the current one was not given" if pinned_document else "the old one was not recorded"
    if pinned_document is None and current_document is None:
        missing = "there are none"
    return f"The documents behind the names cannot be compared: {missing}."


def _moved(what: str, pair: tuple[str | None, str | None] | None) -> list[str]:
    if pair is None:
        return []
    old, new = pair
    now = f"No {what} is named now" if new is None else f"The {what} is {quoted(new)} now"
    return [f"{now}; none was named before." if old is None else f"{now}; it was {quoted(old)}."]


def _named(what: str, names: tuple[str, ...]) -> list[str]:
    shown = ", ".join(map(quoted, names[:_NAMED_MAX]))
    rest = f" and {len(names) - _NAMED_MAX:,} more" if len(names) > _NAMED_MAX else ""
    return [f"{what}: {shown}{rest}."] if names else []


def choose(policy: Policy, drift: Drift) -> Choice:
    """Under which configuration to go on.

    Without drift it is the old one. A policy for a configuration that has neither a name nor a document to
    find it by is answered with "ask": going on under another than the one wanted is nobody's wish.

    Args:
        policy: "old", "new" or "ask".
        drift: from ``drift``.

    Raises:
        InvalidInput: another policy.
    """
    if policy not in ("old", "new", "ask"):
        raise InvalidInput('a config policy is "old", "new" or "ask"')
    if not drift.changed:
        unseen = "" if drift.compared else " in the names; the documents cannot be compared"
        return Choice(config="old", reason=f"nothing changed{unseen}")
    if policy == "ask":
        return Choice(config="ask", reason="the configuration changed, and the policy is to ask")
    old, new = drift.config or ("", "")
    if not drift.compared and (old if policy == "old" else new) is None:
        return Choice(config="ask", reason=f"the policy is the {policy} configuration, but none is named")
    return Choice(config=policy, reason=f"the configuration changed, and the policy is the {policy} one")


def pending_tools_gone(drift: Drift, pending_tool_names: Iterable[str]) -> tuple[str, ...]:
    """The tools that a session still waits for and that no longer exist, each once, in order of name."""
    return tuple(sorted(set(pending_tool_names) & set(drift.tools_gone)))


def plural(count: int, noun: str) -> str:
    """A count and its noun: "1 hour", "1,200 hours"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def quoted(name: str) -> str:
    """A name that a user gave, in quotes, on one line, at most ``QUOTED_LENGTH_MAX`` characters of it.

    Double quotes become single ones, so that the name ends where its quotes end.
    """
    return f'"{one_line(name, QUOTED_LENGTH_MAX).translate(_QUOTES)}"'


def one_line(text: str, limit: int) -> str:
    """At most ``limit`` characters of a text, on one line, without what is hidden, commands or reorders."""
    drawn = "".join(map(_drawn, text[: limit * 4]))  # names are short; four times the limit fills the line
    line = " ".join(drawn.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _drawn(character: str) -> str:
    if character.isspace():
        return " "
    # Variation selectors 17 to 256 carry whole bytes unseen, though Unicode counts them as printable.
    is_hidden = not character.isprintable() or "\U000e0100" <= character <= "\U000e01ef"
    return "" if is_hidden and character not in _JOINERS else character
