"""Session vault: the encrypted, append-only log of what AI agents did, with provable erasure.

with Vault.open("demo.vault") as vault:
    agent = vault.access(Principal(tenant="acme", subject="alice"))
    session = agent.sessions.create(title="August sales")
    session.append("message.user", {"content": "Why did sales drop?"})
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vault import errors
from vault.model import (
    Event,
    NewEvent,
    Page,
    Principal,
    SessionSummary,
    new_event_id,
    new_run_id,
)

if TYPE_CHECKING:
    from vault.policy.freshness import Thresholds
    from vault.policy.recovery import Reducer, Trigger
    from vault.sessions.effect import Resolution
    from vault.sessions.run import Run
    from vault.sessions.session import Session
    from vault.sessions.wake import Woken
    from vault.wiring import Vault

__version__ = "0.1.0"

__all__ = [
    "Event",
    "NewEvent",
    "Page",
    "Principal",
    "Reducer",
    "Resolution",
    "Run",
    "Session",
    "SessionSummary",
    "Thresholds",
    "Trigger",
    "Vault",
    "Woken",
    "errors",
    "new_event_id",
    "new_run_id",
]

#: Loaded when first asked for: they bring the cryptography and the database with them.
_LAZY = {
    "Vault": "vault.wiring",
    "Session": "vault.sessions.session",
    "Run": "vault.sessions.run",
    "Woken": "vault.sessions.wake",
    "Resolution": "vault.sessions.effect",
    "Reducer": "vault.policy.recovery",
    "Trigger": "vault.policy.recovery",
    "Thresholds": "vault.policy.freshness",
}


def __getattr__(name: str) -> Any:
    """The heavy classes, on first use (PEP 562)."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'vault' has no attribute {name!r}")
