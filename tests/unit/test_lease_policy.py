"""A lease is a value: whatever is done to it, one run holds it, tokens grow, and who came first is next."""

import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.errors import Busy, Fenced, InvalidInput
from vault.policy import lease as leases
from vault.policy.lease import ALIVE_US, Lease, Ticket, decode, encode

NOW = 1_800_000_000_000_000  # 2027-01-15 08:00:00 UTC
SECOND = 1_000_000
RUNS = [f"{number:032x}" for number in range(1, 6)]
YEAR_SECONDS = 365 * 86_400

runs = st.sampled_from(RUNS)
steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "wait", "leave", "renew", "release", "revoke"]),
        runs,
        st.sampled_from([0, 1, SECOND, ALIVE_US - 1, ALIVE_US, 40 * SECOND]),
        st.sampled_from([SECOND, 30 * SECOND]),
    ),
    max_size=60,
)
stored = st.builds(
    Lease,
    token=st.integers(0, 2**53),
    run=st.sampled_from(["", *RUNS]),
    since_us=st.integers(0, 2**53),
    until_us=st.integers(0, 2**53),
    queue=st.lists(st.builds(Ticket, run=runs, alive_us=st.integers(0, 2**53)), max_size=4).map(tuple),
)


class Told:
    """What should be so, kept as plainly as can be: who holds it until when, and who came when."""

    def __init__(self):
        self.now, self.holder, self.token, self.until = NOW, None, 0, 0
        self.given = {}  # run → the newest token it was ever given
        self.waiting = []  # [run, when it last said that it waits], in order of arrival

    def present(self):
        return [run for run, said in self.waiting if self.now - said < ALIVE_US]

    def may_take(self, run):
        held = self.holder is not None and self.now < self.until
        return not held and self.present()[:1] in ([], [run])

    def take(self, run, lease_us):
        self.token += 1
        self.holder, self.until, self.given[run] = run, self.now + lease_us, self.token
        self.leave(run)

    def wait(self, run):
        if run in self.present():
            self.waiting = [[who, self.now if who == run else said] for who, said in self.waiting]
        else:
            self.leave(run)
            self.waiting.append([run, self.now])

    def leave(self, run):
        self.waiting = [place for place in self.waiting if place[0] != run]

    def holds(self, run):
        return self.holder == run and self.given.get(run) == self.token

    def gone(self):
        self.holder = None


def stepped(lease, told, step):
    """The lease after one step, and the model too; what the model forbids must be refused."""
    action, run, passed_us, lease_us = step
    told.now += passed_us
    token = told.given.get(run, 0)
    if action == "take":
        if not told.may_take(run):
            with pytest.raises(Busy):
                leases.take(lease, run, told.now, lease_us)
            return lease
        told.take(run, lease_us)
        return leases.take(lease, run, told.now, lease_us)
    if action in {"wait", "leave"}:
        getattr(told, action)(run)
        return leases.wait(lease, run, told.now) if action == "wait" else leases.leave(lease, run)
    if action == "revoke":
        told.token += 1
        told.gone()
        return leases.revoke(lease)
    change = {"renew": leases.renew, "release": leases.release}[action]
    more = (told.now, lease_us) if action == "renew" else ()
    if not told.holds(run):
        with pytest.raises(Fenced):
            change(lease, run, token, *more)
        return lease
    if action == "renew":
        told.until = max(told.until, told.now + lease_us)
    else:
        told.gone()
    return change(lease, run, token, *more)


def passes(lease, run, token):
    try:
        leases.check(lease, run, token)
    except Fenced:
        return False
    return True


@given(steps)
def test_a_lease_does_what_a_plain_list_of_who_came_when_does(steps):
    """S6: who may take it, who is next, who still holds it, and what is refused"""
    lease, told = Lease(), Told()
    for step in steps:
        lease = stepped(lease, told, step)
        assert lease.token == told.token
        assert (lease.run or None) == told.holder
        assert lease.is_live(told.now) == (told.holder is not None and told.now < told.until)
        assert [run for run in RUNS if leases.is_next(lease, run, told.now)] == [
            run for run in RUNS if told.may_take(run)
        ]
        assert decode(encode(lease)) == lease


@given(steps)
def test_tokens_only_grow_and_an_old_one_never_passes_again(steps):
    """S6, D7"""
    lease, told, given_out, fenced = Lease(), Told(), set(), set()
    for step in steps:
        before = lease
        lease = stepped(lease, told, step)
        assert lease.token >= before.token
        if lease.run and (lease.run, lease.token) != (before.run, before.token):
            assert lease.token > before.token
            assert lease.token not in {token for _, token in given_out}
            given_out.add((lease.run, lease.token))
        alive = {pair for pair in given_out if passes(lease, *pair)}
        assert len(alive) <= 1
        assert not alive & fenced
        fenced |= given_out - alive


