"""What somebody without keys does to a fork or to what it shares is refused or found (K2, K4, S1)."""

import contextlib
import shutil
from dataclasses import dataclass

import pytest

from tests.security import surgery
from tests.security.conftest import ALICE
from vault import NewEvent, Trigger, Vault
from vault.errors import RolledBack, Tampered, VaultError
from vault.model import session_bytes

NEVER = Trigger(after_tool=False, every_events=None, every_seconds=None)
SETTINGS = {"synchronous": "NORMAL", "ledger_every": 1_000}


@dataclass(kw_only=True)
class Family:
    """An original of 8 events, a fork at its 5th with 3 of its own, and a fork of that at its 7th."""

    place: object
    original: str
    fork: str
    deep: str
    stranger: str
    logs: dict

    def row(self, connection, session_id):
        query = "SELECT * FROM sessions WHERE session_id = ?"
        (row,) = surgery.rows_as_dicts(connection, query, session_bytes(session_id))
        return row


def talk(session, count, word):
    return session.append_many(
        NewEvent(type="message.user" if n % 2 else "note.made", payload={"content": f"{word} {n}"})
        for n in range(count)
    )


@pytest.fixture
def family(place):
    with Vault.create(place, settings=SETTINGS) as vault:
        alice = vault.access(ALICE).sessions
        original = alice.create(title="original")
        log = talk(original, 8, "original")
        fork = alice.fork(original.id, at=log[4].id)
        forked = log[:5] + talk(fork, 3, "fork")
        deep = alice.fork(fork.id, at=forked[6].id)
        deeper = forked[:7] + talk(deep, 2, "deep")
        stranger = alice.create(title="stranger")
        talk(stranger, 8, "stranger")
        logs = {original.id: log, fork.id: forked, deep.id: deeper}
        assert vault.verify().ok
        return Family(
            place=place, original=original.id, fork=fork.id, deep=deep.id, stranger=stranger.id, logs=logs
        )


def reads_of(vault, session_id, log):
    """Ways of reading all that the session shares and has; each must refuse or be exact."""
    sessions = vault.access(ALICE).sessions

    def session():
        return sessions.resume(session_id)

    return {
        "events": lambda: list(session().events()),
        "backwards": lambda: list(session().events(limit=50, newest_first=True))[::-1],
        "by type": lambda: sorted(
            [*session().events(types=["message.user"]), *session().events(types=["note.made"])],
            key=lambda event: event.seq,
        ),
        "both types": lambda: list(session().events(types=["message.user", "note.made"])),
        "slice": lambda: list(session().slice(log[0].id, log[-1].id)),
        "follow": lambda: list(session().follow(idle_seconds=0)),
        "replay": lambda: [step.event for step in session().replay()],
        "since": lambda: list(session().events(since=log[0].recorded_at)),
    }


def refused(vault, family, session_id):
    """All reads of a session refuse."""
    for name, read in reads_of(vault, session_id, family.logs[session_id]).items():
        with pytest.raises(Tampered):
            pytest.fail(f"{name}: {read()}")


def refused_or_exact(vault, family, session_id):
    """No read gives anything but what was written; whether all of them do."""
    exact = True
    for name, read in reads_of(vault, session_id, family.logs[session_id]).items():
        try:
            assert read() == family.logs[session_id], name
        except Tampered:
            exact = False
    return exact


@contextlib.contextmanager
def reopened(family):
    vault = Vault.open(family.place)
    try:
        yield vault
    finally:
        with contextlib.suppress(VaultError):
            vault.close()


def flip(name, at=3):
    return lambda connection, family, row: {name: surgery.flipped(row[name], at)}


def of_another(name, whose):
    def change(connection, family, row):
        return {name: family.row(connection, getattr(family, whose))[name]}

    return change


