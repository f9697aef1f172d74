"""Every part of a log that can be asked for is exactly what a plain model of the log says it is."""

import io
import itertools
import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vault import NewEvent, Principal, Vault, new_event_id, new_run_id
from vault.clock import from_us
from vault.errors import InvalidInput, NotFound
from vault.model import EAGER_BYTES_MAX

ALICE = Principal(tenant="acme", subject="alice")
TYPES = ("message.user", "message.assistant", "tool.requested", "tool.returned")
NEAR = [timedelta(microseconds=n) for n in (-1, 0, 1)]
RUNS = tuple(new_run_id() for _ in range(3))


def modelled(
    log,
    *,
    types=None,
    run=None,
    after=None,
    before=None,
    since=None,
    until=None,
    limit=None,
    newest_first=False,
):
    """What ``Session.events`` should give, from the whole log as a list."""
    places = {event.id: event.seq for event in log}
    found = [
        event
        for event in log
        if (types is None or event.type in types)
        and (run is None or event.run == run)
        and (after is None or event.seq > places[after])
        and (before is None or event.seq < places[before])
        and (since is None or event.recorded_at >= since)
        and (until is None or event.recorded_at < until)
    ]
    return (found[::-1] if newest_first else found)[:limit]


class Steps:
    """A clock that stands still for a while, then moves on."""

    def __init__(self):
        self.asked = itertools.count()

    def now_us(self):
        return 10**15 + next(self.asked) // 4 * 250_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Sessions of 0, 1, 7 and 431 events: none, one, a few, and more than the pages of a read."""
    place = tmp_path_factory.mktemp("reading")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        now = itertools.chain.from_iterable(
            itertools.repeat(n, 1 + n % 4) for n in itertools.count(10**15, 250_000)
        )
        clock = type("Steps", (), {"now_us": lambda _: next(now)})()
        with Vault.create(place / "vault", settings={"synchronous": "NORMAL"}, clock=clock) as vault:
            sessions = []
            for count in (0, 1, 7, 431):
                session, log = vault.access(ALICE).sessions.create(), []
                while len(log) < count:
                    size = min(count - len(log), 1 + len(log) % 23)
                    log += session.append_many(new_event(len(log) + n) for n in range(size))
                sessions.append((session, log))
            yield sessions


def new_event(number):
    kind = number * 7 % 31
    return NewEvent(
        type=TYPES[(kind > 8) + (kind > 20) + (kind > 29)],
        payload={"n": number, "text": "word " * (number % 90)},
        run=None if number % 5 == 0 else RUNS[(number > 40) + (number > 300 and number % 2)],
        event_id=new_event_id() if number % 3 else None,
    )


@st.composite
def filters(draw, log):
    """Any combination of filters, most of them with values that occur in the log."""
    ids = st.sampled_from([event.id for event in log]) if log else st.nothing()
    moments = st.sampled_from(
        [e.recorded_at + timedelta(microseconds=d) for e in log for d in (-1, 0, 1)] or [from_us(0)]
    )
    choice = {
        "types": st.lists(st.sampled_from([*TYPES, "never.used"]), max_size=3),
        "run": st.sampled_from([*RUNS, new_run_id()]),
        "after": ids,
        "before": ids,
        "since": moments,
        "until": moments,
        "limit": st.integers(1, 500),
    }
    names = draw(
        st.sets(st.sampled_from([name for name in choice if log or name not in {"after", "before"}]))
    )
    chosen = {name: draw(choice[name]) for name in sorted(names)}
    if "limit" in chosen:
        chosen["newest_first"] = draw(st.booleans())
    return chosen


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.integers(0, 3))
def test_any_combination_of_filters_gives_what_the_model_gives(logs, data, which):
    """L3, L9"""
    session, log = logs[which]
    chosen = data.draw(filters(log))
    assert list(session.events(**chosen)) == modelled(log, **chosen)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 199, 200, 201, 400, 431, 432])
def test_pages_of_a_read_meet_without_gap_or_repeat(logs, limit, newest_first):
    """L3, L9"""
    session, log = logs[3]
    for chosen in ({}, {"types": TYPES[1:2]}, {"types": TYPES[:3]}, {"run": RUNS[1]}):
        wanted = chosen | {"limit": limit, "newest_first": newest_first}
        assert list(session.events(**wanted)) == modelled(log, **wanted), wanted


def test_a_slice_holds_both_of_its_ends(logs):
    """L3, L9"""
    session, log = logs[3]
    for first, last in ((0, 430), (0, 0), (430, 430), (3, 300), (199, 201)):
        assert list(session.slice(log[first].id, log[last].id)) == log[first : last + 1]
    with pytest.raises(InvalidInput, match="swap"):
        session.slice(log[5].id, log[4].id)


def test_one_type_may_be_given_as_a_word_and_repeats_count_once(logs):
    """L3"""
    session, log = logs[2]
    wanted = modelled(log, types=[TYPES[0]])
    assert wanted
    assert list(session.events(types=TYPES[0])) == wanted
    assert list(session.events(types=iter([TYPES[0]] * 3))) == wanted
    assert list(session.events(types=[])) == []


