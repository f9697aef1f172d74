"""Whichever copy is put back: what was erased stays erased, or nothing opens. D6, K3, K4, S4.

The table is that of SECURITY.md: each of its rows is tried, and must come out as it says.
"""

import os
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from vault import Principal, Vault, copies, rehearsal
from vault.errors import Erased, InvalidInput, KeyUnavailable, NotFound, RolledBack, Tampered, VaultError
from vault.storage.destruction import SqlDestruction

ROOT = Path(__file__).resolve().parents[2]
ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
SECRET = {"content": "the secret of the erased one"}
LARGE = bytes(range(256)) * 400


def made(tmp):
    """A vault, a backup and a copy of it from before an erasure, and this machine's memory of it."""
    live = tmp / "vault"
    (tmp / "root").mkdir()
    with Vault.create(live, root="file:../root/root.key", settings={"synchronous": "NORMAL"}) as vault:
        access = vault.access(ALICE)
        gone, kept = access.sessions.create(title="gone"), access.sessions.create(title="kept")
        gone.append("message.user", SECRET)
        gone.append("file.read", raw=LARGE)
        kept.append("message.user", {"content": "kept"})
        part = access.sessions.create(title="of which some is erased")
        events = [part.append("chat.item", {"n": 0}, epoch=1), part.append("chat.item", SECRET, epoch=1)]
        events.append(part.append("file.read", raw=LARGE, epoch=1))
        events.append(part.append("chat.item", {"n": 3}, epoch=1))
        access.erasure.erase(session=access.sessions.create(title="long gone").id)
        copies.backup(vault, tmp / "data", tmp / "keys")
    shutil.copytree(live, tmp / "old")
    with Vault.open(live) as vault:
        access = vault.access(ALICE)
        assert access.erasure.erase(session=gone.id).state == "verified"
        later = access.sessions.create(title="later")
        later.append("message.user", {"content": "later"})
        access.sessions.resume(kept.id).append("message.user", {"content": "more"})
        access.sessions.resume(part.id).retract([events[1].id, events[2].id])
    return gone.id, kept.id, later.id, part.id


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Made once, and copied for each test: the root key's place is relative."""
    tmp = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp / "state"))
        return tmp, made(tmp)


class World:
    """What a test has of it."""

    def __init__(self, tmp_path, monkeypatch, ids):
        self.tmp, self._monkeypatch = tmp_path, monkeypatch
        self.live, self.root = tmp_path / "vault", tmp_path / "root" / "root.key"
        self.gone, self.kept, self.later, self.part = ids

    def barrier(self):
        with Vault.open(self.live) as vault:
            assert vault.keys.barrier().passed

    def elsewhere(self):
        """From here on on a machine that never saw the vault."""
        self._monkeypatch.setenv("XDG_STATE_HOME", str(self.tmp / "another machine"))

    def restore(self, *, keys, ledger=None):
        target = self.tmp / "restored"
        copies.restore(self.tmp / "data", target, keys=keys, ledger=ledger)
        return target

    def put_back(self, *names):
        for name in names:
            shutil.copy(self.tmp / "old" / name, self.live / name)
        return self.live

    def put_all_back(self):
        shutil.rmtree(self.live)
        shutil.copytree(self.tmp / "old", self.live)
        return self.live

    def read(self, vault, session_id):
        return [event.payload for event in vault.access(ALICE).sessions.resume(session_id).events()]


@pytest.fixture
def world(pattern, tmp_path, monkeypatch):
    original, ids = pattern
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return World(tmp_path, monkeypatch, ids)


# ------------------------------------------------------------------------------------- the table


def data_with_keys_of_today(world):
    return world.restore(keys=world.live)


def data_and_old_keys(world):
    return world.restore(keys=world.tmp / "keys", ledger=world.live)


def data_and_old_keys_by_memory(world):
    shutil.rmtree(world.live)
    return world.restore(keys=world.tmp / "keys")


def data_and_old_keys_by_the_ledger_alone(world):
    world.elsewhere()
    return world.restore(keys=world.tmp / "keys", ledger=world.live / "ledger")


