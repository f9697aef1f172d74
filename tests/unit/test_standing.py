"""Where a session stands is one sentence from its state, and the longer account says what to do next."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.errors import InvalidInput
from vault.model import Event
from vault.policy.recovery import DEFAULT, fold
from vault.policy.standing import standing, why_lines

MINUTE_US = 60_000_000
START_US = 1_796_015_520_000_000  # 2026-11-30 05:12 UTC
SENT = {"kind": "email.send", "key": "report-8"}
LIMIT = 10


def evt(seq: int) -> str:
    return f"evt_{seq:08x}-0000-7000-8000-000000000000"


def event(seq, type, payload=None, **fields):
    """An event in minute ``seq`` after the start, of run_one unless it says something else."""
    given_fields = {
        "id": evt(seq),
        "session_id": "ses_1",
        "recorded_us": START_US + (seq - 1) * MINUTE_US,
        "run": "run_one",
        "tool": None,
        "caused_by": None,
        "observed_us": None,
        "occurred_us": None,
        "usage": None,
        "level": "L3",
        "raw": None,
        "payload_ref": "blob://sha256/00",
        "size": 64,
        "streamed": False,
    } | fields
    return Event(seq=seq, type=type, payload=payload, **given_fields)


def state_of(*entries):
    events = [event(seq, *entry[:2], **dict(*entry[2:])) for seq, entry in enumerate(entries, 1)]
    return fold(DEFAULT, DEFAULT.initial, events)


STARTED = ("run.started", {})
SAID = ("message.user", {"content": "hello"})
ASKED = ("tool.requested", {}, {"tool": "warehouse"})
INTENDED = ("effect.intended", SENT)
REFUND = ("approval.requested", {"what": "Refund of 120 EUR"})
STOPPED = ("run.stopped", {"reason": "user asked"})
FAILED = ("run.failed", {"error": "KeyError", "message": "no such table"})
WOKEN = ("run.woken", {}, {"run": "run_two"})
WAITS = "waiting for approval of “Refund of 120 EUR” since 2026-11-30 05:"
LAST = "The last that is known of its work"
BEGUN = "2026-11-30 05:12 UTC (1 hour 3 minutes ago)"
DOUBT = ": nobody knows whether it happened"


@pytest.mark.parametrize(
    ("entries", "live", "kind", "sentence", "since"),
    [
        pytest.param([], False, "new", "new: nothing has happened yet", None, id="new"),
        pytest.param(
            [SAID], False, "idle", "idle: no run was started, last used 2026-11-30 05:12 UTC", 1, id="idle"
        ),
        pytest.param(
            [("checkpoint.created", {})],
            False,
            "idle",
            "idle: no run was started",
            None,
            id="idle-and-unused",
        ),
        pytest.param([STARTED, SAID], True, "running", "running since 2026-11-30 05:12 UTC", 1, id="running"),
        pytest.param(
            [STARTED, INTENDED], True, "running", "running since 2026-11-30 05:12 UTC", 1, id="in-its-effect"
        ),
        pytest.param(
            [STARTED, STOPPED],
            True,
            "running",
            "running: a run holds the lease and has recorded nothing yet",
            None,
            id="the-next-run-just-began",
        ),
        pytest.param([STARTED, REFUND], True, "waiting_approval", f"{WAITS}13 UTC", 2, id="a-run-waits"),
        pytest.param([REFUND], False, "waiting_approval", f"{WAITS}12 UTC", 1, id="waiting-without-a-run"),
        pytest.param(
            [STARTED, ASKED, REFUND, STOPPED],
            False,
            "waiting_approval",
            f"{WAITS}14 UTC",
            3,
            id="stopped-to-wait",
        ),
        pytest.param(
            [STARTED, ASKED, REFUND], False, "waiting_approval", f"{WAITS}14 UTC", 3, id="died-while-waiting"
        ),
        pytest.param(
            [REFUND, REFUND, ("approval.granted", {}, {"caused_by": evt(1)}), REFUND],
            False,
            "waiting_approval",
            "waiting for approval of “Refund of 120 EUR” and 1 more approval since 2026-11-30 05:13 UTC",
            2,
            id="several-approvals",
        ),
        pytest.param(
            [("approval.requested", {"what": "\n"})],
            False,
            "waiting_approval",
            "waiting for an approval since 2026-11-30 05:12 UTC",
            1,
            id="an-approval-of-nothing-that-shows",
        ),
        pytest.param(
            [("approval.requested", None)],
            False,
            "waiting_approval",
            "waiting for an approval since 2026-11-30 05:12 UTC",
            1,
            id="an-approval-of-nothing-said",
        ),
        pytest.param(
            [STARTED, REFUND, ASKED, INTENDED],
            False,
            "crashed_in_effect",
            f"crashed during effect email.send “report-8”, intended 2026-11-30 05:15 UTC{DOUBT}",
            4,
            id="crashed-in-an-effect",
        ),
        pytest.param(
            [STARTED, INTENDED, ("effect.intended", SENT | {"key": "9"})],
            False,
            "crashed_in_effect",
            "crashed during effect email.send “9”, intended 2026-11-30 05:14 UTC"
            f"{DOUBT}; 1 other effect in doubt",
            3,
            id="two-effects-in-doubt",
        ),
        pytest.param(
            [STARTED, ASKED, SAID],
            False,
            "crashed_in_tool",
            "crashed while tool warehouse was running, asked for 2026-11-30 05:13 UTC",
            3,
            id="crashed-in-a-tool",
        ),
        pytest.param(
            [STARTED, ASKED, ("tool.requested", {})],
            False,
            "crashed_in_tool",
            "crashed while a tool was running, asked for 2026-11-30 05:14 UTC and 1 other tool request",
            3,
            id="crashed-in-two-tools",
        ),
        pytest.param(
            [STARTED, SAID, ("checkpoint.created", {})],
            False,
            "crashed",
            "crashed: the run ended without a word, last seen 2026-11-30 05:13 UTC",
            2,
            id="crashed",
        ),
        pytest.param(
            [STARTED],
            False,
            "crashed",
            "crashed: the run ended without a word, last seen 2026-11-30 05:12 UTC",
            1,
            id="crashed-at-once",
        ),
        pytest.param(
            [STARTED, ASKED, INTENDED, WOKEN],
            False,
            "crashed",
            "crashed: the run ended without a word, last seen 2026-11-30 05:15 UTC; 1 effect in doubt",
            4,
            id="crashed-after-a-crash",
        ),
        pytest.param(
            [STARTED, FAILED],
            False,
            "failed",
            "failed 2026-11-30 05:13 UTC: KeyError: no such table",
            2,
            id="failed",
        ),
        pytest.param(
            [STARTED, REFUND, FAILED],
            False,
            "failed",
            "failed 2026-11-30 05:14 UTC: KeyError: no such table",
            3,
            id="failed-with-an-approval-open",
        ),
        pytest.param([STARTED, STOPPED], False, "stopped", "stopped: user asked", 2, id="stopped"),
        pytest.param(
            [STARTED, ("run.stopped", None)], False, "stopped", "stopped", 2, id="stopped-without-a-reason"
        ),
        pytest.param(
            [STARTED, INTENDED, STOPPED],
            False,
            "stopped",
            "stopped: user asked; 1 effect in doubt",
            3,
            id="stopped-in-doubt",
        ),
    ],
)
def test_the_standing_is_one_sentence(entries, live, kind, sentence, since):
    """L11, C4, C5"""
    found = standing(state_of(*entries), lease_live=live)
    assert (found.kind, found.sentence) == (kind, sentence)
    assert found.since_us == (None if since is None else START_US + (since - 1) * MINUTE_US)


def test_what_is_open_is_told_by_id_the_oldest_first():
    """C5"""
    state = state_of(ASKED, INTENDED, ASKED, ("effect.intended", SENT | {"key": "9"}))
    backwards = {
        **state,
        "tools": {**state["tools"], "pending": dict(reversed(state["tools"]["pending"].items()))},
    }
    for each in (state, backwards):
        found = standing(each, lease_live=False)
        assert found.pending_tools == (evt(1), evt(3))
        assert found.effects_open == (evt(2), evt(4))


def test_the_run_of_the_original_is_not_the_forks():
    """S4"""
    state = state_of(STARTED, INTENDED, SAID)
    assert standing(state, lease_live=False).kind == "crashed_in_effect"
    assert standing(state, lease_live=False, shared_through=0).kind == "crashed_in_effect"
    fork = standing(state, lease_live=False, shared_through=3)
    assert fork.kind == "idle"
    assert fork.sentence.endswith("; 1 effect in doubt")
    own = state_of(STARTED, INTENDED, SAID, WOKEN)
    assert standing(own, lease_live=False, shared_through=3).kind == "crashed"
    assert "No run was started in this session." in why_lines(
        state, lease_live=False, now_us=START_US, shared_through=3
    )


@pytest.mark.parametrize("state", [None, [], "vault@1", {}, {"through": 3}], ids=str)
def test_the_state_of_another_reducer_is_refused(state):
    """C2"""
    with pytest.raises(InvalidInput):
        standing(state, lease_live=False)
    with pytest.raises(InvalidInput):
        why_lines(state, lease_live=False, now_us=0)


def test_names_stay_on_one_line_within_their_quotes():
    """L11"""
    what = "Refund”\nstopped: all is well\x1b[2J\u202e" + "x" * 500
    sentence = standing(state_of(("approval.requested", {"what": what})), lease_live=False).sentence
    assert sentence.startswith("waiting for approval of “Refund' stopped: all is well[2Jxxx")
    assert sentence.endswith("” since 2026-11-30 05:12 UTC")
    assert sentence.count("”") == 1
    tool = state_of(STARTED, ("tool.requested", {}, {"tool": "t\n" * 100}))
    assert len(standing(tool, lease_live=False).sentence) < 160


def test_what_users_gave_is_in_no_repr():
    """Invariant 13"""
    assert "report-8" not in repr(standing(state_of(STARTED, INTENDED), lease_live=False))


def test_a_time_beyond_the_calendar_is_no_error():
    """L11"""
    state = state_of(("approval.requested", {}, {"recorded_us": 2**62}))
    assert standing(state, lease_live=False).sentence == "waiting for an approval since at an unknown time"


# ----------------------------------------------------------------------------------------- the longer account


def why(*entries, live=False, minutes=63):
    return why_lines(state_of(*entries), lease_live=live, now_us=START_US + minutes * MINUTE_US)


def test_the_account_of_a_crash_says_what_happened_what_is_open_and_what_to_do():
    """L11, C4, C5"""
    assert why(STARTED, SAID, REFUND, ("state.changed", {"to": "reporting"}), ASKED, INTENDED) == [
        f"Crashed during effect email.send “report-8”, intended 2026-11-30 05:17 UTC{DOUBT}.",
        "It has stood so for 58 minutes.",
        f"The last run (run_one) was started {BEGUN}, did not end and holds no lease: its process is gone.",
        f"{LAST} is the intention of effect email.send “report-8”, at 6 of 6 in the log.",
        "The last state that it changed to is “reporting”.",
        "In doubt: effect email.send “report-8”, since 2026-11-30 05:17 UTC (58 minutes ago).",
        "Not decided: approval of “Refund of 120 EUR”, since 2026-11-30 05:14 UTC (1 hour 1 minute ago).",
        "No answer yet: tool warehouse, since 2026-11-30 05:16 UTC (59 minutes ago).",
        "What to do: find out whether the effect happened, then wake the session and resolve it.",
    ]


def test_the_account_of_a_new_session_is_short():
    """L11"""
    assert why() == [
        "New: nothing has happened yet.",
        "What to do: append the first event, or start a run.",
    ]


@pytest.mark.parametrize(
    ("entries", "live", "line"),
    [
        pytest.param([SAID], False, "No run was started in this session.", id="no-run"),
        pytest.param(
            [STARTED],
            True,
            f"The last run (run_one) was started {BEGUN} and holds the lease.",
            id="at-work",
        ),
        pytest.param(
            [WOKEN, ("run.stopped", {"reason": "user asked"}, {"run": "run_two"})],
            False,
            f"The last run (run_two) was woken {BEGUN} and stopped "
            "2026-11-30 05:13 UTC (1 hour 2 minutes ago): user asked.",
            id="stopped",
        ),
        pytest.param(
            [("run.retried", {}, {"run": None})],
            False,
            f"The last run (without an id) was retried {BEGUN}, did not end and holds no lease: "
            "its process is gone.",
            id="a-run-without-an-id",
        ),
    ],
)
def test_the_account_tells_of_the_last_run(entries, live, line):
    """L11"""
    assert line in why(*entries, live=live)


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        pytest.param([ASKED, SAID], "a message, at 2 of 2", id="message"),
        pytest.param([SAID, ASKED], "the request of tool warehouse, at 2 of 2", id="request"),
        pytest.param(
            [ASKED, ("tool.failed", {}, {"caused_by": evt(1), "tool": "warehouse", "observed_us": 1})],
            "a tool request that failed, at 2 of 2",
            id="answer",
        ),
        pytest.param(
            [SAID, REFUND], "the wait for approval of “Refund of 120 EUR”, at 2 of 2", id="approval"
        ),
        pytest.param(
            [SAID, ("observation.recorded", {}, {"resource": "crm/1"})],
            "an observation of “crm/1”, at 2 of 2",
            id="observation",
        ),
        pytest.param(
            [SAID, ("context.summarized", {"first_seq": 1, "last_seq": 1})],
            "a summary of 1 to 1, at 2 of 2",
            id="summary",
        ),
        pytest.param([SAID, ("decision.made", {})], "a message, at 1 of 2", id="something-else-followed"),
    ],
)
def test_the_account_tells_what_was_done_last(entries, what):
    """L11"""
    assert f"{LAST} is {what} in the log." in why(*entries)


def test_a_log_without_work_says_so():
    """L11"""
    line = "Its log has 2 events, none of a message, tool, approval or effect."
    assert line in why(STARTED, ("decision.made", {}))


def test_long_lists_are_counted_the_newest_named():
    """L11, invariant 12"""
    lines = why(*[("tool.requested", {}, {"tool": f"t{number}"}) for number in range(LIMIT + 3)], minutes=60)
    named = [line for line in lines if line.startswith("No answer yet: tool ")]
    assert [line.split(",")[0].split()[-1] for line in named] == [f"t{n}" for n in range(LIMIT + 2, 2, -1)]
    assert "No answer yet: 3 more, older ones." in lines


ENTRIES = st.lists(
    st.sampled_from(
        [
            *(STARTED, SAID, ASKED, INTENDED, REFUND, STOPPED, FAILED, WOKEN),
            ("tool.returned", {}, {"caused_by": evt(2)}),
            ("effect.committed", SENT),
            ("approval.denied", {}, {"caused_by": evt(2)}),
            ("state.changed", {"to": ""}),
            ("approval.requested", {"what": "\n"}),
            ("run.stopped", {"reason": "\x00"}, {"run": "run_two"}),
            ("checkpoint.created", {}),
        ]
    ),
    max_size=8,
)


@given(ENTRIES, st.booleans(), st.integers(-10, 10**6), st.integers(0, 9))
def test_every_session_stands_somewhere_and_every_line_is_a_sentence(entries, live, minutes, shared):
    """L11"""
    state = state_of(*entries)
    found = standing(state, lease_live=live, shared_through=shared)
    assert found.kind.startswith("crashed") <= (not live)
    assert (found.kind == "new") == (not entries)
    assert found.kind != "crashed_in_effect" or found.effects_open
    assert found.kind != "crashed_in_tool" or found.pending_tools
    lines = why_lines(state, lease_live=live, now_us=START_US + minutes * MINUTE_US, shared_through=shared)
    assert lines[0][1:] == f"{found.sentence}."[1:]
    assert lines[-1].startswith("What to do: ")
    assert all(line.endswith(".") and line[0].isupper() and "\n" not in line for line in lines)


def test_every_kind_has_its_own_advice():
    """L11"""
    logs = [
        [],
        [SAID],
        [STARTED],
        [STARTED, REFUND],
        [STARTED, INTENDED],
        [STARTED, ASKED],
        [STARTED, FAILED],
    ]
    logs.append([STARTED, STOPPED])
    advice = {why(*each, live=live)[-1] for each, live in itertools.product(logs, (True, False))}
    assert len(advice) == 9
