"""The words of a session: what the fields of its events name, learnt to be found again in its free text."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vault.errors import Erased, LimitExceeded, NotFound
from vault.ports.records import EventsQuery
from vault.redaction.masking import NO_JSON, TOO_DEEP, parsed
from vault.sessions.family import family
from vault.sessions.log import NOTHING_RETRACTED, RETRACTED, STREAM, decode_tails, opened_event
from vault.sessions.read import retracted_of, rows_of, verified_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.access.door import Grant
    from vault.model import Event
    from vault.ports.records import SessionRow
    from vault.redaction.vocabulary_terms import Term
    from vault.sealing.kept import Withdrawn
    from vault.sessions.log import Log

    Find = Callable[[str], Any]

#: Payloads above this are not looked through: some seconds, as `view.VIEW_BYTES_MAX`.
PAYLOAD_BYTES_MAX: Final = 8 * 2**20
#: Sessions whose words are kept; some 100 bytes for each term.
_SESSIONS_MAX: Final = 64
_PAGE: Final = 200
#: Types whose events say by whom, or of whom, something was asked.
_OF_PERSONS: Final = ("approval.", "decision.", "effect.")
_PERSON_FIELDS: Final = ("by", "from")


@dataclass(slots=True)
class _Known:
    through: dict[bytes, int] = field(default_factory=dict)  # by session: this one and its branches
    counts: dict[bytes, dict[str, int]] = field(default_factory=dict)  # events by type, up to there
    terms: dict[Term, None] = field(default_factory=dict)
    flooded: bool = False
    find: Find | None = None

    def takes(self, gone: Withdrawn) -> bool:
        """Whether some of it was learnt from a session that lost a key."""
        return any(session_id in gone for session_id in self.through)

    def unlearn(self) -> None:
        """Begin anew: some of what it was learnt from was erased, and nobody knows which words that was."""
        self.through.clear()
        self.counts.clear()
        self.terms.clear()
        self.flooded, self.find = False, None


class Words:
    """Finds in texts what the events of a session name in their fields, besides what detectors find."""

    def __init__(self, log: Callable[[], Log], added: Callable[[Find], Find] | None = None) -> None:
        """Use the log to learn from, and a detector that is added to the vault's own ones."""
        self._log, self._added = log, added
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._lock = threading.RLock()
        self._gone: deque[Withdrawn] = deque()

    def forget(self, gone: Withdrawn) -> None:
        """Drop what was learnt of sessions and their branches; waits for nobody."""
        self._gone.append(gone)
        self._settle()

    def _settle(self) -> None:
        # Whoever has the lock does it when he lets it go, so that it need not be waited for.
        while self._gone and self._lock.acquire(blocking=False):
            try:
                gone = [self._gone.popleft() for _ in range(len(self._gone))]
                for session_id, known in list(self._known.items()):
                    if any(map(known.takes, gone)):
                        del self._known[session_id]  # who is learning from it now goes on with his own
            finally:
                self._lock.release()

    def finder(self, grant: Grant, session_id: bytes) -> Find:
        """What finds personal data in texts of this session; when it names too much, whatever is asked fails.

        Raises:
            As ``verified_view``.
        """
        try:
            with self._lock:
                return self._learnt(grant, session_id).find or _too_many
        finally:
            self._settle()

    def _learnt(self, grant: Grant, session_id: bytes) -> _Known:
        known = self._known.setdefault(session_id, _Known())
        self._known.move_to_end(session_id)
        if len(self._known) > _SESSIONS_MAX:
            self._known.popitem(last=False)
        # Each time, not once in a while: another process may have appended what names people just now.
        _learn(self._log(), grant, session_id, known)
        if known.find is None:
            find = _too_many if known.flooded else _detector(known.terms)
            known.find = self._added(find) if self._added else find
        return known

    def terms(self, grant: Grant, session_id: bytes) -> list[tuple[str, str]]:
        """Kinds and values that a session names.

        Raises:
            As ``verified_view``.
        """
        try:
            with self._lock:
                return [(term.kind, term.text) for term in self._learnt(grant, session_id).terms]
        finally:
            self._settle()


