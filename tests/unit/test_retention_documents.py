"""A retention policy is a document; what is wrong in it is refused with one sentence that says where (D1)."""

import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault import data
from vault.errors import InvalidInput
from vault.policy.document import DOCUMENT_BYTES_MAX, RULES_MAX, read_policy
from vault.policy.durations import DAY_US, Duration
from vault.policy.rules import KINDS, Keep, Rule
from vault.policy.terms import bind

HEAD = 'version = 1\nname = "mine"\n'
ALL = """
[[retention]]
id = "all"
match = { kind = ["session", "memory", "artifact"] }
anchor = "created"
expire_after = "90d"
"""
FULL = """
[[retention]]
id = "full"
match = { kind = ["event"], labels = { b = "2", a = "1" }, types = ["a.b", "message.*"], level = "L1" }
anchor = "last_event"
keep_min = { for = "6mo", basis = "legal_obligation", ref = "AI Act 26(6)" }
expire_after = "400d"
on_expire = "redact:L0"
grace = "7d"
derived = { summary = "recompute", memory = "erase_with_last", artifact = "detach" }
applies_to = "all"
"""


def read(rules=ALL, head=HEAD):
    return read_policy(head + rules, file="mine.toml")


def refusal(text):
    with pytest.raises(InvalidInput) as caught:
        read_policy(text, file="mine.toml")
    assert type(caught.value) is InvalidInput
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------------------------------------- what is read


def test_a_document_is_read_into_rules():
    """D1"""
    found = read(ALL + FULL)
    assert (found.name, found.version, len(found.digest)) == ("mine", 1, 32)
    assert found.text == HEAD + ALL + FULL
    assert found.rules == (
        Rule(id="all", kinds=("session", "memory", "artifact"), expire_after=Duration(us=90 * DAY_US)),
        Rule(
            id="full",
            kinds=("event",),
            labels={"a": "1", "b": "2"},
            types=("a.b", "message.*"),
            level="L1",
            anchor="last_event",
            keep_min=Keep(duration=Duration(months=6), basis="legal_obligation", ref="AI Act 26(6)"),
            expire_after=Duration(us=400 * DAY_US),
            on_expire="redact:L0",
            grace=Duration(us=7 * DAY_US),
            derived={"memory": "erase_with_last", "summary": "recompute", "artifact": "detach"},
            applies_to="all",
        ),
    )


def test_what_is_left_out_is_the_careful_choice_for_whoever_the_data_is_about():
    """D1, D4"""
    (rule,) = read().rules
    assert (rule.keep_min, rule.grace, rule.on_expire, rule.derived, rule.applies_to) == (
        Keep(),
        None,
        "erase",
        {},
        "new",
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(ALL + "# said differently\n\n", id="comment"),
        pytest.param(ALL.replace('"90d"', '"P90D"'), id="iso"),
        pytest.param(ALL.replace('"90d"', '"2160h"'), id="hours"),
        pytest.param(ALL.replace('["session", "memory"', '["memory", "session"'), id="order-of-kinds"),
        pytest.param(
            ALL + 'keep_min = "0d"\ngrace = "0h"\non_expire = "erase"\napplies_to = "new"\n', id="defaults"
        ),
        pytest.param(
            ALL + 'derived = {}\n[[redaction]]\npointer = "/**"\nclass = "unknown"\n', id="redaction"
        ),
        pytest.param(ALL.replace(" ] }", " ], labels = {} }"), id="no-labels"),
    ],
)
def test_the_digest_is_of_what_is_said_and_not_of_how(other):
    """D1"""
    assert read(other).digest == read().digest
    assert read(other) == read()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"90d"', '"91d"'),
        ('"90d"', '"never"'),
        ('"90d"', '"3mo"'),
        ('"full"', '"other"'),
        ('"mine"', '"yours"'),
        ("version = 1", "version = 2"),
        ('"created"', '"last_event"'),
        ('"6mo"', '"7mo"'),
        ("26(6)", "19(1)"),
        ("legal_obligation", "contract"),
        ("redact:L0", "review"),
        ('"7d"', '"8d"'),
        ('"recompute"', '"erase_with_any"'),
        ('applies_to = "all"', 'applies_to = "new"'),
        ('"L1"', '"L2"'),
        ('a = "1"', 'a = "2"'),
        ('"message.*"', '"message.user"'),
        ('["session", ', '["session", "summary", '),
    ],
)
def test_whatever_is_said_differently_has_another_digest(old, new):
    """D1"""
    text = HEAD + ALL + FULL
    assert old in text
    assert read_policy(text.replace(old, new), file="a").digest != read_policy(text, file="a").digest


