"""What this process, or the ledger, last saw of each session: a read must extend it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from vault.errors import RolledBack, Tampered
from vault.sealing import rows
from vault.sealing.notes import Head
from vault.sealing.renewal import renewal_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vault.ports.records import SessionRow


def head_of(row: SessionRow) -> Head:
    """The head that a session row states."""
    whose = rows.whose(row.session_id, row.tenant_id, row.owner, row.external)
    return Head(row.session_id, row.version, row.head_seq, row.head_chain, whose)


class Witness:
    """The newest heads seen. About 250 bytes a session: 25 MB for 100,000 sessions in the ledger."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._seen: dict[bytes, Head] = {}
        self._lock = threading.Lock()

    def expected(self, session_id: bytes) -> Head | None:
        """What a snapshot taken from now on must extend."""
        return self._seen.get(session_id)

    def saw(self, heads: Iterable[Head]) -> None:
        """Remember heads; an older one never replaces a newer one."""
        with self._lock:
            for head in heads:
                known = self._seen.get(head.session_id)
                if known is None or head.version > known.version:
                    self._seen[head.session_id] = head

    def check(self, expected: Head | None, row: SessionRow, chain_at: Callable[[int], bytes | None]) -> None:
        """Refuse a head that does not extend what was expected before the snapshot was taken.

        It is not remembered here: inside a write transaction it may never be committed.

        Args:
            expected: from ``expected``, before the snapshot began.
            row: the stored session row, its MAC verified.
            chain_at: the stored chain value at a place of the log.

        Raises:
            RolledBack: the head is older.
            Tampered: the history before it is another one.
        """
        head = head_of(row)
        if expected is not None and head != expected:
            if head.version <= expected.version or head.seq < expected.seq:
                raise RolledBack(
                    "a session is older than it was when last seen: its newest events were removed"
                )
            if expected.version < renewal_of(row.renewed).version:
                return  # seen before it was sealed anew: nothing of it has the chain value that it had
            known = expected.seq > row.base_seq  # else it was seen before its own first event
            before = head.chain if head.seq == expected.seq else chain_at(expected.seq) if known else None
            if (before is not None and before != expected.chain) or (before is None and known):
                raise Tampered("a session's history is not the one that was seen before")
