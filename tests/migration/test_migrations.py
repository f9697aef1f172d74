"""An older vault is brought up to date once, by whoever opens it first; a newer one is refused in words."""

import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vault import Principal, Vault, data, new_run_id
from vault.erasure.policies import Policies
from vault.errors import NewerVault, StorageUnavailable
from vault.sessions import prepare

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = data.migrations()
ALICE = Principal(tenant="acme", subject="alice")

NEXT = len(list((SHIPPED / "sqlite" / "data").glob("*.sql"))) + 1

TO_COME = """-- Another table, filled from what is there, and an index.
CREATE TABLE notes (no INTEGER NOT NULL PRIMARY KEY, note TEXT NOT NULL) STRICT;
INSERT INTO notes (note) SELECT 'of session ' || no FROM sessions;
CREATE INDEX notes_by_note ON notes (note);
CREATE TRIGGER notes_stay BEFORE DELETE ON notes
BEGIN
    SELECT RAISE(ABORT, 'notes stay');
END;
"""
SLOW = """CREATE TABLE numbers (n INTEGER NOT NULL PRIMARY KEY) STRICT;
WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 400000)
INSERT INTO numbers (n) SELECT n FROM count;
"""
BROKEN = "CREATE TABLE half (n INTEGER NOT NULL PRIMARY KEY) STRICT;\nCREATE TABLE half (again);\n"
OPEN = """
import sys
from pathlib import Path
from vault import Principal, Vault, data
data.migrations = lambda: Path(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
with Vault.open(sys.argv[1]) as vault:
    (item,) = vault.access(Principal(tenant="acme", subject="alice")).sessions.find().items
    print(item.event_count)
"""


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def place(tmp_path):
    """A closed vault with one session of three events."""
    with Vault.create(tmp_path / "vault") as vault:
        session = vault.access(ALICE).sessions.create(title="kept")
        for number in range(3):
            session.append("a.b", number)
    return tmp_path / "vault"


@pytest.fixture
def newer(tmp_path):
    """The migrations of a program to come: ours and what is given."""

    def written(**scripts):
        shutil.rmtree(tmp_path / "migrations", ignore_errors=True)
        shutil.copytree(SHIPPED, tmp_path / "migrations")
        for name, text in scripts.items():
            (tmp_path / "migrations" / "sqlite" / "data" / f"{name}.sql").write_text(text)
        return tmp_path / "migrations"

    return written


@pytest.fixture
def opened():
    """Opens a vault in processes of their own, all at the same moment."""
    processes = []

    def start(place, migrations):
        command = [sys.executable, "-c", OPEN, str(place), str(migrations)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        processes.append(subprocess.Popen(command, cwd=ROOT, text=True, **pipes))
        assert processes[-1].stdout.readline() == "ready\n"
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def asked(place, statement):
    database = sqlite3.connect(place / "data.db")
    try:
        return database.execute(statement).fetchall()
    finally:
        database.close()


#: What a program of the first schema could write under types that mean something to the vault since.
FREE = {
    "checkpoint.created": ["a", "list"],
    "effect.intended": "a text",
    "effect.committed": {"kind": 5, "subject": ["nobody"]},
    "effect.failed": {"kind": "mail", "key": "of another program"},
    "run.started": None,
    "config.changed": [],
    "context.summarized": {"first_seq": "one"},
}


@pytest.fixture
def first(tmp_path, monkeypatch):
    """A closed vault as a program of the first schema left it: its tables, its columns, its rows."""
    place, run = tmp_path / "first", new_run_id()
    with monkeypatch.context() as patch, Vault.create(place) as vault:
        patch.setattr(prepare, "_found_by", lambda tenant, new: (None, ()))  # events had no such index
        patch.setattr(Policies, "__call__", lambda *_: b"")  # and sessions no terms
        session = vault.access(ALICE).sessions.create(title="kept", labels={"a": "b"}, external_id="x")
        for number in range(3):
            session.append("a.b", number, run=run)
        session.append("tool.returned", raw=bytes(70_000), run=new_run_id())
        for name, payload in FREE.items():
            session.append(name, payload)
    with sqlite3.connect(tmp_path / "first.db") as older:
        older.executescript((SHIPPED / "sqlite" / "data" / "0001_foundation.sql").read_text())
        ((migrations,),) = asked(place, "SELECT sql FROM sqlite_schema WHERE name = '_sqlite_migrations'")
        older.execute(migrations)
        older.execute("PRAGMA journal_mode = WAL")
        tables = older.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid"
        ).fetchall()
        for (table,) in tables:
            names = [name for (name,) in older.execute("SELECT name FROM pragma_table_info(?)", (table,))]
            rows = asked(place, f"SELECT {', '.join(names)} FROM {table} ORDER BY 1")  # noqa: S608
            rows = rows[:1] if table == "_sqlite_migrations" else rows
            marks = ", ".join("?" * len(names))
            older.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
    older.close()
    shutil.move(tmp_path / "first.db", place / "data.db")
    return place


