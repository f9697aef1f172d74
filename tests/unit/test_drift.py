"""Two configurations are compared by what they say, and the policy chooses with a reason."""

import hashlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vault.errors import InvalidInput, LimitExceeded
from vault.policy.drift import (
    DOCUMENT_BYTES_MAX,
    TOOLS_MAX,
    Choice,
    ConfigDocument,
    choose,
    drift,
    normalised,
    pending_tools_gone,
)

CANARY = "Zanzibar-4711"
OLD = {
    "tools": {
        "warehouse": {"description": "asks the warehouse", "input": {"sql": "string"}},
        "search": {"description": "searches"},
        "mail": "sends mail",
    },
    "instructions": "Be brief.",
    "model": "m-1",
    "temperature": 0.2,
    "top_p": 1,
}
NEW = {
    "tools": {
        "warehouse": {"description": "asks the warehouse", "input": {"sql": "string", "limit": "integer"}},
        "search": {"description": "searches"},
        "browser": "opens a page",
    },
    "instructions": "Be very brief.",
    "model": "m-2",
    "temperature": 0.4,
    "seed": 7,
    "top_p": 1,
}


def between(old, new, *, pinned="v1", current="v1"):
    return drift(pinned, normalised(old), current, normalised(new))


def sha256(encoded):
    return hashlib.sha256(encoded).hexdigest()


# ---------------------------------------------------------------------------------------- documents


def test_a_document_is_names_and_digests_of_canonical_json():
    """S5"""
    document = normalised(
        {"top_p": 1, "tools": {"b": {"y": 1, "x": "ä"}, "a": "text"}, "instructions": "Bé", "model": "m"}
    )
    assert document == ConfigDocument(
        tools={"a": sha256(b'"text"'), "b": sha256('{"x":"ä","y":1}'.encode())},
        model="m",
        instructions_sha256=sha256("Bé".encode()),
        other={"top_p": sha256(b"1")},
    )
    assert list(document.tools) == ["a", "b"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            {"tools": {"a": {"description": "d"}}},
            {"tools": [{"description": "d", "name": "a"}]},
            id="tools-by-name-and-as-a-list",
        ),
        pytest.param(
            {"tools": {"a": {"name": "a", "description": "d"}}},
            {"tools": {"a": {"description": "d"}}},
            id="a-definition-that-repeats-its-name",
        ),
        pytest.param(
            {"instructions": "Be brief."},
            {"instructions_sha256": sha256(b"Be brief.").upper()},
            id="instructions-and-their-digest",
        ),
        pytest.param({}, {"tools": None, "instructions": None, "model": None}, id="nothing-stated-and-null"),
        pytest.param({"tools": []}, {"tools": {}}, id="no-tools"),
        pytest.param({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, id="the-order-of-keys"),
    ],
)
def test_two_ways_to_say_the_same_are_the_same(first, second):
    """S5"""
    assert normalised(first) == normalised(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"tools": {"a": {"name": "b"}}}, {"tools": {"a": {}}}, id="another-name-inside"),
        pytest.param(
            {"tools": [{"type": "function", "function": {"name": "a", "strict": True}}]},
            {"tools": [{"type": "function", "function": {"name": "a", "strict": False}}]},
            id="a-nested-definition",
        ),
        pytest.param({"instructions": ""}, {}, id="empty-instructions"),
        pytest.param({"a": None}, {}, id="another-setting-that-is-null"),
        pytest.param({"a": 1}, {"a": "1"}, id="a-number-and-its-text"),
    ],
)
def test_what_differs_is_not_taken_for_the_same(first, second):
    """S5"""
    assert normalised(first) != normalised(second)


