"""What a use case needs to do anything; only the door makes one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.sealing.uses import TenantKeys


class Ask(Protocol):
    """Asks the door, for whoever holds a grant, about another session that a fork shares a log with."""

    def __call__(self, session_id: bytes, *, masking: bool = False) -> Grant | None:
        """Leave to read it; ``masking``: to learn, for the vault's own use, what a view has to hide."""
        ...


def _nobody(session_id: bytes, *, masking: bool = False) -> None:
    """Leave for no other session."""


def _recorded_before() -> None:
    """Nothing to record: the door did, or it is the owner's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Leave to do one action with the sessions of one owner in one tenant.

    It carries what every query and every key needs: without the right tenant and owner nothing is found,
    and nothing opens. ``level`` is the highest view that it allows; ``own`` that it is the owner's own, who
    sees everything as it was stored. ``who`` is the principal's blind index.
    """

    action: str
    tenant: TenantKeys = field(repr=False)
    owner: bytes = field(repr=False)
    reason: str
    level: str = "L3"
    own: bool = True
    who: bytes = field(default=b"", repr=False)
    used: Callable[[], None] = field(default=_recorded_before, repr=False, compare=False)
    _ask: Ask = field(default=_nobody, repr=False, compare=False)
    _others: dict[bytes, Grant] = field(default_factory=dict, repr=False, compare=False)
    _parts: set[bytes] = field(default_factory=set, repr=False, compare=False)

    def along(self, session_id: bytes) -> Grant | None:
        """Leave to read the session that a fork shares a log with; None when whoever asks has none now.

        Each part of a fork is read by leave of its own owner. The door is asked once for each grant.
        """
        if session_id not in self._others:
            found = self._ask(session_id)
            if found is None:
                return None
            self._others[session_id] = found
        return self._others[session_id]

    def same(self, session_id: bytes, as_of: bytes) -> None:
        """Let the leave for one session count for another one of the same owner, which it goes on from."""
        self._parts.add(session_id)
        if as_of in self._others:
            self._others[session_id] = self._others[as_of]

    def is_part(self, session_id: bytes) -> bool:
        """Whether a session is read as a part of one that goes on from it and has the same owner."""
        return session_id in self._parts

    def anew(self) -> Grant:
        """The same leave for another session: nothing was given along with it yet."""
        return replace(self, _others={}, _parts=set())

    def of(self, session_id: bytes) -> Grant:
        """The leave for one session: this grant's, or the one that was given along with it."""
        return self._others.get(session_id, self)

    def masking(self) -> Grant:
        """Leave to learn, for the vault's own use, which words a view of this has to hide.

        A view hides what is named in all that a fork shares, also in what its reader may not read.
        """

        def ask(session_id: bytes, *, masking: bool = True) -> Grant | None:  # noqa: ARG001 - always so
            return self._ask(session_id, masking=True)

        return replace(self, action="mask", level="L0", own=False, _ask=ask, _others={}, _parts=set())
