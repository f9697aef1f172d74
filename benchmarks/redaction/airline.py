"""Recorded support conversations: what their structured results name, found again in their free text.

The rules of the gold labels are in ``docs/reference/redaction-benchmarks.md``. Nothing of a conversation is
ever printed: only classes and counts.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.redaction.scoring import Case, Gold, Score, score
from vault.redaction.detect import Detector
from vault.redaction.vocabulary import Vocabulary, terms_in

NAMES_AND_ADDRESSES = ("first name", "last name", "full name", "street", "zip")
_FIELDS = {
    "first_name": "first name",
    "last_name": "last name",
    "address1": "street",
    "address2": "street, second line",
    "zip": "zip",
    "email": "e-mail",
    "dob": "birth date",
    "user_id": "user id",
    "reservation_id": "reservation id",
    "payment_id": "payment id",
    "last_four": "card, last four",
}
_KINDS = {
    "full name": "NAME",
    "first name": "NAME",
    "last name": "NAME",
    "street": "STREET",
    "street, second line": "STREET",
    "zip": "ZIP",
    "e-mail": "EMAIL",
    "birth date": "BIRTH_DATE",
    "user id": "USER_ID",
    "reservation id": "REFERENCE",
    "payment id": "REFERENCE",
    "payment id, digits": "REFERENCE",
    "card, last four": "CARD",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DATES = (
    re.compile(r"\b(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})\b"),
    re.compile(r"\b(?P<m>\d{1,2})[-/.](?P<d>\d{1,2})[-/.](?P<y>\d{4})\b"),
    re.compile(r"\b(?P<d>\d{1,2})[-/.](?P<m>\d{1,2})[-/.](?P<y>\d{4})\b"),
    re.compile(r"\b(?P<n>[A-Za-z]{3,9})\.? (?P<d>\d{1,2})(?:st|nd|rd|th)?,? (?P<y>\d{4})\b"),
    re.compile(r"\b(?P<d>\d{1,2})(?:st|nd|rd|th)? (?:of )?(?P<n>[A-Za-z]{3,9})\.?,? (?P<y>\d{4})\b"),
)
# Four digits are also a year or a price: only beside such a word are they the end of a card.
_SAYS_CARD = re.compile(r"\b(?:card|visa|mastercard|ending|ends)\b", re.IGNORECASE)


@dataclass(slots=True, kw_only=True)
class Known:
    """What the structured results of a conversation have named so far: value to class."""

    values: dict[str, str] = field(default_factory=dict)
    births: set[date] = field(default_factory=set)

    def learn(self, result: Any) -> None:
        """Take the values of a result's fields for names, addresses and ids."""
        nodes = [result]
        while nodes:
            node = nodes.pop()
            if isinstance(node, list):
                nodes += node
            if not isinstance(node, dict):
                continue
            nodes += node.values()
            for key, value in node.items():
                if key in _FIELDS and isinstance(value, str):
                    self._take(_FIELDS[key], value)
            if isinstance(node.get("first_name"), str) and isinstance(node.get("last_name"), str):
                self._take("full name", f"{node['first_name']} {node['last_name']}")
            if isinstance(node.get("payment_methods"), dict):
                for payment_id in node["payment_methods"]:
                    self._take("payment id", payment_id)
            if isinstance(node.get("reservations"), list):
                for reservation_id in node["reservations"]:
                    self._take("reservation id", reservation_id)

    def _take(self, group: str, value: str) -> None:
        if group == "birth date":
            self.births.add(date.fromisoformat(value))
        elif value.strip():
            self.values[value] = group
            digits = re.search(r"_(\d{6,})$", value)
            if group == "payment id" and digits:
                # "certificate 1234567" is how people write certificate_1234567.
                self.values[value.replace("_", " ")] = group
                self.values[digits[1]] = "payment id, digits"

    def gold(self, text: str, *, form: str) -> tuple[Gold, ...]:
        """Every whole-token occurrence, in any case; of overlapping ones the longest."""
        found = [
            (match.start(), match.end(), group)
            for value, group in self.values.items()
            for match in whole_token(value).finditer(text)
            if _is_meant(group, value, text, match.start(), match.end())
        ]
        found += [(start, end, "birth date") for start, end, day in dates(text) if day in self.births]
        found.sort(key=lambda one: (one[0] - one[1], one[0], one[2]))
        taken: list[tuple[int, int, str]] = []
        for start, end, group in found:
            if all(end <= other[0] or other[1] <= start for other in taken):
                taken.append((start, end, group))
        return tuple(
            Gold(start=start, end=end, kind=_KINDS[group], group=group, form=form)
            for start, end, group in sorted(taken)
        )


def whole_token(value: str) -> re.Pattern[str]:
    """The value with any white space between its words, no letter, digit or underscore beside it.

    Digits alone are no price and no decimal.
    """
    words = r"\s+".join(re.escape(word) for word in value.split())
    if value.isdigit():
        return re.compile(rf"(?<![\w$€£])(?<!\d[.,]){words}(?![\w%]|[.,]\d)")
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def _is_meant(group: str, value: str, text: str, start: int, end: int) -> bool:
    """Whether an occurrence is the value and not something else that is written alike."""
    if group == "card, last four":
        return _SAYS_CARD.search(text[max(0, start - 24) : end + 8]) is not None
    if group in {"first name", "last name"}:
        # Three capitals are an airport: "MIA" is not Mia.
        return end - start > 3 or not text[start:end].isupper() or value.isupper()
    # An id before "@" is a part of an address.
    return text[end : end + 1] != "@"


