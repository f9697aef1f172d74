"""The values of LangGraph's channels as chunks that are stored once, and the values back from them.

A list is kept by its elements and a dictionary by its entries, so that the turn of a conversation costs what
the turn adds. Only the serializer of LangGraph turns objects into bytes and back.
"""

from __future__ import annotations

import base64
import hashlib
import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from vault.adapters.langgraph_pictures import Album, taken, unchanged
from vault.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.serde.event_hooks import SerdeEvent

#: Versions of a list after which its elements are held in memory as a whole again.
_STEPS_MAX: Final = 64
#: How deep a dictionary in a dictionary is kept by its entries.
_DEPTH_MAX: Final = 2
#: What is kept as JSON: plain data, and a message of LangChain but for its id and text.
READABLE: Final = frozenset({"json", "message"})
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_MESSAGES: Final = {kind.__name__: kind for kind in (AIMessage, HumanMessage, SystemMessage, ToolMessage)}


@dataclass(frozen=True, slots=True)
class Chunk:
    """One serialised value: what LangGraph's serializer calls its type, and its bytes."""

    tag: str
    data: bytes = field(repr=False)

    @property
    def name(self) -> str:
        """20 letters that are this content's and no other's; they stand in sealed records only."""
        digest = hashlib.blake2b(self.data, digest_size=15, person=self.tag.encode()).digest()
        return base64.b64encode(digest).decode("ascii")


@dataclass(frozen=True, slots=True)
class Message:
    """A message of LangChain: what is alike in most messages of its kind, its id, and its text.

    The text is null when the content is no text; it is in the envelope then.
    """

    envelope: Chunk
    id: str | None
    text: Chunk = field(repr=False)


class Listed:
    """A list of values, as what became of an earlier one: its first items, some new ones, its last items."""

    __slots__ = ("added", "base", "flat", "prefix", "steps", "suffix")

    def __init__(self, base: Listed | None, prefix: int, added: tuple[Node, ...], suffix: int) -> None:
        """Made from ``base``; None for a list on its own."""
        self.base, self.prefix, self.added, self.suffix = base, prefix, added, suffix
        self.steps: int = 0 if base is None else base.steps + 1
        self.flat: tuple[Node, ...] | None = None
        if self.steps >= _STEPS_MAX:  # so neither memory nor the way back grows with the square of the turns
            self.flat, self.steps = tuple(self.items()), 0

    def items(self) -> list[Node]:
        """The items, in order."""
        steps: list[Listed] = []
        at: Listed | None = self
        while at is not None and at.flat is None:
            steps.append(at)
            at = at.base
        items = [] if at is None else list(at.flat or ())
        for step in reversed(steps):
            items[step.prefix : len(items) - step.suffix] = step.added
        return items


class Mapped:
    """A dictionary with its keys in order."""

    __slots__ = ("entries",)

    def __init__(self, entries: dict[str, Node]) -> None:
        """The entries, each a value of its own."""
        self.entries = entries


class Snapshot:
    """What a delta channel was at one moment, so that nothing older is needed to rebuild it."""

    __slots__ = ("of",)

    def __init__(self, of: Node) -> None:
        """The value."""
        self.of = of


Node: TypeAlias = Chunk | Message | Listed | Mapped | Snapshot


def chunks_of(node: Node) -> Iterator[Chunk]:
    """All chunks that a value consists of."""
    if isinstance(node, Chunk):
        yield node
    elif isinstance(node, Message):
        yield from (node.envelope, node.text)
    elif isinstance(node, Listed):
        for item in node.items():
            yield from chunks_of(item)
    elif isinstance(node, Mapped):
        for entry in node.entries.values():
            yield from chunks_of(entry)
    else:
        yield from chunks_of(node.of)


def next_list(base: Node | None, node: Listed) -> Listed:
    """A list as what became of ``base``, when both begin or end alike."""
    if not isinstance(base, Listed):
        return node
    if node.base is base:
        return node
    items = node.items()
    old = base.items()
    prefix = _alike(old, items)
    suffix = _alike(old[: prefix - 1 if prefix else None : -1], items[: prefix - 1 if prefix else None : -1])
    if not prefix + suffix:
        return node
    return Listed(base, prefix, tuple(items[prefix : len(items) - suffix]), suffix)


