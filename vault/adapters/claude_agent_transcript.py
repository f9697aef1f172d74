"""One conversation of the Claude Agent SDK as a session of the vault.

The main transcript and those of its delegated agents are one session, so that whatever erases it, keeps it or
exports it takes all of them. Each entry is an event: ``claude.entry`` of the main transcript, otherwise
``claude.agent.<n>``, under the epoch of its subpath, which can be erased alone. ``delegate.begun`` says which
epoch is a subpath's, ``delegate.erased`` which subpath is not to be begun again. ``claude.summary`` says from
which entries the SDK's summary follows; it holds nothing of them, so that they can expire before the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from claude_agent_sdk import fold_session_summary

from vault.encoding import json_bytes, pack
from vault.errors import Conflict, Erased, InvalidInput, LimitExceeded, NotFound
from vault.model import BATCH_MAX, Event, NewEvent, format_id, new_event_id
from vault.policy.epochs import EPOCH_MAX

if TYPE_CHECKING:
    from claude_agent_sdk.types import SessionStoreEntry, SessionSummaryEntry

    from vault.sessions.session import Session

ENTRY: Final = "claude.entry"
SUBPATH: Final = "delegate.begun"
SUBPATH_ERASED: Final = "delegate.erased"
SUMMARY: Final = "claude.summary"
#: The label that holds the secret of a session from which ids of its events are made.
OF_IDS: Final = "ids"
#: Types that the entries of delegated agents are spread over, so that one is read without most of the
#: others; a session holds at most 256 types.
_AGENT_TYPES: Final = 128
#: A summary is stored as often as so many events, and what came since is folded in on reading.
_SUMMARY_EVERY: Final = 32
#: How often a write is tried while others write to the same conversation.
_ATTEMPTS: Final = 50


class Transcript:
    """The entries of one conversation; every call reads what is stored now."""

    def __init__(self, session: Session, *, reuse_erased: bool = False) -> None:
        """``reuse_erased``: begin a subpath anew that was erased, instead of refusing late writers."""
        self.session, self._reuse = session, reuse_erased

    def entries(self, subpath: str | None = None) -> list[SessionStoreEntry]:
        """All entries of the main transcript, or of a subpath, in the order in which they were committed.

        Raises:
            Erased: the subpath was erased.
        """
        if subpath is None:
            events = self.session.events(types=[ENTRY])
            return [self._entry(event) for event in events if not event.erased]
        number = self._numbers(subpath).get(subpath)
        if number is None:
            return []
        events = self.session.events(types=[_agent_type(number)])
        return [self._entry(event) for event in events if event.epoch == number and not event.erased]

    def first(self) -> SessionStoreEntry | None:
        """The first entry of the main transcript; None while it has none."""
        events = self.session.events(types=[ENTRY])
        return next((self._entry(event) for event in events if not event.erased), None)

    def subpaths(self) -> list[str]:
        """The subpaths that have entries, in the order in which they began."""
        return list(self._numbers(None))

    def append(self, subpath: str | None, entries: Iterable[SessionStoreEntry]) -> None:
        """Store entries behind those there are, up to 1,000 in one transaction.

        One that is stored already is left as it is, also when it says something else now: the first counts.
        After a crash between two transactions the beginning is stored, and giving all of it again adds the
        rest.

        Raises:
            Erased: the subpath was erased.
            NotFound: the session is being erased.
        """
        given = list(entries)
        if subpath is None:
            stored = self._stored(self._events(ENTRY, ("main",), given))
            if stored and (stored[0].seq - 1) // _SUMMARY_EVERY != stored[-1].seq // _SUMMARY_EVERY:
                self._store_summary()
            return
        for _ in range(_ATTEMPTS):
            if self._append_to(subpath, given):
                return
        raise Conflict("other writers were faster every time; append these entries again")

    def erase(self, subpath: str) -> None:
        """Erase the entries of a subpath; nothing happens when there are none.

        Raises:
            Conflict: a hold or a statutory minimum keeps them.
        """
        try:
            number = self._numbers(subpath).get(subpath)
        except Erased:
            return
        if number is not None:
            erased = NewEvent(type=SUBPATH_ERASED, payload={"digest": self._digest(subpath)})
            self.session.retract_epoch(number, also=[erased])

    def summary(self, session_id: str, mtime: int) -> SessionSummaryEntry | None:
        """What the SDK derives from the main transcript for its lists; None while it has no entries."""
        fold = self._folded()
        if fold.summary is None:
            return None
        return {**fold.summary, "session_id": session_id, "mtime": mtime}

    # ------------------------------------------------------------------------------------------ writing

    def _append_to(self, subpath: str, entries: list[SessionStoreEntry]) -> bool:
        """False when another writer came between: the number may be another subpath's by now."""
        head = self.session.info().event_count
        number = self._numbers(subpath).get(subpath)
        if number is not None:
            self._stored(self._events_of(subpath, number, entries))
            return True
        number = 1 + sum(1 for _ in self.session.events(types=[SUBPATH]))
        if number > EPOCH_MAX:
            raise LimitExceeded(
                f"a conversation holds the transcripts of at most {EPOCH_MAX} delegated agents"
            )
        begun = NewEvent(type=SUBPATH, payload={"subpath": subpath}, epoch=number)
        events = self._events_of(subpath, number, entries)
        try:
            # With the number that it takes, so that no other writer gives it to another subpath.
            self.session.append_many([begun, *events[: BATCH_MAX - 1]], expect_head=head)
        except Conflict:
            return False
        self._stored(events[BATCH_MAX - 1 :])
        return True

    def _events_of(self, subpath: str, number: int, entries: list[SessionStoreEntry]) -> list[NewEvent]:
        return self._events(_agent_type(number), ("agent", subpath, str(number)), entries, epoch=number)

    def _stored(self, events: list[NewEvent]) -> list[Event]:
        stored: list[Event] = []
        for start in range(0, len(events), BATCH_MAX):
            stored += self._stored_batch(events[start : start + BATCH_MAX])
        return stored

    def _stored_batch(self, batch: list[NewEvent]) -> list[Event]:
        for _ in range(_ATTEMPTS):
            try:
                return self.session.append_many(batch)
            except (Conflict, Erased):
                new = [event for event in batch if not self._has(event.event_id or "")]
                if len(new) == len(batch):
                    raise
                batch = new
        raise Conflict("other writers stored the same entries every time; append them again")

    def _has(self, event_id: str) -> bool:
        return self._found(event_id) is not None

    def _found(self, event_id: str) -> Event | None:
        try:
            return next(self.session.slice(event_id, event_id))
        except NotFound:
            return None

    def _store_summary(self) -> None:
        stored, fold = self._stored_summary(), self._folded()
        if fold.through is not None and (stored is None or stored["through"] != fold.through):
            self.session.append(SUMMARY, {"of": fold.entries(), "through": fold.through})

    # ------------------------------------------------------------------------------------------ reading

    def _entry(self, event: Event) -> Any:
        if event.streamed:
            with self.session.open(event) as file:
                return json.loads(file.read())
        return event.payload if event.raw is None else json.loads(event.raw)

    def _numbers(self, asked: str | None) -> dict[str, int]:
        """The epoch of each subpath that is not erased.

        Raises:
            Erased: the one that is asked for was, and is not to be begun anew.
        """
        numbers: dict[str, int] = {}
        for event in self.session.events(types=[SUBPATH, SUBPATH_ERASED]):
            if event.type == SUBPATH and not event.erased:
                numbers[event.payload["subpath"]] = event.epoch
            erased = event.type == SUBPATH_ERASED and asked is not None and not self._reuse
            if erased and event.payload["digest"] == self._digest(asked or ""):
                raise Erased(
                    "the transcript of this delegated agent was erased; its subpath is never used again"
                )
        return numbers

    def _stored_summary(self) -> Any:
        event = next(self.session.events(types=[SUMMARY], limit=1, newest_first=True), None)
        return None if event is None else event.payload  # which is None once it is erased

    def _folded(self) -> _Fold:
        """What follows from the entries that the stored summary names, and from all behind those."""
        fold, stored = _Fold(), self._stored_summary()
        if stored is not None:
            for event_id in stored["of"]:
                self._fold(fold, self._found(event_id))
            fold.through = stored["through"]
        for event in self.session.events(types=[ENTRY], after=fold.through):
            self._fold(fold, event)
            fold.through = event.id
        return fold

    def _fold(self, fold: _Fold, event: Event | None) -> None:
        if event is not None and not event.erased:
            fold.add(event.id, self._entry(event))

    # -------------------------------------------------------------------------------------- ids of events

    def _events(
        self, event_type: str, place: tuple[str, ...], entries: list[SessionStoreEntry], *, epoch: int = 0
    ) -> list[NewEvent]:
        """An event of each entry, under the id that it always gets, none twice.

        An entry without a uuid has nothing of its own to know it by. Beside one that has, it is known by its
        content and that neighbour, so that a batch given again doubles nothing; alone it is always new.
        """
        secret, events = self._secret(), dict[str, NewEvent]()
        uuids = [entry.get("uuid") if isinstance(entry, dict) else None for entry in entries]
        following = next((uuid for uuid in uuids if isinstance(uuid, str)), None)
        before: str | None = None
        repeats: dict[tuple[str, ...], int] = {}
        for entry, uuid in zip(entries, uuids, strict=True):
            known: tuple[str, ...]
            if isinstance(uuid, str):
                before, known = uuid, ("uuid", uuid)
            elif following is None:
                known = ("new", new_event_id())
            else:
                side = ("ahead", following) if before is None else ("behind", before)
                content = (*side, json.dumps(entry, sort_keys=True))
                repeats[content] = repeats.get(content, 0) + 1
                known = (*content, str(repeats[content]))
            event_id = _event_id(secret, (*place, *known))
            events.setdefault(event_id, _event(event_type, entry, event_id, epoch))
        return list(events.values())

    def _secret(self) -> bytes:
        return bytes.fromhex(self.session.info().labels[OF_IDS])

    def _digest(self, subpath: str) -> str:
        return _event_id(self._secret(), ("erased", subpath))


