"""One thread of LangGraph, folded from its events: checkpoints, pending writes, their chunks. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import writes_sort_key

from vault.adapters.langgraph_records import (
    CHECKPOINT,
    STRANGE,
    VALUES,
    WRITES,
    Stored,
    Write,
    chunk_of,
    node_of,
    parts_of,
    patched,
)
from vault.errors import Tampered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vault.adapters.langgraph_records import Key
    from vault.adapters.langgraph_values import Chunk


class Thread:
    """What the events of a thread amount to, up to the last one that was folded."""

    def __init__(self) -> None:
        """A thread without events."""
        self.checkpoints: dict[str, dict[str, Stored]] = {}
        self.writes: dict[Key, dict[tuple[str, int], Write]] = {}
        self.chunks: dict[str, Chunk] = {}
        self.bytes = 0
        #: Which event each record and chunk stands in, for taking them out again.
        self.events: dict[Stored, str] = {}
        self.write_events: dict[Key, dict[str, list[Write]]] = defaultdict(dict)
        self.homes: dict[str, list[str]] = {}
        self.value_events: list[str] = []

    def stored(self, ns: str, checkpoint_id: str | None) -> Stored | None:
        """One checkpoint of a namespace; the latest when no id is given."""
        known = self.checkpoints.get(ns)
        if not known:
            return None
        return known.get(checkpoint_id or max(known))

    def every(self, ns: str | None) -> list[Stored]:
        """All checkpoints of one namespace, or of all of them."""
        names = [*self.checkpoints] if ns is None else [ns]
        return [one for name in names for one in self.checkpoints.get(name, {}).values()]

    def ancestors(self, stored: Stored) -> Iterator[Stored]:
        """The checkpoints before one, the nearest first, as far as they are there."""
        passed = {stored.id}
        while stored.parent is not None and stored.parent not in passed:
            passed.add(stored.parent)
            found = self.stored(stored.ns, stored.parent)
            if found is None:
                return
            yield found
            stored = found

    def pending(self, key: Key) -> list[Write]:
        """The writes of a checkpoint in the order in which a live run applies them."""
        writes = self.writes.get(key, {}).values()
        return sorted(writes, key=lambda one: writes_sort_key(one.path, one.task, one.place))

    def missing(
        self, key: Key, task: str, writes: Sequence[tuple[int, str, Any]]
    ) -> list[tuple[int, str, Any]]:
        """Those of a task's writes that are to be stored, each by its place.

        The first of an ordinary write counts, the last of a special one: an error, interrupt or resume value.
        """
        known = self.writes.get(key, {})
        return [one for one in writes if one[0] < 0 or (task, one[0]) not in known]

    def fold(self, event_id: str, kind: str, record: bytes) -> None:
        """Take in one event.

        Raises:
            Tampered: the record is not as this module writes it.
        """
        try:
            parts = parts_of(record)
            {CHECKPOINT: self._checkpoint, WRITES: self._writes, VALUES: self._values}[kind](event_id, parts)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            raise Tampered(STRANGE) from None

    def add_checkpoint(self, event_id: str, stored: Stored, new: Iterable[Chunk]) -> None:
        """Take in a checkpoint whose event was written just now, with the chunks that were new."""
        self._settle(event_id, new)
        self.checkpoints.setdefault(stored.ns, {})[stored.id] = stored
        self.events[stored] = event_id
        self.bytes += len(stored.rest.data) + len(stored.metadata.data)

    def add_writes(self, event_id: str, key: Key, writes: Iterable[Write], new: Iterable[Chunk]) -> None:
        """Take in writes whose event was written just now, with the chunks that were new."""
        self._settle(event_id, new)
        known, written = self.writes.setdefault(key, {}), list(writes)
        for one in written:
            if one.place < 0 or (one.task, one.place) not in known:
                known[one.task, one.place] = one
        self.write_events[key][event_id] = written

    def _settle(self, event_id: str, new: Iterable[Chunk]) -> None:
        home = []
        for chunk in new:
            home.append(chunk.name)
            self.chunks.setdefault(home[-1], chunk)
            self.bytes += len(chunk.data)
        if home:
            self.homes[event_id] = home

    def _checkpoint(self, event_id: str, parts: dict[str, Any]) -> None:
        ns, parent = parts["ns"], parts["parent"]
        base = self.checkpoints[ns][parent] if parts["based"] else None
        table = self._table(parts)
        nodes = dict(base.nodes) if base else {}
        added, gone = parts["channels"]
        for channel in gone:
            del nodes[channel]
        for channel, form in added.items():
            nodes[channel] = node_of(form, table, nodes.get(channel))
        stored = Stored(
            ns=ns,
            id=parts["id"],
            parent=parent,
            rest=chunk_of(parts["checkpoint"]),
            metadata=chunk_of(parts["metadata"]),
            versions=patched(base.versions if base else {}, parts["versions"]),
            seen=patched(base.seen if base else {}, parts["seen"]),
            nodes=nodes,
            base=base,
        )
        self.add_checkpoint(event_id, stored, parts["values"])

    def _writes(self, event_id: str, parts: dict[str, Any]) -> None:
        table, task, path = self._table(parts), parts["task"], parts["path"]
        made = [
            Write(task, path, place, channel, node_of(form, table, None))
            for place, channel, form in parts["writes"]
        ]
        self.add_writes(event_id, (parts["ns"], parts["id"]), made, parts["values"])

    def _values(self, event_id: str, parts: dict[str, Any]) -> None:
        self._settle(event_id, parts["values"])
        self.value_events.append(event_id)

    def _table(self, parts: dict[str, Any]) -> list[Chunk]:
        """The chunks that a record names: new ones by 0, 1, 2 ..., known ones by -1, -2 ..."""
        return [*parts["values"], *(self.chunks[name] for name in reversed(parts["known"]))]
