"""Sessions of a backup that nobody can open with the keys given: they were re-encrypted since it was made.

Their keys of then are gone by right, and those of now open other rows. So they are left out of what is
restored, with what was made from them, if whoever restores accepts that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vault.errors import KeyUnavailable
from vault.ports.records import SessionRow, is_sound

if TYPE_CHECKING:
    from vault.ports.keys import KeyStore
    from vault.ports.records import Records, Transaction

_ALL: Final = 2**31 - 1
#: How items hang that do not outlive one of their sources.
_WITH_ANY: Final = frozenset({"any", "recompute"})


def leave_out_replaced(records: Records, store: KeyStore, *, accepted: bool) -> None:
    """Delete the rows of sessions that have keys, and not those that their rows were sealed under.

    What went with any of them goes too; their files are named by nothing then.

    Raises:
        KeyUnavailable: there are some, and that is not accepted; nothing was deleted.
    """
    sessions = _replaced(records, store)
    if sessions and not accepted:
        raise KeyUnavailable(
            f"{len(sessions)} of the backup's sessions were re-encrypted since it was made: give the keys of "
            "then with --keys, or accept the damage to leave them out"
        )

    def work(transaction: Transaction) -> None:
        for row in sessions:
            _items(transaction, row.session_id, row.tenant_id)
            transaction.change("fence_session", session_id=row.session_id, tenant_id=row.tenant_id)
            transaction.change("delete_touches", session_no=row.no, limit=_ALL)
            transaction.change("delete_events", session_no=row.no, limit=_ALL)
            transaction.change("delete_blobs", session_no=row.no)
            transaction.change("delete_lineage_from", source=row.session_id)
            transaction.change("delete_runs", session_no=row.no)
            transaction.change("delete_session", no=row.no)

    if sessions:
        records.transact(work)


def _replaced(records: Records, store: KeyStore) -> list[SessionRow]:
    with records.snapshot() as reader:
        stored = [SessionRow._make(row) for row in reader.scan("all_sessions")]
    return [
        row
        for row in stored
        if is_sound(row)
        and store.get("epoch", row.session_id, row.epoch, row.owner) is None
        and store.owns("epoch", row.session_id, row.owner)
    ]


def _items(transaction: Transaction, source: bytes, tenant_id: bytes) -> None:
    waiting = [source]
    while waiting:
        here = waiting.pop()
        for (item_id,) in list(transaction.scan("items_from", source=here, tenant_id=tenant_id)):
            place = {"item_id": item_id, "tenant_id": tenant_id}
            facts = next(transaction.scan("item_facts", **place), None)
            if facts is None or facts[3] not in _WITH_ANY:
                continue
            (number, *_) = next(transaction.scan("item_file", **place))
            waiting.append(item_id)
            transaction.change("fence_item", **place)
            transaction.change("delete_lineage_of", item_no=number)
            transaction.change("delete_item", no=number)
        transaction.change("delete_lineage_from", source=here)
