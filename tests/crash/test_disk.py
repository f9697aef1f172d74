"""A full, read-only or unwilling disk: said in one sentence, nothing half-written, usable again after."""

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest

from vault import NewEvent, Principal, Vault, new_event_id
from vault.errors import Busy, KeyUnavailable, StorageFull, StorageUnavailable, VaultError

ALICE = Principal(tenant="acme", subject="alice")
SETTINGS = {"ledger_every": 4}
NOBODY = 65534


def one_of_each(session, number):
    """Appends of every size and form, as calls."""
    body = os.urandom(90_000)
    return [
        lambda: session.append("a.b", {"n": number}, event_id=new_event_id()),
        lambda: session.append("a.b", "x" * 9_000),
        lambda: session.append_many([NewEvent(type="a.b", payload=[number, k]) for k in range(20)]),
        lambda: session.append("a.b", raw=body),
        lambda: session.append("a.b", raw=io.BytesIO(body * 12)),
    ]


def acknowledged(calls):
    """The events of the calls that went well, and the kinds of refusal of the others."""
    events, kinds = [], set()
    for call in calls:
        try:
            result = call()
        except StorageUnavailable as error:
            kinds.add((type(error), str(error).count("\n")))
        else:
            events += result if isinstance(result, list) else [result]
    assert {lines for _, lines in kinds} <= {0}
    return events, {kind for kind, _ in kinds}


def is_all_there(vault, session_id, events):
    """Every acknowledged event is in the log, whole; nothing else is but whole events; the vault goes on."""
    session = vault.access(ALICE).sessions.resume(session_id)
    stored = {event.id: event for event in session.events()}
    assert [event.seq for event in stored.values()] == list(range(1, len(stored) + 1))
    for event in events:
        assert (stored[event.id].payload_ref, stored[event.id].seq) == (event.payload_ref, event.seq)
        with session.open(event) as stream:
            assert stream.read()
    assert session.append("a.b", "there is room again").seq == len(stored) + 1
    report = vault.verify()
    assert report.findings == ()
    return True


@pytest.mark.parametrize("spare", range(0, 40, 4))
def test_a_database_that_may_not_grow_refuses_and_goes_on(place, spare):
    """Bad input: the disk full in the middle of a commit, at another page each time"""
    with Vault.create(place, settings=SETTINGS) as vault:
        session = vault.access(ALICE).sessions.create()
        writer = vault._database._writer
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
        writer.execute(f"PRAGMA max_page_count = {pages + spare}")
        calls = [call for number in range(20) for call in one_of_each(session, number)]
        events, kinds = acknowledged(calls)
        assert kinds == {StorageFull}
        writer.execute("PRAGMA max_page_count = 1000000")
        assert is_all_there(vault, session.id, events)
    with Vault.open(place) as vault:
        assert is_all_there(vault, session.id, events)


def test_all_that_share_a_commit_are_told_that_the_disk_is_full(vault, session, alice, together):
    """Bad input"""
    others = [alice.create() for _ in range(5)]
    writer = vault._database._writer
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages}")
    results = together(vault, [lambda o=o: o.append("a.b", os.urandom(30_000).hex()) for o in others])
    assert {type(result) for result in results} == {StorageFull}
    assert all(list(other.events()) == [] for other in others)
    writer.execute("PRAGMA max_page_count = 1000000")
    assert [other.append("a.b", 1).seq for other in others] == [1] * 5
    assert vault.verify().findings == ()


