"""Levels form an order, rules for fields are checked where they are written, the most specific one wins."""

import itertools
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault import data
from vault.errors import InvalidInput
from vault.model import LEVELS
from vault.policy.places import UNKNOWN, Matcher, Rules, fold
from vault.policy.redaction import (
    ACTIONS,
    CLASSES,
    POINTER_LENGTH_MAX,
    RULES_MAX,
    SEGMENTS_MAX,
    Rule,
    effective,
    line_of,
    raised,
    read_document,
)

NO_BOUND = {"purpose": None, "rule": None, "grant": None, "subject": None}


def rule(pointer, class_="unknown", **said):
    return Rule(pointer=pointer, class_=class_, **said)


def treatment(rules, pointer, event_type="message.user"):
    place = Rules(rules).for_type(event_type).start
    for segment in pointer[1:].split("/"):
        place = place.below(segment)
    return place.treatment


def actions(rules, pointer, event_type="message.user"):
    return tuple(ACTIONS[action] for action in treatment(rules, pointer, event_type).actions[:3])


# ------------------------------------------------------------------------------------------------ levels


@pytest.mark.parametrize(
    ("bounds", "level", "reason"),
    [
        pytest.param({}, "L3", "L3, because the role and the event allow no more", id="nothing-bounds"),
        pytest.param({"role": "L1"}, "L1", "L1, because the role allows no more", id="role"),
        pytest.param({"event": "L0"}, "L0", "L0, because the event allows no more", id="event"),
        pytest.param({"purpose": "L2"}, "L2", "L2, because the purpose allows no more", id="purpose"),
        pytest.param({"rule": "L2", "grant": "L1"}, "L1", "L1, because the grant allows no more", id="grant"),
        pytest.param({"subject": "L0"}, "L0", "L0, because the subject's state allows no more", id="subject"),
        pytest.param(
            {"rule": "L1", "grant": "L1"},
            "L1",
            "L1, because the field rule and the grant allow no more",
            id="two-at-once",
        ),
        pytest.param(
            {"grant": "full"},
            "L0",
            "L0, because the grant allows no more; what the grant said is not a level",
            id="no-level",
        ),
    ],
)
def test_a_view_has_the_least_of_the_levels_that_bound_it(bounds, level, reason):
    """R1, invariant 11"""
    assert effective(**{"role": "L3", "event": "L3", **NO_BOUND, **bounds}) == (level, reason)


@given(st.fixed_dictionaries({name: st.sampled_from([*LEVELS, None]) for name in NO_BOUND}), st.data())
def test_no_bound_is_ever_passed(bounds, draw):
    """R1"""
    role, event = (draw.draw(st.sampled_from(LEVELS)) for _ in range(2))
    found = effective(role=role, event=event, **bounds)
    assert found.level == min(level for level in (role, event, *bounds.values()) if level is not None)
    assert found.reason.startswith(found.level)


@pytest.mark.parametrize(("policy", "asked"), [*itertools.product(LEVELS, (*LEVELS, None))])
def test_a_writer_raises_protection_above_the_policy_and_never_below_it(policy, asked):
    """R1"""
    found = raised(policy, asked)
    assert found.level == min(policy, asked or "L3")
    assert found.level <= policy
    assert found.reason.startswith(f"{found.level}, as the ")


@pytest.mark.parametrize(("policy", "asked"), [("L3", "l1"), ("L3", ""), ("L4", None), ("", "L1")])
def test_a_word_that_is_no_level_is_refused_at_append(policy, asked):
    """R1"""
    with pytest.raises(InvalidInput, match="a level is one of L0, L1, L2, L3"):
        raised(policy, asked)


# ------------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize("class_", CLASSES)
def test_a_rule_without_actions_does_what_its_class_does(class_):
    """R1"""
    assert rule("/payload/a", class_).actions == CLASSES[class_]


