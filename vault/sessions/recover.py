"""Recovery: the nearest checkpoint, what happened after it, and the proof that both tell the same."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vault.errors import Diverged, Tampered
from vault.policy.recovery import DEFAULT, fold, state_hash
from vault.sessions.place import place_of
from vault.sessions.prepare import CHECKPOINT, check_snapshot
from vault.sessions.read import Part, read, shared_of, verified_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vault.access.door import Grant
    from vault.model import Event, EventId
    from vault.policy.recovery import Reducer
    from vault.sessions.log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A state, rebuilt.

    ``through`` is the place of the last event it covers; ``checkpoint`` the one it was built from, None when
    it was built from the first event; ``replayed`` how many events were replayed on top of that.
    """

    state: Any = field(repr=False)
    sha256: str
    through: int
    checkpoint: EventId | None
    replayed: int


class Step(NamedTuple):
    """One event and the state after it."""

    event: Event
    state: Any

    def __repr__(self) -> str:
        """The event only: the state is the user's."""
        return f"Step({self.event!r})"


class Start(NamedTuple):
    """Where a replay begins: a state, and the place of the last event that it covers."""

    state: Any
    through: int
    checkpoint: Event | None


def recover(
    log: Log, grant: Grant, session_id: bytes, reducer: Reducer, at: str | None, *, check: bool
) -> Recovered:
    """The state after an event; what it costs is bounded by the distance to the nearest checkpoints.

    Raises:
        Diverged: a replay gives another state than a checkpoint holds; names the first such event.
        Tampered: what is stored is not what was written.
        NotFound: ``at`` is no event of this session.
    """
    through, shared = _end(log, grant, session_id, at)
    return _recovered(_Log(log, grant, session_id, reducer, shared), reducer, through, check=check)


def recover_through(log: Log, grant: Grant, session_id: bytes, reducer: Reducer, through: int) -> Recovered:
    """The state after the event at a place; before the first event for 0.

    Raises:
        As ``recover``.
    """
    _, shared = _end(log, grant, session_id, None)
    return _recovered(_Log(log, grant, session_id, reducer, shared), reducer, through, check=True)


def _recovered(whole: _Log, reducer: Reducer, through: int, *, check: bool) -> Recovered:
    start = whole.start_before(through + 1)
    if check and start.checkpoint is not None:
        whole.check(start)
    state = fold(reducer, start.state, whole.events(start.through, through))
    checkpoint = start.checkpoint.id if start.checkpoint is not None else None
    return Recovered(
        state=state,
        sha256=state_hash(state),
        through=through,
        checkpoint=checkpoint,
        replayed=through - start.through,
    )


def start_of_replay(log: Log, grant: Grant, session_id: bytes, reducer: Reducer, *, recent: bool) -> Start:
    """Where a replay begins: before the first event, or at the newest checkpoint.

    Raises:
        As ``recover``.
    """
    if not recent:
        return _beginning(reducer)
    through, shared = _end(log, grant, session_id, None)
    whole = _Log(log, grant, session_id, reducer, shared)
    start = whole.start_before(through + 1)
    if start.checkpoint is not None:
        whole.check(start)
    return start


def _beginning(reducer: Reducer) -> Start:
    """The start of the log; a copy, as states share parts with it and are given to callers."""
    return Start(deepcopy(reducer.initial), 0, None)


def steps(reducer: Reducer, start: Start, events: Iterable[Event]) -> Iterator[Step]:
    """The state after each event.

    Raises:
        InvalidInput: the reducer is not pure, or its state is not JSON.
    """
    state = start.state
    for event in events:
        # The vault's own reducer is pure by test; writing its state for every event would double the work.
        state = reducer.apply(state, event) if reducer is DEFAULT else fold(reducer, state, [event])
        yield Step(event, state)


def _end(
    log: Log, grant: Grant, session_id: bytes, at: str | None
) -> tuple[int, tuple[tuple[bytes, int], ...]]:
    with verified_view(log, grant, session_id) as found:
        through = found.row.head_seq if at is None else place_of(found, at)
        return through, shared_of(found)


class _Log:
    """One session's log as a recovery reads it."""

    def __init__(
        self,
        log: Log,
        grant: Grant,
        session_id: bytes,
        reducer: Reducer,
        shared: tuple[tuple[bytes, int], ...],
    ) -> None:
        self._log, self._grant, self._id = log, grant, session_id
        self._reducer, self._shared = reducer, shared
        # What a fork shares of somebody else's is a view: its checkpoints are not of what is read there.
        views = [until - 1 for holder, until in shared if not holder or not grant.of(holder).own]
        self._view_through = max(views, default=0)

    def events(self, low: int, through: int) -> Iterator[Event]:
        part = Part(low=low, high=through + 1, shared=self._shared)
        return read(self._log, self._grant, self._id, part)

    def start_before(self, high: int) -> Start:
        """The newest checkpoint of this reducer before a place, or the start of the log."""
        if not self._grant.own:
            return _beginning(self._reducer)  # a view's states are not those that the checkpoints hold
        low = self._view_through
        part = Part(types=(CHECKPOINT,), low=low, high=high, newest_first=True, shared=self._shared)
        for event in read(self._log, self._grant, self._id, part):
            if self._is_ours(event):
                check_snapshot(event.payload)
                return self._start(event)
        return _beginning(self._reducer)

    def check(self, start: Start) -> None:
        """Replay the interval before a checkpoint; a difference is traced to the first one there is."""
        if start.checkpoint is None or self._agrees(start):
            return
        first = start
        low, high = self._view_through, start.checkpoint.seq
        checkpoints = Part(types=(CHECKPOINT,), low=low, high=high, shared=self._shared)
        for event in read(self._log, self._grant, self._id, checkpoints):
            if self._is_ours(event) and not self._agrees(self._start(event)):
                first = self._start(event)
                break
        assert first.checkpoint is not None  # noqa: S101 - told to the type checker
        raise Diverged(
            f"replaying the log does not give the state of checkpoint {first.checkpoint.id} (event "
            f"{first.checkpoint.seq}), the first that differs; recover with the reducer that made it"
        )

    def _is_ours(self, checkpoint: Event) -> bool:
        """Whether the reducer made it of this log: the times and places of an imported one are another's."""
        said = checkpoint.payload if isinstance(checkpoint.payload, dict) else {}
        return said.get("reducer") == self._reducer.name and checkpoint.occurred_us is None

    def _agrees(self, start: Start) -> bool:
        assert start.checkpoint is not None  # noqa: S101 - told to the type checker
        before = self.start_before(start.checkpoint.seq)
        if before.checkpoint is None and self._view_through:
            return True  # a view is not always the same: by then more was shared, or less
        state = fold(self._reducer, before.state, self.events(before.through, start.through))
        return state_hash(state) == state_hash(start.state)

    def _start(self, event: Event) -> Start:
        through = event.payload.get("through")
        if isinstance(through, bool) or not isinstance(through, int) or not 0 <= through < event.seq:
            raise Tampered("a checkpoint claims to cover events that are not before it")
        return Start(event.payload["state"], through, event)
