"""One changed byte anywhere at rest gives a refusal, a finding, or exactly what was written (K2, K4).

Each byte of each file, and each byte of each value of each row, by SQL, without the rules of the schema.
By default a sample that differs from run to run (pytest-randomly prints its seed); EXHAUSTIVE=1: all of them.
"""

# ruff: noqa: S608 - names in the statements are the tests' own

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.security import surgery
from tests.security.specimen import ALICE, BOB, BY_HAND, Ticking, closed
from vault import Page, Principal, Vault, new_event_id, new_run_id
from vault.clock import from_us
from vault.errors import VaultError
from vault.model import session_bytes
from vault.policy.freshness import Observation
from vault.sessions.gap import newest_observation, overtaking

EXHAUSTIVE = os.environ.get("EXHAUSTIVE") == "1"
RUNS = [new_run_id(), new_run_id()]
EXTERNAL = "order 66"
LABELS = {"purpose": "sales"}
SEEN = Observation(name="crm/1", seq=5, observed_us=Ticking().us, valid_for_us=None)

#: What a read came to: its result, or the class of the refusal.
Outcome = dict[str, object]


class Tiny:
    """The smallest vault with something in every column, a file blob and three ledger entries."""

    def __init__(self, home: Path) -> None:
        self.home, self.place = home, home / "the.vault"
        self.sessions: dict[str, tuple[Principal, str]] = {}
        self.events: dict[str, list] = {}
        with Vault.create(self.place, clock=Ticking()) as vault:
            mine = vault.access(ALICE).sessions.create(title="Mine", labels=LABELS, external_id=EXTERNAL)
            mine.append("message.user", {"content": "hello"}, run=RUNS[0], tool="mouth")
            mine.append("note.made", {"text": "y" * 2100}, run=RUNS[1], event_id=new_event_id())
            mine.append("tool.returned", raw=random.Random(3).randbytes(66_000))
            vault.checkpoint()
            his = vault.access(BOB).sessions.create()
            his.append("message.user", {"content": "mine alone"})
            with mine.run(checkpoints=BY_HAND) as run:
                run.append("observation.recorded", 1, resource="crm/1", observed_at=from_us(Ticking().us))
                run.effect("mail", "1", resource="crm/1", subject="Zoe").once(lambda _: {"id": 7})
                run.checkpoint()
            self.before_the_fork = mine.effects()
            fork = vault.access(ALICE).sessions.fork(mine.id)
            with fork.run(checkpoints=BY_HAND) as run:
                run.effect("mail", "2", resource="crm/1").once(lambda _: {"id": 8})
            self.sessions = {"mine": (ALICE, mine.id), "his": (BOB, his.id), "fork": (ALICE, fork.id)}
            self.events = {"mine": list(mine.events()), "his": list(his.events())}
            self.events["fork"] = list(fork.events())
        with Vault.open(self.place) as vault:
            self.clean = outcome_of(vault, self)
            assert vault.verify().ok
        assert not [word for word in self.clean.values() if isinstance(word, type)]

    def copied(self, target: Path) -> Path:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.place, target)
        return target


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    home = tmp_path_factory.mktemp("tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        return Tiny(home)


@pytest.fixture(autouse=True)
def remembered(tiny, monkeypatch):
    """The machine that made the vault opens it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tiny.home / "state"))


def reads_of(vault: Vault, tiny: Tiny) -> Iterator[tuple[str, Callable[[], object]]]:
    for name, (principal, session_id) in tiny.sessions.items():
        sessions = vault.access(principal).sessions
        events = tiny.events[name]
        yield f"{name} find", sessions.find
        yield f"{name} events", lambda s=sessions, i=session_id: list(s.resume(i).events())
        yield (
            f"{name} slice",
            lambda s=sessions, i=session_id, e=events: list(s.resume(i).slice(e[0].id, e[-1].id)),
        )
        yield (
            f"{name} type",
            lambda s=sessions, i=session_id: list(s.resume(i).events(types=["message.user"])),
        )
        yield (
            f"{name} since",
            lambda s=sessions, i=session_id, e=events: list(s.resume(i).events(since=e[-1].recorded_at)),
        )
    sessions, mine = vault.access(ALICE).sessions, tiny.sessions["mine"][1]
    yield "mine labelled", lambda: sessions.find(labels=LABELS)
    yield "mine external", lambda: sessions.resume_external(EXTERNAL).id
    for number, run in enumerate(RUNS):
        yield f"mine run {number}", lambda run=run: list(sessions.resume(mine).events(run=run))
    for name in ("mine", "fork"):
        session = tiny.sessions[name][1]
        yield f"{name} state", lambda s=session: sessions.resume(s).recover()
        yield f"{name} effects", lambda s=session: sessions.resume(s).effects()
        yield f"{name} effect", lambda s=session: sessions.resume(s).effects(kind="mail", key="1")
        yield f"{name} observed", lambda s=session: newest_observation(*about(vault, s), "crm/1")
    yield "fork info", lambda: sessions.resume(tiny.sessions["fork"][1]).info()
    yield "mine overtaken", lambda: overtaking(*about(vault, mine), "crm/1", SEEN)
    yield "mine blob", lambda: sessions.resume(mine).open(tiny.events["mine"][2]).read()


def about(vault: Vault, session_id: str):
    return vault._log, vault.access(ALICE).sessions._authorise("read"), session_bytes(session_id)


def outcome_of(vault: Vault, tiny: Tiny) -> Outcome:
    outcome: Outcome = {}
    for name, call in reads_of(vault, tiny):
        try:
            outcome[name] = call()
        except VaultError as error:
            outcome[name] = type(error)
    return outcome


def check(vault: Vault, tiny: Tiny) -> None:
    """Every read is as it was or refused; what is missing without a refusal is found by ``verify``."""
    outcome = outcome_of(vault, tiny)
    differing = {
        name for name, word in outcome.items() if word != tiny.clean[name] and not isinstance(word, type)
    }
    for name in differing:
        assert is_only_hidden(name, outcome[name], tiny), f"{name} gave other content"
    not_there = {
        name for name, word in outcome.items() if isinstance(word, type) and word.__name__ == "NotFound"
    }
    try:
        report = vault.verify()
    except VaultError:
        return
    if differing or not_there:
        assert not report.ok, f"{sorted(differing | not_there)} miss something, and verify finds nothing"


def is_only_hidden(name: str, result, tiny: Tiny) -> bool:
    """A page without a session, effects without a fork's: what an index does not hold, no lookup can miss."""
    clean = tiny.clean[name]
    if isinstance(clean, Page):
        return all(item in clean.items for item in result.items)
    without_the_fork = {"mine effects": [tiny.before_the_fork]}
    without_the_fork["mine overtaken"] = [None, replace(tiny.clean["mine overtaken"], branch=False)]
    return result in without_the_fork.get(name, [])


def check_opening(place: Path, tiny: Tiny) -> None:
    try:
        vault = Vault.open(place)
    except VaultError:
        return
    try:
        check(vault, tiny)
    finally:
        closed(vault)


def is_taken(share: int) -> bool:
    """Whether this one of many is tried: all are, or one in ``share``."""
    return EXHAUSTIVE or random.randrange(share) == 0


def changes_of(content: bytes, share: int) -> Iterator[tuple[int, int]]:
    """Places, and the bits to change there."""
    return ((at, 1 << random.randrange(8)) for at in range(len(content)) if is_taken(share))


def spoil_each_byte(tiny: Tiny, tmp_path: Path, name: str, share: int) -> None:
    original = (tiny.place / name).read_bytes()
    tried = 0
    for at, bits in changes_of(original, share):
        place = tiny.copied(tmp_path / "spoilt")
        file = bytearray(original)
        file[at] ^= bits
        (place / name).write_bytes(file)
        try:
            check_opening(place, tiny)
        except BaseException as error:
            error.add_note(f"byte {at} of {name}, bits {bits:#04x}")
            raise
        tried += 1
    assert tried


# ------------------------------------------------------------------------------------------ whole files


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600 if EXHAUSTIVE else 300)
@pytest.mark.parametrize(
    ("name", "share"),
    [("data.db", 100), ("keys.db", 60), ("vault.toml", 20), ("root.key", 3)],
)
def test_a_changed_byte_of_a_file_is_refused_found_or_without_effect(name, share, tiny, tmp_path):
    spoil_each_byte(tiny, tmp_path, name, share)