@pytest.mark.parametrize("class_", CLASSES)
def test_no_class_shows_more_at_a_lower_level(class_):
    """R1"""
    ranks = [ACTIONS.index(action) for action in CLASSES[class_]]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        pytest.param({"class_": "private"}, "class", id="unknown-class"),
        pytest.param({"pointer": "payload/a"}, "pointer", id="no-slash-first"),
        pytest.param({"pointer": ""}, "pointer", id="empty-pointer"),
        pytest.param({"pointer": "/tool/args/**"}, "pointer", id="outside-the-payload"),
        pytest.param({"pointer": "/payload/api_*"}, "pointer", id="wildcard-in-a-word"),
        pytest.param({"pointer": "/payload/a~2b"}, "pointer", id="escape-of-nothing"),
        pytest.param({"pointer": "/payload/a~"}, "pointer", id="escape-at-the-end"),
        pytest.param({"pointer": "/**" * (SEGMENTS_MAX + 1)}, "pointer", id="too-many-segments"),
        pytest.param({"pointer": "/payload/" + "a" * POINTER_LENGTH_MAX}, "pointer", id="too-long"),
        pytest.param({"kind": "e-mail"}, "kind", id="kind-in-small-letters"),
        pytest.param({"types": ("Message.*",)}, "types", id="type-in-capitals"),
        pytest.param({"types": ("*.user",)}, "types", id="wildcard-first"),
        pytest.param({"types": ("a.b",) * 33}, "types", id="too-many-types"),
        pytest.param({"L0": "show"}, "L0", id="unknown-action"),
        pytest.param({"L0": "detect"}, "L0", id="free-text-at-L0"),
        pytest.param({"L1": "pseudonym"}, "L1", id="linkable-at-L1"),
        pytest.param({"L0": "keep"}, "L1", id="L1-shows-less-than-L0"),
        pytest.param({"L1": "keep", "L2": "pseudonym"}, "L2", id="L2-shows-less-than-L1"),
        pytest.param({"class_": "secret", "L2": "keep"}, "L2", id="a-secret-shown"),
        pytest.param({"class_": "secret", "L1": "mask", "L2": "mask"}, "L1", id="a-secret-masked"),
    ],
)
def test_a_rule_that_contradicts_itself_is_refused_by_its_field(said, field):
    """R4"""
    with pytest.raises(InvalidInput, match=rf"^{field}: "):
        Rule(**{"pointer": "/payload/a", "class_": "unknown", **said})


@pytest.mark.parametrize(
    ("types", "event_type", "holds"),
    [
        ((), "anything.at-all", True),
        (("message.*",), "message.user", True),
        (("message.*",), "message.user.draft", True),
        (("message.*",), "messages.user", False),
        (("tool.returned",), "tool.returned", True),
        (("tool.returned",), "tool.returned.late", False),
        (("run.*", "tool.failed"), "tool.failed", True),
    ],
)
def test_a_rule_holds_for_the_types_it_names(types, event_type, holds):
    """R2"""
    assert rule("/payload/a", types=types).holds_for(event_type) is holds
    found = actions([rule("/payload/a", "public", L0="keep", types=types)], "/payload/a", event_type)
    assert (found == ("keep", "keep", "keep")) is holds


# ---------------------------------------------------------------------------------------------- specificity


@pytest.mark.parametrize(
    ("stronger", "weaker", "pointer"),
    [
        pytest.param("/payload/a/b", "/payload/*/b", "/payload/a/b", id="word-beats-star"),
        pytest.param("/payload/*/b", "/payload/**/b", "/payload/a/b", id="star-beats-two"),
        pytest.param("/payload/a/*", "/payload/a/**", "/payload/a/b", id="star-beats-two-at-the-end"),
        pytest.param("/payload/**/b", "/payload/a/**", "/payload/a/b", id="named-beats-region"),
        pytest.param("/payload/**/b", "/payload/a/*", "/payload/a/b", id="named-beats-star-at-the-end"),
        pytest.param("/payload/a/**/c", "/payload/**/c", "/payload/a/b/c", id="more-words"),
        pytest.param("/payload/**/c", "/**/**/c", "/payload/a/b/c", id="fewer-of-two"),
        pytest.param("/payload/a/**", "/**", "/payload/a", id="two-stars-stand-for-nothing-too"),
    ],
)
@pytest.mark.parametrize("turned", [False, True], ids=["as-given", "turned"])
def test_the_more_specific_rule_wins_whichever_comes_first(stronger, weaker, pointer, turned):
    """R2"""
    rules = [rule(stronger, "public", L0="keep"), rule(weaker, "sensitive")]
    assert actions(rules[::-1] if turned else rules, pointer) == ("keep", "keep", "keep")
    rules = [rule(stronger, "sensitive"), rule(weaker, "public", L0="keep")]
    assert actions(rules[::-1] if turned else rules, pointer) == CLASSES["sensitive"]


