"""The kinds of things that detectors mark, and how severe each is."""

from __future__ import annotations

from typing import Final

from vault.redaction.spans import INDIRECT, PERSONAL, SECRET, Span

#: Severity by kind, the most severe first. `resolved` gives overlapping spans the kind of the longest, of
#: equally long ones the most severe, and never a lower severity than any of them had.
SEVERITY: Final = {
    "SECRET": SECRET,
    "OPAQUE": SECRET,  # encoded text that was not read: it may hold anything
    "CARD": PERSONAL,
    "NATIONAL_ID": PERSONAL,
    "IBAN": PERSONAL,
    "EMAIL": PERSONAL,
    "PHONE": PERSONAL,
    "STREET": PERSONAL,
    "NAME": PERSONAL,
    "USER_ID": PERSONAL,
    "BIRTH_DATE": INDIRECT,
    "IP": INDIRECT,
    "ZIP": INDIRECT,
    "REFERENCE": INDIRECT,
}


def marked(start: int, end: int, kind: str) -> Span:
    """A span of this kind with its severity.

    Raises:
        KeyError: no such kind.
    """
    return Span(start, end, kind, SEVERITY[kind])
