"""Single events expire before their session, by the hour, with a key of their own. D1, D2, D3, D6."""

import subprocess
import sys

import pytest

from tests.security import surgery
from vault import NewEvent, Principal, Vault, new_event_id
from vault.errors import Erased, InvalidInput
from vault.model import event_bytes
from vault.policy.epochs import EPOCH_MAX, ends_us, epoch_of, generation_of, hour_after, hour_now, is_over

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
PIA = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
HOUR = 3_600_000_000
DAY = 24 * HOUR
OTHERS = ["memory", "summary", "artifact", "embedding", "cache"]
POLICY = f"""
version = 1
name = "support"

[[retention]]
id = "sessions"
match = {{ kind = ["session"], labels = {{}} }}
anchor = "created"
expire_after = "1y"

[[retention]]
id = "the-rest"
match = {{ kind = {OTHERS}, labels = {{}} }}
anchor = "created"
expire_after = "1y"

[[retention]]
id = "tool-results"
match = {{ kind = ["event"], types = ["tool.*"] }}
anchor = "created"
expire_after = "30d"
on_expire = "redact:L0"

[[retention]]
id = "of-minors"
match = {{ kind = ["event"], types = ["tool.*"], labels = {{ case = "minor" }} }}
anchor = "created"
expire_after = "2d"
"""


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        opened.access(ALICE).sessions.create()  # makes the tenant known
        pia = opened.access(PIA).policies
        state = pia.activate(POLICY).state
        assert state in {"active", "pending"}
        clock.now += 25 * HOUR
        opened.sweep()
        assert pia.active().name == "support"
        yield opened


@pytest.fixture
def sessions(vault):
    return vault.access(ALICE).sessions


@pytest.fixture
def later(vault, clock):
    """Lets time pass, a day at a time: somebody looked at the clock."""

    def pass_by(us):
        end = clock.now + us
        while clock.now < end:
            clock.now = min(clock.now + DAY, end)
            vault.sweep()

    return pass_by


def filled(sessions, **about):
    session = sessions.create(**about)
    session.append("message.user", {"content": "why?"})
    session.append("tool.returned", {"result": "what is personal"}, tool="crm", resource="crm/7")
    session.append("message.assistant", {"content": "because"})
    return session


def told(session):
    return [None if event.erased else event.payload for event in session.events()]


def test_an_event_is_hidden_when_its_time_is_over_and_its_session_lives_on(sessions, clock):
    """D1: at once, whether or not a sweep has run"""
    session = filled(sessions)
    clock.now += 30 * DAY - HOUR
    assert None not in told(session)
    clock.now += 2 * HOUR
    assert told(session) == [{"content": "why?"}, None, {"content": "because"}]
    (_, seen, _) = session.events()
    assert (seen.type, seen.erased, seen.tool, seen.resource) == ("tool.returned", True, None, None)
    assert session.append("message.user", {"content": "more"}).seq == 4


def test_a_sweep_destroys_its_key_and_its_bytes(place, vault, sessions, clock, later):
    """D3, D6"""
    session = filled(sessions)
    event = next(session.events(types=["tool.returned"]))
    with vault._records.snapshot() as reader:
        row = reader.event(session._row.no, event_bytes(event.id))
    assert generation_of(row.epoch) == 0
    assert 0 <= ends_us(row.epoch) - (event.recorded_us + 30 * DAY) < HOUR
    later(30 * DAY + HOUR)
    assert vault._store.get("epoch", session._id, row.epoch, session._row.owner) is None
    assert vault._store.is_destroyed("epoch", session._id, row.epoch)
    assert not files_with(place, row.body[-40:])
    assert told(session)[1] is None
    assert vault.verify().ok
    entries = vault.access(PIA).audit.entries(limit=10)
    assert [entry.said for entry in entries if entry.what == "events.expired"] == [{"epochs": 1}]
    assert sum(one.epochs for one in vault.sweep()) == 0


def files_with(place, needle):
    """Another process looks: reading here would drop SQLite's locks."""
    program = (
        "import pathlib, sys\n"
        "needle = bytes.fromhex(sys.argv[2])\n"
        "for path in pathlib.Path(sys.argv[1]).rglob('*'):\n"
        "    if path.is_file() and needle in path.read_bytes(): print(path)"
    )
    command = [sys.executable, "-c", program, str(place), needle.hex()]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_it_expires_under_fresh_keys_as_under_the_first(place, vault, sessions, clock, later):
    """D3, K3: its hour stays in its number when the session is re-encrypted, before and after it is over"""
    session = filled(sessions)
    vault.keys.reencrypt(session.id)
    assert None not in told(session)
    session.append("tool.returned", {"said": "later"})
    clock.now += 30 * DAY + HOUR
    assert told(session)[1] is None
    vault.keys.reencrypt(session.id)  # hidden, and not swept yet
    assert told(session)[1] is None
    vault.access(PIA).retention.trust_clock()
    later(2 * HOUR)
    assert told(session)[1] is None
    assert all(number & 0xFFFFFFFF == 0 for number in vault._store.epochs_of(session._id))
    vault.keys.reencrypt(session.id)
    assert told(session)[1] is None
    assert vault.verify().ok
    assert sum(one.epochs for one in vault.sweep()) == 0


def test_the_most_specific_rule_says_when(sessions, clock):
    """D1: by label"""
    plain, minor = filled(sessions), filled(sessions, labels={"case": "minor"})
    clock.now += 3 * DAY
    assert None not in told(plain)
    assert told(minor)[1] is None


