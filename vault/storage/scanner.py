"""The process that looks through a vault's files (`remains`); it imports nothing of the vault.

Reads one JSON document on standard input: ``directory``, ``ledger`` (left out), ``needles`` in hexadecimal.
Writes one JSON line for each file done, and a last one that says which files hold which needles, by number.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_CHUNK = 8 * 2**20
_WORD = 8  # bytes that are compared at once
#: Which of the needles a piece of a file holds.
_Find = Callable[[bytes], set[int]]


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
        held: set[int] = set()
        if find is not None:
            held = set().union(*map(find, _pieces(file, max(map(len, needles)))))
        if held:
            found.append([str(file.relative_to(directory)), sorted(held)])
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
                joined = before + piece
                yield joined
                before = joined[-(longest - 1) :]
    except FileNotFoundError:
        return


def _finder(needles: list[bytes]) -> _Find:
    """One pass for all of them, at 500 MB/s for a thousand.

    Wherever a needle stands, one of its words stands at a multiple of the stride. So of a piece only the
    words there are looked up among those of all needles, and only what that finds is compared as a whole.
    """
    shortest = min(map(len, needles))
    words = (shortest - _WORD + 1) // _WORD  # of a stride: a needle reaches over a whole word of each
    if words < 1:
        return lambda piece: {number for number, needle in enumerate(needles) if needle in piece}
    stride = words * _WORD
    by_word: dict[int, set[int]] = {}
    for number, needle in enumerate(needles):
        for at in range(stride):
            word = int.from_bytes(needle[at : at + _WORD], sys.byteorder)
            by_word.setdefault(word, set()).add(number)
    known = frozenset(by_word)

    def find(piece: bytes) -> set[int]:
        padded = piece + bytes(-len(piece) % _WORD)
        met = known.intersection(memoryview(padded).cast("Q")[::words])
        numbers = {number for word in met for number in by_word[word]}
        return {number for number in numbers if needles[number] in piece}

    return find


if __name__ == "__main__":
    main()
