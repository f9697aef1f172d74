"""Artifacts of one principal: files of any size under a name, versioned."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from vault.clock import from_us
from vault.derived.item import (
    ABSENT,
    ARTIFACT,
    RULES,
    Artifact,
    OnSourceErased,
    blind_parts,
    check_labels,
    check_limit,
    check_media_type,
    check_rule,
    item_name,
    ttl_us,
)
from vault.derived.opening import Opened, Opener, expires_us, open_stream
from vault.derived.putting import Draft, put
from vault.derived.sources import DERIVED, decode, named
from vault.errors import InvalidInput, NotFound, Tampered
from vault.sessions.readings import noted_item

if TYPE_CHECKING:
    from vault.access.door import Grant, Leave
    from vault.ports.items import ItemRow
    from vault.sessions.log import Log

#: Artifacts of one answer.
ARTIFACTS_MAX: Final = 1_000
#: Above every number of a row.
NUMBERS_END: Final = 2**63 - 1
_PAGE: Final = 200
_LIVE: Final = "live"


class Artifacts:
    """The artifacts of one principal; each is its owner's alone."""

    def __init__(self, log: Log, authorise: Leave) -> None:
        """Made by ``Vault.access``; ``authorise`` gives leave for one action at a time."""
        self._log, self._authorise = log, authorise

    def put(
        self,
        name: str,
        content: bytes | BinaryIO,
        *,
        media_type: str | None = None,
        sources: Iterable[Any] | None = None,
        on_source_erased: OnSourceErased | None = None,
        labels: Mapping[str, str] | None = None,
        reason: str | None = None,
        ttl: timedelta | None = None,
    ) -> Artifact:
        """A new version of an artifact; the one before is superseded.

        Args:
            name: up to 256 characters, unique among the owner's artifacts.
            content: bytes, or a binary file that is read to its end in constant memory, up to 16 GiB.
            media_type: for people and programs that open it; not checked.
            sources, on_source_erased, labels, reason, ttl: as in ``memories.put``.

        Raises:
            As ``memories.put``.
        """
        rule = check_rule(on_source_erased, ARTIFACT, reason)
        about: dict[str, Any] = {"namespace": [], "key": name}
        if check_media_type(media_type) is not None:
            about["media_type"] = media_type
        if reason is not None:
            about["reason"] = reason
        draft = Draft(
            kind=ARTIFACT,
            names=blind_parts((), name),
            stream=_stream(content),
            about=about,
            labels=check_labels(labels),
            rule=rule,
            ttl_us=ttl_us(ttl),
        )
        row, about = put(self._log, self._authorise, draft, named(self._log, sources))
        return self._artifact(row, about)

    def get(self, name: str, version: int | None = None) -> Artifact:
        """An artifact: its newest version, or an older one that is still there.

        Raises:
            NotFound: there is none; it is another owner's, has expired, or was erased: all answer alike.
            Tampered: it was changed, moved or forged.
            InvalidInput: a version is a number from 1.
        """
        if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 1):
            raise InvalidInput("a version is a whole number from 1")
        parts, grant = blind_parts((), name), self._reading()
        blind = grant.tenant.blind("item", ARTIFACT, *parts)
        place = (blind, grant.tenant.tenant_id, grant.owner)
        with self._log.records.snapshot() as reader:
            if version is None:
                row = reader.items.newest(*place)
            else:
                listed = reader.items.versions(*place, before=version + 1, limit=1)
                row = listed[0] if listed and listed[0].version == version else None
            if row is None or (version is None and row.state != _LIVE):
                raise NotFound(ABSENT)
            if row.name != blind:
                raise Tampered("the database answered with another derived item")
            opened = self._opener(grant, reader).opened(row)
        noted_item(self._log, row.item_id)
        return self._artifact(opened.row, opened.about)

    def _reading(self) -> Grant:
        try:
            return self._authorise("read")
        except NotFound:
            raise NotFound(ABSENT) from None

    def _opener(self, grant: Grant, reader: Any) -> Opener:
        return Opener(self._log, grant.tenant, grant.owner, reader)

    def _open(self, item_id: bytes) -> BinaryIO:
        """The bytes of a version, found and verified again: a handle is not a permission."""
        grant = self._reading()
        with self._log.records.snapshot() as reader:
            opened = self._opener(grant, reader).by_id(item_id)
        noted_item(self._log, item_id)
        return open_stream(self._log, opened)

    def _artifact(self, row: ItemRow, about: dict[str, Any]) -> Artifact:
        ends_us = expires_us(row)
        return Artifact(
            id=item_name(row.kind, row.item_id),
            name=about["key"],
            media_type=about.get("media_type"),
            bytes=about["bytes"],
            version=row.version,
            state=row.state,
            created_at=from_us(row.created_us),
            expires_at=None if ends_us is None else from_us(ends_us),
            on_source_erased=RULES[row.hung],
            sources=tuple(one.shown() for one in decode(row.sources) if one.role == DERIVED),
            labels=about["labels"],
            reason=about.get("reason"),
            _opened=lambda: self._open(row.item_id),
        )

    def list(self, *, limit: int = 100) -> list[Artifact]:
        """The owner's artifacts, each in its newest version, the one written last first.

        Raises:
            InvalidInput: a limit out of range.
            Tampered: one of them was changed, moved or forged.
        """
        check_limit(limit, ARTIFACTS_MAX)
        found, before = list[Opened](), NUMBERS_END
        try:
            grant = self._reading()
        except NotFound:
            return []  # a new tenant, or no leave: both look empty
        place = (grant.tenant.blind("space", ARTIFACT), grant.tenant.tenant_id, grant.owner)
        while len(found) < limit:
            with self._log.records.snapshot() as reader:
                listed = reader.items.newest_of_space(*place, before=before, limit=_PAGE)
                opener = self._opener(grant, reader)
                shown = [opener.if_shown(row) for row in listed]
            found += [one for one in shown if one is not None]
            if len(listed) < _PAGE:
                break
            before = listed[-1].no
        for one in found[:limit]:
            noted_item(self._log, one.row.item_id)  # a name can say as much as a file
        return [self._artifact(one.row, one.about) for one in found[:limit]]


class _Bytes(io.RawIOBase):
    """A stream that is refused, in words, when it does not hold bytes."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__()
        self._source = source

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        chunk = self._source.read(size)
        if not isinstance(chunk, bytes):
            raise InvalidInput("an artifact is bytes, or a file opened for bytes (mode rb)")
        return chunk


def _stream(content: bytes | BinaryIO) -> BinaryIO:
    if isinstance(content, bytes):
        return io.BytesIO(content)
    if not hasattr(content, "read"):
        raise InvalidInput("an artifact is bytes, or a file opened for bytes (mode rb)")
    return cast("BinaryIO", _Bytes(content))
