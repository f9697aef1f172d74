"""What a store of wrapped keys promises."""

import threading

import pytest

from vault.ports.keys import KeyRow


def key(**changes):
    fields = {"purpose": "epoch", "scope": b"s" * 16, "epoch": 0, "owner": b"o" * 16, "wrapped": b"w" * 106}
    return KeyRow(**(fields | changes))


OTHERS = [
    {"purpose": "tenant"},
    {"scope": b"t" * 16},
    {"epoch": 1},
]


def test_a_key_comes_back_as_it_was_put(keys, open_keys):
    """K3"""
    assert keys.get("epoch", b"s" * 16, 0, b"o" * 16) is None
    assert keys.put([key()])
    assert keys.get("epoch", b"s" * 16, 0, b"o" * 16) == key()
    assert open_keys().get("epoch", b"s" * 16, 0, b"o" * 16) == key()


@pytest.mark.parametrize("changes", [*OTHERS, {"owner": b"p" * 16}, {"owner": b""}])
def test_a_key_is_found_by_its_place_and_owner_only(keys, changes):
    """Invariant 16"""
    keys.put([key()])
    asked = key(**changes)
    assert keys.get(asked.purpose, asked.scope, asked.epoch, asked.owner) is None


@pytest.mark.parametrize("changes", [{}, {"wrapped": b"other"}, {"owner": b"p" * 16}])
def test_a_place_takes_one_key_for_good(keys, changes):
    """Invariant 14: nobody replaces a key, whoever says to be its owner"""
    keys.put([key()])
    assert keys.put([key(**changes)]) is False
    assert list(keys.rows()) == [key()]


def test_keys_that_belong_together_are_stored_together_or_not_at_all(keys):
    """K3"""
    pair = [key(purpose="tenant", owner=b""), key(purpose="index", owner=b"")]
    keys.put(pair[1:])
    assert keys.put(pair) is False
    assert list(keys.rows()) == pair[1:]
    assert keys.put([key(**changes) for changes in OTHERS])
    assert len(list(keys.rows())) == 4


def test_every_key_can_be_listed(keys):
    """K3"""
    made = [key(**changes) for changes in [{}, *OTHERS]]
    assert keys.put(made)
    listed = list(keys.rows())
    assert sorted(listed, key=repr) == sorted(made, key=repr)
    assert "www" not in repr(listed)


def test_of_many_that_put_the_same_place_one_wins(keys, open_keys):
    """K3: two processes make one tenant at once"""
    stores, won = [keys, open_keys(), open_keys()], []

    def put(number):
        row = key(wrapped=bytes([number]))
        won.extend([row] * stores[number % 3].put([row]))

    threads = [threading.Thread(target=put, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert list(keys.rows()) == won
