"""Administering without content: who is registered, which tenants there are, how much they hold.

O3, O4, K4.
"""

import itertools
import json

import pytest

from vault import Principal, Vault
from vault.audit.administration import Admin
from vault.errors import Conflict, InvalidInput, NotFound
from vault.model import format_id, uuid7
from vault.policy.access import ROLES

ROOT = Principal(tenant="acme", subject="root", roles=frozenset({"administrator"}))
PIA = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
DAN = Principal(tenant="acme", subject="dan", roles=frozenset({"auditor"}))
ALICE = Principal(tenant="acme", subject="alice")
NO_SESSION = "there is no such session"


@pytest.fixture
def vault(place):
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as opened:
        yield opened


@pytest.fixture
def admin(vault):
    vault._keys.tenant("acme", create=True)  # as the first session, or the first entry of the directory does
    return vault.access(ROOT).admin


def listed(vault, who=ROOT):
    return {one.subject: (one.roles, one.teams) for one in vault.access(who).admin.principals()}


# ------------------------------------------------------------------------------------------ the directory


def test_who_is_registered_has_the_newest_roles_and_teams(vault, admin):
    """O3"""
    assert admin.principals() == []
    admin.add_principal("root", roles=["administrator"])
    admin.add_principal("sam", roles=["support", "support"], teams=["desk"])
    admin.add_principal("dan", roles=["auditor"])
    admin.add_principal("sam", roles={"support", "agent"})
    admin.remove_principal("dan")
    assert listed(vault) == {
        "root": (frozenset({"administrator"}), frozenset()),
        "sam": (frozenset({"agent", "support"}), frozenset()),
    }
    admin.add_principal("dan", roles=["auditor"], teams=["north", "south"])
    assert listed(vault)["dan"] == (frozenset({"auditor"}), frozenset({"north", "south"}))


def test_the_directory_holds_in_another_process_and_after_opening_again(vault, admin, place):
    """O3, L2"""
    admin.add_principal("root", roles=["administrator"])
    vault.close()
    with Vault.open(place) as again:
        assert listed(again) == {"root": (frozenset({"administrator"}), frozenset())}


def test_a_privacy_officer_reads_the_directory_and_does_not_write_it(vault, admin):
    """O3"""
    admin.add_principal("root", roles=["administrator"])
    officer = vault.access(PIA).admin
    assert [one.subject for one in officer.principals()] == ["root"]
    assert officer.tenant().name == "acme"
    for call in (
        lambda: officer.add_principal("pia", roles=["administrator"]),
        lambda: officer.remove_principal("root"),
        lambda: officer.add_tenant("globex"),
    ):
        with pytest.raises(NotFound, match=NO_SESSION):
            call()


def test_names_stand_sealed_in_the_trail_and_a_look_at_it_shows_none(vault, admin, place):
    """K1, R5: people stand there as blind indexes"""
    admin.add_principal("root", roles=["administrator"], teams=["zorblaxians"])
    admin.add_principal("quuxberg", roles=["support"])
    given = admin.remove_principal("quuxberg")
    admin.add_tenant("hypergalactic")
    for who in (DAN, PIA):
        entries = list(vault.access(who).audit.entries())
        assert {e.what for e in entries} >= {"principal.added", "principal.removed", "tenant.added"}
        shown = json.dumps([(e.who, e.said) for e in [*entries, given]])
        assert not any(name in shown for name in ("root", "zorblaxians", "quuxberg", "hypergalactic"))
    (entry,) = (e for e in vault.access(DAN).audit.entries(types=["principal.removed"]))
    index = vault._keys.tenant("acme", create=False).owner("quuxberg")
    assert (entry.said["of"], entry.session_id) == (index.hex(), None)
    vault.close()
    stored = b"".join(file.read_bytes() for file in place.rglob("*") if file.is_file())
    assert not any(name in stored for name in (b"zorblaxians", b"quuxberg", b"hypergalactic"))


def test_each_use_of_the_directory_is_in_the_trail(vault, admin):
    """K4"""
    admin.add_principal("root", roles=["administrator"])
    admin.principals()
    admin.tenants()
    used = [e.said["action"] for e in vault.access(DAN).audit.entries(who="root", types=["access.used"])]
    assert used == ["directory", "directory", "manage"]


