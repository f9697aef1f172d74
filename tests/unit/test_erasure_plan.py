"""The plan of an erasure: holds and minimums beat it, all else goes, each with its reason (D2, D3, D4)."""

import dataclasses
import hashlib
import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vault.errors import InvalidInput
from vault.policy.lineage import Node
from vault.policy.plan import Item, Selector, blast, drift, make_plan, refuse_selector, token

NOW = 1_800_000_000_000_000
LATER = NOW + 1_000_000
LATEST = NOW + 2_000_000
HOLD = (b"hold",)
SUBJECT = Selector("subject", b"blind index")
A, B, C, D, E, F = (letter.encode() for letter in "ABCDEF")


def node(
    node_id, *sources, hung="any", recompute=False, fork=False, held=(), until=0, kind=None, owner=b"owner"
):
    kind = kind or ("memory" if sources and not fork else "session")
    return Node(node_id, kind, owner, hung, recompute, sources, fork, False, held, until)


def graph(*nodes):
    return {each.id: each for each in nodes}


def plan_of(roots, nodes, *, forks="include", now_us=NOW, selector=SUBJECT, cause="request"):
    return make_plan(selector=selector, cause=cause, roots=roots, nodes=nodes, forks=forks, now_us=now_us)


def lines(roots, *nodes, forks="include", cause="policy"):
    """Action, reason and through of every line of a plan."""
    return {
        item.id: (item.action, item.reason, item.through)
        for item in plan_of(roots, graph(*nodes), forks=forks, cause=cause).items
    }


def taken(plan):
    return {item.id for item in plan.items if item.action in ("erase", "recompute")}


def listed(plan, *wanted):
    return {item.id for item in plan.items if item.action in wanted}


@st.composite
def cases(draw):
    """Roots and a small graph with every kind of node, holds and minimums, and sources outside of it."""
    size = draw(st.integers(2, 10))
    ids = [bytes([number]) for number in draw(st.permutations(range(size)))]
    keeps = draw(st.sampled_from([[()], [(), (), (), (), HOLD], [(), HOLD]]))
    ends = draw(st.sampled_from([[0], [0, 0, 0, NOW, LATER, LATEST]]))
    nodes = {}
    for place, node_id in enumerate(ids):
        before = ids[:place]
        sessions = [each for each in before if nodes[each].kind == "session"]
        form = draw(st.sampled_from(["session", "fork", "item", "item", "item", "item"]))
        kept = {"held": draw(st.sampled_from(keeps)), "until": draw(st.sampled_from(ends))}
        if form == "fork" and sessions:
            nodes[node_id] = node(node_id, draw(st.sampled_from(sessions)), fork=True, **kept)
        elif form == "item" and before:
            some = st.sampled_from([*before, *before, b"outside"])
            sources = draw(st.lists(some, min_size=1, max_size=3))
            hung = draw(st.sampled_from(["any", "any", "last", "last", "free"]))
            again = hung == "any" and draw(st.booleans())
            nodes[node_id] = node(node_id, *sources, hung=hung, recompute=again, **kept)
        else:
            nodes[node_id] = node(node_id, **kept)
    roots = draw(st.sets(st.sampled_from([*ids, b"erased long ago"]), min_size=1, max_size=4))
    return frozenset(roots), nodes, draw(st.sampled_from(["include", "exclude"]))


def kept_by_law(each):
    return bool(each.held) or each.min_until_us > NOW


def naive_gone(roots, nodes, forks, kept=frozenset()):
    gone = {root for root in roots if root in nodes and root not in kept}
    while True:
        more = set(gone)
        for each in nodes.values():
            outside = each.fork and forks == "exclude"
            if each.id in kept or outside or not each.sources:
                continue
            some, every = set(each.sources) & gone, set(each.sources) <= gone
            if (each.hung == "any" and some) or (each.hung == "last" and every):
                more.add(each.id)
        if more == gone:
            return gone
        gone = more


def naive_taken(roots, nodes, forks):
    """What goes, written again from the rules: whatever stays keeps the sources that its key hangs on."""
    wanted = naive_gone(roots, nodes, forks)
    outside = {each.id for each in nodes.values() if each.fork and forks == "exclude"} - roots
    kept = {each for each in wanted if kept_by_law(nodes[each])} | outside
    while True:
        more = set(kept)
        for each in kept:
            sources = nodes[each].sources
            if nodes[each].hung == "any":
                more |= set(sources) & wanted
            elif nodes[each].hung == "last" and set(sources) <= wanted:
                more |= set(sources[:1])
        if more == kept:
            return naive_gone(roots, nodes, forks, frozenset(kept))
        kept = more