def test_among_equals_the_stricter_action_counts_at_each_level():
    """R4"""
    rules = [
        rule("/payload/a", L0="drop", L1="detect", L2="keep"),
        rule("/payload/a", L0="shape", L1="mask", L2="detect"),
    ]
    assert actions(rules, "/payload/a") == actions(rules[::-1], "/payload/a") == ("drop", "mask", "detect")


@pytest.mark.parametrize(
    ("secret", "other", "wins"),
    [
        pytest.param("/payload/credentials/**", "/**/type", True, id="a-region-over-a-name"),
        pytest.param("/payload/credentials/**", "/payload/*/type", True, id="equal-words"),
        pytest.param("/**/token", "/payload/**/credentials/token", True, id="more-words-but-anywhere"),
        pytest.param("/**/type", "/payload/credentials/type", False, id="exactly-there"),
        pytest.param("/**/type", "/payload/*/type", False, id="exactly-there-with-a-star"),
    ],
)
def test_a_secret_is_shown_only_where_a_rule_says_exactly_where(secret, other, wins):
    """R4"""
    pointer = "/payload/credentials/" + ("token" if "token" in secret else "type")
    found = treatment([rule(secret, "secret"), rule(other, "public", L0="keep")], pointer)
    assert (found.class_ == "secret") is wins


@pytest.mark.parametrize(
    "key",
    [
        "api_key",
        "apiKey",
        "API-KEY",
        "Api_Key",
        "\uff21\uff30\uff29\uff3f\uff4b\uff45\uff59",
        "aPI__kEY",
        "_api-key_",
        "api key ",
        "api\u200bkey",
        "a\u00adpi_key",
    ],
)
def test_words_match_however_they_are_spelled(key):
    """R2"""
    assert actions([rule("/**/api_key", "secret")], f"/payload/headers/{key}") == ("drop", "drop", "drop")


def test_escapes_of_a_pointer_are_read_as_the_standard_says():
    """R2"""
    matcher = Matcher([rule("/payload/a~1b", "public"), rule("/payload/~01", "public")])
    payload = matcher.start.below("payload")
    assert payload.below("a/b").treatment.class_ == "public"
    assert payload.below("~1").treatment.class_ == "public"
    assert payload.below("/").treatment == UNKNOWN


def test_a_number_in_a_pointer_is_the_place_in_a_list():
    """R2"""
    items = Matcher([rule("/payload/1", "secret")]).start.below("payload")
    assert not items.items_are_alike
    assert [items.at(number).treatment.class_ for number in range(3)] == ["unknown", "secret", "unknown"]
    assert Matcher([rule("/payload/*", "secret")]).start.below("payload").items_are_alike


def test_where_no_rule_speaks_nothing_is_shown_at_l0_and_l1():
    """R4"""
    assert actions([], "/payload/a/b") == actions([rule("/payload/c", "public")], "/payload/a/b")
    assert actions([], "/payload/a/b") == CLASSES["unknown"] == ("shape", "mask", "detect")


WORDS = st.sampled_from(["a", "b", "c", "payload"])
PATTERNS = st.lists(st.one_of(WORDS, st.sampled_from(["*", "**"])), max_size=5).map(
    lambda parts: "/" + "/".join(["payload", *parts])
)


