"""Commands ``replay`` and ``context``: the state after each event, and what a model would be shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.text import Text

from vault.cli.call import OwnerCall, SessionArgument, check_event_id, command
from vault.cli.output import console, document, note, say, show
from vault.cli.printable import iso, plural
from vault.cli.readable import event_document
from vault.cli.steps import changed_parts, changes
from vault.cli.timeline import Timeline, header
from vault.clock import SystemClock, from_us
from vault.errors import InvalidInput
from vault.policy.recovery import DEFAULT, state_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault.policy.context import Context
    from vault.sessions.recover import Step
    from vault.sessions.session import Session


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "replay")(replay)
    command(app, "context")(show_context)


# ------------------------------------------------------------------------------------------------- replay


def replay(
    call: OwnerCall,
    *,
    session: SessionArgument,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="EVENT", help="Stop behind this event and print the whole state."),
    ] = None,
    step: Annotated[
        bool, typer.Option("--step", help="Wait for Enter behind each event; wants a terminal.")
    ] = False,
) -> None:
    """Replay a session: what each event changed in its state.

    The state is the one that recovery rebuilds. With --json, one document for each event, with the state
    after it; with --at only that of this event.
    """
    check_event_id(at, "--at")
    if step and (call.as_json or not sys.stdin.isatty()):
        raise InvalidInput("--step waits for Enter on a terminal; leave it out where there is none")
    with call.session(session) as found:
        if at is not None:
            found.slice(at, at)  # an event of another session is refused before anything is printed
        if call.as_json:
            _print_documents(found, at)
        else:
            _print_steps(found, at, step=step)


def _print_documents(found: Session, at: str | None) -> None:
    for item in _until(found, at):
        if at is None or item.event.id == at:
            document(
                {
                    "event": item.event.id,
                    "seq": item.event.seq,
                    "type": item.event.type,
                    "recorded_at": iso(item.event.recorded_at),
                    "sha256": state_hash(item.state),
                    "state": item.state,
                }
            )


def _print_steps(found: Session, at: str | None, *, step: bool) -> None:
    info = found.info()
    show(header(info, from_us(SystemClock().now_us())))
    timeline, before, last = Timeline(console(), info.event_count), DEFAULT.initial, 0
    for item in _until(found, at):
        timeline.add(item.event, "; ".join(changes(before, item.state)) or "nothing changed")
        last = item.event.seq
        if step:
            _print_state(changed_parts(before, item.state))
            if not _go_on():
                break
        before = item.state
        if item.event.id == at:
            say(f"the state after event {last:,}, sha256 {state_hash(before)}:")
            _print_state(before)
    say(f"{last:,} of {plural(info.event_count, 'event')} replayed")


def _until(found: Session, at: str | None) -> Iterator[Step]:
    for item in found.replay():
        yield item
        if item.event.id == at:
            return


def _print_state(parts: dict[str, Any]) -> None:
    if parts:
        say(orjson.dumps(parts, option=orjson.OPT_INDENT_2).decode())


def _go_on() -> bool:
    """Whether Enter was pressed; anything else, or the end of the input, stops."""
    sys.stdout.flush()
    sys.stderr.write("Enter: the next event; q and Enter: stop ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        note("")
    return answer.strip() == "" and answer != ""


# ------------------------------------------------------------------------------------------------ context


def show_context(
    call: OwnerCall,
    *,
    session: SessionArgument,
    max_events: Annotated[
        int | None, typer.Option("--max-events", min=1, metavar="N", help="At most so many events.")
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=1, metavar="N", help="At most so many tokens, roughly counted."),
    ] = None,
) -> None:
    """Show what would be loaded into a model's context.

    The newest events that fit, the oldest of them first; a tool call and its result come together or not at
    all, and a summary stands where what it covers was. Tokens are estimated as a quarter of the bytes.
    """
    with call.session(session) as found:
        info, chosen = found.info(), found.context(max_events=max_events, max_tokens=max_tokens)
    if call.as_json:
        document(_document(chosen))
        return
    show(header(info, from_us(SystemClock().now_us())))
    timeline = Timeline(console(), info.event_count)
    for event in chosen.events:
        timeline.add(event)
    shown = f"{len(chosen.events):,} of {plural(info.event_count, 'event')}"
    say(f"{shown}, about {plural(chosen.tokens, 'token')}")
    show(Text(f"{chosen.reason}{_left_out(chosen)}"))


def _left_out(chosen: Context) -> str:
    if chosen.left_out is None:
        return "; how many those are was not counted"
    return f"; left out: {plural(chosen.left_out, 'event')}" if chosen.left_out else "; nothing is left out"


def _document(chosen: Context) -> dict[str, Any]:
    return {
        "events": [event_document(event) for event in chosen.events],
        "summary": None if chosen.summary is None else chosen.summary.id,
        "left_out": chosen.left_out,
        "tokens": chosen.tokens,
        "reason": chosen.reason,
    }