def test_a_tool_in_a_list_may_have_its_name_inside_its_function():
    """S5"""
    assert list(normalised({"tools": [{"type": "function", "function": {"name": "a"}}]}).tools) == ["a"]


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        pytest.param(None, "JSON object", id="nothing"),
        pytest.param([], "JSON object", id="a-list"),
        pytest.param({1: 2}, "JSON keys are strings", id="a-key-that-is-no-text"),
        pytest.param({"a": float("nan")}, "NaN", id="no-json"),
        pytest.param({"a": b"x"}, "not JSON", id="bytes"),
        pytest.param({"": 1}, "a name in a config document", id="a-setting-without-a-name"),
        pytest.param({"a" * 257: 1}, "a name in a config document", id="a-setting-with-a-long-name"),
        pytest.param({"tools": "a"}, "an object by name or a list", id="tools-as-text"),
        pytest.param({"tools": ["a"]}, "an object with a name", id="a-tool-as-text"),
        pytest.param({"tools": [{"type": "web"}]}, "a tool's name", id="a-tool-without-a-name"),
        pytest.param({"tools": [{"function": "a"}]}, "a tool's name", id="a-function-that-is-text"),
        pytest.param({"tools": [{"name": 7}]}, "a tool's name", id="a-tool-named-by-a-number"),
        pytest.param({"tools": {"": {}}}, "a tool's name", id="an-empty-tool-name"),
        pytest.param({"tools": [{"name": "a"}] * 2}, "the same name", id="two-tools-of-one-name"),
        pytest.param({"instructions": ["a"]}, "are text", id="instructions-as-a-list"),
        pytest.param({"instructions": "a", "instructions_sha256": "0" * 64}, "not both", id="both"),
        pytest.param({"instructions_sha256": "0" * 63}, "64 hex digits", id="a-short-digest"),
        pytest.param({"instructions_sha256": "g" * 64}, "64 hex digits", id="a-digest-that-is-not-hex"),
        pytest.param({"instructions_sha256": "0" * 64 + "\n"}, "64 hex digits", id="a-digest-and-a-line-end"),
        pytest.param({"instructions_sha256": 7}, "64 hex digits", id="a-digest-as-a-number"),
        pytest.param({"model": {"name": "m"}}, "the model", id="a-model-as-an-object"),
        pytest.param({"model": ""}, "the model", id="an-empty-model"),
    ],
)
def test_a_document_of_another_shape_is_refused_in_one_sentence(document, sentence):
    """S5, invariant 13"""
    with pytest.raises(InvalidInput, match=sentence) as refused:
        normalised(document)
    assert "\n" not in str(refused.value)


def test_a_document_is_full_at_its_limits_and_too_large_one_above():
    """Invariant 12"""
    tools = [{"name": f"t{number}"} for number in range(TOOLS_MAX + 1)]
    assert len(normalised({"tools": tools[:-1]}).tools) == TOOLS_MAX
    with pytest.raises(LimitExceeded, match="1,000 tools"):
        normalised({"tools": tools})
    with pytest.raises(LimitExceeded, match="1,000 tools"):
        normalised({"tools": {tool["name"]: {} for tool in tools}})
    room = DOCUMENT_BYTES_MAX - len(b'{"a":""}')
    assert normalised({"a": "x" * room}).other
    with pytest.raises(LimitExceeded, match="262,144 bytes"):
        normalised({"a": "x" * (room + 1)})


def test_neither_errors_nor_reprs_hold_what_a_document_says():
    """Invariant 13"""
    for document in ({"tools": [{"name": CANARY}] * 2}, {"model": [CANARY]}, {"tools": CANARY}):
        with pytest.raises(InvalidInput) as refused:
            normalised(document)
        assert CANARY not in str(refused.value)
    document = {"tools": {CANARY: {}}, "model": CANARY, "instructions": CANARY, f"{CANARY}/a": 1}
    assert CANARY not in repr(normalised(document))
    assert CANARY not in repr(between(document, {}, pinned=CANARY))


# -------------------------------------------------------------------------------------------- drift


