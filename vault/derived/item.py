"""What a derived item is to whoever reads it, and what may be put into one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, BinaryIO, Final, Literal

from vault.encoding import json_bytes
from vault.errors import InvalidInput, LimitExceeded, NotFound
from vault.model import LABELS_MAX, NAME_LENGTH_MAX, check_name, format_id, parse_id
from vault.sessions.log import JSON

#: Parts of a namespace; each is a name.
NAMESPACE_DEPTH_MAX: Final = 8
#: One memory as JSON: it is held in memory whole, and so is what is searched.
VALUE_BYTES_MAX: Final = 2**20
#: Why an item hangs on less than was read, or on nothing.
REASON_LENGTH_MAX: Final = 1_000
TTL_MAX: Final = timedelta(days=36_525)  # 100 years
_MEDIA_TYPE_LENGTH_MAX: Final = 256
_SECOND: Final = timedelta(seconds=1)

ARTIFACT: Final = "artifact"
#: What ``memories`` holds; an artifact is the other kind of derived item.
MEMORY_KINDS: Final = ("memory", "summary", "embedding", "cache")
#: Kinds that may hang on none of their sources, for a reason.
DETACHED_KINDS: Final = frozenset({"cache", ARTIFACT})

OnSourceErased = Literal["erase_with_any", "recompute", "erase_with_last", "detach"]
#: What happens when a source goes, and how the item's key hangs for it (`sealing.keys`).
HUNG: Final[Mapping[str, str]] = {
    "erase_with_any": "any",
    "recompute": "recompute",
    "erase_with_last": "last",
    "detach": "free",
}
RULES: Final[Mapping[str, OnSourceErased]] = {
    "any": "erase_with_any",
    "recompute": "recompute",
    "last": "erase_with_last",
    "free": "detach",
}
#: Said of everything that is not there, not this caller's, expired, or being erased.
ABSENT: Final = "there is no such derived item"
ABSENT_SOURCE: Final = "there is no such source"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceId:
    """One thing that an item came from: its kind, id, and for an event the session it is of."""

    kind: Literal["session", "event", "memory", "artifact"]
    id: str
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One version of a memory, summary, embedding or cache, as its owner reads it.

    ``state`` is ``live``, or ``superseded`` once a newer version replaced it; ``reason`` says why it hangs on
    less than what was read.
    """

    id: str
    kind: str
    namespace: tuple[str, ...] = field(repr=False)
    key: str = field(repr=False)
    value: Any = field(repr=False)
    version: int
    state: str
    created_at: datetime
    expires_at: datetime | None
    on_source_erased: OnSourceErased
    sources: tuple[SourceId, ...] = field(repr=False)
    labels: Mapping[str, str] = field(repr=False)
    reason: str | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One version of an artifact, as its owner reads it; ``open`` gives its bytes."""

    id: str
    name: str = field(repr=False)
    media_type: str | None = field(repr=False)
    bytes: int
    version: int
    state: str
    created_at: datetime
    expires_at: datetime | None
    on_source_erased: OnSourceErased
    sources: tuple[SourceId, ...] = field(repr=False)
    labels: Mapping[str, str] = field(repr=False)
    reason: str | None = field(repr=False)
    _opened: Callable[[], BinaryIO] = field(repr=False, compare=False)

    def open(self) -> BinaryIO:
        """Its bytes as a binary stream, once all of them were authenticated; close it.

        Raises:
            NotFound: it was erased, or expired, meanwhile.
            Tampered: it was changed, or is missing.
        """
        return self._opened()


def item_name(kind: str, item_id: bytes) -> str:
    """``art_`` or ``mem_`` and a UUIDv7."""
    return format_id("art" if kind == ARTIFACT else "mem", item_id)


def item_bytes(item_id: str) -> bytes:
    """The 16 bytes of a derived item's id.

    Raises:
        NotFound: not such an id, which answers exactly as an unknown one.
    """
    text = item_id if isinstance(item_id, str) else ""
    raw = parse_id("mem", text) or parse_id("art", text)
    if raw is None:
        raise NotFound(ABSENT)
    return raw


def check_namespace(namespace: Sequence[str]) -> tuple[str, ...]:
    """A namespace, checked; the empty one is the owner's root.

    Raises:
        InvalidInput: not a tuple of names; LimitExceeded when it has too many parts.
    """
    if isinstance(namespace, str) or not isinstance(namespace, Sequence):
        raise InvalidInput("a namespace is a tuple of names, for example a kind of thing and whose it is")
    if len(namespace) > NAMESPACE_DEPTH_MAX:
        raise LimitExceeded(f"a namespace has at most {NAMESPACE_DEPTH_MAX} parts")
    return tuple(check_name(part, "a part of a namespace") for part in namespace)


def check_value(value: Any) -> bytes:
    """A memory's value as JSON bytes.

    Raises:
        InvalidInput: it is not JSON; LimitExceeded when it is too long.
    """
    body = json_bytes(value)
    if len(body) > VALUE_BYTES_MAX:
        raise LimitExceeded(
            f"a memory holds at most {VALUE_BYTES_MAX} bytes of JSON; put an artifact, or split it"
        )
    return body


def check_kind(kind: str) -> str:
    """A kind that ``memories`` holds.

    Raises:
        InvalidInput: any other.
    """
    if kind not in MEMORY_KINDS:
        raise InvalidInput(f"a kind of memory is one of {', '.join(MEMORY_KINDS)}")
    return kind


def check_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    """Labels, checked.

    Raises:
        InvalidInput: one is no name; or there are too many.
    """
    given = {} if labels is None else labels
    if not isinstance(given, Mapping):
        raise InvalidInput("labels are a dict of names and values")
    if len(given) > LABELS_MAX:
        raise InvalidInput(f"a derived item has at most {LABELS_MAX} labels")
    return {check_name(k, "a label's name"): check_name(v, "a label's value") for k, v in given.items()}


def check_media_type(media_type: str | None) -> str | None:
    """A media type, checked for its length only.

    Raises:
        InvalidInput: it is no name.
    """
    return None if media_type is None else check_name(media_type, "a media type", _MEDIA_TYPE_LENGTH_MAX)


def check_rule(rule: str | None, kind: str, reason: str | None) -> str | None:
    """What is to happen when a source goes, checked with its reason; None where the policy says it.

    Raises:
        InvalidInput: no such rule; one that this kind may not have; or one that needs a reason.
    """
    if rule is not None and (not isinstance(rule, str) or rule not in HUNG):
        raise InvalidInput(f"on_source_erased is one of {', '.join(HUNG)}, or left out")
    if reason is not None:
        check_name(reason, "a reason", REASON_LENGTH_MAX)
    if rule == "detach" and kind not in DETACHED_KINDS:
        raise InvalidInput(
            "only a cache or an artifact can be detached from its sources; choose another rule"
        )
    if rule == "detach" and reason is None:
        raise InvalidInput("to detach an item from its sources, say why nothing of them is in it (reason)")
    return rule


def ttl_us(ttl: timedelta | None) -> int | None:
    """A time to live in microseconds.

    Raises:
        InvalidInput: not a timedelta from one second to 100 years.
    """
    if ttl is None:
        return None
    if not isinstance(ttl, timedelta) or not _SECOND <= ttl <= TTL_MAX:
        raise InvalidInput("ttl is a timedelta from one second to 100 years")
    return ttl // timedelta(microseconds=1)


def is_json(content: int) -> bool:
    """Whether a row's ``content`` says that its body is a JSON value."""
    return content == JSON


def check_limit(limit: int, most: int) -> int:
    """How many at most, checked.

    Raises:
        InvalidInput: not a whole number in range.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:
        raise InvalidInput(f"limit is a whole number from 1 to {most}")
    return limit


def blind_parts(namespace: tuple[str, ...], key: str) -> tuple[str, ...]:
    """What the blind index of a name is made of: the key last, so no two names share their parts."""
    return (*namespace, check_name(key, "a key", NAME_LENGTH_MAX))
