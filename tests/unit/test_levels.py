"""The highest level of an event type: the most exact entry counts, and a writer lowers no protection. R1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault import data
from vault.errors import InvalidInput
from vault.model import LEVELS
from vault.policy.levels import LEVEL_RULES_MAX, Levels, made_of, read_levels

HEAD = 'version = 1\nname = "ours"\n'
ENTRY = '\n[[levels]]\ntype = "{}"\nlevel = "{}"\n'

levels = st.sampled_from(LEVELS)
types = st.lists(st.sampled_from(["a", "b", "tool", "x-1"]), min_size=2, max_size=4).map(".".join)
entries = st.dictionaries(st.just("*") | types | types.map(lambda name: f"{name}.*"), levels, max_size=6)


def document(*given, head=HEAD):
    return head + "".join(ENTRY.format(*entry) for entry in given)


def by_hand(given, name):
    """The most exact of the entries that speak of a type, found without the code's own order."""
    speaking = [
        (entry == name, len(entry), level)
        for entry, level in given.items()
        if entry == name or (entry[-1] == "*" and name.startswith(entry[:-1]))
    ]
    return max(speaking)[2] if speaking else "L3"


@given(entries, types)
def test_the_most_exact_entry_counts(entries, name):
    """R1"""
    read = read_levels(document(*entries.items()), file="ours.toml")
    in_another_order = made_of(reversed(entries.items()))
    assert read.of(name) == in_another_order.of(name) == by_hand(entries, name)


@given(entries, types, levels)
def test_a_writer_gets_no_less_protection_than_the_policy_and_no_less_than_asked_for(entries, name, asked):
    """R1: both bounds hold, and nothing else lowers"""
    stored = made_of(entries.items()).stored_at(name, asked)
    assert stored <= asked
    assert stored <= by_hand(entries, name)
    assert stored in {asked, by_hand(entries, name)}


@given(types, levels)
def test_without_an_entry_a_writer_has_what_it_asks_for(name, asked):
    """R1"""
    assert Levels().stored_at(name, asked) == asked


def test_the_shipped_document_lowers_secrets_and_nothing_else():
    """R1"""
    file = data.policies() / "levels.toml"
    shipped = read_levels(file.read_text(encoding="utf-8"), file=file.name)
    assert shipped.of("secret.read") == shipped.of("credential.issued") == "L0"
    for name in ("message.user", "tool.returned", "secretary.note", "a.secret", "checkpoint.created"):
        assert shipped.of(name) == "L3"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        pytest.param("version = 1\nname = ", 2, "not valid TOML", id="not-toml"),
        pytest.param('name = "ours"\n', 1, "version: is missing; write version = 1", id="no-version"),
        pytest.param('version = 2\nname = "ours"\n', 1, "version: write version = 1", id="version"),
        pytest.param("version = 1\n", 1, "name: is missing", id="no-name"),
        pytest.param('version = 1\nname = "Ours!"\n', 2, "name: write 1 to 64", id="name"),
        pytest.param(document(("a.b", "L4")), 6, "level: write one of L0, L1, L2, L3", id="level"),
        pytest.param(document(("a.b", "l1")), 6, "level: write one of", id="another-spelling"),
        pytest.param(document(("A.b", "L1")), 5, "type: write an event type", id="type"),
        pytest.param(document(("a*", "L1")), 5, "type: write an event type", id="half-a-beginning"),
        pytest.param(document(("", "L1")), 5, "type: write an event type", id="no-type"),
        pytest.param(document(("a.b", "L1"), ("c.d", "L1"), ("a.b", "L2")), 13, "twice", id="twice"),
        pytest.param(HEAD + '[[levels]]\ntype = "a.b"\n', 3, "level: is missing", id="no-level"),
        pytest.param(document(("a.b", "L1")) + "who = 1\n", 7, "unknown field", id="unknown"),
        pytest.param(HEAD + "others = 1\n", 3, "unknown field", id="unknown-above"),
        pytest.param(document(("a.b", "L1")) + 'why = ""\n', 7, "why: write one sentence", id="no-reason"),
        pytest.param(HEAD + 'levels = "a.b"\n', 3, "levels: write at most", id="no-tables"),
        pytest.param(HEAD + "x" + ".x" * 65 + " = 1\n", 3, "more than 64 dots", id="key-of-many-parts"),
    ],
)
def test_what_is_wrong_is_named_by_its_line_with_what_to_write_instead(text, line, said):
    """R1"""
    with pytest.raises(InvalidInput) as refused:
        read_levels(text, file="ours.toml")
    assert str(refused.value).startswith(f"ours.toml, line {line}: ")
    assert said in str(refused.value)
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize("value", ["[" * 10_000, "1" * 5_000], ids=["brackets", "digits"])
def test_a_document_that_tomllib_cannot_take_is_refused_in_one_sentence(value):
    """R1, invariant 12"""
    with pytest.raises(InvalidInput, match="not levels of event types") as refused:
        read_levels(HEAD + f"x = {value}\n", file="ours.toml")
    assert str(refused.value).count("\n") == 0


def test_nothing_of_the_document_stands_in_an_error():
    """Invariant 11"""
    for text in (document(("Zorblax!", "L1")), document(("a.b", "Zorblax"))):
        with pytest.raises(InvalidInput) as refused:
            read_levels(text, file="ours.toml")
        assert "orblax" not in str(refused.value)


def test_a_document_that_is_too_long_is_refused():
    """Invariant 12"""
    many = [(f"a.b{number}", "L1") for number in range(LEVEL_RULES_MAX + 1)]
    assert len(read_levels(document(*many[1:]), file="x").exact) == LEVEL_RULES_MAX
    for text in (document(*many), HEAD + "#" * 2**20):
        with pytest.raises(InvalidInput):
            read_levels(text, file="x")
