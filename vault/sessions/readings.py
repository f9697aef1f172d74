"""What a run has read through the vault: what it derives from that is known without anybody naming it.

The current run is a context variable: tasks and ``asyncio.to_thread`` inherit it, a thread that a program
starts itself does not, unless it is started with ``contextvars.copy_context().run``.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Final, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.access.door import Grant

#: Different sessions and derived items that one run is seen to read; above, it has to name its sources.
READINGS_MAX: Final = 10_000


class Readings:
    """The sessions and derived items that a run has read, by id, its own session first."""

    __slots__ = ("_around", "_log", "attached", "known", "overflowed", "session_id")

    def __init__(self, log: object, session_id: bytes, *, attached: bool = False) -> None:
        """Begin with the run's own session, which it always knows; ``log`` says of which vault.

        ``attached``: of a context that a session was attached to, and no run.
        """
        self._log, self.session_id, self.attached = log, session_id, attached
        self._around: Readings | None = None  # of the run that this one is made within
        self.known: dict[bytes, Literal["session", "item"]] = {session_id: "session"}
        self.overflowed = False

    def begin(self) -> Self:
        """Note what is read from here on; also for the run around, whose program learns it too."""
        around = _current.get()
        if around is None or not around.is_within(self):  # else it has begun already, here or around
            self._around = around
            _current.set(self)
        return self

    def attach(self) -> Token[Readings | None]:
        """Note what is read from here on in place of what was attached before.

        Within a run, what that has read so far is known here too: nobody can tell what of it was used.
        """
        around = _current.get()
        self._around = None if around is None else around.beyond_attached()
        run = None if self._around is None else self._around.of(self._log)
        if run is not None:
            self.known, self.overflowed = {**run.known, **self.known}, run.overflowed
        return _current.set(self)

    def beyond_attached(self) -> Readings | None:
        """These, if they are a run's; else those of the run that is around."""
        return self._around if self.attached else self

    def is_within(self, other: Readings) -> bool:
        """Whether these are those of a run, or of one that is made within it."""
        return self is other or (self._around is not None and self._around.is_within(other))

    def end(self) -> None:
        """Note nothing more; in another context than it began in, it is over by itself."""
        if _current.get() is self:
            _current.set(self._around)

    def add(self, log: object, source_id: bytes, kind: Literal["session", "item"]) -> None:
        """Note one thing, if it is of the same vault."""
        if self._log is log and source_id not in self.known:
            if len(self.known) < READINGS_MAX:
                self.known[source_id] = kind
            else:
                self.overflowed = True
        if self._around is not None:
            self._around.add(log, source_id, kind)

    def of(self, log: object) -> Readings | None:
        """These, or those of a run around that is of this vault."""
        if self._log is log or self._around is None:
            return self if self._log is log else None
        return self._around.of(log)


_current: ContextVar[Readings | None] = ContextVar("vault_readings", default=None)


def current(log: object) -> Readings | None:
    """What the current run has read; None outside of any run of this vault."""
    found = _current.get()
    return None if found is None else found.of(log)


@contextmanager
def attached(log: object, session_id: bytes) -> Iterator[None]:
    """A session attached for a block; afterwards what was before, whatever was attached within."""
    token = Readings(log, session_id, attached=True).attach()
    try:
        yield
    finally:
        with suppress(ValueError):  # ended in another context than it began in: there it attached nothing
            _current.reset(token)


def is_attached(log: object, session_id: bytes) -> bool:
    """Whether this session is what is attached to the context, in whatever run."""
    found = _current.get()
    return found is not None and found.attached and found.session_id == session_id and found.of(log) is found


def noted(log: object, grant: Grant, session_id: bytes) -> None:
    """Note that something of a session was read; called for every event, so it costs next to nothing."""
    found = _current.get()
    # What the vault reads of its own trail, to decide who may read what, is nothing that a run learns.
    if found is not None and grant.action != "trail":
        found.add(log, session_id, "session")


def noted_item(log: object, item_id: bytes) -> None:
    """Note that a derived item was read, in this version."""
    found = _current.get()
    if found is not None:
        found.add(log, item_id, "item")