def _learn(log: Log, grant: Grant, session_id: bytes, known: _Known) -> None:
    """Take the terms of what was appended since to the session and its branches.

    All of them, as whoever reads a fork reads its original's events too: each names people to the other.
    """
    rows: list[SessionRow] = []
    with verified_view(log, grant, session_id) as found:
        try:
            rows = family(log, grant, found.reader, found.row, whole=False)
        except LimitExceeded:
            known.flooded, known.find = True, None
    new = [row for row in rows if row.head_seq > known.through.get(row.session_id, 0)]
    if any(_retracted(row) > known.counts.get(row.session_id, {}).get(RETRACTED, 0) for row in new):
        known.unlearn()
        new = rows
    for row in new:
        if row.head_seq > known.through.setdefault(row.session_id, 0):
            with contextlib.suppress(NotFound, Erased):  # erased meanwhile
                _learn_from(log, grant, row.session_id, known)


def _retracted(row: SessionRow) -> int:
    """How many facts of a session say that something of it was erased."""
    return decode_tails(row.tails).types.get(RETRACTED, 0)


def _learn_from(log: Log, grant: Grant, session_id: bytes, known: _Known) -> None:
    """Take the terms of one session's own log, by types with something new, in pages of one snapshot each."""
    with verified_view(log, grant, session_id) as found:
        head, counts = found.row.head_seq, decode_tails(found.row.tails).types
    since, before = known.through.get(session_id, 0), known.counts.get(session_id, {})
    for name in (name for name, count in counts.items() if count > before.get(name, 0)):
        low = since
        while True:
            with verified_view(log, grant, session_id) as found:
                query = EventsQuery(found.row.no, low, head + 1, _PAGE, name)
                rows = rows_of(found, query) if head - low > 0 else []
                gone = retracted_of(log, found) if any(row.epoch for row in rows) else NOTHING_RETRACTED
            for row in rows:
                if row.content != STREAM and row.size <= PAYLOAD_BYTES_MAX:
                    _take(known, opened_event(log, found.keys, session_id, row, gone))
                low = row.seq
            if len(rows) < _PAGE:
                break
    known.through[session_id], known.counts[session_id] = head, counts


def _take(known: _Known, event: Event) -> None:
    from vault.redaction.vocabulary import TERMS_MAX, terms_in  # noqa: PLC0415
    from vault.redaction.vocabulary_terms import terms_of_field  # noqa: PLC0415

    payload, before = content_of(event), len(known.terms)
    try:
        for term in terms_in(payload):
            known.terms[term] = None
        if event.type.startswith(_OF_PERSONS) and isinstance(payload, dict):
            for value in (payload.get(name) for name in _PERSON_FIELDS):
                if isinstance(value, str):
                    known.terms.update(dict.fromkeys(terms_of_field("NAME", value)))
    except LimitExceeded:
        known.flooded, known.find = True, None  # a record too large to look through: it may name anybody
    if len(known.terms) > before:
        known.find = None
        known.flooded = known.flooded or len(known.terms) > 2 * TERMS_MAX


def content_of(event: Event) -> Any:
    """The JSON of an event, also where it was stored as raw bytes; None when it has none."""
    if event.raw is None:
        return event.payload
    try:
        found = parsed(event.raw.decode())
    except UnicodeDecodeError:
        return None
    return None if found is NO_JSON or found is TOO_DEEP else found


def _detector(terms: dict[Term, None]) -> Find:
    """What finds the terms; when there are too many to look for, whatever is asked is hidden."""
    from vault.redaction.detect import Detector  # noqa: PLC0415
    from vault.redaction.vocabulary import Vocabulary  # noqa: PLC0415

    try:
        return Detector(Vocabulary(terms)).find
    except LimitExceeded:
        return _too_many


def _too_many(_text: str) -> Any:
    raise LimitExceeded("the session names too many things to look for; show its structure only")
