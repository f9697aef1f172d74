"""One step of ``demo``: an agent is killed between an effect and its record, and another one takes over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import vault
from vault.cli.demo_agent import KEY, KIND, pay
from vault.cli.printable import plural
from vault.errors import InDoubt
from vault.model import Principal
from vault.sessions.effect import Resolution

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.sessions.facts import EffectState
    from vault.sessions.run import Run
    from vault.wiring import Vault

CLAIM: Final = "Killed an agent after it had paid, before it could say so: nobody pays again."
_CHILD_SECONDS_MAX: Final = 60
_WAIT_SECONDS: Final = 30
_KILLED: Final = -signal.SIGKILL


def crash(opened: Vault, place: Path, owner: Principal) -> tuple[bool, str]:
    """Kill one agent, wake its session as another; whether the claim holds, and what was seen."""
    bank = place / "bank.jsonl"
    sessions = opened.access(owner).sessions
    session = sessions.create(title="A refund")
    session.append("message.user", {"content": "Where is my money?"})
    code = killed_agent(place / "demo.vault", owner, session.id, bank)
    woken = sessions.wake(session.id, wait=_WAIT_SECONDS)
    doubts = [(effect.kind, effect.key) for effect in woken.in_doubt]
    with woken.run as run:
        refused = _is_refused(run, bank)
        answer = _paid_once(run, bank, lambda known: asked_the_bank(bank, known))
        again = _paid_once(run, bank, None)
    paid = payments(bank)
    states = [effect.state for effect in session.effects(kind=KIND, key=KEY)]
    holds = (
        code == _KILLED
        and woken.standing.kind == "crashed_in_effect"
        and doubts == [(KIND, KEY)]
        and refused
        and paid == [answer] == [again]
        and states == ["committed"]
    )
    return holds, (
        f"a process of its own, ended by signal {-code}; woken: {plural(len(doubts), 'effect')} in doubt, "
        f"{'not repeated by itself' if refused else 'repeated by itself'}; the bank was asked, and the "
        f"effect is {', '.join(states)}; payments in the bank's book: {len(paid)}"
    )


def killed_agent(place: Path, owner: Principal, session_id: str, bank: Path) -> int:
    """Start the agent as a process, kill it when it has paid; what it ended with, below 0 for a signal."""
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(vault.__file__).parent.parent)]
    names = [str(place), owner.tenant, owner.subject, session_id, str(bank)]
    agent = subprocess.Popen(  # noqa: S603 - our own program, and arguments that we made
        [sys.executable, "-P", "-m", "vault.cli.demo_agent", *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    late = threading.Timer(_CHILD_SECONDS_MAX, agent.kill)
    late.start()
    try:
        assert agent.stdout is not None  # noqa: S101 - a pipe was asked for
        if agent.stdout.readline() == b"paid\n":
            agent.kill()
        agent.communicate()
    finally:
        late.cancel()
        agent.kill()
    return agent.returncode


def payments(bank: Path) -> list[dict[str, Any]]:
    """All that the bank ever paid."""
    if not bank.exists():
        return []
    return [json.loads(line) for line in bank.read_text(encoding="utf-8").splitlines()]


def asked_the_bank(bank: Path, known: EffectState) -> Resolution:
    """What became of an effect in doubt: the bank's book says whether it paid under this key."""
    paid = [payment for payment in payments(bank) if payment["key"] == known.key]
    if paid:
        return Resolution(decision="commit", confirmation=paid[0], by="the bank's book")
    return Resolution(decision="retry", by="the bank's book")


def _is_refused(run: Run, bank: Path) -> bool:
    """Whether the effect in doubt is refused as long as nobody decides."""
    try:
        _paid_once(run, bank, None)
    except InDoubt:
        return True
    return False


def _paid_once(run: Run, bank: Path, resolver: Callable[[EffectState], Resolution] | None) -> Any:
    return run.effect(KIND, KEY, {"amount": "49.90 EUR"}).once(
        lambda intent: pay(bank, intent), resolver=resolver
    )
