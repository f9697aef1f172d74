"""A derived item's key hangs under its sources' keys and goes with them by construction: D2, D5, O1, K3."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.back_ends import KEYS
from vault.errors import Conflict, Erased, InvalidInput, KeyUnavailable, LimitExceeded, Tampered
from vault.ports.keys import Doomed
from vault.sealing import hanging
from vault.sealing.keys import KeyHierarchy

VAULT, ROOT = b"v" * 16, bytes(range(32))
OWNER, ITEM = b"o" * 16, b"i" * 16
HUNG = ["any", "last", "free"]
keys_of_sources = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=6, unique=True)


@pytest.fixture
def store(tmp_path):
    made = KEYS["sqlite"](tmp_path)
    KeyHierarchy(VAULT, ROOT, made).create(bytes(32))
    yield made
    made._database.close()


@pytest.fixture
def fresh(store):
    """The keys as a process that has just started sees them: nothing in memory."""
    return lambda: KeyHierarchy(VAULT, ROOT, store)


@pytest.fixture
def keys(fresh):
    return fresh()


@pytest.fixture
def tenant(keys):
    return keys.tenant("acme", create=True)


def sources(count):
    return [os.urandom(32) for _ in range(count)]


# --------------------------------------------------------------------------------------- the keys


@given(keys=keys_of_sources, data=st.data())
def test_the_parent_of_an_any_item_takes_every_key_in_its_order(keys, data):
    [parent] = hanging.parents("any", keys)
    assert parent not in keys
    at = data.draw(st.integers(0, len(keys) - 1))
    assert hanging.parents("any", [*keys[:at], None, *keys[at + 1 :]]) == [None]
    flipped = bytes(byte ^ 1 for byte in keys[at])
    others = [[*keys[:at], flipped, *keys[at + 1 :]], [*keys, keys[0]], [*keys, bytes(32)]]
    others += [keys[::-1], keys[:-1]] if len(keys) > 1 else []
    assert [parent] not in [hanging.parents("any", other) for other in others]


@given(keys=keys_of_sources, data=st.data())
def test_a_last_item_has_a_parent_for_each_source_that_is_left(keys, data):
    gone = data.draw(st.sets(st.integers(0, len(keys) - 1)))
    left = hanging.parents("last", [None if at in gone else key for at, key in enumerate(keys)])
    assert [at for at, parent in enumerate(left) if parent is None] == sorted(gone)
    assert len({parent for parent in left if parent}) == len(keys) - len(gone)
    assert not set(left) & {*keys, *hanging.parents("any", keys[:1])}


@pytest.mark.parametrize("hung", HUNG)
@given(
    tenant=st.binary(min_size=32, max_size=32),
    key=st.binary(min_size=32, max_size=32),
    source=keys_of_sources,
)
@settings(max_examples=20)
def test_a_hanging_key_opens_under_its_tenant_parent_and_places_only(hung, tenant, key, source):
    parent = hanging.parents(hung, source)[0]
    wrapped = hanging.hang(tenant, parent, key, b"outer", b"inner")
    assert hanging.unhang(tenant, parent, wrapped, b"outer", b"inner") == key
    wrong = [
        (bytes(byte ^ 1 for byte in tenant), parent, b"outer", b"inner"),
        (tenant, bytes(byte ^ 1 for byte in parent or key), b"outer", b"inner"),
        (tenant, parent, b"inner", b"inner"),
    ]
    if parent:
        wrong += [(tenant, parent, b"outer", b"outer"), (tenant, b"", b"outer", b"inner")]
    for places in wrong:
        with pytest.raises(Tampered):
            hanging.unhang(places[0], places[1], wrapped, *places[2:])
    for at in range(0, len(wrapped), 7):
        changed = wrapped[:at] + bytes([wrapped[at] ^ 1]) + wrapped[at + 1 :]
        with pytest.raises(Tampered):
            hanging.unhang(tenant, parent, changed, b"outer", b"inner")


# ---------------------------------------------------------------------------------------- items


@pytest.mark.parametrize("hung", HUNG)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_item_opens_with_its_sources(hung, count, keys, fresh, tenant):
    given = sources(count)
    made = keys.create_item(tenant, OWNER, ITEM, hung, given)
    assert keys.item(tenant, OWNER, ITEM, hung, given) is made
    assert fresh().item(tenant, OWNER, ITEM, hung, given) == made
    assert len({made.payload, made.mac, made.content, made.wrapping, *given}) == 4 + count


def test_an_any_item_is_gone_with_any_source(keys, fresh, tenant):
    """Invariant 14"""
    given = sources(3)
    keys.create_item(tenant, OWNER, ITEM, "any", given)
    for at in range(3):
        left = [*given[:at], None, *given[at + 1 :]]
        for opened in (keys, fresh()):  # also where it is in memory
            with pytest.raises(KeyUnavailable):
                opened.item(tenant, OWNER, ITEM, "any", left)
        with pytest.raises(Tampered):
            fresh().item(tenant, OWNER, ITEM, "any", [*given[:at], os.urandom(32), *given[at + 1 :]])
        with pytest.raises(Tampered):
            fresh().item(tenant, OWNER, ITEM, "any", [*given[:at], *given[at + 1 :]])


def test_a_last_item_stays_until_the_last_source_is_gone(keys, fresh, tenant):
    """Invariant 14"""
    given = sources(3)
    made = keys.create_item(tenant, OWNER, ITEM, "last", given)
    for at in range(3):
        left = [None] * 3
        left[at] = given[at]
        assert fresh().item(tenant, OWNER, ITEM, "last", left) == made
    for opened in (keys, fresh()):
        with pytest.raises(KeyUnavailable):
            opened.item(tenant, OWNER, ITEM, "last", [None] * 3)
    with pytest.raises(Tampered):
        fresh().item(tenant, OWNER, ITEM, "last", [given[1], given[0], None])


def test_a_last_item_whose_rows_are_destroyed_one_by_one_ends_with_the_last(keys, fresh, tenant, store):
    given = sources(2)
    made = keys.create_item(tenant, OWNER, ITEM, "last", given)
    store.condemn(b"1" * 16, tenant.tenant_id, [Doomed("item", ITEM, 0, frozenset())], 1)
    store.destroy(b"1" * 16)
    assert fresh().item(tenant, OWNER, ITEM, "last", given) == made
    store.condemn(b"2" * 16, tenant.tenant_id, [Doomed("item", ITEM, 1, frozenset())], 1)
    with pytest.raises(Erased):
        fresh().item(tenant, OWNER, ITEM, "last", given)


def test_a_free_item_needs_no_source(keys, fresh, tenant):
    made = keys.create_item(tenant, OWNER, ITEM, "free", [])
    assert fresh().item(tenant, OWNER, ITEM, "free", []) == made
    assert fresh().item(tenant, OWNER, ITEM, "free", [None]) == made


def test_an_item_opens_as_it_hangs_and_for_its_owner_and_tenant_only(keys, fresh, tenant):
    """O1, invariant 16"""
    given = sources(1)
    other = keys.tenant("other", create=True)
    for hung in HUNG:
        item = hung.encode().ljust(16)
        keys.create_item(tenant, OWNER, item, hung, given)
        for another in set(HUNG) - {hung}:
            with pytest.raises(Tampered):
                fresh().item(tenant, OWNER, item, another, given)
        with pytest.raises(KeyUnavailable):
            fresh().item(tenant, b"p" * 16, item, hung, given)
        with pytest.raises(Tampered):
            fresh().item(other, OWNER, item, hung, given)
        with pytest.raises(KeyUnavailable):
            fresh().item(tenant, OWNER, ITEM, hung, given)


def test_an_items_contexts_name_the_item_and_are_no_sessions(keys, tenant):
    made = keys.create_item(tenant, OWNER, ITEM, "free", [])
    session = keys.create_epoch(tenant, OWNER, ITEM, 0)
    noted = keys.operation_keys(tenant)
    contexts = [
        one.context(kind) for one in (made, session, noted) for kind in (b"payload", b"meta", b"about")
    ]
    assert len(set(contexts)) == 9
    assert all(ITEM in context for context in contexts[:6])


def test_an_items_key_is_made_once(keys, tenant):
    keys.create_item(tenant, OWNER, ITEM, "last", sources(2))
    for hung, count in (("last", 2), ("last", 3), ("any", 2), ("free", 0)):
        with pytest.raises(Conflict):
            keys.create_item(tenant, OWNER, ITEM, hung, sources(count))


def test_an_erased_item_is_gone_and_never_made_again(keys, fresh, tenant, store):
    """D5, D6"""
    given = sources(2)
    keys.create_item(tenant, OWNER, ITEM, "any", given)
    store.condemn(b"1" * 16, tenant.tenant_id, [Doomed("item", ITEM, None, frozenset())], 1)
    keys.forget_scope(ITEM)
    for opened in (keys, fresh()):
        with pytest.raises(Erased):
            opened.item(tenant, OWNER, ITEM, "any", given)
        with pytest.raises(Erased):
            opened.create_item(tenant, OWNER, ITEM, "any", given)


@pytest.mark.parametrize(
    ("hung", "given", "error"),
    [
        ("all", [bytes(32)], InvalidInput),
        ("any", [], InvalidInput),
        ("last", [], InvalidInput),
        ("any", [bytes(31)], InvalidInput),
        ("last", [bytes(32), b""], InvalidInput),
        ("any", [bytes(32)] * 257, LimitExceeded),
        ("any", [bytes(32), None], KeyUnavailable),
    ],
    ids=str,
)
def test_what_cannot_hang_is_refused(hung, given, error, keys, tenant, store):
    before = list(store.rows())
    with pytest.raises(error):
        keys.create_item(tenant, OWNER, ITEM, hung, given)
    assert list(store.rows()) == before


def test_an_item_has_as_many_sources_as_the_limit_says(keys, fresh, tenant, store):
    """Invariant 12"""
    given = sources(hanging.SOURCES_MAX)
    for hung in ("any", "last"):
        made = keys.create_item(tenant, OWNER, hung.encode().ljust(16), hung, given)
        assert fresh().item(tenant, OWNER, hung.encode().ljust(16), hung, given) == made
    assert len([row for row in store.rows() if row.purpose == "item"]) == hanging.SOURCES_MAX + 1


# ------------------------------------------------------------------------------- epochs that end


def test_an_erased_epoch_says_so_and_a_missing_one_is_missing(keys, fresh, tenant, store):
    """D5"""
    session = b"s" * 16
    keys.create_epoch(tenant, OWNER, session, 0)
    store.condemn(b"1" * 16, tenant.tenant_id, [Doomed("epoch", session, None, frozenset())], 1)
    for _ in range(2):
        with pytest.raises(Erased):
            fresh().epoch(tenant, OWNER, session, 0)
        with pytest.raises(Erased):
            fresh().create_epoch(tenant, OWNER, session, 1)
        assert not fresh().has_epoch(OWNER, session, 0)
        store.destroy(b"1" * 16)
    with pytest.raises(KeyUnavailable, match="holds no key for this session"):
        keys.epoch(tenant, OWNER, b"x" * 16, 0)


def test_what_was_dropped_from_memory_is_not_served_from_it(keys, tenant, store):
    """D5"""
    for session in (b"s" * 16, b"r" * 16):
        keys.create_epoch(tenant, OWNER, session, 0)
    store.condemn(b"1" * 16, tenant.tenant_id, [Doomed("epoch", b"s" * 16, None, frozenset())], 1)
    kept = keys.epoch(tenant, OWNER, b"r" * 16, 0)
    keys.forget_scope(b"s" * 16)
    assert keys.epoch(tenant, OWNER, b"r" * 16, 0) is kept
    with pytest.raises(Erased):
        keys.epoch(tenant, OWNER, b"s" * 16, 0)


def test_what_is_dropped_while_it_is_opened_does_not_stay_in_memory(keys, tenant, store):
    """D5: a reader that was under way when the key was condemned"""
    session = b"s" * 16
    keys.create_epoch(tenant, OWNER, session, 0)
    keys.forget_scope(session)

    class Slow:
        """The store, in which the session is condemned behind the back of who has just read its key."""

        def get(self, *place):
            found = store.get(*place)
            store.condemn(b"1" * 16, tenant.tenant_id, [Doomed("epoch", session, None, frozenset())], 1)
            keys.kept.refresh()  # another thread, which looks meanwhile
            return found

    keys._store = Slow()
    keys.epoch(tenant, OWNER, session, 0)
    keys._store = store
    with pytest.raises(Erased):
        keys.epoch(tenant, OWNER, session, 0)


def test_an_epoch_that_two_make_is_one_key(keys, fresh, tenant):
    """K3: what is sealed under the loser's key could never be read"""
    made = keys.create_epoch(tenant, OWNER, b"s" * 16, 1)
    assert fresh().create_epoch(tenant, OWNER, b"s" * 16, 1) == made


def test_an_erased_tenant_gets_no_keys_again(keys, fresh, tenant, store):
    """D6"""
    doomed = [Doomed(purpose, tenant.tenant_id, None, frozenset()) for purpose in ("tenant", "index")]
    store.condemn(b"1" * 16, tenant.tenant_id, doomed, 1)
    assert fresh().tenant("acme", create=False) is None
    with pytest.raises(Erased):
        fresh().tenant("acme", create=True)
    with pytest.raises(Erased):
        keys.create_epoch(tenant, OWNER, b"s" * 16, 0)


def test_the_keys_of_operations_are_the_tenants_and_stay(keys, fresh, tenant):
    noted = keys.operation_keys(tenant)
    assert fresh().operation_keys(fresh().tenant("acme", create=False)) == noted
    other = keys.operation_keys(keys.tenant("other", create=True))
    assert not {noted.payload, noted.mac} & {other.payload, other.mac, tenant.wrapping, tenant.index}
