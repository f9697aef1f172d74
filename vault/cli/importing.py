"""Commands ``import STORE``: what a framework kept in its own database, for its adapter to go on with."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer
from typer.core import TyperGroup

from vault.adapters.openai_sqlite import import_openai_sqlite
from vault.cli.call import OwnerCall, command
from vault.cli.output import document, note, say
from vault.cli.printable import one_line, plural, size, visible
from vault.cli.store_file import PathArgument, check_file, extra, taking
from vault.cli.store_key import KeyOption, aes_key, text_key
from vault.errors import Erased, InvalidInput
from vault.policy.durations import parse_duration
from vault.storage import foreign

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
    from langgraph.checkpoint.serde.event_hooks import SerdeEvent
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from vault.adapters import ImportReport
    from vault.model import SessionSummary
    from vault.sessions.service import Sessions

OPENAI: Final = "openai-sqlite"
LANGGRAPH: Final = "langgraph-sqlite"
LANGGRAPH_STORE: Final = "langgraph-store-sqlite"
ADK: Final = "adk-sqlite"
STORES: Final = (OPENAI, LANGGRAPH, LANGGRAPH_STORE, ADK)
#: The command that everything goes to that names no store.
FILES: Final = "files"
_SQLITE: Final = b"SQLite format 3\x00"

#: Sessions that an import lists with their names; the others can be seen with ``sessions``.
_LISTED_MAX: Final = 20
_ENCRYPTED: Final = "SELECT count(*), count(CASE WHEN type LIKE '%+%' THEN 1 END) FROM checkpoints"
_USERS: Final = "SELECT count(DISTINCT user_id) FROM sessions WHERE :app IS NULL OR app_name = :app"


class FilesOrStore(TyperGroup):
    """``import``: of a store when its name comes first, else of files."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Hand everything that begins with no command's name to ``files``."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [FILES, *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, OPENAI)(import_openai)
    command(app, LANGGRAPH)(import_langgraph)
    command(app, LANGGRAPH_STORE)(import_langgraph_store)
    command(app, ADK)(import_adk)


def is_database(source: BinaryIO) -> bool:
    """Whether a source, which is left where it was, begins as SQLite's files do (its file format, 1.2)."""
    start = source.tell()
    begins = source.read(len(_SQLITE))
    source.seek(start)
    return begins == _SQLITE


# ------------------------------------------------------------------------------------------ OpenAI Agents SDK


def import_openai(
    call: OwnerCall,
    *,
    path: PathArgument,
    key: KeyOption = None,
    max_age: Annotated[
        str | None,
        typer.Option("--max-age", metavar="DURATION", help="Leave older items behind: 12h, 30d."),
    ] = None,
    sessions_table: Annotated[
        str, typer.Option("--sessions-table", metavar="NAME", help="Its table of sessions.")
    ] = "agent_sessions",
    messages_table: Annotated[
        str, typer.Option("--messages-table", metavar="NAME", help="Its table of items.")
    ] = "agent_messages",
) -> None:
    """Import conversations of the OpenAI Agents SDK.

    Takes a database of SQLiteSession, AsyncSQLiteSession, AdvancedSQLiteSession (the main branches) or
    SQLAlchemySession on SQLite, and with --key one that EncryptedSession wrote. VaultSession goes on with
    them under the same ids. Run again, it takes only what is not there yet.
    """
    check_file(call, path)
    oldest = _age(max_age)
    if key is not None:
        with extra("openai-agents"):
            importlib.import_module("agents.extensions.memory.encrypt_session")
    encryption_key = None if key is None else text_key(key)
    with call.access() as access:
        with taking(path) as told:
            report = import_openai_sqlite(
                access,
                path,
                encryption_key=encryption_key,
                sessions_table=sessions_table,
                messages_table=messages_table,
                ttl=oldest,
                progress=lambda rows, _: told(rows, None),
            )
        _print_report(call, path, OPENAI, "OpenAI Agents SDK", report, access.sessions)


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    period = parse_duration(text)
    if period is None or not period.us:
        raise InvalidInput("--max-age is a number of hours or days, for example 12h or 90d")
    return timedelta(microseconds=period.us)


