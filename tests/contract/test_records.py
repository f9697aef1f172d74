"""What a database of the log promises."""

import sqlite3
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.back_ends import RECORDS
from vault.errors import StorageUnavailable, Tampered, VaultClosed, VaultError
from vault.ports.records import BlobRow, EventRow, EventsQuery, RunRow, SessionRow, VaultRow

TENANT, OWNER, OTHER = b"t" * 16, b"o" * 16, b"x" * 16
END = (2**62, 2**62, 2**62)
TYPES, RUNS = ["a.b", "c.d", "e.f"], [b"1" * 16, b"2" * 16]
KINDS = [{}, *({"type": name} for name in [*TYPES, "no.ne"]), *({"run_id": run} for run in [*RUNS, OTHER])]


def session_row(number, **changes):
    row = SessionRow(
        no=0,
        session_id=number.to_bytes(16),
        tenant_id=TENANT,
        owner=OWNER,
        external=None,
        state="active",
        version=1,
        epoch=0,
        head_seq=0,
        head_chain=b"c" * 32,
        tails=b"{}",
        created_us=number,
        updated_us=number,
        used_hour=number // 10,
        ended_us=0,
        lease=b"",
        forked_from=None,
        base_seq=0,
        base_chain=b"",
        retention=b"",
        due_hour=0,
        renewed=b"",
        about=b"about",
        mac=number.to_bytes(32),
    )
    return row._replace(**changes)


def event_row(session_no, seq, **changes):
    row = EventRow(
        session_no=session_no,
        seq=seq,
        event_id=(2**100 + seq).to_bytes(16),
        given_id=0,
        type=TYPES[seq % 3],
        level=3,
        recorded_us=seq // 3 * 10,
        run_id=None if seq % 4 == 0 else RUNS[seq % 2],
        epoch=0,
        content=0,
        type_nth=1,
        run_nth=1,
        salt=b"s" * 16,
        meta=None,
        body=b"body %d" % seq,
        blob_no=None,
        address=seq.to_bytes(32),
        size=10,
        ref=None,
        chain=b"c" * 32,
        mac=b"m" * 32,
    )
    return row._replace(**changes)


def added(records, row, labels=()):
    number = records.transact(lambda transaction: transaction.add_session(row, labels))
    return row._replace(no=number)


def read(records, ask):
    with records.snapshot() as reader:
        return ask(reader)


def filled(records, count):
    """A session of ``count`` events, and another one of the same events."""
    sessions = [added(records, session_row(number)) for number in (1, 2)]
    rows = [[event_row(session.no, seq) for seq in range(1, count + 1)] for session in sessions]
    records.transact(lambda transaction: [transaction.add_event(row) for log in rows for row in log])
    return sessions[0].no, rows[0]


def test_the_vaults_own_row_is_kept_and_replaced(records, open_records):
    """K4"""
    assert read(records, lambda reader: reader.vault()) is None
    row = VaultRow(b"v" * 16, 5, 0, bytes(32), b"m" * 32)
    for kept in (row, row._replace(ledger_no=7, ledger_hash=b"h" * 32, mac=b"n" * 32)):
        records.transact(lambda transaction, kept=kept: transaction.keep_vault(kept))
        for opened in (records, open_records()):
            assert read(opened, lambda reader: reader.vault()) == kept


def test_a_session_is_found_by_its_tenant_and_owner_only(records, open_records):
    """O1, O4"""
    row = added(records, session_row(1, external=b"e" * 16))
    for opened in (records, open_records()):
        assert read(opened, lambda reader: reader.session(row.session_id, TENANT, OWNER)) == row
        assert read(opened, lambda reader: reader.session_by_external(b"e" * 16, TENANT, OWNER)) == row
        for tenant, owner in ((TENANT, OTHER), (OTHER, OWNER), (OTHER, OTHER), (OWNER, TENANT)):
            assert read(opened, lambda r, t=tenant, o=owner: r.session(row.session_id, t, o)) is None
            assert read(opened, lambda r, t=tenant, o=owner: r.session_by_external(b"e" * 16, t, o)) is None
            assert read(opened, lambda r, t=tenant, o=owner: list_of(r, tenant_id=t, owner=o)) == []