def matches(pattern, segments):
    """Straight from the words of the documentation, without any cleverness."""
    if not pattern:
        return not segments
    if pattern[0] == "**":
        return matches(pattern[1:], segments) or (bool(segments) and matches(pattern, segments[1:]))
    return bool(segments) and pattern[0] in {"*", segments[0]} and matches(pattern[1:], segments[1:])


@given(
    st.lists(PATTERNS, max_size=6), st.lists(st.sampled_from(["a", "b", "c", "zz", "payload"]), max_size=6)
)
def test_a_place_is_matched_as_a_pattern_read_word_by_word_would_match_it(patterns, below):
    """R2"""
    segments = ["payload", *below]
    rules = [rule(pattern, "public", kind=f"K{number}") for number, pattern in enumerate(patterns)]
    found = treatment(rules, "/" + "/".join(segments))
    expected = {f"K{n}" for n, pattern in enumerate(patterns) if matches(pattern[1:].split("/"), segments)}
    assert (found.kind in expected) if expected else (found == UNKNOWN)


@given(st.lists(st.tuples(PATTERNS, st.sampled_from([*CLASSES])), min_size=1, max_size=6), st.data())
def test_whatever_rules_meet_a_higher_level_never_shows_less(given_rules, draw):
    """R1"""
    rules = [rule(pattern, class_) for pattern, class_ in given_rules]
    place = Matcher(rules).start.below("payload")
    bound = None
    for segment in draw.draw(st.lists(st.sampled_from(["a", "b", "c", "zz"]), max_size=5)):
        bound = place.ceiling if bound is None else bound.within(place.ceiling or UNKNOWN)
        place = place.below(segment)
    found = place.treatment if bound is None else place.treatment.within(bound)
    assert list(found.actions[:3]) == sorted(found.actions[:3])


def test_a_rule_for_a_region_is_no_bound_for_the_objects_in_it():
    """R2"""
    payload = Matcher([rule("/payload/**", "sensitive"), rule("/payload/a/b", "public")]).start.below(
        "payload"
    )
    assert payload.ceiling is payload.below("a").ceiling is None
    assert (
        payload.below("a").below("b").treatment.class_
        == payload.below("a").below("b").ceiling.class_
        == "public"
    )


def test_words_of_the_data_are_not_remembered():
    """Invariant 12"""
    matcher = Rules([rule("/payload/**/a", "public")]).for_type("message.user")
    place = matcher.start.below("payload")
    for number in range(1000):
        assert place.below(f"data{number}") is place.below("other")
    assert len(place._next) == 1
    assert matcher._spellings == {"payload": "payload"}


def test_patterns_that_remember_much_do_not_fill_the_memory():
    """Invariant 12"""
    matcher = Matcher([rule("/**/a" + "/*" * 20, "secret")])
    seen = 0
    for word in itertools.islice(itertools.product("ab", repeat=14), 3000):
        place = matcher.start
        for segment in word:
            place = place.below(segment)
            seen += 1
        for _ in range(21):
            place = place.below("b")
        assert place.treatment == UNKNOWN
    assert seen > 40_000
    reached, left = set(), [matcher.start]
    while left:
        place = left.pop()
        if id(place) not in reached:
            reached.add(id(place))
            left += place._next.values()
    assert len(reached) <= 4_096
    assert len(matcher._places) <= 4_096


@pytest.mark.parametrize(
    ("word", "folded"), [("Straße", "strasse"), ("İ", "i\u0307"), ("X-Api_Key", "xapikey")]
)
def test_words_are_compared_without_case_and_joints(word, folded):
    """R2"""
    assert fold(word) == folded


# --------------------------------------------------------------------------------------------- documents

HEAD = 'version = 1\nname = "mine"\n'


