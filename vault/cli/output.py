"""Where the program writes: results to standard output, everything else to standard error."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rich import filesize
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
from vault.config import FILE as CONFIG
from vault.errors import InvalidInput, StorageUnavailable

#: Told how much is done so far.
Advance = Callable[[int], None]
#: Told which step is at work, how much of it is done, and how much there is.
Step = Callable[[str, int, int], None]


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
def steps(what: str, words: Mapping[str, str], *, of_bytes: Collection[str] = ()) -> Iterator[Step]:
    """A bar on standard error that says which step is how far; nothing when that is not a terminal.

    Args:
        what: what is being done.
        words: what each step does; what it has no word for is not shown.
        of_bytes: the steps that count bytes.
    """
    screen = console(error=True)
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[far]}", markup=False),
    ]
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(visible(what), total=None, far="")

        def advance(step: str, done: int, total: int) -> None:
            if step in words:
                shown = [
                    filesize.decimal(part) if step in of_bytes else f"{part:,}" for part in (done, total)
                ]
                described, far = f"{visible(what)}: {words[step]}", "/".join(shown)
                bar.update(task, description=described, completed=done, total=total, far=far)

        yield advance


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A file, readable by its owner only, that takes its name when it is complete and on disk.

    Raises:
        InvalidInput: something is there already, or it would stand among a vault's own files.
        StorageUnavailable: its directory cannot be written.
    """
    refuse_among_own_files(path)
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


def refuse_among_own_files(path: Path) -> None:
    """Refuse a path directly in a vault's directory: what is written there could replace a database.

    Raises:
        InvalidInput: it is one.
    """
    if (path.parent / CONFIG).exists():
        raise InvalidInput("only the vault itself writes into its directory; choose a path outside of it")
