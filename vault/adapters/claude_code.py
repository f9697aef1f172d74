r"""Claude Code transcripts in and out, byte for byte.

A transcript is ``<id>.jsonl`` and, beside it, an optional directory ``<id>/`` with further
transcripts and the large results of tools. Each becomes an ``import.file`` event followed by its content:
one event per line, whose raw payload is the line's bytes without the ``\n``. An ``import.part`` event is one
that no line end follows. ``import.end`` closes the transcript: what the session gets later is not of it.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

from vault.adapters import Access, ImportReport, Progress, Session, name_or_none, parse_time
from vault.adapters.claude_lines import About, read_line
from vault.adapters.intake import Intake, Problems
from vault.errors import InvalidInput, LimitExceeded, StorageFull, StorageUnavailable
from vault.model import EAGER_BYTES_MAX, Event, NewEvent, new_event_id

#: What is held in memory at once. A longer line is kept in parts, and not looked into.
PIECE_BYTES_MAX: Final = 8 * 2**20
#: Files of one transcript.
FILES_MAX: Final = 10_000
#: One part of a file's name, as most file systems have it.
NAME_BYTES_MAX: Final = 255

_FILE, _PART, _END = "import.file", "import.part", "import.end"


# ------------------------------------------------------------------------------------------------- files


class _Source(NamedTuple):
    """A file of a transcript, as large as it was when found: what is written to it later is not taken."""

    name: str
    path: Path
    lines: bool
    size: int


class _Piece(NamedTuple):
    data: bytes
    number: int
    whole: bool
    ends: bool
    size: int


def _sources(path: Path, problems: Problems) -> list[_Source]:
    if not path.is_file():
        raise InvalidInput("there is no transcript at this path; give the file <session id>.jsonl")
    found = [_Source(path.name, path, lines=True, size=path.stat().st_size)]
    for file in _files_beside(path):
        name, about = file.relative_to(path.parent).as_posix(), file.lstat()
        if stat.S_ISREG(about.st_mode):
            found.append(_Source(name, file, lines=file.suffix == ".jsonl", size=about.st_size))
        else:
            problems.add(0, "neither a file nor a directory, so it was left out", name)
        if len(found) > FILES_MAX:
            raise LimitExceeded(f"a transcript has at most {FILES_MAX} files")
    for source in found:
        if any("\ud800" <= character <= "\udfff" for character in source.name):
            raise InvalidInput("the name of a file of the transcript is not UTF-8 text; rename it")
    return found


def _files_beside(path: Path) -> Iterator[Path]:
    """What stands in the directory of a transcript but directories; links are not followed."""
    beside = path.with_suffix("")
    if path.suffix != ".jsonl" or beside.is_symlink() or not beside.is_dir():
        return
    for directory, directories, files in os.walk(beside, onerror=_refuse_unreadable):
        directories.sort()
        links = [name for name in directories if Path(directory, name).is_symlink()]
        for name in sorted(files + links):
            yield Path(directory, name)


def _refuse_unreadable(_: OSError) -> NoReturn:
    raise InvalidInput("a file or directory of the transcript cannot be read") from None


def _opened(source: _Source) -> BinaryIO:
    try:
        # Only the file that was named may be a link: one that appears in the directory is not followed.
        flags = os.O_RDONLY | (os.O_NOFOLLOW if "/" in source.name else 0)
        return open(os.open(source.path, flags), "rb")  # noqa: PTH123 - a descriptor, not a path
    except OSError as failure:
        _refuse_unreadable(failure)


def _pieces(file: BinaryIO, size: int, *, lines: bool) -> Iterator[_Piece]:
    """Lines without their ends, or the pieces of a longer one; of other files, pieces as large as may be."""
    left, number, begins = size, 1, True
    while left:
        try:
            data = (file.readline if lines else file.read)(min(left, PIECE_BYTES_MAX))
        except OSError as failure:
            _refuse_unreadable(failure)
        if not data:
            raise InvalidInput("a file of the transcript became shorter while it was read")
        left -= len(data)
        ends = lines and (data.endswith(b"\n") or not left)
        content = data.removesuffix(b"\n") if lines else data
        yield _Piece(content, number, begins and ends, ends, len(data))
        begins, number = ends, number + ends


# ------------------------------------------------------------------------------------------------ import


def import_transcript(
    path: Path,
    access: Access,
    *,
    labels: Mapping[str, str] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Make a session of a transcript and what stands beside it, so that ``export_transcript`` gives it back.

    The session's external id is the transcript's session id, its title the transcript's, or what was asked
    first. A damaged line is reported, and kept like every other. ``progress`` gets the lines and bytes read.

    Raises:
        InvalidInput: no transcript, or not readable; with ``strict``, any line is damaged or any file would
            be left out, and then nothing is imported.
        LimitExceeded: more than ``FILES_MAX`` files.
        Conflict: the transcript was imported before.
    """
    problems = Problems()
    sources = _sources(path, problems)
    about = _survey(sources, problems if strict else None)
    if strict:
        problems.refuse_any()
    external_id = about.session_id or name_or_none(path.stem)
    session = access.sessions.create(title=about.title, labels=labels, external_id=external_id)
    work = _Import(session, problems, progress)
    for source in sources:
        work.take(source)
    return work.finish(len(sources))