def data_with_keys_of_today_elsewhere(world):
    world.elsewhere()
    return world.restore(keys=world.live)


def data_and_old_keys_elsewhere(world):
    world.elsewhere()
    return world.restore(keys=world.tmp / "keys")


def data_and_old_keys_elsewhere_after_a_barrier(world):
    world.barrier()
    return data_and_old_keys_elsewhere(world)


def data_with_keys_of_today_after_a_barrier(world):
    world.barrier()
    return data_with_keys_of_today(world)


def old_data_by_hand(world):
    return world.put_back("data.db")


def old_keys_by_hand(world):
    return world.put_back("keys.db")


def old_keys_by_hand_after_a_barrier(world):
    world.barrier()
    return world.put_back("keys.db")


def old_data_and_keys_by_hand(world):
    return world.put_back("data.db", "keys.db")


def old_directory_by_hand(world):
    return world.put_all_back()


def old_directory_elsewhere(world):
    world.elsewhere()
    return world.put_all_back()


def old_directory_elsewhere_after_a_barrier(world):
    world.barrier()
    return old_directory_elsewhere(world)


#: The first cell of a row in SECURITY.md, and what is done.
CASES = {
    "`restore`: data, today's keys": data_with_keys_of_today,
    "`restore`: data, old keys, `--ledger` with the newest ledger": data_and_old_keys,
    "`restore`: data, old keys, the newest ledger only in this machine's memory": data_and_old_keys_by_memory,
    "`restore` on another machine: data, old keys, `--ledger` with the newest ledger": (
        data_and_old_keys_by_the_ledger_alone
    ),
    "`restore` on another machine: data, today's keys, no newer ledger": data_with_keys_of_today_elsewhere,
    "`restore` on another machine: data, old keys, no newer ledger": data_and_old_keys_elsewhere,
    "the same after a barrier, with today's root key": data_and_old_keys_elsewhere_after_a_barrier,
    "`restore` after a barrier: data, today's keys": data_with_keys_of_today_after_a_barrier,
    "by hand: an old `data.db`": old_data_by_hand,
    "by hand: an old `keys.db`": old_keys_by_hand,
    "by hand, after a barrier: an old `keys.db`": old_keys_by_hand_after_a_barrier,
    "by hand: an old `data.db` and an old `keys.db`": old_data_and_keys_by_hand,
    "by hand: the whole directory, on this machine": old_directory_by_hand,
    "by hand: the whole directory, on another machine": old_directory_elsewhere,
    "by hand: the same after a barrier, with today's root key": old_directory_elsewhere_after_a_barrier,
}


def stated():
    """What SECURITY.md says, by row: what becomes of the erased session."""
    section = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("\n## Backups\n")[2]
    found = re.findall(r"^\| (.+?) \| (gone|back|refused) \|", section.partition("\n## ")[0], re.MULTILINE)
    return dict(found)


def test_security_md_has_a_row_for_every_case_and_no_other():
    assert stated().keys() == CASES.keys()


@pytest.mark.parametrize("case", CASES)
def test_what_can_be_read_is_what_security_md_says(world, case):
    assert came_out(world, CASES[case]) == stated()[case]


def came_out(world, put_back):
    try:
        place = put_back(world)
        with Vault.open(place) as vault:
            kept = world.read(vault, world.kept)
            assert kept[:1] == [{"content": "kept"}]
            try:
                assert world.read(vault, world.gone)[0] == SECRET
            except NotFound:
                assert_no_key(place, world.gone)
                return "gone"
            return "back"
    except (RolledBack, KeyUnavailable):
        assert not (world.tmp / "restored").exists()
        return "refused"


#: Of single events keys.db knows nothing: with it and no newer ledger they come back.
ONLY_THE_LEDGER_KNOWS = {"`restore` on another machine: data, today's keys, no newer ledger"}


@pytest.mark.parametrize("case", CASES)
def test_a_single_event_that_was_erased_comes_out_as_an_erased_session_does(world, case):
    """D6: a session's event, erased by ``retract`` after the backup; also one in a file of its own."""
    expected = "back" if case in ONLY_THE_LEDGER_KNOWS else stated()[case]
    assert came_out_in_part(world, CASES[case]) == expected


