"""A read costs what it returns: by the database's own plan, and by counting the steps it takes."""

import re
import sqlite3
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vault import NewEvent, Principal, Vault, data, new_event_id, new_run_id
from vault.policy.recovery import Trigger
from vault.storage.sqlite import Database
from vault.storage.statements import STATEMENTS

ALICE = Principal(tenant="acme", subject="alice")
BOB = Principal(tenant="acme", subject="bob")
RUN, OTHER_RUN = new_run_id(), new_run_id()
HOUR = 3_600_000_000
BY_HAND = Trigger(after_tool=False, every_events=None, every_seconds=None)
POSTGRES = Path("/usr/lib/postgresql/15/bin")

#: They walk everything of their kind, which is what they are for: verification, checkpoints, re-wrapping.
MAINTENANCE = {name for name in STATEMENTS if name.startswith("all_")} | {"stray_rows"}
#: Tables of one row.
SINGLE = {"vault", "root", "sweeper"}
OF_KEYS = {
    name
    for name, text in STATEMENTS.items()
    if re.search(r"\b(FROM|INTO|UPDATE) (keys|root|destroyed|withdrawn|holds)\b", text)
}


class Steps:
    """Counts the database's virtual machine steps and statements of every connection made from now on."""

    def __init__(self, monkeypatch):
        self.steps, self.statements = 0, []
        connect = Database._connect

        def counted(database):
            connection = connect(database)
            connection.set_progress_handler(self._step, 1)
            connection.set_trace_callback(self.statements.append)
            return connection

        monkeypatch.setattr(Database, "_connect", counted)

    def _step(self):
        self.steps += 1

    def of(self, work):
        """Steps and statements that some work takes, once what it needs is in the caches."""
        work()
        self.steps, self.statements[:] = 0, []
        result = work()
        return self.steps, len(self.statements), result


class Ticks:
    """A clock that moves by hand, and a little whenever it is asked."""

    now = 10**15

    def now_us(self):
        self.now += 1_000
        return self.now


