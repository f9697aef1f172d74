"""What the vault's own events say, in words; a payload that does not fit is shown as it is."""

import pytest

from vault.cli.accounts import account_of, compact, effect_name
from vault.cli.readable import reading
from vault.model import Event

EFFECT = {"kind": "email.send", "key": "order-7"}
EVENT = Event(**dict.fromkeys(Event._fields))._replace(streamed=False)


@pytest.mark.parametrize(
    ("event_type", "said", "text"),
    [
        pytest.param(
            "effect.intended", {**EFFECT, "intent": {"to": 1}}, 'email.send “order-7” {"to":1}', id="intended"
        ),
        pytest.param("effect.intended", EFFECT, "email.send “order-7”", id="intended-bare"),
        pytest.param(
            "effect.committed", {**EFFECT, "confirmation": 7}, "email.send “order-7” 7", id="committed"
        ),
        pytest.param("effect.failed", {**EFFECT, "reason": "no"}, "email.send “order-7”: no", id="failed"),
        pytest.param("effect.failed", EFFECT, "email.send “order-7”", id="failed-bare"),
        pytest.param(
            "effect.resolved",
            {**EFFECT, "decision": "retry", "by": "bob", "why": "it bounced"},
            "email.send “order-7” retry, by bob: it bounced",
            id="resolved",
        ),
        pytest.param(
            "effect.resolved", {**EFFECT, "decision": "fail"}, "email.send “order-7” fail", id="settled"
        ),
        pytest.param(
            "checkpoint.created",
            {"through": 1200, "sha256": "ab" * 32, "state": {"a": 1}, "reducer": "vault@1"},
            "the state through event 1,200, vault@1, sha256 abababababab…",
            id="checkpoint",
        ),
        pytest.param(
            "checkpoint.created",
            {"through": 2, "sha256": "ab" * 32, "state": 1, "reducer": ""},
            "the state through event 2, given by hand, sha256 abababababab…",
            id="checkpoint-by-hand",
        ),
        pytest.param("run.started", {}, "", id="started"),
        pytest.param(
            "run.woken", {"config": "a@1", "of": "run_1"}, "under config a@1 after run_1", id="woken"
        ),
        pytest.param("run.stopped", {"reason": "completed"}, "completed", id="stopped"),
        pytest.param(
            "run.failed", {"error": "ValueError", "message": "bad"}, "ValueError: bad", id="run-failed"
        ),
        pytest.param("config.changed", {"config": "a@2", "document": {}}, "config a@2", id="config"),
        pytest.param("session.restarted", {"as": "ses_1"}, "goes on as ses_1", id="restarted"),
        pytest.param("approval.requested", {"what": "a refund"}, "a refund", id="asked"),
        pytest.param(
            "approval.requested", {"what": "a refund", "of": {"n": 1}}, 'a refund {"n":1}', id="asked-of"
        ),
        pytest.param("approval.denied", {"by": "bob", "why": "too much"}, "by bob: too much", id="denied"),
        pytest.param(
            "context.summarized",
            {"summary": "He asked.", "first_seq": 1, "last_seq": 9},
            "instead of 1 to 9: He asked.",
            id="summary",
        ),
        pytest.param("state.changed", {"from": "a", "to": "b"}, "a → b", id="state"),
        pytest.param("state.changed", {"to": "b"}, "b", id="first-state"),
    ],
)
def test_an_event_of_the_vaults_own_is_told_in_words(event_type, said, text):
    assert account_of(event_type, said) == text
    assert reading(EVENT._replace(type=event_type, payload=said)) == text


@pytest.mark.parametrize(
    ("event_type", "said"),
    [
        pytest.param("effect.intended", {"kind": 1, "key": "x"}, id="kind-no-text"),
        pytest.param("effect.failed", {"reason": "x"}, id="no-names"),
        pytest.param("effect.resolved", EFFECT, id="no-decision"),
        pytest.param("checkpoint.created", {"state": 1}, id="no-hash"),
        pytest.param("run.stopped", {"other": 1}, id="no-reason"),
        pytest.param("run.failed", {"other": 1}, id="no-error"),
        pytest.param("config.changed", {"document": {}}, id="no-config"),
        pytest.param("session.restarted", {"of": 1}, id="no-session"),
        pytest.param("approval.requested", {"for": 1}, id="no-what"),
        pytest.param("approval.granted", {"ok": 1}, id="nobody"),
        pytest.param("context.summarized", {"first_seq": True, "last_seq": 2, "other": 1}, id="no-range"),
        pytest.param("state.changed", {"from": "a"}, id="no-state"),
        pytest.param("order.placed", {"order": 7}, id="a-products-own"),
    ],
)
def test_a_payload_that_does_not_fit_is_shown_as_it_is(event_type, said):
    assert account_of(event_type, said) is None
    assert reading(EVENT._replace(type=event_type, payload=said)) == compact(said)


def test_nothing_of_what_a_terminal_obeys_comes_through():
    """K1: names are the user's."""
    assert effect_name("a\x1b[2J", "b\nc\u202e") == "a\\x1b[2J “b c\\u202e”"
    said = {"kind": "a", "key": "b", "intent": "\x1b[2J\u202e"}
    assert "\x1b" not in reading(EVENT._replace(type="effect.intended", payload=said))
    assert "\u202e" not in reading(EVENT._replace(type="effect.intended", payload=said))
