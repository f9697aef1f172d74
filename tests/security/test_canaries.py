"""Nothing a user supplied is at rest in clear, in a log, in a `repr` or in an error (K1; invariant 13).

A canary is planted in every field that a caller can fill; then every file is searched for every one of them,
in the forms in which plaintext tends to lie around. That the search finds what is there is proved too.
"""

import base64
import io
import logging
import traceback
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from vault import (
    NewEvent,
    Principal,
    Reducer,
    Resolution,
    Trigger,
    Vault,
    new_event_id,
    new_run_id,
    vocabulary,
)
from vault.errors import EffectFailed, InDoubt, InvalidInput, VaultError
from vault.sessions.service import Sessions
from vault.sessions.wake import pinned_config

FIELDS = [
    "tenant",
    "subject",
    "title",
    "label-name",
    "label-value",
    "config",
    "external-id",
    "payload-key",
    "payload-value",
    "nested-value",
    "long-value",
    "raw",
    "large-raw",
    "stream",
    "tool",
    "usage-key",
    "usage-value",
    "ended-title",
    "given-label-name",
    "given-label-value",
    "refused-title",
    "idempotent-value",
    "resource",
    "effect-kind",
    "effect-key",
    "intent",
    "confirmation",
    "effect-subject",
    "failure",
    "reason",
    "decided-by",
    "decided-why",
    "stop-reason",
    "revoked",
    "run-error",
    "posted",
    "state",
    "config-document",
    "config-tool",
    "new-config",
    "new-document",
    "fork-title",
    "restart-summary",
]
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def canary(field: str) -> str:
    """A word that is nowhere by chance; put together here so that no traceback shows it as source."""
    return f"Kanarien{'V'}ogel-{field}-Zwitschert"


CANARIES = {field: canary(field) for field in FIELDS}


# ----------------------------------------------------------------------------------------- the search


def forms(text: str) -> Iterator[bytes]:
    """How a text may lie in a file: cases, encodings, base64 at any alignment, hexadecimal, deflated."""
    for case in (text, text.lower(), text.upper()):
        raw = case.encode()
        yield from (raw, case.encode("utf-16-le"), case.encode("utf-16-be"), raw[::-1])
        yield from (raw.hex().encode(), raw.hex().upper().encode())
    raw = text.encode()
    for shift in range(3):
        # What base64 makes of the bytes in between, whatever stands before and behind.
        encoded = base64.b64encode(bytes(shift) + raw)
        inner = encoded[4 if shift else 0 : len(encoded) // 4 * 4 - 4]
        yield from (inner, inner.translate(bytes.maketrans(b"+/", b"-_")))
    for level in (1, 6, 9):
        yield zlib.compress(raw, level)[2:-4]


def found_in(directory: Path, texts: dict[str, str]) -> set[str]:
    """The fields whose canary is in a file, or in a file's name, anywhere below a directory."""
    wanted = {field: set(forms(text)) for field, text in texts.items()}
    found = set()
    for file in directory.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        content += str(file.relative_to(directory)).encode("utf-8", "surrogateescape")
        found |= {field for field, shapes in wanted.items() if any(shape in content for shape in shapes)}
    return found


@pytest.mark.parametrize("field", ["title", "payload-value", "raw"])
def test_the_search_finds_what_is_there_in_every_form(field, tmp_path):
    for number, form in enumerate(forms(CANARIES[field])):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "file").write_bytes(b"before" * number + form + b"behind")
        assert found_in(place, CANARIES) == {field}, form
    for shift in range(3):
        place = tmp_path / f"base64 {shift}"
        place.mkdir()
        (place / "file").write_bytes(
            base64.b64encode(b"x" * shift + CANARIES[field].encode() + b"more of it")
        )
        assert found_in(place, CANARIES) == {field}
    (tmp_path / "names" / CANARIES[field]).mkdir(parents=True)
    assert found_in(tmp_path / "names", CANARIES) == {field}


# ----------------------------------------------------------------------------------------- the planting


class Watched(io.RawIOBase):
    """A stream that calls back in the middle of being read."""

    def __init__(self, content: bytes, halfway: Callable[[], None]) -> None:
        super().__init__()
        self._content, self._at, self._halfway = content, 0, halfway

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._at:
            self._halfway()
        piece = self._content[self._at : self._at + min(size, 200_000)]
        self._at += len(piece)
        return piece


