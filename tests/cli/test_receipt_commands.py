"""`receipt verify` and `receipt show`: a file and a public key are enough to check a receipt (D5, D6, K4)."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from vault.model import format_id
from vault.policy.receipt import (
    NO_LEAVES,
    NO_RECEIPT,
    OUT_OF_REACH,
    Barrier,
    Items,
    Keys,
    Receipt,
    Requester,
    Selector,
    Store,
    Times,
    digest,
    document,
)
from vault.policy.receipt_text import rendered
from vault.sealing.notes import Signer
from vault.sealing.receipts import (
    item_mark,
    new_key,
    proof,
    proof_file,
    selector_mark,
    signed,
    subject_mark,
    tree_root,
)

SIGNER = Signer(b"1" * 32, "session-vault/one")
PUBLIC = SIGNER.public.hex()
PERSON = "Ann Onym"


def receipt_of(operation: str, key: bytes, marks: list[bytes], **changes: object) -> Receipt:
    parts = {
        "operation": operation,
        "vault": SIGNER.name,
        "tenant": "a" * 64,
        "number": 1,
        "previous": NO_RECEIPT,
        "follows": None,
        "state": "verified",
        "selector": Selector(kind="subject", mark=selector_mark(key, operation, "subject", PERSON)),
        "subject": subject_mark(key, operation, PERSON),
        "requested_by": Requester(pseudonym="b" * 64, role="privacy_officer"),
        "reason": "person_request",
        "policy": "c" * 64,
        "plan": "d" * 64,
        "counts": {"session": {"erased": len(marks)}},
        "items": Items(count=len(marks), root=tree_root(marks).hex()),
        "keys": Keys(destroyed=0, root=NO_LEAVES),
        "stores": (Store(store="keys.db", rows=3, blobs=0, wal_truncated=True, result="done"),),
        "exceptions": (),
        "not_checked": tuple(sorted(OUT_OF_REACH)),
        "times": Times(requested_us=1, invisible_us=2, erased_us=3, verified_us=4),
        "backup_horizon_us": None,
        "barrier": Barrier(state="pending", at_us=None),
    }
    return Receipt(**parts | changes)


@pytest.fixture
def kit(place: Path) -> SimpleNamespace:
    """What a requester gets: two receipts of one operation in files, the key, and the proof of an item."""
    operation, key = format_id("era", b"o" * 16), new_key()
    items = [format_id("ses", bytes([number] * 16)) for number in range(3)]
    marks = sorted(item_mark(key, operation, item) for item in items)
    first = receipt_of(operation, key, marks)
    passed = {"state": "barrier_passed", "barrier": Barrier(state="passed", at_us=5)}
    second = receipt_of(
        operation, key, marks, number=2, previous=digest(first), follows=digest(first), **passed
    )
    files = SimpleNamespace(first=place / "one.json", second=place / "two.json", proof=place / "proof.json")
    files.first.write_bytes(signed(SIGNER, first))
    files.second.write_bytes(signed(SIGNER, second))
    index = marks.index(item_mark(key, operation, items[1]))
    files.proof.write_bytes(proof_file(index, proof(marks, index)))
    return SimpleNamespace(
        files=files, key=key.hex(), item=items[1], other=items[0], first=first, second=second
    )


def test_a_receipt_is_verified_with_the_public_key_alone(call, kit, place):
    """D6, K4."""
    done = call("receipt", "verify", kit.files.first, "--key", PUBLIC)
    assert (done.code, done.err) == (0, "")
    assert "Verified." in done.out
    assert "The signature is that of the key given" in done.out
    assert sorted(path.name for path in place.iterdir()) == ["one.json", "proof.json", "two.json"]


def test_without_a_key_the_content_is_printed_and_the_exit_code_is_19(call, kit):
    done = call("receipt", "verify", kit.files.first)
    assert done.code == 19
    assert "UNPINNED" in done.err
    assert "NOT checked" in done.out
    assert kit.first.operation in done.out
    told = call("receipt", "verify", kit.files.first, "--json")
    assert (told.code, told.document["exit_code"], told.document["error"]) == (19, 19, "Unpinned")
    assert (told.document["pinned"], told.document["checked"]["signature"]) == (False, False)
    assert "UNPINNED" in told.err


def test_everything_that_was_handed_out_can_be_checked_at_once(call, kit):
    """D5."""
    about = ("--subject", PERSON, "--subject-key", kit.key)
    among = ("--item", kit.item, "--item-key", kit.key, "--proof", kit.files.proof)
    before = ("--previous", kit.files.first)
    done = call("receipt", "verify", kit.files.second, "--key", PUBLIC, *about, *among, *before, "--json")
    assert (done.code, done.err) == (0, "")
    assert done.document == {
        "receipt": document(kit.second),
        "sha256": digest(kit.second),
        "pinned": True,
        "checked": dict.fromkeys(("signature", "subject", "item", "previous"), True),
    }
    shown = call("receipt", "verify", kit.files.second, "--key", PUBLIC, *about, *among, *before)
    for sentence in ("about the person given", "item given is among", "next after the receipt given"):
        assert sentence in shown.out
    assert PERSON not in shown.out


@pytest.mark.parametrize("with_json", [False, True], ids=["text", "json"])
def test_what_is_not_so_is_refused_and_nothing_of_the_receipt_is_printed(call, kit, with_json):
    wrong = {
        "another person": (3, ("--subject", "Ann Onyx", "--subject-key", kit.key)),
        "another person's key": (3, ("--subject", PERSON, "--subject-key", "0" * 64)),
        "another item": (3, ("--item", kit.other, "--item-key", kit.key, "--proof", kit.files.proof)),
        "another item's key": (3, ("--item", kit.item, "--item-key", "0" * 64, "--proof", kit.files.proof)),
        "no proof": (4, ("--item", kit.item, "--item-key", kit.key, "--proof", kit.files.first)),
        "not the one before": (4, ("--previous", kit.files.second)),
    }
    for case, (code, options) in wrong.items():
        as_json = ("--json",) if with_json else ()
        done = call("receipt", "verify", kit.files.second, "--key", PUBLIC, *options, *as_json)
        assert done.code == code, case
        assert kit.second.operation not in done.out, case
        assert kit.key not in done.out + done.err, case
        assert "Ann" not in done.out + done.err, case


def test_a_changed_receipt_or_another_key_is_refused_with_exit_code_4(call, kit, place):
    """K4."""
    other = Signer(b"2" * 32, SIGNER.name).public.hex()
    assert call("receipt", "verify", kit.files.first, "--key", other).code == 4
    whole = json.loads(kit.files.first.read_bytes())
    whole["receipt"]["keys"] = {"destroyed": 9, "root": "e" * 64}
    bent = place / "bent.json"
    bent.write_text(json.dumps(whole, sort_keys=True, separators=(",", ":")) + "\n", encoding="utf-8")
    done = call("receipt", "verify", bent, "--key", PUBLIC, "--json")
    assert (done.code, done.document["error"]) == (4, "Tampered")
    assert call("receipt", "verify", kit.files.second, "--key", PUBLIC, "--previous", bent).code == 4
    assert call("receipt", "verify", bent).code == 19  # well-formed: only a signature can tell


@pytest.mark.parametrize("content", [b"", b"{}", b"\x1b[2J", b"[" * 99_999, b"a" * 2**20], ids=range(5))
@pytest.mark.parametrize("name", ["verify", "show"])
def test_a_file_that_is_no_receipt_is_refused(call, place, name, content):
    (place / "file").write_bytes(content)
    done = call("receipt", name, "file")
    assert (done.code, done.out) == (4, "")
    assert done.err.isprintable() or done.err.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    "options",
    [
        ("--key", "00"),
        ("--key", "x" * 64),
        ("--subject", PERSON),
        ("--subject-key", "0" * 64),
        ("--subject", PERSON, "--subject-key", "12"),
        ("--item", "ses_1", "--item-key", "0" * 64),
        ("--item-key", "0" * 64),
        ("--proof", "proof.json"),
        ("--previous", "nowhere.json"),
        ("--item", "ses_1", "--item-key", "0" * 64, "--proof", "nowhere.json"),
    ],
    ids=" ".join,
)
def test_options_that_make_no_sense_are_refused_as_wrong_input(call, kit, options):
    done = call("receipt", "verify", kit.files.first, *options)
    assert (done.code, done.out) == (2, "")
    assert "Ann" not in done.err


@pytest.mark.parametrize("name", ["verify", "show"])
def test_a_file_that_is_not_there_is_named_as_such(call, place, name):
    (place / "directory").mkdir()
    for path in ("nowhere.json", "directory"):
        done = call("receipt", name, path)
        assert (done.code, done.out) == (2, "")
        assert "not there" in done.err


def test_show_prints_a_receipt_for_people_as_markdown_and_as_json(call, kit):
    """D6."""
    markdown = call("receipt", "show", kit.files.second, "--markdown")
    assert (markdown.code, markdown.out) == (0, rendered(kit.second))
    assert "was not checked" in markdown.err
    shown = call("receipt", "show", kit.files.second)
    assert shown.code == 0
    assert "##" not in shown.out
    for whole in (kit.second.operation, digest(kit.second), digest(kit.first), kit.second.subject):
        assert whole in shown.out  # on a line of its own, never cut
    told = call("receipt", "show", kit.files.second, "--json")
    assert told.document == {"receipt": document(kit.second), "sha256": digest(kit.second)}
