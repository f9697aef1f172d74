"""Looking through files for byte strings: wherever they stand, however many, each told apart. D6."""

import os
import random

import pytest

from vault.storage.remains import FileRemains

CHUNK = 8 * 2**20  # what the search reads at once


@pytest.fixture
def look(tmp_path):
    """Looks through ``files``; each is made of (content) or of a size with needles at places."""
    place = tmp_path / "vault"
    (place / "ledger").mkdir(parents=True)

    def looked(groups, **files):
        for name, content in files.items():
            (place / name).write_bytes(content)
        return FileRemains(place, place / "ledger").found(groups)

    return looked


def with_needles(size, needles):
    content = bytearray(os.urandom(size))
    for at, needle in needles.items():
        content[at : at + len(needle)] = needle
    return bytes(content)


@pytest.mark.parametrize("length", [1, 8, 14, 15, 16, 22, 23, 24, 31, 40])
def test_a_piece_is_found_at_every_place(look, length):
    """D6: at any distance from a word's boundary, at the start and at the end"""
    needle = os.urandom(length)
    files = {f"at{at}": with_needles(96, {at: needle}) for at in range(96 - length + 1)}
    size, (names,) = look([[needle]], **files, without=os.urandom(40) if length > 8 else b"")
    assert set(files) <= set(names)
    assert ("without" in names) is False
    assert size > 96


def test_a_piece_across_the_border_of_what_is_read_at_once_is_found(look):
    needles = [os.urandom(24) for _ in range(26)]
    files = {
        f"at{at}": with_needles(CHUNK + 64, {CHUNK - at: needle})
        for at, needle in enumerate(needles)
        if at % 5 == 0
    }
    _, names = look([[needle] for needle in needles], **files)
    assert names == [[f"at{at}"] if at % 5 == 0 else [] for at in range(26)]


def test_each_group_is_told_of_its_own_only(look):
    """D6: one pass serves many erasures, and none of them is told of what another left"""
    dice = random.Random(7)
    groups = [[os.urandom(24) for _ in range(dice.randrange(5))] for _ in range(200)]
    spoilt = {number: dice.choice(group) for number, group in enumerate(groups) if group and number % 3 == 0}
    a = with_needles(100_000, {100 * number: needle for number, needle in spoilt.items()})
    last = max(spoilt)
    _, names = look(groups, a=a, b=b"x" + spoilt[last], c=os.urandom(1_000))
    assert names == [
        ["a", "b"] if number == last else ["a"] if number in spoilt else [] for number in range(len(groups))
    ]


def test_a_piece_that_two_groups_look_for_is_told_to_both(look):
    needle = os.urandom(24)
    assert look([[needle], [], [os.urandom(24), needle]], a=needle)[1] == [["a"], [], ["a"]]


def test_pieces_that_repeat_themselves_are_found_where_they_are(look):
    needles = [bytes(24), b"ab" * 12, b"abcdefgh" * 3]
    files = {
        "zeros": bytes(100),
        "letters": b"x" * 5 + b"abcdefgh" * 4,
        "nearly": b"abcdefgh" * 2 + b"abcdefgX",
    }
    assert look([needles], **files)[1] == [["letters", "zeros"]]
    assert look([[needle] for needle in needles], **files)[1] == [["zeros"], [], ["letters"]]


def test_the_ledger_is_left_out_and_nothing_to_look_for_finds_nothing(look):
    needle = os.urandom(24)
    assert look([[needle]], **{"ledger/1": needle, "b": b""})[1] == [[]]
    assert look([[], []], a=needle)[1] == [[], []]
    assert look([], a=needle)[1] == []
