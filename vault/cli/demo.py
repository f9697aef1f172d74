"""Command ``demo``: a support conversation in a throw-away vault, and each claim put to the test."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

import vault
from vault.adapters import openai_chat, session_jsonl
from vault.cli import demo_erasure, demo_levels
from vault.cli.at_rest import below, readable, strings
from vault.cli.call import Call, command
from vault.cli.demo_crash import CLAIM, crash
from vault.cli.output import console, document, show
from vault.cli.printable import one_line, plural, size
from vault.errors import InvalidInput, NotFound, Tampered
from vault.model import Event, Principal, format_id, uuid7

if TYPE_CHECKING:
    from vault.sessions.service import Sessions
    from vault.sessions.session import Session
    from vault.wiring import Vault

#: Both stand in the sample, so that the search for clear text can be seen to find them there.
_TENANT, _SUBJECT = "Tidewater Kettles", "Ottoline Quarrenby"
_STRANGER: Final = "Mr Pellworthy"
_SAMPLE: Final = "support-conversation.jsonl"
_CHILD_SECONDS_MAX: Final = 120

_NEXT: Final = """
Next, with sessions of your own:
  session-vault init              make ./my.vault
  session-vault import FILE...    Claude Code transcripts, OpenAI chats, JSONL
  session-vault sessions          what is in it
  session-vault show latest       one of them, as a timeline
  session-vault why latest        where it stands, and why it stands still
  session-vault verify            check everything stored"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "demo")(demo)


def demo(
    call: Call,
    *,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Leave everything in this new directory, to look at it."),
    ] = None,
) -> None:
    """Show what the vault does, on a sample.

    A support conversation goes through a throw-away vault, and each claim is put to the test. Nothing is left
    behind. The exit code is 1 when a claim does not hold.
    """
    steps = _Steps(quiet=call.as_json)
    with _place(keep) as place, as_file(files("vault") / "_sample" / _SAMPLE) as sample:
        with vault.Vault.create(place / "demo.vault") as opened:
            steps.say(
                opened.info()["sessions"] == 0,
                "Made a throw-away vault: log and keys apart, and a signed ledger.",
                ", ".join(
                    sorted(path.name for path in (place / "demo.vault").iterdir() if path.name[0] != ".")
                ),
            )
            session = _take_in(steps, opened, sample)
            _resume_elsewhere(steps, place, session)
            _slice(steps, session)
            _ask_as_stranger(steps, opened, session)
            _export_and_import(steps, _owner(opened), session)
            _look_for_clear_text(steps, place, sample, session)
            owner = Principal(tenant=_TENANT, subject=_SUBJECT)
            holds, evidence = crash(opened, place, owner)
            steps.say(holds, CLAIM, evidence)
            holds, evidence, views = demo_levels.look(opened, owner, console().width)
            steps.say(holds, demo_levels.CLAIM, evidence, views)
            steps.say(*_claim(demo_erasure.ERASED, demo_erasure.erase(opened, place, owner)))
            steps.say(*_claim(demo_erasure.EXPIRED, demo_erasure.expire(place, owner)))
            steps.say(*_claim(demo_erasure.RESTORED, demo_erasure.restore(opened, place)))
            smallest = min(session.events(), key=lambda event: event.size)
        _damage_a_copy(steps, place, smallest)
    if call.as_json:
        document({"holds": steps.hold, "steps": steps.said, "kept": None if keep is None else str(keep)})
    else:
        show(Text(_look(keep) if keep else _NEXT))
    if not steps.hold:
        raise typer.Exit(1)


def _claim(claim: str, seen: tuple[bool, str]) -> tuple[bool, str, str]:
    holds, evidence = seen
    return holds, claim, evidence


