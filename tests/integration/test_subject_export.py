"""All that is kept about a person, given to them: an erasure's own choice, whole, and signed. D5, O1, O3."""

import base64
import dataclasses
import hashlib
import io
import json
import os
import signal
import sqlite3
import stat
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.conftest import Ticks
from vault import Principal, Vault
from vault.erasure.archive import statement
from vault.errors import Conflict, InvalidInput, NotFound, StorageUnavailable, Tampered
from vault.sealing.notes import Signer, opened

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"owner"}))
BOB = Principal(tenant="acme", subject="bob", roles=frozenset({"owner"}))
OFFICER = Principal(tenant="acme", subject="pia", roles=frozenset({"privacy_officer"}))
AUDITOR = Principal(tenant="acme", subject="otto", roles=frozenset({"auditor"}))
NOTHING = "there is nothing of that person"
CANARY = "zq-canary-of-bob-7f3a"
DAY = 24 * 3_600_000_000


@pytest.fixture
def vault(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as opened_vault:
        yield opened_vault


@pytest.fixture
def alice(vault):
    return vault.access(ALICE)


@pytest.fixture
def bob(vault):
    return vault.access(BOB)


@pytest.fixture
def officer(vault):
    return vault.access(OFFICER)


@pytest.fixture
def session(alice):
    made = alice.sessions.create(title="August sales", labels={"case": "7"}, config="sales@1")
    asked = made.append("message.user", {"content": "Why did sales drop?\u2028And where?"})
    made.append("tool.returned", {"rows": 3}, tool="warehouse", caused_by=asked.id, usage={"tokens": 9})
    made.append("file.read", raw=b"plain \xc2\x85 text")
    made.append("file.read", raw=b"\xff\x00\xfe")
    return made


class Read:
    """An export as somebody without the vault reads it: with nothing but zip, JSON and SHA-256."""

    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            names = archive.namelist()
            assert len(names) == len(set(names))
            self.files = {name: archive.read(name) for name in names}
        self.manifest = json.loads(self.files["manifest.json"])
        listed = {one["name"]: (one["bytes"], one["sha256"]) for one in self.manifest["files"]}
        apart = {"manifest.json", "manifest.sig"}
        assert listed == {
            name: (len(content), hashlib.sha256(content).hexdigest())
            for name, content in self.files.items()
            if name not in apart
        }
        self.held = self.json("held_back.json")
        self.sessions = {one["id"]: one for one in self.json("sessions.json")}
        self.memories = {one["id"]: one for one in self.lines("memories.jsonl")}
        self.artifacts = {one["id"]: one for one in self.lines("artifacts.jsonl")}
        counts = self.manifest["counts"]
        assert counts["sessions"] == len(self.sessions)
        assert counts["items"] == len(self.memories) + len(self.artifacts)
        assert counts["held_back"] == len(self.held)

    def json(self, name):
        return json.loads(self.files[name])

    def lines(self, name):
        return [json.loads(line) for line in self.files[name].splitlines()]

    def events(self, session_id):
        return self.lines(self.sessions[session_id]["file"])

    def payload(self, event):
        """The payload of a line, wherever it stands."""
        if "file" in event:
            return self.files[event["file"]]
        if "raw_base64" in event:
            return base64.b64decode(event["raw_base64"])
        return event["raw"].encode() if "raw" in event else event["payload"]

    @property
    def shown(self):
        return {*self.sessions, *self.memories, *self.artifacts}

    @property
    def why(self):
        return {one["id"]: one["why"] for one in self.held}


def names(directory):
    return {file.name for file in directory.iterdir()}


def raw(name):
    return bytes.fromhex(name[4:].replace("-", ""))


def exported(access, place, subject="alice", name="export.zip"):
    made = access.exports.subject(subject, place.parent / name)
    found = Read(made.path)
    assert (made.sessions, made.items) == (len(found.sessions), len(found.memories) + len(found.artifacts))
    assert (made.files, len(made.held_back)) == (len(found.files), len(found.held))
    return found


def entries(vault, what):
    return list(vault.access(AUDITOR).audit.entries(types=[what]))


# ------------------------------------------------------------------------------------------- what is in it


def test_an_export_holds_every_event_as_it_was_written(vault, alice, officer, session, place):
    found = exported(officer, place)
    written = list(session.events())
    lines = found.events(session.id)
    assert [line["id"] for line in lines] == [event.id for event in written]
    assert [found.payload(line) for line in lines] == [
        event.payload if event.raw is None else event.raw for event in written
    ]
    assert lines[1] == {
        "id": written[1].id,
        "seq": 2,
        "type": "tool.returned",
        "recorded_at": "2027-01-15T08:00:00.000000Z",
        "tool": "warehouse",
        "caused_by": written[0].id,
        "usage": {"tokens": 9},
        "level": "L3",
        "payload": {"rows": 3},
    }
    about = found.sessions[session.id]
    assert (about["title"], about["labels"], about["config"]) == ("August sales", {"case": "7"}, "sales@1")
    assert (about["state"], about["event_count"]) == ("active", len(written))


def test_every_line_is_one_line_for_every_reader(officer, session, place):
    """U+2028, U+0085 and the like end a line for some programs."""
    found = exported(officer, place)
    text = found.files[f"sessions/{session.id}.jsonl"].decode()
    assert len(text.splitlines()) == len(list(session.events()))


def test_a_large_payload_is_a_file_of_its_own_once(alice, officer, session, place):
    body = os.urandom(1_500_000)
    event = session.append("file.read", raw=io.BytesIO(body))
    fork = alice.sessions.fork(session.id)
    found = exported(officer, place)
    assert found.files[f"payloads/{event.id}"] == body
    assert [line["file"] for line in found.events(session.id) if "file" in line] == [f"payloads/{event.id}"]
    assert found.events(fork.id) == found.events(session.id)
    assert found.sessions[fork.id]["shared_through"] == 5
    edge = {"id": fork.id, "from": session.id, "how": "forked", "through": 5}
    assert edge in found.json("lineage.json")


def test_an_export_holds_every_version_of_every_item(alice, officer, session, place):
    first = alice.memories.put(("users",), "taste", {"likes": "tea"}, sources=[session], labels={"a": "b"})
    second = alice.memories.put(("users",), "taste", {"likes": "coffee"}, sources=[session])
    cache = alice.memories.put((), "c", 1, sources=[session], kind="cache")
    file = alice.artifacts.put("report.pdf", b"%PDF", media_type="application/pdf", sources=[second.id])
    found = exported(officer, place)
    assert {one: (line["value"], line["state"]) for one, line in found.memories.items()} == {
        first.id: ({"likes": "tea"}, "superseded"),
        second.id: ({"likes": "coffee"}, "live"),
        cache.id: (1, "live"),
    }
    assert found.memories[first.id]["labels"] == {"a": "b"}
    line = found.artifacts[file.id]
    assert (line["key"], line["media_type"], found.files[line["file"]]) == (
        "report.pdf",
        "application/pdf",
        b"%PDF",
    )
    edges = {(one["id"], one["from"], one["how"]) for one in found.json("lineage.json")}
    assert {(first.id, session.id, "derived"), (file.id, second.id, "derived")} <= edges


def test_an_export_says_why_each_thing_is_still_there(alice, officer, session, place):
    kept = alice.memories.put((), "k", 1, sources=[session])
    officer.holds.place(session=session.id, reason="case 7")
    said = {one["id"]: one for one in exported(officer, place).json("retention.json")}
    assert said.keys() == {session.id, kept.id}
    explained = officer.retention.explain(session.id)
    one = said[session.id]
    assert (one["text"], one["state"], one["holds"]) == (explained.text, "HELD", 1)


def test_an_export_holds_nothing_of_another_subject(alice, bob, officer, session, place):
    """O1: nor of a session of theirs that a fork goes on from"""
    theirs = bob.sessions.create(title=CANARY, labels={"x": CANARY})
    theirs.append("message.user", {"content": CANARY})
    theirs.append("file.read", raw=CANARY.encode() * 100_000)
    bob.memories.put((CANARY,), CANARY, CANARY, sources=[theirs])
    bob.artifacts.put(CANARY, CANARY.encode(), sources=[theirs])
    bob.grants.give(theirs.id, "alice", level="L3", may=("fork",))
    fork = alice.sessions.fork(theirs.id)
    own = fork.append("message.user", {"content": "my own"})
    assert any(CANARY in str(event.payload) for event in fork.events())
    found = exported(officer, place)
    about = found.sessions[fork.id]
    assert [line["id"] for line in found.events(fork.id)] == [own.id]
    assert CANARY.encode() not in b"".join(
        content for name, content in found.files.items() if name != "sessions.json"
    )
    # Alice's fork carries the title and labels of what it was made from: they are in her row now.
    assert {name for name, value in about.items() if CANARY in str(value)} <= {"title", "labels"}
    assert (fork.id, "of_another", True) in [(one["id"], one["why"], one["part"]) for one in found.held]
    assert found.shown == {session.id, fork.id}


def test_an_owner_gets_the_same_as_an_officer_would_send(alice, officer, session, place):
    alice.memories.put((), "k", 1, sources=[session])
    mine, sent = exported(alice, place), exported(officer, place, name="sent.zip")
    assert {name: content for name, content in mine.files.items() if "manifest" not in name} == {
        name: content for name, content in sent.files.items() if "manifest" not in name
    }


# --------------------------------------------------------------------------------------- what is held back


def test_what_is_restricted_or_expired_is_named_and_not_shown(alice, officer, session, place, clock):
    restricted = alice.sessions.create(title="complaint")
    officer.holds.place(session=restricted.id, reason="court")
    alice.erasure.erase(session=restricted.id)
    clock.now += 366 * DAY
    fresh = alice.sessions.create(title="fresh")
    found = exported(officer, place)
    assert found.why == {session.id: "expired", restricted.id: "restricted"}
    assert found.shown == {fresh.id}
    assert b"August sales" not in b"".join(found.files.values())
    assert officer.exports.report("alice").held_back == {"expired": 1, "restricted": 1}


def test_what_came_from_something_restricted_is_held_back_with_it(alice, officer, session, place):
    first = alice.memories.put((), "first", "a secret", sources=[session])
    second = alice.memories.put((), "second", "of it", sources=[first])
    officer.holds.place(session=session.id, reason="court")
    alice.erasure.erase(memory=first.id)
    found = exported(officer, place)
    assert found.why == {first.id: "restricted", second.id: "restricted"}
    assert found.shown == {session.id}


def test_an_item_whose_source_cannot_be_read_is_held_back(alice, officer, session, place):
    first = alice.memories.put((), "first", "a secret", sources=[session])
    second = alice.memories.put((), "second", "of it", sources=[first])
    with sqlite3.connect(place / "data.db") as connection:
        connection.execute("UPDATE items SET state = 'erasing' WHERE item_id = ?", (raw(first.id),))
    connection.close()
    found = exported(officer, place)
    assert found.why == {first.id: "restricted", second.id: "source_unavailable"}


def test_what_an_erasure_takes_at_this_moment_is_held_back(vault, alice, officer, session, place):
    stays = alice.sessions.create(title="stays")
    goes_with_it = alice.memories.put((), "k", 1, sources=[session])

    def fails(step):
        if step == "condemn":
            raise StorageUnavailable

    working = vault._parts
    execution = dataclasses.replace(working.execution, step=fails)
    vault._parts = dataclasses.replace(working, execution=execution)
    with pytest.raises(StorageUnavailable):
        vault.access(ALICE).erasure.erase(session=session.id)
    vault._parts = working
    found = exported(officer, place)
    assert found.why == dict.fromkeys([session.id, goes_with_it.id], "being_erased")
    assert found.shown == {stays.id}


def blob_of(place, least):
    """The file of the largest sealed payload, at least so large."""
    found = max((place / "blobs").rglob("*/*"), key=lambda file: file.stat().st_size)
    assert found.stat().st_size >= least
    return found


def spoil(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_damaged_payload_costs_no_other(alice, officer, session, place):
    event = session.append("file.read", raw=os.urandom(1_200_000))
    spoil(blob_of(place, 1_200_000))
    found = exported(officer, place)
    assert (found.why, found.shown) == ({event.id: "damaged"}, {session.id})
    assert len(found.events(session.id)) == 5
    assert f"payloads/{event.id}" not in found.files


def test_a_damaged_artifact_costs_no_other(alice, officer, session, place):
    kept = alice.artifacts.put("kept", b"kept", sources=[session])
    lost = alice.artifacts.put("lost", os.urandom(400_000), sources=[session])
    spoil(blob_of(place, 400_000))
    found = exported(officer, place)
    assert (found.why, found.shown) == ({lost.id: "damaged"}, {session.id, kept.id})


@pytest.mark.parametrize(
    ("database", "change", "why"),
    [
        ("data.db", "UPDATE sessions SET updated_us = updated_us + 1 WHERE session_id = ?", "damaged"),
        ("keys.db", "DELETE FROM keys WHERE scope = ? AND purpose = 'epoch'", "key_unavailable"),
    ],
)
def test_a_session_that_does_not_open_is_named(place, clock, database, change, why):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as made:
        alice = made.access(ALICE)
        lost, kept = alice.sessions.create(title="lost"), alice.sessions.create(title="kept")
    with sqlite3.connect(place / database) as connection:
        connection.execute("DROP TRIGGER IF EXISTS sessions_immutable")
        changed = connection.execute(change, (raw(lost.id),))
        assert changed.rowcount >= 1
    connection.close()
    with Vault.open(place, clock=clock) as made:
        found = exported(made.access(OFFICER), place)
    assert (found.why, found.shown) == ({lost.id: why}, {kept.id})


def test_of_a_session_with_a_forged_event_what_stands_before_it_is_shown(place, clock):
    with Vault.create(place, settings={"synchronous": "NORMAL"}, clock=clock) as made:
        session = made.access(ALICE).sessions.create()
        for number in range(250):  # more than one page
            session.append("a.b", number)
    with sqlite3.connect(place / "data.db") as connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type='trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("UPDATE events SET level = 0 WHERE seq = 230 AND type = 'a.b'")
    connection.close()
    with Vault.open(place, clock=clock) as made:
        found = exported(made.access(OFFICER), place)
    assert [(one["id"], one["why"], one["part"]) for one in found.held] == [(session.id, "damaged", True)]
    assert [line["payload"] for line in found.events(session.id)] == list(range(200))


# ---------------------------------------------------------------------------------------------------- who


@pytest.mark.parametrize(
    "who",
    [
        BOB,
        Principal(tenant="acme", subject="alice", roles=frozenset({"agent"})),
        Principal(tenant="acme", subject="sam", roles=frozenset({"support"})),
        Principal(tenant="acme", subject="adam", roles=frozenset({"administrator"})),
        AUDITOR,
        Principal(tenant="zeta", subject="alice", roles=frozenset({"owner"})),
        Principal(tenant="zeta", subject="pia", roles=frozenset({"privacy_officer"})),
    ],
    ids=lambda who: f"{'-'.join(who.roles)}-of-{who.tenant}",
)
def test_for_anybody_else_it_is_as_if_there_were_nothing(vault, alice, session, place, who):
    """O1, O3"""
    before = len(entries(vault, "access.used"))
    access = vault.access(who)
    for subject in ("alice", "nobody-of-that-name"):
        for ask in (
            lambda: access.exports.report(subject),  # noqa: B023
            lambda: access.exports.subject(subject, place.parent / "e.zip"),  # noqa: B023
        ):
            with pytest.raises(NotFound) as refused:
                ask()
            assert str(refused.value) == NOTHING
    assert not (place.parent / "e.zip").exists()
    assert entries(vault, "subject.exported") == []
    assert len(entries(vault, "access.used")) == before + 2  # by who looked, twice


@pytest.mark.parametrize("nobody", ["", " ", "*", "%", 7])
def test_a_request_that_names_nobody_is_refused(officer, session, place, nobody):
    with pytest.raises(InvalidInput):
        officer.exports.subject(nobody, place.parent / "e.zip")


@pytest.mark.parametrize(("who", "used"), [(ALICE, 0), (OFFICER, 1)], ids=["owner", "officer"])
def test_an_export_is_on_record_with_counts_and_without_names(vault, session, place, who, used):
    """K4"""
    found = exported(vault.access(who), place)
    [entry] = entries(vault, "subject.exported")
    tenant = vault._keys.tenant("acme", create=False)
    assert entry.who == tenant.owner(who.subject).hex()
    assert entry.said == {
        "subject": tenant.owner("alice").hex(),
        "manifest": hashlib.sha256(found.files["manifest.json"]).hexdigest(),
        **found.manifest["counts"],
    }
    assert "alice" not in str(entry.said)
    by_officer = [one for one in entries(vault, "access.used") if one.said["action"] == "export"]
    assert len(by_officer) == used


# ------------------------------------------------------------------------------------------- the file


def test_the_manifest_is_signed_by_the_vault(vault, officer, session, place):
    found = exported(officer, place)
    note = found.files["manifest.sig"].decode()
    digest = hashlib.sha256(found.files["manifest.json"]).hexdigest()
    name, public = vault._signer.name, bytes.fromhex(vault.info()["ledger_public_key"])
    assert (
        opened(note, name, public)
        == statement(name, digest)
        == (f"session-vault/subject-export/1\n{name}\n{digest}\n")
    )
    # Without any code of the vault:
    text, _, line = note.partition("\n\n")
    signature = base64.b64decode(line.split(" ")[2])[4:]
    Ed25519PublicKey.from_public_bytes(public).verify(signature, (text + "\n").encode())
    with pytest.raises(Tampered):
        opened(note.replace(digest, digest[::-1]), name, public)


def test_a_file_is_for_its_owner_only_and_leaves_nothing_beside_it(officer, session, place):
    before = names(place.parent)
    path = officer.exports.subject("alice", place.parent / "e.zip").path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(place.parent) - before == {"e.zip"}


@pytest.mark.parametrize("kind", ["file", "directory", "dangling-link"])
def test_nothing_is_ever_written_over(vault, officer, session, place, kind):
    target = place.parent / "e.zip"
    if kind == "file":
        target.write_bytes(b"mine")
    elif kind == "directory":
        target.mkdir()
    else:
        target.symlink_to(place.parent / "elsewhere")
    with pytest.raises(InvalidInput):
        officer.exports.subject("alice", target)
    assert kind != "file" or target.read_bytes() == b"mine"
    assert not (place.parent / "elsewhere").exists()
    assert entries(vault, "subject.exported") == []


def test_what_appears_at_its_place_meanwhile_is_not_written_over(officer, session, place):
    target = place.parent / "e.zip"
    before = names(place.parent)
    with pytest.raises(InvalidInput):
        officer.exports.subject("alice", target, progress=lambda *_: target.write_bytes(b"mine"))
    assert target.read_bytes() == b"mine"
    assert names(place.parent) - before == {"e.zip"}


def test_a_directory_that_is_not_there_is_refused(officer, session, place):
    with pytest.raises(StorageUnavailable):
        officer.exports.subject("alice", place.parent / "no" / "e.zip")


@pytest.mark.parametrize("moment", ["before-it-is-written", "after-it-was-written"])
def test_nothing_that_is_erased_meanwhile_comes_out(vault, alice, officer, place, moment):
    """D6: a file is kept only if all in it may still be read"""
    first, second = (alice.sessions.create(title=name) for name in ("one", "two"))
    goes = second if moment == "before-it-is-written" else first
    before = names(place.parent)

    def progress(done, _):
        if done == 1:
            alice.erasure.erase(session=goes.id)

    with pytest.raises(Conflict):
        officer.exports.subject("alice", place.parent / "e.zip", progress=progress)
    assert names(place.parent) == before
    assert entries(vault, "subject.exported") == []


def test_nothing_that_is_erased_while_it_is_signed_comes_out(vault, alice, session, place):
    """D6: after all of it was read"""

    class Slow(Signer):
        def sign(self, text):
            alice.erasure.erase(session=session.id)
            return super().sign(text)

    signer = Slow(vault._keys.signing_seed(), vault._signer.name)
    alice.sessions.create()
    vault._parts = dataclasses.replace(vault._parts, signer=signer)
    before = names(place.parent)
    with pytest.raises(Conflict):
        vault.access(OFFICER).exports.subject("alice", place.parent / "e.zip")
    assert names(place.parent) == before
    assert entries(vault, "subject.exported") == []


def test_a_kill_leaves_no_file_of_that_name(place):
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as made:
        for _ in range(2):
            made.access(ALICE).sessions.create().append("a.b", 1)
    before, child = names(place.parent), os.fork()
    if child == 0:
        try:
            with Vault.open(place) as made:
                made.access(OFFICER).exports.subject("alice", place.parent / "e.zip", progress=killed)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    [partial] = names(place.parent) - before
    assert partial.startswith(".partial-")
    assert stat.S_IMODE((place.parent / partial).stat().st_mode) == 0o600
    with Vault.open(place) as made:
        assert entries(made, "subject.exported") == []
        assert len(exported(made.access(OFFICER), place).sessions) == 2


def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_large_payload_is_exported_in_little_memory(officer, session, place):
    """L10"""
    piece = os.urandom(2**20)

    class Long(io.RawIOBase):
        left = 48

        def readable(self):
            return True

        def read(self, size=-1):
            self.left -= 1
            return piece if self.left >= 0 else b""

    session.append("file.read", raw=Long())
    tracemalloc.start()
    made = officer.exports.subject("alice", place.parent / "e.zip")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made.path.stat().st_size > 48 * 2**20
    assert most < 12 * 2**20


def test_progress_comes_to_its_end(alice, officer, session, place):
    alice.memories.put((), "k", 1, sources=[session])
    alice.artifacts.put("a", b"1", sources=[session])
    told = []
    officer.exports.subject("alice", place.parent / "e.zip", progress=lambda *done: told.append(done))
    assert told == [(1, 3), (2, 3), (3, 3)]


# ------------------------------------------------------------------------- one choice with an erasure's


OWNERS = ("alice", "bob")
RULES = ("erase_with_any", "erase_with_last", "recompute", "detach")
numbers = st.integers(0, 20)
OPERATIONS = st.one_of(
    st.tuples(st.just("session"), st.sampled_from(OWNERS)),
    st.tuples(st.just("fork"), st.sampled_from(OWNERS), numbers),
    st.tuples(
        st.sampled_from(["memory", "artifact"]),
        st.sampled_from(OWNERS),
        st.lists(numbers, min_size=1, max_size=3),
        st.sampled_from(RULES),
    ),
    st.tuples(st.just("hold"), numbers),
    st.tuples(st.just("hold-subject"), st.sampled_from(OWNERS)),
    st.tuples(st.just("erase"), numbers),
    st.tuples(st.just("wait"), st.sampled_from([1, 200, 366])),
)


class World:
    """A vault with what some operations made of it; what is not allowed just does not happen."""

    def __init__(self, home, clock):
        self.clock = clock
        self.vault = Vault.create(home / "vault", settings={"synchronous": "NORMAL"}, clock=clock)
        self.faces = {
            name: self.vault.access(Principal(tenant="acme", subject=name, roles=frozenset({"owner"})))
            for name in OWNERS
        }
        self.officer = self.vault.access(OFFICER)
        self.made = [self.session("alice"), self.session("bob")]

    def session(self, owner):
        session = self.faces[owner].sessions.create(title=f"of {owner}")
        session.append("message.user", {"content": owner})
        for other in set(OWNERS) - {owner}:
            self.faces[owner].grants.give(session.id, other, level="L3", may=("fork",))
        return session.id

    def do(self, operation):
        what, *said = operation
        access = self.faces.get(said[0])
        if what == "session":
            self.made.append(self.session(said[0]))
        elif what == "fork":
            self.made.append(access.sessions.fork(self.pick(said[1])).id)
        elif what in {"memory", "artifact"}:
            sources = {self.pick(number) for number in said[1]}
            kind, key = ("cache", "memory")[what == "memory" and said[2] != "detach"], f"k{len(self.made)}"
            options = {"sources": sources, "on_source_erased": said[2], "reason": "because"}
            if what == "memory":
                self.made.append(access.memories.put((), key, 1, kind=kind, **options).id)
            else:
                self.made.append(access.artifacts.put(key, b"1", **options).id)
        elif what == "hold":
            self.officer.holds.place(session=self.pick(said[0]), reason="r")
        elif what == "hold-subject":
            self.officer.holds.place(subject=said[0], reason="r")
        elif what == "erase":
            kind = {"ses": "session", "mem": "memory", "art": "artifact"}[self.pick(said[0])[:3]]
            self.officer.erasure.erase(**{kind: self.pick(said[0])})
        else:
            self.clock.now += said[0] * DAY

    def pick(self, number):
        return self.made[number % len(self.made)]

    def ids(self):
        with self.vault._records.snapshot() as reader:
            return {id_ for (id_,) in reader.scan("all_ids")}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operations=st.lists(OPERATIONS, max_size=12))
def test_a_report_a_preview_an_export_and_an_erasure_meet_the_same(operations):
    """D5: a disclosure never differs from a deletion"""
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(Path(home) / "state"))
        world = World(Path(home), Ticks(1_800_000_000_000_000))
        with world.vault:
            for operation in operations:
                try:
                    world.do(operation)
                except (NotFound, InvalidInput, Conflict):
                    continue
            check(world, Path(home))


