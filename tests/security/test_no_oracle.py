"""What was planted in the files is never vouched for by the vault's own next write (K2, K4)."""

# ruff: noqa: S608 - names in the statements are the tests' own

import contextlib
import sqlite3

import pytest

from tests.security import surgery
from tests.security.specimen import ALICE, BY_HAND, Specimen, closed, made
from vault import Vault, new_event_id
from vault.errors import Conflict, KeyUnavailable, NotFound, RolledBack, Tampered
from vault.ports.records import SessionRow

LONG = {"text": "a long payload, stored once however often it comes " + "x" * 3_000}
OTHER = {"text": "another long payload, which says something else " + "y" * 3_000}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    home = tmp_path_factory.mktemp("original")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        return made(home)


@pytest.fixture
def specimen(original, tmp_path):
    return original.copied(tmp_path)


def victim_of(vault: Vault, specimen: Specimen):
    return vault.access(ALICE).sessions.resume(specimen.victim)


def exchange(connection, columns, one, two):
    """Two rows of `blobs` exchange some columns."""
    query = "SELECT * FROM blobs WHERE no = ?"
    rows = [surgery.rows_as_dicts(connection, query, no)[0] for no in (one, two)]
    surgery.update(connection, "blobs", {"no": one}, content_id=bytes(16))  # unique, all the time
    for no, other in zip((two, one), rows, strict=True):
        surgery.update(connection, "blobs", {"no": no}, **{name: other[name] for name in columns})


@pytest.mark.parametrize(
    "columns",
    [("content_id",), ("content_id", "mac"), ("address", "size", "body"), ("address", "size", "body", "mac")],
    ids="+".join,
)
@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
def test_a_repeated_payload_never_becomes_another_one(columns, streamed, specimen, tmp_path):
    """The index that finds repeats is in the tamperer's hands; the log must not commit to what it says."""
    with Vault.open(specimen.place) as vault:
        session = victim_of(vault, specimen)

        def append(payload):
            if not streamed:
                return session.append("note.made", payload)
            file = tmp_path / "stream"
            file.write_text(repr(payload))
            with file.open("rb") as source:
                return session.append("note.made", raw=source)

        first, second = append(LONG), append(OTHER)
        assert append(LONG).payload_ref == first.payload_ref
        with surgery.opened(specimen.place) as connection:
            query = "SELECT blob_no FROM events WHERE session_no = ? AND seq = ?"
            numbers = [
                connection.execute(query, (specimen.no(connection), event.seq)).fetchone()[0]
                for event in (first, second)
            ]
            exchange(connection, columns, *numbers)
        for payload in (LONG, OTHER):
            try:
                event = append(payload)
            except Tampered:
                continue
            with session.open(event) as file:
                content = file.read()
            assert content == (repr(payload).encode() if streamed else surgery.json_of(payload))


def test_the_database_cannot_answer_a_repeat_with_another_genuine_blob(specimen):
    """The index leads to a row that is genuine, and not the one that was asked for."""
    with contextlib.closing(Vault.open(specimen.place)) as vault:
        session = victim_of(vault, specimen)
        session.append("note.made", LONG)
        session.append("note.made", OTHER)
        with surgery.opened(specimen.place) as connection:
            query = "SELECT no, content_id FROM blobs ORDER BY no DESC LIMIT 2"
            (two, of_two), (one, _) = connection.execute(query)
            lies = {two: bytes(16), one: of_two}
            surgery.lying_index(connection, "blobs", "blobs_by_content", "content_id", lies)
        with pytest.raises(Tampered):
            session.append("note.made", OTHER)


def test_a_retried_append_is_not_answered_with_what_was_planted(specimen):
    with Vault.open(specimen.place) as vault:
        session = victim_of(vault, specimen)
        event_id = new_event_id()
        event = session.append("note.made", {"n": 1}, event_id=event_id)
        with surgery.opened(specimen.place) as connection:
            row = specimen.row(connection, event.seq)
            body = surgery.flipped(row["body"], 70)
            surgery.update(connection, "events", specimen.slot(connection, event.seq), body=body)
        with pytest.raises(Tampered):
            session.append("note.made", {"n": 1}, event_id=event_id)