def _alike(one: list[Node], other: list[Node]) -> int:
    """How many items two lists begin with alike."""
    count = 0
    for item, known in zip(one, other, strict=False):
        if item is not known and not equal(item, known):
            break
        count += 1
    return count


def equal(one: Node | None, other: Node) -> bool:
    """Whether two values are the same, as far as that shows without looking into lists and dictionaries."""
    return one is other or (isinstance(one, (Chunk, Message)) and one == other)


# ------------------------------------------------------------------------------------ to chunks and back


@dataclass(slots=True)
class Memory:
    """What a channel held when it was last put: an element that did not change is not serialised again."""

    album: Album = field(default_factory=Album)
    nodes: list[Node] = field(default_factory=list)


class Values:
    """Turns values into chunks and chunks into values, by one serializer."""

    def __init__(self, serde: JsonPlusSerializer) -> None:
        """Use a serializer that makes only the types it was told."""
        self._serde = serde

    def node(self, value: Any, memory: Memory | None = None, depth: int = 0) -> Node:
        """The value in chunks.

        Args:
            value: what a channel holds.
            memory: of the same channel; it is brought up to date.
            depth: how many dictionaries it stands in.

        Raises:
            InvalidInput: it cannot be serialised, or its type may not be made when it is read.
        """
        kind = type(value)
        if kind is list:
            return Listed(None, 0, tuple(self._elements(value, memory)), 0)
        if kind is dict and depth < _DEPTH_MAX and all(type(key) is str for key in value):
            nodes = self._entries(list(value.values()), memory, depth + 1)
            return Mapped(dict(zip(value, nodes, strict=True)))
        if kind is _DeltaSnapshot:
            return Snapshot(self.node(value.value, memory, depth))
        return self._one(value)

    def chunk(self, value: Any) -> Chunk:
        """The value in one piece.

        Raises:
            InvalidInput: it cannot be serialised, or its type may not be made when it is read.
        """
        made = _readable("json", value)
        if made is not None:
            return made
        try:
            tag, data = self._serde.dumps_typed(value)
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise InvalidInput(
                "a value of this state cannot be serialised: it holds a number above 64 bits, or an "
                "object that is no data; keep plain data in the state"
            ) from None
        made = Chunk(tag, bytes(data))
        self._loaded(made, _UNKNOWN)
        return made

    def _one(self, value: Any) -> Chunk | Message:
        """A value that is not kept in parts, but for the text of a message."""
        if type(value) is not _MESSAGES.get(type(value).__name__):
            return self.chunk(value)
        fields = value.model_dump()
        named, content = fields.pop("id"), fields["content"]
        if type(content) is str:
            del fields["content"]
        envelope = _readable("message", [type(value).__name__, fields])
        if envelope is None or not (named is None or _is_plain(named)):
            return self.chunk(value)
        return Message(envelope, named, self.chunk(content if type(content) is str else None))

    def value(self, node: Node) -> Any:
        """The value of some chunks, made anew.

        Raises:
            InvalidInput: it was written with types that this serializer may not make.
        """
        if isinstance(node, Chunk):
            return self._loaded(node, _UNKNOWN_STORED)
        if isinstance(node, Message):
            return self._message(node)
        if isinstance(node, Listed):
            return [self.value(item) for item in node.items()]
        if isinstance(node, Mapped):
            return {key: self.value(entry) for key, entry in node.entries.items()}
        return _DeltaSnapshot(self.value(node.of))

    def _message(self, node: Message) -> BaseMessage:
        try:
            name, fields = orjson.loads(node.envelope.data)
            kind, text = _MESSAGES[name], self.value(node.text)
        except (KeyError, TypeError, ValueError):
            raise InvalidInput(_UNKNOWN_STORED) from None
        fields |= {"id": node.id} if text is None else {"id": node.id, "content": text}
        try:
            return kind(**fields)
        except (TypeError, ValueError):  # as it was when it was put, if not as its class would have it
            return kind.model_construct(**fields)

    def _loaded(self, chunk: Chunk, refusal: str) -> Any:
        if chunk.tag == "json":
            return orjson.loads(chunk.data)
        return read(self._serde, chunk.tag, chunk.data, refusal)

    def _elements(self, values: list[Any], memory: Memory | None) -> list[Node]:
        return self._remembered(values, memory, self._one)

    def _entries(self, values: list[Any], memory: Memory | None, depth: int) -> list[Node]:
        return self._remembered(values, memory, lambda value: self.node(value, None, depth))

    @staticmethod
    def _remembered(values: list[Any], memory: Memory | None, make: Any) -> list[Node]:
        """The nodes of some values; one that is as it was at the same place is taken from the memory."""
        if memory is None:
            return [make(value) for value in values]
        if memory.album.begins(values) and len(values) >= len(memory.album):
            for value in values[len(memory.album) :]:
                picture, node = taken(value), make(value)  # a change while it is serialised is seen next time
                memory.album.append(picture)
                memory.nodes.append(node)
            return list(memory.nodes)
        known = list(zip(memory.album.pictures(), memory.nodes, strict=True))
        pairs = []
        for place, value in enumerate(values):
            if place < len(known) and unchanged(value, known[place][0]):
                pairs.append(known[place])
            else:
                picture = taken(value)
                pairs.append((picture, make(value)))
        memory.album.rearrange([picture for picture, _ in pairs])
        memory.nodes = [node for _, node in pairs]
        return list(memory.nodes)