def _survey(sources: list[_Source], problems: Problems | None) -> About:
    """What the transcript is called; with ``problems`` every line of every file is looked at."""
    about, other = About(), About()
    for source in sources if problems is not None else sources[:1]:
        told = about if source is sources[0] else other
        with _opened(source) as file:
            for piece in _pieces(file, source.size, lines=source.lines):
                if piece.whole and (problems is not None or told.wants(piece.data)):
                    reading = read_line(piece.data)
                    told.note(reading)
                    if problems is not None and reading.damage is not None:
                        problems.add(piece.number, reading.damage, source.name)
    return about


class _Import:
    """Appends the files of one transcript to its session."""

    def __init__(self, session: Session, problems: Problems, progress: Progress | None) -> None:
        self._intake = Intake(session, alone=True)
        self._problems = problems
        self._progress = progress
        self._calls: dict[str, tuple[str | None, str | None]] = {}
        self._lines = 0
        self._bytes = 0

    def take(self, source: _Source) -> None:
        with _opened(source) as file:
            final_newline = False
            if source.lines and source.size:
                file.seek(source.size - 1)
                final_newline = file.read(1) == b"\n"
                file.seek(0)
            kind = "lines" if source.lines else "bytes"
            about = {"path": source.name, "kind": kind, "final_newline": final_newline}
            self._add(NewEvent(type=_FILE, payload=about), 0)
            for piece in _pieces(file, source.size, lines=source.lines):
                self._bytes += piece.size
                self._lines += piece.ends
                self._add(self._event(piece, source), piece.number)

    def finish(self, files: int) -> ImportReport:
        self._add(NewEvent(type=_END, payload={"files": files, "lines": self._lines}), 0)
        self._intake.flush()
        if self._progress is not None:
            self._progress(self._lines, self._bytes)
        return ImportReport(
            sessions=(self._intake.session.id,),
            events=self._intake.appended,
            lines=self._lines,
            bytes=self._bytes,
            problems=self._problems.listed,
            problems_total=self._problems.total,
        )

    def _add(self, event: NewEvent, line: int) -> None:
        size = len(event.raw) if isinstance(event.raw, bytes) else 0
        if self._intake.add(event, line=line, size=size) and self._progress is not None:
            self._progress(self._lines, self._bytes)

    def _event(self, piece: _Piece, source: _Source) -> NewEvent:
        if not piece.ends:
            return NewEvent(type=_PART, raw=piece.data)
        if not piece.whole:
            return NewEvent(type="transcript.other", raw=piece.data)
        reading = read_line(piece.data)
        if reading.damage is not None:
            self._problems.add(piece.number, reading.damage, source.name)
        event_id = new_event_id() if reading.calls else None
        self._calls.update(dict.fromkeys(reading.calls, (event_id, reading.tool)))
        # Answered calls are forgotten, so the map holds the open ones only.
        answered = [self._calls.pop(answer) for answer in reading.answers if answer in self._calls]
        caused_by, tool = answered[0] if answered else (None, reading.tool)
        when = parse_time(reading.fields.get("timestamp"))
        return NewEvent(
            type=reading.type,
            raw=piece.data,
            event_id=event_id,
            tool=tool,
            caused_by=caused_by,
            occurred_at=when,
            observed_at=when if reading.type in {"tool.returned", "tool.failed"} else None,
        )


