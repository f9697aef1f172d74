"""LangGraph's checkpoints in the vault: ``VaultSaver`` stands where SqliteSaver or PostgresSaver stood.

One thread is one session. Whose it is comes with the access that the saver is made with; a thread id only
chooses among that principal's own.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from vault.adapters.binding import Binding
from vault.adapters.langgraph_log import ThreadLogs
from vault.adapters.langgraph_put import Copy, Put, PutWrites
from vault.adapters.langgraph_records import Stored, Write
from vault.adapters.langgraph_removal import latest_only, of_runs, whole
from vault.adapters.langgraph_shapes import (
    PLACED,
    Found,
    config_of,
    matches,
    place_of,
    several,
    thread_id_of,
    walk,
)
from vault.adapters.langgraph_values import Values, check_restricted
from vault.aio import settled
from vault.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from vault.adapters.langgraph_log import Removal
    from vault.adapters.langgraph_state import Thread
    from vault.adapters.langgraph_values import Node
    from vault.faces import Access
    from vault.sessions.session import Session

#: What is taken over from the call's configuration into a checkpoint's metadata, beside what LangGraph gives:
#: by it ``delete_for_runs`` finds what a run made, and a run knows its own checkpoint again.
RUN_ID: Final = "run_id"
_SCALARS: Final = (str, int, float)
_STRATEGIES: Final = frozenset({"keep_latest", "delete"})


class _Reading(BaseCheckpointSaver[Any]):
    """What a saver reads."""

    serde: JsonPlusSerializer

    def __init__(
        self,
        access: Access,
        *,
        reuse_erased: bool = False,
        serde: JsonPlusSerializer | None = None,
        metadata_keys: Iterable[str] = (),
    ) -> None:
        """Keep the threads of one principal.

        Args:
            access: from ``vault.access``: whose threads they are.
            reuse_erased: begin anew under the id of a thread that was deleted; else a late write is refused.
            serde: a JsonPlusSerializer that names the classes of the state beside LangGraph's own, in
                ``allowed_msgpack_modules``; one that makes any class it is told to is refused.
            metadata_keys: what of a call's ``metadata`` and ``configurable`` becomes part of a checkpoint's
                metadata, beside ``run_id``; nothing else does, since secrets and people's names travel there.

        Raises:
            InvalidInput: the serializer is of another kind, or makes whatever it reads.
        """
        given = JsonPlusSerializer(allowed_msgpack_modules=None) if serde is None else serde
        check_restricted(given)
        super().__init__(serde=given)
        self._metadata_keys = (RUN_ID, *metadata_keys)
        self._threads = ThreadLogs(Binding(access, "langgraph", reuse_erased=reuse_erased))

    def session(self, config: RunnableConfig) -> Session:
        """The vault's session of a thread, made when there is none yet: a source for memories and artifacts.

        Raises:
            Erased: the thread was deleted.
            InvalidInput: the configuration names no thread.
        """
        return self._threads.session(place_of(config)[0])

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """One checkpoint with its pending writes, the latest when no id is named; None when there is none.

        Raises:
            InvalidInput: it holds a class that this saver was not told of.
            Tampered: what is stored is not what was written.
        """
        thread_id, ns, checkpoint_id = place_of(config)
        log = self._threads.reading(thread_id)
        if log is None:
            return None
        with log.lock:
            stored = log.thread.stored(ns or "", checkpoint_id)
            pending = log.thread.pending(stored.key) if stored else []
        return Found(thread_id, stored, pending).made(self._values()) if stored else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first; of all threads of this principal when no configuration is given.

        All are found before the first is returned, so that whoever reads on may write and delete meanwhile.

        Args:
            config: the thread; also the namespace and the one checkpoint, when it names them.
            filter: each key must be in the metadata with exactly this value.
            before: only checkpoints older than the one it names; none when it names none.
            limit: at most so many.

        Raises:
            InvalidInput: the filter is no dictionary of names.
            As ``get_tuple``.
        """
        values = self._values()
        return (one.made(values) for one in self._found(config, filter, before, limit))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """For each channel, the writes on the way to a checkpoint since it was stored last, and that value.

        Raises:
            As ``get_tuple``.
        """
        thread_id, ns, checkpoint_id = place_of(config)
        log = self._threads.reading(thread_id) if channels else None
        found: dict[str, list[Write]] = {channel: [] for channel in channels}
        seeds: dict[str, Node] = {}
        if log is not None:
            with log.lock:
                walk(log.thread, log.thread.stored(ns or "", checkpoint_id), found, seeds)
        values, history = self._values(), {}
        for channel, writes in found.items():
            made = [(one.task, channel, values.value(one.node)) for one in reversed(writes)]
            history[channel] = DeltaChannelHistory(writes=made)
            if channel in seeds:
                history[channel]["seed"] = values.value(seeds[channel])
        return history

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002 - LangGraph's signature
        """The version after another: a number, or text in the form of LangGraph's own savers."""
        if not isinstance(current, str):
            return 1 if current is None else current + 1
        return f"{int(current.split('.')[0]) + 1:032}.{random.random():016}"  # noqa: S311 - no secret

    def _values(self) -> Values:
        return Values(self.serde)

    def _metadata(self, stored: Stored) -> dict[str, Any]:
        metadata: dict[str, Any] = self._values().value(stored.metadata)
        return metadata

    def _found(
        self,
        config: RunnableConfig | None,
        wanted: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[Found]:
        if wanted is not None and not (isinstance(wanted, dict) and all(type(key) is str for key in wanted)):
            raise InvalidInput("a filter is a dictionary from names of metadata to the values they must have")
        thread_id, ns, only = place_of(config) if config else (None, None, None)
        older = (before.get("configurable") or {}).get("checkpoint_id") if before else None
        if before and not older:
            return []
        found: list[Found] = []
        for one in [thread_id] if thread_id is not None else self._threads.ids():
            log = self._threads.reading(one)
            if log is None:
                continue
            with log.lock:
                for stored in log.thread.every(ns):
                    if (only and stored.id != only) or (older and stored.id >= older):
                        continue
                    if not wanted or matches(self._metadata(stored), wanted):
                        found.append(Found(one, stored, log.thread.pending(stored.key)))
        found.sort(key=lambda one: one.stored.id, reverse=True)
        return found if limit is None else found[: max(limit, 0)]


class _Writing(_Reading):
    """What a saver writes and takes away."""

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; it is durable when this returns, at the cost of what is new in it.

        Args:
            config: the thread, the namespace, and the parent's id as ``checkpoint_id``.
            checkpoint: a channel that is not in ``new_versions`` and has its version in the parent is not
                looked at again.
            metadata: kept as given; of the configuration only ``run_id`` and the ``metadata_keys`` are added.
            new_versions: the channels that changed.

        Raises:
            Erased: the thread was deleted.
            InvalidInput: a value cannot be kept, or its class is not one that this saver was told of.
        """
        thread_id, ns, parent = place_of(config)
        given: dict[str, Any] = dict(metadata)
        for source in (config.get("metadata") or {}, config.get("configurable") or {}):
            taken = {key: source[key] for key in self._metadata_keys if key in source}
            given = {**{key: one for key, one in taken.items() if isinstance(one, _SCALARS)}, **given}
        values = self._values()
        rest = values.chunk({key: value for key, value in checkpoint.items() if key not in PLACED})
        draft = Stored(
            ns=ns or "",
            id=checkpoint["id"],
            parent=parent,
            rest=rest,
            metadata=values.chunk(given),
            versions=dict(checkpoint["channel_versions"]),
            seen={node: dict(seen) for node, seen in checkpoint["versions_seen"].items()},
            nodes={},
        )
        work = Put(draft, checkpoint["channel_values"], frozenset(new_versions), values)
        self._threads.write(thread_id, work.write)
        return config_of(thread_id, draft.ns, draft.id)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote, before or after the checkpoint that it belongs to.

        The first of an ordinary write counts; an error, interrupt or resume value takes the last one's place.

        Raises:
            As ``put``.
        """
        thread_id, ns, checkpoint_id = place_of(config)
        if checkpoint_id is None:
            raise InvalidInput("writes belong to a checkpoint; name it as checkpoint_id")
        placed = [
            (WRITES_IDX_MAP.get(channel, i), channel, value) for i, (channel, value) in enumerate(writes)
        ]
        work = PutWrites((ns or "", checkpoint_id), placed, task_id, task_path, self._values())
        self._threads.write(thread_id, work.write)

    def delete_thread(self, thread_id: str) -> None:
        """Erase a thread for good, with what was derived from it; a receipt says so.

        Raises:
            Conflict: a legal hold or a statutory minimum keeps it; it is hidden until that ends.
        """
        self._threads.erase(thread_id_of(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Take all that some runs stored out of each thread; then it is in no file of the vault any more.

        What a later checkpoint still shows, such as the messages of its conversation, stays with that one.

        Raises:
            Conflict: a checkpoint that would stay is rebuilt from one that would go, or a hold keeps it.
        """
        runs = frozenset(several(run_ids, "run ids"))
        for thread_id in self._threads.ids() if runs else ():
            self._drop(thread_id, lambda thread: of_runs(thread, self._metadata, runs))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Take old checkpoints out of threads that live on; then they are in no file of the vault any more.

        Args:
            thread_ids: which threads; one that is not there is no error.
            strategy: ``keep_latest`` keeps the newest checkpoint of each namespace, with its writes, and the
                ancestors that its delta channels are rebuilt from. ``delete`` keeps none; the thread can be
                gone on with, unlike after ``delete_thread``.

        Raises:
            Conflict: a legal hold or a statutory minimum keeps the thread.
        """
        if strategy not in _STRATEGIES:
            raise InvalidInput("the strategies are keep_latest and delete")
        for thread_id in several(thread_ids, "thread ids"):
            if strategy == "delete":
                self._drop(thread_id, whole)
            else:
                self._drop(thread_id, lambda thread: latest_only(thread, self._metadata))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread into another one, which is then a thread of its own.

        Raises:
            Erased: the target was deleted.
            InvalidInput: both are the same.
        """
        source, target = thread_id_of(source_thread_id), thread_id_of(target_thread_id)
        if source == target:
            raise InvalidInput("a thread is copied into another one; name two different threads")
        log = self._threads.reading(source)
        if log is None:
            return
        with log.lock:
            copy = Copy(log.thread)
        self._threads.write(target, copy.write)

    def _drop(self, thread_id: str, plan: Callable[[Thread], Removal]) -> None:
        log = self._threads.reading(thread_id)
        if log is None:
            return
        try:
            log.drop(plan)
        finally:
            self._threads.forget(thread_id)


class VaultSaver(_Writing):
    """A checkpointer of LangGraph that keeps one principal's threads in a vault, sync and async.

    Safe to use from several threads, tasks and processes at once.
    """

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As ``get_tuple``."""
        return await settled(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As ``list``."""
        values = self._values()
        for one in await settled(self._found, config, filter, before, limit):
            yield await settled(one.made, values)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As ``put``."""
        return await settled(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As ``put_writes``."""
        await settled(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """As ``delete_thread``."""
        await settled(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As ``delete_for_runs``."""
        await settled(self.delete_for_runs, run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As ``prune``."""
        await settled(self.prune, thread_ids, strategy=strategy)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As ``copy_thread``."""
        await settled(self.copy_thread, source_thread_id, target_thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As ``get_delta_channel_history``."""
        return await settled(self.get_delta_channel_history, config=config, channels=channels)
