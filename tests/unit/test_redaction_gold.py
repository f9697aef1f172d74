"""The answers that the redaction benchmark counts against are right, and the same each time."""

import json
import random
from datetime import date

import pytest

pytest.importorskip("faker", reason="the redaction benchmark needs Faker")

from stdnum import iban, luhn

from benchmarks.redaction import airline, generated, numbers
from benchmarks.redaction.scoring import Case, Gold, is_hidden, score
from vault.redaction.spans import PERSONAL, Span

USER = {
    "name": {"first_name": "Mia", "last_name": "Ro"},
    "address": {
        "address1": "12 Larch Way",
        "address2": "Unit 9",
        "city": "Springfield",
        "province": "ZZ",
        "zip": "30301",
    },
    "email": "mia.ro@example.org",
    "dob": "1988-04-05",
    "payment_methods": {
        "credit_card_5550123": {"source": "credit_card", "last_four": "9042", "id": "credit_card_5550123"}
    },
    "reservations": ["QX7TL2"],
}


def known(result=USER) -> airline.Known:
    made = airline.Known()
    made.learn(result)
    return made


def labels(text: str) -> list[tuple[str, str]]:
    return [(gold.group, text[gold.start : gold.end]) for gold in known().gold(text, form="user")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Thanks, mia!", [("first name", "mia")], id="any case"),
        pytest.param("Mia  Ro and Mia", [("full name", "Mia  Ro"), ("first name", "Mia")], id="the longest"),
        pytest.param("Miami, Roma, mia_ro_1234, Rot", [], id="parts of words"),
        pytest.param("from MIA to EWR", [], id="an airport"),
        pytest.param("ship to 12 larch way", [("street", "12 larch way")], id="street"),
        pytest.param("zip 30301.", [("zip", "30301")], id="zip"),
        pytest.param("$30301, 30301.50, 3.30301, 130301", [], id="amounts"),
        pytest.param("born April 5, 1988", [("birth date", "April 5, 1988")], id="a day in words"),
        pytest.param("04/05/1988 or 1988-04-06", [("birth date", "04/05/1988")], id="another day"),
        pytest.param("qx7tl2 and QX7TL25", [("reservation id", "qx7tl2")], id="reservation"),
        pytest.param("credit_card_5550123", [("payment id", "credit_card_5550123")], id="payment"),
        pytest.param("Credit card 5550123", [("payment id", "Credit card 5550123")], id="payment in words"),
        pytest.param("card 5550123", [("payment id, digits", "5550123")], id="payment in short"),
        pytest.param("ending in 9042", [("card, last four", "9042")], id="last four"),
        pytest.param("at 9042 points", [], id="four digits of something else"),
        pytest.param("to mia.ro@example.org", [("e-mail", "mia.ro@example.org")], id="e-mail"),
    ],
)
def test_a_label_is_a_whole_token_that_a_result_named(text, expected):
    assert labels(text) == expected


def test_only_what_an_earlier_result_named_is_labelled_after_it():
    messages = [
        {"role": "user", "content": "I am Mia Ro."},
        {"role": "tool", "name": "get_user_details", "content": json.dumps(USER)},
        {"role": "tool", "name": "think", "content": "Error: Ana Ro"},
        {"role": "assistant", "content": "Hello Mia, hello Ana."},
    ]
    assert [len(case.gold) for case in airline.conversation(messages)] == [0, 1]
    assert [len(case.gold) for case in airline.whole_conversation(messages)] == [1, 1]


def test_words_known_at_the_time_come_from_messages_before():
    messages = [
        {"role": "user", "content": "I am Mia Ro."},
        {"role": "tool", "name": "get_user_details", "content": json.dumps(USER)},
        {"role": "assistant", "content": "Hello Mia."},
    ]
    first, second = airline.live(messages)
    assert len(first[1]) == 0
    assert [span.kind for span in second[1].find("Mia")] == ["NAME"]


def test_days_are_read_in_the_ways_they_are_written():
    text = "1988-04-05, 5 April 1988, Apr 5th, 1988, May 5, 1988"
    assert {day for _, _, day in airline.dates(text)} == {date(1988, 4, 5), date(1988, 5, 5)}


def test_planted_sentences_hold_the_address_they_say():
    messages = [{"role": "tool", "name": "get_user_details", "content": json.dumps(USER)}]
    cases = list(airline.planted(messages))
    groups = {gold.group for case in cases for gold in case.gold}
    assert {"street", "street, second line", "zip", "e-mail", "full name"} <= groups
    assert all(case.gold for case in cases)


def test_the_same_seed_makes_the_same_set_and_another_seed_another():
    first, again = list(generated.cases(each=12)), list(generated.cases(each=12))
    assert first == again
    assert first != list(generated.cases(each=12, seed=1))


def test_every_label_of_the_generated_set_holds_its_whole_value():
    for case in generated.cases(each=40):
        for gold in case.gold:
            value = case.text[gold.start : gold.end]
            assert value.strip()
            if gold.group == "card":
                digits = "".join(c for c in value.replace("\\u00a0", "") if c.isdigit())
                assert luhn.is_valid(digits)
            if gold.group == "IBAN":
                assert iban.is_valid(value, check_country=False)
            # Nothing of the value is left outside its label.
            assert value not in case.text[: gold.start] + " " + case.text[gold.end :]


def test_cards_of_every_scheme_are_made():
    rng = random.Random(3)
    made = {numbers.card(rng, number)[1].split(",")[0] for number in range(60)}
    assert {"visa", "amex", "maestro", "uatp", "mir"} <= made


def test_a_value_counts_as_hidden_only_when_no_letter_or_digit_is_left():
    gold = Gold(start=4, end=9, kind="ZIP", group="zip", form="")
    assert is_hidden("zip 12-45.", gold, [Span(4, 6, "ZIP", 1), Span(7, 9, "NAME", 2)])
    assert not is_hidden("zip 12-45.", gold, [Span(4, 8, "ZIP", 1)])


def test_marks_are_right_only_on_values_of_their_kind():
    text = "Mia, 30301, x" + "y" * 20
    case = Case(
        text=text,
        gold=(
            Gold(start=0, end=3, kind="NAME", group="first name", form=""),
            Gold(start=5, end=10, kind="ZIP", group="zip", form=""),
        ),
    )
    spans = [Span(0, 3, "NAME", PERSONAL), Span(5, 10, "CARD", PERSONAL), Span(12, 30, "NAME", PERSONAL)]
    total = score([case], lambda _: spans)
    assert (total.precision["NAME"].right, total.precision["NAME"].wrong) == (1, 1)
    assert total.precision["CARD"].misnamed == 1
    assert (total.recall["zip"].hidden, total.recall["zip"].named) == (1, 0)
    # A mark over everything hides the values and is still wrong.
    total = score([case], lambda _: [Span(0, len(text), "NAME", PERSONAL)])
    assert total.precision["NAME"].wrong == 1
    assert total.recall["zip"].hidden == 1


def test_marks_in_a_text_without_values_are_noise_unless_neutral():
    cases = [
        Case(text="order 1", form="order"),
        Case(text="order 1", form="order", neutral=frozenset({"REFERENCE"})),
    ]
    total = score(cases, lambda _: [Span(6, 7, "REFERENCE", 1)])
    assert (total.noise["order"].texts, total.noise["order"].marked) == (2, 1)
    assert total.precision["REFERENCE"].wrong == 1