def test_a_directory_is_never_without_an_administrator(vault, admin):
    """O3: else nobody could change it any more"""
    for call in (
        lambda: admin.add_principal("sam", roles=["support"]),
        lambda: admin.add_principal("root", roles=["auditor"]),
    ):
        with pytest.raises(Conflict, match="register one first"):
            call()
    assert listed(vault) == {}
    admin.add_principal("root", roles=["administrator"])
    for call in (
        lambda: admin.add_principal("root", roles=["auditor"]),
        lambda: admin.remove_principal("root"),
    ):
        with pytest.raises(Conflict, match="register one first"):
            call()
    admin.add_principal("eve", roles=["administrator", "agent"])
    admin.remove_principal("root")
    assert listed(vault).keys() == {"eve"}


def test_only_who_is_registered_is_removed(admin):
    """O3"""
    admin.add_principal("root", roles=["administrator"])
    with pytest.raises(NotFound, match="nobody of this name"):
        admin.remove_principal("sam")
    admin.add_principal("sam", roles=["agent"])
    admin.remove_principal("sam")
    with pytest.raises(NotFound, match="nobody of this name"):
        admin.remove_principal("sam")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"roles": []}, id="no-role"),
        pytest.param({"roles": "agent"}, id="a-string-for-a-list"),
        pytest.param({"roles": ["Agent"]}, id="another-spelling"),
        pytest.param({"roles": ["agent", "king"]}, id="one-of-two"),
        pytest.param({"roles": None}, id="nothing"),
        pytest.param({"teams": "desk"}, id="a-string-for-teams"),
        pytest.param({"teams": [""]}, id="a-team-without-a-name"),
        pytest.param({"subject": ""}, id="nobody"),
        pytest.param({"subject": "x" * 257}, id="too-long"),
        pytest.param({"subject": None}, id="no-string"),
    ],
)
def test_an_entry_that_says_nothing_clear_is_refused(vault, admin, wrong):
    """A1"""
    given = {"subject": "root", "roles": ["administrator"], "teams": (), **wrong}
    with pytest.raises(InvalidInput):
        admin.add_principal(given.pop("subject"), **given)
    assert listed(vault) == {}


def test_what_the_directory_says_of_oneself_needs_no_leave_and_is_no_leave(vault, admin):
    """O3: an application asks it to make a principal"""

    def myself(subject, tenant="acme"):
        nobody = Principal(tenant=tenant, subject=subject, roles=frozenset())
        return vault.access(nobody).admin.myself()

    assert myself("sam") is None
    assert myself("sam", "initech") is None
    admin.add_principal("root", roles=["administrator"])
    admin.add_principal("sam", roles=["support"], teams=["desk"])
    sam = myself("sam")
    assert (sam.subject, sam.roles, sam.teams) == ("sam", {"support"}, {"desk"})
    assert myself("mallory").roles == {"agent", "owner"}
    admin.remove_principal("sam")
    assert myself("sam").roles == frozenset()
    assert vault._keys.tenant("initech", create=False) is None


# --------------------------------------------------------------------------------------------- the tenants


def test_counts_tell_how_much_there_is_and_leave_the_trail_out(vault, admin):
    """O3: numbers without content"""
    empty = admin.tenant()
    assert (empty.name, empty.sessions, empty.events, empty.bytes, empty.added_at) == ("acme", 0, 0, 0, None)
    sessions = vault.access(ALICE).sessions
    session = sessions.create()
    stored = [session.append("a.b", "x" * size) for size in (10, 5_000, 200_000)]
    stored.append(sessions.fork(session.id).append("a.b", 1))
    now = admin.tenant("acme")
    assert (now.sessions, now.events) == (2, 4)
    assert now.bytes == sum(event.size for event in stored)
    session.append("a.b", "x" * 5_000)  # a repeat is stored once
    assert admin.tenant().bytes == now.bytes
    assert [one.sessions for one in admin.tenants()] == [2]


def test_a_tenant_that_was_added_begins_with_its_administrator(vault, admin):
    """O3, O4"""
    entry = admin.add_tenant("globex", administrator="greta")
    assert entry.what == "tenant.added"
    greta = Principal(tenant="globex", subject="greta", roles=frozenset({"administrator"}))
    assert listed(vault, greta) == {"greta": (frozenset({"administrator"}), frozenset())}
    session = vault.access(Principal(tenant="globex", subject="gil")).sessions.create()
    session.append("a.b", 1)
    own, added = admin.tenants()
    assert (own.name, own.sessions, own.added_at) == ("acme", 0, None)
    assert (added.name, added.sessions, added.events, added.added_at) == ("globex", 1, 1, entry.at)
    assert admin.tenant("globex") == added
    assert [one.name for one in vault.access(greta).admin.tenants()] == ["globex"]