def list_of(reader, tenant_id=TENANT, owner=OWNER, label=None, before=END, limit=100):
    return reader.sessions(tenant_id, owner, label=label, before=before, limit=limit)


@pytest.mark.parametrize("label", [None, b"l" * 16])
def test_sessions_are_listed_last_used_first_in_pages_that_meet(records, label):
    """S2"""
    moments = [5, 33, 12, 12, 39, 7, 30, 12, 55, 4]
    rows = [
        added(
            records, session_row(n, updated_us=at, used_hour=at // 10), [b"l" * 16] if n % 3 else [b"k" * 16]
        )
        for n, at in enumerate(moments, start=1)
    ]
    wanted = [row for row in rows if label is None or row.created_us % 3]
    wanted.sort(key=lambda row: (row.used_hour, row.updated_us, row.no), reverse=True)
    assert read(records, lambda reader: list_of(reader, label=label)) == wanted
    for limit in (1, 2, 3, 7):
        before, found = END, []
        while page := read(records, lambda r, b=before, n=limit: list_of(r, label=label, before=b, limit=n)):
            assert len(page) <= limit
            found += page
            before = (page[-1].used_hour, page[-1].updated_us, page[-1].no)
        assert found == wanted


def test_two_sessions_of_an_owner_never_share_an_id_or_external_id(records):
    """S1"""
    added(records, session_row(1, external=b"e" * 16))
    for other in (session_row(1), session_row(2, external=b"e" * 16)):
        with pytest.raises(VaultError):
            added(records, other)
    assert len(read(records, list_of)) == 1
    added(records, session_row(3, external=b"e" * 16, owner=OTHER))
    added(records, session_row(4, external=None))
    added(records, session_row(5, external=None))


def test_a_head_moves_only_from_the_row_it_was_made_from(records, open_records):
    """L8, invariant 3: compare-and-set"""
    first = added(records, session_row(1))
    second = first._replace(version=2, head_seq=1, updated_us=20, used_hour=2, tails=b"t", mac=b"2" * 32)
    third = second._replace(version=3, lease=b"held", mac=b"3" * 32)
    fourth = third._replace(version=4, head_seq=2, mac=b"4" * 32)
    fifth = fourth._replace(version=5, lease=b"", state="ended", ended_us=25, about=b"a", mac=b"5" * 32)
    for opened, row, before, moves in (
        (records, second, first, True),
        (records, second, first, False),
        (open_records(), third, first, False),
        (open_records(), third, second, True),
        (records, second, third._replace(mac=b"?" * 32), False),
        (records, fourth, third, True),
        (open_records(), third, second, False),
        (records, fifth, fourth, True),
    ):
        assert opened.transact(lambda t, row=row, before=before: t.move_session(row, before)) is moves
        if moves:
            stored = read(open_records(), lambda reader: reader.session(first.session_id, TENANT, OWNER))
            assert stored == row
    assert [row.no for row in read(records, list_of)] == [first.no]


def test_a_fork_is_stored_with_what_it_shares_and_found_by_it(records, open_records):
    """S1: of the same owner only"""
    parent = added(records, session_row(1))
    base = {"forked_from": parent.session_id, "base_seq": 7, "base_chain": b"b" * 32}
    forks = [added(records, session_row(n, lease=b"l", head_seq=7, **base)) for n in (3, 2)]
    added(records, session_row(4, **base | {"forked_from": forks[0].session_id}))
    added(records, session_row(5, owner=OTHER, **base))
    added(records, session_row(6, tenant_id=OTHER, **base))

    def forks_of(reader, session_id):
        return list(reader.scan("forks_of", session_id=session_id, tenant_id=TENANT, owner=OWNER))

    for opened in (records, open_records()):
        for fork in forks:
            assert read(opened, lambda reader, f=fork: reader.session(f.session_id, TENANT, OWNER)) == fork
        found = read(opened, lambda reader: forks_of(reader, parent.session_id))
        assert found == [(fork.session_id,) for fork in forks]
        assert read(opened, lambda reader: forks_of(reader, forks[1].session_id)) == []


REFS = [b"\x00" * 16, b"\x03" + b"\xff" * 15, b"\x04" + bytes(15), b"\xfb" + b"\xff" * 15, b"\xff" * 16]


def test_the_events_about_something_are_those_within_the_bounds(records):
    """C4, S3: of one session, each with its payload"""
    sessions = [added(records, session_row(number)) for number in (1, 2)]
    rows = [
        event_row(session.no, seq, ref=ref)
        for session in sessions
        for seq, ref in enumerate([None, *REFS, REFS[1], None], start=1)
    ]
    blob = BlobRow(0, sessions[0].no, 0, b"i" * 16, b"a" * 32, 5, b"inner", b"m" * 32)

    def work(transaction):
        number = transaction.add_blob(blob)
        rows[3] = rows[3]._replace(body=None, blob_no=number)
        for row in rows:
            transaction.add_event(row)

    records.transact(work)
    rows[3] = rows[3]._replace(body=b"inner")
    for low in [b"\x00", b"\x04", b"\xfc", *REFS]:
        for high in [b"\x04", b"\xfc", b"\xff" * 17, *REFS]:
            found = read(records, lambda r, low=low, high=high: r.events_about(sessions[0].no, low, high))
            wanted = [
                row
                for row in rows
                if row.session_no == sessions[0].no and row.ref is not None and low <= row.ref < high
            ]
            assert sorted(found, key=lambda row: row.seq) == wanted


def test_what_was_changed_is_found_newest_first_among_an_owners_sessions(records):
    """S3, S4: of one tag, since a time, and of nobody else"""
    mine, other = added(records, session_row(1)), added(records, session_row(2))
    strangers = [added(records, session_row(3, owner=OTHER)), added(records, session_row(4, tenant_id=OTHER))]

    def work(transaction):
        for session in (mine, other, *strangers):
            for seq in range(1, 5):
                row = event_row(session.no, seq, recorded_us=10 * seq + session.no)
                transaction.add_event(row)
                for tag in (b"r" * 16, b"s" * 16)[: 1 + seq % 2]:
                    transaction.add_touch(tag, row)

    records.transact(work)

    def touched(reader, tag, since_us, limit=99):
        where = {"tenant_id": TENANT, "owner": OWNER, "limit": limit}
        return list(reader.scan("touched_since", tag=tag, since_us=since_us, **where))

    every = [
        (session.session_id, seq, 10 * seq + session.no)
        for seq in (4, 3, 2, 1)
        for session in sorted((mine, other), key=lambda row: -row.no)
    ]
    assert read(records, lambda reader: touched(reader, b"r" * 16, 0)) == every
    assert read(records, lambda reader: touched(reader, b"r" * 16, 0, limit=3)) == every[:3]
    since = every[2][2]
    assert read(records, lambda reader: touched(reader, b"r" * 16, since)) == every[:2]
    odd = [place for place in every if place[1] % 2]
    assert read(records, lambda reader: touched(reader, b"s" * 16, 0)) == odd
    assert read(records, lambda reader: touched(reader, b"t" * 16, 0)) == []
    tags = read(records, lambda r: list(r.scan("tags_of_session", session_no=mine.no, limit=9)))
    assert sorted(tags) == [(b"r" * 16,), (b"s" * 16,)]
    entries = read(records, lambda r: list(r.scan("all_touches_of_session", session_no=mine.no)))
    assert len(entries) == 6


def test_an_entry_in_the_index_of_changes_stands_once_and_belongs_to_a_session(records):
    """Invariant 4"""
    session = added(records, session_row(1))
    row = event_row(session.no, 1)
    records.transact(lambda t: (t.add_event(row), t.add_touch(b"r" * 16, row)))
    for again in (row, event_row(session.no + 9, 1)):
        with pytest.raises(Tampered, match="breaks its rules"):
            records.transact(lambda t, again=again: t.add_touch(b"r" * 16, again))
    assert len(read(records, lambda r: list(r.scan("all_touches_of_session", session_no=session.no)))) == 1


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A session's log of 120 events in every back end, for reading."""
    opened = {name: make(tmp_path_factory.mktemp(name)) for name, make in RECORDS.items()}
    yield {name: (records, *filled(records, 120)) for name, records in opened.items()}
    for records in opened.values():
        records.close()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    low=st.integers(-1, 122),
    high=st.integers(-1, 122),
    limit=st.integers(1, 130),
    kind=st.sampled_from(KINDS),
    newest_first=st.booleans(),
)
def test_any_part_of_a_log_is_found_in_order(log, low, high, limit, kind, newest_first):
    """L3, L9"""
    for records, number, rows in log.values():
        wanted = [
            row
            for row in rows
            if low < row.seq < high and all(getattr(row, name) == value for name, value in kind.items())
        ]
        query = EventsQuery(number, low, high, limit, newest_first=newest_first, **kind)
        found = read(records, lambda reader, query=query: reader.events(query))
        assert found == (wanted[::-1] if newest_first else wanted)[:limit]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moment=st.integers(-5, 420))