def opens(node_id, nodes, destroyed):
    """Whether a key can be opened: as the vault wraps them, without a word about plans."""
    if node_id in destroyed:
        return False
    if node_id not in nodes or not nodes[node_id].sources or nodes[node_id].hung == "free":
        return True
    found = [opens(source, nodes, destroyed) for source in nodes[node_id].sources]
    return any(found) if nodes[node_id].hung == "last" else all(found)


def after(plan, nodes):
    """The vault once the plan is carried out; what is to be made again gets a new id."""
    left = {}
    for each in nodes.values():
        if each.id not in taken(plan):
            sources = tuple(source for source in each.sources if source not in taken(plan))
            left[each.id] = each._replace(sources=sources)
    return left


# ------------------------------------------------------------------------------------ what is listed


def test_every_line_says_what_happens_and_because_of_what():
    nodes = graph(
        node(A),
        node(B),
        node(C, A, fork=True, owner=b"somebody else"),
        node(D, C),
        node(E, A, B, recompute=True, kind="summary"),
        node(F, A, hung="free", kind="artifact"),
        node(b"G", A, C, hung="last"),
        node(b"H", A, B, hung="last"),
        node(b"I", A, recompute=True),
    )
    assert plan_of([A], nodes).items == (
        Item(D, "memory", b"owner", "erase", "derived_from", C, 2, 0),
        Item(b"G", "memory", b"owner", "erase", "last_source_gone", A, 2, 0),
        Item(C, "session", b"somebody else", "erase", "fork_of", A, 1, 0),
        Item(E, "summary", b"owner", "recompute", "derived_from", A, 1, 0),
        Item(F, "artifact", b"owner", "detach", "derived_from", A, 1, 0),
        Item(b"H", "memory", b"owner", "keep", "other_source_remains", A, 1, 0),
        Item(b"I", "memory", b"owner", "erase", "last_source_gone", A, 1, 0),
        Item(A, "session", b"owner", "erase", "root", A, 0, 0),
    )


def test_lines_are_counted_by_kind_and_action():
    plan = plan_of(
        [A, B], graph(node(A), node(B, held=HOLD), node(C, A), node(D, A), node(E, A, hung="free"))
    )
    assert plan.counts == {
        ("memory", "detach"): 1,
        ("memory", "erase"): 2,
        ("session", "erase"): 1,
        ("session", "held"): 1,
    }


def test_a_plan_of_nothing_is_empty():
    plan = plan_of([b"erased long ago"], graph(node(A)))
    assert (plan.items, dict(plan.counts)) == ((), {})


# ------------------------------------------------------------------------------ holds and minimums


def test_a_held_root_stays_and_what_came_only_from_it_is_not_met():
    assert lines([A], node(A, held=HOLD), node(B, A), node(C, B)) == {A: ("held", "hold", A)}


def test_what_also_came_from_a_root_that_goes_still_goes():
    assert lines([A, B], node(A, held=HOLD), node(B), node(C, A, B), node(D, A)) == {
        A: ("held", "hold", A),
        B: ("erase", "root", B),
        C: ("erase", "derived_from", B),
    }


def test_a_held_item_keeps_every_source_that_its_key_hangs_on():
    nodes = [node(A), node(B), node(C, A, B), node(D, C, held=HOLD), node(E, A), node(F)]
    assert lines([A, F], *nodes) == {
        A: ("held", "hold", C),
        C: ("held", "hold", D),
        D: ("held", "hold", D),
        F: ("erase", "root", F),
    }
    assert lines([A, B], *nodes)[B] == ("held", "hold", C)


def test_the_siblings_of_a_held_item_are_not_shielded_by_it():
    assert lines([A, B], node(A), node(B), node(C, A, held=HOLD), node(D, B), node(E, A, B)) == {
        A: ("held", "hold", C),
        C: ("held", "hold", C),
        B: ("erase", "root", B),
        D: ("erase", "derived_from", B),
        E: ("erase", "derived_from", B),
    }


