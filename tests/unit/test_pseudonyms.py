"""Pseudonyms join what is about one value in a tenant, and nothing across tenants, purposes and epochs."""

import base64
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault import Principal, Vault
from vault.audit.trail import REVEALED, AuditTrail
from vault.errors import InvalidInput, NotFound
from vault.redaction.kinds import SEVERITY
from vault.redaction.pseudonyms import Pseudonyms, canonical

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
KINDS = st.sampled_from(sorted(SEVERITY))
VALUES = st.text(max_size=40)
MAIL = "mei.chen@example.org"
REASON = "a customer asked who this is"


def who(subject, *roles, tenant="acme"):
    return Principal(tenant=tenant, subject=subject, roles=frozenset(roles))


ALICE, OFFICER = who("alice", "owner", "agent"), who("olga", "privacy_officer")


def talk(access):
    """A session whose record names somebody, and whose message does so again."""
    session = access.sessions.create()
    session.append("tool.returned", {"customer": {"first_name": "Mei", "last_name": "Chen", "email": MAIL}})
    session.append("message.user", {"content": f"write to {MAIL}"})
    return session


def shown(access, session):
    """The pseudonym in the message, as a reader of L2 sees it."""
    (event,) = access.sessions.resume(session.id).events(types=["message.user"])
    return event.payload["content"].removeprefix("write to ")


@pytest.fixture
def vault(place):
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as opened:
        yield opened


@pytest.fixture
def session(vault):
    return talk(vault.access(ALICE))


@pytest.fixture
def officer(vault):
    return vault.access(OFFICER)


# --------------------------------------------------------------------------------------------- the function


@given(KINDS, VALUES)
def test_the_same_value_has_the_same_pseudonym(kind, value):
    """R3"""
    assert Pseudonyms(KEY).of(kind, value) == Pseudonyms(bytes(KEY)).of(kind, value)


@given(KINDS, VALUES)
def test_another_key_gives_another_pseudonym(kind, value):
    """R3"""
    assert Pseudonyms(KEY).of(kind, value) != Pseudonyms(OTHER).of(kind, value)


@given(KINDS, KINDS, VALUES, VALUES)
def test_two_values_meet_only_where_their_canonical_forms_do(kind, other, value, second):
    """R3"""
    names = Pseudonyms(KEY)
    alike = (kind, canonical(kind, value)) == (other, canonical(other, second))
    assert (names.of(kind, value) == names.of(other, second)) == alike


@given(KINDS, VALUES)
def test_a_pseudonym_is_its_kind_and_eighty_bits(kind, value):
    """R3"""
    label, _, code = Pseudonyms(KEY).of(kind, value).rpartition("_")
    assert label == kind
    assert set(code) <= set(string.ascii_uppercase + "234567")
    assert len(base64.b32decode(code)) * 8 >= 80


def test_every_bit_of_a_pseudonym_depends_on_the_value():
    """R3: a part that never changes would be none of the 80 bits"""
    codes = [
        int.from_bytes(base64.b32decode(Pseudonyms(KEY).of("NAME", f"n{number}").rpartition("_")[2]))
        for number in range(200)
    ]
    for bit in range(80):
        ones = sum(code >> bit & 1 for code in codes)
        assert 40 < ones < 160, bit


@given(KINDS, st.text("abcdefgh", min_size=4, max_size=30))
def test_nothing_of_the_value_stands_in_its_pseudonym(kind, value):
    """R3: 16 letters could hold four of it by chance, but not the whole of it"""
    assert value not in Pseudonyms(KEY).of(kind, value).rpartition("_")[2].lower()