# -------------------------------------------------------------------------------------------------- LangGraph


def import_langgraph(
    call: OwnerCall,
    *,
    path: PathArgument,
    key: KeyOption = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="MODULE:CLASS",
            help="A class of your own that the state holds objects of; may be given again.",
        ),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata",
            metavar="KEY",
            help="Take this of the metadata too, beside LangGraph's own; may be given again.",
        ),
    ] = None,
) -> None:
    """Import threads of LangGraph.

    Takes the database of a SqliteSaver, and with --key one that an EncryptedSerializer wrote with AES.
    VaultSaver goes on with the threads under the same ids. What a call's configuration left in the metadata
    stays behind and is named. Run again, it takes only what is not there yet.
    """
    check_file(call, path)
    with extra("langgraph"):
        from vault.adapters.langgraph_sqlite import import_langgraph_sqlite  # noqa: PLC0415
    _check_encrypted(path, given=key is not None)
    serde = _serializer(key, classes or [])
    with call.access() as access, taking(path) as told, _named(path):
        done = import_langgraph_sqlite(access, path, serde=serde, metadata_keys=metadata or (), progress=told)
    if call.as_json:
        counts = {"threads": done.threads, "checkpoints": done.checkpoints, "writes": done.writes}
        document({"store": LANGGRAPH, "file": str(path), **counts, "left_out": sorted(done.left_out)})
        return
    new = f"{plural(done.checkpoints, 'new checkpoint')}, {plural(done.writes, 'new write')}"
    say(f"{path.name}: LangGraph checkpoints, {plural(done.threads, 'thread')}: {new}")
    if done.left_out:
        note(f"left out of the metadata: {', '.join(sorted(one_line(name, 60) for name in done.left_out))}")
    _remind(path)


def _check_encrypted(path: Path, *, given: bool) -> None:
    """Refuse a key that is missing, and one that nothing needs: before anything is asked for."""
    with foreign.opened(path) as db:
        if "checkpoints" not in db.tables():
            return  # the import says what is wrong
        ((rows, encrypted),) = db.rows(_ENCRYPTED)
    if encrypted and not given:
        raise InvalidInput("the checkpoints are encrypted; say with --key where the key is")
    if given and rows and not encrypted:
        raise InvalidInput("nothing in this file is encrypted; leave --key out")


def _serializer(key: str | None, classes: list[str]) -> JsonPlusSerializer | EncryptedSerializer:
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer  # noqa: PLC0415
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer  # noqa: PLC0415

    plain = JsonPlusSerializer(allowed_msgpack_modules=[_class(one) for one in classes])
    if key is None:
        return plain
    used = aes_key(key)
    try:
        return EncryptedSerializer.from_pycryptodome_aes(plain, key=used)
    except ImportError:
        raise InvalidInput("to open encrypted checkpoints: pip install pycryptodome") from None


