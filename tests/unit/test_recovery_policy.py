"""A log folds into the same bounded state on every machine, and an impure reducer is found out."""

import copy
import dataclasses
import json
import random
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vault.encoding import canonical_json, json_value
from vault.errors import InvalidInput
from vault.model import Event
from vault.policy import state as vault_state
from vault.policy.recovery import DEFAULT, Reducer, Trigger, due, fold, state_hash

CANARY = "Zanzibar-4711"
RUN, OTHER_RUN = "run_one", "run_two"

#: The vault's own reducer under a name that is checked like anybody's.
CHECKED = dataclasses.replace(DEFAULT, name="copy@1")


def evt(seq: int) -> str:
    return f"evt_{seq:08x}-0000-7000-8000-000000000000"


def event(seq, type, payload=None, **fields):
    given_fields = {
        "id": evt(seq),
        "session_id": "ses_1",
        "recorded_us": 1_000 + seq,
        "run": RUN,
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


def log(*entries):
    """Events with rising places, from (type, payload, fields)."""
    return [event(seq, *entry[:2], **dict(*entry[2:])) for seq, entry in enumerate(entries, 1)]


def folded(*entries):
    return fold(DEFAULT, DEFAULT.initial, log(*entries))


# ------------------------------------------------------------------------------------ the vault's own state


def test_nothing_happened_yet_is_a_state_too():
    """C2"""
    assert fold(DEFAULT, DEFAULT.initial, []) == DEFAULT.initial
    assert DEFAULT.initial["through"] == 0
    assert DEFAULT.name == "vault@1"


@pytest.mark.parametrize(("answer", "outcome"), [("tool.returned", "returned"), ("tool.failed", "failed")])
def test_a_tool_is_pending_until_an_answer_names_its_request(answer, outcome):
    """C2, C5"""
    asked = ("tool.requested", {"sql": "x"}, {"tool": "warehouse"})
    pending = {evt(1): {"seq": 1, "tool": "warehouse", "run": RUN, "since_us": 1_001}}
    assert folded(asked)["tools"]["pending"] == pending
    for stranger in ({"caused_by": None}, {"caused_by": evt(9)}, {"caused_by": None, "tool": "warehouse"}):
        state = folded(asked, (answer, {}, stranger))
        assert state["tools"]["pending"] == pending
        assert state["tools"]["completed"] == {"count": 0, "recent": []}
    state = folded(asked, ("message.user", {}), (answer, {}, {"caused_by": evt(1)}))
    assert state["tools"]["pending"] == {}
    assert state["tools"]["completed"] == {"count": 1, "recent": [[evt(1), 3, outcome]]}


def test_a_second_answer_to_a_request_changes_nothing():
    """C2"""
    once = [("tool.requested", {}, {"tool": "t"}), ("tool.failed", {}, {"caused_by": evt(1)})]
    twice = [*once, ("tool.returned", {}, {"caused_by": evt(1)})]
    assert folded(*twice)["tools"] == folded(*once)["tools"]


SENT = {"kind": "email.send", "key": "report-8"}


@pytest.mark.parametrize("outcome", ["committed", "failed"])
def test_an_effect_is_open_until_a_fact_of_its_kind_and_key(outcome):
    """C4"""
    intended = ("effect.intended", SENT | {"intent": {"to": CANARY}})
    opened = {evt(1): {"seq": 1, **SENT, "run": RUN, "since_us": 1_001}}
    for other in (SENT | {"key": "report-9"}, SENT | {"kind": "sms.send"}, "report-8", None, [SENT], {}):
        assert folded(intended, (f"effect.{outcome}", other))["effects"]["open"] == opened
    resolved = folded(intended, ("effect.resolved", SENT | {"decision": "retry"}))
    assert resolved["effects"]["open"] == opened
    effects = folded(intended, (f"effect.{outcome}", SENT, {"run": OTHER_RUN}))["effects"]
    assert effects == {"open": {}, "dropped": 0, "committed": 0, "failed": 0} | {outcome: 1}


def test_an_effect_intended_again_is_one_effect_in_doubt():
    """C4"""
    state = folded(
        ("effect.intended", SENT), ("effect.intended", SENT | {"key": "9"}), ("effect.intended", SENT)
    )
    assert sorted(entry["seq"] for entry in state["effects"]["open"].values()) == [2, 3]


@pytest.mark.parametrize("payload", ["email.send", None, {}, {"kind": "email.send"}, {"kind": 1, "key": "a"}])
def test_an_intention_without_kind_and_key_opens_nothing(payload):
    """C4"""
    assert folded(("effect.intended", payload))["effects"]["open"] == {}


@pytest.mark.parametrize("answer", ["approval.granted", "approval.denied"])
def test_an_approval_is_open_until_it_is_decided(answer):
    """C5"""
    asked = ("approval.requested", {"what": "Refund of 120 EUR", "of": CANARY})
    opened = {evt(1): {"seq": 1, "what": "Refund of 120 EUR", "since_us": 1_001, "run": RUN}}
    assert folded(asked, (answer, {}, {"caused_by": evt(2)}))["approvals"]["open"] == opened
    assert folded(asked, (answer, {}, {"caused_by": evt(1)}))["approvals"]["open"] == {}


@pytest.mark.parametrize(
    ("type", "how"), [("started", "started"), ("woken", "woken"), ("retried", "retried")]
)
def test_the_last_run_is_known_with_how_it_began(type, how):
    """C5"""
    state = folded(("run.started", {}, {"run": OTHER_RUN}), (f"run.{type}", {"config": "analyst@12"}))
    assert state["run"] == {"id": RUN, "seq": 2, "since_us": 1_002, "how": how, "ended": None}
    assert state["config"] == "analyst@12"


@pytest.mark.parametrize(
    ("type", "payload", "reason"),
    [
        pytest.param("stopped", {"reason": "user asked"}, "user asked", id="stopped"),
        pytest.param("failed", {"error": "KeyError", "message": "'a'"}, "KeyError: 'a'", id="failed"),
        pytest.param("failed", {"error": "KeyError"}, "KeyError", id="failed-without-message"),
        pytest.param("stopped", "user asked", "", id="an-odd-payload"),
        pytest.param("stopped", {"reason": "x" * 500}, "x" * 200, id="a-long-reason"),
    ],
)
def test_the_end_of_a_run_is_kept_with_its_reason(type, payload, reason):
    """C5"""
    state = folded(("run.started", {}), (f"run.{type}", payload), (f"run.{type}", {"reason": "again"}))
    assert state["run"]["ended"] == {"how": type, "seq": 2, "at_us": 1_002, "reason": reason}


def test_the_late_end_of_a_replaced_run_does_not_end_the_one_at_work():
    """C5"""
    state = folded(("run.started", {}), ("run.woken", {}, {"run": OTHER_RUN}), ("run.stopped", {}))
    assert state["run"]["id"] == OTHER_RUN
    assert state["run"]["ended"] is None
    assert folded(("run.stopped", {}))["run"] is None


def test_of_each_resource_the_newest_observation_in_the_log_is_kept():
    """S3"""
    state = folded(
        ("observation.recorded", {}, {"resource": "crm/1", "observed_us": 70, "valid_for_us": 5}),
        ("tool.returned", {}, {"tool": "warehouse", "observed_us": 60}),
        ("observation.recorded", {}, {"resource": "crm/1", "observed_us": 50}),
        ("observation.recorded", {}, {"resource": "crm/2"}),
        ("tool.returned", {}, {"tool": "mail"}),
        ("sensor.read", {}, {"tool": "mail", "resource": "crm/3", "valid_for_us": 9}),
        ("observation.recorded", {}),
    )
    assert state["observations"] == {
        "crm/1": [3, 50, None],
        "tool:warehouse": [2, 60, None],
        "crm/2": [4, 1_004, None],
        "crm/3": [6, 1_006, 9],
    }


def test_messages_that_a_summary_covers_are_not_recent_any_more():
    """S7"""
    messages = [("message.user", {})] * 5
    state = folded(*messages, ("context.summarized", {"first_seq": 2, "last_seq": 4}), ("message.user", {}))
    assert state["messages"] == {"count": 6, "recent": [1, 5, 7]}
    assert state["summary"] == {"id": evt(6), "seq": 6, "first_seq": 2, "last_seq": 4}


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"first_seq": 1, "last_seq": 3}, id="its-own-place"),
        pytest.param({"first_seq": 1, "last_seq": 9}, id="what-comes-after-it"),
        pytest.param({"first_seq": 2, "last_seq": 1}, id="turned-round"),
        pytest.param({"first_seq": 0, "last_seq": 1}, id="before-the-log"),
        pytest.param({"first_seq": True, "last_seq": 2}, id="a-bool"),
        pytest.param({"first_seq": 1.0, "last_seq": 2}, id="a-float"),
        pytest.param({"first_seq": "1", "last_seq": "2"}, id="text"),
        pytest.param({"first_seq": 1}, id="no-end"),
        pytest.param([1, 2], id="a-list"),
        pytest.param("1-2", id="a-string"),
        pytest.param(None, id="nothing"),
    ],
)
def test_a_summary_that_claims_no_range_before_it_is_not_applied(payload):
    """S7"""
    state = folded(("message.user", {}), ("message.user", {}), ("context.summarized", payload))
    assert state["summary"] is None
    assert state["messages"]["recent"] == [1, 2]


