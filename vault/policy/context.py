"""The context view: the newest part of a log that fits a model, with a summary for what lies before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from vault.encoding import json_bytes
from vault.errors import InvalidInput
from vault.model import Event
from vault.policy.drift import plural
from vault.policy.state import ANSWERS, summary_range

#: What a model is shown when nothing else is asked for. An entry ending in ``.*`` stands for all of a kind.
TYPES: Final = frozenset({"message.*", "tool.*", "context.summarized", "observation.recorded"})

#: Events read inside the range of a summary to find the request of an answer that came after it: a call that
#: was open when the summary was written lies near the end of its range.
LOOK_BACK_MAX: Final = 200

_BYTES_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What to show a model.

    Attributes:
        events: the oldest first; a summary stands where what it covers was.
        summary: the newest one that was applied, which is also among the events.
        left_out: how many events of the wanted types are missing though no summary covers them; None when the
            log was not read so far back that this is known.
        tokens: the sum of what the counter said.
        reason: why it ends where it does; it holds no name and no content.
    """

    events: tuple[Event, ...]
    summary: Event | None
    left_out: int | None
    tokens: int
    reason: str


def estimate_tokens(event: Event) -> int:
    """A rough number of tokens: a quarter of the payload's bytes, as JSON or raw, rounded up.

    Four bytes are about one token of English prose; other scripts and code take more tokens. It counts the
    payload only, and of one that was not loaded (``streamed``) its sealed size. Where the limit is hard, give
    the model's own counter.
    """
    if event.streamed:
        return -(-event.size // _BYTES_PER_TOKEN)
    content = json_bytes(event.payload) if event.raw is None else event.raw
    return -(-len(content) // _BYTES_PER_TOKEN)


def select(
    newest_first: Iterable[Event],
    *,
    max_events: int | None = None,
    max_tokens: int | None = None,
    counter: Callable[[Event], int] | None = None,
    types: frozenset[str] | None = None,
) -> Context:
    """The newest events that fit, from a log read backwards.

    A tool request and its answers stay together: where the selection ends between them, the answers are left
    out too. A request without an answer stands alone, as does an answer whose request is not in the log at
    all.

    A summary that applies (``summary_range``) takes the place of what it covers; of tool calls it covers
    those whose last answer it covers. A summary among what is covered covers its own range as well. The
    budget pays for a summary where it stands in the log, so it stays when not all events between its range
    and itself fit.

    Reading stops where the budget is used up, or where a summary covers all that is left. Only when a
    summary's range starts later than at 1, what it covers is read over to get behind it.

    A larger budget never leaves out what a smaller one returns.

    Args:
        newest_first: the log from its newest event on, ``seq`` strictly falling.
        max_events: at most so many, 1 or more; None for no limit.
        max_tokens: at most so many in sum, 1 or more; None for no limit.
        counter: tokens of one event; ``estimate_tokens`` when left out.
        types: the wanted types (``message.user``, ``message.*``); ``TYPES`` when left out. Without
            ``tool.requested`` nothing is kept together, without ``context.summarized`` nothing is replaced.

    Raises:
        InvalidInput: a budget is not an integer of 1 or more, no type is wanted, or the counter did not
            return an integer of 0 or more.
    """
    for name, budget in (("max_events", max_events), ("max_tokens", max_tokens)):
        if budget is not None and (type(budget) is not int or budget < 1):
            raise InvalidInput(f"{name} is an integer of 1 or more, or None for no limit")
    wanted = _Types(TYPES if types is None else types)
    walk = _Walk(wanted, max_events, max_tokens, counter or estimate_tokens)
    for event in newest_first:
        walk.take(event)
        if walk.end is not None:
            return walk.context()
    walk.end = _START
    return walk.context()


# Why a walk ended: at the log's first event, before what a summary covers from there, or by a budget.
_START, _COVERED, _FULL = "start", "covered", "full"


class _Types:
    """Which event types are wanted."""

    def __init__(self, types: frozenset[str]) -> None:
        if not types:
            raise InvalidInput("types names at least one event type; leave it out for the usual ones")
        self._exact = types
        self._starts = tuple(entry[:-1] for entry in types if entry.endswith(".*"))

    def __contains__(self, event_type: str) -> bool:
        return event_type in self._exact or event_type.startswith(self._starts)


class _Ranges:
    """What summaries cover: ranges of seq, both ends included, merged where they touch."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, first: int, last: int) -> None:
        touching, apart = [(first, last)], list[tuple[int, int]]()
        for known in self._ranges:
            (touching if known[0] <= last + 1 and first <= known[1] + 1 else apart).append(known)
        merged = min(known[0] for known in touching), max(known[1] for known in touching)
        self._ranges = [*apart, merged]

    def holds(self, first: int, last: int) -> bool:
        return any(known[0] <= first and last <= known[1] for known in self._ranges)

    def reaches_start(self, seq: int) -> bool:
        """Whether everything from this seq back to the log's first event is covered."""
        return self.holds(1, seq)


class _Walk:
    """One way back through a log.

    Which events are paid for, and in which order, does not depend on the budget: it only decides how many of
    them. So a larger budget returns at least what a smaller one does.
    """

    def __init__(
        self,
        wanted: _Types,
        events_max: int | None,
        tokens_max: int | None,
        counter: Callable[[Event], int],
    ) -> None:
        self._wanted, self._counter = wanted, counter
        self._events_max, self._tokens_max = events_max, tokens_max
        self._pairs = "tool.requested" in wanted
        self._kept: list[tuple[Event, int]] = []
        self._tokens = 0
        self._applied: dict[str, tuple[int, int]] = {}  # ranges of summaries, by event id, the newest first
        self._covered = _Ranges()
        self._awaited: set[str] = set()  # requests of kept answers that were not met yet
        self._passed: set[str] = set()
        self._answered: set[str] = set()  # requests whose last answer a summary covers
        self._looked_back = 0
        self._seq = 0
        self.end: str | None = None

    def take(self, event: Event) -> None:
        """Keep the event or pass it over, and set ``end`` when nothing further back can be kept."""
        self._seq = event.seq
        self._passed.add(event.id)
        if self._covered.holds(event.seq, event.seq):
            self._take_covered(event)
        elif event.type in self._wanted:
            self._take_wanted(event)
        if self.end is None:
            self._awaited.discard(event.id)  # met; when it was no request, its answer stands alone
            self.end = self._end_behind(event.seq)

    def _take_wanted(self, event: Event) -> None:
        request = event.id if event.type == "tool.requested" else self._request_of(event)
        if request in self._answered:
            return
        covers = summary_range(event)
        if covers is not None and self._covered.holds(*covers):
            return  # a newer summary stands for all that it says
        if self._keep(event) and covers is not None:
            self._applied[event.id] = covers
            self._covered.add(*covers)

    def _take_covered(self, event: Event) -> None:
        self._looked_back += 1
        if (request := self._request_of(event)) is not None:
            if request in self._awaited:
                self._keep(event)
            else:
                self._answered.add(request)
        elif event.id in self._awaited and event.type == "tool.requested":
            self._keep(event)
        elif event.type in self._wanted and (covers := summary_range(event)) is not None:
            self._covered.add(*covers)

    def _keep(self, event: Event) -> bool:
        cost = self._counter(event)
        if type(cost) is not int or cost < 0:
            raise InvalidInput("a counter of tokens returns an integer of 0 or more")
        if self._tokens_max is not None and self._tokens + cost > self._tokens_max:
            self.end = _FULL
            return False
        self._kept.append((event, cost))
        self._tokens += cost
        if (request := self._request_of(event)) is not None:
            self._awaited.add(request)
        return True

    def _request_of(self, event: Event) -> str | None:
        """What a wanted answer names, if that can still be met further back."""
        is_answer = self._pairs and event.type in ANSWERS and event.type in self._wanted
        return event.caused_by if is_answer and event.caused_by not in self._passed else None

    def _end_behind(self, seq: int) -> str | None:
        if seq <= 1:
            return _START
        if self._covered.reaches_start(seq - 1) and (not self._awaited or self._looked_back >= LOOK_BACK_MAX):
            return _COVERED
        # Every event counts as one, so the next would not fit: it need not be read.
        return _FULL if len(self._kept) == self._events_max else None

    def context(self) -> Context:
        """What was kept, without the answers whose requests were not met."""
        # At the log's start a request that was not met does not exist, so nothing is split.
        missing = set() if self.end == _START else self._awaited
        kept = [
            pair for pair in self._kept if pair[0].type not in ANSWERS or pair[0].caused_by not in missing
        ]
        left_out = len(self._kept) - len(kept)
        summary = next((event for event, _ in kept if event.id in self._applied), None)
        return Context(
            events=tuple(sorted((event for event, _ in kept), key=self._place)),
            summary=summary,
            left_out=None if self._seq > 1 and self.end == _FULL else left_out + (self.end == _FULL),
            tokens=sum(cost for _, cost in kept),
            reason=self._reason(left_out),
        )

    def _place(self, event: Event) -> tuple[int, int]:
        """A summary stands before all that is kept from its range on: a request that came out of it, too."""
        covers = self._applied.get(event.id)
        return (event.seq, 1) if covers is None else (covers[0], 0)

    def _reason(self, left_out: int) -> str:
        ranges = [f"{first:,} to {last:,}" for first, last in self._applied.values()]
        parts = [f"a summary stands for the events {ranges[0]}"] if ranges else []
        parts += [f"older ones for {', '.join(ranges[1:])}"] if ranges[1:] else []
        if self.end == _FULL:
            full = len(self._kept) == self._events_max
            budget = (
                plural(self._events_max or 0, "event") if full else plural(self._tokens_max or 0, "token")
            )
            parts.append(f"the budget of {budget} is used up at seq {self._seq:,}, older ones are left out")
        else:
            parts.append(
                "all others of the wanted types are here" if ranges else "all of the wanted types are here"
            )
        if left_out:
            parts.append(f"{plural(left_out, 'tool answer')} left out, as the request lies further back")
        return "; ".join(parts)
