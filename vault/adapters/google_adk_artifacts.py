"""Artifacts of Google ADK in the vault: its ``BaseArtifactService``, for one principal.

The bytes of each version are an artifact of the vault, which comes from the session that saved it and goes
with it. What ADK says about a version hangs on that artifact: it stands in a cache entry beside it, by which
names and versions are listed.
"""

from __future__ import annotations

import hashlib
import json
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import (
    ArtifactVersion,
    BaseArtifactService,
    ensure_part,
)
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.genai import types

from vault.adapters.google_adk_origins import Origins, SessionIds, erase_item, modelled
from vault.aio import settled
from vault.errors import LimitExceeded, NotFound
from vault.model import NAME_LENGTH_MAX

if TYPE_CHECKING:
    from vault.derived.item import Artifact, Memory
    from vault.faces import Access

#: File names of one session, or of one user; and versions of one file.
FILES_MAX: Final = 1_000
#: References from one artifact to the next that are followed, as elsewhere in ADK.
_REFERENCES_MAX: Final = 5
_USER: Final = "user:"
_TEXT_TYPE: Final = "text/plain"
#: What a rewind saves in place of a file that was not there yet.
_REMOVED: Final = ("application/octet-stream", b"")


class Place(NamedTuple):
    """Where a file's versions stand: a session's, or when ``session`` is None, a user's."""

    app: str
    user: str
    session: str | None
    file: str

    @classmethod
    def checked(cls, app_name: str, user_id: str, session_id: str | None, filename: str) -> Place:
        """The place that ADK means.

        Raises:
            InputValidationError: a file of a session, and no session is named.
        """
        if filename.startswith(_USER):
            return cls(app_name, user_id, None, filename)
        if not session_id or not session_id.strip():
            raise InputValidationError("name the session of this artifact, or begin its name with user:")
        return cls(app_name, user_id, session_id.strip(), filename)

    @property
    def namespace(self) -> tuple[str, ...]:
        """Where the entries about its versions are."""
        return _namespace(self.app, self.user, self.session)

    @property
    def name(self) -> str:
        """The one name of its bytes among all artifacts of the principal."""
        parts = [self.app, self.user, *([self.session] if self.session else []), self.file]
        name = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
        if len(name) <= NAME_LENGTH_MAX:
            return name
        return "sha256:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _namespace(app_name: str, user_id: str, session_id: str | None) -> tuple[str, ...]:
    of_session = ("google-adk", app_name, user_id, "session", session_id or "")
    return of_session if session_id else ("google-adk", app_name, user_id, "user")


