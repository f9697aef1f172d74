"""Signed receipts: signature, chain, the keyed hashes in them, and proofs that an item is among those erased.

The signature is that of a C2SP signed note whose text is the receipt's canonical JSON and a newline, so any
program for such notes can check it too. A checkpoint of the ledger, signed by the same key, begins with the
key's name and a receipt with ``{``: neither passes for the other. The trees are RFC 6962's.

The keys of the hashes are made per operation (``new_key``), given to whoever asked, and never stored: without
one, a receipt tells nobody whom it is about, nor whether another receipt is about the same person.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vault.encoding import canonical_json, pack
from vault.errors import InvalidInput, NotFound, Tampered
from vault.policy.receipt import NO_RECEIPT, RECEIPT_BYTES_MAX, Receipt, decode, digest, document, encode
from vault.sealing.notes import Signer, key_id, opened, root_of

ALGORITHM: Final = "Ed25519"
KEY_BYTES: Final = 32
PROOF_FORMAT: Final = "session-vault/proof/1"
PROOF_BYTES_MAX: Final = 8_192  # of a file with a proof: 64 hashes in hexadecimal have under 5,000
#: Of the file: the receipt, its signature, and the names around them.
FILE_BYTES_MAX: Final = RECEIPT_BYTES_MAX + 1_024
#: How far each state has come; a later receipt of an operation never says less.
_REACHED: Final = {"incomplete": 0, "executed": 1, "verified": 2, "barrier_passed": 3}
_HASH_PATTERN: Final = "^[0-9a-f]{64}$"
_STRICT: Final = ConfigDict(
    defer_build=True, extra="forbid", strict=True, frozen=True, hide_input_in_errors=True
)


# ---------------------------------------------------------------------------------------------- signature


class _Signature(BaseModel):
    model_config = _STRICT

    algorithm: Literal["Ed25519"]
    key_id: Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
    value: Annotated[str, Field(pattern="^[0-9a-f]{128}$")]


def signed(signer: Signer, receipt: Receipt) -> bytes:
    """The content of a receipt's file: canonical JSON and a newline.

    Raises:
        InvalidInput: the receipt is not well-formed, or names another key than this one.
    """
    if receipt.vault != signer.name:
        raise InvalidInput("a receipt names the key that signs it; put the name of this vault's key into it")
    note = signer.sign(_text(receipt))
    named = base64.b64decode(note.rstrip("\n").rpartition(" ")[2])
    signature = {"algorithm": ALGORITHM, "key_id": named[:4].hex(), "value": named[4:].hex()}
    return _file(receipt, signature)


def verified(content: bytes, public: bytes | None) -> Receipt:
    """The receipt of a file that this Ed25519 key signed; without a key, its form is all that is checked.

    Raises:
        Tampered: the file is not one that ``signed`` writes, byte for byte, or this key did not sign it.
        InvalidInput: the key has not 32 bytes.
    """
    if public is not None and len(public) != Signer.PUBLIC_BYTES:
        raise InvalidInput("an Ed25519 public key has 32 bytes, 64 hexadecimal digits")
    receipt, signature = _parts(content)
    if public is None:
        return receipt
    if signature.key_id != key_id(receipt.vault, public).hex():
        raise Tampered("this receipt was signed by another key, or what it says of its key was changed")
    value = bytes.fromhex(signature.key_id + signature.value)
    note = f"{_text(receipt)}\n— {receipt.vault} {base64.b64encode(value).decode()}\n"
    try:
        opened(note, receipt.vault, public)
    except (Tampered, ValueError):  # ValueError: 32 bytes that are no point of the curve
        raise Tampered(
            "this receipt's signature does not verify: it was changed, or another key signed it"
        ) from None
    return receipt


def _parts(content: bytes) -> tuple[Receipt, _Signature]:
    if len(content) > FILE_BYTES_MAX:
        raise Tampered("this file is longer than any receipt")
    try:
        parts = orjson.loads(content)
        signature = _Signature.model_validate(parts["signature"])
        encoded = canonical_json(parts["receipt"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValidationError, InvalidInput):
        raise Tampered("this file is not a receipt with its signature") from None
    receipt = decode(encoded)
    # Bytes beside the signed ones, a field that stands twice, another spelling: none of it is signed.
    if _file(receipt, signature.model_dump()) != content:
        raise Tampered("this file is not as the vault writes a receipt: something was added or spelled anew")
    return receipt, signature


def _text(receipt: Receipt) -> str:
    return encode(receipt).decode() + "\n"


def _file(receipt: Receipt, signature: dict[str, str]) -> bytes:
    encode(receipt)  # refuses what could not be read again
    return canonical_json({"receipt": document(receipt), "signature": signature}) + b"\n"


# -------------------------------------------------------------------------------------------------- chain


def chain_of(receipts: Iterable[Receipt]) -> str:
    """What the tenant's next receipt names as ``previous``, after these, each the next of the one before.

    They may begin anywhere in the tenant's chain; ``follows`` can then name a receipt from before them.

    Raises:
        Tampered: one is missing, out of place, of another vault or tenant, does not name the one before it,
            or does not name the newest earlier one of its operation, or says less than that.
    """
    last, head = None, NO_RECEIPT
    whole = False
    newest: dict[str, tuple[str, Receipt]] = {}
    for receipt in receipts:
        if last is None:
            whole = receipt.number == 1
        else:
            _check_next(last, head, receipt)
        _check_follows(newest.get(receipt.operation), receipt, whole=whole)
        last, head = receipt, digest(receipt)
        newest[receipt.operation] = head, receipt
    return head


def _check_next(last: Receipt, head: str, receipt: Receipt) -> None:
    if (receipt.vault, receipt.tenant) != (last.vault, last.tenant):
        raise Tampered("two receipts are of different vaults or tenants, so neither comes before the other")
    if receipt.number != last.number + 1:
        raise Tampered("a receipt is missing from the chain, or stands in another place than its number says")
    if receipt.previous != head:
        raise Tampered("a receipt does not name the one before it: one of them was replaced")


def _check_follows(earlier: tuple[str, Receipt] | None, receipt: Receipt, *, whole: bool) -> None:
    if earlier is None:
        if whole and receipt.follows is not None:
            raise Tampered("a receipt follows one that is not in the chain")
        return
    head, before = earlier
    if receipt.follows != head:
        raise Tampered("a receipt does not name the earlier one of its operation")
    if _REACHED[receipt.state] < _REACHED[before.state]:
        raise Tampered("a receipt says that less was done than an earlier one of its operation")


# ------------------------------------------------------------------------------------------- keyed hashes


def new_key() -> bytes:
    """A fresh key for what a receipt holds as keyed hashes: hand it out once, then forget it."""
    return secrets.token_bytes(KEY_BYTES)


def subject_mark(key: bytes, operation: str, subject: str) -> str:
    """What a receipt holds as ``subject``: HMAC-SHA-256 of the name, for one operation."""
    return _mark(key, b"subject", operation, subject)


def selector_mark(key: bytes, operation: str, kind: str, value: str) -> str:
    """What a receipt holds as its selector's ``mark``."""
    return _mark(key, b"selector", operation, kind, value)