def test_a_held_fork_keeps_the_session_it_shares():
    assert lines([A], node(A), node(B, A, fork=True, held=HOLD), node(C, A)) == {
        A: ("held", "hold", B),
        B: ("held", "hold", B),
    }


def test_a_held_item_that_could_be_made_again_is_kept_as_it_is():
    assert lines([A], node(A), node(C, A, b"elsewhere", recompute=True, held=HOLD)) == {
        A: ("held", "hold", C),
        C: ("held", "hold", C),
    }


def test_one_source_is_enough_for_a_held_item_that_hangs_by_its_last():
    nodes = [node(A), node(B), node(C, A, B, hung="last", held=HOLD)]
    assert lines([A], *nodes) == {A: ("erase", "root", A), C: ("keep", "other_source_remains", A)}
    assert lines([A, B], *nodes) == {
        A: ("held", "hold", C),
        B: ("erase", "root", B),
        C: ("held", "hold", C),
    }


def test_what_is_left_with_a_kept_source_only_is_hidden_with_it_when_somebody_asked():
    """D2, D4: all that it came from was asked for; what is left of it is hidden, so it is as well"""
    nodes = [node(A, until=LATER), node(B), node(C, A, until=LATER), node(D, A, B, hung="last")]
    assert lines([A, B], *nodes, cause="request")[D] == ("minimum", "minimum", A)
    assert lines([A, B], *nodes, cause="policy")[D] == ("keep", "other_source_remains", B)


def test_a_hold_on_what_hangs_free_keeps_nothing_else():
    assert lines([A], node(A), node(B, A, hung="free", held=HOLD)) == {
        A: ("erase", "root", A),
        B: ("detach", "derived_from", A),
    }


def test_roots_that_are_held_and_hang_loosely_keep_nothing_else():
    nodes = [node(A), node(B), node(C, A, hung="free", held=HOLD), node(D, A, B, hung="last", held=HOLD)]
    assert lines([A, C, D], *nodes) == {
        A: ("erase", "root", A),
        C: ("held", "hold", C),
        D: ("held", "hold", D),
    }


def test_a_hold_below_an_item_with_a_hold_of_its_own_is_not_met():
    assert lines([A], node(A, held=HOLD), node(B, A, held=HOLD)) == {A: ("held", "hold", A)}


def test_what_came_from_what_is_kept_is_hidden_with_it_when_somebody_asked():
    """D2, D4: a person's request is not answered with half of it"""
    nodes = [node(A, held=HOLD), node(B, A), node(C, B), node(D, A, b"elsewhere", hung="last")]
    assert lines([A], *nodes) == {A: ("held", "hold", A)}
    assert lines([A], *nodes, cause="request") == {
        A: ("held", "hold", A),
        B: ("held", "hold", A),
        C: ("held", "hold", B),
    }


def test_what_is_hidden_with_what_a_minimum_keeps_says_until_when():
    """D1, D2"""
    plan = plan_of([A], graph(node(A, until=LATER), node(B, A)))
    assert [(item.id, item.action, item.until_us) for item in plan.items] == [
        (B, "minimum", LATER),
        (A, "minimum", LATER),
    ]


def test_what_also_came_from_what_goes_is_not_only_hidden():
    """D2, D4"""
    found = lines([A, B], node(A, held=HOLD), node(B), node(C, A, B), cause="request")
    assert found[C] == ("erase", "derived_from", B)


def test_a_hold_where_the_erasure_does_not_come_is_not_listed():
    assert lines([A], node(A), node(B, held=HOLD), node(C, B, held=HOLD)) == {A: ("erase", "root", A)}


def test_a_minimum_keeps_an_item_and_its_sources_until_the_latest_end():
    nodes = graph(node(A), node(B, A, until=LATEST), node(C, A, until=LATER))
    assert plan_of([A], nodes).items == (
        Item(B, "memory", b"owner", "minimum", "minimum", B, 1, LATEST),
        Item(C, "memory", b"owner", "minimum", "minimum", C, 1, LATER),
        Item(A, "session", b"owner", "minimum", "minimum", B, 0, LATEST),
    )


@pytest.mark.parametrize(("until", "action"), [(NOW + 1, "minimum"), (NOW, "erase"), (NOW - 1, "erase")])
def test_a_minimum_ends_when_its_time_has_come(until, action):
    (item,) = plan_of([A], graph(node(A, until=until))).items
    assert item.action == action


