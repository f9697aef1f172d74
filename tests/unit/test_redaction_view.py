"""A view answers for any payload, keeps its structure, and shows at no level what a higher one hides."""

import base64
import hashlib
import itertools
import json
import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vault import data
from vault.model import LEVELS, Event
from vault.policy.places import Rules
from vault.policy.redaction import CLASSES, Rule, read_document
from vault.redaction.detect import Detector
from vault.redaction.masking import DEPTH_MAX, JSON_IN_STRINGS_MAX, STRING_LENGTH_MAX
from vault.redaction.spans import INDIRECT, PERSONAL, SECRET, Span, resolved
from vault.redaction.view import VIEW_BYTES_MAX, view, view_event
from vault.redaction.vocabulary import Vocabulary, terms_in

BELOW_FULL = LEVELS[:3]
DETECTOR = Detector()
SHIPPED = Rules(
    read_document(
        (data.policies() / "redaction.toml").read_text(encoding="utf-8"), file="redaction.toml"
    ).rules
)
NONE = Rules(())
KEEP_ALL = Rules([Rule(pointer="/payload/**", class_="public", L0="keep")])
DETECT_ALL = Rules([Rule(pointer="/payload/**", class_="unknown", L1="detect")])

#: Each is looked for by itself, as detectors do, so that none hides what another would find.
_DETECTORS = (
    ("EMAIL", PERSONAL, re.compile(r"[\w.+-]+@[\w.-]*\w")),
    ("PHONE", PERSONAL, re.compile(r"\+\d{6,}|(?<!\d)\d{9,}(?!\d)")),
    ("API_KEY", SECRET, re.compile(r"sk-[\w-]{4,}")),
    ("BIRTH_DATE", INDIRECT, re.compile(r"(?<=born: )[\d-]+")),
)


def finder(text):
    return [
        Span(*found.span(), kind, severity)
        for kind, severity, pattern in _DETECTORS
        for found in pattern.finditer(text)
    ]


def pseudonym(kind, value):
    """As long as real ones and without digits, so that the finder above finds nothing in it."""
    digest = base64.b32encode(hashlib.sha256(f"{kind}{value}".encode()).digest()).decode().lower()[:16]
    return f"{kind}_{digest.translate(str.maketrans('234567', 'uvwxyz'))}"


def broken(text):
    raise TimeoutError("too slow")


def seen(payload, level, rules=NONE, *, event_type="message.user", find=finder, name=pseudonym, own=False):
    return view(
        payload, level=level, event_type=event_type, rules=rules, finder=find, pseudonym=name, own=own
    )


def rule(pointer, class_, **said):
    return Rule(pointer=pointer, class_=class_, **said)


# ------------------------------------------------------------------------------------- payloads to try it on

NASTY = st.sampled_from(
    [
        "",
        " ",
        "[HIDDEN]",
        "[EMAIL]",
        "<string>",
        "<number>",
        "<dropped>",
        "{",
        "[",
        '"',
        "{}",
        "[]",
        '""',
        '"a"',
        "null",
        "1",
        "\ufeff[1]",
        ' {"a": 1}',
        '{"password": "hunter2-hunter2"}',
        '{"a": 1, "a": "ann@ex.org"}',
        '["ann@ex.org", 4111111111111111]',
        '{"x": NaN, "y": "\\ud800"}',
        '{"n": 123456789012345678901234567890}',
        '"{\\"token\\": \\"sk-inner-inner\\"}"',
        "[" * 3000,
        '{"a":' * 300 + "1" + "}" * 300,
        "x\u200bann@ex.org\u200by",
        "ann@ex.org+441174960382",
        "wordann@ex.orgword",
        "\u6211ann@ex.org\u6211",
        "born: 1979-11-09",
        "sk-live-abcdef and ann@ex.org",
        "EMAIL_abcdefghijklmnop",
        "key_1",
        "\u0660\u0661\u0662",
        "a\u0301" * 5,
        "\U0001f468\u200d\U0001f469",
    ]
)
FREE = st.text(st.characters(codec="utf-8"), max_size=30)
WORDY = st.text("ab @.+-_0123456789[]{}<>:,\"'\\", max_size=40)
STRINGS = st.one_of(NASTY, FREE, WORDY, st.builds("{} {}".format, FREE, NASTY))
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.just(4111111111111111.0),
)
KEYS = st.one_of(
    st.sampled_from(
        ["password", "role", "name", "content", "born", "address", "a", "key_1", "key_2", "ann@ex.org"]
    ),
    STRINGS,
)
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, STRINGS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
#: JSON in which some parts are strings of JSON, up to more levels than are looked into.
PAYLOADS = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        inner.map(json.dumps),
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=6,
)
POINTERS = st.lists(
    st.sampled_from(["*", "**", "a", "name", "content", "address", "0"]), min_size=0, max_size=3
).map(lambda parts: "/" + "/".join(["payload", *parts]))
RULES = st.one_of(
    st.just(SHIPPED),
    st.just(DETECT_ALL),
    st.just(KEEP_ALL),
    st.lists(
        st.builds(rule, POINTERS, st.sampled_from([*CLASSES]), kind=st.sampled_from(["", "NAME"])), max_size=4
    ).map(Rules),
)
#: Stands for the values of all classes; `PAYLOADS` is tried under each of them.
EVERY = given(PAYLOADS, RULES, st.sampled_from(["message.user", "tool.returned", "my.own"]))


