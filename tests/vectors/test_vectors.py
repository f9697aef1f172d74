"""The formats are what the page says: frozen vectors, and an implementation that shares no code (K2).

A change of any format fails here: it needs a new format byte or name, a new file beside this one and a
migration.
"""

import base64
import contextlib
import hashlib
import io
import json
import os
import sqlite3
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import orjson
import pytest
from cryptography.cobblestone import Cobblestone256Decryptor, Cobblestone256Encryptor
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.vectors import independent as own
from tests.vectors.generate import FILE, fixed, unhexed, vectors
from vault import Principal, Resolution, Vault, encoding, new_event_id, new_run_id
from vault.errors import Tampered
from vault.keyring import passphrase
from vault.ports.records import BlobRow, EventRow, RunRow, SessionRow, VaultRow
from vault.sealing import keys, notes, payload, rows
from vault.sessions.refs import bucket_of

FROZEN = unhexed(json.loads(FILE.read_text(encoding="utf-8")))
KEY, CONTEXT = FROZEN["key"], FROZEN["context"]
VAULT, TENANT, OWNER, SESSION = (fixed(name, 16) for name in ("vault", "tenant", "owner", "session"))
#: What the product made with the salts that it chose then.
BY_VAULT = {"chunked_by_vault", "sealed_by_vault", "wrapped_by_vault"}


def row_of(kind, values):
    """A row with what the formats do not look at left empty."""
    return kind(**dict.fromkeys(kind._fields) | values)


def chunks(size: int) -> bytes:
    return fixed(f"body {size}", size)


# ------------------------------------------------------------------------------------- the frozen file


def test_the_independent_implementation_still_makes_the_frozen_file():
    made = vectors()
    for name, value in FROZEN.items():
        if name not in BY_VAULT and name != "sealed_in_full":  # zstd's own bytes may change with its version
            assert json.dumps(unhexed(value), default=bytes.hex) == json.dumps(
                made[name], default=bytes.hex
            ), name
    assert made.keys() == FROZEN.keys()


def test_the_vault_packs_fields_as_frozen():
    for vector in FROZEN["packed"]:
        assert encoding.pack(*vector["fields"]) == vector["packed"]
    assert len({vector["packed"] for vector in FROZEN["packed"]}) == len(FROZEN["packed"])


@pytest.mark.parametrize("vector", FROZEN["sealed"], ids=lambda v: f"{v['size']}-{v['pad']}")
def test_the_vault_opens_frozen_payloads_of_every_size(vector):
    body = chunks(vector["size"])
    sealed = own.payload_seal(KEY, CONTEXT, body, vector["salt"], pad=vector["pad"])
    assert (len(sealed), hashlib.sha256(sealed).digest()) == (vector["length"], vector["sha256"])
    assert payload.unseal(KEY, CONTEXT, sealed) == body
    with payload.unseal_stream(KEY, CONTEXT, io.BytesIO(sealed), vector["sha256"]) as reader:
        assert reader.read() == body
    assert len(payload.seal(KEY, CONTEXT, body, payload.Sealing(compress=False, pad=vector["pad"]))) == len(
        sealed
    )


@pytest.mark.parametrize("part", ["sealed_in_full", "sealed_by_vault"])
def test_both_open_the_frozen_payloads(part):
    assert FROZEN[part]
    for vector in FROZEN[part]:
        assert payload.unseal(KEY, CONTEXT, vector["sealed"]) == vector["body"]
        assert own.payload_open(KEY, CONTEXT, vector["sealed"]) == vector["body"]


def test_the_cipher_is_c2sp_chunked_encryption():
    """The library's output for a known salt is what the specification says, byte for byte."""
    vector = FROZEN["chunked_by_vault"]
    sealed = own.chunked_seal(KEY, CONTEXT, fixed("body", vector["size"]), vector["salt"])
    assert hashlib.sha256(sealed).digest() == vector["sha256"]


