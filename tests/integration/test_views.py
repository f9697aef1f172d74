"""What others than the owner see of a session, through every reader: no planted value below the full view."""

import base64
import dataclasses
import functools
import html
import io
import itertools
import json
import re
import urllib.parse

import pytest

from vault import Principal, Vault, wiring
from vault.adapters.session_jsonl import export_session
from vault.model import LEVELS
from vault.redaction.spans import Span
from vault.sessions.viewing import Viewer

TOKEN = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7cDe0f"
MAIL = "mei.quixley@posteo.example"
CARD, CARD_2, CARD_19 = "4111111111111111", "2223003122003222", "6304000000000000000"
IBAN = "DE89370400440532013000"
PHONE = "+441174960382"
STREET, ZIP, BORN = "77 Wolfgrovex Quay", "QX7 4ZD", "1979-11-09"
FIRST, LAST, COUSIN = "Xiomara", "Quixley", "Zdzislaw"
PASSWORD = "Wq8-dromedary-Kp4"
LATER = "Zebulon"
EPOCH_MS = 1_764_484_800_123
#: Free text by itself, of which L0 and L1 show nothing where no rule names the place.
OPAQUE = "tangerine-velvet-obelisk"

PERSONAL = (MAIL, CARD, CARD_2, CARD_19, IBAN, PHONE, STREET, ZIP, BORN, FIRST, LAST, COUSIN, LATER)
SECRETS = (TOKEN, PASSWORD)

SUPPORT = Principal(tenant="acme", subject="sue", roles=frozenset({"support"}))
AUDITOR = Principal(tenant="acme", subject="aud", roles=frozenset({"auditor"}))
OFFICER = Principal(tenant="acme", subject="olga", roles=frozenset({"privacy_officer"}))
OWNER = Principal(tenant="acme", subject="alice", roles=frozenset({"owner", "agent"}))
GRANTEES = {
    level: Principal(tenant="acme", subject=f"grantee-{level}", roles=frozenset({"agent"}))
    for level in LEVELS
}
READERS = {
    "auditor": (AUDITOR, "L0"),
    "support": (SUPPORT, "L1"),
    "officer": (OFFICER, "L2"),
    **{f"grantee-{level}": (GRANTEES[level], level) for level in LEVELS[:3]},
}
BELOW = [pytest.param(name, id=name) for name in READERS]


def spaced(digits):
    return " ".join(digits[at : at + 4] for at in range(0, len(digits), 4))


def wide(text):
    """In full-width forms."""
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def thin(text):
    """With signs of no width between all characters."""
    return "\u200b".join(text)


def nested(value, times):
    """JSON in a string, so many deep."""
    for _ in range(times):
        value = json.dumps({"inner": value})
    return value


def escaped(text):
    return "".join(f"%{byte:02X}" for byte in text.encode())


def entities(text):
    return "".join(f"&#{ord(c)};" for c in text)


def coded(text):
    return base64.b64encode(f"the value is {text} and no other".encode()).decode()


RECORD = {
    "customer": {
        "first_name": FIRST,
        "last_name": LAST,
        "email": MAIL,
        "phone": PHONE,
        "date_of_birth": BORN,
        "address": {"street": STREET, "zip": ZIP},
        "cousin": {"first_name": COUSIN},
        "iban": IBAN,
        "card_number": CARD_2,
    },
    "api_key": TOKEN,
    "password": PASSWORD,
    "note": OPAQUE,
}
TEXTS = {
    "plain": f"{FIRST} {LAST} of {STREET}, {ZIP}, born {BORN}: {MAIL}, {PHONE}, IBAN {IBAN}, key {TOKEN}",
    "cards": f"{spaced(CARD)}; {CARD_2}; 2026 {spaced(CARD)}; card number {CARD_19}",
    "cousin": f"He said: ask {COUSIN.upper()}, not {FIRST.lower()}.",
    "no-width": f"{thin(MAIL)} and {thin(CARD)} and {thin(FIRST)} and {thin(TOKEN)}",
    "full-width": f"{wide(MAIL)} and {wide(CARD)} and {wide(LAST)}",
    "percent": f"x={escaped(MAIL)}&y={escaped(CARD)}&z={urllib.parse.quote(PHONE)}",
    "entities": f"{entities(MAIL)} {html.escape(MAIL)} {entities(CARD)}",
    "base64": f"{coded(MAIL)} {coded(CARD)} {coded(TOKEN)} {coded(FIRST)}",
    "json": nested({"mail": f"to {MAIL}", FIRST: CARD, "said": f"{LAST} has {TOKEN}"}, 4),
    "later": f"Please call {LATER} tomorrow.",
}
#: One message in parts, so short that each value is in several.
_WHOLE = f"Key {TOKEN}, mail {MAIL}, card {CARD}, for {FIRST} {LAST}."
PARTED = [_WHOLE[at : at + 9] for at in range(0, len(_WHOLE), 9)]