def alike(before, after):
    """Whether two payloads have the same structure, down to where one was hidden whole."""
    if isinstance(after, str) and (after.startswith(("<", "[")) or not isinstance(before, dict | list)):
        return True
    if isinstance(before, dict):
        return (
            isinstance(after, dict)
            and len(before) == len(after)
            and all(alike(*pair) for pair in zip(before.values(), after.values(), strict=True))
        )
    if isinstance(before, list):
        return (
            isinstance(after, list)
            and len(before) == len(after)
            and all(alike(*pair) for pair in zip(before, after, strict=True))
        )
    return before is None or type(before) is type(after)


# -------------------------------------------------------------------------------------------- properties


@settings(max_examples=300)
@EVERY
def test_a_view_is_json_of_the_same_structure(payload, rules, event_type):
    """R2"""
    for level in LEVELS:
        shown = seen(payload, level, rules, event_type=event_type)
        assert json.loads(json.dumps(shown, allow_nan=False)) == shown
        assert alike(payload, shown)


@settings(max_examples=400)
@EVERY
@example({"content": "x+441174960382"}, SHIPPED, "message.user")
@example({"a": "[" * 3000}, DETECT_ALL, "message.user")
@example({"EMAIL_abcdefghijklmnop": 1, "": 2}, NONE, "message.user")
@example({"born": "0@00"}, DETECT_ALL, "message.user")
@example([[]], Rules([rule("/payload/*", "sensitive"), rule("/payload/**", "secret")]), "message.user")
@example([4111111111111111.0], Rules([rule("/payload/*", "sensitive")]), "message.user")
def test_every_level_can_be_made_from_the_next_higher_one(payload, rules, event_type):
    """R1: what is not in a view cannot be made from it, so it is in no lower view either"""
    for upper, lower in (("L2", "L1"), ("L1", "L0"), ("L2", "L0")):
        above = seen(payload, upper, rules, event_type=event_type)
        direct = seen(payload, lower, rules, event_type=event_type)
        assert seen(above, lower, rules, event_type=event_type) == direct, (upper, lower)


@settings(max_examples=200)
@EVERY
def test_a_view_of_a_view_of_the_same_level_hides_no_more_of_it(payload, rules, event_type):
    """R1: at L2 a pseudonym of a whole field would be named again"""
    for level in ("L0", "L1"):
        once = seen(payload, level, rules, event_type=event_type)
        assert seen(once, level, rules, event_type=event_type) == once


CANARY = st.text("\u0393\u0394\u0398\u039b\u039e\u03a0\u03a3\u03a6\u03a8\u03a9", min_size=6, max_size=12)
PLANTED = [
    pytest.param("mail {}@{} now", id="in-a-sentence"),
    pytest.param('{{"note": "ask {}@{} today"}}', id="in-json"),
    pytest.param('"{{\\"deep\\": [\\"{}@{}\\"]}}"', id="in-json-in-json"),
    pytest.param("sk-{}-{}", id="a-secret"),
    pytest.param("{}@{},{}@{}", id="two-next-to-each-other"),
]


def parts_of(text):
    return {text[at : at + 4] for at in range(len(text) - 3)}


@pytest.mark.parametrize("planted", PLANTED)
@given(
    canary=CANARY,
    around=PLAIN.filter(
        lambda value: not re.search("[\u0393-\u03a9]|u03[9a]", json.dumps(value, ensure_ascii=False))
    ),
)
def test_no_part_of_what_a_detector_found_is_shown_below_l3(planted, canary, around):
    """R2"""
    text = planted.replace("{}", canary).replace("{{", "{").replace("}}", "}")
    payload = {"content": [around, text, {"text": text, text: around}], canary: 1}
    for rules, level in itertools.product((SHIPPED, DETECT_ALL, NONE), BELOW_FULL):
        named = {"name": canary} if rules is SHIPPED else {}
        shown = json.dumps(seen(payload | named, level, rules), ensure_ascii=False)
        assert not parts_of(canary) & parts_of(shown), level


