"""Edits of what runs, effects, checkpoints and forks go by are refused and named (K2, K4).

As `test_tampering` has them for a plain log. The worker and its two forks are what is spoilt and read. What
an index does not hold can be missed by a lookup that begins there; every other read refuses, and `verify`
names the place.
"""

# ruff: noqa: S608 - names in the statements are the tests' own

import contextlib
import json

import pytest

from tests.security import surgery
from tests.security.edits import (
    Case,
    at,
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
from tests.security.specimen import ALICE, BY_HAND, Specimen, closed, made
from vault import Vault
from vault.errors import Fenced, InDoubt, RolledBack, Tampered
from vault.ports.records import EventRow, SessionRow

BRANCHES = {"branch events", "branch state", "branch replay", "leaf events", "leaf state", "leaf replay"}
WORKER = {"worker events", "worker state", "worker replay"}
#: Reads of what the forks share with the worker, or of what leads through its log.
SHARED = BRANCHES | {"shared", "messages", "observed from the leaf"}
EFFECTS = {"worker effects", "worker effects of a kind"}
OF_BRANCH = BRANCHES - {"leaf events", "leaf state", "leaf replay"}
#: Everything that opens the row of the branch, or of a session below it.
THROUGH_BRANCH = BRANCHES | {"fork info", "shared", "both sides", "own", "own newest", "messages", "since"}
THROUGH_BRANCH |= {"run of the branch", "effect 42 from the branch", "observed from the leaf"}
FAMILY = EFFECTS | {"effect 42", "effect 43", "effect 42 from the branch", "effect of the branch"}
FAMILY |= {"overtaken"}
EVERY = WORKER | THROUGH_BRANCH | FAMILY
EVERY |= {"last effect", "checkpoint", "checkpoint of a run", "past state", "context", "observed"}
PAYLOAD = ("body", "blob_no", "address", "size", "meta", "content")


def event_changed(session: str, seq: int, **values):
    """Columns of one event, given as they are to be or as what makes them of what they were."""

    def change(connection, made):
        row = made.row(connection, seq, session)
        new = {name: value(row[name]) if callable(value) else value for name, value in values.items()}
        surgery.update(connection, "events", made.slot(connection, seq, session), **new)

    return on_rows(change)


def session_changed(session: str, **values):
    def change(connection, made):
        surgery.update(connection, "sessions", {"no": made.no(connection, session)}, **values)

    return on_rows(change)


def worker_put_back(moment: str, *, and_events: bool = False):
    """Its genuine row of the past, MAC and all; with ``and_events`` all that came later is removed."""

    def change(connection, made):
        row = made.past_worker[moment]
        surgery.update(connection, "sessions", {"no": row["no"]}, **row)
        if and_events:
            later = (row["no"], row["head_seq"])
            connection.execute("DELETE FROM touches WHERE session_no = ? AND seq > ?", later)
            connection.execute("DELETE FROM events WHERE session_no = ? AND seq > ?", later)

    return on_rows(change)


def touches_removed(connection, made):
    connection.execute("DELETE FROM touches WHERE session_no = ?", (made.no(connection, "branch"),))


def touch_planted(session: str, seq: int, *, recorded_us: int | None = None):
    """An entry that makes an event look like the newest effect on the customer."""

    def change(connection, made):
        tags = "SELECT tag FROM touches WHERE session_no = ? AND seq = 11"
        (tag,) = connection.execute(tags, (made.no(connection, "branch"),)).fetchone()
        stored = connection.execute(
            "SELECT recorded_us FROM events WHERE session_no = :session_no AND seq = :seq",
            made.slot(connection, seq, session),
        ).fetchone()
        surgery.without_rules(connection, "touches")
        row = {"tag": tag, "recorded_us": recorded_us or stored[0], **made.slot(connection, seq, session)}
        surgery.insert(connection, "touches", row)

    return on_rows(change)


def worker_removed(connection, made):
    connection.execute("DELETE FROM sessions WHERE no = ?", (made.no(connection, "worker"),))


CASES = [
    Case(
        name="an intention in doubt removed",
        edit=removed(8, session="worker"),
        refused=frozenset(WORKER | EFFECTS | {"effect 43", "context"}),
        found=(("removed", "{worker} events 8 to 8"),),
        keyless=(("removed", "{worker} events 8 to 8"),),
    ),
    Case(
        name="the newest fact of all removed",
        edit=removed(10, session="worker"),
        refused=frozenset(WORKER | {"context"}),
        found=(("head", "{worker}"),),
        keyless=(("head", "{worker}"),),
    ),
    Case(
        name="a committed fact removed",
        edit=removed(5, session="worker"),
        refused=frozenset(
            WORKER | SHARED | EFFECTS | {"effect 42", "effect 42 from the branch", "last effect"}
        )
        - {"messages", "observed from the leaf", "branch state"},
        found=(("removed", "{worker} events 5 to 5"), ("touch", "{worker} event 5")),
        keyless=(("removed", "{worker} events 5 to 5"), ("touch", "{worker} event 5")),
    ),
    Case(
        name="a committed fact that is no longer found by its effect",
        edit=event_changed("worker", 5, ref=None),
        refused=frozenset(EFFECTS | WORKER | {"effect 42", "effect 42 from the branch", "last effect"}),
        found=(("event_row", "{worker} event 5"),),
        keyless=(("chain", "{worker} event 5"),),
    ),
    Case(
        name="a committed fact found by another effect",
        edit=exchanged("events", ("ref",), at(5, "worker"), at(8, "worker")),
        refused=frozenset(EFFECTS | WORKER | {"effect 42", "effect 43", "last effect"}),
        found=(("event_row", "{worker} event 5"), ("event_row", "{worker} event 8")),
        keyless=(("chain", "{worker} event 5"), ("chain", "{worker} event 8")),
    ),
    Case(
        name="a committed fact made an intention",
        edit=event_changed("worker", 5, type="effect.intended"),
        refused=frozenset(EFFECTS | WORKER | {"effect 42", "effect 42 from the branch", "last effect"}),
        found=(("event_row", "{worker} event 5"), ("touch", "{worker} event 5")),
        keyless=(("chain", "{worker} event 5"), ("touch", "{worker} event 5")),
    ),
    Case(
        name="the facts of two effects exchanged, MACs too",
        edit=exchanged(
            "events",
            tuple(name for name in EventRow._fields if name not in {"session_no", "seq"}),
            at(4, "worker"),
            at(8, "worker"),
        ),
        refused=frozenset(EFFECTS | WORKER | {"effect 42", "effect 43"}),
        found=(("event_row", "{worker} event 4"), ("event_row", "{worker} event 8")),
        keyless=(("chain", "{worker} event 4"),),
    ),
    Case(
        name="an index that leaves an intention out",
        edit=on_rows(index_without("events_by_ref", "NOT (session_no = {worker} AND seq = 8)")),
        refused=frozenset(EFFECTS | {"effect 43"}),
        found=(("database", "data.db"),),
        keyless=(("database", "data.db"),),
    ),
    Case(
        name="an index that leaves a committed fact out",
        edit=on_rows(index_without("events_by_ref", "NOT (session_no = {worker} AND seq = 5)")),
        refused=frozenset(EFFECTS | {"effect 42", "effect 42 from the branch"}),
        found=(("database", "data.db"),),
        keyless=(("database", "data.db"),),
    ),
    Case(
        name="an index that leaves an observation out",
        edit=on_rows(index_without("events_by_ref", "NOT (session_no = {worker} AND seq = 3)")),
        refused=frozenset({"observed", "observed from the leaf"}),
        found=(("database", "data.db"),),
        keyless=(("database", "data.db"),),
    ),
    Case(
        name="when an observation was made changed",
        edit=exchanged("events", ("meta",), at(3, "worker"), at(4, "worker")),
        refused=frozenset(WORKER | {"observed", "observed from the leaf"}),
        found=(("event_row", "{worker} event 3"),),
        keyless=(("chain", "{worker} event 3"),),
    ),
    Case(
        name="the state of a checkpoint changed",
        edit=event_changed("worker", 7, body=lambda body: surgery.flipped(body, 100)),
        refused=frozenset(WORKER | {"checkpoint", "checkpoint of a run", "past state", "leaf state"}),
        found=(("blob", "{worker} event 7 payload"),),
        keyless=(("blob", "{worker} event 7 payload"),),
    ),
    Case(
        name="the states of two checkpoints exchanged",
        edit=exchanged("events", PAYLOAD, at(7, "worker"), at(12, "branch")),
        refused=frozenset(WORKER | {"checkpoint", "branch state", "leaf state", "past state"}),
        found=(("event_row", "{worker} event 7"), ("event_row", "{branch} event 12")),
        keyless=(("chain", "{worker} event 7"), ("chain", "{branch} event 12")),
    ),
    Case(
        name="a checkpoint removed",
        edit=removed(7, session="worker"),
        refused=frozenset(
            WORKER | BRANCHES | {"checkpoint", "checkpoint of a run", "past state", "both sides"}
        ),
        found=(("removed", "{worker} events 7 to 7"), ("fork", "{branch}")),
        keyless=(("removed", "{worker} events 7 to 7"), ("fork", "{branch}")),
    ),
    Case(
        name="a message that was posted to a run removed",
        edit=removed(6, session="worker"),
        refused=frozenset(WORKER | BRANCHES | {"messages", "both sides"}) - {"branch state"},
        found=(("removed", "{worker} events 6 to 6"),),
        keyless=(("removed", "{worker} events 6 to 6"),),
    ),
    Case(
        name="the lease given to another session's run",
        edit=exchanged("sessions", ("lease",), session_row("worker"), session_row("branch")),
        refused=frozenset(EVERY),
        found=(("session_row", "{worker}"), ("session_row", "{branch}")),
        keyless=None,
    ),
    Case(
        name="the lease taken away",
        edit=session_changed("worker", lease=b""),
        refused=frozenset(EVERY),
        found=(("session_row", "{worker}"),),
        keyless=None,
    ),
    Case(
        name="a session put back to its first run, which holds the lease again",
        edit=worker_put_back("its first run", and_events=True),
        refused=frozenset(EVERY),
        found=(("behind_ledger", "{worker}"), ("fork", "{branch}")),
        keyless=(("behind_ledger", "{worker}"), ("fork", "{branch}")),
        opening=(RolledBack, "ends at event 1, 10 were recorded"),
    ),
    Case(
        name="a session's row put back to before its second run",
        edit=worker_put_back("between its runs"),
        refused=frozenset(EVERY),
        found=(("behind_ledger", "{worker}"), ("head", "{worker}")),
        keyless=(("behind_ledger", "{worker}"), ("head", "{worker}")),
        opening=(RolledBack, "ends at event 9, 10 were recorded"),
    ),
    Case(
        name="a fork made a session of its own",
        edit=session_changed("branch", forked_from=None),
        refused=frozenset(THROUGH_BRANCH),
        found=(("session_row", "{branch}"), ("chain", "{branch} event 8")),
        keyless=(("chain", "{branch} event 8"),),
        blind=frozenset({"worker effects", "effect of the branch"}),
    ),
    Case(
        name="a fork that shares less",
        edit=session_changed("branch", base_seq=6),
        refused=frozenset(THROUGH_BRANCH | FAMILY),
        found=(("session_row", "{branch}"), ("fork", "{branch}")),
        keyless=(("fork", "{branch}"), ("removed", "{branch} events 7 to 7")),
    ),
    Case(
        name="a fork that shares more",
        edit=session_changed("branch", base_seq=8),
        refused=frozenset(THROUGH_BRANCH | FAMILY),
        found=(("session_row", "{branch}"), ("fork", "{branch}")),
        keyless=(("fork", "{branch}"), ("duplicate", "{branch} event 8")),
    ),
    Case(
        name="what two forks share exchanged",
        edit=exchanged(
            "sessions",
            ("forked_from", "base_seq", "base_chain"),
            session_row("branch"),
            session_row("leaf"),
        ),
        refused=frozenset(THROUGH_BRANCH | FAMILY),
        found=(("session_row", "{branch}"), ("session_row", "{leaf}")),
        keyless=(("duplicate", "{branch} event 8"), ("removed", "{leaf} events 8 to 9")),
    ),
    Case(
        name="an event that a fork shares removed",
        edit=removed(2, session="worker"),
        refused=frozenset(WORKER | SHARED | {"context", "past state"})
        - {"observed from the leaf", "branch state"},
        found=(("removed", "{worker} events 2 to 2"),),
        keyless=(("removed", "{worker} events 2 to 2"),),
    ),
    Case(
        name="a session that others were forked from removed",
        edit=on_rows(worker_removed),
        refused=frozenset(EVERY),
        found=(("behind_ledger", "{worker}"), ("fork", "{branch}")),
        keyless=(("behind_ledger", "{worker}"), ("fork", "{branch}")),
        opening=(RolledBack, "with 10 events is missing"),
    ),
    Case(
        name="an event of a fork removed",
        edit=removed(9, session="branch"),
        refused=frozenset(BRANCHES | {"both sides", "own", "messages", "run of the branch"}),
        found=(("removed", "{branch} events 9 to 9"), ("fork", "{leaf}")),
        keyless=(("removed", "{branch} events 9 to 9"), ("fork", "{leaf}")),
    ),
    Case(
        name="an index that leaves a fork out",
        edit=on_rows(index_without("sessions_by_fork", "no <> {branch}")),
        found=(("database", "data.db"),),
        keyless=(("database", "data.db"),),
        blind=frozenset({"worker effects", "effect of the branch", "overtaken"}),
    ),
    Case(
        name="what a fork changed in the world removed from its index",
        edit=on_rows(touches_removed),
        found=(("touch", "{branch} event 11"),),
        keyless=None,
        blind=frozenset({"overtaken"}),
    ),
    Case(
        name="a change in the world planted, of an event that is no effect",
        edit=touch_planted("branch", 9),
        refused=frozenset({"overtaken"}),
        found=(("touch", "{branch} event 9"),),
        keyless=(("touch", "{branch} event 9"),),
    ),
    Case(
        name="a change in the world planted, of an effect on something else",
        edit=touch_planted("leaf", 12),
        refused=frozenset({"overtaken"}),
        found=(("touch", "{leaf} event 12"),),
        keyless=None,
    ),
    Case(
        name="a change in the world planted, right behind a log's end",
        edit=touch_planted("branch", 14, recorded_us=2**52),
        refused=frozenset({"overtaken"}),
        found=(("touch", "{branch} event 14"),),
        keyless=(("touch", "{branch} event 14"),),
    ),
    Case(
        name="a change in the world planted, further behind a log's end",
        edit=touch_planted("branch", 99, recorded_us=2**52),
        refused=frozenset({"overtaken"}),
        found=(("touch", "{branch} event 99"),),
        keyless=(("touch", "{branch} event 99"),),
    ),
    Case(
        name="a change in the world planted at another time",
        edit=touch_planted("leaf", 12, recorded_us=2**52),
        refused=frozenset({"overtaken"}),
        found=(("touch", "{leaf} event 12"),),
        keyless=(("touch", "{leaf} event 12"),),
    ),
]
BY_NAME = {case.name: case for case in CASES}


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


def check(vault: Vault, specimen: Specimen, case: Case) -> None:
    check_reads(vault, specimen, case.refused, case.blind, of="recovery")
    check_report(vault, specimen, case.found, without_keys=False)
    if case.keyless is not None:
        check_report(vault, specimen, case.keyless, without_keys=True)


@pytest.mark.parametrize("name", BY_NAME)
def test_an_edit_of_a_closed_vault_is_refused(name, specimen):
    """C2, C4, S1, S3, S4, S6"""
    case = BY_NAME[name]
    case.edit(specimen)
    if case.opening is not None:
        with pytest.raises(case.opening[0]) as caught:
            Vault.open(specimen.place)
        assert specimen.sessions["worker"] in str(caught.value)
        assert case.opening[1] in str(caught.value)
        return
    vault = Vault.open(specimen.place)
    check(vault, specimen, case)
    closed(vault)


@pytest.mark.parametrize("name", BY_NAME)
def test_an_edit_behind_the_back_of_an_open_vault_is_refused(name, specimen):
    """C2, C4, S1, S3, S4, S6"""
    case = BY_NAME[name]
    vault = Vault.open(specimen.place)
    assert set(outcomes(vault, specimen, "recovery").values()) == {"same"}
    case.edit(specimen)
    check(vault, specimen, case)
    closed(vault)


def test_the_specimen_itself_is_read_as_it_was_written(specimen):
    with Vault.open(specimen.place) as vault:
        assert set(outcomes(vault, specimen, "recovery").values()) == {"same"}
        assert set(specimen.recovery_calls(vault)) == EVERY


def test_the_specimen_has_something_in_every_column(specimen):
    """Else flipping what is empty would prove little."""
    with surgery.opened(specimen.place) as connection:
        for column in SessionRow._fields:
            query = f"SELECT count(*) FROM sessions WHERE {column} NOT IN (x'', '', 0)"
            (count,) = connection.execute(query).fetchone()
            assert count or column in {"ended_us", "epoch", "renewed"}, column  # the last: test_reencrypt.py
        for name in ("branch", "leaf"):
            query = "SELECT lease, forked_from, base_seq, base_chain FROM sessions WHERE no = ?"
            assert all(connection.execute(query, (specimen.no(connection, name),)).fetchone())
        assert connection.execute("SELECT count(*) FROM touches").fetchone()[0] >= 4


# --------------------------------------------------------------------- what writes next is not misled


def sessions_of(vault: Vault):
    return vault.access(ALICE).sessions


EDITS_OF_EFFECTS = {
    name: BY_NAME[name].edit
    for name in (
        "a committed fact removed",
        "a committed fact that is no longer found by its effect",
        "a committed fact found by another effect",
        "a committed fact made an intention",
        "an index that leaves a committed fact out",
    )
}


@pytest.mark.parametrize("session", ["worker", "branch", "leaf"])
@pytest.mark.parametrize("name", EDITS_OF_EFFECTS)
def test_an_effect_whose_fact_was_hidden_is_not_carried_out_again(name, session, specimen):
    """C4, S4: in no branch"""
    vault = Vault.open(specimen.place)
    run = sessions_of(vault).resume(specimen.sessions[session]).run(checkpoints=BY_HAND)
    assert run.effect("email.send", "42").once(lambda _: pytest.fail("again")) == {"id": "m-1"}
    EDITS_OF_EFFECTS[name](specimen)
    with pytest.raises(Tampered):
        run.effect("email.send", "42").once(lambda _: pytest.fail("again"))
    with pytest.raises(Tampered):
        run.effect("email.send", "42").intend()
    closed(vault)


@pytest.mark.parametrize("session", ["worker", "branch"])
@pytest.mark.parametrize("name", ["an intention in doubt removed", "an index that leaves an intention out"])
def test_an_effect_whose_intention_was_hidden_is_not_taken_for_a_new_one(name, session, specimen):
    """C4, S4"""
    vault = Vault.open(specimen.place)
    run = sessions_of(vault).resume(specimen.sessions[session]).run(checkpoints=BY_HAND)
    with pytest.raises(InDoubt):
        run.effect("email.send", "43").once(lambda _: pytest.fail("again"))
    BY_NAME[name].edit(specimen)
    with pytest.raises(Tampered):
        run.effect("email.send", "43").once(lambda _: pytest.fail("again"))
    closed(vault)


INTENTION = {"kind": "email.send", "key": "44"}


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda session: session.run(), id="run"),
        pytest.param(lambda session: session.append("note.made", 1, expect_head=10), id="append"),
        pytest.param(
            lambda session: session.append("effect.intended", {"kind": "a", "key": "b"}), id="intend"
        ),
        pytest.param(lambda session: session.stop(), id="stop"),
        pytest.param(lambda session: session.end(), id="end"),
    ],
)
@pytest.mark.parametrize("column", ["lease", "forked_from", "base_seq", "base_chain"])
def test_a_changed_row_is_never_what_a_run_or_an_end_builds_on(column, write, specimen):
    """S6, S1: the stored row decides, and it must verify"""
    vault = Vault.open(specimen.place)
    session = sessions_of(vault).resume(specimen.sessions["worker"])
    with surgery.opened(specimen.place) as connection:
        query = "SELECT * FROM sessions WHERE no = ?"
        (row,) = surgery.rows_as_dicts(connection, query, specimen.no(connection, "worker"))
        surgery.update(connection, "sessions", {"no": row["no"]}, **{column: surgery.flipped(row[column])})
    with pytest.raises(Tampered):
        write(session)
    with contextlib.closing(surgery.connected(specimen.place)) as connection:
        (after,) = surgery.rows_as_dicts(connection, query, row["no"])
    assert after == row | {column: surgery.flipped(row[column])}
    closed(vault)


