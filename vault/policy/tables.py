"""The tables of a TOML document that anybody may have written: read without being brought down by it."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from vault.errors import InvalidInput

#: Dots in one line: tomllib takes memory by the square of a key's parts, and 100,000 of them end the process.
DOTS_MAX: Final = 64
#: What tomllib says of a name that stands twice.
_TWICE: Final = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Duplicate")


def tables(text: str, *, file: str, what: str) -> dict[str, Any]:
    """The document's tables.

    Args:
        text: the document, of a length that was checked.
        file: its name, for the sentences.
        what: what it should be, in an error: "a policy", "field rules".

    Raises:
        InvalidInput: not TOML; says file and line, and quotes nothing.
    """
    for at, content in enumerate(text.split("\n"), 1):
        if content.count(".") > DOTS_MAX:
            raise InvalidInput(f"{file}, line {at}: more than {DOTS_MAX} dots; write a shorter line")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = found[1] if found else max(1, len(text.splitlines()))  # it says "at end of document"
        raise InvalidInput(f"{file}, line {line}: not valid TOML; {_advice(text, str(error))}") from None
    except (ValueError, RecursionError):
        # A number of thousands of digits, or brackets in brackets in brackets: tomllib names no line.
        raise InvalidInput(
            f"{file}: not {what}; a number in it is too long or it is nested too deep"
        ) from None


def _advice(text: str, error: str) -> str:
    if text.startswith("\ufeff"):
        return "it begins with a byte order mark: save it as UTF-8 without one"
    if error.startswith(_TWICE):
        return "a field or table stands there for the second time: keep one of the two"
    return "correct it there"
