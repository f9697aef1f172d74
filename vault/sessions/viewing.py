"""What others than the owner see of an event: the one place where a grant's level becomes a view."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vault import data
from vault.errors import LimitExceeded, NotFound
from vault.model import LEVELS, Event, EventId, SessionId, format_id, run_bytes
from vault.ports.records import EventsQuery
from vault.redaction.pseudonyms import Pseudonyms
from vault.sessions.family import family
from vault.sessions.log import STREAM, opened_event
from vault.sessions.read import View, rows_of, verified_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vault.access.door import Grant
    from vault.policy.places import Rules
    from vault.ports.records import EventRow
    from vault.redaction.spans import Span
    from vault.redaction.vocabulary_terms import Term
    from vault.sessions.log import Log

#: Events whose fields name people and things that free text then repeats.
_STRUCTURED: Final = ("tool.returned", "tool.requested", "observation.recorded")
#: Payloads above this are not looked through for names: some seconds, as `view.VIEW_BYTES_MAX`.
_PAYLOAD_BYTES_MAX: Final = 8 * 2**20
#: Sessions whose vocabulary is kept; some 100 bytes for each term.
_SESSIONS_MAX: Final = 64
_PAGE: Final = 200
ABOUT: Final = "session.about"
#: Types that the vault's own code writes whole; any other may be one of several parts of a streamed text.
_WHOLE: Final = ("checkpoint.", "config.", "context.", "effect.", "run.", "session.", "state.")
#: Characters before and behind an event's text that are searched together with it, as many as a stream's
#: reader holds back (`stream.HOLD_LENGTH`), and events on each side that they are taken from.
_BESIDE: Final = 512
_ROWS_FIRST, _ROWS_MAX = 4, 64
#: Of a text, so much of its beginning and of its end is searched together with what stands beside it.
_EDGE: Final = 4096
#: Places of texts in one payload that are looked at, and how deep they are looked for.
_PLACES_MAX: Final = 64
_DEPTH_MAX: Final = 12


def shipped_rules() -> Rules:
    """The field rules that come with the vault (``policies/redaction.toml``)."""
    # Here and below: whoever makes no views, as an owner's agent, need not load the detectors (0.2 s).
    from vault.policy.places import Rules  # noqa: PLC0415
    from vault.policy.redaction import read_document  # noqa: PLC0415

    file = data.policies() / "redaction.toml"
    return Rules(read_document(file.read_text(encoding="utf-8"), file=file.name).rules)


@dataclass(slots=True)
class _Known:
    through: dict[bytes, int] = field(default_factory=dict)  # by session: this one and its branches
    terms: dict[Term, None] = field(default_factory=dict)
    flooded: bool = False
    find: Callable[[str], Any] | None = None


class Viewer:
    """Makes views, with the words of each session: what its records name is found again in its free text."""

    def __init__(self, rules: Callable[[], Rules], log: Callable[[], Log], pseudonym_epoch: int) -> None:
        """Use field rules, the log to learn from, and the epoch of the pseudonyms."""
        self._made, self._log, self._epoch = rules, log, pseudonym_epoch
        self._rules: Rules | None = None
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._lock = threading.RLock()

    def __call__(self, grant: Grant, session_id: bytes, event: Event) -> Event:
        """The event as a grant's level shows it; never above the level it was stored at."""
        from vault.redaction.view import view_event  # noqa: PLC0415

        with self._lock:
            self._rules = self._rules or self._made()
        names = self.pseudonyms(grant)
        find = self._finder(grant, session_id)
        level = min(grant.level, event.level) if event.level in LEVELS else "L0"
        if level != "L0" and event.type != ABOUT and not event.type.startswith(_WHOLE):
            event = _without_seams(event, _beside(self._log(), grant, session_id, event), find, level)
        shown = view_event(event, level=grant.level, rules=self._rules, finder=find, pseudonym=names.of)
        if not shown.streamed:
            return shown
        # A view has no streams, so that a reader need not try: its size is all there is.
        return shown._replace(payload={"bytes": 1 << (event.size - 1).bit_length()}, streamed=False)

    def about(self, grant: Grant, session_id: bytes, about: dict[str, Any]) -> dict[str, Any]:
        """Title, labels and the like of a session as a grant's level shows them."""
        of = SessionId(format_id("ses", session_id))
        nothing = (None,) * 6
        event = Event(EventId(""), of, 0, ABOUT, 0, *nothing, "L3", about, None, "", 0, streamed=False)
        shown = self(grant, session_id, event).payload
        return shown if isinstance(shown, dict) else {}

    def pseudonyms(self, grant: Grant) -> Pseudonyms:
        """The pseudonyms of a grant's tenant in views."""
        return Pseudonyms(grant.tenant.pseudonym_key("view", self._epoch))

    def candidates(self, grant: Grant, session_id: bytes) -> list[tuple[str, str]]:
        """Kinds and values that a session names in its records, to find one behind a pseudonym."""
        self._finder(grant, session_id)
        with self._lock:
            known = self._known.get(session_id)
            return [(term.kind, term.text) for term in known.terms] if known else []

    def _finder(self, grant: Grant, session_id: bytes) -> Callable[[str], Any]:
        log = self._log()
        with self._lock:
            known = self._known.setdefault(session_id, _Known())
            self._known.move_to_end(session_id)
            if len(self._known) > _SESSIONS_MAX:
                self._known.popitem(last=False)
            # Each time, not once in a while: another process may have appended what names people just now.
            self._learn(log, grant, session_id, known)
            if known.find is None:
                known.find = _too_many if known.flooded else _detector(known.terms)
            return known.find

    def _learn(self, log: Log, grant: Grant, session_id: bytes, known: _Known) -> None:
        """Take the terms of what was appended since to the session and its branches.

        All of them, as whoever reads a fork reads its original's events too: each names people to the other.
        """
        with verified_view(log, grant, session_id) as found:
            try:
                branches = [row.session_id for row in family(log, grant, found.reader, found.row)]
            except LimitExceeded:
                known.flooded, known.find, branches = True, None, []
        for branch in branches:
            with contextlib.suppress(NotFound):  # erased meanwhile
                self._learn_from(log, grant, branch, known)

    def _learn_from(self, log: Log, grant: Grant, session_id: bytes, known: _Known) -> None:
        """Take the terms of one session's own log, in pages, each from one snapshot."""
        with verified_view(log, grant, session_id) as found:
            head = found.row.head_seq
        since = known.through.get(session_id, 0)
        if head <= since:
            return
        for name in _STRUCTURED:
            low = since
            while True:
                with verified_view(log, grant, session_id) as found:
                    query = EventsQuery(found.row.no, low, head + 1, _PAGE, name)
                    rows = rows_of(found, query) if head - low > 0 else []
                for row in rows:
                    if row.content != STREAM and row.size <= _PAYLOAD_BYTES_MAX:
                        _take(known, _content(opened_event(log, found.keys, session_id, row)))
                    low = row.seq
                if len(rows) < _PAGE:
                    break
        known.through[session_id], known.find = head, None


