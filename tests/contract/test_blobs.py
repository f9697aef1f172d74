"""What a blob area promises."""

import contextlib
import hashlib
import os

import pytest

from vault.errors import StorageUnavailable, Tampered


def stored(blobs, body):
    address = hashlib.sha256(body).digest()
    with blobs.upload() as upload:
        upload.file.write(body)
        upload.keep(address)
    return address


@pytest.mark.parametrize("size", [0, 1, 65_537, 3_000_000])
def test_a_kept_blob_comes_back_byte_for_byte_and_can_be_read_from_anywhere(blobs, open_blobs, size):
    """L6"""
    body = os.urandom(size)
    address = stored(blobs, body)
    for area in (blobs, open_blobs()):
        with area.open(address) as file:
            assert file.read() == body
            file.seek(size // 2)
            assert file.read() == body[size // 2 :]
    assert list(blobs.addresses()) == [address]


def test_nothing_is_visible_before_it_is_kept(blobs):
    """Invariant 1"""
    body = os.urandom(1_000)
    address = hashlib.sha256(body).digest()
    with blobs.upload() as upload:
        upload.file.write(body)
        assert list(blobs.addresses()) == []
        with pytest.raises(Tampered):
            blobs.open(address)
        upload.keep(address)
        with blobs.open(address) as file:
            assert file.read() == body
    assert list(blobs.addresses()) == [address]


def test_an_upload_that_is_not_kept_is_thrown_away(blobs, open_blobs):
    """Invariant 1"""
    with blobs.upload() as upload:
        upload.file.write(b"x" * 10_000)
    with contextlib.suppress(ZeroDivisionError), blobs.upload() as upload:
        upload.file.write(b"x" * 10_000)
        raise ZeroDivisionError
    assert list(blobs.addresses()) == []
    assert [path for path in open_blobs.place.rglob("*") if path.is_file()] == []


def test_what_was_written_can_be_read_back_before_it_is_kept(blobs):
    """L6: a short stream goes into the database instead"""
    with blobs.upload() as upload:
        upload.file.write(b"short")
        upload.file.seek(0)
        assert upload.file.read() == b"short"


def test_keeping_an_address_twice_changes_nothing(blobs):
    """Invariant 1"""
    body = os.urandom(1_000)
    address = stored(blobs, body)
    assert stored(blobs, body) == address
    with blobs.open(address) as file:
        assert file.read() == body
    assert list(blobs.addresses()) == [address]


def test_a_reader_is_not_disturbed_by_the_same_blob_kept_again(blobs):
    """Invariant 1"""
    body = os.urandom(100_000)
    address = stored(blobs, body)
    with blobs.open(address) as file:
        first = file.read(10)
        stored(blobs, body)
        assert first + file.read() == body


def test_a_blob_that_is_not_there_is_missing(blobs):
    """K4"""
    with pytest.raises(Tampered, match="missing"):
        blobs.open(b"a" * 32)


def test_every_address_is_listed_once(blobs):
    """K4"""
    addresses = {stored(blobs, bytes([number]) * 100) for number in range(60)}
    listed = list(blobs.addresses())
    assert set(listed) == addresses
    assert len(listed) == 60


def test_an_area_that_takes_no_more_says_so(blobs, monkeypatch):
    """Bad input"""

    def broken(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StorageUnavailable):
        stored(blobs, b"x")
    assert list(blobs.addresses()) == []
