"""The receipt of an erasure: what the vault did, as a document that can be signed, kept and checked. Pure.

It holds no personal data, no hash of content and nothing of another tenant. Who it is about, who asked and
what was chosen stand in it as keyed hashes (``vault.sealing.receipts``), everything else as numbers, times
and closed codes. It is as large for a million items as for one: items and keys are the roots of trees. The
format is described in ``docs/reference/receipts.md``; ``vault.policy.receipt_text`` writes it for people.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from vault.encoding import canonical_json
from vault.errors import InvalidInput, Tampered

FORMAT: Final = "session-vault/receipt/1"
RECEIPT_BYTES_MAX: Final = 2**18  # of one receipt in canonical JSON; one with all lists full has under half
STORES_MAX: Final = 103  # the vault's own three and 100 external ones
EXCEPTIONS_MAX: Final = 1_000
#: Beyond this, readers in other languages round an integer (I-JSON, RFC 7493 section 2.2).
COUNT_MAX: Final = 2**53 - 1
#: What stands as ``previous`` in a tenant's first receipt.
NO_RECEIPT: Final = "0" * 64
#: The root of a tree without leaves (RFC 6962 section 2.1).
NO_LEAVES: Final = hashlib.sha256(b"").hexdigest()

State = Literal["incomplete", "executed", "verified", "barrier_passed"]
Selection = Literal["session", "subject", "memory", "artifact", "label", "tenant", "policy"]
Reason = Literal["person_request", "policy", "contract_end", "court", "other"]
Kind = Literal["session", "event", "memory", "summary", "embedding", "artifact", "fork", "cache", "export"]
Action = Literal["erased", "recomputed", "detached", "held", "minimum", "already_gone"]
#: ``vault``: nobody asked, the vault followed a policy.
Role = Literal["agent", "owner", "support", "auditor", "privacy_officer", "administrator", "vault"]
Result = Literal["done", "failed", "unreachable"]
Basis = Literal["hold", "minimum"]
Unchecked = Literal[
    "backups",
    "exported_copies",
    "external_targets",
    "filesystem_snapshots",
    "model_provider",
    "open_reader",
    "process_memory",
    "replicas",
    "storage_media",
    "swap",
]
#: What no vault can look into: a receipt that does not list all of these is none.
OUT_OF_REACH: Final[frozenset[Unchecked]] = frozenset(
    {
        "backups",
        "exported_copies",
        "filesystem_snapshots",
        "model_provider",
        "replicas",
        "storage_media",
        "swap",
    }
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def iso(us: int) -> str:
    """A time as every receipt has it: ISO 8601 in UTC to the microsecond."""
    moment = _EPOCH + timedelta(microseconds=us)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _microseconds(given: object) -> int:
    if not isinstance(given, str):
        raise ValueError("not a time")  # noqa: TRY004 - what pydantic takes for a refusal
    # Other spellings of the same time are refused by ``decode``: they do not read back the same.
    return (datetime.fromisoformat(given).astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


_Time = Annotated[int, BeforeValidator(_microseconds)]
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
_Positive = Annotated[int, Field(ge=1, le=COUNT_MAX)]
_STRICT: Final = ConfigDict(
    defer_build=True,  # a command that reads no receipt does not pay for it
    extra="forbid",
    strict=True,
    alias_generator=lambda name: name.removesuffix("_us"),
    hide_input_in_errors=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """What was chosen: of what kind, and a keyed hash of which."""

    __pydantic_config__ = _STRICT

    kind: Selection
    mark: _Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asked: a pseudonym of the tenant, and in which role; no pseudonym when the role is ``vault``."""

    __pydantic_config__ = _STRICT

    pseudonym: _Digest | None
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """The items that were erased: how many, and the Merkle root over their keyed ids, sorted."""

    __pydantic_config__ = _STRICT

    count: _Count
    root: _Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys that were destroyed: how many, and the Merkle root over their fingerprints, sorted."""

    __pydantic_config__ = _STRICT

    destroyed: _Count
    root: _Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """What was deleted in one store.

    Attributes:
        store: ``data.db``, ``keys.db``, ``blobs``, or ``external:`` and a number from 1.
        rows: rows deleted.
        blobs: files or objects deleted.
        wal_truncated: whether the write-ahead log was emptied; None for a store that has none.
        result: whether all that was to go there went.
    """

    __pydantic_config__ = _STRICT

    store: Annotated[str, Field(pattern=r"^(data\.db|keys\.db|blobs|external:[1-9][0-9]{0,3})$")]
    rows: _Count
    blobs: _Count
    wal_truncated: bool | None
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Exempted:
    """What stays: how many of a kind, because of a hold or a statutory minimum, and until when."""

    __pydantic_config__ = _STRICT

    kind: Kind
    count: _Positive
    basis: Basis
    until_us: _Time | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When it was asked for, unreadable for everybody, gone from the stores, searched for; None: not yet."""

    __pydantic_config__ = _STRICT

    requested_us: _Time
    invisible_us: _Time
    erased_us: _Time | None
    verified_us: _Time | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """Whether the keys above were replaced since, so that copies of the destroyed keys open nothing."""

    __pydantic_config__ = _STRICT

    state: Literal["pending", "passed"]
    at_us: _Time | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What the vault did in one erasure, as far as it had come.

    Attributes:
        operation: ``era_`` and a UUID.
        vault: the name of the vault's signing key.
        tenant: a pseudonym of the tenant, the same in all of its receipts.
        number: counts the tenant's receipts from 1.
        previous: ``digest`` of the tenant's receipt before, or ``NO_RECEIPT``.
        follows: ``digest`` of the newest earlier receipt of the same operation; None in its first.
        state: how far it had come.
        selector: what was chosen.
        subject: who it is about, as an HMAC under a key that only the requester has; None: about nobody.
        requested_by: who asked.
        reason: why.
        policy: digest of the policy that was in force.
        plan: digest of the plan that was carried out.
        counts: how many items of a kind met which action; no zeros.
        items: the items that were erased.
        keys: the keys that were destroyed.
        stores: what was deleted where.
        exceptions: what stays, and why.
        not_checked: what the vault did not look into, sorted; ``OUT_OF_REACH`` at least.
        times: when.
        backup_horizon_us: from when on no backup is kept that holds what was erased; None: not known.
        barrier: whether the keys above were replaced since.
    """

    __pydantic_config__ = _STRICT

    operation: Annotated[str, Field(pattern="^era_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    vault: Annotated[str, Field(pattern="^[A-Za-z0-9._/-]{1,128}$")]
    tenant: _Digest
    number: _Positive
    previous: _Digest
    follows: _Digest | None
    state: State
    selector: Selector
    subject: _Digest | None
    requested_by: Requester
    reason: Reason
    policy: _Digest
    plan: _Digest
    counts: Mapping[Kind, Annotated[Mapping[Action, _Positive], Field(min_length=1)]]
    items: Items
    keys: Keys
    stores: Annotated[tuple[Store, ...], Field(max_length=STORES_MAX)]
    exceptions: Annotated[tuple[Exempted, ...], Field(max_length=EXCEPTIONS_MAX)]
    not_checked: tuple[Unchecked, ...]
    times: Times
    backup_horizon_us: _Time | None
    barrier: Barrier
    format: Literal["session-vault/receipt/1"] = FORMAT


_READ: Final = TypeAdapter(Receipt)
_FIELDS: Final = {field.name.removesuffix("_us") for field in fields(Receipt)}


def encode(receipt: Receipt) -> bytes:
    """The receipt in canonical JSON, unsigned: sorted keys, no spaces, ASCII.

    Raises:
        InvalidInput: it is not one that ``decode`` gives back; the sentence names the field.
    """
    try:
        encoded = _encoded(receipt)
        read = decode(encoded)
    except Tampered as refusal:
        raise InvalidInput(str(refusal)) from None
    except OverflowError:
        raise InvalidInput("a receipt's time is outside of the calendar") from None
    if read != receipt:
        raise InvalidInput("a receipt holds a value of a type that does not read back the same")
    return encoded


def decode(encoded: bytes) -> Receipt:
    """The receipt of canonical JSON.

    Raises:
        Tampered: not what ``encode`` writes: a field is missing, unknown or of the wrong type, the spelling
            is another, or two fields contradict each other; the sentence names the field.
    """
    if len(encoded) > RECEIPT_BYTES_MAX:
        raise Tampered("this is longer than any receipt")
    try:
        receipt = _READ.validate_json(encoded)
    except ValidationError as refused:
        raise Tampered(_sentence(refused)) from None
    except OverflowError:  # a time outside of the years 1 to 9999 in UTC
        raise Tampered("a receipt's time is outside of the calendar") from None
    if wrong := _contradiction(receipt):
        raise Tampered(wrong)
    # Two spellings of one receipt would have two digests; this also finds a field that stands twice.
    if _encoded(receipt) != encoded:
        raise Tampered("a receipt is not in canonical JSON")
    return receipt


def document(receipt: Receipt) -> dict[str, Any]:
    """The receipt as a JSON object."""
    written: dict[str, Any] = _written(receipt)
    return written


def digest(receipt: Receipt) -> str:
    """What the tenant's next receipt names as ``previous``: SHA-256 of ``encode``, in hexadecimal."""
    return hashlib.sha256(encode(receipt)).hexdigest()