def check(world, home):
    try:
        report = world.officer.exports.report("alice")
    except NotFound:  # all of it was erased: the others find nothing either
        for ask in (
            lambda: world.officer.erasure.plan(subject="alice"),
            lambda: world.officer.exports.subject("alice", home / "e.zip"),
        ):
            with pytest.raises(NotFound):
                ask()
        return
    plan = world.officer.erasure.plan(subject="alice").plan
    owner = world.vault._keys.tenant("acme", create=False).owner("alice")
    mine = {item.id for item in plan.items if item.owner == owner}
    made = world.officer.exports.subject("alice", home / "e.zip")
    found = Read(made.path)
    held = {one["id"] for one in found.held if not one["part"]}
    assert {raw(one.id) for one in report.items} == mine
    assert {raw(one) for one in found.shown | held} == mine
    assert not found.shown & held
    assert {one.id: one.held_back for one in report.items if one.held_back} == {
        one["id"]: one["why"] for one in found.held if not one["part"]
    }
    assert {raw(one["id"]) for one in found.json("retention.json")} == mine
    before = world.ids()
    world.officer.erasure.erase(subject="alice")
    gone = before - world.ids()
    falls = {item.id for item in plan.items if item.owner != owner and item.action in {"erase", "recompute"}}
    kept = {item.id for item in plan.items if item.action in {"held", "minimum", "keep"}}
    assert gone == (mine - kept) | falls
