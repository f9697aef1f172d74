"""What a policy says of what is made from something, and what its writer may choose (D1, D4)."""

import pytest

from vault import Principal, Vault
from vault.derived.options import Voice, hung_by
from vault.errors import InvalidInput, NotFound

OWNER = Principal(tenant="acme", subject="alice", roles={"owner"})
OFFICER = Principal(tenant="acme", subject="pia", roles={"privacy_officer"})
CHOICES = ("erase_with_any", "recompute", "erase_with_last", "detach")

POLICY = """version = 1
name = "mine"

[[retention]]
id = "all"
match = {{ kind = ["session", "memory", "summary", "artifact", "embedding", "cache"], labels = {{}} }}
anchor = "created"
expire_after = "never"
"""
RULE = """
[[retention]]
id = "{name}"
match = {{ kind = ["{kind}"], labels = {{ case = "{name}" }} }}
anchor = "created"
expire_after = "never"
derived = {{ {kinds} }}
"""


def paper(**said):
    """A policy by which sessions with a label say something of kinds; ``memories``: memories do."""
    text = POLICY.format()
    for name, kinds in said.items():
        words = ", ".join(f'{kind} = "{option}"' for kind, option in kinds.items())
        kind = "memory" if name == "memories" else "session"
        text += RULE.format(name=name, kind=kind, kinds=words)
    return text


@pytest.fixture
def alice(vault):
    return vault.access(OWNER)


@pytest.fixture
def by(vault, alice):
    """A session for each thing that a policy says."""

    def made(**said):
        alice.sessions.create()  # the tenant is known
        vault.access(OFFICER).policies.activate(paper(**said))
        return {name: alice.sessions.create(labels={"case": name}) for name in [*said, "silent"]}

    return made


def put(alice, *sources, key="k", **more):
    return alice.memories.put((), key, 1, sources=sources, **more)


@pytest.mark.parametrize("option", CHOICES[:3])
def test_without_a_word_of_its_writer_an_item_goes_as_the_policy_says(alice, by, option):
    """D1"""
    session = by(said={"memory": option})["said"]
    assert put(alice, session).on_source_erased == option
    assert put(alice, session, kind="summary").on_source_erased == "erase_with_any"


def test_of_several_sources_the_most_careful_word_counts_and_silence_is_the_most_careful(alice, by):
    """D1, D4"""
    found = by(last={"memory": "erase_with_last"}, again={"memory": "recompute"})
    assert put(alice, found["last"]).on_source_erased == "erase_with_last"
    assert put(alice, found["last"], found["again"]).on_source_erased == "recompute"
    assert put(alice, found["last"], found["silent"]).on_source_erased == "erase_with_any"


@pytest.mark.parametrize("floor", CHOICES[:3])
def test_a_writer_may_be_more_careful_than_the_policy_and_no_less(alice, by, floor):
    """D1: also where another source says nothing"""
    found = by(said={"memory": floor})
    for place, choice in enumerate(CHOICES[:3]):
        for sources in ([found["said"]], [found["said"], found["silent"]]):
            if place <= CHOICES.index(floor):
                made = put(alice, *sources, on_source_erased=choice)
                assert made.on_source_erased == choice
            else:
                with pytest.raises(InvalidInput, match=f"says {floor} for this kind"):
                    put(alice, *sources, on_source_erased=choice)


def test_where_no_policy_says_a_word_its_writer_chooses(alice, by):
    """D4: as before a tenant has a policy of its own"""
    for session in (alice.sessions.create(), by()["silent"]):
        for choice in CHOICES[:3]:
            assert put(alice, session, on_source_erased=choice).on_source_erased == choice
        assert put(alice, session).on_source_erased == "erase_with_any"


def test_a_policy_detaches_an_artifact_only_for_a_reason(alice, by):
    """D4"""
    session = by(said={"artifact": "detach"})["said"]

    def made(**more):
        return alice.artifacts.put("a", b"1", sources=[session], **more).on_source_erased

    assert made() == "erase_with_last"
    assert made(reason="a form without anything filled in") == "detach"
    with pytest.raises(InvalidInput, match=r"\(reason\)"):
        made(on_source_erased="detach")


def test_a_word_holds_for_all_that_comes_from_a_session_through_other_items(alice, by):
    """D1, D4: what would be refused at once is refused a step later too"""
    words = {"memory": "erase_with_any", "summary": "recompute", "artifact": "erase_with_last"}
    found = by(said=words)
    first = put(alice, found["said"])
    summary = put(alice, first, key="b", kind="summary")
    assert summary.on_source_erased == "erase_with_any"  # as what it is made from goes
    with pytest.raises(InvalidInput, match="says erase_with_any"):
        put(alice, first, found["silent"], key="b", on_source_erased="erase_with_last")
    file = alice.artifacts.put("a", b"1", sources=[found["said"]])
    assert file.on_source_erased == "erase_with_last"
    deep = alice.artifacts.put("b", b"1", sources=[file])
    assert deep.on_source_erased == "erase_with_last"
    assert put(alice, deep, key="c", kind="summary").on_source_erased == "recompute"
    with pytest.raises(InvalidInput, match="says recompute"):
        put(alice, deep, key="c", kind="summary", on_source_erased="erase_with_last")


def test_what_a_rule_of_memories_says_holds_for_what_is_made_from_them(alice, by):
    """D1"""
    session = by(memories={"summary": "recompute"})["silent"]
    memory = put(alice, session, labels={"case": "memories"}, on_source_erased="erase_with_last")
    assert put(alice, memory, key="s", kind="summary").on_source_erased == "recompute"


def test_the_event_of_a_fork_speaks_by_the_session_that_holds_it(alice, by):
    """D1"""
    session = by(said={"memory": "recompute"})["said"]
    event = session.append("message.user", {"content": "hello"})
    fork = alice.sessions.fork(session.id)
    within = next(one for one in alice.sessions.resume(fork.id).events() if one.id == event.id)
    assert put(alice, within, fork).on_source_erased in {"recompute", "erase_with_any"}
    with pytest.raises(InvalidInput, match="says recompute"):
        put(alice, within, fork, on_source_erased="erase_with_last")


def test_what_the_policy_says_is_what_happens(vault, alice, by):
    """D4"""
    found = by(said={"memory": "erase_with_last"})
    other = alice.sessions.create(labels={"case": "said"})
    put(alice, found["said"], other)
    put(alice, found["said"], other, key="careful", on_source_erased="erase_with_any")
    alice.erasure.erase(session=other.id)
    assert [one.key for one in alice.memories.list()] == ["k"]
    alice.erasure.erase(session=found["said"].id)
    with pytest.raises(NotFound):
        alice.memories.get((), "k")
    assert vault.verify().findings == ()


def test_the_words_of_a_policy_are_read_again_after_the_vault_was_closed(place, vault, alice, by):
    first = put(alice, by(said={"memory": "recompute"})["said"])
    vault.close()
    with Vault.open(place) as again:
        made = again.access(OWNER)
        with pytest.raises(InvalidInput, match="says recompute"):
            put(made, first.id, key="b", on_source_erased="erase_with_last")


def test_a_detached_source_makes_nothing_else_less_careful():
    free = Voice({"memory": "detach", "cache": "detach"}, "detach")
    assert hung_by(None, "memory", "why", [free]) == "last"
    assert hung_by(None, "cache", "why", [free]) == "free"
    assert hung_by(None, "cache", None, [free]) == "last"
    assert hung_by(None, "cache", "why", [free, Voice({})]) == "any"
