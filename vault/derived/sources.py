"""Where an item came from: named by its writer, or what its run has read; and how a row keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from vault.derived.item import Artifact, Memory, SourceId, item_name
from vault.encoding import pack, u64
from vault.errors import InvalidInput, LimitExceeded, Tampered
from vault.model import Event, event_bytes, format_id, parse_id
from vault.sessions.reader import SessionReader
from vault.sessions.readings import current

if TYPE_CHECKING:
    from vault.sessions.log import Log
    from vault.sessions.readings import Readings

#: Sources of one item: its key hangs on each of them.
SOURCES_MAX: Final = 256

Kind = Literal["session", "event", "memory", "artifact"]
#: Codes in stored rows: new ones are put at the end, none is ever removed.
_KINDS: Final[tuple[Kind, ...]] = ("session", "event", "memory", "artifact")
#: How ids begin.
PREFIXES: Final[dict[str, Kind]] = {"ses": "session", "mem": "memory", "art": "artifact"}
#: Roles in stored rows: what an item was made from; what it only mentions, which does not propagate.
DERIVED: Final = 1
CITES: Final = 2
_SHORT: Final = 1 + 16 + 8 + 1
_LONG: Final = _SHORT + 16


class Source(NamedTuple):
    """One source as a row keeps it: ids only. ``id`` is a session's or an item's; ``event`` may be empty."""

    kind: Kind
    id: bytes
    epoch: int
    event: bytes = b""
    role: int = DERIVED

    def shown(self) -> SourceId:
        """As a reader gets it."""
        if self.kind == "event":
            session_id = format_id("ses", self.id)
            return SourceId(kind="event", id=format_id("evt", self.event), session_id=session_id)
        if self.kind == "session":
            return SourceId(kind="session", id=format_id("ses", self.id))
        return SourceId(kind=self.kind, id=item_name(self.kind, self.id))


def encode(sources: Iterable[Source]) -> bytes:
    """The stored form: kind, id, epoch, role and an event's own id of each, in order."""
    return pack(
        *(
            bytes([_KINDS.index(one.kind)]) + one.id + u64(one.epoch) + bytes([one.role]) + one.event
            for one in sources
        )
    )


@lru_cache(maxsize=4096)
def decode(stored: bytes) -> tuple[Source, ...]:
    """The sources of a stored form, of a row that is not verified yet: its key hangs on them.

    Raises:
        Tampered: it is not what ``encode`` writes.
    """
    at, found = 4, list[Source]()
    while at < len(stored):
        size = int.from_bytes(stored[at : at + 4])
        record = stored[at + 4 : at + 4 + size]
        at += 4 + size
        if len(record) != size or size not in {_SHORT, _LONG} or record[0] >= len(_KINDS):
            raise Tampered("the stored sources of a derived item cannot be read")
        kind = _KINDS[record[0]]
        epoch, role = int.from_bytes(record[17:25]), record[25]
        found.append(Source(kind, record[1:17], epoch, record[_SHORT:], role))
    # There is one stored form, so a byte more or less is seen.
    if not found or len(found) > SOURCES_MAX or encode(found) != stored:
        raise Tampered("the stored sources of a derived item cannot be read")
    return tuple(found)


class Named(NamedTuple):
    """A source as it was named, not looked up yet; ``id`` is empty for an event of an unknown session.

    Whether an ``item`` is a memory or an artifact, its row says.
    """

    kind: Kind | Literal["item"]
    id: bytes
    event: bytes = b""


def named(log: Log, given: Iterable[Any] | None) -> list[Named]:
    """What an item is to come from: what its writer says, or all that its run has read.

    Args:
        log: the parts.
        given: sessions, events, memories, artifacts, or ids of them; None for what the run has read.

    Raises:
        InvalidInput: none are given outside of a run; or something is no source.
        LimitExceeded: there are too many.
    """
    readings = current(log)
    if given is None:
        if readings is None:
            raise InvalidInput("nothing comes from nothing: name its sources, or put it within a run")
        return _read_by(readings)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInput("sources is a list of sessions, events, memories, artifacts, or their ids")
    found = list(dict.fromkeys(_named(one) for one in islice(given, SOURCES_MAX + 1)))
    if not found:
        raise InvalidInput("nothing comes from nothing: name its sources, or put it within a run")
    if len(found) > SOURCES_MAX:
        raise LimitExceeded(f"an item comes from at most {SOURCES_MAX} sources; name the session instead")
    return found


def refuse_fewer(log: Log, found: Iterable[Source], reason: str | None) -> None:
    """Refuse sources that leave out what the run has read, unless somebody says why.

    An event stands for its session: whoever erases one finds the item by it.

    Raises:
        InvalidInput: they are fewer, and no reason is given.
    """
    readings = current(log)
    if readings is None or reason is not None:
        return
    if readings.overflowed or not readings.known.keys() <= {one.id for one in found}:
        raise InvalidInput("these are fewer than the run has read: say why the others do not count (reason)")


def _read_by(readings: Readings) -> list[Named]:
    if readings.overflowed or len(readings.known) > SOURCES_MAX:
        raise LimitExceeded(
            f"the run has read more than the {SOURCES_MAX} things that an item can come from: name its "
            "sources, and say why the others do not count (reason)"
        )
    return [Named(kind, id_) for id_, kind in readings.known.items()]


def _named(given: Any) -> Named:
    if isinstance(given, Event):
        return Named("event", _raw("ses", given.session_id), _raw("evt", given.id))
    if isinstance(given, SourceId) and given.kind == "event":
        return Named("event", _raw("ses", given.session_id or ""), _raw("evt", given.id))
    text = given.id if isinstance(given, SessionReader | Memory | Artifact | SourceId) else given
    if isinstance(text, str):
        prefix = text[:3]
        if prefix == "evt":
            return Named("event", b"", event_bytes(text))
        if prefix in PREFIXES:
            return Named(PREFIXES[prefix], _raw(prefix, text))
    raise InvalidInput("a source is a session, event, memory or artifact, or the id of one")


def _raw(prefix: str, text: str) -> bytes:
    raw = parse_id(prefix, text)
    if raw is None:
        raise InvalidInput("a source is a session, event, memory or artifact, or the id of one")
    return raw