def refused(text):
    with pytest.raises(InvalidInput) as refusal:
        read_document(text, file="mine.toml")
    return str(refusal.value)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param("version = \n", "line 1: not valid TOML", id="not-toml"),
        pytest.param(HEAD + "x = 'abc", "line 3: not valid TOML", id="not-toml-at-its-end"),
        pytest.param(HEAD + "x" + ".x" * 65 + " = 1\n", "line 3: more than 64 dots", id="key-of-many-parts"),
        pytest.param(HEAD + "[x" + ".x" * 65 + "]\n", "line 3: more than 64 dots", id="header-of-many-parts"),
        pytest.param('version = 2\nname = "mine"', "line 1: version: write version = 1", id="version"),
        pytest.param('\nname = "mine"', "line 1: version: is missing; write version", id="no-version"),
        pytest.param('version = 1\n\nname = "Mine!"', "line 3: name: write 1 to 64", id="name"),
        pytest.param(HEAD + "colour = 1", "line 3: unknown field: a document has", id="unknown-word"),
        pytest.param(HEAD + "redaction = 5", "line 3: redaction: write at most 1000 tables", id="no-tables"),
        pytest.param(HEAD + "[[redaction]]\nclass='secret'", "line 3: pointer: is missing", id="no-pointer"),
        pytest.param(
            HEAD + "[[redaction]]\npointer='/payload/a'\nclass='open'",
            "line 5: class: write one of public",
            id="class",
        ),
        pytest.param(
            HEAD + "[[redaction]]\npointer='/payload/a'\nclass='public'\n\n[[redaction]]\nclass='public'\n"
            "pointer='/nowhere'",
            'line 9: pointer: write a JSON Pointer that begins with "/payload/"',
            id="pointer-of-the-second-rule",
        ),
        pytest.param(
            HEAD + "[[redaction]]\nclass='public'\npointer=[\n  '/payload/a',\n  'x',\n]",
            "line 5: pointer: write a JSON Pointer",
            id="one-of-a-list-of-pointers",
        ),
        pytest.param(
            HEAD + "[[redaction]]\npointer='/payload/a'\nclass='public'\nL1 = true",
            "line 6: L1: write one of",
            id="action-of-another-type",
        ),
        pytest.param(
            HEAD + "[[redaction]]\npointer='/payload/a'\nclass='public'\nL1 = ''",
            "line 6: L1: write one of",
            id="empty-action",
        ),
        pytest.param(
            HEAD + "[[redaction]]\npointer='/payload/a'\nclass='personal'\n# L1 = 'x'\n\"L1\" = 'keep'",
            "line 3: L2: shows less than L1; write one of keep",
            id="two-levels-that-do-not-fit",
        ),
        pytest.param(
            HEAD + "[[redaction]]\npointer='/payload/a'\nclass='public'\ntypes=['a b']",
            "line 6: types: write a list",
            id="types",
        ),
        pytest.param(
            HEAD + "[[redaction]]\npointer='/payload/a'\nclass='public'\nlevel='L1'",
            "line 6: unknown field: there is",
            id="unknown-field",
        ),
        pytest.param(
            HEAD + "redaction = [\n  {class = 'public'},\n]", "line 3: pointer: is missing", id="inline"
        ),
    ],
)
def test_an_error_names_file_line_field_and_what_to_write_instead(text, where):
    """D1"""
    assert refused(text).startswith(f"mine.toml, {where}")


@pytest.mark.parametrize("value", ["[" * 50_000, "9" * 50_000], ids=["brackets", "digits"])
def test_what_its_reader_cannot_take_is_refused_like_the_rest(value):
    """D1: tomllib raises RecursionError and ValueError for these, and names no line"""
    assert refused(HEAD + f"x = {value}") == (
        "mine.toml: not field rules; a number in it is too long or it is nested too deep"
    )


def test_an_error_quotes_nothing_of_the_document():
    """Invariant 13"""
    texts = [
        HEAD + "[[redaction]]\npointer='/payload/a'\nclass='{}'",
        HEAD + "[[redaction]]\npointer='{}'\nclass='public'",
        HEAD + "[[redaction]]\npointer='/payload/a'\nclass='public'\n{} = 1",
        HEAD + "{} = 1",
        HEAD + "a = {}",
    ]
    for text in texts:
        assert "zebra-ssn" not in refused(text.replace("{}", "zebra-ssn"))


