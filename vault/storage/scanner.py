"""The process that looks through a vault's files (`remains`); it imports nothing of the vault.

Reads one JSON document on standard input: ``directory``, ``ledger`` (left out), ``needles`` in hexadecimal.
Writes one JSON line for each file done, and a last one with the names of those that hold a needle.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import re2  # type: ignore[import-untyped]

_CHUNK = 8 * 2**20


def main() -> None:
    """Look through the files."""
    asked = json.load(sys.stdin)
    directory, ledger = Path(asked["directory"]), Path(asked["ledger"])
    needles = [bytes.fromhex(needle) for needle in asked["needles"]]
    files = [file for file in sorted(directory.rglob("*")) if ledger not in file.parents and file.is_file()]
    sizes = [_size(file) for file in files]
    find = _finder(needles) if needles else None
    done, size, found = 0, sum(sizes), []
    for file, length in zip(files, sizes, strict=True):
        if find is not None and any(find(piece) for piece in _pieces(file, max(map(len, needles)))):
            found.append(str(file.relative_to(directory)))
        done += length
        _say({"done": done, "size": size})
    _say({"done": done, "found": found})


def _say(said: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0  # a temporary file of another process


def _pieces(file: Path, longest: int) -> Iterator[bytes]:
    """A file in pieces that overlap, so that nothing is cut in two."""
    try:
        with file.open("rb") as opened:
            before = b""
            while piece := opened.read(_CHUNK):
                yield before + piece
                before = piece[-(longest - 1) :]
    except FileNotFoundError:
        return


def _finder(needles: list[bytes]) -> Callable[[bytes], object]:
    """One pass for all of them: 500 MB/s for 64."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 256 * 2**20
    pattern = b"|".join(b"".join(b"\\x%02x" % byte for byte in needle) for needle in needles)
    return re2.compile(pattern, options).search  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