def item_mark(key: bytes, operation: str, item_id: str) -> bytes:
    """An item's keyed id: a leaf of the receipt's tree of items."""
    return bytes.fromhex(_mark(key, b"item", operation, item_id))


def pseudonym(key: bytes, kind: str, name: str) -> str:
    """What stands for a tenant or a requester in all receipts of a tenant, under a key of that tenant."""
    return _mark(key, b"pseudonym", kind, name)


def _mark(key: bytes, what: bytes, *parts: str) -> str:
    if len(key) != KEY_BYTES:
        raise InvalidInput("the key of a receipt's hashes has 32 bytes, 64 hexadecimal digits")
    try:
        message = pack(b"session-vault/1/receipt", what, *(part.encode() for part in parts))
    except UnicodeEncodeError:
        raise InvalidInput("what stands in a receipt as a keyed hash must be Unicode text") from None
    return hmac.digest(key, message, "sha256").hex()


def check_subject(receipt: Receipt, subject: str, key: bytes) -> None:
    """Make sure that a receipt is about this person.

    Raises:
        NotFound: it is not, or the key is another one.
        InvalidInput: the key has not 32 bytes.
    """
    mark = subject_mark(key, receipt.operation, subject)
    if receipt.subject is None or not hmac.compare_digest(mark, receipt.subject):
        raise NotFound("this receipt is not about this person, or the key is not the one handed out with it")


