"""How a policy comes into force: versions, bounds, a day to wait, a second person, and what is bound anew.

D1, D2, D3.
"""

import shutil
import sqlite3
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vault import Principal, Vault
from vault.clock import to_us
from vault.erasure.changing import settle
from vault.erasure.policies import NAMES, shipped
from vault.erasure.rebinding import Rebinding
from vault.erasure.watch import Watch
from vault.errors import ClockAnomaly, Conflict, InvalidInput, NotFound, Tampered
from vault.policy import terms as retention
from vault.policy.changes import is_shortening
from vault.policy.document import read_policy
from vault.policy.durations import Duration
from vault.policy.enforced import refusal
from vault.policy.rebinding import Labels, rebound
from vault.policy.terms import NO_BOUNDS, Bounds, bind
from vault.sealing.receipts import verified

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
PIA = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
EVE = Principal(tenant="acme", subject="eve", roles=frozenset({"privacy_officer"}))
STRANGER = Principal(tenant="zeta", subject="zoe", roles=frozenset({"owner", "privacy_officer"}))
MINUTE, HOUR = 60_000_000, 3_600_000_000
DAY = 24 * HOUR
KINDS = ["session", "memory", "summary", "artifact", "embedding", "cache"]


def rules(*given):
    """Rules of a document; each a mapping of what differs from the plainest one."""
    text = ""
    for number, one in enumerate(given):
        fields = {
            "id": f"rule-{number}",
            "match": {"kind": KINDS, "labels": {}},
            "anchor": "created",
            "expire_after": "never",
            "applies_to": "all",
        } | one
        text += "\n[[retention]]\n" + "".join(f"{name} = {toml(value)}\n" for name, value in fields.items())
    return text


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(part)}" for name, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return f'"{value}"'


def paper(*given, version=1, name="mine"):
    return f'version = {version}\nname = "{name}"\n' + rules(*given)


def keeps(days, version=1, **more):
    """A document that keeps everything, also what is there, for so many days."""
    return paper({"expire_after": f"{days}d", **more}, version=version)


def fresh(days, version=1):
    """The same for what is stored from then on."""
    return keeps(days, version, applies_to="new")


@pytest.fixture
def choices():
    return {}


@pytest.fixture
def vault(place, clock, choices):
    with Vault.create(place, settings={"synchronous": "NORMAL", **choices}, clock=clock) as opened:
        yield opened


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def pia(vault, alice):
    alice.sessions.create(title="first")  # the tenant is known
    return vault.access(PIA)


@pytest.fixture
def eve(vault, pia):
    return vault.access(EVE)


@pytest.fixture
def later(clock, pia):
    """Lets time pass; somebody looked at the clock."""

    def pass_by(us):
        clock.now += us
        pia.retention.trust_clock()

    return pass_by


@pytest.fixture
def bring(pia, later):
    """Brings a document into force, whether or not it is announced; then a sweep."""

    def brought(text):
        if pia.policies.activate(text).state == "pending":
            later(DAY)
        pia.retention.run()
        assert pia.policies.pending() is None

    return brought


def said(vault, *types):
    """The entries of the trail about policies, oldest first."""
    entries = vault.access(PIA).audit.entries(types=types or POLICY, limit=1_000)
    return [entry.what for entry in entries][::-1]


POLICY = ("policy.activated", "policy.pending", "policy.approved", "policy.cancelled", "policy.applied")


def terms_of(vault, id_):
    """What binds a session or item, as it is stored."""
    raw = bytes.fromhex(id_.partition("_")[2].replace("-", ""))
    with vault._database.snapshot() as connection:
        for table, column in (("sessions", "session_id"), ("items", "item_id")):
            query = f"SELECT retention FROM {table} WHERE {column} = ?"  # noqa: S608 - the schema's own names
            for (stored,) in connection.execute(query, (raw,)):
                return retention.decode(stored)
    raise AssertionError


# --------------------------------------------------------------------------------------- what comes at once


def test_the_policy_that_comes_with_the_vault_holds_until_another_is_activated(vault, pia):
    """D1"""
    assert pia.policies.active().digest == shipped().digest
    answer = pia.policies.activate(fresh(400), file="mine.toml")
    assert (answer.name, answer.version, answer.state, answer.waiting) == ("mine", 1, "active", None)
    assert pia.policies.active().digest.hex() == answer.digest
    listed = pia.policies.list()
    assert [(one.name, one.active) for one in listed] == [("mine", True), *((name, False) for name in NAMES)]
    assert said(vault) == ["policy.activated"]


def test_what_is_stored_from_then_on_is_bound_by_it_in_every_process(vault, place, clock, alice, pia):
    """D1: an open vault elsewhere sees it within a second"""
    with Vault.open(place, clock=clock) as other:
        pia.policies.activate(fresh(400))
        for access in (alice, other.access(ALICE)):
            made = access.sessions.create()
            assert terms_of(vault, made.id).expire_us == 400 * DAY


def test_a_policy_binds_its_own_tenant_only(vault, pia, bring):
    """O1"""
    stranger = vault.access(STRANGER)
    session = stranger.sessions.create()
    bring(keeps(400))
    assert stranger.policies.active().digest == shipped().digest
    assert terms_of(vault, session.id).expire_us == 365 * DAY