def planted(vault: Vault, halfway: Callable[[], None] = lambda: None) -> list[object]:
    """Every field of every call filled with its canary; the objects that came back."""
    access = vault.access(Principal(tenant=CANARIES["tenant"], subject=CANARIES["subject"]))
    about = {
        "title": CANARIES["title"],
        "labels": {CANARIES["label-name"]: CANARIES["label-value"]},
        "config": CANARIES["config"],
        "external_id": CANARIES["external-id"],
    }
    session = access.sessions.create(**about)
    run = new_run_id()
    more = {"run": run, "tool": CANARIES["tool"], "usage": {CANARIES["usage-key"]: CANARIES["usage-value"]}}
    more |= {"observed_at": datetime.now(UTC)}
    events = [
        session.append("message.user", {CANARIES["payload-key"]: CANARIES["payload-value"]}, **more),
        session.append("message.user", [{"deep": [CANARIES["nested-value"]]}], **more),
        session.append("message.assistant", CANARIES["long-value"] * 400, **more),
        session.append("tool.returned", raw=CANARIES["raw"].encode(), **more),
        session.append("tool.returned", raw=CANARIES["large-raw"].encode() * 4_000, **more),
        session.append("tool.returned", raw=Watched(CANARIES["stream"].encode() * 60_000, halfway), **more),
    ]
    new = NewEvent(
        type="note.made", payload=CANARIES["idempotent-value"], event_id=new_event_id(), tool=CANARIES["tool"]
    )
    events += session.append_many([new]) + session.append_many([new])
    with pytest.raises(VaultError):
        access.sessions.create(**about | {"title": CANARIES["refused-title"]})
    ended = access.sessions.create(title=CANARIES["ended-title"], parent=session.id)
    ended.end()
    ended.relabel({CANARIES["given-label-name"]: CANARIES["given-label-value"]})
    ended.relabel({CANARIES["given-label-name"]: CANARIES["given-label-value"] + "2"})
    made_of = [ended.info(), *ended.events()]
    ended.relabel({}, remove=[CANARIES["given-label-name"]])
    page = access.sessions.find(labels=about["labels"])
    read = list(session.events()) + list(session.events(types=["note.made"], run=None))
    made = [access, access.sessions, session, ended, *events, new, page, *page.items, *read, session.info()]
    return made + made_of + recovered(access.sessions)


def recovered(sessions: Sessions) -> list[object]:
    """Every field of what runs, effects, checkpoints, forks and waking take; the objects that came back."""
    kind, key, resource = CANARIES["effect-kind"], CANARIES["effect-key"], CANARIES["resource"]
    document = {"tools": {CANARIES["config-tool"]: {"words": CANARIES["config-document"]}}}
    session = sessions.create(config=CANARIES["config"], config_document=document)
    run = session.run()
    seen = {"observed_at": datetime.now(UTC), "valid_for": timedelta(hours=1), "resource": resource}
    made = [session, run, run.started, run.append("observation.recorded", {"value": 1}, **seen)]
    about = {"resource": resource, "subject": CANARIES["effect-subject"]}
    effect = run.effect(kind, key, {"say": CANARIES["intent"]}, **about)
    effect.once(lambda _: CANARIES["confirmation"])
    refused = run.effect(kind, key + "2", **about)
    with pytest.raises(EffectFailed):
        refused.once(failing(EffectFailed(CANARIES["failure"])))
    refused.intend()
    made += [effect, effect.state(), refused, refused.fail(CANARIES["reason"])]
    run.append("tool.requested", {"a": 1}, tool=CANARIES["config-tool"])
    run.append("approval.requested", {"what": CANARIES["intent"], "from": CANARIES["effect-subject"]})
    session.post("message.user", {"content": CANARIES["posted"]})
    made += [*run.inbox(), run.checkpoint(), run.checkpoint({CANARIES["state"]: [CANARIES["state"]]})]
    doubtful = run.effect(kind, key + "3", **about)
    doubtful.intend()
    with pytest.raises(InDoubt) as caught:
        doubtful.once(failing(AssertionError()))
    made += [caught.value, caught.value.effect, run.require_fresh(resource)]
    run.stop(CANARIES["stop-reason"])
    decided = Resolution(
        decision="commit",
        confirmation=CANARIES["confirmation"],
        by=CANARIES["decided-by"],
        why=CANARIES["decided-why"],
    )
    made += [decided, session.resolve(kind, key + "3", decided)]
    fork = sessions.fork(session.id, title=CANARIES["fork-title"])
    with fork.run() as other:
        other.effect(kind, key + "4", **about).once(lambda _: 1)
        other.effect(kind, key + "5", **about).intend()
    with pytest.raises(ZeroDivisionError), fork.run():
        raise ZeroDivisionError(CANARIES["run-error"])
    newer = {"tools": {}, "instructions": CANARIES["new-document"]}
    woken = sessions.wake(
        session.id, config=CANARIES["new-config"], config_document=newer, on_drift="new", reducer=COUNTING
    )
    made += [fork, fork.info(), fork.info().fork, woken, woken.run, woken.recovered, woken.standing]
    made += [woken.gap, woken.drift, woken.choice, *woken.in_doubt, *woken.gap.foreign]
    made += [*woken.gap.stale, *woken.gap.overtaken]
    session.stop(CANARIES["revoked"])
    made += [
        COUNTING,
        session.recover(),
        *session.replay(),
        session.context(max_events=9),
        *session.effects(),
    ]
    made += [session.last_committed_effect(run.id, kind), *fork.events(), *session.events()]
    new = sessions.restart(fork.id, CANARIES["restart-summary"])
    return [*made, new, new.info(), *new.events(), *facts()]


