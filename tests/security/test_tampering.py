"""Every edit at rest is refused by the reads that touch it, and `verify` names its place (K2, K4).

Invariants 6 and 16. One table: what somebody without keys does to the files, which reads must refuse it, what
`verify` says with and without keys. Every other read gives exactly what was written or refuses too, and never
anything else. Each edit is made twice: on a closed vault that is then opened, and behind an open one's back.
"""

# ruff: noqa: S608 - names in the statements are the tests' own

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security import surgery
from tests.security.edits import (
    Case,
    Edit,
    at,
    both,
    check_reads,
    check_report,
    exchanged,
    index_without,
    on_rows,
    outcomes,
    place_of,
    removed,
    session_row,
)
from tests.security.specimen import ALICE, Specimen, closed, made
from vault import Vault, new_event_id
from vault.errors import RolledBack, Tampered, VaultError
from vault.model import event_bytes, run_bytes, session_bytes
from vault.ports.records import BlobRow, EventRow, RunRow, SessionRow, VaultRow
from vault.sealing.rows import event_chain, event_header

WHOLE = {"events", "follow"}
EVERY = WHOLE | {"resume", "resume_external", "info", "find", "find labelled", "latest", "slice", "after"}
EVERY |= {"newest", "since", "open", "open 1", "open 5", "open 9"}
EVERY |= {
    f"{kind} {name}" for kind in ("type", "newest") for name in ("message.user", "note.made", "tool.returned")
}
EVERY |= {f"run {name}" for name in ("first", "second", "third")}


# --------------------------------------------------------------------------------------- the edits


def run_row(name: str) -> Callable:
    return lambda connection, made: {"session_no": made.no(connection), "run_id": run_bytes(made.runs[name])}


def blob_of(seq: int, session: str = "victim") -> Callable:
    return lambda connection, made: {"no": made.row(connection, seq, session)["blob_no"]}


def head_put_back(to: int, *, and_events: bool) -> Edit:
    """The genuine session row of the past, MAC and all; with ``and_events`` all since then is removed."""

    def change(connection, made):
        row = dict(made.past_session[to])
        surgery.update(connection, "sessions", {"no": row["no"]}, **row)
        if and_events:
            no = (row["no"],)
            connection.execute("DELETE FROM events WHERE session_no = ? AND seq > ?", (*no, to))
            connection.execute("DELETE FROM runs WHERE session_no = ?", no)
            for kept in made.past_runs[to]:
                surgery.insert(connection, "runs", kept)

    return on_rows(change)


def session_removed(*, trace: bool) -> Edit:
    """The session's row alone, or everything that belongs to it; its key row stays."""

    def change(connection, made):
        no = (made.no(connection),)
        connection.execute("DELETE FROM sessions WHERE no = ?", no)
        if not trace:
            for table in ("events", "runs", "labels", "blobs"):
                connection.execute(f"DELETE FROM {table} WHERE session_no = ?", no)

    return on_rows(change)


def forged(*, head: bool, gap: int = 0) -> Edit:
    """A further event with the right chain value; only MACs cannot be made."""

    def change(connection, made):
        last = made.row(connection, len(made.events))
        row = last | {"seq": last["seq"] + 1 + gap, "event_id": event_bytes(new_event_id())}
        row |= {"body": surgery.flipped(last["body"], 60), "type_nth": last["type_nth"] + 1}
        row["address"] = hashlib.sha256(row["body"]).digest()
        header = event_header(session_bytes(made.victim), EventRow(**row))
        row["chain"] = event_chain(last["chain"], header, row["salt"])
        surgery.insert(connection, "events", row)
        if head:
            values = {"head_seq": row["seq"], "head_chain": row["chain"]}
            surgery.update(connection, "sessions", {"no": row["session_no"]}, **values)

    return on_rows(change)


def repeated(place: int, **changes: int) -> Edit:
    def change(connection, made):
        row = made.row(connection, place)
        surgery.without_rules(connection, "events")
        surgery.insert(connection, "events", row | changes)

    return on_rows(change)


