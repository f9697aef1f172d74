"""What the session use cases share: ports, keys, clock, witness, and the sealed side of the rows."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol

import orjson

from vault.encoding import json_value
from vault.errors import Erased, InvalidInput, NotFound, Tampered
from vault.model import (
    LEVELS,
    Event,
    EventId,
    RunId,
    SessionId,
    format_id,
)
from vault.policy.epochs import generation_of, is_over
from vault.policy.freshness import Thresholds
from vault.policy.levels import Levels
from vault.policy.recovery import Trigger
from vault.policy.retention import Times, due_us, is_visible
from vault.policy.terms import decode as decode_terms
from vault.sealing import rows
from vault.sealing.payload import Sealing, unseal, unseal_stream
from vault.sessions.readings import noted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vault.access.door import Grant
    from vault.clock import Clock
    from vault.model import NewEvent
    from vault.ports.blobs import Blobs
    from vault.ports.records import EventRow, Reader, Records, SessionRow
    from vault.sealing.keys import KeyHierarchy
    from vault.sealing.notes import Head
    from vault.sealing.uses import EpochKeys
    from vault.sessions.witness import Witness

#: ``content`` of an event row: a JSON value, bytes that come with the event, or more bytes than that.
JSON: Final = 0
RAW: Final = 1
STREAM: Final = 2
#: The type of the fact that says which events were erased; only ``Session.retract`` writes it.
RETRACTED: Final = "event.retracted"
#: The type of the fact that says which labels a session got and lost; only ``Session.relabel`` writes it.
RELABELLED: Final = "session.relabelled"


_TRIGGER: Final = Trigger()
_THRESHOLDS: Final = Thresholds()
_LEVELS: Final = Levels()


class Views(Protocol):
    """Makes what others than the owner see."""

    def __call__(self, grant: Grant, session_id: bytes, event: Event) -> Event:
        """An event as a grant's level shows it."""
        ...

    def about(self, grant: Grant, session_id: bytes, about: dict[str, Any]) -> dict[str, Any]:
        """Title, labels and the like of a session as a grant's level shows them."""
        ...


class Retention(Protocol):
    """Says how long what is written now is kept."""

    def __call__(self, grant: Grant, kind: str, labels: Mapping[str, str]) -> bytes:
        """The terms that bind a new item (`policy/terms`), by the policy of the grant's tenant."""
        ...


def _until_erased(grant: Grant, kind: str, labels: Mapping[str, str]) -> bytes:  # noqa: ARG001
    """No policy: kept until somebody erases it."""
    return b""


#: In which hour (`policy/epochs`) an event expires, by the policy of the grant's tenant; 0: with its session.
#: It is asked with what gives the session's labels, the event's type and level, and the time of writing.
EventHour = Callable[["Grant", Callable[[], "Mapping[str, str]"], str, str, int], int]


def _with_its_session(*_: Any) -> int:
    """No policy: events live as long as their session."""
    return 0


class Retracted(NamedTuple):
    """What of a session's log was erased while the session lives on; by the facts that say so.

    ``facts`` says how many of these there are, the last one at ``through``; then the places and the
    generations that they name. What expired by itself is told by its number (``policy.epochs``).
    """

    facts: int = 0
    through: int = 0
    events: frozenset[int] = frozenset()
    epochs: frozenset[int] = frozenset()

    def takes(self, row: EventRow) -> bool:
        """Whether this event's payload is erased."""
        return row.epoch > 0 and (row.seq in self.events or generation_of(row.epoch) in self.epochs)


#: Erases events of a session that lives on, by ids and by epochs; with events to append beside the fact.
Retract = Callable[["Grant", "SessionRow", Sequence[str], Sequence[int], "Sequence[NewEvent]"], "list[Event]"]


def _no_retraction(*_: Any) -> list[Event]:
    """Of a log that only reads."""
    raise InvalidInput("events are erased through an open vault")


#: Gives labels to a session that lives on and takes some away; all that it has then.
Relabel = Callable[["Grant", "SessionRow", "Mapping[str, str]", "Collection[str]"], dict[str, str]]


def _no_relabelling(*_: Any) -> dict[str, str]:
    """Of a log that only reads."""
    raise InvalidInput("sessions are labelled through an open vault")