def came_out_in_part(world, put_back):
    try:
        place = put_back(world)
    except (RolledBack, KeyUnavailable):
        return "refused"
    try:
        with Vault.open(place) as vault:
            read = world.read(vault, world.part)
            assert [read[0], read[3]] == [{"n": 0}, {"n": 3}]
            assert vault.verify().ok or put_back is old_keys_by_hand
    except (RolledBack, KeyUnavailable):
        return "refused"
    if read[1] == SECRET:
        return "back"
    assert read[1:3] == [None, None]
    assert_no_payload(place, world.part)
    return "gone"


def assert_no_payload(place, session_id):
    """The rows are emptied, and the file is gone: whoever has the keys finds nothing either."""
    raw = bytes.fromhex(session_id[4:].replace("-", ""))
    with sqlite3.connect(place / "data.db") as data:
        query = """SELECT b.body FROM sessions AS s JOIN events AS e ON e.session_no = s.no
                   JOIN blobs AS b ON b.no = e.blob_no WHERE s.session_id = ? AND e.seq IN (2, 3)"""
        assert data.execute(query, (raw,)).fetchall() == [(b"",), (b"",)]
    data.close()
    assert [one for one in (place / "blobs").rglob("*") if one.is_file()] == []


def assert_no_key(place, session_id):
    """There is no row and no key: not hidden, gone."""
    raw = bytes.fromhex(session_id[4:].replace("-", ""))
    with sqlite3.connect(place / "keys.db") as keys:
        assert keys.execute("SELECT count(*) FROM keys WHERE scope = ?", (raw,)).fetchone() == (0,)
        assert keys.execute("SELECT count(*) FROM destroyed WHERE scope = ?", (raw,)).fetchone()[0] >= 1
    keys.close()
    with sqlite3.connect(place / "data.db") as data:
        query = "SELECT count(*) FROM sessions WHERE session_id = ?"
        assert data.execute(query, (raw,)).fetchone() == (0,)
    data.close()


# ------------------------------------------------------------------------------------- restore


def test_a_restored_vault_verifies_and_names_what_is_lost(world):
    done = copies.restore(
        world.tmp / "data", world.tmp / "restored", keys=world.tmp / "keys", ledger=world.live
    )
    assert done.erased_again == 1
    assert done.newer_ledger
    lost = {one.session_id: (one.events, one.restored) for one in done.lost}
    assert lost[world.kept] == (2, 1)
    assert lost[world.later] == (1, 0)
    assert world.gone not in lost
    with Vault.open(world.tmp / "restored") as vault:
        report = vault.verify()
        assert report.ok, report.findings
        assert report.counts["erased"] == 2
        access = vault.access(ALICE)
        access.sessions.resume(world.kept).append("message.user", {"content": "goes on"})
        assert access.sessions.create().append("a.b", 1).seq == 1
    with Vault.open(world.tmp / "restored") as vault:
        assert vault.verify().ok
        assert [one["content"] for one in world.read(vault, world.kept)] == ["kept", "goes on"]


def test_a_restored_vault_is_still_refused_in_any_other_older_state(world):
    place = world.restore(keys=world.tmp / "keys", ledger=world.live)
    shutil.copytree(place, world.tmp / "just restored")
    with Vault.open(place) as vault:
        vault.access(ALICE).sessions.resume(world.kept).append("message.user", {"content": "goes on"})
    newest = (place / "data.db").read_bytes()
    for older in (world.tmp / "just restored" / "data.db", world.tmp / "old" / "data.db"):
        shutil.copy(older, place / "data.db")
        with pytest.raises(RolledBack):
            Vault.open(place)
    (place / "data.db").write_bytes(newest)
    Vault.open(place).close()
    for directory in (world.tmp / "just restored", world.live):
        with pytest.raises((RolledBack, Tampered)):
            Vault.open(directory)


