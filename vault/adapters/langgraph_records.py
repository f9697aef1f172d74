"""Checkpoints and writes of LangGraph as the bytes of events: JSON, so that a person can read them. Pure.

A checkpoint is written as what is new against its parent, and a chunk that the thread holds already is named,
not written again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from vault.adapters.langgraph_values import (
    READABLE,
    Chunk,
    Listed,
    Mapped,
    Message,
    Node,
    Snapshot,
    equal,
    next_list,
)
from vault.errors import InvalidInput, Tampered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHECKPOINT: Final = "langgraph.checkpoint"
WRITES: Final = "langgraph.writes"
VALUES: Final = "langgraph.values"

#: The first thing in each record; another number is another layout.
LAYOUT: Final = 1
#: Bytes of a chunk up to which it stands in the record itself: a name takes 20.
_INLINE_MAX: Final = 24
#: Forms of a value in a record, beside a chunk's number and a chunk itself, which is an object of its tag.
_LIST, _SPLICE, _DICT, _PATCH, _SNAPSHOT, _MESSAGE = "list", "from", "dict", "changed", "snapshot", "message"
STRANGE: Final = "a record of this thread is not as it was written"

Versions = dict[str, Any]
#: Namespace and id of a checkpoint.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stored:
    """A checkpoint as it stands in the thread.

    ``rest`` and ``metadata`` are serialised; ``nodes`` are the values of its channels; ``base`` is the
    checkpoint that its record was written against.
    """

    ns: str
    id: str
    parent: str | None
    rest: Chunk = field(repr=False)
    metadata: Chunk = field(repr=False)
    versions: Versions = field(repr=False)
    seen: dict[str, Versions] = field(repr=False)
    nodes: dict[str, Node] = field(repr=False)
    base: Stored | None = field(default=None, repr=False)

    @property
    def key(self) -> Key:
        """Namespace and id."""
        return self.ns, self.id


class Write(NamedTuple):
    """One pending write of a task to a channel."""

    task: str
    path: str
    place: int
    channel: str
    node: Node


class Record(NamedTuple):
    """The bytes of an event, and the chunks that it is the first to hold."""

    packed: bytes
    new: list[Chunk]


def checkpoint_record(stored: Stored, known: Mapping[str, Chunk]) -> Record:
    """A checkpoint for the log.

    Args:
        stored: the checkpoint; written against its ``base``, or on its own when it has none.
        known: the chunks that the thread holds already.

    Raises:
        InvalidInput: a name in it is no text.
    """
    base, table = stored.base, _Table(known)
    before = base.nodes if base else {}
    added = {
        channel: table.form(node, before.get(channel))
        for channel, node in stored.nodes.items()
        if before.get(channel) is not node
    }
    gone = [channel for channel in before if channel not in stored.nodes]
    packed = _packed(
        ns=stored.ns,
        id=stored.id,
        parent=stored.parent,
        based=base is not None,
        checkpoint=_said(stored.rest),
        metadata=_said(stored.metadata),
        versions=_patch(base.versions if base else {}, stored.versions),
        seen=_patch(base.seen if base else {}, stored.seen),
        channels=[added, gone],
        known=table.old,
        values=[_said(one) for one in table.new],
    )
    return Record(packed, table.new)


def writes_record(key: Key, writes: Sequence[Write], known: Mapping[str, Chunk]) -> Record:
    """Writes of one task to a checkpoint for the log.

    Raises:
        InvalidInput: a name in it is no text.
    """
    table = _Table(known)
    forms = [[one.place, one.channel, table.form(one.node, None)] for one in writes]
    task, path = writes[0].task, writes[0].path
    packed = _packed(
        ns=key[0],
        id=key[1],
        task=task,
        path=path,
        writes=forms,
        known=table.old,
        values=[_said(one) for one in table.new],
    )
    return Record(packed, table.new)


def values_record(chunks: list[Chunk]) -> Record:
    """Chunks on their own for the log: what is left of events that are taken out."""
    return Record(_packed(values=[_said(one) for one in chunks]), chunks)


def parts_of(record: bytes) -> dict[str, Any]:
    """What a record says, by name; the chunks that it is the first to hold among it.

    Raises:
        ValueError, TypeError, KeyError: it is not as this module writes it.
    """
    parts: dict[str, Any] = orjson.loads(record)
    if parts.pop("layout") != LAYOUT:
        raise ValueError
    parts["values"] = [chunk_of(one) for one in parts["values"]]
    return parts


def _packed(**parts: Any) -> bytes:
    try:
        return orjson.dumps({"layout": LAYOUT, **parts})
    except TypeError:
        raise InvalidInput(
            "a thread's namespaces, channels, tasks and versions are text and numbers; give them as such"
        ) from None


def _said(chunk: Chunk) -> dict[str, Any]:
    if chunk.tag in READABLE:
        return {chunk.tag: orjson.Fragment(chunk.data)}
    return {chunk.tag: base64.b64encode(chunk.data).decode("ascii")}


def chunk_of(said: Mapping[str, Any]) -> Chunk:
    """A chunk as it stands in a record.

    Raises:
        ValueError, TypeError: it is none.
    """
    ((tag, value),) = said.items()
    if tag in READABLE:
        return Chunk(tag, orjson.dumps(value))  # the same bytes as before: its name is made of them
    try:
        return Chunk(tag, base64.b64decode(value, validate=True))
    except binascii.Error:
        raise ValueError from None


class _Table:
    """The chunks that a record names, in the order of their first use."""

    def __init__(self, known: Mapping[str, Chunk]) -> None:
        self._known = known
        self._places: dict[str, int] = {}
        self.new: list[Chunk] = []
        self.old: list[str] = []

    def form(self, node: Node, base: Node | None) -> Any:
        """A value for the record, against the one that it came from when there is one."""
        if isinstance(node, Chunk):
            return self._chunk(node)
        if isinstance(node, Message):
            return [_MESSAGE, self._chunk(node.envelope), node.id, self._chunk(node.text)]
        if isinstance(node, Snapshot):
            return [_SNAPSHOT, self.form(node.of, None)]
        if isinstance(node, Mapped):
            return self._mapped(node.entries, base)
        step = next_list(base, node)
        if step.base is None or step.base is not base:
            return [_LIST, [self.form(item, None) for item in node.items()]]
        return [_SPLICE, step.prefix, [self.form(item, None) for item in step.added], step.suffix]

    def _mapped(self, entries: dict[str, Node], base: Node | None) -> Any:
        before = base.entries if isinstance(base, Mapped) else {}
        kept = [key for key in before if key in entries]
        if not kept or [*kept, *(key for key in entries if key not in before)] != list(entries):
            return [_DICT, {key: self.form(entry, None) for key, entry in entries.items()}]
        changed = {
            key: self.form(entry, None) for key, entry in entries.items() if not equal(before.get(key), entry)
        }
        return [_PATCH, changed, [key for key in before if key not in entries]]

    def _chunk(self, chunk: Chunk) -> Any:
        if len(chunk.data) <= _INLINE_MAX:
            return _said(chunk)
        name = chunk.name
        place = self._places.get(name)
        if place is None:
            if name in self._known:
                self.old.append(name)
                place = -len(self.old)
            else:
                self.new.append(chunk)
                place = len(self.new) - 1
            self._places[name] = place
        return place


def node_of(form: Any, table: list[Chunk], base: Node | None) -> Node:
    """The value of a form in a record.

    Args:
        form: what ``checkpoint_record`` or ``writes_record`` made of it.
        table: the chunks that the record names.
        base: the value that the form was written against.

    Raises:
        Tampered: there is none to write it against.
    """
    if isinstance(form, int):
        return table[form]
    if isinstance(form, dict):
        return chunk_of(form)
    kind, *parts = form
    return _FORMS[kind](table, base, *parts)


def _chunk(form: Any, table: list[Chunk]) -> Chunk:
    node = node_of(form, table, None)
    if not isinstance(node, Chunk):
        raise Tampered(STRANGE)
    return node


def _list(table: list[Chunk], _: Node | None, items: list[Any]) -> Node:
    return Listed(None, 0, tuple(node_of(item, table, None) for item in items), 0)


def _splice(table: list[Chunk], base: Node | None, prefix: int, added: list[Any], suffix: int) -> Node:
    if not isinstance(base, Listed):
        raise Tampered(STRANGE)
    return Listed(base, prefix, tuple(node_of(item, table, None) for item in added), suffix)


def _dict(table: list[Chunk], _: Node | None, entries: dict[str, Any]) -> Node:
    return Mapped({key: node_of(entry, table, None) for key, entry in entries.items()})


def _patched_dict(table: list[Chunk], base: Node | None, changed: dict[str, Any], gone: list[str]) -> Node:
    if not isinstance(base, Mapped):
        raise Tampered(STRANGE)
    kept = {key: entry for key, entry in base.entries.items() if key not in gone}
    return Mapped(kept | {key: node_of(entry, table, None) for key, entry in changed.items()})


#: What makes a value of each form, by its number.
_FORMS: Final[dict[str, Callable[..., Node]]] = {
    _LIST: _list,
    _SPLICE: _splice,
    _DICT: _dict,
    _PATCH: _patched_dict,
    _SNAPSHOT: lambda table, _, of: Snapshot(node_of(of, table, None)),
    _MESSAGE: lambda table, _, envelope, one, text: Message(
        _chunk(envelope, table), one, _chunk(text, table)
    ),
}


def _patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Any]:
    """What changed from one dictionary to another: entries, and keys that are gone."""
    absent = object()
    changed = {key: value for key, value in after.items() if before.get(key, absent) != value}
    return [changed, [key for key in before if key not in after]]


def patched(before: Mapping[str, Any], patch: Sequence[Any]) -> dict[str, Any]:
    """A dictionary after the changes that a record names."""
    changed, gone = patch
    return {**{key: value for key, value in before.items() if key not in gone}, **changed}
