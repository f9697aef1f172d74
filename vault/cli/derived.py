"""Commands ``memory`` and ``artifact``: what was derived from sessions."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import orjson
import typer
from rich.table import Table
from rich.text import Text

from vault.cli.asked_again import list_stale
from vault.cli.call import OwnerCall, command
from vault.cli.given import labels_of, life_of, namespace_of
from vault.cli.output import binary_stdout, document, note, replacing, say, show
from vault.cli.printable import ago, iso, one_line, plural, size, terminal_json
from vault.clock import SystemClock, from_us
from vault.derived.item import VALUE_BYTES_MAX
from vault.errors import InvalidInput

if TYPE_CHECKING:
    from vault.derived.item import Artifact, Memory

_STANDARD_INPUT: Final = "-"
_VALUE_MAX: Final = 60

NamespaceArgument = Annotated[
    str, typer.Argument(metavar="NAMESPACE", help="Names joined by slashes, `users/alice`; `/` for the root.")
]
PrefixArgument = Annotated[
    str, typer.Argument(metavar="NAMESPACE", help="Only below this namespace; all when left out.")
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The memory's key in that namespace.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The artifact's name.")]
KindOption = Annotated[
    str, typer.Option("--kind", metavar="KIND", help="memory, summary, embedding or cache.")
]
SourceOption = Annotated[
    list[str],
    typer.Option("--source", metavar="ID", help="What it was made from, by id; may be given again."),
]
RuleOption = Annotated[
    str | None,
    typer.Option(
        "--on-source-erased",
        metavar="RULE",
        help="erase_with_any, recompute, erase_with_last or detach: what happens when a source goes. "
        "Left out: as the policy says, else erase_with_any.",
    ),
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="K=V", help="A label, for retention policies; may be given again."),
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why it is detached from its sources.")
]
TtlOption = Annotated[
    str | None, typer.Option("--ttl", metavar="PERIOD", help="Hide it after this time: 12h, 90d.")
]
CountOption = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="At most so many.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    memory = typer.Typer(rich_markup_mode=None, help="Work on memories, and where they came from.")
    command(memory, "put")(put_memory)
    command(memory, "get")(get_memory)
    command(memory, "list")(list_memories)
    command(memory, "search")(search_memories)
    command(memory, "history")(memory_history)
    command(memory, "stale")(list_stale)
    app.add_typer(memory, name="memory")
    artifact = typer.Typer(rich_markup_mode=None, help="Work on files that were made from sessions.")
    command(artifact, "put")(put_artifact)
    command(artifact, "get")(get_artifact)
    command(artifact, "list")(list_artifacts)
    app.add_typer(artifact, name="artifact")


# ------------------------------------------------------------------------------------------------ memories


def put_memory(
    call: OwnerCall,
    *,
    namespace: NamespaceArgument,
    key: KeyArgument,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="JSON, text in quotes; - reads it from standard input.")
    ],
    source: SourceOption,
    on_source_erased: RuleOption = None,
    kind: KindOption = "memory",
    label: LabelOption = None,
    reason: ReasonOption = None,
    ttl: TtlOption = None,
) -> None:
    """Store a memory, with what it came from.

    One of the same namespace and key is superseded, and stays in its history. When a source is erased, the
    memory goes too, as --on-source-erased says.
    """
    given = _value(value)
    with call.access() as access:
        made = access.memories.put(
            namespace_of(namespace),
            key,
            given,
            sources=source,
            on_source_erased=on_source_erased,  # type: ignore[arg-type]  # checked there
            labels=labels_of(label),
            kind=kind,
            reason=reason,
            ttl=life_of(ttl),
        )
    _told(call, memory_document(made), made)


def get_memory(
    call: OwnerCall, *, namespace: NamespaceArgument, key: KeyArgument, kind: KindOption = "memory"
) -> None:
    """Print the value of a memory, as JSON."""
    with call.access() as access:
        found = access.memories.get(namespace_of(namespace), key, kind=kind)
    if call.as_json:
        document(memory_document(found))
    else:
        say(_json(found.value, indent=True))


def list_memories(
    call: OwnerCall, *, namespace: PrefixArgument = "/", kind: KindOption = "memory", limit: CountOption = 100
) -> None:
    """List memories by namespace and key."""
    with call.access() as access:
        found = access.memories.list(namespace_of(namespace), kind=kind, limit=limit)
    _print_memories(call, found, limit)


def search_memories(
    call: OwnerCall,
    *,
    namespace: PrefixArgument = "/",
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Part of the key, or of a text in the value.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="JSON", help='Fields of the value: {"city": "Oslo", "age": {"$gt": 30}}.'
        ),
    ] = None,
    kind: KindOption = "memory",
    limit: CountOption = 20,
) -> None:
    """Find memories by their content, newest first.

    They are opened and compared in memory; nothing to search by is stored.
    """
    wanted = None if where is None else _parsed(where, "--filter is a JSON object of fields and values")
    with call.access() as access:
        found = access.memories.search(
            namespace_of(namespace), filter=wanted, text=text, kind=kind, limit=limit
        )
    _print_memories(call, found, limit)


def memory_history(
    call: OwnerCall,
    *,
    namespace: NamespaceArgument,
    key: KeyArgument,
    kind: KindOption = "memory",
    limit: CountOption = 100,
) -> None:
    """List the versions of a memory, newest first."""
    with call.access() as access:
        found = access.memories.history(namespace_of(namespace), key, kind=kind, limit=limit)
    _print_memories(call, found, limit)


def _print_memories(call: OwnerCall, found: list[Memory], limit: int) -> None:
    if call.as_json:
        document({"memories": [memory_document(one) for one in found]})
        return
    if not found:
        note("no memories here; --kind, --tenant and --as say which and whose")
        return
    now = from_us(SystemClock().now_us())
    table = _made_table("written", "namespace", "key", "value")
    for one in found:
        place = one_line("/".join(one.namespace) or "/", _VALUE_MAX)
        version = "" if one.state == "live" else f" ({one.state})"
        told = f"{one_line(_json(one.value), _VALUE_MAX)}\n{one.id}, version {one.version}{version}"
        row = (ago(one.created_at, now), place, one_line(one.key, _VALUE_MAX), told)
        table.add_row(*map(Text, row))
    show(table)
    if len(found) == limit:
        note("there may be more; --limit shows them")


# ----------------------------------------------------------------------------------------------- artifacts


def put_artifact(
    call: OwnerCall,
    *,
    name: NameArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to store; - reads standard input.")],
    source: SourceOption,
    media_type: Annotated[
        str | None, typer.Option("--media-type", metavar="TYPE", help="For example application/pdf.")
    ] = None,
    on_source_erased: RuleOption = None,
    label: LabelOption = None,
    reason: ReasonOption = None,
    ttl: TtlOption = None,
) -> None:
    """Store a file, with what it came from.

    One of the same name is superseded, and stays as an older version.
    """
    with call.access() as access, _opened(file) as content:
        made = access.artifacts.put(
            name,
            content,
            media_type=media_type,
            sources=source,
            on_source_erased=on_source_erased,  # type: ignore[arg-type]  # checked there
            labels=labels_of(label),
            reason=reason,
            ttl=life_of(ttl),
        )
    _told(call, artifact_document(made), made)


def get_artifact(
    call: OwnerCall,
    *,
    name: NameArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here, not to the output.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", min=1, metavar="N", help="An older version.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
) -> None:
    """Write an artifact to a file, or to standard output.

    With --json only what it is: its content then needs --output.
    """
    with call.access() as access:
        found = access.artifacts.get(name, version)
        if output is not None:
            with replacing(output, overwrite=overwrite) as out, found.open() as content:
                shutil.copyfileobj(content, out)
        elif not call.as_json:
            if sys.stdout.isatty():
                raise InvalidInput("an artifact can be anything: write it to a file with --output")
            with found.open() as content:
                shutil.copyfileobj(content, binary_stdout())
    if call.as_json:
        document(artifact_document(found))
    elif output is not None:
        say(f"{size(found.bytes)} of {found.id}, version {found.version}")


def list_artifacts(call: OwnerCall, *, limit: CountOption = 100) -> None:
    """List artifacts, the one written last first."""
    with call.access() as access:
        found = access.artifacts.list(limit=limit)
    if call.as_json:
        document({"artifacts": [artifact_document(one) for one in found]})
        return
    if not found:
        note("no artifacts here; --tenant and --as say whose")
        return
    now = from_us(SystemClock().now_us())
    table = _made_table("written", "name", "size", "artifact")
    for one in found:
        row = (ago(one.created_at, now), one_line(one.name, 100), size(one.bytes), one.id)
        table.add_row(*map(Text, row))
    show(table)


# ------------------------------------------------------------------------------------- what is said and given


def memory_document(one: Memory) -> dict[str, Any]:
    """What every command of the program shows of a memory as JSON."""
    return {**_item_document(one), "namespace": list(one.namespace), "key": one.key, "value": one.value}


def artifact_document(one: Artifact) -> dict[str, Any]:
    """What every command of the program shows of an artifact as JSON."""
    return {
        **_item_document(one),
        "kind": "artifact",
        "name": one.name,
        "media_type": one.media_type,
        "bytes": one.bytes,
    }


def _item_document(one: Memory | Artifact) -> dict[str, Any]:
    return {
        "id": one.id,
        "kind": getattr(one, "kind", "artifact"),
        "version": one.version,
        "state": one.state,
        "created_at": iso(one.created_at),
        "expires_at": iso(one.expires_at),
        "on_source_erased": one.on_source_erased,
        "sources": [
            {"kind": source.kind, "id": source.id, "session": source.session_id} for source in one.sources
        ],
        "labels": dict(one.labels),
        "reason": one.reason,
    }


def _told(call: OwnerCall, about: dict[str, Any], made: Memory | Artifact) -> None:
    if call.as_json:
        document(about)
        return
    say(made.id)
    say(f"version {made.version}, from {plural(len(made.sources), 'source')}: {made.on_source_erased}")


def _made_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _json(value: Any, *, indent: bool = False) -> str:
    """A value as JSON that is safe to look at."""
    return terminal_json(orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else 0)).decode()


def _value(text: str) -> Any:
    if text == _STANDARD_INPUT:
        # One byte too many is refused by its length; an endless input ends.
        text = sys.stdin.buffer.read(VALUE_BYTES_MAX + 1).decode(errors="surrogateescape")
    return _parsed(text, "VALUE is JSON; text stands in double quotes, which the shell wants quoted again")


def _parsed(text: str, otherwise: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        raise InvalidInput(otherwise) from None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if str(path) == _STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        source = path.open("rb")
    except FileNotFoundError:
        raise InvalidInput("there is no such file") from None
    except OSError:
        raise InvalidInput("this file cannot be read; check its permissions") from None
    with source:
        yield source
