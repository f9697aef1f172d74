"""Whatever way an event is written, the policy's level for its type is the highest it is stored at. R1."""

import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vault import NewEvent, Principal, Vault, new_event_id
from vault.adapters import session_jsonl
from vault.config import FILE
from vault.errors import Conflict, InvalidInput
from vault.model import LEVELS

ALICE = Principal(tenant="acme", subject="alice", roles=frozenset({"agent", "owner"}))
DOCUMENT = """version = 1
name = "ours"
[[levels]]
type = "note.*"
level = "L2"
[[levels]]
type = "note.private"
level = "L1"
[[levels]]
type = "secret.read"
level = "L0"
"""
POLICY = {"note.taken": "L2", "note.private": "L1", "secret.read": "L0", "message.user": "L3"}


def opened(place, text=DOCUMENT):
    place.parent.mkdir(parents=True, exist_ok=True)
    with Vault.create(place, settings={"synchronous": "NORMAL"}):
        pass
    return reopened(place, text)


def reopened(place, text):
    (place / "ours.toml").write_text(text, encoding="utf-8")
    toml = (place / FILE).read_text(encoding="utf-8").replace('levels = ""', 'levels = "ours.toml"')
    (place / FILE).write_text(toml, encoding="utf-8")
    return Vault.open(place)


@pytest.fixture(scope="module")
def vault(tmp_path_factory):
    home = tmp_path_factory.mktemp("levels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        with opened(home / "vault") as made:
            yield made


def written(session, way, type, level):
    if way == "append":
        return session.append(type, {"x": 1}, level=level)
    if way == "append-many":
        return session.append_many([NewEvent(type=type, payload={"x": 1}, level=level)])[0]
    if way == "post":
        return session.post(type, {"x": 1}, level=level)
    if way == "raw":
        return session.append(type, raw=b"x", level=level)
    with session.run() as run:
        return run.append(type, {"x": 1}, level=level)


@pytest.mark.parametrize("way", ["append", "append-many", "post", "raw", "run"])
@given(type=st.sampled_from(sorted(POLICY)), asked=st.sampled_from(LEVELS))
@settings(max_examples=16, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_writer_can_raise_the_protection_of_an_event_and_never_lower_it(vault, way, type, asked):
    """R1"""
    session = vault.access(ALICE).sessions.create()
    event = written(session, way, type, asked)
    stored = next(iter(session.events(types=[type])))
    assert event.level == stored.level == min(POLICY[type], asked)


def test_an_import_lowers_no_protection(vault):
    """R1, L12"""
    session = vault.access(ALICE).sessions.create()
    session.append("note.private", 1)
    exported = io.BytesIO()
    session_jsonl.export_session(session, exported)
    text = exported.getvalue().replace(b'"level":"L1"', b'"level":"L3"')
    assert text != exported.getvalue()
    session_jsonl.import_session(io.BytesIO(text), vault.access(ALICE))
    made = vault.access(ALICE).sessions.latest()
    assert made.id != session.id
    assert [event.level for event in made.events(types=["note.private"])] == ["L1"]


def test_others_see_no_more_than_the_policy_and_the_owner_what_was_written(vault):
    """R1, R5: also when it was shared in full"""
    alice = vault.access(ALICE)
    session = alice.sessions.create()
    session.append("secret.read", {"content": "zorblax"}, level="L3")
    session.append("message.user", {"content": "quuxberg"})
    alice.grants.give(session.id, "bob", level="L3")
    theirs = vault.access(Principal(tenant="acme", subject="bob")).sessions.resume(session.id)
    shown = str([event.payload for event in theirs.events()])
    assert "zorblax" not in shown
    assert "quuxberg" in shown
    assert next(session.events()).payload == {"content": "zorblax"}


def test_a_retry_is_the_same_event_when_the_policy_was_lowered_meanwhile(place):
    """L7"""
    known = new_event_id()
    with opened(place) as vault:
        session = vault.access(ALICE).sessions.create()
        first = session.append("message.user", "x", event_id=known)
        assert session.append("message.user", "x", event_id=known) == first
    with reopened(place, DOCUMENT + '[[levels]]\ntype = "message.*"\nlevel = "L0"\n') as vault:
        session = vault.access(ALICE).sessions.resume(session.id)
        assert session.append("message.user", "x", event_id=known) == first
        with pytest.raises(Conflict):
            session.append("message.user", "x", event_id=known, level="L1")
        assert session.append("message.user", "y").level == "L0"


def test_a_retry_of_an_event_that_the_policy_lowered_is_the_same_event(vault):
    """L7"""
    session, known = vault.access(ALICE).sessions.create(), new_event_id()
    first = session.append("note.private", "x", event_id=known)
    assert first.level == "L1"
    for level in ("L3", "L2", "L1"):
        assert session.append("note.private", "x", event_id=known, level=level) == first
    with pytest.raises(Conflict):
        session.append("note.private", "x", event_id=known, level="L0")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(None, "cannot be read", id="no-file"),
        pytest.param("version = 1\n", "line 1: name: is missing", id="incomplete"),
        pytest.param(DOCUMENT + "[[levels]]\ntype = 1\n", "line 13: type: write", id="wrong"),
    ],
)
def test_a_vault_whose_levels_cannot_be_read_does_not_open(place, text, said):
    """R1: else it would store what is to be protected without protection"""
    opened(place).close()
    if text is None:
        (place / "ours.toml").unlink()
    else:
        (place / "ours.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=said):
        Vault.open(place)
