"""One step of ``demo``: three events as four readers see them, and a look for what nobody but one may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vault.cli.printable import json_line, one_line, plural
from vault.cli.readable import event_document, reading
from vault.model import LEVELS, Principal

if TYPE_CHECKING:
    from vault.model import Event
    from vault.wiring import Vault

CLAIM: Final = "Let four others read a session, at levels L0 to L3: names, e-mail and card at L3 only."

_NAME, _MAIL, _CARD = "Ottoline Quarrenby", "ottoline.quarrenby@example.org", "4111 1111 1111 1111"
#: What must not be seen below L3, in small letters and without spaces.
CANARIES: Final = ("ottoline", "quarrenby", "@example.org", "4111111111111111", "cus_quarrenby_5527")
#: Who reads at which level: a person and a role; at L3 an agent with whom the owner shared it.
_READERS: Final = {
    "L0": ("Ann", "auditor"),
    "L1": ("Sam", "support"),
    "L2": ("Pia", "privacy_officer"),
    "L3": ("Ida", "agent"),
}
_KINDS: Final = ("message", "record", "answer")


def look(opened: Vault, owner: Principal, width: int) -> tuple[bool, str, list[str]]:
    """Let four people read what one owns; whether the claim holds, what was seen, and the views as lines."""
    session_id = _written(opened, owner)
    views = {level: seen(opened, owner.tenant, session_id, level) for level in LEVELS}
    found = {level: canaries_in(events) for level, events in views.items()}
    record = views["L2"][1].payload
    name = record.get("name") if isinstance(record, dict) else None
    same = isinstance(name, str) and name.startswith("NAME_") and name in reading(views["L2"][0])
    looks = _recorded(opened, owner.tenant, session_id)
    told = _NAME in reading(views["L3"][0]) and _CARD in reading(views["L3"][0])
    holds = not any(found[level] for level in LEVELS[:3]) and told and same and looks == set(LEVELS)
    counts = ", ".join(f"{level} {len(found[level])}" for level in LEVELS)
    evidence = (
        f"of {plural(len(CANARIES), 'string')} to look for, found at {counts}; at L2 the name is "
        f"{'the same pseudonym in message and record' if same else 'not one pseudonym'}; the audit trail has "
        f"looks at {', '.join(sorted(looks)) or 'no level'}"
    )
    return holds, evidence, _lines(views, width)


def _written(opened: Vault, owner: Principal) -> str:
    """A session of three events, shared at L3 with the one reader who has no role to look."""
    access = opened.access(
        Principal(tenant=owner.tenant, subject=owner.subject, roles=frozenset({"agent", "owner"}))
    )
    session = access.sessions.create(title="A customer's card")
    session.append("message.user", {"content": f"{_NAME} here, {_MAIL}, card {_CARD}."})
    record = {"name": _NAME, "email": _MAIL, "customer_id": "cus_quarrenby_5527", "card": _CARD}
    session.append("tool.returned", record, tool="crm")
    session.append("message.assistant", {"content": "Thank you, Ms Quarrenby, your card is on file."})
    access.grants.give(session.id, _READERS["L3"][0], level="L3")
    return session.id


def seen(opened: Vault, tenant: str, session_id: str, level: str) -> list[Event]:
    """The session's events as the reader of a level gets them."""
    subject, role = _READERS[level]
    reader = Principal(tenant=tenant, subject=subject, roles=frozenset({role}))
    return list(opened.access(reader).sessions.resume(session_id).events())


def canaries_in(events: list[Event]) -> set[str]:
    """Which of the strings stand anywhere in what a reader got, in whatever case and spacing."""
    text = b"".join(json_line(event_document(event)) for event in events).decode().lower().replace(" ", "")
    return {canary for canary in CANARIES if canary in text}


def _recorded(opened: Vault, tenant: str, session_id: str) -> set[str]:
    """At which levels the trail says that the session was read."""
    auditor = Principal(tenant=tenant, subject=_READERS["L0"][0], roles=frozenset({"auditor"}))
    entries = opened.access(auditor).audit.entries(session_id=session_id, types=["access.used"])
    said: list[dict[str, Any]] = [entry.said for entry in entries]
    return {about["level"] for about in said if about["action"] == "read"}


def _lines(views: dict[str, list[Event]], width: int) -> list[str]:
    lines = []
    for place, kind in enumerate(_KINDS):
        for level in LEVELS:
            first = f"   {kind if level == LEVELS[0] else '':7}  {level}  "
            lines.append(first + one_line(reading(views[level][place]), max(width - len(first), 10)))
    return lines
