"""Backup, restore and fsck: whole while others write, nothing half-made counts. D6, K3, L2, L3."""

import base64
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vault import Principal, Vault, copies
from vault.audit.anchor import Anchor
from vault.erasure import backup as backups
from vault.erasure import quarantine
from vault.errors import InvalidInput, NotFound, Tampered
from vault.storage import copies as storage
from vault.storage.files import FileBlobs, FileLedger, FileUpload
from vault.wiring import Vault as Wired

ROOT = Path(__file__).resolve().parents[2]
ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
DAY = 86_400 * 10**6
OTHER = """
import sys
from vault import Principal, Vault
with Vault.open(sys.argv[1]) as vault:
    vault.access(Principal(tenant="acme", subject="alice")).sessions.create().append("a.b", 1)
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root" / "root.key"


@pytest.fixture
def vault(place, root, clock):
    settings = {"synchronous": "NORMAL"}
    with Vault.create(place, root=f"file:{root}", settings=settings, clock=clock) as opened:
        yield opened


@pytest.fixture
def access(vault):
    return vault.access(ALICE)


@pytest.fixture
def session(access):
    made = access.sessions.create(title="kept")
    made.append("message.user", {"content": "hello"})
    made.append("file.read", raw=os.urandom(90_000))
    made.append("file.read", raw=os.urandom(70_000))
    access.artifacts.put("a file", os.urandom(80_000), sources=[made])
    return made


def restored(tmp_path, name="restored", **more):
    return copies.restore(tmp_path / "data", tmp_path / name, keys=tmp_path / "keys", **more)


def files(place):
    return [file for file in place.rglob("*") if file.is_file()]


# -------------------------------------------------------------------------------------- backup


def test_a_backup_is_restored_to_all_that_there_was(vault, session, tmp_path):
    made = copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    assert (made.blobs, made.copied, made.damaged, made.with_keys) == (3, 3, (), True)
    told = [(event.seq, event.payload, event.payload_ref) for event in session.events()]
    vault.close()
    done = restored(tmp_path)
    assert (done.lost, done.erased_again, done.findings) == ((), 0, ())
    with Vault.open(tmp_path / "restored") as again:
        session = again.access(ALICE).sessions.resume(session.id)
        assert [(event.seq, event.payload, event.payload_ref) for event in session.events()] == told
        assert [one.name for one in again.access(ALICE).artifacts.list()] == ["a file"]
        assert again.verify().counts["unnamed_blobs"] == 0


def test_a_backup_is_one_state_while_others_go_on_writing(vault, access, session, tmp_path):
    stop, failed = threading.Event(), []

    def write():
        number = 0
        while not stop.is_set():
            try:
                session.append("file.read", raw=os.urandom(70_000))
                access.sessions.create(title=f"{(number := number + 1)}").append("a.b", number)
            except Exception as error:  # noqa: BLE001 - said to the test
                failed.append(error)
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            copies.backup(vault, tmp_path / f"data {number}", tmp_path / f"keys {number}")
    finally:
        stop.set()
        writer.join()
    assert not failed
    vault.close()
    for number in range(3):
        target = tmp_path / f"restored {number}"
        done = copies.restore(
            tmp_path / f"data {number}", target, keys=tmp_path / f"keys {number}", remembered=False
        )
        assert done.findings == ()


def test_a_backup_takes_no_locks_away(vault, session, place, tmp_path):
    """POSIX drops all of a process's locks on a file when it closes any descriptor of it."""

    def logs():
        return [(place / name).stat().st_ino for name in ("data.db-wal", "keys.db-wal")]

    before = logs()
    copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    copies.fsck(vault)
    subprocess.run([sys.executable, "-c", OTHER, str(place)], cwd=ROOT, check=True, timeout=60)
    assert logs() == before
    session.append("a.b", 2)
    assert vault.verify().ok


def test_no_backup_holds_the_root_key_and_one_without_keys_holds_none(vault, session, root, tmp_path):
    copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    copies.backup(vault, tmp_path / "data only")
    key = root.read_text().splitlines()[1]
    for place in ("data", "keys", "data only"):
        for file in files(tmp_path / place):
            content = file.read_bytes()
            assert key.encode() not in content
            assert base64.b64decode(key) not in content
    assert {file.name for file in (tmp_path / "data only").iterdir()} == {
        "blobs",
        "data.db",
        "ledger",
        "manifest.json",
        "vault.toml",
    }
    with sqlite3.connect(tmp_path / "keys" / "keys.db") as keys:
        wraps = [wrapped for (wrapped,) in keys.execute("SELECT wrapped FROM keys")]
    keys.close()
    assert wraps
    for file in files(tmp_path / "data only"):
        assert not any(wrapped in file.read_bytes() for wrapped in wraps)