def taken_over(column: str, session: str) -> Edit:
    """The victim's row gets the owner or tenant of another session's."""

    def change(connection, made):
        query = f"SELECT {column} FROM sessions WHERE no = ?"
        (value,) = connection.execute(query, (made.no(connection, session),)).fetchone()
        surgery.update(connection, "sessions", {"no": made.no(connection)}, **{column: value})

    return on_rows(change)


def label_moved(connection, made):
    query = "UPDATE labels SET session_no = ? WHERE session_no = ?"
    connection.execute(query, (made.no(connection, "quiet"), made.no(connection)))


def runs_put_back(to: int) -> Callable:
    def change(connection, made):
        no = made.no(connection)
        connection.execute("DELETE FROM runs WHERE session_no = ?", (no,))
        for row in made.past_runs[to]:
            surgery.insert(connection, "runs", row)

    return change


def first_run_hidden(connection, made):
    """All events of the first run and the count that was kept of it."""
    query = "SELECT run_id FROM events WHERE session_no = :session_no AND seq = :seq"
    (run_id,) = connection.execute(query, made.slot(connection, 1)).fetchone()
    parameters = (made.no(connection), run_id)
    connection.execute("DELETE FROM events WHERE session_no = ? AND run_id = ?", parameters)
    connection.execute("DELETE FROM runs WHERE session_no = ? AND run_id = ?", parameters)


def wraps_exchanged(made: Specimen) -> None:
    with surgery.opened(made.place, "keys.db") as connection:
        scopes = [session_bytes(made.sessions[name]) for name in ("victim", "quiet")]
        query = "SELECT wrapped FROM keys WHERE scope = ?"
        wraps = [connection.execute(query, (scope,)).fetchone()[0] for scope in scopes]
        for scope, wrapped in zip(scopes, reversed(wraps), strict=True):
            connection.execute("UPDATE keys SET wrapped = ? WHERE scope = ?", (wrapped, scope))


def key_given_to_bob(made: Specimen) -> None:
    """The session and its key row both say that they are Bob's."""
    with surgery.opened(made.place) as connection:
        query = "SELECT owner FROM sessions WHERE no = ?"
        (owner,) = connection.execute(query, (made.no(connection, "bob"),)).fetchone()
        surgery.update(connection, "sessions", {"no": made.no(connection)}, owner=owner)
    with surgery.opened(made.place, "keys.db") as connection:
        surgery.update(connection, "keys", {"scope": session_bytes(made.victim)}, owner=owner)


def file_of(made: Specimen, seq: int, session: str = "victim") -> Path:
    with surgery.opened(made.place) as connection:
        name = made.row(connection, seq, session)["address"].hex()
    return made.place / "blobs" / name[:2] / name


def files_exchanged(made: Specimen) -> None:
    one, two = file_of(made, 3), file_of(made, 6)
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)


def file_changed(change: Callable[[bytes], bytes]) -> Edit:
    def edit(made: Specimen) -> None:
        file = file_of(made, 6)
        file.write_bytes(change(file.read_bytes()))

    return edit


PAYLOAD = ("body", "blob_no", "address", "size", "meta", "content")
SLOT = ("session_no", "seq", "event_id", "type_nth", "run_nth", "type", "run_id", "given_id")
SEALED = tuple(name for name in EventRow._fields if name not in SLOT)
NEIGHBOURS = WHOLE | {"slice"}
VICTIM = "{}"
HIDDEN = frozenset({"find", "find labelled", "latest", "resume_external"})

