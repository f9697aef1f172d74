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

from vault import Principal, Vault, data
from vault.errors import NewerVault, StorageUnavailable

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = data.migrations()
ALICE = Principal(tenant="acme", subject="alice")

SECOND = """-- Another table, filled from what is there, and an index.
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
    monkeypatch.setattr(data, "migrations", lambda: newer(**{"0002_notes": SECOND}))
    assert is_whole(place)
    assert applied(place)[-1] == "0002_notes"
    assert asked(place, "SELECT note FROM notes") == [("of session 1",)]
    with pytest.raises(sqlite3.IntegrityError, match="notes stay"):
        asked(place, "DELETE FROM notes")
    assert is_whole(place)
    assert asked(place, "SELECT count(*) FROM notes") == [(1,)]


def test_of_processes_that_open_an_older_vault_at_once_one_migrates_it(place, newer, opened):
    """Point 3: under a lock"""
    for number in range(3):
        names = {f"{n:04}_notes": SECOND.replace("notes", f"notes{n}") for n in range(2, number + 3)}
        migrations = newer(**names)
        processes = [opened(place, migrations) for _ in range(3)]
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.communicate() for process in processes]
        assert [output for output, _ in said] == ["3\n"] * 3, said
        assert applied(place)[-1] == f"{number + 2:04}_notes"
        assert asked(place, f"SELECT note FROM notes{number + 2}") == [("of session 1",)]  # noqa: S608


def test_a_migration_killed_half_way_is_as_if_it_had_not_begun(place, newer, opened):
    """L2"""
    migrations, cut_off = newer(**{"0002_numbers": SLOW}), 0
    for pause in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3):
        process = opened(place, migrations)
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = "0002_numbers" in applied(place)
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
        patch.setattr(data, "migrations", lambda: newer(**{"0002_half": BROKEN}))
        with pytest.raises(StorageUnavailable) as refusal:
            Vault.open(place)
        assert "half" not in str(refusal.value)
    assert asked(place, "SELECT sql FROM sqlite_schema ORDER BY name") == before
    assert is_whole(place)


def test_a_newer_vault_is_refused_in_words_and_not_touched(place, newer, monkeypatch):
    """Point 3"""
    with monkeypatch.context() as patch:
        patch.setattr(data, "migrations", lambda: newer(**{"0002_notes": SECOND}))
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
