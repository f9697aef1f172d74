"""Ids, names, types and times: parsed at the edge, refused in one sentence, shown to nobody."""

import threading
import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault import NewEvent, Principal, errors, model, new_event_id, new_run_id
from vault.clock import from_us, to_us
from vault.errors import InvalidInput, NotFound, VaultError
from vault.model import (
    NAME_LENGTH_MAX,
    check_name,
    check_type,
    event_bytes,
    format_id,
    parse_id,
    run_bytes,
    session_bytes,
    uuid7,
)

CANARY = "Zanzibar-4711"
GOOD_UUID = "018f4a2e-0000-7000-8000-0123456789ab"


def test_ids_are_version_seven_of_the_standard_and_carry_the_time(monkeypatch):
    """L7, RFC 9562 §5.7"""
    moment = 1_900_000_000_123_456_789
    monkeypatch.setattr(model, "now_ns", lambda: moment)
    monkeypatch.setattr(model, "_id_last", 0)
    made = uuid.UUID(bytes=uuid7())
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert made.int >> 80 == moment // 1_000_000
    assert (made.int >> 64) & 0xFFF == moment % 1_000_000 * 4096 // 1_000_000


def test_ids_sort_in_the_order_they_were_made():
    """L7"""
    made = [uuid7() for _ in range(5_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("step", [0, -1_000_000_000], ids=["stands-still", "goes-back"])
def test_ids_sort_in_order_though_the_clock_does_not(monkeypatch, step):
    """L7, RFC 9562 §6.2"""
    moments = iter(range(2 * 10**18, 2 * 10**18 + step * 300 - 1, step) if step else [2 * 10**18] * 300)
    monkeypatch.setattr(model, "now_ns", lambda: next(moments))
    made = [uuid7() for _ in range(300)]
    assert made == sorted(set(made))
    assert {uuid.UUID(bytes=raw).version for raw in made} == {7}


def test_threads_never_make_the_same_id_and_each_sees_its_own_in_order():
    """L7"""
    made: list[list[bytes]] = [[] for _ in range(8)]

    def work(mine: list[bytes]) -> None:
        mine.extend(uuid7() for _ in range(1_000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    # The time part alone tells them apart: order never rests on the random bits.
    assert len({raw[:8] for mine in made for raw in mine}) == 8_000


@given(st.binary(min_size=16, max_size=16), st.sampled_from(["ses", "evt", "run"]))
def test_an_id_reads_back_as_its_bytes(raw, prefix):
    text = format_id(prefix, raw)
    assert parse_id(prefix, text) == raw
    assert all(parse_id(other, text) is None for other in {"ses", "evt", "run"} - {prefix})


MALFORMED = {
    "empty": "",
    "no-prefix": GOOD_UUID,
    "other-prefix": f"xxx_{GOOD_UUID}",
    "upper-case": f"{{}}_{GOOD_UUID.upper()}",
    "without-dashes": "{}_018f4a2e000070008000012345678900",
    "too-short": f"{{}}_{GOOD_UUID[:-1]}",
    "too-long": f"{{}}_{GOOD_UUID}0",
    "trailing-newline": f"{{}}_{GOOD_UUID}\n",
    "leading-space": f" {{}}_{GOOD_UUID}",
    "not-hexadecimal": f"{{}}_{GOOD_UUID[:-1]}g",
    "other-digits": f"{{}}_{GOOD_UUID[:-1]}\u0661",
    "sql": "{}_' OR 1=1 --",
    "path": "{}_../../etc/passwd",
    "nul": "{}_\x00",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in MALFORMED.items()])
def test_a_malformed_id_is_refused_without_being_repeated(text):
    """O1, invariant 13"""
    for prefix, parse, error in (
        ("ses", session_bytes, NotFound),
        ("evt", event_bytes, InvalidInput),
        ("run", run_bytes, InvalidInput),
    ):
        given_id = text.replace("{}", prefix)
        assert parse_id(prefix, given_id) is None
        with pytest.raises(error) as refusal:
            parse(given_id)
        assert given_id == "" or given_id not in str(refusal.value)


@pytest.mark.parametrize("value", [None, 7, b"ses_" + GOOD_UUID.encode(), uuid.UUID(GOOD_UUID), ["ses_"]])
def test_an_id_of_another_kind_of_value_is_refused_like_a_malformed_one(value):
    for parse, error in ((session_bytes, NotFound), (event_bytes, InvalidInput), (run_bytes, InvalidInput)):
        with pytest.raises(error):
            parse(value)


def test_fresh_ids_for_writers_are_of_their_kind():
    assert event_bytes(new_event_id()) < event_bytes(new_event_id())
    assert run_bytes(new_run_id()) < run_bytes(new_run_id())


@pytest.mark.parametrize(
    "name", ["message.user", "a.b", "tool.requested.v2", "x_1.y-2.z", "0.0", "a" * 62 + ".b", "a." + "b" * 62]
)
def test_a_type_is_dotted_words(name):
    """L5"""
    assert check_type(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "message", "message.", ".user", "message..user", "Message.user", "message.user "),
        *(
            "message.user\n",
            "message user",
            "m\u00e9ssage.user",
            "message/user",
            "a" * 63 + ".b",
            "a.b;drop",
            "\x00.a",
        ),
        *(None, 5, b"message.user", ["message.user"], CANARY),
    ],
)
def test_any_other_type_is_refused_in_one_sentence(name):
    """L5, invariant 13"""
    with pytest.raises(InvalidInput, match="an event type is ") as refusal:
        check_type(name)
    assert CANARY not in str(refusal.value)


@pytest.mark.parametrize("value", ["a", "é" * NAME_LENGTH_MAX, " ", "\x00", "\U0001f600" * NAME_LENGTH_MAX])
def test_a_name_is_any_text_within_the_limit(value):
    assert check_name(value, "a name") == value


@pytest.mark.parametrize(
    "value", ["", "x" * (NAME_LENGTH_MAX + 1), CANARY + "\ud800", None, 3, CANARY.encode(), [CANARY]]
)
def test_any_other_name_is_refused_without_being_repeated(value):
    """Invariants 12 and 13"""
    with pytest.raises(InvalidInput, match="a name ") as refusal:
        check_name(value, "a name")
    assert CANARY not in str(refusal.value)
    for tenant, subject in ((value, "alice"), ("acme", value)):
        with pytest.raises(InvalidInput):
            Principal(tenant=tenant, subject=subject)


def test_nouns_never_show_what_a_user_supplied():
    """Invariant 13"""
    principal = Principal(tenant=CANARY, subject=CANARY, roles={"agent"})
    event = NewEvent(type="a.b", payload=CANARY, raw=CANARY.encode(), tool=CANARY, usage={CANARY: CANARY})
    assert CANARY not in repr(principal)
    assert CANARY not in repr(event)
    assert principal.roles == frozenset({"agent"})


def test_nouns_cannot_be_changed():
    principal = Principal(tenant="acme", subject="alice")
    with pytest.raises(AttributeError):
        principal.subject = "bob"  # type: ignore[misc]


@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31)),  # noqa: DTZ001
    st.integers(-14 * 60, 14 * 60),
)
def test_times_are_kept_to_the_microsecond_in_any_zone(naive, minutes):
    """L6"""
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    back = from_us(to_us(moment))
    assert back == moment
    assert back.tzinfo is UTC


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(datetime(2026, 1, 1), id="naive"),  # noqa: DTZ001
        pytest.param("2026-01-01T00:00:00Z", id="text"),
        pytest.param(1_767_225_600, id="number"),
        pytest.param(None, id="none"),
        pytest.param(
            datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), id="before-the-first-year-in-utc"
        ),
        pytest.param(
            datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))), id="after-the-last-year-in-utc"
        ),
    ],
)
def test_a_time_that_names_no_moment_is_refused(moment):
    with pytest.raises(InvalidInput, match="a time must be "):
        to_us(moment)


def tree(kind: type[VaultError]) -> list[type[VaultError]]:
    return [kind, *(inner for child in kind.__subclasses__() for inner in tree(child))]


@pytest.mark.parametrize("kind", tree(VaultError))
def test_every_error_says_in_one_sentence_what_happened(kind):
    """Invariant 7"""
    message = str(kind())
    assert message == kind("").args[0] == (kind.__doc__ or "").splitlines()[0]
    assert message.endswith(".")
    assert "\n" not in message
    assert kind.exit_code > 0
    assert getattr(errors, kind.__name__) is kind


def test_errors_that_need_different_handling_have_different_exit_codes():
    """Invariant 7"""
    apart = [errors.NotFound, errors.Tampered, errors.Erased, errors.KeyUnavailable, errors.Conflict]
    apart += [errors.Fenced, errors.SessionEnded, errors.InvalidInput, errors.StorageUnavailable]
    apart += [errors.Busy, errors.VaultExists, errors.VaultClosed, errors.NewerVault, VaultError]
    assert len({kind.exit_code for kind in apart}) == len(apart)
