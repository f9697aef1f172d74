"""The sealed payload: opens with its key at its place and in no other way (K2); streams in little memory."""

import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vault.encoding import pack, u64
from vault.errors import LimitExceeded, Tampered
from vault.sealing.keys import derive, unwrap, wrap
from vault.sealing.payload import (
    FORMAT,
    PAD_MIN,
    Sealing,
    padded_length,
    seal,
    seal_stream,
    unseal,
    unseal_stream,
)

KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
CONTEXT = pack(b"a place", b"payload")
HOWS = [Sealing(compress=compress, pad=pad) for compress in (True, False) for pad in (True, False)]
#: Bytes of body, flag and two lengths fill the cipher's 16 KiB chunks exactly at 16,367 and 32,751.
EDGES = [0, 1, 63, 64, 511, 512, 16_366, 16_367, 16_368, 32_750, 32_751, 32_752, 100_000]
CHUNK, TAG, HEAD = 16 * 1024, 16, 1 + 24 + 32

hows = st.sampled_from(HOWS)
contexts = st.lists(st.binary(max_size=20), max_size=4).map(lambda fields: pack(*fields))
bodies = st.one_of(
    st.binary(max_size=2_000),
    st.builds(lambda part, times: part * times, st.binary(min_size=1, max_size=9), st.integers(1, 4_000)),
)
keys = st.binary(min_size=32, max_size=32)


def streamed(body: bytes, how: Sealing, limit: int = 2**30):
    target = io.BytesIO()
    stream = seal_stream(KEY, CONTEXT, io.BytesIO(body), target, content_key=OTHER_KEY, limit=limit, how=how)
    return target.getvalue(), stream


def read_back(sealed: bytes, *, key: bytes = KEY, context: bytes = CONTEXT, address: bytes | None = None):
    address = hashlib.sha256(sealed).digest() if address is None else address
    with unseal_stream(key, context, io.BytesIO(sealed), address) as reader:
        return reader.read()


def both_refuse(sealed: bytes, key: bytes = KEY, context: bytes = CONTEXT) -> None:
    """Neither way of opening gives anything for these bytes, even under the address that is theirs."""
    with pytest.raises(Tampered):
        unseal(key, context, sealed)
    with pytest.raises(Tampered):
        read_back(sealed, key=key, context=context)


@given(body=bodies, key=keys, context=contexts, how=hows)
def test_what_is_sealed_opens_as_it_was(body, key, context, how):
    assert unseal(key, context, seal(key, context, body, how)) == body


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("how", HOWS, ids=repr)
def test_bodies_around_the_edges_of_chunks_open_as_they_were(size, how):
    for body in (os.urandom(size), b"a" * size):
        sealed = seal(KEY, CONTEXT, body, how)
        assert unseal(KEY, CONTEXT, sealed) == body
        assert read_back(sealed) == body


@given(body=bodies, how=hows)
def test_a_stream_opens_like_a_payload_and_a_payload_like_a_stream(body, how):
    sealed, stream = streamed(body, how)
    assert unseal(KEY, CONTEXT, sealed) == body
    assert read_back(sealed) == body
    assert read_back(seal(KEY, CONTEXT, body, how)) == body
    assert (stream.size, stream.plain_size) == (len(sealed), len(body))
    assert stream.address == hashlib.sha256(sealed).digest()


@given(body=bodies, key=keys, context=contexts)
def test_nothing_opens_with_another_key_or_at_another_place(body, key, context):
    sealed = seal(KEY, CONTEXT, body, Sealing())
    if key != KEY:
        both_refuse(sealed, key=key)
    if context != CONTEXT:
        both_refuse(sealed, context=context)


def test_equal_bodies_are_never_sealed_to_equal_bytes():
    assert len({seal(KEY, CONTEXT, b"yes", Sealing()) for _ in range(100)}) == 100


def test_every_single_flipped_bit_is_refused():
    sealed = seal(KEY, CONTEXT, b"attack at dawn", Sealing())
    for place in range(len(sealed)):
        for bit in range(8):
            both_refuse(sealed[:place] + bytes([sealed[place] ^ 1 << bit]) + sealed[place + 1 :])