@given(PAYLOADS, st.sampled_from(["L0", "L1"]))
def test_no_free_text_is_in_the_structure(payload, level):
    """R4: without a rule L0 and L1 show the keys that are names, and not a letter of any value"""
    shown = seen({"a": payload}, level)

    def texts(value):
        if isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                yield from texts(item)
        elif isinstance(value, str):
            try:
                inner = json.loads(value)
            except ValueError:
                inner = None
            if isinstance(inner, dict | list | str):
                yield from texts(inner)
            else:
                yield value
        else:
            assert value is None

    placeholders = {
        "",
        "<string>",
        "<number>",
        "<boolean>",
        "<object>",
        "<array>",
        "[HIDDEN]",
        "<secret>",
        "<dropped>",
    }
    assert set(texts(shown)) <= placeholders


@given(st.dictionaries(KEYS, st.integers(0, 9), max_size=12), st.sampled_from(BELOW_FULL))
def test_no_entry_is_lost_when_keys_are_hidden(payload, level):
    """R2"""
    shown = seen(payload, level, KEEP_ALL)
    assert list(shown.values()) == list(payload.values())
    assert list(seen(shown, level, KEEP_ALL)) == list(shown)


@settings(max_examples=50)
@given(
    st.one_of(
        st.binary(max_size=40),
        st.sets(st.integers()),
        st.just(float("nan")),
        st.just("\ud800"),
        st.just({1: 2}),
    )
)
def test_what_is_no_json_is_shown_as_a_shape(value):
    """R4"""
    for level in BELOW_FULL:
        assert seen(value, level, KEEP_ALL) in {"<unknown>", "<number>", "<string>", "<object>"}


# ------------------------------------------------------------------------------------------- what is shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(
            "Call ann@ex.org", ("<string>", "[HIDDEN]", "Call " + pseudonym("EMAIL", "ann@ex.org")), id="text"
        ),
        pytest.param("", ("", "", ""), id="empty"),
        pytest.param(None, (None, None, None), id="null"),
        pytest.param(True, ("<boolean>", "<boolean>", True), id="boolean"),
        pytest.param(42, ("<number>", "<number>", 42), id="number"),
        pytest.param(0.25, ("<number>", "<number>", 0.25), id="fraction"),
        pytest.param(441174960382, ("<number>", "<number>", "<number>"), id="phone-as-a-number"),
        pytest.param(441174960382.0, ("<number>", "<number>", "<number>"), id="phone-as-a-whole-fraction"),
        pytest.param([1, "a"], (["<number>", "<string>"], ["<number>", "[HIDDEN]"], [1, "a"]), id="list"),
        pytest.param('{"a":1}', ('{"a":"<number>"}', '{"a":"<number>"}', '{"a":1}'), id="json"),
    ],
)
def test_what_no_rule_names_is_hidden_at_l0_and_l1_and_searched_at_l2(value, shown):
    """R4"""
    assert tuple(seen(value, level) for level in BELOW_FULL) == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        pytest.param(
            {"class_": "public"},
            ("<string>", "Call [EMAIL]", "Call " + pseudonym("EMAIL", "ann@ex.org")),
            id="public",
        ),
        pytest.param(
            {"class_": "personal", "kind": "NAME"},
            ("<string>", "[NAME]", pseudonym("NAME", "Call ann@ex.org")),
            id="kind",
        ),
        pytest.param(
            {"class_": "personal"},
            ("<string>", "[HIDDEN]", pseudonym("PERSONAL", "Call ann@ex.org")),
            id="personal",
        ),
        pytest.param({"class_": "sensitive"}, ("<dropped>", "[HIDDEN]", "[HIDDEN]"), id="sensitive"),
        pytest.param({"class_": "secret"}, ("<secret>", "<secret>", "<secret>"), id="secret"),
        pytest.param(
            {"class_": "unknown", "L1": "detect"},
            ("<string>", "Call [EMAIL]", "Call " + pseudonym("EMAIL", "ann@ex.org")),
            id="detect",
        ),
    ],
)
def test_each_class_is_treated_as_documented(said, shown):
    """R2"""
    rules = Rules([rule("/payload/a", **said)])
    assert tuple(seen({"a": "Call ann@ex.org"}, level, rules)["a"] for level in BELOW_FULL) == shown


@pytest.mark.parametrize(
    "word", ["assistant", "tool_use", "gpt-5.1", "openai/gpt-5", "analyst@12", "call_9rKfT1", "image/png"]
)
def test_a_kept_word_is_shown_at_every_level(word):
    """R2"""
    assert {seen({"a": word}, level, KEEP_ALL, find=DETECTOR.find)["a"] for level in BELOW_FULL} == {word}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Xiomara", ("<string>", "[NAME]", "NAME_")),
        ("for-Xiomara", ("<string>", "for-[NAME]", "for-NAME_")),
        ("4111111111111111", ("<string>", "[CARD]", "CARD_")),
        ("AKIAIOSFODNN7EXAMPLE", ("<string>", "[SECRET]", "[SECRET]")),
        ("waiting for Xiomara", ("<string>", "waiting for [NAME]", "waiting for NAME_")),
        ("waiting for x@ex.org", ("<string>", "waiting for [EMAIL]", "waiting for EMAIL_")),
    ],
)
def test_what_a_rule_calls_public_is_searched_all_the_same(text, shown):
    """R2, R4: a state may be named after somebody"""
    find = Detector(Vocabulary(terms_in({"first_name": "Xiomara"}))).find
    for rules, event_type, place in (
        (KEEP_ALL, "message.user", "a"),
        (SHIPPED, "state.changed", "to"),
    ):
        views = [seen({place: text}, level, rules, event_type=event_type, find=find) for level in BELOW_FULL]
        assert [re.sub("_[a-z]{16}", "_", found[place]) for found in views] == list(shown)