def test_only_officers_of_the_tenant_see_or_change_its_policy(vault, alice, pia):
    """O1, O3"""
    pia.policies.activate(keeps(1))
    for roles in ({"owner"}, {"agent"}, {"support"}, {"auditor"}, {"administrator"}):
        desk = vault.access(Principal(tenant="acme", subject="mallory", roles=roles)).policies
        calls = (
            desk.active,
            desk.list,
            desk.pending,
            desk.cancel,
            lambda desk=desk: desk.check(keeps(2)),
            lambda desk=desk: desk.activate(keeps(2, 2)),
            lambda desk=desk: desk.approve("0" * 64),
            lambda desk=desk: desk.of_digest(shipped().digest.hex()),
        )
        for call in calls:
            with pytest.raises(NotFound):
                call()
    stranger = vault.access(STRANGER)
    stranger.sessions.create()
    assert stranger.policies.pending() is None
    with pytest.raises(NotFound):
        stranger.policies.cancel()
    assert pia.policies.pending() is not None


def test_a_policy_can_be_set_before_the_first_session(place, clock):
    """D1: the tenant gets its keys by it, so that its first session is bound by it; nobody else can do so"""
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as vault:
        pia = vault.access(PIA).policies
        for use in (
            pia.active,
            pia.list,
            pia.pending,
            pia.cancel,
            lambda: pia.check(fresh(5)),
            lambda: pia.activate("nonsense"),
            lambda: vault.access(ALICE).policies.activate(fresh(5)),
        ):
            with pytest.raises((NotFound, InvalidInput)):
                use()
        assert vault._keys.tenant("acme", create=False) is None  # no look made one, and no mistake
        assert pia.activate(fresh(5)).state == "active"
        session = vault.access(ALICE).sessions.create()
        expires = vault.access(ALICE).retention.explain(session.id).expires_at
        assert to_us(expires) == clock.now_us() + 5 * DAY
        assert vault.verify().findings == ()
    with Vault.open(place, clock=clock) as vault:
        assert vault.access(PIA).policies.active().name == "mine"


def test_what_a_receipt_names_can_be_read_after_another_policy_came(vault, pia, alice):
    """D1, D6: its very text; of this tenant or shipped, and nothing that only waits"""
    texts = {1: "# as of then\n" + fresh(400), 2: fresh(500, 2)}
    named = {}
    for version, text in texts.items():
        pia.policies.activate(text)
        outcome = alice.erasure.erase(session=alice.sessions.create().id)
        named[version] = verified(outcome.receipt, None).policy
    for version, text in texts.items():
        assert pia.policies.of_digest(named[version]).text == text
        assert pia.policies.of_digest(named[version][:8]).version == version
    assert pia.policies.of_digest(shipped("hipaa").digest.hex()).name == "hipaa"
    for wrong in ("", "0000000", None):
        with pytest.raises(InvalidInput):
            pia.policies.of_digest(wrong)
    with pytest.raises(NotFound):
        pia.policies.of_digest("0" * 64)
    stranger = vault.access(STRANGER)
    stranger.sessions.create()
    with pytest.raises(NotFound):
        stranger.policies.of_digest(named[1])


def test_the_same_document_again_changes_nothing(vault, pia):
    """D1: comments and spaces do not count"""
    pia.policies.activate(fresh(400))
    assert pia.policies.activate("# of legal\n" + fresh(400)).state == "unchanged"
    assert said(vault) == ["policy.activated"]
    assert pia.policies.activate(keeps(1, 2)).state == "pending"
    assert pia.policies.activate(keeps(1, 2)).state == "pending"
    assert said(vault) == ["policy.activated", "policy.pending"]


def test_a_document_is_never_changed_and_its_versions_only_grow(pia):
    """D1: also across a policy of another name in between"""
    pia.policies.activate(fresh(400, 3))
    for text in (fresh(401, 3), fresh(401, 2)):
        with pytest.raises(Conflict):
            pia.policies.activate(text)
        with pytest.raises(Conflict):
            pia.policies.check(text)
    pia.policies.activate(paper({"applies_to": "new"}, name="other"))
    with pytest.raises(Conflict):
        pia.policies.activate(fresh(600, 2))
    with pytest.raises(Conflict):
        pia.policies.activate(fresh(600, 3))
    assert pia.policies.activate(fresh(400, 3)).state == "active"  # back to what it was
    assert pia.policies.activate(fresh(600, 4)).state == "active"
    with pytest.raises(Conflict):
        pia.policies.activate(paper({"expire_after": "900d"}, name="default"))


def test_a_wrong_document_is_refused_and_leaves_no_entry(vault, pia):
    """D1"""
    with pytest.raises(InvalidInput, match=r"mine.toml, line 8: expire_after"):
        pia.policies.activate(keeps(0), file="mine.toml")
    assert said(vault) == []


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        pytest.param({"match": {"kind": ["event", "memory"]}}, "a rule of their own", id="events"),
        pytest.param(
            {"on_expire": "redact:L0", "expire_after": "30d"}, "reduced to its structure", id="redact"
        ),
        pytest.param({"anchor": "labelled"}, "names none", id="labelled"),
        pytest.param({"anchor": "external"}, "goes with them", id="external"),
    ],
)
def test_what_would_erase_otherwise_than_it_says_is_refused(vault, pia, rule, why):
    """D1: with one sentence that says which rule"""
    text = paper({}, rule)
    with pytest.raises(InvalidInput, match=rf"^mine.toml: rule 2 cannot come into force: .*{why}"):
        pia.policies.activate(text, file="mine.toml")
    with pytest.raises(InvalidInput, match=why):
        pia.policies.check(text)
    assert said(vault) == []