@pytest.mark.timeout(3 * 3600 if EXHAUSTIVE else 300)
def test_a_changed_byte_of_the_ledger_is_refused(tiny, tmp_path):
    for file in sorted((tiny.place / "ledger").iterdir()):
        spoil_each_byte(tiny, tmp_path, f"ledger/{file.name}", 15)


@pytest.mark.timeout(3 * 3600 if EXHAUSTIVE else 300)
def test_a_changed_byte_of_a_blob_is_refused(tiny, tmp_path):
    (blob,) = (file for file in (tiny.place / "blobs").rglob("*") if file.is_file())
    name = blob.relative_to(tiny.place).as_posix()
    spoil_each_byte(tiny, tmp_path, name, 1000)


@pytest.mark.timeout(3 * 3600 if EXHAUSTIVE else 300)
def test_a_changed_byte_of_what_the_machine_remembers_is_refused_or_without_effect(
    tiny, tmp_path, monkeypatch
):
    for file in sorted(tiny.home.glob("state/*/*/*")):
        original = file.read_bytes()
        for at, bits in changes_of(original, 15):
            state = tmp_path / "state"
            shutil.rmtree(state, ignore_errors=True)
            shutil.copytree(tiny.home / "state", state)
            spoilt = bytearray(original)
            spoilt[at] ^= bits
            (state / file.relative_to(tiny.home / "state")).write_bytes(spoilt)
            monkeypatch.setenv("XDG_STATE_HOME", str(state))
            check_opening(tiny.copied(tmp_path / "spoilt"), tiny)