def _take(known: _Known, payload: Any) -> None:
    from vault.redaction.vocabulary import terms_in  # noqa: PLC0415

    try:
        for term in terms_in(payload):
            known.terms[term] = None
    except LimitExceeded:
        known.flooded = True  # a record too large to look through: it may name anybody


def _detector(terms: dict[Term, None]) -> Callable[[str], Any]:
    """What finds the terms; when there are too many to look for, whatever is asked is hidden."""
    from vault.redaction.detect import Detector  # noqa: PLC0415
    from vault.redaction.vocabulary import Vocabulary  # noqa: PLC0415

    try:
        return Detector(Vocabulary(terms)).find
    except LimitExceeded:
        return _too_many


def _too_many(_text: str) -> Any:
    raise LimitExceeded("the session names too many things to look for; show its structure only")


# ------------------------------------------------------- what begins in one event and ends in the next


class _Texts(NamedTuple):
    """The first and the last text at a place of a payload; the same one when there is only one."""

    first: str
    last: str
    alone: bool


class _Beside(NamedTuple):
    """By place: what stands before and behind the text of an event, the nearest event's and all of them."""

    before: dict[str, tuple[str, str]]
    after: dict[str, tuple[str, str]]


def _beside(log: Log, grant: Grant, session_id: bytes, event: Event) -> _Beside:
    """The texts next to those of an event, in the events of its type and run before and behind it."""
    places = set(_texts(_content(event)))
    if not places:
        return _Beside({}, {})
    with verified_view(log, grant, session_id) as found:
        strands = [found, *found.older]
        ahead = [(strand, strand.row.base_seq, min(event.seq, strand.until)) for strand in strands]
        rows_before = _neighbours(ahead, event, newest_first=True)
        rows_after = _neighbours([(found, event.seq, found.row.head_seq + 1)], event, newest_first=False)
        before = _joined(_opened(log, rows_before), places, backwards=True)
        after = _joined(_opened(log, rows_after), places, backwards=False)
    return _Beside(before, after)