def plant(session):
    """Fill a session with planted values, in every kind of event that a reader meets."""
    session.append("message.system", {"content": f"You help {FIRST}. Password: {PASSWORD}"})
    with session.run(lease_seconds=300) as run:
        run.append("tool.requested", {"arguments": {"email": MAIL, "q": OPAQUE}}, tool="crm.lookup")
        run.append("tool.returned", RECORD, tool="crm.lookup", resource=f"crm/{MAIL}")
        run.append("tool.returned", {"text": json.dumps(RECORD), "rows": [[FIRST, CARD], [int(CARD), MAIL]]})
        run.append("tool.returned", {MAIL: 1, FIRST: {CARD: 2}, TOKEN: [int(CARD), float(CARD_2)]})
        for text in TEXTS.values():
            run.append("message.assistant", {"content": text})
            run.append("message.assistant", {"content": [{"type": "text", "text": text}]})
        run.append("message.assistant", text_of_its_own())
        run.append("tool.failed", {"error": f"no {FIRST} {LAST} at {STREET}", "kind": "lookup"})
        run.append("observation.recorded", {"seen": EPOCH_MS, "who": MAIL, "n": int(CARD)}, resource=MAIL)
        run.append("decision.made", {"decision": f"write to {MAIL}", "why": f"{FIRST} asked", "by": FIRST})
        run.append("approval.requested", {"what": f"mail {MAIL}", "by": COUSIN})
        run.append("product.own", {"anything": [MAIL, FIRST, {"note": TEXTS["plain"]}], "n": int(CARD)})
        run.append("message.user", raw=json.dumps({"content": TEXTS["plain"], "token": TOKEN}).encode())
        run.append("message.user", raw=b"\xff\xfe" + MAIL.encode() + b"\x80" + TOKEN.encode())
        run.append("message.user", raw=TEXTS["plain"].encode())
        run.append("message.user", {"content": (MAIL + " " + "x" * 1000) * 5000})
        run.append("message.user", raw=io.BytesIO(TEXTS["plain"].encode() * 8000))
        run.append("message.assistant", {"content": "ok"}, tool=f"mail {MAIL}", usage={"model": MAIL, "n": 3})
        effect = run.effect("email.send", f"mail-{MAIL}", {"to": MAIL, "body": FIRST}, subject=FIRST)
        effect.once(lambda _: {"id": MAIL, "password": PASSWORD})
        run.effect("pay", CARD, {"iban": IBAN, "to": LAST}).intend()
        run.append("context.summarized", {"summary": f"{FIRST} pays with {CARD}", "through": 3})
        run.append("state.changed", {"from": "new", "to": "waiting"})
        run.append("state.changed", {"from": FIRST, "to": f"waiting for {MAIL}"})
        run.append("message.assistant", {"content": [{"type": "text", "text": part} for part in PARTED]})
        run.checkpoint()
        run.append("tool.requested", {"arguments": json.dumps({"to": MAIL})}, tool=f"ask {FIRST}")
    session.append("message.user", {"content": f"{FIRST}: is {MAIL} right? {TOKEN}"})
    session.append("tool.returned", {"user": {"first_name": LATER, "email": "z@posteo.example"}})


def text_of_its_own():
    return f"{MAIL} {CARD}"


def about(owner):
    return owner.sessions.create(
        title=f"{FIRST} {LAST}, card {CARD}",
        labels={"customer": MAIL, FIRST: TOKEN, "stage": "open"},
        config=f"analyst@{MAIL}",
        external_id=f"case-{MAIL}",
        config_document={"instructions": f"serve {FIRST}", "tools": []},
    )


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """One session for all that only read."""
    place = tmp_path_factory.mktemp("views")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        with Vault.create(place / "vault", settings={"synchronous": "NORMAL"}) as vault:
            owner = vault.access(OWNER)
            session = about(owner)
            plant(session)
            for level, grantee in GRANTEES.items():
                owner.grants.give(session.id, to=grantee.subject, level=level, may=["append"])
            yield vault, session


# ---------------------------------------------------------------------------------------- every reader


#: Numbers of the vault's own: their digits are chance, and four of them can be those of any card.
COUNTED = re.compile(r"\w*_us|size|seq|through|tokens|bytes")