def test_node_and_configuration_are_the_last_ones_named():
    """C5, S5"""
    state = folded(
        ("state.changed", {"from": "a", "to": "b"}),
        ("config.changed", {"config": "analyst@13", "document": {"prompt": CANARY}}),
        ("state.changed", {"to": "c" * 400}),
        ("state.changed", "d"),
        ("config.changed", {"config": 7}),
    )
    assert state["node"] == "c" * 256
    assert state["config"] == "analyst@13"
    assert CANARY not in json.dumps(state)


def test_runs_and_checkpoints_do_not_count_as_use():
    """S3"""
    quiet = [("run.started", {}), ("checkpoint.created", {"state": {}}), ("run.stopped", {})]
    assert folded(*quiet)["last_us"] is None
    assert folded(("message.user", {}), *quiet)["last_us"] == 1_001
    assert folded(*quiet, ("sales.note", {}))["last_us"] == 1_004
    assert folded(("message.user", {}), *quiet)["through"] == 4


def test_no_content_of_messages_tools_or_effects_is_in_the_state():
    """C1, K1"""
    said = {"content": CANARY, "error": CANARY, "message": CANARY, "value": CANARY, "summary": CANARY}
    said |= {"intent": CANARY, "confirmation": CANARY, "of": CANARY, "options": [CANARY]}
    kinds = [
        *("message.user", "message.assistant", "message.system", "tool.requested", "decision.made"),
        *("tool.returned", "tool.failed", "effect.resolved", "context.summarized", "observation.recorded"),
        *(
            "environment.snapshot",
            "approval.requested",
            "approval.granted",
            "checkpoint.created",
            CANARY.lower(),
        ),
    ]
    payloads = [
        said | SENT | {"what": "a refund", "state": {"a": CANARY}, "first_seq": 1, "last_seq": 1}
    ] * 20
    entries = [(kind, payload, {"tool": "t"}) for kind, payload in zip(kinds, payloads, strict=False)]
    entries += [(f"effect.{fact}", said | SENT) for fact in ("intended", "failed", "intended")]
    state = folded(*entries, ("tool.returned", said, {"caused_by": evt(4), "observed_us": 3, "tool": "t"}))
    assert CANARY not in json.dumps(state)
    assert state["messages"]["count"] == 3


