"""Large payloads: durable before they are named, stored once within a session, never shared between two."""

import io
import os
import stat
from pathlib import Path

import pytest

from vault import NewEvent, Principal, Vault, new_event_id
from vault.errors import StorageFull, StorageUnavailable, Tampered
from vault.sessions.prepare import INLINE_BYTES_MAX, REPEAT_BYTES_MIN

ALICE = Principal(tenant="acme", subject="alice")


def area(place):
    """The files of the blob area, by name."""
    return {path.name: path for path in (place / "blobs").glob("??/*")}


def bytes_in(place):
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def address(event):
    return event.payload_ref.removeprefix("blob://sha256/")


def test_payloads_up_to_64_kib_stand_in_the_database_and_larger_ones_in_files(session, place):
    """L6"""
    sizes = [0, 100, 1_000, 40_000, 63_000, 64_600, 66_000, 70_000, 1_000_000]
    events = [session.append("a.b", raw=os.urandom(size)) for size in sizes]
    assert {event.size > INLINE_BYTES_MAX for event in events} == {True, False}
    for event in events:
        assert (address(event) in area(place)) == (event.size > INLINE_BYTES_MAX), event.size
    large = [event for event in events if event.size > INLINE_BYTES_MAX]
    assert {name: path.stat().st_size for name, path in area(place).items()} == {
        address(event): event.size for event in large
    }
    assert all(path.parent.name == name[:2] for name, path in area(place).items())


def test_only_the_owner_of_the_files_can_read_them(session, place):
    """K1"""
    session.append("a.b", raw=os.urandom(100_000))
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [place, *(place / "blobs").rglob("*")]}
    assert {mode & 0o077 for mode in modes.values()} == {0}


def test_a_payload_repeated_in_a_session_is_stored_once(session, vault, place, tmp_path):
    """L6: 1,000 times the same 3 MB payload take about 3 MB"""
    body = os.urandom(3_000_000)
    events = []
    while len(events) < 1_000:
        events += session.append_many([NewEvent(type="screen.seen", raw=body)] * 20)
    assert len({event.payload_ref for event in events}) == 1
    assert len({event.id for event in events}) == len(events) == 1_000
    vault.close()
    assert bytes_in(place) < 3_000_000 * 1.4
    with Vault.open(place) as again:
        resumed = again.access(ALICE).sessions.resume(session.id)
        (middle,) = resumed.slice(events[500].id, events[500].id)
        with resumed.open(middle) as stream:
            assert stream.read() == body
        assert again.verify().findings == ()


@pytest.mark.parametrize("size", [REPEAT_BYTES_MIN, 40_000, 70_000, 500_000])
@pytest.mark.parametrize("form", ["bytes", "stream"])
def test_repeats_of_any_size_and_form_share_one_blob(session, as_raw, size, form):
    """L6"""
    body = os.urandom(size)
    events = [session.append("a.b", raw=as_raw(form, body)) for _ in range(3)]
    events += session.append_many([NewEvent(type="a.b", raw=body), NewEvent(type="c.d", raw=body)])
    assert len({event.payload_ref for event in events}) == 1
    assert {event.raw for event in session.events()} == {body}


def test_repeats_within_one_batch_share_one_blob(session, place):
    """L6"""
    body = os.urandom(90_000)
    events = session.append_many([NewEvent(type="a.b", raw=body)] * 5)
    assert len({event.payload_ref for event in events}) == 1
    assert {event.raw for event in session.events()} == {body}
    assert set(area(place)) == {address(events[0])}
    large = os.urandom(1_200_000)
    streamed = session.append_many([NewEvent(type="a.b", raw=io.BytesIO(large)) for _ in range(3)])
    assert set(area(place)) == {address(events[0]), address(streamed[0])}


def test_equal_payloads_of_two_sessions_have_nothing_in_common(alice, place, vault):
    """K2: sharing between sessions would contradict erasure and answer guesses"""
    body = os.urandom(100_000)
    one, other = alice.create(), alice.create()
    stranger = vault.access(Principal(tenant="acme", subject="bob")).sessions.create()
    events = [session.append("a.b", raw=body) for session in (one, other, stranger)]
    assert len({event.payload_ref for event in events}) == 3
    assert set(area(place)) == {address(event) for event in events}


class Spy:
    """Writes down, in order, what becomes durable: files, directories, renames, and commits."""

    def __init__(self, monkeypatch, vault):
        self.seen = []
        fsync, replace = os.fsync, Path.replace

        def synced(descriptor):
            fsync(descriptor)
            self.seen.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink()))

        def renamed(path, target):
            replace(path, target)
            self.seen.append(("rename", path, Path(target)))
            return Path(target)

        transact = vault._records.transact

        def committed(work):
            self.seen.append(("transaction",))
            return transact(work)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "replace", renamed)
        monkeypatch.setattr(vault._records, "transact", committed)


