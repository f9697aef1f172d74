"""Values that begin in one text and end in the next: in two events, or in two parts of one message."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vault.model import Event, run_bytes
from vault.policy.places import KEEP
from vault.ports.records import EventsQuery
from vault.redaction.masking import NO_JSON, STRING_LENGTH_MAX, is_word, parsed, written
from vault.redaction.spans import SECRET, Span, resolved
from vault.sessions.learning import PAYLOAD_BYTES_MAX, content_of
from vault.sessions.log import NOTHING_RETRACTED, STREAM, opened_event
from vault.sessions.read import View, retracted_of, rows_of, verified_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vault.access.door import Grant
    from vault.policy.places import Place
    from vault.ports.records import EventRow
    from vault.sessions.log import Log

    Find = Callable[[str], Any]

#: Characters before and behind a text that are searched together with it, as many as a stream's reader holds
#: back (`stream.HOLD_LENGTH`), and events on each side that they are taken from.
_BESIDE: Final = 512
_ROWS_FIRST, _ROWS_MAX = 4, 64
_LONG: Final = 128
#: Of a text, so much of its beginning and of its end is searched together with what stands beside it.
_EDGE: Final = 4096
#: Places of texts in one payload that are looked at, how deep they are looked for, and parts of one text.
_PLACES_MAX: Final = 64
_DEPTH_MAX: Final = 12
_PARTS_MAX: Final = 1_000
#: Characters of texts beside others that are kept: whoever reads a session in order meets each many times.
_KEPT_CHARACTERS: Final = 2**20

_Pair = tuple[str, str]  # the nearest text, and that with all that follow it without a break


class _Ends(NamedTuple):
    """Of the texts at a place, up to `_BESIDE` characters: the first, the last, both ends of all joined."""

    first: str
    last: str
    head: str
    tail: str
    whole: bool  # nothing was left out between head and tail, so that what stands before may go on


class Seams:
    """Closes the seams of events: hides what began in the text before or goes on in the one behind."""

    def __init__(self) -> None:
        """Begin without anything kept."""
        self._kept: OrderedDict[bytes, tuple[int, dict[str, _Ends]]] = OrderedDict()
        self._size, self._drops = 0, 0
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Drop what is kept: texts of whatever sessions."""
        with self._lock:
            self._kept.clear()
            self._size = 0
            self._drops += 1

    def closed(
        self, log: Log, grant: Grant, session_id: bytes, event: Event, find: Find, level: str, rule: Place
    ) -> Event:
        """The event with a mask for what crosses an end of one of its texts; ``rule``: where its payload is.

        Raises:
            As ``verified_view`` and ``rows_of``.
        """
        content = content_of(event)
        texts = _texts(content, rule)
        if not texts:
            return event
        before, after = self._beside(log, grant, session_id, event, rule, set(texts))
        hidden: dict[tuple[str, int], str] = {}
        for place, found in texts.items():
            joined = _are_parts(event.type, place) and len(found) <= _PARTS_MAX
            around = _neighbours_of(found, before.get(place), after.get(place), joined=joined)
            for at, left, right in around:
                shown = _masked(found[at], left, right, find, level)
                if shown != found[at]:
                    hidden[place, at] = shown
        if not hidden:
            return event
        content = _replaced(content, "", 0, rule, hidden, {})
        if event.raw is None:
            return event._replace(payload=content)
        return event._replace(raw=written(content).encode())

    def _beside(
        self, log: Log, grant: Grant, session_id: bytes, event: Event, rule: Place, places: set[str]
    ) -> tuple[dict[str, _Pair], dict[str, _Pair]]:
        """By place, what stands before and behind, in the events of the same type and run."""
        with verified_view(log, grant, session_id) as found:
            strands = [found, *found.older]
            ahead = [(strand, strand.row.base_seq, min(event.seq, strand.until)) for strand in strands]
            behind = [(found, event.seq, found.row.head_seq + 1)]
            rows_before = _neighbours(ahead, event, newest_first=True)
            rows_after = _neighbours(behind, event, newest_first=False)
            before = _joined(self._opened(log, rows_before, rule), places, backwards=True)
            after = _joined(self._opened(log, rows_after, rule), places, backwards=False)
        return before, after

    def _opened(
        self, log: Log, rows: Iterable[tuple[View, EventRow]], rule: Place
    ) -> Iterator[dict[str, _Ends]]:
        for strand, row in rows:
            if row.content == STREAM or row.size > PAYLOAD_BYTES_MAX:
                continue
            # The row is verified each time, and its MAC is of all that it says: the payload is the same.
            ends, drops = self._recalled(row.mac), self._drops
            if ends is None:
                gone = retracted_of(log, strand) if row.epoch else NOTHING_RETRACTED
                event = opened_event(log, strand.keys, strand.row.session_id, row, gone)
                ends = {
                    place: _ends(found, parts=len(found) == 1 or _are_parts(row.type, place))
                    for place, found in _texts(content_of(event), rule).items()
                }
                self._keep(row.mac, ends, drops)
            yield ends

    def _recalled(self, mac: bytes) -> dict[str, _Ends] | None:
        with self._lock:
            found = self._kept.get(mac)
            if found is None:
                return None
            self._kept.move_to_end(mac)
            return found[1]

    def _keep(self, mac: bytes, ends: dict[str, _Ends], drops: int) -> None:
        size = 64 + sum(len(place) + sum(map(len, end[:4])) for place, end in ends.items())
        with self._lock:
            if mac not in self._kept and drops == self._drops:
                self._kept[mac] = size, ends
                self._size += size
            while self._size > _KEPT_CHARACTERS:
                self._size -= self._kept.popitem(last=False)[1][0]


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


