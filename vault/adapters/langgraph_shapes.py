"""LangGraph's shapes: configurations and filters as they come in, checkpoints as they go out. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langgraph.checkpoint.base import CheckpointTuple

from vault.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from vault.adapters.langgraph_records import Stored, Write
    from vault.adapters.langgraph_state import Thread
    from vault.adapters.langgraph_values import Node, Values


#: What of a checkpoint has a place of its own; the rest is kept as one value.
PLACED: Final = frozenset({"id", "channel_values", "channel_versions", "versions_seen"})


class Found(NamedTuple):
    """A checkpoint that was found, before its values are made."""

    thread_id: str
    stored: Stored
    pending: Sequence[Write]

    def made(self, values: Values) -> CheckpointTuple:
        """The checkpoint as LangGraph takes it, each time of objects of its own.

        Raises:
            InvalidInput: it holds a class that the saver was not told of.
        """
        one = self.stored
        rest: dict[str, Any] = values.value(one.rest)
        checkpoint = {
            **rest,
            "id": one.id,
            "channel_values": {channel: values.value(node) for channel, node in one.nodes.items()},
            "channel_versions": dict(one.versions),
            "versions_seen": {node: dict(seen) for node, seen in one.seen.items()},
        }
        return CheckpointTuple(
            config=config_of(self.thread_id, one.ns, one.id),
            checkpoint=checkpoint,  # type: ignore[arg-type]
            metadata=values.value(one.metadata),
            parent_config=config_of(self.thread_id, one.ns, one.parent) if one.parent else None,
            pending_writes=[(write.task, write.channel, values.value(write.node)) for write in self.pending],
        )


def place_of(config: RunnableConfig) -> tuple[str, str | None, str | None]:
    """Thread, namespace and checkpoint that a configuration names.

    Raises:
        InvalidInput: it names no thread, or one of them is no text.
    """
    configurable = config.get("configurable") or {}
    ns, checkpoint_id = configurable.get("checkpoint_ns"), configurable.get("checkpoint_id")
    for one in (ns, checkpoint_id):
        if one is not None and not isinstance(one, str):
            raise InvalidInput("checkpoint_ns and checkpoint_id are text")
    return thread_id_of(configurable.get("thread_id")), ns, checkpoint_id or None


def thread_id_of(given: object) -> str:
    """A thread id, checked.

    Raises:
        InvalidInput: it is neither text nor a number.
    """
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if not isinstance(given, str):
        raise InvalidInput("a thread is named by a text as thread_id")
    return given


def several(given: Sequence[str], what: str) -> list[str]:
    """Several ids, checked.

    Raises:
        TypeError: it is one text.
    """
    if isinstance(given, str):
        raise TypeError(f"{what} are a list of texts, not one text")
    return list(given)


def config_of(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    """The configuration that names one checkpoint."""
    return {
        "configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id},
    }


def matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether each name is there with exactly this value; ``True`` is not 1."""
    return all(
        key in metadata
        and metadata[key] == value
        and isinstance(metadata[key], bool) is isinstance(value, bool)
        for key, value in wanted.items()
    )


def walk(
    thread: Thread, target: Stored | None, found: dict[str, list[Write]], seeds: dict[str, Node]
) -> None:
    """The writes to some channels before a checkpoint, the newest first, each up to where it was stored."""
    for ancestor in thread.ancestors(target) if target else ():
        remaining = found.keys() - seeds.keys()
        if not remaining:
            return
        for write in reversed(thread.pending(ancestor.key)):
            if write.channel in remaining:
                found[write.channel].append(write)
        seeds.update({channel: ancestor.nodes[channel] for channel in remaining & ancestor.nodes.keys()})