def test_a_retried_append_is_not_answered_with_another_event(specimen):
    """The index of given ids leads to another event of the same session, genuine in itself."""
    with contextlib.closing(Vault.open(specimen.place)) as vault:
        session = victim_of(vault, specimen)
        ids = [new_event_id(), new_event_id()]
        events = [session.append("note.made", {"n": 1}, event_id=event_id) for event_id in ids]
        with surgery.opened(specimen.place) as connection:
            # A view in the table's place: the database may answer anything to anything.
            columns = surgery.column_names(connection, "events")
            shown = ", ".join("asked AS event_id" if name == "event_id" else f"e.{name}" for name in columns)
            surgery.without_rules(connection, "events")
            connection.execute("ALTER TABLE events RENAME TO genuine")
            connection.execute("CREATE TABLE alias (asked, seq)")
            query = "SELECT event_id, seq FROM genuine WHERE session_no = ? AND seq >= ? ORDER BY seq"
            one, two = surgery.rows_as_dicts(connection, query, specimen.no(connection), events[0].seq)
            connection.execute("INSERT INTO alias VALUES (?, ?)", (two["event_id"], one["seq"]))
            connection.execute(
                f"CREATE VIEW events AS SELECT {shown} FROM genuine e JOIN alias a USING (seq)"
            )
        for call in (
            lambda: session.append("note.made", {"n": 1}, event_id=ids[1]),
            lambda: session.open(events[1]),
            lambda: list(session.events(after=ids[1])),
        ):
            with pytest.raises(Tampered):
                call()


def test_a_changed_vault_row_is_not_signed_anew_by_the_next_checkpoint(specimen):
    vault = Vault.open(specimen.place)
    with surgery.opened(specimen.place) as connection:
        connection.execute("UPDATE vault SET created_us = created_us + 1")
    victim_of(vault, specimen).append("note.made", {"n": 1})
    with pytest.raises(Tampered):
        vault.close()
    with pytest.raises(Tampered):
        Vault.open(specimen.place)


SESSION_COLUMNS = [name for name in SessionRow._fields if name != "no"]
TITLES = {"victim": "August sales", "worker": "Its work", "branch": "Another way"}


def change_in_the_session(specimen: Specimen, name: str, column: str) -> None:
    with surgery.opened(specimen.place) as connection:
        query = "SELECT * FROM sessions WHERE no = ?"
        (row,) = surgery.rows_as_dicts(connection, query, specimen.no(connection, name))
        surgery.update(connection, "sessions", {"no": row["no"]}, **{column: surgery.flipped(row[column])})


@pytest.mark.parametrize("name", TITLES)
@pytest.mark.parametrize("column", SESSION_COLUMNS)
def test_a_changed_session_row_is_refused_or_made_right_by_the_next_append(column, name, specimen):
    """The process's own view is what an append builds on; what was planted does not get a MAC."""
    vault = Vault.open(specimen.place)
    session = vault.access(ALICE).sessions.resume(specimen.sessions[name])
    expected = [*session.events(), session.append("note.made", {"n": 1})]
    change_in_the_session(specimen, name, column)
    with contextlib.suppress(Tampered):
        expected.append(session.append("note.made", {"n": 2}))
    try:
        read, title = list(session.events()), session.info().title
    except (Tampered, KeyUnavailable):
        read = None
    closed(vault)
    if read is not None:
        assert (read, title) == (expected, TITLES[name])


