"""What an event says is found in the usual shapes of messages, calls and results."""

import json
from datetime import UTC, datetime

import pytest

from vault.cli.readable import event_document, reading
from vault.clock import to_us
from vault.model import Event

EVENT = Event(**dict.fromkeys(Event._fields))._replace(
    id="evt_0195a000-0000-7000-8000-000000000001",
    session_id="ses_0195a000-0000-7000-8000-000000000000",
    seq=1,
    type="message.user",
    recorded_us=to_us(datetime(2025, 3, 1, 12, tzinfo=UTC)),
    level="L3",
    payload_ref="blob://sha256/" + "0" * 64,
    size=100,
    streamed=False,
)
CHAT_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": "TK-7"}'}}
    ],
}
CLAUDE_CALL = {
    "type": "assistant",
    "message": {
        "content": [
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "name": "Read", "input": {"n": 1}},
        ]
    },
}
CLAUDE_RESULT = {
    "type": "user",
    "message": {"content": [{"type": "tool_result", "content": [{"type": "text", "text": "line 1"}]}]},
}
DEEP = json.loads('{"a":' * 150 + "1" + "}" * 150)


@pytest.mark.parametrize(
    ("kind", "tool", "payload", "text"),
    [
        pytest.param("message.user", None, "Hello", "Hello", id="string"),
        pytest.param("message.user", None, {"content": "Hello"}, "Hello", id="content"),
        pytest.param("message.user", None, {"text": "Hello"}, "Hello", id="text"),
        pytest.param("message.user", None, {"content": [{"type": "text", "text": "Hi"}]}, "Hi", id="parts"),
        pytest.param(
            "message.user",
            None,
            {"content": [{"type": "image", "source": {}}, {"type": "text", "text": "this"}]},
            "[image]\nthis",
            id="picture",
        ),
        pytest.param("tool.requested", "get_order", CHAT_CALL, 'get_order(id="TK-7")', id="chat-call"),
        pytest.param("tool.requested", "Read", CLAUDE_CALL, "Read(n=1)", id="claude-call"),
        pytest.param(
            "tool.requested", "sql", {"query": "x", "n": [1]}, 'sql(query="x", n=[1])', id="own-call"
        ),
        pytest.param("tool.requested", "sh", "ls -l", 'sh("ls -l")', id="text-argument"),
        pytest.param("tool.requested", None, None, "a tool()", id="call-without-anything"),
        pytest.param(
            "tool.requested", "get", {"tool_call": 1}, "get: call 2 of the request above", id="second-call"
        ),
        pytest.param("tool.returned", "Read", CLAUDE_RESULT, "Read → line 1", id="claude-result"),
        pytest.param("tool.returned", "sql", {"rows": 3}, 'sql → {"rows":3}', id="own-result"),
        pytest.param("tool.failed", "sql", {"error": "no table"}, "sql → no table", id="failure"),
        pytest.param("custom.event", None, {"a": [1, None]}, '{"a":[1,null]}', id="anything"),
        pytest.param("custom.event", None, None, "no payload", id="nothing"),
        pytest.param("custom.event", None, {"content": {}}, '{"content":{}}', id="empty-content"),
        pytest.param("custom.event", None, {"content": [1, 2]}, '{"content":[1,2]}', id="strange-content"),
    ],
)
def test_an_event_reads_as_what_it_says(kind: str, tool: str | None, payload: object, text: str):
    assert reading(EVENT._replace(type=kind, tool=tool, payload=payload)) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        pytest.param(b"plain text", "plain text", id="text"),
        pytest.param(b'{"content": "Hello"}', "Hello", id="json"),
        pytest.param(b'{"content": "Hel', '{"content": "Hel', id="broken-json"),
        pytest.param(b"\x00\x01" * 1000, "2.0 KiB of raw bytes", id="binary"),
        pytest.param("café".encode(), "café", id="utf-8"),
        pytest.param(b"caf\xe9", "caf\\xe9", id="latin-1"),
        pytest.param(b"\x1b[31mred", "\\x1b[31mred", id="coloured"),
        pytest.param(b"", "", id="empty"),
    ],
)
def test_raw_payloads_read_as_text_when_they_are_text(raw: bytes, text: str):
    assert reading(EVENT._replace(raw=raw)) == text


def test_a_payload_that_is_only_streamed_is_named_by_its_size():
    assert reading(EVENT._replace(size=3 * 2**20, streamed=True)) == "a raw payload, 3.0 MiB sealed"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param("x" * 10**6, id="long-string"),
        pytest.param({"content": "y" * 10**6}, id="long-message"),
        pytest.param({"values": list(range(10**5))}, id="long-list"),
        pytest.param({str(number): number for number in range(10**4)}, id="many-keys"),
        pytest.param({"content": [{"text": "z"}] * 10**4}, id="many-parts"),
        pytest.param(DEEP, id="deep"),
    ],
)
def test_a_large_payload_reads_shortly(payload: object):
    assert 0 < len(reading(EVENT._replace(payload=payload))) < 2_100
    assert 0 < len(reading(EVENT._replace(type="tool.requested", payload=payload))) < 2_100


def test_a_document_says_everything_that_is_known_of_an_event():
    event = EVENT._replace(
        run="run_x",
        tool="sql",
        usage={"tokens": 3},
        payload={"a": 1},
        occurred_us=EVENT.recorded_us,
        resource="crm/customer/42",
        valid_for_us=300_000_000,
    )
    found = event_document(event)
    assert found["recorded_at"] == found["occurred_at"] == "2025-03-01T12:00:00.000000Z"
    assert found["observed_at"] is None
    names = ("run", "tool", "usage", "payload", "resource", "valid_for_us")
    assert {name: found[name] for name in names} == {
        "resource": "crm/customer/42",
        "valid_for_us": 300_000_000,
        "run": "run_x",
        "tool": "sql",
        "usage": {"tokens": 3},
        "payload": {"a": 1},
    }
    assert event_document(EVENT._replace(raw=b"text"))["raw"] == "text"
    assert event_document(EVENT._replace(raw=b"\xff"))["raw_base64"] == "/w=="
