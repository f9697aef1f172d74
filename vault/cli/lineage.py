"""Command ``lineage``: where something came from and what came from it, as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from vault.cli.call import OwnerCall, command
from vault.cli.output import document, say
from vault.errors import NotFound

if TYPE_CHECKING:
    from vault.derived.lineage import Node

_LAST, _MORE, _BELOW, _NEXT = "└── ", "├── ", "    ", "│   "
_CUT: Final = "…"
_ABSENT: Final = "there is no such session, memory or artifact; --tenant and --as say whose"


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "lineage")(show_lineage)


def show_lineage(
    call: OwnerCall,
    *,
    item: Annotated[
        str, typer.Argument(metavar="ITEM", help="The full id of a memory, an artifact or a session.")
    ],
) -> None:
    """Draw what something came from, down to the log, and what was made from it.

    Only what is one's own is followed: what others made from a session that they were shown is theirs.
    """
    with call.access() as access:
        try:
            found = access.derived.lineage(item)
        except NotFound:
            raise NotFound(
                "there is no such session, memory or artifact; --tenant and --as say whose"
            ) from None
    if call.as_json:
        document(node_document(found))
        return
    say(_line(found))
    for title, way in (("came from", "sources"), ("made from it", "derived")):
        nodes = getattr(found, way)
        if nodes:
            say(title)
            for line in _drawn(nodes, way, ""):
                say(line)
    if not found.sources and not found.derived:
        say("nothing was made from it")


def node_document(node: Node) -> dict[str, Any]:
    """A node and what hangs on it as JSON."""
    told: dict[str, Any] = {"kind": node.kind, "id": node.id, "state": node.state}
    if node.version is not None:
        told["version"] = node.version
    if node.session_id is not None:
        told["session"] = node.session_id
    told["sources"] = [node_document(one) for one in node.sources]
    told["derived"] = [node_document(one) for one in node.derived]
    told["more"] = node.more
    return told


def _drawn(nodes: tuple[Node, ...], way: str, indent: str) -> Iterator[str]:
    for node in nodes:
        last = node is nodes[-1]
        yield f"{indent}{_LAST if last else _MORE}{_line(node)}"
        yield from _drawn(getattr(node, way), way, indent + (_BELOW if last else _NEXT))


def _line(node: Node) -> str:
    told = f"{node.id} {node.kind}"
    if node.version is not None:
        told += f" version {node.version}"
    if node.state != "live":
        told += f", {node.state}"
    return f"{told} {_CUT}" if node.more else told
