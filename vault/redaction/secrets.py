"""Secrets: what opens something. The rules are data, in ``policies/secrets.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from vault import data
from vault.errors import InvalidInput
from vault.redaction.kinds import marked
from vault.redaction.normalise import Reading
from vault.redaction.patterns import Keywords, Pattern, linear
from vault.redaction.spans import Span

RULES_FILE: Final = "secrets.toml"
_VERSION: Final = 1
_KEYS: Final = frozenset({"id", "keywords", "pattern", "ignore_case", "check"})

#: From here on a value without a digit is no word either.
_LONG: Final = 24
# What stands where a secret would: the mask of another program, a variable, a type, a remark.
_PLACEHOLDER: Final = re.compile(
    rb"[*.xX_\xa0-]+|<[^>]*>?|\$\{?[A-Za-z_].*|\{\{.*|%\(?[A-Za-z_].*|\[[A-Za-z_ ]*\]?|"
    rb"os\.environ.*|process\.env.*|#[0-9a-fA-F]{3,8}|"
    rb"(?:null|none|nil|true|false|undefined|str|string|bytes|int|number|text|object|boolean|bool|any|optional|"
    rb"required|redacted|hidden|masked|removed|secret|password|passwd|token|bearer|basic|jwt|oauth2?|empty|missing|"
    rb"invalid|valid|unknown|wrong|incorrect|expired|changed|reset|needed|n/a|tbd|xxxx+|self|data|value|type|input|"
    rb"yes|not|your|this|that|the|auto|default|env|disabled|enabled|failed|success|ok)"
    rb"(?:[\s.,:;!?)].*)?",
    re.IGNORECASE | re.DOTALL,
)
# After "the password is": what people say of a password instead of telling it.
_SAID_OF: Final = re.compile(
    rb"(?:a|an|the|in|on|at|to|by|for|of|not|no|too|very|also|always|never|only|now|still|already|being|been|be|"
    rb"what|when|where|which|that|this|these|those|there|here|your|my|our|his|her|their|its|same|different|"
    rb"required|incorrect|correct|wrong|invalid|valid|expired|expiring|weak|strong|short|long|empty|missing|blank|"
    rb"unknown|known|secure|safe|stored|hashed|encrypted|saved|sent|shared|changed|reset|updated|set|needed|optional|"
    rb"mandatory|case|important|used|using|protected|hidden|visible|lost|forgotten|compromised|leaked|accepted|"
    rb"rejected|ready|unique|okay|fine|everything|something|anything|nothing|must|should|would|will|can|cannot|"
    rb"from|with|without|as|if|and|or|but|so|because|about|access|log|sign|change|keep|make|get|use|be|have|do|"
    rb"remember|protect|avoid|success|managing|being|going|coming|working|displayed|shown|printed|generated)",
    re.IGNORECASE,
)
_DIGIT: Final = re.compile(rb"[0-9]")
_LETTER: Final = re.compile(rb"[A-Za-z]")
_SIGN: Final = re.compile(rb"[^A-Za-z0-9.\xff\xfe'-]")
_END_OF_SENTENCE: Final = b".,;:!?)"


def _is_value(value: bytes) -> bool:
    return _PLACEHOLDER.fullmatch(value.strip()) is None


def _is_code(value: bytes) -> bool:
    if not _is_value(value):
        return False
    return (_DIGIT.search(value) is not None and _LETTER.search(value) is not None) or len(value) >= _LONG


def _is_spoken(value: bytes) -> bool:
    """Whether a word after "the password is" is one: it looks like one, or is no usual word there."""
    value = value.rstrip(_END_OF_SENTENCE)
    if not _is_value(value):
        return False
    if _DIGIT.search(value) or _SIGN.search(value):
        return True
    return _SAID_OF.fullmatch(value) is None and not value.endswith((b"ed", b"ing", b"ly"))


_CHECKS: Final[dict[str, Callable[[bytes], bool]]] = {
    "value": _is_value,
    "code": _is_code,
    "spoken": _is_spoken,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: words that lead to it, a pattern, and what else the secret must be; None asks for nothing."""

    id: str
    keywords: tuple[str, ...]
    pattern: Pattern
    check: Callable[[bytes], bool] | None

    def find(self, text: bytes) -> Iterator[Span]:
        """Every secret that the rule finds in a text (`Reading.data`)."""
        for match in self.pattern.finditer(text):
            group = next((g for g in range(1, self.pattern.groups + 1) if match.start(g) >= 0), 0)
            value = match.group(group)
            if self.check is None or self.check(value):
                # The dot after a spoken password ends the sentence; in quotes it is part of it.
                kept = value.rstrip(_END_OF_SENTENCE) if self.check is _is_spoken else value
                yield marked(match.start(group), match.start(group) + len(kept), "SECRET")


def load(path: Path) -> tuple[Rule, ...]:
    """The rules of a document, each compiled.

    Raises:
        InvalidInput: the document is not as its first lines say; the rule at fault is named.
        FileNotFoundError: there is no such document.
    """
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    if document.get("version") != _VERSION or document.keys() != {"version", "rule"}:
        raise InvalidInput(f"{RULES_FILE} needs version = {_VERSION} and rules, and nothing else")
    rules = tuple(_rule(number, entry) for number, entry in enumerate(document["rule"], 1))
    if len({rule.id for rule in rules}) != len(rules):
        raise InvalidInput(f"two rules of {RULES_FILE} have the same id; give each its own")
    return rules


def _rule(number: int, entry: dict[str, Any]) -> Rule:
    keywords = entry.get("keywords")
    if not entry.keys() <= _KEYS or not isinstance(entry.get("id"), str) or not isinstance(keywords, list):
        raise InvalidInput(f"rule {number} of {RULES_FILE} needs an id and keywords, and only known keys")
    if not keywords or not all(isinstance(word, str) and word and word == word.lower() for word in keywords):
        raise InvalidInput(f"rule {number} of {RULES_FILE} needs keywords in lower case")
    try:
        pattern = linear(entry["pattern"].encode("latin-1"), ignore_case=entry.get("ignore_case", False))
        check = _CHECKS[entry["check"]] if "check" in entry else None
    except (KeyError, ValueError, AttributeError):
        raise InvalidInput(f"rule {number} of {RULES_FILE} needs an RE2 pattern and a known check") from None
    return Rule(id=entry["id"], keywords=tuple(keywords), pattern=pattern, check=check)


@cache
def _shipped() -> tuple[tuple[Rule, ...], Keywords]:
    rules = load(data.policies() / RULES_FILE)
    return rules, Keywords([rule.keywords for rule in rules])


def secrets(reading: Reading) -> Iterator[Span]:
    """Every secret in a text; spans are of its plain form and may overlap."""
    rules, keywords = _shipped()
    seen = keywords.seen(reading.low)
    if seen:
        for bit, rule in enumerate(rules):
            if seen >> bit & 1:
                yield from rule.find(reading.data)