def test_what_is_not_enforced_is_said(pia):
    """D1: kinds that nothing erases by themselves yet, and what is derived of them"""
    kinds = {"match": {"kind": ["export", "structure", "proof"]}, "expire_after": "900d"}
    derived = {"derived": {"summary": "recompute", "export": "recompute"}, "expire_after": "900d"}
    text = paper(kinds, derived) + '\n[[redaction]]\npointer = "/payload/a"\nclass = "secret"\n'
    answer = pia.policies.activate(text)
    assert [sentence.split(":")[0] for sentence in answer.not_enforced] == [
        'rule 1 is not enforced for the kind "export"',
        'rule 1 is not enforced for the kind "structure"',
        'rule 1 is not enforced for the kind "proof"',
        'derived is not enforced for the kind "export" (rule 2)',
        "field rules ([[redaction]]) are not enforced",
    ]
    assert pia.policies.check(keeps(1, 2)).not_enforced == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_that_comes_with_the_vault_can_be_activated(pia, name):
    """D1: what of it is not enforced is said"""
    answer = pia.policies.activate(shipped(name).text, file=f"{name}.toml")
    assert answer.state in {"active", "unchanged"}
    assert any("proof" in sentence for sentence in answer.not_enforced)
    assert refusal(shipped(name)) is None


# ------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("choices", [{"retention_floor": "30d", "retention_ceiling": "90d"}])
def test_the_vaults_bounds_change_a_policy_and_it_is_said(vault, alice, pia, choices):
    """D1"""
    answer = pia.policies.activate(
        paper({"expire_after": "400d"}, {"match": {"kind": ["cache"]}}).replace('"all"', '"new"')
    )
    assert answer.state == "active"
    assert answer.clampings == (
        "rule 1 says expire_after 400 days; this vault allows at most 90 days",
        "rule 1 says keep_min nothing; this vault keeps at least 30 days",
        "rule 2 says expire_after never; this vault allows at most 90 days",
        "rule 2 says keep_min nothing; this vault keeps at least 30 days",
    )
    terms = terms_of(vault, alice.sessions.create().id)
    assert (terms.expire_us, terms.keeps) == (90 * DAY, ((0, 0, 30 * DAY),))


def test_without_bounds_nothing_is_said_of_them(pia):
    assert pia.policies.check(keeps(400)).clampings == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"retention_floor": "3 days"},
        {"retention_ceiling": "never"},
        {"retention_floor": "90d", "retention_ceiling": "30d"},
        {"retention_second_person_above": -1},
    ],
    ids=str,
)
def test_wrong_bounds_are_refused_by_name(place, wrong):
    with pytest.raises(InvalidInput, match=r"the setting retention_"):
        Vault.create(place, settings=wrong)


def test_bounds_that_were_lowered_since_are_announced_too(vault, place, clock, pia, bring):
    """D1: the documents only lengthen, and what is stored would go earlier"""
    bring(keeps(400))
    vault.close()
    file = place / "vault.toml"
    file.write_text(file.read_text().replace('retention_ceiling = ""', 'retention_ceiling = "30d"'))
    with Vault.open(place, clock=clock) as again:
        answer = again.access(PIA).policies.activate(keeps(500, 2))
        assert answer.state == "pending"


# ------------------------------------------------------------------------------------- what is announced


def test_what_makes_something_go_earlier_waits_for_a_day(vault, alice, pia, later, clock):
    """D1, D3: to the microsecond; then a sweep brings it into force, binds what is there, and erases"""
    session = alice.sessions.create()
    memory = alice.memories.put(("n",), "k", 1, sources=[session])
    later(10 * DAY)
    answer = pia.policies.activate(keeps(5), file="mine.toml")
    waiting = answer.waiting
    assert (answer.state, waiting.approved, waiting.second_person) == ("pending", False, False)
    assert to_us(waiting.in_force_from) == clock.now + DAY
    assert waiting.counts == {("memory", "erase"): 1, ("session", "erase"): 2}
    assert to_us(waiting.oldest) == clock.now - 10 * DAY
    assert pia.policies.pending() == waiting
    later(DAY - 1)
    assert pia.retention.run().going == 0
    assert (pia.policies.active().digest, pia.policies.pending()) == (shipped().digest, waiting)
    assert alice.memories.get(("n",), "k").id == memory.id
    later(1)
    assert pia.retention.run().going == 3
    assert (pia.policies.active().digest.hex(), pia.policies.pending()) == (answer.digest, None)
    assert said(vault)[:2] == ["policy.pending", "policy.activated"]
    assert vault.verify().findings == ()


def test_the_worker_brings_it_into_force_too(vault, pia, later):
    answer = pia.policies.activate(keeps(5))
    later(DAY)
    vault.sweep()
    assert pia.policies.active().digest.hex() == answer.digest


def test_a_shortening_for_new_items_only_needs_no_wait(vault, alice, pia):
    """D1: nothing that is there goes earlier"""
    before = alice.sessions.create()
    assert pia.policies.activate(keeps(5, applies_to="new")).state == "active"
    pia.retention.run()
    assert terms_of(vault, before.id).expire_us == 365 * DAY
    assert terms_of(vault, alice.sessions.create().id).expire_us == 5 * DAY


def test_check_tells_the_same_and_does_nothing(vault, pia, later):
    """D1"""
    later(10 * DAY)
    checked = pia.policies.check(keeps(5))
    assert checked.state == "pending"
    assert said(vault) == []
    asked = pia.policies.activate(keeps(5))
    assert checked.waiting.counts == asked.waiting.counts == {("session", "erase"): 1}
    assert checked.changes == asked.changes