def plain(value):
    """Everything that an answer holds, as JSON: fields of objects too, and bytes as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return plain({name: getattr(value, name) for name in names if name != "run"})
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return [[plain(key), plain(item)] for key, item in value.items() if not is_counted(key, item)]
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def is_counted(key, item):
    return isinstance(item, int) and isinstance(key, str) and COUNTED.fullmatch(key) is not None


def everything(value):
    return json.dumps(plain(value), ensure_ascii=False)


def exported(session):
    out = io.BytesIO()
    export_session(session, out)
    return out.getvalue()


def filtered(session):
    events = list(session.events())
    run = next(event.run for event in events if event.run)
    first, last = events[2], events[-2]
    return [
        list(session.events(types=["message.user", "tool.returned"])),
        list(session.events(run=run)),
        list(session.events(run=run, types=["message.assistant"])),
        list(session.events(after=first.id, before=last.id)),
        list(session.events(since=first.recorded_at, until=last.recorded_at)),
        list(session.events(limit=40, newest_first=True)),
    ]


def sliced(session):
    events = list(session.events())
    return list(session.slice(events[1].id, events[-1].id))


def found_effects(session):
    run = next(event.run for event in session.events() if event.run)
    return [
        session.effects(),
        session.effects(kind="email.send"),
        session.effects(kind="email.send", key=f"mail-{MAIL}"),
        session.last_committed_effect(run, "email.send"),
    ]


WAYS = {
    "events": lambda session: list(session.events()),
    "filters": filtered,
    "slice": sliced,
    "follow": lambda session: list(session.follow(idle_seconds=0.01)),
    "info": lambda session: session.info(),
    "checkpoint": lambda session: session.last_checkpoint(),
    "effects": found_effects,
    "replay": lambda session: list(session.replay()),
    "recover": lambda session: session.recover(),
    "context": lambda session: session.context(),
    "export": exported,
}


def shreds(canaries):
    """Every part of a planted value that has four characters or more: all of those with four."""
    parts = set()
    for canary in canaries:
        word = canary.casefold()
        parts |= {word[at : at + 4] for at in range(len(word) - 3)}
    # Words of the vault's own, of the planted structure, or of an ordinary date, are no sign of a leak.
    return {
        part for part in parts if not re.fullmatch(r"0{4}|example|.*xamp.*|ampl|mple|19.*|.*11-0.*", part)
    }


#: A value's own parts only: "posteo.example" is in no other text.
PARTS = shreds(PERSONAL + SECRETS) - {"1111"} | {"1111"}


def leaks(answer, parts=PARTS):
    text = everything(answer)
    # Ids and times of the vault are hexadecimal and digits at random: four of them say nothing.
    for made in (
        r"(?:evt|ses|run)_[0-9a-f-]{36}",
        r"sha256/[0-9a-f]{64}",
        r"\b[0-9a-f]{64}\b",
        r"20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(?:\+00:00|Z)?",
        r"\b1[0-9]{15}\b",
        r'\\"(?:size|seq|through|bytes|[a-z]+_us)\\":[0-9]+',
        r"[A-Z_]+_[A-Z2-7]{16}",
    ):
        text = re.sub(made, "~", text)
    text = text.casefold()
    return sorted(part for part in parts if part in text)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reader", BELOW)
def test_no_part_of_a_planted_value_is_in_what_a_view_answers(planted, reader, way):
    """R1, R2, R4, O1, L4"""
    vault, session = planted
    principal, level = READERS[reader]
    answer = WAYS[way](vault.access(principal).sessions.resume(session.id))
    assert leaks(answer) == []
    if level < "L2":
        assert OPAQUE not in everything(answer)


def test_the_search_for_leaks_finds_what_is_planted(planted):
    """R2: in the owner's own answers every value stands somewhere"""
    _, session = planted
    assert leaks(WAYS["events"](session)) == sorted(PARTS)
    for way in set(WAYS) - {"effects", "checkpoint", "recover", "info"}:
        assert len(leaks(WAYS[way](session))) > len(PARTS) / 2, way
    for way in ("effects", "recover", "info"):
        assert leaks(WAYS[way](session)), way


@pytest.mark.parametrize("level", LEVELS[:3])
def test_a_list_of_shared_sessions_shows_nothing_planted(planted, level):
    """R1, S2, O2"""
    vault, session = planted
    (item,) = vault.access(GRANTEES[level]).grants.to_me()
    assert item.id == session.id
    assert item.event_count == session.info().event_count
    assert leaks(item) == []


@pytest.mark.parametrize("reader", BELOW)
def test_a_list_of_sessions_is_of_ones_own_or_shows_a_tenants_role_nothing_planted(planted, reader):
    """O1, R1, S2"""
    vault, session = planted
    items = vault.access(READERS[reader][0]).sessions.find().items
    assert [item.id for item in items] == ([] if reader.startswith("grantee") else [session.id])
    assert leaks(items) == []


