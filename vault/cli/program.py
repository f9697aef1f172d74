"""The program: its commands, and how whatever goes wrong becomes one sentence and an exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from typer.main import get_command

import vault
from vault.cli import (
    administering,
    auditing,
    branches,
    copying,
    demo,
    derived,
    effects,
    erasing,
    glass,
    holding,
    interchange,
    keeping,
    lineage,
    policies,
    receipts,
    replaying,
    retaining,
    runs,
    sessions,
    sharing,
    subjects,
    verification,
    waking,
    worker,
)
from vault.cli.output import document, note
from vault.errors import VaultError

NAME: Final = "session-vault"
#: Exit codes besides those of ``vault.errors``: sysexits.h, and 128 + the signal's number.
USAGE, UNEXPECTED, INTERRUPTED, BROKEN_PIPE = 2, 70, 130, 141

app = typer.Typer(
    name=NAME,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for group in (
    keeping,
    interchange,
    sessions,
    runs,
    waking,
    effects,
    replaying,
    branches,
    derived,
    lineage,
    sharing,
    glass,
    auditing,
    administering,
    erasing,
    subjects,
    holding,
    retaining,
    policies,
    worker,
    receipts,
    verification,
    copying,
    demo,
):
    group.register(app)


def _print_version(*, asked: bool) -> None:
    if asked:
        sys.stdout.write(f"{NAME} {vault.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=lambda asked: _print_version(asked=asked),
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """An encrypted, append-only vault for what AI agents did.

    Commands work on the vault at --vault (SESSION_VAULT, or ./my.vault) and on the sessions of one person:
    --tenant and --as say whose, --role and --team as what. Exit codes are listed in docs/reference/cli.md.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code; prints whatever there is to say."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 still gets everything
    try:
        return _run(given)
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except BaseException as error:  # noqa: BLE001 - the one place where everything ends, as a sentence
        return _report(error, as_json="--json" in given, debug="--debug" in given)


def _run(given: list[str]) -> int:
    program = get_command(app)
    try:
        with program.make_context(NAME, given or ["--help"]) as context:
            program.invoke(context)
    except typer.Exit as leaving:
        sys.stdout.flush()
        return leaving.exit_code
    sys.stdout.flush()
    return 0


def _report(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Say what went wrong, once; the exit code."""
    name, message, code = _described(error)
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()  # a full disk takes neither the rest of the output nor the JSON of the error
    try:
        if code == UNEXPECTED and debug:
            sys.stderr.write("".join(traceback.format_tb(error.__traceback__)))
        note(f"{NAME}: {_begun_small(message)}")
        if as_json:
            document({"error": name, "message": message, "exit_code": code})
    except OSError:
        _discard_output()
    return code


def _described(error: BaseException) -> tuple[str, str, int]:
    """The name, the sentence and the exit code of an error."""
    if isinstance(error, VaultError):
        return type(error).__name__, str(error), error.exit_code
    if isinstance(error, typer.TyperException):
        message = " ".join(error.format_message().split()).rstrip(".")
        return "UsageError", f"{message[:1].lower()}{message[1:]}; --help shows what can be given", USAGE
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted", "interrupted", INTERRUPTED
    if isinstance(error, OSError) and error.errno:
        # Not the error's own text: it quotes the file's name.
        return "StorageUnavailable", f"the system refused: {os.strerror(error.errno).lower()}", 10
    # The type and the place only: a message may quote what was being worked on.
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    kind = type(error).__name__
    return kind, f"an unexpected {kind}{place}: a mistake in the program; --debug shows more", UNEXPECTED


def _begun_small(sentence: str) -> str:
    """The sentence as it stands behind the program's name; names like SQLite keep their capitals."""
    return (
        sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() or sentence[1:2] == " " else sentence
    )


def _discard_output() -> None:
    """Nobody takes the output any more; what is still buffered must not complain at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