def test_the_vault_opens_frozen_wraps_at_their_places():
    for vector in FROZEN["wraps"]:
        place = [vector[name] for name in ("purpose", "tenant_id", "owner", "scope", "epoch")]
        context = keys.KeyHierarchy(VAULT, KEY, None)._context(*place)
        assert context == vector["context"]
        assert keys.unwrap(KEY, vector["wrapped"], context) == vector["key"]
        assert own.unwrap(KEY, vector["wrapped"], context) == vector["key"]
    made = FROZEN["wrapped_by_vault"]
    assert (
        own.unwrap(KEY, made["wrapped"], CONTEXT) == made["key"] == keys.unwrap(KEY, made["wrapped"], CONTEXT)
    )


def test_the_vault_derives_and_looks_up_as_frozen():
    for purpose, key in FROZEN["derived"].items():
        assert keys.derive(KEY, purpose.encode()) == key
    tenant = keys.TenantKeys(tenant_id=TENANT, wrapping=b"", index=KEY)
    for vector in FROZEN["blind"]:
        assert tenant.blind(vector["kind"], *vector["parts"]) == vector["index"]
    assert len({vector["index"] for vector in FROZEN["blind"]}) == len(FROZEN["blind"])
    for vector in FROZEN["content_ids"]:
        hasher = payload.content_hash(KEY)
        hasher.update(vector["body"])
        assert hasher.digest() == vector["id"]
    for length, padded in FROZEN["padded"].items():
        assert payload.padded_length(int(length)) == padded


def test_the_vault_binds_payloads_to_the_frozen_contexts():
    hierarchy = keys.KeyHierarchy(VAULT, KEY, None)
    epoch = hierarchy._remember((TENANT, OWNER, SESSION, 3), KEY)
    assert {kind: epoch.context(kind.encode()) for kind in FROZEN["contexts"]} == FROZEN["contexts"]


def test_the_vault_chains_and_macs_events_as_frozen():
    chain = rows.genesis(SESSION)
    assert chain == FROZEN["genesis"]
    for vector in FROZEN["events"]:
        row = row_of(EventRow, vector["row"])
        header = rows.event_header(SESSION, row)
        chain = rows.event_chain(chain, header, row.salt)
        assert (header, chain) == (vector["header"], vector["chain"])
        assert rows.event_mac(KEY, header, row.salt, chain) == vector["mac"]


def test_the_vault_macs_rows_as_frozen():
    frozen = FROZEN["rows"]
    for name in ("session", "session without external id"):
        assert rows.session_mac(KEY, row_of(SessionRow, frozen[name]["row"])) == frozen[name]["mac"]
    assert rows.run_mac(KEY, SESSION, row_of(RunRow, frozen["run"]["row"])) == frozen["run"]["mac"]
    assert rows.blob_mac(KEY, SESSION, row_of(BlobRow, frozen["blob"]["row"])) == frozen["blob"]["mac"]
    assert rows.vault_mac(KEY, row_of(VaultRow, frozen["vault"]["row"])) == frozen["vault"]["mac"]
    assert rows.whose(SESSION, TENANT, OWNER, None) == FROZEN["whose"]


def test_the_vault_chains_and_macs_a_forks_events_as_frozen():
    """S1, C4: what an event is found by is under its MAC"""
    fork = row_of(SessionRow, FROZEN["rows_with_runs_and_forks"]["a fork"]["row"])
    chain = rows.start_of(fork)
    assert chain == FROZEN["fork_genesis"] == own.start(fork._asdict())
    assert chain == rows.fork_genesis(SESSION, fixed("parent", 16), 3, fixed("base"))
    assert rows.start_of(fork._replace(forked_from=None)) == FROZEN["genesis"]
    for vector in FROZEN["events_with_ref"]:
        row = row_of(EventRow, vector["row"])
        header = rows.event_header(SESSION, row)
        chain = rows.event_chain(chain, header, row.salt)
        assert (header, chain) == (vector["header"], vector["chain"])
        assert rows.event_mac(KEY, header, row.salt, chain) == vector["mac"]
        assert header != rows.event_header(SESSION, row._replace(ref=None))
        assert rows.event_header(SESSION, row._replace(ref=b"")) != rows.event_header(
            SESSION, row._replace(ref=None)
        )