@pytest.mark.parametrize("column", SESSION_COLUMNS)
def test_a_changed_session_row_is_refused_or_made_right_by_what_a_run_writes_next(column, specimen):
    """S6: a run's own events, its checkpoint, its effects, what is posted to it, and its end"""
    vault = Vault.open(specimen.place)
    session = vault.access(ALICE).sessions.resume(specimen.sessions["branch"])
    run = session.run(checkpoints=BY_HAND)
    expected = list(session.events())
    change_in_the_session(specimen, "branch", column)
    for write in (
        lambda: [run.append("note.made", {"n": 1}, resource="crm/1")],
        lambda: [session.post("message.user", {"content": "Well?"})],
        lambda: [run.checkpoint()],
        lambda: run.effect("mail", "1", resource="crm/1").once(lambda _: 7) and [],
        run.renew,
        run.stop,
    ):
        with contextlib.suppress(Tampered, KeyUnavailable, NotFound, RolledBack):
            expected += write() or []
    try:
        read = list(session.events())
    except (Tampered, KeyUnavailable):
        read = None
    closed(vault)
    if read is not None:
        own = [event for event in read if not event.type.startswith(("effect.", "run."))]
        assert own == [event for event in expected if not event.type.startswith(("effect.", "run."))]


def test_a_lookup_of_effects_is_not_answered_with_rows_that_the_database_repeats(specimen):
    """C4: the counted bucket holds as many rows as it should, and one of them twice"""
    vault = Vault.open(specimen.place)
    session = vault.access(ALICE).sessions.resume(specimen.sessions["worker"])
    with surgery.opened(specimen.place) as connection:
        intended, committed = (specimen.row(connection, seq, "worker") for seq in (4, 5))
        surgery.without_rules(connection, "events")
        connection.execute(
            "DELETE FROM events WHERE session_no = :session_no AND seq = :seq",
            {name: committed[name] for name in ("session_no", "seq")},
        )
        surgery.insert(connection, "events", intended)
    with pytest.raises(Tampered, match="twice"):
        session.effects(kind="email.send", key="42")
    closed(vault)


@pytest.mark.parametrize(
    ("database", "event"),
    [
        ("data.db", "BEFORE UPDATE ON sessions"),
        ("data.db", "BEFORE INSERT ON events"),
        ("data.db", "BEFORE INSERT ON blobs"),
        ("data.db", "BEFORE INSERT ON sessions"),
        ("data.db", "BEFORE INSERT ON touches"),
        ("keys.db", "BEFORE INSERT ON keys"),
    ],
)
def test_a_write_that_a_planted_trigger_swallows_is_not_acknowledged(database, event, specimen):
    """L2: what was said to be stored is stored."""
    vault = Vault.open(specimen.place)
    session = victim_of(vault, specimen)
    connection = sqlite3.connect(specimen.place / database, isolation_level=None)
    connection.execute(f"CREATE TRIGGER swallow {event} BEGIN SELECT RAISE(IGNORE); END")
    connection.close()
    sessions = vault.access(ALICE).sessions
    run = session.run(checkpoints=BY_HAND) if event.endswith("touches") else None
    calls = {"keys": sessions.create, "sessions": sessions.create}
    calls["touches"] = lambda: run.effect("mail", "1", resource="crm/1").once(lambda _: 7)
    table = event.rpartition(" ")[2]
    with pytest.raises(Tampered):
        calls[table]() if "INSERT" in event and table in calls else session.append("note.made", LONG)
    closed(vault)


def test_a_run_whose_count_was_removed_is_not_counted_anew(specimen):
    first = specimen.runs["first"]
    with Vault.open(specimen.place) as vault:
        session = victim_of(vault, specimen)
        with surgery.opened(specimen.place) as connection:
            connection.execute("DELETE FROM runs")
        try:
            session.append("note.made", {"n": 1}, run=first)
        except Tampered:
            return
        with pytest.raises(Tampered):
            list(session.events(run=first))


def test_the_same_id_with_other_content_is_refused_even_when_the_stored_event_was_changed(specimen):
    """L7"""
    with Vault.open(specimen.place) as vault:
        session = victim_of(vault, specimen)
        event_id = new_event_id()
        session.append("note.made", {"n": 1}, event_id=event_id)
        with pytest.raises(Conflict):
            session.append("note.made", {"n": 2}, event_id=event_id)