def test_the_first_event_since_a_time_is_found(log, moment):
    """L3, L9"""
    for records, number, rows in log.values():
        wanted = next((row.seq for row in rows if row.recorded_us >= moment), 121)
        assert read(records, lambda reader, n=number: reader.first_seq_since(n, moment, 120)) == wanted


def test_an_event_is_found_by_an_id_that_its_writer_chose_and_by_the_vaults_own(records):
    """L7"""
    session = added(records, session_row(1))
    own = event_row(session.no, 1, event_id=b"v" * 12 + (1).to_bytes(4))
    given_id = event_row(session.no, 2, event_id=b"g" * 16, given_id=1)
    misleading = event_row(session.no, 3, event_id=b"m" * 12 + (2).to_bytes(4), given_id=1)
    records.transact(lambda t: [t.add_event(row) for row in (own, given_id, misleading)])
    for row in (own, given_id, misleading):
        assert read(records, lambda reader, row=row: reader.event(session.no, row.event_id)) == row
        assert read(records, lambda reader, row=row: reader.event(session.no + 1, row.event_id)) is None
    assert read(records, lambda reader: reader.event(session.no, b"?" * 16)) is None


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"seq": 1, "event_id": b"n" * 16}, id="the-same-place"),
        pytest.param({"seq": 9, "event_id": b"g" * 16, "given_id": 1}, id="the-same-chosen-id"),
        pytest.param({"seq": 9, "session_no": 77}, id="no-such-session"),
    ],
)
def test_the_database_itself_refuses_an_event_out_of_place(records, row):
    """L1, L7, invariant 4"""
    session = added(records, session_row(1))
    first = event_row(session.no, 1, event_id=b"g" * 16, given_id=1)
    records.transact(lambda transaction: transaction.add_event(first))
    with pytest.raises(Tampered, match="breaks its rules"):
        records.transact(lambda t: t.add_event(event_row(**({"session_no": session.no} | row))))
    assert read(records, lambda reader: reader.events(EventsQuery(session.no, 0, 99, 99))) == [first]