def test_the_vault_macs_rows_of_runs_and_forks_as_frozen():
    """S6, S1: a row that has had neither is as in the first version"""
    frozen = FROZEN["rows_with_runs_and_forks"]
    for name, vector in frozen.items():
        assert rows.session_mac(KEY, row_of(SessionRow, vector["row"])) == vector["mac"], name
    assert len({vector["mac"] for vector in frozen.values()}) == len(frozen)
    assert frozen["neither"]["mac"] == FROZEN["rows"]["session"]["mac"]


def test_the_vault_looks_up_and_counts_what_events_are_about_as_frozen():
    """C4, S3"""
    tenant = keys.TenantKeys(tenant_id=TENANT, wrapping=b"", index=KEY)
    for vector in FROZEN["blind_of_recovery"]:
        assert tenant.blind(vector["kind"], *vector["parts"]) == vector["index"]
    assert len({vector["index"] for vector in FROZEN["blind_of_recovery"]}) == 4
    for index, name in FROZEN["buckets"].items():
        assert bucket_of(bytes.fromhex(index)) == name


def test_the_vault_grows_trees_as_frozen():
    for vector in FROZEN["trees"]:
        leaves = [notes.Head(*head).leaf() for head in vector["heads"]]
        assert notes.root_of(leaves) == vector["root"]
        for cut in range(len(leaves) + 1):
            edge = notes.EMPTY.extended(leaves[:cut]).extended(leaves[cut:])
            assert edge.root() == vector["root"] == own.edge_root(list(edge.roots))


def test_the_vault_signs_notes_as_frozen():
    vector = FROZEN["note"]
    signer = notes.Signer(vector["seed"], vector["name"])
    assert signer.sign(vector["text"]) == vector["signed"]
    assert notes.opened(vector["signed"], vector["name"], signer.public) == vector["text"]
    assert own.open_note(vector["signed"], vector["name"], signer.public) == vector["text"]
    with pytest.raises(Tampered):
        notes.opened(vector["signed"].replace("entry 1", "entry 2"), vector["name"], signer.public)


def test_the_vault_opens_a_frozen_root_key_behind_a_passphrase(tmp_path):
    vector = FROZEN["passphrase"]
    record = orjson.dumps(vector["record"])
    assert passphrase.open_key(record, tmp_path, vector["passphrase"]) == vector["root"]
    assert own.passphrase_root(vector["passphrase"], vector["record"]) == vector["root"]


# ---------------------------------------------------------------------------------- in both directions


@pytest.mark.parametrize("size", [0, 1, 16_383, 16_384, 16_385, 40_000])
def test_each_opens_what_the_other_sealed(size):
    plain = os.urandom(size)
    sealed = own.chunked_seal(KEY, CONTEXT, plain, os.urandom(24))
    decryptor = Cobblestone256Decryptor(KEY, CONTEXT)
    assert decryptor.update(sealed) + decryptor.finalize() == plain
    encryptor = Cobblestone256Encryptor(KEY, CONTEXT)
    assert own.chunked_open(KEY, CONTEXT, encryptor.update(plain) + encryptor.finalize()) == plain
    for compress in (True, False):
        for pad in (True, False):
            how = payload.Sealing(compress=compress, pad=pad)
            assert own.payload_open(KEY, CONTEXT, payload.seal(KEY, CONTEXT, plain, how)) == plain
            salt = os.urandom(24)
            sealed = own.payload_seal(KEY, CONTEXT, plain, salt, compress=compress, pad=pad)
            assert payload.unseal(KEY, CONTEXT, sealed) == plain