# ------------------------------------------------------------------------------------------------ export


def export_transcript(
    session: Session, directory: Path, *, overwrite: bool = False, progress: Progress | None = None
) -> tuple[Path, ...]:
    """Write the transcript that a session was imported from below ``directory``; return its files.

    Each file appears whole or not at all, readable by its owner only. ``progress`` gets the lines and bytes
    written.

    Raises:
        InvalidInput: the session holds no whole transcript; a file's name leads out of ``directory``; or a
            file exists already and ``overwrite`` is False. In these cases nothing was written.
        StorageUnavailable: the directory cannot be written to, or its disk is full.
    """
    files, end = _contents(session)
    targets = [_target(directory, str(about.get("path"))) for about in files]
    if len(set(targets)) < len(targets):
        raise InvalidInput("two files of the transcript have the same name")
    if not overwrite and any(os.path.lexists(target) for target in targets):
        raise InvalidInput("a file of the transcript exists already; choose another directory, or overwrite")
    events = session.events(before=end.id)
    for _ in takewhile(_is_content, events):
        pass  # nothing before the first file is of the transcript
    lines = done = 0
    for target, about in zip(targets, files, strict=True):
        with _replacing(directory, target) as file:
            # Ends at the next file's event, and takes it from ``events``.
            pending = False
            for event in takewhile(_is_content, events):
                done += file.write(b"\n") if pending else 0
                done += _write_content(session, event, file)
                pending = event.type != _PART
                lines += pending
            done += file.write(b"\n") if pending and about.get("final_newline") is True else 0
        if progress is not None:
            progress(lines, done)
    return tuple(targets)


def _is_content(event: Event) -> bool:
    return event.type != _FILE


def _contents(session: Session) -> tuple[list[dict[str, Any]], Event]:
    """What is said of the files, in their order, and the event that closes the transcript."""
    files: list[dict[str, Any]] = []
    for event in session.events(types=[_FILE, _END]):
        if not isinstance(event.payload, dict) or len(files) > FILES_MAX:
            break
        if event.type == _FILE:
            files.append(event.payload)
        elif files and event.payload.get("files") == len(files):
            return files, event
    raise InvalidInput("this session holds no whole Claude Code transcript; export it as session JSONL")


def _target(directory: Path, name: str) -> Path:
    """Where a file goes; the name comes from the log, and whoever may append could have made it up."""
    parts = name.split("/")
    if "\0" in name or any(part in {"", ".", ".."} or len(part.encode()) > NAME_BYTES_MAX for part in parts):
        raise InvalidInput("the name of a file of the transcript leads out of the directory, or is none")
    if any(directory.joinpath(*parts[:depth]).is_symlink() for depth in range(1, len(parts))):
        raise InvalidInput("a directory of the transcript is a link to elsewhere; remove it")
    return directory.joinpath(*parts)


@contextmanager
def _replacing(directory: Path, target: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when it is complete and on disk."""
    partial: Path | None = None
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for parent in reversed(target.relative_to(directory).parents[:-1]):
            (directory / parent).mkdir(mode=0o700, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".partial-", dir=target.parent)
        partial = Path(name)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            yield file
            file.flush()
            os.fsync(descriptor)
        partial.replace(target)
        partial = None
    except OSError as failure:
        full = failure.errno in {errno.ENOSPC, errno.EDQUOT}
        kind = StorageFull if full else StorageUnavailable
        raise kind("the transcript cannot be written to this directory, or its disk is full") from None
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _write_content(session: Session, event: Event, file: BinaryIO) -> int:
    if event.raw is not None:
        return file.write(event.raw)
    if not event.streamed:
        raise InvalidInput(
            "an event among the transcript's is not of it; export the session as session JSONL"
        )
    size = 0
    with session.open(event) as stream:
        while piece := stream.read(EAGER_BYTES_MAX):
            size += file.write(piece)
    return size