CASES = [
    Case(
        name="the sealed payloads of two events exchanged",
        edit=exchanged("events", ("body",), at(4), at(5)),
        refused=frozenset(WHOLE | {"slice", "type note.made", "newest note.made", "run second", "open 5"}),
        found=(("blob", "{} event 4 payload"), ("blob", "{} event 5 payload")),
        keyless=(("blob", "{} event 4 payload"), ("blob", "{} event 5 payload")),
    ),
    Case(
        name="all that says what two events hold exchanged",
        edit=exchanged("events", PAYLOAD, at(4), at(5)),
        refused=frozenset(WHOLE | {"slice", "type note.made", "newest note.made", "run second", "open 5"}),
        found=(("event_row", "{} event 4"), ("event_row", "{} event 5")),
        keyless=(("chain", "{} event 4"), ("chain", "{} event 5")),
    ),
    Case(
        name="all but the slots of two events exchanged, MACs too",
        edit=exchanged("events", SEALED, at(4), at(5)),
        refused=frozenset(WHOLE | {"slice", "type note.made", "newest note.made", "run second", "open 5"}),
        found=(("event_row", "{} event 4"), ("event_row", "{} event 5")),
        keyless=(("chain", "{} event 4"),),
    ),
    Case(
        name="two whole rows exchanged",
        edit=exchanged("events", tuple(n for n in EventRow._fields if n != "seq"), at(4), at(5)),
        refused=frozenset(WHOLE | {"slice", "type note.made", "newest note.made", "run second", "open 5"}),
        found=(("event_row", "{} event 4"), ("event_row", "{} event 5")),
        keyless=(("chain", "{} event 4"),),
    ),
    Case(
        name="two whole rows of different types exchanged",
        edit=exchanged("events", tuple(n for n in EventRow._fields if n != "seq"), at(1), at(2)),
        refused=frozenset(WHOLE | {"run first", "type note.made", "type message.user", "open 1"}),
        found=(("event_row", "{} event 1"), ("event_row", "{} event 2")),
        keyless=(("chain", "{} event 1"),),
    ),
    Case(
        name="a row of another session of the same person in a row's place",
        edit=exchanged("events", tuple(n for n in EventRow._fields if n not in SLOT), at(5), at(5, "twin")),
        refused=frozenset(WHOLE | {"slice", "type note.made", "newest note.made", "run second", "open 5"}),
        found=(("event_row", "{} event 5"),),
        keyless=(("chain", "{} event 5"),),
    ),
    Case(
        name="whole rows of two sessions exchanged",
        edit=exchanged(
            "events", tuple(n for n in EventRow._fields if n != "session_no"), at(5), at(5, "twin")
        ),
        refused=frozenset(WHOLE | {"slice", "type note.made", "newest note.made", "run second", "open 5"}),
        found=(("event_row", "{} event 5"),),
        keyless=(("chain", "{} event 5"),),
    ),
    Case(
        name="the blobs of two events exchanged",
        edit=exchanged("events", ("blob_no",), at(3), at(6)),
        refused=frozenset(),  # a payload in the blob area is fetched by its address; the number is a hint
        found=(("blob", "{} event 3 payload"), ("blob", "{} event 6 payload")),
        keyless=(("blob", "{} event 3 payload"), ("blob", "{} event 6 payload")),
    ),
    Case(
        name="the addresses of two blobs exchanged",
        edit=exchanged("blobs", ("address", "size"), blob_of(3), blob_of(6)),
        found=(("blob", "{} event 3 payload"), ("blob", "{} event 6 payload")),
        keyless=(("blob", "{} event 3 payload"), ("blob", "{} event 6 payload")),
    ),
    Case(
        name="the files of two blobs exchanged",
        edit=files_exchanged,
        refused=frozenset(
            WHOLE
            | {"slice", "after", "type tool.returned", "newest tool.returned", "run first", "run second"}
        ),
        found=(("blob", "{} event 3 payload"), ("blob", "{} event 6 payload")),
        keyless=(("blob", "{} event 3 payload"), ("blob", "{} event 6 payload")),
    ),
    *(
        Case(
            name=f"a blob's file {name}",
            edit=edit,
            refused=frozenset(
                WHOLE
                | {"slice", "after", "since", "newest", "type tool.returned", "newest tool.returned"}
                | {"run second", "open"}
            ),
            found=(("blob", "{} event 6 payload"),),
            keyless=(("blob", "{} event 6 payload"),),
        )
        for name, edit in {
            "changed in one bit": file_changed(lambda content: surgery.flipped(content, 40_000)),
            "cut short": file_changed(lambda content: content[:-1]),
            "cut at a chunk's end": file_changed(lambda content: content[: 57 + 4 * 16_400]),
            "longer": file_changed(lambda content: content + b"\x00"),
            "empty": file_changed(lambda _: b""),
            "gone": lambda made: file_of(made, 6).unlink(),
            "of another session": lambda made: file_of(made, 6).write_bytes(
                file_of(made, 6, "twin").read_bytes()
            ),
        }.items()
    ),
    Case(
        name="the first event removed",
        edit=removed(1),
        refused=frozenset(WHOLE | {"type message.user", "run first", "info", "find", "find labelled"}),
        found=(("removed", "{} events 1 to 1"),),
        keyless=(("removed", "{} events 1 to 1"),),
    ),
    Case(
        name="an event in the middle removed",
        edit=removed(5),
        refused=frozenset(
            WHOLE | {"slice", "after", "since", "type note.made", "newest note.made", "run second", "open 5"}
        ),
        found=(("removed", "{} events 5 to 5"),),
        keyless=(("removed", "{} events 5 to 5"),),
    ),
    Case(
        name="several events in the middle removed",
        edit=removed(4, 5, 6),
        refused=frozenset(
            WHOLE | {"slice", "after", "since", "type note.made", "type tool.returned", "run second"}
        ),
        found=(("removed", "{} events 4 to 6"),),
        keyless=(("removed", "{} events 4 to 6"),),
    ),
    Case(
        name="an event between two others of its type removed",
        edit=removed(7),
        refused=frozenset(
            WHOLE
            | {"slice", "after", "since", "newest", "type message.user", "newest message.user", "run first"}
        ),
        found=(("removed", "{} events 7 to 7"),),
        keyless=(("removed", "{} events 7 to 7"),),
    ),
    Case(
        name="the time of an event put back",
        edit=on_rows(
            lambda connection, made: surgery.update(
                connection, "events", made.slot(connection, 5), recorded_us=made.events[0].recorded_us
            )
        ),
        refused=frozenset(WHOLE | {"slice", "since", "type note.made", "run second", "open 5"}),
        found=(("event_row", "{} event 5"),),
        keyless=(("chain", "{} event 5"),),
    ),
    Case(
        name="the last event removed",
        edit=removed(9),
        refused=frozenset(
            WHOLE | {"newest", "type message.user", "newest message.user", "info", "find", "open 9"}
        ),
        found=(("head", VICTIM),),
        keyless=(("head", VICTIM),),
    ),
    Case(
        name="all events removed",
        edit=removed(*range(1, 10)),
        refused=frozenset(EVERY - {"resume", "resume_external", "latest"}) - {"latest"},
        found=(("head", VICTIM),),
        keyless=(("head", VICTIM),),
    ),
    Case(
        name="a session's head put back",
        edit=head_put_back(7, and_events=False),
        refused=frozenset(EVERY),
        found=(("behind_ledger", VICTIM), ("head", VICTIM)),
        keyless=(("behind_ledger", VICTIM), ("head", VICTIM)),
        opening=(RolledBack, "ends at event 7, 9 were recorded"),
    ),
    Case(
        name="the last events removed and the head put back to its genuine older row",
        edit=head_put_back(7, and_events=True),
        refused=frozenset(EVERY),
        found=(("behind_ledger", VICTIM),),
        keyless=(("behind_ledger", VICTIM),),
        opening=(RolledBack, "ends at event 7, 9 were recorded"),
    ),
    Case(
        name="a session put back to when it was empty",
        edit=head_put_back(0, and_events=True),
        refused=frozenset(EVERY),
        found=(("behind_ledger", VICTIM),),
        keyless=(("behind_ledger", VICTIM),),
        opening=(RolledBack, "ends at event 0, 9 were recorded"),
    ),
    Case(
        name="a session's row removed",
        edit=session_removed(trace=True),
        refused=frozenset(EVERY - {"resume_external", "find", "find labelled", "latest"}),
        found=(("behind_ledger", VICTIM), ("stray", "event of session number 2")),
        keyless=(("behind_ledger", VICTIM), ("stray", "event of session number 2")),
        opening=(RolledBack, "with 9 events is missing"),
        blind=HIDDEN,
    ),
    Case(
        name="a session removed without a trace in the database",
        edit=session_removed(trace=False),
        refused=frozenset(EVERY - {"resume_external", "find", "find labelled", "latest"}),
        found=(("behind_ledger", VICTIM),),
        keyless=(("behind_ledger", VICTIM),),
        opening=(RolledBack, "with 9 events is missing"),
        blind=HIDDEN,
    ),
    Case(
        name="a forged event appended",
        edit=forged(head=False),
        refused=frozenset(EVERY - {"resume_external"}),
        found=(("event_row", "{} event 10"), ("head", VICTIM)),
        keyless=(("head", VICTIM),),
    ),
    Case(
        name="a forged event placed further behind",
        edit=forged(head=False, gap=5),
        refused=frozenset(EVERY - {"resume_external"}),
        found=(("removed", "{} events 10 to 14"), ("event_row", "{} event 15")),
        keyless=(("removed", "{} events 10 to 14"),),
    ),
    Case(
        name="a forged event appended and the head moved to it",
        edit=forged(head=True),
        refused=frozenset(EVERY),
        found=(("session_row", VICTIM), ("event_row", "{} event 10")),
        keyless=(("behind_ledger", VICTIM),),
        opening=(RolledBack, "an older or another state"),
    ),
    Case(
        name="a row that stands twice",
        edit=repeated(5),
        refused=frozenset(WHOLE | {"slice", "after", "since", "type note.made", "run second"}),
        found=(("duplicate", "{} event 5"),),
        keyless=(("duplicate", "{} event 5"),),
    ),
    Case(
        name="an event repeated at the end",
        edit=repeated(5, seq=10),
        refused=frozenset(EVERY - {"resume_external"}),
        found=(("event_row", "{} event 10"), ("head", VICTIM)),
        keyless=(("chain", "{} event 10"), ("head", VICTIM)),
    ),
    Case(
        name="the last event that stands twice",
        edit=repeated(9),
        refused=frozenset(WHOLE | {"newest", "type message.user"}),
        found=(("duplicate", "{} event 9"),),
        keyless=(("duplicate", "{} event 9"),),
    ),
    Case(
        name="a session given to another owner",
        edit=taken_over("owner", "bob"),
        refused=frozenset(EVERY - {"resume_external", "find", "find labelled", "latest"}),
        found=(("session_row", VICTIM),),
        keyless=(("behind_ledger", VICTIM),),
        blind=HIDDEN,
        opening=(RolledBack, "is not its owner's"),
    ),
    Case(
        name="a session given to another tenant",
        edit=taken_over("tenant_id", "globex"),
        refused=frozenset(EVERY - {"resume_external", "find", "find labelled", "latest"}),
        found=(("session_row", VICTIM),),
        keyless=(("behind_ledger", VICTIM),),
        blind=HIDDEN,
        opening=(RolledBack, "is not its owner's"),
    ),
    Case(
        name="a session and its key given to another owner",
        edit=key_given_to_bob,
        found=(("session_row", VICTIM),),
        keyless=(("behind_ledger", VICTIM),),
        blind=frozenset(EVERY),
        opening=(RolledBack, "is not its owner's"),
    ),
    Case(
        name="a label's index moved to another session",
        edit=on_rows(label_moved),
        refused=frozenset({"find labelled", "latest"}),
        found=(("labels", VICTIM),),
        keyless=None,
    ),
    Case(
        name="a label's index removed",
        edit=on_rows(lambda connection, made: connection.execute("DELETE FROM labels")),
        found=(("labels", VICTIM),),
        keyless=None,
        blind=frozenset({"find labelled", "latest"}),
    ),
    Case(
        name="an index that leaves a session out",
        edit=on_rows(index_without("sessions_by_owner", "no <> {victim}")),
        found=(("database", "data.db"),),
        keyless=(("database", "data.db"),),
        blind=frozenset({"find", "find labelled", "latest"}),
    ),
    Case(
        name="a run's count changed",
        edit=on_rows(lambda connection, made: connection.execute("UPDATE runs SET written = written + 1")),
        refused=frozenset({"run first", "run second"}),
        found=(("run_row", VICTIM),),
        keyless=None,
    ),
    Case(
        name="the counts of two runs exchanged",
        edit=exchanged("runs", ("written",), run_row("first"), run_row("second")),
        refused=frozenset({"run first", "run second"}),
        found=(("run_row", VICTIM),),
        keyless=(("counts", VICTIM),),
    ),
    Case(
        name="an event of a run removed and the counts made to fit",
        edit=both(removed(7), exchanged("runs", ("written",), run_row("first"), run_row("second"))),
        refused=frozenset(WHOLE | {"type message.user", "run first", "run second"}),
        found=(("removed", "{} events 7 to 7"), ("run_row", VICTIM)),
        keyless=(("removed", "{} events 7 to 7"),),
    ),
    Case(
        name="a run's count removed",
        edit=on_rows(lambda connection, made: connection.execute("DELETE FROM runs")),
        refused=frozenset({"run first", "run second"}),
        found=(("counts", VICTIM),),
        keyless=(("counts", VICTIM),),
    ),
    Case(
        name="a run's count put back to its genuine older row",
        edit=on_rows(runs_put_back(7)),
        refused=frozenset({"run first"}),
        found=(("counts", VICTIM),),
        keyless=(("counts", VICTIM),),
    ),
    Case(
        name="all of a run removed, its count too",
        edit=on_rows(first_run_hidden),
        refused=frozenset(WHOLE | {"run first", "type message.user", "type note.made", "type tool.returned"}),
        found=(("removed", "{} events 1 to 3"), ("removed", "{} events 7 to 7")),
        keyless=(("removed", "{} events 1 to 3"), ("removed", "{} events 7 to 7")),
    ),
    Case(
        name="the key wraps of two sessions exchanged",
        edit=wraps_exchanged,
        found=(("session_row", VICTIM),),
        keyless=None,
    ),
]