def applied(place):
    return [name for (name,) in asked(place, "SELECT name FROM _sqlite_migrations ORDER BY name")]


def is_whole(place):
    with Vault.open(place) as vault:
        (item,) = vault.access(ALICE).sessions.find().items
        session = vault.access(ALICE).sessions.resume(item.id)
        return [event.payload for event in session.events()][:3] == [0, 1, 2] and vault.verify().ok


@pytest.mark.parametrize("kind", ["data", "keys"])
def test_the_shipped_migrations_are_numbered_and_leave_transactions_to_the_program(kind):
    """Point 3"""
    files = sorted((data.migrations() / "sqlite" / kind).glob("*.sql"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        assert re.fullmatch(r"\d{4}_[a-z0-9_]+\.sql", file.name)
        text = re.sub(r"--[^\n]*", "", file.read_text(encoding="utf-8"))
        assert sqlite3.complete_statement(text)
        assert not re.search(r"\b(COMMIT|ROLLBACK|SAVEPOINT|VACUUM|PRAGMA)\b|BEGIN\s*;", text)


def test_a_fresh_vault_has_every_migration_applied(place):
    """Point 3"""
    shipped = sorted((data.migrations() / "sqlite" / "data").glob("*.sql"))
    assert applied(place) == [file.stem for file in shipped]


def test_an_older_vault_is_brought_up_to_date_when_it_is_opened(place, newer, monkeypatch):
    """Point 3"""
    monkeypatch.setattr(data, "migrations", lambda: newer(**{f"{NEXT:04}_notes": TO_COME}))
    assert is_whole(place)
    assert applied(place)[-1] == f"{NEXT:04}_notes"
    assert asked(place, "SELECT note FROM notes") == [("of session 1",)]
    with pytest.raises(sqlite3.IntegrityError, match="notes stay"):
        asked(place, "DELETE FROM notes")
    assert is_whole(place)
    assert asked(place, "SELECT count(*) FROM notes") == [(1,)]


def test_a_vault_of_the_first_schema_gets_the_second_and_loses_nothing(first):
    """Point 3"""
    assert applied(first) == ["0001_foundation"]
    assert is_whole(first)
    assert applied(first)[:2] == ["0001_foundation", "0002_recovery"]
    with Vault.open(first) as vault:
        assert vault.verify().ok
        assert vault.verify(without_keys=True).ok
        session = vault.access(ALICE).sessions.resume_external("x")
        assert [(event.type, event.payload) for event in session.events()][4:] == list(FREE.items())
        assert asked(first, "SELECT lease, forked_from, base_seq, base_chain FROM sessions") == [
            (b"", None, 0, b"")
        ]
        assert asked(first, "SELECT count(*) FROM events WHERE ref IS NOT NULL") == [(0,)]


def test_a_session_of_the_first_schema_takes_runs_effects_checkpoints_and_forks(first):
    """Point 3, C1, C2, C4, S1: what was written under the same types before is passed over"""
    with Vault.open(first) as vault:
        sessions = vault.access(ALICE).sessions
        session = sessions.resume_external("x")
        assert session.effects() == []
        assert session.last_committed_effect(next(session.events()).run, "mail") is None
        state = session.recover().state
        with session.run() as run:
            assert run.effect("mail", "1", resource="crm/1").once(lambda _: {"id": 7}) == {"id": 7}
            checkpoint = run.checkpoint()
        assert [(effect.key, effect.state) for effect in session.effects()] == [("1", "committed")]
        assert session.recover().checkpoint == checkpoint.id
        assert session.recover(at=list(session.events())[10].id).state == state
        fork = sessions.fork(session.id, at=list(session.events())[5].id)
        assert [event.seq for event in fork.events()] == list(range(1, 7))
        assert [effect.key for effect in fork.effects()] == ["1"]
        with fork.run() as run:
            assert run.effect("mail", "1").once(lambda _: pytest.fail("again")) == {"id": 7}
        woken = sessions.wake(session.id)
        woken.run.stop()
        assert woken.state["through"] == 16
        assert vault.verify().ok
        assert vault.verify(without_keys=True).ok
    with Vault.open(first) as vault:
        assert vault.verify().ok


def test_of_processes_that_open_an_older_vault_at_once_one_migrates_it(place, newer, opened):
    """Point 3: under a lock"""
    for number in range(3):
        last = NEXT + number
        names = {f"{n:04}_notes": TO_COME.replace("notes", f"notes{n}") for n in range(NEXT, last + 1)}
        migrations = newer(**names)
        processes = [opened(place, migrations) for _ in range(3)]
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.communicate() for process in processes]
        assert [output for output, _ in said] == ["3\n"] * 3, said
        assert applied(place)[-1] == f"{last:04}_notes"
        assert asked(place, f"SELECT note FROM notes{last}") == [("of session 1",)]  # noqa: S608


def test_a_migration_killed_half_way_is_as_if_it_had_not_begun(place, newer, opened):
    """L2"""
    migrations, cut_off = newer(**{f"{NEXT:04}_numbers": SLOW}), 0
    for pause in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3):
        process = opened(place, migrations)
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = f"{NEXT:04}_numbers" in applied(place)
        tables = asked(place, "SELECT count(*) FROM sqlite_schema WHERE name = 'numbers'")
        assert tables == [(int(done),)]
        cut_off += not done
    assert cut_off
    process = opened(place, migrations)
    assert process.communicate("\n")[0] == "3\n"
    assert asked(place, "SELECT count(*) FROM numbers") == [(400_000,)]