def test_a_hold_comes_before_a_minimum_and_says_how_long_that_lasts():
    (item,) = plan_of([A], graph(node(A, held=HOLD, until=LATER))).items
    assert item == Item(A, "session", b"owner", "held", "hold", A, 0, LATER)


def test_a_hold_in_a_cycle_keeps_the_whole_cycle_and_ends():
    assert lines([A], node(A), node(B, A, D), node(C, B), node(D, C, held=HOLD), node(E, C)) == {
        A: ("held", "hold", B),
        B: ("held", "hold", C),
        C: ("held", "hold", D),
        D: ("held", "hold", D),
    }


def test_a_long_chain_under_one_hold_is_no_trouble():
    ids = [number.to_bytes(16) for number in range(30_000)]
    hung = ["any", "last"]
    made = [node(each, ids[place], hung=hung[place % 2]) for place, each in enumerate(ids[1:])]
    nodes = graph(node(ids[0]), *made)
    assert len(taken(plan_of([ids[0]], nodes))) == len(ids)
    nodes[ids[-1]] = nodes[ids[-1]]._replace(held=HOLD)
    assert len(listed(plan_of([ids[0]], nodes), "held")) == len(ids)


# ---------------------------------------------------------------------------------------- forks


def test_a_session_that_a_fork_shares_stays_when_forks_do():
    nodes = [node(A), node(B, A, fork=True), node(C, A), node(D, B), node(E)]
    assert lines([A, E], *nodes, forks="exclude") == {
        A: ("keep", "shared_by_fork", B),
        E: ("erase", "root", E),
    }
    assert set(lines([A, E], *nodes)) == {A, B, C, D, E}


def test_a_session_goes_with_its_forks_when_they_are_roots_too():
    nodes = [node(A), node(B, A, fork=True), node(C, B, fork=True)]
    assert lines([A, B, C], *nodes, forks="exclude") == {
        A: ("erase", "root", A),
        B: ("erase", "root", B),
        C: ("erase", "root", C),
    }
    assert lines([A, B], *nodes, forks="exclude") == {
        A: ("keep", "shared_by_fork", B),
        B: ("keep", "shared_by_fork", C),
    }


# ------------------------------------------------------------------------------------ properties


@settings(max_examples=200)
@given(cases())
def test_what_goes_is_what_the_rules_say_word_for_word(case):
    roots, nodes, forks = case
    assert taken(plan_of(roots, nodes, forks=forks)) == naive_taken(roots, nodes, forks)


@settings(max_examples=200)
@given(cases())
def test_nothing_that_stays_loses_a_key_that_it_needs(case):
    roots, nodes, forks = case
    destroyed = taken(plan_of(roots, nodes, forks=forks))
    for each in nodes:
        assert each in destroyed or opens(each, nodes, destroyed)


@given(cases())
def test_nothing_under_a_hold_or_minimum_goes(case):
    roots, nodes, forks = case
    for each in taken(plan_of(roots, nodes, forks=forks)):
        assert not kept_by_law(nodes[each])


@given(cases())
def test_every_root_is_listed_and_goes_or_says_why_not(case):
    roots, nodes, forks = case
    plan = plan_of(roots, nodes, forks=forks)
    assert roots & nodes.keys() <= {item.id for item in plan.items}
    by_id = {item.id: item for item in plan.items}
    for root in (roots & nodes.keys()) - taken(plan):
        here = by_id[root]
        assert here.action in ("held", "minimum", "keep")
        while here.through != here.id and here.action != "keep":  # down to the hold that is the reason
            assert here.id in nodes[here.through].sources
            assert by_id[here.through].reason in ("hold", "minimum")
            here = by_id[here.through]
        assert here.action == "keep" or kept_by_law(nodes[here.id])


@given(cases())
def test_no_innocent_is_taken(case):
    roots, nodes, forks = case
    plan = plan_of(roots, nodes, forks=forks)
    proven = taken(plan) & roots
    for item in reversed(plan.items):  # from the roots down
        if item.id in taken(plan) - roots:
            assert set(nodes[item.id].sources) & proven
            assert nodes[item.id].hung == "any" or set(nodes[item.id].sources) <= proven
            proven.add(item.id)


@given(cases())
def test_no_live_child_hangs_on_what_was_erased(case):
    roots, nodes, forks = case
    destroyed = taken(plan_of(roots, nodes, forks=forks))
    for each in nodes.values():
        if each.id not in destroyed and each.hung == "any":
            assert not set(each.sources) & destroyed