#: A product's own reducer, whose state is the user's.
COUNTING = Reducer(
    name="counting@1", initial={CANARIES["state"]: 0}, apply=lambda s, _: {CANARIES["state"]: [*s.values()]}
)


def failing(error: Exception) -> Callable[[object], object]:
    def fail(_: object) -> object:
        raise error

    return fail


def facts() -> list[vocabulary.Fact]:
    """Typed facts of every kind of field."""
    word = CANARIES["intent"]
    return [
        vocabulary.MessageUser(content=word, name=word),
        vocabulary.ToolRequested(tool=word, arguments={word: word}, usage={"model": word}),
        vocabulary.EffectIntended(kind=word, key=word, intent=word, subject=word, resource=word),
        vocabulary.CheckpointCreated(state={word: 1}, sha256="0" * 64, through=0),
    ]


@pytest.mark.parametrize("settings", [{}, {"compress": False, "pad": False}], ids=["as shipped", "neither"])
def test_no_canary_is_in_any_file_at_any_time(settings, place, state_home):
    looked = []

    def is_clean() -> None:
        looked.append(len([file for file in place.rglob("*") if file.is_file()]))
        assert found_in(place, CANARIES) == set()
        assert found_in(state_home, CANARIES) == set()

    vault = Vault.create(place, settings=settings)
    planted(vault, halfway=is_clean)
    assert (place / "data.db-wal").stat().st_size > 0  # the log that is written ahead is searched as well
    is_clean()
    vault.checkpoint()
    assert vault.verify().ok
    is_clean()
    vault.close()
    is_clean()
    with Vault.open(place) as vault:
        list(
            vault.access(Principal(tenant=CANARIES["tenant"], subject=CANARIES["subject"]))
            .sessions.find()
            .items
        )
        is_clean()
    assert len(looked) > 4


def test_no_payload_is_compressed_but_not_sealed(vault, place):
    planted(vault)
    content = b"".join(file.read_bytes() for file in place.rglob("*") if file.is_file())
    assert ZSTD_MAGIC not in content


def test_what_was_planted_comes_back(vault):
    """The search would find nothing in a vault that stores nothing."""
    planted(vault)
    sessions = vault.access(Principal(tenant=CANARIES["tenant"], subject=CANARIES["subject"])).sessions
    session = sessions.resume_external(CANARIES["external-id"])
    read = repr([tuple(event) for event in session.events()]) + repr(session.info().labels)
    read += str(session.info().title) + str(session.info().config)
    for field in (
        "payload-key",
        "payload-value",
        "raw",
        "tool",
        "usage-value",
        "label-name",
        "title",
        "config",
    ):
        assert CANARIES[field] in read
    with session.open(list(session.events())[5]) as file:
        assert CANARIES["stream"].encode() in file.read()


def test_what_was_planted_for_recovery_comes_back(vault):
    planted(vault)
    sessions = vault.access(Principal(tenant=CANARIES["tenant"], subject=CANARIES["subject"])).sessions
    read = ""
    for item in sessions.find(limit=500).items:
        session = sessions.resume(item.id)
        read += repr([tuple(event) for event in session.events()]) + str(session.info().title)
        read += repr(session.recover().state) + repr(pinned_config(vault._log, *pinned_by(session)))
    for field in FIELDS[FIELDS.index("resource") :]:
        assert CANARIES[field] in read, field


