"""Session JSONL: what is exported can be read with jq, and comes back as the same log (L12)."""

import base64
import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vault import NewEvent, Principal, Vault, errors
from vault.adapters import session_jsonl
from vault.model import EAGER_BYTES_MAX, new_event_id, new_run_id

NOON = datetime(2025, 3, 1, 12, 0, 0, 250_001, tzinfo=UTC)


@pytest.fixture(scope="module")
def access(tmp_path_factory):
    with Vault.create(tmp_path_factory.mktemp("jsonl") / "vault") as vault:
        alice = vault.access(Principal(tenant="acme", subject="alice"))
        alice.sessions.create()  # a tenant begins with its first session
        yield alice


def exported(session) -> bytes:
    out = io.BytesIO()
    session_jsonl.export_session(session, out)
    return out.getvalue()


def imported(access, data: bytes, **options):
    return imported_from(access, io.BytesIO(data), **options)


def imported_from(access, source, **options):
    report = session_jsonl.import_session(source, access, **options)
    return access.sessions.resume(report.sessions[0]), report


def events_of(session):
    """All that an import has to keep of every event."""
    return [
        (
            event.id,
            event.seq,
            event.type,
            event.payload,
            event.raw,
            event.run,
            event.tool,
            event.caused_by,
            event.observed_at,
            event.valid_for_us,
            event.resource,
            event.usage,
            event.level,
        )
        for event in session.events()
    ]


def event_lines(data: bytes) -> list[bytes]:
    return data.split(b"\n")[1:]


def as_file(*lines: dict | bytes) -> bytes:
    header = {"format": "session-vault-jsonl", "version": 1, "session": {}}
    return b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in (header, *lines)
    )


def conversation(access):
    session = access.sessions.create(title="August sales", labels={"purpose": "sales"}, config="analyst@12")
    asked = session.append("message.user", {"content": "Why did\u2028sales drop?"})
    run = new_run_id()
    call = session.append(
        "tool.requested", {"sql": "select 1"}, tool="warehouse", caused_by=asked.id, run=run, level="L1"
    )
    session.append("tool.returned", raw=b"a;b\n1;2\n", tool="warehouse", caused_by=call.id, observed_at=NOON)
    session.append("tool.returned", raw=b"\xff\xfe", usage={"input_tokens": 12, "model": "m-1"})
    session.append("run.stopped")
    session.append(
        "observation.recorded",
        {"value": 12},
        resource="stock/bolts\u2028",
        observed_at=NOON,
        valid_for=timedelta(days=285 * 365, microseconds=1),
    )
    return session


# ------------------------------------------------------------------------------------------------ export


