"""Texts are made plain and decoded within bounds, and every place in them leads back to the original."""
# ruff: noqa: RUF001 - letters that look like others are the point

import base64
import gzip
import html
import json
import urllib.parse
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.redaction.decode import DECODED_CHARACTERS_MIN, DECODED_PER_CHARACTER, Budget, encoded_texts
from vault.redaction.normalise import ROUNDS_MAX, fold, read

EMAIL = "alice@example.com"


def base64_of(raw: str | bytes) -> str:
    return base64.b64encode(raw.encode() if isinstance(raw, str) else raw).decode()


def decoded(text: str, budget: Budget | None = None) -> list[tuple[str, str | None]]:
    found = encoded_texts(read(text).data, budget or Budget.of(len(text)))
    return [(text[part.start : part.end], part.text) for part in found]


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        pytest.param("alice@\u200bexample.com", EMAIL, id="zero-width space"),
        pytest.param("al\u00adice@exam\u2060ple.com", EMAIL, id="soft hyphen and word joiner"),
        pytest.param("alice＠ｅｘａｍｐｌｅ．ｃｏｍ", EMAIL, id="full width"),
        pytest.param("alice@example。com", EMAIL, id="ideographic full stop"),
        pytest.param("".join(chr(0xE0000 + ord(c)) for c in EMAIL), EMAIL, id="invisible tags"),
        pytest.param("٤١١١ ۴۱۱۱ ४१११ ４１１１", "4111 4111 4111 4111", id="digits of four scripts"),
        pytest.param("4\ufe0f\u20e31\u03361\u03381", "4111", id="keycaps and strike-through"),
        pytest.param("4111\u00a01111\u20091111", "4111 1111 1111", id="spaces"),
        pytest.param("4111\u20131111\u22121111", "4111-1111-1111", id="dashes"),
        pytest.param("alice%40example.com", EMAIL, id="percent"),
        pytest.param("alice%252540example.com", EMAIL, id="percent three deep"),
        pytest.param("caf%C3%A9", "café", id="percent UTF-8"),
        pytest.param("alice&#64;example&period;com", EMAIL, id="entities"),
        pytest.param("alice&amp;amp;#x40;example.com", EMAIL, id="entity three deep"),
        pytest.param(r"alice\u0040example.com", EMAIL, id="JSON escape"),
        pytest.param(r"alice\\\\\\\\u0040example.com", EMAIL, id="JSON escape four deep"),
        pytest.param(r"alice\x40example\u{2e}com", EMAIL, id="escapes of programs"),
        pytest.param(r"\ud83d\ude00", "😀", id="surrogate pair"),
        pytest.param(r"one\ntwo\"", 'one\ntwo"', id="line and quote"),
        pytest.param("alice%26%2364%3Bexample.com", EMAIL, id="entity in percent"),
        pytest.param(r"alice\u0025\u0034\u0030example.com", EMAIL, id="percent in JSON"),
    ],
)
def test_the_same_thing_written_differently_reads_the_same(written, plain):
    """R2"""
    assert read(written).text == plain


@pytest.mark.parametrize(
    "text",
    ["100%", "50%zz", "%C3%2", "a & b", "&nosuchentity;", "C:\\Users", "\\q", r"\ud800", "&#xFFFFFF;", "%"],
)
def test_what_only_looks_like_an_escape_stays(text):
    """R2"""
    assert read(text).text == text


def test_a_plain_text_is_its_own_reading():
    """R2"""
    reading = read("Plain text, 42.")
    assert (reading.text, reading.data, reading.layers) == ("Plain text, 42.", b"Plain text, 42.", ())
    assert reading.back(2, 7) == (2, 7)


def test_bytes_and_characters_stand_at_the_same_places():
    """R2"""
    reading = read("é漢字 →Ab")
    assert reading.data == b"\xff\xfe\xfe \xa0Ab"
    assert reading.low == "\xff\xfe\xfe \xa0ab"


@pytest.mark.parametrize(
    "written",
    [
        "alice%40example.com",
        "al\u200bice@exa\u00admple.com",
        r"alice\\u0040example.com",
        "alice&#64;example&#46;com",
    ],
)
def test_a_span_leads_back_to_what_it_was_made_of(written):
    """R2"""
    original = f"é\u200b %41 <{written}> %42"
    reading = read(original)
    start = reading.text.index(EMAIL)
    begin, end = reading.back(start, start + len(EMAIL))
    assert original[begin:end] == written


