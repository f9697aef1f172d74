"""The sealed formats once more, written from docs/reference/sealed-format.md alone.

Nothing of `vault` is imported: SHA, HMAC and BLAKE2b from `hashlib` and `hmac`, HKDF-Expand by hand,
AES-256-GCM and Ed25519 as bare primitives. What this cannot open, a reader of that page could not either.
"""

import base64
import hashlib
import hmac
import struct

import zstandard
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

CHUNK = 16 * 1024
TAG = 16
SALT = 24
COMMITMENT = 32


class Refused(Exception):
    """It does not verify."""


# ------------------------------------------------------------------------------------- canonical bytes


def u64(number: int) -> bytes:
    return struct.pack(">Q", number)


def pack(*fields: bytes) -> bytes:
    return struct.pack(">I", len(fields)) + b"".join(struct.pack(">I", len(one)) + one for one in fields)


# ---------------------------------------------------------------- C2SP chunked encryption, AES-256-GCM


def hkdf_expand(key: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 §2.3 with SHA-512."""
    blocks, block = b"", b""
    for counter in range(1, -(-length // 64) + 1):
        block = hmac.new(key, block + info + bytes([counter]), hashlib.sha512).digest()
        blocks += block
    return blocks[:length]


def _message_keys(key: bytes, salt: bytes, context: bytes) -> tuple[AESGCM, int, bytes]:
    info = b"c2sp.org/chunked-encryption@v1+" + b"AEAD_AES_256_GCM" + b"\x00" + salt + context
    output = hkdf_expand(key, info, 32 + 12 + COMMITMENT)
    return AESGCM(output[:32]), int.from_bytes(output[32:44], "big"), output[44:]


def chunked_seal(key: bytes, context: bytes, plain: bytes, salt: bytes) -> bytes:
    cipher, base_nonce, commitment = _message_keys(key, salt, context)
    sealed = salt + commitment
    # The last chunk is always shorter than a full one, so a whole number of chunks gets an empty one behind.
    for number in range(len(plain) // CHUNK + 1):
        nonce = (base_nonce ^ number).to_bytes(12, "big")
        sealed += cipher.encrypt(nonce, plain[number * CHUNK : (number + 1) * CHUNK], b"")
    return sealed


def chunked_open(key: bytes, context: bytes, sealed: bytes) -> bytes:
    salt, commitment = sealed[:SALT], sealed[SALT : SALT + COMMITMENT]
    cipher, base_nonce, expected = _message_keys(key, salt, context)
    if len(salt) != SALT or not hmac.compare_digest(commitment, expected):
        raise Refused
    body, plain, number = sealed[SALT + COMMITMENT :], b"", 0
    while True:
        chunk = body[number * (CHUNK + TAG) : (number + 1) * (CHUNK + TAG)]
        try:
            plain += cipher.decrypt((base_nonce ^ number).to_bytes(12, "big"), chunk, b"")
        except (InvalidTag, ValueError):
            raise Refused from None
        if len(chunk) < CHUNK + TAG:
            return plain
        number += 1


# ------------------------------------------------------------------------------------- sealed payloads


def padme(length: int) -> int:
    """PURBs, §4: only as many significant bits of a length as its exponent has bits."""
    if length <= 64:
        return 64
    exponent = length.bit_length() - 1
    step = 2 ** (exponent - exponent.bit_length())
    return -(-length // step) * step


def payload_inner(body: bytes, *, compress: bool, pad: bool) -> bytes:
    """What is encrypted: flag, stored body, zeros, two lengths."""
    flag, stored = b"\x00", body
    if compress:
        flag, stored = b"\x01", zstandard.ZstdCompressor(level=3).compress(body)
    length = 1 + len(stored) + 16
    zeros = bytes((padme(length) if pad else length) - length)
    return flag + stored + zeros + u64(len(stored)) + u64(len(body))


def payload_seal(
    key: bytes, context: bytes, body: bytes, salt: bytes, *, compress: bool = False, pad: bool = True
) -> bytes:
    return b"\x01" + chunked_seal(key, context, payload_inner(body, compress=compress, pad=pad), salt)


def payload_open(key: bytes, context: bytes, sealed: bytes) -> bytes:
    if sealed[:1] != b"\x01":
        raise Refused
    inner = chunked_open(key, context, sealed[1:])
    stored_size, plain_size = struct.unpack(">QQ", inner[-16:])
    stored, padding = inner[1 : 1 + stored_size], inner[1 + stored_size : -16]
    if any(padding):
        raise Refused
    body = stored if inner[:1] == b"\x00" else zstandard.ZstdDecompressor().decompressobj().decompress(stored)
    if len(body) != plain_size:
        raise Refused
    return body


def content_id(content_key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(body, key=content_key, digest_size=16, person=b"sv1.content").digest()


# ------------------------------------------------------------------------------------------------ keys


def derive(key: bytes, purpose: str) -> bytes:
    return hkdf_expand(key, b"session-vault/1/" + purpose.encode(), 32)


def wrap_context(
    purpose: str, vault_id: bytes, tenant_id: bytes, owner: bytes, scope: bytes, epoch: int
) -> bytes:
    name = b"session-vault/1/wrap"
    return pack(name, purpose.encode(), vault_id, tenant_id, owner, scope, u64(epoch), u64(1))


def wrap(parent: bytes, key: bytes, context: bytes, salt: bytes) -> bytes:
    return b"\x01" + chunked_seal(parent, context, key, salt)


def unwrap(parent: bytes, wrapped: bytes, context: bytes) -> bytes:
    if wrapped[:1] != b"\x01":
        raise Refused
    return chunked_open(parent, context, wrapped[1:])


def passphrase_root(passphrase: str, record: dict) -> bytes:
    """The root key behind a passphrase, from the stored record."""
    salt, memory = bytes.fromhex(record["salt"]), record["memory_kib"]
    kdf = Argon2id(
        salt=salt, length=32, iterations=record["passes"], lanes=record["lanes"], memory_cost=memory
    )
    stretched = kdf.derive(passphrase.encode())
    return chunked_open(stretched, b"session-vault/1/passphrase-root", bytes.fromhex(record["wrapped"]))


def payload_context(vault_id: bytes, tenant_id: bytes, session_id: bytes, epoch: int, kind: str) -> bytes:
    place = pack(b"session-vault/1/payload", vault_id, tenant_id, session_id, u64(epoch))
    return pack(place, kind.encode())


def blind(index_key: bytes, kind: str, *parts: str) -> bytes:
    fields = pack(kind.encode(), *(part.encode() for part in parts))
    return hashlib.blake2b(fields, key=index_key, digest_size=16, person=b"sv1.blind").digest()


# ------------------------------------------------------------------------------------ rows and the chain


def event_header(session_id: bytes, row: dict) -> bytes:
    numbers = struct.pack(
        ">QQQQIIQBB",
        row["seq"],
        row["recorded_us"],
        row["type_nth"],
        row["run_nth"],
        row["level"],
        row["epoch"],
        row["size"],
        row["content"],
        row["given_id"],
    )
    return pack(
        b"session-vault/1/event",
        session_id,
        row["event_id"],
        row["type"].encode(),
        row["run_id"] or b"",
        numbers,
        row["address"],
        hashlib.sha256(row["meta"]).digest() if row["meta"] else b"",
        *([] if row.get("ref") is None else [row["ref"]]),
    )


def genesis(session_id: bytes) -> bytes:
    return hashlib.sha256(b"\x02session-vault/1/genesis" + session_id).digest()


def fork_genesis(session_id: bytes, forked_from: bytes, base_seq: int, base_chain: bytes) -> bytes:
    message = pack(b"session-vault/1/fork", session_id, forked_from, u64(base_seq), base_chain)
    return hashlib.sha256(b"\x02" + message).digest()


def start(row: dict) -> bytes:
    """The chain value before a session's own first event."""
    if row["forked_from"] is None:
        return genesis(row["session_id"])
    return fork_genesis(row["session_id"], row["forked_from"], row["base_seq"], row["base_chain"])


def bucket(ref: bytes) -> str:
    """The name under which ``tails`` counts an event that is found by what it is about."""
    return f"{ref[0] // 4:02x}"


def chain(previous: bytes, header: bytes, salt: bytes) -> bytes:
    leaf = hashlib.sha256(b"\x00" + header + salt).digest()
    return hashlib.sha256(b"\x02" + previous + leaf).digest()


def _mac(key: bytes, message: bytes, person: bytes) -> bytes:
    return hashlib.blake2b(message, key=key, digest_size=32, person=person).digest()


def event_mac(mac_key: bytes, header: bytes, salt: bytes, chain_value: bytes) -> bytes:
    return _mac(mac_key, header + salt + chain_value, b"sv1.event")


def session_mac(mac_key: bytes, row: dict) -> bytes:
    numbers = [row[name] for name in ("version", "epoch", "head_seq", "created_us", "updated_us", "ended_us")]
    message = pack(
        row["session_id"],
        row["tenant_id"],
        row["owner"],
        row["external"] or b"",
        row["state"].encode(),
        struct.pack(">QQQQQQ", *numbers),
        row["head_chain"],
        row["tails"],
        row["about"],
        *recovery_fields(row),
        *([row["retention"]] if row.get("retention") else []),  # the terms it is kept by
    )
    return _mac(mac_key, message, b"sv1.session")


def recovery_fields(row: dict) -> list[bytes]:
    """What runs and forks add to a session's row; nothing before its first run, when it is no fork."""
    lease, forked_from = row.get("lease") or b"", row.get("forked_from") or b""
    base_seq, base_chain = row.get("base_seq") or 0, row.get("base_chain") or b""
    if not any((lease, forked_from, base_seq, base_chain)):
        return []
    return [lease, forked_from, u64(base_seq), base_chain]


def blob_mac(mac_key: bytes, session_id: bytes, row: dict) -> bytes:
    numbers = struct.pack(">QQ", row["epoch"], row["size"])
    return _mac(mac_key, pack(session_id, row["content_id"], row["address"], numbers), b"sv1.blob")


def run_mac(mac_key: bytes, session_id: bytes, row: dict) -> bytes:
    return _mac(mac_key, pack(session_id, row["run_id"], u64(row["written"])), b"sv1.run")


def vault_mac(row_key: bytes, row: dict) -> bytes:
    numbers = struct.pack(">QQ", row["created_us"], row["ledger_no"])
    return _mac(row_key, pack(row["vault_id"], numbers, row["ledger_hash"]), b"sv1.vault")


# ---------------------------------------------------------------------------------------------- ledger


def whose(session_id: bytes, tenant_id: bytes, owner: bytes, external: bytes | None) -> bytes:
    return hashlib.sha256(pack(session_id, tenant_id, owner, external or b"")).digest()[:16]


def head_leaf(session_id: bytes, version: int, seq: int, chain_value: bytes, whose_it_is: bytes) -> bytes:
    message = pack(session_id, u64(version), u64(seq), chain_value, whose_it_is)
    return hashlib.sha256(b"\x00" + message).digest()


def merkle_root(leaves: list[bytes]) -> bytes:
    """RFC 6962 §2.1, recursively as it is defined there; leaves are hashed already."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + merkle_root(leaves[:split]) + merkle_root(leaves[split:])).digest()


def edge_root(roots: list[bytes]) -> bytes:
    """The root from the roots of the tree's perfect subtrees, largest first."""
    if not roots:
        return hashlib.sha256(b"").digest()
    root = roots[-1]
    for left in reversed(roots[:-1]):
        root = hashlib.sha256(b"\x01" + left + root).digest()
    return root


def note_key_id(name: str, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4]


def sign_note(text: str, name: str, seed: bytes) -> str:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    signature = note_key_id(name, key.public_key().public_bytes_raw()) + key.sign(text.encode())
    return f"{text}\n\u2014 {name} {base64.b64encode(signature).decode()}\n"


def open_note(note: str, name: str, public: bytes) -> str:
    text, _, signatures = note.partition("\n\n")
    text += "\n"
    for line in signatures.splitlines():
        prefix = f"\u2014 {name} "
        if line.startswith(prefix):
            signature = base64.b64decode(line.removeprefix(prefix))
            if signature[:4] == note_key_id(name, public):
                try:
                    Ed25519PublicKey.from_public_bytes(public).verify(signature[4:], text.encode())
                except InvalidSignature:
                    raise Refused from None
                return text
    raise Refused


def open_entry(content: bytes, name: str, public: bytes) -> dict:
    """A ledger entry: its signature verified, its root that of its edge, its heads those that were signed."""
    note, _, body = content.decode().rpartition("\n\n")
    lines = open_note(note + "\n", name, public).splitlines()
    fields = dict(line.split(" ", 1) if " " in line else (line, "") for line in lines[3:])
    roots = [base64.b64decode(part) for part in fields["edge"].split()]
    if lines[0] != name or edge_root(roots) != base64.b64decode(lines[2]):
        raise Refused
    if hashlib.sha256(body.encode()).hexdigest() != fields["heads"]:
        raise Refused
    heads = []
    for line in body.splitlines():
        session_id, version, seq, chain_value, whose_it_is = line.split(" ")
        heads.append(
            {
                "session_id": bytes.fromhex(session_id),
                "version": int(version),
                "seq": int(seq),
                "chain": base64.b64decode(chain_value),
                "whose": base64.b64decode(whose_it_is),
            }
        )
    return {
        "number": int(fields["entry"]),
        "previous": bytes.fromhex(fields["previous"]),
        "time": fields["time"],
        "kind": fields["kind"],
        "size": int(lines[1]),
        "root": base64.b64decode(lines[2]),
        "heads": heads,
        "digest": hashlib.sha256(content).digest(),
    }