def test_what_a_hold_or_a_minimum_keeps_is_said_apart(alice, pia, later):
    """D2: a held session, and nothing that is kept by it, goes"""
    held = alice.sessions.create()
    pia.holds.place(session=held.id, reason="case")
    later(10 * DAY)
    waiting = pia.policies.activate(keeps(5)).waiting
    assert waiting.counts == {("session", "erase"): 1, ("session", "held"): 1}
    pia.policies.cancel()
    legal = {"expire_after": "5d", "keep_min": {"for": "5d", "basis": "contract"}}
    waiting = pia.policies.activate(paper(legal)).waiting
    assert waiting.counts[("session", "erase")] == 1


def test_a_minimum_that_is_lost_is_announced(pia, bring):
    """D2"""
    legal = {"expire_after": "400d", "keep_min": {"for": "300d", "basis": "legal_obligation"}}
    bring(paper(legal))
    assert pia.policies.check(paper(legal, version=2)).state == "active"
    assert pia.policies.activate(keeps(400, 2)).state == "pending"


def test_while_a_change_waits_no_other_one_is_taken(pia):
    """D1: also not one that lengthens; it would be unclear what the day was for"""
    pia.policies.activate(keeps(5))
    with pytest.raises(Conflict, match="cancel it first"):
        pia.policies.activate(keeps(900, 2))
    pia.policies.cancel()
    assert pia.policies.activate(fresh(900, 2)).state == "active"


def test_what_was_cancelled_never_comes_into_force(vault, pia, later):
    """D1; asked for again, it waits for its whole day again"""
    pia.policies.activate(keeps(5))
    later(DAY - 1)
    pia.policies.cancel()
    with pytest.raises(NotFound):
        pia.policies.cancel()
    later(10 * DAY)
    vault.sweep()
    assert (pia.policies.active().digest, pia.policies.pending()) == (shipped().digest, None)
    pia.policies.activate(keeps(5))
    vault.sweep()
    assert pia.policies.pending() is not None
    assert said(vault) == ["policy.pending", "policy.cancelled", "policy.pending"]


def test_a_clock_that_was_behind_makes_no_day_shorter(pia, clock):
    """D3: the wait is counted from the latest time that a sweep has seen"""
    clock.now += 30 * DAY
    pia.retention.run()
    seen = clock.now
    clock.now -= 30 * DAY
    waiting = pia.policies.activate(keeps(5)).waiting
    assert to_us(waiting.in_force_from) == seen + DAY


def test_a_clock_that_jumps_brings_nothing_into_force(vault, pia, eve, clock):
    """D3: neither by a sweep nor by who approves"""
    pia.retention.run()
    waiting = pia.policies.activate(keeps(5)).waiting
    clock.now += 100 * DAY
    with pytest.raises(ClockAnomaly):
        vault.sweep()
    for officer in (pia, eve):
        with pytest.raises(ClockAnomaly):
            officer.policies.approve(waiting.digest)
    assert pia.policies.active().digest == shipped().digest
    pia.retention.trust_clock()
    assert pia.policies.approve(waiting.digest) is None
    assert pia.policies.active().digest.hex() == waiting.digest


# -------------------------------------------------------------------------------------- a second person


@pytest.fixture
def much(alice, pia, later):
    """More than a single person may have erased by a change: three sessions, where two are."""
    for _ in range(2):
        alice.sessions.create()
    later(10 * DAY)


TWO = pytest.mark.parametrize("choices", [{"retention_second_person_above": 2}])


@TWO
def test_what_takes_much_needs_somebody_else(vault, pia, eve, much, later):
    """O3: never who asked, and no sweep goes ahead without"""
    waiting = pia.policies.activate(keeps(5)).waiting
    assert waiting.second_person
    with pytest.raises(Conflict, match="somebody else"):
        pia.policies.approve(waiting.digest)
    later(2 * DAY)
    vault.sweep()
    with pytest.raises(Conflict, match="somebody else"):
        pia.policies.approve(waiting.digest)
    assert pia.policies.active().digest == shipped().digest
    assert eve.policies.approve(waiting.digest) is None
    assert pia.policies.active().digest.hex() == waiting.digest
    assert said(vault) == ["policy.pending", "policy.approved", "policy.activated"]


@TWO
def test_an_approval_does_not_shorten_the_day(vault, pia, eve, much, later):
    waiting = pia.policies.activate(keeps(5)).waiting
    approved = eve.policies.approve(waiting.digest[:8])
    assert (approved.approved, approved.in_force_from) == (True, waiting.in_force_from)
    assert approved.asked_at == waiting.asked_at
    later(DAY - 1)
    vault.sweep()
    assert eve.policies.approve(waiting.digest).approved
    assert pia.policies.active().digest == shipped().digest
    later(1)
    vault.sweep()
    assert pia.policies.active().digest.hex() == waiting.digest


@TWO
def test_an_approved_change_can_still_be_cancelled(vault, pia, eve, much, later):
    waiting = pia.policies.activate(keeps(5)).waiting
    eve.policies.approve(waiting.digest)
    pia.policies.cancel()
    later(2 * DAY)
    vault.sweep()
    assert pia.policies.active().digest == shipped().digest