def dates(text: str) -> Iterator[tuple[int, int, date]]:
    """Every day that is written out with its year, whatever it is the day of."""
    for pattern in _DATES:
        for match in pattern.finditer(text):
            part = match.groupdict()
            name = (part.get("n") or "").lower()[:3]
            if name and name not in _MONTHS:
                continue
            month = _MONTHS.index(name) + 1 if name else int(part["m"])
            try:
                yield match.start(), match.end(), date(int(part["y"]), month, int(part["d"]))
            except ValueError:
                continue


def structured(message: dict[str, Any]) -> Iterator[Any]:
    """The structured payloads of a message: what a tool returned, and what it was called with."""
    texts = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    if message["role"] == "tool":
        texts.append(message["content"])
    for text in texts:
        try:
            payload = json.loads(text)
        except (TypeError, ValueError):
            continue
        if isinstance(payload, dict | list):
            yield payload


def conversation(messages: list[dict[str, Any]]) -> Iterator[Case]:
    """The free text of a conversation, each message with what the results before it had named."""
    known = Known()
    for message in messages:
        if message["role"] == "tool":
            for payload in structured(message):
                known.learn(payload)
        elif message["role"] in {"user", "assistant"} and message.get("content"):
            yield Case(text=message["content"], gold=known.gold(message["content"], form=message["role"]))


def whole_conversation(messages: list[dict[str, Any]]) -> Iterator[Case]:
    """The same with what any result or call names, before or after: also what a person tells first."""
    known = Known()
    for message in messages:
        for payload in structured(message):
            known.learn(payload)
    for message in messages:
        if message["role"] in {"user", "assistant"} and message.get("content"):
            yield Case(text=message["content"], gold=known.gold(message["content"], form=message["role"]))


def vocabulary(messages: list[dict[str, Any]]) -> Vocabulary:
    """The words that the structured payloads of a whole conversation teach."""
    return Vocabulary(
        term for message in messages for payload in structured(message) for term in terms_in(payload)
    )


def live(messages: list[dict[str, Any]]) -> Iterator[tuple[Case, Vocabulary]]:
    """Each message of `whole_conversation`, with only the words that had been taught before it was said."""
    cases, before = whole_conversation(messages), []
    words = Vocabulary(())
    for message in messages:
        if message["role"] in {"user", "assistant"} and message.get("content"):
            yield next(cases), words
        taught = [term for payload in structured(message) for term in terms_in(payload)]
        if taught:
            before += taught
            words = Vocabulary(before)


_PLANTED = (
    "Yes, I still live at {street}, {second}, {city}, {province} {zip}.",
    "ship it to {street} please, zip {zip}",
    "{first} {last}\n{street}\n{second}\n{city} {zip}\n{email}",
    "Can you confirm that you have {street} and {email} on file for {first}?",
    "i moved away from {street} {second} in {zip} last year",
    "The post code was {zip}; mail for Ms {last} goes to {email}.",
)


def planted(messages: list[dict[str, Any]]) -> Iterator[Case]:
    """Made-up sentences with the real address of every user whose record a conversation looked up.

    Every other one is in lower case, as people type.
    """
    number = 0
    for message in messages:
        if message["role"] != "tool" or message.get("name") != "get_user_details":
            continue
        for record in structured(message):
            known, address = Known(), record["address"]
            known.learn(record)
            for sentence in _PLANTED:
                text = sentence.format(
                    street=address["address1"],
                    second=address["address2"],
                    city=address["city"],
                    province=address["province"],
                    zip=address["zip"],
                    email=record["email"],
                    first=record["name"]["first_name"],
                    last=record["name"]["last_name"],
                )
                text = text.lower() if number % 2 else text
                number += 1
                yield Case(text=text, gold=known.gold(text, form="planted"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Airline:
    """What was counted over the same messages, by gold and by what the detector knew.

    ``later``: values after the result that names them, all words known; ``alone``: the same without words.
    ``anywhere``: values wherever they stand, all words known; ``live``: the same, only the words known then.
    ``planted``: addresses in sentences of our own, all words known.
    """

    conversations: int
    messages: int
    later: Score
    alone: Score
    anywhere: Score
    live: Score
    planted: Score


def measure(path: Path) -> Airline:
    """Count over every conversation of a file in the form of ``airline-support.jsonl``."""
    later, alone, anywhere, as_said, sown = Score(), Score(), Score(), Score(), Score()
    plain, conversations = Detector(), 0
    for line in path.read_text(encoding="utf-8").splitlines():
        messages = json.loads(line)["messages"]
        conversations += 1
        find = Detector(vocabulary(messages)).find
        score(conversation(messages), find, into=later)
        score(conversation(messages), plain.find, into=alone)
        score(whole_conversation(messages), find, into=anywhere)
        score(planted(messages), find, into=sown)
        for case, words in live(messages):
            score([case], Detector(words).find, into=as_said)
    return Airline(
        conversations=conversations,
        messages=later.texts,
        later=later,
        alone=alone,
        anywhere=anywhere,
        live=as_said,
        planted=sown,
    )
