"""Commands ``tenants`` and ``principals``: who may do what, and how much there is; never content."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from vault.cli.call import OwnerCall, command
from vault.cli.entries import entry_document
from vault.cli.output import document, note, say, show
from vault.cli.printable import iso, local, one_line, plural
from vault.errors import NotFound
from vault.policy.access import ROLES

if TYPE_CHECKING:
    from vault.audit.administration import Admin, Registered, TenantCounts

_NAME_MAX = 256


def register(app: typer.Typer) -> None:
    """Add the commands."""
    tenants = typer.Typer(rich_markup_mode=None, help="See and add tenants, as administrator.")
    command(tenants, "list")(list_tenants)
    command(tenants, "show")(show_tenant)
    command(tenants, "add")(add_tenant)
    app.add_typer(tenants, name="tenants")
    principals = typer.Typer(rich_markup_mode=None, help="Say who has which roles, as administrator.")
    command(principals, "list")(list_principals)
    command(principals, "add")(add_principal)
    command(principals, "remove")(remove_principal)
    app.add_typer(principals, name="principals")


@contextmanager
def _admin(call: OwnerCall) -> Iterator[Admin]:
    """The directory; whoever may not look is answered as in a tenant that is not there."""
    with call.access() as access:
        try:
            yield access.admin
        except NotFound as refusal:
            if "session" not in str(refusal):
                raise
            raise NotFound("there is no directory for this tenant and role") from None


# ---------------------------------------------------------------------------------------------- tenants


def list_tenants(call: OwnerCall) -> None:
    """List one's own tenant and those that were added from it, with how much they hold."""
    with _admin(call) as admin:
        found = admin.tenants()
    if call.as_json:
        document({"tenants": [_tenant_document(one) for one in found]})
        return
    table = _made_table("tenant", "sessions", "events", "bytes")
    for one in found:
        table.add_row(*map(Text, (one_line(one.name, _NAME_MAX), *_numbers(one))))
    show(table)


def show_tenant(
    call: OwnerCall,
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One that was added from yours; without it your own.")
    ] = None,
) -> None:
    """Show how much a tenant holds."""
    with _admin(call) as admin:
        found = admin.tenant(name)
    if call.as_json:
        document(_tenant_document(found))
        return
    say(f"{plural(found.sessions, 'session')}, {plural(found.events, 'event')}, {found.bytes:,} bytes sealed")
    if found.added_at is not None:
        say(f"added {local(found.added_at)}")


def add_tenant(
    call: OwnerCall,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A tenant that is not there yet.")],
    administrator: Annotated[
        str | None,
        typer.Option("--administrator", metavar="SUBJECT", help="Whom its directory begins with."),
    ] = None,
) -> None:
    """Make another tenant known; its keys are its own."""
    with _admin(call) as admin:
        entry = admin.add_tenant(name, administrator=administrator)
    if call.as_json:
        document(entry_document(entry))
    else:
        say("added; its sessions share keys with no other tenant's")


def _tenant_document(one: TenantCounts) -> dict[str, Any]:
    counts = {"sessions": one.sessions, "events": one.events, "bytes": one.bytes}
    return {"name": one.name, **counts, "added_at": iso(one.added_at)}


def _numbers(one: TenantCounts) -> tuple[str, ...]:
    return f"{one.sessions:,}", f"{one.events:,}", f"{one.bytes:,}"


# ------------------------------------------------------------------------------------------- principals


def list_principals(call: OwnerCall) -> None:
    """List who is registered in the tenant, with their roles and teams."""
    with _admin(call) as admin:
        found = admin.principals()
    if call.as_json:
        document({"principals": [_principal_document(one) for one in found]})
        return
    if not found:
        note("nobody is registered; principals add begins a directory, with an administrator")
        return
    table = _made_table("subject", "roles", "teams", "since")
    for one in found:
        teams = ", ".join(one_line(team, _NAME_MAX) for team in sorted(one.teams))
        row = one_line(one.subject, _NAME_MAX), ", ".join(sorted(one.roles)), teams, local(one.since)
        table.add_row(*map(Text, row))
    show(table)


def add_principal(
    call: OwnerCall,
    *,
    who: Annotated[str, typer.Argument(metavar="SUBJECT", help="Who, as in --as.")],
    roles: Annotated[
        list[str], typer.Argument(metavar="ROLE...", help=f"One or more of {', '.join(ROLES)}.")
    ],
    into: Annotated[
        list[str] | None,
        typer.Option("--into", metavar="TEAM", help="A team that they are in; may be given again."),
    ] = None,
) -> None:
    """Register somebody; a later entry replaces an earlier one.

    Once somebody is registered in a tenant, commands take roles and teams from there, and --role is left
    out. Who is not registered then is agent and owner of their own sessions only. The first one is an
    administrator.
    """
    with _admin(call) as admin:
        entry = admin.add_principal(who, roles=roles, teams=into or ())
    if call.as_json:
        document(entry_document(entry))
    else:
        say(f"registered as {' and '.join(entry.said['roles'])}")


def remove_principal(
    call: OwnerCall,
    *,
    who: Annotated[str, typer.Argument(metavar="SUBJECT", help="Who is registered.")],
) -> None:
    """Take somebody out of the directory; they have no role any more."""
    with _admin(call) as admin:
        entry = admin.remove_principal(who)
    if call.as_json:
        document(entry_document(entry))
    else:
        say("removed; they have no role in this tenant any more")


def _principal_document(one: Registered) -> dict[str, Any]:
    return {
        "subject": one.subject,
        "roles": sorted(one.roles),
        "teams": sorted(one.teams),
        "since": iso(one.since),
    }


def _made_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