@pytest.mark.parametrize(
    ("kind", "forms"),
    [
        pytest.param("EMAIL", ["Mei.Chen@Example.org", MAIL, f"<{MAIL}>", f" {MAIL}. "], id="email"),
        pytest.param("NAME", ["Mei  Chen", "mei chen", "MEI CHEN", "\uff2d\uff45\uff49 Chen"], id="name"),
        pytest.param("CARD", ["4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111"], id="card"),
        pytest.param("IBAN", ["DE89370400440532013000", "de89 3704 0044 0532 0130 00"], id="iban"),
        pytest.param("PHONE", ["+441174960382", "+44 117 496 0382", "+44 (117) 496-0382"], id="phone"),
        pytest.param("ZIP", ["SW1A 1AA", "sw1a1aa"], id="zip"),
        pytest.param("STREET", ["12 Elm Street", "12 ELM  STREET,"], id="street"),
    ],
)
def test_all_ways_to_write_a_value_meet(kind, forms):
    """R3"""
    assert len({Pseudonyms(KEY).of(kind, form) for form in forms}) == 1


def test_a_value_has_another_pseudonym_as_another_kind():
    """R3"""
    codes = {Pseudonyms(KEY).of(kind, "4711").rpartition("_")[2] for kind in SEVERITY}
    assert len(codes) == len(SEVERITY)


def test_a_kind_and_a_value_are_not_joined_into_another_pair():
    """R3: without lengths between them, A and bc would be Ab and c."""
    names = Pseudonyms(KEY)
    assert names.of("A", "bc").rpartition("_")[2] != names.of("Ab", "c").rpartition("_")[2]


def test_a_lone_surrogate_has_a_pseudonym_too():
    """R4: a view answers for any text"""
    assert re.fullmatch("NAME_[A-Z2-7]{16}", Pseudonyms(KEY).of("NAME", "\ud800"))


@given(st.lists(st.tuples(KINDS, VALUES), max_size=6), KINDS, VALUES)
def test_reveal_gives_the_candidate_and_nothing_else(others, kind, value):
    """R3"""
    names = Pseudonyms(KEY)
    others = [pair for pair in others if names.of(*pair) != names.of(kind, value)]
    assert names.reveal(names.of(kind, value), others) is None
    assert names.reveal(names.of(kind, value), [*others, (kind, value)]) == value
    assert Pseudonyms(OTHER).reveal(names.of(kind, value), [(kind, value)]) is None


@pytest.mark.parametrize("asked", ["", "NAME", "NAME_", "caf\u00e9", "NAME_AAAAAAAAAAAAAAAA", "\ud800"])
def test_reveal_of_what_is_no_pseudonym_is_none(asked):
    """R3"""
    assert Pseudonyms(KEY).reveal(asked, [("NAME", "Mei")]) is None


# ------------------------------------------------------------------------------------------------ the keys


def test_the_key_is_another_for_each_purpose_and_epoch(vault):
    """R3"""
    tenant = vault._keys.tenant("acme", create=True)
    keys = [tenant.pseudonym_key(purpose, epoch) for purpose in ("view", "receipt") for epoch in range(3)]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {32}
    assert tenant.pseudonym_key("view", 0) == keys[0]


def test_two_tenants_have_unlike_pseudonyms_for_one_value(vault, session, officer):
    """R3"""
    other = talk(vault.access(who("bob", "owner", "agent", tenant="umbrella")))
    elsewhere = vault.access(who("olga", "privacy_officer", tenant="umbrella"))
    assert shown(officer, session).startswith("EMAIL_")
    assert shown(officer, session) != shown(elsewhere, other)


def test_two_sessions_of_a_tenant_have_one_pseudonym_for_one_value(vault, session, officer):
    """R3"""
    second = talk(vault.access(who("bob", "owner", "agent")))
    assert shown(officer, session) == shown(officer, second)


def test_a_pseudonym_is_the_same_after_the_vault_was_opened_again(vault, place, session, officer):
    """R3"""
    before = shown(officer, session)
    vault.close()
    with Vault.open(place) as again:
        assert shown(again.access(OFFICER), session) == before


