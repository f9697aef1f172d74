"""Checkpoints and writes on their way into a thread: what is new in them, against the thread as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from vault.adapters.langgraph_log import BATCH
from vault.adapters.langgraph_records import CHECKPOINT, WRITES, Write, checkpoint_record, writes_record
from vault.adapters.langgraph_values import Listed, Memory, next_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vault.adapters.langgraph_log import Pending, ThreadLog
    from vault.adapters.langgraph_records import Key, Record, Stored
    from vault.adapters.langgraph_state import Thread
    from vault.adapters.langgraph_values import Chunk, Node, Values

#: Channels of one thread whose last value is held in memory: each call of a subgraph has some of its own.
_MEMORIES_MAX: Final = 64


class Put:
    """A checkpoint to store."""

    def __init__(
        self, draft: Stored, given: Mapping[str, Any], changed: frozenset[str], values: Values
    ) -> None:
        """All but its channels' values, those values, and which of them are new."""
        self._draft, self._given, self._changed, self._values = draft, given, changed, values

    def write(self, log: ThreadLog) -> None:
        """Store it, against its parent as that is now.

        Raises:
            InvalidInput: a value cannot be kept.
        """
        made: list[tuple[Stored, Record]] = []

        def compose(thread: Thread) -> list[Pending]:
            parent = self._draft.parent
            base = thread.stored(self._draft.ns, parent) if parent is not None else None
            stored = replace(self._draft, base=base, nodes=self._nodes(log, base))
            made[:] = [(stored, checkpoint_record(stored, thread.chunks))]
            return [(CHECKPOINT, made[0][1])]

        (event,) = log.append(compose)
        log.thread.add_checkpoint(event.id, made[0][0], made[0][1].new)

    def write_once(self, log: ThreadLog) -> bool:
        """Store it unless there is one of its id; whether it was stored."""
        if log.thread.stored(self._draft.ns, self._draft.id) is not None:
            return False
        self.write(log)
        return True

    def _nodes(self, log: ThreadLog, base: Stored | None) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        before = base.nodes if base else {}
        for channel in dict.fromkeys([*self._given, *self._draft.versions]):
            version = self._draft.versions.get(channel)
            is_new = version is None or base is None or base.versions.get(channel) != version
            if channel in before and channel not in self._changed and not is_new:
                nodes[channel] = before[channel]
            elif channel in self._given:
                node = self._values.node(self._given[channel], self._memory(log, channel))
                nodes[channel] = next_list(before.get(channel), node) if isinstance(node, Listed) else node
        return nodes

    def _memory(self, log: ThreadLog, channel: str) -> Memory:
        key = (self._draft.ns, channel)
        memory = log.memories.pop(key, None) or Memory()
        log.memories[key] = memory
        if len(log.memories) > _MEMORIES_MAX:
            del log.memories[next(iter(log.memories))]
        return memory


class PutWrites:
    """A task's writes to store."""

    def __init__(
        self, key: Key, writes: Sequence[tuple[int, str, Any]], task: str, path: str, values: Values
    ) -> None:
        """To which checkpoint; places, channels and values; and whose they are."""
        self._key, self._writes, self._task, self._path = key, writes, task, path
        self._values = values

    def write(self, log: ThreadLog) -> None:
        """Store those that are not there yet.

        Raises:
            InvalidInput: a value cannot be kept.
        """
        if not log.thread.missing(self._key, self._task, self._writes):
            log.refresh()  # what is known to be there may have been taken out by another process
        made: list[tuple[list[Write], Record]] = []

        def compose(thread: Thread) -> list[Pending]:
            missing = thread.missing(self._key, self._task, self._writes)
            if not missing:
                return []
            writes = [self._write(place, channel, value) for place, channel, value in missing]
            made[:] = [(writes, writes_record(self._key, writes, thread.chunks))]
            return [(WRITES, made[0][1])]

        for event in log.append(compose):
            log.thread.add_writes(event.id, self._key, made[0][0], made[0][1].new)

    def _write(self, place: int, channel: str, value: Any) -> Write:
        return Write(self._task, self._path, place, channel, self._values.node(value))

    def write_once(self, log: ThreadLog) -> int:
        """Store those of places that nothing stands at; how many."""
        key, task = self._key, self._task
        known = log.thread.writes.get(key, {})
        self._writes = [one for one in self._writes if (task, one[0]) not in known]
        if self._writes:
            self.write(log)
        return len(self._writes)


class Copy:
    """All of one thread, to store in another one."""

    def __init__(self, thread: Thread) -> None:
        """The thread as it is now."""
        self._checkpoints = list(thread.events)
        self._writes: list[tuple[Key, list[Write]]] = []
        for key, known in thread.writes.items():
            tasks: dict[tuple[str, str], list[Write]] = {}
            for one in known.values():
                tasks.setdefault((one.task, one.path), []).append(one)
            self._writes += [(key, writes) for writes in tasks.values()]
        self._copies: dict[Stored, Stored] = {}

    def write(self, log: ThreadLog) -> None:
        """Store it, in transactions of up to ``BATCH`` events."""
        for start in range(0, len(self._checkpoints), BATCH):
            self._store(log, self._checkpoints[start : start + BATCH], [])
        for start in range(0, len(self._writes), BATCH):
            self._store(log, [], self._writes[start : start + BATCH])

    def _store(
        self, log: ThreadLog, checkpoints: Sequence[Stored], writes: Sequence[tuple[Key, list[Write]]]
    ) -> None:
        copies: list[tuple[Stored, Record]] = []
        written: list[tuple[Key, list[Write], Record]] = []

        def compose(thread: Thread) -> list[Pending]:
            known: dict[str, Chunk] = dict(thread.chunks)
            current: dict[Key, Stored] = {}
            copies.clear()
            written.clear()
            for stored in checkpoints:
                copy = replace(stored, base=self._base(thread, current, stored))
                record = checkpoint_record(copy, known)
                known.update((one.name, one) for one in record.new)
                self._copies[stored] = current[copy.key] = copy
                copies.append((copy, record))
            for key, some in writes:
                record = writes_record(key, some, known)
                known.update((one.name, one) for one in record.new)
                written.append((key, some, record))
            return [*((CHECKPOINT, one) for _, one in copies), *((WRITES, one) for *_, one in written)]

        events = iter(log.append(compose))
        for copy, record in copies:
            log.thread.add_checkpoint(next(events).id, copy, record.new)
        for key, some, record in written:
            log.thread.add_writes(next(events).id, key, some, record.new)

    def _base(self, thread: Thread, current: Mapping[Key, Stored], stored: Stored) -> Stored | None:
        """What a copy is written against: the copy of what the original was, while it stands there."""
        if stored.base is None:
            return None
        copy = self._copies.get(stored.base)
        standing = current.get(stored.base.key) or thread.stored(*stored.base.key)
        return copy if copy is standing else None
