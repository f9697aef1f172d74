"""Commands ``import`` and ``export``: sessions out of files, and back into them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import orjson
import typer

from vault.adapters import claude_code, openai_chat, session_jsonl
from vault.cli import importing
from vault.cli.call import OwnerCall, SessionArgument, command
from vault.cli.intake import Door, Stopping, part_left
from vault.cli.output import TerminalJson, document, note, progress, replacing, say
from vault.cli.printable import one_line, plural, size, visible
from vault.cli.recognise import NAMES, Format, recognise
from vault.cli.store_file import check_not_own
from vault.errors import Conflict, InvalidInput, VaultError

if TYPE_CHECKING:
    from vault.adapters import ImportReport
    from vault.cli.output import Advance
    from vault.faces import Access
    from vault.sessions.service import Sessions
    from vault.sessions.session import Session

#: Sessions that an import lists with their titles; the others can be seen with ``sessions``.
_LISTED_MAX: Final = 20
_IMPORT: Final = """Import sessions from files, or from a framework's own store.

`import FILE...` is short for `import files FILE...`. A store's name comes first, then the path of its
database; options come last.
"""


class Incoming(StrEnum):
    """What ``import --format`` takes."""

    AUTO = "auto"
    JSONL = "jsonl"
    CLAUDE_CODE = "claude-code"
    OPENAI_CHAT = "openai-chat"


class Outgoing(StrEnum):
    """What ``export --format`` takes."""

    JSONL = "jsonl"
    CLAUDE_CODE = "claude-code"
    OPENAI_CHAT = "openai-chat"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    incoming = typer.Typer(
        cls=importing.FilesOrStore,
        rich_markup_mode=None,
        subcommand_metavar="FILE... | STORE PATH",
        help=_IMPORT,
    )
    command(incoming, importing.FILES)(import_files)
    importing.register(incoming)
    app.add_typer(incoming, name="import")
    command(app, "export")(export_session)


# -------------------------------------------------------------------------------------------------- import


def import_files(
    call: OwnerCall,
    *,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Files to import; `-` is standard input.")
    ],
    form: Annotated[
        Incoming,
        typer.Option("--format", help="What the files are; `auto` looks into each.", show_choices=True),
    ] = Incoming.AUTO,
    strict: Annotated[
        bool, typer.Option("--strict", help="Import nothing of a file in which any line is damaged.")
    ] = False,
) -> None:
    """Import sessions from files.

    Takes session JSONL, Claude Code transcripts and runs in OpenAI chat format; the word `files` may be left
    out. A Claude Code transcript is its <id>.jsonl; what stands in the directory <id>/ beside it comes along.
    A damaged line is reported with its number, and costs no other line.
    """
    done: list[dict[str, Any]] = []
    failed: VaultError | None = None
    with call.access() as access, Stopping() as stopping:
        for path in files:
            try:
                check_not_own(call, path)
                chosen, report = _import_file(path, access, form, stopping, strict=strict)
                done.append({"file": str(path), "format": chosen, **_report_document(report)})
                if not call.as_json:
                    _print_report(path, chosen, report, access.sessions)
            except (InvalidInput, Conflict) as refusal:
                # One file that cannot be taken costs no other file.
                failed = failed or refusal
                done.append({"file": str(path), "error": type(refusal).__name__, "message": str(refusal)})
                note(f"session-vault: {path}: {refusal}")
            stopping.here()
    if call.as_json:
        ending = {} if failed is None else _error_document(failed)
        document({"files": done, **ending})
    if failed is not None:
        raise typer.Exit(failed.exit_code)


def _import_file(
    path: Path, access: Access, form: Incoming, stopping: Stopping, *, strict: bool
) -> tuple[Format, ImportReport]:
    """Import one file; what was begun of it is marked when it cannot be finished.

    Raises:
        InvalidInput: it is not there, of no known format, or nothing in it can be imported.
    """
    with _opened(path) as source:
        if source.seekable() and importing.is_database(source):
            raise InvalidInput(f"this is a database; say of what: import {'|'.join(importing.STORES)} PATH")
        chosen: Format = recognise(source) if form is Incoming.AUTO else form.value  # type: ignore[assignment]
        if chosen == "claude-code" and not source.seekable():
            raise InvalidInput("a Claude Code transcript is imported from its file, not from a pipe")
        total = _total_bytes(path, source, chosen)
        door = Door(access)
        with progress(path.name, total, of_bytes=True) as advance, part_left(door):
            return chosen, _import(chosen, path, source, door, advance, stopping, strict=strict)


def _import(
    chosen: Format,
    path: Path,
    source: BinaryIO,
    door: Door,
    advance: Advance,
    stopping: Stopping,
    *,
    strict: bool,
) -> ImportReport:
    def done(_: int, count: int) -> None:
        advance(count)

    def done_with_run(_: int, count: int) -> None:
        advance(count)
        door.finished()  # each line is a session of its own
        stopping.here()

    if chosen == "jsonl":
        report = session_jsonl.import_session(source, door, strict=strict, progress=done)
    elif chosen == "claude-code":
        report = claude_code.import_transcript(path, door, strict=strict, progress=done)
    else:
        report = openai_chat.import_runs(source, door, strict=strict, progress=done_with_run)
    door.finished()
    return report


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        source = path.open("rb")
    except FileNotFoundError:
        known = str(path) in importing.STORES
        hint = "; a store's name comes first, its options last" if known else ""
        raise InvalidInput(f"there is no such file{hint}") from None
    except IsADirectoryError:
        raise InvalidInput("this is a directory; name the files in it") from None
    except OSError:
        raise InvalidInput("this file cannot be read; check its permissions") from None
    with source:
        yield source


def _total_bytes(path: Path, source: BinaryIO, chosen: Format) -> int | None:
    """How much there is to read, if that can be known."""
    status = os.fstat(source.fileno())
    if not stat.S_ISREG(status.st_mode):
        return None
    beside = path.with_suffix("") if chosen == "claude-code" and path.suffix == ".jsonl" else None
    files = (item for item in beside.rglob("*") if item.is_file()) if beside else ()
    return status.st_size + sum(item.stat().st_size for item in files)


def _report_document(report: ImportReport) -> dict[str, Any]:
    return {
        "sessions": list(report.sessions),
        "events": report.events,
        "lines": report.lines,
        "bytes": report.bytes,
        "problems": [asdict(problem) for problem in report.problems],
        "problems_total": report.problems_total,
    }


def _error_document(error: VaultError) -> dict[str, Any]:
    return {"error": type(error).__name__, "message": str(error), "exit_code": error.exit_code}


def _print_report(path: Path, chosen: Format, report: ImportReport, sessions: Sessions) -> None:
    made = f"{plural(len(report.sessions), 'session')}, {plural(report.events, 'event')}"
    read = f"{plural(report.lines, 'line')}, {size(report.bytes)}"
    lines = [f"{visible(path.name)}: {NAMES[chosen]}, {read}: {made}"]
    for session_id in report.sessions[:_LISTED_MAX]:
        title = sessions.resume(session_id).info().title
        lines.append(f"  {session_id}  {one_line(title, 60) if title else ''}".rstrip())
    if len(report.sessions) > _LISTED_MAX:
        lines.append(f"  and {len(report.sessions) - _LISTED_MAX:,} more; session-vault sessions lists them")
    for line in lines:
        say(line)
    for problem in report.problems:
        line = f"line {problem.line}: " if problem.line else ""
        note(f"{problem.file or path.name}: {line}{problem.reason}")
    if report.problems_total > len(report.problems):
        note(f"{path.name}: {report.problems_total - len(report.problems):,} more damaged lines")


# -------------------------------------------------------------------------------------------------- export


def export_session(
    call: OwnerCall,
    *,
    session: SessionArgument,
    form: Annotated[Outgoing, typer.Option("--format", help="What to write.")] = Outgoing.JSONL,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="PATH", help="A file, or the directory for a Claude Code transcript."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
) -> None:
    """Export a session, in clear text.

    Writes session JSONL to standard output unless told otherwise. A file appears whole or not at all,
    readable by its owner only. A Claude Code transcript comes out byte for byte as it came in, into the
    directory given with -o.
    """
    with call.session(session) as found:
        if form is Outgoing.CLAUDE_CODE:
            if output is None:
                raise InvalidInput(
                    "a transcript is several files; say with -o in which directory to write them"
                )
            files, events = _export_transcript(found, output, overwrite=overwrite), found.info().event_count
        elif output is None:
            events = _export(found, form, TerminalJson(), None)
            note(f"{plural(events, 'event')} exported, in clear")
            return
        else:
            events, files = _export_file(found, form, output, overwrite=overwrite), (output,)
    if call.as_json:
        written = [str(path) for path in files]
        document({"session": found.id, "format": form.value, "events": events, "files": written})
    else:
        say(f"{plural(events, 'event')} exported, in clear, to {', '.join(map(str, files))}")


def _export(found: Session, form: Outgoing, out: Any, advance: Advance | None) -> int:
    """Write a session to a stream; the number of its events, or messages."""
    if form is Outgoing.JSONL:
        reported = None if advance is None else lambda lines, _: advance(lines)
        count = session_jsonl.export_session(found, out, progress=reported)
    else:
        messages, labels = openai_chat.export_messages(found), found.info().labels
        if not messages:
            raise InvalidInput(
                "this session holds no messages in OpenAI chat format; export it as session JSONL"
            )
        about = {
            key: labels[name] for key, name in (("task_id", "task"), ("trial", "trial")) if name in labels
        }
        out.write(orjson.dumps({**about, "messages": messages}) + b"\n")
        count = len(messages)
    out.flush()
    return count


def _export_transcript(found: Session, directory: Path, *, overwrite: bool) -> tuple[Path, ...]:
    with progress("export", None, of_bytes=True) as advance:
        return claude_code.export_transcript(
            found, directory, overwrite=overwrite, progress=lambda _, count: advance(count)
        )


def _export_file(found: Session, form: Outgoing, path: Path, *, overwrite: bool) -> int:
    with (
        replacing(path, overwrite=overwrite) as out,
        progress(path.name, found.info().event_count + 1, of_bytes=False) as advance,
    ):
        return _export(found, form, out, advance)