@settings(max_examples=50)
@given(data=st.data(), how=hows)
def test_a_flipped_byte_of_a_long_payload_is_refused(data, how):
    sealed = seal(KEY, CONTEXT, os.urandom(40_000), how)
    place, change = data.draw(st.integers(0, len(sealed) - 1)), data.draw(st.integers(1, 255))
    both_refuse(sealed[:place] + bytes([sealed[place] ^ change]) + sealed[place + 1 :])


@settings(max_examples=50)
@given(data=st.data(), body=bodies)
def test_a_missing_or_an_appended_byte_is_refused(data, body):
    sealed = seal(KEY, CONTEXT, body, Sealing())
    place = data.draw(st.integers(0, len(sealed)))
    both_refuse(sealed[:place] + data.draw(st.binary(min_size=1, max_size=40)) + sealed[place:])
    both_refuse(sealed[:place] + sealed[place + 1 :] if place < len(sealed) else sealed[1:])


@pytest.mark.parametrize("body_size", [100, 16_367, 40_000], ids=["one chunk", "full chunk", "three chunks"])
def test_a_payload_that_is_cut_off_anywhere_is_refused(body_size):
    sealed = seal(KEY, CONTEXT, os.urandom(body_size), Sealing(compress=False, pad=False))
    chunk_ends = range(HEAD, len(sealed), CHUNK + TAG)
    assert chunk_ends
    for end in {0, 1, 25, *chunk_ends, *(end - 1 for end in chunk_ends), *(end + 1 for end in chunk_ends)}:
        both_refuse(sealed[:end])


def test_chunks_cannot_be_exchanged_repeated_or_taken_from_another_payload():
    def chunks(sealed):
        return [sealed[at : at + CHUNK + TAG] for at in range(HEAD, len(sealed), CHUNK + TAG)]

    how = Sealing(compress=False, pad=False)
    one, two = (seal(KEY, CONTEXT, os.urandom(50_000), how) for _ in range(2))
    first, second, third, last = chunks(one)
    for parts in (
        (second, first, third, last),
        (first, first, third, last),
        (first, third, last),
        (first, second, last),
        (first, second, third, third, last),
        (chunks(two)[0], second, third, last),
    ):
        both_refuse(one[:HEAD] + b"".join(parts))


@pytest.mark.parametrize("first", [b"", b"\x00", b"\x02", b"{", b"\xff"])
def test_there_is_no_other_format_and_no_plaintext(first):
    for rest in (b"", b'{"content": "hello"}', seal(KEY, CONTEXT, b"x", Sealing())[1:]):
        both_refuse(first + rest if first else b"")


@pytest.mark.parametrize(
    "inner",
    [
        b"",
        b"\x00",
        bytes(16),
        b"\x00" + u64(1) + u64(1),
        b"\x00abc" + u64(4) + u64(4),
        b"\x00abc" + u64(2**63) + u64(3),
    ],
    ids=["nothing", "flag", "no flag", "one too many", "a byte too many", "huge"],
)
def test_lengths_that_do_not_fit_are_refused_even_under_the_right_key(inner):
    from vault.sealing.payload import Cobblestone256Encryptor

    encryptor = Cobblestone256Encryptor(KEY, CONTEXT)
    both_refuse(FORMAT + encryptor.update(inner) + encryptor.finalize())


# -------------------------------------------------------------------------------------------- padding


@given(st.integers(0, 2**40))
def test_padding_costs_at_most_12_percent_and_never_shortens(length):
    padded = padded_length(length)
    assert padded >= max(length, PAD_MIN)
    if length > PAD_MIN:
        assert padded <= length * 1.12
    assert padded_length(padded) == padded


@given(st.integers(0, 2**40), st.integers(0, 2**20))
def test_a_longer_body_is_never_padded_to_less(length, more):
    assert padded_length(length) <= padded_length(length + more)


def test_short_answers_look_alike():
    sizes = {len(seal(KEY, CONTEXT, b"x" * size, Sealing())) for size in range(48)}
    assert len(sizes) == 1


