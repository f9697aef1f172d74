"""Streams a gibibyte into a vault and out again; prints whether it came back and the memory that it took.

A program of its own, because the peak of a process's memory counts everything that was before.
"""

import hashlib
import io
import random
import resource
import sys

from vault import Principal, Vault

SIZE = 2**30
PIECE = 2**20


class Source(io.RawIOBase):
    """So many bytes, made while they are read; the random ones repeat only beyond any window of zstd."""

    def __init__(self, size: int, kind: str) -> None:
        super().__init__()
        self.left, self.digest, self._at = size, hashlib.sha256(), 0
        self._block = random.Random(1).randbytes(9 * PIECE) if kind == "incompressible" else bytes(9 * PIECE)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        at = self._at % (8 * PIECE)
        piece = self._block[at : at + min(size, PIECE, self.left)]
        self.left, self._at = self.left - len(piece), self._at + len(piece) + 1
        self.digest.update(piece)
        return piece


def streamed(session, size: int, kind: str) -> bool:
    source, digest = Source(size, kind), hashlib.sha256()
    event = session.append("tool.returned", raw=source)
    with session.open(event) as reader:
        while piece := reader.read(PIECE):
            digest.update(piece)
    return digest.digest() == source.digest.digest()


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(place: str, kind: str) -> None:
    with Vault.create(place) as vault:
        session = vault.access(Principal(tenant="acme", subject="alice")).sessions.create()
        equal = streamed(session, 4 * PIECE, kind)  # whatever is loaded and kept once is not the stream's
        before = peak_mebibytes()
        equal = streamed(session, SIZE, kind) and equal
    print("equal" if equal else "different", peak_mebibytes() - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
