"""Entries of a conversation expire before it does, where a policy says so; what is left goes on."""

import asyncio
import json

import pytest

from vault import Vault
from vault.adapters.claude_agent import VaultSessionStore
from vault.errors import NotFound

PROJECT, ID = "-home-alice-shop", "5f0c7c1e-0a51-4a38-9a0e-2b64d2a0c001"
MAIN = {"project_key": PROJECT, "session_id": ID}
AGENT = {**MAIN, "subpath": "subagents/agent-a1"}
DAY_US = 24 * 3_600_000_000
OTHERS = ["memory", "summary", "artifact", "embedding", "cache"]
POLICY = f"""
version = 1
name = "transcripts"

[[retention]]
id = "sessions"
match = {{ kind = ["session"], labels = {{}} }}
anchor = "created"
expire_after = "1y"

[[retention]]
id = "the-rest"
match = {{ kind = {json.dumps(OTHERS)}, labels = {{}} }}
anchor = "created"
expire_after = "1y"

[[retention]]
id = "entries"
match = {{ kind = ["event"], types = ["claude.*"] }}
anchor = "created"
expire_after = "30d"
on_expire = "redact:L0"
"""


class Clock:
    """Moves by hand."""

    def __init__(self):
        self.now = 1_800_000_000_000_000

    def now_us(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def vault(place, clock, principal):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        opened.access(principal("alice")).sessions.create()  # makes the tenant known
        policies = opened.access(principal("dpo", "privacy_officer")).policies
        policies.activate(POLICY)
        clock.now += 25 * 3_600_000_000
        opened.sweep()
        assert policies.active().name == "transcripts"
        yield opened


@pytest.fixture
def later(vault, clock):
    """Lets days pass, with a sweep each."""

    def pass_by(days):
        for _ in range(days):
            clock.now += DAY_US
            vault.sweep()

    return pass_by


def entry(number, text="said"):
    message = {"role": "user", "content": f"{text} {number}"}
    return {"type": "user", "uuid": f"{text} {number}", "message": message, "gitBranch": f"{text} {number}"}


def run(call):
    return asyncio.run(call)


def test_what_expired_is_not_loaded_listed_or_brought_back(alice, later):
    """D1, D6, A3: nor is it in what was derived for the lists."""
    store = VaultSessionStore(alice)
    old, new = [entry(n, "CANARY-old") for n in range(70)], [entry(n, "new") for n in range(70)]
    run(store.append(MAIN, old))
    run(store.append(AGENT, old[:2]))
    [summary] = run(store.list_session_summaries(PROJECT))
    assert summary["data"]["first_prompt"] == "CANARY-old 0"
    later(20)
    run(store.append(MAIN, new))
    run(store.append(AGENT, new[:2]))
    later(12)
    assert run(store.load(MAIN)) == new
    assert run(store.load(AGENT)) == new[:2]
    [summary] = run(store.list_session_summaries(PROJECT))
    assert "CANARY" not in str(summary)
    assert len(run(store.list_sessions(PROJECT))) == 1
    assert summary["data"]["git_branch"] == "new 69"
    # Somebody delivers all of it once more.
    run(store.append(MAIN, [*old, *new, entry(70, "new")]))
    assert run(store.load(MAIN)) == [*new, entry(70, "new")]
    events = [
        event for one in alice.sessions.find().items for event in alice.sessions.resume(one.id).events()
    ]
    assert "CANARY" not in str([event.payload for event in events])


def test_a_conversation_of_which_nothing_is_left_is_not_resumed(alice, later):
    """D1, A3."""
    store = VaultSessionStore(alice)
    run(store.append(MAIN, [entry(0)]))
    later(32)
    with pytest.raises(NotFound):
        run(store.load(MAIN))
    assert run(store.list_sessions(PROJECT)) == run(store.list_session_summaries(PROJECT)) == []