def test_events_are_never_changed_and_go_only_with_an_erased_session(open_records):
    """L1, invariant 2"""
    records = open_records()
    number, rows = filled(records, 3)
    with sqlite3.connect(open_records.place / "data.db") as database:
        for change in (
            "UPDATE events SET level = 0",
            "UPDATE events SET seq = seq + 9",
            "DELETE FROM events",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="events are"):
                database.execute(change)
    database.close()
    assert read(records, lambda reader: reader.events(EventsQuery(number, 0, 99, 99))) == rows


def test_a_payload_beside_its_event_or_in_a_blob_row_comes_with_the_event(records):
    """L6"""
    session = added(records, session_row(1))
    blob = BlobRow(0, session.no, 0, b"i" * 16, b"a" * 32, 5, b"inner", b"m" * 32)
    away = blob._replace(content_id=b"j" * 16, address=b"b" * 32, body=None)

    def work(transaction):
        numbers = [transaction.add_blob(row) for row in (blob, away)]
        for seq, number in enumerate(numbers, start=1):
            transaction.add_event(event_row(session.no, seq, body=None, blob_no=number))
        return numbers

    numbers = records.transact(work)
    found = read(records, lambda reader: reader.events(EventsQuery(session.no, 0, 9, 9)))
    assert [(row.blob_no, row.body) for row in found] == [(numbers[0], b"inner"), (numbers[1], None)]
    by_content = read(records, lambda reader: reader.blob(session.no, 0, b"i" * 16))
    assert by_content == blob._replace(no=numbers[0], body=None)
    for place in ((session.no, 1, b"i" * 16), (session.no + 1, 0, b"i" * 16), (session.no, 0, b"k" * 16)):
        assert read(records, lambda reader, place=place: reader.blob(*place)) is None
    with pytest.raises(VaultError):
        records.transact(lambda transaction: transaction.add_blob(blob))


