"""Who may do what: a table from role and action to yes or no, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

#: What each role may do with the sessions of its own subject. Whatever is not listed is denied.
OWN_SESSIONS: Final[dict[str, frozenset[str]]] = {
    "agent": frozenset({"create", "read", "append", "end"}),
    "owner": frozenset({"create", "read", "append", "end"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Allowed or not, and why; the reason names roles and actions, never people."""

    allowed: bool
    reason: str


@lru_cache(maxsize=1024)
def decide(roles: frozenset[str], action: str) -> Decision:
    """Whether any of the roles allows an action on one's own sessions."""
    for role in sorted(roles):
        if action in OWN_SESSIONS.get(role, frozenset()):
            return Decision(allowed=True, reason=f"the role {role} may {action} its own sessions")
    return Decision(allowed=False, reason=f"no role of this principal may {action} a session")