@given(cases())
def test_carried_out_and_made_again_a_plan_takes_nothing_more(case):
    roots, nodes, forks = case
    first = plan_of(roots, nodes, forks=forks)
    second = plan_of(roots, after(first, nodes), forks=forks)
    assert taken(second) == set()
    kept = ("held", "minimum")
    assert listed(second, *kept) == listed(first, *kept)


@settings(max_examples=200)
@given(cases(), st.data())
def test_one_hold_more_never_takes_anything_more(case, data):
    roots, nodes, forks = case
    before = taken(plan_of(roots, nodes, forks=forks))
    one = data.draw(st.sampled_from(sorted(nodes)))
    held = nodes | {one: nodes[one]._replace(held=HOLD)}
    minimum = nodes | {one: nodes[one]._replace(min_until_us=LATEST)}
    assert taken(plan_of(roots, held, forks=forks)) <= before
    assert taken(plan_of(roots, minimum, forks=forks)) <= before


@settings(max_examples=200)
@given(cases(), st.data())
def test_one_root_more_spares_only_the_last_source_of_what_is_kept(case, data):
    roots, nodes, forks = case
    one = data.draw(st.sampled_from(sorted(nodes)))
    before = taken(plan_of(roots, nodes, forks=forks))
    plan = plan_of(roots | {one}, nodes, forks=forks)
    if before - taken(plan):
        # Only now does all go that something under a hold or minimum hangs on by its last source.
        wanted, more = naive_gone(roots, nodes, forks), naive_gone(roots | {one}, nodes, forks)
        cut_off = [
            each
            for each in nodes.values()
            if each.hung == "last" and set(each.sources) <= more and not set(each.sources) <= wanted
        ]
        assert any(each.id not in taken(plan) for each in cut_off)


@given(cases(), st.randoms(use_true_random=False))
def test_the_same_facts_in_any_order_make_the_same_plan(case, rnd: random.Random):
    roots, nodes, forks = case
    mixed, turned = list(nodes.values()), sorted(roots, reverse=True)
    rnd.shuffle(mixed)
    assert plan_of(turned, graph(*mixed), forks=forks) == plan_of(roots, nodes, forks=forks)


@given(cases())
def test_what_goes_comes_deepest_first(case):
    roots, nodes, forks = case
    plan = plan_of(roots, nodes, forks=forks)
    order = [item.id for item in plan.items if item.id in taken(plan)]
    for place, each in enumerate(order):
        assert not set(nodes[each].sources) & set(order[:place])


# ------------------------------------------------------------------------- digest, token and drift


def test_the_digest_is_over_everything_but_the_time():
    nodes = graph(node(A), node(B, A), node(C, until=LATER))
    plan = plan_of([A, C], nodes)
    assert plan_of([A, C], nodes, now_us=NOW + 1).digest == plan.digest
    others = [
        plan_of([A, C], nodes, now_us=LATER),  # the minimum is over
        plan_of([A], nodes),
        plan_of([A, C], nodes, cause="policy"),
        plan_of([A, C], nodes, selector=Selector("subject", b"another")),
        plan_of([A, C], nodes, selector=Selector("session", SUBJECT.value)),
        plan_of([A, C], nodes | {C: node(C, until=LATEST)}),
        plan_of([A, C], nodes | {B: node(B, A, owner=b"somebody else")}),
        plan_of([A, C], nodes | {B: node(B, A, kind="cache")}),
        plan_of([A, C], nodes | {B: node(B, A, b"elsewhere", recompute=True)}),
    ]
    assert len({plan.digest, *(other.digest for other in others)}) == len(others) + 1


def test_the_digest_stays_what_it_was_in_earlier_versions():
    def packed(*fields):
        return b"".join([len(fields).to_bytes(4), *(len(each).to_bytes(4) + each for each in fields)])

    lines = [
        packed(B, b"memory", b"owner", b"erase", b"derived_from", A, (1).to_bytes(8), bytes(8)),
        packed(A, b"session", b"owner", b"erase", b"root", A, bytes(8), bytes(8)),
    ]
    content = packed(b"session-vault/1/plan", packed(b"subject", b"blind index", b"request"), *lines)
    assert plan_of([A], graph(node(A), node(B, A))).digest == hashlib.sha256(content).digest()


