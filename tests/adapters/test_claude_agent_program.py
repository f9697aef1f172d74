"""The Claude Code program itself over the store, with a model of a few lines that this process serves."""

import asyncio
import json
import os
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import claude_agent_sdk
import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    create_sdk_mcp_server,
    project_key_for_directory,
    query,
    tool,
)

from vault.adapters.claude_agent import VaultSessionStore
from vault.errors import Erased

PROGRAM = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
REMEMBER = ("tool_use", "mcp__memory__remember", {"fact": "CANARY likes tea"})
COUNT = ("tool_use", "Bash", {"command": "seq 1 60000"})

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM.is_file(), reason="this installation brings no program"),
]


class Model(ThreadingHTTPServer):
    """Says what it is told to say, then ``done``; keeps what it was asked."""

    def __init__(self):
        self.asked, self.to_say = [], []
        super().__init__(("127.0.0.1", 0), Answer)


class Answer(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_error(404)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        if not self.path.startswith("/v1/messages?") and self.path != "/v1/messages":
            self.send_error(404)
            return
        self.server.asked.append(json.dumps(request))
        say = self.server.to_say.pop(0) if self.server.to_say and request.get("tools") else ("text", "done")
        body = b"".join(b"event: %s\ndata: %s\n\n" % one for one in events(say))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def events(say):
    kind, what, *arguments = say
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": what}
    if kind == "tool_use":
        block = {"type": kind, "id": f"toolu_{os.urandom(6).hex()}", "name": what, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(*arguments)}
    stop = "tool_use" if kind == "tool_use" else "end_turn"
    for name, data in [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": stop}, "usage": usage}),
        ("message_stop", {}),
    ]:
        yield name.encode(), json.dumps({"type": name, **data}).encode()


@pytest.fixture
def model():
    with Model() as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served
        served.shutdown()
        thread.join()


@pytest.fixture
def options(alice, model, tmp_path, monkeypatch):
    """A machine with nothing on it, and an agent that can remember and run commands."""
    for name in [name for name in os.environ if name.startswith(("CLAUDE", "ANTHROPIC"))]:
        monkeypatch.delenv(name)
    for name in ("home", "work", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    @tool("remember", "Keeps a fact.", {"fact": str})
    async def remember(arguments):
        await asyncio.to_thread(alice.memories.put, ("facts",), "one", arguments["fact"])
        return {"content": [{"type": "text", "text": "kept"}]}

    env = {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_port}",
        "ANTHROPIC_API_KEY": "a key for nothing",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return lambda **more: ClaudeAgentOptions(
        cwd=tmp_path / "work",
        env=env,
        mcp_servers={"memory": create_sdk_mcp_server("memory", tools=[remember])},
        allowed_tools=["mcp__memory__remember", "Bash"],
        setting_sources=[],
        **more,
    )


async def said(prompt, options):
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, ResultMessage):
            assert not message.is_error
            found = message.session_id
    return found


async def talk(store, prompt, options):
    async with store.conversation(options) as ready:
        return await said(prompt, ready)


def test_a_conversation_is_held_resumed_and_erased_with_nothing_left_behind(
    alice, vault, principal, model, options, tmp_path
):
    """A3, S1, D4, O1, K1."""
    store, bob = VaultSessionStore(alice), VaultSessionStore(vault.access(principal("bob")))

    async def held():
        model.to_say[:] = [REMEMBER, COUNT]
        session_id = await talk(store, "CANARY-question", options())
        kept = len(alice.artifacts.list())
        model.asked.clear()
        model.to_say[:] = [REMEMBER, COUNT]
        again = await talk(store, "and now", options(resume=session_id))
        assert again == session_id
        assert any("CANARY-question" in one for one in model.asked)
        assert (kept, len(alice.artifacts.list())) == (1, 2)
        [memory] = alice.memories.search(text="canary")
        assert [source.id for source in memory.sources] == [alice.sessions.find().items[0].id]
        model.asked.clear()
        with pytest.raises(RuntimeError, match="no such conversation"):
            await said("whose?", options(resume=session_id, session_store=bob))
        project = project_key_for_directory(tmp_path / "work")
        await store.delete({"project_key": project, "session_id": session_id})
        with pytest.raises(Erased):
            await talk(store, "go on", options(resume=session_id))
        assert model.asked == []

    asyncio.run(asyncio.wait_for(held(), 120))
    assert alice.memories.search(text="canary") == []
    assert alice.artifacts.list() == []
    vault.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if b"CANARY" in path.read_bytes()] == []
    assert list((tmp_path / "temporary").iterdir()) == []