def test_an_administrator_knows_no_tenant_that_was_not_added_from_its_own(vault, admin):
    """O4: one that is there answers as one that is not"""
    vault.access(Principal(tenant="globex", subject="gil")).sessions.create()
    for name in ("globex", "initech", "", "x" * 300):
        with pytest.raises(NotFound, match=r"^there is no such tenant$"):
            admin.tenant(name)
    assert [one.name for one in admin.tenants()] == ["acme"]
    with pytest.raises(Conflict, match="there is a tenant of this name"):
        admin.add_tenant("globex")
    with pytest.raises(NotFound):
        admin.tenant("globex")


def test_a_tenant_is_added_once(vault, admin):
    """O4"""
    admin.add_tenant("globex")
    for name in ("globex", "acme"):
        with pytest.raises(Conflict):
            admin.add_tenant(name)
    for wrong in ("", "x" * 257, None):
        with pytest.raises(InvalidInput):
            admin.add_tenant(wrong)
    with pytest.raises(InvalidInput):
        admin.add_tenant("hooli", administrator="")
    assert [one.name for one in admin.tenants()] == ["acme", "globex"]


# -------------------------------------------------------------------------------------- an administrator


def test_an_administrator_reads_no_content(vault, admin):
    """O3: every session of the tenant is absent for it, its trail too"""
    session = vault.access(ALICE).sessions.create(title="a title")
    session.append("message.user", {"content": "content"})
    access = vault.access(ROOT)
    assert access.sessions.find().items == ()
    assert access.sessions.find(subject="alice").items == ()
    calls = (
        access.sessions.resume,
        access.sessions.wake,
        access.sessions.fork,
        lambda one: access.grants.give(one, "root", level="L3"),
        access.grants.of,
        lambda one: access.break_glass.request(one, "a reason"),
        lambda one: list(access.audit.entries(session_id=one)),
        lambda one: access.audit.reveal(one, "NAME_1", "a reason"),
    )
    for call, one in itertools.product(calls, (session.id, format_id("ses", uuid7()))):
        with pytest.raises(NotFound, match=NO_SESSION):
            call(one)


CALLS = {
    "add-principal": ("manage", lambda admin: admin.add_principal("zoe", roles=["administrator"])),
    "remove-principal": ("manage", lambda admin: admin.remove_principal("nobody")),
    "add-tenant": ("manage", lambda admin: admin.add_tenant(f"tenant-{uuid7().hex()}")),
    "principals": ("directory", lambda admin: admin.principals()),
    "tenants": ("directory", lambda admin: admin.tenants()),
    "tenant": ("directory", lambda admin: admin.tenant()),
}
MAY = {"administrator": {"manage", "directory"}, "privacy_officer": {"directory"}}


@pytest.mark.parametrize("role", [*ROLES, "nobody"])
def test_every_use_case_of_an_administrator_follows_the_table(vault, role):
    """O3: what is denied answers, in a tenant that is there, as in one that is not"""
    vault.access(ROOT).admin.add_principal("root", roles=["administrator"])  # which makes the tenant known
    for (name, (action, call)), tenant in itertools.product(CALLS.items(), ("acme", "initech")):
        admin = vault.access(Principal(tenant=tenant, subject="eve", roles=frozenset({role}))).admin
        before = len(list(vault.access(DAN).audit.entries()))
        if action in MAY.get(role, set()) and (tenant == "acme" or action == "manage"):
            if name == "remove-principal":
                with pytest.raises(NotFound, match="nobody of this name"):
                    call(admin)
            else:
                assert call(admin)
            continue
        if action in MAY.get(role, set()) and vault._keys.tenant(tenant, create=False):
            continue  # it was made known by the administrator just before
        with pytest.raises(NotFound, match=f"^{NO_SESSION}$"):
            call(admin)
        assert len(list(vault.access(DAN).audit.entries())) == before + 1, name  # the look before


def test_every_public_use_case_of_an_administrator_is_asked_here():
    """O3"""
    asked = {name for _, call in CALLS.values() for name in call.__code__.co_names}
    public = {name for name, value in vars(Admin).items() if callable(value) and name[0] != "_"}
    assert public <= asked | {"myself"}
