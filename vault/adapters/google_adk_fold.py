"""What the facts of Google ADK's logs say about state; pure."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vault.encoding import canonical_json
from vault.errors import Diverged

if TYPE_CHECKING:
    from vault.model import Event

CREATED: Final = "adk.created"
EVENT: Final = "adk.event"
DELTA: Final = "adk.delta"
SNAPSHOT: Final = "adk.state"
_SCOPES: Final = {"app:": "app", "user:": "user"}
_TEMP: Final = "temp:"

#: Under which name an event owes what to the state of the user and of the app.
Owed = tuple[str, dict[str, dict[str, Any]]]


def owed(payload: dict[str, Any]) -> Owed | None:
    """What an event of ADK's says about the state of the user and of the app."""
    parts = scoped(payload.get("actions", {}).get("state_delta", {}))
    parts.pop("session", None)
    return (payload["id"], parts) if parts else None


def scoped(delta: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A change of state by whose it is: ``session``, ``user`` and ``app``, the two without their prefix."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in delta.items():
        prefix = next((one for one in _SCOPES if key.startswith(one)), "")
        if not key.startswith(_TEMP):
            found.setdefault(_SCOPES.get(prefix, "session"), {})[key.removeprefix(prefix)] = value
    return found


@dataclass(slots=True)
class Fold:
    """The state of a log as its facts up to ``seq`` tell it.

    ``told`` is the place of the newest fact that a writer has to know; ``updated`` the latest time that any
    of ADK's events claims; ``owed`` what the newest fact says about the state of the user and the app, under
    a name of its own; ``since`` the facts since the last snapshot.
    """

    state: dict[str, Any] = field(default_factory=dict)
    seq: int = 0
    last: str | None = None
    told: int = 0
    updated: float = 0.0
    owed: Owed | None = None
    since: int = 0

    def take(self, event: Event) -> None:
        """Go on by the next event of the log.

        Raises:
            Diverged: a snapshot says something else than the facts before it.
        """
        self.fact(event.type, event.payload, event.seq, event.recorded_us / 1e6)
        self.last = event.id

    def fact(self, kind: str, payload: Any, seq: int, recorded: float = 0.0) -> None:
        """Go on by what an event says, recorded at a time; one that is no fact of ADK's changes nothing."""
        if kind == SNAPSHOT:
            self._compare(payload, seq)
        elif kind == EVENT:
            self._change(payload.get("actions", {}).get("state_delta", {}), payload["id"])
            self._told(seq, payload["timestamp"])
        elif kind in (CREATED, DELTA):
            self._change(payload["state"], kind)
            self._told(seq, payload.get("at", recorded))
        self.seq = seq

    def snapshot(self) -> dict[str, Any]:
        """This as the payload of a snapshot."""
        said = {"state": self.state, "updated": self.updated, "owed": list(self.owed) if self.owed else None}
        return {**said, "sha256": _digest(self.state)}

    def copied(self) -> Fold:
        """A copy that shares nothing that changes."""
        return Fold(
            copy.deepcopy(self.state),
            self.seq,
            self.last,
            self.told,
            self.updated,
            copy.deepcopy(self.owed),
            self.since,
        )

    def _told(self, seq: int, at: float) -> None:
        self.told, self.since, self.updated = seq, self.since + 1, max(self.updated, at)

    def _change(self, delta: dict[str, Any], name: str) -> None:
        """Apply a change of state, as ``dict.update`` does; what is not the session's own is owed."""
        parts = scoped(delta)
        self.state.update(parts.pop("session", {}))
        self.owed = (name, parts) if parts else None

    def _compare(self, payload: dict[str, Any], seq: int) -> None:
        """Begin with a snapshot, or hold one against the facts before it."""
        if not self.seq:
            owed = payload["owed"]
            self.state, self.updated = dict(payload["state"]), payload["updated"]
            self.owed, self.told = (owed[0], owed[1]) if owed else None, seq - 1
        if payload["sha256"] != _digest(self.state):
            raise Diverged("a snapshot of an ADK session's state is not what its events give")
        self.since = 0


def _digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(state)).hexdigest()