def test_every_line_is_a_json_object_and_the_first_says_what_the_file_is(access):
    """L12"""
    session = conversation(access)
    header, *events = [json.loads(line) for line in exported(session).splitlines()]
    assert (header["format"], header["version"]) == ("session-vault-jsonl", 1)
    assert header["session"]["id"] == session.id
    assert header["session"]["title"] == "August sales"
    assert header["session"]["labels"] == {"purpose": "sales"}
    assert header["session"]["event_count"] == 6
    assert [event["seq"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert [event["type"] for event in events][:2] == ["message.user", "tool.requested"]
    assert all(event["time"].endswith("Z") and len(event["time"]) == 27 for event in events)


def test_only_what_an_event_has_is_written(access):
    """L12"""
    events = [json.loads(line) for line in event_lines(exported(conversation(access))) if line]
    assert set(events[0]) == {"seq", "id", "type", "time", "level", "payload"}
    assert set(events[1]) - set(events[0]) == {"run", "tool", "caused_by"}
    assert events[2]["raw"] == "a;b\n1;2\n"
    assert events[2]["observed_at"] == "2025-03-01T12:00:00.250001Z"
    assert base64.b64decode(events[3]["raw_base64"]) == b"\xff\xfe"
    assert events[3]["usage"] == {"input_tokens": 12, "model": "m-1"}
    assert "payload" not in events[4]
    assert set(events[5]) - set(events[0]) == {"observed_at", "valid_for_us", "resource"}
    assert events[5]["valid_for_us"] == 285 * 365 * 86_400 * 10**6 + 1


def test_the_same_log_always_gives_the_same_bytes(access):
    session = conversation(access)
    assert exported(session) == exported(session)


def test_no_character_of_a_text_splits_its_line(access):
    """L12"""
    session = access.sessions.create()
    text = "".join(map(chr, range(0x20))) + "\x7f\x85\u2028\u2029"
    session.append("message.user", {"content": text})
    session.append("message.user", raw=text.encode())
    lines = exported(session).decode().splitlines()
    assert len(lines) == 3
    assert json.loads(lines[1])["payload"]["content"] == text
    assert json.loads(lines[2])["raw"] == text


# ------------------------------------------------------------------------------------------------ import


def test_a_session_comes_back_as_the_same_log(access):
    """L12"""
    session = conversation(access)
    again, report = imported(access, exported(session))
    assert again.id != session.id
    assert events_of(again) == events_of(session)
    assert [e.occurred_at for e in again.events()] == [e.recorded_at for e in session.events()]
    assert (report.events, report.lines, report.problems_total) == (6, 7, 0)
    before, after = session.info(), again.info()
    assert (after.title, after.labels, after.config) == (before.title, before.labels, before.config)


def test_exporting_what_was_imported_changes_nothing_but_the_header(access):
    """L12"""
    first = exported(conversation(access))
    again, _ = imported(access, first)
    assert event_lines(exported(again)) == event_lines(first)


def test_a_payload_that_looks_like_a_raw_one_stays_a_payload(access):
    session = access.sessions.create()
    session.append("message.user", {"raw": "x", "raw_base64": "eA=="})
    again, _ = imported(access, exported(session))
    assert events_of(again) == events_of(session)


def test_the_external_id_comes_along_and_is_not_taken_twice(access):
    session = access.sessions.create(external_id="ticket-11")
    data = exported(session)
    with pytest.raises(errors.Conflict):
        imported(access, data)
    again, _ = imported(access, data.replace(b"ticket-11", b"ticket-12"))
    assert again.info().external_id == "ticket-12"


def test_a_session_that_had_ended_is_ended_again(access):
    session = conversation(access)
    session.end()
    again, _ = imported(access, exported(session))
    assert again.info().state == "ended"
    assert events_of(again) == events_of(session)


def test_the_link_to_the_parent_is_kept_where_the_parent_is(access):
    parent = access.sessions.create()
    data = exported(access.sessions.create(parent=parent.id))
    again, report = imported(access, data)
    assert (again.info().parent, report.problems_total) == (parent.id, 0)
    again, report = imported(access, data.replace(parent.id.encode(), b"ses_of_another_vault"))
    assert again.info().parent is None
    assert ["parent" in problem.reason for problem in report.problems] == [True]


SEEN = {"observed_at": "2025-01-01T00:00:00Z"}


def line_of(**fields) -> bytes:
    return json.dumps({"type": "message.user", **fields}).encode()


DAMAGED = {
    "not JSON": (b'{"type":"message.user"', "not JSON"),
    "not UTF-8": (b'{"type":"message.user","payload":"\xff"}', "not UTF-8"),
    "two values": (b'{"type":"message.user"}{"type":"message.user"}', "not JSON"),
    "not an object": (b'["message.user"]', "not a JSON object"),
    "no type": (b'{"payload":1}', "without a type"),
    "type null": (b'{"type":null}', "without a type"),
    "bad type": (b'{"type":"Secret Word"}', "event type"),
    "NaN": (b'{"type":"message.user","payload":NaN}', "not JSON"),
    "infinity": (b'{"type":"message.user","payload":1e999}', "not JSON"),
    "a huge integer": (b'{"type":"message.user","payload":18446744073709551616}', "64 bits"),
    "a lone surrogate": (b'{"type":"message.user","payload":"\\ud800"}', "surrogate"),
    "a lone surrogate in raw": (b'{"type":"message.user","raw":"\\ud800"}', "surrogate"),
    "a key twice": (b'{"type":"message.user","type":"message.user"}', "twice"),
    "unknown field": (b'{"type":"message.user","secret":1}', "field that events do not have"),
    "two contents": (b'{"type":"message.user","payload":1,"raw":"x"}', "more than one"),
    "bad base64": (b'{"type":"message.user","raw_base64":"eA"}', "base64"),
    "not ASCII in base64": ('{"type":"message.user","raw_base64":"é"}'.encode(), "base64"),
    "raw is a number": (b'{"type":"message.user","raw":5}', "not a string"),
    "naive time": (b'{"type":"message.user","time":"2025-01-01T00:00:00"}', "time is not"),
    "no time": (b'{"type":"message.user","observed_at":"noon"}', "observed_at is not"),
    "the end of the calendar": (b'{"type":"message.user","time":"9999-12-31T23:59:59-12:00"}', "time is not"),
    "bad level": (b'{"type":"message.user","level":"L9"}', "level"),
    "bad id": (b'{"type":"message.user","id":"evt_1"}', "event id"),
    "bad run": (b'{"type":"message.user","run":"evening"}', "run id"),
    "tool is a list": (b'{"type":"message.user","tool":["secret"]}', "tool"),
    "usage is a list": (b'{"type":"message.user","usage":[1]}', "usage"),
    "resource is a number": (b'{"type":"message.user","resource":7}', "resource"),
    "resource is empty": (b'{"type":"message.user","resource":""}', "resource"),
    "validity is zero": (line_of(valid_for_us=0, observed_at="2025-01-01T00:00:00Z"), "valid_for_us is not"),
    "validity is a fraction": (line_of(valid_for_us=1.5, observed_at="2025-01-01T00:00:00Z"), "valid_for_us"),
    "validity is true": (
        line_of(valid_for_us=True, observed_at="2025-01-01T00:00:00Z"),
        "valid_for_us is not",
    ),
    "validity is too long": (line_of(valid_for_us=2**53, observed_at="2025-01-01T00:00:00Z"), "285 years"),
    "validity from nowhere": (line_of(valid_for_us=1), "without observed_at"),
    "an effect without a key": (b'{"type":"effect.intended","payload":{"kind":"secret"}}', "key"),
    "an effect without a payload": (b'{"type":"effect.failed","raw":"secret"}', "kind and key"),
    "an effect's subject": (
        line_of(type="effect.committed", payload={"kind": "k", "key": "k", "subject": ["secret"]}),
        "subject",
    ),
    "an effect out of nowhere": (
        line_of(type="effect.committed", payload={"kind": "secret", "key": "k"}),
        "only after it was intended",
    ),
    "a checkpoint with another hash": (
        line_of(type="checkpoint.created", payload={"state": "secret", "sha256": "0" * 64, "through": 0}),
        "checkpoint",
    ),
    "seq is a text": (b'{"type":"message.user","seq":"1"}', "seq"),
    "too deep": (b'{"type":"message.user","payload":' + b"[" * 5000 + b"]" * 5000 + b"}", ""),
}


@pytest.mark.parametrize(("line", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_named_and_costs_no_other(access, line, reason):
    """L12"""
    data = as_file({"type": "message.user", "payload": 1}, line, {"type": "message.user", "payload": 2})
    session, report = imported(access, data)
    assert [event.payload for event in session.events()] == [1, 2]
    assert report.problems_total == 1
    (problem,) = report.problems
    assert problem.line == 3
    assert reason in problem.reason
    assert "ecret" not in problem.reason


@pytest.mark.parametrize("line", [line for line, _ in DAMAGED.values()], ids=DAMAGED)
def test_a_strict_import_of_a_damaged_file_leaves_nothing(access, line):
    """L12"""
    before = access.sessions.find(limit=500).items
    with pytest.raises(errors.InvalidInput, match=r"nothing was imported: 1 .* line 3"):
        imported(access, as_file({"type": "message.user"}, line), strict=True)
    assert access.sessions.find(limit=500).items == before


def test_a_strict_import_of_a_whole_file_takes_all_of_it(access):
    session = conversation(access)
    again, report = imported(access, exported(session), strict=True)
    assert events_of(again) == events_of(session)
    assert report.problems_total == 0


def test_a_strict_import_asks_for_a_source_that_can_be_read_twice(access):
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    with pytest.raises(errors.InvalidInput, match="not a pipe"):
        session_jsonl.import_session(Pipe(as_file()), access, strict=True)


def test_an_event_id_used_again_for_other_content_is_named(access):
    """L7"""
    same = {"type": "message.user", "payload": 1, "id": new_event_id()}
    data = as_file(same, same, {**same, "payload": 2}, {"type": "message.user", "payload": 3})
    session, report = imported(access, data)
    assert [event.payload for event in session.events()] == [1, 3]
    assert [problem.line for problem in report.problems] == [4]
    assert report.events == 2
    with pytest.raises(errors.InvalidInput, match="2 damaged"):
        imported(access, data, strict=True)


def test_a_damaged_header_costs_only_what_it_says(access):
    session = conversation(access)
    data = b"{" + exported(session)
    again, report = imported(access, data)
    assert events_of(again) == events_of(session)
    assert again.info().title is None
    assert [problem.line for problem in report.problems] == [1]


def test_events_without_a_header_are_taken_and_told(access):
    session, report = imported(access, b'{"type":"message.user","payload":1}\n')
    assert [event.payload for event in session.events()] == [1]
    assert [problem.line for problem in report.problems] == [1]


@pytest.mark.parametrize(
    "session",
    [
        None,
        [],
        {"title": 5},
        {"title": ""},
        {"labels": ["a"]},
        {"labels": {"a": 1}},
        {"external_id": "x" * 999},
    ],
)
def test_a_header_of_the_wrong_shape_is_named_and_costs_no_event(access, session):
    header = {"format": "session-vault-jsonl", "version": 1, "session": session}
    made, report = imported(access, json.dumps(header).encode() + b'\n{"type":"message.user"}\n')
    assert made.info().event_count == 1
    assert [problem.line for problem in report.problems] == [1]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"hello\n", b'{"role":"user"}\n', b"\x00\xff"])
def test_a_file_of_another_kind_makes_no_session(access, data):
    before = access.sessions.find(limit=500).items
    with pytest.raises(errors.InvalidInput, match="no line of it"):
        imported(access, data)
    assert access.sessions.find(limit=500).items == before


def test_a_file_of_a_newer_version_is_refused_in_words(access):
    with pytest.raises(errors.NewerVault, match="newer version"):
        imported(access, b'{"format":"session-vault-jsonl","version":2,"session":{}}\n')


def test_a_file_cut_between_two_lines_is_noticed(access):
    data = exported(conversation(access))
    cut = data[: data[:-1].rfind(b"\n") + 1]
    _, report = imported(access, cut)
    assert [(problem.line, "counts" in problem.reason) for problem in report.problems] == [(7, True)]
    with pytest.raises(errors.InvalidInput, match="nothing was imported"):
        imported(access, cut, strict=True)


def test_a_last_line_without_its_end_and_empty_lines_are_no_damage(access):
    session = conversation(access)
    data = exported(session)
    for variant in (data[:-1], data.replace(b"\n", b"\r\n"), data.replace(b"\n", b"\n\n")):
        again, report = imported(access, variant)
        assert events_of(again) == events_of(session)
        assert report.problems_total == 0


def test_a_long_session_goes_in_batches_and_tells_how_far_it_is(access):
    session = access.sessions.create()
    session.append_many([NewEvent(type="message.user", payload=number) for number in range(450)])
    data = exported(session)
    told = []
    again, _ = imported(access, data, progress=lambda lines, done: told.append((lines, done)))
    assert [event.payload for event in again.events()] == list(range(450))
    assert [lines for lines, _ in told] == [201, 401, 451]
    assert told[-1][1] == len(data)


# ------------------------------------------------------------------------------------------- large payloads


class Metered(io.BytesIO):
    """Counts the most that was asked for at once."""

    largest = 0

    def readline(self, size=-1):
        assert size > 0, "a whole line was asked for, however long it is"
        self.largest = max(self.largest, size)
        return super().readline(size)


LARGE = bytes(range(256)) * (3 * EAGER_BYTES_MAX // 256) + b"end"


def large_line(encoded: bytes, end: bytes = b'"}') -> bytes:
    return b'{"type":"tool.returned","tool":"ct","raw_base64":"' + encoded + end


def content(session, event) -> bytes:
    with session.open(event) as stream:
        return b"".join(iter(lambda: stream.read(100_000), b""))


@pytest.mark.parametrize("strict", [False, True])
def test_a_large_payload_is_streamed_out_and_in(access, strict):
    """L12"""
    session = access.sessions.create()
    session.append("message.user", 1)
    session.append("tool.returned", raw=io.BytesIO(LARGE), tool="ct")
    session.append("message.user", 2)
    data = exported(session)
    source = Metered(data)
    again, report = imported_from(access, source, strict=strict)
    assert report.problems_total == 0
    assert source.largest < len(LARGE)
    assert events_of(again) == events_of(session)
    assert content(again, list(again.events())[1]) == LARGE
    assert event_lines(exported(again)) == event_lines(data)


def test_a_large_payload_that_seals_small_is_streamed_too(access):
    session = access.sessions.create()
    session.append("tool.returned", raw=io.BytesIO(bytes(5 * EAGER_BYTES_MAX)))
    source = Metered(exported(session))
    again, report = imported_from(access, source)
    assert b'"raw_base64":"' in source.getvalue()
    assert (report.problems_total, source.largest) == (0, 2 * EAGER_BYTES_MAX)
    assert events_of(again) == events_of(session)


ENCODED = base64.b64encode(LARGE)
# Where what is decoded first ends, in whole groups of four characters: the line's head and one piece more.
FIRST = (2 * EAGER_BYTES_MAX + 2**18 - len(large_line(b"", b""))) // 4 * 4
DAMAGED_LARGE = {
    "cut": large_line(ENCODED[:-4000], b""),
    "a wrong character": large_line(ENCODED[:-4000] + b"!" + ENCODED[-4000:]),
    "one character less": large_line(ENCODED[:-1]),
    "padding where a piece ends": large_line(ENCODED[: FIRST - 4] + b"eA==" + ENCODED[FIRST:]),
    "padding inside": large_line(ENCODED[:4_000_000] + b"eA==" + ENCODED[4_000_000:]),
    "a field after it": large_line(ENCODED, b'","level":"L1"}'),
    "two contents": b'{"type":"tool.returned","payload":1,"raw_base64":"' + ENCODED + b'"}',
    "something after it": large_line(ENCODED, b'"}{}'),
}


@pytest.mark.parametrize("line", DAMAGED_LARGE.values(), ids=DAMAGED_LARGE)
def test_a_damaged_large_payload_is_named_and_costs_no_other(access, line):
    """L12"""
    data = as_file({"type": "message.user", "payload": 1}, line, {"type": "message.user", "payload": 2})
    session, report = imported(access, data)
    assert [event.payload for event in session.events()] == [1, 2]
    assert [problem.line for problem in report.problems] == [3]
    with pytest.raises(errors.InvalidInput, match="line 3"):
        imported(access, data, strict=True)


def test_a_large_payload_may_hold_what_looks_like_the_mark_of_a_raw_one(access):
    session = access.sessions.create()
    filler = "x" * (3 * EAGER_BYTES_MAX)
    session.append("message.user", {"a": ',"raw_base64":"', "b": filler})
    session.append("message.user", {"a": 1, "raw_base64": "eA==", "b": filler})
    again, report = imported(access, exported(session))
    assert report.problems_total == 0
    assert events_of(again) == events_of(session)


# ---------------------------------------------------------------------------------------------- properties

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
contents = st.builds(lambda v: {"payload": v}, json_values) | st.builds(
    lambda v: {"raw": v}, st.binary(max_size=60) | text.map(str.encode)
)
new_events = st.builds(
    lambda content, **fields: NewEvent(**content, **fields),
    contents,
    type=st.sampled_from(["message.user", "tool.returned", "order-7.state_change.x"]),
    tool=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    run=st.none() | st.builds(new_run_id),
    caused_by=st.none() | st.builds(new_event_id),
    observed_at=st.none() | moments,
    occurred_at=st.none() | moments,
    usage=st.none() | st.dictionaries(text, st.integers(0, 2**40) | text, max_size=3),
    level=st.sampled_from(["L0", "L1", "L2", "L3"]),
)


@settings(max_examples=60)
@given(events=st.lists(new_events, max_size=8))
def test_any_log_is_the_same_after_export_import_export(access, events):
    """L12"""
    session = access.sessions.create()
    if events:
        session.append_many(events)
    first = exported(session)
    again, report = imported(access, first, strict=True)
    assert report.problems_total == 0
    assert events_of(again) == events_of(session)
    assert event_lines(exported(again)) == event_lines(first)


@settings(max_examples=60)
@given(data=st.data())
def test_no_damage_to_a_file_escapes_or_reaches_other_lines(access, data):
    """L12"""
    lines = exported(conversation(access)).split(b"\n")[:-1]
    at = data.draw(st.integers(1, len(lines) - 1))
    lines[at] = data.draw(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")))
    session, report = imported(access, b"\n".join(lines))
    kept = [json.loads(line)["id"] for number, line in enumerate(lines) if number not in (0, at)]
    assert [event.id for event in session.events()] == kept
    assert report.problems_total == 1


def test_times_of_other_zones_are_kept_as_the_same_moment(access):
    session, _ = imported(
        access, as_file({"type": "message.user", "time": "2025-03-01T13:00:00.250001+01:00"})
    )
    (event,) = session.events()
    assert event.occurred_at == NOON
    assert event.occurred_at.utcoffset() == timedelta(0)


# -------------------------------------------------------------------------------------- effects and forks


def worked(access):
    """A session with a run, effects in every state, and a checkpoint."""
    session = access.sessions.create()
    with session.run() as run:
        run.effect("mail", "1", {"to": "a"}, resource="crm/1", subject="Zoe").once(lambda _: {"id": 7})
        refused = run.effect("mail", "2", resource="crm/2")
        refused.intend()
        refused.fail("no such address")
        run.effect("mail", "3").intend()
        session.post("message.user", {"content": "Stop."})
        run.checkpoint()
    return session


def test_effects_and_checkpoints_come_back_and_recover_to_the_same(access):
    """L12"""
    session = worked(access)
    again, report = imported(access, exported(session), strict=True)
    assert report.problems_total == 0
    assert events_of(again) == events_of(session)
    told = [(effect.kind, effect.key, effect.state, effect.subject) for effect in session.effects()]
    assert [(effect.kind, effect.key, effect.state, effect.subject) for effect in again.effects()] == told
    assert {state for _, _, state, _ in told} == {"committed", "failed", "in doubt"}
    # Its checkpoint tells the times of the log that it came from, so this one is replayed from the start.
    assert again.recover().checkpoint is None
    assert again.recover().state["messages"] == session.recover().state["messages"]
    assert again.recover().state["effects"].keys() == session.recover().state["effects"].keys()
    with again.run() as run:
        own = run.checkpoint()
    assert again.recover().checkpoint == own.id


def test_a_fork_is_exported_with_what_it_shares_and_comes_back_on_its_own(access):
    """L12"""
    session = worked(access)
    fork = access.sessions.fork(session.id)
    fork.append("message.user", {"content": "Another way."}, resource="crm/1")
    again, report = imported(access, exported(fork), strict=True)
    assert report.problems_total == 0
    assert events_of(again) == events_of(fork)
    assert again.info().fork is None
    assert event_lines(exported(again)) == event_lines(exported(fork))


def test_an_effect_that_is_told_out_of_order_costs_no_other_line(access):
    """L12"""
    session = worked(access)
    lines = exported(session).splitlines()
    committed = next(line for line in lines if b"effect.committed" in line)
    lines.remove(committed)
    lines.insert(1, committed)
    again, report = imported(access, b"\n".join(lines) + b"\n")
    assert [problem.line for problem in report.problems] == [2]
    assert len(list(again.events())) == len(lines) - 2
    with pytest.raises(errors.InvalidInput, match="line 2"):
        imported(access, b"\n".join(lines) + b"\n", strict=True)


def test_that_a_session_was_labelled_comes_in_as_a_fact_about_the_other_one(access):
    """L12: the copy has the labels of now, and its own facts say how it got others"""
    session = access.sessions.create(labels={"case": "open"})
    session.relabel({"case": "closed"})
    copy, report = imported(access, exported(session))
    assert report.problems == ()
    assert dict(copy.info().labels) == {"case": "closed"}
    assert [event.type for event in copy.events()] == ["imported.relabelled"]


def test_what_was_erased_is_exported_as_a_fact_and_its_epoch_comes_back(access):
    """L12, D5: nothing is erased by importing that something was"""
    session = access.sessions.create()
    gone, kept = (session.append("chat.item", {"n": n}, epoch=3) for n in range(2))
    session.retract([gone.id])
    lines = exported(session)
    assert b'"erased":true' in lines
    copy, report = imported(access, lines)
    assert report.problems == ()
    again = list(copy.events())
    assert [(event.type, event.payload, event.epoch, event.erased) for event in again[:2]] == [
        ("chat.item", None, 0, False),
        ("chat.item", {"n": 1}, 3, False),
    ]
    assert again[2].type == "imported.retracted"
    copy.retract([again[1].id])
    assert kept.id in {event.id for event in session.events() if not event.erased}
