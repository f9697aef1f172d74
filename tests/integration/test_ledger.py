"""The ledger outside the database: signed, chained, copied; who is behind it is refused (K4)."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vectors import independent
from vault import NewEvent, Principal, Vault
from vault.errors import InvalidInput, RolledBack, StorageUnavailable, Tampered

ALICE = Principal(tenant="acme", subject="alice")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def state_home(tmp_path, monkeypatch):
    place = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
    return place


@pytest.fixture
def place(tmp_path):
    return tmp_path / "the.vault"


def entries(directory: Path) -> list[Path]:
    return sorted(file for file in directory.iterdir() if file.name.isdecimal())


def memory(state_home: Path) -> Path:
    """Where this machine remembers the one vault of the test."""
    (directory,) = (state_home / "agent-session-vault").iterdir()
    return directory


def session_of(vault: Vault):
    return vault.access(ALICE).sessions.create()


def filled(place: Path, count: int = 3, **settings: object) -> str:
    with Vault.create(place, settings=settings) as vault:
        session = session_of(vault)
        for number in range(count):
            session.append("note.made", {"n": number})
    return session.id


def public_key(place: Path) -> bytes:
    with Vault.open(place) as vault:
        return bytes.fromhex(vault.info()["ledger_public_key"])


def kept(place: Path) -> None:
    """The vault's directory, kept as it is now."""
    shutil.copytree(place, place.with_name("kept"))


def put_back(place: Path, name: str = ".") -> None:
    """The directory, or one part of it, as it was kept."""
    target, source = place / name, place.with_name("kept") / name
    if source.is_dir():
        shutil.rmtree(target)
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


# ------------------------------------------------------------------------------------ when it is written


def test_an_entry_is_written_when_a_vault_is_made_and_when_it_is_closed(place):
    Vault.create(place).close()
    assert len(entries(place / "ledger")) == 1
    with Vault.open(place) as vault:
        session_of(vault)
    assert len(entries(place / "ledger")) == 2


def test_without_a_change_no_entry_is_written(place):
    filled(place)
    before = entries(place / "ledger")
    with Vault.open(place) as vault:
        newest = vault.checkpoint()
        assert newest.number == len(before)
    assert entries(place / "ledger") == before


def test_an_entry_is_written_on_request(place):
    with Vault.create(place) as vault:
        session = session_of(vault)
        first = vault.checkpoint()
        session.append("note.made", {"n": 1})
        second = vault.checkpoint()
        assert second.number == first.number + 1
        assert [head.seq for head in second.heads] == [1]


def test_an_entry_is_written_every_so_many_events(place):
    with Vault.create(place, settings={"ledger_every": 10}) as vault:
        session = session_of(vault)
        written = len(entries(place / "ledger"))
        for number in range(35):
            session.append("note.made", {"n": number})
        assert len(entries(place / "ledger")) - written == 3
        session.append_many([NewEvent(type="note.made", payload=number) for number in range(10)])
        assert len(entries(place / "ledger")) - written == 4


def test_an_entry_is_written_with_every_commit_when_asked_for(place):
    with Vault.create(place, settings={"ledger_every": "every_commit"}) as vault:
        session = session_of(vault)
        for number in range(5):
            before = len(entries(place / "ledger"))
            session.append("note.made", {"n": number})
            assert len(entries(place / "ledger")) == before + 1
        session.end()
        assert len(entries(place / "ledger")) == before + 2


@pytest.mark.parametrize("every", [0, -1, 1_000_001, "sometimes", 1.5])
def test_an_interval_out_of_range_is_refused(every, place):
    with pytest.raises(InvalidInput, match="ledger_every"):
        Vault.create(place, settings={"ledger_every": every})


