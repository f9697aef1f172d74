"""Presidio's recognizers as one more detector: optional, and they only ever add marks.

It runs the recognizers that come with Presidio and are patterns with checks, without any language model
(``NoOpNlpEngine``), in this process. Left out are those that would ask the network (e-mail addresses and
links fetch a list of domains), and those that are found here in linear time in any case. Theirs are
backtracking patterns: each text has a length and a time, and where either is passed nothing is said, so that
whoever asked hides the whole text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final, Protocol

from vault.errors import InvalidInput, LimitExceeded
from vault.redaction.normalise import read
from vault.redaction.spans import INDIRECT, PERSONAL, Span, resolved

#: The longest text that is shown to Presidio, and how many seconds all its recognizers together may take.
LENGTH_MAX: Final = 65_536
SECONDS: Final = 2
#: Below this a result says no more than that there are digits.
_SCORE_MIN: Final = 0.5
# Of addresses of computers and UUIDs most are versions and ids of things.
_LEFT_OUT: Final = frozenset(
    ["DATE_TIME", "EMAIL_ADDRESS", "IP_ADDRESS", "LOCATION", "NRP", "PERSON", "PHONE_NUMBER", "URL", "UUID"]
)
_KINDS: Final = {"CREDIT_CARD": "CARD", "IBAN_CODE": "IBAN"}
_INDIRECT: Final = frozenset({"MAC_ADDRESS"})
_KIND: Final = re.compile(r"[A-Z0-9_]{1,32}")

Finder = Callable[[str], Sequence[Span]]


class Recognizer(Protocol):
    """What is used of Presidio's ``EntityRecognizer``."""

    supported_entities: list[str]

    def analyze(self, text: str, entities: list[str], nlp_artifacts: Any) -> Iterable[Any]:
        """Results with ``entity_type``, ``start``, ``end`` and ``score``."""
        ...


def added(find: Finder) -> Finder:
    """The finder with Presidio's recognizers besides; they are loaded once for the process.

    Raises:
        InvalidInput: Presidio is not installed.
    """
    return with_presidio(find, *_loaded())


@cache
def _loaded() -> tuple[list[Recognizer], Any]:
    return recognizers()


def recognizers(language: str = "en") -> tuple[list[Recognizer], Any]:
    """Presidio's own recognizers of a language, and the empty artifacts that they are given.

    Raises:
        InvalidInput: Presidio is not installed.
    """
    try:
        import presidio_analyzer as analyzer  # type: ignore[import-not-found] # noqa: PLC0415
        from presidio_analyzer import pattern_recognizer  # noqa: PLC0415
        from presidio_analyzer.nlp_engine import NoOpNlpEngine  # type: ignore[import-not-found] # noqa: PLC0415
        from presidio_analyzer.predefined_recognizers.generic import (  # type: ignore[import-not-found] # noqa: PLC0415
            iban_recognizer,
        )
    except ImportError:
        raise InvalidInput("Presidio is not installed; install the extra 'presidio'") from None
    # The time of one pattern there; one that takes longer is passed over in silence, which is seen below.
    pattern_recognizer.REGEX_TIMEOUT_SECONDS = iban_recognizer.REGEX_TIMEOUT_SECONDS = SECONDS
    engine = NoOpNlpEngine(models=[{"lang_code": language, "model_name": "none"}])
    engine.load()
    registry = analyzer.RecognizerRegistry(supported_languages=[language])
    registry.load_predefined_recognizers(languages=[language], nlp_engine=engine)
    found = [
        recognizer
        for recognizer in registry.get_recognizers(language=language, all_fields=True)
        if isinstance(recognizer, analyzer.PatternRecognizer)
        and _LEFT_OUT.isdisjoint(recognizer.supported_entities)
    ]
    return found, engine.process_text("", language)


def with_presidio(
    find: Finder, used: Iterable[Recognizer], artifacts: Any, *, seconds: float = SECONDS
) -> Finder:
    """A finder that marks what ``find`` marks, and what the recognizers find besides.

    The finder raises ``LimitExceeded`` where it cannot tell in time, and whatever a recognizer raises.
    """
    chosen = list(used)

    def found(text: str) -> list[Span]:
        spans = list(find(text))
        if len(text) > LENGTH_MAX:
            raise LimitExceeded(f"the text is longer than {LENGTH_MAX} characters; hide all of it")
        reading = read(text)
        until = time.monotonic() + seconds
        for recognizer in chosen:
            results = recognizer.analyze(reading.text, recognizer.supported_entities, artifacts) or ()
            spans += (
                _span(result.entity_type, *reading.back(result.start, result.end))
                for result in results
                if result.score >= _SCORE_MIN
            )
            # A pattern that Presidio gave up took as long as this, so it is never passed over.
            if time.monotonic() >= until:
                raise LimitExceeded("the recognizers take too long for this text; hide all of it")
        return resolved(spans, text)

    return found


def _span(entity: str, start: int, end: int) -> Span:
    kind = _KINDS.get(entity, entity if _KIND.fullmatch(entity) else "PERSONAL")
    return Span(start, end, kind, INDIRECT if entity in _INDIRECT else PERSONAL)