# ------------------------------------------------------------------------------------------- what is refused


def line(text, start):
    """The number of the line that begins so."""
    return next(number for number, found in enumerate(text.splitlines(), 1) if found.startswith(start))


UNKNOWN_WORD = 'zz"zz'
FIELDS = [
    # old text, new text, field, part of what is said; the line is the field's own
    ("expire_after", 'expire_after = "90d"', "expire_after = 90", "in quotes and with its unit"),
    ("expire_after", 'expire_after = "90d"', "expire_after = 0", "in quotes and with its unit"),
    ("expire_after", 'expire_after = "90d"', "expire_after = -1", "in quotes and with its unit"),
    ("expire_after", 'expire_after = "90d"', "expire_after = true", "in quotes and with its unit"),
    ("expire_after", 'expire_after = "90d"', "expire_after = nan", "in quotes and with its unit"),
    ("expire_after", 'expire_after = "90d"', "expire_after = inf", "in quotes and with its unit"),
    ("expire_after", 'expire_after = "90d"', "expire_after = 1e-9", "in quotes and with its unit"),
    ("expire_after", 'expire_after = "90d"', f"expire_after = {2**63}", "in quotes and with its unit"),
    ("expire_after", 'expire_after = "90d"', "expire_after = 2026-01-01", "in quotes and with its unit"),
    ("expire_after", 'expire_after = "90d"', 'expire_after = "30"', "needs a unit"),
    ("expire_after", 'expire_after = "90d"', 'expire_after = "0d"', "nothing lives for no time"),
    ("expire_after", 'expire_after = "90d"', 'expire_after = " 90d"', "no spaces"),
    ("expire_after", 'expire_after = "90d"', 'expire_after = "90zz"', "one whole number and one unit"),
    ("expire_after", 'expire_after = "90d"', 'expire_after = "P99999Y"', "at most 100 years"),
    ("keep_min", 'keep_min = "30d"', "keep_min = 0", "in quotes and with its unit"),
    ("keep_min", 'keep_min = "30d"', 'keep_min = "never"', 'write "0d" for none'),
    ("keep_min", 'keep_min = "30d"', 'keep_min = "91d"', "can be longer than expire_after"),
    ("keep_min", 'keep_min = "30d"', 'keep_min = "3mo"', "expire_after above 92 days"),
    ("keep_min", 'keep_min = "30d"', 'keep_min = { for = "91d", basis = "contract" }', "can be longer than"),
    ("keep_min", 'keep_min = "30d"', 'keep_min = { basis = "contract" }', "write"),
    (
        "keep_min",
        'keep_min = "30d"',
        'keep_min = { for = 3, basis = "contract" }',
        "in quotes and with its unit",
    ),
    ("keep_min.basis", 'keep_min = "30d"', 'keep_min = { for = "3d" }', 'is missing; write one of "consent"'),
    (
        "keep_min.basis",
        'keep_min = "30d"',
        'keep_min = { for = "3d", basis = "zzzz" }',
        'write one of "consent"',
    ),
    ("keep_min.basis", 'keep_min = "30d"', 'keep_min = { for = "3d", basis = 1 }', 'write one of "consent"'),
    (
        "keep_min.ref",
        'keep_min = "30d"',
        'keep_min = { for = "3d", basis = "contract", ref = "zz\\nzz" }',
        "at most 200 printable",
    ),
    (
        "keep_min.ref",
        'keep_min = "30d"',
        'keep_min = { for = "3d", basis = "contract", ref = "%s" }' % ("z" * 201),
        "at most 200 printable",
    ),
    (
        "unknown field",
        'keep_min = "30d"',
        'keep_min = { for = "3d", basis = "contract", zzzz = 1 }',
        "keep_min has for, basis, ref",
    ),
    ("grace", 'grace = "7d"', "grace = 0", "in quotes and with its unit"),
    ("grace", 'grace = "7d"', 'grace = "never"', 'write "0d" for none'),
    ("id", 'id = "one"', "id = 1", "write 1 to 64 of a-z"),
    ("id", 'id = "one"', 'id = "ZZZZ"', "write 1 to 64 of a-z"),
    ("id", 'id = "one"', 'id = ""', "write 1 to 64 of a-z"),
    ("id", 'id = "one"', 'id = "%s"' % ("z" * 65), "write 1 to 64 of a-z"),
    ("id", 'id = "one"', 'id = "all"', "another rule has it already"),
    ("anchor", 'anchor = "created"', 'anchor = "zzzz"', 'write one of "created", "last_event"'),
    ("anchor", 'anchor = "created"', "anchor = 1", 'write one of "created", "last_event"'),
    ("on_expire", 'on_expire = "erase"', 'on_expire = "zzzz"', 'write one of "erase", "redact:L0", "review"'),
    ("applies_to", 'applies_to = "new"', 'applies_to = "zzzz"', 'write one of "new", "all"'),
    ("match.kind", '["session"]', '["zzzz"]', 'of "session", "event"'),
    ("match.kind", '["session"]', '["Session"]', 'of "session", "event"'),
    ("match.kind", '["session"]', '["session", "session"]', "each once"),
    ("match.kind", '["session"]', "[]", 'of "session", "event"'),
    ("match.kind", '["session"]', '"session"', 'of "session", "event"'),
    ("match.kind", '["session"]', "[1]", 'of "session", "event"'),
    ("match.labels", 'a = "1"', 'a = "zz*"', "there are no patterns"),
    ("match.labels", 'a = "1"', '"*" = "1"', "there are no patterns"),
    ("match.labels", 'a = "1"', '"" = "1"', "of 1 to 256 characters each"),
    ("match.labels", 'a = "1"', '" zz" = "1"', "at most 32 labels"),
    ("match.labels", 'a = "1"', '"zz\\u0000" = "1"', "at most 32 labels"),
    ("match.labels", 'a = "1"', 'a = ""', "at most 32 labels"),
    ("match.labels", 'a = "1"', "a = 1", "at most 32 labels"),
    ("match.labels", 'a = "1"', 'a = ["1"]', "at most 32 labels"),
    ("match.labels", 'a = "1"', 'zz.zz = "1"', "at most 32 labels"),
    ("match.labels", 'a = "1"', 'a = "%s"' % ("z" * 257), "at most 32 labels"),
    ("match.labels", 'a = "1"', ", ".join(f'z{n} = "1"' for n in range(33)), "at most 32 labels"),
    ("match.labels", '{ a = "1" }', '"zzzz"', "at most 32 labels"),
    ("match.types", 'labels = { a = "1" }', 'types = ["tool.returned"]', 'whose only kind is "event"'),
    ("match.level", 'labels = { a = "1" }', 'level = "L1"', 'whose only kind is "event"'),
    ("unknown field", 'labels = { a = "1" }', "zzzz = 1", "match has kind, labels, types, level"),
    ("match", 'match = { kind = ["session"], labels = { a = "1" } }', "match = 1", "what the rule is about"),
    ("derived", 'summary = "recompute"', 'zzzz = "recompute"', 'kinds of "memory"'),
    ("derived", 'summary = "recompute"', 'session = "recompute"', 'kinds of "memory"'),
    ("derived", 'summary = "recompute"', 'summary = "zzzz"', 'each with one of "erase_with_any"'),
    ("derived", 'summary = "recompute"', "summary = 1", 'each with one of "erase_with_any"'),
    ("derived", 'summary = "recompute"', 'summary = "detach"', "only an artifact can be detached"),
    ("unknown field", 'grace = "7d"', "zzzz = 1", "a rule has id, match, anchor"),
    ("unknown field", 'grace = "7d"', '"zz.zz" = 1', "a rule has id, match, anchor"),
]
ONE = """
[[retention]]
id = "one"
match = { kind = ["session"], labels = { a = "1" } }
anchor = "created"
keep_min = "30d"
expire_after = "90d"
on_expire = "erase"
grace = "7d"
derived = { summary = "recompute" }
applies_to = "new"
"""


