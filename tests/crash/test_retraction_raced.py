"""Epochs are erased while others write under them: what was acknowledged goes too, or was refused. D6, D7."""

import threading

from vault.errors import Erased

WRITER = """
import sys
from vault import Principal, Vault
from vault.errors import Erased
with Vault.open(sys.argv[1]) as vault:
    session = vault.access(Principal(tenant="acme", subject="alice")).sessions.resume(sys.argv[2])
    print("ready", flush=True)
    epoch, refused = 1, 0
    while epoch <= int(sys.argv[3]):
        try:
            session.append("chat.item", {"by": "another process"}, epoch=epoch)
        except Erased:
            epoch += 1
    print("done", flush=True)
"""
EPOCHS = 12


def test_nothing_is_half_erased_however_writers_and_erasers_meet(place, vault, session, python):
    """D6, invariant 14: threads of this process and another process write under each epoch until it goes"""
    other = python(WRITER, place, session.id, EPOCHS)
    assert other.stdout.readline().strip() == "ready"
    refused = []

    def write(number):
        epoch = 1
        while epoch <= EPOCHS:
            try:
                session.append("chat.item", {"by": number, "text": "x" * 3000 * (number % 2)}, epoch=epoch)
            except Erased:
                refused.append(number)
                epoch += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for epoch in range(1, EPOCHS + 1):
        while sum(event.epoch == epoch for event in session.events(limit=20, newest_first=True)) < 4:
            threading.Event().wait(0.01)
        session.retract_epoch(epoch)
    for thread in threads:
        thread.join(60)
    assert other.stdout.readline().strip() == "done"
    assert len(refused) == 3 * EPOCHS
    items = list(session.events(types=["chat.item"]))
    assert {event.epoch for event in items} == set(range(1, EPOCHS + 1))
    assert all(event.erased for event in items)
    with vault._records.snapshot() as reader:
        assert {blob[6] for blob in reader.scan("all_blobs_of_session", session_no=1)} == {b""}
    assert vault.verify().ok
