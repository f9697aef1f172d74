"""A small vault with one of everything, what reading it must give, and genuine rows of its past."""

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from tests.security import surgery
from vault import Principal, Trigger, Vault, new_run_id
from vault.clock import SystemClock
from vault.errors import KeyUnavailable, Tampered
from vault.model import session_bytes
from vault.policy.freshness import Observation
from vault.sessions.gap import newest_observation, overtaking

ALICE = Principal(tenant="acme", subject="alice")
BOB = Principal(tenant="acme", subject="bob")
GLOBEX = Principal(tenant="globex", subject="alice")
LABELS = {"purpose": "sales"}
EXTERNAL = "order 66"
CUSTOMER, FILE = "crm/customer/42", "file/report.txt"
#: The lease of a run in the specimen: its clock ticks a second with every look.
LEASE_SECONDS = 86_400
_HOUR_US = 3_600_000_000
_WEEK_US = 7 * 86_400_000_000
BY_HAND = Trigger(after_tool=False, every_events=None, every_seconds=None)

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
    #: The worker's row of ``sessions`` when its first run began, and when that was over.
    past_worker: dict[str, dict] = field(default_factory=dict)
    work: dict[str, list] = field(default_factory=dict)
    clean: dict[str, object] = field(default_factory=dict)
    clean_recovery: dict[str, object] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        return self.home / "the.vault"

    @property
    def victim(self) -> str:
        return self.sessions["victim"]

    def copied(self, home: Path) -> "Specimen":
        """The same, in another directory that can be spoilt."""
        shutil.copytree(self.home, home, dirs_exist_ok=True)
        return Specimen(**{**vars(self), "home": home, "sessions": dict(self.sessions)})

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

    def recovery_calls(self, vault: Vault) -> Calls:
        """Every way of reading the worker, which has had runs, and its forks, by a short name."""
        sessions = vault.access(ALICE).sessions
        worker, branch = self.work["worker"], self.work["branch"]
        run, checkpoint, leaf = worker[0].run, worker[6], self.work["leaf"]
        # What the worker saw of the customer, whatever is stored by now: so that only one index is asked.
        seen = Observation(
            name=CUSTOMER, seq=3, observed_us=worker[2].observed_us, valid_for_us=worker[2].valid_for_us
        )

        def session(name):
            return sessions.resume(self.sessions[name])

        def about(name):
            return vault._log, sessions._authorise("read"), session_bytes(self.sessions[name])

        calls: Calls = {
            "worker effects": lambda: session("worker").effects(),
            "worker effects of a kind": lambda: session("worker").effects(kind="email.send"),
            "effect 42": lambda: session("worker").effects(kind="email.send", key="42"),
            "effect 43": lambda: session("worker").effects(kind="email.send", key="43"),
            "effect 42 from the branch": lambda: session("branch").effects(kind="email.send", key="42"),
            "effect of the branch": lambda: session("worker").effects(kind="crm.update", key="42"),
            "last effect": lambda: session("worker").last_committed_effect(run, "email.send"),
            "checkpoint": lambda: session("worker").last_checkpoint(),
            "checkpoint of a run": lambda: session("worker").last_checkpoint(run),
            "past state": lambda: session("worker").recover(at=checkpoint.id),
            "context": lambda: session("worker").context(max_events=4).events,
            "observed": lambda: newest_observation(*about("worker"), CUSTOMER),
            "observed from the leaf": lambda: newest_observation(*about("leaf"), CUSTOMER),
            "overtaken": lambda: overtaking(*about("worker"), CUSTOMER, seen),
            "fork info": lambda: session("leaf").info(),
            "shared": lambda: list(session("leaf").slice(worker[1].id, worker[4].id)),
            "both sides": lambda: list(session("branch").slice(worker[5].id, branch[8].id)),
            "own": lambda: list(session("branch").events(after=worker[6].id)),
            "own newest": lambda: list(session("leaf").events(limit=2, newest_first=True)),
            "messages": lambda: list(session("branch").events(types=["message.user", "message.assistant"])),
            "run of the branch": lambda: list(session("branch").events(run=branch[7].run)),
            "since": lambda: list(session("leaf").events(since=leaf[3].recorded_at)),
        }
        for name in self.work:
            calls[f"{name} events"] = lambda name=name: list(session(name).events())
            calls[f"{name} state"] = lambda name=name: session(name).recover()
            calls[f"{name} replay"] = lambda name=name: [step.state for step in session(name).replay()]
        return calls

    def without_a_branch(self) -> dict[str, list]:
        """What those reads give that look for forks, when an index holds the leaf, or both, no more."""
        every, foreign = self.clean_recovery["worker effects"], self.clean_recovery["overtaken"]
        own = [effect for effect in every if effect.session_id == self.sessions["worker"]]
        both = [effect for effect in every if effect.session_id != self.sessions["leaf"]]
        return {
            "worker effects": [own, both],
            "effect of the branch": [[]],
            "overtaken": [None, replace(foreign, branch=False)],
        }