def test_the_rule_that_the_table_below_spoils_is_a_good_one():
    """D1"""
    assert [rule.id for rule in read(ALL + ONE).rules] == ["all", "one"]


@pytest.mark.parametrize(("field", "old", "new", "said"), FIELDS)
def test_a_wrong_field_is_refused_by_file_line_and_name(field, old, new, said):
    """D1"""
    assert ONE.count(old) == 1
    start = next(found for found in ONE.splitlines() if old in found).partition(" ")[0]
    text = HEAD + ALL + ONE.replace(old, new)
    sentence = refusal(text)
    where = len((HEAD + ALL).splitlines()) + line(ONE, start)
    # A key that is not there, or in quotes, is looked for under the header.
    header = len((HEAD + ALL).splitlines()) + line(ONE, "[[")
    assert re.match(rf"mine\.toml, line ({where}|{header}): {re.escape(field)}: ", sentence), sentence
    assert said in sentence
    assert "zz" not in sentence.lower()


@pytest.mark.parametrize("field", ["id", "match", "anchor", "expire_after"])
def test_a_missing_field_is_named(field):
    """D1"""
    text = HEAD + ALL + "\n".join(found for found in ONE.splitlines() if not found.startswith(field))
    header = len((HEAD + ALL).splitlines()) + line(ONE, "[[")
    assert refusal(text).startswith(f"mine.toml, line {header}: {field}: is missing; write ")