@pytest.mark.parametrize("form", ["bytes", "stream"])
def test_a_blob_is_durable_under_its_name_before_the_row_that_names_it(
    session, vault, place, as_raw, monkeypatch, form
):
    """L2, invariants 1 and 5"""
    spy = Spy(monkeypatch, vault)
    event = session.append("a.b", raw=as_raw(form, os.urandom(2_000_000)))
    target = area(place)[address(event)]
    kinds = [entry[0] for entry in spy.seen]
    rename = kinds.index("rename")
    _, source, renamed = spy.seen[rename]
    assert renamed == target
    assert source.parent == place / "blobs" / "incoming"
    before, after = spy.seen[:rename], spy.seen[rename + 1 : kinds.index("transaction")]
    assert ("sync", source) in before
    assert ("sync", place / "blobs") in before  # the new shard's own entry
    assert ("sync", target.parent) in after
    assert kinds.count("rename") == 1


def test_nothing_is_written_to_files_while_a_transaction_is_open(session, vault, monkeypatch):
    """Invariant 5"""
    opened, uploads = [], []
    transact, upload = vault._records.transact, vault._log.blobs.upload

    def inside(work):
        def wrapped(transaction):
            opened.append(True)
            try:
                return work(transaction)
            finally:
                opened.pop()

        return transact(wrapped)

    def watched():
        uploads.append(bool(opened))
        return upload()

    monkeypatch.setattr(vault._records, "transact", inside)
    monkeypatch.setattr(vault._log.blobs, "upload", watched)
    session.append_many([NewEvent(type="a.b", raw=os.urandom(100_000)) for _ in range(3)])
    session.append("a.b", raw=io.BytesIO(os.urandom(2_000_000)))
    assert uploads == [False] * 4


def test_files_left_over_by_a_crash_do_no_harm(session, vault, place):
    """L2"""
    event = session.append("a.b", raw=os.urandom(100_000))
    (place / "blobs" / "incoming" / "tmp1234").write_bytes(b"half a blob")
    (place / "blobs" / address(event)[:2] / "not-a-blob").write_bytes(b"")
    vault.close()
    with Vault.open(place) as again:
        resumed = again.access(ALICE).sessions.resume(session.id)
        assert list(resumed.events()) == [event]
        resumed.append("a.b", raw=os.urandom(100_000))
        assert again.verify().findings == ()


def test_an_upload_that_is_given_up_leaves_nothing_behind(session, place):
    """L2"""

    class Broken(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 1_500_000:
                raise ZeroDivisionError
            return super().read(size)

    with pytest.raises(ZeroDivisionError):
        session.append("a.b", raw=Broken(os.urandom(3_000_000)))
    assert list((place / "blobs" / "incoming").iterdir()) == []
    assert area(place) == {}
    assert list(session.events()) == []


def test_a_blob_whose_event_was_refused_is_no_sign_of_tampering(session, vault, alice, place):
    """L2, D6: it was durable first, as it must be; what nothing will name is deleted again"""
    event_id = new_event_id()
    stored = session.append("a.b", "small", event_id=event_id)
    for refused in (
        lambda: session.append("a.b", raw=os.urandom(100_000), event_id=event_id),
        lambda: session.append("a.b", raw=os.urandom(100_000), expect_head=7),
    ):
        with pytest.raises(Exception, match="event"):
            refused()
    assert list(session.events()) == [stored]
    report = vault.verify()
    assert report.findings == ()
    assert report.counts["unnamed_blobs"] == 0


def test_a_missing_file_is_named_as_such(session, place, vault):
    """K4"""
    event = session.append("a.b", raw=os.urandom(100_000))
    area(place)[address(event)].unlink()
    with pytest.raises(Tampered, match="missing"):
        list(session.events())
    with pytest.raises(Tampered, match="missing"):
        session.open(event)
    assert [finding.kind for finding in vault.verify().findings] == ["blob"]


@pytest.mark.parametrize("errno_name", ["ENOSPC", "EDQUOT", "EFBIG"])
def test_a_full_disk_is_said_and_nothing_is_kept(session, vault, place, monkeypatch, errno_name):
    """Bad input"""
    import errno

    def full(descriptor):
        raise OSError(getattr(errno, errno_name), "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageFull):
            session.append("a.b", raw=os.urandom(100_000))
    assert list((place / "blobs" / "incoming").iterdir()) == []
    assert list(session.events()) == []
    session.append("a.b", raw=os.urandom(100_000))
    assert vault.verify().findings == ()


def test_another_error_of_the_disk_is_said_without_a_path(session, monkeypatch, tmp_path):
    """Invariant 13"""

    def broken(descriptor):
        raise OSError(5, "Input/output error", str(tmp_path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(StorageUnavailable) as refusal:
            session.append("a.b", raw=os.urandom(100_000))
    assert "input/output error" in str(refusal.value)
    assert str(tmp_path) not in str(refusal.value)
