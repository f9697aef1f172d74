"""Writing what was derived is killed before all that it changes: it is there with its sources, or not at all.

D4, L2. Places to die are those of ``tests/crash/test_erasure_at_any_moment.py``.
"""

import os
import signal
from functools import partial

import pytest

from tests.crash.test_erasure_at_any_moment import Places
from tests.crash.test_erasure_killed import SETTINGS, Child, say, states, unnamed, who
from vault import Vault
from vault.errors import NotFound

__all__ = ["states"]  # the fixture


def write(access, kind, number, sources):
    if kind == "memory":
        return access.memories.put(("n",), "k", {"number": number}, sources=sources)
    body = bytes([number]) * 10 if kind == "artifact" else bytes([number]) + os.urandom(90_000)
    return access.artifacts.put("a", body, sources=sources)


def newest(access, kind):
    """Its version, its number and its sources."""
    if kind == "memory":
        found = access.memories.get(("n",), "k")
        return found.version, found.value["number"], found.sources
    found = access.artifacts.get("a")
    with found.open() as body:
        return found.version, body.read(1)[0], found.sources


def put_watched(place, kind, sources, last, pipe):
    places = Places()
    with Vault.open(place) as vault:
        access = vault.access(who("alice"))
        # Asked before it counts: what opens a session for the first time writes nothing.
        named = [access.sessions.resume(one) for one in sources]
        places.count, places.last = 0, last
        write(access, kind, 2, named)
        places.passed()  # it returned
        say(pipe, {"places": places.count})


@pytest.mark.parametrize("kind", ["memory", "artifact", "large artifact"])
def test_a_derived_item_is_never_there_without_its_sources_or_by_half(states, kind):
    """D4: killed before each statement and file; the version before stays until the new one is there"""
    base = states.use("base")
    base.parent.mkdir()
    with Vault.create(base, settings=SETTINGS) as vault:
        access = vault.access(who("alice"))
        first, second = access.sessions.create().id, access.sessions.create().id
        before = (1, 1, write(access, kind, 1, [first]).sources)
    status, (said,) = Child(partial(put_watched, states("base", "whole"), kind, [second], None)).ended()
    assert status == 0
    assert said["places"] > 4
    there = []
    for number in range(said["places"]):
        place = states("base", "broken")
        status, _ = Child(partial(put_watched, place, kind, [second], number)).ended()
        assert status == signal.SIGKILL, number
        with Vault.open(place) as vault:
            access = vault.access(who("alice"))
            found = newest(access, kind)
            there.append(found != before)
            if there[-1]:
                assert (found[:2], [one.id for one in found[2]]) == ((2, 2), [second]), number
            assert vault.verify().findings == (), number
            # By its recorded source it goes, if it is there; what is left of it alone is a file at most.
            assert access.erasure.erase(session=second).state == "verified"
            if there[-1]:
                with pytest.raises(NotFound):
                    newest(access, kind)
            else:
                assert newest(access, kind) == before, number
            assert vault.verify().findings == (), number
        assert len(unnamed(place)) <= 1, number
    assert there == sorted(there)
    assert (there[0], there[-1]) == (False, True)