def test_a_runs_count_is_kept_and_replaced(records):
    """L3"""
    session = added(records, session_row(1))
    assert read(records, lambda reader: reader.run(session.no, RUNS[0])) is None
    for written in (3, 9):
        row = RunRow(session.no, RUNS[0], written, b"m" * 32)
        records.transact(lambda transaction, row=row: transaction.keep_run(row))
        assert read(records, lambda reader: reader.run(session.no, RUNS[0])) == row
    assert read(records, lambda reader: reader.run(session.no, RUNS[1])) is None


def test_work_that_raises_is_undone_and_work_that_returns_is_kept(records, open_records):
    """L2"""

    def broken(transaction):
        transaction.add_session(session_row(1), [b"l" * 16])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        records.transact(broken)
    assert read(records, list_of) == []
    assert records.transact(lambda transaction: "result") == "result"
    row = added(records, session_row(1))
    assert read(open_records(), list_of) == [row]


def test_a_snapshot_does_not_move_while_others_commit(records, open_records):
    """L3"""
    other = open_records()
    added(records, session_row(1))
    with records.snapshot() as reader:
        before = list_of(reader)
        added(other, session_row(2))
        assert list_of(reader) == before
    assert len(read(records, list_of)) == 2


def test_a_view_of_a_head_counts_only_what_was_committed(records):
    """Invariant 3"""
    row = added(records, session_row(1))

    def remember(transaction, *, fail):
        transaction.heads[row.session_id] = row
        if fail:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        records.transact(lambda transaction: remember(transaction, fail=True))
    assert records.transact(lambda transaction: transaction.known(row.session_id)) is None
    records.transact(lambda transaction: remember(transaction, fail=False))
    assert records.transact(lambda transaction: transaction.known(row.session_id)) == row


def test_a_commit_wakes_who_waits_for_one(records):
    """L10"""
    seen, woken = records.commits(), threading.Event()
    thread = threading.Thread(target=lambda: (records.wait_commit(seen, 50), woken.set()))
    thread.start()
    added(records, session_row(1))
    assert woken.wait(40)
    thread.join()
    assert records.commits() == seen + 1
    records.wait_commit(seen, 50)  # already so: returns at once
    records.wait_commit(seen + 1, 0.01)


def test_a_sound_database_finds_no_damage(records):
    """K4"""
    filled(records, 30)
    assert records.damage() == []
    records.settle()


def test_closing_is_final_and_may_be_said_twice(records, open_records):
    """L2"""
    row = added(records, session_row(1))
    records.close()
    records.close()
    for call in (lambda: read(records, list_of), lambda: added(records, session_row(2)), records.settle):
        with pytest.raises((VaultClosed, StorageUnavailable)):
            call()
    assert read(open_records(), list_of) == [row]