BY_NAME = {case.name: case for case in CASES}
#: Keys already unwrapped in an open vault are the right ones: what is in keys.db matters to the next process.
ONLY_WHEN_OPENED = {
    "the key wraps of two sessions exchanged": EVERY - {"resume_external"},
}


# ---------------------------------------------------------------------------------------- the checks


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    home = tmp_path_factory.mktemp("original")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        return made(home)


@pytest.fixture
def specimen(original, tmp_path):
    """A copy to spoil; its machine's memory is where ``state_home`` looks."""
    return original.copied(tmp_path)


@pytest.mark.parametrize("name", BY_NAME)
def test_an_edit_of_a_closed_vault_is_refused(name, specimen):
    case = BY_NAME[name]
    case.edit(specimen)
    if case.opening is not None:
        with pytest.raises(case.opening[0]) as caught:
            Vault.open(specimen.place)
        assert specimen.victim in str(caught.value)
        assert case.opening[1] in str(caught.value)
        return
    vault = Vault.open(specimen.place)
    check_reads(vault, specimen, frozenset(ONLY_WHEN_OPENED.get(name, case.refused)), case.blind)
    check_report(vault, specimen, case.found, without_keys=False)
    if case.keyless is not None:
        check_report(vault, specimen, case.keyless, without_keys=True)
    closed(vault)


