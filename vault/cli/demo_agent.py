"""The agent that ``demo`` kills: it pays, and never gets to say so. Run as a process of its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from vault import Principal, Vault

KIND: Final = "payment.refund"
KEY: Final = "order-20417"
#: Short, so that whoever comes next need not wait long for the lease of the dead.
LEASE_SECONDS: Final = 0.5


def pay(bank: Path, intent: Any) -> dict[str, Any]:
    """Pay: a durable line in the file that stands for the bank, whatever was paid before."""
    payment = {"key": KEY, **intent}
    with bank.open("a", encoding="utf-8") as book:
        book.write(json.dumps(payment) + "\n")
        book.flush()
        os.fsync(book.fileno())
    return payment


def main(place: str, tenant: str, subject: str, session_id: str, bank: str) -> None:
    """Begin a run, pay within an effect, say so to the parent, and wait to be killed."""

    def pay_and_hang(intent: Any) -> None:
        pay(Path(bank), intent)
        sys.stdout.write("paid\n")
        sys.stdout.flush()
        sys.stdin.read()
        os._exit(1)  # the parent is gone: nobody is left to kill it

    with Vault.open(place) as opened:
        session = opened.access(Principal(tenant=tenant, subject=subject)).sessions.resume(session_id)
        run = session.run(lease_seconds=LEASE_SECONDS)
        run.effect(KIND, KEY, {"amount": "49.90 EUR"}).once(pay_and_hang)


if __name__ == "__main__":
    main(*sys.argv[1:])
