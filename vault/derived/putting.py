"""Writing a derived item: sources looked up, a key that hangs on theirs, then all rows in one transaction."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from vault.derived import options
from vault.derived.item import ABSENT_SOURCE, ARTIFACT
from vault.derived.opening import READABLE, Opener, is_shown
from vault.derived.sources import Named, Source, encode, refuse_fewer
from vault.derived.stale import over
from vault.encoding import canonical_json
from vault.errors import Erased, InvalidInput, LimitExceeded, NotFound, Tampered
from vault.model import STREAM_BYTES_MAX, format_id, uuid7
from vault.policy.durations import HOUR_US, Duration, nominal_us
from vault.policy.epochs import key_number
from vault.policy.retention import Times, due_us
from vault.policy.terms import decode as decode_terms
from vault.policy.terms import encode as encode_terms
from vault.ports.items import ItemRow
from vault.sealing import item_rows, rows
from vault.sealing.item_rows import LIVE, STALE, SUPERSEDED
from vault.sealing.payload import seal, seal_stream
from vault.sessions.log import JSON, STREAM, verified_session
from vault.sessions.place import locate
from vault.sessions.prepare import INLINE_BYTES_MAX
from vault.sessions.read import verified_view
from vault.sessions.readings import current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vault.access.door import Grant, Leave
    from vault.ports.records import Transaction
    from vault.sealing.uses import EpochKeys
    from vault.sessions.log import Log

#: How often something can be derived from what was derived: each step is a key to open before the item's.
LINEAGE_DEPTH_MAX: Final = 10_000
_FULL: Final = "L3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An item as it is to be written, checked: a JSON ``body``, or a ``stream``."""

    kind: str
    names: tuple[str, ...] = field(repr=False)  # namespace, then key: what its blind index is made of
    body: bytes = field(default=b"", repr=False)
    stream: BinaryIO | None = field(default=None, repr=False)
    about: dict[str, Any] = field(repr=False)
    labels: dict[str, str] = field(repr=False)
    rule: str | None  # what happens when a source goes; None: by the policy
    ttl_us: int | None = None


class _Chosen(NamedTuple):
    """A source that was looked up: by whose leave, what hangs on it, how deep it is itself derived."""

    source: Source
    grant: Grant
    wrapping: bytes
    voice: options.Voice
    item: EpochKeys | None = None
    depth: int = 0


def put(log: Log, leave: Leave, draft: Draft, named: Sequence[Named]) -> tuple[ItemRow, dict[str, Any]]:
    """Write a new version of an item; the one before is superseded, in the same transaction.

    Returns:
        The row, and what is sealed beside its body.

    Raises:
        NotFound: a source is not there for this caller, or is being erased.
        InvalidInput: a source is seen only as a view; or the run has read more, and nobody says why that
            does not count; or the policy asks for a more careful rule.
        LimitExceeded: it is derived from what was derived too often; or a stream is too long.
        StorageUnavailable: nothing was written.
    """
    grant = leave("create")
    try:
        chosen = _looked_up(log, leave, grant, named)
    except (NotFound, Erased):
        raise NotFound(ABSENT_SOURCE) from None
    refuse_fewer(log, [one.source for one in chosen], draft.about.get("reason"))
    depth = 1 + max(one.depth for one in chosen)
    if depth > LINEAGE_DEPTH_MAX:
        raise LimitExceeded(
            f"this would be derived from derived items {LINEAGE_DEPTH_MAX} deep; name sources nearer to the "
            "log, and say why the others do not count (reason)"
        )
    item_id = uuid7()
    rule = _hung(draft, chosen)
    hung = "any" if rule == "recompute" else rule
    wrappings = [] if hung == "free" else [one.wrapping for one in chosen]
    # Durable before anything is sealed under it.
    keys = log.keys.create_item(grant.tenant, grant.owner, item_id, hung, wrappings)
    body, about = _body(log, keys, draft)
    about |= {**draft.about, "depth": depth, "labels": draft.labels}
    about |= options.kept(one.voice for one in chosen)
    row = _row(log, grant, draft, item_id, rule)
    row = row._replace(**body, sources=encode(one.source for one in chosen))
    sealed = seal(keys.payload, keys.context(b"about"), canonical_json(about), log.sealing)
    row = row._replace(about=sealed)
    try:
        stored = log.records.transact(lambda transaction: _store(log, grant, keys, row, chosen, transaction))
    except NotFound:
        raise NotFound(ABSENT_SOURCE) from None
    return stored, about