def killed(vault: Vault, place: Path) -> Path:
    """The directory as it is when the process goes without closing the vault."""
    copy = place.with_name("killed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place, copy)
    vault.close()
    return copy


def test_a_change_by_a_process_that_never_closed_is_recorded_by_the_next_one(place):
    session_id = filled(place)
    vault = Vault.open(place)
    vault.access(ALICE).sessions.resume(session_id).append("note.made", {"n": 4})
    state = Path(os.environ["XDG_STATE_HOME"])
    shutil.copytree(state, state.with_name("then"))
    left = killed(vault, place)
    shutil.rmtree(state)
    state.with_name("then").rename(state)
    assert len(entries(left / "ledger")) == 2
    Vault.open(left).close()
    assert len(entries(left / "ledger")) == 3
    with Vault.open(left) as vault:
        assert vault.access(ALICE).sessions.resume(session_id).info().event_count == 4


@pytest.mark.parametrize(("every", "is_seen"), [(1_000, False), ("every_commit", True)])
def test_what_happens_between_two_entries_can_be_rolled_back_unseen(every, is_seen, place, state_home):
    """The limit that SECURITY.md states, and the setting against it."""
    session_id = filled(place, ledger_every=every)
    before = (place / "data.db").read_bytes()
    vault = Vault.open(place)
    vault.access(ALICE).sessions.resume(session_id).append("note.made", {"rolled": "back"})
    remembered = state_home.with_name("then")
    shutil.copytree(state_home, remembered)
    left = killed(vault, place)
    shutil.rmtree(state_home)
    remembered.rename(state_home)
    for name in ("data.db-wal", "data.db-shm"):
        (left / name).unlink()
    (left / "data.db").write_bytes(before)
    if is_seen:
        with pytest.raises(RolledBack):
            Vault.open(left)
    else:
        with Vault.open(left) as vault:
            assert vault.access(ALICE).sessions.resume(session_id).info().event_count == 3


# ------------------------------------------------------------------------------------- what is written


def test_every_entry_verifies_with_the_public_key_and_the_files_alone(place, long):
    """Signature, chain of entries, Merkle root over all heads, by an implementation of its own."""
    public, leaves, previous = public_key(place), [], bytes(32)
    for number, file in enumerate(long, start=1):
        name = file.read_text().splitlines()[0]
        assert name.startswith("session-vault/")
        entry = independent.open_entry(file.read_bytes(), name, public)
        assert (entry["number"], entry["previous"]) == (number, previous)
        assert entry["kind"] == ("full" if number % 64 == 1 else "changes")
        leaves += [independent.head_leaf(*head.values()) for head in entry["heads"]]
        assert (entry["size"], entry["root"]) == (len(leaves), independent.merkle_root(leaves))
        previous = entry["digest"]


def test_an_entry_holds_no_name_and_no_time_but_its_own(place):
    """K1: ids, hashes and counts only."""
    filled(place)
    text = entries(place / "ledger")[-1].read_text()
    assert {line.split(" ")[0] for line in text.splitlines()[3:9]} == {
        "entry",
        "previous",
        "time",
        "kind",
        "edge",
        "heads",
    }
    assert "acme" not in text
    assert "alice" not in text
    assert text.count("time ") == 1


# ---------------------------------------------------------------------------- a database that is behind


def test_a_database_behind_its_ledger_is_refused_with_what_is_missing(place):
    session_id = filled(place)
    kept(place)
    with Vault.open(place) as vault:
        vault.access(ALICE).sessions.resume(session_id).append("note.made", {"n": 4})
        other = session_of(vault)
        other.append("note.made", {})
    put_back(place, "data.db")
    with pytest.raises(RolledBack) as caught:
        Vault.open(place)
    assert f"{session_id} ends at event 3, 4 were recorded" in str(caught.value)
    assert f"{other.id} with 1 events is missing" in str(caught.value)


def test_many_missing_sessions_are_counted_in_one_sentence(place):
    filled(place)
    kept(place)
    with Vault.open(place) as vault:
        for _ in range(10):
            session_of(vault)
    put_back(place, "data.db")
    with pytest.raises(RolledBack, match="and 7 more") as caught:
        Vault.open(place)
    assert len(str(caught.value).splitlines()) == 1


def test_a_database_and_ledger_put_back_together_are_recognised_by_the_machine(place):
    """T9"""
    session_id = filled(place)
    kept(place)
    with Vault.open(place) as vault:
        vault.access(ALICE).sessions.resume(session_id).append("note.made", {"n": 4})
    put_back(place)
    with pytest.raises(RolledBack, match="old copy of the vault") as caught:
        Vault.open(place)
    assert "entry 3" in str(caught.value)
    assert session_id in str(caught.value)


def test_a_deleted_session_is_named_by_verify_of_an_open_vault(place):
    session_id = filled(place, count=0)
    with Vault.open(place) as vault:
        connection = sqlite3.connect(place / "data.db")
        connection.execute("DELETE FROM sessions")
        connection.commit()
        connection.close()
        report = vault.verify(without_keys=True)
        assert [(one.kind, one.place) for one in report.findings] == [("behind_ledger", session_id)]


# -------------------------------------------------------------------------------- a ledger that is behind


def test_a_ledger_behind_the_database_is_refused(place, state_home):
    filled(place)
    kept(place)
    with Vault.open(place) as vault:
        session_of(vault)
    put_back(place, "ledger")
    with pytest.raises(RolledBack, match="ends at entry 2"):
        Vault.open(place)
    shutil.rmtree(state_home)  # on another machine the database alone knows
    with pytest.raises(RolledBack, match="the database has written entry 3"):
        Vault.open(place)


def test_a_missing_ledger_is_refused_even_by_another_machine(place, state_home):
    filled(place)
    shutil.rmtree(place / "ledger")
    with pytest.raises(RolledBack):
        Vault.open(place)
    shutil.rmtree(state_home)
    with pytest.raises(RolledBack, match="ends at entry 0"):
        Vault.open(place)


@pytest.fixture(scope="module")
def long_ledger(tmp_path_factory):
    """A vault with 140 ledger entries, of which number 1, 65 and 129 are full; made once."""
    home = tmp_path_factory.mktemp("long")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        with Vault.create(home / "the.vault", settings={"synchronous": "NORMAL"}) as vault:
            session = session_of(vault)
            for number in range(138):
                session.append("note.made", {"n": number})
                vault.checkpoint()
            session.append("note.made", {})
    return home


@pytest.fixture
def long(long_ledger, tmp_path):
    """A copy of it, and of what its machine remembers."""
    shutil.copytree(long_ledger, tmp_path, dirs_exist_ok=True)
    files = entries(tmp_path / "the.vault" / "ledger")
    assert len(files) == 140
    return files


@pytest.mark.parametrize("number", [130, 135, 139])
def test_an_entry_removed_from_the_middle_is_refused(number, place, long):
    long[number - 1].unlink()
    with pytest.raises(Tampered):
        Vault.open(place)


def test_the_newest_full_entry_is_missed_when_it_is_removed(place, long):
    """Opening then reads further back, and meets the gap."""
    long[128].unlink()
    with pytest.raises(Tampered):
        Vault.open(place)


def test_a_ledger_whose_beginning_was_removed_is_refused(place, long):
    """Nothing that is left holds all heads."""
    for file in long[:129]:
        file.unlink()
    with pytest.raises(Tampered, match="does not begin with a full entry"):
        Vault.open(place)


@pytest.mark.parametrize("number", [1, 2, 64, 65, 128])
@pytest.mark.parametrize("edit", ["removed", "changed", "replaced"])
def test_an_older_entry_that_opening_need_not_read_is_named_by_verify(number, edit, place, long):
    file = long[number - 1]
    if edit == "removed":
        file.unlink()
    elif edit == "changed":
        file.write_bytes(file.read_bytes().replace(b"time 2", b"time 1"))
    else:
        file.write_bytes(long[number].read_bytes())
    with Vault.open(place) as vault:
        for without_keys in (False, True):
            report = vault.verify(without_keys=without_keys)
            assert ("ledger", f"ledger entry {number}") in {(one.kind, one.place) for one in report.findings}


def test_the_ledger_of_another_vault_is_refused(place, tmp_path, state_home):
    filled(place)
    filled(tmp_path / "other")
    shutil.rmtree(place / "ledger")
    shutil.copytree(tmp_path / "other" / "ledger", place / "ledger")
    with pytest.raises(Tampered):
        Vault.open(place)
    shutil.rmtree(state_home)
    with pytest.raises(Tampered, match="not signed by this vault"):
        Vault.open(place)


def test_heads_cannot_be_exchanged_below_a_genuine_signature(place):
    filled(place)
    file = entries(place / "ledger")[-1]
    note, _, body = file.read_text().rpartition("\n\n")
    file.write_text(note + "\n\n" + body.replace(" 3 ", " 2 "))
    with pytest.raises(Tampered, match="does not hold together"):
        Vault.open(place)


def test_a_stray_file_beside_the_entries_changes_nothing(place):
    filled(place)
    (place / "ledger" / "README").write_text("not an entry")
    (place / "ledger" / ".incoming-left-behind").write_text("a writer was killed here")
    with Vault.open(place) as vault:
        assert vault.verify().ok


# ----------------------------------------------------------------------------------------- two processes

WRITER = """
import sys
from vault import Principal, Vault
with Vault.open(sys.argv[1]) as vault:
    session = vault.access(Principal(tenant="acme", subject="alice")).sessions.create()
    print(session.id, flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        session.append("note.made", {"n": number})
"""


def test_processes_that_write_entries_at_once_lose_none(place):
    Vault.create(place, settings={"ledger_every": "every_commit"}).close()
    each = 25
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, place, str(each)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        for _ in range(3)
    ]
    sessions = [writer.stdout.readline().strip() for writer in writers]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    public = public_key(place)
    newest: dict[str, int] = {}
    files = entries(place / "ledger")
    assert [int(file.name) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        name = file.read_text().splitlines()[0]
        for head in independent.open_entry(file.read_bytes(), name, public)["heads"]:
            newest[head["session_id"].hex()] = head["seq"]
    assert newest == {session.removeprefix("ses_").replace("-", ""): each for session in sessions}
    with Vault.open(place) as vault:
        assert vault.verify().ok


# --------------------------------------------------------------------------------------------- the copies


def test_every_entry_is_copied_to_where_the_machine_remembers(place, state_home):
    filled(place)
    files = entries(place / "ledger")
    copies = entries(memory(state_home))
    assert [file.read_bytes() for file in copies] == [file.read_bytes() for file in files]
    assert memory(state_home).stat().st_mode & 0o077 == 0


def test_only_the_newest_entries_are_remembered(long, state_home):
    numbers = [int(file.name) for file in entries(memory(state_home))]
    assert numbers == list(range(13, 141))


def test_a_further_anchor_is_kept_and_asked(place, tmp_path, state_home):
    anchor = tmp_path / "other disk"
    session_id = filled(place, anchor=str(anchor))
    assert [file.name for file in entries(anchor)] == [file.name for file in entries(place / "ledger")]
    kept(place)
    with Vault.open(place) as vault:
        assert vault.info()["anchors"] == 2
        vault.access(ALICE).sessions.resume(session_id).append("note.made", {})
    put_back(place)
    shutil.rmtree(state_home)
    with pytest.raises(RolledBack, match="old copy of the vault"):
        Vault.open(place)


def test_a_copy_that_lags_is_caught_up(place, state_home):
    session_id = filled(place)
    for file in entries(memory(state_home))[1:]:
        file.unlink()
    with Vault.open(place) as vault:
        vault.access(ALICE).sessions.resume(session_id).append("note.made", {})
    assert [file.name for file in entries(memory(state_home))] == [f"{n:010d}" for n in (1, 2, 3)]


def test_a_ledger_that_was_rewritten_is_not_the_one_that_the_machine_remembers(place, state_home):
    """Two histories from one backup: the second does not pass for the first."""
    session_id = filled(place)
    kept(place)
    remembered = state_home.with_name("remembered")
    shutil.copytree(state_home, remembered)

    def goes_on(content):
        with Vault.open(place) as vault:
            vault.access(ALICE).sessions.resume(session_id).append("note.made", content)

    goes_on({"history": 1})
    one = state_home.with_name("one")
    shutil.copytree(state_home, one)
    put_back(place)
    shutil.rmtree(state_home)
    shutil.copytree(remembered, state_home)
    goes_on({"history": 2})
    shutil.rmtree(state_home)
    shutil.copytree(one, state_home)
    with pytest.raises(Tampered, match="not the one this machine remembers"):
        Vault.open(place)


def test_entries_of_two_histories_do_not_follow_each_other(place, state_home):
    """Each of them is signed by the vault; together they are no history."""
    session_id = filled(place)
    kept(place)
    for history in (1, 2):
        shutil.rmtree(place)
        shutil.copytree(place.with_name("kept"), place)
        shutil.rmtree(state_home)
        for number in range(2):
            with Vault.open(place) as vault:
                content = {"history": history, "n": number}
                vault.access(ALICE).sessions.resume(session_id).append("note.made", content)
        shutil.copytree(place / "ledger", place.with_name(f"history {history}"))
    shutil.rmtree(state_home)
    shutil.copy(place.with_name("history 1") / "0000000003", place / "ledger" / "0000000003")
    with pytest.raises(Tampered, match="does not follow"):
        Vault.open(place)


def test_a_state_directory_that_cannot_be_written_is_said_and_does_not_stop_the_vault(
    place, tmp_path, monkeypatch
):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a file"))
    session_id = filled(place)
    with Vault.open(place) as vault:
        info = vault.info()
        assert info["anchors"] == 0
        assert [line for line in info["weaker_choices"] if "cannot remember the ledger" in line]
        assert vault.access(ALICE).sessions.resume(session_id).info().event_count == 3
        json.dumps(info)


def test_a_relative_state_home_is_not_used(place, tmp_path, monkeypatch):
    """XDG Base Directory specification: relative paths are ignored."""
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    filled(place)
    assert not (tmp_path / "here").exists()
    assert list((tmp_path / "home" / ".local" / "state" / "agent-session-vault").iterdir())


def test_an_anchor_that_was_asked_for_and_cannot_be_written_is_refused(place, tmp_path):
    (tmp_path / "a file").write_text("")
    with pytest.raises(StorageUnavailable):
        Vault.create(place, settings={"anchor": str(tmp_path / "a file" / "anchor")})


def test_the_ledger_can_stand_on_another_disk(place, tmp_path):
    ledger = tmp_path / "another disk"
    filled(place, ledger=str(ledger))
    assert len(entries(ledger)) == 2
    assert not (place / "ledger").exists()
    with Vault.open(place) as vault:
        assert vault.verify().ok
        assert not [line for line in vault.info()["weaker_choices"] if "ledger lies beside" in line]