def in_child(work):
    """What some work gives in a forked child, as JSON; None when the child died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(work()).encode())
        except BaseException as error:  # noqa: BLE001 - the parent shows it
            os.write(writing, json.dumps(repr(error)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


@pytest.mark.parametrize("room", [0, 1_000, 5_000, 20_000, 60_000, 100_000, 150_000, 400_000])
def test_a_file_that_may_not_grow_refuses_and_goes_on(place, room):
    """Bad input: the same for every file of the vault, by the limit of the process"""
    with Vault.create(place, settings=SETTINGS) as vault:
        session_id = vault.access(ALICE).sessions.create().id

    def work():
        with Vault.open(place) as vault:
            session = vault.access(ALICE).sessions.resume(session_id)
            largest = max(path.stat().st_size for path in place.rglob("*") if path.is_file())
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            whole = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest + room, whole[1]))
            events, kinds = acknowledged(c for n in range(30) for c in one_of_each(session, n))
            resource.setrlimit(resource.RLIMIT_FSIZE, whole)
            assert kinds, "nothing was refused"
            assert kinds <= {StorageFull, StorageUnavailable}
            assert is_all_there(vault, session_id, events)
            return [event.id for event in events]

    ids = in_child(work)
    assert isinstance(ids, list), ids
    with Vault.open(place) as vault:
        session = vault.access(ALICE).sessions.resume(session_id)
        assert set(ids) <= {event.id for event in session.events()}
        assert is_all_there(vault, session_id, [])


@pytest.fixture
def small_disk():
    """A disk of three megabytes of its own."""
    place = Path(tempfile.mkdtemp())
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        place.rmdir()
        pytest.skip("this user cannot mount a small disk to fill")
    yield place
    subprocess.run(["umount", str(place)], check=True)
    place.rmdir()


@pytest.mark.parametrize("room", [0, 4_096, 12_288, 40_960, 98_304, 200_000, 500_000])
def test_a_full_disk_refuses_and_goes_on_when_there_is_room(small_disk, room):
    """Bad input: a disk that is really full, with a little more room each time"""
    place, ballast = small_disk / "vault", small_disk / "ballast"
    with Vault.create(place, settings=SETTINGS) as vault:
        session = vault.access(ALICE).sessions.create()
        session.append("a.b", 1)
        with ballast.open("wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4_096))
            file.truncate(max(file.tell() - room, 0))
        events, kinds = acknowledged(c for n in range(40) for c in one_of_each(session, n))
        assert StorageFull in kinds
        assert kinds <= {StorageFull, StorageUnavailable}
        new = [vault.access(ALICE).sessions.create] * 30
        assert StorageUnavailable in {kind for one in acknowledged(new)[1] for kind in one.__mro__}
        ballast.unlink()
        assert is_all_there(vault, session.id, events)
    with Vault.open(place) as vault:
        assert is_all_there(vault, session.id, events)


def test_a_vault_cannot_be_made_on_a_full_disk_and_can_when_there_is_room(small_disk):
    """Bad input"""
    ballast, made = small_disk / "ballast", 0
    for left in range(0, 600_000, 49_152):
        ballast.write_bytes(bytes(3 * 2**20 - 8_192 - left))
        with contextlib.suppress(StorageUnavailable, KeyUnavailable):
            Vault.create(small_disk / "vault").close()
            made += 1
        ballast.unlink()
        # What was made of it by then is taken away again; a ledger entry may be left of a whole vault.
        if not (small_disk / "vault" / "vault.toml").exists():
            assert list((small_disk / "vault").glob("*.*")) == []
        shutil.rmtree(small_disk / "vault", ignore_errors=True)
    assert 0 < made < 13
    Vault.create(small_disk / "vault").close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user for a while")
def test_a_directory_that_cannot_be_written_is_said_and_left_alone(monkeypatch):
    """Bad input: a read-only directory"""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    place = home / "vault"
    with Vault.create(place) as vault:
        session_id = vault.access(ALICE).sessions.create().id
    for path in [home / "state", *home.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}

    def work():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        told = []
        for directory in (place / "ledger", place / "blobs", place):
            directory.chmod(0o500)
        for call in (
            lambda: Vault.open(place),
            lambda: Vault.create(place / "inner"),
            lambda: Vault.create(home / "another"),
        ):
            try:
                call().close()
                told.append("nothing")
            except VaultError as error:
                told.append(f"{type(error).__name__}: {error}")
        for directory in (place / "ledger", place / "blobs", place):
            directory.chmod(0o700)
        with Vault.open(place) as again:
            told.append(again.access(ALICE).sessions.resume(session_id).append("a.b", 1).seq)
        return told

    try:
        *refusals, seq = in_child(work)
        assert seq == 1
        for refusal in refusals:
            assert refusal.startswith("StorageUnavailable: "), refusal
            assert str(home) not in refusal
        assert before.keys() <= set(home.rglob("*"))
    finally:
        shutil.rmtree(home)


@pytest.mark.parametrize("every", [1, 2, "every_commit"])
def test_an_event_whose_checkpoint_fails_is_stored_and_said_to_be(place, monkeypatch, every):
    """L2, K4: a full ledger never hides that the log has taken the event"""

    def full(*_):
        raise OSError(28, "No space left on device")

    with Vault.create(place, settings={"ledger_every": every}) as vault:
        session = vault.access(ALICE).sessions.create()
        with monkeypatch.context() as patch:
            patch.setattr(os, "link", full)
            if every == 2:
                session.append("a.b", 1)
            for number in range(2, 5):
                with pytest.raises(StorageFull, match="is stored, but the ledger"):
                    session.append("a.b", number)
                assert session.info().event_count == number - (every != 2)
        newest = vault.info()["ledger_entries"]
        session.append_many([NewEvent(type="a.b")] * 2)
        assert vault.info()["ledger_entries"] == newest + 1
        assert vault.verify().findings == ()


def test_a_program_that_does_not_wait_for_its_turn_is_waited_for_and_then_named(place, monkeypatch):
    """Point 3: a database tool that holds SQLite's own lock"""
    with Vault.create(place) as vault:
        session = vault.access(ALICE).sessions.create()
        vault._database._writer.execute("PRAGMA busy_timeout = 50")
        tool = sqlite3.connect(place / "data.db", isolation_level=None)
        tool.execute("BEGIN IMMEDIATE")
        with pytest.raises(Busy):
            session.append("a.b", 1)
        tool.execute("ROLLBACK")
        tool.close()
        assert session.append("a.b", 2).seq == 1


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
def test_the_ledger_never_records_what_a_power_loss_could_take_back(place, monkeypatch, synchronous):
    """L2, K4: after a power loss the log would be refused as rolled back"""
    seen, fsync, link = [], os.fsync, os.link

    def synced(descriptor):
        fsync(descriptor)
        seen.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    def linked(source, target):
        link(source, target)
        seen.append(Path(target).parent.name)

    with Vault.create(place, settings={"synchronous": synchronous}) as vault:
        session = vault.access(ALICE).sessions.create()
        session.append("a.b", 1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", synced)
            patch.setattr(os, "link", linked)
            vault.checkpoint()
        wal = place / "data.db-wal"
        # Under FULL, SQLite has synced the commit itself.
        assert synchronous == "FULL" or seen.index(wal) < seen.index("ledger")
        assert vault._database._writer.execute("PRAGMA synchronous").fetchone() == (
            2 if synchronous == "FULL" else 1,
        )


def test_a_new_vault_is_durable_before_it_is_handed_out(tmp_path, monkeypatch):
    """L2: settings, key and the names of both are on the disk, or the log would be lost with them"""
    synced, fsync = set(), os.fsync

    def seen(descriptor):
        fsync(descriptor)
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", seen)
    place, key = tmp_path / "vault", tmp_path / "elsewhere" / "vault.key"
    key.parent.mkdir()
    Vault.create(place, root=f"file:{key}").close()
    assert {place, place / "vault.toml", key, key.parent, place / "ledger"} <= synced