@pytest.mark.parametrize("level", BELOW_FULL)
def test_numbers_that_a_rule_calls_public_are_searched_and_counts_stay(level):
    """R2, R4"""
    usage = {"input_tokens": 1234567, "total_tokens": 98765432, "cache_read_input_tokens": 1200345}
    payload = {"usage": usage, "created_at": 1764478800, "timestamp": 1764478800123}
    assert seen(payload, level, SHIPPED, find=DETECTOR.find) == payload
    hidden = seen({"created_at": 4111111111111111}, level, SHIPPED, find=DETECTOR.find)
    assert hidden == {"created_at": "<number>"}


@pytest.mark.parametrize(
    "text",
    ["two words", "ann@ex.org", "4111 1111", "41111111", "a" * 65, "no:\nbreak", "\u0391\u03bd\u03bd\u03b1"],
)
def test_what_is_more_than_a_word_is_not_kept_as_one(text):
    """R4"""
    assert seen({"a": text}, "L0", KEEP_ALL)["a"] == "<string>"
    assert seen({"a": text}, "L1", KEEP_ALL)["a"] == seen({"a": text}, "L1", DETECT_ALL)["a"]


def test_a_field_and_a_sentence_give_the_same_pseudonym():
    """R3"""
    rules = Rules([rule("/payload/mail", "personal", kind="CONTACT")])
    shown = seen({"mail": "ann@ex.org", "note": "ask ann@ex.org"}, "L2", rules)
    assert shown["note"] == f"ask {shown['mail']}"


def test_an_id_has_one_pseudonym_as_a_number_and_as_text():
    """R3"""
    rules = Rules([rule("/**/customer", "personal", kind="CUSTOMER")])
    payload = [{"customer": 4711}, {"customer": "4711"}]
    for level in BELOW_FULL:
        first, second = seen(payload, level, rules)
        assert first == second != {"customer": 4711}
    assert seen(payload, "L3", rules) == payload


def test_a_secret_in_a_sentence_has_no_pseudonym():
    """R2"""
    assert seen("use sk-live-1234 here", "L2") == "use [API_KEY] here"
    rules = Rules([rule("/payload/note", "personal", kind="NOTE")])
    assert seen({"note": "use sk-live-1234 here"}, "L2", rules) == {"note": "[NOTE]"}


def test_pseudonyms_that_were_written_again_are_masked_at_l1():
    """R1"""
    text = "I wrote to EMAIL_abcdefghijklmnop."
    assert seen(text, "L1", DETECT_ALL) == "I wrote to [EMAIL]."
    assert seen(text, "L2", DETECT_ALL) == text


def test_the_name_of_a_field_is_context_for_what_is_in_it():
    """R2"""
    assert seen({"born": "1979-11-09"}, "L1", DETECT_ALL) == {"born": "[BIRTH_DATE]"}
    assert seen({"born": ["1979-11-09"]}, "L1", DETECT_ALL) == {"born": ["[BIRTH_DATE]"]}
    assert seen({"born": '{"on": "1979-11-09"}'}, "L1", DETECT_ALL) == {"born": '{"on":"1979-11-09"}'}
    assert seen({"made": "1979-11-09"}, "L1", DETECT_ALL) == {"made": "1979-11-09"}


def test_the_words_of_a_field_name_are_told_apart():
    """R2"""
    asked = []
    seen(
        {"dateOfBirth": "x1", "api_keyName": "x2", "$ref/x-y.z": "x3"},
        "L2",
        find=lambda text: asked.append(text) or [],
    )
    assert {"date Of Birth: x1", "api key Name: x2", "ref x y z: x3"} <= set(asked)


# --------------------------------------------------------------------------------------- rules and containers


def test_a_rule_that_names_an_object_is_the_most_that_is_shown_in_it():
    """R4"""
    rules = Rules(
        [
            rule("/payload/address", "personal", kind="STREET"),
            rule("/payload/address/type", "public", L0="keep"),
        ]
    )
    payload = {"address": {"type": "home", "lines": ["41 Saltmarsh", {"n": 41, "open": True}]}}
    text = pseudonym("STREET", "41 Saltmarsh")
    assert seen(payload, "L0", rules) == {
        "address": {"type": "<string>", "lines": ["<string>", {"n": "<string>", "open": "<boolean>"}]}
    }
    assert seen(payload, "L1", rules)["address"]["type"] == "[STREET]"
    assert seen(payload, "L2", rules)["address"]["lines"] == [
        text,
        {"n": pseudonym("STREET", "41"), "open": "<boolean>"},
    ]
    as_text = seen({"address": json.dumps(payload["address"])}, "L2", rules)["address"]
    assert json.loads(as_text) == seen(payload, "L2", rules)["address"]