NOTHING_RETRACTED: Final = Retracted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The parts that every session use case works with."""

    records: Records
    blobs: Blobs
    keys: KeyHierarchy = field(repr=False)
    clock: Clock
    witness: Witness
    sealing: Sealing
    viewer: Views  # what others than the owner see
    appended: Callable[[bytes, int], None]  # told after each commit: which session, how many new events
    trigger: Trigger = _TRIGGER  # when a run writes a checkpoint by itself
    thresholds: Thresholds = _THRESHOLDS  # when what was observed counts as old
    retention: Retention = _until_erased  # how long what is written now is kept
    levels: Levels = _LEVELS  # the highest that events of a type are stored at
    event_hour: EventHour = _with_its_session  # when what is written now expires by itself
    retract: Retract = _no_retraction
    relabel: Relabel = _no_relabelling
    retracted: dict[bytes, Retracted] = field(default_factory=dict)  # by session, as far as it was read
    renewed: dict[bytes, SessionRow] = field(default_factory=dict)  # sessions whose keys were replaced


class Tails(NamedTuple):
    """How many events of each type and of the newest run a session holds; makes a filtered read complete.

    ``run_from`` is the newest run's count in its kept row, ``kept`` the sum of all kept rows (`runs.py`);
    ``refs`` counts the events that are found by what they are about (`refs.py`).
    """

    types: dict[str, int]
    run_id: bytes
    run_count: int
    run_from: int
    kept: int
    refs: dict[str, int]

    def encoded(self) -> bytes:
        """Canonical bytes for the session row."""
        run = [self.run_id.hex(), self.run_count, self.run_from]
        value: dict[str, Any] = {"kept": self.kept, "run": run, "types": self.types}
        if self.refs:
            value["refs"] = self.refs
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def decode_tails(encoded: bytes) -> Tails:
    """The counts of a verified session row."""
    value = orjson.loads(encoded)
    run_id, run_count, run_from = value["run"]
    return Tails(
        value["types"], bytes.fromhex(run_id), run_count, run_from, value["kept"], value.get("refs", {})
    )


def hour_of(updated_us: int) -> int:
    """The whole hour of a time; the list of sessions is indexed by it."""
    return updated_us // 3_600_000_000


def due_hour(row: SessionRow) -> int:
    """The first hour in which a session may be due, 0 for never; the sweep looks again then.

    What comes later, an event or a longer policy, only moves it away: so it is written when the session
    begins, ends, or is bound anew, and not with every event.
    """
    if not row.retention:
        return 0
    times = Times(row.created_us, row.updated_us, row.ended_us)
    return due_us(decode_terms(row.retention), times) // 3_600_000_000


def epoch_keys(log: Log, grant: Grant, session_id: bytes, epoch: int, *, again: bool = False) -> EpochKeys:
    """The keys of one epoch of a session that the grant gives leave for; ``again`` as in ``KeyHierarchy``.

    Raises:
        NotFound: they were destroyed with it.
    """
    try:
        return log.keys.epoch(grant.tenant, grant.of(session_id).owner, session_id, epoch, again=again)
    except Erased:
        raise NotFound("there is no such session") from None


def verified_session(log: Log, grant: Grant, reader: Reader, session_id: bytes) -> SessionRow:
    """The session row of a write transaction, verified: that always sees the newest commit."""
    row = reader.session(session_id, grant.tenant.tenant_id, grant.owner)
    return check_session(log, grant, reader, session_id, row, log.witness.expected(session_id))


def check_session(
    log: Log,
    grant: Grant,
    reader: Reader,
    session_id: bytes,
    row: SessionRow | None,
    expected: Head | None,
    *,
    expired_too: bool = False,
) -> SessionRow:
    """Verify a session row that was read for this grant.

    Args:
        log, grant, reader, session_id, row: the parts, leave, the snapshot and what was read in it.
        expected: ``log.witness.expected`` as it was before the snapshot began: another thread may have
            committed, and been seen, since.
        expired_too: also one whose time is over, for the forks that share it.

    Raises:
        NotFound: there is none.
        Tampered: it was changed, or removed while its key remains.
        RolledBack: it is older than what was seen.
    """
    if row is None:
        # The same key lookup for an absent and for another's session: neither has a key under this owner.
        if log.keys.has_epoch(grant.owner, session_id):
            raise Tampered("a session was removed from the database without being erased")
        raise NotFound("there is no such session")
    if row.session_id != session_id or row.tenant_id != grant.tenant.tenant_id or row.owner != grant.owner:
        raise Tampered("the database answered with another session")
    keys = epoch_keys(log, grant, session_id, row.epoch)
    rows.check(rows.session_mac(keys.mac, row), row.mac, "a session's row")
    if row.used_hour != hour_of(row.updated_us):
        raise Tampered("a session's place in the list was changed")

    def chain_at(seq: int) -> bytes | None:
        found = next(reader.scan("chain_at", session_no=row.no, seq=seq), None)
        return found[0] if found else None

    log.witness.check(expected, row, chain_at)
    if row.state == "erasing" or not (expired_too or is_live(row, log.clock.now_us())):
        raise NotFound("there is no such session")
    return row


def is_live(row: SessionRow, now_us: int) -> bool:
    """Whether a session is there for readers and writers: neither expired nor asked to be erased."""
    if row.state == "erasing":
        return False
    return not row.retention or is_visible(
        decode_terms(row.retention), row.created_us, row.updated_us, row.ended_us, now_us
    )


def open_about(keys: EpochKeys, row: SessionRow) -> dict[str, Any]:
    """Title, labels, config, external id and parent of a verified session row."""
    about: dict[str, Any] = json_value(unseal(keys.payload, keys.context(b"about"), row.about))
    return about


def check_event(keys: EpochKeys, session_id: bytes, row: EventRow) -> bytes:
    """Verify an event row's MAC and return its canonical header.

    Raises:
        Tampered: the row was changed, moved or forged.
    """
    header = rows.event_header(session_id, row)
    rows.check(rows.event_mac(keys.mac, header, row.salt, row.chain), row.mac, "an event's row")
    return header


def sealed_body(log: Log, row: EventRow) -> bytes:
    """The sealed payload of an event, checked against the address that the log names.

    Raises:
        Tampered: missing, changed, or another blob's.
    """
    if row.body is None:
        with log.blobs.open(row.address) as file:
            sealed = file.read(row.size + 1)
    else:
        sealed = row.body
    if hashlib.sha256(sealed).digest() != row.address:
        raise Tampered("a stored blob is not the one that the log names")
    return sealed


def open_stream(blobs: Blobs, keys: EpochKeys, row: EventRow) -> BinaryIO:
    """A reader of a payload, in little memory, after all of it was authenticated.

    Raises:
        Erased: its epoch was.
        Tampered: it was changed, or is missing.
    """
    keys = keys.of_epoch(row.epoch)
    source = blobs.open(row.address) if row.body is None else io.BytesIO(row.body)
    return unseal_stream(keys.payload, keys.context(b"payload"), source, row.address)


def decode_event(
    log: Log,
    grant: Grant,
    keys: EpochKeys,
    session_id: bytes,
    row: EventRow,
    gone: Retracted = NOTHING_RETRACTED,
) -> Event:
    """The event of a verified row as a grant may see it; every reader gets its events from here.

    Raises:
        Tampered: the payload or the sealed fields do not open, or are not what the row says.
    """
    event, leave = opened_event(log, keys, session_id, row, gone), grant.of(session_id)
    noted(log, leave, session_id)
    if leave.own:
        return event
    leave.used()
    return log.viewer(leave, session_id, event)


def opened_event(
    log: Log, keys: EpochKeys, session_id: bytes, row: EventRow, gone: Retracted = NOTHING_RETRACTED
) -> Event:
    """The event of a verified row, its payload opened (but for large raw ones): for the vault's own use.

    Raises:
        Tampered: the payload or the sealed fields do not open, or are not what the row says.
    """
    if row.epoch:
        # The fact decides, not whether bytes are there: what somebody puts back is not read.
        try:
            keys = keys.of_epoch(row.epoch)
        except Erased:
            return _erased(session_id, row)
        if gone.takes(row) or is_over(row.epoch, log.clock.now_us()):
            return _erased(session_id, row)
    meta = json_value(unseal(keys.payload, keys.context(b"meta"), row.meta)) if row.meta else {}
    payload, raw = None, None
    if row.content != STREAM:
        body = unseal(keys.payload, keys.context(b"payload"), sealed_body(log, row))
        if row.content == JSON:
            payload = json_value(body)
        else:
            raw = body
    return make_event(session_id, row, meta, payload, raw)


def _erased(session_id: bytes, row: EventRow) -> Event:
    return make_event(session_id, row, {}, None, None)._replace(erased=True, streamed=False)


def make_event(
    session_id: bytes, row: EventRow, meta: dict[str, Any], payload: Any, raw: bytes | None
) -> Event:
    """The event as a reader gets it, from a row and what was sealed."""
    return Event(
        EventId(format_id("evt", row.event_id)),
        SessionId(format_id("ses", session_id)),
        row.seq,
        row.type,
        row.recorded_us,
        RunId(format_id("run", row.run_id)) if row.run_id else None,
        meta.get("tool"),
        meta.get("caused_by"),
        meta.get("observed_us"),
        meta.get("occurred_us"),
        meta.get("usage"),
        LEVELS[row.level],
        payload,
        raw,
        "blob://sha256/" + row.address.hex(),
        row.size,
        row.content == STREAM,
        meta.get("resource"),
        meta.get("valid_us"),
        generation_of(row.epoch),
    )
