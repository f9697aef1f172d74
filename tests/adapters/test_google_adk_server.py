"""ADK's own server over the vault, as `adk web` starts it, with the page's `services.py`."""

import re
from pathlib import Path

from vault import Vault

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "howto" / "use-with-google-adk.md").read_text(encoding="utf-8")

AGENT = """
from google.adk.agents import LlmAgent
from tests.adapters.google_adk_case import Scripted, file

async def keep(tool_context) -> str:
    await tool_context.save_artifact("note.csv", file("kept"))
    tool_context.state["user:notes"] = 1
    return "kept"

root_agent = LlmAgent(name="notes", model=Scripted.of(("keep", {}), "Noted."), tools=[keep])
"""

#: In a process of its own: the server loads modules from the agents' directory, and keeps them.
CLIENT = """
import sys
from google.adk.cli.fast_api import get_fast_api_app
from starlette.testclient import TestClient

agents, uri = sys.argv[1:]
services = {f"{kind}_service_uri": uri for kind in ("session", "artifact", "memory")}
with TestClient(get_fast_api_app(agents_dir=agents, web=False, **services)) as client:
    at = "/apps/notes/users/me/sessions/s1"
    assert client.post(at, json={"first": 1}).status_code == 200
    assert client.post(at, json={}).status_code == 409
    message = {"role": "user", "parts": [{"text": "keep a note"}]}
    asked = {"appName": "notes", "userId": "me", "sessionId": "s1", "newMessage": message}
    events = client.post("/run", json=asked).json()
    assert events[-1]["content"]["parts"][0]["text"] == "Noted.", events
    assert client.get(at).json()["state"] == {"first": 1, "user:notes": 1}
    assert client.get(f"{at}/artifacts").json() == ["note.csv"]
    assert [one["id"] for one in client.get("/apps/notes/users/me/sessions").json()] == ["s1"]
    assert client.delete(at).status_code == 200
    assert client.get(at).status_code == 404
    assert client.get(f"{at}/artifacts").json() == []
print("all of it")
"""


def test_adks_server_keeps_everything_in_the_vault(tmp_path, place, python):
    """A7, D4."""
    Vault.create(place).close()
    agents = tmp_path / "agents"
    (agents / "notes").mkdir(parents=True)
    (agents / "notes" / "__init__.py").write_text("from . import agent\n")
    (agents / "notes" / "agent.py").write_text(AGENT)
    (shown,) = re.findall(r"^```python title=\"services.py\"\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (agents / "services.py").write_text(shown)
    told, errors = python(CLIENT, agents, f"vault://{place}").communicate(timeout=120)
    assert told == "all of it\n", errors