def _class(named: str) -> tuple[str, str]:
    """The module and the name of a class; LangGraph imports it when the file holds such an object."""
    module, _, name = named.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise InvalidInput("--class is module:Class, such as shop.orders:Order; PYTHONPATH says where")
    return module, name


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say what was in the way of an import: classes that were not named, or a thread that was erased."""
    from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener  # noqa: PLC0415

    blocked: set[str] = set()

    def heard(event: SerdeEvent) -> None:
        if event["kind"] == "msgpack_blocked":
            blocked.add(f"{event['module']}:{event['name']}")

    forget = register_serde_event_listener(heard)
    try:
        yield
    except InvalidInput:
        for name in sorted(blocked):
            shown = one_line(name, 200)
            note(f"{path.name}: it holds objects of a class; if that is yours, add --class {shown}")
        raise
    except Erased:
        raise Erased(
            "a thread of this file was erased in the vault and does not come back; delete it in a copy of "
            "the file, and import that"
        ) from None
    finally:
        forget()


def import_langgraph_store(call: OwnerCall, *, path: PathArgument) -> None:
    """Import items of LangGraph's long-term store.

    Takes the database of a SqliteStore, with the times that the items have there. VaultStore finds them
    under the same namespaces and keys; they are embedded when they are put again. What is in the vault
    already stays as it is there. Run again, it takes only what is not there yet.
    """
    check_file(call, path)
    with extra("langgraph"):
        from vault.adapters.langgraph_store import VaultStore  # noqa: PLC0415
        from vault.adapters.langgraph_store_migration import take_sqlite  # noqa: PLC0415

    class Counted(VaultStore):
        count = 0

        def take(self, *item: Any) -> bool:
            kept = super().take(*item)
            self.count += 1
            told(self.count, None)
            return kept

    with call.access() as access, taking(path) as told:
        done = take_sqlite(path, Counted(access))
    if call.as_json:
        document({"store": LANGGRAPH_STORE, "file": str(path), **done._asdict()})
        return
    others = f"{done.known:,} there already, {done.expired:,} expired"
    say(f"{path.name}: LangGraph store: {plural(done.taken, 'new item')}, {others}")
    _remind(path)


# ------------------------------------------------------------------------------------------------- Google ADK


def import_adk(
    call: OwnerCall,
    *,
    path: PathArgument,
    app: Annotated[str | None, typer.Option("--app", metavar="NAME", help="Only of this app.")] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="ID", help="Only of this user; --as says to whom it goes."),
    ] = None,
) -> None:
    """Import sessions of Google ADK.

    Takes the SQLite database of a DatabaseSessionService or a SqliteSessionService: sessions, events, and the
    states of sessions, users and apps. All of it goes to who calls; where each user is a person of their own,
    import once for each, with --user and --as. Run again, it takes only what is not there yet.
    """
    check_file(call, path)
    with extra("google-adk"):
        from vault.adapters.google_adk_sqlite import import_adk_sqlite  # noqa: PLC0415
    with call.access() as access:
        with taking(path) as told:
            report = import_adk_sqlite(
                access, path, app_name=app, user_id=user, progress=lambda events, _: told(events, None)
            )
        _print_report(call, path, ADK, "Google ADK", report, access.sessions)
    if user is None:
        with foreign.opened(path) as db:
            ((users,),) = db.rows(_USERS, {"app": app})
        if users > 1:
            note(f"this was of {users:,} users, and is one person's now; --user takes that of one")


# ------------------------------------------------------------------------------------ what is said afterwards


def _print_report(
    call: OwnerCall, path: Path, store: str, name: str, report: ImportReport, sessions: Sessions
) -> None:
    if call.as_json:
        document(_report_document(path, store, report))
        return
    new = f"{plural(len(report.sessions), 'session')}, {plural(report.events, 'new event')}"
    say(f"{path.name}: {name}, {plural(report.lines, 'row')}, {size(report.bytes)}: {new}")
    for session_id in report.sessions[:_LISTED_MAX]:
        say(f"  {session_id}  {one_line(_name(sessions.resume(session_id).info()), 60)}".rstrip())
    if len(report.sessions) > _LISTED_MAX:
        say(f"  and {len(report.sessions) - _LISTED_MAX:,} more; session-vault sessions lists them")
    for problem in report.problems:
        note(f"{path.name}: {f'row {problem.line}: ' if problem.line else ''}{problem.reason}")
    if report.problems_total > len(report.problems):
        note(f"{path.name}: {report.problems_total - len(report.problems):,} more that were not taken")
    _remind(path)


def _name(info: SessionSummary) -> str:
    """The title of a session, or the ids that the framework knows it by."""
    bound = info.external_id or ""
    ids = json.loads(bound)[1:] if bound.startswith("[") else []
    return info.title or " / ".join(ids)


def _report_document(path: Path, store: str, report: ImportReport) -> dict[str, Any]:
    return {
        "store": store,
        "file": str(path),
        "sessions": list(report.sessions),
        "events": report.events,
        "rows": report.lines,
        "bytes": report.bytes,
        "problems": [{"row": problem.line, "reason": problem.reason} for problem in report.problems],
        "problems_total": report.problems_total,
    }


def _remind(path: Path) -> None:
    note(f"{visible(path.name)} still holds all of it; remove it, and its copies, when nothing needs it")