def pinned_by(session):
    return session._authorise("read"), session._id


def test_names_of_one_tenant_cannot_be_looked_up_with_another_tenants_key(vault, place):
    """Equal names in two tenants have unequal indexes: nobody can tell that they are equal."""
    for tenant in ("one", "two"):
        sessions = vault.access(Principal(tenant=tenant, subject="alice")).sessions
        with sessions.create(external_id="same", labels={"same": "same"}).run() as run:
            run.append("note.made", resource="same")
            run.effect("same", "same", resource="same", subject="same").once(lambda _: 1)
    import sqlite3

    connection = sqlite3.connect(place / "data.db")
    for query in ("SELECT owner FROM sessions", "SELECT external FROM sessions", "SELECT label FROM labels"):
        one, two = (value for (value,) in connection.execute(query))
        assert one != two
    for table, column in (("events", "ref"), ("touches", "tag")):
        query = f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608
        # Two of each tenant: of the effect and of the resource; of the resource and of the subject.
        assert len(connection.execute(query).fetchall()) == 4
    connection.close()


# --------------------------------------------------------------------------------- logs, reprs, errors


def shows(text: str) -> set[str]:
    return {field for field, word in CANARIES.items() if word.lower() in text.lower()}


def test_no_canary_is_logged_or_printed(place, caplog, capfd):
    caplog.set_level(logging.NOTSET)
    with Vault.create(place) as vault:
        planted(vault)
        vault.verify()
    printed = capfd.readouterr()
    assert shows(caplog.text + printed.out + printed.err) == set()


def test_no_public_object_shows_a_canary(vault):
    objects = planted(vault)
    objects += [vault, vault.checkpoint(), vault.verify(), vault.info()]
    objects.append(Principal(tenant=CANARIES["tenant"], subject=CANARIES["subject"]))
    for thing in objects:
        assert shows(repr(thing) + str(thing) + f"{thing}") == set(), type(thing).__name__