@TWO
def test_what_grew_while_it_waited_needs_somebody_else_too(vault, alice, pia, eve, later):
    """D3: counted again before it comes into force"""
    later(10 * DAY)
    waiting = pia.policies.activate(keeps(1)).waiting
    assert not waiting.second_person
    for _ in range(3):
        alice.sessions.create()
    later(2 * DAY)
    vault.sweep()
    again = pia.policies.pending()
    assert (again.second_person, again.asked_at, again.asked_by) == (True, waiting.asked_at, waiting.asked_by)
    assert again.in_force_from == waiting.in_force_from
    with pytest.raises(Conflict, match="somebody else"):
        pia.policies.approve(waiting.digest)
    assert eve.policies.approve(waiting.digest) is None


@TWO
def test_what_waited_for_review_and_is_to_be_erased_counts(pia, much, bring, later):
    """O3: two small steps do not spare the second person"""
    bring(keeps(5, on_expire="review"))
    assert pia.retention.preview().review == 3
    later(HOUR)
    waiting = pia.policies.activate(keeps(5, 2)).waiting
    assert waiting.counts == {("session", "erase"): 3}
    assert waiting.second_person


@TWO
def test_what_could_still_be_restored_and_is_to_be_erased_counts(pia, eve, much, later):
    """O3: a long grace first, and none afterwards"""
    waiting = pia.policies.activate(keeps(5, grace="300d")).waiting
    eve.policies.approve(waiting.digest)
    later(DAY)
    assert pia.retention.run().going == 0
    waiting = pia.policies.activate(keeps(5, 2)).waiting
    assert waiting.counts == {("session", "erase"): 3}
    assert waiting.second_person


def test_only_what_was_looked_at_is_approved(pia, eve):
    """O3: not a change that was asked for meanwhile"""
    with pytest.raises(NotFound):
        eve.policies.approve("0" * 64)
    first = pia.policies.activate(keeps(5)).waiting
    pia.policies.cancel()
    pia.policies.activate(keeps(4))
    with pytest.raises(Conflict):
        eve.policies.approve(first.digest)
    for short in ("", first.digest[:7], None):
        with pytest.raises(InvalidInput):
            eve.policies.approve(short)


def test_who_asked_may_not_hurry_a_small_change(pia):
    waiting = pia.policies.activate(keeps(5)).waiting
    with pytest.raises(Conflict, match="waits for its time"):
        pia.policies.approve(waiting.digest)


# ------------------------------------------------------------------------------------ two at one moment


def at_the_moment(vault, monkeypatch, what, act):
    """Does something right before an entry of a type is written."""
    trail, write, done = vault._trail, vault._trail.write, []

    def written(tenant, type_, *arguments, **named):
        if type_ == what and not done:
            done.append(type_)
            act()
        return write(tenant, type_, *arguments, **named)

    monkeypatch.setattr(trail, "write", written)
    return done


def test_a_cancel_right_before_it_comes_into_force_wins(vault, place, clock, pia, later, monkeypatch):
    """D1: the log takes one of two decisions"""
    pia.policies.activate(keeps(5))
    later(DAY)
    with Vault.open(place, clock=clock) as other:
        done = at_the_moment(vault, monkeypatch, "policy.activated", other.access(PIA).policies.cancel)
        vault.sweep()
    assert done
    assert said(vault) == ["policy.pending", "policy.cancelled"]
    assert pia.policies.active().digest == shipped().digest


def test_a_cancel_that_comes_too_late_says_so(vault, place, clock, pia, later, monkeypatch):
    answer = pia.policies.activate(keeps(5))
    later(DAY)
    with Vault.open(place, clock=clock) as other:
        at_the_moment(vault, monkeypatch, "policy.cancelled", other.sweep)
        with pytest.raises(NotFound):
            pia.policies.cancel()
    assert said(vault)[:2] == ["policy.pending", "policy.activated"]
    assert "policy.cancelled" not in said(vault)
    assert pia.policies.active().digest.hex() == answer.digest


def test_of_two_activations_at_once_one_is_refused(vault, place, clock, pia, monkeypatch):
    with Vault.open(place, clock=clock) as other:
        act = other.access(EVE).policies.activate
        at_the_moment(vault, monkeypatch, "policy.activated", lambda: act(fresh(500, 2)))
        with pytest.raises(Conflict, match="at this moment"):
            pia.policies.activate(fresh(400))
    assert pia.policies.active().version == 2


def test_an_approval_and_a_cancel_at_once_end_cancelled(vault, place, clock, pia, monkeypatch):
    waiting = pia.policies.activate(keeps(5)).waiting
    with Vault.open(place, clock=clock) as other:
        approve = other.access(EVE).policies.approve
        at_the_moment(vault, monkeypatch, "policy.cancelled", lambda: approve(waiting.digest))
        pia.policies.cancel()
    assert said(vault) == ["policy.pending", "policy.approved", "policy.cancelled"]
    assert pia.policies.pending() is None


# ----------------------------------------------------------------------------------------- bound anew


def test_a_longer_policy_holds_for_what_is_there(vault, alice, pia, later, bring):
    """D1: sessions and items, in what follows too: hidden and erased by the new period"""
    session = alice.sessions.create(title="kept")
    memory = alice.memories.put(("n",), "k", 1, sources=[session])
    artifact = alice.artifacts.put("a", b"x" * 100_000, sources=[session])
    fork = None
    session.append("message.user", {"content": "hello"})
    fork = alice.sessions.fork(session.id)
    bring(keeps(1_000))
    for id_ in (session.id, memory.id, artifact.id, fork.id):
        assert terms_of(vault, id_).expire_us == 1_000 * DAY
    later(700 * DAY)
    assert pia.retention.run().going == 0
    assert alice.memories.get(("n",), "k").value == 1
    assert "1000 days" in pia.retention.explain(session.id).text
    session.append("message.user", {"content": "again"})
    assert vault.verify().findings == ()
    later(400 * DAY)
    assert pia.retention.run(token=pia.retention.preview().token).going == 5