def test_only_its_owner_can_read_a_backup(vault, session, tmp_path):
    copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    for place in (tmp_path / "data", tmp_path / "keys"):
        assert {path.stat().st_mode & 0o077 for path in [place, *place.rglob("*")]} == {0}


def test_the_manifest_holds_the_hash_of_every_file(vault, session, tmp_path):
    copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    listed = {tmp_path / "data" / path for path in manifest["files"]}
    assert set(files(tmp_path / "data")) - listed - set(files(tmp_path / "data" / "blobs")) == {
        tmp_path / "data" / "manifest.json"
    }
    addresses = sorted(bytes.fromhex(file.name) for file in files(tmp_path / "data" / "blobs"))
    assert manifest["blobs"]["sha256"] == backups.hash_of(addresses)
    assert manifest["backup"] == json.loads((tmp_path / "keys" / "manifest.json").read_text())["backup"]


@pytest.mark.parametrize(
    ("to", "keys_to"),
    [("vault/backup", None), ("vault", None), ("a", "a"), ("a", "a/keys"), ("a/b", "a"), ("a", "vault/keys")],
)
def test_data_keys_and_vault_are_kept_apart(vault, tmp_path, to, keys_to):
    with pytest.raises(InvalidInput, match="three places"):
        copies.backup(vault, tmp_path / to, keys_to and tmp_path / keys_to)


def test_nothing_is_written_over_anything_else(vault, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "note").write_text("mine")
    for to, keys_to in (("a", None), ("b", "a")):
        with pytest.raises(InvalidInput, match="something else"):
            copies.backup(vault, tmp_path / to, keys_to and tmp_path / keys_to)
    copies.backup(vault, tmp_path / "data")
    with pytest.raises(InvalidInput, match="finished backup"):
        copies.backup(vault, tmp_path / "data")


def test_what_is_erased_while_its_files_are_copied_is_no_damage(
    vault, access, session, tmp_path, monkeypatch
):
    copy = backups.copy_database

    def then_erase(database, target):
        done = copy(database, target)
        if target.name == "data.db":
            access.erasure.erase(session=session.id)
        return done

    monkeypatch.setattr(backups, "copy_database", then_erase)
    made = copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    assert made.damaged == ()
    assert made.blobs == 0
    vault.close()
    assert restored(tmp_path).erased_again == 2
    with Vault.open(tmp_path / "restored") as again, pytest.raises(NotFound):
        again.access(ALICE).sessions.resume(session.id)


def test_a_missing_payload_of_the_vault_itself_is_told_and_the_rest_is_backed_up(
    vault, session, place, tmp_path
):
    files(place / "blobs")[0].unlink()
    made = copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    assert (made.blobs, len(made.damaged)) == (2, 1)
    with pytest.raises(Tampered, match="does not verify"):
        restored(tmp_path, remembered=False)


# ---------------------------------------------------------------------------------- killed half-way