@pytest.mark.parametrize(
    ("types", "kinds", "good"),
    [
        (["tool.returned", "message.*"], ["event"], True),
        (["my-own.type_1"], ["event"], True),
        (["*"], ["event"], False),
        (["tool*"], ["event"], False),
        (["*.returned"], ["event"], False),
        (["Tool.Returned"], ["event"], False),
        ([""], ["event"], False),
        ([], ["event"], False),
        (["a" * 65], ["event"], False),
        (["a.b"] * 33, ["event"], False),
        (["tool.returned"], ["event", "session"], False),
    ],
)
def test_event_types_are_named_as_elsewhere_and_only_for_events(types, kinds, good):
    """D1"""
    match = f"match = {{ kind = {kinds}, types = {types} }}".replace("'", '"')
    text = HEAD + ALL + f'[[retention]]\nid = "e"\n{match}\nanchor = "created"\nexpire_after = "1d"\n'
    if good:
        assert read_policy(text, file="mine.toml").rules[1].types == tuple(sorted(types))
    else:
        assert "match.types: write a list of 1 to 32 event types" in refusal(text)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"session", "event", "structure"}))
def test_only_what_ends_expires_by_its_end(kind):
    """D1: any other would never expire, and the document would say that it does."""
    text = HEAD + ALL + ONE.replace('["session"]', f'["{kind}"]').replace('"created"', '"ended"')
    assert "anchor: only these end: event, session, structure; write " in refusal(text)


