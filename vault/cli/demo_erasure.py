"""Three steps of ``demo``: what one erases goes with all that came from it, and what expired is hidden."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import vault
from vault.cli.at_rest import below, readable
from vault.cli.printable import plural
from vault.clock import SystemClock
from vault.errors import NotFound
from vault.model import Principal
from vault.rehearsal import drill

if TYPE_CHECKING:
    from pathlib import Path

    from vault.erasure.service import Outcome
    from vault.faces import Access
    from vault.wiring import Vault

ERASED: Final = "Erase a session: a memory made from it and another one goes too, and a receipt proves it."
EXPIRED: Final = "Let a session expire: hidden at once in every reader, then swept, each with its receipt."

RESTORED: Final = "Put an old backup back, keys and all: what was erased since is still not there."

_SAID: Final = "Quarrenby prefers the copper kettle"
_DAYS: Final = 366


class _Clock:
    """The machine's clock, moved ahead by hand."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now_us(self) -> int:
        return SystemClock().now_us() + self.ahead // timedelta(microseconds=1)


def erase(opened: Vault, place: Path, owner: Principal) -> tuple[bool, str]:
    """Erase one of two sessions that a memory was made from; whether the claim holds, and what was seen."""
    access = opened.access(
        Principal(tenant=owner.tenant, subject=owner.subject, roles=frozenset({"agent", "owner"}))
    )
    sessions = [access.sessions.create(title=f"Kettle talk {number}") for number in (1, 2)]
    for session in sessions:
        session.append("message.user", {"content": f"{_SAID}, please remember."})
    access.memories.put(("taste",), "kettle", {"says": _SAID}, sources=sessions)
    plan = access.erasure.plan(session=sessions[0].id)
    outcome = access.erasure.execute(plan)
    gone = _is_gone(access, sessions[0].id)
    memory = not access.memories.list(("taste",))
    other = access.sessions.resume(sessions[1].id).info().event_count == 1
    # The other session still says it, sealed: in clear it must be found nowhere.
    clear = readable([_SAID], below(place / "demo.vault"))
    signed = _is_signed(opened, outcome)
    holds = gone and memory and other and signed and not clear and outcome.state == "verified"
    evidence = (
        f"{plural(sum(plan.counts.values()), 'item')} planned and gone ({_said(outcome)}), the other session "
        f"{'stays' if other else 'went as well'}; receipt {outcome.operation[:12]}… of "
        f"{len(outcome.receipt):,} bytes is {outcome.state} and "
        f"{'its signature verifies without the vault' if signed else 'its signature does not verify'}"
    )
    return holds, evidence


def expire(place: Path, owner: Principal) -> tuple[bool, str]:
    """Move the clock behind a session's period; whether the claim holds, and what was seen."""
    clock = _Clock()
    with vault.Vault.create(place / "expiry.vault", clock=clock) as opened:
        access = opened.access(owner)
        session = access.sessions.create(title="A year ago")
        session.append("message.user", {"content": _SAID})
        officer = opened.access(
            Principal(tenant=owner.tenant, subject="Pia", roles=frozenset({"privacy_officer"}))
        )
        officer.retention.run()
        clock.ahead = timedelta(days=_DAYS)
        hidden = _is_gone(access, session.id) and not access.sessions.find().items
        kept = access.retention.explain(session.id).text
        clock.ahead += timedelta(days=7)  # the grace in which it could have been restored
        officer.retention.trust_clock()
        swept = officer.retention.run()
        signed = all(_is_signed(opened, one) for one in officer.erasure.receipts())
        whole = opened.verify().ok
    holds = hidden and swept.going == 1 and not swept.unfinished and signed and whole
    return (
        holds,
        f"after {_DAYS} days: {kept} A week later {plural(swept.going, 'session')} swept, receipt verified",
    )


def restore(opened: Vault, place: Path) -> tuple[bool, str]:
    """Rehearse on copies; whether all of it held, and what was tried."""
    found = drill(opened, within=place)
    tried = ", ".join(step.name for step in found.steps)
    return (
        found.ok,
        f"rehearsed on copies ({tried}): {'each held' if found.ok else 'the last one did not hold'}",
    )


def _is_gone(access: Access, session_id: str) -> bool:
    try:
        access.sessions.resume(session_id)
    except NotFound:
        return True
    return False


def _is_signed(opened: Vault, outcome: Outcome) -> bool:
    from vault.sealing.receipts import verified  # noqa: PLC0415 - only the demo of an erasure needs it

    receipt = verified(outcome.receipt, bytes.fromhex(opened.info()["ledger_public_key"]))
    return receipt.operation == outcome.operation


def _said(outcome: Outcome) -> str:
    return ", ".join(f"{kind} {action}: {n}" for (kind, action), n in sorted(outcome.counts.items()))
