"""Commands ``hold``: what a hold names is kept, whatever a policy or a person asks, until it is lifted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from vault.cli.call import OwnerCall, command
from vault.cli.erasing import LabelOption, SubjectOption, WholeOption, label_pair
from vault.cli.output import document, note, say, show
from vault.cli.plans import tell
from vault.cli.policies import NEW_TENANT, is_new_tenant
from vault.cli.printable import iso, local, one_line, plural
from vault.errors import NotFound
from vault.model import parse_id
from vault.policy.plan import refuse_selector

if TYPE_CHECKING:
    from vault.erasure.holds import Hold
    from vault.faces import Access

_REASON_MAX: Final = 1_000
_NAMED_MAX: Final = 1_000
_SCOPES: Final = {
    "session": "one session, and what was derived from it",
    "subject": "everything of one person",
    "label": "every session with one label",
    "tenant": "everything of the tenant",
}
_NOBODY: Final = "no holds for this tenant and role: they are for --role privacy_officer, with --as"

ReasonOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Why, for the audit trail; 1,000 characters at most."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    hold = typer.Typer(rich_markup_mode=None, help="Keep things from being erased, as privacy_officer.")
    command(hold, "place")(place)
    command(hold, "lift")(lift)
    command(hold, "list")(list_holds)
    app.add_typer(hold, name="hold")


@contextmanager
def _officer(call: OwnerCall) -> Iterator[Access]:
    """What an officer reaches; anybody else is told who may.

    Raises:
        NotFound: no leave to hold.
    """
    with call.access() as access:
        try:
            yield access
        except NotFound:
            try:
                access.holds.list()
            except NotFound:
                raise NotFound(_NOBODY) from None
            raise


def place(
    call: OwnerCall,
    *,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="One session, and what came from it.")
    ] = None,
    person: SubjectOption = None,
    label: LabelOption = None,
    tenant_whole: WholeOption = False,
    reason: ReasonOption,
) -> None:
    """Keep everything that one thing names, from now on, until the hold is lifted.

    It beats policies and people. What was erased before is not brought back: how much that may be, is said.
    """
    pair = label_pair(label)
    if person is not None:
        refuse_selector(person)
    with _officer(call) as access:
        if session is not None and person is None and pair is None and not tenant_whole:
            _check_there(access, session)
        new = session is None and is_new_tenant(access)
        made = access.holds.place(
            session=session, subject=person, label=pair, tenant=tenant_whole, reason=reason
        )
    if call.as_json:
        document(_document(made))
        return
    say(f"{made.id} keeps {_SCOPES[made.scope]}")
    if new:
        note(NEW_TENANT)
    if made.too_late:
        tell(
            f"it may come too late for {plural(made.too_late, 'thing')}, erased before or being erased at"
            " that moment; nothing brings that back"
        )


def _check_there(access: Access, session_id: str) -> None:
    """Make sure that there is, or was, something to hold: nobody would see that a mistyped id keeps nothing.

    Raises:
        NotFound: there never was.
    """
    try:
        access.retention.explain(session_id)
    except NotFound:
        # One that was erased is held all the same: the attempt goes on record, and it is said to be too late.
        if parse_id("ses", session_id) is None or access.erasure.erased(session=session_id) is None:
            raise NotFound("there is no such session, so nothing is held") from None


def lift(
    call: OwnerCall,
    *,
    hold: Annotated[str, typer.Argument(metavar="HOLD", help="The id of a hold, as `hold list` shows it.")],
    reason: ReasonOption,
) -> None:
    """End a hold. What was to be erased meanwhile is due again, by itself."""
    with _officer(call) as access:
        access.holds.lift(hold, reason=reason)
    if call.as_json:
        document({"id": hold, "lifted": True})
    else:
        tell(
            "lifted; the next sweep erases what was due or asked for meanwhile, unless another hold keeps it"
        )


def list_holds(
    call: OwnerCall,
    *,
    lifted: Annotated[bool, typer.Option("--lifted", help="Also those that were lifted.")] = False,
) -> None:
    """List the holds in force: what each names, and why."""
    with _officer(call) as access:
        holds = access.holds.list(lifted=lifted)
    if call.as_json:
        document({"holds": [_document(one) for one in holds]})
    elif holds:
        show(*map(_text, holds))
    else:
        note("no hold is in force" if not lifted else "no hold was ever placed")


def _text(one: Hold) -> Text:
    ended = "in force" if one.lifted_at is None else f"lifted {local(one.lifted_at)}"
    head = Text.assemble((one.id, "bold"), "  ", (ended, "green" if one.lifted_at is None else "dim"))
    what = Text(f"  since {local(one.placed_at)}: {_SCOPES.get(one.scope, 'what it keeps is not on record')}")
    return Text("\n").join([head, what, *_named(one), Text(f"  {one_line(one.reason, _REASON_MAX)}")])


def _named(one: Hold) -> list[Text]:
    """The line that says what a hold names."""
    if one.named is not None:
        return [Text(f"  {one_line(one.named, _NAMED_MAX)}")]
    return [Text("  placed before names were kept", style="dim")] if one.scope in {"subject", "label"} else []


def _document(one: Hold) -> dict[str, Any]:
    return {
        "id": one.id,
        "scope": one.scope,
        "named": one.named,
        "reason": one.reason,
        "placed_at": iso(one.placed_at),
        "lifted_at": iso(one.lifted_at),
        "too_late": one.too_late,
    }