ROWS = {
    "another-ancestor": lambda connection, family, row: {"forked_from": session_bytes(family.stranger)},
    "its-ancestors-ancestor": lambda connection, family, row: {"forked_from": session_bytes(family.original)},
    "no-ancestor": lambda connection, family, row: {"forked_from": None},
    "itself": lambda connection, family, row: {"forked_from": row["session_id"]},
    "no-session": lambda connection, family, row: {"forked_from": b"\x01" * 16},
    "ancestor-of-another-length": lambda connection, family, row: {"forked_from": b"\x01"},
    "an-earlier-place": lambda connection, family, row: {"base_seq": row["base_seq"] - 1},
    "a-later-place": lambda connection, family, row: {"base_seq": row["base_seq"] + 1},
    "no-place": lambda connection, family, row: {"base_seq": 0},
    "a-negative-place": lambda connection, family, row: {"base_seq": -1},
    "another-chain-value": flip("base_chain"),
    "the-chain-value-of-a-branch": of_another("base_chain", "fork"),
    "no-chain-value": lambda connection, family, row: {"base_chain": b""},
    "no-fork-at-all": lambda connection, family, row: {
        "forked_from": None,
        "base_seq": 0,
        "base_chain": b"",
    },
}


@pytest.mark.parametrize("name", list(ROWS))
@pytest.mark.parametrize("opened_before", [True, False], ids=["behind-its-back", "while-closed"])
def test_a_fork_that_is_told_to_share_something_else_is_refused(family, name, opened_before):
    """K2"""
    with contextlib.ExitStack() as stack:
        vault = stack.enter_context(reopened(family)) if opened_before else None
        with surgery.opened(family.place) as connection:
            row = family.row(connection, family.deep)
            surgery.update(connection, "sessions", {"no": row["no"]}, **ROWS[name](connection, family, row))
        vault = vault or stack.enter_context(reopened(family))
        refused(vault, family, family.deep)
        assert refused_or_exact(vault, family, family.fork)
        with pytest.raises(Tampered):
            vault.access(ALICE).sessions.fork(family.deep)
        report = vault.verify()
        assert any(finding.kind == "session_row" for finding in report.findings)
        assert any(family.deep in finding.place for finding in report.findings)
        if name not in {"a-negative-place", "ancestor-of-another-length"}:
            assert not vault.verify(without_keys=True).ok


@pytest.mark.parametrize("seq", [1, 3, 5])
@pytest.mark.parametrize("opened_before", [True, False], ids=["behind-its-back", "while-closed"])
def test_a_shared_event_that_is_removed_is_missed_by_every_branch(family, seq, opened_before):
    """K2: one below the fork point, and the fork point itself"""
    with contextlib.ExitStack() as stack:
        vault = stack.enter_context(reopened(family)) if opened_before else None
        with surgery.opened(family.place) as connection:
            no = family.row(connection, family.original)["no"]
            connection.execute("DELETE FROM events WHERE session_no = ? AND seq = ?", (no, seq))
        vault = vault or stack.enter_context(reopened(family))
        refused(vault, family, family.original)
        refused(vault, family, family.fork)
        refused(vault, family, family.deep)
        places = {finding.place for finding in vault.verify().findings}
        assert f"{family.original} events {seq} to {seq}" in places
        assert not vault.verify(without_keys=True).ok


def test_a_shared_event_that_is_exchanged_for_one_of_another_session_is_refused(family):
    """K2"""
    with surgery.opened(family.place) as connection:
        one, two = (family.row(connection, name)["no"] for name in (family.original, family.stranger))
        query = "SELECT * FROM events WHERE session_no = ? AND seq = 3"
        (row,) = surgery.rows_as_dicts(connection, query, two)
        connection.execute("DELETE FROM events WHERE seq = 3 AND session_no IN (?, ?)", (one, two))
        surgery.insert(connection, "events", row | {"session_no": one})
    with reopened(family) as vault:
        refused(vault, family, family.fork)
        refused(vault, family, family.deep)
        assert not vault.verify().ok


def test_an_event_behind_the_fork_point_that_is_changed_leaves_the_fork_as_it_was(family):
    """S1: the fork shares nothing of it"""
    with surgery.opened(family.place) as connection:
        no = family.row(connection, family.original)["no"]
        query = "SELECT body FROM events WHERE session_no = ? AND seq = 8"
        (body,) = connection.execute(query, (no,)).fetchone()
        surgery.update(
            connection, "events", {"session_no": no, "seq": 8}, body=surgery.flipped(body, len(body) - 1)
        )
    with reopened(family) as vault:
        assert refused_or_exact(vault, family, family.fork)
        assert refused_or_exact(vault, family, family.deep)
        assert not refused_or_exact(vault, family, family.original)


