"""Receipts: nobody can change one, take one out of the chain, or see whom it is about (D5, D6, K4)."""

import base64
import hashlib
import hmac
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from vault.encoding import canonical_json
from vault.errors import InvalidInput, NotFound, Tampered
from vault.model import format_id
from vault.policy.receipt import (
    NO_LEAVES,
    NO_RECEIPT,
    OUT_OF_REACH,
    Barrier,
    Exempted,
    Items,
    Keys,
    Receipt,
    Requester,
    Selector,
    Store,
    Times,
    decode,
    digest,
    document,
    encode,
)
from vault.policy.receipt_text import rendered
from vault.sealing.notes import Signer, opened
from vault.sealing.receipts import (
    chain_of,
    check_item,
    check_subject,
    item_mark,
    new_key,
    proof,
    proof_file,
    proven,
    pseudonym,
    selector_mark,
    signed,
    subject_mark,
    tree_root,
    verified,
)

OPERATION = format_id("era", bytes(range(16)))
SIGNER, OTHER = Signer(b"1" * 32, "session-vault/one"), Signer(b"2" * 32, "session-vault/one")
KEY, TENANT_KEY = b"k" * 32, b"t" * 32
ITEMS = tuple(format_id("ses", bytes([number] * 16)) for number in range(5))
MARKS = sorted(item_mark(KEY, OPERATION, item) for item in ITEMS)
DIGEST = hashlib.sha256(b"a document").hexdigest()
FULL = Receipt(
    operation=OPERATION,
    vault=SIGNER.name,
    tenant=pseudonym(TENANT_KEY, "tenant", "acme"),
    number=1,
    previous=NO_RECEIPT,
    follows=None,
    state="verified",
    selector=Selector(kind="subject", mark=selector_mark(KEY, OPERATION, "subject", "Ann Onym")),
    subject=subject_mark(KEY, OPERATION, "Ann Onym"),
    requested_by=Requester(pseudonym=pseudonym(TENANT_KEY, "requester", "Olga"), role="privacy_officer"),
    reason="person_request",
    policy=DIGEST,
    plan=DIGEST,
    counts={"session": {"erased": 5, "held": 1}, "memory": {"recomputed": 2}},
    items=Items(count=5, root=tree_root(MARKS).hex()),
    keys=Keys(destroyed=2, root=tree_root([b"fingerprint 1", b"fingerprint 2"]).hex()),
    stores=(
        Store(store="keys.db", rows=7, blobs=0, wal_truncated=True, result="done"),
        Store(store="external:1", rows=0, blobs=3, wal_truncated=None, result="done"),
    ),
    exceptions=(Exempted(kind="session", count=1, basis="hold", until_us=None),),
    not_checked=tuple(sorted(OUT_OF_REACH)),
    times=Times(requested_us=1_000_000, invisible_us=1_000_001, erased_us=2_000_000, verified_us=3_000_000),
    backup_horizon_us=10**15,
    barrier=Barrier(state="pending", at_us=None),
)
PASSED = replace(FULL, state="barrier_passed", barrier=Barrier(state="passed", at_us=4_000_000))
BEGUN = replace(FULL, state="incomplete", times=replace(FULL.times, erased_us=None, verified_us=None))
FILE = signed(SIGNER, FULL)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=4,
)