@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in ONLY_WHEN_OPENED])
def test_an_edit_behind_the_back_of_an_open_vault_is_refused(name, specimen):
    case = BY_NAME[name]
    vault = Vault.open(specimen.place)
    assert set(outcomes(vault, specimen).values()) == {"same"}
    case.edit(specimen)
    check_reads(vault, specimen, case.refused, case.blind)
    check_report(vault, specimen, case.found, without_keys=False)
    if case.keyless is not None:
        check_report(vault, specimen, case.keyless, without_keys=True)
    closed(vault)


def test_the_specimen_itself_is_read_as_it_was_written(specimen):
    with Vault.open(specimen.place) as vault:
        assert set(outcomes(vault, specimen).values()) == {"same"}
        assert vault.verify().ok
        assert vault.verify(without_keys=True).ok


def test_the_table_covers_every_way_of_reading(specimen):
    with Vault.open(specimen.place) as vault:
        assert set(specimen.calls(vault)) == EVERY


# ----------------------------------------------------------------------------- a byte in every column


def victims_event(connection, made):
    return made.slot(connection, 5)


def victims_blob(connection, made):
    return {"no": made.row(connection, 2)["blob_no"]}


def victims_run(connection, made):
    return {"session_no": made.no(connection), "run_id": made.past_runs[9][0]["run_id"]}