def test_a_run_that_lost_its_lease_does_not_get_it_back_by_planting_it(specimen):
    """S6: neither alone nor under the MAC that it had"""
    with Vault.open(specimen.place) as vault, Vault.open(specimen.place) as elsewhere:
        session = sessions_of(vault).create()
        late = session.run(checkpoints=BY_HAND)
        late.append("note.made", 1)
        specimen.sessions["new"] = session.id
        with contextlib.closing(surgery.connected(specimen.place)) as connection:
            query = "SELECT lease, mac FROM sessions WHERE no = ?"
            held = connection.execute(query, (specimen.no(connection, "new"),)).fetchone()
        sessions_of(elsewhere).resume(session.id).stop()
        with pytest.raises(Fenced):
            late.append("note.made", 2)
        sessions_of(elsewhere).resume(session.id).append("note.made", 3)
        seen = [event.payload for event in session.events(types=["note.made"])]
        session_changed("new", lease=held[0])(specimen)
        with pytest.raises(Tampered):
            late.append("note.made", 4)
        session_changed("new", mac=held[1])(specimen)
        with pytest.raises(Tampered):
            late.append("note.made", 5)
        assert seen == [1, 3]
        with contextlib.suppress(Tampered):
            late.stop()
        report = vault.verify()
        assert place_of(specimen, "{new}") in {finding.place for finding in report.findings}
        with surgery.opened(specimen.place) as connection:  # so that the vault can be closed in peace
            for table in ("touches", "labels", "events", "sessions"):
                column = "no" if table == "sessions" else "session_no"
                connection.execute(
                    f"DELETE FROM {table} WHERE {column} = ?", (specimen.no(connection, "new"),)
                )


