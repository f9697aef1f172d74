"""What the structured part of a session names is found again in its free text, as whole words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.errors import LimitExceeded
from vault.redaction import vocabulary as module
from vault.redaction.normalise import read
from vault.redaction.vocabulary import Vocabulary, field_name, terms_in
from vault.redaction.vocabulary_terms import Term, When

USER = {
    "user_id": "mei_chen_42",
    "name": {"first_name": "Mei", "last_name": "Oyelaran"},
    "address": {"address1": "833 Highland Drive", "address2": "Suite 740", "city": "Denver", "zip": "80211"},
    "email": "mei.oyelaran@example.com",
    "phone": "+1 415-555-2671",
    "dob": "1992-09-13",
    "payment_methods": {
        "gift_card_8887175": {"source": "gift_card", "amount": 35, "id": "gift_card_8887175"},
        "credit_card_4421486": {"brand": "visa", "last_four": "7447", "id": "credit_card_4421486"},
    },
    "saved_passengers": [{"first_name": "Björn", "last_name": "Müller-Lüdenscheidt", "dob": "1990-12-07"}],
    "membership": "gold",
    "reservations": ["M05KNL", "UHDAHF"],
}


def found(vocabulary: Vocabulary, text: str) -> list[tuple[str, str]]:
    spans = sorted(vocabulary.find(text), key=lambda span: (span.start, -span.end))
    return [(text[span.start : span.end], span.kind) for span in spans]


@pytest.fixture(scope="module")
def user() -> Vocabulary:
    return Vocabulary(terms_in(USER))


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("Hello Mei, welcome", "Mei", "NAME"),
        ("MEI OYELARAN", "MEI OYELARAN", "NAME"),
        ("that is oyelaran's ticket", "oyelaran", "NAME"),
        ("for Bjorn Muller-Ludenscheidt", "Bjorn Muller-Ludenscheidt", "NAME"),
        ("for MUELLER-LUEDENSCHEIDT", "MUELLER-LUEDENSCHEIDT", "NAME"),
        ("Bjo\u0308rn", "Bjo\u0308rn", "NAME"),
        ("send it to 833 highland\n drive", "833 highland\n drive", "STREET"),
        ("suite 740", "suite 740", "STREET"),
        ("it is 80211.", "80211", "ZIP"),
        ("Mei.Oyelaran@Example.com", "Mei.Oyelaran@Example.com", "EMAIL"),
        ("or (415) 555-2671", "(415) 555-2671", "PHONE"),
        ("or 14155552671", "14155552671", "PHONE"),
        ("on September 13, 1992", "September 13, 1992", "BIRTH_DATE"),
        ("on 13 Sep 1992", "13 Sep 1992", "BIRTH_DATE"),
        ("on 09/13/1992", "09/13/1992", "BIRTH_DATE"),
        ("on 13.9.1992", "13.9.1992", "BIRTH_DATE"),
        ("on the 13th of September 1992", "13th of September 1992", "BIRTH_DATE"),
        ("I am mei_chen_42", "mei_chen_42", "USER_ID"),
        ("the m05knl one", "m05knl", "REFERENCE"),
        ("use gift card 8887175", "gift card 8887175", "REFERENCE"),
        ("use the one with 4421486", "4421486", "REFERENCE"),
        ("the visa ending in 7447", "7447", "CARD"),
        ("put it on my 7447 card", "7447", "CARD"),
        ("my 7447 Visa card", "7447", "CARD"),
    ],
)
def test_a_value_of_a_field_is_found_in_free_text(user, text, value, kind):
    """R2"""
    assert (value, kind) in found(user, text)


@pytest.mark.parametrize(
    "text",
    [
        "meine Meinung",
        "homeiest",
        "Here mei is lower case, and three letters",
        "a gold membership by gift card",
        "it costs 7447 or 35",
        "7447 points",
        "flights from Denver",
        "number 1802110",
        "M05KNLX",
        "September 13",
    ],
)
def test_parts_of_words_and_common_values_are_left(user, text):
    """R2"""
    assert found(user, text) == []


@pytest.mark.parametrize("depth", range(1, 5))
def test_json_in_strings_is_learned_from(depth):
    """R2"""
    payload = {"first_name": "Zacharias"}
    for _ in range(depth):
        payload = {"content": json.dumps(payload)}
    assert found(Vocabulary(terms_in([payload])), "ask zacharias") == [("zacharias", "NAME")]


def test_a_name_field_counts_where_it_is_a_person():
    """R2"""
    tool = {"name": "Wireless Earbuds", "arguments": "{}"}
    assert len(Vocabulary(terms_in(tool))) == 0
    for person in ({"name": "Zoe Okafor", "email": "z@example.com"}, {"customer": {"name": "Zoe Okafor"}}):
        assert ("Zoe Okafor", "NAME") in found(Vocabulary(terms_in(person)), "for Zoe Okafor")


def test_numbers_in_fields_are_values_too():
    """R2"""
    vocabulary = Vocabulary(terms_in({"zip": 80211, "user_id": 4711001, "age": 42, "active": True}))
    assert found(vocabulary, "4711001 in 80211 at 42") == [("4711001", "USER_ID"), ("80211", "ZIP")]


def test_secrets_in_fields_are_found_in_talk():
    """R2"""
    vocabulary = Vocabulary(terms_in({"login": {"password": "swordfish"}}))
    assert found(vocabulary, "try Swordfish") == [("Swordfish", "SECRET")]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("Will you be there in May? We will, we may.", [], id="words and months"),
        pytest.param("May I? It may rain.", [], id="begins a sentence"),
        pytest.param("Hi Will, thanks", ["Will"], id="greeted"),
        pytest.param("Mrs. May is here", ["May"], id="with a title"),
        pytest.param("my name is May", ["May"], id="told"),
        pytest.param("Will May flies", ["Will May", "Will", "May"], id="full name"),
        pytest.param("May, Will", ["May", "Will"], id="family name first"),
        pytest.param("we met Grace there", ["Grace"], id="capital inside a sentence"),
        pytest.param("a grace period. Grace ends.", [], id="a word"),
        pytest.param("Grace Hopkins", ["Grace", "Hopkins"], id="beside a name"),
    ],
)
def test_names_that_are_words_do_not_mask_everything(text, names):
    """R2"""
    people = [{"first_name": "Will", "last_name": "May"}, {"first_name": "Grace"}, {"last_name": "Hopkins"}]
    assert found(Vocabulary(terms_in(people)), text) == [(name, "NAME") for name in names]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("booked for mia?", ["mia"], id="no capitals anywhere"),
        pytest.param("Booked for mia?", [], id="whoever writes capitals means none"),
        pytest.param("mail for ms li goes out", ["li"], id="after a title"),
        pytest.param("mr taylor and ms baker", ["taylor", "baker"], id="words after titles"),
        pytest.param("my name is baker", ["baker"], id="told in lower case"),
        pytest.param("the baker and the taylor, in a li", [], id="words in lower case"),
        pytest.param("First Name - Mia, Last Name - Baker, Born", ["Mia", "Baker"], id="a list of fields"),
        pytest.param("- Baker is closed", [], id="a list"),
        pytest.param("Miami (MIA), then MIA to EWR", [], id="an airport"),
        pytest.param("from JFK to MIA", [], id="an airport at the end"),
        pytest.param("BOOK FOR MIA AND LEI", ["MIA"], id="all in capitals"),
        pytest.param("Tell MIA please", ["MIA"], id="capitals by themselves"),
        pytest.param("Tell MIA and ZOE please", ["MIA", "ZOE"], id="two known names beside each other"),
        pytest.param("Passenger MIA to EWR", ["MIA"], id="called"),
    ],
)
def test_short_names_and_names_that_are_words_are_told_by_how_all_is_written(text, names):
    """R2"""
    people = [{"first_name": "Mia", "last_name": "Li"}, {"last_name": "Taylor"}, {"last_name": "Baker"}]
    vocabulary = Vocabulary(terms_in([*people, {"first_name": "Zoe"}]))
    assert [name for name, _ in found(vocabulary, text)] == names


def test_scripts_without_spaces_need_no_word_boundary():
    """R2"""
    vocabulary = Vocabulary(terms_in({"customer": {"name": "山田太郎"}}))
    assert found(vocabulary, "これは山田太郎です") == [("山田太郎", "NAME")]


def test_short_and_empty_values_are_not_learned():
    """R2"""
    payload = {
        "first_name": "A",
        "last_name": "",
        "zip": "12",
        "password": "no",
        "user_id": "me",
        "dob": "n/a",
    }
    assert len(Vocabulary(terms_in(payload))) == 0


def test_of_two_kinds_the_more_severe_and_of_two_conditions_the_stricter_mask_wins():
    """R2, R4"""
    vocabulary = Vocabulary(
        [Term("tiger", "NAME", When.CALLED), Term("Tiger", "SECRET"), Term("TIGER", "ZIP", When.CAPITAL)]
    )
    assert found(vocabulary, "a tiger") == [("tiger", "SECRET")]


def test_an_empty_vocabulary_finds_nothing():
    """R2"""
    assert Vocabulary([]).find("anything") == []
    assert not Vocabulary([])


@pytest.mark.parametrize(
    ("key", "name"),
    [("firstName", "first_name"), ("First Name", "first_name"), ("first-name", "first_name"), ("DOB", "dob")],
)
def test_a_field_has_one_name_in_every_style(key, name):
    """R2"""
    assert field_name(key) == name


def test_too_much_to_learn_is_refused(monkeypatch):
    """R4"""
    monkeypatch.setattr(module, "VALUES_MAX", 10)
    with pytest.raises(LimitExceeded, match="too many values"):
        list(terms_in([0] * 20))
    monkeypatch.setattr(module, "TERMS_MAX", 2)
    with pytest.raises(LimitExceeded, match="too many things"):
        Vocabulary(Term(f"name{n}", "NAME") for n in range(5))


def test_a_deeply_nested_payload_is_walked():
    """R2"""
    payload = {"first_name": "Zacharias"}
    for _ in range(100_000):
        payload = [payload]
    assert len(Vocabulary(terms_in(payload))) == 1
    assert len(Vocabulary(terms_in({"content": "[" * 100_000}))) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "first_name", "dob", "email", "id", "payment_methods", "pin"]), inner
        )
    ),
)


@given(JSON, st.text(max_size=60))
def test_any_payload_can_be_learned_from_and_any_text_searched(payload, text):
    """R2, R4"""
    plain = read(text).text
    for span in Vocabulary(terms_in(payload)).find(plain):
        assert 0 <= span.start < span.end <= len(plain)


@given(st.text(st.characters(categories=["L"]), min_size=4, max_size=12))
def test_every_long_family_name_is_found_beside_a_first_name(name):
    """R2"""
    vocabulary = Vocabulary(terms_in({"first_name": "Zacharias", "last_name": name}))
    plain = read(f"ask Zacharias {name} now").text
    marks = {at for span in vocabulary.find(plain) for at in range(span.start, span.end)}
    assert set(range(len("ask "), len(plain) - len(" now"))) <= marks
