"""The format of a file is found by looking at its first lines."""

import io
import json
from pathlib import Path

import pytest

from vault.cli.recognise import recognise
from vault.errors import InvalidInput

SAMPLE = Path(__file__).parents[2] / "vault" / "_sample" / "support-conversation.jsonl"
HEADER = b'{"format":"session-vault-jsonl","version":1,"session":{}}\n'
EVENT = b'{"seq":1,"id":"evt_0195a000-0000-7000-8000-000000000001","type":"message.user","payload":1}\n'
CLAUDE = b'{"parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":"Hi"}}\n'
SUMMARY = b'{"type":"summary","summary":"Talk","leafUuid":"x"}\n'
SNAPSHOT = b'{"type":"file-history-snapshot","messageId":"m","snapshot":{}}\n'
CHAT = b'{"task_id":1,"trial":0,"messages":[{"role":"user","content":"Hi"}]}\n'
LONG = b"x" * 2**20


@pytest.mark.parametrize(
    ("content", "name"),
    [
        pytest.param(HEADER + EVENT, "jsonl", id="header"),
        pytest.param(EVENT, "jsonl", id="event"),
        pytest.param(b"damaged\n" + EVENT, "jsonl", id="damaged-header"),
        pytest.param(CLAUDE, "claude-code", id="transcript"),
        pytest.param(SUMMARY + CLAUDE, "claude-code", id="summary-first"),
        pytest.param(SNAPSHOT, "claude-code", id="snapshot-first"),
        pytest.param(b"\n42\n" + CLAUDE, "claude-code", id="damaged-lines-first"),
        pytest.param(CHAT, "openai-chat", id="chat"),
        pytest.param(SAMPLE.read_bytes(), "openai-chat", id="sample"),
        pytest.param(CHAT.replace(b'"Hi"', b'"' + LONG + b'"'), "openai-chat", id="long-chat"),
        pytest.param(CLAUDE.replace(b'"Hi"', b'"' + LONG + b'"'), "claude-code", id="long-transcript"),
        pytest.param(EVENT.replace(b":1}", b':"' + LONG + b'"}'), "jsonl", id="long-event"),
        pytest.param(CLAUDE.rstrip(), "claude-code", id="no-line-end"),
    ],
)
def test_a_format_is_recognised_and_the_source_left_where_it_was(content: bytes, name: str):
    source = io.BytesIO(b"before" + content)
    source.seek(6)
    assert recognise(source) == name
    assert source.tell() == 6


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"some text\n" * 100, id="text"),
        pytest.param(b'{"a": 1}\n', id="other-json"),
        pytest.param(b'[{"messages": []}]\n', id="a-list"),
        pytest.param(b"\x00\xff" * 1000, id="binary"),
        pytest.param(LONG * 3, id="one-long-line"),
        pytest.param(b"x\n" * 60 + CLAUDE, id="too-late"),
        pytest.param(json.dumps({"type": 3, "messages": "x"}).encode(), id="wrong-kinds"),
    ],
)
def test_what_is_of_no_known_format_is_refused(content: bytes):
    with pytest.raises(InvalidInput, match="--format"):
        recognise(io.BytesIO(content))


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize(("content", "name"), [(HEADER, "jsonl"), (CHAT, "openai-chat")])
def test_of_a_pipe_nothing_is_taken_by_looking(content: bytes, name: str):
    pipe = io.BufferedReader(Pipe(content))
    assert recognise(pipe) == name
    assert pipe.read() == content
