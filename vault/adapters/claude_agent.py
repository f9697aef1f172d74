"""The session store of the Claude Agent SDK, and a conversation that runs on nothing else.

The SDK mirrors what the Claude Code program writes to its own disk, and asks the store when a conversation
is resumed. A store that answers "there is nothing" to that does not deny anything: the program then looks on
its disk, and resumes whatever it finds there, whoever it belongs to. So ``load`` refuses instead of saying
that there is nothing, and ``conversation`` gives the program a directory in which nothing else can be found.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from anyio import CancelScope
from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, project_key_for_directory

from vault.adapters.binding import Binding
from vault.adapters.claude_agent_place import Place, beside_transcript, transcripts
from vault.adapters.claude_agent_results import kept_results
from vault.adapters.claude_agent_transcript import OF_IDS, Transcript
from vault.aio import settled
from vault.errors import Conflict, Erased, InvalidInput, NotFound, VaultError

if TYPE_CHECKING:
    from claude_agent_sdk.types import (
        HookContext,
        HookInput,
        HookJSONOutput,
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

    from vault.derived.item import Artifact
    from vault.faces import Access
    from vault.model import SessionSummary
    from vault.sessions.session import Session

T = TypeVar("T")

_FRAMEWORK: Final = "claude-agent"
_PROJECT: Final = "project"
#: Characters of a project key that fit into a label as it is.
_LABEL_MAX: Final = 256
#: Keys that one store remembers to have deleted.
_DELETED_MAX: Final = 10_000
_UNKNOWN: Final = (
    "there is no such conversation in this vault; resume one that is, or take it in with "
    "import_session_to_store first"
)


class VaultSessionStore:
    """A ``SessionStore`` over the sessions of one principal.

    Tenant and owner are those of ``access``. The project key, the conversation's id and the subpath come from
    the SDK and only ever choose among that owner's own conversations.
    """

    def __init__(self, access: Access, *, reuse_erased: bool = False, unknown_is_none: bool = False) -> None:
        """A store for ``ClaudeAgentOptions(session_store=…)``.

        Args:
            access: from ``vault.access``: whose conversations they are.
            reuse_erased: begin anew under an id that was erased, instead of refusing late writers.
            unknown_is_none: ``load`` answers None for a conversation that this owner never wrote. Only where
                the program finds no transcripts on its own disk, for it resumes them on that answer.
        """
        self._binding = Binding(access, _FRAMEWORK, reuse_erased=reuse_erased)
        self._reuse, self._unknown_is_none = reuse_erased, unknown_is_none
        self._deleted: dict[tuple[str, ...], None] = {}
        self._missed: dict[tuple[str, str], bool] = {}  # of each that runs, whether entries were refused

    # ----------------------------------------------------------------------------- what the SDK calls

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store entries behind those there are; durable on return.

        An entry with a uuid is stored once, and the first content under it stays. A batch that is given
        again, after an error or a crash, adds what is missing and nothing else.

        Raises:
            Erased: the conversation, or this delegated agent's transcript, was erased.
            StorageUnavailable: append the same entries again.
        """
        if entries:
            await settled(self._append, key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries in the order of their commits, the caller's own to change.

        None for what was never written and no program can resume: a subpath, or an id that is no UUID.

        Raises:
            NotFound: this owner never wrote a conversation of this id. Whether somebody else did is not told.
            Erased: it was erased. (None under an id that cannot be resumed and that this store deleted.)
            Tampered: it was changed, removed or rolled back.
        """
        return await settled(self._load, key)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The conversations of a project, last used first; ``mtime`` is the vault's clock in milliseconds."""
        # Ids and times say nothing that anything could be derived from.
        return await settled(_apart, lambda: self._list(project_key))

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """What the SDK shows of each conversation of a project, derived from its entries."""
        return await settled(self._summaries, project_key)

    async def delete(self, key: SessionKey) -> None:
        """Erase a conversation, delegated agents' transcripts and all that came from it; or one subpath.

        When this returns it is unreadable, its keys are destroyed and its bytes are gone; the vault has a
        receipt. What was never written stays so.

        Raises:
            Conflict: a hold or a statutory minimum keeps it.
        """
        await settled(self._delete, key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a conversation that have entries."""
        return await settled(self._subkeys, key)

    # ----------------------------------------------------------------------------- a conversation

    @asynccontextmanager
    async def conversation(
        self, options: ClaudeAgentOptions | None = None
    ) -> AsyncIterator[ClaudeAgentOptions]:
        """Options for ``query`` or ``ClaudeSDKClient``, so that one conversation runs on the vault alone.

        Within the block, a memory or an artifact that is written without sources, by a tool, a hook or the
        program around, comes from this conversation and from whatever else of the vault was read meanwhile.
        What the program writes is stored as it is written, not at the end of a turn. Its directory is a
        temporary one, removed at the end, unless ``env`` names another; the large results of tools are kept
        as artifacts.

        Args:
            options: as without the vault. ``resume``, ``continue_conversation`` and ``session_id`` choose the
                conversation; without them a new one begins. ``session_store`` is set to this store.

        Raises:
            NotFound: ``resume`` names no conversation of this owner.
            Erased: the conversation was erased.
            Conflict: ``session_id`` is that of a conversation that there is already.
            InvalidInput: an id is no UUID.
            StorageUnavailable: something could not be stored by the end; the directory stays then.
        """
        asked = options or ClaudeAgentOptions()
        project = project_key_for_directory(asked.cwd)
        resumed, own = await settled(self._chosen, project, asked)
        session = await settled(self._opened, project, own)
        place = await settled(Place)
        ready = self._options(asked, resumed, own, place)
        self._missed[project, own] = False
        try:
            with session.attached():
                yield ready
        finally:
            # Also when the block was left by an error or cancelled: what is not kept now is lost.
            with CancelScope(shield=True):
                beside = beside_transcript(ready.env["CLAUDE_CONFIG_DIR"], project, own)
                await settled(self._leave, project, own, beside, place)

    def _options(
        self, asked: ClaudeAgentOptions, resumed: str | None, own: str, place: Place
    ) -> ClaudeAgentOptions:
        hooks = asked.hooks or {}
        return replace(
            asked,
            session_store=self,
            session_store_flush="eager",
            resume=resumed,
            continue_conversation=False,
            session_id=None if own == resumed else own,
            env=place.env(asked.env),
            hooks={**hooks, "Stop": [*hooks.get("Stop", []), HookMatcher(hooks=[self._keep_on_stop])]},
        )

    async def _keep_on_stop(self, said: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        """A hook: the SDK removes the directory of a resumed conversation before the block ends."""
        beside = Path(said["transcript_path"]).with_suffix("")
        with suppress(Erased, NotFound):  # of a conversation that was erased meanwhile nothing is kept
            await settled(self._keep, beside.parent.name, beside.name, beside)
        return {}

    def _leave(self, project: str, session_id: str, beside: Path, place: Place) -> None:
        """Store what is left in the program's directory, and only then remove it."""
        try:
            with suppress(Erased, NotFound):
                if self._missed.pop((project, session_id), False):
                    for subpath, entries in transcripts(beside):
                        self._append_at(project, session_id, subpath, entries)
                if (beside / "tool-results").exists():
                    self._keep(project, session_id, beside)
        except BaseException as error:
            error.add_note("What could not be stored is still in the directory that the program wrote to.")
            raise
        place.remove()

    # ------------------------------------------------------------------------------------- underneath

    def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        project, session_id, subpath = _parts(key)
        try:
            self._append_at(project, session_id, subpath, entries)
        except VaultError:
            # The SDK gives a batch up after a while; what is on the disk is looked at once more at the end.
            if (project, session_id) in self._missed:
                self._missed[project, session_id] = True
            raise

    def _append_at(
        self, project: str, session_id: str, subpath: str | None, entries: list[SessionStoreEntry]
    ) -> None:
        session = self._opened(project, session_id)
        try:
            Transcript(session, reuse_erased=self._reuse).append(subpath, entries)
        except NotFound:
            self._binding.find(project, session_id)  # says so when it was erased meanwhile
            raise

    def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        project, session_id, subpath = _parts(key)
        resumable = subpath is None and _is_uuid(session_id)
        try:
            session = self._binding.find(project, session_id)
            found = [] if session is None else Transcript(session, reuse_erased=self._reuse).entries(subpath)
        except Erased:
            told = {(project, session_id), (project, session_id, subpath)} & self._deleted.keys()
            if resumable or not told:
                raise
            return None
        if not found and resumable and not self._unknown_is_none:
            raise NotFound(_UNKNOWN)
        return found or None

    def _list(self, project: str) -> list[SessionStoreListEntry]:
        def listed(
            transcript: Transcript, session_id: str, summary: SessionSummary
        ) -> SessionStoreListEntry | None:
            begun = transcript.first() is not None
            return {"session_id": session_id, "mtime": _mtime(summary)} if begun else None

        return list(self._each(project, listed))

    def _summaries(self, project: str) -> list[SessionSummaryEntry]:
        def summed(
            transcript: Transcript, session_id: str, summary: SessionSummary
        ) -> SessionSummaryEntry | None:
            return transcript.summary(session_id, _mtime(summary))

        return list(self._each(project, summed))

    def _each(self, project: str, look: Callable[[Transcript, str, SessionSummary], T | None]) -> Iterator[T]:
        """What is seen of each conversation of a project, last used first, but for None."""
        for ids, summary in self._binding.listed(**{_PROJECT: _label(project)}):
            if ids[0] != project:
                continue
            try:
                transcript = Transcript(self._binding.access.sessions.resume(summary.id))
                seen = look(transcript, ids[1], summary)
            except NotFound:
                continue  # erased since it was listed
            if seen is not None:
                yield seen

    def _subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        try:
            session = self._binding.find(key["project_key"], key["session_id"])
        except Erased:
            return []
        return [] if session is None else Transcript(session).subpaths()

    def _delete(self, key: SessionKey) -> None:
        project, session_id, subpath = _parts(key)
        if subpath is None:
            self._binding.erase(project, session_id)
            self._remember((project, session_id))
            return
        try:
            session = self._binding.find(project, session_id)
        except Erased:
            return
        if session is not None:
            Transcript(session).erase(subpath)
            self._remember((project, session_id, subpath))

    def _remember(self, deleted: tuple[str, ...]) -> None:
        self._deleted[deleted] = None
        if len(self._deleted) > _DELETED_MAX:
            del self._deleted[next(iter(self._deleted))]

    def _opened(self, project: str, session_id: str) -> Session:
        labels = {_PROJECT: _label(project), OF_IDS: secrets.token_hex(32)}
        return self._binding.open(project, session_id, labels=labels)

    def _chosen(self, project: str, options: ClaudeAgentOptions) -> tuple[str | None, str]:
        """The conversation to resume, if any, and the one that is written to."""
        resumed = options.resume
        if resumed is None and options.continue_conversation:
            resumed = self._newest(project)
        for given in (resumed, options.session_id):
            if given is not None and not _is_uuid(given):
                raise InvalidInput("the id of a conversation is a UUID")
        begun = options.session_id or str(uuid.uuid4())
        if (resumed is None or options.fork_session) and self._has_begun(project, begun):
            raise Conflict("there is a conversation with this id already; resume it, or take another id")
        if resumed is None:
            return None, begun
        if not self._has_begun(project, resumed):
            raise NotFound(_UNKNOWN)
        return resumed, begun if options.fork_session else resumed

    def _has_begun(self, project: str, session_id: str) -> bool:
        session = self._binding.find(project, session_id)
        return session is not None and Transcript(session).first() is not None

    def _newest(self, project: str) -> str | None:
        """The conversation of a project that was used last, and is no delegated agent's."""

        def own(transcript: Transcript, session_id: str, _: SessionSummary) -> str | None:
            first = transcript.first()
            if first is None or first.get("isSidechain") is True or not _is_uuid(session_id):
                return None
            return session_id

        return next(self._each(project, own), None)

    def _keep(self, project: str, session_id: str, beside: Path) -> dict[Path, Artifact]:
        session = self._binding.find(project, session_id)
        if session is None:
            return {}
        return _apart(lambda: kept_results(self._binding.access, session, beside))


async def ingest_tool_results(
    store: VaultSessionStore, session_id: str, config_dir: str | Path, *, project_key: str
) -> dict[Path, Artifact]:
    """Keep the large results of tools, which the SDK does not mirror, as artifacts of their conversation.

    Args:
        store: where the conversation is.
        session_id: the conversation.
        config_dir: the program's directory, ``CLAUDE_CONFIG_DIR`` or ``~/.claude``.
        project_key: from ``project_key_for_directory``.

    Returns:
        The artifact of each file. A file that was taken in before is not stored again. The artifacts go when
        the conversation is erased; the files themselves stay where they are.

    Raises:
        Erased: the conversation was erased.
        InvalidInput: a file cannot be read.
    """
    beside = beside_transcript(config_dir, project_key, session_id)
    return await settled(store._keep, project_key, session_id, beside)  # noqa: SLF001


def _parts(key: SessionKey) -> tuple[str, str, str | None]:
    subpath = key.get("subpath")
    if subpath == "":
        raise InvalidInput("a subpath is not empty; leave it out for the main transcript")
    return key["project_key"], key["session_id"], subpath


def _label(project: str) -> str:
    """A project key as a label; two may share one, and are told apart by the ids they stand with."""
    return project if 0 < len(project) <= _LABEL_MAX else f"{len(project)} characters"


def _mtime(summary: SessionSummary) -> int:
    return int(summary.last_event_at.timestamp() * 1000)


def _is_uuid(session_id: str) -> bool:
    try:
        uuid.UUID(session_id)
    except (ValueError, AttributeError):
        return False
    return True


def _apart(call: Callable[[], T]) -> T:
    """The call, in a context of its own: what it reads is no source of what the conversation derives."""
    return Context().run(call)