def touch_of(name, seq):
    """The entry of an effect under its resource; one under its subject may stand beside it."""

    def place(connection, made):
        query = "SELECT tag, recorded_us, session_no, seq FROM touches WHERE session_no = ? AND seq = ?"
        return surgery.rows_as_dicts(connection, query, made.no(connection, name), seq)[0]

    return place


TOUCH = ("tag", "recorded_us", "session_no", "seq")
#: What is changed: its table and columns, the row, the place that ``verify`` must name, and who reads it. A
#: name behind a table's says whose row it is: the victim has had no run and is no fork.
ROWS = {
    "vault": (VaultRow._fields, lambda connection, made: {}, "the vault's own row", "victim"),
    "sessions": (SessionRow._fields, session_row(), "{}", "victim"),
    "labels": (("label", "session_no"), lambda c, made: {"session_no": made.no(c)}, "{}", "victim"),
    "blobs": (BlobRow._fields, victims_blob, "{} event 2 payload", "victim"),
    "events": (EventRow._fields, victims_event, "{} event", "victim"),
    "runs": (RunRow._fields, victims_run, "{}", "victim"),
    "touches": (TOUCH, touch_of("branch", 11), "{branch}", "recovery"),
    "touches worker": (TOUCH, touch_of("worker", 5), "{worker}", "recovery"),
    "sessions branch": (SessionRow._fields, session_row("branch"), "{branch}", "recovery"),
    "sessions worker": (SessionRow._fields, session_row("worker"), "{worker}", "recovery"),
    "events worker": (EventRow._fields, at(5, "worker"), "{worker} event", "recovery"),
    "events branch": (EventRow._fields, at(11, "branch"), "{branch} event", "recovery"),
}
COLUMNS = [(rows, column) for rows, (columns, *_) in ROWS.items() for column in columns]
#: What may be missed when an index does not hold it; ``verify`` misses it never.
MAY_MISS = {
    "victim": {"sessions": HIDDEN, "labels": HIDDEN},
    "recovery": {
        "sessions": frozenset({"worker effects", "effect of the branch", "overtaken"}),
        "touches": frozenset({"overtaken"}),
    },
}