def test_the_audit_trail_is_never_bound(vault, alice, pia, later, bring):
    """K4"""
    bring(keeps(1_000))
    with vault._database.snapshot() as connection:
        query = "SELECT retention, due_hour FROM sessions WHERE external IS NOT NULL"
        assert connection.execute(query).fetchall() == [(b"", 0)]


def test_labels_decide_and_are_opened_for_it(vault, alice, pia, bring):
    """D1: they are sealed"""
    red, blue = (alice.sessions.create(labels={"team": team}) for team in ("red", "blue"))
    note = alice.memories.put(("n",), "k", 1, sources=[blue], labels={"team": "red"})
    special = {"match": {"kind": KINDS, "labels": {"team": "red"}}, "expire_after": "900d"}
    bring(paper({"applies_to": "new"}, special))
    assert terms_of(vault, red.id).expire_us == terms_of(vault, note.id).expire_us == 900 * DAY
    assert terms_of(vault, blue.id).expire_us == 365 * DAY


def test_a_rule_for_new_items_that_decides_leaves_what_is_there(vault, alice, pia, bring):
    """D1: though another one that matches speaks of all; its minimum counts"""
    red, blue = (alice.sessions.create(labels={"team": team}) for team in ("red", "blue"))
    special = {
        "match": {"kind": KINDS, "labels": {"team": "red"}},
        "expire_after": "900d",
        "applies_to": "new",
    }
    legal = {"expire_after": "1000d", "keep_min": {"for": "700d", "basis": "legal_obligation"}}
    bring(paper(legal, special))
    assert terms_of(vault, blue.id).expire_us == 1_000 * DAY
    kept = terms_of(vault, red.id)
    assert (kept.expire_us, kept.keeps, kept.policy) == (365 * DAY, ((0, 0, 700 * DAY),), shipped().mark)


def test_what_its_writer_wanted_shorter_stays_shorter(vault, alice, pia, bring):
    """D1: a policy may lengthen what a policy set, not what the writer did"""
    session = alice.sessions.create()
    short = alice.memories.put(("n",), "short", 1, sources=[session], ttl=timedelta(days=30))
    plain = alice.memories.put(("n",), "plain", 1, sources=[session])
    for number, days in enumerate((900, 1_000), 1):
        bring(keeps(days, number))
        assert terms_of(vault, short.id).expire_us == 30 * DAY
        assert terms_of(vault, plain.id).expire_us == days * DAY


def test_what_was_asked_for_and_taken_back_stays_so(vault, alice, pia, later, bring):
    """D2, D5: a request stays a request; an undone expiry stays undone"""
    asked, undone = alice.sessions.create(), alice.sessions.create()
    hold = pia.holds.place(session=asked.id, reason="case")
    alice.erasure.erase(session=asked.id)
    later(366 * DAY)
    alice.retention.undo(undone.id)
    before = [terms_of(vault, one.id) for one in (asked, undone)]
    bring(keeps(900))
    after = [terms_of(vault, one.id) for one in (asked, undone)]
    assert [one.expire_us for one in after] == [900 * DAY] * 2
    done = [[(one.restored_us, one.requested_us) for one in terms] for terms in (before, after)]
    assert done[0] == done[1] != [(0, 0), (0, 0)]
    with pytest.raises(NotFound):
        alice.sessions.resume(asked.id)
    pia.holds.lift(hold.id, reason="over")
    pia.retention.run()
    with pytest.raises(NotFound):
        pia.retention.explain(asked.id)


class Cut(Exception):
    """Ends something in the middle."""


def test_what_is_being_erased_is_not_brought_back(vault, alice, pia, bring):
    """D3, D4: fenced by an erasure that did not come to its end"""
    bring(keeps(365))
    session = alice.sessions.create()
    memory = alice.memories.put(("n",), "k", 1, sources=[session])

    def step(name):
        if name == "condemn":
            raise Cut

    whole = vault._parts
    vault._parts = replace(whole, execution=replace(whole.execution, step=step))
    with pytest.raises(Cut):
        vault.access(ALICE).erasure.erase(session=session.id)
    vault._parts = whole
    before = terms_of(vault, session.id), terms_of(vault, memory.id)
    assert pia.policies.activate(keeps(1_000, 2)).state == "active"
    watch = Watch(log=vault._log).taken()
    settle(vault._parts, watch)
    watch.done()
    assert (terms_of(vault, session.id), terms_of(vault, memory.id)) == before
    with pytest.raises(NotFound):
        alice.sessions.resume(session.id)
    assert not vault._parts.policies.is_applied(
        vault._keys.tenant("acme", create=False), pia.policies.active()
    )
    pia.retention.run()
    assert alice.erasure.erased(session=session.id).state == "verified"