@pytest.mark.parametrize("kind", ["session", "memory", "artifact"])
def test_a_policy_without_a_rule_for_what_everybody_has_is_refused(kind):
    """D1: the default cannot be empty."""
    others = [f'"{name}"' for name in ("session", "memory", "artifact") if name != kind]
    spoilt = ALL.replace('"session", "memory", "artifact"', ", ".join(others))
    labelled = ONE.replace('["session"]', f'["{kind}"]')
    expected = f'retention: add a rule without labels for the kind "{kind}": nothing is kept without a rule'
    assert expected in refusal(HEAD + spoilt)
    assert expected in refusal(HEAD + spoilt + labelled)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "line 1: version: is missing", id="empty"),
        pytest.param(HEAD, "line 1: retention: is missing", id="no-rules"),
        pytest.param(HEAD + "retention = []\n", "line 3: retention: write 1 to 500 rules", id="empty-list"),
        pytest.param(HEAD + "retention = 1\n", "line 3: retention: write 1 to 500 rules", id="number"),
        pytest.param(
            HEAD + "retention = [1]\n", "line 3: retention: write 1 to 500 rules", id="list-of-numbers"
        ),
        pytest.param(HEAD + "[retention]\n", "retention: write 1 to 500 rules", id="table"),
        pytest.param(HEAD.replace("1", "0") + ALL, "line 1: version: write a whole number", id="version-0"),
        pytest.param(
            HEAD.replace("1", "true") + ALL, "line 1: version: write a whole number", id="version-true"
        ),
        pytest.param(
            HEAD.replace("1", '"1"') + ALL, "line 1: version: write a whole number", id="version-text"
        ),
        pytest.param(
            HEAD.replace("1", "1.0") + ALL, "line 1: version: write a whole number", id="version-float"
        ),
        pytest.param(
            HEAD.replace("1", str(2**31)) + ALL, "line 1: version: write a whole number", id="version-big"
        ),
        pytest.param(HEAD.replace("mine", "") + ALL, "line 2: name: write 1 to 64", id="no-name"),
        pytest.param(HEAD.replace("mine", "Z Z") + ALL, "line 2: name: write 1 to 64", id="bad-name"),
        pytest.param(HEAD + "zzzz = 1\n" + ALL, "line 3: unknown field: there is no field", id="unknown"),
        pytest.param(HEAD + ALL + "[zzzz]\n", "unknown field: there is no field", id="unknown-table"),
        pytest.param(HEAD + 'name = "b"\n' + ALL, "line 3: not valid TOML", id="duplicate-key"),
        pytest.param(HEAD + ALL + 'anchor = "ended"\n', "line 9: not valid TOML", id="duplicate-in-rule"),
        pytest.param(
            HEAD + ALL + "a = {\tb = 1,\n}\n", "line 9: not valid TOML", id="inline-table-over-lines"
        ),
        pytest.param(HEAD + ALL + "a = 'x\x0by'\n", "line 9: not valid TOML", id="control-character"),
        pytest.param(HEAD + ALL + 'a = "\\t\\q"\n', "line 9: not valid TOML", id="escape"),
        pytest.param("\ufeff" + HEAD + ALL, "line 1: not valid TOML", id="byte-order-mark"),
        pytest.param(HEAD + ALL + 'a = "', "line 9: not valid TOML", id="open-string"),
        pytest.param(
            HEAD + "a = " + "[" * 50_000, "not a policy; a number in it is too long or", id="brackets"
        ),
        pytest.param(
            HEAD + "a = " + "9" * 50_000, "not a policy; a number in it is too long or", id="digits"
        ),
        pytest.param(HEAD + "a" + ".a" * 65 + " = 1\n", "line 3: more than 64 dots", id="key-of-many-parts"),
        pytest.param(HEAD + "[a" + ".a" * 65 + "]\n", "line 3: more than 64 dots", id="header-of-many-parts"),
        pytest.param(HEAD + "#" * DOCUMENT_BYTES_MAX, "larger than 256 KiB", id="too-large"),
        pytest.param(
            HEAD + "#" + "\u00e9" * (DOCUMENT_BYTES_MAX // 2), "larger than 256 KiB", id="bytes-not-letters"
        ),
    ],
)
def test_a_document_that_is_none_is_refused(text, said):
    """D1"""
    sentence = refusal(text)
    assert sentence.startswith("mine.toml")
    assert said in sentence
    assert "zz" not in sentence


