"""A log that is sealed anew, and a process that ends at any step of it: either log is whole. K3, L2, S4."""

import io
import os
import shutil
import traceback
from itertools import count

import pytest

from vault import Principal, Vault
from vault.copies import fsck
from vault.erasure import reencrypt, resealing
from vault.errors import Busy
from vault.model import session_bytes
from vault.storage.files import FileBlobs
from vault.storage.keystore import SqlKeyStore
from vault.storage.records import SqlRecords

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
DAY = 24 * 3_600_000_000
#: What is durable changes in these; the process ends before and after each call of them.
STEPS = (
    (SqlKeyStore, "put"),
    (SqlKeyStore, "drop"),
    (SqlRecords, "transact"),
    (SqlRecords, "truncate"),
    (FileBlobs, "delete"),
    (resealing, "_replace_rows"),
    (resealing, "_delete_files"),
    (reencrypt, "_fresh"),
)


class Clock:
    def __init__(self):
        self.now = 1_800_000_000_000_000

    def now_us(self):
        return self.now


def ends_at(number):
    """Let this process end at the step of this number, without a word; steps are counted from 0."""
    steps = count()

    def cut():
        if next(steps) == number:
            os._exit(9)

    for holder, name in STEPS:
        whole = getattr(holder, name)

        def stepped(*args, _whole=whole, **more):
            cut()
            result = _whole(*args, **more)
            cut()
            return result

        setattr(holder, name, stepped)


def in_child(number, work):
    """Work in a process of its own that ends at a step; whether it came to the end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ends_at(number)
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - shown, and told by the exit code
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in {0, 9}
    return code == 0


def filled(access):
    session = access.sessions.create(title="August", labels={"case": "7"})
    session.append("message.user", {"content": "hello"})
    session.append("chat.item", {"said": "a" * 300_000})
    session.append("chat.file", raw=io.BytesIO(os.urandom(1_200_000)))
    session.append("chat.item", {"said": "left"}, epoch=1)
    session.append("chat.item", {"said": "b" * 5_000}, epoch=2)
    return session


def seen(session):
    events = list(session.events())
    return [(e.id, e.seq, e.type, e.payload, e.erased, e.epoch) for e in events]


def unchanged(place, clock, session, before):
    """Open it as anybody would; the session is whole, and nothing is wrong but files that nothing names."""
    with Vault.open(place, clock=clock) as vault:
        found = vault.access(ALICE).sessions.resume(session.id)
        assert seen(found) == before
        found.append("message.user", {"content": "goes on"})
        assert {one.kind for one in vault.verify().findings} <= {"orphan_file"}
        assert {one.kind for one in fsck(vault).findings} <= {"unnamed_file", "old_key", "unused_key"}


def test_keys_are_replaced_and_a_process_ends_at_any_step(place, tmp_path):
    """K3: nothing is lost; run again, it ends as if nothing had happened"""
    clock = Clock()
    with Vault.create(place, clock=clock) as vault:
        alice = vault.access(ALICE)
        session = filled(alice)
        session.retract_epoch(2)
        fork = alice.sessions.fork(session.id)
        alice.memories.put(("m",), "k", {"v": 1}, sources=[session])
        before, forked = seen(session), seen(fork)
    for number in count():
        copy = tmp_path / "copy" / "vault"
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.rmtree(tmp_path / "state", ignore_errors=True)  # this machine remembers the copy before
        shutil.copytree(place, copy)

        def work(copy=copy):
            with Vault.open(copy, clock=clock) as vault:
                vault.keys.reencrypt(session.id)
                os._exit(0)

        ended = in_child(number, work)
        unchanged(copy, clock, session, before)
        with Vault.open(copy, clock=clock) as vault:
            alice = vault.access(ALICE)
            assert seen(alice.sessions.resume(fork.id)) == forked
            assert [one.value for one in alice.memories.list(("m",))] == [{"v": 1}]
            vault.keys.reencrypt(session.id)
            numbers = vault._store.epochs_of(session_bytes(session.id))
            assert len({number >> 32 for number in numbers}) == 1
            assert len(numbers) == 2
            assert seen(alice.sessions.resume(session.id))[: len(before)] == before
        if ended:
            break
    assert number > 15


def test_a_fork_takes_over_and_a_process_ends_at_any_step(place, tmp_path):
    """S4, D3: the fork reads the same at any time, and the next sweep takes the original"""
    clock = Clock()
    with Vault.create(place, clock=clock) as vault:
        alice, officer = vault.access(ALICE), vault.access(OFFICER)
        session = filled(alice)
        clock.now += 200 * DAY
        officer.retention.trust_clock()
        fork = alice.sessions.fork(session.id)
        fork.append("message.user", {"content": "of the fork"})
        clock.now += 180 * DAY
        officer.retention.trust_clock()
        before, now = seen(fork), clock.now
    for number in count():
        clock.now = now
        copy = tmp_path / "copy" / "vault"
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.rmtree(tmp_path / "state", ignore_errors=True)  # this machine remembers the copy before
        shutil.copytree(place, copy)

        def work(copy=copy):
            with Vault.open(copy, clock=clock) as vault:
                vault.access(OFFICER).retention.run()
                os._exit(0)

        ended = in_child(number, work)
        with Vault.open(copy, clock=clock) as vault:
            alice = vault.access(ALICE)
            assert seen(alice.sessions.resume(fork.id)) == before
            try:
                vault.access(OFFICER).retention.run()
            except Busy:  # the process that ended holds the lease
                clock.now += 3_600_000_000
                vault.access(OFFICER).retention.run()
            assert seen(alice.sessions.resume(fork.id)) == before
            with vault._records.snapshot() as reader:
                assert not list(reader.scan("whose", id=session_bytes(session.id)))
            assert {one.kind for one in vault.verify().findings} <= {"orphan_file"}
        if ended:
            break
    assert number > 15


@pytest.fixture(autouse=True)
def _no_other_steps():
    """The steps are patched in child processes only."""
    yield
    assert "stepped" not in {getattr(holder, name).__name__ for holder, name in STEPS}