def test_what_is_fenced_between_the_look_and_the_write_is_not_brought_back(
    vault, alice, pia, bring, monkeypatch
):
    """D3, D4: looked at again in the transaction"""
    bring(keeps(365))
    session = alice.sessions.create()
    memory = alice.memories.put(("n",), "k", 1, sources=[session])
    assert pia.policies.activate(keeps(1_000, 2)).state == "active"
    before, whole, transact, cut = [], vault._parts, vault._records.transact, []

    def step(name):
        if name == "condemn":
            raise Cut

    def fenced_first(work):
        if "Rebinding" in getattr(work, "__qualname__", "") and not cut:
            vault._parts = replace(whole, execution=replace(whole.execution, step=step))
            cut.append(True)
            with pytest.raises(Cut):
                vault.access(ALICE).erasure.erase(session=session.id)
            vault._parts = whole
            before.extend([terms_of(vault, session.id), terms_of(vault, memory.id)])
        return transact(work)

    monkeypatch.setattr(vault._records, "transact", fenced_first)
    watch = Watch(log=vault._log).taken()
    settle(whole, watch)
    watch.done()
    assert cut
    assert [terms_of(vault, session.id), terms_of(vault, memory.id)] == before
    pia.retention.run()
    assert alice.erasure.erased(session=session.id).state == "verified"


def test_a_run_at_work_goes_on(vault, alice, pia, bring):
    """D1: its row moves under it"""
    session = alice.sessions.create()
    run = session.run()
    run.append("message.user", 1)
    bring(keeps(1_000))
    run.append("message.user", 2)
    run.stop()
    assert terms_of(vault, session.id).expire_us == 1_000 * DAY
    assert vault.verify().findings == ()


def test_what_was_tampered_with_is_left_alone_and_holds_up_nothing(vault, place, alice, pia, bring):
    """K3, D3"""
    bad, good = alice.sessions.create(), alice.sessions.create()
    raw = bytes.fromhex(bad.id.partition("_")[2].replace("-", ""))
    vault.checkpoint()
    with sqlite3.connect(place / "data.db") as connection:
        connection.execute("UPDATE sessions SET ended_us = 7 WHERE session_id = ?", (raw,))
    connection.close()
    bring(keeps(1_000))
    assert terms_of(vault, bad.id).expire_us == 365 * DAY
    assert terms_of(vault, good.id).expire_us == 1_000 * DAY


def test_a_tampered_trail_is_told_and_keeps_no_other_tenant_waiting(vault, place, pia, later):
    """K3, D3"""
    stranger = vault.access(STRANGER)
    session = stranger.sessions.create()
    stranger.policies.activate(keeps(1_000))
    later(DAY)
    vault.checkpoint()
    kept = vault._trail._kept[vault._keys.tenant("acme", create=False).tenant_id]
    raw = bytes.fromhex(kept.id.partition("_")[2].replace("-", ""))
    with sqlite3.connect(place / "data.db") as connection:
        connection.execute("UPDATE sessions SET ended_us = 7 WHERE session_id = ?", (raw,))
    connection.close()
    with pytest.raises(Tampered):
        vault.sweep()
    assert terms_of(vault, session.id).expire_us == 1_000 * DAY


def test_a_pass_is_made_in_bounded_transactions_and_resumed(vault, alice, pia, later, monkeypatch):
    """D1, L9: cut off in the middle, what is done stays done and the rest follows"""
    monkeypatch.setattr("vault.erasure.rebinding.BATCH", 4)
    sessions = [alice.sessions.create() for _ in range(10)]
    pia.policies.activate(keeps(1_000))
    later(DAY)
    moved, move = [], vault._records.transact

    def cut(work):
        if "Rebinding" in getattr(work, "__qualname__", ""):
            if len(moved) == 2:
                raise Cut
            moved.append(work)
        return move(work)

    monkeypatch.setattr(vault._records, "transact", cut)
    with pytest.raises(Cut):
        pia.retention.run()
    done = sum(terms_of(vault, one.id).expire_us == 1_000 * DAY for one in sessions)
    assert 7 <= done <= 8
    monkeypatch.setattr(vault._records, "transact", move)
    pia.retention.run()
    assert {terms_of(vault, one.id).expire_us for one in sessions} == {1_000 * DAY}


def test_once_all_is_done_no_pass_is_made_any_more(vault, alice, pia, later, bring, monkeypatch):
    """D1, L9: and not before every process knows the policy"""
    bring(keeps(365))
    passes, run = [], Rebinding.run

    def counted(self, watch):
        passes.append(1)
        return run(self, watch)

    monkeypatch.setattr(Rebinding, "run", counted)
    assert pia.policies.activate(keeps(1_000, 2)).state == "active"
    for expected in (1, 2, 3):  # one that binds, two that find nothing within the first minute
        pia.retention.run()
        assert len(passes) == expected
    later(MINUTE)
    pia.retention.run()
    assert (len(passes), said(vault)[-1]) == (4, "policy.applied")
    pia.retention.run()
    assert len(passes) == 4
    pia.policies.activate(keeps(1_001, 3))
    pia.retention.run()
    assert len(passes) == 5


# ------------------------------------------------------------------------------------------- properties

DAYS = st.integers(1, 400)
SOME = st.fixed_dictionaries(
    {
        "expire_after": DAYS.map(lambda days: f"{days}d") | st.just("never"),
        "keep_min": st.sampled_from(["0d", "1d"]),
        "grace": st.sampled_from(["0d", "7d"]),
        "applies_to": st.sampled_from(["new", "all"]),
        "anchor": st.sampled_from(["created", "last_event"]),
        "match": st.sampled_from([{"kind": KINDS}, {"kind": KINDS, "labels": {"team": "red"}}]),
    }
)
POLICIES = st.lists(SOME, min_size=1, max_size=3).map(
    lambda found: read_policy(paper({"match": {"kind": KINDS}, "applies_to": "new"}, *found), file="mine")
)
BOUNDS = st.sampled_from([NO_BOUNDS, Bounds(floor=Duration(us=DAY), ceiling=Duration(us=90 * DAY))])