def test_all_that_changed_is_named_in_fields_and_in_words():
    """S5"""
    found = between(OLD, NEW, pinned="v1", current="v2")
    assert found.changed
    assert found.compared
    assert found.config == ("v1", "v2")
    assert found.tools_gone == ("mail",)
    assert found.tools_added == ("browser",)
    assert found.tools_changed == ("warehouse",)
    assert found.model == ("m-1", "m-2")
    assert found.instructions_changed
    assert found.other_changed == ("seed", "temperature")
    assert found.lines == (
        'The configuration is "v2" now; it was "v1".',
        'Tools that no longer exist: "mail".',
        'Tools with another definition: "warehouse".',
        'New tools: "browser".',
        'The model is "m-2" now; it was "m-1".',
        "The instructions changed.",
        'Other settings that changed: "seed", "temperature".',
    )


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        pytest.param({"tools": {}}, {"tools_gone": ("mail", "search", "warehouse")}, id="tools"),
        pytest.param({"model": None}, {"model": ("m-1", None)}, id="model"),
        pytest.param({"instructions": None}, {"instructions_changed": True}, id="instructions"),
        pytest.param({"top_p": None}, {"other_changed": ("top_p",)}, id="a-setting"),
    ],
)
def test_a_change_in_one_place_is_a_change_there_only(change, fields):
    """S5"""
    same, found = between(OLD, OLD), between(OLD, OLD | change)
    assert found.changed
    differing = {
        name: getattr(found, name)
        for name in found.__slots__
        if name not in {"changed", "lines"} and getattr(found, name) != getattr(same, name)
    }
    assert differing == fields
    assert len(found.lines) == 1


@pytest.mark.parametrize(
    ("pinned", "current", "changed", "lines"),
    [
        pytest.param(
            ("v1", OLD),
            ("v2", None),
            True,
            (
                'The configuration is "v2" now; it was "v1".',
                "The documents behind the names cannot be compared: the current one was not given.",
            ),
            id="no-current-document",
        ),
        pytest.param(
            ("v1", None),
            ("v1", NEW),
            False,
            ("The documents behind the names cannot be compared: the old one was not recorded.",),
            id="no-pinned-document",
        ),
        pytest.param(
            ("v1", None),
            ("v1", None),
            False,
            ("The documents behind the names cannot be compared: there are none.",),
            id="no-documents",
        ),
        pytest.param(
            (None, None),
            ("v2", NEW),
            True,
            (
                'The configuration is "v2" now; none was named before.',
                "The documents behind the names cannot be compared: the old one was not recorded.",
            ),
            id="nothing-pinned",
        ),
        pytest.param(
            ("v1", OLD),
            (None, None),
            True,
            (
                'No configuration is named now; it was "v1".',
                "The documents behind the names cannot be compared: the current one was not given.",
            ),
            id="nothing-current",
        ),
        pytest.param((None, None), (None, None), False, (), id="nothing-at-all"),
    ],
)
def test_without_both_documents_only_the_names_are_compared_and_a_line_says_so(
    pinned, current, changed, lines
):
    """S5"""
    documents = [document and normalised(document) for _, document in (pinned, current)]
    found = drift(pinned[0], documents[0], current[0], documents[1])
    assert (found.changed, found.compared, found.lines) == (changed, False, lines)
    nothing = found.tools_gone, found.tools_added, found.tools_changed, found.model, found.other_changed
    assert nothing == ((), (), (), None, ())
    assert not found.instructions_changed


def test_documents_without_a_name_are_compared():
    """S5"""
    assert between(OLD, NEW, pinned=None, current=None).tools_gone == ("mail",)
    assert not between(OLD, OLD, pinned=None, current=None).changed


def test_a_line_names_a_few_and_counts_the_rest_and_keeps_names_on_it():
    """S5, invariant 12"""
    tools = {f"tool-{number}": {} for number in range(6)} | {'a"\n- b': {}}
    (line,) = between({"tools": tools}, {}).lines
    assert line == 'Tools that no longer exist: "a\' - b", "tool-0", "tool-1", "tool-2" and 3 more.'


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
)
TOOLS = st.dictionaries(st.sampled_from("abcdef") | NAMES, st.dictionaries(NAMES, JSON, max_size=3))
DOCUMENTS = st.builds(
    lambda other, known: normalised(other | known),
    st.dictionaries(NAMES.filter(lambda name: name not in OLD), JSON, max_size=4),
    st.fixed_dictionaries({}, optional={"tools": TOOLS, "instructions": st.text(max_size=5), "model": NAMES}),
)
CONFIGS = st.none() | st.sampled_from(["v1", "v2"])