def test_a_migration_that_fails_leaves_the_schema_before_it(place, newer, monkeypatch):
    """Point 3"""
    before = asked(place, "SELECT sql FROM sqlite_schema ORDER BY name")
    with monkeypatch.context() as patch:
        patch.setattr(data, "migrations", lambda: newer(**{f"{NEXT:04}_half": BROKEN}))
        with pytest.raises(StorageUnavailable) as refusal:
            Vault.open(place)
        assert "half" not in str(refusal.value)
    assert asked(place, "SELECT sql FROM sqlite_schema ORDER BY name") == before
    assert is_whole(place)


def test_a_newer_vault_is_refused_in_words_and_not_touched(place, newer, monkeypatch):
    """Point 3"""
    with monkeypatch.context() as patch:
        patch.setattr(data, "migrations", lambda: newer(**{f"{NEXT:04}_notes": TO_COME}))
        assert is_whole(place)
    files = {path: path.read_bytes() for path in place.iterdir() if path.suffix == ".db"}
    with pytest.raises(NewerVault, match="newer version of the program"):
        Vault.open(place)
    assert {path: path.read_bytes() for path in files} == files


@pytest.mark.parametrize("kind", ["data.db", "keys.db"])
def test_a_migration_from_the_future_is_refused_in_either_database(place, kind):
    """Point 3"""
    folder = kind.removesuffix(".db")
    database = sqlite3.connect(place / kind)
    with database:
        database.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, ?, ?)",
            [folder, "0099_later", "2099-01-01"],
        )
    database.close()
    with pytest.raises(NewerVault):
        Vault.open(place)