def test_a_hold_keeps_the_bytes_until_it_is_lifted(vault, sessions, clock, later):
    """D2: hidden from readers all the same"""
    session = filled(sessions)
    officer = vault.access(PIA)
    hold = officer.holds.place(session=session.id, reason="matter 7")
    epochs = vault._store.epochs_of(session._id)
    later(31 * DAY)
    assert told(session)[1] is None
    assert vault._store.epochs_of(session._id) == epochs
    officer.holds.lift(hold.id, reason="over")
    assert sum(one.epochs for one in vault.sweep()) == 1
    assert vault._store.epochs_of(session._id) == [0]


def test_what_was_being_closed_when_the_process_died_is_closed_at_the_next_opening(
    place, vault, sessions, clock, later, monkeypatch
):
    """D3, D6"""
    from vault.erasure import expire

    session = filled(sessions)
    event = next(session.events(types=["tool.returned"]))
    with vault._records.snapshot() as reader:
        row = reader.event(session._row.no, event_bytes(event.id))

    def killed(*_):
        raise KeyboardInterrupt

    later(29 * DAY)
    clock.now += DAY + HOUR
    monkeypatch.setattr(expire, "close", killed)
    with pytest.raises(KeyboardInterrupt):
        vault.sweep()
    monkeypatch.undo()
    assert files_with(place, row.body[-40:])
    vault.close()
    with Vault.open(place, clock=clock) as again:
        assert not files_with(place, row.body[-40:])
        assert told(again.access(ALICE).sessions.resume(session.id))[1] is None
        assert again.verify().ok


def test_a_late_delivery_brings_nothing_back_and_an_earlier_one_is_the_same_event(sessions, clock):
    """D6, L5: in another hour too, whose key is another one"""
    session = sessions.create()
    for size in (1, 3_000, 100_000):
        new = NewEvent(type="tool.returned", payload={"n": "x" * size}, event_id=new_event_id())
        (first,) = session.append_many([new])
        clock.now += 5 * HOUR
        assert session.append_many([new]) == [first]
        clock.now += 30 * DAY
        with pytest.raises(Erased):
            session.append_many([new])


def test_what_a_writer_can_erase_expires_as_well(vault, sessions, clock, later):
    """D5: both a generation and an hour"""
    session = sessions.create()
    first = session.append("tool.returned", {"n": 1}, epoch=7)
    clock.now += 5 * HOUR
    second = session.append("tool.returned", {"n": 2}, epoch=7)
    third = session.append("message.user", {"n": 3}, epoch=7)
    assert [event.epoch for event in session.events()] == [7, 7, 7]
    session.retract([second.id])
    assert told(session)[:3] == [{"n": 1}, None, {"n": 3}]
    clock.now += 30 * DAY
    assert told(session)[:3] == [None, None, {"n": 3}]
    session.retract_epoch(7)
    assert told(session)[:3] == [None, None, None]
    with pytest.raises(Erased):
        session.append("tool.returned", {"n": 4}, epoch=7)
    assert vault._store.epochs_of(session._id) == [0]
    assert vault.verify().ok
    assert {first.id, third.id} <= {event.id for event in session.events()}


def test_the_fact_of_an_expiry_does_not_lengthen_a_sessions_life(vault, sessions, clock, later):
    """D1: what the vault does by itself is no use of the session"""
    session = filled(sessions)
    before = session.info().last_event_at
    later(31 * DAY)
    assert session.info().last_event_at == before
    assert session.info().event_count == 3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"anchor": '"last_event"'}, "created"),
        ({"keep_min": '"1d"'}, "whole session"),
        ({"grace": '"1d"'}, "cannot be restored"),
        ({"on_expire": '"review"'}, "nobody is asked"),
        ({"applies_to": '"all"'}, "new"),
    ],
)
def test_what_cannot_be_done_with_events_is_refused_in_one_sentence(vault, changed, said):
    """D1: nothing is promised that nobody keeps"""
    fields = {"id": '"x"', "match": '{ kind = ["event"] }', "anchor": '"created"', "expire_after": '"30d"'}
    rule = "\n".join(f"{name} = {value}" for name, value in (fields | changed).items())
    with pytest.raises(InvalidInput, match=said):
        vault.access(PIA).policies.activate(f"{POLICY}\n[[retention]]\n{rule}\n")


def test_a_key_that_somebody_puts_back_shows_nothing_that_is_over(place, vault, sessions, clock):
    """D6, K4: the number that a row carries under its MAC says when it ends"""
    session = filled(sessions)
    vault.close()
    with surgery.opened(place) as database:
        database.execute(
            "UPDATE events SET epoch = epoch + 1000 WHERE seq = 2 AND session_no = ?", [session._row.no]
        )
    with Vault.open(place, clock=clock) as again, pytest.raises(Exception, match="changed"):
        told(again.access(ALICE).sessions.resume(session.id))


def test_numbers_of_epochs_say_generation_and_hour():
    now = 1_800_000_000_000_000
    for generation in (0, 1, EPOCH_MAX):
        for after in (1, HOUR, 30 * DAY, 100 * 365 * DAY):
            epoch = epoch_of(generation, hour_after(now + after))
            assert epoch < 2**32
            assert generation_of(epoch) == generation
            assert now + after <= ends_us(epoch) < now + after + HOUR
            assert not is_over(epoch, ends_us(epoch) - 1)
            assert is_over(epoch, ends_us(epoch))
            assert hour_now(ends_us(epoch)) == epoch & (2**20 - 1)
    assert (hour_after(now + 200 * 365 * DAY), hour_after(0), ends_us(epoch_of(3))) == (0, 0, 0)
    assert not is_over(epoch_of(3), 2**62)
