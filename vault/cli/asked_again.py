"""Command ``memory stale``: what went with one of its sources and is to be made again from the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vault.cli.call import OwnerCall
from vault.cli.output import document, note, say
from vault.cli.printable import iso, one_line

if TYPE_CHECKING:
    from vault.derived.stale import Stale

_NAME_MAX = 100


def list_stale(
    call: OwnerCall,
    *,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1_000, metavar="N", help="At most so many.")
    ] = 100,
) -> None:
    """List memories and artifacts that are to be made again.

    They went by `recompute` with one of their sources. A new version under the name settles it.
    """
    with call.access() as access:
        found = access.derived.stale(limit=limit)
    if call.as_json:
        document({"stale": [stale_document(one) for one in found]})
        return
    if not found:
        note("nothing is to be made again; --tenant and --as say whose")
        return
    for one in found:
        name = one_line("/".join((*one.namespace, one.key)), _NAME_MAX)
        say(f"{one.id} {one.kind} {name}, until {iso(one.expires_at)}")
        for source in one.sources:
            say(f"    from {source.id}" + (f" of {source.session_id}" if source.session_id else ""))
    if len(found) == limit:
        note("there may be more; --limit shows them")


def stale_document(one: Stale) -> dict[str, Any]:
    """What is to be made again as JSON."""
    return {
        "id": one.id,
        "kind": one.kind,
        "namespace": list(one.namespace),
        "key": one.key,
        "labels": dict(one.labels),
        "media_type": one.media_type,
        "sources": [
            {"kind": source.kind, "id": source.id, "session": source.session_id} for source in one.sources
        ],
        "asked_at": iso(one.asked_at),
        "expires_at": iso(one.expires_at),
    }