class _Fold:
    """A summary of the SDK, and for each of its fields the entry that it has it from."""

    def __init__(self) -> None:
        self.summary: SessionSummaryEntry | None = None
        self.through: str | None = None
        self._from: dict[str, str] = {}

    def add(self, event_id: str, entry: SessionStoreEntry) -> None:
        before = {} if self.summary is None else self.summary["data"]
        self.summary = fold_session_summary(self.summary, {"project_key": "", "session_id": ""}, [entry])
        now = self.summary["data"]
        for field in before.keys() | now.keys():
            if (field in before, before.get(field)) != (field in now, now.get(field)):
                self._from.pop(field, None)
                self._from[field] = event_id

    def entries(self) -> list[str]:
        """The entries from which alone the same summary follows, in their order."""
        return list(dict.fromkeys(self._from.values()))


def _agent_type(number: int) -> str:
    return f"claude.agent.{number % _AGENT_TYPES}"


def _event(event_type: str, entry: Any, event_id: str, epoch: int) -> NewEvent:
    try:
        json_bytes(entry)
    except InvalidInput:
        # What JavaScript writes and the vault's JSON refuses, as half a surrogate pair where a text was cut.
        raw = json.dumps(entry, separators=(",", ":")).encode()
        return NewEvent(type=event_type, raw=raw, event_id=event_id, epoch=epoch)
    return NewEvent(type=event_type, payload=entry, event_id=event_id, epoch=epoch)


def _event_id(secret: bytes, parts: tuple[str, ...]) -> str:
    """An id that is the same each time, and that looks random to whoever may not read the session."""
    packed = pack(*(part.encode("utf-8", "surrogatepass") for part in parts))
    return format_id("evt", hashlib.blake2b(packed, key=secret, digest_size=16).digest())