def test_the_owner_sees_everything_as_it_was_written(planted):
    """R1, L1"""
    vault, session = planted
    events = list(vault.access(OWNER).sessions.resume(session.id).events())
    payloads = [event.payload for event in events]
    assert RECORD in payloads
    for text in TEXTS.values():
        assert {"content": text} in payloads
        assert {"content": [{"type": "text", "text": text}]} in payloads
    assert b"\xff\xfe" + MAIL.encode() + b"\x80" + TOKEN.encode() in [event.raw for event in events]
    assert session.info().title == f"{FIRST} {LAST}, card {CARD}"
    assert session.info().labels["customer"] == MAIL
    (streamed,) = (event for event in events if event.streamed)
    with session.open(streamed) as stream:
        assert stream.read() == TEXTS["plain"].encode() * 8000


# ------------------------------------------------------------------------------- what a level promises


def view_of(vault, principal, session):
    return list(vault.access(principal).sessions.resume(session.id).events())


@pytest.mark.parametrize("reader", BELOW)
def test_what_the_vault_knows_of_an_event_is_in_every_view(planted, reader):
    """R1, L6"""
    vault, session = planted
    for full, shown in zip(session.events(), view_of(vault, READERS[reader][0], session), strict=True):
        for name in ("id", "seq", "type", "recorded_us", "run", "caused_by", "level", "payload_ref", "size"):
            assert getattr(full, name) == getattr(shown, name)


def alike(full, shown):
    if isinstance(full, dict) and isinstance(shown, dict):
        return len(full) == len(shown) and all(map(alike, full.values(), shown.values()))
    if isinstance(full, list) and isinstance(shown, list):
        return len(full) == len(shown) and all(map(alike, full, shown))
    return isinstance(shown, str) or (not isinstance(full, str | dict | list) and not isinstance(shown, dict))


@pytest.mark.parametrize("reader", BELOW)
def test_a_view_has_the_structure_of_what_was_written(planted, reader):
    """R2"""
    vault, session = planted
    for full, shown in zip(session.events(), view_of(vault, READERS[reader][0], session), strict=True):
        if full.raw is None and not full.streamed:
            assert alike(full.payload, shown.payload), full.type


def record_of(events):
    return next(event.payload for event in events if event.type == "tool.returned")


def test_the_structure_view_shows_fields_and_no_values(planted):
    """R1, R4"""
    vault, session = planted
    events = view_of(vault, AUDITOR, session)
    assert record_of(events)["customer"]["address"] == {"street": "<string>", "zip": "<string>"}
    assert record_of(events)["password"] == "<secret>"
    assert {event.tool for event in events} == {None}


def test_the_masked_view_shows_what_was_hidden_by_its_kind(planted):
    """R1, R2"""
    vault, session = planted
    events = view_of(vault, SUPPORT, session)
    first = next(event.payload["content"] for event in events if event.type == "message.assistant")
    assert first.startswith("[NAME] of [STREET], [ZIP], born [BIRTH_DATE]: [EMAIL], [PHONE], IBAN [IBAN]")
    assert record_of(events)["customer"]["email"] == "[EMAIL]"
    assert "crm.lookup" in {event.tool for event in events}


def test_the_pseudonymised_view_joins_a_field_and_a_sentence(planted):
    """R1, R3"""
    vault, session = planted
    events = view_of(vault, OFFICER, session)
    customer = record_of(events)["customer"]
    first = next(event.payload["content"] for event in events if event.type == "message.assistant")
    for name, kind in (("email", "EMAIL"), ("phone", "PHONE"), ("iban", "IBAN")):
        assert re.fullmatch(f"{kind}_[A-Z2-7]{{16}}", customer[name])
        assert customer[name] in first
    assert "[SECRET]" in first
    assert record_of(events)["note"] == OPAQUE


def test_a_time_in_milliseconds_is_shown_where_numbers_are_and_a_card_is_not(planted):
    """R2"""
    vault, session = planted
    for principal, seen in ((AUDITOR, "<number>"), (SUPPORT, "<number>"), (OFFICER, EPOCH_MS)):
        events = view_of(vault, principal, session)
        payload = next(event.payload for event in events if event.type == "observation.recorded")
        assert (payload["seen"], payload["n"]) == (seen, "<number>")


def test_what_has_no_text_is_its_rounded_size(planted):
    """R4"""
    vault, session = planted
    for principal in (AUDITOR, SUPPORT, OFFICER):
        sizes = [event.payload for event in view_of(vault, principal, session)]
        assert sum(isinstance(size, dict) and set(size) == {"bytes"} for size in sizes) == 3
        assert not any(event.streamed for event in view_of(vault, principal, session))


