"""The context view keeps its budget, splits no tool call, and lets a summary stand for what it covers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.errors import InvalidInput
from vault.model import Event
from vault.policy.context import LOOK_BACK_MAX, TYPES, estimate_tokens, select


def evt(seq: int) -> str:
    return f"evt_{seq:08x}-0000-7000-8000-000000000000"


def event(seq, type, payload=None, **fields):
    given_fields = {
        "id": evt(seq),
        "session_id": "ses_1",
        "recorded_us": 1_000 + seq,
        "run": None,
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


# A log in a few letters: m message, d decision, ? request, =N answer to N, !N its failure, N-M a summary.
def log(text):
    return [_entry(seq, word) for seq, word in enumerate(text.split(), 1)]


def _entry(seq, word):
    if word[0] in "=!":
        caused_by = evt(int(word[1:])) if word[1:] else None
        return event(seq, "tool.returned" if word[0] == "=" else "tool.failed", {}, caused_by=caused_by)
    if word[0].isdigit():
        first, last = map(int, word.split("-"))
        return event(seq, "context.summarized", {"summary": "", "first_seq": first, "last_seq": last})
    return event(seq, {"m": "message.user", "d": "decision.made", "?": "tool.requested"}[word[0]], {})


def chosen(text, **budget):
    return [each.seq for each in select(reversed(log(text)), **budget).events]


class Reading:
    """A log read backwards, and how many events of it were taken."""

    def __init__(self, events):
        self.events, self.taken = events, 0

    def __iter__(self):
        for each in reversed(self.events):
            self.taken += 1
            yield each


@pytest.mark.parametrize(
    ("text", "max_events", "seqs"),
    [
        pytest.param("m m m", None, [1, 2, 3], id="everything"),
        pytest.param("", None, [], id="nothing"),
        pytest.param("m d m", None, [1, 3], id="only-what-a-model-is-shown"),
        pytest.param("m m m", 2, [2, 3], id="the-newest"),
        pytest.param("m m m", 3, [1, 2, 3], id="exactly-all"),
        pytest.param("m ? =2 m", 3, [2, 3, 4], id="a-pair-that-fits"),
        pytest.param("m ? =2 m", 2, [4], id="a-pair-that-does-not-fit"),
        pytest.param("? =1", 1, [], id="nothing-fits"),
        pytest.param("? m m =1", 4, [1, 2, 3, 4], id="a-pair-around-others"),
        pytest.param("? m m =1", 3, [2, 3], id="an-answer-whose-request-is-too-far-back"),
        pytest.param("m ? ? m", 2, [3, 4], id="requests-without-answers"),
        pytest.param("? !1 =1 m", 4, [1, 2, 3, 4], id="two-answers-of-one-request"),
        pytest.param("? !1 =1 m", 3, [4], id="two-answers-are-one-unit"),
        pytest.param("? ? =1 =2", 3, [2, 4], id="calls-across-each-other"),
        pytest.param("m = m", None, [1, 2, 3], id="an-answer-of-no-request"),
        pytest.param("m = m", 2, [2, 3], id="an-answer-of-no-request-in-a-budget"),
        pytest.param("m m =1", 2, [2], id="an-answer-of-something-else-not-reached"),
        pytest.param("m m =1", 3, [1, 2, 3], id="an-answer-of-something-else"),
        pytest.param("d m =1 m", None, [2, 3, 4], id="an-answer-of-something-not-shown"),
        pytest.param("d m =1 m", 3, [2, 4], id="an-answer-of-something-not-reached"),
        pytest.param("m =9 m", None, [1, 2, 3], id="an-answer-of-what-is-not-there"),
        pytest.param("=3 m ?", 3, [1, 2, 3], id="an-answer-before-its-request"),
        pytest.param("=3 m ?", 2, [2, 3], id="a-request-after-its-answer"),
        pytest.param("m =4 m ?", 3, [2, 3, 4], id="a-request-after-its-answer-and-more-before"),
        pytest.param("m =2 m", 2, [2, 3], id="an-answer-of-itself"),
    ],
)
def test_the_newest_that_fit_are_chosen_and_no_tool_call_is_split(text, max_events, seqs):
    """S7"""
    assert chosen(text, max_events=max_events) == seqs


@pytest.mark.parametrize(
    ("text", "max_events", "seqs"),
    [
        pytest.param("m m m 1-3 m", None, [4, 5], id="in-place-of-all-before"),
        pytest.param("m m m m 1-2 m", None, [5, 3, 4, 6], id="at-the-front-of-what-follows"),
        pytest.param("m m m m 2-3 m", None, [1, 5, 4, 6], id="behind-what-it-leaves"),
        pytest.param("m m m m 1-2 m", 3, [5, 4, 6], id="it-stays-when-not-all-between-fits"),
        pytest.param("m m m m 1-2 m", 2, [5, 6], id="it-alone"),
        pytest.param("m m m m 1-2 m", 1, [6], id="it-does-not-fit"),
        pytest.param("m 1-1 m 1-3 m", None, [4, 5], id="the-newest-of-two"),
        pytest.param("m m 1-2 m m 3-5 m", None, [6, 7], id="what-a-covered-one-covered"),
        pytest.param("m m 1-2 m m 4-5 m", None, [3, 6, 7], id="two-side-by-side"),
        pytest.param("m m m 1-2 1-3 m", None, [5, 6], id="an-older-one-that-says-no-more"),
        pytest.param("m m m m 3-4 1-2 m", None, [6, 5, 7], id="the-later-one-covers-earlier-events"),
        pytest.param("m m m 1-4 m", None, [1, 2, 3, 4, 5], id="not-applied-at-its-own-place"),
        pytest.param("m m m 3-2 m", None, [1, 2, 3, 4, 5], id="not-applied-turned-round"),
        pytest.param("m ? =2 1-3 m", None, [4, 5], id="a-covered-call"),
        pytest.param("m ? 1-2 m =2", None, [3, 2, 4, 5], id="a-call-that-was-open-is-taken-out"),
        pytest.param("m ? m m 1-4 m =2", 4, [5, 2, 6, 7], id="taken-out-from-further-back"),
        pytest.param("m ? m m 1-4 m =2", 3, [5, 6], id="taken-out-does-not-fit"),
        pytest.param("? m =1 2-3 m", None, [4, 5], id="a-call-that-was-answered-in-the-range"),
        pytest.param("? m !1 2-3 =1", None, [1, 4, 3, 5], id="a-call-answered-again-later"),
        pytest.param("? =1 m !1 4-4 m", None, [3, 5, 6], id="the-last-of-two-answers-is-covered"),
        pytest.param("m m 1-1 m =9", None, [3, 2, 4, 5], id="an-answer-of-nothing-behind-a-summary"),
        pytest.param("m ? 1-2 m =1", None, [3, 4, 5], id="an-answer-of-a-covered-message"),
        pytest.param("m m =1 2-3 m", None, [1, 4, 5], id="a-covered-answer-of-a-message"),
    ],
)
def test_a_summary_takes_the_place_of_what_it_covers(text, max_events, seqs):
    """S7"""
    assert chosen(text, max_events=max_events) == seqs


def test_the_newest_applied_summary_is_named():
    """S7"""
    events = log("m m 1-2 m m 4-5 m")
    assert select(reversed(events)).summary is events[5]
    assert select(reversed(events), max_events=1).summary is None
    assert select(reversed(log("m 1-2"))).summary is None


def test_without_summaries_wanted_nothing_is_replaced():
    """S7"""
    types = frozenset({"message.user", "tool.requested", "tool.returned"})
    assert chosen("m ? =2 1-3 m", types=types) == [1, 2, 3, 5]
    assert chosen("m d = 1-3 m", types=frozenset({"decision.*"})) == [2]
    assert chosen("m ? =2 m", types=frozenset({"tool.returned", "message.*"}), max_events=2) == [3, 4]
    assert chosen("? !1 =1", types=frozenset({"tool.requested", "tool.returned"})) == [1, 3]


def test_the_usual_types_are_those_a_model_is_shown():
    """S7"""
    shown = ["message.user", "message.note", "tool.requested", "context.summarized", "observation.recorded"]
    hidden = [
        "decision.made",
        "messages.user",
        "message",
        "run.started",
        "state.changed",
        "observation.other",
    ]
    events = [event(seq, kind, {}) for seq, kind in enumerate([*shown, *hidden], 1)]
    assert [each.type for each in select(reversed(events)).events] == shown
    assert select(reversed(events), types=TYPES) == select(reversed(events))


@pytest.mark.parametrize(
    ("text", "budget", "taken"),
    [
        pytest.param("m " * 100, {"max_events": 3}, 3, id="events"),
        pytest.param("m " * 100, {"max_tokens": 3}, 4, id="tokens-and-the-one-that-does-not-fit"),
        pytest.param("m " * 90 + "1-90 m m", {}, 3, id="a-summary-of-all-before"),
        pytest.param("m " * 90 + "m m 1-90 m m", {}, 5, id="a-summary-and-what-it-leaves"),
        pytest.param("m " * 90 + "m m 1-90 m m", {"max_events": 4}, 4, id="full-between"),
        pytest.param("m " * 90 + "m m 1-50 60-92 m", {}, 45, id="a-gap-between-two"),
        pytest.param("m " * 90 + "1-50 51-90 m", {}, 3, id="two-that-touch"),
        pytest.param("m " * 90 + "51-90 1-50 m", {}, 3, id="two-that-touch-the-other-way-round"),
        pytest.param("m " * 90 + "1-90 ? =92 m", {}, 4, id="a-call-after-the-summary"),
        pytest.param("m " * 89 + "? 1-90 =90 m", {}, 4, id="a-call-out-of-the-range"),
        pytest.param("m " * 89 + "? 1-90 =900 m", {}, 93, id="a-call-that-is-nowhere"),
        pytest.param("m " * 899 + "? 1-900 =9000 m", {}, 3 + LOOK_BACK_MAX, id="looked-for-so-far"),
    ],
)
def test_no_more_is_read_than_the_budget_or_the_summary_lets_through(text, budget, taken):
    """S7, L9"""
    reading = Reading(log(text))
    select(reading, counter=lambda _: 1, **budget)
    assert reading.taken == taken


def test_a_call_too_deep_in_a_summarys_range_is_left_out():
    """S7"""
    near, far = "m " * 300 + "? " + "m " * 100 + "1-401 =301 m", "m ? " + "m " * 399 + "1-401 =2 m"
    assert chosen(near) == [402, 301, 403, 404]
    found = select(reversed(log(far)))
    assert [each.seq for each in found.events] == [402, 404]
    assert found.left_out == 1


@pytest.mark.parametrize(
    ("text", "budget", "left_out", "reason"),
    [
        pytest.param("m d m", {}, 0, "all of the wanted types are here", id="all"),
        pytest.param("", {}, 0, "all of the wanted types are here", id="nothing"),
        pytest.param(
            "m m 1-1 m",
            {},
            0,
            "a summary stands for the events 1 to 1; all others of the wanted types are here",
            id="a-summary",
        ),
        pytest.param(
            "m m 1-2 m m 4-5 m",
            {},
            0,
            "a summary stands for the events 4 to 5; older ones for 1 to 2; "
            "all others of the wanted types are here",
            id="two-summaries",
        ),
        pytest.param(
            "m m m m",
            {"max_events": 2},
            None,
            "the budget of 2 events is used up at seq 3, older ones are left out",
            id="events",
        ),
        pytest.param(
            "m m m m",
            {"max_events": 9, "max_tokens": 1},
            None,
            "the budget of 1 token is used up at seq 3, older ones are left out",
            id="tokens",
        ),
        pytest.param(
            "m m",
            {"max_tokens": 1},
            1,
            "the budget of 1 token is used up at seq 1, older ones are left out",
            id="tokens-at-the-start",
        ),
        pytest.param(
            "? =1 m",
            {"max_tokens": 2},
            2,
            "the budget of 2 tokens is used up at seq 1, older ones are left out; "
            "1 tool answer left out, as the request lies further back",
            id="a-call",
        ),
    ],
)
def test_the_reason_says_where_it_ends(text, budget, left_out, reason):
    """S7, invariant 11"""
    found = select(reversed(log(text)), counter=lambda _: 1, **budget)
    assert (found.left_out, found.reason) == (left_out, reason)


@pytest.mark.parametrize("counted", [1.0, -1, None, True, "3"], ids=repr)
def test_a_counter_that_does_not_count_is_refused(counted):
    """S7"""
    with pytest.raises(InvalidInput, match="a counter of tokens returns an integer"):
        select(log("m"), counter=lambda _: counted)


@pytest.mark.parametrize("name", ["max_events", "max_tokens"])
@pytest.mark.parametrize("budget", [0, -1, True, 1.0, "9", float("nan")], ids=repr)
def test_a_budget_that_is_no_positive_integer_is_refused(name, budget):
    """S7"""
    with pytest.raises(InvalidInput, match=name):
        select([], **{name: budget})


def test_to_want_no_type_at_all_is_refused():
    """S7"""
    with pytest.raises(InvalidInput):
        select([], types=frozenset())


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        pytest.param({"payload": None}, 1, id="null"),
        pytest.param({"payload": "äöü"}, 2, id="bytes-not-characters"),
        pytest.param({"payload": {"a": 1}}, 2, id="seven-bytes"),
        pytest.param({"payload": {"a": 12}}, 2, id="eight-bytes"),
        pytest.param({"payload": {"a": 123}}, 3, id="nine-bytes"),
        pytest.param({"raw": b"12345"}, 2, id="raw"),
        pytest.param({"raw": b""}, 0, id="raw-and-empty"),
        pytest.param({"streamed": True, "size": 4_001}, 1_001, id="streamed"),
    ],
)
def test_the_rough_count_is_a_quarter_of_the_bytes(fields, tokens):
    """S7"""
    assert estimate_tokens(event(1, "message.user", **fields)) == tokens


def test_the_rough_count_is_used_when_no_other_is_given():
    """S7"""
    events = [event(seq, "message.user", "x" * 38) for seq in (1, 2, 3)]
    found = select(reversed(events), max_tokens=29)
    assert [each.seq for each in found.events] == [2, 3]
    assert found.tokens == 20


# ------------------------------------------------------------------------------------------------ properties


@st.composite
def logs(draw, *, strays):
    """Any log; with ``strays``, answers may name anything as their request."""
    events, requests = [], []
    for seq in range(1, draw(st.integers(0, 14)) + 1):
        kinds = "mm?d" + "s" * (seq > 1) + "==!" * (strays or bool(requests)) + "=" * strays
        kind = draw(st.sampled_from(kinds))
        if kind == "s":
            low, high = (0, seq + 1) if strays else (1, seq - 1)
            word = f"{draw(st.integers(low, high))}-{draw(st.integers(low, high))}"
        elif kind in "=!":
            target = draw(st.integers(0, seq + 2) if strays else st.sampled_from(requests))
            word = f"{kind}{target or ''}"
        else:
            word = kind
            requests += [seq] * (kind == "?")
        size = draw(st.integers(0, 5))
        events.append(_entry(seq, word)._replace(usage={"tokens": size}))
    return events


BUDGETS = st.none() | st.integers(1, 12)


def counted(each):
    return each.usage["tokens"]


def picked(events, max_events=None, max_tokens=None):
    return select(reversed(events), max_events=max_events, max_tokens=max_tokens, counter=counted)


def request_of(each, by_id):
    """The earlier request that an answer is of, or None."""
    request = by_id.get(each.caused_by)
    is_pair = each.type in {"tool.returned", "tool.failed"} and request is not None
    return request if is_pair and request.type == "tool.requested" and request.seq < each.seq else None


def unit_of(each, by_id):
    """What an answer names, unless that is not before it; a request and anything else are their own."""
    if each.type in {"tool.returned", "tool.failed"} and each.caused_by is not None:
        named = by_id.get(each.caused_by)
        if named is None or named.seq < each.seq:
            is_request = named is not None and named.type == "tool.requested"
            return named.id if is_request else f"answers of {each.caused_by}"
    return each.id


def shown_without_a_budget(events):
    """What no budget would leave out, worked out with sets of places instead of one walk back."""
    by_id = {each.id: each for each in events}
    covered, said_again = set(), set()
    for each in reversed(events):
        first, last = (each.payload.get("first_seq", 0), each.payload.get("last_seq", 0))
        if 1 <= first <= last < each.seq:
            span = set(range(first, last + 1))
            said_again |= {each.seq} if span <= covered else set()
            covered |= span
    last_answer = {unit_of(each, by_id): each.seq for each in events}

    def is_shown(each):
        wanted = each.type != "decision.made" and each.seq not in said_again
        return wanted and last_answer[unit_of(each, by_id)] not in covered

    return [each for each in events if is_shown(each)]


@given(logs(strays=True))
def test_without_a_budget_all_is_shown_that_no_summary_covers(events):
    """S7"""
    found = picked(events)
    assert sorted(each.seq for each in found.events) == [each.seq for each in shown_without_a_budget(events)]
    assert found.left_out == 0


@given(logs(strays=False), BUDGETS, BUDGETS)
def test_the_selection_is_the_newest_part_but_for_answers_of_older_requests(events, max_events, max_tokens):
    """S7"""
    by_id, fitting, tokens = {each.id: each for each in events}, [], 0
    for each in reversed(shown_without_a_budget(events)):
        tokens += counted(each)
        if len(fitting) == max_events or (max_tokens is not None and tokens > max_tokens):
            break
        fitting.append(each)
    whole = [each for each in fitting if (request_of(each, by_id) or each) in fitting]
    found = picked(events, max_events, max_tokens)
    assert sorted(each.seq for each in found.events) == sorted(each.seq for each in whole)


@given(logs(strays=True), BUDGETS, BUDGETS)
def test_the_budget_is_kept(events, max_events, max_tokens):
    """S7"""
    found = picked(events, max_events, max_tokens)
    assert max_events is None or len(found.events) <= max_events
    assert max_tokens is None or found.tokens <= max_tokens
    assert found.tokens == sum(map(counted, found.events))


@given(logs(strays=True), BUDGETS, BUDGETS)
def test_a_tool_call_is_never_split_from_its_result(events, max_events, max_tokens):
    """S7"""
    by_id = {each.id: each for each in events}
    shown = {each.id for each in shown_without_a_budget(events)}
    found = {each.id for each in picked(events, max_events, max_tokens).events}
    for each in events:
        request = request_of(each, by_id)
        if request is not None and each.id in shown:
            assert (each.id in found) == (request.id in found)


@given(logs(strays=True), BUDGETS, BUDGETS)
def test_the_order_of_the_log_is_kept_but_for_summaries_which_stand_where_their_range_began(
    events, max_events, max_tokens
):
    """S7, L8"""
    found = picked(events, max_events, max_tokens)
    places = []
    for each in found.events:
        first, last = each.payload.get("first_seq", 0), each.payload.get("last_seq", 0)
        is_applied = 1 <= first <= last < each.seq
        places.append((first, 0) if is_applied else (each.seq, 1))
    assert places == sorted(places)
    assert len({each.id for each in found.events}) == len(found.events)


@given(logs(strays=True), st.integers(1, 12), st.integers(1, 12), st.integers(0, 4), st.integers(0, 4))
def test_a_larger_budget_never_leaves_out_what_a_smaller_one_returns(
    events, count, tokens, more, more_tokens
):
    """S7"""
    small = {each.id for each in picked(events, count, tokens).events}
    large = {each.id for each in picked(events, count + more, tokens + more_tokens).events}
    assert small <= large
    assert large <= {each.id for each in picked(events).events}


@given(logs(strays=True), BUDGETS)
def test_reading_on_beyond_the_end_would_change_nothing(events, max_events):
    """L9: what lies behind the end of the reading could be anything."""
    reading = Reading(events)
    found = select(reading, max_events=max_events, counter=counted)
    unread = len(events) - reading.taken
    other = [event(each.seq, "message.user", {}, usage={"tokens": 0}) for each in events[:unread]]
    assert select(reversed([*other, *events[unread:]]), max_events=max_events, counter=counted) == found