@dataclass
class _Steps:
    """Prints the steps as they are done, and remembers whether all of them hold."""

    quiet: bool
    hold: bool = True
    said: list[dict[str, Any]] = field(default_factory=list)

    def say(
        self,
        holds: bool,  # noqa: FBT001 - it reads as a sentence
        claim: str,
        evidence: str,
        views: Sequence[str] = (),
    ) -> None:
        self.hold = self.hold and holds
        self.said.append({"step": len(self.said) + 1, "claim": claim, "holds": holds, "evidence": evidence})
        if not self.quiet:
            show(Text(_wrapped(f"{len(self.said)}. ", claim), style="bold"))
            for line in views:
                show(Text(line, style="dim"))
            mark = "   " if holds else "   DOES NOT HOLD: "
            show(Text(_wrapped(mark, evidence), style="" if holds else "bold red"))


def _wrapped(first: str, text: str) -> str:
    width = console().width
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent="   ", break_on_hyphens=False)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    """A directory for the demonstration, in which the machine's own memory of vaults is too."""
    with tempfile.TemporaryDirectory(prefix="session-vault-demo-") as temporary:
        place = Path(temporary) if keep is None else keep.absolute()
        if keep is not None:
            if place.exists() and (not place.is_dir() or any(place.iterdir())):
                raise InvalidInput("--keep wants a directory that does not exist yet, or an empty one")
            place.mkdir(parents=True, exist_ok=True)
        before = os.environ.get("XDG_STATE_HOME")
        os.environ["XDG_STATE_HOME"] = str(place / "state")
        try:
            yield place
        finally:
            del os.environ["XDG_STATE_HOME"]
            if before is not None:
                os.environ["XDG_STATE_HOME"] = before


def _owner(opened: Vault) -> Sessions:
    return opened.access(Principal(tenant=_TENANT, subject=_SUBJECT)).sessions