def test_broken_glass_shows_everything_but_the_secrets(planted):
    """R5"""
    vault, session = planted
    access = vault.access(Principal(tenant="acme", subject="sam", roles=frozenset({"support"})))
    access.break_glass.request(session.id, "a fraud report", minutes=5)
    for way, answer in WAYS.items():
        shown = answer(access.sessions.resume(session.id))
        assert leaks(shown, shreds(SECRETS)) == [], way
    events = list(access.sessions.resume(session.id).events())
    assert record_of(events)["customer"] == RECORD["customer"]
    assert record_of(events)["password"] == "<secret>"
    access.break_glass.end(session.id)
    assert leaks(list(access.sessions.resume(session.id).events())) == []


@pytest.mark.parametrize("level", LEVELS[:3])
def test_an_event_of_a_lower_level_is_not_shown_above_it(vault, level):
    """R1, L6"""
    owner = vault.access(OWNER)
    session = owner.sessions.create()
    session.append("message.user", {"content": f"{OPAQUE} to {MAIL}"}, level=level)
    owner.grants.give(session.id, to="grantee-L3", level="L3")
    (event,) = view_of(vault, GRANTEES["L3"], session)
    assert leaks(event) == []
    assert (OPAQUE in everything(event)) == (level != "L0")


# ----------------------------------------------------------------------- runs of whom it is shared with


@pytest.fixture
def shared(vault):
    """The planted session in a vault of its own, to write to."""
    owner = vault.access(OWNER)
    session = about(owner)
    plant(session)
    for level, grantee in GRANTEES.items():
        owner.grants.give(session.id, to=grantee.subject, level=level, may=["append"])
    return session


@pytest.mark.parametrize("level", LEVELS[:3])
def test_what_waking_tells_a_grantee_is_a_view(vault, shared, level):
    """R1, C5, O2"""
    woken = vault.access(GRANTEES[level]).sessions.wake(shared.id)
    assert leaks(woken) == []
    assert woken.pending_tools
    woken.run.stop()
    own = vault.access(OWNER).sessions.wake(shared.id)
    assert leaks(own)
    own.run.stop()


@pytest.mark.parametrize("level", LEVELS[:3])
def test_the_inbox_of_a_grantees_run_is_a_view(vault, shared, level):
    """R1, O2"""
    with vault.access(GRANTEES[level]).sessions.resume(shared.id).run() as run:
        shared.post("message.user", {"content": TEXTS["plain"]})
        (posted,) = run.inbox()
    assert posted.type == "message.user"
    assert leaks(posted) == []


# ------------------------------------------------------------------------------------ names that come later


def said(vault, principal, session):
    """What a reader sees of the messages."""
    events = vault.access(principal).sessions.resume(session.id).events(types=["message.user"])
    return [event.payload["content"] for event in events]


def test_a_name_that_a_record_tells_later_is_hidden_in_what_was_said_before(vault):
    """R2: also for a reader who looked before anything named it"""
    session = vault.access(OWNER).sessions.create()
    session.append("message.user", {"content": f"Please call {LATER}."})
    assert said(vault, SUPPORT, session) == [f"Please call {LATER}."]
    session.append("tool.returned", {"user": {"first_name": LATER}})
    assert said(vault, SUPPORT, session) == ["Please call [NAME]."]


def test_a_name_in_a_record_that_was_stored_as_raw_json_is_known_too(vault):
    """R2, A4"""
    session = vault.access(OWNER).sessions.create()
    session.append("message.user", {"content": f"Please call {LATER}."})
    session.append("tool.returned", raw=json.dumps({"user": {"first_name": LATER}}).encode())
    assert said(vault, SUPPORT, session) == ["Please call [NAME]."]


_APPEND_A_RECORD = """
import sys
from vault import Principal, Vault
with Vault.open(sys.argv[1]) as vault:
    owner = vault.access(Principal(tenant="acme", subject="alice", roles=frozenset({"owner", "agent"})))
    owner.sessions.resume(sys.argv[2]).append("tool.returned", {"user": {"first_name": sys.argv[3]}})
"""


def test_a_name_that_another_process_appended_is_hidden_at_the_next_look(vault, place, python):
    """R2, L2"""
    session = vault.access(OWNER).sessions.create()
    session.append("message.user", {"content": f"Please call {LATER}."})
    reader = vault.access(SUPPORT).sessions.resume(session.id)
    assert LATER in everything(list(reader.events()))
    program = python(_APPEND_A_RECORD, place, session.id, LATER)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 0, errors
    assert LATER not in everything(list(reader.events()))


