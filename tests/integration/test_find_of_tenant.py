"""A tenant's sessions as a page, for those whose role sees them: masked, recorded, the trail not among them.

O3, S2, R1.
"""

import itertools

import pytest

from vault import Principal, Vault
from vault.errors import InvalidInput, NotFound

OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
MAIL = "anna.lindqvist@example.com"
LEVELS = {"support": "L1", "auditor": "L0", "privacy_officer": "L2"}
NAMES = ("alice", "bob", "carol")


def who(role, subject="sam", tenant="acme"):
    return Principal(tenant=tenant, subject=subject, roles=frozenset({role}))


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened:
        yield opened


@pytest.fixture
def made(vault, clock):
    """Ids of sessions of three owners and of another tenant, the one used last first."""
    ids = {}
    for number, (tenant, name) in enumerate(
        [*itertools.product(["acme"], NAMES), ("globex", "alice"), *itertools.product(["acme"], NAMES)]
    ):
        clock.now += 1_000_000 * 60 * 50
        session = vault.access(Principal(tenant=tenant, subject=name)).sessions.create(
            title=f"write to {MAIL}", labels={"n": str(number)}
        )
        session.append("message.user", {"content": f"write to {MAIL}"})
        ids.setdefault((tenant, name), []).insert(0, session.id)
        ids.setdefault(tenant, []).insert(0, session.id)
    return ids


def pages(sessions, **filters):
    cursor, found = None, []
    while True:
        page = sessions.find(cursor=cursor, **filters)
        found.append([item.id for item in page.items])
        cursor = page.next_cursor
        if cursor is None:
            return found


def ids(sessions, **filters):
    return list(itertools.chain.from_iterable(pages(sessions, **filters)))


@pytest.mark.parametrize("role", LEVELS)
def test_a_role_that_sees_the_tenants_sessions_finds_them_last_used_first(vault, made, role):
    """O3, S2: of all owners, and of no other tenant"""
    sessions = vault.access(who(role)).sessions
    assert ids(sessions) == made["acme"]
    for limit in (1, 2, 4, 500):
        found = pages(sessions, limit=limit)
        assert list(itertools.chain.from_iterable(found)) == made["acme"]
        assert all(len(page) == limit for page in found[:-1])


@pytest.mark.parametrize("role", LEVELS)
def test_each_session_is_listed_as_the_role_sees_it(vault, made, role):
    """R1"""
    for item in vault.access(who(role)).sessions.find().items:
        shown = f"{item.title} {item.first_message} {item.last_message}"
        assert MAIL not in shown
        assert ("[EMAIL]" in shown) == (role == "support")
        assert ("EMAIL_" in shown) == (role == "privacy_officer")
        assert item.event_count == 1
        assert not {"alice", "bob", "carol"} & set(shown.split())


@pytest.mark.parametrize("role", LEVELS)
def test_one_subjects_sessions_are_found_by_name(vault, made, role):
    """O3, S2"""
    sessions = vault.access(who(role)).sessions
    for name in NAMES:
        assert ids(sessions, subject=name, limit=1) == made["acme", name]
    assert ids(sessions, subject="nobody") == []


@pytest.mark.parametrize("role", LEVELS)
def test_a_page_of_others_sessions_is_recorded_once(vault, made, role):
    """K4: before it is shown"""
    sessions = vault.access(who(role)).sessions
    sessions.find(limit=2)
    sessions.find(subject="alice")
    entries = list(vault.access(OFFICER).audit.entries(who="sam"))
    told = [(e.what, e.session_id, e.said["action"], e.said["level"], e.said["roles"]) for e in entries]
    assert told == [("access.used", None, "list", LEVELS[role], [role])] * 2


def test_no_page_is_shown_when_the_trail_cannot_be_written(vault, made, monkeypatch):
    """K4"""

    def refused(*_, **__):
        raise OSError

    monkeypatch.setattr(type(vault._trail), "write", refused)
    with pytest.raises(OSError):  # noqa: PT011
        vault.access(who("support")).sessions.find()


@pytest.mark.parametrize("role", LEVELS)
def test_the_audit_trail_is_never_listed(vault, made, role):
    """O3, K4: it is used by each page, so it would be the first"""
    sessions = vault.access(who(role)).sessions
    for _ in range(3):
        listed = ids(sessions, limit=3)
    (trail,) = vault._trail._kept.values()
    assert trail.id not in listed
    assert listed == made["acme"]
    for name in ("audit-trail", "trail", ""):
        if name:
            assert ids(sessions, subject=name) == []


@pytest.mark.parametrize("role", ["agent", "owner"])
def test_who_has_sessions_of_its_own_lists_these_and_no_others(vault, made, role):
    """O1"""
    sessions = vault.access(who(role, "alice")).sessions
    assert ids(sessions) == made["acme", "alice"]
    assert ids(sessions, subject="alice") == made["acme", "alice"]
    assert ids(sessions, subject="bob") == ids(sessions, subject="nobody") == []
    assert ids(vault.access(who(role, "sam")).sessions) == []


def test_an_administrator_lists_no_session(vault, made):
    """O3: administers without reading content"""
    sessions = vault.access(who("administrator")).sessions
    assert ids(sessions) == ids(sessions, subject="alice") == []


def test_with_roles_of_both_kinds_one_lists_ones_own_and_anothers_by_name(vault, made):
    """O3"""
    both = Principal(tenant="acme", subject="alice", roles=frozenset({"agent", "support"}))
    sessions = vault.access(both).sessions
    assert ids(sessions) == made["acme", "alice"]
    assert ids(sessions, subject="bob") == made["acme", "bob"]
    assert MAIL in sessions.find().items[0].title


def test_the_newest_session_to_continue_is_ones_own(vault, made):
    """S2: `latest` goes on with a session, which support does not"""
    with pytest.raises(NotFound):
        vault.access(who("support")).sessions.latest()


def test_a_list_of_the_tenant_is_narrowed_by_state_and_not_by_labels(vault, made):
    """O3: a label that is hidden is not guessed"""
    sessions = vault.access(who("support")).sessions
    vault.access(Principal(tenant="acme", subject="bob")).sessions.resume(made["acme", "bob"][0]).end()
    assert ids(sessions, state="ended") == made["acme", "bob"][:1]
    assert len(ids(sessions, state="active", limit=2)) == 5
    for subject in (None, "alice"):
        with pytest.raises(InvalidInput, match="labels narrow a list of one's own"):
            sessions.find(labels={"n": "1"}, subject=subject)


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": True}, {"cursor": "x"}, {"subject": "x" * 257}])
def test_a_page_that_cannot_be_is_refused(vault, made, wrong):
    """A1"""
    with pytest.raises(InvalidInput):
        vault.access(who("support")).sessions.find(**wrong)


def test_what_was_shared_with_support_by_name_is_listed_as_it_was_shared(vault, made):
    """O2: the most that one is given counts"""
    alice = vault.access(who("owner", "alice"))
    alice.grants.give(made["acme", "alice"][0], "sam", level="L3")
    both = Principal(tenant="acme", subject="sam", roles=frozenset({"agent", "support"}))
    (newest, other) = vault.access(both).sessions.find(subject="alice").items
    assert MAIL in newest.title
    assert MAIL not in other.title
