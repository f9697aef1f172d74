"""Keys are wrapped anew while others work, and it is killed at any step: nothing is lost (K3, L2, D5)."""

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import time
import traceback
from pathlib import Path

import pytest

from vault import Principal, Vault
from vault.custody import Rewrapped
from vault.errors import Conflict, InvalidInput, KeyUnavailable, Tampered, WrongKey
from vault.keyring import passphrase as passphrases
from vault.ports.keys import Doomed
from vault.sealing.keys import KeyHierarchy
from vault.sealing.rotation import Rotation
from vault.storage.keystore import SqlKeyStore

TENANTS = ("acme", "other")
PASSPHRASE, ANOTHER = "correct horse battery", "incorrect horse battery"
SESSIONS, KILLS = 6, 60


@pytest.fixture(autouse=True)
def _quick_passphrases(monkeypatch):
    """Stretched as little as can be: what it costs is tested elsewhere."""
    for name, value in {"_PASSES": 1, "_LANES": 1, "_MEMORY_KIB": 8}.items():
        monkeypatch.setattr(passphrases, name, value)


@pytest.fixture(params=["file:", "passphrase:"])
def root(request):
    return request.param


@pytest.fixture
def given(root):
    return PASSPHRASE if root == "passphrase:" else None


def alice(vault, tenant="acme"):
    return vault.access(Principal(tenant=tenant, subject="alice")).sessions


def fill(place, **options):
    """Sessions of two tenants, and derived items under their keys; what each is, to be read again."""
    with Vault.create(place, **options) as vault:
        for tenant in TENANTS:
            for number in range(SESSIONS):
                alice(vault, tenant).create(external_id=str(number)).append("a.b", f"{tenant} {number}")
            keys, whose = vault._keys, vault._keys.tenant(tenant, create=False)
            for number, hung in enumerate(("any", "last", "free")):
                item = bytes([number]) * 15 + tenant[:1].encode()
                keys.create_item(whose, bytes(16), item, hung, [bytes([number]) * 32, bytes(32)])


def is_whole(place, given=None):
    """Whether a fresh process reads everything."""
    with Vault.open(place, passphrase=given) as vault:
        for tenant in TENANTS:
            for number in range(SESSIONS):
                session = alice(vault, tenant).resume_external(str(number))
                assert [event.payload for event in session.events()][:1] == [f"{tenant} {number}"]
            keys, whose = vault._keys, vault._keys.tenant(tenant, create=False)
            for number, hung in enumerate(("any", "last", "free")):
                item = bytes([number]) * 15 + tenant[:1].encode()
                assert keys.item(whose, bytes(16), item, hung, [bytes([number]) * 32, bytes(32)])
    return True


def wrapped(place):
    """Every wrap in keys.db, by its place."""
    database = sqlite3.connect(place / "keys.db")
    found = {
        tuple(row[:3]): row[3] for row in database.execute("SELECT purpose, scope, epoch, wrapped FROM keys")
    }
    database.close()
    return found


