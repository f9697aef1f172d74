"""Commands ``why`` and ``wake``: where a session stands, without and with its lease."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import typer
from rich.text import Text

from vault.cli.accounts import effect_name
from vault.cli.call import OwnerCall, SessionArgument, command, found
from vault.cli.output import document, say, show
from vault.cli.printable import ago, iso, one_line, plural, visible
from vault.cli.timeline import header
from vault.clock import SystemClock, from_us
from vault.encoding import json_value
from vault.errors import ConfigDrift, InvalidInput
from vault.policy.drift import DOCUMENT_BYTES_MAX
from vault.policy.standing import standing, why_lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from vault.model import SessionSummary
    from vault.policy.freshness import WorldGap
    from vault.policy.standing import Standing
    from vault.sessions.facts import EffectState
    from vault.sessions.service import Sessions
    from vault.sessions.wake import Woken

_BY_HAND: Final = "woken by hand from the command line"
_POLICIES: Final = ("ask", "old", "new")
#: Pending tools, and effects in doubt, that are shown by name.
_LISTED_MAX: Final = 10


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "why")(why)
    command(app, "wake")(wake)


# ---------------------------------------------------------------------------------------------------- why


def why(call: OwnerCall, *, session: SessionArgument) -> None:
    """Say why a session stands still.

    Where it stands and since when, what its last run did, what is open, and what to do next. Nothing is
    written and no lease is taken: wake does that.
    """
    with call.session(session) as opened:
        info, state, now_us = opened.info(), opened.recover().state, SystemClock().now_us()
    about: dict[str, Any] = {"lease_live": info.lease.live, "shared_through": info.shared_through}
    stands = standing(state, **about)
    lines = why_lines(state, now_us=now_us, **about)
    if info.ended_at is not None:
        lines[-1] = f"The session was ended {ago(info.ended_at, from_us(now_us))}: it takes no more runs."
    if call.as_json:
        active = info.lease.run if info.lease.live else None
        document({"session": info.id, "standing": _standing(stands), "active": active, "lines": lines})
        return
    show(header(info, from_us(now_us)), Text())
    show(Text(visible("\n".join(lines))))


def _standing(stands: Standing) -> dict[str, Any]:
    since = None if stands.since_us is None else iso(from_us(stands.since_us))
    found = {"kind": stands.kind, "sentence": stands.sentence, "since": since}
    return found | {"pending_tools": stands.pending_tools, "effects_open": stands.effects_open}


# --------------------------------------------------------------------------------------------------- wake


def wake(
    call: OwnerCall,
    *,
    session: SessionArgument,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="NAME", help="The agent's configuration of now, to compare."),
    ] = None,
    config_document: Annotated[
        Path | None,
        typer.Option("--document", metavar="FILE", help="What that configuration is: a JSON object."),
    ] = None,
    on_drift: Annotated[
        str,
        typer.Option(
            "--on-drift",
            metavar="ask|old|new",
            help="When it is another one than the session's: refuse, or go on under the old or the new one.",
        ),
    ] = "ask",
    wait: Annotated[
        float | None,
        typer.Option("--wait", metavar="S", help="Wait so many seconds for the run at work to end."),
    ] = None,
) -> None:
    """Wake a session: what its agent would be told.

    It takes the lease, tells where the session stood, and gives the lease back; the log gets the beginning
    and the end of that run. To look without writing anything, use why.
    """
    given = None if config_document is None else _read_document(config_document)
    with call.sessions() as sessions:
        opened = found(sessions, session)
        woken = _woken(sessions, opened.id, config, given, on_drift, wait)
        info = opened.info()
    if call.as_json:
        document(_document(info, woken))
    else:
        _print(info, woken, compared=config is not None or given is not None)


def _woken(
    sessions: Sessions,
    session_id: str,
    config: str | None,
    config_document: Mapping[str, Any] | None,
    on_drift: str,
    wait: float | None,
) -> Woken:
    """The session, woken, and its lease given back."""
    if on_drift not in _POLICIES:
        raise InvalidInput("--on-drift is ask, old or new")
    policy = cast("Literal['ask', 'old', 'new']", on_drift)
    try:
        woken = sessions.wake(
            session_id, config=config, config_document=config_document, on_drift=policy, wait=wait
        )
    except ConfigDrift:
        raise ConfigDrift(
            "the configuration is not the one of this session; --on-drift old shows what differs and "
            "keeps the session's, new records the one given"
        ) from None
    woken.run.stop(_BY_HAND)
    return woken


def _read_document(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as source:
            content = source.read(
                4 * DOCUMENT_BYTES_MAX
            )  # white space aside, four times the limit is too much
        value = json_value(content)
    except OSError:
        raise InvalidInput("--document names a file that cannot be read") from None
    except ValueError:
        raise InvalidInput("--document names a file that is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidInput("--document names a file of JSON: one object, for example with tools and model")
    return value


def _print(info: SessionSummary, woken: Woken, *, compared: bool) -> None:
    now = from_us(woken.gap.now_us)
    show(header(info, now), Text())
    _fact("it stood", one_line(woken.standing.sentence, 400))
    _fact("its state", _recovered(woken))
    tools = [_tool(call, now) for call in woken.pending_tools]
    _list("tools without an answer", tools)
    hidden = [f"{woken.in_doubt_hidden:,} more that are not shown"] * (woken.in_doubt_hidden > 0)
    _list("effects in doubt", [*(_effect(effect, now) for effect in woken.in_doubt), *hidden])
    _fact("the world", "; ".join(_gap(woken.gap)))
    for line in _drift(woken) if compared else ["not compared: no configuration was given"]:
        _fact("its config", line)
    if woken.note:
        show(Text("\nnote for the model", style="bold"))
        show(Text(visible(woken.note)))
    say(f"\n{woken.run.id} took the lease and gave it back")


def _fact(name: str, text: str) -> None:
    show(Text.assemble((f"{name}: ", "bold"), visible(text)))


def _list(name: str, lines: list[str]) -> None:
    if not lines:
        _fact(name, "none")
        return
    show(Text(f"{name}:", style="bold"))
    for line in lines[:_LISTED_MAX]:
        show(Text(f"  {visible(line)}"))
    if len(lines) > _LISTED_MAX:
        show(Text(f"  and {len(lines) - _LISTED_MAX:,} more"))


def _recovered(woken: Woken) -> str:
    recovered = woken.recovered
    base = f"checkpoint {recovered.checkpoint}" if recovered.checkpoint else "the first event"
    return (
        f"rebuilt through event {recovered.through:,} from {base}, {plural(recovered.replayed, 'event')} "
        f"replayed; sha256 {recovered.sha256[:12]}…"
    )


def _tool(call: Mapping[str, Any], now: datetime) -> str:
    tool = one_line(call["tool"], 80) if call["tool"] else "a tool"
    return f"{tool}, asked for {ago(from_us(call['since_us']), now)}\n    {call['id']}"


def _effect(effect: EffectState, now: datetime) -> str:
    return f"{effect_name(effect.kind, effect.key)}, intended {ago(effect.at, now)}\n    {effect.fact}"


def _drift(woken: Woken) -> list[str]:
    if not woken.drift.changed:
        return list(woken.drift.lines) or [woken.choice.reason]
    return [*woken.drift.lines, f"An agent would go on under the {woken.choice.config} one."]


def _gap(gap: WorldGap) -> list[str]:
    return [gap.advice, *gap.reasons]


def _document(info: SessionSummary, woken: Woken) -> dict[str, Any]:
    gap, drift = woken.gap, asdict(woken.drift)
    return {
        "session": info.id,
        "run": woken.run.id,
        "standing": _standing(woken.standing),
        "recovered": asdict(woken.recovered),
        "pending_tools": [dict(call) for call in woken.pending_tools],
        "in_doubt": [effect_document(effect) for effect in woken.in_doubt],
        "in_doubt_hidden": woken.in_doubt_hidden,
        "gap": {
            "away_us": gap.away_us,
            "advice": gap.advice,
            "reasons": gap.reasons,
            "stale": [asdict(stale) for stale in gap.stale],
            "overtaken": [asdict(seen) for seen in gap.overtaken],
            "foreign": [asdict(effect) for effect in gap.foreign],
        },
        "drift": drift,
        "choice": asdict(woken.choice),
        "note": woken.note,
    }


def effect_document(effect: EffectState) -> dict[str, Any]:
    """An effect as a JSON object."""
    return asdict(effect) | {"at": iso(effect.at)}