def attempts(vault: Vault, word: str) -> dict[str, Callable[[], object]]:
    """Calls that are refused, each given the word where it does not belong."""
    sessions = vault.access(Principal(tenant="acme", subject="alice")).sessions
    session = sessions.create(external_id=word)
    event_id = new_event_id()
    session.append("note.made", {"word": word}, event_id=event_id)
    session.append("message.user", {"content": word})
    pinned = sessions.create(config_document={"tools": {word: {word: word}}, "model": word})
    lone = word + "\ud800"
    deep: list = [word]
    for _ in range(300):
        deep = [deep]

    class Stranger:
        def __repr__(self) -> str:
            return word

        __str__ = __repr__

    def append(payload=None, **more):
        return lambda: session.append(more.pop("type", "note.made"), payload, **more)

    return {
        "type": append(type=word),
        "type of two words": append(type=f"note.{word}"),
        "NaN": append({word: float("nan")}),
        "object": append({word: Stranger()}),
        "bytes": append({word: word.encode()}),
        "number key": append({7: word}),
        "object key": append({Stranger(): 7}),
        "tuple": append((word,)),
        "set": append({word}),
        "surrogate": append(lone),
        "surrogate key": append({lone: 1}),
        "deep": append(deep),
        "big integer": append({word: 2**70}),
        "text as raw": append(raw=word),
        "both": append(word, raw=word.encode()),
        "same id": append({"other": word}, event_id=event_id),
        "event id": append(event_id=word),
        "run": append(run=word),
        "cause": append(caused_by=word),
        "level": append(level=word),
        "tool": append(tool=lone),
        "long tool": append(tool=word * 300),
        "usage": append(usage={word: float("inf")}),
        "usage text": append(usage=word),
        "time": append(observed_at=word),
        "other time": append(occurred_at=word),
        "head": append(expect_head=word),
        "title": lambda: sessions.create(title=word * 1_000),
        "title surrogate": lambda: sessions.create(title=lone),
        "config": lambda: sessions.create(config=lone),
        "external id": lambda: sessions.create(external_id=lone),
        "same external id": lambda: sessions.create(external_id=word),
        "parent": lambda: sessions.create(parent=word),
        "label": lambda: sessions.create(labels={word: lone}),
        "label name": lambda: sessions.create(labels={lone: word}),
        "label number": lambda: sessions.create(labels={word: 7}),
        "many labels": lambda: sessions.create(labels={f"{word}{n}": word for n in range(40)}),
        "resume": lambda: sessions.resume(word),
        "resume external": lambda: sessions.resume_external(word + word),
        "find state": lambda: sessions.find(state=word),
        "find cursor": lambda: sessions.find(cursor=word),
        "find limit": lambda: sessions.find(limit=word),
        "find label": lambda: sessions.find(labels={word: lone}),
        "latest": lambda: sessions.latest(labels={word: word}),
        "events type": lambda: session.events(types=[word]),
        "events run": lambda: session.events(run=word),
        "events after": lambda: session.events(after=word),
        "events since": lambda: session.events(since=word),
        "events limit": lambda: session.events(limit=word),
        "slice": lambda: list(session.slice(word, word)),
        "tenant": lambda: Principal(tenant=lone, subject="alice"),
        "subject": lambda: Principal(tenant="acme", subject=word * 300),
        "unknown tenant": lambda: vault.access(Principal(tenant=word, subject=word)).sessions.resume(
            session.id
        ),
        "role": lambda: vault.access(
            Principal(tenant="acme", subject="alice", roles=frozenset({word}))
        ).sessions.resume(session.id),
        "passphrase": lambda: vault.rotate_passphrase(word),
        "resource": append(resource=lone),
        "long resource": append(resource=word * 300),
        "validity": append(observed_at=datetime.now(UTC), valid_for=word),
        "validity from nowhere": append(valid_for=timedelta(hours=1)),
        "no fact": lambda: session.append(Stranger()),
        "fact and payload": lambda: session.append(vocabulary.MessageUser(content=word), word),
        "effect kind": append({"kind": lone, "key": word}, type="effect.intended"),
        "effect key": append({"kind": word, "key": [word]}, type="effect.intended"),
        "effect without": append({word: word}, type="effect.intended"),
        "effect subject": append({"kind": word, "key": word, "subject": {word: 1}}, type="effect.intended"),
        "effect decision": append({"kind": word, "key": word, "decision": word}, type="effect.resolved"),
        "effect out of nowhere": append({"kind": word, "key": word}, type="effect.committed"),
        "checkpoint": append({"state": word, "sha256": word}, type="checkpoint.created"),
        "checkpoint of words": append(word, type="checkpoint.created"),
        "posted run": lambda: session.post("run.stopped", {"reason": word}),
        "posted type": lambda: session.post(word),
        "resolve": lambda: session.resolve(word, word, Resolution(decision="fail", why=word, by=word)),
        "resolve key": lambda: session.resolve(word, lone, Resolution(decision="fail")),
        "resolution": lambda: Resolution(decision=word),
        "effects": lambda: session.effects(key=word),
        "effects kind": lambda: session.effects(kind=lone, key=word),
        "last effect": lambda: session.last_committed_effect(word, word),
        "last checkpoint": lambda: session.last_checkpoint(word),
        "recover": lambda: session.recover(at=word),
        "recover with": lambda: session.recover(Reducer(name="a@1", initial=word, apply=lambda s, e: {word})),
        "impure": lambda: session.recover(Reducer(name="a@1", initial=[word], apply=impure)),
        "reducer": lambda: Reducer(name=word, initial=0, apply=lambda s, e: s),
        "reducer state": lambda: Reducer(name="a@1", initial={word}, apply=lambda s, e: s),
        "trigger": lambda: Trigger(every_events=word),
        "context": lambda: session.context(max_events=word),
        "context tokens": lambda: session.context(max_tokens=word),
        "context counter": lambda: session.context(max_tokens=9, counter=lambda event: word),
        "lease": lambda: session.run(lease_seconds=word),
        "wait": lambda: session.run(wait=word),
        "retry": lambda: session.run(retry_of=lone),
        "fork": lambda: sessions.fork(word),
        "fork at": lambda: sessions.fork(session.id, at=word),
        "fork title": lambda: sessions.fork(session.id, title=lone),
        "fork labels": lambda: sessions.fork(session.id, labels={word: lone}),
        "fork external id": lambda: sessions.fork(session.id, external_id=word),
        "fork of nothing": lambda: sessions.fork(sessions.create(title=word).id),
        "restart": lambda: sessions.restart(word, word),
        "restart summary": lambda: sessions.restart(session.id, lone),
        "long restart": lambda: sessions.restart(session.id, word * 5_000),
        "config document": lambda: sessions.create(config_document=word),
        "config tools": lambda: sessions.create(config_document={"tools": [word]}),
        "config value": lambda: sessions.create(config_document={word: {word}}),
        "wake": lambda: sessions.wake(word),
        "wake lease": lambda: sessions.wake(session.id, lease_seconds=word),
        "wake config": lambda: sessions.wake(session.id, config=lone),
        "wake drift": lambda: sessions.wake(session.id, config=word),
        "wake policy": lambda: sessions.wake(session.id, config=word, on_drift=word),
        "wake document": lambda: sessions.wake(pinned.id, config_document={"tools": {word: word}}),
    } | within_a_run(sessions, word, lone)