@settings(max_examples=150)
@given(old=POLICIES, new=POLICIES, bounds=BOUNDS, red=st.booleans(), asked=st.integers(0, 5))
def test_binding_anew_is_idempotent_and_keeps_what_people_asked_for(old, new, bounds, red, asked):
    """D1"""
    named = {"team": "red"} if red else {}
    labels, people = Labels(named), {"requested_us": asked, "restored_us": asked, "external_us": asked}
    before = bind(old, "session", named, bounds=bounds)._replace(**people)
    known = {"bounds": bounds, "before": old}
    once = rebound(before, new, "session", labels, **known)
    assert rebound(once, new, "session", labels, bounds=bounds, before=new) == once
    assert (once.requested_us, once.restored_us, once.external_us) == (asked, asked, asked)
    assert retention.decode(retention.encode(once)) == once
    fresh = bind(new, "session", named, bounds=bounds)
    if new.rules[fresh.rule].applies_to == "all":
        assert once == fresh._replace(**people)
    else:
        assert once._replace(keeps=before.keeps) == before


@settings(max_examples=150)
@given(old=POLICIES, new=POLICIES, red=st.booleans())
def test_whatever_goes_earlier_by_it_was_announced(old, new, red):
    """D1: by the comparison of the documents alone, where one policy bound everything"""
    labels = {"team": "red"} if red else {}
    before = bind(old, "session", labels)
    after = rebound(before, new, "session", Labels(labels), bounds=NO_BOUNDS, before=old)

    def period(terms):
        return terms.expire_us or 10**18

    if period(after) < period(before):
        assert is_shortening(old, new)


class Clock:
    """Moves by hand."""

    now = 1_800_000_000_000_000

    def now_us(self):
        return self.now


class Desk(RuleBasedStateMachine):
    """Two officers, a sweeper and time: what is in force is what the rules of this page say."""

    def __init__(self):
        super().__init__()
        self.directory, self.clock = Path(tempfile.mkdtemp()), Clock()
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("XDG_STATE_HOME", str(self.directory / "state"))
        settings = {"synchronous": "NORMAL", "retention_second_person_above": 1}
        self.vault = Vault.create(self.directory / "vault", settings=settings, clock=self.clock)
        for _ in range(2):
            self.vault.access(ALICE).sessions.create()
        self.clock.now += 20 * DAY
        self.there = True  # until a sweep erases them
        self.people = {"pia": self.vault.access(PIA).policies, "eve": self.vault.access(EVE).policies}
        self.trust = self.vault.access(PIA).retention.trust_clock
        self.people["pia"].activate(keeps(365))
        self.clock.now += DAY
        self.trust()
        self.vault.sweep()
        self.version, self.days, self.bound = 1, 365, 365
        self.waits = None  # days, digest, since, by, approved

    @property
    def ripe(self):
        """Whether what waits may come into force."""
        return self.clock.now >= self.waits["since"] + DAY and (
            self.waits["approved"] or not self.waits["much"]
        )

    @rule(who=st.sampled_from(["pia", "eve"]), days=st.sampled_from([5, 100, 300, 900]))
    def activate(self, who, days):
        self.version += 1
        text = keeps(days, self.version)
        if self.waits:
            with pytest.raises(Conflict):
                self.people[who].activate(text)
            return
        answer = self.people[who].activate(text)
        earlier = days < self.days or (self.there and days < self.bound)
        assert answer.state == ("pending" if earlier else "active")
        if answer.state == "pending":
            much = self.there and days == 5  # both sessions are older than that
            self.waits = {"days": days, "digest": answer.digest, "since": self.clock.now, "by": who}
            self.waits |= {"approved": False, "much": much}
            assert answer.waiting.second_person == much
        else:
            self.days = days

    @precondition(lambda self: self.waits)
    @rule(who=st.sampled_from(["pia", "eve"]))
    def approve(self, who):
        own, before = who == self.waits["by"], self.clock.now < self.waits["since"] + DAY
        if own and ((self.waits["much"] and not self.waits["approved"]) or before):
            with pytest.raises(Conflict):
                self.people[who].approve(self.waits["digest"])
            return
        self.waits["approved"] |= not own
        if self.people[who].approve(self.waits["digest"]) is None:
            self.came()

    @precondition(lambda self: self.waits)
    @rule(who=st.sampled_from(["pia", "eve"]))
    def cancel(self, who):
        self.people[who].cancel()
        self.waits = None

    @rule(us=st.sampled_from([1, DAY - 1, DAY]))
    def wait(self, us):
        self.clock.now += us
        self.trust()

    @rule()
    def sweep(self):
        self.vault.sweep()
        if self.waits and self.ripe:
            self.came()
        self.bound = self.days
        self.there = self.there and self.days > 5

    def came(self):
        assert self.ripe
        self.days, self.waits = self.waits["days"], None

    @invariant()
    def what_is_in_force_is_what_came_into_force(self):
        active, waiting = self.people["pia"].active(), self.people["eve"].pending()
        assert active.rules[0].expire_after.us == self.days * DAY
        assert (waiting.digest if waiting else None) == (self.waits["digest"] if self.waits else None)

    def teardown(self):
        self.vault.close()
        self.patch.undo()
        shutil.rmtree(self.directory)


TestDesk = Desk.TestCase
TestDesk.settings = settings(max_examples=8, stateful_step_count=15)
