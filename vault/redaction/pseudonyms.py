"""Stable names in place of values: the same within a tenant, purpose and epoch, unlinkable across them.

``TYPE_`` and 16 letters of base32: the first 80 bits of HMAC-SHA256 over the kind and the canonical value. No
table is kept: who has the value and the key can make the pseudonym again, and once the data of a person is
erased, nothing leads from the pseudonym back.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import unicodedata
from typing import TYPE_CHECKING, Final

from vault.encoding import pack

if TYPE_CHECKING:
    from collections.abc import Iterable

_BYTES: Final = 10  # 80 bits: a chance of 1 in 10^12 that any two of a million values meet
#: Written with or without spaces and hyphens, these are the same value.
_NUMBERS: Final = frozenset({"CARD", "IBAN", "PHONE", "NATIONAL_ID", "ZIP"})
_SEPARATORS: Final = str.maketrans("", "", " -./()\u00a0\u2009\u202f")
#: What stands around a value in a sentence and is no part of it.
_AROUND: Final = " .,;:!?\"'()[]<>"


class Pseudonyms:
    """The pseudonyms of one tenant, purpose and epoch."""

    def __init__(self, key: bytes) -> None:
        """Use the key that belongs to them (``TenantKeys.pseudonym_key``)."""
        self._key = key

    def of(self, kind: str, value: str) -> str:
        """The pseudonym of a value of a kind, for example ``EMAIL_QZ4MP2…``."""
        fields = pack(kind.encode(), canonical(kind, value).encode("utf-8", "surrogatepass"))
        digest = hmac.digest(self._key, fields, hashlib.sha256)[:_BYTES]
        return f"{kind}_{base64.b32encode(digest).decode()}"

    def reveal(self, pseudonym: str, candidates: Iterable[tuple[str, str]]) -> str | None:
        """The value behind a pseudonym, if it is among the candidates (kind, value)."""
        asked = pseudonym.encode("utf-8", "surrogatepass")
        for kind, value in candidates:
            if hmac.compare_digest(self.of(kind, value).encode(), asked):
                return value
        return None


def canonical(kind: str, value: str) -> str:
    """One form of a value for all ways to write it: NFKC, no case, single spaces; numbers bare."""
    text = " ".join(unicodedata.normalize("NFKC", value).casefold().split()).strip(_AROUND)
    return text.translate(_SEPARATORS) if kind in _NUMBERS else text