def _neighbours(
    spans: list[tuple[View, int, int]], event: Event, *, newest_first: bool
) -> Iterator[tuple[View, EventRow]]:
    """The nearest rows of an event's type and run, the nearest first, at most `_ROWS_MAX` of the type."""
    run_id = None if event.run is None else run_bytes(event.run)
    left, step = _ROWS_MAX, _ROWS_FIRST
    for strand, first, end in spans:
        low, high = first, end
        while left > 0 and high - low > 1:
            limit = min(step, left)
            query = EventsQuery(strand.row.no, low, high, limit, event.type, None, newest_first)
            rows = rows_of(strand, query)
            left, step = left - len(rows), _ROWS_MAX
            yield from ((strand, row) for row in rows if row.run_id == run_id)
            if len(rows) < limit:
                break
            low, high = (low, rows[-1].seq) if newest_first else (rows[-1].seq, high)


def _opened(log: Log, rows: Iterable[tuple[View, EventRow]]) -> Iterator[dict[str, _Texts]]:
    for strand, row in rows:
        if row.content != STREAM and row.size <= _PAYLOAD_BYTES_MAX:
            yield _texts(_content(opened_event(log, strand.keys, strand.row.session_id, row)))


def _joined(
    parts: Iterable[dict[str, _Texts]], places: set[str], *, backwards: bool
) -> dict[str, tuple[str, str]]:
    """By place, the nearest text and all that follow it without a break, up to `_BESIDE` characters."""
    nearest: dict[str, str] = {}
    joined: dict[str, str] = {}
    wanted = set(places)
    for texts in parts:
        for place in wanted & texts.keys():
            found = texts[place]
            part = found.last[-_BESIDE:] if backwards else found.first[:_BESIDE]
            nearest.setdefault(place, part)
            known = joined.get(place, "")
            joined[place] = (part + known)[-_BESIDE:] if backwards else (known + part)[:_BESIDE]
            if not found.alone or len(joined[place]) == _BESIDE:
                wanted.discard(place)
        if not wanted:
            break
    return {place: (nearest[place], text) for place, text in joined.items()}


def _content(event: Event) -> Any:
    """The JSON of an event, also where it was stored as raw bytes; None when it has none."""
    from vault.redaction.masking import NO_JSON, TOO_DEEP, parsed  # noqa: PLC0415

    if event.raw is None:
        return event.payload
    try:
        found = parsed(event.raw.decode())
    except UnicodeDecodeError:
        return None
    return None if found is NO_JSON or found is TOO_DEEP else found


def _texts(content: Any) -> dict[str, _Texts]:
    """The texts of a payload by place; the items of a list have one place."""
    found: dict[str, _Texts] = {}
    for place, text in _leaves(content, "", 0):
        before = found.get(place)
        if before is not None:
            found[place] = _Texts(before.first, text, alone=False)
        elif len(found) < _PLACES_MAX:
            found[place] = _Texts(text, text, alone=True)
    return found