def filled(session, count):
    """``count`` events: one in a thousand is rare, the first and last ten are of a run of their own."""
    for start in range(0, count, 1_000):
        session.append_many(
            NewEvent(
                type="rare.one" if n % 1_000 == 5 else "message.user" if n % 3 else "tool.returned",
                payload=n,
                run=RUN if n < 10 else OTHER_RUN if n >= count - 10 else None,
            )
            for n in range(start, min(start + 1_000, count))
        )
    with session.run(checkpoints=BY_HAND) as run:
        run.append("observation.recorded", {"value": 1}, resource="crm/7", observed_at=datetime.now(UTC))
        run.checkpoint()
        run.effect("mail", "7", resource="crm/7", subject="Zoe").once(lambda _: {"id": 7})
        run.checkpoint()
        run.append("message.assistant", "Sent.")
    return session


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A short and a long session, and the counter of what reading them takes."""
    place = tmp_path_factory.mktemp("plans")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        steps = Steps(patch)
        clock = Ticks()
        with Vault.create(place / "vault", settings={"synchronous": "NORMAL"}, clock=clock) as vault:
            sessions = vault.access(ALICE).sessions
            small, large = filled(sessions.create(), 10), filled(sessions.create(), 20_000)
            for _ in range(200):
                clock.now += HOUR // 2
                vault.access(BOB).sessions.create(labels={"team": "red"})
            yield steps, small, large, vault, place / "vault"


def plan(connection, statement):
    names = re.findall(r":(\w+)", statement)
    rows = connection.execute("EXPLAIN QUERY PLAN " + statement, dict.fromkeys(names, 1)).fetchall()
    return [row[3] for row in rows]


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - MAINTENANCE))
def test_no_statement_walks_a_table_or_sorts(counted, name):
    """L9"""
    kind = "keys.db" if name in OF_KEYS else "data.db"
    connection = sqlite3.connect(f"file:{counted[-1] / kind}?mode=ro", uri=True)
    steps = plan(connection, STATEMENTS[name])
    connection.close()
    for step in steps:
        if step == "SCAN operations USING INDEX operations_unfinished":
            continue  # a few at most: the rest are not in that index
        walks = re.match(r"SCAN (\w+)", step)
        assert walks is None or walks[1] in SINGLE, steps
        # Within one hour of use the list is sorted: the index by hour spares every append a write to it.
        sorted_in_part = (
            name.startswith(("sessions_of_owner", "sessions_of_tenant")) and " OF ORDER BY" in step
        )
        summed = name == "count_live" and " FOR GROUP BY" in step  # a number for each of five kinds
        assert "TEMP B-TREE" not in step or sorted_in_part or summed, steps


def test_forks_are_looked_up_and_not_searched_for_in_their_tenant(counted):
    """L9: a tenant has many sessions, and a session few forks"""
    connection = sqlite3.connect(f"file:{counted[-1] / 'data.db'}?mode=ro", uri=True)
    for name in ("forks_of",):
        (step,) = plan(connection, STATEMENTS[name])
        assert "sessions_by_fork (forked_from=?" in step, name
    connection.close()


def test_the_plan_test_sees_a_walk_and_a_sort(counted):
    connection = sqlite3.connect(f"file:{counted[-1] / 'data.db'}?mode=ro", uri=True)
    (walk,) = plan(connection, "SELECT seq FROM events WHERE salt = :salt")
    assert walk.startswith("SCAN events")
    assert any("TEMP B-TREE" in step for step in plan(connection, "SELECT seq FROM events ORDER BY salt"))
    connection.close()


READS = {
    "the-first-ten": lambda session, log: session.events(limit=10),
    "the-last-ten": lambda session, log: session.events(limit=10, newest_first=True),
    "ten-behind-an-event": lambda session, log: session.events(after=log[0].id, limit=9),
    "ten-before-an-event": lambda session, log: session.events(before=log[9].id, limit=9, newest_first=True),
    "a-slice": lambda session, log: session.slice(log[2].id, log[7].id),
    "a-run": lambda session, log: session.events(run=RUN),
    "a-run-from-its-end": lambda session, log: session.events(run=RUN, limit=10, newest_first=True),
    "the-first-of-a-type": lambda session, log: session.events(types=["rare.one"], limit=1),
    "the-last-of-a-type": lambda session, log: session.events(types=["rare.one"], limit=1, newest_first=True),
    "the-last-of-two-types": lambda session, log: session.events(
        types=["message.user", "tool.returned"], limit=4, newest_first=True
    ),
    "a-type-of-a-run": lambda session, log: session.events(
        run=RUN, types=["tool.returned"], limit=2, newest_first=True
    ),
    "an-unused-type": lambda session, log: session.events(types=["never.used"]),
    "an-unused-run": lambda session, log: session.events(run=new_run_id()),
    "a-summary": lambda session, log: [session.info()],
    "the-last-checkpoint": lambda session, log: [session.last_checkpoint()],
    "an-effect-by-its-key": lambda session, log: session.effects(kind="mail", key="7"),
    "all-effects-of-a-kind": lambda session, log: session.effects(kind="mail"),
    "the-last-effect-of-a-run": lambda session, log: [
        session.last_committed_effect(session.last_checkpoint().run, "mail")
    ],
    "a-recovered-state": lambda session, log: [session.recover()],
    "a-replay-of-what-is-recent": lambda session, log: session.replay(recent=True),
    "a-context": lambda session, log: session.context(max_events=10).events,
    "a-retry": lambda session, log: [session.append("a.b", event_id=retried(session))],
}
_retried: dict[str, str] = {}


def retried(session):
    return _retried.setdefault(session.id, new_event_id())


@pytest.mark.parametrize("name", READS)
def test_ten_of_twenty_thousand_cost_what_ten_of_ten_cost(counted, name):
    """L9"""
    steps, small, large, *_ = counted
    costs = []
    for session in (small, large):
        log = list(session.events(limit=10))
        cost, statements, found = steps.of(lambda session=session, log=log: list(READS[name](session, log)))
        costs.append((cost, statements, len(found)))
    (few, statements, found), (many, statements_of_many, found_of_many) = costs
    assert found == found_of_many
    assert statements_of_many <= statements + 2  # a row before or behind, which ends where the log ends
    assert many <= 2 * few
    assert few > 0


def test_the_step_counter_sees_a_whole_read(counted):
    steps, small, large, *_ = counted
    few, _, _ = steps.of(lambda: list(small.events()))
    many, _, found = steps.of(lambda: list(large.events()))
    assert len(found) >= 20_000
    assert many > 200 * few


def test_a_read_by_time_costs_a_bisection(counted):
    """L9: recorded times never go back, so the log itself is the index"""
    steps, small, large, *_ = counted
    future = datetime(9000, 1, 1, tzinfo=UTC)
    costs = [steps.of(lambda s=s: list(s.events(since=future)))[:2] for s in (small, large)]
    assert costs[1][1] - costs[0][1] <= 15  # log2(20,000), each a look at one row
    assert costs[1][0] <= 8 * costs[0][0]


def test_an_append_costs_the_same_at_any_length(counted):
    """L9"""
    steps, small, large, *_ = counted
    costs = [steps.of(lambda s=s: s.append("tool.returned", [1]))[:2] for s in (small, large)]
    assert costs[1][1] == costs[0][1]
    assert costs[1][0] <= 2 * costs[0][0]


def test_a_page_of_the_list_costs_its_own_sessions(counted):
    """S2"""
    steps, *_, vault, _ = counted
    bob = vault.access(BOB).sessions
    for labels in (None, {"team": "red"}):
        few, _, page = steps.of(lambda labels=labels: bob.find(limit=5, labels=labels))
        assert len(page.items) == 5
        many, _, page = steps.of(lambda labels=labels: bob.find(limit=100, labels=labels))
        assert len(page.items) == 100
        assert few < many / 8


def test_a_page_of_a_tenants_sessions_costs_its_own_sessions(counted):
    """S2, O3"""
    steps, *_, vault, _ = counted
    auditor = Principal(tenant="acme", subject="dan", roles=frozenset({"auditor"}))
    sessions = vault.access(auditor).sessions
    few, _, page = steps.of(lambda: sessions.find(limit=5))
    assert len(page.items) == 5
    many, _, page = steps.of(lambda: sessions.find(limit=100))
    assert len(page.items) == 100
    assert few < many / 8


SQLITE_ONLY = (
    r"json_\w+\(|strftime|datetime\(|julianday|\browid\b|INSERT OR|REPLACE INTO|AUTOINCREMENT|PRAGMA|IFNULL\("
    r"|total_changes|last_insert_rowid|GLOB|\bchanges\(|typeof\(|randomblob|hex\(|substr\(|printf\(|\bIIF\("
    r"|sqlite_|INDEXED BY|COLLATE|UPDATE OR|\bREGEXP\b|\bMATCH\b|strict"
)


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_are_written_for_both_databases(name):
    """Point 3: the same statements run on SQLite and PostgreSQL 15"""
    statement = STATEMENTS[name]
    assert not re.search(SQLITE_ONLY, statement, re.IGNORECASE)
    assert not re.search(r"[?$@]|%s|\*", statement)
    assert ";" not in statement
    assert statement.split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE"}
    # A literal in a statement is a constant of the program, never a value of a user.
    assert set(re.findall(r"'([^']*)'", statement)) <= {
        *("event", "blob", "run", "touch", "label"),
        *("live", "superseded", "session"),
        *("erasing", "done"),
    }


def translated_schema():
    """The SQLite schema in PostgreSQL's words: what a reviewed migration of its own will say one day."""
    number = "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
    for kind in ("data", "keys"):
        for file in sorted((data.migrations() / "sqlite" / kind).glob("*.sql")):
            text = re.sub(r"--[^\n]*", "", file.read_text(encoding="utf-8"))
            text = re.sub(r"CREATE TRIGGER.*?\bEND;", "", text, flags=re.DOTALL)
            text = re.sub(r"\)\s*(STRICT)?,?\s*(WITHOUT ROWID)?\s*;", ");", text)
            text = re.sub(r"\bx''", r"''::bytea", text)
            text = re.sub(r"\bBLOB\b", "bytea", text)
            text = re.sub(r"(\bno\s+)INTEGER\s+NOT NULL PRIMARY KEY", rf"\1{number}", text)
            yield re.sub(r"\bINTEGER\b", "bigint", text)


