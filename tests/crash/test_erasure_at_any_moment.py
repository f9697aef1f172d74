"""An erasure is killed before all that it changes, and at random moments: it ends as one that was not.

D3, D4, D6, D7. ``tests/crash/test_erasure_killed.py`` kills between steps; here there is a place to die
before every statement that writes, every commit, and every file that is synced, moved or deleted. At most
``ERASURE_PLACES`` of them are tried, drawn by lot if there are more. ``ERASURE_RANDOM_KILLS`` sets how
many random kills there are.
"""

import os
import random
import re
import shutil
import signal
import time
from functools import partial

import pytest

from tests.crash.test_erasure_killed import (
    CHOICES,
    SETTINGS,
    Child,
    erase,
    grown,
    left_of,
    officer,
    proved,
    rows_of,
    say,
    selected,
    states,
    told,
    who,
)
from vault import Vault
from vault.errors import VaultError
from vault.storage.sqlite import Database

__all__ = ["states"]  # the fixture

RANDOM_KILLS = int(os.environ.get("ERASURE_RANDOM_KILLS", "300"))
PLACES = int(os.environ.get("ERASURE_PLACES", "60"))
PARTS, KILLS_OF_A_GRAPH = 4, 25
#: What changes a database; what a reader does is no place to die at.
WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE|PRAGMA wal_checkpoint)", re.IGNORECASE)
ENDS = re.compile(r"\s*(COMMIT|RELEASE)", re.IGNORECASE)
FILES = ("fsync", "replace", "rename", "unlink", "link")


def nothing(_):
    """No step of an erasure is watched."""


class Graph:
    """A vault with a random graph of sessions and items in it, what is to be erased, and how that ends."""

    def __init__(self, states, choose, number):
        self.states, base = states, states.use("base")
        shutil.rmtree(base.parent, ignore_errors=True)  # that of the graph before
        base.parent.mkdir()
        with Vault.create(base, settings=SETTINGS) as vault:
            grown(vault, choose)
            self.zeta = vault._keys.tenant("zeta", create=False).tenant_id
            self.before = told(vault)
            roots = vault.access(who("alice")).sessions.find(limit=500).items
            self.selection = selected(CHOICES[number % 4], roots, choose)
        self.others = rows_of(base, self.zeta)
        whole = states("base", "whole")
        began = time.monotonic()
        with Vault.open(whole) as vault:
            officer(vault).erasure.erase(**self.selection)
            self.seconds = time.monotonic() - began
            self.after = told(vault)
            proved(vault)
        self.left = left_of(whole)
        assert self.after != self.before

    def broken(self):
        """A copy in which nothing was erased yet."""
        return self.states("base", "broken")

    def is_erased(self, place):
        """Whether it came to its end, on the first opening; else it never began. There is nothing between."""
        with Vault.open(place) as vault:
            tales = told(vault)
            proved(vault, some=tales == self.after)
        assert tales in (self.after, self.before)
        assert rows_of(place, self.zeta) == self.others
        if tales == self.after:
            assert left_of(place) == self.left
        return tales == self.after

    def finish(self, place):
        """What never began is asked for again, and ends as if nothing had happened."""
        with Vault.open(place) as vault:
            officer(vault).erasure.erase(**self.selection)
            assert told(vault) == self.after
        assert left_of(place) == self.left


@pytest.fixture
def graphs(states):
    """Makes graphs, one after the other."""
    return partial(Graph, states)


# ------------------------------------------------------------------------------- before every statement


class Places:
    """Counts the places to die at, in this process, and dies at one of them."""

    def __init__(self, last=None):
        self.count, self.last = 0, last
        connect = Database._connect

        def watched(database):
            connection, wrote = connect(database), [False]

            def statement(text):
                writes = WRITES.match(text) is not None
                if writes or (wrote[0] and ENDS.match(text)):
                    self.passed()
                wrote[0] = writes or (wrote[0] and not text.lstrip().upper().startswith("COMMIT"))

            connection.set_trace_callback(statement)
            return connection

        Database._connect = watched
        for name in FILES:
            setattr(os, name, self.watched(getattr(os, name)))

    def watched(self, call):
        def work(*given, **named):
            self.passed()
            return call(*given, **named)

        return work

    def passed(self):
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1


def erase_watched(place, selection, last, pipe):
    """Erase, and tell at how many places it could have died: from the call on, opening is not counted."""
    places = Places()
    with Vault.open(place) as vault:
        access = officer(vault)
        places.count, places.last = 0, last
        outcome = access.erasure.erase(**selection)
        say(pipe, {"state": outcome.state, "places": places.count})


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_erasure_that_is_killed_before_any_of_its_statements_comes_to_the_same_end(graphs):
    """D3, D4, D6: before each insert, update, delete, commit and checkpoint, and each change to a file"""
    seed = random.randrange(2**32)
    choose = random.Random(seed)
    graph = graphs(choose, choose.randrange(4))
    status, (said,) = Child(partial(erase_watched, graph.broken(), graph.selection, None)).ended()
    assert (status, said["state"]) == (0, "verified"), seed
    assert said["places"] > 40, seed  # else nothing was watched
    chosen = sorted(choose.sample(range(said["places"]), min(PLACES, said["places"])))
    erased, killed = False, 0
    for number in chosen:
        place = graph.broken()
        status, _ = Child(partial(erase_watched, place, graph.selection, number)).ended()
        killed += status == signal.SIGKILL
        ended = graph.is_erased(place)
        assert ended or not erased, (seed, number)  # once it is opened, nothing takes it back
        erased = ended
    assert erased, seed
    assert killed >= len(chosen) - 5, seed  # a checkpoint in the background makes a place more, or less


# -------------------------------------------------------------------------------------- random moments


def opens(place, pipe):
    """Opens the vault, which carries on what was begun."""
    Vault.open(place)
    say(pipe, {"opened": True})


def killed_after(seconds, work):
    """Start it, and kill it so many seconds later; whether it was still at work."""
    child = Child(work)
    time.sleep(seconds)
    os.kill(child.pid, signal.SIGKILL)
    return child.ended()[0] == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_wherever_an_erasure_is_killed_its_end_is_that_of_one_that_was_not(graphs, part):
    """D3, D4, D6: random graphs of sessions, forks and items; also who carries it on is killed"""
    seed = random.randrange(2**32)
    choose = random.Random(seed)
    kills, interrupted, ends = 0, 0, set()
    while kills < RANDOM_KILLS // PARTS:
        graph = graphs(choose, choose.randrange(4))
        for _ in range(KILLS_OF_A_GRAPH):
            place = graph.broken()
            work = partial(erase, place, graph.selection, nothing)
            interrupted += killed_after(choose.uniform(0, 1.2 * graph.seconds), work)
            kills += 1
            while choose.random() < 0.3:
                killed_after(choose.uniform(0, graph.seconds), partial(opens, place))
                kills += 1
            try:
                ends.add(graph.is_erased(place))
            except (AssertionError, VaultError) as wrong:
                raise AssertionError((seed, kills)) from wrong
            if choose.random() < 0.1:
                graph.finish(place)
    assert interrupted > kills // 8, seed
    assert ends == {True, False}, seed