def _leaves(value: Any, place: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and value:
        yield place, value
    elif isinstance(value, dict | list) and depth < _DEPTH_MAX:
        named = value.items() if isinstance(value, dict) else (("*", item) for item in value)
        yield from chain.from_iterable(_leaves(item, f"{place}/{key}", depth + 1) for key, item in named)


def _without_seams(event: Event, beside: _Beside, find: Callable[[str], Any], level: str) -> Event:
    """The event without what began in the event before it or goes on in the one behind it."""
    if not beside.before and not beside.after:
        return event
    from vault.redaction.masking import written  # noqa: PLC0415

    content = _content(event)
    hidden: dict[tuple[str, str], str] = {}
    for place, found in _texts(content).items():
        before, after = beside.before.get(place), beside.after.get(place)
        if before:
            hidden[place, found.first] = _masked(
                found.first, before, after if found.alone else None, find, level
            )
        if after and not (before and found.alone):
            last = hidden.get((place, found.last), found.last)
            hidden[place, found.last] = _masked(last, None, after, find, level)
    hidden = {(place, text): shown for (place, text), shown in hidden.items() if shown != text}
    if not hidden:
        return event
    content = _replaced(content, "", hidden)
    return (
        event._replace(payload=content)
        if event.raw is None
        else event._replace(raw=written(content).encode())
    )


def _replaced(value: Any, place: str, hidden: dict[tuple[str, str], str]) -> Any:
    if isinstance(value, str):
        return hidden.get((place, value), value)
    if isinstance(value, dict):
        return {key: _replaced(item, f"{place}/{key}", hidden) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, f"{place}/*", hidden) for item in value]
    return value


def _masked(
    text: str,
    before: tuple[str, str] | None,
    after: tuple[str, str] | None,
    find: Callable[[str], Any],
    level: str,
) -> str:
    """A text with a mask for what it shares with the texts beside it; all of it where that cannot be told.

    A mask at every level: a pseudonym of a part would stand for nobody.
    """
    from vault.redaction.masking import NO_JSON, STRING_LENGTH_MAX, parsed  # noqa: PLC0415
    from vault.redaction.spans import Span, resolved  # noqa: PLC0415

    if len(text) > STRING_LENGTH_MAX:
        return text  # shown as its shape
    try:
        crossing = list(_crossing(text, before or ("", ""), after or ("", ""), find, level))
        if not crossing:
            return text
        if parsed(text) is not NO_JSON:
            return "[HIDDEN]"  # with a part taken out it would be JSON no more, and its fields unknown
        for span in reversed(resolved((Span(*span) for span in crossing), text)):
            text = f"{text[: span.start]}[{span.kind}]{text[span.end :]}"
    except Exception:  # noqa: BLE001 - a detector that fails hides all that it was asked about
        return "[HIDDEN]"
    return text


def _crossing(
    text: str, before: tuple[str, str], after: tuple[str, str], find: Callable[[str], Any], level: str
) -> Iterator[Span]:
    """What crosses an end of the text, as spans of it.

    Each neighbour by itself too: joined with more, the digits of several may hide each other.
    """
    from vault.redaction.spans import SECRET  # noqa: PLC0415

    size = len(text)
    whole = [(0, size)] if size <= 2 * _EDGE else [(0, _EDGE), (size - _EDGE, size)]
    tried: set[tuple[str, str]] = {("", "")}
    for start, end in whole:
        tried = {("", "")}
        left, right = (before if start == 0 else ("", "")), (after if end == size else ("", ""))
        pairs = ((left[1], right[1]), (left[0], right[0]))
        alone = ((left[1], ""), (left[0], ""), ("", right[1]), ("", right[0]))
        for around in pairs + alone:
            if around in tried:
                continue
            tried.add(around)
            offset = len(around[0])
            for span in find(around[0] + text[start:end] + around[1]):
                first, last = span.start - offset, span.end - offset
                crosses = first < 0 < last or first < end - start < last
                if crosses and (level != "L3" or span.severity >= SECRET):
                    yield span._replace(start=max(first, 0) + start, end=min(last, end - start) + start)
