"""The directory that the Claude Code program has for one conversation, and what it leaves there."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Place:
    """A temporary directory that only its owner can look into."""

    def __init__(self) -> None:
        """Make it, and in it one for transcripts and one for the results of background tasks."""
        self._path = Path(tempfile.mkdtemp(prefix="conversation-"))
        for name in ("config", "work"):
            (self._path / name).mkdir(mode=0o700)

    def env(self, given: dict[str, str]) -> dict[str, str]:
        """What tells the program to write here, unless it is told another place already."""
        named = {"CLAUDE_CONFIG_DIR": "config", "CLAUDE_CODE_TMPDIR": "work"}
        return {**{variable: str(self._path / name) for variable, name in named.items()}, **given}

    def remove(self) -> None:
        """Delete it with everything in it."""
        shutil.rmtree(self._path, ignore_errors=True)


def beside_transcript(config_dir: str | Path, project_key: str, session_id: str) -> Path:
    """Where the program puts what belongs to a conversation; its transcript is this with ``.jsonl``."""
    return Path(config_dir, "projects", project_key, session_id)


def transcripts(beside: Path) -> Iterator[tuple[str | None, list[Any]]]:
    """The main transcript and those of delegated agents, by subpath; a line that is no JSON is left out."""
    main = beside.with_suffix(".jsonl")
    if main.is_file():
        yield None, _entries(main)
    for path in sorted(beside.glob("subagents/**/*.jsonl")):
        yield path.relative_to(beside).with_suffix("").as_posix(), _entries(path)


def _entries(path: Path) -> list[Any]:
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # empty, or torn when the program was killed
    return found