def places(value: object, path: tuple = ()) -> list[tuple]:
    """The path of every value within a JSON value but the whole."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, part in parts for found in ((*path, key), *places(part, (*path, key)))]


PLACES = places(json.loads(FILE))


def changed(path: tuple, change) -> bytes:
    """The file with one of its values changed, in the spelling that the vault would use."""
    whole = json.loads(FILE)
    within = whole
    for key in path[:-1]:
        within = within[key]
    change(within, path[-1])
    return canonical_json(whole) + b"\n"


# ---------------------------------------------------------------------------------------------- document


def test_what_is_written_reads_back_the_same():
    for receipt in (FULL, PASSED, BEGUN):
        assert decode(encode(receipt)) == receipt
        assert verified(signed(SIGNER, receipt), SIGNER.public) == receipt


digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
moments = st.integers(-(10**15), 10**17)


@given(
    kept=st.lists(
        st.builds(
            Exempted,
            kind=st.sampled_from(["event", "memory"]),
            count=st.integers(1, 2**53 - 1),
            basis=st.sampled_from(["hold", "minimum"]),
            until_us=st.none() | moments,
        ),
        max_size=4,
    ),
    times=st.builds(
        Times, **dict.fromkeys(("requested_us", "invisible_us", "erased_us", "verified_us"), moments)
    ),
    names=st.builds(Selector, kind=st.sampled_from(["tenant", "policy"]), mark=digests),
    horizon=st.none() | moments,
    rows=st.integers(0, 2**53 - 1),
)
def test_any_numbers_and_times_read_back_the_same_under_one_spelling(kept, times, names, horizon, rows):
    receipt = replace(
        FULL,
        exceptions=tuple(kept),
        times=times,
        selector=names,
        backup_horizon_us=horizon,
        stores=(replace(FULL.stores[0], rows=rows),),
    )
    encoded = encode(receipt)
    assert decode(encoded) == receipt
    assert canonical_json(json.loads(encoded)) == encoded
    assert encoded.isascii()


@pytest.mark.parametrize("field", sorted(document(FULL)))
def test_a_receipt_without_one_of_its_fields_is_refused(field: str):
    parts = document(FULL)
    del parts[field]
    with pytest.raises(Tampered):
        decode(canonical_json(parts))


#: What may stand at these places although it has another type, or is empty.
ALSO_TRUE = [
    (("stores", 1, "wal_truncated"), True),
    (("counts",), {}),
    (("stores",), []),
    (("exceptions",), []),
]


@pytest.mark.parametrize(
    "path", [path[1:] for path in PLACES if path[0] == "receipt" and len(path) > 1], ids=str
)
def test_a_value_of_another_type_is_refused_without_being_quoted(path: tuple):
    for value in (True, 1.0, -1, 2**63, [], {}, "Ann Onym", ["Ann Onym"], {"Ann Onym": 1}):
        whole = within = document(FULL)
        for key in path[:-1]:
            within = within[key]
        if (path, value) in ALSO_TRUE or within[path[-1]] is value:
            continue
        within[path[-1]] = value
        with pytest.raises(Tampered) as refused:
            decode(canonical_json(whole))
        assert "Ann" not in str(refused.value)


@pytest.mark.parametrize("where", [(), ("items",), ("stores", 0), ("times",), ("requested_by",)], ids=str)
def test_a_field_that_the_format_does_not_know_is_refused_and_not_quoted(where: tuple):
    whole = document(FULL)
    within = whole
    for key in where:
        within = within[key]
    within["Ann Onym"] = "Ann Onym"
    with pytest.raises(Tampered) as refused:
        decode(canonical_json(whole))
    assert "Ann" not in str(refused.value)


SPELLINGS = {
    "spaces": encode(FULL).replace(b":", b": ", 1),
    "a newline": encode(FULL) + b"\n",
    "another order": json.dumps(
        dict(reversed(json.loads(encode(FULL)).items())), separators=(",", ":")
    ).encode(),
    "a field twice": encode(FULL).replace(b'"number":1', b'"number":1,"number":1'),
    "another zone": encode(FULL).replace(b"00:00:01.000000Z", b"01:00:01.000000+01:00"),
    "fewer digits": encode(FULL).replace(b"00:00:01.000000Z", b"00:00:01Z"),
    "escapes": encode(FULL).replace(b'"reason"', b'"re\\u0061son"'),
    "nothing": b"",
    "a list": b"[]",
    "no text": b"\xff",
    "depth": b"[" * 100_000,
    "length": b" " * 2**19 + encode(FULL),
}


@pytest.mark.parametrize("encoded", SPELLINGS.values(), ids=SPELLINGS)
def test_another_spelling_of_the_same_receipt_is_refused(encoded: bytes):
    assert encoded != encode(FULL)
    with pytest.raises(Tampered):
        decode(encoded)


CONTRADICTIONS = {
    "a first receipt with one before it": {"previous": DIGEST},
    "a second receipt with none before it": {"number": 2},
    "verified at no time": {"times": replace(FULL.times, verified_us=None)},
    "verified, but not": {"state": "executed"},
    "erased at no time": {"times": replace(FULL.times, erased_us=None)},
    "the barrier passed, but not": {"state": "barrier_passed"},
    "a barrier of no time": {"state": "barrier_passed", "barrier": Barrier(state="passed", at_us=None)},
    "a barrier that comes and has come": {"barrier": Barrier(state="pending", at_us=5)},
    "a store that failed": {"stores": (replace(FULL.stores[0], result="failed"),)},
    "a store twice": {"stores": FULL.stores[:1] * 2},
    "an unknown store": {"stores": (replace(FULL.stores[0], store="external:acme"),)},
    "a log that was not emptied": {"stores": (replace(FULL.stores[0], wal_truncated=False),)},
    "a tree of nothing": {"items": Items(count=5, root=NO_LEAVES)},
    "nothing with a tree": {"keys": Keys(destroyed=0, root=DIGEST)},
    "the vault with a name": {"requested_by": Requester(pseudonym=DIGEST, role="vault")},
    "a person without a name": {"requested_by": Requester(pseudonym=None, role="owner")},
    "backups that were checked": {"not_checked": tuple(sorted(OUT_OF_REACH - {"backups"}))},
    "not sorted": {"not_checked": tuple(sorted(OUT_OF_REACH, reverse=True))},
    "a reason in free text": {"reason": "Ann Onym asked"},
    "an unknown kind": {"counts": {"person": {"erased": 1}}},
    "an unknown action": {"counts": {"session": {"lost": 1}}},
    "no action": {"counts": {"session": {}}},
    "a zero": {"counts": {"session": {"erased": 0}}},
    "a boolean": {"number": True},
    "a huge number": {"counts": {"session": {"erased": 2**53}}},
    "a time beyond the calendar": {"backup_horizon_us": 2**62},
    "another operation": {"operation": "ses" + OPERATION[3:]},
    "a name with spaces": {"vault": "Ann Onym"},
    "a list in place of a tuple": {"exceptions": list(FULL.exceptions)},
}


@pytest.mark.parametrize("wrong", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_receipt_that_contradicts_itself_is_neither_written_nor_read(wrong: dict):
    receipt = replace(FULL, **wrong)
    with pytest.raises(InvalidInput) as refused:
        encode(receipt)
    assert "Ann" not in str(refused.value)
    with pytest.raises(InvalidInput):
        signed(SIGNER, receipt)


def test_a_log_that_a_reader_held_is_told_and_never_called_verified():
    held = replace(FULL.stores[0], wal_truncated=False)
    executed = replace(FULL, state="executed", times=replace(FULL.times, verified_us=None), stores=(held,))
    told = tuple(sorted(OUT_OF_REACH | {"open_reader"}))
    assert "not emptied" in rendered(replace(executed, not_checked=told))
    assert encode(replace(BEGUN, stores=(held,)))
    for silent in (executed, replace(FULL, stores=(held,), not_checked=told)):
        with pytest.raises(InvalidInput):
            encode(silent)


def test_a_receipt_names_no_one_and_holds_no_hash_that_can_be_guessed():
    """D6: whoever finds it learns nothing about a person."""
    text = FILE.decode()
    for name in ("Ann Onym", "Olga", "acme", *ITEMS, *(item[4:] for item in ITEMS)):
        assert name not in text
        for hashed in ("sha256", "sha1", "md5", "sha512", "blake2b"):
            assert hashlib.new(hashed, name.encode()).hexdigest()[:32] not in text


def test_two_receipts_about_one_person_share_nothing_about_the_person():
    """D6: not even under one key, by an oversight of whoever keeps keys."""
    second = format_id("era", bytes(range(1, 17)))
    for key in (KEY, new_key()):
        assert subject_mark(KEY, OPERATION, "Ann Onym") != subject_mark(key, second, "Ann Onym")
        assert item_mark(KEY, OPERATION, ITEMS[0]) != item_mark(key, second, ITEMS[0])
        assert selector_mark(KEY, OPERATION, "subject", "Ann") != selector_mark(key, second, "subject", "Ann")
    assert len({subject_mark(KEY, OPERATION, "a"), selector_mark(KEY, OPERATION, "subject", "a")}) == 2


def test_the_same_tenant_is_recognised_under_its_key_and_another_one_is_not():
    assert pseudonym(TENANT_KEY, "tenant", "acme") == FULL.tenant
    other = [pseudonym(KEY, "tenant", "acme"), pseudonym(TENANT_KEY, "requester", "acme")]
    assert FULL.tenant not in other


def test_a_receipt_is_as_large_for_a_hundred_thousand_items():
    marks = [number.to_bytes(32) for number in range(100_000)]
    many = replace(FULL, items=Items(count=len(marks), root=tree_root(marks).hex()))
    assert len(encode(many)) - len(encode(FULL)) < 10


# --------------------------------------------------------------------------------------------- signature


def test_every_flipped_bit_of_a_file_is_refused():
    """K4."""
    for place in range(len(FILE)):
        bent = bytearray(FILE)
        bent[place] ^= 1 << place % 8
        with pytest.raises(Tampered):
            verified(bytes(bent), SIGNER.public)


@given(st.integers(0, len(FILE)), st.integers(0, 12), st.binary(max_size=12))
def test_a_file_with_bytes_added_removed_or_replaced_is_refused(start: int, removed: int, added: bytes):
    """K4."""
    bent = FILE[:start] + added + FILE[start + removed :]
    assume(bent != FILE)
    with pytest.raises(Tampered):
        verified(bent, SIGNER.public)


@settings(max_examples=300)
@given(st.sampled_from(PLACES), json_values)
def test_a_file_with_any_value_replaced_is_refused(path: tuple, value: object):
    """K4: spelled as the vault spells, so that the signature alone stands in the way."""

    def replaced(within, key):
        within[key] = value

    try:
        bent = changed(path, replaced)
    except InvalidInput:
        assume(False)  # no JSON that the vault could have read
    assume(bent != FILE)
    with pytest.raises(Tampered):
        verified(bent, SIGNER.public)


@pytest.mark.parametrize("path", PLACES, ids=str)
def test_a_file_with_any_value_removed_is_refused(path: tuple):
    """K4."""

    def removed(within, key):
        del within[key]

    with pytest.raises(Tampered):
        verified(changed(path, removed), SIGNER.public)


PLAUSIBLE = {
    "another operation": {"operation": format_id("era", bytes(16))},
    "another vault": {"vault": "session-vault/two"},
    "another tenant": {"tenant": DIGEST},
    "another place in the chain": {"number": 2, "previous": DIGEST},
    "an earlier receipt": {"follows": DIGEST},
    "another state": {"state": "executed", "times": replace(FULL.times, verified_us=None)},
    "another selector": {"selector": replace(FULL.selector, kind="session")},
    "nobody": {"subject": None},
    "another requester": {"requested_by": replace(FULL.requested_by, role="owner")},
    "another reason": {"reason": "court"},
    "another policy": {"policy": NO_RECEIPT},
    "another plan": {"plan": NO_RECEIPT},
    "a kept session less": {"counts": {"session": {"erased": 6}}},
    "an item more": {"items": replace(FULL.items, count=6)},
    "a key more": {"keys": replace(FULL.keys, destroyed=3)},
    "a store less": {"stores": FULL.stores[:1]},
    "no exception": {"exceptions": ()},
    "something less checked": {"not_checked": tuple(sorted(OUT_OF_REACH | {"process_memory"}))},
    "an earlier time": {"times": replace(FULL.times, requested_us=0)},
    "no backup": {"backup_horizon_us": None},
    "a barrier": {"state": "barrier_passed", "barrier": PASSED.barrier},
}


def test_every_field_of_a_receipt_is_tried_with_another_value():
    tried = {name for change in PLAUSIBLE.values() for name in change}
    assert tried == {field.name for field in fields(Receipt)} - {"format"}


@pytest.mark.parametrize("change", PLAUSIBLE.values(), ids=PLAUSIBLE)
def test_another_receipt_under_a_true_signature_is_refused(change: dict):
    """K4: well-formed in every way, so that only the signature tells."""
    forged = json.loads(signed(Signer(b"1" * 32, change.get("vault", SIGNER.name)), replace(FULL, **change)))
    assert verified(canonical_json(forged) + b"\n", None) == replace(FULL, **change)
    forged["signature"] = json.loads(FILE)["signature"]
    with pytest.raises(Tampered, match="sign"):
        verified(canonical_json(forged) + b"\n", SIGNER.public)


def test_a_receipt_of_another_key_is_refused_even_under_the_same_name_and_key_id():
    foreign = json.loads(signed(OTHER, FULL))
    for key_id in (foreign["signature"]["key_id"], json.loads(FILE)["signature"]["key_id"]):
        foreign["signature"]["key_id"] = key_id
        content = canonical_json(foreign) + b"\n"
        with pytest.raises(Tampered):
            verified(content, SIGNER.public)
        assert verified(content, None) == FULL


def test_a_vault_signs_no_receipt_in_the_name_of_another():
    with pytest.raises(InvalidInput):
        signed(SIGNER, replace(FULL, vault="session-vault/two"))


@pytest.mark.parametrize("public", [b"", b"1" * 31, b"1" * 33], ids=len)
def test_a_public_key_of_another_length_is_refused(public: bytes):
    with pytest.raises(InvalidInput):
        verified(FILE, public)


def test_a_public_key_that_is_no_point_of_the_curve_verifies_nothing():
    for public in (b"\x02" + bytes(31), b"\xff" * 32):
        with pytest.raises(Tampered):
            verified(FILE, public)


def test_the_signature_can_be_checked_without_this_program():
    """By the lines that docs/reference/receipts.md gives for it."""
    page = (Path(__file__).resolve().parents[2] / "docs/reference/receipts.md").read_text(encoding="utf-8")
    names = {}
    exec(page.partition("```python\n")[2].partition("```")[0], names)  # noqa: S102
    assert names["check"](FILE, SIGNER.public) == document(FULL)
    with pytest.raises(InvalidSignature):
        names["check"](FILE.replace(b"person_request", b"court"), SIGNER.public)
    named = hashlib.sha256(SIGNER.name.encode() + b"\n\x01" + SIGNER.public).hexdigest()[:8]
    assert json.loads(FILE)["signature"]["key_id"] == named


def test_a_signature_of_the_ledger_is_none_of_a_receipt_and_the_other_way_round():
    """One key signs both, and neither text can be taken for the other."""
    entry = SIGNER.sign(f"{SIGNER.name}\n1\nroot\n")
    value = base64.b64decode(entry.split()[-1])[4:].hex()
    whole = json.loads(FILE)
    whole["signature"]["value"] = value
    with pytest.raises(Tampered):
        verified(canonical_json(whole) + b"\n", SIGNER.public)
    note = SIGNER.sign(encode(FULL).decode() + "\n")
    assert not opened(note, SIGNER.name, SIGNER.public).startswith(SIGNER.name)


# ------------------------------------------------------------------------------------------------- chain


def chained(*receipts: Receipt) -> list[Receipt]:
    """The receipts, numbered and joined; one of an operation that was there follows it."""
    joined: list[Receipt] = []
    for number, receipt in enumerate(receipts, 1):
        earlier = [before for before in joined if before.operation == receipt.operation]
        joined.append(
            replace(
                receipt,
                number=number,
                previous=digest(joined[-1]) if joined else NO_RECEIPT,
                follows=digest(earlier[-1]) if earlier else None,
            )
        )
    return joined


OTHERS = [replace(FULL, operation=format_id("era", bytes([number] * 16))) for number in range(3)]
CHAIN = chained(BEGUN, OTHERS[0], BEGUN, FULL, OTHERS[1], PASSED)


def test_a_chain_and_every_part_of_it_is_taken_and_gives_what_the_next_receipt_names():
    assert chain_of([]) == NO_RECEIPT
    for start in range(len(CHAIN)):
        for end in range(start + 1, len(CHAIN) + 1):
            assert chain_of(CHAIN[start:end]) == digest(CHAIN[end - 1])


@pytest.mark.parametrize("place", range(len(CHAIN) - 1))
def test_a_receipt_that_was_replaced_is_missed_by_the_next(place: int):
    """K4: even by another one that the vault signed."""
    other = replace(CHAIN[place], backup_horizon_us=1)
    with pytest.raises(Tampered):
        chain_of([*CHAIN[:place], other, *CHAIN[place + 1 :]])


@pytest.mark.parametrize("place", range(1, len(CHAIN) - 1))
def test_a_receipt_that_was_taken_out_repeated_or_moved_is_missed(place: int):
    """K4."""
    before, after = CHAIN[:place], CHAIN[place + 1 :]
    for bent in (
        before + after,
        [*before, CHAIN[place], *CHAIN[place:]],
        [*before, *after[::-1], CHAIN[place]],
    ):
        with pytest.raises(Tampered):
            chain_of(bent)


def test_receipts_are_not_joined_by_numbers_alone():
    joined = chained(FULL, OTHERS[0])
    for change in (
        {"previous": digest(CHAIN[3])},
        {"tenant": DIGEST},
        {"vault": "session-vault/two"},
        {"number": 3},
        {"follows": DIGEST},
        {"follows": digest(joined[0])},
    ):
        with pytest.raises(Tampered):
            chain_of([joined[0], replace(joined[1], **change)])


def test_a_later_receipt_of_an_operation_follows_the_newest_and_never_says_less():
    incomplete = chained(FULL, BEGUN)
    with pytest.raises(Tampered, match="less"):
        chain_of(incomplete)
    first, second, third = chained(BEGUN, BEGUN, FULL)
    for follows in (None, digest(first), DIGEST):
        with pytest.raises(Tampered):
            chain_of([first, second, replace(third, follows=follows)])


# ----------------------------------------------------------------------------------- whom and what it names


def test_only_the_key_handed_out_shows_whom_a_receipt_is_about():
    """D5."""
    check_subject(FULL, "Ann Onym", KEY)
    for name, key in (("Ann Onyx", KEY), ("Ann Onym", new_key()), ("", KEY), ("Ann Onym\n", KEY)):
        with pytest.raises(NotFound):
            check_subject(FULL, name, key)
    with pytest.raises(NotFound):
        check_subject(replace(FULL, subject=None), "Ann Onym", KEY)
    with pytest.raises(InvalidInput):
        check_subject(FULL, "Ann Onym", KEY[1:])
    with pytest.raises(InvalidInput):
        check_subject(FULL, "Ann \udc80", KEY)


def test_a_mark_is_an_hmac_that_anybody_with_the_key_can_compute():
    parts = [b"session-vault/1/receipt", b"subject", OPERATION.encode(), b"Ann Onym"]
    packed = len(parts).to_bytes(4) + b"".join(len(part).to_bytes(4) + part for part in parts)
    assert hmac.new(KEY, packed, "sha256").hexdigest() == FULL.subject


@pytest.mark.parametrize("item", ITEMS)
def test_every_erased_item_can_be_shown_to_be_in_the_receipt(item: str):
    """D5, D6."""
    index = MARKS.index(item_mark(KEY, OPERATION, item))
    content = proof_file(index, proof(MARKS, index))
    check_item(FULL, item, KEY, content)
    for other, key, receipt, shown in (
        (format_id("ses", b"x" * 16), KEY, FULL, content),
        (item, new_key(), FULL, content),
        (item, KEY, replace(FULL, operation=OTHERS[0].operation), content),
        (item, KEY, replace(FULL, items=Items(count=4, root=FULL.items.root)), content),
        (item, KEY, replace(FULL, items=Items(count=5, root=DIGEST)), content),
        (item, KEY, FULL, proof_file((index + 1) % 5, proof(MARKS, index))),
        (item, KEY, FULL, proof_file(index, proof(MARKS, (index + 1) % 5))),
        (item, KEY, FULL, proof_file(index, ())),
    ):
        with pytest.raises(NotFound):
            check_item(receipt, other, key, shown)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format":"session-vault/proof/2","index":0,"path":[]}',
        b'{"format":"session-vault/proof/1","index":-1,"path":[]}',
        b'{"format":"session-vault/proof/1","index":true,"path":[]}',
        b'{"format":"session-vault/proof/1","index":0,"path":["ab"]}',
        b'{"format":"session-vault/proof/1","index":0,"path":[],"Ann":1}',
        b" " * 10_000,
    ],
)
def test_a_file_that_is_no_proof_is_refused(content: bytes):
    with pytest.raises(Tampered, match="this file is"):
        check_item(FULL, ITEMS[0], KEY, content)


# ------------------------------------------------------------------------------------------------- trees

#: Leaves and roots of Certificate Transparency's own tests (google/certificate-transparency, merkletree).
CT_LEAVES = [
    bytes.fromhex(leaf)
    for leaf in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
CT_ROOTS = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


@pytest.mark.parametrize("size", CT_ROOTS)
def test_the_root_is_that_of_certificate_transparency(size: int):
    assert tree_root(CT_LEAVES[:size]).hex() == CT_ROOTS[size]
    assert tree_root([]).hex() == NO_LEAVES


def test_every_leaf_of_every_tree_is_proven_and_at_no_other_place():
    leaves = [bytes([number]) * 32 for number in range(20)]
    for size in range(1, 20):
        root = tree_root(leaves[:size])
        for index in range(size):
            path = proof(leaves[:size], index)
            assert len(path) <= (size - 1).bit_length()
            places_shown = [
                place for place in range(-1, size + 2) if proven(root, size, place, leaves[index], path)
            ]
            assert places_shown == [index]
            for number in range(20):
                assert proven(root, size, index, leaves[number], path) == (number == index)


@given(st.integers(2, 40), st.data())
def test_a_path_that_was_changed_proves_nothing(size: int, data: st.DataObject):
    leaves = [bytes([number]) * 32 for number in range(size)]
    index = data.draw(st.integers(0, size - 1))
    root, path = tree_root(leaves), list(proof(leaves, index))
    place = data.draw(st.integers(0, len(path) - 1))
    bent = bytearray(path[place])
    bent[data.draw(st.integers(0, 31))] ^= 1 << data.draw(st.integers(0, 7))
    for changed_path in (
        [*path[:place], bytes(bent), *path[place + 1 :]],
        [*path[:place], *path[place + 1 :]],
        [*path, path[place]],
        [path[place], *path],
        [*path[:place], path[place][1:], *path[place + 1 :]],
    ):
        assert not proven(root, size, index, leaves[index], changed_path)


def test_a_node_of_the_tree_passes_for_no_leaf():
    """RFC 6962 section 2.1: leaves and nodes are hashed apart."""
    leaves = [bytes([number]) * 32 for number in range(4)]
    left = b"".join(hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves[:2])
    assert not proven(tree_root(leaves), 2, 0, left, proof(leaves, 0)[1:])


def test_a_path_that_ends_below_the_root_of_its_size_proves_nothing():
    """Else a receipt could claim more items than its tree has."""
    pair = MARKS[:2]
    assert proven(tree_root(pair), 2, 0, pair[0], proof(pair, 0))
    assert not any(proven(tree_root(pair), size, 0, pair[0], proof(pair, 0)) for size in (1, 3, 4, 2**40))


@pytest.mark.parametrize("index", [-1, 5])
def test_there_is_no_proof_for_a_leaf_that_is_not_there(index: int):
    with pytest.raises(InvalidInput):
        proof(MARKS, index)


# -------------------------------------------------------------------------------------------------- text


def test_the_text_says_what_was_done_kept_and_not_checked():
    text = rendered(FULL)
    for said in (
        "**Verified.**",
        "everything of one person",
        "a person asked for it",
        "| sessions | 5 | erased |",
        "| memories | 2 | erased and made again from what stays |",
        "keys destroyed: 2",
        "| `keys.db` | 7 | 0 | emptied | done |",
        "| sessions | 1 | a hold | not known |",
        "2001-09-09T01:46:40.000000Z",
        digest(FULL),
    ):
        assert said in text
    assert text.count("\n- ") - text.partition("## What was not checked")[0].count("\n- ") == len(
        OUT_OF_REACH
    )


@pytest.mark.parametrize("receipt", [FULL, PASSED, BEGUN], ids=lambda receipt: receipt.state)
def test_no_text_claims_that_something_is_gone_everywhere(receipt: Receipt):
    """D6: a receipt says what the vault did."""
    text = rendered(receipt).lower()
    assert "does not say that no copy exists elsewhere" in text
    for claim in ("everywhere", "permanently", "irrecoverabl", "guarantee", "gone for good", "all copies"):
        assert claim not in text


def test_every_word_of_the_format_has_a_text():
    every = replace(
        BEGUN,
        counts={
            kind: dict.fromkeys(
                ("erased", "recomputed", "detached", "held", "minimum", "already_gone"), number
            )
            for number, kind in enumerate(
                ("session", "event", "memory", "summary", "embedding", "artifact", "fork", "cache", "export"),
                1,
            )
        },
        not_checked=tuple(sorted(OUT_OF_REACH | {"external_targets", "open_reader", "process_memory"})),
        stores=tuple(
            Store(store=f"external:{number}", rows=0, blobs=0, wal_truncated=wal, result=result)
            for number, (wal, result) in enumerate(
                [(None, "done"), (True, "failed"), (False, "unreachable")], 1
            )
        ),
        exceptions=(Exempted(kind="cache", count=1, basis="minimum", until_us=0),),
        backup_horizon_us=None,
    )
    assert rendered(every)
    for reason in ("person_request", "policy", "contract_end", "court", "other"):
        for kind in ("session", "subject", "memory", "artifact", "tenant", "policy"):
            named = replace(every, reason=reason, selector=replace(FULL.selector, kind=kind), subject=None)
            assert rendered(replace(named, requested_by=Requester(pseudonym=None, role="vault")))
