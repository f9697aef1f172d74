"""Entries of the audit trail, as text for people and as JSON."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from vault.audit.oversight import ends_at
from vault.audit.trail import ASKED, BROKEN, ENTERED, GIVEN, LEFT, MENDED, REVEALED, REVOKED, USED
from vault.cli.printable import iso, local, one_line, plural
from vault.clock import from_us
from vault.erasure.expire import EXPIRED
from vault.erasure.exports import EXPORTED
from vault.erasure.holds import LIFTED, PLACED
from vault.erasure.policies import ACTIVATED, APPLIED, APPROVED, CANCELLED, PENDING
from vault.erasure.proof import PROVED
from vault.erasure.reencrypt import REENCRYPTED
from vault.erasure.retention import DATED
from vault.erasure.service import ASKED as ERASURE
from vault.model import format_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.audit.trail import Entry

_TYPE_CELLS: Final = 18
_INDENT: Final = " " * 7
_REASON_MAX: Final = 1_000
_ALARMING: Final = frozenset({ASKED, BROKEN, REVEALED})


def entry_document(entry: Entry) -> dict[str, Any]:
    """An entry as a JSON object; ``until`` when what it allows ends by itself."""
    return {
        "seq": entry.seq,
        "at": iso(entry.at),
        "what": entry.what,
        "who": entry.who,
        "session": entry.session_id,
        "until": iso(ends_at(entry)),
        "said": entry.said,
    }


def entry_text(entry: Entry, width: int) -> Text:
    """An entry on a few lines: place, time, type and who; what it says; the session."""
    style = "bold yellow" if entry.what in _ALARMING else "cyan" if entry.what != USED else ""
    head = f"{entry.seq:>5}  {local(entry.at)}  "
    lines = [Text.assemble((head, "dim"), (entry.what.ljust(_TYPE_CELLS), style), "  ", (entry.who, "dim"))]
    if entry.what in _SAID:
        said = _SAID[entry.what](entry)
        lines.append(Text(textwrap.fill(said, width, initial_indent=_INDENT, subsequent_indent=_INDENT)))
    if entry.session_id is not None:
        lines.append(Text(f"{_INDENT}{entry.session_id}", style="dim"))
    return Text("\n").join(lines)


def until_text(entry: Entry) -> str:
    """When what an entry allows ends by itself, for people."""
    moment = ends_at(entry)
    return "it is revoked" if moment is None else local(moment)


def _used(entry: Entry) -> str:
    said = entry.said
    # The action and the level came from the table; the reason names roles and actions only.
    return f"{said['action']} at {said['level']}: {said['why']}"


def _given(entry: Entry) -> str:
    may = "".join(f", may {action}" for action in entry.said["may"])
    until = f", until {until_text(entry)}"
    return f"to {entry.said['to']} at {entry.said['level']}{may}{until}"


def _revoked(entry: Entry) -> str:
    return f"from {entry.said['to']}"


def _asked(entry: Entry) -> str:
    return f"for {entry.said['minutes']} min: {one_line(entry.said['reason'], _REASON_MAX)}"


def _broken(entry: Entry) -> str:
    reason = one_line(entry.said["reason"], _REASON_MAX)
    return f"for {entry.said['for']} until {until_text(entry)}: {reason}"


def _mended(entry: Entry) -> str:
    return f"for {entry.said['for']}"


def _revealed(entry: Entry) -> str:
    return f"{one_line(entry.said['pseudonym'], 120)}: {one_line(entry.said['reason'], _REASON_MAX)}"


def _entered(entry: Entry) -> str:
    return f"{entry.said['of']} as {', '.join(entry.said['roles'])}"


def _left(entry: Entry) -> str:
    return str(entry.said["of"])


def _erasure(entry: Entry) -> str:
    said = entry.said
    return f"{_operation(entry)}: {said['selector']}, for {said['reason']}"


def _proved(entry: Entry) -> str:
    return f"{_operation(entry)}: receipt {entry.said['receipt']}"


def _operation(entry: Entry) -> str:
    return format_id("era", bytes.fromhex(entry.said["operation"]))


def _exported(entry: Entry) -> str:
    said = entry.said
    what = f"{plural(said['sessions'], 'session')} and {plural(said['items'], 'derived item')}"
    return f"of {said['subject']}: {what}, {said['held_back']:,} held back"


def _placed(entry: Entry) -> str:
    return f"{_hold(entry)} on a {entry.said['scope']}: {one_line(entry.said['reason'], _REASON_MAX)}"


def _lifted(entry: Entry) -> str:
    return f"{_hold(entry)}: {one_line(entry.said['reason'], _REASON_MAX)}"


def _hold(entry: Entry) -> str:
    return format_id("hld", bytes.fromhex(entry.said["hold"]))


def _policy(entry: Entry) -> str:
    said = entry.said
    name = f"{said['name']} {said['version']}, " if "name" in said else ""
    since = f", in force from {local(from_us(said['from_us']))} on" if entry.what == PENDING else ""
    return f"{name}{said['digest'][:16]}{since}"


def _expired(entry: Entry) -> str:
    return plural(entry.said["epochs"], "epoch")


def _dated(entry: Entry) -> str:
    at_us = entry.said["at_us"]
    return "no date from outside" if at_us is None else f"the date from outside: {local(from_us(at_us))}"


def _reencrypted(entry: Entry) -> str:
    return f"{plural(entry.said['events'], 'event')} under {plural(entry.said['keys'], 'fresh key')}"


_SAID: Final[dict[str, Callable[[Entry], str]]] = {
    USED: _used,
    GIVEN: _given,
    REVOKED: _revoked,
    ASKED: _asked,
    BROKEN: _broken,
    MENDED: _mended,
    REVEALED: _revealed,
    ENTERED: _entered,
    LEFT: _left,
    ERASURE: _erasure,
    PROVED: _proved,
    EXPORTED: _exported,
    PLACED: _placed,
    LIFTED: _lifted,
    EXPIRED: _expired,
    DATED: _dated,
    REENCRYPTED: _reencrypted,
    **dict.fromkeys((ACTIVATED, PENDING, APPROVED, CANCELLED, APPLIED), _policy),
}