def test_names_beyond_the_limit_stay_apart_and_keep_their_start():
    """C4"""
    one, other = (
        ("effect.intended", SENT | {"key": "k" * 300}),
        ("effect.intended", SENT | {"key": "k" * 301}),
    )
    state = folded(one, other, ("effect.committed", SENT | {"key": "k" * 300}))
    (entry,) = state["effects"]["open"].values()
    assert entry["seq"] == 2
    assert len(entry["key"]) == 256
    assert entry["key"].startswith("k" * 150)


# ------------------------------------------------------------------------------------------------- folding

TYPES = [
    *("message.user", "message.assistant", "tool.requested", "tool.returned", "tool.failed"),
    *("approval.requested", "approval.granted", "approval.denied", "state.changed", "config.changed"),
    *("effect.intended", "effect.committed", "effect.failed", "effect.resolved", "context.summarized"),
    *("run.started", "run.woken", "run.retried", "run.stopped", "run.failed", "observation.recorded"),
    *("environment.snapshot", "checkpoint.created", "decision.made", "sales.closed"),
]
NAMES = st.sampled_from(["a", "b", "käse", "x" * 300, "y" * 300, "\x01", "\ud800"]) | st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 30) | st.floats() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["kind", "key", "what", "to", "config", "reason", "error", "message", "first_seq", "last_seq"]
PAYLOADS = VALUES | st.dictionaries(st.sampled_from(FIELDS), NAMES | st.integers(0, 30) | VALUES)


