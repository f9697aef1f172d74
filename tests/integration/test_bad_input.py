"""What cannot be done is said in one sentence; nothing is half-written, and the vault goes on."""

import io
import math
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from vault import NewEvent, Principal, Vault, new_event_id
from vault.errors import (
    Conflict,
    InvalidInput,
    KeyUnavailable,
    LimitExceeded,
    NotFound,
    StorageUnavailable,
    Tampered,
    VaultError,
    VaultExists,
    WrongKey,
)
from vault.model import BATCH_MAX, JSON_BYTES_MAX, LABELS_MAX, NAME_LENGTH_MAX, TITLE_LENGTH_MAX
from vault.sessions import prepare

ALICE = Principal(tenant="acme", subject="alice")
CANARY = "Zanzibar-4711"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001
KNOT: list = []
KNOT.append(KNOT)


def refused(kind: type[VaultError], call) -> str:
    """The one sentence with which a call is refused: of exactly this kind, without a user's words."""
    with pytest.raises(kind) as refusal:
        call()
    message = str(refusal.value)
    assert type(refusal.value) is kind
    assert "\n" not in message
    assert 15 < len(message) < 220
    assert CANARY not in message
    assert str(Path.home()) not in message
    return message


EVENTS = {
    "type-without-a-dot": ({"type": "message"}, InvalidInput),
    "type-in-capitals": ({"type": f"{CANARY}.x"}, InvalidInput),
    "type-too-long": ({"type": "a." + "b" * 63}, InvalidInput),
    "type-missing": ({"type": None}, InvalidInput),
    "type-a-number": ({"type": 5}, InvalidInput),
    "nan": ({"payload": [math.nan]}, InvalidInput),
    "bytes": ({"payload": {CANARY: b"x"}}, InvalidInput),
    "tuple": ({"payload": (1, 2)}, InvalidInput),
    "time-as-payload": ({"payload": NAIVE}, InvalidInput),
    "object": ({"payload": object()}, InvalidInput),
    "lone-surrogate": ({"payload": CANARY + "\ud800"}, InvalidInput),
    "contains-itself": ({"payload": KNOT}, LimitExceeded),
    "payload-and-raw": ({"payload": CANARY, "raw": b"x"}, InvalidInput),
    "raw-text": ({"raw": CANARY}, InvalidInput),
    "raw-number": ({"raw": 5}, InvalidInput),
    "raw-bytearray": ({"raw": bytearray(b"x")}, InvalidInput),
    "raw-text-file": ({"raw": io.StringIO(CANARY)}, InvalidInput),
    "raw-over-the-limit": ({"raw": bytes(JSON_BYTES_MAX + 1)}, LimitExceeded),
    "event-id-malformed": ({"event_id": CANARY}, InvalidInput),
    "event-id-empty": ({"event_id": ""}, InvalidInput),
    "run-malformed": ({"run": CANARY}, InvalidInput),
    "cause-malformed": ({"caused_by": CANARY}, InvalidInput),
    "tool-empty": ({"tool": ""}, InvalidInput),
    "tool-too-long": ({"tool": "x" * (NAME_LENGTH_MAX + 1)}, InvalidInput),
    "tool-surrogate": ({"tool": CANARY + "\udfff"}, InvalidInput),
    "observed-naive": ({"observed_at": NAIVE}, InvalidInput),
    "observed-text": ({"observed_at": "2026-01-01T00:00:00Z"}, InvalidInput),
    "occurred-naive": ({"occurred_at": NAIVE}, InvalidInput),
    "resource-empty": ({"resource": ""}, InvalidInput),
    "resource-too-long": ({"resource": "x" * (NAME_LENGTH_MAX + 1)}, InvalidInput),
    "resource-surrogate": ({"resource": CANARY + "\ud800"}, InvalidInput),
    "resource-a-list": ({"resource": [CANARY]}, InvalidInput),
    "valid-from-nowhere": ({"valid_for": timedelta(hours=1)}, InvalidInput),
    "valid-for-no-time": ({"valid_for": timedelta(0), "observed_at": NOW}, InvalidInput),
    "valid-for-less-than-none": ({"valid_for": timedelta(-1), "observed_at": NOW}, InvalidInput),
    "valid-for-too-long": ({"valid_for": timedelta(days=105_000), "observed_at": NOW}, InvalidInput),
    "valid-for-a-number": ({"valid_for": 60, "observed_at": NOW}, InvalidInput),
    "effect-without-a-payload": ({"type": "effect.intended"}, InvalidInput),
    "effect-of-text": ({"type": "effect.intended", "payload": CANARY}, InvalidInput),
    "effect-in-bytes": ({"type": "effect.intended", "raw": b"{}"}, InvalidInput),
    "effect-without-a-key": ({"type": "effect.intended", "payload": {"kind": CANARY}}, InvalidInput),
    "effect-of-no-kind": ({"type": "effect.intended", "payload": {"kind": 5, "key": CANARY}}, InvalidInput),
    "effect-key-too-long": (
        {"type": "effect.intended", "payload": {"kind": "k", "key": CANARY * 100}},
        InvalidInput,
    ),
    "effect-about-no-subject": (
        {"type": "effect.intended", "payload": {"kind": "k", "key": "k", "subject": [CANARY]}},
        InvalidInput,
    ),
    "effect-decided-by-no-word": (
        {"type": "effect.resolved", "payload": {"kind": "k", "key": "k", "decision": CANARY}},
        InvalidInput,
    ),
    "effect-committed-out-of-nowhere": (
        {"type": "effect.committed", "payload": {"kind": CANARY, "key": CANARY}},
        Conflict,
    ),
    "effect-failed-out-of-nowhere": (
        {"type": "effect.failed", "payload": {"kind": CANARY, "key": CANARY}},
        Conflict,
    ),
    "checkpoint-without-a-state": ({"type": "checkpoint.created", "payload": {"sha256": "0"}}, InvalidInput),
    "checkpoint-of-another-hash": (
        {"type": "checkpoint.created", "payload": {"state": CANARY, "sha256": "0" * 64, "through": 0}},
        InvalidInput,
    ),
    "usage-not-a-dict": ({"usage": [1]}, InvalidInput),
    "usage-nan": ({"usage": {CANARY: math.nan}}, InvalidInput),
    "usage-too-large": ({"usage": {"text": "x" * 10**6}}, LimitExceeded),
    "level-unknown": ({"level": "L4"}, InvalidInput),
    "level-number": ({"level": 3}, InvalidInput),
}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A vault and a session that are refused all the time."""
    place = tmp_path_factory.mktemp("bad-input")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        with Vault.create(place / "vault", settings={"synchronous": "NORMAL"}) as made:
            yield made, made.access(ALICE).sessions.create()
            assert made.verify().findings == ()


@pytest.mark.parametrize(("fields", "kind"), [pytest.param(*case, id=name) for name, case in EVENTS.items()])
def test_an_event_that_cannot_be_stored_is_refused_and_leaves_nothing(house, fields, kind):
    """Bad input"""
    vault, session = house
    before = session.info().event_count
    given = {"type": "a.b"} | fields
    alone = dict(given)
    name = alone.pop("type")
    refused(kind, lambda: session.append(name, **alone))
    good = NewEvent(type="a.b", raw=os.urandom(70_000))
    refused(kind, lambda: session.append_many([good, NewEvent(**given), good]))
    assert session.info().event_count == before
    assert session.append("a.b", "good").seq == before + 1
    assert list((vault._directory / "blobs" / "incoming").iterdir()) == []


def test_a_json_payload_over_the_limit_is_refused_and_one_at_it_is_stored(house):
    """Bad input, invariant 12"""
    _, session = house
    assert "stream" in refused(LimitExceeded, lambda: session.append("a.b", "x" * (JSON_BYTES_MAX - 1)))
    event = session.append("a.b", "x" * (JSON_BYTES_MAX - 2))
    (read,) = session.events(limit=1, newest_first=True)
    assert read.id == event.id
    assert len(read.payload) == JSON_BYTES_MAX - 2


def test_a_stream_over_the_limit_is_refused_and_leaves_nothing(house, monkeypatch):
    """Bad input, invariant 12"""
    vault, session = house
    monkeypatch.setattr(prepare, "STREAM_BYTES_MAX", 2_000_000)
    files = set((vault._directory / "blobs").rglob("*"))
    refused(LimitExceeded, lambda: session.append("a.b", raw=io.BytesIO(os.urandom(2_000_001))))
    assert set((vault._directory / "blobs").rglob("*")) == files
    session.append("a.b", raw=io.BytesIO(os.urandom(2_000_000)))


def test_a_batch_over_the_limits_is_refused(house):
    """Bad input, invariant 12"""
    _, session = house
    before = session.info().event_count
    refused(LimitExceeded, lambda: session.append_many([NewEvent(type="a.b")] * (BATCH_MAX + 1)))
    refused(LimitExceeded, lambda: session.append_many(NewEvent(type="a.b") for _ in iter(int, 1)))
    same = NewEvent(type="a.b", event_id=new_event_id())
    refused(InvalidInput, lambda: session.append_many([same, same]))
    for head in ("1", 1.0, True):
        refused(InvalidInput, lambda head=head: session.append("a.b", expect_head=head))
    assert session.info().event_count == before


SESSIONS = {
    "title-empty": {"title": ""},
    "title-too-long": {"title": "x" * (TITLE_LENGTH_MAX + 1)},
    "title-not-text": {"title": 5},
    "title-surrogate": {"title": CANARY + "\ud800"},
    "config-too-long": {"config": "x" * (NAME_LENGTH_MAX + 1)},
    "external-id-empty": {"external_id": ""},
    "external-id-not-text": {"external_id": 7},
    "too-many-labels": {"labels": {str(n): "x" for n in range(LABELS_MAX + 1)}},
    "label-empty": {"labels": {CANARY: ""}},
    "label-not-text": {"labels": {CANARY: 1}},
    "label-name-not-text": {"labels": {1: CANARY}},
}


@pytest.mark.parametrize("fields", [pytest.param(case, id=name) for name, case in SESSIONS.items()])
def test_a_session_that_cannot_be_made_is_refused_and_leaves_nothing(house, fields):
    """Bad input, invariant 12"""
    vault, _ = house
    sessions, keys = vault.access(ALICE).sessions, len(list(vault._store.rows()))
    before = len(sessions.find(limit=500).items)
    refused(InvalidInput, lambda: sessions.create(**fields))
    assert len(sessions.find(limit=500).items) == before
    assert len(list(vault._store.rows())) == keys


@pytest.mark.parametrize("one", ["", "ses_", CANARY, "ses_018f4a2e-0000-7000-8000-0123456789ab", None, 5])
def test_an_unknown_session_is_not_found(house, one):
    """Bad input"""
    sessions = house[0].access(ALICE).sessions
    assert refused(NotFound, lambda: sessions.resume(one)) == "there is no such session"
    refused(NotFound, lambda: sessions.create(parent=one if one is not None else ""))


def test_a_second_vault_in_the_same_directory_is_refused_and_the_first_unharmed(vault, session, place):
    """Bad input: two vaults over one directory by mistake"""
    event = session.append("a.b", 1)
    files = {path: path.read_bytes() for path in (place / "vault.toml", place / "root.key")}
    for root in ("file:", f"file:{place.parent / 'other.key'}", "passphrase:"):
        refused(VaultExists, lambda root=root: Vault.create(place, root=root, passphrase="long enough"))
    assert {path: path.read_bytes() for path in files} == files
    assert not (place.parent / "other.key").exists()
    assert list(session.events()) == [event]
    assert vault.verify().findings == ()


@pytest.mark.parametrize("name", ["vault.toml", "data.db", "keys.db"])
def test_a_part_of_a_vault_is_never_written_over(tmp_path, name):
    """Bad input: two vaults over one directory by mistake"""
    (tmp_path / name).write_bytes(b"precious")
    refused(VaultExists, lambda: Vault.create(tmp_path))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir() if path.is_file()] == [
        (name, b"precious")
    ]


CREATE = """
import sys
from vault import Principal, Vault, errors
print("ready", flush=True)
sys.stdin.readline()
try:
    with Vault.create(sys.argv[1], root="passphrase:", passphrase="correct horse") as vault:
        vault.access(Principal(tenant="acme", subject="alice")).sessions.create(title="made")
    print("made")