def test_a_document_holds_as_many_rules_as_it_may_and_no_more():
    """Invariant 12"""
    table = "[[redaction]]\npointer = '/payload/a{}'\nclass = 'public'\n"
    full = HEAD + "".join(table.replace("{}", str(number)) for number in range(RULES_MAX))
    assert len(read_document(full, file="mine.toml").rules) == RULES_MAX
    assert "at most 1000 tables" in refused(full + table)
    many = ", ".join(f"'/payload/a{number}'" for number in range(RULES_MAX))
    assert "more than 1000 pointers" in refused(
        HEAD + f"[[redaction]]\npointer = [{many}]\nclass='public'\n" + table
    )
    assert "longer than" in refused(HEAD + "#" * 2**20)


@pytest.mark.parametrize(
    ("text", "place", "line"),
    [
        pytest.param(
            'a = """\n[[redaction]]\n"""\n[[redaction]]\nb = 1', ("redaction", 0, "b"), 5, id="in-a-string"
        ),
        pytest.param('# [[redaction]] """\n[[redaction]]\nb=1', ("redaction", 0, "b"), 3, id="in-a-comment"),
        pytest.param('[[ "redaction" ]] # x\nb=1', ("redaction", 0, "b"), 2, id="quoted-header"),
        pytest.param("[[other]]\nb=1\n[[redaction]]\nb=1", ("redaction", 0, "b"), 4, id="another-table"),
        pytest.param("[[redaction]]\nb=1\n[[redaction]]\nc=1", ("redaction", 1, "b"), 3, id="missing-key"),
        pytest.param(
            "[[redaction]]\nx=[\n[1],\n['a'],\n]\nb=1", ("redaction", 0, "b"), 6, id="list-of-lists"
        ),
        pytest.param("[[redaction]]\nx='''\nb=2\n'''\nb=1", ("redaction", 0, "b"), 5, id="key-in-a-string"),
        pytest.param(
            "[[redaction]]\nbb=1\n'b' = 2", ("redaction", 0, "b"), 3, id="longer-key-and-quoted-key"
        ),
        pytest.param("[[redaction]]\n[redaction.sub]\nb=1", ("redaction", 0, "b"), 1, id="in-a-sub-table"),
        pytest.param("[[redaction]]\n\n[[redaction]]\n", ("redaction", 1), 3, id="a-whole-table"),
        pytest.param("redaction = [\n{}]\n", ("redaction", 0, "b"), 1, id="inline-tables"),
        pytest.param("\n\nname='x'\n", ("name",), 3, id="top-level"),
        pytest.param("[[redaction]]\nname='x'\n", ("name",), 1, id="top-level-and-missing"),
    ],
)
def test_the_line_of_a_place_is_found(text, place, line):
    """D1"""
    tomllib.loads(text)
    assert line_of(text, place) == line


def test_a_list_of_pointers_makes_a_rule_of_each():
    """R2"""
    text = (
        HEAD
        + "[[redaction]]\npointer=['/payload/a', '/**/b']\nclass='personal'\nkind='NAME'\ntypes=['run.*']"
    )
    found = read_document(text, file="mine.toml")
    assert found.name == "mine"
    assert [item.pointer for item in found.rules] == ["/payload/a", "/**/b"]
    assert {(item.class_, item.kind, item.types) for item in found.rules} == {
        ("personal", "NAME", ("run.*",))
    }


# -------------------------------------------------------------------------------------- shipped documents


def shipped(name):
    return read_document((data.policies() / name).read_text(encoding="utf-8"), file=name)


def test_every_shipped_rule_says_why():
    """R2"""
    rules = shipped("redaction.toml").rules
    assert len(rules) > 100
    assert [item.pointer for item in rules if not item.why] == []