@st.composite
def logs(draw, max_size=12):
    """Any events: most of known types, with payloads and causes that may or may not make sense."""
    size = draw(st.integers(0, max_size))
    return [
        event(
            seq,
            draw(st.sampled_from(TYPES)),
            draw(PAYLOADS),
            run=draw(st.sampled_from([None, RUN, OTHER_RUN])),
            tool=draw(st.none() | NAMES),
            caused_by=draw(st.none() | st.integers(1, seq + 1).map(evt)),
            observed_us=draw(st.none() | st.integers(-(2**62), 2**62)),
            resource=draw(st.none() | NAMES),
            valid_for_us=draw(st.none() | st.integers(0, 2**62)),
        )
        for seq in range(1, size + 1)
    ]


@given(logs())
def test_the_reducer_of_the_vault_takes_any_event_and_is_pure(events):
    """C2"""
    state = fold(CHECKED, DEFAULT.initial, events)
    assert state == fold(DEFAULT, DEFAULT.initial, events)
    assert json_value(canonical_json(state)) == state
    assert state.keys() == DEFAULT.initial.keys()


@given(logs(), st.data())
def test_a_state_that_was_stored_folds_on_to_the_same(events, data):
    """C2, C3"""
    cut = data.draw(st.integers(0, len(events)))
    half = fold(DEFAULT, DEFAULT.initial, events[:cut])
    stored = json_value(canonical_json(half))
    whole = fold(DEFAULT, DEFAULT.initial, events)
    assert fold(DEFAULT, half, events[cut:]) == whole
    assert state_hash(fold(DEFAULT, stored, events[cut:])) == state_hash(whole)


def test_a_state_that_was_stored_drops_the_same_oldest_ones(monkeypatch):
    """C2: canonical JSON sorts the names, so their order says nothing about their age."""
    for limit in ("PENDING_MAX", "APPROVALS_MAX", "EFFECTS_MAX", "OBSERVATIONS_MAX"):
        monkeypatch.setattr(vault_state, limit, 3)
    names = ["m", "z", "a", "q", "b", "y"]
    entries = [("tool.requested", {}, {"tool": name, "id": f"evt_{name}"}) for name in names]
    entries += [("approval.requested", {"what": name}, {"id": f"evt_{name}2"}) for name in names]
    entries += [("effect.intended", {"kind": "k", "key": name}, {"id": f"evt_{name}3"}) for name in names]
    entries += [("observation.recorded", {}, {"resource": name}) for name in names]
    state = DEFAULT.initial
    for each in log(*entries):
        state = fold(DEFAULT, json_value(canonical_json(state)), [each])
    assert state == folded(*entries)
    assert set(state["tools"]["pending"]) == {"evt_q", "evt_b", "evt_y"}
    assert set(state["approvals"]["open"]) == {"evt_q2", "evt_b2", "evt_y2"}
    assert set(state["effects"]["open"]) == {"evt_q3", "evt_b3", "evt_y3"}
    assert set(state["observations"]) == {"q", "b", "y"}
    assert [state[part]["dropped"] for part in ("tools", "approvals", "effects")] == [3, 3, 3]


@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow])
@given(logs().filter(bool), st.integers(0, 2**32))
def test_five_thousand_events_leave_a_small_state(pool, seed):
    """C1: a checkpoint is stored again and again."""
    chance = random.Random(seed)
    state = DEFAULT.initial
    for seq in range(1, 5_001):
        drawn = chance.choice(pool)
        fields = {"seq": seq, "id": evt(seq), "type": chance.choice(TYPES)}
        fields |= {"caused_by": evt(chance.randrange(max(1, seq - 50), seq + 1)), "tool": f"tool-{seq}"}
        state = fold(DEFAULT, state, [drawn._replace(**fields)])
    assert len(canonical_json(state)) <= 256 * 1024


