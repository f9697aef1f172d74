"""Runs in OpenAI chat format: each line a session, each call an event, the messages as they were."""

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vault import Principal, Vault, errors
from vault.adapters import openai_chat


@pytest.fixture(scope="module")
def access(tmp_path_factory):
    with Vault.create(tmp_path_factory.mktemp("openai") / "vault") as vault:
        alice = vault.access(Principal(tenant="acme", subject="alice"))
        alice.sessions.create()  # a tenant begins with its first session
        yield alice


def imported(access, *runs, **options):
    data = b"\n".join(run if isinstance(run, bytes) else json.dumps(run).encode() for run in runs)
    report = openai_chat.import_runs(io.BytesIO(data), access, **options)
    return [access.sessions.resume(session_id) for session_id in report.sessions], report


def call(identifier: str, name: str) -> dict:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": "{}"}}


TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Where is\nmy order?"},
    {"role": "assistant", "content": "One moment.", "tool_calls": [call("c1", "find_order")]},
    {"role": "tool", "tool_call_id": "c1", "name": "find_order", "content": "{}"},
    {"role": "assistant", "content": None, "tool_calls": [call("c2", "track"), call("c3", "weather")]},
    {"role": "tool", "tool_call_id": "c3", "content": "rain"},
    {"role": "tool", "tool_call_id": "c2", "content": "on its way"},
    {"role": "assistant", "content": "It is on its way."},
]
RUN = {"task_id": 7, "trial": 0, "messages": TALK}


def test_every_message_and_every_call_is_an_event_of_its_kind(access):
    """L5, L8"""
    (session,), report = imported(access, RUN)
    events = list(session.events())
    assert [(event.type, event.tool) for event in events] == [
        ("message.system", None),
        ("message.user", None),
        ("tool.requested", "find_order"),
        ("tool.returned", "find_order"),
        ("tool.requested", "track"),
        ("tool.requested", "weather"),
        ("tool.returned", "weather"),
        ("tool.returned", "track"),
        ("message.assistant", None),
    ]
    causes = [event.caused_by for event in events]
    assert causes == [None, None, None, events[2].id, None, events[4].id, events[5].id, events[4].id, None]
    assert [events[4].payload, events[5].payload] == [TALK[4], {"tool_call": 1}]
    assert (report.events, report.lines, report.problems_total) == (9, 1, 0)


def test_the_messages_come_back_as_they_were(access):
    (session,), _ = imported(access, RUN)
    assert openai_chat.export_messages(session) == TALK
    session.append("message.user", {"role": "user", "content": "Thanks"})
    session.append("run.stopped", {"role": "nobody"})
    assert openai_chat.export_messages(session) == [*TALK, {"role": "user", "content": "Thanks"}]


def test_a_session_is_found_by_its_task_and_trial_and_recognised_by_its_title(access):
    """S2"""
    (session,), _ = imported(access, {**RUN, "task_id": "refund-æ"})
    assert [item.id for item in access.sessions.find(labels={"task": "refund-æ", "trial": "0"}).items] == [
        session.id
    ]
    assert session.info().title == "Where is my order?"


def test_what_else_a_run_says_is_kept(access):
    (session,), _ = imported(access, {**RUN, "reward": 1.0, "info": {"x": [1]}})
    (about,) = session.events(types=["import.run"])
    assert about.payload == {"reward": 1.0, "info": {"x": [1]}}
    assert openai_chat.export_messages(session) == TALK


def test_an_id_used_again_means_the_latest_call(access):
    messages = [
        {"role": "assistant", "tool_calls": [call("c1", "first")]},
        {"role": "assistant", "tool_calls": [call("c1", "second")]},
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
    ]
    (session,), _ = imported(access, {"messages": messages})
    _, second, returned = session.events()
    assert (returned.caused_by, returned.tool) == (second.id, "second")