def test_a_rule_that_shows_an_object_shows_nothing_in_it_by_itself():
    """R4"""
    assert seen({"a": {"b": "c"}}, "L1", Rules([rule("/payload/a", "public", L0="keep")])) == {
        "a": {"b": "[HIDDEN]"}
    }


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("value", [{"user": "ann"}, ["ann"], '{"user": "ann"}', "ann", 7, None, True])
def test_a_secret_goes_whole_whatever_it_is(level, value):
    """R2"""
    rules = Rules([rule("/**/auth", "secret"), rule("/**/user", "public", L0="keep")])
    assert seen({"auth": value}, level, rules) == {"auth": "<secret>"}
    assert seen({"auth": value}, level, rules, own=True) == {"auth": value if level == "L3" else "<secret>"}


def test_rules_reach_into_json_in_strings_and_keep_it_json():
    """R2"""
    inner = json.dumps({"authorization": "Bearer abc", "city": "Bath"})
    payload = {"role": "assistant", "tool_calls": [{"function": {"name": "find", "arguments": inner}}]}
    shown = seen(payload, "L2", SHIPPED, event_type="message.assistant")
    assert json.loads(shown["tool_calls"][0]["function"]["arguments"]) == {
        "authorization": "<secret>",
        "city": "Bath",
    }
    assert shown["tool_calls"][0]["function"]["name"] == "find"


def test_json_in_strings_is_followed_as_deep_as_documented_and_hidden_below():
    """R2, R4"""
    value = "plain"
    for _ in range(JSON_IN_STRINGS_MAX):
        value = json.dumps([value])
    assert seen(value, "L2") == value.replace(" ", "")
    deeper = seen(json.dumps([value]), "L2")
    assert "plain" not in deeper
    assert "<string>" in deeper


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a": "ann@ex.org", "a": "b"}', id="equal-keys"),
        pytest.param(' \ufeff{"password": "hunter2", "a": "b"}', id="mark-and-spaces-first"),
        pytest.param('{"password": "hunter2", "n": 123456789012345678901234567890}', id="long-number"),
        pytest.param('{"password": "hunter2", "n": ' + "9" * 5000 + "}", id="number-of-5000-digits"),
        pytest.param('{"password": "hunter2", "n": NaN}', id="not-a-number"),
        pytest.param('{"password": "hunter2", "s": "\\ud83d"}', id="lone-surrogate"),
        pytest.param('"{\\"password\\": \\"hunter2\\"}"', id="json-of-json"),
    ],
)
def test_json_that_strict_readers_refuse_is_read_all_the_same(text):
    """R2"""
    for level in LEVELS:
        shown = seen(text, level, SHIPPED, event_type="tool.returned")
        assert "hunter2" not in shown
        json.loads(shown)
        shown.encode()
        assert ("ann@ex.org" in shown) is False


# ---------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    "key",
    [
        "role",
        "content",
        "$ref",
        "@type",
        "x-request-id",
        "application/json",
        "a.b_c",
        "camelCase",
        "_id",
        "h2",
    ],
)
def test_names_of_fields_stay(key):
    """R2"""
    assert [list(seen({key: 1}, level)) for level in BELOW_FULL] == [[key]] * 3


@pytest.mark.parametrize(
    "key",
    [
        "ann@ex.org",
        "Ann Smith",
        "",
        "4711",
        "+441174960382",
        "a" * 65,
        "/home/ann",
        "a/b/c",
        "\u0391\u03bd",
        "sk-live-abcd",
        "a\n",
    ],
)
def test_keys_that_are_data_become_placeholders(key):
    """R2"""
    assert [list(seen({key: 1}, level)) for level in BELOW_FULL] == [["key_1"]] * 3


def test_placeholders_of_keys_take_no_name_that_is_there():
    """R2"""
    payload = {"Ann Smith": 1, "key_1": 2, "Bob Smith": 3, "key_3": 4}
    assert seen(payload, "L2") == {"key_2": 1, "key_1": 2, "key_4": 3, "key_3": 4}


def test_keys_that_are_looked_into_together_are_hidden_one_by_one():
    """R2"""
    payload = {
        **{f"field_{chr(97 + number // 26)}{chr(97 + number % 26)}": 1 for number in range(200)},
        "sk-live-ab": 2,
    }
    asked = []

    def counted(text):
        asked.append(text)
        return finder(text)

    for level in LEVELS:
        asked.clear()
        shown = seen(payload, level, find=counted)
        assert list(shown) == [*list(payload)[:-1], "key_1"]
        assert len(asked) < 100


