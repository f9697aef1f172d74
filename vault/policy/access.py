"""Who may do what: a table from role, relation and action to a view level, each answer with its reason.

Pure: the roles of a principal, what it is to a session, and what was shared with it, to yes or no. Whatever
is not listed is denied, and a denial looks like absence to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from vault.model import LEVELS

Relation = Literal["owner", "grantee", "tenant", "stranger"]

ROLES: Final = ("agent", "owner", "support", "auditor", "privacy_officer", "administrator")
#: What a principal is to a session: its owner; somebody it was shared with; somebody else of the same tenant;
#: or of another tenant, which is nobody.
RELATIONS: Final[tuple[Relation, ...]] = ("owner", "grantee", "tenant", "stranger")

#: With sessions. ``follow``, ``replay``, ``context`` and the like are ways of reading.
SESSION_ACTIONS: Final = (
    "create",
    "read",
    "append",
    "end",
    "fork",
    "label",
    "share",
    "list",
    "erase",
    "export",
)
#: With the tenant as a whole.
TENANT_ACTIONS: Final = (
    "audit",
    "request_break_glass",
    "approve_break_glass",
    "reveal",
    "directory",
    "manage",
    "retain",  # policies, and what is due by them
    "hold",
)
ACTIONS: Final = (*SESSION_ACTIONS, *TENANT_ACTIONS)

_FULL = "L3"
_OWN: Final = dict.fromkeys(("create", "read", "append", "end", "fork", "label", "list", "erase"), _FULL)
_SHARED: Final = dict.fromkeys(("read", "append", "fork", "list"), _FULL)

#: (role, relation) → action → the highest level of the view that comes with it.
TABLE: Final[dict[tuple[str, Relation], dict[str, str]]] = {
    ("agent", "owner"): _OWN,
    ("owner", "owner"): {**_OWN, "share": _FULL, "export": _FULL},
    # What was shared says how much: the level here is a ceiling.
    ("agent", "grantee"): _SHARED,
    ("owner", "grantee"): _SHARED,
    ("support", "tenant"): {"read": "L1", "list": "L1", "request_break_glass": "L1"},
    ("auditor", "tenant"): {"read": "L0", "list": "L0", "audit": "L0"},
    ("privacy_officer", "tenant"): {
        "read": "L2",
        "list": "L2",
        "audit": "L0",
        "request_break_glass": "L2",
        "approve_break_glass": "L0",
        "reveal": "L2",
        "directory": "L0",
        "erase": "L0",
        "retain": "L0",
        "hold": "L0",
        "export": _FULL,  # for the person, who gets all of it
    },
    ("administrator", "tenant"): {"manage": "L0", "directory": "L0"},
}
#: What a share can allow beside reading.
SHARED_ACTIONS: Final = ("append", "fork")
#: What it allows only at the highest level: a fork goes on from all that its original holds.
FULL_ACTIONS: Final = ("fork",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a grant of the owner allows somebody with one session."""

    level: str
    may: frozenset[str]
    until_us: int | None

    def holds(self, now_us: int) -> bool:
        """Whether its time is not over."""
        return self.until_us is None or now_us < self.until_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Allowed or not, up to which view, and why; the reason names roles and actions, never people."""

    allowed: bool
    reason: str
    level: str = "L0"


def decide(roles: frozenset[str], action: str, relation: Relation = "owner") -> Decision:
    """Whether any of the roles allows an action, with the highest view that one of them allows."""
    return _decide(roles, action, relation)


@lru_cache(maxsize=4096)
def _decide(roles: frozenset[str], action: str, relation: Relation) -> Decision:
    best: tuple[str, str] | None = None
    for role in sorted(roles):
        level = TABLE.get((role, relation), {}).get(action)
        if level is not None and (best is None or level > best[1]):
            best = (role, level)
    if best is None:
        return Decision(allowed=False, reason=f"no role of this principal may {action} {_WHAT[relation]}")
    reason = f"the role {best[0]} may {action} {_WHAT[relation]}"
    return Decision(allowed=True, reason=reason, level=best[1])


def decide_shared(roles: frozenset[str], action: str, share: Share | None, now_us: int) -> Decision:
    """Whether an action is allowed with a session that was shared: what both the role and the share allow."""
    if share is None or not share.holds(now_us):
        return Decision(allowed=False, reason=f"nothing that holds now was shared to {action}")
    by_role = decide(roles, action, "grantee")
    if not by_role.allowed or (action in SHARED_ACTIONS and action not in share.may):
        return Decision(allowed=False, reason=f"what was shared does not allow to {action}")
    level = min(share.level, by_role.level)
    if action in FULL_ACTIONS and level != _FULL:
        return Decision(allowed=False, reason=f"only what was shared at {_FULL} allows to {action}")
    return Decision(allowed=True, reason=f"it was shared at {level}, to {action}", level=level)


def is_level(level: str) -> bool:
    """Whether this is the name of a view level."""
    return level in LEVELS


_WHAT: Final[dict[Relation, str]] = {
    "owner": "its own sessions",
    "grantee": "what was shared with it",
    "tenant": "within its tenant",
    "stranger": "in another tenant",
}