@pytest.mark.parametrize(
    "at", [0, 30, 60, 16_384 + 57 + 8, -1], ids=["salt", "commitment", "first", "chunk", "tag"]
)
def test_both_refuse_a_changed_byte(at):
    encryptor = Cobblestone256Encryptor(KEY, CONTEXT)
    sealed = bytearray(b"\x01" + encryptor.update(bytes(20_000)) + encryptor.finalize())
    sealed[1 + at if at >= 0 else at] ^= 1
    with pytest.raises(own.Refused):
        own.payload_open(KEY, CONTEXT, bytes(sealed))
    with pytest.raises(Tampered):
        payload.unseal(KEY, CONTEXT, bytes(sealed))


# ------------------------------------------------------------------- a whole vault, read without `vault`


class Reader:
    """Opens a vault's directory with what the page says, and checks everything on the way."""

    def __init__(self, place: Path) -> None:
        header, encoded = (place / "root.key").read_text().split("\n")[:2]
        assert header == "session-vault root key, version 1"
        self.root = base64.b64decode(encoded)
        self.place = place
        self.data, self.keys = (self._database(name) for name in ("data.db", "keys.db"))
        ((self.vault_id, _, _),) = self.keys("SELECT vault_id, provider, record FROM root")

    def _database(self, name):
        def rows(query, *values):
            with contextlib.closing(sqlite3.connect(self.place / name)) as connection:
                return connection.execute(query, values).fetchall()

        return rows

    def wrapped(self, parent, purpose, tenant_id, owner, scope, epoch=0):
        query = "SELECT owner, wrapped FROM keys WHERE purpose = ? AND scope = ? AND epoch = ?"
        ((stored_owner, wrapped),) = self.keys(query, purpose, scope, epoch)
        assert stored_owner == owner
        context = own.wrap_context(purpose, self.vault_id, tenant_id, owner, scope, epoch)
        return own.unwrap(parent, wrapped, context)

    def tenant(self, name):
        vault_key = self.wrapped(self.root, "vault", b"", b"", self.vault_id)
        tenant_id = own.blind(own.derive(vault_key, "tenant-index"), "tenant", name)
        wrapping = self.wrapped(self.root, "tenant", tenant_id, b"", tenant_id)
        index = self.wrapped(wrapping, "index", tenant_id, b"", tenant_id)
        ((*values, mac),) = self.data("SELECT vault_id, created_us, ledger_no, ledger_hash, mac FROM vault")
        row = dict(zip(("vault_id", "created_us", "ledger_no", "ledger_hash"), values, strict=True))
        assert own.vault_mac(own.derive(vault_key, "vault-row"), row) == mac
        return tenant_id, wrapping, index

    def rows(self, table, query=""):
        names = [name for (name,) in self.data("SELECT name FROM pragma_table_info(?)", table)]
        return [dict(zip(names, row, strict=True)) for row in self.data(f"SELECT * FROM {table} {query}")]  # noqa: S608

    def session(self, name, subject, external):
        """The session's row, what was told about it, and its events with their payloads."""
        tenant_id, wrapping, index = self.tenant(name)
        owner, external = own.blind(index, "owner", subject), own.blind(index, "external", external)
        (row,) = [
            row for row in self.rows("sessions") if (row["owner"], row["external"]) == (owner, external)
        ]
        epoch_key = self.wrapped(wrapping, "epoch", tenant_id, owner, row["session_id"], row["epoch"])
        body_key, mac_key = own.derive(epoch_key, "payload"), own.derive(epoch_key, "row-mac")
        assert own.session_mac(mac_key, row) == row["mac"]

        def opened(kind, sealed):
            place = own.payload_context(self.vault_id, tenant_id, row["session_id"], row["epoch"], kind)
            return own.payload_open(body_key, place, sealed)

        about = json.loads(opened("about", row["about"]))
        labels = {label for (label,) in self.data("SELECT label FROM labels WHERE session_no = ?", row["no"])}
        assert labels == {own.blind(index, "label", *label) for label in about["labels"].items()}
        for run in self.rows("runs", f"WHERE session_no = {row['no']}"):
            assert own.run_mac(mac_key, row["session_id"], run) == run["mac"]
        events = []
        chain = own.start(row)
        if row["forked_from"] is not None:
            self.check_base(row)
        for event in self.rows("events", f"WHERE session_no = {row['no']} ORDER BY seq"):
            header = own.event_header(row["session_id"], event)
            chain = own.chain(chain, header, event["salt"])
            assert chain == event["chain"]
            assert own.event_mac(mac_key, header, event["salt"], chain) == event["mac"]
            sealed = self.sealed(event, mac_key, row, own.derive(epoch_key, "content-id"), opened)
            assert hashlib.sha256(sealed).digest() == event["address"]
            meta = json.loads(opened("meta", event["meta"])) if event["meta"] else {}
            events.append((event, meta, opened("payload", sealed)))
        assert (chain, row["base_seq"] + len(events)) == (row["head_chain"], row["head_seq"])
        self.check_refs(row, index, events)
        return row, about, events

    def check_base(self, row):
        """What a fork shares is in the log of the session that it names."""
        (parent,) = [one for one in self.rows("sessions") if one["session_id"] == row["forked_from"]]
        query = "SELECT chain FROM events WHERE session_no = ? AND seq = ?"
        assert self.data(query, parent["no"], row["base_seq"]) == [(row["base_chain"],)]

    def check_refs(self, row, index, events):
        """What events are found by, the counts of them, and the index of what was changed."""
        counts, touched = Counter(), set()
        for event, meta, body in events:
            ref, resource = None, meta.get("resource")
            if event["type"].startswith("effect."):
                said = json.loads(body)
                ref = own.blind(index, "effect", said["kind"], said["key"])
                changed = {"resource": resource, "subject": said.get("subject")}
                if event["type"] == "effect.committed":
                    touched |= {
                        (own.blind(index, kind, name), event["recorded_us"], event["seq"])
                        for kind, name in changed.items()
                        if name is not None
                    }
            elif resource is not None:
                ref = own.blind(index, "resource", resource)
            assert event["ref"] == ref
            if ref is not None:
                counts[own.bucket(ref)] += 1
        assert json.loads(row["tails"]).get("refs", {}) == counts
        query = "SELECT tag, recorded_us, seq FROM touches WHERE session_no = ?"
        assert set(self.data(query, row["no"])) == touched

    def sealed(self, event, mac_key, row, content_key, opened):
        if event["body"] is not None:
            return event["body"]
        (blob,) = self.rows("blobs", f"WHERE no = {event['blob_no']}")
        assert own.blob_mac(mac_key, row["session_id"], blob) == blob["mac"]
        name = blob["address"].hex()
        sealed = blob["body"] or (self.place / "blobs" / name[:2] / name).read_bytes()
        assert own.content_id(content_key, opened("payload", sealed)) == blob["content_id"]
        return sealed