def may_miss(rows: str) -> frozenset[str]:
    return MAY_MISS[ROWS[rows][3]].get(rows.partition(" ")[0], frozenset())


def flip(made: Specimen, rows: str, column: str) -> None:
    table = rows.partition(" ")[0]
    with surgery.opened(made.place) as connection:
        place = ROWS[rows][1](connection, made)
        terms = " AND ".join(f"{name} IS :{name}" for name in place) or "true"
        (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE {terms}", place).fetchone()
        surgery.without_rules(connection, table)
        connection.execute(
            f"UPDATE {table} SET {column} = :value WHERE {terms}", place | {"value": in_the_middle(value)}
        )


def in_the_middle(value: object) -> object:
    return surgery.flipped(value, len(value) // 2 if isinstance(value, bytes | str) else 0)


def test_the_columns_are_all_there_are(specimen):
    with surgery.opened(specimen.place) as connection:
        stored = {
            (table, name) for table in surgery.TABLES for name in surgery.column_names(connection, table)
        }
    assert {(rows.partition(" ")[0], column) for rows, column in COLUMNS} == stored


@pytest.mark.parametrize(("rows", "column"), COLUMNS, ids=map(".".join, COLUMNS))
def test_a_flipped_byte_in_a_column_is_refused_and_found_at_its_place(rows, column, specimen):
    blind, reads = may_miss(rows), {"exactly": False, "of": ROWS[rows][3]}
    vault = Vault.open(specimen.place)
    flip(specimen, rows, column)
    check_reads(vault, specimen, frozenset(), blind, **reads)
    report = vault.verify()
    closed(vault)
    place = place_of(specimen, ROWS[rows][2])
    assert [finding for finding in report.findings if finding.place.startswith(place)], report.findings
    try:
        vault = Vault.open(specimen.place)
    except VaultError:
        return
    check_reads(vault, specimen, frozenset(), blind, **reads)
    closed(vault)


KINDS = ("text", "", b"bytes", b"", 1.5, 7, -1, 2**63 - 1, None)


@pytest.mark.parametrize(("rows", "column"), COLUMNS, ids=map(".".join, COLUMNS))
def test_a_value_of_another_kind_is_refused_in_the_vaults_own_words(rows, column, specimen):
    """A file whose rules were taken away can hold anything; no driver's and no Python error comes through."""
    blind, reads, table = may_miss(rows), {"exactly": False, "of": ROWS[rows][3]}, rows.partition(" ")[0]
    with surgery.opened(specimen.place) as connection:
        place = ROWS[rows][1](connection, specimen)
        terms = " AND ".join(f"{name} IS :{name}" for name in place) or "true"
        query = f"SELECT rowid FROM {table} WHERE {terms}"
        surgery.without_rules(connection, table)
        (number,) = connection.execute(query, place).fetchone()
    vault = Vault.open(specimen.place)
    for value in KINDS:
        with surgery.opened(specimen.place) as connection:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, number))
        check_reads(vault, specimen, frozenset(), blind, **reads)
        with contextlib.suppress(VaultError):
            vault.verify()
        with contextlib.suppress(VaultError):
            Vault.open(specimen.place).close()
    closed(vault)