def _hung(draft: Draft, chosen: Sequence[_Chosen]) -> str:
    reason = draft.about.get("reason")
    return options.hung_by(draft.rule, draft.kind, reason, (one.voice for one in chosen))


def _looked_up(log: Log, leave: Leave, grant: Grant, named: Sequence[Named]) -> list[_Chosen]:
    """The sources, each by this principal's own leave to read all of it."""
    leaves = {one.id: _full(leave, one.id) for one in named if one.kind in {"session", "event"} and one.id}
    if any(one.kind == "event" and not one.id for one in named):
        readings = current(log)
        read = {} if readings is None else readings.known
        more = [id_ for id_, what in read.items() if what == "session" and id_ not in leaves]
        leaves |= {id_: _full(leave, id_) for id_ in more}
    chosen: dict[Source, _Chosen] = {}
    for one in named:
        if one.kind == "session":
            found = _session(log, leaves[one.id], one.id)
        elif one.kind == "event":
            within = {one.id: leaves[one.id]} if one.id else leaves
            found = _event(log, within, one)
        else:
            with log.records.snapshot() as reader:
                opened = Opener(log, grant.tenant, grant.owner, reader).by_id(one.id)
            source = Source("artifact" if opened.row.kind == ARTIFACT else "memory", one.id, 0)
            if one.kind not in {"item", source.kind}:
                raise NotFound(ABSENT_SOURCE)
            depth = opened.about["depth"]
            voice = options.of_item(opened)
            found = _Chosen(source, grant, opened.keys.wrapping, voice, opened.keys, depth)
        chosen[found.source] = found
    return list(chosen.values())


def _full(leave: Leave, session_id: bytes) -> Grant:
    return _checked(leave.session("read", session_id))


def _checked(grant: Grant) -> Grant:
    if not grant.own and grant.level != _FULL:
        raise InvalidInput(
            "a source is shown to this caller only as a view; have it shared at L3, or leave it out"
        )
    return grant


def _session(log: Log, grant: Grant, session_id: bytes) -> _Chosen:
    with verified_view(log, grant, session_id) as found:
        voice = options.of_session(found.row.retention)
    keys = found.keys
    return _Chosen(Source("session", session_id, 0), grant, keys.wrapping, voice)


def _event(log: Log, leaves: dict[bytes, Grant], named: Named) -> _Chosen:
    """An event in one of these sessions, at the session that holds it."""
    if not leaves:
        raise InvalidInput(
            "an event's id alone does not say its session: give the event itself, or its session too"
        )
    for session_id, grant in leaves.items():
        try:
            with verified_view(log, grant, session_id) as found:
                holder, row = locate(found, format_id("evt", named.event))
        except NotFound:
            continue
        holder_id, whose = holder.row.session_id, _checked(grant.of(holder.row.session_id))
        keys = holder.keys.of_epoch(row.epoch)
        voice = options.of_session(holder.row.retention)
        return _Chosen(Source("event", holder_id, row.epoch, row.event_id), whose, keys.wrapping, voice)
    raise NotFound(ABSENT_SOURCE)


def _row(log: Log, grant: Grant, draft: Draft, item_id: bytes, hung: str) -> ItemRow:
    """The row of a new item without what is sealed, its sources, version and MAC."""
    now_us = log.clock.now_us()
    retention = _retention(log, grant, draft)
    due = due_us(decode_terms(retention), Times(now_us, now_us)) if retention else 0
    blind = grant.tenant.blind
    return ItemRow(
        no=0,
        item_id=item_id,
        tenant_id=grant.tenant.tenant_id,
        owner=grant.owner,
        kind=draft.kind,
        name=blind("item", draft.kind, *draft.names),
        space=blind("space", draft.kind, *draft.names[:-1]),
        version=0,
        state=LIVE,
        hung=hung,
        sources=b"",
        created_us=now_us,
        changed_us=now_us,
        retention=retention,
        due_hour=due // HOUR_US,
        content=JSON,
        about=b"",
        body=None,
        address=b"",
        size=0,
        mac=b"",
    )


