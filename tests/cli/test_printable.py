"""Content from a vault reaches a terminal as text only: nothing in it is obeyed, and it fits."""

import json
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.cli import printable

#: What may stand in printed text although Python does not call it printable: line ends, joiners, spaces.
ALLOWED = {"\n", "\u200c", "\u200d"}


def is_harmless(character: str) -> bool:
    return character.isprintable() or character in ALLOWED or unicodedata.category(character) == "Zs"


@given(st.text(st.characters(codec=None)))
def test_no_text_reaches_the_terminal_with_something_that_it_would_obey(text):
    assert all(map(is_harmless, printable.visible(text)))
    assert all(map(is_harmless, printable.one_line(text, 20)))
    assert all(map(is_harmless, printable.shortened(text, 20)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[2Jgone", "\\x1b[2Jgone", id="escape"),
        pytest.param("\x9b31m", "\\x9b31m", id="c1-control"),
        pytest.param("a\rb", "a\\rb", id="carriage-return"),
        pytest.param("a\r\nb", "a\nb", id="line-end"),
        pytest.param("\u202eexe.txt", "\\u202eexe.txt", id="right-to-left-override"),
        pytest.param("\U000e0041x", "\\U000e0041x", id="invisible-tag"),
        pytest.param("\ud800", "\\ud800", id="lone-surrogate"),
        pytest.param("a\tb", "a   b", id="tab"),
        pytest.param("👩‍👩‍👧 café 漢字 \u00a0", "👩‍👩‍👧 café 漢字 \u00a0", id="ordinary-text"),
    ],
)
def test_control_characters_are_written_out_and_ordinary_text_is_let_be(text: str, shown: str):
    assert printable.visible(text) == shown


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_for_a_terminal_has_the_same_values_and_nothing_to_obey(value):
    line = printable.json_line(value).decode()
    assert json.loads(line) == value
    assert all(character.isprintable() or unicodedata.category(character) != "Cc" for character in line[:-1])
    assert not any("\u202a" <= character <= "\u202e" for character in line)


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        pytest.param("a  b\n c", 20, "a b c", id="whitespace"),
        pytest.param("abcdef", 4, "abc…", id="cut"),
        pytest.param("abcd", 4, "abcd", id="fits"),
    ],
)
def test_a_line_is_one_line_of_its_length(text: str, limit: int, shown: str):
    assert printable.one_line(text, limit) == shown


def test_a_shortened_text_says_how_much_is_missing():
    assert printable.shortened("x" * 1_500, 100) == "x" * 100 + "… (+1,400 characters)"


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1,023 bytes"), (1536, "1.5 KiB"), (3 * 2**20, "3.0 MiB")],
)
def test_sizes_are_in_units_of_people(count: int, shown: str):
    assert printable.size(count) == shown


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        pytest.param(timedelta(seconds=-5), "just now", id="clock-behind"),
        pytest.param(timedelta(seconds=9), "just now", id="now"),
        pytest.param(timedelta(seconds=59), "59 seconds ago", id="seconds"),
        pytest.param(timedelta(minutes=1), "1 minute ago", id="minute"),
        pytest.param(timedelta(hours=25), "1 day ago", id="day"),
        pytest.param(timedelta(days=20), "2 weeks ago", id="weeks"),
        pytest.param(timedelta(days=800), "2 years ago", id="years"),
    ],
)
def test_how_long_ago_something_was_is_said_in_its_largest_unit(span: timedelta, shown: str):
    now = datetime(2025, 3, 1, tzinfo=UTC)
    assert printable.ago(now - span, now) == shown
