"""The sealed payload: format byte, then Cobblestone-256 over a compressed and padded body.

Reference: docs/reference/sealed-format.md. The cipher is C2SP chunked encryption with AES-256-GCM and
HKDF-Expand-SHA-512: a random 192-bit salt and a 32-byte key commitment per message, 16 KiB chunks, the
context bound into the key derivation. So a payload opens only with its key *and* its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import zstandard
from cryptography.cobblestone import Cobblestone256Decryptor, Cobblestone256Encryptor
from cryptography.exceptions import InvalidTag

from vault.encoding import u64
from vault.errors import LimitExceeded, Tampered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: First byte of everything sealed. Any other value is refused: there is no other format and no plaintext.
FORMAT: Final = b"\x01"
#: Below this, zstd's frame costs more than it saves (research: ratio 0.67 at 256 B, 0.42 at 1 KB).
COMPRESS_MIN: Final = 512
#: Smallest padded body; PADME's own buckets below it would still tell short answers apart.
PAD_MIN: Final = 64
_RAW: Final = b"\x00"
_ZSTD: Final = b"\x01"
_TRAILER: Final = 16  # two u64: bytes of the stored body, bytes of the body before compression
_CHUNK: Final = 256 * 1024
_ZEROS: Final = bytes(_CHUNK)

_local = threading.local()  # zstd contexts are fast to reuse and must not be shared between threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealing:
    """How bodies are prepared before encryption: ``compress`` (zstd) and ``pad`` (PADME)."""

    compress: bool = True
    pad: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedStream:
    """What was written by ``seal_stream``: address (SHA-256 of the sealed bytes), sizes, content hash."""

    address: bytes
    size: int
    plain_size: int
    content_id: bytes


def padded_length(length: int) -> int:
    """PADME's bucket for a length: at most 12 % longer, and only O(log log n) bits of it are told.

    Source: Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs", §4.
    """
    if length <= PAD_MIN:
        return PAD_MIN
    exponent = length.bit_length() - 1
    mask = (1 << exponent - exponent.bit_length()) - 1
    return (length + mask) & ~mask


def seal(key: bytes, context: bytes, body: bytes, how: Sealing) -> bytes:
    """The sealed form of ``body``: it opens only with this key and this context.

    Args:
        key: 32 bytes.
        context: canonical bytes of the place (``encoding.pack``).
        body: what to hide.
        how: compression and padding.
    """
    stored, flag = body, _RAW
    if how.compress and len(body) >= COMPRESS_MIN:
        packed = _compressor().compress(body)
        if len(packed) < len(body):
            stored, flag = packed, _ZSTD
    length = 1 + len(stored) + _TRAILER
    padding = bytes(padded_length(length) - length) if how.pad else b""
    encryptor = Cobblestone256Encryptor(key, context)
    inner = b"".join((flag, stored, padding, u64(len(stored)), u64(len(body))))
    return FORMAT + encryptor.update(inner) + encryptor.finalize()


def unseal(key: bytes, context: bytes, sealed: bytes) -> bytes:
    """The body of a sealed payload; nothing is returned before the end is authenticated.

    Raises:
        Tampered: another key, another place, an unknown format, or any changed or missing byte.
    """
    if sealed[:1] != FORMAT:
        raise Tampered("a sealed payload has an unknown format")
    try:
        decryptor = Cobblestone256Decryptor(key, context)
        inner = decryptor.update(memoryview(sealed)[1:]) + decryptor.finalize()
    except InvalidTag:
        raise Tampered("a sealed payload does not verify") from None
    stored_size, plain_size = _sizes(inner[-_TRAILER:], len(inner))
    stored = inner[1 : 1 + stored_size]
    if inner[:1] == _RAW:
        return stored
    # The size comes from inside the seal, so it is ours: a compression bomb cannot be planted.
    return _decompressor().decompress(stored, max_output_size=max(plain_size, 1))


def seal_stream(
    key: bytes,
    context: bytes,
    source: BinaryIO,
    target: BinaryIO,
    *,
    content_key: bytes,
    limit: int,
    how: Sealing,
) -> SealedStream:
    """Seal a stream in constant memory, reading chunks of 256 KiB.

    Args:
        key, context: as for ``seal``.
        source, target: read to its end; gets the sealed bytes, which the caller makes durable.
        content_key: keys the content id, which finds repeats within a session.
        limit, how: most bytes that may come from ``source``; compression and padding.

    Raises:
        LimitExceeded: the source is longer than ``limit``.
    """
    address, content = hashlib.sha256(), content_hash(content_key)
    encryptor = Cobblestone256Encryptor(key, context)
    packer = zstandard.ZstdCompressor(level=1).compressobj() if how.compress else None
    size, stored_size, plain_size = 0, 0, 0

    def write(sealed: bytes) -> None:
        nonlocal size
        address.update(sealed)
        size += target.write(sealed)

    write(FORMAT + encryptor.update(_ZSTD if packer else _RAW))
    while chunk := source.read(_CHUNK):
        plain_size += len(chunk)
        if plain_size > limit:
            raise LimitExceeded(f"a streamed payload is longer than {limit} bytes; split it")
        content.update(chunk)
        stored = packer.compress(chunk) if packer else chunk
        stored_size += len(stored)
        write(encryptor.update(stored))
    if packer:
        stored = packer.flush()
        stored_size += len(stored)
        write(encryptor.update(stored))
    for zeros in _padding(1 + stored_size + _TRAILER) if how.pad else ():
        write(encryptor.update(zeros))
    write(encryptor.update(u64(stored_size) + u64(plain_size)) + encryptor.finalize())
    return SealedStream(
        address=address.digest(), size=size, plain_size=plain_size, content_id=content.digest()
    )


def unseal_stream(key: bytes, context: bytes, source: BinaryIO, address: bytes) -> BinaryIO:
    """A reader of a sealed stream, made only after the whole of it was authenticated.

    The source is read twice: once to check its address and every chunk to the end, releasing nothing; then
    again, releasing. No plaintext is ever spooled to disk. A source that is changed between the two passes
    still fails chunk by chunk, with ``Tampered`` from ``read``.

    Args:
        key: 32 bytes.
        context: canonical bytes of the place.
        source: seekable, owned by the reader from now on and closed with it.
        address: SHA-256 that the sealed bytes must have.

    Raises:
        Tampered: as ``unseal``, or the bytes are not those of the address.
    """
    digest, tail, length = hashlib.sha256(), b"", 0
    with contextlib.ExitStack() as unless_returned:
        unless_returned.callback(source.close)
        for sealed, inner in _decrypted(key, context, source):
            digest.update(sealed)
            length += len(inner)
            tail = (tail + inner)[-_TRAILER:]
        if digest.digest() != address:
            raise Tampered("a stored blob is not the one that the log names")
        stored_size, _ = _sizes(tail, length)
        source.seek(0)
        unless_returned.pop_all()
    return io.BufferedReader(_SealedReader(key, context, source, stored_size), _CHUNK)


def content_hash(content_key: bytes) -> hashlib.blake2b:
    """A keyed hash of content: equal payloads of one epoch meet, and nobody without the key can guess one.

    16 bytes: two of 2**32 payloads of a session meet by chance with probability 2**-65.
    """
    return hashlib.blake2b(key=content_key, digest_size=16, person=b"sv1.content")


def _decrypted(key: bytes, context: bytes, source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Pairs of sealed chunk and authenticated plaintext chunk, to the authenticated end."""
    decryptor = Cobblestone256Decryptor(key, context)
    try:
        first = source.read(1)
        if first != FORMAT:
            raise Tampered("a sealed payload has an unknown format")
        yield first, b""
        while chunk := source.read(_CHUNK):
            yield chunk, decryptor.update(chunk)
        yield b"", decryptor.finalize()
    except InvalidTag:
        raise Tampered("a sealed payload does not verify") from None