def test_a_key_that_a_rule_names_needs_no_detector():
    """R2"""
    asked = []
    seen({"role": {"content": {"zzz": None}}}, "L0", SHIPPED, find=lambda text: asked.append(text) or [])
    assert asked == ["zzz"]


# ---------------------------------------------------------------------------------------------- failures


def test_a_detector_that_fails_hides_all_that_it_was_asked_about():
    """R4"""
    payload = {"a": "text", "role": "user", "b": 1234567, "c": ["x", {"zzz": "y"}], "password": "p"}
    assert seen(payload, "L2", SHIPPED, find=broken) == {
        "key_1": "[HIDDEN]",
        "role": "[HIDDEN]",
        "key_2": "<number>",
        "key_3": ["[HIDDEN]", {"key_1": "[HIDDEN]"}],
        "password": "<secret>",
    }


@pytest.mark.parametrize(
    "span",
    [
        (-1, 2, "EMAIL", 2),
        (0, 99, "EMAIL", 2),
        (2, 2, "EMAIL", 2),
        (3, 1, "EMAIL", 2),
        (0, 1),
        None,
        ("0", 1, "X", 2),
    ],
)
def test_a_detector_that_marks_nonsense_hides_the_whole_string(span):
    """R4"""
    assert seen("some text", "L2", find=lambda _: [span]) == "[HIDDEN]"


@pytest.mark.parametrize("kind", ["ann@ex.org", "", "a" * 33, "email"])
def test_a_kind_that_is_no_word_is_not_shown(kind):
    """R4"""
    for level, shown in (("L1", "[HIDDEN]"), ("L2", pseudonym("HIDDEN", "some"))):
        found = [Span(0, 4, kind, 2)]
        assert seen("some text", level, DETECT_ALL, find=lambda _, found=found: found) == f"{shown} text"


def test_without_a_pseudonym_the_mask_is_shown():
    """R4"""
    assert seen("to ann@ex.org", "L2", name=lambda *_: 1 / 0) == "to [EMAIL]"


@pytest.mark.parametrize("rules", [KEEP_ALL, DETECT_ALL, SHIPPED])
def test_what_is_too_long_is_a_shape_and_is_not_searched(rules):
    """R4, invariant 12"""
    text = "a" * (STRING_LENGTH_MAX + 1)
    for level in BELOW_FULL:
        assert list(seen({"content": text}, level, rules, find=broken).values()) == ["<string>"]
    assert seen({"content": text[1:]}, "L2", KEEP_ALL, find=lambda _: []) == {"content": text[1:]}
    many = {"content": ["b" * 1000] * (VIEW_BYTES_MAX // 1000)}
    for level in BELOW_FULL:
        assert seen(many, level, rules, find=broken) == "<object>"


def test_what_is_nested_deeper_than_documented_is_a_shape():
    """R4, invariant 12"""
    value, shown = "inside", "inside"
    for _ in range(DEPTH_MAX):
        value, shown = [value], [shown]
    assert seen(value, "L2") == shown
    for level in BELOW_FULL:
        text = json.dumps(seen([value], level))
        assert "inside" not in text
        assert text.endswith('"<array>"' + "]" * DEPTH_MAX)


def test_a_payload_of_ten_thousand_levels_does_no_harm():
    """R4, invariant 12"""
    value = []
    for _ in range(10_000):
        value = [value]
    for level in BELOW_FULL:
        assert seen(value, level) == "<array>"
        assert seen("[" * 10_000 + "]" * 10_000, level) == "<string>"
        assert "a" not in json.loads(seen('{"a":' * 900 + "1" + "}" * 900, level)).get("b", "")


@pytest.mark.parametrize("level", ["", "l3", "L4", "full", None])
def test_a_word_that_is_no_level_is_l0(level):
    """R4"""
    assert seen({"a": "text"}, level, KEEP_ALL) == {"a": "text"}
    assert seen({"a": "two words"}, level, KEEP_ALL, own=True) == {"a": "<string>"}


# --------------------------------------------------------------------------------------------------- L3


def test_the_full_view_of_somebody_elses_data_lacks_the_secrets():
    """R1, O3"""
    payload = {"note": "ann@ex.org uses sk-live-1234", "password": "p", "n": 441174960382, "sk-key-abcd": 1}
    assert seen(payload, "L3", SHIPPED) == {
        "note": "ann@ex.org uses [API_KEY]",
        "password": "<secret>",
        "n": 441174960382,
        "key_1": 1,
    }
    assert seen(payload, "L3", SHIPPED, own=True) is payload
    assert seen({"role": "see note"}, "L3", SHIPPED, find=broken) == {"role": "[HIDDEN]"}


def test_being_the_owner_shows_no_more_below_l3():
    """R1"""
    payload = {"note": "ann@ex.org", "password": "p"}
    for level in BELOW_FULL:
        assert seen(payload, level, SHIPPED, own=True) == seen(payload, level, SHIPPED)


# ------------------------------------------------------------------------------------------------- spans


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        pytest.param(
            "see ann@ex.org.", [Span(5, 12, "EMAIL", 2)], [Span(4, 14, "EMAIL", 2)], id="to-whole-words"
        ),
        pytest.param("a b c", [Span(2, 3, "X", 2)], [Span(2, 3, "X", 2)], id="a-word-already"),
        pytest.param(
            "abcdef", [Span(0, 2, "X", 1), Span(1, 6, "YY", 1)], [Span(0, 6, "YY", 1)], id="longest"
        ),
        pytest.param(
            "ab cd", [Span(0, 4, "X", 3), Span(0, 5, "Y", 1)], [Span(0, 5, "Y", 3)], id="most-severe-of-all"
        ),
        pytest.param(
            "ab cd", [Span(0, 5, "X", 1), Span(0, 5, "B", 2)], [Span(0, 5, "B", 2)], id="equally-long"
        ),
        pytest.param(
            "a+b",
            [Span(0, 1, "X", 1), Span(2, 3, "Y", 1)],
            [Span(0, 1, "X", 1), Span(2, 3, "Y", 1)],
            id="apart",
        ),
        pytest.param("ab", [Span(0, 1, "X", 1), Span(1, 2, "Y", 2)], [Span(0, 2, "Y", 2)], id="in-one-word"),
        pytest.param(
            "x\u200by\u00adz", [Span(0, 1, "X", 1)], [Span(0, 5, "X", 1)], id="over-signs-without-width"
        ),
        pytest.param("e\u0301t e", [Span(0, 1, "X", 1)], [Span(0, 3, "X", 1)], id="over-combining-marks"),
        pytest.param("\u6211123\u6211", [Span(1, 3, "X", 1)], [Span(1, 4, "X", 1)], id="not-over-han"),
        pytest.param(
            "b@c",
            [Span(2, 5, "X", 1), Span(6, 7, "Y", 1)],
            [Span(0, 1, "X", 1), Span(2, 3, "Y", 1)],
            id="skipping",
        ),
        pytest.param("b c", [Span(0, 4, "X", 1)], [], id="only-before"),
    ],
)
def test_spans_are_widened_and_joined(text, found, expected):
    """R2"""
    skip = {"b@c": 4, "b c": 4}.get(text, 0)
    assert resolved(found, text, skip=skip) == expected