def in_child(work):
    """Run in a forked process; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - shown, and told by the exit code
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# -------------------------------------------------------------------------------- what they do


@pytest.mark.parametrize("fresh", [False, True], ids=["rotate", "barrier"])
def test_everything_is_read_under_the_new_root_key(place, root, given, fresh):
    """K3"""
    fill(place, root=root, passphrase=given)
    before, told = wrapped(place), []
    with Vault.open(place, passphrase=given) as vault:
        work = vault.keys.barrier if fresh else vault.keys.rotate
        done = work(passphrase=given, progress=lambda done, total: told.append((done, total)))
        count = len(before) if fresh else 2 + len(TENANTS)
        assert done == Rewrapped(
            len(before) + len(TENANTS) if fresh else count, True, fresh and given is None
        )
        assert told == [(number, count) for number in range(1, count + 1)]
    after = wrapped(place)
    changed = {purpose for (purpose, *at), wrap in after.items() if before[purpose, *at] != wrap}
    everything = {"vault", "signing", "tenant", "index", "epoch", "item"}
    assert changed == (everything if fresh else {"vault", "signing", "tenant"})
    assert is_whole(place, given)
    with Vault.open(place, passphrase=given) as vault:
        assert vault.verify().ok


def test_a_dying_key_is_not_taken_along(place):
    """D5"""
    fill(place)
    with Vault.open(place) as vault:
        session = next(row for row in vault._store.rows() if row.purpose == "epoch")
        doomed = [Doomed("epoch", session.scope, None, frozenset())]
        vault._store.condemn(bytes(16), session.tenant_id, doomed, 1)
        vault.keys.barrier()
        assert wrapped(place)["epoch", session.scope, 0] == session.wrapped
        assert vault._store.destroy(bytes(16)) == (1, True)
        vault.keys.barrier()
    assert ("epoch", session.scope, 0) not in wrapped(place)


def test_the_old_root_key_is_overwritten_and_gone(place, tmp_path):
    """K3"""
    fill(place)
    old = (place / "root.key").read_bytes()
    os.link(place / "root.key", tmp_path / "the old inode")
    with Vault.open(place) as vault:
        vault.keys.rotate()
    assert (tmp_path / "the old inode").read_bytes() == bytes(len(old))
    new = (place / "root.key").read_bytes()
    assert new != old
    assert (place / "root.key").stat().st_mode & 0o777 == 0o600
    assert not (place / "root.key.next").exists()
    (place / "root.key").write_bytes(old)
    with pytest.raises(WrongKey, match="put back the newest"):
        Vault.open(place)
    (place / "root.key").write_bytes(new)
    assert is_whole(place)


def test_nothing_of_the_old_passphrases_record_is_left(place):
    """K3"""
    fill(place, root="passphrase:", passphrase=PASSPHRASE)
    record = sqlite3.connect(place / "keys.db").execute("SELECT record FROM root").fetchone()[0]
    old = json.loads(record)["wrapped"].encode()
    assert any(old in file.read_bytes() for file in place.glob("keys.db*"))
    with Vault.open(place, passphrase=PASSPHRASE) as vault:
        with pytest.raises(WrongKey):
            vault.keys.barrier(passphrase=ANOTHER)
        with pytest.raises(InvalidInput):
            vault.keys.barrier(passphrase=PASSPHRASE, new="short")
        with pytest.raises(KeyUnavailable):
            vault.keys.rotate()
        assert vault.keys.barrier(passphrase=lambda: PASSPHRASE, new=ANOTHER).passed
        assert not any(old in file.read_bytes() for file in place.glob("keys.db*"))
        alice(vault, "a tenant that comes after").create()
    with pytest.raises(WrongKey):
        Vault.open(place, passphrase=PASSPHRASE)
    assert is_whole(place, ANOTHER)


@pytest.mark.parametrize("fresh", [False, True], ids=["rotate", "barrier"])
def test_what_old_copies_of_keys_open_with_todays_keys(place, tmp_path, fresh):
    """D5: an old copy of keys.db and the root key of today; and what was destroyed in between"""
    fill(place)
    with Vault.open(place) as vault:
        row = next(row for row in vault._store.rows() if row.purpose == "epoch")
        item = next(row for row in vault._store.rows() if row.purpose == "item")
        shutil.copytree(place, tmp_path / "old")
        for purpose, one in (("epoch", row), ("item", item)):
            vault._store.condemn(bytes(16), one.tenant_id, [Doomed(purpose, one.scope, None, frozenset())], 1)
        vault._store.destroy(bytes(16))
        (vault.keys.barrier if fresh else vault.keys.rotate)()
        (tenant,) = (vault._keys.tenant_by_id(one.tenant_id) for one in [row])
        shutil.copy(place / "root.key", tmp_path / "old" / "root.key")
        with pytest.raises(WrongKey):
            Vault.open(tmp_path / "old")
        for one in (row, item):
            # Today's tenant key on the old wrap: wrapping the root anew is no barrier.
            opened = contextlib.nullcontext() if not fresh else pytest.raises(Tampered)
            with opened:
                Rotation(vault._vault_id, b"", vault._store)._moved(one, tenant.wrapping, bytes(32))


def test_keys_of_before_tenants_were_noted_are_taken_along(place):
    """Point 3: an older vault"""
    fill(place)
    database = sqlite3.connect(place / "keys.db")
    with database:
        database.execute("UPDATE keys SET tenant_id = x'' WHERE purpose = 'epoch'")
    database.close()
    with Vault.open(place) as vault:
        assert vault.keys.barrier().passed
        assert {row.tenant_id for row in vault._store.rows() if row.purpose == "epoch"} == {
            vault._keys.tenant(tenant, create=False).tenant_id for tenant in TENANTS
        }
    assert is_whole(place)


def test_a_barrier_stops_at_a_key_that_it_would_lose(place):
    """K3"""
    fill(place)
    database = sqlite3.connect(place / "keys.db")
    with database:
        database.execute(
            "UPDATE keys SET wrapped = zeroblob(105)"
            " WHERE rowid = (SELECT max(rowid) FROM keys WHERE purpose = 'epoch')"
        )
    database.close()
    before = wrapped(place)
    with Vault.open(place) as vault:
        with pytest.raises(Tampered):
            vault.keys.barrier()
        assert alice(vault).resume_external("0")
    after = wrapped(place)
    assert sum(before[at] != after[at] for at in before) in {0, len(before) // 2 - 1}  # a tenant, or none


def test_of_two_barriers_at_once_the_slower_begins_again(place):
    """K3: behind a passphrase nothing but keys.db itself is between them"""
    fill(place)
    with Vault.open(place) as vault:
        store, root = vault._store, vault._custody._root
        read, meanwhile = store.rows_of, []

        def rows_of(tenant_id):
            rows = list(read(tenant_id))
            if tenant_id and not meanwhile:
                meanwhile.append(tenant_id)
                Rotation(vault._vault_id, root, store).freshen()
            return iter(rows)

        store.rows_of = rows_of
        slower = Rotation(vault._vault_id, root, store)
        assert slower.freshen() == len(wrapped(place)) - 2
        assert meanwhile
    assert is_whole(place)


# ------------------------------------------------------------------------- while others are open


@pytest.mark.parametrize("fresh", [False, True], ids=["rotate", "barrier"])
def test_open_vaults_go_on_while_another_process_replaces_the_keys(place, fresh):
    """K3: known and unknown sessions, new sessions, a new tenant, and their own rotation after"""
    fill(place)
    with Vault.open(place) as vault, Vault.open(place) as blank:
        known = alice(vault).resume_external("0")

        def replace():
            with Vault.open(place) as other:
                (other.keys.barrier if fresh else other.keys.rotate)()

        for turn in range(2):
            assert in_child(replace) == 0
            known.append("a.b", turn)
            assert [event.payload for event in alice(vault).resume_external(str(turn + 1)).events()]
            alice(vault).create(external_id=f"made {turn}").append("a.b", turn)
            alice(vault, f"new {turn}").create(external_id="first").append("a.b", turn)
            assert alice(blank, "other").resume_external(str(turn))
            vault.keys.rotate()
            blank.keys.barrier()
    assert is_whole(place)
    with Vault.open(place) as vault:
        for turn in range(2):
            for session in (
                alice(vault).resume_external(f"made {turn}"),
                alice(vault, f"new {turn}").resume_external("first"),
            ):
                assert [event.payload for event in session.events()] == [turn]


def test_an_open_vault_behind_a_passphrase_says_to_open_it_again(place):
    """K3"""
    fill(place, root="passphrase:", passphrase=PASSPHRASE)
    with Vault.open(place, passphrase=PASSPHRASE) as vault:
        known = alice(vault).resume_external("0")
        with Vault.open(place, passphrase=PASSPHRASE) as other:
            other.keys.rotate(passphrase=PASSPHRASE)
        known.append("a.b", "still")
        alice(vault).create(external_id="made").append("a.b", "still")
        with pytest.raises(KeyUnavailable, match="open it again"):
            alice(vault, "a new tenant").create()
        with pytest.raises(Conflict, match="open the vault again"):
            vault.rotate_passphrase(
                ANOTHER
            )  # it would put the old root key's record back, and lose the vault
    assert is_whole(place, PASSPHRASE)


def test_a_tampered_key_is_still_called_so_when_nobody_replaced_the_root(place, root, given):
    """K3: no false word of a rotation"""
    fill(place, root=root, passphrase=given)
    database = sqlite3.connect(place / "keys.db")
    with database:
        database.execute("UPDATE keys SET wrapped = zeroblob(105) WHERE purpose = 'tenant'")
    database.close()
    with Vault.open(place, passphrase=given) as vault, pytest.raises(Tampered):
        alice(vault).resume_external("0")


def test_of_threads_of_work_none_is_lost_between_old_and_new_keys(place):
    """K3: sessions made in two processes, while a third replaces the keys again and again"""
    fill(place)

    def make(name):
        with Vault.open(place) as vault:
            for number in range(25):
                alice(vault).create(external_id=f"{name} {number}").append("a.b", number)
                alice(vault, f"{name} {number}").create(external_id="new").append("a.b", number)

    makers = []
    for name in ("x", "y"):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                make(name)
                code = 0
            except BaseException:  # noqa: BLE001 - shown, and told by the exit code
                traceback.print_exc()
            finally:
                os._exit(code)
        makers.append(pid)
    replaced, codes = 0, []
    with Vault.open(place) as vault:
        while makers:
            (vault.keys.barrier if replaced % 3 else vault.keys.rotate)()
            replaced += 1
            for pid in list(makers):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    makers.remove(pid)
                    codes.append(os.waitstatus_to_exitcode(status))
    assert codes == [0, 0]
    assert replaced > 5
    assert is_whole(place)
    with Vault.open(place) as vault:
        for name in ("x", "y"):
            for number in range(25):
                for session in (
                    alice(vault).resume_external(f"{name} {number}"),
                    alice(vault, f"{name} {number}").resume_external("new"),
                ):
                    assert [event.payload for event in session.events()] == [number]


# ---------------------------------------------------------------------------------------- killed


def dies_at(step, counted):
    """Make this process die before its n-th step that touches the disk, so after the one before it."""
    if step is None:
        return
    steps = 0

    def dying(function):
        def work(*args, **kwargs):
            nonlocal steps
            steps += 1
            if steps == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return work

    for place, name in counted:
        setattr(place, name, dying(getattr(place, name)))


STEPS = [
    (os, "fsync"),
    (Path, "replace"),
    (Path, "unlink"),
    (Path, "chmod"),
    (SqlKeyStore, "rewrap"),
    (KeyHierarchy, "take_root"),
]


@pytest.mark.parametrize("fresh", [False, True], ids=["rotate", "barrier"])
def test_killed_at_each_step_the_vault_opens_and_nothing_is_lost(place, tmp_path, root, given, fresh):
    """L2, K3: the root record names the key that opens it"""
    fill(tmp_path / "kept", root=root, passphrase=given)

    def work(step):
        with Vault.open(place, passphrase=given) as vault:
            dies_at(step, STEPS)
            (vault.keys.barrier if fresh else vault.keys.rotate)(passphrase=given)
            os._exit(0)

    for step in range(1, 100):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(tmp_path / "kept", place)
        code = in_child(lambda step=step: work(step))
        assert is_whole(place, given), step
        assert not (place / "root.key.next").exists() or code != 0
        assert in_child(lambda: work(None)) == 0, step  # again, from the start
        assert is_whole(place, given), step
        assert not (place / "root.key.next").exists()
        if code == 0:
            break
    assert step > (9 if root == "file:" else 2), step


def replace_until_killed(place, pipe):
    with Vault.open(place) as vault:
        os.write(pipe, b"open\n")
        for number in range(10**6):
            (vault.keys.barrier if number % 2 else vault.keys.rotate)()


def make_until_killed(place, pipe, name):
    with Vault.open(place) as vault:
        os.write(pipe, b"open\n")
        for number in range(10**6):
            alice(vault).create(external_id=f"{name} {number}").append("a.b", number)
            os.write(pipe, f"made {name} {number}\n".encode())


class Killed:
    """Processes of one turn, and what they said before they were killed."""

    def __init__(self, *works):
        self.reading, writing = os.pipe()
        self.pids = []
        for work, *given in works:
            pid = os.fork()
            if pid == 0:
                with contextlib.suppress(BaseException):
                    work(given[0], writing, *given[1:])
                os.write(writing, b"open\n")  # it gave up, and is not counted as killed
                os._exit(1)
            self.pids.append(pid)
        os.close(writing)

    def end(self, chance):
        """Kill them, a moment after all are at work: what they said, and how many lived so long."""
        text, killed = b"", 0
        while text.count(b"open\n") < len(self.pids):
            text += os.read(self.reading, 65_536)
        time.sleep(chance.uniform(0, 0.1))
        for pid in chance.sample(self.pids, len(self.pids)):
            os.kill(pid, signal.SIGKILL)
            killed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        while more := os.read(self.reading, 65_536):
            text += more
        os.close(self.reading)
        return text.decode().splitlines(), killed


def test_killed_at_random_moments_the_vault_is_always_whole(place):
    """L2, K3: barriers and rotations in one process, sessions made in another, both killed"""
    fill(place)
    chance, made, killed = random.Random(5), [], 0
    for turn in range(KILLS // 2):
        lines, died = Killed((replace_until_killed, place), (make_until_killed, place, turn)).end(chance)
        made += [line.split()[1:] for line in lines if line.startswith("made")]
        killed += died
        if turn % 5 == 4:
            assert is_whole(place)
    assert killed == KILLS  # nobody gave up by itself
    assert len(made) > KILLS // 4
    with Vault.open(place) as vault:
        for turn, number in made:
            session = alice(vault).resume_external(f"{turn} {number}")
            assert [event.payload for event in session.events()] == [int(number)]
        assert vault.verify().ok
