"""Events found by what they are about (an effect's kind and key, a resource), and proved to be all there are.

Such an event carries the blind index of it under its MAC. The session's own row, whose newest state is known,
counts these events in 64 buckets by the index's first bits. A lookup reads its whole bucket and compares, so
an event that was removed is missed. It costs a 64th of the session's effects and observed resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vault.errors import Tampered
from vault.sessions.log import check_event, decode_tails

if TYPE_CHECKING:
    from vault.ports.records import EventRow, Reader, SessionRow
    from vault.sealing.uses import EpochKeys

_LAST: int = 63


def bucket_of(ref: bytes) -> str:
    """The name of a blind index's bucket: its first six bits."""
    return format(ref[0] >> 2, "02x")


def events_about(reader: Reader, keys: EpochKeys, row: SessionRow, ref: bytes) -> list[EventRow]:
    """The rows of a session's own events about one thing, in the log's order.

    Raises:
        Tampered: one of them, or one of the same bucket, was changed, moved, removed or forged.
    """
    number = ref[0] >> 2
    high = bytes([number + 1 << 2]) if number < _LAST else b"\xff" * (len(ref) + 1)
    stored = reader.events_about(row.no, bytes([number << 2]), high)
    if len(stored) != decode_tails(row.tails).refs.get(bucket_of(ref), 0):
        raise Tampered("an event about an effect or a resource was removed from the log, or forged")
    for event in stored:
        check_event(keys, row.session_id, event)
        if not event.ref or event.ref[0] >> 2 != number or not row.base_seq < event.seq <= row.head_seq:
            raise Tampered("the database answered with an event about something else")
    # Genuine rows of one log each have a place of their own: a place twice is a row twice.
    if len({event.seq for event in stored}) != len(stored):
        raise Tampered("the database answered with the same event twice")
    return sorted((event for event in stored if event.ref == ref), key=lambda event: event.seq)