# ------------------------------------------------------------------------------------ texts of one payload


def _are_parts(event_type: str, place: str) -> bool:
    """Whether the texts at a place are one text in parts, and not the cells of a table."""
    return event_type.startswith("message.") or "/content/*" in place or "/parts/*" in place


def _texts(content: Any, rule: Place) -> dict[str, list[str]]:
    """The texts of a payload by place, in order; the items of a list have one place."""
    found: dict[str, list[str]] = {}
    for place, text in _leaves(content, "", 0, rule):
        if place in found:
            found[place].append(text)
        elif len(found) < _PLACES_MAX:
            found[place] = [text]
    return found


def _leaves(value: Any, place: str, depth: int, rule: Place) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if _is_text(value, rule):
            yield place, value
    elif depth < _DEPTH_MAX:
        if isinstance(value, dict):
            for key, item in value.items():
                yield from _leaves(item, f"{place}/{key}", depth + 1, rule.below(key))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                yield from _leaves(item, f"{place}/*", depth + 1, rule.at(number))


def _is_text(text: str, rule: Place) -> bool:
    """Whether a string may be a part of a text; a word of the format (a role, an id) is none."""
    return bool(text) and not (rule.treatment.actions[0] == KEEP and is_word(text))


def _replaced(
    value: Any,
    place: str,
    depth: int,
    rule: Place,
    hidden: dict[tuple[str, int], str],
    seen: dict[str, int],
) -> Any:
    """The content with what is shown instead of some texts; in the order of `_leaves`, which numbers them."""
    if isinstance(value, str):
        if not _is_text(value, rule):
            return value
        at = seen[place] = seen.get(place, -1) + 1
        return hidden.get((place, at), value)
    if depth >= _DEPTH_MAX:
        return value
    if isinstance(value, dict):
        return {
            key: _replaced(item, f"{place}/{key}", depth + 1, rule.below(key), hidden, seen)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _replaced(item, f"{place}/*", depth + 1, rule.at(number), hidden, seen)
            for number, item in enumerate(value)
        ]
    return value


def _ends(texts: list[str], *, parts: bool) -> _Ends:
    first, last = texts[0][:_BESIDE], texts[-1][-_BESIDE:]
    if not parts:
        return _Ends(first, last, first, last, whole=False)
    head, tail, size = "", "", 0
    for text in texts:
        size += len(text)
        if len(head) < _BESIDE:
            head = (head + text)[:_BESIDE]
    for text in reversed(texts):
        if len(tail) == _BESIDE:
            break
        tail = (text[-_BESIDE:] + tail)[-_BESIDE:]
    return _Ends(first, last, head, tail, whole=size < _BESIDE)