@pytest.mark.parametrize("named_in", ["the original", "the fork"])
def test_a_fork_and_its_original_know_each_others_names(vault, named_in):
    """R2, S4: a reader of the fork reads both logs"""
    sessions = vault.access(OWNER).sessions
    original = sessions.create()
    original.append("message.user", {"content": f"Please call {LATER}."})
    if named_in == "the original":
        original.append("tool.returned", {"user": {"first_name": LATER}})
    fork = sessions.fork(original.id)
    fork.append("message.user", {"content": f"And {LATER} again."})
    if named_in == "the fork":
        fork.append("tool.returned", {"user": {"first_name": LATER}})
    assert said(vault, SUPPORT, fork) == ["Please call [NAME].", "And [NAME] again."]


def by_effect(session, name):
    with session.run(lease_seconds=300) as run:
        run.effect("email.send", "mail-1", {"user": {"first_name": name}}).intend()


def by_key_of_another_type(event_type, payload):
    def told(session, name):
        session.append(event_type, json.loads(json.dumps(payload).replace("NAME", name)))

    return told


TELLERS = {
    "an intended effect": by_effect,
    "an approval": by_key_of_another_type("approval.requested", {"what": "a refund", "by": "NAME"}),
    "an approval's object": by_key_of_another_type("approval.granted", {"customer": {"name": "NAME"}}),
    "a decision": by_key_of_another_type("decision.made", {"decision": "pay", "by": "NAME"}),
    "a failed tool": by_key_of_another_type("tool.failed", {"error": {"user": {"first_name": "NAME"}}}),
    "a failed tool's text": by_key_of_another_type("tool.failed", {"error": '{"first_name": "NAME"}'}),
    "a product's own type": by_key_of_another_type("crm.synced", {"rows": [{"last_name": "NAME"}]}),
    "a call in a message": by_key_of_another_type(
        "message.assistant",
        {"tool_calls": [{"function": {"name": "mail", "arguments": '{"first_name": "NAME"}'}}]},
    ),
}


@pytest.mark.parametrize("teller", TELLERS)
def test_a_name_is_learnt_from_whatever_names_it(vault, teller):
    """R2: also when it is told after the reader has looked once"""
    session = vault.access(OWNER).sessions.create()
    session.append("message.user", {"content": f"Please call {LATER}."})
    assert said(vault, SUPPORT, session) == [f"Please call {LATER}."]
    TELLERS[teller](session, LATER)
    assert said(vault, SUPPORT, session) == ["Please call [NAME]."]


def test_words_that_nothing_names_are_learnt_from_no_sentence(vault):
    """R2"""
    session = vault.access(OWNER).sessions.create()
    session.append("message.user", {"content": f"Please call {LATER}."})
    session.append("crm.synced", {"note": f"{LATER} called", "subject": LATER})
    assert said(vault, SUPPORT, session) == [f"Please call {LATER}."]


# ------------------------------------------------------------------------- what is split over two events

SPLIT = [
    pytest.param("my key is ", TOKEN, " keep it", id="token"),
    pytest.param("write to ", MAIL, " soon", id="email"),
    pytest.param("it is ", spaced(CARD), " until May", id="card"),
    pytest.param("it is ", CARD, " until May", id="card-without-spaces"),
    pytest.param("ask ", FIRST, " again", id="name"),
]


def written_in_parts(vault, parts, shape):
    """A session that knows a name, whose run wrote a text in parts."""
    session = vault.access(OWNER).sessions.create()
    session.append("tool.returned", {"user": {"first_name": FIRST}})
    with session.run(lease_seconds=300) as run:
        for part in parts:
            run.append("message.assistant", shape(part))
    return session


SHAPES = {
    "content": lambda part: {"content": part},
    "parts": lambda part: {"content": [{"type": "text", "text": part}]},
}


def texts_of(session):
    payloads = [event.payload["content"] for event in session.events(types=["message.assistant"])]
    return [content if isinstance(content, str) else content[0]["text"] for content in payloads]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reader", ["support", "officer"])
@pytest.mark.parametrize(("before", "value", "after"), SPLIT)
def test_a_value_that_is_split_over_two_events_is_hidden_in_both(vault, before, value, after, reader, shape):
    """R2, L4: wherever the seam is"""
    principal, _ = READERS[reader]
    for cut in range(1, len(value), 3):
        parts = [before + value[:cut], value[cut:] + after]
        session = written_in_parts(vault, parts, SHAPES[shape])
        first, second = texts_of(vault.access(principal).sessions.resume(session.id))
        assert re.fullmatch(re.escape(before) + r"\[[A-Z_]+\] ?", first), (cut, first)
        assert re.fullmatch(r" ?\[[A-Z_]+\]" + re.escape(after), second), (cut, second)


