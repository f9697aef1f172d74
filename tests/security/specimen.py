"""A small vault with one of everything, what reading it must give, and genuine rows of its past."""

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.security import surgery
from vault import Principal, Vault, new_run_id
from vault.errors import KeyUnavailable, Tampered
from vault.model import session_bytes

ALICE = Principal(tenant="acme", subject="alice")
BOB = Principal(tenant="acme", subject="bob")
GLOBEX = Principal(tenant="globex", subject="alice")
LABELS = {"purpose": "sales"}
EXTERNAL = "order 66"

Calls = dict[str, Callable[[], object]]


@dataclass(kw_only=True)
class Specimen:
    """A closed vault in ``home / "the.vault"`` and its machine's memory in ``home / "state"``."""

    home: Path
    sessions: dict[str, str] = field(default_factory=dict)
    events: list = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)
    #: The victim's row of ``sessions`` and its rows of ``runs`` after so many events.
    past_session: dict[int, dict] = field(default_factory=dict)
    past_runs: dict[int, list[dict]] = field(default_factory=dict)
    clean: dict[str, object] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        return self.home / "the.vault"

    @property
    def victim(self) -> str:
        return self.sessions["victim"]

    def copied(self, home: Path) -> "Specimen":
        """The same, in another directory that can be spoilt."""
        shutil.copytree(self.home, home, dirs_exist_ok=True)
        return Specimen(**{**vars(self), "home": home})

    def no(self, connection: sqlite3.Connection, name: str = "victim") -> int:
        """The internal number of a session."""
        query = "SELECT no FROM sessions WHERE session_id = ?"
        return connection.execute(query, (session_bytes(self.sessions[name]),)).fetchone()[0]

    def row(self, connection: sqlite3.Connection, seq: int, name: str = "victim") -> dict:
        """The row of one event."""
        query = "SELECT * FROM events WHERE session_no = ? AND seq = ?"
        (row,) = surgery.rows_as_dicts(connection, query, self.no(connection, name), seq)
        return row

    def slot(self, connection: sqlite3.Connection, seq: int, name: str = "victim") -> dict:
        """What names the row of one event."""
        return {"session_no": self.no(connection, name), "seq": seq}

    def calls(self, vault: Vault) -> Calls:
        """Every way of reading the victim, by a short name."""
        sessions = vault.access(ALICE).sessions
        events = self.events
        moment = [event.recorded_at for event in events]

        def victim():
            return sessions.resume(self.victim)

        def opened(number):
            with victim().open(events[number - 1]) as file:
                return file.read()

        calls: Calls = {
            "resume": lambda: victim().id,
            "resume_external": lambda: sessions.resume_external(EXTERNAL).id,
            "info": lambda: victim().info(),
            "find": sessions.find,
            "find labelled": lambda: sessions.find(labels=LABELS),
            "latest": lambda: sessions.latest(labels=LABELS).id,
            "events": lambda: list(victim().events()),
            "follow": lambda: list(victim().follow(idle_seconds=0)),
            "slice": lambda: list(victim().slice(events[3].id, events[6].id)),
            "after": lambda: list(victim().events(after=events[2].id, before=events[7].id)),
            "newest": lambda: list(victim().events(limit=4, newest_first=True)),
            "since": lambda: list(victim().events(since=moment[3], until=moment[7])),
            "open": lambda: [opened(number) for number in range(1, len(events) + 1)],
        }
        for name in ("message.user", "note.made", "tool.returned"):
            calls[f"type {name}"] = lambda name=name: list(victim().events(types=[name]))
            calls[f"newest {name}"] = lambda name=name: list(
                victim().events(types=[name], limit=2, newest_first=True)
            )
        for name, run in self.runs.items():
            calls[f"run {name}"] = lambda run=run: list(victim().events(run=run))
        for number in (1, 5, len(events)):
            calls[f"open {number}"] = lambda number=number: opened(number)
        return calls


class Ticking:
    """A clock that moves a second with every look."""

    def __init__(self, start_us: int = 1_700_000_000_000_000) -> None:
        self.us = start_us

    def now_us(self) -> int:
        self.us += 1_000_000
        return self.us


def closed(vault: Vault) -> None:
    """Close it: the checkpoint of a spoilt session may be refused, which is right."""
    with contextlib.suppress(Tampered, KeyUnavailable):
        vault.close()


def made(home: Path) -> Specimen:
    """Make the vault with XDG_STATE_HOME already at ``home / "state"``."""
    made = Specimen(home=home)
    noise = random.Random(7)
    made.runs = {"first": new_run_id(), "second": new_run_id(), "third": new_run_id()}
    first, second, third = made.runs.values()
    plan = [
        ("message.user", {"content": "Why did sales drop?"}, None, first),
        ("note.made", {"text": "a plan " + noise.randbytes(1_200).hex()}, None, first),
        ("tool.returned", None, noise.randbytes(70_000), first),
        ("note.made", {"text": "another plan " + noise.randbytes(400).hex()}, None, second),
        ("note.made", {"text": "a third one"}, None, second),
        ("tool.returned", None, noise.randbytes(70_000), second),
        ("message.user", {"content": "Go on."}, None, first),
        ("message.assistant", {"content": "It rained."}, None, third),
        ("message.user", {"content": "Thanks."}, None, None),
    ]
    with Vault.create(made.place, clock=Ticking()) as vault:
        alice = vault.access(ALICE).sessions
        quiet = alice.create(title="Before it", labels={"purpose": "other"})
        quiet.append("message.user", {"content": "Are you there?"})
        victim = alice.create(title="August sales", labels=LABELS, external_id=EXTERNAL, config="analyst@12")
        made.sessions = {"quiet": quiet.id, "victim": victim.id}
        _remember(made, 0)
        for name, payload, raw, run in plan:
            victim.append(name, payload, raw=raw, run=run, tool="warehouse", usage={"tokens": 5})
            _remember(made, len(made.past_session))
        twin = alice.create(title="Its twin", labels={"purpose": "twin"})
        for name, payload, raw, run in plan:
            twin.append(name, payload, raw=raw, run=run, tool="warehouse", usage={"tokens": 5})
        made.sessions["twin"] = twin.id
        for name, principal in (("bob", BOB), ("globex", GLOBEX)):
            session = vault.access(principal).sessions.create(title="August sales", labels=LABELS)
            session.append("message.user", {"content": "Mine."})
            made.sessions[name] = session.id
        made.events = list(victim.events())
    with Vault.open(made.place) as vault:
        report = vault.verify()
        assert report.ok, report.findings
        made.clean = {name: call() for name, call in made.calls(vault).items()}
    assert made.clean["events"] == made.events
    return made


def _remember(made: Specimen, count: int) -> None:
    connection = sqlite3.connect(made.place / "data.db")
    no = made.no(connection)
    (row,) = surgery.rows_as_dicts(connection, "SELECT * FROM sessions WHERE no = ?", no)
    made.past_session[count] = row
    made.past_runs[count] = surgery.rows_as_dicts(connection, "SELECT * FROM runs WHERE session_no = ?", no)
    connection.close()