@given(st.text(f"{string.ascii_letters} .@\u6211\u200b", max_size=60), st.data())
def test_all_that_was_found_is_in_some_span_and_no_two_overlap(text, draw):
    """R2"""
    edge = st.integers(0, len(text))
    pairs = draw.draw(st.lists(st.tuples(edge, edge).map(sorted).filter(lambda p: p[0] < p[1]), max_size=6))
    found = [Span(start, end, "X", 2) for start, end in pairs]
    spans = resolved(found, text)
    covered = [at for span in spans for at in range(span.start, span.end)]
    assert len(covered) == len(set(covered))
    assert covered == sorted(covered)
    assert {at for start, end in pairs for at in range(start, end)} <= set(covered)


def test_many_spans_in_one_long_word_take_no_longer():
    """Invariant 12: quadratic, this would take minutes"""
    text = "a" * 400_000
    found = [Span(at, at + 1, "X", 2) for at in range(0, len(text), 10)]
    assert resolved(found, text) == [Span(0, len(text), "X", 2)]


# ------------------------------------------------------------------------------------------------ events


def event(**said):
    fields = {
        "id": "evt_1",
        "session_id": "ses_1",
        "seq": 7,
        "type": "message.user",
        "recorded_us": 5,
        "run": "run_1",
        "tool": None,
        "caused_by": "evt_0",
        "observed_us": 3,
        "occurred_us": 4,
        "usage": None,
        "level": "L3",
        "payload": None,
        "raw": None,
        "payload_ref": "blob://sha256/00",
        "size": 100,
        "streamed": False,
        "resource": None,
        "valid_for_us": 9,
    }
    return Event(**{**fields, **said})


def seen_event(given_event, level, *, find=finder, own=False):
    return view_event(given_event, level=level, rules=SHIPPED, finder=find, pseudonym=pseudonym, own=own)


def test_what_the_vault_itself_knows_of_an_event_stays_at_every_level():
    """R1, L6"""
    full = event(payload={"content": "text"})
    for level in LEVELS:
        shown = seen_event(full, level)
        assert shown._replace(payload=None) == full._replace(payload=None)
        assert shown.payload == seen(full.payload, level, SHIPPED)


