"""The walk over one payload that makes a view of it: each value by its rule, each string by the detectors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from vault.model import LEVELS
from vault.policy.places import DETECT, DROP, KEEP, MASK, PSEUDONYM, SHAPE, Place, Treatment
from vault.redaction.spans import SECRET, Span, resolved

Finder = Callable[[str], Sequence[Span]]
Pseudonym = Callable[[str, str], str]

# Limits; what is beyond is shown as its shape, at every level: a lower one must not show more.
STRING_LENGTH_MAX: Final = 2**20  # characters
DEPTH_MAX: Final = 100  # objects and lists in one another, JSON in strings included; each takes three frames
JSON_IN_STRINGS_MAX: Final = 4  # strings of JSON in one another
KEY_LENGTH_MAX: Final = 64  # of keys and words that are shown as they are
#: A text up to here is searched with the name of its field before it: "born: 1979-11-09" is a date of birth.
CONTEXT_LENGTH_MAX: Final = 256
_KEYS_TOGETHER: Final = 64  # keys that detectors look into at once
_NUMBER_LENGTH_MIN: Final = 6  # digits below which no detector finds anything by itself

_SHAPES: Final[dict[type, str]] = {
    str: "<string>",
    int: "<number>",
    float: "<number>",
    bool: "<boolean>",
    dict: "<object>",
    list: "<array>",
}
_SECRET, _DROPPED, _HIDDEN = "<secret>", "<dropped>", "[HIDDEN]"
#: These stay what they are at every lower level, so that a view of a view is a view.
_FIXED: Final = frozenset({*_SHAPES.values(), _SECRET, _DROPPED})
_GONE: Final = frozenset({_SECRET, _DROPPED})
_L1, _L2, _L3 = (LEVELS.index(level) for level in ("L1", "L2", "L3"))

#: A key that is a name of a field: one word, or two with a slash (a media type). Anything else is data.
_KEY: Final = re.compile(r"[$@]?[A-Za-z_][A-Za-z0-9_.$-]*(?:/[A-Za-z0-9_.$+-]+)?")
#: A word that ``keep`` shows at L0 and L1: a type, a role, a version, an id. No spaces, some letter in it.
_WORD: Final = re.compile(
    r"(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_-]+(?:[.:/+][A-Za-z0-9_-]+){0,4}(?:@v?[0-9][A-Za-z0-9.]*)?"
)
_LABEL: Final = re.compile(r"[A-Z0-9_]{1,32}")
#: How a pseudonym looks. What was read at L2 and written again holds them, and L1 shows none.
_PSEUDONYM: Final = re.compile(r"([A-Z][A-Z0-9_]{0,31})_[A-Za-z2-7]{16,}")
_JSON_BEGINS: Final = re.compile(r"[\s\ufeff]*[\[{\"]")
_BETWEEN_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_.$@/-]+")


class Spot(NamedTuple):
    """Where the walk is: place, what rules above allow at most, depths, and the words of the nearest key."""

    place: Place
    ceiling: Treatment | None = None
    depth: int = 0
    strings: int = 0
    context: str = ""


class _Key(NamedTuple):
    shown: bool
    words: str


class Masking:
    """Makes one view; what it learns of keys and short strings dies with it."""

    def __init__(self, level: str, finder: Finder, pseudonym: Pseudonym) -> None:
        """A level that is none is L0."""
        self._level = LEVELS.index(level) if level in LEVELS else 0
        self._finder, self._pseudonym = finder, pseudonym
        self._keys: dict[str, _Key] = {}
        self._texts: dict[tuple[str, str], str] = {}
        self._places: dict[tuple[Place, str], Place] = {}

    def value(self, value: Any, spot: Spot) -> Any:
        """What is shown of a JSON value."""
        if isinstance(value, str):
            return self._string(value, spot)
        if isinstance(value, dict | list):
            return self._container(value, spot)
        treatment = _bounded(spot.place.treatment, spot.ceiling)
        action = treatment.actions[self._level]
        if action == DROP:
            return _instead(value, treatment, DROP)
        if treatment.actions[_L2] == PSEUDONYM and self._level < _L3 and type(value) in {int, float}:
            # A number with a pseudonym is a name: "4711" and 4711 are one customer, at every level.
            return self._text(str(value), treatment, spot.context)
        if value is None or (action in {KEEP, DETECT} and self._is_plain(value, spot.context)):
            return value
        return shape(value)

    def beyond(self, value: Any, spot: Spot) -> str:
        """What is shown of a value that is too large or too deep to look into."""
        treatment = _bounded(spot.place.treatment, spot.ceiling)
        return _instead(value, treatment, min(treatment.actions[self._level], SHAPE))

    # ---------------------------------------------------------------------------------- objects and lists

    def _container(self, value: Any, spot: Spot) -> Any:
        ceiling = _ceiling(spot)
        if ceiling is not None and ceiling.actions[self._level] == DROP:
            return _instead(value, ceiling, DROP)
        if spot.depth >= DEPTH_MAX:
            return self.beyond(value, spot)
        place, _, depth, strings, context = spot
        if isinstance(value, dict):
            return self._object(value, Spot(place, ceiling, depth + 1, strings, context))
        if place.items_are_alike:
            item_spot = Spot(place.at(0), ceiling, depth + 1, strings, context)
            return [self.value(item, item_spot) for item in value]
        return [
            self.value(item, Spot(place.at(number), ceiling, depth + 1, strings, context))
            for number, item in enumerate(value)
        ]

    def _object(self, value: dict[str, Any], spot: Spot) -> dict[str, Any]:
        place, ceiling, depth, strings, _ = spot
        self._learn(value, place)
        shown: dict[str, Any] = {}
        number = 0
        for key, item in value.items():
            shown_as, known = key, self.key(key, place)
            if not known.shown:
                number += 1
                while f"key_{number}" in value:
                    number += 1
                shown_as = f"key_{number}"
            below = self._places.get((place, key))
            if below is None:
                below = self._places[place, key] = place.below(key)
            shown[shown_as] = self.value(item, Spot(below, ceiling, depth, strings, known.words))
        return shown

    def key(self, key: str, place: Place | None = None) -> _Key:
        """Whether a key is shown as it is, and its words; one that a rule speaks of is no data."""
        found = self._keys.get(key)
        if found is None:
            shown = (place is not None and place.knows(key)) or self._is_name(key)
            found = self._keys[key] = _Key(shown, _words(key))
        return found

    def _is_name(self, key: str) -> bool:
        if self._level < _L3 and not _is_identifier(key):
            return False
        return len(key) <= STRING_LENGTH_MAX and self._spans(key, "") == []

    def _learn(self, keys: Iterable[str], place: Place) -> None:
        """Look into new keys together, which is much faster; whichever fail together are asked about alone.

        It is safe because they are identifiers, one on each line: no letter, digit or sign of one can belong
        to what is in the next.
        """
        new = [key for key in keys if key not in self._keys and _is_identifier(key) and not place.knows(key)]
        for start in range(0, len(new), _KEYS_TOGETHER):
            together = new[start : start + _KEYS_TOGETHER]
            if self._spans("\n".join(together), "") == []:
                self._keys.update((key, _Key(shown=True, words=_words(key))) for key in together)

    def _is_plain(self, number: float, context: str) -> bool:
        """Whether detectors find nothing in a number; fractions are no card, phone or national id."""
        if isinstance(number, bool) or (isinstance(number, float) and not number.is_integer()):
            return True
        digits = str(int(number))
        return len(digits) < _NUMBER_LENGTH_MIN or self._spans(digits, context) == []

    # ------------------------------------------------------------------------------------------- strings

    def _string(self, text: str, spot: Spot) -> str:
        if len(text) <= STRING_LENGTH_MAX and _JSON_BEGINS.match(text):
            inner = parsed(text)
            if inner is not NO_JSON:
                return self._json(inner, spot)
        return self._text(text, _bounded(spot.place.treatment, spot.ceiling), spot.context)

    def _json(self, inner: Any, spot: Spot) -> str:
        """A string with JSON in it: as an object or list in the same place, and a string again."""
        ceiling = _ceiling(spot)
        if ceiling is not None and ceiling.actions[self._level] == DROP:
            return _instead("", ceiling, DROP)
        if spot.strings >= JSON_IN_STRINGS_MAX or inner is TOO_DEEP:
            return self.beyond("", spot)
        # Always written anew, even if nothing was hidden: of two equal keys only one was read.
        inside = Spot(spot.place, ceiling, spot.depth + 1, spot.strings + 1, spot.context)
        return written(self.value(inner, inside))

    def _text(self, text: str, treatment: Treatment, context: str) -> str:
        action = self._action(text, treatment, context)
        if action == KEEP:
            return text
        if action == DETECT:
            return self.detected(text, context)
        if action == PSEUDONYM:
            return self._name_of(text, treatment.kind or treatment.class_.upper(), context)
        return _instead(text, treatment, action)

    def _action(self, text: str, treatment: Treatment, context: str) -> int:
        """What is done with this very text, which may be more than a rule expects there.

        Nothing is shown unsearched: a name of a state may be somebody's, an id a card.
        """
        action = treatment.actions[self._level]
        if text in _GONE or (action != DROP and (not text or text in _FIXED)):
            return KEEP
        if action != DROP and len(text) > STRING_LENGTH_MAX:
            return SHAPE
        if action != KEEP:
            return action
        if self._level > 0:
            return DETECT
        # What is hidden in part at L1 is no word there, so nothing of it is shown here either.
        return KEEP if is_word(text) and self.detected(text, context) == text else SHAPE

    def _name_of(self, text: str, kind: str, context: str) -> str:
        """The pseudonym of a whole string, of the kind that detectors would give it inside a sentence."""
        spans = self._spans(text, context if len(text) <= CONTEXT_LENGTH_MAX else "") or []
        if any(span.severity >= SECRET for span in spans):
            return f"[{_label(kind)}]"
        whole = len(spans) == 1 and spans[0].end - spans[0].start == len(text)
        return self.named(spans[0].kind if whole else kind, text)

    def detected(self, text: str, context: str = "") -> str:
        """The text without what the detectors find in it."""
        if len(text) > CONTEXT_LENGTH_MAX:
            return self._without(text, "")
        known = self._texts.get((context, text))
        if known is None:
            known = self._texts[context, text] = self._without(text, context)
        return known

    def _without(self, text: str, context: str) -> str:
        spans = self._spans(text, context)
        if spans is None:
            return _HIDDEN
        parts: list[str] = []
        at = 0
        for start, end, kind, severity in spans:
            linked = self._level == _L2 and severity < SECRET
            parts += text[at:start], self.named(kind, text[start:end]) if linked else f"[{_label(kind)}]"
            at = end
        return "".join((*parts, text[at:])) if spans else text

    def _spans(self, text: str, context: str) -> list[Span] | None:
        """What is to be hidden in a text, in order; None if that cannot be told."""
        before = f"{context}: " if context else ""
        try:
            found = list(self._finder(before + text))
            if self._level <= _L1:
                found += (
                    Span(made.start() + len(before), made.end() + len(before), made[1], 0)
                    for made in _PSEUDONYM.finditer(text)
                )
            elif self._level == _L3:
                found = [span for span in found if span[3] >= SECRET]
            return resolved(found, text, skip=len(before)) if found else []
        except Exception:  # noqa: BLE001 - a detector that fails hides all that it was asked about
            return None

    def named(self, kind: str, value: str) -> str:
        """The pseudonym of a value, or its mask if there is none."""
        try:
            return str(self._pseudonym(_label(kind), value))
        except Exception:  # noqa: BLE001 - without a name the kind is all that is shown
            return f"[{_label(kind)}]"


def _is_identifier(key: str) -> bool:
    # One that looks like a pseudonym is hidden at L1, so it is at L2, or the keys after it had other numbers.
    return len(key) <= KEY_LENGTH_MAX and bool(_KEY.fullmatch(key)) and not _PSEUDONYM.search(key)


def _words(key: str) -> str:
    if key.islower() and key.isalpha():
        return key[:KEY_LENGTH_MAX]
    return _BETWEEN_WORDS.sub(" ", key[:KEY_LENGTH_MAX]).strip()


def is_word(text: str) -> bool:
    """Whether a text is one word such as a type, a role or an id, and no sentence."""
    return len(text) <= KEY_LENGTH_MAX and _WORD.fullmatch(text) is not None


def shape(value: Any) -> str:
    """What type of JSON a value is; not how long, which no view between this one and the full one tells."""
    return _SHAPES.get(type(value), "<unknown>")


def _bounded(treatment: Treatment, ceiling: Treatment | None) -> Treatment:
    return treatment if ceiling is None else treatment.within(ceiling)


def _ceiling(spot: Spot) -> Treatment | None:
    named = spot.place.ceiling
    return spot.ceiling if named is None else _bounded(named, spot.ceiling)


def _instead(value: Any, treatment: Treatment, action: int) -> str:
    if action == DROP:
        return _SECRET if treatment.class_ == "secret" else _DROPPED
    if action == MASK:
        return f"[{treatment.kind}]" if treatment.kind else _HIDDEN
    return shape(value)


def _label(kind: str) -> str:
    return kind if _LABEL.fullmatch(kind) else "HIDDEN"


# ---------------------------------------------------------------------------------------- JSON in strings

NO_JSON: Final = object()
TOO_DEEP: Final = object()


def parsed(text: str) -> Any:
    """The object, list or string that a text is the JSON of; else ``NO_JSON``, or ``TOO_DEEP`` to be read."""
    try:
        found = orjson.loads(text)
    except ValueError:
        try:
            # It takes what orjson does not: NaN, lone surrogates, numbers of any length.
            found = json.loads(text.strip("\ufeff \t\r\n"), parse_int=_integer)
        except ValueError:
            return NO_JSON
        except RecursionError:
            return TOO_DEEP
    return found if isinstance(found, dict | list | str) else NO_JSON


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) < KEY_LENGTH_MAX else digits


def written(value: Any) -> str:
    """JSON text of any value that ``parsed`` gave."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, separators=(",", ":"))