def killed(work):
    """Does some work in a process that kills itself within it."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def dying(owner, name, *, after=False, at=1):
    """Kills the process when something is called, before or after it did its work, the nth time."""
    whole, left = getattr(owner, name), [at]

    def die(*arguments, **named):
        left[0] -= 1
        done = None if left[0] == 0 and not after else whole(*arguments, **named)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, name, die)


BACKUP_DEATHS = {
    "before the database": (backups, "copy_database", False, 1),
    "within the database": (storage, "_back_up", True, 1),
    "after the database": (backups, "copy_database", True, 1),
    "before a file is kept": (FileUpload, "keep", False, 2),
    "within the files": (FileBlobs, "open", False, 2),
    "after the files": (backups, "_copy_blobs", True, 1),
    "before the keys": (backups, "copy_database", False, 2),
    "after the keys' manifest": (backups, "_finish", True, 1),
    "within the ledger": (FileLedger, "append", False, 1),
    "before the manifest": (backups, "_finish", False, 2),
}


@pytest.mark.parametrize("death", BACKUP_DEATHS)
def test_a_backup_that_is_killed_does_not_count_and_goes_on(vault, session, place, tmp_path, death):
    vault.close()

    def work():
        owner, name, after, at = BACKUP_DEATHS[death]
        with Vault.open(place) as opened:
            dying(owner, name, after=after, at=at)
            copies.backup(opened, tmp_path / "data", tmp_path / "keys")

    killed(work)
    with pytest.raises(InvalidInput, match="cut off"):
        restored(tmp_path)
    with Vault.open(place) as opened:
        opened.access(ALICE).sessions.create(title="made since")
        made = copies.backup(opened, tmp_path / "data", tmp_path / "keys")
    assert made.blobs == 3
    assert made.copied == (0 if death in LATE else 2 if death in AMONG_FILES else 3)
    assert restored(tmp_path).lost == ()
    with Vault.open(tmp_path / "restored") as again:
        assert len(again.access(ALICE).sessions.find().items) == 2
    left = {file.name for file in (*files(tmp_path / "data"), *files(tmp_path / "keys"))}
    assert not [name for name in left if name.startswith((".partial", "unfinished", "tmp"))]


AMONG_FILES = ("within the files", "before a file is kept")
LATE = (
    "after the files",
    "before the keys",
    "after the keys' manifest",
    "within the ledger",
    "before the manifest",
)

RESTORE_DEATHS = {
    "before the files": (quarantine, "unpack", False),
    "after the files": (quarantine, "unpack", True),
    "after the keys": (quarantine, "unpack_keys", True),
    "after the ledger": (quarantine, "merge_ledgers", True),
    "before its entry": (Anchor, "give_back", False),
    "after its entry": (Anchor, "give_back", True),
    "before the replay": (Wired, "_finish_erasures", False),
    "after the replay": (Wired, "_finish_erasures", True),
    "after the checks": (copies, "_checked", True),
    "before it is served": (copies, "_settle", True),
}


@pytest.mark.parametrize("death", RESTORE_DEATHS)
def test_a_restore_that_is_killed_serves_nothing_and_is_run_again(
    vault, access, session, place, tmp_path, death
):
    copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    access.erasure.erase(session=session.id)
    access.sessions.create(title="made since")
    vault.close()

    def work():
        owner, name, after = RESTORE_DEATHS[death]
        dying(owner, name, after=after)
        restored(tmp_path)

    killed(work)
    assert not (tmp_path / "restored").exists()
    with Vault.open(place) as live:  # it is not given up yet
        assert live.verify().ok
    assert restored(tmp_path).erased_again == 2
    assert not (tmp_path / ".restored.quarantine").exists()
    with Vault.open(tmp_path / "restored") as again:
        assert again.verify().ok
        with pytest.raises(NotFound):
            again.access(ALICE).sessions.resume(session.id)


def test_a_restore_that_is_killed_after_its_move_is_done(vault, session, tmp_path):
    copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    vault.close()

    def work():
        dying(copies, "_remember")
        restored(tmp_path)

    killed(work)
    with Vault.open(tmp_path / "restored") as again:
        assert again.verify().ok


def test_a_ledger_on_another_disk_and_an_anchor_go_on_with_the_restored_vault(tmp_path, root, clock):
    settings = {"ledger": str(tmp_path / "disk" / "ledger"), "anchor": str(tmp_path / "disk" / "anchor")}
    with Vault.create(tmp_path / "v", root=f"file:{root}", settings=settings, clock=clock) as vault:
        vault.access(ALICE).sessions.create(title="kept")
        copies.backup(vault, tmp_path / "data", tmp_path / "keys")
        lost = vault.access(ALICE).sessions.create(title="lost")
    done = restored(tmp_path)
    assert lost.id in {one.session_id for one in done.lost}
    numbers = {directory: FileLedger(directory).numbers()[-1] for directory in (tmp_path / "disk").iterdir()}
    assert set(numbers.values()) == {done.ledger_entries}
    assert not (tmp_path / "restored" / "ledger").exists()
    with Vault.open(tmp_path / "restored") as again:
        assert again.verify().ok
        assert again.info()["anchors"] == 2


# ------------------------------------------------------------------------------------------ fsck


def old(file, clock):
    """A file as of two days ago."""
    seconds = (clock.now - 2 * DAY) / 10**6
    os.utime(file, (seconds, seconds))


def planted(place, clock, *, content=b"left over"):
    address = os.urandom(32).hex()
    file = place / "blobs" / address[:2] / address
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    old(file, clock)
    return file


def kinds(done):
    return sorted(finding.kind for finding in done.findings)


def test_of_a_vault_in_order_fsck_finds_nothing(vault, access, session):
    access.erasure.erase(session=access.sessions.create().id)
    done = copies.fsck(vault)
    assert done.findings == ()
    assert done.ok
    assert done.counts["files"] == 3


def test_a_file_that_nothing_names_goes_at_the_second_look_and_never_a_named_one(
    vault, session, place, clock
):
    named = set(files(place / "blobs"))
    for file in named:
        old(file, clock)
    file = planted(place, clock)
    for remove in (True, False):  # the first look is remembered whether or not it may delete
        assert kinds(copies.fsck(vault, remove=remove)) == ["unnamed_file"]
        assert file.exists()
    done = copies.fsck(vault, remove=True)
    assert (done.removed, done.freed, kinds(done)) == (1, 9, [])
    assert set(files(place / "blobs")) == named
    assert vault.verify().ok


def test_a_young_file_that_nothing_names_stays_whatever_was_seen(vault, session, place, clock):
    file = planted(place, clock)
    os.utime(file, (clock.now / 10**6 - 3_600, clock.now / 10**6 - 3_600))
    for _ in range(3):
        assert kinds(copies.fsck(vault, remove=True)) == ["unnamed_file"]
    clock.now += DAY
    assert copies.fsck(vault, remove=True).removed == 1


def test_a_file_that_was_named_in_between_is_seen_for_the_first_time_again(vault, session, place, clock):
    file = planted(place, clock)
    copies.fsck(vault)
    away = file.rename(place.parent / "away")
    copies.fsck(vault)  # it is not unnamed here
    away.rename(file)
    old(file, clock)
    assert copies.fsck(vault, remove=True).removed == 0
    assert copies.fsck(vault, remove=True).removed == 1


def test_what_an_upload_that_was_cut_off_left_goes_after_a_day(vault, place, clock):
    young, aged = place / "blobs" / "incoming" / "young", place / "blobs" / "incoming" / "aged"
    for file in (young, aged):
        file.write_bytes(b"half")
    os.utime(young, (clock.now / 10**6, clock.now / 10**6))
    old(aged, clock)
    assert kinds(copies.fsck(vault)) == ["temporary_file"]
    assert copies.fsck(vault, remove=True).removed == 1
    assert young.exists()
    assert not aged.exists()


def test_missing_files_of_sessions_and_derived_items_are_damage(vault, session, place):
    for file in files(place / "blobs"):
        file.unlink()
    done = copies.fsck(vault)
    assert kinds(done) == ["missing_file"] * 3
    assert not done.ok


def test_keys_without_rows_and_rows_without_keys_are_told_apart(vault, access, session, clock):
    stores = vault.stores
    hierarchy = stores.parts.log.keys
    tenant = hierarchy.tenant("acme", create=False)
    owner = tenant.owner("alice")
    cut_off = (1_600_000_000_000).to_bytes(6) + os.urandom(10)
    hierarchy.create_epoch(tenant, owner, cut_off, 0)
    assert kinds(copies.fsck(vault)) == ["unused_key"]
    raw = bytes.fromhex(session.id[4:].replace("-", ""))

    def forget(connection):
        rows = connection.execute("SELECT * FROM keys WHERE scope = ?", (raw,)).fetchall()
        connection.execute("DELETE FROM keys WHERE scope = ?", (raw,))
        return rows

    def put_back(connection):
        for row in rows:
            connection.execute(f"INSERT INTO keys VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608

    rows = stores.key_database.write(forget)
    done = copies.fsck(vault)
    assert "missing_key" in kinds(done)
    assert not done.ok
    stores.key_database.write(put_back)


def test_rows_of_nothing_are_told(vault, session):
    def plant(connection):
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("INSERT INTO lineage (source, item_no) SELECT zeroblob(16), no FROM items")

    vault.stores.database.write(plant)
    done = copies.fsck(vault)
    assert kinds(done) == ["lineage"]
    assert not done.ok


def test_an_erasure_that_is_not_done_is_told_and_is_no_damage(vault, access, session, monkeypatch):
    def full(*_):
        raise KeyboardInterrupt

    execution = vault._parts.execution
    monkeypatch.setattr(type(execution), "_delete", full)
    with pytest.raises(KeyboardInterrupt):
        access.erasure.erase(session=session.id)
    done = copies.fsck(vault)
    assert set(kinds(done)) == {"leaving", "unfinished"}
    assert done.ok
    assert vault.verify().ok


def test_the_vaults_directory_holds_nothing_more_after_a_backup(vault, session, place, tmp_path):
    before = {file.relative_to(place) for file in files(place)}
    copies.backup(vault, tmp_path / "data", tmp_path / "keys")
    assert {file.relative_to(place) for file in files(place)} == before