def test_lengths_fall_into_few_buckets():
    """PURBs, §4: O(log log n) bits of a length are told; 64 Ki lengths here give no more than 200."""
    assert len({padded_length(length) for length in range(2**16)}) < 200


# -------------------------------------------------------------------------------------------- streams


@given(body=st.binary(min_size=1, max_size=3_000), how=hows)
def test_a_stream_up_to_its_limit_is_taken_and_one_byte_more_is_refused(body, how):
    streamed(body, how, limit=len(body))
    with pytest.raises(LimitExceeded):
        streamed(body, how, limit=len(body) - 1)


def test_equal_streams_have_equal_content_ids_and_only_under_one_key():
    def content(key, body):
        stream = seal_stream(
            KEY, CONTEXT, io.BytesIO(body), io.BytesIO(), content_key=key, limit=100, how=Sealing()
        )
        return stream.content_id

    assert content(KEY, b"same") == content(KEY, b"same")
    assert len({content(KEY, b"same"), content(OTHER_KEY, b"same"), content(KEY, b"sane")}) == 3


def test_a_sealed_stream_is_refused_under_another_address():
    sealed, _ = streamed(os.urandom(1_000), Sealing())
    with pytest.raises(Tampered):
        read_back(sealed, address=bytes(32))


def test_nothing_is_released_of_a_stream_whose_end_is_damaged():
    sealed, _ = streamed(os.urandom(1_000_000), Sealing())
    damaged = sealed[:-1] + bytes([sealed[-1] ^ 1])
    with pytest.raises(Tampered):
        unseal_stream(KEY, CONTEXT, io.BytesIO(damaged), hashlib.sha256(damaged).digest())


def test_a_source_that_changes_after_it_was_checked_is_refused_while_reading():
    body = os.urandom(1_000_000)
    sealed, stream = streamed(body, Sealing())
    source = io.BytesIO(sealed)
    reader = unseal_stream(KEY, CONTEXT, source, stream.address)
    source.getbuffer()[len(sealed) * 3 // 4] ^= 1
    released = []
    with pytest.raises(Tampered):
        released.extend(iter(lambda: reader.read(10_000), b""))
    assert body.startswith(b"".join(released))


def test_a_stream_is_read_in_pieces_of_any_size():
    body = b"0123456789" * 70_000
    sealed, stream = streamed(body, Sealing())
    for size in (1_000, 65_536, 300_000):
        reader = unseal_stream(KEY, CONTEXT, io.BytesIO(sealed), stream.address)
        pieces = list(iter(lambda reader=reader, size=size: reader.read(size), b""))
        assert b"".join(pieces) == body
        assert {len(piece) for piece in pieces[:-1]} <= {size}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["incompressible", "compressible"])
def test_a_gibibyte_streams_in_and_out_in_less_than_64_mib_more_memory(kind, tmp_path):
    program = Path(__file__).with_name("stream_a_gibibyte.py")
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, program, tmp_path / "a.vault", kind],
        env=os.environ | {"PYTHONPATH": str(root), "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    read_equal, mebibytes = result.stdout.split()
    assert read_equal == "equal"
    assert float(mebibytes) < 64


# ---------------------------------------------------------------------------------------------- wraps


def test_a_wrapped_key_opens_under_its_parent_at_its_place_only():
    """K3"""
    wrapped = wrap(KEY, OTHER_KEY, CONTEXT)
    assert unwrap(KEY, wrapped, CONTEXT) == OTHER_KEY
    assert len(wrapped) == 1 + 24 + 32 + 32 + 16
    with pytest.raises(Tampered):
        unwrap(OTHER_KEY, wrapped, CONTEXT)
    with pytest.raises(Tampered):
        unwrap(KEY, wrapped, CONTEXT + b"\x00")
    for place in range(len(wrapped)):
        with pytest.raises(Tampered):
            unwrap(KEY, wrapped[:place] + bytes([wrapped[place] ^ 1]) + wrapped[place + 1 :], CONTEXT)


def test_a_key_gives_other_keys_for_other_purposes():
    assert len({derive(KEY, b"payload"), derive(KEY, b"row-mac"), derive(OTHER_KEY, b"payload"), KEY}) == 4