def within_a_run(sessions: Sessions, word: str, lone: str) -> dict[str, Callable[[], object]]:
    """Calls of a run that are refused, and calls that are refused while it is active."""
    session = sessions.create(title=word)
    run = session.run()
    done = run.effect(word, word, word, resource=word, subject=word)
    done.once(lambda _: {word: word})
    doubtful = run.effect(word, "doubtful")
    doubtful.intend()
    lost = sessions.create().run()
    sessions.resume(lost.started.session_id).stop(word)

    def once(error: object) -> Callable[[], object]:
        return lambda: run.effect(word, f"once {error!r}").once(failing(error))

    return {
        "run: append": lambda: run.append("note.made", lone),
        "run: kind": lambda: run.effect(lone, word),
        "run: key": lambda: run.effect(word, word * 300),
        "run: subject": lambda: run.effect(word, word, subject=lone),
        "run: resource": lambda: run.effect(word, "r", resource=lone).intend(),
        "run: intent": lambda: run.effect(word, "i", {word: float("nan")}).intend(),
        "run: again": done.intend,
        "run: other confirmation": lambda: done.commit({word: 1}),
        "run: failed after all": lambda: done.fail(word),
        "run: in doubt": lambda: doubtful.once(lambda _: word),
        "run: no resolution": lambda: doubtful.once(lambda _: word, resolver=lambda _: word),
        "run: out of nowhere": lambda: run.effect(word, "nowhere").commit(word),
        "run: no confirmation": lambda: run.effect(word, "c").once(lambda _: {word}),
        "run: effect failed": once(EffectFailed()),
        "run: checkpoint": lambda: run.checkpoint({word: {word}}),
        "run: stale": lambda: run.require_fresh(word + "2"),
        "run: no resource": lambda: run.require_fresh(lone),
        "run: outsider": lambda: session.append("note.made", word),
        "run: another": session.run,
        "run: resolved outside": lambda: session.resolve(word, "doubtful", Resolution(decision="fail")),
        "run: restart": lambda: sessions.restart(session.id, word),
        "lost: append": lambda: lost.append("note.made", word),
        "lost: effect": lambda: lost.effect(word, word).intend(),
        "lost: renew": lost.renew,
    }


def impure(state: list, event: object) -> list:
    state.append(1)
    return state


def test_no_refusal_repeats_what_it_was_given(vault):
    word = CANARIES["payload-value"]
    for name, attempt in attempts(vault, word).items():
        with pytest.raises(VaultError) as caught:
            attempt()
        error = caught.value
        shown = "".join(traceback.format_exception(error)) + str(error) + repr(error) + repr(error.args)
        assert shows(shown) == set(), name
        assert len(str(error).splitlines()) == 1, name


@pytest.mark.parametrize(
    "settings",
    [
        {"synchronous": "{}"},
        {"lock_seconds": "{}"},
        {"ledger_every": "{}"},
        {"compress": "{}"},
    ],
    ids=str,
)
def test_no_setting_is_repeated_when_it_is_refused(settings, place):
    word = CANARIES["config"]
    with pytest.raises(InvalidInput) as caught:
        Vault.create(place, settings={name: value.format(word) for name, value in settings.items()})
    assert shows("".join(traceback.format_exception(caught.value))) == set()


def test_a_passphrase_is_nowhere(place, state_home):
    word = CANARIES["subject"]
    with Vault.create(place, root="passphrase:", passphrase=word) as vault:
        vault.access(Principal(tenant="acme", subject="alice")).sessions.create()
        assert shows(repr(vault) + repr(vault.info())) == set()
    for directory in (place, state_home):
        assert found_in(directory, {"passphrase": word}) == set()
