"""Sessions of the OpenAI Agents SDK, kept in the vault: ``Runner.run(agent, …, session=VaultSession(…))``.

The Runner gets back exactly what it added. Whose conversation it is comes from ``access`` alone: nothing that
travels through the SDK, session ids and run contexts among it, reaches anybody else's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from agents.agent import Agent
from agents.items import TResponseInputItem
from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit
from agents.run_context import RunContextWrapper
from agents.run_state import RunState

from vault.adapters.binding import Binding
from vault.adapters.openai_agents_items import Items
from vault.aio import settled
from vault.clock import from_us, now_ns
from vault.errors import InvalidInput

if TYPE_CHECKING:
    from vault.faces import Access
    from vault.model import SessionSummary
    from vault.sessions.session import Session


_FRAMEWORK: Final = "openai-agents"


def conversations(access: Access) -> Iterator[tuple[str, SessionSummary]]:
    """The ids of a principal's conversations, and what the vault says of each, last used first.

    Raises:
        Tampered: one was changed, removed or rolled back.
    """
    for (session_id,), summary in Binding(access, _FRAMEWORK).listed():
        yield session_id, summary


@dataclass(frozen=True)
class Snapshot:
    """What the SDK's automatic compaction looks at, and how it replaces the end of it."""

    items: list[TResponseInputItem] = field(repr=False)
    complete: bool
    replace_suffix: Callable[[int, list[TResponseInputItem]], Awaitable[bool]] = field(repr=False)