@given(CONFIGS, st.none() | DOCUMENTS)
def test_a_configuration_never_drifts_from_itself(name, document):
    """S5"""
    found = drift(name, document, name, document)
    assert not found.changed
    assert len(found.lines) == (document is None and name is not None)
    assert {choose(policy, found).config for policy in ("old", "new", "ask")} == {"old"}


@given(CONFIGS, DOCUMENTS, CONFIGS, DOCUMENTS)
def test_what_is_gone_one_way_is_added_the_other_way(old, old_document, new, new_document):
    """S5"""
    there = drift(old, old_document, new, new_document)
    back = drift(new, new_document, old, old_document)
    assert (there.tools_gone, there.tools_added) == (back.tools_added, back.tools_gone)
    assert (there.tools_changed, there.other_changed) == (back.tools_changed, back.other_changed)
    assert (there.changed, there.instructions_changed) == (back.changed, back.instructions_changed)
    assert there.changed is (old != new or old_document != new_document)
    assert bool(there.lines) is there.changed
    for pair, other in ((there.config, back.config), (there.model, back.model)):
        assert pair == (other and other[::-1])


@given(TOOLS, st.randoms())
def test_the_order_and_the_form_of_tools_never_matter(tools, random):
    """S5"""
    assume(all("name" not in definition for definition in tools.values()))
    listed = [{"name": name, **definition} for name, definition in tools.items()]
    random.shuffle(listed)
    found = between({"tools": tools}, {"tools": listed})
    assert not found.changed
    assert normalised({"tools": listed}).tools.keys() == tools.keys()


# ------------------------------------------------------------------------------------------- choice


@pytest.mark.parametrize(
    ("policy", "found", "choice"),
    [
        pytest.param("new", between(OLD, OLD), Choice(config="old", reason="nothing changed"), id="no-drift"),
        pytest.param(
            "ask",
            drift("v1", None, "v1", None),
            Choice(config="old", reason="nothing changed in the names; the documents cannot be compared"),
            id="no-drift-that-is-seen",
        ),
        pytest.param(
            "old",
            between(OLD, NEW),
            Choice(config="old", reason="the configuration changed, and the policy is the old one"),
            id="old",
        ),
        pytest.param(
            "new",
            drift("v1", None, "v2", None),
            Choice(config="new", reason="the configuration changed, and the policy is the new one"),
            id="new",
        ),
        pytest.param(
            "ask",
            between(OLD, NEW),
            Choice(config="ask", reason="the configuration changed, and the policy is to ask"),
            id="ask",
        ),
        pytest.param(
            "old",
            drift(None, None, "v2", None),
            Choice(config="ask", reason="the policy is the old configuration, but none is named"),
            id="old-without-an-old-one",
        ),
        pytest.param(
            "new",
            drift("v1", None, None, None),
            Choice(config="ask", reason="the policy is the new configuration, but none is named"),
            id="new-without-a-new-one",
        ),
        pytest.param(
            "new",
            drift(None, None, "v2", None),
            Choice(config="new", reason="the configuration changed, and the policy is the new one"),
            id="new-without-an-old-one",
        ),
        pytest.param(
            "old",
            between(OLD, NEW, pinned=None),
            Choice(config="old", reason="the configuration changed, and the policy is the old one"),
            id="old-with-a-document-and-no-name",
        ),
    ],
)
def test_the_policy_chooses_the_configuration_with_a_reason(policy, found, choice):
    """S5, invariant 11"""
    assert choose(policy, found) == choice


@pytest.mark.parametrize("policy", ["", "OLD", "newest", None, ["old"]])
def test_a_policy_that_is_not_known_is_refused_even_without_drift(policy):
    """S5"""
    with pytest.raises(InvalidInput, match="a config policy is"):
        choose(policy, between(OLD, OLD))


def test_awaited_tools_that_no_longer_exist_are_reported_once():
    """S5"""
    found = between(OLD, {"tools": {"search": "changed"}})
    awaited = ["warehouse", "search", "mail", "warehouse", "never-there"]
    assert pending_tools_gone(found, awaited) == ("mail", "warehouse")
    assert pending_tools_gone(found, []) == ()
    assert pending_tools_gone(drift("v1", None, "v2", None), awaited) == ()
