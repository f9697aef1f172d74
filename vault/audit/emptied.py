"""Which single events were erased, as the ledger records it: read from the facts of the sessions' logs.

A fact is in the log from the transaction that empties the payload's row. The ledger has it from the entry on
that records a head behind it: whoever writes that entry, also a process that only finds what a crashed one
left, reads the facts between the head that the ledger had before and that one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vault.encoding import json_value
from vault.errors import Tampered, VaultError
from vault.model import EVENTS_MAX
from vault.ports.records import EventRow, is_sound
from vault.sealing.notes import Emptied, emptied_record, place_of
from vault.sealing.payload import unseal
from vault.sealing.renewal import renewal_of
from vault.sessions.log import RETRACTED, check_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vault.ports.records import Reader, Records
    from vault.sealing.keys import KeyHierarchy
    from vault.sealing.notes import Head


@dataclass(frozen=True, slots=True)
class EmptiedEvents:
    """Reads from the log which events were erased one by one."""

    records: Records
    keys: KeyHierarchy = field(repr=False)

    def between(
        self, known: Mapping[bytes, Head], heads: Iterable[Head], recorded: Mapping[bytes, bytes]
    ) -> list[Emptied]:
        """What the facts behind the known heads and up to others say, but for what is recorded.

        A fact that does not open is left out: readers refuse it, and `verify` names its place.
        """
        found = []
        with self.records.snapshot() as reader:
            for head in heads:
                low = _low(reader, known.get(head.session_id))
                events = dict.fromkeys(self._of_session(reader, head.session_id, low, head.seq))
                if events and (have := recorded.get(head.session_id)):
                    there = set(Emptied(head.session_id, have).records())
                    events = {one: None for one in events if one not in there}
                if events:
                    found.append(Emptied(head.session_id, b"".join(events)))
        return found

    def returned(self, recorded: Mapping[bytes, bytes]) -> list[tuple[bytes, int]]:
        """Events that were erased, as is recorded, and are there with no fact of it: session and place."""
        found = []
        for session_id, events in recorded.items():
            with self.records.snapshot() as reader:
                told = set(self._of_session(reader, session_id, 0, EVENTS_MAX))
                numbers = list(reader.scan("number_of_session", session_id=session_id))
                for record in Emptied(session_id, events).records() if numbers else ():
                    seq = place_of(record)
                    event = next(reader.scan("event_at_place", session_no=numbers[0][0], seq=seq), None)
                    if event is None or not isinstance(event[0], bytes) or not event[1]:
                        continue
                    if record not in told and emptied_record(session_id, seq, event[0]) == record:
                        found.append((session_id, seq))
        return found

    def _of_session(self, reader: Reader, session_id: bytes, low: int, high: int) -> Iterator[bytes]:
        place = {"session_id": session_id, "type": RETRACTED, "low": low, "high": high}
        for tenant_id, owner, epoch, stored_id, *stored in list(reader.scan("facts_since", **place)):
            row = EventRow._make(stored)
            if stored_id != session_id or not is_sound(row):
                continue
            try:
                tenant = self.keys.tenant_by_id(tenant_id)
                if tenant is None:
                    continue
                keys = self.keys.epoch(tenant, owner, session_id, epoch)
                check_event(keys, session_id, row)
                said = json_value(unseal(keys.payload, keys.context(b"payload"), row.body or b""))
            except VaultError:
                continue  # erased itself, or damaged
            for seq in said["events"]:
                event = next(reader.scan("event_at_place", session_no=row.session_no, seq=seq), None)
                if event is not None and isinstance(event[0], bytes):
                    yield emptied_record(session_id, seq, event[0])


def _low(reader: Reader, known: Head | None) -> int:
    """From where on facts were not recorded with a head; a log that was sealed anew took over older ones."""
    if known is None:
        return 0
    found = next(reader.scan("renewal_of_session", session_id=known.session_id), (b"",))
    try:
        return known.seq if renewal_of(found[0]).version <= known.version else 0
    except (Tampered, TypeError):
        return known.seq  # told by whoever reads it