def test_from_a_restore_on_the_vault_that_it_replaces_is_refused(world):
    """Also before the restored one is opened for the first time."""
    world.restore(keys=world.tmp / "keys", ledger=world.live)
    with pytest.raises(RolledBack):
        Vault.open(world.live)


def test_the_newest_state_before_a_restore_does_not_pass_for_the_restored_one(world):
    """The entry takes back what was recorded before it: the newer data.db is not the one that counts."""
    newest = world.tmp / "newest.db"
    shutil.copy(world.live / "data.db", newest)
    place = world.restore(keys=world.tmp / "keys", ledger=world.live)
    shutil.copy(newest, place / "data.db")
    with pytest.raises(RolledBack):
        Vault.open(place)


def test_a_vault_can_be_restored_again_and_again(world):
    for number in range(3):
        target = world.tmp / f"restored {number}"
        done = copies.restore(world.tmp / "data", target, keys=world.tmp / "keys", ledger=world.live)
        assert done.erased_again == 1
        with Vault.open(target) as vault:
            assert vault.verify().ok
        with pytest.raises(NotFound), Vault.open(target) as vault:
            world.read(vault, world.gone)


def test_a_hold_of_an_old_keys_db_does_not_bring_back_what_was_erased_once_it_was_lifted(tmp_path, world):
    """The holds in a copy are as old as it is; that it was erased says that none was in force by then."""
    with Vault.open(world.live) as vault:
        access, officer = vault.access(ALICE), vault.access(OFFICER)
        session = access.sessions.create(title="held")
        session.append("message.user", SECRET)
        hold = officer.holds.place(session=session.id, reason="a case")
        copies.backup(vault, tmp_path / "held data", tmp_path / "held keys")
        officer.holds.lift(hold.id, reason="closed")
        assert access.erasure.erase(session=session.id).state == "verified"
    target = tmp_path / "restored"
    done = copies.restore(tmp_path / "held data", target, keys=tmp_path / "held keys", ledger=world.live)
    assert done.erased_again == 1
    with Vault.open(target) as vault, pytest.raises(NotFound):
        vault.access(ALICE).sessions.resume(session.id)
    assert_no_key(target, session.id)


def test_keys_that_were_dying_when_the_vault_broke_are_destroyed_in_the_restored_one(world, monkeypatch):
    """Their erasure is in keys.db and in no row of the old data, so nobody would go on with it."""

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, Vault.open(world.live) as vault:
        patch.setattr(type(vault._parts.execution), "_destroy", interrupted)
        with pytest.raises(KeyboardInterrupt):
            vault.access(ALICE).erasure.erase(session=world.kept)
    target = world.tmp / "restored"
    assert copies.restore(world.tmp / "data", target, keys=world.live).erased_again == 2
    assert_no_key(target, world.kept)
    with Vault.open(target) as vault:
        assert vault.stores.parts.store.operations_dying() == []
        assert vault.verify().ok


def test_an_erasure_that_only_keys_db_knows_of_is_in_the_ledger_afterwards(world):
    world.elsewhere()
    place = world.restore(keys=world.live)
    with Vault.open(place) as vault:
        assert vault.verify().counts["erased"] == 2
        assert vault.verify().ok


def test_what_was_erased_since_is_unknown_when_nothing_newer_tells_and_that_is_said(world):
    world.elsewhere()
    target = world.tmp / "restored"
    assert not copies.restore(world.tmp / "data", target, keys=world.tmp / "keys").newer_ledger


def test_entries_that_nobody_has_any_more_are_signed_as_a_gap_and_no_fault(world, tmp_path):
    """This machine remembers the newest 128 only; those between are gone with the vault's directory."""
    with Vault.open(world.live) as vault:
        session = vault.access(ALICE).sessions.resume(world.kept)
        for number in range(140):
            session.append("message.user", {"n": number})
            vault.checkpoint()
    shutil.rmtree(world.live)
    place = world.restore(keys=world.tmp / "keys")
    numbers = sorted(int(file.name) for file in (place / "ledger").iterdir() if file.name.isdecimal())
    assert set(range(1, numbers[-1])) - set(numbers)
    with Vault.open(place) as vault:
        report = vault.verify()
        assert report.ok, report.findings
        assert report.counts["erased"] == 2
    next(file for file in (place / "ledger").iterdir() if int(file.name) == numbers[-3]).unlink()
    with Vault.open(place) as vault:
        assert [one.kind for one in vault.verify().findings] == ["ledger"]