def test_the_largest_state_keeps_its_documented_bound():
    """C1: every list full and every name as long as JSON can make it."""
    seqs = iter(range(2**31 - 5_000, 2**31))
    run = f"run_{uuid.UUID(int=0)}"

    def add(type, payload=None, **fields):
        return event(next(seqs), type, payload, run=run, recorded_us=2**62, **fields)

    def name(number):
        return "\x01" * 252 + f"{number:04}"

    events = [add("run.started", {"config": name(0)})]
    events += [add("tool.requested", tool=name(number)) for number in range(1_200)]
    events += [add("tool.returned", caused_by=asked.id) for asked in events[-200:]]
    events += [add("tool.requested", tool=name(number)) for number in range(300)]
    events += [
        add("a.b", tool=name(number), observed_us=-(2**62), valid_for_us=2**62) for number in range(600)
    ]
    for number in range(300):
        events += [add("effect.intended", {"kind": name(number), "key": name(number)})]
        events += [add("approval.requested", {"what": name(number)}), add("message.user")]
    events += [add("state.changed", {"to": name(0)}), add("run.stopped", {"reason": name(0)})]
    state = fold(DEFAULT, DEFAULT.initial, events)
    sizes = [len(state["tools"]["pending"]), len(state["observations"]), len(state["messages"]["recent"])]
    sizes += [len(state["effects"]["open"]), len(state["approvals"]["open"])]
    assert sizes == [1_000, 500, 200, 200, 200]
    assert len(state["tools"]["completed"]["recent"]) == 200
    assert 3 * 2**20 < len(canonical_json(state)) <= vault_state.STATE_BYTES_MAX


def test_the_state_given_is_left_as_it_is():
    """C2"""
    given_state = folded(
        ("message.user", {}), ("tool.requested", {}, {"tool": "t"}), ("effect.intended", SENT)
    )
    before = copy.deepcopy(given_state)
    fold(DEFAULT, given_state, log(("message.user", {}), ("tool.returned", {}, {"caused_by": evt(2)})))
    assert given_state == before


def count(state, _event):
    return {"n": state["n"] + 1}


def own(apply, initial=None):
    return Reducer(name="sales@1", initial={"n": 0} if initial is None else initial, apply=apply)


def test_a_product_folds_with_a_reducer_of_its_own():
    """C2"""
    reducer = own(count)
    assert fold(reducer, reducer.initial, log(*[("sales.closed", {})] * 7)) == {"n": 7}
    assert fold(reducer, {"n": 3}, []) == {"n": 3}
    assert fold(reducer, {"n": 3}, log(("sales.closed", {})), checked=False) == {"n": 4}


def changing(state, _event):
    state["n"] += 1
    return state


def changing_and_copying(state, _event):
    state.setdefault("seen", []).append(1)
    return {"n": len(state["seen"])}


def remembering():
    calls = []

    def apply(state, each):
        calls.append(each.seq)
        return {"n": len(calls)} if each.seq == 2 else {"n": each.seq}

    return apply


def returning_one_list():
    kept = []

    def apply(_state, each):
        if each.seq == 2:
            kept.append(each.seq)
        return kept

    return apply


@pytest.mark.parametrize(
    ("apply", "words"),
    [
        pytest.param(changing, "changed the state that it was given at seq 1;", id="in-place"),
        pytest.param(changing_and_copying, "changed the state that it was given at seq 1;", id="on-the-side"),
        pytest.param(remembering(), "two different states of the event at seq 2;", id="counts-its-calls"),
        pytest.param(returning_one_list(), "at seq 2;", id="gives-the-same-object"),
        pytest.param(lambda _state, each: {each.seq}, "at seq 1 is not JSON", id="a-set"),
        pytest.param(lambda _state, each: {each.seq: 1}, "at seq 1 is not JSON", id="a-key-that-is-a-number"),
        pytest.param(lambda _state, _each: [{"a": (1,)}], "at seq 1 is not JSON", id="a-tuple-inside"),
        pytest.param(lambda _state, _each: float("nan"), "at seq 1 is not JSON", id="nan"),
    ],
)
def test_an_impure_reducer_is_found_out_with_the_place(apply, words):
    """C2"""
    reducer = own(apply)
    with pytest.raises(InvalidInput, match=words):
        fold(reducer, {"n": 0}, log(*[("sales.closed", {"who": CANARY})] * 3))


def test_an_unchecked_fold_still_refuses_a_state_that_is_not_json():
    """C2"""
    with pytest.raises(InvalidInput, match="is not JSON"):
        fold(own(lambda _state, _each: {1, 2}), {"n": 0}, log(("a.b", {})), checked=False)
    with pytest.raises(InvalidInput, match="the state to start from is not JSON"):
        fold(own(count), {1, 2}, [], checked=False)