PIECES = st.sampled_from(
    ["a", "Z", "7", "é", "ß", "漢", "%41", "%C3%A9", "\\u0041", "\\n", "&lt;", "\u200b", "４", " "]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_every_character_leads_back_to_a_part_of_the_original_and_all_are_in_order(original):
    """R2"""
    reading = read(original)
    places = [reading.back(at, at + 1) for at in range(len(reading.text))]
    assert all(0 <= start < end <= len(original) for start, end in places)
    assert places == sorted(places)
    if reading.text:
        assert reading.back(0, len(reading.text)) == (places[0][0], places[-1][1])


@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_any_text_can_be_read_one_byte_a_character(text):
    """R2, R4"""
    reading = read(text)
    assert len(reading.data) == len(reading.text) == len(reading.low)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_percent_encoding_is_undone(text):
    """R2"""
    assert read(urllib.parse.quote(text, safe="")).text == read(text).text


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="\\%&"), max_size=40))
def test_json_strings_in_one_another_are_undone(text):
    """R2"""
    for _ in range(4):
        text_in_json = json.dumps(text)[1:-1]
        assert read(text_in_json).text == read(text).text
        text = text_in_json


def test_html_is_undone():
    """R2"""
    assert read(html.escape("<b>&\"'")).text == "<b>&\"'"


def test_rounds_of_different_escapes_are_bounded():
    """R2"""
    text = "@"
    for _ in range(ROUNDS_MAX + 2):
        text = "".join(f"&#{ord(c)};" for c in text)
    assert read(text).text.startswith("&#")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MÜLLER", "muller"),
        ("Straße", "STRASSE"),
        ("Łukasz Ørsted", "lukasz orsted"),
        ("e\u0301a\u0300", "éà"),
        ("two\n\t  words", "two words"),
    ],
)
def test_folding_makes_ways_to_write_a_word_alike(one, other):
    """R2"""
    assert fold(one)[0] == fold(other)[0]


@given(st.text(st.sampled_from("aÉßŁ漢\u0301 \n"), max_size=20))
def test_a_folded_place_leads_back(text):
    """R2"""
    folded, layers = fold(text)
    for at in range(len(folded)):
        start, end = at, at + 1
        for layer in reversed(layers):
            start, end = layer.back(start, end)
        assert 0 <= start < end <= len(text)


# --------------------------------------------------------------------------------------------- encoded texts


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param(base64_of(EMAIL), id="base64"),
        pytest.param(base64_of(EMAIL).rstrip("="), id="base64 without padding"),
        pytest.param(base64.urlsafe_b64encode(b"alice@example.com?>~~").decode(), id="base64 for URLs"),
        pytest.param(EMAIL.encode().hex(), id="hexadecimal"),
        pytest.param(EMAIL.encode().hex().upper(), id="hexadecimal in capitals"),
        pytest.param("0x" + EMAIL.encode().hex(), id="hexadecimal with its sign"),
        pytest.param(EMAIL.encode().hex(" "), id="hexadecimal in pairs"),
        pytest.param(EMAIL.encode().hex(":"), id="hexadecimal with colons"),
        pytest.param(base64_of(EMAIL.encode("utf-16-le")), id="UTF-16"),
        pytest.param(base64_of(gzip.compress(EMAIL.encode(), mtime=0)), id="gzip"),
        pytest.param(base64_of(zlib.compress(EMAIL.encode())), id="zlib"),
        pytest.param(gzip.compress(EMAIL.encode(), mtime=0).hex(), id="gzip in hexadecimal"),
    ],
)
def test_an_encoded_text_is_read_and_its_place_is_known(encoded):
    """R2"""
    found = decoded(f"see ({encoded}), please")
    assert [(place, text[:11]) for place, text in found] == [(encoded, "alice@examp")]


def test_a_block_of_base64_lines_is_one_text():
    """R2"""
    text = " ".join(["some words before and then"] * 4) + " " + EMAIL
    block = base64.encodebytes(text.encode()).decode()
    assert decoded(f"Content:\n\n{block}\nbye")[0][1].startswith(text)


def test_an_encoded_part_of_a_path_is_found():
    """R2"""
    part = base64_of(EMAIL).rstrip("=")
    assert decoded(f"https://example.org/users/{part}/edit") == [(part, EMAIL)]


@pytest.mark.parametrize(
    "text",
    [
        "scheduled_departure_time_est",
        "internationalization",
        "550e8400-e29b-41d4-a716-446655440000",
        "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
        "INTERNATIONALIZATION",
        "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=",
    ],
)
def test_words_ids_and_digests_are_no_encoded_texts(text):
    """R2"""
    assert decoded(text) == []


def test_what_the_budget_does_not_pay_for_is_reported_as_unread():
    """R4"""
    bomb = base64_of(gzip.compress(b"a" * 10**7, mtime=0))
    assert decoded(f"{bomb} {base64_of(EMAIL)}") == [(bomb, None), (base64_of(EMAIL), None)]


def test_a_budget_falls_by_what_is_decoded_and_grows_with_the_text():
    """R4"""
    budget = Budget.of(100)
    assert budget.left == DECODED_CHARACTERS_MIN + 100 * DECODED_PER_CHARACTER
    decoded(base64_of(EMAIL), budget)
    assert budget.left == DECODED_CHARACTERS_MIN + 100 * DECODED_PER_CHARACTER - len(EMAIL)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=9, max_size=80))
def test_every_text_in_base64_is_read(text):
    """R2"""
    assert (base64_of(text), text) in decoded(base64_of(text))
