"""Artifacts are streamed, versioned, found by name, for their owner alone (D4, O1)."""

import hashlib
import io
import resource
from datetime import timedelta

import pytest

from vault import Principal, Vault
from vault.errors import InvalidInput, LimitExceeded, NotFound, StorageUnavailable

ALICE = Principal(tenant="acme", subject="alice")
BOB = Principal(tenant="acme", subject="bob")
EVE = Principal(tenant="other", subject="alice")
ABSENT = "there is no such derived item"
NOISE = bytes(hashlib.shake_256(b"noise").digest(300_000))


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def put(alice, session):
    def made(name, content, **about):
        return alice.artifacts.put(name, content, **{"sources": [session], **about})

    return made


@pytest.fixture
def session(alice):
    return alice.sessions.create(title="August sales")


class Endless(io.RawIOBase):
    """So many bytes that compress to little, read as they come and never held."""

    def __init__(self, left):
        self.left = left

    def readable(self):
        return True

    def read(self, size=-1):
        taken = min(self.left, 1000 if size < 0 else size)
        self.left -= taken
        return bytes(taken)


def test_an_artifact_reads_back_byte_for_byte_however_it_was_given(put, alice):
    for content in (b"", b"x", b"hello" * 100, NOISE, bytes(2_000_000)):
        for form in (content, io.BytesIO(content)):
            made = put("report.pdf", form, media_type="application/pdf")
            assert made.bytes == len(content)
            with made.open() as stream:
                assert stream.read() == content
            found = alice.artifacts.get("report.pdf")
            assert found.media_type == "application/pdf"
            with found.open() as stream:
                assert stream.read() == content


def test_large_ones_stand_in_the_blob_area_and_small_ones_in_the_database(put, place):
    put("small", b"x" * 1000)
    assert not list((place / "blobs").glob("??/*"))
    put("large", NOISE)
    (file,) = (place / "blobs").glob("??/*")
    sealed = file.read_bytes()
    assert sealed[:1] == b"\x01"
    assert NOISE[:64] not in sealed


def test_a_gibibyte_goes_through_little_memory(put, alice):
    """Invariant 12: measured on what this process had at most."""
    put("warm", bytes(10_000_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = put("large", Endless(2**30))
    assert made.bytes == 2**30
    count = 0
    with made.open() as stream:
        while chunk := stream.read(2**20):
            count += len(chunk)
    assert count == 2**30
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 64 * 2**20


def test_versions_stay_and_are_found_by_number(put, alice):
    first, second = put("a", b"1", labels={"for": "x"}), put("a", b"2")
    assert (first.version, second.version) == (1, 2)
    assert alice.artifacts.get("a").id == second.id
    old = alice.artifacts.get("a", 1)
    assert (old.id, old.state, old.labels) == (first.id, "superseded", {"for": "x"})
    assert old.open().read() == b"1"
    for version in (3, 2**62):
        with pytest.raises(NotFound, match=ABSENT):
            alice.artifacts.get("a", version)
    for version in (0, -1, True, "1"):
        with pytest.raises(InvalidInput):
            alice.artifacts.get("a", version)


def test_when_the_newest_version_goes_the_one_before_does_not_come_back_by_itself(put, alice):
    gone = alice.sessions.create()
    first = put("a", b"1")
    put("a", b"2", sources=[gone])
    alice.erasure.erase(session=gone.id)
    with pytest.raises(NotFound, match=ABSENT):
        alice.artifacts.get("a")
    assert alice.artifacts.list() == []
    assert alice.artifacts.get("a", 1).id == first.id
    assert put("a", b"3").version == 2


def test_a_list_shows_the_newest_versions_the_last_one_first(put, alice):
    for name in ("a", "b", "a", "c"):
        put(name, b"x")
    assert [(one.name, one.version) for one in alice.artifacts.list()] == [("c", 1), ("a", 2), ("b", 1)]
    assert [one.name for one in alice.artifacts.list(limit=2)] == ["c", "a"]
    for limit in (0, 1001, True):
        with pytest.raises(InvalidInput):
            alice.artifacts.list(limit=limit)


@pytest.mark.parametrize("other", [BOB, EVE], ids=["another owner", "another tenant"])
def test_an_artifact_is_not_there_for_anybody_else(vault, put, other):
    put("a", b"1")
    theirs = vault.access(other).artifacts
    for ask in (lambda: theirs.get("a"), lambda: theirs.get("a", 1), lambda: theirs.get("b")):
        with pytest.raises(NotFound) as refused:
            ask()
        assert str(refused.value) == ABSENT
    assert theirs.list() == []


def test_an_artifact_is_hidden_when_its_time_is_over(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as vault:
        alice = vault.access(ALICE)
        made = alice.artifacts.put("a", b"1", sources=[alice.sessions.create()], ttl=timedelta(hours=1))
        assert made.open().read() == b"1"
        clock.now += 3_600_000_000
        for ask in (lambda: alice.artifacts.get("a"), lambda: alice.artifacts.get("a", 1), made.open):
            with pytest.raises(NotFound, match=ABSENT):
                ask()
        assert alice.artifacts.list() == []


def test_what_is_no_file_is_refused_and_nothing_is_kept(put, alice, place, monkeypatch):
    for wrong in ("text", None, 7, io.StringIO("text")):
        with pytest.raises(InvalidInput, match="bytes"):
            put("a", wrong)
    for about in ({"media_type": ""}, {"media_type": "x" * 257}, {"on_source_erased": "detach"}):
        with pytest.raises(InvalidInput):
            put("a", b"1", **about)
    monkeypatch.setattr("vault.derived.putting.STREAM_BYTES_MAX", 1000)
    with pytest.raises(LimitExceeded):
        put("a", bytes(1001))
    assert alice.artifacts.list() == []
    assert not [file for file in (place / "blobs").rglob("*") if file.is_file()]


def test_an_artifact_can_be_detached_for_a_reason(put, alice):
    made = put("a", b"1", on_source_erased="detach", reason="a form without anything filled in")
    assert alice.artifacts.get("a") == made
    assert made.on_source_erased == "detach"


def test_a_stream_that_breaks_leaves_the_version_before(put, alice, place):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise OSError(5, "gone")

    put("a", b"1")
    with pytest.raises(StorageUnavailable):
        put("a", Broken())
    assert alice.artifacts.get("a").open().read() == b"1"
    assert alice.artifacts.get("a").version == 1
