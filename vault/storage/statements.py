"""The named statements of ``statements.sql``."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

_NAME = re.compile(r"^-- name: (\w+)\n-- .+\n", re.MULTILINE)


def parse(text: str) -> dict[str, str]:
    """Statements by name; each starts with a name line and one line of purpose."""
    parts = _NAME.split(text)
    return {name: body.strip().removesuffix(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def ordered(statement: str, fields: tuple[str, ...]) -> str:
    """The statement for a driver that binds by place, its parameters in the order of a row's fields.

    Binding a row as it is takes half the time of binding by name; the reviewed text stays the named one.
    """
    return re.sub(r":(\w+)", lambda match: f"?{fields.index(match[1]) + 1}", statement)


STATEMENTS: Final = parse((files("vault.storage") / "statements.sql").read_text(encoding="utf-8"))
