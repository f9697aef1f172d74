"""Writes vectors.json: fixed inputs, and what the sealed formats make of them.

``python -m tests.vectors.generate`` adds what the file does not have; what stands in it is frozen.
All comes from the independent implementation with fixed salts, but for three parts that the product made with
the salts that it chose then: ``chunked_by_vault``, ``sealed_by_vault`` and ``wrapped_by_vault``.
"""

import hashlib
import json
from pathlib import Path

import orjson
from cryptography.cobblestone import Cobblestone256Encryptor

from tests.vectors import independent as own
from vault.sealing import keys, payload

FILE = Path(__file__).with_name("vectors.json")
#: Full 16 KiB chunks and one byte less and more; 16,367 bytes of body are a full chunk with flag and lengths.
SIZES = [0, 1, 63, 64, 511, 512, 16_367, 16_383, 16_384, 16_385, 40_000]


def fixed(name: str, size: int = 32) -> bytes:
    """Bytes that are always the same for a name: SHA-256 in counter mode."""
    blocks = (hashlib.sha256(f"{name} {number}".encode()).digest() for number in range(size // 32 + 1))
    return b"".join(blocks)[:size]


def hexed(value: object) -> object:
    """The value with bytes written in hexadecimal, as JSON."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {name: hexed(item) for name, item in value.items()}
    return [hexed(item) for item in value] if isinstance(value, list) else value


def unhexed(value: object) -> object:
    """What ``hexed`` wrote, as it was."""
    if isinstance(value, dict):
        if value.keys() == {"hex"}:
            return bytes.fromhex(value["hex"])
        return {name: unhexed(item) for name, item in value.items()}
    return [unhexed(item) for item in value] if isinstance(value, list) else value


KEY, CONTEXT = fixed("key"), own.pack(b"a context", b"payload")
VAULT, TENANT, OWNER, SESSION = (fixed(name, 16) for name in ("vault", "tenant", "owner", "session"))
TEXT = orjson.dumps({"content": "Why did sales drop? " * 60})


def sealed_payloads() -> list[dict]:
    vectors = []
    for size in SIZES:
        for pad in (True, False):
            salt = fixed(f"salt {size} {pad}", 24)
            sealed = own.payload_seal(KEY, CONTEXT, fixed(f"body {size}", size), salt, pad=pad)
            digest = hashlib.sha256(sealed).digest()
            vectors.append({"size": size, "pad": pad, "salt": salt, "length": len(sealed), "sha256": digest})
    return vectors


def sealed_in_full() -> list[dict]:
    short = own.payload_seal(KEY, CONTEXT, b"hello", fixed("salt of hello", 24))
    packed = own.payload_seal(KEY, CONTEXT, TEXT, fixed("salt of text", 24), compress=True)
    return [{"body": b"hello", "sealed": short}, {"body": TEXT, "sealed": packed}]


def sealed_by_vault() -> list[dict]:
    bodies = [b"", b"hello", TEXT, fixed("noise", 600)]
    hows = [payload.Sealing(), payload.Sealing(compress=False, pad=False)]
    return [
        {"body": body, "sealed": payload.seal(KEY, CONTEXT, body, how)} for body in bodies for how in hows
    ]


def wraps() -> list[dict]:
    places = [
        ("vault", b"", b"", VAULT, 0),
        ("signing", b"", b"", VAULT, 0),
        ("tenant", TENANT, b"", TENANT, 0),
        ("index", TENANT, b"", TENANT, 0),
        ("epoch", TENANT, OWNER, SESSION, 3),
    ]
    vectors = []
    for purpose, tenant_id, owner, scope, epoch in places:
        context = own.wrap_context(purpose, VAULT, tenant_id, owner, scope, epoch)
        key, salt = fixed(f"{purpose} key"), fixed(f"{purpose} salt", 24)
        place = {"purpose": purpose, "tenant_id": tenant_id, "owner": owner, "scope": scope, "epoch": epoch}
        vectors.append(
            place
            | {"key": key, "context": context, "salt": salt, "wrapped": own.wrap(KEY, key, context, salt)}
        )
    return vectors


def events() -> list[dict]:
    """A log of three: a plain event, one of a run with sealed fields, one whose writer chose its id."""
    plain = {
        "event_id": fixed("event 1", 16),
        "given_id": 0,
        "type": "message.user",
        "level": 3,
        "recorded_us": 1_700_000_000_000_000,
        "run_id": None,
        "epoch": 0,
        "content": 0,
        "type_nth": 1,
        "run_nth": 0,
        "meta": None,
        "address": fixed("address 1"),
        "size": 154,
    }
    in_run = plain | {
        "event_id": fixed("event 2", 16),
        "run_id": fixed("run", 16),
        "run_nth": 1,
        "type_nth": 2,
    }
    in_run |= {"meta": fixed("meta", 170), "address": fixed("address 2"), "level": 1, "recorded_us": 2**50}
    given = plain | {"event_id": fixed("event 3", 16), "given_id": 1, "type": "tool.returned", "content": 1}
    given |= {"size": 2**40, "epoch": 2, "address": fixed("address 3")}
    vectors, chain = [], own.genesis(SESSION)
    for seq, values in enumerate((plain, in_run, given), start=1):
        row = values | {"seq": seq, "salt": fixed(f"salt of event {seq}", 16)}
        header = own.event_header(SESSION, row)
        chain = own.chain(chain, header, row["salt"])
        mac = own.event_mac(KEY, header, row["salt"], chain)
        vectors.append({"row": row, "header": header, "chain": chain, "mac": mac})
    return vectors


def rows() -> dict:
    session = {
        "session_id": SESSION,
        "tenant_id": TENANT,
        "owner": OWNER,
        "external": fixed("external", 16),
        "state": "active",
        "version": 7,
        "epoch": 0,
        "head_seq": 3,
        "head_chain": fixed("chain"),
        "tails": b'{"kept":2,"run":["00",1,0],"types":{"message.user":2}}',
        "created_us": 1_700_000_000_000_000,
        "updated_us": 1_700_000_000_000_001,
        "ended_us": 0,
        "about": fixed("about", 150),
    }
    run = {"run_id": fixed("run", 16), "written": 12}
    blob = {"epoch": 0, "content_id": fixed("content", 16), "address": fixed("address"), "size": 70_000}
    vault = {"vault_id": VAULT, "created_us": 1, "ledger_no": 2, "ledger_hash": fixed("entry")}
    bare = session | {"external": None}
    return {
        "session": {"row": session, "mac": own.session_mac(KEY, session)},
        "session without external id": {"row": bare, "mac": own.session_mac(KEY, bare)},
        "run": {"row": run, "mac": own.run_mac(KEY, SESSION, run)},
        "blob": {"row": blob, "mac": own.blob_mac(KEY, SESSION, blob)},
        "vault": {"row": vault, "mac": own.vault_mac(KEY, vault)},
    }


def events_with_ref() -> list[dict]:
    """A fork's log of two: an observation that is found by its resource, an effect by its kind and key."""
    plain = events()[0]["row"]
    seen = plain | {"seq": 4, "event_id": fixed("event 4", 16), "type": "observation.recorded"}
    seen |= {"ref": own.blind(KEY, "resource", "crm/customer/42"), "meta": fixed("meta of event 4", 170)}
    done = plain | {"seq": 5, "event_id": fixed("event 5", 16), "type": "effect.committed"}
    done |= {"ref": own.blind(KEY, "effect", "email.send", "42"), "run_id": fixed("run", 16), "run_nth": 1}
    vectors, chain = [], own.fork_genesis(SESSION, fixed("parent", 16), 3, fixed("base"))
    for row in (seen, done):
        row["salt"] = fixed(f"salt of event {row['seq']}", 16)
        header = own.event_header(SESSION, row)
        chain = own.chain(chain, header, row["salt"])
        mac = own.event_mac(KEY, header, row["salt"], chain)
        vectors.append({"row": row, "header": header, "chain": chain, "mac": mac})
    return vectors


def rows_with_runs_and_forks() -> dict:
    plain = rows()["session"]["row"]
    lease = {"lease": b'[3,"0192f3a4b5c67d8e9fa0b1c2d3e4f506",1700000000000000,1700000030000000,[]]'}
    fork = {"forked_from": fixed("parent", 16), "base_seq": 3, "base_chain": fixed("base")}
    nothing = {"lease": b"", "forked_from": None, "base_seq": 0, "base_chain": b""}
    sessions = {
        "a run": plain | nothing | lease,
        "a fork": plain | nothing | fork,
        "a fork with a run": plain | lease | fork,
        "neither": plain | nothing,
    }
    return {name: {"row": row, "mac": own.session_mac(KEY, row)} for name, row in sessions.items()}


def trees() -> list[dict]:
    heads = [
        (fixed(f"session {n}", 16), n + 1, 3 * n, fixed(f"chain {n}"), fixed(f"whose {n}", 16))
        for n in range(9)
    ]
    leaves = [own.head_leaf(*head) for head in heads]
    return [
        {"heads": [list(head) for head in heads[:size]], "root": own.merkle_root(leaves[:size])}
        for size in range(10)
    ]


def note() -> dict:
    text, name, seed = "session-vault/test\n3\nAAAA\nentry 1\n", "session-vault/test", fixed("seed")
    return {"text": text, "name": name, "seed": seed, "signed": own.sign_note(text, name, seed)}


def passphrase_record() -> dict:
    """With little work, so that the tests need none of the half second."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    salt, root = fixed("argon2 salt", 16), fixed("root")
    parameters = {"passes": 1, "lanes": 1, "memory_kib": 64}
    stretched = Argon2id(salt=salt, length=32, iterations=1, lanes=1, memory_cost=64).derive(b"correct horse")
    wrapped = own.chunked_seal(stretched, b"session-vault/1/passphrase-root", root, fixed("wrap salt", 24))
    record = parameters | {"salt": salt.hex(), "wrapped": wrapped.hex()}
    return {"passphrase": "correct horse", "record": record, "root": root}


def vectors() -> dict:
    encryptor = Cobblestone256Encryptor(KEY, CONTEXT)
    chunked = encryptor.update(fixed("body", 20_000)) + encryptor.finalize()
    return {
        "key": KEY,
        "context": CONTEXT,
        "packed": [
            {"fields": fields, "packed": own.pack(*fields)}
            for fields in ([], [b""], [b"a", b"bc"], [b"ab", b"c"], [b"", b"abc"])
        ],
        "chunked_by_vault": {
            "size": 20_000,
            "sha256": hashlib.sha256(chunked).digest(),
            "salt": chunked[:24],
        },
        "sealed": sealed_payloads(),
        "sealed_in_full": sealed_in_full(),
        "sealed_by_vault": sealed_by_vault(),
        "wraps": wraps(),
        "wrapped_by_vault": {"key": fixed("wrapped"), "wrapped": keys.wrap(KEY, fixed("wrapped"), CONTEXT)},
        "derived": {
            name: own.derive(KEY, name) for name in ("payload", "row-mac", "content-id", "vault-row")
        },
        "contexts": {
            kind: own.payload_context(VAULT, TENANT, SESSION, 3, kind)
            for kind in ("payload", "meta", "about")
        },
        "blind": [
            {"kind": kind, "parts": parts, "index": own.blind(KEY, kind, *parts)}
            for kind, parts in (
                ("owner", ["alice"]),
                ("external", ["alice"]),
                ("label", ["purpose", "sales"]),
                ("label", ["purposes", "ales"]),
                ("tenant", ["Zürich ☂"]),
            )
        ],
        "content_ids": [{"body": body, "id": own.content_id(KEY, body)} for body in (b"", b"hello", TEXT)],
        "padded": {
            str(length): own.padme(length) for length in (0, 63, 64, 65, 100, 1_000, 16_384, 10**6, 2**40)
        },
        "genesis": own.genesis(SESSION),
        "events": events(),
        "rows": rows(),
        "whose": own.whose(SESSION, TENANT, OWNER, None),
        "trees": trees(),
        "note": note(),
        "passphrase": passphrase_record(),
        "fork_genesis": own.fork_genesis(SESSION, fixed("parent", 16), 3, fixed("base")),
        "events_with_ref": events_with_ref(),
        "rows_with_runs_and_forks": rows_with_runs_and_forks(),
        "blind_of_recovery": [
            {"kind": kind, "parts": parts, "index": own.blind(KEY, kind, *parts)}
            for kind, parts in (
                ("effect", ["email.send", "42"]),
                ("effect", ["email.sen", "d42"]),
                ("resource", ["crm/customer/42"]),
                ("subject", ["crm/customer/42"]),
            )
        ],
        "buckets": {
            index.hex(): own.bucket(index)
            for index in (bytes(16), b"\x03" * 16, b"\x04" * 16, b"\xfb" * 16, b"\xff" * 16)
        },
    }


if __name__ == "__main__":
    frozen = json.loads(FILE.read_text(encoding="utf-8"))
    added = {name: value for name, value in hexed(vectors()).items() if name not in frozen}
    FILE.write_text(json.dumps(frozen | added, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