def test_a_higher_epoch_gives_new_pseudonyms_and_the_old_ones_are_not_revealed(
    vault, place, session, officer
):
    """R3"""
    before = shown(officer, session)
    vault.close()
    file = place / "vault.toml"
    file.write_text(file.read_text().replace("pseudonym_epoch = 0", "pseudonym_epoch = 1"))
    with Vault.open(place) as again:
        access = again.access(OFFICER)
        after = shown(access, session)
        assert after.startswith("EMAIL_")
        assert after != before
        assert access.audit.reveal(session.id, before, REASON) is None
        assert access.audit.reveal(session.id, after, REASON) == MAIL


@pytest.mark.parametrize("epoch", [-1, True, 1.5, 2**31 + 1, "1"])
def test_an_epoch_that_is_no_whole_number_is_refused(place, epoch):
    """R3"""
    with pytest.raises(InvalidInput):
        Vault.create(place, settings={"pseudonym_epoch": epoch})


# -------------------------------------------------------------------------------------------------- reveal


def revealed(access):
    return list(access.audit.entries(types=[REVEALED]))


def test_a_privacy_officer_learns_who_is_behind_a_pseudonym(session, officer):
    """R3, O3"""
    assert officer.audit.reveal(session.id, shown(officer, session), REASON) == MAIL


def test_a_reveal_is_recorded_with_its_reason_and_by_whom(session, officer):
    """R5, O3"""
    name = shown(officer, session)
    assert revealed(officer) == []
    officer.audit.reveal(session.id, name, REASON)
    (entry,) = revealed(officer)
    assert entry.said == {"pseudonym": name, "reason": REASON}
    assert entry.session_id == session.id
    assert list(officer.audit.entries(who="olga", types=[REVEALED])) == [entry]


def test_a_reveal_that_finds_nothing_is_recorded_too(session, officer):
    """R5"""
    assert officer.audit.reveal(session.id, "EMAIL_AAAAAAAAAAAAAAAA", REASON) is None
    assert len(revealed(officer)) == 1


def test_a_reveal_is_recorded_before_it_answers(session, officer, monkeypatch):
    """R5: what could not be recorded is not told"""
    name = shown(officer, session)

    write = AuditTrail.write

    def full(trail, tenant, what, *said, **about):
        if what == REVEALED:
            raise OSError("no room")
        return write(trail, tenant, what, *said, **about)

    monkeypatch.setattr(AuditTrail, "write", full)
    with pytest.raises(OSError, match="no room"):
        officer.audit.reveal(session.id, name, REASON)


@pytest.mark.parametrize("reason", ["", None, 7, "x" * 1001])
def test_a_reveal_needs_a_reason(session, officer, reason):
    """R5"""
    with pytest.raises(InvalidInput):
        officer.audit.reveal(session.id, shown(officer, session), reason)
    assert revealed(officer) == []


@pytest.mark.parametrize("role", ["agent", "owner", "support", "auditor", "administrator"])
def test_no_other_role_may_reveal(vault, session, officer, role):
    """O3: not the owner either, who sees everything by itself"""
    name = shown(officer, session)
    with pytest.raises(NotFound):
        vault.access(who("mallory", role)).audit.reveal(session.id, name, REASON)
    with pytest.raises(NotFound):
        vault.access(who("alice", role)).audit.reveal(session.id, name, REASON)
    assert revealed(officer) == []


def test_a_privacy_officer_of_another_tenant_reveals_nothing(vault, session, officer):
    """O1, O4"""
    vault.access(who("bob", "owner", "agent", tenant="umbrella")).sessions.create()
    elsewhere = vault.access(who("olga", "privacy_officer", tenant="umbrella"))
    with pytest.raises(NotFound):
        elsewhere.audit.reveal(session.id, shown(officer, session), REASON)


def test_what_the_records_of_a_session_do_not_name_is_not_revealed(vault, session, officer):
    """R3: an address that is only in a message, and one that another session names"""
    other = vault.access(ALICE).sessions.create()
    other.append("message.user", {"content": f"write to {MAIL}"})
    name = shown(officer, other)
    assert name == shown(officer, session)
    assert officer.audit.reveal(other.id, name, REASON) is None
    assert officer.audit.reveal(session.id, name, REASON) == MAIL