def test_a_token_stands_for_one_plan_under_one_policy():
    one, other = plan_of([A], graph(node(A))), plan_of([A], graph(node(A), node(B, A)))
    tokens = {token(plan, policy) for plan in (one, other) for policy in (b"p" * 32, b"q" * 32)}
    assert len(tokens) == 4
    assert token(one, b"p" * 32) == token(plan_of([A], graph(node(A))), b"p" * 32)
    assert all(len(each) == 64 and each.isalnum() for each in tokens)


def test_drift_names_what_came_what_left_and_what_is_treated_otherwise():
    of = partial(plan_of, [A, B], cause="policy")
    old = of(graph(node(A), node(B), node(C, A), node(D, B)))
    new = of(graph(node(A), node(B, held=HOLD), node(C, A), node(D, B), node(E, A)))
    assert drift(old, new) == ((E,), (D,), (B,))
    assert drift(old, new)
    assert not drift(old, old)


@given(cases(), st.data())
def test_there_is_drift_exactly_when_digests_differ(case, data):
    roots, nodes, forks = case
    one = data.draw(st.sampled_from(sorted(nodes)))
    old = plan_of(roots, nodes, forks=forks)
    new = plan_of(roots, nodes | {one: nodes[one]._replace(held=HOLD)}, forks=forks)
    assert bool(drift(old, new)) == (old.digest != new.digest)


def test_a_plan_cannot_be_changed():
    plan = plan_of([A], graph(node(A)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.items = ()
    with pytest.raises(TypeError):
        plan.counts["session", "erase"] = 0


# --------------------------------------------------------------------------- selectors and the cap


@pytest.mark.parametrize("kind", ["session", "subject", "memory", "artifact", "label"])
def test_an_erasure_without_a_selector_is_refused(kind):
    with pytest.raises(InvalidInput, match="has to name what it erases"):
        plan_of([A], graph(node(A)), selector=Selector(kind, b""))


def test_a_whole_tenant_needs_no_value():
    assert taken(plan_of([A], graph(node(A)), selector=Selector("tenant", b""))) == {A}


@pytest.mark.parametrize("kind", ["", "everything", "Tenant"])
def test_an_unknown_kind_of_selector_is_refused(kind):
    with pytest.raises(InvalidInput, match="a selector is a session"):
        plan_of([A], graph(node(A)), selector=Selector(kind, b"value"))


@pytest.mark.parametrize(
    "text", ["", " ", "\t\n", "*", "%", "**", " * ", "%%", "?", "\u3000", "\u200b", "\x00", "\ufeff*"]
)
def test_a_selector_that_names_nothing_is_refused(text):
    with pytest.raises(InvalidInput, match="no wildcard"):
        refuse_selector(text)


@pytest.mark.parametrize("text", ["a", "0", "user-7", "100%", "*starred*", "_", ".", "名前", " a "])
def test_a_selector_that_names_something_is_taken(text):
    refuse_selector(text)


@pytest.mark.parametrize(
    ("erased", "recomputed", "live", "cap", "too_much"),
    [
        (10, 0, 100, 10, False),
        (11, 0, 100, 10, True),
        (6, 5, 100, 10, True),
        (1, 0, 9, 10, True),
        (0, 0, 0, 10, False),
        (1, 0, 0, 10, True),
        (100, 0, 100, 100, False),
        (2, 0, 100, 1, True),
    ],
)
def test_a_plan_that_takes_more_than_its_share_needs_a_person(erased, recomputed, live, cap, too_much):
    counts = {
        ("session", "erase"): erased,
        ("summary", "recompute"): recomputed,
        ("memory", "held"): 1_000,
        ("memory", "minimum"): 1_000,
        ("memory", "keep"): 1_000,
        ("memory", "detach"): 1_000,
    }
    assert blast(counts, {"session": live - live // 3, "memory": live // 3}, cap) is too_much


def test_a_plan_may_take_a_tenth_by_default():
    assert blast({("session", "erase"): 11}, {"session": 100})
    assert not blast({("session", "erase"): 10}, {"session": 100})


@pytest.mark.parametrize("cap", [0, -1, 101, True, 10.0, float("nan")])
def test_a_cap_that_is_no_percentage_is_refused(cap):
    with pytest.raises(InvalidInput, match="from 1 to 100"):
        blast({}, {}, cap)