class VaultArtifactService(BaseArtifactService):
    """ADK's artifacts of one principal: sealed, versioned from 0, gone with the session that saved them."""

    def __init__(self, access: Access) -> None:
        """Keep artifacts for one principal; ``access`` is from ``vault.access`` and says for whom."""
        self._access, self._origins = access, Origins(access)

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """A new version of a file, the first one is 0. It comes from the session, and goes with it.

        That also holds for a file of the user (``user:``): each of its versions goes with the session that
        saved it. One that is saved outside of any session comes from the state of the user.

        Raises:
            SessionNotFoundError: the session was deleted.
            InputValidationError: no kind of content that is kept; or no session is named.
            InvalidInput: a name is longer than 256 characters, or something is not JSON.
        """
        part = ensure_part(artifact)
        place = Place.checked(app_name, user_id, session_id, filename)
        if artifact_util.is_artifact_ref(part):
            _target(part, place, session_id)
        return await settled(self._saved, place, session_id, part, custom_metadata or {})

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """A version of a file, the newest that is left when none is named; None when there is none.

        Raises:
            Tampered: it was changed, or is missing.
        """
        place = Place.checked(app_name, user_id, session_id, filename)
        part = await settled(self._loaded, place, version)
        for left in range(_REFERENCES_MAX, -1, -1):
            if part is None or not artifact_util.is_artifact_ref(part):
                return part
            if not left:
                break
            target = _target(part, place, session_id)
            place = Place.checked(target.app_name, target.user_id, target.session_id, target.filename)
            part = await settled(self._loaded, place, target.version)
        raise InputValidationError("these references follow each other too often, or in a circle")

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """The names of the files of a session and of its user; of the user's only when no session is named.

        Raises:
            LimitExceeded: there are more than 1,000 of either.
        """
        spaces = [_namespace(app_name, user_id, None)]
        if session_id and session_id.strip():
            spaces.append(_namespace(app_name, user_id, session_id.strip()))
        return await settled(lambda: sorted({key for space in spaces for key in self._keys(space)}))

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Erase all versions of a file for good.

        Raises:
            Conflict: a legal hold or a statutory minimum keeps it.
        """
        await settled(self._deleted, Place.checked(app_name, user_id, session_id, filename))

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """The versions of a file that are there, in order."""
        place = Place.checked(app_name, user_id, session_id, filename)
        return [entry["version"] for entry in await settled(self._entries, place)]

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """What is said about the versions of a file that are there, in order."""
        place = Place.checked(app_name, user_id, session_id, filename)
        return [_version(place, entry) for entry in await settled(self._entries, place)]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """What is said about a version of a file, the newest when none is named; None when there is none."""
        place = Place.checked(app_name, user_id, session_id, filename)
        entry = await settled(self._entry, place, version)
        return None if entry is None else _version(place, entry)

    # What follows runs in worker threads.

    def _saved(self, place: Place, session_id: str | None, part: types.Part, metadata: dict[str, Any]) -> int:
        content, said, media_type = _content(part)
        saving = SessionIds.checked(place.app, place.user, session_id) if session_id else None

        def put(sources: list[Any] | None) -> Artifact:
            return self._access.artifacts.put(
                place.name, content, media_type=media_type or None, sources=sources
            )

        made = self._origins.derive(place.app, place.user, saving, put)
        version = made.version - 1
        entry = {
            "version": version,
            "artifact": made.id,
            "part": said,
            "media_type": media_type,
            "created": made.created_at.timestamp(),
            "metadata": metadata,
        }
        try:
            # Apart from what the session has read: it says nothing but what this artifact is.
            Context().run(
                self._access.memories.put, place.namespace, place.file, entry, sources=[made], kind="cache"
            )
        except NotFound:
            raise SessionNotFoundError("the session of this artifact was deleted meanwhile") from None
        return version

    def _loaded(self, place: Place, version: int | None) -> types.Part | None:
        entry = self._entry(place, version)
        if entry is None:
            return None
        try:
            found = self._access.artifacts.get(place.name, entry["version"] + 1)
            if found.id != entry["artifact"]:
                return None  # erased, and saved anew meanwhile
            with found.open() as stream:
                return _part(entry["part"], stream.read())
        except NotFound:
            return None  # erased meanwhile

    def _entry(self, place: Place, version: int | None) -> dict[str, Any] | None:
        entries = self._entries(place)
        if version is None:
            return entries[-1] if entries else None
        return next((entry for entry in entries if entry["version"] == version), None)

    def _entries(self, place: Place) -> list[dict[str, Any]]:
        """What is said about the versions, in order. To look at names is not to have read the files."""
        found: list[Memory] = Context().run(
            self._access.memories.history, place.namespace, place.file, kind="cache", limit=FILES_MAX
        )
        return sorted((one.value for one in found), key=lambda entry: entry["version"])

    def _keys(self, namespace: tuple[str, ...]) -> list[str]:
        found: list[Memory] = Context().run(
            self._access.memories.list, namespace, kind="cache", limit=FILES_MAX
        )
        if len(found) == FILES_MAX:
            raise LimitExceeded(f"a list holds fewer than {FILES_MAX} file names; ask for files by name")
        return [one.key for one in found]

    def _deleted(self, place: Place) -> None:
        entries = self._entries(place)
        if entries:
            erase_item(self._access, artifact=entries[-1]["artifact"])


def _content(part: types.Part) -> tuple[bytes, dict[str, Any], str | None]:
    """A part as bytes, what else it says, and its media type.

    Raises:
        InputValidationError: it is neither bytes, text, nor a reference.
    """
    said = part.model_dump(mode="json", exclude_none=True)
    if part.inline_data is not None:
        said["inline_data"].pop("data", None)
        return part.inline_data.data or b"", said, part.inline_data.mime_type
    if part.text is not None:
        said["text"] = ""
        return part.text.encode(), said, _TEXT_TYPE
    if part.file_data is not None:
        return b"", said, None if artifact_util.is_artifact_ref(part) else part.file_data.mime_type
    raise InputValidationError("an artifact is bytes, text, or a reference to a file")


def _part(said: dict[str, Any], content: bytes) -> types.Part | None:
    part = modelled(types.Part, said)
    if part.inline_data is not None:
        if (part.inline_data.mime_type, content) == _REMOVED:
            return None
        part.inline_data.data = content
    elif part.text is not None:
        part.text = content.decode()
    return part


def _version(place: Place, entry: dict[str, Any]) -> ArtifactVersion:
    uri = artifact_util.get_artifact_uri(
        app_name=place.app,
        user_id=place.user,
        filename=place.file,
        version=entry["version"],
        session_id=place.session,
    )
    return ArtifactVersion(
        version=entry["version"],
        canonical_uri=uri,
        custom_metadata=entry["metadata"],
        create_time=entry["created"],
        mime_type=entry["media_type"],
    )


def _target(part: types.Part, place: Place, session_id: str | None) -> artifact_util.ParsedArtifactUri:
    """What a reference names, within the same session and user.

    Raises:
        InputValidationError: it names nothing, or something beyond.
    """
    uri = part.file_data.file_uri if part.file_data else None
    target = artifact_util.parse_artifact_uri(uri or "")
    if target is None:
        raise InputValidationError("this reference names no artifact")
    artifact_util.validate_artifact_reference_scope(
        app_name=place.app, user_id=place.user, session_id=session_id, parsed_uri=target
    )
    return target
