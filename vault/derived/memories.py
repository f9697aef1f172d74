"""Memories, summaries, embeddings and caches of one principal: JSON values under a namespace and a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from vault.clock import from_us
from vault.derived.item import (
    ABSENT,
    RULES,
    Memory,
    OnSourceErased,
    blind_parts,
    check_kind,
    check_labels,
    check_limit,
    check_namespace,
    check_rule,
    check_value,
    item_name,
    ttl_us,
)
from vault.derived.matching import Filter
from vault.derived.opening import Opener, expires_us, open_body
from vault.derived.putting import Draft, put
from vault.derived.sources import DERIVED, decode, named
from vault.encoding import json_value
from vault.errors import NotFound, Tampered
from vault.sessions.readings import noted_item

if TYPE_CHECKING:
    from vault.access.door import Grant, Leave
    from vault.derived.index import Entry, Index
    from vault.derived.opening import Opened
    from vault.ports.items import ItemRow
    from vault.sessions.log import Log

#: Memories of one answer.
MEMORIES_MAX: Final = 1_000
_LIVE: Final = "live"


class Memories:
    """The memories of one principal; each is its owner's alone."""

    def __init__(self, log: Log, authorise: Leave, index: Index) -> None:
        """Made by ``Vault.access``; ``authorise`` gives leave for one action at a time."""
        self._log, self._authorise, self._index = log, authorise, index

    def put(
        self,
        namespace: Sequence[str],
        key: str,
        value: Any,
        *,
        sources: Iterable[Any] | None = None,
        on_source_erased: OnSourceErased | None = None,
        labels: Mapping[str, str] | None = None,
        kind: str = "memory",
        reason: str | None = None,
        ttl: timedelta | None = None,
    ) -> Memory:
        """A new version under a namespace and a key; the one before is superseded.

        Args:
            namespace: up to 8 names, for example ``("users", "alice")``.
            key: up to 256 characters.
            value: JSON, up to 1 MiB.
            sources: the sessions, events, memories and artifacts it was made from, or their ids, up to 256.
                Left out within a run: all that the run has read through the vault.
            on_source_erased: when a source goes: ``erase_with_any``, ``recompute`` (unreadable at once, until
                it is made anew), ``erase_with_last``, or, for a cache with nothing of its sources in it,
                ``detach``. Left out: what their policy says of this kind, else ``erase_with_any``.
            labels: up to 32 names and values; retention policies go by them.
            kind: ``memory``, ``summary``, ``embedding`` or ``cache``.
            reason: why sources do not count that the run has read; needed to detach. Kept sealed.
            ttl: hides and erases it earlier than the policy would.

        Raises:
            InvalidInput: it cannot be stored as given; it has no source; or a policy asks for more care.
            LimitExceeded: it is too large, or has too many sources.
            NotFound: a source is not there for this principal, or is being erased.
        """
        rule = check_rule(on_source_erased, check_kind(kind), reason)
        spaces = check_namespace(namespace)
        about: dict[str, Any] = {"namespace": list(spaces), "key": key}
        if reason is not None:
            about["reason"] = reason
        draft = Draft(
            kind=kind,
            names=blind_parts(spaces, key),
            body=check_value(value),
            about=about,
            labels=check_labels(labels),
            rule=rule,
            ttl_us=ttl_us(ttl),
        )
        row, about = put(self._log, self._authorise, draft, named(self._log, sources))
        return _memory(row, about, value)

    def get(self, namespace: Sequence[str], key: str, *, kind: str = "memory") -> Memory:
        """The newest version under a namespace and a key.

        Raises:
            NotFound: there is none; it is another owner's, has expired, or was erased: all answer alike.
            Tampered: it was changed, moved or forged.
        """
        grant, name = self._name(namespace, key, kind)
        with self._log.records.snapshot() as reader:
            row = reader.items.newest(name, grant.tenant.tenant_id, grant.owner)
            if row is None or row.state != _LIVE:
                raise NotFound(ABSENT)
            opened = self._opener(grant, reader).opened(_of_name(row, name))
        return self._read(opened)

    def history(
        self, namespace: Sequence[str], key: str, *, kind: str = "memory", limit: int = 100
    ) -> list[Memory]:
        """The versions under a namespace and a key, newest first, without those that are gone.

        Raises:
            As ``get``, but for an empty list where there is nothing.
        """
        check_limit(limit, MEMORIES_MAX)
        found, before = list[Memory](), 2**62
        try:
            grant, name = self._name(namespace, key, kind)
        except NotFound:
            return found  # a new tenant, or no leave: both look empty
        while len(found) < limit:
            with self._log.records.snapshot() as reader:
                place = (name, grant.tenant.tenant_id, grant.owner)
                listed = reader.items.versions(*place, before=before, limit=limit)
                opener = self._opener(grant, reader)
                opened = [opener.if_shown(_of_name(row, name)) for row in listed]
            found += [self._read(one) for one in opened if one is not None]
            if len(listed) < limit:
                break
            before = listed[-1].version
        return found[:limit]

    def search(
        self,
        namespace_prefix: Sequence[str] = (),
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the word of every store of memories
        text: str | None = None,
        kind: str = "memory",
        limit: int = 20,
    ) -> list[Memory]:
        """The live memories below a namespace that match, newest first.

        Everything below the prefix is opened and compared in memory: the database holds nothing to search.

        Args:
            namespace_prefix: where; the empty one for all of the owner's.
            filter: fields of the value and what they are; or ``{"$gt": …}`` and ``$gte``, ``$lt``, ``$lte``,
                ``$ne``, ``$in``.
            text: part of the key, or of any text in the value; case does not count.
            kind: as in ``put``.
            limit: at most so many, up to 1,000.

        Raises:
            InvalidInput: a filter is malformed.
            LimitExceeded: more than 10,000 memories are below the prefix.
            Tampered: one of them was changed, moved or forged.
        """
        wanted = Filter(filter, text)
        entries = self._entries(namespace_prefix, kind, limit)
        entries.sort(key=lambda entry: entry.item_id, reverse=True)
        return self._shown(entries, limit, wanted)

    def _entries(self, prefix: Sequence[str], kind: str, limit: int) -> list[Entry]:
        check_limit(limit, MEMORIES_MAX)
        checked = check_namespace(prefix), check_kind(kind)
        try:
            grant = self._authorise("read")
        except NotFound:
            return []  # a new tenant, or no leave: both look empty
        return self._index.entries(self._log, grant, checked[1], checked[0])

    def _shown(self, entries: list[Entry], limit: int, wanted: Filter) -> list[Memory]:
        """The first of the entries that match, each opened anew."""
        found: list[Memory] = []
        if not entries:
            return found
        grant = self._authorise("read")
        for entry in entries:
            if entry.body is not None and not wanted.matches(entry.key, json_value(entry.body)):
                continue
            try:
                with self._log.records.snapshot() as reader:
                    opened = self._opener(grant, reader).by_id(entry.item_id)
                value = json_value(open_body(self._log, opened))
            except NotFound:
                continue  # gone since it was indexed
            if opened.row.state == _LIVE and wanted.matches(entry.key, value):
                found.append(self._read(opened, value))
                if len(found) == limit:
                    break
        return found

    def _name(self, namespace: Sequence[str], key: str, kind: str) -> tuple[Grant, bytes]:
        parts = blind_parts(check_namespace(namespace), key)
        kind = check_kind(kind)
        try:
            grant = self._authorise("read")
        except NotFound:
            raise NotFound(ABSENT) from None
        return grant, grant.tenant.blind("item", kind, *parts)

    def _opener(self, grant: Grant, reader: Any) -> Opener:
        return Opener(self._log, grant.tenant, grant.owner, reader)

    def _read(self, opened: Opened, value: Any = None) -> Memory:
        if value is None:
            value = json_value(open_body(self._log, opened))
        noted_item(self._log, opened.row.item_id)
        return _memory(opened.row, opened.about, value)

    def list(
        self, namespace_prefix: Sequence[str] = (), *, kind: str = "memory", limit: int = 100
    ) -> list[Memory]:
        """The live memories below a namespace, by namespace and key.

        Raises:
            As ``search``.
        """
        entries = self._entries(namespace_prefix, kind, limit)
        entries.sort(key=lambda entry: (entry.namespace, entry.key))
        return self._shown(entries, limit, Filter(None, None))


def _of_name(row: ItemRow, name: bytes) -> ItemRow:
    if row.name != name:
        raise Tampered("the database answered with another derived item")
    return row


def _memory(row: ItemRow, about: dict[str, Any], value: Any) -> Memory:
    ends_us = expires_us(row)
    return Memory(
        id=item_name(row.kind, row.item_id),
        kind=row.kind,
        namespace=tuple(about["namespace"]),
        key=about["key"],
        value=value,
        version=row.version,
        state=row.state,
        created_at=from_us(row.created_us),
        expires_at=None if ends_us is None else from_us(ends_us),
        on_source_erased=RULES[row.hung],
        sources=tuple(one.shown() for one in decode(row.sources) if one.role == DERIVED),
        labels=about["labels"],
        reason=about.get("reason"),
    )
