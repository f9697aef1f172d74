"""Where the program writes: results to standard output, everything else to standard error."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from vault.cli.printable import json_line, terminal_json, visible
from vault.errors import InvalidInput, StorageUnavailable

#: Told how much is done so far.
Advance = Callable[[int], None]


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the error out: ``main`` ends the program quietly, in one place."""
        raise BrokenPipeError


def console(*, error: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji names, no highlighting."""
    return _Console(stderr=error, markup=False, emoji=False, highlight=False, soft_wrap=False)


def note(message: str) -> None:
    """A message for the person who called, on standard error."""
    sys.stdout.flush()
    sys.stderr.write(visible(message) + "\n")
    sys.stderr.flush()


def document(value: Any) -> None:
    """A JSON value on one line of standard output."""
    out = binary_stdout()
    out.write(json_line(value))
    out.flush()


def show(*what: RenderableType) -> None:
    """Text and tables for people, on standard output."""
    out = console()
    for item in what:
        out.print(item)


def say(message: str) -> None:
    """A sentence for people, on standard output."""
    sys.stdout.write(visible(message) + "\n")


def binary_stdout() -> BinaryIO:
    """Standard output for bytes, behind what was written to it as text."""
    sys.stdout.flush()
    return sys.stdout.buffer


class TerminalJson:
    """Standard output for exported JSON: on a terminal, characters that it would obey are escaped."""

    def __init__(self) -> None:
        self._out = binary_stdout()
        self._escape = sys.stdout.isatty()

    def write(self, line: bytes) -> int:
        """Write a whole line, or a piece of one that is ASCII."""
        self._out.write(terminal_json(line) if self._escape else line)
        return len(line)

    def flush(self) -> None:
        """Pass on what is waiting."""
        self._out.flush()


@contextmanager
def progress(what: str, total: int | None, *, of_bytes: bool) -> Iterator[Advance]:
    """A bar on standard error while something long is done; nothing when that is not a terminal."""
    screen = console(error=True)
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True) if of_bytes else MofNCompleteColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(visible(what), total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A file, readable by its owner only, that takes its name when it is complete and on disk.

    Raises:
        InvalidInput: something is there already.
        StorageUnavailable: its directory cannot be written.
    """
    if path.is_dir() or (os.path.lexists(path) and not overwrite):
        raise InvalidInput("there is something at this path already; choose another, or give --overwrite")
    try:
        descriptor, partial = tempfile.mkstemp(prefix=".partial-", dir=path.parent)
    except OSError:
        raise StorageUnavailable("the directory of this file cannot be written, or does not exist") from None
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            yield file
            file.flush()
            os.fsync(descriptor)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