def many(number):
    return HEAD + "".join(ALL.replace('"all"', f'"all-{n}"') for n in range(number))


def test_a_document_holds_so_many_rules_and_no_more():
    """D1"""
    assert len(read_policy(many(RULES_MAX), file="mine.toml").rules) == RULES_MAX
    assert "retention: write 1 to 500 rules" in refusal(many(RULES_MAX + 1))


def test_a_label_that_is_no_unicode_text_is_refused_whatever_reads_the_file():
    """D1"""
    assert "match.labels" in refusal(HEAD + ALL + ONE.replace('a = "1"', '"\ud800" = "1"'))


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.sampled_from(ONE.splitlines()))
def test_nothing_that_stands_in_a_document_is_quoted_or_breaks_the_reader(text, line):
    """D1"""
    spoilt = (
        HEAD + ALL + ONE.replace(line, line.partition("=")[0] + "= " + text) if "=" in line else HEAD + text
    )
    sentence = ""
    try:
        read_policy(spoilt, file="mine.toml")
    except InvalidInput as refused:
        sentence = str(refused)
    assert len(text) < 12 or text not in sentence


# ------------------------------------------------------------------------------------- the shipped documents

SHIPPED = ["default", "gdpr", "hipaa", "pci", "eu-ai-act", "ephemeral"]


def shipped(name):
    return read_policy((data.policies() / f"{name}.toml").read_text(encoding="utf-8"), file=f"{name}.toml")


@pytest.mark.parametrize("name", SHIPPED)
def test_in_every_shipped_policy_each_kind_has_a_finite_period(name):
    """D1"""
    found = shipped(name)
    assert (found.name, found.version) == (name, 1)
    for kind in set(KINDS) - {"event"}:  # an event goes with its session
        bound = bind(found, kind, {})
        assert bound.rule >= 0, kind
        assert bound.expire_months or bound.expire_us, kind


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_policy_says_what_it_answers_to_and_what_it_does_not_claim(name):
    """D1"""
    head = shipped(name).text.partition("version =")[0]
    assert "answers to" in head
    assert "claim" in head
    assert all(len(found) <= 110 for found in head.splitlines())


@pytest.mark.parametrize("name", SHIPPED)
def test_in_every_shipped_policy_content_has_no_minimum_and_proof_has_one(name):
    """D1: a person's request is never blocked by a default, and what was done can be shown."""
    found = shipped(name)
    for kind in set(KINDS) - {"event", "structure", "proof"}:
        assert bind(found, kind, {}).keeps == (), kind
    assert bind(found, "proof", {}).keeps != ()


@pytest.mark.parametrize(
    ("name", "kind", "keep"),
    [
        ("hipaa", "proof", (0, 72, 0)),
        ("eu-ai-act", "structure", (1, 6, 0)),
    ],
)
def test_the_minimums_that_a_law_names_are_in_its_policy(name, kind, keep):
    """D1"""
    assert keep in bind(shipped(name), kind, {}).keeps


def test_every_shipped_retention_policy_is_listed_and_described():
    """D1"""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in data.policies().glob("*.toml")}
    assert {name for name, text in texts.items() if "retention" in tomllib.loads(text)} == set(SHIPPED)
    page = (data.policies().parent / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")
    assert [name for name in SHIPPED if f"`{name}`" not in page] == []