def test_the_first_event_of_a_fork_does_not_follow_another_history(family):
    """K2: its chain begins with what it shares"""
    with reopened(family) as vault:
        alice = vault.access(ALICE).sessions
        log = family.logs[family.original]
        twin = alice.fork(family.original, at=log[4].id)
        talk(twin, 3, "twin")
    with surgery.opened(family.place) as connection:
        one, two = (family.row(connection, name)["no"] for name in (family.fork, twin.id))
        query = "SELECT * FROM events WHERE session_no = ?"
        rows = surgery.rows_as_dicts(connection, query, two)
        connection.execute("DELETE FROM events WHERE session_no IN (?, ?)", (one, two))
        for row in rows:
            surgery.insert(connection, "events", row | {"session_no": one})
    with reopened(family) as vault:
        for session_id in (family.fork, family.deep):
            refused(vault, family, session_id)


# --------------------------------------------------------------------------------------- an older ancestor


@pytest.fixture
def rolled_back(place, state_home):
    """An original whose row, events and the ledger's view of it are put back to before the fork point."""
    with Vault.create(place, settings=SETTINGS) as vault:
        original = vault.access(ALICE).sessions.create(title="original")
        log = talk(original, 3, "early")
    with surgery.opened(place) as connection:
        (vault_row,) = surgery.rows_as_dicts(connection, "SELECT * FROM vault")
        query = "SELECT * FROM sessions WHERE session_id = ?"
        (old,) = surgery.rows_as_dicts(connection, query, session_bytes(original.id))
    for name, source in (("ledger", place / "ledger"), ("state", state_home)):
        shutil.copytree(source, place.parent / f"old.{name}")
    with Vault.open(place) as vault:
        alice = vault.access(ALICE).sessions
        log += talk(alice.resume(original.id), 4, "late")
        fork = alice.fork(original.id, at=log[4].id)
        forked = log[:5] + talk(fork, 2, "fork")
        deep = alice.fork(fork.id)
        deeper = forked + talk(deep, 1, "deep")

    def put_back(*, ledger):
        with surgery.opened(place) as connection:
            surgery.update(connection, "sessions", {"no": old["no"]}, **old)
            connection.execute("DELETE FROM events WHERE session_no = ? AND seq > 3", (old["no"],))
            if ledger:
                surgery.update(connection, "vault", {"vault_id": vault_row["vault_id"]}, **vault_row)
        if ledger:
            surgery.copied(place.parent / "old.ledger", place / "ledger")
            surgery.copied(place.parent / "old.state", state_home)

    logs = {original.id: log, fork.id: forked, deep.id: deeper}
    family = Family(
        place=place, original=original.id, fork=fork.id, deep=deep.id, stranger=original.id, logs=logs
    )
    return family, put_back


def test_an_older_ancestor_is_refused_by_who_saw_the_newer_one(rolled_back):
    """K4"""
    family, put_back = rolled_back
    with reopened(family) as vault:
        put_back(ledger=False)
        for session_id in family.logs:
            refused(vault, family, session_id)
        kinds = {finding.kind for finding in vault.verify().findings}
        assert {"fork", "behind_ledger"} <= kinds
    with pytest.raises(RolledBack):
        Vault.open(family.place)


def test_an_older_ancestor_is_refused_by_its_forks_when_nobody_else_knows_better(rolled_back):
    """K4: even with the ledger and this machine's memory put back, the fork names what it shares"""
    family, put_back = rolled_back
    put_back(ledger=True)
    with reopened(family) as vault:
        refused(vault, family, family.fork)
        refused(vault, family, family.deep)
        sessions = vault.access(ALICE).sessions
        for call in (
            lambda: sessions.fork(family.deep),
            lambda: sessions.wake(family.fork),
            lambda: sessions.resume(family.fork).effects(kind="mail.send", key="1"),
            lambda: sessions.resume(family.fork).info(),
        ):
            with pytest.raises(Tampered):
                call()
        assert "fork" in {finding.kind for finding in vault.verify().findings}
        assert "fork" in {finding.kind for finding in vault.verify(without_keys=True).findings}