class Ticking:
    """A clock that moves a second with every look."""

    def __init__(self, start_us: int | None = None) -> None:
        # Of late: these are opened by the real clock, which hides a session of long ago.
        # And from a full hour on: what is counted in hours is then the same at its beginning and its end.
        self.us = (SystemClock().now_us() - _WEEK_US) // _HOUR_US * _HOUR_US if start_us is None else start_us

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
        work(made, vault)
    with Vault.open(made.place) as vault:
        report = vault.verify()
        assert report.ok, report.findings
        made.clean = {name: call() for name, call in made.calls(vault).items()}
        made.clean_recovery = {name: call() for name, call in made.recovery_calls(vault).items()}
    assert made.clean["events"] == made.events
    return made


def work(made: Specimen, vault: Vault) -> None:
    """A worker with runs, effects, an observation and a checkpoint; its fork, and a fork of that one.

    The leaf begins before the branch's own effect; the second run of the worker never came to its end.
    """
    sessions = vault.access(ALICE).sessions
    worker = sessions.create(title="Its work", config="analyst@12", config_document={"tools": {"email": {}}})
    made.sessions["worker"] = worker.id
    with worker.run(lease_seconds=LEASE_SECONDS, checkpoints=BY_HAND) as run:
        made.past_worker["its first run"] = _session_row(made, "worker")
        run.append("message.user", {"content": "Write to them."})
        seen = {"observed_at": run.started.recorded_at, "valid_for": timedelta(hours=1)}
        run.append("observation.recorded", {"value": "vip"}, resource=CUSTOMER, **seen)
        mail = {"resource": CUSTOMER, "subject": "Zoe"}
        run.effect("email.send", "42", {"to": "zoe"}, **mail).once(lambda _: {"id": "m-1"})
        worker.post("message.user", {"content": "And to the others."})
        checkpoint = run.checkpoint()
        run.effect("email.send", "43", {"to": "yan"}, **mail).intend()
    made.past_worker["between its runs"] = _session_row(made, "worker")
    branch = sessions.fork(worker.id, at=checkpoint.id, title="Another way")
    with branch.run(lease_seconds=LEASE_SECONDS, checkpoints=BY_HAND) as run:
        answer = run.append("message.assistant", {"content": "I call them."}, resource=FILE)
        run.effect("crm.update", "42", resource=CUSTOMER).once(lambda _: {"version": 7})
        run.checkpoint()
    leaf = sessions.fork(branch.id, at=answer.id, title="A third way")
    with leaf.run(lease_seconds=LEASE_SECONDS, checkpoints=BY_HAND) as run:
        run.effect("file.write", "report", resource=FILE).once(lambda _: {"bytes": 9})
    worker.run(lease_seconds=LEASE_SECONDS, checkpoints=BY_HAND)
    made.sessions |= {"branch": branch.id, "leaf": leaf.id}
    for name, session in {"worker": worker, "branch": branch, "leaf": leaf}.items():
        made.work[name] = list(session.events())


def _session_row(made: Specimen, name: str) -> dict:
    with contextlib.closing(sqlite3.connect(made.place / "data.db")) as connection:
        query = "SELECT * FROM sessions WHERE no = ?"
        (row,) = surgery.rows_as_dicts(connection, query, made.no(connection, name))
        return row


def _remember(made: Specimen, count: int) -> None:
    connection = sqlite3.connect(made.place / "data.db")
    no = made.no(connection)
    (row,) = surgery.rows_as_dicts(connection, "SELECT * FROM sessions WHERE no = ?", no)
    made.past_session[count] = row
    made.past_runs[count] = surgery.rows_as_dicts(connection, "SELECT * FROM runs WHERE session_no = ?", no)
    connection.close()
