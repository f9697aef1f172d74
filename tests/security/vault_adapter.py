"""The vault as the yardstick `agent-memory-integrity` sees a store: raw records, an honest answer on read.

``verify`` is not ``Vault.verify``: it opens the vault, as a restarted agent would, and reads the session.
A record is a row of ``events``: short payloads stand in it.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

from agmi.adapters.base import MemoryAdapter, Record

from tests.security import surgery
from vault import Principal, Vault, new_event_id
from vault.errors import Tampered
from vault.model import event_bytes, session_bytes
from vault.ports.records import EventRow
from vault.sealing.rows import event_chain, event_header

ALICE = Principal(tenant="acme", subject="alice")
#: What stays with a slot when another record's bytes are put there.
SLOT = ("session_no", "seq", "event_id", "type_nth", "run_nth")


class VaultAdapter(MemoryAdapter):
    """One vault in a temporary directory, attacked through its files."""

    name = "agent-session-vault"
    supports_replay = True
    supports_metadata = True
    supports_snapshot = True

    def __init__(
        self,
        directory: Path,
        *,
        other: Principal = ALICE,
        metadata: str = "recorded_us",
        replay: str = "whole row",
        forged_head: bool = False,
        snapshot_of: str = ".",
    ) -> None:
        """Choose among the forms of an attack.

        Args:
            directory: where the store is made.
            other: whose session T6 lifts the record from.
            metadata: the column that T8 changes.
            replay: T6 and T7 copy the ``whole row`` but its slot, or the sealed ``body`` alone.
            forged_head: T5 also moves the session's head to the forged event.
            snapshot_of: what T9 rolls back: all of the directory, or one file of it.
        """
        self._parent, self._other, self._metadata = directory, other, metadata
        self._replay, self._forged_head, self._snapshot_of = replay, forged_head, snapshot_of
        self._sessions: dict[str, str] = {}

    # ------------------------------------------------------------------------------------- lifecycle

    def setup(self) -> None:
        self.place = Path(tempfile.mkdtemp(dir=self._parent)) / "the.vault"
        Vault.create(self.place).close()

    def teardown(self) -> None:
        shutil.rmtree(self.place.parent)

    def seed(self, n: int) -> None:
        self._write("first", ALICE, n)

    def seed_other(self, n: int) -> None:
        self._write("second", self._other, n)

    def append_genuine(self) -> None:
        self._write("first", ALICE, 1)

    def reload(self) -> None:
        """Nothing to do: every ``verify`` opens the vault anew."""

    def verify(self) -> bool:
        self.verify_detail = None
        try:
            with Vault.open(self.place) as vault:
                session = vault.access(ALICE).sessions.resume(self._sessions["first"])
                for event in session.events():
                    assert event.payload["content"]
        except Tampered as error:
            self.verify_detail = f"{type(error).__name__}: {error}"
            return False
        return True

    # ------------------------------------------------------------------------------------ raw access

    def read_all_raw(self) -> list[Record]:
        return self._records("first")

    def read_other_raw(self) -> list[Record]:
        return self._records("second")

    def write_raw(self, record: Record) -> None:
        """Put a record at an ordinal: over the row that is there, or behind the last one."""
        standing = self.read_all_raw()
        with surgery.opened(self.place) as connection:
            if record.seq < len(standing):
                slot = {name: standing[record.seq].fields[name] for name in ("session_no", "seq")}
                values = {name: value for name, value in record.fields.items() if name not in slot}
                surgery.update(connection, "events", slot, **values)
                return
            surgery.insert(connection, "events", record.fields)
            if self._forged_head:
                head = {"head_seq": record.fields["seq"], "head_chain": record.fields["chain"]}
                surgery.update(connection, "sessions", {"no": record.fields["session_no"]}, **head)

    def delete_raw(self, seq: int) -> None:
        row = self.read_all_raw()[seq].fields
        with surgery.opened(self.place) as connection:
            slot = (row["session_no"], row["seq"])
            connection.execute("DELETE FROM events WHERE session_no = ? AND seq = ?", slot)

    # -------------------------------------------------------------------------------------- contents

    def mutate_payload(self, record: Record) -> Record:
        """Other sealed bytes, under the address that is right for them: that needs no key."""
        body = surgery.flipped(record.fields["body"], len(record.fields["body"]) // 2)
        record.fields |= {"body": body, "address": hashlib.sha256(body).digest(), "size": len(body)}
        return record

    def forge_record(self, template: Record) -> Record:
        """A new event whose chain value is right too; only its MAC cannot be made without the key."""
        forged = self.mutate_payload(Record(seq=template.seq + 1, fields=dict(template.fields)))
        fields = forged.fields
        fields |= {"seq": fields["seq"] + 1, "event_id": event_bytes(new_event_id())}
        fields["type_nth"] += 1
        row = EventRow(**fields)
        header = event_header(session_bytes(self._sessions["first"]), row)
        fields["chain"] = event_chain(template.fields["chain"], header, row.salt)
        return forged

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        victim = self.read_all_raw()[victim_seq]
        if self._replay == "body":
            victim.fields["body"] = donor.fields["body"]
        else:
            victim.fields |= {name: value for name, value in donor.fields.items() if name not in SLOT}
        self.write_raw(victim)

    # ---------------------------------------------------------------------------- what the guard asks

    def identity_of(self, record: Record) -> str:
        return record.fields["event_id"].hex()

    def payload_of(self, record: Record) -> str:
        return record.fields["body"].hex()

    def owner_of(self, record: Record) -> str:
        return str(record.fields["session_no"])

    def read_meta(self, seq: int) -> dict:
        fields = self.read_all_raw()[seq].fields
        return {self._metadata: fields[self._metadata]}

    def write_meta(self, seq: int, meta: dict) -> None:
        record = self.read_all_raw()[seq]
        record.fields[self._metadata] = surgery.flipped(meta[self._metadata])
        self.write_raw(record)

    def snapshot_store(self) -> object:
        return self._copy_store(self.place / self._snapshot_of)

    def restore_store(self, token: object) -> None:
        self._restore_store(token, self.place / self._snapshot_of)

    # --------------------------------------------------------------------------------------- private

    def _write(self, name: str, principal: Principal, count: int) -> None:
        with Vault.open(self.place) as vault:
            sessions = vault.access(principal).sessions
            known = self._sessions.get(name)
            session = sessions.resume(known) if known else sessions.create(title=name)
            self._sessions[name] = session.id
            run = "run_00000000-0000-7000-8000-000000000001"
            for number in range(count):
                content = {"content": f"{name} says {number} of {count}"}
                session.append("message.user", content, run=run, tool="mouth", resource="crm/customer/42")

    def _records(self, name: str) -> list[Record]:
        query = (
            "SELECT * FROM events WHERE session_no = (SELECT no FROM sessions WHERE session_id = ?) "
            "ORDER BY seq"
        )
        with surgery.opened(self.place) as connection:
            rows = surgery.rows_as_dicts(connection, query, session_bytes(self._sessions[name]))
        return [Record(seq=ordinal, fields=row) for ordinal, row in enumerate(rows)]
