"""Memories of Google ADK in the vault: its ``BaseMemoryService``, for one principal.

Each memory comes from a session, and from the event that it repeats; it goes when that session is deleted.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
import uuid
from contextvars import Context
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from pydantic_core import to_jsonable_python

from vault.adapters.google_adk_origins import Origins, SessionIds, erase_item, modelled, running
from vault.aio import settled
from vault.derived.item import VALUE_BYTES_MAX, SourceId
from vault.derived.matching import TEXT_LENGTH_MAX
from vault.encoding import json_bytes
from vault.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

    from vault.derived.item import Memory
    from vault.faces import Access

#: Memories of one answer, as elsewhere in ADK.
ANSWER_MAX: Final = 10
#: Memories that one look-up compares.
COMPARED_MAX: Final = 1_000
#: Words of a query that count.
WORDS_MAX: Final = 64
#: The fact that a memory of an event was deleted, so that the event is not taken in again.
FORGOTTEN: Final = "adk.forgotten"
_SESSION: Final = "session_id"
_UNNAMED: Final = (
    "say which session these memories come from: write them while one is running, or name it as session_id "
    "in custom_metadata"
)


class VaultMemoryService(BaseMemoryService):
    """ADK's memories of one principal: sealed, searched by their words, gone with the session they are of."""

    def __init__(self, access: Access) -> None:
        """Keep memories for one principal; ``access`` is from ``vault.access`` and says for whom."""
        self._access, self._origins = access, Origins(access)

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember what was said in a session; what is remembered already, or was deleted, is left as it is.

        Raises:
            SessionNotFoundError: the session was deleted.
        """
        ids = SessionIds.checked(session.app_name, session.user_id, session.id)
        await settled(Context().run, self._ingested, ids, list(session.events), {})

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember these events of a session, of the running one when none is named.

        Raises:
            InvalidInput: no session is named, and none is running.
            SessionNotFoundError: the session was deleted.
        """
        ids = self._named(app_name, user_id, session_id, custom_metadata)
        metadata = to_jsonable_python(dict(custom_metadata or {}))
        await settled(Context().run, self._ingested, ids, list(events), metadata)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember something; it comes from the running session and all that was read there.

        Outside of a running session ``custom_metadata`` names one, as ``session_id``.

        Raises:
            InvalidInput: no session is running, and none is named.
            SessionNotFoundError: the session was deleted.
        """
        ids = self._named(app_name, user_id, None, custom_metadata)
        metadata = to_jsonable_python(dict(custom_metadata or {}))
        await settled(self._added, ids, list(memories), metadata)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The memories that share the most words with a query, at most ten; among equals the newer first.

        Up to 1,000 memories are compared all; of more, the newest 1,000 and those with a word of the query.
        """
        found = await settled(self._found, _namespace(app_name, user_id), query)
        return SearchMemoryResponse(memories=found)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Erase a memory for good; the event that it repeats stays, and is not remembered again.

        Raises:
            Conflict: a legal hold or a statutory minimum keeps it.
        """
        if memory_id:
            await settled(Context().run, self._deleted, _namespace(app_name, user_id), memory_id)

    def _named(
        self, app_name: str, user_id: str, session_id: str | None, metadata: Mapping[str, object] | None
    ) -> SessionIds:
        named, now = session_id or (metadata or {}).get(_SESSION), running.get()
        if isinstance(named, str) and named.strip():
            return SessionIds.checked(app_name, user_id, named)
        if now is None or now.ids[:2] != (app_name, user_id):
            raise InvalidInput(_UNNAMED)
        return now.ids

    # What follows runs in worker threads; much of it apart from what a session is seen to read.

    def _ingested(self, ids: SessionIds, events: list[Event], metadata: dict[str, Any]) -> None:
        told = [event for event in events if _text(event)]
        if told:
            self._origins.of(ids, lambda session: self._repeated(ids, session, told, metadata))

    def _repeated(self, ids: SessionIds, session: Any, events: list[Event], metadata: dict[str, Any]) -> None:
        forgotten = {one.payload["id"] for one in session.events(types=[FORGOTTEN])}
        space = _namespace(*ids)
        for event in events:
            if event.id in forgotten:
                continue
            try:
                self._access.memories.get(space, event.id)
            except NotFound:
                value = {
                    "id": event.id,
                    "event": True,
                    "author": event.author,
                    "timestamp": datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
                    "content": _dumped(event.content),
                    "metadata": {**metadata, _SESSION: ids.session},
                }
                self._put(space, event.id, value, session, self._origins.event_id(ids, event.id))

    def _put(
        self, space: tuple[str, ...], key: str, value: dict[str, Any], session: Any, event_id: str | None
    ) -> None:
        value = _fitting(value)
        if event_id is not None:
            source = SourceId(kind="event", id=event_id, session_id=session.id)
            try:
                self._access.memories.put(space, key, value, sources=[source])
            except NotFound:
                pass  # an event that is in no log: the session is what can be named
            else:
                return
        self._access.memories.put(space, key, value, sources=[session])

    def _added(self, ids: SessionIds, memories: list[MemoryEntry], metadata: dict[str, Any]) -> None:
        for memory in memories:
            key = memory.id or str(uuid.uuid4())
            value = {
                "id": key,
                "event": False,
                "author": memory.author,
                "timestamp": memory.timestamp,
                "content": _dumped(memory.content),
                "metadata": {**to_jsonable_python(memory.custom_metadata), **metadata, _SESSION: ids.session},
            }
            value = _fitting(value)

            def put(sources: list[Any] | None, key: str = key, value: dict[str, Any] = value) -> None:
                self._access.memories.put(_namespace(*ids), key, value, sources=sources)

            self._origins.derive(ids.app, ids.user, ids, put)

    def _found(self, space: tuple[str, ...], query: str) -> list[MemoryEntry]:
        wanted = _words(query)
        candidates: list[Memory] = Context().run(self._candidates, space, wanted)
        scored = [(_score(wanted, one.value["content"]), one) for one in candidates]
        best = sorted(
            (pair for pair in scored if pair[0]), key=lambda pair: (pair[0], pair[1].id), reverse=True
        )
        found = []
        for _, one in best[:ANSWER_MAX]:
            try:
                # Read again, in the context of who asks: what is shown is what the session has read.
                found.append(_entry(self._access.memories.get(one.namespace, one.key)))
            except NotFound:
                continue  # erased meanwhile
        return found

    def _candidates(self, space: tuple[str, ...], wanted: set[str]) -> list[Memory]:
        if not wanted:
            return []
        search = self._access.memories.search
        found = {one.id: one for one in search(space, limit=COMPARED_MAX)}
        if len(found) == COMPARED_MAX:
            for word in sorted(word for word in wanted if len(word) <= TEXT_LENGTH_MAX)[:WORDS_MAX]:
                found |= {one.id: one for one in search(space, text=word, limit=COMPARED_MAX)}
        return list(found.values())

    def _deleted(self, space: tuple[str, ...], memory_id: str) -> None:
        for one in self._access.memories.search(space, filter={"id": memory_id}, limit=COMPARED_MAX):
            ids = SessionIds(one.namespace[1], one.namespace[2], one.namespace[4])
            if one.value["event"]:  # told first: nobody who takes the event in meanwhile brings it back
                self._origins.of(ids, lambda session: session.append(FORGOTTEN, {"id": memory_id}))
            erase_item(self._access, memory=one.id)


def _namespace(app_name: str, user_id: str, session_id: str | None = None) -> tuple[str, ...]:
    space = ("google-adk", app_name, user_id)
    return space if session_id is None else (*space, "session", session_id)


def _dumped(content: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = content.model_dump(mode="json", exclude_none=True)
    return dumped


def _fitting(value: dict[str, Any]) -> dict[str, Any]:
    """A memory as it is, or without its files when it would be too large with them."""
    if len(json_bytes(value)) <= VALUE_BYTES_MAX:
        return value
    parts = [part for part in value["content"].get("parts", []) if part.get("text")]
    return {**value, "content": {**value["content"], "parts": parts}}


def _entry(memory: Memory) -> MemoryEntry:
    value = memory.value
    said = {name: value[name] for name in ("id", "author", "timestamp", "content")}
    return modelled(MemoryEntry, {**said, "custom_metadata": value["metadata"]})


def _text(event: Event) -> str:
    """What an event says to people: no thoughts, no calls."""
    parts = (event.content.parts if event.content else None) or []
    return " ".join(part.text for part in parts if part.text and not part.thought)


def _words(text: str) -> set[str]:
    """The words of a text; of one that mixes scripts, also its pieces of each script."""
    found = set(re.findall(r"\w+", _plain(text)))
    pieces = (itertools.groupby(word, _is_latin) for word in found if not word.isascii())
    return found | {"".join(piece) for groups in pieces for _, piece in groups}


def _score(wanted: Iterable[str], content: dict[str, Any]) -> int:
    """How many words of a query are in a memory; those that are not ASCII also as parts of words."""
    texts = [
        part["text"] for part in content.get("parts", []) if part.get("text") and not part.get("thought")
    ]
    text = " ".join(texts)
    words, plain = _words(text), _plain(text)
    return sum(word in words or (not word.isascii() and word in plain) for word in wanted)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _is_latin(character: str) -> bool:
    return character.isascii() or unicodedata.name(character, "").startswith("LATIN")