@pytest.mark.parametrize("reader", ["support", "officer"])
@pytest.mark.parametrize("length", [1, 4, 9])
def test_a_value_that_is_split_over_many_events_is_hidden_in_all(vault, reader, length):
    """R2, L4: as models stream their words"""
    text = f"the key is {TOKEN} and the mail is {MAIL} now"
    parts = [text[at : at + length] for at in range(0, len(text), length)]
    session = written_in_parts(vault, parts, SHAPES["content"])
    principal, _ = READERS[reader]
    shown = texts_of(vault.access(principal).sessions.resume(session.id))
    assert leaks("".join(shown), shreds([TOKEN, MAIL])) == []
    assert shown[0] == parts[0]
    assert texts_of(session) == parts


def test_events_between_the_parts_do_not_hide_the_seam(vault):
    """R2, L4: of another type, and of the same type outside of the run"""
    session = vault.access(OWNER).sessions.create()
    with session.run(lease_seconds=300) as run:
        run.append("message.assistant", {"content": f"it is {TOKEN[:20]}"})
        run.append("tool.requested", {"arguments": {}}, tool="clock")
        session.post("message.assistant", {"content": "wait"})
        run.append("message.assistant", {"content": f"{TOKEN[20:]} there"})
    shown = texts_of(vault.access(SUPPORT).sessions.resume(session.id))
    assert shown == ["it is [SECRET]", "wait", "[SECRET] there"]


def test_a_seam_at_a_forks_point_is_hidden_in_the_fork(vault):
    """R2, S4"""
    sessions = vault.access(OWNER).sessions
    original = sessions.create()
    original.append("message.assistant", {"content": f"it is {TOKEN[:20]}"})
    fork = sessions.fork(original.id)
    fork.append("message.assistant", {"content": f"{TOKEN[20:]} there"})
    assert texts_of(vault.access(SUPPORT).sessions.resume(fork.id))[1] == "[SECRET] there"


AWS_KEY = "AKIAIOSFODNN7EXAMPLE"
NOISE = [
    pytest.param(["it is", CARD[:8], CARD[8:], "2233"], id="digits-behind-a-card"),
    pytest.param(["77", CARD[:8], CARD[8:], "now"], id="digits-before-a-card"),
    pytest.param(["77", CARD[:8], CARD[8:], "2233"], id="digits-on-both-sides-of-a-card"),
    pytest.param(["it is ", IBAN[:12], IBAN[12:], "Thanks"], id="a-word-behind-a-bank-account"),
    pytest.param(["it is ", PHONE[:8], PHONE[8:], "12345"], id="digits-behind-a-phone-number"),
    pytest.param(["it is ", AWS_KEY[:12], AWS_KEY[12:], "Thanks"], id="a-word-behind-a-key"),
]


@pytest.mark.parametrize("parts", NOISE)
@pytest.mark.parametrize("reader", ["support", "officer"])
def test_what_stands_beside_the_parts_of_a_value_does_not_show_them(vault, parts, reader):
    """R2, L4: joined with all that is near, the parts would be no value"""
    session = written_in_parts(vault, parts, SHAPES["content"])
    principal, _ = READERS[reader]
    shown = texts_of(vault.access(principal).sessions.resume(session.id))
    assert not leaks(shown, shreds(parts[1:3]) | set(parts[1:3]))


@pytest.mark.parametrize("level", LEVELS[:3])
def test_a_seam_is_hidden_by_the_level_that_an_event_was_stored_at(vault, level):
    """R1, R2, L6"""
    owner = vault.access(OWNER)
    session = owner.sessions.create()
    for part in (f"it is {CARD[:8]}", f"{CARD[8:]} there"):
        session.append("message.assistant", {"content": part}, level=level)
    owner.grants.give(session.id, to="grantee-L3", level="L3")
    assert leaks(view_of(vault, GRANTEES["L3"], session), shreds([CARD])) == []


def test_broken_glass_hides_a_split_secret_and_shows_a_split_address(vault):
    """R2, R5"""
    session = vault.access(OWNER).sessions.create()
    parts = [f"write {MAIL[:9]}", f"{MAIL[9:]} with {TOKEN[:20]}", f"{TOKEN[20:]} there"]
    for part in parts:
        session.append("message.assistant", {"content": part})
    access = vault.access(SUPPORT)
    access.break_glass.request(session.id, "a fraud report", minutes=5)
    shown = texts_of(access.sessions.resume(session.id))
    assert shown == [parts[0], f"{MAIL[9:]} with [SECRET]", "[SECRET] there"]