@given(stored, runs, st.integers(0, 2**53))
def test_only_the_run_and_token_of_the_lease_pass(lease, run, token):
    """S6"""
    assert passes(lease, run, token) == (lease.run == run and lease.token == token)
    for wrong in (lease.token - 1, lease.token + 1):
        assert not passes(lease, lease.run, wrong)


@given(stored)
def test_a_lease_comes_back_from_its_bytes_as_it_was(lease):
    """S6"""
    assert decode(encode(lease)) == lease
    assert encode(decode(encode(lease))) == encode(lease)


def test_a_session_without_any_run_has_the_empty_lease():
    """S6"""
    assert decode(b"") == Lease()
    assert not decode(b"").is_live(NOW)
    assert leases.is_next(Lease(), RUNS[0], NOW)


def test_a_live_lease_is_taken_by_nobody_and_an_expired_one_by_anybody():
    """S6"""
    lease = leases.take(Lease(), RUNS[0], NOW, 30 * SECOND)
    for run in RUNS:  # not even by its own holder: a run takes it once
        with pytest.raises(Busy):
            leases.take(lease, run, NOW + 30 * SECOND - 1, SECOND)
    over = leases.take(lease, RUNS[1], NOW + 30 * SECOND, SECOND)
    assert (over.run, over.token) == (RUNS[1], 2)
    assert not passes(over, RUNS[0], 1)


def test_an_expired_lease_that_nobody_took_is_still_its_holders():
    """S6"""
    lease = leases.take(Lease(), RUNS[0], NOW, SECOND)
    leases.check(lease, RUNS[0], 1)
    renewed = leases.renew(lease, RUNS[0], 1, NOW + 3_600 * SECOND, SECOND)
    assert renewed.is_live(NOW + 3_600 * SECOND)


def test_a_renewal_never_makes_a_lease_shorter():
    """S6: a clock that was set back"""
    lease = leases.take(Lease(), RUNS[0], NOW, 30 * SECOND)
    assert leases.renew(lease, RUNS[0], 1, NOW - 3_600 * SECOND, SECOND) == lease


def test_a_lease_that_was_given_back_or_taken_away_stays_lost():
    """S6, D7"""
    lease = leases.take(Lease(), RUNS[0], NOW, 30 * SECOND)
    for after in (leases.release(lease, RUNS[0], 1), leases.revoke(lease)):
        assert not after.is_live(NOW)
        for change in (leases.check, leases.release, lambda *held: leases.renew(*held, NOW, SECOND)):
            with pytest.raises(Fenced, match="lost its lease"):
                change(after, RUNS[0], 1)
        again = leases.take(after, RUNS[0], NOW, SECOND)
        assert again.token > lease.token


def test_what_takes_the_lease_away_leaves_the_queue_as_it_is():
    """S6"""
    lease = leases.wait(leases.take(Lease(), RUNS[0], NOW, 30 * SECOND), RUNS[1], NOW)
    for after in (leases.revoke(lease), leases.release(lease, RUNS[0], 1)):
        assert after.queue == lease.queue
        assert leases.is_next(after, RUNS[1], NOW)
        assert not leases.is_next(after, RUNS[2], NOW)


@given(st.permutations(RUNS))
def test_who_waits_gets_it_in_order_of_arrival_however_often_they_say_that_they_wait(order):
    """S6"""
    holder, *waiting = order
    lease = leases.take(Lease(), holder, NOW, 30 * SECOND)
    for step, run in enumerate(waiting):
        lease = leases.wait(lease, run, NOW + step)
    for step, run in enumerate(reversed(waiting)):
        lease = leases.wait(lease, run, NOW + SECOND + step)
    token, served = lease.token, []
    while lease.queue:
        lease = leases.release(lease, lease.run, token)
        (run,) = [run for run in RUNS if leases.is_next(lease, run, NOW + 2 * SECOND)]
        lease = leases.take(lease, run, NOW + 2 * SECOND, SECOND)
        token = lease.token
        served.append(run)
    assert served == waiting


def test_a_run_that_does_not_wait_is_not_let_in_before_those_that_do():
    """S6"""
    lease = leases.wait(leases.wait(Lease(), RUNS[1], NOW), RUNS[2], NOW)
    for run in (RUNS[0], RUNS[2]):
        with pytest.raises(Busy, match="other runs wait for this session; wait for it"):
            leases.take(lease, run, NOW, SECOND)
    assert leases.take(lease, RUNS[1], NOW, SECOND).queue == (Ticket(RUNS[2], NOW),)


def test_a_silent_waiter_is_passed_over_and_stands_last_when_it_comes_back():
    """S6"""
    lease = leases.take(Lease(), RUNS[0], NOW, 30 * SECOND)
    lease = leases.wait(leases.wait(lease, RUNS[1], NOW), RUNS[2], NOW + 1)
    free = leases.release(lease, RUNS[0], 1)
    assert not leases.is_next(free, RUNS[2], NOW + ALIVE_US - 1)
    assert leases.is_next(free, RUNS[2], NOW + ALIVE_US)
    back = leases.wait(free, RUNS[1], NOW + ALIVE_US)
    assert [ticket.run for ticket in back.queue] == [RUNS[2], RUNS[1]]
    taken = leases.take(back, RUNS[2], NOW + ALIVE_US, SECOND)
    assert [ticket.run for ticket in taken.queue] == [RUNS[1]]