MALFORMED = {
    "limit-zero": {"limit": 0},
    "limit-negative": {"limit": -1},
    "limit-not-whole": {"limit": 1.5},
    "limit-true": {"limit": True},
    "newest-first-without-limit": {"newest_first": True},
    "since-naive": {"since": datetime(2026, 1, 1)},  # noqa: DTZ001
    "until-text": {"until": "2026-01-01"},
    "type-not-dotted": {"types": ["message"]},
    "type-not-text": {"types": [None]},
    "run-not-an-id": {"run": "r1"},
    "after-not-an-id": {"after": "e1"},
    "before-a-session": {"before": "ses_018f4a2e-0000-7000-8000-0123456789ab"},
}


@pytest.mark.parametrize("chosen", [pytest.param(value, id=name) for name, value in MALFORMED.items()])
def test_a_malformed_filter_is_refused_before_anything_is_read(logs, chosen):
    """Bad input"""
    with pytest.raises(InvalidInput) as refusal:
        logs[2][0].events(**chosen)
    assert "\n" not in str(refusal.value)


def test_an_event_of_another_session_is_no_place_in_this_one(logs):
    """L9, O1"""
    (session, _), (_, (other, *_)) = logs[2], logs[3]
    for stranger in (other.id, new_event_id()):
        for read in (
            lambda stranger=stranger: session.events(after=stranger),
            lambda stranger=stranger: session.events(before=stranger),
            lambda stranger=stranger: session.slice(stranger, stranger),
            lambda stranger=stranger: session.follow(after=stranger),
        ):
            with pytest.raises(NotFound, match="no such event"):
                read()
    with pytest.raises(NotFound, match="no such event"):
        session.open(other)


def test_a_read_that_has_begun_ends_where_the_log_ended_or_later(session):
    """L1, L10"""
    written = session.append_many(NewEvent(type="a.b", payload=n) for n in range(450))
    reading = session.events()
    head = [next(reading) for _ in range(10)]
    written += session.append_many(NewEvent(type="a.b", payload=n) for n in range(450, 460))
    whole = head + list(reading)
    assert whole == written[: len(whole)]
    assert len(whole) >= 450


EDGES = {
    "empty": b"",
    "one-byte": b"\x00",
    "not-utf-8": b"\xff\xfe\x00\x80",
    "looks-like-json": b'{"a": 1}',
    "a-little-below-compression": os.urandom(511),
    "inline-at-most": os.urandom(57_344),
    "into-the-blob-area": os.urandom(70_000),
    "eager-at-most": os.urandom(1_000_000),
    "large": os.urandom(EAGER_BYTES_MAX + 300_000),
    "large-and-compressible": b"line\n" * 500_000,
}


@pytest.mark.parametrize("form", ["bytes", "stream"])
@pytest.mark.parametrize("name", EDGES)
def test_raw_payloads_come_back_byte_for_byte(session, as_raw, name, form):
    """A4, L6"""
    body = EDGES[name]
    appended = session.append("file.read", raw=as_raw(form, body), tool="disk")
    (read,) = session.events()
    assert read == appended
    assert read.payload is None
    assert (read.raw, read.streamed) == ((body, False) if len(body) <= EAGER_BYTES_MAX else (None, True))
    with session.open(read) as stream:
        assert stream.read(3) == body[:3]
        assert stream.read() == body[3:]
    (newest,) = session.events(types=["file.read"], limit=1, newest_first=True)
    assert newest == read


def test_a_stream_that_gives_a_little_at_a_time_is_read_to_its_end(session):
    """L6"""
    body = os.urandom(1_500_000)

    class Trickle(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 70_001) if size > 0 else size)

    event = session.append("file.read", raw=Trickle(body))
    with session.open(event) as stream:
        assert stream.read() == body


def test_json_payloads_are_opened_as_streams_too(session):
    """L6"""
    event = session.append("a.b", {"é": [1, 2]})
    with session.open(event) as stream:
        assert stream.read() == '{"é":[1,2]}'.encode()


def test_json_is_kept_to_the_last_digit_and_key(session):
    """L1"""
    payload = {"z": 1, "a": [1.0, -0.0, 2**63, 5e-324, True, None, "\u2028\x00"], "": {"": []}}
    session.append("a.b", payload)
    (event,) = session.events()
    assert repr(event.payload) == repr(payload)


def test_a_payload_that_is_changed_after_the_append_does_not_change_the_log(session):
    """L1"""
    payload, usage = {"rows": [1]}, {"tokens": 3}
    session.append("a.b", payload, usage=usage)
    payload["rows"].append(2)
    usage["tokens"] = 4
    (event,) = session.events()
    assert (event.payload, event.usage) == ({"rows": [1]}, {"tokens": 3})


def test_time_filters_count_from_the_moment_in_any_zone(logs):
    """L3"""
    session, log = logs[2]
    moment = log[3].recorded_at
    local = moment.astimezone(tz=None)
    assert list(session.events(since=local)) == modelled(log, since=moment)
    assert list(session.events(until=local)) == modelled(log, until=moment)
    assert list(session.events(since=datetime(1, 1, 1, tzinfo=UTC))) == log
    assert list(session.events(since=datetime.max.replace(tzinfo=UTC))) == []
    assert list(session.events(since=moment, until=moment)) == []
