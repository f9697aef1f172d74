"""Commands ``effects list`` and ``effects resolve``: what was done to the world, and what nobody knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from vault.cli.accounts import compact, effect_name
from vault.cli.call import OwnerCall, SessionArgument, command
from vault.cli.output import console, document, note, say, show
from vault.cli.printable import ago, local, one_line, plural, visible
from vault.cli.timeline import NARROW_CELLS
from vault.cli.waking import effect_document
from vault.clock import SystemClock, from_us
from vault.encoding import json_value
from vault.errors import InvalidInput
from vault.sessions.effect import Resolution

if TYPE_CHECKING:
    from datetime import datetime

    from vault.sessions.facts import EffectState

_IN_DOUBT: Final = "in doubt"
_DECISIONS: Final = ("retry", "commit", "fail")
_STYLES: Final = {"committed": "green", "failed": "dim", _IN_DOUBT: "bold yellow"}
#: Who decided, in the log: the program does not know who sits at the terminal.
_BY: Final = "command line"
_NEXT: Final = {
    "retry": "the next run may carry it out again",
    "commit": "no run carries it out again",
    "fail": "it is over; a run may intend it anew",
}


class _Listing(TyperGroup):
    """A group whose command ``list`` need not be named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take everything but a known command and a call for help as arguments of ``list``."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    effects = typer.Typer(
        cls=_Listing,
        rich_markup_mode=None,
        help="Work on effects; `effects SESSION` lists them.",
    )
    command(effects, "list")(list_effects)
    command(effects, "resolve")(resolve)
    app.add_typer(effects, name="effects")


def list_effects(
    call: OwnerCall,
    *,
    session: SessionArgument,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="K", help="Only effects of this kind.")
    ] = None,
    in_doubt: Annotated[
        bool, typer.Option("--in-doubt", help="Only those of which nobody knows whether they happened.")
    ] = False,
) -> None:
    """List the effects of a session and its branches, the oldest first."""
    with call.session(session) as found:
        session_id, known = found.id, found.effects(kind=kind)
    shown = [effect for effect in known if not in_doubt or effect.state == _IN_DOUBT]
    if call.as_json:
        document({"session": session_id, "effects": [effect_document(effect) for effect in shown]})
        return
    if not shown:
        note("no effect to show")
        return
    show(_table(shown, session_id, from_us(SystemClock().now_us())))
    doubts = sum(effect.state == _IN_DOUBT for effect in shown)
    more = f"; {doubts:,} in doubt: find out what happened, then effects resolve" if doubts else ""
    show(Text(f"{plural(len(shown), 'effect')}{more}"))


def _table(shown: list[EffectState], session_id: str, now: datetime) -> RenderableType:
    if console().width < NARROW_CELLS:
        lines = [
            Text(f"{effect.state} {ago(effect.at, now)}\n", style=_STYLES[effect.state]).append_text(
                _told(effect, session_id)
            )
            for effect in shown
        ]
        return Text("\n").join(lines)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("state", no_wrap=True)
    table.add_column("effect", ratio=1, overflow="fold")
    table.add_column("since", no_wrap=True)
    for effect in shown:
        when = Text.assemble(ago(effect.at, now), ("\n" + local(effect.at), "dim"))
        table.add_row(Text(effect.state, style=_STYLES[effect.state]), _told(effect, session_id), when)
    return table


def _told(effect: EffectState, session_id: str) -> Text:
    """Kind and key, what is known of it, where it was written."""
    lines = [(effect_name(effect.kind, effect.key), "bold")]
    if effect.state == "committed" and effect.confirmation is not None:
        lines.append((f"→ {one_line(compact(effect.confirmation), 400)}", ""))
    if effect.intent is not None:
        lines.append((f"intent {one_line(compact(effect.intent), 400)}", ""))
    if effect.reason:
        lines.append((one_line(effect.reason, 400), ""))
    about = [("on", effect.resource), ("about", effect.subject)]
    changes = "  ".join(f"{word} {one_line(name, 120)}" for word, name in about if name)
    lines += [(changes, "cyan")] if changes else []
    lines += [(f"recorded in {effect.session_id}", "dim")] if effect.session_id != session_id else []
    lines += [(f"by {effect.run}" if effect.run else "outside a run", "dim"), ("", "")]
    return Text("\n").join(Text(visible(text), style=style) for text, style in lines)


def resolve(
    call: OwnerCall,
    *,
    session: SessionArgument,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="The effect's kind, as the list shows it.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The effect's key.")],
    decision: Annotated[
        str,
        typer.Option(
            "--decision",
            metavar="retry|commit|fail",
            help="retry: it did not happen, carry it out again. commit: it happened. fail: it did not, and "
            "is not wanted any more.",
        ),
    ],
    confirmation: Annotated[
        str | None,
        typer.Option("--confirmation", metavar="JSON", help="With commit: what the world says of it."),
    ] = None,
    why: Annotated[
        str | None, typer.Option("--why", metavar="TEXT", help="Why, for whoever reads the log.")
    ] = None,
) -> None:
    """Settle an effect of which nobody knows whether it happened.

    Find out first; what is decided here counts in every branch of the session.
    """
    if decision not in _DECISIONS:
        raise InvalidInput("--decision is retry, commit or fail")
    if confirmation is not None and decision != "commit":
        raise InvalidInput("--confirmation goes with --decision commit only")
    resolution = Resolution(
        decision=cast("Literal['retry', 'commit', 'fail']", decision),
        confirmation=None if confirmation is None else _parsed(confirmation),
        why=why,
        by=_BY,
    )
    with call.session(session) as found:
        settled = found.resolve(kind, key, resolution)
    if call.as_json:
        document(effect_document(settled))
    else:
        say(f"{effect_name(settled.kind, settled.key)} is {settled.state}: {_NEXT[decision]}")


def _parsed(confirmation: str) -> Any:
    try:
        return json_value(confirmation.encode())
    except ValueError:
        raise InvalidInput("""--confirmation is JSON, for example '{"id": 7}' or '"sent"'""") from None
