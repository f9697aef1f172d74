"""Secrets are found by how they are issued, by the header, URL or field they stand in, by what is said."""

import random
import string

import pytest

from vault import data
from vault.errors import InvalidInput
from vault.redaction.normalise import read
from vault.redaction.secrets import RULES_FILE, load, secrets
from vault.redaction.spans import SECRET

ALPHANUMERIC = string.ascii_letters + string.digits


def drawn(length: int, letters: str = ALPHANUMERIC, seed: int = 7) -> str:
    return "".join(random.Random(seed + length).choices(letters, k=length))


def found(text: str) -> list[str]:
    """What is marked in a plain text, joined where spans touch or overlap."""
    plain, marks = read(text).text, set()
    for span in secrets(read(text)):
        assert (span.kind, span.severity) == ("SECRET", SECRET)
        marks |= set(range(span.start, span.end))
    shown = "".join(c if at in marks else "\0" for at, c in enumerate(plain))
    return [part for part in shown.split("\0") if part]


PEM = (
    "-----BEGIN {0}PRIVATE KEY-----\n"
    + "\n".join([drawn(64)] * 5)
    + "\n"
    + drawn(20)
    + "==\n-----END {0}PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("AKIA" + drawn(16, string.ascii_uppercase), id="AWS access key"),
        pytest.param("ghp_" + drawn(36), id="GitHub"),
        pytest.param("github_pat_" + drawn(22) + "_" + drawn(59), id="GitHub, fine-grained"),
        pytest.param("glpat-" + drawn(20), id="GitLab"),
        pytest.param("xoxb-123456789012-" + drawn(24), id="Slack"),
        pytest.param("xapp-1-A" + drawn(20), id="Slack app"),
        pytest.param("sk_live_" + drawn(24), id="Stripe"),
        pytest.param("sk-" + drawn(48), id="sk-"),
        pytest.param("sk-proj-" + drawn(48), id="sk- with a project"),
        pytest.param("AIza" + drawn(35), id="Google"),
        pytest.param("npm_" + drawn(36), id="npm"),
        pytest.param("pypi-AgEIcHlwaS5vcmc" + drawn(60), id="PyPI"),
        pytest.param("SG." + drawn(22) + "." + drawn(43), id="SendGrid"),
        pytest.param("hf_" + drawn(34), id="Hugging Face"),
        pytest.param("123456789:AA" + drawn(33), id="Telegram"),
        pytest.param("hvs." + drawn(24), id="Vault"),
        pytest.param("dop_v1_" + drawn(64, "0123456789abcdef"), id="DigitalOcean"),
        pytest.param("eyJ" + drawn(30) + ".eyJ" + drawn(40) + "." + drawn(43), id="JSON web token"),
        pytest.param("AGE-SECRET-KEY-1" + drawn(58, string.ascii_uppercase + string.digits), id="age"),
        pytest.param("$2b$12$" + drawn(53), id="bcrypt"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "use {} for it", '{{"k":"{}"}}', "KEY={}", "({})", "a\n{}\nb"])
def test_issued_tokens_are_found_whole(token, around):
    """R2"""
    assert found(around.format(token)) == [token]


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_is_marked_from_its_first_to_its_last_line(kind):
    """R2"""
    key = PEM.format(kind)
    assert found(f"key:\n{key}\nthanks") == [key]
    assert found(f'{{"key": "{key}"}}'.replace("\n", "\\n")) == [key]


def test_parts_of_a_private_key_are_marked():
    """R2, R4"""
    lines = PEM.format("").splitlines()
    assert found("\n".join(lines[:4])) == ["\n".join(lines[:4])]
    assert found("\n".join(lines[3:])) == ["\n".join(lines[3:])]