def numbered(statement):
    """The statement with PostgreSQL's own kind of parameters."""
    names = list(dict.fromkeys(re.findall(r":(\w+)", statement)))
    return re.sub(r":(\w+)", lambda match: f"${names.index(match[1]) + 1}", statement)


@pytest.fixture
def psql():
    """Runs a script in a PostgreSQL of its own, started and thrown away by the user ``postgres``."""
    if not (POSTGRES / "initdb").exists():
        pytest.skip("PostgreSQL 15 is not on this machine")
    who = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    if subprocess.run([*who, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user cannot start a database server as the user postgres")

    def run(*command, text=None):
        done = subprocess.run(
            [*who, *command], check=False, capture_output=True, text=True, cwd="/", input=text
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    place = run("mktemp", "-d").strip()
    server = f"-c listen_addresses= -c unix_socket_directories={place}"
    run(POSTGRES / "initdb", "-D", f"{place}/db", "--no-sync", "-A", "trust")
    run(POSTGRES / "pg_ctl", "-D", f"{place}/db", "-o", server, "-l", f"{place}/log", "-w", "start")
    connect = [POSTGRES / "psql", "-h", place, "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-qtA", "-f", "-"]
    yield lambda script: run(*connect, text=script)
    run(POSTGRES / "pg_ctl", "-D", f"{place}/db", "-m", "immediate", "stop")
    run("rm", "-r", place)


def test_postgresql_prepares_every_statement(psql):
    """Point 3"""
    prepared = [f"PREPARE {name} AS {numbered(text)};" for name, text in STATEMENTS.items()]
    count = "SELECT count(*) FROM pg_prepared_statements;"
    assert int(psql("\n".join([*translated_schema(), *prepared, count]))) == len(STATEMENTS)
