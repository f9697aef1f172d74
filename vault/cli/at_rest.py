"""Counts which strings of a document can be read in files: how the demonstration looks for clear text.

Another process reads the files: closing a file here would take away the locks that an open vault's database
holds on it (fcntl(2)).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

#: Shorter strings stand in any file by chance.
LENGTH_MIN: Final = 6
#: Keys whose values are words of the chat format, the same in every conversation, and part of event types.
_FORMAT_WORDS: Final = frozenset({"role", "type"})


def strings(document: Any) -> set[str]:
    """Every string value in a JSON document of ``LENGTH_MIN`` characters or more, JSON inside strings too."""
    return {text for text in _texts(document) if len(text) >= LENGTH_MIN}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if value[:1] in {"{", "["}:
            try:
                yield from _texts(json.loads(value))
            except ValueError:
                return  # text that begins with a bracket
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _FORMAT_WORDS:
                yield from _texts(item)


def readable(texts: Iterable[str], files: Iterable[Path]) -> set[str]:
    """Which of the texts stand in one of the files, as they are or as JSON writes them."""
    asked = json.dumps({"texts": list(texts), "files": [str(file) for file in files]})
    command = [sys.executable, "-m", "vault.cli.at_rest"]
    told = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    return set(json.loads(told.stdout))


def _look(texts: Iterable[str], files: Iterable[Path]) -> list[str]:
    wanted = {text: _forms(text) for text in texts}
    found: dict[str, None] = {}
    for file in files:
        content = file.read_bytes()
        found |= dict.fromkeys(
            text for text, forms in wanted.items() if any(form in content for form in forms)
        )
    return list(found)


def _forms(text: str) -> set[bytes]:
    once = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    # A string of JSON inside a string is escaped twice.
    twice = {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in once for ascii_only in (True, False)}
    return {form.encode() for form in {text, *once, *twice}}


def below(directory: Path) -> list[Path]:
    """Every file below a directory, in order."""
    return sorted(path for path in directory.rglob("*") if path.is_file())


if __name__ == "__main__":
    given = json.load(sys.stdin)
    json.dump(_look(given["texts"], map(Path, given["files"])), sys.stdout)
