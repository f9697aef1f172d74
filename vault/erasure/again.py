"""Asking again for what an erasure takes, and which can be made anew from the sources that stay.

The item's own key hangs on a source that goes, so what names the item is sealed anew before it is fenced:
under a key that hangs on the sources that stay. The request is stored in the transaction that fences the
item, fenced as well; once the erasure's keys are condemned it is given to its owner, or put aside where a
hold kept the item at the last moment. Both are decided once, whatever happens to a process.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vault.derived.opening import READABLE, Opener, expires_us
from vault.derived.options import SAID
from vault.derived.sources import DERIVED, SOURCES_MAX, decode, encode
from vault.derived.stale import ASKED_US, over
from vault.encoding import canonical_json, pack
from vault.erasure.fence import stored_session
from vault.erasure.operations import GOING, under_way
from vault.errors import Conflict, Erased, KeyUnavailable, NewerVault, NotFound, Tampered
from vault.policy.durations import HOUR_US
from vault.policy.epochs import key_number
from vault.policy.retention import Times, due_us
from vault.policy.terms import Terms
from vault.policy.terms import encode as encode_terms
from vault.ports.items import ItemRow
from vault.sealing import item_rows
from vault.sealing.item_rows import LIVE, STALE
from vault.sealing.payload import seal
from vault.sessions.log import JSON

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from vault.derived.opening import Opened
    from vault.derived.sources import Source
    from vault.erasure.operations import Operation, Order
    from vault.policy.plan import Item
    from vault.ports.records import Reader, Transaction
    from vault.sealing.uses import EpochKeys, TenantKeys
    from vault.sessions.log import Log

#: Requests that are prepared at a time: each waits for a durable key, and those that wait share a commit.
_AT_ONCE: Final = 8
RECOMPUTE: Final = "recompute"
#: In what an erasure says about itself: the events' epochs that go too, each with its session.
EPOCHS: Final = "epochs"
_FENCED: Final = "erasing"
_ITEMS: Final = frozenset({"memory", "artifact"})
#: What of an item is kept in the request for it.
_NAMING: Final = ("namespace", "key", "labels", "media_type", "depth", SAID)
#: What keeps one item from being asked for again. Nothing keeps the erasure.
_LEFT_OUT: Final = (Conflict, Erased, KeyUnavailable, NewerVault, NotFound, Tampered)


class Request(NamedTuple):
    """A request as it is to be stored, and the row of what it asks for."""

    row: ItemRow
    of: ItemRow

    def __repr__(self) -> str:
        """Nothing that a user supplied."""
        return f"Request({self.row.kind})"


def request_id(operation_id: bytes, item_id: bytes) -> bytes:
    """The id of the request that an erasure makes for an item: always the same one."""
    digest = hashlib.sha256(pack(b"session-vault/1/again", operation_id, item_id)).digest()
    # In the form of a UUIDv7, with the time of the erasure.
    return (
        operation_id[:6] + bytes([0x70 | digest[0] & 0x0F, digest[1], 0x80 | digest[2] & 0x3F]) + digest[3:10]
    )


def prepared(
    log: Log, tenant: TenantKeys, operation_id: bytes, order: Order, batch: Sequence[Item]
) -> list[Request]:
    """Requests for what can be made again of a part of an erasure, their keys durable; none is stored yet.

    Args:
        log: the parts.
        tenant: whose.
        operation_id: of the erasure.
        order: all of the erasure.
        batch: some of its items; of what is fenced already no request is made.
    """
    asked = [item for item in batch if item.action == RECOMPUTE]
    if not asked:
        return []
    met: dict[bytes, str] = {item.id: item.action for item in order.items}
    gone = frozenset((bytes.fromhex(id_), epoch) for id_, epoch in order.about.get(EPOCHS, ()))

    def request(item: Item) -> Request | None:
        try:
            with log.records.snapshot() as reader:
                opener = Opener(log, tenant, item.owner, reader)
                opened = opener.by_id(item.id)
                stays = _stays(reader, opened.row, met, gone)
                if opened.row.state != LIVE or not 0 < len(stays) <= SOURCES_MAX:
                    return None
                wrappings = [_wrapping(log, tenant, opener, reader, opened.row, one) for one in stays]
            id_ = request_id(operation_id, item.id)
            keys = _keys(log, tenant, item.owner, id_, wrappings)
        except _LEFT_OUT:
            return None
        return Request(_row(log, opened, keys, id_, stays), opened.row)

    with ThreadPoolExecutor(min(_AT_ONCE, len(asked)), thread_name_prefix="vault-again") as pool:
        return [found for found in pool.map(request, asked) if found is not None]


def add(transaction: Transaction, tenant: TenantKeys, requests: Sequence[Request]) -> None:
    """Store requests, fenced, where what they ask for and hang on is still as it was."""
    for row, of in requests:
        newest = transaction.items.newest(row.name, tenant.tenant_id, row.owner)
        sources = decode(row.sources)
        if newest == of and all(_is_there(transaction, row, one) for one in sources):
            transaction.items.add(row._replace(state=_FENCED), dict.fromkeys(one.id for one in sources))


def settle(
    log: Log, operation: Operation, batch: Sequence[Item], held: Collection[bytes], transaction: Transaction
) -> None:
    """Give requests of an erasure to their owners; its keys are condemned. Doing it twice is harmless.

    Args:
        log: the parts.
        operation: the erasure.
        batch: some of its items.
        held: what a hold kept at the last moment: it is not to be made again.
        transaction: in which.
    """
    tenant = operation.tenant
    asked = [item for item in batch if item.action == RECOMPUTE]
    taken = under_way(log, transaction) if asked else set()
    for item in asked:
        id_ = request_id(operation.id, item.id)
        row = transaction.items.by_id(id_, tenant.tenant_id, item.owner)
        if row is None or row.state != _FENCED or id_ in taken:
            continue  # there was none, or another erasure takes it
        newest = transaction.items.newest(row.name, tenant.tenant_id, item.owner)
        after = row._replace(state=STALE)
        if item.id in held or newest is None or newest.item_id != id_:  # held, or made again already
            keys = Opener(log, tenant, item.owner, transaction).keys_of(after)
            after = after if keys is None else over(after, keys)
        if not transaction.items.move(after, row):
            raise Tampered("the database does not take a derived item's new state: its rules were changed")


def _keys(log: Log, tenant: TenantKeys, owner: bytes, id_: bytes, wrappings: Sequence[bytes]) -> EpochKeys:
    """The keys of a request: fresh ones, or those that were made before a crash."""
    try:
        return log.keys.create_item(tenant, owner, id_, "any", wrappings)
    except Conflict:
        return log.keys.item(tenant, owner, id_, "any", wrappings)


def _stays(
    reader: Reader, row: ItemRow, met: Mapping[bytes, str], gone: Collection[tuple[bytes, int]]
) -> list[Source]:
    """The sources of an item that stay; for one that is itself made again, those of that one."""
    found: dict[Source, None] = {}
    waiting, passed = [row], {row.item_id}
    while waiting:
        for source in decode(waiting.pop().sources):
            if source.kind == "event" and (source.id, source.epoch) in gone:
                continue
            action = met.get(source.id)
            if source.role == DERIVED and action not in GOING | {"held", "minimum"}:
                found[source] = None
            elif action == RECOMPUTE and source.id not in passed:
                passed.add(source.id)
                before = reader.items.by_id(source.id, row.tenant_id, row.owner)
                waiting += [] if before is None else [before]
    return list(found)


def _is_there(reader: Reader, row: ItemRow, source: Source) -> bool:
    if source.kind in _ITEMS:
        before = reader.items.by_id(source.id, row.tenant_id, row.owner)
        return before is not None and before.state in READABLE
    owner = reader.owner_of(source.id, row.tenant_id)
    session = None if owner is None else reader.session(source.id, row.tenant_id, owner)
    return session is not None and session.state != _FENCED


def _wrapping(
    log: Log, tenant: TenantKeys, opener: Opener, reader: Reader, row: ItemRow, source: Source
) -> bytes:
    """What a request hangs on at a source that stays.

    Raises:
        NotFound: it does not; Erased, KeyUnavailable: its key is gone.
    """
    if not _is_there(reader, row, source):
        raise NotFound("there is no such source")
    if source.kind in _ITEMS:
        return opener.by_id(source.id).keys.wrapping
    session = stored_session(reader, tenant, source.id)
    if session is None:
        raise NotFound("there is no such source")
    number = key_number(session.epoch, source.epoch)
    return log.keys.epoch(tenant, session.owner, source.id, number).wrapping


def _row(log: Log, opened: Opened, keys: EpochKeys, id_: bytes, stays: Sequence[Source]) -> ItemRow:
    now_us, ends_us = log.clock.now_us(), expires_us(opened.row)
    terms = Terms(expire_us=ASKED_US if ends_us is None else max(min(ASKED_US, ends_us - now_us), 1))
    about: dict[str, Any] = {name: opened.about[name] for name in _NAMING if name in opened.about}
    body = seal(keys.payload, keys.context(b"payload"), b"null", log.sealing)
    row = opened.row._replace(
        no=0,
        item_id=id_,
        version=opened.row.version + 1,
        state=STALE,
        hung="any",
        sources=encode(stays),
        created_us=now_us,
        changed_us=now_us,
        retention=encode_terms(terms),
        due_hour=due_us(terms, Times(now_us, now_us)) // HOUR_US,
        content=JSON,
        about=seal(keys.payload, keys.context(b"about"), canonical_json(about), log.sealing),
        body=body,
        address=hashlib.sha256(body).digest(),
        size=len(body),
    )
    return row._replace(mac=item_rows.item_mac(keys.mac, row))