except errors.VaultError as error:
    print(type(error).__name__)
"""


def test_of_two_processes_that_make_a_vault_in_one_directory_one_does(tmp_path, python):
    """Bad input: two vaults over one directory by mistake"""
    for number in range(2):
        place = tmp_path / f"vault {number}"
        makers = [python(CREATE, place) for _ in range(2)]
        for maker in makers:
            assert maker.stdout.readline() == "ready\n"
        said = [maker.communicate("\n")[0].strip() for maker in makers]
        assert sorted(said) == ["VaultExists", "made"]
        with Vault.open(place, passphrase="correct horse") as vault:
            assert [item.title for item in vault.access(ALICE).sessions.find().items] == ["made"]
            assert vault.verify().findings == ()


@pytest.fixture
def closed(place):
    """A vault with a session in it, closed."""
    with Vault.create(place) as made:
        made.access(ALICE).sessions.create(title="kept").append("a.b", 1)
    return place


def is_usable(place):
    with Vault.open(place) as vault:
        (item,) = vault.access(ALICE).sessions.find().items
        vault.access(ALICE).sessions.resume(item.id).append("a.b", 2)
        return item.title == "kept" and vault.verify().ok


def test_a_directory_without_a_vault_is_not_found_and_stays_as_it_is(tmp_path):
    """Bad input"""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name in ("empty", "file", "missing", "missing/further", "file/further"):
        refused(NotFound, lambda name=name: Vault.open(tmp_path / name))
    assert {path.name for path in tmp_path.rglob("*")} == {"empty", "file"}


def key_missing(place):
    (place / "root.key").unlink()


def key_of_another(place):
    other = Vault.create(place.parent / "other")
    other.close()
    shutil.copy(place.parent / "other" / "root.key", place / "root.key")


def key_open_to_others(place):
    (place / "root.key").chmod(0o640)


def key_malformed(place):
    (place / "root.key").write_text(CANARY)


def key_cut_off(place):
    (place / "root.key").write_text((place / "root.key").read_text()[:-10])


def keys_of_another(place):
    Vault.create(place.parent / "other").close()
    shutil.copy(place.parent / "other" / "keys.db", place / "keys.db")


def keys_and_key_of_another(place):
    keys_of_another(place)
    shutil.copy(place.parent / "other" / "root.key", place / "root.key")


def data_of_another(place):
    Vault.create(place.parent / "other").close()
    shutil.copy(place.parent / "other" / "data.db", place / "data.db")


DAMAGES = {
    "key-missing": (key_missing, KeyUnavailable, "missing"),
    "key-of-another": (key_of_another, WrongKey, "key file"),
    "key-open-to-others": (key_open_to_others, KeyUnavailable, "chmod 600"),
    "key-malformed": (key_malformed, WrongKey, ""),
    "key-cut-off": (key_cut_off, WrongKey, ""),
    "key-a-directory": (lambda p: (key_missing(p), (p / "root.key").mkdir()), KeyUnavailable, ""),
    "keys-of-another": (keys_of_another, KeyUnavailable, "another vault"),
    "keys-and-key-of-another": (keys_and_key_of_another, KeyUnavailable, "another vault"),
    "keys-missing": (lambda p: (p / "keys.db").unlink(), StorageUnavailable, "keys.db"),
    "keys-empty": (lambda p: (p / "keys.db").write_bytes(b""), KeyUnavailable, "holds no keys"),
    "keys-not-a-database": (lambda p: (p / "keys.db").write_bytes(b"x" * 9_000), Tampered, ""),
    "data-missing": (lambda p: (p / "data.db").unlink(), StorageUnavailable, "data.db"),
    "data-of-another": (data_of_another, Tampered, "data.db"),
    "data-empty": (lambda p: (p / "data.db").write_bytes(b""), Tampered, "data.db"),
    "data-not-a-database": (lambda p: (p / "data.db").write_bytes(b"x" * 9_000), Tampered, ""),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_vault_whose_parts_do_not_belong_together_is_not_opened(closed, tmp_path, name):
    """Bad input: missing or wrong key file, a keys.db of another vault"""
    damage, kind, said = DAMAGES[name]
    shutil.copytree(closed, tmp_path / "whole")
    damage(closed)
    for _ in range(2):
        assert said in refused(kind, lambda: Vault.open(closed))
    shutil.rmtree(closed)
    shutil.copytree(tmp_path / "whole", closed)
    assert is_usable(closed)


SETTINGS = {
    "unknown": ('colour = "red"\n', "colour"),
    "unknown-table": ("[retention]\ndays = 1\n", "retention"),
    "not-toml": ("this is not\n", "vault.toml is not valid"),
    "twice": ("version = 1\n", "vault.toml is not valid"),
}
VALUES = {
    "synchronous": ["OFF", "full", 1, ""],
    "lock_seconds": [0, -1, 3601, "30", True],
    "ledger_every": [0, 1_000_001, -1, "always", 1.5],
    "compress": ["yes", 2],
    "version": [0, 2, "1"],
    "colour": ["red"],
}


@pytest.mark.parametrize(("text", "said"), [pytest.param(*case, id=name) for name, case in SETTINGS.items()])
def test_a_settings_file_with_a_mistake_is_refused_with_its_place(closed, text, said):
    """Bad input"""
    settings = closed / "vault.toml"
    whole = settings.read_text()
    settings.write_text(whole + text)
    assert said in refused(InvalidInput, lambda: Vault.open(closed))
    settings.write_text(whole)
    assert is_usable(closed)


@pytest.mark.parametrize(("name", "value"), [(name, one) for name in VALUES for one in VALUES[name]])
def test_a_setting_out_of_range_is_refused_by_its_name_and_nothing_is_made(tmp_path, name, value):
    """Bad input"""
    assert name in refused(InvalidInput, lambda: Vault.create(tmp_path / "v", settings={name: value}))
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize("root", ["", "ftp:", "files:", "/etc/root.key", "env:KEY", CANARY])
def test_an_unknown_place_for_the_root_key_is_refused(tmp_path, root):
    """Bad input, K3"""
    refused(InvalidInput, lambda: Vault.create(tmp_path / "v", root=root))
    Vault.create(tmp_path / "v").close()


def test_a_key_file_is_never_written_over(tmp_path):
    """Bad input, K3"""
    (tmp_path / "precious").write_text("x")
    for place in ("precious", "missing/further"):
        root = f"file:{tmp_path / place}"
        refused(KeyUnavailable, lambda root=root: Vault.create(tmp_path / "v", root=root))
    assert (tmp_path / "precious").read_text() == "x"
