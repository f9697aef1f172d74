"""What somebody without keys can do to the labels that a session got, and to its clocks: nothing unseen.

D1, D2, K4.
"""

import pytest

from tests.security import surgery
from vault import Principal, Vault
from vault.clock import from_us
from vault.errors import NotFound, Tampered, VaultError

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
PIA = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
PAPER = """
version = 1
name = "mine"
[[retention]]
id = "closed"
match = { kind = ["session"], labels = { case = "closed" } }
anchor = "labelled"
expire_after = "30d"
[[retention]]
id = "contract"
match = { kind = ["session"], labels = { kind = "contract" } }
anchor = "external"
expire_after = "30d"
[[retention]]
id = "all"
match = { kind = ["session", "memory", "artifact"] }
anchor = "created"
expire_after = "365d"
"""


class Clock:
    """Stands still."""

    def now_us(self):
        return 1_800_000_000_000_000


@pytest.fixture
def before(place):
    """A closed vault: a session that lost a label and got another one; its rows from before."""
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=Clock()) as vault:
        session = vault.access(ALICE).sessions.create(labels={"case": "open"})
        vault.access(PIA).policies.activate(PAPER)
        session.append("message.user", 1)
    with surgery.opened(place) as database:
        rows = surgery.rows_as_dicts(database, "SELECT * FROM sessions WHERE no = 1")
        labels = surgery.rows_as_dicts(database, "SELECT * FROM labels")
    with opened(place) as vault:
        resumed = vault.access(ALICE).sessions.resume(session.id)
        resumed.relabel({"case": "closed"})
        resumed.append("message.user", 2)
    return session.id, rows[0], labels


def opened(place):
    return Vault.open(place, clock=Clock())


def changed(place, statement, *values):
    with surgery.opened(place) as database:
        assert database.execute(statement, values).rowcount


def refused(place, session_id):
    """That the session is served to nobody; and whether `verify` names it."""
    try:
        with opened(place) as vault:
            with pytest.raises((Tampered, VaultError)):
                list(vault.access(ALICE).sessions.resume(session_id).events())
            return not vault.verify().ok
    except VaultError:  # it is not even opened
        return True


@pytest.mark.parametrize("columns", [("about",), ("retention",), ("due_hour", "retention"), ("about", "mac")])
def test_labels_and_terms_of_before_are_refused(place, before, columns):
    """K4: as the row's MAC covers both"""
    session_id, row, _ = before
    for column in columns:
        changed(place, f"UPDATE sessions SET {column} = ? WHERE no = 1", row[column])  # noqa: S608
    assert refused(place, session_id)


def test_the_whole_row_of_before_is_refused(place, before):
    """K4: the ledger knows a newer one"""
    session_id, row, _ = before
    for column in set(row) - {"no"}:
        changed(place, f"UPDATE sessions SET {column} = ? WHERE no = 1", row[column])  # noqa: S608
    changed(place, "DELETE FROM events WHERE session_no = 1 AND seq > 1")
    assert refused(place, session_id)


@pytest.mark.parametrize("clock", ["labelled", "external"])
@pytest.mark.parametrize("by", [1, -1, 10**15])
def test_a_clock_that_somebody_set_cannot_be_moved(place, before, clock, by):
    """D1, K4"""
    session_id, *_ = before
    if clock == "external":
        with opened(place) as vault:
            vault.access(ALICE).sessions.resume(session_id).relabel({"kind": "contract"}, remove=["case"])
            vault.access(PIA).retention.date(session_id, from_us(Clock().now_us()))
    with surgery.opened(place) as database:
        ((kept,),) = database.execute("SELECT retention FROM sessions WHERE no = 1")
        head, labelled, external = kept[:-1].rsplit(b",", 2)
        moved = (
            [head, b"%d" % (int(labelled) + by), external]
            if clock == "labelled"
            else [head, labelled, b"%d" % (int(external) + by)]
        )
        database.execute("UPDATE sessions SET retention = ? WHERE no = 1", (b",".join(moved) + b"]",))
    assert refused(place, session_id)


def test_that_a_session_was_labelled_cannot_be_taken_out_of_its_log(place, before):
    """K4"""
    session_id, *_ = before
    changed(place, "DELETE FROM events WHERE type = 'session.relabelled'")
    assert refused(place, session_id)


def found_by(place, value):
    with opened(place) as vault:
        listed = [item.id for item in vault.access(ALICE).sessions.find(labels={"case": value}).items]
        return listed, [finding.kind for finding in vault.verify().findings]


def test_a_lost_label_put_back_into_the_index_is_refused_and_found(place, before):
    """K4: nobody is shown a session under a label that it lost"""
    _, _, labels = before
    (old,) = labels
    changed(place, "INSERT INTO labels (label, session_no) VALUES (?, 1)", old["label"])
    with pytest.raises(Tampered):
        found_by(place, "open")
    with opened(place) as vault:
        assert [finding.kind for finding in vault.verify().findings] == ["labels"]


def test_a_new_label_taken_out_of_the_index_is_found(place, before):
    """K4: a list does not prove what it leaves out; verifying does"""
    changed(place, "DELETE FROM labels WHERE session_no = 1")
    assert found_by(place, "closed") == ([], ["labels"])


@pytest.mark.parametrize("edit", ["DELETE FROM labels", "UPDATE labels SET label = x'00112233445566778899'"])
def test_a_session_whose_index_was_changed_takes_no_other_labels(place, before, edit):
    """D2, K4: or a hold by label, which goes by the index, could be slipped"""
    session_id, *_ = before
    changed(place, f"{edit} WHERE session_no = 1")
    with opened(place) as vault:
        session = vault.access(ALICE).sessions.resume(session_id)
        with pytest.raises(Tampered, match="label index"):
            session.relabel({"case": "open"})
        assert dict(session.info().labels) == {"case": "closed"}


@pytest.mark.parametrize("event", ["INSERT ON labels", "DELETE ON labels", "UPDATE OF about ON sessions"])
def test_a_planted_rule_that_swallows_a_label_is_met(place, before, event):
    """K4, L1: then nothing is changed, whichever of the steps of the transaction it was"""
    session_id, *_ = before
    with surgery.connected(place) as database:
        database.execute(f"CREATE TRIGGER planted BEFORE {event} BEGIN SELECT RAISE(IGNORE); END")
    database.close()
    with opened(place) as vault:
        session = vault.access(ALICE).sessions.resume(session_id)
        with pytest.raises(VaultError):
            session.relabel({"case": "open"})
        assert dict(session.info().labels) == {"case": "closed"}
        assert [event.type for event in session.events()].count("session.relabelled") == 1
        assert vault.verify().findings == ()


def test_a_later_hour_of_the_sweep_hides_nothing_and_is_found(place, before):
    """D3: readers do not go by it"""
    session_id, *_ = before
    changed(place, "UPDATE sessions SET due_hour = due_hour + 1000 WHERE no = 1")

    class Later(Clock):
        def now_us(self):
            return super().now_us() + 30 * 24 * 3_600_000_000

    with Vault.open(place, clock=Later()) as vault:
        with pytest.raises(NotFound):
            vault.access(ALICE).sessions.resume(session_id)
        assert [finding.kind for finding in vault.verify().findings] == ["session_row"]