# ------------------------------------------------------------------------------------- values of rows


def values_of(tiny: Tiny, database: str) -> list[tuple[str, str, int, object]]:
    """Table, column, rowid order and value of everything stored."""
    found = []
    with surgery.opened(tiny.place, database) as connection:
        for table in tables_of(connection):
            for column in surgery.column_names(connection, table):
                query = f"SELECT {column} FROM {table}"
                found += [
                    (table, column, number, value)
                    for number, (value,) in enumerate(connection.execute(query).fetchall())
                ]
    return found


def tables_of(connection) -> list[str]:
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    return [name for (name,) in connection.execute(query)]


def variants(value: object) -> Iterator[object]:
    """The value with each of its bytes changed; and what a column without rules may hold instead."""
    if isinstance(value, int):
        yield from (value ^ 1 << 8 * byte for byte in range(8) if byte < 7)
        yield from (-1, -value - 1, 2**63 - 1)
    elif value is None:
        yield from (b"", bytes(16), "text", 7)
    else:
        yield from (surgery.flipped(value, at) for at in range(len(value)))
        yield from (value[:-1], value + value[:1], value[:0])
        if isinstance(value, bytes):
            yield value.decode("latin-1")
        else:
            yield value.encode()
    yield from (None, 1.5, 0, "", b"", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"))


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600 if EXHAUSTIVE else 300)
@pytest.mark.parametrize("database", ["data.db", "keys.db"])
def test_every_byte_of_every_value_is_refused_found_or_without_effect(database, tiny, tmp_path):
    """Types, keys and NOT NULL are taken away first, so any value can stand anywhere."""
    place = tiny.copied(tmp_path / "loose")
    with surgery.opened(place, database) as connection:
        for table in tables_of(connection):
            surgery.without_rules(connection, table)
    tried = 0
    for table, column, number, value in values_of(tiny, database):
        for other in variants(value):
            if (other == value and type(other) is type(value)) or not is_taken(15):
                continue
            spoilt = tmp_path / "spoilt"
            shutil.rmtree(spoilt, ignore_errors=True)
            shutil.copytree(place, spoilt)
            with surgery.opened(spoilt, database) as connection:
                row = f"(SELECT rowid FROM {table} LIMIT 1 OFFSET ?)"
                query = f"UPDATE {table} SET {column} = ? WHERE rowid = {row}"
                connection.execute(query, (other, number))
            try:
                check_opening(spoilt, tiny)
            except BaseException as error:
                error.add_note(f"{table}.{column} row {number}: {type(other).__name__} of {len(repr(other))}")
                raise
            tried += 1
    assert tried
