"""The worker: ticks that fail are told, a dead scheduler is made anew, and a killed process loses nothing.

D3, D4, D7.
"""

import signal
import sqlite3
import threading
import time
from contextlib import closing
from datetime import timedelta

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from vault import Principal, Vault, scheduler
from vault.clock import SystemClock
from vault.errors import ClockAnomaly, InvalidInput
from vault.scheduler import Worker

DAY = 86_400_000_000
SECONDS_MAX = 40
TENANTS = [f"tenant-{number}" for number in range(10)]


def who(tenant, role="owner"):
    return Principal(tenant=tenant, subject="alice", roles=frozenset({role}))


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        opened.access(who("acme")).sessions.create()
        yield opened


def until(condition):
    """Wait for something, and be sure that it came."""
    end = time.monotonic() + SECONDS_MAX
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it never came")


class AtWork:
    """A worker in a thread of its own."""

    def __init__(self, vault, told):
        self.stop, self.raised = threading.Event(), []
        self.worker = Worker(vault, every_seconds=1, told=told)
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            self.worker.run(self.stop)
        except ZeroDivisionError as error:
            self.raised.append(error)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(timeout=SECONDS_MAX)
        assert not self.thread.is_alive()


def test_a_tick_that_fails_is_told_and_the_next_one_works(vault, clock):
    """D3: here of a clock that jumped, and is right after all"""
    vault.sweep()
    clock.now += 400 * DAY
    ticks = []
    with AtWork(vault, ticks.append):
        first = until(lambda: ticks and ticks[0])
        vault.access(who("acme", "privacy_officer")).retention.trust_clock()
        until(lambda: any(tick.sweeps for tick in ticks))
    assert isinstance(first.error, ClockAnomaly)
    done = next(tick for tick in ticks if tick.error is None)
    assert [one.going for one in done.sweeps] == [1]
    assert ticks[-1].error is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_scheduler_whose_thread_died_is_made_anew(vault, monkeypatch):
    """D3: nobody would see it otherwise, and nothing would be erased any more"""
    died, ticks, offset = [], [], [0]
    process = BackgroundScheduler._process_jobs

    def dies_once(self):
        if not died:
            died.append(threading.current_thread())
            raise OSError  # ends the thread
        return process(self)

    monkeypatch.setattr(BackgroundScheduler, "_process_jobs", dies_once)
    real = scheduler.monotonic_seconds
    monkeypatch.setattr(scheduler, "monotonic_seconds", lambda: real() + offset[0])
    with AtWork(vault, ticks.append):
        until(lambda: died and not died[0].is_alive())
        assert ticks == []
        offset[0] = 70
        until(lambda: ticks)
    assert ticks[0].error is None


def test_a_mistake_in_the_program_ends_it_and_is_raised(vault):
    def told(_):
        raise ZeroDivisionError

    with AtWork(vault, told) as work:
        until(lambda: work.raised)


def test_what_waits_for_another_worker_is_no_error(vault, place, clock):
    """D3: two beside each other"""
    with Vault.open(place, clock=clock) as other:
        ticks = []
        with AtWork(vault, ticks.append), AtWork(other, ticks.append):
            until(lambda: len(ticks) >= 3)
    assert [tick.error for tick in ticks] == [None] * len(ticks)


@pytest.mark.parametrize("wrong", [0, 0.5, 86_401, float("nan"), True, "60", None], ids=str)
def test_an_interval_out_of_range_is_refused(vault, wrong):
    with pytest.raises(InvalidInput):
        Worker(vault, every_seconds=wrong)


# --------------------------------------------------------------------------------------------- processes

PROGRAM = """
import sys
from vault.cli import main
from vault.erasure import watch
watch.LEASE_US = 2_000_000  # how long one that was killed keeps the other waiting
sys.exit(main(["worker", "--vault", sys.argv[1], "--every", "1"]))
"""


class Past(SystemClock):
    """The clock of two years ago."""

    def now_us(self):
        return super().now_us() - 730 * DAY


@pytest.fixture
def due(place):
    """A vault in which a session and a memory of each tenant are due."""
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=Past()) as made:
        for tenant in TENANTS:
            access = made.access(who(tenant))
            session = access.sessions.create(title="a title")
            session.append("message.user", {"content": "x" * 2_000})
            access.memories.put(("n",), "k", 1, sources=[session])
    return place


def receipts(place):
    with closing(sqlite3.connect(f"file:{place}/data.db?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT count(*) FROM receipts").fetchone()[0]


def test_of_two_workers_one_is_killed_and_everything_is_erased_once(due, python):
    """D3, D4, D7: by whichever is left, with one receipt for each erasure"""
    first = python(PROGRAM, due)
    until(lambda: receipts(due) >= 1)
    second = python(PROGRAM, due)
    until(lambda: receipts(due) >= 3)
    first.kill()
    first.wait()
    assert receipts(due) < len(TENANTS), "it was killed too late for this test"
    until(lambda: receipts(due) == len(TENANTS))
    time.sleep(1.5)  # a tick more, that finds nothing
    second.send_signal(signal.SIGTERM)
    out, err = second.communicate(timeout=SECONDS_MAX)
    assert (second.returncode, err) == (0, "")
    assert all("erased" in line for line in out.splitlines())
    with Vault.open(due) as opened:
        assert opened.verify().findings == ()
        for tenant in TENANTS:
            officer = opened.access(who(tenant, "privacy_officer"))
            (receipt,) = officer.erasure.receipts()
            assert receipt.state == "verified"
            assert dict(receipt.counts) == {("session", "erased"): 1, ("memory", "erased"): 1}
            assert opened.access(who(tenant)).sessions.find().items == ()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_worker_that_is_told_to_stop_ends_without_an_error(due, python, number):
    process = python(PROGRAM, due)
    until(lambda: receipts(due) == len(TENANTS))
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, err) == (0, "")
    assert "erased 20 things in 10 erasures" in out
    with Vault.open(due) as opened:
        assert opened.verify().findings == ()


def test_a_barrier_is_passed_so_many_days_after_an_erasure(place, clock, monkeypatch):
    """K3, D6: once, and only when something waits for it; then the receipts say so"""
    settings = {"synchronous": "NORMAL", "barrier_days": 7}
    with Vault.create(place, settings=settings, clock=clock) as vault:
        access, now = vault.access(who("acme")), scheduler.from_us(clock.now)
        monkeypatch.setattr(scheduler, "_now", lambda: now)
        worker = Worker(vault)
        assert not worker.tick().barrier
        access.erasure.erase(session=access.sessions.create().id)
        for days, passed in ((1, False), (6, False), (8, True), (9, False), (30, False)):
            now = scheduler.from_us(clock.now) + timedelta(days=days)
            assert worker.tick().barrier is passed
        officer = vault.access(who("acme", "privacy_officer"))
        assert {one.state for one in officer.erasure.receipts()} == {"barrier_passed", "verified"}
        assert vault.keys.waiting_since() == 0


def test_no_barrier_is_passed_by_itself_unless_the_settings_say_so(vault, clock, monkeypatch):
    """K3"""
    access = vault.access(who("acme"))
    access.erasure.erase(session=access.sessions.create().id)
    assert vault.keys.waiting_since() > 0
    monkeypatch.setattr(scheduler, "_now", lambda: scheduler.from_us(clock.now + 400 * DAY))
    assert not Worker(vault).tick().barrier
