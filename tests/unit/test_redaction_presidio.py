"""Presidio adds to what the vault's own detectors find, and takes nothing away: R2, R4."""

import sys
import time
from types import SimpleNamespace

import pytest

from vault.errors import InvalidInput, LimitExceeded
from vault.redaction import presidio
from vault.redaction.detect import Detector
from vault.redaction.masking import Masking
from vault.redaction.presidio import LENGTH_MAX, recognizers, with_presidio
from vault.redaction.spans import PERSONAL, Span

OWN = Detector().find


class Recognizing:
    """What a recognizer of somebody's own may do."""

    def __init__(self, *found, seconds=0.0, error=None, entity="US_SSN"):
        self.supported_entities = [entity]
        self._found, self._seconds, self._error = found, seconds, error

    def analyze(self, text, entities, nlp_artifacts):
        time.sleep(self._seconds)
        if self._error:
            raise self._error
        return [
            SimpleNamespace(
                entity_type=entities[0], start=text.find(word), end=text.find(word) + len(word), score=score
            )
            for word, score in self._found
            if word in text
        ]


def marks(text, *used, seconds=2.0):
    return [(text[s.start : s.end], s.kind) for s in with_presidio(OWN, used, None, seconds=seconds)(text)]


def test_what_a_recognizer_finds_is_added_to_what_is_found_anyway():
    """R2"""
    text = "write to ann@example.com about ZQ-77"
    assert marks(text) == [("ann@example.com", "EMAIL")]
    assert marks(text, Recognizing(("ZQ-77", 0.85))) == [("ann@example.com", "EMAIL"), ("ZQ-77", "US_SSN")]
    assert marks(text, Recognizing(("ZQ-77", 0.3))) == [("ann@example.com", "EMAIL")]


def test_a_recognizer_takes_nothing_away():
    """R2: neither a mark, nor a part of one, nor how severe it is"""
    text = "key AKIAIOSFODNN7EXAMPLE here"
    (secret,) = with_presidio(OWN, [Recognizing(("AKIA", 1.0))], None)(text)
    (own,) = OWN(text)
    assert (secret.start, secret.end, secret.severity) == (own.start, own.end, own.severity)


def test_it_reads_the_plain_text_and_marks_the_original():
    """R2"""
    assert marks("a Z\u200bQ-77 b", Recognizing(("ZQ-77", 1.0))) == [("Z\u200bQ-77", "US_SSN")]


@pytest.mark.parametrize(
    "used",
    [
        pytest.param(Recognizing(seconds=0.05), id="too slow"),
        pytest.param(Recognizing(error=RuntimeError("no")), id="failing"),
        pytest.param(Recognizing(("", 1.0)), id="marking nothing"),
    ],
)
def test_where_a_recognizer_fails_the_whole_text_is_hidden(used):
    """R4"""
    find = with_presidio(OWN, [used], None, seconds=0.01)
    assert Masking("L1", find, str).detected("some harmless text") == "[HIDDEN]"
    assert Masking("L1", OWN, str).detected("some harmless text") == "some harmless text"


def test_a_text_that_is_too_long_for_it_is_refused():
    """R4"""
    find = with_presidio(OWN, [], None)
    assert find("a" * LENGTH_MAX) == []
    with pytest.raises(LimitExceeded, match="longer than"):
        find("a" * (LENGTH_MAX + 1))


def test_a_kind_is_one_of_ours_or_a_label():
    """R4"""
    assert presidio._span("CREDIT_CARD", 0, 4) == Span(0, 4, "CARD", PERSONAL)
    assert presidio._span("no label", 0, 4).kind == "PERSONAL"


def test_without_presidio_it_says_what_to_install(monkeypatch):
    """R4"""
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(InvalidInput, match="extra 'presidio'"):
        recognizers()


@pytest.fixture(scope="module")
def shipped():
    pytest.importorskip("presidio_analyzer")
    return with_presidio(OWN, *recognizers())


def test_presidios_own_recognizers_find_more(shipped):
    """R2"""
    text = "pay to 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa and mail ann@example.com"
    kinds = {span.kind for span in shipped(text)}
    assert {"CRYPTO", "EMAIL"} <= kinds
    assert "CRYPTO" not in {span.kind for span in OWN(text)}


def test_presidio_asks_nobody(shipped, monkeypatch):
    """R2: no name is looked up, no list fetched"""
    import socket

    monkeypatch.setattr(socket, "socket", _refuse)
    monkeypatch.setattr(socket, "getaddrinfo", _refuse)
    assert shipped("mail ann@mail.example.co.uk, see https://example.org/a, call +44 20 7946 0958")


def _refuse(*_args, **_kwargs):
    raise AssertionError("somebody was asked over the network")


def test_nothing_in_a_plain_text(shipped):
    """R2"""
    assert shipped("The meeting on Tuesday is moved to the large room; bring 12 copies of part 7.") == []
    assert shipped("request 182f7923-41ae-4c1b-9111-3f6f1a2b3c4d by v10.0.19041.1 of 2024-05-15") == []


def test_a_text_of_the_greatest_length_ends_in_time(shipped):
    """R4"""
    started = time.monotonic()
    for piece in ("a", "1", "1 ", "a1-", "0x"):
        try:
            shipped((piece * LENGTH_MAX)[:LENGTH_MAX])
        except LimitExceeded:
            continue
    assert time.monotonic() - started < 120