@pytest.mark.parametrize("state", [None, [], {}, {"n": 1}, {**DEFAULT.initial, "more": 1}, {1: 2}], ids=str)
def test_the_vaults_reducer_refuses_the_state_of_another(state):
    """C2"""
    with pytest.raises(InvalidInput):
        fold(DEFAULT, state, [])


@pytest.mark.parametrize(
    "name",
    ["", "sales", "sales@", "@1", "sales@1@2", "sa les@1", "sales@1\n", "s" * 65 + "@1", None, 1, "vault@2"],
)
def test_a_reducer_needs_a_name_and_version_of_its_own(name):
    """C1"""
    with pytest.raises(InvalidInput):
        Reducer(name=name, initial={}, apply=count)
    assert Reducer(name="sales.eu_1-a@2026.1", initial={}, apply=count).name == "sales.eu_1-a@2026.1"


def test_a_reducer_begins_with_json():
    """C2"""
    with pytest.raises(InvalidInput, match="initial state"):
        own(count, initial={1: 2})


def test_the_hash_of_a_state_is_that_of_its_canonical_json():
    """C1, C2"""
    assert state_hash({"b": [1, "ä"], "a": None}) == state_hash({"a": None, "b": [1, "ä"]})
    # sha256sum of {"a":null,"b":[1,"ä"]} without a line end
    assert state_hash({"b": [1, "ä"], "a": None}) == HASH_OF_EXAMPLE
    assert state_hash({"a": 1}) != state_hash({"a": 1.0})
    for state in ({1: 2}, {"a": {2: 3}}, [{"a": {None: 1}}], {"a": {1, 2}}, float("inf")):
        with pytest.raises(InvalidInput, match="the state is not JSON"):
            state_hash(state)


HASH_OF_EXAMPLE = "5d4c789751acdad9ba305072d1a6ccdc5864fd7c7a1bcc0f38a794e5a4417e02"

# ------------------------------------------------------------------------------------------------ triggers


@pytest.mark.parametrize(
    ("trigger", "type", "events", "seconds", "reason"),
    [
        pytest.param(Trigger(), "message.user", 1, 0, None, id="nothing-yet"),
        pytest.param(Trigger(), "tool.requested", 49, 299.9, None, id="just-before"),
        pytest.param(Trigger(), "tool.returned", 1, 0, "a tool completed", id="a-tool-returned"),
        pytest.param(Trigger(), "tool.failed", 1, 0, "a tool completed", id="a-tool-failed"),
        pytest.param(Trigger(after_tool=False), "tool.returned", 1, 0, None, id="not-after-tools"),
        pytest.param(Trigger(), "message.user", 50, 0, "50 events since the last checkpoint", id="50-events"),
        pytest.param(Trigger(), "message.user", 1, 300, "300 seconds since the last checkpoint", id="300-s"),
        pytest.param(Trigger(every_events=None), "message.user", 10**6, 0, None, id="never-by-events"),
        pytest.param(Trigger(every_seconds=None), "message.user", 1, 1e9, None, id="never-by-time"),
        pytest.param(
            Trigger(every_events=1), "checkpoint.created", 9, 999, None, id="not-after-a-checkpoint"
        ),
        pytest.param(Trigger(), "tool.returned", 0, 999, None, id="nothing-new"),
        pytest.param(Trigger(), "message.user", 1, float("nan"), None, id="no-time-known"),
    ],
)
def test_a_checkpoint_is_due_after_a_tool_after_so_many_events_or_seconds(
    trigger, type, events, seconds, reason
):
    """C1"""
    assert due(trigger, event_type=type, events_since=events, seconds_since=seconds) == reason


@pytest.mark.parametrize(
    "fields",
    [
        *({"every_events": value} for value in (0, -1, 1_000_001, 50.0, True, "50", float("nan"))),
        *({"every_seconds": value} for value in (0, 0.5, 86_401, True, "300", float("nan"), float("inf"))),
        *({"after_tool": value} for value in (None, 1, "yes")),
    ],
    ids=str,
)
def test_a_trigger_out_of_range_is_refused(fields):
    """C1"""
    with pytest.raises(InvalidInput):
        Trigger(**fields)


@pytest.mark.parametrize(
    "fields", [{"every_events": 1}, {"every_events": 10**6}, {"every_seconds": 86_400}], ids=str
)
def test_a_trigger_at_the_edge_of_its_range_is_taken(fields):
    """C1"""
    (name,) = fields
    assert getattr(Trigger(**fields), name) == fields[name]
