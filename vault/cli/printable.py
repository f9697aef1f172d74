"""Text that is safe and short enough for a terminal: control characters, lengths, sizes, times. Pure."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

#: Joiners that scripts and emoji need; they draw nothing and command nothing.
_JOINERS: Final = frozenset("\u200c\u200d")
#: What a terminal may obey or reorder by, and what a reader would not see, in UTF-8 JSON: DEL, C1, controls
#: of direction, invisible operators, the byte order mark, tags. JSON itself escapes the others.
_JSON_UNSAFE: Final = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_KIBI: Final = 1024
_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3_600, 86_400
_UNITS: Final = ((365 * _DAY, "year"), (30 * _DAY, "month"), (7 * _DAY, "week"), (_DAY, "day"))
_SMALL_UNITS: Final = ((_HOUR, "hour"), (_MINUTE, "minute"), (_SECOND, "second"))


def visible(text: str) -> str:
    r"""The text with what a terminal would obey written out: ESC as ``\x1b``, U+202E as ``\u202e``.

    Line ends stay (``\r\n`` as ``\n``), tabs become spaces. Content from a vault goes to a terminal through
    here only: an agent's tool may have returned anything.
    """
    if text.isprintable():
        return text
    return "".join(map(_visible, text.replace("\r\n", "\n").expandtabs(4)))


def _visible(character: str) -> str:
    if character.isprintable() or character == "\n" or character in _JOINERS:
        return character
    if unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


def one_line(text: str, limit: int) -> str:
    """The text on one line, visible, cut after ``limit`` characters."""
    # A payload may be megabytes; whitespace aside, four times the limit is enough to fill it.
    line = visible(" ".join(text[: limit * 4].split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def shortened(text: str, limit: int) -> str:
    """The first ``limit`` characters, visible, with a note of how many more there are."""
    if len(text) <= limit:
        return visible(text)
    return f"{visible(text[:limit])}… (+{len(text) - limit:,} characters)"


def terminal_json(encoded: bytes) -> bytes:
    r"""JSON with the characters that a terminal obeys as ``\uXXXX``: the same values, safe to look at."""
    return _JSON_UNSAFE.sub(_json_escape, encoded.decode()).encode()


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


def json_line(value: Any) -> bytes:
    """One JSON value on one line; dataclasses' times must be text already."""
    return terminal_json(orjson.dumps(value)) + b"\n"


def size(count: int) -> str:
    """A number of bytes for people: ``812 bytes``, ``4.3 KiB``, ``1.2 GiB``."""
    if count < _KIBI:
        return plural(count, "byte")
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= _KIBI
        if amount < _KIBI or unit == "GiB":
            break
    return f"{amount:.1f} {unit}"


def plural(count: int, noun: str) -> str:
    """``1 event``, ``1,200 events``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(span: timedelta) -> str:
    """A span in its largest unit, rounded down: ``3 hours``, ``2 weeks``."""
    seconds = int(span.total_seconds())
    for length, name in (*_UNITS, *_SMALL_UNITS):
        if seconds >= length:
            return plural(seconds // length, name)
    return "0 seconds"


def ago(moment: datetime, now: datetime) -> str:
    """How long ago something was: ``just now``, ``13 minutes ago``."""
    span = now - moment
    if span < timedelta(seconds=10):
        return "just now"
    return f"{duration(span)} ago"


def local(moment: datetime) -> str:
    """A moment in this machine's time zone, to the minute."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def iso(moment: datetime | None) -> str | None:
    """A moment as ISO 8601 in UTC, as every JSON document of the program has it."""
    if moment is None:
        return None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