def test_a_split_value_in_raw_json_and_in_a_preview_is_hidden(vault):
    """R2, S2, A4"""
    session = vault.access(OWNER).sessions.create()
    for part in (f"write {MAIL[:9]}", f"{MAIL[9:]} now"):
        session.append("message.user", raw=json.dumps({"content": part}).encode())
    reader = vault.access(SUPPORT).sessions.resume(session.id)
    assert leaks([list(reader.events()), reader.info()], shreds([MAIL])) == []


def test_whole_messages_beside_each_other_stay_as_they_are(vault):
    """R2: what ends in one message does not hide how the next one begins"""
    parts = ["Hello there.", "Numbers: 41, 12.", "11 of them", f"ask {FIRST}", "Thanks for that."]
    session = written_in_parts(vault, parts, SHAPES["content"])
    shown = texts_of(vault.access(SUPPORT).sessions.resume(session.id))
    assert shown == [*parts[:3], "ask [NAME]", parts[4]]


def test_one_more_detector_adds_to_what_a_view_hides(place, monkeypatch):
    """R2: as Presidio's recognizers, where they are asked for"""

    def added(find):
        return lambda text: [*find(text), *(Span(*m.span(), "PLATE", 2) for m in PLATE.finditer(text))]

    monkeypatch.setattr(wiring, "Viewer", functools.partial(Viewer, added=added))
    with Vault.create(place / "another", settings={"synchronous": "NORMAL"}) as vault:
        session = vault.access(OWNER).sessions.create()
        session.append("message.user", {"content": f"Mail {MAIL} about B-XY 77."})
        assert said(vault, SUPPORT, session) == ["Mail [EMAIL] about [PLATE]."]


PLATE = re.compile(r"[A-Z]{1,3}-[A-Z]{1,2} [0-9]{1,4}")


# ------------------------------------------------------------------- what is split over parts of one message


def in_parts(vault, *messages):
    """A session that knows a name, and messages that consist of these parts."""
    session = vault.access(OWNER).sessions.create()
    session.append("tool.returned", {"user": {"first_name": FIRST}})
    for parts in messages:
        session.append("message.user", {"content": [{"type": "text", "text": part} for part in parts]})
    return session


def parts_of(vault, principal, session):
    events = vault.access(principal).sessions.resume(session.id).events(types=["message.user"])
    return [[part["text"] for part in event.payload["content"]] for event in events]


@pytest.mark.parametrize("reader", ["support", "officer"])
@pytest.mark.parametrize(("before", "value", "after"), SPLIT)
def test_a_value_that_is_split_over_two_parts_of_a_message_is_hidden_in_both(
    vault, before, value, after, reader
):
    """R2: wherever the seam is"""
    for cut in range(1, len(value), 3):
        session = in_parts(vault, [before + value[:cut], value[cut:] + after])
        ((first, second),) = parts_of(vault, READERS[reader][0], session)
        assert re.fullmatch(re.escape(before) + r"\[[A-Z_]+\] ?", first), (cut, first)
        assert re.fullmatch(r" ?\[[A-Z_]+\]" + re.escape(after), second), (cut, second)


@pytest.mark.parametrize("length", [1, 5])
def test_a_value_over_many_parts_and_over_the_next_message_is_hidden_in_all(vault, length):
    """R2"""
    text = f"the key is {TOKEN} and the mail is {MAIL} now"
    parts = [text[at : at + length] for at in range(0, len(text), length)]
    session = in_parts(vault, parts[:20], parts[20:])
    shown = "".join(itertools.chain.from_iterable(parts_of(vault, SUPPORT, session)))
    assert leaks(shown, shreds([TOKEN, MAIL])) == []
    assert shown.startswith("the key is ")
    assert shown.endswith(" now")


def test_equal_parts_are_hidden_only_where_they_belong_to_a_value(vault):
    """R2"""
    session = in_parts(vault, ["4111", "is the first, then 4111 1111 1111 ", "1111", " end"])
    assert parts_of(vault, SUPPORT, session) == [["4111", "is the first, then [CARD]", "[CARD]", " end"]]


def test_cells_of_a_table_are_no_parts_of_one_text(vault):
    """R2"""
    session = vault.access(OWNER).sessions.create()
    cells = ["4111", "1111", "1111", "1111"]
    session.append("tool.returned", {"rows": [{"n": cell} for cell in cells], "content": cells})
    (event,) = view_of(vault, OFFICER, session)
    assert [row["n"] for row in event.payload["rows"]] == cells
    assert event.payload["content"] == ["[CARD]"] * 4
