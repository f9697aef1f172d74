"""What goes with what is a fixpoint: nothing that should go is forgotten, nothing else goes (D4)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault.policy.lineage import Effect, Node, affected, doomed, goes

OWNER = b"owner"
A, B, C, D, E, F = (letter.encode() for letter in "ABCDEF")


def node(node_id, *sources, hung="any", recompute=False, fork=False, superseded=False):
    kind = "memory" if sources and not fork else "session"
    return Node(node_id, kind, OWNER, hung, recompute, sources, fork, superseded, (), 0)


def graph(*nodes):
    return {each.id: each for each in nodes}


def actions(effects):
    return {node_id: effect.action for node_id, effect in effects.items()}


@st.composite
def graphs(draw, *, cycles=False):
    """A small graph of every kind of node, with sources outside of it, and some of its ids as roots."""
    size = draw(st.integers(1, 9))
    ids = [bytes([number]) for number in draw(st.permutations(range(size)))]
    nodes = {}
    for place, node_id in enumerate(ids):
        before = ids if cycles else ids[:place]
        sessions = [each for each in before if each in nodes and nodes[each].kind == "session"]
        form = draw(st.sampled_from(["session", "fork", "item", "item", "item"]))
        if form == "fork" and sessions:
            nodes[node_id] = node(node_id, draw(st.sampled_from(sessions)), fork=True)
        elif form == "item" and before:
            sources = draw(st.lists(st.sampled_from([*before, b"outside"]), min_size=1, max_size=3))
            hung = draw(st.sampled_from(["any", "any", "last", "free"]))
            again = hung == "any" and draw(st.booleans())
            nodes[node_id] = node(node_id, *sources, hung=hung, recompute=again)
        else:
            nodes[node_id] = node(node_id)
    roots = draw(st.lists(st.sampled_from([*ids, b"erased long ago"]), max_size=4))
    return frozenset(roots), nodes


def naive_gone(roots, nodes, forks, kept=()):
    """The rules, word for word, tried again until nothing changes."""
    gone = {root for root in roots if root in nodes and root not in kept}
    while True:
        more = set()
        for each in nodes.values():
            sources = set(each.sources) - {each.id}
            if each.id in kept or (each.fork and forks == "exclude"):
                continue
            if each.hung == "any" and sources & gone:
                more.add(each.id)
            if each.hung == "last" and sources and sources <= gone:
                more.add(each.id)
        if more <= gone:
            return gone
        gone |= more


def naive_erased(roots, nodes, gone):
    """Those of the gone that cannot be made again."""
    erased = {each for each in gone if each in roots or not nodes[each].recompute}
    while True:
        more = {each for each in gone if set(nodes[each].sources) - {each} <= erased} | erased
        if more == erased:
            return erased
        erased = more


def test_whatever_was_made_from_a_source_goes_with_it():
    nodes = graph(node(A), node(B), node(C, A, B), node(D, C), node(E, B))
    assert affected([A], nodes, forks="include") == {
        A: Effect("erase", 0, A),
        C: Effect("erase", 1, A),
        D: Effect("erase", 2, C),
    }


def test_what_can_be_made_again_is_erased_first_and_takes_along_what_came_from_it():
    nodes = graph(node(A), node(B), node(C, A, B, recompute=True), node(D, C), node(E, C, recompute=True))
    assert actions(affected([A], nodes, forks="include")) == {
        A: "erase",
        C: "recompute",
        D: "erase",
        E: "recompute",  # its source may be made again, and it from that
    }


def test_what_has_no_source_left_is_not_made_again():
    nodes = graph(node(A), node(B), node(C, A, B, recompute=True), node(D, C, recompute=True))
    assert actions(affected([A, B], nodes, forks="include")) == dict.fromkeys([A, B, C, D], "erase")


def test_a_root_is_erased_even_if_it_could_be_made_again_or_hangs_by_nothing():
    nodes = graph(node(A), node(B, A, recompute=True), node(C, A, hung="free"), node(D, A, B, hung="last"))
    assert actions(affected([B, C, D], nodes, forks="include")) == dict.fromkeys([B, C, D], "erase")


def test_what_hangs_by_its_last_source_stays_until_that_goes():
    nodes = graph(node(A), node(B), node(C, A, B, hung="last"), node(D, C))
    assert affected([A], nodes, forks="include") == {
        A: Effect("erase", 0, A),
        C: Effect("keep_last", 1, A),
    }
    assert actions(affected([A, B], nodes, forks="include")) == dict.fromkeys([A, B, C, D], "erase")


def test_a_source_that_is_to_be_made_again_is_no_last_source():
    nodes = graph(node(A), node(B), node(C, A, B, recompute=True), node(D, C, hung="last"))
    assert actions(affected([A], nodes, forks="include")) == {A: "erase", C: "recompute", D: "erase"}


def test_a_source_named_twice_is_one_source():
    nodes = graph(node(A), node(B), node(C, A, A, B, hung="last"), node(D, A, A, hung="last"))
    assert actions(affected([A], nodes, forks="include")) == {A: "erase", C: "keep_last", D: "erase"}


def test_what_hangs_free_stays_and_nothing_goes_because_of_it():
    nodes = graph(node(A), node(B, A, hung="free"), node(C, B))
    assert actions(affected([A], nodes, forks="include")) == {A: "erase", B: "detach"}


def test_an_old_version_in_the_middle_passes_it_on():
    nodes = graph(node(A), node(B, A, superseded=True), node(C, B, superseded=True), node(D, C))
    assert set(affected([A], nodes, forks="include")) == {A, B, C, D}


def test_forks_go_with_their_session_or_are_left_alone_with_all_that_came_from_them():
    nodes = graph(node(A), node(B, A, fork=True), node(C, B, fork=True), node(D, B), node(E, A))
    assert set(affected([A], nodes, forks="include")) == {A, B, C, D, E}
    assert set(affected([A], nodes, forks="exclude")) == {A, E}
    assert set(affected([A, B], nodes, forks="exclude")) == {A, B, D, E}


def test_a_source_that_is_not_among_the_nodes_stays():
    nodes = graph(node(A), node(B, A, b"elsewhere", hung="last"), node(C, b"elsewhere"))
    assert actions(affected([A], nodes, forks="include")) == {A: "erase", B: "keep_last"}


def test_a_root_that_is_gone_already_changes_nothing():
    assert affected([b"long gone"], graph(node(A)), forks="include") == {}


def test_what_is_kept_shields_what_came_from_it():
    nodes = graph(node(A), node(B, A), node(C, B), node(D, A))
    assert set(affected([A, B], nodes, forks="include", kept=[B])) == {A, D}


def test_a_cycle_goes_once_and_ends():
    nodes = graph(node(A), node(B, A, D), node(C, B), node(D, C), node(E, E, A), node(F, D, F, hung="last"))
    assert affected([A], nodes, forks="include") == {
        A: Effect("erase", 0, A),
        B: Effect("erase", 1, A),
        C: Effect("erase", 2, B),
        D: Effect("erase", 3, C),
        E: Effect("erase", 1, A),
        F: Effect("erase", 4, D),
    }


def test_the_way_up_is_the_shortest_and_the_depth_the_longest():
    nodes = graph(node(A), node(B, A), node(C, B), node(D, A, C))
    assert affected([A], nodes, forks="include")[D] == Effect("erase", 3, A)


def test_many_roots_do_not_make_it_less_deep():
    roots = [A, C, E, F, b"G", b"H"]
    nodes = graph(*(node(root) for root in roots), node(B, A), node(D, *roots[1:], B))
    assert affected(roots, nodes, forks="include")[D].depth == 2


def test_of_several_ways_up_the_first_by_id_counts():
    roots = [bytes([number]) for number in range(20)]
    nodes = graph(*(node(root) for root in roots), node(A, *reversed(roots)))
    assert affected(roots[::-1], nodes, forks="include")[A].through == roots[0]
    for turned in ([node(B, A), node(C, A)], [node(C, A), node(B, A)]):
        nodes = graph(node(A), *turned, node(D, C, B))
        assert affected([A], nodes, forks="include")[D].through == B


def test_a_cycle_is_cut_at_the_same_place_in_any_order():
    for turned in ([node(B, A, C), node(C, A, B)], [node(C, A, B), node(B, A, C)]):
        effects = affected([A], graph(node(A), *turned), forks="include")
        assert (effects[B].depth, effects[C].depth) == (1, 2)


@pytest.mark.parametrize("shape", ["deep", "wide"])
def test_a_hundred_thousand_nodes_are_no_trouble(shape):
    size = 100_000
    ids = [number.to_bytes(16) for number in range(size)]
    made = (node(each, ids[place] if shape == "deep" else ids[0]) for place, each in enumerate(ids[1:]))
    effects = affected([ids[0]], graph(node(ids[0]), *made), forks="include")
    assert len(effects) == size
    assert effects[ids[-1]].depth == (size - 1 if shape == "deep" else 1)


@given(graphs(), st.sampled_from(["include", "exclude"]))
def test_it_is_what_the_rules_say_word_for_word(case, forks):
    roots, nodes = case
    effects = affected(roots, nodes, forks=forks)
    gone = naive_gone(roots, nodes, forks)
    erased = naive_erased(roots, nodes, gone)
    assert {each for each in effects if goes(effects[each])} == gone == doomed(roots, nodes, forks=forks)
    assert {each for each in gone if effects[each].action == "erase"} == erased
    touched = {each.id for each in nodes.values() if set(each.sources) & gone} - gone
    assert {each for each in effects if effects[each].action == "detach"} == {
        each for each in touched if nodes[each].hung == "free"
    }
    assert {each for each in effects if effects[each].action == "keep_last"} == {
        each for each in touched if nodes[each].hung == "last"
    }


@given(graphs(cycles=True), st.sampled_from(["include", "exclude"]), st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_roots_means_nothing(case, forks, rnd: random.Random):
    roots, nodes = case
    mixed = list(nodes.values())
    rnd.shuffle(mixed)
    turned = sorted(roots, reverse=True)
    effects = affected(roots, nodes, forks=forks)
    assert affected([*turned, *turned], graph(*mixed), forks=forks) == effects
    assert {each for each in effects if goes(effects[each])} == naive_gone(roots, nodes, forks)


@given(graphs(), st.sampled_from(["include", "exclude"]))
def test_children_are_deeper_than_every_source_that_goes(case, forks):
    roots, nodes = case
    effects = affected(roots, nodes, forks=forks)
    for child, effect in effects.items():
        if nodes[child].fork and forks == "exclude":
            continue
        for source in nodes[child].sources:
            assert not goes(effects.get(source)) or effects[source].depth < effect.depth


@given(graphs(cycles=True), st.sampled_from(["include", "exclude"]))
def test_the_way_up_leads_to_a_root_over_sources_that_go(case, forks):
    roots, nodes = case
    effects = affected(roots, nodes, forks=forks)
    for start in effects:
        here, steps = start, 0
        while effects[here].through != here:
            assert effects[here].through in nodes[here].sources
            here = effects[here].through
            assert goes(effects[here])
            steps += 1
            assert steps <= len(nodes)
        assert here in roots