def _padding(length: int) -> Iterator[bytes]:
    left = padded_length(length) - length
    while left > 0:
        yield _ZEROS[:left]
        left -= _CHUNK


def _sizes(trailer: bytes, length: int) -> tuple[int, int]:
    stored, plain = int.from_bytes(trailer[:8]), int.from_bytes(trailer[8:])
    if len(trailer) != _TRAILER or 1 + stored + _TRAILER > length:
        raise Tampered("a sealed payload states an impossible length")
    return stored, plain


def _compressor() -> zstandard.ZstdCompressor:
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(level=1)
    return _local.compressor  # type: ignore[no-any-return]


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    return _local.decompressor  # type: ignore[no-any-return]


class _SealedReader(io.RawIOBase):
    """The second pass of ``unseal_stream``: releases the stored body, decompressed, and nothing behind it."""

    def __init__(self, key: bytes, context: bytes, source: BinaryIO, stored_size: int) -> None:
        super().__init__()
        self._source = source
        self._plain = self._released(_decrypted(key, context, source), stored_size)
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            chunk = next(self._plain, None)
            if chunk is None:
                return 0
            self._ready = memoryview(chunk)
        taken = min(len(buffer), len(self._ready))
        buffer[:taken] = self._ready[:taken]
        self._ready = self._ready[taken:]
        return taken

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()

    @staticmethod
    def _released(pairs: Iterator[tuple[bytes, bytes]], stored_size: int) -> Iterator[bytes]:
        flag, first = b"", b""
        for _, inner in pairs:
            if inner:
                flag, first = inner[:1], inner[1:]
                break
        stored = _cut(itertools.chain([first], (inner for _, inner in pairs)), stored_size)
        if flag == _ZSTD:
            # In pieces of bounded size: a sealed chunk of 256 KiB can be a gibibyte of zeros.
            return zstandard.ZstdDecompressor().read_to_iter(_Pieces(stored))  # type: ignore[arg-type]
        return stored


class _Pieces:
    """An iterator of non-empty pieces as the reader that zstd asks for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, b""

    def read(self, size: int) -> bytes:
        piece = self._left or next(self._pieces, b"")
        self._left = piece[size:]  # zstd writes past its buffer when it gets more than it asked for
        return piece[:size]


def _cut(pieces: Iterable[bytes], left: int) -> Iterator[bytes]:
    """The first ``left`` bytes of the pieces, none of them empty; what follows is still read, to its end."""
    for piece in pieces:
        body = piece[: max(left, 0)]
        left -= len(body)
        if body:
            yield body
