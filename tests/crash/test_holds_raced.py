"""Holds, sweeps and erasures race in several processes: a held session is never erased, no answer lies.

D2, D3, D6. ``HOLD_RACES`` sets how often somebody holds, lifts, sweeps or erases, in all processes together.
"""

import contextlib
import json
import os
import random
import time
import traceback
from collections import Counter

import pytest

from vault import Principal, Vault
from vault.errors import Busy, Conflict, NotFound
from vault.sealing.receipts import chain_of, verified

RACES = int(os.environ.get("HOLD_RACES", "520"))
SETTINGS = {"synchronous": "NORMAL"}
OWNER = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
AUDITOR = Principal(tenant="acme", subject="otto", roles=frozenset({"auditor"}))
#: A year and a week: what was made before this is due, what is made after it can be read.
AGE_US = (365 + 7) * 24 * 3_600_000_000
LIVE, EXPIRED, WORKERS = 24, 14, 4


class Later:
    """The system's clock, some time ahead."""

    def __init__(self, ahead_us):
        self._ahead = ahead_us

    def now_us(self):
        return time.time_ns() // 1_000 + self._ahead


def opened(place):
    """The vault, when what is in it has expired."""
    return Vault.open(place, clock=Later(AGE_US))


def raw(session_id):
    return bytes.fromhex(session_id.partition("_")[2].replace("-", ""))


class Racer:
    """One process: does things at random, and checks what it can know by itself."""

    def __init__(self, vault, live, expired, seed):
        self.vault, self.live, self.expired = vault, live, expired
        self.owner, self.officer = vault.access(OWNER), vault.access(OFFICER)
        self.choose, self.did, self.erased = random.Random(seed), Counter(), set()

    def one(self):
        work = self.choose.choice([self.hold, self.hold, self.erase, self.erase, self.sweep, self.read])
        with contextlib.suppress(Busy):
            work()

    def hold(self):
        """While it holds, what it holds is there, unless it was told that it came too late."""
        target = self.choose.choice([*self.live, *self.expired])
        hold = self.officer.holds.place(session=target, reason="race")
        self.did["hold"] += 1
        try:
            if hold.too_late == 0:
                time.sleep(self.choose.uniform(0, 0.02))
                assert self.is_there(target), "it was held, and is gone"
                assert target not in self.erased, "it was erased, and held all the same"
                self.did["kept"] += 1
            else:
                self.did["too late"] += 1
        finally:
            self.officer.holds.lift(hold.id, reason="race")
            self.did["lift"] += 1

    def erase(self, target=None):
        target = target or self.choose.choice(self.live)
        self.did["erase"] += 1
        try:
            outcome = self.owner.erasure.erase(session=target)
        except (Conflict, NotFound):
            return  # another process was faster: it says so, or there was nothing left and no receipt yet
        if outcome.counts.get(("session", "erased")):
            self.erased.add(target)
            assert not self.is_there(target), "it is said to be erased, and its key is there"
            self.did["erased"] += 1
        else:
            assert outcome.counts == {("session", "held"): 1}
            self.did["held"] += 1

    def sweep(self):
        swept = self.officer.retention.run()
        self.did["sweep"] += 1
        self.did["swept"] += swept.operations

    def read(self):
        """Whole, or not at all; never what this process knows to be erased."""
        target = self.choose.choice(self.live)
        try:
            read = [event.payload for event in self.owner.sessions.resume(target).events()]
        except NotFound:
            return
        assert read == [{"text": target}]
        assert target not in self.erased, "it was erased, and is readable"
        self.did["read"] += 1

    def is_there(self, target):
        store = self.vault._store
        return store.get("epoch", raw(target), 0, self.vault._owner_of_alice) is not None


def race(place, live, expired, seed, count, pipe):
    with opened(place) as vault:
        vault._owner_of_alice = vault._keys.tenant("acme", create=False).owner("alice")
        racer = Racer(vault, live, expired, seed)
        racer.erase(live[0])  # by chance it is met in 98 of 100 runs only
        for _ in range(count):
            racer.one()
    os.write(pipe, json.dumps(racer.did).encode())


class Process:
    """A forked process that races, and what it said at its end."""

    def __init__(self, *arguments):
        self.reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                race(*arguments, writing)
                status = 0
            except BaseException:  # noqa: BLE001 - said to the parent, which fails
                os.write(writing, json.dumps({"error": traceback.format_exc()}).encode())
            finally:
                os._exit(status)
        os.close(writing)

    def ended(self):
        with os.fdopen(self.reading, "rb") as pipe:
            said = json.loads(pipe.read())
        os.waitpid(self.pid, 0)
        return said


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_a_held_session_is_never_erased_and_an_erased_one_never_read(place):
    """D2, D3, D6: four processes; nobody is blocked, every receipt is true, each is erased once"""
    seed = random.randrange(2**32)
    with Vault.create(place, settings=SETTINGS, clock=Later(0)) as vault:
        expired = [made(vault).id for _ in range(EXPIRED)]
    with Vault.open(place, clock=Later(AGE_US)) as vault:
        live = [made(vault).id for _ in range(LIVE)]
        vault.access(OFFICER).retention.run()  # whose clock is believed from here on
        always = vault.access(OFFICER).holds.place(session=live[0], reason="to the end")
        assert always.too_late == 0
    shares = [RACES // WORKERS] * WORKERS
    processes = [Process(place, live, expired, seed + n, count) for n, count in enumerate(shares)]
    did = Counter()
    for said in [process.ended() for process in processes]:
        assert "error" not in said, (seed, said["error"])
        did += Counter(said)
    assert {"hold", "lift", "erase", "sweep", "kept", "erased", "held", "read"} <= did.keys(), (seed, did)
    with Vault.open(place, clock=Later(AGE_US)) as vault:
        check(vault, live, expired, always)


def made(vault):
    session = vault.access(OWNER).sessions.create()
    session.append("message.user", {"text": session.id})
    return session


def check(vault, live, expired, always):
    """What was held to the end is there; receipts and tombstones tell of the same keys, each once."""
    assert vault.verify().findings == ()
    officer = vault.access(OFFICER)
    officer.retention.run()
    assert officer.retention.health().unfinished == 0
    keys = {row.scope for row in vault._store.rows()}
    assert raw(live[0]) in keys
    gone = {raw(one) for one in [*live, *expired]} - keys
    receipts = [
        verified(one.receipt, vault._signer.public)
        for one in vault.access(AUDITOR).erasure.receipts(limit=10_000)
    ][::-1]
    chain_of(receipts)
    newest = {receipt.operation: receipt for receipt in receipts}
    assert {receipt.state for receipt in newest.values()} <= {"verified"}
    assert sum(receipt.keys.destroyed for receipt in newest.values()) == len(gone)
    assert sum(receipt.counts.get("session", {}).get("erased", 0) for receipt in newest.values()) == len(gone)
    graves = [grave for grave in vault._store.tombstones() if grave.epoch == 0]
    assert {grave.scope for grave in graves} == gone
    with vault._records.snapshot() as reader:
        left = {id_ for (id_,) in reader.scan("all_session_ids")}
    assert not left & gone
    officer.holds.lift(always.id, reason="over")
    officer.retention.run()
    assert {raw(one) for one in expired} & {row.scope for row in vault._store.rows()} == set()