def _child(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run this same program as another process; ``-P``: nothing in the working directory is taken for it."""
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(vault.__file__).parent.parent)]
    return subprocess.run(  # noqa: S603 - our own program, and arguments that we made
        [sys.executable, "-P", "-m", "vault.cli", *arguments],
        capture_output=True,
        check=False,
        timeout=_CHILD_SECONDS_MAX,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


def _take_in(steps: _Steps, opened: Vault, sample: Path) -> Session:
    access = opened.access(Principal(tenant=_TENANT, subject=_SUBJECT))
    with sample.open("rb") as source:
        report = openai_chat.import_runs(source, access)
    session = access.sessions.resume(report.sessions[0])
    steps.say(
        report.events > 0 and not report.problems_total,
        "Took in a support conversation, each message a sealed event.",
        f"{plural(report.events, 'event')} as {session.id}",
    )
    return session


def _resume_elsewhere(steps: _Steps, place: Path, session: Session) -> None:
    owner = ["--vault", str(place / "demo.vault"), "--tenant", _TENANT, "--as", _SUBJECT]
    done = _child("show", session.id, *owner, "--json")
    read = [json.loads(line).get("id") for line in done.stdout.splitlines()]
    same = done.returncode == 0 and read == [event.id for event in session.events()]
    steps.say(
        same,
        "Resumed it in another process, by its id.",
        f"session-vault show {session.id[:12]}… read the same {plural(len(read), 'event')}"
        if same
        else "it read others",
    )


def _slice(steps: _Steps, session: Session) -> None:
    events = list(session.events())
    calls = list(session.events(types=["tool.requested"]))
    part = list(session.slice(calls[0].id, calls[-1].id))
    low, high = calls[0].seq, calls[-1].seq
    steps.say(
        calls == [event for event in events if event.type == "tool.requested"]
        and part == events[low - 1 : high],
        "Took slices of it: by type, and from one event's id to another's.",
        f"type tool.requested: {', '.join(one_line(event.tool or '', 40) for event in calls)}; "
        f"from the first call to the last: events {low} to {high}",
    )


def _ask_as_stranger(steps: _Steps, opened: Vault, session: Session) -> None:
    stranger = opened.access(Principal(tenant=_TENANT, subject=_STRANGER)).sessions
    answers = [_refusal(stranger, asked) for asked in (session.id, format_id("ses", uuid7()))]
    steps.say(
        answers[0] == answers[1] != "" and not stranger.find().items,
        "Asked for it as somebody else: answered as if it did not exist.",
        f"its id: “{answers[0]}”; an id that nobody has: “{answers[1]}”; their list: empty",
    )


def _refusal(sessions: Sessions, session_id: str) -> str:
    try:
        sessions.resume(session_id)
    except NotFound as refusal:
        return str(refusal)
    return ""


def _export_and_import(steps: _Steps, sessions: Sessions, session: Session) -> None:
    written, again = io.BytesIO(), io.BytesIO()
    session_jsonl.export_session(session, written)
    written.seek(0)

    class _Door:
        def __init__(self) -> None:
            self.sessions = sessions

    report = session_jsonl.import_session(written, _Door())
    session_jsonl.export_session(sessions.resume(report.sessions[0]), again)
    # The first line names the session, which is another one now; every other line is an event.
    same = written.getvalue().splitlines()[1:] == again.getvalue().splitlines()[1:]
    steps.say(
        same and not report.problems_total,
        "Exported it as JSON Lines, and imported that: the same events.",
        f"{plural(report.events, 'event')}, {size(len(again.getvalue()))}, equal byte for byte",
    )


def _look_for_clear_text(steps: _Steps, place: Path, sample: Path, session: Session) -> None:
    info = session.info()
    said = strings([json.loads(line) for line in sample.read_text(encoding="utf-8").splitlines()])
    told = strings([_TENANT, _SUBJECT, info.title, [*info.labels.values()]])
    wanted, at_rest = said | told, below(place)
    plain, sealed = readable(wanted, [sample]), readable(wanted, at_rest)
    log = sum(path.stat().st_size for path in at_rest if path.name.endswith("-wal"))
    steps.say(
        plain == wanted and not sealed and log > 0,
        "Looked in every file for what was said, and for title, labels and owner.",
        f"in the plain sample {len(plain)} of {len(wanted)} strings are found; in the {len(at_rest)} files "
        f"of the vault ({size(sum(path.stat().st_size for path in at_rest))}, {size(log)} of it "
        f"write-ahead log): {len(sealed)}",
    )


def _damage_a_copy(steps: _Steps, place: Path, event: Event) -> None:
    copy = place / "damaged-copy.vault"
    shutil.copytree(place / "demo.vault", copy)
    database = copy / "data.db"
    content = bytearray(database.read_bytes())
    content[sealed_at(bytes(content), event)] ^= 1
    database.write_bytes(content)
    found = _verified(copy)
    where = f"{event.session_id} event {event.seq}"
    named = [item for item in found.get("findings", []) if item["place"].startswith(where)]
    sound = _verified(place / "demo.vault").get("ok") is True
    steps.say(
        bool(named) and sound and _refuses_to_read(copy, event),
        "Flipped one bit in a copy: verify finds it, and reading is refused.",
        f"{named[0]['place'].removeprefix(event.session_id).strip()}: {named[0]['detail']}; "
        "the original verifies"
        if named
        else "verify did not find it",
    )


def sealed_at(content: bytes, event: Event) -> int:
    """A place inside an event's sealed payload in the database file: the bytes whose hash is its address."""
    address = bytes.fromhex(event.payload_ref.rpartition("/")[2])
    for start in range(len(content) - event.size + 1):
        if hashlib.sha256(content[start : start + event.size]).digest() == address:
            return start + event.size // 2
    raise Tampered("the sample's payload is not where the log says")


def _verified(directory: Path) -> dict[str, Any]:
    """What ``session-vault verify`` says, as another process."""
    done = _child("verify", "--vault", str(directory), "--json")
    report: dict[str, Any] = json.loads(done.stdout or b"{}")
    return report


def _refuses_to_read(copy: Path, event: Event) -> bool:
    with vault.Vault.open(copy) as opened:
        try:
            list(_owner(opened).resume(event.session_id).events())
        except Tampered:
            return True
    return False


def _look(keep: Path) -> str:
    place = keep.absolute()
    return (
        f"Kept in {place}; look at it with\n"
        f"  export XDG_STATE_HOME='{place}/state' SESSION_VAULT='{place}/demo.vault'\n"
        f"  session-vault sessions --tenant '{_TENANT}' --as '{_SUBJECT}'"
    )
