"""How the tests call the program: in this process for speed, or as a process of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from vault import Principal, Vault
from vault.cli import main
from vault.errors import EffectFailed

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a call of the program left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output, which holds nothing else."""
        assert self.out.count("\n") == 1
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        """The JSON documents on standard output, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and nothing of the environment that the program would take."""
    for name in [name for name in os.environ if name.startswith("SESSION_VAULT")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TZ", "UTC")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Calls the program in this process."""

    def called(*arguments: object) -> Done:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code=code, out=captured.out, err=captured.err)

    return called


@pytest.fixture
def start(place: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts the program as a process of its own; whatever still runs at the end is ended."""
    begun: list[subprocess.Popen[bytes]] = []

    def started(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            [sys.executable, "-m", "vault.cli", *map(str, arguments)],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})},
            **{**pipes, **options},
        )
        begun.append(process)
        return process

    yield started
    for process in begun:
        process.kill()
        process.communicate()


@pytest.fixture
def vault(place: Path) -> Path:
    """A vault at the default place, with one session of the default owner in it: three events."""
    with Vault.create(place / "my.vault") as opened:
        sessions = opened.access(Principal(tenant="default", subject="owner")).sessions
        session = sessions.create(title="August sales", labels={"purpose": "sales"})
        asked = session.append("message.user", {"content": "Why did sales drop?"})
        session.append("tool.requested", {"month": 8}, tool="warehouse", caused_by=asked.id)
        session.append("message.assistant", {"content": "The south fell."})
    return place / "my.vault"


@pytest.fixture
def crashed(vault: Path) -> str:
    """In the vault, a session whose last run ended without a word within an effect; its id.

    Before that: a run with an answered tool, a checkpoint and an open approval that was granted afterwards;
    one with a committed and a failed effect and a summary; one that failed.
    """
    with Vault.open(vault) as opened:
        sessions = opened.access(Principal(tenant="default", subject="owner")).sessions
        session = sessions.create(
            title="A refund", config="support@3", config_document={"tools": {"crm": {}}, "model": "one"}
        )
        session.append("message.user", {"content": "I want my money back."})
        with session.run() as run:
            asked = run.append("tool.requested", {"customer": 42}, tool="crm")
            seen = {"resource": "crm/42", "observed_at": datetime.now(UTC), "valid_for": timedelta(minutes=5)}
            run.append("tool.returned", {"balance": 120}, tool="crm", caused_by=asked.id, **seen)
            approval = run.append("approval.requested", {"what": "a refund of 120"})
            run.append("state.changed", {"from": "triage", "to": "refund"})
        session.append("approval.granted", {"by": "bob"}, caused_by=approval.id)
        with session.run() as run:
            run.effect("email.send", "order-7", {"to": "o@example.org"}).once(lambda _: {"id": "m-1"})
            with suppress(EffectFailed):
                run.effect("sms.send", "order-7").once(no_such_number)
            covered = {"first": asked.id, "last": approval.id, "first_seq": 1, "last_seq": 8}
            run.append("context.summarized", {"summary": "120 back for order 7; approved.", **covered})
        with suppress(ZeroDivisionError), session.run() as run:
            1 / 0  # noqa: B018
        run = session.run(lease_seconds=0.1)
        run.append("tool.requested", {"account": "x"}, tool="bank")
        run.effect("payment.refund", "order-7", {"amount": 120}, resource="crm/42", subject="Ann").intend()
    time.sleep(0.2)  # its lease runs out: the closed vault renews none
    return session.id


def no_such_number(_: Any) -> None:
    """What carries out an effect of which it is certain that nothing happened."""
    raise EffectFailed("there is no such number")