ODD = {
    "no messages": [],
    "older function call": [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    ],
    "content in parts": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url"}]}
    ],
    "unknown role": [{"role": "narrator", "content": "meanwhile"}],
    "calls of another shape": [{"role": "assistant", "tool_calls": [5, {"id": 6}, {"function": "f"}]}],
    "no calls after all": [{"role": "assistant", "content": "x", "tool_calls": []}],
    "calls are null": [{"role": "assistant", "content": "x", "tool_calls": None}],
    "answer to nothing": [{"role": "tool", "tool_call_id": ["x"], "content": "x"}],
    "names the vault does not take": [
        {"role": "assistant", "tool_calls": [call("c", "n" * 300)]},
        {"role": "tool", "name": "", "tool_call_id": "c", "content": "x"},
    ],
    "a user who calls tools": [{"role": "user", "tool_calls": [call("c", "f")]}],
    "many messages": [{"role": "user", "content": str(number)} for number in range(450)],
}


@pytest.mark.parametrize("messages", ODD.values(), ids=ODD)
def test_messages_of_any_shape_come_back(access, messages):
    (session,), report = imported(access, {"messages": messages})
    assert openai_chat.export_messages(session) == messages
    assert report.problems_total == 0


DAMAGED = {
    "not JSON": b'{"messages":[',
    "not an object": b"[]",
    "no messages": b'{"task_id":1}',
    "messages are a text": b'{"messages":"secret"}',
    "a message without a role": b'{"messages":[{"content":"secret"}]}',
    "a message that is a text": b'{"messages":["secret"]}',
    "a lone surrogate": b'{"messages":[{"role":"user","content":"\\ud800"}]}',
    "a huge integer": b'{"messages":[{"role":"user","content":99999999999999999999}]}',
    "a task that is a list": b'{"task_id":["secret"],"messages":[]}',
    "a task that is too long": b'{"task_id":"' + b"s" * 300 + b'","messages":[]}',
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_named_and_costs_no_other(access, line):
    """L12"""
    sessions, report = imported(access, RUN, line, b"", RUN)
    assert [openai_chat.export_messages(session) for session in sessions] == [TALK, TALK]
    assert [problem.line for problem in report.problems] == [2]
    assert "secret" not in report.problems[0].reason


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_a_strict_import_of_a_damaged_file_leaves_nothing(access, line):
    """L12"""
    before = access.sessions.find(limit=1).items
    with pytest.raises(errors.InvalidInput, match=r"nothing was imported: 1 .* line 2"):
        imported(access, RUN, line, strict=True)
    assert access.sessions.find(limit=1).items == before


def test_a_strict_import_of_a_whole_file_takes_all_of_it(access):
    sessions, report = imported(access, RUN, RUN, strict=True)
    assert [openai_chat.export_messages(session) for session in sessions] == [TALK, TALK]
    assert report.problems_total == 0


@pytest.mark.parametrize("data", [b"", b"\n", b"hello"])
def test_a_file_of_another_kind_is_refused_in_words(access, data):
    with pytest.raises(errors.InvalidInput, match="no line of it is a run"):
        imported(access, data)


def test_progress_is_told_after_every_run(access):
    told = []
    _, report = imported(access, RUN, RUN, progress=lambda lines, done: told.append((lines, done)))
    assert [lines for lines, _ in told] == [1, 2]
    assert told[-1][1] == report.bytes


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
calls = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from("abc"), "function": st.fixed_dictionaries({"name": text})}),
    max_size=3,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "else"])},
    optional={
        "content": st.none() | text | st.lists(text, max_size=2),
        "tool_calls": calls,
        "tool_call_id": st.sampled_from("abc"),
    },
)


@settings(max_examples=60)
@given(talk=st.lists(messages, max_size=8))
def test_any_talk_comes_back(access, talk):
    (session,), _ = imported(access, {"messages": talk})
    assert openai_chat.export_messages(session) == talk
