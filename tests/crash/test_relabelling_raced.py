"""Labels change in one process while another appends, holds or erases: each sees one state or the other.

D2, D5, D7. ``LABEL_RACES`` sets how often.
"""

import os

import pytest

from vault import Principal
from vault.errors import Conflict, NotFound

RACES = int(os.environ.get("LABEL_RACES", "60"))
OWNER = Principal(tenant="acme", subject="alice", roles=frozenset({"agent"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
BEGIN = """
import sys
from vault import Principal, Vault
from vault.errors import Conflict, NotFound
with Vault.open(sys.argv[1]) as vault:
    session = vault.access(Principal(tenant="acme", subject="alice")).sessions.resume(sys.argv[2])
    print("ready", flush=True)
"""
APPEND = (
    BEGIN
    + """
    for number in range(int(sys.argv[3])):
        session.append("message.user", number)
    print("done", flush=True)
"""
)
#: Opens and closes the case until the session is gone; says how it was labelled last.
TOGGLE = (
    BEGIN
    + """
    last, number = "open", 0
    try:
        while True:
            number += 1
            wanted = "closed" if last == "open" else "open"
            try:
                last = session.relabel({"case": wanted})["case"]
            except Conflict:
                continue
    except NotFound:
        print(last, flush=True)
"""
)


@pytest.fixture
def labelled(vault):
    return vault.access(OWNER).sessions.create(labels={"case": "open"})


def started(python, program, *arguments):
    process = python(program, *arguments)
    assert process.stdout.readline().strip() == "ready"
    return process


def test_no_event_and_no_label_is_lost_when_appends_and_labels_meet(place, vault, labelled, python):
    """L2, S2"""
    other = started(python, APPEND, place, labelled.id, RACES * 2)
    for number in range(RACES):
        labelled.relabel({"number": str(number), f"n{number % 20}": "x"}, remove=[f"n{(number + 7) % 20}"])
    assert other.stdout.readline().strip() == "done"
    events = list(labelled.events())
    said = [event.payload for event in events if event.type == "message.user"]
    facts = [event.payload["labels"] for event in events if event.type == "session.relabelled"]
    assert said == list(range(RACES * 2))
    assert [fact["number"] for fact in facts] == [str(number) for number in range(RACES)]
    assert labelled.info().labels["number"] == str(RACES - 1)
    assert vault.verify().findings == ()


def test_a_hold_keeps_what_carried_its_label_when_it_was_placed(place, vault, labelled, python):
    """D2: to the transaction; while it stands the label stays, and the session with it"""
    officer, owner = vault.access(OFFICER), vault.access(OWNER)
    other, met = started(python, TOGGLE, place, labelled.id), {"open": 0, "closed": 0}
    for _ in range(RACES):
        hold = officer.holds.place(label=("case", "open"), reason="race")
        first = labelled.info().labels["case"]
        met[first] += 1
        if first == "open":
            for _ in range(5):
                assert labelled.info().labels["case"] == "open"
        officer.holds.lift(hold.id, reason="race")
    assert met["open"]
    hold = officer.holds.place(label=("case", "open"), reason="race")
    if labelled.info().labels["case"] == "closed":
        while labelled.info().labels["case"] == "closed":
            pass
    assert owner.erasure.erase(session=labelled.id).counts == {("session", "held"): 1}
    officer.holds.lift(hold.id, reason="race")
    assert other.stdout.readline().strip() == "open"
    assert officer.retention.run().going == 1
    assert vault.verify().findings == ()


def test_a_process_that_is_killed_leaves_labels_index_and_fact_that_agree(place, vault, labelled, python):
    """L3: all of it is one transaction"""
    for number in range(max(RACES // 10, 3)):
        other = started(python, TOGGLE, place, labelled.id)
        before = labelled.info().event_count
        while labelled.info().event_count < before + 3 + number:
            pass
        other.kill()
        other.wait()
        *_, fact = labelled.events(types=["session.relabelled"])
        wanted = fact.payload["labels"]
        assert dict(labelled.info().labels) == wanted
        assert [item.id for item in vault.access(OWNER).sessions.find(labels=wanted).items] == [labelled.id]
        assert vault.verify().findings == ()


def test_an_erasure_by_label_takes_a_session_only_while_it_carries_it(place, vault, labelled, python):
    """D5: never one that had lost the label by then"""
    officer = vault.access(OFFICER)
    other = started(python, TOGGLE, place, labelled.id)
    gone = None
    while gone is None:
        try:
            gone = officer.erasure.execute(officer.erasure.plan(label=("case", "closed")))
        except (Conflict, NotFound):
            continue
    assert gone.counts == {("session", "erased"): 1}
    assert other.stdout.readline().strip() == "closed"
    assert vault.verify().findings == ()