def test_two_histories_are_not_merged(world):
    shutil.copytree(world.tmp / "old", world.tmp / "other")
    world.elsewhere()
    with Vault.open(world.tmp / "other") as vault:
        vault.access(ALICE).sessions.resume(world.kept).append("message.user", {"content": "another history"})
    with pytest.raises(Tampered, match="different histories"):
        world.restore(keys=world.tmp / "keys", ledger=world.live)
    assert not (world.tmp / "restored").exists()


@pytest.mark.parametrize(
    "name", ["data.db", "vault.toml", "ledger/0000000001", "manifest.json"], ids=lambda name: Path(name).stem
)
def test_a_backup_that_was_changed_is_refused(world, name):
    file = world.tmp / "data" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises((Tampered, InvalidInput)):
        world.restore(keys=world.tmp / "keys", ledger=world.live)
    assert not (world.tmp / "restored").exists()
    assert not (world.tmp / ".restored.quarantine").exists()


def test_a_changed_file_of_a_payload_is_refused_unless_the_damage_is_accepted(world):
    with Vault.open(world.live) as vault:
        vault.access(ALICE).sessions.resume(world.kept).append("file.read", raw=os.urandom(90_000))
        copies.backup(vault, world.tmp / "data 2", world.tmp / "keys 2")
    (file,) = [one for one in (world.tmp / "data 2" / "blobs").rglob("*") if one.is_file()]
    file.write_bytes(bytes(100))
    more = {"keys": world.tmp / "keys 2", "ledger": world.live}
    with pytest.raises(Tampered, match="does not verify"):
        copies.restore(world.tmp / "data 2", world.tmp / "restored", **more)
    assert not (world.tmp / "restored").exists()
    done = copies.restore(world.tmp / "data 2", world.tmp / "restored", accept_damage=True, **more)
    assert {finding.kind for finding in done.findings} == {"blob", "missing_file"}


@pytest.mark.parametrize("path", ["../outside", "/outside", "a/../../outside"])
def test_a_manifest_leads_nowhere_but_into_the_vault(world, path):
    manifest = world.tmp / "data" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"vault.toml"', f'"{path}"'))
    with pytest.raises(Tampered, match="manifest"):
        world.restore(keys=world.tmp / "keys")


def test_keys_of_another_vault_and_of_an_older_time_are_refused(world, tmp_path):
    with Vault.create(tmp_path / "other") as other:
        copies.backup(other, tmp_path / "other data", tmp_path / "other keys")
    with pytest.raises(InvalidInput, match="another vault"):
        world.restore(keys=tmp_path / "other keys")
    with Vault.open(world.live) as vault:
        copies.backup(vault, tmp_path / "newer")
    with pytest.raises(KeyUnavailable, match="older"):
        copies.restore(tmp_path / "newer", tmp_path / "restored", keys=world.tmp / "keys")


def test_nothing_is_restored_over_anything(world):
    with pytest.raises(InvalidInput, match="move it away"):
        copies.restore(world.tmp / "data", world.live, keys=world.tmp / "keys")


# ------------------------------------------------------------------------- each check taken away


def test_without_the_ledgers_word_an_old_hold_would_bring_it_back(tmp_path, world, monkeypatch):
    """That the test above can fail: with holds in force, what was erased is there again."""
    judged = SqlDestruction.condemn

    def forgetful(self, *arguments, again=False):
        return judged(self, *arguments)

    monkeypatch.setattr(SqlDestruction, "condemn", forgetful)
    with pytest.raises((AssertionError, VaultError, pytest.fail.Exception)):
        test_a_hold_of_an_old_keys_db_does_not_bring_back_what_was_erased_once_it_was_lifted(tmp_path, world)