def _joined(parts: Iterable[dict[str, _Ends]], places: set[str], *, backwards: bool) -> dict[str, _Pair]:
    """By place, the nearest text and all that follow it without a break, up to `_BESIDE` characters."""
    nearest: dict[str, str] = {}
    joined: dict[str, str] = {}
    wanted = set(places)
    for texts in parts:
        for place in wanted & texts.keys():
            found = texts[place]
            nearest.setdefault(place, found.last if backwards else found.first)
            known = joined.get(place, "")
            more = (found.tail + known)[-_BESIDE:] if backwards else (known + found.head)[:_BESIDE]
            joined[place] = more
            if not found.whole or len(more) == _BESIDE:
                wanted.discard(place)
        if not wanted:
            break
    return {place: (nearest[place], text) for place, text in joined.items()}


def _neighbours_of(
    texts: list[str], before: _Pair | None, after: _Pair | None, *, joined: bool
) -> Iterator[tuple[int, _Pair | None, _Pair | None]]:
    """Each text that has one beside it, by its number, with what stands before and behind it."""
    last = len(texts) - 1
    if not joined:
        if last == 0 or before:
            yield 0, before, after if last == 0 else None
        if last > 0 and after:
            yield last, None, after
        return
    behind: list[_Pair | None] = [after]
    for text in reversed(texts[1:]):
        beyond = behind[-1][1] if behind[-1] else ""
        behind.append((text[:_BESIDE], (text[:_BESIDE] + beyond)[:_BESIDE]))
    left = before
    for at, text in enumerate(texts):
        right = behind[last - at]
        if left or right:
            yield at, left, right
        left = (text[-_BESIDE:], ((left[1] if left else "") + text[-_BESIDE:])[-_BESIDE:])


# ------------------------------------------------------------------------------------- what crosses an end


def _masked(text: str, before: _Pair | None, after: _Pair | None, find: Find, level: str) -> str:
    """A text with a mask for what it shares with the texts beside it; all of it where that cannot be told.

    A mask at every level: a pseudonym of a part would stand for nobody.
    """
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


def _crossing(text: str, before: _Pair, after: _Pair, find: Find, level: str) -> Iterator[Span]:
    """What crosses an end of the text, as spans of it.

    Each neighbour by itself too: joined with more, the digits of several may hide each other. Not where it is
    long: what is checked as a whole, such as a card or a name, reaches over no text of `_LONG`, and
    what is longer, such as a token, is told by how it begins.
    """
    size = len(text)
    tried: set[_Pair] = {("", "")}

    def crossing(left: str, right: str, start: int, end: int) -> Iterator[Span]:
        for span in find(left + text[start:end] + right):
            first, last = span.start - len(left), span.end - len(left)
            if (left and first < 0 < last) or (right and first < end - start < last):
                yield span._replace(start=max(first, 0) + start, end=min(last, end - start) + start)

    lefts = [before[1], before[0]] if len(before[0]) < _LONG else [before[1]]
    rights = [after[1], after[0]] if len(after[0]) < _LONG else [after[1]]
    around = [*((left, "") for left in lefts), *(("", right) for right in rights)]
    if size < _LONG:
        around = [*zip(lefts, rights, strict=False), (lefts[-1], rights[-1]), *around]
    for left, right in around:
        if (left, right) in tried:
            continue
        tried.add((left, right))
        found: list[Span] = []
        for reach in (_BESIDE, _EDGE):
            start = max(0, size - reach) if not left else 0
            end = min(size, reach) if not right else size
            crossed = list(crossing(left, right, start, end))
            found += crossed
            # What reaches farther than the first look does, begins within it.
            if not crossed or size <= reach:
                break
        yield from (span for span in found if _is_shown_masked(span, level))


def _is_shown_masked(span: Span, level: str) -> bool:
    return level != "L3" or span.severity >= SECRET