def test_a_vault_is_read_from_its_files_with_nothing_but_the_documentation(tmp_path, monkeypatch):
    """K2, K4: payloads, sealed fields, key wraps, indexes, MACs, chain, counts, ledger."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place, run = tmp_path / "a.vault", new_run_id()
    bodies = [{"content": "Why?"}, {"text": "z" * 5_000}, None, ["Zürich", 1.5, None, {"ok": True}]]
    raw = os.urandom(100_000)
    with Vault.create(place) as vault:
        sessions = vault.access(Principal(tenant="acme", subject="alice")).sessions
        session = sessions.create(title="August", labels={"purpose": "sales"}, external_id="order 66")
        for body in bodies:
            session.append("message.user", body, run=run, tool="warehouse", usage={"tokens": 5})
        session.append("tool.returned", raw=raw, run=new_run_id(), event_id=new_event_id())
        vault.checkpoint()
        sessions.create(title="Another")
    reader = Reader(place)
    row, about, events = reader.session("acme", "alice", "order 66")
    assert about == {"external_id": "order 66", "labels": {"purpose": "sales"}, "title": "August"}
    assert [json.loads(body) for _, _, body in events[:4]] == bodies
    assert events[4][2] == raw
    assert events[0][1] == {"tool": "warehouse", "usage": {"tokens": 5}}
    assert json.loads(row["tails"]) == {
        "kept": 4,
        "run": [events[4][0]["run_id"].hex(), 1, 0],
        "types": {"message.user": 4, "tool.returned": 1},
    }
    check_ledger(reader, row)


def test_runs_effects_and_forks_are_read_from_the_files_with_nothing_but_the_documentation(
    tmp_path, monkeypatch
):
    """C1, C4, S1, S3, S6: lease, blind indexes, counts in buckets, touches, a fork's chain."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place, now = tmp_path / "a.vault", datetime.now(UTC)
    with Vault.create(place) as vault:
        sessions = vault.access(Principal(tenant="acme", subject="alice")).sessions
        session = sessions.create(labels={"a": "b"}, external_id="order 66")
        with session.run() as run:
            about = {"resource": "crm/42", "observed_at": now, "valid_for": timedelta(minutes=5)}
            run.append("observation.recorded", {"value": 12}, **about)
            run.effect("mail", "42", {"to": "a"}, resource="crm/42", subject="Zoe").once(lambda _: {"id": 7})
            run.effect("mail", "43", subject="Zoe").intend()
            at = run.checkpoint()
        fork = sessions.fork(session.id, at=at.id, labels={"c": "d"}, external_id="order 67")
        fork.resolve("mail", "43", Resolution(decision="commit", confirmation={"id": 8}))
        with fork.run() as run:
            run.append("message.assistant", "Sent.")
            held = run.id
            stored = Reader(place).rows("sessions")
    reader = Reader(place)
    row, about, events = reader.session("acme", "alice", "order 66")
    assert json.loads(row["lease"])[:2] == [1, ""]
    assert (row["forked_from"], row["base_seq"], row["base_chain"]) == (None, 0, b"")
    meta = {"observed_us": now, "resource": "crm/42", "valid_us": 300_000_000}
    assert events[1][1] == meta | {"observed_us": round(now.timestamp() * 10**6)}
    check_ledger(reader, row)
    row, about, events = reader.session("acme", "alice", "order 67")
    assert (row["base_seq"], about["fork"]["at"]) == (at.seq, at.id)
    assert [event["seq"] for event, _, _ in events] == list(range(at.seq + 1, at.seq + 7))
    assert [event["type_nth"] for event, _, _ in events] == [1] * 6
    token, holder, since_us, until_us, waiting = json.loads(stored[1]["lease"])
    assert (token, f"run_{UUID(holder)}", waiting) == (1, held, [])
    assert until_us - since_us >= 30_000_000
    check_ledger(reader, row)


def check_ledger(reader: Reader, row: dict) -> None:
    seed = reader.wrapped(reader.root, "signing", b"", b"", reader.vault_id)
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    name, leaves, previous, heads = f"session-vault/{reader.vault_id.hex()}", [], bytes(32), {}
    files = sorted((reader.place / "ledger").iterdir())
    assert [file.name for file in files] == [f"{number:010d}" for number in range(1, len(files) + 1)]
    for number, file in enumerate(files, start=1):
        entry = own.open_entry(file.read_bytes(), name, public)
        assert (entry["number"], entry["previous"]) == (number, previous)
        leaves += [own.head_leaf(*head.values()) for head in entry["heads"]]
        assert (entry["size"], entry["root"]) == (len(leaves), own.merkle_root(leaves))
        heads |= {head["session_id"]: head for head in entry["heads"]}
        previous = entry["digest"]
    head = heads[row["session_id"]]
    assert (head["version"], head["seq"], head["chain"]) == (
        row["version"],
        row["head_seq"],
        row["head_chain"],
    )
    assert head["whose"] == own.whose(row["session_id"], row["tenant_id"], row["owner"], row["external"])
    ((newest,),) = reader.data("SELECT ledger_hash FROM vault")
    assert newest == previous