_UNKNOWN: Final = (
    "a value of this state is of a class that the checkpointer was not told of, so it is not stored; name "
    "the class in serde=JsonPlusSerializer(allowed_msgpack_modules=[...])"
)
_UNKNOWN_STORED: Final = (
    "a stored value is of a class that this checkpointer was not told of; name the class in "
    "serde=JsonPlusSerializer(allowed_msgpack_modules=[...])"
)


def _readable(tag: str, value: Any) -> Chunk | None:
    """Plain data as JSON, which gives back exactly the same; None when it is not plain."""
    try:
        return Chunk(tag, orjson.dumps(value)) if _is_plain(value) else None
    except (TypeError, RecursionError):  # a number above 64 bits, a text that is no Unicode, or too deep
        return None


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    if kind is list:
        return all(map(_is_plain, value))
    return kind in _PLAIN or (kind is float and math.isfinite(value))


def read(serde: SerializerProtocol, tag: str, data: bytes, refusal: str) -> Any:
    """What a restricted serializer reads.

    Raises:
        InvalidInput: with the words of ``refusal``: a class that it may not make, or not its format.
    """
    _blocked.seen = False
    try:
        value = serde.loads_typed((tag, data))
    except (NotImplementedError, ValueError, TypeError, AssertionError):
        raise InvalidInput(refusal) from None
    if _blocked.seen:
        raise InvalidInput(refusal)
    return value


class _Blocked(threading.local):
    """Whether the serializer refused to make an object in this thread since somebody last asked."""

    seen = False


_blocked = _Blocked()


def _heard(event: SerdeEvent) -> None:
    if event["kind"] in {"msgpack_blocked", "msgpack_method_blocked"}:
        _blocked.seen = True


# The serializer hands out the bare fields of an object that it may not make, and says so nowhere else.
register_serde_event_listener(_heard)


def check_restricted(serde: JsonPlusSerializer) -> None:
    """Refuse a serializer that makes whatever it reads.

    Raises:
        InvalidInput: it is of another kind, or not restricted.
    """
    if not isinstance(serde, JsonPlusSerializer) or serde.pickle_fallback:
        raise InvalidInput(
            "the serializer is a JsonPlusSerializer without pickle; the vault encrypts by itself"
        )
    # It says so nowhere in public; one that does not say so at all any more is refused as well.
    makes_any = getattr(serde, "_allowed_msgpack_modules", True) is True
    if makes_any or getattr(serde, "_custom_unpack_ext_hook", True):
        raise InvalidInput(
            "this serializer makes objects of any class that it reads; name the classes in "
            "JsonPlusSerializer(allowed_msgpack_modules=[...])"
        )