def test_a_waiter_that_speaks_in_time_is_never_passed_over():
    """S6"""
    lease, now = leases.wait(Lease(), RUNS[1], NOW), NOW
    for _ in range(20):
        now += ALIVE_US - 1
        assert not leases.is_next(lease, RUNS[2], now)
        lease = leases.wait(lease, RUNS[1], now)


def test_who_leaves_the_queue_holds_up_nobody_and_may_leave_twice():
    """S6"""
    lease = leases.wait(leases.wait(Lease(), RUNS[1], NOW), RUNS[2], NOW)
    left = leases.leave(leases.leave(lease, RUNS[1]), RUNS[1])
    assert leases.is_next(left, RUNS[2], NOW)
    assert leases.leave(Lease(), RUNS[1]) == Lease()


def test_a_full_queue_takes_nobody_more_and_forgets_the_silent():
    """S6, invariant 12"""
    lease = leases.take(Lease(), RUNS[0], NOW, 3_600 * SECOND)
    for number in range(leases.QUEUE_MAX):
        lease = leases.wait(lease, f"{number + 100:032x}", NOW)
    with pytest.raises(Busy, match="64 others wait; try again later"):
        leases.wait(lease, RUNS[1], NOW)
    assert leases.wait(lease, f"{100:032x}", NOW + 1).queue[0] == Ticket(f"{100:032x}", NOW + 1)
    assert leases.wait(lease, RUNS[1], NOW + ALIVE_US).queue == (Ticket(RUNS[1], NOW + ALIVE_US),)


def test_an_outsider_is_refused_only_while_a_run_is_active():
    """S6"""
    lease = leases.take(Lease(), RUNS[0], NOW, SECOND)
    with pytest.raises(Busy, match="append within that run, or post"):
        leases.refuse_outsider(lease, NOW + SECOND - 1)
    leases.refuse_outsider(lease, NOW + SECOND)
    leases.refuse_outsider(leases.release(lease, RUNS[0], 1), NOW)
    leases.refuse_outsider(Lease(), NOW)


def test_busy_says_since_when_and_names_no_run():
    """S6, invariant 12"""
    lease = leases.take(Lease(), RUNS[0], NOW + 999_999, 30 * SECOND)
    since = f"{datetime.fromtimestamp(NOW // SECOND, UTC):%Y-%m-%d %H:%M:%S} UTC"
    for refused in (
        lambda: leases.take(lease, RUNS[1], NOW + SECOND, SECOND),
        lambda: leases.refuse_outsider(lease, NOW + SECOND),
    ):
        with pytest.raises(Busy, match=since) as told:
            refused()
        assert RUNS[0] not in str(told.value)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("what", ["lease_seconds", "wait"])
@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(-1, id="below-zero"),
        pytest.param(-0.001, id="a-little-below-zero"),
        pytest.param(math.nan, id="nan"),
        pytest.param(math.inf, id="infinite"),
        pytest.param(-math.inf, id="minus-infinite"),
        pytest.param(True, id="true"),
        pytest.param(False, id="false"),
        pytest.param("30", id="text"),
        pytest.param(b"30", id="bytes"),
        pytest.param(None, id="none"),
        pytest.param([30], id="list"),
        pytest.param(30 + 0j, id="complex"),
        pytest.param(Decimal(30), id="decimal"),
        pytest.param(YEAR_SECONDS, id="a-year"),
        pytest.param(86_401, id="a-day-and-a-second"),
        pytest.param(10**400, id="no-float-holds-it"),
    ],
)
def test_a_number_of_seconds_out_of_range_is_refused_in_one_sentence(seconds, what):
    """S6, invariant 12"""
    with pytest.raises(InvalidInput) as told:
        leases.check_seconds(seconds, what, low=0, high=leases.SECONDS_MAX)
    assert str(told.value) == f"{what} is a number of seconds from 0 to 86400"


@pytest.mark.parametrize("seconds", [0, 0.0, 0.09, 0.0999999])
def test_a_lease_shorter_than_a_tenth_of_a_second_is_refused(seconds):
    """S6, invariant 12"""
    with pytest.raises(InvalidInput, match=r"seconds from 0\.1 to 86400$"):
        leases.check_seconds(seconds, "lease_seconds", low=leases.SECONDS_MIN, high=leases.SECONDS_MAX)


@pytest.mark.parametrize(
    ("seconds", "microseconds"), [(0, 0), (0.1, 100_000), (30, 30_000_000), (86_400.0, 86_400_000_000)]
)
def test_seconds_within_the_limits_become_whole_microseconds(seconds, microseconds):
    """S6"""
    found = leases.check_seconds(seconds, "wait", low=0, high=leases.WAIT_SECONDS_MAX)
    assert (found, type(found)) == (microseconds, int)