def test_an_older_ancestor_that_went_on_otherwise_is_refused_by_its_forks(rolled_back):
    """K4: the places are all there again, with another content"""
    family, put_back = rolled_back
    put_back(ledger=True)
    with reopened(family) as vault:
        talk(vault.access(ALICE).sessions.resume(family.original), 4, "otherwise")
        refused(vault, family, family.fork)
        refused(vault, family, family.deep)
        assert "fork" in {finding.kind for finding in vault.verify().findings}


def test_an_ancestor_of_before_is_refused_though_it_holds_the_fork_point(place):
    """K4: what it did since may have been an effect, which its forks must know of"""
    with Vault.create(place, settings=SETTINGS) as vault:
        alice = vault.access(ALICE).sessions
        original = alice.create()
        log = talk(original, 4, "original")
        fork = alice.fork(original.id, at=log[1].id)
        with surgery.opened(place) as connection:
            query = "SELECT * FROM sessions WHERE session_id = ?"
            (old,) = surgery.rows_as_dicts(connection, query, session_bytes(original.id))
        with original.run(checkpoints=NEVER) as run:
            run.effect("mail.send", "1").once(lambda _: "sent")
        with surgery.opened(place) as connection:
            surgery.update(connection, "sessions", {"no": old["no"]}, **old)
            connection.execute("DELETE FROM events WHERE session_no = ? AND seq > 4", (old["no"],))
        for call in (
            fork.info,
            lambda: list(fork.events()),
            lambda: fork.effects(kind="mail.send", key="1"),
            lambda: alice.wake(fork.id),
        ):
            with pytest.raises(RolledBack):
                call()
        with contextlib.suppress(VaultError):
            vault.close()


# ------------------------------------------------------------------------------------- effects of branches


def test_an_effect_that_is_removed_from_a_branch_is_missed_before_it_is_carried_out_again(place):
    """K2, S4"""
    with Vault.create(place, settings=SETTINGS) as vault:
        alice = vault.access(ALICE).sessions
        original = alice.create()
        (start,) = talk(original, 1, "original")
        fork = alice.fork(original.id, at=start.id)
        with original.run(checkpoints=NEVER) as run:
            run.effect("mail.send", "1").once(lambda _: "sent")
        with surgery.opened(place) as connection:
            connection.execute("DELETE FROM events WHERE type LIKE 'effect.%'")
        with fork.run(checkpoints=NEVER) as run, pytest.raises(Tampered):
            run.effect("mail.send", "1").once(lambda _: pytest.fail("carried out again"))
        with contextlib.suppress(VaultError):
            vault.close()


@pytest.mark.parametrize(
    "where", ["behind-its-head", "a-message", "what-it-shares", "an-effect-on-something-else"]
)
def test_an_index_that_names_an_effect_where_none_is_is_refused(place, where):
    """K2, S3"""
    with Vault.create(place, settings=SETTINGS) as vault:
        alice = vault.access(ALICE).sessions
        one, other = alice.create(), alice.create()
        with one.run(checkpoints=NEVER) as run:
            run.effect("crm.write", "1", resource="crm/1").once(lambda _: "done")
        talk(other, 2, "other")
        fork = alice.fork(other.id)
        seq = {"behind-its-head": 3, "a-message": 2, "what-it-shares": 1}.get(where)
        if seq is None:
            with other.run(checkpoints=NEVER) as run:
                run.effect("crm.write", "2", resource="crm/2").once(lambda _: "done")
            seq = next(other.events(types=["effect.committed"])).seq
        named = fork if where == "what-it-shares" else other
        with surgery.opened(place) as connection:
            query = "SELECT * FROM touches ORDER BY recorded_us LIMIT 1"
            (touch,) = surgery.rows_as_dicts(connection, query)
            (row,) = surgery.rows_as_dicts(
                connection, "SELECT no FROM sessions WHERE session_id = ?", session_bytes(named.id)
            )
            touch |= {"session_no": row["no"], "seq": seq, "recorded_us": touch["recorded_us"] + 10**7}
            surgery.insert(connection, "touches", touch)
        with pytest.raises(Tampered):
            alice.wake(one.id)