def test_a_fork_that_goes_on_after_the_ledger_saw_it_empty_is_no_roll_back(specimen, monkeypatch):
    """S1, K4: its own log begins behind what it shares"""
    vault = Vault.open(specimen.place)
    fork = sessions_of(vault).fork(specimen.sessions["worker"])
    vault.checkpoint()
    fork.append("note.made", 1)
    assert vault.verify().ok
    with Vault.open(specimen.place) as again:  # as after a crash: nobody has recorded the newest head
        assert [event.seq for event in sessions_of(again).resume(fork.id).events()] == list(range(1, 12))
        assert again.verify().ok
    vault.close()


@pytest.mark.parametrize("part", ["types", "refs"])
def test_counts_of_what_events_are_about_are_held_against_the_log(part, specimen):
    """C4, K4: by whoever has no keys, too"""
    with contextlib.closing(surgery.connected(specimen.place)) as connection:
        no = specimen.no(connection, "worker")
        ((tails,),) = connection.execute("SELECT tails FROM sessions WHERE no = ?", (no,)).fetchall()
        counts = json.loads(tails)
        counts[part][min(counts[part])] += 1
        changed = json.dumps(counts, sort_keys=True, separators=(",", ":")).encode()
        connection.execute("UPDATE sessions SET tails = ? WHERE no = ?", (changed, no))
    vault = Vault.open(specimen.place)
    check_reads(vault, specimen, frozenset(EVERY), frozenset(), of="recovery")
    check_report(vault, specimen, (("session_row", "{worker}"),), without_keys=False)
    check_report(vault, specimen, (("counts", "{worker}"),), without_keys=True)
    closed(vault)