def test_the_rules_of_the_default_policy_are_rules():
    """R2, D1"""
    assert {item.class_ for item in shipped("default.toml").rules} == {"unknown", "secret"}


@pytest.mark.parametrize(
    "event_type", ["message.user", "tool.requested", "tool.returned", "effect.intended", "my.own"]
)
@pytest.mark.parametrize(
    "pointer",
    [
        "/payload/authorization",
        "/payload/headers/Cookie",
        "/payload/arguments/apiKey",
        "/payload/content/0/input/password",
        "/payload/content/0/token",
        "/payload/tool_calls/0/function/arguments/access_token",
        "/payload/message/content/0/secret",
        "/payload/usage/token",
        "/payload/from/password",
        "/payload/intent/card/CVV",
    ],
)
def test_the_shipped_rules_drop_credentials_wherever_they_stand(event_type, pointer):
    """R2"""
    assert treatment(shipped("redaction.toml").rules, pointer, event_type).class_ == "secret"


@pytest.mark.parametrize(
    ("event_type", "pointer", "expected"),
    [
        ("message.user", "/payload/content", ("shape", "detect", "detect")),
        ("message.user", "/payload/role", ("keep", "keep", "keep")),
        ("message.user", "/payload/name", ("shape", "mask", "pseudonym")),
        ("message.assistant", "/payload/content/0/text", ("shape", "detect", "detect")),
        ("message.assistant", "/payload/content/0/type", ("keep", "keep", "keep")),
        ("message.assistant", "/payload/content/0/name", ("shape", "keep", "keep")),
        ("message.assistant", "/payload/content/0/input/city", ("shape", "mask", "detect")),
        ("message.assistant", "/payload/content/0/input/type", ("shape", "mask", "detect")),
        ("message.assistant", "/payload/content/0/input/text", ("shape", "mask", "detect")),
        ("message.assistant", "/payload/content/0/source/data", ("drop", "mask", "mask")),
        ("message.assistant", "/payload/tool_calls/0/function/name", ("shape", "keep", "keep")),
        ("message.assistant", "/payload/tool_calls/0/function/arguments/city", ("shape", "mask", "detect")),
        ("message.user", "/payload/message/content", ("shape", "detect", "detect")),
        ("message.assistant", "/payload/message/content/0/thinking", ("shape", "detect", "detect")),
        ("message.assistant", "/payload/message/usage/output_tokens", ("keep", "keep", "keep")),
        ("tool.requested", "/payload/type", ("shape", "mask", "detect")),
        ("tool.requested", "/payload/role", ("shape", "mask", "detect")),
        ("tool.requested", "/payload/content/0/text", ("shape", "detect", "detect")),
        ("tool.returned", "/payload/content", ("shape", "mask", "detect")),
        ("tool.returned", "/payload/content/0/text", ("shape", "mask", "detect")),
        ("tool.returned", "/payload/rows/0/email", ("shape", "mask", "pseudonym")),
        ("tool.failed", "/payload/error", ("shape", "detect", "detect")),
        ("tool.failed", "/payload/kind", ("keep", "keep", "keep")),
        ("state.changed", "/payload/to", ("keep", "keep", "keep")),
        ("email.sent", "/payload/to", ("shape", "mask", "pseudonym")),
        ("effect.intended", "/payload/intent/to", ("shape", "mask", "pseudonym")),
        ("effect.intended", "/payload/intent/body", ("shape", "mask", "detect")),
        ("checkpoint.created", "/payload/state/anything", ("shape", "mask", "detect")),
        ("checkpoint.created", "/payload/sha256", ("drop", "mask", "mask")),
        ("context.summarized", "/payload/summary", ("shape", "detect", "detect")),
        ("my.own", "/payload/anything", ("shape", "mask", "detect")),
    ],
)
def test_the_shipped_rules_treat_each_field_as_documented(event_type, pointer, expected):
    """R2, R4"""
    assert actions(shipped("redaction.toml").rules, pointer, event_type) == expected