class VaultSession:
    """One conversation; implements the SDK's ``Session`` protocol."""

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        access: Access,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        reuse_erased: bool = False,
    ) -> None:
        """Bind a conversation to its owner; nothing is read or made until it is used.

        Args:
            session_id: the application's own id for it; each owner has their own.
            access: from ``vault.access``: whose conversation it is.
            session_settings: how many items ``get_items`` returns when it is not told.
            reuse_erased: begin anew under an id whose conversation was erased; else writing there is refused.

        Raises:
            TypeError: the id is no string.
        """
        if not isinstance(session_id, str):
            raise TypeError("a session id is a string")
        if not session_id:
            raise InvalidInput("a session id is not empty")
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._binding = Binding(access, _FRAMEWORK, reuse_erased=reuse_erased)
        self._kept = Items(self._binding, session_id)
        self._closed = False

    def __repr__(self) -> str:
        """Without the id, which is the application's."""
        return "VaultSession()"

    async def get_items(
        self,
        limit: int | None = None,
        *,
        wrapper: RunContextWrapper[Any] | None = None,  # noqa: ARG002 - the owner is in the access
    ) -> list[TResponseInputItem]:
        """The newest items, at most ``limit``, in the order they were added; all of them without a limit.

        What this task derives from now on, memories and artifacts, comes from this conversation.

        Raises:
            InvalidInput: the limit is below zero.
            Erased: the conversation was erased.
            Tampered: something of it was changed, moved or removed.
            RuntimeError: the session is closed.
        """
        self._check_open()
        wanted = _checked_limit(resolve_session_limit(limit, self.session_settings))
        events = await settled(self._kept.newest, wanted)
        self._attach()
        return [event.payload for event in events]

    async def add_items(
        self,
        items: list[TResponseInputItem],
        *,
        wrapper: RunContextWrapper[Any] | None = None,  # noqa: ARG002 - the owner is in the access
    ) -> None:
        """Add items, all or none, durable when this returns; also when it is cancelled meanwhile.

        Raises:
            InvalidInput: an item is no JSON object, or holds what JSON cannot hold exactly.
            LimitExceeded: more than 1,000 at once.
            Erased: the conversation was erased.
            RuntimeError: the session is closed.
        """
        self._check_open()
        if items:
            await settled(self._kept.add, list(items))
            self._attach()

    async def pop_item(
        self,
        *,
        wrapper: RunContextWrapper[Any] | None = None,  # noqa: ARG002 - the owner is in the access
    ) -> TResponseInputItem | None:
        """Take the newest item back and return it; it is in no file of the vault any more.

        Raises:
            Conflict: a hold or a statutory minimum keeps the conversation as it is.
            Erased: the conversation was erased.
            RuntimeError: the session is closed.
        """
        self._check_open()
        return cast("TResponseInputItem | None", await settled(self._kept.pop))

    async def clear_session(
        self,
        *,
        wrapper: RunContextWrapper[Any] | None = None,  # noqa: ARG002 - the owner is in the access
    ) -> None:
        """Erase all items, and destroy the key they were sealed under; the conversation can go on.

        Raises:
            Conflict: a hold or a statutory minimum keeps the conversation as it is.
            Erased: the conversation was erased.
            RuntimeError: the session is closed.
        """
        self._check_open()
        await settled(self._kept.clear)

    async def expire_items(self, older_than: timedelta) -> int:
        """Erase the items that are older, each call together with its output; how many were erased.

        Raises:
            Conflict: a hold or a statutory minimum keeps the conversation as it is.
            RuntimeError: the session is closed.
        """
        self._check_open()
        return await settled(self._kept.expire, from_us(now_ns() // 1000) - older_than)

    async def pause(self, state: RunState[Any], **how: Any) -> None:
        """Keep a paused run, sealed, with its conversation; it takes the place of one that was kept before.

        It is gone when one goes on with it, and when something of the conversation is taken back.

        Args:
            state: ``result.to_state()`` of a run that waits for an approval.
            how: how its context is written, as for ``state.to_string``.

        Raises:
            InvalidInput: it holds what JSON cannot hold exactly.
            Erased: the conversation was erased.
            RuntimeError: the session is closed.
        """
        self._check_open()
        await settled(self._kept.pause, json.loads(state.to_string(**how)))

    async def resume(self, agent: Agent[Any], **how: Any) -> RunState[Any] | None:
        """The paused run of this conversation, given to one caller, once; None when there is none.

        Args:
            agent: the agent that it began with.
            how: how its context is read, as for ``RunState.from_json``.

        Raises:
            Conflict: a hold or a statutory minimum keeps the conversation as it is.
            Erased: the conversation was erased.
            Tampered: it was changed, moved or removed.
            RuntimeError: the session is closed.
        """
        self._check_open()
        document = await settled(self._kept.resume)
        self._attach()
        return None if document is None else await RunState.from_json(agent, document, **how)

    async def erase(self) -> bool:
        """Erase the conversation with all that came from it; False when there is none.

        From then on the id is refused, unless the session was made with ``reuse_erased``.

        Raises:
            Conflict: a hold or a statutory minimum keeps it.
            RuntimeError: the session is closed.
        """
        self._check_open()
        return await settled(self._binding.erase, self.session_id)

    def vault_session(self) -> Session | None:
        """The session of the vault behind it: its log, times, lineage; None when nothing was ever added.

        Raises:
            Erased: the conversation was erased.
        """
        return self._kept.find()

    def close(self) -> None:
        """Refuse every further use of this object; the vault stays open, and the conversation as it is."""
        self._closed = True

    # ------------------------------------------------------------------------- what the SDK's compaction asks

    async def _get_compaction_snapshot(
        self,
        limit: int,
        *,
        prune_prefix: Callable[[TResponseInputItem], bool] | None = None,  # noqa: ARG002 - expire_items erases
    ) -> Snapshot | None:
        """The newest items, and a way to put a summary in place of their end in one transaction."""
        self._check_open()
        if type(self) is not VaultSession:
            return None  # what a subclass does to items on their way must not be gone round
        events = await settled(self._kept.newest, limit + 1)
        complete, events = len(events) <= limit, events[-limit:]

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            tail = [event.id for event in events[start:]]
            return await settled(self._kept.replace_tail, tail, list(output))

        return Snapshot([event.payload for event in events], complete, replace_suffix)

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """Put a summary in place of the whole history in one transaction; False when that was not done."""
        self._check_open()
        if type(self) is not VaultSession:
            return False  # as above
        await settled(self._kept.replace, list(items))
        return True

    def _attach(self) -> None:
        # In the caller's context: what is set in a worker thread is lost with it.
        session = self._kept.session
        if session is not None:
            session.attach()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("VaultSession is closed")


def _checked_limit(limit: int | None) -> int | None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInput("a limit is a whole number from 0, or None for all items")
    return limit