def test_a_number_that_only_equals_the_epoch_is_refused(specimen):
    """0.0 finds the key that 0 does, and is no place in any context."""
    with surgery.opened(specimen.place) as connection:
        surgery.without_rules(connection, "sessions")
        connection.execute("UPDATE sessions SET epoch = 0.0")
    vault = Vault.open(specimen.place)
    check_reads(vault, specimen, frozenset(EVERY), frozenset())
    closed(vault)


def test_an_event_of_another_history_is_refused(original, tmp_path, monkeypatch):
    """Its row is genuine to the last bit; it only never followed the event that it stands behind."""
    rows, seq = [], len(original.events) + 1
    for number in range(2):  # what happens when an old copy goes on: one past, two futures
        copy = original.copied(tmp_path / str(number))
        monkeypatch.setenv("XDG_STATE_HOME", str(copy.home / "state"))
        vault = Vault.open(copy.place)
        session = vault.access(ALICE).sessions.resume(copy.victim)
        session.append("note.made", {"history": number})
        assert [event.payload for event in session.events()][-1] == {"history": number}
        with surgery.opened(copy.place) as connection:
            rows.append(copy.row(connection, seq))
            surgery.update(connection, "events", copy.slot(connection, seq), **rows[0])
        if number == 0:
            closed(vault)
    for read in (
        lambda: list(session.events()),
        lambda: list(session.events(limit=1, newest_first=True)),
        lambda: list(session.events(after=copy.events[-1].id)),
    ):
        with pytest.raises(Tampered):
            read()
    assert "head" in {finding.kind for finding in vault.verify(without_keys=True).findings}
    closed(vault)
