"""What the Claude Code program says to the SDK in a conversation: no program, no model, no network."""

import json
import math
import uuid
from pathlib import Path

import anyio
from claude_agent_sdk import Transport, project_key_for_directory

PROTOCOL = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "program", "version": "1"},
}


class Program(Transport):
    """Answers each prompt after it has called some tools of the SDK's process, and mirrors what it writes."""

    def __init__(self, options, calls=(), results=()):
        """``calls``: server, tool, arguments; ``results``: a name and a text that it leaves in a file."""
        self._id = options.session_id or options.resume
        place = Path(options.env["CLAUDE_CONFIG_DIR"], "projects", project_key_for_directory(options.cwd))
        self.transcript = place / f"{self._id}.jsonl"
        self._calls, self._results, self.answers = calls, results, []
        self._written, self._inbox = anyio.create_memory_object_stream(math.inf)

    async def connect(self):
        pass

    def is_ready(self):
        return True

    async def write(self, data):
        self._written.send_nowait(json.loads(data))

    async def end_input(self):
        self._written.close()

    async def close(self):
        self._written.close()
        self._inbox.close()

    async def read_messages(self):
        hooks = {}
        async for said in self._inbox:
            if said["type"] == "control_request":
                hooks = said["request"].get("hooks") or hooks
                yield {
                    "type": "control_response",
                    "response": {"subtype": "success", "request_id": said["request_id"], "response": {}},
                }
            elif said["type"] == "user":
                async for message in self._turn(said["message"]["content"], hooks):
                    yield message

    async def _turn(self, prompt, hooks):
        yield self._mirrored("user", prompt)
        for server, name, arguments in self._calls:
            for method, given in (
                ("initialize", PROTOCOL),
                ("tools/call", {"name": name, "arguments": arguments}),
            ):
                message = {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": given}
                yield asked("mcp_message", server_name=server, message=message)
                self.answers.append(await self._inbox.receive())
        yield self._mirrored("assistant", "done", "subagents/agent-1")
        yield self._mirrored("assistant", "done")
        for name, text in self._results:
            file = self.transcript.with_suffix("") / "tool-results" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for hook in hooks.get("Stop", []):
            said = {
                "hook_event_name": "Stop",
                "session_id": self._id,
                "transcript_path": str(self.transcript),
            }
            yield asked("hook_callback", callback_id=hook["hookCallbackIds"][0], input=said)
            self.answers.append(await self._inbox.receive())
        yield {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "duration_ms": 1,
            "duration_api_ms": 1,
            "num_turns": 1,
            "session_id": self._id,
            "result": "done",
        }

    def _mirrored(self, kind, text, subpath=None):
        entry = {
            "type": kind,
            "uuid": str(uuid.uuid4()),
            "sessionId": self._id,
            "timestamp": "2026-11-30T12:00:00.000Z",
            "message": {"role": kind, "content": text},
        }
        path = self.transcript if subpath is None else self.transcript.with_suffix("") / f"{subpath}.jsonl"
        return {"type": "transcript_mirror", "filePath": str(path), "entries": [entry]}


def asked(subtype, **request):
    return {
        "type": "control_request",
        "request_id": str(uuid.uuid4()),
        "request": {"subtype": subtype, **request},
    }