@pytest.mark.parametrize(
    ("tool", "shown"),
    [
        ("warehouse.query", (None, "warehouse.query", "warehouse.query", "warehouse.query")),
        (
            "mail to ann@ex.org",
            (None, "mail to [EMAIL]", "mail to " + pseudonym("EMAIL", "ann@ex.org"), "mail to ann@ex.org"),
        ),
        ("sk-live-abcdef", (None, "[API_KEY]", "[API_KEY]", "[API_KEY]")),
        (None, (None, None, None, None)),
    ],
)
def test_tools_have_names_from_l1(tool, shown):
    """R1"""
    assert tuple(seen_event(event(tool=tool), level).tool for level in LEVELS) == shown


def test_a_resource_is_a_pseudonym_at_l2_and_hidden_below():
    """R1, R3"""
    full = event(resource="crm/customer/42")
    named = pseudonym("RESOURCE", "crm/customer/42")
    assert [seen_event(full, level).resource for level in LEVELS] == [None, None, named, "crm/customer/42"]


def test_usage_keeps_its_numbers_and_nothing_else():
    """R1, L5"""
    usage = {
        "model": "gpt-5",
        "input_tokens": 12,
        "temperature": 0.5,
        "cached": True,
        "ann@ex.org": 1,
        "id": 4111111111111111,
        "details": {"reasoning_tokens": 3, "note": "ann"},
        "list": [1],
        "deep": {"a": {"b": {"c": {"d": 1}}}},
    }
    kept = {
        "input_tokens": 12,
        "temperature": 0.5,
        "details": {"reasoning_tokens": 3},
        "deep": {"a": {"b": {}}},
    }
    for level in BELOW_FULL:
        assert seen_event(event(usage=usage), level).usage == kept
    assert seen_event(event(usage=usage), "L3").usage == usage


@pytest.mark.parametrize(("stored", "asked"), [(stored, asked) for stored in LEVELS for asked in LEVELS])
def test_an_event_is_never_shown_above_the_level_it_was_stored_at(stored, asked):
    """R1, L6"""
    full = event(payload={"content": "ann@ex.org", "password": "p"}, tool="t", resource="r", level=stored)
    for own in (False, True):
        least = min(stored, asked)
        assert seen_event(full, asked, own=own) == seen_event(
            full._replace(level="L3"), least, own=own
        )._replace(level=stored)


def test_raw_json_is_seen_as_json_and_stays_raw():
    """R2, A4"""
    full = event(raw=b'{"content": "ask ann@ex.org",  "password": "p", "zzz": "x"}')
    shown = seen_event(full, "L1")
    assert shown.payload is None
    assert json.loads(shown.raw) == {"content": "ask [EMAIL]", "password": "<secret>", "zzz": "[HIDDEN]"}
    assert json.loads(seen_event(full, "L3").raw)["password"] == "<secret>"
    assert seen_event(full, "L3", own=True) is full


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        (b"", 0),
        (b"a", 1),
        (b"ann@ex.org", 16),
        (b"\xff\xfe" * 300, 1024),
        (b"x" * 1024, 1024),
        (b"x" * 1025, 2048),
        (b'{"a": 1}\n{"a": 2}', 32),
        (b"[" * 5000, 8192),
        (b'"' + b"a" * VIEW_BYTES_MAX + b'"', 2 * VIEW_BYTES_MAX),
    ],
)
def test_raw_bytes_that_are_no_json_are_a_rounded_size(raw, size):
    """R4"""
    for level in BELOW_FULL:
        shown = seen_event(event(raw=raw), level)
        assert (shown.payload, shown.raw) == ({"bytes": size}, None)


def test_raw_bytes_at_l3_lack_the_secrets_that_can_be_found_in_them():
    """R1"""
    assert seen_event(event(raw=b"ann@ex.org uses sk-live-1234"), "L3").raw == b"ann@ex.org uses [API_KEY]"
    assert (
        seen_event(event(raw=b"\xff\xd8 sk-live-1234"), "L3").raw is None
    )  # no text: only its owner sees it
    assert seen_event(event(raw=b"text"), "L3", find=broken).raw == b"[HIDDEN]"
    unread = b"a" * (STRING_LENGTH_MAX + 1)
    assert seen_event(event(raw=unread), "L3").raw is None
    assert seen_event(event(raw=unread), "L3", own=True).raw == unread


@given(st.binary(max_size=60), st.sampled_from(LEVELS))
def test_a_view_of_an_event_answers_for_any_bytes(raw, level):
    """R4"""
    shown = seen_event(event(raw=raw, tool="t", usage={"n": 1}), level)
    assert (shown.raw is None) == (shown.payload is not None)


def test_a_view_of_an_event_answers_for_what_is_no_event():
    """R4"""
    shown = seen_event(event(raw="not bytes", tool=7, usage=[1], resource=8, payload={1: 2}), "L2")
    assert (shown.payload, shown.raw, shown.tool, shown.usage, shown.resource) == (
        "<object>",
        None,
        None,
        None,
        None,
    )