def _body(log: Log, keys: EpochKeys, draft: Draft) -> tuple[dict[str, Any], dict[str, Any]]:
    """Seal the body, durable when it stands in the blob area: the row's fields of it, and its plain size."""
    context = keys.context(b"payload")
    if draft.stream is None:
        sealed = seal(keys.payload, context, draft.body, log.sealing)
        address = hashlib.sha256(sealed).digest()
        fields: dict[str, Any] = {"content": JSON, "address": address, "size": len(sealed)}
        if len(sealed) <= INLINE_BYTES_MAX:
            return {**fields, "body": sealed}, {}
        with log.blobs.upload() as upload:
            upload.file.write(sealed)
            upload.keep(address)
        return fields, {}
    with log.blobs.upload() as upload:
        made = seal_stream(
            keys.payload,
            context,
            draft.stream,
            upload.file,
            content_key=keys.content,
            limit=STREAM_BYTES_MAX,
            how=log.sealing,
        )
        fields = {"content": STREAM, "address": made.address, "size": made.size}
        if made.size > INLINE_BYTES_MAX:
            upload.keep(made.address)
        else:
            upload.file.seek(0)
            fields["body"] = upload.file.read()
        return fields, {"bytes": made.plain_size}


def _retention(log: Log, grant: Grant, draft: Draft) -> bytes:
    """The terms of the tenant's policy, with an expiry that the writer may only shorten."""
    stored = log.retention(grant, draft.kind, draft.labels)
    if draft.ttl_us is None:
        return stored
    terms = decode_terms(stored)
    period = None
    if terms.expire_months or terms.expire_us:
        period = Duration(months=terms.expire_months, us=terms.expire_us)
    if nominal_us(Duration(us=draft.ttl_us)) >= nominal_us(period):
        return stored
    return encode_terms(terms._replace(anchor=0, expire_months=0, expire_us=draft.ttl_us))


def _store(
    log: Log, grant: Grant, keys: EpochKeys, row: ItemRow, chosen: list[_Chosen], transaction: Transaction
) -> ItemRow:
    """Insert the row if its sources are still there; nobody can fence them while this holds the lock."""
    for one in chosen:
        if one.item is None:
            session = verified_session(log, one.grant, transaction, one.source.id)
            number = key_number(session.epoch, one.source.epoch)
            if one.source.epoch and not log.keys.has_epoch(session.owner, one.source.id, number):
                raise NotFound(ABSENT_SOURCE)  # whoever destroys it looks for what came from it after this
        else:
            _check_item(log, grant, one.item, one.source.id, transaction)
    before = transaction.items.newest(row.name, row.tenant_id, row.owner)
    row = row._replace(version=1)
    if before is not None:
        row = row._replace(version=before.version + 1)
        _supersede(log, grant, before, row, transaction)
    row = row._replace(mac=item_rows.item_mac(keys.mac, row))
    sources = dict.fromkeys(one.source.id for one in chosen)
    return row._replace(no=transaction.items.add(row, sources))


def _check_item(log: Log, grant: Grant, keys: EpochKeys, item_id: bytes, transaction: Transaction) -> None:
    row = transaction.items.by_id(item_id, grant.tenant.tenant_id, grant.owner)
    if row is None or row.state not in READABLE or not is_shown(row, log.clock.now_us()):
        raise NotFound(ABSENT_SOURCE)
    rows.check(item_rows.item_mac(keys.mac, row), row.mac, "a derived item's row")


def _supersede(log: Log, grant: Grant, before: ItemRow, row: ItemRow, transaction: Transaction) -> None:
    """Mark the version before, or what asked for this one; one that is being erased stays as it is."""
    if before.name != row.name or before.owner != row.owner:
        raise Tampered("the database answered with another derived item")
    if before.state not in {LIVE, STALE}:
        return
    keys = Opener(log, grant.tenant, grant.owner, transaction).keys_of(before)
    if keys is None:
        return  # its key went with a source, and its row is about to
    after = before._replace(state=SUPERSEDED, changed_us=row.created_us)
    after = after._replace(mac=item_rows.item_mac(keys.mac, after))
    if before.state == STALE:
        after = over(before, keys)
    if not transaction.items.move(after, before):
        raise Tampered("the database does not take a new version: its rules were changed")