def test_the_vaults_own_row_is_checked_before_a_state_is_made_to_count(world, monkeypatch):
    with sqlite3.connect(world.tmp / "data" / "data.db") as data:
        data.execute("UPDATE vault SET ledger_no = 0")
    data.close()
    monkeypatch.setattr(copies.quarantine, "copy_file", unchecked(copies.quarantine.copy_file))
    with pytest.raises(Tampered, match="vault's own row"):
        world.restore(keys=world.tmp / "keys", ledger=world.live)


def unchecked(copy):
    """Copies files as if the manifest said what they are."""

    class Whatever(tuple):
        __slots__ = ()

        def __eq__(self, _):
            return True

        def __ne__(self, _):
            return False

        __hash__ = tuple.__hash__

    return lambda source, target: Whatever(copy(source, target))


# --------------------------------------------------------------------------------------- the drill


def files_of(place):
    return {file: file.read_bytes() for file in sorted(place.rglob("*")) if file.is_file()}


def test_a_drill_holds_and_leaves_the_live_vault_and_this_machines_memory_as_they_were(world, tmp_path):
    memory = Path(os.environ["XDG_STATE_HOME"])
    before = files_of(world.live), files_of(memory), files_of(world.root.parent)
    (tmp_path / "drill").mkdir()
    with Vault.open(world.live) as vault:
        done = rehearsal.drill(vault, within=tmp_path / "drill")
    assert [step.name for step in done.steps if not step.held] == []
    assert done.ok
    assert (files_of(world.live), files_of(memory), files_of(world.root.parent)) == before
    assert list((tmp_path / "drill").iterdir()) == []


def test_a_drill_of_a_vault_behind_a_passphrase(tmp_path):
    with Vault.create(tmp_path / "v", root="passphrase:", passphrase="correct horse") as vault:
        vault.access(ALICE).sessions.create().append("a.b", 1)
        done = rehearsal.drill(vault, passphrase="correct horse")
    assert done.ok, done.steps


def test_a_drill_tells_nobody_outside_and_needs_no_document_of_the_live_vault(tmp_path):
    shutil.copy(ROOT / "policies" / "levels.toml", tmp_path / "levels.toml")
    settings = {"external_targets": "crm", "levels": "../levels.toml"}
    (tmp_path / "elsewhere").mkdir()
    with Vault.create(tmp_path / "v", settings=settings) as vault:
        done = rehearsal.drill(vault, within=tmp_path / "elsewhere")
    assert done.ok, done.steps


def test_a_drill_finds_that_what_was_erased_comes_back(world, monkeypatch):
    """That it can fail: with a replay that does nothing."""
    monkeypatch.setattr("vault.wiring.replay", lambda *_: [])
    with Vault.open(world.live) as vault:
        done = rehearsal.drill(vault)
    assert not done.ok
    assert [step.held for step in done.steps][-1] is False


@pytest.mark.parametrize("copy", [data_with_keys_of_today, data_and_old_keys, data_and_old_keys_by_memory])
def test_an_epoch_that_was_erased_does_not_come_back_with_a_backup(tmp_path, monkeypatch, copy):
    """D6: whichever copy is restored; the session lives on, the epoch's events are facts without content"""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    world = World(tmp_path, monkeypatch, ("", "", "", ""))
    (tmp_path / "root").mkdir()
    with Vault.create(world.live, root="file:../root/root.key", settings={"synchronous": "NORMAL"}) as vault:
        session = vault.access(ALICE).sessions.create()
        for epoch in (1, 2, 1):
            session.append("chat.item", SECRET, epoch=epoch)
        copies.backup(vault, tmp_path / "data", tmp_path / "keys")
        session.retract_epoch(1)
        assert vault.verify().ok
    with Vault.open(copy(world)) as vault:
        assert world.read(vault, session.id) == [None, SECRET, None]
        again = vault.access(ALICE).sessions.resume(session.id)
        with pytest.raises(Erased):
            again.append("chat.item", "late", epoch=1)
        again.retract_epoch(1)
        assert vault.verify().ok
