"""Imports that are stopped: between two sessions by Ctrl-C, and marked when it was in the middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from vault.cli.output import note
from vault.cli.printable import plural
from vault.errors import VaultError

if TYPE_CHECKING:
    from vault.faces import Access
    from vault.sessions.session import Session


class Door:
    """The door of a principal, as an import uses it: it remembers the session that is being filled."""

    def __init__(self, access: Access) -> None:
        """Make sessions through this door."""
        self._sessions = access.sessions
        self.filling: Session | None = None
        self.complete = 0

    @property
    def sessions(self) -> Door:
        """Where sessions are made."""
        return self

    def create(
        self,
        *,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
        config: str | None = None,
        external_id: str | None = None,
        parent: str | None = None,
    ) -> Session:
        """As ``Sessions.create``."""
        self.filling = self._sessions.create(
            title=title, labels=labels, config=config, external_id=external_id, parent=parent
        )
        return self.filling

    def finished(self) -> None:
        """The session has got all of its events."""
        if self.filling is not None:
            self.filling, self.complete = None, self.complete + 1


@contextmanager
def part_left(door: Door) -> Iterator[None]:
    """When an import breaks off inside a session, the session says so itself, and takes no more events."""
    try:
        yield
    except BaseException:
        if door.complete:
            note(f"imported whole before that: {plural(door.complete, 'session')}")
        left = door.filling
        if left is not None:
            with suppress(
                VaultError
            ):  # what broke the import may also refuse this; its own error is reported
                left.append("import.interrupted", {"note": "the import of this session was not completed"})
                left.end()
            note(f"{left.id} holds only a part of what was to be imported; its last event says so")
        raise


class Stopping:
    """Lets Ctrl-C stop an import where nothing is half done; pressed again, it stops at once."""

    def __init__(self) -> None:
        """Nothing is asked for yet."""
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        """Take over Ctrl-C, where that can be done."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def here(self) -> None:
        """A place where nothing is half done.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        if self._asked:
            raise KeyboardInterrupt

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        note("stopping when this session is complete; Ctrl-C again stops at once")