def _encoded(receipt: Receipt) -> bytes:
    return canonical_json(document(receipt))


def _written(value: Any) -> Any:
    """A part of a receipt as JSON: times as text under names without their unit."""
    if is_dataclass(value):
        written = {}
        for field in fields(value):
            part, name = getattr(value, field.name), field.name.removesuffix("_us")
            written[name] = iso(part) if name != field.name and type(part) is int else _written(part)
        return written
    if isinstance(value, Mapping):
        return {key: _written(part) for key, part in value.items()}
    return [_written(part) for part in value] if isinstance(value, tuple) else value


def _sentence(refused: ValidationError) -> str:
    """Which field is wrong; a name that is none of ours is not quoted."""
    error = refused.errors(include_url=False, include_context=False, include_input=False)[0]
    if not error["loc"]:
        return "this is not a receipt: it is no JSON object"
    field = error["loc"][0]
    if field not in _FIELDS:
        return "a receipt has a field that the format does not know"
    if error["type"] == "missing":
        return f"a receipt lacks its field {field}, or a part of it"
    return f"a receipt's field {field} is not what the format asks for"


def _contradiction(receipt: Receipt) -> str | None:
    """What one field says against another, as a sentence."""
    times, state = receipt.times, receipt.state
    verified = state in {"verified", "barrier_passed"}
    stores = [store.store for store in receipt.stores]
    emptied = all(store.wal_truncated is not False for store in receipt.stores)
    checks = (
        (
            (receipt.number == 1) == (receipt.previous == NO_RECEIPT),
            "a receipt's number and previous contradict each other",
        ),
        (
            (receipt.requested_by.role == "vault") == (receipt.requested_by.pseudonym is None),
            "a receipt names whoever asked, and nobody when the vault followed a policy",
        ),
        (
            (receipt.items.count == 0) == (receipt.items.root == NO_LEAVES)
            and (receipt.keys.destroyed == 0) == (receipt.keys.root == NO_LEAVES),
            "a receipt's tree has another number of leaves than its count says",
        ),
        (
            verified == (times.verified_us is not None)
            and (state == "incomplete" or times.erased_us is not None),
            "a receipt's state and its times contradict each other",
        ),
        (
            (receipt.barrier.state == "passed")
            == (state == "barrier_passed")
            == (receipt.barrier.at_us is not None),
            "a receipt's state and its barrier contradict each other",
        ),
        (len(set(stores)) == len(stores), "a receipt names a store twice"),
        (
            state == "incomplete" or all(store.result == "done" for store in receipt.stores),
            "a receipt whose stores are not all done must be incomplete",
        ),
        (
            emptied
            or state == "incomplete"
            or (state == "executed" and "open_reader" in receipt.not_checked),
            "a receipt of a write-ahead log that was not emptied is incomplete, or executed with open_reader",
        ),
        (
            list(receipt.not_checked) == sorted({*receipt.not_checked, *OUT_OF_REACH}),
            "a receipt lists what was not checked, sorted and once: at least what no vault can look into",
        ),
    )
    return next((sentence for holds, sentence in checks if not holds), None)
