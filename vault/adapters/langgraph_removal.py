"""What goes when checkpoints are taken out of a thread, and what has to be written anew before. Pure.

A chunk stands in the event that first held it, and a checkpoint is written against its parent: what is kept
and stood on something that goes is written anew, so that nothing which goes has to stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from vault.adapters.langgraph_log import Removal
from vault.adapters.langgraph_records import CHECKPOINT, VALUES, checkpoint_record, values_record
from vault.adapters.langgraph_values import chunks_of
from vault.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vault.adapters.langgraph_log import Pending
    from vault.adapters.langgraph_records import Key, Stored
    from vault.adapters.langgraph_state import Thread
    from vault.adapters.langgraph_values import Chunk

#: Bytes of chunks that are written anew in one event.
_VALUES_BYTES: Final = 512 * 1024
_COUNTERS: Final = "counters_since_delta_snapshot"


def whole(thread: Thread) -> Removal:
    """Everything, also writes whose checkpoint never came."""
    written = [event for events in thread.write_events.values() for event in events]
    return Removal([*thread.events.values(), *written, *thread.value_events])


def latest_only(thread: Thread, metadata: Callable[[Stored], dict[str, Any]]) -> Removal:
    """All but the latest checkpoint of each namespace, and what its delta channels are rebuilt from."""
    kept = {}
    for ns in thread.checkpoints:
        latest = thread.stored(ns, None)
        assert latest is not None  # noqa: S101 - a namespace is there by its checkpoints
        kept.update({one.key: one for one in [latest, *_rebuilt_from(thread, latest, metadata)]})
    every = thread.every(None)
    return _without(thread, {one.key for one in every if one.key not in kept})


def of_runs(thread: Thread, metadata: Callable[[Stored], dict[str, Any]], runs: frozenset[str]) -> Removal:
    """All checkpoints that some runs made, with their writes.

    Raises:
        Conflict: a checkpoint that would stay is rebuilt from one that would go.
    """
    every = thread.every(None)
    doomed = {one.key for one in every if metadata(one).get("run_id") in runs}
    for stored in every if doomed else ():
        if stored.key not in doomed and any(
            one.key in doomed for one in _rebuilt_from(thread, stored, metadata)
        ):
            raise Conflict(
                "a later checkpoint has a delta channel that is rebuilt from the writes of these runs; "
                "delete the thread, or name the later runs as well"
            )
    return _without(thread, doomed)


def _rebuilt_from(
    thread: Thread, stored: Stored, metadata: Callable[[Stored], dict[str, Any]]
) -> Iterator[Stored]:
    """The ancestors whose writes a checkpoint's delta channels need, to the nearest one that holds them."""
    missing = set(metadata(stored).get(_COUNTERS) or ()) - stored.nodes.keys()
    for ancestor in thread.ancestors(stored):
        if not missing:
            return
        yield ancestor
        missing -= ancestor.nodes.keys()


def _without(thread: Thread, doomed: set[Key]) -> Removal:
    current = set(thread.every(None))
    gone = {one for one in thread.events if one not in current or one.key in doomed}
    anew = _written_anew(thread, gone, doomed)
    events = [event for one, event in thread.events.items() if one in gone or one in anew]
    events += [event for key in doomed for event in thread.write_events.get(key, ())]
    live = _live(thread, current - gone, doomed)
    going = set(events)
    for event in thread.value_events:
        if not live.issuperset(thread.homes.get(event, ())):
            going.add(event)
            events.append(event)
    homeless = {name for event in events for name in thread.homes.get(event, ()) if name in live}
    # A name can have a second home, when an earlier removal was interrupted.
    homeless -= {name for event, names in thread.homes.items() if event not in going for name in names}
    records = [(CHECKPOINT, checkpoint_record(stored, thread.chunks)) for stored in anew.values()]
    return Removal(events, [*_values(thread, homeless), *records])


def _written_anew(thread: Thread, gone: set[Stored], doomed: set[Key]) -> dict[Stored, Stored]:
    """The checkpoints that stay and cannot stay as they are written; each after the one it builds on."""
    anew: dict[Stored, Stored] = {}
    for (
        stored
    ) in thread.events:  # in the order of the log, so a base comes before what was written against it
        if stored in gone:
            continue
        if stored.base in gone or (stored.ns, stored.parent) in doomed:
            parent = None if (stored.ns, stored.parent) in doomed else stored.parent
            anew[stored] = replace(stored, base=None, parent=parent)
        elif stored.base in anew:
            anew[stored] = replace(stored, base=anew[stored.base])
    return anew


def _live(thread: Thread, kept: Iterable[Stored], doomed: set[Key]) -> set[str]:
    nodes = {id(node): node for stored in kept for node in stored.nodes.values()}
    for key, events in thread.write_events.items():
        if key not in doomed:  # also what a later write took the place of: the event that names it stays
            nodes.update({id(one.node): one.node for writes in events.values() for one in writes})
    chunks = {id(chunk): chunk for node in nodes.values() for chunk in chunks_of(node)}
    return {chunk.name for chunk in chunks.values()}


def _values(thread: Thread, names: set[str]) -> Iterator[Pending]:
    batch: list[Chunk] = []
    size = 0
    for chunk in (thread.chunks[name] for name in sorted(names)):
        if batch and size + len(chunk.data) > _VALUES_BYTES:
            yield VALUES, values_record(batch)
            batch, size = [], 0
        batch.append(chunk)
        size += len(chunk.data)
    if batch:
        yield VALUES, values_record(batch)