def test_a_certificate_is_public():
    """R2"""
    assert found(PEM.format("").replace("PRIVATE KEY", "CERTIFICATE")) == []


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc.def-123456", "abc.def-123456"),
        ('"authorization": "Basic YWxpY2U6c2VjcmV0"', "YWxpY2U6c2VjcmV0"),
        ("Proxy-Authorization: Digest username=x, nonce=y", "username=x, nonce=y"),
        ("curl -H 'Authorization: token 0123abcd4567'", "0123abcd4567"),
        ("sent bearer 9f86d081884c7d659a2f", "9f86d081884c7d659a2f"),
        ("Cookie: sid=abc123; theme=dark", "sid=abc123; theme=dark"),
        ("Set-Cookie: session=xyz; HttpOnly", "session=xyz; HttpOnly"),
        ("PHPSESSID=298zf09hf012fh2", "298zf09hf012fh2"),
        ("https://alice:p4ss@example.com/x", "alice:p4ss"),
        ("postgresql://app:p@ss@db:5432/main", "app:p@ss"),
        ("redis://:hunter2@cache:6379", ":hunter2"),
        ("https://0123456789abcdef0123@github.com/a/b", "0123456789abcdef0123"),
        ("?sv=1&sig=abcdefghijklmnop%2B12", "abcdefghijklmnop+12"),
        ("AccountKey=abcdefghijklmnopqrst==;", "abcdefghijklmnopqrst=="),
        ("curl -u bob:pw12 https://example.com", "bob:pw12"),
        ("run --password s3cret! now", "s3cret!"),
        ("machine h login bob password swordfish", "swordfish"),
    ],
)
def test_headers_urls_and_command_lines_hold_secrets(text, secret):
    """R2"""
    assert found(text) == [secret]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password=swordfish", "swordfish"),
        ('"password": "correct horse"', "correct horse"),
        ("'db_password': 'hunter2!'", "hunter2!"),
        ("userPassword = abc123", "abc123"),
        ("DB_PASSWORD: swordfish", "swordfish"),
        ("password: correct horse battery", "correct horse battery"),
        ("api key: abc 123", "abc 123"),
        ("API_KEY=0123456789abcdef", "0123456789abcdef"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
        ('client_secret: "abcdefgh"', "abcdefgh"),
        ("access token: 0a1b2c3d4e5f", "0a1b2c3d4e5f"),
        ("my password is hunter2, ok?", "hunter2"),
        ("the password for the portal is swordfish.", "swordfish"),
        ("set the password to Tr0ub4dor&3!", "Tr0ub4dor&3"),
        ("my pin is 4711", "4711"),
        ("CVV: 123", "123"),
        ("your one-time code 482913", "482913"),
        ("verification code is 482913", "482913"),
        ("pin: 4711", "4711"),
    ],
)
def test_the_name_of_a_field_or_a_sentence_tells_a_secret(text, secret):
    """R2"""
    assert found(text) == [secret]


def test_a_seed_phrase_is_a_secret():
    """R2"""
    words = " ".join(["legal", "winner", "thank", "year", "wave", "sausage"] * 2)
    assert found(f"Recovery phrase: {words}") == [words]


@pytest.mark.parametrize(
    "text",
    [
        "the password is required",
        "your password has expired",
        "the secret is in the sauce",
        "password: str = Field()",
        "password: ${DB_PASSWORD}",
        "password=<your password>",
        '"password": null',
        '"password": "********"',
        '"max_tokens": 512, "token": "abc"',
        "token = next(tokens)",
        "I will reset the password to avoid problems",
        "basic infrastructure is fine",
        "bearer authentication",
        "risk-management-strategies-for-everyone",
        "https://example.com/@alice",
        "http://localhost:8080/a@b",
        "I had a cookie, how nice",
        "the token count is large",
        "task-oriented-dialogue-systems-2024",
        "ask AKIA about it",
        "passing: 12 tests",
    ],
)
def test_talk_of_secrets_is_none(text):
    """R2"""
    assert found(text) == []


# ------------------------------------------------------------------------------------------- the document


def test_the_shipped_rules_load_and_mark_nothing_in_nothing():
    """R2"""
    rules = load(data.policies() / RULES_FILE)
    assert len(rules) > 40
    for rule in rules:
        # A rule whose pattern matched nothing at all would mark everything.
        assert list(rule.find(b"")) == []


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("version = 2\nrule = []", "version"),
        ("version = 1\nrule = []\nextra = 1", "nothing else"),
        ("version = 1\n[[rule]]\nid = 'a'\npattern = 'a'", "keywords"),
        ("version = 1\n[[rule]]\nid = 'a'\nkeywords = ['A']\npattern = 'a'", "lower case"),
        ("version = 1\n[[rule]]\nid = 'a'\nkeywords = ['a']\npattern = '(?=a)'", "RE2"),
        ("version = 1\n[[rule]]\nid = 'a'\nkeywords = ['a']\npattern = 'a'\ncheck = 'no'", "check"),
        ("version = 1\n[[rule]]\nid = 'a'\nkeywords = ['a']\npattern = 'a'\nverify = 'url'", "known keys"),
        ("version = 1" + "\n[[rule]]\nid = 'a'\nkeywords = ['a']\npattern = 'a'" * 2, "same id"),
    ],
)
def test_a_document_that_is_not_as_it_says_is_refused(tmp_path, document, reason):
    """R2"""
    path = tmp_path / "rules.toml"
    path.write_text(document, encoding="utf-8")
    with pytest.raises(InvalidInput, match=reason):
        load(path)
