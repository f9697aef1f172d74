"""Made-up secrets of valid shape: private key blocks, and tokens with a prefix. None opens anything."""

import base64
import json
import random
import string

from benchmarks.redaction.numbers import Made

_WORD = string.ascii_letters + string.digits
_LOWER = string.ascii_lowercase + string.digits
_UPPER = string.ascii_uppercase + string.digits
_HEX = "0123456789abcdef"
_BASE64URL = _WORD + "-_"

_BLOCKS = (
    "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY",
    "DSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK",
)  # fmt: skip
# Prefix, alphabet and length of what follows, as the issuers publish them for secret scanning.
_TOKENS = (
    ("github", "ghp_", _WORD, 36),
    ("github", "gho_", _WORD, 36),
    ("github", "ghs_", _WORD, 36),
    ("github fine-grained", "github_pat_11", _WORD + "_", 80),
    ("gitlab", "glpat-", _BASE64URL, 20),
    ("slack", "xoxb-", string.digits, 12),
    ("stripe", "sk_live_", _WORD, 24),
    ("stripe restricted", "rk_live_", _WORD, 24),
    ("openai", "sk-proj-", _BASE64URL, 48),
    ("anthropic", "sk-ant-api03-", _BASE64URL, 95),
    ("aws", "AKIA", string.ascii_uppercase + "234567", 16),
    ("aws session", "ASIA", string.ascii_uppercase + "234567", 16),
    ("google", "AIza", _BASE64URL, 35),
    ("google oauth", "ya29.", _BASE64URL, 60),
    ("google client", "GOCSPX-", _BASE64URL, 28),
    ("npm", "npm_", _WORD, 36),
    ("pypi", "pypi-AgEIcHlwaS5vcmc", _BASE64URL, 80),
    ("rubygems", "rubygems_", _HEX, 48),
    ("sendgrid", "SG.", _BASE64URL, 22),
    ("hugging face", "hf_", string.ascii_letters, 34),
    ("docker", "dckr_pat_", _BASE64URL, 27),
    ("digitalocean", "dop_v1_", _HEX, 64),
    ("shopify", "shpat_", _HEX, 32),
    ("linear", "lin_api_", _WORD, 40),
    ("notion", "ntn_", _WORD, 46),
    ("databricks", "dapi", _HEX, 32),
    ("grafana", "glsa_", _WORD, 32),
    ("vault", "hvs.", _BASE64URL, 90),
    ("age", "AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    ("telegram", "", string.digits, 10),
    ("web token", "", _BASE64URL, 0),
)


def key_block(rng: random.Random, number: int) -> Made:
    """A private key in its armour: with real line ends, with escaped ones, or cut before its end."""
    label = _BLOCKS[number % len(_BLOCKS)]
    body = base64.b64encode(rng.randbytes(rng.randrange(96, 1200))).decode()
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    block = "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"))
    form = rng.choice(("lines", "lines", "escaped", "CRLF", "cut"))
    if form == "escaped":
        block = json.dumps(block)[1:-1]
    elif form == "CRLF":
        block = block.replace("\n", "\r\n")
    elif form == "cut":
        block = block[: block.index("-----END") - 30]
    return block, f"{label}, {form}"


def token(rng: random.Random, number: int) -> Made:
    """A token of one of many issuers, in turn."""
    issuer, prefix, alphabet, length = _TOKENS[number % len(_TOKENS)]
    body = "".join(rng.choices(alphabet, k=length))
    if issuer == "slack":
        body += "-" + "".join(rng.choices(string.digits, k=12)) + "-" + "".join(rng.choices(_WORD, k=24))
    elif issuer == "sendgrid":
        body += "." + "".join(rng.choices(_BASE64URL, k=43))
    elif issuer == "grafana":
        body += "_" + "".join(rng.choices(_HEX, k=8))
    elif issuer == "telegram":
        body = rng.choice("123456789") + body[1:] + ":AA" + "".join(rng.choices(_BASE64URL, k=33))
    elif issuer == "web token":
        body = _web_token(rng)
    # A sign at the end of a token would be punctuation in the text around it.
    return prefix + body.rstrip("-_") + rng.choice(_LOWER if alphabet is _HEX else _UPPER)[
        : body[-1] in "-_"
    ], issuer


def _web_token(rng: random.Random) -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    claims = json.dumps({"sub": str(rng.randrange(10**9)), "iat": rng.randrange(10**9, 2 * 10**9)})
    return ".".join((part(b'{"alg":"HS256","typ":"JWT"}'), part(claims.encode()), part(rng.randbytes(32))))