# -------------------------------------------------------------------------------------------------- trees


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """The root of the tree over these leaves in this order, each hashed with RFC 6962's prefix first.

    For a receipt: ``sorted`` item marks, or ``sorted`` key fingerprints.
    """
    return root_of([_leaf(leaf) for leaf in leaves])


def proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The audit path of a leaf (RFC 6962 section 2.1.1), from its sibling upwards; at most 64 hashes.

    Raises:
        InvalidInput: there is no leaf at this index.
    """
    if not 0 <= index < len(leaves):
        raise InvalidInput("there is no leaf at this index; it is from 0 and below their number")
    hashes, path = [_leaf(leaf) for leaf in leaves], list[bytes]()
    while len(hashes) > 1:
        left = 1 << (len(hashes) - 1).bit_length() - 1  # the largest power of two below their number
        inside, beside = (hashes[:left], hashes[left:]) if index < left else (hashes[left:], hashes[:left])
        path.append(root_of(beside))
        index, hashes = index if index < left else index - left, inside
    return tuple(reversed(path))


def proven(root: bytes, size: int, index: int, leaf: bytes, path: Sequence[bytes]) -> bool:
    """Whether this path shows the leaf at this index of a tree of this size (RFC 9162 section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    place, last, node = index, size - 1, _leaf(leaf)
    for sibling in path:
        if last == 0 or len(sibling) != hashlib.sha256().digest_size:
            return False
        if place & 1 or place == last:
            node = root_of((sibling, node))
            while place and not place & 1:  # this node has no sibling on these levels
                place, last = place >> 1, last >> 1
        else:
            node = root_of((node, sibling))
        place, last = place >> 1, last >> 1
    return last == 0 and hmac.compare_digest(node, root)


def _leaf(leaf: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + leaf).digest()


class _Proof(BaseModel):
    model_config = _STRICT

    format: Literal["session-vault/proof/1"]
    index: Annotated[int, Field(ge=0, lt=2**63)]
    path: Annotated[list[Annotated[str, Field(pattern=_HASH_PATTERN)]], Field(max_length=64)]


def proof_file(index: int, path: Sequence[bytes]) -> bytes:
    """The content of a file that shows, with the items' key, that one of them is in a receipt's tree."""
    steps = [step.hex() for step in path]
    return canonical_json({"format": PROOF_FORMAT, "index": index, "path": steps}) + b"\n"


def check_item(receipt: Receipt, item_id: str, key: bytes, proof_content: bytes) -> None:
    """Make sure that an item is among those that a receipt says were erased.

    Raises:
        NotFound: the proof does not show it, or the key is another one.
        Tampered: the file is not a proof.
        InvalidInput: the key has not 32 bytes.
    """
    if len(proof_content) > PROOF_BYTES_MAX:
        raise Tampered("this file is longer than any proof")
    try:
        given = _Proof.model_validate_json(proof_content)
    except ValidationError:
        raise Tampered("this file is not a proof that an item is in a receipt") from None
    mark, path = item_mark(key, receipt.operation, item_id), [bytes.fromhex(step) for step in given.path]
    if not proven(bytes.fromhex(receipt.items.root), receipt.items.count, given.index, mark, path):
        raise NotFound(
            "this proof does not show that the item is among those erased, or the key is another one"
        )
